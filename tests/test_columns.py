"""Machines with columns of different kinds, counts or categories, against sums and integrals.

Random tests use fixed seeds; those of distributions have a level of 1e-6, and means may be off by
five of their standard errors.
"""

from dataclasses import replace

import numpy as np
import pytest
from _exact import Exact, clamped, free_energy
from _machines import random_theta, slopes_of
from numpy.testing import assert_allclose, assert_array_equal

from skrbm import RBM
from skrbm.arrays import Columns, make_rng
from skrbm.evaluation._observed import exact_sums
from skrbm.inference import FIXED_POINTS, Gibbs, NaiveMeanField, solve
from skrbm.inputs import Coordinates, Rows
from skrbm.learning import (
    SGD,
    ChainPhase,
    MomentLearner,
    StandardParameters,
    StepLength,
    Training,
)
from skrbm.machine import Machine, data_moments, has_integral, log_partition, precise_free_energy
from skrbm.units import (
    Bernoulli,
    Binomial,
    Categorical,
    ColumnUnits,
    DoubleReLU,
    Gaussian,
    Poisson,
    Spin,
    Theta,
    TruncatedGaussBernoulli,
    TruncatedGaussian,
)

LAYERS = {
    "all": [
        *[(Bernoulli(), [1]), (Gaussian(), [0]), (Categorical(3), [3, 4, 5]), (Spin(), [2])],
        *[(Poisson(), [6]), (Binomial(4), [7]), (TruncatedGaussBernoulli(0, 1), [8])],
    ],
    "with precisions": [
        *[(Gaussian(), 1), (Spin(), 1), (Binomial(3), 1), (TruncatedGaussian(-1, 1), 1)],
        *[(DoubleReLU(), 1), (Bernoulli(), 1)],
    ],
    "discrete": [(Bernoulli(), 1), (Categorical(3), 3), (Spin(), 1), (Binomial(2), 1)],
    "counts": [(Poisson(), 2), (Binomial(3), 1)],
    "sites": [(Categorical((3, 2, 4, 1)), 10)],
}
layers = pytest.mark.parametrize("name", LAYERS)


def make(name, strength=0.4):
    """A machine of such columns and three bits; of columns of one kind without ColumnUnits."""
    (unit, n), generator = LAYERS[name][0], np.random.default_rng(0)
    if len(LAYERS[name]) > 1:
        unit = ColumnUnits(LAYERS[name])
        n = unit.n_columns
    units = unit, Bernoulli()
    thetas = tuple(random_theta(u, k, generator) for u, k in zip(units, (n, 3), strict=True))
    return Machine(units, thetas, (strength * generator.standard_normal((3, n)),))


def draws(exact, n, seed=0):
    return exact.sample(np.random.default_rng(seed), n)[0]


@layers
def test_log_partition_and_free_energies_are_exact(name):
    machine = make(name)
    exact = Exact(machine)
    assert_allclose(log_partition(machine), exact.log_z, rtol=1e-10)
    X = draws(exact, 5)
    machine.units[0].check_values(X)
    assert_allclose(precise_free_energy(machine, X), free_energy(machine, X), rtol=1e-10)


@layers
def test_values_that_are_missing_are_summed_out(name):
    machine = make(name)
    unit, n = machine.units[0], machine.n_units[0]
    X = draws(Exact(machine), 6)
    observed = np.ones(X.shape, dtype=bool)
    sites = unit.groups(n)
    for r in range(6):
        observed[r, sites[r % len(sites)]] = False
    total, means, exact = exact_sums(machine, X, observed, layer=1)
    oracles = clamped(machine, np.where(observed, X, np.nan))
    assert exact.all()
    assert_allclose(total, [oracle.log_z for oracle in oracles], rtol=1e-9)
    assert_allclose(means, [oracle.mean(1) for oracle in oracles], rtol=1e-8)


@pytest.mark.parametrize("method", sorted(FIXED_POINTS))
@layers
def test_fixed_points_apply_where_all_parts_allow_it(name, method):
    """To weak couplings, mean field is exact to first order in log Z, and TAP to second order."""
    method = FIXED_POINTS[method]
    machine = make(name, strength=1e-3)
    if method.unmet(machine) is not None:
        assert type(method) is not NaiveMeanField
        return
    method = replace(method, max_iter=300)
    start = method.state_at(machine, machine.units[0].mean(machine.thetas[0])[None, :])
    solution = solve(method, machine, start)
    found = float(method.log_partition(machine, solution.state)[0])
    assert abs(found - Exact(machine).log_z) < (2e-4 if type(method) is NaiveMeanField else 2e-7)


