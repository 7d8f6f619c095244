"""Data that are read in blocks of rows because they do not fit into memory.

HDF5, Zarr and Dask arrays are recognized by their attributes; none of these libraries is imported.
"""

import os
from functools import cached_property
from pathlib import Path

import numpy as np

from .._checks import check_count
from ..arrays import parameter_reference

_BLOCK_BYTES = 2**20  # small, so that blocks from all over the data are shuffled together
_MAPPED_BYTES = 2**30  # smaller memory maps are ordinary arrays


class RowBlocks:
    """Rows of data that are read in blocks, which estimators take in the place of an array.

    A subclass defines either ``n_blocks`` and ``block(i)``, so that blocks can be read in any
    order, or ``__iter__``, which yields the same blocks in the same order each time.

    Attributes
    ----------
    n_blocks : int or None
        Number of blocks, None if they can only be read one after another.
    is_read_once : bool
        Whether the blocks can be read only once.
    """

    n_blocks: int | None = None
    is_read_once = False

    def block(self, i):
        """Return block ``i``, an array-like of shape (n_rows, n_columns)."""
        raise NotImplementedError

    def __iter__(self):
        return (self.block(i) for i in range(self.n_blocks))

    def numbered(self, order=None):
        """Yield pairs (i, block), in the given order if the blocks can be read in any order."""
        if order is None or self.n_blocks is None:
            return enumerate(self)
        return ((i, self.block(i)) for i in map(int, order))

    def name(self, i):
        """Return the name of block ``i`` in error messages."""
        return f"block {i} of X"


