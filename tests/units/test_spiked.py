"""Units with a spike, against sums and integrals over a bit and a value."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad

from skrbm.arrays import Columns, make_rng
from skrbm.units import SpikedGaussian, Theta

UNIT = SpikedGaussian()
THETA = Theta(np.array([-1.0, 0.5, 2.0, -3.0]), np.array([0.0, 2.0, 0.0, 0.7]))


def integral(site, function):
    """Sum over b = 0, and integral over x of b = 1, of a function of (b, x) times the weight."""
    (bit_field, field), (_, precision) = (part[2 * site : 2 * site + 2] for part in THETA[:2])

    def weight(x):
        return np.exp(bit_field + field * x - 0.5 * precision * x * x) * function(1, x)

    return function(0, 0.0) + quad(weight, -40, 40, points=[0, field / precision])[0]


@pytest.mark.parametrize("site", [0, 1])
def test_log_partition_and_moments_are_those_of_quadrature(site):
    own = slice(2 * site, 2 * site + 2)
    total = integral(site, lambda b, x: 1.0)
    assert_allclose(UNIT.log_partition(THETA)[site], np.log(total), rtol=1e-9)
    mean, variance = (part[own] for part in UNIT.mean_variance(THETA))
    expected = [integral(site, lambda b, x: b) / total, integral(site, lambda b, x: x) / total]
    assert_allclose(mean, expected, rtol=1e-9)
    squares = [integral(site, lambda b, x: b) / total, integral(site, lambda b, x: x * x) / total]
    assert_allclose(variance, np.array(squares) - np.square(expected), rtol=1e-9)
    found = UNIT.statistics(*UNIT.mean_variance(THETA))
    assert_allclose(found.precision[own], [0, -0.5 * squares[1]], rtol=1e-9)


def test_draws_have_the_moments_and_a_fit_finds_the_parameters():
    """Means of 40 000 draws are off by 5 standard errors with a probability of 2e-6."""
    rows = UNIT.sample(THETA.map(lambda part: np.tile(part, (40_000, 1))), make_rng(0, THETA.field))
    UNIT.check_values(rows)
    mean, variance = UNIT.mean_variance(THETA)
    assert (abs(rows.mean(axis=0) - mean) < 5 * np.sqrt(variance / 40_000)).all()
    found = UNIT.initial_theta(Columns(rows))
    assert_allclose(found.precision, THETA.precision, rtol=0.05)
    assert_allclose(found.field, THETA.field, atol=0.15)


def test_values_that_are_no_pairs():
    for wrong in ([[0.0, 1.0]], [[2.0, 0.0]], [[np.nan, 0.0]]):
        with pytest.raises(ValueError, match="pairs"):
            UNIT.check_values(np.array(wrong))
    with pytest.raises(ValueError, match="two columns"):
        UNIT.groups(3)
