"""log Z of machines in training, against enumeration and closed forms."""

import math

import numpy as np
import pytest
from _exact import Exact
from _fractional import all_rows
from _machines import random_machine
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import logsumexp
from scipy.stats import binom

from skrbm.evaluation import exact_log_partition
from skrbm.learning import LogPartitionTracker, SmallSteps, _tracking
from skrbm.learning._tracking import _of_runs, lower_bound
from skrbm.machine import Machine, free_energy, interpolate
from skrbm.machine._enumeration import means
from skrbm.units import Bernoulli, Theta

BINARY = ("bernoulli", "bernoulli")


@pytest.fixture
def no_sums(monkeypatch):
    """Small machines, which the oracle can sum, are estimated by chains."""
    monkeypatch.setattr(_tracking, "_EXACT", -1)
    monkeypatch.setattr(_tracking, "_BY_HALVES", -1)


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


@pytest.mark.parametrize("kinds", [BINARY, ("gaussian", "bernoulli")])
def test_chains_of_an_estimate_are_a_sample_of_the_machine(no_sums, kinds):
    """Of 50 means, those of 128 chains are off by 6 standard errors with a probability of 1e-7."""
    for seed in range(10):
        machine, watch = random_machine(kinds, (5, 4), seed, 0.3), tracker(seed)
        assert watch.sample() is None  # nothing is estimated yet
        watch.estimate(machine, math.inf)
        rows, weights = watch.sample()
        exact = Exact(machine)
        errors = np.sqrt(exact.variance(0) * (weights @ weights))
        assert weights.sum() == pytest.approx(1) and rows.shape == (128, 5)
        assert (np.abs(weights @ rows - exact.mean(0)) < 6 * errors).all()
        watch.estimate(machine, 0.0)  # too little
        assert watch.sample() is None


def test_samples_of_sums_have_the_means_of_the_machine():
    """Within 5 standard errors of 1000 draws; one seed."""
    watch, machine = tracker(), random_machine(BINARY, (5, 4), 0)
    watch.estimate(machine, math.inf)
    rows, weights = watch.sample()
    assert_allclose(weights @ rows, means(machine, [0])[0], atol=5 * 0.5 / len(rows) ** 0.5)


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
    assert watch._machine is None  # which starts anew the next time


def test_what_was_missed_stays_in_the_error_of_chains_that_follow(no_sums, monkeypatch):
    machine, moved = pair(BINARY, 0)
    plain = tracker().estimate(machine, math.inf)
    bound = plain.value + 0.1
    monkeypatch.setattr(_tracking, "lower_bound", lambda *_: bound)
    watch = tracker()
    watch.data = lambda: np.zeros((9, 5))
    first = watch.estimate(machine, math.inf)
    assert first.value == pytest.approx(bound)
    assert first.std == pytest.approx(math.hypot(plain.std, 0.1))
    bound = -math.inf
    second = watch.estimate(moved, math.inf)
    assert watch._machine is not None and second.std >= 0.1
    assert abs(second.value - log_partition(moved) - 0.1) < 0.1


def test_chains_follow_at_the_cost_of_a_few_steps(no_sums):
    """A machine that moves a little is followed; one that is far away is started anew."""
    machine, moved = pair(BINARY, 0)
    watch = tracker()
    first = watch.estimate(machine, math.inf)
    anew = watch.cost
    second = watch.estimate(moved, anew / 2)
    assert 0 < watch.cost < anew / 4
    for one, found in ((machine, first), (moved, second)):
        assert abs(found.value - log_partition(one)) < 5 * found.std < 1.5
    far = random_machine(BINARY, (5, 4), 5, 2.0)
    assert watch.estimate(far, anew / 2) is None
    assert watch.estimate(far, math.inf) is not None


def test_machines_that_are_the_same_have_the_same_log_z(no_sums):
    machine, _ = pair(BINARY, 0)
    watch = tracker()
    first = watch.estimate(machine, math.inf)
    second = watch.estimate(machine, math.inf)
    assert second.value == pytest.approx(first.value, abs=1e-10)


def test_sums_of_few_configurations_are_exact():
    machine = random_machine(BINARY, (6, 4), 0, 1.0)
    found = tracker().estimate(machine, 0.4 * 2**4)
    assert found.value == pytest.approx(log_partition(machine), rel=1e-12)
    assert found.std == 0
    assert tracker().estimate(machine, 0.4 * 2**4 - 0.1) is None


