"""Times and agreement of skrbm on torch tensors, on a GPU or on the CPU.

    python examples/benchmarks/gpu.py [--device cuda] [--part pcd replays ...]

- "pcd": a batch of persistent contrastive divergence, 784 x 4096 units and 512 rows, compared with
  its matrix products alone, with and without TensorFloat-32. The time of a batch is the difference
  between fits of two lengths, with 50 batches in an epoch.
- "replays": a batch with recorded steps and without.
- "rbms": an update of 784 x 500 units, 2000 rows and chains, compared with that of rbms 0.5.0
  (``pip install --no-deps rbms==0.5.0``).
- "langevin": a step of Gibbs-Langevin sampling with 10 inner steps, compared with a plain
  transcription of the inner loop of the paper's released code.
- "bp": ten sweeps of belief propagation in 100 and 500 RBMs of 784 x 256 units, compared with
  moving their messages through memory at the speed of a copy.
- "agreement": the largest differences between deterministic computations and NumPy's, and exact
  log-likelihoods of fits by sampling over some seeds, with standard errors.

Everything is in float32; times are medians over interleaved repeats. ``--device cpu --scale 0.1``
runs in a few minutes.
"""

import argparse
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent / "gaussian_bernoulli"))

from _common import PLAIN, heading, table, timed
from speed import explicit

from skrbm import RBM, TAPRBM, BernoulliRBM, GaussianBernoulliRBM
from skrbm.arrays import make_rng, to_numpy
from skrbm.inference import BeliefPropagation, Gibbs, GibbsLangevin, propagate, propagate_rows
from skrbm.learning import SGD
from skrbm.machine import Machine
from skrbm.units import Bernoulli, Gaussian, Theta


class Device:
    """Where tensors are made, and what waits for them."""

    def __init__(self, name):
        self.name, self.is_gpu = name, name.startswith("cuda")

    def __str__(self):
        if not self.is_gpu:
            return f"{self.name}, {torch.get_num_threads()} threads of torch"
        return torch.cuda.get_device_name(self.name)

    def put(self, array):
        return torch.asarray(np.asarray(array, np.float32), device=self.name)

    def waited(self, run):
        """Return a function that runs and waits for the end."""

        def waits():
            run()
            if self.is_gpu:
                torch.cuda.synchronize(self.name)

        return waits

    def seconds(self, runs, repeats):
        """Return medians of the times of some functions, by name."""
        found = timed({name: self.waited(run) for name, run in runs.items()}, repeats)
        return {name: float(np.median(times)) for name, times in found.items()}


def bits(n, n_visible):
    return (np.random.default_rng(0).random((n, n_visible)) < 0.3).astype(np.float32)


def pcd(device, args):
    """Time a batch of PCD and its products."""
    n_visible, n_hidden, size = args.sizes(784, 4096, 512)
    print(f"\nPCD, {n_visible} x {n_hidden} units, batches of {size}")
    W, V, H = (torch.rand(n, m, device=device.name) for n, m in
               ((n_hidden, n_visible), (2 * size, n_visible), (2 * size, n_hidden)))  # fmt: skip

    def products():
        return V @ W.T, H[:size] @ W, H.T @ V

    estimators = {
        "BernoulliRBM": BernoulliRBM(n_hidden, learning_rate=0.01, batch_size=size),
        "RBM": RBM(n_hidden, batch_size=size),
    }
    rows, others = [], {"products": products}
    for precision in ("highest", "high") if device.is_gpu else ("highest",):
        torch.set_float32_matmul_precision(precision)
        batches, found = seconds_of_batches(device, args, estimators, n_visible, others)
        alone, numbers = found["products"], "float32" if precision == "highest" else "TF32"
        rows.append((numbers, "products alone", 1e3 * alone, 1.0, ""))
        for name, seconds in batches.items():
            goal = ">= 0.6" if name == "BernoulliRBM" and precision == "highest" else ""
            rows.append((numbers, name, 1e3 * seconds, alone / seconds, goal))
    torch.set_float32_matmul_precision("highest")
    table(("products in", "", "ms a batch", "products / time", "goal"), rows)


def seconds_of_batches(device, args, estimators, n_visible, others=None, n_batches=50, more=4):
    """Return medians of the time of a batch of some estimators, by name, and of other runs."""
    size = max(estimator.batch_size for estimator in estimators.values())
    X, runs = device.put(bits(n_batches * size, n_visible)), dict(others or {})

    def fit(estimator, n_iter):
        rows = X[: n_batches * estimator.batch_size]
        estimator.set_params(n_iter=n_iter, random_state=0)
        return estimator.fit(rows)

    for name, estimator in estimators.items():
        runs |= {(name, n): partial(fit, estimator, n) for n in (1, 1 + more)}
    found = device.seconds(runs, args.repeats)
    times = {
        name: (found[name, 1 + more] - found[name, 1]) / (more * n_batches) for name in estimators
    }
    return times, found


