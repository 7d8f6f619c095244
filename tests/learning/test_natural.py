"""The natural gradient against a Fisher information that is built entry by entry."""

import numpy as np
import pytest
from _machines import random_theta
from numpy.testing import assert_allclose

from skrbm import RBM
from skrbm.arrays import make_rng
from skrbm.estimators.conditional._machine import ConditionalGradient, ConditionalMachine
from skrbm.inference import TAP, Gibbs
from skrbm.inputs import Coordinates
from skrbm.learning import CHAINS, NATURAL, ChainPhase, FixedPointPhase, StandardParameters
from skrbm.learning._natural import natural_difference, natural_difference_given
from skrbm.machine import Block, Machine, Moments, data_moments
from skrbm.units import Bernoulli, Categorical, Gaussian, Poisson

N_VISIBLE, N_HIDDEN, DAMPING = 4, 3, 0.1
STANDARD = StandardParameters(
    Coordinates(np.array([1.0, -2.0, 0.0, 30.0]), np.array([0.5, 2.0, 1.0, 10.0]))
)
MACHINES = {
    "bernoulli": (Bernoulli(), Bernoulli(), NATURAL),
    "categorical": (Categorical((2, 2)), Bernoulli(), NATURAL),
    "poisson": (Poisson(), Bernoulli(), NATURAL),
    "gaussian": (Gaussian(), Bernoulli(), NATURAL),
    "standardised": (Gaussian(), Bernoulli(), STANDARD),
    "above": (Bernoulli(), Gaussian(), NATURAL),
    "full": (Gaussian(covariance="full"), Bernoulli(), NATURAL),
}
PHASES = {
    "persistent": ChainPhase(Gibbs()),  # data and chains in one block
    "data": CHAINS["data"](Gibbs()),
    "tap": FixedPointPhase(TAP(max_iter=5), "data"),
}


def make(visible, hidden, parameters):
    """A random machine, whose parameters in their coordinates are of the order of 1."""
    generator = np.random.default_rng(0)
    pairs = (visible, N_VISIBLE), (hidden, N_HIDDEN)
    thetas = [random_theta(unit, n, generator) for unit, n in pairs]
    if visible.is_joint:
        A = generator.standard_normal((N_VISIBLE, N_VISIBLE))
        thetas[0] = thetas[0]._replace(joint=np.eye(N_VISIBLE) + 0.2 * A @ A.T)
    weights = 0.3 * generator.standard_normal((N_HIDDEN, N_VISIBLE))
    machine = Machine((visible, hidden), tuple(thetas), (weights,))
    standard = tuple(part.copy() for part in NATURAL.of(machine))
    return parameters.machine(machine, standard)


def along(machine, moments, parameters, offsets):
    """Moments as one vector: those that parameters belong to, about means of the layers."""
    slopes = parameters.gradient(machine, moments)
    arrays = parameters.centered(slopes, machine, offsets).arrays(parameters.of(machine))
    return np.concatenate([part.ravel() for part in arrays])


def rows_of(moments):
    """Yield each row as moments of its own, and its weight."""
    for block in moments.blocks:
        weights = np.broadcast_to(block.weight, len(block.means[0]))
        for r, weight in enumerate(weights):
            at = slice(r, r + 1)
            means = tuple(part[at] for part in block.means)
            variances = tuple(None if part is None else part[at] for part in block.variances)
            further = block.further and tuple(
                part and tuple(own[at] for own in part) for part in block.further
            )
            yield Moments((Block(means, variances, 1.0, further=further),)), weight


def explicit(machine, data, model, parameters, metric):
    """(F + λ)⁻¹ g, and the offsets about which the statistics are taken."""
    rows, p = zip(*rows_of(metric), strict=True)
    p = np.array(p) / np.sum(p)
    layers = [np.concatenate([block.means[l] for block in metric.blocks]) for l in (0, 1)]
    offsets = [p @ layer for layer in layers]
    T = np.array([along(machine, row, parameters, offsets) for row in rows])
    mean = p @ T
    T = T - mean
    F = T.T @ (p[:, None] * T)
    rows, w = zip(*rows_of(data), strict=True)
    spread = [((along(machine, row, parameters, offsets) - mean) ** 2).sum() for row in rows]
    shift = DAMPING * max(np.trace(F), np.array(w) @ spread) / (p > 0).sum()
    g = along(machine, data - model, parameters, offsets)
    return np.linalg.solve(F + shift * np.eye(len(g)), g), offsets


