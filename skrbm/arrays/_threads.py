"""Threads for large matrix products, each with one BLAS thread.

The threads of BLAS wait for work by spinning, which made fits slower than one thread. So BLAS is
limited to one thread, and large products are split among as many threads as BLAS was allowed.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache, wraps
from itertools import pairwise
from typing import Any, ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

_P = ParamSpec("_P")
_R = TypeVar("_R")

_LOCK = threading.RLock()
_HOLDERS: set[int] = set()  # threads that hold BLAS to one thread
_ALLOWED: list[tuple[Any, int]] = []  # libraries and their numbers of threads before
_N_THREADS = 1  # the smallest of these numbers
_HERE = threading.local()  # nesting depth of holders in this thread

# In multiplications, as measured: the work of a thread while another one wakes up, and the smallest
# part of a product worth a thread of its own.
_WAKE_UP, _MIN_WORK = 2**21, 2**23


def one_blas_thread(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a function that limits BLAS to one thread; products may use threads of our own.

    The limit holds for the whole process: the first holder sets it and the last one lifts it. A
    decorator rather than a context manager, as Ctrl-C may come before the first instruction of
    ``__exit__``.
    """

    @wraps(function)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        outer = getattr(_HERE, "depth", 0)
        try:
            _hold(outer + 1)
            return function(*args, **kwargs)
        finally:
            try:
                _release(outer)
            except BaseException:  # Ctrl-C
                _release(outer)
                raise

    return wrapper


def _hold(depth: int) -> None:
    global _N_THREADS
    _HERE.depth = depth
    if depth > 1:
        return
    with _LOCK:
        _HOLDERS.add(threading.get_ident())
        if not _ALLOWED:
            libraries = _controller().select(user_api="blas").lib_controllers
            _ALLOWED.extend([(library, library.num_threads) for library in libraries])
            _N_THREADS = min((n for _, n in _ALLOWED), default=1)
            for library in libraries:
                _set_threads(library, 1)


def _release(depth: int) -> None:
    _HERE.depth = depth
    if depth:
        return
    with _LOCK:
        _HOLDERS.discard(threading.get_ident())
        if not _HOLDERS:
            _lift()


def _lift() -> None:
    """Restore the numbers of threads of BLAS."""
    for library, n_threads in _ALLOWED:
        _set_threads(library, n_threads)
    _ALLOWED.clear()


def _set_threads(library: Any, n_threads: int) -> None:
    """Set a limit from any thread, which threadpoolctl 3.8 leaves to the first one that did so."""
    take_over = getattr(library, "clear_controlling_thread", lambda force: None)
    take_over(force=True)
    library.set_num_threads(n_threads)
    take_over(force=True)


def n_threads() -> int:
    """Return how many threads the calling thread may use.

    Concurrent holders, such as workers of joblib that fit an estimator each, share what BLAS was
    allowed. Other threads, such as workers of joblib within a method, have one.
    """
    return max(1, _N_THREADS // max(1, len(_HOLDERS))) if getattr(_HERE, "depth", 0) else 1


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # finding the loaded libraries takes milliseconds


def split(n: int, work: float) -> list[slice]:
    """Return slices of ``range(n)``, one for each thread.

    The first is longer, for the calling thread. ``work`` is the total number of multiplications.
    """
    if work < 2 * _MIN_WORK:
        return [slice(0, n)]
    n_parts = min(n_threads(), int(work / _MIN_WORK), n)
    if n_parts < 2:
        return [slice(0, n)]
    each = n * (1 - _WAKE_UP / work) / n_parts
    cuts = [0, *(n - round(each * i) for i in range(n_parts - 1, -1, -1))]
    return [slice(*ends) for ends in pairwise(cuts)]


def share(function: Callable[..., Any], parts: list[slice], *args: Any) -> None:
    """Call ``function(part, *args)`` for each part, here and in other threads.

    Parts that no other thread has started are done here, so that busy helpers are not waited for.
    """
    try:
        waiting = [  # NumPy's handling of overflow is part of the context
            (part, _executor().submit(copy_context().run, function, part, *args))
            for part in parts[1:]
        ]
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


@cache
def _executor() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="skrbm")


def _reset_after_fork() -> None:
    """Drop threads that a forked process does not have, and their limits."""
    global _LOCK
    _LOCK = threading.RLock()  # another thread may have held it
    _executor.cache_clear()
    _HOLDERS.intersection_update({threading.get_ident()})
    if not _HOLDERS:
        _lift()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
