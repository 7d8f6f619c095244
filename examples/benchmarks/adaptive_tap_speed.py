"""Cost of adaptive TAP: inverting by blocks against np.linalg.inv, and a sweep against TAP's.

    python examples/benchmarks/adaptive_tap_speed.py [--hidden 500 100] [--repeats 5]

For each row, a sweep of adaptive TAP needs the diagonal of the inverse of the matrix [[D_v, -W],
[-W', D_h]] of all units. The textbook method inverts this matrix as it is; we use the Schur
complement on the smaller side, in units of the spreads, which takes four triangular routines.
Weights are random, with the largest singular value of the coupling matrix at 0.9 in these units.
Printed are medians of the ratios within each repeat, with one BLAS thread for all; the error is the
largest one relative to the diagonal.
"""

import argparse

import numpy as np
from _common import heading, table, timed
from threadpoolctl import threadpool_limits

from skrbm.inference import TAP, AdaptiveTAP
from skrbm.inference._complement import complement_factors
from skrbm.machine import Machine
from skrbm.units import Bernoulli, Theta


def problem(n_visible, n_hidden, rng):
    """Return weights and the precisions D_v and D_h."""
    W = rng.standard_normal((n_hidden, n_visible))
    D_v, D_h = rng.uniform(4, 40, n_visible), rng.uniform(4, 40, n_hidden)
    W *= 0.9 / np.linalg.norm(W / np.sqrt(D_v) / np.sqrt(D_h)[:, None], 2)
    return W, D_v, D_h


def blocks(W, D_v, D_h):
    """Return the diagonal of the inverse, visible units first."""
    K = W * (1 / np.sqrt(D_v))
    K *= (1 / np.sqrt(D_h))[:, None]
    _, _, (Y,), (excess,), _ = complement_factors(K[None])
    return np.concatenate([(1 + np.sum(Y * Y, axis=0)) / D_v, (1 + excess) / D_h])


def dense(W, D_v, D_h):
    matrix = np.diag(np.concatenate([D_v, D_h]))
    matrix[len(D_v) :, : len(D_v)] = -W
    matrix[: len(D_v), len(D_v) :] = -W.T
    return np.diag(np.linalg.inv(matrix))


def inverse_line(n_visible, n_hidden, dtype, args, rng):
    arrays = problem(n_visible, n_hidden, rng)
    cast = [array.astype(dtype) for array in arrays]
    runs = {"inv": lambda: dense(*arrays), "blocks": lambda: blocks(*cast)}
    seconds = timed(runs, args.repeats)
    ratios = seconds["inv"] / seconds["blocks"]
    error = float(np.abs(blocks(*cast) / dense(*arrays) - 1).max())
    milliseconds = (1e3 * float(np.median(seconds[name])) for name in ("inv", "blocks"))
    name = f"{n_visible} x {n_hidden} {np.dtype(dtype).name}"
    return (name, *milliseconds, float(np.median(ratios)), ratios.min(), ratios.max(), error)


def sweep_line(n_visible, n_hidden, dtype, args, rng):
    W, D_v, D_h = problem(n_visible, n_hidden, rng)
    machine = Machine((Bernoulli(),) * 2, (Theta(0 * D_v), Theta(0 * D_h)), (W,)).astype(dtype)
    X = rng.integers(0, 2, (args.rows, n_visible)).astype(dtype)
    methods = {"TAP": TAP(), "adaptive TAP": AdaptiveTAP()}
    states = {name: method.state_at(machine, X) for name, method in methods.items()}
    runs = {
        name: lambda name=name, method=method: method.step(machine, states[name])
        for name, method in methods.items()
    }
    seconds = timed(runs, args.repeats)
    ratio = float(np.median(seconds["adaptive TAP"] / seconds["TAP"]))
    per_row = (1e3 * float(np.median(seconds[name])) / args.rows for name in methods)
    return (f"{n_visible} x {n_hidden} {np.dtype(dtype).name}", *per_row, ratio)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--visible", type=int, default=784)
    parser.add_argument("--hidden", type=int, nargs="*", default=[500, 100])
    parser.add_argument("--rows", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    heading(__file__, args)
    rng = np.random.default_rng(0)
    cases = [(n, dtype) for n in args.hidden for dtype in (np.float64, np.float32)]
    with threadpool_limits(1):
        lines = [inverse_line(args.visible, n, dtype, args, rng) for n, dtype in cases]
        names = ("inverse", "inv float64 ms", "blocks ms", "speed-up", "least", "most", "error")
        table(names, lines)
        print()
        sweeps = [sweep_line(args.visible, n, dtype, args, rng) for n, dtype in cases]
        table(("sweep", "TAP ms/row", "adaptive ms/row", "times as long"), sweeps)


if __name__ == "__main__":
    main()
