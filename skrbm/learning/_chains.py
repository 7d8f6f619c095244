"""Model phases by Markov chains: where the chains start, and which of their states are used."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..arrays import (
    cast,
    dense,
    is_foreign,
    is_sparse,
    joined_rows,
    like,
    namespace,
    number,
)
from ..inference import (
    Chains,
    Sampler,
    anneal,
    completed,
    draw_visible,
    last_visible,
    sample,
    some_rows,
)
from ..machine import Block, Moments, condition, data_moments, may_lack_integral, uncoupled
from ._length import StepLength
from ._model_phase import ModelPhase

_COMPLETION = 5  # sweeps that draw missing values given the observed ones
_ANNEALED = 100  # fewest chains that are annealed together, as resampling among few is biased
FEW_ROWS = 256  # that stand for all data where using all would take much memory or time
BURN_IN = 30  # sweeps before samples are taken, if chains come from another machine
_WIDE = 2**17  # columns above which batches and chains have at most _MOST_VALUES values
_MOST_VALUES = 2**23

GRADIENTS = "marginal", "joint"
"""Whether moments use the expectation of the hidden units given the visible ones (Alg. 4 of Liao et
al. 2022), or a draw (Alg. 3), which has more noise and the same mean."""


def most_rows(n_columns):
    """Return the largest number of dense rows in a batch, and of chains."""
    return math.inf if n_columns <= _WIDE else max(1, _MOST_VALUES // n_columns)


class Noise(NamedTuple):
    """Normal noise at which chains start: mean and standard deviation of each visible unit."""

    mean: Any
    scale: Any


class Run(NamedTuple):
    """State in learning: the chains where they ended, and how the last run went.

    ``acceptance`` is the mean rate of the last run, or None for samplers that accept everything.
    ``more`` is any further state of balanced, tempered and weighted chains.
    """

    chains: Any
    acceptance: float | None = None
    more: Any = None


@dataclass(frozen=True)
class ChainPhase(ModelPhase):
    """Moments of the machine by persistent Markov chains, which continue where they last ended.

    Subclasses start their chains elsewhere, or carry more state from batch to batch.

    Parameters
    ----------
    sampler : Sampler
    gradient : {"marginal", "joint"}, default="marginal"
        Whether moments are computed with expected hidden units or with draws of them.
    noise : Noise or None, default=None
        Noise at which chains start; with None they start at draws of the visible units without
        couplings.
    at_rows : bool, default=False
        Whether persistent, balanced and weighted chains start at rows of the data instead. If the
        machine has been trained before, these have its modes in the right proportions.
    """

    sampler: Sampler
    gradient: str = "marginal"
    noise: Noise | None = None
    at_rows: bool = False

    start = "persistent"
    samples_model = True
    are_continued = True  # whether chains start where those of the step before have ended
    divergence = None  # largest of a step, in nats; None for the default of all phases
    n_by_default = None  # number of chains; None for as many as a batch has rows

    @property
    def n_states(self):
        return self.n_by_default if self.sampler.n_chains is None else self.sampler.n_chains

    @property
    def remedies(self):
        return {"inference": f"inference={type(self.sampler).__name__}(start='tempered')"}

    @property
    def kind(self):
        return type(self), type(self.sampler)

    def noise_rows(self, machine, rng, n):
        """Return ``n`` rows of noise, where chains start or annealing does."""
        if self.noise is None:
            return draw_visible(machine, rng, n)
        return self.noise.mean + self.noise.scale * rng.normal((n, machine.n_units[0]))

    def chains_at(self, machine, sampler, rows, n_steps, rng):
        """Return the chains of a run of ``n_steps`` that starts at rows of noise."""
        return sampler.state_at(machine, rows, rng)

    def init(self, machine, rng, n, X):
        self.sampler.check(machine)
        machine = machine.of_rows(X, n)
        rows, more = self._first(machine, rng, n, X)
        return Run(self.sampler.state_at(machine, rows, rng), more=more)

    def _first(self, machine, rng, n, X):
        """Return the visible values of the first chains, and any further state."""
        return some_rows(X, n) if self.at_rows else self.noise_rows(machine, rng, n), None

    def reviewed(self, machine, state, X, rng):
        """Return the state from which a batch X starts, for the machine after the last step."""
        return state

    def _chains(self, machine, state, X, rng):
        """Return the chains of the run for a batch X."""
        return self.sampler.resumed(machine, state.chains)

    def phases(self, machine, state, X, rng):
        state, is_marginal = self.reviewed(machine, state, X, rng), self.gradient == "marginal"
        n_steps, burn_in = self.sampler.n_steps, self.sampler.burn_in
        n_left_out = n_steps - 1 if burn_in is None else burn_in
        can_share = self._shared_phases is not None and self.sampler.ends_with_hidden_draw(machine)
        if is_marginal and can_share and n_left_out == n_steps - 1:
            return self._shared_phases(machine, state, X, rng)
        if is_marginal:
            data = data_moments(machine, X)
        else:
            data = _drawn_moments(X, machine.units[1].sample(condition(machine, X), rng))
        rates, model = [], None

        def count(step, state, info):
            nonlocal model
            if "acceptance" in info:
                rates.append(info["acceptance"])
            if step <= n_left_out:
                return
            now, before = self._moments(machine, state), model
            if before is not None and before.blocks:
                before = before.reduced(machine)
            model = now if before is None else before.increased(machine, now)

        chains = self._chains(machine, state, X, rng)
        chains = sample(self.sampler, machine, chains, rng, n_steps, callback=count)
        rates = [number(namespace(rate).mean(rate)) for rate in rates]
        acceptance = sum(rates) / len(rates) if rates else None
        state = state._replace(chains=chains, acceptance=acceptance)
        if n_steps - n_left_out > 1:
            model = model.scaled(1.0 / (n_steps - n_left_out))
        weights = self.weights(state)
        if weights is not None:  # of the rows where the chains have ended
            theta = condition(machine, chains.layers[0])
            state = self._at(machine, state, theta, slice(None))
            model = self._moments(machine, chains)
            model = Moments((model.blocks[0].weighed(cast(weights, X.dtype)),))
        return state, data, model

    def _moments(self, machine, chains):
        """Return the moments of chains, with expected or with drawn hidden units."""
        if self.gradient == "marginal":
            return self.sampler.moments(machine, chains)
        return _drawn_moments(*chains.layers)

    def _shared_phases(self, machine, state, X, rng):
        """Return the phases of block Gibbs sampling, with one product for both.

        Data rows and chain rows are one block, with different weights for data and for the machine,
        and their difference is a single product too. The last draw of the hidden units is not made
        by the run, since the moments are computed from its conditional distribution.
        """
        chains = state.chains
        n, m = X.shape[0], chains.layers[0].shape[0]
        steps = self.sampler.n_steps
        machine_of_chains, sparse = machine.of_rows(X, m), is_sparse(X)
        visible = last_visible(self.sampler, machine_of_chains, chains, rng, steps, sparse)
        rows = joined_rows([X, visible])
        theta, weights = condition(machine, rows), self.weights(state)
        for_data, for_model = _weights_of_phases(X, n, m)
        if weights is not None:
            for_model = namespace(X).concat([for_model[:n], cast(weights, X.dtype)])
        data = data_moments(machine, rows, for_data, given=theta)
        (block,) = data.blocks
        drawn = machine.units[1].sample_rows(theta, block.means[1], slice(n, n + m), rng)
        state = Run(Chains((visible, drawn)), state.acceptance, state.more)
        state = self._at(machine, state, theta, slice(n, n + m))
        return state, data, Moments((block.weighed(for_model),))

    def _at(self, machine, state, theta, rows):
        """Return the state, given parameters of hidden units; those at ``rows`` are the chains'."""
        return state

    def advance(self, machine, state, X, rng):
        state = self.reviewed(machine, state, X, rng)
        chains = self._chains(machine, state, X, rng)
        return state._replace(
            chains=sample(self.sampler, machine, chains, rng, self.sampler.n_steps)
        )

    def incomplete_phases(self, machine, state, X, observed, rng):
        """Return the phases of a batch whose missing entries are drawn, given the observed ones.

        A draw in place of the expectation adds noise to the gradient, but no bias, as far as the
        sweeps have reached the distribution.
        """
        X = completed(machine, X, observed, rng, _COMPLETION)
        return self.phases(machine, state, X, rng)

    def visible(self, state):
        return dense(state.chains.layers[0])

    def samples(self, state):
        return state.chains.layers[0]

    def step_length(self, machine):
        rule = StepLength.of_chains(machine.units, machine.n_units[0], self.are_continued)
        if self.divergence is not None:
            rule = replace(rule, divergence=self.divergence)
        every = 1 if may_lack_integral(machine.units) else rule.every
        return replace(rule, every=every)

    def report(self, state):
        return {} if state.acceptance is None else {"acceptance": state.acceptance}


