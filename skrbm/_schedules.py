"""Schedules of learning rates and step sizes."""

import math

from ._checks import check_number

SCHEDULES = {
    "constant": lambda progress: 1.0,
    "linear": lambda progress: 1.0 - progress,
    "polynomial": lambda progress: (1.0 - progress) ** 1.5,
    "cosine": lambda progress: 0.5 * (1.0 + math.cos(math.pi * progress)),
    "exponential": lambda progress: 10.0 ** (-3.0 * progress),
}
"""Factor on the learning rate, by the fraction of the epochs that has passed."""


def scheduled(schedule, progress):
    """Return the factor of a schedule, a name or a function, at a fraction of the epochs."""
    factor = (schedule if callable(schedule) else SCHEDULES[schedule])(progress)
    name = f"the factor that schedule returns for the learning rate at {progress:.3g} of n_iter"
    check_number(name, factor, at_least=0)
    return float(factor)
