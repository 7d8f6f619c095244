"""What the log-likelihood in ``history_`` costs, and how far it is from the exact one.

    SKRBM_DATA=... python examples/benchmarks/likelihood_in_training.py [--seeds 3] [--only nltcs]

Each fit is made without estimates of log Z, with them, and without them again; the median over the
seeds of the ratio of processor times is printed. Log Z of all machines but one can be summed, which
the fits leave out, unless ``--sums`` is given.
"""

import argparse
import time
import warnings

import numpy as np
from _common import data_folder, debd, heading, mnist, progress, table
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from skrbm import RBM, BernoulliRBM
from skrbm.evaluation import exact_log_partition
from skrbm.learning import LogPartitionTracker, _tracking

DATA = {
    "digits": lambda: (load_digits().data > 7).astype(np.float32),
    "nltcs": lambda: debd("nltcs", "train").astype(np.float32),
    "plants": lambda: debd("plants", "train").astype(np.float32),
    "ten qubits": lambda: np.loadtxt(data_folder() / "tfim/tfim1d_data.txt").astype(np.float32),
    "MNIST": lambda: mnist("train", 10_000)[0].astype(np.float32),
}
MACHINES = {
    "digits": ("digits", RBM, {"n_components": 14}),
    "digits, 256 hidden": ("digits", RBM, {}),
    "nltcs": ("nltcs", RBM, {}),
    "nltcs, BernoulliRBM": ("nltcs", BernoulliRBM, {}),
    "plants": ("plants", RBM, {"n_components": 14}),
    "ten qubits": ("ten qubits", RBM, {}),
    "MNIST": ("MNIST", RBM, {"n_components": 14}),
    "MNIST, BernoulliRBM": ("MNIST", BernoulliRBM, {"n_components": 14}),
}


def fitted(Estimator, params, X, seed, estimate):
    """Return the seconds of a fit, and (estimate, machine) of each epoch that was measured."""
    found, original = [], LogPartitionTracker.estimate

    def noted(self, machine, credit):
        result = original(self, machine, credit) if estimate else None
        if result is not None:
            found.append((result, machine))
        return result

    LogPartitionTracker.estimate = noted
    begin = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rbm = Estimator(**params, random_state=seed).fit(X)
    finally:
        LogPartitionTracker.estimate = original
    return time.process_time() - begin, found, rbm.n_iter_


def row_of(name, n_seeds):
    """Return a row of the table."""
    key, Estimator, params = MACHINES[name]
    X, ratios, found, n_epochs = DATA[key](), [], [], 0
    fitted(Estimator, params | {"n_iter": 1}, X, 0, True)
    for seed in range(n_seeds):
        without = fitted(Estimator, params, X, seed, False)[0]
        seconds, measured, n_iter = fitted(Estimator, params, X, seed, True)
        again = fitted(Estimator, params, X, seed, False)[0]
        ratios.append(2 * seconds / (without + again))
        found, n_epochs = found + measured, n_epochs + n_iter
    if not found or min(found[0][1].n_units) > 16:
        return name, np.median(ratios), len(found) / n_epochs, *[float("nan")] * 4
    errors = np.array([result.value - exact_log_partition(machine) for result, machine in found])
    low, high = np.array([result.interval for result, _ in found]).T
    truth = np.array([result.value for result, _ in found]) - errors
    stds = [result.std for result, _ in found]
    inside = np.mean((low <= truth) & (truth <= high))
    error = np.median(np.abs(errors)), np.sqrt(np.mean(errors**2))
    return name, np.median(ratios), len(found) / n_epochs, *error, np.median(stds), inside


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=tuple(MACHINES))
    parser.add_argument("--sums", action="store_true")
    args = parser.parse_args()
    heading(__file__, args)
    if not args.sums:
        _tracking._EXACT = -1
    rows = []
    with threadpool_limits(1):
        for name in args.only:
            rows.append(row_of(name, args.seeds))
            progress(rows[-1])
    print()
    names = ("machine", "time", "measured", "median |error|", "rms", "median std", "in 95 %")
    table(names, rows)


if __name__ == "__main__":
    main()
