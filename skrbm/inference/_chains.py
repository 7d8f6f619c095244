"""Where the chains of the model phase start, in learning, and which of their moments count.

Each class here is one choice of the start, and runs any sampler from it.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from .._checks import check_count
from ..arrays import add_products, cast, like, namespace
from ..machine import Block, Moments, condition, free_energy, interpolate, uncoupled
from ._annealing import resampled
from ._model_phase import Method
from ._sampler import Sampler, sample

_LEAST = 100  # chains that are annealed together, as resampling among few is biased


class Run(NamedTuple):
    """State in learning: the chains where they ended, and how the last run went.

    ``step_size`` is that of the next run and ``acceptance`` the mean rate of the last one; None for
    samplers that have none.
    """

    chains: Any
    step_size: float | None = None
    acceptance: float | None = None
    n_runs: int = 0


def _expected(unit, theta, draw):
    return unit.moments(theta())


def _drawn(unit, theta, draw):
    return draw(), None


GRADIENTS = {"marginal": _expected, "joint": _drawn}
"""What stands for the hidden units in the moments: their expectation given the visible ones
(Alg. 4 of Liao et al. 2022), or a draw (Alg. 3), which has more noise and the same mean."""


@dataclass(frozen=True)
class NoiseChains(Method):
    """Modified contrastive divergence: chains start at normal noise for each batch (Alg. 3).

    A machine learnt so generates from noise, by as many steps as in learning.

    Parameters
    ----------
    sampler : Sampler
    n_steps : int, default=1
        Steps of each run.
    burn_in : int, default=0
        Steps of a run that do not count; the moments are means over those after them.
    gradient : {"marginal", "joint"}, default="marginal"
        Whether the expected hidden units count or draws of them.
    mean, scale : arrays of shape (n_visible,), default=None
        Of the noise; default: those of the visible units without couplings.
    """

    sampler: Sampler
    n_steps: int = 1
    burn_in: int = 0
    gradient: str = "marginal"
    mean: Any = None
    scale: Any = None

    def __post_init__(self):
        check_count("n_steps", self.n_steps, 1)
        check_count("burn_in", self.burn_in, 0)
        if self.burn_in >= self.n_steps:
            raise ValueError(
                f"burn_in={self.burn_in} leaves none of n_steps={self.n_steps}; it must be smaller"
            )

    @property
    def kind(self):
        return (type(self), type(self.sampler))

    def has_noise_of(self, other):
        """Whether both have the same noise in their coordinates."""
        pairs = (self.mean, other.mean), (self.scale, other.scale)
        return all(bool(namespace(a).all(a == b)) for a, b in pairs)

    def noise(self, machine, rng, n):
        """Return ``n`` rows of noise to start at."""
        if self.mean is None:
            return self.drawn(machine, rng, n)
        return self.mean + self.scale * rng.normal((n, self.mean.shape[0]))

    @staticmethod
    def drawn(machine, rng, n):
        """Return ``n`` draws of the visible units without couplings."""
        column = namespace(machine.weights[0]).zeros((n, 1), **like(machine.weights[0]))
        theta = machine.thetas[0].map(lambda part: part + column)
        return machine.units[0].sample(theta, rng)

    def init(self, machine, rng, n, X):
        self.sampler.check(machine)
        if any(theta.spike is not None for theta in machine.thetas):
            raise ValueError(f"{type(self).__name__} takes units without an atom at 0")
        chains = self.sampler.start(machine, self.noise(machine, rng, n), rng)
        return Run(chains, self.sampler.step_size)

    def started(self, machine, sampler, state, X, rng):
        """Return the chains that a run begins with."""
        return self.begun(machine, sampler, self.noise(machine, rng, X.shape[0]), rng)

    def begun(self, machine, sampler, noise, rng):
        """Return chains that begin at rows of noise."""
        return sampler.start(machine, noise, rng)

    def phases(self, machine, state, X, rng):
        sampler, hidden = self.current(machine, state.step_size), machine.units[1]
        theta = condition(machine, X)
        above = GRADIENTS[self.gradient](hidden, lambda: theta, lambda: hidden.sample(theta, rng))
        data = Moments((_block((X, None), above, X.shape[0]),))
        total = _Total(machine, sampler, GRADIENTS[self.gradient], self.burn_in)
        chains = self.started(machine, sampler, state, X, rng)
        chains = sample(sampler, machine, chains, rng, self.n_steps, callback=total.count)
        return self._next(sampler, chains, total.acceptance(), state), data, total.moments()

    def current(self, machine, step_size):
        """Return the sampler; if it tunes itself, with the step size that it has come to."""
        if step_size is None or self.sampler.target_acceptance is None:
            return self.sampler
        return self.sampler.sized(step_size).stable(machine)

    def _next(self, sampler, chains, acceptance, state):
        if acceptance is not None:
            sampler = sampler.tuned(acceptance, gain=max(0.2, 3 * (1 + state.n_runs) ** -0.5))
        return Run(chains, sampler.step_size, acceptance, state.n_runs + 1)

    def visible(self, state):
        return state.chains.layers[0]

    def report(self, state):
        if state.acceptance is None:
            return {}
        return {"acceptance": state.acceptance, "step_size": state.step_size}


class DataChains(NoiseChains):
    """Contrastive divergence: chains start at each batch of data."""

    def started(self, machine, sampler, state, X, rng):
        return sampler.start(machine, X, rng)


class PersistentChains(NoiseChains):
    """Persistent contrastive divergence: chains start at noise once, and then go on."""

    def started(self, machine, sampler, state, X, rng):
        return sampler.resumed(machine, state.chains)


class AnnealedChains(NoiseChains):
    """Chains start at noise for each batch, and come to the machine by ``n_steps`` temperatures.

    At each, rows are drawn anew by how much more the law there gives them than the one before, and
    take one step, sized and adjusted as in a run of ``n_steps``: annealed importance sampling, with
    resampling in place of weights (Neal 2001). So modes between which no chain crosses have their
    shares of the machine's law, and not those of the basins that noise falls into. As resampling
    among few is biased, there are 100 chains at least, of which those asked for are drawn.
    """

    def noise(self, machine, rng, n):
        return self.drawn(self.base(machine), rng, n)

    def begun(self, machine, sampler, noise, rng):
        xp, base, n = namespace(noise), self.base(machine), noise.shape[0]
        more = self.noise(machine, rng, max(0, _LEAST - n))
        rows, last = xp.concat([noise, more], axis=0), base
        for k in range(self.n_steps):
            now = interpolate(base, machine, (k + 1) / self.n_steps)
            gain = free_energy(last, rows) - free_energy(now, rows)
            rows, last = resampled(rows, gain, rng), now
            step = sampler.at(k, self.n_steps).step
            chains, _ = step(now, sampler.start(now, rows, rng), rng)
            rows = chains.layers[0]
        if n < _LEAST:
            rows = xp.take(rows, rng.permutation(_LEAST)[:n], axis=0)
        return sampler.start(machine, rows, rng)

    def base(self, machine):
        """Return the machine of the noise; where it is none at all, of the visible units' own."""
        own = machine.thetas[0]
        if self.mean is None:
            return uncoupled(machine)
        xp, none = namespace(own.field), self.scale <= 0
        precision = 1 / xp.where(none, xp.ones_like(self.scale), self.scale) ** 2
        precision = xp.minimum(precision, own.precision)  # as wide as the machine, at least
        field = xp.where(none, own.field, self.mean * precision)
        return uncoupled(
            machine, own._replace(field=field, precision=xp.where(none, own.precision, precision))
        )


