"""Time and accuracy of annealed importance sampling against its textbook form.

    python examples/benchmarks/ais_speed.py [--temperatures 200] [--chains 100] [--repeats 5]

The machine is the CD25 machine of Salakhutdinov and Murray (784 x 500) where SKRBM_DATA has it,
else one trained here. The textbook form is float64, with three products up and one down for each
temperature and ``logaddexp``. Medians over repeats in turn, one BLAS thread for both. With
``--long`` the 14 500 temperatures of the paper are run once by ours, for log Z (published: 451.28).
"""

import argparse
import time
from itertools import pairwise

import numpy as np
from _common import data_folder, heading, mnist, published_machine, table, timed
from threadpoolctl import threadpool_limits

from skrbm import BernoulliRBM
from skrbm.arrays import Columns
from skrbm.evaluation import AIS, log_partition


def textbook(W, b, c, base, betas, n_chains, seed):
    """Salakhutdinov and Murray (2008), term by term, in float64."""
    rng = np.random.RandomState(seed)

    def log_weight(v, beta):
        field = beta * (v @ W.T + c)
        return v @ ((1 - beta) * base + beta * b) + np.logaddexp(0, field).sum(axis=1)

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    v = (rng.uniform(size=(n_chains, len(b))) < sigmoid(base)).astype(float)
    total = np.zeros(n_chains)
    for last, beta in pairwise(betas):
        total += log_weight(v, beta) - log_weight(v, last)
        h = (rng.uniform(size=(n_chains, len(c))) < sigmoid(beta * (v @ W.T + c))).astype(float)
        mean = sigmoid((1 - beta) * base + beta * (b + h @ W))
        v = (rng.uniform(size=mean.shape) < mean).astype(float)
    log_z0 = np.logaddexp(0, base).sum() + len(c) * np.log(2)
    top = total.max()
    return log_z0 + top + np.log(np.exp(total - top).mean())


def machine_for(X):
    if data_folder() is not None:
        return published_machine()
    rbm = BernoulliRBM(500, learning_rate=0.05, batch_size=100, n_iter=5, random_state=0)
    return rbm.fit(X)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--temperatures", type=int, default=200)
    parser.add_argument("--chains", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--long", action="store_true")
    args = parser.parse_args()
    heading(__file__, args)
    X = mnist("train", 20000)[0].astype(np.float32)
    rbm = machine_for(X)
    base = rbm.machine_.units[0].initial_theta(Columns(X))
    betas = np.linspace(0, 1, args.temperatures + 1)
    W, b, c = (
        array.astype(np.float64)
        for array in (rbm.components_, rbm.intercept_visible_, rbm.intercept_hidden_)
    )
    results = {"skrbm float32": [], "textbook float64": []}
    method = AIS(args.chains, args.temperatures)

    def ours():
        seed = len(results["skrbm float32"])
        value = log_partition(rbm, method, base=base, random_state=seed).value
        results["skrbm float32"].append(value)

    def theirs():
        seed = len(results["textbook float64"])
        value = textbook(W, b, c, base.field, betas, args.chains, seed)
        results["textbook float64"].append(value)

    with threadpool_limits(1):
        seconds = timed({"skrbm float32": ours, "textbook float64": theirs}, args.repeats)
    lines = [
        (
            name,
            np.median(seconds[name]),
            np.median(seconds["textbook float64"] / seconds[name]),
            float(np.mean(results[name])),
            float(np.std(results[name], ddof=1)),
        )
        for name in results
    ]
    table(("contender", "seconds", "speed-up", "mean log Z", "sd over runs"), lines)
    if args.long:
        begin = time.perf_counter()
        method = AIS(args.chains, "salakhutdinov2008", n_jobs=2)
        result = log_partition(rbm, method, base=base, random_state=0)
        print(
            f"\n14 500 temperatures: log Z = {result.value:.2f}, standard error {result.std:.3f}, "
            f"ESS {result.ess:.0f} ({time.perf_counter() - begin:.0f} s)"
        )


if __name__ == "__main__":
    main()
