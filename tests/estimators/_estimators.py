"""Shared by the tests of estimators: which there are, small ones, data, and independent sums."""

import inspect
from dataclasses import replace
from functools import cache

import numpy as np
from _fractional import all_rows
from numpy.testing import assert_allclose
from scipy.special import expit, logsumexp
from sklearn.base import BaseEstimator, is_classifier

import skrbm
from skrbm import (
    RBM,
    TAPRBM,
    ConditionalRBM,
    DeepTAPMachine,
    FrankWolfeRBM,
    GaussianBernoulliRBM,
    ReplicatedSoftmaxRBM,
)
from skrbm.arrays import to_numpy
from skrbm.estimators._shared import optimizer_of
from skrbm.inference import TAP, Gibbs

_PUBLIC = [getattr(skrbm, name) for name in skrbm.__all__]
ESTIMATORS = [E for E in _PUBLIC if inspect.isclass(E) and issubclass(E, BaseEstimator)]

# One estimator for each path through the code: contracts are tested on these. The others are
# presets of them (BernoulliRBM, CategoricalRBM), take tables (TabularRBM) or wrap another one.
DENSITIES = [
    RBM,
    TAPRBM,
    GaussianBernoulliRBM,
    DeepTAPMachine,
    ReplicatedSoftmaxRBM,
    FrankWolfeRBM,
]
PATHS = [*DENSITIES, ConditionalRBM]
RBMS = [RBM, TAPRBM, GaussianBernoulliRBM]
BINARY = [RBM, TAPRBM]


def with_methods(*names, among=PATHS):
    """Estimators that have all of these methods."""
    return [E for E in among if all(callable(getattr(E(), name, None)) for name in names)]


def with_parameters(*names, among=PATHS):
    """Estimators whose constructors have all of these parameters."""
    return [E for E in among if set(names) <= E().get_params().keys()]


def build(Estimator, **params):
    """Return an estimator; parameters of its optimizer may be given by their own names."""
    known = Estimator().get_params()
    own = {name: value for name, value in params.items() if name in known}
    of_optimizer = {name: value for name, value in params.items() if name not in known}
    estimator = Estimator(**own)
    if of_optimizer:
        estimator.optimizer = replace(optimizer_of(estimator), **of_optimizer)
    return estimator


def quick(Estimator, **params):
    """Return an estimator with its defaults, except for sizes and epochs that take time."""
    sizes = {
        "CategoricalRBM": {"n_components": 8, "n_iter": 5},
        "ConditionalRBM": {"n_components": 4, "n_iter": 10},
        "DeepTAPMachine": {"n_components": (4, 3), "n_iter": 2, "n_iter_pretrain": 1},
        "FrankWolfeRBM": {"max_components": 1, "inference": Gibbs(n_chains=10)},
        "GaussianBernoulliRBM": {"n_components": 4, "n_iter": 3},
        "RBM": {"n_components": 16, "n_iter": 5},
        "RBMClassifier": {"estimator": RBM(16, visible="gaussian", n_iter=20)},
        "RatingRBM": {"n_components": 4, "n_iter": 3},
        "RBMImputer": {"estimator": RBM(4, visible="gaussian", n_iter=2)},
        "RBMOutlierDetector": {"estimator": RBM(4, visible="gaussian", n_iter=2)},
        "ReplicatedSoftmaxRBM": {"n_components": 8, "n_iter": 5},
        "TabularRBM": {"n_components": 8, "n_iter": 5},
        "TAPRBM": {"n_components": 16, "n_iter": 5},
    }
    return build(Estimator, **{**sizes.get(Estimator.__name__, {}), **params})


# Algorithm 2 of Tramel et al. (2018) for TAPRBM, whose starts need no random numbers.
PAPER = {"inference": TAP(start="data"), "centered": False, "average": False, "alpha": 0.001}


def small(Estimator, **params):
    """An estimator that fits in milliseconds, by a schedule that does not look ahead.

    Parameters of its optimizer may be given by their own names.
    """
    usual = {"n_components": 5, "n_iter": 3, "batch_size": 10, "random_state": 0}
    known = Estimator().get_params()
    usual = {name: value for name, value in usual.items() if name in known}
    if "optimizer" in known:
        usual["schedule"] = "constant"
    sizes = {
        "ConditionalRBM": {"early_stopping": False},
        "DeepTAPMachine": {"n_components": (5, 3), "n_iter_pretrain": 1},
        "FrankWolfeRBM": {
            **{"max_components": 2, "inference": Gibbs(10, n_chains=100)},
            **{"early_stopping": False, "alpha": 1e-3},
        },
    }
    return build(Estimator, **{**usual, **sizes.get(Estimator.__name__, {}), **params})


def binary_data(n=60, n_features=8, seed=0, dtype=np.float64, p=0.4):
    """Rows of independent bits, of which neighbours agree more often than not."""
    generator = np.random.default_rng(seed)
    X = generator.random((n, n_features)) < p
    copies = generator.random((n, n_features)) < 0.5
    X[:, 1:] = np.where(copies[:, 1:], X[:, :-1], X[:, 1:])
    return X.astype(dtype)


def parameters(rbm):
    """Weights, hidden and visible biases as float64 copies."""
    names = ("components_", "intercept_hidden_", "intercept_visible_")
    return tuple(np.array(to_numpy(getattr(rbm, name)), dtype=np.float64) for name in names)


