"""Contract of all estimators: weights are numbers of rows, and the order of rows is irrelevant.

Differences are exactly zero.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from _estimators import (
    PATHS,
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

pytestmark = pytest.mark.filterwarnings("ignore:the model has no hidden unit")
every = pytest.mark.parametrize("Estimator", PATHS)
N = 60
WEIGHTS = np.random.default_rng(5).integers(0, 4, N)


def learnt(Estimator, X, weights=None, rows=slice(None), method="fit", make=np.asarray):
    """A fit to some rows of X, with early stopping where it sets rows aside."""
    params = {}
    if Estimator in with_parameters("early_stopping", "validation_fraction"):
        params = {"early_stopping": True, "validation_fraction": 0.2}
    estimator = small(Estimator, **params)
    y = targets(len(X))[rows] if is_classifier(estimator) else None
    return getattr(estimator, method)(make(X[rows]), y, sample_weight=weights)


def assert_same(one, other):
    """The fitted arrays are equal, and the history except for its times."""
    assert_same_state(one, other)
    histories = [getattr(estimator, "history_", {}) for estimator in (one, other)]
    assert histories[0].keys() == histories[1].keys()
    for name in histories[0].keys() - {"time"}:
        assert_array_equal(histories[0][name], histories[1][name], err_msg=name)


CASES = [(E, "fit", np.asarray, 20) for E in PATHS]
CASES += [(E, "fit", sp.csr_array, 5) for E in PATHS]  # few distinct rows
CASES += [(E, "partial_fit", np.asarray, 20) for E in with_methods("partial_fit")]


@pytest.mark.parametrize("Estimator, method, make, n_features", CASES)
def test_a_whole_weight_is_as_many_rows(Estimator, method, make, n_features):
    X = binary_data(N, n_features)
    rows = np.random.default_rng(6).permutation(np.repeat(np.arange(N), WEIGHTS))
    weighted = learnt(Estimator, X, WEIGHTS, method=method, make=make)
    assert_same(weighted, learnt(Estimator, X, None, rows, method, make))
    found, others = map(copied_state, (weighted, learnt(Estimator, X, method=method, make=make)))
    assert any(not np.array_equal(found[name], others.get(name)) for name in found)


@every
def test_the_order_of_rows_is_irrelevant_and_rows_of_weight_zero_are_ignored(Estimator, recwarn):
    X, weights = binary_data(N), WEIGHTS + 0.3 * (WEIGHTS > 0)
    kept = np.random.default_rng(7).permutation(np.flatnonzero(weights))
    expected = learnt(Estimator, X, weights[kept], kept)
    X[weights == 0] = 5.0  # which would be clipped, with a warning
    assert_same(learnt(Estimator, X, weights), expected)
    assert not [w for w in recwarn if "X has values from" in str(w.message)]


@every
def test_the_scale_of_fractional_weights_is_irrelevant(Estimator):
    X, weights = binary_data(N, 5), WEIGHTS + 0.3 * (WEIGHTS > 0)  # few distinct rows
    assert_same(learnt(Estimator, X, weights / 1024), learnt(Estimator, X, weights))
    assert_same(learnt(Estimator, X, np.full(N, 0.25)), learnt(Estimator, X))


@every
def test_bad_weights(Estimator):
    X, negative = binary_data(N), np.ones(N)
    negative[3] = -1
    for weights in (negative, np.full(N, np.nan), np.zeros(N), np.ones(N - 1)):
        with pytest.raises(ValueError, match=r"[Ss]ample.weight|inconsistent"):
            learnt(Estimator, X, weights)


@every
def test_scores_are_weighted_means(Estimator):
    X = binary_data(N)
    estimator = learnt(Estimator, X)
    y = targets(N) if is_classifier(estimator) else None
    rows = np.repeat(np.arange(N), WEIGHTS)
    repeated = estimator.score(X[rows], None if y is None else y[rows])
    assert estimator.score(X, y, sample_weight=WEIGHTS) == pytest.approx(repeated, rel=1e-12)
    with pytest.raises(ValueError):
        estimator.score(X, y, sample_weight=-np.ones(N))
    with pytest.raises(ValueError, match="scale the weights"):  # whose sum overflows
        estimator.score(X, y, sample_weight=np.full(N, 1e308))
