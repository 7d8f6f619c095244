"""Public methods of rows that are read in blocks."""

import copy
import importlib
import itertools
from functools import wraps

from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..arrays import namespace
from ..inputs import check_n_features, find_blocks, is_dask, library_of, whole_rows
from ._encoded import decoded


def by_blocks(method):
    """Let a method whose result has a row for each row of X take an X that is read in blocks.

    The method is called for each block, and the results are joined. Of a Dask array, the result is
    one too, computed when it is asked for. With ``random_state`` each block has a seed of its own,
    which the order in which blocks are computed does not change.
    """

    @wraps(method)
    def wrapper(self, X, *args, **options):
        blocks = find_blocks(X)
        if blocks is None:
            return method(self, X, *args, **options)
        if is_dask(X):
            return _lazy(method, self, X, args, options)
        parts = [
            method(self, block, *args, **own)
            for block, own in zip(blocks, _for_blocks(options), strict=False)
            if _has_rows(block)
        ]
        if not parts:
            raise ValueError("X has no rows: it gave no block, or only empty ones")
        return joined_rows(parts)

    return wrapper


def joined_rows(parts):
    """Return arrays or DataFrames of rows as one."""
    library = library_of(parts[0])
    xp = namespace(parts[0]) if library is None else importlib.import_module(library)
    return xp.concat(parts, axis=0) if library is None else xp.concat(parts)


def _has_rows(block):
    return getattr(block, "shape", (1,))[0] > 0


def _for_blocks(options):
    """Yield the options of each block, which differ in their seeds."""
    if options.get("random_state") is None:
        yield from itertools.repeat(options)
    rng = check_random_state(options["random_state"])
    while True:
        yield {**options, "random_state": int(rng.randint(2**31 - 1))}


def _lazy(method, estimator, X, args, options):
    """Return a Dask array of what a method gives of the chunks of X."""
    check_is_fitted(estimator)
    check_n_features(estimator, X)
    estimator = copy.copy(estimator)  # of which a later fit changes nothing
    estimator._frame = None  # the result is an array
    rows, X = decoded(estimator, [estimator.starts_[:1, ...]]), whole_rows(X)
    example = method(estimator, rows, *args, **options)[:0, ...]
    own = list(itertools.islice(_for_blocks(options), X.numblocks[0]))

    def of_chunk(block, block_id=None):
        if not block.shape[0]:
            return example
        return method(estimator, block, *args, **own[block_id[0]])

    width = example.shape[1:]
    return X.map_blocks(
        of_chunk,
        dtype=example.dtype,
        meta=example,
        chunks=(X.chunks[0], *((n,) for n in width)),
        drop_axis=None if width else 1,
    )
