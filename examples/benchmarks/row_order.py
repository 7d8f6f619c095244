"""Share of an epoch that finding equal rows and their order takes, once in each fit.

    python examples/benchmarks/row_order.py [--rows 20000] [--hidden 500] [--repeats 5]

Fits merge equal rows and put the others into an order that depends on their values alone. The time
of that is divided by the time of an epoch of PCD-1, batches of 100, one BLAS thread: what a fit of
six epochs takes more than one of one epoch, divided by five. Rows are digits of MNIST, binary, in
float32, float64 and as a sparse matrix. Medians over the repeats, in turn.
"""

import argparse
import time
import warnings

import numpy as np
import scipy.sparse as sp
from _common import heading, mnist, table
from threadpoolctl import threadpool_limits

from skrbm import BernoulliRBM
from skrbm.inputs import DistinctRows


def seconds_of(function):
    begin = time.process_time()
    function()
    return time.process_time() - begin


def epoch_seconds(X, n_hidden):
    """Return the time of an epoch, without what is done once in a fit."""
    settings = {"learning_rate": 0.05, "batch_size": 100, "random_state": 0}
    fits = [BernoulliRBM(n_hidden, n_iter=n_iter, **settings) for n_iter in (1, 6)]
    one, six = (seconds_of(lambda fit=fit: fit.fit(X)) for fit in fits)
    return (six - one) / 5


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20000)
    parser.add_argument("--hidden", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    heading(__file__, args)
    warnings.simplefilter("ignore")
    X = (mnist("train", args.rows)[0] > 0.5).astype(np.float32)
    kinds = {"float32": X, "float64": X.astype(np.float64), "CSR float32": sp.csr_array(X)}
    seconds = {name: [] for name in kinds}
    with threadpool_limits(1):
        for _ in range(args.repeats):
            for name, rows in kinds.items():
                order = seconds_of(lambda rows=rows: DistinctRows([rows]))
                seconds[name].append((order, epoch_seconds(rows, args.hidden)))
    rows = []
    for name, found in seconds.items():
        order, epoch = np.array(found).T
        rows.append((name, np.median(order), np.median(epoch), np.median(order / epoch)))
    table(("rows", "order, s", "epoch, s", "ratio"), rows)


if __name__ == "__main__":
    main()
