"""A second device for torch, which computes on the processor and counts what a GPU waits for.

Tensors of the device are of a class of their own that holds a tensor of the processor. As on a GPU,
an operation on tensors of both devices is an error, and so is a silent conversion to NumPy. What
makes the processor wait for a GPU is counted, with the line of ``skrbm`` that asks for it: numbers
read from the device, copies between the devices, and operations whose result has a size that
depends on values.
"""

import traceback
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

import skrbm

NAME = "meta"  # a kind of device that needs no library, and that nothing else here uses
_SOURCE = str(Path(skrbm.__file__).parent)
READS = {"_local_scalar_dense", "item", "is_nonzero", "equal"}
SIZES = {"nonzero", "masked_select", "unique_consecutive", "_unique2", "unique_dim"}
SIZES |= {"linalg_cholesky_ex", "linalg_inv_ex", "linalg_eigh", "_linalg_eigh", "linalg_solve_ex"}


class _Tensor(torch.Tensor):
    """A tensor of the second device."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=torch.device(NAME),
        )

    def __init__(self, inner):
        self.inner = inner

    def __reduce_ex__(self, protocol):
        return _Tensor, (self.inner,)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise RuntimeError(f"{func} outside of second_device()")


_Tensor.__module__, torch._Tensor = "torch", _Tensor  # as torch calls its own, for pickle too


class _Generator(torch.Generator):
    """A generator of the processor, whatever device is asked for."""

    def __new__(cls, device=None):
        return super().__new__(cls)


def _is_ours(device):
    return device is not None and torch.device(device).type == NAME


class _Device(TorchDispatchMode):
    """Runs operations on the tensors inside, and counts."""

    def __init__(self):
        super().__init__()
        self.waits = Counter()

    def _count(self, name):
        frames = [f for f in traceback.extract_stack() if f.filename.startswith(_SOURCE)]
        place = [f"{Path(f.filename).relative_to(_SOURCE)}:{f.lineno}" for f in frames[-2:]]
        self.waits[name, " < ".join(reversed(place))] += 1

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs, name = dict(kwargs or {}), func.overloadpacket.__name__
        leaves = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, torch.Tensor)]
        ours = [x for x in leaves if isinstance(x, _Tensor)]
        others = [x for x in leaves if not isinstance(x, _Tensor) and x.ndim > 0]
        to_ours = bool(ours)
        if "device" in kwargs and kwargs["device"] is not None:
            to_ours = _is_ours(kwargs["device"])
            kwargs["device"] = torch.device("cpu")
        if leaves and bool(ours) != to_ours:
            self._count("copy")
        elif ours and others:
            if name != "copy_":
                raise RuntimeError(f"{name}: tensors of two devices")
            self._count("copy")
        elif ours and (name in READS | SIZES or indexes_by_mask(name, args)):
            self._count(name)

        inner = tree_map(lambda x: x.inner if isinstance(x, _Tensor) else x, (args, kwargs))
        out = func(*inner[0], **inner[1])
        if torch.Tag.inplace_view in func.tags:  # the shape of both changes
            with no_dispatch():
                return func(*args, **kwargs)
        if not to_ours:
            return out
        known = {id(x.inner): x for x in ours}  # what is written in place stays what it is

        def wrapped(x):
            if not isinstance(x, torch.Tensor):
                return x
            return known[id(x)] if id(x) in known else _Tensor(x)

        return tree_map(wrapped, out) if name not in READS else out


def indexes_by_mask(name, args):
    if name not in ("index", "index_put", "index_put_", "_index_put_impl_"):
        return False
    return any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in args[1])


@contextmanager
def second_device():
    """Give a :class:`collections.Counter` of what waits for the device, by operation and line."""
    generator, device = torch.Generator, _Device()
    torch.Generator = _Generator
    try:
        with device:
            yield device.waits
    finally:
        torch.Generator = generator
