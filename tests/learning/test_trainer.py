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
        return {} if self.value is None else {"score": self.value}

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
        ([5, 1, 6, 2], 4, 3),  # the best is published also when training comes to its end
        ([5, None, 4, 9], 3, 1),  # epochs count where nothing is measured, but do not stop,
        ([5, 4, None, 9], 4, 4),
        ([1, 5, float("nan"), 4], 4, 2),  # and so does NaN
        ([float("nan")] * 4, 4, 4),
    ],
)
@pytest.mark.parametrize("noise", [0.0, 0.25])
def test_early_stopping(values, n_epochs, best, noise):
    monitor = Scripted(values)
    monitor.noise = noise
    training, published = run(monitor)
    assert published == [(best, f"state {best}")]
    assert training.n_epochs == n_epochs
    assert monitor.seen == [(k, f"state {k}") for k in range(1, n_epochs + 1)]
    assert monitor.n_concluded == 1
    assert (training.optimizer_state is None) == (best < n_epochs)


def test_scores_are_compared_in_pairs_of_rows():
    """The noise is the standard error of the mean change since the best epoch."""
    generator = np.random.default_rng(0)
    first, counts = 10 * generator.normal(size=20), np.arange(20) % 3
    monitor, repeated = Monitor(), Monitor()
    for change in (np.zeros(20), 0.1 * generator.normal(size=20) - 0.3, np.zeros(20)):
        monitor.score(first + change, counts)
        repeated.score(np.repeat(first + change, counts), np.ones(counts.sum()))
        changes = np.repeat(change, counts)
        assert monitor.value == pytest.approx(repeated.value)
        expected = changes.std() / np.sqrt(len(changes))
        assert monitor.noise == pytest.approx(expected) == repeated.noise
        monitor.stop(), repeated.stop()


@pytest.mark.parametrize("margin, of_ranks", [(0.5, None), (0.0, -1.0)])
def test_scores_are_compared_with_those_of_the_best_epoch(margin, of_ranks):
    """And not with better ones that were no improvement, of a margin or on all ranks."""
    first, second, third = 0.1 * np.random.default_rng(0).normal(size=(3, 20))
    monitor, weights = Monitor(), np.ones(20)
    monitor.margin = margin
    for change in (0 * first, second + 0.2, third + 0.2):
        monitor.score(first + change, weights)
        if of_ranks is not None and change.any():
            assert monitor.value > monitor.best
            monitor.value = of_ranks
        is_best = not monitor.stop() or monitor.n_bad == 0
        assert is_best == (not change.any())
    assert monitor.noise == pytest.approx(third.std() / np.sqrt(20))


@pytest.mark.parametrize(
    "values, margin, noise, n_epochs, best",
    [
        ([5, 4.8, 4.9, 1], 0.0, 0.25, 4, 3),  # 4.75 is as good as 5, up to the standard error
        ([5, 5.4, 5.8, 6.2], 0.5, 0.0, 4, 4),  # small improvements add up,
        ([5, 5.1, 5.2, 9], 0.5, 0.0, 3, 3),  # and the best is kept also if they are too small
    ],
)
def test_what_counts_as_an_improvement(values, margin, noise, n_epochs, best):
    monitor = Scripted(values)
    monitor.margin, monitor.noise = margin, noise
    training, published = run(monitor)
    assert training.n_epochs == n_epochs
    assert published == [(best, f"state {best}")]
