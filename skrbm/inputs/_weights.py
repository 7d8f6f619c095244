"""Rows with weights: a canonical order, copies brought together, and the rows of an epoch.

A fit must not depend on the order of the rows, and a weight of 2 must do what a row that is there
twice does, to the last bit. So rows are sorted by their values first, and equal rows, which are
neighbours then, become one row whose weight is the sum of theirs.
"""

import hashlib
import warnings
from functools import cached_property
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from .._sklearn import _check_sample_weight
from ..arrays import (
    cast,
    from_numpy,
    has_missing,
    is_foreign,
    namespace,
    near_equal_parts,
    row_blocks,
    take_rows,
    to_numpy,
)
from ._blocks import RowBlocks

_BLOCK_ELEMENTS = 2**16  # of rows that are looked at together, 512 KiB in float64
# Rows of an epoch: an index array of more may not fit into memory.
_MAX_REPEATED = 10**8
_LARGEST_RATIO = 2.0**53  # of weights: more than 1 to that, and float64 sums lose the 1
_NEAR = 1e-12  # difference of keys, as part of the largest, that rounding can make
_MISSING = 0.7390851332151607  # what NaN counts as in keys, hardly a value of data
_SHOWN, _SHOWN_VALUES = 1000, 2**24  # rows at once, and values, by which data are told from others
_SEED = 20160620  # of directions and positions, which are the same in all fits


def check_weights(sample_weight, X):
    """Return the weights of the rows of X, float64, or None where all are 1.

    Raises ValueError if one is negative or not finite, if all are 0, or if the largest is more than
    2**53 times the smallest positive one, which is then lost in sums.
    """
    if sample_weight is None:
        return None
    if isinstance(X, RowBlocks):
        raise ValueError(
            "sample_weight is not for data that are read in blocks; repeat rows instead, or give "
            "an array in memory"
        )
    weights = _check_sample_weight(
        to_numpy(sample_weight) if hasattr(sample_weight, "__dlpack__") else sample_weight,
        np.empty((X.shape[0], 1)),
        dtype=np.float64,
    )
    if (weights < 0).any():
        raise ValueError("sample_weight has negative values; weights must be >= 0")
    if not weights.any():
        raise ValueError("sample_weight is 0 for all rows: at least one must be positive")
    least, largest = weights[weights > 0].min(), weights.max()
    if least < largest / _LARGEST_RATIO:
        raise ValueError(
            f"sample_weight has positive values from {least:.3g} to {largest:.3g}; float64 sums "
            "hold ratios of up to 9e15, so leave out rows of so small a weight, or set it to 0"
        )
    return None if (weights == 1).all() else weights


def rows_with_weight(sample_weight, *arrays):
    """Return (weights, *arrays) without the rows of weight 0, whose values do not matter.

    Raises ValueError as :func:`check_weights`.
    """
    weights = check_weights(sample_weight, arrays[0])
    if weights is None or weights.all():
        return weights, *arrays
    kept = np.flatnonzero(weights)
    return weights[kept], *(take_rows(array, kept) for array in arrays)


