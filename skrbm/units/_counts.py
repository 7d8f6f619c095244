"""Counts: of successes among a number of trials, and without a bound."""

import math
from dataclasses import dataclass

import numpy as np

from .._checks import check_count
from ..arrays import (
    cast,
    cumulative_sum,
    from_numpy,
    gammaln,
    log_sum_exp,
    namespace,
    sigmoid,
    softplus,
)
from ._base import Theta, Unit
from ._binary import smoothed_log_odds

_LARGEST = 2  # value of binomial units without data
_MOST = 10_000  # trials, over which moments are summed
_LARGEST_FIELD = 40.0  # of counts without a bound: float32 holds the square of their mean


class _Counts(Unit):
    """Base of units of integers."""

    is_standardised = True

    def moments(self, theta):
        return self.mean_variance(theta)

    def check_values(self, X):
        values = getattr(X, "data", X) if hasattr(X, "nnz") else X  # zeros of a sparse X are whole
        xp = namespace(values)
        if not xp.isdtype(values.dtype, "real floating"):
            return
        if not bool(xp.all((values == xp.floor(values)) | (values != values))):
            raise ValueError(f"X must have whole numbers for {self} units; round it")


@dataclass(frozen=True)
class Binomial(_Counts):
    """Unit with the values 0, 1, ..., n and distribution binom(n, x) exp(field * x).

    The number of successes among n trials, each of probability sigmoid(field), such as a rating of
    0 to n stars: the sum of n binary units in one field.

    Parameters
    ----------
    n : int or None, default=None
        The largest value, at most 10 000. None takes that of the training data; without data it
        is 2.
    """

    n: int | None = None
    has_central_moments = True
    has_cumulants = True

    def __post_init__(self):
        check_count("n", self.n, 1, or_none=True)
        if self.n is not None and self.n > _MOST:
            raise ValueError(
                f"n is {self.n}, and binomial units have at most {_MOST} trials; use Gaussian "
                "units for so many values"
            )
        object.__setattr__(self, "n", None if self.n is None else int(self.n))

    @property
    def largest(self):
        """The largest value, an int."""
        return _LARGEST if self.n is None else self.n

    @property
    def values(self):
        """The numbers from 0 to the largest, a tuple of float."""
        return tuple(map(float, range(self.largest + 1)))

    @property
    def bounds(self):
        return 0.0, float(self.largest)

    def fitted(self, columns=None):
        if self.n is not None:
            return self
        return Binomial(_LARGEST if columns is None else max(1, math.ceil(columns.range[1])))

    def asks_for(self, fitted):
        return super().asks_for(fitted) and self.n in (None, fitted.n)

    def log_base(self, x):
        n = float(self.largest)
        one = namespace(x).ones_like(x)
        return gammaln((n + 1) * one) - gammaln(x + 1) - gammaln(n - x + 1)

    def _log_weights(self, theta):
        """Return all values, and the logarithms of their weights, of shape (..., n + 1)."""
        x = from_numpy(np.arange(self.largest + 1.0), theta.field)
        x = cast(x, theta.field.dtype)
        weights = theta.field[..., None] * x + self.log_base(x)
        if theta.precision is not None:
            weights = weights - 0.5 * theta.precision[..., None] * x * x
        return x, weights

    def _probabilities(self, theta):
        x, weights = self._log_weights(theta)
        xp = namespace(weights)
        weights = xp.exp(weights - xp.max(weights, axis=-1, keepdims=True))
        return x, weights / xp.sum(weights, axis=-1, keepdims=True)

    def log_partition(self, theta):
        if theta.precision is None:
            return self.largest * softplus(theta.field)
        return log_sum_exp(self._log_weights(theta)[1])

    def mean_variance(self, theta):
        if theta.precision is None:
            p = sigmoid(theta.field)
            return self.largest * p, self.largest * (p - p * p)
        return self.central_moments(theta)[:2]

    def central_moments(self, theta):
        x, p = self._probabilities(theta)
        xp = namespace(p)
        mean = xp.sum(p * x, axis=-1)
        apart = x - mean[..., None]
        return mean, *(xp.sum(p * apart**k, axis=-1) for k in (2, 3, 4))

    def cumulants(self, mean):
        p = mean / self.largest
        variance = mean - mean * p
        half = 0.5 - p
        return variance, variance * half, 2 * half * half - (p - p * p)

    def mode(self, theta):
        x, weights = self._log_weights(theta)
        return cast(namespace(weights).argmax(weights, axis=-1), x.dtype)

    def sample(self, theta, rng):
        x, p = self._probabilities(theta)
        xp, edges = namespace(p), cumulative_sum(p)
        noise = rng.uniform(theta.field.shape)[..., None] * edges[..., -1:]
        return xp.sum(cast(edges[..., :-1] <= noise, x.dtype), axis=-1)

    def initial_theta(self, columns):
        n = columns.n_known * self.largest
        return Theta(smoothed_log_odds(columns.means / self.largest, n))


@dataclass(frozen=True)
class Poisson(_Counts):
    """Unit with the values 0, 1, 2, ... and distribution exp(field * x) / x!.

    A count without a bound, of rate exp(field). Coupled with units without a bound it has no
    distribution that sums to 1, so that its neighbours must have bounds.
    """

    bounds = (0.0, math.inf)
    takes_precision = False
    needs_bounds = True
    alternative = "inference 'naive_mean_field', in RBM also 'gibbs'"

    def log_base(self, x):
        return -gammaln(x + 1)

    def log_partition(self, theta):
        return self.mean(theta)

    def mean(self, theta):
        xp = namespace(theta.field)
        return xp.exp(xp.clip(theta.field, None, _LARGEST_FIELD))

    def mean_variance(self, theta):
        rate = self.mean(theta)
        return rate, namespace(rate).asarray(rate, copy=True)

    def mode(self, theta):
        return namespace(theta.field).floor(self.mean(theta))

    def sample(self, theta, rng):
        return rng.poisson(self.mean(theta))

    def initial_theta(self, columns):
        """Return the logarithm of the mean; of half a count in a column of zeros."""
        mean, n = columns.means, columns.n_known
        mean = namespace(mean).maximum(mean, 0.5 / (n + 1) + 0.0 * mean)
        return Theta(namespace(mean).log(mean))
