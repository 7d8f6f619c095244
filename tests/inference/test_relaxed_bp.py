"""Relaxed belief propagation: its equations edge by edge, trees, and weights out of its range."""

from dataclasses import replace

import numpy as np
import pytest
from _machines import differences, gradient, parameters, random_machine
from numpy.testing import assert_allclose

from skrbm import RBM
from skrbm.evaluation import log_partition, solutions
from skrbm.exceptions import DivergenceError
from skrbm.inference import RelaxedBP, map_rows, solve
from skrbm.units import Theta

METHOD = RelaxedBP()
PAIRS = [
    ("bernoulli", "bernoulli"),
    ("gaussian", "gaussian"),
    ("truncated_gaussian", "bernoulli"),
    ("relu", "truncated_gauss_bernoulli"),
]
pairs = pytest.mark.parametrize("kinds", PAIRS, ids="-".join)


def solution(machine, n=1, dtype=np.float64):
    X = np.random.default_rng(0).uniform(size=(n, machine.n_units[0])).astype(dtype)
    tol = 1e-30 if dtype == np.float64 else 1e-12
    solved = solve(METHOD, machine, METHOD.state_at(machine, X), tol=tol, max_iter=5000)
    assert solved.converged.all()
    return solved.state


def tilted(machine, i, received):
    """Unit ``i`` and its parameters under messages {j: (W_ij, mean, variance)}: Eqs. 56-58."""
    layer, index = (0, i) if i < machine.n_units[0] else (1, i - machine.n_units[0])
    unit, theta = machine.units[layer], machine.thetas[layer].map(lambda part: part[index])
    B = sum(W * a for W, a, _ in received.values())
    A = -sum(W * W * c for W, _, c in received.values())
    return unit, unit.tilt(theta.map(np.atleast_1d), np.array([B]), np.array([A]))


@pairs
def test_messages_and_log_partition_are_those_of_the_appendix(kinds):
    """Eqs. 57-60 for each edge and Eq. 64 over the pairs, by loops."""
    machine = random_machine(kinds, (3, 2), 0, 0.3)
    state, W = solution(machine), machine.weights[0]
    messages = {}  # (to, from): weight, mean, variance
    for (h, v), weight in np.ndenumerate(W):
        up, down = state.up[0], state.down[0]
        messages[3 + h, v] = (weight, up.mean[0, h, v], up.variance[0, h, v])
        messages[v, 3 + h] = (weight, down.mean[0, h, v], down.variance[0, h, v])
    log_z = 0.0
    for i in range(5):
        received = {l: message for (to, l), message in messages.items() if to == i}
        unit, theta = tilted(machine, i, received)
        node = unit.log_partition(theta)[0]
        log_z += node
        assert_allclose(np.concatenate(state.means, axis=1)[0, i], unit.mean(theta)[0], rtol=1e-10)
        for j in received:
            others = {l: message for l, message in received.items() if l != j}
            unit, theta = tilted(machine, i, others)
            mean, variance = unit.mean_variance(theta)
            assert_allclose(messages[j, i][1:], (mean[0], variance[0]), rtol=1e-9, atol=1e-12)
            log_z -= 0.5 * (node - unit.log_partition(theta)[0])
    assert_allclose(METHOD.log_partition(machine, state), log_z, rtol=1e-12)


def gaussian_law(machine):
    """Means of all units and log Z of a machine of Gaussian units."""
    W, (visible, hidden) = machine.weights[0], machine.thetas
    precision = np.diag(np.concatenate([visible.precision, hidden.precision]))
    n = W.shape[1]
    precision[n:, :n], precision[:n, n:] = -W, -W.T
    field = np.concatenate([visible.field, hidden.field])
    mean = np.linalg.solve(precision, field)
    _, log_det = np.linalg.slogdet(precision)
    return mean, 0.5 * (field @ mean - log_det + len(field) * np.log(2 * np.pi))


@pytest.mark.parametrize("sizes", [(1, 5), (5, 1)])
def test_exact_on_trees_of_gaussian_units(sizes):
    machine = random_machine(("gaussian", "gaussian"), sizes, 1, 0.3)
    state, (mean, log_z) = solution(machine), gaussian_law(machine)
    assert_allclose(np.concatenate(state.means, axis=1)[0], mean, rtol=1e-10)
    assert_allclose(METHOD.log_partition(machine, state), log_z, rtol=1e-12)


