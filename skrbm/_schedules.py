"""How learning rates and step sizes fall."""

import math
from numbers import Real

SCHEDULES = {
    "constant": lambda progress: 1.0,
    "linear": lambda progress: 1.0 - progress,
    "cosine": lambda progress: 0.5 * (1.0 + math.cos(math.pi * progress)),
    "exponential": lambda progress: 10.0 ** (-3.0 * progress),
}
"""Factor on the learning rate, by the fraction of the epochs that has passed."""


def scheduled(schedule, progress):
    """Return the factor of a schedule, a name or a function, at a fraction of the epochs."""
    factor = (schedule if callable(schedule) else SCHEDULES[schedule])(progress)
    if not isinstance(factor, Real) or not factor >= 0:
        raise ValueError(
            f"schedule must return a factor >= 0 for the learning rate, got {factor!r} at "
            f"{progress:.3g} of n_iter"
        )
    return float(factor)
