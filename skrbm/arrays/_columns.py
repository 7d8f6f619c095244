"""Rows and columns of data, dense or sparse, and statistics of the columns."""

from collections.abc import Callable, Iterator
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from ._namespace import (
    Array,
    Index,
    as_like,
    cast,
    from_numpy,
    is_finite,
    is_foreign,
    is_sparse,
    namespace,
    to_numpy,
)

_ROWS, _ELEMENTS = 1024, 2**20  # of blocks of rows: at most so many, and about so many numbers
_SUMMED = 2**16  # numbers of dense rows that are summed together, 512 KiB in float64


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
    return sparse_rows(X, index, dtype).toarray()


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
    if not is_foreign(X):
        return X[index]
    if isinstance(index, slice):
        return X[index, ...]
    return namespace(X).take(X, as_like(index, X), axis=0)


def joined_rows(parts: list[Array]) -> Array:
    """Return the rows of arrays one below the other, sparse if those of the first are."""
    if is_sparse(parts[0]):
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

    NaN is ignored; for a column of nothing else they are infinite.
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
    is_per_row = getattr(weight, "ndim", 0)
    if type(x) is np.ndarray:  # in half of the time of np.sum for few rows
        return weight.dot(x) if is_per_row else np.add.reduce(x, axis=0) * weight
    if is_sparse(x):
        weights = x.data * np.repeat(np.broadcast_to(weight, x.shape[:1]), np.diff(x.indptr))
        return np.bincount(x.indices, weights, x.shape[1]).astype(x.dtype)
    return weight @ x if is_per_row else namespace(x).sum(x, axis=0) * weight


class Columns:
    """The columns of rows in memory.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_rows, n_columns)
    weights : ndarray of shape (n_some,), default=None
        How many rows each row stands for; None is one.
    index : ndarray of int of shape (n_some,), default=None
        Which rows of X these are; None is all, in order.
    total : callable, default=None
        ``total(array)`` adds what other processes have to float64 sums over these rows.
    has_missing : bool, default=False
        Whether NaN is a missing value, which means and variances leave out.

    Attributes
    ----------
    shape : tuple of int
        Numbers of rows, without regard to weights, and of columns.
    """

    def __init__(
        self,
        X: Array,
        weights: np.ndarray | None = None,
        index: np.ndarray | None = None,
        total: Callable[[Array], Array] | None = None,
        has_missing: bool = False,
    ) -> None:
        self.shape = (X.shape[0] if index is None else len(index)), X.shape[1]
        self.weights = np.ones(self.shape[0]) if weights is None else weights
        self.X, self.index, self.total, self.has_missing = X, index, total, has_missing

    def part(self, columns: Any) -> "Columns":
        """Return some of the columns, a slice or an index array of NumPy."""
        X = take_columns(self.X, columns)
        return Columns(X, self.weights, self.index, self.total, self.has_missing)

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest value of X, apart from NaN."""
        return value_range(self.X)

    @property
    def are_known(self) -> np.ndarray:
        """Whether each column has a value that is not NaN, a NumPy array of bool."""
        X = self.X
        if is_sparse(X):
            return np.bincount(X.indices[np.isnan(X.data)], minlength=X.shape[1]) < X.shape[0]
        if not has_missing(X):
            return np.ones(X.shape[1], dtype=bool)
        return to_numpy(namespace(X).any(X == X, axis=0))

    @cached_property
    def n_rows(self) -> float:
        """How many rows these stand for."""
        n = float(np.sum(self.weights))
        return n if self.total is None else float(self.total(np.array([n]))[0])

    @cached_property
    def known_share(self) -> Any:
        """The part of the rows that have a value in each column: 1.0 if all have all."""
        if not self.has_missing:
            return 1.0
        return self.means_of(lambda rows: cast(rows == rows, rows.dtype))

    @property
    def n_known(self) -> Any:
        """How many rows have a value in each column: a number if all rows have all values."""
        return self.n_rows * self.known_share

    @cached_property
    def means(self) -> Array:
        """The mean of the known values of each column, float64, NaN where there is none."""
        return self._of_known(None)

    @cached_property
    def variances(self) -> Array:
        """The variance of the known values of each column, float64."""
        return self._of_known(lambda rows: (rows - self.means) ** 2)

    @property
    def occupied(self) -> Array:
        """The part of the known values of each column that is not 0, float64."""
        return self._of_known(lambda rows: nonzero(rows, rows.dtype))

    def _of_known(self, function: Callable[[Array], Array] | None) -> Array:
        """Return the mean of a function of the values of each column that are known."""
        if not self.has_missing:
            return self.means_of(function)

        def filled(rows: Array) -> Array:
            values = rows if function is None else function(rows)
            return namespace(rows).where(rows == rows, values, namespace(rows).zeros_like(rows))

        with np.errstate(invalid="ignore"):
            return self.means_of(filled) / self.known_share

    def means_of(self, function: Callable[[Array], Array] | None) -> Array:
        """Return the mean, over the rows, of a function of float64 rows; None is the rows."""

        def sums(rows: Array, w: np.ndarray) -> Array:
            if function is None and is_sparse(rows):
                return np.asarray(rows.astype(np.float64).T @ w)
            rows = _wide(rows) if function is None else function(_wide(rows))
            return from_numpy(w, rows) @ rows

        return self._mean(sums)

    def mean_products(self, function: Callable[[Array], Array]) -> Array:
        """Return the mean of f(x) f(x)' over the rows x, for a function of float64 rows."""

        def sums(rows: Array, w: np.ndarray) -> Array:
            rows = function(_wide(rows))
            return (from_numpy(w, rows)[:, None] * rows).T @ rows

        return self._mean(sums)

    def _mean(self, sums: Callable[[Array, np.ndarray], Array]) -> Array:
        """Return the sum of ``sums(rows, weights)`` of blocks of rows, over the sum of weights."""
        total: Array = 0.0
        size = block_rows(self.shape[1], _SUMMED)
        for start in range(0, self.shape[0], size):
            block = slice(start, min(start + size, self.shape[0]))
            rows = block if self.index is None else self.index[block]
            total = total + sums(take_rows(self.X, rows), self.weights[block])
        return (total if self.total is None else self.total(total)) / self.n_rows


