"""The parameters that optimizers see, and the gradients by them."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays import (
    add_products,
    cast,
    cholesky,
    from_numpy,
    inverse_factor,
    like,
    namespace,
    take_columns,
    to_numpy,
)
from ..inputs import Coordinates
from ..machine import zero_sum
from ..units import Theta
from ._optimizers import ArrayGradient, Gradient

_SPARSE_MEAN = 0.1  # of hidden units that are to be sparse
# Mean number of words of documents above which the penalty for that grows with its square: steps of
# about equal divergence are that much shorter, as the free energy of a document varies with it.
_SPARSE_WORDS = 100.0
# Part of the data's covariance that visible units have at first given hidden ones, if all values
# are known.
_NARROW = 0.4
_FIRST_WEIGHT = 1.0  # largest standard deviation of first weights to them, by bits
_BELOW_SPLIT = 0.95  # of the first squared weights at which the distribution splits
_FIRST_FIELD = 4.0  # and of the fields that these make
LEAST_PRECISION = 0.5  # of an unbounded unit after a step, over that before it
_MOST_GROWTH = 10.0  # factor of a precision in a step; a chain far from the data may give 300
# Largest square of a coupling to units without bounds, as a part of what cannot be normalized.
_FIRST_COUPLING = 0.03
# Number of hidden units up to which bits beside numbers have the longest steps. Means of hidden
# units fluctuate with their biases, and the offsets of centered gradients lag behind. In the fields
# of numbers these errors add up over the units: with 200 of them some fits ran away.
_FEW_UNITS = 64
_POWERS = 2, 0, 1, 2  # of 1 / values that precision, spike, absolute and skew go with


class MachineGradient(Gradient):
    """Gradient of the log-likelihood by the natural parameters of a machine.

    ``moments`` are those of the data minus those of the machine.
    """

    def __init__(self, machine, moments):
        self.machine, self.moments = machine, moments
        self.n_penalised, self.units = len(machine.weights), machine.units
        self.slopes = [moments.statistics(unit, l) for l, unit in enumerate(machine.units)]

    def add(self, targets, rate, keep=1.0):
        n = self.n_penalised
        for l, target in enumerate(targets[:n]):
            self.moments.add_pair(self.machine, l, target, rate, keep)
        for target, slope in zip(targets[n:], self.own(), strict=True):
            target += rate * slope

    def arrays(self, parameters):
        return (*self.pairs(), *self.own())

    def pairs(self):
        """Return the gradient by the weights, a list of arrays."""
        zeros = [namespace(W).zeros_like(W) for W in self.machine.weights]
        return [self.moments.add_pair(self.machine, l, out, 1.0) for l, out in enumerate(zeros)]

    def own(self):
        """Return the gradient by the parameters of the units, a list of arrays."""
        return [self.slopes[l][k] for l, k in self.machine.places]

    def at(self, places):
        return [slopes.field for slopes in self.slopes]


class CenteredGradient(Gradient):
    """A gradient by natural parameters in coordinates in which the layers have means of about zero.

    With offsets m_l the gradient of W_l is that of the couplings between x_l - m_l and x_{l+1} -
    m_{l+1} (Melchior, Fischer and Wiskott 2016). It is an ascent direction of the likelihood, like
    the plain gradient, but does not depend on which state of a binary unit is called 1. After a
    step, :meth:`follow` has to move the fields with the weights, so that mean fields are as they
    were.
    """

    def __init__(self, gradient, machine, offsets):
        self.gradient, self.offsets = gradient, offsets
        self.n_penalised, self.units = gradient.n_penalised, gradient.units
        self.places = _places_of_fields(machine)

    def add(self, targets, rate, keep=1.0):
        self.gradient.add(targets, rate, keep)
        offsets, slopes = self.offsets, self.gradient.at(self.places)
        stack = namespace(targets[0]).stack
        for l in range(self.n_penalised):
            below, above = stack((slopes[l], offsets[l])), stack((offsets[l + 1], slopes[l + 1]))
            add_products(targets[l], [(above, below, -rate)])

    def mean_fields(self, parameters):
        """Return the fields that the weights make at the offsets, one array for each field."""
        offsets, fields = self.offsets, []
        for l in range(len(self.places)):
            below = parameters[l - 1] @ offsets[l - 1] if l > 0 else None
            above = offsets[l + 1] @ parameters[l] if l < self.n_penalised else None
            fields.append(above if below is None else below if above is None else below + above)
        return fields

    def follow(self, parameters, before):
        """Move the fields, in place, by what :meth:`mean_fields` have changed in a step."""
        for place, now, old in zip(self.places, self.mean_fields(parameters), before, strict=True):
            target = parameters[place]
            target -= now - old


def _places_of_fields(machine):
    """Return the positions of the layers' fields among the natural parameters."""
    places = enumerate(machine.places, len(machine.weights))
    return [place for place, (_, k) in places if k == 0]


