"""RBMImputer and RBMOutlierDetector: conditionals by enumeration, tables, pipelines."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from _estimators import Interruption
from _fractional import all_rows
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from skrbm import (
    RBM,
    RatingRBM,
    RBMClassifier,
    RBMImputer,
    RBMOutlierDetector,
    TabularRBM,
)
from skrbm.exceptions import DataRangeWarning
from skrbm.inference import Gibbs

N_BITS = 5
STATES = all_rows(N_BITS)
SMALL_TABLE = TabularRBM(3, n_iter=2, random_state=0)


def bits(n=200):
    rng = np.random.default_rng(0)
    first = rng.random((n, 1)) < 0.5
    return np.where(rng.random((n, N_BITS)) < 0.2, ~first, first).astype(float)


@pytest.fixture(scope="module")
def detector():
    rbm = RBM(3, n_iter=20, random_state=0)
    return RBMOutlierDetector(rbm, contamination=0.2).fit(bits())


def mixed(n=60):
    rng = np.random.default_rng(0)
    town, size = rng.choice(["Lima", "Oslo", "Rome"], n), rng.normal(size=n)
    return pd.DataFrame({"town": town, "size": size, "member": size > 0}, index=np.arange(n) + 7)


def test_scores_of_features_are_conditional_probabilities(detector):
    log_p = -detector.estimator_.free_energy(STATES)
    others = np.array(
        [
            [logsumexp(log_p[(np.delete(STATES, j, 1) == np.delete(v, j)).all(1)]) for v in STATES]
            for j in range(N_BITS)
        ]
    )
    assert_allclose(detector.score_features(STATES), log_p[:, None] - others.T, rtol=1e-8)


def test_a_missing_value_has_no_score_and_is_summed_out(detector):
    X = STATES[:3].copy()
    X[1, 2] = np.nan
    scores = detector.score_features(X)
    assert_array_equal(np.isnan(scores), np.isnan(X))
    both = np.repeat(X[1:2], 2, axis=0)
    both[:, 2] = 0, 1
    assert_allclose(detector.score_samples(X)[1], logsumexp(detector.score_samples(both)))


def test_the_least_probable_training_rows_are_outliers(detector):
    X = bits()
    scores = detector.estimator_.score_samples(X)
    assert_allclose(detector.offset_, np.quantile(scores, 0.2, method="averaged_inverted_cdf"))
    assert_array_equal(detector.predict(X), np.where(scores < detector.offset_, -1, 1))
    assert_allclose(detector.decision_function(X), scores - detector.offset_)


@pytest.mark.filterwarnings("ignore:.*:skrbm.exceptions.DataRangeWarning")
def test_rows_with_values_that_no_training_row_has_are_outliers():
    rng, n = np.random.default_rng(0), 300
    z = rng.integers(0, 2, n)
    answers = np.column_stack([rng.binomial(4, 0.2 + 0.6 * z) for _ in range(4)])
    rbm = TabularRBM(4, n_iter=20)
    detector = RBMOutlierDetector(rbm, random_state=0).fit(answers)
    rows = np.repeat(answers[:1], 4, axis=0)
    rows[range(4), range(4)] = 99
    assert (detector.predict(rows) == -1).all()
    with pytest.warns(DataRangeWarning) as caught:
        assert_array_equal(detector.score_features(rows).argmin(axis=1), range(4))
    assert len(caught) == 4  # one for each column
    assert RBMOutlierDetector(random_state=0).fit(bits()).predict([[0, 0, 99, 0, 0]]) == -1
    towns = np.array(["Lima", "Oslo"], dtype=object)[np.column_stack([z, z])]
    labelled = RBMOutlierDetector(rbm, random_state=0).fit(towns)
    assert list(labelled.predict([["Lima", "Lima"], ["Bonn", "Bonn"]])) == [1, -1]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_features_of_tables_are_scored_by_column(library):
    X = mixed()
    if library == "polars":
        polars = pytest.importorskip("polars")
        X = polars.DataFrame({name: X[name].tolist() for name in X})
    detector = RBMOutlierDetector(SMALL_TABLE, random_state=0).fit(X)
    scores, rows = detector.score_features(X[:4]), mixed().iloc[:4]
    assert scores.shape == (4, 3)
    for j, name in enumerate(["town", "member"]):  # sums over the values of a column
        total = 0.0
        for value in mixed()[name].unique():
            other = rows.assign(**{name: value})
            if library == "polars":
                other = polars.DataFrame({column: other[column].tolist() for column in other})
            total = total + np.exp(detector.score_features(other)[:, 2 * j])
        assert_allclose(total, 1, rtol=1e-6)


def test_imputed_draws_have_the_distribution_given_what_is_observed(detector):
    rbm = detector.estimator_
    row, n = np.array([[1, 0, np.nan, 1, np.nan]]), 4000
    known = ~np.isnan(row[0])
    log_p = -rbm.free_energy(STATES)
    matches = (STATES[:, known] == row[0, known]).all(axis=1)
    p = np.exp(log_p[matches] - logsumexp(log_p[matches]))
    draws = rbm.impute(np.repeat(row, n // 2, axis=0), n_draws=2, random_state=0)
    assert len(draws) == 2
    found = np.concatenate(draws)
    assert_array_equal(found[:, known], np.repeat(row[:, known], n, axis=0))
    shares = np.array([(found == state).all(axis=1).mean() for state in STATES[matches]])
    # Four shares, each within five standard deviations: wrong with a probability below 3e-6.
    assert (np.abs(shares - p) < 5 * np.sqrt(p * (1 - p) / n)).all()
    assert_allclose(rbm.impute(row)[0, ~known], p @ STATES[matches][:, ~known], rtol=1e-6)


def with_factor(n, n_columns, noise, missing, seed):
    """Rows of a factor and noise, without and with holes, and their conditional means."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 1)) + noise * rng.normal(size=(n, n_columns))
    gaps = rng.random(X.shape) < missing
    holes, expected = np.where(gaps, np.nan, X), X.copy()
    covariance = np.ones((n_columns, n_columns)) + noise**2 * np.eye(n_columns)
    for row, gap in zip(expected, gaps, strict=True):
        across = covariance[np.ix_(gap, ~gap)]
        row[gap] = across @ np.linalg.solve(covariance[np.ix_(~gap, ~gap)], row[~gap])
    return X, holes, expected


