"""Checks of numbers and of values from a list; names in messages; the error of missing methods."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from math import inf
from numbers import Integral, Real
from typing import Any

_NOUNS: dict[type, str] = {Real: "a finite number", Integral: "an integer"}


def unwritten(owner: object, method: str) -> NotImplementedError:
    """Return the error of an object whose class leaves out a method that is called."""
    return NotImplementedError(f"{type(owner).__name__} does not have the method {method}()")


def check_count(name: str, value: object, minimum: float = -inf, *, or_none: bool = False) -> None:
    """Raise ValueError unless ``value`` is an integer (no bool) of at least ``minimum``.

    ``or_none`` allows None as well.
    """
    check_number(name, value, at_least=minimum, or_none=or_none, kind=Integral)


def check_number(
    name: str,
    value: Any,
    *,
    above: float = -inf,
    at_least: float = -inf,
    below: float = inf,
    at_most: float = inf,
    or_none: bool = False,
    kind: type = Real,
) -> None:
    """Raise ValueError unless ``value`` is a finite number (no bool) of a kind, within limits.

    ``or_none`` allows None as well.
    """
    is_number = isinstance(value, kind) and not isinstance(value, bool)
    if is_number and above < value < below and at_least <= value <= at_most:  # not so if NaN
        return
    if value is None and or_none:
        return
    limits = {" >": above, " >=": at_least, " <": below, " <=": at_most}
    given = [f"{sign} {limit:g}" for sign, limit in limits.items() if abs(limit) != inf]
    noun = "None or " * or_none + _NOUNS[kind] + " and".join(given)
    raise ValueError(f"{name} must be {noun}, got {value!r}")


def look_up(name: str, value: object, table: Mapping[Any, Any], also: str = "") -> Any:
    """Return what ``table`` has for ``value``.

    Raises ValueError if it has nothing: ``name`` must be one of its keys, ``also`` says what else.
    """
    try:
        return table[value]
    except (KeyError, TypeError):  # the latter if it has no hash
        raise ValueError(
            f"{name} must be one of {sorted(table)}{also}, got {shown(value)}{hint(value, table)}"
        ) from None


def listed(names: list[Any]) -> str:
    """Return names for a message, at most ten of them."""
    return f"{names[:10]}" + f" and {len(names) - 10} more" * (len(names) > 10)


def check_observed(unknown: list[Any], kind: str = "columns") -> None:
    """Raise ValueError if there are ``unknown`` columns, in which X has no observed value."""
    if unknown:
        raise ValueError(f"{kind} {listed(unknown)} of X have no observed value")


def shown(value: object) -> str:
    """Return a value as errors show it, a class without its module."""
    return f"the class {value.__name__}" if isinstance(value, type) else repr(value)


def hint(value: object, names: Iterable[Any]) -> str:
    """Return a suggestion of a similar name for an error message, empty if there is none.

    For a class in place of an object, it is how to make one.
    """
    if isinstance(value, type) and value.__module__ != "builtins":
        return f"; write {value.__name__}()"
    near = get_close_matches(value, map(str, names), 1) if isinstance(value, str) else []
    return f"; did you mean {near[0]!r}?" if near else ""
