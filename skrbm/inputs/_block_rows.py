"""The data of a fit that are read block by block, in memory of a few blocks."""

from functools import cached_property
from zlib import crc32

import numpy as np
import scipy.sparse as sp

from .._ranks import ranks
from ..arrays import (
    Columns,
    ColumnSummary,
    cast,
    has_missing,
    is_foreign,
    joined_rows,
    namespace,
    parameter_reference,
    take_rows,
    to_numpy,
)
from ._blocks import RowBlocks
from ._check_data import check_held, check_known, check_range, check_squares, into_support
from ._rows import Rows, ends_of_ranks

_POOL_BYTES = 2**27  # of blocks whose rows are shuffled together; two blocks at least
_SAMPLE_ROWS, _SAMPLE_BYTES = 10_000, 2**26  # of the rows that stay in memory
_SEED = 20160620  # of the choice of these rows, which is the same in all fits


def reference_of(X):
    """Return a reference array for parameters learnt from checked data."""
    return X.place if isinstance(X, RowBlocks) else parameter_reference(X)


def rows_of(X, unit, dtype, binarize=None, weights=None, coordinates=None, first=False):
    """Return the data of a fit: :class:`Rows` or, where data are read in blocks, BlockRows.

    With ``first`` each column must have a value, and a unit's bounds that are not given become
    those of the data. The other parameters are those of :class:`Rows`.
    """
    if isinstance(X, RowBlocks):
        rows = BlockRows(X, unit, dtype, binarize, coordinates)
        if first:
            check_known(rows.summary, unit)
        return rows
    if first:
        check_known(Columns(X), unit)
        unit = unit.fitted(ends_of_ranks(X))
    return Rows(X, unit, dtype, binarize, weights, coordinates)


class BlockRows(Rows):
    """The data of a fit, read block by block.

    The first pass sums up the columns, and keeps some rows, drawn at random, in memory: those that
    are measured or set aside, and where chains start. Positions count these rows. In an epoch each
    row that is not set aside comes once: blocks are read in random order, and rows of as many as
    128 MiB hold, or of two, are shuffled together. All rows have the weight 1; equal rows are not
    brought together.

    Parameters
    ----------
    source : CheckedBlocks
    unit : Unit
        Kind of the visible units. Bounds that are not given become those of the data.
    dtype : dtype
        Of the machine.
    binarize : float or None, default=None
        Threshold above which values count as 1.
    coordinates : Coordinates or None, default=None
        Those of learning; None for the data's own.
    """

    def __init__(self, source, unit, dtype, binarize=None, coordinates=None):
        if source.is_read_once:
            raise TypeError(
                "X is an iterator, which can be read only once, and fit reads its rows in every "
                "epoch. Give a function that returns a new iterator, or call partial_fit with the "
                "array of each batch"
            )
        if ranks().size > 1:
            raise ValueError(
                "several processes learn from arrays: give each rank its own rows as an array, or "
                "fit data that are read in blocks in one process"
            )
        self.source, self.dtype, self.binarize = source, dtype, binarize
        self.coordinates, self.weights, self.unit = coordinates, None, unit
        self.summary, self.has_fractions = ColumnSummary(), False
        self.clips = binarize is not None or unit.clips
        self.X, self._places = self._first_pass()
        self._reference, self._is_sent, self.part = self.X, is_foreign(self.X), 1.0
        self._is_aside = np.zeros(len(self._places), dtype=bool)
        self.unit, self.index = unit.fitted(self.summary), np.arange(len(self._places))
        self.clips = check_range(self.summary, self.unit, binarize)
        check_squares(self)
        self.total, self.has_missing = self.summary.shape[0], self.summary.has_missing

    def _first_pass(self):
        """Sum up the columns; returns rows drawn at random, and the blocks and places of these."""
        sample = _Sample(np.random.default_rng(_SEED))
        for number, block in self.source.numbered():
            rows = self._in_support(block)
            self.unit.check_values(rows)
            self.summary.add(block, rows)
            self.has_fractions |= _has_fractions(rows, self.unit)
            sample.add(number, rows)
        return sample.chosen()

    @cached_property
    def fingerprint(self):
        """A text that differs, but for chance, if rows differ, or the blocks that they come in.

        For this all blocks are read once more.
        """
        told = np.asarray([_told_by(block) for _, block in self.source.numbered()])
        return self.told_by(lambda positions: [self[positions]], told)

    def _in_support(self, rows):
        check_held(rows, self.dtype)
        return into_support(rows, self.unit, self.binarize) if self.clips else rows

    def __getitem__(self, positions):
        """Return the rows at an array of positions, or rows of data, as learning takes them."""
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
        """How many rows of the data each row in memory stands for, float64."""
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
        """Return positions in memory to measure and to validate on; the latter are not learnt from.

        They are ``fraction`` of the data, but at most half of the rows in memory.
        """
        if self.total > len(self):
            fraction = min(fraction * self.total / len(self), 0.5)
        train, validation = super().split(fraction, rng, positions)
        if validation is not None:
            self._is_aside[validation] = True
        return train, validation

    def batches(self, positions, rng, n_batches, shuffle):
        """Yield the batches of an epoch, arrays of rows of the data."""
        n_rows = self.total - int(self._is_aside.sum())
        n_batches = n_batches(n_rows)
        size, n_larger = divmod(n_rows, n_batches)
        done, rest = 0, []
        for blocks in self._pools(rng, shuffle):
            pool = joined_rows([*rest, *blocks])
            blocks.clear()  # or else they would be in memory twice
            n = pool.shape[0]
            order = rng.order(n) if shuffle else np.arange(n)
            start, stop = 0, size + (done < n_larger)
            while stop <= n and done < n_batches:
                yield take_rows(pool, order[start:stop])
                done += 1
                start, stop = stop, stop + size + (done < n_larger)
            rest = [take_rows(pool, order[start:])]
            del pool  # or else it would be in memory beside the next two

    def _pools(self, rng, shuffle):
        """Yield lists of several blocks, without the rows set aside; who takes one empties it."""
        order, pool, n_bytes = None, [], 0
        if shuffle and self.source.n_blocks is not None:
            order = rng.order(self.source.n_blocks)
        for number, block in self.source.numbered(order):
            self._check_missing(number, block)
            aside = np.flatnonzero(self._is_aside & (self._places[:, 0] == number))
            if aside.size:
                left_out = self._places[aside, 1]
                self._check_aside(block, left_out, aside)
                block = take_rows(block, np.delete(np.arange(block.shape[0]), left_out))
            pool.append(block)
            n_bytes += _bytes_of(block)
            if n_bytes >= _POOL_BYTES and len(pool) > 1:
                yield pool
                n_bytes = 0
        if pool:
            yield pool

    def _check_missing(self, number, block):
        """Raise ValueError if a block has missing values, and the first pass had none."""
        if not self.has_missing and has_missing(block):
            raise ValueError(
                f"{self.source.name(number)}: it has missing values (NaN), and X had none "
                "when it was first read; it must give the same rows in each pass"
            )

    def _check_aside(self, block, left_out, positions):
        """Raise ValueError unless rows of a block are those at positions in memory."""
        if left_out.max() < block.shape[0]:
            found = self._in_support(take_rows(block, left_out))
            if np.array_equal(_dense(found), _dense(take_rows(self.X, positions)), equal_nan=True):
                return
        raise ValueError(
            "X gives other rows in each pass, or the same in another order, so that those set "
            "aside for validation cannot be left out. Give X without shuffling, which fit does "
            "itself, or learn without validation (early_stopping=False)"
        )


