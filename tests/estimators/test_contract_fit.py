"""What every estimator keeps to: fits that go on, stop, are stopped, and go wrong.

An estimator is in each test whose methods and parameters it has.
"""

import inspect
import os
import sys

import numpy as np
import pytest
import threadpoolctl
from _estimators import (
    ESTIMATORS,
    assert_same_state,
    binary_data,
    copied_state,
    learn,
    small,
    state,
    targets,
    with_methods,
    with_parameters,
)
from numpy.testing import assert_array_equal
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import skrbm
from skrbm import RBM
from skrbm.exceptions import DivergenceError
from skrbm.learning import Adam

every = pytest.mark.parametrize("Estimator", ESTIMATORS)
pytestmark = pytest.mark.filterwarnings("ignore:the machine has no hidden unit")
in_epochs = pytest.mark.parametrize("Estimator", with_parameters("n_iter"))
warm = pytest.mark.parametrize("Estimator", with_parameters("warm_start", "n_iter"))
streams = pytest.mark.parametrize("Estimator", with_methods("partial_fit"))
# Real units may be learnt in other coordinates, and come back.
ROUNDING = {"rtol": 1e-6, "atol": 1e-7}


def test_the_lists_are_not_empty():
    names = {E.__name__ for E in with_parameters("warm_start", "n_iter")}
    assert {"BernoulliRBM", "ConditionalRBM", "DeepTAPMachine"} <= names
    assert "FrankWolfeRBM" not in {E.__name__ for E in with_methods("partial_fit")}


def parts_of(estimator):
    """The fitted parameters, without the states of chains or solutions."""
    kept = ("components", "intercept", "coef", "variances", "multiplicities")
    found = copied_state(estimator)
    return {name: part for name, part in found.items() if name.startswith(kept)}


# --------------------------------------------------------------------- fits that go on


@warm
def test_warm_start_adds_epochs(Estimator):
    X = binary_data()
    estimator = learn(small(Estimator, warm_start=True), X)
    before = copied_state(estimator)
    learn(estimator, X)
    assert estimator.n_iter_ == 6
    assert estimator.history_["epoch"] == [1, 2, 3, 4, 5, 6]
    cold = learn(small(Estimator), X)
    assert_same_state(cold, before)
    learn(cold, X)
    assert cold.n_iter_ == 3
    assert_same_state(cold, before)


@warm
def test_warm_start_goes_on_from_the_parameters(Estimator):
    estimator = learn(small(Estimator, warm_start=True), binary_data())
    before = parts_of(estimator)
    learn(estimator.set_params(n_iter=0), binary_data())
    assert_same_state(parts_of(estimator), before, **ROUNDING)


@pytest.mark.parametrize("Estimator", with_parameters("warm_start", "n_components"))
def test_warm_start_refuses_another_size(Estimator):
    estimator = learn(small(Estimator, warm_start=True), binary_data())
    before, size = copied_state(estimator), estimator.n_components
    for method in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=r"7.* hidden units"):
            learn(estimator.set_params(n_components=7), binary_data(), method)
        with pytest.raises(ValueError, match="9 features"):
            learn(estimator.set_params(n_components=size), binary_data(n_features=9), method)
    assert_same_state(estimator, before)


@warm
def test_warm_start_takes_other_hyper_parameters(Estimator):
    X = binary_data()
    estimator = learn(small(Estimator, warm_start=True), X)
    learn(estimator.set_params(batch_size=7, momentum=0.9, learning_rate=0.01), X)
    learn(estimator.set_params(momentum=0.0), X)
    assert estimator.n_iter_ == 9
    assert all(np.isfinite(part).all() for part in copied_state(estimator).values())


