"""The parts of training, and warm starts."""

import math
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._ranks import ranks
from ..arrays import as_like, cast, copied, from_numpy, inverse_factor, is_finite, namespace
from ..inference import map_rows
from ..inputs import Coordinates, RowBlocks, machine_from, varies
from ..learning import NATURAL, ModelPhase, StandardParameters, WhitenedParameters

_HIDDEN_PART = 0.375  # larger ones cost likelihood where rows are few
_VISIBLE_PART = 0.1  # larger ones take visible units of few columns far from the data
_MOST_OF_ONE = 0.5  # energy of one coupling between units whose values are the farthest apart

_WIDE = 2**17  # columns, above which batches and chains have at most _MOST_VALUES values
_MOST_VALUES = 2**24


def most_rows(n_columns):
    """Return the largest number of rows of a batch, and of chains, that are dense."""
    return math.inf if n_columns <= _WIDE else max(1, _MOST_VALUES // n_columns)


@dataclass(frozen=True)
class Parts:
    """What an estimator trains with. They are made and checked once in each fit.

    Parameters
    ----------
    phase : ModelPhase
    optimizer : Optimizer
    parameters : NaturalParameters, default=NATURAL
        Which parameters the optimizer sees.
    coordinates : Coordinates, default=None
        In which the machine is trained; None for those of the data.
    labels : LabelColumns, default=None
        Columns of labels.
    fallback : ModelPhase, default=None
        With which learning restarts where the chains of ``phase`` do not mix.
    """

    phase: ModelPhase
    optimizer: Any
    parameters: Any = NATURAL
    coordinates: Coordinates | None = None
    labels: Any = None
    fallback: Any = None

    def rows_of_state(self, batch_size, n_rows, n_columns, part=1.0):
        """Return how many rows the state of the model phase has for data of ``n_rows``.

        ``part`` is that of all rows that this process has, and so that of all chains.
        """
        n = self.phase.n_states
        n = min(batch_size, n_rows, most_rows(n_columns)) if n is None else n
        return n if part == 1 else max(1, round(part * n))


def parameters_of_rows(rows, optimizer):
    """Return what is learnt, in which numbers are standardised or whitened.

    Parameters
    ----------
    rows : Rows
        Those of a first fit.
    optimizer : Optimizer
    """
    n_visible, unit = rows.X.shape[1], rows.unit
    columns, has_precision = unit.standardised(n_visible)
    if not columns.any():
        return NATURAL
    penalty = getattr(optimizer, "penalty", "l2")
    if unit.is_joint and penalty != "l2":
        raise ValueError(f"covariance='full' needs penalty='l2', got penalty={penalty!r}")
    mean, spread = rows.moments[0], unit.spread(*rows.moments)
    mean, spread = cast(mean, rows.dtype), cast(spread, rows.dtype)
    coordinates = Coordinates.standard(mean, spread, columns)
    if not unit.is_joint:
        own = from_numpy(unit.gaussian_columns(n_visible), mean)
        is_constant = own & ~varies(mean, spread, mean.dtype)
        return StandardParameters(coordinates, from_numpy(has_precision, mean), is_constant)
    has_precision[unit.joint_columns(n_visible)] = False
    joint = cast(rows.initial_theta.joint, rows.dtype)
    root = inverse_factor(joint).T  # of the covariance of the columns
    if not (is_finite(joint) and is_finite(root)):
        raise ValueError(f"the first parameters overflow {rows.dtype}; scale X")
    has_precision = from_numpy(has_precision, mean)
    columns = unit.joint_columns(n_visible)
    return WhitenedParameters(coordinates, has_precision, root=root, columns=columns)


def match_machine(X, machine):
    """Return checked data in the library and dtype of a machine.

    Data in blocks must come as they did in the first fit.
    """
    if isinstance(X, RowBlocks):
        return X
    return cast(X if sp.issparse(X) else as_like(X, machine.weights[0]), machine.dtype)


def resume(training, parts, machine, starts, batch_size, n_rows, part=1.0):
    """Put a machine and new parts into the state of an earlier fit, as far as that still serves.

    Parameters
    ----------
    training : Training
        Which is changed.
    parts : Parts
    machine : Machine
    starts : array of shape (n_starts, n_visible)
        Visible values for a new state of the model phase.
    batch_size, n_rows : int
        Of the data to come.
    part : float, default=1.0
        That of all rows that this process has.
    """
    before, last = training.parts, training.phase_state
    if parts.fallback is not None and before.phase.kind == parts.fallback.kind:
        parts = replace(parts, phase=parts.fallback)
    parts = replace(parts, fallback=None)
    phase = parts.phase
    fewest = parts.rows_of_state(batch_size, n_rows, machine.n_units[0], part)
    most = parts.rows_of_state(batch_size, np.inf, machine.n_units[0], part)
    same_coordinates = phase.has_noise_of(before.phase)
    same_kind = same_coordinates and phase.kind == before.phase.kind
    state, velocity = last, training.optimizer_state
    if ranks().any(not (same_kind and fewest <= starts.shape[0] <= most)):
        state = phase.init(machine, training.rng, fewest, starts)
    same_optimizer = same_coordinates and parts.optimizer.kind == before.optimizer.kind
    if velocity is None or not same_optimizer:
        velocity = parts.optimizer.init(parts.parameters.of(machine))
    else:  # written in place in training, and perhaps a memory map
        velocity = map_rows(copied, velocity)
    training.resume_from(machine)
    training.first, training.n_restarted = None, 0
    training.n_restored, training.length_factor = 0, 1.0
    training.phase_state, training.optimizer_state = state, velocity
    training.parts = parts


def check_layers(machine, units, sizes, n_components):
    """Raise ValueError if a resumed fit asks for other sizes or units than the machine has.

    Bounds that are not given stay as they are.
    """
    _, *fitted = machine.n_units
    if fitted != sizes:
        single = isinstance(n_components, Integral) and len(fitted) == 1
        before = fitted[0] if single else tuple(fitted)
        raise ValueError(
            f"n_components={n_components}, but the fitted machine has {before} hidden "
            f"units; fit without warm_start, or set n_components={before}"
        )
    for now, before in zip(units, machine.units, strict=True):
        if not now.asks_for(before):
            raise ValueError(
                f"{now} was asked for, but the fitted machine has {before}; fit without "
                "warm_start, or ask for the same kind of units with the same bounds"
            )


def spread(machine):
    """Return a machine of weights so large that its hidden units tell rows apart from the start.

    If they all begin alike, most learn the same few directions of the data. The weights are those
    between deviations of the units from their means without couplings, which stay what they are to
    first order. The energy of all couplings has a standard deviation of 0.375 for each hidden unit,
    which is 0.75 for its field if it is 0 or 1, and of at most a tenth of the number of columns.
    Where nearly all columns are nearly constant, that would be the energy of a few rows alone, and
    weights are smaller: one coupling has an energy of 0.5 at most, as a standard deviation.
    """
    (W,), (own, hidden) = machine.weights, machine.thetas
    xp = namespace(W)
    (mean, variance), (mean_hidden, variance_hidden) = (
        unit.mean_variance(theta) for unit, theta in zip(machine.units, machine.thetas, strict=True)
    )
    unit_norm = W / xp.sqrt(xp.mean(W * W))
    deviation = xp.sqrt(xp.sum(variance) * xp.sum(variance_hidden))
    n_visible, n_hidden = machine.n_units
    energy = min(_HIDDEN_PART * n_hidden**0.5, _VISIBLE_PART * n_visible)
    steps = [unit.values[-1] - unit.values[0] for unit in machine.units]
    W = unit_norm * xp.clip(energy / deviation, None, _MOST_OF_ONE / math.prod(steps))
    own = own._replace(field=own.field - mean_hidden @ W)
    hidden = hidden._replace(field=hidden.field - W @ mean)
    return replace(machine, thetas=(own, hidden), weights=(W,))


def parts_of_init(init, name="random"):
    """Return what ``init`` is made of, three parts; those that a fitted estimator has are None."""
    parts = init if isinstance(init, tuple | list) else (init, None, None)
    if len(parts) != 3:
        raise ValueError(
            f"init must be {name!r}, a fitted estimator or the three arrays (components, "
            f"intercept_hidden, intercept_visible), got {len(parts)} items"
        )
    return parts


def machine_of_init(init, machine, n_components):
    """Return the machine that ``init`` describes; what it lacks is that of ``machine``."""
    parts = parts_of_init(init)
    first = machine_from(*parts, machine.units, machine)
    if first.n_units != machine.n_units:
        n_visible, n_hidden = first.n_units
        fits = n_visible == machine.n_units[0]
        advice = f"; set n_components={n_hidden}" if fits else ""
        raise ValueError(
            f"init has {n_visible} visible and {n_hidden} hidden units, but X has "
            f"{machine.n_units[0]} features and n_components={n_components}{advice}"
        )
    return first
