"""Machines with Gaussian visible and binary hidden units, by means and variances.

The parameters are those of Eq. 1 of Liao et al. (2022): components C, intercepts b of the hidden
units, means mu and variances of the visible ones. The machine has the weights C / variances, the
fields mu / variances and the precisions 1 / variances.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from ..arrays import cast, namespace, parameter_reference
from ..inputs import filled, machine_from, varies
from ..learning import ArrayGradient, NaturalParameters
from ..machine import Machine
from ..units import Bernoulli, Gaussian, Theta

_SOME = 1000  # rows from which the first means of hidden units are estimated
_MAX_LOG_VARIANCE = 80.0  # largest log-variance, within the range of float32
_NOISE = 0.3  # noise in the first components, as a fraction of the columns' deviations
PARAMETERS = ("components_", "intercept_hidden_", "intercept_visible_", "variances_")


def machine_of(components, intercept_hidden, intercept_visible, variances):
    """Return the machine with the parameters of Eq. 1."""
    precision = 1 / variances
    thetas = Theta(intercept_visible * precision, precision), Theta(intercept_hidden)
    return Machine((Gaussian(), Bernoulli()), thetas, (components * precision,))


def parameters_of(machine):
    """Return the parameters of Eq. 1 of a machine."""
    own, hidden = machine.thetas
    components = machine.weights[0] / own.precision
    return components, hidden.field, own.field / own.precision, 1 / own.precision


class MeansAndVariances:
    """The parameters of Eq. 1 as attributes."""

    def attributes(self, machine):
        """Return the fitted attributes that hold the parameters of a machine, a dict."""
        named = zip(PARAMETERS, parameters_of(machine), strict=True)
        return {"units_": machine.units, **dict(named)}

    def machine(self, estimator):
        """Return the machine of a fitted estimator."""
        return machine_of(*(getattr(estimator, name) for name in PARAMETERS))


def checked_parameters(parts, machine=None):
    """Return checked parameters of Eq. 1; missing ones are those of a machine.

    ``parts`` are (components, intercept_hidden, intercept_visible[, variances]), or start with a
    fitted estimator, whose parameters are taken.
    """
    components, hidden, visible, variances = (*parts, None)[:4]
    units = Gaussian(), Bernoulli()
    if hasattr(components, "fit"):
        if np.ndim(getattr(components, "precision_visible_", None)) == 2:
            raise ValueError("a machine with covariance='full' has no variances to start from")
        found = machine_from(components, None, None, units)
        if not hasattr(components, "variances_"):  # it has fields and precisions
            return checked_parameters(parameters_of(found), machine)
        return checked_parameters([getattr(components, name) for name in PARAMETERS], machine)
    if machine is not None:  # its visible parameters as means and variances
        own = machine.thetas[0]
        theta = Theta(own.field / own.precision, 1 / own.precision)
        machine = replace(machine, thetas=(theta, machine.thetas[1]))
    given = {} if variances is None else {"precision_visible": variances}
    try:
        found = machine_from(components, hidden, visible, units, machine, **given)
    except ValueError as error:
        raise ValueError(str(error).replace("precision_visible", "variances")) from error
    own = found.thetas[0]
    xp, variances = namespace(own.field), own.precision
    with np.errstate(over="ignore"):
        inverse = 1 / variances
        divided = inverse, own.field * inverse, found.weights[0] * inverse
    if not all(bool(xp.all(xp.isfinite(part))) for part in divided):
        raise ValueError(f"variances are too small for {found.dtype}; scale the data")
    return found.weights[0], found.thetas[1].field, own.field, variances


def machine_of_init(init, machine, coordinates):
    """Return the machine of ``init``; missing parameters are those of ``machine``."""
    parts = init if isinstance(init, tuple | list) else (init, None, None)
    if len(parts) not in (3, 4):
        raise ValueError(
            "init must be 'random', a fitted estimator or (components, intercept_hidden, "
            f"intercept_visible[, variances]), got {len(parts)} items"
        )
    sizes = getattr(parts[0], "components_", parts[0])
    sizes = tuple(getattr(sizes, "shape", None) or np.shape(sizes))
    if len(sizes) == 2 and sizes != tuple(machine.weights[0].shape):
        raise ValueError(
            f"init has {sizes[1]} visible and {sizes[0]} hidden units, but "
            f"X has {machine.n_units[0]} features and n_components={machine.n_units[1]}"
        )
    first = machine_of(*checked_parameters(parts, coordinates.machine_outward(machine)))
    return coordinates.machine_inward(first)


def first_machine(rows, noise, scale, mean, deviation):
    """Return a first machine, whose hidden units separate rows of the data from the mean.

    Components are ``scale`` times the differences of the rows and the mean, plus some noise that
    separates units with the same row. Each hidden unit has its threshold, the plane on which it is
    on with probability 1/2, halfway from the mean to its row. With all thresholds at the mean, the
    first density would be symmetric about it, a saddle that training takes long to leave. The means
    of the machine are near ``mean``.
    """
    xp = namespace(rows)
    variance = filled(deviation, mean) ** 2
    components = scale * (rows - mean + _NOISE * deviation * noise)
    weights = components / variance
    hidden = Theta(-0.5 * xp.sum(weights * (rows + mean), axis=1))
    some = rows[: min(_SOME, rows.shape[0]), :]
    active = xp.mean(Bernoulli().mean(Theta(some @ weights.T + hidden.field)), axis=0)
    own = Theta((mean - active @ components) / variance, 1 / variance)
    return Machine((Gaussian(), Bernoulli()), (own, hidden), (weights,))


def mean_and_deviation(rows):
    """Return mean and standard deviation of each column, 0 for constant columns.

    Raises ValueError for deviations whose squares the dtype cannot hold.
    """
    like = parameter_reference(rows.X)
    xp, dtype = namespace(like), like.dtype
    mean, variance = rows.moments
    deviation = xp.sqrt(variance)
    kept = varies(mean, deviation, dtype)
    # The smallest variance that training allows must have an inverse.
    least = math.sqrt(float(xp.finfo(dtype).smallest_normal) / MeanVariance.min_variance)
    if bool(xp.any(kept & (deviation <= least))):
        raise ValueError(
            f"X has columns with standard deviations below {least:.3g}, whose squares {dtype} "
            "cannot hold; scale X"
        )
    deviation = xp.where(kept, deviation, xp.zeros_like(deviation))
    return cast(mean, dtype), cast(deviation, dtype)


@dataclass(frozen=True)
class MeanVariance(NaturalParameters):
    """Learning of the means and log-variances of Gaussian visible units.

    The parameters are C, mu, log sigma**2 and those of the hidden units, where the machine has the
    fields mu / sigma**2, precisions 1 / sigma**2 and weights C / sigma**2. Their gradients
    (Eqs. 14-17 of Liao et al. 2022) follow from the same moments by the chain rule. The penalty is
    on C.

    Parameters
    ----------
    min_variance : float, default=1e-6
        Lower bound of the variances.
    """

    is_natural = False

    min_variance: float = 1e-6

    def precisions(self, machine):
        return []

    def of(self, machine):
        """Return C, mu, log sigma**2 and the parameters of the hidden units."""
        theta = machine.thetas[0]
        mean, log = theta.field / theta.precision, namespace(theta.field).log
        hidden = (part for part in machine.thetas[1] if part is not None)
        return machine.weights[0] / theta.precision, mean, -log(theta.precision), *hidden

    def gradient(self, machine, moments):
        """Return the gradient of the log-likelihood by these parameters."""
        (W,), precision = machine.weights, machine.thetas[0].precision
        visible, hidden = (moments.statistics(unit, l) for l, unit in enumerate(machine.units))
        xp = namespace(W)
        pair = moments.add_pair(machine, 0, xp.zeros_like(W), 1.0)
        spread = (machine.thetas[0].field * visible.field + precision * visible.precision) * -1.0
        spread = spread - xp.sum(W * pair, axis=0)
        hidden = (part for part in hidden if part is not None)
        return ArrayGradient((pair * precision, visible.field * precision, spread, *hidden), 1)

    def machine(self, machine, parameters):
        """Return the machine with other parameters."""
        components, mean, log_variance, *hidden = parameters
        xp = namespace(components)
        precision = xp.exp(-xp.clip(log_variance, math.log(self.min_variance), _MAX_LOG_VARIANCE))
        hidden = iter(hidden)
        theta = machine.thetas[1].map(lambda part: next(hidden))
        own = machine.thetas[0]._replace(field=mean * precision, precision=precision)
        thetas = (own, machine.units[1].project(theta))
        return replace(machine, thetas=thetas, weights=(components * precision,))

    def fixed(self, machine):
        """Return the machine: its parameters are the only ones with its distribution."""
        return machine
