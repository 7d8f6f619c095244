"""The rows of a fit, and standardized coordinates."""

from dataclasses import replace

import numpy as np
import pytest
from _exact import Exact
from _machines import random_machine
from numpy.testing import assert_allclose, assert_array_equal

from skrbm.arrays import Columns, make_rng
from skrbm.exceptions import DataRangeWarning
from skrbm.inference import Ladder
from skrbm.inputs import Coordinates, Rows
from skrbm.machine import free_energy
from skrbm.units import Bernoulli, Gaussian, Poisson, TruncatedGaussian


def data(n=10, n_columns=3, dtype=np.float64):
    generator = np.random.default_rng(0)
    X = generator.random((n, n_columns)) * (generator.random((n, n_columns)) < 0.6)
    return X.astype(dtype)


@pytest.mark.parametrize(
    "X, unit, dtype, match",
    [
        (3 * data(), TruncatedGaussian(0, 1), float, r"outside \[0, 1\]"),
        (1e300 * data(), Gaussian(), np.float32, "float32"),
        (1e160 * data(), Gaussian(), float, "squares overflow"),
        (np.round(1e20 * data()).astype(np.float32), Poisson(), np.float32, "squares"),
    ],
)
def test_values_that_cannot_be_learnt(X, unit, dtype, match):
    with pytest.raises(ValueError, match=match):
        Rows(X, unit, np.dtype(dtype))


def test_some_rows_are_drawn_by_their_weights_and_without_replacement():
    """Numbers of 2000 draws within 5 standard errors, for 4 rows: wrong with less than 3e-6."""
    weights = np.array([1.0, 2.0, 3.0, 4.0])
    rows = Rows(np.arange(4.0)[:, None], Gaussian(), np.dtype(float), weights=weights)
    rng, n = make_rng(0, rows.X), 2000
    counts = np.zeros(4)
    for _ in range(n):
        drawn = np.bincount(rows.some(3, rng)[0][:, 0].astype(int), minlength=4)
        assert (drawn <= weights).all()
        counts += drawn
    p = weights / 10
    error = np.sqrt(n * 3 * p * (1 - p) * 7 / 9)  # hypergeometric
    assert (np.abs(counts - n * 3 * p) < 5 * error).all()
    assert_array_equal(np.sort(rows.some(99, rng)[0][:, 0]), np.repeat(np.arange(4), [1, 2, 3, 4]))


@pytest.mark.parametrize("covariance, expected", [("full", 2.0), ("diag", 8.0)])
def test_effective_number_of_rows(covariance, expected):
    """Of 8 rows half of the values are known in each of two columns, and in both of two rows."""
    X = np.arange(16.0).reshape(8, 2)
    X[:4, 0] = X[::2, 1] = np.nan
    rows = Rows(X, Gaussian(covariance=covariance), np.dtype(float))
    assert rows.known_share == 0.5 and (~np.isnan(X)).all(axis=1).sum() == 2
    assert rows.n_informative == expected


def test_a_machine_in_other_coordinates_has_the_same_distribution():
    """Means and variances of v by enumeration of both machines; hidden means are the same."""
    coordinates = Coordinates(np.array([0.5, -2.0, 3.0]), np.array([0.1, 2.0, 5.0]))
    machine = random_machine(("gaussian", "bernoulli"), (3, 2), 0)
    inner, outer = Exact(machine), Exact(coordinates.machine_outward(machine))
    assert_allclose(outer.mean(0), coordinates.outward(inner.mean(0)), rtol=1e-9)
    assert_allclose(outer.variance(0), coordinates.divisor**2 * inner.variance(0), rtol=1e-7)
    assert_allclose(outer.mean(1), inner.mean(1), rtol=1e-9)


@pytest.mark.parametrize("scale", [0.0, 0.3])
def test_rungs_in_other_coordinates_have_the_same_distribution(scale):
    """Free energies differ by a constant, also of rungs by temperatures, which share weights."""
    coordinates = Coordinates(np.array([0.5, -2.0, 3.0]), np.array([0.1, 2.0, 5.0]))
    machine = random_machine(("gaussian", "bernoulli"), (3, 2), 0)
    machines = replace(machine, scale=scale), machine
    ladder = coordinates.ladder_outward(Ladder(machines, (data(), -data())))
    for inner, outer in zip(machines, ladder.machines, strict=True):
        constant = free_energy(outer, coordinates.outward(data())) - free_energy(inner, data())
        assert_allclose(constant, constant[0], atol=1e-9)
    assert ladder.machines[0].weights[0] is ladder.machines[1].weights[0]
    again = coordinates.ladder_inward(ladder)
    assert_allclose(again.samples, (data(), -data()), atol=1e-12)


def test_machines_are_converted_in_double_and_keep_their_dtype():
    """At a mean of 1000 deviations, fields of 1e6 cancel: float32 would leave errors of 0.1."""
    machine = random_machine(("gaussian", "bernoulli"), (3, 2), 0)
    far = Coordinates(np.full(3, 1e3), np.ones(3))
    outer = far.machine_outward(machine)
    single = Coordinates(*(part.astype(np.float32) for part in far))
    rounded = outer.astype(np.float32)
    inner = far.machine_inward(rounded)
    assert inner.dtype == np.float32
    W, field = (part.astype(np.float64) for part in (rounded.weights[0], rounded.thetas[1].field))
    assert_allclose(inner.thetas[1].field, field + W @ far.offset, rtol=1e-6)
    assert single.machine_inward(machine.astype(np.float32)).dtype == np.float32
    assert_allclose(far.machine_inward(outer).thetas[1].field, machine.thetas[1].field, atol=1e-9)


# ---------------------------------------------------------------------- missing values


def test_missing_values_are_filled_with_means():
    X = data()
    X[[1, 2, 5], [0, 0, 1]] = np.nan
    rows = Rows(X, Gaussian(), np.dtype(np.float32), coordinates=Coordinates(1.0, 2.0))
    positions = np.argsort(rows.index)
    found, observed = rows.batch(positions)
    assert_array_equal(observed, ~np.isnan(X))
    assert found.dtype == np.float32
    filled = np.where(observed, X, np.nanmean(X, axis=0))
    assert_allclose(found, (filled - 1) / 2, rtol=1e-6, atol=1e-6)
    assert_array_equal(np.isnan(rows[positions]), np.isnan(X))
    assert_allclose(rows.means, np.nanmean(X, axis=0))
    assert_allclose(rows.moments, [np.nanmean(X, axis=0), np.nanvar(X, axis=0)])
    assert_allclose(rows.n_known, [8, 9, 10])
    assert rows.batch(positions[:1])[1] is None


def test_ranges_are_those_of_observed_values(recwarn):
    X = 0.5 * data()
    X[0, 0] = np.nan
    rows = Rows(X, TruncatedGaussian().fitted(Columns(X)), X.dtype)
    assert rows.unit.bounds == (0.0, np.nanmax(X))
    Rows(X, Bernoulli(), X.dtype)
    assert not recwarn
    X[1, 1] = 1.5
    with pytest.warns(DataRangeWarning, match=r"from 0 to 1\.5"):
        Rows(X, Bernoulli(), X.dtype)
