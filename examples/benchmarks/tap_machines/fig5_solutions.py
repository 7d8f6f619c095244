"""Number of TAP solutions and their free energies over the epochs: Fig. 5 of Tramel et al. (2018).

    python examples/benchmarks/tap_machines/fig5_solutions.py [--data real-mnist] [--scale 1.0]
        [--out PNG]

An RBM with 100 hidden units learns ``--data`` (thresholded MNIST) with the settings of Table 1, but
with ``--speed`` times the learning rate in as many times fewer epochs than the paper's 100, and
with at most ``--sweeps`` sweeps in an update. ``--scale`` multiplies the epochs. Solutions are
searched from the first ``--starts`` training rows (paper: 10 000), and followed to a mean squared
change of 1e-12; beside their number, the number found from the first 1 % and 10 % of these starts
is printed. Figures to reach: one solution before training; then their number grows, and stays below
10 % of the starts.
"""

import time

import numpy as np
from _landscape import last_epoch, parser, train
from _paper import dataset, heading, log_spaced, table
from threadpoolctl import threadpool_limits

from skrbm.inspection import FreeEnergyDisplay


def rows_of(recorder):
    """Return a row of the table for each record."""
    for epoch, found in zip(recorder.epochs_, recorder.solutions_, strict=True):
        energies, n = (
            found.free_energies / sum(part.shape[1] for part in found.means),
            len(found.labels),
        )
        counts = (found.n_unique[tol] for tol in (1e-1, 1e-2, 1e-3))
        labels = found.labels
        fewer = (np.unique(labels[:m][labels[:m] >= 0]).size for m in (n // 100, n // 10))
        share = 100 * len(found) / n
        spread = (energies.min(), np.median(energies), energies.max())
        yield epoch, *counts, share, *fewer, found.n_unconverged, *map(float, spread)


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--starts", type=int, default=10000)
    arguments.add_argument("--points", type=int, default=5)
    args = arguments.parse_args()
    heading(__file__, args)
    X = dataset(args.data, args.rows)
    epochs, begin = [0, *log_spaced(last_epoch(args), args.points - 1)], time.perf_counter()
    with threadpool_limits(1):
        rbm, recorder = train(args, X, X[: args.starts], epochs)
    fit, total = sum(rbm.history_["time"]), time.perf_counter() - begin
    print(f"{fit:.0f} s of training, {total - fit:.0f} s of following {args.starts} starts\n")
    names = ("epoch", "at 1e-1", "at 1e-2", "at 1e-3", "% of starts", "of 1 %", "of 10 %")
    names = (*names, "unconverged", "F/unit least", "median", "most")
    table(names, rows_of(recorder))
    if args.out:
        FreeEnergyDisplay.from_recorder(recorder).figure_.savefig(args.out, dpi=100)


if __name__ == "__main__":
    main()
