"""How gradients become steps of the parameters: one interface, ``init`` and ``update``.

Parameters are a tuple of arrays, which are written in place. A gradient is an object that adds
itself to arrays, so that the product of matrices in it goes straight into the weights (one BLAS
call, no array of the size of the weights in between). See :class:`Gradient`.
"""

import math
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, ClassVar, NamedTuple

from .._checks import check_number, look_up, unwritten
from .._params import HyperParameters
from .._schedules import SCHEDULES
from ..arrays import cast, like, namespace
from ._natural import natural_difference, natural_difference_given
from ._penalties import PENALTIES, share_of_zeros

# Columns above which the prior of a weight becomes narrower; rows for each column below which it
# does, by what factor at most, and up to which precision (doc/benchmarks.rst).
_WIDE, _FEW_ROWS, _STRONGER, _STRONGEST = 50, 4.5, 4.0, 12.0
_ADAM = 16.0  # by which lengths for gradient ascent are divided for Adam
_NATURAL = 1.0  # nats, most of a step: the metric is that of few samples
_LONGEST = 0.25  # longest automatic step of a penalty with a curvature, in units of one over that


class Gradient:
    """The contract of a gradient of the log-likelihood.

    Attributes
    ----------
    n_penalised : int
        Number of parameters, counted from the first, to which the penalty applies.
    units : tuple of Unit
        Kinds of units of the columns of these parameters. Where there are none, each column is a
        site.
    factors : sequence of float or of arrays, or None
        Factors on the length of steps, one for each parameter, which it is multiplied with; None
        if all are 1. They apply to steps by the penalty too, and so do not change where steps end.
    """

    n_penalised = 1
    units = ()
    factors = None

    def length(self, i, rate):
        """Return the length of steps of the i-th parameters at a learning rate."""
        return rate if self.factors is None else rate * self.factors[i]

    def add(self, targets, rate, keep=1.0):
        """Add a step of length ``rate`` to arrays of the parameters' shapes, in place.

        It is ``rate`` times the gradient, times ``factors``. Those that have a penalty are
        multiplied by ``keep`` before: a fraction 1 - ``keep`` is taken away, times ``factors``.
        """
        raise unwritten(self, "add")

    def arrays(self, parameters):
        """Return the gradient, without factors, as arrays of the shapes of ``parameters``."""
        arrays = tuple(namespace(part).zeros_like(part) for part in parameters)
        self.add(arrays, 1.0)
        return arrays

    def at(self, places):
        """Return the gradient by the layers' fields, which are at some places of the parameters."""
        raise unwritten(self, "at")


class ArrayGradient(Gradient):
    """A gradient given as arrays."""

    def __init__(self, arrays, n_penalised, units=(), factors=None):
        self._arrays, self.n_penalised, self.units = arrays, n_penalised, units
        self.factors = factors

    def add(self, targets, rate, keep=1.0):
        for i, (target, slope) in enumerate(zip(targets, self._arrays, strict=True)):
            if i < self.n_penalised:
                target *= keep if self.factors is None else 1.0 - self.length(i, 1.0 - keep)
            target += self.length(i, rate) * slope

    def arrays(self, parameters):
        return self._arrays

    def at(self, places):
        return [self._arrays[place] for place in places]


class Optimizer(HyperParameters):
    """The contract of an optimizer. Subclasses are frozen dataclasses of hyperparameters.

    Attributes
    ----------
    for_ranks : bool
        Whether several ranks can take steps together.
    makes_zeros : bool
        Whether steps end with a proximal step, which can set weights to exactly 0.
    shrinkage : float
        Fraction of the penalized parameters that is subtracted from their gradient.
    schedule : str or callable
        Factor on the learning rate as a function of the fraction of epochs completed.
    centered : bool
        Whether gradients are centered, in estimators that support it.
    average : bool
        Whether parameters are averaged over the steps, in estimators that support it.
    """

    schedule, centered, average = "polynomial", True, True
    for_ranks = True
    makes_zeros = False
    shrinkage = 0.0

    @property
    def kind(self):
        """Layout of the state. A warm start needs a state of the same kind."""
        return (type(self),)

    def for_data(self, n_rows, n_columns):
        """Return the optimizer for data of that shape, itself if it does not matter to it."""
        return self

    def step_length(self, rule, n_columns):
        """Return the :class:`StepLength` for this optimizer, given that of gradient ascent.

        ``n_columns`` is the number of weights of a hidden unit.
        """
        return rule

    def difference(self, machine, data, model, metric, parameters):
        """Return the moments whose gradient is followed: those of the data minus the model's.

        ``metric`` is one of both: the one whose rows have the statistics that a metric is made of.
        """
        return data - model

    def difference_given(self, given, X, data, model):
        """Return the same for a machine with fields for each row, given features X of the rows."""
        return data - model

    def init(self, parameters):
        """Return the state before the first step, for a tuple of arrays."""
        raise unwritten(self, "init")

    def update(self, parameters, gradient, state, rate):
        """Take one step up a :class:`Gradient`; the parameters are written in place.

        Returns the new state.
        """
        raise unwritten(self, "update")

    def report(self, weights):
        """Return numbers about the penalized parameters for the history, a dict."""
        return {}


