"""Threads of our own, each with one BLAS thread.

BLAS's own threads wait for work by spinning, and between elementwise operations that made a fit
slower than one thread does. So BLAS is held to one thread while we compute, and large matrix
products are cut into parts, for as many threads as BLAS was allowed before.
"""

import os
import threading
from collections import deque
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from itertools import pairwise
from queue import SimpleQueue

from threadpoolctl import ThreadpoolController

_LOCK, _LIMIT, _N_HOLDERS = threading.Lock(), None, 0
_N_THREADS = 1  # what BLAS was allowed before the first holder came
_HERE = threading.local()  # how many of the holders are this thread
_JOBS, _N_HELPERS = SimpleQueue(), 0

# Both in multiplications, as measured: what a thread does while another one wakes, and the least
# that is worth that.
_WAKING, _LEAST_WORK = 2**21, 2**23


@contextmanager
def one_blas_thread():
    """Hold BLAS to one thread; products of the calling thread may use threads of our own.

    The limit holds for the whole process, so of the threads that ask for it the first sets it and
    the last lifts it.
    """
    global _LIMIT, _N_HOLDERS, _N_THREADS
    with _LOCK:
        if _N_HOLDERS == 0:
            blas = _controller().select(user_api="blas")
            _N_THREADS = min((library["num_threads"] for library in blas.info()), default=1)
            _take_over(blas)
            _LIMIT = blas.limit(limits=1)
        _N_HOLDERS += 1
    _HERE.depth = _depth() + 1
    try:
        yield
    finally:
        _HERE.depth -= 1
        with _LOCK:
            _N_HOLDERS -= 1
            if _N_HOLDERS == 0:
                _take_over(_controller())
                _LIMIT.restore_original_limits()
                _take_over(_controller())


def _take_over(controller):
    """Let any thread set limits: threadpoolctl (3.8) keeps that to the one which did so first."""
    for library in controller.lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


def _depth():
    return getattr(_HERE, "depth", 0)


def n_threads():
    """Return how many threads the calling thread may use.

    It is one for all that do not hold BLAS themselves: helpers, and workers of joblib, which share
    the processor already.
    """
    return _N_THREADS if _depth() else 1


@cache
def _controller():
    return ThreadpoolController()  # finding the loaded libraries takes milliseconds


def split(n, work):
    """Return slices that make up ``range(n)``, one for each thread that is worth its waking.

    The first is longer, for the thread that need not wake. ``work`` is the number of
    multiplications over all of them.
    """
    n_parts = min(n_threads(), int(work / _LEAST_WORK), n)
    if n_parts < 2:
        return [slice(0, n)]
    each = n * (1 - _WAKING / work) / n_parts
    cuts = [0, *(n - round(each * i) for i in range(n_parts - 1, -1, -1))]
    return [slice(*ends) for ends in pairwise(cuts)]


class _Job:
    """Parts that wait to be done, by whichever thread comes first."""

    def __init__(self, function, parts, args):
        self.function, self.args = function, args
        self.waiting, self.ended = deque(parts), SimpleQueue()

    def take(self):
        try:
            return self.waiting.popleft()
        except IndexError:
            return None

    def help(self):
        while (part := self.take()) is not None:
            error = None
            try:
                self.function(part, *self.args)
            except BaseException as caught:
                error = caught
            self.ended.put(error)


def share(function, parts, *args):
    """Call ``function(part, *args)`` for each part, here and in helpers.

    The calls must not depend on each other, and gain only where they release the interpreter lock,
    as NumPy's operations do. Nobody is waited for who has not begun: if the helpers are busy, or
    their cores are, all parts are done here.
    """
    if len(parts) == 1:
        function(parts[0], *args)
        return
    job, n_left = _Job(function, parts, args), len(parts)
    _call_helpers(job, len(parts) - 1)
    try:
        while (part := job.take()) is not None:
            function(part, *args)
            n_left -= 1
        for _ in range(n_left):
            if (error := job.ended.get()) is not None:
                raise error
    finally:
        job.waiting.clear()


def _call_helpers(job, n):
    global _N_HELPERS
    with _LOCK:
        while n > _N_HELPERS:
            threading.Thread(target=_help, args=(_JOBS,), name="skrbm", daemon=True).start()
            _N_HELPERS += 1
    for _ in range(n):
        _JOBS.put((copy_context(), job))  # NumPy's handling of overflow is part of the context


def _help(jobs):
    while True:
        context, job = jobs.get()
        context.run(job.help)
        del context, job  # they would keep arrays alive until the next one comes


def _forget_helpers():
    """Start anew in a forked process, to which threads and the state of locks do not carry over."""
    global _LOCK, _JOBS, _N_HELPERS
    _LOCK, _JOBS, _N_HELPERS = threading.Lock(), SimpleQueue(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_helpers)
