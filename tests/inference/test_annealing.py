"""The annealer with every kind of move, with and without resampling, against enumeration.

Seeds are fixed. A test allows 5 standard errors: a probability of 6e-7, were the error normal.
"""

import numpy as np
import pytest
from _exact import Exact
from _machines import random_machine
from numpy.testing import assert_array_equal

from skrbm.arrays import make_rng
from skrbm.inference import (
    Gibbs,
    GibbsLangevin,
    Langevin,
    SmallSteps,
    anneal,
    effective_part,
    resampled,
)
from skrbm.machine import uncoupled

MOVES = [None, Gibbs(), Langevin(), GibbsLangevin()]
moves = pytest.mark.parametrize("sampler", MOVES, ids=lambda s: type(s).__name__)
resampling = pytest.mark.parametrize("resample", [False, True])
BETAS = np.linspace(0, 1, 21)
MACHINE = random_machine(("gaussian", "bernoulli"), (3, 2), 0, 0.4)
DEEP = random_machine(("bernoulli",) * 4, (3, 2, 3, 2), 0, 1.0)
OTHER = random_machine(("gaussian", "bernoulli"), (3, 2), 1, 0.4)
OTHER_DEEP = random_machine(("bernoulli",) * 4, (3, 2, 3, 2), 1, 0.5)


def run(machine, seed, betas=BETAS, n=300, **options):
    """Anneal chains from independent units; returns them and log Z of the machine by each."""
    base = uncoupled(machine)
    free, rng = Exact(base), make_rng(seed, machine.weights[0])
    layers = [x.astype(float) for x in free.sample(np.random.default_rng(seed), n)]
    annealed = anneal(machine, base, betas, layers, rng, **options)
    return annealed, annealed.log_weights + free.log_z


def assert_mean(values, truth):
    """The mean of independent values lies within 5 standard errors, which are small."""
    values = np.asarray(values)
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    assert (error < 0.05).all()
    assert (np.abs(values.mean(axis=0) - truth) < 5 * error).all()


def assert_unbiased(machine, betas=BETAS, n_runs=30, **options):
    """Z, and with it all weighted means, by runs that are independent of each other."""
    exact, ratios, sums = Exact(machine), [], []
    for seed in range(n_runs):
        annealed, log_z = run(machine, seed, betas, **options)
        weights = np.exp(log_z - exact.log_z)
        ratios.append(weights.mean())
        sums.append((weights[:, None] * annealed.layers[0]).mean(axis=0))
    assert_mean(ratios, 1.0)
    assert_mean(sums, exact.mean(0))


@moves
@resampling
def test_weights_and_chains_are_those_of_the_machine(sampler, resample):
    assert_unbiased(MACHINE, sampler=sampler, resample=resample)


@pytest.mark.parametrize("base, machine", [(MACHINE, OTHER), (DEEP, OTHER_DEEP)])
@resampling
def test_machines_between_two_with_other_weights(base, machine, resample):
    """Chains from exact draws of one machine give Z and the means of the other."""
    first, exact, ratios, sums = Exact(base), Exact(machine), [], []
    for seed in range(30):
        layers = [x.astype(float) for x in first.sample(np.random.default_rng(seed), 300)]
        rng = make_rng(seed, machine.weights[0])
        ends = anneal(machine, base, np.linspace(0, 1, 11), layers, rng, resample=resample)
        weights = np.exp(ends.log_weights + first.log_z - exact.log_z)
        ratios.append(weights.mean())
        sums.append((weights[:, None] * ends.layers[0]).mean(axis=0))
    assert_mean(ratios, 1.0)
    assert_mean(sums, exact.mean(0))


@resampling
def test_deep_machines(resample):
    assert_unbiased(DEEP, resample=resample)


def test_rows_without_a_weight_are_not_drawn():
    rows = np.arange(4.0)[:, None]
    drawn = resampled(rows, np.array([np.nan, 0.0, -np.inf, 0.0]), make_rng(0, rows))
    assert_array_equal(drawn[:, 0], [1, 1, 3, 3])


@pytest.mark.parametrize("spread", [1.0, 1e4, np.inf])
def test_adaptive_temperatures_end(spread):
    """In 1000 steps at most, also if log weights spread by far too much, or overflow."""
    signs, betas, found = np.array([-1.0, 1.0]), SmallSteps(0.1), []
    with np.errstate(invalid="ignore"):
        for beta in betas(lambda beta: spread * (beta - betas.betas[-1]) * signs):
            found.append(beta)
            assert len(found) <= 1000
    assert betas.arrived and (np.diff(found) > 0).all()


@pytest.mark.parametrize("slope", [5.0, 50.0])
def test_adaptive_temperatures_keep_most_chains_effective(slope):
    """Also if the log weights of one chain in 1000 rise, whose standard deviation stays small.

    A step with a spread up to 1.5 times the given one, 0.3, leaves exp(-0.45**2) = 82 %.
    """
    slopes, betas, parts = slope * (np.arange(1000) == 0), SmallSteps(0.3), []
    last = 0.0
    for beta in betas(lambda beta: (beta - betas.betas[-1]) * slopes):
        parts.append(effective_part((beta - last) * slopes))
        last = beta
    assert betas.arrived and min(parts) > 0.8
