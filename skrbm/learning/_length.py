"""The length of a step: how far the distribution may move."""

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from .._ranks import ranks
from ..arrays import namespace, number

# Largest divergences of a step, in nats (doc/theory/learning.rst).
_NUMBERS = 0.15  # per column of numbers
_BITS, _LEAST = 0.075, 10.0  # per column of bits, and smallest value for all of them together
# If there is a limit within the modes, these are for the square of the number of columns, whose
# changes add up from mode to mode. A larger one within modes gains on Fashion-MNIST what it costs
# on MNIST.
_PAIRS, _WITHIN, _LEAST_WITHIN = 1 / 1600, 1 / 320_000, 2.0
# Largest lengths of a step. Numbers have deviations of about 1 in the coordinates of learning: a
# step of 1 moves a mean to that of the data, and steps above 2 diverge. Bits have at most 1/2.
_CAP_OF_BITS, _CAP_OF_NUMBERS = 3.0, 1.0
# Bounds of the divergence for counts, all of whose columns are one site; between the bounds it is
# one nat per column. Free energies of long rows grow within a few steps, so every step is measured.
_DRAWS = 10.0, 1000.0
# The first steps are all measured, since the first length is a guess. The running mean covers the
# same number of measurements.
_FIRST_STEPS = 10
_GROWTH = 1.5  # largest factor by which one measurement may lengthen steps
_CAP_OF_SOLUTIONS = 10.0  # length of steps of bits by fixed points
# Share of known values below which steps become no shorter and epochs no more numerous.
LEAST_KNOWN = 0.2
_FIRST_RATE = 0.05  # length of the first step, unless its divergence is too large


class LengthState(NamedTuple):
    """What is known about the length of steps, as floats or zero-dimensional arrays.

    ``rate`` is the length of the next step, before it is multiplied by the factor of the schedule.
    ``deviation`` is the running geometric mean of the standard deviation, in nats, of the change of
    free energies in a step of length 1. If the limit within the modes is stricter, it is that
    within the modes, in units in which both limits are the same.
    """

    rate: Any
    deviation: Any
    n_steps: int = 0


