"""Exact log-likelihood by the number of steps that ranks take alone before they average.

A machine of 64 visible and 12 hidden units learns binary digits (scikit-learn's 1797 rows of
8 x 8) by PCD with a batch of 80 rows of four ranks together, each with chains of its own, at a
fixed learning rate that falls to 0. log Z is exact.

    OPENBLAS_NUM_THREADS=1 python examples/benchmarks/distributed/local_steps.py
"""

import argparse

import numpy as np
from _launch import on_ranks
from sklearn.datasets import load_digits

from skrbm import RBM


def scores(communicator, seeds, n_iter, rate):
    """Return exact mean log-likelihoods of the digits, one for each seed."""
    X = (load_digits().data > 7).astype(np.float64)
    part = X[communicator.rank :: communicator.size]
    options = {"batch_size": 80, "n_iter": n_iter, "learning_rate": rate}
    return [RBM(12, random_state=s, **options).fit(part).score(X) for s in seeds]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--n-iter", type=int, default=40)
    parser.add_argument("--rate", type=float, default=0.2)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, nargs="+", default=(1, 2, 4, 8, 16, 23))
    args = parser.parse_args()
    options = range(args.seeds), args.n_iter, args.rate
    print(
        f"{args.ranks} ranks, {args.n_iter} epochs, learning rate {args.rate}, {args.seeds} seeds"
    )
    print("process alone: ", described(on_ranks(scores, 1, *options)))
    for steps in args.steps:
        found = on_ranks(scores, args.ranks, *options, local_steps=steps)
        print(f"local_steps={steps:3d}: ", described(found), flush=True)


def described(values):
    error = np.std(values, ddof=1) / len(values) ** 0.5
    return f"{np.mean(values):.2f} +- {error:.2f} nats"


if __name__ == "__main__":
    main()
