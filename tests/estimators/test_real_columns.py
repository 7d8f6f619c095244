"""Real columns of tables: skewed ones, ones with a spike, and values beyond those of training."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from skrbm import RBM, GaussianBernoulliRBM, RBMClassifier, TabularRBM
from skrbm.exceptions import DataRangeWarning
from skrbm.units import Gaussian


def amounts(n=300, seed=0):
    """A column of each kind, with dependent columns: rows come from two clusters."""
    rng = np.random.default_rng(seed)
    z = rng.random(n) < 0.5
    return pd.DataFrame(
        {
            "real": rng.normal(size=n) + z,
            "skewed": rng.lognormal(z, 1.0),
            "spiked": np.where(rng.random(n) < 0.3 + 0.4 * z, 0.0, rng.lognormal(2 * z, 1.0)),
        }
    )


def fitted(X, **params):
    return TabularRBM(**{"n_components": 3, "n_iter": 5, "random_state": 0} | params).fit(X)


def mass(rbm, row, name):
    """The integral of the density over one column; others are those of ``row``, a dict."""
    steps = np.concatenate([-np.logspace(12, -6, 40_001), np.logspace(-6, 12, 40_001)])
    x = 1.0 + steps  # fine where the density may change fast, and far into its tails
    density = np.exp(rbm.score_samples(pd.DataFrame({**row, name: x})))
    return np.trapezoid(density, x)


@pytest.mark.parametrize("name", ["real", "skewed", "spiked"])
@pytest.mark.parametrize("others", [[], ["real", "spiked"]])
def test_densities_integrate_to_1(name, others):
    """With other columns that are missing, which the density is summed over."""
    X = amounts()[list(dict.fromkeys([name, *others]))]
    rbm = fitted(X)
    assert rbm.kinds_ == {name: name for name in X}
    row = dict.fromkeys(X, np.nan)
    total = mass(rbm, row, name)
    if name == "spiked":
        total += np.exp(rbm.score_samples(pd.DataFrame([row | {name: 0.0}])))[0]
    assert_allclose(total, 1, atol=2e-3)


def test_likelihoods_in_training_and_of_rows_agree():
    X = amounts()
    rbm = fitted(X)
    assert_allclose(rbm.history_["log_likelihood"][-1], rbm.score(X), atol=1e-6)
    y = X["real"] > 0
    model = RBMClassifier(TabularRBM(3, n_iter=2), random_state=0).fit(X, y)
    both = [model.score_samples(X, np.full(len(X), label)) for label in (False, True)]
    assert_allclose(np.logaddexp(*both), model.score_samples(X), rtol=1e-9)
    assert_allclose(model.rbm_.history_["log_likelihood"][-1], model.score_samples(X, y).mean())


def test_draws_stay_within_the_range_and_keep_the_share_of_a_spike():
    """The share of 2000 draws and that of 300 rows: 4 standard errors of 0.031, and 0.05 of fit."""
    X = amounts()
    drawn = fitted(X, n_iter=30).sample(2000, random_state=0)
    for name in X:
        assert drawn[name].between(X[name].min(), X[name].max()).all()
        assert (drawn[name] == X[name].max()).mean() < 0.01
    assert abs((drawn["spiked"] == 0).mean() - (X["spiked"] == 0).mean()) < 0.17


@pytest.mark.parametrize("low, high", [(0, 1), (0, 9), (-9, 1), (-9, 9)])
def test_draws_keep_the_shares_of_ends_with_many_rows(low, high):
    """Ones are a spike, or the end of a real column, in (0, 1) beside zeros.

    In 2000 draws, whose shares have a standard error of 0.009 at most. 0.03 are more than 3 of
    them, beyond which one of 8 shares is in 2 % of the seeds. Without ends the shares are 0, and
    0.06 or more in the data.
    """
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": np.clip(rng.normal(0.6, 0.4, 1500), low, high)})
    drawn = fitted(X, n_iter=30).sample(2000, random_state=0)
    for end in (X["x"].min(), X["x"].max()):
        assert abs((drawn == end).mean() - (X == end).mean())["x"] < 0.03


def numbers_of_rows(kind, n, rng):
    """Return whole numbers that identify rows or that measure something."""
    return {
        "text": [f"user {i}" for i in range(n)],
        "number": 1000 + np.arange(n),
        "shuffled": rng.permutation(3 * n)[:n],
        "eight digits": 10**7 + rng.choice(9 * 10**7, n, replace=False),
        "64 bits": rng.integers(-(2**63), 2**63 - 1, n),
        "float": np.arange(float(n)),
        "even": np.random.default_rng(1).choice(70_000, n, replace=False),
        "fractions": np.arange(n) / 2,
        "age": rng.integers(18, 90, n),
        "year": rng.integers(1950, 2027, n),
        "income": rng.lognormal(10.5, 0.6, n).astype(int),
        "weight in g": (7e4 + 1.2e4 * rng.standard_normal(n)).astype(int),
        "cents": rng.exponential(1e5, n).astype(int),
    }[kind]


# One in a hundred columns of random numbers is not found, by the level of the chi-square test.
@pytest.mark.parametrize("in_blocks", [False, True])
def test_identifiers_are_named(in_blocks):
    n, rng, names = 400, np.random.default_rng(0), ["text", "number", "eight digits", "64 bits"]
    names += ["float"] + ["shuffled"] * (not in_blocks)
    kinds = [*names, "even", "fractions", "age", "year", "income", "weight in g", "cents"]
    X = pd.DataFrame({kind: numbers_of_rows(kind, n, rng) for kind in kinds})
    with pytest.warns(UserWarning, match="identifiers") as caught:
        fitted((lambda: (X[:200], X[200:])) if in_blocks else X, n_iter=0)
    assert [str(names) in str(warning.message) for warning in caught] == [True]


def test_few_whole_numbers_have_parameters_for_each_value_where_rows_suffice():
    """Means of imputed values are those of numbers, between the two values that occur."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"few": rng.integers(0, 5, 400), "other": rng.integers(0, 20, 400)})
    rbm = fitted(X)
    assert rbm.kinds_ == {"few": "discrete", "other": "rating"}
    assert fitted(X.head(200)).kinds_["few"] == "rating"
    assert rbm.impute(X.head(1).assign(few=np.nan), random_state=0)["few"][0] in (1, 2, 3)
    assert set(rbm.sample(200, random_state=0)["few"]) == set(range(5))


