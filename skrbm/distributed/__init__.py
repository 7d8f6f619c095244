"""Training on several processes and computers."""

from .._ranks import Communicator, use
from ..exceptions import DistributedError
from ._dask import fit
from ._mpi import MPICommunicator
from ._torch import TorchCommunicator

__all__ = [
    "Communicator",
    "DistributedError",
    "MPICommunicator",
    "TorchCommunicator",
    "fit",
    "use",
]