def distinct_rows(arrays, weights=None):
    """Return the rows that differ, in an order that depends on their values alone.

    Parameters
    ----------
    arrays : sequence of arrays or sparse matrices of shape (n_rows, n_columns[i])
        Rows are equal if they are in all of them. NaN equals NaN.
    weights : ndarray of shape (n_rows,), default=None
        Rows of weight 0 are left out.

    Returns
    -------
    index : ndarray of int of shape (n_distinct,)
        One row of each kind.
    weights : ndarray of shape (n_distinct,)
        Sums of the weights of equal rows, float64.
    """
    arrays, n = [_told(X) for X in arrays], arrays[0].shape[0]
    rows = np.arange(n) if weights is None else np.flatnonzero(weights)
    weights = np.ones(n) if weights is None else weights
    keys = _keys(arrays)[rows]
    order = np.argsort(keys, kind="stable")
    rows, keys = rows[order], keys[order]
    near = np.flatnonzero(np.diff(keys) <= _NEAR * max(np.abs(keys).max(), 1e-300))
    if not near.size:
        return rows, weights[rows]
    same = np.zeros(len(rows), bool)  # whether a row equals the one before
    missing = [has_missing(X) for X in arrays]
    same[near + 1] = _are_equal(arrays, rows[near], rows[near + 1], missing)
    for run in _runs(near, ~same[near + 1]):
        rows[run] = rows[run][_lexical_order(arrays, rows[run])]
        inside = rows[run]
        same[run.start + 1 : run.stop] = _are_equal(arrays, inside[:-1], inside[1:], missing)
    # Sums are to be the same, to the last bit, in whatever order equal rows were given.
    first, weights = np.flatnonzero(~same), weights[rows]
    weights = weights[np.lexsort((weights, np.cumsum(~same)))]
    return rows[first], np.add.reduceat(weights, first)


def _told(X):
    """Return X, but a sparse one with a number in place of NaN."""
    if not (sp.issparse(X) and has_missing(X)):
        return X
    values = np.where(np.isnan(X.data), X.dtype.type(_MISSING), X.data)
    return sp.csr_array((values, X.indices, X.indptr), shape=X.shape)


def _keys(arrays):
    """Return a number for each row: its projection on a direction, in float64."""
    generator, total = np.random.default_rng(_SEED), 0.0
    for X in arrays:
        # So short that sums of the largest numbers do not overflow, nor their differences.
        direction = generator.standard_normal(X.shape[1]) / (32 * len(arrays) * X.shape[1])
        parts = []
        for block in row_blocks(X, _block_rows(X)):
            if sp.issparse(block):
                parts.append(block.astype(np.float64) @ direction)
            else:
                parts.append(_projected(cast(block, namespace(block).float64), direction))
        total = total + np.concatenate(parts)
    return total


def _projected(block, direction):
    """Return the products of float64 rows with a direction, in which NaN counts as a number."""
    direction = from_numpy(direction, block)
    product = to_numpy(block @ direction)
    if not np.isnan(product).any():
        return product
    xp = namespace(block)
    return to_numpy(xp.where(block == block, block, _MISSING) @ direction)


