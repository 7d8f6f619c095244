"""TAPRBM beside paysage 0.2.1, the other public trainer of restricted machines by TAP.

    python examples/benchmarks/tap_machines/paysage_comparison.py [--rows 10000] [--epochs 3]

Binary machines on thresholded MNIST. paysage (https://pypi.org/project/paysage, MIT) follows one
solution in each update, from a random start, by gradient descent on its free energy or by sweeps.
Both train with the same number of updates, at the settings of paysage's own MNIST example (batch
100, rate falling as a power law, no momentum) and with batches of 20, a rate that falls in a line
and momentum 0.5; TAPRBM with one start in each update as paysage has it, and with one for
each row of the batch, its default. Each takes the best of ``--rates`` by 1 000 validation images;
its example has 0.1. Log-likelihood of 2 000 test images by our AIS and
reverse AIS over 1 000 temperatures, of which the lower counts, and seconds of processor time for
one training, one thread for both.

paysage is no dependency: install it and what it needs into an environment of its own with
``pip install --no-deps paysage==0.2.1`` and
``pip install numexpr tables pandas seaborn cytoolz matplotlib scikit-learn``.
"""

import argparse
import time
from functools import partial

import numpy as np
from _paper import PLAIN, dataset, heading, likelihood, table
from threadpoolctl import threadpool_limits

from skrbm import TAPRBM

try:
    import numexpr
    from paysage import backends, batch, fit, layers, optimizers, penalties, schedules
    from paysage.models import BoltzmannMachine
except ImportError as error:
    print(f"skipped: paysage 0.2.1 cannot be imported here ({error}); see the docstring")
    raise SystemExit from None

EXAMPLE, DEFAULTS = "paysage's example", "batches of 20"
BATCH = {EXAMPLE: 100, DEFAULTS: 20}


def smoothed_mean(X):
    """Return the mean of each column with a row of halves more."""
    return (X.sum(axis=0) + 0.5) / (len(X) + 1)


def ours(settings, rate, X, args, n_starts):
    """Return a trained TAPRBM and its seconds."""
    params = {"n_iter": args.epochs, "learning_rate": rate, "random_state": 0}
    if settings == EXAMPLE:
        scale = np.sqrt(2 / (X.shape[1] + args.hidden))
        W = scale * np.random.default_rng(0).standard_normal((args.hidden, X.shape[1]))
        mean = smoothed_mean(X)
        params |= {
            "init": (W.astype(np.float32), None, np.log(mean / (1 - mean)).astype(np.float32)),
            "schedule": lambda progress: 1 / (1 + 0.3 * progress * args.epochs),
            "momentum": 0.0,
            "alpha": 0.0,
        }
    params |= {"batch_size": BATCH[settings], "n_starts": n_starts}
    rbm = TAPRBM(args.hidden, **PLAIN | params)
    begin = time.process_time()
    rbm.fit(X)
    return rbm, time.process_time() - begin


def theirs(settings, rate, X, args, descent):
    """Return paysage's machine as a TAPRBM, and the seconds of its training."""
    backends.set_seed(0)
    rows = Shuffled(X.astype(np.float32), BATCH[settings])
    data = batch.Batch({"train": rows, "validate": rows})
    model = BoltzmannMachine(
        [layers.BernoulliLayer(X.shape[1]), layers.BernoulliLayer(args.hidden)]
    )
    if settings == EXAMPLE:
        penalty = penalties.l1_adaptive_decay_penalty_2(1e-5)
        model.initialize(data, "glorot_normal")
        optimiser = optimizers.Gradient(schedules.PowerLawDecay(rate, 0.3 / rate), tolerance=0)
    else:  # its momentum averages gradients, so its rate is ours over 1 - momentum
        penalty = penalties.l2_penalty(0.001)
        model.initialize(data, "hinton")
        falling = schedules.Linear(2 * rate, delta=2 * rate / args.epochs)
        optimiser = optimizers.Momentum(falling, momentum=0.5, tolerance=0)
    model.connections[0].weights.add_penalty({"matrix": penalty})
    # Descent as in its example, or the self-consistent sweeps it has too, 10 as ours.
    tap = (
        fit.TAP(True, 0.1, 0.01, 25, True, 0.5, 0.001, 0.0)
        if descent
        else fit.TAP(False, max_iters=10)
    )
    trainer = fit.SGD(model, data)
    trainer.monitor = None
    begin = time.process_time()
    trainer.train(optimiser, args.epochs, method=tap.tap_update, verbose=False)
    seconds = time.process_time() - begin
    visible, hidden = (layer.params.loc for layer in model.layers)
    return TAPRBM.from_parameters(model.connections[0].weights.W().T, hidden, visible), seconds


class Shuffled(batch.InMemoryTable):
    """Batches of rows, in a new order in each pass, as TAPRBM takes them."""

    rng = np.random.default_rng(0)

    def reset_generator(self):
        self.tensor = self.rng.permutation(self.tensor)
        super().reset_generator()


def best(train, settings, rates, X, X_validation, X_test):
    """Return (rate, seconds, AIS, reverse AIS, lower) of the rate that validation prefers."""
    found = []
    for rate in rates:
        rbm, seconds = train(settings, rate)
        forward, backward = likelihood(rbm, X, X_test)
        lower = min(forward, backward)
        shift = rbm.free_energy(X_test).mean() - rbm.free_energy(X_validation).mean()
        found.append((float(lower + shift), rate, seconds, forward, backward, lower))
    return max(found)[1:]


def independent(X, X_test):
    """Return the mean log-likelihood of test rows with independent pixels."""
    mean = smoothed_mean(X)
    return float((X_test * np.log(mean) + (1 - X_test) * np.log1p(-mean)).sum(axis=1).mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10000)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rates", type=float, nargs="*", default=[0.003, 0.01, 0.03, 0.1])
    args = parser.parse_args()
    heading(__file__, args)
    numexpr.set_num_threads(1)
    X, X_test = dataset("binary-mnist", args.rows), dataset("binary-mnist-test", 2000)
    X_validation = dataset("binary-mnist")[-1000:]
    print(f"independent pixels: {independent(X, X_test):.2f} nats", flush=True)
    contenders = {
        "paysage, descent": ("1", partial(theirs, X=X, args=args, descent=True)),
        "paysage, sweeps": ("1", partial(theirs, X=X, args=args, descent=False)),
        "TAPRBM, one start": ("1", partial(ours, X=X, args=args, n_starts=1)),
        "TAPRBM": ("batch", partial(ours, X=X, args=args, n_starts=None)),
    }
    rows = []
    with threadpool_limits(1):
        for settings, size in BATCH.items():
            updates = args.epochs * -(-len(X) // size)
            for name, (n_starts, train) in contenders.items():
                result = best(train, settings, args.rates, X, X_validation, X_test)
                rows.append((settings, name, n_starts, updates, *result))
                print(f"{settings}, {name}: {result[-1]:.2f} nats in {result[1]:.1f} s", flush=True)
    print()
    names = "settings", "trainer", "starts", "updates", "rate", "fit s", "AIS", "reverse", "lower"
    table(names, rows)


if __name__ == "__main__":
    main()
