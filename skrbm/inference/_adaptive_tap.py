"""Adaptive TAP: the reaction of the machine on each unit, from the weights as they are.

TAP knows the reaction to second order, for weights that are independent of each other. Here it is
the one with which a Gaussian law with the couplings of the machine agrees with its units in all
means and variances (Opper and Winther 2001). The iteration is Alg. 3 (App. D) of Tramel et al.
2018, vector approximate message passing.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..arrays import cast, from_numpy, like, namespace, row_sums, to_numpy
from ..exceptions import DivergenceError
from ..machine import Block, Moments, coupled, input_field
from ._complement import complement_factors
from ._fixed_point import FixedPoint, map_rows
from ._needs import Needs

_MOST_REFUSALS = 60


class Reactions(NamedTuple):
    """State of adaptive TAP: magnetizations, and what each unit sees of the others; rows first.

    ``fields`` and ``precisions`` tilt each unit to its mean and variance: B_1 and A_1 of the paper
    without the unit's own parameters. ``refused`` has one array, of shape (n_rows, 1): 0 where
    the last step was taken as it is.
    """

    means: tuple
    variances: tuple
    fields: tuple
    precisions: tuple
    refused: tuple


class _Gaussian(NamedTuple):
    """The Gaussian law with the machine's couplings, for each row.

    Its precision matrix is diag(1 / spreads) - couplings, its variances are spreads * (1 + excess).
    ``state`` is the one it was made from, careful in the rows where the given one was refused.
    """

    state: Reactions
    cavities: tuple  # means of the units without couplings
    spreads: tuple  # their variances
    means: tuple
    excesses: tuple
    log_det: Any  # of the precision matrix in units of the spreads, float64
    taken: Any  # factor on the spreads
    refused: Any  # 1 or 0


class _Sides(NamedTuple):
    """The couplings as one matrix between the even and the odd layers.

    The rows are the side with fewer units; ``parity`` is that of its layers.
    """

    matrix: Any
    parity: int

    def join(self, layers):
        """Return the arrays of the layers in the rows, and of those in the columns, joined."""
        xp = namespace(layers[0])
        sides = (layers[self.parity :: 2], layers[1 - self.parity :: 2])
        return tuple(side[0] if len(side) == 1 else xp.concat(side, axis=1) for side in sides)

    def split(self, machine, rows, columns):
        """Return the layers, which is the inverse of :meth:`join`."""
        sides = (rows, columns)
        return tuple(
            sides[(l - self.parity) % 2][:, _place(machine, l)] for l in range(len(machine.units))
        )

    def block(self, machine, matrix, l):
        """Return the part of a matrix shaped like the couplings that belongs to ``weights[l]``."""
        below, above = _place(machine, l), _place(machine, l + 1)
        return matrix[below, above].T if l % 2 == self.parity else matrix[above, below]


def _place(machine, l):
    """Return where layer ``l`` is on its side, a slice."""
    n = machine.n_units
    return slice(sum(n[l % 2 : l : 2]), sum(n[l % 2 : l + 1 : 2]))


def _sides(machine):
    n = machine.n_units
    parity = 0 if sum(n[::2]) < sum(n[1::2]) else 1
    rows = [
        _concat([_weights(machine, l, k) for k in range(1 - parity, len(n), 2)], axis=1)
        for l in range(parity, len(n), 2)
    ]
    matrix = _concat(rows, axis=0)
    return _Sides(matrix if machine.scale == 1 else machine.scale * matrix, parity)


def _concat(arrays, axis):
    return arrays[0] if len(arrays) == 1 else namespace(arrays[0]).concat(arrays, axis=axis)


def _weights(machine, l, k):
    """Return the weights from layer ``k`` to layer ``l``, zeros unless they are neighbours."""
    if abs(l - k) != 1:
        W = machine.weights[0]
        return namespace(W).zeros((machine.n_units[l], machine.n_units[k]), **like(W))
    if k < l:
        return machine.weights[k]
    return namespace(machine.weights[l]).asarray(machine.weights[l].T, copy=True)


def _cavities(state):
    """Return means and variances of the units' laws without the reactions, 0 < variance.

    1 / A_2 and B_2 / A_2 of the paper, where A_2 = 1 / c - A_1 and B_2 = a / c - B_1, written so
    that nothing overflows at c = 0.
    """
    means, spreads = [], []
    for a, c, B, A in zip(*state[:4], strict=True):
        xp = namespace(a)
        whole = 1 - A * c
        means.append((a - B * c) / whole)
        spreads.append(xp.clip(c / whole, float(xp.finfo(c.dtype).smallest_normal) ** 0.5, None))
    return tuple(means), tuple(spreads)


def _careful(machine, state):
    """Return the state with reactions at least as strong as those of second order.

    With these a matrix of independent weights is positive definite for any variances: the
    precisions 1 / c + (W * W) c are at least twice the root of sum W**2, the edge of its spectrum.
    """
    fields, precisions = [], []
    for l, (mean, precision) in enumerate(zip(state.means, state.precisions, strict=True)):
        second = -coupled(machine, machine.squares, l, state.variances, power=2)
        precisions.append(namespace(mean).minimum(precision, second))
        fields.append(input_field(machine, l, state.means) + precisions[l] * mean)
    return state._replace(fields=tuple(fields), precisions=tuple(precisions))


def _factors(matrix, own, careful):
    """Factor the precision matrix of one row in units of its spreads.

    Parameters
    ----------
    matrix : array of shape (n_below, n_above)
    own, careful : tuple of arrays
        Spreads of the units in the rows and in the columns: those to take, and those to take in
        their place, halved until the matrix is positive definite, where that is refused.

    Returns
    -------
    factors : tuple
        As of :func:`complement_factors`.
    taken : float
        Factor on the spreads.
    refused : float
        1 or 0.
    """
    sqrt = namespace(matrix).sqrt
    for refusals in range(_MOST_REFUSALS):
        below, above = careful if refusals else own
        taken = 0.5 ** max(refusals - 1, 0)
        K = matrix * sqrt(taken * above)
        K *= sqrt(taken * below)[:, None]
        factors = complement_factors(K)
        if factors is not None:
            return factors, taken, float(refusals > 0)
    raise DivergenceError(
        "AdaptiveTAP: couplings are not finite, or so large that no part of them leaves the "
        "precision matrix positive definite. Lower learning_rate or scale X."
    )


class _Attempts(NamedTuple):
    """What each row is made from: the state itself, or a careful one where that is refused."""

    sides: _Sides
    states: tuple
    cavities: tuple
    spreads: tuple

    def factors(self, i):
        """Return what :func:`_factors` does, for row ``i``."""
        return _factors(self.sides.matrix, *(self._row(spreads, i) for spreads in self.spreads))

    def row(self, i):
        """Return the parts of the Gaussian law for row ``i``."""
        matrix, xp = self.sides.matrix, namespace(self.sides.matrix)
        (diagonal, V, Y, excess), taken, refused = self.factors(i)
        mean, others = self._row(self.cavities[int(refused)], i)
        below, above = self._row(self.spreads[int(refused)], i)
        root = xp.sqrt(taken * below)
        joint = root * (V @ (V.T @ (mean / root + root * (matrix @ others))))
        log_det = 2 * xp.sum(xp.log(diagonal), dtype=xp.float64)
        outer = others + taken * above * (joint @ matrix)
        return joint, outer, excess, xp.sum(Y * Y, axis=0), log_det, taken, refused

    @staticmethod
    def _row(sides, i):
        return tuple(side[i, :] for side in sides)


def _attempts(machine, state):
    sides, states = _sides(machine), (state, _careful(machine, state))
    cavities, spreads = zip(*map(_cavities, states), strict=True)
    return _Attempts(
        sides, states, *(tuple(map(sides.join, leaves)) for leaves in (cavities, spreads))
    )


def _gaussian(machine, state):
    """Return the Gaussian law whose units have the cavities' means and variances."""
    attempts, beside = _attempts(machine, state), state.means[0]
    rows = [attempts.row(i) for i in range(beside.shape[0])]
    *arrays, taken, refused = zip(*rows, strict=True)
    below, above, *excesses, log_det = (namespace(beside).stack(list(column)) for column in arrays)
    means, excesses = (
        attempts.sides.split(machine, *sides) for sides in ((below, above), excesses)
    )
    taken, refused = (
        cast(from_numpy(np.array(column)[:, None], beside), beside.dtype)
        for column in (taken, refused)
    )
    chosen = map_rows(lambda a, b: a + refused * (b - a), *attempts.states)
    return _Gaussian(chosen, *_cavities(chosen), means, excesses, log_det, taken, refused)


