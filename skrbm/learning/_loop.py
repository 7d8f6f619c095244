"""The loop over epochs: callbacks, the history, and what is kept when it ends."""

import time
from dataclasses import dataclass, field
from typing import Any


class Monitor:
    """What is measured after each epoch, and when to stop: never, unless a subclass measures.

    Attributes
    ----------
    value : float or None
        Quantity to maximise, None without validation rows. An epoch is bad if value < best +
        margin.
    margin : float
    keeps_best : bool
        Whether the best parameters are also kept when training ends at the last epoch.
    kept : tuple or None
        Machine and state of the last epoch that was not bad.
    """

    margin = 0.0
    keeps_best = False

    def __init__(self, n_iter_no_change=1):
        self.n_iter_no_change = n_iter_no_change
        self.best, self.n_bad, self.value, self.kept = float("-inf"), 0, None, None

    def measure(self, machine, state):
        """Return numbers for the history, a dict of floats."""
        return {}

    def stop(self):
        """Whether the monitored value has been bad for ``n_iter_no_change`` epochs."""
        if self.value is None:
            return False
        bad = self.value < self.best + self.margin
        self.n_bad = self.n_bad + 1 if bad else 0
        self.best = max(self.best, self.value)
        return self.n_bad >= self.n_iter_no_change

    def keep(self, machine, state):
        """Remember the parameters of the last epoch that was not bad."""
        if self.value is not None and self.n_bad == 0:
            self.kept = machine, state

    def conclude(self):
        """Warn of what the course of a fit, which has come to its end, tells of it."""


class NoTask:
    """Stands for a task of scikit-learn's callbacks where there are none."""

    def subcontext(self, **kwargs):
        return self

    def call_on_fit_task_begin(self, **kwargs):
        return None

    def call_on_fit_task_end(self, **kwargs):
        return False


def record(history, row, verbose=None):
    """Add a row to a history, a dict of lists; NaN stands where a quantity was not measured.

    ``verbose`` is the name under which the row is printed, None for no print.
    """
    n_rows = len(next(iter(history.values()), ()))
    for name in [*(history | row)]:  # in the order in which they were first recorded
        history.setdefault(name, [float("nan")] * n_rows).append(row.get(name, float("nan")))
    if verbose:
        values = ", ".join(f"{name} = {row[name]:.4g}" for name in list(row)[1:])
        print(f"[{verbose}] Iteration {row['epoch']}, {values}")


@dataclass
class Trainer:
    """Runs epochs. Whatever ends them, the last good parameters are published.

    Parameters
    ----------
    learner : object
        ``epoch(training, progress, rate)`` changes the machine of a :class:`Training` and returns
        numbers for the history.
    publish : callable
        Called once at the end, as ``publish(machine, state)``, with those of the last complete
        epoch, or the best.
    attributes : callable
        ``attributes(machine, state)`` returns the fitted attributes that a callback may ask for.
    history : dict of list
        To which a row is added for each epoch.
    n_iter : int, default=1
        Number of epochs.
    rate : callable, default=None
        Learning rate by the fraction of the epochs that has passed.
    monitor : Monitor, default=None
    context : object, default=None
        scikit-learn's callback context of the fit.
    data : dict, default=None
        What callbacks are given: ``estimator``, ``X`` and ``y``.
    verbose : str or None, default=None
        Name under which epochs are printed; None for no print.
    """

    learner: Any
    publish: Any
    attributes: Any
    history: dict
    n_iter: int = 1
    rate: Any = None
    monitor: Monitor = field(default_factory=Monitor)
    context: Any = field(default_factory=NoTask)
    data: dict = field(default_factory=dict)
    verbose: str | None = None

    def run(self, training):
        """Train the machine of a :class:`Training`."""
        kept = training.machine, training.phase_state
        training.machine = training.machine.copy()  # which is written in place
        self._begin(self.context, kept)
        try:
            for epoch in range(self.n_iter):
                task = self.context.subcontext(task_name="epoch")
                task.call_on_fit_task_begin(**self.data)
                row = self._epoch(training, epoch / self.n_iter)
                kept = training.machine.copy(), training.phase_state
                training.n_epochs += 1
                record(self.history, {"epoch": training.n_epochs, **row}, self.verbose)
                if self._end(task, kept):
                    break
                stop = self.monitor.stop()
                self.monitor.keep(*kept)
                if stop or (epoch + 1 == self.n_iter and self.monitor.keeps_best):
                    kept = self._chosen(kept, training)
                if stop:
                    break
        except BaseException:
            training.optimizer_state = None  # it may belong to parameters that are given up
            raise
        finally:
            training.machine = None
            self.publish(*kept)
        self.monitor.conclude()
        self.context.call_on_fit_task_end(**self.data, reconstruction_attributes=dict)

    def _epoch(self, training, progress):
        """Run one epoch; returns its row of the history."""
        begin, rate = time.perf_counter(), self.rate(progress)
        report = self.learner.epoch(training, progress, rate)
        row = {"learning_rate": rate, "time": time.perf_counter() - begin, **report}
        return row | self.monitor.measure(training.machine, training.phase_state)

    def _begin(self, task, kept):
        task.call_on_fit_task_begin(
            **self.data, reconstruction_attributes=lambda: self.attributes(*kept)
        )

    def _end(self, task, kept):
        return task.call_on_fit_task_end(
            **self.data, reconstruction_attributes=lambda: self.attributes(*kept)
        )

    def _chosen(self, last, training):
        """Return the parameters to publish after the last epoch."""
        kept = self.monitor.kept
        if kept is None or kept[0] is last[0]:
            return last
        training.optimizer_state = None  # it belongs to the parameters that are given up
        return kept