def replays(device, args):
    """Time batches with and without recorded steps."""
    n_visible, n_hidden, size, large = args.sizes(784, 500, 100, 512)
    estimators = {
        f"RBM, batches of {size}": RBM(n_hidden, batch_size=size),
        f"BernoulliRBM, batches of {size}": BernoulliRBM(n_hidden, batch_size=size),
        f"BernoulliRBM, batches of {large}": BernoulliRBM(n_hidden, batch_size=large),
        f"TAPRBM, batches of {size}": TAPRBM(n_hidden, batch_size=size),
        f"GaussianBernoulliRBM, batches of {size}": GaussianBernoulliRBM(
            n_hidden, batch_size=size, learning_rate=0.001
        ),
    }
    print(f"\nSteps that are replayed, {n_visible} x {n_hidden} units")
    there, _ = seconds_of_batches(device, args, estimators, n_visible)
    with mock.patch("skrbm.learning._learner.can_replay", lambda x: False):
        one_by_one, _ = seconds_of_batches(device, args, estimators, n_visible)
    rows = [(name, 1e3 * one_by_one[name], 1e3 * there[name], one_by_one[name] / there[name])
            for name in estimators]  # fmt: skip
    table(("", "ms a batch, one by one", "replayed", "ratio"), rows)


def rbms(device, args):
    """Time an update, and that of rbms."""
    try:
        from rbms.bernoulli_bernoulli.classes import BBRBM
        from rbms.training.pcd import fit_batch_pcd
    except ImportError as error:
        print(f"\nrbms is left out: {error}")
        return
    n_visible, n_hidden, size = args.sizes(784, 500, 2000)
    X, n_updates, rows = device.put(bits(size, n_visible)), 20, []
    weights = torch.ones((size, 1), device=device.name)
    print(f"\nUpdates of {n_visible} x {n_hidden} units, {size} rows and chains")
    for steps in (1, 10, 100):
        with torch.no_grad():
            data = SimpleNamespace(data=X)
            machine = BBRBM.init_parameters(n_hidden, data, torch.device(device.name), X.dtype)
            optimizer = torch.optim.SGD(machine.parameters(), lr=0.01, maximize=True)
            for parameter in machine.parameters():
                parameter.grad = torch.zeros_like(parameter)
            chains = machine.init_chains(size)

            def updates(machine=machine, chains=chains, optimizer=optimizer, steps=steps):
                for _ in range(n_updates):
                    optimizer.zero_grad(set_to_none=False)
                    chains, _ = fit_batch_pcd((X, weights), chains, machine, steps, 1.0)
                    optimizer.step()

            ours = RBM(
                n_hidden,
                batch_size=size,
                optimizer=SGD(alpha=0.0, schedule="constant", average=False),
                inference=Gibbs(n_steps=steps),
                learning_rate=0.01,
            )
            there, found = seconds_of_batches(
                device, args, {"": ours}, n_visible, {"rbms": updates}, n_batches=30
            )
        theirs = found["rbms"] / n_updates
        rows.append((steps, 1e3 * theirs, 1e3 * there[""], theirs / there[""]))
    table(("Gibbs steps", "ms, rbms", "ms, skrbm", "rbms / skrbm"), rows)


def langevin(device, args):
    """Time a Gibbs-Langevin step, and the inner loop of the released code."""
    n_visible, n_hidden, n = args.sizes(784, 4096, 512)
    generator, inner, n_steps = np.random.default_rng(0), 10, 20
    W = device.put(0.02 * generator.standard_normal((n_hidden, n_visible)))
    own = Theta(device.put(np.zeros(n_visible)), device.put(np.ones(n_visible)))
    machine = Machine((Gaussian(), Bernoulli()), (own, Theta(device.put(np.zeros(n_hidden)))), (W,))
    V, rng = device.put(generator.standard_normal((n, n_visible))), make_rng(0, W)
    method = GibbsLangevin(step_size=0.2, n_inner_steps=inner, adjust_after=None)
    state = method.state_at(machine, V, rng)
    H = state.layers[1]
    found = device.seconds(
        {
            "skrbm": lambda: [method.step(machine, state, rng) for _ in range(n_steps)],
            "released": lambda: [
                explicit(machine, V, H, rng, 0.2, inner, hoisted=False) for _ in range(n_steps)
            ],
        },
        args.repeats,
    )
    print(f"\nGibbs-Langevin, {n_visible} x {n_hidden} units, {n} chains, {inner} inner steps")
    ratio = found["released"] / found["skrbm"]
    rows = [("skrbm", 1e3 * found["skrbm"] / n_steps, 1.0, ""),
            ("released code's loop", 1e3 * found["released"] / n_steps, ratio, ">= 5")]  # fmt: skip
    table(("", "ms a step", "over skrbm", "goal"), rows)


