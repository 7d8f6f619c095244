"""Frank-Wolfe on rows with missing values, against sums over what is missing."""

import numpy as np
import pytest
from _estimators import (
    divergence_from_noisy_patterns,
    noisy_patterns,
)
from _fractional import all_rows, unnormalised
from _machines import differences
from numpy.testing import assert_allclose
from scipy.special import expit, logsumexp

from skrbm import FrankWolfeRBM
from skrbm.arrays import make_rng
from skrbm.estimators.frank_wolfe import _growth
from skrbm.estimators.frank_wolfe._growth import Growth, Plan
from skrbm.estimators.frank_wolfe._mixture import Mixture
from skrbm.estimators.frank_wolfe._samples import ExactModel, IncompleteData, SampledModel
from skrbm.inference import Gibbs

LIKE, NAN, SEED = np.zeros((1, 1)), np.nan, np.random.SeedSequence(3)
HOLES = np.array(
    [[1, NAN, 0, NAN, 1], [NAN] * 5, [NAN, 0, 1, 1, 0], [0, 1, 1, 0, 0], [0, 1, NAN, NAN, NAN]]
)
WEIGHTS = np.array([0.1, 0.1, 0.3, 0.2, 0.3])


def patterned(n=60, d=5, seed=0):
    """Rows of three noisy patterns, of which 30 % is missing; no two of them are equal."""
    generator = np.random.default_rng(seed)
    patterns = np.array([np.ones(d), np.zeros(d), np.arange(d) % 2])
    X = patterns[generator.integers(3, size=n)]
    X = np.abs(X - (generator.random(X.shape) < 0.05))
    return np.unique(np.where(generator.random(X.shape) < 0.3, NAN, X), axis=0)


def incomplete(H, weights=None, n_scored=1000):
    weights = np.full(len(H), 1 / len(H)) if weights is None else weights
    return IncompleteData(H, weights, np.float64, np.full(H.shape[1], 0.5), SEED, n_scored)


def some_mixture(seed=0, d=5):
    generator = np.random.default_rng(seed)
    atoms, counts = generator.standard_normal((3, d + 1)), np.array([1.0, 0.4, 2.3])
    return Mixture(tuple(2 * atoms), counts, generator.standard_normal(d))


def observed_log_weights(mixture, H):
    """log p(observed) + log Z of each row, summed here over all rows that agree with it."""
    V, (atoms, counts, bias) = all_rows(H.shape[1]), (mixture.atoms, mixture.counts, mixture.bias)
    log_weights = unnormalised(V, atoms[:, :-1], atoms[:, -1], bias, counts)
    agree = np.array([(np.isnan(row) | (row == V)).all(axis=1) for row in H])
    return np.array([logsumexp(log_weights[rows]) for rows in agree])


def likelihood(mixture, H, weights=None, alpha=0.0):
    """The penalised mean log-likelihood of what is observed."""
    log_z = observed_log_weights(mixture, np.full((1, H.shape[1]), NAN))[0]
    mean = np.average(observed_log_weights(mixture, H), weights=weights) - log_z
    return mean - 0.5 * alpha * mixture.counts @ np.square(mixture.atoms).sum(axis=1)


def growth(H, plan=None, mixture=None, model=None, held_out=None):
    d = H.shape[1]
    mixture = Mixture((), np.zeros(0), np.zeros(d)) if mixture is None else mixture
    model = ExactModel(d, LIKE) if model is None else model
    held_out = None if held_out is None else incomplete(held_out)
    generator = np.random.default_rng(0)
    made = Growth(plan or Plan(), incomplete(H), model, mixture, generator, held_out)
    made.begin()
    return made


def followed(model, mixture, H=HOLES, weights=WEIGHTS):
    """What growth follows of some rows, complete."""
    found = incomplete(H, weights)
    assert found.complete(model, mixture)
    return found


# ------------------------------------------------------------------------ expectations


def test_expectations_are_derivatives_of_the_likelihood_of_what_is_observed():
    """By the multiplicities and by the biases; the machine's own are those of a row of NaN."""
    mixture, nothing = some_mixture(), np.full((1, 5), NAN)
    model = ExactModel(5, LIKE)
    data, own = followed(model, mixture), followed(model, mixture, nothing, np.ones(1))

    def put(counts, bias):
        return Mixture(mixture.units, counts, bias)

    def of_counts(counts):
        return likelihood(put(counts, mixture.bias), HOLES, WEIGHTS)

    def of_bias(bias):
        return likelihood(put(mixture.counts, bias), HOLES, WEIGHTS)

    for found, function, values in [
        (data.values - own.values, of_counts, mixture.counts),
        (data.means - own.means, of_bias, mixture.bias),
    ]:
        slopes = differences(function, values, lambda value: value)
        assert_allclose(found, slopes, atol=1e-7)
    samples = model.samples(mixture).training
    assert_allclose(own.values, samples.softplus_means(mixture.atoms))


