"""Columns of real numbers of tables: as they are, skewed, or with one value in many rows.

A value x is encoded as y(x), which increases with x without bounds, so that densities of x and y
differ by the factor dy/dx. Within the range of the training data y is x or, in skewed columns, a
power of it. Beyond the range nothing is known of the scale: y grows as the logarithm of the
distance, without a jump of the slope. A value that is far off then costs the square of a logarithm,
tens of nats, rather than the square of its distance.
"""

from dataclasses import astuple, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import boxcox1p, inv_boxcox1p

from ..units import SpikedGaussian
from ._table_columns import NumberColumn

_MOST_VALUES = 4096  # of a column that are kept; larger data keep as many quantiles
_LEAST_VALUES = 20  # different ones that tell about a shape
_LEAST_GAIN = 0.1  # nats a row by which a power has to improve on a normal distribution
_LEAST_SHARE, _LEAST_RATIO = 0.1, 2.0  # of a spike: part of all rows, and times the next value's
_LEAST_OTHERS = 5  # different values beside a spike


class Observations:
    """The different values of a column of numbers in order, and how many rows have each or none.

    Of many values there are quantiles.
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

    def moments_of(self, y):
        """Return mean and standard deviation of values that belong to ``values``."""
        mean = np.average(y, weights=self.counts)
        return float(mean), float(np.sqrt(np.average((y - mean) ** 2, weights=self.counts)))

    @property
    def spike(self):
        """The value that so many more rows have than any other that it is no chance, or None."""
        if len(self.values) <= _LEAST_OTHERS:
            return None
        second, first = np.argsort(self.counts)[-2:]
        share = self.counts[first] / self.counts.sum()
        is_alone = self.counts[first] >= _LEAST_RATIO * self.counts[second]
        return float(self.values[first]) if share >= _LEAST_SHARE and is_alone else None


@dataclass(frozen=True)
class RealColumn(NumberColumn):
    """Column of any numbers.

    Parameters
    ----------
    deviation : float
        Standard deviation of y. Of a column that is constant in training, which tells nothing of
        its scale, it is the size of its value, or 1 if that is 0: a scale that is k times too large
        costs log k nats a row, one that is too small the square of what it is off.
    """

    deviation: float

    kind = "real"

    @classmethod
    def fit(cls, name, dtype, seen):
        """Return the column of some observations."""
        lower, upper = float(seen.values[0]), float(seen.values[-1])
        deviation = seen.moments_of(seen.values)[1]
        if not deviation > 1e-12 * abs(lower):
            deviation = abs(lower) or 1.0
        return cls(name, dtype, lower, upper, deviation)

    def encode(self, column):
        numbers, unknown = super().encode(column)
        return self.inward(numbers), unknown

    def decode(self, rows, drawn=False):
        return self._typed(self.outward(rows[:, 0].astype(np.float64), drawn))

    def inward(self, x):
        """Return y of numbers x."""
        inside = np.clip(x, *self._ends)
        beyond = np.abs(x - inside) * np.exp(self._log_slope(inside))
        return self._bent(inside) + np.sign(x - inside) * self.deviation * np.log1p(
            beyond / self.deviation
        )

    def outward(self, y, drawn=False):
        """Return numbers within the range of training, of draws of y or of other values.

        Draws beyond the ends are reflected there, so that they do not pile up at the ends.
        """
        lower, upper = self._bent_ends
        if drawn:
            y = np.where(y > upper, 2 * upper - y, np.where(y < lower, 2 * lower - y, y))
        x = self._straight(np.clip(y, lower, upper))
        return np.clip(x, self.lower, self.upper)

    def log_volume(self, rows):
        """Return log dy/dx for encoded rows, 0 where missing, float64."""
        return np.nan_to_num(self._log_volume(rows[:, 0].astype(np.float64)))

    def _log_volume(self, y):
        inside = np.clip(y, *self._bent_ends)
        return self._log_slope(self._straight(inside)) - np.abs(y - inside) / self.deviation

    @cached_property
    def _ends(self):
        """The range of numbers x, with the halves of the ends of whole numbers."""
        half = 0.5 if "int" in self.dtype.lower() and self.lower < self.upper else 0.0
        return self.lower - half, self.upper + half

    @cached_property
    def _bent_ends(self):
        return tuple(self._bent(np.array(self._ends)))

    def _bent(self, x):
        return x

    def _straight(self, y):
        return y

    def _log_slope(self, x):
        return 0.0 * x


@dataclass(frozen=True)
class SkewedColumn(RealColumn):
    """Column with a long tail: y is the power of Yeo and Johnson (2000) of (x - centre) / scale.

    That is the logarithm of 1 + x for power 0, and x for 1. Powers from 0 to 2 have all real
    numbers as values.

    References
    ----------
    Yeo, I.-K., & Johnson, R. A. (2000). A new family of power transformations to improve normality
    or symmetry. Biometrika 87, 954-959.
    """

    centre: float
    scale: float
    power: float

    kind = "skewed"

    @classmethod
    def fit(cls, name, dtype, seen):
        real = RealColumn.fit(name, dtype, seen)
        levels = np.cumsum(seen.counts) / seen.counts.sum()
        low, centre, high = seen.values[np.searchsorted(levels, [0.25, 0.5, 0.75])]
        scale = float(high - low) or real.deviation
        column = cls(*astuple(real), centre=float(centre), scale=scale, power=1.0)
        if real.lower < real.upper:
            fit = minimize_scalar(
                lambda power: -replace(column, power=power)._fitness(seen),
                bounds=(0, 2),
                method="bounded",
                options={"xatol": 1e-3},
            )
            column = replace(column, power=round(float(fit.x), 2))
        _, deviation = seen.moments_of(column._bent(seen.values))
        return replace(column, deviation=deviation or 1.0)

    def gain(self, seen):
        """Return nats a row by which it is better than without the power."""
        return self._fitness(seen) - replace(self, power=1.0)._fitness(seen)

    def _fitness(self, seen):
        _, deviation = seen.moments_of(self._bent(seen.values))
        slope = np.average(self._log_slope(seen.values), weights=seen.counts)
        return slope - np.log(deviation) if deviation > 0 else -np.inf

    @property
    def meaning(self):
        return *super().meaning, self.centre, self.scale, self.power

    def _bent(self, x):
        t = (x - self.centre) / self.scale
        above, below = np.maximum(t, 0.0), np.maximum(-t, 0.0)
        return boxcox1p(above, self.power) - boxcox1p(below, 2 - self.power)

    def _straight(self, y):
        above, below = np.maximum(y, 0.0), np.maximum(-y, 0.0)
        t = inv_boxcox1p(above, self.power) - inv_boxcox1p(below, 2 - self.power)
        return self.centre + self.scale * t

    def _log_slope(self, x):
        t = (x - self.centre) / self.scale
        return (self.power - 1) * np.sign(t) * np.log1p(np.abs(t)) - np.log(self.scale)


@dataclass(frozen=True)
class SpikedColumn(NumberColumn):
    """Column in which many rows have one value, such as 0; the others are a skewed column.

    Its density is one with respect to the sum of a unit mass at the spike and the lengths of
    intervals.
    """

    spike: float
    others: Any

    kind, unit, width = "spiked", SpikedGaussian(), 2

    @classmethod
    def fit(cls, name, dtype, seen):
        """Return the column of some observations."""
        spike = seen.spike
        spike = float(seen.values[np.argmax(seen.counts)]) if spike is None else spike
        rest = seen.without(spike)
        if not len(rest.values):
            raise ValueError(f"column {name!r} has kind {cls.kind!r} and one value only")
        ends = float(seen.values[0]), float(seen.values[-1])
        return cls(name, dtype, *ends, spike, SkewedColumn.fit(name, dtype, rest))

    @property
    def meaning(self):
        return *super().meaning, self.spike, *self.others.meaning

    def encode(self, column):
        numbers, unknown = super().encode(column)
        has_other = np.where(numbers == numbers, numbers != self.spike, np.nan)
        y = np.where(has_other == 0, 0.0, self.others.inward(numbers))
        return np.stack([has_other, y], axis=1), unknown

    def decode(self, rows, drawn=False):
        """Return values of rows of the unit, or means of them and of others."""
        share, y = rows.astype(np.float64).T
        others = self.others.outward(y / np.where(share > 0, share, 1.0), drawn)
        return self._typed(self.spike + share * (others - self.spike))

    def log_volume(self, rows):
        """Return log dy/dx for encoded rows, 0 at the spike and where missing, float64."""
        return np.where(rows[:, 0] == 1, self.others.log_volume(rows[:, 1:]), 0.0)


def kind_of_reals(name, dtype, seen):
    """Return the kind of a column of numbers that are many: by what describes them best.

    "spiked" if one value is in a tenth of the rows and in twice as many as any other; "skewed" if a
    power brings the values nearer to a normal distribution by 0.1 nats a row; else "real".
    """
    if seen.spike is not None:
        return "spiked"
    if len(seen.values) <= _LEAST_VALUES:
        return "real"
    return "skewed" if SkewedColumn.fit(name, dtype, seen).gain(seen) > _LEAST_GAIN else "real"
