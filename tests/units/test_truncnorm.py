"""Numerics of exp(U x - V x**2 / 2) on an interval, against mpmath on the rounded inputs.

An error may be 1e-10 (float64) or 1e-4 (float32) plus ten times the change that one ulp of an
input makes. The scales are max(1, |log-mass|) for the log-mass, the interval's width for the mean
and the variance itself for the variance.
"""

import numpy as np
import pytest
from _exact import Line
from numpy.testing import assert_allclose
from scipy import stats

from skrbm.arrays import make_rng
from skrbm.units import _truncnorm
from skrbm.units._truncnorm import mode, moments, sample

mp = pytest.importorskip("mpmath")


def log_mass(*parameters):
    return moments(*parameters)[0]


def mean_variance(*parameters):
    return moments(*parameters)[1:]


TOLERANCE = {np.float64: 1e-10, np.float32: 1e-4}
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def exact(U, V, lo, hi):
    """Log-mass, mean and variance, to at least 40 digits of the variance."""
    mp.mp.dps = 60
    U, V, lo, hi = (mp.mpf(float(value)) for value in (U, V, lo, hi))
    width = hi - lo
    if abs(V) * width**2 < mp.mpf(10) ** -25:
        return _exact_tilt(U, V, lo, width)
    steepness = max(abs(U - V * lo), abs(U - V * hi)) * width
    flatness = max(0, -mp.log10(abs(V) * width**2))
    mp.mp.dps = int(80 + 4 * flatness + 2 * mp.log10(steepness + 1))
    centre, root = U / V, mp.sqrt(abs(V) / 2)
    a, b = root * (lo - centre), root * (hi - centre)
    if V < 0:
        mass = mp.erfi(b) - mp.erfi(a)
    elif a > 0:
        mass = mp.erfc(a) - mp.erfc(b)
    elif b < 0:
        mass = mp.erfc(-b) - mp.erfc(-a)
    else:
        mass = mp.erf(b) - mp.erf(a)
    log_z = U * centre / 2 + mp.log(mp.sqrt(mp.pi / 2 / abs(V)) * mass)
    low, high = (mp.exp(U * x - V * x * x / 2 - log_z) for x in (lo, hi))
    # Integration by parts: E[f'] = high - low, E[1 + (x - centre) f'] = the ends' difference.
    shift = (low - high) / V
    second = (1 - (hi - centre) * high + (lo - centre) * low) / V
    return log_z, centre + shift, second - shift**2


def _exact_tilt(U, V, lo, width):
    """The same where V is nothing but its first order in the log-mass."""
    s = U * width
    if abs(s) < mp.mpf(10) ** -12:
        mean, variance = lo + width * (mp.mpf(1) / 2 + s / 12), width**2 / 12
        log_z = U * (lo + width / 2) + mp.log(width) + s**2 / 24
    else:
        mp.mp.dps = 100
        mean = lo + width * (1 / (-mp.expm1(-s)) - 1 / s)
        variance = width**2 * (1 / s**2 - 1 / (4 * mp.sinh(s / 2) ** 2))
        log_z = U * lo + mp.log(mp.expm1(s) / U)
    return log_z - V * (variance + mean**2) / 2, mean, variance


def draws(n, generator, dtype):
    """Parameters and bounds over all magnitudes, a good part of them where something is special."""

    def signs():
        return generator.choice([-1.0, 1.0], n)

    def powers(low, high):
        return 10 ** generator.uniform(low, high, n)

    U, V, width = signs() * powers(-6, 6), signs() * powers(-6, 6), powers(-3, 3)
    lo = signs() * powers(-3, 3) * generator.integers(0, 2, n)
    around = generator.random(n)
    lo = np.where(around < 0.3, -width * generator.random(n), lo)
    lo = np.where(around > 0.9, -0.5 * width, lo).astype(dtype)
    hi = np.maximum((lo + width).astype(dtype), np.nextafter(lo, dtype(np.inf)))
    width = hi.astype(float) - lo
    end = np.where(generator.random(n) < 0.5, lo, hi)
    beside = end + generator.choice([0, 1e-8, -1e-8, 1e-12], n)
    inside = lo + width * generator.random(n)
    curved, convex = signs() * powers(-3, 3), -powers(0, 3)
    special = [  # V, U
        (V, U),
        (generator.choice([0, 1e-300, -1e-300], n), U),
        (-np.abs(V), -np.abs(V) * (0.5 * lo + 0.5 * hi)),  # tied ends
        (np.abs(V), np.abs(V) * beside),  # mode at an end or near it
        (np.abs(V), np.abs(V) * inside),
        (curved / width**2, curved / width**2 * lo + signs() * powers(-3, 2.5) / width),
        (convex / width**2, convex / width**2 * (lo + width * generator.uniform(0.4, 1.2, n))),
    ]
    kind = generator.integers(0, len(special), n)
    V = np.choose(kind, [pair[0] for pair in special])
    U = np.choose(kind, [pair[1] for pair in special])
    U, V = (np.clip(part, -1e6, 1e6) for part in (U, V))
    with np.errstate(under="ignore"):
        return [part.astype(dtype) for part in (U, V, lo, hi)]


def change_by_one_ulp(arguments, truth):
    """The largest change of each result when one of the inputs moves by one ulp."""
    changes = [mp.mpf(0)] * 3
    for i, value in enumerate(arguments):
        for direction in (-np.inf, np.inf):
            moved = list(arguments)
            moved[i] = np.nextafter(value, value.dtype.type(direction))
            if moved[2] < moved[3]:
                results = zip(changes, exact(*moved), truth, strict=True)
                changes = [max(change, abs(a - b)) for change, a, b in results]
    return changes


