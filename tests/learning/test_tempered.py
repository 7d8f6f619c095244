"""Chains of learning that exchange with earlier machines of the training.

Seeds are fixed. A test of a distribution has a level of 1e-6.
"""

from dataclasses import replace

import numpy as np
import pytest
from _distributions import assert_joint_distribution, exact_chains
from _exact import Exact
from _machines import bits, enumerable_pairs, random_machine
from numpy.testing import assert_allclose, assert_array_equal

from skrbm import RBM
from skrbm.arrays import make_rng
from skrbm.inference import Gibbs, GibbsLangevin, Ladder, Langevin
from skrbm.learning import ChainPhase
from skrbm.learning._chains import Run
from skrbm.learning._tempered import Tempered, review
from skrbm.machine import Machine
from skrbm.units import Bernoulli, Theta

PAIRS = enumerable_pairs()


def moved(machine, distance, seed=0):
    """A machine whose weights have normal numbers added."""
    W = machine.weights[0]
    step = distance * np.random.default_rng(seed).standard_normal(W.shape)
    return replace(machine, weights=(W + step,))


def tempered_of(machine, n=20_000, n_steps=5):
    samples = exact_chains(Exact(machine), n).layers[0]
    return Tempered(Ladder((machine,), (samples,)), n_steps)


def small(n_chains=None, **params):
    settings = {"n_components": 6, "batch_size": 20, "n_iter": 3, "random_state": 0}
    sampler = Gibbs(n_chains=n_chains, start="tempered")
    return RBM(**settings | {"inference": sampler} | params)


def in_equilibrium(kinds, sampler=None):
    """A machine, chains at draws of it, and what they exchange with: a machine near by."""
    first = random_machine(kinds, (3, 3), 0, 0.7)
    machine = moved(first, 0.1)
    chains = exact_chains(Exact(machine), 20_000, seed=1)
    if sampler is not None:
        chains = sampler.state_at(machine, chains.layers[0], make_rng(3, machine.weights[0]))
    return machine, Run(chains, tempered=tempered_of(first)), make_rng(2, machine.weights[0])


@pytest.mark.law
@pytest.mark.parametrize("Sampler", [Langevin, GibbsLangevin])
def test_a_batch_of_adjusted_langevin_chains_does_so_too(Sampler):
    """Below, by Gibbs sampling; here chains are restarted where exchanges have moved them."""
    sampler = Sampler(0.5, adjust_after=0)
    machine, state, rng = in_equilibrium(("gaussian", "bernoulli"), sampler)
    phase = ChainPhase(replace(sampler, n_steps=2), "tempered")
    state = phase.reviewed(machine, state, rng)
    assert_joint_distribution(Exact(machine), state.chains.layers)
    state, _, _ = phase.phases(machine, state, state.chains.layers[0][:10], rng)
    assert_joint_distribution(Exact(machine), state.chains.layers)


@pytest.mark.law
@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_a_batch_leaves_the_distribution_invariant(kinds):
    """Exchanges with a machine near by, a sweep, and the draw of the hidden units."""
    machine, state, rng = in_equilibrium(kinds)
    phase, chains = ChainPhase(Gibbs(), "tempered"), state.chains
    state = phase.reviewed(machine, state, rng)
    assert 0.5 < state.tempered.exchange < 0.99 and state.tempered.n_steps == 6
    assert_joint_distribution(Exact(machine), state.chains.layers)
    state, _, _ = phase.phases(machine, state, chains.layers[0][:10], rng)
    assert_joint_distribution(Exact(machine), state.chains.layers)


def two_modes(strength):
    """Two modes, all units 0 or all 1, between which Gibbs sampling hardly moves if it is 3."""
    W = np.full((4, 6), float(strength))
    thetas = (Theta(-W.sum(axis=0) / 2), Theta(-W.sum(axis=1) / 2))
    return Machine((Bernoulli(), Bernoulli()), thetas, (W,))


def test_a_new_rung_where_exchanges_are_rare():
    """Its samples come from the last rung: both modes have their share, where chains had one."""
    first, machine = two_modes(0.6), two_modes(1.2)
    tempered, rng = tempered_of(first, 4000), make_rng(0, first.weights[0])
    zeros = np.zeros((1000, 6))  # a mode only
    rows, after = review(machine, zeros, tempered, rng)
    assert after.exchange < 0.3 and len(after.ladder) == 2 and after.n_steps == 0
    assert after.ladder.machines[-1] is not machine
    assert_array_equal(after.ladder.machines[-1].weights[0], machine.weights[0])
    assert not np.shares_memory(after.ladder.machines[-1].weights[0], machine.weights[0])
    assert len(after.ladder.samples[-1]) == 30_000 and len(after.ladder.samples[0]) == 4000
    share = (after.ladder.samples[-1].mean(axis=1) > 0.5).mean()
    assert abs(share - 0.5) < 0.05
    assert_joint_distribution(Exact(machine), Gibbs().state_at(machine, rows, rng).layers)


# Estimators.


KINDS = ("bernoulli", "gaussian", "truncated_gaussian", "truncated_gauss_bernoulli")


@pytest.mark.parametrize("hidden", ["bernoulli", pytest.param("gaussian", marks=pytest.mark.law)])
@pytest.mark.parametrize("visible", KINDS)
def test_fits_of_all_kinds_of_units(visible, hidden):
    X = bits()
    if visible != "bernoulli":
        X = X + 0.1 * np.random.default_rng(0).normal(size=X.shape)
        X = np.clip(X, 0, 1)
    rbm = small(visible=visible, hidden=hidden, learning_rate=0.01, batch_size=50).fit(X)
    ladder = rbm.ladder_
    assert len(ladder) == len(ladder.samples) >= 2
    assert ladder.machines[0].scale == 0
    assert ladder.machines[-1].weights[0] is rbm.components_
    assert_array_equal(ladder.samples[-1], rbm.starts_)
    history = rbm.history_
    assert 0 < min(history["exchange"]) <= max(history["exchange"]) <= 1
    assert max(history["n_rungs"]) >= 1


@pytest.mark.law
def test_chains_have_the_shares_of_the_modes_of_the_machine():
    """Within 5 standard deviations of 0.02 of a share among 500 chains."""
    X = bits(1000)
    rbm = small(batch_size=100, n_chains=500, n_iter=100, learning_rate=0.2).fit(X)
    states = ((np.arange(256)[:, None] >> np.arange(8)) & 1).astype(float)
    F = -rbm.free_energy(states)
    p = np.exp(F - np.logaddexp.reduce(F))
    patterns, counts = np.unique(X, axis=0, return_counts=True)
    patterns = patterns[np.argsort(-counts)[:4]]

    def nearest(rows):
        return (rows[:, None] != patterns[None]).sum(axis=2).argmin(axis=1)

    shares = np.bincount(nearest(rbm.starts_), minlength=4) / 500
    assert_allclose(shares, np.bincount(nearest(states), p, 4), atol=0.1)
    assert rbm.history_["n_rungs"][-1] > 1  # it has left the first rung
