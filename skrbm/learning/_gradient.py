"""The learners: what an epoch of training does to a machine."""

import weakref
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np

from .._ranks import ranks
from ..arrays import Replayed, can_replay, cast, copied, numbers, put_off, require
from ..exceptions import DivergenceError
from ..machine import has_integral
from ._average import Average
from ._parameters import NATURAL
from ._together import Shares

_OFFSET_WEIGHT = 0.05  # of a new batch in the running means of the layers


@dataclass
class Training:
    """What a fit goes on from: random stream, machine, states of phase and optimiser.

    ``parts`` is what the states belong to, and ``visible_means`` are those of ``n_rows`` rows of
    data. ``rate_factor`` multiplies the learning rate; it falls where the model phase takes steps
    back. ``rate_state`` is that of an automatic learning rate, and ``offsets`` are running means of
    the layers, for centred gradients. ``average`` is that of the parameters, if they are averaged,
    and ``saved`` a machine and a state to go back to, and earlier ones. The machine is there only
    in training, but ``saved`` stays if the next fit can go on from here, so that steps of calls
    with one batch each can be taken back. ``credit`` is the cost that estimates of log Z may have.
    """

    rng: Any
    machine: Any = None
    phase_state: Any = None
    optimizer_state: Any = None
    n_epochs: int = 0
    parts: Any = None
    n_rows: int = 0
    visible_means: Any = None
    rate_factor: float = 1.0
    rate_state: Any = None
    offsets: Any = None
    average: Any = None
    saved: Any = None
    credit: float = 0.0

    def published(self):
        """Return the machine of this moment, or that of averaged parameters; a copy."""
        return self.machine.copy() if self.average is None else self.average.published(self.machine)

    def forget(self):
        """Give up what was learnt of steps, where their parameters are given up."""
        self.optimizer_state = self.offsets = None

    def end(self):
        """Give up the machine, which belongs to training; what was averaged is kept."""
        if self.machine is None:
            return
        if self.average is not None:
            self.average = replace(self.average, last=self.machine)
        else:  # nothing tells whether the next fit goes on from here
            self.saved = None
        self.machine = None

    def goes_on_from(self, machine):
        """Take a machine to train on; or, if it is a mean, the one that training had come to."""
        if self.average is not None:
            self.average = self.average.copy() if self.average.is_of(machine) else None
        if self.average is None:
            self.saved = None
        self.machine = machine if self.average is None else self.average.last


