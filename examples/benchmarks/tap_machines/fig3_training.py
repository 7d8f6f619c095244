"""TAP log-likelihood per unit over the epochs of training: Fig. 3 of Tramel et al. (2018).

    python examples/benchmarks/tap_machines/fig3_training.py [MACHINE ...] [--scale 1.0] [--out PNG]

RBMs of Table 1, each named by its data and number of hidden units (binary-mnist:100), are trained
with iterations that start at the data. The paper trains for 100 epochs and iterates to convergence
in each update. A run here is the beginning of such a training: ``--scale`` multiplies the epochs of
each, and an update makes at most ``--sweeps`` sweeps. RBMs of MNIST use ``--speed`` times the
learning rate of Table 1 and see 60 000 / ``--speed`` images in an epoch, so that learning rate
times updates is the paper's.

The log-likelihood (Eq. 39) is that of 10 000 training rows, fewer for CBCL, divided by the number
of visible and hidden units, with its standard error over rows. Free energies are those of the
unique solutions that ``--starts`` training rows lead to, followed until the mean squared change of
the magnetizations is 1e-12.
"""

import argparse
import time

import numpy as np
from _paper import dataset, epochs_of, heading, log_spaced, table, tap_log_likelihood, tap_machine
from scipy.stats import entropy
from threadpoolctl import threadpool_limits

# Epochs of the paper's 100 that scale 1 runs.
EPOCHS = {"binary-mnist": 30, "real-mnist": 10, "cbcl": 40}
MACHINES = [
    *(f"binary-mnist:{n}" for n in (25, 50, 100, 500)),
    *(f"real-mnist:{n}" for n in (100, 500)),
    "cbcl:256",
]


def train(machine, args):
    """Return rows of the table for one machine, printing each."""
    name, n_hidden = machine.split(":")
    X = dataset(name)
    speed = 1 if name == "cbcl" else args.speed
    rbm = tap_machine(name, X, int(n_hidden), sweeps=args.sweeps, alpha=args.alpha)
    n_units, last = X.shape[1] + int(n_hidden), max(1, round(EPOCHS[name] * args.scale))
    rows, seconds, begin = [], 0.0, time.process_time()
    for epoch in epochs_of(rbm, X, speed=speed):
        seconds += time.process_time() - begin
        if epoch in log_spaced(last, 12):
            measured, n_solutions, converged = tap_log_likelihood(rbm, X[:10000], X[: args.starts])
            measured = measured / n_units
            error = float(measured.std() / np.sqrt(len(measured)))
            strongest = float(np.abs(rbm.components_).max())
            rows.append(
                (machine, epoch, seconds, float(measured.mean()), error, n_solutions, converged)
            )
            rows[-1] += (strongest, effective_rank(rbm.components_))
            print(f"{machine}, epoch {epoch}: {rows[-1][3]:.4f} in {seconds:.1f} s", flush=True)
        if epoch == last:
            return rows
        begin = time.process_time()


def effective_rank(W):
    """Return the exponential of the entropy of the squared singular values, as a distribution."""
    values = np.linalg.svd(W, compute_uv=False).astype(float) ** 2
    return float(np.exp(entropy(values)))


def draw(rows, path):
    """Draw the curves, a panel for each data set."""
    import matplotlib.pyplot as plt

    machines = list(dict.fromkeys(row[0] for row in rows))
    panels = list(dict.fromkeys(machine.split(":")[0] for machine in machines))
    figure, axes = plt.subplots(
        1, len(panels), figsize=(4 * len(panels), 3.2), layout="constrained", squeeze=False
    )
    for axis, panel in zip(axes[0], panels, strict=True):
        for machine in machines:
            if machine.split(":")[0] == panel:
                curve = np.array([row[1:5] for row in rows if row[0] == machine])
                axis.plot(curve[:, 0], curve[:, 2], ".-", label=f"{machine.split(':')[1]} hidden")
        axis.set(title=panel, xlabel="epoch", ylabel="TAP log-likelihood per unit (nats)")
        axis.legend()
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("machines", nargs="*", metavar="MACHINE", default=MACHINES)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--speed", type=int, default=10)
    parser.add_argument("--sweeps", type=int, default=30)
    parser.add_argument("--starts", type=int, default=100)
    parser.add_argument("--alpha", type=float, help="L2 penalty in place of Table 1's")
    parser.add_argument("--out", help="where to save the picture")
    args = parser.parse_args()
    heading(__file__, args)
    with threadpool_limits(1):
        rows = [row for machine in args.machines for row in train(machine, args)]
    print()
    names = "machine", "epoch", "fit s", "per unit", "se", "solutions", "converged"
    table((*names, "max |W|", "rank"), rows)
    if args.out:
        draw(rows, args.out)


if __name__ == "__main__":
    main()
