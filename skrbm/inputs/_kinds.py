"""The kinds of columns of tables: their units, and the encoding of their values.

A column has a ``name``, the ``dtype`` of the user's column, a ``kind``, the ``unit`` of its
``width`` encoded columns, and five methods:

- ``encode(column)`` returns values of the unit, NaN where missing, and the unknown labels;
- ``decode(rows, drawn)`` returns the values for rows of the unit, or for their means;
- ``log_unseen(column, n)`` returns what to add to log-probabilities for values that cannot be
  encoded exactly, after a fit to n rows;
- ``log_volume(rows)`` returns log-densities of values minus those of encoded rows;
- ``log_spread(column)`` returns what to add to log-densities to express them in units of the
  spread of the column.

The last three may return 0 for all rows. ``is_named`` is True for labels, ``is_bounded`` for
numbers with a bounded unit, and ``is_site`` for columns that are encoded as one column for each
value, by codes that are -1 where missing.
"""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import boxcox1p, inv_boxcox1p
from scipy.stats import norm

from ..exceptions import DataRangeWarning
from ..units import (
    Bernoulli,
    Binomial,
    Categorical,
    Gaussian,
    Poisson,
    ReLU,
    SpikedGaussian,
    TruncatedGaussian,
)
from ._categories import codes_of
from ._frames import missing_values

KINDS = (
    *("binary", "rating", "count", "real", "skewed"),
    *("spiked", "positive", "bounded", "discrete", "categorical"),
)
"""The kinds of columns, in the order of the encoded columns."""


class _Column:
    """Base class of columns, whose values are encoded unchanged by default."""

    is_named = is_site = is_bounded = False
    width = 1

    def log_spread(self, column):
        return 0.0

    def log_volume(self, rows):
        return 0.0


@dataclass(frozen=True)
class NamedColumn(_Column):
    """Column of labels: "binary", a bit for one or two ``values``, or "categorical", a site."""

    kind: str
    name: Any
    dtype: str
    values: Any
    ordered: bool = False

    is_named = True

    def __post_init__(self):
        if self.kind == "binary" and len(self.values) > 2:
            raise ValueError(
                f"column {self.name!r} has {len(self.values)} values, but its kind is 'binary'"
            )

    @property
    def is_site(self):
        return self.kind == "categorical"

    @property
    def width(self):
        return len(self.values) if self.is_site else 1

    @property
    def unit(self):
        return Categorical(self.width) if self.is_site else Bernoulli()

    def encode(self, column):
        codes, unknown = codes_of(self.values, column)
        return codes if self.is_site else np.where(codes < 0, np.nan, codes), column[unknown]

    def log_unseen(self, column, n):
        return -np.log1p(n) * codes_of(self.values, column)[1]

    def decode(self, rows, drawn=False):
        if self.is_site:
            return self.values[rows.argmax(axis=1)]
        return self.values[np.minimum(rows[:, 0] > 0.5, len(self.values) - 1)]


