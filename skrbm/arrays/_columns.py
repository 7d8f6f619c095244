"""Rows and columns of data, dense or sparse."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from ._namespace import as_like, cast, from_numpy, is_finite, is_foreign, is_sparse, namespace
from ._types import Array, Index

_ROWS, _ELEMENTS = 1024, 2**20  # of blocks of rows: at most so many, and about so many numbers


def squared(X: Array) -> Array:
    """X * X elementwise, for a dense or a sparse X."""
    return X.multiply(X).tocsr() if is_sparse(X) else X * X


def nonzero(X: Array, dtype: Any) -> Array:
    """1 where a dense or a sparse X is not 0, and 0 elsewhere, with ``dtype``."""
    return (X != 0).astype(dtype) if is_sparse(X) else cast(X != 0, dtype)


def dense(X: Array) -> Array:
    """Return a dense or sparse X as a dense array."""
    return X.toarray() if is_sparse(X) else X


def dense_rows(X: Array, index: Index, dtype: Any) -> Array:
    """Return the rows of a dense or sparse X at an index array, as one dense array of ``dtype``."""
    if type(X) is np.ndarray:  # the usual type is checked first
        return X.take(index, axis=0).astype(dtype, copy=False)
    if not is_sparse(X):
        return cast(namespace(X).take(X, index, axis=0), dtype)
    X = sparse_rows(X, index, dtype)
    rows = np.zeros(X.shape, dtype)
    rows[np.repeat(np.arange(len(index)), np.diff(X.indptr)), X.indices] = X.data
    return rows


def sparse_rows(X: Array, index: Index, dtype: Any) -> Array:
    """Return the rows of a sparse X at an index array, a csr_array of ``dtype``."""
    if X.format != "csr" or not X.has_canonical_format:
        rows = sp.csr_array(X[index], dtype=dtype)
        rows.sum_duplicates()
        return rows
    # What SciPy would do, without its checks of the index and of dtypes, which take longer.
    counts = X.indptr[index + 1] - X.indptr[index]
    ends = np.append(0, np.cumsum(counts, dtype=X.indptr.dtype))
    places = np.arange(ends[-1]) + np.repeat(X.indptr[index] - ends[:-1], counts)
    parts = X.data[places].astype(dtype), X.indices[places], ends
    return sp.csr_array(parts, shape=(len(index), X.shape[1]))


def take_rows(X: Array, index: Index) -> Array:
    """Return rows of a dense or sparse X, in X's own dtype.

    ``index`` is a slice, or an index array of NumPy or of X's library.
    """
    if type(X) is np.ndarray:  # the usual type is checked first
        return X[index]
    if isinstance(index, slice) and not is_sparse(X):
        return X[index, ...]
    if not is_foreign(X):
        return X[index]
    return namespace(X).take(X, as_like(index, X), axis=0)


def joined_rows(parts: list[Array]) -> Array:
    """Return the rows of arrays one below the other, sparse where some are."""
    if any(map(is_sparse, parts)):
        return sp.vstack(parts, format="csr")
    return namespace(parts[0]).concat(parts, axis=0)


def last_rows(X: Array, n: int) -> Array:
    """Return the last ``n`` rows of a dense X, or all if there are fewer."""
    size = X.shape[0]
    return X[max(0, size - n) : size, ...]  # slices of some libraries may not go beyond the ends


def block_rows(width: int = 1, most: int = _ELEMENTS) -> int:
    """Return how many rows of ``width`` numbers to compute together, about ``most`` numbers."""
    return max(1, min(_ROWS, most // max(width, 1)))


def row_blocks(X: Array, size: int = _ROWS) -> Iterator[Array]:
    """Yield the rows of an array in blocks of at most ``size`` rows.

    Slices end at the last row at most: other libraries need not clip them as NumPy does.
    """
    n = X.shape[0]
    for start in range(0, n, size):
        yield X[start : min(start + size, n), :]


def has_missing(X: Array) -> bool:
    """Whether a dense or a sparse X has NaN."""
    X = X.data if is_sparse(X) else X
    if not namespace(X).isdtype(X.dtype, "real floating"):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return not is_finite(X) and bool(namespace(X).any(X != X))


def column_ends(X: Array) -> tuple[Array, Array]:
    """Return the smallest and the largest value of each column, float64.

    NaN does not count; of a column of nothing else they are infinite.
    """
    if is_sparse(X):
        X = X.astype(np.float64)
        least, most = X.nanmin(axis=0).toarray().ravel(), X.nanmax(axis=0).toarray().ravel()
        return np.where(least == least, least, np.inf), np.where(most == most, most, -np.inf)
    xp, ends = namespace(X), []
    if xp.isdtype(X.dtype, "bool"):  # not every library compares booleans
        X = cast(X, xp.uint8)
    for function, end in ((xp.min, xp.inf), (xp.max, -xp.inf)):
        found = cast(function(X, axis=0), xp.float64)
        if not is_finite(found):
            wide = cast(X, xp.float64)
            found = function(xp.where(wide == wide, wide, end * xp.ones_like(wide)), axis=0)
        ends.append(found)
    return ends[0], ends[1]


def value_range(X: Array) -> tuple[float, float]:
    """Return the smallest and the largest value of a dense or sparse X, apart from NaN."""
    if is_sparse(X):
        zero = [X.dtype.type(0)] if X.data.shape[0] < X.shape[0] * X.shape[1] else []
        X = np.append(X.data, zero)[:, None]
    least, most = column_ends(X)
    return float(namespace(least).min(least)), float(namespace(most).max(most))


def take_columns(X: Array, columns: Any) -> Array:
    """Return some columns of a dense or sparse X, the last axis of a dense one.

    ``columns`` is a slice, or an index array of NumPy.
    """
    if is_sparse(X):
        return X[:, columns]
    if isinstance(columns, slice):
        return X[..., columns]
    return namespace(X).take(X, from_numpy(columns, X), axis=-1)


def weighted_sum(weight: Any, x: Array) -> Array:
    """Return the sum of the rows of an array, by one weight for all or one for each."""
    if is_sparse(x):
        weights = x.data * np.repeat(np.broadcast_to(weight, x.shape[:1]), np.diff(x.indptr))
        return np.bincount(x.indices, weights, x.shape[1]).astype(x.dtype)
    if getattr(weight, "ndim", 0):
        return weight @ x
    if type(x) is np.ndarray:
        return np.add.reduce(x, axis=0) * weight  # half of the time of np.sum for few rows
    return namespace(x).sum(x, axis=0) * weight
