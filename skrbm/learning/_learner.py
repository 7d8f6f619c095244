"""Learners, which train a machine for an epoch."""

import weakref
from dataclasses import replace
from functools import partial

import numpy as np

from .._ranks import ranks
from ..arrays import (
    can_replay,
    cast,
    copied,
    is_foreign,
    joined_rows,
    like,
    namespace,
    numbers,
    put_off,
    require,
    take_rows,
    to_numpy,
)
from ..exceptions import DivergenceError
from ..machine import has_integral, may_lack_integral
from ._average import Average
from ._length import as_numbers
from ._optimizers import ArrayGradient
from ._parameters import LEAST_PRECISION, NATURAL
from ._together import Shares

_OFFSET_WEIGHT = 0.05  # of a new batch in the running means of layers
# Mean square of samples of a real column above which an epoch is repeated; that of data is 1.
# Chains return by themselves from values of 25 to 60, in fits to rows with many missing values.
_MOST_SPREAD = 400.0
_MAX_RESTORED = 3  # number of times that a fit goes back to a checkpoint and halves the length


class BatchLearner:
    """Learns from batches of rows, in a new random order in each epoch.

    A subclass implements ``step(training, index, rate)``, which learns from the rows at an index
    array (or whatever else ``rows`` uses for a batch) and returns numbers for the history, a dict
    of floats, and whether the parameters are finite. It may override ``before_epoch`` and
    ``after_epoch``.

    Parameters
    ----------
    rows : Rows
        The data.
    index : ndarray of int
        Positions of the rows to learn from. Each step is passed some of them, in the array library
        of the data.
    batch_size : int
        Maximum number of rows in a batch; all batches have nearly the same size.
    length : StepLength, default=None
        Rule for the length of steps; with None, the length is the learning rate. With a rule, an
        epoch that diverges is repeated from its start with half the length, at most three times in
        a fit.
    """

    def __init__(self, rows, index, batch_size, length=None):
        self.rows, self.index, self.batch_size = rows, index, batch_size
        self.length = length

    def step(self, training, index, rate):
        """Learn from one batch; the machine is consumed.

        Returns numbers for the history, and whether the parameters are finite, which may not be
        known yet on a device.
        """
        raise NotImplementedError

    def before_epoch(self, training, rate):
        """Prepare an epoch, also when it is repeated; return the function that makes a step."""
        return self.step

    def after_epoch(self, training):
        """Check the machine after an epoch.

        Returns more numbers for the history, or None if parameters are not finite.
        """
        return {} if self.is_finite(training.machine) else None

    def epoch(self, training, progress, rate):
        """Learn from all rows once; returns numbers for the history.

        Parameters
        ----------
        training : Training
            State of the training, which is modified.
        progress : float
            Fraction of the epochs that is complete.
        rate : float
            The learning rate.

        Raises
        ------
        DivergenceError
            If the parameters diverge, or the distribution cannot be normalized.
        """
        repeats = self.length is not None and ranks().size == 1
        restore = training.checkpoint() if repeats else None
        while True:
            try:
                step = self.before_epoch(training, rate)
                batches = self.rows.batches(self.index, training.rng, self._n_batches)
                reports, where = [], training.n_epochs
                with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                    with put_off():
                        for batch, part in enumerate(batches):
                            report, is_finite = step(training, part, rate)
                            reports.append(report)
                            if is_finite is not True:  # or not known yet
                                require(
                                    is_finite, partial(_diverged, "intercepts", where, batch, rate)
                                )
                    more = self.after_epoch(training)
                    if more is None:
                        raise _diverged("components", where, batch, rate)
                    return _means(reports) | more
            except DivergenceError:
                training.n_restored += repeats
                if not repeats or training.n_restored > _MAX_RESTORED:
                    raise
                restore()
                training.length_factor /= 2

    def _n_batches(self, n_rows):
        """Return the number of batches of an epoch."""
        return -(-n_rows // self.batch_size)

    def is_finite(self, machine):
        """Whether the parameters are finite, both in training and as published."""
        return machine.is_finite()

    def average(self, training):
        """Update the average of the parameters after a step, if one is kept."""
        machine, before = training.machine, training.average
        if not self.averages:
            training.average = None
        elif before is None:
            training.average = Average.of(machine, self.optimizer.makes_zeros)
        else:
            training.average = before.moved(machine, self.optimizer.makes_zeros)


def _means(reports):
    """Return the means of the numbers in reports, without rounding if they are equal."""
    names, n = reports[0], len(reports)
    values = numbers([report[name] for name in names for report in reports])
    parts = zip(names, np.reshape(values, (len(names), n)), strict=True)
    return {name: float(v[0] + np.mean(v - v[0])) for name, v in parts}


def _diverged(quantity, n_epochs, batch, rate):
    return DivergenceError(
        f"the {quantity} were no longer finite after batch {batch + 1} of epoch "
        f"{n_epochs + 1}, at a learning rate of {rate:.3g}; lower learning_rate or "
        "momentum, or scale X (the parameters of the last complete epoch are kept)"
    )


def check_integral(machine, when):
    """Raise DivergenceError if the distribution of a machine cannot be normalized."""
    if not has_integral(machine):
        raise DivergenceError(
            f"the distribution cannot be normalized {when}: the weights between unbounded units "
            "are too large for their precisions; lower learning_rate, scale X, or use units with "
            "bounds, such as hidden='truncated_gaussian' (the last good parameters are kept)"
        )


class MomentLearner(BatchLearner):
    """Trains a machine by moment matching.

    The gradient of the log-likelihood is the moments of the data minus those of the machine. All
    inference methods, deterministic or sampling, are used through this one step.

    Parameters
    ----------
    rows : Rows
        The data.
    phase : ModelPhase
    optimizer : Optimizer
    index, batch_size : as in :class:`BatchLearner`
    length : StepLength, default=None
        Rule for gradient ascent, which the optimizer may change; None for the learning rate.
    parameters : NaturalParameters, default=NATURAL
        The parameters that the optimizer sees.
    sample_values : bool, default=False
        Whether values between 0 and 1 of binary units are probabilities, from which bits are drawn
        for each batch.
    n_rows : float, default=None
        Number of rows by which the automatic penalty is determined; by default that of ``rows``.
    is_finite : callable, default=None
        Whether a machine can be published; by default, whether all its parameters are finite.
    labels : LabelColumns, default=None
        Visible columns whose probabilities given the others may be learned as well.
    """

    def __init__(
        self,
        rows,
        phase,
        optimizer,
        *,
        index=None,
        batch_size,
        length=None,
        parameters=NATURAL,
        sample_values=False,
        n_rows=None,
        is_finite=None,
        labels=None,
    ):
        if ranks().size > 1 and not (phase.for_ranks and optimizer.for_ranks):
            part = optimizer if phase.for_ranks else f"{phase.start} chains"
            raise ValueError(f"{part} does not support several processes")
        index = np.arange(len(rows)) if index is None else index
        n_rows, n_columns = rows.total if n_rows is None else n_rows, rows.X.shape[1]
        self.phase, self.optimizer = phase, optimizer.for_data(n_rows, n_columns)
        if length is not None:
            length = self.optimizer.step_length(length, n_columns)
        super().__init__(rows, index, batch_size, length)
        self.parameters, self.labels = parameters, labels
        self.centered = optimizer.centered and parameters.is_natural
        self.averages = optimizer.average and parameters.is_natural
        self.sample_values = sample_values and rows.has_fractions
        if is_finite is not None:
            self.is_finite = is_finite
        self._shares = self._precisions = None
        self._replayed = self._read = None  # replayed steps, and the rate that they read
        self._factor = None  # rate of the schedule on a device, where recorded steps read it

    # ---------------------------------------------------- an epoch

    def before_epoch(self, training, rate):
        self._record(training, rate)
        is_replayed = self._replayed is not None and self._replayed.works
        return self._replayed_step if is_replayed else self.step

    def after_epoch(self, training):
        if self._replayed is not None:
            training.stepped = self._replayed.released(training.stepped)
        training.length_state = training.length_state and as_numbers(training.length_state)
        if not self.is_finite(training.machine):
            return None
        if self._samples_leave_data(training):
            raise DivergenceError(
                f"samples of the model were far from the data after epoch "
                f"{training.n_epochs + 1}; lower learning_rate or n_components (the parameters of "
                "the last complete epoch are kept)"
            )
        if not self.optimizer.makes_zeros:  # choosing parameters again would move the zeros
            training.machine = self.parameters.fixed(training.machine)
            if training.average is not None:
                means = self.parameters.fixed(training.average.means)
                training.average = replace(training.average, means=means)
        check_integral(training.machine, f"after epoch {training.n_epochs + 1}")
        return self.optimizer.report(training.machine.weights)

    def _samples_leave_data(self, training):
        """Whether a real column has a far larger variance in samples than in the data.

        A step past the couplings at which the distribution splits has this effect. Missing values,
        which are drawn from the machine, would follow it.
        """
        coordinates = getattr(self.parameters, "coordinates", None)
        if coordinates is None or not self.phase.samples_model:
            return False
        unit = training.machine.units[0]
        columns = unit.columns_with("is_standardised", self.rows.X.shape[1])
        rows = self.phase.samples(training.phase_state)
        weights = self.phase.weights(training.phase_state)
        squares = coordinates.inward(rows) ** 2
        if weights is None:
            squares = namespace(rows).mean(squares, axis=0)
        else:
            squares = cast(weights, squares.dtype) @ squares
        return bool((to_numpy(squares)[columns] > _MOST_SPREAD).any())

    def _n_batches(self, n_rows):
        if ranks().size == 1:
            return super()._n_batches(n_rows)
        weight = float(self.rows.weights_of(self.index).sum())
        self._shares = Shares(n_rows, weight, self.batch_size)
        return len(self._shares.parts)

    # ---------------------------------------------------- one step

    def step(self, training, index, rate):
        phase, machine, rng = self.phase, training.machine, training.rng
        state = training.phase_state
        X, observed = self.rows.batch(index)
        if self.sample_values:
            X = rng.bits(X)
        origins = None
        if self.length is not None and self.length.within is not None:
            origins = phase.samples(state)
        if observed is None:
            state, data, model = phase.phases(machine, state, X, rng)
        else:
            state, data, model = phase.incomplete_phases(machine, state, X, observed, rng)
        training.phase_state = state
        if self.labels is not None:
            model = self.labels.mixed(machine, model, X, observed)
        metric = model if phase.samples_model else data
        difference = self.optimizer.difference(machine, data, model, metric, self.parameters)
        if self._shares is not None:
            difference, data = self._shares.moments(machine, difference, data)
        if self.centered:
            means = [data.mean(l) for l in range(len(machine.units))]
            if training.offsets is not None:
                pairs = zip(training.offsets, means, strict=True)
                means = [old + _OFFSET_WEIGHT * (new - old) for old, new in pairs]
            training.offsets = tuple(means)
        slopes = self.parameters.gradient(machine, difference)
        length = self._take(training, slopes, X, rate, origins)
        report = {"learning_rate": length} | phase.report(state)
        return report, training.machine.has_finite_thetas()

    def _take(self, training, slopes, X, rate, origins):
        """Take a step of the optimizer, and return its length: ``rate``, or that of the rule.

        The length of the rule is multiplied by ``rate``. Some steps are measured by the change of
        free energies of samples, and shortened if it is too large. ``origins`` are the visible
        values from which the samples come, for a rule within the modes.
        """
        rule, phase, length, is_measured = self.length, self.phase, rate, False
        if rule is not None:
            rule = phase.current_rule(rule, training.phase_state)
            state = rule.init() if training.length_state is None else training.length_state
            factor = rate * training.length_factor if self._factor is None else self._factor
            length, is_measured = factor * state.rate, rule.measures(state) and rate != 0
            if is_foreign(X) and not is_foreign(length):  # recorded steps read it there
                length = namespace(X).full((), length, **like(X))
            training.length_state = rule.unmeasured(state)
        if is_measured:
            rows = phase.samples(training.phase_state)
            if rule.within is None:
                energies = phase.energies(training.machine, training.phase_state)
            else:
                rows = _pairs(rows, origins)
                energies = phase.free_energy(training.machine, rows)
        parameters = self.parameters.of(training.machine)
        before = tuple(copied(part) for part in parameters) if is_measured else None
        self._move(training, parameters, slopes, _like(length, X))
        training.machine = moved = self.parameters.machine(training.machine, parameters)
        if is_measured:
            change = phase.free_energy(moved, rows) - energies
            change = _for_equal_totals(moved, rows, change)
            weights, at_origins = phase.weights(training.phase_state), None
            if rule.within is not None:
                n = change.shape[0] // 2
                change, at_origins = change[:n], change[n:]
            training.length_state, part = rule.next(state, change, length, weights, at_origins)
            if may_lack_integral(moved.units) and not is_foreign(X) and not has_integral(moved):
                part, training.length_state = 0.0 * part, rule.rejected(state)
            if is_foreign(part) or part < 1:
                keep = _like(part, X)
                for now, old in zip(parameters, before, strict=True):
                    # Nothing is kept of a step to infinity; 0 times infinity would be NaN.
                    now[...] = namespace(now).where(keep > 0, keep * now + (1 - keep) * old, old)
                training.machine = self.parameters.machine(moved, parameters)
            if not is_foreign(part) and part == 0:  # its momentum would lead to the same place
                training.optimizer_state = self.optimizer.init(parameters)
            length = length * part
        self.average(training)
        return length

    def _move(self, training, parameters, slopes, rate):
        """Move the parameters, in place, by a step of the optimizer."""
        machine = training.machine
        if self._precisions is None:  # their positions are the same during the whole fit
            self._precisions = self.parameters.precisions(machine)
        precisions = [(i, copied(parameters[i])) for i in self._precisions]
        if self.centered:
            shrinkage = self.optimizer.shrinkage
            slopes = self.parameters.centered(slopes, machine, training.offsets, shrinkage)
            before = slopes.mean_fields(parameters)
        factors, steps = None, slopes
        if self.length is not None:
            factors = self.parameters.factors(machine, self.length.of_bits)
        if factors is not None:
            arrays = slopes.arrays(parameters)
            steps = ArrayGradient(arrays, slopes.n_penalised, slopes.units, factors)
        training.optimizer_state = self.optimizer.update(
            parameters, steps, training.optimizer_state, rate
        )
        if self.centered:
            slopes.follow(parameters, before)
        for i, old in precisions:
            now = parameters[i]
            now[...] = namespace(now).maximum(now, LEAST_PRECISION * old)

    # ---------------------------------------------------- recorded steps on a device

    def _record(self, training, rate):
        """Prepare to replay the steps of the next epoch, if possible."""
        field = training.machine.thetas[0].field
        if not can_replay(field) or ranks().size > 1:
            return
        read = rate  # what is fixed in recorded steps about the rate of the schedule
        if self.length is not None:
            if self._factor is None:
                xp = namespace(field)
                self._factor = xp.zeros((), **{**like(field), "dtype": xp.float64})
            self._factor[...] = rate * training.length_factor  # changes in each epoch
            read = rate > 0
        before = self._replayed
        if before is not None and (read == self._read or not before.works):  # nor would a new one
            return
        from ..arrays._replay import Replayed  # which needs torch

        self._read = read
        learning = weakref.ref(self)  # so that recordings are freed with the fit, without gc

        def stepped(state, index):
            training.stepped = state
            report, is_finite = learning().step(training, index, rate)
            return training.stepped, report | {"is_finite": is_finite}

        self._replayed = Replayed(stepped, training.rng, before=before)

    def _replayed_step(self, training, index, rate):
        state, key = training.length_state, ()  # the key tells steps with other operations apart
        if self.length is not None:
            is_steady = state is not None and self.length.is_steady(state)
            key = (self.length.measures(state),) if is_steady else None  # None is not replayed
        training.stepped, report = self._replayed(key, training.stepped, index)
        return report, report.pop("is_finite")


def _for_equal_totals(machine, rows, change):
    """Return changes of free energies minus the part that is linear in the totals of rows.

    Rows with different totals have different log Z, whose changes say nothing about the
    distributions of such rows.
    """
    totals = machine.units[0].totals(rows)
    if totals is None:
        return change
    mean = namespace(totals).mean
    apart, change = totals - mean(totals), change - mean(change)
    return change - apart * (mean(apart * change) / (mean(apart * apart) + 1e-12))


def _pairs(rows, origins):
    """Return every second row of an array, and below them those from which they come."""
    n = min(rows.shape[0], origins.shape[0])
    return joined_rows([take_rows(part, slice(0, n, 2)) for part in (rows, origins)])


def _like(length, X):
    """Return a number in the dtype of X, if X is an array of another library."""
    return cast(length, X.dtype) if is_foreign(length) else float(length)
