"""Iterations of fixed points in training: Fig. 10 of Tramel et al. (2018), left.

    python examples/benchmarks/tap_machines/fig10_iterations.py [--methods adaptive_tap]
        [--scale 1.0]

RBMs with 500 hidden units learn from the first 5 000 images of thresholded MNIST, in batches of 100
and with iterations that start at the data. Each is trained with 3, 10 or 100 iterations, damped by
half, of naive mean field and TAP unless ``--methods`` names others; adaptive TAP takes a hundred
times as long as TAP. The exact pseudo-log-likelihood of 500 training rows is measured, over all
pixels, in nats per row. The paper's rate is 0.001; here it is ``--speed`` times that, with as many
times fewer updates in each epoch. ``--scale`` multiplies the 300 epochs.
"""

import argparse
import time

from _paper import dataset, epochs_of, heading, log_spaced, table, tap_machine
from threadpoolctl import threadpool_limits

from skrbm.evaluation import pseudo_log_likelihood
from skrbm.inference import TAP, AdaptiveTAP, NaiveMeanField

METHODS = {"naive_mean_field": NaiveMeanField, "tap": TAP, "adaptive_tap": AdaptiveTAP}


def train(inference, X, last, args):
    """Return {epoch: (pseudo-log-likelihood, seconds of training so far)}."""
    rbm = tap_machine(
        "binary-mnist",
        X,
        args.hidden,
        alpha=args.alpha,
        inference=inference,
        learning_rate=args.rate,
    )
    measured, seconds, begin = {}, 0.0, time.process_time()
    for epoch in epochs_of(rbm, X, last, args.speed):
        seconds += time.process_time() - begin
        if epoch in log_spaced(last, 10):
            measured[epoch] = float(pseudo_log_likelihood(rbm, X[:500]).mean()), seconds
        begin = time.process_time()
    return measured


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--hidden", type=int, default=500)
    parser.add_argument("--rate", type=float, default=0.001)
    parser.add_argument("--alpha", type=float, help="L2 penalty in place of Table 1's")
    parser.add_argument("--speed", type=int, default=50)
    parser.add_argument(
        "--methods", nargs="+", choices=METHODS, default=["naive_mean_field", "tap"]
    )
    parser.add_argument("--iterations", type=int, nargs="*", default=[3, 10, 100])
    args = parser.parse_args()
    heading(__file__, args)
    X, last, curves = dataset("binary-mnist", args.rows), max(1, round(300 * args.scale)), {}
    with threadpool_limits(1):
        for name in args.methods:
            for n in args.iterations:
                inference = METHODS[name](max_iter=n, damping=0.5, start="data")
                curves[f"{name}, {n}"] = train(inference, X, last, args)
                value, seconds = curves[f"{name}, {n}"][last]
                print(f"{name}, {n} iterations: {value:.2f} nats in {seconds:.1f} s", flush=True)
    print()
    epochs = [epoch for epoch in log_spaced(last, 10) if epoch > last / 20]
    rows = [
        (name, measured[last][1], *(measured[epoch][0] for epoch in epochs))
        for name, measured in curves.items()
    ]
    table(("iterations", "fit s", *(f"epoch {epoch}" for epoch in epochs)), rows)


if __name__ == "__main__":
    main()
