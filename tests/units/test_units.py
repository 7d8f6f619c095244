"""The contract of a unit, checked for every unit against sums and integrals over its support.

Columns of a categorical layer come in groups; each column then has the distribution of one bit.
The unit that the developers' guide shows is one of them.

Random tests use fixed seeds and a level of 1e-6 for each test.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from _exact import log_base
from _layers import (
    KINDS,
    N_UNITS,
    Sum,
    has,
    kind_of,
    law_of,
    laws,
    log_partitions,
    own_theta,
)
from _machines import random_theta
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import logsumexp

from skrbm.arrays import Columns, make_rng
from skrbm.units import ColumnUnits, Poisson, Theta, log_weight

LEVEL = 1e-6
TOLERANCE = {np.float64: {"rtol": 1e-10, "atol": 1e-12}, np.float32: {"rtol": 5e-6, "atol": 2e-6}}

INDEPENDENT = [name for name in sorted(KINDS) if KINDS[name]().has_variances]
WITH_CENTRAL_MOMENTS = [name for name in INDEPENDENT if KINDS[name]().has_central_moments]
every_kind = pytest.mark.parametrize("name", sorted(KINDS))
independent = pytest.mark.parametrize("name", INDEPENDENT)
OF_ANY_WIDTH = [name for name in INDEPENDENT if not isinstance(KINDS[name](), ColumnUnits)]
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def some_theta(unit, dtype=np.float64, seed=0):
    """Random parameters with weak, strong and extreme fields."""
    theta = random_theta(unit, N_UNITS, np.random.default_rng(seed), dtype, spread=2.0)
    theta.field[-3:] = (0.0, 30.0, -30.0)
    if isinstance(unit, Poisson):  # the sums have terms up to 400
        theta.field[:] = np.minimum(theta.field, 3.0)
    return theta


def rows(theta, n=3):
    return theta.map(lambda part: np.tile(part, (n, 1)))


@every_kind
@dtypes
def test_log_partition_mean_and_variance(name, dtype):
    unit = KINDS[name]()
    theta = some_theta(unit, dtype)
    value, mean, lines = unit.log_partition(theta), unit.mean(theta), laws(unit, theta)
    assert value.dtype == mean.dtype == dtype
    assert_allclose(value, log_partitions(unit, theta), **TOLERANCE[dtype])
    assert_allclose(mean, [line.mean for line in lines], **TOLERANCE[dtype])
    if unit.has_variances:
        again, variance = unit.mean_variance(theta)
        assert variance.dtype == dtype
        assert_allclose(variance, [line.variance for line in lines], **TOLERANCE[dtype])
        assert_array_equal(mean, again)


@pytest.mark.parametrize("name", WITH_CENTRAL_MOMENTS)
@dtypes
def test_central_moments(name, dtype):
    unit = KINDS[name]()
    theta = rows(some_theta(unit, dtype, seed=3))
    moments = unit.central_moments(theta)
    expected = [
        [law.mean, *(law.probabilities @ (law.points - law.mean) ** k for k in (2, 3, 4))]
        for law in laws(unit, theta.map(lambda part: part[0] if part.ndim == 2 else part))
    ]
    for k, (moment, truth) in enumerate(zip(moments, np.array(expected).T, strict=True), start=1):
        assert moment.dtype == dtype and moment.shape == (3, N_UNITS)
        spread = np.array([row[1] for row in expected]) ** (k / 2)
        allowed = (1e-9 if dtype == np.float64 else 1e-3) * spread + TOLERANCE[dtype]["atol"]
        assert (np.abs(moment - truth) <= allowed).all(), f"moment {k}"


@independent
@dtypes
def test_mode_is_the_highest_point_of_the_support(name, dtype):
    unit = KINDS[name]()
    theta = some_theta(unit, dtype)
    mode = unit.mode(theta)
    assert mode.dtype == dtype
    for i, line in enumerate(laws(unit, theta)):
        one, kind = own_theta(unit, theta, i).map(lambda part: np.array([part])), kind_of(unit, i)
        points = line.points
        if one.spike is not None:  # the atom is no density: it counts by its probability
            assert (mode[i] == 0) == (line.occupied <= 0.5)
            if mode[i] == 0:
                continue
            points = points[points != 0]
        heights = log_weight(one, points[:, None]) + log_base(kind, points)
        here = mode[i : i + 1].astype(np.float64)
        here = log_weight(one, here[:, None]) + log_base(kind, here)
        assert kind.bounds[0] <= mode[i] <= kind.bounds[1]
        # The rounding of the mode itself may cost a little of a steep density.
        assert here >= heights.max() - 1e-6 * max(1, abs(heights.max()))
        if kind.values is not None:
            assert mode[i] in kind.values


def total_log_partition(unit, theta, part, shifts):
    """Sum over the layer of log_partition with one part of theta moved, for each row of shifts."""
    moved = theta.map(lambda values: np.tile(values, (len(shifts), 1)))
    moved = moved._replace(**{part: getattr(moved, part) + shifts})
    return unit.log_partition(moved).sum(axis=1)


@every_kind
def test_derivatives_of_log_partition_are_mean_and_variance(name):
    unit = KINDS[name]()
    theta = random_theta(unit, N_UNITS, np.random.default_rng(1))
    step, columns = 1e-3, np.eye(N_UNITS)

    def at(shift):  # one column after the other
        return total_log_partition(unit, theta, "field", shift * step * columns)

    first = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * step)
    second = (16 * (at(1) + at(-1)) - (at(2) + at(-2)) - 30 * at(0)) / (12 * step**2)
    assert_allclose(unit.mean(theta), first, rtol=1e-9, atol=1e-9)
    if unit.has_variances:
        assert_allclose(unit.mean_variance(theta)[1], second, rtol=1e-7, atol=1e-7)


@every_kind
def test_statistics_are_the_derivatives_by_the_parameters(name):
    unit = KINDS[name]()
    theta = random_theta(unit, N_UNITS, np.random.default_rng(2))
    further = unit.further(theta)
    statistics = unit.statistics(*unit.moments(theta), further)
    step = 1e-5
    for part in Theta._fields:
        values = getattr(theta, part)
        if values is None:
            assert getattr(statistics, part) is None
            continue
        up = total_log_partition(unit, theta, part, step * np.eye(N_UNITS))
        down = total_log_partition(unit, theta, part, -step * np.eye(N_UNITS))
        slopes = np.where(has(unit, part), (up - down) / (2 * step), 0.0)
        assert_allclose(getattr(statistics, part), slopes, rtol=1e-7, atol=1e-9)


@every_kind
def test_statistics_of_known_values(name):
    unit = KINDS[name]()
    theta = some_theta(unit)
    x = unit.sample(theta, make_rng(0, theta.field))
    statistics = unit.statistics(x)
    assert_array_equal(statistics.field, x)
    if statistics.precision is not None:
        assert_array_equal(statistics.precision, np.where(has(unit, "precision"), -0.5 * x**2, 0))
    assert [part is None for part in statistics] == [part is None for part in theta]


@independent
@dtypes
@pytest.mark.parametrize("with_precision", [False, True])
def test_tilt_multiplies_the_density(name, dtype, with_precision):
    unit = KINDS[name]()
    theta = random_theta(unit, N_UNITS, np.random.default_rng(3), dtype)
    generator = np.random.default_rng(4)
    field = generator.standard_normal((3, N_UNITS)).astype(dtype)
    precision = generator.uniform(-0.3, 1, (3, N_UNITS)).astype(dtype) if with_precision else None
    if with_precision and not unit.takes_precision:
        with pytest.raises(ValueError, match="take no precision"):
            unit.tilt(theta, field, precision)
        return
    before = [None if part is None else part.copy() for part in (*theta, field, precision)]
    tilted = unit.tilt(theta, field, precision)
    for part, copy in zip((*theta, field, precision), before, strict=True):
        assert copy is None or (part == copy).all()  # a tilt is pure: tilting twice adds one bias
    value, (mean, variance) = unit.log_partition(tilted), unit.mean_variance(tilted)
    assert value.dtype == mean.dtype == variance.dtype == dtype
    for r, i in np.ndindex(field.shape):
        more = float(precision[r, i]) if with_precision else 0.0
        line = law_of(unit, theta, i, float(field[r, i]), more)
        assert_allclose(value[r, i], line.log_z, **TOLERANCE[dtype])
        assert_allclose(mean[r, i], line.mean, **TOLERANCE[dtype])
        assert_allclose(variance[r, i], line.variance, **TOLERANCE[dtype])


@every_kind
@dtypes
def test_log_ratio_is_the_difference_summed_over_units(name, dtype):
    unit = KINDS[name]()
    theta0 = rows(some_theta(unit, dtype, seed=5))
    theta1 = rows(some_theta(unit, dtype, seed=6))
    ratio = unit.log_ratio(theta0, theta1)
    difference = unit.log_partition(theta1).astype(np.float64) - unit.log_partition(theta0)
    total = unit.total_log_partition(theta1)
    assert ratio.dtype == total.dtype == np.float64
    atol = 1e-4 if dtype == np.float32 else 1e-10
    assert_allclose(ratio, difference.sum(axis=1), rtol=1e-6, atol=atol)
    summed = unit.log_partition(theta1).astype(np.float64).sum(axis=1)
    assert_allclose(total, summed, rtol=1e-6, atol=atol)


@every_kind
@dtypes
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_initial_theta_has_the_moments_of_the_data(name, dtype, make):
    """The smoothing of at most one extra row moves a mean by less than 1 / n of the spread."""
    unit = KINDS[name]()
    theta = random_theta(unit, N_UNITS, np.random.default_rng(7), dtype)
    n = 500
    X = unit.sample(rows(theta, n), make_rng(0, theta.field))
    fitted = unit.initial_theta(Columns(make(X)))
    wide = X.astype(np.float64)
    assert_allclose(unit.mean(fitted), wide.mean(axis=0), rtol=1e-6, atol=1 / n)
    if theta.precision is not None:
        real = has(unit, "precision")
        assert_allclose(unit.moments(fitted)[1][real], wide.var(axis=0)[real], rtol=1e-6)


@pytest.mark.parametrize("name", OF_ANY_WIDTH)
def test_initial_theta_of_a_constant_column_is_finite(name):
    unit = KINDS[name]()
    low, high = unit.values[0] if unit.values else 0.0, unit.values[-1] if unit.values else 1.0
    theta = unit.initial_theta(Columns(np.array([[low, high]] * 10)))
    assert all(part is None or np.isfinite(part).all() for part in theta)
    low_mean, high_mean = unit.mean(theta)
    assert_allclose(low_mean, low, atol=0.06)
    assert_allclose(high_mean, high, atol=0.06)


@every_kind
def test_project_gives_parameters_that_have_a_log_partition(name):
    unit = KINDS[name]()
    theta = some_theta(unit)
    same = unit.project(theta)
    for part, kept in zip(theta, same, strict=True):
        assert (part is None and kept is None) or (part == kept).all()
    if theta.precision is None:
        return
    wrong = theta._replace(precision=-theta.precision)
    projected = unit.project(wrong)
    assert np.isfinite(unit.log_partition(projected)).all()
    again = unit.project(projected)
    assert_array_equal(again.precision, projected.precision)
    assert_array_equal(projected.field, theta.field)


def of_all_rows(unit, theta, rng):
    return unit.sample(theta, rng)


def of_some_rows(unit, theta, rng):
    """Draw rows that lie below those of opposite fields, with the means of all."""
    n, opposite = len(theta.field), theta._replace(field=-theta.field)
    both = opposite.map(lambda *parts: np.concatenate(parts), theta)
    return unit.sample_rows(both, unit.mean(both), slice(n, 2 * n), rng)


@independent
@dtypes
@pytest.mark.parametrize("draw", [of_all_rows, of_some_rows])
def test_samples_follow_the_law(name, dtype, draw):
    unit = KINDS[name]()
    theta = random_theta(unit, N_UNITS, np.random.default_rng(8), dtype)
    n = 20_000
    X = draw(unit, rows(theta, n), make_rng(1, theta.field))
    assert X.dtype == dtype
    for column, line in zip(X.T.astype(np.float64), laws(unit, theta), strict=True):
        if isinstance(line, Sum):
            counts = [(column == value).sum() for value in line.points]
            assert sum(counts) == n
            p = stats.chisquare(counts, n * line.probabilities).pvalue
        else:
            p = stats.kstest(line.uniform(column, np.random.default_rng(0)), "uniform").pvalue
        assert p > LEVEL / N_UNITS
    # Two units of one draw are independent: their correlation is normal with deviation 1/sqrt(n).
    correlation = np.corrcoef(X.T)[np.triu_indices(N_UNITS, 1)]
    bound = stats.norm.isf(LEVEL / (2 * correlation.size)) / np.sqrt(n)
    assert np.abs(correlation).max() < bound


@every_kind
@dtypes
def test_extreme_fields_give_no_nan(name, dtype):
    unit = KINDS[name]()
    theta = some_theta(unit, dtype)
    theta.field[:] = np.resize([1e4, -1e4], N_UNITS)
    theta = rows(theta)
    mean = unit.mean(theta)
    variance = unit.moments(theta)[1]
    if variance is None:
        variance = unit.mean_variance(theta)[1] if unit.has_variances else mean - mean * mean
    for values in (
        unit.log_partition(theta),
        mean,
        variance,
        unit.mode(theta),
        unit.sample(theta, make_rng(2, theta.field)),
        unit.log_ratio(theta, theta._replace(field=-theta.field)),
    ):
        assert np.isfinite(values).all()
    assert (variance >= 0).all()
    low, high = unit.bounds
    assert ((mean >= low) & (mean <= high)).all()


@every_kind
@dtypes
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_log_weight_of_values(name, dtype, make):
    unit = KINDS[name]()
    theta = some_theta(unit, dtype)
    X = unit.sample(rows(theta), make_rng(3, theta.field))
    x, parts = X.astype(np.float64), theta.map(lambda part: part.astype(np.float64))
    expected = x @ parts.field
    if parts.precision is not None:
        expected = expected - 0.5 * x**2 @ parts.precision
    if parts.spike is not None:
        expected = expected + (x != 0) @ parts.spike
    if parts.skew is not None:
        expected = expected + abs(x) @ parts.absolute - 0.5 * (x * abs(x)) @ parts.skew
    value = log_weight(theta, make(X))
    assert value.dtype == np.float64
    assert_allclose(value, expected, rtol=TOLERANCE[dtype]["rtol"], atol=1e-5)


DISCRETE = [name for name in sorted(KINDS) if KINDS[name]().is_discrete]


@pytest.mark.parametrize("name", DISCRETE)
def test_configurations_are_the_whole_support(name):
    unit, theta = KINDS[name](), some_theta(KINDS[name]())
    n = unit.n_configurations(N_UNITS)
    rows = unit.configurations(N_UNITS, np.arange(n))
    assert rows.shape == (n, N_UNITS) and len(np.unique(rows, axis=0)) == n
    assert_allclose(logsumexp(unit.log_weight(theta, rows)), sum(log_partitions(unit, theta)))
    assert_array_equal(unit.configurations(N_UNITS, np.array([3, 0])), rows[[3, 0]])
    unit.check_values(rows)
