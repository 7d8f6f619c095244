"""Rows that are read block by block, because all of them would not fit into memory.

The libraries that hold such rows are known by what their arrays offer: none is imported.
"""

import mmap
import os
from functools import cached_property
from pathlib import Path

import numpy as np

from .._checks import check_count
from ..arrays import parameter_reference

_BLOCK_BYTES = 2**20  # so that several blocks, from all over the data, are shuffled together
_MAPPED_BYTES = 2**30  # of a memory map that is read in blocks; smaller ones are usual arrays


class RowBlocks:
    """Rows of data that are read block by block, which estimators take in the place of an array.

    A subclass gives ``n_blocks`` and ``block(i)``, so that blocks can be read in any order; or it
    leaves ``n_blocks`` None and gives ``__iter__``, which yields the blocks one after another, the
    same in each pass.

    Attributes
    ----------
    n_blocks : int or None
        Number of blocks, None if they can only be read one after another.
    is_read_once : bool
        Whether there is but one pass over the blocks.
    """

    n_blocks: int | None = None
    is_read_once = False

    def block(self, i):
        """Return block ``i``, an array of shape (n_rows, n_columns) or what can be made one."""
        raise NotImplementedError

    def __iter__(self):
        return (self.block(i) for i in range(self.n_blocks))

    def numbered(self, order=None):
        """Yield pairs of the number of a block and the block, in an order if that is possible."""
        if order is None or self.n_blocks is None:
            return enumerate(self)
        return ((i, self.block(i)) for i in map(int, order))

    def name(self, i):
        """Return what errors call block ``i``."""
        return f"block {i} of X"


