"""Gradient ascent against a plain transcription of its rule."""

import numpy as np
import pytest
from _exact import log_likelihood
from _machines import gradient, random_machine
from numpy.testing import assert_allclose, assert_array_equal

from skrbm._optim import PENALTIES, SCHEDULES, SGD, Adam, train_step
from skrbm.arrays import make_rng
from skrbm.inference import STARTS, TAP, Gibbs, NaiveMeanField, solve
from skrbm.machine import Block, Moments, data_moments

RATE = 0.03


def make(kinds=("bernoulli", "bernoulli"), seed=0, **kwargs):
    return random_machine(kinds, (4, 3), seed, 0.5, **kwargs)


def two_phases(kind, machine, X):
    """Data moments minus model moments, with and without what is no product of row statistics."""
    data = data_moments(machine, X)
    if kind == "rows":
        return data - data_moments(machine, 1 - X)
    method = {"pair": TAP(), "pair and matrices": TAP(order=3)}[kind]
    state = method.start(machine, X)
    for _ in range(3):
        state = method.step(machine, state)
    return data - method.moments(machine, state)


def rule(theta, W, velocity, slopes, momentum, alpha, penalty):
    """The rule of the docstring of SGD, for a field and a weight matrix."""
    shrink = {"l2": W, "l1": np.sign(W)}[penalty]
    v_theta = momentum * velocity[0] + RATE * slopes[0]
    v_W = momentum * velocity[1] + RATE * (slopes[1] - alpha * shrink)
    return theta + v_theta, W + v_W, (v_theta, v_W)


