"""Rows of which some visible units are missing: sums over these, against enumeration."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from _exact import Exact
from _machines import enumerable_pairs, random_machine
from numpy.testing import assert_allclose, assert_array_equal

from skrbm.arrays import make_rng
from skrbm.evaluation import Density, _observed
from skrbm.evaluation._observed import Accuracy, _chains, exact_draws, exact_sums
from skrbm.exceptions import LikelihoodWarning
from skrbm.inputs import Coordinates
from skrbm.units import Categorical

PRECISE, SEED = Accuracy(), np.random.SeedSequence(3)
OBSERVED = np.array([[1, 0, 1, 0, 1], [0, 0, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]) > 0
pairs = pytest.mark.parametrize("kinds", enumerable_pairs(), ids="-".join)


def problem(kinds, n_hidden=3, strength=0.7):
    """A machine, rows of it, which of their entries are observed, and the oracle of each row."""
    machine = random_machine(kinds, (5, n_hidden), 2, strength)
    X = Exact(machine).sample(np.random.default_rng(1), len(OBSERVED))[0]
    return machine, X, oracles(machine, X, OBSERVED)


def oracles(machine, X, observed):
    rows = np.where(observed, X, np.nan)
    return [Exact(machine, observed=row) for row in rows]


def with_sites(seed=0, hidden="bernoulli"):
    """A machine of two sites, of 3 and 2 values, and rows with one or none of them."""
    machine = random_machine(("bernoulli", hidden), (5, 3), seed, 0.7)
    machine = replace(machine, units=(Categorical((3, 2)), machine.units[1]))
    X = Exact(machine).sample(np.random.default_rng(1), 3)[0]
    sites = np.array([[1, 0], [0, 1], [0, 0]]) > 0
    return machine, X, np.repeat(sites, [3, 2], axis=1)


def assert_exact(machine, X, observed, rows):
    log_weights, means, exact = exact_sums(machine, X, observed, layer=1)
    assert_array_equal(exact, True)
    assert_allclose(log_weights, [row.log_z for row in rows], rtol=1e-9, atol=1e-9)
    assert_allclose(means, [row.mean(1) for row in rows], rtol=1e-8, atol=1e-9)
    _, means, _ = exact_sums(machine, X, observed, layer=0)
    expected = np.array([row.mean(0) for row in rows])
    assert_allclose(means[~observed], expected[~observed], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("n_hidden, n_rows", [(2, 20_000), (4, 2_000)])
def test_draws_have_the_exact_law(n_hidden, n_rows, monkeypatch):
    """From all hidden values, two at a time, or from all missing ones of each row.

    Shares of values of the two missing bits are all within 5 standard deviations with a
    probability of 2e-6.
    """
    monkeypatch.setattr(_observed, "_ELEMENTS", 2 * n_rows)
    machine, X, _ = problem(("bernoulli", "bernoulli"), n_hidden, strength=2.0)
    values, p = Exact(machine, observed=np.where(OBSERVED[0], X[0], np.nan)).layer_law(0)
    rows, observed = (np.tile(part[0], (n_rows, 1)) for part in (X, OBSERVED))
    drawn, exact = exact_draws(machine, rows, observed, make_rng(5, X))
    assert exact.all() and len(values) == 4
    shares = (drawn[:, None] == values).all(axis=2).mean(axis=0)
    assert (np.abs(shares - p) < 5 * np.sqrt(p * (1 - p) / n_rows)).all()


@pairs
def test_sums_are_exact(kinds):
    """Over the hidden units, or over missing ones where these are fewer."""
    for n_hidden in (2, 4):
        machine, X, rows = problem(kinds, n_hidden)
        assert_exact(machine, X[:3], OBSERVED[:3], rows[:3])


def test_sums_stop_at_the_number_of_units_that_is_allowed():
    machine, X, _ = problem(("bernoulli", "bernoulli"), 4)
    assert_array_equal(exact_sums(machine, X[:3], OBSERVED[:3], max_units=2)[2], [1, 0, 1])
    machine, X, observed = with_sites(hidden="gaussian")
    assert_array_equal(exact_sums(machine, X, observed, max_units=2)[2], [1, 1, 0])


def annealed(machine, X, observed, accuracy=PRECISE, **options):
    """log p(observed) + log Z of rows of which none is enumerated."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skrbm.evaluation._observed.exact_sums", none_exact)
        H = np.where(observed, X, np.nan)
        return Density(machine, **options).log_weight(H, SEED, accuracy)


def none_exact(machine, X, observed, max_units):
    return np.zeros(len(X)), None, np.zeros(len(X), bool)


@pytest.mark.parametrize("kinds", enumerable_pairs()[::2], ids="-".join)
def test_annealing_finds_the_sums(kinds):
    """Each row to a standard error of 0.1 at most: off by 0.6 with a probability below 1e-6."""
    machine, X, rows = problem(kinds)
    found = annealed(machine, X[:3], OBSERVED[:3])
    assert_allclose(found, [row.log_z for row in rows[:3]], atol=0.6)


def test_standard_errors_of_annealing():
    """Of a row 400 times, each with chains of its own."""
    machine, X, _ = problem(("bernoulli", "bernoulli"), strength=1.5)
    rows, observed = np.tile(X[:1], (400, 1)), np.tile(OBSERVED[:1], (400, 1))
    rng = make_rng(0, X)
    values, errors = _chains(machine, machine.thetas[0], rows, observed, rng, 32, 5)
    assert errors.mean() == pytest.approx(values.std(), rel=0.2)


def test_a_standard_error_that_is_missed_warns():
    machine, X, _ = problem(("bernoulli", "bernoulli"), strength=3.0)
    with pytest.warns(LikelihoodWarning, match=r"of \d rows .*standard errors of up"):
        annealed(machine, X[:3], OBSERVED[:3], Accuracy(1e-9, 4, (2,)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        annealed(machine, X[:3], OBSERVED[:3], Accuracy(np.inf, 4, (2,)))


def test_the_density_of_what_is_observed_has_its_own_units_of_measure():
    """With v = 3 + 2 z the density of an observed v is half that of z."""
    machine, X, rows = problem(("gaussian", "bernoulli"))
    coordinates = Coordinates(np.full(5, 3.0), np.full(5, 2.0))
    H = np.where(OBSERVED, X, np.nan)
    found = Density(machine, coordinates=coordinates).log_weight(H, SEED)
    truth = [row.log_z for row in rows] - OBSERVED.sum(axis=1) * np.log(2)
    assert_allclose(found, truth)


def test_annealing_does_not_depend_on_the_origin():
    """Columns around 1000 are scored like the same columns around 0."""
    machine, X, _ = problem(("gaussian", "bernoulli"), strength=1.5)
    far = Coordinates(np.full(5, -1000.0), np.ones(5)).machine_inward(machine)
    near, distant = (
        annealed(own, X[:3] + by, OBSERVED[:3], Accuracy(np.inf, 32, (50,)), starts=X + by)
        for own, by in [(machine, 0.0), (far, 1000.0)]
    )
    assert_allclose(distant - Exact(far).log_z, near - Exact(machine).log_z, atol=1e-3)
