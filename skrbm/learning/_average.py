"""Parameters averaged over the last part of the steps (Polyak and Juditsky 1992)."""

from dataclasses import dataclass

from ..arrays import namespace
from ..machine import Machine

_DECAY = 4  # weights grow as the power _DECAY - 1 of the number of the step


@dataclass(frozen=True)
class Average:
    """A mean of machines over the steps, in which late ones weigh more.

    Of n steps the k-th has a weight of about 4 k³ / n⁴, so that the last quarter has two thirds of
    all. The noise of single steps goes, and no length has to be chosen (polynomial-decay averaging;
    Shamir and Zhang 2013).

    Attributes
    ----------
    means : Machine
        Written in place.
    n_steps : int
    last : Machine or None
        The machine that learning goes on from, where it is not in training; else None.
    """

    means: Machine
    n_steps: int = 1
    last: Machine | None = None

    @classmethod
    def of(cls, machine):
        """Return the average of one machine."""
        return cls(machine.copy())

    def moved(self, machine):
        """Return the average after a step that has led to a machine."""
        n_steps = self.n_steps + 1
        part = _DECAY / (n_steps + _DECAY - 1)
        for mean, new in zip(_parts(self.means), _parts(machine), strict=True):
            mean *= 1 - part
            mean += part * new
        return Average(self.means, n_steps)

    def is_of(self, machine):
        """Whether the parameters of a machine are the mean, and not changed since."""
        pairs = zip(_parts(self.means), _parts(machine), strict=True)
        return self.last is not None and all(
            mean.shape == new.shape and bool(namespace(new).all(mean == new)) for mean, new in pairs
        )

    def copy(self):
        """Return an average that shares no memory with this one."""
        return Average(self.means.copy(), self.n_steps, self.last.copy())


def _parts(machine):
    thetas = (part for theta in machine.thetas for part in theta if part is not None)
    return (*machine.weights, *thetas)
