"""The parameters that optimisers see: standardised coordinates."""

from dataclasses import replace

import numpy as np
import pytest
from _machines import random_machine, slopes_of
from numpy.testing import assert_allclose

from skrbm import RBM
from skrbm.inference import TAP
from skrbm.inputs import Coordinates
from skrbm.learning import SGD, Adam, StandardParameters
from skrbm.machine import data_moments, free_energy
from skrbm.units import Theta

MEAN, SCALE = np.array([3.0, -20.0, 0.1]), np.array([0.5, 7.0, 1e-3])
STANDARD = StandardParameters(Coordinates(MEAN, SCALE))


def make(visible, hidden="bernoulli"):
    return random_machine((visible, hidden), (3, 2), 0, 0.3)


@pytest.mark.parametrize("hidden", ["bernoulli", "gaussian"])
def test_gradients_by_finite_differences(hidden):
    """Of free energies of data; moments of the machine enter in the same way, linearly."""
    machine = make("gaussian", hidden)
    machine.weights[0][:] /= SCALE  # couplings of the size of the deviations
    own = machine.thetas[0]
    own = Theta(own.field / SCALE, 4 * own.precision / SCALE**2)
    machine = replace(machine, thetas=(own, machine.thetas[1]))
    X = MEAN + SCALE * np.random.default_rng(1).standard_normal((6, 3))
    parts = STANDARD.of(machine.copy())
    slopes = STANDARD.gradient(machine, data_moments(machine, X)).arrays(parts)

    def log_weight(*moved):
        return -free_energy(STANDARD.machine(machine.copy(), moved), X).mean()

    for slope, expected in zip(slopes, slopes_of(log_weight, parts, 1e-4), strict=True):
        assert_allclose(slope, expected, rtol=1e-5, atol=1e-5)


def correlated(n=200):
    rng = np.random.default_rng(0)
    return np.sign(rng.standard_normal((n, 1))) + 0.4 * rng.standard_normal((n, 3))


def in_other_units(visible):
    """Return rows, and the same in other units; truncated units have one pair of bounds."""
    Z = correlated()
    if visible == "double_relu":  # which have a side on each side of 0
        scale = np.array([0.5, 7e4, 1e-5])
        return Z, scale * Z, scale
    if visible == "gaussian":
        scale = np.array([0.5, 7e4, 1e-5])
        return Z, [3.0, -2e5, 1e-4] + scale * Z, scale
    return Z, 5e3 + 1e4 * Z, np.full(3, 1e4)


@pytest.mark.law
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"optimizer": SGD(centered=False, average=False)},
        {"optimizer": Adam(average=False), "learning_rate": 0.01},
        {"optimizer": SGD(0.5, alpha=0.01, average=False), "learning_rate": 0.05},
        {"hidden": "truncated_gaussian"},
        {"visible": "truncated_gaussian"},
        {"visible": "double_relu"},
    ],
    ids=str,
)
def test_units_of_measure_do_not_matter(params):
    """Likelihoods of other units of measure differ by the logarithm of the scale, in each row.

    Solutions of TAP with all rows in one batch do not depend on the order of the rows either.
    """
    params = {"visible": "gaussian", "n_iter": 20, "optimizer": SGD(average=False), **params}
    params |= {"inference": TAP(tol=1e-12, max_iter=1000), "batch_size": 200}
    Z, X, scale = in_other_units(params["visible"])
    one, other = (RBM(3, random_state=0, **params).fit(rows) for rows in (Z, X))
    start = RBM(3, random_state=0, **{**params, "n_iter": 0}).fit(Z)
    learnt = one.score_samples(Z) - start.score_samples(Z)
    assert abs(learnt).max() > 1e-3
    error = other.score_samples(X) + np.log(scale).sum() - one.score_samples(Z)
    assert abs(error).max() < 1e-3 * abs(learnt).max()
