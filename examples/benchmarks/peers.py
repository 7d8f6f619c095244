"""Log-likelihoods of binary RBMs of several packages, after equal processor time.

    SKRBM_DATA=... python examples/benchmarks/peers.py [--sets mnist plants ...]

RBMs of 784 x 500 units learn the thresholded images of MNIST for 85 seconds and of Fashion-MNIST
for 30, and RBMs with 100 hidden units learn the binary tables plants and audio for 10. All have the
same processor time, on one thread. Contenders are:

- ``RBM``, with defaults but for its size and a rate that falls to zero within the time;
- ``BernoulliRBM``, with batches of 100, a falling rate, centred gradients and averaged
  parameters;
- ``BernoulliRBM`` of scikit-learn, trained batch by batch, so that its rate may fall as well;
- rbms 0.5.0 (https://pypi.org/project/rbms), in a loop of ours around its update function,
  without the files that its own loop writes. Its defaults, batches and chains of 2000 with 100
  Gibbs steps for each update, are made for GPUs: they would allow only a few updates here, and are
  left out;
- paysage 0.2.1 (https://pypi.org/project/paysage), with the settings of its two examples for binary
  images (persistent chains with Adam, and TAP) and settings near them, but without a start at
  principal components, which alone would take longer than the whole time at this size.

``SETTINGS`` lists the settings that are tried for each contender. The one with the best validation
likelihood is taken: on MNIST after a tenth of the time, on tables after 30 %; Fashion-MNIST takes
the setting selected on MNIST. All models are measured by skrbm in the same way: the mean
log-likelihood of test rows, by the lower of AIS and reverse AIS. A package that is not installed is
left out, with a message.

``pip install --no-deps rbms==0.5.0 paysage==0.2.1`` installs the peers, and ``pip install torch
h5py tqdm numexpr tables pandas seaborn cytoolz`` what they need, preferably in an environment of
their own.

Each figure is saved in examples/benchmarks/results/peers.json as soon as it is found. Figures in
this file are not computed again, so that the command can be interrupted (``--again`` starts over).
"""

import argparse
import contextlib
import importlib
import io
import json
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from _common import (
    data_folder,
    debd,
    fashion_mnist,
    fit_for,
    heading,
    likelihood,
    mnist,
    progress,
    table,
)
from sklearn import neural_network
from threadpoolctl import threadpool_limits

from skrbm import RBM, BernoulliRBM
from skrbm.learning import SGD

RESULTS = Path(__file__).parent / "results" / "peers.json"
# Seconds, hidden units, share of the seconds for each setting that is tried, or the set whose
# settings are taken.
PLANS = {
    "mnist": (85, 500, 0.1, None),
    "fashion-mnist": (30, 500, None, "mnist"),
    "plants": (10, 100, 0.3, None),
    "baudio": (10, 100, 0.3, None),
    "jester": (10, 100, 0.3, None),
    "nltcs": (10, 100, 0.3, None),
    "dna": (2, 100, 0.3, None),
}
SETS = ("mnist", "plants", "baudio", "fashion-mnist")
NEEDED = {"rbms": ["rbms.training.pcd"], "paysage": ["numexpr", "paysage.fit"]}  # modules
VALIDATION = 2000  # images
BATCH = 100


class TimeIsUpError(Exception):
    """The seconds are spent."""


def no_settings(X, seconds, n_hidden):
    """Train ``RBM``."""
    rbm = RBM(n_hidden, random_state=0)
    return rbm, *fit_for(rbm, X, seconds)


def ours(X, seconds, n_hidden, rate):
    """Train ``RBM`` at a constant rate and without a penalty."""
    optimizer = SGD(alpha=0.0, schedule="constant")
    settings = {"optimizer": optimizer, "batch_size": BATCH, "random_state": 0}
    rbm = RBM(n_hidden, learning_rate=rate, **settings)
    return rbm, *fit_for(rbm, X, seconds)


def scikit_learn(X, seconds, n_hidden, rate, batch=BATCH, falling=False):
    """Train ``BernoulliRBM`` of scikit-learn; its ``partial_fit`` takes all rows as one batch."""
    rbm = neural_network.BernoulliRBM(
        n_hidden, learning_rate=rate, batch_size=batch, random_state=0
    )
    rng, n_batches = np.random.default_rng(0), len(X) // batch
    spent, begin, n = 0.0, time.process_time(), 0
    while spent < seconds:
        if n % n_batches == 0:
            order = rng.permutation(len(X))
        if falling:
            rbm.learning_rate = rate * (1 - spent / seconds)
        rbm.partial_fit(X[order[n % n_batches * batch :][:batch]])
        n += 1
        spent = time.process_time() - begin
    return BernoulliRBM.from_parameters(rbm), spent, n / n_batches


