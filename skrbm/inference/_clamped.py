"""Fixed points with some of the visible units held at observed values."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from ..arrays import cast
from ._base import FixedPoint


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

    def check_marginals(self):
        raise ValueError(
            f"{self} needs to know which units are observed in each row; give the method inside, "
            "and impute holds what is known"
        )

    def start(self, machine, X, observed):
        """Return the state at visible values X, of which those ``observed`` stay."""
        return ClampedState(self.method.start(machine, X), X, cast(observed, X.dtype))

    def step(self, machine, state):
        inner = self.method.step(machine, state.inner)
        held = state.observed > 0.5
        return state._replace(inner=self.method.hold(machine, inner, state.values, held))

    def residual(self, old, new):
        return self.method.residual(old.inner, new.inner)
