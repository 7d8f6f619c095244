"""TAPRBM: starts and solutions, the TAP log-likelihood, the step of learning, and that it learns.

The references here are transcriptions of the equations of Tramel et al. (2018) in plain NumPy,
row by row, which share no code with the package.
"""

import warnings

import numpy as np
import pytest
from _estimators import (
    all_rows,
    binary_data,
    parameters,
    small,
)
from numpy.testing import assert_allclose
from scipy.special import expit, gammaln, logsumexp, xlogy

from skrbm import TAPRBM
from skrbm.exceptions import LikelihoodWarning
from skrbm.inference import TAP


def tap_solution(W, c, b, v, n_sweeps=500, tol=0.0):
    """Alg. 1 for binary units, for one row: returns (a_v, a_h), at most ``n_sweeps`` sweeps.

    W is (n_hidden, n_visible). The sweep stops at a mean squared change of ``tol``, if above 0.
    """
    a_v, c_v, a_h = v.copy(), np.zeros_like(v), np.zeros(len(c))
    for _ in range(n_sweeps):
        before = np.concatenate([a_v, a_h])
        A_h = -(W**2) @ c_v
        a_h = expit(c + W @ a_v + A_h * a_h - A_h / 2)
        c_h = a_h - a_h**2
        A_v = -(W**2).T @ c_h
        a_v = expit(b + W.T @ a_h + A_v * a_v - A_v / 2)
        c_v = a_v - a_v**2
        if tol and np.mean((np.concatenate([a_v, a_h]) - before) ** 2) <= tol:
            break
    return a_v, a_h


def tap_free_energy(W, c, b, a_v, a_h):
    """The free energy of binary units as entropy, fields, pairs and the Onsager term."""
    entropy = -sum(np.sum(xlogy(a, a) + xlogy(1 - a, 1 - a)) for a in (a_v, a_h))
    pairs = a_h @ W @ a_v + 0.5 * (a_h - a_h**2) @ W**2 @ (a_v - a_v**2)
    return -(entropy + b @ a_v + c @ a_h + pairs)


def two_modes(**params):
    """A machine whose TAP equations have two solutions: its pattern and the opposite one."""
    pattern = np.array([1.0, 1, 1, -1, -1, -1])
    W = 4 * np.outer([1, -1], pattern)
    b = -0.5 * W.sum(axis=0) + 0.3 * pattern
    return TAPRBM.from_parameters(W, -0.5 * W.sum(axis=1), b, random_state=0, **params)


# ----------------------------------------------------------------- starts and solutions


def test_unconverged_solutions_are_counted():
    """One sweep moves the means by more than 1e-4, so none of the 10 solutions converges."""
    rbm = small(TAPRBM, inference=TAP(max_iter=1, tol=1e-08, start="random")).fit(binary_data())
    assert rbm.history_["n_unconverged"] == [10, 10, 10]
    assert rbm.history_["n_sweeps"] == [1, 1, 1]
    rbm = small(TAPRBM, inference=TAP(max_iter=1, tol=1.0)).fit(binary_data())
    assert rbm.history_["n_unconverged"] == [0, 0, 0]


# -------------------------------------------------------------- the TAP log-likelihood


def test_tap_log_likelihood_is_equation_39():
    """Unique solutions count once each, however many starts lead to them."""
    rbm = two_modes()
    W, c, b = parameters(rbm)
    X = all_rows(6)
    starts = np.array([[1.0, 1, 1, 0, 0, 0]] * 5 + [[0.0, 0, 0, 1, 1, 1]])
    energies = [tap_free_energy(W, c, b, *tap_solution(W, c, b, v)) for v in starts[[0, -1]]]
    assert abs(energies[0] - energies[1]) > 0.01  # the two differ
    clamped = X @ b + np.logaddexp(0, X @ W.T + c).sum(axis=1)
    assert_allclose(rbm.tap_log_likelihood(X, starts), clamped + np.mean(energies), atol=1e-5)
    one = clamped + energies[0]
    assert_allclose(rbm.tap_log_likelihood(X, starts[:5]), one, atol=1e-5)
    assert_allclose(
        rbm.tap_log_likelihood(X[:3], starts.tolist())[2], clamped[2] + np.mean(energies), atol=1e-5
    )


def four_modes(n, strength):
    """A machine with two groups of n bits in each layer, nearly all on or nearly all off."""
    W = np.zeros((2 * n, 2 * n))
    W[:n, :n] = W[n:, n:] = strength / n
    bias = np.full(2 * n, -strength / 2)
    return TAPRBM.from_parameters(W, bias, bias, random_state=0)


def test_score_does_not_miss_modes_that_no_start_leads_to():
    """TAP solved from one of four modes misses log 4, which annealing finds.

    The sum over the numbers of bits that are on in either layer of a group is exact. In each start
    two bits of five are on, so that all lead to the mode where most are off.
    """
    n, strength = 20, 12.0
    rbm = four_modes(n, strength)
    k = np.arange(n + 1)
    log_binomial = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    group = (
        log_binomial[:, None]
        + log_binomial
        + strength * (np.outer(k, k) / n - 0.5 * np.add.outer(k, k))
    )
    exact = 2 * logsumexp(group)
    rbm.starts_ = np.array([np.roll([1.0, 1, 0, 0, 0] * 8, shift) for shift in range(5)])
    X = np.zeros((1, 2 * n))
    score = rbm.score(X)
    assert score == pytest.approx(-rbm.free_energy(X)[0] - exact, abs=0.3)
    flattering = rbm.tap_log_likelihood(X)[0] - score
    assert flattering > 1


@pytest.mark.parametrize("starts", [None, np.zeros((3, 10))], ids=["own starts", "given starts"])
@pytest.mark.parametrize("strength", [0.5, 2.0, 12.0])
def test_solutions_are_compared_with_an_exact_log_z(strength, starts):
    """TAP solved from one of two modes misses log 2. Errors up to 0.1 nats give no warning."""
    rbm = four_modes(5, strength)
    rbm.starts_ = np.zeros((3, 10))
    X = np.zeros((1, 10))
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        flattering = rbm.tap_log_likelihood(X, starts)[0] - rbm.score(X)
    assert (flattering > 0.5) == (strength == 12.0) and not 0.05 < flattering < 0.5
    messages = [str(found.message) for found in record if found.category is LikelihoodWarning]
    assert len(messages) == (flattering > 0.1)
    assert all(f"{flattering:.2g} nats too large" in message for message in messages)


# -------------------------------------------------------------------------- learning
