"""Time of exact log Z: sums by halves of a layer beside one configuration after the other.

    python examples/benchmarks/exact_sums.py [--units 18] [--repeats 3] [--seconds 10]

Machines have normal weights of standard deviation 0.3, and hidden bits that are enumerated. Both
ways take turns, in float64 with one BLAS thread; printed are medians. "score" is the number of
hidden units up to which scores are exact, and "exact" that of ``log_partition("exact")``. With
``--seconds`` more hidden units are added until the sums by halves take about so long.
"""

import argparse
import time

import numpy as np
from _common import heading, progress, table, timed
from threadpoolctl import threadpool_limits

from skrbm.machine import Machine, can_enumerate, check_enumerable, configurations
from skrbm.machine._factored_sums import factored_sums
from skrbm.units import Bernoulli, Categorical, Gaussian, Theta


def machine_of(unit, n_visible, n_hidden):
    rng = np.random.default_rng(0)
    visible = Theta(
        rng.normal(size=n_visible) - 1, np.ones(n_visible) if unit.is_gaussian else None
    )
    hidden = Theta(rng.normal(size=n_hidden))
    W = 0.3 * rng.normal(size=(n_hidden, n_visible))
    return Machine((unit, Bernoulli()), (visible, hidden), (W,))


def in_turn(machine):
    total = -np.inf
    for _, log_weights in configurations(machine, (1,)):
        total = np.logaddexp(total, np.logaddexp.reduce(log_weights))
    return float(total)


def by_halves(machine):
    return float(factored_sums(machine, 1).log_partition())


def is_summed(machine):
    try:
        check_enumerable(machine)
    except ValueError:
        return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--units", type=int, default=18)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0)
    args = parser.parse_args()
    heading(__file__, args)
    kinds = {
        "784 bits": (Bernoulli(), 784),
        "64 bits": (Bernoulli(), 64),
        "50 sites of 21 values": (Categorical(21), 1050),
        "784 normal": (Gaussian(), 784),
        "30 normal": (Gaussian(), 30),
    }
    rows = []
    with threadpool_limits(1):
        for name, (unit, n) in kinds.items():
            machine = machine_of(unit, n, args.units)
            ways = {"turn": lambda m=machine: in_turn(m), "halves": lambda m=machine: by_halves(m)}
            apart = abs(ways["turn"]() - ways["halves"]())
            times = timed(ways, args.repeats)
            turn, halves = (float(np.median(times[way])) for way in ("turn", "halves"))
            last, seconds = args.units, halves
            while seconds < args.seconds / 2:
                last += 1
                begin = time.perf_counter()
                by_halves(machine_of(unit, n, last))
                seconds = time.perf_counter() - begin
            sizes = range(12, 31)
            scores = max(k for k in sizes if can_enumerate(machine_of(unit, n, k)))
            asked = max(k for k in sizes if is_summed(machine_of(unit, n, k)))
            rows.append((name, turn, halves, turn / halves, apart, last, seconds, scores, asked))
            progress(rows[-1])
    names = ("visible", "in turn, s", "halves, s", "ratio", "apart, nats", "units", "s")
    table((*names, "score", "exact"), rows)


if __name__ == "__main__":
    main()
