"""What is measured after an epoch, against enumeration, and the warning at the end of a fit.

Seeds are fixed.
"""

import numpy as np
import pytest
from _exact import Exact, log_likelihood
from _fractional import all_rows
from _machines import bits, random_machine
from numpy.testing import assert_array_equal
from scipy.special import expit, logsumexp
from sklearn.exceptions import ConvergenceWarning

from skrbm import RBM
from skrbm.arrays import Columns, make_rng
from skrbm.evaluation import Density, LogPartition
from skrbm.inference import Gibbs
from skrbm.inputs import Coordinates, Rows
from skrbm.learning import (
    CHAINS,
    ChainPhase,
    EarlyStopping,
    LikelihoodMonitor,
    _tracking,
)
from skrbm.learning._likelihood import moment_mismatch
from skrbm.machine import Machine, free_energy
from skrbm.units import Bernoulli, Poisson, Theta

BINARY, REAL = ("bernoulli", "bernoulli"), ("gaussian", "bernoulli")


@pytest.fixture
def no_sums(monkeypatch):
    """Small machines, whose log Z is known, are estimated by chains."""
    monkeypatch.setattr(_tracking, "_EXACT", -1)


def make(kinds=BINARY, strength=0.5, seed=0):
    return random_machine(kinds, (4, 3), seed, strength)


