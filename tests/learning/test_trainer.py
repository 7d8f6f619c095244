"""The loop over epochs alone: with a learner, a monitor and callbacks that are made up here."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skrbm.learning import Monitor, Trainer, Training, recorder


@dataclass
class Machine:
    """One parameter, which learning writes in place."""

    value: np.ndarray

    def copy(self):
        return Machine(self.value.copy())


class Adding:
    """Adds 1 to the parameter in each epoch, and fails in the middle of a given one."""

    def __init__(self, fails_in=None, error=None):
        self.fails_in, self.error, self.seen = fails_in, error, []

    def epoch(self, training, progress, rate):
        self.seen.append((progress, rate))
        training.machine.value += 1
        training.phase_state = f"state {len(self.seen)}"
        training.optimizer_state = "velocity"
        if len(self.seen) == self.fails_in:
            raise self.error
        return {"reported": float(len(self.seen))}


class Scripted(Monitor):
    """Measures given values, which are to rise."""

    def __init__(self, values, patience=2, name="score"):
        super().__init__(patience)
        self.values, self.name, self.seen, self.n_concluded = iter(values), name, [], 0

    def measure(self, machine, state):
        self.value = next(self.values)
        self.seen.append((float(machine.value), state))
        return {self.name: self.value}

    def conclude(self, machine, state):
        assert machine.value == self.seen[-1][0] or self.kept is not None
        self.n_concluded += 1


class Task:
    """A callback's view of a fit: its calls in order; it may stop or fail."""

    def __init__(self, log=None, stop_after=None, error_after=None, name="fit"):
        self.log = [] if log is None else log
        self.stop_after, self.error_after, self.name = stop_after, error_after, name

    def subcontext(self, task_name):
        return Task(self.log, self.stop_after, self.error_after, task_name)

    def call_on_fit_task_begin(self, reconstruction_attributes=None, **data):
        self.log.append(("begin", self.name, data))

    def call_on_fit_task_end(self, reconstruction_attributes, **data):
        self.log.append(("end", self.name, reconstruction_attributes()))
        n = sum(entry[:2] == ("end", "epoch") for entry in self.log)
        if self.name == "epoch" and n == self.error_after:
            raise KeyboardInterrupt
        return self.name == "epoch" and n == self.stop_after


def trainer(learner, published, **options):
    options = {"n_iter": 4, "rate": lambda progress: 0.1 * (1 - progress), **options}
    return Trainer(
        learner,
        lambda machine, state: published.append((float(machine.value), state)),
        lambda machine, state: {"value_": float(machine.value), "state_": state},
        recorder(options.pop("history", {}), options.pop("verbose", None)),
        **options,
    )


def start():
    return Training(None, Machine(np.zeros(())), "state 0", "at rest")


def test_epochs_go_by_progress_and_rate():
    learner, published, training, history = Adding(), [], start(), {}
    first = training.machine
    trainer(learner, published, history=history).run(training)
    assert learner.seen == [(k / 4, pytest.approx(0.1 * (1 - k / 4))) for k in range(4)]
    assert published == [(4.0, "state 4")]
    assert training.machine is None and training.n_epochs == 4
    assert training.optimizer_state == "velocity"
    assert first.value == 0  # the machine that was given is not written
    assert list(history) == ["epoch", "learning_rate", "time", "reported"]
    assert history["epoch"] == [1, 2, 3, 4] and history["reported"] == [1, 2, 3, 4]
    assert min(history["time"]) >= 0


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ArithmeticError("diverged")])
@pytest.mark.parametrize("fails_in", [1, 3])
def test_an_error_leaves_the_last_complete_epoch(error, fails_in):
    """Which was not written to, though the one that failed had begun to; without any, nothing."""
    monitor, published, training, history = Scripted(range(9)), [], start(), {}
    with pytest.raises(type(error)):
        trainer(Adding(fails_in, error), published, history=history, monitor=monitor).run(training)
    assert published == [(fails_in - 1.0, f"state {fails_in - 1}")] * (fails_in > 1)
    assert training.n_epochs == len(history.get("epoch", [])) == fails_in - 1
    assert training.machine is None
    assert training.optimizer_state is None  # it belongs to parameters that are given up
    assert monitor.n_concluded == 0