class NaturalParameters:
    """Learning by the machine's own parameters: weights, and natural parameters of the units.

    ``is_natural`` says whether these are linear in the parameters of the machine, so that gradients
    can be centered and parameters averaged.
    """

    is_natural = True
    gradient = MachineGradient

    def of(self, machine):
        """Return the parameters of a machine, a tuple of arrays: its own."""
        return machine.weights + machine.parts

    def machine(self, machine, parameters):
        """Return the machine after its parameters were written in place."""
        layers = zip(machine.units, machine.thetas, strict=True)
        return machine.written([unit.project(theta) for unit, theta in layers])

    def means(self, means):
        """Return means of the layers, arrays of shape (n_units[l],), in these coordinates."""
        return means

    def precisions(self, machine):
        """Return the places of the precisions of unbounded units among the parameters."""
        layers = zip(_places_of_fields(machine), machine.units, machine.thetas, strict=True)
        return [
            place + 1
            for place, unit, theta in layers
            if theta.precision is not None and unit.bounds[1] == np.inf
        ]

    def scaled(self, l, X):
        """Return rows of deviations of layer ``l`` from a mean, in these coordinates."""
        return X

    def factors(self, machine, of_bits):
        """Return factors on the length of steps for a :class:`Gradient`, given that of bits.

        None means that all are 1, as they are if no column is standardized.
        """
        return None

    def joint_rows(self, unit, X):
        """Return the columns that have a precision matrix, in these coordinates."""
        return take_columns(X, unit.joint_columns(X.shape[1]))

    def scaled_statistics(self, l, rows):
        """Return the statistics of rows of layer ``l``, a Theta, in these coordinates.

        Constants that all rows have in common do not matter.
        """
        return rows

    def centered(self, gradient, machine, offsets, shrinkage=0.0):
        """Return a :class:`CenteredGradient`, given means of the layers.

        ``shrinkage`` is the part of the weights that the optimizer subtracts from the gradient.
        """
        return CenteredGradient(gradient, machine, self.means(offsets))

    def first(self, machine):
        """Return the machine that has given small random parameters in these coordinates.

        What fits the data may have a smaller precision than ``project`` allows in learning.
        """
        own, *rest = machine.thetas
        return replace(machine, thetas=(machine.units[0].project(own), *rest))

    def fixed(self, machine):
        """Return the same distribution with the parameters that are chosen among all it can have.

        Learning asks for it after each epoch.
        """
        return machine


NATURAL = NaturalParameters()


@dataclass(frozen=True)
class CountParameters(NaturalParameters):
    """Learning of a machine of counts: its weights and visible fields, without hidden biases.

    Rows of counts have sums D, and hidden biases D c are a part of the weights, W + c 1'.

    ``sparsity`` is a factor of the cross-entropy between a mean of 0.1 of each hidden unit and the
    one given the data, whose gradient the biases of centred coordinates follow (Lee, Ekanadham and
    Ng 2008); times the square of the mean number of words over 100 where this is larger.
    """

    sparsity: float = 0.0

    def first(self, machine):
        """Return the machine with hidden biases, of each word, as a part of its weights."""
        own, hidden = machine.thetas
        W = machine.weights[0] + hidden.field[:, None]
        return replace(machine, thetas=(own, Theta(0 * hidden.field)), weights=(W,))

    def of(self, machine):
        return machine.weights[0], machine.thetas[0].field

    def gradient(self, machine, moments):
        slopes = MachineGradient(machine, moments)
        return ArrayGradient(slopes.arrays(super().of(machine))[:2], 1)

    def centered(self, gradient, machine, offsets, shrinkage=0.0):
        """Return a gradient in coordinates in which the layers have means of about zero.

        They are W, b and c in E = -h' W (v - D p) - b' v - D c' h with h - m for h, where p and m
        are means of words and of hidden units. The scale of c is such that D c is a bias like any
        other. The penalty is on W + c 1', whose gradient is the one that is centred.
        """
        (G, g), (counts, hidden) = gradient.arrays(self.of(machine)), offsets
        taken = shrinkage * machine.weights[0] if shrinkage else 0.0
        xp, G = namespace(G), G - taken
        total = xp.sum(counts)
        total = xp.where(total > 0, total, xp.ones_like(total))  # of documents without words
        p, sums = counts / total, xp.sum(G, axis=1)
        dW = G - sums[:, None] * p - hidden[:, None] * g
        longer = xp.where(total > _SPARSE_WORDS, total / _SPARSE_WORDS, xp.ones_like(total))
        sparse = self.sparsity * longer**2 * (hidden - _SPARSE_MEAN)
        shift = (sums / total - sparse) / total - dW @ p
        return CenteredCounts((dW + shift[:, None] + taken, g), hidden)


