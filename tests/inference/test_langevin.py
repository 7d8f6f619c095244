"""Langevin and Gibbs-Langevin samplers: their equations, step sizes and tuning.

That they leave distributions invariant is also in test_samplers.py. Seeds are fixed; a test of a
distribution has a level of 1e-6.
"""

import math

import numpy as np
import pytest
from _distributions import LEVEL
from _machines import random_machine
from numpy.testing import assert_allclose
from scipy import stats

from skrbm.arrays import make_rng
from skrbm.inference import GibbsLangevin, Langevin, sample
from skrbm.machine import Machine
from skrbm.units import Bernoulli, Gaussian, Theta

BOTH = [Langevin, GibbsLangevin]
both = pytest.mark.parametrize("Sampler", BOTH)
SCALES = ["variance", "mean_variance"]


def machine_of(components, hidden, mean, variances):
    """The machine with the parameters of Eq. 1."""
    precision = 1 / np.asarray(variances)
    thetas = Theta(mean * precision, precision), Theta(np.asarray(hidden))
    return Machine((Gaussian(), Bernoulli()), thetas, (components * precision,))


def random_parameters(seed, n_hidden=3, n_visible=3, spread=1.0):
    """C, b, mu, sigma**2 with unequal variances."""
    generator = np.random.default_rng(seed)
    return (
        spread * generator.standard_normal((n_hidden, n_visible)),
        generator.standard_normal(n_hidden),
        generator.standard_normal(n_visible),
        np.exp(generator.uniform(-1, 1, n_visible)),
    )


@both
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("n_inner", [1, 5])
def test_detailed_balance(Sampler, scale, n_inner):
    """p(x) q(x -> x') min(1, ratio) is symmetric, with q worked out step by step here."""
    C, b, mean, variances = random_parameters(3)
    machine = machine_of(C, b, mean, variances)
    inner = {} if Sampler is Langevin else {"n_inner_steps": n_inner}
    method = Sampler(step_size=0.4, step_scale=scale, **inner)
    generator = np.random.default_rng(4)
    old, new = (
        method.with_energy(machine, method.state_at(machine, rows, make_rng(5, rows)))
        for rows in 2 * generator.standard_normal((2, 200, 3))
    )
    alpha0 = 0.4 * (variances if scale == "variance" else np.full(3, variances.mean()))
    steps = [alpha0]
    if Sampler is GibbsLangevin:
        steps = [0.5 * alpha0 * (1 + math.cos(k * math.pi / n_inner)) for k in range(n_inner)]

    def log_flow(a, b_, accepted):
        """log p(a) q(a -> b) A(a -> b), of v alone for Langevin, else of (v, h)."""
        V, H = a.layers
        field = V @ (C / variances).T + b
        log_p = np.logaddexp(0, field).sum(axis=1) - ((V - mean) ** 2 / (2 * variances)).sum(axis=1)
        if Sampler is Langevin:
            hidden, log_hidden = 1 / (1 + np.exp(-field)), 0.0
        else:
            hidden = H
            there = b_.layers[0] @ (C / variances).T + b
            log_hidden = (b_.layers[1] * there - np.logaddexp(0, there)).sum(axis=1)
            log_p = log_p + (H * field - np.logaddexp(0, field)).sum(axis=1)
        target = mean + hidden @ C
        position, variance = V, np.zeros(3)
        for step in steps:  # mean and variance of v, one Langevin step after the other
            position = position - step * (position - target) / variances
            variance = variance * (1 - step / variances) ** 2 + 2 * step
        rest = b_.layers[0] - position
        log_q = -0.5 * (rest**2 / variance + np.log(2 * np.pi * variance)).sum(axis=1)
        return log_p + log_q + log_hidden + accepted

    there = log_flow(old, new, np.minimum(0, method.log_ratio(machine, old, new)))
    back = log_flow(new, old, np.minimum(0, method.log_ratio(machine, new, old)))
    assert np.abs(there).max() > 1
    assert_allclose(there, back, rtol=0, atol=1e-12 * np.abs(there).max())


