"""Samplers: their contract, the function that runs them, and what they share."""

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from .._checks import check_count, look_up, unwritten
from ..arrays import cast, joined_rows, like, main_directions, namespace, row_blocks
from ..machine import conditional, data_moments
from ._needs import InferenceMethod

_BLOCK_ELEMENTS = 2**21  # visible values that are drawn together
_DIRECTIONS = 8  # along which the autocorrelation of chains is measured


class Chains(NamedTuple):
    """State of a sampler: the values of each layer, with one chain in each row."""

    layers: tuple


CHAIN_STARTS = ("persistent", "balanced", "weighted", "tempered", "data", "noise", "annealed")
"""Where chains start for each batch in learning."""


@dataclass(frozen=True)
class Sampler(InferenceMethod):
    """Inference by Markov chains.

    Subclasses are frozen dataclasses that implement ``state_at`` and ``step``.

    Parameters
    ----------
    n_steps : int, default=1
        Number of steps per mini-batch in training.
    n_chains : int or None, default=None
        Number of chains in training. None is 400 for "weighted" and "tempered" chains, and
        otherwise ``batch_size`` of the estimator, or the number of rows if that is smaller, but at
        least 100 for "balanced" chains. With ``start="data"`` there is one chain for each row of
        the batch.
    start : {"persistent", "balanced", "weighted", "tempered", "data", "noise", "annealed"} or \
            None, default=None
        Where the chains start for each mini-batch in training. "persistent": where they last ended
        (persistent contrastive divergence). "balanced": the same, but chains that stay in their
        modes are resampled together with new ones from data and noise, so that the modes get the
        right probabilities; on a GPU they are not resampled. "weighted": with importance weights
        that are updated as the model changes, so that modes get the right probabilities even if
        the chains do not mix. "tempered": where they last ended, after exchanges with samples of
        earlier models of the same training (parallel trajectory tempering). "data": at the rows of
        the batch (contrastive divergence). "noise": at draws of the visible units without
        couplings. "annealed": at such draws, annealed to the model over ``n_steps`` temperatures.
        None lets the estimator choose.
    burn_in : int or None, default=None
        Number of steps per mini-batch that are discarded. Moments are averaged over the remaining
        steps; with None, only the last step is used.

    Attributes
    ----------
    has_rungs : bool
        Whether chains use a ladder; see :class:`Tempering`.
    has_samples : bool
        Whether ``rungs`` is a :class:`Ladder`, which has samples.
    """

    has_rungs: ClassVar = False
    has_samples: ClassVar = False
    step_size: ClassVar = None

    n_steps: int = field(default=1, kw_only=True)
    n_chains: int | None = field(default=None, kw_only=True)
    start: str | None = field(default=None, kw_only=True)
    burn_in: int | None = field(default=None, kw_only=True)

    def __post_init__(self):
        check_count("n_steps", self.n_steps, 1)
        check_count("n_chains", self.n_chains, 1, or_none=True)
        check_count("burn_in", self.burn_in, 0, or_none=True)
        if self.start is not None:
            look_up("start", self.start, dict.fromkeys(CHAIN_STARTS))
        if self.burn_in is not None and self.burn_in >= self.n_steps:
            raise ValueError(f"burn_in={self.burn_in} must be smaller than n_steps={self.n_steps}")

    def at(self, step, n_steps):
        """Return the sampler for one step, counted from 0, of a run of ``n_steps``."""
        return self

    def given(self, X, observed):
        """Return the sampler for a machine whose visible units are clamped where ``observed``."""
        return self

    def tilted(self, field, precision=None):
        """Return the sampler for a machine whose visible units are tilted, each row by its own."""
        return self

    def init(self, machine, rng, n):
        """Return ``n`` chains that start at independent draws of the visible units."""
        return self.state_at(machine, draw_visible(machine, rng, n), rng)

    def state_at(self, machine, X, rng, given=None):
        """Return chains whose visible values are X.

        ``given`` are the parameters of the first hidden layer given X, if they are known already.
        """
        raise unwritten(self, "state_at")

    def resumed(self, machine, state):
        """Return the state of the chains in a machine whose parameters have changed."""
        return state

    def ends_with_hidden_draw(self, machine):
        """Whether a step ends with a draw of the hidden units from their exact conditional.

        Learning can then omit the last draw, and share the product behind the conditional.
        """
        return False

    def moments(self, machine, state):
        """Return moments with the expected hidden units given the visible values of a state."""
        return data_moments(machine, state.layers[0])

    def step(self, machine, state, rng):
        """Return the state after one sweep over the layers, and numbers about the sweep.

        The numbers are a dict of arrays with one entry for each row.
        """
        raise unwritten(self, "step")


