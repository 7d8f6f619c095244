"""Tables with columns of several kinds as columns of units, and back."""

import importlib
import re
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from itertools import groupby
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..arrays import to_numpy
from ..units import Categorical, ColumnUnits, Gaussian
from ._encoding import (
    column_of,
    is_frame,
    joined_values,
    library_of,
    missing_values,
    one_hot,
    report_unknown,
    values_of,
)
from ._table_columns import KINDS, as_numbers, check_no_times

_MAX_RATING = 20  # largest range of whole numbers that are a rating


class TableEncoder:
    """Encoding of tables with columns of several kinds as columns of units.

    Columns of equal units are adjacent. A missing value is NaN in all columns that encode it.

    Parameters
    ----------
    kinds : "auto" or dict, default="auto"
        Kinds of some columns by name or, where no name is a number, by number; the others, or all,
        are inferred.
    handle_unknown : {"warn", "ignore", "error"}, default="warn"
        Whether unknown categories are missing, with a warning or without, or an error.
    covariance : {"diag", "full"}, default="diag"
        That of the units of "real" columns.

    Attributes
    ----------
    table : list of TableColumn
        The columns, in the order of the table.
    frame : str or None
        The library of the DataFrames that it decodes to, None for arrays.
    """

    finds_values = True

    def __init__(self, kinds="auto", handle_unknown="warn", covariance="diag"):
        self.kinds, self.handle_unknown, self.covariance = kinds, handle_unknown, covariance

    def fit(self, X, columns):
        """Infer the kinds of the columns of a table X; return self."""
        self.frame = library_of(X)
        names = list(range(len(columns))) if self.frame is None else list(X.columns)
        kinds = self._asked_kinds(names)
        observed = [
            ObservedColumn.of(X, j, names[j], column, kinds.get(j))
            for j, column in enumerate(columns)
        ]
        return self._describe(observed, np.result_type(np.float32, *map(_dtype_of, columns)))

    def joined(self, encoders):
        """Return the encoder of the values of several blocks of rows."""
        joined = type(self)(self.kinds, self.handle_unknown, self.covariance)
        joined.frame = encoders[0].frame
        columns = zip(*(encoder.observed for encoder in encoders), strict=True)
        observed = [reduce(ObservedColumn.joined, parts) for parts in columns]
        return joined._describe(observed, np.result_type(*(e.dtype for e in encoders)))

    def _describe(self, observed, dtype):
        self.observed, self.dtype = observed, dtype
        self.table = [column.description() for column in observed]
        return self

    def _asked_kinds(self, names):
        """Return the kinds of ``kinds`` by the numbers of the columns."""
        if isinstance(self.kinds, str):
            return {}
        has_numbers = any(isinstance(name, Real) for name in names)
        found = {}
        for key, kind in self.kinds.items():
            places = [
                j for j, name in enumerate(names) if key == name or (not has_numbers and key == j)
            ]
            if not places or kind not in KINDS:
                raise ValueError(
                    f"kinds must name columns of X and their kinds, one of {list(KINDS)}, got "
                    f"{key!r}: {kind!r}"
                )
            found |= dict.fromkeys(places, kind)
        return found

    @property
    def order(self):
        """The numbers of the columns in the order of the units."""

        def key(j):
            column = self.table[j]
            # sites make one part of the layer whatever their sizes
            return list(KINDS).index(column.kind), "" if column.is_site else str(column.unit)

        return sorted(range(len(self.table)), key=key)

    @property
    def names(self):
        """The names of the columns of the table for each encoded column."""
        columns = (self.table[j] for j in self.order)
        return [column.name for column in columns for _ in range(column.width)]

    @property
    def unit(self):
        """The units of the encoded columns, a ColumnUnits."""
        columns = [self.table[j] for j in self.order]
        units = [self._unit_of(column) for column in columns if not column.is_site]
        parts = [(unit, len(list(same))) for unit, same in groupby(units)]
        sizes = tuple(column.width for column in columns if column.is_site)
        return ColumnUnits([*parts, (Categorical(sizes), sum(sizes))] if sizes else parts)

    def _unit_of(self, column):
        if column.kind == "real" and self.covariance == "full":
            return Gaussian(covariance="full")
        return column.unit

    def encode(self, columns):
        """Return the columns of units, dense, or in a CSR matrix if there are categories."""
        numbers, codes, sizes, unknown = [], [], [], {}
        for j in self.order:
            column = self.table[j]
            found, unknown[column.name] = column.encode(columns[j])
            if column.is_site:
                codes.append(found)
                sizes.append(column.width)
            else:
                numbers.append(found)
        report_unknown(unknown, self.handle_unknown)
        dense = np.stack(numbers, axis=1).astype(self.dtype) if numbers else None
        if not sizes:
            return dense
        categories = one_hot(np.stack(codes, axis=1), sizes)
        if dense is None:
            return categories
        both = sp.hstack([sp.csr_array(dense), categories], format="csr", dtype=self.dtype)
        return sp.csr_array(both)

    def decode(self, blocks):
        """Return a table of rows of units, or of their means.

        Parameters
        ----------
        blocks : iterable of arrays of shape (n_rows, n_columns)
            The rows, in blocks.

        Returns
        -------
        DataFrame, or ndarray of shape (n_samples, n_columns)
            Of objects, if columns have values that are not numbers.
        """
        parts = list(zip(*map(self._values, blocks), strict=True))
        found = dict(zip(self.order, map(np.concatenate, parts), strict=True))
        values = [found[j] for j in range(len(self.table))]
        if self.frame is not None:
            return _frame(self.frame, self.table, values)
        kinds = {part.dtype.kind for part in values}
        if len(kinds) > 1 and kinds & set("bOSU"):
            values = [part.astype(object) for part in values]
        X = np.stack(values, axis=1)
        dtypes = {column.dtype for column in self.table}
        return X.astype(dtypes.pop()) if len(dtypes) == 1 and X.dtype.kind in "fiu" else X

    def _values(self, rows):
        """Return the values of rows of units: of one column after the other, in their order."""
        columns = [self.table[j] for j in self.order]
        ends = np.cumsum([column.width for column in columns])
        parts = np.split(to_numpy(rows), ends[:-1], axis=1)
        return [column.decode(part) for column, part in zip(columns, parts, strict=True)]


