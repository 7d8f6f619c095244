"""How well FrankWolfeRBM recovers known RBMs, with exact log Z.

    python examples/benchmarks/frank_wolfe/recovery.py [--scale 1.0] [--visible 12] [--alpha 0.003]
        [--steps joint line_search 1/t] [--sizes 3 6] [--seeds 1] [--patience 5]

Data are drawn from random RBMs with 3 to 12 hidden units, for which the best model of independent
units is at least 0.3 nats below the truth. For each of them, a model is grown by every step rule in
``--steps``, and another is learned by PCD from a random start with the true size. Printed are the
mean log-likelihood of test rows minus that of the truth, the fraction of the gap between
independent units and the truth that is closed, and both again after the grown RBM is refined by
PCD. Log-likelihoods are exact, by sums over all configurations. ``--scale`` multiplies the 30 000
training rows and the 150 epochs.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from _common import heading, progress, table

from skrbm import RBM, FrankWolfeRBM
from skrbm.inference import Gibbs
from skrbm.learning import SGD, EarlyStopping

SIZES = 3, 6, 8, 10, 12


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
    """Yield a row of the table for each step and for PCD; none if units are nearly independent."""
    rng = np.random.default_rng([seed, n_hidden])
    log_p = generator_law(args.visible, n_hidden, strength, rng)
    V = configurations(args.visible)
    distance = divergence(log_p, independent(log_p, args.visible))
    if distance < 0.3:
        return
    n_rows = max(500, round(30_000 * args.scale))
    draws = rng.choice(len(V), n_rows + 20_000, p=np.exp(log_p))
    X, X_test = V[draws[:n_rows]].astype(np.float32), V[draws[n_rows:]]
    base = independent(log_p, args.visible)[draws[n_rows:]].mean()
    top = log_p[draws[n_rows:]].mean()
    pcd = {
        "n_iter": max(1, round(150 * args.scale)),
        "learning_rate": 0.1,
        "batch_size": 50,
        "optimizer": SGD(alpha=0.0, schedule="linear", centered=False, average=False),
        "random_state": seed,
    }

    setting = n_hidden, strength, seed, distance

    def row(name, rbm, refined=None):
        score = rbm.score(X_test)
        closed = 100 * (score - base) / (top - base)
        after = "" if refined is None else 100 * (refined.score(X_test) - base) / (top - base)
        return *setting, name, len(rbm.components_), score - top, closed, after

    for step in args.steps:
        begin = time.process_time()
        fw = FrankWolfeRBM(
            args.most,
            step=step,
            alpha=args.alpha,
            tol=args.tol,
            inference=Gibbs(n_chains=args.chains, n_steps=10),
            early_stopping=EarlyStopping(args.patience, tol=0.01),
            random_state=seed,
        ).fit(X)
        seconds, n_units = time.process_time() - begin, fw.ordinary_machine().n_units[1]
        refined = RBM(n_units, init=fw, **pcd).fit(X) if n_units else fw
        yield *row(step, fw, refined), seconds, fw.path_["reason"].count("refused")
    begin = time.process_time()
    rbm = RBM(n_hidden, **pcd).fit(X)
    yield *row("PCD", rbm), time.process_time() - begin, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--visible", type=int, default=12)
    parser.add_argument("--alpha", type=float, default=0.003)
    parser.add_argument("--tol", type=float, default=2e-4)
    parser.add_argument("--chains", type=int, default=5000)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--steps", nargs="*", default=["joint", "line_search", "1/t"])
    parser.add_argument("--patience", type=int, default=5)
    parser.add_argument("--most", type=int, default=60, help="units")
    parser.add_argument("--seeds", type=int, default=1)
    args = parser.parse_args()
    heading(__file__, args)
    trials = [(n, s, k) for n in args.sizes for s in (1.0, 2.0) for k in range(args.seeds)]
    rows = []
    for one in trials:
        for row in trial(*one, args):
            rows.append(row)
            progress(row)
    print()
    names = "true size", "strength", "seed", "distance", "fit", "size", "below", "closed %"
    table((*names, "after PCD %", "s", "refused"), rows)


if __name__ == "__main__":
    main()
