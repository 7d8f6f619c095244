"""Real units on a bounded support, without and with an atom at zero."""

from dataclasses import dataclass, replace

from .._checks import check_number
from ..arrays import from_numpy, like, namespace, nonzero, sigmoid, softplus, to_numpy
from . import _truncnorm
from ._base import Theta, Unit

_LARGEST = 1e15  # bound: float32 holds its square


@dataclass(frozen=True)
class TruncatedGaussian(Unit):
    """Unit on an interval with distribution exp(field * x - precision * x**2 / 2).

    The precision may have any sign, since the support is bounded. It is 0 for a uniform
    distribution, and negative if both ends are more probable than the middle.

    Parameters
    ----------
    lower, upper : float or None, default=None
        The smallest and the largest value. None takes them from the training data; without data
        they are -1 and 1.
    """

    lower: float | None = None
    upper: float | None = None
    _default_bounds = (-1.0, 1.0)
    has_precision = True
    has_central_moments = True

    def __post_init__(self):
        for name in ("lower", "upper"):
            value = getattr(self, name)
            check_number(name, value, or_none=True)
            object.__setattr__(self, name, None if value is None else float(value))
        if self.lower is None or self.upper is None:
            return
        if not self.lower < self.upper:
            raise ValueError(
                f"lower must be less than upper, got lower={self.lower!r} and upper={self.upper!r}"
            )
        if self.upper - self.lower < 1 / _LARGEST or max(-self.lower, self.upper) > _LARGEST:
            raise ValueError(
                f"lower and upper must lie within {_LARGEST:g} of 0 and be {1 / _LARGEST:g} apart "
                f"or more, got lower={self.lower!r} and upper={self.upper!r}; scale the data"
            )

    def _or(self, ends):
        """Return the bounds, with ``ends`` where they are not given."""
        pairs = zip((self.lower, self.upper), ends, strict=True)
        return tuple(end if bound is None else bound for bound, end in pairs)

    @property
    def bounds(self):
        return self._or(self._default_bounds)

    def asks_for(self, fitted):
        return super().asks_for(fitted) and self._or(fitted.bounds) == fitted.bounds

    def fitted(self, columns=None):
        if self.lower is not None and self.upper is not None:
            return self
        found = self._default_bounds if columns is None else self._range(columns)
        lower, upper = self._or(found)
        if not lower < upper:
            raise ValueError(
                f"{type(self).__name__} needs lower < upper, got lower={self.lower} and "
                f"upper={self.upper}, where None is the smallest or the largest value of X, "
                f"{found[0]:g} or {found[1]:g}; pass both bounds"
            )
        return replace(self, lower=lower, upper=upper)

    def _range(self, columns):
        return columns.range

    def log_partition(self, theta):
        return _truncnorm.moments(theta.field, theta.precision, *self.bounds)[0]

    def mean_variance(self, theta):
        return _truncnorm.moments(theta.field, theta.precision, *self.bounds)[1:]

    def central_moments(self, theta):
        return _truncnorm.moments(theta.field, theta.precision, *self.bounds, n=4)[1:]

    def mode(self, theta):
        return _truncnorm.mode(theta.field, theta.precision, *self.bounds)

    def sample(self, theta, rng):
        return _truncnorm.sample(theta.field, theta.precision, *self.bounds, rng)

    def initial_theta(self, columns):
        """Return the parameters with the mean and variance of each column, in float64.

        Those of a column that is constant, or only at the ends, are large but finite.
        """
        return self._fit(columns.means, columns.variances)

    def _fit(self, mean, variance):
        fitted = _truncnorm.fit(to_numpy(mean), to_numpy(variance), *self.bounds)
        return Theta(*(from_numpy(part, mean) for part in fitted))

    def default_theta(self, n, reference):
        """Return a normal distribution cut off at the bounds.

        Its mean is the middle of the interval, its standard deviation half the width.
        """
        lower, upper = self.bounds
        centre, half = 0.5 * (lower + upper), 0.5 * (upper - lower)
        ones = namespace(reference).ones(n, **like(reference))
        return Theta(centre / half**2 * ones, ones / half**2)


