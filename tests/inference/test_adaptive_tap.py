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
from skrbm.inference._complement import complement_factors
from skrbm.machine import Machine, coupled, input_field
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


@pytest.mark.parametrize(
    ("kinds", "sizes"),
    [
        (("bernoulli", "bernoulli"), (6, 3)),
        (("bernoulli", "bernoulli"), (3, 6)),
        (("truncated_gaussian", "bernoulli", "bernoulli"), (3, 4, 2)),
        (("bernoulli",) * 4, (2, 2, 3, 4)),
    ],
)
def test_blocks_equal_the_dense_inverse(kinds, sizes):
    """Means, variances, covariances and determinant, away from a solution, for each row."""
    machine = random_machine(kinds, sizes, 0, 0.5, scale=0.8)
    state = METHOD.state_at(machine, np.full((2, sizes[0]), 0.4))
    for _ in range(2):
        state = METHOD.step(machine, state)
    found, J = _gaussian(machine, state), all_weights(machine)
    assert not found.rejected.any()
    dense = []
    for row in range(2):
        a, c, B, A = (joined(leaves, row) for leaves in state[:4])
        precisions = 1 / c - A
        C = np.linalg.inv(np.diag(precisions) - J)
        variances = joined(found.cavity_variances, row) * (1 + joined(found.excesses, row))
        assert_allclose(variances, np.diag(C), rtol=1e-12)
        assert_allclose(joined(found.means, row), C @ (a / c - B), rtol=1e-11, atol=1e-13)
        log_det = np.log(precisions).sum() + np.linalg.slogdet(C)[1]
        assert_allclose(found.log_det[row], -log_det, rtol=1e-10, atol=1e-13)
        scale = np.sqrt(c / np.diag(C))
        dense.append(scale[:, None] * C * scale)
    edges = np.cumsum([0, *sizes])
    matrices = dict(METHOD.moments(machine, state).matrices)
    for l, matrix in matrices.items():
        block = np.mean(dense, axis=0)[edges[l + 1] : edges[l + 2], edges[l] : edges[l + 1]]
        assert_allclose(matrix, block, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_relations_at_a_solution(kinds):
    """A_1 + A_2 = 1 / c, both sides agree, and B_1 = J a + A_1 a."""
    machine = random_machine(kinds, (4, 3), 1, 0.4)
    state = solved(machine)
    found = _gaussian(machine, state)
    for l, (a, c, B, A) in enumerate(zip(*state[:4], strict=True)):
        assert_allclose(found.means[l], a, rtol=1e-9, atol=1e-11)
        assert_allclose(found.cavity_variances[l] * (1 + found.excesses[l]), c, rtol=1e-9)
        assert_allclose(B, input_field(machine, l, state.means) + A * a, rtol=1e-9, atol=1e-11)


def test_weak_couplings_give_the_reaction_of_tap():
    """A_1 = -(W * W) c (1 + O(W**2)): halving the weights divides the relative gap by 4."""
    gaps = []
    for strength in (0.1, 0.05):
        machine = random_machine(("bernoulli", "bernoulli"), (4, 3), 2, strength)
        state = solved(machine)
        for l, A in enumerate(state.precisions):
            second = -coupled(machine, machine.squares, l, state.variances, power=2)
            gaps.append(np.abs(A / second - 1).max())
    assert max(gaps) < 0.02
    assert_allclose(np.array(gaps[:2]) / gaps[2:], 4, rtol=0.1)


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


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_factors_of_tiny_rows_are_accurate(dtype):
    """Where rows of K are tiny, the excess is less than the rounding of 1, which hides it."""
    generator = np.random.default_rng(4)
    K = 0.1 * generator.standard_normal((5, 8))
    K *= np.array([1.0, 1e-3, 1e-6, 1e-10, 1.0])[:, None]
    _, V, Y, excess, _ = (part[0] for part in complement_factors(K.astype(dtype)[None]))
    # The same as diag(K (I - K'K)^-1 K'), in which nothing cancels.
    expected = np.diag(K @ np.linalg.solve(np.eye(8) - K.T @ K, K.T))
    rtol = 100 * np.finfo(dtype).eps
    assert_allclose(excess, expected, rtol=rtol)
    inverse = np.linalg.inv(np.eye(5) - K @ K.T)
    assert_allclose(V @ V.T, inverse, rtol=0, atol=rtol)
    assert_allclose(np.eye(8) + Y.T @ Y, np.linalg.inv(np.eye(8) - K.T @ K), rtol=0, atol=rtol)


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
