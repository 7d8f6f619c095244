"""Peak memory and time of a fit to more rows than memory holds.

    python examples/benchmarks/large_data.py [--gigabytes 4] [--limit 1] [--source rows]

The process may use at most ``--limit`` GB of address space. With ``--source rows``, 784 columns of
noisy patterns are written to a .npy file; with ``generator``, batches are taken from 100 MB of such
patterns.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
from _common import heading

from skrbm import BernoulliRBM
from skrbm.inputs import as_blocks

GB = 10**9
PATTERNS = np.array([[1] * 6 + [0] * 6, [0] * 6 + [1] * 6, [1, 0] * 6, [1, 1, 0] * 4])


def noisy_patterns(n, seed, dtype, n_columns=784):
    """Return rows of bits: one of four patterns, each bit flipped with probability 0.05."""
    rng = np.random.default_rng(seed)
    patterns = np.tile(PATTERNS, n_columns // 12 + 1)[:, :n_columns].astype(np.uint8)
    flips = rng.random((n, n_columns), dtype=np.float32) < 0.05
    return (patterns[np.sort(rng.integers(4, size=n))] ^ flips).astype(dtype)


def batches(n_rows, dtype, size=500):
    """Return a function that yields batches of rows, at random places of 100 MB of them."""
    n = 10**8 // (size * 784 * np.dtype(dtype).itemsize)
    rows = np.concatenate([noisy_patterns(size, seed, dtype) for seed in range(n)])

    def begin():
        starts = np.random.default_rng(0).integers(len(rows) - size, size=n_rows // size)
        return (rows[start : start + size] for start in starts)

    return begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--limit", type=float, default=1.0, help="GB of address space")
    parser.add_argument("--source", choices=["rows", "generator"], default="rows")
    parser.add_argument("--dtype", default="u1")
    args = parser.parse_args()
    heading(__file__, args)
    n_rows = int(args.gigabytes * GB / 784 / np.dtype(args.dtype).itemsize) // 500 * 500
    X = begin = batches(n_rows, args.dtype)
    with tempfile.TemporaryDirectory() as folder:
        if args.source == "rows":
            X = Path(folder, "rows.npy")
            header = {"descr": np.dtype(args.dtype).str, "fortran_order": False}
            with open(X, "wb") as file:
                np.lib.format.write_array_header_1_0(file, header | {"shape": (n_rows, 784)})
                for batch in begin():
                    file.write(batch.tobytes())
        limit = int(args.limit * GB)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        rbm = BernoulliRBM(16, batch_size=1000, n_iter=1, learning_rate=0.05, random_state=0)
        start = time.perf_counter()
        rbm.fit(as_blocks(X))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GB
    seconds = time.perf_counter() - start
    print(f"{n_rows} rows, fit: {seconds:.4g} s, peak {peak:.3g} GB, limit {args.limit} GB")


if __name__ == "__main__":
    main()
