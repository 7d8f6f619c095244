"""Time of PCD fits of small RBMs, where matrix products do not dominate.

    python examples/benchmarks/small_machines.py [--repeats 9] [--dtype float32 float64]

On one BLAS thread:

- 16 x 32 units, 10 000 rows drawn from a random RBM, batches of 100, 20 epochs, and the same
  algorithm as a plain loop in NumPy;
- scikit-learn's example of features for logistic regression: 7188 shifted digits, 64 x 100 units,
  batches of 10, 10 epochs, and scikit-learn's BernoulliRBM.

Printed are medians of processor time, of time per batch, and of ratios within interleaved repeats.
Times of skrbm include validation, shuffling and history. The quality is the exact mean
log-likelihood, or for 100 hidden units the pseudo-log-likelihood of the first 1000 rows.
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


def sigmoid(x):
    """Logistic function in place; faster than SciPy's ``expit``."""
    x *= 0.5
    np.tanh(x, out=x)
    x *= 0.5
    x += 0.5
    return x


class PlainLoop:
    """PCD-1 by stochastic gradient ascent, as one writes it in NumPy."""

    def __init__(self, n_components, learning_rate, batch_size, n_iter, random_state):
        self.n_hidden, self.rate, self.batch_size = n_components, learning_rate, batch_size
        self.n_iter, self.seed = n_iter, random_state

    def fit(self, X):
        rng = np.random.default_rng(self.seed)
        mean = (X.sum(axis=0) + 0.5) / (len(X) + 1)
        b, c = np.log(mean / (1 - mean)), np.zeros(self.n_hidden)
        b, c = b.astype(X.dtype), c.astype(X.dtype)
        W = 0.01 * rng.standard_normal((self.n_hidden, X.shape[1]), dtype=X.dtype)
        H = (rng.random((self.batch_size, self.n_hidden)) < 0.5).astype(X.dtype)
        for _ in range(self.n_iter):
            order = rng.permutation(len(X))
            for start in range(0, len(X), self.batch_size):
                v = X[order[start : start + self.batch_size]]
                h = sigmoid(v @ W.T + c)
                V = sigmoid(H @ W + b)
                V = (rng.random(V.shape, dtype=X.dtype) < V).astype(X.dtype)
                mean = sigmoid(V @ W.T + c)
                H = (rng.random(mean.shape, dtype=X.dtype) < mean).astype(X.dtype)
                n, m = self.rate / len(v), self.rate / len(V)
                W += n * (h.T @ v) - m * (mean.T @ V)
                b += n * v.sum(axis=0) - m * V.sum(axis=0)
                c += n * h.sum(axis=0) - m * mean.sum(axis=0)
        self.components_, self.intercept_hidden_, self.intercept_visible_ = W, c, b


def drawn_rows(n, n_visible, n_hidden):
    """Return rows drawn from an RBM with random couplings."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(0, 1, shape) for shape in ((n_hidden, n_visible), n_hidden, n_visible)]
    rbm = BernoulliRBM.from_parameters(*arrays, random_state=0)
    return rbm.sample(n, n_steps=100, random_state=0)


def shifted_digits():
    """Return the training rows of the example: digits as they are, and shifted by a pixel."""
    X = load_digits(return_X_y=True)[0]
    images = X.reshape(-1, 8, 8)
    moves = ((0, 0), (0, -1), (-1, 0), (0, 1), (1, 0))
    moved = [shift(images, (0, *move), order=0).reshape(X.shape) for move in moves]
    X = minmax_scale(np.concatenate(moved), feature_range=(0, 1))
    return train_test_split(X, test_size=0.2, random_state=0)[0]


def exact(rbm, X):
    return float(np.mean(rbm.score_samples(X)))


def pseudo(rbm, X):
    return float(np.mean(pseudo_log_likelihood(rbm, X[:1000])))


def compare(contenders, X, settings, quality, repeats):
    """Print times of interleaved fits to X."""
    models = {name: make(**settings, random_state=0) for name, make in contenders.items()}
    seconds = {name: [] for name in models}
    for repeat in range(repeats + 1):  # the first warms up
        for name, model in models.items():
            begin = time.process_time()
            model.fit(X)
            if repeat:
                seconds[name].append(time.process_time() - begin)
    n_batches = -(-len(X) // settings["batch_size"]) * settings["n_iter"]
    rows, ours = [], np.array(seconds["skrbm"])
    for name, model in models.items():
        fitted = BernoulliRBM.from_parameters(
            model.components_, model.intercept_hidden_, model.intercept_visible_
        )
        taken, ratios = np.array(seconds[name]), ours / np.array(seconds[name])
        each = 1e6 * np.median(taken) / n_batches
        row = (name, str(X.dtype), np.median(taken), each, np.median(ratios))
        rows.append((*row, f"{ratios.min():.2f}-{ratios.max():.2f}", quality(fitted, X)))
    names = ("contender", "dtype", "s", "us a batch", "ours over it", "range", quality.__name__)
    table(names, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--dtype", nargs="*", default=["float32", "float64"])
    args = parser.parse_args()
    heading(__file__, args)
    with threadpool_limits(1):
        X = drawn_rows(10_000, 16, 32)
        settings = {"n_components": 32, "learning_rate": 0.05, "batch_size": 100, "n_iter": 20}
        print("16 x 32 units, 10 000 rows, batches of 100")
        for dtype in args.dtype:
            contenders = {"skrbm": BernoulliRBM, "NumPy loop": PlainLoop}
            compare(contenders, X.astype(dtype), settings, exact, args.repeats)
        X = shifted_digits()
        settings = {"n_components": 100, "learning_rate": 0.06, "batch_size": 10, "n_iter": 10}
        print(f"\n64 x 100 units, {len(X)} rows, batches of 10")
        for dtype in args.dtype:
            contenders = {"skrbm": BernoulliRBM, "scikit-learn": SklearnRBM}
            compare(contenders, X.astype(dtype), settings, pseudo, args.repeats)


if __name__ == "__main__":
    main()
