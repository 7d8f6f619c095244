"""Couplings of machines against enumeration, contacts, and sequences at a temperature."""

from itertools import product

import numpy as np
import pytest
from _exact import Exact
from numpy.testing import assert_allclose, assert_array_equal

from skrbm import RBM, BernoulliRBM
from skrbm.machine import Machine
from skrbm.sequences import (
    at_temperature,
    codes_of,
    contact_scores,
    design,
    effective_couplings,
    one_hot,
    ranked_pairs,
    zero_sum,
)
from skrbm.units import Bernoulli, Categorical, DoubleReLU, Gaussian, ReLU, Spin, Theta

HIDDEN = [Bernoulli(), Spin(), Gaussian(), ReLU(), DoubleReLU(), Categorical(3)]
SITES, LETTERS = 4, 3


def random_machine(hidden, n_hidden=3, seed=0, scale=0.7):
    rng = np.random.default_rng(seed)
    W = rng.normal(0, scale, (n_hidden, SITES * LETTERS))
    theta = hidden.default_theta(n_hidden, W)
    theta = theta.map(lambda part: part + 0.2 * rng.random(part.shape))
    visible = Theta(rng.normal(0, 0.5, SITES * LETTERS))
    return Machine((Categorical((LETTERS,) * SITES), hidden), (visible, theta), (W,))


def all_codes():
    return np.array(list(product(range(LETTERS), repeat=SITES)))


def pair_terms(table):
    """The pair terms in zero-sum gauge of a function of all sites, by analysis of variance."""
    found = np.zeros((SITES, LETTERS, SITES, LETTERS))
    for i, j in product(range(SITES), repeat=2):
        if i != j:
            part = table.mean(axis=tuple(set(range(SITES)) - {i, j}))
            part = part - part.mean(axis=0) - part.mean(axis=1)[:, None] + part.mean()
            found[i, :, j, :] = part if i < j else part.T
    return found


@pytest.mark.parametrize("hidden", HIDDEN, ids=lambda unit: type(unit).__name__)
def test_differences_over_all_sequences_are_the_pair_terms(hidden, monkeypatch):
    monkeypatch.setattr("skrbm.sequences._couplings._BLOCK_ELEMENTS", 300)  # blocks of rows
    machine = random_machine(hidden)
    log_p = Exact(machine).log_weights if False else None
    X = one_hot(all_codes(), LETTERS, np.float64).toarray()
    exact = Exact(machine)
    log_p = exact.visible_log_probabilities(X)
    table = np.reshape(log_p, (LETTERS,) * SITES)
    found = effective_couplings(machine, all_codes(), method="difference")
    assert_allclose(found, pair_terms(table), atol=1e-8)