@dataclass(frozen=True)
class Penalised(Optimizer):
    """An optimizer with the parameters that all have; see :class:`SGD`."""

    alpha: Any = field(default="auto", kw_only=True)
    penalty: str = field(default="l2", kw_only=True)
    max_grad_norm: float | None = field(default=None, kw_only=True)
    schedule: Any = field(default="polynomial", kw_only=True)
    centered: bool = field(default=True, kw_only=True)
    average: bool = field(default=True, kw_only=True)

    def __post_init__(self):
        if self.alpha != "auto":
            check_number("alpha", self.alpha, at_least=0)
        look_up("penalty", self.penalty, PENALTIES)
        check_number("max_grad_norm", self.max_grad_norm, above=0, or_none=True)
        if not callable(self.schedule):
            look_up("schedule", self.schedule, SCHEDULES, " or a function")

    def for_data(self, n_rows, n_columns):
        """Return the optimizer with "auto" alpha: that of a normal prior distribution of weights.

        Its precision grows with the number of columns, so that the field of a hidden unit has a
        bounded variance, and is larger where there are few rows for the columns.
        """
        if self.alpha != "auto":
            return self
        n_rows, wide = max(n_rows, 1), max(1.0, n_columns / _WIDE)
        few = min(_STRONGER, max(1.0, (_FEW_ROWS * n_columns / n_rows) ** 2))
        return replace(self, alpha=max(wide, min(few * wide, _STRONGEST)) / n_rows)

    @property
    def makes_zeros(self):
        return bool(self.alpha) and PENALTIES[self.penalty] is not None

    @property
    def shrinkage(self):
        return 0.0 if PENALTIES[self.penalty] is not None else self.alpha

    def step_length(self, rule, n_columns):
        longest = self._longest_step(n_columns)
        cap = min(rule.cap, longest)
        return replace(rule, cap=cap, of_bits=max(1.0, min(rule.of_bits, longest / cap)))

    def _longest_step(self, n_columns):
        """Return the rate above which the penalty hinders learning; inf if there is none.

        Longer steps reverse the sign of weights by "l2". By "l1b" a step takes from each weight
        the sum of the noise of all, times the length of the step: all weights stay at 0 then,
        whatever the data are.
        """
        if self.penalty == "l1b" and self.alpha:
            return _LONGEST / (self.alpha * n_columns)
        return 1 / self.alpha if self.alpha and not self.makes_zeros else math.inf

    def report(self, weights):
        return {"zero_weights": share_of_zeros(weights)} if self.makes_zeros else {}

    def _shrink(self, parameters, gradient, i, steps):
        """Take a proximal step of the i-th parameters; returns what it has taken from them."""
        unit = gradient.units[i] if gradient.units else None
        taken = PENALTIES[self.penalty](parameters[i], self.alpha * steps, unit)
        part = parameters[i]
        part -= taken
        return taken