CASES = [
    pytest.param(units, phase, id=f"{kind}-{name}")
    for kind, units in MACHINES.items()
    for name, phase in PHASES.items()
    if name != "tap" or kind not in ("categorical", "poisson", "full")
]


@pytest.mark.parametrize("units, phase", CASES)
def test_it_is_the_gradient_times_the_inverse_of_the_metric(units, phase):
    """The metric is that of the model's rows, and of the data's where equations have none."""
    parameters, machine = units[2], make(*units)
    rng = make_rng(0, machine.weights[0])
    chains = CHAINS["noise"](Gibbs(10))
    X = chains.init(machine, rng, 30, np.zeros((1, N_VISIBLE))).chains.layers[0]
    state = phase.init(machine, rng, 25, X)
    _, data, model = phase.phases(machine, state, X, rng)
    metric = data if isinstance(phase, FixedPointPhase) else model
    expected, offsets = explicit(machine, data, model, parameters, metric)
    found = natural_difference(machine, data, model, metric, parameters, DAMPING)
    found = along(machine, found, parameters, offsets)
    assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


def test_weights_of_rows_are_those_of_the_metric():
    """As chains with importance weights have them; a row without weight adds nothing."""
    machine = make(Bernoulli(), Bernoulli(), NATURAL)
    generator = np.random.default_rng(1)
    X, chains = (generator.integers(2, size=(n, N_VISIBLE)).astype(float) for n in (20, 12))
    weights = np.append(generator.dirichlet(np.ones(11)), 0.0)
    data, model = data_moments(machine, X), data_moments(machine, chains, weights)
    expected, offsets = explicit(machine, data, model, NATURAL, model)
    found = natural_difference(machine, data, model, model, NATURAL, DAMPING)
    assert_allclose(along(machine, found, NATURAL, offsets), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("dtype", (np.float32, np.float64))
def test_equal_rows_have_a_direction(dtype):
    """Their statistics have no variance, and rounding is not enlarged."""
    X = np.ones((50, 5), dtype)
    rbm = RBM(4, n_iter=20, optimizer="natural", random_state=0).fit(X)
    assert -1.0 < rbm.score(X) <= 0.0


@pytest.mark.parametrize("size", [0.01, 1.0])
@pytest.mark.parametrize("equations", ["none", "matrix", "pair"])
def test_the_metric_of_a_machine_that_is_given_features(equations, size):
    """The mean square of the gradients of single rows, by W, A, B, b and c.

    Model rows are near those of the data or not, so that the damping is by the statistics of the
    latter or by the trace. What equations add is part of the gradient, and not of the metric.
    """
    generator = np.random.default_rng(2)
    shapes = (3, 4), (4, 2), (3, 2), (4,), (3,)
    parts = [0.5 * generator.standard_normal(shape) for shape in shapes]
    machine = ConditionalMachine((Bernoulli(), Bernoulli()), *parts)
    X, n = generator.standard_normal((9, 2)), 9
    V, noise = (generator.integers(2, size=(n, 4)).astype(float) for _ in range(2))
    other = V + size * (noise - V)
    given = machine.given(X)
    data, rows = data_moments(given, V), data_moments(given, other)
    pair = tuple(generator.standard_normal((n, m)) for m in (4, 3))
    model = {
        "none": rows,
        "matrix": Moments(rows.blocks, ((0, generator.standard_normal((3, 4))),)),
        "pair": Moments((rows.blocks[0]._replace(pair=pair),)),
    }[equations]

    def row(r):
        one = machine.given(X[r : r + 1])
        moments = data_moments(one, V[r : r + 1]) - data_moments(one, other[r : r + 1])
        return flat(moments, one, X[r : r + 1])

    def flat(moments, given, X):
        arrays = ConditionalGradient(moments, given, X).arrays(machine.leaves)
        return np.concatenate([part.ravel() for part in arrays])

    def statistics(r):
        return flat(data_moments(machine.given(X[r : r + 1]), V[r : r + 1]), given, X[r : r + 1])

    T = np.array([row(r) for r in range(n)])
    F = T.T @ T / n
    spread = np.array([statistics(r) for r in range(n)]).var(axis=0).sum()
    assert (np.trace(F) > spread) == (size == 1.0)
    shift = DAMPING * max(np.trace(F), spread) / n
    gradient = flat(data - model, given, X)
    expected = np.linalg.solve(F + shift * np.eye(len(F)), gradient)
    found = natural_difference_given(given, X, data, model, DAMPING)
    assert_allclose(flat(found, given, X), expected, rtol=1e-6, atol=1e-9)
