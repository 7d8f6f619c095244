"""How often 95 % intervals of log Z contain it, on random machines that can be enumerated.

    python examples/benchmarks/log_partition_intervals.py [--machines 100] [--published 0]

Weights are normal with standard deviation ``s``. Biases are balanced, minus half of the sums of
the weights, so that configurations and their complements compete: hard on purpose. Binary machines
have 10 visible and 8 hidden units, those with Gaussian or truncated Gaussian visible units 6 and 8.
Both methods have their default settings. ``--published n`` adds n seeds on the published CD25
machine of 784 x 500 units, whose log Z is 451.25 +- 0.03 (``reference_machines.py``). SKRBM_DATA
says where it is.
"""

import argparse
import time
import warnings

import numpy as np
from _common import data_folder, heading, published_machine, table

from skrbm import RBM
from skrbm.evaluation import AIS, SMC, exact_log_partition, log_partition

KINDS = {
    "bernoulli": (10, (0.5, 1.0, 2.0, 4.0, 8.0)),
    "gaussian": (6, (0.4, 0.8)),
    "truncated_gaussian": (6, (1.0, 4.0)),
}
CD25 = 451.25


def random_machine(kind, n_visible, s, seed):
    """Return a fitted estimator with random weights."""
    W = s * np.random.default_rng(seed).standard_normal((8, n_visible))
    visible = -W.sum(axis=0) / 2 if kind == "bernoulli" else np.zeros(n_visible)
    return RBM.from_parameters(W, -W.sum(axis=1) / 2, visible, visible=kind, random_state=seed)


def tried(model, truth, method, seed):
    """Return whether the interval contains log Z, the error, its estimate and the seconds."""
    begin = time.process_time()
    found = log_partition(model, method, random_state=seed)
    low, high = found.interval
    seconds = time.process_time() - begin
    return low <= truth <= high, found.value - truth, found.std, seconds


def summary(results):
    """Return the part of intervals that hold, the rms error, and median error bar and seconds."""
    holds, errors, stds, seconds = map(np.array, zip(*results, strict=True))
    rms = np.sqrt(np.mean(errors**2))
    return f"{holds.sum()} of {len(holds)}", rms, np.median(stds), np.median(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machines", type=int, default=100)
    parser.add_argument("--published", type=int, default=0)
    args = parser.parse_args()
    heading(__file__, args)
    warnings.simplefilter("ignore")
    rows = []
    for kind, (n_visible, strengths) in KINDS.items():
        for s in strengths:
            models = [random_machine(kind, n_visible, s, seed) for seed in range(args.machines)]
            truths = [exact_log_partition(model) for model in models]
            for method in (AIS(), SMC()):
                pairs = enumerate(zip(models, truths, strict=True))
                results = [tried(model, truth, method, k) for k, (model, truth) in pairs]
                rows.append((kind, s, type(method).__name__, *summary(results)))
    if args.published:
        if data_folder() is None:
            raise SystemExit("set the environment variable SKRBM_DATA to the folder of the machine")
        for method in (AIS(), SMC()):
            model = published_machine()
            results = [tried(model, CD25, method, seed) for seed in range(args.published)]
            rows.append(("CD25", "", type(method).__name__, *summary(results)))
    table(("visible", "s", "method", "holds", "rms error", "median se", "median s"), rows)


if __name__ == "__main__":
    main()
