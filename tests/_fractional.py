"""Fractional machines whose visible law is summed, independently of skrbm."""

import numpy as np
from scipy.special import logsumexp

from skrbm.machine import Machine
from skrbm.units import Bernoulli, Fractional, Theta


def all_rows(n):
    return ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(np.float64)


def row_numbers(V):
    """The number of each row in ``all_rows``."""
    return (np.asarray(V) @ 2 ** np.arange(V.shape[1])).astype(int)


def unnormalised(V, W, c, b, multiplicities):
    """log p(v) + log Z = b'v + sum_j c_j softplus(w_j'v + bias_j), Eq. (11) of Ping et al."""
    return V @ b + np.logaddexp(0, V @ W.T + c) @ multiplicities


def observed_log_weights(mixture, H):
    """log p(observed) + log Z of each row of a growing machine, NaN where nothing is observed."""
    V, (atoms, counts, bias) = all_rows(H.shape[1]), (mixture.atoms, mixture.counts, mixture.bias)
    log_weights = unnormalised(V, atoms[:, :-1], atoms[:, -1], bias, counts)
    agree = np.array([(np.isnan(row) | (row == V)).all(axis=1) for row in H])
    return np.array([logsumexp(log_weights[rows]) for rows in agree])


def mixture_log_z(mixture):
    return observed_log_weights(mixture, np.full((1, mixture.bias.size), np.nan))[0]


def penalised_likelihood(mixture, H, weights=None, alpha=0.0):
    """The mean log-likelihood of what is observed, less the penalty."""
    mean = np.average(observed_log_weights(mixture, H), weights=weights) - mixture_log_z(mixture)
    return mean - 0.5 * alpha * mixture.counts @ np.square(mixture.atoms).sum(axis=1)


def patterned(n=60, d=5, seed=0):
    """Rows of three noisy patterns, far from independent."""
    generator = np.random.default_rng(seed)
    patterns = np.array([np.ones(d), np.zeros(d), np.arange(d) % 2])
    X = patterns[generator.integers(3, size=n)]
    return np.abs(X - (generator.random(X.shape) < 0.05)), generator


def fractional_machine(multiplicities, n_visible, seed=0, strength=1.5, dtype=np.float64):
    """A machine with random parameters, and the logarithms of the probabilities of all rows."""
    generator = np.random.default_rng(seed)
    c = np.asarray(multiplicities, dtype=np.float64)
    W = strength * generator.standard_normal((c.size, n_visible))
    hidden, visible = (0.5 * generator.standard_normal(n) for n in W.shape)
    W, hidden, visible = (part.astype(dtype).astype(np.float64) for part in (W, hidden, visible))
    log_p = unnormalised(all_rows(n_visible), W, hidden, visible, c)
    units = (Bernoulli(), Fractional(c))
    thetas = (Theta(visible.astype(dtype)), Theta(hidden.astype(dtype)))
    machine = Machine(units, thetas, (W.astype(dtype),))
    return machine, log_p - logsumexp(log_p), float(logsumexp(log_p))
