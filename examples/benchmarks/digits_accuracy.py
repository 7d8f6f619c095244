"""Accuracy of logistic regression on features of digits.

    python examples/benchmarks/digits_accuracy.py [--seeds 5] [--hidden 100]

The protocol is that of scikit-learn's RBM example: digits, and copies shifted by a pixel, a fifth
of which are the test set. Raw pixels are compared with pipelines that use scikit-learn's
BernoulliRBM and estimators of skrbm, all of the same size and number of epochs, except that `RBM`
and `TAPRBM` have their default, 40 epochs. Seeds change the split and the RBM; differences to
scikit-learn's are paired. The log-likelihood of test rows is that of bits drawn with the grey
levels as probabilities.
"""

import argparse
import time
import warnings

import numpy as np
from _common import heading, table
from scipy.ndimage import shift
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import BernoulliRBM as SklearnRBM
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from skrbm import RBM, TAPRBM, BernoulliRBM


def data():
    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8).astype(np.float32)
    steps = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0)]
    shifted = [shift(images, (0, *step), order=0, mode="constant") for step in steps]
    return np.concatenate(shifted).reshape(-1, 64) / 16, np.concatenate([labels] * len(steps))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--hidden", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args()
    heading(__file__, args)
    warnings.simplefilter("ignore", ConvergenceWarning)
    X, y = data()
    size = {"n_components": args.hidden, "n_iter": args.epochs}
    estimators = {
        "raw pixels": lambda seed: None,
        "scikit-learn BernoulliRBM": lambda seed: SklearnRBM(
            learning_rate=0.06, random_state=seed, **size
        ),
        "BernoulliRBM": lambda seed: BernoulliRBM(learning_rate=0.06, random_state=seed, **size),
        "TAPRBM, no setting but the size": lambda seed: TAPRBM(args.hidden, random_state=seed),
        "RBM, no setting but the size": lambda seed: RBM(args.hidden, random_state=seed),
        "RBM, no setting": lambda seed: RBM(random_state=seed),
    }
    scores = {name: [] for name in estimators}
    likelihoods = {name: [] for name in estimators}
    seconds = {name: [] for name in estimators}
    for seed in range(args.seeds):
        split = train_test_split(X, y, test_size=0.2, random_state=seed)
        X_train, X_test, y_train, y_test = split
        for name, make in estimators.items():
            machine, begin = make(seed), time.perf_counter()
            steps = [] if machine is None else [machine]
            model = make_pipeline(*steps, LogisticRegression(C=100, max_iter=1000))
            with threadpool_limits(1):
                model.fit(X_train, y_train)
            scores[name].append(100 * model.score(X_test, y_test))
            seconds[name].append(time.perf_counter() - begin)
            is_ours = isinstance(model[0], RBM)
            likelihoods[name].append(model[0].score(X_test) if is_ours else np.nan)
    theirs = np.array(scores["scikit-learn BernoulliRBM"])
    rows = []
    for name, values in scores.items():
        gain = np.array(values) - theirs
        error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
        rows.append(
            (
                name,
                float(np.mean(values)),
                float(gain.mean()),
                float(error),
                np.median(seconds[name]),
                float(np.mean(likelihoods[name])),
            )
        )
    names = "features", "accuracy %", "over scikit-learn's", "se", "seconds", "log-likelihood"
    table(names, rows)


if __name__ == "__main__":
    main()
