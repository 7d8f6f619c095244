from dataclasses import dataclass

from skrbm.arrays import cast, column_moments, like, namespace, softplus
from skrbm.units import Theta, Unit


@dataclass(frozen=True)
class Spin(Unit):
    """Unit with support {-1, +1} and distribution exp(field * x - precision / 2)."""

    values = (-1.0, 1.0)
    bounds = (-1.0, 1.0)

    def tilt(self, theta, field, precision=None):
        return Theta(field + theta.field, precision)

    def log_partition(self, theta):
        total = softplus(2 * theta.field) - theta.field  # log of 2 cosh(field)
        return total if theta.precision is None else total - 0.5 * theta.precision

    def mean_variance(self, theta):
        mean = namespace(theta.field).tanh(theta.field)
        return mean, 1 - mean * mean

    def central_moments(self, theta):
        mean, variance = self.mean_variance(theta)
        return mean, variance, -2 * mean * variance, variance * (1 + 3 * mean * mean)

    def mode(self, theta):
        return 2 * cast(theta.field > 0, theta.field.dtype) - 1

    def sample(self, theta, rng):
        noise, bound = rng.signed(theta.field.shape)  # uniform on (-bound, bound)
        on = noise < bound * namespace(theta.field).tanh(theta.field)
        return 2 * cast(on, theta.field.dtype) - 1

    def statistics(self, mean, variance=None):
        return Theta(mean)

    def initial_theta(self, X, weights=None):
        mean, _ = column_moments(X, weights)
        n = X.shape[0] if weights is None else float(weights.sum())
        return Theta(namespace(mean).atanh(mean * n / (n + 0.5)))  # finite for constant columns

    def default_theta(self, n, reference):
        return Theta(namespace(reference).zeros(n, **like(reference)))
