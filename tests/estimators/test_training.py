"""The training loop that all machines share: batches, epochs, stopping, and what goes wrong."""

import importlib
import sys
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from _estimators import RBMS, binary_data, parameters, small
from numpy.testing import assert_allclose, assert_array_equal, assert_equal

from skrbm import RBM, BernoulliRBM
from skrbm._schedules import SCHEDULES
from skrbm.learning import MomentLearner

every = pytest.mark.parametrize("RBM", RBMS)


def counted_steps(monkeypatch, before=lambda n: None):
    """Record the number of rows and the rate of each step of training."""
    steps, original = [], MomentLearner.step

    def step(self, training, index, rate):
        before(len(steps))
        steps.append((len(index), rate))
        return original(self, training, index, rate)

    monkeypatch.setattr(MomentLearner, "step", step)
    return steps


def assert_same_parameters(one, other):
    for left, right in zip(parameters(one), parameters(other), strict=True):
        assert_array_equal(left, right)


# ------------------------------------------------------------- batches and epochs


@every
@pytest.mark.parametrize("schedule", [*sorted(SCHEDULES), lambda progress: 1 + progress])
def test_schedules(RBM, schedule, monkeypatch):
    steps = counted_steps(monkeypatch)
    rbm = small(RBM, n_iter=4, learning_rate=0.2, schedule=schedule).fit(binary_data(n=10))
    progress = np.arange(4) / 4
    factors = {
        "constant": np.ones(4),
        "linear": 1 - progress,
        "polynomial": (1 - progress) ** 1.5,
        "cosine": np.cos(np.pi * progress / 2) ** 2,
        "exponential": 1000.0**-progress,
    }
    expected = 0.2 * (1 + progress if callable(schedule) else factors[schedule])
    assert_allclose(rbm.history_["learning_rate"], expected)
    assert_allclose([rate for _, rate in steps], expected)


# ------------------------------------------------------------------ early stopping


# ----------------------------------------------------------------------- callbacks


class Listener:
    """A callback that records its calls."""

    def __init__(self, stop_after=None):
        self.calls, self.stop_after = [], stop_after

    def setup(self, estimator, context):
        self.calls.append("setup")

    def teardown(self, estimator, context):
        self.calls.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.calls.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None):
        n = self.calls.count("begin epoch")
        epoch = context.task_name == "epoch"
        self.calls.append((context.task_name, X is None, fitted_estimator.components_.copy()))
        return epoch and n == self.stop_after


def test_without_scikit_learns_callbacks(monkeypatch):
    """What stands in for them where scikit-learn is older than 1.9 tells callbacks the same."""
    monkeypatch.setitem(sys.modules, "sklearn.callback", None)  # so that importing it fails
    source = importlib.util.find_spec("skrbm._sklearn")
    older = importlib.util.module_from_spec(source)
    source.loader.exec_module(older)
    assert older.CallbackSupportMixin.__module__ == "skrbm._sklearn"

    class Older(older.CallbackSupportMixin, BernoulliRBM):
        fit = older.with_callbacks(getattr(BernoulliRBM.fit, "__wrapped__", BernoulliRBM.fit))

    calls = []
    for Estimator in (Older, BernoulliRBM):
        listener = Listener(stop_after=2)
        rbm = small(Estimator).set_callbacks(listener).fit(binary_data())
        assert rbm.n_iter_ == 2
        calls.append(listener.calls)
        listener = Listener()
        with pytest.raises(ValueError, match="infinity"):
            rbm.set_callbacks(listener).fit(np.full((3, 8), np.inf))
        assert listener.calls == []
    assert_equal(*calls)
    assert calls[0][:2] == ["setup", "begin fit"] and calls[0][-1] == "teardown"
    rbm = small(Older).set_callbacks(Listener()).set_callbacks()
    assert_same_parameters(rbm.fit(binary_data()), small(BernoulliRBM).fit(binary_data()))


# -------------------------------------------------------------------------- memory


def peak(function):
    """Largest number of bytes that were allocated at once in a call."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


OPTIONS = [(RBM, {}) for RBM in RBMS]
OPTIONS += [(RBM, {"early_stopping": True}) for RBM in RBMS]


@pytest.mark.arrays
@pytest.mark.parametrize("RBM, params", OPTIONS)
@pytest.mark.parametrize(
    "dtype, item",
    [(np.float32, 4), (np.uint8, 4), (np.float64, 8)],
)
def test_memory_of_a_fit_on_dense_data(RBM, params, dtype, item):
    """Beside X itself: ten times parameters and batch, an index of the rows, and 2 MB.

    A copy of X has 6.4 MB as float32.
    """
    X = (np.random.default_rng(0).random((8_000, 200)) < 0.3).astype(dtype)
    rbm = RBM(n_components=50, batch_size=100, n_iter=1, random_state=0, **params)
    small(RBM, **params).fit(X[:100])  # what is imported and cached at first use
    batch_and_parameters = item * (50 * 200 + 250 + 100 * (200 + 50))
    assert peak(lambda: rbm.fit(X)) < 10 * batch_and_parameters + 16 * 8_000 + 2_000_000


@pytest.mark.law
def test_memory_of_a_fit_on_wide_sparse_data():
    """Copies of the parameters, and few rows and chains that are dense."""
    generator, n = np.random.default_rng(0), 1_000_000
    places = generator.integers(100, size=20_000), generator.integers(n, size=20_000)
    X = sp.csr_matrix((np.ones(20_000), places), shape=(100, n))
    X.data[:] = 1.0  # also of places drawn twice
    rbm = RBM(4, n_iter=1, random_state=0)
    rbm.fit(X[:, :100])
    assert peak(lambda: rbm.fit(X)) < 8 * 8 * 5_000_000 + 400_000_000
