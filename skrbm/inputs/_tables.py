"""Tables with columns of several kinds as columns of units, and back."""

import importlib
import re
import warnings
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from itertools import groupby
from numbers import Integral, Real
from operator import itemgetter
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..arrays import from_numpy, is_foreign, to_numpy
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
from ._real_columns import Observations, RealColumn, SkewedColumn, SpikedColumn, kind_of_reals
from ._table_columns import (
    BinaryColumn,
    BoundedColumn,
    CategoricalColumn,
    CountColumn,
    DiscreteColumn,
    PositiveColumn,
    RatingColumn,
    as_numbers,
    check_no_times,
)

_IN_ORDER = (
    BinaryColumn,
    RatingColumn,
    CountColumn,
    RealColumn,
    SkewedColumn,
    SpikedColumn,
    PositiveColumn,
    BoundedColumn,
    DiscreteColumn,
    CategoricalColumn,
)
KINDS = {cls.kind: cls for cls in _IN_ORDER}
"""The kinds of columns by name, in the order of the encoded columns."""

_MAX_RATING = 20  # largest range of whole numbers that are a rating
_FEWEST_ROWS, _DIFFERENT = 20, 0.9  # of identifiers: rows, and different ones among the values
_ROWS_PER_VALUE, _MOST_MISSING = 50, 0.5  # of those with parameters for each value


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
    with_precision : bool, default=False
        Whether columns whose units take no precision are inferred to be of other kinds.

    Attributes
    ----------
    table : list of TableColumn
        The columns, in the order of the table.
    frame : str or None
        The library of the DataFrames that it decodes to, None for arrays.
    """

    finds_values = True

    def __init__(
        self, kinds="auto", handle_unknown="warn", covariance="diag", with_precision=False
    ):
        self.kinds, self.handle_unknown, self.covariance = kinds, handle_unknown, covariance
        self.with_precision = with_precision

    def fit(self, X, columns, weights=None):
        """Infer the kinds of the columns of a table X, with weights of its rows; return self."""
        self.frame = library_of(X)
        names = list(range(len(columns))) if self.frame is None else list(X.columns)
        kinds = self._asked_kinds(names)
        observed = [
            ObservedColumn.of(X, j, names[j], column, kinds.get(j), weights)
            for j, column in enumerate(columns)
        ]
        return self._describe(observed, np.result_type(np.float32, *map(_dtype_of, columns)))

    def joined(self, encoders):
        """Return the encoder of the values of several blocks of rows."""
        joined = type(self)(self.kinds, self.handle_unknown, self.covariance, self.with_precision)
        joined.frame = encoders[0].frame
        columns = zip(*(encoder.observed for encoder in encoders), strict=True)
        observed = [reduce(ObservedColumn.joined, parts) for parts in columns]
        return joined._describe(observed, np.result_type(*(e.dtype for e in encoders)))

    def _describe(self, observed, dtype):
        self.observed, self.dtype = observed, dtype
        self.table = [column.description(self.with_precision) for column in observed]
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

    def finish(self):
        """Warn of columns that tell rows apart and nothing else; forget what joins needed."""
        names = [column.name for column in self.observed if column.is_identifier]
        if names:
            warnings.warn(
                f"columns {names} of X have another value in nearly every row, as identifiers do; "
                "drop them",
                UserWarning,
                stacklevel=2,
            )
        del self.observed

    @property
    def order(self):
        """The numbers of the columns in the order of the units."""

        def key(j):
            column = self.table[j]
            # sites make one part of the layer whatever their sizes
            own = "" if column.is_site else str(column.unit)
            return column.is_site, list(KINDS).index(column.kind), own

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
        pairs = [(self._unit_of(column), column.width) for column in columns if not column.is_site]
        parts = [
            (unit, sum(width for _, width in same)) for unit, same in groupby(pairs, itemgetter(0))
        ]
        sizes = tuple(column.width for column in columns if column.is_site)
        return ColumnUnits([*parts, (Categorical(sizes), sum(sizes))] if sizes else parts)

    def _unit_of(self, column):
        if column.kind in ("real", "skewed") and self.covariance == "full":
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
        dense = np.column_stack(numbers).astype(self.dtype) if numbers else None
        if not sizes:
            return dense
        categories = one_hot(np.stack(codes, axis=1), sizes)
        if dense is None:
            return categories
        both = sp.hstack([sp.csr_array(dense), categories], format="csr", dtype=self.dtype)
        return sp.csr_array(both)

    def decode(self, blocks, given=None, drawn=False):
        """Return a table of rows of units, or of their means.

        Parameters
        ----------
        blocks : iterable of arrays of shape (n_rows, n_columns)
            The rows, in blocks.
        given : list of ndarray, default=None
            Columns of a table whose real numbers are kept where they are not missing.
        drawn : bool, default=False
            Whether the rows are draws, which real columns keep within the range of training.

        Returns
        -------
        DataFrame, or ndarray of shape (n_samples, n_columns)
            Of objects, if columns have values that are not numbers.
        """
        parts = list(zip(*(self._values(rows, drawn) for rows in blocks), strict=True))
        found = dict(zip(self.order, map(np.concatenate, parts), strict=True))
        values = [found[j] for j in range(len(self.table))]
        if given is not None:
            pairs = zip(self.table, values, given, strict=True)
            values = [_with_known(column, *both) for column, *both in pairs]
        if self.frame is not None:
            return _frame(self.frame, self.table, values)
        kinds = {part.dtype.kind for part in values}
        if len(kinds) > 1 and kinds & set("bOSU"):
            values = [part.astype(object) for part in values]
        X = np.stack(values, axis=1)
        dtypes = {column.dtype for column in self.table}
        return X.astype(dtypes.pop()) if len(dtypes) == 1 and X.dtype.kind in "fiu" else X

    def log_volume(self, rows):
        """Return by how much log-densities of rows of the table exceed those of encoded rows.

        Missing values have no part in it.
        """
        table = [self.table[j] for j in self.order]
        columns = [column for column in table if not (column.is_named or column.is_site)]
        widths = [column.width for column in columns]
        first = sum(column.kind == "binary" for column in table)
        total = np.zeros(rows.shape[0])
        if columns:
            numbers = rows[:, first : first + sum(widths)]
            numbers = numbers.toarray() if sp.issparse(numbers) else to_numpy(numbers)
            parts = np.split(numbers, np.cumsum(widths)[:-1], axis=1)
            for column, part in zip(columns, parts, strict=True):
                total += column.log_volume(part)
        return from_numpy(total, rows) if is_foreign(rows) else total

    def _values(self, rows, drawn):
        """Return the values of rows of units: of one column after the other, in their order."""
        columns = [self.table[j] for j in self.order]
        ends = np.cumsum([column.width for column in columns])
        parts = np.split(to_numpy(rows), ends[:-1], axis=1)
        return [column.decode(part, drawn) for column, part in zip(columns, parts, strict=True)]


def _with_known(column, values, given):
    """Return decoded values with the observed numbers of a given column as they were."""
    if not isinstance(column, RealColumn | SpikedColumn):
        return values
    known = ~missing_values(given)
    values[known] = as_numbers(given[known], column.name)
    return values


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
    seen : Observations or None
        Of numbers.
    n : int
        How many values are observed.
    is_numbering : bool
        Whether they are whole numbers that number the rows: all different, and in order or without
        many gaps.
    """

    name: Any
    dtype: str
    ordered: bool
    code: str
    asked: str | None
    values: Any
    seen: Any = None
    n: int = 0
    is_numbering: bool = False

    @property
    def is_identifier(self):
        """Whether so many values are different that they tell rows apart, and nothing else."""
        is_label = self.code == "O" and self.asked is None
        return self.n > _FEWEST_ROWS and (
            self.is_numbering or (is_label and len(self.values) > _DIFFERENT * self.n)
        )

    @classmethod
    def of(cls, X, j, name, column, asked, weights=None):
        """Return that of a column of a table X, with weights of its rows."""
        given = column_of(X, j) if is_frame(X) else column
        known = ~missing_values(column)
        values, dtype = column[known], str(given.dtype)
        weights = np.ones(len(column)) if weights is None else weights
        n_missing, weights = float(weights[~known].sum()), weights[known]
        if not len(values):
            raise ValueError(f"column {name!r} of X has no observed value")
        code = "O" if asked else _code_of(values, name, dtype)
        if code == "f" and len(values) < len(column) and _are_few_whole(as_numbers(values, name)):
            code = "i"  # NaN has made floats of them
        ordered = bool(getattr(given.dtype, "ordered", False))
        found = cls(name, dtype, ordered, code, asked, None, n=len(values))
        if code == "f" or (asked and not KINDS[asked].is_named):
            found.seen = Observations(as_numbers(values, name), weights, n_missing)
            return found
        found.values = values_of(X, j, column)
        if code == "i":
            found.seen = Observations(as_numbers(values, name), weights, n_missing)
            found.is_numbering = _number_rows(as_numbers(values, name))
            found.values = found.values if len(found.values) <= 2 else None
        return found

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
        found.n = self.n + other.n
        if self.seen is not None:
            found.seen = self.seen.joined(other.seen)
            one, two = sorted((self.seen.values, other.seen.values), key=lambda own: own[0])
            both = self.is_numbering and other.is_numbering
            found.is_numbering = both and bool(one[-1] < two[0])
        if found.code == "i" and found.values is not None and len(found.values) > 2:
            found.values = None
        return found

    def description(self, with_precision=False):
        """Return the TableColumn, of a kind whose units take a precision or of any kind."""
        kind = self.asked or self._kind()
        if with_precision and not self.asked:
            kind = {"discrete": "rating", "spiked": "skewed"}.get(kind, kind)
        cls = KINDS[kind]
        if cls.is_named:
            return cls(self.name, self.dtype, self.values, self.ordered)
        return cls.fit(self.name, self.dtype, self.seen)

    def _kind(self):
        n = None if self.values is None else len(self.values)
        if self.code == "f":
            return kind_of_reals(self.name, self.dtype, self.seen)
        if self.code != "i":
            return "binary" if self.code == "b" or n == 2 else "categorical"
        if n == 2:
            return "binary"
        lower, upper = self.seen.values[[0, -1]]
        is_exact = max(abs(lower), abs(upper)) < 2**53  # as floats
        if 0 < upper - lower <= _MAX_RATING and is_exact:
            return _kind_of_few(self.seen, upper - lower + 1)
        return kind_of_reals(self.name, self.dtype, self.seen)