def rbms(X, seconds, n_hidden, rate, batch=BATCH, steps=1, falling=False):
    """Train a machine of rbms by its centred persistent contrastive divergence."""
    import torch
    from rbms.bernoulli_bernoulli.classes import BBRBM
    from rbms.training.pcd import fit_batch_pcd

    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = torch.from_numpy(X)
    weights = torch.ones((len(X), 1))

    with torch.no_grad():
        rows = SimpleNamespace(data=data)
        rbm = BBRBM.init_parameters(n_hidden, rows, torch.device("cpu"), torch.float32)
        optimizer = torch.optim.SGD(rbm.parameters(), lr=rate, maximize=True)
        for parameter in rbm.parameters():
            parameter.grad = torch.zeros_like(parameter)
        chains, n_batches, n = rbm.init_chains(batch), len(X) // batch, 0
        spent, begin = 0.0, time.process_time()
        while spent < seconds:
            if n % n_batches == 0:
                order = torch.randperm(len(X))
            rows = order[n % n_batches * batch :][:batch]
            if falling:
                optimizer.param_groups[0]["lr"] = rate * (1 - spent / seconds)
            optimizer.zero_grad(set_to_none=False)
            chains, _ = fit_batch_pcd((data[rows], weights[rows]), chains, rbm, steps, 1.0)
            optimizer.step()
            n += 1
            spent = time.process_time() - begin
    arrays = (rbm.weight_matrix.T, rbm.hbias, rbm.vbias)
    return BernoulliRBM.from_parameters(*(a.numpy().copy() for a in arrays)), spent, n / n_batches


def paysage(X, seconds, n_hidden, rate, method="pcd", steps=1, beta_std=0.6):
    """Train a machine of paysage: persistent chains and Adam, or TAP, as in its examples."""
    with contextlib.redirect_stdout(io.StringIO()):
        import numexpr
        from paysage import backends, batch, fit, layers, optimizers, penalties, schedules
        from paysage.models import BoltzmannMachine
    numexpr.set_num_threads(1)
    backends.set_seed(0)
    rng = np.random.default_rng(0)

    class Rows(batch.InMemoryTable):
        """Batches of rows, in a new order in each pass, until the seconds are spent."""

        begin, n = np.inf, 0

        def get(self, *args, **kwargs):
            if time.process_time() - self.begin >= seconds:
                raise TimeIsUpError
            self.n += 1
            return super().get(*args, **kwargs)

        def reset_generator(self):
            self.tensor = rng.permutation(self.tensor)
            super().reset_generator()

    rows = Rows(X, BATCH)
    data = batch.Batch({"train": rows, "validate": Rows(X[:BATCH], BATCH)})
    tap = method == "tap"
    model = BoltzmannMachine([layers.BernoulliLayer(X.shape[1]), layers.BernoulliLayer(n_hidden)])
    if tap:
        method = fit.TAP(True, 0.1, 0.01, 25, True, 0.5, 0.001, 0.0).tap_update
        penalty = penalties.l1_adaptive_decay_penalty_2(1e-5)
        optimiser = optimizers.Gradient(schedules.PowerLawDecay(rate, 0.3 / rate), tolerance=0)
    else:
        method, penalty = fit.pcd, penalties.l2_penalty(0.001)
        optimiser = optimizers.ADAM(schedules.PowerLawDecay(rate, 0.1 * 0.01 / rate))
    begin = time.process_time()
    model.initialize(data, "glorot_normal" if tap else "hinton")
    model.connections[0].weights.add_penalty({"matrix": penalty})
    trainer = fit.SGD(model, data)
    trainer.monitor = None
    rows.begin, rows.n = begin, 0
    with contextlib.suppress(TimeIsUpError):
        trainer.train(
            optimiser, 10**6, mcsteps=steps, method=method, beta_std=beta_std, verbose=False
        )
    spent = time.process_time() - begin
    visible, hidden = (layer.params.loc for layer in model.layers)
    rbm = BernoulliRBM.from_parameters(model.connections[0].weights.W().T, hidden, visible)
    return rbm, spent, rows.n * BATCH / len(X)


SETTINGS = {
    "RBM": (no_settings, [{}]),
    "BernoulliRBM": (ours, [{"rate": rate} for rate in (0.1, 0.2, 0.4)]),
    "scikit-learn": (
        scikit_learn,
        [
            {"rate": 0.1, "batch": 10},  # its defaults
            {"rate": 0.01, "batch": 10},
            {"rate": 0.05},
            {"rate": 0.1, "falling": True},
            {"rate": 0.3, "falling": True},
        ],
    ),
    "rbms": (
        rbms,
        [
            {"rate": 0.01},
            {"rate": 0.2},
            {"rate": 0.2, "falling": True},
            {"rate": 0.5, "falling": True},
            {"rate": 1.0, "falling": True},
        ],
    ),
    "paysage": (
        paysage,
        [
            {"rate": 0.01, "steps": 10},
            {"rate": 0.001},
            {"rate": 0.001, "beta_std": 0.0},
            {"rate": 0.1, "method": "tap"},
        ],
    ),
}


