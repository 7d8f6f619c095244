"""Chains of learning that exchange with earlier machines of the training.

Seeds are fixed. A test of a distribution has a level of 1e-6.
"""

from dataclasses import replace

import numpy as np
import pytest
from _distributions import assert_joint_distribution, exact_chains
from _exact import Exact
from _machines import enumerable_pairs, random_machine, two_modes
from numpy.testing import assert_array_equal

from skrbm.arrays import make_rng
from skrbm.inference import Gibbs, GibbsLangevin, Ladder, Langevin
from skrbm.learning import CHAINS
from skrbm.learning._chains import Run
from skrbm.learning._tempered import Tempered

PAIRS = enumerable_pairs()


def moved(machine, distance, seed=0):
    """A machine whose weights have normal numbers added."""
    W = machine.weights[0]
    step = distance * np.random.default_rng(seed).standard_normal(W.shape)
    return replace(machine, weights=(W + step,))


def tempered_of(machine, n=20_000, n_steps=5):
    samples = exact_chains(Exact(machine), n).layers[0]
    return Tempered(Ladder((machine,), (samples,)), n_steps)


def in_equilibrium(kinds, sampler=None):
    """A machine, chains at draws of it, and what they exchange with: a machine near by."""
    first = random_machine(kinds, (3, 3), 0, 0.7)
    machine = moved(first, 0.1)
    chains = exact_chains(Exact(machine), 20_000, seed=1)
    if sampler is not None:
        chains = sampler.state_at(machine, chains.layers[0], make_rng(3, machine.weights[0]))
    return machine, Run(chains, more=tempered_of(first)), make_rng(2, machine.weights[0])


@pytest.mark.law
@pytest.mark.parametrize("Sampler", [Langevin, GibbsLangevin])
def test_a_batch_of_adjusted_langevin_chains_does_so_too(Sampler):
    """Below, by Gibbs sampling; here chains are restarted where exchanges have moved them."""
    sampler = Sampler(0.5, adjust_after=0)
    machine, state, rng = in_equilibrium(("gaussian", "bernoulli"), sampler)
    phase = CHAINS["tempered"](replace(sampler, n_steps=2))
    state = phase.reviewed(machine, state, None, rng)
    assert_joint_distribution(Exact(machine), state.chains.layers)
    state, _, _ = phase.phases(machine, state, state.chains.layers[0][:10], rng)
    assert_joint_distribution(Exact(machine), state.chains.layers)


@pytest.mark.law
@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_a_batch_leaves_the_distribution_invariant(kinds):
    """Exchanges with a machine near by, a sweep, and the draw of the hidden units."""
    machine, state, rng = in_equilibrium(kinds)
    phase, chains = CHAINS["tempered"](Gibbs()), state.chains
    state = phase.reviewed(machine, state, None, rng)
    assert 0.5 < state.more.exchange < 0.99 and state.more.n_steps == 6
    assert_joint_distribution(Exact(machine), state.chains.layers)
    state, _, _ = phase.phases(machine, state, chains.layers[0][:10], rng)
    assert_joint_distribution(Exact(machine), state.chains.layers)


def test_a_new_rung_where_exchanges_are_rare():
    """Its samples come from the last rung: both modes have their share, where chains had one."""
    first, machine = (two_modes(6, 4, strength) for strength in (0.6, 1.2))
    tempered, rng = tempered_of(first, 4000), make_rng(0, first.weights[0])
    zeros = np.zeros((4000, 6))  # a mode only
    chains = Gibbs().state_at(machine, zeros, rng)
    state = CHAINS["tempered"](Gibbs()).reviewed(machine, Run(chains, more=tempered), None, rng)
    rows, after = state.chains.layers[0], state.more
    assert after.exchange < 0.3 and len(after.ladder) == 2 and after.n_steps == 0
    assert after.ladder.machines[-1] is not machine
    assert_array_equal(after.ladder.machines[-1].weights[0], machine.weights[0])
    assert not np.shares_memory(after.ladder.machines[-1].weights[0], machine.weights[0])
    assert len(after.ladder.samples[-1]) == 12_000 and len(after.ladder.samples[0]) == 4000
    share = (after.ladder.samples[-1].mean(axis=1) > 0.5).mean()
    assert abs(share - 0.5) < 0.05
    assert_joint_distribution(Exact(machine), Gibbs().state_at(machine, rows, rng).layers)
