"""The contract of a fixed point, checked for every method that is listed, against enumeration."""

from dataclasses import replace

import numpy as np
import pytest
from _exact import Exact
from _machines import (
    differences,
    enumerable_pairs,
    gradient,
    parameters,
    random_machine,
    with_strength,
)
from numpy.testing import assert_allclose, assert_array_equal

from skrbm.inference import (
    FIXED_POINTS,
    FixedPoint,
    map_rows,
    solve,
)

SHAPES = {
    **{
        f"{visible}-{hidden}": ((visible, hidden), (4, 3)) for visible, hidden in enumerable_pairs()
    },
    "deep": (("bernoulli", "bernoulli", "bernoulli"), (4, 3, 2)),
    "deep real": (("gaussian", "bernoulli", "bernoulli", "bernoulli"), (3, 3, 2, 2)),
}
"""Kinds of units and sizes, by name."""

# Power of the weights in the first term of log Z that a method leaves out; a method that is not
# listed must have the means right, which makes its log Z right up to the second power. The third
# power vanishes wherever one layer is Gaussian, as a Gaussian has no third cumulant.
ERROR_POWER = {
    "naive_mean_field": 2,
    "tap": 3,
    "relaxed_bp": 3,
    "tap3": 4,
    "adaptive_tap": 3,
    "bp": 4,
}
# Without a Gaussian layer between them, the units of the other are coupled by products of two
# weights, and adaptive TAP leaves out the third power of these.
GAUSSIAN_POWER = {"adaptive_tap": 6}

CASES = [
    pytest.param(name, shape, id=f"{name}-{shape}")
    for name, method in FIXED_POINTS.items()
    for shape, (kinds, sizes) in SHAPES.items()
    if method.unmet(random_machine(kinds, sizes, 0)) is None
]
cases = pytest.mark.parametrize(("name", "shape"), CASES)
FEW = ("bernoulli-bernoulli", "bernoulli-truncated_gauss_bernoulli", "gaussian-bernoulli", "deep")
few_cases = pytest.mark.parametrize(
    ("name", "shape"), [case for case in CASES if case.values[1] in FEW]
)


def make(shape, seed=0, strength=0.3, **kwargs):
    return random_machine(*SHAPES[shape], seed, strength, **kwargs)


