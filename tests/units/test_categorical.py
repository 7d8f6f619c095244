"""A layer that is one variable of several values, against sums over them.

Random tests use fixed seeds and a level of 1e-6 for each test.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import logsumexp, softmax

from skrbm.arrays import make_rng, to_numpy
from skrbm.units import Categorical, Theta

LEVEL = 1e-6
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])
FIELDS = np.array(
    [[0.3, -1.0, 2.0, 0.0], [1e4, 0.0, 1e4, -1e4], [-700.0, -701.0, -702.0, -900.0], [0.0] * 4]
)


@dtypes
def test_log_partition_and_mean(dtype):
    unit, theta = Categorical(), Theta(FIELDS.astype(dtype))
    tolerance = {"rtol": 1e-12} if dtype == np.float64 else {"rtol": 1e-5}
    log_z, mean = unit.log_partition(theta), unit.mean(theta)
    assert log_z.dtype == mean.dtype == dtype
    # The sum over a layer's log-partition functions is that of its one variable.
    assert log_z.shape == (4, 1)
    assert_allclose(log_z[:, 0], logsumexp(theta.field.astype(float), axis=1), **tolerance)
    assert_allclose(mean, softmax(theta.field.astype(float), axis=1), atol=1e-30, **tolerance)
    assert unit.moments(theta)[1] is None
    assert_array_equal(unit.moments(theta)[0], mean)


def test_tilt_adds_fields():
    unit, theta = Categorical(), Theta(FIELDS[0])
    assert_array_equal(unit.tilt(theta, FIELDS[1]).field, FIELDS[0] + FIELDS[1])


@dtypes
def test_mode_is_one_of_the_largest(dtype):
    mode = Categorical().mode(Theta(FIELDS.astype(dtype)))
    assert mode.dtype == dtype
    assert_array_equal(mode, np.eye(4)[[2, 0, 0, 0]])


@dtypes
def test_samples_have_the_law(dtype):
    unit, n = Categorical(), 100_000
    theta = Theta(np.tile(FIELDS[0].astype(dtype), (n, 1)))
    X = unit.sample(theta, make_rng(0, theta.field))
    assert X.dtype == dtype and (X.sum(axis=1) == 1).all() and set(np.unique(X)) == {0, 1}
    assert stats.chisquare(X.sum(axis=0), n * softmax(FIELDS[0])).pvalue > LEVEL


@dtypes
def test_a_value_without_probability_is_never_drawn(dtype):
    """First, last or between, and where the probabilities do not quite add up to 1."""
    generator = np.random.default_rng(0)
    for absent in range(3):
        field = generator.standard_normal(3).astype(dtype)
        field[absent] = -2e4
        theta = Theta(np.tile(field, (50_000, 1)))
        X = Categorical().sample(theta, make_rng(absent, theta.field))
        assert X[:, absent].sum() == 0 and (X.sum(axis=1) == 1).all()


@pytest.mark.parametrize("edge", [0.0, 1.0 - 2.0**-53])
def test_samples_at_the_ends_of_the_noise(edge):
    class Fixed:
        def uniform(self, shape):
            return np.full(shape, edge)

    X = Categorical().sample(Theta(np.array([[-2e4, 0.0, 1.0, -2e4]])), Fixed())
    assert_array_equal(X, np.eye(4)[[1 if edge == 0 else 2]])


def test_variances_are_refused():
    unit, theta = Categorical(), Theta(FIELDS)
    with pytest.raises(ValueError, match=r"exclude each other.*use inference 'bp'"):
        unit.mean_variance(theta)
    with pytest.raises(ValueError, match="exclude each other"):
        unit.tilt(theta, FIELDS, np.ones(4))


@pytest.mark.parametrize("name", ["array_api_strict", "torch"])
def test_array_libraries(name):
    pytest.importorskip("array_api_compat")
    xp = pytest.importorskip(name)
    unit, theta, other = Categorical(), Theta(FIELDS), Theta(xp.asarray(FIELDS))
    for method in ("log_partition", "mean", "mode"):
        found = getattr(unit, method)(other)
        assert type(found) is type(other.field) and found.dtype == xp.float64
        assert_allclose(to_numpy(found), getattr(unit, method)(theta), rtol=1e-12)
    X = unit.sample(other, make_rng(0, other.field))
    assert type(X) is type(other.field)
    assert_array_equal(to_numpy(X).sum(axis=1), np.ones(4))
