"""CUDA graphs of torch on the processor: operations are recorded, and done again in a replay.

As on a GPU, nothing is computed in a recording: what it has written and drawn is taken back at its
end. A number that is read in it is an error. A replay reads and writes the memory of the recording.
"""

from contextlib import contextmanager, nullcontext

import torch
from _second_device import READS, SIZES, indexes_by_mask
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map


def _tensors(tree):
    return [x for x in tree_leaves(tree) if isinstance(x, torch.Tensor)]


def _place(x):
    return x.untyped_storage().data_ptr()


def _now(tree):
    """Return tensors of the same memory and of the shapes of this moment, which may change."""
    return tree_map(lambda x: x.detach() if isinstance(x, torch.Tensor) else x, tree)


class _Recorder(TorchDispatchMode):
    """Keeps operations, and the memory as it was before them."""

    def __init__(self):
        super().__init__()
        self.operations, self.before, self.made = [], {}, set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if name in READS | SIZES or indexes_by_mask(name, args):
            raise RuntimeError(f"{func} reads a number in a recording")
        inputs = _tensors((args, kwargs))
        for x in inputs:
            storage = x.untyped_storage()
            if _place(x) not in self.made and _place(x) not in self.before:
                self.before[_place(x)] = storage, storage.clone()
        given = _now((args, kwargs or {}))
        found = func(*args, **(kwargs or {}))
        if torch.Tag.inplace_view in func.tags:
            return found
        read = {_place(x) for x in inputs}
        is_view = not func._schema.is_mutable and any(_place(x) in read for x in _tensors(found))
        self.made.update(_place(x) for x in _tensors(found) if _place(x) not in read)
        if not is_view:
            self.operations.append((func, *given, _now(found)))
        return found


class CUDAGraph:
    """The methods of :class:`torch.cuda.CUDAGraph` that skrbm uses."""

    n_recorded = n_replayed = n_begun = 0  # of all graphs
    pools = ()

    def pool(self):
        return self._pool

    def register_generator_state(self, generator):
        self._generator = generator, generator.get_state()

    def capture_begin(self, pool=None, capture_error_mode=None):
        CUDAGraph.n_begun += 1
        self._pool = object() if pool is None else pool
        CUDAGraph.pools.add(self._pool)
        self._recorder = _Recorder()
        self._recorder.__enter__()

    def capture_end(self):
        self._recorder.__exit__(None, None, None)
        for storage, before in self._recorder.before.values():
            storage.copy_(before)
        generator, place = self._generator
        generator.set_state(place)
        CUDAGraph.n_recorded += 1

    def replay(self):
        for func, args, kwargs, found in self._recorder.operations:
            again = func(*args, **kwargs)
            for old, new in zip(_tensors(found), _tensors(again), strict=True):
                if old is not new and _place(old) != _place(new):
                    old.copy_(new)
        CUDAGraph.n_replayed += 1


class _Stream:
    def __init__(self, device=None, priority=0):
        pass

    def wait_stream(self, other):
        pass


@contextmanager
def recorded_on_the_processor(monkeypatch):
    """Let steps of tensors of the processor be replayed; gives the class of the graphs."""
    CUDAGraph.n_recorded = CUDAGraph.n_replayed = CUDAGraph.n_begun = 0
    CUDAGraph.pools = set()
    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "CUDAGraph", CUDAGraph)
        patch.setattr(torch.cuda, "Stream", _Stream)
        patch.setattr(torch.cuda, "current_stream", _Stream)
        patch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
        patch.setattr("skrbm.learning._learner.can_replay", lambda x: True)
        yield CUDAGraph
