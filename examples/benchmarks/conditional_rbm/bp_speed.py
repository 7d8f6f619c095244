"""Time and accuracy of belief propagation against the matrix form of the paper.

    python examples/benchmarks/conditional_rbm/bp_speed.py [PART ...] [--repeats 5]

Parts: "one", an RBM of 1000 x 500 units and 10 sweeps; "many", 100 instances of 784 x 256 units
that share their weights, 10 sweeps, with the paper's form timed on 5 of them; "large", 10 000 x
2000 units until convergence. Weights are normal, with standard deviation 3 / sqrt(n_visible +
n_hidden), and fields are standard normal. Timings use one thread; ratios are medians over
interleaved repeats.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from scipy.special import expit
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from _common import heading, table, timed

from skrbm.inference import propagate


def paper(W, b, c, n_iter):
    """Alg. 1 of Ping and Ihler (2017), Eqs. (13), (16), (14), (17); W is (n_visible, n_hidden)."""
    E, hidden = np.exp(W), 1 / (1 + np.exp(-c))
    to_hidden = np.full(W.T.shape, W.dtype.type(0.5))
    for _ in range(n_iter):
        one, other = (1 - to_hidden).T * hidden, to_hidden.T * (1 - hidden)
        to_visible = 1 / (1 + np.exp(-np.log((E * one + other) / (one + other))))
        visible = 1 / (1 + np.exp(-b - np.log(to_visible / (1 - to_visible)).sum(axis=1)))
        one, other = (1 - to_visible).T * visible, to_visible.T * (1 - visible)
        to_hidden = 1 / (1 + np.exp(-np.log((E.T * one + other) / (one + other))))
        hidden = 1 / (1 + np.exp(-c - np.log(to_hidden / (1 - to_hidden)).sum(axis=1)))
    return visible


def instances(n, n_visible, n_hidden, dtype=np.float64):
    """Return weights and fields."""
    rng = np.random.default_rng(0)
    W = rng.standard_normal((n_hidden, n_visible)) * 3 / np.sqrt(n_visible + n_hidden)
    fields = (rng.standard_normal((n, size)) for size in (n_visible, n_hidden))
    return tuple(part.astype(dtype) for part in (W, *fields))


def compare(n, n_visible, n_hidden, n_paper, args):
    """Time n instances; the paper's form on ``n_paper`` of them, scaled up."""
    runs = {}
    for dtype in (np.float64, np.float32):
        W, b, c = instances(n, n_visible, n_hidden, dtype)
        name, turned = np.dtype(dtype).name, W.T.copy()
        runs[f"paper {name}"] = lambda W=turned, b=b, c=c: [
            paper(W, b[i], c[i], 10) for i in reversed(range(n_paper))
        ][-1]
        runs[f"skrbm {name}"] = lambda W=W, b=b, c=c: expit(
            propagate(W, b, c, max_iter=10, tol=0.0).visible[0]
        )
    with threadpool_limits(1):
        seconds = timed(runs, args.repeats)
    for name in ("paper float64", "paper float32"):
        seconds[name] *= n / n_paper
    W, b, c = instances(n, n_visible, n_hidden)
    truth, rows = expit(propagate(W, b[0], c[0], max_iter=500, tol=1e-28).visible[0]), []
    for name, run in runs.items():
        ratio = float(np.median(seconds[name] / seconds["skrbm float32"]))
        error = float(np.abs(run() - truth).max())
        rows.append((name, float(np.median(seconds[name])), ratio, error))
    print(f"\n{n} x ({n_visible} x {n_hidden}), 10 sweeps")
    table(("contender", "seconds", "over skrbm float32", "error of a mean"), rows)


def large():
    """Time one large instance."""
    W, b, c = instances(1, 10000, 2000, np.float32)
    begin = time.perf_counter()
    with threadpool_limits(1):
        found = propagate(W, b, c)
    seconds = time.perf_counter() - begin
    print(f"\n10 000 x 2000, float32: {found.n_iter[0]} sweeps, {seconds:.2f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=["one", "many", "large"])
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    heading(__file__, args)
    parts = {
        "one": lambda: compare(1, 1000, 500, 1, args),
        "many": lambda: compare(100, 784, 256, 5, args),
        "large": large,
    }
    for part in args.parts:
        parts[part]()


if __name__ == "__main__":
    main()
