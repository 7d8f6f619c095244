"""Columns of categories as numbers: one column for each value, and back."""

import warnings
from decimal import Decimal
from math import isinf

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_array, validate_data

from ..arrays import from_numpy, is_foreign, to_numpy
from ..exceptions import DataRangeWarning

_SEVERAL = list, dict, set, np.ndarray  # values of a column that are no single ones
_FEW = 3  # codes up to here beside -1 may be values as good as it, such as votes
_MANY = 20  # numbers that are not whole are hardly categories if there are more of them


def columns_of(estimator, X, *, reset=False):
    """Return the columns of a table, a list of NumPy arrays, checked against an estimator.

    Parameters
    ----------
    estimator : estimator
        Whose features X must have.
    X : array-like or DataFrame of shape (n_samples, n_features)
        Of numbers, strings or objects; columns of a DataFrame may differ in dtype.
    reset : bool, default=False
        Whether the features of X become those of the estimator.

    Raises
    ------
    TypeError, ValueError
        If X is sparse, has other dimensions than 2, no row, complex numbers or other features.
    """
    if is_foreign(X):
        X = to_numpy(X)
    if _is_frame(X):
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


def _is_frame(X):
    return hasattr(X, "columns") and hasattr(X, "dtypes")


def _values(column, name):
    """Return a column of a DataFrame as an array of its values."""
    values = np.asarray(column)
    are_several = values.dtype.kind == "O" and any(isinstance(v, _SEVERAL) for v in values)
    if values.ndim != 1 or are_several:
        raise ValueError(
            f"column {name!r} of X has dtype {column.dtype}, of which each value is several; make "
            "a column of each of them"
        )
    return values


def check_unmasked(X, name="X"):
    """Raise ValueError if X is a masked array with masked values, which would count as known."""
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError(
            f"{name} has masked values, and masks are not read; give NaN for what is missing: "
            f"{name}.astype(float).filled(np.nan)"
        )


def column_of(X, j):
    """Return a column of a DataFrame by its position, as names may be there twice."""
    return X.iloc[:, j] if hasattr(X, "iloc") else X[X.columns[j]]


def missing_values(values, name="X"):
    """Return where a column has no value: None, NaN, NaT or pandas.NA.

    Raises ValueError if it, of this ``name``, has infinity.
    """
    if _has_infinity(values):
        raise ValueError(f"Input {name} contains infinity; only NaN marks a missing value")
    if values.dtype.kind in "fmM":
        return values != values
    if values.dtype.kind == "O":
        return np.array([_is_nothing(value) for value in values], dtype=bool)
    return np.zeros(len(values), dtype=bool)


def _has_infinity(values):
    if values.dtype.kind == "O":
        numbers = (value for value in values if isinstance(value, float | np.floating | Decimal))
        return any(map(isinf, numbers))
    return values.dtype.kind == "f" and bool(np.isinf(values).any())


def _is_nothing(value):
    try:
        return value is None or bool(value != value)
    except TypeError:  # the truth of pandas.NA is unknown
        return True


