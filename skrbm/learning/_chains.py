"""Model phases by Markov chains: where the chains start, and which of their moments count."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..arrays import cast, like, namespace, to_numpy
from ..inference import Chains, Sampler, completed, last_visible, sample
from ..machine import Moments, condition, data_moments, may_lack_integral
from ._length import StepLength
from ._model_phase import ModelPhase
from ._run_moments import RunMoments, moments_of
from ._starts import AnnealedStart, DataStart, Noise, NoiseStart, PersistentStart
from ._tempered import Tempered, TemperedStart, ladder_to
from ._weighted import Weighted, WeightedStart

_COMPLETION = 5  # sweeps that draw missing values given the observed ones
N_SWEEPS = 50  # over which the autocorrelation of chains is measured,
_DIRECTIONS = 8  # along so many principal directions of the data
_MEANS = {}  # row weights of batches, which have few sizes
_N_MEANS = 8  # at most


class Run(NamedTuple):
    """State in learning: the chains where they ended, and how the last run went.

    ``acceptance`` is the mean rate of the last run, None for samplers that accept all.
    ``tempered`` is what tempered chains exchange with, and ``weighted`` has the importance weights
    of weighted ones.
    """

    chains: Any
    acceptance: float | None = None
    tempered: Tempered | None = None
    weighted: Weighted | None = None


def _expected(unit, theta, draw):
    theta = theta()
    return *unit.moments(theta), unit.further(theta)


def _drawn(unit, theta, draw):
    return draw(), None, None


GRADIENTS = {"marginal": _expected, "joint": _drawn}
"""What stands for the hidden units in the moments: their expectation given the visible ones
(Alg. 4 of Liao et al. 2022), or a draw (Alg. 3), which has more noise and the same mean.

