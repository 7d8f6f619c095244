"""How time and peak memory of a fit grow with rows, columns and hidden units.

    python examples/benchmarks/growth.py [rows] [columns] [hidden] [sparse]

Each fit runs in a process of its own: ``RBM(inference="pcd")`` on random bits in float32, with
batches of 1000 rows where the number of rows grows and of 100 elsewhere. "s" is wall-clock time,
"last over first" is the time of the last epoch relative to the first, "MB" is the peak of resident
memory above what was there before the fit, and "allowed" is the memory of the data plus three times
that of the parameters plus 200 MB. "sparse" fits one epoch to a million rows of 100 columns, in
which 5 % of the values are 1.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings

import numpy as np
import scipy.sparse as sp
from _common import heading, table

from skrbm import RBM

SIZES = {  # (rows, columns, hidden units, epochs)
    "rows": [(n, 100, 100, 5) for n in (3000, 10**4, 10**5, 10**6)],
    "columns": [(2000, n, 100, 5) for n in (10**2, 10**3, 10**4)],
    "hidden": [(2000, 100, n, 5) for n in (10**2, 10**3, 10**4)],
    "sparse": [(10**6, 100, 100, 1)],
}


def peak():
    """Return the peak of resident memory in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(part, n_rows, n_columns, n_hidden, n_iter):
    """Return time, last epoch over first and memory of a fit in this process."""
    rng = np.random.default_rng(0)
    if part == "sparse":
        ones = np.ones(n_rows * 5, np.float32)
        starts, at = np.arange(0, n_rows * 5 + 1, 5, np.int32), np.arange(0, 100, 20, np.int32)
        at = np.tile(at, n_rows) + rng.integers(20, size=n_rows * 5, dtype=np.int32)
        X = sp.csr_matrix((ones, at, starts), (n_rows, n_columns))
    else:
        X = np.empty((n_rows, n_columns), np.float32)
        for block in np.array_split(X, -(-X.size // 10**7)):
            block[:] = rng.random(block.shape, np.float32) < 0.3
    data = X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes
    batch_size = 1000 if n_rows > 2000 else 100
    model = RBM(n_hidden, inference="pcd", batch_size=batch_size, n_iter=n_iter, random_state=0)
    begin, before = time.perf_counter(), peak()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)
    seconds = time.perf_counter() - begin
    epochs = model.history_["time"]
    allowed = (data + 3 * model.components_.nbytes) / 2**20 + 200
    return seconds, float(epochs[-1] / epochs[0]), peak() - before, allowed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", default=list(SIZES))
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(*json.loads(args.measure))))
        return
    heading(__file__, args)
    for part in args.parts:
        rows = []
        for size in SIZES[part]:
            command = [sys.executable, __file__, "--measure", json.dumps([part, *size])]
            found = subprocess.run(command, check=True, capture_output=True, text=True)
            rows.append((part, *size[:3], *json.loads(found.stdout.splitlines()[-1])))
        names = ("part", "rows", "columns", "hidden", "s", "last over first", "MB", "allowed")
        table(names, rows)
        print(flush=True)


if __name__ == "__main__":
    main()
