"""Learning rates that are found in training: from how a step changes free energies."""

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from .._ranks import ranks
from ..arrays import is_foreign, like, namespace, number, numbers

_FIRST = 10  # steps that are all measured, as the first rate is a guess
_SMALLEST = 1e-6  # rate at which steps are not taken back any more: it is not they that diverge
_CHAINS = 100  # by which a step is measured, where the smallest rate holds
_PLAIN = 4.0  # caution where gradients are not centred, or parameters not averaged
_DOUBTFUL = 30  # steps after some were taken back, in which it is not known whether that helped
_OF_SOLUTIONS = 10.0  # largest rate of bits where equations are solved
_NOISE = 0.02  # nats for each visible unit, of a step where nothing averages out its noise


class RateState(NamedTuple):
    """What is known of steps: running means, for a learning rate of 1.

    Attributes
    ----------
    rate : float
        Of the next step, before the schedule's factor.
    deviation : float
        Standard deviation s of the change of the free energy, a geometric mean, in nats. So a
        measurement of a step that went astray does not count for long.
    gain : float
        First-order gain g of the log-likelihood of a batch by a step, in units of s.
    n_steps : int
    cap : float
        Largest rate, after steps were taken back.
    age : float
        Number of steps in all. ``n_steps`` begins anew where steps are taken back.
    back : float
        The age at which steps were taken back last.
    """

    rate: float
    deviation: float = 1.0
    gain: float = 0.0
    n_steps: int = 0
    cap: float = math.inf
    age: float = 0.0
    back: float = -math.inf

    def counted(self):
        """Return the state after one more step."""
        return self._replace(n_steps=self.n_steps + 1, age=self.age + 1)


