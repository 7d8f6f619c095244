"""The machine: layers of units and the couplings between them."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from operator import is_not
from typing import Any, TypeAlias

from ..arrays import (
    Array,
    Index,
    are_finite,
    cast,
    copied,
    is_finite,
    matmul,
    namespace,
    numbers,
    value_range,
)
from ..units import Theta, Unit

Layers: TypeAlias = Sequence[Array | None]
"""Values of each layer; None where they are unknown or not needed."""

# Cached properties that depend on the weights alone.
_OF_WEIGHTS = {"squares", "cubes", "largest"}


@dataclass(frozen=True)
class Machine:
    """A model of layers of units, with couplings between neighbouring layers.

    The distribution is exp(sum_l theta_l . statistics(x_l) + scale * sum_l x_{l+1}' W_l x_l) / Z.

    Parameters
    ----------
    units : tuple of Unit
        Units of each layer; layer 0 is visible.
    thetas : tuple of Theta
        Natural parameters of each layer, arrays of shape (n_units[l],). If they have shape (n_rows,
        n_units[l]), each row has its own distribution, such as the posterior given an observation
        of that row.
    weights : tuple of arrays of shape (n_units[l + 1], n_units[l])
        Couplings. A restricted Boltzmann machine has one matrix, ``components_``, and independent
        units have none.
    scale : float, default=1.0
        Factor on all couplings, so that annealing does not need to copy the weights.
    """

    units: tuple[Unit, ...]
    thetas: tuple[Theta, ...]
    weights: tuple[Array, ...]
    scale: float = 1.0

    def __post_init__(self) -> None:
        dtype = self.dtype
        parts = [part for theta in self.thetas for part in theta if part is not None]
        if any([part.dtype != dtype for part in parts]):
            thetas = tuple(theta.map(lambda part: cast(part, dtype)) for theta in self.thetas)
            object.__setattr__(self, "thetas", thetas)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields without cached properties, for copies and files."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def dtype(self) -> Any:
        """Dtype of all parameters, states and chains."""
        return self.weights[0].dtype if self.weights else self.thetas[0].field.dtype

    @cached_property
    def n_units(self) -> tuple[int, ...]:
        """Number of units of each layer."""
        return tuple([theta.field.shape[-1] for theta in self.thetas])

    @cached_property
    def n_rows(self) -> int | None:
        """Number of rows that have their own parameters, None if all rows share them."""
        own = [
            part.shape[0]
            for theta in self.thetas
            for part in theta[:-1]  # all rows share the matrix ``joint``
            if part is not None and part.ndim > 1
        ]
        own += [unit.n_rows for unit in self.units if unit.n_rows is not None]
        return own[0] if own else None

    @cached_property
    def samples_exactly(self) -> bool:
        """Whether the units of all odd layers (hidden) sample their own distribution."""
        return all(unit.samples_exactly for unit in self.units[1::2])

    @cached_property
    def places(self) -> tuple[tuple[int, int], ...]:
        """Where the arrays of the thetas are: layers, and positions in their thetas."""
        layers = enumerate(self.thetas)
        return tuple(
            [(l, k) for l, theta in layers for k, part in enumerate(theta) if part is not None]
        )

    @cached_property
    def parts(self) -> tuple[Array, ...]:
        """The arrays of the thetas, layer by layer."""
        return tuple([self.thetas[l][k] for l, k in self.places])

    @cached_property
    def squares(self) -> tuple[Array, ...]:
        """W * W of each weight matrix."""
        return tuple(W * W for W in self.weights)

    @cached_property
    def cubes(self) -> tuple[Array, ...]:
        """W * W * W of each weight matrix."""
        return tuple(W * W2 for W, W2 in zip(self.weights, self.squares, strict=True))

    @cached_property
    def largest(self) -> tuple[float, ...]:
        """The largest absolute weight of each matrix, NaN if one is NaN, 0 if there is none."""
        sizes = [abs(W) for W in self.weights]
        return tuple(numbers(0.0 if 0 in W.shape else namespace(W).max(W) for W in sizes))

    def rows(self, index: Index) -> "Machine":
        """Return the machine of some rows, itself if all rows have the same distribution."""
        if self.n_rows is None:
            return self
        thetas = tuple(theta.rows(index) for theta in self.thetas)
        units = tuple(unit.rows(index) for unit in self.units)
        machine = replace(self, units=units, thetas=thetas)
        known = {name: self.__dict__[name] for name in _OF_WEIGHTS if name in self.__dict__}
        machine.__dict__.update(known)  # of the same weights
        return machine

    def of_rows(self, X: Array, n: int | None = None) -> "Machine":
        """Return the machine with the visible :meth:`~skrbm.units.Unit.of_rows` of rows X."""
        unit = self.units[0].of_rows(X, n)
        return self if unit is self.units[0] else replace(self, units=(unit, *self.units[1:]))

    def tilted(self, l: int, field: Array, precision: Array | None = None) -> "Machine":
        """Return the machine with layer ``l`` multiplied by exp(field * x - precision * x**2 / 2).

        With a field for each row, of shape (n_rows, n_units[l]), each row has its own distribution.
        """
        thetas = list(self.thetas)
        thetas[l] = self.units[l].tilt(thetas[l], field, precision)
        return replace(self, thetas=tuple(thetas))

    def written(self, thetas: Sequence[Theta]) -> "Machine":
        """Return the machine with new thetas, and without caches of weights that have changed."""
        same = not any(map(is_not, thetas, self.thetas))
        if same and _OF_WEIGHTS.isdisjoint(self.__dict__):
            return self
        return replace(self, thetas=tuple(thetas))

    def copy(self) -> "Machine":
        """Return a machine that shares no memory with this one."""
        return replace(
            self,
            thetas=tuple(theta.map(copied) for theta in self.thetas),
            weights=tuple(copied(W) for W in self.weights),
        )

    def astype(self, dtype: Any) -> "Machine":
        """Return the machine with parameters of another dtype; the rest follows the weights."""
        return replace(self, weights=tuple(cast(W, dtype) for W in self.weights))

    @property
    def n_penalised(self) -> int:
        """Number of leaves that are weights, which come first."""
        return len(self.weights)

    @property
    def leaves(self) -> tuple[Array, ...]:
        """All parameters: the weights, and then the parts of the units' own."""
        return self.weights + self.parts

    def with_leaves(self, leaves: Sequence[Array]) -> "Machine":
        """Return the machine with other parameters, in the order of :attr:`leaves`."""
        n, rest = len(self.weights), iter(leaves[len(self.weights) :])
        thetas = tuple(theta.map(lambda part: next(rest)) for theta in self.thetas)
        return replace(self, thetas=thetas, weights=tuple(leaves[:n]))

    def is_finite(self) -> bool:
        """Whether no parameter, and no square of a weight, is infinite or NaN."""
        if not (bool(are_finite(self.weights)) and bool(self.has_finite_thetas())):
            return False
        known = (W for W in self.weights if 0 not in W.shape)
        ends = ((value_range(W), float(namespace(W).finfo(W.dtype).max)) for W in known)
        return all(max(-least, most) <= largest**0.5 for (least, most), largest in ends)

    def check(self) -> None:
        """Raise ValueError unless all parameters are finite, and of the shapes that units need."""
        W, sizes = self.weights[0], self.n_units
        if not len(self.units) == len(sizes) == len(self.weights) + 1:
            raise ValueError(f"parameters of {len(sizes)} layers, but units {self.units}")
        if not namespace(W).isdtype(W.dtype, "real floating"):
            raise ValueError(f"weights must be floating-point numbers, got {W.dtype}")
        for n, m, W in zip(sizes[1:], sizes, self.weights, strict=False):
            if tuple(W.shape) != (n, m) or not bool(is_finite(W)):
                raise ValueError(f"weights must be finite, of shape {n, m}, got {tuple(W.shape)}")
        for unit, theta, n in zip(self.units, self.thetas, sizes, strict=True):
            if not unit.default_theta(n, W).is_like(theta):
                raise ValueError(f"parameters of {n} {unit} units are missing or not finite")
            improper = unit.is_improper(theta)
            if improper is not None and bool(namespace(improper).any(improper)):
                raise ValueError(f"precisions of {unit} units must be positive")

    def has_finite_thetas(self) -> Any:
        """Whether no unit's own parameter is infinite or NaN, which is cheap to check.

        On a device it is an array of no dimensions, without synchronization.
        """
        return are_finite(self.parts)


def is_per_row(x: Any) -> bool:
    """Whether a weight of rows is an array with a number for each, not one number."""
    return getattr(x, "ndim", 0) > 0


def coupled(
    machine: Machine, matrices: Sequence[Array], l: int, layers: Layers, power: int = 1
) -> Array:
    """Return the sum of the neighbours of layer ``l``, multiplied by ``matrices``.

    With the weights themselves and the neighbours' values it is the input field; with their
    squares and the neighbours' variances, and a ``power`` of the scale of 2, it is minus the
    precision of the TAP reaction. ``layers`` that are None count as zeros.
    """
    total: Any = None
    if l > 0 and layers[l - 1] is not None:
        total = matmul(layers[l - 1], matrices[l - 1].T)
    if l + 1 < len(layers) and layers[l + 1] is not None:
        above = matmul(layers[l + 1], matrices[l])
        total = above if total is None else total + above
    if machine.scale != 1:
        total *= machine.scale**power
    return total


def input_field(machine: Machine, l: int, layers: Layers) -> Array:
    """Return the field on layer ``l`` given the values of its neighbours, (n_rows, n_units)."""
    return coupled(machine, machine.weights, l, layers)


def conditional(machine: Machine, l: int, layers: Layers) -> Theta:
    """Return the parameters of layer ``l`` given the values of its neighbours."""
    return machine.units[l].tilt(machine.thetas[l], coupled(machine, machine.weights, l, layers))


def condition(machine: Machine, X: Array) -> Theta:
    """Return the parameters of the first hidden layer given visible values X."""
    return conditional(machine, 1, (X, None))


def above_visible(machine: Machine) -> Machine:
    """Return the hidden layers as a machine, without the field of the visible layer."""
    return replace(
        machine, units=machine.units[1:], thetas=machine.thetas[1:], weights=machine.weights[1:]
    )


def hidden_layers(machine: Machine, field: Array) -> Machine:
    """Return the hidden layers as a machine, the first in a field for each row.

    With the :func:`input_field` of visible values it is that of the layers given these.
    """
    hidden = above_visible(machine)
    first = machine.units[1].tilt(machine.thetas[1], field)
    return replace(hidden, thetas=(first, *hidden.thetas[1:]))


def turned_over(machine: Machine, top: int) -> Machine:
    """Return the layers from ``top`` down to the visible one as a machine that begins with it."""
    return replace(
        machine,
        units=machine.units[top::-1],
        thetas=machine.thetas[top::-1],
        weights=tuple(W.T for W in machine.weights[:top][::-1]),
    )
