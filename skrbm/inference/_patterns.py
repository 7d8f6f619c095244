"""Rows by which columns of a normal distribution they miss, and one matrix for each pattern.

That matrix is of the missing columns or of the known ones, whichever are fewer. Matrices of similar
size are factored together, and so are the rows that share them multiplied.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..arrays import from_numpy, inverse_factor, like, namespace, to_numpy


class Part(NamedTuple):
    """Patterns with similar numbers of the fewer columns, at most ``width``.

    Rows of a pattern are cut into blocks of one height, so that few places of the blocks are empty
    whether each row has its own pattern or many share one. Empty places point to a zero.

    Attributes
    ----------
    columns : ndarray of shape (n_patterns, width), int
        The fewer columns, n where a pattern has less of them.
    patterns : ndarray of shape (n_blocks,), int
        The pattern of each block, counted within the part.
    values : ndarray of shape (n_blocks, height, width), int
        Where the values of a block are in an array of shape (n_rows, n), n_rows * n for none.
    """

    columns: np.ndarray
    patterns: np.ndarray
    values: np.ndarray


@dataclass(frozen=True, eq=False)
class Patterns:
    """The patterns of missing values in rows.

    Parameters
    ----------
    observed : array of shape (n_rows, n), bool

    Attributes
    ----------
    missing, fewer : ndarray of shape (n_patterns, n), bool
        The missing columns of each pattern, and those that are factored.
    of_rows : ndarray of shape (n_rows,), int
        The pattern of each row.
    knows_fewer : ndarray of shape (n_patterns, 1), bool
        Whether fewer columns of a pattern are known than missing.
    """

    observed: Any

    def __post_init__(self):
        observed = to_numpy(self.observed)
        patterns, of_rows = np.unique(observed, axis=0, return_inverse=True)
        knows_fewer = 2 * patterns.sum(axis=1, keepdims=True) < patterns.shape[1]
        fewer = np.where(knows_fewer, patterns, ~patterns)
        names = {"missing": ~patterns, "of_rows": of_rows.ravel(), "fewer": fewer}
        self.__dict__.update(names, knows_fewer=knows_fewer)

    @cached_property
    def _rows_know_fewer(self):
        """Whether each row knows fewer columns than it misses, an array of shape (n_rows, 1)."""
        return from_numpy(self.knows_fewer[self.of_rows], self.observed)

    def either(self, known, missing):
        """Return ``known()`` in rows that know fewer columns, and ``missing()`` in the others.

        Both return an array with these rows, and neither is called without any.
        """
        if self.knows_fewer.all():
            return known()
        if not self.knows_fewer.any():
            return missing()
        return namespace(self.observed).where(self._rows_know_fewer, known(), missing())

    @cached_property
    def _parts(self):
        """The parts, and the patterns in their order.

        Sizes of a part differ by less than a factor of two, so that it is at most eight times the
        work of one without empty places.
        """
        sizes = self.fewer.sum(axis=1)
        levels = np.frexp(sizes)[1]
        order = [np.flatnonzero(levels == level) for level in np.unique(levels[sizes > 0])]
        return [self._part(patterns) for patterns in order], order

    def _part(self, patterns):
        n = self.fewer.shape[1]
        fewer = self.fewer[patterns]
        width = fewer.sum(axis=1).max()
        columns = np.argsort(~fewer, axis=1, kind="stable")[:, :width]
        columns = np.where(np.take_along_axis(fewer, columns, axis=1), columns, n)
        place = np.full(len(self.fewer), len(patterns))
        place[patterns] = np.arange(len(patterns))
        own = place[self.of_rows]
        rows = np.argsort(own, kind="stable")[: (own < len(patterns)).sum()]
        counts = np.bincount(own[rows], minlength=len(patterns))
        height = -(-len(rows) // len(patterns))
        n_blocks = -(-counts // height)
        rank = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        block = np.repeat(np.cumsum(n_blocks) - n_blocks, counts) + rank // height
        table = np.full((n_blocks.sum(), height), -1)
        table[block, rank % height] = rows
        of_blocks = np.repeat(np.arange(len(patterns)), n_blocks)
        table, own = table[:, :, None], columns[of_blocks][:, None, :]
        values = np.where((table < 0) | (own == n), self.of_rows.size * n, table * n + own)
        return Part(columns, of_blocks, values)

    @cached_property
    def _back(self):
        """Where the values of (n_rows, n) are in those of all parts, one after another."""
        n_values, start = self.of_rows.size * self.fewer.shape[1], 0
        back = np.full(n_values, sum(part.values.size for part in self._parts[0]))
        for part in self._parts[0]:
            values = part.values.ravel()
            filled = np.flatnonzero(values < n_values)
            back[values[filled]] = start + filled
            start += values.size
        return from_numpy(back, self.observed)

    @cached_property
    def _indices(self):
        """Of each part where its matrices and the values of its blocks are, flat."""
        found, n = [], self.fewer.shape[1]
        for part, own in zip(*self._parts, strict=True):
            columns, width = part.columns, part.columns.shape[1]
            places = columns[:, :, None] * n + columns[:, None, :]
            places = places + self.knows_fewer[own][:, :, None] * n * n
            empty = (columns == n)[:, :, None] | (columns == n)[:, None, :]
            places = np.where(empty, 2 * n * n + np.eye(width, dtype=int), places)
            flat = (places.ravel(), part.patterns, part.values.ravel())
            found.append(tuple(from_numpy(index, self.observed) for index in flat))
        return found

    def factors(self, P, C):
        """Return R of each part, an array of shape (n_patterns, width, width).

        R' R is the inverse of the matrix of the fewer columns: of C where these are known, and of P
        where they are missing. In empty places it is that of the identity.
        """
        xp, found = namespace(P), []
        numbers = xp.concat([xp.reshape(P, (-1,)), xp.reshape(C, (-1,)), xp.arange(2, **like(P))])
        for part, (places, _, _) in zip(self._parts[0], self._indices, strict=True):
            width = part.columns.shape[1]
            found.append(inverse_factor(xp.reshape(xp.take(numbers, places), (-1, width, width))))
        return found

    def apply(self, factors, function, *arrays):
        """Return ``function(R, *blocks)`` in the fewer columns of each row, and zeros elsewhere.

        ``arrays`` have the shape (n_rows, n), and blocks of them (n_blocks, height, width), with
        zeros in empty places.
        """
        xp, found = namespace(self.observed), []
        zero = xp.zeros((1,), **like(arrays[0]))
        flat = [xp.concat([xp.reshape(array, (-1,)), zero]) for array in arrays]
        parts = zip(factors, self._parts[0], self._indices, strict=True)
        for R, part, (_, patterns, places) in parts:
            blocks = [xp.reshape(xp.take(array, places), part.values.shape) for array in flat]
            result = function(xp.take(R, patterns, axis=0), *blocks)
            found.append(xp.reshape(result, (-1,)))
        return xp.reshape(xp.take(xp.concat([*found, zero]), self._back), arrays[0].shape)

    def forms(self, factors, C, X):
        """Return X' S X of each pattern, where S is the covariance of the missing columns.

        S is C_mm - C_mk C_kk^-1 C_km, or P_mm^-1, and zero elsewhere. X has the shape (n, k).
        """
        xp, CX = namespace(C), C @ X
        zeros, found = xp.zeros((1, X.shape[1]), **like(C)), []
        rows = xp.concat([X, CX, zeros], axis=0)
        n, (parts, order) = X.shape[0], self._parts
        for R, part, own in zip(factors, parts, order, strict=True):
            index = np.where(part.columns < n, part.columns + n * self.knows_fewer[own], 2 * n)
            own_rows = xp.take(rows, from_numpy(index.ravel(), C), axis=0)
            B = R @ xp.reshape(own_rows, (*part.columns.shape, X.shape[1]))
            found.append(B.mT @ B)
        found = xp.concat([*found, xp.zeros((1, X.shape[1], X.shape[1]), **like(C))], axis=0)
        back = np.full(len(self.fewer), found.shape[0] - 1)
        back[np.concatenate([*order, []]).astype(int)] = np.arange(found.shape[0] - 1)
        found = xp.take(found, from_numpy(back, C), axis=0)
        knows_fewer = from_numpy(self.knows_fewer[:, :, None], C)
        return xp.where(knows_fewer, X.T @ CX - found, found)