def _wide(rows: Array) -> Array:
    """Return rows that are dense, in float64."""
    return cast(dense(rows), namespace(rows).float64)


class ColumnSummary:
    """Statistics of the columns of data that are read once, in blocks of rows.

    It has the attributes of :class:`Columns`, except for means of functions. NaN is missing and
    ignored.
    """

    def __init__(self) -> None:
        self.shape, self.has_missing = (0, 0), False
        self._ends: Any = None  # the smallest and the largest value of each column
        self.counts: Array = 0.0  # of the known values of each column, float64
        self._n_occupied: Array = 0.0
        self._mean: Array = 0.0
        self._scatter: Array = 0.0

    def add(self, X: Array, values: Array | None = None) -> None:
        """Add the rows of X; sums are those of ``values`` if they are given."""
        xp, ends = namespace(X), column_ends(X)
        last = ends if self._ends is None else self._ends
        self._ends = xp.minimum(last[0], ends[0]), xp.maximum(last[1], ends[1])
        values = X if values is None else values
        self.has_missing |= has_missing(values)
        self.shape = self.shape[0] + X.shape[0], X.shape[1]
        for rows in row_blocks(values, block_rows(X.shape[1], _SUMMED)):
            self._add(_wide(rows))

    def _add(self, rows: Array) -> None:
        """Add float64 rows (Chan, Golub & LeVeque 1983: no difference of large squares)."""
        xp, ones = namespace(rows), namespace(rows).ones_like(rows[:, 0])
        known = rows == rows
        rows, known = xp.where(known, rows, 0.0 * ones[:1]), cast(known, rows.dtype)
        counts = ones @ known
        mean = (ones @ rows) / xp.clip(counts, 1.0, None)
        deviations = (rows - mean) * known
        deviations *= deviations
        total = self.counts + counts
        share, step = counts / xp.clip(total, 1.0, None), mean - self._mean
        self._scatter = self._scatter + ones @ deviations + step * step * share * self.counts
        self._mean, self.counts = self._mean + step * share, total
        self._n_occupied = self._n_occupied + ones @ cast(rows != 0, rows.dtype)

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest value, apart from NaN."""
        least, most = self._ends
        return float(namespace(least).min(least)), float(namespace(most).max(most))

    def part(self, columns: Any) -> "ColumnSummary":
        """Return the summary of some columns, a slice or an index array of NumPy."""
        found = copy(self)
        for name in ("counts", "_n_occupied", "_mean", "_scatter"):
            setattr(found, name, take_columns(getattr(self, name), columns))
        found._ends = tuple(take_columns(end, columns) for end in self._ends)
        found.shape = self.shape[0], found.counts.shape[0]
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
    def known_share(self) -> Any:
        """The part of the rows that have a value in each column: 1.0 if all have all."""
        return self.counts / self.shape[0] if self.has_missing else 1.0

    @property
    def n_known(self) -> Any:
        """How many rows have a value in each column: a number if all rows have all values."""
        return self.counts if self.has_missing else self.shape[0]

    @property
    def occupied(self) -> Array:
        """The part of the known values of each column that is not 0, float64."""
        return self._n_occupied / self.counts

    @property
    def are_known(self) -> np.ndarray:
        """Whether each column has a value that is not NaN, a NumPy array of bool."""
        return to_numpy(self.counts > 0)
