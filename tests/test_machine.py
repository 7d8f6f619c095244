"""Energies, free energies and moments of machines against plain sums over configurations."""

import copy
import dataclasses
import io
import itertools

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from _exact import Exact, free_energy, log_base
from _machines import (
    enumerable_pairs,
    further_statistics,
    gradient,
    parameters,
    random_machine,
)
from numpy.testing import assert_allclose, assert_array_equal

from skrbm.machine import (
    Block,
    Machine,
    Moments,
    _energy,
    conditional,
    energy,
    has_integral,
    interpolate,
    uncoupled,
)

SIZES = (4, 3, 2)
SHAPES = [*enumerable_pairs(), ("bernoulli", "bernoulli", "bernoulli")]
shapes = pytest.mark.parametrize("kinds", SHAPES, ids="-".join)
pairs = pytest.mark.parametrize("kinds", enumerable_pairs(), ids="-".join)
# All statistics, and more layers than two.
FEW = [("double_relu", "bernoulli"), ("bernoulli", "truncated_gauss_bernoulli"), SHAPES[-1]]
few_shapes = pytest.mark.parametrize("kinds", FEW, ids="-".join)


def make(kinds, seed=0, strength=0.6, **kwargs):
    return random_machine(kinds, SIZES[: len(kinds)], seed, strength, **kwargs)


def rows(machine, n, seed=0):
    return Exact(machine).sample(np.random.default_rng(seed), n)


@shapes
def test_energy_is_the_plain_sum(kinds):
    scale = 0.3
    machine = make(kinds, scale=scale)
    layers = rows(machine, 5)
    expected = np.zeros(5)
    for r in range(5):
        for unit, theta, x in zip(machine.units, machine.thetas, layers, strict=True):
            expected[r] -= log_base(unit, x[r]).sum()
            for i, value in enumerate(x[r]):
                expected[r] -= theta.field[i] * value
                if theta.precision is not None:
                    expected[r] += 0.5 * theta.precision[i] * value**2
                if theta.spike is not None:
                    expected[r] -= theta.spike[i] * (value != 0)
                if theta.skew is not None:
                    expected[r] -= theta.absolute[i] * abs(value)
                    expected[r] += 0.5 * theta.skew[i] * value * abs(value)
        for l, W in enumerate(machine.weights):
            for j, i in np.ndindex(W.shape):
                expected[r] -= scale * W[j, i] * layers[l][r, i] * layers[l + 1][r, j]
    value = energy(machine, layers)
    assert value.dtype == np.float64
    assert_allclose(value, expected, rtol=1e-12)


@pairs
def test_free_energy_sums_the_hidden_units_out(kinds):
    machine = make(kinds, scale=0.3)
    X = rows(machine, 5)[0]
    expected = free_energy(machine, X)
    for rows_of_X in (X, sp.csr_array(X)):
        assert_allclose(_energy.free_energy(machine, rows_of_X), expected, rtol=1e-10)
    single = _energy.free_energy(machine.astype(np.float32), X.astype(np.float32))
    assert single.dtype == np.float64
    assert_allclose(single, expected, rtol=1e-5, atol=1e-5)


@pairs
def test_log_ratio_is_a_difference_of_free_energies(kinds):
    machine, other = make(kinds, scale=1.0), make(kinds, seed=1, scale=0.3)
    X = rows(machine, 5)[0]
    expected = free_energy(machine, X) - free_energy(other, X)
    assert_allclose(_energy.log_ratio(machine, other, X), expected, rtol=1e-10, atol=1e-10)


@shapes
def test_conditional_of_every_layer_given_its_neighbours(kinds):
    machine = make(kinds, scale=0.7)
    layers = rows(machine, 3)
    exact = Exact(machine)
    x = np.concatenate(layers, axis=1)
    for l, unit in enumerate(machine.units):
        given = [None if k == l else layer for k, layer in enumerate(layers)]
        mean = unit.mean(conditional(machine, l, given))
        for r in range(3):
            for column, i in enumerate(exact.layers[l]):
                field = x[r] @ exact.coupling[:, i]
                if unit.values is None:
                    truth = exact.line(i, field).mean
                else:
                    weights = np.exp(
                        [(exact.theta["field"][i] + field) * value for value in unit.values]
                    ) * np.exp(log_base(unit, np.array(unit.values)))
                    truth = weights @ unit.values / weights.sum()
                assert_allclose(mean[r, column], truth, rtol=1e-10)


# Learning is moment matching.


