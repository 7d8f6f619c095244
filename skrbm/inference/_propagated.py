"""What belief propagation finds in many machines."""

from typing import Any, NamedTuple

import numpy as np

from ..arrays import from_numpy, namespace


class Propagated(NamedTuple):
    """Solution of belief propagation, a row for each instance.

    Attributes
    ----------
    visible : array of shape (n_instances, n_visible)
        Beliefs as log-odds: of the marginal, or of the maximum with the unit at 1 against 0.
    hidden : array of shape (n_instances, n_hidden)
    n_iter : ndarray of int of shape (n_instances,)
        Sweeps done; 0 where TAP and the third order of its expansion were enough.
    residual : ndarray of shape (n_instances,)
        float64. In the last sweep the larger of the mean squared change of the means, and the
        square of the largest change of a belief, over 100, or over the belief's size if that is
        larger. Without sweeps the largest of

        - the mean squared change of the means by the third order,
        - a hundredth of the largest squared change of one mean,
        - the mean square over the pairs of any one unit of ``abs(W)**3 / 576``, a bound of what
          the expansion leaves out of E[h v].

    converged : ndarray of bool of shape (n_instances,)
    log_partition : array of shape (n_instances,), float64
        The Bethe log Z; see :meth:`BeliefPropagation.log_partition`. None if not asked for.
    pairs : array of shape (n_hidden, n_visible)
        Sum over the instances of E[h v]. None if not asked for.
    """

    visible: Any
    hidden: Any
    n_iter: Any
    residual: Any
    converged: Any
    log_partition: Any = None
    pairs: Any = None


def joined(parts, rows=None):
    """Return the results of groups of rows as one, and the sum of their pairs.

    ``rows`` are the indices of each group; by default the groups follow each other.
    """
    if len(parts) == 1:
        return parts[0]
    order = None if rows is None else np.argsort(np.concatenate(rows))

    def join(leaves):
        if leaves[0] is None:
            return None
        xp = namespace(leaves[0])
        whole = xp.concat(leaves, axis=0)
        return whole if order is None else xp.take(whole, from_numpy(order, whole), axis=0)

    *leaves, pairs = zip(*parts, strict=True)
    total = None if pairs[0] is None else sum(pairs[1:], start=pairs[0])
    return Propagated(*map(join, leaves), total)
