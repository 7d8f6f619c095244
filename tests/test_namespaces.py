"""The same machine and data on every array library: array type in, array type out.

What is deterministic equals NumPy's numbers, to 1e-12 in float64 and 1e-5 in float32. Random
numbers differ between libraries and only their law is the same: estimates are held to 5 standard
errors of enumeration (6e-7 for one normal error), with fixed seeds.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from _exact import Exact
from _libraries import OTHER_LIBRARIES
from _machines import enumerable_pairs, random_machine
from numpy.testing import assert_allclose, assert_array_equal

from skrbm import evaluation
from skrbm.arrays import (
    Columns,
    make_rng,
    to_numpy,
)
from skrbm.inference import (
    AIS,
    FIXED_POINTS,
    TAP,
    Gibbs,
    clamped,
    clamped_mean,
    sample,
    solve,
)
from skrbm.learning import (
    NATURAL,
    PENALTIES,
    SGD,
    STARTS,
    Adam,
    ChainPhase,
    FixedPointPhase,
    MachineGradient,
)
from skrbm.machine import condition, data_moments, energy, free_energy, interpolate, uncoupled
from skrbm.units import UNITS, Categorical, log_weight

pytestmark = pytest.mark.arrays
TOLERANCE = {"float64": {"rtol": 1e-12, "atol": 1e-12}, "float32": {"rtol": 1e-5, "atol": 1e-5}}
PAIRS = enumerable_pairs()
pairs = pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
# For tests that take long: faster ones compare the functions of units of all pairs.
SOME = [("bernoulli", "bernoulli"), ("gaussian", "bernoulli"), ("bernoulli", "truncated_gaussian")]
assert set(SOME) <= set(PAIRS)
some_pairs = pytest.mark.parametrize("kinds", SOME, ids="-".join)


class Library:
    """An array library and a dtype, with the conversions that the tests need."""

    def __init__(self, name, dtype):
        self.xp, self.name = pytest.importorskip(name), dtype
        self.dtype = getattr(self.xp, dtype)
        self.tolerance = TOLERANCE[dtype]

    def array(self, x):
        return self.xp.asarray(np.array(x, dtype=self.name))  # a copy, which learning may change

    def machine(self, machine):
        """The machine with all parameters converted."""
        return replace(
            machine,
            thetas=tuple(theta.map(self.array) for theta in machine.thetas),
            weights=tuple(self.array(W) for W in machine.weights),
        )

    def check(self, x, dtype=None):
        """Check library and dtype of a result, and return it as NumPy."""
        assert type(x) is type(self.xp.asarray([0.0]))
        assert x.dtype == (self.dtype if dtype is None else getattr(self.xp, dtype))
        return np.array(to_numpy(x))

    def close(self, x, expected, dtype=None):
        assert_allclose(self.check(x, dtype), expected, **self.tolerance)


@pytest.fixture(params=[*(f"{name} float64" for name in OTHER_LIBRARIES), "torch float32"])
def library(request):
    return Library(*request.param.split())


def make(kinds, library, sizes=(4, 3), **kwargs):
    """The machine in NumPy and in the library, of the library's dtype."""
    machine = random_machine(kinds, sizes, 0, 0.4, dtype=np.dtype(library.name), **kwargs)
    return machine, library.machine(machine)


def data(machine, n=6):
    return Exact(machine).sample(np.random.default_rng(0), n)[0].astype(machine.dtype)


def methods(machine):
    return [(name, own) for name, own in FIXED_POINTS.items() if own.unmet(machine) is None]


def same_moments(library, moments, expected, machine, reference):
    for l, unit in enumerate(machine.units):
        parts = zip(moments.statistics(unit, l), expected.statistics(unit, l), strict=True)
        for part, truth in parts:
            assert (part is None) == (truth is None)
            if part is not None:
                library.close(part, truth)
    for l, W in enumerate(reference.weights):
        out = moments.add_pair(machine, l, library.array(np.zeros(W.shape)), 0.5)
        library.close(out, expected.add_pair(reference, l, np.zeros_like(W), 0.5))


