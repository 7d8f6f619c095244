"""The machine (layers of units and the couplings between them) and the moments learnt from."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import scipy.sparse as sp

from ._backend import add_products, cast, is_finite, matmul, namespace, row_blocks, row_sums
from .units import log_weight

_BLOCK_ROWS = 1024  # whose free energies are computed together


@dataclass(frozen=True)
class Machine:
    """Layers of units with couplings between neighbouring layers.

    The law is exp(sum_l theta_l . statistics(x_l) + scale * sum_l x_{l+1}' W_l x_l).

    Parameters
    ----------
    units : tuple of Unit
        Layer 0 is visible.
    thetas : tuple of Theta
        Natural parameters of each layer, arrays of shape (n_units[l],); or (n_rows, n_units[l])
        for a law of its own for each row, such as the posterior given an observation of that row.
    weights : tuple of arrays of shape (n_units[l + 1], n_units[l])
        Couplings; a restricted Boltzmann machine has one matrix, ``components_``, and independent
        units have none.
    scale : float, default=1.0
        Factor on all couplings, so that annealing need not copy the weights.
    """

    units: tuple
    thetas: tuple
    weights: tuple
    scale: float = 1.0

    def __post_init__(self):
        dtype = self.dtype
        thetas = tuple(theta.map(lambda part: cast(part, dtype)) for theta in self.thetas)
        object.__setattr__(self, "thetas", thetas)

    @property
    def dtype(self):
        """Dtype of all parameters, states and chains."""
        return self.weights[0].dtype if self.weights else self.thetas[0].field.dtype

    @property
    def n_units(self):
        """Number of units of each layer."""
        return tuple(theta.field.shape[-1] for theta in self.thetas)

    @cached_property
    def squares(self):
        """W * W of each weight matrix."""
        return tuple(W * W for W in self.weights)

    @cached_property
    def cubes(self):
        """W * W * W of each weight matrix."""
        return tuple(W * W2 for W, W2 in zip(self.weights, self.squares, strict=True))

    def rows(self, index):
        """Return the machine of some rows, itself if all rows have the same law."""
        if all(part is None or part.ndim == 1 for theta in self.thetas for part in theta):
            return self
        machine = replace(self, thetas=tuple(theta.rows(index) for theta in self.thetas))
        for name in ("squares", "cubes"):  # of the same weights
            if name in self.__dict__:
                machine.__dict__[name] = self.__dict__[name]
        return machine

    def tilted(self, l, field, precision=None):
        """Return the machine with layer ``l`` multiplied by exp(field * x - precision * x**2 / 2).

        With a field for each row, of shape (n_rows, n_units[l]), each row has a law of its own.
        """
        thetas = list(self.thetas)
        thetas[l] = self.units[l].tilt(thetas[l], field, precision)
        return replace(self, thetas=tuple(thetas))

    def copy(self):
        """Return a machine that shares no memory with this one."""
        xp = namespace(self.thetas[0].field)
        return replace(
            self,
            thetas=tuple(
                theta.map(lambda part: xp.asarray(part, copy=True)) for theta in self.thetas
            ),
            weights=tuple(xp.asarray(W, copy=True) for W in self.weights),
        )

    def astype(self, dtype):
        """Return the machine with parameters of another dtype; thetas follow the weights."""
        return replace(self, weights=tuple(cast(W, dtype) for W in self.weights))

    def is_finite(self):
        """Whether no parameter is infinite or NaN."""
        return all(is_finite(W) for W in self.weights) and self.has_finite_thetas()

    def has_finite_thetas(self):
        """Whether no unit's own parameter is infinite or NaN: a check that costs nothing."""
        parts = (part for theta in self.thetas for part in theta if part is not None)
        return all(is_finite(part) for part in parts)


def coupled(machine, matrices, l, layers, power=1):
    """Return what the neighbours of layer ``l`` send to it through ``matrices``, summed.

    With the weights themselves and the neighbours' values it is the input field; with their
    squares and the neighbours' variances it is minus the precision of the TAP reaction.
    """
    total = None
    if l > 0 and layers[l - 1] is not None:
        total = matmul(layers[l - 1], matrices[l - 1].T)
    if l + 1 < len(layers) and layers[l + 1] is not None:
        above = matmul(layers[l + 1], matrices[l])
        total = above if total is None else total + above
    if machine.scale != 1:
        total *= machine.scale**power
    return total


def input_field(machine, l, layers):
    """Return the field on layer ``l`` given the values of its neighbours, (n_rows, n_units)."""
    return coupled(machine, machine.weights, l, layers)


def conditional(machine, l, layers):
    """Return the parameters of layer ``l`` given the values of its neighbours."""
    return machine.units[l].tilt(machine.thetas[l], input_field(machine, l, layers))


def condition(machine, X):
    """Return the parameters of the first hidden layer given visible values X."""
    return conditional(machine, 1, (X, None))


def above_visible(machine):
    """Return the hidden layers as a machine, in no field of the visible one."""
    return replace(
        machine, units=machine.units[1:], thetas=machine.thetas[1:], weights=machine.weights[1:]
    )


def hidden_layers(machine, field):
    """Return the hidden layers as a machine, the first in a field for each row.

    Where the field is :func:`input_field` of visible values, its law is that of the hidden layers
    given these.
    """
    hidden = above_visible(machine)
    first = machine.units[1].tilt(machine.thetas[1], field)
    return replace(hidden, thetas=(first, *hidden.thetas[1:]))


def turned_over(machine, top):
    """Return the layers from ``top`` down to the visible one as a machine that begins with it.

    Given the values of its first layer, its law is that of the lower layers given layer ``top``.
    """
    return replace(
        machine,
        units=machine.units[top::-1],
        thetas=machine.thetas[top::-1],
        weights=tuple(W.T for W in machine.weights[:top][::-1]),
    )


def coupling(machine, matrices, layers, power=1):
    """Return sum_l x_{l+1}' M_l x_l for each row, in float64."""
    pairs = zip(matrices, layers[:-1], layers[1:], strict=True)
    total = sum(row_sums(matmul(below, M.T) * above) for M, below, above in pairs)
    return total * machine.scale**power


def log_correction(machine, thetas):
    """Return what sampling by proposals must make up for in each row, in float64.

    Where hidden units do not sample their own law, a block Gibbs sweep belongs to another machine.
    This is log p(v) of the machine minus that of the other one, up to a constant.

    Parameters
    ----------
    machine : Machine
    thetas : dict of Theta
        Conditional parameters of layers given their neighbours, by layer; those that sample their
        law add nothing.

    Returns
    -------
    array of shape (n_rows,), float64, or None if all units sample their law.
    """
    total = None
    for l, theta in thetas.items():
        if not machine.units[l].samples_its_law:
            part = row_sums(machine.units[l].log_correction(theta))
            total = part if total is None else total + part
    return total


def energy(machine, layers):
    """Return the energy of each row of complete configurations, in float64."""
    own = sum(log_weight(theta, x) for theta, x in zip(machine.thetas, layers, strict=True))
    return -own - coupling(machine, machine.weights, layers)


def free_energy(machine, X):
    """Return -log sum_h exp(-energy(x, h)) for each row, of a machine with one hidden layer."""
    hidden = machine.units[1].log_partition(condition(machine, X))
    return -log_weight(machine.thetas[0], X) - row_sums(hidden)


def in_double(machine):
    """Return a machine with real visible units in float64, others as they are.

    Where data lie far from zero, terms of the size mean**2 / variance cancel in their energy.
    """
    if machine.units[0].values is not None:
        return machine
    return machine.astype(namespace(machine.thetas[0].field).float64)


def precise_free_energy(machine, X):
    """Return :func:`free_energy` with real visible units in float64, in blocks of rows."""
    machine = in_double(machine)
    parts = []
    for rows in row_blocks(X, _BLOCK_ROWS):
        rows = rows.astype(machine.dtype) if sp.issparse(rows) else cast(rows, machine.dtype)
        parts.append(free_energy(machine, rows))
    return namespace(parts[0]).concat(parts, axis=0)


def interpolate(machine0, machine1, beta):
    """Return the machine at ``beta`` between two that differ in thetas and scale.

    The weights are those of ``machine1``, shared; ``machine0`` has scale 0 for no couplings.
    """
    thetas = tuple(
        t0.map(lambda a, b: a + beta * (b - a), t1)
        for t0, t1 in zip(machine0.thetas, machine1.thetas, strict=True)
    )
    scale = (1 - beta) * machine0.scale + beta * machine1.scale
    return replace(machine1, thetas=thetas, scale=scale)


def uncoupled(machine, visible=None):
    """Return the machine without couplings: hidden units at rest, visible units as given."""
    W = machine.weights[0]
    pairs = list(zip(machine.units, machine.n_units, strict=True))
    thetas = [unit.default_theta(n, W) for unit, n in pairs]
    thetas[0] = machine.thetas[0] if visible is None else visible
    return replace(machine, thetas=tuple(thetas), scale=0.0)


class Block(NamedTuple):
    """Rows whose moments count with one weight.

    ``means`` and ``variances`` have an entry for each layer, of shape (n_rows, n_units[l]), where
    a variance of None means that no statistic needs it. ``pair``, if present, holds row
    statistics d_l that add W * (d_{l+1}' d_l) to the expectation of x_{l+1} x_l', with None for a
    layer whose values are known. ``occupied``, if
    present, holds P[x != 0] for each layer, None where the kind of unit has no atom at 0 or the
    values are known.
    """

    means: tuple
    variances: tuple
    weight: float
    pair: Any = None
    occupied: Any = None


@dataclass(frozen=True)
class Moments:
    """Expected sufficient statistics, as blocks of rows that are reduced only when applied.

    ``matrices`` holds, for each weight matrix, what an expectation has beyond products of row
    statistics; None where it has nothing.
    """

    blocks: tuple
    matrices: tuple = field(default=())

    def __sub__(self, other):
        negative = tuple(block._replace(weight=-block.weight) for block in other.blocks)
        return Moments(
            self.blocks + negative, self.matrices + tuple((l, -M) for l, M in other.matrices)
        )

    def add_pair(self, machine, l, out, step, keep=1.0):
        """out = keep * out + step * E[x_{l+1} x_l'], in place where the library can.

        Returns ``out``. It may be the weights themselves, so what reads them comes before the first
        write.
        """
        products = []
        for block in self.blocks:
            if block.pair is not None and block.pair[l] is not None:
                product = matmul(block.pair[l + 1].T, block.pair[l])
                product *= machine.weights[l]
                product *= step * block.weight * machine.scale
                products.append(product)
        out = add_products(
            out, [(b.means[l + 1], b.means[l], step * b.weight) for b in self.blocks], keep
        )
        for product in products:
            out += product
        for index, matrix in self.matrices:
            if index == l:
                out += step * matrix
        return out

    def statistics(self, unit, l):
        """Return the expected statistics of layer ``l``, a Theta of shape (n_units[l],)."""
        total = None
        for block in self.blocks:
            moments = (block.means[l], block.variances[l])
            if block.occupied is not None and block.occupied[l] is not None:
                moments = (*moments, block.occupied[l])
            rows = unit.statistics(*moments)
            part = rows.map(
                lambda rows, weight=block.weight: namespace(rows).sum(rows, axis=0) * weight
            )
            total = part if total is None else total.map(lambda a, b: a + b, part)
        return total


def data_moments(machine, X):
    """Return the moments of a machine with one hidden layer whose visible values are known."""
    theta, hidden = condition(machine, X), machine.units[1]
    mean, variance = hidden.moments(theta)
    occupied = (None, hidden.occupancy(theta))
    return Moments((Block((X, mean), (None, variance), 1.0 / X.shape[0], occupied=occupied),))
