"""The learners: what an epoch of training does to a machine."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..arrays import namespace, to_numpy
from ..exceptions import DivergenceError
from ..machine import has_integral, precise_free_energy
from ._average import Average
from ._optimizers import ArrayGradient, Gradient

_OFFSET_WEIGHT = 0.05  # of a new batch in the running means of the layers


@dataclass
class Training:
    """What a fit goes on from: random stream, machine, states of phase and optimiser.

    ``parts`` is what the states belong to, and ``visible_means`` are those of ``n_rows`` rows of
    data. ``rate_factor`` multiplies the learning rate; it falls where the model phase takes steps
    back. ``rate_state`` is that of an automatic learning rate, and ``offsets`` are running means of
    the layers, for centred gradients. ``average`` is that of the parameters, if they are averaged,
    and ``saved`` a machine and a state to go back to. The machine is there only in training, but
    ``saved`` stays if the next fit can go on from here, so that steps of calls with one batch each
    can be taken back. ``credit`` is the cost that estimates of log Z may have.
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
        return (self.machine if self.average is None else self.average.means).copy()

    def end(self):
        """Give up the machine, which belongs to training; what was averaged is kept."""
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


class MachineGradient(Gradient):
    """Gradient of the log-likelihood by the natural parameters of a machine.

    Parameters
    ----------
    machine : Machine
    moments : Moments
        Those of the data minus those of the machine.
    """

    def __init__(self, machine, moments):
        self.machine, self.moments = machine, moments
        self.n_penalised = len(machine.weights)

    def add(self, targets, rate, keep=1.0):
        machine, n = self.machine, self.n_penalised
        for l, target in enumerate(targets[:n]):
            self.moments.add_pair(machine, l, target, rate, keep)
        targets = iter(targets[n:])
        for l, unit in enumerate(machine.units):
            slopes = self.moments.statistics(unit, l)
            for part, slope in zip(machine.thetas[l], slopes, strict=True):
                if part is not None:
                    target = next(targets)
                    target += rate * slope


class CenteredGradient(ArrayGradient):
    """A gradient by natural parameters in coordinates in which the layers have means of about zero.

    With offsets m_l the gradient of W_l is that of the couplings between x_l - m_l and
    x_{l+1} - m_{l+1}, and fields are changed so that a step of the weights leaves the mean fields
    as they are (Melchior, Fischer and Wiskott 2016). It ascends the likelihood as the plain
    gradient does, but does not depend on which state of a binary unit is called 1.

    Parameters
    ----------
    gradient : MachineGradient
    machine : Machine
        Whose natural parameters the gradient is by.
    offsets : tuple of array of shape (n_units[l],)
        m_l.
    """

    def __init__(self, gradient, machine, offsets):
        n = gradient.n_penalised
        arrays = list(gradient.arrays(NATURAL.of(machine)))
        fields = _places_of_fields(machine)
        slopes = [arrays[place] for place in fields]
        for l in range(n):
            below, above = offsets[l], offsets[l + 1]
            arrays[l] = arrays[l] - above[:, None] * slopes[l] - slopes[l + 1][:, None] * below
        for l, place in enumerate(fields):
            if l > 0:
                arrays[place] = arrays[place] - arrays[l - 1] @ offsets[l - 1]
            if l < n:
                arrays[place] = arrays[place] - offsets[l + 1] @ arrays[l]
        super().__init__(tuple(arrays), n)


def _places_of_fields(machine):
    """Return the positions of the layers' fields among the natural parameters."""
    places, place = [], len(machine.weights)
    for theta in machine.thetas:
        places.append(place)
        place += sum(part is not None for part in theta)
    return places


class NaturalParameters:
    """Learning by the machine's own parameters: weights, and natural parameters of the units."""

    gradient = MachineGradient

    def of(self, machine):
        """Return the parameters of a machine, a tuple of arrays: its own."""
        parts = [part for theta in machine.thetas for part in theta if part is not None]
        return (*machine.weights, *parts)

    def machine(self, machine, parameters):
        """Return the machine after its parameters were written in place."""
        layers = zip(machine.units, machine.thetas, strict=True)
        return machine.written([unit.project(theta) for unit, theta in layers])


