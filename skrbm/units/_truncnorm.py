"""Mass, moments, mode and samples of exp(U x - V x**2 / 2) on an interval, for any sign of V.

Closed forms of these are differences of error functions, which cancel in one regime or another:
a distribution much wider than the interval, a mode far outside, V near zero, V negative. Here the
peak is factored out instead, and what remains is integrated by one Gauss-Legendre rule over the
part of the interval where the density is more than rounding: there the logarithm of the density is
a quadratic that falls by a bounded amount, whatever the parameters are, so that one order serves
all. All terms are positive and nothing cancels; and the only function needed is exp, which every
array library has.

Lengths are fractions of the interval, counted from the end where the density is higher. A
distribution with V < 0 that is high at both ends has a second piece, counted from the other end.

Parameters have float32 or float64; the setting up is in float64, because slopes at the ends are
differences that cancel, and the integration in the dtype of the parameters. The arguments ``U``
and ``V`` are arrays, the bounds arrays or numbers, all broadcast together.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..arrays import cast, from_numpy, is_foreign, like, namespace

_BLOCK, _FOREIGN_BLOCK = 4096, 1 << 18  # elements at once: what fits a cache, what fits a device
_SPLIT = 8.0  # a distribution that falls by more than exp(-8) between two high ends has two pieces


class _Rule(NamedTuple):
    """Gauss-Legendre rule on [0, 1], and how far the logarithm of the density is followed."""

    order: int
    two_sided: float  # fall from a peak inside, on each side
    one_sided: float  # fall from a peak at the end
    fine: int  # order for samples: the polynomial through the nodes converges at half the rate
    panels: int  # equal parts of [0, 1] in which the distribution function is inverted
    newton: int


_DOUBLE = _Rule(order=36, two_sided=30.0, one_sided=42.0, fine=44, panels=16, newton=2)
_SINGLE = _Rule(order=18, two_sided=15.0, one_sided=24.0, fine=30, panels=8, newton=2)


@cache
def _nodes(order):
    """Return nodes and weights on [0, 1]."""
    u, w = np.polynomial.legendre.leggauss(order)
    return 0.5 * (u + 1), 0.5 * w


def _powers(rule):
    """Return columns for products with the coefficients A, B, C of a piece: the exponents."""
    v, _ = _nodes(rule.order)
    return np.stack([v, -(v**2), np.ones_like(v)], axis=1)


def _moment_weights(rule, n):
    """Return rows for products with the density at the nodes: the integral, and n moments twice.

    They are about 0 and about 1/2: those nearer to the mean are used, which lose no digits.
    """
    v, w = _nodes(rule.order)
    return np.stack([w, *(w * (v - u) ** k for u in (0.0, 0.5) for k in range(1, n + 1))])


def _cumulative(rule):
    """Return integrals from 0 to the ends of the panels of the polynomial through the nodes."""
    u, w = np.polynomial.legendre.leggauss(rule.order)
    ends = 2 * np.arange(1, rule.panels + 1) / rule.panels - 1
    at_ends = np.polynomial.legendre.legvander(ends, rule.order)
    integrals = at_ends[:, 1:] - np.pad(at_ends[:, :-2], ((0, 0), (1, 0)))
    integrals[:, 0] = ends + 1
    return 0.25 * integrals @ (np.polynomial.legendre.legvander(u, rule.order - 1).T * w)


@cache
def _table(function, rule, dtype, *args):
    return function(rule, *args).astype(dtype)


def _constant(function, rule, reference, *args):
    """Return a table of a rule like ``reference``."""
    dtype = "float32" if reference.dtype == namespace(reference).float32 else "float64"
    return from_numpy(_table(function, rule, dtype, *args), reference)


class _Piece(NamedTuple):
    """A part of the interval: begin + length * v from an end, v in [0, 1].

    There the density is exp(A v - B v**2 + C), at most 1.
    """

    begin: Any
    length: Any
    A: Any
    B: Any
    C: Any


class _Distribution(NamedTuple):
    """The distribution with its peak factored out; all in float64."""

    log_peak: Any
    end: Any  # where lengths are counted from
    width: Any  # signed: from there to the other end
    near: _Piece
    far: Any  # _Piece counted from the other end, or None if nowhere needed
    log_ratio: Any  # log of the density at the other end, relative to the peak; -inf if one piece


def _piece(xp, rule, slope, curvature):
    """Return the piece from an end where the log-density has ``slope``, in fractions of width.

    ``curvature`` is V in the same unit. A slope > 0 has a peak inside, which needs V > 0. For
    V < 0 the piece ends at the minimum, if that is inside.
    """
    inside = (slope > 0) & (curvature > 0)
    safe = xp.where(inside, curvature, 1.0)
    peak = xp.where(inside, slope / safe, 0.0)
    fall = rule.one_sided - (rule.one_sided - rule.two_sided) * cast(inside, slope.dtype)
    down = xp.where(slope < 0, -slope, 0.0)
    # The smaller root of down y + curvature y**2 / 2 = fall; a denominator below ``fall``
    # means a root beyond 1.
    root = xp.sqrt(xp.clip(down * down + 2 * curvature * fall, 0.0, None))
    reach = 2 * fall / xp.clip(down + root, 1.0, None)
    begin = xp.clip(peak - reach, 0.0, None)
    length = xp.clip(peak + reach, None, 1.0) - begin
    rise = peak - begin
    A = xp.where(inside, curvature * rise, slope) * length
    return _Piece(begin, length, A, 0.5 * curvature * length**2, -0.5 * curvature * rise**2)


def _distribution(rule, U, V, lo, hi):
    """Return the pieces, from arrays of float64, of which U has the full shape."""
    xp = namespace(U)
    width = hi - lo
    at_lo, at_hi = (U - V * lo) * width, (U - V * hi) * width
    # On its own, not from the slopes at the ends, whose difference may have lost it: it is the
    # log-ratio of the densities at the two ends.
    middle = (U - V * (0.5 * lo + 0.5 * hi)) * width
    flip = middle > 0
    slope, other = xp.where(flip, -at_hi, at_lo), xp.where(flip, at_lo, -at_hi)
    curvature = V * width * width
    end = xp.where(flip, hi, lo)
    inside = (slope > 0) & (V > 0)
    top = xp.where(inside, U / xp.where(inside, V, 1.0), end)
    log_peak = xp.where(inside, 0.5 * U * top, end * (U - 0.5 * V * end))
    near = _piece(xp, rule, slope, curvature)
    dist = _Distribution(log_peak, end, xp.where(flip, -width, width), near, None, None)
    split = (curvature < 0) & (other < 0) & (slope * slope > -2 * _SPLIT * curvature)
    if not bool(xp.any(split)):
        return dist
    far = _piece(xp, rule, xp.where(split, other, -1.0), xp.where(split, curvature, 0.0))
    safe = xp.where(split, curvature, 1.0)
    near = _cut(xp, near, xp.where(split, slope / safe, 1.0))
    far = _cut(xp, far, xp.where(split, other / safe, 1.0))
    log_ratio = xp.where(split, -xp.abs(middle), -float("inf"))
    return dist._replace(near=near, far=far, log_ratio=log_ratio)


def _cut(xp, piece, length):
    """Return the piece, which begins at 0, ended at ``length`` at most."""
    factor = xp.clip(length / piece.length, None, 1.0)
    return piece._replace(
        length=factor * piece.length, A=factor * piece.A, B=factor * factor * piece.B
    )


def _density(rule, piece, reference):
    """Return the density at the nodes, (order, n_elements), in the dtype of ``reference``."""
    xp = namespace(reference)
    powers = _constant(_powers, rule, reference)
    exponent = powers @ cast(xp.stack([piece.A, piece.B, piece.C]), reference.dtype)
    return xp.exp(exponent)


def _integrals(rule, piece, reference, n):
    """Return mass, mean and central moments up to the n-th of a piece, float64.

    They are in fractions of width, from the end of the piece.
    """
    xp = namespace(reference)
    weights = _constant(_moment_weights, rule, reference, n)
    sums = cast(weights @ _density(rule, piece, reference), xp.float64)
    mass = sums[0, :]
    near_0 = sums[1, :] / mass < 0.25
    first, *raw = (xp.where(near_0, sums[k, :], sums[k + n, :]) / mass for k in range(1, n + 1))
    origin, length = 0.5 * cast(~near_0, mass.dtype), piece.length
    central = (length**k * part for k, part in enumerate(_centred(first, *raw), start=2))
    return length * mass, piece.begin + length * (origin + first), *central


def _centred(first, second, third=None, fourth=None):
    """Return the moments about the mean, from those about any point."""
    square = first * first
    if third is None:
        return (second - square,)
    return (
        second - square,
        third - first * (3 * second - 2 * square),
        fourth - first * (4 * third - first * (6 * second - 3 * square)),
    )


def _moments(rule, U, V, lo, hi, reference, n):
    """Return log-mass, mean and central moments up to the n-th, which is 2 or 4."""
    xp = namespace(U)
    dist = _distribution(rule, U, V, lo, hi)
    mass, *near = _integrals(rule, dist.near, reference, n)
    if dist.far is not None:
        far_mass, mean, *central = _integrals(rule, dist.far, reference, n)
        far_mass = xp.exp(dist.log_ratio) * far_mass
        near_mass, mass = mass, mass + far_mass
        signs = (1, -1, 1)  # the far piece is counted in the opposite direction
        far = [1 - mean, *(s * part for s, part in zip(signs, central, strict=False))]
        near = mixed(near_mass / mass, near, far_mass / mass, far)
    log_mass = dist.log_peak + xp.log(xp.abs(dist.width)) + xp.log(mass)
    mean = xp.minimum(xp.maximum(dist.end + dist.width * near[0], lo), hi)
    variance = dist.width**2 * xp.clip(near[1], 0.0, 0.25)
    others = (dist.width**k * part for k, part in enumerate(near[2:], start=3))
    return log_mass, mean, variance, *others


def mixed(share, near, other_share, far):
    """Return mean and central moments, the second or up to the fourth, of a mixture of two."""
    apart = far[0] - near[0]
    moments = [0.0] * (len(near) - 1)
    sides = ((share, near, -other_share * apart), (other_share, far, share * apart))
    for weight, (_, second, *higher), d in sides:
        moments[0] = moments[0] + weight * (second + d * d)
        if higher:
            third, fourth = higher
            moments[1] = moments[1] + weight * (third + d * (3 * second + d * d))
            inner = 4 * third + d * (6 * second + d * d)
            moments[2] = moments[2] + weight * (fourth + d * inner)
    return near[0] + other_share * apart, *moments


def _mode(rule, U, V, lo, hi, reference):
    xp = namespace(U)
    edge = xp.where(U - V * (0.5 * lo + 0.5 * hi) > 0, hi, lo)
    inside = (V > 0) & (U > V * lo) & (U < V * hi)
    top = U / xp.where(inside, V, 1.0)
    return (xp.where(inside, xp.minimum(xp.maximum(top, lo), hi), edge),)


def _sample(rule, U, V, lo, hi, reference, uniform, choice):
    """Invert the distribution function at ``uniform``; ``choice`` decides between two pieces."""
    xp, rule = namespace(U), rule._replace(order=rule.fine)
    dist = _distribution(rule, U, V, lo, hi)
    piece, end, width = dist.near, dist.end, dist.width
    if dist.far is not None:
        near = _integrals(rule, dist.near, reference, 2)[0]
        far = xp.exp(dist.log_ratio) * _integrals(rule, dist.far, reference, 2)[0]
        other = choice * (near + far) < far
        piece = _Piece(*(xp.where(other, b, a) for a, b in zip(dist.near, dist.far, strict=True)))
        end, width = xp.where(other, end + width, end), xp.where(other, -width, width)
    v = cast(_invert(rule, piece, cast(uniform, reference.dtype), reference), xp.float64)
    x = end + width * (piece.begin + piece.length * v)
    return (xp.minimum(xp.maximum(x, lo), hi),)


def _invert(rule, piece, uniform, reference):
    """Solve F(v) = uniform on a piece: find the panel, then Newton steps within it."""
    xp = namespace(reference)
    A, B, _ = (cast(part, reference.dtype) for part in piece[2:])
    cumulative = _constant(_cumulative, rule, reference) @ _density(rule, piece, reference)
    target = uniform * cumulative[-1, :]
    below = cumulative[:-1, :] < target
    panel = cast(xp.sum(cast(below, xp.int32), axis=0), reference.dtype)
    low = xp.max(xp.where(below, cumulative[:-1, :], 0.0), axis=0)
    high = xp.min(xp.where(below, cumulative[-1:, :], cumulative[:-1, :]), axis=0)
    tiny = float(xp.finfo(reference.dtype).smallest_normal)
    fraction = xp.clip((target - low) / xp.clip(high - low, tiny, None), 0.0, 1.0)
    slope = (A - 2 * B * panel / rule.panels) / rule.panels
    curvature = B / rule.panels**2
    goal = fraction * _panel_mass(slope, curvature, xp.ones_like(slope))
    t = _tilted(xp, fraction, slope - curvature)
    for _ in range(rule.newton):
        excess = _panel_mass(slope, curvature, t) - goal
        t = xp.clip(t - excess * xp.exp(t * (curvature * t - slope)), 0.0, 1.0)
    return (panel + t) / rule.panels


def _tilted(xp, fraction, slope):
    """Quantiles of the density exp(slope t) on [0, 1]."""
    flat = xp.abs(slope) < 1e-3
    safe = xp.where(flat, 1.0, slope)
    return xp.where(flat, fraction, xp.log1p(fraction * xp.expm1(safe)) / safe)


def _panel_mass(slope, curvature, t):
    """Integral of exp(slope t - curvature t**2) from 0 to t."""
    xp = namespace(t)
    linear, quadratic, total = slope * t, curvature * t * t, xp.zeros_like(t)
    for v, w in zip(*_nodes(6), strict=True):
        total = total + float(w) * xp.exp(float(v) * (linear - float(v) * quadratic))
    return t * total


def _elementwise(function, U, V, lo, hi, *others, **options):
    """Apply a function of one-dimensional arrays of float64 in blocks; keeps shape and dtype."""
    xp = namespace(U)
    # Bounds that are numbers stay one number, but of float64: a library may take a bare number
    # as float32.
    shared = {
        i: xp.full((), bound, dtype=xp.float64, device=like(U).get("device"))
        for i, bound in ((2, lo), (3, hi))
        if not hasattr(bound, "dtype")
    }
    arrays = [U, V, *(bound for bound in (lo, hi) if hasattr(bound, "dtype")), *others]
    arrays = xp.broadcast_arrays(*arrays)
    shape, reference = arrays[0].shape, xp.empty(0, **like(U))
    arrays = [xp.reshape(part, (-1,)) for part in arrays]
    size, block = arrays[0].shape[0], _FOREIGN_BLOCK if is_foreign(U) else _BLOCK
    rule = _SINGLE if U.dtype == xp.float32 else _DOUBLE
    pieces = []
    for start in range(0, max(size, 1), block):
        parts = [cast(part[start : min(start + block, size)], xp.float64) for part in arrays]
        for i, bound in shared.items():
            parts.insert(i, bound)
        results = function(rule, *parts[:4], reference, *parts[4:], **options)
        pieces.append([cast(part, U.dtype) for part in results])
    return tuple(
        xp.reshape(parts[0] if len(parts) == 1 else xp.concat(parts, axis=0), shape)
        for parts in map(list, zip(*pieces, strict=True))
    )


def moments(U, V, lo, hi, n=2):
    """Return log-mass, mean, variance, and up to the n-th central moment, where n is 2 or 4.

    The log-mass is the logarithm of the integral of exp(U x - V x**2 / 2) over [lo, hi].
    """
    return _elementwise(_moments, U, V, lo, hi, n=n)


def mode(U, V, lo, hi):
    """Return the point of highest density; the lower end if both ends are highest."""
    return _elementwise(_mode, U, V, lo, hi)[0]


def sample(U, V, lo, hi, rng):
    """Draw from the distribution, by inversion of its distribution function."""
    xp = namespace(U)
    shape = xp.broadcast_arrays(U, V)[0].shape
    uniform, choice = rng.uniform(shape), rng.uniform(shape)
    # Uniform numbers are multiples of a step, 0 included. They are shifted by half a step, so that
    # an end of the interval without an atom is drawn no more often than rounding makes it.
    half = 0.5 * float(xp.finfo(U.dtype).eps)
    return _elementwise(_sample, U, V, lo, hi, half + (1 - half) * uniform, choice)[0]


def fit(mean, variance, lo, hi, *, ridge=1e-8, max_iter=200):
    """Return U and V of the distributions on [lo, hi] with these means and variances.

    They are those of maximum likelihood, with a small penalty on both parameters in units of half
    the interval: it keeps parameters finite whose moments are at the edge of what is possible.
    Arguments are one-dimensional NumPy arrays of float64. Newton's method with backtracking, on a
    strictly concave function.
    """
    centre, half = 0.5 * (lo + hi), 0.5 * (hi - lo)
    first = np.clip((mean - centre) / half, -1.0, 1.0)
    target = np.stack([first, -0.5 * np.clip(variance / half**2 + first**2, first**2, 1.0)])

    def evaluate(theta):
        """Return the objective, its gradient and its curvature of shape (2, 2, n)."""
        log_mass, m, second, third, fourth = moments(*theta, -1.0, 1.0, n=4)
        expected = np.stack([m, -0.5 * (second + m * m)])
        both = -0.5 * third - m * second
        of_square = 0.25 * (fourth - second**2) + m * third + m * m * second
        curvature = np.array([[second, both], [both, of_square]]) + ridge * np.eye(2)[:, :, None]
        value = (theta * target).sum(axis=0) - log_mass
        value -= 0.5 * ridge * (theta * theta).sum(axis=0)
        return value, target - expected - ridge * theta, curvature

    theta, rate = np.zeros_like(target), np.ones_like(first)
    value, slope, curvature = evaluate(theta)
    for _ in range(max_iter):
        step = np.linalg.solve(curvature.transpose(2, 0, 1), slope.T[:, :, None])[:, :, 0].T
        gain = (slope * step).sum(axis=0)
        if gain.max(initial=0.0) < 1e-20:
            break
        trial = theta + rate * step
        new = evaluate(trial)
        # Close to the solution the gain is less than the rounding of the objective.
        better = (new[0] >= value + 0.1 * rate * gain) | (gain < 1e-8)
        theta = np.where(better, trial, theta)
        value, slope, curvature = (
            np.where(better, b, a) for a, b in zip((value, slope, curvature), new, strict=True)
        )
        rate = np.where(better, np.minimum(1.0, 2 * rate), 0.5 * rate)
    b, q = theta
    precision = q / half**2
    return b / half + precision * centre, precision