@pytest.mark.law
@pairs
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("strength", [1.0, 5.0, 50.0])
def test_nothing_becomes_nan(kinds, dtype, strength):
    """Even where nothing converges; but log Z, where messages would have no precision left."""
    machine = random_machine(kinds, (5, 4), 0, strength, dtype=dtype)
    X = np.random.default_rng(0).uniform(size=(3, 5)).astype(dtype)
    with np.errstate(all="raise", under="ignore"):
        state = solve(METHOD, machine, METHOD.state_at(machine, X), tol=1e-20, max_iter=100).state
        values = METHOD.log_partition(machine, state)
        slopes = gradient(machine, METHOD.moments(machine, state))
    map_rows(lambda leaf: np.testing.assert_(np.isfinite(leaf).all()), state)
    is_bounded = all(np.isfinite(unit.bounds).all() for unit in machine.units)
    assert np.isfinite(values).all() if is_bounded else not np.isinf(values).any()
    assert all(np.isfinite(slope).all() for slope in slopes)


# Some messages have no precision, or moments that grow.
@pytest.mark.parametrize("sizes, bias", [((6, 8), 0.0), ((5, 6), 0.5)])
def test_there_is_no_log_z_where_messages_diverge(sizes, bias):
    """Couplings of Gaussian units that are too strong for the expansion, though not for log Z."""
    rng = np.random.default_rng(0)
    W, *biases = 2 * rng.standard_normal(sizes), *(bias * rng.standard_normal(n) for n in sizes)
    rbm = RBM.from_parameters(W, *biases, visible="gaussian", random_state=0)
    for function in (log_partition, solutions):
        with pytest.raises(DivergenceError, match="the solutions diverge"):
            function(rbm, "relaxed_bp", starts=np.full((4, sizes[1]), 0.5))


def test_moments_are_derivatives_up_to_half_a_deviation_from_the_mean():
    """Of the unit that is the furthest; beyond, they are the means of the units themselves."""
    furthest = []
    for seed in range(12):
        machine = random_machine(("bernoulli", "bernoulli"), (3, 2), seed, 2.0)
        state = solution(machine)
        fields = list(parameters(machine))[:2]
        slopes = [
            differences(lambda m: METHOD.log_partition(m, solution(m))[0], values, put)
            for _, values, put in fields
        ]
        means, variances = (np.concatenate(part, axis=1)[0] for part in state[:2])
        furthest.append((np.abs(np.concatenate(slopes) - means) / np.sqrt(variances)).max())
        found = np.concatenate(gradient(machine, METHOD.moments(machine, state))[:2])
        expected = np.concatenate(slopes) if furthest[-1] < 0.5 else means
        assert_allclose(found, expected, atol=1e-6)
    below, above = ([f for f in furthest if (f < 0.5) == side] for side in (True, False))
    assert 0.4 < max(below) and min(above) < 0.6  # near the bound on both sides


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_unit_without_variance_is_a_bias(dtype):
    """Of a hidden unit that is always 1, whose variance is 0 to rounding, the weights are biases.

    The moments are those of the machine without it. (So it is with visible units of which two
    moments say everything.) The means of the units, which stand for the moments where messages
    have not converged, differ from these by more than the tolerance.
    """
    machine = random_machine(("gaussian", "bernoulli"), (4, 3), 0, 0.4, dtype=dtype)
    (visible, hidden), (W,) = machine.thetas, machine.weights
    certain = hidden.field + np.where(np.arange(3) == 0, 100, 0).astype(dtype)
    held = replace(machine, thetas=(visible, Theta(certain)))
    without = replace(
        machine,
        thetas=(visible._replace(field=visible.field + W[0]), Theta(hidden.field[1:])),
        weights=(W[1:],),
    )
    states = [solution(one, dtype=dtype) for one in (held, without)]
    found, expected = (
        gradient(one, METHOD.moments(one, state))
        for one, state in zip((held, without), states, strict=True)
    )
    tolerance = 1e-5 if dtype == np.float32 else 1e-10
    assert_allclose(found[-1][1:], expected[-1], atol=tolerance)
    assert_allclose(found[-2], [1, *expected[-2]], atol=tolerance)
    assert_allclose(found[-1][0], found[0], atol=tolerance)
    for part, other in zip(found[:-2], expected[:-2], strict=True):
        assert_allclose(part, other, atol=tolerance)
    assert np.abs(states[0].means[0][0] - found[0]).max() > 10 * tolerance
