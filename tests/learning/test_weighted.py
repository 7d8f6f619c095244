"""Chains with importance weights, which follow the shares of modes between which they never move.

Seeds are fixed.
"""

import numpy as np
import pytest
from _exact import Exact
from _fractional import all_rows
from _machines import gradient, random_machine
from numpy.testing import assert_allclose, assert_array_equal

from skrbm.arrays import make_rng
from skrbm.inference import Chains, Gibbs
from skrbm.learning import CHAINS, ChainPhase
from skrbm.learning._chains import Run
from skrbm.learning._weighted import Weighted
from skrbm.machine import Machine, free_energy
from skrbm.units import Bernoulli, Gaussian, Theta

N = 2000
N_VISIBLE, N_HIDDEN = 6, 4


def on_the_way(t, kind=Bernoulli):
    """A machine of two modes, mostly zeros and mostly ones.

    They part while t goes from 0 to 1, and half of a unit of t later the share of the second one
    grows from a half. At the end Gibbs sampling hardly moves between them.
    """
    W = np.full((N_HIDDEN, N_VISIBLE), 2.5 * min(t, 1.0))
    tilt = 0.25 * max(0.0, t - 1.5)
    theta = Theta(tilt - W.sum(axis=0) / 2)
    if kind is Gaussian:  # of the same couplings with hidden units, on both sides of 0.5
        W = 0.7 * W
        theta = Theta(0.6 * tilt + 2.0 - W.sum(axis=0) / 2, np.full(N_VISIBLE, 4.0))
    return Machine((kind(), Bernoulli()), (theta, Theta(-W.sum(axis=1) / 2)), (W,))


def followed(phase, kind=Bernoulli, end=2.5, n_steps=120):
    """The last machine of a path, the state, and the moments of its chains."""
    machine = on_the_way(0.0, kind)
    X, rng = np.zeros((10, N_VISIBLE)), make_rng(0, np.ones(1))
    state = phase.init(machine, rng, N, X)
    for t in np.linspace(0.0, end, n_steps):
        machine = on_the_way(t, kind)
        state, _, model = phase.phases(machine, state, X, rng)
    return machine, state, model


def share_of_ones(rows, weights=None):
    return np.average(rows.mean(axis=1) > 0.5, weights=weights)


@pytest.mark.parametrize("kind", [Bernoulli, Gaussian])
@pytest.mark.parametrize("options", [{}, {"n_steps": 2, "burn_in": 0}], ids=["shared", "run"])
def test_chains_have_the_shares_of_modes_that_change(kind, options):
    """A share of 0.8 of chains that are worth half of N has a standard error of 0.013.

    Resampling adds less than as much, so that 0.018 are the most, and 5 of these are allowed: were
    the error normal, the test would fail with a probability of 6e-7.
    """
    machine, state, model = followed(CHAINS["weighted"](Gibbs(**options)), kind)
    exact = Exact(machine)
    rows = state.chains.layers[0]
    draws = exact.sample(np.random.default_rng(0), 100_000)[0]
    truth = share_of_ones(draws)
    assert 0.7 < truth < 0.95
    weights = CHAINS["weighted"](Gibbs()).weights(state)
    assert abs(share_of_ones(rows, weights) - truth) < 0.09
    assert_allclose(gradient(machine, model)[0], exact.mean(0), atol=0.11)
    assert weights.sum() == pytest.approx(1) and 1 / (weights**2).sum() > N / 3
    # What is shown of the chains, and later fits start from, has no weights.
    shown = CHAINS["weighted"](Gibbs()).visible(state)
    assert share_of_ones(shown) == pytest.approx(share_of_ones(rows, weights), abs=0.03)
    _, stuck, _ = followed(ChainPhase(Gibbs(**options)), kind)
    assert abs(share_of_ones(stuck.chains.layers[0]) - truth) > 0.15  # as the test must see


PHASE = CHAINS["weighted"](Gibbs())


def reweighted(machine, rows, state, rng):
    """Rows and weights of chains for a machine that has changed."""
    found = PHASE.reviewed(machine, Run(Chains((rows, None)), more=state), None, rng)
    return found.chains.layers[0], found.more


def weights_by(machine, rows, first):
    """Weights of rows of one machine for another."""
    log_weights = free_energy(first, rows) - free_energy(machine, rows)
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum()


def test_resampling_keeps_weighted_means():
    """Each row is taken as often as its weight says, but for a fraction of one, and on average so.

    Over 400 offsets the mean number has a standard deviation of at most 0.025; 6 are allowed.
    """
    first, machine = (random_machine(("bernoulli",) * 2, (5, 3), 0, s) for s in (0.5, 6.0))
    rows, rng = all_rows(5), make_rng(0, np.ones(1))
    weights = weights_by(machine, rows, first)
    assert 1 / (weights**2).sum() < 16
    state, total = Weighted(np.zeros(32), free_energy(first, rows)), 0.0
    for _ in range(400):
        found, after = reweighted(machine, rows, state, rng)
        counts = (found[:, None] == rows[None]).all(axis=2).sum(axis=0)
        assert (np.abs(counts - 32 * weights) < 1 + 1e-9).all()
        assert_array_equal(after.log_weights, 0.0)
        assert_allclose(after.energies, free_energy(machine, found), rtol=1e-12)
        total = total + counts / 400
    assert_allclose(total, 32 * weights, atol=0.15)
