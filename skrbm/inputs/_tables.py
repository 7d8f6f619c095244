"""Tables with columns of several kinds as columns of units, and back."""

import importlib
import warnings
from dataclasses import dataclass, replace
from datetime import date, timedelta
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..arrays import to_numpy
from ..exceptions import DataRangeWarning
from ..units import (
    Bernoulli,
    Binomial,
    Categorical,
    ColumnUnits,
    Gaussian,
    Poisson,
    ReLU,
    TruncatedGaussian,
)
from ._encoding import CategoryEncoder, joined_values, missing_values, one_hot, values_of

_FEW = 20  # counts up to here above the smallest are those of a binomial distribution
KINDS = ("binary", "rating", "count", "real", "positive", "bounded", "categorical")
"""The kinds of columns, in the order in which the units have them."""


@dataclass(frozen=True)
class TableColumn:
    """One column of a table.

    Parameters
    ----------
    name : str or int
    kind : str
        One of :data:`KINDS`.
    dtype : str
        Of the user's column.
    values : ndarray or None
        The categories, or the two values of a binary column.
    lower, upper : float
        The smallest and the largest value of numbers.
    ordered : bool
        Whether a pandas Categorical is ordered.
    """

    name: Any
    kind: str
    dtype: str
    values: Any = None
    lower: float = 0.0
    upper: float = 1.0
    ordered: bool = False

    @property
    def is_named(self):
        """Whether it has values rather than numbers."""
        return self.kind in ("binary", "categorical")

    @property
    def unit(self):
        """The kind of units of the column; columns with equal units make one part."""
        if self.kind == "binary":
            return Bernoulli()
        if self.kind == "categorical":
            return Categorical(len(self.values))
        if self.kind == "rating":
            return Binomial(max(1, int(self.upper - self.lower)))
        if self.kind == "bounded" and self.lower < self.upper:
            return TruncatedGaussian(self.lower, self.upper)
        return {"count": Poisson, "positive": ReLU}.get(self.kind, Gaussian)()

    @property
    def width(self):
        """The number of columns of units."""
        return len(self.values) if self.kind == "categorical" else 1

    def into_numbers(self, values, missing):
        """Return values of the user as those of the unit, float64, NaN where they are missing."""
        numbers = np.full(len(values), np.nan)
        numbers[~missing] = _as_numbers(values[~missing], self.name)
        if self.kind == "rating":
            numbers -= self.lower
        if self.kind in ("rating", "count") and (numbers[~missing] % 1 != 0).any():
            raise ValueError(f"column {self.name!r} has kind {self.kind!r} and no whole numbers")
        return self._clipped(numbers, missing)

    def _clipped(self, numbers, missing):
        lower, upper = self.unit.bounds
        outside = ~missing & ((numbers < lower) | (numbers > upper))
        if outside.any():
            warnings.warn(
                f"column {self.name!r} has values out of [{self.lower:g}, {self.upper:g}], those "
                "in training, which are clipped",
                DataRangeWarning,
                stacklevel=2,
            )
        return np.clip(numbers, lower, upper)

    def into_values(self, rows):
        """Return rows of the unit, or their means, as values of the user."""
        if self.is_named:
            index = rows.argmax(axis=1) if self.kind == "categorical" else rows[:, 0] > 0.5
            return self.values[index.astype(int) if len(self.values) > 1 else 0 * index.astype(int)]
        numbers = rows[:, 0].astype(np.float64)
        numbers = numbers + self.lower if self.kind == "rating" else numbers
        if self.kind in ("rating", "count") or "int" in self.dtype.lower():
            numbers = np.rint(numbers)
        bounds = _range_of(self.dtype)
        return numbers if bounds is None else np.clip(numbers, *bounds)


def _range_of(dtype):
    """Return the least and the largest float that an integer dtype holds; None of others."""
    try:
        info = np.iinfo(dtype.lower())
    except (TypeError, ValueError):
        return None
    return float(info.min), min(float(info.max), np.nextafter(float(info.max) + 1, 0))


def _as_numbers(values, name):
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"column {name!r} has values that are no numbers: {error}; give it the kind "
            "'categorical' or 'binary'"
        ) from error