@dataclass(frozen=True)
class SGD(Penalised):
    """Stochastic gradient ascent with momentum and a penalty on the weights.

    velocity <- momentum * velocity + rate * (gradient - alpha * W), W <- W + velocity
    (Alg. 2 of Tramel et al. 2018; its momentum term is printed without the rate).

    Penalties that make exact zeros are not part of the gradient: the gradient step is followed by a
    proximal step of the same length, and the velocity is the total change of W (iPiano; Ochs et al.
    2014).

    Parameters
    ----------
    momentum : float in [0, 1), default=0.0
        Fraction of the last step that is added to the next.
    alpha : float or "auto", default="auto"
        Strength of the penalty, which applies to the weights only. "auto" is max(1, number of
        columns / 50) divided by the number of rows, which corresponds to a normal prior
        distribution of each weight, with a standard deviation of 1 for up to 50 columns, and a
        smaller one for more. With fewer than 4.5 rows per column it is up to 4 times as large, as
        long as the numerator does not exceed 12. If columns share a precision matrix, the number of
        rows is multiplied by the square of the fraction of their values that are observed (the
        fraction of observed pairs).
    penalty : {"l2", "l1", "l1b", "group_lasso"}, default="l2"
        In this order: alpha / 2 times the sum of squares; alpha times the sum of abs(W); alpha / 2
        times the sum over hidden units j of (sum of abs(W_j))² (Tubiana, Cocco and Monasson 2019);
        alpha times the sum over hidden units and sites of the Euclidean norm of the weights of the
        site. A site consists of all columns of a categorical variable, or of one other column. All
        except "l2" make exact zeros (:ref:`sparse_weights`).
    max_grad_norm : float or None, default=None
        If the norm of the gradient with respect to all parameters is larger than this, the gradient
        is scaled down to it.
    schedule : {"constant", "linear", "polynomial", "cosine", "exponential"} or callable, \
            default="polynomial"
        Factor on the learning rate as a function of the fraction t of epochs completed: 1; 1 - t,
        (1 - t)^1.5 or half a cosine, which decrease to 0; an exponential that decreases to 1e-3; or
        a function of t.
    centered : bool, default=True
        Whether to center the gradient: it is then the gradient with respect to couplings between
        deviations of the units from their means. Learning is faster, and depends less on the
        learning rate.
    average : bool, default=True
        Whether the fitted parameters are averages over the steps, in which late steps have larger
        weights. They are less noisy than those of the last step, from which training continues.
    """

    momentum: float = 0.0

    def __post_init__(self):
        super().__post_init__()
        check_number("momentum", self.momentum, at_least=0, below=1)

    @property
    def kind(self):
        return type(self), bool(self.momentum)

    def step_length(self, rule, n_columns):
        # All steps together that a gradient leads to are 1 / (1 - momentum) as long.
        rule = super().step_length(rule, n_columns)
        return replace(rule, cap=rule.cap * (1 - self.momentum))

    def init(self, parameters):
        """Return the velocity at rest: zeros, or None without momentum."""
        if not self.momentum:
            return None
        return tuple(namespace(part).zeros_like(part) for part in parameters)

    def update(self, parameters, gradient, velocity, rate):
        """Take one step; the parameters are written in place. Returns the new velocity."""
        if self.max_grad_norm is not None:
            gradient = clipped(gradient, parameters, self.max_grad_norm)
        shrinkage = self.shrinkage
        if velocity is None:  # the penalty is a factor in the product, which costs nothing
            gradient.add(parameters, rate, 1.0 - rate * shrinkage if shrinkage else 1.0)
        else:
            for step in velocity:
                step *= self.momentum
            gradient.add(velocity, rate)
            for i, (part, step) in enumerate(zip(parameters, velocity, strict=True)):
                if shrinkage and i < gradient.n_penalised:
                    step -= (gradient.length(i, rate) * shrinkage) * part
                part += step
        if self.makes_zeros:
            for i in range(gradient.n_penalised):
                taken = self._shrink(parameters, gradient, i, gradient.length(i, rate))
                if velocity is not None:
                    step = velocity[i]
                    step -= taken
        return velocity


class AdamState(NamedTuple):
    """Running means of gradients and of their squares, and the number of steps."""

    n_steps: Any  # an array of no dimensions
    means: tuple
    squares: tuple


