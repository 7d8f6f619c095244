"""Steps recorded as CUDA graphs, whose operations are launched together.

Python takes some microseconds to launch an operation, during which a GPU could do much work. torch
records the operations of a call as a CUDA graph, which is launched as a whole. A replay computes
the same as the call: the same operations, with the next numbers of the same random stream.

The module needs torch, so it is only imported if :func:`can_replay` is true.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass, replace
from functools import cache
from threading import Lock
from typing import Any, Literal

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ._later import gathered, require
from ._namespace import Array, cast, is_foreign, namespace

_recording = Lock()  # held while a graph is recorded or destroyed
_to_destroy: list[Any] = []  # graphs that have come to their end
_COUNT = object()  # form of a whole number that counts


class Replayed:
    """Calls of a function from a state to the next one, which are replayed if possible.

    A call is recorded if a similar one was made before, with the same key and a state of the same
    form. If it cannot be recorded, because the one before synchronized with the device, no further
    calls are, and ``works`` is False.

    Parameters
    ----------
    function : callable
        ``function(state, x)`` takes an array and returns the next state and a dict of numbers. A
        state is a tuple of arrays, tuples and dataclasses; arrays may be written in place. Whole
        numbers whose names begin with ``n_`` are counters: each call increases them by the same
        amount, and its operations do not depend on them. Different values of anything else require
        different recordings.
    rng : Rng
        Stream from which the function draws, its only source of random numbers.
    before : Replayed, default=None
        Earlier calls that have ended, whose recordings pass on their memory.
    """

    def __init__(self, function: Callable, rng: Any, before: "Replayed | None" = None) -> None:
        self._function, self._rng = function, rng
        self._seen: dict[Any, _Recording | Literal[False] | None] = {}
        self._left = [] if before is None else before._recordings()
        self._last: _Parts | None = None
        self.works = True

    def __call__(self, key: Any, state: tuple, x: Array) -> tuple[tuple, dict[str, Any]]:
        """Return the next state and the numbers.

        The state may be in memory that later calls write into; see :meth:`released`.

        Parameters
        ----------
        key : hashable or None
            Calls with one key do the same operations. None: this call is not to be replayed.
        state, x : as the function takes them
        """
        if key is None or not self.works:
            return self._function(state, x)
        parts = self._parts_of(state)
        kind = key, tuple(x.shape), parts.form
        if kind not in self._seen:
            self._seen[kind] = None
            with _Watch(x.device) as watch:
                found = self._function(state, x)
            self.works = not watch.has_waited
            return found
        recording = self._seen[kind]
        if recording is None:
            recording = self._seen[kind] = self._recorded(parts, x)
            self.works = recording is not None
        if not recording:
            return self._function(state, x)
        self._left = []
        self._last, numbers = recording.replay(parts, x)
        return self._last.state, numbers

    def _parts_of(self, state: tuple) -> "_Parts":
        last = self._last
        same = last is not None and all(a is b for a, b in zip(state, last.state, strict=True))
        return last if last is not None and same else _Parts(state)

    def _recorded(self, parts: "_Parts", x: Array) -> "_Recording | Literal[False] | None":
        """Return the recording of a call.

        False if it changes the shapes of the state, as a smaller batch may, None if no call can be
        recorded.
        """
        like_it = next((r for r in self._recordings() if r.kinds == parts.kinds), None)
        try:
            recording = _Recording(self._function, self._rng, parts, x, like_it)
        except RuntimeError:  # it copies from the processor, or waits in a way that none has seen
            return None
        return recording if recording.is_closed else False

    def _recordings(self) -> "list[_Recording]":
        """Return the recordings of these calls, or those of the calls before if there are none."""
        return [made for made in self._seen.values() if made] or self._left

    def released(self, state: tuple) -> tuple:
        """Return a state in memory of its own, which later calls do not write into."""
        parts, self._last = _Parts(state), None
        return parts.moved([part.clone() for part in parts.arrays], parts.counts).state


class _Recording:
    """A recorded call: its graph, and the memory that it reads from and writes to.

    Recordings of calls with arrays of the same shapes, such as ``like_it``, share that memory.
    """

    def __init__(self, function: Callable, rng: Any, parts: "_Parts", x: Array, like_it: Any):
        self.kinds = parts.kinds
        self._buffers = like_it._buffers if like_it else [part.clone() for part in parts.arrays]
        self._first = parts.moved(self._buffers, parts.counts)
        self._x, self._graph, self._read = x.clone(), torch.cuda.CUDAGraph(), _ReadArrays()
        if like_it:
            pool = like_it._graph.pool()
        else:
            pool = torch.cuda.graph_pool_handle() if x.is_cuda else None
        here, apart = torch.cuda.current_stream(x.device), _stream_apart(x.device)
        with _alone():  # with the stream, which is that of all threads
            apart.wait_stream(here)
            with torch.cuda.stream(apart), rng.recorded(self._graph):
                try:
                    self._graph.capture_begin(pool=pool, capture_error_mode="thread_local")
                    with self._read, gathered() as waiting:
                        state, self._numbers = function(self._first.state, self._x)
                        self._close(_Parts(state), waiting)
                finally:
                    _end(self._graph, x.device, pool)
            here.wait_stream(apart)

    def __del__(self) -> None:
        """Destroy the graph, or leave it to the end of what is recorded now, without waiting."""
        _to_destroy.append(self.__dict__.pop("_graph", None))
        _destroy()

    def _close(self, after: "_Parts", waiting: list) -> None:
        """Write the next state to where the state was, and put the numbers together."""
        self.is_closed = after.kinds == self.kinds
        if not self.is_closed:
            return
        self._after = after.moved(self._buffers, after.counts)
        pairs = zip(self._first.counts, after.counts, strict=True)
        self._steps = [new - old for old, new in pairs]
        _copy(after.arrays, self._buffers)
        self._names = [name for name, number in self._numbers.items() if is_foreign(number)]
        values = [self._numbers[name] for name in self._names] + [holds for holds, _ in waiting]
        self._errors, xp = [error for _, error in waiting], namespace(self._x)
        self._values = xp.stack([cast(value, xp.float64) for value in values])

    def replay(self, parts: "_Parts", x: Array) -> tuple["_Parts", dict[str, Any]]:
        """Do what was recorded with another state, which comes back with the numbers."""
        _copy(parts.arrays, self._buffers)
        self._x.copy_(x)
        self._graph.replay()
        values = self._values.clone().unbind(0)
        numbers = self._numbers | dict(zip(self._names, values, strict=False))
        for holds, error in zip(values[len(self._names) :], self._errors, strict=True):
            require(holds, error)
        counts = [n + step for n, step in zip(parts.counts, self._steps, strict=True)]
        return self._after.moved(self._buffers, counts), numbers


def _end(graph: Any, device: Any, pool: Any) -> None:
    """End a recording.

    Where it has failed, torch continues to take memory for graphs unless this is ended, and then
    frees no memory that is kept for later when it needs some. Before torch 2.13 its default
    generator of random numbers also is in a recording until one ends well.
    """
    try:
        graph.capture_end()
    except RuntimeError:
        with suppress(Exception):  # there is no public function
            torch._C._cuda_endAllocateToPool(device.index, pool)
        with suppress(Exception):
            zero, empty = torch.zeros(1, device=device), torch.cuda.CUDAGraph()
            empty.capture_begin(capture_error_mode="thread_local")
            try:
                zero.zero_()
            finally:
                empty.capture_end()
        raise


@cache
def _stream_apart(device: Any) -> Any:
    """Return the stream of all recordings on a device.

    torch has few streams of each priority, and gives them out again: one of the usual priority may
    be the stream of another thread, whose operations would then be recorded too.
    """
    return torch.cuda.Stream(device, priority=-1)


@contextmanager
def _alone() -> Iterator[None]:
    """Record within: no other graph begins or ends meanwhile, and no garbage is collected.

    torch keeps a set of all graphs that is not safe among threads, and a graph that is destroyed
    by the thread of a recording ends it.
    """
    with _recording:
        is_enabled = gc.isenabled()
        try:
            gc.disable()
            yield
        finally:
            _to_destroy.clear()
            if is_enabled:
                gc.enable()
    _destroy()


def _destroy() -> None:
    """Destroy the graphs that have come to their end, unless one is recorded now."""
    if _recording.acquire(blocking=False):
        try:
            _to_destroy.clear()
        finally:
            _recording.release()


def _copy(arrays: list, buffers: list) -> None:
    """Copy arrays into buffers, in whose memory some of the arrays may be."""
    pairs = [(a, b) for a, b in zip(arrays, buffers, strict=True) if a is not b]
    places = {b.untyped_storage().data_ptr() for b in buffers} if pairs else set()
    sources = [a.clone() if a.untyped_storage().data_ptr() in places else a for a, _ in pairs]
    for a, (_, b) in zip(sources, pairs, strict=True):
        b.copy_(a)


class _Parts:
    """The arrays and the counts of a state, and its form: all else, which can be compared."""

    def __init__(self, state: tuple) -> None:
        self.state, self.arrays, self.counts = state, [], []  # type: tuple, list, list[int]
        self.form = self._form_of(state)

    @property
    def kinds(self) -> Any:
        """Shapes and dtypes of the arrays, and the number of counts."""
        return [(tuple(a.shape), a.dtype) for a in self.arrays], len(self.counts)

    def _form_of(self, x: Any, name: str = "") -> Any:
        if is_foreign(x):
            self.arrays.append(x)
            return tuple(x.shape), x.dtype
        if isinstance(x, tuple):
            names = getattr(x, "_fields", [""] * len(x))
            return type(x), *map(self._form_of, x, names)
        if name.startswith("n_") and type(x) is int:
            self.counts.append(x)
            return _COUNT
        if is_dataclass(x):
            n_arrays, n_counts = len(self.arrays), len(self.counts)
            form = type(x), *(self._form_of(getattr(x, f.name), f.name) for f in fields(x))
            if len(self.arrays) > n_arrays:
                return form
            del self.counts[n_counts:]
        return x if isinstance(x, (int, float, str, type(None))) else id(x)

    def moved(self, arrays: list, counts: list[int]) -> "_Parts":
        """Return the parts of a state of the same form."""
        other = object.__new__(_Parts)
        other.arrays, other.counts, other.form = arrays, counts, self.form
        other.state = _built(self.state, self.form, iter(arrays), iter(counts))
        return other


def _built(x: Any, form: Any, arrays: Any, counts: Any) -> Any:
    """Return what has a form, with other arrays and counts than ``x``."""
    if is_foreign(x):
        return next(arrays)
    if form is _COUNT:
        return next(counts)
    if isinstance(x, tuple):
        pairs = zip(x, form[1:], strict=True)
        parts = [_built(part, inner, arrays, counts) for part, inner in pairs]
        return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
    if is_dataclass(x) and isinstance(form, tuple):
        names = zip(fields(x), form[1:], strict=True)  # type: ignore[arg-type]
        new = {f.name: _built(getattr(x, f.name), inner, arrays, counts) for f, inner in names}
        return replace(x, **new)  # type: ignore[type-var]
    return x


_WAITS = {"_local_scalar_dense", "item", "is_nonzero", "equal", "nonzero", "masked_select"}
_WAITS |= {"_unique2", "unique_consecutive", "unique_dim", "_linalg_check_errors", "_linalg_eigh"}
_INDEXES = {"index", "index_put", "index_put_", "_index_put_impl_"}


class _Watch(TorchDispatchMode):
    """Tells by ``has_waited`` whether the processor waited for a device in this context.

    A recording that fails tells the same, but torch does not give its memory back.
    """

    def __init__(self, device: Any) -> None:
        super().__init__()
        self.device, self.has_waited = device, False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore
        name = func.overloadpacket.__name__
        indexes = args[1] if name in _INDEXES else ()
        waits = any(i is not None and i.dtype == torch.bool for i in indexes) or name in _WAITS
        if waits and args[0].device == self.device:
            self.has_waited = True
        return func(*args, **(kwargs or {}))


class _ReadArrays(TorchDispatchMode):
    """Keeps the arrays that operations in this context read, if they are not of it.

    A recording reads from their memory, which must not be given to others before it ends.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[int, Any] = {}
        self.own: set[int] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore
        for place, x in self._arrays((args, kwargs)):
            if place not in self.own:
                self.kept[place] = x
        found = func(*args, **(kwargs or {}))
        self.own.update(place for place, _ in self._arrays(found) if place not in self.kept)
        return found

    @staticmethod
    def _arrays(tree):  # type: ignore
        leaves = (x for x in tree_leaves(tree) if isinstance(x, torch.Tensor))
        return [(x.untyped_storage().data_ptr(), x) for x in leaves]
