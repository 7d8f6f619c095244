"""Layers whose columns have units of different kinds."""

import math
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from .._checks import check_count
from ..arrays import like, namespace, take_columns, value_range
from ._base import Theta, Unit


def _capability(name, joins):
    """Return a property: whether all of the parts, or any, have a capability."""
    return property(lambda units: joins(getattr(unit, name) for unit in units.units))


def _by_parts(name):
    """Return the method that splits its arguments among the parts and joins what they return."""

    def method(units, *args):
        split = map(units._split, args)
        parts = zip(units.units, *split, strict=True)
        return units._join([getattr(unit, name)(*own) for unit, *own in parts])

    method.__name__ = name
    return method


@dataclass(frozen=True)
class ColumnUnits(Unit):
    """Columns with units of different kinds, such as bits, real values and categories.

    Each part consists of a unit and its columns. Parameters are zero in the columns of parts that
    do not have them. The layer supports only what all of its parts support.

    Parameters
    ----------
    parts : list of (Unit, int) or of (Unit, sequence of int)
        Units, each with the number of its columns, which follow those of the part before, or with a
        list of their positions. Either all parts have a number or all have a list.

    Examples
    --------
    Two bits, a real value, and a category of three values, written as three columns:

    >>> from skrbm.units import Bernoulli, Categorical, ColumnUnits, Gaussian
    >>> unit = ColumnUnits([(Bernoulli(), 2), (Gaussian(), 1), (Categorical(3), 3)])
    >>> unit.takes_precision  # a category takes none
    False
    """

    parts: tuple

    is_discrete = _capability("is_discrete", all)
    samples_exactly = _capability("samples_exactly", all)
    takes_precision = _capability("takes_precision", all)
    has_variances = _capability("has_variances", all)
    has_central_moments = _capability("has_central_moments", all)
    has_cumulants = _capability("has_cumulants", all)
    is_gaussian = _capability("is_gaussian", all)
    needs_bounds = _capability("needs_bounds", any)
    has_precision = _capability("has_precision", any)
    has_further = _capability("has_further", any)
    is_joint = _capability("is_joint", any)
    is_standardised = _capability("is_standardised", any)
    reach = _capability("reach", max)

    mean = _by_parts("mean")
    mean_variance = _by_parts("mean_variance")
    central_moments = _by_parts("central_moments")
    cumulants = _by_parts("cumulants")
    mode = _by_parts("mode")
    sample = _by_parts("sample")
    spread = _by_parts("spread")
    project = _by_parts("project")
    initial_theta = _by_parts("initial_theta")
    base_theta = _by_parts("base_theta")

    def __post_init__(self):
        try:
            parts = tuple((unit, _columns(columns)) for unit, columns in self.parts)
        except TypeError as error:
            raise ValueError(
                f"parts must be a list of pairs (unit, columns), got {self.parts!r}"
            ) from error
        object.__setattr__(self, "parts", parts)
        if not parts or not all(isinstance(unit, Unit) and unit.is_learnt for unit, _ in parts):
            raise ValueError(
                "parts must be a list of pairs (unit, columns), with units that can be learned, "
                f"got {self.parts!r}"
            )
        _ = self._layout  # raises if the columns are not those of a layer
        if sum(unit.is_joint for unit, _ in parts) > 1:
            raise ValueError(
                "parts must have at most one unit with covariance='full', with all real columns"
            )

    def __getstate__(self):
        """Return the parts without cached properties, for copies and files."""
        return {"parts": self.parts}

    # ----------------------------------------------------------------------- columns of parts

    @cached_property
    def units(self):
        """The kinds of the parts, a tuple of Unit."""
        return tuple(unit for unit, _ in self.parts)

    @cached_property
    def _layout(self):
        return _layout(self.parts)

    @cached_property
    def _sites(self):
        """The columns of each site, in order, and the place of each among those of the parts."""
        sites = [own[site] for unit, own in self._pairs for site in unit.groups(len(own))]
        if any((np.diff(site) != 1).any() for site in sites):
            raise ValueError("the columns of a site must be adjacent and in order")
        order = np.argsort([site[0] for site in sites])
        return [sites[i] for i in order], None if self._layout.order is None else order

    @cached_property
    def _statistics(self):
        """Which statistics of :class:`Theta` each part has, tuples of bool.

        A tilt may give a precision to any part, which a unit without one may need in its
        log-partition function.
        """
        found = []
        for unit, own in self._pairs:
            theta = unit.default_theta(len(own), np.zeros(1))
            found.append((True, not unit.is_joint, *(part is not None for part in theta[2:])))
        return found

    @property
    def columns(self):
        """The columns of each part, a tuple of index arrays."""
        return tuple(map(np.array, self._layout.columns))

    @property
    def n_columns(self):
        """The number of columns of the layer."""
        return self._layout.n

    def _with_columns(self, n):
        """Return pairs of the unit and the columns of each part of a layer of ``n`` columns."""
        if n != self.n_columns:
            raise ValueError(f"{self} has {self.n_columns} columns, and the layer has {n}")
        return self._pairs

    @property
    def _pairs(self):
        return list(zip(self.units, self.columns, strict=True))

    def _split(self, x):
        """Return what an array, a Theta or Columns is for each part; anything else is the same."""
        places = self._layout.places
        if isinstance(x, Theta):  # of the statistics that a part has
            found = []
            for place, names in zip(places, self._statistics, strict=True):
                own = [
                    take_columns(part, place) if has and part is not None else None
                    for part, has in zip(x[:-1], names[:-1], strict=True)
                ]
                found.append(Theta(*own, x.joint if names[-1] else None))
            return found
        if hasattr(x, "part"):
            return [x.part(place) for place in places]
        if getattr(x, "ndim", 0):
            return [take_columns(x, place) for place in places]
        return [x] * len(places)

    def _join(self, parts):
        """Undo :meth:`_split`, of arrays, Thetas or tuples of arrays."""
        order = self._layout.order
        if isinstance(parts[0], Theta):
            theta = joined(parts)
            if order is None:
                return theta
            return theta.map_columns(lambda part: take_columns(part, order))
        if isinstance(parts[0], tuple):
            return tuple(self._join(each) for each in zip(*parts, strict=True))
        joint = namespace(parts[0]).concat(list(parts), axis=-1)
        return joint if order is None else take_columns(joint, order)

    def _join_known(self, parts, x, filling):
        """Return the columns of all parts, ``filling(x)`` for None; None if all parts are None."""
        if all(part is None for part in parts):
            return None
        pairs = zip(parts, self._split(x), strict=True)
        return self._join([filling(own) if part is None else part for part, own in pairs])

    def _join_sites(self, parts):
        """Return the values of the sites of all parts, in the order of the sites of the layer."""
        total, order = namespace(parts[0]).concat(parts, axis=-1), self._sites[1]
        return total if order is None else take_columns(total, order)

    def _thetas(self, theta):
        """Return pairs of the unit and the Theta of each part."""
        return list(zip(self.units, self._split(theta), strict=True))

    # ---------------------------------------------------------------------------- the support

    @property
    def alternative(self):
        """What to use where a method does not apply to one of the parts, for errors."""
        return next(filter(None, (unit.alternative for unit in self.units)), "")

    @property
    def bounds(self):
        """The smallest and the largest value of all parts."""
        lower, upper = zip(*(unit.bounds for unit in self.units), strict=True)
        return min(lower), max(upper)

    def n_configurations(self, n):
        return math.prod(unit.n_configurations(len(own)) for unit, own in self._with_columns(n))

    def configurations(self, n, numbers):
        parts = []
        for unit, columns in self._with_columns(n):
            size = unit.n_configurations(len(columns))
            parts.append(unit.configurations(len(columns), numbers % size))
            numbers = numbers // size
        return self._join(parts)

    def groups(self, n):
        self._with_columns(n)  # raises if the layer has other columns
        return self._sites[0]

    def exclusive(self, n):
        pairs = self._with_columns(n)
        return [own[site] for unit, own in pairs for site in unit.exclusive(len(own))]

    def supports(self, n):
        found = [None] * n
        for unit, own in self._with_columns(n):
            for column, support in zip(own, unit.supports(len(own)), strict=True):
                found[column] = support
        return found

    def part(self, n, columns):
        kept = []
        for unit, own in self._with_columns(n):
            local = np.flatnonzero(np.isin(own, columns))
            if len(local):
                places = np.searchsorted(columns, own[local])
                kept.append((unit.part(len(own), local), places))
        in_order = len(kept) == 1 and (np.diff(kept[0][1]) == 1).all()
        return kept[0][0] if in_order else ColumnUnits(kept)

    def fitted(self, columns=None):
        if columns is not None and columns.shape[1] != self.n_columns:  # ends of all together
            columns = None
            if any(unit.fitted() != unit for unit in self.units):
                raise ValueError(f"{self}: pass both bounds for training on several ranks")
        pairs = zip(self.parts, self._split(columns), strict=True)
        return ColumnUnits([(unit.fitted(data), own) for (unit, own), data in pairs])

    def asks_for(self, fitted):
        return (
            type(self) is type(fitted)
            and self._layout.columns == fitted._layout.columns
            and all(a.asks_for(b) for a, b in zip(self.units, fitted.units, strict=True))
        )

    def check_values(self, X):
        """Raise ValueError that names the columns if a part cannot have its values."""
        pairs = self._with_columns(X.shape[1])
        for (unit, columns), values in zip(pairs, self._split(X), strict=True):
            few = [int(i) for i in columns[:5]] + (["..."] if len(columns) > 5 else [])
            least, most = value_range(values)
            has_bounds = unit.fitted() == unit  # else those of the data that are checked
            if has_bounds and (least < unit.bounds[0] or most > unit.bounds[1]):
                raise ValueError(
                    f"columns {few} of X have values from {least:.4g} to {most:.4g}, outside the "
                    f"range [{unit.bounds[0]:g}, {unit.bounds[1]:g}] of {unit}; scale or clip "
                    "them, or use units with wider bounds"
                )
            try:
                unit.check_values(values)
            except ValueError as error:
                raise ValueError(f"columns {few} of X: {error}") from error

    def columns_with(self, capability, n):
        pairs = self._with_columns(n)
        return self._join([unit.columns_with(capability, len(own)) for unit, own in pairs])

    # ----------------------------------------------------------------------- the distribution

    def tilt(self, theta, field, precision=None):
        if precision is None:
            return theta._replace(field=theta.field + field)
        parts = zip(self._thetas(theta), self._split(field), self._split(precision), strict=True)
        return self._join([unit.tilt(own, *evidence) for (unit, own), *evidence in parts])

    def log_partition(self, theta):
        return self._join_sites([unit.log_partition(own) for unit, own in self._thetas(theta)])

    def log_ratio(self, theta0, theta1):
        pairs = zip(self._thetas(theta0), self._split(theta1), strict=True)
        return sum(unit.log_ratio(own, other) for (unit, own), other in pairs)

    def moments(self, theta):
        means, variances = zip(*(u.moments(own) for u, own in self._thetas(theta)), strict=True)
        if all(variance is None for variance in variances):
            return self._join(means), None
        found = []  # where a part has no variances of its own, those of bits
        for (unit, own), mean, variance in zip(self._thetas(theta), means, variances, strict=True):
            if variance is None and unit.has_variances:
                variance = unit.mean_variance(own)[1]
            found.append(mean - mean * mean if variance is None else variance)
        return self._join(means), self._join(found)

    def further(self, theta):
        if not self.has_further:
            return None
        return self._join_further(theta, [unit.further(own) for unit, own in self._thetas(theta)])

    def _join_further(self, theta, parts):
        """Return the further statistics of the layer, for those of the parts."""
        found, pairs = [], zip(self._split(theta), parts, self._statistics, strict=True)
        for own, further, names in pairs:
            values = iter(further or ())
            more = (next(values) if has else None for has in names[2:])
            found.append(Theta(own.field, None, *more))
        return tuple(part for part in self._join(found)[2:] if part is not None)

    def _split_further(self, mean, further):
        """Undo :meth:`_join_further`; None where a part has no further statistics."""
        if further is None:
            return [None] * len(self.parts)
        values, names = iter(further), zip(*self._statistics, strict=True)
        parts = [next(values) if any(has) else None for has in list(names)[2:]]
        thetas = self._split(Theta(mean, None, *parts))
        return [tuple(part for part in own[2:] if part is not None) or None for own in thetas]

    def tail_precision(self, theta):
        parts = [unit.tail_precision(own) for unit, own in self._thetas(theta)]
        return self._join_known(parts, theta.field, lambda x: namespace(x).full_like(x, math.inf))

    def is_improper(self, theta):
        if not self.is_joint:
            return super().is_improper(theta)
        parts = [unit.is_improper(own) for unit, own in self._thetas(theta)]
        return self._join_known(parts, theta.field, lambda x: x != x)

    # -------------------------------------------------------------------- values and parameters

    def log_base(self, x):
        parts = [unit.log_base(own) for unit, own in zip(self.units, self._split(x), strict=True)]
        return self._join_known(parts, x, namespace(x).zeros_like)

    def base_sums(self, X):
        found = [unit.base_sums(own) for unit, own in zip(self.units, self._split(X), strict=True)]
        found = [base for base in found if base is not None]
        return sum(found) if found else None

    def dot(self, theta, X):
        if theta.joint is None:
            return super().dot(theta, X)
        pairs = zip(self._thetas(theta), self._split(X), strict=True)
        return sum(unit.dot(own, part) for (unit, own), part in pairs)

    def _expected(self, name, mean, variance, further, *weight):
        """Return the Theta of expected statistics that the method ``name`` of each part returns."""
        split = self._split(mean), self._split(variance), self._split_further(mean, further)
        parts = zip(self.units, *split, strict=True)
        return self._join([getattr(unit, name)(*weight, *own) for unit, *own in parts])

    def statistics(self, mean, variance=None, further=None):
        return self._expected("statistics", mean, variance, further)

    def total_statistics(self, weight, mean, variance=None, further=None):
        return self._expected("total_statistics", mean, variance, further, weight)

    def default_theta(self, n, reference):
        pairs = self._with_columns(n)
        return self._join([unit.default_theta(len(own), reference) for unit, own in pairs])

    # ------------------------------------------------------------------- joint normal columns

    def without_joint(self):
        return ColumnUnits([(unit.without_joint(), columns) for unit, columns in self.parts])

    def joint_columns(self, n):
        pairs = self._with_columns(n)
        return np.concatenate([own[unit.joint_columns(len(own))] for unit, own in pairs])

    @property
    def min_precision(self):
        """The lower bound on the eigenvalues of a learned precision matrix."""
        return next(unit.min_precision for unit in self.units if unit.is_joint)


