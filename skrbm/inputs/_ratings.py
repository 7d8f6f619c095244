"""Ratings, most of which are missing: sparse rows of known entries, and their effects."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..arrays import cast, working_dtype
from ._rows import DistinctRows

# Ratings that a column or a row needs until its own mean counts half: those of a column must tell
# it from all others, and those of a row from what the columns say (Koren 2010 has 25 and 10 for
# columns and rows of 200 ratings each).
_PRIOR_OF_COLUMNS, _PRIOR_OF_ROWS, _N_SWEEPS = 10.0, 5.0, 20


def seen_entries(X):
    """Return the known entries of checked data as a CSR array of a floating dtype.

    NaN is what is missing in an ndarray, and what is not stored in a sparse matrix, where a stored
    zero is a value.
    """
    dtype = working_dtype(X)
    if sp.issparse(X):
        return sp.csr_array((X.data.astype(dtype), X.indices, X.indptr), shape=X.shape)
    seen = np.nonzero(X == X)
    return sp.csr_array((X[seen].astype(dtype), seen), shape=X.shape)


def rows_of_entries(X):
    """Return the row of each stored entry of a CSR array."""
    return np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))


class Effects(NamedTuple):
    """Expected values of entries given only their row and their column."""

    mean: float  # of all entries
    columns: np.ndarray  # what those of each column are above it, shrunk to 0 where there are few
    scale: float  # standard deviation of the entries about what is expected of them
    least: float
    most: float

    @classmethod
    def fitted(cls, X, weights=None):
        """Return the effects in a CSR array of entries, whose rows may have weights."""
        n, rows = X.shape[1], rows_of_entries(X)
        values, own = X.data.astype(np.float64), np.ones(X.nnz)
        if weights is not None:
            own = np.asarray(weights, dtype=np.float64)[rows]
        largest = float(np.abs(values).max(initial=0.0))
        if largest > 1e100:
            raise ValueError(f"X has values up to {largest:.3g}, whose squares overflow; scale X")
        mean = float(np.average(values, weights=own))
        found = cls(mean, np.zeros(n), 1.0, float(values.min()), float(values.max()))
        counts = np.bincount(X.indices, own, n) + _PRIOR_OF_COLUMNS
        for _ in range(_N_SWEEPS):
            apart = values - mean - found.of_rows(X)[rows]
            columns = np.bincount(X.indices, own * apart, n) / counts
            found = found._replace(columns=columns)
        apart = values - found.expected(X)
        scale = float(np.sqrt(np.average(apart * apart, weights=own)))
        return found._replace(scale=scale if scale > 1e-6 * (1 + abs(mean)) else 1.0)

    def of_rows(self, X):
        """Return the effects of rows: mean entries minus the column effects, shrunk towards 0."""
        rows, n = rows_of_entries(X), X.shape[0]
        sums = np.bincount(rows, X.data - self.mean - self.columns[X.indices], n)
        return sums / (np.diff(X.indptr) + _PRIOR_OF_ROWS)

    def of_rows_without(self, X):
        """Return :meth:`of_rows` for each entry, of the other entries of its row."""
        rows = rows_of_entries(X)
        apart = X.data - self.mean - self.columns[X.indices]
        sums = np.bincount(rows, apart, X.shape[0])[rows] - apart
        return sums / (np.diff(X.indptr)[rows] - 1 + _PRIOR_OF_ROWS)

    def expected(self, X):
        """Return the expected values of the stored entries."""
        own = self.of_rows(X)[rows_of_entries(X)]
        return self.mean + self.columns[X.indices] + own

    def deviations(self, X):
        """Return the entries minus their expected values, in standard deviations."""
        found = (X.data - self.expected(X)) / self.scale
        return sp.csr_array((found.astype(X.dtype), X.indices, X.indptr), shape=X.shape)

    def values(self, X, deviations):
        """Return all entries of the rows of X, dense, at some deviations, within the range."""
        own = self.mean + self.of_rows(X)[:, None] + self.columns
        found = own + self.scale * deviations
        return cast(np.clip(found, self.least, self.most), X.dtype)


class SeenRows(DistinctRows):
    """The distinct rows of a fit that have few entries, as CSR arrays.

    ``mean_seen`` is the mean number of entries of a row, and ``mean_share`` the share of the other
    rows that have an entry in the column of an entry, on average; 1 if there are no others.
    """

    has_fractions = False

    def __init__(self, X, weights=None):
        super().__init__([X], weights)
        self.X = X
        self.mean_seen = float(np.average(np.diff(X.indptr)[self.index], weights=self.counts))
        weights = np.bincount(self.index, self.counts, X.shape[0])[rows_of_entries(X)]
        counts, n_others = np.bincount(X.indices, weights, X.shape[1]), self.total - 1
        others = counts @ np.maximum(counts - 1, 0) / counts.sum()
        self.mean_share = float(others / n_others) if n_others > 0 else 1.0

    def batch(self, positions):
        """Return the rows at an array of positions; no entry is filled in, so that None follows."""
        return self.X[self.places(positions)], None
