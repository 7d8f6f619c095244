"""The length of steps, against divergences that are summed, and what happens where fits diverge."""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from _exact import Exact, free_energy
from _fractional import all_rows
from _machines import bits, random_machine
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, log_softmax
from sklearn.exceptions import ConvergenceWarning

from skrbm.arrays import make_rng
from skrbm.exceptions import DivergenceError
from skrbm.inference import Gibbs
from skrbm.inputs import DistinctRows, Rows
from skrbm.learning import (
    CHAINS,
    NATURAL,
    SGD,
    Adam,
    BatchLearner,
    ChainPhase,
    ModelPhase,
    MomentLearner,
    NaturalGradient,
    StepLength,
    Trainer,
    Training,
)
from skrbm.learning._chains import Run
from skrbm.learning._length import LengthState
from skrbm.machine import Machine, data_moments
from skrbm.machine import free_energy as own_free_energy
from skrbm.units import UNITS, Bernoulli, Multinomial, Theta

ROWS = all_rows(5)
BINARY = ("bernoulli", "bernoulli")


def make(kinds=BINARY, strength=0.5):
    return random_machine(kinds, (5, 3), 0, strength)


def moved(machine, length, seed=1):
    """The machine after a step along a random direction of all natural parameters."""
    generator, machine = np.random.default_rng(seed), machine.copy()
    parameters = NATURAL.of(machine)
    for part in parameters:
        part += length * generator.standard_normal(part.shape)
    return NATURAL.machine(machine, parameters)


def divergence(machine, other):
    """KL(machine || other) of visible rows."""
    log_p, log_q = (log_softmax(-own_free_energy(one, ROWS)) for one in (machine, other))
    return np.exp(log_p) @ (log_p - log_q)


@pytest.mark.parametrize("kinds", [BINARY, ("bernoulli", "gaussian"), ("spin", "spin")])
@pytest.mark.parametrize("wanted", [1e-6, 1e-4])
def test_a_step_has_the_divergence_that_is_asked_for(kinds, wanted):
    """Measured at a step of another length, by all rows with their probabilities."""
    machine, rule = make(kinds), StepLength(wanted, cap=math.inf)
    rows = 2 * ROWS - 1 if kinds[0] == "spin" else ROWS
    p = np.exp(-free_energy(machine, rows) - Exact(machine).log_z)

    def change(length):
        return free_energy(moved(machine, length), rows) - free_energy(machine, rows)

    state, part = rule.next(LengthState(1.0, 1.0), change(2e-3), 2e-3, p)
    step = change(state.rate)
    log_ratio = np.log(p @ np.exp(-step))
    exact = p @ step + log_ratio  # KL of the old from the new law
    assert exact == pytest.approx(wanted, rel=0.05)
    assert part == pytest.approx(min(1, state.rate / 2e-3), rel=1e-9)


NUMBERS = np.array([-1.0, 1.0])  # changes of free energies with a standard deviation of 1


def test_lengths_have_limits():
    """By the divergence, the cap, a growth of a half, and at first a guess."""
    rule = StepLength(0.02, cap=0.5)
    assert rule.init().rate == 0.05 and StepLength(0.02, cap=0.01).init().rate == 0.01
    state = LengthState(0.1, 1.0, 100)
    assert rule.next(state, 0.1 * NUMBERS, 0.1)[0].rate == pytest.approx(0.15)
    grown = LengthState(10.0, 1e-3, 100)
    assert rule.next(grown, 1e-2 * NUMBERS, 10.0)[0].rate == 0.5
    after, part = rule.next(state._replace(rate=5.0), 5 * NUMBERS, 5.0)
    assert after.rate == pytest.approx(0.2) and after.n_steps == 101  # sqrt(2 * 0.02)
    assert part == pytest.approx(0.2 / 5)
    assert rule.rejected(state) == (0.05, 1.0, 101)


@pytest.mark.parametrize("at_origins, largest", [(NUMBERS, 0.2), (-NUMBERS, 0.05)])
def test_the_stricter_of_two_limits_counts(at_origins, largest):
    """0.02 nats in all, or 0.0025 within modes; chains stay where they are, or alternate."""
    rule, state = StepLength(0.02, cap=9.0, within=0.0025), LengthState(1.0, 1.0)
    after, part = rule.next(state, NUMBERS, 1.0, at_origins=at_origins)
    assert (after.rate, part) == pytest.approx((largest, largest))


