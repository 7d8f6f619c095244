"""Adaptive TAP: the reaction of the machine on each unit, from the weights as they are.

TAP has the reaction to second order, for weights that are independent of each other. Here the
reaction makes a Gaussian distribution with the weights of the machine agree with the units in all
means and variances (Opper and Winther 2001). The iteration is Alg. 3 (App. D) of Tramel et al.
2018, vector approximate message passing. As there, a is a mean and c a variance, and B and A are
the field and the precision that tilt a unit; a cavity is a unit without the reaction on it.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..arrays import cast, is_foreign, like, namespace, row_sums
from ..exceptions import DivergenceError
from ..machine import Block, Moments, coupled, input_field
from ._complement import complement_factors
from ._fixed_point import FixedPoint, choose, map_rows
from ._needs import Needs

_MAX_REJECTIONS = 60
_BLOCK, _DEVICE_BLOCK = 2**15, 2**25  # entries of matrices that are factored together


class Reactions(NamedTuple):
    """State of adaptive TAP: means and variances, and what each unit receives; rows first.

    ``fields`` and ``precisions`` tilt each unit to its mean and variance: B_1 and A_1 of the paper
    without the unit's own parameters. ``rejected`` has one array, of shape (n_rows, 1): 1 where
    the last step was replaced by a careful one, 0 elsewhere, and between them with damping.
    """

    means: tuple
    variances: tuple
    fields: tuple
    precisions: tuple
    rejected: tuple


class _Sides(NamedTuple):
    """All weights, times the scale, as one matrix between the even and the odd layers.

    The rows are the side with fewer units: the even layers if ``parity`` is 0, else the odd ones.
    ``places`` are the slices of the layers on their side.
    """

    matrix: Any
    parity: int
    places: tuple

    @classmethod
    def of(cls, machine):
        sizes, places = [0, 0], []
        for l, n in enumerate(machine.n_units):
            places.append(slice(sizes[l % 2], sizes[l % 2] + n))
            sizes[l % 2] += n
        parity, W = int(sizes[0] >= sizes[1]), machine.weights[0]
        matrix = namespace(W).zeros((sizes[parity], sizes[1 - parity]), **like(W))
        sides = cls(matrix, parity, tuple(places))
        for l, W in enumerate(machine.weights):
            sides.block(matrix, l)[...] = machine.scale * W
        return sides

    def join(self, layers):
        """Return the joined arrays of the layers in the rows, and of those in the columns."""
        xp = namespace(layers[0])
        sides = (layers[self.parity :: 2], layers[1 - self.parity :: 2])
        return tuple(side[0] if len(side) == 1 else xp.concat(side, axis=1) for side in sides)

    def split(self, *sides):
        """Return the arrays of the layers; the inverse of :meth:`join`."""
        places = enumerate(self.places)
        return tuple(sides[(l - self.parity) % 2][:, place] for l, place in places)

    def block(self, matrix, l):
        """Return the view of a matrix of the same shape that belongs to ``weights[l]``."""
        below, above = self.places[l], self.places[l + 1]
        return matrix[below, above].T if l % 2 == self.parity else matrix[above, below]


def _cavities(state):
    """Return means and variances of the cavities, with variance > 0.

    They are B_2 / A_2 and 1 / A_2 of the paper, where A_2 = 1 / c - A_1 and B_2 = a / c - B_1,
    written so that nothing overflows at c = 0.
    """
    means, variances = [], []
    for a, c, B, A in zip(*state[:4], strict=True):
        xp = namespace(a)
        whole = 1 - A * c
        means.append((a - B * c) / whole)
        variances.append(xp.clip(c / whole, float(xp.finfo(c.dtype).smallest_normal) ** 0.5, None))
    return tuple(means), tuple(variances)


def _careful(machine, state):
    """Return the state with reactions at least as strong as those of second order.

    For independent weights the precision matrix is then positive definite for any variances: the
    precisions 1 / c + (W * W) c are at least 2 sqrt(sum W**2), the edge of the spectrum of W.
    """
    fields, precisions = [], []
    for l, (mean, precision) in enumerate(zip(state.means, state.precisions, strict=True)):
        second = -coupled(machine, machine.squares, l, state.variances, power=2)
        precisions.append(namespace(mean).minimum(precision, second))
        fields.append(input_field(machine, l, state.means) + precisions[l] * mean)
    return state._replace(fields=tuple(fields), precisions=tuple(precisions))


class _Factors(NamedTuple):
    """Factors of the precision matrices of a block of rows in units of the cavity variances.

    ``diagonal`` to ``excess`` are those of :func:`complement_factors`. The cavity means and
    variances, each a pair of the units in the rows and in the columns of the matrix, are those of
    the given state, or of the careful one where the former was rejected; the variances have been
    multiplied by ``factor``.
    """

    diagonal: Any
    V: Any
    Y: Any
    excess: Any
    means: tuple
    variances: tuple
    factor: Any
    rejected: Any


def _factored(machine, sides, state, careful):
    """Yield slices of rows, and the :class:`_Factors` of each.

    In rows where the precision matrix is not positive definite, ``careful`` replaces the state,
    with variances halved until it is.
    """
    cavities = (_cavities(each) for each in (state, careful))
    cavities = tuple(tuple(map(sides.join, parts)) for parts in cavities)
    n, matrix, xp = state.means[0].shape[0], sides.matrix, namespace(sides.matrix)
    size = _DEVICE_BLOCK if is_foreign(matrix) else _BLOCK
    size = max(1, size // max(1, math.prod(matrix.shape)))
    for start in range(0, n, size):
        rows = slice(start, min(start + size, n))
        (means, variances), other = map_rows(lambda part, rows=rows: part[rows, :], cavities)
        factor = xp.ones((rows.stop - start, 1), **like(matrix))
        rejected = xp.zeros_like(factor)
        for _ in range(_MAX_REJECTIONS):
            below, above = (factor * part for part in variances)
            K = matrix * xp.sqrt(above)[:, None, :]
            K *= xp.sqrt(below)[:, :, None]
            *factors, is_definite = complement_factors(K)
            bad = ~is_definite[:, None]
            if not bool(xp.any(bad)):
                break
            factor = xp.where(bad & (rejected > 0), 0.5 * factor, factor)
            means, variances = choose(bad[:, 0], other, (means, variances))
            rejected = xp.where(bad, xp.ones_like(rejected), rejected)
        else:
            raise DivergenceError(
                "AdaptiveTAP found no variances with a positive definite precision matrix: the "
                "weights are too large or not finite; lower learning_rate or scale X"
            )
        yield rows, _Factors(*factors, means, (below, above), factor, rejected)


class _Gaussian(NamedTuple):
    """The Gaussian distribution with the machine's weights, for each row.

    Its precision matrix is diag(1 / cavity variances) - weights, and its variances are
    cavity variances * (1 + excesses).
    """

    state: Reactions  # from which it is made, careful in the rows where the given one was rejected
    cavity_means: tuple
    cavity_variances: tuple
    means: tuple
    excesses: tuple
    log_det: Any  # of the precision matrix in units of the cavity variances, float64
    factor: Any  # on the cavity variances
    rejected: Any  # 1 or 0


def _gaussian(machine, state):
    """Return the Gaussian with the cavities' means and variances."""
    sides, careful, parts = _Sides.of(machine), _careful(machine, state), []
    xp, matrix = namespace(sides.matrix), sides.matrix
    for _, found in _factored(machine, sides, state, careful):
        (mean, others), (below, above) = found.means, found.variances
        root = xp.sqrt(below)
        joint = mean / root + root * (others @ matrix.T)
        joint = root * (found.V @ (found.V.mT @ joint[:, :, None]))[:, :, 0]
        outer = others + above * (joint @ matrix)
        log_det = 2 * xp.sum(xp.log(found.diagonal), axis=-1, dtype=xp.float64)
        excesses = found.excess, xp.sum(found.Y * found.Y, axis=-2)
        parts.append((joint, outer, *excesses, log_det, found.factor, found.rejected))
    *halves, log_det, factor, rejected = (
        xp.concat(part, axis=0) for part in zip(*parts, strict=True)
    )
    means, excesses = (sides.split(*halves[i : i + 2]) for i in (0, 2))
    chosen = map_rows(lambda a, b: a + rejected * (b - a), state, careful)
    return _Gaussian(chosen, *_cavities(chosen), means, excesses, log_det, factor, rejected)


