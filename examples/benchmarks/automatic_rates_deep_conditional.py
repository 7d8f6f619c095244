"""Automatic learning rates of deep and of conditional machines, beside fixed rates.

    SKRBM_DATA=... python examples/benchmarks/automatic_rates_deep_conditional.py
        [--tasks digits mnist emotions scene noisy] [--seeds 2]

All runs of a row have the same number of passes.

- digits: ``DeepTAPMachine((60, 30), n_iter=20, n_iter_pretrain=10)`` on 1400 of scikit-learn's
  digits, thresholded at 8; mnist: ``(200, 50)`` units, half the passes, on 5000 images.
  The quality is the mean ``score_samples`` of held-out rows, in nats.
- emotions, scene: multi-label sets of Mulan in its standard split, features standardised,
  ``ConditionalRBM(64, n_iter=20, alpha=0.01, schedule="linear")``; noisy: 1000 images of MNIST of
  which 10 % of the pixels are flipped, 64 hidden units, 10 passes, and no penalty. By belief
  propagation, mean field and CD-1.
  The quality is minus the error of the test part, the percentage of outputs that are wrong. For the
  sets of labels the mean log-likelihood of a row is printed too, which is exact.

Means over seeds. Seconds are of the processor, of a fit with the automatic rate and of one with the
best fixed rate.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from _common import data_folder, heading, mnist, progress, table
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from skrbm import ConditionalRBM, DeepTAPMachine
from skrbm.exceptions import LikelihoodWarning

sys.path.insert(0, str(Path(__file__).resolve().parent / "conditional_rbm"))

import _images
import multilabel

DEEP, LABELS = ("digits", "mnist"), ("emotions", "scene", "yeast")
TASKS = (*DEEP, *LABELS[:2], "noisy")
INFERENCE = ("bp", "mean_field", "cd")


def rows_of(task):
    """Return training and test rows of a deep machine."""
    if task == "mnist":
        return mnist("train", 5000)[0], mnist("test", 1000)[0]
    X = (load_digits().data >= 8).astype(np.float32)
    X = X[np.random.default_rng(0).permutation(len(X))]
    return X[:1400], X[1400:]


def deep(task):
    """Return a function of (rate, seed): the qualities of a fit, and its seconds."""
    X, X_test = rows_of(task)
    large = task == "mnist"
    sizes, n_iter = ((200, 50), 10) if large else ((60, 30), 20)

    def run(rate, seed):
        machine = DeepTAPMachine(
            sizes, learning_rate=rate, n_iter=n_iter, n_iter_pretrain=n_iter // 2, random_state=seed
        )
        begin = time.process_time()
        machine.fit(X)
        seconds = time.process_time() - begin
        return float(machine.score_samples(X_test).mean()), np.nan, seconds

    return run


def targets_of(task):
    """Return features and targets of the training and of the test part."""
    if task == "noisy":
        train, _, test = _images.load("mnist", "noisy10", 1000)
        return *train, *(part[:1000] for part in test)
    X, Y, X_test, Y_test = multilabel.load(task)
    scaler = StandardScaler().fit(X)
    return scaler.transform(X), Y, scaler.transform(X_test), Y_test


def conditional(task, inference):
    """Return a function of (rate, seed): the qualities of a fit, and its seconds."""
    X, Y, X_test, Y_test = targets_of(task)
    labels = task in LABELS
    params = {"n_iter": 20 if labels else 10, "alpha": 0.01 if labels else 0.0}

    def run(rate, seed):
        crbm = ConditionalRBM(
            64,
            learning_rate=rate,
            inference=inference,
            schedule="linear",
            random_state=seed,
            **params,
        )
        begin = time.process_time()
        crbm.fit(X, Y)
        seconds = time.process_time() - begin
        error = 100 * float((crbm.predict(X_test) != Y_test).mean())
        score = float(crbm.score_samples(X_test, Y_test).mean()) if labels else np.nan
        return -error, score, seconds

    return run


def compare(name, run, rates, seeds):
    """Return a row of the table: the automatic rate, and each of the fixed ones."""
    found = {}
    for rate in ("auto", *rates):
        values = np.array([run(rate, seed) for seed in range(seeds)])
        spread = values[:, 0].std(ddof=1) if seeds > 1 else np.nan
        found[rate] = [*map(float, values.mean(axis=0)), float(spread)]
        progress((name, rate, *found[rate]))
    best = max(rates, key=lambda rate: found[rate][0])
    (auto, score, seconds, spread), own = found["auto"], found[best]
    others = [found[rate][0] for rate in rates]
    return name, auto, spread, *others, score, own[1], seconds, own[2]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", choices=(*DEEP, *LABELS, "noisy"), default=TASKS)
    parser.add_argument("--inference", nargs="+", choices=INFERENCE, default=INFERENCE)
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args()
    if data_folder() is None:
        raise SystemExit("set the environment variable SKRBM_DATA to the folder of the data")
    heading(__file__, args)
    for kind in (ConvergenceWarning, LikelihoodWarning):
        warnings.simplefilter("ignore", kind)
    kinds = {"deep": (0.03, 0.1, 0.3), "conditional": (0.02, 0.05, 0.1, 0.3)}
    rows = {kind: [] for kind in kinds}
    for task in args.tasks:
        if task in DEEP:
            rows["deep"].append(compare(task, deep(task), kinds["deep"], args.seeds))
            continue
        for inference in args.inference:
            run, rates = conditional(task, inference), kinds["conditional"]
            row = compare(f"{task} {inference}", run, rates, args.seeds)
            rows["conditional"].append(row)
    for kind, rates in kinds.items():
        if rows[kind]:
            print()
            more = "score", "score of best", "s", "s of best"
            table(("task", "auto", "spread", *map(str, rates), *more), rows[kind])


if __name__ == "__main__":
    main()
