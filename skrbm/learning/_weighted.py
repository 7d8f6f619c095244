"""Persistent chains with importance weights, which follow a machine while it learns.

The proportions of modes in chains that do not mix cannot change when the machine does. With log
weights that grow by the decrease of the free energy in each step, the chains remain a sample of the
machine (Krause, Fischer & Igel 2020; Carbone et al. 2023).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from ..arrays import cast, cumulative_sum, like, namespace, take_rows
from ..inference import sample
from ..machine import condition, precise_free_energy
from ._chains import BURN_IN, FollowingPhase

_ESS = 0.5  # effective part of the chains below which they are resampled


class Weighted(NamedTuple):
    """Importance weights of chains, and their free energies by the machine of these; float64."""

    log_weights: Any
    energies: Any


@dataclass(frozen=True)
class WeightedPhase(FollowingPhase):
    """Persistent chains with importance weights, which track the machine where they do not mix."""

    start = "weighted"

    @property
    def remedies(self):
        sampler = type(self.sampler).__name__
        return {"inference": f"more chains, such as inference={sampler}(start='tempered')"}

    def _first(self, machine, rng, n, X):
        rows, _ = super()._first(machine, rng, n, X)
        chains = self.sampler.state_at(machine, rows, rng)
        rows = sample(self.sampler, machine, chains, rng, BURN_IN).layers[0]
        energies = _energies(machine, rows, condition(machine, rows))
        return rows, Weighted(0.0 * energies, energies)

    def reviewed(self, machine, state, X, rng):
        """Return the state with the weights of a machine, resampled if few rows are effective."""
        rows = state.chains.layers[0]
        xp, n, given = namespace(rows), rows.shape[0], condition(machine, rows)
        energies = _energies(machine, rows, given)
        log_weights = state.more.log_weights + state.more.energies - energies
        log_weights = xp.where(xp.isfinite(log_weights), log_weights, -1e300)
        log_weights = log_weights - xp.max(log_weights)
        weights = _normalized(log_weights)
        few = 1 / xp.sum(weights * weights) < _ESS * n
        index = _index(weights, cast(rng.uniform((1,)), weights.dtype))
        index = xp.where(few, index, xp.arange(n, **{**like(weights), "dtype": index.dtype}))
        log_weights = xp.where(few, 0.0 * log_weights, log_weights)
        rows, given = take_rows(rows, index), given.rows(index)
        chains = self.sampler.state_at(machine, rows, rng, given)
        more = Weighted(log_weights, xp.take(energies, index, axis=0))
        return state._replace(chains=chains, more=more)

    def _at(self, machine, state, theta, rows):
        energies = _energies(machine, state.chains.layers[0], theta.rows(rows))
        return state._replace(more=state.more._replace(energies=energies))

    def weights(self, state):
        return _normalized(state.more.log_weights)

    def energies(self, machine, state):
        return state.more.energies

    def visible(self, state):
        """Return as many rows in which each has its share, without a random number."""
        return take_rows(super().visible(state), _index(self.weights(state), 0.5))


def _normalized(log_weights):
    """Return weights that sum to 1."""
    xp = namespace(log_weights)
    weights = xp.exp(log_weights - xp.max(log_weights))
    return weights / xp.sum(weights)


def _index(weights, offset):
    """Return the index of systematic resampling, as many as there are weights."""
    xp, n = namespace(weights), weights.shape[0]
    points = (xp.arange(n, **like(weights)) + offset) / n
    index = xp.searchsorted(cumulative_sum(weights), points)
    return xp.clip(index, 0, n - 1)


def _energies(machine, rows, theta):
    """Return the free energies of rows, float64.

    ``theta`` are the parameters of the hidden units given the rows, where float64 or discrete
    values make them precise enough.
    """
    if not (machine.units[0].is_discrete or theta.field.dtype == namespace(rows).float64):
        return precise_free_energy(machine, rows)
    hidden = machine.units[1].total_log_partition(theta)
    own = machine.units[0].log_weight(machine.thetas[0], rows)
    return cast(-own - hidden, namespace(rows).float64)
