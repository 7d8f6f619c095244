"""The machine whose biases depend on features: its fields given a row, and its gradient."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from _conditional_machines import Sums, random_machine
from _exact import Exact
from numpy.testing import assert_allclose, assert_array_equal

from skrbm.estimators.conditional._machine import (
    PARAMETERS,
    ConditionalGradient,
)
from skrbm.inference import TAP
from skrbm.machine import Machine, data_moments

X = np.random.default_rng(0).standard_normal((5, 2))


def test_given_features_it_is_an_ordinary_machine():
    """Eq. (3) of the paper, by the sums of the oracle of all other machines."""
    machine = random_machine()
    given = machine.given(X)
    for i, x in enumerate(X):
        thetas = tuple(
            theta.rows(np.array([i])).map(lambda part: part[0]) for theta in given.thetas
        )
        exact, sums = Exact(Machine(given.units, thetas, given.weights)), Sums(machine, x)
        assert_allclose(exact.log_z, sums.log_z, rtol=1e-12)
        assert_allclose(exact.mean(0), sums.mean(), rtol=1e-12)
        assert_allclose(exact.mean(1), sums.hidden_mean(), rtol=1e-12)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_rows_of_dense_or_sparse_features(make, dtype):
    machine, whole = random_machine(), np.round(3 * X).astype(dtype)
    fields = [theta.field for theta in machine.given(whole.astype(float)).thetas]
    ((_, some),) = machine.blocks(make(whole), rows=np.array([3, 0]))
    for theta, field in zip(some.thetas, fields, strict=True):
        assert theta.field.dtype == np.float64
        assert_allclose(theta.field, field[[3, 0]], rtol=1e-12)
    for size in (1, 2, 5, 9):
        blocks = list(machine.blocks(make(whole), size))
        assert_array_equal(np.concatenate([rows for rows, _ in blocks]), np.arange(5))
        assert max(len(rows) for rows, _ in blocks) <= size
        parts = [given.thetas[1].field for _, given in blocks]
        assert_allclose(np.concatenate(parts), fields[1], rtol=1e-12)


def difference_of(given, V):
    """Moments of V minus moments that have means, variances and pairs."""
    method = TAP(max_iter=5)
    state = method.step(given, method.state_at(given, np.full_like(V, 0.4)))
    return data_moments(given, V) - method.moments(given, state)


def slopes(machine, moments):
    """The gradient of each array from rows of expectations, term by term."""
    found = {name: np.zeros_like(getattr(machine, name)) for name in PARAMETERS}
    for block in moments.blocks:
        for i, x in enumerate(X):
            v, h = block.means[0][i], block.means[1][i]
            found["components"] += block.weight * np.outer(h, v)
            if block.pair is not None:
                extra = np.outer(block.pair[1][i], block.pair[0][i])
                found["components"] += block.weight * machine.components * extra
            found["coef_visible"] += block.weight * np.outer(v, x)
            found["coef_hidden"] += block.weight * np.outer(h, x)
            found["intercept_visible"] += block.weight * v
            found["intercept_hidden"] += block.weight * h
    for _, matrix in moments.matrices:
        found["components"] += matrix
    return found


def some_gradient(machine, V):
    """A gradient whose moments have all parts, and its arrays by name, term by term."""
    given = machine.given(X)
    moments = replace(difference_of(given, V), matrices=((0, np.ones((3, 4))),))
    return ConditionalGradient(moments, given, X), slopes(machine, moments)


@pytest.mark.parametrize("keep", [1.0, 0.7])
def test_gradient_is_added_in_place(keep):
    """target <- keep * target + rate * gradient; ``keep`` is for the first n_penalised alone."""
    machine = random_machine(1)
    gradient, parts = some_gradient(machine, np.eye(5, 4))
    targets = random_machine(2).leaves
    before = [target.copy() for target in targets]
    assert gradient.n_penalised == 3 and PARAMETERS[:3] == (
        "components",
        "coef_visible",
        "coef_hidden",
    )
    gradient.add(targets, 0.3, keep)
    for i, (name, old, new) in enumerate(zip(PARAMETERS, before, targets, strict=True)):
        expected = (keep if i < 3 else 1.0) * old + 0.3 * parts[name]
        assert_allclose(new, expected, rtol=1e-12, atol=1e-14, err_msg=name)
    for name, found in zip(PARAMETERS, gradient.arrays(machine.leaves), strict=True):
        assert_allclose(found, parts[name], rtol=1e-12, atol=1e-14, err_msg=name)
