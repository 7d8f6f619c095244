"""Time of TAP to convergence from 100 rows of data against the textbook loop.

    python examples/benchmarks/tap_convergence.py [--hidden 500] [--rows 100] [--repeats 5]

Two machines: one trained by PCD for a few epochs on thresholded MNIST, and, where SKRBM_DATA has
it, the published CD25 machine of 500 hidden units. What leaving out converged rows gains depends
on how far the slowest row is from the mean. The textbook loop works in float64, squares the
weights in each sweep and iterates all rows until the slowest has converged, to a mean squared
change of 1e-8. Medians over repeats in turn, one BLAS thread for both.
"""

import argparse

import numpy as np
from _common import data_folder, heading, mnist, published_machine, table, timed
from threadpoolctl import threadpool_limits

from skrbm import BernoulliRBM
from skrbm.inference import TAP, solve


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def textbook(W, b, c, X, tol, max_iter):
    """Iterate Alg. 1 of Tramel et al. (2018) over all rows; returns visible means and sweeps."""
    a_v, c_v = X.copy(), np.zeros_like(X)
    a_h = np.zeros((len(X), len(c)))
    for n_sweeps in range(1, max_iter + 1):
        old_v, old_h = a_v, a_h
        A_h = -(c_v @ (W * W).T)
        a_h = sigmoid(c + a_v @ W.T + A_h * a_h - A_h / 2)
        c_h = a_h - a_h**2
        A_v = -(c_h @ (W * W))
        a_v = sigmoid(b + a_h @ W + A_v * a_v - A_v / 2)
        c_v = a_v - a_v**2
        n = W.shape[0] + W.shape[1]
        change = (((a_v - old_v) ** 2).sum(axis=1) + ((a_h - old_h) ** 2).sum(axis=1)) / n
        if change.max() <= tol:
            return a_v, n_sweeps
    return a_v, max_iter


def machines(args, X):
    """Return the machines by name, in float32."""
    rbm = BernoulliRBM(
        args.hidden, learning_rate=0.05, batch_size=100, n_iter=args.epochs, random_state=0
    ).fit(X)
    found = {f"PCD, {args.epochs} epochs": rbm}
    if data_folder() is not None:
        found["CD25"] = published_machine()
    return {name: rbm.machine_ for name, rbm in found.items()}


def compare(machine, rows, args, tol=1e-8, max_iter=1000):
    """Time both on one machine; return lines of the table."""
    method, results = TAP(), {}
    double = machine.astype(np.float64)
    parameters = (double.weights[0], double.thetas[0].field, double.thetas[1].field)

    def ours(name, machine):
        start = method.start(machine, rows.astype(machine.dtype))
        results[name] = solve(method, machine, start, tol=tol, max_iter=max_iter)

    def theirs():
        X = rows.astype(np.float64)
        results["textbook float64"] = textbook(*parameters, X, tol, max_iter)

    runs = {
        "skrbm float32": lambda: ours("skrbm float32", machine),
        "skrbm float64": lambda: ours("skrbm float64", double),
        "textbook float64": theirs,
    }
    with threadpool_limits(1):
        seconds = timed(runs, args.repeats)
    reference, n_sweeps = results["textbook float64"]
    lines = [("textbook float64", np.median(seconds["textbook float64"]), 1.0, 0.0, n_sweeps, "")]
    for name in ("skrbm float32", "skrbm float64"):
        solution = results[name]
        error = float(np.median(((solution.state.means[0] - reference) ** 2).mean(axis=1)))
        ratio = np.median(seconds["textbook float64"] / seconds[name])
        left = int((~solution.converged).sum())
        mean = float(solution.n_iter.mean())
        lines.append((name, np.median(seconds[name]), ratio, error, mean, left))
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hidden", type=int, default=500)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    heading(__file__, args)
    X = mnist("train", 20000)[0].astype(np.float32)
    names = (
        "machine",
        "contender",
        "seconds",
        "speed-up",
        "median MSE",
        "mean sweeps",
        "unconverged",
    )
    lines = [
        (name, *line)
        for name, machine in machines(args, X).items()
        for line in compare(machine, X[: args.rows], args)
    ]
    table(names, lines)


if __name__ == "__main__":
    main()
