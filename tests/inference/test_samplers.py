"""The contract of a sampler, checked for every sampler that is listed, against enumeration.

Seeds are fixed. A test of a distribution has a level of 1e-6; a test of means allows 5 standard
errors, which the largest of 20 means exceeds with a probability of 1.2e-5.
"""

import numpy as np
import pytest
from _distributions import LEVEL, assert_joint_distribution, exact_chains
from _exact import STATISTICS, Exact, clamped
from _machines import enumerable_pairs, gradient, random_machine
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from skrbm.arrays import make_rng
from skrbm.inference import (
    CORRELATED,
    SAMPLERS,
    Gibbs,
    autocorrelation_between,
    clamped_mean,
    sample,
)
from skrbm.learning import CHAINS, ChainPhase
from skrbm.learning._chains import Run
from skrbm.machine import data_moments

PAIRS = enumerable_pairs()
DEEP = ("bernoulli", "bernoulli", "bernoulli")

# The model phases of learning by each sampler, and by chains that start at the data.
PHASES = {name: ChainPhase(sampler) for name, sampler in SAMPLERS.items()}
PHASES["cd"] = CHAINS["data"](Gibbs())

FEW = [
    ("bernoulli", "bernoulli"),
    ("gaussian", "bernoulli"),
    ("bernoulli", "truncated_gauss_bernoulli"),
]

pairs = pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
few_pairs = pytest.mark.parametrize("kinds", FEW, ids="-".join)


def make(kinds, seed=0, strength=0.7, **kwargs):
    return random_machine(kinds, (3, 3, 2)[: len(kinds)], seed, strength, **kwargs)


def applies(name, kinds):
    return PHASES[name].sampler.unmet(make(kinds)) is None


def each(kinds, names=SAMPLERS):
    """Parametrize by the samplers and the kinds of units they apply to."""
    cases = [(name, pair) for pair in kinds for name in sorted(names) if applies(name, pair)]
    return pytest.mark.parametrize("name, kinds", cases)


def rows_that_count(moments):
    """Values of both layers in the one block, in rows with a weight; all weigh the same."""
    (block,) = moments.blocks
    weights = np.broadcast_to(block.weight, len(block.means[0]))
    rows = weights != 0
    assert_allclose(weights[rows] * rows.sum(), 1)
    return [layer[rows] for layer in block.means]


def assert_moments(moments, machine, expected):
    """Model moments from the rows of one block lie within 5 of their own standard errors."""
    below, above = rows_that_count(moments)
    n = len(below)
    parts = [("E[x]", below, expected.mean(0)), ("E[h]", above, expected.mean(1))]
    parts.append(("E[hx]", above[:, :, None] * below[:, None, :], expected.pair(0)))
    for label, rows, truth in parts:
        error = rows.std(axis=0) / np.sqrt(n)
        assert (np.abs(rows.mean(axis=0) - truth) < 5 * error + 1e-12).all(), label
    # The reduction of the rows is what the optimiser sees.
    reduced = gradient(machine, moments)
    assert_allclose(reduced[-1], machine.scale * parts[2][1].mean(axis=0), rtol=1e-10)
    assert_allclose(reduced[0], below.mean(axis=0), rtol=1e-10)


@pytest.mark.law
@each([*PAIRS, DEEP])
@pytest.mark.parametrize("n_sweeps", [1, 3])
def test_joint_distribution_is_left_invariant(name, kinds, n_sweeps):
    method, machine = SAMPLERS[name], make(kinds, scale=0.8)
    exact = Exact(machine)
    state = exact_chains(exact, 20_000)
    assert_joint_distribution(exact, state.layers)  # the oracle's own draws
    state = method.resumed(machine, state)
    state = sample(method, machine, state, make_rng(1, machine.weights[0]), n_sweeps)
    assert_joint_distribution(exact, state.layers)


@pytest.mark.law
@each([*PAIRS, DEEP], [name for name in SAMPLERS if name != "tempering"])
def test_chains_forget_their_start(name, kinds):
    """An update that moves no unit would leave the joint distribution invariant as well.

    Chains of a ladder have a test of their own, in test_tempering.py.
    """
    method, machine = SAMPLERS[name], make(kinds)
    exact, rng = Exact(machine), make_rng(2, machine.weights[0])
    state = method.state_at(machine, np.zeros((5000, machine.n_units[0])), rng)
    state = sample(method, machine, state, rng, 100)
    assert_joint_distribution(exact, state.layers)