@dataclass(frozen=True)
class FollowingPhase(ChainPhase):
    """Persistent chains that are compared with each other as the machine moves."""

    for_ranks = False
    one_hidden_layer = True  # else there is no formula for the free energies that they compare
    are_continued = False  # they are resampled on the way
    divergence = 0.1  # nats; after a larger step chains could no longer be compared
    n_by_default = 400  # fewer may all end up in one mode


@dataclass(frozen=True)
class NoisePhase(ChainPhase):
    """Chains that start at noise for each batch (modified CD, Alg. 3 of Liao et al. 2022)."""

    start = "noise"
    are_continued = False
    _shared_phases = None

    def _chains(self, machine, state, X, rng):
        n = X.shape[0] if self.n_states is None else self.n_states
        rows = self.noise_rows(machine, rng, n)
        return self.chains_at(machine, self.sampler, rows, self.sampler.n_steps, rng)


@dataclass(frozen=True)
class AnnealedPhase(NoisePhase):
    """Chains that start at noise and are annealed to the machine."""

    start = "annealed"

    def noise_rows(self, machine, rng, n):
        return draw_visible(noisy_base(machine, self.noise), rng, n)

    def chains_at(self, machine, sampler, rows, n_steps, rng):
        """Return chains that move from rows of noise to the machine in ``n_steps`` temperatures.

        At each temperature, rows are resampled by importance weight and take one sampler step
        (sequential Monte Carlo; Neal 2001, with resampling in place of weights), so that the
        weights of modes follow the machine and not the basins into which the noise falls.
        """
        base, n = noisy_base(machine, self.noise), rows.shape[0]
        more = draw_visible(base, rng, max(0, _ANNEALED - n))
        rows = namespace(rows).concat([rows, more], axis=0)
        betas = [k / n_steps for k in range(n_steps + 1)]
        ends = anneal(machine, base, betas, (rows, None), rng, sampler=sampler, resample=1.0)
        rows = ends.layers[0]
        if n < _ANNEALED:
            rows = namespace(rows).take(rows, rng.permutation(_ANNEALED)[:n], axis=0)
        return sampler.state_at(machine, rows, rng)


