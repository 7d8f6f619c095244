"""Several processes that learn one machine, connected by pipes: no library is needed."""

import multiprocessing
import traceback

from skrbm._ranks import Communicator, use

_CONTEXT = multiprocessing.get_context("fork")  # so that what they run may be a local function


class PipeCommunicator(Communicator):
    """Rank 0 adds what comes through pipes, in the order of the ranks, and sends back the sum."""

    def __init__(self, rank, size, pipes):
        self.rank, self.size, self.pipes = rank, size, pipes

    def all_reduce(self, array):
        if self.rank:
            self.pipes[self.rank][1].send(array)
            return self.pipes[self.rank][1].recv()
        total = array
        for rank in range(1, self.size):
            part = self.pipes[rank][0].recv()
            assert (part.shape, part.dtype) == (total.shape, total.dtype)
            total = total + part
        for rank in range(1, self.size):
            self.pipes[rank][0].send(total)
        return total


def on_ranks(function, size=2, timeout=60):
    """Return what ``function(rank)`` returns in each of some processes, or the error it raises."""
    pipes = [_CONTEXT.Pipe() for _ in range(size)]
    results = [_CONTEXT.Pipe(duplex=False) for _ in range(size)]

    def work(rank):
        try:
            with use(PipeCommunicator(rank, size, pipes)):
                found = function(rank)
        except Exception as error:
            error.add_note(traceback.format_exc())
            found = error
        results[rank][1].send(found)

    processes = [_CONTEXT.Process(target=work, args=(rank,), daemon=True) for rank in range(size)]
    for process in processes:
        process.start()
    try:
        for receiver, _ in results:
            assert receiver.poll(timeout), "a rank gave no answer: the ranks wait for each other"
        return [receiver.recv() for receiver, _ in results]
    finally:
        for process in processes:
            process.kill()
            process.join()