Functions that return means, variances and further statistics, None where these are not needed."""


CHAINS = {
    "noise": NoiseStart(),
    "annealed": AnnealedStart(),
    "data": DataStart(),
    "persistent": PersistentStart(),
    "tempered": TemperedStart(),
    "weighted": WeightedStart(),
}
"""Where chains start in learning, by name."""


def remaining(begin, end, rows):
    """Return the autocorrelation of chains from one step to another, a float.

    It is the largest one along the first eight principal directions of data: 1 less the variance of
    the displacement of the chains, over twice the variance of the data.

    Parameters
    ----------
    begin, end : ndarray of shape (n_chains, n_visible)
    rows : ndarray of shape (n_rows, n_visible)
        The data.
    """
    rows = rows - rows.mean(axis=0, dtype=np.float64)
    _, deviations, directions = np.linalg.svd(rows, full_matrices=False)
    moved = (end - begin) @ directions[:_DIRECTIONS].T
    variances = deviations[:_DIRECTIONS] ** 2 / rows.shape[0]
    return 1.0 - float((np.var(moved, axis=0) / (2 * variances + 1e-300)).min())


@dataclass(frozen=True)
class ChainPhase(ModelPhase):
    """Moments of the machine by Markov chains.

    Parameters
    ----------
    sampler : Sampler
    start : {"persistent", "data", "noise", "annealed", "tempered", "weighted"}, \
            default="persistent"
        Where the chains start for each batch: where they ended (persistent contrastive divergence);
        at the rows of the batch (contrastive divergence); at noise (modified contrastive
        divergence, Alg. 3 of Liao et al. 2022); at noise that is annealed to the machine; where
        they ended, after exchanges with samples of earlier machines (parallel trajectory
        tempering); or where they ended, with importance weights.
    gradient : {"marginal", "joint"}, default="marginal"
        Whether the expected hidden units count or draws of them.
    noise : Noise or None, default=None
        Where chains start; None: at draws of the visible units without couplings.
    """

    sampler: Sampler
    start: str = "persistent"
    gradient: str = "marginal"
    noise: Noise | None = None

    @property
    def for_ranks(self):
        return CHAINS[self.start].for_ranks

    @property
    def one_hidden_layer(self):
        return CHAINS[self.start].one_hidden_layer

    samples_model = True

    @property
    def may_not_mix(self):
        return self.start == "persistent" and not self.sampler.has_rungs

    @property
    def n_states(self):
        n_chains = self.sampler.n_chains
        return CHAINS[self.start].n_chains if n_chains is None else n_chains

    @property
    def remedy(self):
        return CHAINS[self.start].remedy

    @property
    def kind(self):
        return type(self), self.start, type(self.sampler)

    @property
    def n_steps(self):
        """Steps of each run."""
        return self.sampler.n_steps

    @property
    def _n_left_out(self):
        burn_in = self.sampler.burn_in
        return self.n_steps - 1 if burn_in is None else burn_in

    def init(self, machine, rng, n, X):
        self.sampler.check(machine)
        machine = machine.of_rows(X, n)
        rows, more = CHAINS[self.start].first(self, machine, rng, n)
        chains = self.sampler.state_at(machine, rows, rng)
        return Run(chains, **more)

    def reviewed(self, machine, state, rng):
        return CHAINS[self.start].reviewed(self, machine, state, rng)

    def autocorrelation(self, machine, state, rows, rng):
        """Return the autocorrelation of the chains over 50 sweeps, as ``remaining`` does.

        Parameters
        ----------
        machine : Machine
        state : Run
        rows : array of shape (n_rows, n_visible)
            Visible values of data.
        rng : Rng
        """
        ends = sample(self.sampler, machine, state.chains, rng, N_SWEEPS)
        return remaining(to_numpy(state.chains.layers[0]), to_numpy(ends.layers[0]), to_numpy(rows))

    def noise_rows(self, machine, rng, n):
        """Return ``n`` rows of noise, where chains start or annealing does."""
        return CHAINS[self.start].rows(self, machine, rng, n)

    def started(self, machine, sampler, rows, rng):
        """Return the chains that start at rows of noise."""
        return CHAINS[self.start].started(self, machine, sampler, rows, rng)

    def phases(self, machine, state, X, rng):
        if self._shares_product(machine):
            return _PHASES[self.start, self.gradient](self, machine, state, X, rng)
        sampler, hidden = self.sampler, machine.units[1]
        theta = condition(machine, X)
        moments = GRADIENTS[self.gradient]
        data = moments_of(X, moments(hidden, lambda: theta, lambda: hidden.sample(theta, rng)))
        total = RunMoments(machine, sampler, moments, self._n_left_out)
        chains = CHAINS[self.start].chains(self, machine, sampler, state, X, rng)
        chains = sample(sampler, machine, chains, rng, self.n_steps, callback=total.count)
        state = state._replace(chains=chains, acceptance=total.acceptance())
        model = total.moments()
        if state.weighted is not None:
            theta = condition(machine, chains.layers[0])
            state = state._replace(weighted=state.weighted.at(machine, chains.layers[0], theta))
            above = moments(hidden, lambda: theta, lambda: chains.layers[1])
            (block,) = moments_of(chains.layers[0], above).blocks
            model = Moments((block.weighed(cast(self.weights(state), X.dtype)),))
        return state, data, model

    def advance(self, machine, state, X, rng):
        chains = CHAINS[self.start].chains(self, machine, self.sampler, state, X, rng)
        return state._replace(chains=sample(self.sampler, machine, chains, rng, self.n_steps))

    def incomplete_phases(self, machine, state, X, observed, rng):
        """Return the phases of a batch whose missing entries are drawn, given the observed ones.

        A draw in place of the expectation adds noise to the gradient, but no bias as far as the
        sweeps have come to the distribution.
        """
        X = completed(machine, X, observed, rng, _COMPLETION)
        return self.phases(machine, state, X, rng)

    def _shares_product(self, machine):
        """Whether one product serves for the hidden units of both phases, or for two steps."""
        return self._counts_last_step and self.sampler.ends_with_hidden_draw(machine)

    @cached_property
    def _counts_last_step(self):
        """Whether the last step of a run alone counts, and there is a function for both phases."""
        return (self.start, self.gradient) in _PHASES and self._n_left_out == self.n_steps - 1

    def has_noise_of(self, before):
        noise = getattr(before, "noise", None)
        if self.noise is None or noise is None:
            return self.noise is noise
        return self.noise.is_as(noise)

    def visible(self, state):
        rows = state.chains.layers[0]
        return rows if state.weighted is None else state.weighted.resampled(rows)

    def samples(self, state, X):
        return state.chains.layers[0]

    def weights(self, state):
        return None if state.weighted is None else state.weighted.weights()

    def step_length(self, machine):
        start, rule = CHAINS[self.start], StepLength.of_chains(machine.units, machine.n_units[0])
        if start.divergence is not None:
            rule = replace(rule, divergence=start.divergence)
        return replace(
            rule, every=1 if may_lack_integral(machine.units) else min(rule.every, start.every)
        )

    def ladder(self, machine, state):
        if state.tempered is None:
            return None
        return ladder_to(machine, state.chains.layers[0], state.tempered)

    def report(self, state):
        report = {} if state.tempered is None else state.tempered.report()
        if state.acceptance is None:
            return report
        return report | {"acceptance": state.acceptance}


# Both phases of block Gibbs sampling. The last draw of the hidden units is left to them, since its
# conditional is what the moments are made of.


def _persistent_phases(phase, machine, state, X, rng):
    """Data rows and chain rows are one block, with other weights for data and for the machine.

    So they share the product with the weights, and their difference is one product too.
    """
    chains = state.chains
    n, m = X.shape[0], chains.layers[0].shape[0]
    of_chains = machine.of_rows(X, m)
    visible = last_visible(phase.sampler, of_chains, chains, rng, phase.n_steps)
    rows = namespace(X).concat([X, visible], axis=0)
    theta = condition(machine, rows)
    for_data, for_model = _two_means(n, m, X)
    weights = phase.weights(state)
    if weights is not None:
        xp = namespace(X)
        for_model = xp.concat([xp.zeros_like(X[:, 0]), cast(weights, X.dtype)])
    data = data_moments(machine, rows, for_data, given=theta)
    (block,) = data.blocks
    drawn = machine.units[1].sample_rows(theta, block.means[1], slice(n, n + m), rng)
    state = state._replace(chains=Chains((visible, drawn)))
    if weights is not None:
        at = theta.rows(slice(n, n + m))
        state = state._replace(weighted=state.weighted.at(machine, visible, at))
    return state, data, Moments((block.weighed(for_model),))


def _two_means(n, m, reference):
    """Return row weights of the mean over the first ``n`` of ``n + m`` rows, and over the rest."""
    # Not every library's device has a hash, but all have a name.
    key = n, m, type(reference), reference.dtype, str(reference.device)
    means = _MEANS.get(key)
    if means is None:
        if len(_MEANS) >= _N_MEANS:
            _MEANS.clear()
        xp, options, first = namespace(reference), like(reference), np.arange(n + m) < n
        means = tuple(xp.asarray(part, **options) for part in (first / n, ~first / m))
        _MEANS[key] = means
    return means


def _data_phases(phase, machine, state, X, rng):
    """The hidden units of the data are those that the chains start with."""
    theta = condition(machine, X)
    data = data_moments(machine, X, given=theta)
    hidden, rows = data.blocks[0].means[1], slice(0, X.shape[0])
    drawn = machine.units[1].sample_rows(theta, hidden, rows, rng)
    visible = last_visible(phase.sampler, machine, Chains((X, drawn)), rng, phase.n_steps)
    state = state._replace(chains=Chains((visible, drawn)))
    return state, data, data_moments(machine, visible)


_PHASES = {
    ("persistent", "marginal"): _persistent_phases,
    ("tempered", "marginal"): _persistent_phases,
    ("weighted", "marginal"): _persistent_phases,
    ("data", "marginal"): _data_phases,
}
