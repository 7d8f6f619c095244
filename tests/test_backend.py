"""The few operations that differ between array libraries, against NumPy and SciPy."""

import multiprocessing
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special
from threadpoolctl import threadpool_info, threadpool_limits

from skrbm import _backend, _threads

dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def factors(dtype, seed=0):
    generator = np.random.default_rng(seed)
    shapes = (3, 5), (7, 3), (7, 5)
    return [generator.standard_normal(shape).astype(dtype) for shape in shapes]


@dtypes
@pytest.mark.parametrize("alpha", [1.0, -0.25, np.float32(0.5)])
def test_add_products_accumulates_in_place(dtype, alpha):
    out, left, right = factors(dtype)
    expected = out + float(alpha) * left.T @ right
    assert _backend.add_products(out, [(left, right, alpha)]) is out
    assert_allclose(out, expected, rtol=1e-5 if dtype == np.float32 else 1e-12)


@dtypes
def test_add_products_keeps_a_part_of_what_was_there(dtype):
    out, left, right = factors(dtype)
    expected = 0.75 * out + left.T @ right - 2 * left.T @ right
    terms = [(left, right, 1.0), (left, right, -2.0)]
    assert _backend.add_products(out, terms, keep=0.75) is out
    assert_allclose(out, expected, rtol=1e-5 if dtype == np.float32 else 1e-12, atol=1e-6)


@dtypes
def test_add_products_takes_factors_of_any_layout(dtype):
    out, left, right = factors(dtype)
    expected = out + left.T @ right
    wide = np.repeat(right, 2, axis=1)
    _backend.add_products(out, [(np.asfortranarray(left), wide[:, ::2], 1.0)])
    assert_allclose(out, expected, rtol=1e-5 if dtype == np.float32 else 1e-12)


def test_add_products_refuses_a_read_only_accumulator():
    out, left, right = factors(np.float64)
    before = out.copy()
    out.flags.writeable = False
    with pytest.raises(ValueError, match="writeable C-contiguous"):
        _backend.add_products(out, [(left, right, 1.0)])
    assert_array_equal(out, before)


@pytest.mark.parametrize(
    "spoil",
    [np.asfortranarray, lambda out: np.repeat(out, 2, axis=1)[:, ::2], lambda out: out[:, ::-1]],
    ids=["Fortran order", "strided", "reversed"],
)
def test_add_products_refuses_an_accumulator_that_blas_would_copy(spoil):
    out, left, right = factors(np.float64)
    with pytest.raises(ValueError, match="writeable C-contiguous"):
        _backend.add_products(spoil(out), [(left, right, 1.0)])


@pytest.mark.parametrize("dtype", [np.int64, np.float16, np.complex128])
def test_add_products_refuses_an_accumulator_of_another_dtype(dtype):
    out, left, right = factors(np.float64)
    with pytest.raises(ValueError, match="float32 or float64"):
        _backend.add_products(out.astype(dtype), [(left, right, 1.0)])


@pytest.mark.parametrize("which", [0, 1])
def test_add_products_refuses_factors_of_another_dtype(which):
    out, *both = factors(np.float32)
    both[which] = both[which].astype(np.float64)
    with pytest.raises(ValueError, match="float64"):
        _backend.add_products(out, [(*both, 1.0)])


@pytest.mark.parametrize("which", [0, 1])
def test_add_products_refuses_factors_that_share_memory(which):
    out = np.eye(4)
    both = [np.ones((4, 4)), np.ones((4, 4))]
    both[which] = out.T
    with pytest.raises(ValueError, match="shares memory"):
        _backend.add_products(out, [(*both, 1.0)])
    assert_array_equal(out, np.eye(4))


EXTREMES = np.array([-1e4, -710, -100, -30, -1, -1e-8, 0, 1e-8, 1, 30, 100, 710, 1e4])


