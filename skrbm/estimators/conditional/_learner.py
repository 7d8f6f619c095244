"""Training of conditional machines, and the error of validation rows."""

from contextlib import contextmanager
from functools import cached_property

import numpy as np

from ...arrays import (
    dense,
    dense_rows,
    from_numpy,
    has_missing,
    is_foreign,
    namespace,
    take_rows,
    to_numpy,
)
from ...exceptions import DivergenceError
from ...inference import chain_ends
from ...inputs import DistinctRows, split_missing
from ...learning import BatchLearner, Monitor
from ...machine import free_energy
from ...units import Categorical, Theta
from .._targets import known_values
from ._machine import ConditionalGradient, is_one_label
from ._objectives import draw

_ROWS = 40  # of a batch, by which the divergence of a step is measured
_DRAWS = 2  # of outputs, for each of these rows
_STEPS = 2  # of the chains that make them, from the targets


class LabelledRows(DistinctRows):
    """Features X and targets V of the training rows, as visible values with NaN where missing."""

    def __init__(self, X, V, weights=None):
        self.X, self.V, self.has_missing = X, V, has_missing(V)
        super().__init__([X, np.nan_to_num(V, nan=-1.0) if self.has_missing else V], weights)

    def batch(self, positions, dtype):
        """Return some rows, dense: features, targets, and which of these are known, or None."""
        index = self.places(positions)
        X, V = (dense_rows(rows, index, dtype) for rows in (self.X, self._targets))
        return X, *(split_missing(V) if self.has_missing else (V, None))

    @cached_property
    def _targets(self):
        if not is_foreign(self.X):
            return self.V
        return from_numpy(np.asarray(dense(self.V), np.float32), self.X)  # 0, 1 and NaN

    @cached_property
    def fingerprint(self):
        def values(positions):
            index = self.index[positions]
            V = dense_rows(self.V, index, self.V.dtype)
            return dense_rows(self.X, from_numpy(index, self.X), self.X.dtype), V

        return self.hashed(values)

    def initial_field(self, unit):
        """Return the field of independent units fitted to the known targets."""
        V, weights = self.V[self.index], self.weights_of(np.arange(len(self)))
        weights = weights * (self.total / weights.sum())
        known = weights.sum()
        if self.has_missing:
            known, V = weights @ ~np.isnan(V), np.nan_to_num(V)
        on = np.asarray(V.T @ weights, np.float64)
        mean = (on + 0.5) / (known + 1)  # one more row of which half is on keeps fields finite
        return np.log(mean) if isinstance(unit, Categorical) else np.log(mean) - np.log1p(-mean)


class ConditionalLearner(BatchLearner):
    """Gradient ascent on an objective of targets given features.

    The state of its training is the largest number of sweeps, which ``sweeps`` returns by epoch,
    from 1, and of which ``objective`` and ``decision``, what predicts, are functions.
    """

    def __init__(self, objective, decision, sweeps, optimizer, **options):
        super().__init__(**options)
        self.objective, self.decision = objective, decision
        self.sweeps, self.optimizer, self.averages = sweeps, optimizer, optimizer.average

    def before_epoch(self, training, rate):
        training.phase_state = n_sweeps = self.sweeps(training.n_epochs + 1)
        self.current = self.objective(n_sweeps)
        return self.step

    def after_epoch(self, training):
        if not self.is_finite(training.machine):
            return None
        # Parameters with which no inference works are never published.
        with _inference_errors(training):
            first = self.rows.index[self.index[:1]]
            ((_, given),) = training.machine.blocks(self.rows.X, rows=first)
            self.decision(training.phase_state)(given)
        return self.optimizer.report(training.machine.leaves[: ConditionalGradient.n_penalised])

    def step(self, training, index, rate):
        X, V, observed = self.rows.batch(index, training.machine.dtype)
        with _inference_errors(training):
            given = training.machine.given(X)
            data, model, report = self.current.phases(given, V, observed, training.rng)
            difference = self.optimizer.difference_given(given, X, data, model)
            gradient = ConditionalGradient(difference, given, X)
            report |= {"learning_rate": self._take(training, gradient, X, V, observed, rate)}
        return report, training.machine.has_finite_thetas()

    def _take(self, training, gradient, X, V, observed, rate):
        """Take a step of the optimizer, and return its length: ``rate``, or that of the rule."""
        machine, optimizer, length, change_to = training.machine, self.optimizer, rate, None
        if self.length is not None:
            state = training.length_state or self.length.init()
            length = float(rate * training.length_factor * state.rate)
            training.length_state = self.length.unmeasured(state)
            if self.length.measures(state) and length > 0:
                some = slice(0, min(_ROWS, X.shape[0]))
                seen = None if observed is None else observed[some, :]
                change_to = energy_change(machine, X[some, :], V[some, :], seen, training.rng)
                before = machine.copy()
        training.optimizer_state = optimizer.update(
            machine.leaves, gradient, training.optimizer_state, length
        )
        if change_to is not None:
            training.length_state, part = self.length.next(state, change_to(machine), length)
            if part < 1:
                for now, old in zip(machine.leaves, before.leaves, strict=True):
                    now *= float(part)
                    now += float(1 - part) * old
            length *= float(part)
        self.average(training)
        return length