@dataclass(frozen=True)
class AdaptiveTAP(FixedPoint):
    """Adaptive TAP, for any kinds of units and any number of layers.

    The units and a Gaussian law with the machine's couplings take turns. The units give means and
    variances under the field and the precision they receive from the others; the Gaussian with
    these means and variances gives fields and precisions back, until both agree. It is exact for
    Gaussian units, and better than TAP where the weights are not independent of each other. Each
    sweep inverts a matrix as large as the smaller side for each row, which makes it hundreds of
    times as expensive as a sweep of TAP.

    Where the Gaussian's precision matrix is not positive definite, the step is refused. A more
    careful one is made in its place, with the reactions of TAP, and the variances halved until the
    matrix is. A row whose steps are refused counts as not converged.

    Parameters
    ----------
    max_iter : int, default=10
        Largest number of sweeps.
    tol : float, default=1e-8
        A solution has converged when the mean squared change of its means is at most this, and
        no step is refused.
    damping : float in [0, 1), default=0.5
        Part of the old state that is kept in each sweep.
    """

    needs = Needs(units=("takes_precision",))

    max_iter: int = 10
    tol: float = 1e-8
    damping: float = 0.5

    def start(self, machine, X):
        """Return the state with visible means X and the hidden units that these alone would give.

        Known values have no variance; but where the support is not bounded, what these receive
        may leave them without a law, so that such units start with their own.
        """
        xp = namespace(X)
        zero = xp.zeros_like(X[:, :1])
        zeros = tuple(zero * theta.field for theta in machine.thetas)
        given = (X, *[None] * (len(zeros) - 1))
        fields = (zeros[0], input_field(machine, 1, given), *zeros[2:])
        state = self._respond(machine, fields, zeros, zero)
        bounded = np.isfinite(machine.units[0].bounds).all()
        spread = zeros[0] if bounded else state.variances[0]
        return state._replace(means=(X, *state.means[1:]), variances=(spread, *state.variances[1:]))

    def step(self, machine, state):
        """Update all layers: the Gaussian law, then the units."""
        law, (_, spreads) = _gaussian(machine, state), _cavities(state)
        # -q / (1 + spread q) with q = excess / (spread of the law): above -1 / spread, refused or
        # not, which leaves a Gaussian unit its law, whose own precision is 1 / spread at least.
        precisions = tuple(
            -excess / (law.taken * taken + spread * excess)
            for excess, taken, spread in zip(law.excesses, law.spreads, spreads, strict=True)
        )
        precisions = tuple(map(_lawful, machine.units, machine.thetas, precisions))
        fields = tuple(
            input_field(machine, l, law.means) + precision * law.means[l]
            for l, precision in enumerate(precisions)
        )
        return self._respond(machine, fields, precisions, law.refused)

    def _respond(self, machine, fields, precisions, refused):
        """Return the state of units that receive these fields and precisions."""
        thetas = self._thetas(machine, fields, precisions)
        moments = [
            unit.mean_variance(theta) for unit, theta in zip(machine.units, thetas, strict=True)
        ]
        return Reactions(*zip(*moments, strict=True), fields, precisions, (refused,))

    @staticmethod
    def _thetas(machine, fields, precisions):
        parts = zip(machine.units, machine.thetas, fields, precisions, strict=True)
        return [unit.tilt(theta, B, A) for unit, theta, B, A in parts]

    def residual(self, old, new):
        """Return the mean squared change of the means, more where a step was refused.

        Where means are at rest by symmetry the precisions may still move: their change counts too,
        in units of the variances, which is what it changes the scale of a mean by.
        """
        refused = to_numpy(new.refused[0])[:, 0].astype(np.float64) ** 2
        moved = sum(
            row_sums(((b - a) * c) ** 2)
            for a, b, c in zip(old.precisions, new.precisions, new.variances, strict=True)
        )
        n_units = sum(mean.shape[1] for mean in new.means)
        return super().residual(old, new) + refused + to_numpy(moved) / n_units

    def log_partition(self, machine, state):
        """Return minus the free energy of each row, in float64.

        log Z of the units with fields B_1 and precisions A_1, plus that of the Gaussian with the
        cavities' B_2 and A_2, minus that of independent Gaussians with the sums of both, whose
        means and variances are a and c; with B_2 and A_2 eliminated.
        """
        law = _gaussian(machine, state)
        total = -0.5 * law.log_det
        thetas = self._thetas(machine, state.fields, state.precisions)
        for l, (unit, theta) in enumerate(zip(machine.units, thetas, strict=True)):
            a, c, B, A = (leaves[l] for leaves in law.state[:4])
            local = A * a * a - 2 * a * B + c * B * B
            local = local / (1 - A * c) - namespace(a).log1p(-A * c)
            local = local + law.cavities[l] * input_field(machine, l, law.means)
            total = total + row_sums(unit.log_partition(theta)) + 0.5 * row_sums(local)
        return total

    def moments(self, machine, state):
        """Return the expected statistics, averaged over the rows.

        The expectation of x_{l+1} x_l' is the product of the means and the Gaussian's covariance
        C_2, taken with its correlations and the units' variances, which are those of the
        Gaussian at a solution: so no covariance of a row that has not converged is too large.
        """
        weight = 1.0 / state.means[0].shape[0]
        thetas = self._thetas(machine, state.fields, state.precisions)
        occupied = tuple(
            unit.occupancy(theta) for unit, theta in zip(machine.units, thetas, strict=True)
        )
        block = Block(state.means, state.variances, weight, occupied=occupied)
        return Moments((block,), _covariances(machine, state))


def _lawful(unit, theta, precision):
    """Return the precisions, 0 where no law would be left.

    Only those of unbounded units that are held, whose laws do not matter, can be so.
    """
    improper = unit.is_improper(unit.tilt(theta, 0 * precision, precision))
    if improper is None:
        return precision
    return namespace(precision).where(improper, 0 * precision, precision)


def _covariances(machine, state):
    """Return the covariances between neighbouring layers, as (l, matrix), averaged over rows."""
    attempts = _attempts(machine, state)
    sides, variances = attempts.sides, attempts.sides.join(state.variances)
    sqrt, n = namespace(sides.matrix).sqrt, variances[0].shape[0]
    total = namespace(sides.matrix).zeros_like(sides.matrix)
    for i in range(n):
        (_, V, Y, excess), *_ = attempts.factors(i)
        left = sqrt(variances[0][i, :] / (1 + excess))
        right = sqrt(variances[1][i, :] / (1 + namespace(Y).sum(Y * Y, axis=0)))
        total += (left[:, None] * V) @ (Y * right)
    total *= 1 / n
    return tuple((l, sides.block(machine, total, l)) for l in range(len(machine.weights)))
