"""log Z from below and from above, against enumeration.

Seeds are fixed. Estimates are held to 5 standard errors: 6e-7 for a normal error, and 2e-4 for the
16 runs of SMC, by Student's distribution.
"""

import numpy as np
import pytest
from _exact import Exact
from _machines import random_machine
from scipy.special import expit

from skrbm import BernoulliRBM, CategoricalRBM
from skrbm.arrays import make_rng
from skrbm.evaluation import AIS, SMC, bracket, log_partition, reverse_log_partition
from skrbm.machine import Machine
from skrbm.units import Bernoulli, Theta


def drawn(machine, n=128, seed=0):
    return Exact(machine).sample(np.random.default_rng(seed), n)


@pytest.mark.parametrize(
    "kinds", [("bernoulli",) * 2, ("gaussian", "bernoulli"), ("bernoulli",) * 3]
)
@pytest.mark.parametrize("strength", [0.5, 1.0])
def test_reverse_smc_from_exact_draws(kinds, strength):
    machine = random_machine(kinds, (6, 4, 3)[: len(kinds)], 0, strength)
    rng = make_rng(0, machine.weights[0])
    estimate = SMC().reverse_log_partition(machine, rng, drawn(machine))
    assert 0 < estimate.std < 0.1 and estimate.n == 16
    assert abs(estimate.value - Exact(machine).log_z) < 5 * estimate.std


def test_reverse_smc_of_independent_units_is_exact():
    machine = random_machine(("bernoulli",) * 2, (4, 3), 0, 0.0, spread=0.0)
    rng, samples = make_rng(0, machine.weights[0]), [np.ones((3, 4)), np.ones((3, 3))]
    estimate = SMC().reverse_log_partition(machine, rng, samples)
    assert estimate.value == pytest.approx(7 * np.log(2), rel=1e-12) and estimate.std < 1e-12


@pytest.mark.law
def test_estimates_of_a_machine_agree_and_hold_log_z():
    """Three standard errors: a probability of 0.3 % if errors are normal."""
    machine = random_machine(("bernoulli",) * 2, (10, 8), 0, 1.0)
    found, log_z = bracket(machine, burn_in=50, random_state=0), Exact(machine).log_z
    assert found.agrees
    for estimate in (found.forward, found.reverse):
        assert abs(estimate.value - log_z) < 5 * estimate.std
    assert found == bracket(machine, burn_in=50, random_state=0)


def hidden_mode(n=40):
    """A machine with a deep mode that chains from independent units do not find: all bits are 1."""
    W = np.full((1, n), 8.0)
    return Machine((Bernoulli(),) * 2, (Theta(np.full(n, -4.0)), Theta(np.array([-140.0]))), (W,))


def test_a_mode_that_forward_chains_miss():
    """With h = 1 all bits are mostly 1, with h = 0 mostly 0; the mass of the first is exp(20)."""
    machine = hidden_mode()
    log_weights = 40 * np.log1p(np.exp(-4.0)), 40 * np.log1p(np.exp(4.0)) - 140
    log_z = np.logaddexp(*log_weights)
    assert expit(log_weights[1] - log_weights[0]) > 0.99
    base = Theta(np.full(40, -4.0))
    forward = AIS(n_chains=5, schedule=3)
    found = bracket(
        machine, np.ones((20, 40)), method=forward, base=base, burn_in=5, random_state=0
    )
    assert not found.agrees and found.forward.value < log_z - 1
    assert found.gap == found.reverse.value - found.forward.value > 3 * found.std


def test_starts_that_miss_a_mode():
    """The reverse estimate lacks what chains from independent units find."""
    machine = hidden_mode()
    found = bracket(machine, np.zeros((20, 40)), burn_in=5, random_state=0)
    assert not found.agrees and found.gap < -10
    log_z = np.logaddexp(40 * np.log1p(np.exp(-4.0)), 40 * np.log1p(np.exp(4.0)) - 140)
    assert abs(found.forward.value - log_z) < 5 * found.forward.std


def equal_modes():
    """Nearly all bits are off or on, each with about half of the probability."""
    W = 1 + 0.05 * np.random.default_rng(0).standard_normal((12, 24))
    return BernoulliRBM.from_parameters(W, np.full(12, -12.0), np.full(24, -6.0), random_state=0)


def clusters():
    """Six classes of unequal shares, with 2 % noise, between which Gibbs chains do not move."""
    rng = np.random.default_rng(23)
    X = rng.integers(4, size=(6, 12))[rng.choice(6, 2000, p=[0.3, 0.25, 0.2, 0.12, 0.08, 0.05])]
    X = np.where(rng.random(X.shape) < 0.02, rng.integers(4, size=X.shape), X)
    return CategoricalRBM(16, n_iter=20, random_state=23).fit(X)


@pytest.mark.law
@pytest.mark.parametrize("of", [equal_modes, clusters])
def test_reverse_chains_start_in_all_modes(of):
    """Where Gibbs chains do not mix: from ``starts_`` alone Z lacks a mode.

    Of 80 seeds the largest errors were 3.9 standard errors, and 0.29 nats.
    """
    model = of()
    log_z = log_partition(model, "exact").value
    for method in ("ais", "smc"):
        found = reverse_log_partition(model, method=method, random_state=0)
        assert abs(found.value - log_z) < min(5 * found.std, 0.5)
    assert bracket(model, random_state=0).reverse.value == pytest.approx(log_z, abs=0.5)
