"""``RBM()`` without any setting, beside sum-product networks learnt from the same rows.

    SKRBM_DATA=... python examples/benchmarks/sum_product_networks.py [--sets nltcs plants ...]

Data are the binary tables nltcs, plants, jester, audio and dna, in the folder SKRBM_DATA names.
The networks are those of deeprob-kit 1.1.0 (https://pypi.org/project/deeprob-kit). LearnSPN splits
rows by mixtures of two normal distributions, and columns by independence tests, with those of
``THRESHOLDS`` and ``FEWEST`` that have the best mean log-likelihood of the validation rows. From
this network expectation maximization continues, in rounds of 20 steps on a tenth of the rows each,
until these rows get no better, or for ``--rounds``.

Printed are mean log-likelihoods of the test rows in nats, exact for the networks and as in
``learners.py`` for ``RBM(random_state=0)``, and seconds of the processor: of the fit that
was taken, and with expectation maximization of both. ``pip install deeprob-kit==1.1.0`` brings the
networks, best in an environment of their own.
"""

import argparse
import contextlib
import io
import time
import warnings
from itertools import product

import numpy as np
from _common import data_folder, debd, heading, progress, table
from learners import likelihood
from threadpoolctl import threadpool_limits

from skrbm import RBM

SETS = ("nltcs", "plants", "jester", "baudio", "dna")
THRESHOLDS = 15.0, 30.0  # of the tests of independence
FEWEST = 64, 256  # rows that are split
TENTH = {"num_iter": 20, "batch_perc": 0.1, "step_size": 0.3, "random_init": False}


def learnt(X, threshold, n_rows):
    """Return a network that LearnSPN finds."""
    from deeprob.spn.learning.wrappers import learn_estimator
    from deeprob.spn.structure.leaf import Bernoulli

    n = X.shape[1]
    return learn_estimator(
        X,
        [Bernoulli] * n,
        [[0, 1]] * n,
        split_rows="gmm",
        split_cols="gvs",
        min_rows_slice=n_rows,
        learn_leaf_kwargs={"alpha": 0.1},
        split_rows_kwargs={"n": 2},
        split_cols_kwargs={"p": threshold},
        random_state=0,
        verbose=False,
    )


def mean_log_likelihood(root, X):
    """Return the mean log-likelihood of rows by a network."""
    from deeprob.spn.algorithms.inference import log_likelihood

    with contextlib.redirect_stderr(io.StringIO()):
        return float(np.mean(log_likelihood(root, X)))


def best_network(train, valid):
    """Return (network, its threshold, its fewest rows, its nats of validation rows, seconds)."""
    found = []
    for threshold, n_rows in product(THRESHOLDS, FEWEST):
        begin = time.process_time()
        root = learnt(train, threshold, n_rows)
        seconds = time.process_time() - begin
        found.append((root, threshold, n_rows, mean_log_likelihood(root, valid), seconds))
        progress(("LearnSPN", *found[-1][1:]))
    return max(found, key=lambda one: one[3])


def maximized(root, nats, train, valid, test, n_rounds):
    """Return (steps, nats of test rows, seconds) of the best network on the way."""
    from deeprob.spn.learning.em import expectation_maximization

    best, begin = (0, mean_log_likelihood(root, test), 0.0), time.process_time()
    for turn in range(1, n_rounds + 1):
        root = expectation_maximization(root, train, random_state=turn, verbose=False, **TENTH)
        seconds, now = time.process_time() - begin, mean_log_likelihood(root, valid)
        progress(("expectation maximization", turn, now, seconds))
        if now <= nats:
            break
        nats, best = now, (20 * turn, mean_log_likelihood(root, test), seconds)
    return best


def compare(name, n_rounds):
    """Return rows of the table."""
    parts = (debd(name, part) for part in ("train", "valid", "test"))
    train, valid, test = (X.astype(np.float32) for X in parts)
    begin = time.process_time()
    rbm = RBM(random_state=0).fit(train)
    spent = time.process_time() - begin
    own = likelihood(rbm, test)
    progress((name, "RBM()", own, spent))
    root, threshold, n_rows, nats, seconds = best_network(train, valid)
    plain = mean_log_likelihood(root, test)
    steps, most, more = maximized(root, nats, train, valid, test, n_rounds)
    return [
        (name, "RBM()", "none", own, spent),
        (name, "LearnSPN", f"threshold {threshold:g}, {n_rows} rows", plain, seconds),
        (name, "and EM", f"{steps} steps", most, seconds + more),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    if data_folder() is None:
        raise SystemExit("set the environment variable SKRBM_DATA to the folder of the data")
    warnings.simplefilter("ignore")  # of deeprob-kit
    heading(__file__, args)
    with threadpool_limits(1):
        rows = [row for name in args.sets for row in compare(name, args.rounds)]
    table(("set", "model", "settings", "test nats", "s"), rows)


if __name__ == "__main__":
    main()