@dtypes
def test_sigmoid(dtype):
    """tanh rounds near -1, so that small probabilities have an absolute error of one rounding."""
    x = EXTREMES.astype(dtype)
    value = _backend.sigmoid(x)
    assert value.dtype == dtype
    assert_allclose(value, special.expit(x.astype(float)), rtol=0, atol=np.finfo(dtype).eps)
    assert ((value >= 0) & (value <= 1)).all()
    assert_array_equal(x, EXTREMES.astype(dtype))


@dtypes
def test_softplus(dtype):
    x = EXTREMES.astype(dtype)
    value = _backend.softplus(x)
    assert value.dtype == dtype
    expected = np.logaddexp(0, x.astype(float))
    assert_allclose(value, expected, rtol=4 * np.finfo(dtype).eps, atol=np.finfo(dtype).tiny)


def test_row_sums_are_in_double_precision():
    x = np.full((2, 100_000), 0.1, np.float32)
    sums = _backend.row_sums(x)
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
    assert _backend.working_dtype(X) == expected
    if given != np.float16:  # of which SciPy has no sparse arrays
        assert _backend.working_dtype(sp.csr_array(X)) == expected


@dtypes
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, sp.csr_matrix])
def test_dense_rows(dtype, make):
    X = np.arange(12).reshape(4, 3) % 5
    for index in (np.array([3, 0]), np.array([1, 1, 2])):
        rows = _backend.dense_rows(make(X), index, dtype)
        assert isinstance(rows, np.ndarray) and not isinstance(rows, np.matrix)
        assert rows.dtype == dtype
        assert_array_equal(rows, X[index])


@pytest.mark.parametrize("make", [sp.csr_array, sp.csr_matrix, sp.csc_array])
def test_products_with_sparse_rows_are_dense_arrays(make):
    generator = np.random.default_rng(0)
    X = generator.integers(2, size=(4, 3)).astype(float)
    for A in (generator.random((3, 2)), generator.random(3)):
        product = _backend.matmul(make(X), A)
        assert type(product) is np.ndarray
        assert_allclose(product, X @ A)
    squared = _backend.squared(make(3 * X))
    assert sp.issparse(squared)
    assert_array_equal(squared.toarray(), 9 * X)
    assert_array_equal(_backend.squared(3 * X), 9 * X)


@dtypes
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, sp.csr_matrix])
def test_column_moments(dtype, make):
    """In double precision whatever the data, and over several blocks of rows."""
    X = np.random.default_rng(1).gamma(2.0, size=(2500, 3)).astype(dtype)
    X[:, 2] = 0.1
    mean, variance = _backend.column_moments(make(X))
    wide = X.astype(np.float64)
    assert mean.dtype == variance.dtype == np.float64
    assert mean.shape == variance.shape == (3,)
    assert_allclose(mean, wide.mean(axis=0), rtol=1e-12)
    assert_allclose(variance, wide.var(axis=0), rtol=1e-10, atol=1e-15)
    assert (variance >= 0).all()


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, sp.csc_matrix])
def test_variances_survive_a_large_mean(make):
    X = 1e6 + np.random.default_rng(2).standard_normal((2000, 2))
    assert_allclose(_backend.column_moments(make(X))[1], X.var(axis=0), rtol=1e-8)


def test_cast_copies_only_what_differs():
    x = np.ones(3)
    assert _backend.cast(x, np.float64) is x
    assert _backend.cast(x, np.float32).dtype == np.float32


def test_numpy_stays_numpy():
    x = np.ones(3, np.float32)
    for other in (x, np.float32(1), [1.0, 2.0], sp.csr_array(np.eye(2))):
        assert _backend.namespace(other) is np
        assert not _backend.is_foreign(other)
    assert _backend.to_numpy(x) is x
    assert _backend.from_numpy(x, np.zeros(1)) is x
    assert _backend.like(x) == {"dtype": np.float32}


def test_missing_package_for_other_libraries_is_named(monkeypatch):
    class Foreign:
        def __dlpack__(self):
            raise NotImplementedError

    monkeypatch.setitem(sys.modules, "array_api_compat", None)
    with pytest.raises(ImportError, match=r"Foreign.*pip install 'skrbm\[array\]'"):
        _backend.namespace(Foreign())


