"""What is known of the chains of a machine, and what it says in one sentence."""

from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr, stdtrit

from ..inference import RARE_EXCHANGES, Exchanges
from ._agreement import Neighbours, Quality

_MIXED = 1.1  # R-hat up to which chains count as mixed
_FEWEST = 100  # effective samples that means need
_VARIES = 1.5  # spread of moments, in units of their noise, above which their correlation tells
_SURE = 4  # standard errors: a normal one is larger with a probability of 3e-5


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """How chains of a machine mix, and how their samples agree with data.

    Attributes
    ----------
    observables : tuple of str
        What was measured after each sweep: the free energy (of a deep machine the energy) and
        projections of the visible units on the leading singular vectors of the weights. Of
        chains without a machine, each feature.
    n_steps, n_chains : int
        Sweeps that count, and chains.
    n_run : int or None
        All sweeps of each chain; None if chains were given.
    can_temper : bool
        Whether chains of the machine can go along a ladder; False without a machine.
    time, time_std : ndarray of shape (n_observables,)
        Integrated autocorrelation time in sweeps, by the initial monotone sequence of Geyer
        (1992) over all chains, and its standard error by the formula of Madras and Sokal (1988).
    r_hat : ndarray of shape (n_observables,)
        Rank-normalised split R-hat (Vehtari et al. 2021). NaN, as the others, for constants.
    ess : ndarray of shape (n_observables,)
        Effective sample size of all chains (the same).
    autocorrelation : ndarray of shape (n_steps, n_observables)
        By lag, from 0.
    moments : tuple of ComparedMoments
        Connected moments of first, second and third order, empty without data. Each has ``data``,
        ``samples``, ``correlation``, ``slope``, ``error``, and the ``noise`` and ``limit`` of it.
    neighbours : Neighbours
        Nearest-neighbour adversarial accuracies ``truth`` and ``synth`` and their ``std``; NaN
        without data.
    quality : Quality or None
        Errors of moments by the number of ``sweeps`` from random starts: if they fall and then
        rise, the machine was trained out of equilibrium (Decelle, Furtlehner and Seoane 2021).
    exchanges : Exchanges or None
        ``acceptance`` of the neighbours of a ladder, and ``round_trips`` of each chain in all its
        sweeps, where chains were run along one.
    """

    observables: tuple
    n_steps: int
    n_chains: int
    time: np.ndarray
    time_std: np.ndarray
    r_hat: np.ndarray
    ess: np.ndarray
    autocorrelation: np.ndarray = field(repr=False)
    moments: tuple = field(default=(), repr=False)
    neighbours: Neighbours = field(default_factory=Neighbours)
    quality: Quality | None = field(default=None, repr=False)
    exchanges: Exchanges | None = field(default=None, repr=False)
    n_run: int | None = None
    can_temper: bool = False

    @property
    def verdict(self):
        """One sentence: what is wrong and what to do, of several faults the gravest."""
        return next(text for text in (fault(self) for fault in _FAULTS) if text)

    def __str__(self):
        rows = zip(self.observables, self.time, self.time_std, self.r_hat, self.ess, strict=True)
        order = np.argsort(-np.nan_to_num(self.r_hat), kind="stable")[:_LINES]
        table = [
            f"{name:16s} autocorrelation time {time:.4g} ± {std:.3g}, R-hat {r_hat:.3f}, "
            f"ESS {n:.0f}"
            for name, time, std, r_hat, n in np.array([*rows], dtype=object)[np.sort(order)]
        ]
        head = f"{self.n_chains} chains of {self.n_steps} sweeps"
        return "\n".join([self.verdict, head, *table, *self._agreement()])

    def _agreement(self):
        """Return lines about the ladder, and about samples and data."""
        lines = [] if self.exchanges is None else [_along_ladder(self.exchanges)]
        lines += [
            f"moments of order {order}: {_along_line(m)}error {m.error:.2g} (limit {m.limit:.2g})"
            for order, m in enumerate(self.moments, 1)
        ]
        if self.moments:
            truth, synth, std = self.neighbours
            lines.append(f"adversarial accuracy: truth {truth:.2f}, synth {synth:.2f}, ± {std:.2f}")
        return lines


def _along_line(moments):
    """Return how near to a line moments of samples and of data lie; they do not if constant."""
    if np.isnan(moments.correlation):
        return ""
    return f"correlation {moments.correlation:.3f}, slope {moments.slope:.3f}, "


_LINES = 8  # observables that are printed, those with the largest R-hat


def _out_of_equilibrium(d):
    """Samples become worse with more sweeps (Decelle, Furtlehner and Seoane 2021)."""
    q = d.quality
    if q is None:
        return None
    sure = stdtrit(q.n_chains - 1, ndtr(_SURE))  # as _SURE, where the standard error is not known
    if not (q.fall > sure * q.fall_std and q.rise > sure * q.rise_std):
        return None
    best = int(np.argmin(q.error))
    return (
        "The machine was trained out of equilibrium: samples from random starts are best after "
        f"{q.sweeps[best]} sweeps (error of moments {q.error[best]:.2g}) and worse after "
        f"{q.sweeps[-1]} ({q.error[-1]:.2g}); sample with as few sweeps as are best, or train "
        "with persistent chains, more n_steps or a smaller learning_rate"
    )


