"""Machines of categories: against sums over all rows, and values as users give them."""

import itertools

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from _estimators import build
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from skrbm import RBM, CategoricalRBM
from skrbm.inference import Gibbs
from skrbm.units import Categorical

SIZES = (3, 1, 2, 4)
ROWS = np.array(list(itertools.product(*map(range, SIZES))))
LETTERS = np.array(list("ACDG"))


def given(seed=0, strength=1.0, **params):
    """A machine of known parameters by site, and these parameters."""
    generator = np.random.default_rng(seed)
    W = strength * generator.standard_normal((3, len(SIZES), max(SIZES)))
    b, c = generator.standard_normal(W.shape[1:]), generator.standard_normal(3)
    categories = [np.arange(q) for q in SIZES]
    return CategoricalRBM.from_parameters(W, c, b, categories=categories, **params), (W, b, c)


def log_probabilities(W, b, c):
    """log p of all rows, by a loop over the sites."""
    sites = np.arange(len(SIZES))
    energy = [b[sites, row].sum() + np.logaddexp(0, c + W[:, sites, row].sum(axis=1)) @ np.ones(3)
              for row in ROWS]  # fmt: skip
    return np.array(energy) - logsumexp(energy)


def sequences(n=300, seed=0, n_sites=5):
    """Rows of letters of which the first two sites agree."""
    X = np.random.default_rng(seed).choice(LETTERS, size=(n, n_sites))
    X[:, 1] = X[:, 0]
    return X


def small(**params):
    return build(CategoricalRBM, **{"n_components": 4, "n_iter": 3, "random_state": 0, **params})


# --------------------------------------------------------------------------- the distribution


def test_likelihood_is_that_of_the_parameters_by_site():
    rbm, parameters = given(random_state=0)
    assert_allclose(rbm.score_samples(ROWS), log_probabilities(*parameters), rtol=1e-10)
    published = rbm.components_, rbm.intercept_visible_, rbm.intercept_hidden_
    assert_allclose(log_probabilities(*published), log_probabilities(*parameters), rtol=1e-10)


OPTIONS = [
    {},
    {"optimizer": "adam", "learning_rate": 0.01},
    {"centered": False, "average": False, "learning_rate": 0.05},
    {"penalty": "group_lasso", "alpha": 1e-4, "learning_rate": 0.1},
    {"inference": "mean_field"},
]


@pytest.mark.parametrize("params", OPTIONS, ids=str)
def test_learnt_parameters_sum_to_zero(params):
    rbm = small(**params).fit(sequences())
    assert np.abs(rbm.components_).max() > 0.01
    assert_allclose(rbm.components_.sum(axis=2), 0, atol=1e-5)
    assert_allclose(rbm.intercept_visible_.sum(axis=1), 0, atol=1e-4)