def _kind_of_few(seen, n_values):
    """Return the kind of a column of whole numbers, of ``n_values`` from the first to the last.

    "discrete", with parameters for each value, where there are rows to learn these from; else
    "rating", which has one weight for each hidden unit. With 64 rows a value or more, answers of a
    factor model and choices of groups have 1.5 to 6.4 nats more than as "rating", 1.2 to 9.1 more
    than as "real", and errors that are 1 to 10 % smaller than of both. With 10 to 30 rows a value,
    errors of answers are 5 to 41 % larger (``examples/benchmarks/tables.py --kinds``). The sites of
    many values that are missing learn slowly: with 60 % of them, errors were those of the means.
    """
    observed, missing = seen.counts.sum(), seen.n_missing
    has_rows = observed >= _ROWS_PER_VALUE * n_values and missing <= _MOST_MISSING * observed
    return "discrete" if has_rows else "rating"


def _number_rows(numbers):
    """Whether whole numbers are all different, and in order or with gaps as large as themselves."""
    steps = np.diff(numbers)
    if (steps > 0).all() or (steps < 0).all():
        return True
    has_gaps = numbers.max() - numbers.min() >= 2 * len(numbers)
    return not has_gaps and len(np.unique(numbers)) == len(numbers)


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
    if name == "Object":  # to which nothing is cast
        return library.Series(column.name, values.tolist(), dtype=dtype)
    return library.Series(column.name, values.tolist()).cast(dtype)
