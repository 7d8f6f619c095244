"""Tables with columns of several kinds as columns of units, and back."""

import importlib
import re
from dataclasses import replace
from datetime import date, time, timedelta
from decimal import Decimal
from itertools import groupby, zip_longest
from numbers import Integral, Real
from reprlib import repr as shortened

import numpy as np
import scipy.sparse as sp

from ..arrays import to_numpy
from ..units import Categorical, ColumnUnits, Gaussian
from ._encoding import CategoryEncoder, joined_values, missing_values, one_hot, values_of
from ._table_columns import (
    KINDS,
    BinaryColumn,
    CategoricalColumn,
    RatingColumn,
    RealColumn,
    as_numbers,
)

_FEW = 20  # counts up to here above the smallest are those of a binomial distribution


class TableEncoder:
    """Columns of a table as those of units of their kinds, and back.

    Columns of equal units stand side by side. A missing value is NaN in all columns that stand for
    it.

    Parameters
    ----------
    kinds : "auto" or dict, default="auto"
        Kinds of some columns by name or, where no name is a number, by number; the others, or all,
        are found.
    handle_unknown : {"warn", "ignore", "error"}, default="warn"
        What unknown categories are: missing, with a warning or without, or an error.
    covariance : {"diag", "full"}, default="diag"
        That of the units of "real" columns.

    Attributes
    ----------
    table : list of TableColumn
        The columns, in the order of the table.
    frame : str or None
        The library of the DataFrames that it decodes to, None for arrays.
    """

    finds_values = True  # in the rows, as CategoryEncoder does unless categories are given
    covariance = "diag"  # of encoders in older files

    def __init__(self, kinds="auto", handle_unknown="warn", covariance="diag"):
        self.kinds, self.handle_unknown, self.covariance = kinds, handle_unknown, covariance

    def fit(self, X, columns):
        """Find the kinds of the columns of a table X; returns self."""
        is_frame = hasattr(X, "columns") and hasattr(X, "dtypes")
        self.frame = type(X).__module__.partition(".")[0] if is_frame else None
        names = list(X.columns) if is_frame else list(range(len(columns)))
        asked = self._asked(names)
        self.table = [
            _described(X, j, name, column, asked.get(j), is_frame)
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
        joined = type(self)(self.kinds, self.handle_unknown, self.covariance)
        joined.frame = encoders[0].frame
        joined.dtype = np.result_type(*(encoder.dtype for encoder in encoders))
        columns = list(zip(*(encoder.table for encoder in encoders), strict=True))
        asked = self._asked([first.name for first, *_ in columns])
        joined.table = [_column_of_parts(parts, j in asked) for j, parts in enumerate(columns)]
        return joined

    def check_same(self, other):
        """Raise ValueError if another encoder is not of a table with the same columns."""
        if not isinstance(other, TableEncoder):
            raise ValueError("the machine that is given is none of a table; give a TabularRBM")
        now, before = ([column.meaning for column in own.table] for own in (self, other))
        if now != before:
            pairs = zip_longest(now, before, fillvalue="none there")
            wanted, found = next(map(shortened, pair) for pair in pairs if pair[0] != pair[1])
            raise ValueError(
                "the machine that is given is of another table, so that its parameters mean other "
                f"things: X has the column {wanted}, it has {found}. Give a machine of a table "
                "with the same columns and values, or go on with partial_fit or warm_start"
            )

    def _asked(self, names):
        """Return the kinds that are asked for, by the numbers of the columns."""
        if isinstance(self.kinds, str):
            return {}
        keys = [{name} for name in names]
        if not any(isinstance(name, Real) for name in names):  # else numbers are names alone
            keys = [{name, j} for j, name in enumerate(names)]
        known = set().union(*keys)
        for name, kind in self.kinds.items():
            if name not in known or kind not in KINDS:
                raise ValueError(
                    f"kinds must name columns of X, and their kinds, of {list(KINDS)}; got "
                    f"{name!r}: {kind!r}"
                )
        return {
            j: kind for j, own in enumerate(keys) for key, kind in self.kinds.items() if key in own
        }

    @property
    def order(self):
        """The numbers of the columns in the order of the units."""

        kinds = list(KINDS)

        def key(j):
            column = self.table[j]
            # Columns of equal units stand side by side; sites make one part whatever their sizes.
            return kinds.index(column.kind), "" if column.is_site else str(column.unit)

        return sorted(range(len(self.table)), key=key)

    @property
    def names(self):
        """The names of the columns of the table that the encoded columns come from."""
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
        """Return the units of a column that is no category."""
        if column.kind == "real" and self.covariance == "full":
            return Gaussian(covariance="full")
        return column.unit

    def encode(self, columns):
        """Return the columns of units, dense, or in a CSR matrix if there are categories."""
        named = [j for j, column in enumerate(self.table) if column.is_named]
        codes = dict(zip(named, self._codes(named, columns), strict=True))
        plain, sites = [], []
        for j in self.order:
            column = self.table[j]
            if column.is_site:
                sites.append(j)
            elif column.is_named:
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
        values, names = zip(
            *((self.table[j].values, self.table[j].name) for j in named), strict=True
        )
        given = CategoryEncoder.of(values, self.handle_unknown, names)
        return list(given.codes([columns[j] for j in named]).T)

    def decode(self, blocks):
        """Return a table of rows of units, or of their means.

        Parameters
        ----------
        blocks : iterable of arrays of shape (n_rows, n_columns)
            The rows, in blocks.

        Returns
        -------
        DataFrame, or ndarray of shape (n_samples, n_columns)
            Of objects, if columns have values that are no numbers.
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
        """Return the values of rows of units, a column after the other in the order of these."""
        numbers, start, found = to_numpy(rows), 0, []
        for j in self.order:
            column = self.table[j]
            found.append(column.into_values(numbers[:, start : start + column.width]))
            start += column.width
        return found


def _described(X, j, name, column, kind, is_frame):
    """Return the TableColumn of a column of a table."""
    given = (X.iloc[:, j] if hasattr(X, "iloc") else X[name]) if is_frame else column
    values = column[~missing_values(column)]
    if not len(values):
        raise ValueError(f"column {name!r} of X has no observed value; leave it out of the table")
    dtype = str(given.dtype)
    cls = KINDS[kind or _kind(values, name, dtype)]
    if not cls.is_named:
        numbers = as_numbers(values, name)
        return cls(name, dtype, float(numbers.min()), float(numbers.max()))
    known = values_of(X, j, column)
    if kind is None and len(known) == 2:
        cls = BinaryColumn
    return cls(name, dtype, known, bool(getattr(given.dtype, "ordered", False)))


def _column_of_parts(parts, asked):
    """Return the TableColumn of a column of which parts of the rows have been described."""
    first, kinds = parts[0], {part.kind for part in parts}
    if all(part.is_named for part in parts):
        values = joined_values([part.values for part in parts], f"column {first.name!r} of X")
        if len(kinds) == 1 and (asked or first.is_site or len(values) <= 2):
            return replace(first, values=values)
        if not asked and values.dtype.kind in "OSU":  # numbers would be a rating
            return CategoricalColumn(first.name, first.dtype, values, first.ordered)
    if not asked and all(_is_whole(part) for part in parts):
        return _whole_column(first, parts)
    if len(kinds) == 1 and not first.is_named:
        lower, upper = min(part.lower for part in parts), max(part.upper for part in parts)
        return replace(first, lower=lower, upper=upper)
    raise ValueError(
        f"column {first.name!r} has parts of kind {sorted(kinds)}, by the rows of other blocks or "
        "ranks; give its kind by kinds"
    )


def _whole_column(first, parts):
    """Return the TableColumn of whole numbers of all parts, named and typed as the first one."""
    ends = [part.values if part.is_named else (part.lower, part.upper) for part in parts]
    lower, upper = float(min(map(min, ends))), float(max(map(max, ends)))
    if all(set(end) <= {lower, upper} for end in ends) and lower < upper:
        if all(part.is_named or part.lower == part.upper for part in parts):
            return BinaryColumn(first.name, first.dtype, np.array([lower, upper], dtype=np.int64))
    cls = RatingColumn if 0 < upper - lower <= _FEW else RealColumn
    return cls(first.name, first.dtype, lower, upper)


def _is_whole(part):
    """Whether a column of a part has whole numbers, of a kind that was found."""
    return "int" in part.dtype.lower() and part.kind in ("binary", "rating", "real")


def _kind(values, name, dtype):
    """Return the kind of a column by its observed values, and its dtype in the table."""
    if dtype.lower().startswith(("category", "categorical", "enum")):  # also of numbers
        return "categorical"
    code = values.dtype.kind
    if code == "f" and "int" in dtype.lower():  # with missing values
        code = "i"
    if code == "O" and all(isinstance(value, bool | np.bool_) for value in values):
        code = "b"
    elif code == "O" and all(isinstance(value, Real | Decimal) for value in values):
        code = "i" if all(isinstance(value, Integral) for value in values) else "f"
    if code in "mMcV" or any(map(_is_time, values[:1])):
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


def _is_time(value):
    """Whether a value is a date, a time, their difference or a period of pandas."""
    return isinstance(value, date | time | timedelta) or type(value).__name__ == "Period"


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
    if name == "Decimal":  # which has no values without its numbers of digits
        dtype = dtype(**{key: int(n) for key, n in re.findall(r"(\w+)=(\d+)", column.dtype)})
    return library.Series(column.name, values.tolist()).cast(dtype)
