"""ConditionalRBM: sample weights, which are how many rows each row stands for.

A fit depends neither on the order of the rows nor on how they are stored: differences are exactly
zero.
"""

import numpy as np
import pytest
from _conditional_rbm import OBJECTIVES, assert_same, data, holes_in, labels, small
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression

from skrbm.arrays import make_rng
from skrbm.estimators.conditional._learner import LabelledRows

KINDS = ["outputs", "holes", "binary", "label"]
kinds = pytest.mark.parametrize("kind", KINDS)
SINGLE = pytest.param(np.float32, marks=pytest.mark.arrays)
dtypes = pytest.mark.parametrize("dtype", [SINGLE, np.float64])
methods = pytest.mark.parametrize("method", ["fit", "partial_fit"])
WEIGHTS = np.random.default_rng(5).integers(0, 4, 60)


def data_of(kind, dtype=np.float64):
    """Features of which a third is zero, and targets of a kind."""
    X, Y = data(dtype=dtype)
    X = np.where(np.abs(X) < 0.5, 0, X)
    return X, {
        "outputs": Y,
        "holes": holes_in(Y.astype(float)),
        "binary": labels(Y, 2),
        "label": labels(Y),
    }[kind]


def learnt(X, y, weights=None, method="fit", **params):
    """A fit, or two calls of partial_fit."""
    crbm = small(momentum=0.5, alpha=0.1, **params)
    if method == "fit":
        return crbm.fit(X, y, sample_weight=weights)
    named = {"classes": np.unique(y)} if y.ndim == 1 else {}
    crbm.partial_fit(X, y, sample_weight=weights, **named)
    return crbm.partial_fit(X, y, sample_weight=weights)


TAKEN = [(o, i, "outputs") for o, i in OBJECTIVES]
TAKEN += [("likelihood", "bp", k) for k in KINDS[1:]]


@pytest.mark.parametrize("objective, inference, kind", TAKEN)
@dtypes
def test_a_whole_weight_is_as_many_rows(objective, inference, kind, dtype):
    """Also of the rows set aside, and a weight of 0 is no row."""
    X, y = data_of(kind, dtype)
    params = {"objective": objective, "inference": inference, "early_stopping": True}
    weighted, without = learnt(X, y, WEIGHTS, **params), learnt(X, y, **params)
    assert not np.array_equal(weighted.components_, without.components_)
    order = np.random.default_rng(6).permutation(WEIGHTS.sum())
    X, y = (np.repeat(part, WEIGHTS, axis=0)[order] for part in (X, y))
    repeated = learnt(X, y, **params)
    assert_same(weighted, repeated)
    for name in set(repeated.history_) - {"time"}:
        assert weighted.history_[name] == repeated.history_[name]
    assert weighted.components_.dtype == dtype


@methods
@kinds
def test_rows_of_weight_zero_are_not_there(kind, method):
    """Whatever their values are; in data frames, too, whose rows have other names."""
    X, y = data_of(kind)
    weights = WEIGHTS + 0.3 * (WEIGHTS > 0)
    kept, lost = weights > 0, weights == 0
    expected = learnt(X[kept], y[kept], weights[kept], method)
    X[lost] = 1e3
    y[lost] = y[0] if y.ndim == 1 else 1 - y[lost]
    assert_same(learnt(X, y, weights, method), expected)
    pandas = pytest.importorskip("pandas")
    frame = (pandas.Series if y.ndim == 1 else pandas.DataFrame)(y, index=np.arange(60) + 9)
    assert_same(small().fit(X, frame, weights), small().fit(X[kept], y[kept], weights[kept]))


def test_real_weights_are_met_on_average():
    """In each epoch the number of times that a row is drawn is within 1 of its share.

    The mean of 400 independent numbers, whose deviation is at most 1/2, is within 5 standard errors
    for 54 rows: a right program fails with 54 * 6e-7 = 3e-5.
    """
    X, Y = data_of("holes")
    weights = np.where(WEIGHTS > 0, WEIGHTS + 0.3, 0)
    rows, rng = LabelledRows(X, Y, weights), make_rng(0, X)
    share = weights[rows.index] / weights.sum() * len(rows)
    counts = [
        np.bincount(rows.epoch(np.arange(len(rows)), rng), minlength=len(rows)) for _ in range(400)
    ]
    assert (np.abs(counts - share) < 1).all()
    assert (np.abs(np.mean(counts, axis=0) - share) < 5 * 0.5 / 20).all()


@pytest.mark.parametrize("kind", ["outputs", "binary", "label"])
def test_weighted_logistic_regression(kind):
    """Without hidden units, at the optimum, with the same penalty: alpha = 1 / (C n)."""
    X, y = data_of(kind)
    n = WEIGHTS.sum()
    params = {"learning_rate": 0.5, "momentum": 0.9, "n_iter": 600, "alpha": 1 / n}
    crbm = small(n_components=0, batch_size=n, **params).fit(X, y, WEIGHTS)
    columns = y.T if kind == "outputs" else [y]
    model = LogisticRegression(C=1.0, tol=1e-12, max_iter=10_000)
    coefs = [model.fit(X, column, WEIGHTS).coef_ for column in columns]
    assert_allclose(crbm.coef_visible_, np.concatenate(coefs), atol=1e-4)
