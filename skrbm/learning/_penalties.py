"""Penalties on weights, and the proximal steps by which some of them make exact zeros.

A step along the gradient of the likelihood leads to X. With a penalty f, the proximal step then
leads to the minimum over W of sum((W - X)² / (2 d)) + f(W), where d is the length of the step, one
number, one of each column or one of each weight. A function of X, d and the unit of the columns of
X, or None, returns what that step takes away, X - W, which is X itself, to the last bit, where W
is 0.
"""

import math
from functools import lru_cache

import numpy as np

from ..arrays import cast, from_numpy, is_foreign, namespace, number_of, numbers

_MICHELOT = 20  # steps, of which 3 are enough for small steps of learning
_NEWTON = 6  # steps: the equation of a norm is nearly linear


def _l1(X, steps, unit):
    return namespace(X).clip(X, -steps, steps)


def _l1b(X, steps, unit):
    """With S the sum of abs(W) in a row, each weight is nearer to 0 by its step times S.

    S is known once it is known which weights are left. Newton's method for S starts with all and
    leaves out those that fall to 0, from below and until none does (Michelot 1986).
    """
    xp, sizes = namespace(X), namespace(X).abs(X)
    left, last, near = xp.ones_like(X), 0.0, 1.0 + 8 * float(xp.finfo(X.dtype).eps)
    for _ in range(_MICHELOT):
        total = (xp.vecdot(sizes, left) / (1.0 + xp.sum(steps * left, axis=1)))[:, None]
        total = xp.maximum(total, xp.zeros_like(total) + last)  # which rounding may hide
        if not is_foreign(X) and (total <= near * last).all():
            break
        left, last = cast(sizes > steps * total, X.dtype), total
    lengths = steps * total
    return xp.clip(X, -lengths, lengths)


def _group_lasso(X, steps, unit):
    """Each row has a group of weights for each site of ``unit``, or for each column."""
    xp, (n, m) = namespace(X), X.shape
    sizes, back = _sites(unit, m)
    if list(sizes) == [1]:
        return _l1(X, steps, unit)
    taken = []
    for size, columns in sizes.items():
        parts = _of_groups(*(_by_site(x, columns, size) for x in (X, steps)))
        taken.append(xp.reshape(parts, (n, parts.shape[1] * size)))
    return xp.take(xp.concat(taken, axis=1), from_numpy(back, X), axis=1)


def _by_site(x, columns, size):
    """Return some columns as (n_rows, n_sites, size); a number as it is."""
    if not getattr(x, "ndim", 0):
        return x
    xp, x = namespace(x), x[None, :] if x.ndim == 1 else x
    x = xp.take(x, from_numpy(columns, x), axis=1)
    return xp.reshape(x, (x.shape[0], x.shape[1] // size, size))


def _of_groups(X, steps):
    """Return what is taken from groups along the last axis.

    With r the norm of W, W is X r / (r + d), so that sum(X² / (r + d)²) = 1. Newton's method finds
    r by the inverse root of this sum, which is concave, from below.
    """
    xp, tiny = namespace(X), namespace(X).finfo(X.dtype).smallest_normal
    norm = xp.sqrt(xp.sum(X**2, axis=-1, keepdims=True))
    if not getattr(steps, "ndim", 0):
        return X * (steps / xp.clip(xp.clip(norm - steps, 0.0, None) + steps, tiny, None))
    r = xp.maximum(
        norm - xp.max(steps, axis=-1, keepdims=True),
        xp.max(xp.abs(X) - steps, axis=-1, keepdims=True),
    )
    r = xp.clip(r, 0.0, None)
    for _ in range(_NEWTON):
        scale = xp.clip(r + steps, tiny, None)
        squares = (X / scale) ** 2
        total = xp.sum(squares, axis=-1, keepdims=True)
        slope = xp.clip(xp.sum(squares / scale, axis=-1, keepdims=True), tiny, None)
        r = xp.clip(r + (xp.sqrt(total) - 1.0) * total / slope, 0.0, None)
    return X * (steps / xp.clip(r + steps, tiny, None))


@lru_cache(maxsize=64)
def _sites(unit, n):
    """Return the columns of the sites of each size, a dict, and where each column is then."""
    groups = list(np.arange(n)[:, None]) if unit is None else unit.groups(n)
    sizes = {}
    for group in groups:
        sizes.setdefault(len(group), []).append(group)
    columns = {size: np.concatenate(found) for size, found in sizes.items()}
    return columns, np.argsort(np.concatenate([*columns.values()]))


def share_of_zeros(arrays):
    """Return which part of the entries of some arrays is exactly 0."""
    n_zeros = sum(numbers(number_of(array == 0) for array in arrays))
    return n_zeros / max(sum(math.prod(array.shape) for array in arrays), 1)


PENALTIES = {"l2": None, "l1": _l1, "l1b": _l1b, "group_lasso": _group_lasso}
"""Penalties by name; None is that of "l2", which is smooth and part of the gradient."""
