"""Mean field by the expansion of the free energy in powers of the weights.

Naive mean field is the first order and TAP the second (Alg. 1 and Eq. 36 of Tramel et al. 2018).
Binary units have a third order (Gabrié, Tramel and Krzakala 2015). Each order after the first is a
term that adds to the field on a unit, to the free energy and to the moments. As in the papers, a is
a mean and c a variance; B and A are the field and the precision that tilt a unit.
"""

from dataclasses import dataclass

from .._checks import look_up
from ..arrays import matmul, namespace, row_sums
from ..machine import Block, Moments, coupled, coupling, input_field
from ._fixed_point import FixedPoint, Magnetizations
from ._needs import Needs


class _SecondOrder:
    """The Onsager reaction: A = -(W * W) c, B = A a.

    Each order has three methods: the extra field and precision on layer ``l``, what it adds to
    log Z of each row, and what it adds to the expected products, as in ``Moments.matrices``.
    """

    needs = "takes_precision"

    def reaction(self, machine, l, state):
        precision = coupled(machine, machine.squares, l, state.variances, power=2)
        precision *= -1
        return precision * state.means[l], precision

    def log_partition(self, machine, state):
        return 0.5 * coupling(machine, machine.squares, state.variances, power=2)

    def matrices(self, machine, state):
        return ()


class _ThirdOrder:
    """The third order, for units whose third cumulant is a function of the mean."""

    needs = "has_cumulants"

    def reaction(self, machine, l, state):
        field = coupled(machine, machine.cubes, l, _skews(machine, state), power=3)
        return (2 / 3) * field * machine.units[l].cumulants(state.means[l])[2], None

    def log_partition(self, machine, state):
        return (2 / 3) * coupling(machine, machine.cubes, _skews(machine, state), power=3)

    def matrices(self, machine, state):
        skews = _skews(machine, state)
        factor = 2 * machine.scale**2 / skews[0].shape[0]
        pairs = enumerate(zip(machine.squares, skews[:-1], skews[1:], strict=True))
        return tuple((l, factor * W2 * matmul(above.T, below)) for l, (W2, below, above) in pairs)


def _skews(machine, state):
    """Return half the third cumulant of each layer."""
    pairs = zip(machine.units, state.means, strict=True)
    return tuple(unit.cumulants(mean)[1] for unit, mean in pairs)


_TERMS = {2: (_SecondOrder(),), 3: (_SecondOrder(), _ThirdOrder())}


@dataclass(frozen=True)
class NaiveMeanField(FixedPoint):
    """Naive mean field: each unit sees the means of its neighbours.

    Parameters
    ----------
    max_iter, tol, damping, start, n_starts : as in :class:`FixedPoint`
    """

    terms = ()  # the orders after the first

    @property
    def needs(self):
        return Needs(units=tuple(term.needs for term in self.terms))

    def _unit_moments(self, unit, theta):
        """Return mean and variance; the variance is None if it is not needed."""
        return unit.moments(theta)

    def _pair(self, state):
        """Return the variances whose products, times W, are covariances of neighbours, or None."""
        return None

    def state_at(self, machine, X):
        """Return the state with visible means X and everything else at zero."""
        xp = namespace(X)
        hidden = tuple(xp.zeros_like(X[:, :1]) * W[None, :, 0] for W in machine.weights)
        means = (X, *hidden)
        variances = tuple(
            None if self._unit_moments(unit, theta)[1] is None else xp.zeros_like(mean)
            for unit, theta, mean in zip(machine.units, machine.thetas, means, strict=True)
        )
        return Magnetizations(means, variances)

    def _cavity(self, machine, l, state):
        """Return the total field and precision on layer ``l``."""
        field, precision = input_field(machine, l, state.means), None
        for term in self.terms:
            extra, curvature = term.reaction(machine, l, state)
            field += extra
            precision = curvature if precision is None else precision
        return field, precision

    def theta(self, machine, l, state):
        """Return the parameters of layer ``l`` tilted by what its neighbours send."""
        return machine.units[l].tilt(machine.thetas[l], *self._cavity(machine, l, state))

    def step(self, machine, state):
        """Update the odd layers (hidden), then the even ones (visible)."""
        means, variances = list(state.means), list(state.variances)
        for parity in (1, 0):
            for l in range(parity, len(means), 2):
                now = Magnetizations(tuple(means), tuple(variances))
                theta = self.theta(machine, l, now)
                means[l], variances[l] = self._unit_moments(machine.units[l], theta)
        return Magnetizations(tuple(means), tuple(variances))

    def log_partition(self, machine, state):
        """Return minus the free energy of each row (Eq. 36), in float64.

        sum_l [log Z(B, A) - B a + A (a**2 + c) / 2] + sum_l a' W a + the orders after the first.
        """
        total = coupling(machine, machine.weights, state.means)
        for l, (unit, a) in enumerate(zip(machine.units, state.means, strict=True)):
            field, precision = self._cavity(machine, l, state)
            local = unit.log_partition(unit.tilt(machine.thetas[l], field, precision))
            tilts = field * a
            if precision is not None:
                tilts -= 0.5 * precision * (a * a + state.variances[l])
            total = total + (row_sums(local) - row_sums(tilts))  # a site has one log Z
        for term in self.terms:
            total = total + term.log_partition(machine, state)
        return total

    def moments(self, machine, state):
        """Return the expected statistics, averaged over the rows."""
        weight = 1.0 / state.means[0].shape[0]
        further = tuple(
            unit.further(self.theta(machine, l, state)) if unit.has_further else None
            for l, unit in enumerate(machine.units)
        )
        block = Block(state.means, state.variances, weight, self._pair(state), further)
        matrices = tuple(entry for term in self.terms for entry in term.matrices(machine, state))
        return Moments((block,), matrices)


@dataclass(frozen=True)
class TAP(NaiveMeanField):
    """TAP equations of second or third order.

    Parameters
    ----------
    max_iter, tol, damping, start, n_starts : as in :class:`FixedPoint`
    order : {2, 3}, default=2
        Highest power of the weights in the expansion; the third order needs binary units, spins or
        ``Binomial`` counts.
    """

    order: int = 2

    def __post_init__(self):
        super().__post_init__()
        look_up("order", self.order, _TERMS, "; or take NaiveMeanField, the first order")

    @property
    def alternative(self):
        """Recommendation for machines to which the order does not apply."""
        return "NaiveMeanField" + ", or TAP(order=2) for real units" * (self.order > 2)

    @property
    def terms(self):
        return _TERMS[self.order]

    def _unit_moments(self, unit, theta):
        return unit.mean_variance(theta)

    def _pair(self, state):
        return state.variances