@dataclass(frozen=True)
class DataPhase(ChainPhase):
    """Chains that start at the rows of the batch (contrastive divergence)."""

    start = "data"
    are_continued = False

    def _chains(self, machine, state, X, rng):
        return self.sampler.state_at(machine, X, rng)

    def _shared_phases(self, machine, state, X, rng):
        """Return the phases; the chains start with the hidden units of the data."""
        theta = condition(machine, X)
        data = data_moments(machine, X, given=theta)
        hidden, rows = data.blocks[0].means[1], slice(0, X.shape[0])
        drawn = machine.units[1].sample_rows(theta, hidden, rows, rng)
        steps = self.sampler.n_steps
        chains, sparse = Chains((X, drawn)), is_sparse(X)
        visible = last_visible(self.sampler, machine, chains, rng, steps, sparse)
        state = Run(Chains((visible, drawn)), state.acceptance, state.more)
        return state, data, data_moments(machine, visible)


def _drawn_moments(X, hidden):
    """Return the moments of rows with drawn hidden units."""
    return Moments((Block((X, hidden), (None, None), 1.0 / X.shape[0]),))


def _weights_of_phases(X, n, m):
    """Return weights for moments of data and of chains, given n rows of data and m of chains."""
    if not is_foreign(X):
        return _numpy_weights(n, m, X.dtype)
    xp = namespace(X)
    place = xp.arange(n + m, device=like(X)["device"])
    is_data = cast(place < n, X.dtype)
    return is_data / n, (1 - is_data) / m


@lru_cache(maxsize=16)
def _numpy_weights(n, m, dtype):
    is_data = np.repeat(np.array([1, 0], dtype), (n, m))
    return is_data / n, (1 - is_data) / m


def noisy_base(machine, noise):
    """Return independent units with the law of the noise; without noise, the visible units' own."""
    own = machine.thetas[0]
    if noise is None:
        return uncoupled(machine)
    xp, none = namespace(own.field), noise.scale <= 0
    precision = 1 / xp.where(none, xp.ones_like(noise.scale), noise.scale) ** 2
    precision = xp.minimum(precision, own.precision)  # as wide as the machine, at least
    field = xp.where(none, own.field, noise.mean * precision)
    return uncoupled(
        machine, own._replace(field=field, precision=xp.where(none, own.precision, precision))
    )
