"""What the fuzzer draws: estimators with parameters, tables in many containers, and calls."""

import copy
import pickle
import warnings
from inspect import signature

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp
from _estimators import ESTIMATORS, small
from sklearn.base import clone, is_classifier

from skrbm import RBM, FrankWolfeRBM, RBMClassifier
from skrbm.inference import TAP, FixedPoint, Gibbs, Sampler, Tempering, method_names
from skrbm.learning import SGD, Adam, EarlyStopping
from skrbm.units import UNITS, Binomial, Categorical, Poisson, TruncatedGaussian

JUNK = [-1, 0, 2.5, np.nan, np.inf, None, "nonsense", True, [1], {}, 1e-300, np.uint8(2)]
_METHODS = [Gibbs(2, n_chains=7), Gibbs(start="weighted"), TAP(damping=0.2), Tempering(n_chains=5)]
_OPTIMIZERS = [SGD(momentum=0.5, alpha=0.1), SGD(max_grad_norm=1), SGD(penalty="l1"), Adam()]
_UNITS = [*UNITS, Poisson(), Binomial(5), TruncatedGaussian(-3, 3)]
VALUES = {"n_components": [1, 3, 8, 24, np.int8(3)], "max_components": [1, 2], "radius": [1.0]}
VALUES |= {"visible": ["bernoulli", *_UNITS, Categorical((2, 3))], "n_iter": [0, 1, 2, 3, 8]}
VALUES |= {"inference": [*method_names(FixedPoint, Sampler), *_METHODS, "auto"]}
VALUES |= {"optimizer": ["adam", "natural", *_OPTIMIZERS], "batch_size": [1, 4, 10**8]}
VALUES |= {"learning_rate": ["auto", "auto", 0.05, 1.0, 1e6, 1e-12], "layer": [-1, 0, 5]}
VALUES |= {"hidden": ["bernoulli"] * 8 + _UNITS, "warm_start": [True], "step": ["1/t"]}
VALUES |= {"early_stopping": [False, True, EarlyStopping(patience=1)], "unlabelled": [-1]}
VALUES |= {"random_state": [0, None, np.random.RandomState(0)], "decision": ["marginals", "joint"]}
VALUES |= {"objective": ["margin", "perceptron", "marginal_margin"], "gradient": ["joint"]}
VALUES |= {"temperature": ["learn", 1.0], "away_steps": [True]}
VALUES |= {"discriminative": [0.5, 1.0], "covariance": ["full"], "categories": [[[0, 1, 2]]]}
VALUES |= {"kinds": [{0: "real"}, {"a": "categorical"}], "handle_unknown": ["ignore", "error"]}
VALUES |= {"estimator": [RBM(3, n_iter=2), RBM(3, visible="gaussian", n_iter=1), None]}

