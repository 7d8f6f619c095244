"""Machines with several hidden layers: clamped fixed points and the gradient of joint training.

The truth is enumeration of small machines, with the visible units held or free.
"""

from dataclasses import replace

import numpy as np
import pytest
from _exact import Exact
from _machines import (
    differences,
    gradient,
    parameters,
    random_machine,
)
from numpy.testing import assert_allclose

from skrbm.arrays import make_rng
from skrbm.inference import FIXED_POINTS, clamped, given_visible, solve
from skrbm.learning import DeepPhase
from skrbm.units import log_weight

SHAPES = {
    "one hidden layer": (("bernoulli", "bernoulli"), (4, 3)),
    "two": (("bernoulli",) * 3, (4, 3, 2)),
    "three": (("bernoulli",) * 4, (3, 3, 2, 2)),
    "real visible": (("truncated_gaussian", "bernoulli", "bernoulli"), (3, 3, 2)),
    "real hidden": (("bernoulli", "truncated_gauss_bernoulli", "bernoulli"), (3, 2, 2)),
}


def make(shape, seed=0, strength=0.4):
    return random_machine(*SHAPES[shape], seed, strength)


def rows(machine, n=3, seed=0):
    return Exact(machine).sample(np.random.default_rng(seed), n)[0]


def given(method, machine, X):
    """(machine, method, state) of the hidden layers given X, solved to the last digit."""
    hidden, method, start = given_visible(machine, X, method)
    solution = solve(method, hidden, start, tol=1e-29, max_iter=5000)
    assert solution.converged.all()
    return hidden, method, solution.state


def unnormalised(method, machine, X):
    """The method's log sum_h exp(-energy(x, h)) of each row."""
    hidden, method, state = given(method, machine, X)
    return log_weight(machine.thetas[0], X) + method.log_partition(hidden, state)


OBSERVED = np.array([[1, 1, 1, 1], [1, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0]]) > 0


def likelihoods_of_observed(method, machine, X, observed):
    """The method's log p(observed) + log Z of each row, solved to the last digit."""
    held = clamped(machine, X, observed)
    solution = solve(method, held, method.state_at(machine, X), tol=1e-29, max_iter=5000)
    assert solution.converged.all()
    return method.log_partition(held, solution.state)


CASES = [
    (name, shape)
    for name, method in FIXED_POINTS.items()
    for shape, kinds_and_sizes in SHAPES.items()
    if method.unmet(random_machine(*kinds_and_sizes, 0)) is None
]
# Those of one shape are quick, but for the method that inverts matrices.
COSTLY = [case for case in CASES if case[0] == "adaptive_tap" or case[1] != "two"]
cases = pytest.mark.parametrize(("name", "shape"), CASES)
quick_cases = pytest.mark.parametrize(
    ("name", "shape"),
    [pytest.param(*case, marks=[pytest.mark.law] if case in COSTLY else []) for case in CASES],
)


@quick_cases
def test_the_joint_gradient_of_rows_with_missing_values_is_that_of_what_is_observed(name, shape):
    """Of a complete row, of rows with holes and of one of which nothing is known."""
    method, machine = FIXED_POINTS[name], make(shape, 3)
    X, observed = rows(machine, 4), OBSERVED[:, : machine.n_units[0]]

    def free(machine):
        return solve(method, machine, method.state_at(machine, X), tol=1e-29, max_iter=5000)

    def log_likelihood(machine):
        known = unnormalised(method, machine, X[:1])
        values = likelihoods_of_observed(method, machine, X[1:], observed[1:])
        log_z = method.log_partition(machine, free(machine).state)
        return np.mean(np.concatenate([known, values]) - log_z)

    tight = replace(method, tol=1e-29, max_iter=5000)
    learning = DeepPhase(tight)
    rng = make_rng(0, X)
    state = learning.init(machine, rng, 4, X)
    state, data, model = learning.incomplete_phases(machine, state, X, observed, rng)
    assert state.known.shape == (4,) and state.known.all()
    starts = learning.visible(state)
    assert (starts[observed] == X[observed]).all() and (starts[~observed] != X[~observed]).all()
    parts = gradient(machine, data - model)
    for part, (label, values, put) in zip(parts, parameters(machine), strict=True):
        slopes = differences(log_likelihood, values, put, step=1e-4)
        assert_allclose(part, slopes, rtol=1e-6, atol=3e-8, err_msg=label)


@cases
def test_likelihoods_of_what_is_observed_are_near_the_sums(name, shape):
    """Weak couplings; those of a complete row are the same as with its values as a field.

    Not so in relaxed belief propagation, which leaves terms of all couplings out.
    """
    method, machine = FIXED_POINTS[name], make(shape, 5, 0.1)
    X, observed = rows(machine, 4), OBSERVED[:, : machine.n_units[0]]
    found = likelihoods_of_observed(method, machine, X, observed)
    holes = np.where(observed, X, np.nan)
    exact = [Exact(machine, observed=row).log_z for row in holes]
    assert_allclose(found, exact, atol=0.02 if name == "naive_mean_field" else 2e-3)
    if len(machine.units) > 2 and name != "relaxed_bp":
        assert_allclose(found[0], unnormalised(method, machine, X[:1])[0], rtol=1e-10)
