"""Whether chains of Gibbs sampling mix, and where chains end that do."""

import math

import numpy as np

from ..arrays import namespace, row_blocks, take_rows, to_numpy
from ..machine import uncoupled
from ._annealing import own_bases
from ._gibbs import Gibbs
from ._sampler import autocorrelation_between, draw_visible, sample

N_SWEEPS = 50  # over which the autocorrelation of chains is measured
CORRELATED = 0.8  # autocorrelation over these above which they do not mix
LADDER_STEPS = 40  # of chains from samples of a ladder, which depend little on where they start
N_CHECKED = 100  # chains that show whether chains mix, from each kind of starts
_MOST_WEIGHTS = 2**15  # of a machine for which a ladder is built if they do not mix
_MOST_ELEMENTS = 2**24  # of the visible values of all rungs that are sampled together


def is_small(machine):
    """Whether a ladder may be built for a machine whose chains do not mix."""
    return len(machine.units) == 2 and 0 < math.prod(machine.n_units) <= _MOST_WEIGHTS


def chain_autocorrelation(machine, starts, rng):
    """Return the autocorrelation of Gibbs chains, along the main directions in which they differ.

    They start at visible values ``starts``, and in a small machine also at independent units, for
    other modes.
    """
    sampler, rows = Gibbs(), [starts]
    if is_small(machine):
        bases = (uncoupled(machine, theta) for theta in own_bases(machine))
        rows += [draw_visible(base, rng, N_CHECKED) for base in bases]
    rows = namespace(starts).concat(rows, axis=0)
    begin = sample(sampler, machine, sampler.state_at(machine, rows, rng), rng, N_SWEEPS)
    end = to_numpy(sample(sampler, machine, begin, rng, N_SWEEPS).layers[0])
    begin = to_numpy(begin.layers[0])
    return autocorrelation_between(begin, end)


def some_rows(starts, n):
    """Return ``n`` rows of an array, repeated if it has fewer."""
    return take_rows(starts, np.resize(np.arange(starts.shape[0]), n))


def ends_of(sampler, machine, rng, rows, n_steps, from_ladder=False):
    """Return the visible values where chains of a sampler end.

    They start at ``rows``, or at as many samples of the ladder of :class:`Tempering`.
    """

    def ends(rows):
        rows = sampler.rungs.last(rows.shape[0], rng) if from_ladder else rows
        chains = sampler.state_at(machine, rows, rng)
        return sample(sampler, machine, chains, rng, n_steps).layers[0]

    return by_rungs(ends, sampler, machine, rows)


def by_rungs(function, sampler, machine, *rows):
    """Return ``function(*blocks)`` of blocks of rows, which all rungs of a sampler have, if any."""
    if not sampler.has_rungs:
        return function(*rows)
    size = max(1, _MOST_ELEMENTS // (len(sampler.machines(machine)) * machine.n_units[0]))
    blocks = zip(*(row_blocks(part, size) for part in rows), strict=True)
    return namespace(rows[0]).concat([function(*block) for block in blocks], axis=0)
