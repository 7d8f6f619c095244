"""Which starts of the TAP solutions train best, at equal epochs, with PCD beside them.

    python examples/benchmarks/tap_starts.py [--rows 10000] [--hidden 500] [--epochs 5]

Thresholded MNIST; log-likelihood of 2 000 test images by AIS and reverse AIS over 1 000
temperatures and 100 chains, of which the lower counts. The issue is which solutions the negative
phase finds: starts at data miss the modes that the machine has elsewhere.
"""

import argparse
import time

import numpy as np
from _common import heading, mnist, table
from threadpoolctl import threadpool_limits

from skrbm import TAPRBM, BernoulliRBM
from skrbm.evaluation import AIS, log_partition, reverse_log_partition
from skrbm.inference import TAP, NaiveMeanField


def likelihood(rbm, X, X_test):
    method, base = AIS(100, 1000), rbm.machine_.units[0].initial_theta(X)
    forward = log_partition(rbm, method, base=base, random_state=0)
    backward = reverse_log_partition(rbm, X[:100], method=method, base=base, random_state=0)
    mean = -float(np.mean(rbm.free_energy(X_test)))
    return mean - forward.value, mean - backward.value


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10000)
    parser.add_argument("--hidden", type=int, default=500)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--sweeps", type=int, nargs="*", default=[10, 30])
    args = parser.parse_args()
    heading(__file__, args)
    X, X_test = mnist("train", args.rows)[0], mnist("test", 2000)[0]
    size = {"n_components": args.hidden, "n_iter": args.epochs, "random_state": 0}
    machines = {
        f"{starts}, TAP of {sweeps} sweeps": TAPRBM(
            starts=starts, inference=TAP(max_iter=sweeps, tol=1e-6), **size
        )
        for sweeps in args.sweeps
        for starts in ("chains", "data", "persistent", "random")
    }
    naive = NaiveMeanField(max_iter=args.sweeps[0], tol=1e-6)
    machines["chains, naive mean field"] = TAPRBM(starts="chains", inference=naive, **size)
    machines["PCD"] = BernoulliRBM(batch_size=100, learning_rate=0.1, **size)
    rows = []
    with threadpool_limits(1):
        for name, rbm in machines.items():
            begin = time.perf_counter()
            rbm.fit(X)
            seconds = time.perf_counter() - begin
            forward, backward = likelihood(rbm, X, X_test)
            rows.append((name, seconds, forward, backward, min(forward, backward)))
    table(("starts", "fit s", "AIS", "reverse AIS", "lower"), rows)


if __name__ == "__main__":
    main()