def bp(device, args):
    """Time sweeps of belief propagation and their traffic."""
    print("\nBelief propagation, 10 sweeps")
    rows = [row for n in (100, 500) for row in bp_rows(device, args, n)]
    table(("RBMs", "", "ms", "over traffic", "goal"), rows)


def bp_rows(device, args, n):
    """Return rows of a table about sweeps in ``n`` RBMs."""
    n_visible, n_hidden, n = args.sizes(784, 256, n)
    generator, sweeps = np.random.default_rng(0), 10
    W = 3 / np.sqrt(n_visible + n_hidden) * generator.standard_normal((n_hidden, n_visible))
    parts = W, generator.standard_normal((n, n_visible)), generator.standard_normal((n, n_hidden))
    W, b, c = (device.put(part) for part in parts)
    messages = torch.ones(n * n_hidden * n_visible, device=device.name)
    other = torch.empty_like(messages)

    def learning():
        machine = Machine((Bernoulli(), Bernoulli()), (Theta(b), Theta(c)), (W,))
        return propagate_rows(BeliefPropagation(sweeps, tol=0.0), machine, pairs=True)

    def copies():
        for _ in range(sweeps):
            other.copy_(messages)

    runs = {
        "traffic": copies,
        "in learning": learning,
        "propagate": lambda: propagate(W, b, c, max_iter=sweeps, tol=0.0, pairs=True),
    }
    found = device.seconds(runs, 5 * args.repeats)
    found["traffic"] *= 1 + 0.5 / n
    name, goals = f"{n} of {n_visible} x {n_hidden}", {"in learning": "<= 3"}
    return [(name, run, 1e3 * seconds, seconds / found["traffic"], goals.get(run, ""))
            for run, seconds in found.items()]  # fmt: skip


def agreement(device, args):
    """Print differences from NumPy, and exact log-likelihoods."""
    rows, X = [], bits(200, 12)
    for dtype, goal in ((np.float32, 1e-5), (np.float64, 1e-10)):
        data = X.astype(dtype)
        fit = PLAIN | {"n_components": 8, "n_iter": 5, "batch_size": 50}
        init = 0.1 * np.random.default_rng(0).standard_normal((8, 12)), np.zeros(8), np.zeros(12)
        ours = TAPRBM(init=init, **fit).fit(data)
        there = torch.asarray(data, device=device.name)
        theirs = TAPRBM(init=init, **fit).fit(there)
        rows.append((dtype.__name__, "fit by TAP", _difference(theirs, ours, "components_"), goal))
        W, c, b = (getattr(ours, f"{n}_") for n in ("components", "intercept_hidden",
                                                     "intercept_visible"))  # fmt: skip
        put = (torch.asarray(part, device=device.name) for part in (W, c, b))
        same = TAPRBM.from_parameters(*put)
        for method in ("transform", "free_energy", "score_samples"):
            one, other = getattr(ours, method)(data), to_numpy(getattr(same, method)(there))
            rows.append((dtype.__name__, method, float(np.abs(one - other).max()), goal))
    print("\nLargest difference from NumPy")
    table(("dtype", "", "difference", "goal"), rows)
    rows = []
    for name, Estimator in (("RBM", RBM), ("BernoulliRBM", BernoulliRBM)):
        for where, data in (("NumPy", X), (device.name, device.put(X))):
            scores = [Estimator(8, n_iter=20, random_state=seed).fit(data).score(data)
                      for seed in range(args.seeds)]  # fmt: skip
            error = np.std(scores, ddof=1) / len(scores) ** 0.5
            rows.append((name, where, float(np.mean(scores)), float(error)))
    print(f"\nExact mean log-likelihood of sampling fits, {args.seeds} seeds")
    table(("", "on", "nats", "standard error"), rows)


def _difference(one, other, name):
    return float(np.abs(to_numpy(getattr(one, name)) - getattr(other, name)).max())


PARTS = {part.__name__: part for part in (pcd, replays, rbms, langevin, bp, agreement)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", help="of torch")
    parser.add_argument("--part", nargs="*", default=[*PARTS], choices=PARTS)
    parser.add_argument("--scale", type=float, default=1.0, help="factor on all sizes")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=8)
    args = parser.parse_args()
    if args.device.startswith("cuda") and not torch.cuda.is_available():
        parser.error("torch finds no GPU; use --device cpu --scale 0.1")
    heading(__file__, args)
    args.sizes = lambda *sizes: [max(2, round(args.scale * size)) for size in sizes]
    device = Device(args.device)
    print(f"{device}, torch {torch.__version__}, float32")
    for name in args.part:
        begin = time.perf_counter()
        PARTS[name](device, args)
        print(f"({time.perf_counter() - begin:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
