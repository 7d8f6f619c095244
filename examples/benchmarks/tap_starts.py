"""Which starts of the TAP solutions train best, at equal time, with PCD beside them.

    python examples/benchmarks/tap_starts.py [--seconds 240] [--rows 60000] [--hidden 500]
    python examples/benchmarks/tap_starts.py --data ones --hidden 100 --seconds 30 --centred
    python examples/benchmarks/tap_starts.py --default --centred --sweeps 1 --starts chains

Thresholded MNIST, its digits 0 and 1, scikit-learn's small digits, Fashion-MNIST, or one of the
sets of binary columns; the last two need SKRBM_DATA. Every contender learns for the same processor
time, in which its learning rate falls to zero in a line; log-likelihood of at most 2 000 test rows
by AIS and reverse AIS with 100 chains, of which the lower counts, over the 14 500 temperatures of
Salakhutdinov and Murray (2008) or ``--temperatures`` equal steps, with which PCD's bracket stays
ten nats wide. The issue is which solutions the negative phase finds: starts at data miss the modes
that the machine has elsewhere. Few sweeps and large batches, of all contenders, make the most of
the time. "tempered" starts also keep a ladder, which the annealing does not use. With ``--centred``
all learn by centred gradients and average their parameters. ``--default`` adds TAPRBM without any
setting but the size. Half an hour on an idle core.
"""

import argparse

import numpy as np
from _common import PLAIN, debd, fashion_mnist, fit_for, heading, likelihood, mnist, progress, table
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from skrbm import TAPRBM, BernoulliRBM
from skrbm.inference import TAP, NaiveMeanField

BINARY = ("nltcs", "plants", "jester", "baudio", "dna")


def contenders(args):
    """Yield (name, estimator)."""
    size = {"n_components": args.hidden, "random_state": 0}
    pcd, tap = {"learning_rate": 0.05}, PLAIN
    if args.centred:
        both = {"centered": True, "average": True}
        pcd = {"learning_rate": 0.2, **both}
        tap = PLAIN | {"alpha": 0.0, **both}
    yield "PCD", BernoulliRBM(batch_size=100, **pcd, **size)
    if args.pcd_too:
        rate = {"learning_rate": args.rate} if args.rate else {}
        pcd |= {"persistent": "tempered", **rate}
        yield "PCD, tempered", BernoulliRBM(batch_size=100, **pcd, **size)
    if args.default:
        yield "default", TAPRBM(**size)
    if args.rate:
        tap = tap | {"learning_rate": args.rate}
    tap = tap | {"batch_size": args.batch, **size}
    methods = {f"TAP of {sweeps}": TAP(max_iter=sweeps) for sweeps in args.sweeps}
    if args.naive:
        methods["naive mean field"] = NaiveMeanField(max_iter=args.sweeps[0])
    for name, method in methods.items():
        for starts in args.starts:
            own = {"starts": starts, "inference": method}
            yield f"{starts}, {name}", TAPRBM(**tap | own)


def data(args):
    """Return training rows and test rows, of 0 and 1."""
    if args.data == "digits":
        X = (load_digits().data > 7).astype(np.uint8)
        X = X[np.random.default_rng(0).permutation(len(X))]
        return X[:1347], X[1347:]
    if args.data == "fashion-mnist":
        return fashion_mnist("train", args.rows), fashion_mnist("test", 2000)
    if args.data in BINARY:
        return debd(args.data, "train"), debd(args.data, "test")[:2000]
    (X, y), (X_test, y_test) = mnist("train", args.rows), mnist("test")
    most = 1 if args.data == "ones" else 9
    return X[y <= most], X_test[y_test <= most][:2000]


def exchanges(rbm):
    """Return the acceptance of exchanges and the rungs after the last epoch, if there are any."""
    last = {name: values[-1] for name, values in rbm.history_.items()}
    return [f"{k}={last[k]:.3g}" for k in ("exchange", "n_rungs") if k in last]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--rows", type=int, default=60000)
    parser.add_argument("--hidden", type=int, default=500)
    parser.add_argument("--sweeps", type=int, nargs="*", default=[3])
    parser.add_argument("--batch", type=int, default=100, help="rows of a batch, and starts")
    parser.add_argument(
        "--data", choices=["mnist", "ones", "digits", "fashion-mnist", *BINARY], default="mnist"
    )
    starts = ["data", "chains", "tempered", "persistent", "random"]
    parser.add_argument("--starts", nargs="*", default=starts)
    parser.add_argument("--temperatures", type=int, help="equal steps of AIS, for a quicker look")
    parser.add_argument(
        "--centred",
        action="store_true",
        help="centred gradients and averaged parameters; PCD at 0.2, TAP without penalty",
    )
    parser.add_argument("--rate", type=float, help="of all but PCD; default: 0.1 of TAP")
    parser.add_argument("--pcd-too", action="store_true", help="tempered chains of PCD too")
    parser.add_argument("--default", action="store_true", help="TAPRBM as it is, too")
    parser.add_argument("--naive", action="store_true", help="naive mean field too")
    args = parser.parse_args()
    heading(__file__, args)
    X, X_test = data(args)
    rows, best, schedule = [], None, args.temperatures or "salakhutdinov2008"
    with threadpool_limits(1):
        for name, rbm in contenders(args):
            seconds, passes = fit_for(rbm, X, args.seconds)
            forward, backward = likelihood(rbm, X, X_test, schedule)
            lower = min(forward, backward)
            best = lower if best is None else best  # PCD is the first
            rows.append((name, seconds, passes, forward, backward, lower, lower - best))
            progress((*rows[-1], *exchanges(rbm)))
    print()
    table(("starts", "fit s", "passes", "AIS", "reverse AIS", "lower", "over PCD"), rows)


if __name__ == "__main__":
    main()
