"""The ranks of a fit: one process, or several that learn one machine together.

A rank has a part of the rows, a part of each batch and chains of its own. All that ranks tell each
other goes through a :class:`Communicator`, and all that a fit knows of them is ``ranks()``.
"""

import pickle
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from ._checks import unwritten
from .arrays import Array, namespace

ENDED = "a fit has ended by an error on this rank before; make a new communicator on all ranks"


class Communicator:
    """Base of communicators; this base is a single process.

    A subclass gives ``rank``, ``size``, :meth:`all_reduce` and, where it can, :meth:`fail`.

    Attributes
    ----------
    rank : int
        Number of this process, from 0.
    size : int
        Number of processes.
    """

    rank: int = 0
    size: int = 1
    interrupted = False  # whether Ctrl-C was pressed, of which the next sum tells the others

    def all_reduce(self, array: Array) -> Array:
        """Return the sum of an array over all ranks, with the same bits on each of them.

        Parameters
        ----------
        array : array of shape (n,)
            Contiguous, of real numbers or integers; it may be overwritten. All ranks call this with
            the same shape and dtype.

        Raises
        ------
        DistributedError
            If another rank has ended, with its number.
        """
        if self.size > 1:
            raise unwritten(self, "all_reduce")
        return array

    def gather(self, value: Any) -> list[Any]:
        """Return what each rank has given, a list in the order of the ranks, on all of them.

        ``value`` is a small object that can be pickled.
        """
        if self.size == 1:
            return [value]
        data = np.frombuffer(pickle.dumps(value), np.uint8)
        lengths = np.zeros(self.size, np.int64)
        lengths[self.rank] = len(data)
        lengths = self.all_reduce(lengths)
        table = np.zeros((self.size, int(lengths.max())), np.uint8)
        table[self.rank, : len(data)] = data
        table = self.all_reduce(table.reshape(-1)).reshape(table.shape)
        return [pickle.loads(row[:n].tobytes()) for row, n in zip(table, lengths, strict=True)]

    def fail(self, error: BaseException) -> None:
        """Tell the other ranks that this one takes no part any more, because of an error."""

    def first(self, value: Any) -> Any:
        """Return what rank 0 has given."""
        return self.gather(value)[0]

    def any(self, flag: bool) -> bool:
        """Whether a flag is set on any rank."""
        return flag if self.size == 1 else any(self.gather(bool(flag)))

    def sum(self, arrays: Sequence[Array]) -> list[Array]:
        """Return the sums of arrays of one dtype over all ranks, by one message.

        Raises
        ------
        KeyboardInterrupt
            On all ranks, if one was interrupted in a fit (:meth:`interruptible`).
        """
        if self.size == 1:
            return list(arrays)
        xp = namespace(arrays[0])
        flag = float(self.interrupted) * xp.ones_like(xp.reshape(arrays[0], (-1,))[:1])
        flat = xp.concat([*(xp.reshape(array, (-1,)) for array in arrays), flag])
        flat = self.all_reduce(flat)
        if float(flat[-1]) > 0:
            self.interrupted = False
            raise KeyboardInterrupt
        sums, start = [], 0
        for array in arrays:
            n = int(np.prod(array.shape))
            sums.append(xp.reshape(flat[start : start + n], array.shape))
            start += n
        return sums

    def from_first(self, arrays: Sequence[Array]) -> list[Array]:
        """Return the arrays that rank 0 has."""
        if self.rank:
            arrays = [namespace(array).zeros_like(array) for array in arrays]
        return self.sum(arrays)

    def variance(self, values: Array) -> Array:
        """Return the variance of the float64 values of all ranks, whose arrays have one axis."""
        xp = namespace(values)
        if self.size == 1:
            return xp.var(values)
        n, mean = values.shape[0], xp.mean(values)
        parts = xp.stack([n + 0 * mean, n * mean, n * (xp.var(values) + mean**2)])
        (parts,) = self.sum([parts])
        return xp.maximum(parts[2] / parts[0] - (parts[1] / parts[0]) ** 2, 0 * parts[0])

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let Ctrl-C end the fit in the same step on all ranks; a second one ends it at once.

        One process alone, or a fit in a thread, is left as it is.
        """
        if self.size == 1 or threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupt(number: int, frame: Any) -> None:
            if self.interrupted:
                raise KeyboardInterrupt
            self.interrupted = True

        before = signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
        if self.interrupted:  # after the last step
            self.interrupted = False
            raise KeyboardInterrupt


_ALONE = Communicator()
_ACTIVE: ContextVar[Communicator] = ContextVar("skrbm_ranks", default=_ALONE)


def ranks() -> Communicator:
    """Return the ranks that fits of this thread have: this process alone, unless :func:`use`."""
    return _ACTIVE.get()


@contextmanager
def use(communicator: Communicator) -> Iterator[Communicator]:
    """Train one model together with other ranks in all fits inside a ``with`` statement.

    Each rank runs the same code with its own rows of X. An error that leaves the statement on one
    rank also ends the fits of the others.

    Parameters
    ----------
    communicator : Communicator
        Such as ``TorchCommunicator()`` or ``MPICommunicator()``.

    Yields
    ------
    communicator : Communicator

    Raises
    ------
    TypeError
        If ``communicator`` is not one.
    """
    if not isinstance(communicator, Communicator):
        raise TypeError(
            "communicator must be a Communicator, such as TorchCommunicator(), got "
            f"{communicator!r}"
        )
    token = _ACTIVE.set(communicator)
    try:
        yield communicator
    except BaseException as error:
        communicator.fail(error)
        raise
    finally:
        _ACTIVE.reset(token)
