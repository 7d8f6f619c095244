"""Gradient ascent on the parameters of a machine."""

import math
from dataclasses import dataclass, replace

from ._backend import namespace

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
        for l, target in enumerate(targets):
            # The target may be W itself: everything that reads W comes before the first write.
            shrink = None
            if self.alpha:
                shrink = (rate * self.alpha) * PENALTIES[self.penalty](machine.weights[l])
            gradient.add_pair(machine, l, target, rate)
            if shrink is not None:
                target -= shrink
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
            ``add(targets)`` adds rate * gradient to arrays of the shapes of ``values``.
        rate : float
        """
        if self.momentum and velocity is None:
            velocity = tuple(namespace(part).zeros_like(part) for part in values)
        targets, shrink = values, []
        if velocity is not None:
            targets = velocity
            for target in targets:
                target *= self.momentum
        if self.alpha:  # read before the first write, as the targets may be the values
            penalty = PENALTIES[self.penalty]
            shrink = [(rate * self.alpha) * penalty(part) for part in values[:n_penalised]]
        add(targets)
        for target, part in zip(targets, shrink, strict=False):
            target -= part
        if velocity is not None:
            for part, step in zip(values, velocity, strict=True):
                part += step
        return velocity


def train_step(machine, velocity, state, X, rng, method, optimiser, rate):
    """Learn from one batch of rows; returns the new machine, velocity and state.

    The gradient of the log-likelihood is data moments minus the machine's moments; every
    method of inference, deterministic or sampling, is used through this one function.
    """
    state, data, model = method.phases(machine, state, X, rng)
    machine, velocity = optimiser.update(machine, velocity, data - model, rate)
    return machine, velocity, state
