"""Where Markov chains start for each batch: at noise, at data, or where they ended."""

from typing import Any, NamedTuple

from ..arrays import namespace
from ..inference import anneal, draw_visible
from ..machine import uncoupled

_ANNEALED = 100  # fewest chains that are annealed together: resampling among few is biased


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
        return sampler.state_at(machine, rows, rng)

    def chains(self, phase, machine, sampler, state, X, rng):
        """Return the chains of a run."""
        n = X.shape[0] if phase.n_states is None else phase.n_states
        rows = self.rows(phase, machine, rng, n)
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
        return sampler.state_at(machine, X, rng)


class PersistentStart(NoiseStart):
    """Start where the chains ended; at noise the first time."""

    def chains(self, phase, machine, sampler, state, X, rng):
        return sampler.resumed(machine, state.chains)


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
    return sampler.state_at(machine, rows, rng)


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
