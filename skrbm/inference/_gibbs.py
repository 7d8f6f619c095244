"""Block Gibbs sampling, with persistent chains (PCD) or chains that start at the data (CD).

Hidden units that do not sample their own law make a sweep a proposal: it is then accepted or
refused (Metropolis-Hastings; Sec. 3.3 of Ping, Liu and Ihler 2016).
"""

from dataclasses import dataclass

from .._checks import check_count
from ..arrays import cast, like, namespace
from ..machine import Block, Moments, condition, conditional, data_moments, log_correction
from ._base import Chains, Sampler, map_rows, sample


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
        check_count("n_steps", self.n_steps, 1)

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
        for l in range(0, len(layers), 2):
            layers[l] = machine.units[l].sample(conditional(machine, l, layers), rng)
        thetas = odd_conditionals(machine, layers)
        if not _is_exact(machine):
            before = odd_conditionals(machine, state.layers)
            accepted = accept(machine, before, thetas, rng)
            layers, thetas = choose(accepted, (layers, thetas), (state.layers, before))
        for l, theta in thetas.items():
            layers[l] = machine.units[l].sample(theta, rng)
        return Chains(tuple(layers)), {}

    def ends_with_hidden_draw(self, machine):
        return _is_exact(machine)

    def moments(self, machine, state):
        return data_moments(machine, state.layers[0])

    def search(self, machine, rng):
        """Return the visible values that chains end at, one for each row of the machine's fields.

        They start at draws from the visible units without couplings.
        """
        n_rows = machine.thetas[0].field.shape[0]
        state = self.init(machine, rng, n_rows, machine.weights[0])
        return self._walk(machine, state, rng).layers[0]

    def _walk(self, machine, state, rng):
        """Return chains after all sweeps but the last draw of the hidden units."""
        state = sample(self, machine, state, rng, self.n_steps - 1)
        visible = machine.units[0].sample(conditional(machine, 0, state.layers), rng)
        return Chains((visible, state.layers[1]))

    def contrast(self, machine, X, rng):
        """Return moments of the data X and of chains, where the machine has fields for each row."""
        return data_moments(machine, X), data_moments(machine, self.search(machine, rng))

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
            visible = xp.where(observed, X, machine.units[0].sample(theta, rng))
            mean = machine.units[0].mean(theta)
            if not _is_exact(machine):  # the mean given a proposal is not that of the law
                layers = [(x, None) for x in (state.layers[0], visible)]
                thetas = [odd_conditionals(machine, pair) for pair in layers]
                kept = accept(machine, *thetas, rng)
                mean = visible = xp.where(kept[:, None], visible, state.layers[0])
            if 2 * step >= self.n_steps - 1:
                total += mean
                n_kept += 1
            state = self.start(machine, visible, rng)
        return xp.where(observed, X, total / n_kept)


def _is_exact(machine):
    return all(machine.units[l].samples_its_law for l in range(1, len(machine.units), 2))


def odd_conditionals(machine, layers):
    """Return the parameters of the odd layers (the hidden one) given the even ones, by layer."""
    return {l: conditional(machine, l, layers) for l in range(1, len(layers), 2)}


def accept(machine, before, after, rng):
    """Return which rows go on to a proposed sweep, an array of bool of shape (n_rows,).

    The odd layers are summed out: A = p(v') p~(v) / (p(v) p~(v')), where p~ is what a sweep leaves
    invariant; its transition probabilities cancel.

    Parameters
    ----------
    machine : Machine
    before, after : dict of Theta
        Parameters of the odd layers given the even ones, at the old and at the proposed values.
    rng : Rng
    """
    log_ratio = log_correction(machine, after) - log_correction(machine, before)
    xp = namespace(log_ratio)
    noise = cast(rng.uniform(log_ratio.shape), xp.float64)
    return noise < xp.exp(xp.minimum(log_ratio, xp.zeros_like(log_ratio)))


def choose(accepted, new, old):
    """Return (layers, parts), with the new rows where ``accepted`` and the old ones elsewhere.

    ``parts`` are arrays or parameters of the odd layers, by layer; values of these are not chosen.
    """
    xp, where = namespace(accepted), accepted[:, None]

    def pick(b, a):
        return xp.where(where, b, a)

    layers = [
        b if l % 2 else pick(b, a) for l, (a, b) in enumerate(zip(old[0], new[0], strict=True))
    ]
    return layers, {l: map_rows(pick, part, old[1][l]) for l, part in new[1].items()}


class ContrastiveDivergence(Gibbs):
    """Block Gibbs sampling with chains that start at each batch of data anew."""

    def contrast(self, machine, X, rng):
        hidden, theta = machine.units[1], condition(machine, X)
        mean, variance = hidden.moments(theta)
        occupied = (None, hidden.occupancy(theta))
        block = Block((X, mean), (None, variance), 1.0 / X.shape[0], occupied=occupied)
        state = self._walk(machine, Chains((X, hidden.sample(theta, rng))), rng)
        return Moments((block,)), data_moments(machine, state.layers[0])