class SlicedRows(RowBlocks):
    """Blocks of one array of which slices are read: an HDF5 or a Zarr dataset, or a memory map.

    Parameters
    ----------
    array : object with ``shape``, ``dtype`` and ``__getitem__``
        Of shape (n_rows, n_columns).
    n_rows : int, default=None
        Number of rows of a block; default: those of a MiB, and whole chunks if the array is stored
        in chunks.
    """

    def __init__(self, array, n_rows=None):
        if len(array.shape) != 2:
            raise ValueError(f"X must have 2 dimensions, got shape {tuple(array.shape)}")
        self.array, self.n_rows = array, n_rows or _rows_of_block(array)
        self.n_blocks = -(-array.shape[0] // self.n_rows)

    def block(self, i):
        start = i * self.n_rows
        return self.array[start : min(start + self.n_rows, self.array.shape[0])]


def _rows_of_block(array):
    """Return how many rows a block of an array has."""
    bytes_of_row = np.dtype(array.dtype).itemsize * max(1, array.shape[1])
    most, chunks = max(1, _BLOCK_BYTES // bytes_of_row), getattr(array, "chunks", None)
    return most if not chunks else max(1, most // chunks[0]) * chunks[0]


class ArrayFile:
    """A two-dimensional array in a file, of which slices of rows are read when asked.

    What has been read is not kept, as the pages of a memory map are.
    """

    def __init__(self, path, shape, dtype, offset):
        self.path, self.shape, self.dtype, self.offset = path, shape, dtype, offset

    @classmethod
    def of_npy(cls, path):
        """Return the array in a .npy file. Raises ValueError if it cannot be read in rows."""
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }
        with open(path, "rb") as file:
            try:
                version = np.lib.format.read_magic(file)
                shape, by_columns, dtype = read[version](file)
            except KeyError:
                told = f"{path} has a format of .npy files that is not for numbers"
                raise ValueError(told) from None
            except ValueError as error:
                raise ValueError(f"{path} is no .npy file, or a broken one: {error}") from error
            offset = file.tell()
        if dtype.hasobject or len(shape) != 2 or (by_columns and min(shape) > 1):
            raise ValueError(
                f"{path} must hold numbers in 2 dimensions, stored row by row, got shape {shape} "
                f"and dtype {dtype}{', stored column by column' if by_columns else ''}"
            )
        return cls(path, shape, dtype, offset)

    @classmethod
    def of_map(cls, X):
        """Return what a memory map shows of a file, or None if that is not rows of the file."""
        whole = X
        while isinstance(whole.base, np.ndarray):
            whole = whole.base
        mapped = isinstance(whole, np.memmap) and isinstance(whole.base, mmap.mmap)
        if not mapped or whole.filename is None or whole.mode == "c" or not X.flags.c_contiguous:
            return None
        first, start = (array.__array_interface__["data"][0] for array in (X, whole))
        return cls(whole.filename, X.shape, X.dtype, whole.offset + first - start)

    def __getitem__(self, rows):
        n, n_columns = rows.stop - rows.start, self.shape[1]
        begin = self.offset + rows.start * n_columns * self.dtype.itemsize
        found = np.fromfile(self.path, self.dtype, n * n_columns, offset=begin)
        if found.size < n * n_columns:
            raise ValueError(f"{self.path} ends before row {rows.stop}")
        return found.reshape(n, n_columns)


class JoinedRows(RowBlocks):
    """The blocks of several files, one after another.

    Parameters
    ----------
    parts : list of SlicedRows
        Of the files.

    Raises
    ------
    ValueError
        If the files have different numbers of columns.
    """

    def __init__(self, parts):
        first = parts[0].array
        for part in parts:
            if part.array.shape[1] != first.shape[1]:
                raise ValueError(
                    f"{part.array.path} has {part.array.shape[1]} columns, and {first.path} has "
                    f"{first.shape[1]}; all files of X need the same columns"
                )
        self.parts = parts
        self._ends = np.cumsum([part.n_blocks for part in parts])
        self.n_blocks = int(self._ends[-1])

    def block(self, i):
        part, i = self._place(i)
        return part.block(i)

    def name(self, i):
        part, i = self._place(i)
        return f"block {i} of {part.array.path}"

    def _place(self, i):
        """Return the source of a block, and the number of the block in it."""
        k = int(np.searchsorted(self._ends, i, side="right"))
        return self.parts[k], i - int(self._ends[k]) + self.parts[k].n_blocks


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
    """Return a Dask array whose chunks have whole rows, itself if they have."""
    return array if array.numblocks[1] == 1 else array.rechunk({1: -1})


class IteratedRows(RowBlocks):
    """Batches that a function yields, or an iterable that begins anew in each pass.

    A batch may be alone in a tuple or a list, as loaders of torch give those of one tensor.

    Parameters
    ----------
    batches : callable or iterable
    """

    def __init__(self, batches):
        self._begin = batches if callable(batches) else batches.__iter__
        self.is_read_once = hasattr(batches, "__next__")

    def __iter__(self):
        batches = self._begin()
        if not np.iterable(batches):
            raise ValueError(
                f"X is a function that returns {type(batches).__name__}; it must return an "
                "iterator of batches"
            )
        return map(_unpacked, batches)


def _unpacked(batch):
    """Return the batch that is alone in a tuple or a list, or what is given."""
    if isinstance(batch, tuple | list) and any(getattr(part, "ndim", 0) == 2 for part in batch):
        if len(batch) > 1:
            raise ValueError(
                f"X gives batches of {len(batch)} arrays; give those of the features alone, such "
                "as by lambda: (X for X, *_ in loader)"
            )
        return batch[0]
    return batch


class CheckedBlocks(RowBlocks):
    """Blocks of rows, each checked when it is read. Those without rows are left out.

    Parameters
    ----------
    source : RowBlocks
    check : callable
        ``check(block)`` returns an array, or raises ValueError or TypeError.

    Attributes
    ----------
    place : array of shape (1, 1)
        Reference array for parameters, in the library and the working dtype of the first block;
        found when it is asked for.
    """

    def __init__(self, source, check):
        self.source, self._check, self._n_rows = source, check, None
        self.n_blocks, self.is_read_once = source.n_blocks, source.is_read_once

    @cached_property
    def place(self):
        for _, block in self.numbered():
            return parameter_reference(block)

    def name(self, i):
        return self.source.name(i)

    def numbered(self, order=None):
        n_rows = 0
        for number, block in self.source.numbered(order):
            if getattr(block, "shape", (1,))[0] == 0:
                continue
            try:
                block = self._check(block)
            except (TypeError, ValueError) as error:
                raise type(error)(f"{self.source.name(number)}: {error}") from error
            n_rows += block.shape[0]
            yield number, block
        self._end(n_rows)

    def _end(self, n_rows):
        """Raise ValueError if a pass has ended after a number of rows that is not right."""
        if n_rows == 0:
            raise ValueError("X has no rows: it gave no block, or only empty ones")
        if self._n_rows not in (None, n_rows):
            raise ValueError(
                f"X gave {self._n_rows} rows at first and {n_rows} when it was read again; it must "
                "give the same rows in each pass"
            )
        self._n_rows = n_rows

    def __iter__(self):
        return (block for _, block in self.numbered())


def as_blocks(X, n_rows=None):
    """Return data as rows that are read in blocks, whatever their size.

    Parameters
    ----------
    X : object
        A NumPy array or memory map, an HDF5 or Zarr dataset, a Dask array, the path of a .npy file
        or a list of such paths; an iterable of batches, or a function that returns one.
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
        If n_rows is no integer of at least 1, or is given where X has blocks already.
    """
    check_count("n_rows", n_rows, 1, or_none=True)
    if isinstance(X, np.ndarray):
        return SlicedRows(_in_file(X), n_rows)
    blocks = find_blocks(X, n_rows)
    if blocks is None:
        raise TypeError(f"{type(X).__name__} cannot be read in blocks of rows")
    if n_rows is not None and (blocks is X or isinstance(blocks, DaskRows | IteratedRows)):
        raise ValueError(
            f"n_rows={n_rows} is for arrays, datasets and files; {type(X).__name__} has blocks "
            "already: rechunk a Dask array, or yield other batches"
        )
    return blocks


def find_blocks(X, n_rows=None):
    """Return a :class:`RowBlocks` for data that are read in blocks, None for an array in memory."""
    if isinstance(X, RowBlocks):
        return X
    if isinstance(X, np.memmap):
        return SlicedRows(_in_file(X), n_rows) if _is_large(X) else None
    if isinstance(X, np.ndarray) or hasattr(X, "__dlpack__"):
        return None
    paths = [Path(X)] if isinstance(X, str | os.PathLike) else X
    if isinstance(paths, list | tuple):
        if any(is_dask(part) or _is_dataset(part) for part in paths):
            raise ValueError(
                "X is a list of datasets; give a function that yields their rows, such as lambda: "
                "(part[i : i + 1000] for part in X for i in range(0, len(part), 1000)), or join "
                "Dask arrays by dask.array.concatenate"
            )
        if paths and all(getattr(part, "ndim", 0) == 2 for part in paths):
            return IteratedRows(paths)
        if not any(map(_is_path, paths)):
            return None
        for path in paths:
            _check_npy(path)
        return JoinedRows([SlicedRows(ArrayFile.of_npy(path), n_rows) for path in paths])
    if hasattr(X, "visititems") or hasattr(X, "array_keys"):
        raise ValueError(
            f"X is a {type(X).__name__}, which holds datasets by name; give one of them, as X['X']"
        )
    if is_dask(X):
        return DaskRows(X)
    if _is_dataset(X):
        return SlicedRows(X, n_rows)
    return IteratedRows(X) if callable(X) or _yields_batches(X) else None


def is_dask(X):
    """Whether X is a Dask array."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "numblocks")


def _is_path(path):
    """Whether an entry of a list is a path; text may be a value."""
    return isinstance(path, os.PathLike) or (isinstance(path, str) and path.endswith(".npy"))


def _check_npy(path):
    """Raise ValueError unless a path is that of a file of NumPy."""
    if not isinstance(path, str | os.PathLike) or Path(path).suffix != ".npy":
        raise ValueError(
            f"X has the path {str(path)!r}, and only .npy files are read from their paths. Give "
            "the opened dataset of HDF5 or Zarr, numpy.load(path)[name] of .npz, or for other "
            "files a function that returns an iterator of batches, such as lambda: "
            "pandas.read_csv(path, chunksize=10_000)"
        )


def _is_dataset(X):
    """Whether X is an array of HDF5 (which reads directly) or of Zarr, stored in chunks."""
    is_array = all(hasattr(X, name) for name in ("shape", "dtype", "chunks", "__getitem__"))
    return is_array and (X.chunks is not None or hasattr(X, "read_direct"))


def _yields_batches(X):
    known = ("__getitem__", "__array__", "__array_interface__", "shape")
    return hasattr(X, "__iter__") and not any(hasattr(X, name) for name in known)


def _is_large(X):
    """Whether a memory map is read in blocks.

    Maps that joblib makes for its processes are arrays in memory for the user.
    """
    return X.nbytes >= _MAPPED_BYTES and "joblib_memmapping_folder" not in str(X.filename)


def _in_file(X):
    """Return the part of a file that an array in memory maps, or the array itself."""
    found = ArrayFile.of_map(X) if X.ndim == 2 else None
    return X if found is None else found
