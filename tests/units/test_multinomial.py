"""Counts with a given sum, against enumeration of all sequences of draws.

Random tests use fixed seeds and a level of 1e-6 for each test.
"""

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from _machines import slopes_of
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import logsumexp

from skrbm.arrays import Columns, make_rng
from skrbm.evaluation import _lengths, log_partition
from skrbm.inference import AIS, Gibbs, Tempering, sample
from skrbm.machine import Machine, data_moments
from skrbm.machine import log_partition as summed
from skrbm.units import Bernoulli, Multinomial, Theta

LEVEL = 1e-6
FIELD = np.array([0.3, -1.0, 2.0, 0.0])


def sequences(n_draws, n_columns):
    """The counts of all sequences of draws, one row for each sequence."""
    rows = [np.bincount(s, minlength=n_columns) for s in product(range(n_columns), repeat=n_draws)]
    return np.array(rows, dtype=float).reshape(-1, n_columns)


def rbm(seed=0, n_visible=4, n_hidden=3, strength=1.0):
    generator = np.random.default_rng(seed)
    W = strength * generator.standard_normal((n_hidden, n_visible))
    b = generator.standard_normal(n_visible)
    units = Multinomial(), Bernoulli()
    return Machine(units, (Theta(b), Theta(np.zeros(n_hidden))), (W,))


def of_length(machine, n_draws):
    return replace(machine, units=(Multinomial(n_draws), machine.units[1]))


def log_weights(machine, X):
    """Logarithms of the weights of rows, with the hidden units summed out."""
    W, b = machine.weights[0], machine.thetas[0].field
    return X @ b + np.logaddexp(0, X @ W.T).sum(axis=1)


# ------------------------------------------------------------------------------- the unit


