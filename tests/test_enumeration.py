"""Sums over all configurations, of machines with parameters for each row too: the oracle."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from _exact import Exact
from _libraries import OTHER_LIBRARIES
from _machines import random_machine, random_theta
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from skrbm.arrays import to_numpy
from skrbm.machine import (
    Machine,
    _enumeration,
    can_enumerate,
    check_enumerable,
    configurations,
    log_partition,
)
from skrbm.units import Bernoulli, Binomial, Categorical, ColumnUnits, Gaussian, Spin, Theta

KINDS = [
    (("bernoulli", "bernoulli"), (3, 4)),
    (("bernoulli", "gaussian"), (3, 2)),
    (("truncated_gauss_bernoulli", "bernoulli"), (2, 3)),
    (("bernoulli",) * 3, (3, 2, 3)),
    (("bernoulli", "truncated_gaussian", "bernoulli"), (2, 2, 2)),
]
kinds_and_sizes = pytest.mark.parametrize("kinds, sizes", KINDS)


def with_rows(machine, n_rows, seed=0):
    """The machine in a field of its own for each row on layer 0, and the machines of the rows."""
    fields = np.random.default_rng(seed).standard_normal((n_rows, machine.n_units[0]))
    return machine.tilted(0, fields), [machine.tilted(0, field) for field in fields]


@kinds_and_sizes
@pytest.mark.parametrize("elements", [1, 50, 2**20])
def test_log_partition_of_each_row(kinds, sizes, elements, monkeypatch):
    monkeypatch.setattr(_enumeration, "_BLOCK_ELEMENTS", elements)
    machine, rows = with_rows(random_machine(kinds, sizes, 0, 1.0, scale=0.5), 5)
    expected = [Exact(row).log_z for row in rows]
    assert_allclose(log_partition(machine), expected, rtol=1e-10)
    assert_allclose(log_partition(rows[0]), expected[0], rtol=1e-10)


def test_log_weights_belong_to_their_values():
    machine = random_machine(("bernoulli",) * 3, (2, 3, 2), 0, 1.0)
    exact, found = Exact(machine), {}
    for (low, middle, high), log_weights in configurations(machine, (0, 2)):
        assert middle is None
        rows = np.concatenate([low, high], axis=1)
        found |= dict(zip(map(tuple, rows), log_weights, strict=True))
    assert len(found) == 16
    layers = np.concatenate([exact.layers[0], exact.layers[2]])
    for row, log_weight in found.items():
        same = (exact.values[:, layers] == row).all(axis=1)
        expected = logsumexp(np.log(exact.probabilities[same])) + exact.log_z
        assert log_weight == pytest.approx(expected, rel=1e-10)


# ------------------------------------------------------------------------------ sums by halves


def mixed(unit, n=9, n_hidden=7, strength=1.0, scale=0.7):
    """A machine of such visible units and bits."""
    generator = np.random.default_rng(0)
    thetas = (random_theta(unit, n, generator), random_theta(Bernoulli(), n_hidden, generator))
    W = strength * generator.standard_normal((n_hidden, n))
    return Machine((unit, Bernoulli()), thetas, (W,), scale)


def in_turn(machine, layer):
    """log Z by one configuration after the other."""
    return logsumexp(np.concatenate([found for _, found in configurations(machine, (layer,))]))


@pytest.fixture(params=[300, 2**23])
def halves(request, monkeypatch):
    """Sum by halves wherever possible, by blocks of a few pairs, and of few sites or of all."""
    monkeypatch.setattr(_enumeration, "_FEW", 0)
    monkeypatch.setattr(_enumeration, "_PAIRS", 5)
    monkeypatch.setattr(_enumeration, "_OF_HALVES", request.param)
    return _enumeration._by_halves


MIXED = [
    Bernoulli(),
    Spin(),
    Categorical((3, 2, 4)),
    ColumnUnits([(Categorical(3), [0, 1, 2]), (Spin(), [3, 5, 7]), (Binomial(3), [4, 6, 8])]),
]


@pytest.mark.parametrize("unit", MIXED, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layer", [0, 1])
def test_sums_by_halves_are_those_of_all_configurations(unit, dtype, layer, halves):
    machine = mixed(unit).astype(dtype)
    found = halves(machine, layer)
    assert found.dtype == np.float64
    assert_allclose(found, in_turn(machine.astype(np.float64), layer), rtol=1e-12)
    assert log_partition(machine, (layer,)) == found


@pytest.mark.parametrize("strength", [1.0, 5.0, 25.0])
def test_sums_by_halves_do_not_overflow(strength, halves):
    """Products go up to exp(5 000) and down to exp(-5 000), and single sums to e^300."""
    for unit in (Bernoulli(), Spin(), Categorical(4)):
        machine = mixed(unit, 120, 8, strength)
        thetas = tuple(theta.map(lambda x: 5 * x) for theta in machine.thetas)
        machine = replace(machine, thetas=thetas)
        assert_allclose(halves(machine, 1), in_turn(machine, 1), rtol=1e-12)


@pytest.mark.parametrize(
    "unit, n, field, strength",
    [
        (Bernoulli(), 9, 0.0, 400.0),
        (Bernoulli(), 6, 800.0, 0.5),
        (Bernoulli(), 6, -np.inf, 0.5),
        (Binomial(60), 12, 0.0, 0.1),
        (Gaussian(), 9, 0.0, 0.1),
    ],
    ids=str,
)
def test_sums_that_do_not_go_by_halves(unit, n, field, strength, halves):
    machine = mixed(unit, n, strength=strength)
    own, hidden = machine.thetas
    machine = replace(machine, thetas=(own._replace(field=own.field + field), hidden))
    with np.errstate(invalid="ignore"):
        assert halves(machine, 1) is None
        assert np.isfinite(in_turn(machine, 1))
        assert_allclose(log_partition(machine, (1,)), in_turn(machine, 1), rtol=1e-12)


def test_up_to_twenty_units_are_enumerated():
    for unit in (Bernoulli(), Gaussian(), Categorical(3)):
        assert can_enumerate(mixed(unit, 63, 20)) and not can_enumerate(mixed(unit, 63, 21))
        check_enumerable(mixed(unit, 63, 25), 25)
        with pytest.raises(ValueError, match="max_units=20"):
            check_enumerable(mixed(unit, 63, 21))


@pytest.mark.parametrize("library", OTHER_LIBRARIES)
def test_other_libraries_have_the_same_sums_by_halves(library, halves):
    xp = pytest.importorskip(library)
    machine = mixed(MIXED[-1])
    thetas = tuple(theta.map(xp.asarray) for theta in machine.thetas)
    other = replace(machine, thetas=thetas, weights=tuple(map(xp.asarray, machine.weights)))
    found = halves(other, 1)
    assert type(found) is type(other.weights[0])
    assert_allclose(to_numpy(found), in_turn(machine, 1), rtol=1e-12)


@pytest.mark.parametrize("sizes", [(4, 3), (3, 4, 2)])
@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_machines_of_normal_units_have_one_normal_distribution(sizes, covariance):
    """log Z and the means are those of the last layer, after the others are integrated out."""
    generator = np.random.default_rng(0)
    units = [Gaussian(covariance=covariance), *[Gaussian()] * (len(sizes) - 1)]
    thetas, weights = [], [0.3 * generator.normal(size=(n, m)) for m, n in pairwise(sizes)]
    for unit, n in zip(units, sizes, strict=True):
        precision = generator.uniform(1, 2, n)
        if unit.is_joint:
            thetas.append(Theta(generator.normal(size=n), joint=np.diag(precision) + 0.1))
        else:
            thetas.append(Theta(generator.normal(size=n), precision))
    machine = Machine(tuple(units), tuple(thetas), tuple(weights))
    field, log_z, conditionals = 0.0, 0.0, []
    P_below = None
    for l, theta in enumerate(thetas):
        P = np.diag(theta.precision) if theta.joint is None else theta.joint
        b = theta.field + field
        if l:
            W = weights[l - 1]
            P = P - W @ np.linalg.solve(P_below, W.T)
        log_z += 0.5 * (
            b @ np.linalg.solve(P, b) + np.linalg.slogdet(2 * np.pi * np.linalg.inv(P))[1]
        )
        conditionals.append((P, b))
        if l < len(weights):
            field = weights[l] @ np.linalg.solve(P, b)
        P_below = P
    assert can_enumerate(machine)
    assert_allclose(log_partition(machine), log_z)


@pytest.mark.parametrize("scale", [1.0, 0.7])
@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_many_normal_columns_are_projected_on_the_hidden_units(covariance, scale, monkeypatch):
    monkeypatch.setattr(_enumeration, "_FEW", 1)
    generator, n, m = np.random.default_rng(0), 9, 4
    visible, precision = Gaussian(covariance=covariance), generator.uniform(1, 2, n)
    own = Theta(generator.normal(size=n), precision)
    if visible.is_joint:
        own = Theta(own.field, joint=np.diag(precision) + 0.1)
    thetas = own, Theta(generator.normal(size=m))
    weights = (generator.normal(size=(m, n)),)
    machine = Machine((visible, Bernoulli()), thetas, weights, scale)
    sums = [log_weights for _, log_weights in configurations(machine, [1])]
    assert_allclose(log_partition(machine), logsumexp(np.concatenate(sums)), rtol=1e-12)
