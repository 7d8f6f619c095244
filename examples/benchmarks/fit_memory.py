"""Peak memory of a fit beyond its data, in units of parameters and batch.

    python examples/benchmarks/fit_memory.py [--rows 60000] [--hidden 500]

Counted by ``tracemalloc`` (NumPy reports its arrays to it): what a fit allocates at its peak beyond
X, divided by the bytes of parameters plus a batch of visible and hidden values; dense bytes and
sparse X of 20 000 columns. The limit is 10.
"""

import argparse
import tracemalloc

import numpy as np
import scipy.sparse as sp
from _common import heading, mnist, table

from skrbm import TAPRBM, BernoulliRBM


def peak(estimator, X):
    """Return the bytes allocated at the peak of a fit."""
    tracemalloc.start()
    estimator.fit(X)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=60000)
    parser.add_argument("--hidden", type=int, default=500)
    args = parser.parse_args()
    heading(__file__, args)
    X = mnist("train", args.rows)[0]
    text = sp.random(20000, 20000, density=0.002, format="csr", dtype=np.float32, random_state=0)
    text.data[:] = 1
    size = {"batch_size": 100, "n_iter": 1, "random_state": 0}
    cases = [
        ("BernoulliRBM, bytes", BernoulliRBM(args.hidden, **size), X),
        ("BernoulliRBM, sparse", BernoulliRBM(args.hidden, **size), text),
        ("TAPRBM, bytes", TAPRBM(args.hidden, inference="naive_mean_field", **size), X[:5000]),
    ]
    rows = []
    for name, estimator, data in cases:
        most = peak(estimator, data)
        parameters = estimator.components_.nbytes
        batch = 100 * sum(estimator.components_.shape) * estimator.components_.itemsize
        held = data.data.nbytes if sp.issparse(data) else data.nbytes
        rows.append((name, held / 2**20, most / 2**20, most / (parameters + batch)))
    table(("fit", "data MB", "allocated MB", "over parameters + batch"), rows)


if __name__ == "__main__":
    main()
