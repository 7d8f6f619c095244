"""Where the fixed points of the model phase start, and what is carried from batch to batch."""

import numpy as np
import pytest
from _machines import random_machine
from numpy.testing import assert_allclose, assert_array_equal

from skrbm.arrays import make_rng
from skrbm.inference import NaiveMeanField, solve
from skrbm.learning import STARTS, FixedPointPhase


def make():
    return random_machine(("bernoulli", "bernoulli"), (4, 3), 0, 0.5)


@pytest.mark.parametrize("name", sorted(STARTS))
def test_starts_keep_their_number_and_solve(name):
    """Whatever the number of rows in a batch; every solution is one of the fixed point."""
    machine, method = make(), NaiveMeanField(tol=1e-20, max_iter=500)
    phase, X = FixedPointPhase(method, name), np.random.default_rng(6).random((5, 4)).round()
    rng = make_rng(7, X)
    state = phase.init(machine, rng, 7, X)
    for n_rows in (5, 2, 5):
        state, data, model = phase.phases(machine, state, X[:n_rows], rng)
        assert phase.visible(state).shape == (7, 4)
        assert len(data.blocks[0].means[0]) == n_rows
        (block,) = model.blocks
        again = solve(method, machine, method.state_at(machine, block.means[0]))
        assert_allclose(again.state.means[0], block.means[0], atol=1e-8)
        assert block.weight == pytest.approx(1 / 7)
        assert phase.report(state)["n_unconverged"] == 0
        assert phase.report(state)["n_sweeps"] >= 1


def test_data_starts_are_the_last_rows_of_data():
    machine, rng = make(), None
    X = np.arange(24.0).reshape(6, 4) / 24
    phase = FixedPointPhase(NaiveMeanField())
    state = phase.init(machine, rng, 4, X[:2])
    assert_array_equal(phase.visible(state), X[[0, 1, 0, 1]])
    state, _, _ = phase.phases(machine, state, X[2:5], rng)
    assert_array_equal(phase.visible(state), X[[2, 3, 4, 0]])
    state, _, _ = phase.phases(machine, state, X[1:], rng)
    assert_array_equal(phase.visible(state), X[1:5])


def test_persistent_starts_are_the_last_solutions():
    """One sweep in each batch: the second batch continues the first, and ends nearer."""
    machine, X = make(), np.full((3, 4), 0.9)
    phase = FixedPointPhase(NaiveMeanField(max_iter=1, tol=0.0), "persistent")
    state = phase.init(machine, None, 3, X)
    for _ in range(60):
        state, _, model = phase.phases(machine, phase.kept(state), X, None)
    assert_array_equal(phase.visible(state), state.solution.state.means[0])
    exact = solve(
        NaiveMeanField(tol=1e-30, max_iter=500), machine, NaiveMeanField().state_at(machine, X)
    )
    assert_allclose(model.blocks[0].means[0], exact.state.means[0], atol=1e-8)
