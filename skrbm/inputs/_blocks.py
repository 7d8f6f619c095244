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
    """Rows of data that are read in blocks, which estimators accept instead of an array.

    Parameters
    ----------
    read : callable
        ``read(i)`` returns block ``i``, an array-like of shape (n_rows, n_columns). If ``n_blocks``
        is None, ``read()`` returns an iterable of all blocks, the same each time.
    n_blocks : int, default=None
        Number of blocks; None if they can only be read one after another.
    is_read_once : bool, default=False
        Whether the blocks can be read only once.
    """

    def __init__(self, read, n_blocks=None, is_read_once=False):
        self.read, self.n_blocks, self.is_read_once = read, n_blocks, is_read_once

    def numbered(self, order=None):
        """Yield pairs (i, block), in the given order if the blocks can be read in any order."""
        if self.n_blocks is None:
            return enumerate(self.read())
        order = range(self.n_blocks) if order is None else map(int, order)
        return ((i, self.read(i)) for i in order)

    def __iter__(self):
        return (block for _, block in self.numbered())


class CheckedBlocks(RowBlocks):
    """Blocks of rows that are checked when they are read, and of which empty ones are left out.

    ``check(block)`` returns an array, or raises ValueError or TypeError.
    """

    def __init__(self, source, check):
        super().__init__(source.read, source.n_blocks, source.is_read_once)
        self._check, self._n_rows = check, None

    @cached_property
    def place(self):
        """Reference array for parameters, of the library and the working dtype of the data."""
        return parameter_reference(next(iter(self)))

    def numbered(self, order=None):
        n_rows = 0
        for i, block in super().numbered(order):
            if getattr(block, "shape", (1,))[0] == 0:
                continue
            try:
                block = self._check(block)
            except (TypeError, ValueError) as error:
                raise type(error)(f"block {i} of X: {error}") from error
            n_rows += block.shape[0]
            yield i, block
        if n_rows == 0:
            raise ValueError("X has no rows")
        if self._n_rows not in (None, n_rows):
            raise ValueError(
                f"X had {self._n_rows} rows when first read and {n_rows} when read again"
            )
        self._n_rows = n_rows


def as_blocks(X, n_rows=None):
    """Convert data to blocks of rows, whatever their size.

    Parameters
    ----------
    X : object
        A NumPy array or memory map, an HDF5 or Zarr dataset, a Dask array, the path of a .npy
        file; an iterable of batches, or a function that returns one.
    n_rows : int, default=None
        Number of rows in a block of an array, a dataset or a file; by default those that fill 1
        MiB. The blocks of Dask arrays are their chunks, and those of iterables their batches.

    Returns
    -------
    blocks : RowBlocks
        Can be passed to ``fit``, ``transform`` and other methods.

    Raises
    ------
    TypeError
        If X is none of these.
    ValueError
        If ``n_rows`` is not an integer >= 1, or is given although X already has blocks.
    """
    check_count("n_rows", n_rows, 1, or_none=True)
    blocks = _sliced(X, n_rows) if isinstance(X, np.ndarray) else find_blocks(X, n_rows)
    if blocks is None:
        raise TypeError(f"{type(X).__name__} cannot be read in blocks of rows")
    return blocks


def check_one_array(estimator, X):
    """Raise TypeError if X is data that can only be read in blocks."""
    if find_blocks(X) is not None and not hasattr(X, "__array__"):
        raise TypeError(f"{type(estimator).__name__} needs all rows in one array")


