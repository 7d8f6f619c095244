"""Tables 1 to 3 of Ping and Ihler (2017): wrongly predicted pixels by learning method.

    python examples/benchmarks/conditional_rbm/tables.py [--dataset mnist|caltech]
        [--task noisy10|noisy20|occluded8|occluded12] [--method LR MLE-BP ...]
        [--train-size 10000] [--epochs 6 ...] [--minutes 80] [--rate 0.1 ...] [--seeds 3]
        [--start random|LR] [--n-components 256] [--batch-size 5] [--alpha 2e-3] [--redraw]
        [--last-rate 0.02]

Inputs are 784 noisy or occluded pixels, and outputs are the 784 pixels of the original image. A fit
makes ``--epochs`` epochs within ``--minutes`` of processor time, while the rate decreases to
``--last-rate`` times its first value; 1 means a constant rate, as in the paper, which has no
penalty either. Rates and numbers of epochs are selected by the error on validation images with the
first seed, and in each fit the best epoch counts. With ``--start LR`` training starts at a logistic
regression of 15 epochs, whose time is included. With ``--redraw`` the training images are corrupted
again in each epoch; otherwise they are corrupted once, as in the paper. A seed determines the
training images, the corruption and the weights. Differences to MLE-BP are paired by seed. The paper
uses 50 000 images of MNIST (4100 of Caltech101 Silhouettes) and 50 epochs, 200 with CD.
"""

import argparse
import sys
from itertools import product
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from _common import heading, table
from _images import METHODS, Images, corrupted, errors, load, paper_errors, train

from skrbm.learning import SGD


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", choices=("mnist", "caltech"), default="mnist")
    tasks = ("noisy10", "noisy20", "occluded8", "occluded12")
    parser.add_argument("--task", choices=tasks, default="noisy10")
    parser.add_argument("--method", nargs="+", choices=METHODS, default=["LR", "CD-10", "MLE-BP"])
    parser.add_argument("--train-size", type=int, default=10000)
    parser.add_argument("--epochs", type=int, nargs="+", default=[6])
    parser.add_argument("--minutes", type=float, default=80.0)
    parser.add_argument("--rate", type=float, nargs="+", default=[0.1])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--start", choices=("random", "LR"), default="random")
    parser.add_argument("--n-components", type=int, default=256)
    parser.add_argument("--batch-size", type=int, default=5)
    parser.add_argument("--alpha", type=float, default=2e-3)
    parser.add_argument("--validation", type=int, default=1000)
    parser.add_argument("--redraw", action="store_true")
    parser.add_argument("--last-rate", type=float, default=0.02)
    return parser.parse_args()


def one_method(method, args):
    """Return a row of results for each seed: errors, rate, epochs and seconds."""
    common = {
        "batch_size": args.batch_size,
        "optimizer": SGD(alpha=args.alpha, schedule="linear", average=False),
    }
    if args.redraw:
        common["corrupt"] = lambda Y, rng: corrupted(Y, args.task, args.dataset, rng)
    params = common if method == "LR" else {**common, "n_components": args.n_components}
    choices, rows = list(product(args.rate, args.epochs)), []
    for seed in range(args.seeds):
        parts = load(args.dataset, args.task, args.train_size, seed)
        parts[1] = Images(*(part[: args.validation] for part in parts[1]))
        fitted, held_out, test = parts
        tried, images, before = [], (fitted, held_out), 0.0
        if method != "LR" and args.start == "LR":
            start, _, _, before = train("LR", 0.1, 15, images, seed, **common)
            params["init"] = start
        for rate, n_epochs in choices:
            limits = rate, n_epochs, images, seed, args.minutes - before / 60
            *fit, spent = train(method, *limits, last_rate=args.last_rate, **params)
            tried.append(((rate, n_epochs), *fit, before + spent))
        choice, crbm, validation, epochs, seconds = min(tried, key=lambda entry: entry[2])
        choices, rate = [choice], choice[0]
        rows.append((*errors(crbm, test), validation, rate, epochs, seconds))
        print(f"{method}, seed {seed}:", *(f"{value:.4g}" for value in rows[-1]), flush=True)
    return np.array(rows)


def main():
    args = arguments()
    heading(__file__, args)
    print("all %, changed %, validation %, rate, epochs, seconds of processor time")
    results = {method: one_method(method, args) for method in args.method}
    report(results, args)


def report(results, args):
    """Print means over seeds with the paper's figures, and differences from MLE-BP."""
    print(f"\n{args.dataset}, {args.task}, {args.train_size} training images, {args.seeds} seeds")
    names = ("method", "all %", "changed %", "paper", "paper", "above MLE-BP", "std error")
    rows, reference = [], results.get("MLE-BP")
    for method, values in results.items():
        more = ["", ""]
        if reference is not None and method != "MLE-BP" and args.seeds > 1:
            difference = values[:, 0] - reference[:, 0]
            more = [difference.mean(), difference.std(ddof=1) / np.sqrt(len(difference))]
            more = [float(value) for value in more]
        paper = paper_errors(method, args.dataset, args.task)
        rows.append((method, *map(float, values[:, :2].mean(axis=0)), *paper, *more))
    table(
        (*names, "epochs", "rate", "seconds"),
        [(*row, *map(float, results[row[0]][:, [4, 3, 5]].mean(axis=0))) for row in rows],
    )


if __name__ == "__main__":
    main()
