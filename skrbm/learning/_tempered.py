"""Chains of the model phase that exchange with samples of earlier machines of the training.

Parallel trajectory tempering (Bereux et al. 2025): a training begins at independent units, which
are sampled exactly, and passes through machines that are sampled in turn by exchanges with samples
of the last one. So the chains of the present machine have its distribution, however deep its modes.
"""

from typing import NamedTuple

from ..arrays import last_rows, namespace
from ..inference import Ladder, Reservoir, collected, ladder_of

_NEW_RUNG = 0.3  # acceptance below which the present machine becomes a rung
_STEP_BACK = 0.1  # acceptance below which the last steps are taken back
# Sweeps at a new rung. Chains learn the shares of modes from its samples, so that there are many.
_BURN_IN, _BLOCKS, _SPACING = 30, 30, 4
_FIRST, _FEWEST = 10, 100  # samples of the first rungs: of each chain, and of all at least


class Tempered(NamedTuple):
    """What tempered chains go on from.

    Attributes
    ----------
    ladder : Ladder
        Machines that the training has passed through, and samples of them.
    reservoir : Reservoir
        Samples of the last of them, as exchanges have left them.
    n_steps : int
        Steps since the last rung.
    exchange : float or None
        Mean probability of the last exchanges; None before the first.
    n_back : int
        How often steps were taken back.
    """

    ladder: Ladder
    reservoir: Reservoir
    n_steps: int = 0
    exchange: float | None = None
    n_back: int = 0

    def report(self):
        """Return numbers for the history of a fit, a dict of floats."""
        if self.exchange is None:
            return {}
        return {
            "exchange": self.exchange,
            "n_rungs": float(len(self.ladder)),
            "n_steps_back": float(self.n_back),
        }


def first_tempered(machine, rng, n):
    """Return the state of tempered chains of a machine, whose ladder is found by annealing.

    Parameters
    ----------
    machine : Machine
        Which may be written in place later.
    rng : Rng
    n : int
        Number of chains.

    Returns
    -------
    rows : array of shape (n, n_visible)
        Where the chains start.
    Tempered
    """
    machine = machine.copy()
    ladder = ladder_of(machine, rng, n_samples=max(_FIRST * n, _FEWEST))
    return _last_samples(ladder, rng, n), Tempered(ladder, _reservoir(ladder))


def review(machine, rows, tempered, rng):
    """Exchange chains with samples of the last rung, and judge the steps since then.

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
    machine : Machine
        The one given, or a copy of the last rung if the steps since then were too long.
    rows : array of shape (n_chains, n_visible)
    tempered : Tempered
    factor : float
        By which the learning rate is multiplied: 0.5 if steps are taken back, else 1.
    """
    n, ladder = rows.shape[0], tempered.ladder
    rows, reservoir, rates = tempered.reservoir.exchange(machine, rows, rng)
    rate = float(namespace(rates).mean(rates))
    if rate >= _NEW_RUNG:
        steps = tempered.n_steps + 1
        return machine, rows, Tempered(ladder, reservoir, steps, rate, tempered.n_back), 1.0
    if not rate >= _STEP_BACK or tempered.n_steps <= 1:
        rows, last = _last_samples(ladder, rng, n), ladder.machines[-1].copy()
        tempered = Tempered(ladder, _reservoir(ladder), 0, rate, tempered.n_back + 1)
        return last, rows, tempered, 0.5
    kept = machine.copy()
    samples = collected(kept, rows, _reservoir(ladder), rng, _BURN_IN, _BLOCKS, _SPACING)
    ladder = ladder.extended(kept, samples, n, _NEW_RUNG)
    reservoir = _reservoir(ladder)
    tempered = Tempered(ladder, reservoir, 0, rate, tempered.n_back)
    return machine, last_rows(samples, n), tempered, 1.0


def ladder_to(machine, rows, tempered):
    """Return the ladder of tempered chains with a last rung: a machine, and its chains."""
    return tempered.ladder.extended(machine, rows, rows.shape[0], _NEW_RUNG)


def _reservoir(ladder):
    return Reservoir.of(ladder.machines[-1], ladder.samples[-1])


def _last_samples(ladder, rng, n):
    """Return ``n`` random samples of the last rung."""
    rows = ladder.samples[-1]
    return namespace(rows).take(rows, rng.permutation(rows.shape[0])[:n], axis=0)
