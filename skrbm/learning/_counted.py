"""Persistent chains of rows of counts, which exchange their hidden values between totals.

Given a long row of counts the hidden values hardly move, so that a chain of many draws stays in its
mode, and learning does not see how much weight the other modes have: their log weights are
proportional to the number of draws, and a small error is hundreds of nats. With the counts summed
out, hidden values h have the weight w(h) exp(D g(h)) for D draws, where g is the log-partition
function of one draw (see :mod:`skrbm.evaluation._lengths`). The number of draws is thus an inverse
temperature, and two chains exchange their hidden values by the rule of parallel tempering, which
needs only their g. Additional chains, which do not count in the moments, lead down to no draws,
where hidden units are independent.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..arrays import cast, from_numpy, log_sum_exp, namespace, to_numpy
from ..machine import condition, conditional
from ..units import Multinomial
from ._chains import ChainPhase, DataPhase

_RATIO = 1.25  # between the numbers of draws of additional chains
_ROUNDS = 10  # of exchanges proposed between neighbours, per batch


class Bridge(NamedTuple):
    """Additional chains, from no draws up to as many as the longest chain, ordered by length."""

    hidden: Any
    lengths: Any


@dataclass(frozen=True)
class CountedPhase(ChainPhase):
    """Persistent chains of :class:`~skrbm.units.Multinomial` rows, which exchange hidden values."""

    one_hidden_layer = True

    @property
    def remedies(self):
        return {"n_components": "more hidden units", "inference": "inference=Gibbs(n_steps=5)"}

    def _first(self, machine, rng, n, X):
        rows, _ = super()._first(machine, rng, n, X)
        longest, lengths = to_numpy(machine.units[0].totals(rows)).max(), [0.0, 1.0]
        while lengths[-1] < longest:
            lengths.append(max(lengths[-1] + 1, np.rint(_RATIO * lengths[-1])))
        lengths = cast(from_numpy(np.array(lengths), rows), rows.dtype)
        field = machine.thetas[0].field + 0 * lengths[:, None]
        hidden = _hidden_given(machine, field, lengths, rng)
        return rows, Bridge(hidden, lengths)

    def reviewed(self, machine, state, X, rng):
        (rows, hidden), bridge = state.chains.layers, state.more
        xp, n = namespace(rows), rows.shape[0]
        lengths = xp.concat([machine.units[0].totals(rows), bridge.lengths], axis=0)
        hidden = xp.concat([hidden, bridge.hidden], axis=0)
        field = conditional(machine, 0, (None, hidden)).field
        index = exchanged(lengths, log_sum_exp(field), rng)
        hidden = xp.take(hidden, index[:n], axis=0)
        field = xp.take(field, index[n:], axis=0)
        bridge = bridge._replace(hidden=_hidden_given(machine, field, bridge.lengths, rng))
        chains = state.chains._replace(layers=(rows, hidden))
        return state._replace(chains=chains, more=bridge)


@dataclass(frozen=True)
class CountedDataPhase(DataPhase):
    """Chains of counts that start at the rows of the batch."""

    @property
    def remedies(self):
        return {"inference": "inference='gibbs'"}


def _hidden_given(machine, field, lengths, rng):
    """Return draws of the hidden units given draws of the counts."""
    rows = Multinomial(lengths).sample(machine.thetas[0]._replace(field=field), rng)
    return machine.units[1].sample(condition(machine, rows), rng)


def exchanged(lengths, slopes, rng):
    """Return the index of the chain whose values each chain receives by exchanges of neighbours.

    ``lengths`` and ``slopes`` are D and g of chains whose values h have the weight w(h) exp(D
    g(h)).
    """
    xp, n = namespace(lengths), lengths.shape[0]
    order = xp.argsort(lengths)  # each time, since chains take on the lengths of the batch
    lengths, slopes = (xp.take(cast(part, xp.float64), order) for part in (lengths, slopes))
    places = xp.asarray(order, copy=True)
    log_noise = xp.log(cast(rng.uniform((_ROUNDS, n)), lengths.dtype))
    for round_ in range(_ROUNDS):
        start = round_ % 2
        low, high = slice(start, n - 1, 2), slice(start + 1, n, 2)
        gain = (lengths[high] - lengths[low]) * (slopes[low] - slopes[high])
        swaps = log_noise[round_, low] < gain
        for part in (slopes, places):
            part[low], part[high] = (
                xp.where(swaps, part[high], part[low]),
                xp.where(swaps, part[low], part[high]),
            )
    return xp.take(places, xp.argsort(order))
