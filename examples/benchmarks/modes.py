"""Probabilities of modes between which chains do not mix, by persistent and tempered chains.

    python examples/benchmarks/modes.py [--seeds 10] [--seconds 6] [--methods PCD-1 tempered ...]

Data are 5000 rows of 18 bits around eight patterns, whose probabilities decrease by a factor of
0.6, with 1 % of the bits flipped; the RBM has 12 hidden units. Each method has the same processor
time on one core, with a learning rate that decreases linearly to zero. Printed are the
Kullback-Leibler divergence from the true distribution, by enumeration of all 2^18 rows, and half
the sum of the absolute errors of the probabilities of the patterns, each with its nearest rows.
"""

import argparse
import time
from dataclasses import replace

import numpy as np
from _common import heading, progress, table
from threadpoolctl import threadpool_limits

from skrbm import RBM
from skrbm.inference import Gibbs
from skrbm.learning import SGD

N_BITS, N_MODES, FLIPPED, N_ROWS = 18, 8, 0.01, 5000
LINEAR = SGD(schedule="linear")
PLAIN = replace(LINEAR, centered=False, average=False)
METHODS = {
    "PCD-1, plain": {"learning_rate": 0.1, "optimizer": PLAIN},
    "PCD-1": {"learning_rate": 0.4},
    "PCD-10": {"learning_rate": 0.8, "inference": Gibbs(10)},
    # a rate of 1.0 fails on data sets 6 and 8
    "tempered": {"learning_rate": 0.6, "inference": Gibbs(start="tempered"), "batch_size": 200},
}


def clusters(seed):
    """Return rows, the distance of all configurations from the patterns, and the probabilities."""
    rng = np.random.default_rng(seed)
    while True:
        patterns = rng.integers(0, 2, (N_MODES, N_BITS))
        apart = (patterns[:, None] != patterns[None]).sum(axis=2)
        if (apart + N_BITS * np.eye(N_MODES)).min() >= 6:
            break
    p = 0.6 ** np.arange(N_MODES)
    p /= p.sum()
    X = patterns[rng.choice(N_MODES, N_ROWS, p=p)]
    X = np.abs(X - (rng.random(X.shape) < FLIPPED)).astype(np.float32)
    states = ((np.arange(2**N_BITS)[:, None] >> np.arange(N_BITS)) & 1).astype(np.float32)
    distances = np.stack([(states != pattern).sum(axis=1) for pattern in patterns], axis=1)
    return X, states, distances, p


def errors(rbm, states, distances, p):
    """Return the divergence from the true distribution, and the error of the probabilities."""
    flips = distances * np.log(FLIPPED) + (N_BITS - distances) * np.log(1 - FLIPPED)
    truth = np.logaddexp.reduce(np.log(p) + flips, axis=1)
    log_p = -rbm.free_energy(states)
    log_p -= np.logaddexp.reduce(log_p)
    mass = np.bincount(distances.argmin(axis=1), np.exp(log_p), N_MODES)
    return (np.exp(truth) * (truth - log_p)).sum(), np.abs(mass - p).sum() / 2


def fitted(X, params, seconds, seed):
    """Return an RBM fitted for about the given processor time, and the time."""
    params = {"n_components": 12, "batch_size": 100, "optimizer": LINEAR, **params}

    def fit(n_iter):
        begin = time.process_time()
        rbm = RBM(n_iter=n_iter, random_state=seed, **params).fit(X)
        return rbm, time.process_time() - begin

    fit(5)  # warm-up
    first = fit(20)[1]
    n_trial = max(40, round(0.35 * seconds / first * 20))
    epoch = (fit(n_trial)[1] - first) / (n_trial - 20)
    return fit(20 + max(0, round((seconds - first) / epoch)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    args = parser.parse_args()
    heading(__file__, args)
    results = {name: [] for name in args.methods}
    with threadpool_limits(1):
        for seed in range(args.seeds):
            X, *truth = clusters(seed)
            for name in args.methods:
                rbm, seconds = fitted(X, METHODS[name], args.seconds, seed)
                n_updates = rbm.n_iter_ * -(-N_ROWS // rbm.batch_size)
                results[name].append((*errors(rbm, *truth), n_updates, seconds))
                progress((name, seed, *map(float, results[name][-1])))
    rows = []
    for name, found in results.items():
        mean, std, largest = (f(found, axis=0) for f in (np.mean, np.std, np.max))
        rows.append((name, f"{mean[0]:.3f} +- {std[0]:.3f}", largest[0], *mean[1:]))
    table(("chains", "KL, nats", "largest KL", "off", "updates", "s"), rows)


if __name__ == "__main__":
    main()
