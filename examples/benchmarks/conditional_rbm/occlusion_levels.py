"""Fig. 3 of Ping and Ihler (2017): completion of images by the size of the occlusion.

    python examples/benchmarks/conditional_rbm/occlusion_levels.py [--sizes 4 8 12 16 20 24 28]
        [--method MLE-BP CD-10] [--train-size 10000] [--epochs 6] [--rate 0.1] [--seeds 1]

A random square of the given side is set to 0 in images of MNIST, and all pixels are predicted. With
a side of 28, nothing is observed. The paper uses 50 000 images.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from _common import heading, progress, table
from _images import METHODS, Images, errors, load, train

from skrbm.learning import SGD


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[4, 8, 12, 16, 20, 24, 28])
    parser.add_argument("--method", nargs="+", choices=METHODS, default=["MLE-BP", "CD-10"])
    parser.add_argument("--train-size", type=int, default=10000)
    parser.add_argument("--test-size", type=int, default=10000)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--n-components", type=int, default=256)
    return parser.parse_args()


def one_fit(method, size, seed, args):
    """Return the error of all and of the changed pixels of the test images, in %."""
    fitted, held_out, test = load("mnist", f"occluded{size}", args.train_size, seed)
    held_out = Images(*(part[:1000] for part in held_out))
    test = Images(*(part[: args.test_size] for part in test))
    optimizer = SGD(alpha=2e-3, schedule="linear", average=False)
    params = {"batch_size": 5, "optimizer": optimizer, "n_components": args.n_components}
    crbm, *_ = train(method, args.rate, args.epochs, (fitted, held_out), seed, **params)
    return errors(crbm, test)


def main():
    args = arguments()
    heading(__file__, args)
    rows, means = [], {method: [] for method in args.method}
    for size in args.sizes:
        for method in args.method:
            found = [one_fit(method, size, seed, args) for seed in range(args.seeds)]
            means[method].append(np.mean(found, axis=0))
            rows.append((size, method, *map(float, means[method][-1])))
            progress(rows[-1])
    print()
    table(("side", "method", "all %", "changed %"), rows)


if __name__ == "__main__":
    main()
