"""How often 95 % intervals of log Z contain the exact value.

    python examples/benchmarks/log_partition_intervals.py [--machines 10] [--ais] [--published 0]

There are ``--machines`` RBMs of each of 20 kinds. Random ones have normal weights of standard
deviation ``s``; their biases are minus half of the sums of the weights, so that configurations and
their complements compete, which makes them hard. Trained ones learn scikit-learn's digits for ``s``
epochs. All have one layer that is enumerated. SMC, and AIS with ``--ais``, have default settings.
``--published n`` adds n seeds on the published CD25 RBM of 784 x 500 units, whose log Z is 451.25
+- 0.03 (``reference_machines.py``), from SKRBM_DATA.
"""

import argparse
import time
import warnings

import numpy as np
from _common import heading, published_machine, table
from sklearn.datasets import load_digits

from skrbm import RBM
from skrbm.evaluation import AIS, SMC, exact_log_partition, log_partition
from skrbm.units import Categorical

# Visible and hidden units, their numbers, and standard deviations of the weights.
RANDOM = (
    ("bernoulli", "bernoulli", 10, 8, (0.5, 1.0, 2.0, 4.0, 8.0)),
    ("bernoulli", "bernoulli", 40, 5, (1.0, 4.0)),
    ("bernoulli", "bernoulli", 6, 60, (0.5, 2.0)),
    ("bernoulli", "gaussian", 10, 4, (0.4,)),
    ("gaussian", "bernoulli", 6, 8, (0.4, 0.8)),
    ("truncated_gaussian", "bernoulli", 6, 8, (1.0, 4.0)),
    ("truncated_gauss_bernoulli", "bernoulli", 6, 8, (1.0, 4.0)),
    ("categorical", "bernoulli", 12, 8, (1.0, 3.0)),
)
EPOCHS = (3, 50)
CD25 = 451.25


def random_rbm(visible, hidden, n_visible, n_hidden, s, seed):
    """Return an RBM with random weights."""
    W = s * np.random.default_rng(seed).standard_normal((n_hidden, n_visible))
    balanced = -W.sum(axis=0) / 2 if visible == "bernoulli" else np.zeros(n_visible)
    if visible == "categorical":
        visible = Categorical([n_visible // 3] * 3)
    biases = -W.sum(axis=1) / 2 if hidden == "bernoulli" else np.zeros(n_hidden)
    return RBM.from_parameters(
        W, biases, balanced, visible=visible, hidden=hidden, random_state=seed
    )


def cases(n):
    """Yield the name of each kind, its strength, and its RBMs."""
    for visible, hidden, n_visible, n_hidden, strengths in RANDOM:
        for s in strengths:
            kind = visible, hidden, n_visible, n_hidden, s
            name = f"{n_visible} {visible} x {n_hidden} {hidden}"
            yield name, s, [random_rbm(*kind, seed) for seed in range(n)]
    X = (load_digits().data > 7).astype(float)
    for n_iter in EPOCHS:
        rbms = [
            RBM(16, learning_rate=0.1, n_iter=n_iter, random_state=seed).fit(X) for seed in range(n)
        ]
        yield "64 bernoulli x 16 bernoulli, trained", n_iter, rbms


def estimate(rbm, truth, method, seed):
    """Return whether the interval contains log Z, the error, its estimate and the seconds."""
    begin = time.process_time()
    found = log_partition(rbm, method, random_state=seed)
    low, high = found.interval
    seconds = time.process_time() - begin
    return low <= truth <= high, found.value - truth, found.std, seconds


def summary(results):
    """Return the intervals that hold, rms error, median standard error and median seconds."""
    holds, errors, stds, seconds = map(np.array, zip(*results, strict=True))
    rms = np.sqrt(np.mean(errors**2))
    return f"{holds.sum()} of {len(holds)}", rms, np.median(stds), np.median(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machines", type=int, default=10)
    parser.add_argument("--ais", action="store_true")
    parser.add_argument("--published", type=int, default=0)
    args = parser.parse_args()
    heading(__file__, args)
    warnings.simplefilter("ignore")
    methods = {"SMC": SMC(), **({"AIS": AIS()} if args.ais else {})}
    rows, everything = [], {name: [] for name in methods}
    for kind, s, rbms in cases(args.machines) if args.machines else ():
        truths = [exact_log_partition(rbm) for rbm in rbms]
        for name, method in methods.items():
            pairs = enumerate(zip(rbms, truths, strict=True))
            results = [estimate(rbm, truth, method, seed) for seed, (rbm, truth) in pairs]
            everything[name] += results
            rows.append((kind, s, name, *summary(results)))
    rows += [("all", "", name, *summary(found)) for name, found in everything.items() if found]
    if args.published:
        rbm = published_machine()
        for name, method in methods.items():
            results = [estimate(rbm, CD25, method, seed) for seed in range(args.published)]
            rows.append(("CD25", "", name, *summary(results)))
    table(("units", "s", "method", "holds", "rms error", "median se", "median s"), rows)


if __name__ == "__main__":
    main()
