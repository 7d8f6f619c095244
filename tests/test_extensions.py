"""The examples of the developers' guide run, and import public names only."""

import ast
import runpy
from pathlib import Path

import numpy as np
import pytest
from _documented import Ternary
from _exact import Exact, log_likelihood
from _machines import differences, gradient, parameters, random_machine
from numpy.testing import assert_allclose

from skrbm import RBM
from skrbm.inference import METHODS, NaiveMeanField, solve
from skrbm.machine import Block, Machine, Moments, data_moments, log_partition
from skrbm.units import Bernoulli, Theta

FOLDER = Path(__file__).parents[1] / "doc" / "developers"


def load(name):
    return runpy.run_path(str(FOLDER / f"{name}.py"))


@pytest.mark.parametrize("name", ["ternary", "mean_field"])
def test_examples_import_names_of_the_reference_only(name):
    """These are the names that may not change at any time."""
    listed = set((FOLDER.parent / "api.rst").read_text().split())
    for node in ast.walk(ast.parse((FOLDER / f"{name}.py").read_text())):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("skrbm"):
            assert not [part for part in node.module.split(".") if part.startswith("_")]
            assert {alias.name for alias in node.names} <= listed


def test_a_machine_of_ternary_units_is_summed_and_learnt():
    generator = np.random.default_rng(0)
    own = Theta(generator.standard_normal(3), generator.standard_normal(3))
    thetas = own, Theta(generator.standard_normal(2))
    machine = Machine((Ternary(), Bernoulli()), thetas, (generator.normal(size=(2, 3)),))
    exact, X = Exact(machine), np.array([[1.0, -1.0, 0.0], [-1.0, 0.0, 1.0]])
    for layers in ((0,), (1,)):
        assert_allclose(log_partition(machine, layers), exact.log_z, rtol=1e-12)
    means = tuple(exact.mean(l)[None] for l in range(2))
    rest = exact.pair(0) - means[1].T @ means[0]
    model = Moments((Block(means, (exact.variance(0)[None], None), 1.0),), ((0, rest),))
    parts = gradient(machine, data_moments(machine, X) - model)
    for part, (name, values, put) in zip(parts, parameters(machine), strict=True):
        slopes = differences(lambda m: log_likelihood(m, X).mean(), values, put)
        assert_allclose(part, slopes, rtol=1e-6, atol=1e-8, err_msg=name)


@pytest.mark.parametrize("method", METHODS)
def test_units_without_central_moments_are_learnt_or_refused(method):
    """As those of the guide are, in one sentence that says what they lack."""
    X = np.random.default_rng(0).choice([-1.0, 0.0, 1.0], (20, 4))
    rbm = RBM(2, visible=Ternary(), hidden=Ternary(), inference=method, n_iter=2, random_state=0)
    if method in ("bp", "tap3", "langevin", "gibbs_langevin", "relaxed_bp"):
        wanted = (
            "third and fourth central moments.*; use TAP" if method == "relaxed_bp" else "needs"
        )
        with pytest.raises(ValueError, match=wanted):
            rbm.fit(X)
        return
    rbm.fit(X)
    assert np.isfinite(rbm.score(X))


def test_mean_field_has_the_solutions_of_the_package():
    MeanField, machine = (
        load("mean_field")["MeanField"],
        random_machine(("bernoulli",) * 2, (4, 3), 0),
    )
    X = np.random.default_rng(0).integers(2, size=(5, 4)).astype(float)
    own, ours = MeanField(tol=1e-20), NaiveMeanField(max_iter=100, tol=1e-20)
    found, truth = (solve(m, machine, m.state_at(machine, X)) for m in (own, ours))
    assert found.converged.all()
    for a, b in zip(found.state.means, truth.state.means, strict=True):
        assert_allclose(a, b, rtol=1e-8)
    assert_allclose(
        own.log_partition(machine, found.state), ours.log_partition(machine, truth.state)
    )
