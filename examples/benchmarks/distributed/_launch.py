"""Processes of this machine that are the ranks of a fit."""

import multiprocessing
import os
import socket

from skrbm.distributed import TorchCommunicator, use


def on_ranks(function, size, *args, local_steps=1, pinned=False):
    """Return what ``function(communicator, *args)`` returns on rank 0 of some processes.

    ``pinned`` gives each of them one core.
    """
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [
        context.Process(
            target=_work, args=(results, rank, size, port, local_steps, pinned, function, args)
        )
        for rank in range(size)
    ]
    for process in processes:
        process.start()
    found = results.get()
    for process in processes:
        process.join()
    return found


def _work(results, rank, size, port, local_steps, pinned, function, args):
    os.environ |= {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }
    if pinned:  # or the system may put two ranks on one core
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[rank % len(cores)]})
    communicator = TorchCommunicator(timeout=300)
    with use(communicator, local_steps=local_steps):
        found = function(communicator, *args)
    if rank == 0:
        results.put(found)
