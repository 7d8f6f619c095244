"""Couplings of machines against enumeration, contacts, and sequences at a temperature."""

from itertools import product

import numpy as np
import pytest
from _exact import Exact, free_energy, log_likelihood
from _machines import random_theta
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from skrbm import RBM, BernoulliRBM, CategoricalRBM
from skrbm.machine import Machine
from skrbm.sequences import contact_scores, design, effective_couplings, ranked_pairs
from skrbm.units import Bernoulli, Categorical, DoubleReLU, Gaussian, Spin, Theta

HIDDEN = [Bernoulli(), Gaussian(), DoubleReLU(), Categorical(3)]
SITES, LETTERS = 3, 3
SHAPE = SITES, LETTERS, SITES, LETTERS
CODES = np.array(list(product(range(LETTERS), repeat=SITES)))
by_hidden = pytest.mark.parametrize("hidden", HIDDEN, ids=lambda unit: type(unit).__name__)


def random_machine(hidden, strength=0.7, seed=0):
    generator = np.random.default_rng(seed)
    thetas = Theta(generator.normal(0, 0.5, SITES * LETTERS)), random_theta(hidden, 3, generator)
    W = generator.normal(0, strength, (3, SITES * LETTERS))
    return Machine((Categorical((LETTERS,) * SITES), hidden), thetas, (W,))


def rows_of(codes):
    return np.eye(LETTERS)[np.asarray(codes)].reshape(len(codes), -1)


def zero_sum(couplings):
    """The couplings of different sites without their means over the letters of either site."""
    found = couplings * ~np.eye(len(couplings), dtype=bool)[:, None, :, None]
    found = found - found.mean(axis=1, keepdims=True)
    return found - found.mean(axis=3, keepdims=True)


def pair_terms(table):
    """The pair terms in zero-sum gauge of a function of all sites, by analysis of variance."""
    found = np.zeros(SHAPE)
    for i, j in product(range(SITES), repeat=2):
        if i != j:
            part = table.mean(axis=tuple(set(range(SITES)) - {i, j}))
            part = part - part.mean(axis=0) - part.mean(axis=1)[:, None] + part.mean()
            found[i, :, j, :] = part if i < j else part.T
    return found


# Couplings.


@by_hidden
def test_differences_over_all_sequences_are_the_pair_terms(hidden, monkeypatch):
    monkeypatch.setattr("skrbm.sequences._couplings.block_rows", lambda width: 3)  # blocks of rows
    machine = random_machine(hidden)
    table = -free_energy(machine, rows_of(CODES)).reshape((LETTERS,) * SITES)
    found = effective_couplings(machine, CODES, method="difference")
    assert_allclose(found, pair_terms(table), atol=1e-8)


@by_hidden
def test_differences_given_the_other_sites_of_some_sequences(hidden):
    machine, weights = random_machine(hidden), np.array([1.0, 2.0])
    some = CODES[[4, 17]]
    found, expected = effective_couplings(machine, some, weights, method="difference"), 0
    for row, w in zip(some, weights / 3, strict=True):
        table = np.empty((LETTERS, LETTERS))
        for a, b in np.ndindex(table.shape):
            (table[a, b],) = -free_energy(machine, rows_of([[row[0], a, b]]))
        table = table - table.mean(axis=0) - table.mean(axis=1)[:, None] + table.mean()
        expected = expected + w * table
    assert_allclose(found[1, :, 2, :], expected, atol=1e-8)


def test_couplings_of_gaussian_units_are_products_of_weights():
    machine = random_machine(Gaussian())
    W, precision = machine.weights[0], machine.thetas[1].precision
    expected = zero_sum((W.T @ (W / precision[:, None])).reshape(SHAPE))
    for method in ("variance", "difference"):
        for codes in (CODES, CODES[:1]):
            assert_allclose(effective_couplings(machine, codes, method=method), expected)


@pytest.mark.parametrize("hidden", HIDDEN[:3], ids=lambda unit: type(unit).__name__)
def test_variances_are_the_second_order_of_differences(hidden):
    """Half the weights leave a fourth of the couplings, and an eighth of what the order lacks."""
    lacks = []
    for strength in (0.02, 0.01):
        machine = random_machine(hidden, strength)
        found = [effective_couplings(machine, CODES, method=m) for m in ("variance", "difference")]
        assert np.abs(found[1]).max() > 0.1 * strength**2
        lacks.append(np.abs(found[0] - found[1]).max())
    assert lacks[1] <= lacks[0] / 6 or lacks[0] < 1e-13


def test_variances_are_those_of_hidden_units_given_sequences():
    machine, weights = random_machine(Bernoulli()), np.arange(len(CODES)) % 4
    clamped = [Exact(machine, observed=row) for row in rows_of(CODES)]
    variance = np.average([exact.variance(1) for exact in clamped], weights=weights, axis=0)
    W = machine.weights[0]
    expected = zero_sum((W.T @ (variance[:, None] * W)).reshape(SHAPE))
    assert_allclose(effective_couplings(machine, CODES, weights), expected)


