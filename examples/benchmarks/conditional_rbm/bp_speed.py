"""Time and accuracy of belief propagation against the matrix form of its paper.

    python examples/benchmarks/conditional_rbm/bp_speed.py [PART ...] [--repeats 5]

Parts: "one" machine of 1000 x 500 units and 10 sweeps; "many", 100 instances of 784 x 256 that
share their weights, 10 sweeps; "learning", both with the tolerance of learning, 1e-6 in the mean
square of what means change by, and with its sums of E[h v]; "large", 10 000 x 2 000 to a mean
squared change of 1e-8, with the peak memory of the process; "rate", how often mixed-product finds
the marginal maximum on random trees, by enumeration. Weights are normal, of standard deviation
1 / sqrt(n_visible + n_hidden) times 3, fields standard normal. One thread and contenders in turn;
ratios are medians over repeats.
The memory limit is that of reading and writing the messages and reading exp(W) once in each sweep,
at the speed of a copy of arrays of that size.
"""

import argparse
import resource
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
    """Alg. 1 of Ping and Ihler (2017), with messages of shape (v, h) and (h, v) as it has them."""
    return _paper(W, b, c, n_iter, np.full(W.T.shape, W.dtype.type(0.5)))


def paper_in_one_layout(W, b, c, n_iter):
    """The same, but all arrays lie in memory as W does, so that no operation transposes."""
    return _paper(W, b, c, n_iter, np.full(W.shape, W.dtype.type(0.5)).T)


def _paper(W, b, c, n_iter, to_hidden):
    """Eqs. (13), (16), (14), (17); W is (n_visible, n_hidden), and exp(W) is computed once."""
    E, hidden = np.exp(W), 1 / (1 + np.exp(-c))
    for _ in range(n_iter):
        one, other = (1 - to_hidden).T * hidden, to_hidden.T * (1 - hidden)
        to_visible = 1 / (1 + np.exp(-np.log((E * one + other) / (one + other))))
        visible = 1 / (1 + np.exp(-b - np.log(to_visible / (1 - to_visible)).sum(axis=1)))
        one, other = (1 - to_visible).T * visible, to_visible.T * (1 - visible)
        to_hidden = 1 / (1 + np.exp(-np.log((E.T * one + other) / (one + other))))
        hidden = 1 / (1 + np.exp(-c - np.log(to_hidden / (1 - to_hidden)).sum(axis=1)))
    return visible


def instances(n, n_visible, n_hidden, dtype=np.float64):
    rng = np.random.default_rng(0)
    W = rng.standard_normal((n_hidden, n_visible)) * 3 / np.sqrt(n_visible + n_hidden)
    fields = (rng.standard_normal((n, size)) for size in (n_visible, n_hidden))
    return tuple(part.astype(dtype) for part in (W, *fields))


