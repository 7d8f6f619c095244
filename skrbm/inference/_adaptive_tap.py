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
from ._complement import complement_factors, stacked_complement_factors
from ._fixed_point import FixedPoint, map_rows
from ._needs import Needs

_MAX_REJECTIONS = 60
_BLOCK = 2**25  # entries of the matrices of rows that are factored together on a device
_NO_FACTORS = (
    "AdaptiveTAP found no variances with a positive definite precision matrix: the weights are "
    "too large or not finite; lower learning_rate or scale X"
)


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
    """Factors of the precision matrix of a row, or a block of rows, as in ``_complement``.

    The row is that of the given state, or of the careful one where the former was rejected; its
    cavity variances have been multiplied by ``factor``.
    """

    diagonal: Any
    V: Any
    Y: Any
    excess: Any
    factor: Any
    rejected: Any


class _Attempts(NamedTuple):
    """A state and the careful one, and the cavity means and variances of both, joined by side.

    Rows are taken one by one in NumPy, and in blocks on a device: arrays then have rows first.
    """

    sides: _Sides
    states: tuple
    cavity_means: tuple
    cavity_variances: tuple

    @classmethod
    def of(cls, machine, state):
        sides, states = _Sides.of(machine), (state, _careful(machine, state))
        cavities = zip(*map(_cavities, states), strict=True)
        return cls(sides, states, *(tuple(map(sides.join, leaves)) for leaves in cavities))

    def factored(self):
        """Yield the index of each row, or a slice of them, and its :class:`_Factors`."""
        matrix, n = self.sides.matrix, self.states[0].means[0].shape[0]
        if is_foreign(matrix):
            size = max(1, _BLOCK // max(1, math.prod(matrix.shape)))
            blocks = [slice(start, min(start + size, n)) for start in range(0, n, size)]
        else:
            blocks = range(n)
        factor = _factors_of_rows if is_foreign(matrix) else _factors_of_row
        for i in blocks:
            yield i, factor(matrix, *(_rows(sides, i) for sides in self.cavity_variances))

    def chosen(self, attempts, i, rejected):
        """Return the sides of the attempt that was not rejected."""
        if not is_foreign(self.sides.matrix):
            return _rows(attempts[int(rejected)], i)
        where = namespace(rejected).where
        pairs = zip(*(_rows(sides, i) for sides in attempts), strict=True)
        return tuple(where(rejected > 0, careful, own) for own, careful in pairs)

    def gaussian(self, i, factors):
        """Return the parts of the Gaussian for row ``i``, or of a block."""
        matrix, xp = self.sides.matrix, namespace(self.sides.matrix)
        diagonal, V, Y, excess, factor, rejected = factors
        mean, others = self.chosen(self.cavity_means, i, rejected)
        below, above = self.chosen(self.cavity_variances, i, rejected)
        root = xp.sqrt(factor * below)
        joint = root * _times(V, _times(V.mT, mean / root + root * _times(matrix, others)))
        outer = others + factor * above * (joint @ matrix)
        log_det = 2 * xp.sum(xp.log(diagonal), axis=-1, dtype=xp.float64)
        return joint, outer, excess, xp.sum(Y * Y, axis=-2), log_det, factor, rejected


def _rows(sides, i):
    return tuple(side[i, :] for side in sides)


def _times(A, x):
    """Return the products of matrices and vectors, of rows of them if x has two axes."""
    return A @ x if x.ndim == 1 else (A @ x[..., None])[..., 0]


def _factors_of_row(matrix, own, careful):
    """Factor the precision matrix of one row in units of its cavity variances.

    ``own`` and ``careful`` are the cavity variances of the units in the rows and in the columns of
    ``matrix``. Where the matrix with ``own`` is not positive definite, ``careful`` is used, halved
    until it is.
    """
    for n_rejected in range(_MAX_REJECTIONS):
        below, above = careful if n_rejected else own
        factor = 0.5 ** max(n_rejected - 1, 0)
        K = matrix * np.sqrt(factor * above)
        K *= np.sqrt(factor * below)[:, None]
        factors = complement_factors(K)
        if factors is not None:
            return _Factors(*factors, factor, float(n_rejected > 0))
    raise DivergenceError(_NO_FACTORS)


def _factors_of_rows(matrix, own, careful):
    """Do the same for a block of rows on a device."""
    xp, (below, above) = namespace(matrix), own
    factor, rejected = xp.ones_like(below[:, :1]), xp.zeros_like(below[:, :1])
    for _ in range(_MAX_REJECTIONS):
        K = matrix * xp.sqrt(factor * above)[:, None, :] * xp.sqrt(factor * below)[:, :, None]
        *factors, is_definite = stacked_complement_factors(K)
        bad = ~is_definite[:, None]
        if not bool(xp.any(bad)):
            return _Factors(*factors, factor, rejected)
        factor = xp.where(bad & (rejected > 0), 0.5 * factor, factor)
        below, above = (xp.where(bad, b, a) for a, b in zip((below, above), careful, strict=True))
        rejected = xp.where(bad, xp.ones_like(rejected), rejected)
    raise DivergenceError(_NO_FACTORS)


def _gaussian(machine, state):
    """Return the Gaussian with the cavities' means and variances."""
    attempts, reference = _Attempts.of(machine, state), state.means[0]
    parts = (attempts.gaussian(i, factors) for i, factors in attempts.factored())
    columns = list(zip(*parts, strict=True))
    if is_foreign(reference):
        columns = [namespace(reference).concat(column, axis=0) for column in columns]
    else:
        columns[:5] = map(np.stack, columns[:5])
        columns[5:] = (np.array(column, reference.dtype)[:, None] for column in columns[5:])
    *halves, log_det, factor, rejected = columns
    means, excesses = (attempts.sides.split(*halves[i : i + 2]) for i in (0, 2))
    chosen = map_rows(lambda a, b: a + rejected * (b - a), *attempts.states)
    return _Gaussian(chosen, *_cavities(chosen), means, excesses, log_det, factor, rejected)


@dataclass(frozen=True)
class AdaptiveTAP(FixedPoint):
    """Adaptive TAP, for any kinds of units and any number of layers.

    The units and a Gaussian distribution with the machine's weights are updated in turn. The units
    give means and variances under the fields and precisions they receive. The Gaussian with these
    means and variances gives new fields and precisions, until both agree. The method is exact for
    Gaussian units, and better than TAP if the weights are not independent of each other. A sweep
    inverts a matrix as large as the smaller side for each row, so it takes hundreds of times as
    long as a sweep of TAP.

    If the Gaussian's precision matrix is not positive definite, the step is rejected. A careful
    step replaces it, with the reactions of TAP and with the variances halved until the matrix is
    positive definite. A row whose last step was rejected has not converged.

    Parameters
    ----------
    max_iter : int, default=10
        Maximum number of sweeps.
    tol : float, default=1e-8
        A row has converged when the mean squared change of its means is at most this, and no step
        is rejected.
    damping : float in [0, 1), default=0.5
        Weight of the old state in each new one.
    """

    needs = Needs(units=("takes_precision",), one_scale=True)

    max_iter: int = 10
    tol: float = 1e-8
    damping: float = 0.5

    def start(self, machine, X):
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
        precisions = tuple(map(_proper, machine.units, machine.thetas, precisions))
        fields = tuple(
            input_field(machine, l, gaussian.means) + precision * gaussian.means[l]
            for l, precision in enumerate(precisions)
        )
        return self._respond(machine, fields, precisions, gaussian.rejected)

    def _respond(self, machine, fields, precisions, rejected):
        """Return the state of units that receive these fields and precisions."""
        thetas = self._thetas(machine, fields, precisions)
        moments = [
            unit.mean_variance(theta) for unit, theta in zip(machine.units, thetas, strict=True)
        ]
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
        weight = 1.0 / state.means[0].shape[0]
        thetas = self._thetas(machine, state.fields, state.precisions)
        further = tuple(
            unit.further(theta) for unit, theta in zip(machine.units, thetas, strict=True)
        )
        block = Block(state.means, state.variances, weight, further=further)
        return Moments((block,), _covariances(machine, state))


def _proper(unit, theta, precision):
    """Return the precisions, set to 0 where they would make the unit improper.

    This happens only for unbounded units that are held at known values.
    """
    improper = unit.is_improper(unit.tilt(theta, 0 * precision, precision))
    if improper is None:
        return precision
    return namespace(precision).where(improper, 0 * precision, precision)


def _covariances(machine, state):
    """Return the covariances between neighbouring layers, as (l, matrix), averaged over rows."""
    attempts = _Attempts.of(machine, state)
    sides, variances = attempts.sides, attempts.sides.join(state.variances)
    xp, total = namespace(sides.matrix), namespace(sides.matrix).zeros_like(sides.matrix)
    for i, (_, V, Y, excess, *_) in attempts.factored():
        left = xp.sqrt(variances[0][i, :] / (1 + excess))
        right = xp.sqrt(variances[1][i, :] / (1 + xp.sum(Y * Y, axis=-2)))
        parts = (left[..., None] * V) @ (Y * right[..., None, :])
        total += parts if parts.ndim == 2 else xp.sum(parts, axis=0)
    total *= 1 / variances[0].shape[0]
    return tuple((l, sides.block(total, l)) for l in range(len(machine.weights)))
