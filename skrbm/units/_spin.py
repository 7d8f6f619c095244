"""Spins: binary units with the values -1 and 1."""

from dataclasses import dataclass

from ..arrays import cast, like, namespace, softplus
from ._base import Theta, Unit


@dataclass(frozen=True)
class Spin(Unit):
    """Unit with support {-1, 1} and distribution exp(field * x - precision / 2).

    As x**2 = 1, a precision changes no moment, but the log-partition function.
    """

    values = (-1.0, 1.0)
    bounds = (-1.0, 1.0)
    has_cumulants = True

    def tilt(self, theta, field, precision=None):
        total = field + theta.field
        if precision is None:
            return Theta(total, theta.precision)
        own = namespace(total).zeros_like(total) if theta.precision is None else theta.precision
        return Theta(total, own + precision)

    def log_partition(self, theta):
        total = softplus(2 * theta.field) - theta.field  # log of 2 cosh(field)
        return total if theta.precision is None else total - 0.5 * theta.precision

    def mean(self, theta):
        return namespace(theta.field).tanh(theta.field)

    def mean_variance(self, theta):
        mean = self.mean(theta)
        return mean, 1 - mean * mean

    def moments(self, theta):
        return self.mean(theta), None

    def central_moments(self, theta):
        mean, variance = self.mean_variance(theta)
        return mean, variance, -2 * mean * variance, variance * (1 + 3 * mean * mean)

    def cumulants(self, mean):
        """Return the second cumulant, half the third, and the latter's derivative by the mean."""
        variance = 1 - mean * mean
        return variance, -mean * variance, 3 * mean * mean - 1

    def mode(self, theta):
        return 2 * cast(theta.field > 0, theta.field.dtype) - 1

    def sample(self, theta, rng):
        noise, bound = rng.signed(theta.field.shape)
        threshold = namespace(theta.field).tanh(theta.field)
        threshold *= bound
        x = cast(noise < threshold, theta.field.dtype)
        x *= 2
        x -= 1
        return x

    def statistics(self, mean, variance=None):
        return Theta(mean)

    def initial_theta(self, columns):
        mean = columns.means
        n = columns.n_known
        return Theta(namespace(mean).atanh(mean * (n / (n + 0.5))))  # finite for constant columns

    def base_theta(self, theta, columns):
        return self.initial_theta(columns)

    def default_theta(self, n, reference):
        return Theta(namespace(reference).zeros(n, **like(reference)))
