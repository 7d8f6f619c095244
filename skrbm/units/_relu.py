"""Rectified units: on the half line, and on both sides of zero with parameters for each."""

import math
from dataclasses import dataclass

import numpy as np

from .._checks import check_number
from ..arrays import from_numpy, log_sum_exp, namespace, sigmoid, to_numpy
from . import _half_normal
from ._base import Theta, Unit
from ._gaussian import Gaussian

# Variance of a column without any, as a part of the mean's square; of zeros alone, the variance.
_CONSTANT = 1e-6
_LEAST, _LEAST_HIDDEN = 1e-3, 1.0  # default floors under precisions
_SMALLEST_SIDE = 1e-3  # precision of a side of 0, as a part of the mean of both: float32 holds that


class _HalfLine(Unit):
    """Base of units with half-normal distributions."""

    min_precision: float | None
    has_precision = True

    def __post_init__(self):
        check_number("min_precision", self.min_precision, above=0, or_none=True)

    @property
    def _floor(self):
        return _LEAST if self.min_precision is None else self.min_precision

    def as_hidden(self):
        return self if self.min_precision is not None else type(self)(_LEAST_HIDDEN)

    def tail_precision(self, theta):
        return theta.precision


@dataclass(frozen=True)
class ReLU(_HalfLine):
    """Unit on [0, inf) with distribution exp(field * x - precision * x**2 / 2).

    This is a normal distribution truncated at 0. Its mean is a smooth rectifier of the field, close
    to field / precision above 0 and to -1 / field far below 0; Nair and Hinton (2010) use an
    approximation of it.

    Parameters
    ----------
    min_precision : float or None, default=None
        Lower bound on the precision of the units during training. None is 1e-3 for visible units,
        and 1 for hidden units, which would otherwise grow without limit; their weights compensate
        for the scale.

    References
    ----------
    Nair, V., & Hinton, G. E. (2010). Rectified linear units improve restricted Boltzmann machines.
    ICML.

    Tubiana, J., Cocco, S., & Monasson, R. (2019). Learning protein constitutive motifs from
    sequence data. eLife 8, e39397.
    """

    min_precision: float | None = None
    bounds = (0.0, math.inf)
    has_central_moments = True

    def log_partition(self, theta):
        self.check_proper(theta)
        return _half_normal.log_mass(*theta[:2])

    def mean_variance(self, theta):
        self.check_proper(theta)
        return _half_normal.mean_variance(*theta[:2])

    def central_moments(self, theta):
        self.check_proper(theta)
        return _half_normal.central_moments(*theta[:2])

    def mode(self, theta):
        return namespace(theta.field).clip(theta.field / theta.precision, 0.0, None)

    def sample(self, theta, rng):
        return _half_normal.sample(*theta[:2], rng)

    def initial_theta(self, columns):
        """Return the parameters with the mean and the variance of each column, in float64.

        A standard deviation of the mean or more has none; then the mean is met. A column of zeros
        gets a density that falls from 0 on, with a mean of 0.001.
        """
        found = columns.means, columns.variances
        mean, variance = (to_numpy(part) for part in found)
        is_zero = mean**2 == 0
        mean = np.where(is_zero, math.sqrt(_CONSTANT), mean)
        floor = np.where(is_zero, 1.0, _CONSTANT) * mean**2
        parts = _half_normal.fit(mean, np.maximum(variance, floor))
        return Theta(*(from_numpy(part, found[0]) for part in parts))

    def project(self, theta):
        precision = namespace(theta.field).clip(theta.precision, self._floor, None)
        return theta._replace(precision=precision)


