"""Inference in conditional machines: marginals, maxima, draws and partition functions.

Given the features of some rows, the machine is an ordinary one with fields for each row, ``given``.
"""

import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...arrays import cast, from_numpy, matmul, namespace, sigmoid, to_numpy
from ...inference import BeliefPropagation, Gibbs, propagate_rows, solve, sum_classes
from ...machine import (
    Block,
    Moments,
    blocks_of_rows,
    condition,
    configurations,
    free_energy,
    log_partition,
)
from ...units import Theta
from ._machine import is_one_label

_MAX_SUMMED = 12  # units of the smaller layer for which log Z is summed exactly
_MAX_DECIDED = 14  # outputs of which all values are tried
_HELD = 1e3  # smallest log-odds of a unit that is held at 1
_STAGES = BeliefPropagation(200, 1e-12), BeliefPropagation(1000, 1e-12, 0.5)  # for log Z, in turn


class Found(NamedTuple):
    """Result of inference."""

    logits: Any  # fields of independent visible units with the same marginals, or the same maximum
    hidden: Any  # means of the hidden units
    converged: Any  # whether each row has
    moments: Any = None  # if asked for


def infer(method, given, moments=False):
    """Return what a fixed point finds, as :class:`Found`.

    Belief propagation is exact for one label, and without hidden units, where it serves for all
    other methods too: not each of them takes such a machine. Raises ValueError if the method does
    not apply to the machine.
    """
    has_hidden, pair_moments = given.n_units[1] > 0, None
    if has_hidden and not isinstance(method, BeliefPropagation):
        method.check(given)
        first = method.state_at(given, given.units[0].mean(given.thetas[0]))
        solution = solve(method, given, first)
        visible, hidden = solution.state.means
        found = method.moments(given, solution.state) if moments else None
        return Found(_logits_of(given, visible), hidden, solution.converged, found)
    method = method if has_hidden else BeliefPropagation()
    if is_one_label(given):
        found = sum_classes(method, given, pairs=moments)
    else:
        from_tap = method.product == "sum"
        found = propagate_rows(method, given, from_tap=from_tap, pairs=moments)
    hidden = sigmoid(found.hidden)
    if moments:
        visible, weight = given.units[0].mean(Theta(found.visible)), 1.0 / hidden.shape[0]
        block = Block((visible, hidden), (None, None), weight)
        rest = found.pairs - matmul(hidden.T, visible)
        rest *= weight
        pair_moments = Moments((block,), ((0, rest),))
    return Found(found.visible, hidden, found.converged, pair_moments)


def infer_jointly(method, given):
    """Return the most probable values of all outputs, hidden units summed out.

    They are found among all values of few outputs, and by mixed-product ``method`` of many. For one
    label both are exact.
    """
    if is_one_label(given) or not 1 < given.n_units[0] <= _MAX_DECIDED:
        return infer(method, given)
    parts = [_best_differences(rows) for rows in blocks_of_rows(given, (0,))]
    logits = cast(namespace(parts[0]).concat(parts, axis=0), given.weights[0].dtype)
    hidden = given.units[1].mean(condition(given, given.units[0].mode(Theta(logits))))
    return Found(logits, hidden, np.ones(logits.shape[0], bool))


def _best_differences(given):
    """Return the largest log-weight with each output at 1, less that with it at 0."""
    xp, n, best = namespace(given.weights[0]), given.n_units[0], None
    for (bits, _), weights in configurations(given, (0,)):
        # A column for each output at 1, and at 0.
        values = xp.concat([bits, 1 - bits], axis=1) > 0.5
        columns = (xp.where(values[:, i], weights, -np.inf) for i in range(2 * n))
        found = xp.stack([xp.max(column, axis=1) for column in columns], axis=1)
        best = found if best is None else xp.maximum(best, found)
    return best[:, :n] - best[:, n:]


def _logits_of(given, means):
    """Return fields at which independent visible units have these means."""
    xp = namespace(means)
    tiny = xp.finfo(means.dtype).smallest_normal
    low = 0 if is_one_label(given) else xp.log(xp.clip(1 - means, tiny, None))
    return xp.log(xp.clip(means, tiny, None)) - low


def clamped(given, V, observed):
    """Return the machine with outputs held at V where ``observed``.

    A large field holds them, so that fixed points, maxima and chains all take such a machine.
    """
    xp, W = namespace(V), given.weights[0]
    force = _HELD + xp.sum(xp.abs(W), axis=0)  # exceeds the largest field of the hidden units
    field = xp.where(observed, force * (2 * V - 1), given.thetas[0].field)
    return replace(given, thetas=(Theta(field), *given.thetas[1:]))


def draw(given, n_steps, rng):
    """Return outputs, one for each row: exactly for a label, else by Gibbs sampling."""
    if is_one_label(given):
        return given.units[0].sample(Theta(sum_classes(BeliefPropagation(), given).visible), rng)
    if given.n_units[0] > 1:
        return Gibbs(n_steps).search(given, rng)
    off = namespace(given.weights[0]).zeros_like(given.thetas[0].field)
    logits = free_energy(given, off) - free_energy(given, off + 1)
    return given.units[0].sample(Theta(cast(logits, off.dtype)[:, None]), rng)


def log_partitions(given):
    """Return log Z of each row in float64: exact for one label or a small layer, else Bethe.

    Warns of rows where belief propagation has not converged.
    """
    if is_one_label(given):
        return sum_classes(BeliefPropagation(), given, log_partition=True).log_partition
    if min(given.n_units) <= _MAX_SUMMED:
        return log_partition(given, (int(np.argmin(given.n_units)),))
    W, n = given.weights[0], given.thetas[0].field.shape[0]
    log_z, rows = np.empty(n), np.arange(n)
    for method in _STAGES:
        found = propagate_rows(method, given.rows(from_numpy(rows, W)), log_partition=True)
        log_z[rows] = to_numpy(found.log_partition)
        rows = rows[~found.converged]
        if not rows.size:
            break
    else:
        warnings.warn(
            f"belief propagation did not converge in {len(rows)} of {n} rows, whose "
            "log-probabilities are unreliable; a larger alpha keeps the weights smaller",
            ConvergenceWarning,
            stacklevel=4,  # beyond this, score_samples and its wrapper
        )
    return from_numpy(log_z, W)
