"""What centred gradients, averaged parameters and automatic steps gain on MNIST, in equal time.

    SKRBM_DATA=... python examples/benchmarks/learning_ablation.py [--seconds 85] [--only NAME ...]

PCD-1 of 784 x 500 units, batches of 100, on the 60 000 thresholded training images, with a learning
rate that falls in a line. "penalty" is ``alpha="auto"``; the others have none. Every contender has
as many passes as fit into the seconds of processor time, by a short trial. The likelihood of the
test images is the lower of AIS and reverse AIS. The estimates of log Z take longer than the fits.
``--binarised`` takes the published stochastic binarisation, which SKRBM_DATA has, in place of
thresholded pixels; with ``--drawn`` it is that of the test images alone, and the training images
are grey levels, of which each batch takes new draws.
"""

import argparse
import time

import numpy as np
from _common import data_folder, heading, mnist, progress, table
from mnist_likelihood import binarised
from threadpoolctl import threadpool_limits

from skrbm import RBM
from skrbm.arrays import Columns
from skrbm.evaluation import AIS, log_partition, reverse_log_partition

CONTENDERS = {
    "plain, 0.05": {"learning_rate": 0.05, "centered": False, "average": False},
    "plain, 0.2": {"learning_rate": 0.2, "centered": False, "average": False},
    "centred, 0.2": {"learning_rate": 0.2, "centered": True, "average": False},
    "averaged, 0.05": {"learning_rate": 0.05, "centered": False, "average": True},
    "centred, averaged, 0.2": {"learning_rate": 0.2},
    "centred, averaged, 0.2, penalty": {"learning_rate": 0.2, "alpha": "auto"},
    "centred, averaged, automatic": {},
    "centred, averaged, automatic, penalty": {"alpha": "auto"},
    "the same with tempered chains": {"alpha": "auto", "starts": "tempered"},
}
TRIAL = 6000  # rows


def fitted(params, X, seconds, hidden):
    """Return a machine trained for about some seconds of processor time, and the seconds."""

    def fit(rows, n_iter):
        begin = time.process_time()
        rbm = RBM(hidden, n_iter=n_iter, random_state=0, **{"alpha": 0.0, **params}).fit(rows)
        return rbm, time.process_time() - begin

    first = fit(X[:TRIAL], 1)[1]
    pass_seconds = (fit(X[:TRIAL], 3)[1] - first) / 2 * len(X) / TRIAL
    return fit(X, max(1, round(seconds / pass_seconds)))


def likelihood(rbm, X, X_test, n_chains, schedule):
    """Return mean log-likelihoods of test rows and their standard errors, by AIS and in reverse."""
    method, base = AIS(n_chains, schedule), rbm.machine_.units[0].initial_theta(Columns(X))
    forward = log_partition(rbm, method, base=base, random_state=0)
    backward = reverse_log_partition(rbm, X[:n_chains], method=method, base=base, random_state=0)
    mean = -float(np.mean(rbm.free_energy(X_test)))
    return mean - forward.value, forward.std, mean - backward.value, backward.std


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=85.0)
    parser.add_argument("--hidden", type=int, default=500)
    parser.add_argument("--chains", type=int, default=100)
    parser.add_argument("--temperatures", type=int, default=5000)
    parser.add_argument("--only", nargs="*", default=tuple(CONTENDERS))
    parser.add_argument("--binarised", action="store_true")
    parser.add_argument("--drawn", action="store_true")
    args = parser.parse_args()
    args.binarised |= args.drawn
    if args.binarised and data_folder() is None:
        parser.error("--binarised reads the folder that SKRBM_DATA names; it is not set")
    heading(__file__, args)
    X, X_test = binarised() if args.binarised else (mnist(part)[0] for part in ("train", "test"))
    X_train = mnist("train", threshold=None)[0].astype(np.float32) / 255 if args.drawn else X
    rows = []
    for name in args.only:
        with threadpool_limits(1):
            rbm, seconds = fitted(CONTENDERS[name], X_train, args.seconds, args.hidden)
        found = likelihood(rbm, X, X_test, args.chains, args.temperatures)
        rows.append((name, rbm.n_iter_, seconds, *found, min(found[0], found[2])))
        progress(rows[-1])
    print()
    table(("learning", "passes", "s", "AIS", "se", "reverse AIS", "se", "lower"), rows)


if __name__ == "__main__":
    main()
