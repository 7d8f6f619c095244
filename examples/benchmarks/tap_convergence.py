"""Time of TAP to convergence from 100 rows of data against the textbook loop.

    python examples/benchmarks/tap_convergence.py [--hidden 500] [--rows 100] [--repeats 5]

The machine is trained by PCD on thresholded MNIST. The textbook loop works in float64, squares the
weights anew in each sweep and iterates all rows until the slowest has converged, to a mean squared
change of 1e-8. Medians over repeats in turn, one BLAS thread for both.
"""

import argparse

import numpy as np
from _common import heading, mnist, table, timed
from threadpoolctl import threadpool_limits

from skrbm import BernoulliRBM
from skrbm.inference import TAP, solve


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def textbook(W, b, c, X, tol, max_iter):
    """Iterate Alg. 1 of Tramel et al. (2018) over all rows; returns visible means and sweeps."""
    a_v, c_v = X.copy(), np.zeros_like(X)
    a_h = np.zeros((len(X), len(c)))
    for sweep in range(1, max_iter + 1):
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
            break
    return a_v, sweep


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hidden", type=int, default=500)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    heading(__file__, args)
    X = mnist("train", 20000)[0].astype(np.float32)
    rbm = BernoulliRBM(
        args.hidden, learning_rate=0.05, batch_size=100, n_iter=args.epochs, random_state=0
    ).fit(X)
    single, rows = rbm.machine_, X[: args.rows]
    double, rows64 = single.astype(np.float64), rows.astype(np.float64)
    parameters = (double.weights[0], double.thetas[0].field, double.thetas[1].field)
    method, tol, max_iter = TAP(), 1e-8, 1000
    results = {}

    def ours(machine, rows):
        start = method.start(machine, rows)
        return solve(method, machine, start, tol=tol, max_iter=max_iter)

    def keep(name, run):
        def call():
            results[name] = run()

        return call

    runs = {
        "skrbm float32": keep("skrbm float32", lambda: ours(single, rows)),
        "skrbm float64": keep("skrbm float64", lambda: ours(double, rows64)),
        "textbook float64": keep(
            "textbook float64", lambda: textbook(*parameters, rows64, tol, max_iter)
        ),
    }
    with threadpool_limits(1):
        seconds = timed(runs, args.repeats)
    reference, sweeps = results["textbook float64"]
    lines = [("textbook float64", np.median(seconds["textbook float64"]), 1.0, 0.0, sweeps, sweeps)]
    for name in ("skrbm float32", "skrbm float64"):
        solution = results[name]
        error = np.median(((solution.state.means[0] - reference) ** 2).mean(axis=1))
        ratio = np.median(seconds["textbook float64"] / seconds[name])
        n_iter = solution.n_iter
        lines.append(
            (name, np.median(seconds[name]), ratio, float(error), np.median(n_iter), n_iter.max())
        )
    table(
        ("contender", "seconds", "speed-up", "median MSE to textbook", "median sweeps", "most"),
        lines,
    )
    print(f"unconverged rows: {(~results['skrbm float32'].converged).sum()}")


if __name__ == "__main__":
    main()
