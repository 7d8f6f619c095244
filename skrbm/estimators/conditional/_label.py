"""Exact inference where the visible layer is one label of several classes."""

import numpy as np

from ...arrays import cast, log_odds, namespace, row_blocks, row_sums
from ...inference._odds import PRODUCTS
from ...inference._propagation import Propagated, checked_instances, checked_method
from ...units import Categorical, Theta

_ELEMENTS = 2**20  # of the largest temporary array
_FARTHEST = 500.0  # log-odds of a unit that is always 1


def propagate_classes(
    W,
    visible_fields,
    hidden_fields,
    *,
    product="sum",
    max_iter=100,
    tol=1e-8,
    damping=0.0,
    start="fields",
    n_jobs=None,
    log_partition=False,
    pairs=False,
):
    """Sum, or maximise, over the classes of one label and the hidden units, exactly.

    Each instance is p(k, h) ∝ exp(h' W[:, k] + b[k] + c' h) with binary hidden units, which are
    independent given the class k: the graph is a star, so that no iteration is needed, and the
    options of one are ignored. See :func:`~skrbm.inference.propagate`, whose arguments these are.

    Returns
    -------
    Propagated
        ``visible`` holds the logarithm of the probability of each class ("sum" and "mixed"), or
        of the largest weight with that class ("max").
    """
    checked_method(product, max_iter, tol, damping, start, n_jobs)
    machine = checked_instances(W, visible_fields, hidden_fields)
    W, size = machine.weights[0], _block_size(machine.weights[0])
    fields = (row_blocks(theta.field, size) for theta in machine.thetas)
    found = [_solve(W, b, c, product) for b, c in zip(*fields, strict=True)]
    visible, hidden, log_z, joint = zip(*found, strict=True)
    xp, n = namespace(W), machine.thetas[0].field.shape[0]
    return Propagated(
        xp.concat(visible, axis=0),
        xp.concat(hidden, axis=0),
        np.ones(n, int),
        np.zeros(n),
        np.ones(n, bool),
        xp.concat(log_z, axis=0) if log_partition else None,
        sum(joint[1:], start=joint[0]) if pairs else None,
    )


def _block_size(W):
    return max(1, _ELEMENTS // max(1, W.shape[0] * W.shape[1]))


def _solve(W, b, c, product):
    """Return log-weights of classes, log-odds of hidden units, log Z and sums of E[h k]."""
    xp, values = namespace(W), PRODUCTS[product].hidden
    fields = c[:, None, :] + W.T[None, :, :]  # of the hidden units given each class
    weights = cast(b, xp.float64) + row_sums(values.total(fields))
    log_z = Categorical().log_partition(Theta(weights))[:, 0]
    logits = cast(weights - log_z[:, None], W.dtype)
    if product == "sum":
        means, class_means = values.mean(fields), Categorical().mean(Theta(logits))
        joint = class_means[:, :, None] * means
        hidden = log_odds(xp.sum(joint, axis=1), _FARTHEST)
        return logits, hidden, log_z, xp.sum(joint, axis=0).T
    best = Categorical().mode(Theta(logits))
    hidden = c + best @ W.T
    joint = values.mean(hidden).T @ best
    return logits, hidden, xp.max(weights, axis=1), joint  # the weight of the decided values
