"""Proximal steps of the penalties that make exact zeros, and fits that use them."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import expit, softmax

from skrbm.arrays import make_rng
from skrbm.inputs import Rows
from skrbm.learning import (
    NATURAL,
    PENALTIES,
    SGD,
    ModelPhase,
    MomentLearner,
    Training,
)
from skrbm.machine import Machine, data_moments
from skrbm.units import Bernoulli, Categorical

ALPHA = 0.3
SITES = Categorical((2, 3, 1, 2))
NAMES = [name for name, penalty in PENALTIES.items() if penalty is not None]


def value(name, row, unit=SITES):
    """The penalty of one row of weights, for a strength of 1."""
    if name == "l1":
        return np.abs(row).sum()
    if name == "l1b":
        return 0.5 * np.abs(row).sum() ** 2
    return sum(np.linalg.norm(row[site]) for site in unit.groups(len(row)))


def objective(name, row, x, d, alpha=ALPHA):
    return np.sum((row - x) ** 2 / (2 * d)) + alpha * value(name, row)


def steps_of(kind, shape, generator):
    """One length, or lengths that differ by factors."""
    return 0.7 if kind == "one" else np.exp(generator.normal(size=shape))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lengths", ["one", "many"])
def test_proximal_steps_minimise(name, lengths):
    """A numeric minimiser finds nothing lower.

    It takes weights as differences of two positive parts, in which most penalties are smooth.
    """
    generator = np.random.default_rng(0)
    X = generator.normal(size=(3, 8)) * np.array([0.3, 1, 4])[:, None]
    steps = steps_of(lengths, X.shape, generator)
    W = X - PENALTIES[name](X, ALPHA * steps, SITES)
    for row, x, d in zip(W, X, np.broadcast_to(steps, X.shape), strict=True):
        lowest = objective(name, row, x, d)
        found = minimize(
            lambda ab, x=x, d=d: objective(name, ab[:8] - ab[8:], x, d),
            np.full(16, 0.5),
            bounds=[(0, None)] * 16,
            options={"maxiter": 2000, "maxfun": 10**5, "ftol": 1e-15, "gtol": 1e-9},
        )
        assert lowest - 1e-9 < found.fun < lowest * 1.01  # it comes near, but not below
    assert (W == 0).any() and (W != 0).any()


def assert_stationary(name, W, slope, alpha, unit, atol):
    """``slope``, of what the penalty is taken from, is one of the penalty's subgradients."""
    if name == "group_lasso":
        for site in unit.groups(W.shape[1]):
            norm = np.linalg.norm(W[:, site], axis=1, keepdims=True)
            size = np.linalg.norm(slope[:, site], axis=1, keepdims=True)
            assert (size[norm == 0] <= alpha + atol).all()
            unit_vectors = W[:, site] / np.where(norm == 0, 1, norm)
            expected = np.where(norm == 0, slope[:, site], alpha * unit_vectors)
            assert_allclose(slope[:, site], expected, rtol=0, atol=atol)
        return
    limit = alpha * np.ones_like(W)
    if name == "l1b":
        limit = limit * np.abs(W).sum(axis=1, keepdims=True)
    assert (np.abs(slope) <= limit + atol).all()
    left = W != 0
    assert_allclose(slope[left], (limit * np.sign(W))[left], rtol=0, atol=atol)


# Fits by exact gradients.


