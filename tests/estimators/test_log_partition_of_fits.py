"""log Z after a fit, whose chains the estimate starts with, against sums."""

import numpy as np
import pytest
from scipy.special import comb, logsumexp
from scipy.stats import binom

from skrbm import RBM, TAPRBM, GaussianBernoulliRBM
from skrbm.estimators import _log_partition
from skrbm.evaluation import log_partition
from skrbm.persistence import load, save

N_HIDDEN = 22  # too many for "auto" to sum over


def groups(seed):
    """Return noisy copies of four rows of 12 bits, two of which are few, and 10 random bits."""
    rng = np.random.default_rng(seed)
    rows = rng.random((4, 12)) < 0.5
    X = rows[rng.choice(4, 300, p=[0.5, 0.3, 0.15, 0.05])] ^ (rng.random((300, 12)) < 0.05)
    return np.hstack([X, rng.random((300, 10)) < 0.3]).astype(float)


def holds(rbm, truth):
    value, std = rbm.log_partition(return_std=True)
    # By Student's distribution; a step of 1e-9 in a fit changes log Z by less than 1e-6.
    return abs(value - truth) < 2.1 * std + 1e-6


def exact(rbm):
    return log_partition(rbm, "exact", max_units=N_HIDDEN).value


@pytest.mark.law
@pytest.mark.parametrize("make", [RBM, TAPRBM])
def test_intervals_hold_the_sum(make):
    """Of 20 intervals of 95 % fewer than 15 hold the sum with a probability of 3e-4."""
    rbms = [make(N_HIDDEN, n_iter=40, random_state=seed).fit(groups(seed)) for seed in range(20)]
    assert binom.cdf(14, 20, 0.95) < 4e-4
    assert sum(holds(rbm, exact(rbm)) for rbm in rbms) >= 15


def two_modes(seed, s=1.0):
    """Return an RBM whose rows are all off or have a pattern, the pattern, and log Z.

    The hidden units are equal, so that log Z is a sum over how many of them are on.
    """
    pattern = np.random.default_rng(seed).random(24) < 0.5
    W = s * np.tile(2.0 * pattern - 1, (N_HIDDEN, 1))
    c, b = -s * pattern.sum() / 2, -0.45 * W.sum(axis=0)
    n_on = np.arange(N_HIDDEN + 1)
    fields = b + n_on[:, None] * W[0]
    sums = np.log(comb(N_HIDDEN, n_on)) + c * n_on + np.logaddexp(0, fields).sum(axis=1)
    hidden = np.full(N_HIDDEN, c)
    settings = {"n_iter": 1, "learning_rate": 1e-9, "warm_start": True, "random_state": seed}
    return RBM.from_parameters(W, hidden, b, **settings), pattern, logsumexp(sums)


@pytest.mark.law
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_mode_that_the_chains_of_a_fit_miss_counts():
    """A fit continues from a machine with two modes, on rows of the less probable one.

    Of 20 intervals of 95 % fewer than 15 hold log Z with a probability of 3e-4.
    """
    held = 0
    for seed in range(20):
        rbm, pattern, truth = two_modes(seed)
        noise = np.random.default_rng(seed).random((100, 24)) < 0.05
        rbm.fit((pattern ^ noise).astype(float))
        held += holds(rbm, truth)
    assert held >= 15


def test_parameters_that_are_not_those_of_the_fit():
    """After a change by a user, and after another fit, log Z is that of the new machine."""
    X = groups(0)
    rbm = RBM(N_HIDDEN, n_iter=5, random_state=0).fit(X)
    rbm.intercept_visible_ = rbm.intercept_visible_ - 1.0
    value, std = rbm.log_partition(return_std=True)
    assert abs(value - exact(rbm)) < 6 * std < 0.61
    rbm.set_params(learning_rate=0.1).partial_fit(1 - X)
    value, std = rbm.log_partition(return_std=True)
    assert abs(value - exact(rbm)) < 6 * std < 0.61


@pytest.mark.parametrize("make", [RBM, GaussianBernoulliRBM])
def test_files_keep_the_estimate(make, tmp_path, monkeypatch):
    """And it is in the coordinates of the data: score and error are those of the history.

    An error above 0.1 is refined, which changes the score.
    """
    X = groups(0)
    if make is GaussianBernoulliRBM:  # whose fit has other coordinates than its score
        X = 50 + 100 * np.random.default_rng(0).normal(size=(300, 6))
    rbm = make(N_HIDDEN, n_iter=20, random_state=0).fit(X)
    score, (value, std) = rbm.score(X), rbm.log_partition(return_std=True)
    error = rbm.history_["log_likelihood_std"][-1]
    assert abs(score - rbm.history_["log_likelihood"][-1]) < 6 * (std + error)
    assert std < error + 1e-9
    save(rbm, tmp_path / "rbm.npz")
    monkeypatch.setattr(_log_partition, "_KEPT", {})
    assert load(tmp_path / "rbm.npz").log_partition() == value