@dataclass(frozen=True)
class DoubleReLU(_HalfLine):
    """Unit on the real line with separate parameters on each side of 0.

    The distribution is exp(field x - precision x**2 / 2 + absolute abs(x) - skew x abs(x) / 2). For
    x > 0 it is that of a :class:`ReLU` with field ``absolute + field`` and precision
    ``precision + skew``; for x < 0 it is its mirror image with ``absolute - field`` and
    ``precision - skew``. With ``absolute < 0`` small inputs are mapped to values near 0, with
    ``absolute > 0`` the distribution has two peaks, and with ``absolute = skew = 0`` it is
    Gaussian. This is the dReLU of Tubiana et al. (2019, Eq. 8), whose theta+ and theta- are minus
    these fields.

    Parameters
    ----------
    min_precision : float or None, default=None
        Lower bound on the precisions of both sides during training; None is as in :class:`ReLU`.

    References
    ----------
    Tubiana, J., Cocco, S., & Monasson, R. (2019). Learning protein constitutive motifs from
    sequence data. eLife 8, e39397.
    """

    min_precision: float | None = None
    has_further = True

    def tail_precision(self, theta):
        return theta.precision - namespace(theta.skew).abs(theta.skew)

    def log_partition(self, theta):
        self.check_proper(theta)
        masses = [_half_normal.log_mass(*side) for side in _halves(theta)]
        return log_sum_exp(namespace(theta.field).stack(masses, axis=-1))

    def mean_variance(self, theta):
        self.check_proper(theta)
        (right, m, v), (left, n, w) = self._sides(theta)
        apart = m + n
        return right * m - left * n, right * v + left * w + right * left * apart * apart

    def further(self, theta):
        """Return the expectations of abs(x) and of -x abs(x) / 2."""
        (right, m, v), (left, n, w) = self._sides(theta)
        return right * m + left * n, -0.5 * (right * (v + m * m) - left * (w + n * n))

    def mode(self, theta):
        xp, sides = namespace(theta.field), _halves(theta)
        right, left = (xp.clip(U / V, 0.0, None) for U, V in sides)
        high, other = (xp.where(U > 0, 0.5 * U * U / V, 0.0) for U, V in sides)
        return xp.where(high >= other, right, -left)

    def sample(self, theta, rng):
        right = self._sides(theta)[0][0]
        xp = namespace(right)
        (U, V), (other, W) = _halves(theta)
        is_right = rng.uniform(right.shape) < right
        x = _half_normal.sample(xp.where(is_right, U, other), xp.where(is_right, V, W), rng)
        return xp.where(is_right, x, -x)

    def statistics(self, mean, variance=None, further=None):
        if further is None:
            if variance is not None:
                raise ValueError("expected statistics of DoubleReLU need those of both sides")
            size = namespace(mean).abs(mean)
            further = size, -0.5 * mean * size
        absolute, skew = further
        return super().statistics(mean, variance)._replace(absolute=absolute, skew=skew)

    def initial_theta(self, columns):
        """Return the parameters of normal distributions, fitted to the columns."""
        return self._symmetric(Gaussian().initial_theta(columns))

    def default_theta(self, n, reference):
        return self._symmetric(super().default_theta(n, reference))

    def project(self, theta):
        xp = namespace(theta.field)
        precision = xp.clip(theta.precision, self._floor, None)
        most = precision - xp.clip(_SMALLEST_SIDE * precision, self._floor, None)
        skew = xp.minimum(xp.maximum(theta.skew, -most), most)
        return theta._replace(precision=precision, skew=skew)

    def _symmetric(self, theta):
        zeros = namespace(theta.field).zeros_like(theta.field)
        return theta._replace(absolute=zeros, skew=zeros)

    def _sides(self, theta):
        """Return (probability, mean, variance) of the right side, and of the left one mirrored."""
        right, left = _halves(theta)
        ratio = _half_normal.log_mass(*right) - _half_normal.log_mass(*left)
        return (
            (sigmoid(ratio), *_half_normal.mean_variance(*right)),
            (sigmoid(-ratio), *_half_normal.mean_variance(*left)),
        )


def _halves(theta):
    """Return field and precision on the right of 0, and on the left, mirrored."""
    right = theta.absolute + theta.field, theta.precision + theta.skew
    return right, (theta.absolute - theta.field, theta.precision - theta.skew)
