"""The learners: what an epoch of training does to a machine."""

import copy
import weakref
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np

from .._ranks import ranks
from ..arrays import (
    Replayed,
    can_replay,
    cast,
    copied,
    is_foreign,
    like,
    namespace,
    numbers,
    put_off,
    require,
    to_numpy,
)
from ..exceptions import DivergenceError
from ..inference import map_rows
from ..machine import has_integral, may_lack_integral
from ._average import Average
from ._length import as_numbers
from ._parameters import NATURAL
from ._together import Shares

_OFFSET_WEIGHT = 0.05  # of a new batch in the running means of the layers
_CHECKED = 0.2  # part of the epochs after which it is checked once whether chains mix
_CHECKED_ROWS = 256  # of data, whose main direction is that of the check
CORRELATED = 0.8  # autocorrelation over 50 sweeps above which they do not
_LEAST_PRECISION = 0.5  # of an unbounded unit after a step, over that before it
_MOST_SPREAD = 25.0  # mean square of samples of a real column, which is 1 in the data
_MAX_RESTORED = 3  # times that a fit continues from the last checkpoint with half the length


@dataclass
class Training:
    """State needed to resume training.

    Attributes
    ----------
    rng : Rng
    machine : Machine or None
        None outside of training.
    phase_state, optimizer_state, length_state
        States of the model phase, the optimizer and the step length.
    n_epochs : int
    parts : Recipe
        The components that the states belong to.
    n_rows, visible_means
        Number of rows learnt from, and their means.
    offsets : tuple of arrays or None
        Running means of the layers, for centred gradients.
    average : Average or None
    first : Machine or None
        Where learning has begun, as long as it may restart with other chains.
    n_restarted : int
        Epochs before learning has restarted with other chains.
    length_factor : float
        Factor on automatic step lengths, halved when a fit is restored from its checkpoint.
    n_restored : int
    """

    rng: Any
    machine: Any = None
    phase_state: Any = None
    optimizer_state: Any = None
    n_epochs: int = 0
    parts: Any = None
    n_rows: int = 0
    visible_means: Any = None
    length_state: Any = None
    offsets: Any = None
    average: Any = None
    first: Any = None
    n_restarted: int = 0
    length_factor: float = 1.0
    n_restored: int = 0

    def continued(self):
        """Return a copy for another fit, which leaves this state as it is."""
        return replace(self, rng=copy.deepcopy(self.rng))

    def published(self):
        """Return a copy of the current machine, or of the average if there is one."""
        return self.machine.copy() if self.average is None else self.average.published(self.machine)

    def reset_optimizer(self):
        """Drop the state of the optimizer and the offsets, with the parameters they belong to."""
        self.optimizer_state = self.offsets = None

    def end(self):
        """Drop the machine, which belongs to training; the average remains."""
        if self.machine is not None and self.average is not None:
            self.average = replace(self.average, last=self.machine)
        self.machine = None

    def resume_from(self, machine):
        """Take a machine to train; if it is the average, the last machine behind it."""
        if self.average is not None:
            self.average = self.average.copy() if self.average.is_of(machine) else None
        self.machine = machine if self.average is None else self.average.last

    def checkpoint(self):
        """Return a function that restores the present state."""
        kept = [getattr(self, name) for name in _STEPPED]
        machine, optimizer_state = self.machine.copy(), map_rows(copied, self.optimizer_state)
        average = None if self.average is None else self.average.means.copy()

        def restore():
            for name, value in zip(_STEPPED, kept, strict=True):
                setattr(self, name, value)
            self.machine = machine.copy()
            self.optimizer_state = map_rows(copied, optimizer_state)
            if average is not None:
                self.average = replace(self.average, means=average.copy())

        return restore


_STEPPED = "machine phase_state optimizer_state length_state offsets average".split()
"""Attributes of a :class:`Training` that a step changes."""


def _taken_from(training):
    """Return what a step changes of a training, as one state."""
    return tuple(getattr(training, name) for name in _STEPPED)


def _put(training, state):
    """Put the state into a training."""
    for name, part in zip(_STEPPED, state, strict=True):
        setattr(training, name, part)