def test_imputed_numbers_are_conditional_means_of_a_normal_distribution():
    _, holes, expected = with_factor(500, 4, noise=0.5, missing=0.2, seed=0)
    rbm, gaps = RBM(2, visible="gaussian", n_iter=60), np.isnan(holes)
    found = RBMImputer(rbm, random_state=0).fit_transform(holes)
    assert_array_equal(found[~gaps], holes[~gaps])
    # Parameters of 500 rows have errors of about 5 %, and conditional means are about 1.
    assert np.sqrt(np.mean((found - expected)[gaps] ** 2)) < 0.15


@pytest.mark.law
@pytest.mark.parametrize("seed", range(4))
def test_the_default_machine_imputes_strongly_correlated_columns(seed):
    X, holes, expected = with_factor(300, 6, noise=0.3, missing=0.3, seed=seed)
    gaps = np.isnan(holes)
    found = RBMImputer(random_state=0).fit_transform(holes)
    errors = [np.sqrt(np.mean((part - X)[gaps] ** 2)) for part in (found, expected)]
    assert errors[0] < 1.2 * errors[1]  # 540 values: each error is known to 3 %


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_are_imputed_as_tables(library):
    table = mixed().assign(empty=None).astype({"member": object})
    table.iloc[::5, 0], table.iloc[1::5, 1], table.iloc[2::7, 2] = None, None, None
    names = ["town", "size", "member", "missingindicator_town", "missingindicator_size"]
    names += ["missingindicator_member", "missingindicator_empty"]
    imputer, X = RBMImputer(SMALL_TABLE, add_indicator=True, random_state=0), table
    if library == "polars":
        polars = pytest.importorskip("polars")
        columns = {name: table[name].tolist() for name in table}
        holes = {name: [None if v != v else v for v in own] for name, own in columns.items()}
        X = polars.DataFrame(holes)
    found = imputer.fit(X).transform(X)
    assert type(found) is type(X)
    assert list(found.columns) == list(imputer.get_feature_names_out()) == names
    found = pd.DataFrame({name: list(found[name]) for name in names}, index=table.index)
    missing = table.isna()
    assert not found.isna().any(axis=None)
    for name in ("town", "size", "member"):
        known = ~missing[name]
        assert (found.loc[known, name] == table.loc[known, name]).all()
        assert_array_equal(found["missingindicator_" + name], missing[name])


