"""Ladders of machines, tempering and Bennett's ratio, against enumeration.

Seeds are fixed. A test of a distribution has a level of 1e-6. Where log Z is compared, 8 standard
errors are allowed: by Student's distribution with 63 degrees of freedom a probability of 4e-11.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from _distributions import LEVEL, assert_joint_distribution, exact_chains
from _exact import Exact
from _fractional import all_rows, fractional_machine, row_numbers
from _machines import random_machine, two_modes
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from skrbm.arrays import make_rng
from skrbm.evaluation import log_partition
from skrbm.inference import (
    Gibbs,
    Ladder,
    Replicas,
    Tempering,
    bennett,
    collected,
    completed,
    ladder_of,
    renewed,
    sample,
    tempered_mean,
)
from skrbm.machine import Machine, free_energy
from skrbm.units import Bernoulli, Categorical, Theta

KINDS = [("bernoulli", "bernoulli"), ("gaussian", "bernoulli"), "categorical"]


def name_of(kinds):
    return kinds if isinstance(kinds, str) else "-".join(kinds)


BETAS = (0.0, 0.5, 1.0)
N = 20_000


def categorical_machine(seed):
    generator = np.random.default_rng(seed)
    thetas = (Theta(generator.normal(size=5)), Theta(generator.normal(size=3)))
    units = (Categorical((2, 3)), Bernoulli())
    return Machine(units, thetas, (generator.normal(size=(3, 5)),))


def make(kinds, seed=0):
    if kinds == "categorical":
        return categorical_machine(seed)
    return random_machine(kinds, (3, 3), seed, 0.7)


def mixed(kinds, part):
    """The machine of seed 0 with a part of that of seed 1 in its parameters."""
    first, second = make(kinds), make(kinds, 1)
    thetas = tuple(
        own.map(lambda a, b: a + part * (b - a), other)
        for own, other in zip(first.thetas, second.thetas, strict=True)
    )
    W = first.weights[0] + part * (second.weights[0] - first.weights[0])
    return Machine(first.units, thetas, (W,))


def rng_of(machine, seed=0):
    return make_rng(seed, machine.weights[0])


def tempering(kinds, which):
    """A sampler of temperatures, or of other machines as rungs, and the last machine."""
    machine = make(kinds)
    if which == "temperatures":
        return Tempering(BETAS), machine
    machines = tuple(mixed(kinds, part) for part in (0.6, 0.3, 0.0))
    return Tempering(Ladder((*machines[:2], machine), ((), (), ()))), machine


@pytest.mark.law
@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("which", ["temperatures", "machines"])
@pytest.mark.parametrize("kinds", KINDS, ids=name_of)
def test_all_rungs_are_left_invariant(kinds, which, n_steps):
    method, machine = tempering(kinds, which)
    exacts = [Exact(rung) for rung in method.machines(machine)]
    draws = [exact_chains(exact, N, seed=seed) for seed, exact in enumerate(exacts)]
    state = Replicas(draws[-1].layers, tuple(draw.layers[0] for draw in draws[:-1]))
    state = sample(method, machine, state, rng_of(machine, 1), n_steps)
    assert_joint_distribution(exacts[-1], state.layers)
    for rung, exact, X in zip(method.machines(machine)[:-1], exacts[:-1], state.below, strict=True):
        layers = Gibbs().state_at(rung, X, rng_of(machine, 2)).layers
        assert_joint_distribution(exact, layers)


def test_units_that_only_propose_are_corrected_at_each_rung():
    """Of log weights whose sampler has a probability of acceptance below 1."""
    machine, log_p, _ = fractional_machine([0.5, 2.5, 1.7], 4)
    method, generator = Tempering((0.0, 0.6, 1.0)), np.random.default_rng(0)
    rungs, rows, tables = method.machines(machine), [], []
    for rung in rungs:
        log_weights = -free_energy(rung, all_rows(4))
        tables.append(np.exp(log_weights - np.logaddexp.reduce(log_weights)))
        rows.append(all_rows(4)[generator.choice(16, N, p=tables[-1])])
    assert_allclose(np.log(tables[-1]), log_p, rtol=1e-10)
    state = method.state_at(machine, rows[-1], rng_of(machine))._replace(below=tuple(rows[:-1]))
    state = sample(method, machine, state, rng_of(machine, 1), 3)
    for X, p in zip((*state.below, state.layers[0]), tables, strict=True):
        counts = np.bincount(row_numbers(X), minlength=16)
        assert stats.chisquare(counts, N * p).pvalue > LEVEL / 3


@pytest.mark.parametrize("kinds", KINDS, ids=name_of)
def test_proposals_of_samples_leave_the_distribution_invariant(kinds):
    """Also where few samples of a rung are moved, after proposals from the rung below."""
    first, second = mixed(kinds, 0.15), make(kinds)
    samples, chains = (exact_chains(Exact(m), N, seed=i) for i, m in enumerate((first, second)))
    samples, chains, rng = samples.layers[0], chains.layers[0], rng_of(first, 3)
    before = samples.copy()
    rows, rate = renewed(second, chains, first, samples, rng)
    assert 0.2 < rate.mean() < 0.999
    assert (rows != chains).any()
    assert_array_equal(samples, before)
    ladder = Ladder((first, second), (samples, chains.copy()))
    ladder.move(1, N // 2, rng)
    moved = (ladder.samples[1] != chains).any(axis=1)
    assert 0.05 < moved.mean() <= 0.5
    ladder.move(0, N, rng)  # without a rung below
    for machine, X in ((second, rows), (second, ladder.samples[1]), (first, samples)):
        assert_joint_distribution(Exact(machine), Gibbs().state_at(machine, X, rng).layers)


@pytest.mark.law
@pytest.mark.parametrize("kinds", KINDS, ids=name_of)
def test_chains_forget_their_start(kinds):
    """Steps that move no unit would leave all distributions invariant as well."""
    machine = make(kinds)
    start = np.repeat(exact_chains(Exact(machine), 1).layers[0], 5000, axis=0)
    method, rng = Tempering(4), rng_of(machine, 2)
    state = sample(method, machine, method.state_at(machine, start, rng), rng, 30)
    assert_joint_distribution(Exact(machine), state.layers)


def test_modes_that_gibbs_sampling_does_not_leave():
    """Half of all time is spent in each mode, within 5 standard errors over chains."""
    machine = two_modes()
    X, rng = np.zeros((40, 8)), rng_of(machine)
    ends = sample(Gibbs(), machine, Gibbs().state_at(machine, X, rng), rng, 200)
    assert (ends.layers[0].mean(axis=1) < 0.5).all()
    method, on = Tempering(8), []
    state = sample(method, machine, method.state_at(machine, X, rng), rng, 50)
    sample(method, machine, state, rng, 200, callback=lambda step, s, info: on.append(s))
    share = np.mean([s.layers[0].mean(axis=1) > 0.5 for s in on], axis=0)
    assert abs(share.mean() - 0.5) < 5 * share.std(ddof=1) / np.sqrt(40)
    assert share.std(ddof=1) < 0.3  # and not 0.5, as of chains that stay


def test_diagnosis_counts_acceptance_and_round_trips():
    machine = two_modes()
    method, rng = Tempering(8), rng_of(machine)
    state = method.state_at(machine, np.zeros((20, 8)), rng)
    _, found = method.diagnose(machine, state, rng, 200)
    assert found.acceptance.shape == (7,) and found.round_trips.shape == (20,)
    assert ((found.acceptance > 0) & (found.acceptance < 1)).all()
    assert (found.round_trips > 0).all() and found.round_trips.max() < 100
    same = Tempering(Ladder((machine,) * 3, ()))
    state = Replicas(state.layers, (state.layers[0],) * 2)
    _, found = same.diagnose(machine, state, rng, 6)
    assert_array_equal(found.acceptance, 1.0)
    # Values leave the first rung in every other step, and are at the last one a step later.
    assert_array_equal(found.round_trips, 3)
    with np.testing.assert_no_warnings():
        _, found = method.diagnose(machine, method.state_at(machine, np.zeros((2, 8)), rng), rng, 1)
    assert_array_equal(np.isnan(found.acceptance), np.arange(7) % 2 == 1)


# Known visible values.


@pytest.mark.law
@pytest.mark.parametrize("which", ["temperatures", "machines"])
@pytest.mark.parametrize("kinds", KINDS, ids=name_of)
def test_chains_of_known_values_have_the_means_given_these(kinds, which):
    """Within 5 standard errors over 300 chains that begin far away, with a probability of 3e-6
    each; by the means of the second half of the steps, and by the last draws."""
    method, machine = tempering(kinds, which)
    row = Exact(machine).sample(np.random.default_rng(12), 1)[0][0]
    observed = np.zeros(len(row), bool)
    observed[[0, 1] if kinds == "categorical" else 0] = True  # a whole site
    exact = Exact(machine, observed=np.where(observed, row, np.nan)).mean(0)
    X, seen = np.repeat(row[None], 300, axis=0), np.tile(observed, (300, 1))
    if which == "machines":
        method = Tempering(Ladder(method.rungs.machines, (X,) * 3))
    means = tempered_mean(machine, X, seen, rng_of(machine, 12), 30, method)
    draws = completed(machine, X, seen, rng_of(machine, 13), 30, method)
    for rows in (means, draws):
        assert_array_equal(rows[:, observed], X[:, observed])
        error = rows.std(axis=0, ddof=1) / np.sqrt(300)
        assert (np.abs(rows.mean(axis=0) - exact) <= 5 * error + 1e-12).all()


# Ladders and log Z.


@pytest.mark.parametrize("kinds", KINDS, ids=name_of)
def test_log_partition_is_that_of_enumeration(kinds):
    machine = make(kinds)
    found = Tempering(5).log_partition(machine, rng_of(machine))
    assert found.n == 64 and 0 < found.std < 0.05
    assert abs(found.value - Exact(machine).log_z) < 8 * found.std


@pytest.mark.law
def test_intervals_hold_as_often_as_they_say():
    """Of 60 intervals of 95 %, fewer than 48 hold with a probability of 3e-5, if they are right."""
    machine = random_machine(("bernoulli", "bernoulli"), (5, 4), 3, 1.5)
    truth, method = Exact(machine).log_z, Tempering(5, n_chains=16, n_sweeps=20)
    found = [method.log_partition(machine, rng_of(machine, seed)).interval for seed in range(60)]
    assert sum(low < truth < high for low, high in found) >= 48


def test_ladder_of_a_machine():
    """Neighbours exchange about as often as asked, and log Z along the ladder is right."""
    machine = random_machine(("bernoulli", "bernoulli"), (8, 8), 1, 6.0)
    ladder = ladder_of(machine, rng_of(machine))
    assert ladder.machines[0].scale == 0 and ladder.machines[-1] is machine
    assert all(rows.shape == (200, 8) for rows in ladder.samples)
    method = Tempering(ladder)
    found = method.log_partition(machine, rng_of(machine, 1))
    assert abs(found.value - Exact(machine).log_z) < 8 * found.std
    state = method.init(machine, rng_of(machine), 50)
    _, seen = method.diagnose(machine, state, rng_of(machine, 2), 100)
    assert (seen.acceptance > 0.2).all()
    assert (seen.acceptance[:-1] < 0.6).all()  # the last rung may be near


@pytest.mark.law
def test_a_ladder_has_the_modes_in_their_shares():
    """Six clusters of 40 bits, as many as states of a hidden unit that is categorical.

    Shares in 200 independent draws differ by 0.06 on average (total variation), and by more than
    0.2 with a probability below 1e-6. Without one of the larger clusters they do by 0.2 and more.
    """
    rng, log_p = np.random.default_rng(0), np.log([0.3, 0.25, 0.2, 0.12, 0.08, 0.05])
    centres = rng.random((6, 40)) < 0.5
    W = (2.0 * centres - 1) * np.log(1 / 0.02 - 1)
    hidden = log_p - np.logaddexp(0, W).sum(axis=1)
    thetas = Theta(np.zeros(40)), Theta(hidden)
    machine = Machine((Bernoulli(), Categorical((6,))), thetas, (W,))
    for seed in range(3):
        rungs = ladder_of(machine, seed, visible=Theta(0.8 * W[5])).samples[-1]
        nearest = (rungs[:, None, :] != centres).sum(axis=2).argmin(axis=1)
        shares = np.bincount(nearest, minlength=6) / len(nearest)
        assert np.abs(shares - np.exp(log_p)).sum() / 2 < 0.2


def mirrored(seed):
    """A machine of strong weights whose distribution is the same with 0 and 1 exchanged."""
    W = np.random.default_rng(seed).normal(0, 8.0, (8, 10))
    thetas = (Theta(-W.sum(axis=0) / 2), Theta(-W.sum(axis=1) / 2))
    return Machine((Bernoulli(), Bernoulli()), thetas, (W,))


@pytest.mark.parametrize("seed, of_chains", [(0, 0), (1, 1)])
def test_neighbours_that_are_far_apart_get_rungs_between_them(seed, of_chains):
    """Four chains predict rates badly; those that they have later on tell where rungs are missing.

    Without new rungs two neighbours here accept 0.4 to 1.5 % of their exchanges.
    """
    machine = mirrored(seed)
    ladder = ladder_of(machine, rng_of(machine, of_chains), n_samples=4)
    method = Tempering(ladder)
    state = method.init(machine, rng_of(machine), 100)
    state, _ = method.diagnose(machine, state, rng_of(machine), 50)
    assert method.diagnose(machine, state, rng_of(machine), 50)[1].acceptance.min() > 0.1


def test_collected_samples_are_of_the_machine():
    machine = make(("bernoulli", "bernoulli"))
    rungs = Tempering(3).machines(machine)[:2]
    rng = rng_of(machine, 4)
    ladder = Ladder(rungs, tuple(exact_chains(Exact(rung), N).layers[0] for rung in rungs))
    rows = collected(machine, np.zeros((N // 2, 3)), ladder, rng, 20, 2, 10)
    assert rows.shape == (N, 3)
    assert_joint_distribution(Exact(machine), Gibbs().state_at(machine, rows[N // 2 :], rng).layers)


def test_the_acceptance_of_neighbours_is_reported():
    """Against the sum over pairs of values of both machines, each with its distribution.

    The least of two; within 0.03, about 10 standard errors of the mean over 64 chains.
    """
    machine = random_machine(("bernoulli", "bernoulli"), (5, 4), 3, 1.5)
    method, V = Tempering((0.0, 0.9, 1.0)), all_rows(5)
    first, second, _ = method.machines(machine)
    log_p = [-free_energy(m, V) - Exact(m).log_z for m in (first, second)]
    gains = log_p[1] - log_p[0]
    rates = np.minimum(1, np.exp(gains[:, None] - gains))
    found = method.log_partition(machine, rng_of(machine))
    assert abs(found.acceptance - np.exp(log_p[0]) @ rates @ np.exp(log_p[1])) < 0.03


@pytest.mark.parametrize("n_rungs", [2, 3])
def test_errors_are_large_where_rungs_do_not_overlap(n_rungs):
    """The spread of chains alone says 0.5 of an error of 21 nats (two rungs)."""
    W = np.random.default_rng(0).normal(0, 3, (12, 64))
    zeros = (Theta(np.zeros(64)), Theta(np.zeros(12)))
    machine = Machine((Bernoulli(), Bernoulli()), zeros, (W,))
    log_z = log_partition(machine, "exact").value
    found = Tempering(n_rungs).log_partition(machine, rng_of(machine))
    low, high = found.interval
    assert low < log_z < high and found.acceptance < 1e-3
    assert found.std > 1 and high - low < 150


def test_bennett_of_two_normal_distributions():
    """exp(-x^2 / 2) and exp(-(x - 1)^2 / 8): the ratio of integrals is 2.

    The spread of 40 ratios is their error, to 5 relative deviations of 1/sqrt(2 * 39) = 0.11.
    """
    generator, found = np.random.default_rng(0), []
    for _ in range(40):
        first, second = generator.normal(size=(10, 50)), 1 + 2 * generator.normal(size=(10, 50))
        below, above = (-((x - 1) ** 2) / 8 + x**2 / 2 for x in (first, second))
        ratio, influence = bennett(below, above)
        found.append((ratio, np.sqrt((influence**2).sum())))
    ratios, errors = np.array(found).T
    assert abs(ratios.mean() - np.log(2)) < 5 * errors.mean() / np.sqrt(40)
    assert 0.45 < ratios.std(ddof=1) / errors.mean() < 1.55


@pytest.mark.parametrize("kinds, n", [(("bernoulli", "spin"), 8), (("bernoulli",) * 2, 7)])
def test_ladders_of_other_units_are_errors(kinds, n):
    other, machine = random_machine(kinds, (n, 4), 0), two_modes()
    ladder = ladder_of(other, rng_of(other), n_sweeps=1)
    with pytest.raises(ValueError, match="the ladder has"):
        Tempering(ladder).log_partition(machine, rng_of(machine))
    coupled = Ladder((machine, machine), (np.zeros((2, 8)),) * 2)
    with pytest.raises(ValueError, match="first machine has independent units"):
        Tempering(coupled).log_partition(machine, rng_of(machine))


@pytest.mark.parametrize(
    "model, options, error, message",
    [
        (np.eye(3), {}, TypeError, "got ndarray"),
        (random_machine(("bernoulli",) * 3, (3, 3, 2), 0), {}, ValueError, "one hidden layer"),
        (two_modes(), {"n_sweeps": -1}, ValueError, "n_sweeps"),
        (two_modes(), {"visible": Theta(np.zeros(7))}, ValueError, "visible must be a Theta"),
    ],
)
def test_ladders_that_cannot_be_built(model, options, error, message):
    with pytest.raises(error, match=message):
        ladder_of(model, 0, **options)


def test_dtype_of_an_estimators_machine_is_kept():
    machine = random_machine(("gaussian", "bernoulli"), (3, 3), 0, dtype=np.float32)
    ladder = ladder_of(SimpleNamespace(machine_=machine), 0, n_samples=20)
    state = Tempering(ladder).init(machine, rng_of(machine), 4)
    state, _ = Tempering(ladder).step(machine, state, rng_of(machine))
    for rows in (*ladder.samples, *state.layers, *state.below):
        assert rows.dtype == np.float32
