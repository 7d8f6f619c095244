"""Chains of the model phase that exchange with samples of earlier machines of the training.

Parallel trajectory tempering (Bereux et al. 2025): training begins with independent units, which
are sampled exactly, and passes through machines that are sampled in turn by exchanges with samples
of the previous one. The chains of the current machine thus have its distribution, however deep its
modes are.
"""

from dataclasses import dataclass
from typing import NamedTuple

from ..arrays import last_rows, namespace
from ..inference import Ladder, collected, gains_of, ladder_of, renewed, resampled
from ._chains import BURN_IN, FollowingPhase, noisy_base

_NEW_RUNG = 0.3  # acceptance below which the present machine becomes a rung
_SPACING = 4  # sweeps between samples of a new rung
# Samples of a rung, of fewer than that many numbers, and how many times as many a new rung has:
# chains learn the shares of modes from them.
_KEPT, _NUMBERS, _NEW = 1000, 2**24, 3
_EVERY = 4  # steps after which some samples of one of the rungs are moved, and proposed


class Tempered(NamedTuple):
    """State of tempered chains.

    ``ladder`` has machines that the training has passed through, and samples of them, which are
    moved in place. ``n_steps`` are those since the last rung, and ``exchange`` is the mean
    probability of the last exchanges; None before the first.
    """

    ladder: Ladder
    n_steps: int = 0
    exchange: float | None = None


@dataclass(frozen=True)
class TemperedPhase(FollowingPhase):
    """Persistent chains after exchanges with samples of earlier machines of the training."""

    start = "tempered"

    @property
    def remedies(self):
        return {"inference": "more chains", "n_components": "more hidden units"}

    def _first(self, machine, rng, n, X):
        """Return rows of the last rung of a ladder that is found by annealing, and the state."""
        base = None if self.noise is None else noisy_base(machine, self.noise).thetas[0]
        options = {"n_samples": _n_samples(n, machine), "n_sweeps": BURN_IN}
        ladder = ladder_of(machine.copy(), rng, visible=base, **options)
        return ladder.last(n, rng), Tempered(ladder)

    def reviewed(self, machine, state, X, rng):
        """Propose samples of the last rung to chains, and add a rung where few are accepted."""
        rows, tempered = self.visible(state), state.more
        n, ladder = rows.shape[0], tempered.ladder
        last, samples = ladder.machines[-1], ladder.samples[-1]
        moved, rates = renewed(machine, rows, last, samples, rng)
        tempered = tempered._replace(
            exchange=float(namespace(rates).mean(rates)), n_steps=tempered.n_steps + 1
        )
        turn, due = divmod(tempered.n_steps, _EVERY)
        if tempered.exchange < _NEW_RUNG:
            # The chains lag behind the machine: those of the new rung start at samples of the last
            # one, drawn by importance weight, so that modes have their shares from the start.
            drawn = resampled(samples, gains_of(last, machine, samples), rng)
            rung = machine.copy()
            found = namespace(rows).take(drawn, rng.permutation(drawn.shape[0])[:n], axis=0)
            n_kept = _n_samples(n, machine)
            found = collected(rung, found, ladder, rng, BURN_IN, _NEW * n_kept // n, _SPACING)
            ladder = ladder.extended(rung, found, n_kept, _NEW_RUNG)
            tempered = tempered._replace(ladder=ladder, n_steps=0)
            moved = last_rows(ladder.samples[-1], n)
        elif due == 0:
            k = turn % len(ladder)
            ladder.move(k, n, rng)
            moved, _ = renewed(machine, moved, ladder.machines[k], ladder.samples[k], rng)
        chains = state.chains if moved is rows else self.sampler.state_at(machine, moved, rng)
        return state._replace(chains=chains, more=tempered)

    def ladder(self, machine, state):
        """Return the ladder with a last rung: the machine, and its chains."""
        rows = self.visible(state)
        return state.more.ladder.extended(machine, rows, rows.shape[0], _NEW_RUNG)

    def report(self, state):
        found, tempered = super().report(state), state.more
        if tempered.exchange is None:
            return found
        return {"exchange": tempered.exchange, "n_rungs": float(len(tempered.ladder)), **found}


def _n_samples(n, machine):
    """Return how many samples a rung has for ``n`` chains."""
    return max(n, 2, min(_KEPT, _NUMBERS // machine.n_units[0]))
