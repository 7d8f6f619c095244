"""Estimates of log Z and pseudo-likelihood, against enumeration.

Seeds are fixed. Estimates are held to 5 standard errors (6e-7 for one normal error).
"""

import gzip
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from _exact import Exact, free_energy
from _machines import enumerable_pairs, random_machine
from numpy.testing import assert_allclose
from scipy.io import loadmat
from scipy.special import logsumexp

from skrbm import RBM, BernoulliRBM, ConditionalRBM, evaluation
from skrbm.evaluation import (
    AIS,
    log_partition,
    pseudo_log_likelihood,
    reverse_log_partition,
    solutions,
)
from skrbm.exceptions import DivergenceError
from skrbm.inference import (
    ladder_of,
)
from skrbm.machine import Machine
from skrbm.machine import free_energy as free_energies
from skrbm.units import Bernoulli, Gaussian, Theta

PAIRS = enumerable_pairs()
BINARY = ("bernoulli", "bernoulli")


def make(kinds=BINARY, sizes=(4, 3), seed=0, strength=0.7, **kwargs):
    return random_machine(kinds, sizes, seed, strength, **kwargs)


# log_partition and its methods.


def test_auto_is_exact_where_a_layer_is_small_and_else_anneals():
    machine = make(sizes=(5, 4))
    estimate = log_partition(machine)
    assert estimate.value == log_partition(machine, "exact").value and estimate.std == 0
    estimate = log_partition(machine, max_units=3, random_state=0)
    assert estimate.std > 0
    assert abs(estimate.value - Exact(machine).log_z) < 5 * estimate.std


def test_reverse_annealing_from_gibbs_chains():
    """5 standard errors: 6e-7 where the error is normal. The starts are forgotten in 200 sweeps."""
    machine, seed = make(), 0
    starts = np.ones((2000, 4))
    method = AIS(schedule=200)
    result = reverse_log_partition(machine, starts, method=method, burn_in=200, random_state=seed)
    assert abs(result.value - Exact(machine).log_z) < 5 * result.std
    assert 0 < result.std < 0.05
    rough = AIS(schedule=1)
    early = reverse_log_partition(machine, starts, method=rough, burn_in=0, random_state=seed)
    late = reverse_log_partition(machine, starts, method=rough, burn_in=50, random_state=seed)
    assert abs(early.value - late.value) > 5 * np.hypot(early.std, late.std)


# Pseudo-likelihood.


def plain_pseudo_log_likelihood(machine, X, bits):
    total = np.zeros(len(X))
    for bit in bits:
        flipped = X.copy()
        flipped[:, bit] = 1 - X[:, bit]
        weights = -np.array([free_energy(machine, X), free_energy(machine, flipped)])
        total += weights[0] - logsumexp(weights, axis=0)
    return total


@pytest.mark.parametrize("hidden", sorted({pair[1] for pair in PAIRS if pair[0] == "bernoulli"}))
@pytest.mark.parametrize("dtype, scale", [(np.float64, 1.0), (np.float32, 0.5)])
def test_pseudo_log_likelihood(hidden, dtype, scale):
    machine = make(("bernoulli", hidden), dtype=dtype, scale=scale)
    X = Exact(machine).sample(np.random.default_rng(0), 6)[0]
    value = pseudo_log_likelihood(machine, X.astype(dtype))
    assert value.dtype == np.float64
    tolerance = 1e-10 if dtype == np.float64 else 2e-5
    assert_allclose(value, plain_pseudo_log_likelihood(machine, X, range(4)), rtol=tolerance)


@pytest.mark.parametrize("kinds", [("bernoulli",) * 3, ("bernoulli",) * 5])
def test_pseudo_log_likelihood_of_deep_machines(kinds):
    """All hidden layers are summed out: strong weights, so that each layer counts."""
    machine = make(kinds, sizes=(4, 3, 2, 2, 1)[: len(kinds)], strength=2.0)
    X = Exact(machine).sample(np.random.default_rng(0), 5)[0]
    expected = plain_pseudo_log_likelihood(machine, X, range(4))
    assert_allclose(pseudo_log_likelihood(machine, X), expected, rtol=1e-10)
    without = replace(
        machine, units=machine.units[:2], thetas=machine.thetas[:2], weights=machine.weights[:1]
    )
    assert np.abs(pseudo_log_likelihood(without, X) - expected).max() > 0.05


