"""The examples of the docstrings and of the developers' guide do what they say."""

import doctest
import importlib
import pkgutil

import numpy as np
import pytest
from _documented import MeanField, Spin
from _exact import Exact
from _machines import random_machine
from numpy.testing import assert_allclose
from scipy.special import expit

import skrbm
from skrbm import TAPRBM
from skrbm._callbacks import HAS_CALLBACKS
from skrbm.inference import solve
from skrbm.machine import Machine
from skrbm.units import Bernoulli, Theta

MODULES = sorted(m.name for m in pkgutil.walk_packages(skrbm.__path__, "skrbm."))
EXAMPLES = {
    test.name: test
    for name in MODULES
    for test in doctest.DocTestFinder().find(importlib.import_module(name))
    if test.examples
}
NEEDS_CALLBACKS = "skrbm.inspection._recorder.SolutionsRecorder"


def test_the_examples_are_found():
    found = {name.rpartition(".")[2] for name in EXAMPLES}
    assert set(skrbm.__all__) - {"__version__"} <= found
    assert NEEDS_CALLBACKS in EXAMPLES


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_of_docstrings(name):
    if name == NEEDS_CALLBACKS and not HAS_CALLBACKS:
        pytest.skip("callbacks came with scikit-learn 1.9")
    printed = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    failed, tried = runner.run(EXAMPLES[name], out=printed.append)
    assert tried and not failed, "".join(printed)


# ---------------------------------------------------------------- the developers' guide


def solved(machine):
    method = MeanField(max_iter=2000, tol=1e-26)
    start = method.start(machine, np.full((1, machine.n_units[0]), 0.5))
    return method, solve(method, machine, start).state


@pytest.mark.parametrize("seed", range(5))
def test_mean_field_of_the_guide(seed):
    """Its means are self-consistent, and its log Z is a lower bound: close if weights are weak."""
    for strength, gap in ((1.0, 1.0), (0.1, 0.01), (0.0, 1e-12)):
        machine = random_machine(("bernoulli", "bernoulli"), (4, 3), seed, strength)
        method, state = solved(machine)
        (V, H), W = state.means, machine.weights[0]
        assert_allclose(H, expit(V @ W.T + machine.thetas[1].field), atol=1e-10)
        assert_allclose(V, expit(H @ W + machine.thetas[0].field), atol=1e-10)
        below = Exact(machine).log_z - float(method.log_partition(machine, state)[0])
        assert -1e-12 < below < gap
    moments = method.moments(machine, state)
    pair = moments.add_pair(machine, 0, np.zeros_like(machine.weights[0]), 1.0)
    assert_allclose(pair, H.T @ V, rtol=1e-12)


def test_mean_field_of_the_guide_trains():
    X = np.repeat([[1.0, 1, 0, 0], [0, 0, 1, 1]], 20, axis=0)
    scores = []
    for n_iter in (0, 100):
        params = {"n_iter": n_iter, "learning_rate": 0.3, "random_state": 0}
        rbm = TAPRBM(3, inference=MeanField(), **params).fit(X)
        scores.append(rbm.score(X))
    assert scores[1] > scores[0] + 0.5


def test_spins_of_the_guide_are_the_visible_units_of_a_machine():
    """The distribution of spins s is that of bits x = (s + 1) / 2 with other weights and biases."""
    bits = random_machine(("bernoulli", "bernoulli"), (4, 3), 0)
    W, (b, c) = bits.weights[0], (theta.field for theta in bits.thetas)
    thetas = Theta(b / 2), Theta(c + W.sum(axis=1) / 2)
    spins = Machine((Spin(), Bernoulli()), thetas, (W / 2,))
    assert Exact(spins).log_z + b.sum() / 2 == pytest.approx(Exact(bits).log_z, rel=1e-12)
    parameters = W / 2, thetas[1].field, thetas[0].field
    found = TAPRBM.from_parameters(*parameters, visible=Spin(), random_state=0)
    assert found.log_partition("exact") == pytest.approx(Exact(spins).log_z, rel=1e-10)
    assert_allclose(Exact(spins).mean(0), 2 * Exact(bits).mean(0) - 1, rtol=1e-10)
