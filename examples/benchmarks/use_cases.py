"""Imputation, outliers and recommendations with default settings, compared with the usual tools.

    python examples/benchmarks/use_cases.py --seeds 3

Imputation: 20 and 60 % of the values are hidden in three tables of scikit-learn and in a generated
mixed table. The error is the root mean squared error of numbers in standard deviations of their
column, and, in the mixed table, also the share of wrong labels, for which other imputers see
ordinal codes.

Outliers: 5 % of the training rows are from another class (malignant tumours, a class of wine,
threes among eights) or, in the mixed table, are rows in which three of six values were replaced by
those of other rows. The score is the area under the ROC curve for these. Other detectors see
standardized numbers and one-hot labels.

Recommendations: held-out ratings and held-out choices of generated users (recommendations.py).

Printed are means and standard deviations over seeds, and the mean processor time of a fit together
with its use.
"""

import argparse
import time
import warnings
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
from _common import heading, progress, table
from recommendations import SCORES, compare
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.ensemble import IsolationForest
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from tables import generated

from skrbm import RBMImputer, RBMOutlierDetector

MISSING, OUTLIERS = (0.2, 0.6), 0.05
IMPUTERS = {
    "RBMImputer": lambda seed: RBMImputer(random_state=seed),
    "IterativeImputer": lambda seed: IterativeImputer(random_state=seed),
    "KNNImputer": lambda seed: KNNImputer(),
    "SimpleImputer": lambda seed: SimpleImputer(),
}
DETECTORS = {
    "RBMOutlierDetector": lambda seed: RBMOutlierDetector(random_state=seed),
    "IsolationForest": lambda seed: IsolationForest(random_state=seed),
    "LocalOutlierFactor": lambda seed: LocalOutlierFactor(n_neighbors=20, novelty=True),
}


def error_of_numbers(load, make, share, seed):
    """Return the error of imputed numbers, NaN for labels, and the time."""
    Z = StandardScaler().fit_transform(load().data)
    hidden = np.random.default_rng(seed).random(Z.shape) < share
    start = time.process_time()
    found = make(seed).fit_transform(np.where(hidden, np.nan, Z))
    seconds = time.process_time() - start
    return np.sqrt(np.mean((found - Z)[hidden] ** 2)), np.nan, seconds


def errors_of_mixed(make, share, seed):
    """Return the errors of imputed numbers and labels of the generated table, and the time."""
    X = generated(seed=seed).drop(columns="target")
    X[["age", "stars"]] = X[["age", "stars"]].astype(float)
    labels, numbers = ["town", "member"], ["size", "price", "age", "stars"]
    hidden = np.random.default_rng(seed).random(X.shape) < share
    holes, imputer = X.astype({"member": object}).mask(hidden), make(seed)
    start = time.process_time()
    if isinstance(imputer, RBMImputer):
        found = imputer.fit_transform(holes)
    else:
        kinds = {name: pd.Categorical(holes[name]) for name in labels}
        coded = pd.DataFrame({name: kind.codes.astype(float) for name, kind in kinds.items()})
        coded = coded.mask(coded < 0)
        scale = StandardScaler()
        coded[numbers] = scale.fit_transform(holes[numbers])
        found = pd.DataFrame(imputer.fit_transform(coded), columns=coded.columns)
        found[numbers] = scale.inverse_transform(found[numbers])
        for name, kind in kinds.items():
            values = np.asarray(kind.categories)
            nearest = found.pop(name).round().clip(0, len(values) - 1).astype(int)
            found[name] = values[nearest]
    seconds = time.process_time() - start
    hidden = pd.DataFrame(hidden, columns=X.columns)
    wrong = found[labels].astype(str).ne(X[labels].astype(str)).to_numpy()
    apart = ((found[numbers] - X[numbers]) / X[numbers].std()).to_numpy(dtype=float)
    error = np.sqrt(np.mean(apart[hidden[numbers].to_numpy()] ** 2))
    return error, wrong[hidden[labels].to_numpy()].mean(), seconds


def rows_of_classes(load, inlier, outlier):
    """Return a function of a seed that draws rows of a class, some of them of another one."""

    def drawn(seed):
        X, y = load(return_X_y=True)
        rng = np.random.default_rng(seed)
        usual, others = X[y == inlier], X[y == outlier]
        n = max(2, round(OUTLIERS / (1 - OUTLIERS) * len(usual)))
        return (
            np.vstack([usual, others[rng.permutation(len(others))[:n]]]),
            np.repeat([0, 1], [len(usual), n]),
        )

    return drawn


def mixed_rows(seed):
    """Return the generated table, in which some rows have half of their columns of others."""
    X, rng = generated(seed=seed).drop(columns="target"), np.random.default_rng(seed)
    is_outlier = rng.random(len(X)) < OUTLIERS
    rows = np.flatnonzero(is_outlier)
    for name in ("price", "town", "stars"):
        X.loc[rows, name] = X[name].to_numpy()[rng.permutation(len(X))[: len(rows)]]
    return X, is_outlier.astype(int)


def area(make, drawn, seed):
    """Return the area under the ROC curve of a detector, and the time."""
    X, y = drawn(seed)
    detector = make(seed)
    if not isinstance(detector, RBMOutlierDetector):
        encoder = StandardScaler()
        if isinstance(X, pd.DataFrame):
            labels = ["town", "member"]
            encoder = make_column_transformer(
                (OneHotEncoder(sparse_output=False), labels), remainder=StandardScaler()
            )
        detector = make_pipeline(encoder, detector)
    start = time.process_time()
    scores = -detector.fit(X).score_samples(X)
    return roc_auc_score(y, scores), time.process_time() - start


def summary(found):
    """Return the means of scores over seeds with their deviations, and the mean seconds."""
    *means, seconds = np.mean(found, axis=0)
    pairs = zip(means, np.std(found, axis=0, ddof=1)[:-1], strict=True)
    texts = (f"{mean:.3f} ± {deviation:.3f}" if mean == mean else "" for mean, deviation in pairs)
    return *texts, float(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    heading(__file__, args)
    warnings.simplefilter("ignore")

    tables = {"breast cancer": load_breast_cancer, "wine": load_wine, "diabetes": load_diabetes}
    works = {name: partial(error_of_numbers, load) for name, load in tables.items()}
    works["mixed table"] = errors_of_mixed
    rows = []
    for share, (work, errors) in product(MISSING, works.items()):
        for name, make in IMPUTERS.items():
            found = [errors(make, share, seed) for seed in range(args.seeds)]
            rows.append((f"{work}, {100 * share:.0f} % missing", name, *summary(found)))
            progress(rows[-1])
    table(("table", "imputer", "rms error", "wrong labels", "seconds"), rows)

    works = {
        "breast cancer": rows_of_classes(load_breast_cancer, 1, 0),
        "wine": rows_of_classes(load_wine, 1, 0),
        "digits": rows_of_classes(load_digits, 8, 3),
        "mixed table": mixed_rows,
    }
    rows = []
    for work, drawn in works.items():
        for name, make in DETECTORS.items():
            found = [area(make, drawn, seed) for seed in range(args.seeds)]
            rows.append((work, name, *summary(found)))
            progress(rows[-1])
    table(("table", "detector", "ROC AUC", "seconds"), rows)

    for task in SCORES:
        compare(task, args.seeds)


if __name__ == "__main__":
    main()