@each(FEW)
def test_start_draws_hidden_units_given_the_visible_values(name, kinds):
    machine = make(kinds)
    row = Exact(machine).sample(np.random.default_rng(3), 1)[0]
    X = np.repeat(row, 20_000, axis=0)
    state = SAMPLERS[name].state_at(machine, X, make_rng(3, X))
    assert_array_equal(state.layers[0], X)
    held = Exact(machine, observed=row[0])
    x = np.concatenate(state.layers, axis=1)
    for i in held.layers[1]:
        if i in held.continuous:
            line = held.line(i, row[0] @ held.coupling[:3, i])
            p = stats.kstest(line.uniform(x[:, i], np.random.default_rng(0)), "uniform").pvalue
        else:
            values = held.supports[i]
            shares = [held.probabilities @ (held.values[:, i] == value) for value in values]
            counts = [(x[:, i] == value).sum() for value in values]
            p = stats.chisquare(counts, 2e4 * np.array(shares)).pvalue
        assert p > LEVEL / 3


@each(FEW)
def test_init_draws_visible_units_without_couplings(name, kinds):
    machine = make(kinds)
    state = SAMPLERS[name].init(machine, make_rng(4, machine.weights[0]), 20_000)
    free = Exact(make(kinds, scale=0.0))
    error = np.sqrt(free.variance(0) / 20_000)
    assert (np.abs(state.layers[0].mean(axis=0) - free.mean(0)) < 5 * error).all()
    assert state.layers[1].shape == (20_000, 3)


# The two phases of learning.


@each(FEW, PHASES)
def test_data_phase_is_the_exact_conditional_expectation(name, kinds):
    machine = make(kinds, seed=1)
    phase, rng = PHASES[name], make_rng(6, machine.weights[0])
    X = Exact(machine).sample(np.random.default_rng(6), 5)[0]
    _, data, _ = phase.phases(machine, phase.init(machine, rng, 3, X), X, rng)
    held = clamped(machine, X)
    expected = []
    for l, theta in enumerate(machine.thetas):
        for name, part in zip(STATISTICS, theta[:5], strict=True):
            if part is not None:
                expected.append(np.mean([exact.statistic(name, l) for exact in held], axis=0))
    expected.append(np.mean([exact.pair(0) for exact in held], axis=0))
    for part, truth in zip(gradient(machine, data), expected, strict=True):
        assert_allclose(part, truth, rtol=1e-10, atol=1e-12)
    for part, truth in zip(gradient(machine, data_moments(machine, X)), expected, strict=True):
        assert_allclose(part, truth, rtol=1e-10, atol=1e-12)


@few_pairs
@pytest.mark.parametrize("n_steps", [1, 2])
def test_phases_of_persistent_chains_have_the_stationary_moments(kinds, n_steps):
    phase, machine = ChainPhase(Gibbs(n_steps)), make(kinds, seed=2)
    exact, X = Exact(machine), np.zeros((5, 3))
    run = Run(exact_chains(exact, 20_000))
    run, _, model = phase.phases(machine, run, X, make_rng(7, X))
    assert_moments(model, machine, exact)
    assert_joint_distribution(exact, run.chains.layers)


def chain_distribution(exact, row, n_steps):
    """Distribution of the visible units after ``n_steps`` sweeps from the values ``row``."""
    visible, where_v = np.unique(exact.values[:, exact.layers[0]], axis=0, return_inverse=True)
    hidden, where_h = np.unique(exact.values[:, exact.layers[1]], axis=0, return_inverse=True)
    joint = np.zeros((len(visible), len(hidden)))
    joint[where_v.ravel(), where_h.ravel()] = exact.probabilities
    up = joint / joint.sum(axis=1, keepdims=True)
    down = (joint / joint.sum(axis=0)).T
    p = (visible == row).all(axis=1).astype(float)
    for _ in range(n_steps):
        p = p @ up @ down
    return visible, hidden, p, up


class ChainMoments:
    """Exact moments of a chain of ``n_steps`` sweeps, with the interface of the oracle."""

    def __init__(self, exact, row, n_steps):
        self._v, hidden, self._p, up = chain_distribution(exact, row, n_steps)
        self._means = [self._v, up @ hidden]

    def mean(self, l):
        return self._p @ self._means[l]

    def pair(self, l):
        return (self._p[:, None] * self._means[1]).T @ self._v


