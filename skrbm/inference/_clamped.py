"""Fixed points with some of the visible units held at observed values."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from .._backend import cast, namespace
from ._base import FixedPoint, Magnetizations


class ClampedState(NamedTuple):
    """Magnetizations, and which visible units are held where (``observed`` is 1 or 0)."""

    means: tuple
    variances: tuple
    values: Any
    observed: Any


@dataclass(frozen=True)
class Clamped(FixedPoint):
    """Another fixed point, with observed visible units put back to their values in each sweep."""

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

    def start(self, machine, X, observed):
        """Return the state at visible values X, of which those ``observed`` stay."""
        inner = self.method.start(machine, X)
        return ClampedState(*inner, X, cast(observed, X.dtype))

    def step(self, machine, state):
        means, variances = self.method.step(machine, Magnetizations(*state[:2]))
        xp = namespace(state.values)
        held = state.observed > 0.5
        first = xp.where(held, state.values, means[0])
        spread = variances[0]
        if spread is not None:
            spread = xp.where(held, xp.zeros_like(spread), spread)
        return state._replace(means=(first, *means[1:]), variances=(spread, *variances[1:]))
