"""Which epoch the loop publishes: with a learner and a monitor that are made up here."""

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
    """Adds 1 to the parameter in each epoch."""

    def epoch(self, training, progress, rate):
        training.machine.value += 1
        training.phase_state = f"state {training.machine.value:.0f}"
        training.optimizer_state = "velocity"
        return {}


class Scripted(Monitor):
    """Measures given values, which are to rise."""

    def __init__(self, values):
        super().__init__(patience=2)
        self.values, self.seen, self.n_concluded = iter(values), [], 0

    def measure(self, machine, state):
        self.value = next(self.values)
        self.seen.append((float(machine.value), state))
        return {"score": self.value}

    def conclude(self, machine, state):
        assert machine.value == self.seen[-1][0] or self.kept is not None
        self.n_concluded += 1


def run(monitor):
    """The training and what is published after at most four epochs."""
    training, published = Training(None, Machine(np.zeros(())), "state 0", "at rest"), []
    Trainer(
        Adding(),
        lambda machine, state: published.append((float(machine.value), state)),
        lambda machine, state: {},
        recorder({}, None),
        n_iter=4,
        rate=lambda progress: 0.1,
        monitor=monitor,
    ).run(training)
    return training, published


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
    monitor = Scripted(values)
    training, published = run(monitor)
    assert published == [(best, f"state {best}")]
    assert training.n_epochs == n_epochs
    assert monitor.seen == [(k, f"state {k}") for k in range(1, n_epochs + 1)]
    assert monitor.n_concluded == 1
    assert (training.optimizer_state is None) == (best < n_epochs)


def test_the_best_epoch_may_be_published_at_the_end_too():
    monitor = Scripted([5, 1, 6, 2])
    monitor.keeps_best = True
    assert run(monitor)[1] == [(3.0, "state 3")]