def copy_speed(n_bytes):
    """Bytes read and written per second by a copy of an array of that size."""
    x = np.ones(n_bytes // 4, np.float32)
    y, times = x.copy(), []
    for _ in range(20):
        begin = time.perf_counter()
        np.copyto(y, x)
        times.append(time.perf_counter() - begin)
    return 2 * n_bytes / np.median(times)


def sum_product(arrays, n_jobs=1):
    return propagate(*arrays, max_iter=10, tol=0.0, n_jobs=n_jobs)


def compare(n, n_visible, n_hidden, n_paper, args):
    """Time n instances; the paper's form on ``n_paper`` of them, scaled up."""
    double, single = (instances(n, n_visible, n_hidden, d) for d in (np.float64, np.float32))

    def theirs(form, arrays):
        W, b, c = arrays
        results = [form(W.T.copy(), *fields, 10) for fields in zip(b, c, strict=True)]
        return results[0]

    few = {
        "paper float64": (paper, double),
        "paper float32": (paper, single),
        "one layout float64": (paper_in_one_layout, double),
        "one layout float32": (paper_in_one_layout, single),
    }
    runs = {
        name: lambda form=form, W=W, b=b, c=c: theirs(form, (W, b[:n_paper], c[:n_paper]))
        for name, (form, (W, b, c)) in few.items()
    }
    runs |= {
        "skrbm float32": lambda: sum_product(single),
        "skrbm float64": lambda: sum_product(double),
    }
    if n > 1:
        runs["skrbm float32, 2 threads"] = lambda: sum_product(single, 2)
    with threadpool_limits(1):
        seconds = timed(runs, args.repeats)
    for name in few:
        seconds[name] *= n / n_paper
    W, b, c = double
    truth, lines = expit(propagate(W, b[0], c[0], max_iter=500, tol=1e-28).visible[0]), []
    for name, run in runs.items():
        found = run()
        visible = found if name in few else expit(found.visible[0])
        messages = n * 20 * n_visible * n_hidden
        ratios = [np.median(seconds[other] / seconds[name]) for other in few]
        error = float(np.abs(visible - truth).max())
        median = float(np.median(seconds[name]))
        lines.append((name, median, median / messages * 1e9, *map(float, ratios), error))
    print(f"\n{n} x ({n_visible} x {n_hidden}), 10 sweeps; the paper's form timed on {n_paper}")
    table(("contender", "seconds", "ns/message", *(f"x {name}" for name in few), "error"), lines)
    speed = copy_speed(4 * n_visible * n_hidden)
    print(
        f"float32 needs 6 bytes per message: {6 / speed * 1e9:.2f} ns at {speed / 1e9:.0f} GB/s\n"
        "(the error is the largest of a visible mean, against convergence in float64)"
    )
    if n > 1:
        gain = seconds["skrbm float32"] / seconds["skrbm float32, 2 threads"]
        print(f"2 threads over 1: {np.median(gain):.2f}x ({gain.min():.2f} to {gain.max():.2f})")


def learning(n, n_visible, n_hidden, n_paper, args, tol=1e-6):
    """Time n instances to the tolerance of learning; the paper's form on ``n_paper``, scaled up."""
    W, b, c = instances(n, n_visible, n_hidden, np.float32)
    turned, means, n_iter = W.T.copy(), [paper(W.T.copy(), b[0], c[0], 1)], 1
    while len(means) < 2 or np.mean((means[-1] - means[-2]) ** 2) > tol:
        n_iter += 1
        means.append(paper(turned, b[0], c[0], n_iter))
    options = {"tol": tol, "pairs": True, "n_jobs": 1}
    runs = {
        f"paper, {n_iter} sweeps, no pairs": lambda: [
            paper(turned, *fields, n_iter) for fields in zip(b[:n_paper], c[:n_paper], strict=True)
        ],
        "skrbm from the fields": lambda: propagate(W, b, c, **options),
        "skrbm from TAP": lambda: propagate(W, b, c, start="tap", **options),
    }
    theirs = next(iter(runs))
    with threadpool_limits(1):
        seconds = timed(runs, args.repeats)
    seconds[theirs] *= n / n_paper
    exact = propagate(*(part.astype(float) for part in (W, b, c)), tol=1e-24, max_iter=500)
    lines = []
    for name, run in runs.items():
        found, ratio = run(), np.median(seconds[theirs] / seconds[name])
        visible = np.array(found) if name == theirs else expit(found.visible)
        error = float(np.abs(visible - expit(exact.visible)[: len(visible)]).max())
        n_sweeps = n_iter if name == theirs else float(found.n_iter.mean())
        lines.append((name, float(np.median(seconds[name])), float(ratio), n_sweeps, error))
    print(f"\n{n} x ({n_visible} x {n_hidden}), float32, to a mean squared change of {tol:g}")
    table(("contender", "seconds", f"x {theirs}", "sweeps", "error"), lines)


def large():
    W, b, c = instances(1, 10000, 2000, np.float32)
    begin = time.perf_counter()
    with threadpool_limits(1):
        found = propagate(W, b, c, n_jobs=1)
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"\n10 000 x 2 000, float32, one thread: {found.n_iter[0]} sweeps, converged "
        f"{found.converged[0]}, {seconds:.2f} s, {seconds / found.n_iter[0] / 4e7 * 1e9:.2f} "
        f"ns/message, peak memory of the process {peak:.2f} GB"
    )


def random_tree(rng, n_visible, n_hidden, strength):
    """Weights that are not zero on a random tree, and fields."""
    W = np.zeros((n_hidden, n_visible))
    reached, waiting = [[0], []], [(0, i) for i in range(1, n_visible)]
    waiting += [(1, j) for j in range(n_hidden)]
    while waiting:
        layer, unit = waiting.pop(rng.integers(len(waiting)))
        if not reached[1 - layer]:
            waiting.append((layer, unit))
            continue
        other = rng.choice(reached[1 - layer])
        W[(unit, other) if layer else (other, unit)] = strength * rng.standard_normal()
        reached[layer].append(unit)
    return W, rng.standard_normal(n_visible), rng.standard_normal(n_hidden)


def rate(n_trees=1000, n_visible=8, n_hidden=8):
    rng = np.random.default_rng(0)
    states = np.array(np.unravel_index(np.arange(2**n_visible), (2,) * n_visible)).T
    lines = []
    for strength in (1.0, 2.0, 4.0):
        exact, converged, lost = 0, 0, []
        for _ in range(n_trees):
            W, b, c = random_tree(rng, n_visible, n_hidden, strength)
            weights = states @ b + np.logaddexp(0, c + states @ W.T).sum(axis=1)
            found = propagate(W, b, c, product="mixed", max_iter=100, log_partition=True)
            converged += int(found.converged[0])
            lost.append(weights.max() - found.log_partition[0])
            exact += lost[-1] < 1e-9
        share = exact / n_trees
        error = np.sqrt(share * (1 - share) / n_trees)
        lines.append((strength, share, float(error), converged / n_trees, float(np.mean(lost))))
    print(f"\nmixed-product on {n_trees} random trees of {n_visible} x {n_hidden} units")
    table(("strength", "exact", "std error", "converged", "mean loss (nats)"), lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=["one", "many", "learning", "large", "rate"])
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    heading(__file__, args)
    parts = {
        "one": lambda: compare(1, 1000, 500, 1, args),
        "many": lambda: compare(100, 784, 256, 5, args),
        "learning": lambda: (learning(1, 1000, 500, 1, args), learning(100, 784, 256, 5, args)),
        "large": large,
        "rate": rate,
    }
    for part in args.parts:
        parts[part]()
        sys.stdout.flush()


if __name__ == "__main__":
    main()
