"""A fit on more rows than memory holds: its peak resident size, its time, and its likelihood.

    python examples/benchmarks/large_data.py [--gigabytes 4] [--limit 1] [--source file]

The process may not use more than ``--limit`` GB of address space, so that a fit which needs more
ends with MemoryError. Rows have 784 bits, by default bytes. With ``--source file`` they come from
a .npy file with holes, which takes no space on the disk: all bits are 0. With ``rows`` the file is
written in full. With ``generator`` batches are cut out of 100 MB of noisy patterns. A line is
printed for each pass over the rows.

    python examples/benchmarks/large_data.py --likelihood

compares the exact log-likelihood of machines of 12 bits after fits from a file whose rows are
sorted, and after fits to the same rows in memory, in nats per sample.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
from _common import heading, progress, table

from skrbm import RBM, BernoulliRBM
from skrbm.inputs import RowBlocks, as_blocks

GB = 10**9
PATTERNS = np.array([[1] * 6 + [0] * 6, [0] * 6 + [1] * 6, [1, 0] * 6, [1, 1, 0] * 4])


class Passes(RowBlocks):
    """Rows in blocks, of which each pass prints how long it takes."""

    def __init__(self, blocks):
        self.blocks, self.n_blocks = blocks, blocks.n_blocks

    def numbered(self, order=None):
        begin, n_rows, n_bytes = time.perf_counter(), 0, 0
        for number, block in self.blocks.numbered(order):
            n_rows, n_bytes = n_rows + len(block), n_bytes + block.nbytes
            yield number, block
        seconds = time.perf_counter() - begin
        progress((f"{n_rows} rows, {n_bytes / GB:.4g} GB in {seconds:.4g} s", peak()))


def peak():
    """Return the peak resident size of the process."""
    return f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GB:.3g} GB"


def noisy_patterns(n, n_columns, seed=0, dtype="u1"):
    """Return rows of bits: one of four patterns, each bit flipped with probability 0.05."""
    generator = np.random.default_rng(seed)
    patterns = np.tile(PATTERNS, n_columns // 12 + 1)[:, :n_columns].astype(np.uint8)
    flips = generator.random((n, n_columns), dtype=np.float32) < 0.05
    return (patterns[np.sort(generator.integers(4, size=n))] ^ flips).astype(dtype)


def batches(n_rows, args, size=500):
    """Return a function that yields batches of rows, at random places of 100 MB of them."""
    n = 10**8 // (size * args.columns * np.dtype(args.dtype).itemsize)
    rows = [noisy_patterns(size, args.columns, seed, args.dtype) for seed in range(n)]
    rows = np.concatenate(rows)

    def begin():
        starts = np.random.default_rng(0).integers(len(rows) - size, size=n_rows // size)
        return (rows[start : start + size] for start in starts)

    return begin


def written(path, n_rows, args):
    """Write a .npy file, with holes or in full."""
    header = {"descr": np.dtype(args.dtype).str, "fortran_order": False}
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header | {"shape": (n_rows, args.columns)})
        if args.source == "rows":
            for batch in batches(n_rows, args)():
                file.write(batch.tobytes())
        else:
            n_bytes = n_rows * args.columns * np.dtype(args.dtype).itemsize
            file.truncate(file.tell() + n_bytes)
    return path


def fit(args, folder):
    """Fit to ``args.gigabytes`` of rows."""
    n_rows = int(args.gigabytes * GB / args.columns / np.dtype(args.dtype).itemsize) // 500 * 500
    if args.source == "generator":
        X = as_blocks(batches(n_rows, args))
    else:
        X = as_blocks(written(folder / "rows.npy", n_rows, args))
    limit = int(args.limit * GB)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    size = {"batch_size": args.batch, "n_iter": 1, "random_state": 0, "learning_rate": 0.05}
    begin = time.perf_counter()
    machine = BernoulliRBM(args.hidden, **size).fit(Passes(X))
    print(f"fit: {time.perf_counter() - begin:.4g} s, {peak()}, limit {args.limit} GB")
    print({name: values[-1] for name, values in machine.history_.items()})


def likelihood(args, folder):
    """Compare fits from a file and fits in memory."""
    X, test = noisy_patterns(4000, 12), noisy_patterns(4000, 12, 1)
    np.save(folder / "rows.npy", X)
    found, rows = {}, []
    for name, Estimator in {"RBM": RBM, "BernoulliRBM": BernoulliRBM}.items():
        for source, data in {"memory": X, "file": as_blocks(folder / "rows.npy", 100)}.items():
            seeds = range(args.seeds)
            scores = [Estimator(8, random_state=seed).fit(data).score(test) for seed in seeds]
            found[name, source] = scores
            rows.append((name, source, np.mean(scores), np.std(scores, ddof=1) / args.seeds**0.5))
    table(("estimator", "rows from", "log-likelihood", "standard error"), rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--limit", type=float, default=1.0, help="GB of address space")
    parser.add_argument("--source", choices=["file", "rows", "generator"], default="file")
    parser.add_argument("--dtype", default="u1")
    parser.add_argument("--columns", type=int, default=784)
    parser.add_argument("--hidden", type=int, default=16)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--likelihood", action="store_true")
    parser.add_argument("--seeds", type=int, default=16)
    args = parser.parse_args()
    heading(__file__, args)
    with tempfile.TemporaryDirectory() as folder:
        (likelihood if args.likelihood else fit)(args, Path(folder))


if __name__ == "__main__":
    main()