@streams
def test_partial_fit_goes_on_from_fit(Estimator):
    """A fit of two epochs and a fit of one that is gone on with: the same random stream.

    ``alpha="auto"`` would fall, as rows of ``partial_fit`` are new ones to it.
    """
    X, params = binary_data(), {"shuffle": False, "alpha": 1e-3}
    one = learn(small(Estimator, n_iter=2, **params), X)
    other = learn(small(Estimator, n_iter=1, **params), X)
    assert learn(other, X, "partial_fit") is other
    assert one.n_iter_ == other.n_iter_ == 2
    assert_same_state(parts_of(one), parts_of(other), **ROUNDING)


@streams
@pytest.mark.parametrize(
    "params", [{"learning_rate": -1.0}, {"batch_size": 0}, {"alpha": -1}, {"optimizer": "foo"}]
)
def test_partial_fit_checks_parameters_that_were_set_after_the_first_call(Estimator, params):
    estimator = learn(small(Estimator), binary_data(), "partial_fit")
    with pytest.raises(ValueError, match=next(iter(params))):
        learn(estimator.set_params(**params), binary_data(), "partial_fit")


@every
def test_parameters_are_not_those_of_an_earlier_fit(Estimator):
    """Training writes weights in place: what was handed out before must not move."""
    X = binary_data()
    estimator = learn(small(Estimator, warm_start=True), X)
    kept, before = state(estimator), copied_state(estimator)
    learn(estimator, X)
    if hasattr(estimator, "partial_fit"):
        learn(estimator, X, "partial_fit")
    for name, part in kept.items():
        assert_array_equal(part, before[name], err_msg=name)


@in_epochs
def test_verbose_prints_a_line_for_each_epoch(Estimator, capsys):
    learn(small(Estimator), binary_data())
    assert not capsys.readouterr().out
    estimator = learn(small(Estimator, verbose=1), binary_data())
    lines = [line for line in capsys.readouterr().out.splitlines() if Estimator.__name__ in line]
    assert len(lines) == 3
    for epoch, line in enumerate(lines, start=1):
        assert f"[{Estimator.__name__}] Iteration {epoch}, " in line
        shown = [name for name in estimator.history_ if f"{name} = " in line]
        assert shown or is_classifier(estimator)


@in_epochs
def test_history(Estimator):
    estimator = learn(small(Estimator, n_iter=4), binary_data())
    assert {len(values) for values in estimator.history_.values()} == {4}
    assert estimator.history_["epoch"] == [1, 2, 3, 4]
    rates = estimator.history_["learning_rate"]
    if estimator.learning_rate == "auto":
        assert min(rates) > 0 and len(set(rates)) > 1
    else:
        assert rates == [estimator.learning_rate] * 4
    assert all(seconds > 0 for seconds in estimator.history_["time"])
    learn(estimator, binary_data())
    assert len(estimator.history_["epoch"]) == 4  # a new fit, a new history


@pytest.mark.parametrize("Estimator", with_parameters("early_stopping", "n_iter"))
def test_columns_of_the_history_stay_in_step(Estimator):
    """Quantities that come and go between fits leave NaN, not gaps."""
    X = binary_data(n=40)
    estimator = learn(small(Estimator, n_iter=2, warm_start=True), X)
    names = set(estimator.history_)
    learn(estimator.set_params(early_stopping=True, tol=100), X)
    learn(estimator, X, "partial_fit")
    assert estimator.history_["epoch"] == [1, 2, 3, 4, 5]
    assert {len(column) for column in estimator.history_.values()} == {5}
    for name in set(estimator.history_) - names:
        missing = np.isnan(estimator.history_[name])
        assert_array_equal(missing, [True, True, False, False, True])
    assert set(estimator.history_) > names


@pytest.mark.parametrize("Estimator", with_parameters("early_stopping", "n_iter"))
def test_early_stopping_needs_rows_for_both_parts(Estimator):
    for fraction in (0.1, 0.9):
        params = {"early_stopping": True, "validation_fraction": fraction}
        with pytest.raises(ValueError, match=rf"validation_fraction={fraction} of 3 samples"):
            learn(small(Estimator, **params), binary_data(n=3))