@pytest.mark.parametrize("visible", ["gaussian", Gaussian()])
def test_columns_that_are_too_far_from_0_for_their_dtype_warn(visible):
    X = np.random.default_rng(0).normal(size=(50, 3))
    params = {"visible": visible, "n_iter": 1, "random_state": 0}
    with pytest.warns(DataRangeWarning, match="float32 is too coarse"):
        RBM(2, **params).fit((X + 1e4).astype(np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataRangeWarning)
        RBM(2, **params).fit(X + 1e4)
        RBM(2, **params).fit((X + 100).astype(np.float32))


@pytest.mark.parametrize(
    "model",
    [
        RBM(2, visible="gaussian"),
        RBM(2, visible="relu"),
        RBM(2, visible="double_relu"),
        RBM(2, visible="truncated_gaussian"),
        GaussianBernoulliRBM(2),
    ],
    ids=lambda model: getattr(model, "visible", "gaussian_bernoulli"),
)
def test_columns_whose_scale_is_unknown_warn(model):
    """Other values have log-densities of minus millions of nats."""
    X = pd.DataFrame(np.random.default_rng(0).random((50, 3)), columns=list("abc"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataRangeWarning)
        model.set_params(n_iter=1, random_state=0).fit(X)
    with pytest.warns(DataRangeWarning, match=r"columns \['b'\] of X are constant"):
        model.fit(X.assign(b=0.3))