@pytest.mark.parametrize(
    "params",
    [
        *({"inference": inference} for inference in ("gibbs", "cd", "naive_mean_field")),
        {"optimizer": "natural"},
        {"optimizer": "natural", "inference": "cd"},
        {"optimizer": "natural", "inference": Gibbs(start="noise")},
        {"inference": Gibbs(start="weighted")},
        {"inference": Gibbs(start="tempered")},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_batches_of_sites_of_many_values_may_be_sparse(params, monkeypatch):
    """Few draws, of which one with a probability of 1e-4 or less is another by rounding."""
    X, found = np.random.default_rng(0).integers(0, 18, (60, 5)), []
    for is_sparse in (True, False):
        monkeypatch.setattr(Categorical, "is_sparse", lambda self, n, known=is_sparse: known)
        rbm = small(n_iter=1, **params).fit(X).partial_fit(X[:20])
        found.append((rbm.components_, rbm.intercept_visible_, rbm.starts_))
    for one, other in zip(*found, strict=True):
        assert isinstance(one, np.ndarray)
        assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.law
def test_probabilities_of_missing_sites():
    """A mean of 2000 steps has a standard error of at most 0.02, so 0.1 is five of them."""
    rbm, parameters = given(2, 0.5, random_state=0)
    row = np.array([[np.nan, 0, 1, np.nan]])
    p = np.exp(log_probabilities(*parameters)) * (ROWS[:, 2] == 1)
    found = rbm.site_probabilities(row, n_steps=4000, random_state=0)[0]
    for site in (0, 3):
        expected = [p[ROWS[:, site] == value].sum() / p.sum() for value in range(SIZES[site])]
        assert_allclose(found[site, : SIZES[site]], expected, atol=0.1)
    assert_array_equal(found[1:3], [[1, 0, 0, 0], [0, 1, 0, 0]])
    filled = rbm.impute(row, n_steps=4000, random_state=0)[0]
    assert_array_equal(filled[[0, 3]], found[[0, 3]].argmax(axis=1))
    assert_allclose(rbm.score_samples(row), np.log(p.sum()), rtol=1e-6)


@pytest.mark.parametrize("inference", ["gibbs", "mean_field"])
def test_denoising_finds_the_most_probable_values(inference):
    """Against Bayes' formula with all rows, wherever one value leads by 0.15.

    Mean field is nearly exact for weights this small. A mean of 1000 steps has a standard error of
    at most 0.03, if one in four is independent, so a lead of 0.15 is five of them.
    """
    p, (rbm, parameters) = 0.3, given(3, 0.4, random_state=0, inference=inference)
    others = np.maximum(np.array(SIZES) - 1, 1)
    same = ROWS[:, None] == ROWS
    log_channel = np.log(np.where(same, 1 - p, p / others)).sum(axis=2)
    posterior = np.exp(log_channel + log_probabilities(*parameters))
    posterior /= posterior.sum(axis=1, keepdims=True)
    found = rbm.denoise(ROWS, substitution_probability=p, n_steps=2000, random_state=0)
    n_clear = 0
    for site, q in enumerate(SIZES):
        marginal = posterior @ np.eye(q)[ROWS[:, site]]
        best = np.sort(marginal, axis=1)
        clear = best[:, -1] - best[:, -2] > 0.15 if q > 1 else np.ones(len(ROWS), bool)
        assert_array_equal(found[clear, site], marginal.argmax(axis=1)[clear])
        n_clear += int((clear & (found[:, site] != ROWS[:, site])).sum())
    assert n_clear > 5  # that differ from what was observed
    assert_array_equal(rbm.denoise(ROWS, substitution_probability=0), ROWS)


# --------------------------------------------------------------------------- values of users


def values_of(rbm, X):
    """What the methods give that return rows of values."""
    Y = X.copy() if hasattr(X, "columns") else np.array(X)
    yield rbm.sample(3, n_steps=2, random_state=0)
    yield rbm.sample(n_steps=2, given=Y, random_state=0)
    yield rbm.sample(len(X), n_steps=0, init=Y)
    yield rbm.gibbs(Y, random_state=0)
    yield rbm.predict(Y)
    yield rbm.impute(Y, n_steps=2, random_state=0)
    yield rbm.inverse_transform(rbm.transform(Y))
    yield rbm.denoise(Y, substitution_probability=0.1, n_steps=2)


@pytest.mark.parametrize("dtype", ["<U1", object, np.uint8, bool])
def test_values_come_back_as_they_are_given(dtype):
    X = sequences(40)
    if dtype not in ("<U1", object):
        X = np.searchsorted(LETTERS, X)
        X = X > 1 if dtype is bool else X
    X = X.astype(dtype)
    rbm = small(n_iter=1).fit(X)
    known = {*X.ravel().tolist()}
    for rows in values_of(rbm, X):
        assert rows.dtype == X.dtype and rows.shape[1] == 5
        assert {*rows.ravel().tolist()} <= known
    assert_array_equal(rbm.sample(40, n_steps=0, init=X), X)
    assert_array_equal(rbm.sample(given=X, n_steps=2), X)


@pytest.mark.parametrize("categories", ["auto", [["a", "b", "c"], [7, 5]]])
def test_tables_come_back_as_data_frames(categories):
    rng = np.random.default_rng(0)
    text, numbers = rng.choice(["a", "b", "c"], 20), rng.choice([5, 7], 20).astype(np.int16)
    X = pd.DataFrame({"text": text, "number": numbers}, index=np.arange(20) + 100)
    if categories == "auto":
        X["text"] = pd.Categorical(X["text"], ["c", "b", "a", "d"], ordered=True)
    rbm = CategoricalRBM(2, categories=categories, n_iter=2, random_state=0).fit(X)
    assert rbm.sample(5).dtypes.equals(X.dtypes)
    holes = X.mask(rng.random(X.shape) < 0.3)
    filled = rbm.impute(holes, random_state=0)
    assert filled.dtypes.equals(X.dtypes)
    assert filled.index.equals(X.index)
    assert ((filled == X) | holes.isna()).all(axis=None)


# --------------------------------------------------------------------------- parameters


def test_given_parameters():
    rbm, (W, b, c) = given(random_state=0)
    assert rbm.n_features_in_ == 4 and rbm.machine_.n_units == (10, 3)
    same = CategoricalRBM.from_parameters(rbm, random_state=0)
    assert_allclose(same.score_samples(ROWS), rbm.score_samples(ROWS), rtol=1e-12)
    default = CategoricalRBM.from_parameters(W)
    assert [list(values) for values in default.categories_] == [[0, 1, 2, 3]] * 4
    for components, message in [(W[0], "must have"), (RBM(2), "must be a fitted CategoricalRBM")]:
        with pytest.raises(ValueError, match=message):
            CategoricalRBM.from_parameters(components)
    with pytest.raises(ValueError, match="intercept_visible must be"):
        CategoricalRBM.from_parameters(W, c, b[:, :2])
    with pytest.raises(ValueError, match="other categories"):
        CategoricalRBM.from_parameters(rbm, categories=[["a", "b"]] * 4)


@pytest.mark.parametrize("method", ["score_samples", "transform", "gibbs", "impute"])
def test_rows_of_one_hot_columns_must_be_categories(method):
    X = np.array([[0, 1, 0, 1, 0], [1, 0, 0, 0, 1.0]] * 20)
    rbm = RBM(4, visible=Categorical((3, 2)), n_iter=2, random_state=0).fit(X)
    getattr(rbm, method)(X)
    for row in ([0, 0, 0, 0, 0], [0.5, 0.5, 0, 1, 0]):
        wrong = np.vstack([X[:3], row])
        for given in (wrong,) if method == "impute" else (wrong, sp.csr_array(wrong)):
            with pytest.raises(ValueError, match=r"one 1 and otherwise 0.*OneHotEncoder"):
                getattr(rbm, method)(given)
    with pytest.raises(ValueError, match="or NaN throughout"):
        rbm.impute(np.array([[0, 1, 0, np.nan, 1]]))
