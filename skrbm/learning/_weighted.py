"""Persistent chains with importance weights, which follow a machine while it learns.

Chains that do not mix between modes keep the shares of modes that they had, whatever the machine
says. With log-weights that grow by the decrease of the free energy in each step they remain a
sample of the machine (Krause, Fischer & Igel 2020; Carbone et al. 2023).
"""

from typing import Any, NamedTuple

from ..arrays import cast, cumulative_sum, like, namespace
from ..inference import sample
from ..machine import condition
from ._starts import PersistentStart

_BURN_IN = 30  # sweeps of the first machine, whose couplings are weak
_ESS = 0.5  # effective part of the chains below which they are resampled


class Weighted(NamedTuple):
    """Importance weights of chains.

    Attributes
    ----------
    log_weights : array of shape (n_chains,), float64
    energies : array of shape (n_chains,), float64
        Free energies of the chains under the machine for which the weights hold.
    """

    log_weights: Any
    energies: Any

    def weights(self):
        """Return the weights, which sum to 1."""
        xp = namespace(self.log_weights)
        weights = xp.exp(self.log_weights - xp.max(self.log_weights))
        return weights / xp.sum(weights)

    def at(self, machine, rows, theta):
        """Return the state where the chains have come to rows of the same machine.

        ``theta`` are the parameters of the hidden units given the rows.
        """
        return self._replace(energies=_energies(machine, rows, theta))

    def resampled(self, rows):
        """Return as many rows in which each has its share, without a random number."""
        return namespace(rows).take(rows, _index(self.weights(), 0.5), axis=0)


def first_weighted(machine, sampler, rows, rng):
    """Return rows and the state of chains of the first machine, which start at rows of noise."""
    chains = sample(sampler, machine, sampler.state_at(machine, rows, rng), rng, _BURN_IN)
    rows = chains.layers[0]
    energies = _energies(machine, rows, condition(machine, rows))
    return rows, Weighted(0.0 * energies, energies)


def reweighted(machine, rows, state, rng):
    """Return rows and state for a machine that has changed, resampled if few rows are effective.

    Parameters
    ----------
    machine : Machine
        After a step.
    rows : array of shape (n_chains, n_visible)
    state : Weighted
    rng : Rng
    """
    xp = namespace(rows)
    energies = _energies(machine, rows, condition(machine, rows))
    log_weights = state.log_weights + state.energies - energies
    log_weights = xp.where(xp.isfinite(log_weights), log_weights, -1e300)
    log_weights = log_weights - xp.max(log_weights)
    weights = Weighted(log_weights, energies).weights()
    few = 1 / xp.sum(weights * weights) < _ESS * rows.shape[0]
    offset = cast(rng.uniform((1,)), weights.dtype)
    index = _index(weights, offset)
    index = xp.where(
        few, index, xp.arange(rows.shape[0], **{**like(weights), "dtype": index.dtype})
    )
    log_weights = xp.where(few, 0.0 * log_weights, log_weights)
    return xp.take(rows, index, axis=0), Weighted(log_weights, xp.take(energies, index, axis=0))


def _index(weights, offset):
    """Return the index of systematic resampling, as many as there are weights."""
    xp, n = namespace(weights), weights.shape[0]
    points = (xp.arange(n, **like(weights)) + offset) / n
    index = xp.searchsorted(cumulative_sum(weights), points)
    return xp.clip(index, 0, n - 1)


def _energies(machine, rows, theta):
    """Return the free energies of rows, float64."""
    hidden = machine.units[1].total_log_partition(theta)
    own = machine.units[0].log_weight(machine.thetas[0], rows)
    return cast(-own - hidden, namespace(rows).float64)


class WeightedStart(PersistentStart):
    """Continue with importance weights, which track the machine where chains do not mix."""

    for_ranks = False  # resampling is among all chains
    one_hidden_layer = True  # or there is no formula for the free energies behind the weights
    remedy = "; use more chains, or let them start by 'tempered'"
    divergence = 0.02  # nats, of a step that importance weights can follow
    n_chains = 400  # of which half may be lost before they are resampled
    every = 1

    def first(self, phase, machine, rng, n):
        rows = self.rows(phase, machine, rng, n)
        rows, weighted = first_weighted(machine, phase.sampler, rows, rng)
        return rows, {"weighted": weighted}

    def reviewed(self, phase, machine, state, rng):
        rows, weighted = reweighted(machine, state.chains.layers[0], state.weighted, rng)
        return state._replace(chains=phase.sampler.state_at(machine, rows, rng), weighted=weighted)
