"""Model phases by fixed points: the gradient averages over K solutions.

Which solutions are found depends on the starts; the paper starts at data only.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..arrays import cast, dense, namespace, number, number_of, take_rows
from ..inference import (
    FixedPoint,
    Gibbs,
    Solution,
    clamped,
    given_visible,
    map_rows,
    rows_with_holes,
    solve,
    with_rows,
    with_visible,
)
from ..machine import data_moments, in_double, may_lack_integral
from ._chains import ChainPhase
from ._length import StepLength
from ._model_phase import ModelPhase
from ._tempered import TemperedPhase


class Started(NamedTuple):
    """State in learning.

    ``carry`` is the state of the starts, ``solution`` the last solution, and ``known``, for a deep
    machine, whether each row of the data phase has converged.
    """

    carry: Any
    solution: Solution | None = None
    known: Any = None


class DataStarts(ModelPhase):
    """Start at the last K rows of data (Alg. 2 of Tramel et al. 2018), which form the state."""

    def init(self, machine, rng, n, X):
        # Rows are repeated if there are fewer than K; they are replaced batch by batch.
        return namespace(X).concat([X] * -(-n // X.shape[0]), axis=0)[:n, :]

    def advance(self, machine, state, X, rng):
        return namespace(X).concat([dense(X), state], axis=0)[: state.shape[0], :]

    def visible(self, state):
        return state


class PersistentStarts(DataStarts):
    """Start at the last solutions; at data the first time."""

    def advance(self, machine, state, X, rng):
        return state


class RandomStarts(DataStarts):
    """Start at draws from independent visible units."""

    def advance(self, machine, state, X, rng):
        return Gibbs().init(machine, rng, state.shape[0]).layers[0]


STARTS = {
    "data": DataStarts(),
    "persistent": PersistentStarts(),
    "random": RandomStarts(),
    "chains": ChainPhase(Gibbs()),
    "tempered": TemperedPhase(Gibbs()),
}
"""Where fixed points start in learning, by name."""


@dataclass(frozen=True)
class FixedPointPhase(ModelPhase):
    """Moments of the machine by the solutions of fixed-point equations.

    Parameters
    ----------
    fixed_point : FixedPoint
    start : {"data", "persistent", "random", "chains", "tempered"}, default="data"
        Where iterations start: at the rows of the last batch, at the last solutions, at draws from
        independent units, at the states of persistent Gibbs chains, or at those of chains that
        exchange with samples of earlier machines.
    """

    fixed_point: FixedPoint
    start: str = "data"

    @property
    def kind(self):
        return type(self), self.start

    @property
    def n_states(self):
        return self.fixed_point.n_starts

    @property
    def _starts(self):
        return STARTS[self.start]

    @property
    def for_ranks(self):
        return self._starts.for_ranks

    def step_length(self, machine):
        rule = StepLength.of_solutions(machine.units, machine.n_units[0])
        return replace(rule, every=1 if may_lack_integral(machine.units) else rule.every)

    def init(self, machine, rng, n, X):
        self.fixed_point.check(machine)
        return Started(self._starts.init(machine, rng, n, X))

    def advance(self, machine, state, X, rng):
        carry = self._starts.advance(machine, state.carry, X, rng)
        first = self.fixed_point.state_at(machine, self._starts.visible(carry))
        solution = solve(self.fixed_point, machine, first)
        return Started(solution.state.means[0] if self.start == "persistent" else carry, solution)

    def known(self, machine, X):
        """Return the moments of complete rows, and whether each has converged."""
        return data_moments(machine, X), None

    def phases(self, machine, state, X, rng):
        data, converged = self.known(machine, X)
        state = self.advance(machine, state, X, rng)._replace(known=converged)
        return state, data, self.moments(machine, state)

    def incomplete_phases(self, machine, state, X, observed, rng):
        """Return the phases of a batch, solving the equations also for rows with missing entries.

        Their moments are those of the machine with the observed units held at their values, and
        missing entries start at their expected values.
        """
        full, holes = rows_with_holes(observed)
        rows = take_rows(X, holes)
        held = clamped(machine, rows, take_rows(observed, holes))
        solution = solve(self.fixed_point, held, self.fixed_point.state_at(machine, rows))
        data = self.fixed_point.moments(held, solution.state)
        data = data.scaled(len(holes) / X.shape[0])
        filled, converged = with_rows(X, holes, solution.state.means[0]), solution.converged
        if len(full):
            known, others = self.known(machine, take_rows(X, full))
            data = known.scaled(len(full) / X.shape[0]) + data
            if others is not None:
                converged = namespace(others).concat([others, converged], axis=0)
        state = self.advance(machine, state, filled, rng)._replace(known=converged)
        return state, data, self.moments(machine, state)

    def moments(self, machine, state):
        return self.fixed_point.moments(machine, state.solution.state)

    def visible(self, state):
        return self._starts.visible(state.carry)

    def kept(self, state):
        return Started(state.carry)

    def log_partition(self, machine, state):
        precise = in_double(machine)
        solved = map_rows(lambda leaf: cast(leaf, precise.dtype), state.solution.state)
        values = self.fixed_point.log_partition(precise, solved)
        return float(namespace(values).mean(values))

    def ladder(self, machine, state):
        return self._starts.ladder(machine, state.carry)

    def report(self, state):
        solution = state.solution
        if solution is None:
            return {}
        xp = namespace(solution.n_iter)
        return {
            "n_unconverged": number_of(~solution.converged),
            "n_sweeps": number(xp.mean(cast(solution.n_iter, xp.float64))),
            **self._starts.report(state.carry),
        }


@dataclass(frozen=True)
class DeepPhase(FixedPointPhase):
    """Moments of a deep machine, for which the data phase is also a fixed point.

    The hidden layers given the data are found by the same equations as the model phase (Alg. 4 of
    Tramel et al. 2018).

    Parameters
    ----------
    fixed_point : FixedPoint
    start : {"data", "persistent", "random", "chains"}, default="data"
        As in :class:`FixedPointPhase`.
    """

    def __post_init__(self):
        if self._starts.one_hidden_layer:
            raise ValueError(
                f"a deep model cannot be trained with start={self.start!r}, which needs free "
                'energies of one hidden layer; use start="chains"'
            )

    def _solved(self, machine, X):
        """Return the hidden layers given rows, the method for them, and its solution."""
        hidden, method, start = given_visible(machine, X, self.fixed_point)
        return hidden, method, solve(method, hidden, start)

    def known(self, machine, X):
        hidden, method, solution = self._solved(machine, X)
        return with_visible(method.moments(hidden, solution.state), X), solution.converged

    def free_energy(self, machine, X):
        """Return the free energies with the hidden layers at the solutions of the equations."""
        machine = in_double(machine)
        X = cast(X, machine.dtype)
        hidden, method, solution = self._solved(machine, X)
        own = machine.units[0].log_weight(machine.thetas[0], X)
        return -own - method.log_partition(hidden, solution.state)

    def report(self, state):
        if state.known is None:
            return {}
        return super().report(state) | {"n_unconverged_data": number_of(~state.known)}