KINDS = {
    "bits": lambda g, n, d: g.integers(0, 2, (n, d)).astype(float),
    "spins": lambda g, n, d: 2.0 * g.integers(0, 2, (n, d)) - 1,
    "fractions": lambda g, n, d: g.random((n, d)),
    "real": lambda g, n, d: g.standard_normal((n, d)),
    "scaled": lambda g, n, d: (g.standard_normal((n, d)) + 9) * 10.0 ** g.integers(-4, 5, d),
    "positive": lambda g, n, d: np.abs(g.standard_normal((n, d))),
    "counts": lambda g, n, d: g.poisson(2.0, (n, d)).astype(float),
    "mixed": lambda g, n, d: mixed(g, n, d),
    "strings": lambda g, n, d: g.choice(np.array(["a", "b", "cc"], object), (n, d)),
    "complex": lambda g, n, d: g.standard_normal((n, d)) * 1j,
    "dates": lambda g, n, d: g.integers(0, 9, (n, d)).astype("datetime64[ms]"),
}
NATURAL = {"bernoulli": ["bits", "fractions"], "spin": ["spins"], "binomial": ["counts"]}
NATURAL |= {"relu": ["positive"], "gaussian": ["real", "scaled"], "RBMClassifier": ["bits", "real"]}
NATURAL |= {"GaussianBernoulliRBM": ["real", "scaled"], "ReplicatedSoftmaxRBM": ["counts"]}
NATURAL |= {"CategoricalRBM": ["strings", "counts"], "ConditionalRBM": ["bits", "real"]}
NATURAL |= {"TabularRBM": ["mixed", "mixed", "bits", "counts", "scaled"]}
_CONTAINERS = [
    *[np.asarray] * 4,
    *[lambda X, own=dtype: X.astype(own) for dtype in ("f4", "f2", "i8", "i1", "u1", "?", ">f8")],
    *[np.asfortranarray, sp.csr_matrix, sp.csc_array, sp.coo_array, np.ma.masked_array],
    *[lambda X: np.repeat(X, 2, axis=0)[::2], lambda X: X.astype(object), lambda X: X.tolist()],
    *[lambda X: pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])] * 2,
    lambda X: pl.DataFrame({f"c{j}": X[:, j] for j in range(X.shape[1])}, strict=False),
]
ROWS = ["transform", "score_samples", "predict", "free_energy", "gibbs", "impute", "fit_transform"]
ROWS += ["predict_proba", "predict_log_proba", "decision_function", "tap_log_likelihood"]
METHODS = ["fit"] * 6 + ["partial_fit"] * 3 + ROWS + ["score", "denoise", "sample", "log_partition"]
METHODS += ["log_partitions", "inverse_transform", "transform_layer", "solutions", "perplexity"]
_ALONE = ["get_feature_names_out", "clone", "pickle", "ordinary_machine"]
METHODS += [*_ALONE, "site_probabilities", "grow", "truncate", "density", "set_params"]