class TableEncoder:
    """Columns of a table as those of units of their kinds, and back.

    Columns of equal units stand side by side. A missing value is NaN in all columns that stand for
    it.

    Parameters
    ----------
    kinds : "auto" or dict, default="auto"
        Kinds of some columns by name, or by number; the others, or all, are found.
    handle_unknown : {"warn", "ignore", "error"}, default="warn"
        What unknown categories are: missing, with a warning or without, or an error.

    Attributes
    ----------
    table : list of TableColumn
        The columns, in the order of the table.
    frame : str or None
        The library of the DataFrames that it decodes to, None for arrays.
    """

    def __init__(self, kinds="auto", handle_unknown="warn"):
        self.kinds, self.handle_unknown = kinds, handle_unknown

    def fit(self, X, columns):
        """Find the kinds of the columns of a table X; returns self."""
        is_frame = hasattr(X, "columns") and hasattr(X, "dtypes")
        self.frame = type(X).__module__.partition(".")[0] if is_frame else None
        names = list(X.columns) if is_frame else list(range(len(columns)))
        asked = self._asked(names)
        self.table = [
            _described(X, j, name, column, asked.get(name, asked.get(j)), is_frame)
            for j, (name, column) in enumerate(zip(names, columns, strict=True))
        ]
        self.dtype = np.result_type(np.float32, *map(_dtype_of, columns))
        return self

    def joined(self, encoders):
        """Return the encoder of the values that the columns of these have together.

        Raises
        ------
        ValueError
            If a column has different kinds.
        """
        joined = type(self)(self.kinds, self.handle_unknown)
        joined.frame = encoders[0].frame
        joined.dtype = np.result_type(*(encoder.dtype for encoder in encoders))
        columns = list(zip(*(encoder.table for encoder in encoders), strict=True))
        asked = self._asked([first.name for first, *_ in columns])
        joined.table = [
            _column_of_ranks(parts, parts[0].name in asked or j in asked)
            for j, parts in enumerate(columns)
        ]
        return joined

    def _asked(self, names):
        if isinstance(self.kinds, str):
            return {}
        known = {*names, *range(len(names))}
        for name, kind in self.kinds.items():
            if name not in known or kind not in KINDS:
                raise ValueError(
                    f"kinds must name columns of X, and their kinds, of {list(KINDS)}; got "
                    f"{name!r}: {kind!r}"
                )
        return self.kinds

    @property
    def order(self):
        """The numbers of the columns in the order of the units."""

        def key(j):
            column = self.table[j]
            equal = column.kind in ("rating", "bounded")  # columns of equal units side by side
            return KINDS.index(column.kind), str(column.unit) if equal else ""

        return sorted(range(len(self.table)), key=key)

    @property
    def unit(self):
        """The units of the encoded columns, a ColumnUnits."""
        parts = []
        for j in self.order:
            column = self.table[j]
            if column.kind == "categorical":
                _append_sites(parts, column.width)
            elif parts and parts[-1][0] == column.unit:
                parts[-1] = column.unit, parts[-1][1] + 1
            else:
                parts.append((column.unit, 1))
        return ColumnUnits(parts)

    def encode(self, columns):
        """Return the columns of units, dense, or in a CSR matrix if there are categories."""
        named = [j for j, column in enumerate(self.table) if column.is_named]
        codes = dict(zip(named, self._codes(named, columns), strict=True))
        plain, sites = [], []
        for j in self.order:
            column = self.table[j]
            if column.kind == "categorical":
                sites.append(j)
            elif column.kind == "binary":
                plain.append(np.where(codes[j] < 0, np.nan, codes[j]))
            else:
                plain.append(column.into_numbers(columns[j], missing_values(columns[j])))
        dense = np.stack(plain, axis=1).astype(self.dtype) if plain else None
        if not sites:
            return dense
        sizes = [self.table[j].width for j in sites]
        categories = one_hot(np.stack([codes[j] for j in sites], axis=1), sizes)
        if dense is None:
            return categories
        both = sp.hstack([sp.csr_array(dense), categories], format="csr", dtype=self.dtype)
        return sp.csr_array(both)

    def _codes(self, named, columns):
        """Return the numbers of the values of some columns, -1 where they are missing."""
        if not named:
            return []
        given = CategoryEncoder.of([self.table[j].values for j in named], self.handle_unknown)
        return list(given.codes([columns[j] for j in named]).T)

    def decode(self, rows):
        """Return a table of rows of units, or of their means.

        Returns
        -------
        DataFrame, or ndarray of shape (n_samples, n_columns)
            Of objects, if columns have values that are no numbers.
        """
        numbers, start, found = to_numpy(rows), 0, {}
        for j in self.order:
            column = self.table[j]
            found[j] = column.into_values(numbers[:, start : start + column.width])
            start += column.width
        values = [found[j] for j in range(len(self.table))]
        if self.frame is not None:
            return _frame(self.frame, self.table, values)
        kinds = {part.dtype.kind for part in values}
        if len(kinds) > 1 and kinds & set("bOSU"):
            values = [part.astype(object) for part in values]
        X = np.stack(values, axis=1)
        dtypes = {column.dtype for column in self.table}
        return X.astype(dtypes.pop()) if len(dtypes) == 1 and X.dtype.kind in "fiu" else X


