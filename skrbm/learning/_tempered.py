"""Chains of the model phase that exchange with samples of earlier machines of the training.

Parallel trajectory tempering (Bereux et al. 2025): a training begins at independent units, which
are sampled exactly, and passes through machines that are sampled in turn by exchanges with samples
of the last one. So the chains of the present machine have its distribution, however deep its modes.
"""

from typing import NamedTuple

from ..arrays import last_rows, namespace
from ..inference import (
    Ladder,
    collected,
    gains_of,
    ladder_of,
    renewed,
    resampled,
)
from ._starts import PersistentStart, noisy_base

_NEW_RUNG = 0.3  # acceptance below which the present machine becomes a rung
# Sweeps at a new rung. Chains learn the shares of modes from its samples, so that there are many.
_BURN_IN, _BLOCKS, _SPACING = 30, 30, 4
_FIRST, _FEWEST = 10, 100  # samples of the first rungs: of each chain, and of all at least
_KEPT = 10  # samples of the rungs below the last one, of each chain
_EVERY = 4  # steps after which some samples of one of the rungs are moved, and proposed


class Tempered(NamedTuple):
    """State of tempered chains.

    Attributes
    ----------
    ladder : Ladder
        Machines that the training has passed through, and samples of them, which are moved in
        place.
    n_steps : int
        Steps since the last rung.
    exchange : float or None
        Mean probability of the last exchanges; None before the first.
    """

    ladder: Ladder
    n_steps: int = 0
    exchange: float | None = None

    def report(self):
        """Return numbers for the history of a fit, a dict of floats."""
        if self.exchange is None:
            return {}
        return {
            "exchange": self.exchange,
            "n_rungs": float(len(self.ladder)),
        }


def first_tempered(machine, rng, n, visible=None):
    """Return the state of tempered chains of a machine, whose ladder is found by annealing.

    Parameters
    ----------
    machine : Machine
        Which may be written in place later.
    rng : Rng
    n : int
        Number of chains.
    visible : Theta, default=None
        Parameters of independent visible units that annealing may start at.

    Returns
    -------
    rows : array of shape (n, n_visible)
        Where the chains start.
    Tempered
    """
    machine = machine.copy()
    n_samples = max(_FIRST * n, _FEWEST)
    ladder = ladder_of(machine, rng, visible=visible, n_samples=n_samples, n_sweeps=_BURN_IN)
    return ladder.last(n, rng), Tempered(ladder)


def review(machine, rows, tempered, rng):
    """Propose samples of the last rung to chains, and add a rung where few are accepted.

    Parameters
    ----------
    machine : Machine
        After the last step.
    rows : array of shape (n_chains, n_visible)
        Visible values of the chains.
    tempered : Tempered
    rng : Rng

    Returns
    -------
    rows : array of shape (n_chains, n_visible)
    tempered : Tempered
    """
    n, ladder = rows.shape[0], tempered.ladder
    last, samples = ladder.machines[-1], ladder.samples[-1]
    rows, rates = renewed(machine, rows, last, samples, rng)
    tempered = tempered._replace(
        exchange=float(namespace(rates).mean(rates)), n_steps=tempered.n_steps + 1
    )
    if tempered.exchange >= _NEW_RUNG:
        turn, due = divmod(tempered.n_steps, _EVERY)
        if due == 0:
            k = turn % len(ladder)
            ladder.move(k, n, rng)
            rows, _ = renewed(machine, rows, ladder.machines[k], ladder.samples[k], rng)
        return rows, tempered
    # The chains lag behind the machine: those of the new rung start at samples of the last one,
    # drawn by importance weight, so that modes have their shares from the start.
    drawn = resampled(samples, gains_of(last, machine, samples), rng)
    rows = namespace(rows).take(drawn, rng.permutation(drawn.shape[0])[:n], axis=0)
    rung = machine.copy()
    found = collected(rung, rows, ladder, rng, _BURN_IN, _BLOCKS, _SPACING)
    ladder = ladder.extended(rung, found, _KEPT * n, _NEW_RUNG)
    return last_rows(ladder.samples[-1], n), tempered._replace(ladder=ladder, n_steps=0)


def ladder_to(machine, rows, tempered):
    """Return the ladder of tempered chains with a last rung: a machine, and its chains.

    It has copies of as many samples of each rung as there are chains.
    """
    return tempered.ladder.extended(machine, rows, rows.shape[0], _NEW_RUNG)


class TemperedStart(PersistentStart):
    """Continue after exchanges with samples of earlier machines of the training."""

    for_ranks = False  # rungs are made of machines that all chains have come to together
    one_hidden_layer = True  # or there is no formula for the free energies that exchanges need
    remedy = "; use more chains or hidden units"
    divergence = 0.1  # nats, of a step after which samples of the last rung are still exchanged

    def first(self, phase, machine, rng, n):
        base = None if phase.noise is None else noisy_base(machine, phase.noise).thetas[0]
        rows, tempered = first_tempered(machine, rng, n, base)
        return rows, {"tempered": tempered}

    def reviewed(self, phase, machine, state, rng):
        rows = state.chains.layers[0]
        now, tempered = review(machine, rows, state.tempered, rng)
        chains = state.chains if now is rows else phase.sampler.state_at(machine, now, rng)
        return state._replace(chains=chains, tempered=tempered)
