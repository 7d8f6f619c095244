"""Annealed importance sampling, forwards and backwards, against enumeration.

Seeds are fixed. An estimate within 5 standard errors of the truth: the probability that it is
not is 6e-7 where the error is normal, as it is for the many chains used here.
"""

from dataclasses import replace

import numpy as np
import pytest
from _exact import Exact
from _fractional import all_rows
from _machines import enumerable_pairs, random_machine, random_theta, with_strength
from numpy.testing import assert_allclose
from scipy.special import expit, logsumexp

from skrbm.arrays import make_rng
from skrbm.inference import AIS, LogPartition
from skrbm.machine import Machine, uncoupled
from skrbm.units import Bernoulli, Theta

PAIRS = enumerable_pairs()
DEEP = [
    ("bernoulli",) * 3,
    ("bernoulli",) * 4,
    ("truncated_gaussian", "bernoulli", "truncated_gauss_bernoulli"),
]
pairs = pytest.mark.parametrize("kinds", [*PAIRS, *DEEP], ids="-".join)
BASES = ["the machine's own", "another"]


def make(kinds, seed=0, **kwargs):
    strength = 1.0 if set(kinds) == {"bernoulli"} else 0.6
    sizes = (4, 3) if len(kinds) == 2 else (3, 2, 3, 2)[: len(kinds)]
    return random_machine(kinds, sizes, seed, strength, **kwargs)


def visible_theta(machine, base):
    """Visible parameters of the base: None for the machine's own."""
    if base == BASES[0]:
        return None
    n = machine.n_units[0]
    other = random_theta(machine.units[0], n, np.random.default_rng(5), machine.dtype)
    return machine.thetas[0].map(lambda a, b: (a + b) / 2, other)


def forward(machine, base, seed=0, **kwargs):
    ais = AIS(**{"n_chains": 500, "schedule": 150, **kwargs})
    rng = make_rng(seed, machine.weights[0])
    return ais.log_partition(machine, rng, visible_theta(machine, base))


def reverse(machine, base, seed=0, n=500):
    samples = Exact(machine).sample(np.random.default_rng(seed), n)
    samples = [layer.astype(machine.dtype) for layer in samples]
    rng = make_rng(seed, machine.weights[0])
    ais = AIS(schedule=150)
    return ais.reverse_log_partition(machine, rng, samples, visible_theta(machine, base))


def assert_close(estimate, truth):
    assert 0 < estimate.std < 0.1
    assert abs(estimate.value - truth) < 5 * estimate.std


@pairs
@pytest.mark.parametrize("run", [forward, reverse])
def test_few_temperatures_are_unbiased_in_z_too(kinds, run, monkeypatch):
    """Two steps only: the weights themselves must be right, not just small."""
    machine = with_strength(make(kinds, 1), 0.5)
    monkeypatch.setattr("skrbm.inference._log_partition._BLOCK", 5000)
    if run is forward:
        estimate = forward(machine, BASES[1], n_chains=10_000, schedule=[0, 0.6, 1])
    else:
        samples = Exact(machine).sample(np.random.default_rng(3), 10_000)
        rng, theta = make_rng(3, samples[0]), visible_theta(machine, BASES[1])
        estimate = AIS(schedule=[0, 0.6, 1]).reverse_log_partition(machine, rng, samples, theta)
    assert_close(estimate, Exact(machine).log_z)
    assert estimate.ess < 9_990  # weights differ


def test_a_mode_that_is_far_from_the_own_units_counts():
    """Bits are mostly 0, as without couplings, or mostly 1, which has 39 % of the mass.

    Without the second mode log Z would be off by 0.49 nats; six standard errors are less.
    """
    W = 1.0 + 0.05 * np.random.default_rng(0).normal(size=(12, 24))
    thetas = Theta(np.full(24, -6.0)), Theta(np.full(12, -12.0))
    machine = Machine((Bernoulli(), Bernoulli()), thetas, (W,))
    H = all_rows(12)
    exact = logsumexp(H @ thetas[1].field + np.logaddexp(0, thetas[0].field + H @ W).sum(axis=1))
    found = AIS().log_partition(machine, make_rng(0, W))
    assert abs(found.value - exact) < 6 * found.std < 0.4


def test_the_change_by_slower_annealing_widens_the_interval():
    """All bits are 1, which chains find too late, and in the 2 steps of the trial even later.

    The weights of n chains alone have the standard error sqrt((1 / ess - 1 / n) n / (n - 1)). The
    logarithm of the ratio to it had, over 400 seeds, a mean of 4.5 and a standard deviation of
    0.21, of which log 10 is 10 below. The error of log Z was -0.17 of ``std``, with a standard
    deviation of 0.06, and more than 3 of the smaller standard errors for 99 % of the seeds.
    """
    n, W = 50, np.full((1, 100), 8.0)
    thetas = Theta(np.zeros(100)), Theta(np.array([-250.0]))
    machine = Machine((Bernoulli(), Bernoulli()), thetas, (W,))
    found = AIS(n, 8).log_partition(machine, make_rng(0, W))
    assert found.std > 10 * np.sqrt((1 / found.ess - 1 / n) * n / (n - 1))
    exact = np.logaddexp(100 * np.log(2), -250 + 100 * np.logaddexp(0, 8))
    assert abs(found.value - exact) < found.std


