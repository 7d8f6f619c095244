"""Block Gibbs sampling, with persistent chains (PCD) or chains that start at the data (CD)."""

from dataclasses import dataclass
from numbers import Integral

from .._backend import like, namespace
from .._machine import Block, Moments, condition, conditional, data_moments
from ._base import Chains, Sampler, sample


@dataclass(frozen=True)
class Gibbs(Sampler):
    """Block Gibbs sampling; in learning, the chains persist from batch to batch.

    Parameters
    ----------
    n_steps : int, default=1
        Sweeps over the layers for each batch.
    """

    n_steps: int = 1

    def __post_init__(self):
        if not isinstance(self.n_steps, Integral) or self.n_steps < 1:
            raise ValueError(f"n_steps must be an integer >= 1, got {self.n_steps!r}")

    def init(self, machine, rng, n, X):
        """Return ``n`` chains at draws from the visible units without couplings."""
        column = namespace(X).zeros((n, 1), **like(machine.weights[0]))
        theta = machine.thetas[0].map(lambda part: part + column)
        return self.start(machine, machine.units[0].sample(theta, rng), rng)

    def start(self, machine, X, rng):
        layers = (X, *(None for _ in machine.weights))
        for l in range(1, len(layers)):
            theta = conditional(machine, l, layers)
            layers = (*layers[:l], machine.units[l].sample(theta, rng), *layers[l + 1 :])
        return Chains(layers)

    def step(self, machine, state, rng):
        """Draw the even layers (visible) given the odd ones, then the odd ones (hidden)."""
        layers = list(state.layers)
        for parity in (0, 1):
            for l in range(parity, len(layers), 2):
                layers[l] = machine.units[l].sample(conditional(machine, l, layers), rng)
        return Chains(tuple(layers)), {}

    def phases(self, machine, state, X, rng):
        """Data rows and chain rows lie in one buffer and share the product with the weights."""
        state = sample(self, machine, state, rng, self.n_steps - 1)
        visible, hidden = machine.units
        chains = visible.sample(conditional(machine, 0, state.layers), rng)
        n, m = X.shape[0], chains.shape[0]
        buffer = namespace(X).concat([X, chains], axis=0)
        theta = condition(machine, buffer)
        mean, variance = hidden.moments(theta)
        occupied = hidden.occupancy(theta)

        def block(rows, n_rows):
            spread, atoms = (
                None if part is None else part[rows, :] for part in (variance, occupied)
            )
            means = (buffer[rows, :], mean[rows, :])
            block = Block(means, (None, spread), 1.0 / n_rows, occupied=(None, atoms))
            return Moments((block,))

        model = slice(n, n + m)
        state = Chains((buffer[model, :], hidden.sample(theta.rows(model), rng)))
        return state, block(slice(0, n), n), block(model, m)

    def moments(self, machine, state):
        return data_moments(machine, state.layers[0])

    def visible(self, state):
        return state.layers[0]

    def clamped_mean(self, machine, X, observed, rng):
        """Return E[x | observed values] of the visible units, averaged over the later half.

        Chains start at X, whose values stay where ``observed``.
        """
        xp = namespace(X)
        total, n_kept = xp.zeros_like(X), 0
        state = self.start(machine, X, rng)
        for step in range(self.n_steps):
            theta = conditional(machine, 0, state.layers)
            if 2 * step >= self.n_steps - 1:
                total += machine.units[0].mean(theta)
                n_kept += 1
            visible = xp.where(observed, X, machine.units[0].sample(theta, rng))
            state = self.start(machine, visible, rng)
        return xp.where(observed, X, total / n_kept)


class ContrastiveDivergence(Gibbs):
    """Block Gibbs sampling with chains that start at each batch of data anew."""

    def phases(self, machine, state, X, rng):
        visible, hidden = machine.units
        theta = condition(machine, X)
        mean, variance = hidden.moments(theta)
        occupied = (None, hidden.occupancy(theta))
        block = Block((X, mean), (None, variance), 1.0 / X.shape[0], occupied=occupied)
        data = Moments((block,))
        state = Chains((X, hidden.sample(theta, rng)))
        state = sample(self, machine, state, rng, self.n_steps - 1)
        chains = visible.sample(conditional(machine, 0, state.layers), rng)
        return Chains((chains, state.layers[1])), data, data_moments(machine, chains)
