"""Tables as columns of units, and back."""

from copy import copy
from dataclasses import replace
from functools import reduce
from itertools import groupby
from numbers import Real
from operator import itemgetter

import numpy as np
import scipy.sparse as sp

from .._checks import check_observed, hint
from ..arrays import from_numpy, is_foreign, to_numpy
from ..units import Categorical, ColumnUnits, Gaussian
from ._categories import given_values, one_hot, report_unknown
from ._frames import column_of, frame_of, library_of, missing_values
from ._kinds import KINDS, NamedColumn, as_numbers
from ._observed import ObservedColumn, warn_of_identifiers


class TableEncoder:
    """Encoding of tables with columns of several kinds as columns of units.

    Columns of equal units are adjacent. A missing value is NaN in all columns that encode it.
    ``kinds``, ``handle_unknown`` and ``covariance`` are those of TabularRBM. With
    ``with_precision`` only kinds whose units accept a precision are inferred.

    ``table`` has the columns (see ``_kinds.py``) in the order of the table, ``frame`` is the
    library of decoded DataFrames, None for arrays, and ``n_rows`` the number of rows of the
    training data, or the sum of their scaled weights.
    """

    finds_values, frame, n_rows = True, None, 0.0

    def __init__(
        self, kinds="auto", handle_unknown="warn", covariance="diag", with_precision=False
    ):
        self.kinds, self.handle_unknown, self.covariance = kinds, handle_unknown, covariance
        self.with_precision = with_precision

    def fit(self, X, columns, weights=None):
        """Infer the kinds of the columns of a table X, with weights of its rows; return self."""
        self._set_rows(X, columns, weights)
        names = list(range(len(columns)) if self.frame is None else X.columns)
        kinds = self._asked_kinds(names)
        known = [~missing_values(column) for column in columns]
        check_observed([name for name, own in zip(names, known, strict=True) if not own.any()])
        observed = [
            ObservedColumn.of(X, j, names[j], column, known[j], kinds.get(j), weights)
            for j, column in enumerate(columns)
        ]
        dtypes = (column.dtype for column in columns if column.dtype.kind in "fiuO")
        are_narrow = all(dtype.kind == "f" and dtype.itemsize <= 4 for dtype in dtypes)
        return self._describe(observed, np.dtype(np.float32 if are_narrow else np.float64))

    def _set_rows(self, X, columns, weights):
        self.frame = library_of(X)
        self.n_rows = float(len(columns[0]) if weights is None else np.sum(weights))

    def joined(self, encoders):
        """Return the encoder of the values of several blocks of rows."""
        joined = copy(encoders[0])
        joined.n_rows = sum(encoder.n_rows for encoder in encoders)
        if not self.finds_values:
            return joined
        columns = zip(*(encoder.observed for encoder in encoders), strict=True)
        observed = [reduce(ObservedColumn.joined, parts) for parts in columns]
        return joined._describe(observed, np.result_type(*(e.dtype for e in encoders)))

    def _describe(self, observed, dtype):
        self.observed, self.dtype = observed, dtype
        self.table = [column.description(self.with_precision) for column in observed]
        return self

    def _asked_kinds(self, names):
        """Return the kinds given in ``kinds`` by the positions of the columns."""
        if isinstance(self.kinds, str):
            return {}
        has_numbers = any(isinstance(name, Real) for name in names)
        found = {}
        for key, kind in self.kinds.items():
            places = [
                j for j, name in enumerate(names) if key == name or (not has_numbers and key == j)
            ]
            if not places:
                raise ValueError(
                    f"kinds must name columns of X, got {key!r}: {kind!r}{hint(key, names)}"
                )
            if kind not in KINDS:
                raise ValueError(
                    f"values of kinds must be one of {sorted(KINDS)}, got {key!r}: {kind!r}"
                    f"{hint(kind, KINDS)}"
                )
            found |= dict.fromkeys(places, kind)
        return found

    def finish(self):
        """Warn of columns that tell rows apart and nothing else; forget what joins needed."""
        warn_of_identifiers([column for column in self.observed if column.asked is None])
        del self.observed

    @property
    def order(self):
        """The numbers of the columns in the order of the units."""
        # sites make one part of the layer whatever their sizes
        keys = [
            (own.is_site, KINDS.index(own.kind), "" if own.is_site else str(own.unit))
            for own in self.table
        ]
        return sorted(range(len(keys)), key=keys.__getitem__)

    @property
    def unit(self):
        """The units of the encoded columns, a ColumnUnits."""
        columns = [self.table[j] for j in self.order]
        sizes = tuple(column.width for column in columns if column.is_site)
        pairs = []
        for column in columns[: len(columns) - len(sizes)]:
            is_joint = column.kind in ("real", "skewed") and self.covariance == "full"
            unit = Gaussian(covariance="full") if is_joint else column.unit
            pairs.append((unit, column.width))
        parts = [(unit, sum(n for _, n in same)) for unit, same in groupby(pairs, itemgetter(0))]
        return ColumnUnits([*parts, (Categorical(sizes), sum(sizes))] if sizes else parts)

    def encode(self, columns):
        """Return the columns of units, dense, or in a CSR matrix if there are categories."""
        numbers, codes, sizes, unknown = [], [], [], {}
        for j in self.order:
            column = self.table[j]
            found, unknown[column.name] = column.encode(columns[j])
            (codes if column.is_site else numbers).append(found)
            sizes += [column.width] * column.is_site
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
        """Return a DataFrame or an array of blocks of rows of units, or of their means.

        Real numbers in ``given``, columns of a table, are kept where they are not missing. If rows
        are ``drawn``, real columns are kept within the range of the training data. Arrays have
        dtype object if some columns are not numbers; otherwise they have the library of the rows.
        """
        parts, columns = [], [self.table[j] for j in self.order]
        ends = np.cumsum([column.width for column in columns])[:-1]
        for rows in blocks:
            pairs = zip(columns, np.split(to_numpy(rows), ends, axis=1), strict=True)
            parts.append([column.decode(own, drawn) for column, own in pairs])
        found = map(np.concatenate, zip(*parts, strict=True))
        by_place = dict(zip(self.order, found, strict=True))
        values = [by_place[j] for j in range(len(self.table))]
        if given is not None:
            for column, own, known in zip(self.table, values, given, strict=True):
                if not (column.is_named or column.is_bounded):
                    at = ~missing_values(known)
                    own[at] = as_numbers(known[at], column.name)
        if self.frame is not None:
            return frame_of(self.frame, self.table, values)
        kinds = {part.dtype.kind for part in values}
        if len(kinds) > 1 and kinds & set("bOSU"):
            values = [part.astype(object) for part in values]
        X = np.stack(values, axis=1)
        dtypes = {column.dtype for column in self.table}
        if len(dtypes) == 1 and X.dtype.kind in "fiu":
            X = X.astype(dtypes.pop())
        return from_numpy(X, rows) if is_foreign(rows) and X.dtype.kind in "biuf" else X

    def log_unseen(self, columns):
        """Return what is added to log-probabilities of rows for values that are not encoded.

        Unknown categories have a probability of 1 / (n_rows + 1); with ``handle_unknown="ignore"``
        they are treated as missing and add nothing.
        """
        total = np.zeros(len(columns[0]))
        for column, values in zip(self.table, columns, strict=True):
            if not (column.is_named and self.handle_unknown == "ignore"):
                total += column.log_unseen(values, self.n_rows)
        return total

    def log_spreads(self, columns):
        """Return what to add to log-densities of values to express them in units of the spread."""
        found = np.zeros((len(columns[0]), len(columns)))
        for j, (column, values) in enumerate(zip(self.table, columns, strict=True)):
            found[:, j] = column.log_spread(values)
        return found

    def log_volume(self, rows):
        """Return by how much log-densities of known values of rows exceed those of encoded rows."""
        columns = [self.table[j] for j in self.order if not self.table[j].is_site]
        total, start = np.zeros(rows.shape[0]), 0
        numbers = rows[:, : sum(column.width for column in columns)]
        numbers = numbers.toarray() if sp.issparse(numbers) else to_numpy(numbers)
        for column in columns:
            total += column.log_volume(numbers[:, start : start + column.width])
            start += column.width
        return from_numpy(total, rows) if is_foreign(rows) else total