@pytest.mark.parametrize("start", ["data", "persistent"])
@pytest.mark.parametrize("n_steps", [1, 2, 5])
def test_phases_from_data_have_the_moments_of_the_chain_of_that_length(start, n_steps):
    """The k of CD-k is the number of sweeps, not one more or less."""
    machine = make(("bernoulli", "bernoulli"), seed=11, strength=2.5)
    phase, row = CHAINS[start](Gibbs(n_steps)), np.array([1.0, 0.0, 1.0])
    X = np.repeat(row[None], 50_000, axis=0)
    rng = make_rng(8, X)
    run, _, model = phase.phases(machine, Run(Gibbs().state_at(machine, X, rng)), X, rng)
    truth = ChainMoments(Exact(machine), row, n_steps)
    assert_moments(model, machine, truth)
    assert_array_equal(phase.visible(run), rows_that_count(model)[0])
    others = [ChainMoments(Exact(machine), row, k).pair(0) for k in (n_steps - 1, n_steps + 1)]
    # The test tells the numbers of sweeps apart: the differences exceed its tolerance of 0.011.
    assert all(np.abs(other - truth.pair(0)).max() > 0.03 for other in others)


@each(FEW, PHASES)
@pytest.mark.parametrize("n_rows", [1, 7])
def test_both_phases_are_normalised_for_any_numbers_of_rows(name, kinds, n_rows):
    """A short last batch must not give one phase more weight than the other."""
    phase, machine = PHASES[name], make(kinds)
    rng = make_rng(9, machine.weights[0])
    X = Exact(machine).sample(np.random.default_rng(9), n_rows)[0]
    run = phase.init(machine, rng, 4, X)
    for _ in range(3):
        run, data, model = phase.phases(machine, run, X, rng)
        for moments in (data, model):
            rows = rows_that_count(moments)[0]
            statistics = moments.statistics(machine.units[0], 0)
            assert_allclose(statistics.field, rows.mean(axis=0), rtol=1e-10, atol=1e-12)
        assert len(rows_that_count(data)[0]) == n_rows


# Missing values.


@pairs
def test_clamped_mean_is_the_conditional_expectation(kinds):
    """Within 5 standard errors, estimated from independent rows."""
    machine = make(kinds, seed=4)
    row = Exact(machine).sample(np.random.default_rng(12), 1)[0][0]
    observed = np.array([True, False, False])
    n = 400
    X = np.repeat(row[None], n, axis=0)
    rng = make_rng(12, X)
    means = clamped_mean(machine, X, np.tile(observed, (n, 1)), rng, 60)
    assert_array_equal(means[:, observed], X[:, observed])
    exact = Exact(machine, observed=np.where(observed, row, np.nan)).mean(0)
    error = means.std(axis=0, ddof=1) / np.sqrt(n)
    assert (np.abs(means.mean(axis=0) - exact) <= 5 * error + 1e-12)[~observed].all()
    assert_array_equal(X, np.repeat(row[None], n, axis=0))


@pytest.mark.parametrize("n_steps, averaged", [(1, [1]), (2, [2]), (3, [2, 3]), (4, [3, 4])])
def test_clamped_mean_is_of_the_second_half_of_the_sweeps(n_steps, averaged):
    """Nothing is observed: the mean after k sweeps is that of a chain of this length.

    The numbers of sweeps are told apart: a sweep more or less moves a mean by more than twice the
    tolerance of 0.01, which is at least 5 standard errors.
    """
    machine = make(("bernoulli", "bernoulli"), seed=11, strength=2.5)
    exact, row, n = Exact(machine), np.array([1.0, 0.0, 1.0]), 50_000
    chains = [chain_distribution(exact, row, k) for k in range(n_steps + 2)]
    expected = [p @ visible for visible, _, p, _ in chains]
    X = np.repeat(row[None], n, axis=0)
    means = clamped_mean(machine, X, np.zeros(X.shape, bool), make_rng(14, X), n_steps)
    truth = np.mean([expected[k] for k in averaged], axis=0)
    assert 5 * means.std(axis=0).max() / np.sqrt(n) < 0.01
    assert_allclose(means.mean(axis=0), truth, atol=0.01)
    for others in ([k - 1 for k in averaged], averaged[1:], [averaged[0] - 1, *averaged]):
        if others:
            other = np.mean([expected[k] for k in others], axis=0)
            assert np.abs(other - truth).max() > 0.02


def test_chains_that_stay_in_modes_along_a_lesser_direction_are_correlated():
    """Three columns are drawn again, with the largest variance; the last two stay as they are."""
    rng = np.random.default_rng(0)
    modes, begin, end = rng.random((3, 400, 1)) < [[[0.4]], [[0.5]], [[0.5]]]
    begin, end, modes = (
        x.astype(float) * np.ones(n) for x, n in ((begin, 3), (end, 3), (modes, 2))
    )
    stuck = [np.concatenate([x, modes], axis=1) for x in (begin, end)]
    assert autocorrelation_between(*stuck) > CORRELATED
    assert autocorrelation_between(begin, end) < CORRELATED
