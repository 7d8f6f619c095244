"""The kinds of columns of tables: which units they have, and their values as those and back."""

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..exceptions import DataRangeWarning
from ..units import Bernoulli, Binomial, Categorical, Gaussian, Poisson, ReLU, TruncatedGaussian


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
        What users call columns of the class.
    is_named : bool
        Whether it has values that are told from each other, rather than numbers.
    is_site : bool
        Whether it has a column of units for each value.
    unit : Unit
        The kind of units of the column; columns with equal units make one part.
    """

    name: Any
    dtype: str

    kind: ClassVar[str]
    is_named: ClassVar[bool]
    is_site: ClassVar[bool] = False

    @property
    def width(self):
        """The number of columns of units."""
        return 1

    @property
    def meaning(self):
        """What the parameters of the column depend on, a tuple."""
        return self.name, self.kind


@dataclass(frozen=True)
class NamedColumn(TableColumn):
    """Column of values that are told from each other.

    Parameters
    ----------
    name, dtype
        As in :class:`TableColumn`.
    values : ndarray
        The values, in order.
    ordered : bool, default=False
        Whether it is a pandas Categorical that is ordered.
    """

    values: Any
    ordered: bool = False

    is_named = True

    @property
    def meaning(self):
        return *super().meaning, self.values.tolist()

    def into_values(self, rows):
        """Return rows of the unit, or their means, as values of the user."""
        return self.values[self._places(rows)]


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

    def _places(self, rows):
        return np.minimum(rows[:, 0] > 0.5, len(self.values) - 1)


@dataclass(frozen=True)
class CategoricalColumn(NamedColumn):
    """Column of several values: a site."""

    kind, is_site = "categorical", True

    @property
    def unit(self):
        return Categorical(self.width)

    @property
    def width(self):
        return len(self.values)

    def _places(self, rows):
        return rows.argmax(axis=1)


@dataclass(frozen=True)
class NumberColumn(TableColumn):
    """Column of numbers.

    Parameters
    ----------
    name, dtype
        As in :class:`TableColumn`.
    lower, upper : float
        The smallest and the largest number of the training data.
    """

    lower: float
    upper: float

    is_named = False
    is_whole: ClassVar[bool] = False
    unit = Gaussian()

    @property
    def _origin(self):
        """The number that is 0 of the unit."""
        return 0.0

    def into_numbers(self, values, missing):
        """Return values of the user as those of the unit, float64, NaN where they are missing."""
        numbers = np.full(len(values), np.nan)
        numbers[~missing] = as_numbers(values[~missing], self.name) - self._origin
        if self.is_whole and (numbers[~missing] % 1 != 0).any():
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
        """Return rows of the unit, or their means, as values of the user.

        A column that was constant in training keeps its value.
        """
        numbers = rows[:, 0].astype(np.float64) + self._origin
        if self.lower == self.upper:
            numbers = np.full_like(numbers, self.lower)
        if self.is_whole or "int" in self.dtype.lower():
            numbers = np.rint(numbers)
        bounds = _range_of(self.dtype)
        return numbers if bounds is None else np.clip(numbers, *bounds)


@dataclass(frozen=True)
class RealColumn(NumberColumn):
    """Column of any numbers."""

    kind = "real"


@dataclass(frozen=True)
class BoundedColumn(NumberColumn):
    """Column of numbers between those of the training data."""

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
    def meaning(self):
        return *super().meaning, self.lower, self.upper

    @property
    def _origin(self):
        return self.lower


@dataclass(frozen=True)
class _NotNegative(NumberColumn):
    def __post_init__(self):
        if self.lower < 0:
            raise ValueError(f"column {self.name!r} has kind {self.kind!r} and negative values")


@dataclass(frozen=True)
class CountColumn(_NotNegative):
    """Column of whole numbers without an upper end."""

    kind, is_whole, unit = "count", True, Poisson()


@dataclass(frozen=True)
class PositiveColumn(_NotNegative):
    """Column of numbers that are 0 or more."""

    kind, unit = "positive", ReLU()


_IN_ORDER = (
    BinaryColumn,
    RatingColumn,
    CountColumn,
    RealColumn,
    PositiveColumn,
    BoundedColumn,
    CategoricalColumn,
)
KINDS = {cls.kind: cls for cls in _IN_ORDER}
"""The kinds of columns by name, in the order in which the units have them."""


def _range_of(dtype):
    """Return the least and the largest float that an integer dtype holds; None of others."""
    try:
        info = np.iinfo(dtype.lower())
    except (TypeError, ValueError):
        return None
    return float(info.min), min(float(info.max), np.nextafter(float(info.max) + 1, 0))


def as_numbers(values, name):
    """Return the values of a column as float64; ValueError that names it if they are no numbers."""
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"column {name!r} has values that are no numbers: {error}; give it the kind "
            "'categorical' or 'binary'"
        ) from error
