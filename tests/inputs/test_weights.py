"""Sample weights: merging of equal rows, the rows of an epoch, and splits."""

import numpy as np
import pytest
import scipy.sparse as sp
from _libraries import OTHER_LIBRARIES
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from skrbm.arrays import Columns, make_rng, to_numpy
from skrbm.inputs import DistinctRows, distinct_rows, rows_of_epoch, scaled_weights

LEVEL = 1e-6


def foreign(name):
    def make(X):
        return pytest.importorskip(name).asarray(X)

    return pytest.param(make, id=name, marks=pytest.mark.arrays)


kinds = pytest.mark.parametrize(
    "make", [np.asarray, sp.csr_array, *(foreign(name) for name in OTHER_LIBRARIES)]
)
WHOLE = np.random.default_rng(4).integers(0, 4, 60) * 1.0
REAL = np.random.default_rng(4).exponential(size=60)
weights_of_rows = pytest.mark.parametrize(
    "given", [None, WHOLE, REAL], ids=["none", "whole", "real"]
)


def data(n=200, n_columns=5, dtype=np.float64, seed=0):
    """Rows of zeros and ones, of which many are equal."""
    generator = np.random.default_rng(seed)
    return (generator.random((n, n_columns)) < 0.4).astype(dtype)


def assert_merged(found, X, weights=None):
    """The rows of X at an index, with weights, are those that np.unique finds."""
    weights = np.ones(len(X)) if weights is None else weights
    kept = weights > 0
    rows, kind = np.unique(np.nan_to_num(X[kept], nan=-9.0), axis=0, return_inverse=True)
    index, sums = found
    distinct = np.nan_to_num(X[index], nan=-9.0)
    order = np.lexsort(distinct.T[::-1])
    assert_array_equal(distinct[order], rows)
    assert_allclose(sums[order], np.bincount(kind.ravel(), weights[kept]), rtol=1e-14)


@kinds
@pytest.mark.parametrize("dtype", [np.float64, np.float32, bool])
def test_equal_rows_are_merged(make, dtype):
    X, weights = data(dtype=dtype), np.random.default_rng(1).integers(0, 4, 200) * 1.0
    assert_merged(distinct_rows([make(X)]), X)
    assert_merged(distinct_rows([make(X)], weights), X, weights)


def test_missing_values_are_equal_to_each_other():
    X = data(n_columns=4)
    X[np.random.default_rng(0).random(X.shape) < 0.4] = np.nan
    assert_merged(distinct_rows([X]), X)
    assert_merged(distinct_rows([sp.csr_array(X)]), X)


@pytest.mark.parametrize(
    "column", [np.full(120, 1e20), 1e-18 * data(120, 1, seed=3)[:, 0], 2.0**60 + np.arange(120)]
)
def test_rows_that_differ_are_never_merged(column):
    """Although their projections are equal by rounding."""
    X = np.column_stack([data(n=120, n_columns=6), column])
    index, weights = distinct_rows([X])
    assert_array_equal(np.unique(X[index], axis=0), np.unique(X, axis=0))
    assert weights.sum() == 120


# -------------------------------------------------------------------- rows of an epoch


class Fixed:
    """Draws the same number each time."""

    def __init__(self, value):
        self.value = value

    def uniform(self, shape):
        return np.full(shape, self.value)


def test_whole_weights_are_numbers_of_repetitions():
    index, weights = np.array([7, 3, 9, 4]), np.array([2.0, 0.0, 1.0, 3.0])
    assert_array_equal(rows_of_epoch(index, weights, None), [7, 7, 9, 4, 4, 4])
    # beyond 1e8 rows they are resampled
    assert_array_equal(rows_of_epoch(np.arange(4), 1e8 * weights, Fixed(0.4)), [0, 2, 3, 3])


@pytest.mark.parametrize("weight", [0.1, 1 / 3, 0.7, 1e-3])
def test_equal_weights_that_are_scaled_are_none(weight):
    assert all(scaled_weights(np.full(n, weight), n) is None for n in range(1, 200))


