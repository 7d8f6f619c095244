from dataclasses import dataclass

from skrbm.arrays import cast, like, log_sum_exp, namespace
from skrbm.units import Theta, Unit


@dataclass(frozen=True)
class Ternary(Unit):
    """Unit with support {-1, 0, 1} and distribution exp(field * x - precision * x**2 / 2)."""

    values = (-1.0, 0.0, 1.0)
    bounds = (-1.0, 1.0)
    has_precision = True

    def _log_weights(self, theta):
        U, half = theta.field, 0.5 * theta.precision
        zero = namespace(U).zeros_like(U)
        return namespace(U).stack([-U - half, zero, U - half], axis=-1)

    def _probabilities(self, theta):
        weights = self._log_weights(theta)
        weights = namespace(weights).exp(weights - log_sum_exp(weights)[..., None])
        return weights[..., 0], weights[..., 2]  # of -1 and of 1

    def log_partition(self, theta):
        return log_sum_exp(self._log_weights(theta))

    def mean_variance(self, theta):
        low, high = self._probabilities(theta)
        mean = high - low
        return mean, low * (1 + mean) ** 2 + high * (1 - mean) ** 2 + (1 - low - high) * mean**2

    def mode(self, theta):
        size = namespace(theta.field).abs(theta.field)
        sign = namespace(theta.field).sign(theta.field)
        return cast(size > 0.5 * theta.precision, theta.field.dtype) * sign

    def sample(self, theta, rng):
        low, high = self._probabilities(theta)
        uniform = rng.uniform(theta.field.shape)
        return cast(uniform >= 1 - high, low.dtype) - cast(uniform < low, low.dtype)

    def initial_theta(self, columns):
        mean, variance = columns.means, columns.variances
        xp, second = namespace(mean), variance + mean * mean
        shares = 0.5 * (second - mean), 1 - second, 0.5 * (second + mean)
        # A trace of each value keeps constant columns finite.
        low, zero, high = (xp.log(xp.clip(share, 1e-9, None)) for share in shares)
        return Theta(0.5 * (high - low), 2 * zero - high - low)

    def default_theta(self, n, reference):
        zeros = namespace(reference).zeros(n, **like(reference))
        return Theta(zeros, zeros)