class Draw:
    """Random choices, all of which follow from the number of a case."""

    def __init__(self, number):
        self.g = np.random.default_rng([20260101, number])

    def pick(self, values):
        return values[self.g.integers(len(values))]

    def chance(self, p):
        return self.g.random() < p

    def estimator(self):
        """Return an estimator with random parameters, of which one in ten has one that is junk."""
        estimator = usual(self.pick(ESTIMATORS))
        names = [name for name in estimator.get_params(deep=False) if name in VALUES]
        slow = ["inference"] if isinstance(estimator, FrankWolfeRBM) else []
        for name in names:
            before = getattr(estimator, name)
            if self.chance(0.25) and name not in slow:
                setattr(estimator, name, copy.deepcopy(self.pick(VALUES[name])))
            try:
                estimator._validate_params()
            except ValueError:  # a value of another estimator
                setattr(estimator, name, before)
        if self.chance(0.1):
            setattr(estimator, self.pick(names), self.pick(JUNK))
        return estimator

    def table(self, estimator, d):
        """Return a table, mostly of d columns and of values that the estimator is made for."""
        names = str(getattr(estimator, "visible", None)), type(estimator).__name__
        own = NATURAL.get(names[0], NATURAL.get(names[1], ["real", "counts", "bits"]))
        kind = self.pick(own if self.chance(0.75) else list(KINDS))
        n, d = self.pick([1, 2, 3, 8, 25, 120]), self.pick([1, 2, 5]) if self.chance(0.05) else d
        X = KINDS[kind](self.g, n, d)
        if isinstance(X, np.ndarray) and X.dtype.kind == "f":
            if self.chance(0.15):
                X[:, self.g.integers(d)] = self.pick([0.0, 1.0, 1e-3, 1e6])
            if self.chance(0.12):
                X = X * 10.0 ** self.pick([-300, -150, -20, 20, 39, 150, 300])
            if self.chance(0.2):
                X[self.g.random(X.shape) < 0.3] = np.nan
            if self.chance(0.04):
                X[self.pick(range(n)), self.pick(range(d))] = self.pick([np.inf, -np.inf, 1e300])
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
                X = self.pick(_CONTAINERS)(X) if isinstance(X, np.ndarray) else X
        except (TypeError, ValueError):  # such as strings as float32, or as polars has them
            return X
        if isinstance(X, pd.DataFrame) and self.chance(0.05):
            odd = [pd.Timestamp(2020, 1, 1), pd.Timedelta(3, "s"), 1j]
            X = X.assign(**{self.pick(X.columns): self.pick(odd)})
        if isinstance(X, np.ndarray) and self.chance(0.3):
            X.flags.writeable = False
        return X

    def weights(self, n):
        usual = [None] * 8 + [np.ones(n), self.g.random(n), self.g.integers(0, 3, n).tolist()]
        odd = [np.zeros(n), -np.ones(n), np.full(n, np.nan), np.full(n, 1e308), np.ones(n + 1)]
        odd += [np.full(n, 5e-324), np.array(["a"] * n), 2.0, np.ones((n, 1)), np.ones(n) * 1j]
        return self.pick(odd if self.chance(0.05) else usual)

    def labels(self, n):
        bits = self.g.integers(0, 2, (n, 2))
        usual = [bits[:, 0], bits, np.array(["x", "y"])[bits[:, 1]], bits[:, 0].astype(bool)]
        odd = [None, bits[:-1], np.full(n, np.nan), self.g.random(n), np.full(n, 1j), "text"]
        odd += [np.array(["x", None], object)[bits[:, 1]], sp.csr_array(bits), bits[:, :1]]
        return self.pick(odd if self.chance(0.15) else usual)

    def call(self, estimator, d, name=None):
        """Return (name, positional arguments, keyword arguments, number of rows)."""
        name, X, seed = name or self.pick(METHODS), self.table(estimator, d), {"random_state": 0}
        n, pick = X.shape[0] if hasattr(X, "shape") else len(X), self.pick
        y = [self.labels(n)] if is_classifier(estimator) else []
        learns, key = ([X, *y], {"sample_weight": self.weights(n)}), pick(list(VALUES))
        noise = [{"flip_probability": 0.1, "return_std": True}, {"noise_variance": 0.5}]
        steps = [{"n_steps": 3}] * 3 + [{"given": X}, {"init": X}]
        calls = dict.fromkeys(("fit", "partial_fit", "score"), learns) | {
            "fit_transform": ([X, *y], {}),
            "sample": ([X, 2] if y else [3], seed | pick(steps)),
            "impute": ([X, *y], {} if y else seed | pick([{}, {"n_steps": 3}])),
            "denoise": ([X], seed | pick(noise) | {"substitution_probability": 0.1}),
            "log_partition": ([], {"method": pick(["auto", "exact", "smc", "ais", "tap", "x"])}),
            **{"log_partitions": ([[3, 5]], {}), "transform_layer": ([X, pick([0, 1, -1])], {})},
            "inverse_transform": ([self.g.random((n, pick([3, 5])))], {}),
            **{"grow": ([X, 1], {}), "truncate": ([1], {}), "density": ([4], {})},
            **dict.fromkeys(_ALONE, ([], {})),
            "set_params": ([], {key: pick(VALUES[key] + JUNK)}),
        }
        args, kwargs = calls.get(name, ([X], seed))
        if hasattr(estimator, name) and name != "set_params":
            known = signature(getattr(estimator, name)).parameters
            kwargs = {key: value for key, value in kwargs.items() if key in known}
            if kwargs and "sample_weight" not in kwargs and self.chance(0.05):
                kwargs = kwargs | {pick(list(kwargs)): pick([*JUNK, 10**30])}
        return name, args, kwargs, n


def mixed(g, n, d):
    """Return a DataFrame of pandas or polars with columns of several kinds."""
    columns = {"a": g.choice(["u", "v", "w"], n), "b": g.integers(0, 2, n).astype(bool)}
    columns |= {"c": g.integers(0, 9, n), "d": g.standard_normal(n) * 10.0 ** g.integers(-6, 7)}
    columns["e"] = g.choice(np.array(["x", "y", None], object), n)
    columns["f"] = np.where(g.random(n) < 0.3, np.nan, g.standard_normal(n))
    chosen = {name: columns[name] for name in g.permutation(list(columns))[:d]}
    return pl.DataFrame(chosen) if g.random() < 0.3 else pd.DataFrame(chosen)


def usual(cls):
    """Return a small estimator of a class, with valid parameters."""
    return cls(RBM(3, n_iter=2), random_state=0) if cls is RBMClassifier else small(cls)


def perform(estimator, name, args, kwargs):
    """Make a call, and return its result."""
    own = {"clone": clone, "pickle": lambda found: pickle.loads(pickle.dumps(found))}
    return own[name](estimator) if name in own else getattr(estimator, name)(*args, **kwargs)
