"""Units of which some are held at observed values, in each row of a machine."""

import math
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np

from ..arrays import (
    cast,
    from_numpy,
    inverse_factor,
    like,
    matmul,
    namespace,
    row_sums,
    take_rows,
    to_numpy,
)
from ..units import ColumnUnits, Unit


def _own(name):
    """Return a property that is that of the unit inside."""
    return property(attrgetter(f"unit.{name}"))


def _as_unit(name):
    """Return a method that is that of the unit inside."""

    def method(self, *args):
        return getattr(self.unit, name)(*args)

    return method


def _with_known_moments(name):
    """Return a method that is that of the unit inside, but for known means and no variance."""

    def method(self, theta):
        mean, *others = getattr(self.unit, name)(theta)
        others = (self._where(0 * self.known, part) for part in others)
        return self._where(self.known, mean), *others

    return method


@dataclass(frozen=True, eq=False)
class Held(Unit):
    """Units of which each row has some at known values, where they have no variance.

    Parameters
    ----------
    unit : Unit
        The kind of the units.
    known : array of shape (n_rows, n_units)
        Values; anything where they are not observed.
    observed : array of shape (n_rows, n_units), bool
        Where the values are known. The columns of a site are known together.
    """

    unit: Unit
    known: Any
    observed: Any

    bounds = _own("bounds")
    is_discrete = _own("is_discrete")
    has_further = _own("has_further")
    is_joint = _own("is_joint")
    default_theta = _as_unit("default_theta")
    tilt = _as_unit("tilt")
    tail_precision = _as_unit("tail_precision")
    log_base = _as_unit("log_base")
    statistics = _as_unit("statistics")
    joint_columns = _as_unit("joint_columns")
    dot = _as_unit("dot")

    @property
    def n_rows(self):
        return self.known.shape[0]

    def rows(self, index):
        return type(self)(self.unit, take_rows(self.known, index), take_rows(self.observed, index))

    def with_known(self, X):
        return self._where(self.known, X)

    def _where(self, value, free):
        """Return ``value`` where units are observed, elsewhere ``free``; None where that is."""
        if free is None:
            return None
        observed = self.observed
        if free.ndim == 3:  # of each pair of neighbours, (n_rows, n_above, n_units)
            observed, value = observed[:, None, :], value[:, None, :]
        return namespace(free).where(observed, value, free)

    def log_partition(self, theta):
        """Return log Z of each site; of one that is known, the logarithm of its weight."""
        free, x, observed = self.unit.log_partition(theta), self.known, self.observed
        if theta.field.ndim == 3:  # of each pair of neighbours, (n_rows, n_above, n_units)
            x, observed = x[:, None, :], observed[:, None, :]
        pairs = zip(theta, self.unit.statistics(x), strict=True)
        # Beside a precision matrix, parts without a precision have zeros for it.
        own = sum(part * x for part, x in pairs if part is not None and x is not None)
        base = self.unit.log_base(x)
        own = own if base is None else own + base
        own, observed = (by_site(self.unit, part) for part in (own, observed))
        return namespace(free).where(observed, own, free)

    def log_partitions(self, theta, fields):
        """Return log Z of the missing units of each row in each field, (n_rows, n_fields).

        ``fields`` has the shape (n_fields, n_units), and all rows share ``theta``.
        """
        local = self.unit.log_partition(self.unit.tilt(theta, fields))
        return matmul(cast(~by_site(self.unit, self.observed), local.dtype), local.T)

    def mean(self, theta):
        return self._where(self.known, self.unit.mean(theta))

    mean_variance = _with_known_moments("mean_variance")
    moments = _with_known_moments("moments")
    central_moments = _with_known_moments("central_moments")

    def cumulants(self, mean):
        return tuple(self._where(0 * self.known, part) for part in self.unit.cumulants(mean))

    def further(self, theta):
        known = [part for part in self.unit.statistics(self.known)[2:] if part is not None]
        pairs = zip(known, self.unit.further(theta) or (), strict=True)
        return tuple(self._where(value, free) for value, free in pairs) or None

    def sample(self, theta, rng):
        return self._where(self.known, self.unit.sample(theta, rng))


