"""Starts of low rank compared with random ones, after few and after more epochs.

    python examples/benchmarks/low_rank.py [two-groups] [six-groups] [digits] [mnist-01] [mnist]

Printed are mean log-likelihoods of test rows in nats (the lower of forward and reverse SMC) and
processor seconds of the fits on one thread, averaged over ``--seeds``.
"""

import argparse
import time

import numpy as np
from _common import heading, mnist
from learners import digits, groups, likelihood, six_groups
from threadpoolctl import threadpool_limits

from skrbm import RBM

EPOCHS = 3, 10, 30


def of_work(work):
    """Return the rows of a work of ``learners.py``."""
    return work.train.astype(np.float64), work.test.astype(np.float64)


def images(labels, n, n_test):
    """Return training and test images with some labels."""
    sets = []
    for part, size in (("train", n), ("test", n_test)):
        X, y = mnist(part)
        sets.append(X[np.isin(y, labels)][:size].astype(np.float64))
    return sets


DATA = {  # rows and the number of hidden units
    "two-groups": lambda: (*of_work(next(groups(60))), 32),
    "six-groups": lambda: (*of_work(next(six_groups())), 32),
    "digits": lambda: (*digits(), 64),
    "mnist-01": lambda: (*images([0, 1], 5000, 2000), 64),
    "mnist": lambda: (*images(range(10), 10000, 2000), 128),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(DATA)}; default: all")
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    heading(__file__, args)
    print("data, epochs, random: nats, seconds, low_rank: nats, seconds")
    for name in args.names or DATA:
        X, X_test, n = DATA[name]()
        for n_iter in EPOCHS:
            found = []
            for init in ("random", "low_rank"):
                scores, begin = [], time.process_time()
                fits = [
                    RBM(n, n_iter=n_iter, init=init, random_state=seed).fit(X)
                    for seed in range(args.seeds)
                ]
                seconds = (time.process_time() - begin) / args.seeds
                scores = [likelihood(rbm, X_test) for rbm in fits]
                found.append(f"{np.mean(scores):8.2f} {seconds:6.1f}")
            print(f"{name:10} {n_iter:3}", *found, flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
