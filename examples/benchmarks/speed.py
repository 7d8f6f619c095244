"""Time of fits and other calls, relative to scikit-learn or to the arithmetic that they need.

    python examples/benchmarks/speed.py [PART ...] [--repeats 5]

Contenders run in turn in one process on one BLAS thread; printed are medians of processor seconds
and of the ratios within repeats. The parts are:

- "small": PCD of 64 x 100 units (scikit-learn's digits, thresholded) and of 16 x 32 units, batches
  of 10 and 100, compared with scikit-learn's BernoulliRBM in the same precision;
- "large": PCD of 784 x 500 units on 20,000 images, batches of 100, five epochs, and the share of
  its matrix products;
- "calls": Python functions that a batch of 100 rows calls, from a profile;
- "gaussian": 1,700 rows of 64 real columns, 100 hidden units, compared with loops of the matrix
  products, factorizations and random numbers that the same steps need;
- "categorical": an epoch with 20 values per site, and the same steps on dense one-hot columns;
- "table": a default fit of 10,000 rows of 15 columns of mixed kinds;
- "conditional": a default fit of 1,500 rows, 30 features and 8 labels;
- "score": ``score_samples`` right after a fit, relative to the time of the fit;
- "import": ``import skrbm``, compared with ``import sklearn.neural_network``;
- "tempering": 500 samples by tempering and by plain Gibbs sampling, after the first call, each
  with its default number of steps, and the autocorrelation of chains that start at samples.
"""

import argparse
import cProfile
import pstats
import subprocess
import sys
import time
import warnings

import numpy as np
import pandas as pd
from _common import heading, matrix_product_seconds, mnist, table
from sklearn.datasets import load_digits, make_multilabel_classification
from sklearn.neural_network import BernoulliRBM as SklearnRBM
from threadpoolctl import threadpool_limits

from skrbm import (
    RBM,
    TAPRBM,
    BernoulliRBM,
    CategoricalRBM,
    ConditionalRBM,
    GaussianBernoulliRBM,
    TabularRBM,
)
from skrbm.arrays import make_rng
from skrbm.evaluation import pseudo_log_likelihood
from skrbm.inference import (
    Gibbs,
    GibbsLangevin,
    Tempering,
    autocorrelation_between,
    ladder_of,
    sample,
)


def timed(runs, repeats):
    """Return processor seconds by name, after a first run of each that does not count."""
    seconds = {name: [] for name in runs}
    for repeat in range(repeats + 1):
        for name, run in runs.items():
            begin = time.process_time()
            run()
            if repeat:
                seconds[name].append(time.process_time() - begin)
    return {name: np.array(values) for name, values in seconds.items()}


def ratio(seconds, name, other):
    """Return the median ratio of ``name`` to ``other`` within repeats."""
    return float(np.median(seconds[name] / seconds[other]))


def median(seconds, name):
    return float(np.median(seconds[name]))


def bits():
    return load_digits().data > 7


def quality(model, X):
    """Return the mean pseudo-log-likelihood of the first 1000 rows under a model of bits."""
    fitted = BernoulliRBM.from_parameters(
        model.components_, model.intercept_hidden_, model.intercept_visible_
    )
    return float(np.mean(pseudo_log_likelihood(fitted, X[:1000].astype(float))))


