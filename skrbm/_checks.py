"""Checks of numbers."""

from numbers import Integral


def check_count(name: str, value: object, minimum: int) -> None:
    """Raise ValueError unless ``value`` is an integer (no bool) of at least ``minimum``."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < minimum:
        raise ValueError(f"{name} must be an integer >= {minimum}, got {value!r}")
