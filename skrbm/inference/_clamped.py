"""Fixed points with visible units held at observed values: some of them, or all."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._backend import cast, row_sums
from .._machine import Block, Moments, hidden_layers, input_field
from ._base import FixedPoint, Magnetizations, Method, Solution, solve


class ClampedState(NamedTuple):
    """State of the method inside, and which visible units are held where.

    ``observed`` is 1 or 0.
    """

    inner: Any
    values: Any
    observed: Any

    @property
    def means(self):
        """Means of each layer."""
        return self.inner.means

    @property
    def variances(self):
        """Variances of each layer."""
        return self.inner.variances


@dataclass(frozen=True)
class _Around(FixedPoint):
    """A fixed point made of another, whose hyper-parameters it has."""

    method: FixedPoint

    @property
    def max_iter(self):
        return self.method.max_iter

    @property
    def tol(self):
        return self.method.tol

    @property
    def damping(self):
        return self.method.damping

    def check(self, machine):
        self.method.check(machine)


@dataclass(frozen=True)
class Clamped(_Around):
    """Another fixed point, with observed visible units put back to their values in each sweep."""

    def start(self, machine, X, observed):
        """Return the state at visible values X, of which those ``observed`` stay."""
        return ClampedState(self.method.start(machine, X), X, cast(observed, X.dtype))

    def step(self, machine, state):
        inner = self.method.step(machine, state.inner)
        held = state.observed > 0.5
        return state._replace(inner=self.method.hold(machine, inner, state.values, held))


class GivenState(NamedTuple):
    """State of the hidden layers, and the field that the visible values put on the first."""

    inner: Any
    field: Any

    @property
    def means(self):
        """Means of the hidden layers."""
        return self.inner.means


class _Independent(FixedPoint):
    """One layer of units without couplings, whose law needs no iteration."""

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


@dataclass(frozen=True)
class GivenVisible(_Around):
    """Another fixed point on the hidden layers alone, given all visible values.

    The visible units are a field on the first hidden layer (App. E of Tramel et al. 2018), so a
    sweep costs no product with the first weight matrix. One hidden layer needs no fixed point: its
    units are independent given the visible ones.
    """

    def _inner(self, machine):
        return self.method if len(machine.units) > 2 else _Independent()

    def start(self, machine, X):
        """Return the state that starts at E[h | X] without the layers above the first."""
        field = input_field(machine, 1, (X, None))
        hidden = hidden_layers(machine, field)
        first = hidden.units[0].mean(hidden.thetas[0])
        return GivenState(self._inner(machine).start(hidden, first), field)

    def step(self, machine, state):
        hidden = hidden_layers(machine, state.field)
        return state._replace(inner=self._inner(machine).step(hidden, state.inner))

    def log_partition(self, machine, state):
        """Return log sum_h exp(-energy(x, h)) but for the visible units' own weight."""
        hidden = hidden_layers(machine, state.field)
        return self._inner(machine).log_partition(hidden, state.inner)

    def moments(self, machine, state, X):
        """Return the moments at visible values X and the state given them (Eqs. 126-129)."""
        hidden = hidden_layers(machine, state.field)
        inner = self._inner(machine).moments(hidden, state.inner)
        blocks = tuple(_with_known_layer(block, X) for block in inner.blocks)
        return Moments(blocks, tuple((l + 1, M) for l, M in inner.matrices))


def _with_known_layer(block, X):
    """Return a block of hidden layers with the visible values put before them."""
    pair, occupied = (
        None if part is None else (None, *part) for part in (block.pair, block.occupied)
    )
    return block._replace(
        means=(X, *block.means),
        variances=(None, *block.variances),
        pair=pair,
        occupied=occupied,
    )


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
        given = GivenVisible(self.model.fixed_point)
        solution = solve(given, machine, given.start(machine, X))
        data = given.moments(machine, solution.state, X)
        model = self.model.advance(machine, state.model, X, rng)
        return DeepState(model, solution), data, self.model.moments(machine, model)

    def visible(self, state):
        return self.model.visible(state.model)

    def report(self, state):
        if state.data is None:
            return {}
        unconverged = {"n_unconverged_data": float(np.sum(~state.data.converged))}
        return self.model.report(state.model) | unconverged
