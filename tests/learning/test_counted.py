"""Chains of rows of counts that exchange their hidden values."""

import numpy as np
from scipy.special import expit

from skrbm.arrays import make_rng
from skrbm.inference import Chains, Gibbs
from skrbm.learning import CountedPhase
from skrbm.machine import Machine
from skrbm.units import Bernoulli, Multinomial, Theta


def test_chains_come_to_the_shares_of_modes_that_they_did_not_start_in():
    """Chains of 60 draws come to the exact distribution of their hidden unit.

    All of them start in one of two modes, between which Gibbs sampling never moves. Means over 200
    batches have less noise than that of 50 independent chains, so that 6 standard deviations of the
    latter are exceeded with a probability below 1e-8.
    """
    n, field = 50, np.array([1.5, 1.5, -1.5, -1.5])
    machine = Machine(
        (Multinomial(), Bernoulli()), (Theta(field), Theta(np.array([0.8]))), (-2 * field[None],)
    )
    rng, phase = make_rng(0, field), CountedPhase(Gibbs(n_chains=n))
    X = np.tile([0.0, 0, 30, 30], (n, 1))
    state = phase.init(machine, rng, n, X)
    state = state._replace(chains=Chains((X, np.ones((n, 1)))))
    found = []
    for step in range(300):
        state, _, _ = phase.phases(machine, state, X, rng)
        assert (state.chains.layers[0].sum(axis=1) == 60).all()
        if step >= 100:
            found.append(state.chains.layers[1].mean())
    p = expit(0.8)
    assert abs(np.mean(found) - p) < 6 * np.sqrt(p * (1 - p) / n)