# Parts.


@pytest.mark.parametrize("name", sorted(UNITS))
def test_units(library, name):
    machine, same = make((name, "bernoulli"), library)
    unit, X = machine.units[0], data(machine)
    field = np.random.default_rng(1).normal(size=(6, 4)).astype(library.name)
    precision = np.full((6, 4), 0.25, library.name)
    for extra in ((), (precision,)):
        theta = unit.tilt(machine.thetas[0], field, *extra)
        other = unit.tilt(
            same.thetas[0], library.array(field), *(library.array(part) for part in extra)
        )
        library.close(unit.log_partition(other), unit.log_partition(theta))
        for a, b in zip(unit.mean_variance(other), unit.mean_variance(theta), strict=True):
            library.close(a, b)
        library.close(unit.mode(other), unit.mode(theta))
        drawn = unit.sample(other, make_rng(0, other.field))
        assert library.check(drawn).shape == (6, 4)
    doubled = theta._replace(field=2 * theta.field), other._replace(field=2 * other.field)
    ratio = unit.log_ratio(other, doubled[1])
    assert_allclose(
        library.check(ratio, "float64"), unit.log_ratio(theta, doubled[0]), rtol=1e-5, atol=1e-5
    )
    library.close(
        log_weight(same.thetas[0], library.array(X)), log_weight(machine.thetas[0], X), "float64"
    )
    for a, b in zip(
        unit.initial_theta(Columns(library.array(X))), unit.initial_theta(Columns(X)), strict=True
    ):
        assert b is None or np.allclose(library.check(a, "float64"), b, **library.tolerance)
    for a, b in zip(unit.project(same.thetas[0]), unit.project(machine.thetas[0]), strict=True):
        assert b is None or (library.check(a) == b).all()


@pairs
def test_machines(library, kinds):
    machine, same = make(kinds, library, scale=0.7)
    layers = [x.astype(library.name) for x in Exact(machine).sample(np.random.default_rng(0), 5)]
    others = [library.array(x) for x in layers]
    library.close(energy(same, others), energy(machine, layers), "float64")
    library.close(free_energy(same, others[0]), free_energy(machine, layers[0]), "float64")
    between = interpolate(uncoupled(same), same, 0.3), interpolate(uncoupled(machine), machine, 0.3)
    library.close(condition(between[0], others[0]).field, condition(between[1], layers[0]).field)
    same_moments(
        library, data_moments(same, others[0]), data_moments(machine, layers[0]), same, machine
    )
    assert same.is_finite() and same.has_finite_thetas()
    library.close(same.copy().weights[0], machine.weights[0])
    library.check(same.astype(library.xp.float64).thetas[0].field, "float64")


# Inference.


@pytest.mark.parametrize("kinds", [*PAIRS, ("bernoulli",) * 3], ids="-".join)
def test_fixed_points(library, kinds):
    machine, same = make(kinds, library, (4, 3, 2)[: len(kinds)], scale=0.8)
    X = data(machine)
    X[2] = X[0]
    for _, method in methods(machine):
        first, second = method.state_at(machine, X), method.state_at(same, library.array(X))
        near = method.step(same, second)
        for a, b in zip(near.means, method.step(machine, first).means, strict=True):
            library.close(a, b)
        # Rows converge in different sweeps, so that they are taken apart and put together.
        for damping in (0.0, 0.3):
            expected = solve(method, machine, first, tol=1e-9, max_iter=12, damping=damping)
            solution = solve(method, same, second, tol=1e-9, max_iter=12, damping=damping)
            # In float32 a residual that all but equals the tolerance may fall on either side of it.
            rounding = 1e-2 if library.name == "float32" else 1e-9
            n_iter, residual, converged = map(to_numpy, solution[1:])
            tied = np.abs(np.maximum(residual, expected.residual) / 1e-9 - 1) < rounding
            alike = n_iter == expected.n_iter
            assert (alike | tied).all()
            assert (tied | (converged == expected.converged)).all()
            for a, b in zip(solution.state.means, expected.state.means, strict=True):
                assert_allclose(library.check(a)[alike], b[alike], **library.tolerance)
        value = method.log_partition(same, solution.state)
        library.close(value, method.log_partition(machine, expected.state), "float64")
        same_moments(
            library,
            method.moments(same, solution.state),
            method.moments(machine, expected.state),
            same,
            machine,
        )


