"""Input that is legal but odd, or far out of range: right results or clear errors."""

import inspect
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from _estimators import ESTIMATORS, binary_data, quick, small, targets
from numpy.testing import assert_allclose
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning

from skrbm import (
    RBM,
    TAPRBM,
    BernoulliRBM,
    ConditionalRBM,
    FrankWolfeRBM,
    GaussianBernoulliRBM,
    RBMClassifier,
)
from skrbm.exceptions import DivergenceError
from skrbm.inference import Gibbs
from skrbm.units import Gaussian, Poisson

pytestmark = pytest.mark.filterwarnings("ignore:the model has no hidden unit")


# ------------------------------------------------------------------- range of numbers


@pytest.mark.parametrize("Estimator", [GaussianBernoulliRBM, TAPRBM])
@pytest.mark.parametrize("method", ["transform", "score_samples", "partial_fit"])
def test_values_that_overflow_float32(Estimator, method):
    X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    params = {"visible": "gaussian"} if Estimator is TAPRBM else {}
    rbm, far = small(Estimator, warm_start=True, **params).fit(X), [[1e39, 0, 0], [0, 0, -1e39]]
    if method == "score_samples":  # in float64
        assert np.isfinite(rbm.score_samples(far)).all()
        return
    with pytest.raises(ValueError, match=r"beyond the range of float32"):
        getattr(rbm, method)(np.array(far))


@pytest.mark.parametrize("visible", ["gaussian", "truncated_gaussian"])
@pytest.mark.parametrize("mean", [1e3, 1e6])
def test_scores_of_single_precision_far_from_zero(visible, mean):
    """Columns of N(mean, 1) without couplings, of which each has -1.42 nats with deviation 0.71.

    Of 500 rows of four columns the mean has a standard error of 0.06 and the deviation, 1.41, of
    0.08; at 1e6 a float32 has a spacing of 0.06.
    """
    X = (np.random.default_rng(0).normal(size=(500, 4)) + mean).astype(np.float32)
    rbm = TAPRBM(2, visible=visible, n_iter=0, random_state=0).fit(X)
    scores = rbm.score_samples(X)
    assert_allclose(scores.mean(), -5.68, atol=0.3)
    assert_allclose(scores.std(), 1.41, atol=0.4)


def test_rows_that_are_impossible_have_a_score_of_minus_infinity():
    rbm = small(RBM, visible=Gaussian()).fit(np.random.default_rng(0).normal(size=(20, 3)))
    assert rbm.score_samples([[1e300, 0, 0]])[0] == -np.inf


# --------------------------------------------------------------------- kinds of columns


def in_place_of_bits(values):
    """Return what makes an array of objects of X, of which one column has these values."""
    return lambda X: np.array(X.assign(a=pd.Series([values] * len(X), dtype=object)), dtype=object)


DAY = pd.Timestamp("2020-02-03")
REFUSED = {  # tables that no method takes, by a part of the error
    "several columns named 'b'": lambda X: X.rename(columns={"c": "b"}),
    "column 'b' of X has values of dtype datetime64": lambda X: X.assign(b=DAY),
    "'b' .* dtype datetime64.*, UTC": lambda X: X.assign(b=DAY.tz_localize("UTC")),
    "'b' .* dtype timedelta64": lambda X: X.assign(b=DAY - DAY),
    "'b' .* type Period": lambda X: X.assign(b=DAY.to_period("M")),
    "'b' .* complex": lambda X: X.assign(b=X.b * 1j),
    "'b' .* type date;": lambda X: X.assign(b=pd.Categorical([DAY.date()] * len(X))),
    "'b' .* dtype Datetime": lambda X: pl.DataFrame(X).with_columns(b=DAY.to_pydatetime()),
    "'b' .* dtype List": lambda X: pl.DataFrame(X).with_columns(b=pl.Series([[0.0]] * len(X))),
    "'b' .* Struct": lambda X: pl.DataFrame(X).with_columns(b=pl.struct("a", "c")),
    "0 .* type timedelta64": in_place_of_bits(np.timedelta64(1, "s")),
    "0 .* type complex": in_place_of_bits(1j),
    "0 .* type set": in_place_of_bits({1}),
}


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_no_method_takes_a_table_that_fit_refuses_by_type(Estimator):
    X = pd.DataFrame(binary_data(), columns=list("abcdefgh"))
    y = targets(len(X)) if Estimator is ConditionalRBM else targets(len(X))[:, 0]
    estimator, own = quick(Estimator).fit(X, y), {"y": y, "layer": 1}
    before, called = pickle.dumps(vars(estimator)), []
    for name in [name for name in dir(estimator) if name[0] != "_"]:
        method = getattr(estimator, name, None)
        known = inspect.signature(method).parameters if callable(method) else {}
        if next(iter(known), None) != "X":
            continue
        options = {key: own[key] for key in known if key in own}
        for message, change in REFUSED.items():
            with warnings.catch_warnings(action="ignore"):  # of arrays after a DataFrame
                with pytest.raises((ValueError, TypeError), match=message):
                    method(change(X), **options)
        called.append(name)
    assert {"fit", "transform"} & {*called} and pickle.dumps(vars(estimator)) == before


