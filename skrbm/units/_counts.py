"""Counts: of successes among a number of trials, without a bound, and with a given sum."""

import math
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._checks import check_count, check_number
from ..arrays import (
    cast,
    cumulative_sum,
    from_numpy,
    gammaln,
    like,
    log_sum_exp,
    namespace,
    row_sums,
    sigmoid,
    softplus,
    take_rows,
    to_numpy,
    value_range,
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
            raise ValueError(f"X must contain whole numbers for {self} units; round it")


@dataclass(frozen=True)
class Binomial(_Counts):
    """Unit with the values 0, 1, ..., n and distribution binom(n, x) exp(field * x).

    The value is the number of successes in n trials with probability sigmoid(field), such as a
    rating of 0 to n stars, or equivalently the sum of n binary units in the same field.

    Parameters
    ----------
    n : int or None, default=None
        The largest value, at most 10 000. None takes it from the training data; without data it is
        2.
    """

    n: int | None = None
    has_central_moments = True
    has_cumulants = True

    def __post_init__(self):
        check_count("n", self.n, 1, or_none=True)
        if self.n is not None and self.n > _MOST:
            raise ValueError(
                f"binomial units have at most n={_MOST} trials, got n={self.n}; use Gaussian "
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

    The value is an unbounded count with rate exp(field). Coupled with other unbounded units, it has
    no distribution that can be normalized, so the units of the other layer must have bounds.
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


@dataclass(frozen=True, eq=False)
class Multinomial(Unit):
    """Counts of how often each column was drawn, in a given number of draws.

    The distribution is that of the *ordered draws*, exp(field . x) for the counts x: the weight of
    a row of counts has no multinomial coefficient, and sums run over all orders. The log-partition
    function is therefore n_draws * logsumexp(field), and the fields are defined up to a constant.
    The whole layer is one site. These are the visible units of the replicated softmax [1]_.

    Parameters
    ----------
    n_draws : int, array of shape (n_rows,) or None, default=None
        Number of draws, for all rows or for each row. With None it is the sum of each row of data,
        taken by :meth:`of_rows`; without rows there are then no log-partition function and no
        samples. Numbers that are not whole are rounded for sampling.

    References
    ----------
    .. [1] Salakhutdinov, R., & Hinton, G. (2009). Replicated Softmax: an Undirected Topic Model.
       NIPS.
    """

    n_draws: Any = None

    bounds = (0.0, math.inf)
    takes_precision = False
    has_variances = False
    is_learnt = False
    alternative = "Gibbs sampling or annealing"

    def __post_init__(self):
        if self._is_per_row:
            return
        check_number("n_draws", self.n_draws, at_least=0, or_none=True)
        if isinstance(self.n_draws, Integral):
            object.__setattr__(self, "n_draws", int(self.n_draws))

    @property
    def _is_per_row(self):
        return getattr(self.n_draws, "ndim", 0) > 0

    @property
    def n_rows(self):
        """Number of rows of which each has a number of draws, None if they share it."""
        return self.n_draws.shape[0] if self._is_per_row else None

    def rows(self, index):
        return replace(self, n_draws=take_rows(self.n_draws, index)) if self._is_per_row else self

    def of_rows(self, X, n=None):
        """Return the unit with the sums of rows X as numbers of draws; itself if it has them.

        With ``n`` there are as many numbers, in ascending order: quantiles of the sums.
        """
        if self.n_draws is not None:
            return self
        sums = self.totals(X)
        if n is not None:
            sums, places = namespace(sums).sort(sums), np.arange(n) * X.shape[0] // n
            sums = take_rows(sums, places)
        return replace(self, n_draws=sums)

    def totals(self, X):
        if sp.issparse(X):
            return np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()
        return row_sums(X)

    def check_values(self, X):
        if value_range(X)[0] < 0:
            raise ValueError("Negative values in data: counts must be >= 0")

    def asks_for(self, fitted):
        return super().asks_for(fitted) and np.array_equal(
            *(np.array(to_numpy(u.n_draws)) for u in (self, fitted))
        )

    def groups(self, n):
        return [np.arange(n)]

    def log_partition(self, theta):
        """Return n_draws * logsumexp(field), of shape (..., 1)."""
        total = log_sum_exp(theta.field)
        return self._draws(total) * total[..., None]

    def mean(self, theta):
        weights = _weights(theta.field)
        total = namespace(weights).sum(weights, axis=-1, keepdims=True)
        return self._draws(weights) * (weights / total)

    def mode(self, theta):
        """Return the most probable counts: each draw in turn where it costs the least."""
        mean = to_numpy(self.mean(theta)).astype(np.float64)
        rows = np.atleast_2d(mean)
        counts = np.floor(rows)
        left = np.rint(rows.sum(axis=1)) - counts.sum(axis=1)  # no count is below its floor
        while (more := np.flatnonzero(left > 0)).size:
            best = np.argmax(rows[more] / (counts[more] + 1), axis=1)
            counts[more, best] += 1
            left[more] -= 1
        return cast(from_numpy(counts.reshape(mean.shape), theta.field), theta.field.dtype)

    def sample(self, theta, rng):
        xp, field = namespace(theta.field), theta.field
        n = xp.broadcast_to(self._draws(field), (field.shape[0], 1))
        return rng.multinomial(n[:, 0], _weights(field))

    def initial_theta(self, columns):
        """Return the logarithms of the frequencies, with one more draw that is uniform."""
        total = columns.n_known * columns.means
        xp = namespace(total)
        return Theta(xp.log((total + 1 / total.shape[0]) / (xp.sum(total) + 1)))

    def _draws(self, reference):
        """Return the numbers of draws, one or a column of them, like ``reference``."""
        if self.n_draws is None:
            raise ValueError(
                "the number of draws of each row is unknown; use density(length) of a "
                "ReplicatedSoftmaxRBM, or the unit of_rows(X) or Multinomial(n_draws)"
            )
        xp = namespace(reference)
        if self._is_per_row:
            return cast(self.n_draws, reference.dtype)[:, None]
        return xp.full(1, self.n_draws, **like(reference))


def _weights(field):
    """Return weights in proportion to the probabilities of the columns, the largest 1."""
    xp = namespace(field)
    return xp.exp(field - xp.max(field, axis=-1, keepdims=True))
