"""What only TabularRBM does: kinds of columns, tables in and out, and values that are missing."""

import pickle
from datetime import time

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pandas.testing import assert_frame_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skrbm import RBM, CategoricalRBM, TabularRBM
from skrbm.exceptions import DataRangeWarning
from skrbm.persistence import load, save
from skrbm.units import (
    Bernoulli,
    Binomial,
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
    kinds = ["real", "real", "binary", "categorical", "rating", "categorical"]
    assert list(rbm.kinds_.values()) == kinds and list(rbm.kinds_) == list(people())
    expected = [(Bernoulli(), 1), (Binomial(4), 1), (Gaussian(), 2), (Categorical((3, 3)), 6)]
    assert rbm.units_[0] == ColumnUnits(expected)
    assert rbm.n_features_in_ == 6 and rbm.components_.shape == (4, 10)
    assert fitted(with_holes(people())).kinds_ == rbm.kinds_


def test_categories_of_numbers_are_categories():
    """Whatever the values are, samples and imputed values are some of them, of the same dtype."""
    X = pd.DataFrame({"floor": pd.Categorical([0, 1, 2, None, 2, 0]), "size": [1.5, 2, 3, 4, 5, 6]})
    rbm = fitted(X)
    assert rbm.kinds_ == {"floor": "categorical", "size": "real"}
    imputed = rbm.impute(X, random_state=0)
    assert imputed["floor"].dtype == X["floor"].dtype and not imputed["floor"].isna().any()
    assert_array_equal(imputed["floor"].drop(3), X["floor"].drop(3))
    assert rbm.sample(5, random_state=0)["floor"].dtype == X["floor"].dtype
    numbers = fitted(X, kinds={"floor": "real"}).sample(50, random_state=0)["floor"]
    assert numbers.dtype == float and numbers.nunique() == 50


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_whole_numbers_stay_in_the_range_of_their_dtype(library):
    """More than 50 of 500 draws, each below 0 by 0.28, are at the end but for chance < 1e-18."""
    age = np.repeat(np.array([0, 0, 0, 150], dtype=np.uint8), 5)
    huge = np.iinfo(np.int64).max - 1000 * np.arange(20)
    near = np.iinfo(np.int64).max - np.arange(20) % 5  # too close for floats to tell them apart
    X = pytest.importorskip(library).DataFrame({"age": age, "huge": huge, "near": near})
    rbm = fitted(X, kinds={"age": "real"})
    assert rbm.kinds_ == {"age": "real", "huge": "real", "near": "real"}
    drawn = rbm.sample(500, random_state=0)
    assert list(drawn.dtypes) == list(X.dtypes)
    assert (drawn["age"] == 0).sum() > 50
    assert drawn["huge"].min() > 9e18 and drawn["near"].min() > 9e18


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_times_are_an_error(zone):
    X = pd.DataFrame({"day": pd.date_range("2020", periods=5, tz=zone)})
    with pytest.raises(
        ValueError, match=r"'day' of X has dtype datetime64.*; turn it into numbers"
    ):
        fitted(X)


@pytest.mark.parametrize(
    "column",
    [
        pd.period_range("2020", periods=5, freq="M"),
        [pd.Period("2020")] * 5,
        pd.timedelta_range("1h", periods=5),
        [time(hour) for hour in range(5)],
    ],
    ids=["periods", "objects", "differences", "times"],
)
def test_periods_and_times_of_day_are_an_error(column):
    for X in (pd.DataFrame({"day": column}), pd.DataFrame({"day": column}, dtype=object)):
        with pytest.raises(ValueError, match=r"'day' of X has dtype .*; turn it into numbers"):
            fitted(X)


def test_intervals_are_categories():
    cut = pd.cut(pd.Series(np.arange(40.0)), 4)
    for column in (cut, cut.astype(cut.cat.categories.dtype)):
        X = pd.DataFrame({"age": column, "x": np.arange(40.0)})
        rbm = fitted(X)
        assert rbm.kinds_ == {"age": "categorical", "x": "real"}
        made = rbm.sample(20, random_state=0)
        assert made["age"].dtype == X["age"].dtype and made["age"].isin(X["age"]).all()


@pytest.mark.parametrize("values", [[[1, 2], [3, 4]], [{"a": 1}, {"a": 2}]], ids=["lists", "dicts"])
def test_values_that_are_several_are_an_error(values):
    pl = pytest.importorskip("polars")
    for X in (pd.DataFrame({"d": values}), pl.DataFrame({"d": values})):
        with pytest.raises(ValueError, match=r"column 'd' of X .* each value is several"):
            fitted(X)


def test_tables_with_categories_are_not_denoised():
    X = people()
    rbm = fitted(X)
    for noise in ({"flip_probability": 0.1}, {"noise_variance": 0.1}):
        with pytest.raises(ValueError, match=r"denoise is for binary and real .* impute"):
            rbm.denoise(X, **noise)


def test_tables_of_real_and_binary_columns_are_denoised():
    """Without couplings each column has the posterior mean of its own normal or Bernoulli law.

    There are more rows than one block has.
    """
    generator = np.random.default_rng(0)
    X = pd.DataFrame({"x": generator.normal(2, 1, 550_000), "on": True})
    X.loc[::3, "on"] = False
    rbm = fitted(X.iloc[:500])
    rbm.components_[...] = 0
    variance, machine = 0.5, rbm.machine_
    real = [column == "x" for column in rbm._encoder.names].index(True)
    own = 1 / rbm.precision_visible_[real]
    mean = machine.units[0].mean(machine.thetas[0])[real]
    expected = (own * X["x"] + variance * mean) / (own + variance)
    found = rbm.denoise(X, noise_variance=variance, random_state=0, n_steps=1)
    assert_allclose(found["x"], expected, rtol=1e-4, atol=1e-4)
    assert found["on"].dtype == bool


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
    """The likelihood is that of an RBM of the encoded columns, by its exact log Z."""
    X = people()[["income", "member", "stars"]]
    rbm = fitted(X)
    plain = np.column_stack([X["member"], X["stars"], X["income"]]).astype(float)
    other = RBM.from_parameters(
        rbm.components_,
        rbm.intercept_hidden_,
        rbm.intercept_visible_,
        precision_visible=rbm.precision_visible_,
        visible=rbm.units_[0],
    )
    assert_allclose(rbm.score_samples(X), other.score_samples(plain), rtol=1e-10)
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
        }
    )
    rbm = fitted(X)
    kinds = ["real", "rating", "binary", "categorical", "categorical", "real"]
    assert list(rbm.kinds_.values()) == kinds
    made = rbm.sample(5, random_state=0)
    assert (
        made.schema == X.schema
        and rbm.impute(X, random_state=0).null_count().sum_horizontal()[0] == 0
    )
    with pytest.raises(ValueError, match=r"'t' of X has dtype Struct"):
        fitted(X.with_columns(t=pl.struct("x", "n")))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, int, bool, object, "U5"])
