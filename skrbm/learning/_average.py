"""Parameters averaged over the last part of the steps (Polyak and Juditsky 1992)."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..arrays import is_foreign, like, namespace, to_numpy
from ..machine import Machine

_DECAY = 4  # weights grow as the power _DECAY - 1 of the number of the step


@dataclass(frozen=True)
class Average:
    """A mean of machines over the steps, with larger weights for late ones; updated in place.

    The k-th of n steps has a weight of about 4 k³ / n⁴, so that the last quarter has two thirds of
    the total. This averages out the noise of single steps, and no window has to be chosen
    (polynomial-decay averaging; Shamir and Zhang 2013). ``last`` is the machine from which training
    continues, None during training. With ``keeps_zeros`` weights that are 0 in it are published as
    0, since a mean is 0 only if the weight was 0 in all steps.
    """

    means: Machine
    n_steps: Any = 1
    last: Machine | None = None
    keeps_zeros: bool = False

    @classmethod
    def of(cls, machine, keeps_zeros=False):
        """Return the average of one machine."""
        first = machine.leaves[0]
        n_steps = namespace(first).ones((), **like(first)) if is_foreign(first) else 1
        return cls(machine.copy(), n_steps, keeps_zeros=keeps_zeros)

    def moved(self, machine, keeps_zeros=False):
        """Return the average after a step that has led to a machine."""
        n_steps = self.n_steps + 1
        part = _DECAY / (n_steps + _DECAY - 1)
        for mean, new in zip(self.means.leaves, machine.leaves, strict=True):
            mean *= 1 - part
            mean += part * new
        return Average(self.means, n_steps, keeps_zeros=keeps_zeros)

    def published(self, last):
        """Return the mean as a new machine, with the zeros of the last one if these are kept."""
        if not self.keeps_zeros:
            return self.means.copy()
        leaves, n = list(self.means.leaves), last.n_penalised
        for i, part in enumerate(last.leaves[:n]):
            leaves[i] = namespace(part).where(part == 0, part, leaves[i])
        return self.means.with_leaves(leaves).copy()

    def is_of(self, machine):
        """Whether the parameters of a machine are those published, up to rounding."""
        if self.last is None:
            return False
        for mean, new in zip(self.published(self.last).leaves, machine.leaves, strict=True):
            mean, new = to_numpy(mean), to_numpy(new)
            rounding = 8 * np.finfo(mean.dtype).eps * np.abs(new).max(initial=0.0)
            if mean.shape != new.shape or not np.allclose(mean, new, rtol=0.0, atol=rounding):
                return False
        return True

    def copy(self):
        """Return an average that shares no memory with this one."""
        return replace(self, means=self.means.copy(), last=self.last.copy())