def test_more_configurations_are_summed_by_halves_where_the_cost_is_allowed():
    machine = random_machine(BINARY, (30, 14), 0, 0.3)
    watch, allowed = tracker(), 1500 + 0.03 * 2**14
    found = watch.estimate(machine, allowed)
    assert found.value == pytest.approx(exact_log_partition(machine), rel=1e-12)
    assert (found.std, watch.cost) == (0, allowed)
    assert tracker().estimate(machine, 1500.0) is None  # chains would cost more
    relu = random_machine(("relu", "bernoulli"), (30, 14), 0, 0.1)
    assert tracker().estimate(relu, math.inf).std > 0


def test_machines_of_many_units_are_not_summed():
    """2**1100 is no number of float64."""
    assert tracker().estimate(random_machine(BINARY, (1100, 1200), 0, 0.01), 1000.0) is None


def test_without_a_budget_nothing_is_computed(no_sums):
    machine, _ = pair(BINARY, 0)
    watch = tracker()
    assert watch.estimate(machine, 100.0) is None and watch.cost == 0


def test_parameters_that_are_no_numbers_give_no_estimate(no_sums):
    machine = random_machine(BINARY, (5, 4), 0, np.nan)
    assert tracker().estimate(machine, math.inf) is None


def test_steps_are_as_long_as_the_spread_allows():
    """Log weights that grow as beta times numbers of standard deviation 1: equal steps of 0.1."""
    numbers = np.random.default_rng(0).normal(size=100)
    numbers /= numbers.std()
    steps = SmallSteps()
    places = [0.0]
    for beta in steps(lambda beta: (beta - places[-1]) * numbers):
        places.append(beta)
    assert_allclose(np.diff(places), 0.1, rtol=1e-9)
    assert steps.n_steps == 10


@pytest.mark.parametrize("most, n_steps", [(20, 10), (2, 2), (1.9, 0)])
def test_fewer_steps_are_longer(most, n_steps):
    """Up to a spread of 0.5 nats; where the way needs still more of them, none is made."""
    numbers = np.random.default_rng(0).normal(size=100)
    numbers /= numbers.std()
    steps, places = SmallSteps(most), [0.0]
    for beta in steps(lambda beta: (beta - places[-1]) * numbers):
        places.append(beta)
    assert steps.n_steps == n_steps and steps.beta == pytest.approx(min(n_steps, 1))
    assert steps.n_looks >= 1


def test_what_an_estimate_would_cost_is_known_after_a_look(no_sums):
    """It is not begun again before there is as much."""
    machine = random_machine(BINARY, (30, 20), 0, 1.5)
    free = tracker()
    assert free.estimate(machine, math.inf) is not None and free.cost > 4000
    watch = tracker()
    assert watch.estimate(machine, 2000.0) is None and watch.cost < 300
    assert watch.estimate(machine, 2000.0) is None and watch.cost == 0
    assert watch.estimate(machine, 3 * free.cost) is not None


def test_without_couplings_log_z_is_exact(no_sums):
    machine = random_machine(BINARY, (5, 4), 0, 0.0)
    found = tracker().estimate(machine, math.inf)
    assert found.value == pytest.approx(log_partition(machine), abs=0.05)
    assert found.std < 0.02


def test_the_error_is_that_of_weights_whose_logarithms_are_normal_and_what_they_may_lack():
    """The relative variance of a mean weight, by the weights at equal steps of probability.

    And, besides, the logarithm of their mean minus the mean of their logarithms.
    """
    log_weights = stats.norm(scale=0.7).ppf((np.arange(100_000) + 0.5) / 100_000)
    weights = np.exp(log_weights)
    chance = weights.std() / weights.mean() / np.sqrt(weights.size)
    lacking = np.log(weights.mean()) - log_weights.mean()
    found = _of_runs(log_weights, 0.0).std
    assert found == pytest.approx(np.hypot(chance, lacking), rel=2e-3)


def test_intervals_hold_where_rare_weights_are_large():
    """Of 16 weights with normal logarithms, of which one in 50 is 20 times as large: 96 % hold.

    By the first part of the standard error alone 82 % do. Of 400, 90 % or less hold with a
    probability below 1e-5 then, and more than 90 % with one of 1e-5 without the other part.
    """
    rng, rare, factor = np.random.default_rng(0), 1 / 50, 20
    runs = rng.normal(size=(400, 16)) + math.log(factor) * (rng.random((400, 16)) < rare)
    log_z = 0.5 + math.log1p(rare * (factor - 1))
    low, high = np.array([_of_runs(each, 0.0).interval for each in runs]).T
    assert np.mean((low <= log_z) & (log_z <= high)) > 0.9