def test_one_blas_thread_holds_and_restores():
    def threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = threads()
    with _backend.one_blas_thread():
        assert set(threads()) <= {1}
    assert threads() == before


def test_one_blas_thread_of_overlapping_threads():
    """The limit lasts until the last holder leaves, and is lifted then, whoever set it."""

    def n_threads():
        return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]

    entered, leave, left, end = (threading.Event() for _ in range(4))

    def first():
        with _backend.one_blas_thread():
            entered.set()
            leave.wait(10)
        left.set()
        end.wait(10)  # alive, as workers of a pool are

    with threadpool_limits(2, user_api="blas"):
        before = n_threads()
        worker = threading.Thread(target=first)
        worker.start()
        assert entered.wait(10)
        with _backend.one_blas_thread():
            assert set(n_threads()) == {1}
            leave.set()
            assert left.wait(10)
            assert set(n_threads()) == {1}
        assert n_threads() == before
        end.set()
        worker.join()


class Factors:
    """Two factors of a product that is worth two threads, or three for ``wide``."""

    def __init__(self, dtype, shape=(300, 500, 200)):
        generator = np.random.default_rng(0)
        m, k, n = shape
        self.left = generator.standard_normal((m, k)).astype(dtype)
        self.right = generator.standard_normal((k, n)).astype(dtype)
        self.exact = self.left.astype(np.float64) @ self.right.astype(np.float64)
        # Sums of k products: k roundings of partial sums, of which sqrt(k) accumulate.
        self.rounding = 10 * np.sqrt(k) * np.finfo(dtype).eps * np.abs(self.exact).max()


@pytest.fixture
def parts(monkeypatch):
    """Three threads whatever the machine has; yields (thread, part) of what was shared."""
    seen, share = [], _backend.share

    def watched(function, parts, *args):
        def call(part, *args):
            seen.append((threading.current_thread(), part))
            function(part, *args)

        share(call, parts, *args)

    monkeypatch.setattr(_backend, "share", watched)
    with threadpool_limits(1), _backend.one_blas_thread():
        monkeypatch.setattr(_threads, "_N_THREADS", 3)
        yield seen


@dtypes
@pytest.mark.parametrize("shape", [(300, 500, 200), (200, 500, 300)], ids=["rows", "columns"])
@pytest.mark.parametrize("layout", ["C", "F"])
def test_shared_products_equal_those_of_one_thread(parts, dtype, shape, layout):
    case = Factors(dtype, shape)
    left, right = np.asarray(case.left, order=layout), np.asarray(case.right, order=layout)
    product = _backend.matmul(left, right)
    assert product.dtype == dtype
    assert product.flags.c_contiguous
    assert_allclose(product, case.exact, rtol=0, atol=case.rounding)
    cuts = sorted((part.start, part.stop) for _, part in parts)
    assert [start for start, _ in cuts] == [0, *(stop for _, stop in cuts[:-1])]
    assert len(cuts) == 3
    assert cuts[-1][1] == 300


@dtypes
def test_shared_sums_of_products_equal_those_of_one_thread(parts, dtype):
    case = Factors(dtype)
    out = np.ones(case.exact.shape, dtype)
    half = case.left.T[:250], case.right[:250], 2.0
    assert _backend.add_products(out, [(case.left.T, case.right, -0.5), half], keep=0.5) is out
    left, right, _ = (np.asarray(part, np.float64) for part in half)
    expected = 0.5 - 0.5 * case.exact + 2 * left.T @ right
    assert_allclose(out, expected, rtol=0, atol=2 * case.rounding)
    assert len(parts) == 3


