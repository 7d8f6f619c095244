"""Contract of all estimators: warm starts, callbacks, interruptions and divergence."""

import inspect
import os
import sys
from dataclasses import replace

import numpy as np
import pytest
from _estimators import (
    PATHS,
    Interruption,
    assert_same_state,
    binary_data,
    copied_state,
    learn,
    read_only,
    small,
    state,
    targets,
    with_methods,
    with_parameters,
)
from numpy.testing import assert_array_equal
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError

import skrbm
from skrbm import RBM, DeepTAPMachine, FrankWolfeRBM, TabularRBM
from skrbm.exceptions import DivergenceError
from skrbm.learning import EarlyStopping

ALL = [*PATHS, TabularRBM]  # which takes bits as a table
every = pytest.mark.parametrize("Estimator", ALL)
in_epochs = pytest.mark.parametrize("Estimator", with_parameters("n_iter", among=ALL))
warm = pytest.mark.parametrize("Estimator", with_parameters("warm_start", "n_iter", among=ALL))
streams = pytest.mark.parametrize("Estimator", with_methods("partial_fit", among=ALL))
pytestmark = pytest.mark.filterwarnings("ignore:the model has no hidden unit")
ROUNDING = {"rtol": 1e-6, "atol": 1e-7}  # real units may be learnt in other coordinates


def parts_of(estimator):
    """The fitted parameters, without the states of chains or solutions."""
    kept = ("components", "intercept", "coef", "variances", "multiplicities")
    found = copied_state(estimator)
    return {name: part for name, part in found.items() if name.startswith(kept)}


# ------------------------------------------------------------------------- warm starts


@warm
def test_warm_start(Estimator):
    """It adds epochs and starts at the last parameters; without it a fit starts afresh."""
    X = binary_data()
    estimator = learn(small(Estimator, warm_start=True), X)
    before = copied_state(estimator)
    learn(estimator, X)
    assert estimator.n_iter_ == 6 and estimator.history_["epoch"] == [1, 2, 3, 4, 5, 6]
    parts = parts_of(estimator)
    learn(estimator.set_params(n_iter=0), X)
    assert_same_state(parts_of(estimator), parts, **ROUNDING)
    cold = learn(learn(small(Estimator), X), X)
    assert cold.n_iter_ == len(cold.history_["epoch"]) == 3
    assert_same_state(cold, before)


@pytest.mark.parametrize("Estimator", with_parameters("warm_start", "n_components"))
def test_warm_start_needs_the_same_sizes(Estimator):
    estimator = learn(small(Estimator, warm_start=True), binary_data())
    before, size = copied_state(estimator), estimator.n_components
    for method in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=r"7.* hidden units"):
            learn(estimator.set_params(n_components=7), binary_data(), method)
        with pytest.raises(ValueError, match="9 features"):
            learn(estimator.set_params(n_components=size), binary_data(n_features=9), method)
    assert_same_state(estimator, before)


@streams
def test_partial_fit_continues_fit(Estimator):
    """One epoch and a call of partial_fit equal two epochs: the random stream continues.

    ``alpha="auto"`` would fall, since rows of ``partial_fit`` count as new ones.
    """
    X, params = binary_data(), {"alpha": 1e-3}
    one = learn(small(Estimator, n_iter=2, **params), X)
    other = learn(small(Estimator, n_iter=1, **params), X)
    assert learn(other, X, "partial_fit") is other
    assert one.n_iter_ == other.n_iter_ == 2
    assert_same_state(parts_of(one), parts_of(other), **ROUNDING)


@every
def test_published_parameters_are_not_written_into(Estimator):
    X = binary_data()
    estimator = learn(small(Estimator, warm_start=True), X)
    kept, before = state(estimator), copied_state(estimator)
    learn(estimator, X)
    if hasattr(estimator, "partial_fit"):
        learn(estimator, X, "partial_fit")
    for name, part in kept.items():
        assert_array_equal(part, before[name], err_msg=name)


@in_epochs
def test_history_and_verbose(Estimator, capsys):
    estimator = learn(small(Estimator, n_iter=4), binary_data())
    assert not capsys.readouterr().out
    assert {len(values) for values in estimator.history_.values()} == {4}
    assert estimator.history_["epoch"] == [1, 2, 3, 4]
    rates = estimator.history_["learning_rate"]
    if estimator.learning_rate == "auto":
        assert min(rates) > 0 and len(set(rates)) > 1
    else:
        assert rates == [estimator.learning_rate] * 4
    assert all(seconds > 0 for seconds in estimator.history_["time"])
    learn(estimator.set_params(verbose=1), binary_data())
    assert len(estimator.history_["epoch"]) == 4  # a new fit, a new history
    printed = capsys.readouterr().out.splitlines()
    assert all(line.startswith(f"[{Estimator.__name__}") for line in printed)
    own = f"[{Estimator.__name__}]"
    lines = [line for line in printed if line.startswith(own) and " of 4" in line]
    assert len(lines) == 4
    for epoch, line in enumerate(lines, start=1):
        assert line.startswith(f"[{Estimator.__name__}] epoch {epoch} of {len(lines)}")