class CategoryEncoder(TableEncoder):
    """One-hot encoding of columns of categories.

    ``categories`` and ``handle_unknown`` are those of CategoricalRBM.
    """

    def __init__(self, categories="auto", handle_unknown="warn"):
        super().__init__(handle_unknown=handle_unknown)
        self.categories = categories
        if not self.finds_values:
            arrays = [given_values(values, j) for j, values in enumerate(categories)]
            self.table = [
                NamedColumn("categorical", j, str(values.dtype), values)
                for j, values in enumerate(arrays)
            ]

    @property
    def finds_values(self):
        """Whether the categories are those of the data."""
        return isinstance(self.categories, str)

    def fit(self, X, columns, weights=None):
        """Find the categories of a table X with the given columns; return self."""
        if self.finds_values:
            return super().fit(X, columns, weights)
        if len(self.table) != len(columns):
            raise ValueError(
                f"categories has {len(self.table)} lists, but X has {len(columns)} columns"
            )
        self._set_rows(X, columns, weights)
        if self.frame is not None:
            for j, column in enumerate(self.table):
                dtype = column_of(X, j).dtype
                own = {"dtype": str(dtype), "ordered": bool(getattr(dtype, "ordered", False))}
                self.table[j] = replace(column, name=X.columns[j], **own)
        return self

    def _asked_kinds(self, names):
        return dict.fromkeys(range(len(names)), "categorical")

    def finish(self):
        """Warn of columns that tell rows apart and nothing else, unless categories are given."""
        if self.finds_values:
            warn_of_identifiers(self.observed)
            del self.observed

    @property
    def categories_(self):
        """The values of each column, a list of ndarray."""
        return [column.values for column in self.table]

    @property
    def sizes(self):
        """Number of categories of each column, a tuple of int."""
        return tuple(column.width for column in self.table)

    @property
    def unit(self):
        """The units of the encoded columns."""
        return Categorical(self.sizes)