@pytest.mark.parametrize("library", ["pandas", "polars", "array"])
def test_observed_values_stay_as_they_are_where_the_units_do_not_take_them(library):
    train = {"town": ["Lima", "Oslo"] * 20, "stars": [1, 2, 3, 5] * 10, "size": np.arange(40.0) / 7}
    rows = {"town": ["Paris", "Lima", None], "stars": [1.5, 99.0, None], "size": [1e9, None, 0.5]}
    if library == "array":
        train, rows = (np.array(list(zip(*X.values(), strict=True)), object) for X in (train, rows))
        missing = rows == None  # noqa: E711
    else:
        library = pytest.importorskip(library)
        train, rows = library.DataFrame(train), library.DataFrame(rows)
        missing = pd.DataFrame({name: list(rows[name]) for name in rows.columns}).isna().to_numpy()
    imputer = RBMImputer(SMALL_TABLE, random_state=0).fit(train)
    with pytest.warns(DataRangeWarning):
        found = imputer.transform(rows)
    given, found = np.asarray(rows, dtype=object), np.asarray(found, dtype=object)
    assert_array_equal(found[~missing], given[~missing])
    assert set(found[missing][1:]) <= {"Lima", "Oslo", 1, 2, 3, 4, 5}


@pytest.mark.filterwarnings("ignore:.*:skrbm.exceptions.DataRangeWarning")
@pytest.mark.parametrize(
    "library, kind, train, rows",
    [
        ("pandas", "category", ["a", "b"], ["z", None, "a"]),
        ("pandas", "ordered", ["a", "b"], ["z", None, "a"]),
        ("pandas", "category", [1, 2], [3, None, 1]),
        ("pandas", "string", ["a", "b"], ["z", None, "a"]),
        ("pandas", "object", ["a", "b"], ["z", None, "a"]),
        ("pandas", "Int64", [1, 2], [2**60 + 1, None, 1]),
        ("polars", "Categorical", ["a", "b"], ["z", None, "a"]),
        ("polars", "Enum", ["a", "b"], ["z", None, "a"]),
        ("polars", "Int32", [1, 2], [9, None, 1]),
    ],
)
def test_columns_with_unseen_values_keep_their_dtypes(library, kind, train, rows):
    module = pytest.importorskip(library)

    def table(values):
        if library == "polars":
            dtype = getattr(module, kind)
            dtype = dtype(sorted({*values} - {None})) if kind == "Enum" else dtype
        else:
            dtype = pd.CategoricalDtype(ordered=True) if kind == "ordered" else kind
        numbers = np.arange(len(values)) / 7
        return module.DataFrame({"t": module.Series(values, dtype=dtype), "x": numbers})

    imputer = RBMImputer(SMALL_TABLE, random_state=0).fit(table(train * 20))
    X = table(rows)  # after fit, since categories of polars may have one list for all columns
    for filled in (imputer.transform(X), *imputer.impute(X, n_draws=2)):
        given, found = X["t"], filled["t"]
        values = list(found)
        assert values[0] == rows[0] and values[1] in train and values[2] == rows[2]
        if kind in ("category", "ordered", "Enum"):  # further categories are the last ones
            own, first = list(found.dtype.categories), list(given.dtype.categories)
            assert own[: len(first)] == first and {*own[len(first) :]} <= {*train}
            assert type(found.dtype) is type(given.dtype)
            assert kind == "Enum" or found.dtype.ordered == given.dtype.ordered
        else:
            assert type(found.dtype) is type(given.dtype) and found.dtype == given.dtype


@pytest.mark.filterwarnings("ignore:.*:skrbm.exceptions.DataRangeWarning")
@pytest.mark.parametrize("library, kind", [("pandas", "Int64"), ("polars", "Int32")])
def test_imputed_numbers_are_not_rounded_by_the_dtype_of_other_rows(library, kind):
    library = pytest.importorskip(library)
    dtype = kind if library is pd else getattr(library, kind)
    imputer = RBMImputer(RBM(2, visible="spin", n_iter=2), random_state=0)
    imputer.fit(library.DataFrame({"a": [-1.0, 1.0] * 10, "b": [-1.0, 1.0] * 10}))
    columns = {"a": [5, None], "b": [1, 1]}
    columns = {name: library.Series(own, dtype=dtype) for name, own in columns.items()}
    values = list(imputer.transform(library.DataFrame(columns))["a"])
    assert values[0] == 5 and 0 < abs(values[1]) < 1


@pytest.mark.parametrize("library, other", [("pandas", "polars"), ("polars", "pandas")])
def test_output_of_the_other_library_has_the_types_of_the_columns(library, other):
    make, wanted = pytest.importorskip(library).DataFrame, pytest.importorskip(other)
    columns = {
        "town": ["Lima", "Oslo"] * 20,
        "size": np.arange(40.0) / 7,
        "stars": [1, 2, 3, 5] * 10,
    }
    X = make(columns)
    imputer = RBMImputer(SMALL_TABLE, add_indicator=True).set_output(transform=other)
    found, expected = imputer.fit(X).transform(X), wanted.DataFrame(columns)
    assert type(found) is type(expected) and list(found.dtypes) == list(expected.dtypes)
    assert {name: list(found[name]) for name in columns} == {k: list(v) for k, v in columns.items()}


