"""The phases of learning a deep machine, where the hidden layers depend on each other."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..arrays import cast, namespace, number_of, take_rows
from ..inference import given_visible, solve, with_visible
from ..machine import in_double
from ._fixed_points import FixedPointPhase
from ._model_phase import ModelPhase


class DeepState(NamedTuple):
    """State of learning a deep machine: that of the model phase, and how the last data phase went.

    ``data`` has whether each row of it has converged; None before the first.
    """

    model: Any
    data: Any


@dataclass(frozen=True)
class DeepPhase(ModelPhase):
    """Learning where the data phase too is a fixed point (Alg. 4 of Tramel et al. 2018).

    Parameters
    ----------
    model : FixedPointPhase
        The model phase, whose equations serve for the data phase as well.
    """

    model: FixedPointPhase

    def __post_init__(self):
        if self.model.one_hidden_layer:
            raise ValueError(
                f"a deep machine does not learn with start={self.model.start!r}: exchanges need "
                "free energies, for which several hidden layers have no formula; use "
                'start="chains", or TAPRBM for one hidden layer'
            )

    @property
    def n_states(self):
        return self.model.n_states

    @property
    def kind(self):
        return type(self), *self.model.kind

    def init(self, machine, rng, n, X):
        return DeepState(self.model.init(machine, rng, n, X), None)

    def phases(self, machine, state, X, rng):
        data, converged = self._known(machine, X)
        return self._next(machine, state, X, rng, data, converged)

    def incomplete_phases(self, machine, state, X, observed, rng):
        """Return the phases of a batch, of which rows with missing entries are solved as a whole.

        Their moments are those of the machine with the observed units held at their values.
        """
        full, X, data, solution = self.model.held(machine, X, observed)
        converged = solution.converged
        if len(full):
            known, others = self._known(machine, take_rows(X, full))
            data = known.scaled(len(full) / X.shape[0]) + data
            converged = namespace(others).concat([others, converged], axis=0)
        return self._next(machine, state, X, rng, data, converged)

    def _known(self, machine, X):
        """Return the moments of complete rows, and whether each has converged."""
        hidden, method, start = given_visible(machine, X, self.model.fixed_point)
        solution = solve(method, hidden, start)
        return with_visible(method.moments(hidden, solution.state), X), solution.converged

    def _next(self, machine, state, X, rng, data, converged):
        model = self.model.advance(machine, state.model, X, rng)
        return DeepState(model, converged), data, self.model.moments(machine, model)

    def visible(self, state):
        return self.model.visible(state.model)

    def step_length(self, machine):
        # Joint steps start far from where layers that were trained one by one are good together.
        rule = self.model.step_length(machine)
        return replace(rule, divergence=4 * rule.divergence, cap=4 * rule.cap)

    def free_energy(self, machine, X):
        """Return the free energies with the hidden layers at the solutions of the equations."""
        machine = in_double(machine)
        X = cast(X, machine.dtype)
        hidden, method, start = given_visible(machine, X, self.model.fixed_point)
        state = solve(method, hidden, start).state
        own = machine.units[0].log_weight(machine.thetas[0], X)
        return -own - method.log_partition(hidden, state)

    def kept(self, state):
        return DeepState(self.model.kept(state.model), None)

    def log_partition(self, machine, state):
        return self.model.log_partition(machine, state.model)

    def report(self, state):
        if state.data is None:
            return {}
        unconverged = {"n_unconverged_data": number_of(~state.data)}
        return self.model.report(state.model) | unconverged