@dataclass(frozen=True)
class TruncatedGaussBernoulli(TruncatedGaussian):
    """Unit that is exactly 0 with a finite probability and otherwise lies in an interval.

    The distribution is delta(x) + exp(spike + field * x - precision * x**2 / 2) on an interval
    [lower, upper] that contains 0. ``spike`` is the logarithm of the weight of the density.
    P[x != 0] is m / (1 + m), with m the mass of the density.

    Parameters
    ----------
    lower, upper : float or None, default=None
        The smallest and the largest value. None takes them from the training data, extended to
        contain 0; without data they are 0 and 1.
    """

    _default_bounds = (0.0, 1.0)
    has_further = True

    def __post_init__(self):
        super().__post_init__()
        if (self.lower or 0.0) > 0 or (self.upper or 0.0) < 0:
            raise ValueError(
                "the interval from lower to upper must contain 0, where the unit has a point mass, "
                f"got lower={self.lower!r} and upper={self.upper!r}"
            )

    def _range(self, columns):
        smallest, largest = columns.range
        return min(smallest, 0.0), max(largest, 0.0)

    def _log_odds(self, theta):
        """log of P[x != 0] / P[x = 0]."""
        return theta.spike + super().log_partition(theta)

    def log_partition(self, theta):
        return softplus(self._log_odds(theta))

    def further(self, theta):
        """Return P[x != 0]."""
        return (sigmoid(self._log_odds(theta)),)

    def mean_variance(self, theta):
        log_mass, mean, variance = _truncnorm.moments(theta.field, theta.precision, *self.bounds)
        log_odds = theta.spike + log_mass
        occupied, empty = sigmoid(log_odds), sigmoid(-log_odds)
        return occupied * mean, occupied * (variance + empty * mean * mean)

    def central_moments(self, theta):
        log_mass, *moments = _truncnorm.moments(theta.field, theta.precision, *self.bounds, n=4)
        log_odds = theta.spike + log_mass
        return _truncnorm.mixed(sigmoid(-log_odds), (0.0,) * 4, sigmoid(log_odds), moments)

    def mode(self, theta):
        """Return 0 where x = 0 has at least half of the probability, else the densest point."""
        mode = super().mode(theta)
        return namespace(mode).where(self._log_odds(theta) > 0, mode, 0.0)

    def sample(self, theta, rng):
        x = super().sample(theta, rng)
        return namespace(x).where(rng.uniform(x.shape) < self.further(theta)[0], x, 0.0)

    def statistics(self, mean, variance=None, further=None):
        if further is None:
            if variance is not None:
                raise ValueError("expected statistics of a unit with an atom need its occupancy")
            further = (nonzero(mean, mean.dtype),)
        return super().statistics(mean, variance)._replace(spike=further[0])

    def initial_theta(self, columns):
        """Return the parameters with the zeros of each column, and the moments of its other values.

        These are the fraction of zeros, mean and variance, in float64. A column without zeros, or
        of nothing else, is taken to have half a row more of them.
        """
        mean, variance = columns.means, columns.variances
        xp, n, occupied = namespace(mean), columns.n_known, columns.occupied
        share = xp.where(occupied > 0, occupied, 1.0)
        inner = mean / share
        spread = (variance + mean * mean) / share - inner * inner
        lower, upper = self.bounds
        inner = xp.where(occupied > 0, inner, 0.5 * (lower + upper))
        spread = xp.where(occupied > 0, spread, (upper - lower) ** 2 / 12)
        theta = self._fit(inner, spread)
        occupied = xp.clip(occupied, 0.5 / (n + 1), (n + 0.5) / (n + 1))
        log_odds = xp.log(occupied) - xp.log1p(-occupied)
        return theta._replace(spike=log_odds - super().log_partition(theta))

    def default_theta(self, n, reference):
        """The truncated Gaussian's, with 0 as probable as all other values."""
        theta = super().default_theta(n, reference)
        return theta._replace(spike=-super().log_partition(theta))
