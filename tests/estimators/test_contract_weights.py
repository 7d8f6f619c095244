"""What every estimator keeps to: weights are numbers of rows, and the order of rows is nothing.

Differences are exactly zero. An estimator is in each test whose methods it has.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from _estimators import (
    DENSITIES,
    NUMERIC,
    assert_same_state,
    binary_data,
    copied_state,
    small,
    targets,
    with_methods,
    with_parameters,
)
from numpy.testing import assert_array_equal
from sklearn.base import is_classifier

pytestmark = pytest.mark.filterwarnings("ignore:the machine has no hidden unit")
N = 60
WEIGHTS = np.random.default_rng(5).integers(0, 4, N)
fits = pytest.mark.parametrize(
    "Estimator, method",
    [(E, m) for m in ("fit", "partial_fit") for E in with_methods(m, among=NUMERIC)],
)
SINGLE = pytest.param(np.float32, marks=pytest.mark.arrays)
dtypes = pytest.mark.parametrize("dtype", [SINGLE, np.float64])
formats = pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "csr"])
# Where hardly two rows are equal, and where there are few kinds of rows.
widths = pytest.mark.parametrize("n_features", [20, 5])


def params_of(Estimator):
    """Early stopping too, where it sets rows aside."""
    params = {}
    if Estimator in with_parameters("early_stopping", "validation_fraction"):
        params |= {"early_stopping": True, "validation_fraction": 0.2}
    return params


def learnt(Estimator, method, X, weights=None, rows=slice(None), make=np.asarray, **params):
    """A fit to some rows of X; of a classifier with their targets."""
    estimator = small(Estimator, **params_of(Estimator), **params)
    y = targets(len(X))[rows] if is_classifier(estimator) else None
    return getattr(estimator, method)(make(X[rows]), y, sample_weight=weights)


def assert_same(one, other):
    """The fitted arrays are equal, and the history but for its times."""
    assert_same_state(one, other)
    histories = [getattr(estimator, "history_", {}) for estimator in (one, other)]
    assert histories[0].keys() == histories[1].keys()
    for name in histories[0].keys() - {"time"}:
        assert_array_equal(histories[0][name], histories[1][name], err_msg=name)


def test_every_estimator_takes_weights():
    assert {E for E, _ in fits.args[1]} == set(NUMERIC)


@fits
@dtypes
@formats
@widths
def test_a_whole_weight_is_as_many_rows(Estimator, method, dtype, make, n_features):
    X = binary_data(N, n_features, dtype=dtype)
    rows = np.random.default_rng(6).permutation(np.repeat(np.arange(N), WEIGHTS))
    weighted = learnt(Estimator, method, X, WEIGHTS, make=make)
    assert_same(weighted, learnt(Estimator, method, X, None, rows, make))
    others = copied_state(learnt(Estimator, method, X, make=make))
    found = copied_state(weighted)
    assert any(not np.array_equal(found[name], others.get(name)) for name in found)


@pytest.mark.wide
@fits
@dtypes
@formats
@widths
@pytest.mark.parametrize("weights", [None, WEIGHTS + 0.3], ids=["none", "real"])
def test_the_order_of_rows_does_not_matter(Estimator, method, dtype, make, n_features, weights):
    X = binary_data(N, n_features, dtype=dtype)
    rows = np.random.default_rng(7).permutation(N)
    given = None if weights is None else weights[rows]
    permuted = learnt(Estimator, method, X, given, rows, make)
    assert_same(permuted, learnt(Estimator, method, X, weights, make=make))


@fits
@dtypes
@formats
@pytest.mark.parametrize("more", [0, 0.3], ids=["whole", "real"])
def test_rows_of_weight_zero_are_not_there(Estimator, method, dtype, make, more, recwarn):
    """Whatever their values: others would be clipped, with a warning."""
    X, weights = binary_data(N, dtype=dtype), WEIGHTS + more * (WEIGHTS > 0)
    kept = np.flatnonzero(weights)
    expected = learnt(Estimator, method, X, weights[kept], kept, make)
    X[weights == 0] = 5.0
    assert_same(learnt(Estimator, method, X, weights, make=make), expected)
    assert not [w for w in recwarn if "X has values from" in str(w.message)]


@fits
@formats
@pytest.mark.parametrize("bad", [-1, np.nan, np.inf, 0], ids=["negative", "nan", "inf", "zeros"])
def test_weights_that_are_refused(Estimator, method, make, bad):
    X, weights = binary_data(N), np.ones(N)
    weights[slice(None) if bad == 0 else 3] = bad
    with pytest.raises(ValueError, match=r"[Ss]ample.weight"):
        learnt(Estimator, method, X, weights, make=make)
    with pytest.raises(ValueError, match=r"[Ss]ample.weight|inconsistent"):
        learnt(Estimator, method, X, np.ones(N - 1), make=make)


@pytest.mark.parametrize("Estimator", with_methods("score"))
def test_scores_are_means_by_weights(Estimator):
    X = binary_data(N)
    estimator = learnt(Estimator, "fit", X)
    y = targets(N) if is_classifier(estimator) else None
    rows = np.repeat(np.arange(N), WEIGHTS)
    repeated = estimator.score(X[rows], None if y is None else y[rows])
    assert estimator.score(X, y, sample_weight=WEIGHTS) == pytest.approx(repeated, rel=1e-12)


@pytest.mark.parametrize("Estimator", DENSITIES)
def test_scores_refuse_weights_that_are_none(Estimator):
    estimator = learnt(Estimator, "fit", binary_data(N))
    for bad in (-np.ones(N), np.zeros(N), np.full(N, np.nan), np.ones(N - 1)):
        with pytest.raises(ValueError):
            estimator.score(binary_data(N), sample_weight=bad)
