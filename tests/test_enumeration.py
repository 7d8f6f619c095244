"""Sums over all configurations, of machines with parameters for each row too: the oracle."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from _exact import Exact
from _libraries import OTHER_LIBRARIES
from _machines import random_machine
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from skrbm.arrays import to_numpy
from skrbm.machine import _enumeration, configurations, log_partition, n_enumerated
from skrbm.units import Bernoulli, Theta

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
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_log_partition_of_each_row(kinds, sizes, elements, scale, monkeypatch):
    monkeypatch.setattr(_enumeration, "_BLOCK_ELEMENTS", elements)
    machine, rows = with_rows(random_machine(kinds, sizes, 0, 1.0, scale=scale), 5)
    expected = [Exact(row).log_z for row in rows]
    assert_allclose(log_partition(machine), expected, rtol=1e-10)
    assert_allclose(log_partition(rows[0]), expected[0], rtol=1e-10)


@kinds_and_sizes
@pytest.mark.parametrize("elements", [1, 2**20])
@pytest.mark.parametrize("own_fields", [False, True])
def test_log_partition_at_a_scale_for_each_row(kinds, sizes, elements, own_fields, monkeypatch):
    monkeypatch.setattr(_enumeration, "_BLOCK_ELEMENTS", elements)
    machine, scales = random_machine(kinds, sizes, 0, 1.0), np.array([0.0, 0.5, 1.2])
    same = [machine] * scales.size
    if own_fields:
        machine, same = with_rows(machine, scales.size)
    expected = [
        Exact(replace(row, scale=float(scale))).log_z
        for row, scale in zip(same, scales, strict=True)
    ]
    assert_allclose(log_partition(replace(machine, scale=scales)), expected, rtol=1e-10)


def test_any_layers_may_be_enumerated():
    machine, rows = with_rows(random_machine(("bernoulli",) * 2, (3, 4), 0, 1.0), 5)
    expected = [Exact(row).log_z for row in rows]
    for layers in ((0,), (1,)):
        assert_allclose(log_partition(machine, layers), expected, rtol=1e-10)


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


def test_layers_without_a_finite_support_are_named():
    machine = random_machine(("gaussian", "truncated_gaussian"), (2, 3), 0)
    assert n_enumerated(machine) == np.inf
    with pytest.raises(ValueError, match=r"Gaussian.*cannot be enumerated.*method='smc'"):
        log_partition(machine)


def test_one_layer_alone_needs_no_sum():
    machine = random_machine(("bernoulli", "bernoulli"), (2, 2), 0, 1.0)
    hidden = type(machine)(machine.units[1:], (Theta(np.array([[0.0, 1.0], [2.0, -30.0]])),), ())
    assert n_enumerated(hidden) == 0
    expected = np.logaddexp(0, hidden.thetas[0].field).sum(axis=1)
    assert_allclose(log_partition(hidden), expected, rtol=1e-12)


def test_configurations_of_a_layer():
    def all_of(n):
        return Bernoulli().configurations(n, np.arange(2**n))

    assert_array_equal(all_of(2), [[0, 0], [1, 0], [0, 1], [1, 1]])
    assert all_of(0).shape == (1, 0)
    rows = {tuple(row) for row in all_of(4)}
    assert rows == set(itertools.product([0.0, 1.0], repeat=4))


@pytest.mark.parametrize("library", OTHER_LIBRARIES)
@kinds_and_sizes
def test_other_libraries_have_the_same_sums(library, kinds, sizes):
    xp = pytest.importorskip(library)
    machine, rows = with_rows(random_machine(kinds, sizes, 0, 1.0), 5)
    thetas = tuple(theta.map(xp.asarray) for theta in machine.thetas)
    other = type(machine)(machine.units, thetas, tuple(map(xp.asarray, machine.weights)))
    found = log_partition(other)
    assert type(found) is type(other.weights[0])
    assert_allclose(to_numpy(found), [Exact(row).log_z for row in rows], rtol=1e-10)
