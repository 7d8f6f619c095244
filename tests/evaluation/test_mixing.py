"""Autocorrelation times, R-hat and effective sample sizes, against closed forms.

Seeds are fixed. Means of 30 runs are held to 5 standard errors, which a right formula exceeds with
a probability of 6e-7 for each number.
"""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.signal import lfilter
from scipy.stats import norm

from skrbm.evaluation._mixing import autocorrelation, integrated_time, mixing, r_hat


def autoregressive(phi, n_steps, n_chains, generator):
    """Chains x_t = phi x_{t-1} + noise, in their stationary distribution from the start."""
    noise = generator.standard_normal((n_steps, n_chains))
    noise[0] /= np.sqrt(1 - phi**2)
    return lfilter([1], [1, -phi], noise, axis=0)


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9, -0.3])
def test_autoregressive_chains(phi):
    """The time is (1 + phi) / (1 - phi), its bias below a part of 2 %; R-hat goes to 1."""
    generator, truth = np.random.default_rng(0), (1 + phi) / (1 - phi)
    found = [mixing(autoregressive(phi, 1000, 20, generator)) for _ in range(30)]
    times = np.array([m.time for m in found])
    assert abs(times.mean() - truth) < 5 * times.std() / np.sqrt(30) + 0.02 * truth
    ess = np.array([m.ess for m in found])
    assert abs(ess.mean() * truth / 20_000 - 1) < 5 * ess.std() / ess.mean() / np.sqrt(30) + 0.02
    # The stated error has the size of the spread, which 30 runs know to a part of 13 %.
    assert 0.5 < np.mean([m.time_std for m in found]) / times.std() < 2
    assert all(0.999 < m.r_hat < 1.05 for m in found)


def test_autocorrelation_is_the_mean_product():
    x = np.random.default_rng(0).standard_normal((7, 3)).cumsum(axis=0) + np.array([0, 1, 5])
    centred, n = x - x.mean(axis=0), 7
    gamma = np.array([(centred[: n - t] * centred[t:]).sum(axis=0).mean() / n for t in range(n)])
    within = gamma[0] * n / (n - 1)
    total = within * (n - 1) / n + x.mean(axis=0).var(ddof=1)
    expected = 1 - (within - gamma * n / (n - 1)) / total
    assert autocorrelation(x)[1:] == pytest.approx(expected[1:], rel=1e-12)
    assert autocorrelation(x)[0] == 1


def test_the_sum_ends_at_the_first_pair_that_is_not_positive_and_decreases():
    rho = np.array([1, 0.5, 0.1, 0.1, 0.3, 0.2, -0.2, 0.1, 0.9, 0.9])
    assert integrated_time(rho, 100) == (pytest.approx(2 * (1.5 + 0.2 + 0.2) - 1), 6)
    assert integrated_time(np.array([1, -0.99, 0.1, -0.3]), 100)[0] == pytest.approx(0.5)


def scores_of_two_groups(distance):
    """R-hat of many chains of N(0, 1) and as many of N(distance, 1), by quadrature."""

    def score(x):
        return norm.ppf(0.5 * (norm.cdf(x) + norm.cdf(x - distance)))

    def expected(function):
        return quad(lambda x: function(score(x)) * norm.pdf(x), -8, 8, limit=200)[0]

    mean, square = expected(lambda z: z), expected(lambda z: z * z)
    within = square - mean**2
    return np.sqrt(1 + mean**2 / within)  # the other group has minus this mean


@pytest.mark.parametrize("distance", [0.5, 1.0, 2.0, 4.0])
def test_r_hat_of_chains_in_two_places(distance):
    """5e4 draws in each group, so that means are known to 0.005 and R-hat to a part of 1 %."""
    x = np.random.default_rng(0).standard_normal((500, 200))
    x[:, 100:] += distance
    assert r_hat(x) == pytest.approx(scores_of_two_groups(distance), rel=0.01)


def test_r_hat_sees_variances_and_trends_and_no_scale():
    generator = np.random.default_rng(0)
    x = generator.standard_normal((500, 4))
    assert r_hat(x) < 1.02
    assert r_hat(x * [1, 1, 1, 5]) > 1.1
    assert r_hat(x + np.linspace(0, 3, 500)[:, None]) > 1.1
    assert r_hat(np.exp(x)) == pytest.approx(r_hat(x), abs=0.01)  # ranks but for the folded part


def test_values_that_never_change():
    assert np.isnan(mixing(np.ones((10, 3)))[:4]).all()
    stuck = mixing(np.arange(3.0) + np.zeros((10, 1)))
    assert stuck.r_hat == np.inf and stuck.time > 10 and stuck.ess < 10
