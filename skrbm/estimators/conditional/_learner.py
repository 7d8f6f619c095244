"""How a conditional machine learns from a batch of rows, and the error of rows set aside."""

from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..._checks import check_count
from ...arrays import dense_rows, is_foreign, to_numpy
from ...exceptions import DivergenceError
from ...inference import FixedPoint
from ...inputs import DistinctRows
from ...learning import BatchLearner, Monitor
from ...units import Theta
from ._losses import wrong
from ._machine import ConditionalGradient
from ._targets import Sent, initial_field, known_values

_FIRST_SWEEPS, _MAX_SWEEPS = 7, 100


class LabelledRows(DistinctRows):
    """Features and targets of the rows that are learnt from.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_samples, n_features)
    V : ndarray or sparse matrix of shape (n_samples, n_outputs)
        Targets as values of the visible units, NaN where missing.
    weights : ndarray of shape (n_samples,) or None
    """

    def __init__(self, X, V, weights=None):
        self.X, self.V = X, V
        missing = not sp.issparse(V) and V.dtype.kind == "f"
        super().__init__([X, np.nan_to_num(V, nan=-1.0) if missing else V], weights)

    def batch(self, positions, dtype):
        """Return the :class:`Batch` of the rows at an array of positions."""
        index = self.places(positions)
        X = dense_rows(self.X, index, dtype)
        V = self._sent_targets if is_foreign(X) else self.V
        return Batch(X, *known_values(V, index, X))

    @cached_property
    def _sent_targets(self):
        """The targets, dense, in the library of X: a device is sent all of them at once."""
        return Sent(self.V, self.X)

    def initial_field(self, unit):
        """Return the field of independent visible units fitted to the targets."""
        weights = self.weights_of(np.arange(len(self)))
        return initial_field(unit, self.V[self.index], weights * (self.total / weights.sum()))


class Batch(NamedTuple):
    """Some rows, dense: features, targets, and which of these are known (None if all are)."""

    X: Any
    V: Any
    observed: Any


class Sweeps(NamedTuple):
    """What predictions need besides the parameters: the largest number of sweeps."""

    n_sweeps: int


def largest_sweeps(inference, n_sweeps, epoch):
    """Return the largest number of sweeps of inference in an epoch, counted from 1.

    The first two arguments are parameters of the estimator.
    """
    if isinstance(inference, FixedPoint):
        if n_sweeps is not None:
            raise ValueError(
                f"n_sweeps={n_sweeps!r} is of an inference that is given by name, and {inference} "
                "has its own: set its max_iter, and leave n_sweeps out"
            )
        return inference.max_iter
    if n_sweeps is None:
        return min(_FIRST_SWEEPS + epoch, _MAX_SWEEPS)
    n_sweeps = n_sweeps(epoch) if callable(n_sweeps) else n_sweeps
    check_count("n_sweeps", n_sweeps, 1)
    return n_sweeps


class ConditionalLearner(BatchLearner):
    """Gradient ascent on an objective of targets given features.

    Parameters
    ----------
    objective : Objective
    decision : callable
        Returns what predicts, given the largest number of sweeps.
    sweeps : callable
        Largest number of sweeps of inference by epoch, counted from 1.
    optimizer : SGD
    rows, index, batch_size, shuffle
        As in :class:`~skrbm.learning.BatchLearner`.
    """

    def __init__(self, objective, decision, sweeps, optimizer, *, rows, index, batch_size, shuffle):
        super().__init__(rows, index, batch_size, shuffle)
        self.objective, self.decision = objective, decision
        self.sweeps, self.optimizer = sweeps, optimizer

    def epoch(self, training, progress, rate):
        number = training.n_epochs + 1
        training.phase_state = Sweeps(self.sweeps(number))
        self.objective = self.objective.with_sweeps(training.phase_state.n_sweeps)
        with _explained(f"in epoch {number}"):
            report = super().epoch(training, progress, rate)
        # Parameters that no inference takes are never published.
        with _explained(f"after epoch {number}"), np.errstate(over="ignore", invalid="ignore"):
            first = self.rows.index[self.index[:1]]
            given = training.machine.given_rows(self.rows.X, first)
            self.decision(training.phase_state.n_sweeps).check(given)
        return report

    def step(self, training, index, rate):
        machine = training.machine
        X, V, observed = self.rows.batch(index, machine.dtype)
        given = machine.given(X)
        data, model, report = self.objective.phases(given, V, observed, training.rng)
        gradient = ConditionalGradient(data - model, given, X)
        training.optimizer_state = self.optimizer.update(
            machine.values, gradient, training.optimizer_state, rate
        )
        return report


@contextmanager
def _explained(where):
    """Say what to do where parameters are finite, but too large for inference."""
    try:
        yield
    except DivergenceError:
        raise
    except ValueError as error:
        raise DivergenceError(
            f"the parameters are too large for inference {where}: {error}. Lower learning_rate or "
            "momentum, raise alpha, or scale X. The parameters of the last complete epoch are kept."
        ) from error


class ErrorMonitor(Monitor):
    """Measures the fraction of known outputs, or of labels, that are predicted wrongly.

    Parameters
    ----------
    decision : callable
        Returns what predicts, given the largest number of sweeps.
    data : LabelledRows
    validation : ndarray of int or None
        Indices of the rows set aside; without any nothing is measured.
    n_iter_no_change : int
    tol : float
    """

    keeps_best = True

    def __init__(self, decision, data, validation, n_iter_no_change, tol):
        super().__init__(n_iter_no_change)
        self.decision, self.data, self.validation, self.margin = decision, data, validation, tol

    def measure(self, machine, state):
        """Return the error of the rows set aside, if there are any."""
        if self.validation is None:
            return {}
        decide, n_wrong, n = self.decision(state.n_sweeps), 0.0, 0.0
        index, begin = self.data.index[self.validation], 0
        weights = self.data.weights_of(self.validation)[:, None]
        with np.errstate(over="ignore", invalid="ignore"):
            for part, given in machine.blocks(self.data.X, rows=index):
                V, observed = known_values(self.data.V, part, given.thetas[0].field)
                values = given.units[0].mode(Theta(decide(given).logits))
                missed = to_numpy(wrong(given, V, values))
                seen = np.ones_like(missed) if observed is None else to_numpy(observed)
                seen = seen * weights[begin : begin + len(part)]
                n_wrong, n = n_wrong + np.sum(missed * seen), n + np.sum(seen)
                begin += len(part)
        error = float(n_wrong / n) if n else 0.0
        self.value = -error
        return {"validation_error": error}

    def keep(self, machine, state):
        """Remember the parameters with the smallest error, the last of several."""
        if self.value is not None and self.value >= self.best:
            self.kept = machine, state
