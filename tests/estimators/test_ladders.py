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
from numpy.testing import assert_array_equal
from scipy.special import ndtr, softmax

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


def tilted_modes():
    """A machine of two modes, and rows of which two bits are known and fit both modes.

    Returns the machine, the rows, the exact means given them, and the probability of the mode of
    ones.
    """
    W = np.full((4, 8), 2.0)
    b = -W.sum(0) / 2 + np.where(np.arange(8) < 2, 1.5, -0.5)
    rbm = RBM.from_parameters(W, -W.sum(1) / 2, b, random_state=0)
    given = np.full((400, 8), np.nan)
    given[:, [0, 7]] = 1.0, 0.0
    V = np.array([[1, *row, 0] for row in itertools.product((0, 1), repeat=6)], dtype=float)
    p = np.exp(-rbm.free_energy(V) - np.logaddexp.reduce(-rbm.free_energy(V)))
    return rbm, given, p @ V, p[V.mean(axis=1) > 0.5].sum()


def test_draws_and_means_given_bits_reach_modes_that_gibbs_sampling_does_not():
    """Shares of 400 draws are off by 5 standard deviations with a probability of 6e-7, means by 5
    standard errors of 400 chains as well."""
    rbm, given, means, share = tilted_modes()
    spread = np.sqrt(share * (1 - share) / 400)
    stuck = rbm.sample(given=given, method="gibbs", random_state=0)
    assert abs((stuck.mean(axis=1) > 0.5).mean() - share) > 8 * spread
    assert_array_equal(stuck, rbm.sample(given=given, random_state=0))
    for method in ("tempering", Tempering(8)):
        V = rbm.sample(given=given, method=method, random_state=0)
        assert_array_equal(V[:, [0, 7]], given[:, [0, 7]])
        assert abs((V.mean(axis=1) > 0.5).mean() - share) < 5 * spread
        filled = rbm.impute(given, method=method, random_state=0)
        assert_array_equal(filled[:, [0, 7]], given[:, [0, 7]])
        error = filled.std(axis=0, ddof=1) / 20
        assert (np.abs(filled.mean(axis=0) - means) <= 5 * error + 1e-12).all()