@dataclass(frozen=True)
class AdaptiveTAP(FixedPoint):
    """Adaptive TAP, which does not assume that the weights are independent of each other.

    The units and a Gaussian distribution with the weights of the model are updated in turn: the
    units compute their means and variances under the fields and precisions they receive, and the
    Gaussian with these means and variances gives new fields and precisions, until both agree. The
    method supports any number of layers. It is exact for Gaussian units, and more accurate than TAP
    if the weights are correlated. For each row, a sweep inverts a matrix as large as the smaller
    layer, so it takes tens to hundreds of times as long as a sweep of TAP.

    If the precision matrix of the Gaussian is not positive definite, the step is rejected and
    replaced by a careful one, with the reactions of TAP and with the variances halved until the
    matrix is positive definite. A row whose last step was rejected has not converged.

    Parameters
    ----------
    max_iter, tol, damping, start, n_starts : as in :class:`FixedPoint`
        ``damping`` is 0.5 by default.
    """

    needs = Needs(units=("takes_precision",))

    damping: float = 0.5

    def state_at(self, machine, X):
        """Return the state with visible means X and the hidden units given these alone.

        Bounded visible units start without variance. Unbounded ones start with their own variance,
        as the precisions that they receive could otherwise make them improper.
        """
        xp = namespace(X)
        zero = xp.zeros_like(X[:, :1])
        zeros = tuple(zero * theta.field for theta in machine.thetas)
        given = (X, *[None] * (len(zeros) - 1))
        fields = (zeros[0], input_field(machine, 1, given), *zeros[2:])
        state = self._respond(machine, fields, zeros, zero)
        bounded = np.isfinite(machine.units[0].bounds).all()
        first = zeros[0] if bounded else state.variances[0]
        return state._replace(means=(X, *state.means[1:]), variances=(first, *state.variances[1:]))

    def step(self, machine, state):
        """Update all layers: the Gaussian, then the units."""
        gaussian, (_, variances) = _gaussian(machine, state), _cavities(state)
        # -q / (1 + variance q) with q = excess / (variance of the Gaussian's cavity). This is above
        # -1 / variance, and the precision of a Gaussian unit is at least 1 / variance, so that the
        # unit stays proper.
        precisions = tuple(
            -excess / (gaussian.factor * used + variance * excess)
            for excess, used, variance in zip(
                gaussian.excesses, gaussian.cavity_variances, variances, strict=True
            )
        )
        # Unbounded units that are held at known values could become improper.
        precisions = tuple(map(_proper, machine.units, machine.thetas, precisions))
        fields = tuple(
            input_field(machine, l, gaussian.means) + precision * gaussian.means[l]
            for l, precision in enumerate(precisions)
        )
        return self._respond(machine, fields, precisions, gaussian.rejected)

    def _respond(self, machine, fields, precisions, rejected):
        """Return the state of units that receive these fields and precisions."""
        pairs = zip(machine.units, self._thetas(machine, fields, precisions), strict=True)
        moments = [unit.mean_variance(theta) for unit, theta in pairs]
        return Reactions(*zip(*moments, strict=True), fields, precisions, (rejected,))

    @staticmethod
    def _thetas(machine, fields, precisions):
        parts = zip(machine.units, machine.thetas, fields, precisions, strict=True)
        return [unit.tilt(theta, B, A) for unit, theta, B, A in parts]

    def residual(self, old, new):
        """Return the mean squared change of the means, plus two more parts.

        One is not 0 where a step was rejected. The other is the mean squared change of the
        precisions, times the squared variances: by symmetry the means can be at rest while the
        precisions still move.
        """
        xp = namespace(new.means[0])
        rejected = cast(new.rejected[0][:, 0], xp.float64) ** 2
        moved = sum(
            row_sums(((b - a) * c) ** 2)
            for a, b, c in zip(old.precisions, new.precisions, new.variances, strict=True)
        )
        n_units = sum(mean.shape[1] for mean in new.means)
        return super().residual(old, new) + rejected + moved / n_units

    def log_partition(self, machine, state):
        """Return minus the free energy of each row, in float64.

        It is log Z of the units with fields B_1 and precisions A_1, plus that of the Gaussian with
        the cavities' B_2 and A_2, minus that of independent Gaussians with the sums of both, which
        have means a and variances c; with B_2 and A_2 eliminated.
        """
        gaussian = _gaussian(machine, state)
        total = -0.5 * gaussian.log_det
        thetas = self._thetas(machine, state.fields, state.precisions)
        for l, (unit, theta) in enumerate(zip(machine.units, thetas, strict=True)):
            a, c, B, A = (leaves[l] for leaves in gaussian.state[:4])
            local = A * a * a - 2 * a * B + c * B * B
            local = local / (1 - A * c) - namespace(a).log1p(-A * c)
            local = local + gaussian.cavity_means[l] * input_field(machine, l, gaussian.means)
            total = total + unit.total_log_partition(theta) + 0.5 * row_sums(local)
        return total

    def moments(self, machine, state):
        """Return the expected statistics, averaged over the rows.

        The expectation of x_{l+1} x_l' is the product of the means plus a covariance. This has the
        correlations of the Gaussian and the variances of the units. At a solution it is the
        Gaussian's covariance; before, it cannot be too large for the variances.
        """
        n, thetas = state.means[0].shape[0], self._thetas(machine, state.fields, state.precisions)
        pairs = zip(machine.units, thetas, strict=True)
        further = tuple(unit.further(theta) for unit, theta in pairs)
        block = Block(state.means, state.variances, 1.0 / n, further=further)
        sides = _Sides.of(machine)
        xp, variances = namespace(sides.matrix), sides.join(state.variances)
        total = xp.zeros_like(sides.matrix)
        for rows, found in _factored(machine, sides, state, _careful(machine, state)):
            left = xp.sqrt(variances[0][rows, :] / (1 + found.excess))
            right = xp.sqrt(variances[1][rows, :] / (1 + xp.sum(found.Y * found.Y, axis=-2)))
            products = (left[:, :, None] * found.V) @ (found.Y * right[:, None, :])
            total += xp.sum(products, axis=0)
        total *= 1 / n
        matrices = tuple((l, sides.block(total, l)) for l in range(len(machine.weights)))
        return Moments((block,), matrices)


def _proper(unit, theta, precision):
    """Return the precisions, set to 0 where they would make the unit improper."""
    improper = unit.is_improper(unit.tilt(theta, 0 * precision, precision))
    if improper is None:
        return precision
    return namespace(precision).where(improper, 0 * precision, precision)
