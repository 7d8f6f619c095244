"""How far to go along a line in the multiplicities."""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve
from scipy.optimize import brentq

from ...inference import effective_part
from ._mixture import Direction


class Line(NamedTuple):
    """A direction, and what a unit step along it does."""

    direction: Direction
    slope: float  # of the mean log-weight of the data, penalty included
    changes: Any  # of the log-weights of the training and the evaluation samples
    shift: np.ndarray  # of the biases, to be taken off
    promise: float  # rise of the penalised log-likelihood, if that were a parabola

    def part(self, done, whole, samples, min_ess):
        """Return the length of the next part of a step, and whether it is the last part.

        ``done`` is what is gone already. ``whole`` is the step to take whatever the likelihood
        says; None searches for the best one.
        """
        low, high, slope = self.direction.low, self.direction.high, self.slope
        if whole is not None:
            high, slope = whole, np.inf
        bounds = {"low": min(low - done, 0.0), "high": high - done, "min_ess": min_ess}
        step, is_cut = best_step(slope, self.changes[1], samples.evaluation, **bounds)
        return step, not is_cut


def line_along(direction, alpha, means, samples, factor=None):
    """Return the :class:`Line` of a direction.

    Each step also shifts the biases so that the visible means stay constant to first order, by the
    ``factor`` of :func:`covariance_factor`. Otherwise the later refit of the biases would undo much
    of the gain, and the line search would make the step too short. None shifts nothing.

    Parameters
    ----------
    direction : Direction
    alpha : float
        Penalty.
    means : ndarray of shape (n_visible,)
        Of the data.
    samples : Samples
    factor : tuple, default=None
    """
    slope = float(direction.change @ (direction.values - direction.base.penalties(alpha)))
    changes, shift = [direction.log_weights(rows) for rows in samples], np.zeros_like(means)
    if factor is not None:
        training = samples.training
        shift = cho_solve(factor, training.average(changes[0] - training.mean(changes[0])))
        changes = [c - rows.product(shift) for c, rows in zip(changes, samples, strict=True)]
        slope -= float(shift @ means)
    mean = float(samples.evaluation.mean(changes[1]))
    variance = max(float(samples.evaluation.mean((changes[1] - mean) ** 2)), 1e-300)
    rise = slope - mean
    step = np.clip(rise / variance, direction.low, direction.high)
    return Line(direction, slope, changes, shift, step * rise - 0.5 * step * step * variance)


def best_step(slope, change, rows, *, low=0.0, high=1.0, min_ess=0.0):
    """Return the step in [low, high] that maximises the penalised mean log-likelihood.

    Along a line it changes by step * slope - log E_model[exp(step * change)], which is concave.
    The expectation is over rows that stand for the model: exact if they are all configurations
    with their probabilities, and else by importance weights.

    Parameters
    ----------
    slope : float
    change : ndarray of shape (n_rows,)
    rows : WeightedRows
    low, high : float
        ``low <= 0 <= high``.
    min_ess : float in [0, 1)
        Smallest effective part of the rows, all of one probability, that importance weights may
        leave; bounds the step.

    Returns
    -------
    step : float
    is_cut : bool
        Whether ``min_ess`` alone keeps it from being longer.
    """

    def derivative(step):
        p = np.exp(step * change - (step * change).max())
        return slope - rows.mean(p * change) / rows.mean(p)

    def excess(step):
        return effective_part(step * change) - min_ess

    ends = low, high
    if min_ess and excess(low) < 0:
        low = brentq(excess, 0, low, xtol=1e-6 * abs(low))
    if min_ess and excess(high) < 0:
        high = brentq(excess, 0, high, xtol=1e-6 * high)
    if derivative(high) >= 0:
        return float(high), high < ends[1]
    if derivative(low) <= 0:
        return float(low), low > ends[0]
    return float(brentq(derivative, low, high, xtol=1e-12, rtol=1e-10)), False
