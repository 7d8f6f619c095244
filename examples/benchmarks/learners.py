"""Likelihoods and times of fits with default settings, on bits, real columns and categories.

    SKRBM_DATA=... python examples/benchmarks/learners.py [--works wine ...] [--seeds 0 1 2]

All models have default settings except for their number of hidden units, so that the same script
compares two versions of the package; ``--params '{"batch_size": 50}'`` sets further parameters of
all of them, given as JSON. The works are:

- "mnist", "fashion-mnist": thresholded images, 500 hidden units, within 85 and 30 seconds of one
  core (``fit_for`` of ``_common.py``, as in ``peers.py``);
- "baudio", "jester", "plants", "nltcs", "dna": binary tables, 256 hidden units;
- "digits-20", "digits-72": scikit-learn's digits, as bits that are 1 above 8, in an order drawn by
  ``default_rng(0)``, with 1400 training and 397 test rows; 64 hidden units, 20 and 72 epochs (72
  epochs are 1000 steps of 100 rows);
- "breast-cancer", "diabetes", "wine", "iris", "three-factors", "digits-noise": real columns (the
  last set is digits plus uniform noise), standardized by the training rows, with 30 % of the rows
  for the test and 16 hidden units. For comparison: one Gaussian, whose covariance is shrunk as by
  Ledoit and Wolf, a Gaussian mixture and factor analysis, with numbers of components and the
  mixture's ``reg_covar`` chosen by cross-validation on the training rows. On diabetes the mixture
  has narrow peaks at the two values of one column;
- "wine-60", "iris-60", "diabetes-60", "three-factors-80", "digits-60", "six-groups-60": real
  columns and bits, with 60 or 80 % of the values in training rows missing; the test rows are
  complete. For comparison: independent columns;
- "six-classes": 12 columns of 4 values, from six classes with 2 % noise, by ``CategoricalRBM(32)``
  and ``TabularRBM()``;
- "made-mushroom": 23 columns of 4 values with 10 % noise, from 40 classes with unequal shares, by
  ``TabularRBM()``. For comparison: independent columns, a Chow-Liu tree and mixtures of products.
  Then the same on the file ``agaricus-lepiota.data``, if SKRBM_DATA has it;
- "groups-30", "groups-60": 30 and 60 bits in two clusters, all bits off and all bits on, with 2 %
  and 5 % of the bits flipped; 500 training and 500 test rows;
- "six-groups": 40 bits in six clusters with shares from 0.05 to 0.3, with 2 % of the bits flipped;
  16 hidden units;
- "wide-groups-200", "wide-groups-600": 200 and 600 bits in six clusters with 5 % of the bits
  flipped, 1500 training rows, 32 hidden units, by ``RBM`` with default chains and with
  ``Gibbs(start="persistent")``;
- "short-fit": seconds of 3 epochs with 256 hidden units, divided by those of a fit with default
  settings, on the bits of "digits-72".

Numbers are mean log-likelihoods of test rows in nats, for each seed. log Z is exact where the
package can sum it; elsewhere it is the larger of a forward and a reverse estimate by sequential
Monte Carlo. "s" is the mean processor time of a fit in seconds, and "warned" counts fits that end
with a warning. Without ``SKRBM_DATA`` the works on images and binary tables cannot run.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pandas as pd
from _common import (
    data_folder,
    debd,
    fashion_mnist,
    fit_for,
    heading,
    mnist,
    progress,
    table,
)
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.covariance import LedoitWolf
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.decomposition import FactorAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV, train_test_split
from threadpoolctl import threadpool_limits

from skrbm import RBM, CategoricalRBM, TabularRBM
from skrbm.arrays import to_numpy
from skrbm.evaluation import SMC, bracket
from skrbm.inference import Gibbs

TABLES = "baudio", "jester", "plants", "nltcs", "dna"
PARAMS = {}  # of all machines


@dataclass
class Work:
    """A table, the machine that learns it, and other values beside."""

    name: str
    train: object
    test: object
    machine: Callable
    beside: dict = field(default_factory=dict)
    seconds: float | None = None  # of the processor, for a fit that has a budget


def likelihood(rbm, X):
    """Return the mean log-likelihood of rows, with the larger estimate of log Z if not exact."""
    try:
        log_z = rbm.log_partition("exact")
    except ValueError:
        found = bracket(rbm, method=SMC(max_sweeps=4000), burn_in=200, random_state=0)
        log_z = max(found.forward.value, found.reverse.value)
    return -float(np.mean(to_numpy(rbm.free_energy(X)))) - log_z


def fitted(machine, X, seconds=None):
    """Return a fitted machine, its seconds of the processor and whether the fit warned."""
    begin = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if seconds is None:
            machine.fit(X)
        else:
            fit_for(machine, X, seconds)
    spent = time.process_time() - begin
    return machine, spent, any(issubclass(w.category, ConvergenceWarning) for w in caught)


def measured(work, seeds):
    """Return the row of a work."""
    scores, spent, n_warned = [], [], 0
    for seed in seeds:
        rbm = work.machine(random_state=seed, **PARAMS)
        rbm, seconds, warned = fitted(rbm, work.train, work.seconds)
        scores.append(likelihood(rbm, work.test))
        spent.append(seconds)
        n_warned += warned
        progress((work.name, f"seed {seed}", scores[-1], seconds, "s"))
    return row(work.name, scores, np.mean(scores), spent, n_warned, work.beside)


def row(name, found, middle, spent, n_warned, beside):
    """Return what the table has of a work; nats have two digits after the point."""
    beside = ", ".join(f"{key} {value:.2f}" for key, value in beside.items())
    numbers = [f"{value:.2f}" for value in (*found, middle)]
    return name, *numbers, f"{np.mean(spent):.1f}", n_warned, beside


# Bits


def images(name):
    """Images within a budget of time."""
    if name == "mnist":
        train, test, seconds = mnist("train")[0], mnist("test")[0], 85
    else:
        train, test, seconds = fashion_mnist("train"), fashion_mnist("test"), 30
    yield of_bits(name, train, test, 500, seconds=seconds)


def binary_table(name):
    """A binary table."""
    yield of_bits(name, debd(name, "train"), debd(name, "test"), 256)


def digits():
    """Return bits of digits, to learn from and for the test."""
    X = (load_digits().data > 8).astype(np.float32)
    X = X[np.random.default_rng(0).permutation(len(X))]
    return X[:1400], X[1400:]


def digits_in_passes(n_iter):
    """Digits, in a number of passes."""
    yield of_bits(f"digits-{n_iter}", *digits(), 64, n_iter=n_iter)


def clusters():
    """Yield number of bits, rows of two clusters and the log-likelihood of the rows."""
    rng = np.random.default_rng(0)
    rng.random((1000, 1)), rng.standard_normal((1000, 6))  # so that the data remain the same
    for flips, n in ((0.02, 30), (0.05, 60)):
        X = (rng.random((1000, 1)) < 0.5) ^ (rng.random((1000, n)) < flips)
        on, p = X.sum(axis=1), np.log([flips, 1 - flips])
        log_p = np.logaddexp(on * p[0] + (n - on) * p[1], on * p[1] + (n - on) * p[0])
        yield n, X, log_p - np.log(2)


def groups(n):
    """Two clusters of rows of n bits; half of the rows are for the test."""
    X, log_p = next(found for size, *found in clusters() if size == n)
    train, test = np.split(X, 2)
    work = of_bits(f"groups-{n}", train, test)
    work.beside["truth"] = log_p[500:].mean()
    yield work


def six_groups(name="six-groups", n=40, flips=0.02, sizes=(3000, 2000), n_hidden=16, **params):
    """Six clusters of unequal shares: n bits, some of them flipped."""
    rng, shares = np.random.default_rng(0), np.array([0.3, 0.25, 0.2, 0.12, 0.08, 0.05])
    centres, n_rows = rng.random((6, n)) < 0.5, sum(sizes)
    X = centres[rng.choice(6, n_rows, p=shares)] ^ (rng.random((n_rows, n)) < flips)
    train, test = np.split(X, sizes[:1])
    n_flips = (test[:, None, :] ^ centres).sum(axis=2)
    log_p = logsumexp(n_flips * np.log(flips) + (n - n_flips) * np.log(1 - flips), axis=1, b=shares)
    work = of_bits(name, train, test, n_hidden, **params)
    work.beside["truth"] = log_p.mean()
    yield work


def wide_groups(n):
    """Six clusters of n bits with 5 % flips, by the default chains and by persistent ones."""
    sizes = {"n": n, "flips": 0.05, "sizes": (1500, 500), "n_hidden": 32}
    yield from six_groups(f"wide-groups-{n}", **sizes)
    persistent = Gibbs(start="persistent")
    yield from six_groups(f"wide-groups-{n}, persistent", **sizes, inference=persistent)


def of_independent_columns(train, test):
    """Return the mean log-likelihood of test rows by independent bits."""
    p = (train.sum(axis=0) + 0.5) / (len(train) + 1)
    return (test @ np.log(p) + (1 - test) @ np.log(1 - p)).mean()


def of_bits(name, train, test, n_hidden=256, seconds=None, **params):
    """Return a work of bits, with independent columns beside it."""
    train, test = train.astype(np.float32), test.astype(np.float32)
    beside = {"independent": of_independent_columns(train, test)}
    return Work(name, train, test, partial(RBM, n_hidden, **params), beside, seconds)


def short_fit(seeds):
    """Return a row of ratios of seconds: of 3 passes over those of a whole fit."""
    X, ratios, spent = digits()[0], [], []
    RBM(256, n_iter=1, random_state=0).fit(X)  # warm-up
    for seed in seeds:
        machines = [RBM(256, random_state=seed, **(PARAMS | kw)) for kw in ({"n_iter": 3}, {})]
        short, whole = (fitted(rbm, X)[1] for rbm in machines)
        ratios.append(short / whole)
        spent.append(short)
        progress(("short-fit", short, whole))
    passes = 3 / machines[1].n_iter_
    return row("short-fit", ratios, np.median(ratios), spent, 0, {"its share of passes": passes})


# Real columns


def three_factors(n=1500):
    """Return rows of ten columns of three normal factors, with noise."""
    loadings = np.random.default_rng(3).normal(size=(3, 10))
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 3)) @ loadings + 0.5 * rng.normal(size=(n, 10))


REAL = {
    "breast-cancer": lambda: load_breast_cancer().data,
    "diabetes": lambda: load_diabetes().data,
    "wine": lambda: load_wine().data,
    "iris": lambda: load_iris().data,
    "three-factors": three_factors,
    "digits-noise": lambda: load_digits().data + np.random.default_rng(0).random((1797, 64)),
}


def real(name):
    """Standardised real columns, with other densities beside."""
    train, test = train_test_split(REAL[name](), test_size=0.3, random_state=0)
    mean, std = train.mean(axis=0), train.std(axis=0)
    train, test = (train - mean) / std, (test - mean) / std
    of_mixtures = {"n_components": range(1, 9), "reg_covar": [1e-6, 1e-3, 1e-2, 1e-1]}
    numbers = [k for k in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32) if k < train.shape[1]]
    searches = {
        "Gaussian": LedoitWolf(),
        "mixture": GridSearchCV(GaussianMixture(random_state=0), of_mixtures, cv=3),
        "factors": GridSearchCV(FactorAnalysis(random_state=0), {"n_components": numbers}, cv=3),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        beside = {key: search.fit(train).score(test) for key, search in searches.items()}
    yield Work(name, train, test, partial(RBM, 16, visible="gaussian"), beside)


def with_holes(X, share):
    return np.where(np.random.default_rng(0).random(X.shape) < share, np.nan, X)


def incomplete_bits(name):
    """Bits of which 60 % are missing in the training rows."""
    work = next(six_groups()) if name == "six-groups" else of_bits(name, *digits(), 64)
    yield replace(work, name=f"{name}-60", train=with_holes(work.train, 0.6))


def incomplete(name, share):
    """Real columns as in "real", with values of the training rows that are missing at random."""
    train, test = train_test_split(REAL[name](), test_size=0.3, random_state=0)
    mean, std = train.mean(axis=0), train.std(axis=0)
    train, test = with_holes((train - mean) / std, share), (test - mean) / std
    mean, std = np.nanmean(train, axis=0), np.nanstd(train, axis=0)
    independent = norm.logpdf(test, mean, std).sum(axis=1).mean()
    machine = partial(RBM, 16, visible="gaussian")
    name = f"{name}-{100 * share:.0f}"
    yield Work(name, train, test, machine, {"independent": independent})


# Categories


def of_classes(n, n_classes, shares, n_columns, noise, seed, n_values=4):
    """Return a table of classes with noise, and the log-likelihood of its rows by the truth."""
    centres = np.random.default_rng(7).integers(n_values, size=(n_classes, n_columns))
    rng = np.random.default_rng(seed)
    X = centres[rng.choice(n_classes, size=n, p=shares)]
    X = np.where(rng.random(X.shape) < noise, rng.integers(n_values, size=X.shape), X)
    n_agree = (X[:, None, :] == centres).sum(axis=2)
    other = noise / n_values
    log_p = n_agree * np.log(1 - noise + other) + (n_columns - n_agree) * np.log(other)
    frame = pd.DataFrame(np.array(list("abcd"))[X], columns=[f"c{j}" for j in range(n_columns)])
    equal = np.full(n_classes, 1 / n_classes)
    return frame.astype(object), logsumexp(log_p, axis=1, b=equal if shares is None else shares)


def six_classes():
    """Six classes, by two estimators."""
    (train, _), (test, log_p) = (of_classes(2000, 6, None, 12, 0.02, seed) for seed in (0, 1))
    independent = Columns(train, test).independent()
    for machine in (partial(CategoricalRBM, 32), TabularRBM):
        name = f"six-classes, {getattr(machine, 'func', machine).__name__}"
        yield Work(name, train, test, machine, {"truth": log_p.mean(), "independent": independent})


def mushroom():
    """A made table of the size of mushroom, and the table itself where it is."""
    shares = np.linspace(1, 3, 40)
    frame, log_p = of_classes(8124, 40, shares / shares.sum(), 23, 0.1, 0)
    train, test = frame[:6000], frame[6000:]
    beside = {"truth": log_p[6000:].mean()} | of_other_models(train, test)
    yield Work("made-mushroom", train, test, TabularRBM, beside)
    folder = data_folder()
    path = folder and next(folder.rglob("agaricus-lepiota.data"), None)
    if not path:
        print("agaricus-lepiota.data was not found, so mushroom is skipped")
        return
    frame = pd.read_csv(path, header=None, dtype=str).rename(columns=lambda j: f"c{j}")
    train, test = train_test_split(frame, train_size=6000, random_state=0)
    yield Work("mushroom", train, test, TabularRBM, of_other_models(train, test))


def of_other_models(train, test):
    """Return log-likelihoods of test rows by models of categories."""
    columns = Columns(train, test)
    mixtures = {f"{k} products": columns.mixture(k) for k in (40, 60)}
    return {"independent": columns.independent(), "tree": columns.tree(), **mixtures}


class Columns:
    """Categorical columns, one-hot, whose counts get one row more, of independent columns."""

    def __init__(self, train, test):
        both = [pd.Categorical(x) for _, x in pd.concat([train, test]).items()]
        self.sizes = np.array([len(x.categories) for x in both])
        rows = np.concatenate([np.eye(len(x.categories))[x.codes] for x in both], axis=1)
        self.train, self.test = rows[: len(train)], rows[len(train) :]
        self.site = np.repeat(np.arange(len(self.sizes)), self.sizes)
        self.start = np.cumsum(self.sizes) - self.sizes
        self.extra = 1 / self.sizes[self.site]
        self.p = (self.train.sum(axis=0) + self.extra) / (len(train) + 1)

    def independent(self):
        return (self.test @ np.log(self.p)).mean()

    def tree(self):
        """Return the log-likelihood by the tree of Chow and Liu."""
        joint = self.train.T @ self.train + np.outer(self.extra, self.extra)
        joint /= len(self.train) + 1
        ratio = np.log(joint / np.outer(self.p, self.p))
        information = np.add.reduceat(joint * ratio, self.start, axis=0)
        information = np.add.reduceat(information, self.start, axis=1)
        np.fill_diagonal(information, 0)
        tree = minimum_spanning_tree(information.min() - 1 - information).toarray() != 0
        edges = np.where(tree[np.ix_(self.site, self.site)], ratio, 0)
        gain = np.einsum("ij,ij->i", self.test @ edges, self.test)
        return self.independent() + gain.mean()

    def mixture(self, n_components, n_steps=100, n_starts=3):
        """Return the log-likelihood by a mixture of products, of the best of some starts."""
        found = []
        for seed in range(n_starts):
            rng = np.random.default_rng(seed)
            first = self.train[rng.choice(len(self.train), n_components, replace=False)]
            p, shares = 0.5 * (first + self.p), np.full(n_components, 1 / n_components)
            for _ in range(n_steps):
                log_p = self.train @ np.log(p).T + np.log(shares)
                total = logsumexp(log_p, axis=1)
                parts = np.exp(log_p - total[:, None])
                weights = parts.sum(axis=0)
                p = (parts.T @ self.train + self.p) / (weights + 1)[:, None]
                shares = (weights + 1) / (weights + 1).sum()
            scores = logsumexp(self.test @ np.log(p).T + np.log(shares), axis=1)
            found.append((total.mean(), scores.mean()))
        return max(found)[1]


WORKS = {
    **{name: partial(images, name) for name in ("mnist", "fashion-mnist")},
    **{name: partial(binary_table, name) for name in TABLES},
    **{f"digits-{n}": partial(digits_in_passes, n) for n in (20, 72)},
    **{name: partial(real, name) for name in REAL},
    **{f"{name}-60": partial(incomplete, name, 0.6) for name in ("wine", "iris", "diabetes")},
    "three-factors-80": partial(incomplete, "three-factors", 0.8),
    **{f"{name}-60": partial(incomplete_bits, name) for name in ("digits", "six-groups")},
    "six-classes": six_classes,
    "made-mushroom": mushroom,
    **{f"groups-{n}": partial(groups, n) for n in (30, 60)},
    "six-groups": six_groups,
    **{f"wide-groups-{n}": partial(wide_groups, n) for n in (200, 600)},
    "short-fit": None,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--works", nargs="+", default=list(WORKS), choices=WORKS, metavar="NAME")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--params", type=json.loads, default={}, help="of all machines, as JSON")
    args = parser.parse_args()
    if data_folder() is None and {"fashion-mnist", *TABLES} & set(args.works):
        parser.error("set the environment variable SKRBM_DATA to the folder of the data")
    heading(__file__, args)
    PARAMS.update(args.params)
    rows = []
    with threadpool_limits(1):
        for name in args.works:
            if name == "short-fit":
                rows.append(short_fit(args.seeds))
                continue
            rows.extend(measured(work, args.seeds) for work in WORKS[name]())
    print()
    seeds = [f"seed {seed}" for seed in args.seeds]
    table(("work", *seeds, "mean", "s", "warned", "beside"), rows)


if __name__ == "__main__":
    main()