@pairs
def test_clamped_fixed_points(library, kinds):
    machine, same = make(kinds, library)
    X, observed = data(machine), np.arange(24).reshape(6, 4) % 3 == 0
    for _, method in methods(machine):
        held = clamped(machine, X, observed)
        expected = solve(method, held, method.state_at(machine, X), tol=1e-9)
        given = library.array(X)
        held = clamped(same, given, library.xp.asarray(observed))
        solution = solve(method, held, method.state_at(same, given), tol=1e-9)
        library.close(solution.state.means[0], expected.state.means[0])


@pairs
def test_samplers(library, kinds):
    method = Gibbs()
    machine, same = make(kinds, library)
    exact = Exact(machine)
    n = 4000
    X, rng = library.array(data(machine, n)), make_rng(0, same.weights[0])
    learning = ChainPhase(Gibbs(2))
    state = learning.init(same, rng, 5, X)
    assert [tuple(layer.shape) for layer in state.chains.layers] == [(5, 4), (5, 3)]
    state = state._replace(chains=sample(method, same, method.state_at(same, X, rng), rng, 3))
    state, phase, model = learning.phases(same, state, X, rng)
    for layer in state.chains.layers:
        library.check(layer)
    assert_array_equal(to_numpy(learning.visible(state)), to_numpy(state.chains.layers[0]))
    # The chains began at the joint law and stay there.
    for moments in (phase, model):
        mean = library.check(moments.statistics(same.units[0], 0).field)
        assert (np.abs(mean - exact.mean(0)) < 5 * np.sqrt(exact.variance(0) / n)).all()
    # In float64, as NumPy's own sum of as many numbers in float32 is off by 2e-5 of it.
    reference = data_moments(machine.astype(np.float64), to_numpy(X).astype(np.float64))
    library.close(
        phase.statistics(same.units[1], 1).field, reference.statistics(machine.units[1], 1).field
    )
    observed = library.xp.asarray(np.tile([True, False, True, False], (n, 1)))
    means = library.check(clamped_mean(same, X, observed, rng, 2))
    assert_array_equal(means[:, ::2], to_numpy(X)[:, ::2])
    assert np.isfinite(means).all()


@some_pairs
def test_ais(library, kinds):
    machine, same = make(kinds, library)
    truth = Exact(machine).log_z
    ais, rng = AIS(n_chains=400, schedule=20), make_rng(0, same.weights[0])
    layers = Exact(machine).sample(np.random.default_rng(0), 400)
    samples = tuple(library.array(layer) for layer in layers)
    for estimate in (
        ais.log_partition(same, rng),
        ais.reverse_log_partition(same, rng, samples),
    ):
        assert type(estimate.value) is type(estimate.std) is float
        assert 0 < estimate.std < 0.1
        assert abs(estimate.value - truth) < 5 * estimate.std


# Learning.


