"""Deep machines: the hidden layers given the visible one."""

from dataclasses import dataclass

from ..machine import Block, Moments, hidden_layers, input_field
from ._fixed_point import FixedPoint, Magnetizations


@dataclass(frozen=True)
class Independent(FixedPoint):
    """One layer of independent units, whose distribution needs no iteration."""

    max_iter: int = 1

    def state_at(self, machine, X):
        mean, variance = machine.units[0].mean_variance(machine.thetas[0])
        return Magnetizations((mean,), (variance,))

    def step(self, machine, state):
        return state

    def log_partition(self, machine, state):
        return machine.units[0].total_log_partition(machine.thetas[0])

    def moments(self, machine, state):
        further = (machine.units[0].further(machine.thetas[0]),)
        return Moments((Block(*state, 1.0 / state.means[0].shape[0], further=further),))


def given_visible(machine, X, method):
    """Return the hidden layers given visible values, as a problem for a fixed point.

    The visible units are a field on the first hidden layer (App. E of Tramel et al. 2018), so a
    sweep costs no product with the first weight matrix. Returns a machine with a distribution for
    each row, the method (an exact one for a single hidden layer) and its state at E[h | X] without
    the layers above the first.
    """
    hidden = hidden_layers(machine, input_field(machine, 1, (X, None)))
    method = method if hidden.weights else Independent()
    return hidden, method, method.state_at(hidden, hidden.units[0].mean(hidden.thetas[0]))


def with_visible(moments, X):
    """Return the moments of hidden layers with those of the known visible values before them."""

    def known(block):
        below = {"means": (X, *block.means), "variances": (None, *block.variances)}
        more = {"pair": block.pair, "further": block.further}
        below |= {name: part and (None, *part) for name, part in more.items()}
        return block._replace(**below)

    matrices = tuple((l + 1, matrix) for l, matrix in moments.matrices)
    return Moments(tuple(known(block) for block in moments.blocks), matrices)