class BatchLearner:
    """Learns from batches of rows, in a new random order in each epoch.

    A subclass gives ``step(training, index, rate)``, which learns from the rows at an index array,
    or whatever else stands for a batch in ``rows``, and returns numbers for the history, a dict of
    floats, and whether the parameters are finite. It may replace ``before_epoch`` and
    ``after_epoch``.

    Parameters
    ----------
    rows : Rows
        The data.
    index : ndarray of int
        Positions of the rows to learn from. A step is given some, in the library of the data.
    batch_size : int
        Largest number of rows of a batch; batches have nearly the same size.
    length : StepLength, default=None
        Rule for the length of steps; with None it is the learning rate. With a rule, an epoch
        that diverges is repeated from its start with half the length, at most three times in a
        fit.
    """

    def __init__(self, rows, index, batch_size, length=None):
        self.rows, self.index, self.batch_size = rows, index, batch_size
        self.length = length

    def step(self, training, index, rate):
        """Learn from one batch; the machine is consumed.

        Returns numbers for the history, and whether the parameters are finite, which on a device
        may not be known yet.
        """
        raise NotImplementedError

    def review(self, training, progress):
        """Look at a training before an epoch, a fraction ``progress`` of all has passed."""

    def before_epoch(self, training, rate):
        """Prepare an epoch; called again if it is repeated. Returns the function of a step."""
        return self.step

    def after_epoch(self, training):
        """Check the machine after an epoch.

        Returns more numbers for the history, None if parameters are not finite.
        """
        return {} if self.is_finite(training.machine) else None

    def epoch(self, training, progress, rate):
        """Learn from all rows once; returns numbers for the history.

        Parameters
        ----------
        training : Training
            Which is changed.
        progress : float
            Fraction of the epochs that has passed.
        rate : float
            The learning rate.

        Raises
        ------
        DivergenceError
            If parameters are no longer finite, or the distribution cannot be normalized.
        """
        self.review(training, progress)
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
                if restore is None:
                    raise
                training.n_restored += 1
                if training.n_restored > _MAX_RESTORED:
                    raise
                restore()
                training.length_factor /= 2

    def _n_batches(self, n_rows):
        """Return how many batches the rows of an epoch are cut into."""
        return -(-n_rows // self.batch_size)

    def is_finite(self, machine):
        """Whether the parameters are finite in learning, and as they are published."""
        return machine.is_finite()


def _means(reports):
    """Return the means of the numbers of reports, which are exact if they are equal."""
    names, n = reports[0], len(reports)
    values = numbers(report[name] for name in names for report in reports)
    parts = {name: values[i * n : (i + 1) * n] for i, name in enumerate(names)}
    return {name: v[0] + fmean(value - v[0] for value in v) for name, v in parts.items()}


def _diverged(quantity, n_epochs, batch, rate):
    return DivergenceError(
        f"the {quantity} were no longer finite after batch {batch + 1} of epoch "
        f"{n_epochs + 1}, at a learning rate of {rate:.3g}; lower learning_rate or "
        "momentum, or scale X (the parameters of the last complete epoch are kept)"
    )


def _moved_offsets(offsets, machine, data):
    """Return running means of the layers, after those of a batch; the first are its own."""
    means = [data.statistics(unit, l).field for l, unit in enumerate(machine.units)]
    if offsets is None:
        return tuple(means)
    pairs = zip(offsets, means, strict=True)
    return tuple(old + _OFFSET_WEIGHT * (new - old) for old, new in pairs)


def check_integral(machine, when):
    """Raise DivergenceError if the distribution of a machine cannot be normalized."""
    if not has_integral(machine):
        raise DivergenceError(
            f"the distribution cannot be normalized {when}: the couplings between unbounded units "
            "are too strong for their precisions; lower learning_rate, scale X, start at "
            "smaller weights, give the units a larger min_precision, or use units with bounds, "
            "such as hidden='truncated_gaussian' (the last good parameters are kept)"
        )


class MomentLearner(BatchLearner):
    """Learns a machine by moment matching.

    The gradient of the log-likelihood is data moments minus the machine's moments. Every inference,
    deterministic or sampling, is used through this one step.

    Parameters
    ----------
    rows : Rows
        The data.
    phase : ModelPhase
    optimizer : Optimizer
    index, batch_size : as in :class:`BatchLearner`
    length : StepLength, default=None
        That of gradient ascent, which the optimizer may change; None for the learning rate.
    parameters : NaturalParameters, default=NATURAL
        The parameters that the optimizer sees.
    sample_values : bool, default=False
        Whether values between 0 and 1 of binary units are probabilities, of which each batch takes
        draws.
    n_rows : float, default=None
        Number of rows that the penalty is for; default: that of ``rows``.
    is_finite : callable, default=None
        Whether a machine can be published; default: whether all its parameters are finite.
    labels : LabelColumns, default=None
        Visible columns whose probabilities given the others may be learnt as well.
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
        index = np.arange(len(rows)) if index is None else index
        _check_ranks(phase, optimizer)
        n_rows, n_columns = rows.total if n_rows is None else n_rows, rows.X.shape[1]
        self.phase, self.optimizer = phase, optimizer.for_data(n_rows, n_columns)
        if length is not None:
            length = self.optimizer.step_length(length, n_columns)
        super().__init__(rows, index, batch_size, length)
        self.parameters = parameters
        self.centered = optimizer.centered and parameters.is_natural
        self.average = optimizer.average and parameters.is_natural
        self.sample_values = sample_values and rows.has_fractions
        self._is_finite, self._shares = is_finite, None
        self.labels = labels
        self._replays = True  # as far as is known
        self._replayed, self._alike = None, (None, None)  # what its steps share
        self._restarted = None  # parts of training after it has restarted with other chains
        self._factor = None  # the rate of the schedule on a device, where recorded steps read it

    def before_epoch(self, training, rate):
        self._replay(training, rate)
        return self.step if self._replayed is None else self._replayed_step

    def after_epoch(self, training):
        if self._replayed is not None:
            _put(training, self._replayed.released(_taken_from(training)))
        training.length_state = as_numbers(training.length_state)
        if not self.is_finite(training.machine):
            return None
        if self._samples_leave_data(training):
            raise DivergenceError(
                f"samples of the machine were far from the data after epoch "
                f"{training.n_epochs + 1}; lower learning_rate or n_components (the parameters of "
                "the last complete epoch are kept)"
            )
        if not self.optimizer.makes_zeros:  # parameters that are chosen again have other zeros
            training.machine = self.parameters.fixed(training.machine)
            if training.average is not None:
                means = self.parameters.fixed(training.average.means)
                training.average = replace(training.average, means=means)
        check_integral(training.machine, f"after epoch {training.n_epochs + 1}")
        if self._restarted is not None:  # only now, as these parts belong to the state of now
            training.parts, self._restarted = self._restarted, None
        return self.optimizer.report(training.machine.weights)

    def _samples_leave_data(self, training):
        """Whether a real column has a far larger variance in samples than in the data.

        A step past the couplings at which the distribution splits leads there. Missing values,
        which are drawn from the machine, would follow it.
        """
        coordinates = getattr(self.parameters, "coordinates", None)
        if coordinates is None or not self.phase.samples_model:
            return False
        unit = training.machine.units[0]
        columns = unit.columns_with("is_standardised", self.rows.X.shape[1])
        rows = self.phase.samples(training.phase_state, None)
        weights = self.phase.weights(training.phase_state)
        squares = coordinates.inward(rows) ** 2
        if weights is None:
            squares = namespace(rows).mean(squares, axis=0)
        else:
            squares = cast(weights, squares.dtype) @ squares
        return bool((to_numpy(squares)[columns] > _MOST_SPREAD).any())

    def review(self, training, progress):
        """Restart from the first machine with the other phase if the chains do not mix."""
        if training.first is None or progress < _CHECKED:
            return
        first, training.first = training.first, None
        rows = self.rows.some(_CHECKED_ROWS, training.rng)
        found = self.phase.autocorrelation(
            training.machine, training.phase_state, rows, training.rng
        )
        if found <= CORRELATED:
            return
        phase, n = training.parts.fallback, training.parts.fallback.n_states
        training.machine = first.copy()
        training.phase_state = phase.init(first, training.rng, n, self.rows.some(n, training.rng))
        training.optimizer_state = self.optimizer.init(self.parameters.of(training.machine))
        training.length_state = training.offsets = training.average = None
        training.n_restarted = training.n_epochs
        self._restarted = replace(training.parts, phase=phase, fallback=None)
        self.phase, n_columns = phase, training.machine.n_units[0]
        self.length = self.optimizer.step_length(phase.step_length(first), n_columns)
        self._replayed, self._alike = None, (None, None)

    # ---------------------------------------------------- recorded steps on a device

    def _replay(self, training, rate):
        """Replay the steps of the next epoch, where that is possible, as they are alike."""
        if self._replayed is not None and not self._replayed.works:  # nor would another
            self._replayed, self._replays = None, False
        first = training.machine.thetas[0].field
        if not (self._replays and can_replay(first)) or ranks().size > 1:
            return
        alike = self._recorded(training, rate), training.rng
        if alike[0] == self._alike[0] and alike[1] is self._alike[1]:
            return
        self._alike = alike
        learning = weakref.ref(self)  # so that recordings end with the fit, not by a collection

        def stepped(state, index):
            return learning()._stepped(training, rate, state, index)

        self._replayed = Replayed(stepped, training.rng, before=self._replayed)

    def _recorded(self, training, rate):
        """Return what a recording of steps keeps of the learning rate of the schedule."""
        if self.length is None:
            return rate
        if self._factor is None:
            field = training.machine.thetas[0].field
            xp = namespace(field)
            self._factor = xp.zeros((), **{**like(field), "dtype": xp.float64})
        self._factor[...] = rate * training.length_factor  # another one in each epoch
        return rate > 0

    def _replayed_step(self, training, index, rate):
        key = self.kind_of_step(training)
        state, report = self._replayed(key, _taken_from(training), index)
        _put(training, state)
        return report, report.pop("is_finite")

    def _stepped(self, training, rate, state, index):
        """Take a step from a state, as a function; returns the next state and numbers."""
        _put(training, state)
        report, is_finite = self.step(training, index, rate)
        return _taken_from(training), report | {"is_finite": is_finite}

    def kind_of_step(self, training):
        """Return what tells the next step from steps with other operations, None if nothing does.

        A step of no kind is never replayed.
        """
        state = training.length_state
        if self.length is None:
            return ()
        if state is None or not self.length.is_steady(state):
            return None
        return (self.length.measures(state),)

    # ---------------------------------------------------- one step

    def step(self, training, index, rate):
        phase, rng, (X, observed) = self.phase, training.rng, self.rows.batch(index)
        machine = training.machine
        before = phase.reviewed(machine, training.phase_state, rng)
        if self.sample_values:
            X = cast(rng.uniform(X.shape) < X, X.dtype)
        if observed is None:
            state, data, model = phase.phases(machine, before, X, rng)
        else:
            state, data, model = phase.incomplete_phases(machine, before, X, observed, rng)
        training.phase_state = state
        if self.labels is not None:
            model = self.labels.mixed(machine, model, X, observed)
        metric = model if phase.samples_model else data
        difference = self.optimizer.difference(machine, data, model, metric, self.parameters)
        if self._shares is not None:
            difference, data = self._shares.moments(machine, difference, data)
        if self.centered:
            training.offsets = _moved_offsets(training.offsets, machine, data)
        slopes = self.parameters.gradient(machine, difference)
        length = self._take(training, slopes, X, rate)
        report = {"learning_rate": length, **phase.report(training.phase_state)}
        return report, training.machine.has_finite_thetas()

    def _n_batches(self, n_rows):
        if ranks().size == 1:
            return super()._n_batches(n_rows)
        weight = float(self.rows.weights_of(self.index).sum())
        self._shares = Shares(n_rows, weight, self.batch_size)
        return len(self._shares.parts)

    def _take(self, training, slopes, X, rate):
        """Take a step of the optimizer, and return its length.

        Parameters
        ----------
        training : Training
            Whose machine is changed.
        slopes : Gradient
            Of the log-likelihood by the parameters of the machine.
        X : array of shape (n_rows, n_visible)
            The batch.
        rate : float
            Learning rate of the schedule; with a rule for the length, the factor on it.
        """
        if self.length is None:
            self._finish_step(training, self._move(training, slopes, rate))
            return rate
        state = self.length.init() if training.length_state is None else training.length_state
        factor = rate * training.length_factor if self._factor is None else self._factor
        if not self.length.measures(state) or rate == 0:
            length = factor * state.rate
            self._finish_step(training, self._move(training, slopes, _like(length, X)))
            training.length_state = self.length.unmeasured(state)
            return length
        return self._take_measured(training, slopes, X, state, factor)

    def _take_measured(self, training, slopes, X, state, factor):
        """Take a step, measure its divergence, and shorten it if that is too large."""
        phase, machine, length = self.phase, training.machine, factor * state.rate
        rows = phase.samples(training.phase_state, X)
        energies = phase.free_energy(machine, rows)
        parameters = self.parameters.of(machine)
        before = tuple(copied(part) for part in parameters)
        parameters = self._move(training, slopes, _like(length, X))
        moved = self.parameters.machine(training.machine, parameters)
        change = phase.free_energy(moved, rows) - energies
        change = _for_equal_totals(moved, rows, change)
        weights = phase.weights(training.phase_state)
        training.length_state, part = self.length.next(state, change, length, weights)
        if may_lack_integral(moved.units) and not is_foreign(X) and not has_integral(moved):
            part, training.length_state = 0.0 * part, self.length.rejected(state)
        self._shorten(parameters, before, part, X)
        if not is_foreign(part) and part == 0:  # its momentum would lead there again
            training.optimizer_state = self.optimizer.init(parameters)
        training.machine = self.parameters.machine(moved, parameters)
        self._finish_step(training, parameters)
        return length * part

    @staticmethod
    def _shorten(parameters, before, part, X):
        """Keep a part of a step that has led from ``before`` to ``parameters``, in place."""
        if is_foreign(part) or part < 1:
            keep = _like(part, X)
            for now, old in zip(parameters, before, strict=True):
                # Of a step to infinity nothing is kept, and 0 times infinity would be NaN.
                now[...] = namespace(now).where(keep > 0, keep * now + (1 - keep) * old, old)

    def _move(self, training, slopes, rate):
        """Move the parameters by a step of the optimizer, and return them."""
        parameters, gradient = self.parameters.of(training.machine), slopes
        precisions = [
            (i, copied(parameters[i])) for i in self.parameters.precisions(training.machine)
        ]
        follows = self.centered and not self.optimizer.is_linear
        before = [copied(W) for W in parameters[: slopes.n_penalised]] if follows else ()
        if self.centered:
            gradient = self.parameters.centered(
                slopes,
                training.machine,
                training.offsets,
                not follows,
                shrinkage=self.optimizer.shrinkage,
                weights=parameters[: slopes.n_penalised],
            )
        training.optimizer_state = self.optimizer.update(
            parameters, gradient, training.optimizer_state, rate
        )
        if follows:
            gradient.follow(parameters, before)
        for i, old in precisions:
            now = parameters[i]
            now[...] = namespace(now).maximum(now, _LEAST_PRECISION * old)
        return parameters

    def _finish_step(self, training, parameters):
        """Set the machine to parameters, and move the average and the phase after it."""
        training.machine = self.parameters.machine(training.machine, parameters)
        if not self.average:
            training.average = None
        elif training.average is None:
            training.average = Average.of(training.machine, self.optimizer.makes_zeros)
        else:
            training.average = training.average.moved(training.machine, self.optimizer.makes_zeros)

    def is_finite(self, machine):
        return machine.is_finite() if self._is_finite is None else self._is_finite(machine)


def _check_ranks(phase, optimizer):
    """Raise ValueError if the parts cannot train on several ranks, and there are several."""
    if ranks().size == 1:
        return
    if not phase.for_ranks:
        raise ValueError(
            f"{phase.start} chains learn in one process only; fit outside of "
            "skrbm.distributed.use, or let them start elsewhere"
        )
    if not optimizer.for_ranks:
        raise ValueError(f"{optimizer} learns in one process only; choose 'sgd' or 'adam'")


def _for_equal_totals(machine, rows, change):
    """Return changes of free energies less what they have in common with the totals of rows.

    Rows of other totals have another log Z, and its change says nothing of their distribution.
    """
    totals = machine.units[0].totals(rows)
    if totals is None:
        return change
    mean = namespace(totals).mean
    apart, change = totals - mean(totals), change - mean(change)
    return change - apart * (mean(apart * change) / (mean(apart * apart) + 1e-12))


def _like(length, X):
    """Return a number in the dtype of X, where it is an array."""
    return cast(length, X.dtype) if is_foreign(length) else float(length)
