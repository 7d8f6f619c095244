"""Energies, free energies and moments of machines against plain sums over configurations."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from _exact import Exact, clamped, free_energy, log_likelihood
from _machines import differences, enumerable_pairs, gradient, parameters, random_machine
from numpy.testing import assert_allclose, assert_array_equal

from skrbm.machine import (
    Block,
    Machine,
    Moments,
    _energy,
    condition,
    conditional,
    data_moments,
    energy,
    interpolate,
    uncoupled,
)

SIZES = (4, 3, 2)
SHAPES = [*enumerable_pairs(), ("bernoulli", "bernoulli", "bernoulli")]
shapes = pytest.mark.parametrize("kinds", SHAPES, ids="-".join)
pairs = pytest.mark.parametrize("kinds", enumerable_pairs(), ids="-".join)


def make(kinds, seed=0, strength=0.6, **kwargs):
    return random_machine(kinds, SIZES[: len(kinds)], seed, strength, **kwargs)


def rows(machine, n, seed=0):
    return Exact(machine).sample(np.random.default_rng(seed), n)


@shapes
@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_energy_is_the_plain_sum(kinds, scale):
    machine = make(kinds, scale=scale)
    layers = rows(machine, 5)
    expected = np.zeros(5)
    for r in range(5):
        for theta, x in zip(machine.thetas, layers, strict=True):
            for i, value in enumerate(x[r]):
                expected[r] -= theta.field[i] * value
                if theta.precision is not None:
                    expected[r] += 0.5 * theta.precision[i] * value**2
                if theta.spike is not None:
                    expected[r] -= theta.spike[i] * (value != 0)
        for l, W in enumerate(machine.weights):
            for j, i in np.ndindex(W.shape):
                expected[r] -= scale * W[j, i] * layers[l][r, i] * layers[l + 1][r, j]
    value = energy(machine, layers)
    assert value.dtype == np.float64
    assert_allclose(value, expected, rtol=1e-12)


@pairs
@pytest.mark.parametrize("scale", [1.0, 0.3])
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_free_energy_sums_the_hidden_units_out(kinds, scale, convert):
    machine = make(kinds, scale=scale)
    X = rows(machine, 5)[0]
    assert_allclose(_energy.free_energy(machine, convert(X)), free_energy(machine, X), rtol=1e-10)


@pairs
def test_free_energy_of_single_precision_is_summed_in_double(kinds):
    machine = make(kinds, dtype=np.float32)
    X = rows(machine, 5)[0].astype(np.float32)
    value = _energy.free_energy(machine, X)
    assert value.dtype == np.float64
    assert_allclose(value, free_energy(machine, X), rtol=1e-5, atol=1e-5)


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
                    weights = np.exp([(exact.field[i] + field) * value for value in unit.values])
                    truth = weights @ unit.values / weights.sum()
                assert_allclose(mean[r, column], truth, rtol=1e-10)


@pairs
def test_condition_takes_sparse_rows(kinds):
    machine = make(kinds)
    X = rows(machine, 3)[0]
    dense, sparse = condition(machine, X), condition(machine, sp.csr_array(X))
    assert isinstance(sparse.field, np.ndarray)
    assert_allclose(dense.field, sparse.field, rtol=1e-12)


# Learning is moment matching.


@pairs
@pytest.mark.parametrize("scale", [1.0, 0.6])
def test_gradient_of_the_log_likelihood_is_data_moments_minus_machine_moments(kinds, scale):
    machine = make(kinds, scale=scale)
    X = rows(machine, 3)[0]
    exact = Exact(machine)
    means = tuple(exact.mean(l)[None] for l in range(2))
    variances = tuple(exact.variance(l)[None] for l in range(2))
    occupied = tuple(
        None if theta.spike is None else exact.occupancy(l)[None]
        for l, theta in enumerate(machine.thetas)
    )
    correlation = exact.pair(0) - means[1].T @ means[0]
    model = Moments((Block(means, variances, 1.0, None, occupied),), ((0, correlation),))
    parts = gradient(machine, data_moments(machine, X) - model)
    for part, (name, values, put) in zip(parts, parameters(machine), strict=True):
        slopes = differences(lambda m: log_likelihood(m, X).mean(), values, put, 1e-4)
        assert_allclose(part, slopes, rtol=1e-6, atol=1e-7, err_msg=name)


@pairs
def test_data_moments_are_conditional_expectations(kinds):
    machine = make(kinds)
    X = rows(machine, 4)[0]
    moments = data_moments(machine, X)
    held = clamped(machine, X)
    (block,) = moments.blocks
    assert_allclose(block.means[1], [exact.mean(1) for exact in held], rtol=1e-10)
    pair = moments.add_pair(machine, 0, np.zeros((3, 4)), 1.0)
    assert_allclose(pair, np.mean([exact.pair(0) for exact in held], axis=0), rtol=1e-10)


def random_moments(machine, n_blocks=2, pair=True, matrix=True, seed=0):
    """Moments with everything they can have, and the dense expectations of each weight matrix."""
    generator = np.random.default_rng(seed)
    blocks = []
    for _ in range(n_blocks):
        n = generator.integers(1, 5)
        draw = [tuple(generator.random((n, size)) for size in machine.n_units) for _ in range(3)]
        weight, more = float(generator.normal()), draw[2] if pair else None
        occupied = tuple(
            None if theta.spike is None else generator.random((n, theta.spike.size))
            for theta in machine.thetas
        )
        blocks.append(Block(draw[0], draw[1], weight, more, occupied))
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


@shapes
@pytest.mark.parametrize("pair", [False, True])
def test_add_pair_accumulates_every_part(kinds, pair):
    machine = make(kinds, scale=0.7)
    moments = random_moments(machine, pair=pair)
    for l, W in enumerate(machine.weights):
        out = np.ones_like(W)
        result = moments.add_pair(machine, l, out, 0.3)
        assert result is out
        assert_allclose(out, 1 + 0.3 * dense_pair(machine, moments, l), rtol=1e-12)


@shapes
def test_add_pair_may_write_into_the_weights_that_it_reads(kinds):
    machine = make(kinds)
    moments = random_moments(machine)
    for l in range(len(machine.weights)):
        expected = machine.weights[l] + 0.3 * dense_pair(machine, moments, l)
        moments.add_pair(machine, l, machine.weights[l], 0.3)
        assert_allclose(machine.weights[l], expected, rtol=1e-12)


@shapes
def test_difference_of_moments(kinds):
    machine = make(kinds)
    first, second = random_moments(machine, seed=1), random_moments(machine, seed=2)
    parts = zip(
        gradient(machine, first - second),
        gradient(machine, first),
        gradient(machine, second),
        strict=True,
    )
    for difference, a, b in parts:
        assert_allclose(difference, a - b, rtol=1e-10, atol=1e-12)


def test_statistics_weigh_the_blocks():
    machine = make(("gaussian", "bernoulli"))
    moments = random_moments(machine)
    field = sum(block.weight * block.means[0].sum(axis=0) for block in moments.blocks)
    second = sum(
        block.weight * (block.means[0] ** 2 + block.variances[0]).sum(axis=0)
        for block in moments.blocks
    )
    statistics = moments.statistics(machine.units[0], 0)
    assert_allclose(statistics.field, field)
    assert_allclose(statistics.precision, -0.5 * second)
    hidden = moments.statistics(machine.units[1], 1)
    assert hidden.precision is None


# The machine itself.


@pairs
def test_interpolate_is_linear_in_thetas_and_scale(kinds):
    machine = make(kinds, seed=3, scale=0.8)
    base = uncoupled(machine, make(kinds, seed=4).thetas[0])
    for beta in (0.0, 0.25, 1.0):
        between = interpolate(base, machine, beta)
        assert between.scale == pytest.approx(0.8 * beta)
        assert between.weights[0] is machine.weights[0]
        for a, b, c in zip(base.thetas, machine.thetas, between.thetas, strict=True):
            for x, y, z in zip(a, b, c, strict=True):
                assert (x is None) == (z is None)
                if x is not None:
                    assert_allclose(z, (1 - beta) * x + beta * y, rtol=1e-12)
    X = rows(machine, 3)[0]
    assert_allclose(
        _energy.free_energy(interpolate(base, machine, 1.0), X),
        _energy.free_energy(machine, X),
        rtol=1e-12,
    )


@pairs
def test_interpolate_keeps_the_dtype(kinds):
    machine = make(kinds, dtype=np.float32)
    between = interpolate(uncoupled(machine), machine, 0.3)
    assert all(theta.field.dtype == np.float32 for theta in between.thetas)
    assert condition(between, np.zeros((1, 4), np.float32)).field.dtype == np.float32


@shapes
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


@shapes
def test_a_copy_shares_no_memory(kinds):
    machine = make(kinds, scale=0.4)
    copy = machine.copy()
    assert copy.scale == machine.scale
    for (_, a, _), (_, b, _) in zip(parameters(machine), parameters(copy), strict=True):
        assert not np.may_share_memory(a, b)
        assert_array_equal(a, b)


def test_powers_of_the_weights_belong_to_one_machine():
    machine = make(SHAPES[0])
    assert_allclose(machine.squares[0], machine.weights[0] ** 2)
    assert_allclose(machine.cubes[0], machine.weights[0] ** 3)
    assert machine.squares is machine.squares
    other = dataclasses.replace(machine, weights=(2 * machine.weights[0],))
    assert_allclose(other.squares[0], 4 * machine.squares[0])


@shapes
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
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
