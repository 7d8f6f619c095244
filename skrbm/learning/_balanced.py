"""Persistent chains that are resampled such that the modes have their probabilities.

Chains that do not mix keep the shares of modes that they had in the past, and never see a mode that
learning creates at the data; the likelihood then falls while the moments seem to agree. But within
a mode the chains overlap: the visible values of one are likely given the hidden values of others.
The mean of p(v | h) over the hidden values of all chains is then a proposal with a known density,
whose importance weights show the probabilities of modes relative to the numbers of chains in them
(population Monte Carlo; Cappé et al. 2004, Elvira et al. 2019).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

from ..arrays import cast, dense, is_foreign
from ..inference import sample, some_rows
from ..machine import condition, input_field, turned_over
from ._chains import ChainPhase

_STARTS, _SWEEPS = 32, 3  # chains from each kind of starts that are proposed, and their sweeps
_OVERLAP = 0.1  # mean share of the other chains in proposals below which weights say nothing
_EQUAL = 0.9  # effective part of the chains above which they are not resampled
_SMOOTHINGS = 2  # averages of weights over the rows of a mode
_SOON, _LATE = 2, 32  # steps to the next comparison if chains overlap, and at most if they do not


class Wait(NamedTuple):
    """The next comparison takes place in ``n_steps`` steps, ``interval`` after the last one."""

    n_steps: int = 0
    interval: int = 1


@dataclass(frozen=True)
class BalancedPhase(ChainPhase):
    """Persistent chains, resampled with chains from data and elsewhere by importance weight.

    Where the chains mix, they overlap little or have equal weights, and are left as they are.
    """

    start = "balanced"
    for_ranks = False
    one_hidden_layer = True

    def init(self, machine, rng, n, X):
        if is_foreign(X):
            raise ValueError("balanced chains support NumPy arrays only; use start='weighted'")
        return super().init(machine, rng, n, X)

    def reviewed(self, machine, state, X, rng):
        """Return the state with resampled chains, if this is due and they are out of balance."""
        wait = Wait() if state.more is None else state.more
        if wait.n_steps > 0:
            return state._replace(more=wait._replace(n_steps=wait.n_steps - 1))
        overlap, rows = self._balanced(machine, state.chains.layers[1], X, rng)
        interval = _SOON if overlap >= _OVERLAP else min(2 * wait.interval, _LATE)
        if rows is None:
            return state._replace(more=Wait(interval - 1, interval))
        return state._replace(chains=self.sampler.state_at(machine, rows, rng), more=Wait())

    def _balanced(self, machine, hidden, X, rng):
        """Return the overlap of the chains, and their new visible values, None to keep them."""
        n, upper = hidden.shape[0], turned_over(machine, 1)
        proposals = _proposals(machine, upper, hidden, rng)
        log_p = proposals.log_conditionals()
        overlap = 1.0 - float(np.exp(np.diag(log_p) - logsumexp(log_p, axis=1)).mean())
        if overlap < _OVERLAP:
            return overlap, None
        starts = self._starts(machine, upper, X, rng)
        chains = sample(
            self.sampler, machine, self.sampler.state_at(machine, starts, rng), rng, _SWEEPS
        )
        more = _proposals(machine, upper, chains.layers[1], rng)
        both = Proposals(*map(np.concatenate, zip(proposals, more, strict=True)))
        weights = _weights(both)
        own = weights[:n]
        is_equal = own.sum() ** 2 >= _EQUAL * n * (own @ own)
        if is_equal and own.sum() >= _EQUAL * n / len(weights):
            return overlap, None
        points = (np.arange(n) + float(rng.uniform((1,))[0])) / n
        index = np.searchsorted(np.cumsum(weights), points).clip(max=len(weights) - 1)
        return overlap, both.rows[index]

    def _starts(self, machine, upper, X, rng):
        """Return visible values from which modes without chains may be reached.

        These are rows of data, noise, and draws given random hidden values with various shares of
        the largest one, which lead to modes that combine several features.
        """
        data = cast(dense(some_rows(X, _STARTS)), machine.dtype)
        noise = self.noise_rows(machine, rng, _STARTS)
        field = 2 * rng.normal((_STARTS, 1)) + 0 * machine.thetas[1].field
        drawn = machine.units[1].sample(machine.thetas[1]._replace(field=field), rng)
        drawn = machine.units[0].sample(condition(upper, drawn), rng)
        return np.concatenate([data, noise, drawn])


class Proposals(NamedTuple):
    """Visible values, one drawn from p(v | h) for each row of hidden values, and what they give.

    Up to a part that p(v) and all p(v | h) share, log p(v) = ``log_weights`` - log Z, and
    log p(v | h) = ``inputs`` @ h - ``log_partitions``.
    """

    rows: Any
    hidden: Any
    inputs: Any
    log_weights: Any
    log_partitions: Any

    def log_conditionals(self):
        """Return log p(v_i | h_j), of shape (n_rows, n_rows), up to the shared part."""
        return self.inputs @ self.hidden.T - self.log_partitions


def _proposals(machine, upper, hidden, rng):
    """Draw the visible values of rows of hidden values; ``upper`` is the machine turned over."""
    visible, above = machine.units
    theta = condition(upper, hidden)
    rows = visible.sample(theta, rng)
    inputs = input_field(machine, 1, (rows, None))
    own = above.total_log_partition(above.tilt(machine.thetas[1], inputs))
    double = (part.astype(np.float64) for part in (hidden, inputs))
    return Proposals(rows, *double, own, visible.total_log_partition(theta))


def _weights(proposals):
    """Return the importance weights of proposals as draws from the mean of p(v | h).

    They sum to 1, and are averaged over rows that are likely given the same hidden values, which
    are the rows of a mode.
    """
    log_p = proposals.log_conditionals()
    log_q = logsumexp(log_p, axis=1)
    shares = np.exp(log_p - log_q[:, None])
    weights = softmax(proposals.log_weights - log_q)
    for _ in range(_SMOOTHINGS):
        weights = shares @ weights
    return weights / weights.sum()