@pytest.mark.parametrize("visible", ["bernoulli", "gaussian", "truncated_gaussian"])
def test_columns_add_to_the_divergence(visible):
    """That of ten times as many columns is ten times as large, but that of words is of a row."""
    units = UNITS[visible](), Bernoulli()
    few, many = (StepLength.of_chains(units, n) for n in (200, 2000))
    assert many.divergence == pytest.approx(10 * few.divergence) and many.cap == few.cap
    units = Multinomial(np.array([3.0])), Bernoulli()
    few, many = (StepLength.of_chains(units, n) for n in (2000, 20_000))
    assert many == few


def test_between_modes_all_columns_change_together():
    """The limits of continued chains of bits grow with the square of the number of columns."""
    units = Bernoulli(), Bernoulli()
    few, many = (StepLength.of_chains(units, n, continued=True) for n in (1000, 10_000))
    assert many.divergence == pytest.approx(100 * few.divergence)
    assert many.within == pytest.approx(100 * few.within)
    assert many.within < many.divergence / 100
    adam = Adam(alpha=0.0).step_length(few, 1000)
    assert adam.divergence / adam.within == pytest.approx(few.divergence / few.within)
    assert NaturalGradient(alpha=0.0).step_length(few, 1000).within is None


@pytest.mark.parametrize("start", CHAINS)
def test_only_continued_chains_have_a_limit_within_modes(start):
    phase = CHAINS[start](Gibbs())
    rule = phase.step_length(random_machine(BINARY, (300, 3), 0, 0.1))
    assert (rule.within is not None) == (start in ("persistent", "balanced"))
    largest = {"tempered": 0.1, "weighted": 0.1, "persistent": 56.25, "balanced": 56.25}
    assert rule.divergence == pytest.approx(largest.get(start, 22.5))


# Learners.


class AllRows(NamedTuple):
    p: Any = None


@dataclass(frozen=True)
class Exactly(ModelPhase):
    """Moments by all visible rows with their probabilities."""

    def init(self, machine, rng, n, X):
        return AllRows()

    def advance(self, machine, state, X, rng):
        log_p = -own_free_energy(machine, ROWS)
        p = np.exp(log_p - log_p.max())
        return AllRows(p / p.sum())

    def moments(self, machine, state):
        return data_moments(machine, ROWS, state.p)

    def visible(self, state):
        return ROWS

    def weights(self, state):
        return state.p


PLAIN = SGD(alpha=0.0, centered=False, average=False)


def learner_of(machine, optimizer, rule, phase=None):
    X = bits(60)[:, :5]
    rows = Rows(X, machine.units[0], machine.dtype)
    phase = Exactly() if phase is None else phase
    learner = MomentLearner(rows, phase, optimizer, batch_size=60, length=rule)
    rng = make_rng(0, X)
    state = learner.optimizer.init(NATURAL.of(machine))
    return learner, Training(rng, machine.copy(), phase.init(machine, rng, 1, X), state)


@pytest.mark.parametrize("centered", [False, True])
def test_steps_of_a_fit_come_up_to_the_divergence_and_not_beyond(centered):
    """Of 30 steps, each measured, the longest has the divergence that is allowed."""
    wanted, found = 1e-3, []
    rule = StepLength(wanted, cap=100.0, every=1)
    learner, training = learner_of(make(), replace(PLAIN, centered=centered), rule)
    for _ in range(30):
        before = training.machine.copy()
        learner.epoch(training, 0.0, 1.0)
        found.append(divergence(before, training.machine))
    assert 0.7 * wanted < max(found) < 1.2 * wanted
    assert training.length_state.n_steps == 30


def test_the_length_is_the_rate_of_the_schedule_times_that_of_the_rule():
    learner, training = learner_of(make(), PLAIN, StepLength(1e3, cap=0.02, every=100))
    assert learner.epoch(training, 0.0, 0.5)["learning_rate"] == pytest.approx(0.01)
    training.length_factor = 0.5
    assert learner.epoch(training, 0.0, 0.5)["learning_rate"] == pytest.approx(0.005)
    before = training.machine.copy()
    assert learner.epoch(training, 0.0, 0.0)["learning_rate"] == 0
    assert_array_equal(training.machine.weights[0], before.weights[0])


