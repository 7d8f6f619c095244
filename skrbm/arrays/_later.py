"""Deferred checks and reads of numbers on a device, to avoid synchronizing in between."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ._namespace import cast, is_foreign, namespace, to_numpy

_PUT_OFF: ContextVar[list | None] = ContextVar("put_off", default=None)


def require(holds: Any, error: Callable[[], Exception]) -> None:
    """Raise an error unless something holds.

    Inside :func:`put_off`, arrays of other libraries than NumPy are only evaluated at its end.

    Parameters
    ----------
    holds : bool or array of no dimensions, bool
    error : callable
        Returns the exception. Objects to which it refers are kept alive until it is called.
    """
    if is_foreign(holds) and (waiting := _PUT_OFF.get()) is not None:
        waiting.append((holds, error))
    elif not holds:
        raise error()


@contextmanager
def gathered() -> Iterator[list]:
    """Yield the list of the arguments of :func:`require` in this context."""
    waiting: list = []
    token = _PUT_OFF.set(waiting)
    try:
        yield waiting
    finally:
        _PUT_OFF.reset(token)


@contextmanager
def put_off() -> Iterator[None]:
    """Defer all checks by :func:`require` to the end of this context; raise the first error."""
    with gathered() as waiting:
        yield
    for holds, (_, error) in zip(numbers(holds for holds, _ in waiting), waiting, strict=True):
        if not holds:
            raise error()


def number(x: Any) -> Any:
    """Return a number as a float; numbers of other libraries are unchanged, to be read later."""
    return x if is_foreign(x) else float(x)


def number_of(mask: Any) -> Any:
    """Return how many entries of a mask are true, as :func:`number` does."""
    xp = namespace(mask)
    return number(xp.sum(cast(mask, xp.float64)))


def numbers(values: Iterable[Any]) -> list[float]:
    """Return numbers as floats; those of another library are read all at once."""
    found = list(values)
    places = [i for i, value in enumerate(found) if type(value) is not float and is_foreign(value)]
    if places:
        xp = namespace(found[places[0]])
        read = to_numpy(xp.stack([cast(found[i], xp.float64) for i in places]))
        for i, value in zip(places, read, strict=True):
            found[i] = value
    return [float(value) for value in found]
