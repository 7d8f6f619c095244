"""The training loop that all machines share: batches, epochs, stopping, and what goes wrong."""

import importlib
import sys
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from _estimators import BINARY, RBMS, binary_data, kept_held_out, log_likelihoods, parameters, small
from numpy.testing import assert_allclose, assert_array_equal, assert_equal

from skrbm import RBM as AnyRBM
from skrbm import BernoulliRBM
from skrbm._schedules import SCHEDULES
from skrbm.learning import LikelihoodMonitor, MomentLearner

every = pytest.mark.parametrize("RBM", RBMS)
binary = pytest.mark.parametrize("RBM", BINARY)


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
def test_batches(RBM, monkeypatch):
    steps = counted_steps(monkeypatch)
    small(RBM, n_iter=2, batch_size=8).fit(binary_data(n=20))
    assert [n for n, _ in steps] == [7, 7, 6] * 2


@every
def test_partial_fit_splits_into_batches(RBM, monkeypatch):
    steps = counted_steps(monkeypatch)
    X = binary_data(n=20, dtype=np.float32)
    rbm = small(RBM, batch_size=8)
    assert rbm.partial_fit(X) is rbm
    assert [n for n, _ in steps] == [7, 7, 6]
    assert (rbm.n_iter_, rbm.components_.dtype) == (1, np.float32)
    weights = rbm.components_.copy()
    rbm.partial_fit(X[:3])
    assert (len(steps), steps[-1][0], rbm.n_iter_) == (4, 3, 2)
    assert not np.array_equal(rbm.components_, weights)


@binary
def test_rows_are_shuffled(RBM, monkeypatch):
    seen, original = [], MomentLearner.step

    def step(self, training, index, rate):
        seen.append(self.rows[index][:, 0])
        return original(self, training, index, rate)

    monkeypatch.setattr(MomentLearner, "step", step)
    X = np.linspace(0, 1, 40)[:, None] * np.ones((1, 3))
    small(RBM, n_iter=3).fit(X)
    epochs = np.concatenate(seen).reshape(3, 40)
    assert_array_equal(np.sort(epochs, axis=1), np.tile(X[:, 0], (3, 1)))
    assert len({tuple(epoch) for epoch in [*epochs, X[:, 0]]}) == 4
    seen.clear()
    for Z in (X, X[::-1]):  # without, they have one order, whatever the order of X
        small(RBM, n_iter=2, shuffle=False).fit(Z)
    epochs = np.concatenate(seen).reshape(4, 40)
    assert_array_equal(np.sort(epochs[0]), X[:, 0])
    assert_array_equal(epochs, np.tile(epochs[0], (4, 1)))


@binary
def test_history_has_the_log_likelihood(RBM):
    """Exactly, as there are few hidden units."""
    X = binary_data(n=40)
    rbm = small(RBM).fit(X)
    found, expected = rbm.history_["log_likelihood"], log_likelihoods(rbm, X).mean()
    assert len(found) == len(rbm.history_["epoch"])
    assert_allclose(found[-1], expected, rtol=1e-9)
    assert rbm.history_["log_likelihood_std"][-1] == 0
    assert not {"score", "pseudo_log_likelihood", "free_energy_gap"} & set(rbm.history_)


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


@binary
def test_no_epochs_gives_the_initial_machine(RBM):
    """Its fields are log-odds of the data and of one more row, of which half is on.

    They have these values without hidden units, or at the means of hidden ones that begin apart.
    """
    X = binary_data(n=500)
    X[:, 0], X[:, 3] = 0, 1
    rbm = small(RBM, n_iter=0).fit(X)
    assert (rbm.n_iter_, rbm.history_) == (0, {})
    starts_apart = RBM is AnyRBM
    hidden = 0.5 * starts_apart  # all of them, at the mean of the rows
    mean = (X.sum(axis=0) + 0.5) / (len(X) + 1)
    fields = rbm.intercept_hidden_ + rbm.components_ @ mean
    assert_allclose(fields * starts_apart, 0, atol=1e-9)
    odds = (X.sum(axis=0) + 0.5) / ((1 - X).sum(axis=0) + 0.5)
    fields = rbm.intercept_visible_ + hidden * rbm.components_.sum(axis=0)
    assert_allclose(fields, np.log(odds), rtol=1e-9)
    assert np.isfinite(rbm.score(X))


