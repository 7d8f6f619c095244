"""Columns of categories as one-hot columns, and back."""

import importlib
import warnings
from math import isinf

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_array, validate_data

from ..arrays import from_numpy, is_foreign, to_numpy
from ..exceptions import DataRangeWarning
from ..units import Categorical


def columns_of(estimator, X, *, reset=False):
    """Return the columns of a table as NumPy arrays, checked against an estimator.

    Parameters
    ----------
    estimator : estimator
    X : array-like or DataFrame of shape (n_samples, n_features)
        Of numbers, strings or objects.
    reset : bool, default=False
        Whether the features of X become those of the estimator.

    Returns
    -------
    list of ndarray
    """
    if is_foreign(X):
        X = to_numpy(X)
    check_no_query(X)
    if is_frame(X):
        if not all(X.shape):
            raise ValueError(f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s)")
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return [_values(column_of(X, j), X.columns[j]) for j in range(X.shape[1])]
    check_unmasked(X)
    given, options = X, {"ensure_all_finite": False, "estimator": estimator, "input_name": "X"}
    X = check_array(given, dtype=None, **options)
    if not hasattr(given, "dtype") and X.dtype.kind in "US":  # lists that mix text and numbers
        X = check_array(given, dtype=object, **options)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return list(X.T)


def is_frame(X):
    """Whether X is a DataFrame of pandas or polars."""
    return hasattr(X, "columns") and hasattr(X, "dtypes")


class FrameOfNumbers:
    """The library and the column names of a DataFrame of numbers, to make others like it."""

    def __init__(self, X):
        self.library, self.names = library_of(X), list(X.columns)

    def decode(self, blocks):
        """Return a DataFrame of blocks of rows."""
        rows = np.concatenate([to_numpy(part) for part in blocks])
        library = importlib.import_module(self.library)
        if self.library == "polars":
            return library.DataFrame(rows, schema=self.names)
        return library.DataFrame(rows, columns=self.names)


def library_of(X):
    """Return "pandas" or "polars" for a DataFrame of these, None for anything else."""
    library = type(X).__module__.partition(".")[0]
    return library if is_frame(X) and library in ("pandas", "polars") else None


def column_of(X, j):
    """Return a column of a DataFrame by its position, since names may occur twice."""
    return X.iloc[:, j] if hasattr(X, "iloc") else X[X.columns[j]]


def _values(column, name):
    values = np.asarray(column)
    is_nested = values.dtype.kind == "O" and any(
        isinstance(value, list | dict | set | np.ndarray) for value in values
    )
    if values.ndim != 1 or is_nested:
        raise ValueError(f"column {name!r} of X has dtype {column.dtype}, of nested values")
    return values


def check_no_query(X):
    """Raise TypeError if X is a LazyFrame of polars."""
    if type(X).__name__ == "LazyFrame":
        raise TypeError("X is a LazyFrame, which has no values yet; pass X.collect()")


def check_unmasked(X, name="X"):
    """Raise ValueError if X is a masked array with masked values."""
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError(f"{name} has masked values; use {name}.astype(float).filled(np.nan)")


def missing_values(values, name="X"):
    """Return where a column has no value: None, NaN, NaT or pandas.NA.

    Raises ValueError if it has infinity.
    """
    if values.dtype.kind == "f":
        has_infinity = np.isinf(values).any()
    else:
        numbers = values if values.dtype.kind == "O" else ()
        has_infinity = any(isinstance(value, float) and isinf(value) for value in numbers)
    if has_infinity:
        raise ValueError(f"Input {name} contains infinity")
    if values.dtype.kind in "fmM":
        return values != values
    if values.dtype.kind == "O":
        return np.array([_is_missing(value) for value in values], dtype=bool)
    return np.zeros(len(values), dtype=bool)


def _is_missing(value):
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA has no truth value
        return True