def binary(X, n_components, batch_size, n_iter, dtypes, repeats):
    """Return rows of PCD fits beside those of scikit-learn, and the seconds of ours by dtype."""
    settings = {"n_components": n_components, "batch_size": batch_size, "n_iter": n_iter}
    settings |= {"learning_rate": 0.05, "random_state": 0}
    models, runs = {}, {}
    for dtype in dtypes:
        data = X.astype(dtype)
        for kind, estimator in (("skrbm", BernoulliRBM), ("scikit-learn", SklearnRBM)):
            models[kind, dtype] = estimator(**settings)
            runs[kind, dtype] = lambda model=models[kind, dtype], V=data: model.fit(V)
    seconds, n_batches = timed(runs, repeats), n_iter * -(-len(X) // batch_size)
    rows = []
    for dtype in dtypes:
        each = [
            1e6 * median(seconds, (kind, dtype)) / n_batches for kind in ("skrbm", "scikit-learn")
        ]
        faster = ratio(seconds, ("scikit-learn", dtype), ("skrbm", dtype))
        rows.append((f"{X.shape[1]} x {n_components}, {batch_size}", dtype, *each, faster))
        rows[-1] += tuple(quality(models[kind, dtype], X) for kind in ("skrbm", "scikit-learn"))
    return rows, seconds


BINARY = ("units, batch", "dtype", "us a batch", "scikit-learn", "faster", "quality", "theirs")


def small(repeats):
    rows = []
    for X, n_components in ((bits(), 100), (bits()[:, 24:40], 32)):
        for batch_size, n_iter in ((10, 3), (100, 15)):
            args = (n_components, batch_size, n_iter, ("float64", "float32"), repeats)
            rows += binary(X, *args)[0]
    table(BINARY, rows)


def large(repeats):
    X = mnist("train", 20000)[0]
    rows, seconds = binary(X, 500, 100, 5, ("float64", "float32"), repeats)
    table(BINARY, rows)
    share = 1000 * matrix_product_seconds(784, 500, 100, np.float32)
    print(
        f"\nmatrix products, float32: {100 * share / median(seconds, ('skrbm', 'float32')):.0f} %"
    )
    faster = ratio(seconds, ("scikit-learn", "float64"), ("skrbm", "float32"))
    print(f"skrbm in float32 is {faster:.2f} times as fast as scikit-learn in float64")


def n_calls(fit):
    """Return the number of Python functions and of all functions that ``fit()`` calls."""
    profile = cProfile.Profile()
    profile.runcall(fit)
    stats = pstats.Stats(profile)
    python = sum(entry[0] for place, entry in stats.stats.items() if place[0] != "~")
    return np.array([python, stats.total_calls])


def calls(repeats):
    X, real = bits(), np.random.default_rng(0).standard_normal((1700, 64))
    sites = np.random.default_rng(0).integers(0, 20, (1700, 10))
    labels = real[:, 30:38] > 0
    fits = {
        "BernoulliRBM": lambda n: BernoulliRBM(100, batch_size=100, n_iter=n).fit(X),
        "RBM": lambda n: RBM(100, batch_size=100, n_iter=n).fit(X),
        "TAPRBM": lambda n: TAPRBM(100, batch_size=100, n_iter=n).fit(X),
        "RBM, real columns": lambda n: RBM(100, visible="gaussian", batch_size=100, n_iter=n).fit(
            real
        ),
        "GaussianBernoulliRBM": lambda n: GaussianBernoulliRBM(100, batch_size=100, n_iter=n).fit(
            real
        ),
        "CategoricalRBM": lambda n: CategoricalRBM(100, batch_size=100, n_iter=n).fit(sites),
        "ConditionalRBM": lambda n: ConditionalRBM(32, batch_size=100, n_iter=n).fit(
            real[:, :30], labels
        ),
    }
    rows = []
    for name, fit in fits.items():
        # Differences of two numbers of epochs: what a fit does once does not count.
        first, last = (n_calls(lambda fit=fit, n=n: fit(n)) for n in (2, 10))
        rows.append((name, *map(float, (last - first) / (8 * 18))))
    table(("fit", "Python calls a batch", "all calls"), rows)


def chains_of_real_columns(X, n_components, n_steps, n_iter, batch_size=100):
    """Compute the matrix products and random numbers of ``n_steps`` steps for each batch.

    All steps count in the moments.
    """
    rng, W = np.random.default_rng(0), np.zeros((n_components, X.shape[1]))
    V = X[:batch_size].copy()
    for _ in range(n_iter):
        for start in range(0, len(X), batch_size):
            rows = X[start : start + batch_size]
            data, model = 1 / (1 + np.exp(-rows @ W.T)), np.zeros_like(W)
            for _ in range(n_steps):
                means = 1 / (1 + np.exp(-V @ W.T))
                H = (rng.random(means.shape) < means).astype(float)
                V = H @ W + rng.standard_normal(V.shape)
                model += means.T @ V
            W += 1e-3 * (data.T @ rows - model / n_steps) / batch_size
    return W


def chains_of_joint_columns(X, n_components, n_iter, batch_size=100):
    """Learn one step of PCD for each batch, with a precision matrix that all hidden states share.

    Rows are whitened once, and the penalty, the averages of parameters, the centred gradient and
    the rule for the length of steps are left out.
    """
    rng, n = np.random.default_rng(0), X.shape[1]
    root = np.linalg.cholesky(np.linalg.inv(np.cov(X.T)))
    Z = (X - X.mean(axis=0)) @ root
    W, b, c = 0.1 * rng.standard_normal((n_components, n)), np.zeros(n), np.zeros(n_components)
    P, V = np.eye(n), Z[:batch_size].copy()
    for _ in range(n_iter):
        for start in range(0, len(Z), batch_size):
            rows = Z[start : start + batch_size]
            means = 1 / (1 + np.exp(-V @ W.T - c))
            H = (rng.random(means.shape) < means).astype(float)
            R = np.linalg.inv(np.linalg.cholesky(P))
            V = ((H @ W + b) @ R.T + rng.standard_normal(V.shape)) @ R
            data, model = (1 / (1 + np.exp(-part @ W.T - c)) for part in (rows, V))
            W += 1e-2 * (data.T @ rows - model.T @ V) / batch_size
            P -= 0.5e-2 * (rows.T @ rows - V.T @ V) / batch_size
            b += 1e-2 * (rows.mean(axis=0) - V.mean(axis=0))
            c += 1e-2 * (data.mean(axis=0) - model.mean(axis=0))
    return W


class Unmeasured(RBM):
    """An RBM that does not measure the likelihood after each epoch."""

    _measures_epochs = False


def gaussian(repeats):
    X = np.random.default_rng(0).standard_normal((1700, 64))
    settings = {"n_components": 100, "batch_size": 100, "random_state": 0}
    chains, rows = GibbsLangevin(n_steps=20, burn_in=0, adjust_after=None), []

    def joint(n):
        return chains_of_joint_columns(X, 100, n)

    for name, model, needed in (
        (
            "GaussianBernoulliRBM, 20 steps",
            GaussianBernoulliRBM(inference=chains, **settings),
            lambda n: chains_of_real_columns(X, 100, 20, n),
        ),
        ("RBM, precision matrix", RBM(visible="gaussian", **settings), joint),
        ("the same, no likelihoods", Unmeasured(visible="gaussian", **settings), joint),
    ):
        runs = {}
        for n in (5, 15):
            runs["fit", n] = lambda n=n, model=model: model.set_params(n_iter=n).fit(X)
            runs["needed", n] = lambda n=n, needed=needed: needed(n)
        seconds = timed(runs, repeats)
        for epochs, first, last in (("5 epochs", 0, 5), ("10 more", 5, 15)):
            each = {
                kind: (seconds[kind, last] - seconds.get((kind, first), 0)) / (last - first)
                for kind in ("fit", "needed")
            }
            row = (*(1e3 * median(each, kind) / 17 for kind in each), ratio(each, *each))
            rows.append((name, epochs, *row))
    table(("fit", "part", "ms a batch", "needed", "ratio"), rows)


def dense_one_hot(X, n_values, n_components, n_iter, batch_size=100):
    """Learn by PCD on one-hot columns, drawing each site from its probabilities."""
    rng, n_sites = np.random.default_rng(0), X.shape[1]
    V = np.eye(n_values)[X].reshape(len(X), -1)
    W, b, c = 0.01 * rng.standard_normal((n_components, V.shape[1])), 0.0, 0.0
    H = np.zeros((batch_size, n_components))
    for _ in range(n_iter):
        for start in range(0, len(V), batch_size):
            rows = V[start : start + batch_size]
            fields = (H @ W + b).reshape(-1, n_sites, n_values)
            cumulative = np.exp(fields - fields.max(axis=2, keepdims=True)).cumsum(axis=2)
            drawn = rng.random(fields.shape[:2])[..., None] * cumulative[..., -1:] > cumulative
            chains = np.eye(n_values)[drawn.sum(axis=2)].reshape(batch_size, -1)
            data, model = (1 / (1 + np.exp(-part @ W.T - c)) for part in (rows, chains))
            W += 0.05 * (data.T @ rows - model.T @ chains) / batch_size
            b = b + 0.05 * (rows.mean(axis=0) - chains.mean(axis=0))
            c = c + 0.05 * (data.mean(axis=0) - model.mean(axis=0))
            H = (rng.random(model.shape) < model).astype(float)


def categorical(repeats):
    X = np.random.default_rng(0).integers(0, 20, (2000, 50))
    settings = {"batch_size": 100, "inference": "pcd", "random_state": 0}
    runs = {}
    for n in (5, 25):
        model = CategoricalRBM(100, n_iter=n, **settings)
        runs["skrbm", n] = lambda model=model: model.fit(X)
        runs["dense", n] = lambda n=n: dense_one_hot(X, 20, 100, n)
    seconds, rows = timed(runs, repeats), []
    for name, first, last in (("a fit of 5 epochs", 0, 5), ("20 more epochs", 5, 25)):
        each = {
            kind: (seconds[kind, last] - seconds.get((kind, first), 0)) / (last - first)
            for kind in ("skrbm", "dense")
        }
        row = (*(median(each, kind) for kind in each), ratio(each, "dense", "skrbm"))
        rows.append((name, *row))
    table(("part", "s an epoch", "dense one-hot", "faster"), rows)


def mixed_table(n=12000):
    """Return a table of ten real and five categorical columns of four latent classes."""
    rng = np.random.default_rng(0)
    which = rng.integers(4, size=n)
    means, spread = 2 * rng.standard_normal((4, 10)), rng.standard_normal((10, 10)) / 3
    real = means[which] + rng.standard_normal((n, 10)) @ (np.eye(10) + spread)
    odds = rng.dirichlet(np.full(5, 0.5), (4, 5)).cumsum(axis=2)
    values = (rng.random((n, 5, 1)) > odds[which]).sum(axis=2).clip(max=4)
    columns = {f"x{i}": real[:, i] for i in range(10)}
    return pd.DataFrame(columns | {f"c{i}": pd.Categorical(values[:, i]) for i in range(5)})


def mixed(repeats):
    data = mixed_table()
    begin = time.process_time()
    model = TabularRBM(random_state=0).fit(data[:10000])
    seconds = time.process_time() - begin
    table(("s of a default fit", "held-out log-likelihood"), [(seconds, model.score(data[10000:]))])


def conditional(repeats):
    X, Y = make_multilabel_classification(3000, 30, n_classes=8, n_labels=3, random_state=0)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    begin = time.process_time()
    model = ConditionalRBM(random_state=0).fit(X[:1500], Y[:1500])
    seconds = time.process_time() - begin
    accuracy = float(np.mean((model.predict(X[1500:]) == Y[1500:]).all(axis=1)))
    table(("s of a default fit", "subset accuracy"), [(seconds, accuracy)])


def score(repeats):
    X, real = bits(), np.random.default_rng(0).standard_normal((1700, 64))
    rows = []
    for name, make, data in (
        ("RBM(64), bits", lambda: RBM(64, random_state=0), X),
        ("RBM(256), bits", lambda: RBM(256, random_state=0), X),
        ("RBM(64), real columns", lambda: RBM(64, visible="gaussian", random_state=0), real),
        ("TAPRBM(64), bits", lambda: TAPRBM(64, random_state=0), X),
    ):
        begin = time.process_time()
        model = make().fit(data)
        between = time.process_time()
        model.score_samples(data[:500])
        end = time.process_time()
        rows.append((name, between - begin, end - between, (end - between) / (between - begin)))
    table(("model", "s of the fit", "s of score_samples", "share"), rows)


def imports(repeats):
    modules, seconds = ("skrbm", "sklearn.neural_network"), {}
    for repeat in range(repeats + 1):
        for module in modules:
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
            if repeat:
                seconds.setdefault(module, []).append(time.perf_counter() - begin)
    seconds = {name: np.array(values) for name, values in seconds.items()}
    row = (*(median(seconds, name) for name in modules), ratio(seconds, *modules))
    table(("s, skrbm", "s, sklearn.neural_network", "ratio"), [row])


def tempering(repeats):
    model = RBM(64, random_state=0).fit(bits())
    runs = {
        method: lambda method=method: model.sample(500, method=method, random_state=0)
        for method in ("gibbs", "tempering")
    }
    seconds = timed(runs, repeats)
    row = (*(median(seconds, name) for name in runs), ratio(seconds, "tempering", "gibbs"))
    table(("s, Gibbs", "s, tempering", "ratio"), [row])
    machine, rng = model.machine_, make_rng(0, model.components_)
    ladder, rows = ladder_of(model, 0), []
    for sampler in (Gibbs(), Tempering(ladder)):
        begin = sampler.state_at(machine, ladder.samples[-1], rng)
        for n_steps in (10, 40, 100):
            end = sample(sampler, machine, begin, rng, n_steps)
            ends = begin.layers[0], end.layers[0], ladder.samples[-1]
            rows.append((type(sampler).__name__, str(n_steps), autocorrelation_between(*ends)))
    table(("chains", "steps", "autocorrelation"), rows)


PARTS = {
    "small": small,
    "large": large,
    "calls": calls,
    "gaussian": gaussian,
    "categorical": categorical,
    "table": mixed,
    "conditional": conditional,
    "score": score,
    "import": imports,
    "tempering": tempering,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", default=list(PARTS))
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    heading(__file__, args)
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        for name in args.parts:
            print(f"\n{name}", flush=True)
            PARTS[name](args.repeats)


if __name__ == "__main__":
    main()