@pytest.mark.parametrize("kind", ["rows", "pair", "pair and matrices"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize(("alpha", "penalty"), [(0.0, "l2"), (0.1, "l2"), (0.1, "l1")])
def test_updates_follow_the_rule(kind, momentum, alpha, penalty):
    machine = make()
    X = np.random.default_rng(0).integers(2, size=(5, 4)).astype(float)
    optimiser = SGD(momentum, alpha, penalty)
    velocity = optimiser.init(machine)
    field, W = machine.thetas[1].field.copy(), machine.weights[0].copy()
    expected_velocity = (0.0, 0.0)
    for _ in range(4):
        moments = two_phases(kind, machine, X)
        slopes = gradient(machine, moments)[1:]
        field, W, expected_velocity = rule(
            field, W, expected_velocity, slopes, momentum, alpha, penalty
        )
        machine, velocity = optimiser.update(machine, velocity, moments, RATE)
        assert_allclose(machine.thetas[1].field, field, rtol=1e-12)
        assert_allclose(machine.weights[0], W, rtol=1e-12)


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_all_layers_of_a_deep_machine_move(momentum):
    machine = random_machine(("bernoulli", "bernoulli", "bernoulli"), (4, 3, 2), 0)
    before, method, optimiser = machine.copy(), TAP(), SGD(momentum)
    state = method.step(machine, method.start(machine, np.full((2, 4), 0.3)))
    moments = method.moments(machine, state)
    slopes = gradient(before, moments)
    after, _ = optimiser.update(machine, optimiser.init(machine), moments, RATE)
    new = [theta.field for theta in after.thetas] + list(after.weights)
    old = [theta.field for theta in before.thetas] + list(before.weights)
    for a, b, slope in zip(new, old, slopes, strict=True):
        assert_allclose(a, b + RATE * slope, rtol=1e-12)


def test_real_units_learn_their_precision_and_keep_it_positive():
    machine = make(("gaussian", "bernoulli"))
    X = np.random.default_rng(1).normal(size=(5, 4))
    moments = two_phases("rows", machine, X)
    slopes, old = gradient(machine, moments), machine.copy()
    after, _ = SGD().update(machine, None, moments, RATE)
    assert_allclose(after.thetas[0].precision, old.thetas[0].precision + RATE * slopes[1])
    far = Moments((Block((np.full((1, 4), 1e3), np.zeros((1, 3))), (None, None), 1.0),))
    after, _ = SGD().update(old, None, far, RATE)
    assert (after.thetas[0].precision == after.units[0].min_precision).all()


def test_weights_are_written_in_place_and_fields_are_not():
    machine = make()
    W, field = machine.weights[0], machine.thetas[0].field
    before = field.copy()
    moments = two_phases("rows", machine, np.ones((2, 4)))
    after, velocity = SGD().update(machine, None, moments, RATE)
    assert after.weights[0] is W
    assert velocity is None
    assert_array_equal(field, before)


@pytest.mark.parametrize("momentum", [0.0, 0.5])
@pytest.mark.parametrize("kind", ["rows", "pair", "pair and matrices"])
def test_single_precision_is_kept(momentum, kind):
    machine = make(dtype=np.float32)
    optimiser = SGD(momentum, alpha=0.1)
    velocity = optimiser.init(machine)
    moments = two_phases(kind, machine, np.ones((2, 4), np.float32))
    machine, velocity = optimiser.update(machine, velocity, moments, RATE)
    assert machine.weights[0].dtype == machine.thetas[0].field.dtype == np.float32
    if momentum:
        thetas, weights = velocity
        assert weights[0].dtype == thetas[0].field.dtype == np.float32


def test_powers_of_the_weights_are_those_after_the_update():
    machine = make()
    assert machine.squares[0].any()  # now cached
    after, _ = SGD().update(machine, None, two_phases("rows", machine, np.ones((2, 4))), RATE)
    assert_allclose(after.squares[0], after.weights[0] ** 2)


def test_penalties_are_derivatives():
    """Of the halved squares and of the absolute values."""
    W = np.array([[1.5, -0.2], [0.7, -3.0]])
    norms = {"l2": lambda W: 0.5 * (W**2).sum(), "l1": lambda W: np.abs(W).sum()}
    assert set(norms) == set(PENALTIES)
    for name, slope in PENALTIES.items():
        for index in np.ndindex(W.shape):
            shift = np.zeros_like(W)
            shift[index] = 1e-6
            change = (norms[name](W + shift) - norms[name](W - shift)) / 2e-6
            assert_allclose(slope(W)[index], change, rtol=1e-6)
    assert PENALTIES["l1"](np.zeros(1)) == 0


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_schedules_start_at_one_and_never_rise(name):
    values = [SCHEDULES[name](progress) for progress in np.linspace(0, 1, 50)]
    assert values[0] == pytest.approx(1)
    assert (np.diff(values) <= 0).all()
    assert values[-1] >= 0


def test_schedules_are_what_they_are_called():
    for progress in (0.0, 0.3, 1.0):
        assert SCHEDULES["constant"](progress) == 1
        assert SCHEDULES["linear"](progress) == pytest.approx(1 - progress)
        assert SCHEDULES["cosine"](progress) == pytest.approx((1 + np.cos(np.pi * progress)) / 2)
        # Three powers of ten over the whole: 1e-2 to 1e-5 in the paper.
        assert np.log10(SCHEDULES["exponential"](progress)) == pytest.approx(-3 * progress)


def test_train_step_applies_data_minus_model():
    X = np.random.default_rng(2).integers(2, size=(5, 4)).astype(float)
    machine, method = make(), Gibbs()
    other, rngs = machine.copy(), [make_rng(3, X), make_rng(3, X)]
    states = [method.init(m, rng, 6, X) for m, rng in zip((machine, other), rngs, strict=True)]
    _, data, model = method.phases(machine, states[0], X, rngs[0])
    by_hand, _ = SGD().update(machine, None, data - model, RATE)
    stepped, velocity, state = train_step(other, None, states[1], X, rngs[1], method, SGD(), RATE)
    assert_allclose(stepped.weights[0], by_hand.weights[0], rtol=1e-12)
    assert_allclose(stepped.thetas[0].field, by_hand.thetas[0].field, rtol=1e-12)
    assert velocity is None and len(state.layers[0]) == 6


@pytest.mark.parametrize("name", [*sorted(STARTS), "gibbs"])
@pytest.mark.parametrize("kinds", [("bernoulli", "bernoulli"), ("gaussian", "bernoulli")])
def test_learning_raises_the_exact_log_likelihood(name, kinds):
    """Data of two opposite patterns with noise, which independent units cannot describe."""
    generator = np.random.default_rng(4)
    X = np.where(generator.integers(2, size=(60, 1)) == 1, [1, 1, 0, 0], [0, 0, 1, 1]).astype(float)
    X = X + 0.3 * generator.normal(size=X.shape) if "gaussian" in kinds else X
    machine = random_machine(kinds, (4, 3), 0, 0.1, spread=0.1)
    # Independent units fitted to the data: what learning has to beat.
    machine = type(machine)(
        machine.units, (machine.units[0].initial_theta(X), machine.thetas[1]), machine.weights
    )
    before = log_likelihood(machine, X).mean()
    method = Gibbs() if name == "gibbs" else STARTS[name](TAP(damping=0.5))
    rng, optimiser, velocity = make_rng(5, X), SGD(momentum=0.5), None
    velocity, state = optimiser.init(machine), method.init(machine, rng, 60, X)
    for _ in range(300):
        machine, velocity, state = train_step(
            machine, velocity, state, X, rng, method, optimiser, 0.05
        )
    assert log_likelihood(machine, X).mean() > before + 0.4


@pytest.mark.parametrize("name", sorted(STARTS))
def test_starts_keep_their_number_and_solve(name):
    """Whatever the number of rows in a batch; every solution is one of the fixed point."""
    machine, method = make(), NaiveMeanField(tol=1e-20, max_iter=500)
    starts, X = STARTS[name](method), np.random.default_rng(6).random((5, 4)).round()
    rng = make_rng(7, X)
    state = starts.init(machine, rng, 7, X)
    for n_rows in (5, 2, 5):
        state, data, model = starts.phases(machine, state, X[:n_rows], rng)
        assert starts.visible(state).shape == (7, 4)
        assert len(data.blocks[0].means[0]) == n_rows
        (block,) = model.blocks
        again = solve(method, machine, method.start(machine, block.means[0]))
        assert_allclose(again.state.means[0], block.means[0], atol=1e-8)
        assert block.weight == pytest.approx(1 / 7)
        assert starts.report(state)["n_unconverged"] == 0
        assert starts.report(state)["n_sweeps"] >= 1


def test_data_starts_are_the_last_rows_of_data():
    machine, rng = make(), None
    X = np.arange(24.0).reshape(6, 4) / 24
    starts = STARTS["data"](NaiveMeanField())
    state = starts.init(machine, rng, 4, X[:2])
    assert_array_equal(starts.visible(state), X[[0, 1, 0, 1]])
    state, _, _ = starts.phases(machine, state, X[2:5], rng)
    assert_array_equal(starts.visible(state), X[[2, 3, 4, 0]])
    state, _, _ = starts.phases(machine, state, X[1:], rng)
    assert_array_equal(starts.visible(state), X[1:5])


def test_unconverged_solutions_are_reported():
    machine, X = make(), np.full((3, 4), 0.9)
    starts = STARTS["data"](NaiveMeanField(max_iter=1, tol=0.0))
    state, _, _ = starts.phases(machine, starts.init(machine, None, 3, X), X, None)
    assert starts.report(state) == {"n_unconverged": 3.0, "n_sweeps": 1.0}


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_steps_of_adam_are_those_of_torch(scale):
    """Gradients of any size, with zeros; torch.optim.Adam descends where this one ascends."""
    torch = pytest.importorskip("torch")
    generator = np.random.default_rng(7)
    values = generator.normal(size=(3, 2))
    parameter = torch.nn.Parameter(torch.tensor(values))
    theirs = torch.optim.Adam([parameter], lr=RATE)
    ours = Adam()
    state = ours.init((values,))
    for _ in range(6):
        slope = scale * generator.normal(size=(3, 2)) * generator.integers(2, size=(3, 2))
        parameter.grad = torch.tensor(-slope)
        theirs.step()
        state, (step,) = ours.steps(state, (slope,), RATE)
        values = values + step
        assert_allclose(values, parameter.detach().numpy(), rtol=1e-10, atol=1e-14)
