"""Log Z by sequential Monte Carlo, against enumeration.

Seeds are fixed. Where the mean of 16 runs is compared, 8 standard errors are allowed: by Student's
distribution with 15 degrees of freedom a probability of 1e-6.
"""

import numpy as np
import pytest
from _exact import Exact
from _machines import random_machine
from numpy.testing import assert_allclose, assert_array_equal

from skrbm import BernoulliRBM
from skrbm.arrays import make_rng
from skrbm.evaluation import SMC, LogPartition, log_partition
from skrbm.inference._annealing import resampled_index

SMC_RUNS = SMC._runs

MACHINES = {
    "binary": random_machine(("bernoulli", "bernoulli"), (7, 6), 0, 1.0),
    "strong": random_machine(("bernoulli", "bernoulli"), (8, 8), 1, 6.0),
    "gaussian": random_machine(("gaussian", "bernoulli"), (3, 4), 0, 0.8),
    "truncated": random_machine(("truncated_gaussian", "bernoulli"), (3, 4), 0, 1.0),
    "deep": random_machine(("bernoulli",) * 4, (4, 3, 3, 2), 0, 1.0),
}


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_log_partition_is_that_of_enumeration(machine):
    method = SMC(std=0.05)
    found = method.log_partition(machine, make_rng(0, machine.weights[0]))
    assert found.n >= 16 and 0 < found.std <= 0.05
    assert abs(found.value - Exact(machine).log_z) < 8 * found.std


@pytest.mark.law
def test_intervals_hold_the_sum():
    """Of 60 intervals of 95 % fewer than 50 hold the sum with a probability of 2e-4.

    The modes of these machines compete, and a few rounds are needed, of which the last one counts.
    """
    held = 0
    for seed in range(60):
        W = 1.5 * np.random.default_rng(seed).normal(size=(8, 10))
        rbm = BernoulliRBM.from_parameters(W, -W.sum(1) / 2, -W.sum(0) / 2, random_state=seed)
        found = log_partition(rbm, SMC(std=0.05), random_state=seed)
        assert found.std <= 0.05 and found.n == 16
        low, high = found.interval
        held += low <= log_partition(rbm, "exact").value <= high
    assert held >= 50


def test_no_more_sweeps_than_allowed(monkeypatch):
    """The first round is made in any case, and its error is reported as it is."""
    machine, lengths = MACHINES["binary"], []

    def runs(self, machine, base, steps, rng):
        found = SMC_RUNS(self, machine, base, steps, rng)
        lengths.append(len(getattr(steps, "betas", steps)) - 1)
        return found

    monkeypatch.setattr(SMC, "_runs", runs)
    found = SMC(std=1e-6, max_sweeps=1).log_partition(machine, make_rng(0, machine.weights[0]))
    assert found.std > 1e-6 and np.isfinite(found.value)
    assert len(lengths) == 3  # two trials and a round
    lengths.clear()
    more = SMC(std=1e-6, max_sweeps=300).log_partition(machine, make_rng(0, machine.weights[0]))
    assert more.std < found.std / 2  # three times as many temperatures at least, of about 8
    assert 150 < sum(lengths[2:]) <= 300


def test_no_smaller_error_than_the_round_before_lets_expect(monkeypatch):
    """Runs of the trial are spread, and those of the first round equal by chance."""
    spread, lengths = np.linspace(0, 0.5, 16), []

    def runs(self, machine, base, steps, rng):
        SMC_RUNS(self, machine, base, steps, rng)
        lengths.append(steps.n_steps)
        # There are two trials, of which the second has a larger log Z.
        return 2.0 + 0.1 * len(lengths) + spread if len(lengths) <= 2 else np.full(16, 3.0)

    monkeypatch.setattr(SMC, "_runs", runs)
    machine = MACHINES["binary"]
    found = SMC(std=1.0).log_partition(machine, make_rng(0, machine.weights[0]))
    assert len(lengths) == 3 and found.value == 3.0
    assert_allclose(found.std, spread.std(ddof=1) / 4 * np.sqrt(lengths[1] / lengths[2]))


def test_interval_is_that_of_student():
    assert LogPartition(3.0).interval == (3.0, 3.0)
    low, high = LogPartition(3.0, 0.1, 10.0, 16).interval
    assert_allclose([low, high], [3 - 0.2131450, 3 + 0.2131450], rtol=1e-6)  # of a printed table
    assert np.isnan(LogPartition(3.0, float("nan")).interval).all()


def test_rows_are_drawn_within_their_groups():
    """Each row is drawn as often as its share says, rounded up or down."""
    rng, n_groups, n = np.random.default_rng(0), 5, 200
    log_weights = rng.normal(size=n_groups * n)
    index, new = resampled_index(log_weights, make_rng(0, log_weights), 1.0, n_groups)
    weights = np.exp(log_weights).reshape(n_groups, n)
    counts = np.bincount(index, minlength=n_groups * n).reshape(n_groups, n)
    shares = n * weights / weights.sum(axis=1, keepdims=True)
    assert_array_equal(index // n, np.repeat(np.arange(n_groups), n))
    assert (np.abs(counts - shares) < 1).all()
    assert_allclose(np.exp(new).reshape(n_groups, n), np.repeat(weights.mean(1)[:, None], n, 1))


def test_groups_that_are_effective_stay():
    log_weights = np.array([0.0, 0.1, 0.2, 0.0, -9.0, -9.0])  # 99 % and 33 % effective
    index, new = resampled_index(log_weights, make_rng(0, log_weights), 0.5, 2)
    assert_array_equal(index, [0, 1, 2, 3, 3, 3])
    assert_array_equal(new[:3], log_weights[:3])
    assert_allclose(new[3:], np.log((1 + 2 * np.exp(-9)) / 3))
    index, new = resampled_index(log_weights, make_rng(0, log_weights), 0.2, 2)
    assert index is None
    assert_array_equal(new, log_weights)


@pytest.mark.parametrize("bad", [{"n_runs": 1}, {"n_chains": 0}, {"std": 0}, {"max_sweeps": 0}])
def test_bad_parameters(bad):
    (name,) = bad
    with pytest.raises(ValueError, match=name):
        SMC(**bad)