@contextmanager
def _inference_errors(training):
    """Raise DivergenceError where finite parameters are too large for inference."""
    try:
        yield
    except ValueError as error:
        raise DivergenceError(
            f"the parameters are too large for inference in epoch {training.n_epochs + 1}: {error};"
            " lower learning_rate or momentum, raise alpha, or scale X (the parameters of the last "
            "complete epoch are kept)"
        ) from error


def energy_change(machine, X, V, observed, rng):
    """Draw outputs given features, and return how their free energies change, a function.

    Of another machine it returns the changes less the mean of their row, float64, whose variance is
    that given the features. The targets V, from which chains start, count as draws too.
    """
    given, xp = machine.given(X), namespace(V)
    if observed is not None:
        V = xp.where(observed, V, given.units[0].sample(given.thetas[0], rng))
    places = from_numpy(np.tile(np.arange(X.shape[0]), _DRAWS), V)
    copies = given.rows(places)
    if is_one_label(given) or given.n_units[0] == 1:
        drawn = draw(copies, 0, rng)
    else:
        drawn = chain_ends(copies, rng, take_rows(V, places), _STEPS)

    def energies(given):
        parts = free_energy(given.rows(places), drawn), free_energy(given, V)
        return to_numpy(xp.concat(parts, axis=0)).reshape(_DRAWS + 1, -1)

    before = energies(given)

    def change_to(other):
        change = energies(other.given(X)) - before
        apart = change - change.mean(axis=0)
        return apart.ravel() * (len(change) / (len(change) - 1)) ** 0.5

    return change_to


class ErrorMonitor(Monitor):
    """Measures the fraction of known outputs, or of labels, that are predicted wrongly."""

    def __init__(self, decision, rows, validation, stopping):
        super().__init__(1 if stopping is None else stopping.patience)
        self.decision, self.rows, self.validation = decision, rows, validation
        self.margin = 0.0 if stopping is None else stopping.tol

    def measure(self, machine, n_sweeps):
        if self.validation is None:
            return {}
        decide, parts = self.decision(n_sweeps), []
        index = self.rows.index[self.validation]
        for part, given in machine.blocks(self.rows.X, rows=index):
            V, observed = known_values(self.rows.V, part, given.thetas[0].field)
            values = given.units[0].mode(Theta(decide(given).logits))
            missed = V != values
            if is_one_label(given):
                missed = namespace(V).any(missed, axis=1, keepdims=True)
            missed = to_numpy(missed)
            seen = np.ones_like(missed) if observed is None else to_numpy(observed)
            parts.append(np.stack([missed * seen, seen]).sum(axis=2))
        n_wrong, n_seen = np.concatenate(parts, axis=1)
        weights = self.rows.weights_of(self.validation)
        # The weighted mean is that of known outputs, of which rows may have different numbers.
        self.score(-n_wrong * weights.sum() / (n_seen @ weights or 1.0), weights)
        return {"validation_error": -self.value}
