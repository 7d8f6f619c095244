"""Samples have the shares that the modes of a machine have, or a warning says why not."""

import warnings

import numpy as np
import pytest
from _fractional import all_rows
from scipy.special import expit, logsumexp
from sklearn.exceptions import ConvergenceWarning

from skrbm import BernoulliRBM


def two_modes(n_visible=24, n_hidden=12, seed=0):
    """A machine whose bits are nearly all 0 or nearly all 1."""
    W = 1.0 + 0.05 * np.random.default_rng(seed).normal(size=(n_hidden, n_visible))
    biases = np.full(n_hidden, -n_visible / 2), np.full(n_visible, -n_hidden / 2)
    return BernoulliRBM.from_parameters(W, *biases, random_state=0)


def share_of_ones(rbm):
    """The probability that most bits are 1: given the hidden units, nearly all or none are."""
    n = rbm.components_.shape[0]
    H = all_rows(n)
    fields = H @ rbm.components_ + rbm.intercept_visible_
    log_p = H @ rbm.intercept_hidden_ + np.logaddexp(0, fields).sum(axis=1)
    p = np.exp(log_p - logsumexp(log_p))
    return p @ (expit(fields).mean(axis=1) > 0.5)


def test_samples_of_a_small_machine_have_both_modes():
    """The share of 1000 draws has a standard error of 0.016: 5 of them and what chains lack."""
    rbm = two_modes()
    found = (rbm.sample(1000, n_steps=300, random_state=0).mean(axis=1) > 0.5).mean()
    assert found == pytest.approx(share_of_ones(rbm), abs=0.1)


def test_samples_of_a_large_machine_that_does_not_mix_warn():
    rbm = two_modes(400, 100)
    rbm.starts_ = np.repeat([[0.0], [1.0]], 20, axis=0) + np.zeros(400)
    with pytest.warns(ConvergenceWarning, match="method='tempering'"):
        rbm.sample(10, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rbm.sample(10, method="gibbs", random_state=0)
