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


def dense(X: Array) -> Array:
    """Return a dense or sparse X as a dense array."""
    return X.toarray() if sp.issparse(X) else X


def dense_rows(X: Array, index: Index, dtype: Any) -> Array:
    """Return the rows of a dense or sparse X at an index array, as one dense array of ``dtype``."""
    if type(X) is np.ndarray:  # the usual type is checked first
        return X.take(index, axis=0).astype(dtype, copy=False)
    if not sp.issparse(X):
        return cast(namespace(X).take(X, index, axis=0), dtype)
    if X.format != "csr" or not X.has_canonical_format:
        return cast(X[index].toarray(), dtype)
    # What SciPy would do, without its checks of the index and of dtypes, which take longer.
    counts = X.indptr[index + 1] - X.indptr[index]
    ends, rows = np.cumsum(counts), np.zeros((len(index), X.shape[1]), dtype)
    places = np.arange(ends[-1]) + np.repeat(X.indptr[index] - ends + counts, counts)
    rows[np.repeat(np.arange(len(index)), counts), X.indices[places]] = X.data[places]
    return rows


def take_rows(X: Array, index: Index) -> Array:
    """Return rows of a dense or sparse X, in X's own dtype.

    ``index`` is a slice, or an index array of NumPy or of X's library.
    """
    if type(X) is np.ndarray:  # the usual type is checked first
        return X[index]
    if isinstance(index, slice) and not sp.issparse(X):
        return X[index, ...]
    if not is_foreign(X):
        return X[index]
    return namespace(X).take(X, as_like(index, X), axis=0)


def joined_rows(parts: list[Array]) -> Array:
    """Return the rows of arrays one below the other, sparse where some are."""
    if any(map(sp.issparse, parts)):
        return sp.vstack(parts, format="csr")
    return namespace(parts[0]).concat(parts, axis=0)


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
    """Whether a dense or a sparse X has NaN."""
    X = X.data if sp.issparse(X) else X
    if not namespace(X).isdtype(X.dtype, "real floating"):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return not is_finite(X) and bool(namespace(X).any(X != X))


def value_range(X: Array) -> tuple[float, float]:
    """Return the smallest and the largest value of a dense or sparse X, apart from NaN.

    X may be a :class:`ColumnSummary`.
    """
    if isinstance(X, ColumnSummary):
        return X.range
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


def _column_ends(X: Array) -> tuple[Array, Array]:
    """Return the smallest and the largest value of each column, float64.

    NaN does not count; of a column of nothing else they are infinite.
    """
    if sp.issparse(X):
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


def take_columns(X: Array, columns: Any) -> Array:
    """Return some columns of an array, the last axis of a dense one.

    X may be sparse, a :class:`RowView` or a :class:`ColumnSummary`. ``columns`` is a slice, or an
    index array of NumPy.
    """
    if isinstance(X, ColumnSummary):
        return X.part(columns)
    if isinstance(X, RowView):
        return RowView(take_columns(X.X, columns), X.index, X.total)
    if sp.issparse(X):
        return X[:, columns]
    if isinstance(columns, slice):
        return X[..., columns]
    return namespace(X).take(X, from_numpy(columns, X), axis=-1)


def column_sums(x: Array) -> Array:
    """Return the sum of each column of a dense array, in its dtype."""
    if not is_foreign(x):
        return np.add.reduce(x, axis=0)  # without the overhead of np.sum, half of it for few rows
    return namespace(x).sum(x, axis=0)


