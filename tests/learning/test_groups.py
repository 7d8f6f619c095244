"""Signs of groups of rows, against closed forms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skrbm.learning._groups import main_directions, told_if_apart


def test_main_directions_are_those_of_weighted_rows():
    """They are the eigenvectors of the covariance, up to factors; a weight is a number of rows."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((40, 12)) * np.geomspace(1, 30, 12)
    weights = generator.integers(1, 4, size=40)
    repeated = np.repeat(X, weights, axis=0)
    expected = np.linalg.eigh(np.cov(repeated.T))[1][:, -8:]
    found = main_directions(X, weights)
    found = found / np.linalg.norm(found, axis=0)
    assert_allclose(np.abs((found * expected).sum(axis=0)), 1, atol=1e-9)


@pytest.mark.parametrize(
    "apart, error, told",
    [
        ((0.9, 0.0), 0.0, True),
        ((0.7, 0.7), 0.0, True),  # 0.99 in both together
        ((0.7, 0.0), 0.0, False),
        ((0.9, 0.0), 0.3, False),  # less than four standard errors
        ((2.0, 0.0), 0.3, True),
        ((0.9, 0.0), np.nan, False),
    ],
)
def test_distances_of_means(apart, error, told):
    """Given in standard deviations of 1000 rows along two directions; a third does not vary."""
    along = np.random.default_rng(0).standard_normal((1000, 2))
    along = (along - along.mean(axis=0)) / along.std(axis=0)
    scales = np.array([5.0, 0.1])
    along = np.hstack([along * scales + 3, np.full((1000, 1), 7.0)])
    means = 3 + scales * apart
    found = told_if_apart(
        along, np.ones(1000), np.array([*means, 8.0]), error * np.array([5, 0.1, 1])
    )
    assert (found is not None) == told
    if told:
        noise = 2 * (error**2 + 1 / 1000)
        assert f"{np.sqrt(np.sum(np.square(apart)) - noise):.2g} standard" in found
