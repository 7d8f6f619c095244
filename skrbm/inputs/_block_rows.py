"""The rows of a fit to data that are read in blocks."""

from functools import cached_property

import numpy as np
import scipy.sparse as sp

from .._ranks import ranks
from ..arrays import (
    Columns,
    ColumnSummary,
    cast,
    joined_rows,
    parameter_reference,
    take_rows,
    to_numpy,
)
from ._blocks import RowBlocks
from ._check_data import check_held, check_known, check_range, check_squares, into_support
from ._rows import Rows, ends_of_ranks, has_fractions

_POOL_BYTES = 2**27  # of blocks whose rows are shuffled together; at least two blocks are
_SAMPLE_ROWS, _SAMPLE_BYTES = 10_000, 2**26  # of the rows that stay in memory
_SEED = 20160620  # of the choice of these rows, the same in all fits


def reference_of(X):
    """Return a reference array for parameters learnt from checked data."""
    return X.place if isinstance(X, RowBlocks) else parameter_reference(X)


def rows_of(X, unit, dtype, weights=None, coordinates=None, first=False):
    """Return the rows of a fit: :class:`Rows`, or :class:`BlockRows` of data in blocks.

    With ``first`` each column must have a value, and bounds of ``unit`` that are None become those
    of the data. The other parameters are those of :class:`Rows`.
    """
    if isinstance(X, RowBlocks):
        rows = BlockRows(X, unit, dtype, coordinates)
        if first:
            check_known(rows.summary, unit)
        return rows
    if first:
        check_known(Columns(X), unit)
        unit = unit.fitted(ends_of_ranks(X))
    return Rows(X, unit, dtype, weights, coordinates)