def log_likelihoods(rbm, X):
    """log p(x) of a small binary machine, skrbm's or scikit-learn's, by sums over all rows."""
    W, c, b = parameters(rbm)

    def unnormalised(V):
        return V @ b + np.logaddexp(0, V @ W.T + c).sum(axis=1)

    return unnormalised(X) - logsumexp(unnormalised(all_rows(W.shape[1])))


def machine(
    Estimator, n_components=3, n_features=4, seed=0, strength=1.0, dtype=np.float64, **params
):
    """A fitted estimator with known random parameters."""
    generator = np.random.default_rng(seed)
    W = strength * generator.standard_normal((n_components, n_features))
    c, b = (0.5 * generator.standard_normal(n) for n in (n_components, n_features))
    params = {"random_state": 0, "batch_size": 10, **params}
    return Estimator.from_parameters(W.astype(dtype), c.astype(dtype), b.astype(dtype), **params)


def hidden_means(rbm, X):
    W, c, _ = parameters(rbm)
    return expit(X @ W.T + c)


def visible_means(rbm, H):
    W, _, b = parameters(rbm)
    return expit(H @ W + b)


PATTERNS = np.array([[1] * 6 + [0] * 6, [0] * 6 + [1] * 6, [1, 0] * 6, [1, 1, 0] * 4])
FLIP = 0.05


def noisy_patterns(n, seed=0):
    """Rows of 12 bits: one of four patterns, each bit of it flipped with probability 0.05."""
    generator = np.random.default_rng(seed)
    X = PATTERNS[generator.integers(len(PATTERNS), size=n)]
    return np.abs(X - (generator.random(X.shape) < FLIP))


def targets(n):
    """Two outputs for each of ``n`` rows."""
    return np.stack([np.arange(n) % 2, np.arange(n) % 3 == 0], axis=1).astype(int)


def learn(estimator, X, method="fit"):
    """Fit to X; a classifier to two outputs."""
    y = [targets(X.shape[0])] if is_classifier(estimator) else []
    return getattr(estimator, method)(X, *y)


class Interruption:
    """Callback that ends a fit at the begin of an epoch, as Ctrl-C does."""

    def __init__(self, epoch=1):
        self.left = epoch

    def setup(self, estimator, context):
        """Do nothing."""

    teardown = setup

    def on_fit_task_begin(self, estimator, context):
        self.left -= context.task_name in ("epoch", "unit")
        if self.left == 0:
            raise KeyboardInterrupt

    def on_fit_task_end(self, estimator, context):
        """Do nothing."""


def state(estimator):
    """All arrays that a fit has left, by name; those of lists one by one."""
    found = {}
    for name, value in vars(estimator).items():
        if name[0] == "_" or name[-1] != "_" or name in ("classes_", "feature_names_in_"):
            continue
        for i, part in enumerate(value if isinstance(value, list | tuple) else [value]):
            if getattr(part, "ndim", 0):
                found[f"{name}{i}"] = part
    return found


@cache
def read_only(Estimator):
    """Return an estimator fitted once to binary data, shared by tests that do not change it."""
    return learn(small(Estimator), binary_data())


def copied_state(estimator):
    """The same as float64 copies in NumPy."""
    return {name: np.array(to_numpy(part), np.float64) for name, part in state(estimator).items()}


def assert_same_state(one, other, **tolerance):
    """The arrays of two estimators are equal, or nearly so."""
    one, other = (e if isinstance(e, dict) else copied_state(e) for e in (one, other))
    assert one.keys() == other.keys()
    for name in one:
        assert_allclose(one[name], other[name], **{"rtol": 0, **tolerance}, err_msg=name)


def with_holes(X, seed=1):
    """The same values, of which many are unknown: none in the second half, all in the first row."""
    holes = np.array(X, dtype=np.result_type(X, np.float32))
    unknown = np.random.default_rng(seed).random(holes.shape) < 0.4
    unknown[len(X) // 2 :], unknown[0] = False, True
    holes[unknown] = np.nan
    return holes


def _known_targets(estimator, X, make):
    return [make(targets(len(X)))] if is_classifier(estimator) else []


def _sample(estimator, X, make):
    first = make(X) if is_classifier(estimator) else 3
    return estimator.sample(first, n_steps=5, random_state=0)


def _impute(estimator, X, make):
    if is_classifier(estimator):
        return estimator.impute(make(X), make(with_holes(targets(len(X)))))
    return estimator.impute(make(with_holes(X)), random_state=0)


METHODS = {
    "transform": lambda e, X, make: e.transform(make(X)),
    "inverse_transform": lambda e, X, make: e.inverse_transform(e.transform(make(X))),
    "predict": lambda e, X, make: e.predict(make(X)),
    "predict_proba": lambda e, X, make: e.predict_proba(make(X)),
    "decision_function": lambda e, X, make: e.decision_function(make(X)),
    "score_samples": lambda e, X, make: e.score_samples(make(X), *_known_targets(e, X, make)),
    "free_energy": lambda e, X, make: e.free_energy(make(X)),
    "tap_log_likelihood": lambda e, X, make: e.tap_log_likelihood(make(X)),
    "gibbs": lambda e, X, make: e.gibbs(make(X), random_state=0),
    "sample": _sample,
    "impute": _impute,
}
SCORES = ("score_samples", "free_energy", "tap_log_likelihood")  # nats, in float64


def answers(estimator, X, make=np.asarray, without=()):
    """What the methods of an estimator return for the rows of a dense NumPy array, by their names.

    ``make`` puts the rows, the targets and rows with holes into the container that they are given.
    """
    names = [name for name in METHODS if hasattr(estimator, name) and name not in without]
    return {name: METHODS[name](estimator, X, make) for name in names}
