from dataclasses import dataclass

from skrbm.arrays import row_sums
from skrbm.inference import FixedPoint, Magnetizations, Needs
from skrbm.machine import Block, Moments, conditional, coupling, input_field


@dataclass(frozen=True)
class MeanField(FixedPoint):
    """Each binary unit sees the means of its neighbours in the other layer."""

    needs = Needs(units=("is_binary",), one_hidden_layer=True)

    max_iter: int = 100

    def state_at(self, machine, X):
        hidden = machine.units[1].mean(conditional(machine, 1, (X, None)))
        return Magnetizations((X, hidden), (None, None))

    def step(self, machine, state):
        hidden = machine.units[1].mean(conditional(machine, 1, state.means))
        visible = machine.units[0].mean(conditional(machine, 0, (None, hidden)))
        return Magnetizations((visible, hidden), (None, None))

    def log_partition(self, machine, state):
        total = coupling(machine, machine.weights, state.means)
        for l, (unit, mean) in enumerate(zip(machine.units, state.means, strict=True)):
            field = input_field(machine, l, state.means)
            local = unit.log_partition(unit.tilt(machine.thetas[l], field))
            total = total + row_sums(local - field * mean)
        return total

    def moments(self, machine, state):
        weight = 1.0 / state.means[0].shape[0]
        return Moments((Block(state.means, state.variances, weight),))
