"""Inference with some of the visible units held at observed values.

A machine of which each row has its own observed units is a machine with :class:`Held` units, which
samplers, annealing and moments take as any other. Fixed points hold them in their states.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from .._checks import check_count
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
from ..machine import condition, conditional
from ..units import Unit
from ._fixed_point import FixedPoint, choose, solve
from ._gibbs import Gibbs, accept, odd_conditionals, samples_exactly
from ._sampler import last_visible, sample

_GIBBS = Gibbs()


def _own(name):
    """Return a property that is that of the unit inside."""
    return property(attrgetter(f"unit.{name}"))


def _as_unit(name):
    """Return a method that is that of the unit inside."""

    def method(self, *args):
        return getattr(self.unit, name)(*args)

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

    def _where_free(self, parts):
        """Return arrays with 0 where units are observed; a tuple."""
        return tuple(self._where(0 * self.known, part) for part in parts)

    def log_partition(self, theta):
        """Return log Z of each site; of one that is known, the logarithm of its weight."""
        free, x, observed = self.unit.log_partition(theta), self.known, self.observed
        if theta.field.ndim == 3:  # of each pair of neighbours, (n_rows, n_above, n_units)
            x, observed = x[:, None, :], observed[:, None, :]
        pairs = zip(theta, self.unit.statistics(x), strict=True)
        own = sum(part * statistic for part, statistic in pairs if part is not None)
        base = self.unit.log_base(x)
        own = own if base is None else own + base
        own, observed = (by_site(self.unit, part) for part in (own, observed))
        return namespace(free).where(observed, own, free)

    def log_partitions(self, theta, fields):
        """Return log Z of the missing units of each row in each of some fields.

        Parameters
        ----------
        theta : Theta
            Parameters that all rows share.
        fields : array of shape (n_fields, n_units)

        Returns
        -------
        array of shape (n_rows, n_fields)
        """
        local = self.unit.log_partition(self.unit.tilt(theta, fields))
        return matmul(cast(~by_site(self.unit, self.observed), local.dtype), local.T)

    def mean(self, theta):
        return self._where(self.known, self.unit.mean(theta))

    def mean_variance(self, theta):
        mean, variance = self.unit.mean_variance(theta)
        return self._where(self.known, mean), *self._where_free([variance])

    def moments(self, theta):
        mean, variance = self.unit.moments(theta)
        return self._where(self.known, mean), *self._where_free([variance])

    def central_moments(self, theta):
        mean, *others = self.unit.central_moments(theta)
        return self._where(self.known, mean), *self._where_free(others)

    def cumulants(self, mean):
        return self._where_free(self.unit.cumulants(mean))

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
class HeldColumns(Held):
    """Columns of several kinds, of which some have a precision matrix, with known values."""

    total_statistics = _as_unit("total_statistics")

    @cached_property
    def _parts(self):
        """The units of each part, with their known values."""
        split = (self.unit._split(x) for x in (self.known, self.observed))
        return [held(*part) for part in zip(self.unit.units, *split, strict=True)]

    def _pairs(self, theta):
        """Return pairs of the units of each part and their parameters."""
        thetas = (part for _, part in self.unit._thetas(theta))
        return list(zip(self._parts, thetas, strict=True))

    def log_partition(self, theta):
        return self.unit._join_sites([part.log_partition(own) for part, own in self._pairs(theta)])

    def log_partitions(self, theta, fields):
        split = zip(self._pairs(theta), self.unit._split(fields), strict=True)
        return sum(part.log_partitions(own, field) for (part, own), field in split)

    def mean(self, theta):
        return self.unit._join([part.mean(own) for part, own in self._pairs(theta)])

    def mean_variance(self, theta):
        found = []
        for part, own in self._pairs(theta):
            if part.unit.has_variances:
                found.append(part.mean_variance(own))
            else:
                mean = part.mean(own)
                found.append((mean, mean - mean * mean))
        return tuple(self.unit._join(list(parts)) for parts in zip(*found, strict=True))

    def moments(self, theta):
        return self.mean_variance(theta)

    def further(self, theta):
        pairs = self._pairs(theta)
        found = [part.further(own) if part.has_further else None for part, own in pairs]
        return self.unit._join_further(theta, found)

    def sample(self, theta, rng):
        return self.unit._join([part.sample(own, rng) for part, own in self._pairs(theta)])


def held(unit, known, observed):
    """Return units of which each row has some at known values, where ``observed``."""
    if not unit.is_joint:
        return Held(unit, known, observed)
    kind = HeldColumns if hasattr(unit, "parts") else HeldJoint
    return kind(unit, known, observed)


def by_site(unit, columns):
    """Return the sum of the columns of each site, or of truth values whether all are True.

    Parameters
    ----------
    unit : Unit
    columns : array of shape (..., n_units)

    Returns
    -------
    array of shape (..., n_sites)
    """
    xp, groups = namespace(columns), unit.groups(columns.shape[-1])
    if len(groups) == columns.shape[-1]:
        return columns
    whole = xp.all if xp.isdtype(columns.dtype, "bool") else xp.sum
    return xp.stack([whole(columns[..., g[0] : g[-1] + 1], axis=-1) for g in groups], axis=-1)


def clamped(machine, X, observed):
    """Return the machine of which each row has visible units at the values X where ``observed``."""
    return replace(machine, units=(held(machine.units[0], X, observed), *machine.units[1:]))


class ClampedState(NamedTuple):
    """State of the method inside, the observed values, and where they are observed (1 or 0)."""

    inner: Any
    values: Any
    observed: Any

    @property
    def means(self):
        """Means of each layer."""
        return self.inner.means

    @property
    def variances(self):
        """Variances of each layer."""
        return self.inner.variances


@dataclass(frozen=True)
class Clamped(FixedPoint):
    """Another fixed point, whose observed visible units are set to their values in each sweep."""

    method: FixedPoint

    @property
    def max_iter(self):
        """Largest number of sweeps, that of the method inside."""
        return self.method.max_iter

    @property
    def tol(self):
        """Change below which a row has converged, that of the method inside."""
        return self.method.tol

    @property
    def damping(self):
        """Weight of the old state in each new one, that of the method inside."""
        return self.method.damping

    def check_marginals(self):
        raise ValueError(
            f"{self} needs to know which units are observed in each row; give the method inside "
            "it instead, and impute holds the observed units"
        )

    def start(self, machine, X, observed):
        """Return the state at visible values X, which stay where ``observed``."""
        return ClampedState(self.method.start(machine, X), X, cast(observed, X.dtype))

    def step(self, machine, state):
        inner = self.method.step(self._held(machine, state), state.inner)
        held = state.observed > 0.5
        return state._replace(inner=self.method.hold(machine, inner, state.values, held))

    def residual(self, old, new):
        return self.method.residual(old.inner, new.inner)

    def moments(self, machine, state):
        """Return the expected statistics given the observed values, averaged over the rows."""
        return self.method.moments(self._held(machine, state), state.inner)

    def log_partition(self, machine, state):
        """Return minus the free energy of each row given its observed values, in float64."""
        return self.method.log_partition(self._held(machine, state), state.inner)

    @staticmethod
    def _held(machine, state):
        return clamped(machine, state.values, state.observed > 0.5)


def solve_clamped(method, machine, X, observed, rows):
    """Solve the equations of some rows of X, in which units stay at X where ``observed``."""
    X, observed = take_rows(X, rows), take_rows(observed, rows)
    outer = Clamped(method)
    return solve(outer, machine, outer.start(machine, X, observed))


def rows_with_holes(observed):
    """Return index arrays of the rows that are observed as a whole, and of the others."""
    full = to_numpy(namespace(observed).all(observed, axis=1))
    return np.flatnonzero(full), np.flatnonzero(~full)


def with_rows(X, index, rows):
    """Return X with other rows at a NumPy index array."""
    order = np.arange(X.shape[0])
    order[index] = X.shape[0] + np.arange(len(index))
    both = namespace(X).concat([X, rows], axis=0)
    return namespace(X).take(both, from_numpy(order, X), axis=0)


def completed(machine, X, observed, rng, n_steps, sampler=_GIBBS):
    """Return X with draws given the observed values in place of the others.

    Parameters
    ----------
    machine : Machine
    X : array of shape (n_rows, n_visible)
        Where the chains start, one for each row that is not observed as a whole.
    observed : array of shape (n_rows, n_visible), bool
        Where values stay as they are.
    rng : Rng
    n_steps : int
        Sweeps of each chain.
    sampler : Sampler, default=Gibbs()
        Block Gibbs sampling, or tempering, all rungs of which have the observed values.

    Returns
    -------
    array of shape (n_rows, n_visible)
    """
    _, holes = rows_with_holes(observed)
    if not len(holes) or not n_steps:
        return X
    start, observed = take_rows(X, holes), take_rows(observed, holes)
    held, sampler = clamped(machine, start, observed), sampler.given(start, observed)
    state = sampler.start(held, start, rng)
    if samples_exactly(machine) and not sampler.has_rungs:
        return with_rows(X, holes, last_visible(sampler, held, state, rng, n_steps))
    return with_rows(X, holes, sample(sampler, held, state, rng, n_steps).layers[0])


def clamped_mean(machine, X, observed, rng, n_steps, layer=0):
    """Return the means of a layer given the observed visible values, by Gibbs sampling.

    Parameters
    ----------
    machine : Machine
        With one hidden layer.
    X : array of shape (n_rows, n_visible)
        Where the chains start, one for each row. Values stay where ``observed``.
    observed : array of shape (n_rows, n_visible), bool
    rng : Rng
    n_steps : int
        Sweeps of each chain; the mean is over the second half.
    layer : {0, 1}, default=0
        Visible or hidden.

    Returns
    -------
    array of shape (n_rows, n_units[layer])
    """
    check_count("n_steps", n_steps, 1)
    exact, hidden = samples_exactly(machine), machine.units[1]
    machine = clamped(machine, X, observed)
    total, n_kept, old, above = 0.0, 0, X, condition(machine, X)
    for step in range(n_steps):
        theta = conditional(machine, 0, (None, hidden.sample(above, rng)))
        new = machine.units[0].sample(theta, rng)
        if not exact:
            thetas = [odd_conditionals(machine, (rows, None)) for rows in (old, new)]
            new = choose(accept(machine, *thetas, rng), new, old)
        old, above = new, condition(machine, new)
        if 2 * step < n_steps - 1:
            continue
        if layer == 1:
            mean = hidden.mean(above)
        else:  # the mean of a proposal is not that of the machine
            mean = machine.units[0].mean(theta) if exact else new
        total, n_kept = total + mean, n_kept + 1
    return total / n_kept if layer else namespace(X).where(observed, X, total / n_kept)


def tempered_mean(machine, X, observed, rng, n_steps, sampler):
    """Return the means of the visible units given the observed ones, by tempering.

    Chains reach modes that those of :func:`clamped_mean` do not.

    Parameters
    ----------
    machine : Machine
        With one hidden layer.
    X : array of shape (n_rows, n_visible)
        Where the chains start, one for each row. Values stay where ``observed``.
    observed : array of shape (n_rows, n_visible), bool
    rng : Rng
    n_steps : int
        Steps of each chain; the mean is over the second half.
    sampler : Tempering

    Returns
    -------
    array of shape (n_rows, n_visible)
    """
    exact, total, n_kept = samples_exactly(machine), 0.0, 0
    held, sampler = clamped(machine, X, observed), sampler.given(X, observed)

    def keep(step, state, info):
        nonlocal total, n_kept
        if 2 * (step - 1) < n_steps - 1:
            return
        visible = state.layers[0]
        if exact:  # else the hidden values are not draws from the machine
            visible = machine.units[0].mean(conditional(machine, 0, state.layers))
        total, n_kept = total + visible, n_kept + 1

    sample(sampler, held, sampler.start(held, X, rng), rng, n_steps, callback=keep)
    return namespace(X).where(observed, X, total / n_kept)
