"""Persistent chains that are resampled such that the modes have their probabilities.

Chains that do not mix keep the shares of modes that they had in the past, and never see a mode that
learning creates at the data; the likelihood then falls while the moments seem to agree. But within
a mode the chains overlap: the visible values of one are likely given the hidden values of others.
The mean of p(v | h) over the hidden values of all chains is then a proposal with a known density,
whose importance weights show the probabilities of modes relative to the numbers of chains in them
(population Monte Carlo; Cappé et al. 2004, Elvira et al. 2019).
"""

from dataclasses import dataclass, replace
from math import inf
from typing import Any, NamedTuple

from ..arrays import cast, cumulative_sum, dense, is_on_device, like, log_sum_exp, namespace
from ..inference import sample, some_rows
from ..machine import condition, input_field, turned_over
from ._chains import ChainPhase, most_rows

_STARTS, _SWEEPS = 16, 3  # chains from each kind of starts that are proposed, and their sweeps
# Mean share of the other chains in proposals below which weights say little. Above it chains are in
# few modes, and steps of bits are short, since long ones may move all chains to a single mode.
_OVERLAP = 0.6
_BIT, _CATEGORY = 0.02, 0.0075  # divergence of a short step, in nats per bit or categorical column
_EQUAL = 0.75  # effective part of the chains above which they are not resampled
_SMOOTHINGS = 2  # averages of weights over the rows of a mode
_INTERVAL = 16  # most steps from one comparison to the next, after 1, 2, 4, ...
_MOST = 256  # chains that are compared, in a time that grows with their square


class Balance(NamedTuple):
    """What the last comparison has found; the next one is in ``n_steps``, of ``interval``.

    ``divergence`` is that of a short step.
    """

    overlap: float = 1.0
    divergence: float = 0.0
    n_steps: int = 1
    interval: int = 1


@dataclass(frozen=True)
class BalancedPhase(ChainPhase):
    """Persistent chains, resampled with chains from data and elsewhere by importance weight.

    Where the chains mix, they overlap little or have equal weights, and are left as they are. They
    are never compared on a device, where steps do not wait for numbers, nor where rows are so wide
    that there are few chains.
    """

    start = "balanced"
    n_least = 100  # fewer hardly show how probable modes are
    for_ranks = False
    one_hidden_layer = True

    def reviewed(self, machine, state, X, rng):
        """Return the state with resampled chains, if this is due and they are out of balance."""
        balance, hidden = state.more, state.chains.layers[1]
        if is_on_device(hidden) or most_rows(machine.n_units[0]) < self.n_least:
            return state
        if balance is None:
            unit, n = machine.units[0], machine.n_units[0]
            is_free = unit.reach == inf  # the cap of steps of numbers is short enough
            sites = [_BIT if len(site) == 1 else _CATEGORY for site in unit.groups(n)]
            balance = Balance(divergence=inf if is_free else sum(sites))
        if balance.n_steps > 1:
            return state._replace(more=balance._replace(n_steps=balance.n_steps - 1))
        overlap, rows = self._balanced(machine, hidden, X, rng)
        interval = min(2 * balance.interval, _INTERVAL)
        if rows is not None:
            chains = self.sampler.state_at(machine, rows, rng)
            state, interval = state._replace(chains=chains), 1
        balance = balance._replace(overlap=overlap, n_steps=interval, interval=interval)
        return state._replace(more=balance)

    def current_rule(self, rule, state):
        balance = state.more
        if balance is None or balance.overlap < _OVERLAP:
            return rule
        return replace(rule, divergence=min(rule.divergence, balance.divergence), within=None)

    def _balanced(self, machine, hidden, X, rng):
        """Return the overlap of the chains, and their new visible values, None to keep them."""
        n, upper = hidden.shape[0], turned_over(machine, 1)
        some = hidden[:: -(-n // _MOST), :]  # from all modes, since rows of a mode are adjacent
        proposals = _proposals(machine, upper, some, rng)
        overlap = proposals.overlap()
        if overlap < _OVERLAP:
            return overlap, None
        starts = self._starts(machine, upper, X, rng)
        starts = self.sampler.state_at(machine, starts, rng)
        chains = sample(self.sampler, machine, starts, rng, _SWEEPS)
        more = _proposals(machine, upper, chains.layers[1], rng)
        xp = namespace(hidden)
        both = Proposals(*(xp.concat(parts, axis=0) for parts in zip(proposals, more, strict=True)))
        weights = both.weights()
        own = weights[: proposals.rows.shape[0]]
        total, n_own, n_all = float(xp.sum(own)), own.shape[0], weights.shape[0]
        is_equal = total**2 >= _EQUAL * n_own * float(xp.sum(own * own))
        if is_equal and total >= _EQUAL * n_own / n_all:
            return overlap, None
        points = (xp.arange(n, **like(weights)) + cast(rng.uniform((1,)), weights.dtype)) / n
        index = xp.searchsorted(cumulative_sum(weights), points)
        return overlap, xp.take(both.rows, xp.clip(index, 0, n_all - 1), axis=0)

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
        return namespace(data).concat([data, noise, drawn], axis=0)


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

    def shares(self):
        """Return the share of each h in the mean of p(v | h) at each row, and the log of it."""
        log_p = self.inputs @ self.hidden.T - self.log_partitions
        log_q = log_sum_exp(log_p)
        return namespace(log_p).exp(log_p - log_q[:, None]), log_q

    def overlap(self):
        """Return the mean share of the hidden values from which a row is not drawn, a float."""
        xp, (shares, _) = namespace(self.inputs), self.shares()
        return 1.0 - float(xp.mean(xp.linalg.diagonal(shares)))

    def weights(self):
        """Return the importance weights of the rows as draws from the mean of p(v | h).

        They sum to 1, and are averaged over rows that are likely given the same hidden values,
        which are the rows of a mode.
        """
        shares, log_q = self.shares()
        weights = self.log_weights - log_q
        weights = namespace(weights).exp(weights - log_sum_exp(weights))
        for _ in range(_SMOOTHINGS):
            weights = shares @ weights
        return weights / namespace(weights).sum(weights)


def _proposals(machine, upper, hidden, rng):
    """Draw the visible values of rows of hidden values; ``upper`` is the machine turned over."""
    visible, above = machine.units
    theta = condition(upper, hidden)
    rows = visible.sample(theta, rng)
    inputs = input_field(machine, 1, (rows, None))
    own = above.total_log_partition(above.tilt(machine.thetas[1], inputs))
    double = (cast(part, own.dtype) for part in (hidden, inputs))
    return Proposals(rows, *double, own, visible.total_log_partition(theta))
