"""Gradient ascent on the parameters of a machine."""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from .arrays import like, namespace

SCHEDULES = {
    "constant": lambda progress: 1.0,
    "linear": lambda progress: 1.0 - progress,
    "cosine": lambda progress: 0.5 * (1.0 + math.cos(math.pi * progress)),
    "exponential": lambda progress: 10.0 ** (-3.0 * progress),
}
"""Factor on the learning rate, by the fraction of the epochs that has passed."""

PENALTIES = {"l2": lambda W: W, "l1": lambda W: namespace(W).sign(W)}
"""Derivative of each penalty by the weights."""


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient ascent with momentum and a penalty on the weights.

    velocity <- momentum * velocity + rate * (gradient - alpha * penalty'(W)), W <- W + velocity
    (Alg. 2 of Tramel et al. 2018; its momentum term is printed without the rate).

    Parameters
    ----------
    momentum : float in [0, 1)
    alpha : float
        Strength of the penalty, on the weights only.
    penalty : {"l2", "l1"}
    """

    momentum: float = 0.0
    alpha: float = 0.0
    penalty: str = "l2"

    @property
    def kind(self):
        """What velocities are good for: those of another kind are given up."""
        return type(self)

    def init(self, machine):
        """Return the velocity at rest: a machine's worth of zeros, or None without momentum."""
        if not self.momentum:
            return None
        zero = namespace(machine.weights[0]).zeros_like
        return (
            tuple(theta.map(zero) for theta in machine.thetas),
            tuple(zero(W) for W in machine.weights),
        )

    def update(self, machine, velocity, gradient, rate):
        """Take one step; returns the new machine and velocity.

        The machine is consumed: its weights are written in place, so the caller must drop it.
        """
        steps = [
            gradient.statistics(unit, l).map(lambda part: rate * part)
            for l, unit in enumerate(machine.units)
        ]
        if velocity is None:
            targets = machine.weights
        else:
            moved, targets = velocity
            steps = [
                old.map(lambda v, step: self.momentum * v + step, step)
                for old, step in zip(moved, steps, strict=True)
            ]
            for target in targets:
                target *= self.momentum
        keep, shrink = self._penalty(machine.weights, velocity, rate)
        for l, target in enumerate(targets):
            gradient.add_pair(machine, l, target, rate, keep)
        for target, part in zip(targets, shrink, strict=False):
            target -= part
        weights = machine.weights
        if velocity is not None:
            velocity = (tuple(steps), targets)
            for W, target in zip(weights, targets, strict=True):
                W += target
        thetas = tuple(
            unit.project(theta.map(lambda part, step: part + step, step))
            for unit, theta, step in zip(machine.units, machine.thetas, steps, strict=True)
        )
        return replace(machine, thetas=thetas, weights=weights), velocity

    def ascend(self, values, n_penalised, velocity, add, rate):
        """Take one step on arrays, in place; returns the velocity, None without momentum.

        Parameters
        ----------
        values : tuple of arrays
        n_penalised : int
            How many of them, the first, the penalty is on.
        velocity : tuple of arrays or None
            None is rest.
        add : callable
            ``add(targets, keep)`` adds rate * gradient to arrays of the shapes of ``values``, of
            which those with a penalty are multiplied by ``keep`` before.
        rate : float
        """
        if self.momentum and velocity is None:
            velocity = tuple(namespace(part).zeros_like(part) for part in values)
        targets = values
        if velocity is not None:
            targets = velocity
            for target in targets:
                target *= self.momentum
        keep, shrink = self._penalty(values[:n_penalised], velocity, rate)
        add(targets, keep)
        for target, part in zip(targets, shrink, strict=False):
            target -= part
        if velocity is not None:
            for part, step in zip(values, velocity, strict=True):
                part += step
        return velocity

    def _penalty(self, weights, velocity, rate):
        """Return what a step multiplies its targets by, and what it takes from them besides.

        Without momentum these are the weights themselves. So the second is worked out before the
        first is written, and an l2 penalty is a factor, which costs nothing.
        """
        if not self.alpha:
            return 1.0, ()
        if velocity is None and self.penalty == "l2":
            return 1.0 - rate * self.alpha, ()
        penalty = PENALTIES[self.penalty]
        return 1.0, [(rate * self.alpha) * penalty(W) for W in weights]


_MOST = 80.0  # largest log-variance, whose exponential float32 has


@dataclass(frozen=True)
class Momentum:
    """Steps along the gradient, to each of which a part of the last one is added."""

    decay: float = 0.0

    def init(self, values):
        """Return the velocity at rest, None without momentum."""
        if not self.decay:
            return None
        return tuple(namespace(value).zeros_like(value) for value in values)

    def steps(self, velocity, slopes, rate):
        """Return the new velocity, and the steps."""
        steps = tuple(rate * slope for slope in slopes)
        if velocity is not None:
            pairs = zip(velocity, steps, strict=True)
            velocity = steps = tuple(self.decay * old + step for old, step in pairs)
        return velocity, steps


class AdamState(NamedTuple):
    """Running means of gradients and of their squares, and the number of steps."""

    n_steps: Any  # an array of no dimensions
    means: tuple
    squares: tuple


@dataclass(frozen=True)
class Adam:
    """Steps of a length of their own for each entry (Kingma and Ba 2015)."""

    decay: float = 0.9
    decay_squares: float = 0.999
    epsilon: float = 1e-8

    def init(self, values):
        rest = tuple(namespace(value).zeros_like(value) for value in values)
        xp = namespace(values[0])
        # No array is written in place: means and squares may begin as the same.
        return AdamState(xp.zeros((), **like(values[0])), rest, rest)

    def steps(self, state, slopes, rate):
        """Return the new state, and the steps."""
        n, p, q = state.n_steps + 1, self.decay, self.decay_squares
        pairs = zip(state.means, slopes, strict=True)
        means = tuple(p * old + (1 - p) * slope for old, slope in pairs)
        pairs = zip(state.squares, slopes, strict=True)
        squares = tuple(q * old + (1 - q) * slope**2 for old, slope in pairs)
        first, second = 1 - p**n, 1 - q**n
        steps = tuple(
            rate * (mean / first) / (namespace(mean).sqrt(square / second) + self.epsilon)
            for mean, square in zip(means, squares, strict=True)
        )
        return AdamState(n, means, squares), steps


RULES = {"sgd": Momentum, "adam": lambda momentum: Adam()}
"""How gradients become steps, by name; given the momentum."""


@dataclass(frozen=True)
class MeanVarianceAscent:
    """Gradient ascent on the means and log-variances of Gaussian visible units.

    A machine with one hidden layer has the fields mu / sigma**2 and the precisions 1 / sigma**2 of
    visible units, and weights C / sigma**2. What is learnt are mu, log sigma**2 and C, whose
    gradients (Eqs. 14-17 of Liao et al. 2022) follow from the same moments by the chain rule.

    Parameters
    ----------
    rule : Momentum or Adam
        How gradients become steps.
    alpha, penalty
        As in :class:`SGD`; on C.
    max_norm : float or None, default=None
        Norm of the gradient by all parameters above which it is scaled down to that norm.
    min_variance : float, default=1e-6
        Floor under the variances.
    """

    rule: Any = Momentum()
    alpha: float = 0.0
    penalty: str = "l2"
    max_norm: float | None = None
    min_variance: float = 1e-6

    @property
    def kind(self):
        return type(self.rule)

    def init(self, machine):
        """Return the state of the rule at rest."""
        return self.rule.init(self._coordinates(machine))

    def update(self, machine, velocity, gradient, rate):
        """Take one step; returns the new machine and state."""
        values = self._coordinates(machine)
        slopes = self._clipped(self.slopes(machine, gradient))
        if self.alpha:
            slopes = (slopes[0] - self.alpha * PENALTIES[self.penalty](values[0]), *slopes[1:])
        velocity, steps = self.rule.steps(velocity, slopes, rate)
        values = tuple(value + step for value, step in zip(values, steps, strict=True))
        return self._machine(machine, *values), velocity

    def _coordinates(self, machine):
        """Return C, mu, log sigma**2 and the hidden units' own parameters."""
        theta = machine.thetas[0]
        mean, log = theta.field / theta.precision, namespace(theta.field).log
        hidden = (part for part in machine.thetas[1] if part is not None)
        return machine.weights[0] / theta.precision, mean, -log(theta.precision), *hidden

    def slopes(self, machine, gradient):
        """Return the gradient by C, mu, log sigma**2 and the hidden units' own parameters."""
        (W,), precision = machine.weights, machine.thetas[0].precision
        visible, hidden = (gradient.statistics(unit, l) for l, unit in enumerate(machine.units))
        xp = namespace(W)
        pair = gradient.add_pair(machine, 0, xp.zeros_like(W), 1.0)
        spread = (machine.thetas[0].field * visible.field + precision * visible.precision) * -1.0
        spread = spread - xp.sum(W * pair, axis=0)
        hidden = (part for part in hidden if part is not None)
        return pair * precision, visible.field * precision, spread, *hidden

    def _clipped(self, slopes):
        if self.max_norm is None:
            return slopes
        norm = _norm(slopes)
        return (
            slopes if norm <= self.max_norm else tuple((self.max_norm / norm) * s for s in slopes)
        )

    def _machine(self, machine, components, mean, log_variance, *hidden):
        xp = namespace(components)
        precision = xp.exp(-xp.clip(log_variance, math.log(self.min_variance), _MOST))
        hidden = iter(hidden)
        theta = machine.thetas[1].map(lambda part: next(hidden))
        own = machine.thetas[0]._replace(field=mean * precision, precision=precision)
        thetas = (own, machine.units[1].project(theta))
        return replace(machine, thetas=thetas, weights=(components * precision,))


def _norm(arrays):
    """Return the Euclidean norm of all entries; sums of squares do not overflow."""
    most = max(float(namespace(array).max(namespace(array).abs(array))) for array in arrays)
    if not 0 < most < math.inf:
        return most
    squares = (((1 / most) * array) ** 2 for array in arrays)
    return most * math.sqrt(sum(float(namespace(s).sum(s)) for s in squares))


def train_step(machine, velocity, state, X, rng, method, optimiser, rate):
    """Learn from one batch of rows; returns the new machine, velocity and state.

    The gradient of the log-likelihood is data moments minus the machine's moments; every
    method of inference, deterministic or sampling, is used through this one function.
    """
    state, data, model = method.phases(machine, state, X, rng)
    machine, velocity = optimiser.update(machine, velocity, data - model, rate)
    return machine, velocity, state
