"""How well FrankWolfeRBM recovers known RBMs, with exact log Z.

    python examples/benchmarks/frank_wolfe/recovery.py [--scale 1.0] [--visible 12] [--alpha 0.003]

Data are drawn from random RBMs with 6 to 12 hidden units, for which the best model of independent
units is at least 0.3 nats below the truth. Printed is the fraction of that distance which is closed
on test rows: by the grown RBM, after refinement by PCD, and by PCD from a random start with the
true size. Log-likelihoods are sums over all configurations. ``--scale`` multiplies the 30 000
training rows and the 150 epochs.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from _common import heading, table

from skrbm import RBM, FrankWolfeRBM
from skrbm.inference import Gibbs
from skrbm.learning import SGD

SIZES = 6, 8, 10, 12


def configurations(n):
    return ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(np.float64)


def generator_law(n_visible, n_hidden, strength, rng):
    """Return the logarithms of the probabilities of all rows of a random RBM."""
    W = strength * rng.standard_normal((n_hidden, n_visible))
    b = -0.5 * W.sum(axis=0) + 0.3 * rng.standard_normal(n_visible)
    c = -0.5 * W.sum(axis=1)
    V = configurations(n_visible)
    log_p = V @ b + np.logaddexp(0, V @ W.T + c).sum(axis=1)
    return log_p - np.logaddexp.reduce(log_p)


def divergence(log_p, log_q):
    return float(np.exp(log_p) @ (log_p - log_q))


def independent(log_p, n_visible):
    V = configurations(n_visible)
    mean = np.exp(log_p) @ V
    return V @ np.log(mean) + (1 - V) @ np.log1p(-mean)


def trial(n_hidden, strength, seed, args):
    """Return a row of the table, or None if the RBM is too close to independent units."""
    rng = np.random.default_rng([seed, n_hidden])
    log_p = generator_law(args.visible, n_hidden, strength, rng)
    V = configurations(args.visible)
    distance = divergence(log_p, independent(log_p, args.visible))
    if distance < 0.3:
        return None
    n_rows = max(500, round(30_000 * args.scale))
    draws = rng.choice(len(V), n_rows + 20_000, p=np.exp(log_p))
    X, X_test = V[draws[:n_rows]].astype(np.float32), V[draws[n_rows:]]
    base = independent(log_p, args.visible)[draws[n_rows:]].mean()
    top = log_p[draws[n_rows:]].mean()

    def closed(rbm):
        return 100 * (rbm.score(X_test) - base) / (top - base)

    begin = time.process_time()
    fw = FrankWolfeRBM(
        alpha=args.alpha,
        tol=args.tol,
        inference=Gibbs(n_chains=args.chains, n_steps=10),
        random_state=seed,
    ).fit(X)
    seconds = time.process_time() - begin
    pcd = {
        "n_iter": max(1, round(150 * args.scale)),
        "learning_rate": 0.1,
        "batch_size": 50,
        "optimizer": SGD(alpha=0.0, schedule="linear", centered=False, average=False),
        "random_state": seed,
    }
    refined = RBM(fw.ordinary_machine().n_units[1], init=fw, **pcd).fit(X)
    fresh = RBM(n_hidden, **pcd).fit(X)
    return (
        n_hidden,
        strength,
        distance,
        fw.n_components_,
        *map(closed, (fw, refined, fresh)),
        seconds,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--visible", type=int, default=12)
    parser.add_argument("--alpha", type=float, default=0.003)
    parser.add_argument("--tol", type=float, default=2e-4)
    parser.add_argument("--chains", type=int, default=5000)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--seeds", type=int, default=1)
    args = parser.parse_args()
    heading(__file__, args)
    trials = [(n, s, k) for n in args.sizes for s in (1.0, 2.0) for k in range(args.seeds)]
    rows = []
    for one in trials:
        row = trial(*one, args)
        if row is not None:
            rows.append(row)
            print(*(f"{value:.4g}" for value in row), flush=True)
    names = "true size", "strength", "distance", "chosen size", "FW %", "FW+PCD %", "PCD %", "FW s"
    table(names, rows)
    closed = np.array([row[4:7] for row in rows])
    print("least:", *(f"{value:.1f} %" for value in closed.min(axis=0)))
    print("median:", *(f"{value:.1f} %" for value in np.median(closed, axis=0)))


if __name__ == "__main__":
    main()