class BatchLearner:
    """Learns from batches of rows, one pass over all in an epoch.

    A subclass gives ``step(training, index, rate)``, which learns from the rows at an index array,
    or whatever else stands for a batch in ``rows``, and returns numbers for the history, a dict of
    floats.

    Parameters
    ----------
    rows : Rows
        The data.
    index : ndarray of int
        Positions of the rows to learn from. A step is given some, in the library of the data.
    batch_size : int
        Largest number of rows of a batch; batches have nearly the same size.
    shuffle : bool
        Whether the rows are put into a new random order in each epoch.
    """

    def __init__(self, rows, index, batch_size, shuffle=True):
        self.rows, self.index, self.batch_size, self.shuffle = rows, index, batch_size, shuffle

    def step(self, training, index, rate):
        """Learn from one batch; the machine is consumed. Returns numbers for the history."""
        raise NotImplementedError

    def epoch(self, training, progress, rate):
        """Go once through the rows; returns numbers for the history.

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
            If parameters are no longer finite.
        """
        rows, reports = self.rows, []
        batches = rows.batches(self.index, training.rng, self._n_batches, self.shuffle)
        with np.errstate(over="ignore", invalid="ignore"):
            with put_off():
                for batch, part in enumerate(batches):
                    report, is_finite = self.taken(training, part, rate)
                    reports.append(report)
                    if is_finite is not True:  # or nobody knows yet
                        told = "intercepts", training.n_epochs, batch, rate
                        require(is_finite, partial(_diverged, *told))
            self.finish(training)
            if not self.is_finite(training.machine):
                raise _diverged("components", training.n_epochs, batch, rate)
        return _means(reports)

    def taken(self, training, index, rate):
        """Take a step; returns its numbers, and whether the fields are finite after it."""
        return self.step(training, index, rate), training.machine.has_finite_thetas()

    def _n_batches(self, n_rows):
        """Return how many batches the rows of an epoch are cut into."""
        return -(-n_rows // self.batch_size)

    def finish(self, training):
        """Change what the last batch of an epoch has left, before its parameters are judged."""

    def is_finite(self, machine):
        """Whether the parameters are finite in learning, and as they are published."""
        return machine.is_finite()


_STEPPED = (
    "machine phase_state optimizer_state rate_state offsets average saved rate_factor".split()
)
"""What a step changes of a :class:`Training`."""


def _taken_from(training):
    """Return what a step changes of a training, as one state."""
    return tuple(getattr(training, name) for name in _STEPPED)


def _put(training, state):
    """Put the state into a training."""
    for name, part in zip(_STEPPED, state, strict=True):
        setattr(training, name, part)


def _means(reports):
    """Return the means of the numbers of reports, which are exact if they are equal."""
    names, n = reports[0], len(reports)
    values = numbers(report[name] for name in names for report in reports)
    parts = {name: values[i * n : (i + 1) * n] for i, name in enumerate(names)}
    return {name: v[0] + fmean(value - v[0] for value in v) for name, v in parts.items()}


def _diverged(quantity, n_epochs, batch, rate):
    return DivergenceError(
        f"the {quantity} were no longer finite after batch {batch + 1} of epoch "
        f"{n_epochs + 1}, at a learning rate of {rate:.3g}. Lower learning_rate or "
        "momentum, or scale X. The parameters of the last complete epoch are kept."
    )


def _moved_offsets(offsets, machine, data):
    """Return running means of the layers, after those of a batch; the first are its own."""
    means = [data.statistics(unit, l).field for l, unit in enumerate(machine.units)]
    if offsets is None:
        return tuple(means)
    pairs = zip(offsets, means, strict=True)
    return tuple(old + _OFFSET_WEIGHT * (new - old) for old, new in pairs)


def check_integral(machine, when):
    """Raise DivergenceError if a machine's distribution has no integral."""
    if not has_integral(machine):
        raise DivergenceError(
            f"the distribution has no integral {when}: the couplings between units without "
            "bounds are too strong for their precisions. Lower learning_rate, scale X, start at "
            "smaller weights, give the units a larger min_precision, or use units with bounds, "
            "such as hidden='truncated_gaussian'. The last good parameters are kept."
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
    optimizer : SGD or Adam
    index, batch_size, shuffle : as in :class:`BatchLearner`
    parameters : NaturalParameters, default=NATURAL
        The parameters that the optimiser sees.
    centered : bool, default=False
        Whether gradients are centred; only with natural parameters.
    average : bool, default=False
        Whether parameters are averaged over the steps; only with natural parameters.
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
        shuffle=True,
        parameters=NATURAL,
        centered=False,
        average=False,
        sample_values=False,
        n_rows=None,
        is_finite=None,
        labels=None,
    ):
        if ranks().size > 1 and not phase.for_ranks:
            raise ValueError(
                f"{phase.start} chains learn in one process only; fit outside of "
                "skrbm.distributed.use, or let them start elsewhere"
            )
        index = np.arange(len(rows)) if index is None else index
        super().__init__(rows, index, batch_size, shuffle)
        self.phase = phase
        n_rows = rows.total if n_rows is None else n_rows
        self.optimizer = optimizer.for_data(n_rows, rows.X.shape[1])
        self.parameters, self.centered, self.average = parameters, centered, average
        self.sample_values = sample_values and rows.has_fractions
        self._is_finite, self._phase, self._shares = is_finite, phase, None
        self.labels = labels
        self._replays = True  # as far as is known
        self._replayed, self._alike = None, (None, None, None)  # what its steps share

    def epoch(self, training, progress, rate):
        self._phase = self.phase.at(progress)
        self._replay(training, rate)
        report = super().epoch(training, progress, rate)
        if not self.optimizer.makes_zeros:  # parameters that are chosen anew have other zeros
            training.machine = self.parameters.fixed(training.machine)
            if training.average is not None:
                means = self.parameters.fixed(training.average.means)
                training.average = replace(training.average, means=means)
        check_integral(training.machine, f"after epoch {training.n_epochs + 1}")
        return report | self.optimizer.report(training.machine.weights)

    def _replay(self, training, rate):
        """Replay the steps of the next epoch, where that is possible, as they are alike."""
        if self._replayed is not None and not self._replayed.works:  # nor would another
            self._replayed, self._replays = None, False
        first = training.machine.thetas[0].field
        if not (self._replays and can_replay(first)) or ranks().size > 1:
            return
        (phase, *last), alike = self._alike, (self._recorded(training, rate), training.rng)
        if phase is self._phase and last[0] == alike[0] and last[1] is alike[1]:
            return
        self._alike = self._phase, *alike
        learning = weakref.ref(self)  # so that recordings end with the fit, not by a collection

        def stepped(state, index):
            return learning()._stepped(training, rate, state, index)

        self._replayed = Replayed(stepped, training.rng, before=self._replayed)

    def _recorded(self, training, rate):
        """Return what a recording of steps keeps of the learning rate of the schedule."""
        return rate

    def _stepped(self, training, rate, state, index):
        """Take a step from a state, as a function; returns the next state and numbers."""
        _put(training, state)
        report, is_finite = super().taken(training, index, rate)
        return _taken_from(training), report | {"is_finite": is_finite}

    def taken(self, training, index, rate):
        if self._replayed is None:
            return super().taken(training, index, rate)
        key = self.kind_of_step(training)
        state, report = self._replayed(key, _taken_from(training), index)
        _put(training, state)
        is_finite = report.pop("is_finite")
        return report, is_finite

    def kind_of_step(self, training):
        """Return what tells the next step from steps with other operations, None if nothing does.

        A step of no kind is never replayed.
        """
        return ()

    def finish(self, training):
        if self._replayed is not None:
            _put(training, self._replayed.released(_taken_from(training)))

    def step(self, training, index, rate):
        machine, before = self._reviewed(training)
        phase, rng, (X, observed) = self._phase, training.rng, self.rows.batch(index)
        if self.sample_values:
            X = cast(rng.uniform(X.shape) < X, X.dtype)
        if observed is None:
            state, data, model = phase.phases(machine, before, X, rng)
        else:
            state, data, model = phase.incomplete_phases(machine, before, X, observed, rng)
        training.machine, training.phase_state = machine, state
        if self.labels is not None:
            model = self.labels.mixed(machine, model, X, observed)
        difference = data - model
        if self._shares is not None:
            difference, data = self._shares.moments(machine, difference, data)
        slopes = self.parameters.gradient(machine, difference)
        length = self._take(training, slopes, data, X, rate)
        if self._shares is not None:
            self._shares.meet(training)
        return {"learning_rate": length, **phase.report(state)}

    def _n_batches(self, n_rows):
        if ranks().size == 1:
            return super()._n_batches(n_rows)
        weight = float(self.rows.weights_of(self.index).sum())
        self._shares = Shares(n_rows, weight, self.batch_size)
        return len(self._shares.parts)

    def _take(self, training, slopes, data, X, rate):
        """Take a step of the optimiser; returns its learning rate, 0 if no step was taken.

        Parameters
        ----------
        training : Training
            Whose machine is changed.
        slopes : Gradient
            Of the log-likelihood by the parameters of the machine.
        data : Moments
            Those of the batch.
        X : array of shape (n_rows, n_visible)
            The batch.
        rate : float
            The learning rate of the schedule.
        """
        training.saved = None
        rate *= training.rate_factor
        self._move(training, slopes, data, rate)
        return rate

    def _move(self, training, slopes, data, rate):
        """Move the machine, and the average if there is one; returns the parameters after it."""
        parameters, gradient = self.parameters.of(training.machine), slopes
        follows = self.centered and not self.optimizer.is_linear
        before = [copied(W) for W in parameters[: slopes.n_penalised]] if follows else ()
        if self.centered:
            training.offsets = _moved_offsets(training.offsets, training.machine, data)
            offsets = training.offsets
            gradient = self.parameters.centered(
                slopes,
                training.machine,
                offsets,
                not follows,
                shrinkage=self.optimizer.shrinkage,
                weights=parameters[: slopes.n_penalised],
            )
        training.optimizer_state = self.optimizer.update(
            parameters, gradient, training.optimizer_state, rate
        )
        if follows:
            gradient.follow(parameters, before)
        training.machine = self.parameters.machine(training.machine, parameters)
        if not self.average:
            training.average = None
        elif training.average is None:
            training.average = Average.of(training.machine, self.optimizer.makes_zeros)
        else:
            training.average = training.average.moved(training.machine, self.optimizer.makes_zeros)
        return parameters

    def _reviewed(self, training):
        """Return the machine and the state of the phase that the next batch starts from."""
        machine, state, factor = self._phase.reviewed(
            training.machine, training.phase_state, training.rng
        )
        if factor < 1:  # momentum belongs to steps that are taken back
            training.optimizer_state = self.optimizer.init(self.parameters.of(machine))
            training.average = training.offsets = training.saved = None
            self._slow_down(training, factor)
        else:
            training.rate_factor = min(1.0, factor * training.rate_factor)
        return machine, state

    def _slow_down(self, training, factor):
        """Multiply the learning rate by a factor from now on, as steps were taken back."""
        training.rate_factor *= factor

    def is_finite(self, machine):
        return machine.is_finite() if self._is_finite is None else self._is_finite(machine)
