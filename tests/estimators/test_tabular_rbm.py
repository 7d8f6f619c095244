"""What only TabularRBM does: kinds of columns, tables in and out, and values that are missing."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from pandas.testing import assert_frame_equal

from skrbm import RBM, TabularRBM
from skrbm.exceptions import DataRangeWarning
from skrbm.units import (
    Bernoulli,
    Categorical,
    ColumnUnits,
    Gaussian,
    Poisson,
    ReLU,
    TruncatedGaussian,
)


def people(n=200, seed=0):
    """Rows of two classes, with columns of many dtypes."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, n)
    cities = np.array(["Rome", "Oslo", "Lima"])
    return pd.DataFrame(
        {
            "age": rng.integers(20, 60, n) + 20 * z,
            "income": 1e4 + 3e4 * z + 5e3 * rng.standard_normal(n),
            "member": rng.random(n) < 0.1 + 0.8 * z,
            "city": cities[np.where(rng.random(n) < 0.9, z, 2)],
            "stars": rng.binomial(4, 0.1 + 0.8 * z),
            "grade": pd.Categorical(
                np.where(z, "high", "low"), categories=["low", "mid", "high"], ordered=True
            ),
        }
    )


def with_holes(frame, seed=1):
    rng, holes = np.random.default_rng(seed), frame.copy()
    holes["age"], holes["stars"] = (holes[name].astype("Int64") for name in ("age", "stars"))
    holes["member"] = holes["member"].astype("boolean")
    for name in frame:
        holes.loc[rng.random(len(frame)) < 0.2, name] = None
    return holes


def fitted(X, **params):
    params = {"n_components": 4, "n_iter": 5, "random_state": 0} | params
    return TabularRBM(**params).fit(X)


def test_kinds_are_found_from_dtypes():
    rbm = fitted(people())
    kinds = ["real", "real", "binary", "categorical", "discrete", "categorical"]
    assert list(rbm.kinds_.values()) == kinds and list(rbm.kinds_) == list(people())
    expected = [(Bernoulli(), 1), (Gaussian(), 2), (Categorical((5, 3, 3)), 11)]
    assert rbm.units_[0] == ColumnUnits(expected)
    assert rbm.n_features_in_ == 6 and rbm.components_.shape == (4, 14)
    assert fitted(with_holes(people())).kinds_ == rbm.kinds_


def test_floats_that_are_whole():
    """Without missing values, which make floats of integers, only 0 and 1 are no real numbers."""
    n = np.arange(60.0)
    columns = {"bit": n % 2, "stars": n % 5, "many": n, "half": n % 2 + 0.5}
    X = np.stack(list(columns.values()), axis=1)
    assert list(fitted(X).kinds_.values()) == ["binary", "real", "real", "real"]
    X[0] = np.nan
    assert list(fitted(X).kinds_.values()) == ["binary", "rating", "real", "real"]
    drawn = fitted(X).sample(50, random_state=0)
    assert set(np.unique(drawn[:, 0])) <= {0, 1} and set(np.unique(drawn[:, 1])) <= set(range(5))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_whole_numbers_stay_in_the_range_of_their_dtype(library):
    """And within those of the training data."""
    age = np.repeat(np.array([0, 0, 0, 150], dtype=np.uint8), 5)
    huge = np.iinfo(np.int64).max - 1000 * np.arange(20)
    near = np.iinfo(np.int64).max - np.arange(20) % 5  # too close for floats to tell them apart
    X = pytest.importorskip(library).DataFrame({"age": age, "huge": huge, "near": near})
    rbm = fitted(X, kinds={"age": "real"})
    assert rbm.kinds_ == {"age": "real", "huge": "real", "near": "real"}
    drawn = rbm.sample(500, random_state=0)
    assert list(drawn.dtypes) == list(X.dtypes)
    assert drawn["age"].min() >= 0 and drawn["age"].max() <= 150
    assert drawn["huge"].min() > 9e18 and drawn["near"].min() > 9e18