@dataclass
class ObservedColumn:
    """What the observed values of a column tell about its kind.

    Parameters
    ----------
    name, dtype, ordered
        As of :class:`~skrbm.inputs._table_columns.NamedColumn`.
    code : {"b", "i", "f", "O"}
        Whether the values are booleans, integers, other numbers or labels.
    asked : str or None
        The kind that the user asks for.
    values : ndarray or None
        The distinct values; None of numbers, if more than two.
    lower, upper : float
        Of numbers.
    """

    name: Any
    dtype: str
    ordered: bool
    code: str
    asked: str | None
    values: Any
    lower: float = np.nan
    upper: float = np.nan

    @classmethod
    def of(cls, X, j, name, column, asked):
        """Return that of a column of a table X."""
        given = column_of(X, j) if is_frame(X) else column
        values, dtype = column[~missing_values(column)], str(given.dtype)
        if not len(values):
            raise ValueError(f"column {name!r} of X has no observed value")
        code = "O" if asked else _code_of(values, name, dtype)
        if code == "f" and len(values) < len(column) and _are_few_whole(as_numbers(values, name)):
            code = "i"  # NaN has made floats of them
        ordered = bool(getattr(given.dtype, "ordered", False))
        found = cls(name, dtype, ordered, code, asked, None)
        if code == "f" or (asked and not KINDS[asked].is_named):
            return found._with_range(as_numbers(values, name))
        found.values = values_of(X, j, column)
        return found._with_range(found.values) if code == "i" else found

    def _with_range(self, numbers):
        self.lower, self.upper = float(numbers.min()), float(numbers.max())
        if self.values is not None and len(self.values) > 2:
            self.values = None
        return self

    def joined(self, other):
        """Return what the rows of both tell."""
        codes, code = {self.code, other.code}, self.code
        if codes == {"i", "f"}:
            code = "f"
        elif len(codes) > 1:
            raise ValueError(
                f"column {self.name!r} has labels in some blocks and numbers in others"
            )
        found = ObservedColumn(self.name, self.dtype, self.ordered, code, self.asked, None)
        if self.values is not None and other.values is not None:
            name = f"column {self.name!r} of X"
            found.values = joined_values([self.values, other.values], name)
        if self.lower == self.lower:
            found._with_range(np.array([self.lower, other.lower, self.upper, other.upper]))
        return found

    def description(self):
        """Return the TableColumn."""
        cls = KINDS[self.asked or self._kind()]
        if cls.is_named:
            return cls(self.name, self.dtype, self.values, self.ordered)
        return cls(self.name, self.dtype, self.lower, self.upper)

    def _kind(self):
        n = None if self.values is None else len(self.values)
        if self.code == "f":
            return "real"
        if self.code != "i":
            return "binary" if self.code == "b" or n == 2 else "categorical"
        if n == 2:
            return "binary"
        is_exact = max(abs(self.lower), abs(self.upper)) < 2**53  # as floats
        return "rating" if 0 < self.upper - self.lower <= _MAX_RATING and is_exact else "real"


