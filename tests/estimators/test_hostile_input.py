"""Input that is legal but odd, or far out of range: right results or clear errors."""

import numpy as np
import pandas as pd
import pytest
from _estimators import RBMS, binary_data, learn, small
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
)
from skrbm.inference import Gibbs
from skrbm.units import Poisson

pytestmark = pytest.mark.filterwarnings("ignore:the machine has no hidden unit")


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


def test_parameters_that_overflow_are_not_published():
    init = np.full((2, 8), 1e300), None, None
    with pytest.raises(ValueError, match="parameters of init overflow float32"):
        small(FrankWolfeRBM, init=init).fit(binary_data(dtype=np.float32))


# --------------------------------------------------------------------- kinds of columns


@pytest.mark.parametrize("Estimator", [RBM, ConditionalRBM])
def test_columns_that_are_no_numbers_are_named(Estimator):
    frame = pd.DataFrame({"a": [0.0, 1, 1], "b": pd.Categorical(["x", "y", "x"]), "c": list("uvw")})
    frame["d"] = pd.to_datetime(["2020-01-01"] * 3)
    with pytest.raises(ValueError, match=r"\['b', 'c', 'd'\]"):
        learn(small(Estimator), frame)


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


@pytest.mark.parametrize("RBM", RBMS)
def test_few_rows_need_few_chains_whatever_the_batch_size(RBM):
    X = binary_data(n=30)
    assert small(RBM, batch_size=10**8).partial_fit(X).starts_.shape[0] <= 100
    assert small(RBM, batch_size=10**8).fit(X).starts_.shape[0] == 30
    few = small(RBM, batch_size=10**8).fit(X).partial_fit(X[:5])
    assert few.starts_.shape[0] in (100, 5)  # more rows may come; 5 where each batch has its own
    given = RBM.from_parameters(np.eye(3), batch_size=10**8, random_state=0)
    assert given.starts_.shape[0] <= 1000
    rbm = small(RBM, batch_size=200).partial_fit(X)
    assert rbm.partial_fit(binary_data(n=400)).starts_.shape[0] == 200  # as many as rows ask for


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


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_one_row_does_not_determine_the_scale_of_real_columns(method):
    """Counts and bits have no scale."""
    row = np.array([[5.0, 3.0, 8.0]])
    with pytest.raises(ValueError, match="X has 1 sample"):
        getattr(small(RBM, visible="gaussian"), method)(row)
    getattr(small(RBM, visible=Poisson()), method)(row)
