"""Densities: machines with the coordinates and encoding of a user's data."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ..arrays import Columns, cast, is_finite, namespace
from ..inference import chain_ends, draw_visible
from ..inputs import Coordinates, check_rows, into_support
from ..machine import Machine, check_has_integral, free_energy, precise_free_energy
from ..units import Theta
from . import _observed
from ._observed import PRECISE, free_energy_given

_N_STARTS = 100  # short Gibbs chains if a density has no starts


@dataclass(frozen=True)
class Density:
    """A machine as a model of data, as the functions of :mod:`skrbm.evaluation` take it.

    Fitted estimators of densities have theirs as ``density_``.

    Parameters
    ----------
    machine : Machine
    starts : array of shape (n_starts, n_visible), default=None
        Visible values, in the machine's coordinates, where chains and fixed points start.
    coordinates : Coordinates, default=None
        Those of the machine; None if they are the data's own.
    ladder : Ladder, default=None
        Machines that lead to this one; its last machine has the same parameters.
    encode : callable, default=None
        ``encode(X)`` returns a user's table as numbers with the machine's columns; None if data
        have these columns.
    volume : callable, default=None
        ``volume(rows)`` returns by how much log-densities of data exceed those of visible values of
        the machine, for encoded rows in which NaN is missing; None if data are not encoded.
    method : FixedPoint, default=None
        By which the estimator learns; None if it samples.
    """

    machine: Machine
    starts: Any = None
    coordinates: Coordinates | None = None
    ladder: Any = None
    encode: Any = None
    volume: Any = None
    method: Any = None

    @property
    def density_(self):
        """The density itself, so that functions take it like an estimator."""
        return self

    def visible(self, X, name="X"):
        """Return rows of data, dense, as visible values in the machine's coordinates.

        Raises ValueError if X has another number of columns or is not finite.
        """
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

    def free_energy(self, X):
        """Return -log p(x) - log Z of rows of visible values, in nats, float64.

        X has the machine's coordinates, and p is the density in those of the data.
        """
        if self.coordinates is not None:
            return free_energy(self.machine, X) + self.coordinates.log_volume
        free = precise_free_energy(self.machine, X)
        return free if self.volume is None else free - self.volume(X)

    def log_weight(self, X):
        """Return log p(x) + log Z of rows of visible values, or a lower bound of it."""
        return -self.free_energy(X)

    def free_energy_given(self, X, seed, accuracy=PRECISE):
        """Return the free energy of the observed values of rows, in nats, float64.

        Parameters
        ----------
        X : array of shape (n_rows, n_visible)
            NaN marks missing values.
        seed : SeedSequence, or its state
            Of chains, where sums are not exact.
        accuracy : Accuracy
        """
        return free_energy_given(self, X, seed, accuracy)

    def log_weight_given(self, X, seed, accuracy=PRECISE):
        """Return log p(observed) + log Z of rows in which some values are missing."""
        return -free_energy_given(self, X, seed, accuracy)

    def observed_sums(self, machine, X, observed, max_units):
        """Return the exact sums over the missing values of rows."""
        return _observed.exact_sums(machine, X, observed, max_units)

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

    def checked_base(self, base):
        """Return a user's Theta of independent visible units, in the machine's coordinates.

        Raises ValueError if its parts are not those of the machine's visible units.
        """
        machine = self.machine
        own, unit = machine.thetas[0], machine.units[0]
        if not own.is_like(base):
            names = [name for name, p in zip(Theta._fields, own, strict=True) if p is not None]
            raise ValueError(
                f"base must be a Theta of the visible units, with finite arrays {names} of shape "
                f"({machine.n_units[0]},), got {base!r}"
            )
        base = Theta(*base)
        improper = unit.is_improper(base)
        if improper is not None and bool(namespace(improper).any(improper)):
            raise ValueError(f"base must have positive precisions for {unit}, got {base!r}")
        if self.coordinates is None:
            return base
        offset, divisor = self.coordinates
        field = (base.field - base.precision * offset) * divisor
        return base._replace(field=field, precision=base.precision * divisor**2)


def _check_machine(machine):
    """Raise ValueError if the parts of a user's machine do not fit together."""
    units, thetas, weights = machine.units, machine.thetas, machine.weights
    if not len(units) == len(thetas) == len(weights) + 1:
        raise ValueError(
            "a Machine needs a unit and a Theta for each layer and a matrix of weights between "
            f"neighbours, got {len(units)} units, {len(thetas)} thetas and {len(weights)} matrices"
        )
    expected = [(above, below) for below, above in pairwise(machine.n_units)]
    found = [tuple(W.shape) for W in weights]
    if found != expected:
        raise ValueError(
            f"weights of a Machine whose layers have {machine.n_units} units, the visible layer "
            f"first, must have shapes {expected}, got {found}"
        )
    for unit, theta in zip(units, thetas, strict=True):
        own = unit.default_theta(theta.field.shape[-1], theta.field)
        names = [name for name, part in zip(Theta._fields, own, strict=True) if part is not None]
        given = [name for name, part in zip(Theta._fields, theta, strict=True) if part is not None]
        if given != names:
            raise ValueError(f"the Theta of {unit} must have {names}, got {given}")
    if not all(is_finite(part) for part in (*weights, *machine.parts)):
        raise ValueError("a Machine has parameters that are not finite")


def density_of(model):
    """Return the density of a fitted estimator or a machine.

    Parameters
    ----------
    model : estimator, Machine or Density

    Returns
    -------
    Density

    Raises
    ------
    TypeError
        If it is none of these.
    ValueError
        If the parts of a machine do not fit together, or are not finite.
    DivergenceError
        If the distribution cannot be normalized.
    """
    if isinstance(model, Machine):
        _check_machine(model)
        density = Density(model)
    else:
        density = _density_of_estimator(model)
    check_has_integral(density.machine)
    return density


def _density_of_estimator(model):
    if not hasattr(type(model), "density_"):
        raise TypeError(
            "model must be a fitted estimator of a density, a Density or a Machine, got "
            f"{type(model).__name__}; of a Pipeline give the step, such as model[0], of an "
            "RBMClassifier model.rbm_, and of arrays or scikit-learn's BernoulliRBM what "
            "from_parameters makes of them; a ConditionalRBM has another distribution, and "
            "another log Z, for each row of features: use its score_samples(X, y), "
            "predict_proba(X) or sample(X)"
        )
    return model.density_


def in_float64(machine):
    """Return the machine with parameters in float64."""
    return machine.astype(namespace(machine.weights[0]).float64)