CHAINS = {
    "noise": NoiseChains,
    "annealed": AnnealedChains,
    "data": DataChains,
    "persistent": PersistentChains,
}


def _block(below, above, n):
    """Return a block of ``n`` rows, given means and variances of both layers."""
    return Block(*zip(below, above, strict=True), 1.0 / n)


class _Total:
    """Moments of the states of a run, summed up step by step."""

    def __init__(self, machine, sampler, gradient, burn_in):
        self.machine, self.sampler, self.gradient = machine, sampler, gradient
        self.burn_in, self.rates, self.n, self.last = burn_in, [], 0, None
        self.pair, self.sums = None, [0.0] * 4  # of both layers: first and second moments

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
        self.last, self.n = ((state.layers[0], None), above), self.n + state.layers[0].shape[0]

    def _sum_up(self):
        (X, _), (H, _) = self.last
        xp = namespace(X)
        if self.pair is None:
            self.pair = xp.zeros_like(self.machine.weights[0])
        self.pair = add_products(self.pair, [(H, X, 1.0)])
        moments = (part for layer in self.last for part in _powers(*layer))
        for i, rows in enumerate(moments):
            self.sums[i] = self.sums[i] + xp.sum(rows, axis=0, dtype=xp.float64)

    def moments(self):
        """Return the means of what was counted: the rows themselves if they are of one step."""
        if self.pair is None:
            return Moments((_block(*self.last, self.n),))
        self._sum_up()
        first, second, third, fourth = (part / self.n for part in self.sums)
        below, above = self._row(first, second), self._row(third, fourth)
        # The rows' product is taken off what is put beside them.
        matrix = self.pair * (1.0 / self.n) - above[0].T @ below[0]
        return Moments((_block(below, above, 1),), ((0, matrix),))

    def _row(self, mean, square):
        """Return mean and variance as single rows, given first and second moments."""
        xp, dtype = namespace(mean), self.machine.dtype
        variance = xp.clip(square - mean * mean, 0.0, None)
        return cast(mean[None, :], dtype), cast(variance[None, :], dtype)

    def acceptance(self):
        """Return the mean rate of acceptance of the run, or None if nothing was rejected."""
        if not self.rates:
            return None
        return sum(float(namespace(rate).mean(rate)) for rate in self.rates) / len(self.rates)


def _powers(mean, variance):
    """Return first and second moments of rows."""
    square = mean * mean
    return mean, square if variance is None else square + variance