class CategoryEncoder:
    """One-hot encoding of columns of categories.

    A missing value is NaN in all columns of its site.

    Parameters
    ----------
    categories : "auto" or list of array-like, default="auto"
        The values of each column. "auto" are those of the data, sorted, or those of a categorical
        dtype of pandas or an Enum of polars.
    handle_unknown : {"warn", "ignore", "error"}, default="warn"
        Whether other values are missing, with a warning or without, or an error.

    Attributes
    ----------
    categories_ : list of ndarray
        Of each column.
    """

    names = None  # of the columns of X, which warnings number

    def __init__(self, categories="auto", handle_unknown="warn"):
        self.categories, self.handle_unknown = categories, handle_unknown

    @classmethod
    def of(cls, categories, handle_unknown="warn"):
        """Return the encoder of given categories."""
        encoder = cls(categories, handle_unknown)
        encoder.categories_ = [_given_values(values, j) for j, values in enumerate(categories)]
        return encoder

    def fit(self, X, columns, weights=None):
        """Find the categories of a table X with the given columns; return self."""
        if self.finds_values:
            self.categories_ = [values_of(X, j, column) for j, column in enumerate(columns)]
            return self
        if len(self.categories) != len(columns):
            raise ValueError(
                f"categories has {len(self.categories)} lists, and X {len(columns)} columns"
            )
        self.categories_ = self.of(self.categories).categories_
        return self

    @property
    def finds_values(self):
        """Whether the categories are those of the data."""
        return isinstance(self.categories, str)

    def joined(self, encoders):
        """Return the encoder of the union of the categories of encoders."""
        columns = zip(*(encoder.categories_ for encoder in encoders), strict=True)
        joined = type(self)(self.categories, self.handle_unknown)
        joined.categories_ = [
            joined_values(parts, f"column {j} of X") for j, parts in enumerate(columns)
        ]
        return joined

    def finish(self):
        """End the search for categories."""

    def check_same(self, other):
        """Raise ValueError if another encoder has other categories."""
        mine, others = ([list(c) for c in getattr(e, "categories_", ())] for e in (self, other))
        if mine != others:
            raise ValueError(
                "init has other categories than X; set categories=init.categories_ in both"
            )

    @property
    def sizes(self):
        """Number of categories of each column, a tuple of int."""
        return tuple(map(len, self.categories_))

    @property
    def unit(self):
        """The units of the encoded columns."""
        return Categorical(self.sizes)

    def encode(self, columns):
        """Return the one-hot columns as a CSR matrix of bytes, or of float32 with NaN."""
        return one_hot(self.codes(columns), self.sizes)

    def log_volume(self, rows):
        """Return 0: categories have no density."""
        return 0.0

    def codes(self, columns):
        """Return the codes of the values, -1 where missing, of shape (n_rows, n_columns)."""
        codes, unknown = [], {}
        for j, column in enumerate(columns):
            found, unknown[j] = codes_of(self.categories_[j], column)
            codes.append(found)
        report_unknown(unknown, self.handle_unknown)
        return np.stack(codes, axis=1)

    def decode(self, blocks, given=None, drawn=False):
        """Return the values of one-hot rows, or the most probable ones of probabilities.

        Parameters
        ----------
        blocks : iterable of arrays of shape (n_rows, n_columns)
            The rows, in blocks.

        Returns
        -------
        array of shape (n_samples, n_sites)
            In the library of the rows, if values are numbers.
        """
        codes, ends = [], np.cumsum(self.sizes)
        for rows in blocks:
            sites = np.split(to_numpy(rows), ends[:-1], axis=1)
            codes.append(np.stack([site.argmax(axis=1) for site in sites]).astype(np.int32))
        codes = np.concatenate(codes, axis=1)
        found = [values[own] for values, own in zip(self.categories_, codes, strict=True)]
        kinds = {"number" if part.dtype.kind in "iuf" else part.dtype.kind for part in found}
        if len(kinds) > 1:
            found = [part.astype(object) for part in found]
        X = np.stack(found, axis=1)
        return from_numpy(X, rows) if is_foreign(rows) and X.dtype.kind in "biuf" else X


def codes_of(categories, column):
    """Return the code of each value of a column, -1 where missing, and the unknown values."""
    missing = missing_values(column)
    codes, values = np.full(len(column), -1, dtype=np.int32), column[~missing]
    code = {value: i for i, value in enumerate(categories.tolist())}
    if values.dtype.kind == "O":
        found = np.array([code.get(value, -1) for value in values], dtype=np.int32)
    else:
        distinct, inverse = np.unique(values, return_inverse=True)
        found = np.array([code.get(v, -1) for v in distinct.tolist()], dtype=np.int32)[inverse]
    codes[~missing] = found
    return codes, values[found < 0]


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
        f"{found}, which are treated as missing; declare all values by a categorical dtype or by "
        "categories, or set handle_unknown",
        DataRangeWarning,
        stacklevel=2,
    )


def one_hot(codes, sizes):
    """Return codes as one-hot columns in a CSR matrix.

    Parameters
    ----------
    codes : ndarray of int of shape (n_rows, n_sites)
        -1 is missing.
    sizes : sequence of int
        Number of values of each site.

    Returns
    -------
    csr_array of shape (n_rows, sum(sizes))
        Of bytes or, if values are missing, of float32 with NaN in all columns of a missing site.
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


def values_of(X, j, column):
    """Return the values that the dtype of a column declares, or else those that it has."""
    dtype = getattr(column_of(X, j), "dtype", None) if is_frame(X) else None
    declared = getattr(dtype, "categories", None)
    if np.iterable(declared):
        return _given_values(declared, j)
    values = column[~missing_values(column)]
    if not len(values):
        raise ValueError(f"X has no observed value in column {j}")
    if values.dtype.kind in "mM":
        raise ValueError(f"column {j} of X holds times; convert them to strings or numbers")
    if values.dtype.kind == "f" and "int" in str(dtype).lower():  # nullable integers
        values = values.astype(np.int64)
    return _distinct(values, f"column {j} of X")


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
            f"a column argument must be uniformly strings or numbers, and {name} has {types}"
        ) from error


def _given_values(values, j):
    """Return given categories of column ``j`` as a checked array."""
    values = list(values) if not hasattr(values, "dtype") else values
    known, name = np.asarray(values), f"categories[{j}]"
    if known.dtype.kind in "US" and any(not isinstance(value, str) for value in values):
        known = _objects(values)
    if known.ndim != 1 or not len(known) or missing_values(known, name).any():
        raise ValueError(f"{name} must be a non-empty list of values, none of them missing")
    if len(set(known.tolist())) < len(known):
        raise ValueError(f"{name} has a value twice: {known.tolist()}")
    return known


def _objects(values):
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found