@dtypes
@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize("n_rows", [2, 5, 16, 17])
def test_products_of_few_rows_are_done_in_parts(dtype, layout, n_rows, monkeypatch):
    """Each of at most 10**6 multiplications, so that BLAS does not copy the large factor."""
    parts, fill = [], _backend._fill_columns

    def watched(columns, out, X, A):
        parts.append(columns)
        fill(columns, out, X, A)

    monkeypatch.setattr(_backend, "_fill_columns", watched)
    case = Factors(dtype, (n_rows, 800, 701))
    product = _backend.matmul(case.left, np.asarray(case.right, order=layout))
    assert_allclose(product, case.exact, rtol=0, atol=case.rounding)
    assert product.dtype == dtype
    assert all((part.stop - part.start) * n_rows * 800 <= 10**6 for part in parts)
    assert len(parts) == (0 if n_rows == 17 else -(-n_rows * 800 * 701 // 800_000))


def test_small_products_are_not_shared(parts):
    _backend.matmul(np.ones((10, 500)), np.ones((500, 784)))
    _backend.add_products(np.zeros((500, 784)), [(np.ones((10, 500)), np.ones((10, 784)), 1.0)])
    assert all(part.start == 0 for _, part in parts)
    assert {thread for thread, _ in parts} == {threading.current_thread()}


def test_products_of_other_threads_are_not_shared(parts):
    """Workers of joblib share the processor already; only who holds BLAS calls helpers."""
    case = Factors(np.float64)
    worker = threading.Thread(target=_backend.matmul, args=(case.left, case.right))
    worker.start()
    worker.join()
    assert parts == []
    assert _threads.n_threads() == 3


@pytest.mark.parametrize("n", [1, 2])
def test_number_of_threads_is_what_blas_was_allowed(n):
    with threadpool_limits(n, user_api="blas"):
        allowed = min(lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas")
        with _backend.one_blas_thread(), _backend.one_blas_thread():
            assert _threads.n_threads() == allowed
        assert _threads.n_threads() == 1


def test_environment_variable_sets_the_number_of_threads():
    code = (
        "from skrbm import _backend, _threads\n"
        "with _backend.one_blas_thread(): print(_threads.n_threads())"
    )
    names = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, "1")}
    run = [sys.executable, "-c", code]
    assert subprocess.run(run, env=environment, capture_output=True, text=True).stdout == "1\n"


@pytest.mark.parametrize("bad", [0, 1, 2])
def test_errors_of_parts_are_raised(parts, bad):
    def function(part):
        if part == bad:
            raise ZeroDivisionError(f"part {part}")

    for _ in range(20):
        with pytest.raises(ZeroDivisionError, match=f"part {bad}"):
            _threads.share(function, [0, 1, 2])
    done = []
    _threads.share(done.append, [0, 1, 2])  # the helpers live on
    assert sorted(done) == [0, 1, 2]


def test_parts_run_at_once_and_in_the_context_of_the_caller(parts):
    """Each of two waits for the other; a setting of NumPy's holds in both."""
    meeting, settings = threading.Barrier(2, timeout=10), []

    def function(part):
        meeting.wait()
        settings.append(np.geterr()["over"])

    with np.errstate(over="raise"):
        _threads.share(function, [0, 1])
    assert settings == ["raise", "raise"]


def test_helpers_that_are_busy_are_not_waited_for(parts):
    """Parts inside of a part: all helpers have work, so they are done where they come up."""
    release, inner = threading.Event(), []

    def outer(part):
        if threading.current_thread() is threading.main_thread():
            _threads.share(lambda part: inner.append(threading.current_thread()), [0, 1, 2])
            release.set()
        else:
            assert release.wait(10)

    meeting = threading.Barrier(4, timeout=10)

    def occupy(part):
        meeting.wait()
        outer(part)

    _threads.share(lambda part: None, range(4))  # three helpers
    _threads.share(occupy, range(4))
    assert inner == [threading.main_thread()] * 3


def _product_in_child(pipe):
    case = Factors(np.float64)
    with _backend.one_blas_thread():
        _threads._N_THREADS = 3
        error = np.abs(_backend.matmul(case.left, case.right) - case.exact).max()
    pipe.send((error <= case.rounding, _threads._N_HELPERS))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_process_starts_helpers_of_its_own(parts):
    case = Factors(np.float64)
    _backend.matmul(case.left, case.right)
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=_product_in_child, args=(there,))
    child.start()
    assert here.poll(60)
    assert here.recv() == (True, 2)
    child.join(10)
    assert child.exitcode == 0
