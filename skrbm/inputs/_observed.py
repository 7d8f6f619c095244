"""Inference of the kinds of columns of tables from their values."""

import warnings
from dataclasses import dataclass
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.special import betaln
from scipy.stats import chisquare

from ._categories import joined_values, values_of
from ._frames import column_of, is_frame
from ._kinds import NamedColumn, RealColumn, as_numbers, number_column

_MOST_VALUES = 4096  # of a column that are kept; larger data keep as many quantiles
_LEAST_VALUES = 20  # different ones that tell about a shape
_LEAST_GAIN = 0.1  # nats a row by which a power has to improve on a normal distribution
_LEAST_SHARE, _LEAST_RATIO = 0.1, 2.0  # of a spike: part of all rows, and times the next value's
_LEAST_END, _END_RATIO = 0.02, 4.0  # of an end with many rows: as of a spike
_LEAST_OTHERS = 5  # different values beside a spike
_MAX_RATING = 20  # largest range of whole numbers that are a rating
_FEWEST_ROWS, _DIFFERENT = 20, 0.9  # of identifiers: rows, and different ones among the values
_EQUAL_BY_CHANCE = 5.0  # pairs of equal numbers that are to be expected where none are
_WIDE, _FEWEST_EVEN = 10_000, 200  # range of random identifiers for each row, and rows
_EVEN = 0.01  # probability of a chi-square test above which numbers may be evenly spread
_ROWS_PER_VALUE, _MOST_MISSING = 50, 0.5  # of those with parameters for each value
_FEWEST_PER_VALUE = 20  # of those where these describe other rows better than a smooth shape


class Observations:
    """The sorted distinct values of a column of numbers, and the numbers of rows with each.

    If there are many values, quantiles are kept instead.
    """

    def __init__(self, values, counts, n_missing=0.0):
        values, where = np.unique(values, return_inverse=True)
        counts = np.bincount(where, counts, len(values))
        if len(values) > _MOST_VALUES:
            total, n = counts.sum(), _MOST_VALUES
            levels = np.append((np.arange(n - 2) + 0.5) / (n - 2), 1) * total
            index = np.searchsorted(np.cumsum(counts), levels * (1 - 1e-12))
            index = np.concatenate([[0], np.clip(index, 0, len(values) - 1)])
            values, where = np.unique(values[index], return_inverse=True)
            weights = np.full(n, total / (n - 2))
            weights[[0, -1]] = 1e-9 * total  # the ends, for the range
            counts = np.bincount(where, weights, len(values))
        self.values, self.counts, self.n_missing = values, counts, n_missing

    def joined(self, other):
        """Return the observations of both."""
        parts = zip((self.values, self.counts), (other.values, other.counts), strict=True)
        return Observations(*map(np.concatenate, parts), self.n_missing + other.n_missing)

    def without(self, value):
        """Return the observations of all other values."""
        others = self.values != value
        return Observations(self.values[others], self.counts[others])

    def deviation(self, y):
        """Return the standard deviation of numbers that belong to ``values``."""
        apart = np.abs(y - np.average(y, weights=self.counts))
        largest = apart.max() or 1.0  # whose square may overflow
        return float(largest * np.sqrt(np.average((apart / largest) ** 2, weights=self.counts)))

    @property
    def spike(self):
        """The value that significantly more rows have than any other, or None."""
        if len(self.values) <= _LEAST_OTHERS:
            return None
        second, first = np.argsort(self.counts)[-2:]
        share = self.counts[first] / self.counts.sum()
        is_alone = self.counts[first] >= _LEAST_RATIO * self.counts[second]
        return float(self.values[first]) if share >= _LEAST_SHARE and is_alone else None

    @property
    def shares_of_ends(self):
        """Fractions of rows with the smallest and the largest value; 0 if not exceptional.

        They are also 0 if half of the rows or more are affected, or if there are few values.
        """
        if len(self.values) <= _LEAST_OTHERS:
            return 0.0, 0.0
        shares = self.counts / self.counts.sum()
        pairs = (shares[:2], shares[:-3:-1])
        return tuple(
            float(end) if _LEAST_END <= end < 0.5 and end >= _END_RATIO * following else 0.0
            for end, following in pairs
        )

    @property
    def gain_of_values(self):
        """Gain of frequencies of whole numbers over a beta-binomial distribution, in nats per row.

        The frequencies for each row are those of the other rows, with half a row added for each
        value. The beta-binomial distribution, a mixture of the binomial ones of a "rating", has the
        same mean and variance.
        """
        x, n = self.values - self.values[0], self.counts.sum()
        top, shares = x[-1], self.counts / n
        own = np.log(np.maximum(self.counts - 0.5, 0.5) / (n - 1 + 0.5 * (top + 1)))
        p = shares @ x / top
        variance = shares @ (x - top * p) ** 2
        overlap = (variance / (top * p * (1 - p)) - 1) / max(top - 1, 1)
        size = 1 / np.clip(overlap, 1e-6, 1 - 1e-6) - 1
        a, b = size * p, size * (1 - p)
        smooth = betaln(x + a, top - x + b) - betaln(a, b)
        smooth -= betaln(x + 1, top - x + 1) + np.log(top + 1)
        return float(shares @ (own - smooth))

    def quantiles(self, levels):
        """Return the smallest values that at least these fractions of the rows do not exceed."""
        shares = np.cumsum(self.counts) / self.counts.sum()
        return self.values[np.searchsorted(shares, levels)]


