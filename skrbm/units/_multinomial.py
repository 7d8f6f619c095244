"""Multinomial units: a row of counts with a given sum, such as the words of a document."""

import math
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._checks import check_number
from ..arrays import (
    cast,
    from_numpy,
    like,
    log_sum_exp,
    namespace,
    row_sums,
    take_rows,
    to_numpy,
    value_range,
)
from ._base import Theta, Unit


@dataclass(frozen=True, eq=False)
class Multinomial(Unit):
    """Counts of a row: how often each column was drawn, in a number of draws that is given.

    A layer is one site. Its distribution is that of the *draws in their order*, exp(field . x) for
    the counts x: the weight of a row of counts has no multinomial coefficient, and sums count each
    order. So the log-partition function is n_draws * logsumexp(field),
    and the fields are defined up to a constant. They are the visible units of the replicated
    softmax [1]_.

    Parameters
    ----------
    n_draws : int, array of shape (n_rows,) or None, default=None
        Number of draws of every row, or of each. None: rows of data have their own, which
        :meth:`of_rows` takes from them; without rows there is no log-partition function and no
        sample. Where a number is not whole, as many draws as the nearest whole number are made.

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
                "the number of draws of each row is not known; take the density(length) of a "
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
