"""What fitted machines do along a ladder: samples, missing values and log Z.

Seeds are fixed. Log Z may be off by 8 of its standard errors, which it is with a probability of
4e-11 (Student's distribution with 63 degrees of freedom).
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from _fractional import all_rows
from _machines import bits, two_modes
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logsumexp, ndtr, softmax

from skrbm import RBM, TAPRBM, BernoulliRBM, GaussianBernoulliRBM
from skrbm.evaluation import log_partition
from skrbm.inference import TAP, Gibbs, GibbsLangevin, Langevin, Tempering
from skrbm.learning import SGD


@pytest.fixture(scope="module")
def fitted():
    settings = {"batch_size": 50, "n_iter": 60, "learning_rate": 0.2, "random_state": 0}
    settings["optimizer"] = SGD(schedule="constant", centered=False, average=False)
    return RBM(6, inference=Gibbs(start="tempered"), **settings).fit(bits())


@pytest.fixture(scope="module")
def by_solutions():
    settings = {"batch_size": 50, "n_iter": 60, "learning_rate": 0.2, "random_state": 0}
    return TAPRBM(6, inference=TAP(max_iter=2, start="tempered"), **settings).fit(bits())


def test_a_ladder_of_a_fit_by_fixed_points(by_solutions):
    """400 samples, that start in one mode, within 5 standard deviations of the exact shares.

    So are all four shares with a probability of 2e-6.
    """
    rbm, states = by_solutions, all_rows(8)
    assert len(rbm.ladder_) > 2 and rbm.ladder_.machines[0].scale == 0
    assert rbm.ladder_.machines[-1].weights[0] is rbm.components_
    assert set(rbm.history_) >= {"exchange", "n_rungs", "n_sweeps"}
    value, std = rbm.log_partition("tempering", return_std=True)
    assert abs(value - log_partition(rbm, "exact").value) < 8 * std
    patterns, counts = np.unique(bits(), axis=0, return_counts=True)
    patterns = patterns[np.argsort(-counts)[:4]]

    def nearest(rows):
        return (rows[:, None] != patterns[None]).sum(axis=2).argmin(axis=1)

    shares = np.bincount(nearest(states), softmax(-rbm.free_energy(states)), 4)
    assert shares.min() > 0.05
    start = np.tile(patterns[0], (400, 1))
    found = np.bincount(nearest(rbm.sample(400, init=start, random_state=0)), minlength=4) / 400
    assert (np.abs(found - shares) < 5 * np.sqrt(shares * (1 - shares) / 400)).all()
    stuck = nearest(rbm.sample(400, init=start, method="gibbs", n_steps=5, random_state=0))
    assert (stuck == 0).mean() > shares[0] + 8 * np.sqrt(shares[0] * (1 - shares[0]) / 400)


MEAN, SPREAD = np.array([100.0, -30.0, 0.0]), np.array([10.0, 1.0, 0.1])


def two_clusters(n=500, dtype=np.float32):
    """Rows far from zero, in units of measure of their own, of which 0.3 are above the mean."""
    generator = np.random.default_rng(0)
    signs = np.where(generator.random(n) < 0.3, 1.0, -1.0)[:, None]
    return (MEAN + SPREAD * (4 * signs + generator.standard_normal((n, 3)))).astype(dtype)


OTHERS = [pytest.param(kind, marks=pytest.mark.law) for kind in (Gibbs, Langevin)]


@pytest.fixture(scope="module", params=[GibbsLangevin, *OTHERS])
def real(request):
    settings = {"optimizer": "adam", "n_iter": 100, "learning_rate": 0.02, "random_state": 0}
    own = {} if request.param is Gibbs else {"adjust_after": None}
    sampler = request.param(n_steps=5, start="tempered", burn_in=0, **own)
    return GaussianBernoulliRBM(4, inference=sampler, **settings).fit(two_clusters())


def share_above(rbm):
    """The exact share of rows whose first value is above the mean, and log Z, by a sum over h.

    In units of each column's spread from the mean, with the constant that the energy of v has.
    """
    H = np.array(list(itertools.product((0.0, 1.0), repeat=4)))
    C, variances = rbm.components_.astype(float), rbm.variances_.astype(float)
    means = rbm.intercept_visible_ + H @ C
    own = ((H @ C) ** 2 / variances).sum(axis=1) / 2
    own += (H @ C) @ (rbm.intercept_visible_ / variances) + H @ rbm.intercept_hidden_
    weights = softmax(own)
    log_z = np.logaddexp.reduce(own) + np.log(2 * np.pi * variances).sum() / 2
    return weights @ ndtr((means[:, 0] - MEAN[0]) / np.sqrt(variances[0])), log_z


def test_a_ladder_of_real_units_in_units_of_measure(real):
    """400 samples, that start in one mode, within 5 standard deviations: 6e-7 are not."""
    assert len(real.ladder_) >= 2 and real.ladder_.machines[0].scale == 0
    assert set(real.history_) >= {"exchange", "n_rungs"}
    assert_array_equal(real.ladder_.samples[-1], real.starts_)
    share, log_z = share_above(real)
    assert 0.1 < share < 0.6
    assert log_partition(real, "exact").value == pytest.approx(log_z, abs=1e-6)
    value, std = real.log_partition("tempering", return_std=True)
    assert abs(value - log_z) < 8 * std < 2
    assert log_partition(real, max_units=2, random_state=0).acceptance > 0
    start, spread = np.tile(MEAN + 4 * SPREAD, (400, 1)), np.sqrt(share * (1 - share) / 400)
    V = real.sample(400, init=start, n_steps=100, random_state=0)
    assert V.dtype == np.float32 and abs((V[:, 0] > MEAN[0]).mean() - share) < 5 * spread
    plain = GaussianBernoulliRBM.from_parameters(
        real, inference=replace(real.inference, start=None)
    )
    stuck = plain.sample(400, init=start, n_steps=100, random_state=0)
    assert (stuck[:, 0] > MEAN[0]).mean() > share + 8 * spread


def test_samples_along_a_ladder_reach_modes_that_gibbs_sampling_does_not():
    """Half of 400 samples are in each mode, within 5 standard deviations of 0.025."""
    machine, start = two_modes(), np.zeros((400, 8))
    biases = [theta.field for theta in machine.thetas[::-1]]
    rbm = BernoulliRBM.from_parameters(machine.weights[0], *biases, random_state=0)
    stuck = rbm.sample(400, init=start, method="gibbs", random_state=0)
    assert (stuck.mean(axis=1) < 0.5).all()
    for method in ("tempering", Tempering(8)):
        V = rbm.sample(400, init=start, method=method, random_state=0)
        assert V.shape == (400, 8)
        assert abs((V.mean(axis=1) > 0.5).mean() - 0.5) < 0.125
        assert_array_equal(V, rbm.sample(400, init=start, method=method, random_state=0))
    V = rbm.sample(400, method="tempering", random_state=0)
    assert_array_equal(V, rbm.sample(400, n_steps=40, method="tempering", random_state=0))


N_COLUMNS, KNOWN = 18, [0, 17]


def tilted_modes(n_idle=0, seed=0):
    """A machine of two modes, in which ``n_idle`` hidden units have no weights."""
    W = np.full((4, N_COLUMNS), 1.5)
    b = -W.sum(0) / 2 + np.where(np.arange(N_COLUMNS) < 9, 0.3, -0.25)
    c = np.concatenate([-W.sum(1) / 2, np.zeros(n_idle)])
    return RBM.from_parameters(np.pad(W, ((0, n_idle), (0, 0))), c, b, random_state=seed)


def exact_means(bits, field=0.0):
    """Means of the visible and the hidden units given ``bits``, with ``field`` added to the biases.

    They are summed over the four hidden units. Also returns the probability of the mode of ones,
    and the logarithm of the sum.
    """
    rbm, known = tilted_modes(), ~np.isnan(bits)
    H = all_rows(4)
    F = H @ rbm.components_ + rbm.intercept_visible_ + field
    log_p = H @ rbm.intercept_hidden_ + F[:, known] @ bits[known]
    log_p += np.logaddexp(0, F[:, ~known]).sum(axis=1)
    p = softmax(log_p)
    share = p[H.sum(axis=1) > 2].sum()
    return np.where(known, bits, p @ expit(F)), p @ H, share, logsumexp(log_p)


GIVEN = np.full(N_COLUMNS, np.nan)
GIVEN[KNOWN] = 1.0, 0.0
LAW = pytest.mark.law
# Exact sums, a ladder where the hidden units are too many for these, and temperatures.
CASES = [(0, "auto"), pytest.param(26, "auto", marks=LAW), pytest.param(0, Tempering(8), marks=LAW)]


@pytest.mark.parametrize("n_idle, method", CASES)
def test_draws_and_means_given_bits_reach_modes_that_gibbs_sampling_does_not(n_idle, method):
    """Means of 400 draws, or of 25 chains, are off by 5 standard errors with a probability below
    5e-5 each (Student's distribution with 24 degrees of freedom), and agree with each other."""
    rbm, rows = tilted_modes(n_idle), np.tile(GIVEN, (400, 1))
    exact, _, share, _ = exact_means(GIVEN)
    spread = np.sqrt(share * (1 - share) / 400)
    stuck = rbm.sample(given=rows, method="gibbs", random_state=0)
    assert abs((stuck.mean(axis=1) > 0.5).mean() - share) > 10 * spread
    draws = rbm.impute(rows, n_draws=1, method=method, random_state=0)[0]
    for V in (rbm.sample(given=rows, method=method, random_state=0), draws):
        assert_array_equal(V[:, KNOWN], rows[:, KNOWN])
        assert abs((V.mean(axis=1) > 0.5).mean() - share) < 5 * spread
    settings = [{"method": method, "random_state": seed} for seed in range(25)]
    filled = np.concatenate([rbm.impute(GIVEN[None], **own) for own in settings])
    assert_array_equal(filled[:, KNOWN], rows[:25, KNOWN])
    error = filled.std(axis=0, ddof=1) / 5
    assert (np.abs(filled.mean(axis=0) - exact) <= 5 * error + 1e-12).all()
    others = np.stack([np.where(np.arange(N_COLUMNS) < 4, 1.0, np.nan), GIVEN])
    assert_allclose(rbm.impute(others, **settings[0])[1], filled[0], rtol=1e-12)


@LAW
def test_hidden_means_given_bits():
    """They are exact, or by 12 chains off by 6 standard errors with a probability of 1e-4."""
    _, exact, _, _ = exact_means(GIVEN)
    assert_allclose(tilted_modes().transform(GIVEN[None])[0], exact, rtol=1e-9)
    found = np.stack([tilted_modes(26, s).transform(GIVEN[None])[0, :4] for s in range(12)])
    error = found.std(axis=0, ddof=1) / np.sqrt(12)
    assert (np.abs(found.mean(axis=0) - exact) < 6 * error).all() and (error < 0.2).all()


@LAW
def test_likelihoods_of_known_bits_are_sums_over_all_modes():
    """An error of 5 standard errors of 0.1 has a probability of 2e-5 (Student, 31 degrees)."""
    for known in ([], KNOWN, [0, 1, 2, 17]):
        bits = np.full(N_COLUMNS, np.nan)
        bits[known] = np.array(known) < 9
        exact = exact_means(bits)[3] + 26 * np.log(2)
        assert abs(tilted_modes(26).free_energy(bits[None])[0] + exact) < 0.5


@pytest.mark.parametrize("n_idle", [0, 26])
def test_posteriors_of_noisy_bits_have_all_modes(n_idle):
    """They are exact, or by 400 chains off by 5 standard errors with a probability of 1e-6."""
    rbm = tilted_modes(n_idle)
    y, flips = (np.arange(N_COLUMNS) % 2.0), 0.45
    exact, _, _, _ = exact_means(GIVEN * np.nan, np.log((1 - flips) / flips) * (2 * y - 1))
    assert 0.2 < exact.mean() < 0.8
    means = rbm.denoise(np.tile(y, (400, 1)), flip_probability=flips, random_state=0)
    error = means.std(axis=0, ddof=1) / 20
    assert (np.abs(means.mean(axis=0) - exact) <= 5 * error + 1e-9).all()
    assert (error > 1e-3).all() == (n_idle > 0)