@pytest.mark.parametrize("Estimator", with_parameters("early_stopping", "n_iter"))
def test_equal_rows_are_fitted_without_early_stopping(Estimator):
    X = np.tile(binary_data(n=1), (20, 1))
    y = [np.tile([[0, 1]], (20, 1))] if is_classifier(Estimator()) else []
    with pytest.warns(UserWarning, match="all rows are equal.* goes without early stopping"):
        stopped = small(Estimator, early_stopping=True).fit(X, *y)
    assert_same_state(stopped, small(Estimator).fit(X, *y))


@every
def test_blas_threads_are_given_back(Estimator):
    def threads():
        return [pool["num_threads"] for pool in threadpoolctl.threadpool_info()]

    before = threads()
    learn(small(Estimator), binary_data()).transform(binary_data())
    assert threads() == before


# ------------------------------------------------------------------- fits that are ended


FOLDER = os.path.dirname(skrbm.__file__)


def interrupted_after(n_calls, function, name=None):
    """Call a function and raise KeyboardInterrupt in the n-th call of one of skrbm's functions.

    It stands for Ctrl-C at any moment. Only calls of functions of a ``name`` count, if there is
    one. Where the call is that of a generator, the next one is taken: Python swallows exceptions of
    generators that it closes. Returns how many calls there were, and whether the interruption came
    out again.
    """
    seen = 0

    def count(frame, event, _):
        nonlocal seen
        if event == "call" and frame.f_code.co_filename.startswith(FOLDER):
            seen += name in (None, frame.f_code.co_name)
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


@pytest.mark.wide
@every
@pytest.mark.parametrize("moment", [0.25, 0.5, 0.75, 0.9])
def test_interruption_keeps_the_last_complete_epoch(Estimator, moment):
    X = binary_data()
    params = {"n_iter": 6} if Estimator in with_parameters("n_iter") else {}
    n_calls, _ = interrupted_after(0, lambda: learn(small(Estimator, **params), X))
    estimator = small(Estimator, **params)
    _, raised = interrupted_after(int(moment * n_calls), lambda: learn(estimator, X))
    assert raised
    if params:
        assert estimator.n_iter_ == len(estimator.history_.get("epoch", [])) < 6
        assert_same_state(estimator, learn(small(Estimator, n_iter=estimator.n_iter_), X))
    assert np.isfinite(estimator.transform(X)).all()
    if hasattr(estimator, "partial_fit"):
        n_iter = estimator.n_iter_
        assert learn(estimator, X, "partial_fit").n_iter_ == n_iter + 1


@pytest.mark.parametrize("n_calls", [1, 2, 3])
def test_interruption_before_an_epoch_is_recorded_takes_it_back(n_calls):
    X = binary_data()
    estimator = small(RBM, n_iter=3)
    _, raised = interrupted_after(n_calls, lambda: learn(estimator, X), "record")
    assert raised
    assert estimator.n_iter_ == len(estimator.history_.get("epoch", [])) == n_calls - 1
    assert_same_state(estimator, learn(small(RBM, n_iter=estimator.n_iter_), X))


@pytest.mark.parametrize("name", ["end", "publish", "_publish", "_attributes", "kept"])
@pytest.mark.parametrize("average", [False, True])
def test_interruption_while_parameters_are_published_loses_nothing(name, average):
    X = binary_data()
    whole = learn(small(RBM, average=average), X)
    n_calls, _ = interrupted_after(-1, lambda: learn(small(RBM, average=average), X), name)
    estimator = small(RBM, average=average)
    _, raised = interrupted_after(n_calls, lambda: learn(estimator, X), name)
    assert raised and n_calls > 0
    assert estimator.n_iter_ == whole.n_iter_
    assert_array_equal(estimator.components_, whole.components_)
    first, second = (learn(model, X, "partial_fit") for model in (whole, estimator))
    assert_array_equal(first.components_, second.components_)


