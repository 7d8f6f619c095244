"""Every optimiser against a plain transcription of its rule."""

from functools import partial

import numpy as np
import pytest
from _machines import gradient, random_machine
from numpy.testing import assert_allclose

from skrbm.inference import TAP
from skrbm.learning import (
    NATURAL,
    SGD,
    Adam,
    ArrayGradient,
    MachineGradient,
    NaturalGradient,
    StepLength,
)
from skrbm.machine import Block, Moments, data_moments
from skrbm.units import Categorical

RATE = 0.03
SHAPES = (3, 4), (2, 3), (4,), (3,), (0,)  # machines may have no hidden units
N_PENALISED = 2


def make(kinds=("bernoulli", "bernoulli"), seed=0, **kwargs):
    return random_machine(kinds, (4, 3), seed, 0.5, **kwargs)


def two_phases(kind, machine, X):
    """Data moments minus model moments, with and without what is no product of row statistics."""
    data = data_moments(machine, X)
    if kind == "rows":
        return data - data_moments(machine, 1 - X)
    method = {"pair": TAP(), "pair and matrices": TAP(order=3)}[kind]
    state = method.state_at(machine, X)
    for _ in range(3):
        state = method.step(machine, state)
    return data - method.moments(machine, state)


def slopes_of(machine, moments):
    """The gradient in the order of the natural parameters: weights first."""
    parts = gradient(machine, moments)
    n = len(machine.weights)
    return [*parts[-n:], *parts[:-n]]


class Rule:
    """The rules of the docstrings, on lists of arrays, of which the first have the penalty."""

    def __init__(self, kind, momentum, alpha=0.0, penalty="l2", max_grad_norm=None, n_penalised=1):
        self.is_adam, self.momentum, self.alpha = kind == "adam", momentum, alpha
        self.penalty = penalty
        self.max_grad_norm, self.n_penalised, self.n = max_grad_norm, n_penalised, 0
        self.first = self.second = None

    def step(self, parameters, slopes):
        if self.first is None:
            self.first = [np.zeros_like(part) for part in parameters]
            self.second = [np.zeros_like(part) for part in parameters]
        norm = np.sqrt(sum((slope**2).sum() for slope in slopes))
        if self.max_grad_norm is not None and norm > self.max_grad_norm:
            slopes = [slope * self.max_grad_norm / norm for slope in slopes]
        slopes = [
            slope - self.alpha * part if i < self.n_penalised and self.penalty == "l2" else slope
            for i, (slope, part) in enumerate(zip(slopes, parameters, strict=True))
        ]
        self.n += 1
        return [self._moved(i, part, slopes[i]) for i, part in enumerate(parameters)]

    def _moved(self, i, part, slope):
        alpha = self.alpha if i < self.n_penalised and self.penalty == "l1" else 0.0
        if not self.is_adam:
            step = self.momentum * self.first[i] + RATE * slope
            after = soft(part + step, alpha * RATE)
            self.first[i] = after - part
            return after
        self.first[i] = 0.9 * self.first[i] + 0.1 * slope
        self.second[i] = 0.999 * self.second[i] + 0.001 * slope**2
        mean, square = self.first[i] / (1 - 0.9**self.n), self.second[i] / (1 - 0.999**self.n)
        length = RATE / (np.sqrt(square) + 1e-8)
        return soft(part + length * mean, alpha * length)


def soft(W, threshold):
    """The minimum of (x - W)² / 2 + threshold abs(x)."""
    return np.sign(W) * np.maximum(np.abs(W) - threshold, 0)


# The natural gradient is that of other moments, and its steps are those of plain ascent.
KINDS = {"sgd": SGD, "momentum": partial(SGD, 0.9), "adam": Adam, "natural": NaturalGradient}
kinds = pytest.mark.parametrize("kind", sorted(KINDS))
penalties = pytest.mark.parametrize(("alpha", "penalty"), [(0.0, "l2"), (0.1, "l2"), (0.1, "l1")])


def both(kind, n_penalised=1, **options):
    """The optimiser and the rule that it is to follow."""
    momentum = 0.9 if kind == "momentum" else 0.0
    return KINDS[kind](**options), Rule(kind, momentum, n_penalised=n_penalised, **options)


