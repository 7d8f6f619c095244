"""Multi-label data: subset accuracy and Hamming loss of ConditionalRBM and scikit-learn's methods.

    python examples/benchmarks/conditional_rbm/multilabel.py [SET ...] [--seeds 5] [--folds 5]
        [--method NAME ...]

The sets are emotions, scene and yeast of Mulan with the standard split, from the folder
multilabel-mulan of SKRBM_DATA. All features are standardized. For each method, the best of four
settings is selected by cross-validated subset accuracy, averaged over the seeds, and fitted to the
training part for each seed. A seed determines the initial weights, the order of batches, or the
order of the labels in a chain. Differences are paired by seed; the error due to the finite test set
is printed too.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.multioutput import ClassifierChain
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from _common import data_file, heading, table

from skrbm import ConditionalRBM
from skrbm.learning import SGD

OURS = "ConditionalRBM"
OPTIMIZER = SGD(momentum=0.9, alpha=0.0, schedule="linear", average=False)
SETTINGS = {"learning_rate": 0.03, "optimizer": OPTIMIZER, "batch_size": 50}


def contenders():
    """Return estimators by name, each with a grid of four settings."""
    chain = ClassifierChain(LogisticRegression(max_iter=1000), order="random")
    crbm = ConditionalRBM(64, decision="joint", n_iter=15, **SETTINGS)
    return {
        "ClassifierChain": (chain, {"estimator__C": [0.01, 0.03, 0.1, 1.0]}),
        "MLPClassifier": (MLPClassifier(), {"alpha": [0.1, 1.0, 10.0, 30.0]}),
        OURS: (crbm, {"inference": ["cd", "bp"], "optimizer__alpha": [0.003, 0.01]}),
    }


def load(name):
    """Return float32 features and labels of the training and of the test part."""
    parts = np.load(data_file("multilabel-mulan", f"{name}.npz"))
    X, X_test = (parts[f"X_{part}"].astype(np.float32) for part in ("train", "test"))
    return X, parts["Y_train"].astype(int), X_test, parts["Y_test"].astype(int)


def chosen(estimator, grid, X, Y, args):
    """Return the pipeline with the best settings, its score in the folds and these settings."""
    pipeline = make_pipeline(StandardScaler(), estimator)
    step = pipeline.steps[-1][0]
    grid = {f"{step}__{key}": values for key, values in grid.items()}
    folds, scores = KFold(args.folds, shuffle=True, random_state=0), 0.0
    for seed in range(args.seeds):
        pipeline.set_params(**{f"{step}__random_state": seed})
        search = GridSearchCV(
            pipeline, grid, cv=folds, scoring="accuracy", refit=False, error_score="raise"
        )
        results = search.fit(X, Y).cv_results_
        scores = scores + results["mean_test_score"] / args.seeds
    best = results["params"][int(np.argmax(scores))]
    settings = {key.split("__")[-1]: value for key, value in best.items()}
    return pipeline.set_params(**best), 100 * scores.max(), settings


def one_method(method, data, args):
    """Return a row for each seed: subset accuracy, Hamming loss, seconds of a fit, folds."""
    X, Y, X_test, Y_test = data
    begin = time.process_time()
    pipeline, score, settings = chosen(*contenders()[method], X, Y, args)
    seconds = time.process_time() - begin
    print(f"  {method}: {settings}, {score:.2f} % in the folds, {seconds:.0f} s", flush=True)
    rows = []
    for seed in range(args.seeds):
        pipeline.set_params(**{f"{pipeline.steps[-1][0]}__random_state": seed})
        begin = time.process_time()
        wrong = pipeline.fit(X, Y).predict(X_test) != Y_test
        seconds = time.process_time() - begin
        right = (~wrong).all(axis=1)
        rows.append((100 * right.mean(), 100 * wrong.mean(), seconds, score))
        print("   ", *(f"{value:.2f}" for value in rows[-1][:3]), flush=True)
    return np.array(rows)


def one_set(name, args):
    """Compare the methods on a set of data."""
    data = load(name)
    sizes = f"{len(data[0])} + {len(data[2])} rows, {data[0].shape[1]} features"
    print(f"\n{name}: {sizes}, {data[1].shape[1]} labels", flush=True)
    report({method: one_method(method, data, args) for method in args.method}, len(data[2]))


def report(results, n_test):
    """Print means over seeds with standard errors, and what ours is better by."""
    rows = []
    for method, values in results.items():
        mean, error = values.mean(axis=0), values.std(axis=0, ddof=1) / len(values) ** 0.5
        ahead = ["", ""]
        if OURS in results and method != OURS:
            difference = results[OURS][:, 0] - values[:, 0]
            ahead = [difference.mean(), difference.std(ddof=1) / len(difference) ** 0.5]
        of_rows = (mean[0] * (100 - mean[0]) / n_test) ** 0.5
        numbers = mean[0], error[0], of_rows, mean[1], error[1], mean[3], mean[2], *ahead
        rows.append((method, *(x if x == "" else float(x) for x in numbers)))
    names = ("subset %", "error", "of test rows", "Hamming %", "error", "in folds %", "seconds")
    table(("method", *names, "ours is ahead by", "error"), rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", default=["emotions", "scene", "yeast"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--folds", type=int, default=5)
    names = list(contenders())
    parser.add_argument("--method", nargs="+", choices=names, default=names)
    args = parser.parse_args()
    heading(__file__, args)
    warnings.simplefilter("ignore", ConvergenceWarning)  # of the network
    for name in args.sets:
        one_set(name, args)


if __name__ == "__main__":
    main()