@streams
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_interruption_of_a_fit_that_goes_on_keeps_the_last_one(Estimator, method, momentum):
    """In the first epoch of it."""
    X = binary_data()
    params = {"n_iter": 1, "momentum": momentum, "warm_start": True}
    first, estimator = (learn(small(Estimator, **params), X) for _ in range(2))
    n_calls, _ = interrupted_after(0, lambda: learn(first, X, method))
    before = parts_of(estimator)
    _, raised = interrupted_after(n_calls // 2, lambda: learn(estimator, X, method))
    assert raised and estimator.n_iter_ == 1
    assert_same_state(parts_of(estimator), before, **ROUNDING)
    assert learn(estimator, X, method).n_iter_ == 2


@every
def test_interruption_before_there_are_parameters(Estimator):
    """An estimator that was not fitted is not fitted then, and one that was is what it was."""
    X = binary_data()
    estimator = small(Estimator)
    interrupted_after(1, lambda: learn(estimator, X))
    with pytest.raises(NotFittedError):
        estimator.transform(X)
    before = copied_state(learn(estimator, X))
    interrupted_after(1, lambda: learn(estimator, X))
    assert_same_state(estimator, before)


class Recorder:
    """A callback that keeps copies of what is fitted, and ends the fit after some epochs."""

    def __init__(self, stop_after=None, error_after=None):
        self.stop_after, self.error_after, self.seen, self.n_setups = stop_after, error_after, [], 0

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
        if len(self.seen) == self.error_after:
            raise KeyboardInterrupt
        return len(self.seen) == self.stop_after


@every
def test_callback_stops_the_fit(Estimator):
    more = {"n_iter": 10} if Estimator in with_parameters("n_iter") else {"max_components": 10}
    recorder = Recorder(stop_after=2)
    estimator = learn(small(Estimator, **more).set_callbacks(recorder), binary_data())
    assert estimator.n_iter_ == len(recorder.seen) == 2 and recorder.n_setups == 1
    assert_same_state(parts_of(estimator), recorder.seen[-1], rtol=1e-6)
    first, last = (seen["components_0"] for seen in recorder.seen)
    assert first.shape != last.shape or not np.array_equal(first, last)


@in_epochs
def test_interruption_by_a_callback(Estimator):
    recorder = Recorder(error_after=2)
    estimator = small(Estimator, n_iter=10).set_callbacks(recorder)
    with pytest.raises(KeyboardInterrupt):
        learn(estimator, binary_data())
    assert estimator.n_iter_ == 2
    assert_same_state(parts_of(estimator), recorder.seen[-1])
    learn(estimator.set_callbacks(), binary_data(), "partial_fit")


@in_epochs
def test_callbacks_in_a_pipeline(Estimator):
    recorder = Recorder()
    pipeline = make_pipeline(FunctionTransformer(), small(Estimator).set_callbacks(recorder))
    learn(pipeline, binary_data())
    assert len(recorder.seen) == 3


@every
def test_progress_bar(Estimator, capsys):
    pytest.importorskip("rich")
    ProgressBar = pytest.importorskip("sklearn.callback").ProgressBar

    expected = learn(small(Estimator), binary_data())
    estimator = learn(small(Estimator).set_callbacks(ProgressBar()), binary_data())
    assert_same_state(estimator, expected)
    assert Estimator.__name__ in capsys.readouterr().out


@in_epochs
def test_scoring_monitor(Estimator):
    ScoringMonitor = pytest.importorskip("sklearn.callback").ScoringMonitor

    def scorer(estimator, X, y):
        return estimator.score(X, y)

    X, recorder, monitor = binary_data(), Recorder(), ScoringMonitor(scoring={"score": scorer})
    estimator = learn(small(Estimator).set_callbacks(recorder, monitor), X)
    scores = [row["score"] for row in monitor.get_logs().data if row["task_name"] == "epoch"]
    assert len(scores) == len(recorder.seen) == 3
    y = targets(len(X)) if is_classifier(estimator) else None
    for n_iter, score in enumerate(scores, start=1):
        expected = learn(small(Estimator, n_iter=n_iter), X).score(X, y)
        assert score == pytest.approx(expected, rel=1e-6)
    assert is_classifier(estimator) or len(set(scores)) == 3


# ------------------------------------------------------------------- fits that go wrong


@pytest.mark.parametrize("Estimator", with_parameters("schedule", "n_iter"))
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("dtype, rate", [(np.float32, 1e38), (np.float64, 1e308)])
def test_divergence(Estimator, dtype, rate, momentum, recwarn):
    """Steps that overflow from the third epoch on."""
    X = binary_data(dtype=dtype)

    def schedule(progress):
        return rate if progress >= 0.2 else 0.1

    wanted = r"(?s)(batch \d+ of|too large for inference in) epoch 3\D.*learning_rate"
    expected = learn(small(Estimator, learning_rate=0.1, momentum=momentum, n_iter=2), X)
    params = {"learning_rate": 1.0, "momentum": momentum, "n_iter": 10}
    estimator = small(Estimator, **params, schedule=schedule)
    with pytest.raises(DivergenceError, match=wanted) as info:
        learn(estimator, X)
    assert not recwarn.list  # the error says it all
    assert isinstance(info.value, ArithmeticError)
    assert_same_state(estimator, expected)
    assert estimator.n_iter_ == 2
    assert np.isfinite(estimator.transform(X)).all()
    learn(estimator.set_params(schedule="constant", learning_rate=0.1), X, "partial_fit")
    assert all(np.isfinite(part).all() for part in copied_state(estimator).values())


@streams
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_divergence_of_partial_fit(Estimator, momentum):
    X = binary_data(dtype=np.float32)
    estimator = learn(small(Estimator, momentum=momentum), X)
    before, rate = parts_of(estimator), estimator.learning_rate
    with pytest.raises(DivergenceError):
        learn(estimator.set_params(learning_rate=1e38), np.tile(X, (20, 1)), "partial_fit")
    assert_same_state(parts_of(estimator), before, **ROUNDING)
    learn(estimator.set_params(learning_rate=rate), X, "partial_fit")
    assert all(np.isfinite(part).all() for part in copied_state(estimator).values())


@streams
def test_large_parameters_are_no_warnings(Estimator, recwarn):
    """Finite but enormous: what is measured along the way may overflow, silently or as an error."""
    estimator = small(Estimator, learning_rate=1e30, n_iter=2)
    try:
        learn(estimator, binary_data(dtype=np.float32))
    except DivergenceError:
        pass
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]
    assert all(np.isfinite(part).all() for part in copied_state(estimator).values())


