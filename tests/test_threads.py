"""Threads of our own: what is shared among them, and BLAS's number of threads while they work."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose
from threadpoolctl import threadpool_info, threadpool_limits

from skrbm import arrays
from skrbm.arrays import _products, _threads

dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.fixture
def two_threads():
    """BLAS is allowed two threads, whatever the environment says; yields what it then reports."""
    with threadpool_limits(2, user_api="blas"):
        yield blas_threads()


def test_one_blas_thread_of_overlapping_threads(two_threads):
    """The limit lasts until the last holder leaves, and is lifted then, whoever set it."""
    entered, leave, left, end = (threading.Event() for _ in range(4))

    @_threads.one_blas_thread
    def hold():
        entered.set()
        leave.wait(10)

    def first():
        hold()
        left.set()
        end.wait(10)  # alive, as workers of a pool are

    @_threads.one_blas_thread
    def second():
        assert set(blas_threads()) == {1}
        leave.set()
        assert left.wait(10)
        assert set(blas_threads()) == {1}

    worker = threading.Thread(target=first)
    worker.start()
    assert entered.wait(10)
    second()
    assert blas_threads() == two_threads
    end.set()
    worker.join()


INTERRUPTS = """
import signal, time
import numpy as np
from threadpoolctl import ThreadpoolController
from skrbm.arrays._threads import one_blas_thread, _HOLDERS

def interrupt(signum, frame):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
blas = ThreadpoolController().select(user_api="blas").lib_controllers
allowed = [library.num_threads for library in blas]
rng, n_interrupts, n_wrong = np.random.default_rng(0), 0, 0
end = time.monotonic() + 60
empty = one_blas_thread(lambda: None)
empty()  # which finds the libraries, and takes long
while n_interrupts < 1000 and time.monotonic() < end:
    try:
        signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, 1e-4))
        while True:
            empty()
    except KeyboardInterrupt:
        n_interrupts += 1
    n_wrong += bool(_HOLDERS) or [library.num_threads for library in blas] != allowed
print(allowed, n_interrupts, n_wrong)
"""


@pytest.mark.law
@pytest.mark.skipif(
    sys.version_info >= (3, 14),
    reason="Python 3.14 may handle a signal after `with` has taken a lock, as in threadpoolctl",
)
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_interrupts_give_the_threads_back():
    """1000 interrupts at random moments of calls that do nothing but hold and release."""
    run = subprocess.run(
        [sys.executable, "-c", INTERRUPTS],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=True,
    )
    *_, n_interrupts, n_wrong = run.stdout.split()
    assert int(n_interrupts) >= 200
    assert int(n_wrong) == 0, run.stdout


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
    seen, share = [], _products.share

    def watched(function, parts, *args):
        def call(part, *args):
            seen.append((threading.current_thread(), part))
            function(part, *args)

        share(call, parts, *args)

    monkeypatch.setattr(_products, "share", watched)
    _threads._hold(1)
    monkeypatch.setattr(_threads, "_N_THREADS", 3)
    yield seen
    _threads._release(0)


@pytest.mark.parametrize("dtype, layout", [(np.float64, "C"), (np.float32, "F")])
@pytest.mark.parametrize("shape", [(300, 500, 200), (200, 500, 300)], ids=["rows", "columns"])
def test_shared_products_equal_those_of_one_thread(parts, dtype, shape, layout):
    case = Factors(dtype, shape)
    left, right = np.asarray(case.left, order=layout), np.asarray(case.right, order=layout)
    product = arrays.matmul(left, right)
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
    assert arrays.add_products(out, [(case.left.T, case.right, -0.5), half], keep=0.5) is out
    left, right, _ = (np.asarray(part, np.float64) for part in half)
    expected = 0.5 - 0.5 * case.exact + 2 * left.T @ right
    assert_allclose(out, expected, rtol=0, atol=2 * case.rounding)
    assert len(parts) == 3


def _forked(function):
    """Return what a function sends through a pipe from a forked process."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=function, args=(there,))
    child.start()
    assert here.poll(60)
    received = here.recv()
    child.join(10)
    assert child.exitcode == 0
    return received


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")


@forks
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_process_inherits_no_limit(two_threads):
    """Another thread holds BLAS at the fork, which does not come along."""
    entered, leave = threading.Event(), threading.Event()

    @_threads.one_blas_thread
    def hold():
        entered.set()
        leave.wait(60)

    worker = threading.Thread(target=hold)
    worker.start()
    assert entered.wait(10)
    assert set(blas_threads()) == {1}
    assert _forked(lambda pipe: pipe.send(blas_threads())) == two_threads
    leave.set()
    worker.join()
    assert blas_threads() == two_threads
