"""What persistent and tempered chains learn of rows that are in two groups, and of others.

    python examples/benchmarks/groups_of_rows.py [--seeds 3]

Persistent chains do not pass between groups that are far apart: how many chains are in each stays
as it was by chance, and learning makes one group ever more probable. ``RBM()`` begins anew by
tempered chains where it finds that, and keeps the better fit (``starts=None``). Machines of 20 and
of 256 hidden units without other settings learn 500 rows of two groups, of real columns and of
bits, and half of the rows of scikit-learn's own data sets, and of their digits 0 and 1 alone.
Printed are the worst and the best mean log-likelihood of as many test rows over some seeds, exact
with 20 hidden units and by sequential Monte Carlo with 256. "told" counts fits that end with a
warning.
"""

import argparse
import time
import warnings

import numpy as np
from _common import heading, progress, table
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning

from skrbm import RBM


def data_sets():
    """Yield groups, columns, rows, kinds of units and the log-likelihood by the truth, if known."""
    rng = np.random.default_rng(0)
    sides = 2.0 * np.where(rng.random((1000, 1)) < 0.5, 1, -1)
    X = sides + 0.5 * rng.standard_normal((1000, 6))
    density = np.logaddexp(*(norm.logpdf(X, side, 0.5).sum(axis=1) for side in (-2, 2)))
    yield "two groups", "6 real columns", X, "gaussian", (density - np.log(2))[500:].mean()
    for flips, n in ((0.02, 30), (0.05, 60)):
        X = (rng.random((1000, 1)) < 0.5) ^ (rng.random((1000, n)) < flips)
        on, p = X.sum(axis=1), np.log([flips, 1 - flips])
        density = np.logaddexp(on * p[0] + (n - on) * p[1], on * p[1] + (n - on) * p[0])
        yield (
            "two groups",
            f"{n} bits",
            X.astype(float),
            "bernoulli",
            (density - np.log(2))[500:].mean(),
        )
    yield "other rows", "digits, 64 bits", load_digits().data > 7, "bernoulli", np.nan
    X, y = load_digits(return_X_y=True)
    yield "digits 0 and 1", "64 real columns", X[y < 2], "gaussian", np.nan
    for name, load in (("iris", load_iris), ("wine", load_wine), ("cancer", load_breast_cancer)):
        X = rng.permutation(load().data)
        yield "other rows", f"{name}, {X.shape[1]} real columns", X, "gaussian", np.nan


def of_independent_columns(train, test, kind):
    """Return the mean log-likelihood of test rows by independent columns."""
    if kind == "gaussian":
        return norm.logpdf(test, train.mean(axis=0), train.std(axis=0)).sum(axis=1).mean()
    p = (train.sum(axis=0) + 0.5) / (len(train) + 1)
    return (test @ np.log(p) + (1.0 - test) @ np.log(1 - p)).mean()


def fitted(train, test, kind, n_hidden, starts, seeds):
    """Return scores of some seeds, how many fits end with a warning, and the median seconds."""
    scores, n_told, seconds = [], 0, []
    for seed in range(seeds):
        begin = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            rbm = RBM(n_hidden, visible=kind, starts=starts, random_state=seed).fit(train)
        seconds.append(time.perf_counter() - begin)
        n_told += any(w.category is ConvergenceWarning for w in caught)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores.append(float(rbm.score(test)))
    return scores, n_told, np.median(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    heading(__file__, args)
    rows, totals = [], {}
    for group, columns, X, kind, truth in data_sets():
        X, half = X.astype(float), len(X) // 2
        train, test = X[:half], X[half:]
        independent = of_independent_columns(train, test, kind)
        for n_hidden in (20, 256):
            for starts in ("persistent", "tempered", None):
                scores, n_told, seconds = fitted(train, test, kind, n_hidden, starts, args.seeds)
                row = (
                    group,
                    columns,
                    n_hidden,
                    str(starts),
                    min(scores),
                    max(scores),
                    n_told,
                    seconds,
                )
                progress(row)
                rows.append((*row, independent, truth))
                told, n_fits = totals.get((group, starts), (0, 0))
                totals[group, starts] = told + n_told, n_fits + args.seeds
    table(
        (
            "rows",
            "columns",
            "hidden",
            "starts",
            "worst",
            "best",
            "told",
            "s",
            "independent",
            "truth",
        ),
        rows,
    )
    for (group, starts), (n_told, n) in totals.items():
        print(f"{group}, starts={starts}: {n_told} of {n} fits end with a warning")


if __name__ == "__main__":
    main()
