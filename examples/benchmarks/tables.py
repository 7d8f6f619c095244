"""Tables of mixed columns: imputation, and classifiers trained on synthetic rows.

    python examples/benchmarks/tables.py --seeds 3
    python examples/benchmarks/tables.py --kinds

One fifth of all values of a generated table and of three tables of scikit-learn is hidden. Printed
are the root mean squared error of imputed numbers divided by the standard deviation of the column,
and the fraction of wrong categories; the other imputers see standardized numbers and one-hot
encoded categories (without the first). Then gradient boosting is trained on one half of the table,
or on as many synthetic rows from a TabularRBM fitted to it, and tested on the other half. With
``--kinds``, kinds of columns are compared instead. Printed are then log-likelihoods of held-out
rows, in nats; for whole numbers with few values, the root mean squared error of imputing a fifth of
them; and for amounts that are mostly 0, the share of zeros among samples.
"""

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skrbm import TabularRBM

MISSING = 0.2


def generated(n=2000, seed=0):
    """Rows of six classes, with columns of all kinds; the target is the class's group."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 6, n)
    towns = np.array(["Lima", "Oslo", "Rome", "Bonn"])
    own = rng.dirichlet([0.3] * 4, 6)
    town = np.array([rng.choice(4, p=own[k]) for k in z])
    size = np.array([3.0, 4.0, 5.0, 6.0, 4.5, 3.5])[z] + 0.4 * rng.standard_normal(n)
    return pd.DataFrame(
        {
            "size": size,
            "price": 20 * size + 10 * (town == 2) + 6 * rng.standard_normal(n),
            "age": np.array([30, 45, 60, 25, 50, 70])[z] + rng.integers(-8, 9, n),
            "town": towns[town],
            "member": rng.random(n) < np.array([0.1, 0.9, 0.3, 0.7, 0.2, 0.8])[z],
            "stars": rng.binomial(5, np.array([0.2, 0.5, 0.9, 0.8, 0.4, 0.6])[z]),
            "target": np.array(["a", "b", "c"])[z // 2],
        }
    )


def embedded(load, classes=None):
    """One of scikit-learn's tables, with its target as a category."""
    frame = load(as_frame=True).frame
    target = frame["target"]
    if classes is not None:
        target = pd.qcut(target, classes, labels=False)
    frame["target"] = "class " + target.astype(str)
    return frame


def answers(n, levels, seed=0):
    """Answers 0 to levels - 1 to 20 questions, which depend on two normal factors."""
    rng = np.random.default_rng(seed)
    factors, loads = rng.standard_normal((n, 2)), rng.standard_normal((2, 20)) / np.sqrt(2)
    y = factors @ loads + 0.6 * rng.standard_normal((n, 20))
    return np.clip(np.rint((levels - 1) * (0.5 + y / 5)), 0, levels - 1)


def choices(n, levels, seed=0):
    """The same of four groups of people, each with probabilities of its own."""
    rng = np.random.default_rng(seed)
    edges = rng.dirichlet(np.full(levels, 0.5), (4, 20)).cumsum(axis=2)
    noise = rng.random((n, 20, 1))
    return (edges[rng.integers(0, 4, n)][..., :-1] < noise).sum(axis=2)


def counts(n, levels, seed=0):
    """Counts below ``levels`` whose rates depend on two normal factors."""
    rng = np.random.default_rng(seed)
    rates = np.exp(0.5 + rng.standard_normal((n, 2)) @ (0.6 * rng.standard_normal((2, 20))))
    return np.minimum(rng.poisson(rates), levels - 1)


WHOLE = {"answers": answers, "choices": choices, "counts": counts}


