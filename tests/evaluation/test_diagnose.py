"""Diagnoses of machines and chains, against enumeration and machines whose faults are known.

Seeds are fixed. Where draws are exact, errors of moments are held to 5 standard errors (6e-7 for
one normal error).
"""

import numpy as np
import pytest
import scipy.sparse as sp
from _exact import Exact, free_energy
from _fractional import all_rows
from _machines import enumerable_pairs, random_machine
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist
from scipy.stats import chi2, linregress

from skrbm import RBM
from skrbm.evaluation import Density, Diagnosis, diagnose
from skrbm.evaluation._agreement import (
    compared_moments,
    neighbours,
    quality_by_sweeps,
)
from skrbm.inference import Gibbs, Tempering
from skrbm.inputs import Coordinates
from skrbm.learning import SGD
from skrbm.machine import Machine
from skrbm.units import Bernoulli, Gaussian, Theta

BINARY = ("bernoulli", "bernoulli")
QUICK = {"n_chains": 40, "n_steps": 60, "random_state": 0}


def two_modes(strength=12.0, n=6):
    """A machine whose visible units are all 0 or all 1, with equal weights."""
    W = np.full((2, n), strength / n)
    b, c = np.full(n, -strength / n), np.full(2, -strength / 2)
    return Machine((Bernoulli(), Bernoulli()), (Theta(b), Theta(c)), (W,))


def drawn(machine, n, seed=0):
    return Exact(machine).sample(np.random.default_rng(seed), n)[0]


# Chains.


def test_a_machine_without_problem():
    machine = random_machine(BINARY, (8, 5), 0, 0.5)
    d = diagnose(machine, drawn(machine, 1000), random_state=0)
    assert isinstance(d, Diagnosis) and d.failed == []
    assert d.checks.keys() == {
        "mixed",
        "long_enough",
        "in_equilibrium",
        "no_copies",
        "matches_data",
    }
    assert d.observables[:2] == ("free energy", "projection 1")
    assert d.n_chains == 100 and d.n_steps == 500
    for part in (d.time, d.time_std, d.r_hat, d.ess):
        assert part.shape == (6,)
    assert d.autocorrelation.shape == (500, 6)
    assert (d.r_hat < 1.01).all() and (d.ess > 1000).all()
    assert d.moments[0].correlation > 0.98
    seed = np.random.SeedSequence(3)
    twice = [str(diagnose(machine, n_chains=8, n_steps=20, random_state=seed)) for _ in range(2)]
    assert twice[0] == twice[1]


@pytest.mark.law
def test_chains_along_a_ladder_mix_where_gibbs_chains_do_not():
    """Half of the samples of two modes are in each, within 5 standard errors of 1 / 20.

    Over three seeds R-hat was 1.8 to 2.0 by Gibbs sampling, and at most 1.05 along the ladder.
    """
    machine, options = two_modes(20.0), {"n_steps": 400, "random_state": 0}
    gibbs, d = diagnose(machine, **options), diagnose(machine, method="tempering", **options)
    assert "mixed" in gibbs.failed and gibbs.exchanges is None
    assert d.checks["ladder_connected"] and d.failed == []
    found = d.exchanges
    assert found.n_steps == 400 and found.round_trips.shape == (100,)
    assert (found.acceptance > 0.3).all() and found.round_trips.mean() > 10
    mean = diagnose(
        machine, np.repeat([[0.0], [1.0]], 50, axis=0) + np.zeros(6), method="tempering"
    )
    assert np.abs(mean.moments[0].samples - 0.5).max() < 0.25


@pytest.mark.parametrize(
    "n_rungs, options", [(2, {"n_steps": 200}), (12, {"n_chains": 4, "n_steps": 8})]
)
def test_ladders_with_gaps_or_few_round_trips_are_not_connected(n_rungs, options):
    d = diagnose(two_modes(24.0), method=Tempering(n_rungs), random_state=0, **options)
    assert "ladder_connected" in d.failed
    assert (d.exchanges.acceptance.min() < 0.1) == (n_rungs == 2)
    assert (d.exchanges.round_trips.sum() < 100) == (n_rungs == 12)


