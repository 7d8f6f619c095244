"""Rows and columns of data, dense or sparse."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.sparsefuncs import mean_variance_axis

from ._namespace import as_like, cast, from_numpy, is_finite, is_foreign, namespace
from ._types import Array, Index

_BLOCK_ELEMENTS = 2**16  # of dense rows that are summed together, 512 KiB in float64


def squared(X: Array) -> Array:
    """X * X elementwise, for a dense or a sparse X."""
    return X.multiply(X).tocsr() if sp.issparse(X) else X * X


def nonzero(X: Array, dtype: Any) -> Array:
    """1 where a dense or a sparse X is not 0, and 0 elsewhere, with ``dtype``."""
    return (X != 0).astype(dtype) if sp.issparse(X) else cast(X != 0, dtype)


def dense_rows(X: Array, index: Index, dtype: Any) -> Array:
    """Return the rows of a dense or sparse X at an index array, as one dense array of ``dtype``."""
    rows = X[index].toarray() if sp.issparse(X) else namespace(X).take(X, index, axis=0)
    return cast(rows, dtype)


def take_rows(X: Array, index: Index) -> Array:
    """Return rows of a dense or sparse X, in X's own dtype.

    ``index`` is a slice, or an index array of NumPy or of X's library.
    """
    if isinstance(index, slice) and not sp.issparse(X):
        return X[index, ...]
    if not is_foreign(X):
        return X[index]
    return namespace(X).take(X, as_like(index, X), axis=0)


def last_rows(X: Array, n: int) -> Array:
    """Return the last ``n`` rows of a dense X, or all if there are fewer."""
    size = X.shape[0]
    return X[max(0, size - n) : size, ...]  # slices of some libraries may not go beyond the ends


def row_blocks(X: Array, size: int) -> Iterator[Array]:
    """Yield the rows of an array in blocks of at most ``size`` rows.

    Slices end at the last row at most: other libraries need not clip them as NumPy does.
    """
    n = X.shape[0]
    for start in range(0, n, size):
        yield X[start : min(start + size, n), :]


def has_missing(X: Array) -> bool:
    """Whether a dense X has NaN. A sparse X counts as complete."""
    if sp.issparse(X) or not namespace(X).isdtype(X.dtype, "real floating"):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return not is_finite(X) and bool(namespace(X).any(X != X))


def value_range(X: Array) -> tuple[float, float]:
    """Return the smallest and the largest value of a dense or sparse X, apart from NaN."""
    values = X.data if sp.issparse(X) else X
    if sp.issparse(X) and values.shape[0] < X.shape[0] * X.shape[1]:
        values = np.append(values, values.dtype.type(0))
    xp = namespace(values)
    if xp.isdtype(values.dtype, "bool"):  # not every library compares booleans
        values = cast(values, xp.uint8)
    least, most = float(xp.min(values)), float(xp.max(values))
    if least == least and most == most:
        return least, most
    missing, infinite = values != values, xp.inf * xp.ones_like(values)
    least, most = (xp.where(missing, end, values) for end in (infinite, -infinite))
    return float(xp.min(least)), float(xp.max(most))


class RowView:
    """Some rows of an array or sparse matrix in some order, of which slices are copied when asked.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_rows, n_columns)
    index : ndarray of int of shape (n_some,)
    total : callable, default=None
        ``total(array)`` adds what other processes have to float64 sums over these rows.
    """

    def __init__(self, X: Array, index: Array, total: Any = None) -> None:
        self.X, self.index, self.shape = X, index, (len(index), X.shape[1])
        self.total = total

    def __getitem__(self, key: tuple) -> Array:
        return take_rows(self.X, self.index[key[0]])


def column_sums(x: Array) -> Array:
    """Return the sum of each column of a dense array, in its dtype."""
    if not is_foreign(x):
        return np.add.reduce(x, axis=0)  # without the overhead of np.sum, half of it for few rows
    return namespace(x).sum(x, axis=0)


def row_count(X: Array, weights: np.ndarray | None = None) -> float:
    """Return how many rows the rows of X stand for, by their weights, None for 1 each."""
    if weights is None:
        return X.shape[0]
    n = float(np.sum(weights))
    return n if getattr(X, "total", None) is None else float(X.total(np.array([n]))[0])


def column_means(X: Array, weights: Array | None = None, function: Any = None) -> Array:
    """Return the mean of each column, in float64, of a dense or sparse X.

    ``weights`` is a NumPy array with a weight for each row, or None for equal weights. With it X
    may be a :class:`RowView`, and the means may be those of a function of dense rows.
    """
    if weights is not None:
        return _weighted_sum(X, weights, function) / row_count(X, weights)
    if sp.issparse(X):  # scipy's mean would sum in the dtype of X, whatever dtype is asked for
        blocks = (rows.astype(np.float64) for rows in row_blocks(X.tocsr(), 1024))
        return sum(np.asarray(rows.sum(axis=0)).ravel() for rows in blocks) / X.shape[0]
    xp = namespace(X)
    floating = xp.isdtype(X.dtype, "real floating")
    total = 0.0
    for rows in row_blocks(X, 256):  # few rows, so that sums in X's own dtype are accurate
        rows = rows if floating else cast(rows, xp.float32)  # not every library sums booleans
        total = total + cast(xp.sum(rows, axis=0), xp.float64)
    return total / X.shape[0]


def column_moments(X: Array, weights: np.ndarray | None = None) -> tuple[Array, Array]:
    """Return mean and variance of each column, in float64, of a dense or sparse X.

    ``weights`` is a NumPy array with a weight for each row, or None for equal weights. With it X
    may be a :class:`RowView`.
    """
    if weights is not None:
        mean = column_means(X, weights)
        squares = _weighted_sum(X, weights, lambda rows: (rows - mean) ** 2)
        return mean, squares / row_count(X, weights)
    if sp.issparse(X):
        return mean_variance_axis(X.astype(np.float64).tocsr(), axis=0)
    xp, n = namespace(X), X.shape[0]

    def blocks() -> Iterator[Array]:
        return (cast(rows, xp.float64) for rows in row_blocks(X, 1024))

    mean = sum(xp.sum(rows, axis=0) for rows in blocks()) / n
    return mean, sum(xp.sum((rows - mean) ** 2, axis=0) for rows in blocks()) / n


def _weighted_sum(
    X: Array, weights: np.ndarray, function: Callable[[Array], Array] | None = None
) -> Array:
    """Return the sum of weight times row, or times a function of dense rows, in float64."""
    total: Array = 0.0
    size = max(1, _BLOCK_ELEMENTS // X.shape[1])
    for start in range(0, X.shape[0], size):
        stop = min(start + size, X.shape[0])  # other libraries need not clip slices
        rows, w = X[start:stop, :], weights[start:stop]
        if sp.issparse(rows) and function is None:
            total = total + np.asarray(rows.astype(np.float64).T @ w)
            continue
        rows = rows.toarray() if sp.issparse(rows) else rows
        rows = cast(rows, namespace(rows).float64)
        rows = rows if function is None else function(rows)
        total = total + from_numpy(w, rows) @ rows
    return total if getattr(X, "total", None) is None else X.total(total)
