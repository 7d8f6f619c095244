"""Threads of our own, each with one BLAS thread.

BLAS's own threads wait for work by spinning, and between elementwise operations that made a fit
slower than one thread does. So BLAS is held to one thread while we compute, and large matrix
products are cut into parts, for as many threads as BLAS was allowed before.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import cache, wraps
from itertools import pairwise
from typing import Any, ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

_P = ParamSpec("_P")
_R = TypeVar("_R")


# Ctrl-C may come after ``with`` has taken a lock and before it enters its block: nobody would
# release it. So this one is taken inside of ``try``, and it knows its thread.
_LOCK = threading.RLock()
_HOLDERS: set[int] = set()  # the threads that hold BLAS to one thread
_ALLOWED: list[
    tuple[Any, int]
] = []  # pairs of a library and its number of threads before the first holder came
_N_THREADS = 1  # the smallest of these numbers
_HERE = threading.local()  # how often the holders nest in this thread

# Both in multiplications, as measured: what a thread does while another one wakes, and the
# smallest product that is worth that.
_WAKING, _LEAST_WORK = 2**21, 2**23


def one_blas_thread(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a function that holds BLAS to one thread; products may use threads of our own.

    The limit holds for the whole process, so of the threads that ask for it the first sets it and
    the last lifts it. It is a decorator and no context manager, because Ctrl-C may come before the
    first instruction of ``__exit__``, where nothing lifts the limit. Here the instructions around
    the call are in one frame, and releasing is done again if it was interrupted.
    """

    @wraps(function)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        outer = _depth()
        try:
            _hold(outer + 1)
            return function(*args, **kwargs)
        finally:
            try:
                _release(outer)
            except BaseException:
                _release(outer)
                raise

    return wrapper


def _hold(depth: int) -> None:
    global _N_THREADS
    _HERE.depth = depth
    if depth > 1:
        return
    try:
        _LOCK.acquire()
        _HOLDERS.add(threading.get_ident())
        if not _ALLOWED:
            libraries = _controller().select(user_api="blas").lib_controllers
            _ALLOWED.extend([(library, library.num_threads) for library in libraries])
            _N_THREADS = min((n for _, n in _ALLOWED), default=1)
            for library in libraries:
                _set_threads(library, 1)
    finally:
        try:
            _LOCK.release()
        except RuntimeError:  # it was not taken
            pass


def _release(depth: int) -> None:
    """Go back to a depth; doing it twice is doing it once."""
    _HERE.depth = depth
    if depth:
        return
    try:
        _LOCK.acquire()
        _HOLDERS.discard(threading.get_ident())
        if not _HOLDERS:
            _lift()
    finally:
        try:
            _LOCK.release()
        except RuntimeError:  # it was not taken
            pass


def _lift() -> None:
    """Give BLAS the threads back that it was allowed."""
    for library, n_threads in _ALLOWED:
        _set_threads(library, n_threads)
    _ALLOWED.clear()


def _set_threads(library: Any, n_threads: int) -> None:
    """Set a limit from any thread: threadpoolctl (3.8) keeps that to the one which did so first."""
    take_over = getattr(library, "clear_controlling_thread", lambda force: None)
    take_over(force=True)
    library.set_num_threads(n_threads)
    take_over(force=True)


def _depth() -> int:
    return getattr(_HERE, "depth", 0)


def n_threads() -> int:
    """Return how many threads the calling thread may use.

    Threads that hold BLAS at the same time, such as workers of joblib that fit an estimator each,
    share what BLAS was allowed. It is one for all that do not hold it: helpers, and workers of
    joblib inside of a method, which share the processor already.
    """
    return max(1, _N_THREADS // max(1, len(_HOLDERS))) if _depth() else 1


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # finding the loaded libraries takes milliseconds


def split(n: int, work: float) -> list[slice]:
    """Return slices that make up ``range(n)``, one for each thread that is worth its waking.

    The first is longer, for the thread that need not wake. ``work`` is the number of
    multiplications over all of them.
    """
    if work < 2 * _LEAST_WORK:  # which is told before anything is looked up
        return [slice(0, n)]
    n_parts = min(n_threads(), int(work / _LEAST_WORK), n)
    if n_parts < 2:
        return [slice(0, n)]
    each = n * (1 - _WAKING / work) / n_parts
    cuts = [0, *(n - round(each * i) for i in range(n_parts - 1, -1, -1))]
    return [slice(*ends) for ends in pairwise(cuts)]


def share(function: Callable[..., Any], parts: list[slice], *args: Any) -> None:
    """Call ``function(part, *args)`` for each part, here and in other threads.

    The calls must not depend on each other, and gain only where they release the interpreter lock,
    as NumPy's operations do. Parts that no other thread has begun are done here: if the helpers
    are busy, or their cores are, nobody waits for them.
    """
    try:
        waiting = [(part, _submit(function, part, *args)) for part in parts[1:]]
    except RuntimeError:  # no more threads: none can be started, or the interpreter shuts down
        for part in parts:
            function(part, *args)
        return
    try:
        function(parts[0], *args)
        while waiting:
            part, future = waiting.pop()  # the last is the least likely to have begun
            if future.cancel():
                function(part, *args)
            else:
                future.result()
    finally:
        for _, future in waiting:
            future.cancel()


def _submit(function: Callable[..., Any], *args: Any) -> Future[Any]:
    # NumPy's handling of overflow is part of the context.
    return _executor().submit(copy_context().run, function, *args)


@cache
def _executor() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="skrbm")


def _start_anew() -> None:
    """Give up, in a forked process, threads that did not come along, and limits that they hold."""
    global _LOCK
    _LOCK = threading.RLock()  # another thread may have had it
    _executor.cache_clear()
    _HOLDERS.intersection_update({threading.get_ident()})
    if not _HOLDERS:
        _lift()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)
