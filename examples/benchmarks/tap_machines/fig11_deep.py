"""Joint training of deep models after greedy pretraining: Fig. 11 of Tramel et al. (2018).

    python examples/benchmarks/tap_machines/fig11_deep.py [SIZES ...] [--scale 0.01] [--rows 60000]

The data are binary MNIST, with two and three hidden layers (``500,100`` and ``500,250,100``; the
paper's text gives no sizes). In the paper models are pretrained for 50 epochs and trained jointly
for 3 000 epochs with a rate of 0.001. ``--scale`` multiplies the epochs and divides the rate, so
that rate times epochs is the paper's; pretraining has at least one epoch, or ``--pretrain`` of
them. With ``--pretrain 0`` joint training starts at small random weights, which fails according to
the paper, as upper layers stay small.

Each line describes the model after a number of joint epochs, where 0 is the pretrained stack. First
comes the TAP log-likelihood (Eq. 39; both the clamped and the free term by TAP) per unit, of 2 000
training and of 2 000 test rows, with its standard error over test rows; then the same in nats per
test row. Next is the log-likelihood with log Z by AIS instead (100 chains, 1 000 temperatures),
which shows how optimistic TAP is, and that with the clamped term by naive mean field and log Z by
AIS, which is a lower bound as far as AIS is right. The last columns are the Frobenius norms of the
weights, and the largest entry of the weights above the first layer.
"""

import argparse
import time

import numpy as np
from _paper import dataset, heading, log_spaced, table
from threadpoolctl import threadpool_limits

from skrbm import DeepTAPMachine
from skrbm.evaluation import AIS, log_partition
from skrbm.learning import SGD

SIZES = ["500,100", "500,250,100"]


def measure(machine, X, X_test):
    """Return the columns of a line after the number of epochs and the seconds."""
    n_units = sum(machine.machine_.n_units)
    train, test = (machine.tap_log_likelihood(rows) for rows in (X, X_test))
    error = float(test.std() / np.sqrt(len(test)) / n_units)
    annealed = log_partition(machine, AIS(100, 1000), random_state=0)
    by_tap = -float(machine.free_energy(X_test).mean()) - annealed.value
    inference = machine.inference
    naive = machine.set_params(inference="naive_mean_field").free_energy(X_test)
    machine.set_params(inference=inference)
    bound = -float(naive.mean()) - annealed.value
    norms = [float(np.linalg.norm(W)) for W in machine.components_]
    upper = max(float(np.abs(W).max()) for W in machine.components_[1:])
    means = float(train.mean()) / n_units, float(test.mean()) / n_units, error, float(test.mean())
    weights = " ".join(f"{norm:.1f}" for norm in norms)
    return *means, by_tap, annealed.std, bound, weights, upper


def train(sizes, args):
    """Return the lines of one machine, printing each."""
    X, X_test = dataset("binary-mnist", args.rows), dataset("binary-mnist-test", 2000)
    epochs = max(1, round(50 * args.scale))
    machine = DeepTAPMachine(
        tuple(int(n) for n in sizes.split(",")),
        n_iter_pretrain=epochs if args.pretrain is None else args.pretrain,
        n_iter=0,
        learning_rate=0.001 / args.scale,
        batch_size=100,
        warm_start=True,
        random_state=0,
        optimizer=SGD(momentum=0.5, alpha=args.alpha, schedule="constant"),
    )
    last = max(1, round(3000 * args.scale))
    lines, done, seconds = [], 0, 0.0
    for epoch in [0, *log_spaced(last, args.points)]:
        begin = time.process_time()
        machine.set_params(n_iter=epoch - done).fit(X)
        seconds, done = seconds + time.process_time() - begin, epoch
        lines.append((sizes, epoch, seconds, *measure(machine, X[:2000], X_test)))
        print(*lines[-1], flush=True)
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sizes", nargs="*", default=SIZES)
    parser.add_argument("--scale", type=float, default=0.01)
    parser.add_argument("--rows", type=int, default=60000)
    parser.add_argument("--pretrain", type=int, help="epochs for each layer")
    parser.add_argument("--alpha", type=float, default=0.001)
    parser.add_argument("--points", type=int, default=4)
    args = parser.parse_args()
    heading(__file__, args)
    with threadpool_limits(1):
        lines = [line for sizes in args.sizes for line in train(sizes, args)]
    print()
    names = "hidden", "epoch", "fit s", "train/unit", "test/unit", "se", "TAP", "AIS", "se"
    table((*names, "bound", "norms", "max |W2..|"), lines)


if __name__ == "__main__":
    main()
