"""Checks of numbers."""

from numbers import Integral


def check_count(name: str, value: object, least: int) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
