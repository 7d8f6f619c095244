"""Model phases by Markov chains: where the chains start, and which of their moments count."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..arrays import cast, namespace, number, to_numpy
from ..inference import Chains, Sampler, completed, last_visible, map_rows, sample
from ..machine import Block, Moments, condition, data_moments, may_lack_integral
from ._length import StepLength
from ._model_phase import ModelPhase
from ._starts import AnnealedStart, DataStart, Noise, NoiseStart, PersistentStart
from ._tempered import Tempered, TemperedStart, ladder_to
from ._weighted import Weighted, WeightedStart

_COMPLETION = 5  # sweeps that draw missing values given the observed ones
N_SWEEPS = 50  # over which the autocorrelation of chains is measured,
_DIRECTIONS = 8  # along so many principal directions of the data


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


def _moments_of(X, above):
    """Return moments of rows X and of means, variances and further statistics above them."""
    mean, variance, further = above
    return Moments((Block((X, mean), (None, variance), 1.0 / X.shape[0], None, (None, further)),))


class _RunMoments:
    """Means of the moments of a run, which are summed up step by step."""

    def __init__(self, machine, sampler, gradient, burn_in):
        self.machine, self.sampler, self.gradient = machine, sampler, gradient
        self.burn_in, self.rates, self.n_steps, self.last = burn_in, [], 0, None
        self.pair, self.thetas = None, None

    def count(self, step, state, info):
        """Take a step, counted from 1, into the means."""
        if "acceptance" in info:
            self.rates.append(info["acceptance"])
        if step <= self.burn_in:
            return
        above = self.gradient(
            self.machine.units[1],
            lambda: self.sampler.hidden_theta(self.machine, state),
            lambda: state.layers[1],
        )
        if self.last is not None:  # rows are summed up only if there are those of a second step
            self._sum_up()
        X = state.layers[0]
        self.last, self.n_steps = _moments_of(X, above), self.n_steps + 1

    def _sum_up(self):
        machine, last = self.machine, self.last
        if self.pair is None:
            self.pair = namespace(machine.weights[0]).zeros_like(machine.weights[0])
        self.pair = last.add_pair(machine, 0, self.pair, 1.0)
        thetas = [last.statistics(unit, l) for l, unit in enumerate(machine.units)]
        if self.thetas is not None:
            thetas = map_rows(lambda a, b: a + b, tuple(self.thetas), tuple(thetas))
        self.thetas = tuple(thetas)

    def moments(self):
        """Return the means of what was counted: the rows themselves if they are of one step."""
        if self.pair is None:
            return self.last
        self._sum_up()
        scale = 1.0 / self.n_steps
        thetas = (theta.map(lambda part: scale * part) for theta in self.thetas)
        return Moments((), ((0, scale * self.pair),), tuple(enumerate(thetas)))

    def acceptance(self):
        """Return the mean rate of acceptance of the run, or None if nothing was rejected."""
        if not self.rates:
            return None
        rates = (number(namespace(rate).mean(rate)) for rate in self.rates)
        return sum(rates) / len(self.rates)


def remaining(begin, end, rows):
    """Return the autocorrelation of chains from one step to another, a float.

    It is the largest one along the first eight principal directions of data: 1 less the mean square
    of the displacement of the chains, over that of their distances from the mean of the data at
    both steps. So chains in one of several modes are correlated, and those of a machine that has
    not yet learnt the variance along a direction are not.

    Parameters
    ----------
    begin, end : ndarray of shape (n_chains, n_visible)
    rows : ndarray of shape (n_rows, n_visible)
        The data.
    """
    mean = rows.mean(axis=0, dtype=np.float64)
    directions = np.linalg.svd(rows - mean, full_matrices=False)[2][:_DIRECTIONS].T
    moved, first, last = (
        np.mean((x @ directions) ** 2, axis=0) for x in (end - begin, begin - mean, end - mean)
    )
    return 1.0 - float((moved / (first + last + 1e-300)).min())


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
        data = _moments_of(X, moments(hidden, lambda: theta, lambda: hidden.sample(theta, rng)))
        total = _RunMoments(machine, sampler, moments, self._n_left_out)
        chains = CHAINS[self.start].chains(self, machine, sampler, state, X, rng)
        chains = sample(sampler, machine, chains, rng, self.n_steps, callback=total.count)
        state = state._replace(chains=chains, acceptance=total.acceptance())
        model = total.moments()
        if state.weighted is not None:
            theta = condition(machine, chains.layers[0])
            state = state._replace(weighted=state.weighted.at(machine, chains.layers[0], theta))
            above = moments(hidden, lambda: theta, lambda: chains.layers[1])
            (block,) = _moments_of(chains.layers[0], above).blocks
            model = Moments((block._replace(weight=cast(self.weights(state), X.dtype)),))
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
    visible = last_visible(phase.sampler, machine.of_rows(X, m), chains, rng, phase.n_steps)
    rows = namespace(X).concat([X, visible], axis=0)
    theta = condition(machine, rows)
    xp, weights = namespace(X), phase.weights(state)
    of_data, of_chains = xp.zeros_like(X[:, 0]), xp.zeros_like(visible[:, 0])
    weights = of_chains + 1 / m if weights is None else cast(weights, X.dtype)
    for_data, for_model = xp.concat([of_data + 1 / n, of_chains]), xp.concat([of_data, weights])
    data = data_moments(machine, rows, for_data, given=theta)
    (block,) = data.blocks
    drawn = machine.units[1].sample_rows(theta, block.means[1], slice(n, n + m), rng)
    state = state._replace(chains=Chains((visible, drawn)))
    if state.weighted is not None:
        at = theta.rows(slice(n, n + m))
        state = state._replace(weighted=state.weighted.at(machine, visible, at))
    return state, data, Moments((block._replace(weight=for_model),))


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