def find_blocks(X, n_rows=None):
    """Return a :class:`RowBlocks` for data that are read in blocks, None for an array in memory."""
    if isinstance(X, np.memmap):
        # joblib maps arrays in memory to share them between processes
        is_large = X.nbytes >= _MAPPED_BYTES and "joblib_memmapping_folder" not in str(X.filename)
        return _sliced(X, n_rows) if is_large else None
    if isinstance(X, np.ndarray) or hasattr(X, "__dlpack__"):
        return None
    if isinstance(X, str | os.PathLike):
        return _npy_file(X, n_rows)
    if _is_dataset(X) and not is_dask(X):
        return _sliced(X, n_rows)
    blocks = None
    if isinstance(X, RowBlocks):
        blocks = X
    elif is_dask(X):
        array = whole_rows(X)
        blocks = RowBlocks(lambda i: array.blocks[i].compute(), array.numblocks[0])
    elif callable(X):
        blocks = RowBlocks(lambda: _batches(X()))
    elif _is_iterable_of_batches(X):
        blocks = RowBlocks(lambda: _batches(X), is_read_once=hasattr(X, "__next__"))
    if blocks is not None and n_rows is not None:
        raise ValueError(f"n_rows={n_rows} cannot change the blocks of {type(X).__name__}")
    return blocks


def _sliced(array, n_rows=None, read=None):
    """Return the slices of a memory map, of an HDF5 or Zarr dataset, or what ``read`` gives.

    By default a block has the rows of a MiB, in whole chunks if the array has chunks.
    """
    _check_2d(array)
    n, read = array.shape[0], array.__getitem__ if read is None else read
    if n_rows is None:
        bytes_of_row = np.dtype(array.dtype).itemsize * max(1, array.shape[1])
        n_rows, chunks = max(1, _BLOCK_BYTES // bytes_of_row), getattr(array, "chunks", None)
        n_rows = max(1, n_rows // chunks[0]) * chunks[0] if chunks else n_rows
    return RowBlocks(lambda i: read(slice(i * n_rows, min((i + 1) * n_rows, n))), -(-n // n_rows))


def _npy_file(path, n_rows):
    """Return slices of the array in a .npy file, which take no memory after they have been read."""
    if Path(path).suffix != ".npy":
        raise ValueError(
            f"X={str(path)!r} is a path, but only .npy files can be read by path; pass "
            "an open dataset or a function that returns an iterator of batches"
        )
    try:
        array = np.load(path, mmap_mode="r")
    except (EOFError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    if array.ndim != 2 or not array.flags.c_contiguous:
        raise ValueError(f"{path} must hold a 2D array in C order, got shape {array.shape}")
    # The pages of a memory map that stays open would stay in memory.
    return _sliced(array, n_rows, lambda rows: np.array(np.load(path, mmap_mode="r")[rows]))


def _check_2d(array):
    if len(array.shape) != 2:
        raise ValueError(f"X must have 2 dimensions, got shape {tuple(array.shape)}")


def _batches(batches):
    """Yield batches; a tuple or list of one array, as loaders of torch return it, is that array."""
    if not np.iterable(batches):
        raise ValueError(f"X must return an iterator of batches, got {type(batches).__name__}")
    for batch in batches:
        if isinstance(batch, tuple | list) and any(getattr(part, "ndim", 0) == 2 for part in batch):
            if len(batch) > 1:
                raise ValueError(
                    f"the batches of X have {len(batch)} arrays; yield the features alone, as in "
                    "lambda: (X for X, y in loader)"
                )
            (batch,) = batch
        yield batch


def is_dask(X):
    """Whether X is a Dask array."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "numblocks")


def whole_rows(array):
    """Return a Dask array whose chunks have whole rows."""
    _check_2d(array)
    return array if array.numblocks[1] == 1 else array.rechunk({1: -1})


def _is_dataset(X):
    """Whether X is an array of HDF5, which has ``read_direct``, or of Zarr, which has chunks."""
    is_array = all(hasattr(X, name) for name in ("shape", "dtype", "chunks", "__getitem__"))
    return is_array and (X.chunks is not None or hasattr(X, "read_direct"))


def _is_iterable_of_batches(X):
    if isinstance(X, list | tuple):
        return bool(X) and all(getattr(part, "ndim", 0) == 2 for part in X)
    of_arrays = ("__getitem__", "__array__", "__array_interface__", "shape")
    return hasattr(X, "__iter__") and not any(hasattr(X, name) for name in of_arrays)
