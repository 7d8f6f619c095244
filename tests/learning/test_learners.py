"""What an epoch does to a machine: batches, one step, and that steps lead uphill."""

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from _exact import log_likelihood
from _machines import gradient, random_machine
from numpy.testing import assert_allclose

from skrbm.arrays import Columns, make_rng
from skrbm.exceptions import DivergenceError
from skrbm.inference import TAP, Gibbs
from skrbm.inputs import DistinctRows, Rows
from skrbm.learning import (
    CHAINS,
    NATURAL,
    SGD,
    STARTS,
    Adam,
    BatchLearner,
    ChainPhase,
    FixedPointPhase,
    MomentLearner,
    Training,
)
from skrbm.machine import Machine
from skrbm.units import Gaussian

BINARY = ("bernoulli", "bernoulli")
PLAIN = {"alpha": 0.0, "centered": False, "average": False}
ASCENT = SGD(**PLAIN)


def make(kinds=BINARY, **kwargs):
    return random_machine(kinds, (4, 3), 0, **{"strength": 0.5, **kwargs})


def rows_of(machine, X):
    return Rows(X, machine.units[0], machine.dtype)


def begin(machine, phase, optimizer, X, n=6, seed=0):
    rng = make_rng(seed, X)
    state = phase.init(machine, rng, n, X)
    return Training(rng, machine, state, optimizer.init(NATURAL.of(machine)))


ROWS = DistinctRows([np.arange(200.0)[:, None]])


