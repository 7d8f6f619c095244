"""Conversion of X to visible values of a machine, and back.

An estimator of tables has an ``_encoder`` (:class:`skrbm.inputs.TableEncoder` or
``CategoryEncoder``), which converts the columns of X to those of the machine. Since these are often
many more, they are sparse, and made dense for one block of rows at a time. Without an encoder the
columns of X are those of the machine, and ``_frame`` converts visible values to DataFrames after a
fit to a DataFrame.
"""

import copy
import importlib
import itertools
from functools import wraps

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from .._ranks import ranks
from ..arrays import cast, from_numpy, is_foreign, namespace, row_blocks
from ..inputs import (
    CheckedBlocks,
    FrameOfNumbers,
    check_complete,
    check_data,
    check_held,
    check_weights,
    columns_of,
    find_blocks,
    into_support,
    is_dask,
    library_of,
    scaled_weights,
    whole_rows,
)

_MOST_ELEMENTS, _FEWEST_ROWS = 2**20, 256  # of a block of rows that is dense


def takes_table(estimator):
    """Whether an estimator has an encoder, which converts tables to the columns of the machine."""
    return estimator._new_encoder() is not None


def encoded(
    estimator, X, reset=False, *, missing=False, sparse=True, blocks=False, sample_weight=None
):
    """Return X checked, as numbers with a column for each of the machine, and NaN if ``missing``.

    With ``reset`` its features become those of the estimator. With ``blocks``, data that are read
    in blocks stay so, as a RowBlocks. Values of rows whose ``sample_weight`` is 0 do not matter.
    """
    if not takes_table(estimator):
        options = {"missing": missing, "sparse": sparse, "blocks": blocks}
        found = check_data(estimator, X, reset=reset, **options)
        if reset:
            estimator._frame = None if library_of(X) is None else FrameOfNumbers(X)
        return found
    source = find_blocks(X)
    if source is not None and blocks:
        return _encoded_blocks(estimator, source, reset, missing)
    columns = columns_of(estimator, X, reset=reset)
    weights = None
    if sample_weight is not None:
        weights = check_weights(sample_weight, np.empty((len(columns[0]), 0)))
    if weights is not None and not weights.all():  # rows of weight 0 get values of another row
        index = np.where(weights > 0, np.arange(len(weights)), np.argmax(weights))
        columns = [column[index] for column in columns]
    if reset:
        weights = scaled_weights(weights, len(columns[0]))
        encoder = estimator._new_encoder().fit(X, columns, weights)
        estimator._encoder = _of_ranks(encoder, len(columns))
        estimator._encoder.finish()
    place = X if reset else estimator.machine_.weights[0]
    return _encoded_columns(estimator._encoder, columns, place, missing, sparse)


def _encoded_columns(encoder, columns, place, missing, sparse):
    rows = encoder.encode(columns)
    if not missing:
        check_complete(rows)
    if is_foreign(place) or not sparse:
        rows = rows.toarray() if hasattr(rows, "toarray") else rows
    return from_numpy(rows, place) if is_foreign(place) else rows


def _encoded_blocks(estimator, source, reset, missing):
    """Return blocks that are encoded when they are read.

    The encoder is fitted in a first pass or, if there can be only one pass, to the first block.
    """
    place = None if reset else estimator.machine_.weights[0]
    if reset and not source.is_read_once and estimator._new_encoder().finds_values:
        encoder, n_columns = None, 0

        def describe(block):
            nonlocal encoder, n_columns
            columns = columns_of(estimator, block, reset=encoder is None)
            found, n_columns = estimator._new_encoder().fit(block, columns), len(columns)
            encoder = found if encoder is None else encoder.joined([encoder, found])
            return columns[0]

        for _ in CheckedBlocks(source, describe):
            pass
        estimator._encoder, reset = _of_ranks(encoder, n_columns), False
        estimator._encoder.finish()

    def check(block):
        nonlocal reset
        columns = columns_of(estimator, block, reset=reset)
        if reset:
            estimator._encoder = estimator._new_encoder().fit(block, columns)
            estimator._encoder.finish()
        reset, like = False, block if place is None else place
        return _encoded_columns(estimator._encoder, columns, like, missing, sparse=False)

    return CheckedBlocks(source, check)


