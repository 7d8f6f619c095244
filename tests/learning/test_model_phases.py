"""The contract of a model phase, checked for every phase, against enumeration.

Seeds are fixed. Each test of random numbers has a level of 1e-6, shared by all that it looks at.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from _exact import Exact, clamped
from _machines import gradient, random_machine
from numpy.testing import assert_allclose
from scipy import stats

from skrbm.arrays import make_rng
from skrbm.inference import TAP, BeliefPropagation, Chains, Gibbs, GibbsLangevin, Langevin
from skrbm.learning import (
    CHAINS,
    STARTS,
    ChainPhase,
    DeepPhase,
    FixedPointPhase,
)

LEVEL = 1e-6
BINARY, REAL = ("bernoulli", "bernoulli"), ("gaussian", "bernoulli")
ATOM = "truncated_gauss_bernoulli"
LONG = 20  # steps after which chains of these machines have forgotten where they started
DEEP_STARTS = sorted(set(STARTS) - {"tempered"})
SAMPLERS = [Gibbs(), Langevin(1.0, adjust_after=0), GibbsLangevin(1.0, adjust_after=0)]


@dataclass(frozen=True)
class General(Gibbs):
    """Gibbs sampling that does not say how its steps end, so that nothing is shared."""

    def ends_with_hidden_draw(self, machine):
        return False


def make(kinds=BINARY, sizes=None, seed=0, strength=0.7):
    return random_machine(kinds, sizes or (3, 2, 2)[: len(kinds)], seed, strength)


def differences_of(phase, machine, n_runs=16, n_rows=100):
    """Data moments minus model moments, of data and chains drawn from the machine itself."""
    exact, rng = Exact(machine), make_rng(1, machine.weights[0])
    found = []
    for seed in range(n_runs):
        generator = np.random.default_rng(seed)
        X = exact.sample(generator, n_rows)[0]
        state = phase.init(machine, rng, n_rows, X)
        if isinstance(phase, ChainPhase) and phase.start == "persistent":
            state = state._replace(chains=chains_at(phase.sampler, machine, exact, generator, rng))
        state, data, model = phase.phases(machine, state, X, rng)
        parts = gradient(machine, data - model)
        found.append(np.concatenate([part.ravel() for part in parts]))
    return np.array(found)


def chains_at(sampler, machine, exact, generator, rng, n=100):
    """Chains whose states are draws from the machine."""
    layers = tuple(exact.sample(generator, n))
    if isinstance(sampler, Gibbs):
        return Chains(layers)
    return sampler.state_at(machine, layers[0], rng)


def assert_mean_zero(samples):
    """By a t-test of each column."""
    p = stats.ttest_1samp(samples, 0.0).pvalue
    assert np.nanmin(p) > LEVEL / samples.shape[1]  # NaN where a column does not vary: 0


def chain_cases():
    """Every sampler with every start: long runs where chains start at noise."""
    for sampler in SAMPLERS:
        for start in CHAINS:
            kinds = [REAL]
            if isinstance(sampler, Gibbs):
                kinds += [BINARY]
                if start != "tempered":  # it is slow, and samplers see to spikes
                    kinds += [(ATOM, "bernoulli"), ("bernoulli", ATOM)]
            for pair in kinds:
                name = f"{type(sampler).__name__}-{start}-{'-'.join(pair)}"
                costly = start == "tempered" and pair != BINARY  # each run anneals a ladder
                marks = [pytest.mark.law] if costly else []
                yield pytest.param(sampler, start, pair, id=name, marks=marks)


@pytest.mark.law
@pytest.mark.parametrize(("sampler", "start", "kinds"), list(chain_cases()))
@pytest.mark.parametrize(("burn_in", "gradient_name"), [(None, "marginal"), (-2, "joint")])
def test_chains_are_stationary_at_the_truth(sampler, start, kinds, burn_in, gradient_name):
    """The mean of the gradient is zero where the data come from the machine.

    A ``burn_in`` of -2 leaves out all but the last two steps.
    """
    n_steps = 4 if start in ("persistent", "data") else LONG
    burn_in = None if burn_in is None else n_steps + burn_in
    phase = CHAINS[start](replace(sampler, n_steps=n_steps, burn_in=burn_in), gradient_name)
    found = differences_of(phase, make(kinds))
    assert_mean_zero(found)
    assert found.std(axis=0, ddof=1).max() < 0.5  # or the test would see nothing


# Where one product serves for both phases.


@pytest.mark.parametrize("start", ["persistent", "data"])
@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("kinds", [BINARY, (ATOM, "bernoulli"), ("bernoulli", ATOM)], ids="-".join)
def test_the_shared_product_changes_no_distribution(start, n_steps, kinds):
    """From one row that is far from typical, so that a step more or less would be seen.

    Values of binary units by a chi-square test of two samples, of others by Kolmogorov-Smirnov.
    """
    machine = make(kinds, strength=2.5)
    n, row = 4000, Exact(machine).sample(np.random.default_rng(3), 1)[0][0]
    X = np.repeat(row[None], n, axis=0)
    ends, moments = [], []
    for seed, sampler in enumerate((Gibbs(n_steps), General(n_steps))):
        phase, rng = CHAINS[start](sampler), make_rng(seed, X)
        state = phase.init(machine, rng, n, X)
        state = state._replace(chains=sampler.state_at(machine, X, rng))
        state, data, model = phase.phases(machine, state, X, rng)
        ends.append(state.chains.layers if start == "persistent" else state.chains.layers[:1])
        moments.append((gradient(machine, data), model))
    for one, other in zip(moments[0][0], moments[1][0], strict=True):
        assert_allclose(one, other, rtol=1e-12)  # the data phase has no noise
    assert_same_distribution(*(np.concatenate(layers, axis=1) for layers in ends))
    for _, model in moments:  # and the model phase is that of the visible values
        (block,) = model.blocks
        held = clamped(machine, block.means[0][:20])
        assert_allclose(block.means[1][:20], [one.mean(1) for one in held], rtol=1e-9, atol=1e-12)


def assert_same_distribution(one, other):
    atoms = np.concatenate([one, other])
    real = [i for i in range(one.shape[1]) if len(np.unique(atoms[:, i])) > 2]
    level = LEVEL / (1 + 2 * len(real))
    codes = np.where(atoms != 0, 1, 0) @ 2 ** np.arange(atoms.shape[1])
    counts = [np.bincount(part, minlength=codes.max() + 1) for part in np.split(codes, 2)]
    table = np.array(counts)[:, np.sum(counts, axis=0) >= 20]
    assert stats.chi2_contingency(table).pvalue > level
    for i in real:
        assert stats.ks_2samp(one[:, i], other[:, i]).pvalue > level


# Fixed points.


@pytest.mark.parametrize("start", [*DEEP_STARTS, pytest.param("tempered", marks=pytest.mark.law)])
def test_fixed_points_are_stationary_at_the_truth(start):
    """Belief propagation is exact on a tree, here one hidden unit with all visible ones."""
    machine = make(BINARY, (4, 1), strength=1.5)
    phase = FixedPointPhase(BeliefPropagation(tol=1e-20, max_iter=500), start)
    assert_mean_zero(differences_of(phase, machine))
    exact, rng = Exact(machine), make_rng(0, np.ones(1))
    X = exact.sample(np.random.default_rng(0), 6)[0]
    state, data, model = phase.phases(machine, phase.init(machine, rng, 3, X), X, rng)
    visible, hidden, pair = gradient(machine, model)
    assert_allclose(visible, exact.mean(0), atol=1e-8)
    assert_allclose(hidden, exact.mean(1), atol=1e-8)
    assert_allclose(pair, exact.pair(0), atol=1e-8)
    assert phase.log_partition(machine, state) == pytest.approx(exact.log_z, abs=1e-8)
    held = clamped(machine, X)
    assert_allclose(gradient(machine, data)[1], np.mean([one.mean(1) for one in held], axis=0))


@pytest.mark.parametrize("start", DEEP_STARTS)
def test_deep_fixed_points_are_stationary_at_the_truth(start):
    """Weights of 0.1, where the error of TAP is 1e-3 of the standard error of this test at most."""
    machine = make(("bernoulli",) * 3, (3, 3, 2), strength=0.1)
    phase = DeepPhase(TAP(tol=1e-20, max_iter=500), start)
    assert_mean_zero(differences_of(phase, machine))
    exact, rng = Exact(machine), make_rng(0, np.ones(1))
    X = exact.sample(np.random.default_rng(0), 6)[0]
    state, data, model = phase.phases(machine, phase.init(machine, rng, 5, X), X, rng)
    held = clamped(machine, X)
    for moments, ones in ((model, [exact]), (data, held)):
        truth = [np.mean([one.mean(l) for one in ones], axis=0) for l in range(3)]
        truth += [np.mean([one.pair(l) for one in ones], axis=0) for l in range(2)]
        for part, expected in zip(gradient(machine, moments), truth, strict=True):
            assert_allclose(part, expected, atol=1e-4)
    assert phase.log_partition(machine, state) == pytest.approx(exact.log_z, abs=1e-4)
    assert phase.visible(state).shape == (5, 3)
    assert set(phase.report(state)) == {"n_unconverged", "n_sweeps", "n_unconverged_data"}


# What every phase does.


PHASES = [
    *(CHAINS[start](replace(sampler, n_steps=3)) for sampler in SAMPLERS for start in CHAINS),
    *(FixedPointPhase(TAP(damping=0.5), start) for start in STARTS),
    *(DeepPhase(TAP(damping=0.5), start) for start in DEEP_STARTS),
]


@pytest.mark.parametrize("phase", PHASES, ids=lambda p: "-".join(map(str, p.kind)).replace(" ", ""))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_states_have_rows_and_the_dtype(phase, dtype):
    machine = random_machine(REAL, (3, 2), 0, 0.3, dtype=dtype)
    X = np.random.default_rng(0).normal(size=(7, 3)).astype(dtype)
    rng = make_rng(0, X)
    state = phase.init(machine, rng, 5, X)
    assert phase.visible(state).shape == (5, 3)
    assert phase.report(state) == {}  # before there was a batch
    for n in (7, 2, 7):
        state, data, model = phase.phases(machine, phase.kept(state), X[:n], rng)
        again = isinstance(phase, ChainPhase) and phase.start in ("noise", "annealed", "data")
        assert phase.visible(state).shape == ((n if again else 5), 3)
        for moments in (data, model):
            assert {part.dtype for part in gradient(machine, moments)} == {np.dtype(dtype)}
    assert all(isinstance(value, float) for value in phase.report(state).values())