def images(name):
    """Return training and test images, thresholded."""
    if name == "mnist":
        return mnist("train")[0], mnist("test")[0]
    return fashion_mnist("train"), fashion_mnist("test")


def read(name):
    """Return all training rows, those for trials, those for validation and those for the test."""
    if "mnist" in name:
        train, test = images(name)
        found = train, train[:-VALIDATION], train[-VALIDATION:], test
    else:
        train, valid, test = (debd(name, part) for part in ("train", "valid", "test"))
        found = train, train, valid, test
    return [X.astype(np.float32) for X in found]


def missing(name):
    """Return why a contender cannot be run, or None."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            for module in NEEDED.get(name, ()):
                importlib.import_module(module)
    except ImportError as error:
        return str(error)
    return None


def independent(X, test):
    """Return the mean log-likelihood of test rows with independent columns."""
    mean = (X.sum(axis=0) + 0.5) / (len(X) + 1)
    return float((test * np.log(mean) + (1 - test) * np.log1p(-mean)).sum(axis=1).mean())


def measured(train, settings, X, test, seconds, n_hidden, temperatures):
    """Train a machine; return its figures."""
    rbm, spent, passes = train(X, seconds, n_hidden, **settings)
    forward, backward = likelihood(rbm, X, test, temperatures, temperatures // 2)
    return {
        "settings": settings,
        "seconds": spent,
        "passes": passes,
        "ais": forward,
        "reverse": backward,
        "lower": min(forward, backward),
    }


def compare(name, args, found, save):
    """Find what the file has not yet of a data set."""
    seconds, n_hidden, share, like = PLANS[name]
    seconds *= args.scale
    train, part, validation, test = read(name)
    if "independent" not in found:
        found |= {"independent": independent(train, test), "rows": len(train)}
        found |= {"columns": train.shape[1], "hidden": n_hidden, "asked": seconds, "trials": {}}
    for contender, (fit, settings) in SETTINGS.items():
        if contender in found or contender in args.without:
            continue
        if reason := missing(contender):
            print(f"{contender} is left out: {reason}", flush=True)
            found[f"without {contender}"] = reason
            continue
        found.pop(f"without {contender}", None)
        trials = found["trials"].setdefault(contender, [])
        if like is None and len(settings) > 1:
            for options in settings[len(trials) :]:
                budget = share * seconds
                trial = measured(fit, options, part, validation, budget, n_hidden, 300)
                trials.append(trial)
                save()
                progress((name, contender, "trial", options, trial["seconds"], trial["lower"]))
        choices = trials if like is None else args.results[like]["trials"][contender]
        options = max(choices, key=lambda trial: trial["lower"])["settings"] if choices else {}
        found[contender] = measured(fit, options, train, test, seconds, n_hidden, 2000)
        found[contender]["date"] = time.strftime("%Y-%m-%d")
        save()
        progress((name, contender, options, *(found[contender][key] for key in COLUMNS)))


COLUMNS = "passes", "seconds", "ais", "reverse", "lower"


def described(settings):
    """Return settings as words."""
    return ", ".join(f"{key}={value}" for key, value in settings.items()) or "none"


def report(results, sets):
    """Print the table, with a line for each package that is missing."""
    rows = []
    for name in sets:
        found = results.get(name)
        if found is None:
            continue
        rows.append((name, "independent columns", "", *[""] * 4, found["independent"]))
        for contender in SETTINGS:
            if contender in found:
                one = found[contender]
                rows.append((name, contender, described(one["settings"]), *map(one.get, COLUMNS)))
            else:
                missed = "not installed" if f"without {contender}" in found else "not measured"
                rows.append((name, contender, missed, *["-"] * 5))
    print()
    table(("data", "package", "settings", "passes", "s", "AIS", "reverse", "lower"), rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=SETS, choices=PLANS)
    parser.add_argument("--without", nargs="*", default=[], choices=SETTINGS)
    parser.add_argument("--scale", type=float, default=1.0, help="factor on all seconds")
    parser.add_argument("--again", action="store_true", help="forget what the file has")
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    path = args.results
    results = json.loads(path.read_text()) if path.exists() else {}
    if data_folder() is None:
        raise SystemExit("set the environment variable SKRBM_DATA to the folder of the data")
    heading(__file__, args)
    args.results = results

    def save():
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(results, indent=1))

    with threadpool_limits(1):
        for name in args.sets:
            if args.again:
                results.pop(name, None)
            compare(name, args, results.setdefault(name, {}), save)
    report(results, args.sets)


if __name__ == "__main__":
    main()
