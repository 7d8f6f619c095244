"""Chains that are resampled such that modes between which they never move have their shares.

Seeds are fixed.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from _exact import Exact
from _machines import random_machine
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from scipy.stats import norm

from skrbm import RBM, CategoricalRBM, TabularRBM
from skrbm.arrays import make_rng
from skrbm.inference import Chains, Gibbs
from skrbm.learning import CHAINS, _balanced
from skrbm.learning._balanced import _proposals
from skrbm.learning._chains import Run
from skrbm.machine import Machine, turned_over
from skrbm.units import Bernoulli, Categorical, Gaussian, Spin, Theta

N = 400
PHASE = CHAINS["balanced"](Gibbs())


def two_modes(kind):
    """A machine of mostly low and mostly high values, with shares of about 0.15 and 0.85."""
    W = np.full((4, 8), 2.5 if kind is Bernoulli else 0.6)
    tilt, centre = (0.25, 1.0) if kind is Bernoulli else (0.1, 0.0)
    field, hidden = tilt - centre * W.sum(axis=0) / 2, -centre * W.sum(axis=1) / 2
    return Machine((kind(), kind()), (Theta(field), Theta(hidden)), (W,))


@pytest.mark.parametrize("kind", [Bernoulli, Spin])
def test_modes_without_chains_get_their_shares(kind):
    """All chains start in the rare mode; 10 comparisons later, shares are averaged over 100.

    Over 30 seeds their standard deviation was at most 0.004; 6 of these are allowed.
    """
    machine, rng = two_modes(kind), make_rng(0, np.ones(1))
    low, high = kind.values
    X = np.repeat([[low], [high]], 20, axis=0) * np.ones(8)
    exact = Exact(machine)
    middle, shares = (low + high) / 2, []
    draws = exact.sample(np.random.default_rng(0), 200_000)[0]
    truth = np.mean(draws.mean(axis=1) > middle)
    assert 0.6 < truth < 0.9
    rows = np.full((N, 8), low)
    state = Run(Gibbs().state_at(machine, rows, rng))
    for step in range(110):
        state = PHASE.reviewed(machine, state._replace(more=None), X, rng)
        if step >= 10:
            shares.append(np.mean(state.chains.layers[0].mean(axis=1) > middle))
    assert abs(np.mean(shares) - truth) < 0.024


def test_chains_that_mix_are_left_as_they_are():
    machine, rng = random_machine(("bernoulli",) * 2, (60, 40), 0, 0.3), make_rng(0, np.ones(1))
    state = PHASE.init(machine, rng, N, np.zeros((10, 60)))
    for _ in range(20):
        before = state.chains
        state = PHASE.reviewed(machine, state, np.zeros((10, 60)), rng)
        assert_array_equal(state.chains.layers[0], before.layers[0])
        state = state._replace(chains=Chains(Gibbs().step(machine, before, rng)[0].layers))


def test_chains_that_overlap_little_are_left_as_they_are():
    """Rows of noise are far from a machine of strong couplings, but weights of few tell little."""
    machine, rng = random_machine(("bernoulli",) * 2, (60, 40), 0, 1.0), make_rng(0, np.ones(1))
    state = PHASE.init(machine, rng, N, np.zeros((10, 60)))
    found = PHASE.reviewed(machine, state, np.zeros((10, 60)), rng)
    assert found.more.overlap < 0.5 and found.chains is state.chains


def test_chains_with_the_right_shares_of_modes_are_left_as_they_are():
    """Rows of the rare mode come first, and a part of all chains is compared."""
    machine, rng = two_modes(Bernoulli), make_rng(0, np.ones(1))
    rows = Exact(machine).sample(np.random.default_rng(0), 1000)[0]
    rows = rows[np.argsort(rows.mean(axis=1), kind="stable")]
    for _ in range(10):
        state = Run(Gibbs().state_at(machine, rows, rng))
        assert PHASE.reviewed(machine, state, rows, rng).chains is state.chains


@pytest.mark.parametrize("kind", ["bernoulli", "spin"])
def test_weights_are_those_of_draws_from_the_mixture(kind):
    """They are p(v) over the mean of p(v | h), by enumeration, averaged twice over shares of h."""
    machine, rng = random_machine((kind, kind), (4, 3), 1, 1.0, scale=0.7), make_rng(0, np.ones(1))
    exact = Exact(machine)
    visible, hidden = (exact.values[:, layer] for layer in exact.layers)
    above = np.unique(hidden, axis=0)[[0, 1, 3, 3, 6, 7]]
    found = _proposals(machine, turned_over(machine, 1), above, rng)
    is_row = (visible == found.rows[:, None]).all(axis=-1)
    p_given = []
    for h in above:
        p = exact.probabilities * (hidden == h).all(axis=1)
        p_given.append(is_row @ p / p.sum())
    p_given, p = np.transpose(p_given), is_row @ exact.probabilities
    shares = p_given / p_given.sum(axis=1, keepdims=True)
    weights = shares @ shares @ (p / p_given.sum(axis=1))
    assert_allclose(found.weights(), weights / weights.sum(), rtol=1e-10)
    assert found.overlap() == pytest.approx(1 - np.diag(shares).mean(), rel=1e-10)


def test_chains_start_at_data_at_noise_and_at_hidden_values_of_all_shares():
    """Each visible unit copies its hidden unit, and is 0 without couplings."""
    fields = np.full(50, -20.0), np.zeros(50)
    machine = Machine((Bernoulli(),) * 2, tuple(map(Theta, fields)), (40 * np.eye(50),))
    X, rng = np.eye(50)[:20], make_rng(0, np.ones(1))
    rows = PHASE._starts(machine, turned_over(machine, 1), X, rng)
    assert rows.shape == (48, 50)
    assert_array_equal(rows[:16], X[:16])
    assert not rows[16:32].any()
    shares = rows[32:].mean(axis=1)
    assert shares.min() < 0.25 and shares.max() > 0.75


def test_comparisons_are_rarer_until_chains_are_resampled(monkeypatch):
    """Rows are resampled at step 63, and the chains are then compared in the next step."""
    machine, rng, X = two_modes(Bernoulli), make_rng(0, np.ones(1)), np.zeros((5, 8))
    compared, calls = [], []

    def balanced(self, *given):
        calls.append(given)
        return 0.7, X if len(calls) == 7 else None

    monkeypatch.setattr(type(PHASE), "_balanced", balanced)
    state = Run(Gibbs().state_at(machine, X, rng))
    for step in range(1, 80):
        n_calls = len(calls)
        state = PHASE.reviewed(machine, state, X, rng)
        if len(calls) > n_calls:
            compared.append(step)
    assert compared == [1, 3, 7, 15, 31, 47, 63, 64, 66, 70, 78]


@pytest.mark.parametrize("most, is_compared", [(100, True), (99, False)])
def test_few_chains_of_wide_rows_are_not_compared(monkeypatch, most, is_compared):
    machine, rng = two_modes(Bernoulli), make_rng(0, np.ones(1))
    monkeypatch.setattr(_balanced, "most_rows", lambda n_columns: most)
    state = Run(Gibbs().state_at(machine, np.zeros((most, 8)), rng))
    found = PHASE.reviewed(machine, state, np.ones((5, 8)), rng)
    assert (found is not state) == is_compared


SHORT = {Bernoulli(): 0.16, Spin(): 0.16, Categorical((2, 3, 3)): 0.0225, Gaussian(): None}


@pytest.mark.parametrize("unit", SHORT, ids=lambda unit: type(unit).__name__)
def test_steps_are_short_where_chains_of_bits_or_categories_overlap(unit):
    """Independent units, of which all rows are equally likely given all hidden values."""
    rng, W = make_rng(0, np.ones(1)), np.zeros((3, 8))
    theta, hidden = unit.default_theta(8, W), Theta(np.zeros(3))
    machine = Machine((unit, Bernoulli()), (theta, hidden), (W,))
    rule, X = PHASE.step_length(machine), unit.sample(theta._replace(field=np.zeros((9, 8))), rng)
    state = PHASE.init(machine, rng, 100, X)
    assert PHASE.current_rule(rule, state) is rule
    state = PHASE.reviewed(machine, state, X, rng)
    assert state.more.overlap == pytest.approx(0.99)
    short = rule.divergence if SHORT[unit] is None else SHORT[unit]
    assert short <= rule.divergence
    assert PHASE.current_rule(rule, state).divergence == pytest.approx(short)
    assert PHASE.current_rule(rule, state).within is None
    apart = state._replace(more=state.more._replace(overlap=0.59))
    assert PHASE.current_rule(rule, apart) == rule
    tiny = replace(rule, divergence=1e-3)
    assert PHASE.current_rule(tiny, state).divergence == 1e-3


@pytest.mark.parametrize("inference, n", [("gibbs", 100), ("pcd", 10), (Gibbs(n_chains=7), 7)])
def test_by_default_there_are_at_least_a_hundred_chains(inference, n):
    X = np.random.default_rng(0).integers(0, 2, (30, 4))
    rbm = RBM(2, batch_size=10, n_iter=1, inference=inference, random_state=0).fit(X)
    assert rbm.starts_.shape == (n, 4)


@pytest.mark.parametrize("options", [{"n_iter": 10}, {"n_iter": 10, "batch_size": 10}])
@pytest.mark.parametrize("seed", [0, 1])
def test_two_clusters_are_learned_in_ten_epochs(options, seed):
    """By persistent chains these fits end at -21 nats or below."""
    rng = np.random.default_rng(0)
    X = (rng.random((500, 1)) < 0.5) ^ (rng.random((500, 60)) < 0.05)
    rbm = RBM(12, random_state=seed, **options).fit(X.astype(float))
    assert rbm.score(X.astype(float)) > -13.5


@pytest.mark.law
@pytest.mark.parametrize("kind", ["bits", "categories", "mixed"])
def test_six_clusters_are_learned_with_their_shares(kind):
    """The mean log-likelihood of 1000 test rows is within 0.4 nats of that of the truth."""
    rng, shares = np.random.default_rng(0), np.array([0.3, 0.25, 0.2, 0.12, 0.08, 0.05])
    n, m, q, noise = 4000, *((40, 2, 0.02) if kind == "bits" else (12, 4, 0.02))
    centres, cluster = rng.integers(q, size=(6, m)), rng.choice(6, n, p=shares)
    X = np.where(rng.random((n, m)) < noise, rng.integers(q, size=(n, m)), centres[cluster])
    equal = X[:, None, :] == centres
    log_p = np.where(equal, np.log1p(-noise * (1 - 1 / q)), np.log(noise / q)).sum(axis=2)
    rbm = {"bits": RBM(16), "categories": CategoricalRBM(32), "mixed": TabularRBM(32)}[kind]
    X = X.astype(float)
    if kind == "mixed":
        means, x = rng.normal(size=6), rng.normal(size=n)
        X = pd.DataFrame(X.astype(int).astype(str)).add_prefix("c").assign(x=means[cluster] + x)
        log_p += norm.logpdf(X["x"].to_numpy()[:, None], means)
    rbm.set_params(random_state=0).fit(X[:3000])
    assert abs(rbm.score(X[3000:]) - logsumexp(log_p[3000:], axis=1, b=shares).mean()) < 0.4