def joined(thetas):
    """Return the parameters of several groups of columns as those of one layer.

    There are zeros in the columns of a group without a statistic that another has.
    """
    parts, joint = [], [theta.joint for theta in thetas if theta.joint is not None]
    for values in zip(*(theta[:-1] for theta in thetas), strict=True):
        known = next((part for part in values if part is not None), None)
        if known is not None:
            xp, rows = namespace(known), known.shape[:-1]
            sizes = (own.field.shape[-1] for own in thetas)
            values = [
                xp.zeros((*rows, n), **like(known)) if part is None else part
                for part, n in zip(values, sizes, strict=True)
            ]
            known = xp.concat(values, axis=-1)
        parts.append(known)
    return Theta(*parts, *joint)


class _Layout(NamedTuple):
    """Where the columns of each part are."""

    n: int
    columns: tuple  # of tuples of int
    places: tuple  # slices, or index arrays
    order: Any  # which of the columns of the parts, one after the other, each column is, or None


def _columns(given):
    """Return a number of columns as int, or the numbers of columns as a tuple of int."""
    several = np.iterable(given)
    for number in given if several else [given]:
        check_count("a column" if several else "the number of columns", number, 0 if several else 1)
    return tuple(map(int, given)) if several else int(given)


def _layout(parts):
    """Return the layout of pairs of a unit and its columns; raises ValueError if there is none."""
    columns = [own for _, own in parts]
    if all(isinstance(own, Integral) for own in columns):
        ends = np.cumsum(columns).tolist()
        columns = [range(end - n, end) for end, n in zip(ends, columns, strict=True)]
    elif any(isinstance(own, Integral) or not own for own in columns):
        columns = [()]
    every = np.concatenate([np.array(own, dtype=int) for own in columns])
    if not len(every) or sorted(every) != list(range(len(every))):
        raise ValueError(
            "parts must all have a number of columns, or all a list of positions, with each "
            f"position from 0 on exactly once, got {[own for _, own in parts]}"
        )
    if (np.diff(every) == 1).all():
        places, order = [slice(own[0], own[-1] + 1) for own in columns], None
    else:
        places, order = map(np.array, columns), np.argsort(every)
    return _Layout(len(every), tuple(map(tuple, columns)), tuple(places), order)
