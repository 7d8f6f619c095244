"""The expected statistics of a machine, which learning matches to those of data."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..arrays import add_products, matmul, namespace
from ._machine import condition


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