CANNOT_BEGIN = [
    *((E, {"verbose": -1}, "'verbose' parameter") for E in ESTIMATORS),
    *((E, {"init": 3}, "init") for E in with_parameters("init")),
    *(
        (E, {"optimizer": wrong}, "'optimizer' parameter")
        for wrong in ("foo", None, Adam)  # a class is no object
        for E in with_parameters("optimizer")
    ),
    *(
        (E, {"early_stopping": True, "validation_fraction": 1e-9}, "validation_fraction")
        for E in with_parameters("early_stopping", "n_iter")
    ),
]


@pytest.mark.parametrize("Estimator, params, message", CANNOT_BEGIN)
def test_a_fit_that_cannot_begin_leaves_the_last_one(Estimator, params, message):
    """Though it would have had other features."""
    X = binary_data()
    estimator = learn(small(Estimator), X)
    before, old, hidden = copied_state(estimator), estimator.get_params(), estimator.transform(X)
    history = getattr(estimator, "history_", None)
    with pytest.raises(ValueError, match=message):
        learn(estimator.set_params(**params), X[:, :4])
    estimator.set_params(**old)
    assert estimator.n_features_in_ == X.shape[1]
    assert getattr(estimator, "history_", None) is history
    assert_same_state(estimator, before)
    assert_array_equal(estimator.transform(X), hidden)
