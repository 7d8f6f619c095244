"""Where the fixed points of the model phase start, in learning.

The gradient averages over K solutions; which solutions are found depends on the starts. The paper
starts at data only. Each class here is one choice, and runs any fixed point from it.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..arrays import namespace
from ._fixed_point import FixedPoint, Solution, solve
from ._gibbs import Gibbs
from ._model_phase import Method


class Started(NamedTuple):
    """State in learning: what the starts carry from batch to batch, and the last solution."""

    carry: Any
    solution: Solution | None


@dataclass(frozen=True)
class DataStarts(Method):
    """Start at the last K rows of data (Alg. 2 of Tramel et al. 2018)."""

    fixed_point: FixedPoint

    def init(self, machine, rng, n, X):
        self.fixed_point.check(machine)
        return Started(self._first(machine, rng, n, X), None)

    def _first(self, machine, rng, n, X):
        # Rows are repeated if there are fewer than K; they are replaced batch by batch.
        return namespace(X).concat([X] * -(-n // X.shape[0]), axis=0)[:n, :]

    def _next(self, machine, state, X, rng):
        """Return what to carry on, whose visible values are the next starts."""
        n = state.carry.shape[0]
        return namespace(X).concat([X, state.carry], axis=0)[:n, :]

    def advance(self, machine, state, X, rng):
        carry = self._next(machine, state, X, rng)
        start = self.fixed_point.start(machine, self._rows(carry))
        return Started(carry, solve(self.fixed_point, machine, start))

    def moments(self, machine, state):
        return self.fixed_point.moments(machine, state.solution.state)

    def _rows(self, carry):
        return carry

    def visible(self, state):
        return self._rows(state.carry)

    def kept(self, state):
        return Started(state.carry, None)

    def report(self, state):
        solution = state.solution
        if solution is None:
            return {}
        return {
            "n_unconverged": float(np.sum(~solution.converged)),
            "n_sweeps": float(np.mean(solution.n_iter)),
        }


class PersistentStarts(DataStarts):
    """Start at the last solutions; at data the first time."""

    def _next(self, machine, state, X, rng):
        return self.kept(state).carry

    def kept(self, state):
        solved = state.solution is not None
        return Started(state.solution.state.means[0] if solved else state.carry, None)


class RandomStarts(DataStarts):
    """Start at draws from the visible units without couplings."""

    def _next(self, machine, state, X, rng):
        return Gibbs().init(machine, rng, state.carry.shape[0], X).layers[0]


class ChainStarts(DataStarts):
    """Start at the states of persistent Gibbs chains, which find modes away from the data."""

    def _first(self, machine, rng, n, X):
        return Gibbs().init(machine, rng, n, X)

    def _next(self, machine, state, X, rng):
        return Gibbs().advance(machine, state.carry, X, rng)

    def _rows(self, carry):
        return carry.layers[0]


STARTS = {
    "data": DataStarts,
    "persistent": PersistentStarts,
    "random": RandomStarts,
    "chains": ChainStarts,
}
