"""Binary units: bits, spins, and bits that count several times or in part."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import (
    cast,
    is_foreign,
    like,
    log_products,
    namespace,
    row_blocks,
    row_sums,
    sigmoid,
    softplus,
    softplus_sums,
    to_numpy,
    weighted_sum,
)
from ._base import Theta, Unit

_BLOCK_ELEMENTS = 2**15  # of arrays of which several fit into the cache


@dataclass(frozen=True)
class Bernoulli(Unit):
    """Unit with support {0, 1} and distribution exp(field * x).

    Since x**2 = x, a precision A is equivalent to a field -A / 2.
    """

    values = (0.0, 1.0)
    bounds = (0.0, 1.0)
    clips = True
    has_cumulants = True
    has_central_moments = True

    def tilt(self, theta, field, precision=None):
        field = field + theta.field
        if precision is not None:
            field -= 0.5 * precision
        return Theta(field)

    def log_partition(self, theta):
        return softplus(theta.field)

    def total_log_partition(self, theta):
        return softplus_sums(theta.field)

    def log_ratio(self, theta0, theta1):
        """Sum of softplus(x1) - softplus(x0), with few logarithms.

        softplus(x) = max(x, 0) + log(1 + exp(-abs(x))): the quotients of the latter's arguments lie
        between 1/2 and 2.
        """
        x0, x1 = theta0.field, theta1.field
        xp, size = namespace(x0), 1 + _BLOCK_ELEMENTS // max(x0.shape[-1], 1)
        if x0.ndim == 2 and x0.shape == x1.shape and x0.shape[0] > 4 * size:
            pairs = zip(row_blocks(x0, size), row_blocks(x1, size), strict=True)
            return xp.concat([self.log_ratio(Theta(a), Theta(b)) for a, b in pairs], axis=0)
        quotient = 1 + xp.exp(-xp.abs(x1))
        quotient /= 1 + xp.exp(-xp.abs(x0))
        zero = xp.zeros((), **like(x0))  # no column: there may be no units
        linear = xp.maximum(x1, zero)
        linear -= xp.maximum(x0, zero)
        return row_sums(linear) + log_products(quotient)

    def mean(self, theta):
        return sigmoid(theta.field)

    def mean_variance(self, theta):
        mean = sigmoid(theta.field)
        return mean, mean - mean * mean

    def central_moments(self, theta):
        mean, variance = self.mean_variance(theta)
        return mean, variance, variance * (1 - 2 * mean), variance * (1 - 3 * variance)

    def cumulants(self, mean):
        """Return the second cumulant, half the third, and the latter's derivative by the mean.

        They are what the expansion of the free energy in powers of the weights needs:
        c = a - a**2, s = c (1/2 - a), ds/da = (1 - 2a)(1/2 - a) - c.
        """
        variance = mean - mean * mean
        half = 0.5 - mean
        return variance, variance * half, 2 * half * half - variance

    def mode(self, theta):
        return cast(theta.field > 0, theta.field.dtype)

    def sample(self, theta, rng):
        return rng.bits(sigmoid(theta.field))

    def sample_rows(self, theta, mean, rows, rng):
        return rng.bits(mean[rows, ...])

    def total_statistics(self, weight, mean, variance=None, further=None):
        return Theta(weighted_sum(weight, mean))  # without the statistics of each row

    def initial_theta(self, columns):
        return Theta(smoothed_log_odds(columns.means, columns.n_known))


def smoothed_log_odds(share, n):
    """Return the log-odds of shares of n trials, with one more trial that is half a success.

    It keeps those of constant columns finite.
    """
    xp = namespace(share)
    n = xp.clip(n + 0.0 * share, None, 1e15)  # or half a trial is lost
    share = xp.clip((n * share + 0.5) / (n + 1), 0.5 / (n + 1), (n + 0.5) / (n + 1))
    return xp.log(share) - xp.log1p(-share)


@dataclass(frozen=True)
class Spin(Unit):
    """Unit with support {-1, 1} and distribution exp(field * x - precision / 2).

    Since x**2 = 1, a precision changes the log-partition function, but no moments.
    """

    values = (-1.0, 1.0)
    bounds = (-1.0, 1.0)
    has_cumulants = True
    has_central_moments = True

    def log_partition(self, theta):
        total = softplus(2 * theta.field) - theta.field  # log of 2 cosh(field)
        return total if theta.precision is None else total - 0.5 * theta.precision

    def mean(self, theta):
        return namespace(theta.field).tanh(theta.field)

    def mean_variance(self, theta):
        mean = self.mean(theta)
        return mean, 1 - mean * mean

    def central_moments(self, theta):
        mean, variance = self.mean_variance(theta)
        return mean, variance, -2 * mean * variance, variance * (1 + 3 * mean * mean)

    def cumulants(self, mean):
        variance = 1 - mean * mean
        return variance, -mean * variance, 3 * mean * mean - 1

    def mode(self, theta):
        return 2 * cast(theta.field > 0, theta.field.dtype) - 1

    def sample(self, theta, rng):
        x = rng.bits(sigmoid(2 * theta.field))
        x *= 2
        x -= 1
        return x

    def initial_theta(self, columns):
        mean = columns.means
        n = columns.n_known
        return Theta(namespace(mean).atanh(mean * (n / (n + 0.5))))  # finite for constant columns


@dataclass(frozen=True, eq=False)
class Fractional(Unit):
    """Hidden units with log-partition function c * softplus(field), for any c > 0.

    For a whole number c the value is the sum of c binary units in the same field. For other c no
    distribution has this log-partition function (some "probabilities" would be negative), but an
    RBM with such hidden units has a distribution of its visible units, p(v) ∝ exp(b' v + sum_j c_j
    softplus(w_j' v)): the fractional RBM of Ping, Liu and Ihler (2016), Eq. (11). Means, free
    energies and annealing weights follow from the log-partition function.

    ``sample`` draws a proposal: floor(c) binary units in the field x and, with f = c - floor(c),
    one more in the field f x that counts f times (their Eq. (12), whose factor for c > 1 is split).
    :class:`~skrbm.inference.Gibbs` accepts or rejects the proposal by :meth:`log_correction`.

    Parameters
    ----------
    multiplicities : array of shape (n_units,)
        The values of c, which are positive.
    """

    multiplicities: Any

    bounds = (0.0, float("inf"))
    samples_exactly = False
    takes_precision = False
    is_learnt = False
    alternative = "AIS ('ais') or the exact sums, or BernoulliRBM.from_parameters first"

    def __post_init__(self):
        c = self.multiplicities
        c = c if is_foreign(c) else np.asarray(c)
        xp = namespace(c)
        is_real = xp.isdtype(c.dtype, ("integral", "real floating"))
        if c.ndim != 1 or not is_real or not bool(xp.all((c > 0) & (c < np.inf))):
            raise ValueError(
                "multiplicities must be an array of positive numbers, one for each unit, got "
                f"{self.multiplicities!r}"
            )
        object.__setattr__(self, "multiplicities", c)

    def __repr__(self):
        return f"Fractional({to_numpy(self.multiplicities).tolist()})"

    def asks_for(self, fitted):
        return type(self) is type(fitted) and np.array_equal(
            to_numpy(self.multiplicities), to_numpy(fitted.multiplicities)
        )

    def _counts(self, field):
        """Return the whole and the fractional parts of c, as arrays like ``field``."""
        c = cast(self.multiplicities, field.dtype)
        whole = namespace(c).floor(c)
        return whole, c - whole

    def log_partition(self, theta):
        return cast(self.multiplicities, theta.field.dtype) * softplus(theta.field)

    def mean(self, theta):
        return cast(self.multiplicities, theta.field.dtype) * sigmoid(theta.field)

    def mean_variance(self, theta):
        p = sigmoid(theta.field)
        c = cast(self.multiplicities, theta.field.dtype)
        return c * p, c * (p - p * p)

    def sample(self, theta, rng):
        x = theta.field
        whole, part = self._counts(x)
        xp = namespace(x)
        total = part * rng.bits(sigmoid(part * x))
        p = sigmoid(x)
        for copy in range(int(xp.max(whole)) if whole.shape[0] else 0):
            total += cast(whole > copy, x.dtype) * rng.bits(p)
        return total

    def log_correction(self, theta):
        x = theta.field
        _, part = self._counts(x)
        return part * softplus(x) - softplus(part * x) * cast(part > 0, x.dtype)