def _append_sites(parts, width):
    """Add a site of categories to the parts of a layer."""
    if parts and isinstance(parts[-1][0], Categorical):
        unit, n = parts[-1]
        parts[-1] = Categorical((*unit.sizes, width)), n + width
    else:
        parts.append((Categorical((width,)), width))


def _described(X, j, name, column, kind, is_frame):
    """Return the TableColumn of a column of a table."""
    given = (X.iloc[:, j] if hasattr(X, "iloc") else X[name]) if is_frame else column
    values = column[~missing_values(column)]
    if not len(values):
        raise ValueError(f"column {name!r} of X has no observed value; leave it out of the table")
    is_ordered = bool(getattr(given.dtype, "ordered", False))
    found = TableColumn(
        name, kind or _kind(values, name, str(given.dtype)), str(given.dtype), ordered=is_ordered
    )
    if found.is_named:
        known = values_of(X, j, column)
        if kind is None and found.kind == "categorical" and len(known) == 2:
            found = replace(found, kind="binary")
        if found.kind == "binary" and len(known) > 2:
            raise ValueError(f"column {name!r} has kind 'binary' and {len(known)} values")
        return replace(found, values=known)
    numbers = _as_numbers(values, name)
    found = replace(found, lower=float(numbers.min()), upper=float(numbers.max()))
    if found.kind in ("count", "positive") and found.lower < 0:
        raise ValueError(f"column {name!r} has kind {found.kind!r} and negative values")
    return found


def _column_of_ranks(parts, asked):
    """Return the TableColumn of a column of which each rank has described its rows."""
    first, kinds = parts[0], {part.kind for part in parts}
    if kinds <= {"binary", "categorical"}:
        values = joined_values([part.values for part in parts], f"column {first.name!r} of X")
        if len(kinds) == 1 and (first.kind == "categorical" or len(values) <= 2):
            return replace(first, values=values)
        if not asked and values.dtype.kind in "OSU":  # numbers would be a rating
            return replace(first, kind="categorical", values=values)
    elif len(kinds) == 1:
        lower, upper = min(part.lower for part in parts), max(part.upper for part in parts)
        return replace(first, lower=lower, upper=upper)
    raise ValueError(
        f"column {first.name!r} has rows of kind {[part.kind for part in parts]} on the ranks, of "
        "other values each; give its kind by kinds on all of them"
    )


def _kind(values, name, dtype):
    """Return the kind of a column by its observed values, and its dtype in the table."""
    if dtype.lower().startswith(("category", "categorical", "enum")):  # also of numbers
        return "categorical"
    code = values.dtype.kind
    if code == "f" and "int" in dtype.lower():  # with missing values
        code = "i"
    if code == "O" and all(isinstance(value, bool | np.bool_) for value in values):
        code = "b"
    elif code == "O" and all(isinstance(value, Real) for value in values):
        code = "i" if all(isinstance(value, Integral) for value in values) else "f"
    if code in "mMcV" or any(isinstance(value, date | timedelta) for value in values[:1]):
        raise ValueError(f"column {name!r} of X has dtype {dtype}; turn it into numbers")
    if code == "b":
        return "binary"
    if code in "OSU":
        return "categorical"
    if code == "f":
        return "real"
    least, most = int(min(values)), int(max(values))
    if len(set(values.tolist())) == 2:
        return "binary"
    exact = max(abs(least), abs(most)) < 2**53  # floats hold all whole numbers up to here
    return "rating" if 0 < most - least <= _FEW and exact else "real"


def _dtype_of(column):
    """Return the floating dtype that holds the numbers of a column."""
    if column.dtype.kind == "f" and column.dtype.itemsize <= 4:
        return np.float32
    return np.float64 if column.dtype.kind in "fiuO" else np.float32


def _frame(library, table, values):
    """Return a DataFrame of pandas or polars with the dtypes of the columns."""
    library = importlib.import_module(library)
    names = [column.name for column in table]
    pairs = zip(table, values, strict=True)
    if library.__name__ == "polars":
        return library.DataFrame([_polars_series(library, *pair) for pair in pairs])
    found = library.DataFrame({j: _pandas_column(library, *p) for j, p in enumerate(pairs)})
    found.columns = names
    return found


def _pandas_column(library, column, values):
    if column.dtype == "category" and not column.is_named:  # numbers, as was asked for
        return library.Series(values)
    if column.dtype == "category":
        return library.Categorical(values, categories=column.values, ordered=column.ordered)
    return library.Series(values).astype(column.dtype)


def _polars_series(library, column, values):
    name = column.dtype.partition("(")[0]
    dtype = library.Enum(list(column.values)) if name == "Enum" else getattr(library, name)
    return library.Series(column.name, values.tolist()).cast(dtype)