class _Sample:
    """Rows drawn at random from blocks that come one after another: those of the lowest keys."""

    def __init__(self, generator):
        self._generator, self._limit, self._n = generator, np.inf, 0
        self._keys, self._places, self._rows = [], [], []

    def add(self, number, rows):
        """Take in the rows of a block."""
        keys = self._generator.random(rows.shape[0])
        chosen = np.flatnonzero(keys < self._limit)
        if not chosen.size:
            return
        self._keys.append(keys[chosen])
        self._places.append(np.column_stack([np.full(chosen.size, number), chosen]))
        self._rows.append(take_rows(rows, chosen))
        self._n += chosen.size
        if self._n > 2 * _sample_size(rows):
            self._shrink()

    def _shrink(self):
        keys, places = np.concatenate(self._keys), np.concatenate(self._places)
        rows = joined_rows(self._rows)
        first = np.argsort(keys, kind="stable")[: _sample_size(rows)]
        if len(first) < len(keys):
            self._limit = keys[first[-1]]
        self._n = len(first)
        self._keys, self._places = [keys[first]], [places[first]]
        self._rows = [take_rows(rows, first)]

    def chosen(self):
        """Return the rows, in random order, and the number of the block and the place of each."""
        self._shrink()
        return self._rows[0], self._places[0]


def _sample_size(rows):
    return max(1, min(_SAMPLE_ROWS, _SAMPLE_BYTES // (8 * rows.shape[1])))


def _told_by(block):
    """Return the number of rows of a block and a checksum, the same on all processors."""
    is_sparse = sp.issparse(block)
    parts = [block.data, block.indices, block.indptr] if is_sparse else [to_numpy(block)]
    checksum = 0
    for part in parts:
        checksum = crc32(np.ascontiguousarray(part), checksum)
    return block.shape[0], checksum


def _bytes_of(rows):
    if sp.issparse(rows):
        return rows.data.nbytes + rows.indices.nbytes
    return getattr(rows, "nbytes", 8 * rows.shape[0] * rows.shape[1])


def _dense(rows):
    """Return rows as a dense array of NumPy."""
    return rows.toarray() if sp.issparse(rows) else to_numpy(rows)


def _has_fractions(rows, unit):
    """Whether visible units of bits have values between 0 and 1."""
    rows = rows.data if sp.issparse(rows) else rows
    xp = namespace(rows)
    if not unit.has_bits or not xp.isdtype(rows.dtype, "real floating"):
        return False
    return bool(xp.any((rows > 0) & (rows < 1)))