@dataclass(frozen=True)
class NumberColumn(_Column):
    """Column of numbers, which lie between ``lower`` and ``upper`` in the training data.

    A "rating" has a few whole numbers, as has a :class:`DiscreteColumn`; "count" has whole
    numbers from 0 on, "positive" numbers from 0 on, and "bounded" numbers within the range of the
    training data. A number that is not among the values of the unit is encoded as the nearest one
    that is, and all numbers in a column that was constant in training as that constant. Counts and
    positive numbers above ``upper`` are encoded like those of a :class:`RealColumn`.

    ``deviation`` is the standard deviation of the training data. For a constant column, whose scale
    is unknown, it is the absolute value of the constant, or 1 if that is 0.
    """

    kind: str
    name: Any
    dtype: str
    lower: float
    upper: float
    deviation: float

    def __post_init__(self):
        if self._is_half_line and self.lower < 0:
            raise ValueError(f"column {self.name!r} of kind {self.kind!r} has negative values")

    @property
    def is_bounded(self):
        return self.kind in ("rating", "bounded")

    @property
    def _is_half_line(self):
        return self.kind in ("positive", "count")

    @property
    def _is_whole(self):
        return self.kind in ("discrete", "rating", "count")

    @property
    def unit(self):
        if self.kind == "rating":
            return Binomial(max(1, int(self.upper - self.lower)))
        if self.kind == "bounded" and self.lower < self.upper:
            return TruncatedGaussian(self.lower, self.upper)
        return {"count": Poisson(), "positive": ReLU()}.get(self.kind, Gaussian())

    @property
    def _spread(self):
        """``deviation`` in the units of the column."""
        return self.deviation

    @property
    def _origin(self):
        """The number that is encoded as 0."""
        return self.lower if self.kind == "rating" else 0.0

    def encode(self, column):
        held = self._held_or_warn(self._numbers(column))
        if self._is_half_line:
            beyond = np.maximum(held - self.upper, 0.0)
            held = held - beyond + self.deviation * np.log1p(beyond / self.deviation)
            held = np.rint(held) if self._is_whole else held
        return held - self._origin, ()

    def log_unseen(self, column, n):
        """Return what to add to log-probabilities.

        A number that is not among the values of the unit has a probability of 1 / (n + 1), which
        decreases with the distance like the density of a real column.
        """
        numbers = self._numbers(column)
        held = self._held(numbers)
        apart, found = np.abs(numbers - held) / self._spread, np.zeros(len(numbers))
        far = np.log1p(apart[apart > 0])
        found[apart > 0] = -np.log1p(n) - far - far**2 / 2
        if self._is_half_line:
            beyond = (held - self.upper) / self.deviation
            found[beyond > 0] -= np.log1p(beyond[beyond > 0])
        return found

    def log_spread(self, column):
        return np.log(self.deviation) if self.kind in ("positive", "bounded") else 0.0

    def _numbers(self, column):
        """Return numbers as float64, NaN where missing."""
        missing = missing_values(column)
        numbers = np.full(len(column), np.nan)
        numbers[~missing] = as_numbers(column[~missing], self.name)
        return numbers

    def _held(self, numbers):
        """Return the nearest numbers among the values of the unit."""
        ends = (0.0 if self._is_half_line else -np.inf, np.inf)
        if self.is_bounded or self.lower == self.upper:
            ends = self.lower, self.upper
        held = np.clip(np.rint(numbers) if self._is_whole else numbers, *ends)
        if self.lower == self.upper and self.lower % 1:  # which may have come in float32
            held = np.where(np.float32(numbers) == np.float32(self.lower), numbers, held)
        return held

    def _held_or_warn(self, numbers):
        held = self._held(numbers)
        if (held != numbers)[numbers == numbers].any():
            what = f"outside [{self.lower:g}, {self.upper:g}], the range of the training data"
            what += ", or not whole" * self._is_whole
            if self.is_site:
                what = "that do not occur in the training data"
            warnings.warn(
                f"column {self.name!r} has values {what}; the nearest valid ones are used instead",
                DataRangeWarning,
                stacklevel=3,
            )
        return held

    def decode(self, rows, drawn=False):
        numbers = rows[:, 0].astype(np.float64) + self._origin
        if self._is_half_line:
            beyond = np.maximum(numbers - self.upper, 0.0) / self.deviation
            numbers = numbers + self.deviation * (np.expm1(beyond) - beyond)
        return self._typed(numbers)

    def _typed(self, numbers):
        """Return numbers that the dtype of the column can hold.

        A column that was constant in training keeps its value.
        """
        if self.lower == self.upper:
            numbers = np.full_like(numbers, self.lower)
        if self._is_whole or "int" in self.dtype.lower():
            numbers = np.rint(numbers)
        try:
            info = np.iinfo(self.dtype.lower())
        except (TypeError, ValueError):
            return numbers
        # the largest float that an int64 holds is below its maximum
        largest = min(float(info.max), np.nextafter(float(info.max) + 1, 0))
        return np.clip(numbers, float(info.min), largest)


@dataclass(frozen=True)
class DiscreteColumn(NumberColumn):
    """Column of a few whole numbers, ``values``, each with its own parameters.

    Means are decoded as the nearest of these values.
    """

    values: tuple = ()

    is_site = is_bounded = True

    @property
    def width(self):
        return len(self.values)

    @property
    def unit(self):
        return Categorical(self.width)

    def encode(self, column):
        held = self._held_or_warn(self._numbers(column))
        return np.where(held == held, np.searchsorted(self.values, held), -1), ()

    def decode(self, rows, drawn=False):
        return self._typed(self._held(rows.astype(np.float64) @ np.array(self.values)))

    def _held(self, numbers):
        values = np.array(self.values)
        middles = (values[1:] + values[:-1]) / 2
        return np.where(numbers == numbers, values[np.searchsorted(middles, numbers)], np.nan)