@dataclass
class ObservedColumn:
    """Summary of the observed values of a column, from which its kind is inferred.

    ``name``, ``dtype`` and ``ordered`` are those of :class:`~skrbm.inputs._kinds.NamedColumn`, and
    ``asked`` is the kind that the user asks for.
    """

    name: Any
    dtype: str
    ordered: bool
    code: str  # "b", "i", "f" or "O": booleans, integers, other numbers or labels
    asked: str | None
    n: int  # how many values are observed
    values: Any = None  # the distinct ones; None of numbers, if more than two
    seen: Observations | None = None  # of numbers
    is_numbering: bool = False  # whether numbers are as those of identifiers are

    @property
    def is_identifier(self):
        """Whether so many values are different that they tell rows apart, and nothing else."""
        are_labels = self.code == "O" and self.values is not None
        differ = len(self.values) > _DIFFERENT * self.n if are_labels else self.is_numbering
        return differ and self.n > _FEWEST_ROWS

    @classmethod
    def of(cls, X, j, name, column, known, asked, weights=None):
        """Return that of a column of a table X, in the ``known`` rows, with weights of rows."""
        given = column_of(X, j) if is_frame(X) else column
        values, dtype = column[known], str(given.dtype)
        code = "O" if asked else _code_of(values, dtype)
        if code == "f":
            numbers = as_numbers(values, name)
            are_whole = (numbers % 1 == 0).all() and np.ptp(numbers) <= _MAX_RATING
            if np.isin(numbers, (0, 1)).all() or (are_whole and len(values) < len(column)):
                code = "i"  # bits, or codes or a rating of which NaN has made floats
        ordered = bool(getattr(given.dtype, "ordered", False))
        found = cls(name, dtype, ordered, code, asked, len(values))
        if code in "if" or asked not in (None, "binary", "categorical"):
            numbers = as_numbers(values, name)
            weights = np.ones(len(column)) if weights is None else weights
            found.seen = Observations(numbers, weights[known], float(weights[~known].sum()))
            found.is_numbering = code in "if" and _are_identifiers(numbers, code == "i")
            if code != "i" or len(found.seen.values) > 2:
                return found
        found.values = values_of(X, j, values)
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
        n = self.n + other.n
        found = ObservedColumn(self.name, self.dtype, self.ordered, code, self.asked, n)
        if self.values is not None and other.values is not None:
            values = joined_values([self.values, other.values], f"column {self.name!r} of X")
            found.values = values if code != "i" or len(values) <= 2 else None
        if self.seen is not None:
            found.seen = self.seen.joined(other.seen)
            one, two = sorted((self.seen.values, other.seen.values), key=lambda own: own[0])
            both = self.is_numbering and other.is_numbering
            is_wide = max(one[-1], two[-1]) - one[0] >= _WIDE * n
            found.is_numbering = both and bool(is_wide or one[-1] < two[0])
        return found

    def description(self, with_precision=False):
        """Return the column, of a kind whose units take a precision or of any kind."""
        kind = self.asked or self._kind()
        if with_precision and not self.asked:
            kind = {"discrete": "rating", "spiked": "skewed"}.get(kind, kind)
        if kind in ("binary", "categorical"):
            return NamedColumn(kind, self.name, self.dtype, self.values, self.ordered)
        return number_column(kind, self.name, self.dtype, self.seen)

    def _kind(self):
        """Return the kind of the values; see the parameter ``kinds`` of TabularRBM.

        Whole numbers with a small range are "discrete", with parameters for each value, if there
        are enough rows to learn them; fewer rows are needed if the frequencies are not smooth.
        Otherwise they are a "rating", which has one weight for each hidden unit (compared by
        ``examples/benchmarks/tables.py --kinds``). Sites with many missing values learn slowly.
        """
        if self.code == "b" or (self.values is not None and len(self.values) == 2):
            return "binary"
        if self.code == "O":
            return "categorical"
        seen = self.seen
        lower, upper = seen.values[[0, -1]]
        is_exact = max(abs(lower), abs(upper)) < 2**53  # as floats
        if self.code == "i" and 0 < upper - lower <= _MAX_RATING and is_exact:
            observed, n_values = seen.counts.sum(), len(seen.values)
            has_rows = observed >= _ROWS_PER_VALUE * n_values or (
                observed >= _FEWEST_PER_VALUE * n_values and seen.gain_of_values > 0
            )
            is_known = seen.n_missing <= _MOST_MISSING * observed
            return "discrete" if has_rows and is_known else "rating"
        if seen.spike is not None:
            return "spiked"
        if len(seen.values) <= _LEAST_VALUES:
            return "real"
        gain = RealColumn.fit("skewed", self.name, self.dtype, seen).gain(seen)
        return "skewed" if gain > _LEAST_GAIN else "real"


