"""A layer of which exactly one unit is 1: one variable with several values."""

from dataclasses import dataclass

from ..arrays import cast, cumulative_sum, like, log_sum_exp, namespace
from ._base import Theta, Unit


@dataclass(frozen=True)
class Categorical(Unit):
    """One variable of n values as n columns, of which one is 1, with law exp(field . x).

    Its columns are no independent units, so that this is a layer by itself: methods that need a
    variance for each unit do not apply to it.
    """

    bounds = (0.0, 1.0)
    takes_precision = False
    is_learnt = False

    def tilt(self, theta, field, precision=None):
        if precision is not None:
            self.mean_variance(theta)
        return Theta(theta.field + field)

    def log_partition(self, theta):
        """Return log of the sum over the values, of shape (..., 1)."""
        return log_sum_exp(theta.field)[..., None]

    def mean(self, theta):
        """Return the probability of each value."""
        xp, field = namespace(theta.field), theta.field
        weights = xp.exp(field - xp.max(field, axis=-1, keepdims=True))  # a log Z would be rounded
        return weights / xp.sum(weights, axis=-1, keepdims=True)

    def moments(self, theta):
        return self.mean(theta), None

    def mean_variance(self, theta):
        raise ValueError(
            "the classes of one label exclude each other and so have no variances of their own; "
            "use inference 'bp', which is exact for one label, 'mean_field' or 'gibbs'"
        )

    def mode(self, theta):
        xp, field = namespace(theta.field), theta.field
        return self._one_hot(xp.argmax(field, axis=-1), field)

    def sample(self, theta, rng):
        xp, mean = namespace(theta.field), self.mean(theta)
        edges = cumulative_sum(mean)
        noise = rng.uniform((*mean.shape[:-1], 1)) * edges[..., -1:]
        below = cast(edges[..., :-1] <= noise, mean.dtype)  # a value without probability is none
        return self._one_hot(xp.sum(cast(below, xp.int64), axis=-1), mean)

    @staticmethod
    def _one_hot(index, place):
        xp = namespace(place)
        values = xp.arange(place.shape[-1], **{**like(place), "dtype": index.dtype})
        return cast(index[..., None] == values, place.dtype)

    def statistics(self, mean, variance=None):
        return Theta(mean)
