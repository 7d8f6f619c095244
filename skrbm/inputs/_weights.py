"""Sample weights, and rows of which equal ones are merged."""

import numpy as np
import scipy.sparse as sp

from .._sklearn import _check_sample_weight
from ..arrays import (
    block_rows,
    cast,
    from_numpy,
    has_missing,
    namespace,
    row_blocks,
    take_rows,
    to_numpy,
)
from ._blocks import RowBlocks

_MAX_REPEATED = 10**8  # rows of an epoch by whole weights, whose index array takes 800 MB
_LEAST_TOTAL, _LARGEST_TOTAL = 1e-100, 1e100  # of weights, whose products do not overflow
_ROUNDING = 1e-12  # difference of the keys of equal rows, relative to the largest key
_NAN = 0.7390851332151607  # replaces NaN in keys
_SEED = 20160620  # of the random projection, the same in all fits


def check_weights(sample_weight, X):
    """Return the checked weights of the rows of X, float64, or None if all are 1."""
    if sample_weight is None:
        return None
    if isinstance(X, RowBlocks):
        raise ValueError("sample_weight is not supported for data that are read in blocks")
    weights = _check_sample_weight(
        to_numpy(sample_weight) if hasattr(sample_weight, "__dlpack__") else sample_weight,
        np.empty((X.shape[0], 1)),
        dtype=np.float64,
    )
    if (weights < 0).any():
        raise ValueError("sample_weight has negative values")
    if not weights.any():
        raise ValueError("sample_weight is 0 for all rows")
    with np.errstate(over="ignore"):
        total = weights.sum()
    if not _LEAST_TOTAL <= total <= _LARGEST_TOTAL:
        raise ValueError(
            f"sample_weight must have a sum of {_LEAST_TOTAL:g} to {_LARGEST_TOTAL:g}, got "
            f"{total:g}; scale the weights"
        )
    return None if (weights == 1).all() else weights


def rows_with_weight(sample_weight, *arrays):
    """Return (weights, *arrays) without the rows of weight 0, with checked weights."""
    weights = check_weights(sample_weight, arrays[0])
    if weights is None or weights.all():
        return weights, *arrays
    kept = np.flatnonzero(weights)
    return weights[kept], *(take_rows(array, kept) for array in arrays)


def distinct_rows(arrays, weights=None):
    """Merge rows that are equal in all arrays, NaN too, and sort them by a random projection.

    The order depends on the values of the rows and not on the order in which they are given, except
    for rows whose projections differ by rounding only. So a fit with a row of weight 2 takes the
    same steps as one with this row twice. Rows of weight 0 are left out.

    Returns
    -------
    index : ndarray of int of shape (n_distinct,)
        One of each set of equal rows.
    weights : ndarray of shape (n_distinct,)
        Sums of the weights of equal rows, float64.
    """
    weights = np.ones(arrays[0].shape[0]) if weights is None else weights
    arrays, rows = list(arrays), np.flatnonzero(weights)
    for k, X in enumerate(arrays):
        if sp.issparse(X) and has_missing(X):
            values = np.where(np.isnan(X.data), X.dtype.type(_NAN), X.data)
            arrays[k] = sp.csr_array((values, X.indices, X.indptr), shape=X.shape)
    keys = _keys(arrays)[rows]
    order = np.argsort(keys, kind="stable")
    rows, keys = rows[order], keys[order]
    near = 1 + np.flatnonzero(np.diff(keys) <= _ROUNDING * np.abs(keys).max())
    is_first = np.ones(len(rows), dtype=bool)
    is_first[near] = ~_are_equal(arrays, rows[near - 1], rows[near])
    first = np.flatnonzero(is_first)
    return rows[first], np.add.reduceat(weights[rows], first)


def _keys(arrays):
    """Return the projection of each row on a random direction, float64."""
    generator, total = np.random.default_rng(_SEED), 0.0
    for X in arrays:
        # The scale keeps sums of the largest floats, and their differences, from overflowing.
        direction, keys = generator.standard_normal(X.shape[1]), []
        direction /= 32 * len(arrays) * X.shape[1]
        for block in row_blocks(X, _block_rows(X)):
            if sp.issparse(block):
                keys.append(block.astype(np.float64) @ direction)
                continue
            xp, block = namespace(block), cast(block, namespace(block).float64)
            keys.append(to_numpy(block @ from_numpy(direction, block)))
            if np.isnan(keys[-1]).any():
                filled = xp.where(block == block, block, _NAN)
                keys[-1] = to_numpy(filled @ from_numpy(direction, block))
        total = total + np.concatenate(keys)
    return total


def _block_rows(X):
    columns = X.nnz // X.shape[0] + 1 if sp.issparse(X) else X.shape[1]
    return block_rows(columns)


def _are_equal(arrays, first, second):
    """Return whether the rows at two index arrays are equal."""
    equal = np.ones(len(first), dtype=bool)
    for X in arrays:
        size = _block_rows(X)
        for start in range(0, len(first), size):
            part = slice(start, start + size)
            a, b = take_rows(X, first[part]), take_rows(X, second[part])
            if sp.issparse(a):
                equal[part] &= np.diff((a != b).tocsr().indptr) == 0
            else:
                same = (a == b) | ((a != a) & (b != b))
                equal[part] &= to_numpy(namespace(a).all(same, axis=1))
    return equal


def are_whole(weights):
    """Whether all weights are whole numbers."""
    return bool((weights == np.rint(weights)).all())


def rows_of_epoch(index, weights, rng):
    """Return the rows of an epoch: each repeated according to its weight.

    Whole weights are numbers of repetitions, if they sum to at most 1e8. Others are scaled to a
    mean of 1, and as many rows as there are are drawn by systematic resampling.
    """
    if are_whole(weights) and weights.sum() <= _MAX_REPEATED:
        return np.repeat(index, weights.astype(np.int64))
    n, ends = len(index), np.cumsum(weights)
    points = (np.arange(n) + float(to_numpy(rng.uniform((1,)))[0])) * (ends[-1] / n)
    return index[np.minimum(np.searchsorted(ends, points, side="right"), n - 1)]