class Problem:
    """Rows of units that depend on each other, and the exact gradient of their likelihood."""

    def __init__(self, unit, n, counts):
        self.unit, self.V = unit, unit.configurations(n, np.arange(unit.n_configurations(n)))
        self.X = np.repeat(self.V, np.resize(counts, len(self.V)), axis=0)

    def probabilities(self, machine):
        """p(v) of all configurations."""
        (W,), (b, c) = machine.weights, (theta.field for theta in machine.thetas)
        return softmax(self.V @ b + np.logaddexp(0, self.V @ W.T + c).sum(axis=1))

    def gradient(self, machine):
        """By W, b and c."""
        W, c = machine.weights[0], machine.thetas[1].field
        p = np.full(len(self.X), 1 / len(self.X)), self.probabilities(machine)
        sides = [
            ((q[:, None] * expit(X @ W.T + c)).T @ X, q @ X, q @ expit(X @ W.T + c))
            for q, X in zip(p, (self.X, self.V), strict=True)
        ]
        return [data - model for data, model in zip(*sides, strict=True)]

    def trained(self, n_epochs, rate, optimizer):
        """Train from weights that tell the hidden units apart."""
        rows, rng = Rows(self.X, self.unit, self.X.dtype), make_rng(0, self.X)
        weights = 0.5 * np.random.default_rng(5).normal(size=(3, self.X.shape[1]))
        thetas = rows.initial_theta, Bernoulli().default_theta(3, weights)
        training = Training(rng, Machine((self.unit, Bernoulli()), thetas, (weights,)))
        learner = MomentLearner(rows, Sums(self), optimizer, batch_size=len(self.X))
        training.optimizer_state = learner.optimizer.init(NATURAL.of(training.machine))
        for k in range(n_epochs):
            report = learner.epoch(training, 0.0, rate(k / n_epochs) if callable(rate) else rate)
        return training, report


@dataclass(frozen=True)
class Sums(ModelPhase):
    """Exact moments; the state is draws of the machine."""

    problem: Problem

    def advance(self, machine, state, X, rng):
        p = self.problem.probabilities(machine)
        return self.problem.V[np.random.default_rng(0).choice(len(p), 100, p=p)]

    def moments(self, machine, state):
        return data_moments(machine, self.problem.V, self.problem.probabilities(machine))

    def visible(self, state):
        return state


PROBLEMS = {
    "l1": (0.01, Problem(Bernoulli(), 4, [9, 1, 1, 3, 1, 1, 0, 1, 1, 0, 1, 0, 5, 1, 1, 9])),
    "l1b": (0.02, Problem(Bernoulli(), 4, [9, 1, 1, 3, 1, 1, 0, 1, 1, 0, 1, 0, 5, 1, 1, 9])),
    "group_lasso": (0.02, Problem(SITES, 8, [9, 1, 1, 7, 1, 1, 1, 1, 5, 1, 1, 5])),
}


def assert_at_the_maximum(name, training, report, atol):
    alpha, problem = PROBLEMS[name]
    slope, *others = problem.gradient(training.machine)
    (W,) = training.machine.weights
    assert_stationary(name, W, slope, alpha, problem.unit, atol)
    for other in others:
        assert_allclose(other, 0, atol=atol)
    assert report["zero_weights"] == np.mean(W == 0) > 0
    assert (W != 0).any()


@pytest.mark.parametrize(
    ("name", "centered"), [("l1", False), ("l1", True), ("l1b", True), ("group_lasso", True)]
)
def test_fits_end_at_the_penalised_maximum(name, centered):
    """Fields follow what the proximal steps take from the weights, so that theirs is one too."""
    alpha, problem = PROBLEMS[name]
    optimizer = SGD(0.8, alpha=alpha, penalty=name, centered=centered, average=False)
    assert_at_the_maximum(name, *problem.trained(700, 0.5, optimizer), 3e-4)


def test_published_means_have_the_zeros_of_the_last_step():
    alpha, problem = PROBLEMS["l1"]
    training, _ = problem.trained(150, 1.0, SGD(alpha=alpha, penalty="l1"))
    (last,), (mean,) = training.machine.weights, training.average.means.weights
    (published,) = training.published().weights
    assert (last == 0).any() and (mean != 0).all()
    assert_array_equal(published, np.where(last == 0, 0, mean))
    machine = training.published()
    training.end()
    assert training.average.is_of(machine)  # so that a warm start continues from the last step
    training.resume_from(machine)
    assert_array_equal(training.machine.weights[0], last)
