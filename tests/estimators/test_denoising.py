"""``denoise``: posteriors of small machines by enumeration, its limits, what it takes and keeps."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from _estimators import binary_data, log_likelihoods, machine
from _exact import Exact
from _fractional import all_rows
from _machines import enumerable_pairs, random_machine
from numpy.testing import assert_allclose, assert_array_equal

from skrbm import RBM, TAPRBM
from skrbm.estimators._denoising import BitFlips, NormalNoise, posterior_moments
from skrbm.inference import FIXED_POINTS, TAP, NaiveMeanField


def posterior_means(rbm, Y, p):
    """E[v | noisy rows], by a sum over all configurations."""
    V = all_rows(Y.shape[1])
    likelihood = np.where(Y[:, None] == V, 1 - p, p).prod(axis=2)
    law = np.exp(log_likelihoods(rbm, V)) * likelihood
    return law @ V / law.sum(axis=1, keepdims=True)


def two_patterns(n_features=20, **params):
    """A machine of one unit that knows two rows, a pattern and its opposite, equally probable."""
    W = np.where(np.arange(n_features) < n_features // 2, 8.0, -8.0)[None]
    return TAPRBM.from_parameters(W, [0.0], -0.5 * W[0], random_state=0, **params)


# ------------------------------------------------------------------------- posteriors


@pytest.mark.parametrize("p", [0.01, 0.1, 0.3, 0.5])
def test_near_the_exact_posterior_at_weak_couplings(p):
    """TAP's error is of the third power of the weights, which are 0.3; naive's of the second."""
    rbm = machine(TAPRBM, 5, 6, strength=0.3, inference=TAP(tol=1e-14))
    naive = machine(TAPRBM, 5, 6, strength=0.3, inference=NaiveMeanField(tol=1e-14))
    Y = all_rows(6)
    truth = posterior_means(rbm, Y, p)
    error = np.abs(rbm.denoise(Y, flip_probability=p) - truth).max()
    assert error < 0.02
    assert error < 0.3 * np.abs(naive.denoise(Y, flip_probability=p) - truth).max() + 1e-4
    assert np.abs(Y - truth).max() > p  # there is something to gain


def test_posteriors_by_gibbs_chains():
    """Means over 400 copies of a row: 0.02 is five standard errors, were a quarter of 200 sweeps
    independent."""
    rbm, Y = machine(RBM, 3, 4, strength=0.5), np.array([[1.0, 0, 1, 1]])
    mean, std = rbm.denoise(
        np.tile(Y, (400, 1)), flip_probability=0.2, return_std=True, random_state=0
    )
    assert_allclose(mean.mean(axis=0), posterior_means(rbm, Y, 0.2)[0], atol=0.02)
    assert_allclose(std**2, mean * (1 - mean), rtol=1e-6)


# ----------------------------------------------------------------------- several starts


def test_solutions_of_several_starts_are_averaged():
    """With 0.5 as means the draws fall to either pattern: 200 of them leave each bit undecided.

    The first start is one of 200; a share outside of [0.3, 0.7] has odds of 1e-8 if each pattern
    is found with probability 1/2.
    """
    rbm, Y = two_patterns(), np.zeros((1, 20))
    settings = {"flip_probability": 0.5, "prior_mean": np.full(20, 0.5), "random_state": 0}
    mean, std = rbm.denoise(Y, n_starts=200, return_std=True, **settings)
    assert ((mean > 0.3) & (mean < 0.7)).all()
    assert_allclose(std**2, mean * (1 - mean), rtol=1e-6)  # of a bit, whatever the mixture


# ------------------------------------------------------------------------ kinds of input


@pytest.mark.parametrize("inference", ["tap", "tap3", "naive_mean_field", TAP(max_iter=50)])
def test_input_of_every_kind(inference):
    rbm = machine(TAPRBM, 5, 8, inference=inference)
    Y, given = binary_data(20), {"flip_probability": 0.2, "return_std": True}
    before = Y.copy()
    mean, std = rbm.denoise(Y, **given)
    assert_array_equal(Y, before)
    assert_allclose(std**2, mean * (1 - mean), rtol=1e-6)
    for same in (sp.csr_array(Y), sp.coo_array(Y), Y.astype(bool), Y.astype(np.uint8), Y.tolist()):
        for a, b in zip((mean, std), rbm.denoise(same, **given), strict=True):
            assert_allclose(a, b, rtol=1e-12)
    single = machine(TAPRBM, 5, 8, dtype=np.float32, inference=inference)
    for a, b in zip((mean, std), single.denoise(Y, **given), strict=True):
        assert b.dtype == np.float32
        assert_allclose(a, b, rtol=0, atol=2e-3)  # tolerance of the sweeps in the square: 1e-8


# ------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    "given, argument",
    [
        ({}, "one of flip_probability"),
        ({"flip_probability": 0.1, "noise_variance": 0.1}, "one of flip_probability"),
        ({"flip_probability": 0.6}, "flip_probability"),
        ({"flip_probability": np.nan}, "flip_probability"),
        ({"noise_variance": 0.1}, "noise_variance"),
        ({"flip_probability": 0.1, "n_starts": 0}, "n_starts"),
        ({"flip_probability": 0.1, "prior_mean": np.zeros(7)}, "prior_mean"),
        ({"flip_probability": 0.1, "prior_mean": np.full(8, 1.5)}, "prior_mean"),
    ],
)
def test_arguments(given, argument):
    with pytest.raises(ValueError, match=argument):
        machine(TAPRBM, 5, 8).denoise(binary_data(), **given)
    with pytest.raises(ValueError, match="Y must be 0 or 1"):
        machine(TAPRBM, 5, 8).denoise(0.5 * binary_data(), flip_probability=0.1)


PAIRS = [pair for pair in enumerable_pairs() if pair[1] == "bernoulli"]
CASES = [
    pytest.param(name, kinds, id="-".join((name, *kinds)))
    for name, method in FIXED_POINTS.items()
    for kinds in PAIRS
    if method.unmet(random_machine(kinds, (4, 3), 0)) is None
]


def noise_for(kinds):
    return BitFlips(0.2) if kinds[0] == "bernoulli" else NormalNoise(0.3)


def observed(machine, noise, n=3):
    """Draws of the visible units, seen through the channel."""
    generator = np.random.default_rng(1)
    X = Exact(machine).sample(generator, n)[0]
    if isinstance(noise, BitFlips):
        return np.abs(X - (generator.random(X.shape) < noise.amount))
    return X + np.sqrt(noise.amount) * generator.standard_normal(X.shape)


def exact_posterior(machine, noise, y):
    """Means and variances of the visible units given one noisy row, of the oracle.

    Bits are weighted with their likelihood; real units get the terms of a normal density in x.
    """
    if isinstance(noise, BitFlips):
        rows, p_rows = Exact(machine).layer_law(0)
        p = noise.amount
        p_rows = p_rows * np.where(rows == y, 1 - p, p).prod(axis=1)
        mean = p_rows @ rows / p_rows.sum()
        return mean, mean * (1 - mean)
    theta, s = machine.thetas[0], noise.amount
    precision = 1 / s if theta.precision is None else theta.precision + 1 / s
    theta = theta._replace(field=theta.field + y / s, precision=np.full(y.shape, 1.0) * precision)
    exact = Exact(replace(machine, thetas=(theta, *machine.thetas[1:])))
    return exact.mean(0), exact.variance(0)


def posterior(name, machine, noise, Y):
    tilted = machine.tilted(0, *noise.evidence(machine.units[0], Y))
    method = replace(FIXED_POINTS[name], damping=0.3, tol=1e-28)
    return posterior_moments(method, tilted, [np.full(Y.shape, 0.4)], 3000)


@pytest.mark.parametrize(("name", "kinds"), CASES)
def test_posterior_is_exact_without_couplings(name, kinds):
    machine, noise = random_machine(kinds, (4, 3), 0, strength=0.0), noise_for(kinds)
    Y = observed(machine, noise)
    mean, variance = posterior(name, machine, noise, Y)
    for row, y in enumerate(Y):
        expected = exact_posterior(machine, noise, y)
        assert_allclose(mean[row], expected[0], rtol=1e-8, atol=1e-10)
        assert_allclose(variance[row], expected[1], rtol=1e-7, atol=1e-10)
