"""Fixed points with observed visible units, against enumeration of the free ones."""

from dataclasses import replace

import numpy as np
import pytest
from _exact import STATISTICS, Exact
from _machines import random_machine, with_strength
from numpy.testing import assert_allclose, assert_array_equal

from skrbm.inference import FIXED_POINTS, clamped, solve

KINDS = [
    ("bernoulli", "bernoulli"),
    ("gaussian", "bernoulli"),
    ("truncated_gauss_bernoulli", "bernoulli"),
    ("bernoulli", "relu"),
]


def cases():
    for name, method in FIXED_POINTS.items():
        for kinds in KINDS:
            if method.unmet(random_machine(kinds, (4, 3), 0)) is None:
                yield pytest.param(name, kinds, id="-".join((name, *kinds)))


pytestmark = pytest.mark.parametrize(("name", "kinds"), list(cases()))
OBSERVED = np.array([[1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]]) > 0


def problem(kinds, strength):
    """A machine whose weights are small where values are large, and rows of it."""
    machine = random_machine(kinds, (4, 3), 1, strength)
    free = Exact(replace(machine, scale=0.0))
    sizes = [np.maximum(1, free.second(l)) for l in (1, 0)]
    machine = replace(machine, weights=(machine.weights[0] / np.outer(*sizes),))
    X = Exact(machine).sample(np.random.default_rng(1), 3)[0]
    return machine, X


def test_observed_units_stay_and_have_no_variance(name, kinds):
    machine, X = problem(kinds, 0.5)
    method = FIXED_POINTS[name]
    state = method.state_at(machine, X)
    for _ in range(3):
        state = method.step(clamped(machine, X, OBSERVED), state)
        assert_array_equal(state.means[0][OBSERVED], X[OBSERVED])
        if state.variances[0] is not None:
            assert_array_equal(state.variances[0][OBSERVED], 0)
    assert all(mean.dtype == X.dtype for mean in state.means)


def exact_moments(machine, X, observed):
    """Mean products and statistics of the visible and hidden units over rows, by the oracle."""
    rows = [
        Exact(machine, observed=np.where(held, row, np.nan))
        for row, held in zip(X, observed, strict=True)
    ]
    found = {"pair": np.mean([exact.pair(0) for exact in rows], axis=0)}
    for l in (0, 1):
        for name, part in zip(STATISTICS, machine.thetas[l][:5], strict=True):
            if part is not None:
                values = [exact.statistic(name, l) for exact in rows]
                found[f"{name} {l}"] = np.mean(values, axis=0)
    return found


def as_dict(machine, moments):
    ((_, pair),), thetas = moments.reduced(machine).matrices, moments.reduced(machine).sums
    found = {"pair": pair}
    for l, theta in thetas:
        for name, part in zip(STATISTICS, theta[:5], strict=True):
            if part is not None:
                found[f"{name} {l}"] = part
    return found


@pytest.mark.law
def test_moments_approach_those_given_the_observed_values(name, kinds):
    """With all observed they are exact; otherwise the error falls with the square of the weights.

    Naive mean field leaves out the covariances, which are linear in the weights. Relaxed belief
    propagation expands its free energy about the hidden units, even where all else is known.
    """
    method, errors, first = FIXED_POINTS[name], [], problem(kinds, 0.2)
    for factor in (1.0, 0.5):
        machine, X = with_strength(first[0], factor), first[1]
        for rows in (slice(0, 2), slice(2, 3)):
            held = clamped(machine, X[rows], OBSERVED[rows])
            state = method.state_at(machine, X[rows])
            solution = solve(method, held, state, tol=1e-28, max_iter=2000)
            found = as_dict(machine, method.moments(held, solution.state))
            truth = exact_moments(machine, X[rows], OBSERVED[rows])
            assert found.keys() == truth.keys()
            errors.append(max(np.abs(found[key] - truth[key]).max() for key in truth))
    before, full, after, full_too = errors
    if name == "relaxed_bp":
        assert full < 0.01 and full_too <= max(full / 3, 1e-9)
    else:
        assert_allclose([full, full_too], 0, atol=1e-9)
    assert after < 0.05
    assert after < before / (1.8 if name == "naive_mean_field" else 3)