def test_kinds_that_are_asked_for():
    X = people()
    X["income"] = X["income"].abs()
    asked = {"age": "count", "income": "positive", "stars": "categorical", 2: "categorical"}
    X["share"] = np.random.default_rng(0).random(200)
    asked["share"] = "bounded"
    rbm = fitted(X, kinds=asked)
    ends = TruncatedGaussian(X["share"].min(), X["share"].max())
    expected = [(Poisson(), 1), (ReLU(), 1), (ends, 1), (Categorical((2, 3, 5, 3)), 13)]
    assert rbm.units_[0] == ColumnUnits(expected)
    assert (rbm.sample(50, random_state=0)["share"].between(*ends.bounds)).all()
    again = rbm.sample(50, random_state=0)
    assert set(again["stars"]) <= set(X["stars"]) and again["member"].dtype == bool


def test_the_machine_is_that_of_its_columns():
    """The likelihood is that of an RBM of the encoded columns, by its exact log Z.

    Real columns are standardized, which divides densities by the standard deviation.
    """
    X = people()[["income", "member", "stars"]]
    rbm, scale = fitted(X, kinds={"stars": "rating"}), X["income"].std(ddof=0)
    income = (X["income"] - X["income"].mean()) / scale
    plain = np.column_stack([X["member"], X["stars"], income]).astype(float)
    other = RBM.from_parameters(
        rbm.components_,
        rbm.intercept_hidden_,
        rbm.intercept_visible_,
        precision_visible=rbm.precision_visible_,
        visible=rbm.units_[0],
    )
    expected = other.score_samples(plain) - np.log(scale)
    assert_allclose(rbm.score_samples(X), expected, rtol=1e-10)
    assert_allclose(rbm.transform(X), other.transform(plain), rtol=1e-10)


@pytest.mark.parametrize("holes", [False, True])
def test_samples_and_imputed_values_are_tables_like_x(holes):
    X = with_holes(people()) if holes else people()
    rbm = fitted(X)
    made = rbm.sample(7, random_state=0)
    assert list(made) == list(X) and (made.dtypes == X.dtypes).all() and len(made) == 7
    assert set(made["city"]) <= {"Rome", "Oslo", "Lima"} and made["stars"].between(0, 4).all()
    rows = X.iloc[5:25]
    full = rbm.impute(rows, random_state=0)
    assert full.index.equals(rows.index) and (full.dtypes == X.dtypes).all()
    assert not full.isna().any().any()
    known = ~rows.isna()
    assert_frame_equal(full.where(known).astype(object), rows.where(known).astype(object))
    drawn = rbm.sample(given=rows, random_state=0)
    assert (drawn["income"] == rows["income"])[known["income"]].all()
    for made in (drawn, rbm.gibbs(full), rbm.predict(rows)):
        assert made.index.equals(rows.index)
    assert np.isfinite(rbm.score_samples(X)).all() and np.isfinite(rbm.transform(X)).all()


def test_what_is_missing_follows_from_what_is_known():
    """Two classes that all columns tell: a hidden column is right in nine rows of ten."""
    X, more = people(400), people(100, seed=5)
    rbm = fitted(X, n_iter=30)
    for name, chance in (("member", 0.8), ("city", 0.8)):
        holes = more.copy().astype(object)
        holes[name] = None
        full = rbm.impute(holes, random_state=0)
        assert (full[name].to_numpy() == more[name].to_numpy()).mean() > chance
    holes = more.copy()
    holes["income"] = np.nan
    error = rbm.impute(holes, random_state=0)["income"] - more["income"]
    assert error.std() < 0.6 * more["income"].std()


def test_tables_of_polars():
    pl = pytest.importorskip("polars")
    X = pl.DataFrame(
        {
            "x": [1.5, 2.5, None, 0.1],
            "n": [1, 2, 3, None],
            "b": [True, None, False, True],
            "s": ["u", "v", "w", None],
            "e": pl.Series(["a", "b", "a", None], dtype=pl.Enum(["a", "b", "c"])),
            "d": pl.Series(["1.25", "2.5", None, "7.125"]).cast(pl.Decimal(12, 3)),
            "c": pl.Series(["red", "blue", None, "red"], dtype=pl.Categorical),
        }
    )
    pl.Series(["green"], dtype=pl.Categorical)  # of another table
    rbm = fitted(X)
    kinds = ["real", "rating", "binary", "categorical", "categorical", "real", "binary"]
    assert list(rbm._encoder.table[-1].values) == ["blue", "red"]
    assert list(rbm.kinds_.values()) == kinds
    made = rbm.sample(5, random_state=0)
    assert (
        made.schema == X.schema
        and rbm.impute(X, random_state=0).null_count().sum_horizontal()[0] == 0
    )


