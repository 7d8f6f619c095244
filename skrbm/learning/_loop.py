"""The loop over epochs: callbacks, the history, and what is kept when it ends."""

import copy
import time
import warnings
from dataclasses import dataclass, field, replace
from math import isfinite, isnan
from statistics import fmean
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._ranks import ranks
from ..exceptions import DivergenceError
from ._together import row_of_ranks
from ._training import Progress


class Monitor:
    """Measures a model after each epoch, and decides when to stop; this base class does neither.

    Attributes
    ----------
    value : float or None
        Quantity to maximize, or None if it is not measured. It counts as an improvement if value >=
        best + margin - noise.
    margin : float
    noise : float
        Standard error of the difference between ``value`` and the best one.
    n_bad : int
        Number of epochs since the last improvement.
    n_rows : float
        Number of rows from which this rank measures quantities.
    kept : tuple or None
        Machine and state of the last epoch that was an improvement, or as good as the best.
    """

    margin = noise = 0.0
    n_rows = 1.0

    def __init__(self, patience=1):
        self.patience = patience
        self.best, self.n_bad, self.value, self.kept = float("-inf"), 0, None, None
        self.scores = self.best_scores = None  # of single rows, now and when their mean was best

    def get_state(self):
        """Return the state of the monitor after the epochs so far, as a dict."""
        return {name: getattr(self, name) for name in ("best", "n_bad", "kept", "best_scores")}

    def set_state(self, state):
        """Restore a state."""
        vars(self).update(state)

    def measure(self, machine, state):
        """Return numbers for the history, a dict of floats."""
        return {}

    def score(self, scores, weights):
        """Set the value to the weighted mean of scores of the validation rows.

        Its noise is the standard error of the difference from the best epoch, by the differences of
        single rows: these vary less than the scores if rows differ much from each other.
        """
        self.value, self.noise = float(np.average(scores, weights=weights)), 0.0
        self.scores = scores
        if self.best_scores is not None:
            variance = np.cov(scores - self.best_scores, aweights=weights, ddof=0)
            self.noise = float(np.sqrt(variance / weights.sum()))

    def agreed(self, machine, row):
        """Return the row of the history on which all ranks agree, and adopt their value."""
        if ranks().size == 1:
            return row
        numbers = self.value, self.noise
        row, (self.value, self.noise) = row_of_ranks(machine, row, numbers, self.n_rows)
        return row

    def stop(self):
        """Whether the monitored value has not improved for ``patience`` epochs."""
        self.n_bad += 1
        if self.value is None or isnan(self.value):
            return False
        if self.value >= self.best + self.margin - self.noise:
            if self.value > self.best:  # on all ranks, whatever the mean of the rows of one
                self.best, self.best_scores = self.value, self.scores
            self.n_bad = 0
        return self.n_bad >= self.patience

    def keep(self, machine, state):
        """Remember the parameters of an epoch that was an improvement, or as good as the best."""
        if self.value is not None and (self.n_bad == 0 or self.value >= self.best - self.noise):
            self.kept = machine, state

    def chosen(self, last, ended):
        """Return which parameters are published: the last, or those that were remembered.

        ``last`` are the machine and the state of the last complete epoch, and ``ended`` is the
        reason why training has ended, as in :class:`Trainer`, or None if it has not.
        """
        is_complete = ended in ("stopped", "n_iter")
        return self.kept if is_complete and self.kept is not None else last

    def conclude(self, machine, state):
        """Check a machine at the end of a fit, and warn if something is wrong.

        Returns a dict of floats: numbers of the last epoch that are measured only at the end.
        """
        return {}


class NoTask:
    """Placeholder for a task of scikit-learn's callbacks."""

    def subcontext(self, **kwargs):
        """Return the task of an epoch: itself."""
        return self

    def call_on_fit_task_begin(self, **kwargs):
        """Do nothing."""

    def call_on_fit_task_end(self, **kwargs):
        """Return whether a callback asks to stop; none does."""
        return False


_IN_NATS = ("log_likelihood", "tap_log_likelihood", "score")
_PRINTED = 40  # rows per fit
_NOT_PRINTED = ("epoch", "time", "learning_rate", "log_likelihood_std")


