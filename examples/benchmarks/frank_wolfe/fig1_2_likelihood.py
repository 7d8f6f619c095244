"""Likelihood and classification error over the number of units: Figs. 1, 2 of Ping et al. (2016).

    python examples/benchmarks/frank_wolfe/fig1_2_likelihood.py {caltech,mnist} [--scale 1.0]

Frank-Wolfe by line search and with the printed steps 1/t; CD-10 from random starts, the best of
``--starts`` by the validation rows; CD-10 from the Frank-Wolfe machine of the same size.
Likelihoods are AIS over the paper's 14 500 temperatures with ``--chains`` runs; validation choices
take 1 000 temperatures. The classifier is multinomial logistic regression on E[h | v].

``--scale`` multiplies the sizes (20 to 700), the epochs of CD (400 on Caltech101 Silhouettes, 200
on MNIST) and, on MNIST, the rows (50 000; the other 10 000 are for validation). The path goes on to
the largest size; "chosen" is where the rows that the fit sets aside had their best score.
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

from _common import data_folder, heading, mnist, table

from skrbm import BernoulliRBM, FrankWolfeRBM
from skrbm.evaluation import AIS, log_partition

SIZES = 20, 50, 100, 200, 300, 400, 500, 600, 700
EPOCHS = {"caltech": 400, "mnist": 200}


def dataset(name, scale):
    """Return (X, y) for training, validation and test, float32."""
    if name == "caltech":
        path = data_folder() / "caltech101-silhouettes" / "caltech101_silhouettes_28_split1.mat"
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
    base = rbm.machine_.units[0].initial_theta(X_train)
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
    fw = FrankWolfeRBM(
        most, alpha=args.alpha, step=step, n_iter_no_change=most, random_state=0, verbose=0
    )
    seconds = timed_fit(fw, train[0])
    sizes = np.array(fw.path_["n_components"])
    print(
        f"FW {step}: path to {sizes.max()} units in {seconds:.0f} s of processor time, chosen "
        f"{fw.n_components_}, ended: {fw.stop_reason_}, "
        f"{fw.path_['reason'].count('refused')} refused, "
        f"median multiplicity {np.median(fw.multiplicities_):.2f}",
        flush=True,
    )
    return fw, np.cumsum(fw.path_["time"]), sizes


def best_start(n, args, epochs, train, validation):
    """Return the best of several random starts of CD-10, and the seconds that one took."""
    found = []
    for seed in range(args.starts):
        rbm = cd(n, args, epochs, random_state=seed)
        seconds = timed_fit(rbm, train[0])
        found.append((likelihood(rbm, train[0], validation[0], 50, 1000)[0], seconds, rbm))
    _, seconds, rbm = max(found, key=lambda one: one[0])
    return rbm, seconds


def cd(n, args, epochs, **params):
    return BernoulliRBM(
        n,
        n_gibbs_steps=10,
        persistent=False,
        learning_rate=args.rate,
        batch_size=100,
        n_iter=epochs,
        **params,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", choices=sorted(EPOCHS))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--chains", type=int, default=500)
    parser.add_argument("--sizes", type=int, nargs="*", help="in place of the scaled ones")
    parser.add_argument("--epochs", type=int, help="in place of the scaled number")
    args = parser.parse_args()
    heading(__file__, args)
    train, validation, test = dataset(args.data, args.scale)
    scaled = sorted({max(5, round(n * args.scale)) for n in SIZES})
    sizes = args.sizes or scaled
    epochs = args.epochs or max(1, round(EPOCHS[args.data] * args.scale))
    print(f"{len(train[0])} rows, {epochs} epochs of CD-10, sizes {sizes}", flush=True)
    grown = {step: grow(args, train, step, max(sizes)) for step in ("line_search", "1/t")}
    rows = []
    for n in sizes:
        machines = []
        for step, (fw, seconds, path) in grown.items():
            if n in path:
                place = np.flatnonzero(path == n)[-1]
                machines.append((f"FW {step}", fw.truncate(n), float(seconds[place])))
        machines.append(("CD-10, best start", *best_start(n, args, epochs, train, validation)))
        if machines[0][0] == "FW line_search":
            refined = cd(n, args, epochs, init=machines[0][1], random_state=0)
            machines.append(("CD-10 from FW", refined, timed_fit(refined, train[0])))
        for name, rbm, seconds in machines:
            value, std = likelihood(rbm, train[0], test[0], args.chains)
            rows.append((n, name, value, 3 * std, error(rbm, train, test), float(seconds)))
            print(*rows[-1], flush=True)
    print()
    table(("units", "machine", "test log-lik.", "3 se", "error %", "fit s"), rows)


if __name__ == "__main__":
    main()