NATURAL = NaturalParameters()


class BatchLearner:
    """Learns from batches of rows, one pass over all in an epoch.

    A subclass gives ``step(training, index, rate)``, which learns from the rows at an index array
    and returns numbers for the history, a dict of floats.

    Parameters
    ----------
    rows : Rows
        The data.
    index : ndarray of int
        Positions of the rows to learn from.
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
        rows, reports = self.rows.epoch(self.index, training.rng), []
        if self.shuffle:
            rows = rows[to_numpy(training.rng.permutation(len(rows)))]
        # Batches of nearly one size: a last one of few rows would be a noisy step of full length.
        n_batches = -(-len(rows) // self.batch_size)
        with np.errstate(over="ignore", invalid="ignore"):
            for batch, part in enumerate(np.array_split(rows, n_batches)):
                reports.append(self.step(training, part, rate))
                if not training.machine.has_finite_thetas():
                    _diverged("intercepts", training, batch, rate)
            if not self.is_finite(training.machine):
                _diverged("components", training, batch, rate)
        return {name: float(np.mean([r[name] for r in reports])) for name in reports[0]}

    def is_finite(self, machine):
        """Whether the parameters are finite in learning, and as they are published."""
        return machine.is_finite()


def _diverged(quantity, training, batch, rate):
    raise DivergenceError(
        f"the {quantity} were no longer finite after batch {batch + 1} of epoch "
        f"{training.n_epochs + 1}, at a learning rate of {rate:.3g}. Lower learning_rate or "
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
            f"the distribution has no integral {when}: the couplings between Gaussian units are "
            "too strong for their precisions. Lower learning_rate, scale X, start at smaller "
            "weights, or use units with bounds, such as hidden='truncated_gaussian'. The last good "
            "parameters are kept."
        )


class MomentLearner(BatchLearner):
    """Learns a machine by moment matching.

    The gradient of the log-likelihood is data moments minus the machine's moments. Every inference,
    deterministic or sampling, is used through this one step.

    Parameters
    ----------
    phase : ModelPhase
    optimizer : SGD or Adam
    parameters : NaturalParameters, default=NATURAL
        The parameters that the optimiser sees.
    centered : bool, default=False
        Whether gradients are centred; only with natural parameters.
    average : bool, default=False
        Whether parameters are averaged over the steps; only with natural parameters.
    automatic : AutomaticRate or None, default=None
        What finds the learning rate, which the given one is then a factor of.
    is_finite : callable, default=None
        Whether a machine can be published; default: whether all its parameters are finite.
    rows, index, batch_size, shuffle
        As in :class:`BatchLearner`.
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
        automatic=None,
        is_finite=None,
    ):
        index = np.arange(len(rows)) if index is None else index
        super().__init__(rows, index, batch_size, shuffle)
        self.phase, self.optimizer = phase, optimizer
        self.parameters, self.centered, self.average = parameters, centered, average
        self.automatic = None if automatic is None else automatic.cautious(optimizer.caution)
        self._is_finite, self._phase = is_finite, phase

    def epoch(self, training, progress, rate):
        self._phase = self.phase.at(progress)
        report = super().epoch(training, progress, rate)
        if self.automatic is not None:
            self._check_last_steps(training)
        check_integral(training.machine, f"after epoch {training.n_epochs + 1}")
        if self.automatic is None and training.rate_factor == 1.0:
            report.pop("learning_rate", None)  # it is the one given
        return report

    def step(self, training, index, rate):
        machine, before = self._reviewed(training)
        phase, rng, (X, observed) = self._phase, training.rng, self.rows.batch(index)
        if observed is None:
            state, data, model = phase.phases(machine, before, X, rng)
        else:
            state, data, model = phase.incomplete_phases(machine, before, X, observed, rng)
        training.machine, training.phase_state = machine, state
        parameters = self.parameters.of(machine)
        slopes = self.parameters.gradient(machine, data - model)
        if self.automatic is not None:
            length = self._measured_update(training, parameters, slopes, data, rate, X)
            if training.saved is not None and not training.machine.has_finite_thetas():
                length = rate * self._step_back(training)
            return {"learning_rate": length, **phase.report(state)}
        training.saved = None
        self._update(training, parameters, self._direction(training, slopes, data), rate)
        return {"learning_rate": rate * training.rate_factor, **phase.report(state)}

    def _direction(self, training, slopes, data):
        """Return the gradient that the optimiser takes."""
        if not self.centered:
            return slopes
        training.offsets = _moved_offsets(training.offsets, training.machine, data)
        return CenteredGradient(slopes, training.machine, training.offsets)

    def _update(self, training, parameters, gradient, rate):
        training.optimizer_state = self.optimizer.update(
            parameters, gradient, training.optimizer_state, rate * training.rate_factor
        )
        training.machine = self.parameters.machine(training.machine, parameters)
        if not self.average:
            training.average = None
        elif training.average is None:
            training.average = Average.of(training.machine)
        else:
            training.average = training.average.moved(training.machine)

    def _measured_update(self, training, parameters, slopes, data, factor, X):
        """Take a step of the automatic rate times a factor; returns its length."""
        automatic, state = self.automatic, training.rate_state
        state = automatic.init() if state is None else state
        length = factor * state.rate
        if not automatic.measures(state) or length == 0:
            self._update(training, parameters, self._direction(training, slopes, data), length)
            training.rate_state = state._replace(n_steps=state.n_steps + 1)
            return length
        samples = self._phase.visible(training.phase_state)
        rows = namespace(X).concat([samples, X], axis=0)
        energies = precise_free_energy(training.machine, rows)
        if self._has_run_away(training, rows, energies):
            return factor * self._step_back(training)
        training.saved = training.machine.copy(), training.phase_state
        slopes = ArrayGradient(slopes.arrays(parameters), slopes.n_penalised)
        self._update(training, parameters, self._direction(training, slopes, data), length)
        change = precise_free_energy(training.machine, samples) - energies[: samples.shape[0]]
        steps = zip(parameters, self.parameters.of(training.saved[0]), strict=True)
        pairs = zip(slopes.arrays(parameters), (new - old for new, old in steps), strict=True)
        gain = sum(float(namespace(slope).sum(slope * step)) for slope, step in pairs)
        n_visible = training.machine.n_units[0]
        training.rate_state = automatic.next(state, gain, change, n_visible, length)
        return length

    def _has_run_away(self, training, rows, energies):
        """Whether the machine has gone too far since the last measurement.

        Free energies of data tell even where all chains have fallen into one state.
        """
        if training.saved is None:
            return False
        change = energies - precise_free_energy(training.saved[0], rows)
        return self.automatic.is_too_far(change, training.machine.n_units[0])

    def _check_last_steps(self, training):
        """Take back the steps after the last measurement if they have gone too far."""
        if training.saved is not None:
            samples = self._phase.visible(training.phase_state)
            some = self.rows.batch(self.index[: samples.shape[0]])[0]
            rows = namespace(some).concat([samples, some], axis=0)
            if self._has_run_away(training, rows, precise_free_energy(training.machine, rows)):
                self._step_back(training)

    def _step_back(self, training):
        """Go back to the machine and the chains of the last measurement; returns the next rate."""
        machine, training.phase_state = training.saved
        training.machine = machine.copy()
        training.optimizer_state = self.optimizer.init(self.parameters.of(training.machine))
        training.average = training.offsets = None  # they have seen what is taken back
        training.rate_state = self.automatic.slower(training.rate_state)
        return training.rate_state.rate

    def _reviewed(self, training):
        """Return the machine and the state of the phase that the next batch starts from."""
        machine, state, factor = self._phase.reviewed(
            training.machine, training.phase_state, training.rng
        )
        if factor != 1.0:  # momentum belongs to steps that are taken back
            training.optimizer_state = self.optimizer.init(self.parameters.of(machine))
            training.average = training.offsets = training.saved = None
            if self.automatic is None:
                training.rate_factor *= factor
            elif training.rate_state is not None:
                training.rate_state = self.automatic.slower(training.rate_state)
        return machine, state

    def is_finite(self, machine):
        return machine.is_finite() if self._is_finite is None else self._is_finite(machine)