def assert_accurate(U, V, lo, hi):
    tolerance = TOLERANCE[U.dtype.type]
    results = np.stack([log_mass(U, V, lo, hi), *mean_variance(U, V, lo, hi)]).astype(float)
    for i, arguments in enumerate(zip(U, V, lo, hi, strict=True)):
        truth = exact(*arguments)
        scales = [max(1, abs(truth[0])), mp.mpf(float(hi[i])) - mp.mpf(float(lo[i])), truth[2]]
        errors = [abs(mp.mpf(a) - b) for a, b in zip(results[:, i], truth, strict=True)]
        allowed = [tolerance * scale for scale in scales]
        if any(error > bound for error, bound in zip(errors, allowed, strict=True)):
            changes = change_by_one_ulp(arguments, truth)
            allowed = [bound + 10 * change for bound, change in zip(allowed, changes, strict=True)]
        for name, error, bound in zip(("mass", "mean", "variance"), errors, allowed, strict=True):
            assert error <= bound, f"{name} at {arguments}: off by {float(error):.2g}"


@dtypes
def test_against_mpmath(dtype):
    assert_accurate(*draws(400, np.random.default_rng(0), dtype))


@dtypes
def test_results_are_possible_everywhere(dtype):
    U, V, lo, hi = draws(100_000, np.random.default_rng(2), dtype)
    width = hi.astype(float) - lo
    mean, variance = mean_variance(U, V, lo, hi)
    top, drawn = mode(U, V, lo, hi), sample(U, V, lo, hi, make_rng(0, U))
    assert np.isfinite(log_mass(U, V, lo, hi)).all()
    for x in (mean, top, drawn):
        assert x.dtype == dtype
        assert ((x >= lo) & (x <= hi)).all()
    assert ((variance >= 0) & (variance <= 0.25 * width**2 * (1 + np.finfo(dtype).eps))).all()


def test_mode_is_the_highest_point():
    U, V, lo, hi = draws(10_000, np.random.default_rng(3), np.float64)
    top = mode(U, V, lo, hi)

    def height(x):
        # Relative to the middle: the difference of two values would have lost its digits.
        middle = 0.5 * lo + 0.5 * hi
        return (x - middle) * (U - 0.5 * V * (x + middle))

    fractions = np.linspace(0, 1, 101)[:, None]
    best = height(lo + fractions * (hi - lo)).max(axis=0)
    assert (height(top) >= best - 1e-9 * np.maximum(1, np.abs(best))).all()


# A law that is flat, steep, steep with a mode far outside, narrow inside, cut at its mode,
# beside an end, low in the middle, tied, very low in the middle, and on a far-away interval.
LAWS = {
    "flat": (0.0, 0.0, -1.0, 1.0),
    "steep": (1e4, 0.0, -0.5, 0.5),
    "far mode": (-1e6, 3.0, 0.0, 1.0),
    "narrow": (2e5, 1e6, -1.0, 1.0),
    "half": (0.0, 100.0, 0.0, 1.0),
    "wide": (0.7, 2.0, -1.0, 3.0),
    "convex": (3.0, -8.0, -1.0, 1.0),
    "one end": (-60.0, -40.0, -1.0, 1.0),
    "two ends": (0.4, -60.0, -1.0, 1.0),
    "tied": (0.0, -1e5, -2.0, 2.0),
    "far away": (1e3, 1.0, 998.0, 1003.0),
}


@dtypes
@pytest.mark.parametrize("name", LAWS)
def test_samples_follow_the_law(name, dtype):
    U, V, lo, hi = LAWS[name]
    n = 50_000
    x = sample(np.full(n, U, dtype), np.full(n, V, dtype), lo, hi, make_rng(1, np.zeros(1, dtype)))
    line = Line(U, V, (lo, hi))
    u = line.uniform(x.astype(float), np.random.default_rng(0))
    if dtype == np.float32:  # a lattice of values: spread over the distances to the next ones
        near = [np.nextafter(x, dtype(bound)).astype(float) for bound in (-np.inf, np.inf)]
        low, high = (line.cdf(0.5 * (x + other)) for other in near)
        u = low + (high - low) * np.random.default_rng(0).random(n)
    assert stats.kstest(u, "uniform").pvalue > 1e-6
    assert abs(stats.pearsonr(u[1:], u[:-1]).statistic) < 5 / np.sqrt(n)


# The fit of parameters to moments.


def test_fit_has_the_moments():
    generator = np.random.default_rng(8)
    U, V = 3 * generator.normal(size=200), 3 * generator.normal(size=200)
    mean, variance = mean_variance(U, V, -1.0, 2.0)
    fitted = mean_variance(*_truncnorm.fit(mean, variance, -1.0, 2.0), -1.0, 2.0)
    assert_allclose(fitted[0], mean, atol=1e-6)
    assert_allclose(fitted[1], variance, rtol=1e-3)


@pytest.mark.parametrize(
    ("mean", "variance"),
    [(0.0, 0.0), (1.0, 0.0), (0.4, 0.0), (0.5, 0.25), (1e-4, 1e-4), (0.9, 0.09), (0.3, 5.0)],
)
def test_fit_to_impossible_moments_is_finite(mean, variance):
    """Constant columns, columns of nothing but both ends, and rounding beyond those."""
    U, V = _truncnorm.fit(np.array([mean]), np.array([variance]), 0.0, 1.0)
    assert np.abs([U, V]).max() < 1e6
    fitted, spread = mean_variance(U, V, 0.0, 1.0)
    assert_allclose(fitted, mean, atol=1e-3)
    assert_allclose(spread, min(variance, mean * (1 - mean)), atol=2e-3)
