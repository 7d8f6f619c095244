"""Fixed points of machines with real units on both sides, against integrals.

With one hidden unit the machine is an integral over it of a product over the visible units, whose
own integrals the oracle knows: that gives log Z and the moments of every pair of real units.
"""

import numpy as np
import pytest
from _exact import Line
from _machines import few_pairs, random_machine, with_strength
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from skrbm.inference import FIXED_POINTS, solve
from skrbm.units import UNITS, log_weight

pytestmark = pytest.mark.law
REAL = [kind for kind in UNITS if UNITS[kind].values is None]
pairs = pytest.mark.parametrize(("visible", "hidden"), few_pairs(REAL))


def each(names):
    """Parametrize by methods and by the pairs that they are for."""
    cases = [
        (name, *kinds)
        for name in names
        for kinds in few_pairs(REAL)
        if FIXED_POINTS[name].unmet(random_machine(kinds, (3, 1), 0)) is None
    ]
    return pytest.mark.parametrize(("name", "visible", "hidden"), cases)


SECOND_ORDER = ["tap", "adaptive_tap", "relaxed_bp"]


def line(machine, l, i, field=0.0):
    theta = machine.thetas[l]._replace(joint=None)
    own, precision, *others = (None if part is None else float(part[i]) for part in theta[:-1])
    return Line(own + field, precision, machine.units[l].bounds, *others)


class Integral:
    """log Z and the means of a machine with one hidden unit, whose distribution is smooth."""

    def __init__(self, machine):
        theta, W = machine.thetas[1].map(lambda part: part[:1]), machine.weights[0][0]
        bounds, precision = machine.units[1].bounds, machine.units[1].tail_precision(theta)
        if np.isinf(bounds[1]):
            strength = np.abs(theta.field) + (0 if theta.absolute is None else abs(theta.absolute))
            reach = float(strength[0] / precision[0] + 14 / np.sqrt(precision[0]))
            bounds = max(bounds[0], -reach), reach
        edges = np.unique(np.clip([bounds[0], 0.0, bounds[1]], *bounds))
        u, w = np.polynomial.legendre.leggauss(60)
        half = 0.5 * np.diff(edges)[:, None]
        points = (edges[:-1, None] + half * (1 + u)).ravel()
        weights = np.log((half * w).ravel())
        weights += log_weight(theta._replace(spike=None), points[:, None])
        if theta.spike is not None:
            points, weights = np.append(points, 0.0), np.append(weights + theta.spike, 0.0)
        lines = [[line(machine, 0, i, w * h) for i, w in enumerate(W)] for h in points]
        weights = weights + np.array([sum(one.log_z for one in row) for row in lines])
        self.log_z = logsumexp(weights)
        probabilities = np.exp(weights - self.log_z)
        self.hidden = probabilities @ points
        self.visible = probabilities @ np.array([[one.mean for one in row] for row in lines])


def log_z_error(method, machine):
    X = np.zeros((1, machine.n_units[0]))
    solution = solve(method, machine, method.state_at(machine, X), max_iter=500, tol=1e-20)
    assert solution.converged.all()
    return method.log_partition(machine, solution.state)[0] - Integral(machine).log_z


def machines(visible, hidden, strength):
    """Some whose weights are smaller where units are wide."""
    for seed in range(3):
        machine = random_machine((visible, hidden), (3, 1), seed, strength)
        layers = zip(machine.units, machine.thetas, strict=True)
        tails = [unit.tail_precision(theta) for unit, theta in layers]
        width = min([1.0, *(part.min() for part in tails if part is not None)])
        yield with_strength(machine, width)


FACTORS = {"naive_mean_field": 4 * 0.78, **dict.fromkeys(SECOND_ORDER, 8 * 0.78)}


@each(FACTORS)
def test_order_of_the_error(name, visible, hidden):
    # Over machines, since in one the first order that is left out may vanish by chance.
    errors = np.zeros(2)
    for machine in machines(visible, hidden, 0.02):
        for i, scale in enumerate((1.0, 0.5)):
            scaled = with_strength(machine, scale)
            errors[i] += abs(log_z_error(FIXED_POINTS[name], scaled))
    assert errors[1] < errors[0] / FACTORS[name] + 1e-13


@each(SECOND_ORDER)
def test_means(name, visible, hidden):
    method, machine = FIXED_POINTS[name], random_machine((visible, hidden), (3, 1), 0, 0.05)
    start = method.state_at(machine, np.zeros((1, 3)))
    state = solve(method, machine, start, max_iter=500, tol=1e-20).state
    truth = Integral(machine)
    assert_allclose(state.means[0][0], truth.visible, atol=2e-4)
    assert_allclose(state.means[1][0], truth.hidden, atol=2e-4)
