"""The expected statistics of a machine, which training matches to those of the data."""

from dataclasses import dataclass
from operator import add
from typing import Any, NamedTuple

from ..arrays import Array, add_products, cast, is_sparse, matmul, namespace, weighted_sum
from ..units import Theta, Unit
from ._machine import Machine, condition, is_per_row


class Block(NamedTuple):
    """Rows of one batch and their weights.

    Attributes
    ----------
    means : tuple of array of shape (n_rows, n_units[l])
        Means of each layer; those of the visible units may be sparse.
    variances : tuple of array of shape (n_rows, n_units[l]) or None
        Variances of each layer; None where no statistic needs them.
    weight : float or array of shape (n_rows,)
        One weight for all rows, or one for each row, in the dtype of the means. Weights that sum
        to 1 make the moments a mean over the rows.
    pair : tuple of array or None, default=None
        Row statistics d_l, which add W * (d_{l+1}' d_l) to the expectation of x_{l+1} x_l'; None
        for layers whose values are known.
    further : tuple, default=None
        For each layer the expected statistics that mean and variance do not determine, a tuple of
        arrays; None if there are none or the values are known.
    """

    means: tuple[Array, ...]
    variances: tuple[Array | None, ...]
    weight: Any
    pair: tuple[Array | None, ...] | None = None
    further: tuple[tuple[Array, ...] | None, ...] | None = None

    def weighed(self, weight: Any) -> "Block":
        """Return the block with another weight, in less time than by ``_replace``."""
        return Block(self.means, self.variances, weight, self.pair, self.further)


@dataclass(eq=False)  # not frozen, as a step makes several and that takes twice the time
class Moments:
    """Expected sufficient statistics.

    Row blocks become matrices only when the moments are applied. :meth:`reduced` does this earlier,
    so that the moments of parts of a batch, or of several processes, can be added. The sum of two
    blocks with the same ``means`` object is one block, with the sum of their weights.

    Parameters
    ----------
    blocks : tuple of Block
        Rows with their statistics and products.
    matrices : tuple of (int, array of shape (n_units[l + 1], n_units[l])), default=()
        Pairs (l, matrix): terms of E[x_{l+1} x_l'] beyond products of rows.
    sums : tuple of (int, Theta), default=()
        Pairs (l, statistics): terms of the expected statistics of layer l beyond the rows.
    """

    blocks: tuple[Block, ...]
    matrices: tuple[tuple[int, Array], ...] = ()
    sums: tuple[tuple[int, Theta], ...] = ()

    def __add__(self, other: "Moments") -> "Moments":
        blocks = self.blocks + other.blocks
        if len(blocks) == 2 and blocks[0].means is blocks[1].means:
            blocks = (blocks[0].weighed(blocks[0].weight + blocks[1].weight),)
        return Moments(blocks, self.matrices + other.matrices, self.sums + other.sums)

    def __neg__(self) -> "Moments":
        return self.scaled(-1.0)

    def __sub__(self, other: "Moments") -> "Moments":
        if len(self.blocks) == len(other.blocks) == 1 and not (other.matrices or other.sums):
            (one,), (two,) = self.blocks, other.blocks
            if one.means is two.means:  # the same rows, as in each batch of persistent chains
                both = one.weighed(one.weight - two.weight)
                return Moments((both,), self.matrices, self.sums)
        return self + -other

    def scaled(self, factor: float) -> "Moments":
        """Return the moments times a number."""
        return Moments(
            tuple(block.weighed(factor * block.weight) for block in self.blocks),
            tuple((l, factor * matrix) for l, matrix in self.matrices),
            tuple((l, theta.map(lambda part: factor * part)) for l, theta in self.sums),
        )

    def add_pair(
        self, machine: Machine, l: int, out: Array, step: float, keep: float = 1.0
    ) -> Array:
        """Return keep * out + step * E[x_{l+1} x_l'], in place where the library can.

        ``out`` may be the weights themselves, which are read before the first write.
        """
        products, terms = [], []
        for means, _, weight, pair, _ in self.blocks:
            terms.append(_weighted(means[l + 1], means[l], weight, step))
            if pair is not None and pair[l] is not None:
                above, below, alpha = _weighted(pair[l + 1], pair[l], weight * machine.scale, step)
                product = matmul(above.T, below)
                product *= machine.weights[l]
                product *= alpha
                products.append(product)
        out = add_products(out, terms, keep)
        for product in products:
            out += product
        for index, matrix in self.matrices:
            if index == l:
                out += step * matrix
        return out

    def mean(self, l: int) -> Array:
        """Return the expected values of layer ``l``, of shape (n_units[l],)."""
        parts = [weighted_sum(block.weight, block.means[l]) for block in self.blocks]
        parts += [theta.field for index, theta in self.sums if index == l]
        return sum(parts[1:], parts[0])

    def statistics(self, unit: Unit, l: int) -> Theta:
        """Return the expected statistics of layer ``l``, a Theta of shape (n_units[l],)."""
        parts = []
        for means, variances, weight, _, further in self.blocks:
            more = None if further is None else further[l]
            parts.append(unit.total_statistics(weight, means[l], variances[l], more))
        for index, theta in self.sums:
            if index == l:
                parts.append(theta)
        total = parts[0]
        for part in parts[1:]:
            total = total.map(add, part)
        return total

    def reduced(self, machine: Machine) -> "Moments":
        """Return the same moments without rows: one matrix and one Theta for each layer."""
        zeros = (namespace(W).zeros_like(W) for W in machine.weights)
        pairs = [self.add_pair(machine, l, out, 1.0) for l, out in enumerate(zeros)]
        thetas = [self.statistics(unit, l) for l, unit in enumerate(machine.units)]
        return Moments((), tuple(enumerate(pairs)), tuple(enumerate(thetas)))

    def increased(self, machine: Machine, other: "Moments") -> "Moments":
        """Return the sum with ``other``, for moments from :meth:`reduced`, which are consumed."""
        pairs = [(l, other.add_pair(machine, l, out, 1.0)) for l, out in self.matrices]
        thetas = [
            (l, theta.map(add, other.statistics(machine.units[l], l))) for l, theta in self.sums
        ]
        return Moments((), tuple(pairs), tuple(thetas))


def _weighted(left: Array, right: Array, weight: Any, step: Any) -> tuple[Array, Array, Any]:
    """Return a term for :func:`add_products`, of rows by ``step`` times their weight."""
    if not is_per_row(weight):
        return left, right, step * weight
    if is_sparse(right) or left.shape[-1] < right.shape[-1]:
        return left * weight[:, None], right, step
    return left, right * weight[:, None], step


def data_moments(
    machine: Machine,
    X: Array,
    weights: Array | None = None,
    given: Theta | None = None,
    moments: tuple[Array, Array | None] | None = None,
) -> Moments:
    """Return the moments of a machine with one hidden layer whose visible values X are known.

    ``weights`` of rows are used as they are; None gives each row 1 / n_rows. ``given`` are the
    parameters of the hidden units given X, and ``moments`` those of the hidden units by
    :meth:`~skrbm.units.Unit.moments`, if they are known already.
    """
    theta, hidden = condition(machine, X) if given is None else given, machine.units[1]
    mean, variance = hidden.moments(theta) if moments is None else moments
    further = (None, hidden.further(theta))
    weight = 1.0 / X.shape[0] if weights is None else cast(weights, machine.dtype)
    return Moments((Block((X, mean), (None, variance), weight, further=further),))
