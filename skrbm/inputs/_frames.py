"""Columns of arrays and DataFrames as NumPy arrays, and DataFrames of columns."""

import importlib
import re
from datetime import date, time, timedelta
from math import isinf

import numpy as np
from sklearn.utils.validation import check_array, validate_data

from ..arrays import is_foreign, to_numpy
from ._blocks import check_one_array

_TIMES = date, time, timedelta, np.datetime64, np.timedelta64


def columns_of(estimator, X, *, reset=False):
    """Return the columns of an array-like or a DataFrame as NumPy arrays, checked.

    With ``reset`` the features of X become those of the estimator.
    """
    if is_foreign(X):
        X = to_numpy(X)
    check_table(X)
    if is_frame(X):
        if not all(X.shape):
            raise ValueError(f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s)")
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return [np.asarray(column_of(X, j)) for j in range(X.shape[1])]
    check_one_array(estimator, X)
    given, options = X, {"ensure_all_finite": False, "estimator": estimator, "input_name": "X"}
    X = check_array(given, dtype=None, **options)
    if not hasattr(given, "dtype") and X.dtype.kind in "US":  # lists that mix text and numbers
        X = check_array(given, dtype=object, **options)
    if not isinstance(given, np.ndarray):
        check_table(X)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return list(X.T)


def is_frame(X):
    """Whether X is a pandas or polars DataFrame."""
    return all(hasattr(X, name) for name in ("shape", "columns", "dtypes"))  # not a LazyFrame


def library_of(X):
    """Return "pandas" or "polars" for a DataFrame of these, None for anything else."""
    library = type(X).__module__.partition(".")[0]
    return library if is_frame(X) and library in ("pandas", "polars") else None


def column_of(X, j):
    """Return a column of a DataFrame by its position."""
    return X.iloc[:, j] if hasattr(X, "iloc") else X[X.columns[j]]


def check_table(X):
    """Raise an error if X is a table with values that are neither numbers nor labels.

    ValueError is raised for complex numbers, dates and times, masked values and duplicate column
    names, and TypeError for nested values, for a polars LazyFrame and for a dict.
    """
    check_container(X)
    columns = ()
    if is_frame(X):
        names, counts = np.unique([repr(name) for name in X.columns], return_counts=True)
        if (counts > 1).any():
            raise ValueError(
                f"X has several columns named {', '.join(names[counts > 1])}; names must differ"
            )
        columns = ((name, column_of(X, j)) for j, name in enumerate(X.columns))
    elif isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "OmMV":
        columns = enumerate(X.T)
    for name, column in columns:
        dtype, wrong = column.dtype, []
        is_polars, kind = hasattr(dtype, "is_temporal"), getattr(dtype, "kind", "O")
        if kind in "mMcV" or (is_polars and (dtype.is_temporal() or dtype.is_nested())):
            wrong = [f"dtype {dtype}"]
        elif kind == "O" and (not is_polars or str(dtype) == "Object"):
            values = np.asarray(column)
            if values.dtype.kind in "mMcV":  # categories
                wrong = [f"dtype {values.dtype}"]
            elif values.dtype.kind == "O":
                types = set(map(type, values))
                nested = [own.__name__ for own in types if own.__hash__ is None]
                if nested:  # the words of float, which scikit-learn asks for
                    raise TypeError(
                        f"column {name!r} of X has values of type {min(nested)}, and each argument "
                        "must be a string or a number"
                    )
                wrong = [f"type {own.__name__}" for own in types if _is_unusual(own)]
        if wrong:
            raise ValueError(
                f"column {name!r} of X has values of {min(wrong)}; convert them to numbers or "
                "strings"
            )


def _is_unusual(kind):
    """Whether values of a type are times or complex, other than NaT of pandas, which is missing."""
    is_time = issubclass(kind, _TIMES) or kind.__name__ == "Period"
    is_complex = issubclass(kind, complex | np.complexfloating)
    return (is_time or is_complex) and kind.__name__ != "NaTType"


def check_container(X, name="X"):
    """Raise TypeError if X is a LazyFrame or a dict, and ValueError if it has masked values."""
    if type(X).__name__ == "LazyFrame":
        raise TypeError(f"{name} is a LazyFrame, which has no values yet; pass {name}.collect()")
    if type(X) is dict:  # a sparse matrix in DOK format is one of a subclass
        raise TypeError(f"{name} is a dict; pass an array or a DataFrame")
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError(f"{name} has masked values; use {name}.astype(float).filled(np.nan)")


