"""Rows with weights: which rows differ, the rows of an epoch, and the choice of some of them."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from _libraries import OTHER_LIBRARIES
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from skrbm.arrays import Columns, make_rng, to_numpy
from skrbm.inputs import DistinctRows, _weights, check_weights, distinct_rows, rows_of_epoch

LEVEL = 1e-6


def foreign(name):
    def make(X):
        pytest.importorskip("array_api_compat")
        return pytest.importorskip(name).asarray(X)

    return make


LIBRARIES = [
    pytest.param(foreign(name), id=name, marks=pytest.mark.arrays) for name in OTHER_LIBRARIES
]
SPARSE = [pytest.param(make, id=make.__name__) for make in (sp.csr_array, sp.csr_matrix)]
kinds = pytest.mark.parametrize("make", [pytest.param(np.asarray, id="dense"), *SPARSE, *LIBRARIES])
dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8, bool])


def data(n=200, n_columns=5, dtype=np.float64, seed=0):
    """Rows of zeros and ones, of which many are equal."""
    generator = np.random.default_rng(seed)
    return (generator.random((n, n_columns)) < 0.4).astype(dtype)


def dense(X):
    return X.toarray() if sp.issparse(X) else to_numpy(X)


def sorted_rows(X, weights):
    order = np.lexsort(X.T[::-1])
    return X[order], weights[order]


def expected_rows(X, weights):
    """The kinds of rows with a weight, in lexical order, and the sums of their weights."""
    X, weights = X[weights > 0], weights[weights > 0]
    rows, kind = np.unique(X, axis=0, return_inverse=True)
    return rows, np.bincount(kind.ravel(), weights)


# ------------------------------------------------------------------------ distinct rows


@kinds
@dtypes
@pytest.mark.parametrize("weighted", [False, True])
def test_equal_rows_are_one(make, dtype, weighted):
    X = data(dtype=dtype)
    given = np.random.default_rng(1).integers(0, 4, len(X)) * 1.0 if weighted else None
    index, weights = distinct_rows([make(X)], given)
    assert weights.dtype == np.float64
    found = sorted_rows(X[index], weights)
    expected = expected_rows(X, np.ones(len(X)) if given is None else given)
    assert_array_equal(found[0], expected[0])
    assert_array_equal(found[1], expected[1])
    if weighted:
        assert (given[index] > 0).all()


def test_sums_of_weights_do_not_depend_on_their_order():
    """To the last bit, though they are rounded."""
    X, given = data(n=300, n_columns=2), np.random.default_rng(1).exponential(size=300)
    weights = distinct_rows([X], given)[1]
    for seed in range(20):
        order = np.random.default_rng(seed).permutation(300)
        assert_array_equal(distinct_rows([X[order]], given[order])[1], weights)


@kinds
def test_rows_that_all_differ(make):
    X = np.random.default_rng(0).normal(size=(50, 3))
    given = np.arange(50) * 0.5
    index, weights = distinct_rows([make(X)], given)
    assert_array_equal(np.sort(index), np.arange(1, 50))
    assert_array_equal(weights, given[index])


def ties(kind):
    """Rows whose keys rounding makes equal or nearly so, though the rows differ."""
    X = data(n=120, n_columns=6)
    if kind == "large column":
        return np.hstack([X, np.full((120, 1), 1e20)])
    if kind == "two large columns":
        return np.hstack([1e20 * X[:, :2], X[:, 2:]])
    if kind == "tiny column":
        return np.hstack([X, 1e-18 * data(n=120, n_columns=2, seed=3)])
    if kind == "huge":  # of which plain sums would overflow
        return np.random.default_rng(0).choice([-1.5e308, 1e308, 1.0, 0.0], size=(120, 4))
    return np.zeros((120, 3))


@kinds
@pytest.mark.parametrize(
    "kind", ["large column", "two large columns", "tiny column", "huge", "zeros"]
)
def test_keys_that_are_equal_by_rounding(make, kind):
    X = ties(kind)
    given = np.random.default_rng(1).integers(0, 4, len(X)) * 1.0
    index, weights = distinct_rows([make(X)], given)
    found, expected = sorted_rows(X[index], weights), expected_rows(X, given)
    assert_array_equal(found[0], expected[0])
    assert_array_equal(found[1], expected[1])


@kinds
@pytest.mark.parametrize(
    "kind", ["plain", "large column", "two large columns", "tiny column", "huge"]
)
@pytest.mark.parametrize("block_rows", [7, 4096])
def test_the_order_depends_on_the_values_alone(make, kind, block_rows, monkeypatch):
    """Not on the order of the rows, nor on how they are stored or in which blocks."""
    X = data(n=120, n_columns=7) if kind == "plain" else ties(kind)
    index, weights = distinct_rows([X])
    monkeypatch.setattr(_weights, "_BLOCK_ELEMENTS", block_rows * X.shape[1])
    order = np.random.default_rng(2).permutation(len(X))
    again, others = distinct_rows([make(X[order])])
    assert_array_equal(X[order][again], X[index])
    assert_array_equal(others, weights)


@kinds
def test_rows_are_equal_if_they_are_in_all_arrays(make):
    X, Y = data(n_columns=3), data(n_columns=2, seed=1)
    index, weights = distinct_rows([make(X), Y])
    both = np.hstack([X, Y])
    found, expected = sorted_rows(both[index], weights), expected_rows(both, np.ones(200))
    assert_array_equal(found[0], expected[0])
    assert_array_equal(found[1], expected[1])
    assert len(index) > len(distinct_rows([X])[0])


@pytest.mark.parametrize("make", SPARSE)
@pytest.mark.parametrize("second", [np.zeros((300, 1)), data(n=300, n_columns=2)])
def test_sparse_rows_are_ordered_as_dense_ones(make, second):
    """Where one value is so large that all keys are near; entries of both signs, and zeros."""
    X = np.random.default_rng(0).choice([-2.0, -1.0, 0.0, 0.0, 0.0, 1.0, 3.0], size=(300, 5))
    X[7, 2] = 1e300
    stored = make(X)
    stored.data[stored.data == 3] = 0  # zeros that are stored are zeros
    X[X == 3] = 0
    both, (index, weights) = np.hstack([X, second]), distinct_rows([X, second])
    others = np.delete(both, 7, axis=0)
    assert_array_equal(both[index[index != 7]], np.unique(others, axis=0))
    again, others = distinct_rows([stored, second])
    assert_array_equal(both[again], both[index])
    assert_array_equal(others, weights)


def test_sparse_rows_are_ordered_in_the_memory_of_sparse_rows():
    """A dense copy of the rows would take 160 MB; the rows have 20 000 entries."""
    X = sp.random_array((1000, 20_000), density=1e-3, format="csr", random_state=0)
    X.data[0] = 1e15  # next to which rounding takes all other keys for equal
    tracemalloc.start()
    index, _ = distinct_rows([X])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(index) == 1000 and peak < 5e6


def test_whole_numbers_that_float64_does_not_tell_apart():
    X = np.array([[2**60], [2**60 + 1], [2**60]])
    index, weights = distinct_rows([X])
    assert_array_equal(X[index], [[2**60], [2**60 + 1]])
    assert_array_equal(weights, [2, 1])


# -------------------------------------------------------------------- rows of an epoch


class Fixed:
    """Draws one number again and again."""

    def __init__(self, value):
        self.value = value

    def uniform(self, shape):
        return np.full(shape, self.value)


def test_whole_weights_are_met_exactly():
    index, weights = np.array([7, 3, 9, 4]), np.array([2.0, 0.0, 1.0, 3.0])
    assert_array_equal(rows_of_epoch(index, weights, None), [7, 7, 9, 4, 4, 4])


@pytest.mark.parametrize("n", [1, 2, 30])
def test_real_weights_are_met_within_one(n):
    generator = np.random.default_rng(0)
    rng, index = make_rng(0, np.ones(1)), np.arange(100, 100 + n)
    for _ in range(100):
        weights = generator.exponential(size=n)
        rows = rows_of_epoch(index, weights, rng)
        assert len(rows) == n
        counts = np.bincount(rows - 100, minlength=n)
        assert np.abs(counts - weights * (n / weights.sum())).max() < 1 + 1e-9


def test_real_weights_are_met_on_average():
    """A count has one of two values next to each other, and epochs are independent.

    By Hoeffding, a mean over m epochs is off by t or more with a probability of 2 exp(-2 m t²) at
    most: for t as here, one of the 20 is with a probability of 1e-6 at most.
    """
    n, m = 20, 4000
    weights = np.random.default_rng(1).exponential(size=n)
    rng, counts = make_rng(0, np.ones(1)), np.zeros(n)
    for _ in range(m):
        counts += np.bincount(rows_of_epoch(np.arange(n), weights, rng), minlength=n)
    bound = np.sqrt(np.log(2 * n / LEVEL) / (2 * m))
    assert_allclose(counts / m, weights * (n / weights.sum()), rtol=0, atol=bound)


def test_only_ratios_of_real_weights_matter():
    weights = np.random.default_rng(1).exponential(size=20)
    one, other = (
        rows_of_epoch(np.arange(20), scale * weights, make_rng(0, np.ones(1))) for scale in (1, 8)
    )
    assert_array_equal(one, other)


def test_too_many_copies_are_scaled_down():
    """The index array of 4e8 rows would take 3 GB."""
    weights = np.array([1e8, 1e8, 2e8, 0.0])
    for value in (0.1, 0.4, 0.6, 0.9):
        rows = rows_of_epoch(np.arange(4), weights, Fixed(value))
        assert_array_equal(rows, [0, 1, 2, 2])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 3, 1000])
def test_the_ends_of_the_interval_are_rows(n, dtype):
    weights = np.random.default_rng(2).random(n) + 0.1
    for value in (0.0, np.nextafter(dtype(1), dtype(0))):
        rows = rows_of_epoch(np.arange(n), weights, Fixed(value))
        assert len(rows) == n and rows.min() >= 0 and rows.max() < n


# ------------------------------------------------------------------- rows of a data set


def weighted(kind, n=60):
    generator = np.random.default_rng(4)
    if kind == "none":
        return None
    return generator.integers(0, 4, n) * 1.0 if kind == "whole" else generator.exponential(size=n)


every = pytest.mark.parametrize("kind", ["none", "whole", "real"])


@every
def test_rows_stand_for_their_weights(kind):
    X, given = data(n=60), weighted(kind)
    rows = DistinctRows([X], given)
    expected = expected_rows(X, np.ones(60) if given is None else given)
    weights = rows.weights_of(np.arange(len(rows)))
    found = sorted_rows(X[rows.index], weights)
    assert_array_equal(found[0], expected[0])
    assert_allclose(found[1], expected[1], rtol=1e-12)
    assert rows.total == (len(rows) if kind == "real" else int(weights.sum()))
    assert isinstance(rows.total, int)
    order = np.random.default_rng(5).permutation(60)
    again = DistinctRows([X[order]], None if given is None else given[order])
    assert_array_equal(X[order][again.index], X[rows.index])


def test_weights_of_one_are_none():
    rows = DistinctRows([np.arange(20.0)[:, None]])
    assert rows.weights is None and rows.total == 20
    assert_array_equal(rows.weights_of(np.array([3, 3, 5])), [1, 1, 1])
    assert not (np.diff(rows.index) > 0).all()  # the order looks random
    positions = np.array([3, 8])
    assert rows.epoch(positions, None) is positions


def test_epochs_are_of_the_positions_given():
    rows = DistinctRows([data(n=60)])
    positions = np.array([5, 2, 9])
    counts = rows.weights[positions].astype(int)
    assert_array_equal(rows.epoch(positions, None), np.repeat(positions, counts))


@every
def test_rows_are_drawn_by_their_weights(kind):
    """Independent draws; a right program fails at the level of 1e-6 with the next seed."""
    rows = DistinctRows([data(n=60, n_columns=4)], weighted(kind))
    drawn = rows.drawn(50_000, make_rng(0, np.ones(1)))
    assert drawn.shape == (50_000,)
    weights = rows.weights_of(np.arange(len(rows)))
    counts = np.bincount(drawn, minlength=len(rows))
    assert stats.chisquare(counts, 50_000 * weights / weights.sum()).pvalue > LEVEL


@every
@pytest.mark.parametrize("fraction", [0.1, 0.3, 0.5])
def test_no_row_is_on_both_sides(kind, fraction):
    """The rows set aside have the fraction of the weight, but for that of the last one."""
    rows = DistinctRows([data(n=60)], weighted(kind))
    total, rng = rows.weights_of(np.arange(len(rows))).sum(), make_rng(0, np.ones(1))
    for _ in range(20):
        train, validation = rows.split(fraction, rng)
        assert_array_equal(np.sort([*train, *validation]), np.arange(len(rows)))
        assert_array_equal(train, np.sort(train))
        wanted = round(fraction * rows.total) * (total / rows.total)
        excess = rows.weights_of(validation).sum() - wanted
        assert 0 <= excess < rows.weights_of(validation[-1:])[0]


def test_splits_by_real_weights_depend_on_their_ratios():
    """Weights that sum to 1 are taken as well as any."""
    X, weights = data(n=60), weighted("real")
    weights /= weights.sum()
    one, other = (
        DistinctRows([X], scale * weights).split(0.2, make_rng(0, np.ones(1))) for scale in (1, 64)
    )
    for left, right in zip(one, other, strict=True):
        assert_array_equal(left, right)


def test_a_split_of_some_positions():
    rows, some = DistinctRows([data(n=60)]), np.array([1, 4, 7, 8, 11])
    train, validation = rows.split(0.5, make_rng(0, np.ones(1)), some)
    assert_array_equal(np.sort([*train, *validation]), some)


def test_rows_are_set_aside_at_random():
    """Each of 5 rows of one weight is, in one of 5 splits; at the level of 1e-6 with one seed."""
    rows, rng = DistinctRows([np.arange(5.0)[:, None]]), make_rng(0, np.ones(1))
    chosen = [rows.split(0.2, rng)[1][0] for _ in range(2000)]
    assert stats.chisquare(np.bincount(chosen, minlength=5)).pvalue > LEVEL


@pytest.mark.parametrize("n, fraction", [(3, 0.1), (3, 0.9), (2, 0.1)])
def test_a_split_needs_rows_for_both_parts(n, fraction):
    rows = DistinctRows([np.arange(3)[:, None]], np.array([1, 1, 1] if n == 3 else [2, 1, 0]))
    message = f"validation_fraction={fraction} of 3 samples, of which {n} differ, leaves no row"
    with pytest.raises(ValueError, match=message):
        rows.split(fraction, make_rng(0, np.ones(1)))


@pytest.mark.parametrize("n, some", [(1, None), (4, np.array([2]))])
def test_equal_rows_are_not_split(n, some):
    rows = DistinctRows([np.repeat(np.arange(n), 5)[:, None]])
    with pytest.warns(UserWarning, match="all rows are equal, so that none is set aside"):
        train, validation = rows.split(0.5, None, some)
    assert_array_equal(train, [0] if some is None else some)
    assert validation is None


# ------------------------------------------------------------------------------- checks


def test_weights_that_are_none():
    X = data(n=4)
    for weights in (None, 1, np.ones(4), [1, 1, 1, 1], np.ones(4, bool)):
        assert check_weights(weights, X) is None


@pytest.mark.parametrize(
    "make", [pytest.param(list, id="list"), pytest.param(np.float32, id="float32"), *LIBRARIES]
)
def test_weights_are_float64(make):
    for X in (data(n=4), sp.csr_array(data(n=4))):
        weights = check_weights(make([0.5, 0.0, 2.0, 1.0]), X)
        assert type(weights) is np.ndarray and weights.dtype == np.float64
        assert_array_equal(weights, [0.5, 0.0, 2.0, 1.0])


@pytest.mark.parametrize(
    "weights, message",
    [
        ([1, -1, 1, 1], "negative"),
        ([1, np.nan, 1, 1], "NaN"),
        ([1, np.inf, 1, 1], "inf"),
        (np.zeros(4), "0 for all rows|at least one non-zero"),
        (np.ones(3), r"shape|inconsistent"),
        (np.ones((4, 2)), "1D|dimension"),
        (["a", "b", "c", "d"], "could not convert|dtype"),
        ([1e20, 0, 1, 1], r"sample_weight has positive values from 1 to 1e\+20"),
        ([1e-300, 1, 1e300, 1], "sample_weight has positive values from 1e-300"),
    ],
)
def test_weights_that_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        check_weights(weights, data(n=4))


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e290])
def test_weights_of_a_ratio_that_sums_can_hold(scale):
    weights = scale * np.array([2.0**53, 1.0, 0.0, 2.0])
    assert_array_equal(check_weights(weights, data(n=4)), weights)


# ---------------------------------------------------------------------- missing values


def with_nan(n=200):
    """Rows of few values, many of them equal, and some equal but for NaN in place of a number."""
    generator = np.random.default_rng(0)
    X = generator.integers(0, 2, (n, 4)).astype(float)
    X[generator.random(X.shape) < 0.4] = np.nan
    return X


def test_missing_values_are_equal_to_each_other_alone():
    X = with_nan()
    index, weights = distinct_rows([X])
    rows, counts = np.unique(np.nan_to_num(X, nan=2), axis=0, return_counts=True)
    found = np.nan_to_num(X[index], nan=2)
    order = np.lexsort(found.T[::-1])
    assert_array_equal(found[order], rows)
    assert_array_equal(weights[order], counts)


@pytest.mark.parametrize("near", [_weights._NEAR, np.inf], ids=["keys", "values"])
def test_the_order_of_rows_with_nan_depends_on_their_values_alone(near, monkeypatch):
    """By keys, or if all of these were equal."""
    monkeypatch.setattr(_weights, "_NEAR", near)
    X, order = with_nan(), np.random.default_rng(1).permutation(200)
    index, weights = distinct_rows([X])
    others, same = distinct_rows([X[order]])
    assert_array_equal(X[order][others], X[index])
    assert_array_equal(same, weights)


# ---------------------------------------------------------------------------- columns of rows


@kinds
def test_moments_of_some_rows_are_those_of_repeated_rows(make):
    X, n = np.random.default_rng(0).normal(size=(1500, 3)), 1400
    X[np.abs(X) < 0.5] = 0
    generator = np.random.default_rng(1)
    index, weights = generator.permutation(1500)[:n], generator.integers(1, 4, n)
    repeated = np.repeat(X[index], weights, axis=0)
    columns = Columns(make(X), weights * 1.0, index)
    assert columns.shape == (n, 3)
    assert columns.n_known == len(repeated)
    for found, expected in (
        (columns.means, repeated.mean(axis=0)),
        (columns.variances, repeated.var(axis=0)),
        (columns.occupied, (repeated != 0).mean(axis=0)),
        (columns.part(np.array([2, 0])).means, repeated.mean(axis=0)[[2, 0]]),
        (columns.part(slice(1, 3)).variances, repeated.var(axis=0)[1:]),
    ):
        assert_allclose(to_numpy(found), expected, rtol=1e-12, atol=1e-12)
