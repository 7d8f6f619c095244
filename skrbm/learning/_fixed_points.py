"""Model phases by fixed points: the gradient averages over K solutions.

Which solutions are found depends on where they are looked for. The paper starts at data only.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..arrays import cast, like, namespace, number, number_of, take_rows
from ..inference import (
    FixedPoint,
    Gibbs,
    Solution,
    clamped,
    map_rows,
    rows_with_holes,
    solve,
    with_rows,
)
from ..machine import data_moments, in_double, may_lack_integral
from ._chains import ChainPhase
from ._length import StepLength
from ._model_phase import ModelPhase


class Started(NamedTuple):
    """State in learning: what the starts carry from batch to batch, and the last solution."""

    carry: Any
    solution: Solution | None


class DataStarts:
    """Start at the last K rows of data (Alg. 2 of Tramel et al. 2018).

    Attributes
    ----------
    chains : ModelPhase
        Of the chains whose states are the starts, and whose state is then carried from batch to
        batch. Without chains it is one that does nothing.
    """

    chains = ModelPhase()

    def init(self, machine, rng, n, X):
        """Return what is carried to the first batch, with ``n`` rows."""
        # Rows are repeated if there are fewer than K; they are replaced batch by batch.
        return namespace(X).concat([X] * -(-n // X.shape[0]), axis=0)[:n, :]

    def next(self, machine, state, X, rng):
        """Return what is carried on, whose visible values are the next starts."""
        n = state.carry.shape[0]
        return namespace(X).concat([X, state.carry], axis=0)[:n, :]

    def visible(self, carry):
        """Return the visible values of what is carried."""
        return carry

    def kept(self, state):
        """Return what is carried to a later fit."""
        return state.carry


class PersistentStarts(DataStarts):
    """Start at the last solutions; at data the first time."""

    def next(self, machine, state, X, rng):
        return self.kept(state)

    def kept(self, state):
        return state.carry if state.solution is None else state.solution.state.means[0]


class RandomStarts(DataStarts):
    """Start at draws from independent visible units."""

    def next(self, machine, state, X, rng):
        return Gibbs().init(machine, rng, state.carry.shape[0]).layers[0]


class ChainStarts(DataStarts):
    """Start at the states of Gibbs chains, which find modes away from the data.

    Parameters
    ----------
    start : str
        As of :class:`ChainPhase`.
    """

    def __init__(self, start):
        self.chains = ChainPhase(Gibbs(), start)

    def init(self, machine, rng, n, X):
        return self.chains.init(machine, rng, n, X)

    def next(self, machine, state, X, rng):
        return self.chains.advance(machine, state.carry, X, rng)

    def visible(self, carry):
        return self.chains.visible(carry)


STARTS = {
    "data": DataStarts(),
    "persistent": PersistentStarts(),
    "random": RandomStarts(),
    "chains": ChainStarts("persistent"),
    "tempered": ChainStarts("tempered"),
}
"""Where fixed points start in learning, by name."""


@dataclass(frozen=True)
class FixedPointPhase(ModelPhase):
    """Moments of the machine by the solutions of fixed-point equations.

    Parameters
    ----------
    fixed_point : FixedPoint
    start : {"data", "persistent", "random", "chains", "tempered"}, default="data"
        Where solutions are looked for: at the last rows of data, at the last solutions, at draws
        from independent units, at the states of persistent Gibbs chains, or at those of chains that
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
        return self._starts.chains.for_ranks

    @property
    def one_hidden_layer(self):
        return self._starts.chains.one_hidden_layer

    def step_length(self, machine):
        rule = StepLength.of_solutions(machine.units, machine.n_units[0])
        return replace(rule, every=1 if may_lack_integral(machine.units) else rule.every)

    def init(self, machine, rng, n, X):
        self.fixed_point.check(machine)
        return Started(self._starts.init(machine, rng, n, X), None)

    def reviewed(self, machine, state, rng):
        return state._replace(carry=self._starts.chains.reviewed(machine, state.carry, rng))

    def advance(self, machine, state, X, rng):
        carry = self._starts.next(machine, state, X, rng)
        first = self.fixed_point.state_at(machine, self._starts.visible(carry))
        return Started(carry, solve(self.fixed_point, machine, first))

    def incomplete_phases(self, machine, state, X, observed, rng):
        """Return the phases of a batch, of which rows with missing entries are solved as well.

        Their moments are those of the machine with the observed units held at their values.
        """
        full, X, data, _ = self.held(machine, X, observed)
        if len(full):
            known = take_rows(X, full)
            weights = namespace(X).full(len(full), 1.0 / X.shape[0], **like(X))
            data = data_moments(machine, known, weights) + data
        state = self.advance(machine, state, X, rng)
        return state, data, self.moments(machine, state)

    def held(self, machine, X, observed):
        """Solve the rows of a batch that have missing entries.

        Parameters
        ----------
        machine : Machine
        X : array of shape (n_rows, n_visible)
        observed : array of shape (n_rows, n_visible), bool

        Returns
        -------
        full : ndarray of int
            The other rows.
        X : array of shape (n_rows, n_visible)
            With the expected values of what is missing.
        moments : Moments
            Of the rows that are solved, each with the weight 1 / n_rows.
        solution : Solution
        """
        full, holes = rows_with_holes(observed)
        rows, start = take_rows(X, holes), self.fixed_point.state_at(machine, take_rows(X, holes))
        machine = clamped(machine, rows, take_rows(observed, holes))
        solution = solve(self.fixed_point, machine, start)
        data = self.fixed_point.moments(machine, solution.state)
        data = data.scaled(len(holes) / X.shape[0])
        return full, with_rows(X, holes, solution.state.means[0]), data, solution

    def moments(self, machine, state):
        return self.fixed_point.moments(machine, state.solution.state)

    def visible(self, state):
        return self._starts.visible(state.carry)

    def kept(self, state):
        return Started(self._starts.kept(state), None)

    def log_partition(self, machine, state):
        precise = in_double(machine)
        solved = map_rows(lambda leaf: cast(leaf, precise.dtype), state.solution.state)
        values = self.fixed_point.log_partition(precise, solved)
        return float(namespace(values).mean(values))

    def ladder(self, machine, state):
        return self._starts.chains.ladder(machine, state.carry)

    def report(self, state):
        solution = state.solution
        if solution is None:
            return {}
        xp = namespace(solution.n_iter)
        return {
            "n_unconverged": number_of(~solution.converged),
            "n_sweeps": number(xp.mean(cast(solution.n_iter, xp.float64))),
            **self._starts.chains.report(state.carry),
        }