def _are_few_whole(numbers):
    """Whether numbers are whole and in so small a range that they are codes or a rating."""
    return bool((numbers % 1 == 0).all() and numbers.max() - numbers.min() <= _MAX_RATING)


def _code_of(values, name, dtype):
    """Return whether values are booleans, integers, other numbers or labels."""
    if dtype.lower().startswith(("category", "categorical", "enum")):  # also of numbers
        return "O"
    code = values.dtype.kind
    if code == "O" and all(isinstance(value, bool | np.bool_) for value in values):
        return "b"
    if code == "O" and all(isinstance(value, Real | Decimal) for value in values):
        return "i" if all(isinstance(value, Integral) for value in values) else "f"
    check_no_times(values, name, dtype)
    if code == "f" and "int" in dtype.lower():  # nullable integers
        return "i"
    return {"u": "i", "S": "O", "U": "O"}.get(code, code)


def _dtype_of(column):
    """Return the floating dtype that holds the numbers of a column."""
    if column.dtype.kind == "f" and column.dtype.itemsize <= 4:
        return np.float32
    return np.float64 if column.dtype.kind in "fiuO" else np.float32


def _frame(library, table, values):
    """Return a DataFrame of pandas or polars with the dtypes of the columns."""
    library = importlib.import_module(library)
    pairs = zip(table, values, strict=True)
    if library.__name__ == "polars":
        return library.DataFrame([_polars_series(library, *pair) for pair in pairs])
    found = library.DataFrame({j: _pandas_column(library, *p) for j, p in enumerate(pairs)})
    found.columns = [column.name for column in table]
    return found


def _pandas_column(library, column, values):
    if column.dtype != "category":
        return library.Series(values).astype(column.dtype)
    if not column.is_named:
        return library.Series(values)
    return library.Categorical(values, categories=column.values, ordered=column.ordered)


def _polars_series(library, column, values):
    name = column.dtype.partition("(")[0]
    dtype = library.Enum(list(column.values)) if name == "Enum" else getattr(library, name)
    if name == "Decimal":  # whose default has no decimal places
        dtype = dtype(**{key: int(n) for key, n in re.findall(r"(\w+)=(\d+)", column.dtype)})
    return library.Series(column.name, values.tolist()).cast(dtype)
