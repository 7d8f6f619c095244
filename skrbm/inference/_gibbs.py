"""Block Gibbs sampling, in training with persistent chains (PCD), at the data (CD), or others.

With hidden units that do not sample their own distribution, a sweep is a proposal, which is
accepted or rejected (Metropolis-Hastings; Sec. 3.3 of Ping, Liu and Ihler 2016).
"""

from dataclasses import dataclass

from ..machine import condition, conditional, data_moments, log_correction
from ._fixed_point import choose
from ._sampler import Chains, Sampler, last_visible, metropolis, sample


@dataclass(frozen=True)
class Gibbs(Sampler):
    """Block Gibbs sampling.

    Parameters
    ----------
    n_steps : int, default=1
        Number of sweeps over the layers per mini-batch in training, the k of CD-k.
    n_chains, start, burn_in : as in :class:`Sampler`
        Estimators also accept "pcd" for ``Gibbs(start="persistent")``, and "cd" for
        ``Gibbs(start="data")``.
    """

    n_steps: int = 1

    def state_at(self, machine, X, rng, given=None):
        """Return chains at visible values X, with each hidden layer drawn given the one below."""
        layers = (X, *(None for _ in machine.weights))
        for l in range(1, len(layers)):
            known = l == 1 and given is not None
            theta = given if known else conditional(machine, l, layers)
            layers = (*layers[:l], machine.units[l].sample(theta, rng), *layers[l + 1 :])
        return Chains(layers)

    def step(self, machine, state, rng):
        """Draw the even layers (visible) given the odd ones, then the odd ones (hidden)."""
        layers = list(state.layers)
        for l in range(0, len(layers), 2):
            layers[l] = machine.units[l].sample(conditional(machine, l, layers), rng)
        thetas = odd_conditionals(machine, layers)
        if not machine.samples_exactly:
            before = odd_conditionals(machine, state.layers)
            accepted = accept(machine, before, thetas, rng)
            layers, thetas = choose(accepted, (tuple(layers), thetas), (state.layers, before))
            layers = list(layers)
        for l, theta in thetas.items():
            layers[l] = machine.units[l].sample(theta, rng)
        return Chains(tuple(layers)), {}

    def ends_with_hidden_draw(self, machine):
        return machine.samples_exactly

    def search(self, machine, rng):
        """Return the last visible values of a new chain for each row of the machine's fields."""
        n_rows = machine.thetas[0].field.shape[0]
        state = self.init(machine, rng, n_rows)
        return last_visible(self, machine, state, rng, self.n_steps)

    def contrast(self, machine, X, rng):
        """Return moments of the data X and of chains, where the machine has fields for each row.

        The chains start at X with ``start="data"``, else at draws of the visible units.
        """
        if self.start != "data":
            return data_moments(machine, X), data_moments(machine, self.search(machine, rng))
        theta = condition(machine, X)
        data = data_moments(machine, X, given=theta)
        chains = Chains((X, machine.units[1].sample(theta, rng)))
        visible = last_visible(self, machine, chains, rng, self.n_steps)
        return data, data_moments(machine, visible)


def chain_ends(machine, rng, X, n_steps=100):
    """Return the visible values of Gibbs chains that start at X, after ``n_steps`` sweeps."""
    return sample(Gibbs(), machine, Gibbs().state_at(machine, X, rng), rng, n_steps).layers[0]


def odd_conditionals(machine, layers):
    """Return the parameters of the odd layers (hidden) given the even ones, a dict by layer."""
    return {l: conditional(machine, l, layers) for l in range(1, len(layers), 2)}


def accept(machine, before, after, rng):
    """Accept or reject a proposed sweep of units that do not sample their own distribution.

    The odd layers are summed out, and the transition probabilities of the sweep cancel:
    A = p(v') p~(v) / (p(v) p~(v')), where p~ is the distribution that the sweep leaves invariant.
    ``before`` and ``after`` are the parameters of the odd layers given the even ones, at the old
    and at the proposed values.
    """
    log_ratio = log_correction(machine, after) - log_correction(machine, before)
    return metropolis(log_ratio, rng)[0]