@dataclass(frozen=True)
class Adam(Penalised):
    """Gradient ascent with a step length of its own for each parameter (Kingma and Ba 2015).

    Proximal steps have the same step lengths, but do not enter the running mean of the gradient
    (Yun, Lozano and Yang 2021).

    Parameters
    ----------
    decay, decay_squares : float in [0, 1), default=0.9 and 0.999
        Decay rates of the running means of the gradient and of its square.
    epsilon : float > 0, default=1e-8
        Added to the square root of the running mean of squares.
    alpha, penalty, max_grad_norm, schedule, centered, average : as in :class:`SGD`
        The penalty "l2" is part of the gradient.
    """

    decay: float = 0.9
    decay_squares: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self):
        super().__post_init__()
        for name in ("decay", "decay_squares"):
            check_number(name, getattr(self, name), at_least=0, below=1)
        check_number("epsilon", self.epsilon, above=0)  # by 0 a gradient of 0 would be divided by 0

    def step_length(self, rule, n_columns):
        # A step is as long in directions in which the gradient is all noise as in others.
        rule = super().step_length(rule, n_columns)
        within = None if rule.within is None else rule.within / _ADAM
        divergence = rule.divergence / _ADAM
        return replace(rule, cap=rule.cap / _ADAM, divergence=divergence, within=within)

    def init(self, parameters):
        """Return the state before the first step."""
        zeros = [tuple(namespace(part).zeros_like(part) for part in parameters) for _ in range(2)]
        first = parameters[0]
        return AdamState(namespace(first).zeros((), **like(first)), *zeros)

    def update(self, parameters, gradient, state, rate):
        """Take one step; the parameters are written in place. Returns the new state."""
        if self.max_grad_norm is not None:
            gradient = clipped(gradient, parameters, self.max_grad_norm)
        slopes = list(gradient.arrays(parameters))
        if self.shrinkage:
            for i in range(gradient.n_penalised):
                slopes[i] = slopes[i] - self.shrinkage * parameters[i]
        n, p, q = state.n_steps + 1, self.decay, self.decay_squares
        first, second = 1 - p**n, 1 - q**n
        entries = zip(parameters, slopes, state.means, state.squares, strict=True)
        for i, (part, slope, mean, square) in enumerate(entries):
            mean *= p
            mean += (1 - p) * slope
            square *= q
            square += (1 - q) * slope**2
            divisor = namespace(mean).sqrt(square / second) + self.epsilon
            length = gradient.length(i, rate)
            part += length * (mean / first) / divisor
            if self.makes_zeros and i < gradient.n_penalised:
                self._shrink(parameters, gradient, i, length / divisor)
        return state._replace(n_steps=n)


@dataclass(frozen=True)
class NaturalGradient(Penalised):
    """Natural gradient ascent, with the Fisher information of the model's samples (Amari 1998).

    The direction is (F + λ I)⁻¹ times the centered gradient, where F is the covariance of the
    sufficient statistics over the chains of the model phase, or over the rows of data if the
    moments of the model come from fixed points. λ is ``damping`` times the trace of F divided by
    the number of rows, and not smaller than the same quantity for the rows of data, about the means
    of the chains, since chains that have gathered in one mode say little about the effect of a
    step. The more chains there are, the better the direction; a few hundred are a good number.

    Parameters
    ----------
    damping : float > 0, default=1.0
    alpha, penalty, max_grad_norm, schedule, centered, average : as in :class:`SGD`
    """

    for_ranks: ClassVar = False
    momentum: ClassVar = 0.0

    damping: float = 1.0

    def __post_init__(self):
        super().__post_init__()
        check_number("damping", self.damping, above=0)

    def step_length(self, rule, n_columns):
        # Its lengths have other units than those of the gradient, and so no cap of these; its
        # metric is that of all samples.
        rule = replace(rule, divergence=min(rule.divergence, _NATURAL), within=None)
        return replace(rule, cap=self._longest_step(n_columns), of_bits=1.0)

    def difference(self, machine, data, model, metric, parameters):
        return natural_difference(machine, data, model, metric, parameters, self.damping)

    def difference_given(self, given, X, data, model):
        return natural_difference_given(given, X, data, model, self.damping)

    init, update = SGD.init, SGD.update


OPTIMIZERS = {"sgd": SGD, "natural": NaturalGradient, "adam": Adam}
"""Optimizers by name."""


def clipped(gradient, parameters, max_norm):
    """Return the gradient, scaled down to ``max_norm`` if its norm is larger."""
    arrays = gradient.arrays(parameters)
    xp = namespace(arrays[0])
    full = [cast(array, xp.float64) for array in arrays if 0 not in array.shape]
    largest = reduce(xp.maximum, (xp.max(xp.abs(array)) for array in full))
    unit = xp.where(largest > 0, largest, xp.ones_like(largest))  # or squares may overflow
    norm = unit * xp.sqrt(sum(xp.sum((array / unit) ** 2) for array in full))
    factor = max_norm / xp.where(norm > max_norm, norm, xp.full_like(norm, max_norm))
    arrays = tuple(cast(factor, part.dtype) * part for part in arrays)
    return ArrayGradient(arrays, gradient.n_penalised, gradient.units, gradient.factors)
