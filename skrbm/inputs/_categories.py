"""Values of columns of categories: finding them, their codes, and one-hot columns of codes."""

import warnings

import numpy as np
import scipy.sparse as sp

from ..exceptions import DataRangeWarning
from ._frames import column_of, is_frame, missing_values


def values_of(X, j, values):
    """Return the values that the dtype of a column declares, or else the known ``values``."""
    dtype = getattr(column_of(X, j), "dtype", None) if is_frame(X) else None
    declared = getattr(dtype, "categories", None)
    # The dtype Categorical of polars has the categories of all columns in the process.
    if np.iterable(declared) and type(dtype).__name__ != "Categorical":
        return given_values(declared, j)
    if values.dtype.kind == "f" and "int" in str(dtype).lower():  # nullable integers
        values = values.astype(np.int64)
    return _distinct(values, f"column {(X.columns[j] if is_frame(X) else j)!r} of X")


def given_values(values, j):
    """Return given categories of column ``j`` as a checked array."""
    values = list(values) if not hasattr(values, "dtype") else values
    known, name = np.asarray(values), f"categories[{j}]"
    if known.dtype.kind in "US" and any(not isinstance(value, str) for value in values):
        known = _objects(values)
    if known.ndim != 1 or not len(known) or missing_values(known, name).any():
        raise ValueError(f"{name} must be a non-empty list of values, none of them missing")
    if len(set(known.tolist())) < len(known):
        raise ValueError(f"{name} has duplicate values: {known.tolist()}")
    return known


def joined_values(parts, name):
    """Return the union of the values of a column in several blocks or ranks, sorted."""
    if all(np.array_equal(part, parts[0]) for part in parts):
        return parts[0]
    if len({part.dtype.kind in "biuf" for part in parts}) > 1:
        parts = [part.astype(object) for part in parts]
    return _distinct(np.concatenate(parts), name)


def _distinct(values, name):
    if values.dtype.kind != "O":
        return np.unique(values)
    try:
        return _objects(sorted(set(values.tolist())))
    except TypeError as error:
        types = sorted({type(value).__name__ for value in values})
        raise TypeError(
            f"{name} has values of types {types}; convert them all to numbers or to strings"
        ) from error


def _objects(values):
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def codes_of(categories, column):
    """Return the code of each value of a column, -1 where missing, and which are unknown."""
    known = ~missing_values(column)
    codes, values = np.full(len(column), -1, dtype=np.int32), column[known]
    code = {value: i for i, value in enumerate(categories.tolist())}
    if values.dtype.kind == "O":
        found = np.array([code.get(value, -1) for value in values], dtype=np.int32)
    else:
        distinct, inverse = np.unique(values, return_inverse=True)
        found = np.array([code.get(v, -1) for v in distinct.tolist()], dtype=np.int32)[inverse]
    codes[known] = found
    return codes, known & (codes < 0)


def report_unknown(unknown, handle_unknown):
    """Warn of unknown values, arrays by the name of the column, or raise ValueError."""
    names = [name for name, values in unknown.items() if len(values)]
    if not names or handle_unknown == "ignore":
        return
    values = list(dict.fromkeys(unknown[names[0]].tolist()))[:10]
    found = f"Found unknown categories {values} in column {names[0]!r} of X"
    if len(names) > 1:
        found += f", and others in columns {names[1:11]}"
    if handle_unknown == "error":
        raise ValueError(found)
    warnings.warn(
        f"{found}, which are treated as missing; declare all values with a categorical dtype or "
        "with categories, or set handle_unknown",
        DataRangeWarning,
        stacklevel=2,
    )


def one_hot(codes, sizes):
    """Return codes of sites as one-hot columns in a CSR matrix of bytes.

    ``sizes`` are the numbers of values of the sites. If codes are missing, -1, the matrix is of
    float32 with NaN in all columns of a missing site.
    """
    sizes = np.array(sizes)
    first, shape = np.cumsum(sizes) - sizes, (len(codes), int(sizes.sum()))
    missing = codes < 0
    index = np.int32 if shape[0] * shape[1] < 2**31 else np.int64
    if not missing.any():
        columns = (codes + first.astype(index)).ravel()
        ends = np.arange(0, codes.size + 1, len(sizes), dtype=index)
        return sp.csr_array((np.ones(codes.size, np.uint8), columns, ends), shape=shape)
    counts = np.where(missing, sizes, 1)
    starts, flat = np.where(missing, 0, codes) + first, counts.ravel()
    within = np.arange(flat.sum()) - np.repeat(np.cumsum(flat) - flat, flat)
    columns = (np.repeat(starts.ravel(), flat) + within).astype(index)
    entries = np.repeat(np.where(missing, np.nan, 1.0).astype(np.float32).ravel(), flat)
    ends = np.append(0, np.cumsum(counts.sum(axis=1))).astype(index)
    return sp.csr_array((entries, columns, ends), shape=shape)
