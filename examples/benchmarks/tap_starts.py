"""Which starts of the TAP solutions train best, at equal time, with PCD beside them.

    python examples/benchmarks/tap_starts.py [--seconds 240] [--rows 60000] [--hidden 500]

Thresholded MNIST. Every contender learns for the same processor time, in which its learning rate
falls to zero in a line; log-likelihood of 2 000 test images by AIS and reverse AIS with 100 chains,
of which the lower counts, over the 14 500 temperatures of Salakhutdinov and Murray (2008) or
``--temperatures`` equal steps, with which PCD's bracket stays ten nats wide. The issue is which
solutions the negative phase finds: starts at data miss the modes that the machine has elsewhere.
Few sweeps and large batches, of all contenders, make the most of the time.
With ``--centred`` all learn by centred gradients and average their parameters. Half an hour on an
idle core.
"""

import argparse

from _common import fit_for, heading, likelihood, mnist, table
from threadpoolctl import threadpool_limits

from skrbm import TAPRBM, BernoulliRBM
from skrbm.inference import TAP, NaiveMeanField


def contenders(args):
    """Yield (name, estimator)."""
    size = {"n_components": args.hidden, "random_state": 0}
    pcd, tap = {"learning_rate": 0.05}, {}
    if args.centred:
        both = {"centered": True, "average": True}
        pcd = {"learning_rate": 0.2, **both}
        tap = {"alpha": 0.0, **both}
    yield "PCD", BernoulliRBM(batch_size=100, **pcd, **size)
    tap |= {"batch_size": args.batch, **size}
    for sweeps in args.sweeps:
        for starts in args.starts:
            yield (
                f"{starts}, TAP of {sweeps}",
                TAPRBM(starts=starts, inference=TAP(max_iter=sweeps), **tap),
            )
    if args.naive:
        inference = NaiveMeanField(max_iter=args.sweeps[0])
        for starts in args.starts:
            yield f"{starts}, naive mean field", TAPRBM(starts=starts, inference=inference, **tap)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--rows", type=int, default=60000)
    parser.add_argument("--hidden", type=int, default=500)
    parser.add_argument("--sweeps", type=int, nargs="*", default=[3])
    parser.add_argument("--batch", type=int, default=100, help="rows of a batch, and starts")
    starts = ["data", "chains", "persistent", "random"]
    parser.add_argument("--starts", nargs="*", default=starts)
    parser.add_argument("--temperatures", type=int, help="equal steps of AIS, for a quicker look")
    parser.add_argument(
        "--centred",
        action="store_true",
        help="centred gradients and averaged parameters; PCD at 0.2, TAP without penalty",
    )
    parser.add_argument("--naive", action="store_true", help="naive mean field too")
    args = parser.parse_args()
    heading(__file__, args)
    X, X_test = mnist("train", args.rows)[0], mnist("test", 2000)[0]
    rows, best, schedule = [], None, args.temperatures or "salakhutdinov2008"
    with threadpool_limits(1):
        for name, rbm in contenders(args):
            seconds, passes = fit_for(rbm, X, args.seconds)
            forward, backward = likelihood(rbm, X, X_test, schedule)
            lower = min(forward, backward)
            best = lower if best is None else best  # PCD is the first
            rows.append((name, seconds, passes, forward, backward, lower, lower - best))
            print(f"{name}: {lower:.2f} nats", flush=True)
    print()
    table(("starts", "fit s", "passes", "AIS", "reverse AIS", "lower", "over PCD"), rows)


if __name__ == "__main__":
    main()
