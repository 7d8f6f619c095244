"""Time of PCD fits of small RBMs relative to scikit-learn's BernoulliRBM.

    python examples/benchmarks/small_machines.py [--repeats 9] [--dtype float32 float64]

scikit-learn's example of features for logistic regression: 7188 shifted digits, 64 x 100 units,
batches of 10, 10 epochs, on one BLAS thread. Printed are medians of processor time, of time per
batch, and of ratios within interleaved repeats. Times of skrbm include validation, shuffling and
history. The quality is the pseudo-log-likelihood of the first 1000 rows.
"""

import argparse
import time

import numpy as np
from _common import heading, table
from scipy.ndimage import shift
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import BernoulliRBM as SklearnRBM
from sklearn.preprocessing import minmax_scale
from threadpoolctl import threadpool_limits

from skrbm import BernoulliRBM
from skrbm.evaluation import pseudo_log_likelihood

SETTINGS = {"n_components": 100, "learning_rate": 0.06, "batch_size": 10, "n_iter": 10}


def shifted_digits():
    """Return the training rows of the example: digits as they are, and shifted by a pixel."""
    X = load_digits(return_X_y=True)[0]
    images = X.reshape(-1, 8, 8)
    moves = ((0, 0), (0, -1), (-1, 0), (0, 1), (1, 0))
    moved = [shift(images, (0, *move), order=0).reshape(X.shape) for move in moves]
    X = minmax_scale(np.concatenate(moved), feature_range=(0, 1))
    return train_test_split(X, test_size=0.2, random_state=0)[0]


def compare(X, repeats):
    """Return rows of the table."""
    models = {
        "skrbm": BernoulliRBM(**SETTINGS, random_state=0),
        "scikit-learn": SklearnRBM(**SETTINGS, random_state=0),
    }
    seconds = {name: [] for name in models}
    for repeat in range(repeats + 1):  # the first is a warm-up
        for name, model in models.items():
            begin = time.process_time()
            model.fit(X)
            if repeat:
                seconds[name].append(time.process_time() - begin)
    n_batches, ours = -(-len(X) // 10) * 10, np.array(seconds["skrbm"])
    for name, model in models.items():
        fitted = BernoulliRBM.from_parameters(
            model.components_, model.intercept_hidden_, model.intercept_visible_
        )
        quality = float(np.mean(pseudo_log_likelihood(fitted, X[:1000])))
        taken = np.array(seconds[name])
        each = 1e6 * np.median(taken) / n_batches
        yield name, str(X.dtype), np.median(taken), each, np.median(ours / taken), quality


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--dtype", nargs="*", default=["float32", "float64"])
    args = parser.parse_args()
    heading(__file__, args)
    X = shifted_digits()
    with threadpool_limits(1):
        rows = [row for dtype in args.dtype for row in compare(X.astype(dtype), args.repeats)]
    table(("package", "dtype", "s", "us a batch", "skrbm over it", "quality"), rows)


if __name__ == "__main__":
    main()
