"""Estimates of log Z from below and from above."""

from dataclasses import dataclass
from math import hypot, isnan

from ..arrays import seed_sequence
from ..inference import AIS, SMC, LogPartition, resolve
from ._density import density_of
from ._log_partition import log_partition, reverse_log_partition

_ERRORS = 3  # standard errors that agreeing estimates differ by


@dataclass(frozen=True)
class Bracket:
    """Two estimates of log Z, of which the first is too small and the second too large on average.

    Attributes
    ----------
    forward : LogPartition
        By chains from independent units to the machine.
    reverse : LogPartition
        By chains from samples of the machine to independent units.
    """

    forward: LogPartition
    reverse: LogPartition

    @property
    def gap(self):
        """The reverse estimate minus the forward one, in nats."""
        return self.reverse.value - self.forward.value

    @property
    def std(self):
        """Standard error of the gap."""
        return hypot(self.forward.std, self.reverse.std)

    @property
    def agrees(self):
        """Whether the estimates differ by at most three standard errors."""
        return abs(self.gap) <= _ERRORS * self.std

    @property
    def verdict(self):
        """One sentence: whether the estimates agree, and what to do if they do not."""
        below, above = (
            f"{part.value:.2f} ± {part.std:.2f}" for part in (self.forward, self.reverse)
        )
        both = f"log Z is {below} by forward and {above} by reverse annealing"
        if isnan(self.std):
            return (
                f"Nothing can be said: {both}, and a single chain or run tells no error; use more"
            )
        if self.agrees:
            return f"Estimates agree: {both}; only a mode that both miss could be left out"
        if self.gap > 0:
            return (
                f"Estimates disagree: {both}; chains from independent units have missed modes, or "
                "chains from the starts hold only some of those: use more temperatures or chains, "
                "and quote the larger log Z, by which likelihoods are the smaller"
            )
        return (
            f"Estimates disagree: {both}; the reverse one is smaller, so that its chains do not "
            "have the distribution of the machine: use a longer burn_in, other starts, or more "
            "temperatures, and quote the larger log Z"
        )

    def __str__(self):
        return self.verdict


def bracket(
    model, starts=None, *, method="smc", reverse="smc", burn_in=1000, base=None, random_state=None
):
    """Estimate log Z from below and from above, and say whether the two agree.

    Parameters
    ----------
    model : estimator, Density or Machine
    starts : array of shape (n_starts, n_visible), default=None
        Visible values where the chains of the reverse estimate start, such as rows of data; as in
        :func:`reverse_log_partition`.
    method : "smc", "ais" or object, default="smc"
        Of the forward estimate: annealing, by an :class:`SMC` or :class:`AIS`. Other estimates of
        :func:`log_partition` are not too small on average, or are exact and need no bracket.
    reverse : "smc", "ais" or object, default="smc"
        Of the reverse estimate.
    burn_in : int, default=1000
        Gibbs sweeps from the starts before the reverse annealing.
    base : Theta, default=None
        Visible parameters of independent units, as in :func:`log_partition`.
    random_state : int, RandomState or SeedSequence, default=None

    Returns
    -------
    Bracket
        ``forward``, ``reverse``, ``gap``, ``std``, ``agrees`` and a ``verdict`` of one sentence.

    Notes
    -----
    Estimates that are right, with normal errors of known size, differ by more than three standard
    errors with a probability of 0.3 %.
    """
    density = density_of(model)
    methods = {"smc": SMC(), "ais": AIS()}
    method = resolve(method, AIS, SMC, argument="method", own=methods)
    reverse = resolve(reverse, AIS, SMC, argument="reverse", own=methods)
    first, second = seed_sequence(random_state).spawn(2)
    above = reverse_log_partition(
        density, starts, method=reverse, burn_in=burn_in, base=base, random_state=second
    )
    below = log_partition(density, method, base=base, random_state=first)
    return Bracket(below, above)
