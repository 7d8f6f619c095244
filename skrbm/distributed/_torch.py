"""Communication through ``torch.distributed``: gloo between CPUs, nccl between GPUs."""

import itertools
import os
import threading
import time
from contextlib import suppress
from datetime import timedelta

import numpy as np

from .._checks import check_number
from .._ranks import ENDED, Communicator
from ..arrays import as_like, to_numpy
from ..exceptions import DistributedError

_GRACE = 10.0  # seconds in which ranks tell why they have ended
_STORES: dict[tuple, tuple] = {}  # by the environment; if rank 0 lost its own, others would too
_NUMBERS = itertools.count()  # of communicators by the environment, made in order on all ranks


class TorchCommunicator(Communicator):
    """Communication between ranks through ``torch.distributed``.

    Without arguments, the processes find each other as usual in torch: by ``torchrun``, by the
    environment variables ``RANK``, ``WORLD_SIZE``, ``MASTER_ADDR`` and ``MASTER_PORT``, or by
    ``torch.distributed.init_process_group`` if it was called before, as Ray does. The process group
    is separate from those of other users of torch.

    Parameters
    ----------
    timeout : float, default=45.0
        Seconds after which a rank that does not respond is considered lost. A process that dies is
        noticed at once, so this matters only if a computer or the network fails. Must be longer
        than ranks may have to wait for each other, for example while data are read.
    gpu_backend : {"nccl", "gloo"}, default="nccl"
        Backend that sums arrays on GPUs. nccl needs a GPU for each rank. Arrays on CPUs use gloo,
        as do arrays of libraries other than torch, which are converted to NumPy.
    store : torch.distributed.Store, default=None
        Store through which the ranks find each other, given with ``rank`` and ``size``; by default
        taken from the environment.
    rank, size : int, default=None
        Number of this process, and total number of processes.
    """

    def __init__(self, timeout=45.0, gpu_backend="nccl", *, store=None, rank=None, size=None):
        from torch import distributed

        check_number("timeout", timeout, above=0)
        if gpu_backend not in ("nccl", "gloo"):
            raise ValueError(f"gpu_backend must be 'nccl' or 'gloo', got {gpu_backend!r}")
        if store is None:
            store, rank, size = _found_by_environment(distributed, timedelta(seconds=timeout))
        self.rank, self.size, self.gpu_backend = rank, size, gpu_backend
        self.timeout = timedelta(seconds=timeout)
        self._store = distributed.PrefixStore("skrbm", store)
        self._store.set_timeout(self.timeout)
        self._groups = {}
        self._ended = None
        self._checked(lambda: self._group("gloo"))

    def all_reduce(self, array):
        import torch

        given = torch.is_tensor(array)
        numbers = None if given else np.require(to_numpy(array), requirements="CW")
        tensor = array.contiguous() if given else torch.from_numpy(numbers)
        backend = "gloo" if tensor.device.type == "cpu" else self.gpu_backend
        self._checked(lambda: self._group(backend).allreduce([tensor]).wait())
        return tensor if given else as_like(numbers, array)

    def _group(self, backend):
        """Return the processes as one group of a backend, made at its first use."""
        from torch import distributed

        if backend not in self._groups:
            store = distributed.PrefixStore(backend, self._store)
            if backend == "gloo":
                group = distributed.ProcessGroupGloo(store, self.rank, self.size, self.timeout)
            else:
                options = distributed.ProcessGroupNCCL.Options()
                options._timeout = self.timeout
                group = distributed.ProcessGroupNCCL(store, self.rank, self.size, options)
            self._groups[backend] = group
        return self._groups[backend]

    def _checked(self, function):
        """Call a function that waits for other ranks; DistributedError if one is lost."""
        if self._ended is not None:
            raise DistributedError(self._ended)
        try:
            function()
        except RuntimeError as error:
            self._ended = self._cause()
            raise DistributedError(self._ended) from error

    def fail(self, error):
        if self._ended is None:
            self._ended = ENDED
            self._cause(f"{type(error).__name__}: {error}")

    def _cause(self, own=""):
        """End this rank, and return by which rank the fit has ended, as far as is known.

        ``own`` is the error of this rank, "" if it only follows others.
        """
        causes: list[str] = []
        asking = threading.Thread(target=self._ask, args=(own, causes), daemon=True)
        asking.start()
        asking.join(_GRACE + 1)  # a store whose machine is silent never answers
        self._groups.clear()
        if causes:
            return causes[0]
        return "the fit has ended, as rank 0, which keeps the store of the ranks, is lost"

    def _ask(self, own, causes):
        """Write to the store how this rank has ended, and append what others report."""
        with suppress(RuntimeError):  # the store is lost
            self._store.set(f"ended{self.rank}", own)
            self._groups.clear()  # which closes the connections, by which others notice
            causes.append(self._other_causes(wait=self.rank == 0 or not own))

    def _other_causes(self, wait):
        """Return how other ranks have ended.

        Rank 0 may keep the store, so it waits for all of them.
        """
        silent, cause = set(range(self.size)) - {self.rank}, None
        stop = time.monotonic() + _GRACE * wait
        while silent and time.monotonic() < stop and (cause is None or self.rank == 0):
            for rank in [rank for rank in silent if self._store.check([f"ended{rank}"])]:
                silent.remove(rank)
                why = self._store.get(f"ended{rank}").decode()
                if why:
                    cause = f"the fit has ended, as rank {rank} has ended by {why}"
            time.sleep(0.1)
        if cause is not None:
            return cause
        if not silent:
            return f"the fit has ended, as a message took longer than {self.timeout}"
        lost = ", ".join(str(rank) for rank in sorted(silent))
        return f"the fit has ended, as rank {lost} is lost: killed, or not to be reached"


def _found_by_environment(distributed, timeout):
    """Return the store, the rank and the number of processes."""
    if distributed.is_initialized():
        store = distributed.distributed_c10d._get_default_store()
        place = distributed.get_rank(), distributed.get_world_size()
    else:
        names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
        key = tuple(os.environ.get(name) for name in names)
        try:
            if key not in _STORES:
                _STORES[key] = next(distributed.rendezvous("env://", timeout=timeout))
        except ValueError as error:
            raise ValueError(
                f"no other processes are known ({error}); start this script with torchrun, or set "
                "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"
            ) from error
        store, *place = _STORES[key]
    return distributed.PrefixStore(f"fit{next(_NUMBERS)}", store), *place