@dataclass(frozen=True)
class AutomaticRate:
    """The learning rate at which a step gains the most, by the machine's own samples.

    A step of length r changes the mean log-likelihood of a batch by r g - r² s² / 2 to second
    order. The gain g is the product of gradient and step for r = 1, and r² s² is the variance
    of dF over samples of the machine, where dF is the change of their free energies by the step.
    r² s² / 2 is the divergence KL(old || new) of the machines before and after it. The maximum lies
    at r = g / s² (Cauchy's step, with the Fisher information in place of the Hessian). It depends
    neither on the length of the step by which it is measured nor on units of measure. s is a
    running mean, or the last measurement where that is larger: weights that leave zero grow by a
    factor in each step, which a mean would follow too late. Where several steps together go too
    far, as they do if chains lag behind the machine, learning goes back to the last measurement
    with half the rate; if that happens again within 30 steps, to an earlier place, since chains may
    have been on their way to a mode that they had just found.

    Parameters
    ----------
    factor : float, default=16.0
        Largest rate in units of g / s². It is not 1, as most of s² comes from few directions, in
        which steps may swing back and forth, and learning in the others should not wait for these.
    largest_divergence : float, default=0.15
        Largest divergence of a step for each visible unit, in nats: the trust region.
    farthest : float, default=3.75
        Divergence for each visible unit, in nats, beyond which all steps since the last measurement
        are taken back.
    smallest : float, default=0.0
        Rate below which none is, whatever is measured, unless steps were taken back. With fewer
        than 100 samples it is as many times smaller.
    largest : float, default=inf
        Rate above which none is, whatever is measured.
    usual : float, default=inf
        Where a larger rate is measured, the geometric mean of it and of this one is taken.
    settled : float, default=inf
        Number of steps after which rates fall with its root, the smallest as well; chains follow
        shorter steps better.
    largest_gain : float, default=inf
        Largest r g for each visible unit, in nats. Near the maximum all of g is noise, and
        parameters that move at a constant rate lose about r g / 4 nats by it.
    first : float, default=0.05
        Rate of the first step.
    every : int, default=5
        Steps from one measurement to the next, after the first ten.
    memory : float, default=0.1
        Weight of a new measurement in the running means.
    growth : float, default=1.5
        Largest factor by which a measurement raises the rate; it halves it at most.
    recovery : float, default=1.1
        Factor by which a measurement raises the largest rate after steps were taken back, from the
        30th step after that on.
    """

    factor: float = 16.0
    largest_divergence: float = 0.15
    farthest: float = 3.75
    smallest: float = 0.0
    largest: float = math.inf
    usual: float = math.inf
    settled: float = math.inf
    largest_gain: float = math.inf
    first: float = 0.05
    every: int = 5
    memory: float = 0.1
    growth: float = 1.5
    recovery: float = 1.1

    @classmethod
    def for_two_values(cls, *units):
        """Return the rule for layers of units; another than the default if each has two values.

        Then the variance of a unit has a bound, and gradients have one, so that it is known for
        which rates machines learn well. The limits are those of bits, and for other values they are
        changed as a change of units of measure changes rates.
        """
        scale = _unit_of_rates(units)
        if scale == math.inf:
            return cls()
        return cls(
            farthest=15.0,
            smallest=0.4 * scale,
            usual=1.0 * scale,
            largest=1.5 * scale,
            settled=1000,
        )

    @classmethod
    def for_solutions(cls, *units):
        """Return the rule where solutions of equations take the place of samples.

        It is the default one, but for layers of two values rates have a limit: where nearly all
        columns are nearly constant, solutions hardly differ, and no other limit holds.
        """
        return cls(largest=_OF_SOLUTIONS * max(_unit_of_rates(pair) for pair in pairwise(units)))

    def cautious(self, caution):
        """Return the rule with smaller limits and a smaller first rate."""
        names = "factor largest_divergence farthest smallest largest usual first".split()
        return replace(self, **{name: getattr(self, name) / caution for name in names})

    def init(self):
        """Return the state before the first step."""
        return RateState(min(self.first, self.largest))

    def measures(self, state):
        """Whether the next step is measured."""
        return state.n_steps < _FIRST or state.n_steps % self.every == 0

    def is_steady(self, state):
        """Whether all steps from now on are alike, but for whether they are measured."""
        return state.n_steps >= max(_FIRST, 1 / self.memory)

    def next(self, state, gain, change, n_visible, length):
        """Return the state after a step that was measured.

        Parameters
        ----------
        state : RateState
        gain : float
            Gradient times step, in nats.
        change : array of shape (n_samples,), float64
            Change of the free energies of samples of the machine by the step, on this rank.
        n_visible : int
        length : float
            Rate of the step.
        """
        if is_foreign(change):
            return self._next_without_waiting(state, gain, change, n_visible, length)
        deviation = float(ranks().variance(change)) ** 0.5
        if not (gain - gain == 0 and deviation - deviation == 0):  # inf or NaN: it was too long
            return state.counted()._replace(rate=0.5 * state.rate)
        if deviation == 0:  # samples that agree, or a single one, tell nothing: the rate stays
            return state.counted()
        # Few measurements are averaged with equal weights.
        part = max(self.memory, 1 / (1 + state.n_steps))
        gain = state.gain + part * (gain / deviation - state.gain)
        latest = deviation / length
        deviation = state.deviation * (latest / state.deviation) ** part
        best = self.factor * max(gain, 0.0), (2 * self.largest_divergence * n_visible) ** 0.5
        rate = min(best) / max(deviation, latest)
        rate = rate / max(1.0, (rate / self.usual) ** 0.5)
        rate = min(self._fall(state) * max(rate, self._least(change)), state.cap, self.largest)
        if gain > 0:
            rate = min(rate, self.largest_gain * n_visible / (gain * deviation))
        rate = min(max(rate, 0.5 * state.rate), self.growth * state.rate)
        cap = state.cap if self.is_doubtful(state) else self.recovery * state.cap
        return state.counted()._replace(rate=rate, deviation=deviation, gain=gain, cap=cap)

    def _fall(self, state):
        """Return by what rates are multiplied at a step: sqrt(settled / step), at most 1."""
        root = (self.settled / (1 + state.age)) ** 0.5
        return namespace(root).clip(root, None, 1.0) if is_foreign(root) else min(1.0, root)

    def _least(self, change):
        """Return the smallest rate, by how many samples steps are measured."""
        return self.smallest * min(1.0, ranks().size * change.shape[0] / _CHAINS)

    def _next_without_waiting(self, state, gain, change, n_visible, length):
        """Return the same with arrays of no dimensions for all but the number of steps."""
        xp, state = namespace(change), self.held(state, change)
        deviation = ranks().variance(change) ** 0.5
        finite = xp.isfinite(gain) & xp.isfinite(deviation)
        tells, one = finite & (deviation > 0) & (length > 0), xp.ones_like(deviation)
        part, deviation = max(self.memory, 1 / (1 + state.n_steps)), xp.where(tells, deviation, one)
        gain = state.gain + part * (gain / deviation - state.gain)
        latest = deviation / xp.where(tells, length, one)
        deviation = state.deviation * (latest / state.deviation) ** part
        steady = self.factor * xp.clip(gain, 0.0, None)
        largest = (2 * self.largest_divergence * n_visible) ** 0.5 * one
        rate = xp.minimum(steady, largest) / xp.maximum(deviation, latest)
        rate = rate / xp.clip(xp.sqrt(rate / self.usual), 1.0, None)
        rate = self._fall(state) * xp.clip(rate, self._least(change), None)
        rate = xp.minimum(xp.clip(rate, None, self.largest), state.cap)
        short = self.largest_gain * n_visible / xp.where(gain > 0, gain * deviation, one)
        rate = xp.where(gain > 0, xp.minimum(rate, short), rate)
        rate = xp.minimum(xp.maximum(rate, 0.5 * state.rate), self.growth * state.rate)
        cap = xp.where(self.is_doubtful(state), state.cap, self.recovery * state.cap)
        found = rate, deviation, gain, cap
        before = xp.where(finite, state.rate, 0.5 * state.rate), *state[1:3], state.cap
        *found, cap = (xp.where(tells, new, old) for new, old in zip(found, before, strict=True))
        found = dict(zip(("rate", "deviation", "gain"), found, strict=True))
        return state.counted()._replace(**found, cap=cap)

    def is_too_far(self, change, n_visible):
        """Whether steps since the last measurement have led too far, all together.

        In another library than NumPy it is an array of no dimensions, for which nobody waits.

        Parameters
        ----------
        change : array of shape (n_samples,), float64
            Change of the free energies of samples by these steps, on this rank.
        n_visible : int
        """
        divergence = 0.5 * number(ranks().variance(change))
        is_near = divergence <= self.farthest * n_visible
        return ~is_near if is_foreign(is_near) else not is_near

    def is_stuck(self, state):
        """Whether rates are so small that shorter steps would not help."""
        return state.rate < _SMALLEST

    def is_doubtful(self, state):
        """Whether steps were taken back not long ago; in another library than NumPy an array."""
        return state.age - state.back < _DOUBTFUL

    def keeps(self, state):
        """Whether the place before the next step is kept to go back to, unless it is doubtful."""
        return state.n_steps % _DOUBTFUL == 0

    def slower(self, state):
        """Return the state after steps were taken back: half the rate, which rises slowly."""
        rate = 0.5 * state.rate
        return RateState(rate, cap=rate, age=state.age, back=state.age)

    def slower_without_waiting(self, state):
        """Return the same where what is known stays: a new start needs measured steps at once."""
        rate = 0.5 * state.rate
        return state._replace(rate=rate, cap=rate, back=state.age)

    def held(self, state, reference):
        """Return a state whose numbers are arrays of no dimensions, like the reference."""
        xp, options = namespace(reference), like(reference)
        floats = [(name, x) for name, x in _numbers_of(state) if not is_foreign(x)]
        return state._replace(**{name: xp.full((), x, **options) for name, x in floats})

    def read(self, state):
        """Return a state whose numbers are floats, wherever they were."""
        names, values = zip(*_numbers_of(state), strict=True)
        return state._replace(**dict(zip(names, numbers(values), strict=True)))