@pytest.mark.parametrize("kind", ["bernoulli", "spin"])
@pytest.mark.parametrize("n_components", [10, 200])
def test_first_hidden_units_of_binary_machines_tell_rows_apart(kind, n_components):
    """The norm of the weights is exact, so that the deviation of a field is so on average.

    Rows of independent columns are random: the deviation over 2000 rows of a unit is within 5 % of
    what it is over all, by three standard errors; so is the mean of ten of them with margin.
    """
    X = (np.random.default_rng(0).random((2000, 400)) < 0.3).astype(float)
    values, deviation = (X, 0.75) if kind == "bernoulli" else (2 * X - 1, 0.375)
    params = {"visible": kind, "hidden": kind, "n_iter": 0, "random_state": 0}
    rbm = AnyRBM(n_components, **params).fit(values)
    fields = values @ rbm.components_.T + rbm.intercept_hidden_
    assert fields.std(axis=0).mean() == pytest.approx(deviation, rel=0.05)
    assert abs(fields.mean(axis=0)).max() < 0.01


def test_few_columns_of_many_hidden_units_begin_with_weaker_fields():
    """Else the visible units would be far from the data, and learn that alone at first."""
    X = binary_data(n=200)[:, :3]
    rbm = AnyRBM(400, n_iter=0, random_state=0).fit(X)
    p = (X.sum(axis=0) + 0.5) / (len(X) + 1)
    energy = np.sqrt(np.mean(rbm.components_**2) * np.sum(p * (1 - p)) * 400 / 4)
    assert energy == pytest.approx(0.1 * 3)


@pytest.mark.law
@every
def test_constant_columns(RBM):
    X = binary_data(dtype=np.float32)
    X[:, 2], X[:, 5] = 0, 1
    # At a constant rate the mean of a real unit would swing, as its learned variance shrinks.
    rbm = small(RBM, n_iter=100, learning_rate=0.2, schedule="cosine").fit(X)
    assert all(np.isfinite(part).all() for part in parameters(rbm))
    V = rbm.sample(200, random_state=0)
    assert V[:, 2].mean() < 0.1 and V[:, 5].mean() > 0.9  # by far: they are below 0.02
    assert np.isfinite(small(RBM).fit(np.zeros((20, 3))).score(np.zeros((20, 3))))


@every
def test_fewer_rows_than_a_batch(RBM):
    X = binary_data(n=3)
    rbm = small(RBM, batch_size=50).fit(X)
    assert rbm.starts_.shape == (3, 8)  # no more states than rows
    assert np.isfinite(rbm.score(X))
    small(RBM).fit(X[:1])


@binary
def test_states_when_rows_are_fewer_than_a_batch_at_times(RBM):
    """More rows in a later fit bring more states, fewer rows leave them as they are."""
    X = binary_data(n=60)
    rbm = small(RBM, batch_size=50, warm_start=True)
    sizes = [rbm.fit(X[:n]).starts_.shape[0] for n in (3, 20, 60, 5)]
    assert sizes == [3, 20, 50, 50]
    assert rbm.set_params(batch_size=10).fit(X[:5]).starts_.shape == (5, 8)
    stream = small(RBM, batch_size=50)  # whose length is not known
    assert [stream.partial_fit(X[:n]).starts_.shape[0] for n in (3, 60, 1)] == [50, 50, 50]


# ------------------------------------------------------------------ early stopping


def watched_split(monkeypatch):
    """Record the rows that each fit is trained on, and those set aside, with their weights."""
    seen, original = [], LikelihoodMonitor.__init__

    def spy(self, density, phase, rows, train, validation, *args, **kwargs):
        seen.append([(rows[part], rows.weights_of(part)) for part in (train, validation)])
        original(self, density, phase, rows, train, validation, *args, **kwargs)

    monkeypatch.setattr(LikelihoodMonitor, "__init__", spy)
    return seen


@binary
def test_early_stopping_records_what_it_watches(RBM, monkeypatch):
    """One epoch, so that the parameters that were measured are those that are published."""
    X = binary_data(n=100)
    rbm = small(RBM, n_iter=1, early_stopping=True, validation_fraction=0.3, tol=100.0)
    trained = watched_split(monkeypatch)
    rbm.fit(X)
    (train, n_train), (validation, n_validation) = trained[0]
    assert not {*map(tuple, train)} & {*map(tuple, validation)}  # no row is on both sides
    assert n_validation.sum() - n_validation[-1] < 30 <= n_validation.sum()
    train = np.repeat(train, n_train.astype(int), axis=0)
    validation = np.repeat(validation, n_validation.astype(int), axis=0)
    both = np.concatenate([train, validation])
    assert_array_equal(both[np.lexsort(both.T)], X[np.lexsort(X.T)])
    for name, part in (("score", validation), ("log_likelihood", train)):
        assert_allclose(rbm.history_[name], [log_likelihoods(rbm, part).mean()], rtol=1e-9)