def test_arrays_of_one_dtype_stay_arrays_of_it(dtype):
    X = np.random.default_rng(0).integers(0, 2 if dtype is bool else 40, (30, 3)).astype(dtype)
    rbm = fitted(X)
    made = rbm.sample(4, random_state=0)
    assert made.shape == (4, 3) and made.dtype.kind == np.dtype(dtype).kind
    assert_array_equal(rbm.impute(X, random_state=0), X)


def test_clone_pickle_search_and_files(tmp_path):
    X = with_holes(people())
    rbm = fitted(X, kinds={"age": "count"})
    for other in (pickle.loads(pickle.dumps(rbm)), clone(rbm).fit(X)):
        assert_array_equal(other.score_samples(X), rbm.score_samples(X))
    save(rbm, tmp_path / "machine.npz")
    read = load(tmp_path / "machine.npz")
    assert read.kinds_ == rbm.kinds_
    assert_frame_equal(read.sample(5, random_state=0), rbm.sample(5, random_state=0))
    search = GridSearchCV(TabularRBM(n_iter=2, random_state=0), {"n_components": [1, 2]}, cv=2)
    assert search.fit(X).best_params_["n_components"] in (1, 2)
    assert make_pipeline(rbm).transform(X).shape == (200, 4)


def test_parameters_of_a_fitted_machine():
    X = people()
    rbm = fitted(X)
    other = TabularRBM.from_parameters(rbm, random_state=0)
    assert other.n_features_in_ == 6 and other.score(X) == rbm.score(X)
    with pytest.raises(TypeError, match="takes a fitted TabularRBM"):
        TabularRBM.from_parameters(rbm.components_)
    with pytest.raises(NotFittedError):
        _ = TabularRBM().kinds_