def test_the_time_of_a_machine_is_that_of_its_transition_matrix():
    """A chain of two modes: 1 + 2 sum_t rho_t by powers of the matrix; 5 standard errors."""
    machine = two_modes(5.0, 3)
    V, H = all_rows(3), all_rows(2)
    own, hidden = machine.thetas
    weights = np.exp(V @ own.field + (H @ hidden.field)[:, None] + H @ machine.weights[0] @ V.T)
    step = (weights / weights.sum(axis=0)).T @ (weights / weights.sum(axis=1)[:, None])
    p = weights.sum(axis=0) / weights.sum()
    f = free_energy(machine, V)
    d = diagnose(machine, n_chains=200, n_steps=2000, random_state=0)
    for values, k in ((f, 0), (V.sum(axis=1), 1)):
        deviation, rho, moved = values - p @ values, [], values - p @ values
        for _ in range(300):
            rho.append(p @ (deviation * moved))
            moved = step @ moved
        truth = 2 * np.sum(rho) / rho[0] - 1
        assert abs(d.time[k] - truth) < 5 * d.time_std[k]


def test_chains_in_two_modes_and_few_sweeps():
    d = diagnose(two_modes(40.0), drawn(two_modes(40.0), 100), **QUICK)
    assert "mixed" in d.failed and np.nanmax(d.r_hat) > 1.5
    machine = random_machine(BINARY, (8, 5), 0, 0.5)
    d = diagnose(machine, n_chains=4, n_steps=40, random_state=1)
    assert "long_enough" in d.failed and d.ess.min() < 100


@pytest.mark.law
def test_a_machine_trained_out_of_equilibrium():
    """Chains that begin at independent draws for each batch, and make 3 sweeps.

    Errors are 0.3 in equilibrium and below 0.1 after 4 to 23 sweeps, for each of eight seeds.
    """
    generator = np.random.default_rng(0)
    modes = np.repeat(generator.random((2000, 1)) < 0.3, 16, axis=1)
    X = (modes ^ (generator.random((2000, 16)) < 0.05)).astype(float)
    optimizer = SGD(schedule="constant", centered=False, average=False)
    options = {"optimizer": optimizer, "learning_rate": 0.05, "n_iter": 300, "random_state": 0}
    # Weights that grow from nothing make a machine that chains of 3 sweeps never come to know.
    weights, mean = 0.01 * generator.standard_normal((16, 16)), X.mean(axis=0)
    log_odds = np.log(mean / (1 - mean))
    init, inference = (weights, None, log_odds), Gibbs(3, start="noise")
    rbm = RBM(16, init=init, inference=inference, **options).fit(X)
    d = diagnose(rbm, X, n_chains=1000, random_state=0)
    assert "in_equilibrium" in d.failed
    q = d.quality
    assert q.sweeps[0] == 0 and q.sweeps[-1] == 1000 and len(q.sweeps) == len(q.error)
    assert 1 < q.sweeps[np.argmin(q.error)] < 30
    persistent = RBM(16, inference=Gibbs(3), **options | {"n_iter": 20}).fit(X)
    assert diagnose(persistent, X, random_state=0).checks["in_equilibrium"]


@pytest.mark.parametrize("kinds", enumerable_pairs()[::3], ids="-".join)
def test_kinds_of_units(kinds):
    """Data of the machine itself: no moment is beyond its limit (1e-4 for each of 3)."""
    machine = random_machine(kinds, (4, 3), 0, 0.3)
    d = diagnose(machine, drawn(machine, 400), **QUICK)
    assert all(m.error < m.limit for m in d.moments)
    assert (d.r_hat < 1.1).all()
    assert d.quality.error[-1] < 3 * d.quality.noise


def test_the_noise_of_moments_is_the_error_of_other_rows_of_the_data():
    """The mean of 400 squared errors is 5 standard errors, 0.15 of it, away at most (1e-6)."""
    generator, squares = np.random.default_rng(0), []
    for _ in range(400):
        X, rows = ((generator.random((n, 8)) < 0.3).astype(float) for n in (100, 400))
        quality = quality_by_sweeps(X, {0: rows}, generator)
        squares.append((quality.error[0] / quality.noise) ** 2)
    assert 5 * np.std(squares) / np.sqrt(400) < 0.15
    assert abs(np.mean(squares) - 1) < 0.15