def test_a_row_is_imputed_as_it_is_alone():
    holes = with_factor(200, 30, noise=0.5, missing=0.5, seed=0)[1]
    imputer = RBMImputer(RBM(20, visible="gaussian", n_iter=10), random_state=0).fit(holes)
    alone = np.concatenate([imputer.transform(holes[i : i + 1]) for i in range(5)])
    assert_allclose(alone, imputer.transform(holes)[:5], rtol=1e-9)


def test_the_random_state_of_a_wrapper_determines_its_fit():
    X = np.where(np.random.default_rng(1).random((200, N_BITS)) < 0.2, np.nan, bits())
    imputers = [RBMImputer(RBM(2, n_iter=3), random_state=seed) for seed in (0, 0, 1)]
    first, same, other = (imputer.fit_transform(X) for imputer in imputers)
    assert_array_equal(first, same)
    assert (first != other).any()
    fixed = [RBMImputer(RBM(2, n_iter=3, random_state=5), random_state=seed) for seed in (0, 1)]
    weights = [imputer.fit(X).estimator_.components_ for imputer in fixed]
    assert_array_equal(*weights)


@pytest.mark.law
@pytest.mark.parametrize(
    ("X", "imputer", "detector"),
    [
        (bits(50), RBM, TabularRBM),
        (np.random.default_rng(0).normal(size=(50, 2)), RBM, TabularRBM),
        (mixed(), TabularRBM, TabularRBM),
        (np.column_stack([bits(50)[:, 0], np.arange(50) / 7]), TabularRBM, TabularRBM),
    ],
)
def test_the_default_machine_has_the_units_of_the_columns(X, imputer, detector):
    for Wrapper, cls in ((RBMImputer, imputer), (RBMOutlierDetector, detector)):
        assert type(Wrapper(random_state=0).fit(X).estimator_) is cls


@pytest.mark.parametrize("Wrapper", [RBMImputer, RBMOutlierDetector, RBMClassifier])
@pytest.mark.parametrize("epoch", [1, 3])
def test_an_interruption_leaves_the_last_complete_epoch(Wrapper, epoch):
    X, rbm = bits(), RBM(2, n_iter=5, random_state=0).set_callbacks(Interruption(epoch))
    wrapper = Wrapper(rbm)
    use = wrapper.transform if Wrapper is RBMImputer else wrapper.predict
    with pytest.raises(KeyboardInterrupt) as caught:
        wrapper.fit(X, X[:, 0])
    (note,) = caught.value.__notes__
    assert Wrapper.__name__ in note and "warm_start" not in note
    assert ("partial_fit" in note) == (epoch > 1 and hasattr(wrapper, "partial_fit"))
    if epoch == 1:
        with pytest.raises(NotFittedError):
            use(X)
    else:
        fitted = wrapper.rbm_ if Wrapper is RBMClassifier else wrapper.estimator_
        assert fitted.n_iter_ == epoch - 1
        assert len(use(X)) == len(X)


def test_sparse_rows_are_scored_as_dense_ones(detector):
    X = csr_array(bits())
    sparse = clone(detector).fit(X)
    assert_allclose(sparse.score_samples(X), detector.score_samples(bits()))
    assert_allclose(sparse.score_features(X), detector.score_features(bits()))
    assert_array_equal(sparse.predict(X), detector.predict(bits()))
    with pytest.raises(ValueError, match="features"):
        sparse.predict(X[:, 1:])
    with pytest.raises(TypeError, match="dense"):
        RBMOutlierDetector(SMALL_TABLE).fit(X)


def test_features_of_a_skewed_column_are_scored_like_those_of_its_logarithm():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 1)) + 0.5 * rng.normal(size=(400, 3))
    skewed = X.copy()
    skewed[:, 0] = np.exp(2 * X[:, 0])
    rbm = TabularRBM(2, covariance="full", n_iter=100, random_state=0)
    expected, scores = (RBMOutlierDetector(rbm).fit(T).score_features(T) for T in (X, skewed))
    assert np.abs(scores - expected).mean() < 0.1


