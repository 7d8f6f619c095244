"""The loop over epochs alone: with a learner, a monitor and callbacks that are made up here."""

from dataclasses import dataclass

import numpy as np
import pytest

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
