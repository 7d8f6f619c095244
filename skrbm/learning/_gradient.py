"""The learners: what an epoch of training does to a machine."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import to_numpy
from ..exceptions import DivergenceError
from ..machine import has_integral
from ._optimizers import Gradient


@dataclass
class Training:
    """What a fit goes on from: random stream, machine, states of phase and optimiser.

    ``parts`` is what the states belong to, and ``visible_means`` are those of ``n_rows`` rows of
    data. ``rate_factor`` multiplies the learning rate; it falls where the model phase takes steps
    back. The machine is there only in training.
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
        is_finite=None,
    ):
        index = np.arange(len(rows)) if index is None else index
        super().__init__(rows, index, batch_size, shuffle)
        self.phase, self.optimizer = phase, optimizer
        self.parameters = parameters
        self._is_finite, self._phase = is_finite, phase

    def epoch(self, training, progress, rate):
        self._phase = self.phase.at(progress)
        report = super().epoch(training, progress, rate)
        check_integral(training.machine, f"after epoch {training.n_epochs + 1}")
        return report

    def step(self, training, index, rate):
        machine, before = self._reviewed(training)
        phase, rng, (X, observed) = self._phase, training.rng, self.rows.batch(index)
        if observed is None:
            state, data, model = phase.phases(machine, before, X, rng)
        else:
            state, data, model = phase.incomplete_phases(machine, before, X, observed, rng)
        parameters = self.parameters.of(machine)
        gradient = self.parameters.gradient(machine, data - model)
        training.optimizer_state = self.optimizer.update(
            parameters, gradient, training.optimizer_state, rate * training.rate_factor
        )
        training.machine, training.phase_state = self.parameters.machine(machine, parameters), state
        return phase.report(state)

    def _reviewed(self, training):
        """Return the machine and the state of the phase that the next batch starts from."""
        machine, state, factor = self._phase.reviewed(
            training.machine, training.phase_state, training.rng
        )
        if factor != 1.0:  # momentum belongs to steps that are taken back
            training.rate_factor *= factor
            training.optimizer_state = self.optimizer.init(self.parameters.of(machine))
        return machine, state

    def is_finite(self, machine):
        return machine.is_finite() if self._is_finite is None else self._is_finite(machine)