def sample(method, machine, state, rng, n_steps, *, callback=None):
    """Run ``n_steps`` sweeps of a sampler and return the last state.

    Parameters
    ----------
    method : Sampler
    machine : Machine
    state : NamedTuple
        As ``method.state_at`` returns it.
    rng : Rng
    n_steps : int
    callback : callable, optional
        Called after each sweep as ``callback(step, state, info)``, with steps counted from 1.
    """
    machine = machine.of_rows(state.layers[0])
    for step in range(n_steps):
        state, info = method.at(step, n_steps).step(machine, state, rng)
        if callback is not None:
            callback(step + 1, state, info)
    return state


def last_visible(method, machine, state, rng, n_steps, sparse=False):
    """Return the visible values after ``n_steps`` sweeps, without the last draw of hidden units.

    They may be drawn as a sparse array, if the units can.
    """
    machine = machine.of_rows(state.layers[0])
    if n_steps > 1:
        state = sample(method, machine, state, rng, n_steps - 1)
    if machine.n_rows is not None:
        return machine.units[0].sample(conditional(machine, 0, state.layers), rng)

    def draw(rows):
        unit, theta = machine.units[0], conditional(machine, 0, (None, rows))
        return unit.sample_sparse(theta, rng) if sparse else unit.sample(theta, rng)

    return _by_blocks(draw, state.layers[1], machine.n_units[0])


def draw_visible(machine, rng, n):
    """Return ``n`` draws of the visible units without couplings, (n, n_visible)."""
    W = machine.weights[0]

    def draw(column):
        theta = machine.thetas[0].map_columns(lambda part: part + column)
        return machine.units[0].sample(theta, rng)

    zeros = namespace(W).zeros((n, 1), **like(W))
    return draw(zeros) if machine.n_rows else _by_blocks(draw, zeros, machine.n_units[0])


def _by_blocks(draw, rows, width):
    """Return ``draw(rows)`` of blocks of rows, which has a ``width``, so that little is kept."""
    size = max(1, _BLOCK_ELEMENTS // width)
    if rows.shape[0] <= size:
        return draw(rows)
    return joined_rows([draw(block) for block in row_blocks(rows, size)])


def metropolis(log_ratio, rng):
    """Accept or reject proposals by the rule of Metropolis and Hastings; no if a ratio is NaN.

    ``log_ratio`` is the log of p(new) q(old | new) / (p(old) q(new | old)) in each row. Returns
    whether each is accepted, and the probability of it.
    """
    xp = namespace(log_ratio)
    rate = xp.exp(xp.clip(log_ratio, None, 0.0))
    accepted = cast(rng.uniform(tuple(log_ratio.shape)), log_ratio.dtype) < rate
    return accepted, xp.where(log_ratio == log_ratio, rate, 0.0)


def autocorrelation_between(begin, end):
    """Return the autocorrelation of chains from one step to another, a float.

    It is the largest one along the first eight principal directions in which the chains differ: 1
    less the variance of their displacement over twice their variance.

    Parameters
    ----------
    begin, end : ndarray of shape (n_chains, n_visible)
    """
    directions, _ = main_directions(begin - begin.mean(axis=0, dtype=np.float64), _DIRECTIONS)
    moved, own = (np.var(x @ directions, axis=0) for x in (end - begin, begin))
    return float(np.max(1 - moved / (2 * own + 1e-300), initial=0.0))