def test_values_that_were_not_in_training():
    X = people()
    rbm = fitted(X)
    new = X.head(3).copy()
    new.loc[0, "city"] = "Bonn"
    with pytest.warns(DataRangeWarning, match=r"\['Bonn'\] in column 'city' .* categorical dtype"):
        assert rbm.impute(new, random_state=0).loc[0, "city"] in set(X["city"])
    new = X.head(3).copy()
    new.loc[1, "stars"] = 9
    with pytest.warns(DataRangeWarning, match="column 'stars' has values out of"):
        rbm.transform(new)
    with pytest.raises(ValueError, match="Bonn"):
        bad = X.assign(city="Bonn")
        rbm.set_params(handle_unknown="error")
        fitted(X, handle_unknown="error").transform(bad)


@pytest.mark.parametrize(
    "change, params, match",
    [
        ({"city": None}, {}, "'city' of X has no observed value"),
        ({"when": pd.Timestamp("2026-01-01")}, {}, "turn it into numbers"),
        ({}, {"kinds": {"town": "real"}}, "kinds must name columns of X"),
        ({}, {"kinds": {"age": "integer"}}, "kinds must name columns of X"),
        ({}, {"kinds": {"city": "real"}}, "values that are no numbers"),
        ({}, {"kinds": {"city": "binary"}}, "kind 'binary' and 3 values"),
        ({}, {"kinds": {"income": "count"}}, "no whole numbers|negative values"),
        ({"debt": -1.0}, {"kinds": {"debt": "positive"}}, "negative values"),
        ({}, {"kinds": {"age": "count"}, "hidden": "gaussian"}, "have no distribution beside"),
        ({"income": np.inf}, {}, "infinity"),
        ({"income": pd.Series([1.0, np.inf, *[2.0] * 198], dtype=object)}, {}, "infinity"),
    ],
)
def test_errors_name_the_column(change, params, match):
    with pytest.raises(ValueError, match=match):
        fitted(people().assign(**change), **params)


def test_columns_that_are_constant():
    X = people().assign(one=1.0, same="x", yes=True, n=3)
    rbm = fitted(X, kinds={"one": "bounded"})
    made = rbm.sample(4, random_state=0)
    assert (made["same"] == "x").all() and made["yes"].all() and (made["n"] == 3).all()
    assert np.isfinite(rbm.score(X))
    with pytest.raises(ValueError, match="X has 1 sample, and the scale of real columns"):
        fitted(X.head(1))


def test_ratings_of_too_many_values_are_refused():
    table = pd.DataFrame({"a": [0, 10**6]})
    with pytest.raises(ValueError, match="use Gaussian units"):
        TabularRBM(kinds={"a": "rating"}).fit(table)