def recorder(history, verbose=None):
    """Return a function that adds rows to a history, a dict of lists, and prints them.

    With ``adds=False`` the function changes the last row. Quantities that were not measured are
    NaN. ``left`` is the number of remaining epochs, or None if it is unknown. ``verbose`` is the
    name under which it prints about 40 rows of a fit, with the latest measurements, and all notes;
    with None nothing is printed.
    """
    seconds, last = [], {}

    def record(row, adds=True, left=None, note=None):
        if verbose and note:
            print(f"[{verbose}] {note}", flush=True)
            return
        if verbose:  # before the row is added, so that an interruption leaves all of it or none
            seconds.extend([row["time"]] if adds else [])
            last.update({k: v for k, v in row.items() if k not in _NOT_PRINTED and isfinite(v)})
            is_printed = not left or len(seconds) % (-(-(len(seconds) + left) // _PRINTED)) == 0
            if is_printed or len(seconds) == 1:
                epoch = row["epoch"] if adds else history["epoch"][-1]
                print(f"[{verbose}] {_line(epoch, last, left, fmean(seconds))}", flush=True)
        n_rows = len(next(iter(history.values()), ()))
        for name in [*(history | row)]:  # in the order in which they were first recorded
            column = history.setdefault(name, [float("nan")] * n_rows)
            if adds:
                column.append(row.get(name, float("nan")))
            elif name in row:
                column[-1] = row[name]

    return record


def _line(epoch, measured, left, seconds):
    """Return the line printed for an epoch: its number, the measurements and the time left."""
    number = f"epoch {epoch}" if left is None else f"epoch {epoch} of {epoch + left}"
    parts = [
        f"{name.replace('_', ' ')} {value:.4g}{' nats' * (name in _IN_NATS)}"
        for name, value in measured.items()
    ]
    if left:
        parts.append(f"{left * seconds:.0f} s left")
    return f"{number}: {', '.join(parts)}" if parts else number


@dataclass
class Trainer:
    """Runs the epochs of a fit.

    However the epochs end, the parameters of the last complete epoch are published; if an error or
    an interruption ends the first epoch, nothing is published.

    Parameters
    ----------
    learner : object
        ``epoch(training, progress, rate)`` changes the machine of a :class:`Training` and returns
        numbers for the history.
    publish : callable
        Called once at the end, as ``publish(machine, state)``, with the machine and the state of
        the last complete epoch, or those that the monitor chooses. With ``own`` it also accepts a
        training that has ended and a copy of the estimator, which is then fitted as if the fit had
        ended there.
    attributes : callable
        ``attributes(machine, state)`` returns the fitted attributes that a callback may ask for.
    record : callable
        ``record(row, left=n)`` records the numbers of an epoch, a dict, with n epochs left;
        ``record(row, adds=False)`` adds numbers to the last epoch, or prints a ``note``.
    n_iter : int or None, default=1
        Number of epochs; with None, training runs until the monitor stops it.
    rate : callable, default=None
        Learning rate as a function of the fraction of epochs completed; None for no rate.
    monitor : Monitor, default=None
    context : object, default=None
        scikit-learn's callback context of the fit.
    data : dict, default=None
        Arguments of the callbacks: ``estimator``, ``X`` and ``y``.
    task : str, default="epoch"
        Name of an epoch for callbacks.
    own : callable, default=None
        Returns what the estimator adds to a :class:`Progress`, a dict. The attributes for callbacks
        then include ``_checkpoint``, a function that returns a fitted estimator and the progress.
    progress : Progress, default=None
        Progress of an interrupted fit; None starts a new fit.

    Attributes
    ----------
    ended : str
        Why training ended: "interrupted", "callback", "stopped", "n_iter", or, with an automatic
        step length, "diverged".
    """

    learner: Any
    publish: Any
    attributes: Any
    record: Any
    n_iter: int | None = 1
    rate: Any = None
    monitor: Monitor = field(default_factory=Monitor)
    context: Any = field(default_factory=NoTask)
    data: dict = field(default_factory=dict)
    task: str = "epoch"
    own: Any = None
    progress: Progress | None = None
    ended: str = "interrupted"

    def run(self, training):
        """Train the machine of a :class:`Training`."""
        epoch = best = 0
        if self.progress is not None:
            training.rng, epoch = self.progress.training.rng, self.progress.n_epochs
            self.monitor.set_state(self.progress.monitor)
        with ranks().interruptible():
            kept, n_before = (training.published(), training.phase_state), training.n_epochs
            training.machine = training.machine.copy()  # which is written in place
            shown = self._shown(kept, training, epoch)
            self.context.call_on_fit_task_begin(**self.data, reconstruction_attributes=shown)
            try:
                while self._is_before_end(epoch):
                    task = self.context.subcontext(task_name=self.task)
                    task.call_on_fit_task_begin(**self.data)
                    try:
                        row, found = self._epoch(training, epoch)
                    except DivergenceError as error:
                        if self.learner.length is None:
                            raise
                        warnings.warn(str(error), ConvergenceWarning, stacklevel=8)
                        self.ended = "diverged"
                        break
                    epoch += 1
                    left = None if self.n_iter is None else self.n_iter - epoch
                    self.record({"epoch": training.n_epochs + 1, **row}, left=left)
                    kept = found
                    training.n_epochs += 1  # only now: an interruption until here undoes the epoch
                    stop = self.monitor.stop()
                    self.monitor.keep(*kept)
                    if self.monitor.kept is not None and self.monitor.kept[0] is kept[0]:
                        best = training.n_epochs
                    shown = self._shown(kept, training, epoch, stop)
                    ends = task.call_on_fit_task_end(**self.data, reconstruction_attributes=shown)
                    if ranks().any(ends):
                        self.ended = "callback"
                        break
                    if stop:
                        self.ended = "stopped"
                        break
                else:
                    self.ended = "n_iter"
                chosen = self.monitor.chosen(kept, self.ended)
                if chosen[0] is not kept[0] or self.ended == "diverged":
                    training.reset_optimizer()
            except BaseException:
                learned = training.n_epochs > n_before
                chosen = self.monitor.chosen(kept, self.ended) if learned else None
                training.reset_optimizer()
                raise
            finally:
                try:
                    self._end(training, chosen)
                except KeyboardInterrupt:  # nothing is lost if it comes here
                    self._end(training, chosen)
                    raise
        if self.ended in ("stopped", "callback"):
            note = f"stopped by a callback after epoch {training.n_epochs}"
            if self.ended == "stopped":
                published = training.n_epochs if chosen[0] is kept[0] else best
                note = (
                    f"stopped early after epoch {training.n_epochs}, since validation rows showed "
                    f"no improvement; the parameters are those of epoch {published}"
                )
            self.record({}, adds=False, note=note)
        late = self.monitor.conclude(*chosen)
        if late:
            self.record(late, adds=False)
        shown = {}
        if self.own is not None:
            shown["_checkpoint"] = lambda: (self.data["estimator"], Progress(own=self.own()))
        self.context.call_on_fit_task_end(**self.data, reconstruction_attributes=lambda: shown)

    def _is_before_end(self, epoch):
        return self.n_iter is None or epoch < self.n_iter

    def _epoch(self, training, epoch):
        """Train for an epoch; returns its numbers, and the machine and the state after it."""
        progress = 0.0 if self.n_iter is None else epoch / self.n_iter
        rate = None if self.rate is None else self.rate(progress)
        clock = time.perf_counter()
        report = self.learner.epoch(training, progress, rate)
        row = {} if rate is None else {"learning_rate": rate}
        row |= {"time": time.perf_counter() - clock, **report}
        found = training.published(), training.phase_state
        with np.errstate(over="ignore", invalid="ignore"):  # of large parameters
            row |= self.monitor.measure(*found)
        return self.monitor.agreed(found[0], row), found

    def _end(self, training, chosen):
        """Publish the chosen parameters, if any; may be called twice."""
        training.end()
        if chosen is not None:
            self.publish(*chosen)

    def _shown(self, kept, training, n_epochs, stop=False):
        """Return a function that returns the fitted attributes, for callbacks.

        Before the end of the fit these include a checkpoint: a copy of the estimator, fitted as if
        the fit had ended here, and the progress.
        """

        def checkpoint():
            chosen, ended = self.monitor.chosen(kept, None), replace(training)
            if chosen[0] is not kept[0]:
                ended.reset_optimizer()
            ended.end()
            estimator = copy.copy(self.data["estimator"])
            self.publish(*chosen, ended, estimator)
            return estimator, Progress(training, n_epochs, self.monitor.get_state(), self.own())

        def attributes():
            found = self.attributes(*self.monitor.chosen(kept, None))
            if self.own is not None and not stop and self._is_before_end(n_epochs):
                found["_checkpoint"] = checkpoint
            return found

        return attributes
