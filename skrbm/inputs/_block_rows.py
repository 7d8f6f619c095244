"""The rows of a fit to data that are read in blocks."""

from functools import cached_property

import numpy as np
import scipy.sparse as sp

from .._ranks import ranks
from ..arrays import Columns, ColumnSummary, cast, dense, joined_rows, take_rows, to_numpy
from ._blocks import RowBlocks
from ._check_data import check_held, check_known, check_range, check_squares, into_support
from ._rows import Rows, ends_of_ranks, has_fractions

_POOL_BYTES = 2**27  # of blocks whose rows are shuffled together; at least two blocks are
_SAMPLE_ROWS, _SAMPLE_BYTES = 10_000, 2**26  # of the rows that stay in memory
_SEED = 20160620  # of the choice of these rows, the same in all fits


def rows_of(X, unit, dtype, weights=None, coordinates=None, first=False):
    """Return the rows of a fit: :class:`Rows`, or :class:`BlockRows` of data in blocks.

    With ``first`` each column must have a value, and bounds of ``unit`` that are None become those
    of the data. The other parameters are those of :class:`Rows`.
    """
    if isinstance(X, RowBlocks):
        rows = BlockRows(X, unit, dtype, coordinates)
        if first:
            check_known(rows.columns, unit)
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

    has_fractions = False

    def __init__(self, source, unit, dtype, coordinates=None):
        if source.is_read_once:
            raise TypeError(
                "X is an iterator, which can be read only once; pass a function that returns one"
            )
        if ranks().size > 1:
            raise ValueError("X must be an array in fits on several ranks, not data in blocks")
        self.source, self.dtype, self.unit, self._clips = source, dtype, unit, unit.clips
        self.coordinates, self.weights, self.columns = coordinates, None, ColumnSummary()
        self.X, self._places = self._first_pass()
        self._reference, self.part, self.index = self.X, 1.0, np.arange(len(self._places))
        self._is_validation = np.zeros(len(self._places), dtype=bool)
        self.unit = unit.fitted(self.columns)
        self._clips = check_range(self.columns, self.unit)
        check_squares(self)
        self.total, self.has_missing = self.columns.shape[0], self.columns.has_missing

    def _first_pass(self):
        """Summarize the columns; return sampled rows, and the block and place of each.

        A uniform sample is that of the lowest random keys.
        """
        generator, limit, n, sample = np.random.default_rng(_SEED), np.inf, 0, []
        for i, block in self.source.numbered():
            rows = self._in_support(block)
            self.unit.check_values(rows)
            self.columns.add(block, rows)
            self.has_fractions |= has_fractions(rows, self.unit)
            keys = generator.random(rows.shape[0])
            chosen = np.flatnonzero(keys < limit)
            if chosen.size:
                places = np.column_stack([np.full(chosen.size, i), chosen])
                sample.append((keys[chosen], places, take_rows(rows, chosen)))
                n += chosen.size
            size = max(1, min(_SAMPLE_ROWS, _SAMPLE_BYTES // (8 * rows.shape[1])))
            if n > 2 * size:
                sample = [_lowest(sample, size)]
                n, limit = size, sample[0][0][-1]
        _, places, rows = _lowest(sample, size)
        return rows, places

    @cached_property
    def fingerprint(self):
        """A hash of the rows in memory, and of the means and variances of all rows."""
        summary = np.asarray(self.total), *self.moments
        return self.hashed(lambda positions: [self[positions]], *summary)

    def _in_support(self, rows):
        check_held(rows, self.dtype)
        return into_support(rows, self.unit) if self._clips else rows

    def __getitem__(self, positions):
        """Return the rows at an array of positions, or rows of a batch, as learning takes them."""
        if positions.ndim == 1:
            return super().__getitem__(positions)
        rows = cast(dense(self._in_support(positions)), self.dtype)
        return rows if self.coordinates is None else self.coordinates.inward(rows)

    def _sparse(self, positions):
        if positions.ndim == 1:
            return super()._sparse(positions)
        return sp.csr_array(self._in_support(positions), dtype=self.dtype)

    @property
    def counts(self):
        """Number of rows of the data per row in memory, float64."""
        return np.full(len(self), self.total / len(self))

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
            parts = (block.data, block.indices) if sp.issparse(block) else (block,)
            n_bytes += sum(getattr(p, "nbytes", 8 * p.shape[0] * p.shape[-1]) for p in parts)
            if n_bytes >= _POOL_BYTES and len(pool) > 1:
                yield pool
                n_bytes = 0
        if pool:
            yield pool

    def _without(self, block, places, positions):
        """Return a block without the rows at some places, which must be those at positions."""
        n = block.shape[0]
        found = self._in_support(take_rows(block, places[places < n])), take_rows(self.X, positions)
        if not np.array_equal(*(to_numpy(dense(rows)) for rows in found), equal_nan=True):
            raise ValueError(
                "X must return its rows in the same order each time if some are held out for "
                "validation; fit shuffles them itself"
            )
        return take_rows(block, np.delete(np.arange(n), places))


def _lowest(sample, size):
    """Return the keys, the places and the rows of the lowest keys in a list of these, in order."""
    keys, places, rows = zip(*sample, strict=True)
    keys = np.concatenate(keys)
    first = np.argsort(keys, kind="stable")[:size]
    return keys[first], np.concatenate(places)[first], take_rows(joined_rows(list(rows)), first)
