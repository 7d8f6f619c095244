"""The parameters that optimizers see, and the gradients by them."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays import cast, cholesky, from_numpy, like, namespace, take_columns, to_numpy
from ..inputs import Coordinates
from ..machine import zero_sum
from ..units import Theta
from ._optimizers import ArrayGradient, Gradient

_NARROW = 0.4  # part of the data's covariance that visible units have at first given hidden ones
_FIRST_WEIGHT = 1.0  # largest standard deviation of first weights to them, by bits
_BELOW_SPLIT = 0.95  # of the first squared weights at which the distribution splits
_FIRST_FIELD = 4.0  # and of the fields that these make
# Largest square of a coupling to units without bounds, as a part of what cannot be normalized.
_FIRST_COUPLING = 0.03


class MachineGradient(Gradient):
    """Gradient of the log-likelihood by the natural parameters of a machine.

    Parameters
    ----------
    machine : Machine
    moments : Moments
        Those of the data minus those of the machine.
    """

    def __init__(self, machine, moments):
        self.machine, self.moments = machine, moments
        self.n_penalised, self.units = len(machine.weights), machine.units

    def add(self, targets, rate, keep=1.0):
        machine, moments, place = self.machine, self.moments, self.n_penalised
        for l in range(place):
            moments.add_pair(machine, l, targets[l], rate, keep)
        for l, unit in enumerate(machine.units):
            slopes = moments.statistics(unit, l)
            for part, slope in zip(machine.thetas[l], slopes, strict=True):
                if part is not None:
                    target = targets[place]
                    target += rate * slope
                    place += 1


class CenteredGradient(ArrayGradient):
    """A gradient by natural parameters in coordinates in which the layers have means of about zero.

    With offsets m_l the gradient of W_l is that of the couplings between x_l - m_l and
    x_{l+1} - m_{l+1}, and fields are changed so that a step of the weights leaves the mean fields
    as they are (Melchior, Fischer and Wiskott 2016). It ascends the likelihood as the plain
    gradient does, but does not depend on which state of a binary unit is called 1.

    Parameters
    ----------
    gradient : Gradient
        By natural parameters.
    machine : Machine
        Whose parameters these are.
    offsets : tuple of array of shape (n_units[l],)
        m_l.
    moves_fields : bool, default=True
        Whether the gradient moves the fields with the weights. If not, :meth:`follow` has to be
        called after the step.
    shrinkage : float, default=0.0
        Which part of the weights the optimizer subtracts from their gradient. Fields move with this
        part of a step too, or else it would change the mean fields, and learning would not end at
        a maximum of the penalised likelihood.
    weights : sequence of arrays, default=()
        As the optimizer sees them; of use with ``shrinkage``.
    """

    def __init__(self, gradient, machine, offsets, moves_fields=True, *, shrinkage=0.0, weights=()):
        n = gradient.n_penalised
        arrays = list(gradient.arrays(NATURAL.of(machine)))
        fields = _places_of_fields(machine)
        slopes = [arrays[place] for place in fields]
        stack = namespace(arrays[0]).stack
        for l in range(n):
            left = stack((offsets[l + 1], slopes[l + 1]), axis=1)
            arrays[l] = arrays[l] - left @ stack((slopes[l], offsets[l]))
        self._offsets, self._fields = offsets, fields
        if moves_fields:
            for place, shift in self._shifts(arrays[:n]):
                arrays[place] = arrays[place] - shift
        if moves_fields and shrinkage:
            for place, shift in self._shifts(weights):
                arrays[place] = arrays[place] + shrinkage * shift
        super().__init__(tuple(arrays), n, gradient.units)

    def _shifts(self, steps):
        """Yield places of fields, and what they have to lose where weights take some steps."""
        for l, place in enumerate(self._fields):
            if l > 0:
                yield place, steps[l - 1] @ self._offsets[l - 1]
            if l < len(steps):
                yield place, self._offsets[l + 1] @ steps[l]

    def follow(self, parameters, before):
        """Move fields, in place, so that mean fields are as they were before the weights moved.

        Parameters
        ----------
        parameters : tuple of arrays
            After a step.
        before : list of arrays
            The weights before it.
        """
        steps = [now - old for now, old in zip(parameters, before, strict=False)]
        for place, shift in self._shifts(steps):
            field = parameters[place]
            field -= shift


def _places_of_fields(machine):
    """Return the positions of the layers' fields among the natural parameters."""
    places, place = [], len(machine.weights)
    for theta in machine.thetas:
        places.append(place)
        place += sum(part is not None for part in theta)
    return places