def test_deep_machines():
    machine = random_machine(("bernoulli",) * 3, (5, 3, 2), 0, 0.3)
    d = diagnose(machine, drawn(machine, 400), **QUICK)
    assert d.observables[0] == "energy" and all(m.error < m.limit for m in d.moments)


def test_coordinates_and_sparse_data():
    machine = random_machine(("gaussian", "bernoulli"), (3, 4), 0, 0.3)
    X, coordinates = drawn(machine, 300), Coordinates(np.full(3, 7.0), np.array([2.0, 0.5, 10]))
    own = diagnose(machine, X, **QUICK)
    same = diagnose(Density(machine, coordinates=coordinates), coordinates.outward(X), **QUICK)
    assert_allclose(own.r_hat, same.r_hat, rtol=1e-8)
    assert_allclose(own.moments[1].data, same.moments[1].data, atol=1e-10)
    binary = random_machine(BINARY, (5, 3), 0)
    X = drawn(binary, 100)
    dense, sparse = (diagnose(binary, part, **QUICK) for part in (X, sp.csr_array(X)))
    assert str(dense) == str(sparse)


@pytest.mark.parametrize(
    "given, name",
    [
        ({"X": np.ones((5, 2))}, "X"),
        ({"X": np.ones((1, 6))}, "X"),
        ({"X": np.full((3, 6), np.nan)}, "NaN"),
        ({"n_chains": 3}, "n_chains"),
        ({"n_steps": 7}, "n_steps"),
        ({"method": "annealed"}, "method"),
    ],
)
def test_errors(given, name):
    with pytest.raises(ValueError, match=name):
        diagnose(two_modes(), **given)


# Samples and data.


def test_moments_of_different_distributions_and_their_line():
    machine, generator = random_machine(BINARY, (4, 3), 0, 1.0), np.random.default_rng(0)
    exact, X = Exact(machine), drawn(machine, 20_000)
    deviation = exact.values[:, :4] - exact.mean(0)
    for order, sets in ((1, [(0,), (1,), (2,), (3,)]), (3, [(0, 1, 2), (0, 1, 3), (0, 2, 3)])):
        found = compared_moments(X, 1 - X, order, generator)
        for k, columns in enumerate(sets):
            truth = exact.probabilities @ deviation[:, columns].prod(axis=1)
            truth = exact.mean(0)[k] if order == 1 else truth
            assert abs(found.data[k] - truth) < 5 * 0.5**order / np.sqrt(20_000)
        r = linregress(found.data, found.samples).rvalue
        assert found.correlation == pytest.approx(r) == pytest.approx(-1)
        assert order == 3 or found.error > found.limit


def test_limits_of_moments_have_the_freedom_of_their_columns():
    """20 independent columns: their squared errors sum to 20 on average, in units of the noise."""
    generator = np.random.default_rng(0)
    X, samples = generator.normal(size=(2, 1000, 20))
    found = compared_moments(X, samples, 1, generator)
    assert found.limit == pytest.approx(np.sqrt(2 / 1000 * chi2.isf(1e-4, 20) / 20), rel=0.05)


def test_neighbours_by_all_distances():
    """Bits, many of whose distances are equal."""
    X, Y = (np.random.default_rng(0).random((2, 60, 8)) > [[[0.5]], [[0.7]]]).astype(float)
    across, expected = cdist(X, Y), []
    for own, distances in ((X, across), (Y, across.T)):
        within = cdist(own, own) + np.diag(np.full(60, np.inf))
        differences = distances.min(axis=1) - within.min(axis=1)
        expected.append(np.mean((differences > 0) + 0.5 * (differences == 0)))
    assert neighbours(X, Y)[:2] == pytest.approx(expected, rel=1e-12)


def test_data_of_another_machine_do_not_match():
    """A shift of a third of a standard deviation, which nearest neighbours do not show."""
    machine = Machine(
        (Gaussian(), Bernoulli()),
        (Theta(np.zeros(5), np.ones(5)), Theta(np.zeros(1))),
        (np.zeros((1, 5)),),
    )
    X = np.random.default_rng(0).standard_normal((400, 5))
    assert diagnose(machine, X, random_state=0).failed == []
    shifted = diagnose(machine, X + 0.33, random_state=0)
    assert shifted.failed == ["matches_data"]
    assert shifted.moments[0].error > shifted.moments[0].limit
