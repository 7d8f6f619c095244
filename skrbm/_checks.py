"""Checks of numbers, and of values that are one of several."""

from collections.abc import Mapping
from math import inf
from numbers import Integral, Real
from typing import Any


def check_count(name: str, value: object, minimum: float = -inf, *, or_none: bool = False) -> None:
    """Raise ValueError unless ``value`` is an integer (no bool) of at least ``minimum``.

    ``or_none`` allows None as well.
    """
    _check(name, value, Integral, "an integer", or_none, at_least=minimum)


def check_number(name: str, value: object, *, or_none: bool = False, **limits: float) -> None:
    """Raise ValueError unless ``value`` is a finite real number (no bool) within limits.

    These are ``above`` or ``at_least``, and ``below`` or ``at_most``. ``or_none`` allows None as
    well.
    """
    _check(name, value, Real, "a finite number", or_none, **limits)


def _check(
    name: str,
    value: Any,
    kind: type,
    noun: str,
    or_none: bool,
    *,
    above: float = -inf,
    at_least: float = -inf,
    below: float = inf,
    at_most: float = inf,
) -> None:
    if value is None and or_none:
        return
    is_number = isinstance(value, kind) and not isinstance(value, bool)
    if is_number and above < value < below and at_least <= value <= at_most:  # not so if NaN
        return
    limits = {" >": above, " >=": at_least, " <": below, " <=": at_most}
    given = [f"{sign} {limit:g}" for sign, limit in limits.items() if abs(limit) != inf]
    noun = f"None or {noun}" if or_none else noun
    raise ValueError(f"{name} must be {noun}{' and'.join(given)}, got {value!r}")


def look_up(name: str, value: object, table: Mapping[Any, Any], also: str = "") -> Any:
    """Return what ``table`` has for ``value``.

    Raises ValueError if it has nothing: ``name`` must be one of its keys, ``also`` says what else.
    """
    try:
        return table[value]
    except (KeyError, TypeError):  # the latter if it has no hash
        raise ValueError(f"{name} must be one of {sorted(table)}{also}, got {value!r}") from None