class CategoryEncoder:
    """Columns of categories as columns of 0 and 1, one for each value.

    A missing value is NaN in all columns of its site.

    Parameters
    ----------
    categories : "auto" or list of array-like, default="auto"
        The values of each column. "auto" are those of the data, sorted; of a pandas Categorical or
        a polars Enum, those that its dtype declares.
    handle_unknown : {"warn", "ignore", "error"}, default="warn"
        What other values are: missing, with a warning or without, or an error.

    Attributes
    ----------
    categories_ : list of ndarray
        Of each column.
    """

    names = None  # of the columns, for messages

    def __init__(self, categories="auto", handle_unknown="warn"):
        self.categories, self.handle_unknown = categories, handle_unknown

    @classmethod
    def of(cls, categories, handle_unknown="warn", names=None):
        """Return the encoder of given categories; columns may have names, for messages."""
        encoder = cls(categories, handle_unknown)
        encoder.names = names
        encoder.categories_ = [_given(values, j) for j, values in enumerate(categories)]
        return encoder

    def fit(self, X, columns):
        """Find the categories of a table X, of which these are the columns; returns self."""
        if isinstance(self.categories, str):
            _warn_of_codes(columns)
            self.categories_ = [values_of(X, j, column) for j, column in enumerate(columns)]
            _warn_of_real(self.categories_, self.names)
            return self
        if len(self.categories) != len(columns):
            raise ValueError(
                f"categories has {len(self.categories)} lists, and X {len(columns)} columns; give "
                "the values of each column"
            )
        self.categories_ = [_given(values, j) for j, values in enumerate(self.categories)]
        return self

    @property
    def finds_values(self):
        """Whether the categories are found in the rows."""
        return isinstance(self.categories, str)

    def joined(self, encoders):
        """Return the encoder of the categories that these have together."""
        columns = zip(*(encoder.categories_ for encoder in encoders), strict=True)
        joined = type(self)(self.categories, self.handle_unknown)
        joined.categories_ = [
            joined_values(parts, f"column {j} of X") for j, parts in enumerate(columns)
        ]
        return joined

    def check_same(self, other):
        """Raise ValueError if another encoder has not the same categories."""
        known, asked = self.categories_, getattr(other, "categories_", ())
        same = len(known) == len(asked) and all(
            list(old) == list(new) for old, new in zip(known, asked, strict=True)
        )
        if not same:
            raise ValueError(
                "the machine that is given has other categories than those asked for, or those of "
                "X; set categories=machine.categories_"
            )

    @property
    def sizes(self):
        """Number of values of each column, a tuple of int."""
        return tuple(map(len, self.categories_))

    def encode(self, columns):
        """Return the columns of all values, in a CSR matrix.

        Its entries are bytes or, if values are missing, float32.
        """
        return one_hot(self.codes(columns), self.sizes)

    def codes(self, columns):
        """Return the numbers of the values, -1 where they are missing, (n_rows, n_columns)."""
        found = [self._codes(j, column) for j, column in enumerate(columns)]
        unknown = {j: values for j, (_, values) in enumerate(found) if len(values)}
        if unknown and self.handle_unknown != "ignore":
            self._report(unknown)
        return np.stack([codes for codes, _ in found], axis=1)

    def decode(self, blocks):
        """Return the values of rows of 0 and 1, or the most probable ones of probabilities.

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
        places = np.concatenate(codes, axis=1)
        found = [values[own] for values, own in zip(self.categories_, places, strict=True)]
        kinds = {"number" if part.dtype.kind in "iuf" else part.dtype.kind for part in found}
        X = np.stack(found if len(kinds) == 1 else [_in_objects(part) for part in found], axis=1)
        return from_numpy(X, rows) if is_foreign(rows) and X.dtype.kind in "biuf" else X

    def _codes(self, j, column):
        """Return the number of each value of column ``j``, -1 where missing, and unknown values."""
        missing, known = missing_values(column), self.categories_[j]
        codes = np.full(len(column), -1, dtype=np.int32)
        values = column[~missing]
        if known.dtype.kind in "mM" and values.dtype.kind == "O":
            values = values.astype(known.dtype)
        are_numbers = known.dtype.kind in "biuf" and values.dtype.kind in "biuf"
        if are_numbers or known.dtype.kind == values.dtype.kind in "mM":
            order = np.argsort(known)
            places = order[np.minimum(np.searchsorted(known[order], values), len(known) - 1)]
            found = np.where(known[places] == values, places, -1)
        else:
            numbers = {value: number for number, value in enumerate(known.tolist())}
            found = np.array([numbers.get(value, -1) for value in values.tolist()], dtype=int)
        codes[~missing] = found
        return codes, values[found < 0]

    def _report(self, unknown):
        """Warn of unknown values of columns, which are given by their number, or refuse them."""
        columns = list(unknown) if self.names is None else [self.names[j] for j in unknown]
        shown = list(dict.fromkeys(next(iter(unknown.values())).tolist()))[:10]
        found = f"Found unknown categories {shown} in column {columns[0]!r} of X"
        if len(unknown) > 1:
            found += f", and others in columns {columns[1:11]}"
        advice = "Give all values as categories"
        if self.names is not None:
            advice = "Let the column have a categorical dtype with all values"
        if self.handle_unknown == "error":
            raise ValueError(f"{found}. {advice}")
        warnings.warn(
            f"{found}, which are taken as missing. {advice}, or set handle_unknown to 'error' or "
            "'ignore'",
            DataRangeWarning,
            stacklevel=2,
        )


def _warn_of_codes(columns):
    """Warn if columns are of codes from 0 on and of -1, which then mostly is a missing value."""
    if any(column.dtype.kind not in "iu" for column in columns):
        return
    least, most = min(map(np.min, columns)), max(map(np.max, columns))
    if least == -1 and most >= _FEW:
        warnings.warn(
            "X has codes from 0 on and -1, which is taken as a value like them. If it marks what "
            f"is missing, give categories=[range({most + 1})] * {len(columns)} and "
            "handle_unknown='ignore'; if it is a value, give categories with it",
            DataRangeWarning,
            stacklevel=2,
        )


def _warn_of_real(categories, names):
    """Warn if categories are those of columns that look real."""
    real = [
        j
        for j, values in enumerate(categories)
        if values.dtype.kind == "f" and len(values) > _MANY and (values != np.floor(values)).any()
    ]
    if real:
        found = real[:10] if names is None else [names[j] for j in real[:10]]
        warnings.warn(
            f"columns {found} of X have numbers that are not whole, and each of them is taken as a "
            f"category, {len(categories[real[0]])} in the first. TabularRBM takes real columns",
            DataRangeWarning,
            stacklevel=2,
        )


def one_hot(codes, sizes):
    """Return sites of several values as columns, of which one of each site is 1, in CSR.

    Parameters
    ----------
    codes : ndarray of int of shape (n_rows, n_sites)
        Numbers of the values, -1 where one is missing.
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
    """Return the values of a column: those that its dtype declares, or those that it has."""
    dtype = getattr(column_of(X, j), "dtype", None) if _is_frame(X) else None
    declared = getattr(dtype, "categories", None)
    if np.iterable(declared):
        return _given(declared, j)
    values = column[~missing_values(column)]
    if not len(values):
        raise ValueError(
            f"X has no observed value in column {j}, which contains missing values alone; leave "
            "it out"
        )
    if values.dtype.kind == "f" and "int" in str(dtype).lower():  # missing values made it floats
        values = values.astype(np.int64)
    return _distinct(values, f"column {j} of X")


