"""log Z of machines in training, against enumeration and closed forms."""

import math

import numpy as np
import pytest
from _exact import Exact
from _fractional import all_rows
from _machines import random_machine
from scipy.special import logsumexp
from scipy.stats import binom

from skrbm.learning import LogPartitionTracker, _tracking
from skrbm.learning._tracking import lower_bound
from skrbm.machine import Machine, free_energy, interpolate
from skrbm.units import Bernoulli, Theta

BINARY = ("bernoulli", "bernoulli")


@pytest.fixture
def no_sums(monkeypatch):
    """Small machines, which the oracle can sum, are estimated by chains."""
    monkeypatch.setattr(_tracking, "_EXACT", -1)


def log_partition(machine):
    return Exact(machine).log_z


def tracker(seed=0):
    def base(machine):
        unit, own = machine.units[0], machine.thetas[0]
        return own if unit.is_gaussian else unit.default_theta(own.field.shape[0], own.field)

    return LogPartitionTracker(base, np.random.SeedSequence(seed))


def pair(kinds, seed, sizes=(5, 4), strength=0.6, apart=0.03):
    """A machine, and one that is a little different in all parameters."""
    one, other = (random_machine(kinds, sizes, s, strength) for s in (seed, seed + 1000))
    moved = interpolate(one, other, apart)
    return one, moved


@pytest.mark.law
@pytest.mark.parametrize(
    "kinds, strength",
    [
        (BINARY, 0.6),
        (("gaussian", "bernoulli"), 0.2),
        (("bernoulli", "gaussian"), 0.2),
        (("truncated_gaussian", "bernoulli"), 0.6),
    ],
)
def test_intervals_hold_the_sum_before_and_after_a_step(no_sums, kinds, strength):
    """Of 60 intervals of 95 % fewer than 50 hold the sum with a probability of 2e-4."""
    held, followed = 0, 0
    for seed in range(30):
        machines = pair(kinds, seed, strength=strength)
        watch = tracker(seed)
        for turn, machine in enumerate(machines):
            watch.cost = 0.0
            found = watch.estimate(machine, math.inf)
            followed += turn and watch._machine is not None
            low, high = found.interval
            held += low <= log_partition(machine) <= high
    assert binom.cdf(49, 60, 0.95) < 3e-4
    assert held >= 50
    assert followed >= 25


@pytest.mark.parametrize("kinds", [BINARY, ("gaussian", "bernoulli"), ("bernoulli", "gaussian")])
def test_distinct_values_give_a_lower_bound(kinds):
    """With all values of a layer it is log Z, with some a sum over these."""
    machine = random_machine(kinds, (5, 4), 0, 0.4)
    every = [all_rows(5), all_rows(4)]
    truth, generator = log_partition(machine), np.random.default_rng(0)
    assert lower_bound(machine, [[np.repeat(X, 2, axis=0) for X in every]]) == pytest.approx(truth)
    some = [X[generator.integers(len(X), size=12)] for X in every]
    free = -free_energy(machine, np.unique(some[0], axis=0))
    bound = lower_bound(machine, [some])
    assert bound < truth
    if kinds == BINARY:
        assert bound >= logsumexp(free)
    real = random_machine(("gaussian", "gaussian"), (5, 4), 0, 0.1)
    assert lower_bound(real, [every]) == -math.inf


def test_modes_that_data_have_and_chains_miss_are_counted(no_sums):
    """Chains begin and stay at ones, data are zeros, whose mode has nearly all of the weight."""
    W = np.full((6, 12), 4.0)
    thetas = (Theta(-W.sum(axis=0) / 2 - 0.5), Theta(-W.sum(axis=1) / 2))
    machine = Machine((Bernoulli(), Bernoulli()), thetas, (W,))
    truth, ones = log_partition(machine), Theta(np.full(12, 8.0))
    seed = np.random.SeedSequence(0)
    blind = LogPartitionTracker(lambda machine: ones, seed).estimate(machine, math.inf)
    assert blind.value < truth - 20 * blind.std - 2
    watch = LogPartitionTracker(lambda machine: ones, seed, lambda: np.zeros((9, 12)))
    found = watch.estimate(machine, math.inf)
    assert abs(found.value - truth) < 0.1
    assert found.std > 0.9 * (truth - blind.value)
    assert watch._machine is None  # which restarts the next time


def test_chains_follow_at_the_cost_of_a_few_steps(no_sums):
    """A machine that moves a little is followed; one that is far away is restarted."""
    machine, moved = pair(BINARY, 0)
    watch = tracker()
    first = watch.estimate(machine, math.inf)
    restart = watch.cost
    second = watch.estimate(moved, restart / 2)
    assert 0 < watch.cost < restart / 4
    for one, found in ((machine, first), (moved, second)):
        assert abs(found.value - log_partition(one)) < 5 * found.std < 1.5
    far = random_machine(BINARY, (5, 4), 5, 3.0)
    assert watch.estimate(far, restart / 2) is None
    assert watch.estimate(far, math.inf) is not None


def test_runs_are_those_of_the_last_estimate(no_sums):
    machine, other = pair(BINARY, 0)
    follower = tracker()
    found = follower.estimate(machine, math.inf)
    assert follower.runs(other) is None
    runs = follower.runs(machine)
    assert found.value == pytest.approx(logsumexp(runs) - math.log(runs.size))


def test_sums_of_few_configurations_are_exact():
    machine = random_machine(BINARY, (6, 4), 0, 1.0)
    found = tracker().estimate(machine, 0.4 * 2**4)
    assert found.value == pytest.approx(log_partition(machine), rel=1e-12)
    assert found.std == 0
    assert tracker().estimate(machine, 0.4 * 2**4 - 0.1) is None
