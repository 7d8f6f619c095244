"""Time of a Gibbs-Langevin step, compared with K explicit inner steps.

    python examples/benchmarks/gaussian_bernoulli/speed.py

784 x 4096 units, K = 10, 512 chains, float32, one thread. A full step moves v given h and samples h
given v. The contenders compute W h in each inner step, or once. Ratios are medians over interleaved
repeats; means and variances of v after a step must agree.
"""

import argparse
import math

import numpy as np
from _paper import heading, table, timed
from threadpoolctl import threadpool_limits

from skrbm.arrays import make_rng, namespace
from skrbm.inference import GibbsLangevin
from skrbm.machine import Machine, condition
from skrbm.units import Bernoulli, Gaussian, Theta


def explicit(machine, V, H, rng, step_size, K, hoisted):
    """K inner steps of Alg. 2 one by one, then a draw of h; v and h."""
    (W,), theta = machine.weights, machine.thetas[0]
    mean, variance = theta.field / theta.precision, 1 / theta.precision
    push = (H @ W) * variance + mean if hoisted else None
    for k in range(K):
        step = step_size * 0.5 * (1 + math.cos(math.pi * k / K))
        centre = push if hoisted else (H @ W) * variance + mean
        noise = rng.normal(tuple(V.shape))
        noise *= namespace(V).sqrt(2 * step * variance)
        V = V - step * (V - centre) + noise
    return V, machine.units[1].sample(condition(machine, V), rng)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-visible", type=int, default=784)
    parser.add_argument("--n-components", type=int, default=4096)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--inner-steps", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    heading(__file__, args)
    generator = np.random.default_rng(0)
    shape = args.n_components, args.n_visible
    W = (0.02 * generator.standard_normal(shape)).astype(np.float32)
    own = Theta(np.zeros(shape[1], np.float32), np.ones(shape[1], np.float32))
    hidden = Theta(np.zeros(shape[0], np.float32))
    machine = Machine((Gaussian(), Bernoulli()), (own, hidden), (W,))
    V = generator.standard_normal((args.batch_size, shape[1])).astype(np.float32)
    rng, K = make_rng(0, W), args.inner_steps
    method = GibbsLangevin(step_size=0.2, n_inner_steps=K, adjust_after=None)
    with threadpool_limits(1):
        state = method.state_at(machine, V, rng)
        H = state.layers[1]
        runs = {
            "one draw (skrbm)": lambda: method.step(machine, state, rng)[0].layers,
            "W h once": lambda: explicit(machine, V, H, rng, 0.2, K, True),
            "W h in each inner step": lambda: explicit(machine, V, H, rng, 0.2, K, False),
        }
        seconds = timed(runs, args.repeats)
        rows, ours = [], seconds["one draw (skrbm)"]
        for name, run in runs.items():
            moved = run()[0]
            ratio = float(np.median(seconds[name] / ours))
            milliseconds = 1000 * float(np.median(seconds[name]))
            mean, variance = float(moved.mean()), float(((moved - moved.mean()) ** 2).mean())
            rows.append((name, milliseconds, ratio, mean, variance))
    table(("form", "ms", "ratio", "mean of v", "variance of v"), rows)


if __name__ == "__main__":
    main()