def joined_values(parts, place):
    """Return the values of a column of which each rank has found some.

    ``place`` is the name of the column in an error.
    """
    if all(np.array_equal(part, parts[0]) for part in parts):
        return parts[0]
    are_numbers = {part.dtype.kind in "biuf" for part in parts}
    if len(are_numbers) > 1:
        parts = [part.astype(object) for part in parts]
    return _distinct(np.concatenate(parts), place)


def _distinct(values, place):
    """Return the values of a column, each of them once, sorted."""
    if values.dtype.kind != "O":
        return np.unique(values)
    try:
        return _objects(sorted(set(values.tolist())))
    except TypeError as error:
        kinds = sorted({type(value).__name__ for value in values})
        raise TypeError(
            f"the values of a column argument must be uniformly strings or numbers, and {place} "
            f"has {kinds}; make all of them strings"
        ) from error


def _given(values, j):
    """Return given categories of a column as an array."""
    values = list(values) if not hasattr(values, "dtype") else values
    known = np.asarray(values)
    if known.dtype.kind in "US" and any(not isinstance(value, str) for value in values):
        known = _objects(values)
    name = f"categories[{j}]"
    if known.ndim != 1 or not len(known) or missing_values(known, name).any():
        raise ValueError(f"{name} must be values of a column, none of them missing")
    if len(set(known.tolist())) < len(known):
        raise ValueError(f"{name} has a value twice: {known.tolist()}")
    return known


def _in_objects(values):
    """Return an array of objects; times stay those of NumPy, as finer ones would become numbers."""
    return _objects(list(values)) if values.dtype.kind in "mM" else values.astype(object)


def _objects(values):
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found