@pytest.mark.parametrize("Estimator", with_parameters("early_stopping", "n_iter"))
def test_columns_of_the_history_have_one_length(Estimator):
    """Quantities that are not measured in all fits have NaN."""
    X = binary_data(n=40)
    estimator = learn(small(Estimator, n_iter=2, warm_start=True), X)
    names = set(estimator.history_)
    learn(estimator.set_params(early_stopping=EarlyStopping(tol=100)), X)
    learn(estimator, X, "partial_fit")
    assert estimator.history_["epoch"] == [1, 2, 3, 4, 5]
    assert set(estimator.history_) > names
    for name in set(estimator.history_) - names:
        missing = np.isnan(estimator.history_[name])
        assert_array_equal(missing, [True, True, False, False, True])


# ------------------------------------------------------------------------- interruptions


FOLDER = os.path.dirname(skrbm.__file__)


def interrupted_after(n_calls, function):
    """Raise KeyboardInterrupt in the n-th call of one of skrbm's functions, as Ctrl-C would.

    Python swallows exceptions of generators that it closes, so that calls of generators are passed
    over. Returns the number of calls, and whether the interruption was raised again.
    """
    seen = 0

    def count(frame, event, _):
        nonlocal seen
        if event == "call" and frame.f_code.co_filename.startswith(FOLDER):
            seen += 1
            if 0 < n_calls <= seen and not frame.f_code.co_flags & inspect.CO_GENERATOR:
                sys.setprofile(None)
                raise KeyboardInterrupt

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        function()
    except KeyboardInterrupt:
        return seen, True
    finally:
        sys.setprofile(before)
    return seen, False


MOMENTS = [(E, 0.75) for E in ALL] + [(RBM, moment) for moment in np.arange(0.3, 1, 0.06)]


@pytest.mark.parametrize("Estimator, moment", MOMENTS)
def test_interruption_keeps_the_last_complete_epoch(Estimator, moment):
    X = binary_data()
    params = {"n_iter": 6} if Estimator is not FrankWolfeRBM else {}
    n_calls, _ = interrupted_after(0, lambda: learn(small(Estimator, **params), X))
    estimator = small(Estimator, **params)
    _, raised = interrupted_after(int(moment * n_calls), lambda: learn(estimator, X))
    assert raised
    if params:
        assert estimator.n_iter_ == len(estimator.history_.get("epoch", [])) <= 6
        assert_same_state(estimator, learn(small(Estimator, n_iter=estimator.n_iter_), X))
    assert np.isfinite(estimator.transform(X)).all()
    if hasattr(estimator, "partial_fit"):
        n_iter = estimator.n_iter_
        assert learn(estimator, X, "partial_fit").n_iter_ == n_iter + 1


