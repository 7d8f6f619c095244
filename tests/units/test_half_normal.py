"""Half-normal distributions against arithmetic of 60 digits, far into both tails."""

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from skrbm.arrays import Columns, make_rng
from skrbm.units import DoubleReLU, ReLU, Theta, _half_normal

Z = np.array([-1e6, -1e3, -40.0, -8.5, -8.001, -7.999, -3.0, -0.1, 0.0, 0.2, 4.0, 9.0, 1e3, 1e5])
V = np.resize([1.0, 0.04, 30.0], Z.size)


def exact(z, precision):
    """log of the mass, mean and variance of exp(z sqrt(V) x - V x**2 / 2) on [0, inf)."""
    with mp.workdps(60):
        z, root = mp.mpf(z), mp.sqrt(mp.mpf(precision))
        ratio = mp.npdf(z) / mp.ncdf(z)
        log_mass = mp.log(mp.ncdf(z) * mp.sqrt(2 * mp.pi)) + z**2 / 2 - mp.log(root)
        return [log_mass, (z + ratio) / root, (1 - ratio * (z + ratio)) / root**2]


def test_mass_mean_and_variance():
    U = Z * np.sqrt(V)
    truth = np.array([[float(part) for part in exact(u / np.sqrt(v), v)] for u, v in np.c_[U, V]])
    found = _half_normal.log_mass(U, V), *_half_normal.mean_variance(U, V)
    for part, expected, rtol in zip(found, truth.T, (1e-13, 1e-12, 1e-11), strict=True):
        assert_allclose(part, expected, rtol=rtol, atol=1e-15)


@pytest.mark.parametrize("z", [-1e4, -9.0, -7.0, -1.0, 0.5, 6.0])
def test_draws_have_their_distribution(z):
    """By Kolmogorov and Smirnov, at a level of 1e-6 for each."""
    x = _half_normal.sample(np.full(20_000, z), np.ones(20_000), make_rng(0, np.ones(1)))
    survival = np.exp(stats.norm.logsf(x - z) - stats.norm.logsf(-z))
    assert (x >= 0).all() and stats.kstest(survival, "uniform").pvalue > 1e-6


@pytest.mark.parametrize("z", [-8.1, -9.0, -40.0, -1e3])
def test_quantiles_in_the_tail(z):
    """-log P[X > x] is that of the uniform number, to rounding and not only on average."""
    uniform = np.array([1 - 1e-3, 0.5, 0.1, 1e-3, 1e-9])

    class Given:
        def uniform(self, shape):
            return uniform

    x = _half_normal.sample(np.full(5, z), np.ones(5), Given())
    with mp.workdps(60):
        tail = mp.erfc(-mp.mpf(z) / mp.sqrt(2))
        found = [mp.log(tail / mp.erfc((mp.mpf(part) - z) / mp.sqrt(2))) for part in x]
    assert_allclose(np.array(found, dtype=float), -np.log(uniform), rtol=1e-7)


def test_columns_wider_than_their_mean_have_the_mean():
    X = np.array([[0.0], [0.0], [0.0], [9.0]])  # a half-normal distribution is never as wide
    theta = ReLU().initial_theta(Columns(X))
    assert_allclose(ReLU().mean(theta), X.mean(), rtol=1e-9)
    assert np.isfinite(theta.field).all() and (theta.precision > 0).all()


def test_float32_is_as_good_as_its_parameters():
    for z in (-1e3, -9.0, -2.0, 3.0):
        theta = Theta(np.float32([z]), np.ones(1, np.float32))
        mean, variance = ReLU().mean_variance(theta)
        assert mean.dtype == np.float32
        assert_allclose([mean[0], variance[0]], [float(x) for x in exact(z, 1)[1:]], rtol=2e-7)


def test_both_sides_keep_a_precision_that_float32_holds():
    """Also where the own precision is large, and so its rounding."""
    parts = (np.float32([part] * 2) for part in (0.0, 1e5, 0.0))
    field, precision, absolute = parts
    theta = Theta(field, precision, None, absolute, np.float32([2e5, -2e5]))
    projected = DoubleReLU().project(theta)
    assert_allclose(DoubleReLU().tail_precision(projected), 100, rtol=1e-3)
    assert np.isfinite(DoubleReLU().log_partition(projected)).all()
