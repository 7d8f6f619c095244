"""What ``RBM()`` reaches without any setting, beside a sweep over fixed learning rates.

    SKRBM_DATA=... python examples/benchmarks/automatic_rates.py [--sets tfim nltcs ...]

Data are ten qubits (10 000 rows of 10 bits, from which the exact divergence from their known
distribution is taken), the binary tables nltcs, plants, jester, audio and dna, and 10 000 images of
MNIST and Fashion-MNIST. SKRBM_DATA names the folder that holds them. For each set:

- "default": ``RBM(random_state=0)``, for images with n_iter=10;
- "fixed": the same with each of the rates, centred and averaged;
- "plain": the same rates, neither centred nor averaged, and without a penalty.

The quality is the mean log-likelihood of the test rows in nats, a mean over ``--seeds``; of the
qubits it is minus the divergence. log Z is exact up to 20 columns; elsewhere it is the larger one
of annealing and of reverse annealing, of standard errors of about 0.1. "gain" is how much of the
way from independent units to the best of all runs the default goes. Seconds are of the processor,
of one fit. ``--passes``, ``--hidden`` and ``--steps`` change the number of passes, of hidden units
and of Gibbs steps for each batch in all runs. ``--columns`` compares penalties in place of rates:
``alpha`` is the larger of 1 and the number of columns over each of these, over the number of rows;
"auto" takes 50.
"""

import argparse
import time
from statistics import fmean

import numpy as np
from _common import data_folder, debd, fashion_mnist, heading, mnist, progress, table

from skrbm import RBM
from skrbm.evaluation import SMC, bracket

SETS = ("tfim", "nltcs", "plants", "jester", "baudio", "dna", "mnist", "fashion-mnist")
IMAGES = 10_000
COMMON = {}  # parameters of all runs
SEEDS = []  # for each of which there is a fit


def images(name):
    """Return training and test images, thresholded."""
    if name == "mnist":
        return mnist("train", IMAGES)[0], mnist("test", 2000)[0]
    return tuple(
        fashion_mnist(part, n).astype(np.float32) for part, n in (("train", IMAGES), ("test", 2000))
    )


def read(name):
    """Return (training rows, test rows, weights of the test rows, number of passes)."""
    folder = data_folder()
    if name == "tfim":
        X = np.loadtxt(folder / "tfim" / "tfim1d_data.txt", dtype=np.float32)
        p = np.loadtxt(folder / "tfim" / "tfim1d_psi.txt")[:, 0] ** 2
        states = ((np.arange(1024)[:, None] >> np.arange(9, -1, -1)) & 1).astype(np.float32)
        return X, states, p, None
    if "mnist" in name:
        return *images(name), None, 10
    train, test = (debd(name, part).astype(np.float32) for part in ("train", "test"))
    return train, test, None, None


def quality(rbm, X, weights):
    """Return the mean log-likelihood, or minus the divergence from a known distribution."""
    if X.shape[1] <= 20:
        log_z = rbm.log_partition()
    else:  # a machine that was learnt badly has modes that one of the two does not find
        found = bracket(rbm, method=SMC(max_sweeps=4000), burn_in=200, random_state=0)
        log_z = max(found.forward.value, found.reverse.value)
    values = -np.asarray(rbm.free_energy(X)) - log_z
    if weights is None:
        return float(values.mean())
    known = weights > 0
    return float(weights[known] @ (values[known] - np.log(weights[known])))


def run(X, test, weights, n_iter, **params):
    """Return the quality of a fit, and its seconds, both means over seeds."""
    params = COMMON | params
    if n_iter is not None:
        params["n_iter"] = n_iter
    found, seconds = [], []
    for seed in SEEDS:
        begin = time.process_time()
        rbm = RBM(random_state=seed, **params).fit(X)
        seconds.append(time.process_time() - begin)
        found.append(quality(rbm, test, weights))
    progress((params, found))
    return fmean(found), fmean(seconds)


def compare(name, rates, passes=None):
    """Return a row of the table."""
    X, test, weights, n_iter = read(name)
    n_iter = passes or n_iter
    # First weights of binary machines tell rows apart; these are of 0.01.
    independent, _ = run(X, test, weights, 0, hidden="gaussian")
    found, seconds = run(X, test, weights, n_iter)
    progress((name, "default", found, seconds))
    best = {}
    for kind, on in (("fixed", True), ("plain", False)):
        runs = {}
        for rate in rates:
            params = {"learning_rate": rate, "centered": on, "average": on}
            params |= {} if on else {"alpha": 0.0}
            runs[rate], spent = run(X, test, weights, n_iter, **params)
            progress((name, kind, rate, runs[rate], spent))
        best[kind] = max(runs, key=runs.get), max(runs.values())
    top = max(found, best["fixed"][1], best["plain"][1])
    gain = 100 * (found - independent) / (top - independent)
    return name, found, seconds, *best["fixed"], *best["plain"], independent, gain


def compare_penalties(name, columns):
    """Return a row of the table of penalties."""
    X, test, weights, n_iter = read(name)
    found = []
    for wide in columns:
        alpha = max(1.0, X.shape[1] / wide) / len(X)
        found.append(run(X, test, weights, n_iter, alpha=alpha)[0])
        progress((name, wide, alpha, found[-1]))
    return name, *X.shape, *found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--rates", nargs="+", type=float, default=[0.05, 0.1, 0.2, 0.5, 1.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--passes", type=int)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument(
        "--columns", nargs="+", type=float, help="compare penalties, such as 1e9 50"
    )
    args = parser.parse_args()
    SEEDS.extend(range(args.seeds))
    COMMON.update(n_components=args.hidden, n_steps=args.steps)
    if data_folder() is None:
        raise SystemExit("set the environment variable SKRBM_DATA to the folder of the data")
    heading(__file__, args)
    if args.columns:
        rows = [compare_penalties(name, args.columns) for name in args.sets]
        print()
        table(("set", "rows", "columns", *map(str, args.columns)), rows)
        return
    rows = [compare(name, args.rates, args.passes) for name in args.sets]
    names = "set", "default", "s", "rate", "fixed", "rate", "plain", "independent", "gain %"
    print()
    table(names, rows)


if __name__ == "__main__":
    main()
