"""Receptive fields ranked by spread and by activation: Fig. 4 of Tramel et al. (2018).

    python examples/benchmarks/tap_machines/fig4_components.py [--data real-mnist] [--scale 1.0]
        [--out PNG]

An RBM learns ``--data`` as in fig5_solutions.py. Its receptive fields are ranked by their l_0.1
norm, which is large if a field is spread out, and by the mean activation of their units over the
training rows. For the fields at each end of each ranking, the number of pixels that carry the
weights, (sum w²)² / sum w⁴, and the mean activation are printed. Both localized fields and strokes
should be seen.
"""

import numpy as np
from _landscape import parser, train
from _paper import dataset, heading, table
from threadpoolctl import threadpool_limits

from skrbm.inspection import ComponentsDisplay


def draw(rbm, X, n):
    """Draw both ends of both rankings; return the figure and the displays by name."""
    import matplotlib.pyplot as plt

    figure, displays = plt.figure(figsize=(9, 9), layout="constrained"), {}
    panels = figure.subfigures(2, 2, wspace=0.05, hspace=0.05).flat
    for rank_by in ("spread", "activation"):
        for end in ("highest", "lowest"):
            name, panel = f"{end} {rank_by}", next(panels)
            panel.suptitle(name)
            displays[name] = ComponentsDisplay.from_estimator(
                rbm, X, rank_by=rank_by, end=end, n_components=n, figure=panel
            )
    return figure, displays


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--fields", type=int, default=25)
    args = arguments.parse_args()
    heading(__file__, args)
    X = dataset(args.data, args.rows)
    with threadpool_limits(1):
        rbm, _ = train(args, X)
        figure, displays = draw(rbm, X, args.fields)
        activations = dict(zip(map(bytes, rbm.components_), rbm.transform(X).mean(0), strict=True))
    rows = []
    for name, display in displays.items():
        squares = display.components.astype(np.float64) ** 2
        pixels = squares.sum(axis=1) ** 2 / (squares**2).sum(axis=1)
        active = np.mean([activations[bytes(field)] for field in display.components])
        rows.append((name, float(np.median(pixels)), float(active)))
    table((f"{args.fields} fields", "pixels, median", "activation, mean"), rows)
    if args.out:
        figure.savefig(args.out, dpi=100)


if __name__ == "__main__":
    main()
