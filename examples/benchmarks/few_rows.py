"""Likelihoods of ``RBM`` by the number of steps, where there are few rows.

    SKRBM_DATA=... python examples/benchmarks/few_rows.py [--rows 100 300 1000] [--plain]

Data are scikit-learn's iris, wine, diabetes and breast cancer, of normal units, with 30 % of the
rows for the test; breast cancer above its medians, as bits; and the first rows of binary tables,
with 1000 test rows, where SKRBM_DATA has them. Batches are those of the default: 100 rows, and
three a pass at least. Printed are the mean log-likelihoods of test rows for each number of steps,
exact or to 0.1 nats, that of 40 passes, and what ``n_iter="auto"`` takes. ``--plain`` has the
penalty of many rows, max(1, number of columns / 50) over the number of rows.
"""

import argparse
import warnings

import numpy as np
from _common import data_folder, debd, heading, progress, table
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.model_selection import train_test_split

from skrbm import RBM

STEPS = 250, 500, 1000, 2000
TABLES = "nltcs", "plants", "baudio", "jester", "dna"


def sets(sizes):
    """Yield a name, training rows, test rows and the kind of units."""
    for load in (load_iris, load_wine, load_diabetes, load_breast_cancer):
        yield load.__name__[5:], *halves(load().data), "gaussian"
    X = load_breast_cancer().data
    yield "breast cancer, bits", *halves((X > np.median(X, axis=0)).astype(float)), "bernoulli"
    if data_folder() is None:
        return
    for name in TABLES:
        train, test = debd(name, "train"), debd(name, "test")[:1000]
        for n in sizes:
            yield f"{name}, {n}", train[:n], test, "bernoulli"


def halves(X):
    return train_test_split(X, test_size=0.3, random_state=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", type=int, nargs="*", default=[100, 300, 1000])
    parser.add_argument("--plain", action="store_true")
    args = parser.parse_args()
    heading(__file__, args)
    warnings.simplefilter("ignore")  # of scores that are uncertain
    rows = []
    for name, train, test, visible in sets(args.rows):

        def scored(n_iter, train=train, test=test, visible=visible):
            alpha = max(1, train.shape[1] / 50) / len(train) if args.plain else "auto"
            params = {"visible": visible, "n_iter": n_iter, "alpha": alpha}
            models = [RBM(**params, random_state=seed) for seed in range(args.seeds)]
            return float(np.mean([model.fit(train).score(test) for model in models]))

        alone = RBM(1, visible=visible, n_iter=0, alpha=0.0, random_state=0).fit(train)
        n_batches = max(3, -(-len(train) // 100))
        of_steps = [scored(max(1, round(steps / n_batches))) for steps in STEPS]
        auto = RBM(2, visible=visible, random_state=0).fit(train).n_iter_ * n_batches
        found = len(train) / train.shape[1], alone.score(test), scored(40), *of_steps, auto
        rows.append((name, *found))
        progress(rows[-1])
    table(("set", "rows / columns", "alone", "40 passes", *map(str, STEPS), "auto, steps"), rows)


if __name__ == "__main__":
    main()
