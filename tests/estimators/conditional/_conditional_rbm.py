"""What the tests of ConditionalRBM share: objectives, small machines and data for them."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skrbm import ConditionalRBM
from skrbm.arrays import to_numpy
from skrbm.estimators._shared import optimizer_of
from skrbm.estimators.conditional._machine import PARAMETERS
from skrbm.inference import BeliefPropagation, Gibbs

EXACT = BeliefPropagation(max_iter=300, tol=1e-28)  # on trees
OBJECTIVES = [
    ("likelihood", "bp"),
    ("likelihood", "mean_field"),
    ("likelihood", "cd"),
    ("likelihood", "tap"),
    ("perceptron", "gibbs"),
    ("margin", "bp"),
    ("marginal_margin", "bp"),
]
every = pytest.mark.parametrize("objective, inference", OBJECTIVES)
WORDS = np.array(["ant", "bee", "cat"])


def data(n=60, n_features=3, n_outputs=4, seed=0, dtype=np.float64):
    """Features, and outputs of which neighbours agree more often than features make them."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n, n_features))
    Y = X @ generator.standard_normal((n_features, n_outputs)) > generator.standard_normal((n, 1))
    return X.astype(dtype), Y.astype(int)


def numbered(n, n_outputs, seed=0):
    """Features, and outputs that are the number of the row, in binary."""
    X, _ = data(n, seed=seed)
    return X, (np.arange(n)[:, None] >> np.arange(n_outputs)) & 1


def labels(Y, n_classes=3):
    return WORDS[np.minimum(Y.sum(axis=1), n_classes - 1)]


def holes_in(Y, seed=1):
    """Outputs of which many are unknown: all in the first row, none in the second."""
    holes = np.where(np.random.default_rng(seed).random(Y.shape) < 0.4, np.nan, Y)
    holes[0], holes[1] = np.nan, Y[1]
    return holes


def small(**params):
    plain = {
        "learning_rate": 0.05,
        "batch_size": 10,
        "early_stopping": False,
    }
    if isinstance(params.get("optimizer", "sgd"), str):
        plain["schedule"] = "constant"
    plain |= {"n_components": 5, "n_iter": 3, "random_state": 0, **params}
    known = ConditionalRBM().get_params()
    crbm = ConditionalRBM(**{name: plain.pop(name) for name in known if name in plain})
    if plain:  # parameters of the optimizer
        crbm.optimizer = replace(optimizer_of(crbm), **plain)
    return crbm


class Batches:
    """Keeps what the batches of a fit were, and ends it in one of them as Ctrl-C does.

    ``seen`` has the number of hidden units and the targets of each batch, ``stop`` is the number of
    the batch to end at, counted from 1.
    """

    def __init__(self, stop=None):
        self.stop, self.seen = stop, []

    def __call__(self, machine, V):
        self.seen.append((machine.n_units[1], V.copy()))
        if len(self.seen) == self.stop:
            raise KeyboardInterrupt

    def rows(self, n_hidden=5):
        """The numbers of the rows that a machine of so many hidden units learnt from."""
        parts = [V @ 2.0 ** np.arange(V.shape[1]) for n, V in self.seen if n == n_hidden]
        return np.unique(np.concatenate(parts)).astype(int)


def recorded(batches):
    """Contrastive divergence that records its batches."""

    class Recorded(Gibbs):
        def contrast(self, machine, X, rng):
            batches(machine, X)
            return super().contrast(machine, X, rng)

    return Recorded(start="data")


def fitted(machine, classes=None, **params):
    """The estimator with the parameters of a machine."""
    parts = {name: getattr(machine, name) for name in PARAMETERS}
    return ConditionalRBM.from_parameters(**parts, classes=classes, random_state=0, **params)


def features(machine, n=6, seed=0):
    shape = n, machine.coef_visible.shape[1]
    return np.random.default_rng(seed).standard_normal(shape).astype(machine.dtype)


def values(crbm):
    return [np.array(to_numpy(getattr(crbm, f"{name}_"))) for name in PARAMETERS]


def assert_same(one, other, **tolerance):
    """The parameters of two estimators are equal, or nearly so."""
    compare = assert_allclose if tolerance else assert_array_equal
    for a, b in zip(values(one), values(other), strict=True):
        compare(a, b, **tolerance)
