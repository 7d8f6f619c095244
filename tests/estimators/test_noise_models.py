"""Channels against Bayes' rule, and posteriors against enumeration and quadrature."""

from dataclasses import replace

import numpy as np
import pytest
from _exact import Exact, Line
from _machines import enumerable_pairs, random_machine, with_strength
from numpy.testing import assert_allclose
from scipy.special import expit

from skrbm.estimators._noise_models import (
    BinarySymmetric,
    GaussianNoise,
    channel,
    posterior_moments,
)
from skrbm.inference import FIXED_POINTS, solve
from skrbm.units import UNITS, log_weight

REAL = [kind for kind in UNITS if UNITS[kind].values is None]


CASES = [
    pytest.param(name, kinds, id="-".join((name, *kinds)))
    for name in FIXED_POINTS
    for kinds in enumerable_pairs()
    if FIXED_POINTS[name].applies_to(random_machine(kinds, (4, 3), 0))
]


def noise_for(kinds):
    return BinarySymmetric(0.2) if kinds[0] == "bernoulli" else GaussianNoise(0.3)


def observed(machine, noise, n=3):
    """Draws of the visible units, seen through the channel."""
    generator = np.random.default_rng(1)
    X = Exact(machine).sample(generator, n)[0]
    if isinstance(noise, BinarySymmetric):
        return np.abs(X - (generator.random(X.shape) < noise.flip_probability))
    return X + np.sqrt(noise.noise_variance) * generator.standard_normal(X.shape)


def exact_posterior(machine, noise, y):
    """Means and variances of the visible units given one noisy row, of the oracle.

    Bits are weighted with their likelihood; real units get the terms of a normal density in x.
    """
    if isinstance(noise, BinarySymmetric):
        rows, p_rows = Exact(machine).layer_law(0)
        p = noise.flip_probability
        p_rows = p_rows * np.where(rows == y, 1 - p, p).prod(axis=1)
        mean = p_rows @ rows / p_rows.sum()
        return mean, mean * (1 - mean)
    theta, s = machine.thetas[0], noise.noise_variance
    precision = 1 / s if theta.precision is None else theta.precision + 1 / s
    theta = theta._replace(field=theta.field + y / s, precision=np.full(y.shape, 1.0) * precision)
    exact = Exact(replace(machine, thetas=(theta, *machine.thetas[1:])))
    return exact.mean(0), exact.variance(0)


def posterior(name, machine, noise, Y):
    tilted = machine.tilted(0, *noise.evidence(Y))
    method = replace(FIXED_POINTS[name], damping=0.3, tol=1e-28)
    return posterior_moments(method, tilted, [np.full(Y.shape, 0.4)], 3000)


@pytest.mark.parametrize("p", [1e-300, 0.01, 0.3, 0.5])
def test_field_of_flips_is_bayes_rule(p):
    """Posterior of a bit with prior mean m: m P(y | 1) over the sum of both cases."""
    m, Y = np.array([0.0, 0.2, 0.7, 1.0]), np.array([[0.0] * 4, [1.0] * 4])
    unit, noise = UNITS["bernoulli"](), BinarySymmetric(p)
    mean = unit.mean(unit.tilt(noise.prior(None, m), *noise.evidence(Y)))
    one, zero = np.where(Y == 1, 1 - p, p), np.where(Y == 1, p, 1 - p)
    expected = m * one / (m * one + (1 - m) * zero)
    assert_allclose(mean, expected, rtol=1e-10, atol=1e-16)  # to a rounding of 1


@pytest.mark.parametrize("kind", REAL)
@pytest.mark.parametrize("s", [1e-4, 0.1, 10.0])
def test_terms_of_normal_noise_are_bayes_rule(kind, s):
    """The prior on quadrature nodes, weighted with the normal density of y - x."""
    machine = random_machine((kind, "bernoulli"), (5, 2), 0)
    unit, theta, noise = machine.units[0], machine.thetas[0], GaussianNoise(s)
    Y = np.array([[-0.5, 0.0, 0.3, 0.8, 1.2]])
    tilted = unit.tilt(theta, *noise.evidence(Y))
    mean, variance = unit.mean_variance(tilted)
    for i, y in enumerate(Y[0]):
        own = theta.map(lambda part, i=i: part[i])
        line = Line(own.field, own.precision, unit.bounds, *own[2:5])
        # Midpoints about the place of the support that is nearest to y, and the atom if any.
        nearest = np.clip(y, *unit.bounds)
        reach = nearest + 12 * np.sqrt(s) * np.linspace(-1, 1, 100001)
        reach = np.unique(np.clip(reach, line.points.min(), line.points.max()))
        x = 0.5 * (reach[1:] + reach[:-1])
        log_p = log_weight(
            theta._replace(spike=None).map(lambda part, i=i: part[i : i + 1]), x[:, None]
        )
        log_p += np.log(np.diff(reach)) - (y - x) ** 2 / (2 * s)
        if own.spike is not None:
            x, log_p = np.append(x, 0.0), np.append(log_p + own.spike, -(y**2) / (2 * s))
        weights = np.exp(log_p - log_p.max())
        weights /= weights.sum()
        expected = weights @ x
        assert_allclose(mean[0, i], expected, rtol=1e-5, atol=1e-7)
        assert_allclose(variance[0, i], weights @ (x - expected) ** 2, rtol=1e-4)


