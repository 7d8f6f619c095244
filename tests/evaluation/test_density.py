"""Densities in other coordinates, against closed forms in the data's own."""

from dataclasses import replace

import numpy as np
import pytest
from _fractional import all_rows
from _machines import random_machine
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from skrbm.evaluation import (
    AIS,
    Density,
    log_partition,
    reverse_log_partition,
    solutions,
)
from skrbm.inputs import Coordinates
from skrbm.machine import Machine
from skrbm.units import Bernoulli, Gaussian, Theta

OFFSET, DIVISOR = np.array([5.0, -300.0, 0.0]), np.array([2.0, 0.5, 10.0])
COORDINATES = Coordinates(OFFSET, DIVISOR)


def make(strength=0.5):
    """Gaussian visible units, in the coordinates (v - offset) / divisor."""
    return random_machine(("gaussian", "bernoulli"), (3, 4), 0, strength)


def mixture(machine):
    """Weights (not normalised, in logarithms), means and deviations of the 16 components of v."""
    H = all_rows(4)
    own, hidden = machine.thetas
    fields = own.field + H @ machine.weights[0]
    log_weights = H @ hidden.field + 0.5 * (fields**2 / own.precision).sum(axis=1)
    log_weights = log_weights + 0.5 * np.log(2 * np.pi / own.precision).sum()
    return log_weights, OFFSET + DIVISOR * fields / own.precision, DIVISOR / np.sqrt(own.precision)


def rows(n=6):
    return OFFSET + DIVISOR * np.random.default_rng(0).normal(size=(n, 3))


def test_solutions_are_those_of_the_data():
    machine = make(0.1)
    density = Density(machine, np.zeros((2, 3)), COORDINATES)
    log_weights, means, _ = mixture(machine)
    p = np.exp(log_weights - logsumexp(log_weights))
    found = solutions(density, "tap")
    assert_allclose(found.starts, np.tile(OFFSET, (2, 1)), atol=1e-12)
    assert_allclose(found.visible_means[0], p @ means, rtol=1e-3)
    given = solutions(density, "tap", starts=rows())
    assert_allclose(given.starts, rows(), rtol=1e-10)


@pytest.mark.parametrize("where", ["own", "starts", "base"])
def test_estimates_take_starts_and_bases_of_the_data(where):
    """Within 5 standard errors: a probability of 6e-7 each, were they normal.

    A base in other coordinates than the machine's would lie hundreds of deviations away.
    """
    density = Density(make(), np.zeros((5, 3)), COORDINATES)
    base = Theta(OFFSET / (4 * DIVISOR**2), 1 / (4 * DIVISOR**2))  # twice as wide as the data
    given = {"own": {}, "starts": {"starts": rows(200)}, "base": {"base": base}}[where]
    truth = log_partition(density, "exact").value
    found = log_partition(density, AIS(300, 200), random_state=0, **given)
    assert abs(found.value - truth) < 5 * found.std < 0.5
    found = reverse_log_partition(density, method=AIS(300, 200), random_state=0, **given)
    assert abs(found.value - truth) < 5 * found.std < 1


@pytest.mark.parametrize(
    "changes, match",
    [
        ({"weights": (np.zeros((4, 3)),)}, r"of shapes \[\(3, 4\)\]"),
        ({"weights": ()}, "for each layer"),
        ({"thetas": (Theta(np.zeros(4)),)}, "for each layer"),
        ({"thetas": (Theta(np.zeros(4), np.ones(4)), Theta(np.zeros(3)))}, "must have .'field'."),
        ({"units": (Gaussian(), Bernoulli())}, "must have .'field', 'precision'."),
        ({"weights": (np.full((3, 4), np.nan),)}, "not finite"),
        ({"thetas": (Theta(np.zeros(4)), Theta(np.full(3, np.inf)))}, "not finite"),
    ],
)
def test_a_machine_whose_parts_do_not_fit_is_refused(changes, match):
    thetas = Theta(np.zeros(4)), Theta(np.zeros(3))
    machine = Machine((Bernoulli(), Bernoulli()), thetas, (np.zeros((3, 4)),))
    log_partition(machine)
    with pytest.raises(ValueError, match=match):
        log_partition(replace(machine, **changes))