@pytest.mark.parametrize("factors", [(1e3, 1, 1, 1), (1e-6, 1e3, 1e6, 1), (1, 1, 1, 1e3)])
def test_scores_do_not_depend_on_units_of_measure(factors):
    """Densities of rows change by the factors of columns, of which the last is constant.

    Those of features, which are compared with each other, do not change; column 1 has a spike.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 1)) + 0.5 * rng.normal(size=(80, 4))
    X[:, 2], X[:, 3] = np.exp(2 * X[:, 2]), 1
    X[::2, 1] = 0
    rows = np.concatenate([X, X + np.eye(80, 4)])
    rbm = TabularRBM(2, covariance="full", n_iter=20)
    scores, features = [], []
    for unit in (np.ones(4), np.array(factors)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataRangeWarning)
            detector = RBMOutlierDetector(rbm, random_state=0).fit(X * unit)
            scores.append(detector.score_samples(rows * unit) + np.log(unit).sum())
            features.append(detector.score_features(rows[::40] * unit))
    spikes = np.log(factors[1]) * (rows[:, 1] == 0)  # which have probabilities
    assert_allclose(scores[0], scores[1] - spikes, rtol=1e-6)
    assert_allclose(*features, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "Wrapper, kind",
    [
        *itertools.product([RBMImputer, RBMOutlierDetector], ["array", "pandas", "polars"]),
        (RBMOutlierDetector, "sparse"),
    ],
)
def test_weights_are_repeated_rows(Wrapper, kind):
    """Rows of weight 0 may have any values, also where no other row has one."""
    X, counts = bits(60), np.random.default_rng(1).integers(0, 4, 60)
    X[counts == 0] = 77 if kind == "sparse" else np.nan
    repeated = np.repeat(X, counts, axis=0)
    make = {"array": np.asarray, "sparse": csr_array, "pandas": pd.DataFrame}.get(kind)
    make = make or pytest.importorskip("polars").DataFrame
    wrapper = Wrapper(RBM(2, n_iter=3), random_state=0)
    weighted = clone(wrapper).fit(make(X), sample_weight=counts)
    wrapper.fit(make(repeated))
    weights = [own.estimator_.components_ for own in (wrapper, weighted)]
    assert_allclose(*weights, rtol=1e-6)
    if Wrapper is RBMOutlierDetector:
        assert_allclose(weighted.offset_, wrapper.offset_)
        shares = weighted.predict(make(X[counts > 0])) < 0
        share = np.average(shares, weights=counts[counts > 0])
        assert 0 < share <= wrapper.contamination


def test_values_of_rows_without_weight_are_not_observed():
    X, weights = np.column_stack([bits(20), np.full(20, np.nan)]), np.ones(20)
    X[0, -1] = weights[0] = 0.0
    with pytest.warns(UserWarning, match="no observed value"):
        imputer = RBMImputer(RBM(2, n_iter=1)).fit(X, sample_weight=weights)
    assert imputer.transform(X).shape[1] == X.shape[1] - 1
    name = f"x{X.shape[1] - 1}"
    with pytest.raises(ValueError, match=rf"columns \['{name}'\] of X have no observed value"):
        RBMOutlierDetector(RBM(2, n_iter=1)).fit(X, sample_weight=weights)


class RoundedScores(BaseEstimator):
    """Scores that depend on the number of rows by rounding, as products of matrices do."""

    def fit(self, X, y=None):
        return self

    def score_samples(self, X):
        return np.asarray(X)[:, 0] - 1e-12 * (len(X) == 1)


def test_rounding_makes_no_outliers():
    X = np.repeat([[1.0, 0.0], [2.0, 0.0]], 10, axis=0)
    detector = RBMOutlierDetector(RoundedScores(), contamination=0.2).fit(X)
    assert (detector.predict(X) == 1).all() and detector.predict(X[:1])[0] == 1


@pytest.mark.parametrize("Wrapper", [RBMImputer, RBMOutlierDetector])
def test_bad_input(Wrapper):
    with pytest.raises(ValueError, match="estimator is None"):
        Wrapper().set_params(estimator__n_components=4)
    both = Wrapper().set_params(estimator=RBM(2), estimator__n_components=4)
    assert both.estimator.n_components == 4
    with pytest.raises(ValueError, match="estimator"):
        Wrapper(LogisticRegression()).fit(bits())
    with pytest.raises(ValueError, match="no observed value"):
        Wrapper(RBM(2)).fit(np.full((4, 2), np.nan))
    with pytest.raises(ValueError, match="estimator"):  # it has no draws of ratings
        Wrapper(RatingRBM()).fit(bits())
    if Wrapper is RBMOutlierDetector:
        with pytest.raises(ValueError, match="fraction of outliers"):
            Wrapper(contamination="auto").fit(bits())
    fitted = Wrapper(RBM(2, n_iter=1, inference=Gibbs(n_chains=5))).fit(bits(20))
    method = fitted.transform if Wrapper is RBMImputer else fitted.predict
    with pytest.raises(ValueError, match="features"):
        method(bits(20)[:, 1:])