@streams
def test_interruption_of_partial_fit_keeps_the_last_fit(Estimator):
    X = binary_data()
    params = {"n_iter": 1, "momentum": 0.5, "warm_start": True}
    first, estimator = (learn(small(Estimator, **params), X) for _ in range(2))
    n_calls, _ = interrupted_after(0, lambda: learn(first, X, "partial_fit"))
    before = parts_of(estimator)
    _, raised = interrupted_after(n_calls // 2, lambda: learn(estimator, X, "partial_fit"))
    assert raised and estimator.n_iter_ == 1
    assert_same_state(parts_of(estimator), before, **ROUNDING)
    assert learn(estimator, X, "partial_fit").n_iter_ == 2


@pytest.mark.parametrize("warm_start", [False, True])
@in_epochs
def test_interruption_in_the_first_epoch_leaves_the_last_fit(Estimator, warm_start):
    """Parameters, chains and random stream: the next fit does not notice."""
    X = binary_data()
    first, second = (learn(small(Estimator, warm_start=warm_start), X) for _ in range(2))
    with pytest.raises(KeyboardInterrupt):
        learn(first.set_callbacks(Interruption()), X)
    assert_same_state(first, second)
    assert_same_state(learn(first.set_callbacks(), X), learn(second, X))
    fresh = small(Estimator).set_callbacks(Interruption())
    with pytest.raises(KeyboardInterrupt):
        learn(fresh, X)
    with pytest.raises(NotFittedError):
        fresh.transform(X)


@pytest.mark.parametrize("Estimator", [*ALL, skrbm.BernoulliRBM])
def test_an_interruption_names_what_continues_the_fit(Estimator):
    X = binary_data()
    estimator = small(Estimator, n_iter=5) if Estimator is not FrankWolfeRBM else small(Estimator)
    with pytest.raises(KeyboardInterrupt) as caught:
        learn(estimator.set_callbacks(Interruption(2)), X)
    note = caught.value.__notes__[-1]
    assert Estimator.__name__ in note
    assert np.isfinite(estimator.transform(X)).all()
    n_iter = estimator.n_iter_
    assert ("partial_fit" in note) == hasattr(estimator, "partial_fit")
    assert ("warm_start" in note) == ("warm_start" in estimator.get_params())
    if "warm_start" in note:
        estimator.set_params(warm_start=True)
    learn(estimator.set_callbacks(), X, "fit" if "warm_start" in note else "partial_fit")
    assert estimator.n_iter_ > n_iter


# ----------------------------------------------------------------------------- callbacks


class Recorder:
    """A callback that keeps copies of what is fitted, and ends the fit after some epochs."""

    def __init__(self, stop_after=None):
        self.stop_after, self.seen, self.n_setups = stop_after, [], 0

    def setup(self, estimator, context):
        self.n_setups += 1

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if context.task_name not in ("epoch", "unit"):
            return False
        self.seen.append(parts_of(fitted_estimator))
        return len(self.seen) == self.stop_after


@every
def test_callbacks_stop_the_fit(Estimator):
    more = {"max_components": 10} if Estimator is FrankWolfeRBM else {"n_iter": 10}
    recorder = Recorder(stop_after=2)
    estimator = learn(small(Estimator, **more).set_callbacks(recorder), binary_data())
    assert estimator.n_iter_ == len(recorder.seen) == 2 and recorder.n_setups == 1
    assert_same_state(parts_of(estimator), recorder.seen[-1], rtol=1e-6)
    first, last = (seen["components_0"] for seen in recorder.seen)
    assert first.shape != last.shape or not np.array_equal(first, last)


@pytest.mark.parametrize("Estimator", [RBM, DeepTAPMachine, FrankWolfeRBM])
def test_progress_bar(Estimator, capsys):
    pytest.importorskip("rich")
    ProgressBar = pytest.importorskip("sklearn.callback").ProgressBar

    estimator = learn(small(Estimator).set_callbacks(ProgressBar()), binary_data())
    assert_same_state(estimator, read_only(Estimator))
    assert Estimator.__name__ in capsys.readouterr().out


@in_epochs
def test_scoring_monitor(Estimator):
    ScoringMonitor = pytest.importorskip("sklearn.callback").ScoringMonitor

    def scorer(estimator, X, y):
        return estimator.score(X, y)

    X, monitor = binary_data(), ScoringMonitor(scoring={"score": scorer})
    estimator = learn(small(Estimator).set_callbacks(monitor), X)
    scores = [row["score"] for row in monitor.get_logs().data if row["task_name"] == "epoch"]
    y = targets(len(X)) if is_classifier(estimator) else None
    assert len(scores) == 3
    assert scores[-1] == pytest.approx(estimator.score(X, y), rel=1e-6)
    short = learn(small(Estimator, n_iter=1), X)
    assert scores[0] == pytest.approx(short.score(X, y), rel=1e-6)


# ----------------------------------------------------------------------------- divergence


@pytest.mark.parametrize("Estimator", with_parameters("optimizer", "n_iter", among=ALL))
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_divergence(Estimator, momentum, recwarn):
    """Steps that overflow from the third epoch on."""
    X = binary_data(dtype=np.float32)
    expected = learn(small(Estimator, learning_rate=0.1, momentum=momentum, n_iter=2), X)
    params = {"learning_rate": 1.0, "momentum": momentum, "n_iter": 10}
    schedule = lambda progress: 1e38 if progress >= 0.2 else 0.1  # noqa: E731
    estimator = small(Estimator, **params, schedule=schedule)
    with pytest.raises(DivergenceError, match=r"(?s)epoch 3\D.*learning_rate"):
        learn(estimator, X)
    assert not recwarn.list  # the error says it all
    assert_same_state(estimator, expected)
    assert estimator.n_iter_ == 2
    assert np.isfinite(estimator.transform(X)).all()
    steady = replace(estimator.optimizer, schedule="constant")
    learn(estimator.set_params(optimizer=steady, learning_rate=0.1), X, "partial_fit")
    assert all(np.isfinite(part).all() for part in copied_state(estimator).values())


@every
def test_a_fit_that_cannot_start_keeps_the_last_one(Estimator):
    X = binary_data()
    estimator = learn(small(Estimator), X)
    before, hidden = copied_state(estimator), estimator.transform(X)
    history = getattr(estimator, "history_", None)
    with pytest.raises(ValueError, match="verbose"):
        learn(estimator.set_params(verbose=-1), X[:, :4])
    estimator.set_params(verbose=0)
    assert estimator.n_features_in_ == X.shape[1]
    assert getattr(estimator, "history_", None) is history
    assert_same_state(estimator, before)
    assert_array_equal(estimator.transform(X), hidden)