class SlicedRows(RowBlocks):
    """Slices of one array: a NumPy array, a memory map, or an HDF5 or Zarr dataset.

    Parameters
    ----------
    array : object with ``shape``, ``dtype`` and ``__getitem__``
        Of shape (n_rows, n_columns).
    n_rows : int, default=None
        Number of rows of a block; default: those of a MiB, in whole chunks if the array has chunks.
    """

    def __init__(self, array, n_rows=None):
        if len(array.shape) != 2:
            raise ValueError(f"X must have 2 dimensions, got shape {tuple(array.shape)}")
        if n_rows is None:
            bytes_of_row = np.dtype(array.dtype).itemsize * max(1, array.shape[1])
            n_rows, chunks = max(1, _BLOCK_BYTES // bytes_of_row), getattr(array, "chunks", None)
            n_rows = max(1, n_rows // chunks[0]) * chunks[0] if chunks else n_rows
        self.array, self.n_rows = array, n_rows
        self.n_blocks = -(-array.shape[0] // n_rows)

    def block(self, i):
        start = i * self.n_rows
        return self.array[start : min(start + self.n_rows, self.array.shape[0])]


class NpyFile:
    """An array in a .npy file, of which slices of rows are read.

    Unlike the pages of a memory map, rows that have been read take no memory afterwards.
    """

    def __init__(self, path):
        if Path(path).suffix != ".npy":
            raise ValueError(
                f"X has the path {str(path)!r}, and only .npy files are read from their paths; "
                "give an opened dataset or a function that returns an iterator of batches"
            )
        try:
            array = np.load(path, mmap_mode="r")
        except (EOFError, ValueError) as error:
            raise ValueError(f"{path} cannot be read: {error}") from error
        if array.ndim != 2 or not array.flags.c_contiguous:
            raise ValueError(f"{path} must hold a 2D array in C order, got shape {array.shape}")
        self.path, self.shape, self.dtype = path, array.shape, array.dtype
        self.offset = array.offset

    def __getitem__(self, rows):
        n, width = rows.stop - rows.start, self.shape[1]
        begin = self.offset + rows.start * width * self.dtype.itemsize
        return np.fromfile(self.path, self.dtype, n * width, offset=begin).reshape(n, width)


class DaskRows(RowBlocks):
    """The chunks of a Dask array, each computed when it is read."""

    def __init__(self, array):
        if array.ndim != 2:
            raise ValueError(f"X must have 2 dimensions, got shape {array.shape}")
        self.array = whole_rows(array)
        self.n_blocks = self.array.numblocks[0]

    def block(self, i):
        return self.array.blocks[i].compute()


def whole_rows(array):
    """Return a Dask array whose chunks have whole rows."""
    return array if array.numblocks[1] == 1 else array.rechunk({1: -1})


class IteratedRows(RowBlocks):
    """Batches of a function that returns an iterator, or of an iterable.

    A batch may be a tuple or list of one array, as loaders of torch return it.
    """

    def __init__(self, batches):
        self._start = batches if callable(batches) else batches.__iter__
        self.is_read_once = hasattr(batches, "__next__")

    def __iter__(self):
        batches = self._start()
        if not np.iterable(batches):
            raise ValueError(f"X must return an iterator of batches, got {type(batches).__name__}")
        return map(_only_array, batches)


def _only_array(batch):
    """Return the only array of a tuple or list of arrays; other batches as they are."""
    if isinstance(batch, tuple | list) and any(getattr(part, "ndim", 0) == 2 for part in batch):
        if len(batch) > 1:
            raise ValueError(
                f"the batches of X have {len(batch)} arrays; yield the features alone, as in "
                "lambda: (X for X, y in loader)"
            )
        return batch[0]
    return batch


class CheckedBlocks(RowBlocks):
    """Blocks of rows that are checked when they are read. Empty blocks are left out.

    Parameters
    ----------
    source : RowBlocks
    check : callable
        ``check(block)`` returns an array, or raises ValueError or TypeError.

    Attributes
    ----------
    place : array of shape (1, 1)
        Reference array for parameters, in the library and the working dtype of the first block.
    """

    def __init__(self, source, check):
        self.source, self._check, self._n_rows = source, check, None
        self.n_blocks, self.is_read_once = source.n_blocks, source.is_read_once

    @cached_property
    def place(self):
        return parameter_reference(next(iter(self)))

    def name(self, i):
        return self.source.name(i)

    def numbered(self, order=None):
        n_rows = 0
        for i, block in self.source.numbered(order):
            if getattr(block, "shape", (1,))[0] == 0:
                continue
            try:
                block = self._check(block)
            except (TypeError, ValueError) as error:
                raise type(error)(f"{self.source.name(i)}: {error}") from error
            n_rows += block.shape[0]
            yield i, block
        if n_rows == 0:
            raise ValueError("X has no rows")
        if self._n_rows not in (None, n_rows):
            raise ValueError(
                f"X gave {self._n_rows} rows at first and {n_rows} when it was read again"
            )
        self._n_rows = n_rows

    def __iter__(self):
        return (block for _, block in self.numbered())


def as_blocks(X, n_rows=None):
    """Return data as rows that are read in blocks, whatever their size.

    Parameters
    ----------
    X : object
        A NumPy array or memory map, an HDF5 or Zarr dataset, a Dask array, the path of a .npy
        file; an iterable of batches, or a function that returns one.
    n_rows : int, default=None
        Number of rows of a block of an array, a dataset or a file; default: those of a MiB. Dask
        arrays have their chunks, and iterables their batches.

    Returns
    -------
    blocks : RowBlocks
        For ``fit``, ``transform`` and other methods.

    Raises
    ------
    TypeError
        If X is none of these.
    ValueError
        If n_rows is not an integer of at least 1, or is given although X has blocks already.
    """
    check_count("n_rows", n_rows, 1, or_none=True)
    blocks = SlicedRows(X, n_rows) if isinstance(X, np.ndarray) else find_blocks(X, n_rows)
    if blocks is None:
        raise TypeError(f"{type(X).__name__} cannot be read in blocks of rows")
    if n_rows is not None and (blocks is X or isinstance(blocks, DaskRows | IteratedRows)):
        raise ValueError(f"n_rows={n_rows} cannot change the blocks of {type(X).__name__}")
    return blocks


def find_blocks(X, n_rows=None):
    """Return a :class:`RowBlocks` for data that are read in blocks, None for an array in memory."""
    if isinstance(X, RowBlocks):
        return X
    if isinstance(X, np.memmap):
        # joblib maps arrays in memory to share them between processes
        is_large = X.nbytes >= _MAPPED_BYTES and "joblib_memmapping_folder" not in str(X.filename)
        return SlicedRows(X, n_rows) if is_large else None
    if isinstance(X, np.ndarray) or hasattr(X, "__dlpack__"):
        return None
    if isinstance(X, str | os.PathLike):
        return SlicedRows(NpyFile(X), n_rows)
    if isinstance(X, list | tuple):
        is_of_batches = X and all(getattr(part, "ndim", 0) == 2 for part in X)
        return IteratedRows(X) if is_of_batches else None
    if hasattr(X, "visititems") or hasattr(X, "array_keys"):
        raise ValueError(f"X must be a dataset, got the group {type(X).__name__}")
    if is_dask(X):
        return DaskRows(X)
    if _is_dataset(X):
        return SlicedRows(X, n_rows)
    return IteratedRows(X) if callable(X) or _is_plain_iterable(X) else None


def is_dask(X):
    """Whether X is a Dask array."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "numblocks")


def _is_dataset(X):
    """Whether X is an array of HDF5, which has ``read_direct``, or of Zarr, which has chunks."""
    is_array = all(hasattr(X, name) for name in ("shape", "dtype", "chunks", "__getitem__"))
    return is_array and (X.chunks is not None or hasattr(X, "read_direct"))


def _is_plain_iterable(X):
    of_arrays = ("__getitem__", "__array__", "__array_interface__", "shape")
    return hasattr(X, "__iter__") and not any(hasattr(X, name) for name in of_arrays)
