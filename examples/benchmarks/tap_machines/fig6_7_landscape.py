"""TAP solutions in the plane, alone and among their starts: Figs. 6 and 7 of Tramel et al. (2018).

    python examples/benchmarks/tap_machines/fig6_7_landscape.py [--data real-mnist] [--scale 1.0]
        [--out PNG]

An RBM with 100 hidden units learns ``--data`` as in fig5_solutions.py. At four epochs, solutions
are searched from the digits 3, 6 and 7 among the first ``--starts`` training rows (paper: 10 000).
Fig. 6 is the Isomap embedding of the solutions, fitted to the means of all units at the solutions
of the last epoch and coloured by free energy; Fig. 7 is the embedding fitted to the starts, with
the solutions among them. Printed is how well a solution determines the digit: the share of the
starts whose digit is the most common one of their solution, beside the share of the most common
digit overall. Of the two figures, that of the starts is saved beside PNG with the suffix
``-starts``. With ``--data cbcl`` the starts are the first ``--starts`` faces, which have no
classes.
"""

from pathlib import Path

import numpy as np
from _landscape import last_epoch, parser, train
from _paper import dataset, heading, log_spaced, mnist, table
from threadpoolctl import threadpool_limits

from skrbm.inspection import LandscapeDisplay

DIGITS = (3, 6, 7)


def purity(labels, y):
    """Share of the rows whose class is the commonest among those of their solution."""
    counts = [np.unique(y[labels == label], return_counts=True)[1].max() for label in set(labels)]
    return float(sum(counts) / len(y))


def nearness(found):
    """Rank correlation, over pairs of solutions, of distance and of difference of free energy."""
    from scipy.spatial.distance import pdist
    from scipy.stats import spearmanr

    if len(found) < 3:
        return float("nan")
    distances = pdist(np.concatenate(found.means, axis=1))
    return float(spearmanr(distances, pdist(found.free_energies[:, None])).statistic)


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--starts", type=int, default=3000)
    args = arguments.parse_args()
    heading(__file__, args)
    X = dataset(args.data, args.rows)
    starts, y = dataset(args.data, args.starts), None
    if args.data != "cbcl":
        y = mnist("train", args.starts)[1]
        starts, y = starts[np.isin(y, DIGITS)], y[np.isin(y, DIGITS)]
    with threadpool_limits(1):
        _, recorder = train(args, X, starts, log_spaced(last_epoch(args), 4))
    columns = []
    for epoch, found in zip(recorder.epochs_, recorder.solutions_, strict=True):
        share = float("nan") if y is None else purity(found.labels, y)
        columns.append((epoch, len(found), found.n_unconverged, share, nearness(found)))
    print(f"{len(starts)} starts")
    if y is not None:
        print(f"share of the commonest digit: {purity(np.zeros(len(y)), y):.3f}")
    table(("epoch", "solutions", "unconverged", "purity", "distance ~ free energy"), columns)
    if args.out:
        path = Path(args.out)
        LandscapeDisplay.from_recorder(recorder).figure_.savefig(path, dpi=100)
        among = LandscapeDisplay.from_recorder(recorder, y, fit_on="starts")
        among.figure_.savefig(path.with_stem(f"{path.stem}-starts"), dpi=100)


if __name__ == "__main__":
    main()