def test_divergence_within_modes():
    """Of 20,000 chains in two modes, against sums over pairs of rows, one sweep apart.

    The data are in one mode; 4 % are five standard deviations.
    """
    W, fields = np.full((1, 5), 4.0), (Theta(np.full(5, -2.0)), Theta(np.full(1, -10.0)))
    machine = Machine((Bernoulli(), Bernoulli()), fields, (W,))
    p = np.exp(-own_free_energy(machine, ROWS) - Exact(machine).log_z)
    generator, phase = np.random.default_rng(0), ChainPhase(Gibbs())
    on = p * (ROWS.sum(axis=1) > 2)
    starts, X = (ROWS[generator.choice(32, 20_000, p=q / q.sum())] for q in (p, on))
    rows, rule = Rows(X, machine.units[0], machine.dtype), StepLength(100.0, within=1.0)
    learner = MomentLearner(rows, phase, PLAIN, batch_size=len(X), length=rule)
    rng = make_rng(0, X)
    state = Run(Gibbs().state_at(machine, starts, rng))
    training = Training(rng, machine.copy(), state, PLAIN.init(NATURAL.of(machine)))
    learner.epoch(training, 0.0, 1.0)
    step = own_free_energy(training.machine, ROWS) - own_free_energy(machine, ROWS)
    upward = expit(ROWS @ W[0] - 10)[:, None]
    upward = np.hstack([1 - upward, upward])  # p(h | v)
    downward = p[:, None] * upward
    downward /= downward.sum(axis=0)  # p(v | h)
    pairs = p[:, None] * (upward @ downward.T)
    within = 0.5 * np.sum(pairs * (step[:, None] - step) ** 2)
    assert within < 0.3 * (p @ step**2 - (p @ step) ** 2)
    assert 0.05 * training.length_state.deviation == pytest.approx(10 * within**0.5, rel=0.04)


@dataclass(frozen=True)
class Failing(Exactly):
    """Gives moments that are no numbers in some of the batches, counted from 0."""

    fails_in: tuple = ()
    seen: Any = None

    def moments(self, machine, state):
        self.seen.append(1)
        moments = super().moments(machine, state)
        return moments.scaled(np.inf) if len(self.seen) - 1 in self.fails_in else moments


@pytest.mark.parametrize("optimizer", [SGD(), SGD(0.5), Adam()], ids=["sgd", "momentum", "adam"])
@pytest.mark.parametrize("average", [False, True])
def test_an_epoch_that_diverges_is_repeated_with_half_the_length(optimizer, average):
    """It then leads where it would have led by half the length, without what has diverged."""
    rule, ends = StepLength(1e3, cap=0.02, every=5), []
    optimizer = replace(optimizer, alpha=0.0, centered=False, average=average)
    for fails_in in ((12, 13), ()):
        phase = Failing(fails_in=fails_in, seen=[])
        learner, training = learner_of(make(), optimizer, rule, phase)
        for epoch in range(14):
            if epoch == 12 and not fails_in:
                training.length_factor = 0.25
            with np.errstate(invalid="ignore"):
                learner.epoch(training, 0.0, 1.0)
        assert training.length_factor == 0.25
        assert training.n_restored == len(fails_in)
        ends.append(training)
    for one, other in zip(*(NATURAL.of(end.published()) for end in ends), strict=True):
        assert_allclose(one, other, rtol=1e-9)
    assert ends[0].length_state.n_steps == ends[1].length_state.n_steps


class Diverging(BatchLearner):
    """Adds 1 to a parameter in each epoch; the first ``n_times`` tries of the third diverge."""

    def __init__(self, n_times, length):
        super().__init__(DistinctRows([np.arange(2.0)[:, None]]), np.arange(2), 2, length=length)
        self.n_times = n_times

    def step(self, training, index, rate):
        field = training.machine.thetas[0].field
        field += 1
        if training.n_epochs == 2 and self.n_times > 0:
            self.n_times -= 1
            raise DivergenceError("no integral")
        return {}, True


def run(n_times, length):
    machine, published = make(), []
    training = Training(make_rng(0, np.ones(1)), machine, "state", "velocity")
    trainer = Trainer(
        Diverging(n_times, length),
        lambda found, state: published.append(found.thetas[0].field - machine.thetas[0].field),
        lambda found, state: {},
        lambda row, **options: None,
        n_iter=5,
        rate=lambda progress: 1.0,
    )
    return trainer, training, published


@pytest.mark.parametrize("n_times", [0, 1, 3])
def test_a_fit_that_is_restored_comes_to_its_end(n_times):
    trainer, training, published = run(n_times, StepLength(0.1))
    trainer.run(training)
    assert_allclose(published, np.full((1, 5), 5.0))
    assert trainer.ended == "n_iter" and training.length_factor == 0.5**n_times


def test_a_fit_that_diverges_again_and_again_ends_with_a_warning():
    """And with the parameters of the last good epoch."""
    trainer, training, published = run(4, StepLength(0.1))
    with pytest.warns(ConvergenceWarning, match="no integral"):
        trainer.run(training)
    assert_allclose(published, np.full((1, 5), 2.0))
    assert trainer.ended == "diverged" and training.n_epochs == 2
    assert training.optimizer_state is None
