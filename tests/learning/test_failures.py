"""Signs of failures, against closed forms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skrbm.learning._failures import main_directions, told_if_apart


def test_main_directions_are_those_of_weighted_rows():
    """Eigenvectors of the covariance, with unit variance; a weight is a number of rows."""
    generator = np.random.default_rng(0)
    X = 3 + generator.standard_normal((40, 12)) * np.geomspace(1, 30, 12)
    X[:, 0] = 5.0
    weights = generator.integers(1, 4, size=40)
    rows = np.repeat(X, weights, axis=0)
    variances, vectors = np.linalg.eigh(np.cov(rows.T, bias=True))
    directions, means = main_directions(X.copy(), weights)
    cosines = (directions * vectors[:, -8:]).sum(axis=0) * np.sqrt(variances[-8:])
    assert_allclose(np.abs(cosines), 1, atol=1e-9)
    assert_allclose((rows @ directions).var(axis=0), 1, rtol=1e-9)
    assert_allclose(means, (rows @ directions).mean(axis=0), rtol=1e-9)


def test_rows_that_do_not_differ_have_no_directions():
    nearly = 0.3 + 1e-9 * np.random.default_rng(0).standard_normal((5, 3))
    for X, n in ((np.ones((5, 3)), 0), (nearly, 0), (np.eye(2)[[0, 1, 1]], 1)):
        directions, means = main_directions(X, np.ones(len(X)))
        assert directions.shape == (X.shape[1], n) and means.shape == (n,)
        assert told_if_apart(means, means + 9, 0 * means, 1e9) is None or n


@pytest.mark.parametrize(
    "apart, error, n_rows, told",
    [
        ((0.9, 0.0), 0.0, 1000, True),
        ((0.7, 0.7), 0.0, 1000, True),  # 0.99 in both together
        ((0.7, 0.0), 0.0, 1000, False),
        ((0.9, 0.0), 0.3, 1000, False),  # less than four standard errors
        ((0.9, 0.0), 0.0, 20, False),
        ((2.0, 0.0), 0.3, 1000, True),
        ((0.9, 0.0), np.nan, 1000, False),
    ],
)
def test_distances_of_means(apart, error, n_rows, told):
    data = np.array([3.0, -1.0])
    found = told_if_apart(data, data + apart, np.full(2, error), n_rows)
    assert (found is not None) == told
    if told:
        noise = 2 * (error**2 + 1 / n_rows)
        assert f"{np.sqrt(np.sum(np.square(apart)) - noise):.2g} standard" in found
