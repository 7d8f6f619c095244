"""Communication through MPI."""

import time

import numpy as np

from .._checks import check_number
from .._ranks import ENDED, Communicator
from ..arrays import as_like, to_numpy
from ..exceptions import DistributedError

_TAG = 1620  # of messages that tell why a rank has ended


class MPICommunicator(Communicator):
    """Communication between ranks through MPI, with ``mpi4py``.

    Start scripts with ``mpirun -n 4 python -m mpi4py script.py``, so that an error in one process
    also ends the others; MPI itself ends all processes if one is killed. Arrays on GPUs are copied
    to the CPU and back.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm, default=None
        The processes; by default all, ``MPI.COMM_WORLD``.
    timeout : float, default=45.0
        Seconds after which a rank that does not respond is considered lost. Must be longer than
        ranks may have to wait for each other, for example while data are read.
    """

    def __init__(self, comm=None, timeout=45.0):
        from mpi4py import MPI

        check_number("timeout", timeout, above=0)
        self._comm = (MPI.COMM_WORLD if comm is None else comm).Dup()
        self.rank, self.size, self.timeout = self._comm.rank, self._comm.size, timeout
        self._sum, self._in_place, self._sent = MPI.SUM, MPI.IN_PLACE, []
        self._ended, self._left = None, []  # why, and requests that others may still answer

    def all_reduce(self, array):
        if self._ended is not None:
            raise DistributedError(self._ended)
        numbers = np.require(to_numpy(array), requirements="CW")
        request = self._comm.Iallreduce(self._in_place, numbers, op=self._sum)
        try:
            self._wait(request)
        except BaseException as error:
            self._left.append((request, numbers))
            self._ended = str(error) if isinstance(error, DistributedError) else ENDED
            raise
        return as_like(numbers, array)

    def _wait(self, request):
        """Wait for a request, unless another rank reports that it has ended."""
        stop = time.monotonic() + self.timeout
        while not request.Test():
            if self._comm.iprobe(tag=_TAG):
                raise DistributedError(self._comm.recv(tag=_TAG))
            if time.monotonic() > stop:
                raise DistributedError(
                    f"the fit has ended, since a message took longer than {self.timeout} s"
                )
            time.sleep(0)

    def fail(self, error):
        self._ended = self._ended or ENDED
        if isinstance(error, DistributedError):
            return
        why = f"the fit has ended, as rank {self.rank} has ended by {type(error).__name__}: {error}"
        others = (rank for rank in range(self.size) if rank != self.rank)
        self._sent = [self._comm.isend(why, rank, tag=_TAG) for rank in others]
