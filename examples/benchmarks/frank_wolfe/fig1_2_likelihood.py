"""Likelihood and classification error by the number of units: Figs. 1, 2 of Ping et al. (2016).

    python examples/benchmarks/frank_wolfe/fig1_2_likelihood.py {caltech,mnist} [--scale 1.0]

Compared are Frank-Wolfe with joint training, with line search and with the printed steps 1/t; CD-10
from random starts, the best of ``--starts`` by the likelihood of validation rows; and CD-10 from
the Frank-Wolfe model of the same size, the best of ``--orders`` orders of the batches. Likelihoods
are estimated by AIS over the paper's 14 500 temperatures with ``--chains`` chains; a start is
selected with 1000 temperatures. The classifier is multinomial logistic regression on E[h | v].

``--scale`` multiplies the sizes (20 to 700), the epochs of CD (400 on Caltech101 Silhouettes, 200
on MNIST) and, on MNIST, the rows (50 000; the other 10 000 are the validation set). A path
continues for ``--patience`` units after the size that it chooses, or ends at the free-energy gap of
the paper with ``--stop free_energy_gap``; its test likelihood is printed every ``--every`` units.
Among the scaled sizes, or ``--sizes``, those on the path are used, and the chosen size. Seconds are
processor time.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.io import loadmat
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from _common import data_file, heading, mnist, progress, table

from skrbm import RBM, FrankWolfeRBM
from skrbm.arrays import Columns
from skrbm.evaluation import AIS, log_partition
from skrbm.inference import Gibbs
from skrbm.learning import SGD, EarlyStopping

SIZES = 20, 50, 100, 200, 300, 400, 500, 600, 700
EPOCHS = {"caltech": 400, "mnist": 200}


def dataset(name, scale):
    """Return (X, y) for training, validation and test, float32."""
    if name == "caltech":
        path = data_file("caltech101-silhouettes", "caltech101_silhouettes_28_split1.mat")
        d = loadmat(path)
        parts = [
            (d[f"{part}_data"], d[f"{part}_labels"].ravel()) for part in ("train", "val", "test")
        ]
    else:
        X, y = mnist("train")
        order = np.random.default_rng(0).permutation(len(X))
        train, validation = np.split(order, [50_000])
        train = train[: max(1000, round(50_000 * scale))]
        parts = [(X[train], y[train]), (X[validation], y[validation]), mnist("test")]
    return [(X.astype(np.float32), y) for X, y in parts]


def likelihood(rbm, X_train, X_test, chains, schedule="salakhutdinov2008"):
    """Return the mean log-likelihood of test rows by AIS, and the standard error of log Z."""
    base = rbm.machine_.units[0].initial_theta(Columns(X_train))
    z = log_partition(rbm, AIS(chains, schedule), base=base, random_state=0)
    return -float(np.mean(rbm.free_energy(X_test))) - z.value, z.std


def error(rbm, train, test):
    """Return the classification error in percent of logistic regression on the features."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    model = LogisticRegression(C=0.1, max_iter=200).fit(rbm.transform(train[0]), train[1])
    return 100 * (1 - model.score(rbm.transform(test[0]), test[1]))


def timed_fit(rbm, X):
    begin = time.process_time()
    rbm.fit(X)
    return time.process_time() - begin


def grow(args, train, step, most):
    """Return a path of machines, and the processor time at which each size was reached."""
    fw = FrankWolfeRBM(
        most,
        alpha=args.alpha,
        step=step,
        random_state=0,
        early_stopping=(
            EarlyStopping(patience=args.patience, tol=0.001)
            if args.stop == "validation"
            else args.stop
        ),
    )
    seconds = timed_fit(fw, train[0])
    time_at, total = np.cumsum(fw.path_["time"]), np.sum(fw.path_["time"])
    sizes = np.array(fw.path_["n_components"])
    print(
        f"FW {step}: path to {sizes.max()} units in {seconds:.0f} s of processor time, chosen "
        f"{fw.n_components_}, ended: {fw.stop_reason_}, "
        f"{fw.path_['reason'].count('refused')} refused, "
        f"median multiplicity {np.median(fw.multiplicities_):.2f}",
        flush=True,
    )
    reached = {n: seconds * time_at[np.flatnonzero(sizes == n)[0]] / total for n in set(sizes)}
    return fw, reached


