"""TAP log-likelihood, pseudo-likelihood and AIS during training: Fig. 12 of Tramel et al.

    python examples/benchmarks/tap_machines/fig12_agreement.py [--epochs 100] [--out PNG]

One RBM with 500 hidden units learns thresholded MNIST with the settings of Table 1, but with
``--speed`` times the rate and as many times fewer updates in an epoch, and with ``--sweeps`` sweeps
in an update. Measurements are made after ``--points`` epochs, evenly spaced in log(epoch): on 1 000
training rows the TAP log-likelihood, from the unique solutions that 100 training rows lead to,
followed to a mean squared change of 1e-12; AIS, with the larger log Z of 100 runs over the 14 500
temperatures of Salakhutdinov and Murray (2008) and of 100 reverse runs from training rows after
1 000 sweeps; and the exact pseudo-likelihood of 500 rows, over all pixels. All are divided by the
number of units, 1 284. Figures to reach: rank correlations of 0.95 over all epochs.
"""

import argparse
import time

import numpy as np
from _paper import dataset, epochs_of, heading, log_spaced, table, tap_log_likelihood, tap_machine
from scipy.stats import spearmanr
from threadpoolctl import threadpool_limits

from skrbm import TAPRBM
from skrbm.arrays import Columns
from skrbm.evaluation import AIS, bracket, pseudo_log_likelihood
from skrbm.inference import TAP


def train(X, args):
    """Return {epoch: machine} of one training, for every epoch."""
    rbm = tap_machine("binary-mnist", X, args.hidden, sweeps=args.sweeps, alpha=args.alpha)
    epochs, machines = epochs_of(rbm, X, speed=args.speed), {}
    for epoch in epochs:
        machines[epoch] = rbm.machine_.copy()
        if epoch == args.epochs:
            return machines


def ais(machine, X):
    """Return (mean log-likelihood of 1 000 rows, log Z of the reverse runs minus the forward)."""
    base = machine.units[0].initial_theta(Columns(X))
    method = AIS(100, "salakhutdinov2008")
    found = bracket(machine, X[:100], method=method, base=base, random_state=0)
    log_z = max(found.forward.value, found.reverse.value)
    return -float(estimator(machine).free_energy(X[:1000]).mean()) - log_z, found.gap


def estimator(machine):
    """Return the TAPRBM of a machine."""
    visible, hidden = (theta.field for theta in machine.thetas)
    return TAPRBM.from_parameters(
        machine.weights[0], hidden, visible, inference=TAP(max_iter=2, n_starts=1)
    )


def measure(epoch, machine, X):
    """Return a row of the table: epoch, TAP, AIS and its gap, PL, solutions, converged."""
    rbm = estimator(machine)
    tap, n_solutions, converged = tap_log_likelihood(rbm, X[:1000], X[:100])
    annealed, gap = ais(machine, X)
    pseudo = float(pseudo_log_likelihood(rbm, X[:500]).mean())
    n_units = sum(machine.n_units)
    values = float(tap.mean()), annealed, gap, pseudo
    print(f"epoch {epoch}: TAP {values[0]:.2f}, AIS {annealed:.2f} nats", flush=True)
    return epoch, *(value / n_units for value in values), n_solutions, converged


def draw(rows, path):
    """Draw the three measures over epochs."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(5, 3.5), layout="constrained")
    names = "epoch", "TAP", "AIS", "gap", "pseudo-likelihood"
    columns = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    for name in ("TAP", "AIS", "pseudo-likelihood"):
        axis.plot(columns["epoch"], columns[name], ".-", label=name)
    axis.set(xscale="log", xlabel="epoch", ylabel="log-likelihood per unit (nats)")
    axis.legend()
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--hidden", type=int, default=500)
    parser.add_argument("--speed", type=int, default=10)
    parser.add_argument("--sweeps", type=int, default=10)
    parser.add_argument("--alpha", type=float, help="L2 penalty in place of Table 1's")
    parser.add_argument("--points", type=int, default=20)
    parser.add_argument("--out", help="where to save the picture")
    args = parser.parse_args()
    heading(__file__, args)
    X, begin = dataset("binary-mnist"), time.process_time()
    with threadpool_limits(1):
        machines = train(X, args)
        print(f"trained in {time.process_time() - begin:.0f} s", flush=True)
        rows = [measure(t, machines[t], X) for t in log_spaced(args.epochs, args.points)]
    print()
    table(("epoch", "TAP", "AIS", "gap", "pseudo", "solutions", "converged"), rows)
    tap, annealed, pseudo = (np.array([row[i] for row in rows]) for i in (1, 2, 4))
    for name, pair in {
        "TAP, AIS": (tap, annealed),
        "TAP, pseudo": (tap, pseudo),
        "AIS, pseudo": (annealed, pseudo),
    }.items():
        print(f"rank correlation of {name}: {spearmanr(*pair).statistic:.3f}")
    print(f"mean |TAP - AIS| per unit: {np.abs(tap - annealed).mean():.4f} nats")
    print(f"{time.process_time() - begin:.0f} s of processor time")
    if args.out:
        draw(rows, args.out)


if __name__ == "__main__":
    main()
