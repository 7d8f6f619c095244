"""Adaptive TAP against closed forms, dense inverses and enumeration; its rejected steps."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from _exact import Exact
from _machines import random_machine
from numpy.testing import assert_allclose

from skrbm.evaluation import log_partition
from skrbm.inference import TAP, AdaptiveTAP, clamped, solve
from skrbm.inference._adaptive_tap import _gaussian
from skrbm.machine import Machine
from skrbm.units import Bernoulli, Gaussian, Theta

PAIRS = [("bernoulli", "bernoulli"), ("gaussian", "bernoulli"), ("bernoulli", "truncated_gaussian")]
METHOD = AdaptiveTAP(max_iter=3000, tol=1e-26)


def solved(machine, n=1, method=METHOD):
    X = np.random.default_rng(0).uniform(size=(n, machine.n_units[0])).astype(machine.dtype)
    solution = solve(method, machine, method.state_at(machine, X))
    assert solution.converged.all()
    return solution.state


def all_weights(machine):
    """The matrix J of all units, layer by layer."""
    edges = np.cumsum([0, *machine.n_units])
    J = np.zeros((edges[-1], edges[-1]))
    for l, W in enumerate(machine.weights):
        below, above = slice(*edges[l : l + 2]), slice(*edges[l + 1 : l + 3])
        J[above, below], J[below, above] = machine.scale * W, machine.scale * W.T
    return J


def joined(layers, row=0):
    return np.concatenate([layer[row] for layer in layers])


@pytest.mark.parametrize("sizes", [(4, 3), (3, 5), (3, 4, 2)])
def test_exact_for_gaussian_units(sizes):
    """Against the closed form of a Gaussian distribution of all units."""
    generator = np.random.default_rng(3)
    thetas = tuple(Theta(generator.standard_normal(n), generator.uniform(1, 2, n)) for n in sizes)
    weights = tuple(
        0.25 * generator.standard_normal((above, below))
        for below, above in itertools.pairwise(sizes)
    )
    machine = Machine((Gaussian(),) * len(sizes), thetas, weights)
    P = np.diag(np.concatenate([theta.precision for theta in thetas])) - all_weights(machine)
    field, C = np.concatenate([theta.field for theta in thetas]), np.linalg.inv(P)
    log_z = 0.5 * field @ C @ field + 0.5 * np.linalg.slogdet(2 * np.pi * C)[1]
    state = solved(machine)
    assert_allclose(METHOD.log_partition(machine, state), log_z, rtol=1e-11)
    assert_allclose(joined(state.means), C @ field, rtol=1e-9, atol=1e-11)
    assert_allclose(joined(state.variances), np.diag(C), rtol=1e-9)


def orthogonal_machine(seed, n_visible=12, n_hidden=8):
    """Weights with orthonormal columns (of hidden units), times 0.6 sqrt(n_visible)."""
    generator = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(generator.standard_normal((n_visible, n_hidden)))
    W = 0.6 * np.sqrt(n_visible) * Q.T
    thetas = Theta(-0.5 * W.sum(axis=0)), Theta(-0.5 * W.sum(axis=1))
    return Machine((Bernoulli(), Bernoulli()), thetas, (W,))


def test_closer_than_tap_on_orthogonal_weights():
    """In at least 9 of 10 machines with weights that are not independent."""
    closer = 0
    for seed in range(10):
        machine = orthogonal_machine(seed)
        exact, errors = log_partition(machine, "exact").value, []
        X = np.random.default_rng(seed).integers(0, 2, (1, machine.n_units[0])).astype(float)
        for method in (METHOD, TAP(max_iter=5000, tol=1e-20, damping=0.5)):
            solution = solve(method, machine, method.state_at(machine, X))
            assert solution.converged.all()
            errors.append(abs(method.log_partition(machine, solution.state)[0] - exact))
        closer += errors[0] < errors[1]
    assert closer >= 9


def test_symmetry_does_not_end_the_sweeps():
    """With biases -rowsum/2 all means are 1/2 from the start on, and only the reactions move."""
    machine = orthogonal_machine(0)
    at_rest = solve(METHOD, machine, METHOD.state_at(machine, np.full((1, 12), 0.5)))
    near = solve(METHOD, machine, METHOD.state_at(machine, np.full((1, 12), 0.5 + 1e-6)))
    assert at_rest.converged.all() and at_rest.n_iter[0] > 1
    for part, other in zip(at_rest.state.precisions, near.state.precisions, strict=True):
        assert_allclose(part, other, rtol=1e-4)


def finite(solution):
    leaves = [leaf for leaves in solution.state for leaf in leaves]
    return all(np.isfinite(leaf).all() for leaf in leaves)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_hostile_weights_are_rejected_and_never_nan(kinds, dtype):
    machine = random_machine(kinds, (6, 5), 5, 6.0, dtype=dtype)
    X = np.random.default_rng(0).uniform(size=(3, 6)).astype(dtype)
    state, rejected = METHOD.state_at(machine, X), []
    solution = solve(METHOD, machine, state, max_iter=30)
    for _ in range(30):
        state = METHOD.step(machine, state)
        rejected.append(state.rejected[0].max())
    assert finite(solution)
    assert np.isfinite(METHOD.log_partition(machine, solution.state)).all()
    moments = METHOD.moments(machine, solution.state)
    assert np.isfinite(moments.add_pair(machine, 0, np.zeros((5, 6), dtype), 1.0)).all()
    assert max(rejected) > 0 or kinds != ("bernoulli", "bernoulli")
    # A row whose last step was rejected has not converged.
    assert not solution.converged[solution.state.rejected[0][:, 0] > 1e-12].any()


def test_a_gaussian_machine_without_a_law_is_not_called_converged():
    """Weights beyond the precisions: every step is rejected."""
    units, ones = (Gaussian(), Gaussian()), np.ones(3)
    machine = Machine(units, (Theta(ones, ones),) * 2, (2 * np.eye(3),))
    solution = solve(METHOD, machine, METHOD.state_at(machine, np.ones((1, 3))), max_iter=50)
    assert finite(solution)
    assert not solution.converged.any()


@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_units_without_variance_do_not_overflow(kinds):
    """In float32, where 1 / c of a unit that is held, or saturated, is infinite."""
    machine = random_machine(kinds, (4, 3), 6, 0.5, dtype=np.float32)
    strong = [theta._replace(field=theta.field + np.float32(60)) for theta in machine.thetas]
    bounded = [np.isfinite(unit.bounds).all() for unit in machine.units]
    thetas = [b if c else a for a, b, c in zip(machine.thetas, strong, bounded, strict=True)]
    machine = replace(machine, thetas=tuple(thetas))
    X = np.full((2, 4), 0.5, dtype=np.float32)
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        solution = solve(METHOD, machine, METHOD.state_at(machine, X), max_iter=30, tol=1e-10)
        value = METHOD.log_partition(machine, solution.state)
    assert finite(solution) and solution.converged.all()
    assert_allclose(value, Exact(machine).log_z, rtol=1e-3)


def test_rows_are_rejected_one_by_one():
    """A row that needs no care gets none because its neighbour does."""
    machine = random_machine(("bernoulli", "bernoulli"), (6, 5), 5, 6.0)
    X = np.random.default_rng(0).uniform(size=(8, 6))
    state = METHOD.state_at(machine, X)
    for _ in range(10):
        alone = [_gaussian(machine, _row(state, i)) for i in range(8)]
        together = _gaussian(machine, state)
        for i, found in enumerate(alone):
            assert found.rejected[0, 0] == together.rejected[i, 0]
            assert_allclose(joined(found.means), joined(together.means, i), rtol=1e-9, atol=1e-12)
        state = METHOD.step(machine, state)


def _row(state, i):
    return type(state)(*(tuple(leaf[[i]] for leaf in leaves) for leaves in state))


def test_clamped_to_all_values_is_exact():
    machine = random_machine(("bernoulli", "bernoulli"), (4, 3), 7, 1.5)
    X = np.array([[1.0, 0, 1, 1]])
    solution = solve(METHOD, clamped(machine, X, X == X), METHOD.state_at(machine, X))
    assert_allclose(solution.state.means[1][0], Exact(machine, observed=X[0]).mean(1), rtol=1e-10)


def test_gaussian_units_may_be_held_in_strong_couplings():
    """Held units can receive precisions that would make free units improper."""
    machine = random_machine(("gaussian", "bernoulli"), (6, 5), 5, 6.0)
    X = np.random.default_rng(0).standard_normal((2, 6))
    solution = solve(METHOD, clamped(machine, X, X == X), METHOD.state_at(machine, X))
    assert_allclose(
        solution.state.means[1], [Exact(machine, observed=x).mean(1) for x in X], atol=1e-10
    )