@every
def test_validation_rows_are_not_trained_on(RBM, monkeypatch):
    steps = counted_steps(monkeypatch)
    X = np.unique(binary_data(n=400), axis=0)[:40]  # of copies, all or none are set aside
    small(RBM, n_iter=1, early_stopping=True, validation_fraction=0.25).fit(X)
    assert sum(n for n, _ in steps) == 30 == 0.75 * len(X)


def script_of_scores(monkeypatch, values):
    """Let the monitor see given values instead of measured ones; returns the machines seen."""
    machines, original = [], LikelihoodMonitor.measure

    def measure(self, machine, state):
        measured = original(self, machine, state)
        self.value = measured["score"] = values[len(machines)]
        machines.append(machine.copy())
        return measured

    monkeypatch.setattr(LikelihoodMonitor, "measure", measure)
    return machines


@binary
@pytest.mark.parametrize(
    "values, n_epochs, best",
    [
        # A score is bad unless it rises by tol = 0.5: epochs 3, 4, 5 are.
        ([-9, -5, -4.9, -4.8, -4.7, -1, 0], 5, 2),
        ([-9, -5, -6, -6, -4, -4, -4, -4, -1], 8, 5),
    ],
)
def test_early_stopping_restores_the_last_good_parameters(RBM, monkeypatch, values, n_epochs, best):
    machines = script_of_scores(monkeypatch, values)
    rbm = small(RBM, n_iter=20, early_stopping=True, tol=0.5, n_iter_no_change=3)
    rbm.fit(binary_data())
    assert rbm.n_iter_ == len(rbm.history_["epoch"]) == len(machines) == n_epochs
    assert_array_equal(rbm.components_, machines[best - 1].weights[0])
    assert_array_equal(rbm.intercept_visible_, machines[best - 1].thetas[0].field)
    assert not np.array_equal(rbm.components_, machines[-1].weights[0])


@pytest.mark.law
@binary
def test_early_stopping_stops_before_overfitting(RBM, monkeypatch):
    """Twenty rows of 8 fair bits, learnt by heart by 200 epochs of a large machine: four times.

    The same rows are learnt without an end; which rows they are moves one score by some tenths.
    One of 30 or 60 fits goes on for more than 100 epochs, and all but one in ten for less than 85:
    the mean of four is above 100 once in some thousands of times.
    """
    fair = (np.random.default_rng(1).random((2000, 8)) < 0.5).astype(float)
    params = {"n_components": 15, "learning_rate": 0.3, "n_iter": 200, "alpha": 0.0}
    gains = []
    epochs, held_out = [], kept_held_out(monkeypatch)
    for seed in range(4):
        X = (np.random.default_rng(seed).random((40, 8)) < 0.5).astype(float)
        rbm = small(RBM, early_stopping=True, validation_fraction=0.5, **params).fit(X)
        epochs.append(rbm.n_iter_)
        apart = {tuple(row) for row in held_out[-1]}
        learnt = np.array([row for row in X if tuple(row) not in apart])
        gains.append(rbm.score(fair) - small(RBM, **params).fit(learnt).score(fair))
    assert np.mean(epochs) < 100
    assert np.mean(gains) > 0.1


@every
def test_early_stopping_on_sparse_data(RBM):
    X = binary_data()
    dense, sparse = (small(RBM, early_stopping=True).fit(Z) for Z in (X, sp.csr_array(X)))
    assert_allclose(sparse.history_["score"], dense.history_["score"], rtol=1e-10)


# ----------------------------------------------------------------------- callbacks