def column_means(X: Array, weights: Array | None = None, function: Any = None) -> Array:
    """Return the mean of each column, in float64, of a dense or sparse X.

    ``weights`` is a NumPy array with a weight for each row, or None for equal weights. With it X
    may be a :class:`RowView`, and the means may be those of a function of dense rows. X may be a
    :class:`ColumnSummary`, whose means are those of the known values.
    """
    if isinstance(X, ColumnSummary):
        return X.means
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
    may be a :class:`RowView`. X may be a :class:`ColumnSummary`.
    """
    if isinstance(X, ColumnSummary):
        return X.means, X.variances
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


def occupied_part(X: Array, weights: np.ndarray | None = None) -> Array:
    """Return the part of the rows of X in which each column is not 0, in float64.

    ``weights`` and X are as in :func:`column_means`.
    """
    if isinstance(X, ColumnSummary):
        return X.occupied / X.counts
    if weights is None:
        return column_means(nonzero(X, namespace(X).float64))
    return column_means(X, weights, lambda rows: nonzero(rows, rows.dtype))


def row_count(X: Array, weights: np.ndarray | None = None) -> Any:
    """Return how many rows X stands for; of a :class:`ColumnSummary`, an array if values miss."""
    if isinstance(X, ColumnSummary):
        return X.n_known
    if weights is None:
        return X.shape[0]
    n = float(np.sum(weights))
    return n if getattr(X, "total", None) is None else float(X.total(np.array([n]))[0])


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


class ColumnSummary:
    """Means and variances of the columns of data that are read once, and the range of all values.

    Blocks of rows are added one after another. NaN is missing: it does not count.

    Attributes
    ----------
    shape : tuple of int
        Numbers of rows and of columns.
    counts : array of shape (n_columns,)
        How many values of each column are known, float64.
    occupied : array of shape (n_columns,)
        How many of them are not 0, float64.
    has_missing : bool
        Whether values are missing.
    """

    def __init__(self) -> None:
        self.shape, self.has_missing = (0, 0), False
        self._ends: Any = None  # the smallest and the largest value of each column
        self.counts: Array = 0.0
        self.occupied: Array = 0.0
        self._mean: Array = 0.0
        self._scatter: Array = 0.0

    def add(self, X: Array, values: Array | None = None) -> None:
        """Add the rows of X, or what stands for them in all but the range: ``values``."""
        xp, ends = namespace(X), _column_ends(X)
        last = ends if self._ends is None else self._ends
        self._ends = xp.minimum(last[0], ends[0]), xp.maximum(last[1], ends[1])
        values = X if values is None else values
        missing = has_missing(values)
        self.has_missing |= missing
        self.shape = self.shape[0] + X.shape[0], X.shape[1]
        for rows in row_blocks(values, max(1, _BLOCK_ELEMENTS // X.shape[1])):
            rows = rows.toarray() if sp.issparse(rows) else rows
            self._add(cast(rows, namespace(rows).float64), missing)

    def _add(self, rows: Array, missing: bool) -> None:
        """Add float64 rows (Chan, Golub & LeVeque 1983: no difference of large squares)."""
        xp, ones = namespace(rows), namespace(rows).ones_like(rows[:, 0])
        counts = rows.shape[0] * ones[0] + xp.zeros_like(rows[0, :])
        if missing:
            known = rows == rows
            rows, counts = xp.where(known, rows, 0.0 * ones[:1]), ones @ cast(known, rows.dtype)
        mean = (ones @ rows) / xp.clip(counts, 1.0, None)
        deviations = rows - mean
        if missing:
            deviations = deviations * cast(known, rows.dtype)
        deviations *= deviations
        total = self.counts + counts
        share, step = counts / xp.clip(total, 1.0, None), mean - self._mean
        self._scatter = self._scatter + ones @ deviations + step * step * share * self.counts
        self._mean, self.counts = self._mean + step * share, total
        self.occupied = self.occupied + ones @ cast(rows != 0, rows.dtype)

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        least, most = self._ends
        return float(namespace(least).min(least)), float(namespace(most).max(most))

    def part(self, columns: Any) -> "ColumnSummary":
        """Return the summary of some columns, a slice or an index array of NumPy."""
        found = ColumnSummary()
        for name in ("counts", "occupied", "_mean", "_scatter"):
            setattr(found, name, take_columns(getattr(self, name), columns))
        found._ends = tuple(take_columns(end, columns) for end in self._ends)
        found.shape = self.shape[0], found.counts.shape[0]
        found.has_missing = self.has_missing
        return found

    @property
    def means(self) -> Array:
        """The mean of the known values of each column, float64, NaN where there is none."""
        missing = np.nan * namespace(self.counts).ones_like(self.counts)
        return namespace(self.counts).where(self.counts > 0, self._mean, missing)

    @property
    def variances(self) -> Array:
        """The variance of the known values of each column, in float64."""
        return self._scatter / namespace(self.counts).clip(self.counts, 1.0, None)

    @property
    def n_known(self) -> Any:
        """How many rows have a value in each column: a number if all rows have all values."""
        return self.counts if self.has_missing else self.shape[0]