@pytest.mark.parametrize("max_grad_norm", [None, 0.1])
@pytest.mark.parametrize("penalty", ["l1", "l1b", "group_lasso", "l2"])
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("kind", ["sgd", "momentum", "adam"])
def test_optimizers(library, kind, order, penalty, max_grad_norm):
    machine, same = make(("bernoulli", "bernoulli"), library)
    X, method = data(machine), TAP(order=order)
    kinds = {"sgd": SGD, "momentum": partial(SGD, 0.5), "adam": partial(Adam, epsilon=0.1)}
    optimiser = kinds[kind](alpha=0.01, penalty=penalty, max_grad_norm=max_grad_norm)
    states = [optimiser.init(NATURAL.of(m)) for m in (machine, same)]
    for _ in range(3):
        machine, states[0] = update(machine, states[0], X, method, optimiser)
        same, states[1] = update(same, states[1], library.array(X), method, optimiser)
        library.close(same.weights[0], machine.weights[0])
        for a, b in zip(same.thetas, machine.thetas, strict=True):
            library.close(a.field, b.field)


@pytest.mark.parametrize("name", [name for name, penalty in PENALTIES.items() if penalty])
@pytest.mark.parametrize("unit", [None, Categorical(4), Categorical((4, 6, 2))])
def test_proximal_steps(library, name, unit):
    """One length, a number or an array of no dimensions, and a length for each weight."""
    generator, penalty = np.random.default_rng(0), PENALTIES[name]
    X, steps = generator.normal(size=(5, 12)), np.exp(generator.normal(size=(5, 12)))
    X, steps = X.astype(library.name), steps.astype(library.name)
    for lengths in (steps, steps[0, :1].reshape(())):
        taken = penalty(library.array(X), library.array(lengths), unit)
        library.close(taken, penalty(X, lengths, unit))
    library.close(penalty(library.array(X), 0.3, unit), penalty(X, 0.3, unit))


def update(machine, before, X, method, optimiser):
    state = method.step(machine, method.step(machine, method.state_at(machine, X)))
    moments = data_moments(machine, X) - method.moments(machine, state)
    parameters = NATURAL.of(machine)
    after = optimiser.update(parameters, MachineGradient(machine, moments), before, 0.1)
    return NATURAL.machine(machine, parameters), after


@pytest.mark.parametrize("name", sorted(STARTS))
def test_learning_from_every_start(library, name):
    """Solutions are near the sums of enumeration, and a step goes along their difference.

    With normal weights of 0.4 the means that TAP finds are off by less than 0.03.
    """
    machine, same = make(("bernoulli", "truncated_gaussian"), library)
    exact, X = Exact(machine), library.array(data(machine))
    phase = FixedPointPhase(TAP(max_iter=300, damping=0.5), name)
    optimizer, rng = SGD(momentum=0.5, alpha=0.0), make_rng(0, same.weights[0])
    state, velocity = phase.init(same, rng, 8, X), optimizer.init(NATURAL.of(same))
    state, seen, model = phase.phases(same, state, X, rng)
    assert library.check(phase.visible(state)).shape == (8, 4)
    assert_allclose(
        library.check(model.statistics(same.units[0], 0).field), exact.mean(0), atol=0.03
    )
    assert_allclose(
        library.check(model.statistics(same.units[1], 1).field), exact.mean(1), atol=0.03
    )
    same_moments(library, seen, data_moments(machine, to_numpy(X)), same, machine)
    W = library.check(same.weights[0]).copy()
    pair = (seen - model).add_pair(same, 0, library.array(np.zeros(W.shape)), 0.05)
    parameters = NATURAL.of(same)
    optimizer.update(parameters, NATURAL.gradient(same, seen - model), velocity, 0.05)
    after = NATURAL.machine(same, parameters)
    library.close(after.weights[0], W + library.check(pair))


# Evaluation.


@some_pairs
def test_solutions(library, kinds):
    machine, same = make(kinds, library)
    starts = data(machine)
    for name, _ in methods(machine):
        expected = evaluation.solutions(machine, name, starts)
        found = evaluation.solutions(same, name, library.array(starts))
        for part, reference in zip(found.means, expected.means, strict=True):
            library.close(part, reference)
        assert_allclose(found.free_energies, expected.free_energies, rtol=1e-9)
        assert_array_equal(found.labels, expected.labels)
    found = evaluation.solutions(same, random_state=0)
    assert len(found) == found.n_unique[1e-2]
