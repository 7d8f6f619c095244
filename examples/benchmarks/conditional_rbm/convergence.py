"""Fig. 4 of Ping and Ihler (2017): convergence of belief propagation during training.

    python examples/benchmarks/conditional_rbm/convergence.py [--task occluded8] [--epochs 20]
        [--train-size 2000] [--rate 0.05] [--inference bp|mean_field] [--start random|LR]

In each epoch, belief propagation or mean field makes 7 + epoch sweeps; a row has converged when the
mean squared change of its beliefs in a sweep is at most 1e-6. The largest weight is printed too.
The paper uses 50 000 images and 50 epochs. With ``--start LR`` training starts at a logistic
regression of 15 epochs.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from _common import heading, table
from _images import load, train

from skrbm import ConditionalRBM
from skrbm.learning import SGD


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", default="occluded8")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--train-size", type=int, default=2000)
    parser.add_argument("--n-components", type=int, default=256)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--batch-size", type=int, default=10)
    parser.add_argument("--inference", choices=("bp", "mean_field"), default="bp")
    parser.add_argument("--start", choices=("random", "LR"), default="random")
    parser.add_argument("--alpha", type=float, default=0.0)
    args = parser.parse_args()
    heading(__file__, args)
    images, held_out, _ = load("mnist", args.task, args.train_size)
    optimizer = SGD(alpha=args.alpha, schedule="linear", average=False)
    common, init = {"batch_size": args.batch_size, "optimizer": optimizer}, "random"
    if args.start == "LR":
        init = train("LR", 0.1, 15, (images, held_out), **common)[0]
    crbm = ConditionalRBM(
        args.n_components,
        inference=args.inference,
        learning_rate=args.rate,
        init=init,
        random_state=0,
        **common,
    )
    largest = []
    for _ in range(args.epochs):
        crbm.partial_fit(*images)
        largest.append(float(np.abs(crbm.components_).max()))
    history = crbm.history_
    sweeps = [7 + epoch for epoch in history["epoch"]]
    converged = [100 * part for part in history["converged"]]
    rows = zip(history["epoch"], sweeps, converged, largest, strict=True)
    table(("pass", "sweeps", "converged %", "largest weight"), rows)


if __name__ == "__main__":
    main()