def missing_values(values, name="X"):
    """Return where a column has no value: None, NaN, NaT or pandas.NA.

    Raises ValueError if it has infinity.
    """
    kind = values.dtype.kind
    if (kind == "f" and np.isinf(values).any()) or (
        kind == "O" and any(isinstance(value, float) and isinf(value) for value in values)
    ):
        raise ValueError(f"Input {name} contains infinity")
    if kind == "O":
        return np.array([_is_missing(value) for value in values], dtype=bool)
    return values != values if kind in "fmM" else np.zeros(len(values), dtype=bool)


def _is_missing(value):
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA has no truth value
        return True


class FrameOfNumbers:
    """The library and the column names of a DataFrame of numbers, to make others like it."""

    def __init__(self, X):
        self.library, self.names = library_of(X), list(X.columns)

    def decode(self, blocks):
        """Return a DataFrame of blocks of rows."""
        rows = np.concatenate([to_numpy(part) for part in blocks])
        key = "schema" if self.library == "polars" else "columns"
        return importlib.import_module(self.library).DataFrame(rows, **{key: self.names})


def in_library(frame, library):
    """Return a DataFrame of pandas or polars, or a frame of another library of the same columns."""
    if library not in ("pandas", "polars") or library_of(frame) in (None, library):
        return frame
    names, columns = list(frame.columns), (column_of(frame, j) for j in range(frame.shape[1]))
    if library == "pandas":
        values = (np.asarray(column) for column in columns)
    else:
        names, values = map(str, names), (column.tolist() for column in columns)
    return importlib.import_module(library).DataFrame(dict(zip(names, values, strict=True)))


def with_values(column, values):
    """Return a column of a DataFrame with a list of other values, none of which is missing.

    The dtype is that of the column, with further categories at the end, if it holds the values
    (floating-point numbers may be rounded), else that of the values.
    """
    dtype, is_pandas = column.dtype, hasattr(column, "iloc")
    if is_pandas:
        own = {"data": values, "index": column.index, "name": column.name}
    else:  # not strict: mixed numbers are floating-point ones
        own = {"values": values, "name": column.name, "strict": False}
    try:
        if str(dtype).startswith(("category", "Enum")):
            ordered = {"ordered": dtype.ordered} if is_pandas else {}
            dtype = type(dtype)(list(dict.fromkeys([*dtype.categories, *values])), **ordered)
        found = type(column)(dtype=dtype, **own)
    except (TypeError, ValueError, OverflowError):
        return type(column)(**own)
    is_float = dtype.kind == "f" if is_pandas else dtype.is_float()
    return found if is_float or found.to_list() == values else type(column)(**own)


def frame_of(library, table, values):
    """Return a DataFrame of "pandas" or "polars" with the names and dtypes of a table's columns.

    ``table`` are columns as of ``_kinds.py``, and ``values`` an array for each.
    """
    module, pairs = importlib.import_module(library), zip(table, values, strict=True)
    if library == "polars":
        return module.DataFrame([_polars_series(module, column, own) for column, own in pairs])
    found = module.DataFrame({j: _pandas_column(module, *pair) for j, pair in enumerate(pairs)})
    found.columns = [column.name for column in table]
    return found


def _pandas_column(pandas, column, values):
    if column.dtype != "category":
        return pandas.Series(values).astype(column.dtype)
    if not column.is_named:
        return pandas.Series(values)
    return pandas.Categorical(values, categories=column.values, ordered=column.ordered)


def _polars_series(polars, column, values):
    name = column.dtype.partition("(")[0]
    dtype = polars.Enum(list(column.values)) if name == "Enum" else getattr(polars, name)
    if name == "Decimal":  # whose default has no decimal places
        dtype = dtype(**{key: int(n) for key, n in re.findall(r"(\w+)=(\d+)", column.dtype)})
    if name == "Object":  # to which nothing is cast
        return polars.Series(column.name, values.tolist(), dtype=dtype)
    return polars.Series(column.name, values.tolist()).cast(dtype)