def test_couplings_of_a_fitted_machine_and_of_a_scaled_one():
    rbm = CategoricalRBM(4, n_iter=2, random_state=0, categories=[range(LETTERS)] * SITES)
    found = effective_couplings(rbm.fit(CODES), CODES)
    assert found.shape == SHAPE and found.dtype == np.float64
    machine = rbm.machine_
    assert_array_equal(found, effective_couplings(machine, CODES))
    half = Machine(machine.units, machine.thetas, machine.weights, 0.5)
    halved = Machine(machine.units, machine.thetas, (0.5 * machine.weights[0],))
    assert_allclose(effective_couplings(half, CODES), effective_couplings(halved, CODES))
    codes, log_likelihood = design(rbm, 7, n_steps=3, random_state=0)
    assert_allclose(log_likelihood, rbm.score_samples(codes), rtol=1e-6)


@pytest.mark.parametrize(
    "change, error, match",
    [
        ({"model": 3}, TypeError, "model"),
        ({"model": RBM()}, NotFittedError, "not fitted"),
        ({"model": BernoulliRBM.from_parameters(np.ones((2, 9)))}, TypeError, "model"),
        ({"codes": CODES[:, :2]}, ValueError, "codes"),
        ({"codes": CODES + 1}, ValueError, "codes"),
        ({"codes": np.full((1, 3), -1)}, ValueError, "codes"),
        ({"method": "third"}, ValueError, "method"),
        ({"model": random_machine(Categorical(3)), "method": "variance"}, ValueError, "method"),
    ],
)
def test_invalid_arguments(change, error, match):
    given = {"model": random_machine(Spin()), "codes": CODES, **change}
    with pytest.raises(error, match=match):
        effective_couplings(**given)


# Contacts.


def test_scores_are_norms_less_the_average_product():
    J = np.random.default_rng(1).normal(size=(5, 3, 5, 3))
    J = J + J.transpose(2, 3, 0, 1)
    plain, centred = contact_scores(J, correct=False), zero_sum(J)
    for i, j in product(range(5), repeat=2):
        expected = np.linalg.norm(centred[i, :, j, :]) if i != j else 0.0
        assert np.isclose(plain[i, j], expected)
        without = np.linalg.norm(centred[i, 1:, j, 1:]) if i != j else 0.0
        assert np.isclose(contact_scores(J, gap=0, correct=False)[i, j], without)
    found, total = contact_scores(J), plain.sum()
    assert_allclose(found, found.T)
    assert_allclose(found[1, 3], plain[1, 3] - plain[1].sum() * plain[3].sum() / total)
    assert not found.diagonal().any()
    assert_array_equal(contact_scores(np.zeros((4, 2, 4, 2))), np.zeros((4, 4)))


def test_pairs_in_order_of_their_scores():
    scores = np.random.default_rng(2).random((9, 9))
    scores = scores + scores.T
    found = ranked_pairs(scores, min_separation=3)
    assert len(found) == 6 * 7 // 2 and (found[:, 1] - found[:, 0]).min() == 3
    assert (np.diff(scores[found[:, 0], found[:, 1]]) <= 0).all()
    assert_array_equal(ranked_pairs(scores, min_separation=3, n_pairs=4), found[:4])
    assert len(ranked_pairs(scores, min_separation=9)) == 0


def test_invalid_couplings_and_scores():
    J = np.zeros((2, 3, 2, 3))
    infinite = np.full(J.shape, np.inf)
    for call, match in (
        (lambda: contact_scores(J[..., :2]), "shape"),
        (lambda: contact_scores(J, gap=3), "gap"),
        (lambda: contact_scores(infinite), "couplings"),
        (lambda: ranked_pairs(np.full((6, 6), np.nan)), "scores"),
        (lambda: ranked_pairs(np.zeros((2, 3))), "shape"),
        (lambda: ranked_pairs(np.zeros((3, 3)), min_separation=0), "min_separation"),
    ):
        with pytest.raises(ValueError, match=match):
            call()
    own = np.where(np.eye(2, dtype=bool)[:, None, :, None], np.nan, J)
    assert_array_equal(contact_scores(own), np.zeros((2, 2)))  # a site with itself is ignored


# Temperatures.


def estimator_of(machine):
    W, (visible, hidden) = machine.weights[0], machine.thetas
    return RBM.from_parameters(
        W, hidden.field, visible.field, visible=machine.units[0], hidden="spin", random_state=0
    )


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_designed_sequences_follow_the_distribution_at_a_temperature(temperature):
    """20 000 chains: a frequency is off by 5 standard errors with a probability of 6e-7."""
    machine, n = random_machine(Spin()), 20_000
    rbm = estimator_of(machine)
    codes, found = design(rbm, n, temperature=temperature, n_steps=30, random_state=0)
    X = rows_of(codes)
    log_p = log_likelihood(machine, rows_of(CODES))
    assert_allclose(found, log_p[codes @ [9, 3, 1]], rtol=1e-6)
    thetas = tuple(theta.map(lambda part: part / temperature) for theta in machine.thetas)
    cold = Machine(machine.units, thetas, (machine.weights[0] / temperature,))
    exact = Exact(cold).mean(0)
    error = np.sqrt(exact * (1 - exact) / n)
    assert (np.abs(X.mean(axis=0) - exact) < 5 * error).all()
