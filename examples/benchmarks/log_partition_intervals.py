"""How often 95 % intervals of log Z contain the exact value.

    python examples/benchmarks/log_partition_intervals.py [--seeds 40] [--published 0]

There are ``--seeds`` models of each kind, in which one layer is enumerated:

- two modes: 24 x 12 bits, all off or in one pattern, with weights of +-s;
- equal modes: 24 x 12 bits, nearly all off or nearly all on, each with about half of the
  probability;
- random: normal weights of standard deviation s, and biases of minus half of the sums of the
  weights, so that configurations and their complements compete, which makes them hard;
- trained: 20 hidden units that learn scikit-learn's digits by contrastive divergence, and 16 that
  learn 12 categorical columns of six classes.

AIS, SMC and tempering have default settings; "auto" chooses SMC for such models if they are too
large to enumerate. "reverse" is ``reverse_log_partition``. The interval of "bracket" reaches from
the lower end of the forward interval of ``bracket`` to the upper end of the reverse one; its error
is that of the reverse estimate, and its standard error that of the gap. ``--published n`` adds n
seeds on the published CD25 RBM of 784 x 500 units, whose log Z is 451.25 +- 0.03
(``reference_machines.py``), from SKRBM_DATA.
"""

import argparse
import time
import warnings

import numpy as np
from _common import heading, published_machine, table
from sklearn.datasets import load_digits

from skrbm import RBM, CategoricalRBM
from skrbm.evaluation import bracket, log_partition, reverse_log_partition
from skrbm.units import Categorical

METHODS = ("ais", "smc", "tempering", "reverse", "bracket")
CD25 = 451.25


def two_modes(s, seed):
    """Return an RBM whose visible units are all off, or have a pattern."""
    pattern = np.random.default_rng(seed).random(24) < 0.5
    W = s * np.tile(2.0 * pattern - 1, (12, 1))
    hidden = np.full(12, -s * pattern.sum() / 2)
    return RBM.from_parameters(W, hidden, -0.45 * W.sum(axis=0), random_state=seed)


def equal_modes(seed):
    """Return an RBM whose units are nearly all off or all on, with similar probabilities."""
    W = 1.0 + 0.05 * np.random.default_rng(seed).standard_normal((12, 24))
    biases = -W.sum(axis=1) / 2, -W.sum(axis=0) / 2
    return RBM.from_parameters(W, *biases, random_state=seed)


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


def of_digits(seed):
    """Return an RBM that has learnt bits of digits by contrastive divergence."""
    X = (load_digits().data > 7).astype(float)
    return RBM(20, inference="cd", learning_rate=0.1, n_iter=30, random_state=seed).fit(X)


def of_classes(seed):
    """Return an RBM that has learnt six classes of unequal shares, with 2 % noise."""
    rng = np.random.default_rng(seed)
    centres, shares = rng.integers(4, size=(6, 12)), [0.3, 0.25, 0.2, 0.12, 0.08, 0.05]
    X = centres[rng.choice(6, 2000, p=shares)]
    X = np.where(rng.random(X.shape) < 0.02, rng.integers(4, size=X.shape), X)
    return CategoricalRBM(16, n_iter=20, random_state=seed).fit(X)


BITS, GAUSSIAN = ("bernoulli", "bernoulli"), ("gaussian", "bernoulli")
KINDS = {
    "two modes, s = 0.5": lambda seed: two_modes(0.5, seed),
    "two modes, s = 1": lambda seed: two_modes(1.0, seed),
    "equal modes": equal_modes,
    "10 x 8 binary, s = 1": lambda seed: random_rbm(*BITS, 10, 8, 1.0, seed),
    "10 x 8 binary, s = 2": lambda seed: random_rbm(*BITS, 10, 8, 2.0, seed),
    "20 x 16 binary, s = 1.5": lambda seed: random_rbm(*BITS, 20, 16, 1.5, seed),
    "6 Gaussian x 8 binary, s = 0.8": lambda seed: random_rbm(*GAUSSIAN, 6, 8, 0.8, seed),
    "digits by CD, 20 hidden": of_digits,
    "six classes, 16 hidden": of_classes,
}


def estimate(rbm, truth, method, seed):
    """Return whether the interval contains log Z, the error, its estimate and the seconds."""
    begin = time.process_time()
    if method == "bracket":
        both = bracket(rbm, random_state=seed)
        value, std = both.reverse.value, both.std
        low, high = both.forward.interval[0], both.reverse.interval[1]
    else:
        if method == "reverse":
            found = reverse_log_partition(rbm, random_state=seed)
        else:
            found = log_partition(rbm, method, random_state=seed)
        value, std, (low, high) = found.value, found.std, found.interval
    seconds = time.process_time() - begin
    return low <= truth <= high, value - truth, std, seconds


def summary(results):
    """Return the intervals that hold, rms error, median standard error and median seconds."""
    holds, errors, stds, seconds = map(np.array, zip(*results, strict=True))
    rms = np.sqrt(np.mean(errors**2))
    return f"{holds.sum()} of {len(holds)}", rms, np.median(stds), np.median(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--published", type=int, default=0)
    args = parser.parse_args()
    heading(__file__, args)
    warnings.simplefilter("ignore")
    rows, everything = [], {method: [] for method in METHODS}
    for kind, make in KINDS.items() if args.seeds else ():
        rbms = [make(seed) for seed in range(args.seeds)]
        truths = [log_partition(rbm, "exact").value for rbm in rbms]
        for method in METHODS:
            pairs = enumerate(zip(rbms, truths, strict=True))
            results = [estimate(rbm, truth, method, seed) for seed, (rbm, truth) in pairs]
            everything[method] += results
            rows.append((kind, method, *summary(results)))
    rows += [("all", method, *summary(found)) for method, found in everything.items() if found]
    if args.published:
        rbm = published_machine()
        for method in ("ais", "smc"):
            results = [estimate(rbm, CD25, method, seed) for seed in range(args.published)]
            rows.append(("CD25", method, *summary(results)))
    table(("kind", "method", "holds", "rms error", "median se", "median s"), rows)


if __name__ == "__main__":
    main()