def _unit_of_rates(units):
    """Return the rate that does to layers of two values what 1 does to bits; else infinity."""
    supports = [unit.values for unit in units]
    if any(values is None or len(values) != 2 for values in supports):
        return math.inf
    return math.prod(1 / (last - first) ** 2 for first, last in supports)


def rule_for(
    optimizer,
    *,
    rule=None,
    caution=1.0,
    centered=False,
    average=False,
    falls=True,
    n_columns=0,
):
    """Return the rule for what takes the steps.

    Parameters
    ----------
    optimizer : Optimizer
    rule : AutomaticRate, default=None
        For plain gradient ascent; default: ``AutomaticRate()``.
    caution : float, default=1.0
        That of what finds the gradients.
    centered, average : bool, default=False
        Whether gradients are centred, and parameters averaged.
    falls : bool, default=True
        Whether the rate falls to a small part in the course of training. If it does not, and
        parameters are not averaged, steps are so short that their noise costs little in the end.
    n_columns : int, default=0
        Number of weights of each hidden unit, by which some penalties ask for shorter steps.
    """
    caution *= optimizer.caution * (1.0 if average and centered else _PLAIN)
    rule = (rule or AutomaticRate()).cautious(caution)
    rule = replace(rule, largest=min(rule.largest, optimizer.longest_step(n_columns)))
    return rule if average or falls else replace(rule, largest_gain=_NOISE)


def gain_of(optimizer, slopes, before, after):
    """Return the product of gradient and step, less what the step adds to the penalty.

    Parameters
    ----------
    optimizer : Optimizer
    slopes : ArrayGradient
    before, after : tuple of arrays
        The parameters.
    """
    steps = (new - old for new, old in zip(after, before, strict=True))
    pairs = zip(slopes.arrays(before), steps, strict=True)
    gain = sum(number(namespace(slope).sum(slope * step)) for slope, step in pairs)
    return gain + optimizer.cost(before, slopes) - optimizer.cost(after, slopes)


def _numbers_of(state):
    """Return the names and values of all but the number of steps, which is known anyway."""
    return [(name, x) for name, x in state._asdict().items() if name != "n_steps"]