@pytest.mark.parametrize("mixture", [some_mixture(), some_mixture()._replace(counts=np.ones(3))])
def test_draws_have_the_expectations(mixture):
    """4 000 copies of rows with holes: a mean softplus has a standard error of at most 0.03, that
    of a bit one of 0.008. One of 8 is off by six of these with a probability below 1e-7."""
    model = SampledModel(Gibbs(10), 4000, LIKE, make_rng(0, LIKE))
    model.anneal(mixture, np.zeros(5))
    drawn, exact = followed(model, mixture), followed(ExactModel(5, LIKE), mixture)
    assert_allclose(drawn.values, exact.values, atol=0.18)
    assert_allclose(drawn.means, exact.means, atol=0.05)


# ------------------------------------------------------------------------------- growth


@pytest.mark.parametrize(
    "plan", [Plan(temperature="learn"), pytest.param(Plan(temperature=3.0), marks=pytest.mark.law)]
)
def test_scores_are_of_what_is_observed(plan):
    H, held_out = patterned(), patterned(seed=5)
    made = growth(H, plan, held_out=held_out)
    first = likelihood(made.mixture, H)
    for _ in range(3):
        made.step()
        scores = made.scores()
        assert scores["score"] == pytest.approx(likelihood(made.mixture, H), abs=1e-9)
        expected = likelihood(made.mixture, held_out)
        assert scores["validation_score"] == pytest.approx(expected, abs=1e-9)
    assert likelihood(made.mixture, H) > first + 0.1


def test_each_step_raises_the_likelihood_at_least_by_what_it_promises(monkeypatch):
    """The gain with completed rows is a bound of the gain, whatever is missing."""
    H = patterned()
    monkeypatch.setattr(_growth, "_RIDGE", 1e15)
    made = growth(H, Plan())
    before, gains = likelihood(made.mixture, H, alpha=0.01), []
    for _ in range(5):
        row = made.step()
        now = likelihood(made.mixture, H, alpha=0.01)
        if row["reason"] == "inserted":
            assert now - before >= row["gain"] - 1e-9
            gains.append(row["gain"])
        before = now
    assert len(gains) >= 4


# ---------------------------------------------------------------------------- estimators


def test_likelihoods_and_hidden_means_are_exact():
    """Units that count in part have no configurations, and what is missing has."""
    params = {"inference": "exact", "temperature": 2.5, "random_state": 0}
    rbm = FrankWolfeRBM(5, **params).fit(patterned())
    mixture = Mixture(
        np.column_stack([rbm.components_, rbm.intercept_hidden_]),
        rbm.multiplicities_,
        rbm.intercept_visible_,
    )
    assert (rbm.multiplicities_ % 1 != 0).any()
    expected = observed_log_weights(mixture, HOLES)
    assert_allclose(rbm.free_energy(HOLES), -expected, rtol=1e-9)
    log_z = observed_log_weights(mixture, np.full((1, 5), NAN))[0]
    assert_allclose(rbm.score_samples(HOLES), expected - log_z, atol=1e-8)
    V = all_rows(5)
    means = rbm.multiplicities_ * expit(V @ rbm.components_.T + rbm.intercept_hidden_)
    log_p = observed_log_weights(mixture, V)
    for row, found in zip(HOLES, rbm.transform(HOLES), strict=True):
        agree = (np.isnan(row) | (row == V)).all(axis=1)
        p = np.exp(log_p[agree] - logsumexp(log_p[agree]))
        assert_allclose(found, p @ means[agree], rtol=1e-8)


@pytest.mark.law
def test_rows_with_holes_teach_nearly_as_much_and_more_than_filled_ones():
    """30 % of the entries of 2 000 rows are missing at random, and the divergence is a sum.

    It was 0.23, 0.37 and 0.27 with full rows, 0.42, 0.42 and 0.39 with holes, and 1.9 to 2.0 with
    means in the holes, for three sets of rows.
    """
    X = noisy_patterns(2000).astype(float)
    H = np.where(np.random.default_rng(100).random(X.shape) < 0.3, NAN, X)
    means = np.where(np.isnan(H), np.nanmean(H, axis=0), H)
    full, holes, filled = (
        divergence_from_noisy_patterns(FrankWolfeRBM(random_state=0).fit(rows).score_samples)
        for rows in (X, H, means)
    )
    assert full < 0.5
    assert holes < full + 0.4
    assert filled > holes + 1