@pytest.mark.parametrize("name", ["all", "counts"])
def test_standardised_parameters_have_the_gradient_of_finite_differences(name):
    machine = make(name)
    unit, n = machine.units[0], machine.n_units[0]
    columns = unit.columns_with("is_standardised", n)
    has_precision = unit.columns_with("has_precision", n)
    X = draws(Exact(machine), 50)
    coordinates = Coordinates.standard(X.mean(axis=0), X.std(axis=0), columns)
    assert_array_equal(coordinates.offset[~columns], 0)
    assert_array_equal(coordinates.divisor[~columns], 1)
    standard = StandardParameters(coordinates, has_precision)
    parts = standard.of(machine.copy())
    again = standard.machine(machine.copy(), parts)
    assert_allclose(again.weights[0], machine.weights[0])
    slopes = standard.gradient(machine, data_moments(machine, X)).arrays(parts)

    def log_weight(*moved):
        return -precise_free_energy(standard.machine(machine.copy(), moved), X).mean()

    for slope, expected in zip(slopes, slopes_of(log_weight, parts), strict=True):
        known = slope != 0  # other columns lack the statistic
        assert_allclose(slope[known], expected[known], rtol=1e-5, atol=1e-7)


def test_steps_of_bits_beside_numbers_are_as_long_as_without_them():
    """In weights and biases, and in biases of hidden bits, but not in those of numbers."""
    machine = make("all")
    unit, n = machine.units[0], machine.n_units[0]
    are_bits = unit.columns_with("has_bits", n)
    assert 0 < are_bits.sum() < n
    rule = StepLength.of_chains(machine.units, n)
    alone = StepLength.of_chains((Bernoulli(), Bernoulli()), n)
    assert rule.cap * rule.of_bits == alone.cap > rule.cap
    assert StepLength.of_chains((unit, Gaussian()), n).of_bits == 1.0 != rule.of_bits
    standard = StandardParameters(Coordinates(np.zeros(n), np.ones(n)), is_bit=1.0 * are_bits)
    *visible, hidden = standard.factors(machine, 3.0)
    for part in visible:
        assert_array_equal(part, np.where(are_bits, 3.0, 1.0))
    assert hidden == 3.0 and len(visible) + 1 == len(standard.of(machine))
    W, (own, _) = np.zeros((128, n)), machine.thetas
    wide = replace(machine, thetas=(own, Theta(np.zeros(128))), weights=(W,))
    assert standard.factors(wide, 3.0)[-1] == 2.0  # with more than 64 units only in part


@pytest.mark.law
@pytest.mark.parametrize("seed", [2, 4])
def test_fits_with_many_units_do_not_run_away(seed):
    """Rows that are noise: with the longest steps these fits end below -1000 nats."""
    X = np.random.default_rng(100 + seed).normal(size=(1000, 200))
    rbm = RBM(200, visible=Gaussian(covariance="diag"), n_iter=10, random_state=seed).fit(X)
    assert rbm.history_["log_likelihood"][-1] > -290


@pytest.mark.parametrize("alpha", [0.0, 0.1])
def test_longer_steps_of_bits_are_those_of_the_centered_and_penalised_gradient(alpha):
    """So that they end where others do, also where numbers have other means than in a first fit."""
    machine = make("all")
    unit, n = machine.units[0], machine.n_units[0]
    standard = StandardParameters(
        Coordinates(np.full(n, 0.3), np.full(n, 2.0)), is_bit=1.0 * unit.columns_with("has_bits", n)
    )
    X = draws(Exact(machine), 50)
    slopes = standard.gradient(machine, data_moments(machine, X))
    steps = []
    for rule in (StepLength(1.0), StepLength(1.0, of_bits=3.0)):
        optimizer = SGD(alpha=alpha)
        rows = Rows(X, unit, machine.dtype)
        learner = MomentLearner(
            rows, ChainPhase(Gibbs()), optimizer, batch_size=50, length=rule, parameters=standard
        )
        training = Training(make_rng(0, X), machine)
        training.offsets = X.mean(axis=0), np.array([0.2, 0.9, 0.5])[: machine.n_units[1]]
        before, parameters = standard.of(machine), standard.of(machine)
        learner._move(training, parameters, slopes, 0.01)
        steps.append(parameters[0] - before[0])
    assert_allclose(steps[1], steps[0] * standard.factors(machine, 3.0)[0])


@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_fits_know_which_columns_are_bits(covariance):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(50, 2)), rng.integers(2, size=(50, 3))], axis=1)
    unit = ColumnUnits([(Gaussian(covariance=covariance), 2), (Bernoulli(), 3)])
    rbm = RBM(2, visible=unit, n_iter=1, random_state=0).fit(X)
    assert_array_equal(rbm._training.recipe.parameters.is_bit, [0, 0, 1, 1, 1])


