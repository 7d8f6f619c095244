"""Model phases by Markov chains: where the chains start, and which of their moments count."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .._checks import check_count
from .._schedules import SCHEDULES
from ..arrays import cast, like, namespace, to_numpy
from ..inference import (
    Chains,
    Sampler,
    anneal,
    completed,
    draw_visible,
    last_visible,
    sample,
)
from ..machine import Moments, condition, data_moments, may_lack_integral, uncoupled
from ._length import StepLength
from ._model_phase import DIVERGENCE, ModelPhase
from ._run_moments import RunMoments, moments_of
from ._tempered import Tempered, first_tempered, ladder_to, review
from ._weighted import Weighted, first_weighted, reweighted

_COMPLETION = 5  # sweeps that draw missing values given the observed ones
_ANNEALED = 100  # fewest chains that are annealed together: resampling among few is biased
_CAP_OF_INTERVALS = 1.0  # the same for units on an interval, in which rare values lie far out
_CAP = 3.0  # length of a step, in coordinates in which units have deviations of about 1
_DIVERGENCES_OF_BITS = 10.0, 0.075  # nats of a step: at least, and for each column
_DIVERGENCE = 0.02  # nats, of a step that importance weights have to follow
_DIVERGENCE_OF_JOINT = 0.05  # nats for each column, of those with a precision matrix
_TEMPERED = 0.1  # nats, of a step after which samples of the last rung are still exchanged
_SWEEPS = 50  # over which the autocorrelation of chains is measured,
_DIRECTIONS = 8  # along so many principal directions of the data
_MEANS = {}  # row weights of batches, which have few sizes
_N_MEANS = 8  # at most


class Run(NamedTuple):
    """State in learning: the chains where they ended, and how the last run went.

    ``step_size`` is that of the next run and ``acceptance`` the mean rate of the last one; None for
    samplers that have none. ``tempered`` is what tempered chains exchange with, and ``weighted``
    has the importance weights of weighted ones.
    """

    chains: Any
    step_size: float | None = None
    acceptance: float | None = None
    n_runs: int = 0
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


class Noise(NamedTuple):
    """Normal noise at which chains start: mean and standard deviation of each visible unit."""

    mean: Any
    scale: Any

    def is_as(self, other):
        """Whether both are the same noise."""
        pairs = zip(self, other, strict=True)
        return all(bool(namespace(a).all(a == b)) for a, b in pairs)

    def draw(self, rng, n):
        """Return ``n`` rows of noise."""
        return self.mean + self.scale * rng.normal((n, self.mean.shape[0]))


class NoiseStart:
    """Start at noise."""

    for_ranks, one_hidden_layer = True, False
    divergence = None  # most of a step, in nats; None for that of any phase
    n_chains = None  # the usual number of chains; None for that of the rows of a batch
    every = 5  # steps from one measurement of the divergence to the next
    remedy = "; let chains start by 'weighted'"

    def first(self, phase, machine, rng, n):
        """Return the visible values of the first chains, and what the state has besides."""
        return self.rows(phase, machine, rng, n), {}

    def reviewed(self, phase, machine, state, rng):
        """Return the state that the next batch starts from."""
        return state

    def rows(self, phase, machine, rng, n):
        """Return ``n`` rows of noise."""
        return draw_visible(machine, rng, n) if phase.noise is None else phase.noise.draw(rng, n)

    def started(self, phase, machine, sampler, rows, rng):
        """Return the chains that start at rows of noise."""
        return sampler.start(machine, rows, rng)

    def chains(self, phase, machine, sampler, state, X, rng):
        """Return the chains of a run."""
        rows = self.rows(phase, machine, rng, X.shape[0])
        return self.started(phase, machine, sampler, rows, rng)


class AnnealedStart(NoiseStart):
    """Start at noise that is annealed to the machine."""

    def rows(self, phase, machine, rng, n):
        return draw_visible(noisy_base(machine, phase.noise), rng, n)

    def started(self, phase, machine, sampler, rows, rng):
        return annealed(machine, sampler, rows, phase.n_steps, rng, phase.noise)


class DataStart(NoiseStart):
    """Start at the rows of the batch."""

    def chains(self, phase, machine, sampler, state, X, rng):
        return sampler.start(machine, X, rng)


class PersistentStart(NoiseStart):
    """Start where the chains ended; at noise the first time."""

    def chains(self, phase, machine, sampler, state, X, rng):
        return sampler.resumed(machine, state.chains)


class TemperedStart(PersistentStart):
    """Go on after exchanges with samples of earlier machines of the training."""

    for_ranks = False  # rungs are made of machines that all chains have come to together
    one_hidden_layer = True  # or there is no formula for the free energies that exchanges need
    remedy = "; use more chains or hidden units"
    divergence = _TEMPERED

    def first(self, phase, machine, rng, n):
        base = None if phase.noise is None else noisy_base(machine, phase.noise).thetas[0]
        rows, tempered = first_tempered(machine, rng, n, base)
        return rows, {"tempered": tempered}

    def reviewed(self, phase, machine, state, rng):
        rows = state.chains.layers[0]
        now, tempered = review(machine, rows, state.tempered, rng)
        chains = state.chains if now is rows else phase.sampler.start(machine, now, rng)
        return state._replace(chains=chains, tempered=tempered)


class WeightedStart(PersistentStart):
    """Continue with importance weights, which track the machine where chains do not mix."""

    for_ranks = False  # resampling is among all chains
    one_hidden_layer = True  # or there is no formula for the free energies behind the weights
    remedy = "; use more chains, or let them start by 'tempered'"
    divergence = _DIVERGENCE
    n_chains = 400  # of which half may be lost before they are resampled
    every = 1

    def first(self, phase, machine, rng, n):
        rows = self.rows(phase, machine, rng, n)
        rows, weighted = first_weighted(machine, phase.sampler, rows, rng)
        return rows, {"weighted": weighted}

    def reviewed(self, phase, machine, state, rng):
        rows, weighted = reweighted(machine, state.chains.layers[0], state.weighted, rng)
        return state._replace(chains=phase.sampler.start(machine, rows, rng), weighted=weighted)


CHAINS = {
    "noise": NoiseStart(),
    "annealed": AnnealedStart(),
    "data": DataStart(),
    "persistent": PersistentStart(),
    "tempered": TemperedStart(),
    "weighted": WeightedStart(),
}
"""Where chains start in learning, by name."""


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
    n_steps : int, default=1
        Steps of each run.
    burn_in : int or None, default=None
        Steps of a run that do not count. The moments are means over those after them; None counts
        the last step alone.
    gradient : {"marginal", "joint"}, default="marginal"
        Whether the expected hidden units count or draws of them.
    noise : Noise or None, default=None
        Where chains start; None: at draws of the visible units without couplings.
    anneal_step_size : bool, default=False
        Whether the step size falls over the epochs, as half a cosine.
    """

    sampler: Sampler
    start: str = "persistent"
    n_steps: int = 1
    burn_in: int | None = None
    gradient: str = "marginal"
    noise: Noise | None = None
    anneal_step_size: bool = False

    def __post_init__(self):
        check_count("n_steps", self.n_steps, 1)
        check_count("burn_in", self.burn_in, 0, or_none=True)
        if self._n_left_out >= self.n_steps:
            raise ValueError(
                f"burn_in={self.burn_in} leaves none of n_steps={self.n_steps}; it must be smaller"
            )
        own_start = self.sampler.own_start
        if own_start not in (None, self.start):
            raise ValueError(
                f"{self.sampler} takes starts={own_start!r} only, got starts={self.start!r}; set "
                f"starts={own_start!r}, or use Gibbs"
            )
        if self.anneal_step_size and self.sampler.target_acceptance is not None:
            raise ValueError(
                "anneal_step_size=True and a sampler with target_acceptance both set the step "
                "size; leave one of them out"
            )

    @property
    def for_ranks(self):
        return CHAINS[self.start].for_ranks

    @property
    def one_hidden_layer(self):
        return CHAINS[self.start].one_hidden_layer

    samples_model = True

    @property
    def may_not_mix(self):
        return self.start == "persistent" and self.sampler.own_start is None

    @property
    def usual_states(self):
        """Number of chains if none is asked for; None for the size of a batch."""
        return CHAINS[self.start].n_chains

    @property
    def remedy(self):
        return CHAINS[self.start].remedy

    @property
    def kind(self):
        return type(self), self.start, type(self.sampler)

    @property
    def _n_left_out(self):
        return self.n_steps - 1 if self.burn_in is None else self.burn_in

    def at(self, progress):
        size = self.sampler.step_size
        if not self.anneal_step_size or size is None:
            return self
        size *= SCHEDULES["cosine"](progress)
        return replace(self, sampler=self.sampler.sized(size))

    def init(self, machine, rng, n, X):
        self.sampler.check(machine)
        machine = machine.of_rows(X, n)
        rows, more = CHAINS[self.start].first(self, machine, rng, n)
        chains = self.sampler.start(machine, rows, rng)
        return Run(chains, self.sampler.step_size, **more)

    def reviewed(self, machine, state, rng):
        return CHAINS[self.start].reviewed(self, machine, state, rng)

    def autocorrelation(self, machine, state, rows, rng):
        """Return the autocorrelation of the chains over 50 sweeps, a float.

        It is the largest one along the first eight principal directions of the data: 1 less the
        variance of the displacement of the chains, over twice the variance of the data.

        Parameters
        ----------
        machine : Machine
        state : Run
        rows : array of shape (n_rows, n_visible)
            Visible values of data.
        rng : Rng
        """
        ends = sample(self.current(machine, state.step_size), machine, state.chains, rng, _SWEEPS)
        rows = to_numpy(rows).astype(np.float64)
        rows = rows - rows.mean(axis=0)
        _, deviations, directions = np.linalg.svd(rows, full_matrices=False)
        moved = to_numpy(ends.layers[0] - state.chains.layers[0]) @ directions[:_DIRECTIONS].T
        variances = deviations[:_DIRECTIONS] ** 2 / rows.shape[0]
        return 1.0 - float((np.var(moved, axis=0) / (2 * variances + 1e-300)).min())

    def noise_rows(self, machine, rng, n):
        """Return ``n`` rows of noise, where chains start or annealing does."""
        return CHAINS[self.start].rows(self, machine, rng, n)

    def started(self, machine, sampler, rows, rng):
        """Return the chains that start at rows of noise."""
        return CHAINS[self.start].started(self, machine, sampler, rows, rng)

    def phases(self, machine, state, X, rng):
        if self._shares_product(machine):
            return _PHASES[self.start, self.gradient](self, machine, state, X, rng)
        sampler, hidden = self.current(machine, state.step_size), machine.units[1]
        theta = condition(machine, X)
        moments = GRADIENTS[self.gradient]
        data = moments_of(X, moments(hidden, lambda: theta, lambda: hidden.sample(theta, rng)))
        total = RunMoments(machine, sampler, moments, self._n_left_out)
        chains = CHAINS[self.start].chains(self, machine, sampler, state, X, rng)
        chains = sample(sampler, machine, chains, rng, self.n_steps, callback=total.count)
        state, model = self._next(sampler, chains, total.acceptance(), state), total.moments()
        if state.weighted is not None:
            theta = condition(machine, chains.layers[0])
            state = state._replace(weighted=state.weighted.at(machine, chains.layers[0], theta))
            above = moments(hidden, lambda: theta, lambda: chains.layers[1])
            (block,) = moments_of(chains.layers[0], above).blocks
            model = Moments((block.weighed(cast(self.weights(state), X.dtype)),))
        return state, data, model

    def advance(self, machine, state, X, rng):
        sampler = self.current(machine, state.step_size)
        chains = CHAINS[self.start].chains(self, machine, sampler, state, X, rng)
        chains = sample(sampler, machine, chains, rng, self.n_steps)
        return self._next(sampler, chains, None, state)

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

    def resumed(self, state, last, before):
        # Chains may begin anew at each batch, but not what the step size of a sampler has come to.
        tunes_itself = self.sampler.target_acceptance is not None
        if tunes_itself and self.sampler == getattr(before, "sampler", None):
            return state._replace(step_size=last.step_size, n_runs=last.n_runs)
        return state._replace(step_size=self.sampler.step_size, n_runs=0)

    def current(self, machine, step_size):
        """Return the sampler; if it tunes itself, with the step size that it has come to."""
        if step_size is None or self.sampler.target_acceptance is None:
            return self.sampler
        return self.sampler.sized(step_size).stable(machine)

    def _next(self, sampler, chains, acceptance, state):
        if acceptance is not None:
            sampler = sampler.tuned(acceptance, gain=max(0.2, 3 * (1 + state.n_runs) ** -0.5))
        return Run(chains, sampler.step_size, acceptance, state.n_runs + 1, *state[4:])

    def visible(self, state):
        rows = state.chains.layers[0]
        return rows if state.weighted is None else state.weighted.resampled(rows)

    def samples(self, state, X):
        return state.chains.layers[0]

    def weights(self, state):
        return None if state.weighted is None else state.weighted.weights()

    def step_length(self, machine):
        every = 1 if may_lack_integral(machine.units) else CHAINS[self.start].every
        most, scale = CHAINS[self.start].divergence, unit_of_rates(machine.units)
        if most is None:
            least, column = (0.0, DIVERGENCE) if scale == math.inf else _DIVERGENCES_OF_BITS
            column = _DIVERGENCE_OF_JOINT if machine.units[0].is_joint else column
            most = max(least, column * machine.n_units[0])
        is_interval = scale == math.inf and machine.units[0].bounds[1] < math.inf
        return StepLength(most, _CAP_OF_INTERVALS if is_interval else _CAP * min(1.0, scale), every)

    def ladder(self, machine, state):
        if state.tempered is None:
            return None
        return ladder_to(machine, state.chains.layers[0], state.tempered)

    def report(self, state):
        report = {} if state.tempered is None else state.tempered.report()
        if state.acceptance is None:
            return report
        return report | {"acceptance": state.acceptance, "step_size": state.step_size}


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


