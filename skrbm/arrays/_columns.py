"""Rows and columns of data, dense or sparse."""

import numpy as np
import scipy.sparse as sp
from sklearn.utils.sparsefuncs import mean_variance_axis

from ._namespace import as_like, cast, is_foreign, namespace


def squared(X):
    """X * X elementwise, for a dense or a sparse X."""
    return X.multiply(X).tocsr() if sp.issparse(X) else X * X


def nonzero(X, dtype):
    """1 where a dense or a sparse X is not 0, and 0 elsewhere, with ``dtype``."""
    return (X != 0).astype(dtype) if sp.issparse(X) else cast(X != 0, dtype)


def dense_rows(X, index, dtype):
    """Return the rows of a dense or sparse X at an index array, as one dense array of ``dtype``."""
    rows = X[index].toarray() if sp.issparse(X) else namespace(X).take(X, index, axis=0)
    return cast(rows, dtype)


def take_rows(X, index):
    """Return rows of a dense or sparse X, in X's own dtype.

    ``index`` is a slice, or an index array of NumPy or of X's library.
    """
    if isinstance(index, slice) and not sp.issparse(X):
        return X[index, ...]
    if not is_foreign(X):
        return X[index]
    return namespace(X).take(X, as_like(index, X), axis=0)


def row_blocks(X, size):
    """Yield the rows of an array in blocks of at most ``size`` rows.

    Slices end at the last row at most: other libraries need not clip them as NumPy does.
    """
    n = X.shape[0]
    for start in range(0, n, size):
        yield X[start : min(start + size, n), :]


def value_range(X):
    """Return the least and the largest value of a dense or sparse X."""
    values = X.data if sp.issparse(X) else X
    if sp.issparse(X) and values.shape[0] < X.shape[0] * X.shape[1]:
        values = np.append(values, values.dtype.type(0))
    xp = namespace(values)
    if xp.isdtype(values.dtype, "bool"):  # not every library compares booleans
        values = cast(values, xp.uint8)
    return float(xp.min(values)), float(xp.max(values))


def column_means(X):
    """Return the mean of each column, in float64, of a dense or sparse X."""
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


def column_moments(X):
    """Return mean and variance of each column, in float64, of a dense or sparse X."""
    if sp.issparse(X):
        return mean_variance_axis(X.astype(np.float64).tocsr(), axis=0)
    xp, n = namespace(X), X.shape[0]

    def blocks():  # float64 copies of blocks, never of the whole
        return (cast(rows, xp.float64) for rows in row_blocks(X, 1024))

    mean = sum(xp.sum(rows, axis=0) for rows in blocks()) / n
    return mean, sum(xp.sum((rows - mean) ** 2, axis=0) for rows in blocks()) / n