def random_moments(machine, n_blocks=2, pair=True, matrix=True, seed=0):
    """Moments with everything they can have, and the dense expectations of each weight matrix."""
    generator = np.random.default_rng(seed)
    blocks = []
    for _ in range(n_blocks):
        n = generator.integers(1, 5)
        draw = [tuple(generator.random((n, size)) for size in machine.n_units) for _ in range(3)]
        weight, more = float(generator.normal()), draw[2] if pair else None
        further = tuple(
            tuple(generator.random((n, theta.field.size)) for _ in further_statistics(theta))
            or None
            for theta in machine.thetas
        )
        blocks.append(Block(draw[0], draw[1], weight, more, further))
    matrices = ((0, generator.random(machine.weights[0].shape)),) if matrix else ()
    return Moments(tuple(blocks), matrices)


def dense_pair(machine, moments, l):
    """E[x_{l+1} x_l'] entry by entry."""
    W = machine.weights[l]
    total = np.zeros(W.shape)
    for j, i in np.ndindex(W.shape):
        for block in moments.blocks:
            below, above = block.means[l][:, i], block.means[l + 1][:, j]
            total[j, i] += block.weight * (below * above).sum()
            if block.pair is not None:
                spread = (block.pair[l][:, i] * block.pair[l + 1][:, j]).sum()
                total[j, i] += block.weight * machine.scale * W[j, i] * spread
        total[j, i] += sum(matrix[j, i] for index, matrix in moments.matrices if index == l)
    return total


@few_shapes
@pytest.mark.parametrize("pair", [False, True])
def test_add_pair_accumulates_every_part_in_the_weights_that_it_reads(kinds, pair):
    machine = make(kinds, scale=0.7)
    moments = random_moments(machine, pair=pair)
    for l, W in enumerate(machine.weights):
        expected = 0.9 * W + 0.3 * dense_pair(machine, moments, l)
        assert moments.add_pair(machine, l, W, 0.3, 0.9) is W
        assert_allclose(W, expected, rtol=1e-12)


@few_shapes
@pytest.mark.parametrize("pair", [False, True])
def test_a_weight_for_each_row_is_that_number_in_each_row(kinds, pair):
    machine = make(kinds, scale=0.7)
    moments = random_moments(machine, pair=pair)
    blocks = tuple(
        block._replace(weight=np.full(block.means[0].shape[0], block.weight))
        for block in moments.blocks
    )
    other = dataclasses.replace(moments, blocks=blocks)
    for part, truth in zip(gradient(machine, -other), gradient(machine, moments), strict=True):
        assert_allclose(-part, truth, rtol=1e-12, atol=1e-14)


@few_shapes
def test_sums_and_differences_of_moments(kinds):
    machine = make(kinds, scale=0.7)
    parts = [random_moments(machine, seed=seed) for seed in range(3)]
    expected = [sum(items) for items in zip(*(gradient(machine, p) for p in parts), strict=True)]
    added = parts[0] + parts[1].reduced(machine) - -parts[2]
    for moments in (added, added.reduced(machine)):
        for part, truth in zip(gradient(machine, moments), expected, strict=True):
            assert_allclose(part, truth, rtol=1e-10, atol=1e-12)


# Thetas for each row: the same as a machine for each row.


def of_rows(kinds, n=4):
    """A machine with visible fields for each row, the machines of its rows, and layers."""
    machine = make(kinds, scale=0.7)
    fields = np.random.default_rng(5).standard_normal((n, machine.n_units[0]))
    machine = machine.tilted(0, fields)
    return machine, [machine.rows(slice(r, r + 1)) for r in range(n)], rows(make(kinds), n)


@few_shapes
def test_energies_of_thetas_for_each_row(kinds):
    machine, singles, layers = of_rows(kinds)
    expected = [energy(m, [x[r : r + 1] for x in layers])[0] for r, m in enumerate(singles)]
    assert_allclose(energy(machine, layers), expected, rtol=1e-12)


def test_free_energies_of_thetas_for_each_row(monkeypatch):
    monkeypatch.setattr(_energy, "block_rows", lambda: 3)
    machine, singles, (X, _) = of_rows(("gaussian", "bernoulli"))
    expected = [_energy.free_energy(m, X[r : r + 1])[0] for r, m in enumerate(singles)]
    assert_allclose(_energy.free_energy(machine, X), expected, rtol=1e-12)
    assert_allclose(_energy.precise_free_energy(machine, X), expected, rtol=1e-12)


