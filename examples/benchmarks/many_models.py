"""Time of a search over small machines, one by one, in two threads and in two processes.

    python examples/benchmarks/many_models.py [--rows 2000] [--hidden 32 64] [--repeats 5]

GridSearchCV over 2 x 2 settings, sizes and batch sizes, with three folds and five epochs: 12 fits,
and one more of the best. Contenders run in turn, in one process; printed are medians, and medians
and ranges of the ratios to one by one. Their scores must agree to 1e-6: BLAS is allowed as many
threads as there are cores, which add up in another order.
"""

import argparse

import joblib
import numpy as np
from _common import heading, table, timed
from sklearn.model_selection import GridSearchCV

from skrbm import BernoulliRBM

WAYS = {"one by one": ("sequential", 1), "threads": ("threading", 2), "processes": ("loky", 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--visible", type=int, default=64)
    parser.add_argument("--hidden", type=int, nargs="*", default=[32, 64])
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    heading(__file__, args)
    X = (np.random.default_rng(0).random((args.rows, args.visible)) < 0.3).astype(np.float32)
    grid, scores = {"n_components": args.hidden, "batch_size": [50, 100]}, {}

    def search(name):
        backend, n_jobs = WAYS[name]
        rbm = BernoulliRBM(learning_rate=0.05, n_iter=5, random_state=0)
        with joblib.parallel_config(backend=backend):
            found = GridSearchCV(rbm, grid, cv=3, n_jobs=n_jobs, scoring=mean_free_energy).fit(X)
        scores[name] = found.cv_results_["mean_test_score"]

    seconds = timed({name: lambda name=name: search(name) for name in WAYS}, args.repeats)
    rows = []
    for name, taken in seconds.items():
        ratios = taken / seconds["one by one"]
        same = np.allclose(scores[name], scores["one by one"], rtol=1e-6, atol=0)
        spread = f"{ratios.min():.2f}-{ratios.max():.2f}"
        rows.append((name, float(np.median(taken)), float(np.median(ratios)), spread, same))
    table(("", "s", "over one by one", "range", "same scores"), rows)


def mean_free_energy(rbm, X, y=None):
    """Score by the free energy, which takes next to no time."""
    return -float(np.mean(rbm.free_energy(X)))


if __name__ == "__main__":
    main()
