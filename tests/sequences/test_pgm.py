"""A machine of PGM's arrays, by the formulas of the page "From PGM", has PGM's likelihood."""

from itertools import product

import numpy as np
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from skrbm import CategoricalRBM


def test_double_relu_units_of_pgm():
    """The energy is that of source/layer.py, dReLULayer.energy, with h on a fine grid."""
    generator, (n_hidden, n_sites, n_letters) = np.random.default_rng(0), (2, 3, 4)
    W, fields = generator.normal(size=(2, 3, 4)), generator.normal(size=(n_sites, n_letters))
    gamma_plus, gamma_minus = np.array([0.8, 1.5]), np.array([1.2, 0.6])
    theta_plus, theta_minus = np.array([0.2, -1.0]), np.array([0.7, 0.4])
    rbm = CategoricalRBM.from_parameters(
        W,
        intercept_visible=fields,
        hidden="double_relu",
        intercept_hidden=(theta_minus - theta_plus) / 2,
        absolute_hidden=-(theta_plus + theta_minus) / 2,
        precision_hidden=(gamma_plus + gamma_minus) / 2,
        skew_hidden=(gamma_plus - gamma_minus) / 2,
        random_state=0,
    )
    codes, grid = np.array([*product(range(n_letters), repeat=n_sites)]), np.linspace(-25, 25, 9001)
    up, down, sites = np.maximum(grid, 0), np.maximum(-grid, 0), np.arange(n_sites)
    log_weights = fields[sites, codes].sum(axis=1)
    for j in range(n_hidden):
        energy = (up**2 * gamma_plus[j] + down**2 * gamma_minus[j]) / 2
        energy = energy + up * theta_plus[j] + down * theta_minus[j]
        inputs = W[j][sites, codes].sum(axis=1)
        log_weights = log_weights + logsumexp(np.outer(inputs, grid) - energy, axis=1)
    assert_allclose(rbm.score_samples(codes), log_weights - logsumexp(log_weights), rtol=1e-5)