def test_values_that_were_not_in_training():
    X = people()
    rbm = fitted(X)
    new = X.head(3).copy()
    new.loc[0, "city"] = "Bonn"
    with pytest.warns(DataRangeWarning, match=r"\['Bonn'\] in column 'city' .* categorical dtype"):
        assert rbm.impute(new, random_state=0).loc[0, "city"] in set(X["city"])
    new = X.head(3).copy()
    new.loc[1, "stars"] = 9
    with pytest.warns(DataRangeWarning, match="column 'stars' has values that do not occur"):
        rbm.transform(new)
    with pytest.raises(ValueError, match="Bonn"):
        bad = X.assign(city="Bonn")
        rbm.set_params(handle_unknown="error")
        fitted(X, handle_unknown="error").transform(bad)


def unseen_values():
    """Rows of a factor, and values that none of them has, by column."""
    rng, n = np.random.default_rng(0), 300
    z = rng.integers(0, 2, n)
    X = pd.DataFrame(
        {
            "answer": rng.binomial(4, 0.2 + 0.6 * z),
            "stars": rng.binomial(9, 0.2 + 0.6 * z),
            "visits": rng.poisson(2 + 4 * z),
            "width": abs(rng.normal(size=n)),
            "share": rng.beta(2, 2, n),
            "size": rng.normal(size=n) + z,
            "bit": (rng.random(n) < 0.2 + 0.6 * z).astype(int),
            "town": np.array(["Lima", "Oslo", "Rome"])[np.where(rng.random(n) < 0.9, z, 2)],
            "grade": pd.Categorical(
                np.where(z, "high", "low"), categories=["low", "mid", "high"], ordered=True
            ),
        }
    )
    far = {name: [20, 99, 1e4, 1e9] for name in X if X[name].dtype.kind in "if"}
    far |= {"bit": [2], "town": ["Bonn"], "grade": ["top"]}
    return (
        X,
        {"answer": "discrete", "visits": "count", "width": "positive", "share": "bounded"},
        far,
    )


@pytest.mark.filterwarnings("ignore:.*:skrbm.exceptions.DataRangeWarning")
def test_values_that_were_not_in_training_are_improbable():
    """Less probable than all values of training, by a finite amount that grows with distance."""
    X, kinds, far = unseen_values()
    rbm = fitted(X, kinds=kinds, n_iter=2)
    row = X.iloc[[7]].astype(object)
    for name, values in far.items():
        seen = X[name].unique()
        usual = rbm.score_samples(pd.concat([row] * len(seen)).assign(**{name: seen}))
        scores = rbm.score_samples(pd.concat([row] * len(values)).assign(**{name: values}))
        assert (np.diff(np.append(usual.max() - np.log(len(X)) / 2, scores)) < 0).all(), name
        assert usual.min() - 1000 < scores.min(), name
    row["town"] = "Bonn"
    unknown, without = (rbm.score_samples(row.assign(town=town))[0] for town in ("Bonn", None))
    assert_allclose(unknown, without - np.log(len(X) + 1))
    shares = TabularRBM(4, n_iter=1).fit(X, sample_weight=np.full(len(X), 1 / len(X)))
    assert_allclose(
        shares.score_samples(row) - shares.score_samples(row.assign(town=None)), unknown - without
    )
    assert_allclose(-rbm.free_energy(row) - rbm.log_partition(), unknown)
    in_blocks = fitted(lambda: (X[:90], X[90:]), n_iter=0)
    with_nothing = in_blocks.score_samples(row) - in_blocks.score_samples(row.assign(town=None))
    assert_allclose(with_nothing, -np.log(len(X) + 1))
    ignored = fitted(X, n_iter=0, handle_unknown="ignore")
    assert_allclose(*(ignored.score_samples(row.assign(town=town)) for town in ("Bonn", None)))