@dataclass(frozen=True)
class RealColumn(NumberColumn):
    """Column of any numbers, "real" or "skewed".

    A value x is encoded as y(x), which increases with x without bounds, so that densities of x and
    y differ by the factor dy/dx. Within the range of the training data y is (x - centre) / scale,
    which is independent of the unit of measure, or, in skewed columns, a power transform of this
    (Yeo and Johnson 2000): the logarithm of 1 + x for power 0, and x for power 1. The transforms
    with powers from 0 to 2 take all real values. The centre is the median and the scale the
    interquartile range; or both are the smallest value if it is positive and this brings the values
    closer to a normal distribution, as for log-normal values. Beyond the range, where the scale is
    unknown, y grows as the logarithm of the distance, with a continuous slope. A distant value then
    costs the square of a logarithm, tens of nats, rather than the square of its distance.

    If many rows have the smallest or the largest value, as when numbers were clipped, this value
    stands for all values beyond it under a normal distribution: y jumps there by one of ``leaps``,
    to the mean of these values, and draws beyond the end become the end. Otherwise draws are
    reflected at the ends.

    ``deviation`` is that of y.

    References
    ----------
    Yeo, I.-K., & Johnson, R. A. (2000). A new family of power transformations to improve normality
    or symmetry. Biometrika 87, 954-959.
    """

    centre: float = 0.0
    scale: float = 1.0
    power: float = 1.0
    leaps: tuple = (0.0, 0.0)

    @classmethod
    def fit(cls, kind, name, dtype, seen):
        """Return the column of some :class:`~skrbm.inputs._observed.Observations`."""
        column = cls(kind, name, dtype, *_extent(seen))
        if kind == "real":
            centre = float(np.average(seen.values, weights=seen.counts))
            column = replace(column, centre=centre, scale=column.deviation)
            return replace(column, deviation=1.0)._with_leaps(seen)
        low, centre, high = seen.quantiles([0.25, 0.5, 0.75])
        scales = [(float(centre), float(high - low) or column.deviation)]
        if column.lower > 0:  # with power 0, y is then log(x / lower)
            scales.append((column.lower, column.lower))
        columns = [replace(column, centre=centre, scale=scale) for centre, scale in scales]
        if column.lower < column.upper:
            columns = [own._with_power(seen) for own in columns]
        column = max(columns, key=lambda own: own._fitness(seen))
        deviation = seen.deviation(column._bent(seen.values)) or 1.0
        return replace(column, deviation=deviation)._with_leaps(seen)

    def _with_power(self, seen):
        """Return the column with the power that makes observations most nearly normal."""
        fit = minimize_scalar(
            lambda power: -replace(self, power=power)._fitness(seen),
            bounds=(0, 2),
            method="bounded",
            options={"xatol": 1e-3},
        )
        return replace(self, power=round(float(fit.x), 2))

    def _with_leaps(self, seen):
        """Return the column with leaps, for a normal y with the observed median and end shares."""
        median, *ends = self._bent(np.array([*seen.quantiles([0.5]), self.lower, self.upper]))
        leaps = []
        for end, share in zip(ends, seen.shares_of_ends, strict=True):
            t = norm.isf(share)  # the end, in standard deviations; infinite for 0
            ratio = norm.pdf(t) / share / t if share else 1.0  # of the mean beyond and the end
            leaps.append(float(abs(end - median) * (ratio - 1)))
        return replace(self, leaps=tuple(leaps))

    def gain(self, seen):
        """Return the gain in nats per row from the power."""
        return self._fitness(seen) - replace(self, power=1.0)._fitness(seen)

    def _fitness(self, seen):
        deviation = seen.deviation(self._bent(seen.values))
        slope = np.average(self._log_slope(seen.values), weights=seen.counts)
        return slope - np.log(deviation) if deviation > 0 else -np.inf

    def encode(self, column):
        return self.inward(self._held_or_warn(self._numbers(column))), ()

    def decode(self, rows, drawn=False):
        return self._typed(self.outward(rows[:, 0].astype(np.float64), drawn))

    def inward(self, x):
        """Return y of numbers x."""
        inside = np.clip(x, *self._ends)
        beyond = np.abs(x - inside) * np.exp(self._log_slope(inside))
        y = self._bent(inside) + np.sign(x - inside) * self.deviation * np.log1p(
            beyond / self.deviation
        )
        low, high = self.leaps
        return y - low * (x <= self.lower) + high * (x >= self.upper)

    def outward(self, y, drawn=False):
        """Return the numbers, within the range of the training data, of draws or other values of y.

        Draws beyond the ends are reflected there, so that they accumulate only at ends with many
        rows of the training data.
        """
        lower, upper = self._bent_ends
        if drawn:
            low, high = self.leaps
            y = np.where((y > upper) & (high == 0), 2 * upper - y, y)
            y = np.where((y < lower) & (low == 0), 2 * lower - y, y)
        x = np.clip(self._straight(np.clip(y, lower, upper)), self.lower, self.upper)
        return np.where(y <= lower, self.lower, np.where(y >= upper, self.upper, x))

    def log_spread(self, column):
        """Return the log of the deviation of y times dx/dy: scores are then those of y."""
        inside = np.clip(self._numbers(column), *self._ends)
        return np.log(self.deviation) - self._log_slope(inside)

    def log_volume(self, rows):
        """Return log dy/dx for encoded rows, 0 where missing, float64."""
        y = rows[:, 0].astype(np.float64)
        inside = np.clip(y, *self._bent_ends)
        beyond = np.abs(y - inside) - np.where(y < inside, *self.leaps)
        slope = self._log_slope(self._straight(inside))
        return np.nan_to_num(slope - np.maximum(beyond, 0.0) / self.deviation)

    @property
    def _spread(self):
        return self.scale * self.deviation

    @cached_property
    def _ends(self):
        """The range of numbers x, extended by 1/2 at both ends for whole numbers."""
        half = 0.5 if "int" in self.dtype.lower() and self.lower < self.upper else 0.0
        return self.lower - half, self.upper + half

    @cached_property
    def _bent_ends(self):
        return tuple(self._bent(np.array(self._ends)))

    def _bent(self, x):
        t = (x - self.centre) / self.scale
        if self.power == 1:
            return t
        above, below = np.maximum(t, 0.0), np.maximum(-t, 0.0)
        return boxcox1p(above, self.power) - boxcox1p(below, 2 - self.power)

    def _straight(self, y):
        if self.power != 1:
            above, below = np.maximum(y, 0.0), np.maximum(-y, 0.0)
            y = inv_boxcox1p(above, self.power) - inv_boxcox1p(below, 2 - self.power)
        return self.centre + self.scale * y

    def _log_slope(self, x):
        t = (x - self.centre) / self.scale
        return (self.power - 1) * np.sign(t) * np.log1p(np.abs(t)) - np.log(self.scale)


