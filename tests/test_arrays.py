"""The few operations that differ between array libraries, against NumPy and SciPy."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special

from skrbm import arrays

dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def factors(dtype, seed=0):
    generator = np.random.default_rng(seed)
    shapes = (3, 5), (7, 3), (7, 5)
    return [generator.standard_normal(shape).astype(dtype) for shape in shapes]


@dtypes
@pytest.mark.parametrize("alpha", [1.0, -0.25, np.float32(0.5)])
@pytest.mark.parametrize("layout", [np.asarray, np.asfortranarray])
def test_add_products_accumulates_in_place(dtype, alpha, layout):
    out, left, right = factors(dtype)
    expected = 0.75 * out + float(alpha) * left.T @ right - 2 * left.T @ right
    wide = np.repeat(right, 2, axis=1)
    terms = [(layout(left), wide[:, ::2], alpha), (left, right, -2.0)]
    assert arrays.add_products(out, terms, keep=0.75) is out
    assert_allclose(out, expected, rtol=1e-5 if dtype == np.float32 else 1e-12, atol=1e-6)


EXTREMES = np.array([-1e4, -710, -100, -30, -1, -1e-8, 0, 1e-8, 1, 30, 100, 710, 1e4])


@dtypes
def test_sigmoid(dtype):
    """tanh rounds near -1, so that small probabilities have an absolute error of one rounding."""
    x = EXTREMES.astype(dtype)
    value = arrays.sigmoid(x)
    assert value.dtype == dtype
    assert_allclose(value, special.expit(x.astype(float)), rtol=0, atol=np.finfo(dtype).eps)
    assert ((value >= 0) & (value <= 1)).all()
    assert_array_equal(x, EXTREMES.astype(dtype))


@dtypes
def test_softplus(dtype):
    x = EXTREMES.astype(dtype)
    value = arrays.softplus(x)
    assert value.dtype == dtype
    expected = np.logaddexp(0, x.astype(float))
    assert_allclose(value, expected, rtol=4 * np.finfo(dtype).eps, atol=np.finfo(dtype).tiny)


@dtypes
@pytest.mark.parametrize("n", [1, 3, 64, 100, 512])
@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0, 1e30])
def test_softplus_sums(dtype, n, spread):
    """At a spread of 0 all factors are 2, the largest that they can be."""
    x = spread * np.random.default_rng(n).normal(size=(5, n)).astype(dtype)
    value = arrays.softplus_sums(x)
    assert value.dtype == np.float64 and value.shape == (5,)
    expected = np.logaddexp(0, x.astype(float)).sum(axis=1)
    # Each factor is rounded once, and each product of two once.
    assert_allclose(value, expected, rtol=1e-15 * n, atol=2 * n * np.finfo(dtype).eps)
    assert_allclose(arrays.softplus_sums(x[0]), value[0], rtol=1e-15 * n)


def test_row_sums_are_in_double_precision():
    x = np.full((2, 100_000), 0.1, np.float32)
    sums = arrays.row_sums(x)
    assert sums.dtype == np.float64
    assert_allclose(sums, 100_000 * float(np.float32(0.1)), rtol=1e-12)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.bool_, np.float32),
        (np.uint8, np.float32),
        (np.int8, np.float32),
        (np.int16, np.float32),
        (np.int32, np.float64),
        (np.int64, np.float64),
        (np.float16, np.float32),
        (np.float32, np.float32),
        (np.float64, np.float64),
        (np.longdouble, np.float64),
    ],
)
def test_working_dtype(given, expected):
    X = np.ones((2, 2), given)
    assert arrays.working_dtype(X) == expected
    if given != np.float16:  # of which SciPy has no sparse arrays
        assert arrays.working_dtype(sp.csr_array(X)) == expected


def test_sums_and_products_of_sparse_rows_are_those_of_dense_ones():
    generator = np.random.default_rng(0)
    X = (generator.random((7, 5)) < 0.3).astype(float)
    left, out, weights = generator.random((7, 3)), generator.random((3, 5)), generator.random(7)
    for weight in (0.5, weights):
        found = arrays.weighted_sum(weight, sp.csr_array(X))
        assert_allclose(found, arrays.weighted_sum(weight, X), rtol=1e-12)
    expected = 0.5 * out + 2 * left.T @ X - left.T @ X
    assert arrays.add_products(out, [(left, sp.csr_array(X), 2.0), (left, X, -1.0)], 0.5) is out
    assert_allclose(out, expected, rtol=1e-12)


@pytest.mark.parametrize("shape", [(9, 4), (4, 9)])
def test_main_directions_are_singular_vectors(shape):
    X = np.random.default_rng(0).standard_normal(shape)
    X[:, 0] = X[:, 1]
    _, sizes, vectors = np.linalg.svd(X)
    for n, kept in ((2, 2), (9, int((sizes > 1e-6).sum()))):
        directions, found = arrays.main_directions(X, n)
        assert_allclose(found, sizes[:kept], rtol=1e-7)
        assert_allclose(abs(np.sum(directions * vectors[:kept].T, axis=0)), 1, rtol=1e-7)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, sp.csc_matrix])
def test_variances_survive_a_large_mean(make):
    X = 1e6 + np.random.default_rng(2).standard_normal((2000, 2))
    assert_allclose(arrays.Columns(make(X)).variances, X.var(axis=0), rtol=1e-8)


def test_numpy_stays_numpy():
    x = np.ones(3, np.float32)
    for other in (x, np.float32(1), [1.0, 2.0], sp.csr_array(np.eye(2))):
        assert arrays.namespace(other) is np
        assert not arrays.is_foreign(other)
    assert arrays.to_numpy(x) is x
    assert arrays.from_numpy(x, np.zeros(1)) is x
    assert arrays.like(x) == {"dtype": np.float32}