class Counting(BatchLearner):
    """Keeps the batches, and reports their numbers."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.batches = []

    def step(self, training, index, rate):
        self.batches.append(list(index))
        return {"n": float(len(index)), "rate": rate}, True


@pytest.mark.parametrize("n, sizes", [(20, [7, 7, 6]), (8, [8]), (9, [5, 4]), (3, [3])])
def test_batches_have_nearly_one_size(n, sizes):
    index = np.arange(100, 100 + n)
    learner, training = Counting(ROWS, index, 8), Training(make_rng(0, np.ones(1)), make())
    orders = []
    for _ in range(3):
        learner.batches.clear()
        report = learner.epoch(training, 0.0, 0.5)
        assert [len(batch) for batch in learner.batches] == sizes
        assert report == {"n": pytest.approx(np.mean(sizes)), "rate": 0.5}
        orders.append(np.concatenate(learner.batches))
        assert sorted(orders[-1]) == list(index)
    assert n == 3 or len({tuple(order) for order in orders}) == 3


def test_a_step_is_data_minus_model():
    X = np.random.default_rng(2).integers(2, size=(5, 4)).astype(float)
    machine, phase = make(), ChainPhase(Gibbs())
    training, other = (begin(machine.copy(), phase, ASCENT, X, seed=3) for _ in range(2))
    _, data, model = phase.phases(machine, other.phase_state, X, other.rng)
    slopes = gradient(machine, data - model)
    expected = [part + 0.03 * slope for part, slope in zip(parts(machine), slopes, strict=True)]
    learner = MomentLearner(rows_of(machine, X), phase, ASCENT, batch_size=5)
    assert learner.step(training, np.arange(5), 0.03) == ({"learning_rate": 0.03}, True)
    for one, truth in zip(parts(training.machine), expected, strict=True):
        assert_allclose(one, truth, rtol=1e-12)
    assert len(training.phase_state.chains.layers[0]) == 6
    assert training.optimizer_state is None


def parts(machine):
    return [*(theta.field for theta in machine.thetas), *machine.weights]


@dataclass(frozen=True)
class Spoilt(SGD):
    """Makes parameters infinite, those at one position."""

    position: int = 0

    def update(self, parameters, gradient, state, rate):
        parameters[self.position][0] = np.inf
        return state


@pytest.mark.parametrize(
    ("kind", "position", "batch"), [("intercepts", 2, 1), ("components", 0, 3)]
)
def test_divergence_is_noticed(kind, position, batch):
    """Of intercepts after each batch, of weights after the epoch."""
    X = np.random.default_rng(2).integers(2, size=(6, 4)).astype(float)
    machine, phase = make(dtype=np.float32), FixedPointPhase(TAP())
    optimizer = Spoilt(position=position, **PLAIN)
    training = begin(machine, phase, optimizer, X.astype(np.float32))
    training.n_epochs = 4
    learner = MomentLearner(rows_of(machine, X), phase, optimizer, batch_size=2)
    message = (
        f"the {kind} were no longer finite after batch {batch} of epoch 5.* 0.1.*learning_rate"
    )
    with pytest.raises(DivergenceError, match=message):
        learner.epoch(training, 0.0, 0.1)


def cases():
    """Every phase with SGD, and one with Adam."""
    tap = {f"tap-{start}": FixedPointPhase(TAP(damping=0.5), start) for start in STARTS}
    chains = {f"chains-{start}": CHAINS[start](Gibbs(3)) for start in CHAINS}
    chains["burn-in"] = ChainPhase(Gibbs(4, burn_in=1))
    chains["joint"] = ChainPhase(Gibbs(4, burn_in=1), gradient="joint")
    for name, phase in (tap | chains).items():
        yield pytest.param(SGD(0.5, **PLAIN), phase, id=name)
    yield pytest.param(Adam(**PLAIN), tap["tap-data"], id="tap-data-adam")


@pytest.mark.law
@pytest.mark.parametrize(("optimizer", "phase"), list(cases()))
@pytest.mark.parametrize("kinds", [BINARY, ("gaussian", "bernoulli")], ids="-".join)
def test_learning_raises_the_exact_log_likelihood(kinds, optimizer, phase):
    """Data of two opposite patterns with noise, which independent units cannot describe."""
    generator = np.random.default_rng(4)
    X = np.where(generator.integers(2, size=(60, 1)) == 1, [1, 1, 0, 0], [0, 0, 1, 1]).astype(float)
    X = X + 0.3 * generator.normal(size=X.shape) if "gaussian" in kinds else X
    machine = make(kinds, strength=0.1, spread=0.1)
    # Independent units fitted to the data: what learning has to beat.
    thetas = machine.units[0].initial_theta(Columns(X)), machine.thetas[1]
    machine = Machine(machine.units, thetas, machine.weights)
    before = log_likelihood(machine, X).mean()
    training = begin(machine, phase, optimizer, X, 60, seed=5)
    learner = MomentLearner(rows_of(machine, X), phase, optimizer, batch_size=60)
    for epoch in range(300):
        learner.epoch(training, epoch / 300, 0.05)
    assert log_likelihood(training.machine, X).mean() > before + 0.4


@pytest.mark.parametrize("sparse", [False, True])
def test_values_between_0_and_1_are_drawn_in_each_batch(sparse):
    """Means over 2000 batches of 3 rows are off by 7 standard errors with probability 3e-11."""
    X = np.array([[0.0, 0.3, 1.0, 0.8], [1.0, 0.0, 0.5, 0.1], [0.0, 1.0, 0.9, 0.0]])
    machine, seen = make(), []

    class Seen(ChainPhase):
        def phases(self, machine, state, rows, rng):
            seen.append(rows.sum(axis=0))
            assert set(np.unique(rows)) <= {0.0, 1.0}
            return super().phases(machine, state, rows, rng)

    phase, rng = Seen(Gibbs()), make_rng(0, X)
    rows = rows_of(machine, sp.csr_array(X) if sparse else X)
    training = Training(rng, machine.copy(), phase.init(machine, rng, 3, X))
    learner = MomentLearner(rows, phase, ASCENT, batch_size=3, sample_values=True)
    for _ in range(2000):
        learner.epoch(training, 0.0, 0.0)
    deviation = np.sqrt((X * (1 - X)).sum(axis=0) / 2000)
    assert (abs(np.mean(seen, axis=0) - X.sum(axis=0)) <= 7 * deviation).all()
    # Binary rows, and real values, are what they are.
    assert not MomentLearner(
        rows_of(machine, np.rint(X)), phase, ASCENT, batch_size=3, sample_values=True
    ).sample_values
    assert not Rows(X, Gaussian(), X.dtype).has_fractions
