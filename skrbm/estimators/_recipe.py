"""The recipe of a fit: the parts used in training, and the initial parameters."""

import math
import warnings
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from .._checks import listed
from ..arrays import cast, from_numpy, inverse_factor, is_finite, namespace, to_numpy
from ..exceptions import DataRangeWarning
from ..inputs import Coordinates, machine_from, varies
from ..learning import NATURAL, ModelPhase, StandardParameters, most_rows

_HIDDEN_PART = 0.375  # larger ones cost likelihood where rows are few
_VISIBLE_PART = 0.1  # larger ones take visible units of few columns far from the data
_FAR = 0.1  # square root of the rounding error of energies, in nats, above which they warn
_MOST_OF_ONE = 0.5  # energy of one coupling between units whose values are the farthest apart


@dataclass(frozen=True)
class Recipe:
    """The parts with which an estimator is trained, created and checked once per fit."""

    phase: ModelPhase
    optimizer: Any
    parameters: Any = NATURAL  # what the optimizer sees
    coordinates: Coordinates | None = None  # of training; None for those of the data
    labels: Any = None  # LabelColumns
    noise: Any = None  # its mean and standard deviation, at which chains start
    deviation: float = 0.01  # of the first weights
    is_spread: bool = False  # whether first weights between binary units are those of `spread`
    sample_values: bool = False  # whether values of bits between 0 and 1 are probabilities

    def rows_of_state(self, batch_size, n_rows, n_columns, part=1.0):
        """Return the rows of the state of the phase, of which this process has ``part``."""
        n = self.phase.n_states
        if n is None:
            n = min(max(min(batch_size, n_rows), self.phase.n_least), most_rows(n_columns))
        return n if part == 1 else max(1, round(part * n))


def parameters_of_rows(rows, optimizer):
    """Return the parameters to learn in a first fit, with real columns standardized or whitened."""
    n_visible, unit = rows.X.shape[1], rows.unit
    columns = unit.columns_with("is_standardised", n_visible)
    has_precision = unit.columns_with("has_precision", n_visible)
    if not columns.any():
        return NATURAL
    penalty = getattr(optimizer, "penalty", "l2")
    if unit.is_joint and penalty != "l2":
        raise ValueError(f"covariance='full' needs penalty='l2', got penalty={penalty!r}")
    mean, spread = rows.moments[0], unit.spread(*rows.moments)
    mean, spread = cast(mean, rows.dtype), cast(spread, rows.dtype)
    coordinates = Coordinates.standard(mean, spread, columns)
    is_bit = cast(from_numpy(unit.columns_with("has_bits", n_visible), mean), mean.dtype)
    _warn_of_rounding(mean, spread, unit)
    if not unit.is_joint:
        own = from_numpy(unit.columns_with("is_gaussian", n_visible), mean)
        is_constant = own & ~varies(mean, spread, mean.dtype)
        has_precision = from_numpy(has_precision, mean)
        return StandardParameters(coordinates, has_precision, is_constant, is_bit)
    has_precision[unit.joint_columns(n_visible)] = False
    joint = cast(rows.initial_theta.joint, rows.dtype)
    root = inverse_factor(joint).T  # of their covariance
    if not (is_finite(joint) and is_finite(root)):
        raise ValueError(f"the initial parameters overflow {rows.dtype}; scale X")
    columns = unit.joint_columns(n_visible)
    has_precision = from_numpy(has_precision, mean)
    # A machine draws missing values with the parameters that it has, and few observed ones would
    # let these grow without bounds.
    known = rows.known_share_of_joint
    prior = (1 - known) * optimizer.for_data(rows.n_informative, n_visible).shrinkage
    options = {"is_bit": is_bit, "root": root, "columns": columns, "prior": prior, "known": known}
    return StandardParameters(coordinates, has_precision, **options)


def _warn_of_rounding(mean, spread, unit):
    """Warn if normal columns are so far from 0 that their energies lose digits."""
    n = mean.shape[0]
    columns = unit.columns_with("is_gaussian", n)
    columns[unit.joint_columns(n)] = True
    far = namespace(mean).abs(mean) * namespace(mean).finfo(mean.dtype).eps ** 0.5 > _FAR * spread
    if (to_numpy(far & varies(mean, spread, mean.dtype)) & columns).any():
        warnings.warn(
            "columns of X are so far from 0, relative to their standard deviations, that "
            f"{mean.dtype} is too coarse for their densities; subtract their means or use float64",
            DataRangeWarning,
            stacklevel=9,
        )


def warn_of_constants(rows, names):
    """Warn of columns, among these ``names``, that have no spread from which to learn a scale."""
    scaled = rows.unit.columns_with("has_precision", len(names))
    if not scaled.any():
        return
    mean, variance = rows.moments
    constant = ~to_numpy(varies(mean, namespace(mean).sqrt(variance), rows.dtype))
    found = [names[j] for j in np.flatnonzero(constant & scaled)]
    if found:
        warnings.warn(
            f"columns {listed(found)} of X are constant, so that their scale is unknown, and other "
            "values in new rows have very small densities; drop these columns or use TabularRBM",
            DataRangeWarning,
            stacklevel=8,
        )


def layer_sizes(n_components):
    if isinstance(n_components, Integral):
        return [int(n_components)]
    is_ordered = isinstance(n_components, tuple | list) or getattr(n_components, "ndim", 0)
    sizes = list(n_components) if is_ordered else []
    if not sizes or not all(isinstance(n, Integral) and n >= 1 for n in sizes):
        raise ValueError(
            f"n_components must be integers >= 1, one for each hidden layer, got {n_components!r}"
        )
    return [int(n) for n in sizes]


def check_layers(machine, units, sizes, n_components):
    """Raise ValueError if a resumed fit asks for other sizes or units than the machine has."""
    _, *fitted = machine.n_units
    if fitted != sizes:
        single = isinstance(n_components, Integral) and len(fitted) == 1
        before = fitted[0] if single else tuple(fitted)
        raise ValueError(
            f"n_components={n_components}, but the fitted model has {before} hidden units"
        )
    for now, before in zip(units, machine.units, strict=True):
        if not now.asks_for(before):
            raise ValueError(f"{now} units were requested, but the fitted model has {before} units")


def spread(machine):
    """Return a machine with weights so large that its hidden units distinguish rows from the start.

    If hidden units are alike at first, most learn the same few directions. Visible and hidden means
    are unchanged to first order. The standard deviation of the energy of all couplings is 0.375
    times the square root of the number of hidden units, and at most a tenth of the number of
    columns; that of one coupling is at most 0.5.
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
    """Return the three parts of ``init``; for a fitted estimator the latter two are None."""
    parts = init if isinstance(init, tuple | list) else (init, None, None)
    if len(parts) != 3:
        raise ValueError(f"init must be {name!r}, a fitted estimator or three arrays")
    return parts


def machine_of_init(init, machine, n_components):
    """Return the machine given by ``init``, with missing parameters taken from ``machine``."""
    first = machine_from(*parts_of_init(init), machine.units, machine)
    if first.n_units != machine.n_units:
        n_visible, n_hidden = first.n_units
        raise ValueError(
            f"init has {n_visible} visible and {n_hidden} hidden units, but X has "
            f"{machine.n_units[0]} features and n_components={n_components}"
        )
    return first