@pytest.mark.parametrize("n_draws", [0, 1, 3, 5])
def test_log_partition_and_mean(n_draws):
    unit, X = Multinomial(n_draws), sequences(n_draws, 4)
    weights = X @ FIELD
    assert_allclose(unit.log_partition(Theta(FIELD)), [logsumexp(weights)], atol=1e-12)
    p = np.exp(weights - logsumexp(weights))
    assert_allclose(unit.mean(Theta(FIELD)), p @ X, atol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_mode_is_the_most_probable_row_of_counts(seed):
    """Of all rows of counts with this sum, by the multinomial distribution of SciPy."""
    generator = np.random.default_rng(seed)
    field, n_draws = 1.5 * generator.normal(size=3), int(generator.integers(0, 12))
    p = np.exp(field - logsumexp(field))
    rows = [row for row in product(range(n_draws + 1), repeat=3) if sum(row) == n_draws]
    heights = stats.multinomial.pmf(rows, n_draws, p)
    found = stats.multinomial.pmf(Multinomial(n_draws).mode(Theta(field)), n_draws, p)
    assert_allclose(found, heights.max(), rtol=1e-10)


def test_rows_with_their_own_numbers_of_draws():
    unit, theta = Multinomial(np.array([3, 0, 5])), Theta(np.tile(FIELD, (3, 1)))
    singly = [Multinomial(n) for n in (3, 0, 5)]
    assert_allclose(
        unit.log_partition(theta)[:, 0], [u.log_partition(Theta(FIELD))[0] for u in singly]
    )
    assert_allclose(unit.mean(theta), [u.mean(Theta(FIELD)) for u in singly])
    assert_array_equal(unit.rows(np.array([2, 0])).n_draws, [5, 3])
    assert unit.n_rows == 3 and singly[0].n_rows is None
    assert_array_equal(unit.sample(theta, make_rng(0, FIELD)).sum(axis=1), [3, 0, 5])


def test_samples_have_the_distribution_of_all_sequences():
    unit, n = Multinomial(3), 20000
    drawn = unit.sample(Theta(np.tile(FIELD, (n, 1))), make_rng(0, FIELD))
    X = sequences(3, 4)
    p = np.exp(X @ FIELD - logsumexp(X @ FIELD))
    expected, found = Counter(), Counter(map(tuple, drawn))
    for row, weight in zip(map(tuple, X), p, strict=True):
        expected[row] += n * weight
    rows = [row for row in expected if expected[row] > 5]
    counts, means = ([table[row] for row in rows] for table in (found, expected))
    rest = n - np.array([sum(counts), sum(means)])
    assert stats.chisquare([*counts, rest[0]], [*means, rest[1]]).pvalue > LEVEL


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_rows_of_data_give_the_numbers_of_draws(container):
    X = np.array([[2.0, 1, 0], [0, 0, 0], [4, 1, 2]])
    unit = Multinomial()
    assert_array_equal(unit.of_rows(container(X)).n_draws, [3, 0, 7])
    assert_array_equal(unit.of_rows(container(X), 6).n_draws, [0, 0, 3, 3, 7, 7])
    assert unit.of_rows(container(X)).of_rows(container(X[:1])).n_rows == 3
    frequencies = np.exp(unit.initial_theta(Columns(container(X))).field)
    assert_allclose(frequencies, (X.sum(axis=0) + 1 / 3) / 11)
    weighted = np.exp(unit.initial_theta(Columns(X, np.array([2.0, 1, 0]))).field)
    assert_allclose(weighted, (2 * X[0] + 1 / 3) / 7)


# ---------------------------------------------------------------------------- the machine


@pytest.mark.parametrize("n_draws", [0, 1, 4])
def test_log_z_of_a_machine(n_draws):
    machine = of_length(rbm(), n_draws)
    truth = logsumexp(log_weights(machine, sequences(n_draws, 4)))
    assert_allclose(log_partition(machine, "exact").value, truth)
    assert_allclose(summed(machine, [1]), truth)
    for method in ("smc", AIS(n_chains=400, schedule=200), Tempering(n_chains=100)):
        found = log_partition(machine, method, random_state=0)
        assert abs(found.value - truth) < 6 * found.std + 1e-9


def test_gibbs_chains_keep_lengths_and_have_the_distribution():
    machine, n = rbm(), 4000
    lengths = np.tile([1, 3], n // 2)
    X = np.eye(4)[np.zeros(n, int)] * lengths[:, None]
    chains = sample(
        Gibbs(), machine, Gibbs().state_at(machine, X, make_rng(0, X)), make_rng(1, X), 30
    )
    found = chains.layers[0]
    assert_array_equal(found.sum(axis=1), lengths)
    for length in (1, 3):
        rows = sequences(length, 4)
        p = np.exp(log_weights(machine, rows) - logsumexp(log_weights(machine, rows)))
        mean, variance = p @ rows, p @ rows**2 - (p @ rows) ** 2
        error = found[lengths == length].mean(axis=0) - mean
        assert (np.abs(error) < 5.3 * np.sqrt(variance / (n / 2))).all()


def test_gradient_is_that_of_the_likelihood():
    """Data moments minus the machine's, in which each row has the lengths of the data."""
    machine = rbm(1)
    X = np.array([[2.0, 1, 0, 0], [0, 0, 3, 1], [0, 0, 0, 0], [1, 0, 0, 0]])

    def likelihood(W, b):
        other = replace(machine, weights=(W,), thetas=(Theta(b), machine.thetas[1]))
        log_z = [logsumexp(log_weights(other, sequences(int(d), 4))) for d in X.sum(axis=1)]
        return (log_weights(other, X) - log_z).mean()

    rows, p = [], []
    for d in X.sum(axis=1).astype(int):
        each = sequences(d, 4)
        weights = log_weights(machine, each)
        rows.append(each)
        p.append(np.exp(weights - logsumexp(weights)) / len(X))
    model = data_moments(machine, np.concatenate(rows), np.concatenate(p))
    difference = data_moments(machine, X) - model
    W, b = machine.weights[0], machine.thetas[0].field
    G = difference.add_pair(machine, 0, np.zeros_like(W), 1.0)
    g = difference.statistics(machine.units[0], 0).field
    for slope, expected in zip((G, g), slopes_of(likelihood, (W, b), 1e-6), strict=True):
        assert_allclose(slope, expected, atol=1e-7)


# ------------------------------------------------------------------- log Z of all lengths

LENGTHS = np.array([0, 0.5, 1, 2, 5, 20, 100, 400])


def test_log_z_of_all_lengths_is_a_sum_over_few_hidden_units():
    machine = rbm()
    found, std = _lengths.length_partitions(machine, make_rng(0, FIELD), 8).at([0, 1, 2, 5])
    truth = [logsumexp(log_weights(machine, sequences(d, 4))) for d in (0, 1, 2, 5)]
    assert_allclose(found, truth)
    assert_array_equal(std, 0)


def test_log_z_of_all_lengths_by_chains(monkeypatch):
    """Within six standard errors, and the errors small; about 1e-6 for the few lengths together."""
    machine = rbm(2, n_visible=60, n_hidden=9)
    truth = _lengths.length_partitions(machine, make_rng(0, FIELD), 512).at(LENGTHS)[0]
    monkeypatch.setattr(_lengths, "_EXACT", 0)
    chains = _lengths.length_partitions(machine, make_rng(0, FIELD), 512)
    found, std = chains.at(LENGTHS)
    assert (np.abs(found - truth) <= 6 * std + 1e-9).all() and std.max() < 0.3
    assert std[0] == 0 and found[2] == pytest.approx(truth[2], abs=1e-9)  # no word, and one
    shorter = _lengths.length_partitions(machine, make_rng(0, FIELD), 64).at(LENGTHS[:6])[0]
    assert_array_equal(shorter, found[:6])  # whatever the longest


def test_numbers_of_draws_that_are_not_whole_are_rounded():
    unit, theta = Multinomial(np.array([2.6, 2.4, 0.2])), Theta(np.tile(FIELD, (3, 1)))
    assert_array_equal(unit.sample(theta, make_rng(0, FIELD)).sum(axis=1), [3, 2, 0])