class BlockRows(Rows):
    """The rows of a fit that are read in blocks.

    A first pass summarizes the columns and keeps a random sample of rows in memory, for validation,
    measurements and the starts of chains. Positions count these rows. An epoch has each row once,
    without the validation rows: blocks are read in random order, and as many as hold 128 MiB are
    shuffled together. Equal rows are not merged, and all weights are 1.

    Parameters
    ----------
    source : CheckedBlocks
    unit : Unit
        Kind of the visible units. Bounds that are None become those of the data.
    dtype : dtype
        Of the machine.
    coordinates : Coordinates or None, default=None
        Those of learning; None for the data's own.
    """

    def __init__(self, source, unit, dtype, coordinates=None):
        if source.is_read_once:
            raise TypeError("X is an iterator, which can be read only once; give a function")
        if ranks().size > 1:
            raise ValueError("X must be an array in fits of several ranks, not data in blocks")
        self.source, self.dtype, self.unit = source, dtype, unit
        self.coordinates, self.weights = coordinates, None
        self.summary, self.has_fractions = ColumnSummary(), False
        self.clips = unit.clips
        self.X, self._places = self._first_pass()
        self._reference, self.part = self.X, 1.0
        self._is_validation = np.zeros(len(self._places), dtype=bool)
        self.unit, self.index = unit.fitted(self.summary), np.arange(len(self._places))
        self.clips = check_range(self.summary, self.unit)
        check_squares(self)
        self.total, self.has_missing = self.summary.shape[0], self.summary.has_missing

    def _first_pass(self):
        """Summarize the columns; return sampled rows, and the block and place of each."""
        sample = _Sample(np.random.default_rng(_SEED))
        for i, block in self.source.numbered():
            rows = self._in_support(block)
            self.unit.check_values(rows)
            self.summary.add(block, rows)
            self.has_fractions |= has_fractions(rows, self.unit)
            sample.add(i, rows)
        return sample.shrunk()

    @cached_property
    def fingerprint(self):
        """A hash of the rows in memory, and of the means and variances of all rows."""
        summary = np.asarray(self.total), *self.moments
        return self.hashed(lambda positions: [self[positions]], *summary)

    def _in_support(self, rows):
        check_held(rows, self.dtype)
        return into_support(rows, self.unit) if self.clips else rows

    def __getitem__(self, positions):
        """Return the rows at an array of positions, or rows of a batch, as learning takes them."""
        if positions.ndim == 1:
            return super().__getitem__(positions)
        rows = self._in_support(positions)
        rows = cast(rows.toarray() if sp.issparse(rows) else rows, self.dtype)
        return rows if self.coordinates is None else self.coordinates.inward(rows)

    @property
    def range(self):
        return self.summary.range

    @property
    def counts(self):
        """Number of rows of the data per row in memory, float64."""
        return np.full(len(self), self.total / len(self))

    @cached_property
    def initial_theta(self):
        return self.unit.initial_theta(self.summary)

    @cached_property
    def means(self):
        return self.summary.means

    @property
    def moments(self):
        return self.summary.means, self.summary.variances

    @property
    def n_known(self):
        return self.summary.n_known

    def split(self, fraction, rng, positions=None):
        """Return positions in memory to measure on and to validate on.

        The latter are left out of the epochs. They are ``fraction`` of the data, but at most half
        of the rows in memory.
        """
        if self.total > len(self):
            fraction = min(fraction * self.total / len(self), 0.5)
        train, validation = super().split(fraction, rng, positions)
        if validation is not None:
            self._is_validation[validation] = True
        return train, validation

    def batches(self, positions, rng, n_batches):
        """Yield the mini-batches of an epoch, arrays of rows of the data."""
        n_rows = self.total - int(self._is_validation.sum())
        n_batches = n_batches(n_rows)
        size, n_larger = divmod(n_rows, n_batches)
        done, rest = 0, []
        for blocks in self._pools(rng):
            pool = joined_rows([*rest, *blocks])
            blocks.clear()  # frees their memory
            n = pool.shape[0]
            order = rng.order(n)
            start, stop = 0, size + (done < n_larger)
            while stop <= n and done < n_batches:
                yield take_rows(pool, order[start:stop])
                done += 1
                start, stop = stop, stop + size + (done < n_larger)
            rest = [take_rows(pool, order[start:])]
            del pool  # before the next one is read

    def _pools(self, rng):
        """Yield lists of several blocks without validation rows, which the caller empties."""
        n_blocks, pool, n_bytes = self.source.n_blocks, [], 0
        order = None if n_blocks is None else rng.order(n_blocks)
        for i, block in self.source.numbered(order):
            held_out = np.flatnonzero(self._is_validation & (self._places[:, 0] == i))
            if held_out.size:
                block = self._without(block, self._places[held_out, 1], held_out)
            pool.append(block)
            n_bytes += _bytes_of(block)
            if n_bytes >= _POOL_BYTES and len(pool) > 1:
                yield pool
                n_bytes = 0
        if pool:
            yield pool

    def _without(self, block, places, positions):
        """Return a block without the rows at some places, which must be those at positions."""
        n = block.shape[0]
        same = places.max() < n
        if same:
            found = self._in_support(take_rows(block, places)), take_rows(self.X, positions)
            found = [rows.toarray() if sp.issparse(rows) else to_numpy(rows) for rows in found]
            same = np.array_equal(*found, equal_nan=True)
        if not same:
            raise ValueError(
                "X must give its rows in the same order each time if some are held out for "
                "validation; fit shuffles them itself"
            )
        return take_rows(block, np.delete(np.arange(n), places))


class _Sample:
    """A uniform sample of rows of successive blocks: those with the lowest random keys."""

    def __init__(self, generator):
        self._generator, self._limit, self._n = generator, np.inf, 0
        self._keys, self._places, self._rows = [], [], []

    def add(self, i, rows):
        """Sample from the rows of block ``i`` too."""
        keys = self._generator.random(rows.shape[0])
        chosen = np.flatnonzero(keys < self._limit)
        if not chosen.size:
            return
        self._keys.append(keys[chosen])
        self._places.append(np.column_stack([np.full(chosen.size, i), chosen]))
        self._rows.append(take_rows(rows, chosen))
        self._n += chosen.size
        if self._n > 2 * _sample_size(rows):
            self.shrunk()

    def shrunk(self):
        """Return the rows of the lowest keys, in random order, and their blocks and places."""
        keys, places = np.concatenate(self._keys), np.concatenate(self._places)
        rows = joined_rows(self._rows)
        first = np.argsort(keys, kind="stable")[: _sample_size(rows)]
        if len(first) < len(keys):
            self._limit = keys[first[-1]]
        rows, self._n = take_rows(rows, first), len(first)
        self._keys, self._places, self._rows = [keys[first]], [places[first]], [rows]
        return rows, places[first]


def _sample_size(rows):
    return max(1, min(_SAMPLE_ROWS, _SAMPLE_BYTES // (8 * rows.shape[1])))


def _bytes_of(rows):
    if sp.issparse(rows):
        return rows.data.nbytes + rows.indices.nbytes
    return getattr(rows, "nbytes", 8 * rows.shape[0] * rows.shape[1])