@kinds
@penalties
@pytest.mark.parametrize("max_grad_norm", [None, 1e-3, 1.0, 1e3])
def test_arrays_follow_the_rule(kind, alpha, penalty, max_grad_norm):
    """Gradients of norms from about 0.05 to 50, with zeros, so that some are clipped."""
    generator = np.random.default_rng(0)
    options = {"alpha": alpha, "penalty": penalty, "max_grad_norm": max_grad_norm}
    optimizer, rule = both(kind, N_PENALISED, **options)
    ours = tuple(generator.normal(size=shape) for shape in SHAPES)
    plain, state = [part.copy() for part in ours], optimizer.init(ours)
    for scale in (0.01, 1.0, 10.0, 0.1):
        slopes = [
            scale * generator.normal(size=shape) * generator.integers(2, size=shape)
            for shape in SHAPES
        ]
        gradient = ArrayGradient(tuple(slope.copy() for slope in slopes), N_PENALISED)
        state = optimizer.update(ours, gradient, state, RATE)
        plain = rule.step(plain, slopes)
        for one, other in zip(ours, plain, strict=True):
            assert_allclose(one, other, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("kind", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize(
    "alpha, penalty", [(0.0, "l2"), (0.1, "l2"), (0.1, "l1"), (0.1, "group_lasso")]
)
@pytest.mark.parametrize("max_grad_norm", [None, 1.0])
def test_factors_are_those_of_lengths(kind, alpha, penalty, max_grad_norm):
    """Of all columns, or of some: these have no effect on each other."""
    generator = np.random.default_rng(0)
    optimizer = both(kind, alpha=alpha, penalty=penalty, max_grad_norm=max_grad_norm)[0]
    first = generator.normal(size=(3, 4)), generator.normal(size=4)
    gradients = [(generator.normal(size=(3, 4)), generator.normal(size=4)) for _ in range(4)]

    def learned(factors, rate):
        ours = tuple(part.copy() for part in first)
        state, units = optimizer.init(ours), (Categorical(2), None)
        for slopes in gradients:
            gradient = ArrayGradient(slopes, 1, units, factors)
            state = optimizer.update(ours, gradient, state, rate)
        return ours

    some = np.array([1.0, 1.0, 3.0, 3.0])
    short, long = (learned(None, rate) for rate in (RATE, 3 * RATE))
    for found, *expected in zip(learned((some, some), RATE), short, long, strict=True):
        assert_allclose(found, np.where(some == 1, *expected), rtol=1e-10, atol=1e-13)


@kinds
@penalties
@pytest.mark.parametrize("max_grad_norm", [None, 0.1])
@pytest.mark.parametrize("moments", ["rows", "pair", "pair and matrices"])
def test_machines_follow_the_rule(moments, kind, alpha, penalty, max_grad_norm):
    machine = make()
    X = np.random.default_rng(0).integers(2, size=(5, 4)).astype(float)
    optimizer, rule = both(kind, alpha=alpha, penalty=penalty, max_grad_norm=max_grad_norm)
    plain = [part.copy() for part in NATURAL.of(machine)]
    state = optimizer.init(NATURAL.of(machine))
    for _ in range(4):
        difference, parameters = two_phases(moments, machine, X), NATURAL.of(machine)
        plain = rule.step(plain, slopes_of(machine, difference))
        state = optimizer.update(parameters, MachineGradient(machine, difference), state, RATE)
        machine = NATURAL.machine(machine, parameters)
        for one, other in zip(NATURAL.of(machine), plain, strict=True):
            assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def step(machine, moments):
    parameters = NATURAL.of(machine)
    SGD(alpha=0.0).update(parameters, MachineGradient(machine, moments), None, RATE)
    return NATURAL.machine(machine, parameters)


def test_real_units_learn_their_precision_and_keep_it_positive():
    machine = make(("gaussian", "bernoulli"))
    X = np.random.default_rng(1).normal(size=(5, 4))
    moments = two_phases("rows", machine, X)
    slopes, old = gradient(machine, moments), machine.copy()
    after = step(machine, moments)
    assert_allclose(after.thetas[0].precision, old.thetas[0].precision + RATE * slopes[1])
    far = Moments((Block((np.full((1, 4), 1e3), np.zeros((1, 3))), (None, None), 1.0),))
    after = step(old, far)
    assert (after.thetas[0].precision == after.units[0].min_precision).all()


@kinds
def test_norms_whose_squares_overflow_are_clipped(kind):
    slopes = (np.array([3e200, 0.0]), np.array([[4e200]]))
    values = tuple(np.zeros_like(slope) for slope in slopes)
    optimizer, rule = both(kind, 0, alpha=0.0, max_grad_norm=5.0)
    optimizer.update(values, ArrayGradient(slopes, 0), optimizer.init(values), RATE)
    expected = rule.step([np.zeros_like(s) for s in slopes], [slope / 1e200 for slope in slopes])
    for one, other in zip(values, expected, strict=True):
        assert_allclose(one, other, rtol=1e-10)


@pytest.mark.parametrize("Optimizer", [SGD, Adam])
def test_the_penalty_of_a_prior_distribution(Optimizer):
    """The log-density of a normal weight is -p W² / 2, a share of p / n for each of n rows.

    The precision p is 1 for few columns; for many, a sum of weights, one of each column, has a
    standard deviation of sqrt(50).
    """
    auto = Optimizer(alpha="auto", max_grad_norm=3.0)
    for n_columns in (1, 50):
        assert auto.for_data(250, n_columns) == Optimizer(alpha=0.004, max_grad_norm=3.0)
    precision = auto.for_data(40, 700).alpha * 40
    assert_allclose(np.sqrt(700 / precision), np.sqrt(50))
    # Few rows for each column: up to four times as much, but no more than 12 by that.
    for n_rows, n_columns, expected in (
        (450, 100, 2.0),
        (300, 100, 4.5),  # 2 (4.5 / 3)²
        (225, 100, 8.0),
        (10, 100, 8.0),
        (10, 40, 4.0),
        (180, 180, 12.0),
        (10, 700, 14.0),
    ):
        assert_allclose(auto.for_data(n_rows, n_columns).alpha * n_rows, expected)
    assert Optimizer(alpha=0.3).for_data(50, 700) == Optimizer(alpha=0.3)
    for alpha in ("strong", -1.0, True, None):
        with pytest.raises(ValueError, match="alpha"):
            Optimizer(alpha=alpha)


def test_steps_with_momentum_are_shorter():
    """All steps together that a gradient leads to are 1 / (1 - momentum) as long."""
    rule = StepLength(1.0, cap=1.0)
    plain, fast = (SGD(m, alpha=0.0).step_length(rule, 5).cap for m in (0.0, 0.75))
    assert_allclose(fast, plain / 4)


@pytest.mark.parametrize("alpha, cap, of_bits", [(0.1, 1.0, 3.0), (0.5, 1.0, 2.0), (2.0, 0.5, 1.0)])
def test_no_step_reverses_weights(alpha, cap, of_bits):
    """Nor one of bits, which are longer."""
    rule = SGD(alpha=alpha).step_length(StepLength(1.0, cap=1.0, of_bits=3.0), 5)
    assert (rule.cap, rule.of_bits) == (cap, of_bits)
