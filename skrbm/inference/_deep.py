"""Learning of deep machines: the hidden layers given the visible one, and both phases."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..arrays import row_sums
from ..machine import Block, Moments, hidden_layers, input_field
from ._fixed_point import FixedPoint, Magnetizations, Solution, solve
from ._model_phase import Method


@dataclass(frozen=True)
class Independent(FixedPoint):
    """One layer of units without couplings, whose law needs no iteration."""

    max_iter: int = 1
    tol: float = 0.0
    damping: float = 0.0

    def start(self, machine, X):
        mean, variance = machine.units[0].mean_variance(machine.thetas[0])
        return Magnetizations((mean,), (variance,))

    def step(self, machine, state):
        return state

    def log_partition(self, machine, state):
        return row_sums(machine.units[0].log_partition(machine.thetas[0]))

    def moments(self, machine, state):
        occupied = (machine.units[0].occupancy(machine.thetas[0]),)
        return Moments((Block(*state, 1.0 / state.means[0].shape[0], occupied=occupied),))


def given_visible(machine, X, method):
    """Return the hidden layers given visible values, as a problem for a fixed point.

    The visible units are a field on the first hidden layer (App. E of Tramel et al. 2018), so a
    sweep costs no product with the first weight matrix.

    Parameters
    ----------
    machine : Machine
    X : array of shape (n_rows, n_visible)
    method : FixedPoint

    Returns
    -------
    hidden : Machine
        The hidden layers, with a law for each row.
    method : FixedPoint
        The one given; if there is one hidden layer, one that is exact.
    start : NamedTuple
        Its state that starts at E[h | X] without the layers above the first.
    """
    hidden = hidden_layers(machine, input_field(machine, 1, (X, None)))
    method = method if hidden.weights else Independent()
    return hidden, method, method.start(hidden, hidden.units[0].mean(hidden.thetas[0]))


def with_visible(moments, X):
    """Return the moments of hidden layers with those of the known visible values before them."""

    def known(block):
        below = {"means": (X, *block.means), "variances": (None, *block.variances)}
        for name in ("pair", "occupied"):
            part = getattr(block, name)
            below[name] = None if part is None else (None, *part)
        return block._replace(**below)

    matrices = tuple((l + 1, matrix) for l, matrix in moments.matrices)
    return Moments(tuple(known(block) for block in moments.blocks), matrices)


class DeepState(NamedTuple):
    """State of learning a deep machine: that of the model phase, and the last data phase."""

    model: Any
    data: Solution | None


@dataclass(frozen=True)
class DeepPhases(Method):
    """Learning where the data phase too is a fixed point (Alg. 4 of Tramel et al. 2018).

    Parameters
    ----------
    model : Method
        The model phase, with a ``fixed_point`` that serves for the data phase as well.
    """

    model: Method

    @property
    def kind(self):
        return (type(self), *self.model.kind)

    def init(self, machine, rng, n, X):
        return DeepState(self.model.init(machine, rng, n, X), None)

    def phases(self, machine, state, X, rng):
        hidden, method, start = given_visible(machine, X, self.model.fixed_point)
        solution = solve(method, hidden, start)
        data = with_visible(method.moments(hidden, solution.state), X)
        model = self.model.advance(machine, state.model, X, rng)
        return DeepState(model, solution), data, self.model.moments(machine, model)

    def visible(self, state):
        return self.model.visible(state.model)

    def kept(self, state):
        return DeepState(self.model.kept(state.model), None)

    def report(self, state):
        if state.data is None:
            return {}
        unconverged = {"n_unconverged_data": float(np.sum(~state.data.converged))}
        return self.model.report(state.model) | unconverged
