"""Time of a step on two processes and on one, and a model of the time on many.

    OPENBLAS_NUM_THREADS=1 python examples/benchmarks/distributed_efficiency.py

Two processes share each batch of one fit; each has a core and a BLAS thread of its own. In the
model, a step of n rows takes a + b n, as measured on one process, and summing over a ring of N
ranks takes 2 (N - 1) (latency + bytes / N / bandwidth). The latency and bandwidth within this
computer are measured; those of networks are typical values.
"""

import argparse
import multiprocessing
import os
import socket
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skrbm import BernoulliRBM
from skrbm.distributed import TorchCommunicator, use

NETWORKS = {"10 Gbit/s Ethernet": (50e-6, 1.1e9), "200 Gbit/s InfiniBand": (5e-6, 20e9)}
RANKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)


def on_ranks(function, size, *args, pinned=False):
    """Return what ``function(communicator, *args)`` returns on rank 0 of some processes."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [
        context.Process(target=work, args=(results, rank, size, port, pinned, function, args))
        for rank in range(size)
    ]
    for process in processes:
        process.start()
    found = results.get()
    for process in processes:
        process.join()
    return found


def work(results, rank, size, port, pinned, function, args):
    """Run the function on one rank."""
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
    with use(communicator):
        found = function(communicator, *args)
    if rank == 0:
        results.put(found)


def time_of_step(communicator, shape, batch, n_batches, n_iter):
    """Return the shortest mean time of a step over some epochs, on one rank of a fit, in s."""
    part = np.random.default_rng(communicator.rank).random(
        (n_batches * batch // communicator.size, shape[0]), dtype=np.float32
    )
    X = (part < 0.3).astype(np.float32)
    rbm = BernoulliRBM(shape[1], batch_size=batch, n_iter=n_iter, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # random bits have nothing to learn
        rbm.fit(X)
    return min(rbm.history_["time"]) / n_batches


def times_of_sums(communicator, sizes, n=30):
    """Return the median time of a sum of float32 arrays of some sizes, in s."""
    medians = []
    for size in sizes:
        array, times = np.zeros(size, np.float32), []
        for _ in range(n):
            begin = time.perf_counter()
            communicator.all_reduce(array)
            times.append(time.perf_counter() - begin)
        medians.append(float(np.median(times)))
    return medians


def modelled(n, rows, step, message, network):
    """Return the time of a step of N = n ranks that have ``rows`` rows each, in s."""
    (a, b), (latency, bandwidth) = step, network
    return a + b * rows + 2 * (n - 1) * (latency + message / n / bandwidth)


def print_model(name, network, batch, step, message):
    """Print how much faster N ranks are, and the efficiency where each has a batch."""
    print(f"\n{name}: latency {1e6 * network[0]:.0f} us, bandwidth {network[1] / 1e9:.2f} GB/s")
    print(f"ranks   one batch of {batch} shared    a batch of {batch} for each rank")
    alone = modelled(1, batch, step, message, network)
    for n in RANKS:
        shared = modelled(n, batch / n, step, message, network)
        each = modelled(n, batch, step, message, network)
        speed, efficiency = alone / shared, alone / each
        print(f"{n:5d}   {speed:7.2f} x as fast           efficiency {efficiency:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--batch", type=int, default=2000)
    parser.add_argument("--shape", type=int, nargs=2, default=(784, 500))
    parser.add_argument("--n-batches", type=int, default=8)
    parser.add_argument("--n-iter", type=int, default=4)
    args = parser.parse_args()
    options = args.shape, args.batch, args.n_batches, args.n_iter
    one, two = (on_ranks(time_of_step, size, *options, pinned=True) for size in (1, 2))
    print(f"a step of PCD, {args.shape[0]} x {args.shape[1]}, batch {args.batch}, float32:")
    print(f"one process {1e3 * one:.1f} ms, two {1e3 * two:.1f} ms: ", end="")
    print(f"efficiency {one / (2 * two):.2f}")
    few = on_ranks(time_of_step, 1, args.shape, args.batch // 8, 8 * args.n_batches, args.n_iter)
    b = (one - few) / (args.batch * 7 / 8)
    step = max(one - b * args.batch, 0.0), b
    print(f"model of a step of n rows: {1e3 * step[0]:.2f} ms + n * {1e6 * b:.2f} us")
    n = args.shape[0] * args.shape[1] + sum(args.shape)
    small, large = on_ranks(times_of_sums, 2, (1, n))
    print(f"sum of two processes: {1e3 * small:.3f} ms of 4 bytes, {1e3 * large:.3f} ms", end="")
    print(f" of {4e-6 * n:.2f} MB")
    here = small / 2, 4 * n / max(large - small, 1e-6)
    for name, network in {"this machine": here, **NETWORKS}.items():
        print_model(name, network, args.batch, step, 4 * n)


if __name__ == "__main__":
    main()