def test_a_column_without_values_in_a_later_fit_keeps_its_mean():
    X = binary_data(30, 4)
    rbm = small(RBM, warm_start=True).fit(X)
    before = rbm.visible_means_
    X[:, 1] = np.nan
    means = rbm.fit(X).visible_means_
    assert means[1] == before[1] and np.isfinite(means).all()


def test_a_classifier_keeps_its_features_if_a_fit_fails():
    X, y = binary_data(20, 4), np.arange(20) % 2
    model = RBMClassifier(RBM(2, n_iter=1), random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="class"):
        model.fit(X[:, :2], np.zeros(20, int))
    assert model.transform(X).shape == (20, 2)
    with pytest.raises(ValueError, match="estimator"):
        model.set_params(estimator=2.5).partial_fit(X, y)


# ------------------------------------------------------------------ machines without units


def test_a_machine_without_hidden_units_answers_or_says_why_not():
    """Its visible units are independent, so that log Z is a sum over them."""
    X = binary_data(30, 3)
    rbm = FrankWolfeRBM(
        3, alpha=100.0, random_state=0, inference=Gibbs(n_chains=10, n_steps=10)
    ).fit(X)
    assert rbm.n_components_ == 0
    exact = np.logaddexp(0, rbm.intercept_visible_).sum()
    for method in ("exact", "tap", "tap3", "naive_mean_field", "adaptive_tap", "relaxed_bp"):
        assert rbm.log_partition(method) == pytest.approx(exact, rel=1e-12)
    with pytest.raises(ValueError, match="has none of one kind; log_partition"):
        rbm.log_partition("bethe")


# ------------------------------------------------------------------ time, memory, failures


# ---------------------------------------------------------------------- learning that diverges


def test_a_fit_that_ends_worse_than_independent_units_says_so():
    X = binary_data(n=200)
    for Estimator in (BernoulliRBM, TAPRBM):
        with pytest.warns(ConvergenceWarning, match="lower learning_rate"):
            small(Estimator, learning_rate=1000).fit(X)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    with pytest.warns(ConvergenceWarning, match="below that of independent columns"):
        small(RBM, learning_rate=1000).fit(X)
    wine = load_wine().data  # columns from 0.13 to 1680 in one interval
    with pytest.warns(ConvergenceWarning, match="below that of independent columns"):
        TAPRBM(5, visible="truncated_gaussian", random_state=0).fit(wine)


def test_a_fit_of_real_columns_whose_samples_leave_the_data_ends():
    """Missing values are drawn from the machine, and would follow its samples."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 1)) + 0.3 * rng.normal(size=(100, 4))
    X[rng.random(X.shape) < 0.3] = np.nan
    with pytest.raises(DivergenceError, match="far from the data"):
        RBM(64, visible="gaussian", learning_rate=10.0, n_iter=20, random_state=0).fit(X)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_one_row_does_not_determine_the_scale_of_real_columns(method):
    """Counts and bits have no scale."""
    row = np.array([[5.0, 3.0, 8.0]])
    for rbm in (small(RBM, visible="gaussian"), small(GaussianBernoulliRBM)):
        with pytest.raises(ValueError, match="X has 1 sample"):  # without a warning before
            getattr(rbm, method)(row)
    getattr(small(RBM, visible=Poisson()), method)(row)
