"""The phases of learning a deep machine, where the hidden layers depend on each other."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from ..arrays import cast, number_of
from ..inference import Solution, given_visible, settle, with_visible
from ..machine import in_double
from ._fixed_points import FixedPointPhase
from ._model_phase import ModelPhase


class DeepState(NamedTuple):
    """State of learning a deep machine: that of the model phase, and the last data phase."""

    model: Any
    data: Solution | None


@dataclass(frozen=True)
class DeepPhase(ModelPhase):
    """Learning where the data phase too is a fixed point (Alg. 4 of Tramel et al. 2018).

    Parameters
    ----------
    model : FixedPointPhase
        The model phase, whose equations serve for the data phase as well.
    """

    model: FixedPointPhase

    # Joint steps begin far from where layers that were trained one by one are good together.
    caution = 0.25

    @property
    def kind(self):
        return type(self), *self.model.kind

    def init(self, machine, rng, n, X):
        return DeepState(self.model.init(machine, rng, n, X), None)

    def phases(self, machine, state, X, rng):
        hidden, method, start = given_visible(machine, X, self.model.fixed_point)
        solution = settle(method, hidden, start)
        data = with_visible(method.moments(hidden, solution.state), X)
        model = self.model.advance(machine, state.model, X, rng)
        return DeepState(model, solution), data, self.model.moments(machine, model)

    def visible(self, state):
        return self.model.visible(state.model)

    def free_energy(self, machine, X):
        """Return the free energies with the hidden layers at the solutions of the equations."""
        machine = in_double(machine)
        X = cast(X, machine.dtype)
        hidden, method, start = given_visible(machine, X, self.model.fixed_point)
        state = settle(method, hidden, start).state
        own = machine.units[0].log_weight(machine.thetas[0], X)
        return -own - method.log_partition(hidden, state)

    def kept(self, state):
        return DeepState(self.model.kept(state.model), None)

    def log_partition(self, machine, state):
        return self.model.log_partition(machine, state.model)

    def report(self, state):
        if state.data is None:
            return {}
        unconverged = {"n_unconverged_data": number_of(~state.data.converged)}
        return self.model.report(state.model) | unconverged
