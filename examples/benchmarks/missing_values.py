"""What rows with missing values teach: likelihoods of complete test rows, by estimators.

    python examples/benchmarks/missing_values.py [--missing 0.3] [--seeds 1] [--chains 1000]

Digits of 8 x 8 pixels as bits, three quarters of the rows to learn from. Of these, a part of the
entries is missing completely at random. Estimators learn from the rows without holes ("full"), from
rows with NaN, from rows whose holes have the means of their columns, and from rows whose holes were
drawn by an ``RBM`` that has learnt from NaN. Numbers are means over seeds, in nats for each test
row: exact for machines with 20 hidden units, to 0.1 nats for those that grow.
"""

import argparse
import time
import warnings

import numpy as np
from _common import PLAIN, heading, progress, table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skrbm import RBM, TAPRBM, DeepTAPMachine, FrankWolfeRBM

MODELS = {
    "TAPRBM": lambda seed, _: TAPRBM(20, **PLAIN | {"n_iter": 60, "random_state": seed}),
    "DeepTAPMachine": lambda seed, _: DeepTAPMachine(
        (20, 10), n_iter_pretrain=30, n_iter=30, random_state=seed
    ),
    "FrankWolfeRBM": lambda seed, n: FrankWolfeRBM(alpha=0.003, n_chains=n, random_state=seed),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--missing", type=float, default=0.3)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--chains", type=int, default=1000, help="of FrankWolfeRBM")
    args = parser.parse_args()
    heading(__file__, args)
    warnings.simplefilter("ignore")  # of scores that are in doubt
    X = (load_digits().data > 7.5).astype(np.float32)
    X, X_test = train_test_split(X, random_state=0)
    missing = np.random.default_rng(0).random(X.shape) < args.missing
    holes = np.where(missing, np.nan, X).astype(np.float32)
    rbm = RBM(20, n_iter=60, random_state=0).fit(holes)
    sets = {
        "full": X,
        "NaN": holes,
        "means": np.where(missing, np.nanmean(holes, axis=0), X).astype(np.float32),
        "draws": rbm.sample(given=holes, random_state=0),
    }
    rows = []
    for name, make in MODELS.items():
        scores, seconds = [], []
        for given in sets.values():
            begin = time.perf_counter()
            models = [make(seed, args.chains).fit(given) for seed in range(args.seeds)]
            seconds.append((time.perf_counter() - begin) / args.seeds)
            scores.append(float(np.mean([model.score(X_test) for model in models])))
        rows.append((name, *scores, *seconds[:2]))
        progress(rows[-1])
    table(("estimator", *sets, "s, full", "s, NaN"), rows)


if __name__ == "__main__":
    main()
