"""The state of a fit, from which it can be continued, also by another process."""

import copy
from dataclasses import dataclass, field, replace
from typing import Any

from ..arrays import copied
from ..inference import map_rows


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
    recipe : Recipe
        The components that the states belong to.
    n_rows, visible_means
        Number of rows used in training, and their means.
    offsets : tuple of arrays or None
        Running means of the layers, for centered gradients.
    average : Average or None
    length_factor : float
        Factor on automatic step lengths, halved when a fit is restored from its checkpoint.
    n_restored : int
    """

    rng: Any
    machine: Any = None
    phase_state: Any = None
    optimizer_state: Any = None
    n_epochs: int = 0
    recipe: Any = None
    n_rows: int = 0
    visible_means: Any = None
    length_state: Any = None
    offsets: Any = None
    average: Any = None
    length_factor: float = 1.0
    n_restored: int = 0

    @property
    def stepped(self):
        """The parts of the state that a step changes, a tuple."""
        return (
            *(self.machine, self.phase_state, self.optimizer_state),
            *(self.length_state, self.offsets, self.average),
        )

    @stepped.setter
    def stepped(self, state):
        self.machine, self.phase_state, self.optimizer_state, *rest = state
        self.length_state, self.offsets, self.average = rest

    def checkpoint(self):
        """Return a function that restores the present state."""
        machine, phase_state, velocity, length, offsets, average = self.stepped
        machine, velocity = machine.copy(), map_rows(copied, velocity)
        means = None if average is None else average.means.copy()

        def restore():
            again = None if average is None else replace(average, means=means.copy())
            moved = machine.copy(), phase_state, map_rows(copied, velocity)
            self.stepped = (*moved, length, offsets, again)

        return restore

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
        """Set the machine to train; if it is the average, the last machine is used instead."""
        if self.average is not None:
            self.average = self.average.copy() if self.average.is_of(machine) else None
        self.machine = machine if self.average is None else self.average.last


@dataclass(frozen=True)
class Progress:
    """Everything on which the rest of a fit depends, after one of its epochs, without copies.

    Parameters
    ----------
    training : Training or None, default=None
        None if the fit is complete.
    n_epochs : int, default=0
        Number of epochs of this fit that are complete.
    monitor : dict, default=None
        State of the monitor.
    own : dict
        What else the estimator needs to rebuild the parts of the fit: ``rows``, a fingerprint of
        the data, and ``random_state``, with which the fit began.
    """

    training: Training | None = None
    n_epochs: int = 0
    monitor: dict | None = None
    own: dict = field(default_factory=dict)

    def begun(self, rows):
        """Return the training that the fit began with, by its random state of that moment.

        None if the fit has come to its end. Raises ValueError if ``rows``, a fingerprint of the
        data, is another one than that of the fit.
        """
        if rows != self.own["rows"]:
            raise ValueError(
                "the interrupted fit had other rows, weights or targets; pass the same ones, in "
                "any order, or load the file and call fit"
            )
        return self.training and replace(self.training, rng=self.own["random_state"])