@dataclass(frozen=True, eq=False)
class HeldJoint(Held):
    """Units with a precision matrix of which each row has some at known values.

    Those that are missing are normal given the others. Rows with the same missing columns share a
    factor: R' R is their covariance matrix, with zeros in the columns that are known.
    """

    total_statistics = _as_unit("total_statistics")

    @cached_property
    def _zeros(self):
        """The known values, with zeros for those that are missing."""
        return namespace(self.known).where(self.observed, self.known, 0 * self.known)

    @cached_property
    def _patterns(self):
        """Which columns are missing in each group of rows; the order of rows; where groups end.

        ``order`` brings rows of a group side by side, and ``back`` undoes it.
        """
        observed = to_numpy(self.observed)
        patterns, group = np.unique(observed, axis=0, return_inverse=True)
        group = group.ravel()
        order = np.argsort(group, kind="stable")
        ends = np.cumsum(np.bincount(group, minlength=len(patterns)))
        order, back = (from_numpy(index, self.known) for index in (order, np.argsort(order)))
        return ~patterns, order, back, ends

    def _factors(self, theta):
        """Return R of each group, an array of shape (n_groups, n, n)."""
        joint, found = self.__dict__.get("_found", (None, None))
        if joint is not theta.joint:
            joint = theta.joint
            missing = cast(from_numpy(self._patterns[0], joint), joint.dtype)
            both = missing[:, :, None] * missing[:, None, :]
            one = namespace(joint).eye(joint.shape[0], **like(joint))
            found = inverse_factor(both * joint + one * (1 - missing)[:, :, None]) * both
            self.__dict__["_found"] = joint, found
        return found

    def _each(self, theta, function, *arrays):
        """Return ``function(R, *rows)`` of each group of rows, in the order of the rows."""
        _, order, back, ends = self._patterns
        factors, xp = self._factors(theta), namespace(self.known)
        if len(ends) == 1:
            return function(factors[0, ...], *arrays)
        arrays, parts, start = [xp.take(x, order, axis=0) for x in arrays], [], 0
        for k, end in enumerate(ends.tolist()):
            parts.append(function(factors[k, ...], *(x[start:end, ...] for x in arrays)))
            start = end
        return xp.take(xp.concat(parts, axis=0), back, axis=0)

    def _field(self, theta):
        """Return the field on the missing columns given the known ones, (n_rows, n)."""
        field = theta.field - matmul(self._zeros, theta.joint)
        return namespace(field).where(self.observed, 0 * field, field)

    def log_partition(self, theta):
        """Return numbers of each column whose sum is log Z of what is missing, and weight."""
        field, x = self._field(theta), self._zeros
        own = (theta.field - 0.5 * matmul(x, theta.joint)) * x

        def free(R, field):
            u = matmul(field, R.T)
            return 0.5 * u * u + _log_norms(R)

        return own + self._each(theta, free, field)

    def log_partitions(self, theta, fields):
        own = self._field(theta)

        def free(R, own):
            u, v = matmul(own, R.T), matmul(fields, R.T)
            squares = 0.5 * (row_sums(u * u)[:, None] + row_sums(v * v))
            return matmul(u, v.T) + squares + namespace(R).sum(_log_norms(R))

        return self._each(theta, free, own)

    def mean(self, theta):
        mean = self._each(theta, lambda R, field: matmul(matmul(field, R.T), R), self._field(theta))
        return self._where(self.known, mean)

    def mean_variance(self, theta):
        mean = self.mean(theta)

        def variance(R, rows):
            return namespace(R).sum(R * R, axis=0) + 0 * rows

        return mean, self._each(theta, variance, mean)

    def moments(self, theta):
        return self.mean_variance(theta)

    def further(self, theta):
        def second(R, rows):
            return namespace(R).broadcast_to(-0.5 * (R.T @ R), (rows.shape[0], *R.shape))

        return (self._each(theta, second, self.known),)

    def sample(self, theta, rng):
        noise = rng.normal(self.known.shape)

        def draw(R, field, noise):
            return matmul(noise + matmul(field, R.T), R)

        return self._where(self.known, self._each(theta, draw, self._field(theta), noise))


def _log_norms(R):
    """Return log Z of missing columns without a field, zeros for those that are known."""
    xp, scales = namespace(R), namespace(R).linalg.diagonal(R)
    logs = xp.log(xp.where(scales > 0, scales, xp.ones_like(scales)))
    return logs + (0.5 * math.log(2 * math.pi)) * cast(scales > 0, R.dtype)


@dataclass(frozen=True, eq=False)
class HeldColumns(ColumnUnits):
    """Columns of several kinds, of which some have a precision matrix, with known values."""

    known: Any
    observed: Any

    def __post_init__(self):
        """The parts have been checked."""

    @cached_property
    def units(self):
        """The kinds of the parts, with their known values."""
        units = (unit for unit, _ in self.parts)
        split = map(self._split, (self.known, self.observed))
        return tuple(held(*part) for part in zip(units, *split, strict=True))

    n_rows, with_known = Held.n_rows, Held.with_known
    _where = Held._where

    def rows(self, index):
        return type(self)(self.parts, take_rows(self.known, index), take_rows(self.observed, index))

    def log_partitions(self, theta, fields):
        pairs = zip(self._thetas(theta), self._split(fields), strict=True)
        return sum(unit.log_partitions(own, field) for (unit, own), field in pairs)


def held(unit, known, observed):
    """Return units of which each row has some at known values, where ``observed``."""
    if not unit.is_joint:
        return Held(unit, known, observed)
    if hasattr(unit, "parts"):
        return HeldColumns(unit.parts, known, observed)
    return HeldJoint(unit, known, observed)


def by_site(unit, columns):
    """Return the sum of the columns of each site, or of truth values whether all are True.

    An array of shape (..., n_units) becomes one of shape (..., n_sites).
    """
    xp, groups = namespace(columns), unit.groups(columns.shape[-1])
    if len(groups) == columns.shape[-1]:
        return columns
    whole = xp.all if xp.isdtype(columns.dtype, "bool") else xp.sum
    return xp.stack([whole(columns[..., g[0] : g[-1] + 1], axis=-1) for g in groups], axis=-1)
