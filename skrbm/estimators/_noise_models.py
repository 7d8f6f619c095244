"""Noisy channels through which the visible units are observed.

What an observation says of a unit is a factor exp(field * x - precision * x**2 / 2) on its density.
So the posterior of a machine is a machine whose visible units are tilted, for each row.
"""

import math
from dataclasses import dataclass

import numpy as np

from .._checks import check_number
from ..arrays import cast, from_numpy, namespace
from ..inference import solve
from ..units import Theta


@dataclass(frozen=True)
class BinarySymmetric:
    """Each bit is flipped with the same probability (Sec. VII.4 of Tramel et al. 2018).

    Parameters
    ----------
    flip_probability : float in [0, 0.5]
        At 0.5 the observation says nothing.
    """

    flip_probability: float

    is_for_categories = False

    def __post_init__(self):
        check_number("flip_probability", self.flip_probability, at_least=0, at_most=0.5)

    @property
    def is_clean(self):
        """Whether what is observed is the truth."""
        return self.flip_probability == 0

    def check(self, unit, Y):
        """Raise ValueError if ``Y`` cannot have come from such units through the channel."""
        if not unit.is_binary:
            raise ValueError(
                f"flip_probability is for binary visible units, and {unit} is none; give "
                "noise_variance"
            )
        xp = namespace(Y)
        if not xp.isdtype(Y.dtype, "bool") and not bool(xp.all((Y == 0) | (Y == 1))):
            raise ValueError("Y must be 0 or 1 in each entry if flip_probability is given")

    def evidence(self, Y):
        """Return (field, precision): ln((1 - p) / p) (2 y - 1), Eq. 46 with its ratio upright."""
        p = self.flip_probability
        return (math.log1p(-p) - math.log(p)) * (2 * Y - 1), None

    def check_mean(self, mean):
        """Raise ValueError if independent units cannot have these means."""
        xp = namespace(mean)
        least, most = float(xp.min(mean)), float(xp.max(mean))
        if not 0 <= least <= most <= 1:
            raise ValueError(
                f"prior_mean must lie in [0, 1], got values from {least:.4g} to {most:.4g}"
            )

    def prior(self, machine, mean):
        """Return the parameters of independent visible units with the means given."""
        xp = namespace(mean)
        with np.errstate(divide="ignore"):  # a unit that is always off stays off
            return Theta(xp.log(mean) - xp.log1p(-mean))


@dataclass(frozen=True)
class Substitution:
    """Each site has another value with the same probability, and then each of them as likely.

    Parameters
    ----------
    substitution_probability : float in [0, 1)
    sizes : tuple of int
        Number of values of each site.
    """

    substitution_probability: float
    sizes: tuple[int, ...]

    is_for_categories = True

    def __post_init__(self):
        p = self.substitution_probability
        check_number("substitution_probability", p, at_least=0, below=1)

    @property
    def is_clean(self):
        return self.substitution_probability == 0

    def check(self, unit, Y):
        """Raise nothing: rows of categories are checked where they are encoded."""

    def check_mean(self, mean):
        raise ValueError("prior_mean is for flip_probability")

    def evidence(self, Y):
        """Return (field, precision): ln((1 - p) (q - 1) / p) y, with q the values of the site."""
        p = self.substitution_probability
        others = np.repeat(np.maximum(np.array(self.sizes) - 1, 1), self.sizes)
        factor = np.log(others) + math.log1p(-p) - math.log(p)
        return cast(from_numpy(factor, Y), Y.dtype) * Y, None

    def prior(self, machine, mean):
        """Return the parameters of the visible units without couplings; the mean is not used."""
        return machine.thetas[0]


@dataclass(frozen=True)
class GaussianNoise:
    """Normal noise of the same variance is added to each value.

    Parameters
    ----------
    noise_variance : float >= 0
    """

    noise_variance: float

    is_for_categories = False

    def __post_init__(self):
        check_number("noise_variance", self.noise_variance, at_least=0)

    @property
    def is_clean(self):
        return self.noise_variance == 0

    def check(self, unit, Y):
        if unit.is_binary:
            raise ValueError(
                f"noise_variance is for units that are not binary, and visible units are {unit}; "
                "give flip_probability"
            )

    def check_mean(self, mean):
        raise ValueError("prior_mean is for flip_probability; real units start without couplings")

    def evidence(self, Y):
        """Return (field, precision): y / s and 1 / s."""
        xp, precision = namespace(Y), 1 / self.noise_variance
        with np.errstate(over="ignore"):
            field = Y * precision
        if precision > float(xp.finfo(Y.dtype).max) or not bool(xp.all(xp.isfinite(field))):
            raise ValueError(
                f"noise_variance={self.noise_variance} is too small for these values in "
                f"{Y.dtype}; give 0, for values without noise, or larger units"
            )
        return field, precision

    def prior(self, machine, mean):
        """Return the parameters of the visible units without couplings; the mean is not used."""
        return machine.thetas[0]


def channel(flip_probability=None, noise_variance=None):
    """Return the channel that one of the two numbers describes."""
    if (flip_probability is None) == (noise_variance is None):
        raise ValueError(
            "give one of flip_probability (binary visible units) and noise_variance (real ones), "
            f"got flip_probability={flip_probability!r} and noise_variance={noise_variance!r}"
        )
    if noise_variance is None:
        return BinarySymmetric(flip_probability)
    return GaussianNoise(noise_variance)


def posterior_moments(method, machine, starts, max_iter):
    """Return means and variances of the visible units, averaged over solutions.

    Parameters
    ----------
    method : FixedPoint
    machine : Machine
        With a distribution for each row.
    starts : iterable of arrays of shape (n_rows, n_visible)
        Visible values from which a solution is sought for each row, all of equal weight.
    max_iter : int

    Returns
    -------
    mean, variance : arrays of shape (n_rows, n_visible)
        Of the mixture of the solutions: its variance is the mean of the variances and the variance
        of the means. It is that of each column as if it were alone.
    """
    unit, n, first, second = machine.units[0], 0, 0.0, 0.0
    for start in starts:
        state = solve(method, machine, method.state_at(machine, start), max_iter=max_iter).state
        mean, variance = state.means[0], state.variances[0]
        if not unit.has_variances:
            variance = mean - mean * mean
        elif len(unit.values or ()) == 2:  # some methods do not store it; noise keeps it that
            variance = unit.cumulants(mean)[0]  # of the mean, for two values but no more
        n, first, second = n + 1, first + mean, second + (variance + mean * mean)
    if n == 1:
        return mean, variance
    mean = first / n
    xp = namespace(mean)
    return mean, xp.maximum(second / n - mean * mean, xp.zeros_like(mean))