def two_classes(n):
    """Rows of two classes, with a value of each unit of the layer "all"."""
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, n)
    X = np.zeros((n, 9))
    X[:, 0] = 5 * z + rng.standard_normal(n)
    X[:, 1] = rng.random(n) < 0.2 + 0.6 * z
    X[:, 2] = 2 * (rng.random(n) < 0.8 - 0.6 * z) - 1
    X[np.arange(n), 3 + np.where(rng.random(n) < 0.8, z, 2)] = 1
    X[:, 6] = rng.poisson(2 + 6 * z)
    X[:, 7] = rng.binomial(4, 0.2 + 0.6 * z)
    X[:, 8] = (rng.random(n) < 0.5) * rng.random(n)
    return X


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"inference": "naive_mean_field"},
        pytest.param({"inference": Gibbs(start="tempered")}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_estimators_learn_mixed_columns(options, dtype=np.float32):
    """Columns that depend on a hidden bit are likelier by the machine than by independent units."""
    X, visible = two_classes(300).astype(dtype), ColumnUnits(LAYERS["all"])
    rbm = RBM(2, visible=visible, n_iter=15, random_state=0, **options).fit(X)
    assert rbm.components_.dtype == dtype
    unit = rbm.units_[0]
    theta = unit.initial_theta(Columns(X.astype(float)))
    independent = (unit.log_weight(theta, X.astype(float)) - unit.log_partition(theta).sum()).mean()
    assert rbm.score(X) > independent
    unit.check_values(rbm.sample(5, random_state=0))
    X[0, 3:6], X[1, 0], X[2, 6:8] = np.nan, np.nan, np.nan
    full = rbm.impute(X, random_state=0)
    assert np.isfinite(full).all() and full.dtype == dtype
    assert_allclose(full[0, 3:6].sum(), 1, rtol=1e-5)
    again = RBM(2, visible=visible, n_iter=2, random_state=0, **options).fit(X)
    assert np.isfinite(again.score(X))


def test_errors_name_the_columns():
    unit = ColumnUnits([(Bernoulli(), 1), (Categorical(2), 2), (Poisson(), 1)])
    X = np.array([[0, 0, 1, 3], [1, 1, 0, 0.0]])
    unit.check_values(X)
    for value, place, match in [
        (2.0, (0, 0), r"columns \[0\]"),
        (1.0, (0, 1), r"columns \[1, 2\]"),
        (0.5, (1, 3), r"columns \[3\]"),
    ]:
        wrong = X.copy()
        wrong[place] = value
        with pytest.raises(ValueError, match=match):
            unit.check_values(wrong)
    with pytest.raises(ValueError, match="has 4 columns, and the layer has 5"):
        RBM(2, visible=unit).fit(np.zeros((3, 5)))


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [(Bernoulli(), 0)],
        [(Bernoulli(), [0, 2])],
        [(Bernoulli(), [0, 1]), (Gaussian(), [1])],
        [("bernoulli", 2)],
    ],
    ids=str,
)
def test_parts_that_are_no_layer_are_refused(parts):
    with pytest.raises(ValueError, match=r"parts must|number of columns must|a column must"):
        ColumnUnits(parts)


def test_bounds_that_are_not_given_are_those_of_the_columns():
    unit = ColumnUnits([(TruncatedGaussian(), 1), (Binomial(), 1), (Gaussian(), 1)])
    X = np.array([[-3.0, 2, 100], [5, 7, -1]])
    fitted = unit.fitted(Columns(X))
    assert fitted.units == (TruncatedGaussian(-3, 5), Binomial(7), Gaussian())
    assert unit.asks_for(fitted) and not fitted.asks_for(unit)
    for data in (X, lambda: iter([X[:1], X[1:]])):
        rbm = RBM(1, visible=unit, n_iter=1, random_state=0).fit(data)
        assert rbm.units_[0] == fitted


def test_couplings_of_some_unbounded_columns_decide_on_the_integral():
    unit, W = ColumnUnits([(Bernoulli(), 1), (Gaussian(), 1)]), np.array([[5.0, 0.9], [0.0, 0.0]])
    theta = unit.default_theta(2, W)
    for strength, expected in ((1.0, True), (1.2, False)):
        weights = strength * W
        for machine in (
            Machine((unit, Gaussian()), (theta, Gaussian().default_theta(2, W)), (weights,)),
            Machine((Gaussian(), unit), (Gaussian().default_theta(2, W), theta), (weights.T,)),
        ):
            assert has_integral(machine) is expected
