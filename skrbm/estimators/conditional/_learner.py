"""How a conditional machine learns from a batch of rows, and the error of rows set aside."""

from contextlib import contextmanager
from functools import cached_property

import numpy as np

from ...arrays import dense, dense_rows, from_numpy, has_missing, is_foreign, to_numpy
from ...exceptions import DivergenceError
from ...inputs import DistinctRows, split_missing
from ...learning import Average, BatchLearner, Monitor
from ...units import Theta
from ._draws import Draws
from ._losses import wrong
from ._machine import ConditionalGradient
from ._targets import initial_field, known_values

_ROWS = 40  # of a batch, by which the divergence of a step is measured


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
        self.X, self.V, self.has_missing = X, V, has_missing(V)
        super().__init__([X, np.nan_to_num(V, nan=-1.0) if self.has_missing else V], weights)

    def batch(self, positions, dtype):
        """Return some rows, dense: features, targets, which of these are known (None: all are)."""
        index = self.places(positions)
        X, V = (dense_rows(rows, index, dtype) for rows in (self.X, self._targets))
        return X, *(split_missing(V) if self.has_missing else (V, None))

    @cached_property
    def _targets(self):
        """The targets, in the library of X: a device is sent all of them at once."""
        if not is_foreign(self.X):
            return self.V
        return from_numpy(np.asarray(dense(self.V), np.float32), self.X)  # 0, 1 and NaN

    @cached_property
    def fingerprint(self):
        """A hash of the rows, targets and weights."""

        def values(positions):
            index = self.index[positions]
            V = dense_rows(self.V, index, self.V.dtype)
            return dense_rows(self.X, from_numpy(index, self.X), self.X.dtype), V

        return self.hashed(values)

    def initial_field(self, unit):
        """Return the field of independent visible units fitted to the targets."""
        weights = self.weights_of(np.arange(len(self)))
        return initial_field(unit, self.V[self.index], weights * (self.total / weights.sum()))


class ConditionalLearner(BatchLearner):
    """Gradient ascent on an objective of targets given features.

    The state of its training is the largest number of sweeps, which predictions need too.

    Parameters
    ----------
    objective, decision : callable
        Return the :class:`Objective` and what predicts, given the largest number of sweeps.
    sweeps : callable
        Largest number of sweeps of inference by epoch, counted from 1.
    optimizer : Optimizer
    average : bool
        Whether parameters are averaged over the steps.
    rows, index, batch_size, shuffle, length
        As in :class:`~skrbm.learning.BatchLearner`.
    """

    def __init__(self, objective, decision, sweeps, optimizer, *, average, **options):
        super().__init__(**options)
        self.objective, self.decision = objective, decision
        self.sweeps, self.optimizer, self.average = sweeps, optimizer, average

    def run_epoch(self, training, progress, rate):
        number = training.n_epochs + 1
        training.phase_state = n_sweeps = self.sweeps(number)
        self.current = self.objective(n_sweeps)
        with _explained(f"in epoch {number}"):
            report = super().run_epoch(training, progress, rate)
        # Parameters that no inference takes are never published.
        with _explained(f"after epoch {number}"), np.errstate(over="ignore", invalid="ignore"):
            first = self.rows.index[self.index[:1]]
            given = training.machine.given_rows(self.rows.X, first)
            self.decision(n_sweeps).check(given)
        penalised = training.machine.values[: ConditionalGradient.n_penalised]
        return report | self.optimizer.report(penalised)

    def step(self, training, index, rate):
        X, V, observed = self.rows.batch(index, training.machine.dtype)
        given = training.machine.given(X)
        data, model, report = self.current.phases(given, V, observed, training.rng)
        difference = self.optimizer.difference_given(given, X, data, model)
        gradient = ConditionalGradient(difference, given, X)
        return report | {"learning_rate": self._take(training, gradient, X, V, observed, rate)}

    def _take(self, training, gradient, X, V, observed, rate):
        """Take a step of the optimizer, and return its length.

        Parameters
        ----------
        training : Training
            Whose machine is changed.
        gradient : ConditionalGradient
        X, V : arrays of shape (n_rows, n_features) and (n_rows, n_visible)
            The features, and the targets.
        observed : array of bool of shape (n_rows, n_visible) or None
            Where these are known.
        rate : float
            Learning rate of the schedule; with a rule for the length, the factor on it.
        """
        machine, length = training.machine, rate
        if self.length is not None:
            state = training.length_state or self.length.init()
            length = float(rate * training.length_factor * state.rate)
            training.length_state = self.length.unmeasured(state)
        measures = self.length is not None and self.length.measures(state) and length > 0
        if measures:
            some = slice(0, min(_ROWS, X.shape[0]))
            seen = None if observed is None else observed[some, :]
            draws = Draws(machine, X[some, :], V[some, :], seen, training.rng)
            before = machine.copy()
        training.optimizer_state = self.optimizer.update(
            machine.values, gradient, training.optimizer_state, length
        )
        if measures:
            found = self.length.next(state, draws.change(machine), length)
            training.length_state, part = found
            for now, old in zip(machine.values, before.values, strict=True):
                if part < 1 and 0 not in now.shape:
                    now *= float(part)
                    now += float(1 - part) * old
            length *= float(part)
        if not self.average:
            training.average = None
        elif training.average is None:
            training.average = Average.of(machine, self.optimizer.makes_zeros)
        else:
            training.average = training.average.moved(machine, self.optimizer.makes_zeros)
        return length


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

    def measure(self, machine, n_sweeps):
        """Return the error of the rows set aside, if there are any."""
        if self.validation is None:
            return {}
        decide, parts = self.decision(n_sweeps), []
        index = self.data.index[self.validation]
        with np.errstate(over="ignore", invalid="ignore"):
            for part, given in machine.blocks(self.data.X, rows=index):
                V, observed = known_values(self.data.V, part, given.thetas[0].field)
                values = given.units[0].mode(Theta(decide(given).logits))
                missed = to_numpy(wrong(given, V, values))
                seen = np.ones_like(missed) if observed is None else to_numpy(observed)
                parts.append(np.stack([missed * seen, seen]).sum(axis=2))
        n_wrong, n = np.concatenate(parts, axis=1) @ self.data.weights_of(self.validation)
        error = float(n_wrong / n) if n else 0.0
        self.value = -error
        return {"validation_error": error}

    def keep(self, machine, state):
        """Remember the parameters with the smallest error, the last of several."""
        if self.value is not None and self.value >= self.best:
            self.kept = machine, state