@both
def test_the_temperature_is_a_factor_on_variances(Sampler):
    machine = machine_of(np.zeros((1, 2)), [0.0], np.zeros(2), np.array([1.0, 4.0]))
    inner = {} if Sampler is Langevin else {"n_inner_steps": 1}
    method = Sampler(step_size=0.4, adjust_after=None, temperature=9.0, **inner)
    n = 40_000
    V = 3 * np.random.default_rng(0).standard_normal((n, 2)) * [1.0, 2.0]
    rng = make_rng(1, V)
    state = method.state_at(machine, V, rng)
    for _ in range(40):
        state, _ = method.step(machine, state, rng)
    variance = state.layers[0].var(axis=0) / [1.0, 4.0]
    assert_allclose(variance, 9 / (1 - 0.4 / 2), rtol=5.5 * math.sqrt(2 / n))
    with pytest.raises(ValueError, match="temperature"):
        Sampler(temperature=2.0)


@both
def test_adjustment_begins_where_it_is_told(Sampler):
    machine = machine_of(*random_parameters(12))
    V = np.zeros((5, 3))
    for after, expected in [(None, []), (0, [1, 2, 3, 4]), (3, [4]), (4, []), (9, [])]:
        method, adjusted = Sampler(step_size=0.3, adjust_after=after), []

        def look(step, state, info, adjusted=adjusted):
            adjusted.extend([step] * ("acceptance" in info))

        rng = make_rng(0, V)
        sample(method, machine, method.state_at(machine, V, rng), rng, 4, callback=look)
        assert adjusted == expected


def test_steps_fall_as_half_a_cosine():
    """Of Langevin over a run, counted from 0; of Gibbs-Langevin over its inner steps."""
    method = Langevin(step_size=0.4)
    sizes = [method.at(k, 4).step_size for k in range(4)]
    assert_allclose(sizes, [0.2 * (1 + math.cos(k * math.pi / 4)) for k in range(4)])
    assert sizes[0] == 0.4 and Langevin(0.4).at(0, 1).step_size == 0.4
    hybrid = GibbsLangevin(step_size=0.4)
    assert hybrid.at(3, 4).step_size == 0.4


@both
def test_a_step_size_that_diverges_raises_before_the_first_step(Sampler):
    machine = machine_of(np.ones((2, 2)), np.zeros(2), np.zeros(2), np.array([1e-4, 1.0]))
    V = np.zeros((3, 2))
    printed = Sampler(step_size=0.1, step_scale="mean_variance")
    with pytest.raises(ValueError, match=r"500 times a unit's variance.*step_scale='variance'"):
        printed.state_at(machine, V, make_rng(0, V))
    method = Sampler(step_size=1.5, adjust_after=None)  # stable by itself for any variances
    rng = make_rng(0, V)
    state = sample(method, machine, method.state_at(machine, V, rng), rng, 200)
    assert np.abs(state.layers[0]).max() < 100


@both
def test_hidden_units_may_be_real(Sampler):
    """Against the normal distribution of the visible units, by quantiles of all directions.

    Adjusted steps choose rows of all parts of a state, some of which all rows share.
    """
    machine = random_machine(("gaussian", "gaussian"), (3, 2), 0, 0.3)
    (b, p, *_), (c, q, *_) = machine.thetas
    W = machine.weights[0]
    covariance = np.linalg.inv(np.diag(p) - W.T @ np.diag(1 / q) @ W)
    mean, root = covariance @ (b + W.T @ (c / q)), np.linalg.cholesky(covariance)
    V = mean + np.random.default_rng(0).standard_normal((20_000, 3)) @ root.T
    rng, method, rates = make_rng(0, V), Sampler(step_size=1.0), []
    state = sample(
        method,
        machine,
        method.state_at(machine, V, rng),
        rng,
        5,
        callback=lambda step, state, info: rates.append(float(info["acceptance"].mean())),
    )
    assert 0.05 < min(rates) < 0.999
    z = np.linalg.solve(root, (state.layers[0] - mean).T)
    assert all(stats.kstest(row, "norm").pvalue > LEVEL / 3 for row in z)
    assert (state.layers[0] != V).any(axis=1).mean() > 0.05