def curve(fw, args, reached, train, test):
    """Print the test likelihood along a path, and where it is best."""
    last = max(reached)
    sizes = sorted({*range(args.every, last, args.every), fw.n_components_, last})
    found = {n: likelihood(fw.truncate(n), train[0], test[0], args.chains) for n in sizes}
    for n, (value, std) in found.items():
        print(f"  {n:4d} units: {value:.2f} +- {3 * std:.2f} in {reached[n]:.0f} s", flush=True)
    best = max(found, key=lambda n: found[n][0])
    print(f"  best on the test rows: {best} units; chosen: {fw.n_components_}", flush=True)


def best_of(n_seeds, n, args, epochs, parts, name, **params):
    """Return a row for the best of several fits of CD-10 by the validation rows.

    Prints the test likelihoods of all.
    """
    train, validation, test = parts
    found = []
    for seed in range(n_seeds):
        rbm = cd(n, args, epochs, random_state=seed, **params)
        seconds = timed_fit(rbm, train[0])
        quick = likelihood(rbm, train[0], validation[0], 50, 1000)[0]
        found.append((quick, *likelihood(rbm, train[0], test[0], args.chains), rbm, seconds))
    print(f"  {name}, of", ", ".join(f"{one[1]:.1f}" for one in found), flush=True)
    _, value, std, rbm, seconds = max(found, key=lambda one: one[0])
    return (n, name, value, 3 * std, error(rbm, train, test), float(seconds))


def cd(n, args, epochs, **params):
    return RBM(
        n,
        learning_rate=args.rate,
        batch_size=100,
        n_iter=epochs,
        optimizer=SGD(alpha=0.0, schedule=args.schedule, centered=False, average=False),
        inference=Gibbs(n_steps=10, start="data"),
        **params,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", choices=sorted(EPOCHS))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--schedule", choices=("constant", "linear"), default="linear")
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--orders", type=int, default=1)
    parser.add_argument("--chains", type=int, default=500)
    parser.add_argument("--steps", nargs="*", default=["joint", "line_search", "1/t"])
    parser.add_argument("--patience", type=int, default=40)
    parser.add_argument("--stop", choices=("validation", "free_energy_gap"), default="validation")
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--sizes", type=int, nargs="*", help="in place of the scaled ones")
    parser.add_argument("--most", type=int, help="in place of the largest scaled size")
    parser.add_argument("--epochs", type=int, help="in place of the scaled number")
    args = parser.parse_args()
    heading(__file__, args)
    train, validation, test = dataset(args.data, args.scale)
    epochs = args.epochs or max(1, round(EPOCHS[args.data] * args.scale))
    scaled = sorted({max(5, round(n * args.scale)) for n in SIZES})
    print(f"{train[0].shape} training data, {epochs} epochs of CD-10", flush=True)
    paths = {}
    for step in args.steps:
        paths[step] = grow(args, train, step, args.most or max(scaled))
        curve(paths[step][0], args, paths[step][1], train, test)
    first, reached = next(iter(paths.values()))
    wanted = scaled if args.sizes is None else args.sizes
    sizes = sorted({n for n in wanted if n in reached} | {first.n_components_})
    rows = []
    for n in sizes:
        for step, (fw, reached) in paths.items():
            if n in reached:
                rbm = fw.truncate(n)
                value, std = likelihood(rbm, train[0], test[0], args.chains)
                wrong = error(rbm, train, test)
                rows.append((n, f"FW {step}", value, 3 * std, wrong, float(reached[n])))
                progress(rows[-1])
        common = n, args, epochs, (train, validation, test)
        rows.append(best_of(args.starts, *common, "CD-10, best start"))
        progress(rows[-1])
        rows.append(best_of(args.orders, *common, "CD-10 from FW", init=first.truncate(n)))
        progress(rows[-1])
    print()
    table(("units", "machine", "test log-lik.", "3 se", "error %", "fit s"), rows)


if __name__ == "__main__":
    main()
