"""Units, some of which are held at observed values that differ from row to row."""

import math
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

from ..arrays import (
    cast,
    from_numpy,
    inverse_factor,
    like,
    matmul,
    namespace,
    row_blocks,
    row_sums,
    take_rows,
)
from ..units import ColumnUnits, Unit
from ._patterns import Patterns

_ELEMENTS = 2**16  # of products of columns that are computed at a time


def _own(name):
    """Return a property that returns that of the unit inside."""
    return property(attrgetter(f"unit.{name}"))


def _as_unit(name):
    """Return a method that calls that of the unit inside."""

    def method(self, *args):
        return getattr(self.unit, name)(*args)

    return method


def _with_known_moments(name):
    """Return a method that calls the unit inside, but gives known values a variance of 0."""

    def method(self, theta):
        mean, *others = getattr(self.unit, name)(theta)
        others = (self._where(0 * self.known, part) for part in others)
        return self._where(self.known, mean), *others

    return method


@dataclass(frozen=True, eq=False)
class Held(Unit):
    """Units, some of which are fixed at known values in each row, and then have no variance.

    Parameters
    ----------
    unit : Unit
        The kind of the units.
    known : array of shape (n_rows, n_units)
        The known values; arbitrary where a unit is not observed.
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
        """Return ``value`` where units are observed, else ``free``; None if ``free`` is None."""
        if free is None:
            return None
        observed = self.observed
        if free.ndim == 3:  # of each pair of neighbours, (n_rows, n_above, n_units)
            observed, value = observed[:, None, :], value[:, None, :]
        return namespace(free).where(observed, value, free)

    def log_partition(self, theta):
        """Return log Z of each site, or the logarithm of its weight if it is known."""
        free, x, observed = self.unit.log_partition(theta), self.known, self.observed
        if theta.field.ndim == 3:  # of each pair of neighbours, (n_rows, n_above, n_units)
            x, observed = x[:, None, :], observed[:, None, :]
        pairs = zip(theta, self.unit.statistics(x), strict=True)
        # Next to a precision matrix, parts that have no precision store zeros.
        own = sum(part * x for part, x in pairs if part is not None and x is not None)
        base = self.unit.log_base(x)
        own = own if base is None else own + base
        own, observed = (by_site(self.unit, part) for part in (own, observed))
        return namespace(free).where(observed, own, free)

    def log_partitions(self, theta, weights):
        """Return a function of values that returns log Z of the missing units of each row.

        Its result has shape (n_rows, n_values), one column for each of the fields
        ``values @ weights``, which are added to ``theta``. All rows share ``theta``.
        """

        def function(values):
            local = self.unit.log_partition(self.unit.tilt(theta, matmul(values, weights)))
            return matmul(cast(~by_site(self.unit, self.observed), local.dtype), local.T)

        return function

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


class _Given(NamedTuple):
    """The matrices that :class:`HeldJoint` derives from its parameters, in float64.

    P is the precision matrix, R' R = C its inverse, and ``factors`` are those of :class:`Patterns`.
    """

    P: Any
    R: Any
    C: Any
    factors: list


@dataclass(frozen=True, eq=False)
class HeldJoint(Held):
    """Units with a precision matrix, some of which are fixed at known values in each row.

    The missing columns m are normal given the known ones k. With the precision matrix P and the
    covariance matrix C = P^-1, their mean and covariance are

        P_mm^-1 (field_m - P_mk x_k)             and  P_mm^-1, or
        mean_m + C_mk C_kk^-1 (x_k - mean_k)     and  C_mm - C_mk C_kk^-1 C_km,

    of which the first is used in rows where fewer columns are missing than known, and the second in
    the others. Everything is in float64, since C has rounding errors times the condition number of
    P.
    """

    total_statistics = _as_unit("total_statistics")

    @cached_property
    def _patterns(self):
        return Patterns(self.observed)

    @cached_property
    def _zeros(self):
        """The known values, with zeros for those that are missing, float64."""
        xp = namespace(self.known)
        known = cast(self.known, xp.float64)
        return xp.where(self.observed, known, xp.zeros_like(known))

    @cached_property
    def _missing(self):
        """Ones where values are missing, and zeros elsewhere, float64."""
        return cast(~self.observed, namespace(self.known).float64)

    def _given(self, theta):
        """Return the matrices of ``theta``, and its field of shape (n_rows, n), in float64."""
        joint, found = self.__dict__.get("_found", (None, None))
        if joint is not theta.joint:
            joint = theta.joint
            P = cast(joint, namespace(joint).float64)
            R = inverse_factor(P)
            C = R.T @ R
            found = _Given(P, R, C, self._patterns.factors(P, C))
            self.__dict__["_found"] = joint, found
        return found, cast(theta.field, found.P.dtype) + 0 * self._zeros

    def _solved(self, theta, noise=None):
        """Return y, which is zero except in the fewer columns, and the mean x of the missing ones.

        x is y or C (field + y). With standard normal ``noise``, of shape (n_rows, n), it is a draw:
        in rows where fewer columns are known, all columns are drawn, and then moved so that the
        known ones take their values.
        """
        (P, R, C, factors), field = self._given(theta)
        z, either = self._zeros, self._patterns.either
        noise = 0 * z if noise is None else cast(noise, z.dtype)
        start = either(lambda: matmul(matmul(field, R.T) + noise, R), lambda: 0 * z)
        rest = either(lambda: z - start, lambda: field - matmul(z, P))
        more = either(lambda: 0 * z, lambda: noise)

        def solve(R, rest, noise):
            return (rest @ R.mT + noise) @ R

        y = self._patterns.apply(factors, solve, rest, more)
        return y, either(lambda: start + matmul(y, C), lambda: y)

    def _log_weight(self, theta):
        """Return the logarithm of the weight of the known values of each column, float64."""
        given, field = self._given(theta)
        return (field - 0.5 * matmul(self._zeros, given.P)) * self._zeros

    def log_partition(self, theta):
        """Return a number per column, whose sum is log Z of the missing values plus the log-weight.

        In rows where fewer columns are known, log Z is that of all columns times the density of the
        known ones. The numbers are in float64, as large ones may have a small sum.
        """
        (P, R, C, factors), field = self._given(theta)
        xp, z, either = namespace(field), self._zeros, self._patterns.either
        rest = either(lambda: z - matmul(field, C), lambda: field - matmul(z, P))
        sign = either(lambda: 0 * z - 1, lambda: 0 * z + 1)

        def whole():
            u = matmul(field, R.T)
            return 0.5 * u * u + xp.log(xp.linalg.diagonal(R))

        def normal(R, rest, sign):
            u = rest @ R.mT
            return 0.5 * sign * u * u + xp.log(xp.linalg.diagonal(R))[:, None, :]

        total = either(whole, lambda: self._log_weight(theta))
        total = total + self._patterns.apply(factors, normal, rest, sign)
        return total + 0.5 * math.log(2 * math.pi) * self._missing

    def log_partitions(self, theta, weights):
        (_, _, C, factors), field = self._given(theta)
        weights = through = cast(weights, field.dtype)
        if weights.shape[0] > weights.shape[1]:  # use quadratic forms of the smaller size
            through = namespace(weights).eye(weights.shape[1], **like(weights))
        y, _ = self._solved(theta)
        slopes = self._patterns.either(
            lambda: matmul(field + y, (through @ C).T) - matmul(self._zeros, through.T),
            lambda: matmul(y, through.T),
        )
        forms = self._patterns.forms(factors, C, through.T)
        constants = row_sums(self.log_partition(theta) - self._log_weight(theta))[:, None]

        def function(values):
            values = cast(values, field.dtype)
            values = values if through is weights else matmul(values, weights)
            squares = take_rows(_quadratic_forms(values, forms), self._patterns.of_rows)
            return matmul(slopes, values.T) + squares + constants

        return function

    def mean(self, theta):
        return self._where(self.known, cast(self._solved(theta)[1], theta.field.dtype))

    def _covariances(self, theta):
        """Return the covariance matrix of each pattern, zero in known columns, float64."""
        given, _ = self._given(theta)
        one = namespace(given.P).eye(given.P.shape[0], **like(given.P))
        found = self._patterns.forms(given.factors, given.C, one)
        missing = cast(from_numpy(self._patterns.missing, found), found.dtype)
        return found * missing[:, :, None] * missing[:, None, :]

    def mean_variance(self, theta):
        xp, P = namespace(theta.joint), self._given(theta)[0].P
        variances = xp.linalg.diagonal(self._covariances(theta))
        # No variance is below that given all other columns, though rounding might make it so.
        variances = xp.maximum(variances, 1 / xp.linalg.diagonal(P))
        variances = self._missing * take_rows(variances, self._patterns.of_rows)
        return self.mean(theta), cast(variances, theta.field.dtype)

    def moments(self, theta):
        return self.mean_variance(theta)

    def further(self, theta):
        second = cast(-0.5 * self._covariances(theta), theta.field.dtype)
        return (take_rows(second, self._patterns.of_rows),)

    def sample(self, theta, rng):
        _, drawn = self._solved(theta, rng.normal(self.known.shape))
        return self._where(self.known, cast(drawn, theta.field.dtype))


def _quadratic_forms(values, matrices):
    """Return x' A x / 2 of each symmetric matrix A and each row x of values, (n_matrices, n_rows).

    The products x_i x_j of i <= j are computed once, for all matrices.
    """
    xp, n, found = namespace(values), values.shape[1], []
    halved = xp.triu(matrices, k=1) + 0.5 * matrices * xp.eye(n, **like(values))
    coefficients = xp.concat([halved[:, i, i:] for i in range(n)], axis=1)
    for rows in row_blocks(values, max(1, _ELEMENTS // coefficients.shape[1])):
        columns = xp.asarray(rows.T, copy=True)
        products = [columns[i:, :] * columns[i, :] for i in range(n)]
        found.append(matmul(coefficients, xp.concat(products, axis=0)))
    return xp.concat(found, axis=1)


@dataclass(frozen=True, eq=False)
class HeldColumns(ColumnUnits):
    """Columns of several kinds, some with a precision matrix, that are held at known values."""

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

    def log_partitions(self, theta, weights):
        pairs = zip(self._thetas(theta), self._split(weights), strict=True)
        parts = [unit.log_partitions(own, part) for (unit, own), part in pairs]
        return lambda values: sum(part(values) for part in parts)


def held(unit, known, observed):
    """Return units that are held at the ``known`` values of each row where ``observed``."""
    if not unit.is_joint:
        return Held(unit, known, observed)
    if hasattr(unit, "parts"):
        return HeldColumns(unit.parts, known, observed)
    return HeldJoint(unit, known, observed)


def by_site(unit, columns):
    """Return the sum of the columns of each site; for truth values, whether all are True.

    An array of shape (..., n_units) becomes one of shape (..., n_sites).
    """
    xp, groups = namespace(columns), unit.groups(columns.shape[-1])
    if len(groups) == columns.shape[-1]:
        return columns
    whole = xp.all if xp.isdtype(columns.dtype, "bool") else xp.sum
    return xp.stack([whole(columns[..., g[0] : g[-1] + 1], axis=-1) for g in groups], axis=-1)
