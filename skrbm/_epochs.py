"""The loop over epochs and batches that all estimators share, and when it stops."""

import time
from dataclasses import dataclass, field
from functools import wraps
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions

from ._callbacks import CallbackSupportMixin
from ._optim import PENALTIES, SCHEDULES, SGD
from .arrays import to_numpy
from .exceptions import DivergenceError


@dataclass
class Progress:
    """What a fit needs to go on: random stream, state of its method, velocity, epochs done."""

    rng: Any
    state: Any = None
    velocity: Any = None
    n_epochs: int = 0
    report: dict = field(default_factory=dict)


def keeps_features(method):
    """Put back what a fit sets at its start if it ends before anything is published.

    These are the number and names of features, the history, what the targets are, and the seed of
    log Z.
    """

    @wraps(method)
    def wrapper(self, *args, **kwargs):
        names = (
            *("n_features_in_", "feature_names_in_", "history_"),
            *("_targets", "_evaluation_seed"),
        )
        before = {name: vars(self)[name] for name in names if name in vars(self)}
        training = vars(self).get("_training")
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            if training is not None and vars(self).get("_training") is training:
                for name in names:
                    vars(self).pop(name, None)
                vars(self).update(before)
            raise

    return wrapper


class TrainedInEpochs(CallbackSupportMixin, BaseEstimator):
    """Estimators that learn from batches of rows, epoch after epoch.

    A subclass gives ``_learn(machine, training, data, rows, rate)``, which returns the machine
    after one batch and numbers for the history, ``_monitor(data, train, validation, rng)``, a
    :class:`Monitor`, ``_callback_data(data)`` and ``_attributes(machine, state)``. ``data`` is
    whatever these understand, and ``training`` what a fit needs to go on, with ``rng``,
    ``state``, ``velocity``, ``n_epochs``, ``report`` and ``progress``.
    """

    _parameter_constraints: ClassVar[dict] = {
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "n_iter": [Interval(Integral, 0, None, closed="left")],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
        "momentum": [Interval(Real, 0, 1, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "penalty": [StrOptions(set(PENALTIES))],
        "schedule": [StrOptions(set(SCHEDULES)), callable],
        "shuffle": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "warm_start": ["boolean"],
    }

    def _is_trained(self):
        return hasattr(self, "_training")

    def _optimiser(self):
        return SGD(self.momentum, self.alpha, self.penalty)

    def _rate(self, progress):
        schedule = self.schedule if callable(self.schedule) else SCHEDULES[self.schedule]
        factor = schedule(progress)
        if not isinstance(factor, Real) or not factor >= 0:
            raise ValueError(
                f"schedule must return a factor >= 0 for the learning rate, got {factor!r} "
                f"at {progress:.3g} of n_iter"
            )
        return float(self.learning_rate) * float(factor)

    def _n_validation(self, n):
        """Return how many of ``n`` rows are set aside for early stopping."""
        if not self.early_stopping:
            return 0
        n_validation = round(self.validation_fraction * n)
        if not 0 < n_validation < n:
            raise ValueError(
                f"validation_fraction={self.validation_fraction} of {n} samples leaves no row for "
                "one of the two parts; give more samples or set early_stopping=False"
            )
        return n_validation

    def _split(self, n, n_validation, rng):
        """Return the rows to train on and those to validate on, as index arrays."""
        if not n_validation:
            return np.arange(n), None
        order = to_numpy(rng.permutation(n))
        return np.sort(order[n_validation:]), order[:n_validation]

    def _fit_epochs(self, machine, training, X, train, validation):
        """The loop over epochs; whatever ends it, the last complete epoch is published."""
        context = self._init_callback_context(max_subtasks=self.n_iter)
        data = {"estimator": self, **self._callback_data(X)}
        kept = machine.copy(), training.state
        context.call_on_fit_task_begin(
            **data, reconstruction_attributes=lambda kept=kept: self._attributes(*kept)
        )
        monitor = self._monitor(X, train, validation, training.rng)
        try:
            for epoch in range(self.n_iter):
                task = context.subcontext(task_name="epoch")
                task.call_on_fit_task_begin(**data)
                begin = time.perf_counter()
                training.progress = epoch / self.n_iter
                rate = self._rate(training.progress)
                machine = self._fit_epoch(machine, training, X, train, rate)
                seconds = time.perf_counter() - begin
                row = {"learning_rate": rate, "time": seconds, **training.report}
                row |= monitor.measure(machine, training.state)
                kept = machine.copy(), training.state
                training.n_epochs += 1
                self._record({"epoch": training.n_epochs, **row})
                if task.call_on_fit_task_end(
                    **data, reconstruction_attributes=lambda kept=kept: self._attributes(*kept)
                ):
                    break
                stop = monitor.stop()
                monitor.keep(*kept)
                if stop or (epoch + 1 == self.n_iter and monitor.keeps_best):
                    kept = self._chosen(kept, monitor.kept, training)
                if stop:
                    break
        except BaseException:
            training.velocity = None  # it may belong to parameters that are given up
            raise
        finally:
            self._publish(*kept, training)
        monitor.conclude()
        context.call_on_fit_task_end(**data, reconstruction_attributes=dict)

    def _chosen(self, last, kept, training):
        """Return the parameters to publish after the last epoch."""
        if kept is None or kept[0] is last[0]:
            return last
        training.velocity = None  # it belongs to the parameters that are given up
        return kept

    def _fit_epoch(self, machine, training, X, rows, rate):
        """Learn from the rows once; the machine is consumed."""
        if self.shuffle:
            rows = rows[to_numpy(training.rng.permutation(len(rows)))]
        # Batches of nearly one size: a last one of few rows would be a noisy step of full length.
        n_batches, reports = -(-len(rows) // self.batch_size), []
        for batch, part in enumerate(np.array_split(rows, n_batches)):
            with np.errstate(over="ignore", invalid="ignore"):
                machine, report = self._learn(machine, training, X, part, rate)
                finite = machine.has_finite_thetas()
            if not finite:
                self._diverged("intercepts", training, batch, rate)
            reports.append(report)
        with np.errstate(over="ignore", invalid="ignore"):
            finite = self._is_finite(machine)
        if not finite:
            self._diverged("components", training, batch, rate)
        training.report = {name: float(np.mean([r[name] for r in reports])) for name in reports[0]}
        return machine

    def _is_finite(self, machine):
        """Whether the parameters are finite in learning, and as they are published."""
        return machine.is_finite()

    def _diverged(self, quantity, training, batch, rate):
        raise DivergenceError(
            f"{type(self).__name__}: the {quantity} were no longer finite after batch {batch + 1} "
            f"of epoch {training.n_epochs + 1}, at a learning rate of {rate:.3g}. Lower "
            "learning_rate or momentum, or scale X. The parameters of the last complete epoch are "
            "kept."
        )

    def _pass_once(self, machine, training, data, n_rows, learnt=lambda: None):
        """Go once through the rows; whatever ends it, the last good parameters are published.

        ``learnt`` is called where the pass ends well.
        """
        kept = machine.copy(), training.state
        try:
            rate, training.progress = self._rate(0.0), 0.0
            machine = self._fit_epoch(machine, training, data, np.arange(n_rows), rate)
            kept = machine, training.state
            training.n_epochs += 1
            learnt()
            self._record({"epoch": training.n_epochs, "learning_rate": rate, **training.report})
        except BaseException:
            training.velocity = None  # it may belong to parameters that are given up
            raise
        finally:
            self._publish(*kept, training)

    def _record(self, row):
        """Add a row to the history; NaN stands where a quantity was not measured."""
        n_rows = len(self.history_.get("epoch", ()))
        for name in [*(self.history_ | row)]:  # in the order in which they were first recorded
            column = self.history_.setdefault(name, [float("nan")] * n_rows)
            column.append(row.get(name, float("nan")))
        if self.verbose:
            values = ", ".join(f"{name} = {row[name]:.4g}" for name in list(row)[1:])
            print(f"[{type(self).__name__}] Iteration {row['epoch']}, {values}")

    def _publish(self, machine, state, training):
        for name, value in self._attributes(machine, state).items():
            setattr(self, name, value)
        training.state = state
        self._training = training
        self.n_iter_ = training.n_epochs


class Monitor:
    """What is measured after each epoch, and when to stop: never, unless a subclass measures.

    ``value`` is what should grow, None where nothing is set aside to measure it on; it is bad
    unless it is at least the best and ``margin``. ``keeps_best`` is whether what was remembered is
    published too where the last epoch comes before a stop.
    """

    margin = 0.0
    keeps_best = False

    def __init__(self, n_iter_no_change):
        self.n_iter_no_change = n_iter_no_change
        self.best, self.n_bad, self.value, self.kept = -np.inf, 0, None, None

    def measure(self, machine, state):
        """Return numbers for the history."""
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
        """Say what the course of a fit, which has come to its end, tells of it."""
