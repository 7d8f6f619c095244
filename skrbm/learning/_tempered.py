"""Chains of the model phase that exchange with samples of earlier machines of the training.

Parallel trajectory tempering (Bereux et al. 2025): a training begins at independent units, which
are sampled exactly, and passes through machines that are sampled in turn by exchanges with samples
of the last one. So the chains of the present machine have its distribution, however deep its modes.
"""

from typing import NamedTuple

from ..arrays import last_rows, namespace, to_numpy
from ..inference import (
    Ladder,
    collected,
    gains_of,
    ladder_of,
    predicted_rate,
    renewed,
    resampled,
)
from ..machine import interpolate

_NEW_RUNG = 0.3  # acceptance below which the present machine becomes a rung
_STEP_BACK = 0.1  # acceptance below which the last steps are taken back
# Sweeps at a new rung. Chains learn the shares of modes from its samples, so that there are many.
_BURN_IN, _BLOCKS, _SPACING = 30, 30, 4
_APART = 0.25  # acceptance of samples of two rungs below which steps between them are taken back
_HALVES = 3  # how often half of the way is, before all steps are
_FASTER = 2 ** (1 / 100)  # factor on a rate that was halved, for each step until the next rung
_FIRST, _FEWEST = 10, 100  # samples of the first rungs: of each chain, and of all at least
_KEPT = 10  # samples of the rungs below the last one, of each chain
_EVERY = 4  # steps after which some samples of one of the rungs are moved, and proposed


class Tempered(NamedTuple):
    """What tempered chains go on from.

    Attributes
    ----------
    ladder : Ladder
        Machines that the training has passed through, and samples of them, which are moved in
        place.
    n_steps : int
        Steps since the last rung.
    exchange : float or None
        Mean probability of the last exchanges; None before the first.
    n_back : int
        How often steps were taken back.
    """

    ladder: Ladder
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
    return _last_samples(ladder, rng, n), Tempered(ladder)


def review(machine, rows, tempered, rng):
    """Propose samples of the last rung to chains, and judge the steps since then.

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
        The one given, or where the steps since the last rung were too long: a copy of this rung,
        or of a new one on the way.
    rows : array of shape (n_chains, n_visible)
    tempered : Tempered
    factor : float
        By which the learning rate is multiplied: 0.5 if steps are taken back, else 1, or a little
        more between rungs. It shall not become larger than it was at first.
    """
    n, ladder = rows.shape[0], tempered.ladder
    last = ladder.machines[-1], ladder.samples[-1]
    rows, rates = renewed(machine, rows, *last, rng)
    tempered = tempered._replace(exchange=float(namespace(rates).mean(rates)))
    if tempered.exchange >= _NEW_RUNG:
        turn, due = divmod(tempered.n_steps, _EVERY)
        if due == 0:
            k = turn % len(ladder)
            ladder.move(k, n, rng)
            rows, _ = renewed(machine, rows, ladder.machines[k], ladder.samples[k], rng)
        return machine, rows, tempered._replace(n_steps=tempered.n_steps + 1), _FASTER
    longer, is_whole = ladder, False
    if tempered.exchange >= _STEP_BACK and tempered.n_steps > 1:
        longer, is_whole = _with_rung(machine.copy(), rows, ladder, rng)
    tempered = tempered._replace(ladder=longer, n_steps=0)
    if is_whole:
        return machine, last_rows(longer.samples[-1], n), tempered, 1.0
    tempered = tempered._replace(n_back=tempered.n_back + 1)
    return longer.machines[-1].copy(), _last_samples(longer, rng, n), tempered, 0.5


def _with_rung(machine, rows, ladder, rng):
    """Return the ladder with a new rung, the machine, and True if that is near the last rung.

    Chains lag behind the machine: where they still exchange, its own samples may hardly do so. As a
    rule modes then change their weights by more in a step than chains can follow. Importance
    weights of the samples of the last rung tell so at once. The new rung is a machine on the way
    then, if there is one near enough. Its chains start at samples drawn by these weights, so that
    the modes have their shares from the start.
    """
    last, samples, n = ladder.machines[-1], ladder.samples[-1], rows.shape[0]
    for n_halves in range(_HALVES + 1):
        log_weights = gains_of(last, machine, samples)
        if predicted_rate(to_numpy(log_weights)) >= _APART:
            drawn = resampled(samples, log_weights, rng)
            rows = namespace(rows).take(drawn, rng.permutation(drawn.shape[0])[:n], axis=0)
            found = collected(machine, rows, ladder, rng, _BURN_IN, _BLOCKS, _SPACING)
            return ladder.extended(machine, found, _KEPT * n, _NEW_RUNG), n_halves == 0
        machine = interpolate(last, machine, 0.5)
    return ladder, False


def ladder_to(machine, rows, tempered):
    """Return the ladder of tempered chains with a last rung: a machine, and its chains.

    It has copies of as many samples of each rung as there are chains.
    """
    return tempered.ladder.extended(machine, rows, rows.shape[0], _NEW_RUNG)


def _last_samples(ladder, rng, n):
    """Return ``n`` random samples of the last rung."""
    rows = ladder.samples[-1]
    return namespace(rows).take(rows, rng.permutation(rows.shape[0])[:n], axis=0)
