"""What is measured after an epoch, against enumeration, and when a fit has diverged."""

import numpy as np
import pytest
from _exact import Exact, free_energy, log_likelihood
from _machines import random_machine
from _processes import on_ranks
from numpy.testing import assert_allclose
from scipy.special import expit, logsumexp

from skrbm.arrays import Columns, make_rng
from skrbm.evaluation import Density, LogPartition
from skrbm.exceptions import DivergenceError
from skrbm.inference import TAP, Gibbs
from skrbm.inputs import Coordinates, Rows
from skrbm.learning import ChainPhase, FixedPointPhase, LikelihoodMonitor, _monitors
from skrbm.learning._monitors import _SHARE
from skrbm.machine import Machine
from skrbm.units import Bernoulli, Gaussian, Poisson, Theta

BINARY, REAL = ("bernoulli", "bernoulli"), ("gaussian", "bernoulli")


def make(kinds=BINARY, strength=0.5, seed=0):
    return random_machine(kinds, (4, 3), seed, strength)


def positions(rows):
    """Two thirds of the distinct rows to train on, and the others."""
    return np.split(np.arange(len(rows)), [2 * len(rows) // 3])


def parts(watch, X):
    """The rows of X to train on and those set aside, each as often as it is there."""
    index, counts = watch.rows.index, watch.rows.counts.astype(int)
    return [np.repeat(X[index[part]], counts[part], axis=0) for part in positions(watch.rows)]


def monitor(machine, X, phase=None, held_out=True, density=Density, **options):
    options = {
        "criterion": "score",
        "tol": 0.25,
        "n_iter_no_change": 1,
        "batch_size": 7,
        "seed": np.random.SeedSequence(0),
        **options,
    }
    rows = Rows(X, machine.units[0], machine.dtype, coordinates=options.pop("coordinates", None))
    phase = ChainPhase(Gibbs(), "data") if phase is None else phase
    train, validation = positions(rows)
    made = LikelihoodMonitor(
        lambda machine, state: density(machine),
        phase,
        rows,
        train,
        validation if held_out else None,
        make_rng(0, X),
        **options,
    )
    return made, phase


def data(machine, n=30):
    return Exact(machine).sample(np.random.default_rng(1), n)[0]


def pseudo_log_likelihood(machine, X):
    total = 0.0
    for bit in range(X.shape[1]):
        flipped = X.copy()
        flipped[:, bit] = 1 - X[:, bit]
        weights = -np.array([free_energy(machine, X), free_energy(machine, flipped)])
        total = total + weights[0] - logsumexp(weights, axis=0)
    return total.mean()


@pytest.mark.parametrize("criterion", ["score", "free_energy_gap"])
def test_quantities_are_exact_where_sums_are(criterion):
    machine = make()
    X = data(machine)
    watch, _ = monitor(machine, X, criterion=criterion)
    measured = watch.measure(machine, None)
    train, validation = parts(watch, X)
    assert len(train) + len(validation) == 30 > len(watch.rows)  # some rows are equal
    gap = free_energy(machine, validation).mean() - free_energy(machine, train).mean()
    score = log_likelihood(machine, validation).mean()
    expected = {
        "pseudo_log_likelihood": pseudo_log_likelihood(machine, train),
        "free_energy_gap": gap,
    }
    if criterion == "score":
        expected |= {
            "score": score,
            "log_likelihood": log_likelihood(machine, train).mean(),
            "log_likelihood_std": 0.0,
        }
    assert set(measured) == set(expected)
    for name, value in expected.items():
        assert measured[name] == pytest.approx(value, rel=1e-10)
    assert watch.value == pytest.approx(score if criterion == "score" else -gap, rel=1e-10)
    both = [free_energy(machine, part) for part in (validation, train)]
    noise = np.sqrt(sum(F.var() / F.size for F in both))
    margin = 0.25 if criterion == "score" else -0.25 - noise
    assert watch.margin == pytest.approx(margin, rel=1e-10)


def test_without_rows_set_aside_nothing_stops():
    machine = make()
    watch, _ = monitor(machine, data(machine), held_out=False)
    for _ in range(3):
        assert set(watch.measure(machine, None)) == {"pseudo_log_likelihood"}
        assert watch.value is None and not watch.stop()


@pytest.mark.parametrize("held_out", [True, False])
def test_the_best_epoch_counts_where_it_is_published_and_else_the_last_one(held_out):
    machine = make()
    watch, _ = monitor(machine, data(machine), held_out=held_out)
    far = make(strength=3.0, seed=1)
    values = [watch.measure(m, None)["pseudo_log_likelihood"] for m in (machine, far)]
    assert values[0] > values[1]
    assert watch.reached == ("pseudo_log_likelihood", values[0 if held_out else 1])


def test_real_units_have_the_likelihood_of_the_solutions_of_the_phase():
    """TAP with weights of 0.1, where its own error is below 0.001."""
    machine = make(REAL, strength=0.1)
    X = data(machine)
    watch, phase = monitor(machine, X, FixedPointPhase(TAP(tol=1e-20, max_iter=200)))
    rng = make_rng(0, X)
    state, _, _ = phase.phases(machine, phase.init(machine, rng, 5, X), X, rng)
    measured = watch.measure(machine, state)
    expected = log_likelihood(machine, parts(watch, X)[0]).mean()
    assert measured["tap_log_likelihood"] == pytest.approx(expected, abs=1e-3)
    sampled, _ = monitor(machine, X, ChainPhase(Gibbs(), "data"))
    names = {"free_energy_gap", "score", "log_likelihood", "log_likelihood_std"}
    assert set(sampled.measure(machine, None)) == names


def test_equations_without_a_solution_are_not_measured(monkeypatch):
    """Learning goes on, or tells of the failure itself."""

    def diverge(phase, machine, state):
        raise DivergenceError("no integral")

    machine = make(REAL, strength=0.1)
    X, rng = data(machine), make_rng(0, machine.weights[0])
    watch, phase = monitor(machine, X, FixedPointPhase(TAP()), held_out=False)
    state, _, _ = phase.phases(machine, phase.init(machine, rng, 5, X), X, rng)
    assert "tap_log_likelihood" in watch.measure(machine, state)
    monkeypatch.setattr(FixedPointPhase, "log_partition", diverge)
    assert "tap_log_likelihood" not in watch.measure(machine, state)


def test_scores_are_those_of_the_data_in_other_coordinates():
    """The machine learns (v - offset) / divisor; the score is a log-density of v."""
    machine = make(REAL)
    coordinates = Coordinates(np.array([5.0, -3.0, 0.0, 1.0]), np.array([2.0, 0.5, 1.0, 10.0]))
    X = coordinates.outward(data(machine))
    watch, _ = monitor(
        machine,
        X,
        density=lambda machine: Density(machine, None, coordinates),
        coordinates=coordinates,
    )
    measured, held_out = watch.measure(machine, None), parts(watch, X)[1]
    expected = log_likelihood(machine, coordinates.inward(held_out)).mean() - np.log(10.0)
    assert measured["score"] == pytest.approx(expected, rel=1e-9)


def test_large_machines_are_scored_by_chains():
    """21 units in each layer are not summed; without couplings log Z is known.

    The seed is fixed; 5 standard errors have a probability of 6e-7, were the error normal.
    """
    machine = random_machine(BINARY, (21, 21), 0, 0.0)
    X = np.random.default_rng(0).integers(2, size=(30, 21)).astype(float)
    watch, _ = monitor(machine, X)
    b = machine.thetas[0].field
    expected = (parts(watch, X)[1] @ b - np.logaddexp(0, b).sum()).mean()
    measured = watch.measure(machine, None)
    std = measured["log_likelihood_std"]
    assert 0 < std < 0.1
    assert measured["score"] == pytest.approx(expected, abs=5 * std)


@pytest.mark.parametrize("n_epochs, is_known", [(14, False), (16, True)])
def test_the_end_may_cost_a_part_more(monkeypatch, n_epochs, is_known):
    """As below, 8 epochs pay for 8.6. Then 0.6 n - 8.6 are left, and 0.4 n come in the end.

    They have to be 6.4, and the next epoch with an estimate would be the 22nd.
    """
    monkeypatch.setattr(_monitors, "_LITTLE", 0)  # or else small machines are always measured
    machine = random_machine(BINARY, (5, 4), 0, 0.5)
    watch, _ = monitor(machine, data(machine), held_out=False)
    for _ in range(n_epochs):
        watch.measure(machine, None)
    assert ("log_likelihood" in watch.conclude(machine, None)) == is_known


def test_likelihoods_of_training_rows_are_measured_as_far_as_the_cost_allows():
    """4 hidden units cost 0.4 * 2**4 = 6.4, 11 rows 2.2, and 20 rows bring 0.6 in each epoch.

    The first estimate may cost three times what is there, and later ones what is there again.
    """
    machine = random_machine(BINARY, (5, 4), 0, 0.5)
    X = data(machine)
    watch, _ = monitor(machine, X, held_out=False)
    measured = [watch.measure(machine, None) for _ in range(100)]
    known = ["log_likelihood" in found for found in measured]
    first, second, *_ = np.flatnonzero(known)
    assert first == 7 and second - first == 14  # 3 (0.6 * 8 - 2.2) > 6.4, and 0.6 * 14.3 = 8.6
    assert sum(known) < 30
    train = parts(watch, X)[0]
    expected = log_likelihood(machine, train).mean()
    for found in measured:
        assert found.get("log_likelihood", expected) == pytest.approx(expected, rel=1e-10)
        assert found.get("log_likelihood_std", 0.0) == 0
    spent = sum(known) * (0.4 * 2**4 + 0.2 * len(watch.train))
    assert watch.credit == pytest.approx(100 * _SHARE * len(train) - spent)


def test_rows_that_are_shown_count_as_often_as_in_the_data():
    """Of 3000 rows with 11 binary columns 1000 are drawn, of which half are one row.

    Its share is off by more than 0.08, 5 standard deviations, with a probability of 6e-7.
    """
    machine = random_machine(BINARY, (11, 2), 0, 0.5)
    X = np.random.default_rng(0).integers(2, size=(6000, 11)).astype(float)
    X[::2] = 1.0
    watch, _ = monitor(machine, X, held_out=False)
    index, counts = watch.shown
    ones = (watch.rows[index] == 1).all(axis=1)
    weights = watch.rows.weights_of(positions(watch.rows)[0])
    assert counts.sum() == 1000 and watch.compared[1].sum() == 256
    assert ones.sum() <= 1
    share = weights.max() / weights.sum()
    assert counts[ones].sum() / 1000 == pytest.approx(share if ones.any() else 0, abs=0.08)


@pytest.mark.parametrize("strength, diverged", [(0.1, False), (300.0, True)])
def test_conclusions(strength, diverged):
    """A failure is told where training rows are far less likely than by independent units."""
    generator = np.random.default_rng(0)
    X = (generator.random((30, 4)) < expit([1.0, 0.0, -1.0, 0.5])).astype(float)
    machine = make(strength=strength, seed=1)
    machine = type(machine)(
        machine.units,
        (machine.units[0].initial_theta(Columns(X)), machine.thetas[1]),
        machine.weights,
    )
    watch, _ = monitor(machine, X, held_out=False)
    watch.measure(machine, None)
    watch.conclude(machine, None)
    if diverged:
        assert "pseudo-log-likelihood of training rows is" in watch.failure
        assert "learning has diverged. Lower learning_rate" in watch.told()
    else:
        assert watch.failure is None


@pytest.mark.parametrize(
    "unit, above, std, warns",
    [
        (Poisson(), 40.0, 0.1, True),
        (Poisson(), 40.0, 1e3, True),  # log Z of a machine that has run away is hardly known
        (Poisson(), 5.0, 2.5, False),
        (Gaussian(), 1e9, 0.1, False),  # short fits begin far below
    ],
)
def test_the_end_is_compared_with_independent_units(unit, above, std, warns, monkeypatch):
    """Where log Z is so many nats above that of independent units, with a standard error."""
    X = np.random.default_rng(0).poisson(3.0, size=(30, 4)).astype(float)
    thetas = unit.initial_theta(Columns(X)), Theta(np.zeros(3))
    machine = Machine((unit, Bernoulli()), thetas, (np.zeros((3, 4)),))
    watch, _ = monitor(machine, X, held_out=False)
    log_z = LogPartition(X.mean(axis=0).sum() + 3 * np.log(2) + above, std)
    monkeypatch.setattr(watch._tracker, "estimate", lambda machine, credit: log_z)
    watch.n_learnt = 100.0
    watch.conclude(machine, None)
    assert ("have wrong weights" in (watch.failure or "")) == warns


@pytest.mark.parametrize(
    "gains, start, told",
    [
        ((0, 20, 14), "persistent", True),
        ((0, 20, 16), "persistent", False),  # less than a quarter of what was gained
        ((0, 1, 0.6), "persistent", False),  # less than half a nat
        ((0, 14, 20), "persistent", False),
        ((0, 20, 14), "data", False),
    ],
)
def test_a_likelihood_that_has_fallen_is_told(gains, start, told, monkeypatch):
    """Given in nats above independent units after each of three epochs."""
    machine = random_machine(BINARY, (20, 3), 0, 0.0, spread=0.0)
    watch, phase = monitor(machine, data_of(40, 20), ChainPhase(Gibbs(), start), held_out=False)
    state = phase.init(machine, make_rng(0, machine.weights[0]), 30, watch.rows[np.arange(30)])
    watch.measure(machine, state)
    first, watch.peaks = watch.independent, {}
    for gain in gains:
        monkeypatch.setattr(watch, "_pseudo_log_likelihood", lambda *_, gain=gain: first + gain)
        watch.measure(machine, state)
    watch.conclude(machine, state)
    assert ("has fallen from" in (watch.failure or "")) == told


def test_ranks_end_alike_where_one_has_diverged():
    """Each has measured rows of its own, and all go on to log Z together, or none does."""

    def conclude(rank):
        machine = make()
        watch, _ = monitor(machine, data(machine), held_out=False)  # too few for log Z so far
        watch.measure(machine, None)
        if rank == 0:
            watch.reached = "pseudo_log_likelihood", -1e9
        return watch.conclude(machine, None), "has diverged" in (watch.failure or "")

    assert on_ranks(conclude) == [({}, True), ({}, False)]


def test_independent_units_are_those_of_all_rows():
    X = data(make())
    watch, _ = monitor(make(), X)
    watch.measure(make(), None)
    p = (X.sum(axis=0) + 0.5) / (len(X) + 1)
    train = parts(watch, X)[0]
    log_p = train * np.log(p) + (1 - train) * np.log(1 - p)
    assert_allclose(watch.independent, log_p.sum(axis=1).mean(), rtol=1e-10)


def test_a_monitor_goes_on_with_the_state_of_another():
    """With its rows, columns and estimates of log Z, and with what it has reached."""
    machine, good = make(), make(seed=1)
    X = data(good)
    (first, _), (second, _) = monitor(machine, X, tol=0.0), monitor(machine, X, tol=0.0)
    second.train, second.bits = second.train[:3], second.bits[:1]  # as other random numbers give
    for measured in (good, machine):
        first.measure(measured, None)
        stop = first.stop()
        first.keep(measured, None)
    second.set_state(first.get_state())
    assert second.kept[0] is good and second.best == first.best and second.n_bad == first.n_bad > 0
    assert second.reached == first.reached and second.credit == first.credit and stop
    assert second.measure(machine, None) == first.measure(machine, None)


@pytest.mark.parametrize(
    "now, then, warned",
    [
        ("groups", "same groups", "hardly moved (their correlation with themselves is 0.9"),
        ("groups", "other groups", ""),
        ("groups", "one group", "moved together (their mean has by"),
        ("one group", "one group", ""),
    ],
)
@pytest.mark.parametrize(
    "n_epochs, start, n_chains",
    [(40, "persistent", 100), (9, "persistent", 100), (40, "data", 100), (40, "persistent", 18)],
)
def test_chains_that_do_not_pass_between_groups_are_told(
    now, then, warned, n_epochs, start, n_chains
):
    """Of chains in two groups of 20 bits. 9 epochs, of 19 batches each, and 18 chains are too few.

    Chains that forget where they were have a correlation of at most 0.5, with a probability of
    1e-7 for more.
    """
    generator = np.random.default_rng(0)
    groups = np.arange(n_chains) % 2 == 0
    where = {
        "groups": groups,
        "same groups": groups,
        "other groups": generator.permutation(groups),
        "one group": np.ones(n_chains, bool),
    }
    machine = random_machine(BINARY, (20, 3), 0, 0.0, spread=0.0)
    watch, phase = monitor(machine, data_of(200, 20), ChainPhase(Gibbs(), start), held_out=False)
    for epoch in range(n_epochs):
        flips = generator.random((n_chains, 20)) < 0.05
        visible = where[now if epoch > 0.8 * n_epochs else then][:, None] ^ flips
        state = phase.init(machine, make_rng(0, visible), n_chains, visible.astype(float))
        chains = state.chains._replace(layers=(visible.astype(float), *state.chains.layers[1:]))
        watch.measure(machine, state._replace(chains=chains))
    last = state._replace(chains=chains)
    watch.conclude(machine, last)
    if warned and (n_epochs, start, n_chains) == (40, "persistent", 100):
        assert "sweeps chains have" in watch.failure and warned in watch.failure
        assert 'groups have wrong weights. Use starts="tempered"' in watch.told()
    else:
        assert watch.failure is None


def mixture(share, n=12):
    """A machine of two groups of bits: mostly ones with the given probability, else mostly zeros.

    It is a sum over the values of one hidden unit.
    """
    field = np.log(share / (1 - share)) - 2 * n
    thetas = Theta(np.full(n, -2.0)), Theta(np.array([field]))
    return Machine((Bernoulli(), Bernoulli()), thetas, (np.full((1, n), 4.0),))


@pytest.mark.parametrize(
    "share, start, told",
    [
        (0.95, "persistent", True),
        (0.05, "persistent", True),
        (0.6, "persistent", False),
        (0.95, "data", False),
    ],
)
def test_wrong_weights_of_groups_are_told(share, start, told):
    """Of a half of the rows: 0.45 off are 0.9 standard deviations, and 0.1 off are 0.2."""
    p = np.repeat(expit([-2.0, 2.0]), 200)[:, None]
    X = (np.random.default_rng(0).random((400, 12)) < p).astype(float)
    machine = mixture(share)
    watch, phase = monitor(machine, X, ChainPhase(Gibbs(), start), held_out=False)
    watch.compared = np.arange(len(watch.rows)), watch.rows.counts  # of both groups
    state = phase.init(machine, make_rng(0, X), 30, X[:30])
    watch.measure(machine, state)
    watch.conclude(machine, state)
    assert ("standard deviations away" in (watch.failure or "")) == told
    assert not told or "so that the groups have wrong weights" in watch.failure


@pytest.mark.parametrize("shares, told", [((0.5, 0.99), True), ((0.99, 0.5), False)])
def test_an_exact_log_likelihood_that_has_fallen_is_told(shares, told, monkeypatch):
    """Of units without a pseudo-likelihood. It falls by 1.6 of 3.1 nats that were gained."""
    p = np.repeat(expit([-2.0, 2.0]), 200)[:, None]
    X = (np.random.default_rng(0).random((400, 12)) < p).astype(float)
    first, last = map(mixture, shares)
    phase = ChainPhase(Gibbs(), "persistent")
    watch, _ = monitor(first, X, phase, held_out=False, credit=np.inf)
    monkeypatch.setattr(watch, "_likelihood", lambda density, state: {})
    state = phase.init(first, make_rng(0, X), 30, X[:30])
    for machine in (first, last):
        assert "log_likelihood" in watch.measure(machine, state)
    watch.conclude(last, state)
    assert ("the log-likelihood of training rows has fallen" in (watch.failure or "")) == told


def test_grey_levels_that_hardly_differ_are_no_groups():
    """Means are off by 0.05: twice what rows differ by, and a tenth of what draws of them do.

    Means of 256 draws add 0.06 in each of 8 directions.
    """
    X = 0.55 + 0.025 * np.random.default_rng(0).standard_normal((400, 10))
    machine = random_machine(BINARY, (10, 2), 0, 0.0, spread=0.0)
    watch, phase = monitor(machine, X, ChainPhase(Gibbs(), "persistent"), held_out=False)
    state = phase.init(machine, make_rng(0, X), 30, X[:30])
    watch.measure(machine, state)
    watch.conclude(machine, state)
    assert watch.failure is None


def data_of(n, n_columns):
    return (np.random.default_rng(1).random((n, n_columns)) < 0.5).astype(float)
