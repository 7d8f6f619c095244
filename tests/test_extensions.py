"""The examples of the developers' guide run, and import public names only."""

import ast
import runpy
from pathlib import Path

import numpy as np
import pytest
from _exact import Exact, log_likelihood
from _machines import differences, gradient, parameters, random_machine
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import logsumexp

from skrbm import RBM, TAPRBM, DeepTAPMachine
from skrbm.arrays import make_rng
from skrbm.evaluation import compare
from skrbm.inference import METHODS, NaiveMeanField, solve
from skrbm.machine import Block, Machine, Moments, data_moments, log_partition
from skrbm.units import Bernoulli, Theta, Unit

FOLDER = Path(__file__).parents[1] / "doc" / "developers"
LEVEL = 1e-6


def load(name):
    return runpy.run_path(str(FOLDER / f"{name}.py"))


@pytest.mark.parametrize("name", ["spin", "mean_field"])
def test_examples_import_public_names_only(name):
    for node in ast.walk(ast.parse((FOLDER / f"{name}.py").read_text())):
        if isinstance(node, ast.ImportFrom):
            names = [*node.module.split("."), *(alias.name for alias in node.names)]
            assert not [part for part in names if part.startswith("_")]


@pytest.fixture
def spins():
    """A machine with spins as visible units."""
    generator = np.random.default_rng(0)
    thetas = Theta(generator.standard_normal(3)), Theta(generator.standard_normal(2))
    return Machine((load("spin")["Spin"](), Bernoulli()), thetas, (generator.normal(size=(2, 3)),))


@pytest.mark.parametrize("precision", [None, 0.7])
def test_spins_against_their_two_values(spins, precision):
    unit, theta, values = spins.units[0], spins.thetas[0], np.array([-1.0, 1.0])
    tilted = unit.tilt(theta, np.zeros(3), None if precision is None else np.full(3, precision))
    weights = theta.field[:, None] * values - 0.5 * (precision or 0.0) * values**2
    p = np.exp(weights - logsumexp(weights, axis=1, keepdims=True))
    mean, variance, *_ = moments = unit.central_moments(tilted)
    assert_allclose(unit.log_partition(tilted), logsumexp(weights, axis=1), rtol=1e-12)
    assert_allclose(mean, p @ values, rtol=1e-12)
    for k, moment in enumerate(moments[1:], start=2):
        expected = (p * (values - mean[:, None]) ** k).sum(axis=1)
        assert_allclose(moment, expected, rtol=1e-10, atol=1e-14)
    assert_allclose(unit.mode(tilted), np.sign(theta.field))
    assert_allclose(unit.mean_variance(tilted)[1], variance)


def test_first_biases_of_spins_take_weights(spins):
    X, counts = np.array([[1.0, -1, 1], [-1, -1, 1], [1, -1, -1]]), np.array([3.0, 1.0, 2.0])
    fitted, unit = spins.units[0].initial_theta(X, counts), spins.units[0]
    repeated = unit.initial_theta(np.repeat(X, counts.astype(int), axis=0))
    assert_allclose(fitted.field, repeated.field, rtol=1e-12)
    assert_allclose(unit.mean(fitted), counts @ X / 6.5, rtol=1e-12)


def test_spins_are_drawn_by_their_probabilities(spins):
    """By binomial tests at a level of 1e-6 in all."""
    unit, theta, n = spins.units[0], spins.thetas[0], 20_000
    X = unit.sample(Theta(np.tile(theta.field, (n, 1))), make_rng(0, theta.field))
    for column, mean in zip(X.T, unit.mean(theta), strict=True):
        assert stats.binomtest(int((column == 1).sum()), n, (1 + mean) / 2).pvalue > LEVEL / 3


def test_a_machine_of_spins_is_summed_and_learnt(spins):
    exact, X = Exact(spins), np.array([[1.0, -1.0, 1.0], [-1.0, -1.0, 1.0]])
    for layers in ((0,), (1,)):
        assert_allclose(log_partition(spins, layers), exact.log_z, rtol=1e-12)
    means = tuple(exact.mean(l)[None] for l in range(2))
    rest = exact.pair(0) - means[1].T @ means[0]
    model = Moments((Block(means, (None, None), 1.0),), ((0, rest),))
    parts = gradient(spins, data_moments(spins, X) - model)
    for part, (name, values, put) in zip(parts, parameters(spins), strict=True):
        slopes = differences(lambda m: log_likelihood(m, X).mean(), values, put)
        assert_allclose(part, slopes, rtol=1e-6, atol=1e-8, err_msg=name)


class Bare(load("spin")["Spin"]):
    """Spins whose third and fourth moments nobody has written."""

    central_moments = Unit.central_moments


@pytest.mark.parametrize("method", METHODS)
def test_units_without_central_moments_are_learnt_or_refused(method):
    """In one sentence that says what they lack."""
    X = np.random.default_rng(0).choice([-1.0, 1.0], (20, 4))
    rbm = RBM(2, visible=Bare(), hidden=Bare(), inference=method, n_iter=2, random_state=0)
    if method in ("bp", "tap3", "langevin", "gibbs_langevin", "relaxed_bp"):
        wanted = (
            "third and fourth central moments.*; use TAP" if method == "relaxed_bp" else "needs"
        )
        with pytest.raises(ValueError, match=wanted):
            rbm.fit(X)
        return
    rbm.fit(X)
    assert np.isfinite(rbm.score(X))
    assert "relaxed_bp" not in [row["method"] for row in compare(rbm, n_steps=10)]


def test_mean_field_has_the_solutions_of_the_package():
    MeanField, machine = (
        load("mean_field")["MeanField"],
        random_machine(("bernoulli",) * 2, (4, 3), 0),
    )
    X = np.random.default_rng(0).integers(2, size=(5, 4)).astype(float)
    own, ours = MeanField(tol=1e-20), NaiveMeanField(max_iter=100, tol=1e-20)
    found, truth = (solve(m, machine, m.start(machine, X)) for m in (own, ours))
    assert found.converged.all()
    for a, b in zip(found.state.means, truth.state.means, strict=True):
        assert_allclose(a, b, rtol=1e-8)
    assert_allclose(
        own.log_partition(machine, found.state), ours.log_partition(machine, truth.state)
    )


def test_mean_field_refuses_what_it_is_not_for():
    X, method = np.eye(4), load("mean_field")["MeanField"]()
    with pytest.raises(ValueError, match="MeanField needs one hidden layer"):
        DeepTAPMachine((3, 2), inference=method).fit(X)
    for units in ({"visible": "truncated_gaussian"}, {"hidden": "gaussian"}):
        with pytest.raises(ValueError, match="MeanField needs binary units"):
            TAPRBM(2, inference=method, **units).fit(X)


def test_mean_field_trains():
    X = np.random.default_rng(0).integers(2, size=(20, 4)).astype(float)
    methods = load("mean_field")["MeanField"](), NaiveMeanField(max_iter=100)
    first, second = (TAPRBM(2, n_iter=2, inference=m, random_state=0).fit(X) for m in methods)
    assert_allclose(first.components_, second.components_, rtol=1e-6, atol=1e-10)
