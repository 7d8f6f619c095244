"""How a conditional machine learns from a batch of rows, and the error of rows set aside."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..._checks import check_count
from ..._epochs import Monitor
from ..._optim import SGD
from ...arrays import dense_rows, from_numpy, to_numpy
from ...inference import FixedPoint
from ...units import Theta
from ._losses import Objective, wrong
from ._targets import known_values

_FIRST_SWEEPS, _MAX_SWEEPS = 7, 100


class Rows(NamedTuple):
    """Features and targets of the rows that are learnt from."""

    X: Any
    V: Any  # targets as values of the visible units, NumPy or CSR, NaN where missing
    y: Any  # as they came

    def batch(self, index, dtype):
        """Return the :class:`Batch` of the rows at an index array."""
        X = dense_rows(self.X, from_numpy(index, self.X), dtype)
        return Batch(X, *known_values(self.V, index, X))


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


@dataclass(frozen=True)
class ConditionalLearner:
    """Gradient ascent on an objective of targets given features.

    Parameters
    ----------
    objective : Objective
    optimizer : SGD
    """

    objective: Objective
    optimizer: SGD

    def with_sweeps(self, n_sweeps):
        """Return the learner with another largest number of sweeps of inference."""
        return replace(self, objective=self.objective.with_sweeps(n_sweeps))

    def step(self, machine, velocity, rows, rng, rate, progress=None):
        """Learn from one batch.

        Parameters
        ----------
        machine : ConditionalMachine
            Its parameters are written in place.
        velocity : tuple of arrays or None
            State of the optimizer.
        rows : Batch
        rng : Rng
        rate : float
            Learning rate.
        progress : float, default=None
            Part of the epochs that has passed; this learner does not change with it.

        Returns
        -------
        machine, velocity
        report : dict of float
            For the history.
        """
        given = machine.given(rows.X)
        data, model, report = self.objective.phases(given, rows.V, rows.observed, rng)
        velocity = machine.ascend(data - model, given, rows.X, velocity, self.optimizer, rate)
        return machine, velocity, report


class ErrorMonitor(Monitor):
    """Measures the fraction of known outputs, or of labels, that are predicted wrongly.

    Parameters
    ----------
    decision : callable
        Returns what predicts, given the largest number of sweeps.
    data : Rows
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
        decide, n_wrong, n = self.decision(state.n_sweeps), 0, 0
        with np.errstate(over="ignore", invalid="ignore"):
            for part, given in machine.blocks(self.data.X, rows=self.validation):
                V, observed = known_values(self.data.V, part, given.thetas[0].field)
                values = given.units[0].mode(Theta(decide(given).logits))
                missed = to_numpy(wrong(given, V, values))
                seen = np.ones_like(missed) if observed is None else to_numpy(observed)
                n_wrong, n = n_wrong + np.sum(missed & seen), n + np.sum(seen)
        error = float(n_wrong / max(n, 1))
        self.value = -error
        return {"validation_error": error}

    def keep(self, machine, state):
        """Remember the parameters with the least error, the last of several."""
        if self.value is not None and self.value >= self.best:
            self.kept = machine, state