def _blocked(d):
    """Values do not come from the first rung of a ladder to the last one."""
    if d.exchanges is None:
        return None
    rates, trips = d.exchanges.acceptance, d.exchanges.round_trips
    rarest = int(np.nanargmin(rates))
    if rates[rarest] < RARE_EXCHANGES:
        return (
            f"The ladder lacks rungs: rungs {rarest + 1} and {rarest + 2} of {rates.size + 1} "
            f"accept {rates[rarest]:.1%} of their exchanges (at least {RARE_EXCHANGES:.0%} is "
            "good), so that the last rung does not get its modes from the first; build a ladder "
            "with closer rungs by ladder_of(estimator, random_state, acceptance=0.6), or use "
            "Tempering with more rungs"
        )
    if trips.sum() >= _FEWEST:
        return None
    few = max(int(trips.sum()), 1)
    n_steps = _rounded(2 * d.exchanges.n_steps * _FEWEST / few)
    return (
        f"Chains are too short for the ladder: values made {trips.sum()} round trips between its "
        f"first and its last rung ({_FEWEST} are needed); use n_steps={n_steps} or more chains, or "
        "a ladder with fewer rungs"
    )


def _along_ladder(found):
    """Return a line about the exchanges of a ladder."""
    rates, trips = found.acceptance, found.round_trips
    return (
        f"ladder of {rates.size + 1} rungs: acceptance {np.nanmin(rates):.2f} to "
        f"{np.nanmax(rates):.2f}, {trips.mean():.3g} round trips of a chain in {found.n_steps} "
        "sweeps"
    )


def _unmixed(d):
    """Chains have different distributions."""
    if not np.nanmax(d.r_hat, initial=0) > _MIXED:
        return None
    worst = int(np.nanargmax(d.r_hat))
    more = ""
    if d.can_temper and not d.exchanges:
        more = "run them along a ladder (method='tempering'), "
    return (
        f"Chains do not mix: R-hat {d.r_hat[worst]:.2f} of {d.observables[worst]} in {d.n_steps} "
        f"sweeps (at most {_MIXED} is good), so that their means are not those of the machine; "
        f"{more}run more sweeps, check log Z by bracket, or train with more n_steps, a smaller "
        "learning_rate or a larger alpha"
    )


def _too_short(d):
    if not np.nanmin(d.ess, initial=np.inf) < _FEWEST:
        return None
    worst = int(np.nanargmin(d.ess))
    times = _FEWEST / max(d.ess[worst], 1.0)
    remedy = f"give chains of {_rounded(d.n_steps * times)} steps"
    if d.n_run is not None:
        remedy = f"use n_steps={_rounded(d.n_run * times)}"
    return (
        f"Chains are too short: all together are worth {d.ess[worst]:.0f} independent samples of "
        f"{d.observables[worst]} ({_FEWEST} are needed); {remedy}, or more chains"
    )


def _copies(d):
    truth, _, std = d.neighbours
    if not truth < 0.5 - _SURE * std:
        return None
    return (
        f"Samples are copies of data: only {truth:.0%} of its rows are nearer to other rows than "
        "to samples (50 % is good); use fewer hidden units, a larger alpha or early_stopping, and "
        "compare the score of held-out rows"
    )


def _differs(d):
    truth, synth, std = d.neighbours
    poor = [m.error > m.limit for m in d.moments[:2]]
    if not (max(truth, synth) > 0.5 + _SURE * std or any(poor)):
        return None
    return (
        f"Chains mix, but samples differ from data ({_compared(d)}; adversarial "
        f"accuracies {truth:.2f} and {synth:.2f}, where 0.5 is good); train for more epochs with a "
        "decreasing learning_rate, or with more hidden units"
    )


def _no_fault(d):
    if np.isnan(d.r_hat).all():
        return (
            "Nothing can be said of chains that all have one constant value: they may be stuck in "
            "one mode; give other chains, or let method='tempering' draw them"
        )
    text = (
        f"No fault was found: chains mix (R-hat at most {np.nanmax(d.r_hat):.2f}, autocorrelation "
        f"times up to {np.nanmax(d.time):.4g} sweeps)"
    )
    if not d.moments:
        return f"{text}; give data X to compare samples with them"
    return f"{text}, and samples agree with data ({_compared(d)})"


_FAULTS = (_out_of_equilibrium, _blocked, _unmixed, _too_short, _copies, _differs, _no_fault)
"""Functions of a diagnosis that return a sentence or None, the gravest fault first.

What else is measured of chains becomes a field of :class:`Diagnosis` that is None by default, and
a function here.
"""


def _compared(d):
    """Return how first and second moments agree: correlations where they vary, else errors."""
    return ", ".join(
        f"correlation of {order} moments {m.correlation:.2f}"
        if np.std(m.data) > _VARIES * m.noise
        else f"error of {order} moments {m.error:.2g}, by chance up to {m.limit:.2g}"
        for order, m in zip(("first", "second"), d.moments, strict=False)
    )


def _rounded(number):
    """Return a number of sweeps with one digit that is not 0, rounded up."""
    power = 10 ** int(np.log10(max(number, 1)))
    return int(-(-number // power) * power)