def compare_kinds(params):
    """Print what kinds of columns of whole numbers, and of amounts, give."""
    sizes = [(WHOLE["answers"], n, levels) for n in (150, 1000) for levels in (5, 11)]
    sizes += [(WHOLE["choices"], n, 5) for n in (150, 1000)] + [(WHOLE["counts"], 1000, 21)]
    for make, n, levels in sizes:
        X = pd.DataFrame(make(n, levels)).astype("Int64").add_prefix("q")
        train, test = X.iloc[: n * 7 // 10], X.iloc[n * 7 // 10 :]
        hidden = np.random.default_rng(1).random(test.shape) < MISSING
        for kind in ("auto", "discrete", "rating", "count", "real"):
            kinds = "auto" if kind == "auto" else dict.fromkeys(X, kind)
            rbm = TabularRBM(kinds=kinds, **params).fit(train)
            error = (rbm.impute(test.mask(hidden), random_state=0) - test).to_numpy(float)[hidden]
            print(
                f"{make.__name__} 0 to {levels - 1}, {len(train)} rows, {kind:8s} "
                f"{rbm.score(test):8.2f} nats, RMSE {np.sqrt((error**2).mean()):.3f}",
                flush=True,
            )
    rng = np.random.default_rng(0)
    gain = np.where(rng.random(2000) < 0.9, 0, np.rint(rng.lognormal(8, 1, 2000)))
    X = pd.DataFrame({"gain": gain, "other": rng.normal(size=2000) + (gain > 0)})
    for kind in ("auto", "skewed", "real", "positive", "bounded"):
        kinds = "auto" if kind == "auto" else {"gain": kind}
        drawn = TabularRBM(kinds=kinds, **params).fit(X[:1000]).sample(1000, random_state=0)["gain"]
        print(
            f"gains, {kind:8s} zeros {(drawn == 0).mean():.2f} (data {(gain == 0).mean():.2f}), "
            f"from {drawn.min():.0f} to {drawn.max():.0f} (data {gain.max():.0f})",
            flush=True,
        )


TABLES = {
    "generated": generated,
    "wine": lambda: embedded(load_wine),
    "breast cancer": lambda: embedded(load_breast_cancer),
    "diabetes": lambda: embedded(lambda as_frame: load_diabetes(as_frame=as_frame), 2),
}


class Encoded:
    """An imputer of scikit-learn, for tables: categories as bits, numbers standardized."""

    def __init__(self, imputer):
        self.imputer = imputer

    def fill(self, frame):
        parts, self.levels = [], {}
        for name, column in frame.items():
            if is_number(column):
                parts.append(column.astype(float).to_numpy()[:, None])
                continue
            self.levels[name] = levels = sorted(column.dropna().unique().tolist())
            codes = np.array([[v == level for level in levels[1:]] for v in column], dtype=float)
            codes[column.isna().to_numpy()] = np.nan
            parts.append(codes)
        X = np.concatenate(parts, axis=1)
        scaler = StandardScaler().fit(X)
        X = scaler.inverse_transform(self.imputer.fit_transform(scaler.transform(X)))
        found, start = {}, 0
        for (name, _), part in zip(frame.items(), parts, strict=True):
            columns = X[:, start : start + part.shape[1]]
            start += part.shape[1]
            levels = self.levels.get(name)
            if levels is not None:  # the first level is where no other is
                first = 1 - columns.sum(axis=1, keepdims=True)
                best = np.concatenate([first, columns], axis=1).argmax(axis=1)
            found[name] = columns[:, 0] if levels is None else np.array(levels)[best]
        return pd.DataFrame(found, index=frame.index)


class Imputer:
    """TabularRBM, fitted to the table with missing values."""

    def __init__(self, **params):
        self.params = params

    def fill(self, frame):
        return TabularRBM(**self.params).fit(frame).impute(frame, random_state=0)


def is_number(column):
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def errors(truth, filled, hidden):
    """Mean error over the numbers, and over the categories, of hidden values."""
    numbers, categories = [], []
    for name, column in truth.items():
        where = hidden[name].to_numpy()
        if not is_number(column):
            wrong = column.astype(str).to_numpy() != filled[name].astype(str).to_numpy()
            categories.append(wrong[where].mean())
            continue
        change = filled[name].astype(float) - column
        numbers.append(np.sqrt((change[where] ** 2).mean()) / column.std())
    return np.mean(numbers), np.mean(categories)


def with_holes(frame, seed):
    hidden = np.random.default_rng(seed).random(frame.shape) < MISSING
    hidden = pd.DataFrame(hidden, columns=frame.columns, index=frame.index)
    holes = frame.copy()
    for name in frame:
        if not is_number(frame[name]):
            holes[name] = holes[name].astype(object)
        elif frame[name].dtype.kind in "iu":
            holes[name] = holes[name].astype("Int64")
        holes.loc[hidden[name], name] = None
    return holes, hidden


def efficacy(frame, seed, params):
    """Accuracy on held-out rows of gradient boosting that learns from real or synthetic rows."""
    train, test = train_test_split(
        frame, test_size=0.5, random_state=seed, stratify=frame["target"]
    )
    synthetic = TabularRBM(**params).fit(train).sample(len(train), n_steps=500, random_state=seed)
    found = []
    for rows in (train, synthetic):
        model = HistGradientBoostingClassifier(random_state=0)
        model.fit(features(rows), rows["target"])
        found.append(model.score(features(test), test["target"]))
    return found


def features(frame):
    """The columns but the target, numbers as they are, and one bit for each value of others."""
    X = frame.drop(columns="target")
    named = [name for name in X if not is_number(X[name])]
    levels = {"town": ["Bonn", "Lima", "Oslo", "Rome"], "member": [False, True]}
    for name in named:
        X[name] = pd.Categorical(X[name], categories=levels[name]).codes
    return X


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--n-components", type=int, default=None)
    parser.add_argument("--n-iter", type=int, default=None)
    parser.add_argument("--tables", nargs="*", default=sorted(TABLES))
    parser.add_argument("--kinds", action="store_true")
    given = parser.parse_args()
    params = {"n_components": given.n_components, "n_iter": given.n_iter}
    params = {name: value for name, value in params.items() if value is not None}
    warnings.filterwarnings("ignore")
    if given.kinds:
        compare_kinds({"n_components": 16, "random_state": 0, **params})
        return
    for table in given.tables:
        frame = TABLES[table]()
        imputers = {
            "TabularRBM": Imputer(random_state=0, **params),
            "IterativeImputer": Encoded(IterativeImputer(max_iter=20, random_state=0)),
            "KNNImputer": Encoded(KNNImputer()),
            "mean": Encoded(SimpleImputer()),
        }
        print(f"{table}: {frame.shape[0]} rows, {frame.shape[1]} columns")
        for name, imputer in imputers.items():
            found, start = [], time.perf_counter()
            for seed in range(given.seeds):
                holes, hidden = with_holes(frame, seed)
                found.append(errors(frame, imputer.fill(holes), hidden))
            seconds = (time.perf_counter() - start) / given.seeds
            numbers, categories = np.mean(found, axis=0)
            spread = np.std(found, axis=0)
            print(
                f"  {name:17s} NRMSE {numbers:.3f} ± {spread[0]:.3f}   wrong categories "
                f"{categories:.3f} ± {spread[1]:.3f}   {seconds:.1f} s",
                flush=True,
            )
        found = [
            efficacy(frame, seed, {"random_state": seed, **params}) for seed in range(given.seeds)
        ]
        real, synthetic = 100 * np.mean(found, axis=0)
        print(
            f"  accuracy by real rows {real:.1f} %, by synthetic rows {synthetic:.1f} %", flush=True
        )


if __name__ == "__main__":
    main()
