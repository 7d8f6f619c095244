"""Test accuracy of generative classifiers.

    SKRBM_DATA=... python examples/benchmarks/rbm_classifier.py [--sets digits mnist]

"joint" is ``RBMClassifier``, which maximizes log p(x, y); "hybrid" gives log p(y | x) a weight of
0.9, and "discriminative" maximizes it alone. "logistic on features" is logistic regression on the
hidden means of the joint model, and "logistic" is on the pixels. The rows "tenth of labels" are the
joint model with a tenth of the labels and all images, and logistic regression on the labelled
images.
"""

import argparse
import time

import numpy as np
from _common import heading, mnist, progress, table
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from skrbm import RBM, ConditionalRBM, RBMClassifier


def data(name, n_rows):
    """Return training images and labels, and those of the test."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        X, X_test, y, y_test = train_test_split(X / 16, y, stratify=y, random_state=0)
        return X, y, X_test, y_test
    (X, y), (X_test, y_test) = mnist("train"), mnist("test")
    return X[:n_rows], y[:n_rows].astype(int), X_test, y_test.astype(int)


def contenders(hidden, epochs, seed):
    """Return classifiers by name."""

    def joint(**params):
        rbm = RBM(hidden, n_iter=epochs, random_state=seed)
        return RBMClassifier(rbm, unlabelled=-1, **params)

    return {
        "joint": joint(),
        "hybrid": joint(discriminative=0.9),
        "discriminative": joint(discriminative=1.0),
        "ConditionalRBM": ConditionalRBM(hidden, n_iter=epochs, random_state=seed),
        "logistic": LogisticRegression(max_iter=1000),
    }


def timed(model, X, y):
    begin = time.process_time()
    return model.fit(X, y), time.process_time() - begin


def results(name, args):
    """Yield rows of the table of one set."""
    X, y, X_test, y_test = data(name, args.rows)
    fitted = {}
    for kind, model in contenders(args.hidden, args.epochs, args.seed).items():
        fitted[kind], seconds = timed(model, X, y)
        yield name, kind, fitted[kind].score(X_test, y_test), seconds
    features, logistic = fitted["joint"].transform, LogisticRegression(max_iter=1000)
    model, seconds = timed(logistic, features(X), y)
    yield name, "logistic on features", model.score(features(X_test), y_test), seconds
    few = np.where(np.random.default_rng(0).random(len(y)) < 0.1, y, -1)
    model, seconds = timed(contenders(args.hidden, args.epochs, args.seed)["joint"], X, few)
    yield name, "joint, tenth of labels", model.score(X_test, y_test), seconds
    model, seconds = timed(logistic, X[few >= 0], y[few >= 0])
    yield name, "logistic, tenth of labels", model.score(X_test, y_test), seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=("digits", "mnist"))
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--hidden", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    heading(__file__, args)
    rows = []
    with threadpool_limits(1):
        for name in args.sets:
            for row in results(name, args):
                rows.append(row)
                progress(row)
    print()
    table(("set", "classifier", "accuracy", "s"), rows)


if __name__ == "__main__":
    main()
