"""Units on an interval: what the contract does not say."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from skrbm.arrays import Columns, make_rng
from skrbm.units import Theta, TruncatedGaussBernoulli, TruncatedGaussian

KINDS = [TruncatedGaussian, TruncatedGaussBernoulli]
kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
@pytest.mark.parametrize("bounds", [(np.inf, 1), (0, np.nan), ("a", 1), (0.0, 0.0), (0.5, -0.5)])
def test_bounds_that_make_no_interval(kind, bounds):
    with pytest.raises(ValueError, match=r"lower|upper"):
        kind(*bounds)


@pytest.mark.parametrize("bounds", [(0.1, 1.0), (-2.0, -1e-9)])
def test_the_atom_must_be_in_the_interval(bounds):
    with pytest.raises(ValueError, match="must contain 0"):
        TruncatedGaussBernoulli(*bounds)
    assert TruncatedGaussian(*bounds).bounds == bounds


@kinds
@pytest.mark.parametrize("bounds", [(-1e-3, 2e-3), (-5.0, 0.0), (-100.0, 900.0)])
def test_default_law_scales_with_the_interval(kind, bounds):
    unit, width = kind(*bounds), bounds[1] - bounds[0]
    theta = unit.default_theta(3, np.zeros(1))
    mean, variance = TruncatedGaussian.mean_variance(unit, theta)
    assert_allclose(mean, 0.5 * sum(bounds), atol=1e-12 * width)
    assert_allclose(variance, 0.29112509 * (0.5 * width) ** 2, rtol=1e-6)
    if theta.spike is not None:
        assert_allclose(unit.further(theta)[0], 0.5, rtol=1e-12)


def test_a_strong_spike_leaves_either_part_alone():
    unit = TruncatedGaussBernoulli(-1.0, 2.0)
    theta = Theta(np.array([0.3, 0.3]), np.array([2.0, 2.0]), np.array([60.0, -60.0]))
    plain = TruncatedGaussian(-1.0, 2.0).mean_variance(theta)
    mean, variance = unit.mean_variance(theta)
    assert_allclose(mean, [plain[0][0], 0], atol=1e-12)
    assert_allclose(variance, [plain[1][0], 0], atol=1e-12)
    x = unit.sample(theta.map(lambda part: np.tile(part, (100, 1))), make_rng(0, mean))
    assert (x[:, 0] != 0).all() and (x[:, 1] == 0).all()


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_initial_theta_of_the_atom(make):
    """The fraction of zeros, and the moments of the rest."""
    generator = np.random.default_rng(1)
    X = generator.beta(2, 3, (400, 5)) * (generator.random((400, 5)) < 0.4)
    X[:, 3], X[:, 4] = 0, 1
    unit = TruncatedGaussBernoulli(0.0, 1.0)
    theta = unit.initial_theta(Columns(make(X)))
    assert all(np.isfinite(part).all() for part in theta if part is not None)
    occupied = (X != 0).mean(axis=0)
    assert_allclose(unit.further(theta)[0][:3], occupied[:3], rtol=1e-10)
    assert_allclose(unit.further(theta)[0][3:], [0.5 / 401, 400.5 / 401], rtol=1e-10)
    mean, variance = TruncatedGaussian.mean_variance(unit, theta)
    for i in range(3):
        values = X[X[:, i] != 0, i]
        assert_allclose([mean[i], variance[i]], [values.mean(), values.var()], rtol=1e-4)
    assert_allclose(mean[3:], [0.5, 1], atol=1e-3)


def test_columns_of_zeros_have_uniform_other_values():
    unit = TruncatedGaussBernoulli(-1.0, 3.0)
    theta = unit.initial_theta(Columns(np.zeros((50, 2))))
    mean, variance = TruncatedGaussian.mean_variance(unit, theta)
    assert_allclose(mean, 1.0, atol=1e-3)
    assert_allclose(variance, 4.0**2 / 12, rtol=1e-3)


DATA = np.array([[0.0, -0.5], [2.0, 0.0]])


@pytest.mark.parametrize(
    ("unit", "X", "expected"),
    [
        (TruncatedGaussian(), DATA, (-0.5, 2.0)),
        (TruncatedGaussian(), sp.csr_array(DATA + 0.5), (0.0, 2.5)),
        (TruncatedGaussian(lower=-3), DATA, (-3.0, 2.0)),
        (TruncatedGaussian(-1, 1), DATA, (-1.0, 1.0)),
        (TruncatedGaussBernoulli(), DATA + 1, (0.0, 3.0)),
        (TruncatedGaussBernoulli(), DATA - 3, (-3.5, 0.0)),
        (TruncatedGaussian(), None, (-1.0, 1.0)),
        (TruncatedGaussBernoulli(), None, (0.0, 1.0)),
    ],
)
def test_bounds_are_those_of_data_where_not_given(unit, X, expected):
    """Zeros of sparse data count, and the atom."""
    fitted = unit.fitted(None if X is None else Columns(X))
    assert fitted == type(unit)(*expected) and fitted.bounds == expected


@kinds
def test_data_that_leave_no_interval(kind):
    for unit in (kind(), kind(upper=-2.0) if kind is TruncatedGaussian else kind(upper=0.0)):
        with pytest.raises(ValueError, match="pass both bounds"):
            unit.fitted(Columns(np.zeros((3, 2))))