@pytest.mark.filterwarnings("ignore:.*:skrbm.exceptions.DataRangeWarning")
@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_other_values_of_constant_columns_are_improbable(covariance):
    """As improbable as one of n + 1 rows or more, and the more so the farther they are."""
    X, _, _ = unseen_values()
    numbers = {"whole": 7, "zero": 0, "large": 123456789, "float": 0.1, "small": -1e-3}
    kinds = {"count": "count", "bounded": "bounded", "positive": "positive", "skewed": "skewed"}
    X = X.assign(**numbers, **dict.fromkeys(kinds, 3), label="a", bit=True, other=[0, 5] * 150)
    rbm = fitted(X, kinds=kinds | {"other": "spiked"}, covariance=covariance, n_iter=2)
    row = X.iloc[[7]].astype(object)
    usual = rbm.score_samples(row)[0]
    values = {name: np.add(row[name].item(), [1, 2, 50, 1e9]) for name in [*numbers, *kinds]}
    values |= {"label": ["b"], "bit": [False], "other": [6, 7, 50, 1e9]}
    for name, others in values.items():
        own = rbm.score_samples(row.assign(**{name: 5}))[0] if name == "other" else usual
        scores = rbm.score_samples(pd.concat([row] * len(others)).assign(**{name: others}))
        limit = np.log(len(X) + (name != "bit"))  # a constant bit has a probability below 1
        assert own - scores[0] > limit - 1e-9 and (np.diff(scores) < 0).all(), name
    assert_allclose(rbm.score_samples(row.assign(float=float(np.float32(0.1)))), usual)


@pytest.mark.parametrize(
    "change, params, name",
    [
        ({"city": None}, {}, "city"),
        ({"when": pd.Timestamp("2026-01-01")}, {}, "when"),
        ({"debt": -1.0}, {"kinds": {"debt": "positive"}}, "debt"),
        ({}, {"kinds": {"town": "real"}}, "town"),
        ({}, {"kinds": {"city": "real"}}, "city"),
        ({}, {"kinds": {"city": "binary"}}, "city"),
        ({}, {"kinds": {"age": "count"}, "hidden": "gaussian"}, "Poisson"),
        ({"income": np.inf}, {}, "infinity"),
    ],
)
def test_errors_name_the_column(change, params, name):
    with pytest.raises(ValueError, match=name):
        fitted(people().assign(**change), **params)


def test_discrete_columns_have_the_values_that_were_seen():
    """Doses with gaps are imputed, drawn and encoded as doses, also where their mean is none."""
    rng = np.random.default_rng(0)
    doses = np.array([0, 4, 20])[rng.integers(0, 3, 300)]
    X = pd.DataFrame({"dose": doses, "effect": 0.1 * doses + rng.normal(size=300)})
    rbm = fitted(X)
    assert rbm.kinds_["dose"] == "discrete" and rbm.components_.shape[1] == 4
    holes = X.astype({"dose": "Int64"})
    holes.loc[::2, "dose"] = None
    for found in (rbm.impute(holes, random_state=0), rbm.sample(100, random_state=0)):
        assert set(found["dose"]) <= {0, 4, 20}
    with pytest.warns(DataRangeWarning, match="not occur in the training data"):
        between = rbm.transform(X[:3].assign(dose=[1, 11, 99]))
    assert_allclose(between, rbm.transform(X[:3].assign(dose=[0, 4, 20])))


def test_missing_values_of_spiked_columns_and_beside_a_precision_matrix():
    """In memory and in blocks, which have the same statistics of columns."""
    X = with_holes(people())
    for name in ("tips", "fines"):
        X[name] = np.where(X["income"] < 3e4, 0.0, X["income"])
    for covariance in ("diag", "full"):
        rbm = fitted(X, covariance=covariance)
        assert rbm.kinds_["tips"] == rbm.kinds_["fines"] == "spiked"
        assert np.isfinite(rbm.score_samples(X)).all()
        in_blocks = fitted(lambda: (X[:90], X[90:]), covariance=covariance)
        assert_allclose(in_blocks.visible_means_, rbm.visible_means_, rtol=1e-5, atol=1e-9)
