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