def positions(rows):
    """Two thirds of the distinct rows to train on, and the others."""
    return np.split(np.arange(len(rows)), [2 * len(rows) // 3])


def parts(watch, X):
    """The rows of X to train on and those set aside, each as often as it is there."""
    index, counts = watch.rows.index, watch.rows.counts.astype(int)
    return [np.repeat(X[index[part]], counts[part], axis=0) for part in positions(watch.rows)]


def monitor(machine, X, phase=None, held_out=True, density=Density, coordinates=None, **options):
    rows = Rows(X, machine.units[0], machine.dtype, coordinates=coordinates)
    phase = CHAINS["data"](Gibbs()) if phase is None else phase
    train, validation = positions(rows) if held_out else (np.arange(len(rows)), None)
    settings = {"stopping": EarlyStopping(patience=1, tol=0.25), "batch_size": 7}
    options = settings | {"seed": np.random.SeedSequence(0)} | options
    made = LikelihoodMonitor(
        lambda machine, state: density(machine), phase, rows, train, validation, **options
    )
    return made, phase


def data(machine, n=30):
    return Exact(machine).sample(np.random.default_rng(1), n)[0]


@pytest.mark.parametrize("kinds", [BINARY, REAL])
def test_quantities_are_exact_where_sums_are(kinds):
    machine = make(kinds)
    X = data(machine)
    watch, _ = monitor(machine, X)
    measured = watch.measure(machine, None)
    train, validation = parts(watch, X)
    assert len(train) + len(validation) == 30
    score = log_likelihood(machine, validation).mean()
    expected = {
        "log_likelihood": log_likelihood(machine, train).mean(),
        "log_likelihood_std": 0.0,
        "score": score,
    }
    assert set(measured) == set(expected)
    for name, value in expected.items():
        assert measured[name] == pytest.approx(value, rel=1e-9)
    assert watch.value == measured["score"] and watch.margin == 0.25


class Recorded(LikelihoodMonitor):
    """Keeps the machines of the epochs."""

    machines = None

    def measure(self, machine, state):
        self.machines.append(machine.copy())
        return super().measure(machine, state)


@pytest.fixture
def recorded(monkeypatch):
    """Machines after the epochs of the next fit."""
    machines = []
    monkeypatch.setattr(Recorded, "machines", machines)
    monkeypatch.setattr("skrbm.estimators._base.LikelihoodMonitor", Recorded)
    return machines


def exact_log_likelihood(machine, X):
    log_weights = -free_energy(machine, all_rows(X.shape[1]))
    return (-free_energy(machine, X)).mean() - logsumexp(log_weights)


@pytest.mark.parametrize("by_chains", [False, True])
def test_the_history_of_a_fit_has_the_log_likelihood_within_its_error(
    by_chains, recorded, monkeypatch
):
    """In 20 epochs of 40 at least, and on the whole, where chains estimate log Z, without a bias.

    4.9 standard errors have a probability of 1e-6, were the error normal.
    """
    if by_chains:
        monkeypatch.setattr(_tracking, "_EXACT", -1)
    X = bits()
    rbm = RBM(6, batch_size=20, n_iter=40, learning_rate=0.1, random_state=0).fit(X)
    found, std = (np.array(rbm.history_[f"log_likelihood{end}"]) for end in ("", "_std"))
    exact = np.array([exact_log_likelihood(machine, X) for machine in recorded])
    known = np.isfinite(found)
    assert len(exact) == 40 and known.sum() >= 20
    assert exact[-1] > exact[0] + 0.5  # or there would be nothing to see
    assert (np.abs(found - exact)[known] <= 4.9 * std[known] + 1e-9).all()
    assert (std[known] > 0).all() == by_chains and (std[known] < 0.4).all()


def test_the_history_has_the_log_likelihood_of_what_is_observed(recorded):
    X = bits(60)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    rbm = RBM(3, batch_size=20, n_iter=4, learning_rate=0.1, random_state=0).fit(X)
    found = np.array(rbm.history_["log_likelihood"])
    assert np.isfinite(found).any()
    for value, machine in zip(found, recorded, strict=True):
        log_z = Exact(machine).log_z
        exact = np.mean([Exact(machine, observed=row).log_z - log_z for row in X])
        assert np.isnan(value) or value == pytest.approx(exact, rel=1e-9)


def test_the_noise_of_a_score_is_that_of_log_z(no_sums):
    machine = make(BINARY)
    watch, _ = monitor(machine, data(machine), batch_size=1000)
    watch.measure(machine, None)
    assert 0 < watch.noise == watch.log_z.std < 0.3


@pytest.mark.parametrize("kinds", [BINARY, REAL])
def test_scores_of_the_same_rows_are_compared_in_pairs(kinds):
    """The noise is the standard error of the mean change since the best epoch."""
    best, other = make(kinds), make(kinds, 0.4)
    X = data(best, 200)
    watch, _ = monitor(best, X)
    watch.measure(best, None)
    assert watch.noise == 0.0 and not watch.stop()
    watch.measure(other, None)
    validation = parts(watch, X)[1]
    change = log_likelihood(other, validation) - log_likelihood(best, validation)
    assert watch.noise == pytest.approx(change.std() / np.sqrt(len(change)), rel=1e-6)


@pytest.mark.parametrize("n_iter, patience", [(10, 5), (750, 75)])
def test_patience_is_a_tenth_of_the_epochs(n_iter, patience):
    assert EarlyStopping.of(True, n_iter, 0.01).patience == patience
    assert EarlyStopping.of(EarlyStopping(3), n_iter, 0.01) == EarlyStopping(3, tol=0.01)


def test_the_score_of_incomplete_rows_is_that_of_some():
    machine = make(REAL)
    X = data(machine, 600)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    watch, _ = monitor(machine, X)
    _, validation = positions(watch.rows)
    assert len(validation) > 100 == len(set(watch.validation)) == len(watch.validation)
    assert set(watch.validation) <= set(validation)


@pytest.mark.parametrize("learning_rate", [0.05, "auto"])
def test_early_stopping_keeps_the_last_epoch_that_was_as_good_as_the_best(recorded, learning_rate):
    """Few rows that are noise: their likelihood rises at first, and then others' falls."""
    X = np.random.default_rng(0).integers(2, size=(60, 10)).astype(float)
    settings = {"batch_size": 10, "learning_rate": learning_rate, "random_state": 0}
    rbm = RBM(
        30,
        n_iter=300,
        early_stopping=EarlyStopping(patience=4, validation_fraction=0.3),
        **settings,
    ).fit(X)
    scores = np.array(rbm.history_["score"])
    assert len(scores) < 300
    kept = len(scores) - 5
    assert scores[kept + 1 :].max() < scores[kept]
    assert_array_equal(rbm.components_, recorded[kept].weights[0])
    assert_array_equal(rbm.intercept_visible_, recorded[kept].thetas[0].field)


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


# The end of a fit.


def mixture(share, n=12):
    """A machine of two groups of bits: mostly ones with the given probability, else mostly zeros.

    It is a sum over the values of one hidden unit.
    """
    field = np.log(share / (1 - share)) - 2 * n
    thetas = Theta(np.full(n, -2.0)), Theta(np.array([field]))
    return Machine((Bernoulli(), Bernoulli()), thetas, (np.full((1, n), 4.0),))


def two_groups(n=400):
    """Rows of which half belong to each group."""
    p = np.repeat(expit([-2.0, 2.0]), n // 2)[:, None]
    return (np.random.default_rng(0).random((n, 12)) < p).astype(float)


@pytest.mark.parametrize(
    "share, n, warns",
    [(0.95, 400, True), (0.05, 400, True), (0.6, 400, False), (0.5, 400, False), (0.95, 60, False)],
)
def test_wrong_shares_of_modes_give_a_warning(no_sums, share, n, warns):
    """0.45 off are 0.9 standard deviations, 0.1 off are 0.2; 60 rows are too few to tell."""
    X, machine = two_groups(n), mixture(share)
    watch, phase = monitor(machine, X, ChainPhase(Gibbs()), held_out=False)
    state = phase.init(machine, make_rng(0, X), 30, X[:30])
    watch.measure(machine, state)
    message, _ = watch.warning(machine, state)
    assert (message is not None) == warns
    if warns:
        assert "have not mixed" in message
        assert "use more epochs (n_iter)." in message  # there are no other settings
        watch.settings = ["n_iter", "inference"]
        message, _ = watch.warning(machine, state)
        assert f"use more epochs (n_iter) or {phase.remedies['inference']}." in message
        with pytest.warns(ConvergenceWarning, match="have not mixed"):
            watch.conclude(machine, state)


def test_incomplete_rows_are_not_compared_without_log_z(monkeypatch):
    """Where chains have found no finite one."""
    machine = make(REAL)
    X = data(machine)
    X[::2, 0] = np.nan
    watch, _ = monitor(machine, X, held_out=False)
    watch.measure(machine, None)
    assert watch.warning(machine, None)[1] is not None
    monkeypatch.setattr(watch._tracker, "estimate", lambda machine, budget: None)
    assert watch.warning(machine, None) == (None, None)


@pytest.mark.parametrize("above, std, warns", [(5.0, 0.1, True), (5.0, 2.0, False), (-1, 0, False)])
def test_the_end_is_compared_with_independent_units(above, std, warns, monkeypatch):
    """Where log Z makes rows lose so many nats on average, with a standard error.

    Their losses have a standard deviation of about 2.5 nats, and their mean one of 0.5.
    """
    X = np.random.default_rng(0).poisson(3.0, size=(30, 4)).astype(float)
    thetas = Poisson().initial_theta(Columns(X)), Theta(np.zeros(3))
    log_z = np.exp(thetas[0].field).sum() + 3 * np.log(2) + above + 1.5 * X[:, 0].mean()
    own = thetas[0]._replace(field=thetas[0].field + np.array([1.5, 0, 0, 0]))
    machine = Machine((Poisson(), Bernoulli()), (own, thetas[1]), (np.full((3, 4), 1e-9),))
    watch, _ = monitor(machine, X, held_out=False)
    log_z = LogPartition(log_z, std)
    monkeypatch.setattr(watch._tracker, "estimate", lambda machine, budget: log_z)
    watch.measure(machine, None)
    message, _ = watch.warning(machine, None)
    assert (message is not None) == warns
    assert not warns or "below that of independent columns" in message


def weights_of(n):
    return np.full(n, 1.0), np.full(n, 1 / n)


def test_moments_along_the_main_directions():
    """Means that differ by 2 standard deviations, variances by a factor, in units of the rows."""
    generator = np.random.default_rng(0)
    scales, n = np.array([5.0, 1.0, 0.2]), 4000
    rows, samples = (generator.standard_normal((n, 3)) * scales for _ in range(2))
    counts, weights = weights_of(n)
    assert moment_mismatch(rows, counts, samples, weights) is None
    far = samples + np.array([0.0, 2.0, 0.0])
    assert moment_mismatch(rows, counts, far, weights) == pytest.approx(2.5, abs=0.5)
    wide = samples * np.array([1.0, 1.0, 2.0])  # 4 in place of 1
    assert moment_mismatch(rows, counts, wide, weights) == pytest.approx(1.5, abs=0.3)
    near = samples + 0.4 * scales
    assert moment_mismatch(rows, counts, near, weights) is None
    apart = samples + 1.2 * scales
    assert moment_mismatch(rows, counts, apart, weights) == pytest.approx(1.2, abs=0.2)
    few = rows[:10], counts[:10], apart[:10], np.full(10, 0.1)  # whose means differ by chance
    assert moment_mismatch(*few) is None
