"""Inference of machines with many sites of categories, against sums over all configurations."""

import numpy as np
import pytest
from _distributions import assert_joint_distribution, exact_chains
from _exact import Exact
from numpy.testing import assert_allclose

from skrbm.arrays import make_rng
from skrbm.evaluation import AIS, SMC, log_partition, solutions
from skrbm.inference import Gibbs, NaiveMeanField, sample
from skrbm.machine import Machine
from skrbm.units import UNITS, Categorical, Theta

SIZES = (3, 2, 4, 1)
HIDDEN = ["bernoulli", "spin"]


def make(hidden="bernoulli", seed=0, strength=1.0, n_hidden=3):
    """A machine of four sites, of which 24 configurations are possible."""
    generator, n = np.random.default_rng(seed), sum(SIZES)
    units = Categorical(SIZES), UNITS[hidden]()
    thetas = Theta(generator.standard_normal(n)), Theta(0.5 * generator.standard_normal(n_hidden))
    return Machine(units, thetas, (strength * generator.standard_normal((n_hidden, n)),))


@pytest.mark.parametrize("hidden", HIDDEN)
def test_gibbs_sampling_leaves_the_distribution_as_it_is(hidden):
    machine = make(hidden)
    exact, rng = Exact(machine), make_rng(0, machine.weights[0])
    state = sample(Gibbs(), machine, exact_chains(exact, 20_000), rng, 2)
    assert_joint_distribution(exact, state.layers)


@pytest.mark.parametrize("method", [AIS(n_chains=200), SMC(), "tempering"], ids=["ais", "smc", "t"])
def test_log_partition_by_sampling(method):
    """Five standard errors and rounding: wrong with a probability of 1e-6."""
    machine = make(strength=1.5)
    found = log_partition(machine, method, random_state=0)
    assert abs(found.value - Exact(machine).log_z) < 5 * found.std + 1e-6
    assert found.std < 0.2


def test_naive_mean_field_is_a_lower_bound_and_stationary():
    """The bound is below log Z, and its means solve m = mean(b + W' mean(c + W m))."""
    machine = make(strength=0.5)
    found = solutions(machine, NaiveMeanField(tol=1e-14, max_iter=2000), random_state=0)
    exact, (unit, hidden) = Exact(machine), machine.units
    assert (-found.free_energies < exact.log_z).all()
    assert (-found.free_energies).max() > exact.log_z - 0.5
    (W,), (own, other) = machine.weights, machine.thetas
    for visible in found.means[0]:
        above = hidden.mean(Theta(other.field + W @ visible))
        assert_allclose(unit.mean(Theta(own.field + above @ W)), visible, atol=1e-5)