@pytest.mark.parametrize(("name", "kinds"), CASES)
def test_posterior_is_exact_without_couplings(name, kinds):
    machine, noise = random_machine(kinds, (4, 3), 0, strength=0.0), noise_for(kinds)
    Y = observed(machine, noise)
    mean, variance = posterior(name, machine, noise, Y)
    for row, y in enumerate(Y):
        expected = exact_posterior(machine, noise, y)
        assert_allclose(mean[row], expected[0], rtol=1e-8, atol=1e-10)
        assert_allclose(variance[row], expected[1], rtol=1e-7, atol=1e-10)


@pytest.mark.law
@pytest.mark.parametrize(("name", "kinds"), CASES)
def test_error_of_the_posterior_falls_with_the_square_of_the_weights(name, kinds):
    """Halving them divides it by four, or by more if the method is of a higher order."""
    noise, errors = noise_for(kinds), []
    for factor in (1.0, 0.5):
        found = []
        for seed in range(5):
            machine = random_machine(kinds, (4, 3), seed, strength=0.15)
            Y = observed(machine, noise)  # of the same machine at both strengths
            machine = with_strength(machine, factor)
            mean, _ = posterior(name, machine, noise, Y)
            truth = np.array([exact_posterior(machine, noise, y)[0] for y in Y])
            found.append(mean - truth)
        errors.append(np.linalg.norm(found))
    assert errors[0] / errors[1] > 4 * 0.78
    assert errors[1] < 0.02


@pytest.mark.parametrize("kind", UNITS)
def test_moments_of_several_solutions_are_those_of_their_mixture(kind):
    """Two machines' worth of solutions, mixed by hand: E[x] and E[x**2] are averages."""
    kinds = (kind, "bernoulli")
    machine, noise, method = random_machine(kinds, (4, 3), 1), noise_for(kinds), FIXED_POINTS["tap"]
    Y = observed(machine, noise)
    tilted = machine.tilted(0, *noise.evidence(Y))
    # One sweep from different starts, which is as good as solutions that differ.
    starts = [np.full(Y.shape, 0.1), np.full(Y.shape, 0.9), Y]
    alone = [posterior_moments(method, tilted, [start], 1) for start in starts]
    assert np.abs(alone[0][0] - alone[1][0]).max() > 1e-3
    mean, variance = posterior_moments(method, tilted, iter(starts), 1)
    means = [m for m, _ in alone]
    assert_allclose(mean, np.mean(means, axis=0), rtol=1e-12)
    total = np.mean([v for _, v in alone], axis=0) + np.var(means, axis=0)
    assert_allclose(variance, total, rtol=1e-10)


def test_variances_of_bits_that_a_method_does_not_track():
    """Naive mean field does not store that of binary units; one sweep gives expit of the field."""
    machine = random_machine(("bernoulli", "bernoulli"), (4, 3), 1)
    start = np.full((1, 4), 0.5)
    method = FIXED_POINTS["naive_mean_field"]
    assert solve(method, machine, method.start(machine, start)).state.variances[0] is None
    mean, variance = posterior_moments(method, machine, [start], 1)
    hidden = expit(machine.thetas[1].field + machine.weights[0] @ start[0])
    assert_allclose(mean[0], expit(machine.thetas[0].field + hidden @ machine.weights[0]))
    assert_allclose(variance, mean * (1 - mean), rtol=1e-12)


def test_one_number_names_the_channel():
    assert channel(flip_probability=0.1) == BinarySymmetric(0.1)
    assert channel(noise_variance=0.1) == GaussianNoise(0.1)
    for both in (None, 0.1):
        with pytest.raises(ValueError, match=r"give one of flip_probability .* noise_variance"):
            channel(both, both)