def blocks_of(estimator, X):
    """Yield rows in blocks that may be dense, for :func:`decoded`: all rows, if X is no table."""
    if not takes_table(estimator):
        yield X
    else:
        width = estimator.machine_.n_units[0]
        yield from row_blocks(X, max(_FEWEST_ROWS, _MOST_ELEMENTS // width))


def decoded(estimator, blocks, like=None, *, drawn=False, completes=False):
    """Return blocks of visible values, or of their means unless ``drawn``, as values of X.

    Data frames have the index of ``like``. If rows complete ``like``, its numbers are kept.
    """
    frame = getattr(estimator, "_frame", None)
    if takes_table(estimator):
        given = columns_of(estimator, like) if completes else None
        found = estimator._encoder.decode(blocks, given, drawn)
    elif frame is None:
        (found,) = blocks  # those of blocks_of
    else:
        found = frame.decode(blocks)
    if hasattr(found, "iloc") and hasattr(like, "iloc"):  # pandas
        found.index = like.index
    return found


def visible_rows(estimator, X, dtype=None, missing=False):
    """Return X checked, as the machine's units take it; with ``missing`` it may have NaN."""
    machine = estimator.machine_
    X = estimator._encode(X, missing=missing and estimator._takes_missing)
    dtype = machine.dtype if dtype is None else dtype
    machine.units[0].check_values(X)
    X = into_support(X, machine.units[0], warn=True)
    check_held(X, dtype)
    return X.astype(dtype) if sp.issparse(X) else cast(X, dtype)


def rows_to_start(estimator, init, n_samples):
    """Return visible values where chains start, dense or sparse."""
    try:
        init = visible_rows(estimator, init)
    except ValueError as error:
        raise ValueError(f"init must have complete rows of the same form as X: {error}") from error
    if init.shape[0] != n_samples:
        raise ValueError(f"init has {init.shape[0]} rows, but n_samples={n_samples}")
    return init


def _of_ranks(encoder, n_columns):
    if ranks().size == 1:
        return encoder
    widths, encoders = zip(*ranks().gather((n_columns, encoder)), strict=True)
    if len(set(widths)) > 1:
        raise ValueError(f"the number of features of X differs between ranks: {list(widths)}")
    return encoder.joined(encoders)


# ------------------------------------------------------------- data that are read in blocks


def by_blocks(method):
    """Let a method whose result has a row for each row of X accept data read in blocks.

    For a Dask array the result is a Dask array. With ``random_state`` each block has its own seed.
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
            if getattr(block, "shape", (1,))[0] > 0
        ]
        if not parts:
            raise ValueError("X has no rows: there are no blocks, or only empty ones")
        library = library_of(parts[0])
        if library is None:
            return namespace(parts[0]).concat(parts, axis=0)
        return importlib.import_module(library).concat(parts)

    return wrapper


def _for_blocks(options):
    if options.get("random_state") is None:
        yield from itertools.repeat(options)
    rng = check_random_state(options["random_state"])
    while True:
        yield {**options, "random_state": int(rng.randint(2**31 - 1))}


def _lazy(method, estimator, X, args, options):
    """Return a Dask array with the results of a method for the chunks of X."""
    check_is_fitted(estimator)
    validate_data(estimator, X, reset=False, skip_check_array=True)
    estimator = copy.copy(estimator)  # of which a later fit changes nothing
    estimator._frame = None  # the result is an array
    if takes_table(estimator):
        estimator._encoder = copy.copy(estimator._encoder)
        estimator._encoder.frame = None
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
