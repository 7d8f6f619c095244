"""Machines with Gaussian visible and binary hidden units, by means and variances.

The parameters are those of Eq. 1 of Liao et al. (2022): components C, intercepts b of the hidden
units, means mu and variances of the visible ones. The machine has the weights C / variances, the
fields mu / variances and the precisions 1 / variances.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from ..arrays import is_finite, namespace
from ..inputs import filled, machine_from
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


def parameters_from(components, intercept_hidden=None, intercept_visible=None, variances=None):
    """Return checked parameters of Eq. 1, of arrays or of a fitted estimator."""
    units = Gaussian(), Bernoulli()
    if hasattr(components, "fit") and not hasattr(components, "variances_"):
        if np.ndim(getattr(components, "precision_visible_", None)) == 2:
            raise ValueError("a machine with covariance='full' has no variances to start from")
        return parameters_of(machine_from(components, None, None, units))
    parts = components, intercept_hidden, intercept_visible, variances
    if hasattr(components, "fit"):
        parts = [getattr(components, name) for name in PARAMETERS]
    given = {} if parts[3] is None else {"precision_visible": parts[3]}
    try:
        found = machine_from(*parts[:3], units, **given)
    except ValueError as error:
        raise ValueError(str(error).replace("precision_visible", "variances")) from error
    parts = (
        found.weights[0],
        found.thetas[1].field,
        found.thetas[0].field,
        found.thetas[0].precision,
    )
    with np.errstate(over="ignore"):
        if not is_finite(1 / parts[3]) or not machine_of(*parts).is_finite():
            raise ValueError(f"variances are too small for {found.dtype}; scale the data")
    return parts


def first_machine(rows, noise, scale, mean, deviation):
    """Return a first machine, whose hidden units separate rows of the data from the mean.

    Components are ``scale`` times the differences of the rows and the mean, plus some noise that
    separates units with the same row. Each hidden unit is on with probability 1/2 halfway from the
    mean to its row: with all thresholds at the mean, the first density would be symmetric about it,
    a saddle that training takes long to leave. The means of the machine are near ``mean``.
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
        return machine
