"""Densities: machines with the coordinates and encoding of a user's data."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ..arrays import Columns, cast, is_finite, namespace, take_rows
from ..inference import chain_ends, draw_visible
from ..inputs import Coordinates, check_rows, into_support
from ..machine import Machine, check_has_integral, free_energy, precise_free_energy
from . import _deep, _observed
from ._deep import full_and_others
from ._observed import PRECISE, most_units, replaced

_N_STARTS = 100  # short Gibbs chains if a density has no starts


@dataclass(frozen=True)
class Density:
    """A machine as a density of data, which the functions of :mod:`skrbm.evaluation` accept.

    Fitted density estimators have one as ``density_``.

    Parameters
    ----------
    machine : Machine
    starts : array of shape (n_starts, n_visible), default=None
        Visible values, in the machine's coordinates, at which chains and fixed-point iterations
        start.
    coordinates : Coordinates, default=None
        Coordinates of the machine; None if they are those of the data.
    ladder : Ladder, default=None
        Machines that lead to this one; its last machine has the same parameters.
    encode : callable, default=None
        ``encode(X)`` converts a user's table to the columns of the machine; None if the data have
        these columns already.
    volume : callable, default=None
        ``volume(rows)`` returns the log-density of the data minus that of the visible values of the
        machine, for encoded rows in which NaN is missing; None if the data are not encoded.
    method : FixedPoint, default=None
        Method by which the estimator was trained, and by which several hidden layers are inferred
        given the data; None if it was trained by sampling.
    runs : ndarray of shape (n_runs,), default=None
        Estimates of log Z by independent runs of chains that followed the machine during the fit.
    precise : bool, default=True
        Whether the equations of several hidden layers are solved in float64 to a mean squared
        change of 1e-12, rather than to the tolerance of ``method``.
    sampler : callable, default=None
        ``sampler()`` returns the sampler of rows with missing values. With that of a ladder, their
        likelihoods are estimated along it; otherwise, and with None, they are by annealing.
    """

    machine: Machine
    starts: Any = None
    coordinates: Coordinates | None = None
    ladder: Any = None
    encode: Any = None
    volume: Any = None
    method: Any = None
    runs: Any = None
    precise: bool = True
    sampler: Any = None

    @property
    def density_(self):
        """The density itself, so that functions take it like an estimator."""
        return self

    def visible(self, X, name="X"):
        """Return checked rows of data, dense, as visible values in the machine's coordinates."""
        machine = self.machine
        X = X if self.encode is None else self.encode(X)
        X = check_rows(name, X, machine.n_units[0], machine.weights[0])
        return self.inward(into_support(X, machine.units[0]))

    def inward(self, X):
        """Return visible values in the machine's coordinates."""
        return X if self.coordinates is None else self.coordinates.inward(X)

    def outward(self, X):
        """Return visible values in the coordinates of the data."""
        return X if self.coordinates is None else self.coordinates.outward(X)

    def log_weight(self, X, seed=None, accuracy=PRECISE):
        """Return log p(x) + log Z of rows, or a lower bound of it with several hidden layers.

        X is in the machine's coordinates, while p is the density in those of the data. Rows with
        NaN have log p of their observed values: where the sum over the others is not exact, it is
        estimated by chains to an ``accuracy``. All rows share the random numbers of ``seed``, so
        that results do not depend on other rows.
        """

        def of_observed(rows, observed):
            machine = in_float64(self.machine)
            rows = cast(rows, machine.dtype)
            if len(machine.weights) > 1:
                found, exact = _observed.deep_sums(machine, rows, observed)
            else:
                most = most_units(machine, accuracy.n_chains * accuracy.n_temperatures[0])
                found, _, exact = _observed.exact_sums(machine, rows, observed, most)
            left = np.flatnonzero(~exact)
            if left.size:
                some = take_rows(rows, left), take_rows(observed, left)
                estimates = self._estimated(machine, *some, seed, accuracy)
                found = replaced(found, left, estimates)
            if self.volume is not None:
                missing = float("nan") * rows
                found = found + self.volume(namespace(rows).where(observed, rows, missing))
            if self.coordinates is not None:
                found = found - self.coordinates.log_volume_of(observed)
            return found

        return full_and_others(self.log_weight_of_full_rows, X, others=of_observed)

    def _estimated(self, machine, X, observed, seed, accuracy):
        """Return log p(observed) + log Z by chains of each row."""
        sampler = None if self.sampler is None else self.sampler()
        if sampler is not None and sampler.has_samples:
            return _observed.tempered(machine, sampler, X, observed, seed, accuracy)
        base = machine.thetas[0]
        if self.starts is not None:
            base = self.independent_units(cast(self.starts, machine.dtype))
        return _observed.annealed(machine, base, X, observed, seed, accuracy)

    def free_energy(self, X, seed=None, accuracy=PRECISE):
        """Return -log p(x) - log Z of rows, or with several hidden layers that by ``method``."""
        if len(self.machine.weights) > 1:
            return _deep.free_energy(self, X)
        return -self.log_weight(X, seed, accuracy)

    def log_weight_of_full_rows(self, X):
        """Return :meth:`log_weight` of rows without NaN, which may be sparse."""
        if len(self.machine.weights) > 1:
            return _deep.log_weight(self, X)
        if self.coordinates is not None:
            return -free_energy(self.machine, X) - self.coordinates.log_volume
        found = -precise_free_energy(self.machine, X)
        return found if self.volume is None else found + self.volume(X)

    def starting_rows(self, starts, rng):
        """Return initial visible rows: the given ones, its own, or ends of short Gibbs chains."""
        machine = self.machine
        if starts is not None:
            return self.visible(starts, "starts")
        if self.starts is not None:
            return cast(self.starts, machine.dtype)
        return chain_ends(machine, rng, draw_visible(machine, rng, _N_STARTS))

    def independent_units(self, starts):
        """Return visible parameters of the independent units where annealing starts."""
        return self.machine.units[0].base_theta(self.machine.thetas[0], Columns(starts))


def _check_machine(machine):
    """Raise ValueError if the parts of a user's machine do not fit together."""
    units, thetas, weights = machine.units, machine.thetas, machine.weights
    expected = [(above, below) for below, above in pairwise(machine.n_units)]
    if len(units) != len(thetas) or [tuple(W.shape) for W in weights] != expected:
        raise ValueError(
            "a Machine needs a unit and a Theta for each layer, and weight matrices of shapes "
            f"{expected}"
        )
    for unit, theta in zip(units, thetas, strict=True):
        own = unit.default_theta(theta.field.shape[-1], theta.field)
        if [part is None for part in theta] != [part is None for part in own]:
            names = [name for name, part in own._asdict().items() if part is not None]
            raise ValueError(f"the Theta of {unit} units must have {names}")
    if not all(is_finite(part) for part in (*weights, *machine.parts)):
        raise ValueError("the parameters of the Machine are not finite")


def density_of(model):
    """Return the density of a fitted estimator, a machine or a density, after checks."""
    if isinstance(model, Machine):
        _check_machine(model)
        density = Density(model)
    elif hasattr(type(model), "density_"):
        density = model.density_
    else:
        raise TypeError(
            "model must be a fitted density estimator, a Density or a Machine, got "
            f"{type(model).__name__}; for a Pipeline pass the step, such as model[0], and for an "
            "RBMClassifier pass model.rbm_"
        )
    check_has_integral(density.machine)
    return density


def in_float64(machine):
    return machine.astype(namespace(machine.weights[0]).float64)
