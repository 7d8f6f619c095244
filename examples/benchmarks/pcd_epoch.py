"""Time of a PCD fit relative to scikit-learn's BernoulliRBM and to its matrix products.

    python examples/benchmarks/pcd_epoch.py [--rows 20000] [--hidden 500] [--epochs 5] [--threads 1]

Each contender is fitted once per repeat, interleaved, in one process; printed are medians of the
times and of the ratios. Times of skrbm include validation, shuffling and history. The quality is
the exact pseudo-log-likelihood of the first 1000 rows.
"""

import argparse
import time
import warnings

import numpy as np
from _common import heading, matrix_product_seconds, mnist, table, timed
from sklearn.neural_network import BernoulliRBM as SklearnRBM
from threadpoolctl import threadpool_limits

from skrbm import BernoulliRBM
from skrbm.evaluation import pseudo_log_likelihood


def products(dtype, args):
    """Time the five products of an epoch, as the three calls that PCD-1 needs."""
    n_batches = args.epochs * (args.rows // args.batch)
    return n_batches * matrix_product_seconds(784, args.hidden, args.batch, dtype)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20000)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--hidden", type=int, default=500)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    heading(__file__, args)
    X = mnist("train", args.rows)[0]
    settings = {
        "n_components": args.hidden,
        "learning_rate": 0.05,
        "batch_size": args.batch,
        "n_iter": args.epochs,
        "random_state": 0,
    }
    contenders = {
        "skrbm float32": (BernoulliRBM(**settings), X.astype(np.float32)),
        "skrbm float64": (BernoulliRBM(**settings), X.astype(np.float64)),
        "skrbm uint8": (BernoulliRBM(**settings), X.astype(np.uint8)),
        "scikit-learn float32": (SklearnRBM(**settings), X.astype(np.float32)),
        "scikit-learn float64": (SklearnRBM(**settings), X.astype(np.float64)),
    }
    runs = {name: (lambda m=model, V=V: m.fit(V)) for name, (model, V) in contenders.items()}
    warnings.simplefilter("ignore")
    with threadpool_limits(args.threads):
        seconds = timed(
            runs, args.repeats, extra={"products float32": lambda: products(np.float32, args)}
        )
    rows = []
    for name, (model, _) in contenders.items():
        fitted = BernoulliRBM.from_parameters(
            model.components_, model.intercept_hidden_, model.intercept_visible_
        )
        quality = np.mean(pseudo_log_likelihood(fitted, X[:1000].astype(np.float64)))
        ratio = np.median(seconds[name] / seconds["skrbm float32"])
        rows.append((name, np.median(seconds[name]), ratio, quality))
    share = np.median(seconds["products float32"] / seconds["skrbm float32"])
    rows.append(("products float32", np.median(seconds["products float32"]), share, np.nan))
    table(("contender", "seconds", "over skrbm float32", "pseudo-log-likelihood"), rows)
    print(f"\nmatrix products alone: {100 * share:.0f} % of the fit")


if __name__ == "__main__":
    begin = time.perf_counter()
    main()
    print(f"({time.perf_counter() - begin:.0f} s)")
