"""The machine whose biases depend on features: its fields given a row, and its gradient."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from _conditional_machines import Sums, differences, random_machine
from _exact import Exact
from _libraries import OTHER_LIBRARIES
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit

from skrbm.arrays import make_rng, to_numpy
from skrbm.estimators.conditional._machine import (
    PARAMETERS,
    ConditionalGradient,
    ConditionalMachine,
    machine_of,
    with_parameters,
)
from skrbm.estimators.conditional._machine import random_machine as new_machine
from skrbm.inference import TAP
from skrbm.learning import SGD
from skrbm.machine import Block, Machine, Moments, data_moments
from skrbm.units import Bernoulli, Categorical, Theta

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
    some = machine.given_rows(make(whole), np.array([3, 0]))
    for theta, field in zip(some.thetas, fields, strict=True):
        assert theta.field.dtype == np.float64
        assert_allclose(theta.field, field[[3, 0]], rtol=1e-12)
    for size in (1, 2, 5, 9):
        blocks = list(machine.blocks(make(whole), size))
        assert_array_equal(np.concatenate([rows for rows, _ in blocks]), np.arange(5))
        assert max(len(rows) for rows, _ in blocks) <= size
        parts = [given.thetas[1].field for _, given in blocks]
        assert_allclose(np.concatenate(parts), fields[1], rtol=1e-12)
    ((rows, given),) = machine.blocks(make(whole), rows=np.array([4, 1]))
    assert_array_equal(rows, [4, 1])
    assert_allclose(given.thetas[1].field, fields[1][[4, 1]], rtol=1e-12)


def difference_of(given, V):
    """Moments of V minus moments that have means, variances and pairs."""
    method = TAP(max_iter=5)
    state = method.step(given, method.start(given, np.full_like(V, 0.4)))
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
    targets = random_machine(2).values
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
    for name, found in zip(PARAMETERS, gradient.arrays(machine.values), strict=True):
        assert_allclose(found, parts[name], rtol=1e-12, atol=1e-14, err_msg=name)


def test_gradient_may_be_added_to_the_weights_that_it_reads():
    """So plain gradient ascent does it; a pair of moments multiplies the weights before."""
    machine = random_machine(1)
    gradient, parts = some_gradient(machine, np.eye(5, 4))
    expected = {name: 0.9 * getattr(machine, name) + 0.3 * parts[name] for name in PARAMETERS[:3]}
    gradient.add(machine.values, 0.3, 0.9)
    for name, part in expected.items():
        assert_allclose(getattr(machine, name), part, rtol=1e-12, atol=1e-14, err_msg=name)


@pytest.mark.parametrize("keep", [1.0, 0.7])
@pytest.mark.parametrize("unit", [None, Categorical()], ids=str)
def test_gradient_of_known_moments_against_differences(unit, keep):
    """Of the mean negative energy of given v and h, which is linear in all parameters."""
    machine, generator = random_machine(3, unit=unit), np.random.default_rng(3)
    V, H = np.eye(5, 4), generator.random((5, 3))

    def mean_energy(machine):
        W, A, B, b, c = machine.values
        return np.mean(
            np.sum((H @ W + X @ A.T + b) * V, axis=1) + np.sum((X @ B.T + c) * H, axis=1)
        )

    moments = Moments((Block((V, H), (None, None), 0.2),))
    gradient = ConditionalGradient(moments, machine.given(X), X)
    targets = random_machine(4).values
    factors = [keep] * gradient.n_penalised + [1.0, 1.0]
    expected = [factor * part for factor, part in zip(factors, targets, strict=True)]
    gradient.add(targets, 0.5, keep)
    found = differences(mean_energy, machine)
    for name, old, new in zip(PARAMETERS, expected, targets, strict=True):
        assert_allclose(new, old + 0.5 * found[name], rtol=1e-8, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("momentum", [0.0, 0.6])
@pytest.mark.parametrize("penalty", ["l1", "l2"])
@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_steps(momentum, penalty, alpha):
    """velocity <- momentum * velocity + rate * (gradient - alpha * part), twice; l1 shrinks."""
    machine, rate = random_machine(1), 0.1
    V = np.random.default_rng(1).integers(0, 2, (5, 4)).astype(float)
    optimizer = SGD(momentum, alpha, penalty)
    velocity = optimizer.init(machine.values)
    expected = {name: getattr(machine, name).copy() for name in PARAMETERS}
    moving = dict.fromkeys(PARAMETERS, 0.0)
    for _ in range(2):
        gradient, parts = some_gradient(machine, V)
        velocity = optimizer.update(machine.values, gradient, velocity, rate)
        for name in PARAMETERS:
            old, strength = expected[name], alpha if "intercept" not in name else 0.0
            decay = strength * old if penalty == "l2" else 0.0
            new = old + momentum * moving[name] + rate * (parts[name] - decay)
            if penalty == "l1":
                new = np.sign(new) * np.maximum(abs(new) - rate * strength, 0)
            expected[name], moving[name] = new, new - old
        for name in PARAMETERS:
            assert_allclose(getattr(machine, name), expected[name], rtol=1e-12, atol=1e-14)
    assert (velocity is None) == (momentum == 0)


def test_steps_without_hidden_units():
    machine = random_machine(0, (4, 0, 2))
    before, given = machine.copy(), machine.given(X)
    gradient = ConditionalGradient(data_moments(given, np.ones((5, 4))), given, X)
    SGD(alpha=0.1).update(machine.values, gradient, None, 0.5)
    expected = before.coef_visible * (1 - 0.05) + 0.5 * np.outer(np.ones(4), X.mean(axis=0))
    assert_allclose(machine.coef_visible, expected, rtol=1e-12)
    assert machine.components.shape == (0, 4) and machine.coef_hidden.shape == (0, 2)


@pytest.mark.parametrize("name", OTHER_LIBRARIES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_array_libraries(name, dtype):
    pytest.importorskip("array_api_compat")
    xp = pytest.importorskip(name)
    machine, rtol = random_machine(dtype=np.dtype(dtype)), 1e-12 if dtype == "float64" else 1e-5
    other = ConditionalMachine(machine.units, *(xp.asarray(p.copy()) for p in machine.values))
    V = np.random.default_rng(1).integers(0, 2, (5, 4)).astype(dtype)
    Z, optimizer = X.astype(dtype), SGD(0.5, 0.1)
    for m, x, v in ((machine, Z, V), (other, xp.asarray(Z), xp.asarray(V))):
        velocity = optimizer.init(m.values)
        for _ in range(2):
            given = m.given(x)
            gradient = ConditionalGradient(difference_of_arrays(given, v), given, x)
            velocity = optimizer.update(m.values, gradient, velocity, 0.1)
    for ours, theirs in zip(machine.values, other.values, strict=True):
        assert type(theirs) is type(xp.asarray([0.0])) and ours.dtype == dtype
        assert_allclose(to_numpy(theirs), ours, rtol=rtol, atol=rtol)
    index = [rows for rows, _ in other.blocks(xp.asarray(Z), 2)]
    assert_array_equal(np.concatenate(index), np.arange(5))


def difference_of_arrays(given, V):
    means = V, 0.5 * V[:, :3]
    return data_moments(given, V) - Moments((Block(means, (None, None), 0.2),))


def test_copies_share_no_memory():
    machine = random_machine()
    for one, other in zip(machine.copy().values, machine.values, strict=True):
        assert_array_equal(one, other)
        assert not np.shares_memory(one, other)


@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_is_not_finite_is_seen(name, wrong):
    machine = random_machine()
    assert machine.is_finite() and machine.has_finite_thetas()
    getattr(machine, name).flat[1] = wrong
    assert not machine.is_finite()
    assert machine.has_finite_thetas() == ("intercept" not in name)


def test_new_machines():
    """Variances of 6000 and 8000 normal numbers are within 10 %, which is 5 of their errors.

    W gives the hidden units a field of variance 1 at outputs as many as are 1 on average.
    """
    field, reference = np.array([1.0, -2.0, 0.5]), np.zeros((1, 1), np.float32)
    machine = new_machine(Bernoulli(), 2000, 4, field, make_rng(0, reference), reference)
    assert all(part.dtype == np.float32 for part in machine.values)
    assert_allclose(machine.intercept_visible, field)
    assert not machine.coef_visible.any() and not machine.intercept_hidden.any()
    assert machine.coef_visible.shape == (3, 4) and machine.coef_hidden.shape == (2000, 4)
    n_on = expit(field).sum()
    for part, deviation in ((machine.components, n_on**-0.5), (machine.coef_hidden, 0.5)):
        assert 0.9 < np.mean((part / deviation) ** 2) < 1.1


@pytest.mark.parametrize(
    "unit, field", [(Bernoulli(), [-3.0, -2.0]), (Categorical(), np.log([0.5, 0.3, 0.1, 0.1]))]
)
def test_new_machines_of_few_outputs_and_of_a_label(unit, field):
    """The variance is at most 1; it is that of 8000 numbers or more, as above."""
    reference = np.zeros((1, 1))
    machine = new_machine(unit, 4000, 4, np.array(field), make_rng(0, reference), reference)
    assert 0.9 < np.mean(machine.components**2) < 1.1


def test_parameters_are_copied_and_checked():
    machine = random_machine()
    A = np.ones((4, 2))
    changed = with_parameters(machine, {"coef_visible": A})
    A[:] = 7
    assert_array_equal(changed.coef_visible, np.ones((4, 2)))
    assert changed.components is machine.components
    with pytest.raises(ValueError, match=r"coef_visible has shape \(2, 4\), and \(4, 2\)"):
        with_parameters(machine, {"coef_visible": A.T})
    with pytest.raises(ValueError, match="intercept_hidden contains NaN"):
        with_parameters(machine, {"intercept_hidden": np.full(3, np.nan)})


def test_machine_of_arrays():
    machine = machine_of(np.ones((3, 4), np.float32), coef_hidden=np.ones((3, 2)))
    assert all(part.dtype == np.float32 for part in machine.values)
    assert not machine.coef_visible.any() and machine.coef_visible.shape == (4, 2)
    assert [theta.field.shape for theta in machine.given(X).thetas] == [(5, 4), (5, 3)]
    assert isinstance(machine.given(X).thetas[0], Theta)


W = np.ones((3, 4))


@pytest.mark.parametrize(
    "components, parts, words",
    [
        (W, {}, "coef_visible or coef_hidden must be given"),
        (W, {"coef_visible": 3.0}, "coef_visible must be a non-empty array of 2"),
        (W, {"coef_visible": np.ones(4)}, "coef_visible must be a non-empty array of 2"),
        (W, {"coef_visible": np.ones((4, 0))}, "must have a column for each feature"),
        (W, {"coef_visible": np.ones((3, 2))}, r"shape \(3, 2\), and \(4, 2\) is needed"),
        (
            W,
            {"coef_visible": np.ones((4, 2)), "coef_hidden": np.ones((3, 5))},
            r"coef_hidden has shape \(3, 5\), and \(3, 2\)",
        ),
        (np.ones((3, 0)), {"coef_visible": np.ones((0, 2))}, "a column for each output"),
        (
            np.ones(3),
            {"coef_visible": np.ones((4, 2))},
            "components must be a non-empty array of 2",
        ),
        ([["a"]], {"coef_visible": np.ones((4, 2))}, "components must be an array of real numbers"),
        (np.inf * W, {"coef_visible": np.ones((4, 2))}, "components contains NaN or infinity"),
    ],
)
def test_machine_of_wrong_arrays(components, parts, words):
    with pytest.raises(ValueError, match=words):
        machine_of(components, **parts)
