"""Frank-Wolfe on rows with missing values, against sums over what is missing."""

import numpy as np
import pytest
from _fractional import all_rows, mixture_log_z, observed_log_weights
from _fractional import patterned as complete_rows
from _fractional import penalised_likelihood as likelihood
from _machines import differences
from numpy.testing import assert_allclose
from scipy.special import expit, logsumexp

from skrbm import FrankWolfeRBM
from skrbm.arrays import make_rng
from skrbm.estimators.frank_wolfe._growth import Growth
from skrbm.estimators.frank_wolfe._mixture import Mixture
from skrbm.estimators.frank_wolfe._samples import Data, SampledModel
from skrbm.inference import Gibbs
from skrbm.inputs import rows_of
from skrbm.units import Bernoulli

LIKE, NAN, SEED = np.zeros((1, 1)), np.nan, np.random.SeedSequence(3)
HOLES = np.array(
    [[1, NAN, 0, NAN, 1], [NAN] * 5, [NAN, 0, 1, 1, 0], [0, 1, 1, 0, 0], [0, 1, NAN, NAN, NAN]]
)
WEIGHTS = np.array([0.1, 0.1, 0.3, 0.2, 0.3])


def patterned(n=60, d=5, seed=0):
    """Rows of three noisy patterns, of which 30 % is missing; no two of them are equal."""
    X, generator = complete_rows(n, d, seed)
    return np.unique(np.where(generator.random(X.shape) < 0.3, NAN, X), axis=0)


def incomplete(H, weights=None):
    rows = rows_of(H, Bernoulli(), np.float64, weights=weights)
    return Data(rows, np.full(H.shape[1], 0.5), SEED, 1000), rows


def some_mixture(seed=0, d=5):
    generator = np.random.default_rng(seed)
    atoms, counts = generator.standard_normal((3, d + 1)), np.array([1.0, 0.4, 2.3])
    return Mixture(tuple(2 * atoms), counts, generator.standard_normal(d))


# ------------------------------------------------------------------------ expectations


@pytest.mark.parametrize("mixture", [some_mixture(), some_mixture()._replace(counts=np.ones(3))])
def test_expectations_are_derivatives_of_the_likelihood_of_what_is_observed(mixture):
    """By the multiplicities and by the biases; the machine's own are those of a row of NaN.

    Of 4 000 copies of rows with holes a mean softplus has a standard error of at most 0.03, that of
    a bit one of 0.008. One of 8 is off by six of these with a probability below 1e-7.
    """
    model = SampledModel(Gibbs(10), 4000, LIKE, make_rng(0, LIKE))
    model.anneal(mixture, np.zeros(5))
    drawn, _ = incomplete(HOLES, WEIGHTS)
    drawn.complete(model, mixture)
    values, own = drawn.rows.softplus_means(mixture.atoms), model.samples(mixture)[0]

    def of_counts(counts):
        return likelihood(mixture._replace(counts=counts), HOLES, WEIGHTS)

    def of_bias(bias):
        return likelihood(mixture._replace(bias=bias), HOLES, WEIGHTS)

    slopes = differences(of_counts, mixture.counts, lambda value: value)
    assert_allclose(values - own.softplus_means(mixture.atoms), slopes, atol=0.2)
    slopes = differences(of_bias, mixture.bias, lambda value: value)
    assert_allclose(drawn.means - own.average(), slopes, atol=0.06)


@pytest.mark.parametrize("step", ["joint", "line_search"])
def test_growth_raises_the_likelihood_of_what_is_observed(step):
    """By more than 0.1 nats in 3 steps; scores have the error of log Z, about 0.01 nats."""
    H, held_out = patterned(), patterned(seed=5)
    model = SampledModel(Gibbs(10), 2000, LIKE, make_rng(0, LIKE))
    (data, rows), rng = incomplete(H), np.random.default_rng(0)
    first = Mixture((), np.zeros(0), np.zeros(5))
    made = Growth(data, model, first, rng, incomplete(held_out)[0], rows, step=step)
    made.begin()
    before = likelihood(made.mixture, H)
    for _ in range(3):
        made.step()
        scores = made.scores()
        assert scores["score"] == pytest.approx(likelihood(made.mixture, H), abs=0.1)
        expected = likelihood(made.mixture, held_out)
        assert scores["validation_score"] == pytest.approx(expected, abs=0.1)
    assert likelihood(made.mixture, H) > before + 0.1


# ---------------------------------------------------------------------------- estimators


def test_likelihoods_and_hidden_means_are_exact():
    """Units that count in part have no configurations, and what is missing has."""
    params = {"step": "line_search", "temperature": 2.5, "alpha": 1e-3, "random_state": 0}
    rbm = FrankWolfeRBM(5, **params).fit(patterned())
    mixture = Mixture(
        np.column_stack([rbm.components_, rbm.intercept_hidden_]),
        rbm.multiplicities_,
        rbm.intercept_visible_,
    )
    assert (rbm.multiplicities_ % 1 != 0).any()
    expected = observed_log_weights(mixture, HOLES)
    assert_allclose(rbm.free_energy(HOLES), -expected, rtol=1e-9)
    log_z = mixture_log_z(mixture)
    assert_allclose(rbm.score_samples(HOLES), expected - log_z, atol=1e-8)
    V = all_rows(5)
    means = rbm.multiplicities_ * expit(V @ rbm.components_.T + rbm.intercept_hidden_)
    log_p = observed_log_weights(mixture, V)
    for row, found in zip(HOLES, rbm.transform(HOLES), strict=True):
        agree = (np.isnan(row) | (row == V)).all(axis=1)
        p = np.exp(log_p[agree] - logsumexp(log_p[agree]))
        assert_allclose(found, p @ means[agree], rtol=1e-8)