def estimates(monkeypatch, ess, trials, runs):
    """log Z by AIS of a machine with two bases, whose estimates are given, and those taken."""
    taken = []

    def estimate(self, machine, base, betas, rng, samples=None):
        number = float(base.thetas[0].field[0]) != float(machine.thetas[0].field[0])
        taken.append((len(betas) - 1, int(number)))
        value, std = (runs if len(betas) == 101 else trials)[number]
        return LogPartition(value, std, ess, 100)

    monkeypatch.setattr(AIS, "_estimate", estimate)
    machine = make(PAIRS[0])
    return AIS(schedule=100).log_partition(machine, make_rng(0, machine.weights[0])), taken


@pytest.mark.parametrize("order", [1, -1])
def test_bases_compete_where_few_chains_are_effective(monkeypatch, order):
    """The run that is surely larger counts, and its error grows by what sets it apart."""
    trials, runs = [(10.0, 0.3), (9.0, 0.3)][::order], [(10.2, 0.3), (12.0, 0.4)][::order]
    found, taken = estimates(monkeypatch, 20.0, trials, runs)
    assert sorted(taken) == [(25, 0), (25, 1), (100, 0), (100, 1)]
    assert found.value == 12.0
    assert_allclose(found.std**2, 0.4**2 + 3.0**2 - 0.4**2 - 0.3**2)  # since the trial
    found, _ = estimates(monkeypatch, 20.0, [(11.9, 0.3), (12.1, 0.3)], runs)
    assert_allclose(found.std**2, 0.4**2 + 1.8**2 - 0.4**2 - 0.3**2)  # from the other run


@pytest.mark.parametrize("ess, worse", [(60.0, 9.0), (20.0, 7.0)])
def test_bases_do_not_compete_where_one_is_enough(monkeypatch, ess, worse):
    """Most of its chains are effective, or the other trial is 7 standard errors below."""
    trials, runs = [(10.0, 0.3), (worse, 0.3)], [(10.2, 0.3), (12.0, 0.4)]
    found, taken = estimates(monkeypatch, ess, trials, runs)
    assert taken == [(25, 0), (25, 1), (100, 0)]
    assert found == LogPartition(10.2, 0.3, ess, 100)


def test_without_couplings_every_chain_gives_the_exact_value():
    machine = make(PAIRS[0], scale=0.0)
    machine = replace(machine, thetas=(machine.thetas[0], uncoupled(machine).thetas[1]))
    estimate = forward(machine, BASES[0], n_chains=10)
    assert_allclose(estimate.value, Exact(machine).log_z, rtol=1e-12)
    assert estimate.std < 1e-12
    assert_allclose(estimate.ess, 10)


def test_the_schedule_of_the_paper():
    betas = AIS(schedule="salakhutdinov2008")._betas()
    assert (np.diff(betas) > 0).all()
    for low, high, n in ((0, 0.5, 500), (0.5, 0.9, 4000), (0.9, 1.0001, 10_001)):
        assert ((betas >= low - 1e-12) & (betas < high - 1e-12)).sum() == n


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("schedule", bad) for bad in ("fast", 0, 2.5, None, [0, 0.9], [0, 0.7, 0.5, 1], [1.0])),
        *(("n_chains", bad) for bad in (0, 2.5, None)),
    ],
)
def test_bad_parameters_of_ais(name, value):
    with pytest.raises(ValueError, match=name):
        AIS(**{name: value})


@pytest.mark.slow
@pytest.mark.parametrize("strength", [0.5, 2.0])
@pytest.mark.parametrize("run", ["forward", "reverse"])
def test_coverage_of_95_percent_intervals(strength, run):
    """On 100 machines, with 100 chains: at least 86 of the intervals hold the exact log Z.

    If each holds it with a probability of 0.95, fewer do in one of 7 000 runs. The biases cancel
    the mean of the fields. With deviations of 4 and 8 chains miss modes, and intervals hold less
    often.
    """
    n_covered, hidden = 0, all_rows(8)
    for seed in range(100):
        generator = np.random.default_rng(seed)
        W = strength * generator.standard_normal((8, 10))
        b, c = -0.5 * W.sum(axis=0), -0.5 * W.sum(axis=1)
        machine = Machine((Bernoulli(), Bernoulli()), (Theta(b), Theta(c)), (W,))
        log_weights = hidden @ c + np.logaddexp(0, b + hidden @ W).sum(axis=1)
        exact = logsumexp(log_weights)
        rng, ais = make_rng(seed, W), AIS()
        if run == "forward":
            found = ais.log_partition(machine, rng)
        else:
            H = hidden[generator.choice(len(hidden), 100, p=np.exp(log_weights - exact))]
            X = (generator.random((100, 10)) < expit(b + H @ W)).astype(float)
            found = ais.reverse_log_partition(machine, rng, (X, H))
        n_covered += abs(found.value - exact) < 1.96 * found.std
    assert n_covered >= 86