# The machine itself.


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_interpolate_is_linear_in_thetas_and_scale(dtype):
    kinds = ("double_relu", "truncated_gauss_bernoulli")
    machine = make(kinds, seed=3, scale=0.8, dtype=dtype)
    base = uncoupled(machine, make(kinds, seed=4, dtype=dtype).thetas[0])
    half = dataclasses.replace(machine, scale=0.4)
    assert interpolate(half, machine, 0.25).scale == pytest.approx(0.5)
    for beta in (0.0, 0.25, 1.0):
        between = interpolate(base, machine, beta)
        assert between.scale == pytest.approx(0.8 * beta)
        assert between.weights[0] is machine.weights[0]
        for a, b, c in zip(base.thetas, machine.thetas, between.thetas, strict=True):
            for x, y, z in zip(a, b, c, strict=True):
                assert (x is None) == (z is None)
                if x is not None:
                    assert z.dtype == dtype
                    assert_allclose(z, (1 - beta) * x + beta * y, atol=10 * np.finfo(dtype).eps)


@few_shapes
def test_uncoupled_units_are_independent(kinds):
    machine = make(kinds)
    exact = Exact(uncoupled(machine))
    for l in range(len(machine.weights)):
        product = np.outer(exact.mean(l + 1), exact.mean(l))
        assert_allclose(exact.pair(l), product, rtol=1e-10, atol=1e-14)
    free = Exact(dataclasses.replace(machine, scale=0.0))
    assert_allclose(exact.mean(0), free.mean(0))
    visible = make(kinds, seed=9).thetas[0]
    assert_array_equal(uncoupled(machine, visible).thetas[0].field, visible.field)
    hidden = machine.units[1].default_theta(machine.n_units[1], machine.weights[0])
    assert_array_equal(uncoupled(machine).thetas[1].field, hidden.field)


def test_thetas_take_the_dtype_of_the_weights():
    wide = make(("gaussian", "bernoulli"))
    machine = Machine(wide.units, wide.thetas, (wide.weights[0].astype(np.float32),))
    assert machine.dtype == np.float32
    assert {part.dtype for theta in machine.thetas for part in theta if part is not None} == {
        np.dtype(np.float32)
    }
    assert machine.astype(np.float64).dtype == np.float64
    assert machine.n_units == (4, 3)


def through_a_file(machine):
    """A file of joblib, which keeps an array that two places share twice."""
    file = io.BytesIO()
    joblib.dump(machine, file)
    file.seek(0)
    return joblib.load(file)


@pytest.mark.parametrize("copied", [through_a_file, copy.deepcopy, Machine.copy])
def test_copies_write_into_their_own_parameters(copied):
    machine = make(("gaussian", "bernoulli"))
    assert len(machine.parts) == 3  # a cached property
    again = copied(machine)
    for part in again.parts:
        part[:] = 7
    assert all((part == 7).all() for theta in again.thetas for part in theta if part is not None)
    assert not any((part == 7).any() for part in machine.parts)


@few_shapes
@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of the sums, inf - inf
def test_is_finite_looks_at_every_parameter(kinds, bad):
    machine = make(kinds)
    assert machine.is_finite() and machine.has_finite_thetas()
    for name, values, put in parameters(machine):
        wrong = values.copy()
        wrong.flat[-1] = bad
        assert not put(wrong).is_finite(), name
        assert put(wrong).has_finite_thetas() == name.startswith("weights")
    wrong = machine.weights[0].copy()
    wrong.flat[:2] = np.inf, -np.inf
    assert not dataclasses.replace(machine, weights=(wrong, *machine.weights[1:])).is_finite()


REAL = [
    ("gaussian", "gaussian"),
    ("gaussian", "gaussian", "gaussian"),
    ("bernoulli", "gaussian", "gaussian"),
    ("gaussian", "truncated_gaussian", "gaussian"),
    ("gaussian", "bernoulli"),
]


@pytest.mark.parametrize("kinds", REAL, ids="-".join)
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_has_integral_if_the_joint_precision_is_positive_definite(kinds, scale):
    """That of all unbounded units, whose blocks are written down."""
    found = []
    for seed, strength in itertools.product(range(10), [0.2, 0.4, 0.6, 0.8]):
        machine = make(kinds, seed, strength, scale=scale)
        precision = np.diag(np.concatenate([np.ones(n) for n in machine.n_units]))
        ends = np.cumsum([0, *machine.n_units])
        layers = [slice(*pair) for pair in itertools.pairwise(ends)]
        for l, kind in enumerate(kinds):
            if kind == "gaussian":
                precision[layers[l], layers[l]] = np.diag(machine.thetas[l].precision)
            if kind == "gaussian" and l and kinds[l - 1] == "gaussian":
                block = -scale * machine.weights[l - 1]
                precision[layers[l], layers[l - 1]] = block
                precision[layers[l - 1], layers[l]] = block.T
        expected = np.linalg.eigvalsh(precision)[0] > 0
        assert has_integral(machine) == expected
        found.append(expected)
    assert set(found) == ({True, False} if kinds[-2:] == ("gaussian", "gaussian") else {True})