def test_ratings_may_begin_above_zero():
    """A rating from 3 to 7 is a unit from 0 to 4; its mean is that of the data."""
    stars = 3 + np.random.default_rng(0).binomial(4, 0.7, 400)
    rbm = TabularRBM(2, n_iter=0, random_state=0)  # independent columns
    rbm.fit(pd.DataFrame({"stars": stars, "noise": np.random.default_rng(1).normal(size=400)}))
    unit = rbm.units_[0].units[0]
    assert unit == Binomial(4) and rbm.kinds_["stars"] == "rating"
    mean = unit.mean(rbm.machine_.thetas[0].map(lambda part: part[:1]))[0]
    assert mean == pytest.approx(stars.mean() - 3, abs=0.02)
    assert rbm.sample(500, random_state=0)["stars"].between(3, 7).all()


# --------------------------------------------------------- starts at a machine of a table


def of_small_table(**columns):
    rng = np.random.default_rng(0)
    usual = {
        "s": rng.choice(["u", "v", "w"], 60),
        "t": np.arange(60) % 4,
        "x": rng.standard_normal(60),
    }
    return pd.DataFrame(usual | columns)


def test_a_fit_starts_at_a_machine_of_the_same_table():
    X = of_small_table()
    rbm = fitted(X)
    assert_array_equal(fitted(X[::-1], n_iter=0, init=rbm).components_, rbm.components_)
    arrays = rbm.components_, rbm.intercept_hidden_, rbm.intercept_visible_
    assert_array_equal(fitted(X, n_iter=0, init=arrays).components_, rbm.components_)


@pytest.mark.parametrize(
    "other",
    [
        of_small_table(s=of_small_table()["s"].map({"u": "z_u", "v": "a_v", "w": "b_w"})),
        of_small_table(s=np.resize(["u", "v", "w", "y"], 60)),
        of_small_table(t=10 + np.arange(60) % 4),
        of_small_table(t=np.arange(60) % 9),
        of_small_table()[["s", "x", "t"]],
        of_small_table().rename(columns={"x": "y"}),
        of_small_table(x=np.arange(60) % 2 == 0),
        of_small_table().drop(columns="x"),
    ],
    ids=["names", "number of names", "shift", "range", "order", "name of column", "kind", "fewer"],
)
def test_a_fit_does_not_start_at_a_machine_of_another_table(other):
    with pytest.raises(ValueError, match="another table"):
        fitted(other, init=fitted(of_small_table()))


def test_what_differs_between_tables_is_told_in_few_words():
    many = of_small_table(s=[f"value {i}" for i in range(60)])
    with pytest.raises(ValueError, match=r"X has the column \('s'.*, it has \('s'") as error:
        fitted(many, init=fitted(of_small_table()))
    assert len(str(error.value)) < 400


def test_a_fit_of_a_table_does_not_start_at_a_machine_of_categories_nor_the_reverse():
    X = of_small_table()[["s"]]
    categories = CategoricalRBM(4, n_iter=1, random_state=0).fit(X)
    with pytest.raises(ValueError, match="give a TabularRBM"):
        fitted(X, init=categories)
    with pytest.raises(ValueError, match="other categories"):
        categories.set_params(init=fitted(X)).fit(X)


# ------------------------------------------------------------------- names that are numbers


def test_a_number_that_is_a_name_is_no_place():
    X = pd.DataFrame({0: [0.5, 1.5, 2.5], 2: [0.0, 1.0, 4.0], 3: [0.0, 2.0, 5.0]})
    assert fitted(X, kinds={2: "count"}).kinds_ == {0: "real", 2: "count", 3: "real"}
    with pytest.raises(ValueError, match="kinds must name columns of X"):
        fitted(X, kinds={1: "count"})
    X.columns = ["a", "b", "c"]
    assert fitted(X, kinds={1: "count"}).kinds_ == {"a": "real", "b": "count", "c": "real"}
    assert fitted(X.to_numpy(), kinds={1: "count"}).kinds_ == {0: "real", 1: "count", 2: "real"}
