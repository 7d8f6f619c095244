"""Exact sums where the visible units are one label of several classes, which exclude each other."""

import numpy as np

from ..arrays import cast, log_odds, namespace, row_sums
from ..units import Categorical, Theta
from ._odds import PRODUCTS
from ._propagated import Propagated, joined

_ELEMENTS = 2**20  # of the largest temporary array
_FARTHEST = 500.0  # log-odds of a hidden unit that is always 1


def sum_classes(method, machine, *, log_partition=False, pairs=False):
    """Sum, or maximise, over the classes of one label and the hidden units, exactly.

    Each row is p(k, h) ∝ exp(h' W[:, k] + b[k] + c' h). Given the class k the binary hidden units
    are independent: the graph is a star, and no iteration is needed.

    Parameters
    ----------
    method : BeliefPropagation
        Its ``product`` says what is summed and what is maximised.
    machine : Machine
        With fields for each row.
    log_partition, pairs : bool, default=False
        As in :func:`~skrbm.inference.propagate`.

    Returns
    -------
    Propagated
        ``visible`` is the logarithm of the probability of each class ("sum" and "mixed"), or
        of the largest weight with that class ("max").
    """
    n, W = machine.thetas[0].field.shape[0], machine.weights[0]
    size, found = max(1, _ELEMENTS // max(1, W.shape[0] * W.shape[1])), []
    for start in range(0, n, size):
        rows = machine.rows(slice(start, min(start + size, n)))
        visible, hidden, log_z, joint = _solve(W, *(theta.field for theta in rows.thetas), method)
        n_rows = visible.shape[0]
        exact = np.ones(n_rows, int), np.zeros(n_rows), np.ones(n_rows, bool)
        log_z, joint = log_z if log_partition else None, joint if pairs else None
        found.append(Propagated(visible, hidden, *exact, log_z, joint))
    return joined(found)


def _solve(W, b, c, method):
    """Return log-weights of classes, log-odds of hidden units, log Z and sums of E[h k]."""
    xp, values = namespace(W), PRODUCTS[method.product].hidden
    fields = c[:, None, :] + W.T[None, :, :]  # of the hidden units given each class
    weights = cast(b, xp.float64) + row_sums(values.total(fields))
    log_z = Categorical().log_partition(Theta(weights))[:, 0]
    logits = cast(weights - log_z[:, None], W.dtype)
    if method.product == "sum":
        means, class_means = values.mean(fields), Categorical().mean(Theta(logits))
        joint = class_means[:, :, None] * means
        hidden = log_odds(xp.sum(joint, axis=1), _FARTHEST)
        return logits, hidden, log_z, xp.sum(joint, axis=0).T
    best = Categorical().mode(Theta(logits))
    hidden = c + best @ W.T
    joint = values.mean(hidden).T @ best
    return logits, hidden, xp.max(weights, axis=1), joint  # the weight of the decided values
