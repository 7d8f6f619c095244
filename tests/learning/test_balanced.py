"""Chains that are resampled such that modes between which they never move have their shares.

Seeds are fixed.
"""

import numpy as np
import pytest
from _exact import Exact
from _machines import random_machine
from numpy.testing import assert_array_equal

from skrbm.arrays import make_rng
from skrbm.inference import Chains, Gibbs
from skrbm.learning import CHAINS
from skrbm.learning._chains import Run
from skrbm.machine import Machine
from skrbm.units import Bernoulli, Spin, Theta

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