class Listener:
    """A callback that writes down what it is told."""

    def __init__(self, stop_after=None):
        self.told, self.stop_after = [], stop_after

    def setup(self, estimator, context):
        self.told.append("setup")

    def teardown(self, estimator, context):
        self.told.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.told.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None):
        n = self.told.count("begin epoch")
        epoch = context.task_name == "epoch"
        self.told.append((context.task_name, X is None, fitted_estimator.components_.copy()))
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

    told = []
    for Estimator in (Older, BernoulliRBM):
        listener = Listener(stop_after=2)
        rbm = small(Estimator).set_callbacks(listener).fit(binary_data())
        assert rbm.n_iter_ == 2
        told.append(listener.told)
        listener = Listener()
        with pytest.raises(ValueError, match="infinity"):
            rbm.set_callbacks(listener).fit(np.full((3, 8), np.inf))
        assert listener.told == []
    assert_equal(*told)
    assert told[0][:2] == ["setup", "begin fit"] and told[0][-1] == "teardown"
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


OPTIONS = [(RBM, {}) for RBM in RBMS] + [(RBM, {"binarize": 0}) for RBM in BINARY]
OPTIONS += [(RBM, {"early_stopping": True}) for RBM in RBMS]


@pytest.mark.arrays
@pytest.mark.parametrize("RBM, params", OPTIONS)
@pytest.mark.parametrize(
    "dtype, item",
    [
        (np.float32, 4),
        pytest.param(np.uint8, 4, marks=pytest.mark.arrays),
        pytest.param(np.float64, 8, marks=pytest.mark.arrays),
    ],
)
def test_memory_of_a_fit_on_dense_data(RBM, params, dtype, item):
    """Beside X itself: ten times parameters and batch, an index of the rows, and 2 MB.

    A copy of X has 6.4 MB as float32. Only ``binarize`` needs a mask of one byte for each entry.
    """
    X = (np.random.default_rng(0).random((8_000, 200)) < 0.3).astype(dtype)
    rbm = RBM(n_components=50, batch_size=100, n_iter=1, random_state=0, **params)
    small(RBM, **params).fit(X[:100])  # what is imported and cached at first use
    batch_and_parameters = item * (50 * 200 + 250 + 100 * (200 + 50))
    mask = X.size if "binarize" in params else 0
    assert peak(lambda: rbm.fit(X)) < 10 * batch_and_parameters + 16 * 8_000 + mask + 2_000_000


@pytest.mark.arrays
@pytest.mark.parametrize(
    "RBM, params", [case for case in OPTIONS if "early_stopping" not in case[1]]
)
def test_memory_of_a_fit_on_sparse_data(RBM, params):
    """The dense matrix would have 40 MB as float32, the sparse one has 1.2."""
    X = sp.random(5_000, 2_000, density=0.01, format="csr", random_state=0, dtype=np.float32)
    rbm = RBM(n_components=20, batch_size=100, n_iter=1, random_state=0, **params)
    data = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    batch_and_parameters = 4 * (20 * 2_000 + 2_020 + 100 * 2_020)
    assert peak(lambda: rbm.fit(X)) < 2 * data + 10 * batch_and_parameters + 4_500_000
    assert peak(lambda: rbm.transform(X)) < 3 * data + 3 * 4 * 20 * 5_000


# -------------------------------------------------------------------- odds and ends


@every
def test_warm_start_takes_a_new_number_of_chains(RBM):
    X = binary_data(n=40)
    rbm = small(RBM, batch_size=5, warm_start=True).fit(X)
    assert rbm.starts_.shape[0] == 5
    assert rbm.set_params(batch_size=8).fit(X).starts_.shape[0] == 8


@every
def test_columns_of_the_history_stay_in_step(RBM):
    """Quantities that come and go between fits leave NaN, not gaps."""
    X = binary_data(n=40)
    rbm = small(RBM, n_iter=2, warm_start=True).fit(X)
    rbm.set_params(early_stopping=True, tol=100).fit(X).partial_fit(X)
    assert rbm.history_["epoch"] == [1, 2, 3, 4, 5]
    assert {len(column) for column in rbm.history_.values()} == {5}
    assert_array_equal(np.isnan(rbm.history_["score"]), [True, True, False, False, True])


@every
def test_reports_are_averaged_over_the_epoch(RBM, monkeypatch):
    """Reports of 0, 1, 2, ... in turn: the history has the mean over the batches of an epoch."""
    original, reports = MomentLearner.step, iter(range(1000))

    def step(self, training, index, rate):
        original(self, training, index, rate)
        return {"counted": float(next(reports))}

    monkeypatch.setattr(MomentLearner, "step", step)
    rbm = small(RBM, n_iter=2, batch_size=10).fit(binary_data(n=40))
    assert rbm.history_["counted"] == [1.5, 5.5]
