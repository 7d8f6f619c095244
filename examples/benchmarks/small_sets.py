"""How often ``RBM`` without any setting fails on small data, by kinds of hidden units.

    SKRBM_DATA=... python examples/benchmarks/small_sets.py [--seeds 8]

Data are 300 rows of four sites of categories, of which two mostly agree; 400 rows of 16 bits in
eight noisy patterns; and the first 1 000 rows of nltcs, 16 bits. All are learnt by ten hidden units
of each kind, in 10 and in 40 passes: 30 to 400 batches. The quality is the mean log-likelihood of
the training rows, exact or to 0.1 nats. "failed" counts fits that end below independent units.
"""

import argparse
import warnings

import numpy as np
from _common import debd, heading, progress, table

from skrbm import RBM
from skrbm.units import Categorical

HIDDEN = "bernoulli", "spin", "gaussian", "relu", "double_relu"


def categories(rng, n=300):
    first = rng.integers(3, size=n)
    last = np.where(rng.random(n) < 0.9, first, 1)
    codes = np.c_[first, rng.integers(2, size=n), rng.integers(2, size=n), last]
    sizes = (3, 2, 2, 3)
    parts = [np.eye(q)[codes[:, site]] for site, q in enumerate(sizes)]
    return np.concatenate(parts, axis=1), Categorical(sizes)


def patterns(rng, n=400):
    X = rng.integers(2, size=(8, 16))[rng.integers(8, size=n)]
    return np.abs(X - (rng.random(X.shape) < 0.05)), "bernoulli"


def nltcs(rng, n=1000):
    return debd("nltcs", "train")[:n], "bernoulli"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=8)
    args = parser.parse_args()
    heading(__file__, args)
    warnings.simplefilter("ignore")  # of scores, and of fits that fail
    rows, failed, n_fits = [], 0, 0
    for make in (categories, patterns, nltcs):
        X, unit = make(np.random.default_rng(0))
        alone = RBM(1, visible=unit, hidden="gaussian", n_iter=0, random_state=0)
        independent = alone.fit(X).score(X)
        for hidden in HIDDEN:
            for n_iter in (10, 40):
                models = [
                    RBM(10, visible=unit, hidden=hidden, n_iter=n_iter, random_state=seed)
                    for seed in range(args.seeds)
                ]
                scores = [model.fit(X).score(X) for model in models]
                below = sum(score < independent - 0.02 for score in scores)
                found = make.__name__, hidden, n_iter, independent
                rows.append((*found, max(scores), float(np.median(scores)), min(scores), below))
                failed, n_fits = failed + below, n_fits + args.seeds
                progress(rows[-1])
    table(("set", "hidden", "passes", "independent", "best", "median", "worst", "failed"), rows)
    print(f"{failed} of {n_fits} fits end below independent units")


if __name__ == "__main__":
    main()
