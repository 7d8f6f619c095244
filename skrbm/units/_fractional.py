"""Binary units that count several times, or in part."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import cast, is_foreign, namespace, sigmoid, softplus, to_numpy
from ._base import Unit


@dataclass(frozen=True, eq=False)
class Fractional(Unit):
    """Hidden units with log-partition function c * softplus(field), for any c > 0.

    For a whole number c the value is the sum of c binary units in one field. For other c no
    distribution has this log-partition function (its "probabilities" would be negative), but a
    machine with such hidden units has one, p(v) ∝ exp(b' v + sum_j c_j softplus(w_j' v)): the
    fractional machine of Ping, Liu and Ihler (2016), Eq. (11). Means, free energies and annealing
    weights follow from the log-partition function.

    ``sample`` draws a proposal: floor(c) binary units in the field x and, with f = c - floor(c),
    one more in the field f x that counts f (their Eq. (12), whose factor for c > 1 is split).
    :class:`~skrbm.inference.Gibbs` accepts or rejects it by :meth:`log_correction`.

    Parameters
    ----------
    multiplicities : array of shape (n_units,)
        The numbers c, positive.
    """

    multiplicities: Any

    bounds = (0.0, float("inf"))
    samples_exactly = False
    takes_precision = False
    is_learnt = False
    alternative = "AIS ('ais') or the exact sums, or to_bernoulli_rbm() first"

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
        total = part * cast(rng.uniform(x.shape) < sigmoid(part * x), x.dtype)
        p = sigmoid(x)
        for copy in range(int(xp.max(whole)) if whole.shape[0] else 0):
            drawn = cast(rng.uniform(x.shape) < p, x.dtype)
            total += cast(whole > copy, x.dtype) * drawn
        return total

    def log_correction(self, theta):
        x = theta.field
        _, part = self._counts(x)
        return part * softplus(x) - softplus(part * x) * cast(part > 0, x.dtype)
