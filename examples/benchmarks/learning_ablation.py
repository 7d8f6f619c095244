"""Centred gradients, averaged parameters and the penalty on MNIST, in equal time.

    SKRBM_DATA=... python examples/benchmarks/learning_ablation.py [--seconds 85] [--only NAME ...]

PCD-1 of 784 x 500 units on the 60 000 thresholded training images, with batches of 100 and a
decreasing learning rate. "penalty" is ``alpha="auto"``; the others have none. The number of epochs
follows from the processor time, by a short trial. ``--drawn`` takes grey levels for training, of
which each batch has new draws, and the published stochastic binarization of the test images.
"""

import argparse
import time

import numpy as np
from _common import data_folder, heading, mnist, progress, table
from threadpoolctl import threadpool_limits

from skrbm import RBM
from skrbm.arrays import Columns
from skrbm.evaluation import AIS, log_partition, reverse_log_partition
from skrbm.learning import SGD

PLAIN = SGD(alpha=0.0, centered=False, average=False)
CONTENDERS = {
    "plain, 0.05": {"learning_rate": 0.05, "optimizer": PLAIN},
    "plain, 0.2": {"learning_rate": 0.2, "optimizer": PLAIN},
    "averaged, 0.05": {"learning_rate": 0.05, "optimizer": SGD(alpha=0.0, centered=False)},
    "centred, 0.2": {"learning_rate": 0.2, "optimizer": SGD(alpha=0.0, average=False)},
    "centred and averaged, 0.2": {"learning_rate": 0.2, "optimizer": SGD(alpha=0.0)},
    "centred and averaged, 0.2, penalty": {"learning_rate": 0.2, "optimizer": SGD()},
}
TRIAL = 6000  # rows


def fitted(params, X, seconds):
    """Return an RBM trained for about the given processor time, and the time."""

    def fit(rows, n_iter):
        begin = time.process_time()
        rbm = RBM(500, n_iter=n_iter, random_state=0, **params).fit(rows)
        return rbm, time.process_time() - begin

    first = fit(X[:TRIAL], 1)[1]
    epoch = (fit(X[:TRIAL], 3)[1] - first) / 2 * len(X) / TRIAL
    return fit(X, max(1, round(seconds / epoch)))


def likelihood(rbm, X, X_test, n_temperatures):
    """Return mean test log-likelihoods and their standard errors, by AIS and reverse AIS."""
    method, base = AIS(100, n_temperatures), rbm.machine_.units[0].initial_theta(Columns(X))
    forward = log_partition(rbm, method, base=base, random_state=0)
    backward = reverse_log_partition(rbm, X[:100], method=method, base=base, random_state=0)
    mean = -float(np.mean(rbm.free_energy(X_test)))
    return mean - forward.value, forward.std, mean - backward.value, backward.std


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=85.0)
    parser.add_argument("--temperatures", type=int, default=5000)
    parser.add_argument("--only", nargs="*", default=tuple(CONTENDERS))
    parser.add_argument("--drawn", action="store_true")
    args = parser.parse_args()
    heading(__file__, args)
    X, X_test = mnist("train")[0], mnist("test")[0]
    X_base = X
    if args.drawn:
        X = mnist("train", threshold=None)[0].astype(np.float32) / 255
        path = data_folder() / "rbm-reference" / "mnist_randomly_binarised_papamakarios.npz"
        X_base, X_test = (np.unpackbits(np.load(path)[part], axis=1) for part in ("train", "test"))
    rows = []
    for name in args.only:
        with threadpool_limits(1):
            rbm, seconds = fitted(CONTENDERS[name], X, args.seconds)
        found = likelihood(rbm, X_base, X_test, args.temperatures)
        rows.append((name, rbm.n_iter_, seconds, *found))
        progress(rows[-1])
    table(("learning", "epochs", "s", "AIS", "se", "reverse AIS", "se"), rows)


if __name__ == "__main__":
    main()
