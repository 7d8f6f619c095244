"""Fixed points with observed visible units, against enumeration of the free ones."""

import numpy as np
import pytest
from _exact import Exact
from _machines import enumerable_pairs, random_machine, with_strength
from numpy.testing import assert_allclose, assert_array_equal

from skrbm.inference import FIXED_POINTS, Clamped, solve


def cases():
    for name, method in FIXED_POINTS.items():
        for kinds in enumerable_pairs():
            if method.applies_to(random_machine(kinds, (4, 3), 0)):
                yield pytest.param(name, kinds, id="-".join((name, *kinds)))


pytestmark = pytest.mark.parametrize(("name", "kinds"), list(cases()))
OBSERVED = np.array([[1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]])


def problem(kinds, strength):
    machine = random_machine(kinds, (4, 3), 1, strength)
    X = Exact(machine).sample(np.random.default_rng(1), 3)[0]
    return machine, X


def test_observed_units_stay_and_have_no_variance(name, kinds):
    machine, X = problem(kinds, 0.5)
    method = Clamped(FIXED_POINTS[name])
    state = method.start(machine, X, OBSERVED)
    for _ in range(3):
        state = method.step(machine, state)
        held = OBSERVED > 0
        assert_array_equal(state.means[0][held], X[held])
        if state.variances[0] is not None:
            assert_array_equal(state.variances[0][held], 0)
    assert all(mean.dtype == X.dtype for mean in state.means)


def test_free_units_approach_the_conditional_expectation(name, kinds):
    """All observed is exact; otherwise the error falls at least with the square of the weights."""
    method, errors = Clamped(FIXED_POINTS[name]), []
    for strength in (0.2, 0.1):
        machine, _ = problem(kinds, 0.2)
        machine = with_strength(machine, strength / 0.2)
        X = problem(kinds, 0.2)[1]
        state = method.start(machine, X, OBSERVED)
        solution = solve(method, machine, state, tol=1e-28, max_iter=2000)
        assert solution.converged.all()
        rows = [
            Exact(machine, observed=np.where(held, row, np.nan))
            for row, held in zip(X, OBSERVED, strict=True)
        ]
        for l in (0, 1):
            truth = np.array([exact.mean(l) for exact in rows])
            errors.append(np.abs(solution.state.means[l] - truth).max(axis=1))
    before, after = np.array(errors[:2]), np.array(errors[2:])
    assert_allclose(after[:, 2], 0, atol=1e-10)
    assert (after[:, :2] < 0.005).all()
    assert after[:, :2].max() < before[:, :2].max() / 3


def test_hyper_parameters_are_those_of_the_method_inside(name, kinds):
    method = FIXED_POINTS[name]
    outer = Clamped(method)
    assert (outer.max_iter, outer.tol, outer.damping) == (
        method.max_iter,
        method.tol,
        method.damping,
    )