def unit_of_rates(units):
    """Return the length that does to layers of bits or categories what 1 does to bits; else inf."""
    reach = math.prod(unit.reach for unit in units)
    return 1 / reach**2 if math.isfinite(reach) else math.inf


def annealed(machine, sampler, rows, n_steps, rng, noise=None):
    """Return chains that come from rows of noise to the machine by ``n_steps`` temperatures.

    At each temperature, rows are resampled by importance weight and take one sampler step
    (sequential Monte Carlo; Neal 2001, with resampling in place of weights), so that the weights
    of modes follow the machine and not the basins that the noise falls into. Resampling among few
    is biased: there are 100 chains at least, of which as many as were given are drawn.
    """
    base, n = noisy_base(machine, noise), rows.shape[0]
    more = draw_visible(base, rng, max(0, _ANNEALED - n))
    rows = namespace(rows).concat([rows, more], axis=0)
    betas = [k / n_steps for k in range(n_steps + 1)]
    layers = (rows, None)
    ends = anneal(machine, base, betas, layers, rng, sampler=sampler, resample=1.0)
    rows = ends.layers[0]
    if n < _ANNEALED:
        rows = namespace(rows).take(rows, rng.permutation(_ANNEALED)[:n], axis=0)
    return sampler.start(machine, rows, rng)


def noisy_base(machine, noise):
    """Return the independent units of the noise; without noise, the visible units' own."""
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
