"""Log-partition functions of machines of counts, for all numbers of draws in one run.

With the number of draws D as in a replicated softmax, and visible units summed out, Z_D is the sum
over hidden values h of w(h) exp(D g(h)), where g(h) is the log-partition function of one draw. D
thus acts as an inverse temperature: Z_1 is a sum over columns, rows of one draw can be
sampled exactly, and chains are annealed from there by increasing the number of draws, so that log Z
is obtained for every number on the way. Chains consist of hidden values only, since these hardly
move given the many words of a long document.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..arrays import (
    block_rows,
    log_sum_exp,
    one_blas_thread,
    row_blocks,
    sigmoid,
    take_rows,
    to_numpy,
)
from ..inference import Gibbs, resampled_index
from ..machine import conditional, precise_free_energy
from ..units import Multinomial, log_weight
from ._density import in_float64

_RUNS, _CHAINS = 8, 32  # independent runs, and chains of each
_SPREAD = 0.15  # standard deviation of log weights by one step, in nats
_RESAMPLED = 0.5  # effective part of a run below which its chains are resampled
_LARGEST = 10.0  # variance of the logarithms of runs, above which it tells no more
_EXACT = 2**12  # configurations of hidden units that are summed over


class LengthPartitions(NamedTuple):
    """log Z by the number of draws: samples of hidden values at ascending ``lengths``.

    Z is the mean of their weights over chains and runs. ``log_weights`` and the ``slopes`` g have
    the shape (n_points, n_runs, n_chains), and ``log_z0`` is log Z of no draws.
    """

    lengths: np.ndarray
    log_weights: np.ndarray
    slopes: np.ndarray
    log_z0: float

    def at(self, lengths):
        """Return log Z and its standard error at numbers of draws, up to the last point."""
        found = np.array([self._at(length) for length in lengths]).reshape(-1, 2)
        return found[:, 0], found[:, 1]

    def _at(self, length):
        if length == 0:
            return self.log_z0, 0.0
        point = max(np.searchsorted(self.lengths, length, side="right") - 1, 0)
        step = length - self.lengths[point]
        runs = log_sum_exp(self.log_weights[point] + step * self.slopes[point])
        runs -= np.log(self.log_weights.shape[-1])
        n, top = len(runs), runs.max()
        # As of weights whose logarithms are normal: the largest of few may be most of their sum.
        variance = min(float(runs.var(ddof=1)), _LARGEST) if n > 1 else 0.0
        return top + np.log(np.exp(runs - top).mean()), np.sqrt(np.expm1(variance) / n)


@one_blas_thread
def length_partitions(machine, rng, longest, n_chains=_CHAINS):
    """Return log Z of numbers of draws up to ``longest``, a :class:`LengthPartitions`.

    It is exact where hidden units have few configurations. Otherwise what is found for a number
    does not depend on ``longest``. Visible units are :class:`~skrbm.units.Multinomial`.
    """
    machine = in_float64(machine)
    machine = machine.with_leaves([to_numpy(leaf) for leaf in machine.leaves])
    (n_words, n_hidden), unit = machine.n_units, machine.units[1]
    log_z0 = float(unit.total_log_partition(machine.thetas[1]))

    def slopes_of(hidden):
        return Multinomial(1).log_partition(conditional(machine, 0, (None, hidden)))[:, 0]

    if unit.is_discrete and unit.n_configurations(n_hidden) <= _EXACT:
        total = unit.n_configurations(n_hidden)
        rows = unit.configurations(n_hidden, np.arange(total))
        log_weights = log_weight(machine.thetas[1], rows) + np.log(total)
        slopes = np.concatenate([slopes_of(part) for part in row_blocks(rows, block_rows(n_words))])
        return LengthPartitions(
            np.zeros(1), log_weights[None, None, :], slopes[None, None, :], log_z0
        )
    # Exact samples for one draw, by the probabilities of the columns.
    columns = -precise_free_energy(machine, sp.eye_array(n_words, format="csr"))
    log_z1 = float(log_sum_exp(columns))
    rows = np.broadcast_to(np.exp(columns - log_z1), (_RUNS * n_chains, n_words))
    X = rng.multinomial(np.ones(_RUNS * n_chains), rows)
    hidden = Gibbs().state_at(machine, X, rng).layers[1]
    points = [(1, np.full(_RUNS * n_chains, log_z1), slopes_of(hidden))]
    while points[-1][0] < longest:
        length, log_weights, slopes = points[-1]
        step = max(1, int(_SPREAD / max(float(np.std(slopes)), 1e-9)))
        step = min(step, length)  # samples of few draws say little of many
        log_weights, length = log_weights + step * slopes, length + step
        index, log_weights = resampled_index(log_weights, rng, _RESAMPLED, _RUNS)
        hidden = hidden if index is None else take_rows(hidden, index)
        hidden = _swept(machine, rng, length, hidden)
        points.append((length, log_weights, slopes_of(hidden)))
    lengths, *parts = (np.array(part) for part in zip(*points, strict=True))
    by_run = (part.reshape(len(points), _RUNS, n_chains) for part in parts)
    return LengthPartitions(lengths, *by_run, log_z0)


def _swept(machine, rng, length, hidden):
    """Return hidden values after a draw of each unit given the others, visible units summed out."""
    W, b, c = machine.weights[0], machine.thetas[0].field, machine.thetas[1].field
    field, hidden = b + hidden @ W, hidden.copy()
    words = np.exp(field - field.max(axis=1, keepdims=True))
    totals, noise = words.sum(axis=1), rng.uniform(hidden.shape)
    for j, own in enumerate(W):
        factors = np.exp(np.stack([own, -own], axis=1))  # of words, if the unit turns on or off
        is_on = hidden[:, j].astype(int)
        others = np.take_along_axis(words @ factors, is_on[:, None], axis=1)[:, 0]
        gain = length * np.log(others / totals) + c[j] * (1 - 2 * is_on)
        moved = np.flatnonzero(noise[:, j] < sigmoid(gain))
        words[moved] *= factors.T[is_on[moved]]
        totals[moved], hidden[moved, j] = others[moved], 1 - is_on[moved]
    return hidden
