"""Automatic learning rates of deep machines: what they compare, and where learning by them ends."""

from dataclasses import replace

import numpy as np
import pytest
from _exact import free_energy
from _machines import random_machine
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from skrbm import DeepTAPMachine
from skrbm.arrays import make_rng
from skrbm.inference import TAP
from skrbm.inputs import Rows
from skrbm.learning import (
    SGD,
    AutomaticLearner,
    AutomaticRate,
    DeepPhase,
    FixedPointPhase,
    RateState,
    Training,
)

STATES = ((np.arange(16)[:, None] >> np.arange(4)) & 1).astype(float)
PHASE = DeepPhase(FixedPointPhase(TAP(max_iter=50)))


def make(sizes=(4, 3, 2), strength=0.3):
    return random_machine(("bernoulli",) * len(sizes), sizes, 0, strength=strength)


def data(n=200, seed=1):
    """Bits of which the first two and the last two are mostly equal."""
    generator = np.random.default_rng(seed)
    X = np.repeat(generator.integers(2, size=(n, 2)), 2, axis=1)
    return np.abs(X - (generator.random(X.shape) < 0.1)).astype(float)


def log_probabilities(machine):
    """Of all states, by a sum over the first hidden layer of two."""
    (W1, W2), (b, c1, c2) = machine.weights, (theta.field for theta in machine.thetas)
    H = ((np.arange(2 ** len(c1))[:, None] >> np.arange(len(c1))) & 1).astype(float)
    hidden = H @ c1 + np.logaddexp(0, H @ W2.T + c2).sum(axis=1)
    weights = STATES @ b + logsumexp(STATES @ W1.T @ H.T + hidden, axis=1)
    return weights - logsumexp(weights)


@pytest.mark.parametrize(
    "sizes, tolerance", [((4, 3), 1e-12), ((4, 3, 2), 2e-3), ((4, 3, 2, 2), 2e-3)]
)
def test_free_energies_of_visible_values(sizes, tolerance):
    """Exact for one hidden layer, and up to the error of TAP at weak couplings for more."""
    machine = make(sizes)
    assert_allclose(
        PHASE.free_energy(machine, STATES), free_energy(machine, STATES), atol=tolerance
    )


def learning(Learner, X, machine):
    """What a learner of batches of 20 rows changes, and the learner."""
    rows, rng = Rows(X, machine.units[0], np.float64), make_rng(0, X)
    training = Training(rng, machine.copy(), PHASE.init(machine, rng, 20, X))
    return training, Learner(rows, PHASE, SGD(), batch_size=20)


def test_steps_stay_in_the_trust_region():
    """By enumeration, where nothing but the region holds steps back; on average over 100 steps."""
    X, machine, found = data(), make(), []
    largest = 2e-3

    class Watched(AutomaticLearner):
        def _take(self, training, *args):
            before = log_probabilities(training.machine)
            report = super()._take(training, *args)
            change = before - log_probabilities(training.machine)
            found.append(np.exp(before) @ change)
            return report

    training, learner = learning(Watched, X, machine)
    learner.rule = replace(AutomaticRate(), factor=1e9, largest_divergence=largest)
    for _ in range(15):
        learner.epoch(training, 0.0, 1.0)
    assert 0.1 < np.mean(found[50:]) / (largest * 4) < 1.3


@pytest.mark.law
@pytest.mark.filterwarnings("ignore:the tap-log-likelihood")
def test_likelihood_of_few_bits():
    """Exactly, beside the entropy of the data, which is the maximum; independent bits have 0.49.

    TAP is not maximum likelihood: over five seeds the distance was 0.05 to 0.25 nats, and at a
    fixed rate of 0.3 it was 0.24 to 0.33.
    """
    X = data(400)
    params = {"n_iter": 20, "n_iter_pretrain": 5, "alpha": 0.0, "random_state": 0}
    machine = DeepTAPMachine((4, 3), learning_rate="auto", **params).fit(X)
    p = np.bincount((X @ 2 ** np.arange(4)).astype(int), minlength=16) / len(X)
    distance = p[p > 0] @ (np.log(p[p > 0]) - log_probabilities(machine.machine_)[p > 0])
    assert 0 <= distance < 0.35
    assert len(set(machine.history_["learning_rate"])) == 20


def test_learning_takes_back_steps_and_goes_on():
    """At a first rate of 1e6 the machine is lost, and so it is at many halves of that."""

    class Wild(AutomaticRate):
        def init(self):
            return RateState(1e6)

    X, machine = data(), make(strength=0.01)
    training, learner = learning(AutomaticLearner, X, machine)
    learner.rule = Wild()
    for _ in range(10):
        learner.epoch(training, 0.0, 1.0)
    p = np.bincount((X @ 2 ** np.arange(4)).astype(int), minlength=16) / len(X)
    assert p @ log_probabilities(training.machine) > p @ log_probabilities(machine) - 0.05
    assert training.rate_state.rate < 100
