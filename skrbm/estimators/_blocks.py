"""Public methods of rows that are read in blocks."""

import copy
from functools import wraps

from ..arrays import namespace
from ..inputs import find_blocks, is_dask, whole_rows


def by_blocks(method):
    """Let a method whose result has a row for each row of X take an X that is read in blocks.

    The method is called for each block, and the results are joined. Of a Dask array, the result is
    one too, computed when it is asked for.
    """

    @wraps(method)
    def wrapper(self, X, *args):
        blocks = find_blocks(X)
        if blocks is None:
            return method(self, X, *args)
        if is_dask(X):
            return _lazy(method, self, X, args)
        parts = [method(self, block, *args) for block in blocks if _has_rows(block)]
        if not parts:
            raise ValueError("X has no rows: it gave no block, or only empty ones")
        return namespace(parts[0]).concat(parts, axis=0)

    return wrapper


def _has_rows(block):
    return getattr(block, "shape", (1,))[0] > 0


def _lazy(method, estimator, X, args):
    """Return a Dask array of what a method gives of the chunks of X."""
    estimator = copy.copy(estimator)  # of which a later fit changes nothing
    rows, X = estimator._decode(estimator.starts_[:1, ...]), whole_rows(X)
    example = method(estimator, rows, *args)[:0, ...]

    def of_chunk(block):
        return method(estimator, block, *args) if block.shape[0] else example

    width = example.shape[1:]
    return X.map_blocks(
        of_chunk,
        dtype=example.dtype,
        meta=example,
        chunks=(X.chunks[0], *((n,) for n in width)),
        drop_axis=None if width else 1,
    )