class CenteredCounts(ArrayGradient):
    """The gradient of a machine of counts by centred coordinates; ``hidden`` are the means m.

    What D c moves is the same for all words, and so changes no distribution.
    """

    places = (1,)  # of the fields of the words
    follow = CenteredGradient.follow

    def __init__(self, arrays, hidden):
        super().__init__(arrays, 1)
        self._hidden = hidden

    def mean_fields(self, parameters):
        return [self._hidden @ parameters[0]]


class ZeroSumParameters(NaturalParameters):
    """Natural parameters, of which those of a site of categories are made to sum to zero.

    Centered gradients preserve the sums, so steps do not need to.
    """

    def first(self, machine):
        return zero_sum(machine)

    fixed = first


ZERO_SUM = ZeroSumParameters()


@dataclass(frozen=True, eq=False)
class StandardParameters(NaturalParameters):
    """Learning by the natural parameters that a machine has in other coordinates of the data.

    With visible values v = m + A z the same distribution has the weights W A, the precision matrix
    A' P A and the fields A' (b - P m) of the visible units, and the biases c + W m. A is diagonal,
    except in columns that have a precision matrix, where A A' is their covariance. Parameters of
    abs(v) and v abs(v) become those of abs(v / s) and of (v / s) abs(v / s). Steps of these
    parameters do not depend on the units of measure of the columns, nor on the correlations of
    columns with a precision matrix. Columns that are not standardized, such as bits next to real
    values, have m = 0 and s = 1. The supports of the units are unchanged, and ``project`` applies
    to the standardized parameters.

    Parameters
    ----------
    coordinates : Coordinates
        m and the diagonal of A, in the dtype of the machine.
    has_precision, is_constant : array of bool of shape (n_visible,), default=None
        Which columns have a precision of their own that is learnt, None is all, and which are
        constant in the data and start with a variance of 1, None is none.
    is_bit : array of shape (n_visible,), default=0.0
        1 for columns of bits, else 0, in the dtype of the machine.
    root, columns : array of shape (n, n) and ndarray of int of shape (n,), default=None
        A of the columns with a precision matrix, and which these are; None if there are none.
    prior : float, default=0.0
        Strength of the prior on their precision matrix Q = A' P A, as a part of the rows: prior / 2
        times log det(Q) - q tr(Q), which has its maximum where learning starts, at Q = I / q, is
        added to the mean log-likelihood.
    known : float, default=1.0
        Part of the values of these columns that are known. With fewer, a larger part of their
        covariance, q = 1 - 0.6 known, is left to them at first, and the weights are smaller.
    """

    coordinates: Coordinates
    has_precision: Any = None
    is_constant: Any = None
    is_bit: Any = 0.0
    root: Any = None
    columns: Any = None
    prior: float = 0.0
    known: float = 1.0

    @property
    def _narrow(self):
        """The part of the data's covariance that they have at first given the hidden units."""
        return 1 - (1 - _NARROW) * self.known

    # ------------------------------------------- products with A

    @cached_property
    def _inverse(self):
        """The inverse of ``root``, and its transpose."""
        if self.root is None:
            return None, None
        inverse = np.linalg.inv(to_numpy(self.root).astype(np.float64))
        inverse = cast(from_numpy(inverse, self.root), self.root.dtype)
        return inverse, inverse.T

    @cached_property
    def _unit_precision(self):
        """The precision matrix that is the identity in z."""
        return self._inverse[1] @ self._inverse[0]

    @cached_property
    def _rest(self):
        """Which columns have no precision matrix, and what puts these and the others in order.

        None if all columns have one.
        """
        every = np.arange(self.coordinates.offset.shape[0])
        if np.array_equal(self.columns, every):
            return None
        rest = np.setdiff1d(every, self.columns)
        return rest, np.argsort(np.concatenate([rest, self.columns]))

    def _own(self, x):
        """Return the columns of x that have a precision matrix."""
        return x if self._rest is None else take_columns(x, self.columns)

    def _joined(self, x, own):
        """Return x with other values in the columns that have a precision matrix."""
        if self._rest is None:
            return own
        rest, order = self._rest
        parts = [take_columns(x, rest), own]
        return take_columns(namespace(own).concat(parts, axis=-1), order)

    def _times(self, x, scale, matrix):
        """Return x times a diagonal, or times a matrix in the columns with a precision matrix."""
        if self.root is None:
            return x * scale
        return self._joined(x * scale, self._own(x) @ matrix)

    def _inward(self, x):
        """Return what is a field or weights in z, for such in v."""
        return self._times(x, self.coordinates.divisor, self.root)

    def _outward(self, x):
        """Return what is a field or weights in v, for such in z."""
        return self._times(x, 1 / self.coordinates.divisor, self._inverse[0])

    def _slopes(self, x):
        """Return deviations of z for those of v, or slopes by fields or weights."""
        return self._times(x, 1 / self.coordinates.divisor, self._inverse[1])

    def _pull(self, theta):
        """Return the fields that the precisions have at m."""
        mean = self.coordinates.offset
        pull = 0 * mean if theta.precision is None else theta.precision * mean
        if theta.joint is None:
            return pull
        return self._joined(pull, theta.joint @ self._own(mean))

    @staticmethod
    def _scaled(theta, scale, field, joint=None):
        """Return parameters times powers of scales, with the field and the matrix given."""
        parts = zip(theta[1:-1], _POWERS, strict=True)
        rest = [None if part is None else part * scale**power for part, power in parts]
        return Theta(field, *rest, joint)

    # ------------------------------------------- the contract

    def of(self, machine):
        (mean, scale), (own, hidden, *rest) = self.coordinates, machine.thetas
        (W, *others), joint = machine.weights, own.joint
        if joint is not None:
            joint = self.root.T @ joint @ self.root
        own = self._scaled(own, scale, self._inward(own.field - self._pull(own)), joint)
        hidden = Theta(hidden.field + W @ mean, *hidden[1:])
        parts = [part for theta in (own, hidden, *rest) for part in theta if part is not None]
        return (self._inward(W), *others, *parts)

    def gradient(self, machine, moments):
        """Return the gradient of the log-likelihood by these parameters, by the chain rule."""
        (mean, scale), slopes = self.coordinates, MachineGradient(machine, moments)
        own, hidden, *_ = slopes.slopes
        slope, precision, joint = own.field, own.precision, own.joint
        if precision is not None:
            moved = slope * mean
            if self.has_precision is not None:
                moved = cast(self.has_precision, moved.dtype) * moved
            precision = precision + moved
        if joint is not None:
            outer = self._own(mean)[:, None] * self._own(slope)
            joint = joint + 0.5 * (outer + outer.T)
            joint = self._inverse[0] @ joint @ self._inverse[1]
            if self.prior:
                R = inverse_factor(self.root.T @ machine.thetas[0].joint @ self.root)
                one = namespace(R).eye(R.shape[0], **like(R))
                joint = joint + (0.5 * self.prior) * (R.T @ R - self._narrow * one)
        own = Theta(slope, precision, *own[2:])
        own = self._scaled(own, 1 / scale, self._slopes(slope), joint)
        W, *others = slopes.pairs()
        W = self._slopes(W - hidden.field[:, None] * mean)
        slopes.slopes[0] = own
        return ArrayGradient((W, *others, *slopes.own()), slopes.n_penalised, slopes.units)

    def factors(self, machine, of_bits):
        if of_bits == 1:
            return None
        few = min(1.0, _FEW_UNITS / max(machine.n_units[1:]))
        of_bits = 1.0 + (of_bits - 1.0) * few
        visible, (own, *hidden) = 1.0 + (of_bits - 1.0) * self.is_bit, machine.thetas
        of_weights = [visible, *(of_bits for _ in machine.weights[1:])]
        of_own = [visible if part.ndim == 1 else 1.0 for part in own if part is not None]
        of_hidden = [of_bits for theta in hidden for part in theta if part is not None]
        return [*of_weights, *of_own, *of_hidden]

    def machine(self, machine, parameters):
        """Return the machine with given parameters in the coordinates of learning."""
        (mean, scale), n = self.coordinates, len(machine.weights)
        values = iter(parameters[n:])
        own, hidden, *rest = [theta.map(lambda part: next(values)) for theta in machine.thetas]
        unit, *units = machine.units
        joint, own = own.joint, Theta(*own[:-1])
        if joint is None or self._rest is not None:
            own = unit.project(own)
        if joint is not None:  # kept if the new one is far smaller in a direction, or far larger
            before = machine.thetas[0].joint
            outward = self._inverse[1] @ joint @ self._inverse[0]
            outward = 0.5 * (outward + outward.T)
            is_valid = _is_definite(outward - unit.min_precision * self._unit_precision)
            is_valid = is_valid & _is_definite(outward - LEAST_PRECISION * before)
            is_valid = is_valid & _is_definite(_MOST_GROWTH * before - outward)
            joint = namespace(joint).where(is_valid, outward, before)
        own = self._scaled(own, 1 / scale, self._outward(own.field), joint)
        own = Theta(own.field + self._pull(own), *own[1:])
        hidden, *rest = [u.project(theta) for u, theta in zip(units, (hidden, *rest), strict=True)]
        W = self._outward(parameters[0])
        hidden = Theta(hidden.field - W @ mean, *hidden[1:])
        return replace(machine, thetas=(own, hidden, *rest), weights=(W, *parameters[1:n]))

    def scaled(self, l, X):
        return X if l else self._slopes(X)

    def joint_rows(self, unit, X):
        return self._own(self._slopes(X - self.coordinates.offset))

    def scaled_statistics(self, l, rows):
        if l:
            return rows
        mean, scale = self.coordinates
        if rows.precision is not None:  # -(v - m)² / 2
            rows = rows._replace(precision=rows.precision + mean * rows.field)
        return self._scaled(rows, 1 / scale, rows.field / scale)

    def means(self, means):
        return self._slopes(means[0] - self.coordinates.offset), *means[1:]

    # ------------------------------------------- first parameters

    def first(self, machine):
        """Return the machine that has given small random parameters in these coordinates.

        A precision that ``project`` raises leaves the field at the mean as it is. With a precision
        matrix of the data the machine would be at a saddle, at which weights are zero: it starts
        narrower, with weights that make up for it.
        """
        mean, scale = self.coordinates
        own, hidden, *rest = machine.thetas
        unit, W, joint = machine.units[1], machine.weights[0], own.joint
        own = own._replace(joint=None)
        if own.precision is not None:
            standard = self._scaled(own, scale, own.field * scale)
            first = machine.units[0].project(standard).precision
            if self.is_constant is not None:
                at = self.is_constant & (standard.precision > 0)
                first = namespace(first).where(at, namespace(first).ones_like(first), first)
            raised = (first - standard.precision) / scale**2
            own = own._replace(field=own.field + raised * mean, precision=own.precision + raised)
        first_W = W / scale
        if joint is not None:
            inverse, joint = self._inverse[0], self._unit_precision / self._narrow
            deviation = self._deviation(unit, hidden) * self.known
            W = self._own(W / namespace(W).sqrt(namespace(W).mean(W * W)) * deviation) @ inverse
            field = joint @ self._own(mean) - unit.mean(hidden) @ W
            first_W = self._joined(first_W, W)
            own = own._replace(field=self._joined(own.field, field), joint=joint)
        hidden = hidden._replace(field=hidden.field - first_W @ mean)
        weights = first_W, *machine.weights[1:]
        return replace(machine, thetas=(own, hidden, *rest), weights=weights)

    def _deviation(self, unit, hidden):
        """Return the standard deviation of first weights to columns with a precision matrix.

        Where hidden units have bounds, couplings are just below those at which the distribution
        splits in two, W Var[h] W' = P. Elsewhere the distribution must have an integral.
        """
        n, m = len(self.columns), hidden.field.shape[0]
        if not np.isfinite(unit.bounds).all():
            least = float(namespace(hidden.field).min(unit.tail_precision(hidden)))
            return (_FIRST_COUPLING * least / self._narrow) ** 0.5 / (n**0.5 + m**0.5)
        variance = unit.mean(hidden)
        variance = variance - variance * variance  # of columns of categories
        if unit.has_variances:
            variance = unit.mean_variance(hidden)[1]
        total, largest = float(to_numpy(variance).sum()), float(to_numpy(variance).max())
        bits = 2 * largest**0.5
        most = min(_FIRST_WEIGHT, _FIRST_FIELD / n**0.5) / bits
        return min((_BELOW_SPLIT / (self._narrow * total)) ** 0.5, most)


def _is_definite(matrix):
    """Whether a matrix is positive definite, an array of no dimensions."""
    L = cholesky(matrix)
    return L[0, 0] == L[0, 0]