def _block_rows(X):
    columns = X.nnz // X.shape[0] + 1 if sp.issparse(X) else X.shape[1]
    return max(1, _BLOCK_ELEMENTS // columns)


def _are_equal(arrays, first, second, missing):
    """Return whether the rows at two index arrays are equal, block by block.

    ``missing`` says which of the arrays have NaN.
    """
    parts, size = [], min(_block_rows(X) for X in arrays)
    for start in range(0, len(first), size):
        equal = True
        for X, has_nan in zip(arrays, missing, strict=True):
            a, b = (take_rows(X, i[start : start + size]) for i in (first, second))
            if sp.issparse(a):
                equal = equal & (np.diff((a != b).tocsr().indptr) == 0)
                continue
            same = (a == b) | ((a != a) & (b != b)) if has_nan else a == b
            equal = equal & to_numpy(namespace(a).all(same, axis=1))
        parts.append(equal)
    return np.concatenate(parts)


def _runs(near, differ):
    """Yield slices of the positions that neighbours ``near`` join, where some ``differ``."""
    numbers = np.cumsum(np.diff(near, prepend=near[0]) > 1)
    for number in np.unique(numbers[differ]):  # keys that are near by rounding alone
        first, last = np.searchsorted(numbers, [number, number + 1])
        yield slice(near[first], near[last - 1] + 2)


def _lexical_order(arrays, rows):
    """Return the order of some rows by their values, the first columns first."""
    parts = [take_rows(X, rows) for X in arrays]
    if any(map(sp.issparse, parts)):
        parts = [X if sp.issparse(X) else sp.csr_array(to_numpy(X)) for X in parts]
        return _sparse_order(sp.hstack(parts, format="csr"))
    return np.lexsort(np.hstack([to_numpy(X) for X in parts]).T[::-1])


def _sparse_order(X):
    """Return the order of sparse rows by their values, without a dense copy.

    A row is the word of its entries, from left to right. The first letters in which two words
    differ tell what the first columns in which the rows differ would: a negative entry is less the
    further left it is, a positive one the further right, and the end of a row is a zero.
    """
    X.eliminate_zeros()
    X.sort_indices()
    places = np.where(X.data < 0, -1, 1) * (X.shape[1] - X.indices.astype(np.int64))
    places, values = np.append(places, 0), np.append(X.data, X.dtype.type(0))
    order = np.lexsort((values, places))
    places, values = places[order], values[order]
    steps = (places[1:] != places[:-1]) | (values[1:] != values[:-1])
    letters = np.empty(len(order), dtype=">i8")  # whose bytes are in the order of the numbers
    letters[order] = np.append(0, np.cumsum(steps))
    end = letters[-1:].tobytes()
    words = [letters[a:b].tobytes() + end for a, b in pairwise(X.indptr)]
    return np.array(sorted(range(len(words)), key=words.__getitem__))


def are_whole(weights):
    """Whether all weights are whole numbers."""
    return bool((weights == np.rint(weights)).all())


def rows_of_epoch(index, weights, rng):
    """Return the rows of an epoch: each as often as its weight says.

    Whole weights are met exactly, if they sum to at most 1e8. Others are scaled to a mean of 1, and
    as many rows as there are are drawn by systematic resampling, so that each comes within 1 of its
    weight.

    Parameters
    ----------
    index : ndarray of int of shape (n_rows,)
    weights : ndarray of shape (n_rows,)
    rng : Rng
    """
    if are_whole(weights) and weights.sum() <= _MAX_REPEATED:
        return np.repeat(index, weights.astype(np.int64))
    n, ends = len(index), np.cumsum(weights)
    points = (np.arange(n) + float(to_numpy(rng.uniform((1,)))[0])) * (ends[-1] / n)
    return index[np.minimum(np.searchsorted(ends, points, side="right"), n - 1)]


class DistinctRows:
    """The rows of data that differ, with their weights, and the choice of some of them.

    Equal rows are one row, whose weight is the sum of theirs. Positions count distinct rows, in an
    order that looks random and depends on the values of the rows alone. So fits do not depend on
    the order of the rows of X, and a weight of 2 does what a row that is there twice does.

    Parameters
    ----------
    arrays, weights : as in :func:`distinct_rows`

    Attributes
    ----------
    index : ndarray of int of shape (n_rows,)
        The rows of the arrays that are at the positions.
    weights : ndarray of shape (n_rows,) or None
        Their weights, float64; None if all are 1.
    total : int
        How many rows the weights stand for: their sum if they are whole numbers, and otherwise the
        number of distinct rows.
    """

    def __init__(self, arrays, weights=None):
        self._reference, self._is_sent = arrays[0], is_foreign(arrays[0])
        index, weights = distinct_rows(arrays, weights)
        order = np.random.default_rng(_SEED).permutation(len(index))
        self.index, weights = index[order], weights[order]
        self.weights = None if (weights == 1).all() else weights
        self.total = int(weights.sum()) if are_whole(weights) else len(index)

    def __len__(self):
        return len(self.index)

    def weights_of(self, positions):
        """Return the weights of the rows at some positions, float64."""
        return np.ones(len(positions)) if self.weights is None else self.weights[positions]

    def told_by(self, values, *others):
        """Return a text that differs, but for chance, if rows or weights differ.

        All rows tell, or the first of many: the position of each depends on all others.

        Parameters
        ----------
        values : callable
            Returns some dense arrays of the rows at an array of positions.
        *others : array
            What else tells.
        """
        digest = hashlib.blake2b(digest_size=16)
        _add(digest, self.weights_of(np.arange(len(self))), *others)
        width = sum(array.size for array in map(to_numpy, values(np.arange(1))))
        n = max(_SHOWN, min(len(self), _SHOWN_VALUES // max(1, width)))
        for start in range(0, n, _SHOWN):
            _add(digest, *values(np.arange(start, min(start + _SHOWN, n, len(self)))))
        return digest.hexdigest()

    def sent(self, positions):
        """Return positions in the library and on the device of the first of the arrays.

        So a device is sent those of an epoch at once.
        """
        return from_numpy(positions, self._reference)

    def places(self, positions):
        """Return the rows of the arrays at positions, in the library of the first of the arrays."""
        if not self._is_sent:
            return self.index[positions]
        return take_rows(self._sent_index, positions)

    @cached_property
    def _sent_index(self):
        return self.sent(self.index)

    def epoch(self, positions, rng):
        """Return the positions of an epoch: each as often as the weight of its row says.

        Whole weights are met exactly; others on average, to within 1 in each epoch.
        """
        if self.weights is None:
            return positions
        return rows_of_epoch(positions, self.weights[positions], rng)

    def batches(self, positions, rng, n_batches, shuffle):
        """Return the batches of an epoch: what a learner's step takes, here index arrays.

        Parameters
        ----------
        positions : ndarray of int
            Rows to learn from.
        rng : Rng
        n_batches : callable
            ``n_batches(n_rows)`` returns into how many batches, of nearly one size, the rows of
            the epoch are cut.
        shuffle : bool
            Whether the rows are put into a new random order.
        """
        rows = self.epoch(positions, rng)
        if shuffle:
            rows = rows[rng.order(len(rows))]
        # Batches of nearly one size: a last one of few rows would be a noisy step of full length.
        return near_equal_parts(self.sent(rows), n_batches(len(rows)))

    def drawn(self, n, rng):
        """Return ``n`` positions, drawn by the weights of the rows."""
        ends = np.cumsum(self.weights_of(np.arange(len(self))))
        noise = to_numpy(rng.uniform((n,))).astype(np.float64)
        return np.minimum(np.searchsorted(ends, noise * ends[-1], side="right"), len(self) - 1)

    def split(self, fraction, rng, positions=None):
        """Return positions to train on and positions to validate on, at random.

        The latter have about ``fraction`` of the weight; no row is on both sides. They are None,
        with a warning, where all rows are equal. Only rows at ``positions`` are taken, if they are
        given.

        Raises ValueError if one of the two would have no row, though rows differ.
        """
        positions = np.arange(len(self)) if positions is None else positions
        if len(positions) == 1:
            warnings.warn(
                "all rows are equal, so that none is set aside and the fit goes without early "
                "stopping",
                stacklevel=2,
            )
            return positions, None
        order = positions[to_numpy(rng.permutation(len(positions)))]
        weights = self.weights_of(order)
        total, before = weights.sum(), np.cumsum(weights) - weights
        n = total if are_whole(weights) else len(order)  # real weights have a mean of 1
        n_validation = int(np.sum(before < round(fraction * n) * (total / n)))
        if not 0 < n_validation < len(order):
            raise ValueError(
                f"early_stopping sets rows aside: validation_fraction={fraction} of {self.total} "
                f"samples, of which {len(order)} differ, leaves no row to learn from or none to "
                "set aside; give more samples or set early_stopping=False"
            )
        return np.sort(order[n_validation:]), order[:n_validation]


def _add(digest, *arrays):
    """Let a digest tell of arrays, by their values."""
    for array in map(to_numpy, arrays):
        array = np.nan_to_num(array.astype(np.float64), nan=_MISSING) + 0.0  # no -0
        digest.update(repr(array.shape).encode() + array.tobytes())
