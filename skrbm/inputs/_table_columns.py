"""The kinds of columns of tables: their units, and the encoding of their values."""

import warnings
from dataclasses import dataclass
from datetime import date, time, timedelta
from typing import Any, ClassVar

import numpy as np

from ..exceptions import DataRangeWarning
from ..units import Bernoulli, Binomial, Categorical, Gaussian, Poisson, ReLU, TruncatedGaussian
from ._encoding import codes_of, missing_values


@dataclass(frozen=True)
class TableColumn:
    """One column of a table.

    Parameters
    ----------
    name : str or int
    dtype : str
        Of the user's column.

    Attributes
    ----------
    kind : str
        The public name of the class.
    is_named : bool
        Whether the values are labels rather than numbers.
    is_site : bool
        Whether it is encoded as one column for each value.
    unit : Unit
        The kind of units of the column.
    width : int
        The number of encoded columns.
    """

    name: Any
    dtype: str

    kind: ClassVar[str]
    is_named: ClassVar[bool]
    is_site: ClassVar[bool] = False
    width: ClassVar[int] = 1


@dataclass(frozen=True)
class NamedColumn(TableColumn):
    """Column of labels: ``values``, in order, which are ``ordered`` in pandas or not."""

    values: Any
    ordered: bool = False

    is_named = True

    def encode(self, column):
        """Return the codes of values, and the values that are unknown."""
        return codes_of(self.values, column)

    def decode(self, rows, drawn=False):
        """Return values of rows of the units, or of their means."""
        return self.values[self._codes(rows)]


@dataclass(frozen=True)
class BinaryColumn(NamedColumn):
    """Column of two values, or of one."""

    kind = "binary"
    unit = Bernoulli()

    def __post_init__(self):
        if len(self.values) > 2:
            raise ValueError(
                f"column {self.name!r} has kind 'binary' and {len(self.values)} values"
            )

    def encode(self, column):
        codes, unknown = super().encode(column)
        return np.where(codes < 0, np.nan, codes), unknown

    def _codes(self, rows):
        return np.minimum(rows[:, 0] > 0.5, len(self.values) - 1)


@dataclass(frozen=True)
class CategoricalColumn(NamedColumn):
    """Column of several values, a site of one-hot columns."""

    kind, is_site = "categorical", True

    @property
    def unit(self):
        return Categorical(self.width)

    @property
    def width(self):
        return len(self.values)

    def _codes(self, rows):
        return rows.argmax(axis=1)


@dataclass(frozen=True)
class NumberColumn(TableColumn):
    """Column of numbers, those of the training data between ``lower`` and ``upper``."""

    lower: float
    upper: float

    is_named, origin, is_whole = False, 0.0, False
    unit = Gaussian()

    @classmethod
    def fit(cls, name, dtype, seen):
        """Return the column of some :class:`Observations`."""
        if cls.is_whole and (seen.values % 1 != 0).any():
            raise ValueError(f"column {name!r} of kind {cls.kind!r} has values that are not whole")
        return cls(name, dtype, float(seen.values[0]), float(seen.values[-1]))

    @property
    def _limits(self):
        """The smallest and the largest value of the unit."""
        return self.unit.bounds

    def encode(self, column):
        """Return values as float64 values of the unit, NaN where missing, and an empty tuple."""
        missing = missing_values(column)
        numbers = np.full(len(column), np.nan)
        numbers[~missing] = as_numbers(column[~missing], self.name) - self.origin
        held = np.clip(np.rint(numbers) if self.is_whole else numbers, *self._limits)
        if (held != numbers)[~missing].any():
            warnings.warn(
                f"column {self.name!r} has values out of [{self.lower:g}, {self.upper:g}], the "
                f"range of the training data{', or not whole' * self.is_whole}; the nearest ones "
                "replace them",
                DataRangeWarning,
                stacklevel=2,
            )
        return held, ()

    def decode(self, rows, drawn=False):
        """Return values of rows of the unit, or of their means."""
        return self._typed(rows[:, 0].astype(np.float64) + self.origin)

    def log_volume(self, rows):
        """Return by how much log-densities of values exceed those of encoded rows."""
        return np.zeros(len(rows))

    def _typed(self, numbers):
        """Return numbers that the dtype of the column can hold.

        A column that was constant in training keeps its value.
        """
        if self.lower == self.upper:
            numbers = np.full_like(numbers, self.lower)
        if self.is_whole or "int" in self.dtype.lower():
            numbers = np.rint(numbers)
        try:
            info = np.iinfo(self.dtype.lower())
        except (TypeError, ValueError):
            return numbers
        # the largest float that an int64 holds is below its maximum
        largest = min(float(info.max), np.nextafter(float(info.max) + 1, 0))
        return np.clip(numbers, float(info.min), largest)


@dataclass(frozen=True)
class BoundedColumn(NumberColumn):
    """Column of numbers within the range of the training data."""

    kind = "bounded"

    @property
    def unit(self):
        return TruncatedGaussian(self.lower, self.upper) if self.lower < self.upper else Gaussian()


@dataclass(frozen=True)
class RatingColumn(NumberColumn):
    """Column of a few whole numbers."""

    kind, is_whole = "rating", True

    @property
    def unit(self):
        return Binomial(max(1, int(self.upper - self.lower)))

    @property
    def origin(self):
        return self.lower


@dataclass(frozen=True)
class DiscreteColumn(RatingColumn):
    """Column of a few whole numbers, each with parameters of its own, and means as numbers."""

    kind, is_site = "discrete", True

    @property
    def unit(self):
        return Categorical(self.width)

    @property
    def width(self):
        return int(self.upper - self.lower) + 1

    @property
    def _limits(self):
        return 0.0, self.width - 1.0

    def encode(self, column):
        numbers, unknown = super().encode(column)
        return np.where(numbers == numbers, numbers, -1).astype(int), unknown

    def decode(self, rows, drawn=False):
        return self._typed(rows.astype(np.float64) @ np.arange(self.width) + self.origin)


@dataclass(frozen=True)
class PositiveColumn(NumberColumn):
    """Column of numbers that are 0 or more."""

    kind, unit = "positive", ReLU()

    def __post_init__(self):
        if self.lower < 0:
            raise ValueError(f"column {self.name!r} has kind {self.kind!r} and negative values")


@dataclass(frozen=True)
class CountColumn(PositiveColumn):
    """Column of whole numbers from 0 on without an upper bound."""

    kind, is_whole, unit = "count", True, Poisson()


def check_no_times(values, name, dtype=None):
    """Raise ValueError if a column has complex numbers, dates or times."""
    is_time = len(values) and (
        isinstance(values[0], complex | date | time | timedelta)
        or type(values[0]).__name__ == "Period"
    )
    if values.dtype.kind in "mMcV" or is_time:
        dtype = values.dtype if dtype is None else dtype
        raise ValueError(f"column {name!r} of X has dtype {dtype}; turn it into numbers")


def as_numbers(values, name):
    """Return the values of a column as float64."""
    check_no_times(values, name)
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {name!r} has values that are not numbers: {error}") from error