@pytest.mark.parametrize(
    "values, n_epochs, best",
    [
        ([1, 2, 3, 4], 4, 4),
        ([5, 1, 2, 9], 3, 1),  # two bad epochs
        ([5, 1, 6, 2], 4, 4),  # the last is published when training comes to its end
        ([1, 5, float("nan"), 4], 4, 4),  # NaN is not bad
        ([float("nan")] * 4, 4, 4),
    ],
)
def test_early_stopping(values, n_epochs, best):
    published, monitor, training = [], Scripted(values), start()
    trainer(Adding(), published, monitor=monitor).run(training)
    assert published == [(best, f"state {best}")]
    assert training.n_epochs == n_epochs
    assert monitor.seen == [(k, f"state {k}") for k in range(1, n_epochs + 1)]
    assert monitor.n_concluded == 1
    assert (training.optimizer_state is None) == (best < n_epochs)


def test_the_best_epoch_may_be_published_at_the_end_too():
    monitor, published = Scripted([5, 1, 6, 2]), []
    monitor.keeps_best = True
    trainer(Adding(), published, monitor=monitor).run(start())
    assert published == [(3.0, "state 3")]


def test_callbacks_are_called_in_order():
    context, data = Task(), {"estimator": "me", "X": "rows", "y": "rows"}
    trainer(Adding(), [], n_iter=2, context=context, data=data).run(start())
    attributes = [{"value_": float(k), "state_": f"state {k}"} for k in (1, 2)]
    assert context.log == [
        ("begin", "fit", data),
        ("begin", "epoch", data),
        ("end", "epoch", attributes[0]),
        ("begin", "epoch", data),
        ("end", "epoch", attributes[1]),
        ("end", "fit", {}),
    ]


def test_history_has_nan_where_a_quantity_was_not_measured():
    published, training, history = [], start(), {}
    trainer(Adding(), published, n_iter=2, history=history).run(training)
    for name in ("score", "gap"):
        training.machine = Machine(np.zeros(()))
        monitor = Scripted([7.0], name=name)
        trainer(Adding(), published, n_iter=1, history=history, monitor=monitor).run(training)
    nan = float("nan")
    assert history["epoch"] == [1, 2, 3, 4]
    assert_array_equal(history["score"], [nan, nan, 7, nan])
    assert_array_equal(history["gap"], [nan, nan, nan, 7])
    assert list(history)[-2:] == ["score", "gap"]


@pytest.mark.parametrize("n", [1, 7, 100, 1001])
def test_a_fit_prints_some_of_its_rows(n, capsys):
    record = recorder({}, "fit")
    for epoch in range(1, n + 1):
        record({"epoch": epoch, "time": 0.0, "error": epoch / 8}, left=n - epoch)
    lines = capsys.readouterr().out.splitlines()
    assert min(n, 20) <= len(lines) <= 42
    assert lines[-1] == f"[fit] epoch {n} of {n}: error {n / 8:.4g}"


def test_a_fit_that_stops_early_says_which_parameters_it_has(capsys):
    """The second of four values is the best, and two bad ones end the fit."""
    published, monitor = [], Scripted([1.0, 2.0, 1.5, 1.5, 9.0])
    trainer(Adding(), published, n_iter=5, verbose="fit", monitor=monitor).run(start())
    last = capsys.readouterr().out.splitlines()[-1]
    assert "after epoch 4" in last and last.endswith(f"epoch {published[0][0]:.0f}")
    trainer(Adding(), published, verbose="fit", context=Task(stop_after=3)).run(start())
    assert "callback after epoch 3" in capsys.readouterr().out.splitlines()[-1]
