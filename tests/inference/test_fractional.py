"""Fractional machines: units that count in part, and their sampler, against sums over all rows.

Seeds are fixed; a test of a distribution has a level of 1e-6.
"""

import numpy as np
import pytest
from _fractional import all_rows, fractional_machine, row_numbers
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from skrbm.arrays import make_rng
from skrbm.evaluation import log_partition, reverse_log_partition
from skrbm.inference import AIS, Gibbs, clamped_mean, sample
from skrbm.machine import free_energy
from skrbm.units import Fractional, Theta

LEVEL = 1e-6
COUNTS = {"parts": [0.3, 0.8, 0.1], "mixed": [1.0, 2.6, 2.0]}
every = pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)


def drawn_rows(log_p, n, n_visible, seed=0):
    index = np.random.default_rng(seed).choice(log_p.size, n, p=np.exp(log_p))
    return all_rows(n_visible)[index]


def assert_distribution(V, log_p):
    """Chi-square over all rows, those expected fewer than five times in one class."""
    counts = np.bincount(row_numbers(V), minlength=log_p.size)
    expected = len(V) * np.exp(log_p)
    rare = expected < 5
    counts = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    keep = expected > 0
    assert stats.chisquare(counts[keep], expected[keep]).pvalue > LEVEL


@every
@pytest.mark.parametrize("dtype, rtol", [(np.float64, 1e-12), (np.float32, 1e-5)])
def test_free_energy_and_exact_sums(counts, dtype, rtol):
    machine, log_p, log_z = fractional_machine(counts, 5, dtype=dtype)
    V = all_rows(5)
    assert_allclose(-free_energy(machine, V.astype(dtype)), log_p + log_z, rtol=rtol, atol=rtol)
    assert log_partition(machine, "exact").value == pytest.approx(log_z, rel=1e-10)


def test_mean_is_the_derivative_of_the_log_partition_function():
    unit = Fractional(np.array([0.3, 1.0, 2.7]))
    x, step = np.array([[-3.0, 0.2, 1.5]]), 1e-5
    slope = (unit.log_partition(Theta(x + step)) - unit.log_partition(Theta(x - step))) / (2 * step)
    mean, variance = unit.mean_variance(Theta(x))
    assert_allclose(mean, slope, rtol=1e-8)
    bend = (unit.mean(Theta(x + step)) - unit.mean(Theta(x - step))) / (2 * step)
    assert_allclose(variance, bend, rtol=1e-8)


@every
def test_draws_have_the_law_of_the_proposal(counts):
    """floor(c) bits in the field x, and one of worth f in the field f x; also log_correction."""
    unit, x = Fractional(np.array(counts)), np.array([0.7, -0.4, 0.2])
    rows = unit.sample(Theta(np.tile(x, (40_000, 1))), make_rng(0, x))
    for j, c in enumerate(counts):
        whole, part = int(c), c - int(c)
        outcomes = {}
        for k in range(whole + 1):
            for bit in (0, 1) if part > 0 else (0,):
                p = stats.binom.pmf(k, whole, 1 / (1 + np.exp(-x[j])))
                p *= stats.bernoulli.pmf(bit, 1 / (1 + np.exp(-part * x[j]))) if part > 0 else 1
                outcomes[k + part * bit] = p
        values = np.array(list(outcomes))
        match = np.isclose(rows[:, j, None], values)
        assert (match.sum(axis=1) == 1).all()
        expected = len(rows) * np.array(list(outcomes.values()))
        assert stats.chisquare(match.sum(axis=0), expected).pvalue > LEVEL
        log_z = whole * np.log1p(np.exp(x[j])) + (np.log1p(np.exp(part * x[j])) if part else 0)
        correction = unit.log_correction(Theta(x[None]))[0, j]
        assert correction == pytest.approx(c * np.log1p(np.exp(x[j])) - log_z, abs=1e-12)


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_steps", [1, 3])
def test_sampler_leaves_the_distribution_invariant(counts, dtype, n_steps):
    machine, log_p, _ = fractional_machine(counts, 4, dtype=dtype)
    V = drawn_rows(log_p, 50_000, 4).astype(dtype)
    rng = make_rng(1, machine.weights[0])
    state = sample(Gibbs(), machine, Gibbs().state_at(machine, V, rng), rng, n_steps)
    assert_distribution(state.layers[0], log_p)
    assert state.layers[0].dtype == state.layers[1].dtype == dtype
    if n_steps == 1:
        assert (state.layers[0] != V).any()


@pytest.mark.law
@every
def test_annealing(counts):
    """AIS and reverse AIS within 6 standard errors: a probability of 2e-9 each, were it normal."""
    machine, log_p, log_z = fractional_machine(counts, 6, strength=1.0)
    rng = make_rng(4, machine.weights[0])
    forward = AIS(500, 300).log_partition(machine, rng)
    assert abs(forward.value - log_z) < 6 * forward.std < 0.3
    backward = reverse_log_partition(
        machine, drawn_rows(log_p, 500, 6), method=AIS(schedule=300), burn_in=5, random_state=0
    )
    assert abs(backward.value - log_z) < 6 * backward.std < 0.3


@every
def test_clamped_mean_is_the_conditional_expectation(counts):
    """Within 5 standard errors from independent rows."""
    machine, log_p, _ = fractional_machine(counts, 4, strength=1.0)
    V, observed = all_rows(4), np.array([True, False, False, True])
    row = np.array([1.0, 0.0, 0.0, 0.0])
    agree = (V[:, observed] == row[observed]).all(axis=1)
    p = np.exp(log_p[agree]) / np.exp(log_p[agree]).sum()
    n = 2000
    X = np.tile(row, (n, 1))
    means = clamped_mean(machine, X, np.tile(observed, (n, 1)), make_rng(5, X), 60)
    assert_array_equal(means[:, observed], X[:, observed])
    error = means.std(axis=0, ddof=1) / np.sqrt(n)
    assert (np.abs(means.mean(axis=0) - p @ V[agree]) <= 5 * error + 1e-12).all()
