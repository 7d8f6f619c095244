"""Gaussian units."""

import math
from dataclasses import dataclass

import numpy as np

from .._checks import check_number
from ..arrays import cast, like, namespace, require, to_numpy
from ..exceptions import DivergenceError
from ._base import Theta, Unit

_ROUNDING = 1e-12  # part of the mean that is no deviation, in float64


@dataclass(frozen=True)
class Gaussian(Unit):
    """Unit on the real line with distribution exp(field * x - precision * x**2 / 2).

    A column that is constant in training gets the median variance of the others, or 1 if there are
    none, so that other values have a sensible density.

    Parameters
    ----------
    min_precision : float, default=1e-6
        Floor under the precision of the unit's own parameters while they are learnt, in the
        coordinates of learning.
    """

    min_precision: float = 1e-6
    is_gaussian = True

    def __post_init__(self):
        check_number("min_precision", self.min_precision, above=0)

    def tilt(self, theta, field, precision=None):
        total = theta.precision if precision is None else theta.precision + precision
        return Theta(field + theta.field, total)

    def log_partition(self, theta):
        self._check(theta)
        xp = namespace(theta.field)
        quadratic = theta.field * theta.field / theta.precision
        return 0.5 * (quadratic - xp.log(theta.precision)) + 0.5 * math.log(2 * math.pi)

    def mean(self, theta):
        return theta.field / theta.precision

    def tail_precision(self, theta):
        return theta.precision

    def _check(self, theta):
        """Refuse a precision that a reaction of TAP has made negative (A + V > 0 must hold)."""
        improper = self.is_improper(theta)
        require(~namespace(improper).any(improper), _no_integral)

    def mean_variance(self, theta):
        self._check(theta)
        mean = self.mean(theta)
        return mean, namespace(mean).ones_like(mean) / theta.precision

    def central_moments(self, theta):
        mean, variance = self.mean_variance(theta)
        return mean, variance, namespace(mean).zeros_like(mean), 3 * variance * variance

    def mode(self, theta):
        return self.mean(theta)

    def sample(self, theta, rng):
        noise = rng.normal(theta.field.shape)
        noise /= namespace(noise).sqrt(theta.precision)
        noise += self.mean(theta)
        return noise

    def statistics(self, mean, variance=None):
        second = mean * mean if variance is None else mean * mean + variance
        return Theta(mean, -0.5 * second)

    def initial_theta(self, columns):
        mean, variance = columns.means, columns.variances
        varies = variance > (_ROUNDING * mean) ** 2
        others = to_numpy(variance)[to_numpy(varies)]
        usual = float(np.median(others)) if others.size else 1.0
        precision = 1 / namespace(mean).where(varies, variance, usual)
        return Theta(mean * precision, precision)

    def base_theta(self, theta, columns):
        # A marginal variance is no smaller than that given the hidden units; that of few rows is.
        mean, variance = columns.means, columns.variances
        own = 1 / cast(theta.precision, variance.dtype)
        precision = 1 / namespace(mean).maximum(variance, own)
        return Theta(mean * precision, precision)

    def default_theta(self, n, reference):
        xp = namespace(reference)
        return Theta(xp.zeros(n, **like(reference)), xp.ones(n, **like(reference)))

    def project(self, theta):
        precision = namespace(theta.field).clip(theta.precision, self.min_precision, None)
        return Theta(theta.field, precision)


def _no_integral():
    return DivergenceError(
        "the precision of Gaussian units would be zero or negative, so that their density has no "
        "integral: the couplings are too strong for units without bounds. Use "
        "TruncatedGaussian(lower, upper) or inference='naive_mean_field', a lower learning_rate or "
        "a larger alpha, or scale X."
    )