def start(method, machine, n=1, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.uniform(size=(n, machine.n_units[0])).astype(machine.dtype)
    return method.state_at(machine, X)


def fixed_point(method, machine, n=1):
    """Solve to the last digit, and fail if there is no solution."""
    solution = solve(method, machine, start(method, machine, n), tol=1e-29, max_iter=5000)
    assert solution.converged.all()
    return solution.state


def log_partition(method, machine):
    return float(method.log_partition(machine, fixed_point(method, machine))[0])


@cases
def test_exact_without_couplings(name, shape):
    method, machine = FIXED_POINTS[name], make(shape, strength=0.0)
    state, exact = fixed_point(method, machine), Exact(machine)
    assert_allclose(method.log_partition(machine, state), exact.log_z, rtol=1e-12)
    for l, mean in enumerate(state.means):
        assert_allclose(mean[0], exact.mean(l), rtol=1e-10, atol=1e-12)


def errors(method, shape, factor):
    """Errors of log Z and of all means over ten machines with small weights."""
    of_log_z, of_means = [], []
    for seed in range(10):
        machine = with_strength(make(shape, seed, 0.08), factor)
        state, exact = fixed_point(method, machine), Exact(machine)
        of_log_z.append(float(method.log_partition(machine, state)[0]) - exact.log_z)
        of_means += [mean[0] - exact.mean(l) for l, mean in enumerate(state.means)]
    return np.linalg.norm(of_log_z), np.linalg.norm(np.concatenate(of_means))


@pytest.mark.law
@cases
def test_order_of_the_errors(name, shape):
    """Halving the weights divides an error by 2 to the first power left out, or by more.

    A wrong factor of the highest term of the expansion would lower the power by one.
    """
    method = FIXED_POINTS[name]
    power = ERROR_POWER.get(name, 2)
    if shape in ("bernoulli-gaussian", "gaussian-bernoulli"):
        power = GAUSSIAN_POWER.get(name, power)
    whole, half = errors(method, shape, 1.0), errors(method, shape, 0.5)
    for before, after in zip(whole, half, strict=True):
        assert before / after > 2**power * 0.78
        assert before / after < 2 ** (power + 1) * 1.25
    assert half[1] < 0.02


@pytest.mark.law
@cases
def test_moments_are_the_derivatives_of_the_solved_log_partition(name, shape):
    """So that learning climbs the method's own likelihood, in every parameter."""
    method, machine = FIXED_POINTS[name], make(shape, 2, scale=0.7)
    moments = method.moments(machine, fixed_point(method, machine))
    parts = gradient(machine, moments)
    names = []
    for part, (label, values, put) in zip(parts, parameters(machine), strict=True):
        slopes = differences(lambda m: log_partition(method, m), values, put, step=1e-4)
        assert_allclose(part, slopes, rtol=1e-6, atol=2e-8, err_msg=label)
        names.append(label)
    assert len(names) >= 2 + len(machine.weights)


@few_cases
def test_log_partition_is_stationary_at_a_solution(name, shape):
    """Errors of the state change log Z in the second order only, so that loose solutions do."""
    method, machine = FIXED_POINTS[name], make(shape, 3)
    state, generator = fixed_point(method, machine), np.random.default_rng(3)
    value = method.log_partition(machine, state)[0]
    size = 1e-4
    moved = map_rows(lambda leaf: leaf + size * generator.choice([-1, 1], leaf.shape), state)
    assert abs(method.log_partition(machine, moved)[0] - value) < 50 * size**2


@few_cases
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_the_scale_of_a_machine_is_a_factor_of_its_weights(name, shape, scale):
    method, machine = FIXED_POINTS[name], make(shape, 5, 0.1, scale=scale)
    same = with_strength(replace(machine, scale=1.0), scale)
    one, other = (fixed_point(method, each) for each in (machine, same))
    for a, b in zip(one.means, other.means, strict=True):
        assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    values = method.log_partition(machine, one), method.log_partition(same, other)
    assert_allclose(*values, rtol=1e-11)


@few_cases
def test_moments_average_over_rows(name, shape):
    method, machine = FIXED_POINTS[name], make(shape, 4)
    state = start(method, machine, n=3)
    for _ in range(2):
        state = method.step(machine, state)
    together = gradient(machine, method.moments(machine, state))
    alone = [gradient(machine, method.moments(machine, take(state, [row]))) for row in range(3)]
    for part, *parts in zip(together, *alone, strict=True):
        assert_allclose(part, np.mean(parts, axis=0), rtol=1e-12, atol=1e-14)


def take(state, index):
    return map_rows(lambda leaf: leaf[index], state)


def leaves(state):
    """The arrays of a state."""
    found = []
    map_rows(found.append, state)
    return found


@few_cases
def test_dtype_is_kept_and_float32_is_close(name, shape):
    method, machine = FIXED_POINTS[name], make(shape, 6)
    single = machine.astype(np.float32)
    solution = solve(method, single, start(method, single, n=3), tol=1e-12, max_iter=500)
    assert all(mean.dtype == np.float32 for mean in solution.state.means)
    assert solution.residual.dtype == np.float64
    values = method.log_partition(single, solution.state)
    assert values.dtype == np.float64
    assert_allclose(values, log_partition(method, machine), rtol=1e-5, atol=1e-5)


# What the driver promises, for each method.


@few_cases
def test_step_and_start_leave_their_arguments_alone(name, shape):
    method, machine = FIXED_POINTS[name], make(shape, 7)
    before = machine.copy()
    X = np.full((2, machine.n_units[0]), 0.3)
    state = method.state_at(machine, X)
    copies = [leaf.copy() for leaf in leaves(state)]
    method.log_partition(machine, method.step(machine, state))
    for leaf, copy in zip(leaves(state), copies, strict=True):
        assert_array_equal(leaf, copy)
    assert_array_equal(X, 0.3)
    for (_, a, _), (_, b, _) in zip(parameters(machine), parameters(before), strict=True):
        assert_array_equal(a, b)


def lerp(near, far, mix):
    """States between two, a row for each entry of ``mix``."""
    return map_rows(lambda a, b: a + np.multiply.outer(np.array(mix), (b - a)[0]), near, far)


@few_cases
def test_each_row_stops_when_it_has_converged(name, shape):
    method, machine, tol = FIXED_POINTS[name], make(shape, 8, 0.4), 1e-12
    # Rows that differ in their distance from the solution need different numbers of sweeps.
    mix = [1e-3, 1.0, 1e-8, 0.1, 1e-5, 1.0]
    begin = lerp(fixed_point(method, machine), start(method, machine), mix)
    solution = solve(method, machine, begin, tol=tol, max_iter=200, damping=0.0)
    assert solution.converged.all()
    assert len(set(solution.n_iter)) > 2
    for row in range(len(mix)):
        new, sweep, residual = take(begin, [row]), 0, np.inf
        while residual > tol:
            old, new, sweep = new, method.step(machine, new), sweep + 1
            change = [b - a for a, b in zip(old.means, new.means, strict=True)]
            square = np.mean(np.concatenate(change, axis=1) ** 2)
            residual = float(method.residual(old, new)[0])
            own = type(method).residual is not FixedPoint.residual  # a method may ask for more
            assert (
                residual >= square * (1 - 1e-9) if own else np.isclose(residual, square, rtol=1e-9)
            )
        assert solution.n_iter[row] == sweep
        assert_allclose(solution.residual[row], residual, rtol=1e-6)
        for a, b in zip(leaves(solution.state), leaves(new), strict=True):
            assert_allclose(a[row], b[0], rtol=1e-9, atol=1e-12)


def tilt_each(machine, fields, row=slice(None)):
    """The machine with fields for each row, (n_rows, n_units), on every layer."""
    for l, field in enumerate(fields):
        machine = machine.tilted(l, field[row])
    return machine


@few_cases
def test_each_row_may_have_parameters_of_its_own(name, shape):
    """Also after others have converged and left; sweeps and free energies are its own."""
    method, machine, n = FIXED_POINTS[name], make(shape, 14, 0.4), 6
    generator = np.random.default_rng(14)
    fields = [generator.standard_normal((n, units)) for units in machine.n_units]
    far, tilted = start(method, machine, n), tilt_each(machine, fields)
    near = solve(method, tilted, far, tol=1e-25, max_iter=1000, damping=0.3).state
    begin = lerp(near, far, [1e-3, 1.0, 1e-8, 0.1, 1e-5, 1.0])
    together = solve(method, tilted, begin, tol=1e-12, max_iter=500, damping=0.3)
    values = method.log_partition(tilted, together.state)
    assert together.converged.all()
    assert len(set(together.n_iter)) > 2
    for row in range(n):
        own, first = tilt_each(machine, fields, row), take(begin, [row])
        alone = solve(method, own, first, tol=1e-12, max_iter=500, damping=0.3)
        assert alone.n_iter[0] == together.n_iter[row]
        for a, b in zip(alone.state.means, together.state.means, strict=True):
            assert_allclose(a[0], b[row], rtol=1e-10, atol=1e-12)
        assert_allclose(method.log_partition(own, alone.state)[0], values[row], rtol=1e-10)


@few_cases
def test_max_iter_is_honoured_and_unconverged_rows_are_flagged(name, shape):
    method, machine = FIXED_POINTS[name], make(shape, 11)
    state = lerp(fixed_point(method, machine), start(method, machine), [1.0, 0.5, 0.0])
    solution = solve(method, machine, state, max_iter=2, tol=1e-25, damping=0.0)
    assert solution.converged.tolist() == [False, False, True]
    assert solution.n_iter.tolist() == [2, 2, 1]
    assert (solution.residual[:2] > 1e-25).all()
    assert solution.residual[2] <= 1e-25
    old, new = state, method.step(machine, state)
    damped = solve(method, machine, old, max_iter=1, damping=0.3, tol=0.0).state
    for a, b, c in zip(leaves(old), leaves(new), leaves(damped), strict=True):
        assert_allclose(c, 0.3 * a + 0.7 * b, rtol=1e-12, atol=1e-15)