def warn_of_identifiers(observed):
    """Warn of columns that look like identifiers of rows."""
    names = [column.name for column in observed if column.is_identifier]
    if not names:
        return
    is_one = len(names) == 1
    which = f"column {names[0]!r} of X has" if is_one else f"columns {names} of X have"
    what = "it if it is an identifier" if is_one else "those that are identifiers"
    warnings.warn(
        f"{which} a different value in nearly every row; drop {what}", UserWarning, stacklevel=3
    )


def _are_identifiers(numbers, are_integers):
    """Whether numbers look like identifiers: whole, all different, and unlike measurements.

    They are unlike measurements if they are sorted; if there are so many in their range that some
    would be equal by chance; if they are so large that floats cannot distinguish them; or if they
    are evenly spread over a wide range, as random identifiers are, where measurements would
    concentrate around some values. Floats so large that they have no digits for fractions are not
    considered whole.
    """
    if not are_integers and (np.abs(numbers).max() > 2**53 or (numbers % 1 != 0).any()):
        return False
    n, width, steps = len(numbers), numbers.max() - numbers.min(), np.diff(numbers)
    if (steps > 0).all() or (steps < 0).all():
        return True
    if len(np.unique(numbers)) < n:
        return False
    if n * n >= 2 * _EQUAL_BY_CHANCE * width or width > 2**53:
        return True
    is_spread = n >= _FEWEST_EVEN and width >= _WIDE * n
    return bool(is_spread and chisquare(np.histogram(numbers, 10)[0]).pvalue > _EVEN)


def _code_of(values, dtype):
    """Return whether values are booleans, integers, other numbers or labels."""
    if dtype.lower().startswith(("category", "categorical", "enum")):  # also of numbers
        return "O"
    code = values.dtype.kind
    if code == "O" and all(isinstance(value, bool | np.bool_) for value in values):
        return "b"
    if code == "O" and all(isinstance(value, Real | Decimal) for value in values):
        return "i" if all(isinstance(value, Integral) for value in values) else "f"
    if code == "f" and "int" in dtype.lower():  # nullable integers
        return "i"
    return {"u": "i", "S": "O", "U": "O"}.get(code, code)