def test_real_weights_are_met_on_average_and_within_one():
    """A count has one of two successive values, and epochs are independent.

    By Hoeffding, a mean over m epochs is off by t or more with a probability of 2 exp(-2 m t²) at
    most: for t as here, one of the 20 is with a probability of 1e-6 at most.
    """
    n, m = 20, 4000
    weights = 3 * np.random.default_rng(1).exponential(size=n)
    total = round(weights.sum())
    expected = weights * (total / weights.sum())
    rng, counts = make_rng(0, np.ones(1)), np.zeros((m, n))
    for found in counts:
        found += np.bincount(rows_of_epoch(np.arange(n), weights, rng), minlength=n)
    assert np.abs(counts - expected).max() < 1 + 1e-9 and (counts.sum(axis=1) == total).all()
    bound = np.sqrt(np.log(2 * n / LEVEL) / (2 * m))
    assert_allclose(counts.mean(axis=0), expected, rtol=0, atol=bound)


# ------------------------------------------------------------------- rows of a data set


@weights_of_rows
def test_rows_are_drawn_by_their_weights(given):
    """At the level of 1e-6 with one seed."""
    rows = DistinctRows([data(n=60, n_columns=4)], given)
    drawn = rows.drawn(50_000, make_rng(0, np.ones(1)))
    counts = np.bincount(drawn, minlength=len(rows))
    expected = 50_000 * rows.counts / rows.counts.sum()
    assert stats.chisquare(counts, expected).pvalue > LEVEL


@weights_of_rows
@pytest.mark.parametrize("fraction", [0.1, 0.5])
def test_no_row_is_on_both_sides_of_a_split(given, fraction):
    """The validation set has the fraction of the weight, but for that of its last row."""
    rows = DistinctRows([data(n=60)], given)
    total, rng = rows.counts.sum(), make_rng(0, np.ones(1))
    for _ in range(20):
        train, validation = rows.split(fraction, rng)
        assert_array_equal(np.sort([*train, *validation]), np.arange(len(rows)))
        wanted = round(fraction * rows.total) * (total / rows.total)
        excess = rows.weights_of(validation).sum() - wanted
        assert 0 <= excess < rows.weights_of(validation[-1:])[0]
    some = np.array([1, 4, 7, 8, 11])
    assert_array_equal(np.sort(np.concatenate(rows.split(0.5, rng, some))), some)


@pytest.mark.parametrize(
    "weights, fraction", [([1, 1, 1], 0.1), ([1, 1, 1], 0.9), ([2, 1, 0], 0.1)]
)
def test_a_split_needs_rows_for_both_parts(weights, fraction):
    rows = DistinctRows([np.arange(3)[:, None]], np.array(weights))
    with pytest.raises(ValueError, match=f"validation_fraction={fraction} of 3 samples"):
        rows.split(fraction, make_rng(0, np.ones(1)))


def test_equal_rows_are_not_split():
    with pytest.warns(UserWarning, match="all rows are equal"):
        train, validation = DistinctRows([np.zeros((5, 1))]).split(0.5, None)
    assert validation is None and list(train) == [0]


# ------------------------------------------------------------------------------- checks


@kinds
def test_moments_of_weighted_rows_are_those_of_repeated_rows(make):
    X, n = np.random.default_rng(0).normal(size=(1500, 3)), 1400
    X[np.abs(X) < 0.5] = 0
    generator = np.random.default_rng(1)
    index, weights = generator.permutation(1500)[:n], generator.integers(1, 4, n)
    repeated = np.repeat(X[index], weights, axis=0)
    columns = Columns(make(X), weights * 1.0, index)
    assert columns.n_known == len(repeated)
    for found, expected in (
        (columns.means, repeated.mean(axis=0)),
        (columns.variances, repeated.var(axis=0)),
        (columns.occupied, (repeated != 0).mean(axis=0)),
        (columns.part(np.array([2, 0])).means, repeated.mean(axis=0)[[2, 0]]),
    ):
        assert_allclose(to_numpy(found), expected, rtol=1e-12, atol=1e-12)
