"""Logistic regression on learned features beside principal components of the same number.

    python examples/benchmarks/gaussian_bernoulli/features.py --starts persistent
        --learning-rate 0.1 --epochs 200 --min-variance 0.3 --weight-scale 0.01
    python examples/benchmarks/gaussian_bernoulli/features.py --data mnist --n-components 256

Accuracies: on scikit-learn's digits means over five folds, with the standard error of their paired
differences; on MNIST of the test images, after learning from ``--rows`` images. Both kinds of
features are standardised before the regression. ``--device`` puts the machine on torch tensors
there.
"""

import argparse
import time

import numpy as np
from _paper import back, heading, images, placed, table
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skrbm import GaussianBernoulliRBM


def folds(args):
    """Yield training rows, their labels, test rows and theirs."""
    if args.data == "digits":
        X, y = load_digits(return_X_y=True)
        X = X.astype(np.float32)
        for train, test in StratifiedKFold(5, shuffle=True, random_state=args.seed).split(X, y):
            yield X[train], y[train], X[test], y[test]
    else:
        yield *images(args.data, "train", args.rows), *images(args.data, "test")


def accuracy(transform, X, y, X_test, y_test):
    """Return the accuracy on test rows of a regression on features."""
    regression = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    return regression.fit(transform(X), y).score(transform(X_test), y_test)


def learned(args, X):
    """Return the transform of a machine learned from rows, and the seconds that took."""
    rbm = GaussianBernoulliRBM(
        args.n_components,
        inference=args.inference,
        starts=args.starts,
        n_steps=args.n_steps,
        learning_rate=args.learning_rate,
        n_iter=args.epochs,
        min_variance=args.min_variance,
        weight_scale=args.weight_scale,
        random_state=args.seed,
    )
    begin = time.perf_counter()
    rbm.fit(placed(X, args.device))
    seconds = time.perf_counter() - begin
    return lambda X: back(rbm.transform(placed(X, args.device))), seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", choices=["digits", "mnist", "fashion-mnist"], default="digits")
    parser.add_argument("--n-components", type=int, default=32)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--n-steps", type=int, default=1)
    parser.add_argument("--starts", default="data")
    parser.add_argument("--inference", default="gibbs")
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--min-variance", type=float, default=1e-6)
    parser.add_argument("--weight-scale", type=float)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    heading(__file__, args)
    found = {"PCA": [], "GaussianBernoulliRBM": []}
    seconds = []
    for X, y, X_test, y_test in folds(args):
        pca = PCA(args.n_components, random_state=args.seed).fit(X)
        found["PCA"].append(accuracy(pca.transform, X, y, X_test, y_test))
        transform, spent = learned(args, X)
        seconds.append(spent)
        found["GaussianBernoulliRBM"].append(accuracy(transform, X, y, X_test, y_test))
    first = np.array(found["PCA"])
    rows = []
    for name, values in found.items():
        gain = np.array(values) - first
        error = float(gain.std(ddof=1) / np.sqrt(gain.size)) if gain.size > 1 else float("nan")
        rows.append((name, float(np.mean(values)), float(gain.mean()), error))
    table(("features", "accuracy", "over PCA", "standard error"), rows)
    print(f"seconds to fit a machine: {np.mean(seconds):.1f}")


if __name__ == "__main__":
    main()