@dataclass(frozen=True)
class SpikedColumn(NumberColumn):
    """Column in which many rows have one value, such as 0; the ``others`` are a skewed column.

    Its density is with respect to the sum of a unit mass at the spike and Lebesgue measure.
    """

    spike: float
    others: Any

    unit, width = SpikedGaussian(), 2

    @classmethod
    def fit(cls, name, dtype, seen):
        """Return the column of some observations."""
        spike = seen.spike
        spike = float(seen.values[np.argmax(seen.counts)]) if spike is None else spike
        rest = seen.without(spike)
        if not len(rest.values):
            raise ValueError(f"column {name!r} of kind 'spiked' has a single value")
        others = RealColumn.fit("skewed", name, dtype, rest)
        return cls("spiked", name, dtype, *_extent(seen), spike, others)

    def encode(self, column):
        numbers = self._numbers(column)
        has_other = np.where(numbers == numbers, numbers != self.spike, np.nan)
        y, _ = self.others.encode(np.where(has_other == 1, numbers, np.nan))
        return np.stack([has_other, np.where(has_other == 0, 0.0, y)], axis=1), ()

    def decode(self, rows, drawn=False):
        share, y = rows.astype(np.float64).T
        others = self.others.outward(y / np.where(share > 0, share, 1.0), drawn)
        return self._typed(self.spike + share * (others - self.spike))

    def log_unseen(self, column, n):
        numbers = self._numbers(column)
        return self.others.log_unseen(np.where(numbers == self.spike, np.nan, numbers), n)

    def log_spread(self, column):
        return (self._numbers(column) != self.spike) * self.others.log_spread(column)

    def log_volume(self, rows):
        """Return log dy/dx for encoded rows, 0 at the spike and where missing, float64."""
        return np.where(rows[:, 0] == 1, self.others.log_volume(rows[:, 1:]), 0.0)


def number_column(kind, name, dtype, seen):
    """Return the column of a kind that describes some observations of numbers."""
    if kind in ("real", "skewed"):
        return RealColumn.fit(kind, name, dtype, seen)
    if kind == "spiked":
        return SpikedColumn.fit(name, dtype, seen)
    if kind == "discrete":
        values = tuple(map(float, seen.values))
        column = DiscreteColumn(kind, name, dtype, *_extent(seen), values)
    else:
        column = NumberColumn(kind, name, dtype, *_extent(seen))
    if column._is_whole and (seen.values % 1 != 0).any():
        raise ValueError(f"column {name!r} of kind {kind!r} has values that are not whole")
    return column


def _extent(seen):
    """Return the smallest and the largest observed number, and the deviation."""
    lower, upper, deviation = *map(float, seen.values[[0, -1]]), seen.deviation(seen.values)
    return lower, upper, deviation if deviation > 1e-12 * abs(lower) else abs(lower) or 1.0


def as_numbers(values, name):
    """Return the values of a column as float64."""
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {name!r} has values that are not numbers: {error}") from error
