"""Mass, moments and samples of exp(U x - V x**2 / 2) on [0, inf), for V > 0.

In units of V**-1/2 these are functions of z = U V**-1/2 alone. They are computed by erfcx, from
which no digits are lost, and where z is far below zero, so that the mean z + phi(z) / Phi(z) would
be a difference of large numbers, by the continued fraction of Laplace for the tail of the normal
distribution. All is in float64, where squares of very large z may overflow to their limit.
"""

import math

import numpy as np

from ..arrays import cast, erfcx, namespace, ndtri
from . import _truncnorm

_FAR = 8.0  # -z above which there is a tail
_DEPTH = 15  # of the continued fraction: its error is then rounding
_ROUNDS = 5  # of the search for a quantile in the tail, each of which gains a factor of 64 or more
_FALL = 60.0  # logarithm of the density, from its peak to where it no longer counts
_LOWEST, _HIGHEST = -1e4, 1e7  # z of what is fitted


@np.errstate(over="ignore")
def log_mass(U, V):
    """Return log of the integral of exp(U x - V x**2 / 2) over [0, inf)."""
    xp, z, V = _standard(U, V)
    e, below = _tail_mass(xp, z)
    near = math.log(math.sqrt(0.5 * math.pi)) + xp.log(e)
    rest = 0.5 * z * z + 0.5 * math.log(2 * math.pi) + xp.log1p(-below)
    return cast(xp.where(z > 0, rest, near) - 0.5 * xp.log(V), U.dtype)


@np.errstate(over="ignore")
def mean_variance(U, V):
    """Return mean and variance of the distribution."""
    xp, z, V = _standard(U, V)
    mean, variance = _moments(xp, z)
    return cast(mean / xp.sqrt(V), U.dtype), cast(variance / V, U.dtype)


@np.errstate(over="ignore")
def central_moments(U, V):
    """Return mean, variance, and third and fourth central moments of the distribution.

    By quadrature, up to where the density is less than rounding.
    """
    xp, z, wide = _standard(U, V)
    below = xp.clip(-z, 0.0, None)
    reach = 2 * _FALL / (below + xp.sqrt(below * below + 2 * _FALL))
    end = (xp.clip(z, 0.0, None) + reach) / xp.sqrt(wide)
    return _truncnorm.moments(U, V, 0.0, end, n=4)[1:]


@np.errstate(over="ignore")
def sample(U, V, rng):
    """Draw from the distribution, by inversion of its distribution function."""
    xp, z, V = _standard(U, V)
    uniform = rng.uniform(z.shape)
    # Uniform numbers are multiples of a step, 0 included: half a step keeps them from the end.
    half = 0.5 * float(xp.finfo(uniform.dtype).eps)
    uniform = half + (1 - half) * cast(uniform, xp.float64)
    _, below = _tail_mass(xp, z)
    x = z - ndtri(uniform * xp.where(z > 0, 1 - below, below))
    (x,) = _with_tail(xp, z, [x], _tail_quantile, uniform)
    return cast(xp.clip(x, 0.0, None) / xp.sqrt(V), U.dtype)


def fit(mean, variance):
    """Return U and V of the distributions with these means and variances, NumPy arrays.

    The standard deviation is less than the mean, with a limit of equality as V goes to 0; where it
    is not in the data, the mean is met and V is small.
    """
    low, high = np.full_like(mean, np.arcsinh(_LOWEST)), np.full_like(mean, np.arcsinh(_HIGHEST))
    for _ in range(80):  # var / mean**2 falls with z
        middle = 0.5 * (low + high)
        m, v = _moments(np, np.sinh(middle))
        above = v * mean**2 > variance * m**2
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    z = np.sinh(0.5 * (low + high))
    root = _moments(np, z)[0] / mean
    return z * root, root**2


def _standard(U, V):
    """Return the namespace, z and V, in float64."""
    xp = namespace(U)
    V = cast(V, xp.float64)
    return xp, cast(U, xp.float64) / xp.sqrt(V), V


def _tail_mass(xp, z):
    """Return erfcx(abs(z) / sqrt(2)), and the normal distribution's mass beyond abs(z)."""
    e = erfcx(math.sqrt(0.5) * xp.abs(z))
    return e, 0.5 * e * xp.exp(-0.5 * z * z)


def _moments(xp, z):
    """Return mean and variance for V = 1."""
    e, below = _tail_mass(xp, z)
    density = math.sqrt(0.5 / math.pi) * xp.exp(-0.5 * z * z)
    ratio = xp.where(z > 0, density / (1 - below), math.sqrt(2 / math.pi) / e)
    mean = z + ratio
    return _with_tail(xp, z, [mean, 1 - ratio * mean], _tail_moments)


def _with_tail(xp, z, found, function, *others):
    """Return arrays with ``function(xp, -z, *others)`` where z < -8."""
    far = z < -_FAR
    if xp is np:
        if far.any():
            parts = function(xp, -z[far], *(other[far] for other in others))
            for array, part in zip(found, parts, strict=True):
                array[far] = part
        return found
    parts = function(xp, xp.where(far, -z, _FAR), *others)
    return [xp.where(far, part, array) for part, array in zip(parts, found, strict=True)]


def _tail_moments(xp, a):
    """Return mean and variance for z = -a: Laplace's fraction 1/(a + 2/(a + 3/(a + ...)))."""
    root = xp.sqrt(a * a + 4 * _DEPTH)
    rest, slope = 0.5 * (root - a), 0.5 * (a / root - 1)  # the fraction from a level on, by a
    for k in range(_DEPTH, 0, -1):
        below = a + rest
        rest, slope = k / below, -k * (1 + slope) / below**2
    return rest, -slope


def _tail_quantile(xp, a, uniform):
    """Return x with P[X > x] = uniform for z = -a.

    -log P[X > x] = a x + x**2 / 2 + log(ratio(a + x) / ratio(a)), in which the last term is small.
    """
    w = -xp.log(uniform)
    first, x, change = a + _tail_moments(xp, a)[0], None, 0.0
    for _ in range(_ROUNDS):
        rest = w - change
        x = 2 * rest / (a + xp.sqrt(a * a + 2 * rest))
        change = xp.log((a + x + _tail_moments(xp, a + x)[0]) / first)
    return (x,)
