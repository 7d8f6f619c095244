"""Real units that have one value with a finite probability."""

import math
from dataclasses import dataclass

import numpy as np

from .._checks import check_number
from ..arrays import cast, from_numpy, like, namespace, sigmoid, softplus
from ._base import Theta, Unit
from ._gaussian import Gaussian


@dataclass(frozen=True)
class SpikedGaussian(Unit):
    """Zero-inflated real values, in two columns: a bit b, and a value x that is 0 if b is 0.

    The distribution is delta(x) for b = 0 and exp(field_b + field_x * x - precision * x**2 / 2) for
    b = 1. Hidden units change the probability of b and the mean of x independently of each other,
    unlike in :class:`TruncatedGaussBernoulli`. ``log_partition`` has one value for each site, every
    other method one for each column.

    Parameters
    ----------
    min_precision : float, default=1e-6
        Lower bound on the precision of the units during training, in the coordinates of training
        (standardized columns).
    """

    min_precision: float = 1e-6
    has_precision = True
    takes_precision = False
    alternative = "inference 'gibbs', 'tempering' or 'naive_mean_field'"

    def __post_init__(self):
        check_number("min_precision", self.min_precision, above=0)

    def groups(self, n):
        if n % 2:
            raise ValueError(f"{self} has two columns for each site, and the layer has {n}")
        return list(np.arange(n).reshape(-1, 2))

    def columns_with(self, capability, n):
        return super().columns_with(capability, n) & (np.arange(n) % 2 == 1)

    def check_values(self, X):
        X = X.toarray() if hasattr(X, "toarray") else X
        bits, x = _split(X)
        xp = namespace(X)
        right = (bits == 1) | ((bits == 0) & (x == 0)) | ((bits != bits) & (x != x))
        if not bool(xp.all(right)):
            raise ValueError(f"X must have pairs of a bit and a value, 0 after 0, for {self} units")

    def _odds_and_mean(self, theta):
        """Return log P[b = 1] / P[b = 0], and mean and precision of x given b = 1."""
        field, x_field = _split(theta.field)
        _, precision = _split(theta.precision)
        mean = x_field / precision
        log_mass = 0.5 * (x_field * mean - namespace(mean).log(precision))
        return field + log_mass + 0.5 * math.log(2 * math.pi), mean, precision

    def log_partition(self, theta):
        return softplus(self._odds_and_mean(theta)[0])

    def mean(self, theta):
        log_odds, mean, _ = self._odds_and_mean(theta)
        share = sigmoid(log_odds)
        return _paired(share, share * mean)

    def mean_variance(self, theta):
        log_odds, mean, precision = self._odds_and_mean(theta)
        share, rest = sigmoid(log_odds), sigmoid(-log_odds)
        variance = share * (1 / precision + rest * mean * mean)
        return _paired(share, share * mean), _paired(share * rest, variance)

    def mode(self, theta):
        """Return b = 0 where it has at least half of the probability, else the densest point."""
        log_odds, mean, _ = self._odds_and_mean(theta)
        bits = cast(log_odds > 0, mean.dtype)
        return _paired(bits, bits * mean)

    def sample(self, theta, rng):
        log_odds, mean, precision = self._odds_and_mean(theta)
        bits = cast(rng.uniform(log_odds.shape) < sigmoid(log_odds), mean.dtype)
        noise = rng.normal(log_odds.shape) / namespace(mean).sqrt(precision)
        return _paired(bits, bits * (mean + noise))

    def statistics(self, mean, variance=None, further=None):
        theta = super().statistics(mean, variance)
        return theta._replace(precision=theta.precision * self._are_values(mean))

    def initial_theta(self, columns):
        """Return the parameters with the share, and with mean and variance of the other values."""
        return self._theta_of(columns, None)

    def base_theta(self, theta, columns):
        # A marginal variance is no smaller than that given the hidden units; that of few rows is.
        return self._theta_of(columns, 1 / cast(_split(theta.precision)[1], columns.means.dtype))

    def _theta_of(self, columns, least):
        share, mean = _split(columns.means)
        n, _ = _split(columns.n_known + 0 * columns.means)
        _, variance = _split(columns.variances)
        xp = namespace(mean)
        known = xp.where(share > 0, share, 1.0)
        mean, square = mean / known, (variance + mean * mean) / known
        alone = Gaussian().initial_theta(_Moments(mean, square - mean * mean))
        variance = 1 / alone.precision
        variance = variance if least is None else xp.maximum(variance, least)
        share = xp.clip(share, 0.5 / (n + 1), (n + 0.5) / (n + 1))
        theta = Theta(_paired(0 * mean, mean / variance), _paired(0 * mean, 1 / variance))
        log_odds = xp.log(share) - xp.log1p(-share) - self._odds_and_mean(theta)[0]
        return theta._replace(field=_paired(log_odds, mean / variance))

    def default_theta(self, n, reference):
        self.groups(n)  # raises if the columns are no pairs
        zeros = namespace(reference).zeros(n, **like(reference))
        return Theta(zeros, zeros + self._are_values(zeros))

    def tail_precision(self, theta):
        bits, precision = _split(theta.precision)
        return _paired(namespace(bits).full_like(bits, math.inf), precision)

    def project(self, theta):
        bits, precision = _split(theta.precision)
        precision = namespace(precision).clip(precision, self.min_precision, None)
        return theta._replace(precision=_paired(0 * bits, precision))

    def _are_values(self, x):
        return cast(from_numpy(np.arange(x.shape[-1]) % 2, x), x.dtype)


class _Moments:
    """Means and variances of columns."""

    def __init__(self, means, variances):
        self.means, self.variances = means, variances


def _split(x):
    """Return the bits and the values of sites."""
    pairs = namespace(x).reshape(x, (*x.shape[:-1], x.shape[-1] // 2, 2))
    return pairs[..., 0], pairs[..., 1]


def _paired(bits, values):
    """Undo :func:`_split`."""
    xp = namespace(values)
    pairs = xp.stack([bits, values], axis=-1)
    return xp.reshape(pairs, (*values.shape[:-1], 2 * values.shape[-1]))