def _powers(theta):
    """Return, for each array of a layer's parameters, the power of 1 / values that it goes with."""
    powers = Theta(field=1, precision=2, spike=0, absolute=1, skew=2, joint=None)
    return [power for part, power in zip(theta, powers, strict=True) if part is not None]


class NaturalParameters:
    """Learning by the machine's own parameters: weights, and natural parameters of the units.

    Attributes
    ----------
    is_natural : bool
        Whether these are linear in the machine's own parameters, so that gradients can be centred
        and parameters averaged.
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
        places, place = [], len(machine.weights)
        for unit, theta in zip(machine.units, machine.thetas, strict=True):
            places += (
                [place + 1] if theta.precision is not None and unit.bounds[1] == np.inf else []
            )
            place += sum(part is not None for part in theta)
        return places

    def scaled(self, l, X):
        """Return rows of deviations of layer ``l`` from a mean, in these coordinates."""
        return X

    def joint_rows(self, unit, X):
        """Return the columns that have a precision matrix, in these coordinates."""
        return take_columns(X, unit.joint_columns(X.shape[1]))

    def scaled_statistics(self, l, rows):
        """Return the statistics of rows of layer ``l``, a Theta, in these coordinates.

        Constants that all rows have in common do not matter.
        """
        return rows

    def centered(self, gradient, machine, offsets, moves_fields=True, **options):
        """Return a gradient in coordinates in which the layers have means of about zero.

        ``offsets`` are their means, arrays of shape (n_units[l],); the others are those of
        :class:`CenteredGradient`.
        """
        return CenteredGradient(gradient, machine, self.means(offsets), moves_fields, **options)

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


class CountParameters(NaturalParameters):
    """Learning of a machine of counts: its weights and visible fields, without hidden biases.

    Rows of counts have sums D, and hidden biases D c are a part of the weights, W + c 1'.
    """

    def precisions(self, machine):
        return []

    def first(self, machine):
        """Return the machine with hidden biases, of each word, as a part of its weights."""
        own, hidden = machine.thetas
        W = machine.weights[0] + hidden.field[:, None]
        return replace(machine, thetas=(own, Theta(0 * hidden.field)), weights=(W,))

    def of(self, machine):
        """Return weights and visible fields."""
        return machine.weights[0], machine.thetas[0].field

    def gradient(self, machine, moments):
        """Return the gradient of the log-likelihood by these parameters."""
        slopes = MachineGradient(machine, moments)
        return ArrayGradient(slopes.arrays(super().of(machine))[:2], 1)

    def centered(self, gradient, machine, offsets, moves_fields=True, *, shrinkage=0.0, weights=()):
        """Return a gradient in coordinates in which the layers have means of about zero.

        They are W, b and c in E = -h' W (v - D p) - b' v - D c' h with h - m for h, where p and m
        are means of words and of hidden units. The scale of c is such that D c is a bias like any
        other.
        """
        (G, g), (counts, hidden) = gradient.arrays(self.of(machine)), offsets
        taken = shrinkage * weights[0] if shrinkage else 0.0
        xp, G = namespace(G), G - taken
        total = xp.sum(counts)
        total = xp.where(total > 0, total, xp.ones_like(total))  # of documents without words
        p, sums = counts / total, xp.sum(G, axis=1)
        dW = G - sums[:, None] * p - hidden[:, None] * g
        shift = sums / total**2 - dW @ p
        g = g - hidden @ dW if moves_fields else g
        return CenteredCounts((dW + shift[:, None] + taken, g), hidden)


class CenteredCounts(ArrayGradient):
    """The gradient of a machine of counts by centred coordinates; ``hidden`` are the means m."""

    def __init__(self, arrays, hidden):
        super().__init__(arrays, 1)
        self._hidden = hidden

    def follow(self, parameters, before):
        """Move the visible fields b, in place, so that b + m' W is as before the weights moved.

        What D c moves is the same for all words, and so changes no distribution.
        """
        (W, field), (old,) = parameters, before
        field -= self._hidden @ (W - old)


class ZeroSumParameters(NaturalParameters):
    """Natural parameters, of which those of a site of categories are made to sum to zero.

    Centred gradients keep the sums as they are, so that steps need not.
    """

    def first(self, machine):
        return zero_sum(machine)

    def fixed(self, machine):
        return zero_sum(machine)


ZERO_SUM = ZeroSumParameters()


def _inward_statistics(coordinates, rows):
    """Return statistics of z = (v - m) / s, up to constants, for those of v."""
    mean, scale = coordinates
    if rows.precision is not None:  # -(v - m)² / 2
        rows = rows._replace(precision=rows.precision + mean * rows.field)
    powers = iter(_powers(rows))
    return rows.map(lambda part: part / scale ** next(powers))


@dataclass(frozen=True)
class StandardParameters(NaturalParameters):
    """Learning by the natural parameters that a machine has in standardised coordinates.

    With visible values v = m + s z the same distribution has the weights W s, the precisions A s²
    and the fields (b - A m) s of the visible units, and the biases c + W m. Parameters of abs(v)
    and v abs(v) become those of abs(v / s) and of (v / s) abs(v / s). Steps by these do not
    depend on the columns' units of measure. Columns that are not standardised, such as bits beside
    real values, have m = 0 and s = 1. The supports of the units stay as they are, and what
    ``project`` keeps away from are the standardised parameters.

    Parameters
    ----------
    coordinates : Coordinates
        m and s, in the dtype of the machine.
    has_precision : array of bool of shape (n_visible,), default=None
        Which columns have a precision that is learnt; None is all.
    is_constant : array of bool of shape (n_visible,), default=None
        Which columns are constant in the data, and start with a variance of 1; None is none.
    """

    coordinates: Coordinates
    has_precision: Any = None
    is_constant: Any = None

    def _inward(self, x):
        """Return what is a field or weights in z, for such in v."""
        return x * self.coordinates.divisor

    def _outward(self, x):
        """Return what is a field or weights in v, for such in z."""
        return x / self.coordinates.divisor

    def _slopes(self, x):
        """Return deviations of z for those of v, or slopes by fields or weights."""
        return x / self.coordinates.divisor

    def _pull(self, theta):
        """Return the fields that the precisions have at m."""
        mean = self.coordinates.offset
        return 0 * mean if theta.precision is None else theta.precision * mean

    def _inward_joint(self, joint):
        """Return the precision matrix in z for that in v."""
        return joint

    def _slopes_of_joint(self, joint, slope):
        """Return the slopes by the precision matrix in z; ``slope`` is that by the field in v."""
        return joint

    def _projected(self, unit, theta, before):
        """Return the projected parameters of the visible units in z, and their matrix in v.

        ``before`` is the matrix of the machine before the step.
        """
        return unit.project(theta), None

    def _scaled(self, theta, scale):
        """Return the parameters of columns apart from fields, times powers of scales."""
        powers = iter(_powers(theta._replace(joint=None)))
        return theta.map_columns(lambda part: part * scale ** next(powers))

    def of(self, machine):
        """Return the parameters in the coordinates of learning."""
        (mean, scale), (own, hidden, *rest) = self.coordinates, machine.thetas
        W, *others = machine.weights
        hidden = hidden._replace(field=hidden.field + W @ mean)
        field, joint = self._inward(own.field - self._pull(own)), self._inward_joint(own.joint)
        own = self._scaled(own, scale)._replace(field=field, joint=joint)
        parts = (part for theta in (own, hidden, *rest) for part in theta if part is not None)
        return (self._inward(W), *others, *parts)

    def gradient(self, machine, moments):
        """Return the gradient of the log-likelihood by these parameters, by the chain rule."""
        (mean, scale), slopes = self.coordinates, MachineGradient(machine, moments)
        arrays = list(slopes.arrays(super().of(machine)))
        field, hidden = _places_of_fields(machine)[:2]
        slope = arrays[field]
        arrays[0] = self._slopes(arrays[0] - arrays[hidden][:, None] * mean)
        own = Theta(*_filled_in(machine.thetas[0], arrays[field:hidden]))
        if own.precision is not None:
            moved = slope * mean
            if self.has_precision is not None:
                moved = cast(self.has_precision, moved.dtype) * moved
            own = own._replace(precision=own.precision + moved)
        joint = self._slopes_of_joint(own.joint, slope)
        own = self._scaled(own, 1 / scale)._replace(field=self._slopes(slope), joint=joint)
        arrays[field:hidden] = [part for part in own if part is not None]
        return ArrayGradient(tuple(arrays), slopes.n_penalised, slopes.units)

    def machine(self, machine, parameters):
        """Return the machine with given parameters in the coordinates of learning."""
        (mean, scale), n = self.coordinates, len(machine.weights)
        values = iter(parameters[n:])
        own, hidden, *rest = (theta.map(lambda part: next(values)) for theta in machine.thetas)
        unit, *units = machine.units
        columns, joint = self._projected(unit, own, machine.thetas[0].joint)
        own = self._scaled(columns._replace(joint=None), 1 / scale)
        own = own._replace(field=self._outward(columns.field), joint=joint)
        own = own._replace(field=own.field + self._pull(own))
        hidden, *rest = (u.project(theta) for u, theta in zip(units, (hidden, *rest), strict=True))
        W = self._outward(parameters[0])
        hidden = hidden._replace(field=hidden.field - W @ mean)
        return replace(machine, thetas=(own, hidden, *rest), weights=(W, *parameters[1:n]))

    def scaled(self, l, X):
        return X if l else self._slopes(X)

    def scaled_statistics(self, l, rows):
        return rows if l else _inward_statistics(self.coordinates, rows)

    def means(self, means):
        """Return the means with those of the visible units in the coordinates of learning."""
        return self._slopes(means[0] - self.coordinates.offset), *means[1:]

    def first(self, machine):
        """Return the machine that has given small random parameters in these coordinates.

        A precision that ``project`` raises leaves the field at the mean as it is.
        """
        mean, scale = self.coordinates
        own, hidden, *rest = machine.thetas
        if own.precision is not None:
            powers = iter(_powers(own))
            standard = own.map(lambda part: part * scale ** next(powers))
            first = machine.units[0].project(standard).precision
            if self.is_constant is not None:
                at = self.is_constant & (standard.precision > 0)
                first = namespace(first).where(at, namespace(first).ones_like(first), first)
            raised = (first - standard.precision) / scale**2
            field = own.field + raised * mean
            own = own._replace(field=field, precision=own.precision + raised)
        W = machine.weights[0] / scale
        hidden = hidden._replace(field=hidden.field - W @ mean)
        return replace(machine, thetas=(own, hidden, *rest), weights=(W, *machine.weights[1:]))


@dataclass(frozen=True, eq=False)
class WhitenedParameters(StandardParameters):
    """Learning by the parameters in coordinates in which columns have the identity as covariance.

    With visible values v = m + A z the same distribution has the weights W A, the precision matrix
    A' P A and the fields A' (b - P m) of the visible units, and the biases c + W m. Gradient ascent
    by these does not depend on the columns' units of measure, nor on their correlations. Columns
    without a precision matrix are standardised: A is diagonal in them.

    Parameters
    ----------
    coordinates, has_precision, is_constant : as in :class:`StandardParameters`
        The divisors are the diagonal of A in columns without a precision matrix.
    root : array of shape (n, n)
        A of the columns with a precision matrix.
    columns : ndarray of int of shape (n,)
        Which columns these are.
    """

    root: Any = field(kw_only=True)
    columns: Any = field(kw_only=True)

    @cached_property
    def inverse(self):
        """The inverse of ``root``."""
        inverse = np.linalg.inv(to_numpy(self.root).astype(np.float64))
        return cast(from_numpy(inverse, self.root), self.root.dtype)

    @cached_property
    def _rest(self):
        """Which columns have no precision matrix."""
        return np.setdiff1d(np.arange(self.coordinates.offset.shape[0]), self.columns)

    @cached_property
    def _order(self):
        """What puts those and the others back in order."""
        return np.argsort(np.concatenate([self._rest, self.columns]))

    def _joined(self, rest, own):
        """Return columns in order: those without a matrix, of all columns, and the others."""
        if not len(self._rest):
            return own
        parts = [take_columns(rest, self._rest), own]
        return take_columns(namespace(own).concat(parts, axis=-1), self._order)

    def _times(self, x, matrix, scale):
        """Return x times a matrix in the columns that it is of, and times a scale in the others."""
        if not len(self._rest):
            return x @ matrix
        return self._joined(x * scale, take_columns(x, self.columns) @ matrix)

    def _inward(self, x):
        return self._times(x, self.root, self.coordinates.divisor)

    def _outward(self, x):
        return self._times(x, self.inverse, 1 / self.coordinates.divisor)

    def _slopes(self, x):
        return self._times(x, self.inverse.T, 1 / self.coordinates.divisor)

    def _pull(self, theta):
        pull = super()._pull(theta)
        if theta.joint is None:
            return pull
        return self._joined(pull, theta.joint @ take_columns(self.coordinates.offset, self.columns))

    def _inward_joint(self, joint):
        return self.root.T @ joint @ self.root

    def _slopes_of_joint(self, joint, slope):
        middle, s = (take_columns(x, self.columns) for x in (self.coordinates.offset, slope))
        moved = 0.5 * (middle[:, None] * s + s[:, None] * middle)
        return self.inverse @ (joint + moved) @ self.inverse.T

    def _projected(self, unit, theta, before):
        """Return the same, with ``before`` where the new matrix is not positive definite."""
        columns = unit.project(theta._replace(joint=None)) if len(self._rest) else theta
        matrix = 0.5 * (theta.joint + theta.joint.T)
        joint = self.inverse.T @ matrix @ self.inverse
        joint = 0.5 * (joint + joint.T)
        is_definite = _has_floor(matrix, unit) & _has_floor(joint)
        return columns, namespace(joint).where(is_definite, joint, before)

    def joint_rows(self, unit, X):
        return take_columns(self._slopes(X - self.coordinates.offset), self.columns)

    def first(self, machine):
        """Return the machine that has given small random parameters in these coordinates.

        With the covariance of the data the machine would be at a saddle, at which weights are zero:
        it starts narrower, with weights that make up for it.
        """
        own, hidden, *rest = machine.thetas
        mean, unit = self.coordinates.offset, machine.units[1]
        alone = own._replace(joint=None), hidden, *rest
        found = super().first(replace(machine, thetas=alone))
        W, own = machine.weights[0], found.thetas[0]
        joint = self.inverse.T @ self.inverse / _NARROW
        W = W / namespace(W).sqrt(namespace(W).mean(W * W)) * self._deviation(unit, hidden)
        mean_hidden = unit.mean(hidden)
        own_W = take_columns(W, self.columns) @ self.inverse
        field = joint @ take_columns(mean, self.columns) - mean_hidden @ own_W
        W = self._joined(found.weights[0], own_W)
        own = own._replace(field=self._joined(own.field, field), joint=joint)
        hidden = hidden._replace(field=hidden.field - W @ mean)
        return replace(machine, thetas=(own, hidden, *rest), weights=(W, *machine.weights[1:]))

    def _deviation(self, unit, hidden):
        """Return the standard deviation of first weights to columns with a precision matrix.

        Where hidden units have bounds, couplings are just below those at which the distribution
        splits in two, W Var[h] W' = P. Elsewhere the distribution must have an integral.
        """
        n, m = len(self.columns), hidden.field.shape[0]
        if not np.isfinite(unit.bounds).all():
            least = float(namespace(hidden.field).min(unit.tail_precision(hidden)))
            return (_FIRST_COUPLING * least / _NARROW) ** 0.5 / (n**0.5 + m**0.5)
        variance = unit.mean(hidden)
        variance = variance - variance * variance  # of columns of categories
        if unit.has_variances:
            variance = unit.mean_variance(hidden)[1]
        total, largest = float(to_numpy(variance).sum()), float(to_numpy(variance).max())
        bits = 2 * largest**0.5
        most = min(_FIRST_WEIGHT, _FIRST_FIELD / n**0.5) / bits
        return min((_BELOW_SPLIT / (_NARROW * total)) ** 0.5, most)


def _filled_in(theta, arrays):
    """Return the parts of a Theta with given arrays in place of those that are there."""
    values = iter(arrays)
    return [None if part is None else next(values) for part in theta]


def _has_floor(matrix, unit=None):
    """Whether a matrix is positive definite, or has the smallest eigenvalue that a unit asks for.

    The result is an array of no dimensions, so that a device is not synchronized.
    """
    one = namespace(matrix).eye(matrix.shape[0], **like(matrix))
    L = cholesky(matrix if unit is None else matrix - unit.min_precision * one)
    return L[0, 0] == L[0, 0]