@dataclass(frozen=True)
class StepLength:
    """Choice of the step length by the divergence between the models before and after the step.

    A step of length r along a direction d changes the free energy of the model's samples by r dF,
    and the Kullback-Leibler divergence of the old from the new distribution is r² Var[dF] / 2 to
    second order (d' F d = Var[dF] with the Fisher information F). The length

        r = min(cap, sqrt(2 divergence / Var[dF]))

    is therefore independent of units of measure, batch size and kind of units. A measured step that
    would exceed the divergence is shortened before it is accepted.

    Chains can follow a step within the modes where they are, but hardly move to other modes,
    however short the steps are. ``within`` limits the divergence within the modes, for which the
    variance is replaced by half the mean square of the difference between successive states of a
    chain. Both are the same where chains mix.

    Parameters
    ----------
    divergence : float
        Maximum divergence of a step, in nats.
    cap : float, default=1.0
        Maximum length of a step.
    every : int, default=5
        After the first ten steps, Var[dF] is measured once in this many steps, since each
        measurement costs a matrix product.
    of_bits : float, default=1.0
        Factor on the step length for columns and hidden units of bits, if there are columns of
        numbers as well.
    within : float, default=None
        Maximum divergence within the modes, in nats; None for no such limit.
    """

    divergence: float
    cap: float = 1.0
    every: int = 5
    of_bits: float = 1.0
    within: float | None = None

    @classmethod
    def of_chains(cls, units, n_columns, continued=False):
        """Return the rule for learning from Markov chains.

        If chains are ``continued`` from step to step, the divergence within modes is limited.
        """
        unit, scale = units[0], bit_length(units)
        if not unit.has_bits and n_columns > 1 and len(unit.groups(n_columns)) == 1:
            least, most = _DRAWS
            return cls(min(max(least, n_columns), most), _CAP_OF_BITS, every=1)
        if math.isfinite(scale):
            rule = cls(max(_LEAST, _BITS * n_columns), _CAP_OF_BITS * min(1.0, scale))
            if not continued:
                return rule
            most, within = _PAIRS * n_columns**2, _WITHIN * n_columns**2
            return replace(rule, divergence=max(_LEAST, most), within=max(_LEAST_WITHIN, within))
        are_bits = all(unit.has_bits for unit in units[1:])  # the others are capped like numbers
        longer = _CAP_OF_BITS / _CAP_OF_NUMBERS if are_bits else 1.0
        return cls(_NUMBERS * n_columns, _CAP_OF_NUMBERS, of_bits=longer)

    @classmethod
    def of_solutions(cls, units, n_columns):
        """Return the rule for learning from fixed points, whose moments have little noise."""
        scale = max(map(bit_length, pairwise(units)))
        # Without a cap for bits, nothing would limit steps if nearly all columns are constant.
        return cls(_NUMBERS * n_columns, _CAP_OF_SOLUTIONS * scale if scale < math.inf else 1.0)

    def of_known(self, share):
        """Return the rule for data in which only a share of the values is known.

        Missing values are drawn after each step, and the next step follows these draws, so steps
        are shorter.
        """
        return replace(self, cap=max(share, LEAST_KNOWN) * self.cap)

    def init(self):
        """Return the state before the first step."""
        return LengthState(min(_FIRST_RATE, self.cap), 1.0)

    def measures(self, state):
        """Whether the next step is measured."""
        return state.n_steps < _FIRST_STEPS or state.n_steps % self.every == 0

    def is_steady(self, state):
        """Whether from now on steps differ only in whether they are measured."""
        return state.n_steps >= _FIRST_STEPS

    def next(self, state, change, length, weights=None, at_origins=None):
        """Return the state after a measured step, and the fraction of the step that is allowed.

        Parameters
        ----------
        state : LengthState
        change : array of shape (n_samples,), float64
            Change of the free energies of samples of the model in the step.
        length : float or zero-dimensional array
            Length of the step.
        weights : array of shape (n_samples,), default=None
            Importance weights of the samples, which sum to 1.
        at_origins : array of shape (n_samples,), default=None
            The change at the former states of the chains, if the divergence within the modes is
            limited.

        Returns
        -------
        state : LengthState
        part : float or zero-dimensional array
            Between 0 and 1; 0 if the free energies are no longer finite.
        """
        xp = namespace(change)
        if weights is None:
            deviation = xp.sqrt(ranks().variance(change))
        else:
            centred = change - xp.sum(weights * change)
            deviation = xp.sqrt(xp.sum(weights * centred * centred))
        if at_origins is not None:  # in units in which both limits are the same deviation
            factor = math.sqrt(self.divergence / self.within / 2)
            within = xp.sqrt(ranks().variance(factor * (change - at_origins)))
            deviation = xp.maximum(deviation, within)
        one = xp.ones_like(deviation)
        length = one * length
        finite = xp.isfinite(deviation)
        tells = finite & (deviation > 0) & (length > 0)
        latest = xp.where(tells, deviation, one) / xp.where(tells, length, one)
        memory = 1 / min(_FIRST_STEPS, 1 + state.n_steps)
        mean = one * state.deviation * (latest / state.deviation) ** memory
        longest = math.sqrt(2 * self.divergence)
        rate = xp.minimum(longest / xp.maximum(mean, latest), self.cap * one)
        rate = xp.minimum(rate, _GROWTH * state.rate * one)
        rate = xp.where(tells, rate, xp.where(finite, state.rate * one, 0.1 * state.rate * one))
        mean = xp.where(tells, mean, state.deviation * one)
        part = xp.minimum(one, longest / xp.where(tells, deviation, longest * one))
        return LengthState(rate, mean, state.n_steps + 1), xp.where(finite, part, 0.0 * one)

    def rejected(self, state):
        """Return the state after a step that led to a machine that cannot be normalized."""
        return state._replace(rate=0.5 * state.rate, n_steps=state.n_steps + 1)

    def unmeasured(self, state):
        """Return the state after a step that was not measured."""
        return state._replace(n_steps=state.n_steps + 1)


def as_numbers(state):
    """Return the state with floats instead of arrays."""
    rate, deviation = (float(number(part)) for part in state[:2])
    return state._replace(rate=rate, deviation=deviation)


def bit_length(units):
    """Return the step length for bits or categories that is like 1 for bits; otherwise inf."""
    reach = math.prod(unit.reach for unit in units)
    return 1 / reach**2 if math.isfinite(reach) else math.inf
