"""Standardized coordinates of visible values."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..arrays import cast, dense, from_numpy, namespace
from ..units import Theta
from ..units._gaussian import deviations_of_constants

_ROUNDING = 1e-12  # error of sums over many rows, relative to the mean


class Coordinates(NamedTuple):
    """The coordinates z = (v - offset) / divisor of visible values v, by arrays (n_visible,)."""

    offset: Any
    divisor: Any

    @classmethod
    def standard(cls, mean, deviation, columns=None):
        """Return the coordinates in which columns have mean 0 and standard deviation 1.

        Constant columns get what :func:`filled` gives them. ``columns``, a NumPy array of bool,
        selects those that are standardized; None is all.
        """
        xp, n = namespace(mean), mean.shape[0]
        columns = from_numpy(np.ones(n, dtype=bool) if columns is None else columns, mean)
        kept = varies(mean, deviation, mean.dtype)
        divisor = filled(xp.where(kept & columns, deviation, 0.0 * deviation), mean)
        divisor = xp.where(columns, divisor, xp.ones_like(divisor))
        return cls(xp.where(columns, mean, 0.0 * mean), divisor)

    def inward(self, X):
        """Return z for values v, a dense array."""
        return (dense(X) - self.offset) / self.divisor

    def outward(self, Z):
        """Return v for values z."""
        return self.offset + self.divisor * Z

    @property
    def log_volume(self):
        """``log |dv / dz|``, which a log-density of z exceeds that of v by, float64."""
        xp = namespace(self.divisor)
        return xp.sum(xp.log(cast(self.divisor, xp.float64)))

    def log_volume_of(self, observed):
        """Return the ``log_volume`` of the columns that are observed in each row, float64."""
        xp = namespace(self.divisor)
        return cast(observed, xp.float64) @ xp.log(cast(self.divisor, xp.float64))

    def machine_inward(self, machine):
        """Return the machine of z for a machine of v with Gaussian visible units."""
        dtype, machine = machine.dtype, machine.astype(namespace(self.offset).float64)
        offset, divisor = (cast(part, machine.dtype) for part in self)
        (W,), (own, hidden) = machine.weights, machine.thetas
        field = (own.field - own.precision * offset) * divisor
        coupled = hidden.field + machine.scale * (W @ offset)
        thetas = Theta(field, own.precision * divisor * divisor), Theta(coupled)
        return replace(machine, thetas=thetas, weights=(W * divisor,)).astype(dtype)

    def machine_outward(self, machine):
        """Return the machine of v for a machine of z."""
        return Coordinates(-self.offset / self.divisor, 1 / self.divisor).machine_inward(machine)

    def ladder_inward(self, ladder):
        """Return the ladder of z for a ladder of v."""
        return _mapped(ladder, self.machine_inward, self.inward)

    def ladder_outward(self, ladder):
        """Return the ladder of v for a ladder of z."""
        return _mapped(ladder, self.machine_outward, self.outward)


def _mapped(ladder, of_machine, of_rows):
    """Apply functions to the machines and samples of a ladder; shared weights stay shared."""
    shared, machines = {}, []
    for machine in ladder.machines:
        mapped = of_machine(machine)
        weights = shared.setdefault(id(machine.weights[0]), mapped.weights)
        machines.append(replace(mapped, weights=weights))
    samples = tuple(of_rows(rows) for rows in ladder.samples)
    return replace(ladder, machines=tuple(machines), samples=samples)


def varies(mean, deviation, dtype):
    """Whether deviations exceed rounding errors of values in ``dtype`` and of float64 sums."""
    xp = namespace(mean)
    return deviation > max(_ROUNDING, 2.0 * float(xp.finfo(dtype).eps)) * xp.abs(mean)


def filled(deviation, mean):
    """Replace deviations of 0 by :func:`~skrbm.units._gaussian.deviations_of_constants`."""
    usual = deviations_of_constants(mean, deviation)
    return namespace(deviation).where(deviation > 0, deviation, usual)