# Published machines, for whoever has the files.

DATA = os.environ.get("SKRBM_DATA")


@pytest.mark.skipif(not DATA, reason="SKRBM_DATA does not name the folder of public data")
def test_reference_machine():
    """log Z by enumeration of 2**15 states, and the likelihood of the MNIST test set."""
    parts = loadmat(Path(DATA) / "rbm-reference" / "mnistvh_15hidden.mat")
    machine = Machine(
        (Bernoulli(), Bernoulli()),
        (Theta(parts["visbiases"].ravel()), Theta(parts["hidbiases"].ravel())),
        (np.ascontiguousarray(parts["vishid"].T),),
    )
    log_z = log_partition(machine, "exact").value
    assert log_z == pytest.approx(215.13840552531667, abs=1e-9)
    with gzip.open(Path(DATA) / "mnist" / "t10k-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)
    X = (images > 127).astype(np.float64)
    mean = -free_energies(machine, X).mean() - log_z
    assert mean == pytest.approx(-168.8388544, abs=1e-6)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda rbm, X: pseudo_log_likelihood(rbm, X[:, :2]), "X has 2 columns"),
        (lambda rbm, X: pseudo_log_likelihood(rbm, X[0]), "Expected 2D array"),
        (lambda rbm, X: pseudo_log_likelihood(rbm, X * np.nan), "NaN"),
        (lambda rbm, X: log_partition(rbm, "tap", starts=X * np.nan), "NaN"),
        (lambda rbm, X: log_partition(rbm, "ais", starts=X[:, :2]), "starts has 2 columns"),
        (lambda rbm, X: reverse_log_partition(rbm, X, burn_in=-1), "burn_in must be"),
        (lambda rbm, X: log_partition(BernoulliRBM()), "not fitted"),
        (lambda rbm, X: log_partition(rbm, "exact", max_units=1), "max_units=1"),
        (lambda rbm, X: log_partition(rbm, "exactly"), "method must be"),
        (lambda rbm, X: pseudo_log_likelihood(make(("gaussian", "bernoulli")), X), "binary"),
    ],
)
def test_input_is_checked(call, message):
    X = np.eye(4)
    with pytest.raises(ValueError, match=message):
        call(BernoulliRBM(2, n_iter=1).fit(X), X)


@pytest.mark.parametrize("function", [log_partition, reverse_log_partition, solutions])
def test_models_are_densities(function):
    crbm = ConditionalRBM.from_parameters(np.ones((3, 2)), np.ones((2, 4)))
    for model in (crbm, object()):
        with pytest.raises(TypeError, match="fitted density estimator"):
            function(model)


def test_nothing_of_a_law_without_an_integral():
    """What would need it is refused at once; numbers would be NaN, or of any size."""
    thetas = tuple(Theta(np.zeros(n), np.ones(n)) for n in (3, 2))
    machine = Machine((Gaussian(), Gaussian()), thetas, (np.full((2, 3), 3.0),))
    rbm = RBM.from_parameters(machine.weights[0], visible="gaussian", hidden="gaussian")
    X = np.ones((2, 3))

    def refused(function, *args):
        with pytest.raises(DivergenceError, match="cannot be normalized"):
            function(*args)

    for model in (machine, rbm):
        refused(evaluation.log_partition, model)
        refused(evaluation.bracket, model, X)
        refused(ladder_of, model, 0)
    refused(rbm.score, X)
    refused(rbm.score_samples, X)
    refused(rbm.sample, 2)
    assert rbm.transform(X).shape == (2, 2)  # a conditional distribution is there
