"""ConditionalRBM: sample weights, which are how many rows each row stands for.

A fit depends neither on the order of the rows nor on how they are stored: differences are exactly
zero.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from _conditional_rbm import OBJECTIVES, assert_same, data, holes_in, labels, small, values
from _libraries import OTHER_LIBRARIES
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression

from skrbm import ConditionalRBM
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


TAKEN = [(o, i, k) for o, i in OBJECTIVES for k in KINDS if (i, k) != ("tap", "label")]


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


@kinds
@dtypes
@pytest.mark.parametrize("shuffle", [False, True])
def test_whole_weights_in_partial_fit_and_without_shuffling(kind, dtype, shuffle):
    X, y = data_of(kind, dtype)
    copies = [np.repeat(part, WEIGHTS, axis=0) for part in (X, y)]
    for method in ("fit", "partial_fit"):
        weighted = learnt(X, y, WEIGHTS, method, shuffle=shuffle)
        assert_same(weighted, learnt(*copies, None, method, shuffle=shuffle))


def test_whole_weights_with_logistic_init():
    X, y = data_of("outputs")
    copies = (np.repeat(part, WEIGHTS, axis=0) for part in (X, y))
    assert_same(learnt(X, y, WEIGHTS, init="logistic"), learnt(*copies, init="logistic"))


@kinds
@dtypes
@methods
@pytest.mark.parametrize("weights", [None, WEIGHTS, WEIGHTS + 0.3], ids=["none", "whole", "real"])
def test_the_order_of_rows_does_not_matter(kind, dtype, method, weights):
    X, y = data_of(kind, dtype)
    order = np.random.default_rng(7).permutation(60)
    permuted = learnt(X[order], y[order], None if weights is None else weights[order], method)
    assert_same(learnt(X, y, weights, method), permuted)


@kinds
@dtypes
@methods
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["none", "whole"])
def test_sparse_data_are_learnt_as_dense_ones(kind, dtype, method, weights):
    X, y = data_of(kind, dtype)
    dense = learnt(X, y, weights, method)
    for make in (sp.csr_array, sp.csc_matrix, sp.coo_matrix):
        assert_same(learnt(make(X), y, weights, method), dense)
        if kind == "outputs":
            assert_same(learnt(make(X), make(y), weights, method), dense)
            assert_same(learnt(X, make(y), weights, method), dense)


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


def test_classes_and_outputs_of_rows_of_weight_zero_are_not_known():
    X, y = data_of("label")
    crbm = small().fit(X, y, y != "cat")
    assert_array_equal(crbm.classes_, ["ant", "bee"])
    with pytest.raises(ValueError, match="one class only, ant"):
        small().fit(X, y, y == "ant")
    X, Y = data_of("outputs")
    unknown = np.where((np.arange(60)[:, None] < 30) & (np.arange(4) == 2), np.nan, Y)
    with pytest.raises(ValueError, match=r"columns \[2\] of Y are NaN alone"):
        small().fit(X, unknown, np.arange(60) < 30)
    crbm = small().partial_fit(X, unknown, sample_weight=np.arange(60) < 30)
    assert np.isfinite(crbm.components_).all()


def test_equal_weights_of_one_are_none():
    X, Y = data_of("outputs")
    for weights in (1, np.ones(60), np.ones(60, bool), [1] * 60):
        assert_same(small().fit(X, Y, weights), small().fit(X, Y))


def test_only_ratios_of_real_weights_matter():
    """Powers of two scale them without rounding, and as many rows are drawn as there are."""
    X, Y = data_of("outputs")
    weights = WEIGHTS + 0.3
    assert_same(learnt(X, Y, weights), learnt(X, Y, 0.25 * weights))


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
    params |= {"schedule": "constant", "early_stopping": False}
    crbm = ConditionalRBM(0, batch_size=n, **params).fit(X, y, WEIGHTS)
    columns = y.T if kind == "outputs" else [y]
    model = LogisticRegression(C=1.0, tol=1e-12, max_iter=10_000)
    coefs = [model.fit(X, column, WEIGHTS).coef_ for column in columns]
    assert_allclose(crbm.coef_visible_, np.concatenate(coefs), atol=1e-4)


@pytest.mark.arrays
@pytest.mark.parametrize("name", OTHER_LIBRARIES)
def test_array_libraries(name):
    """Rows of weight 0 and copies, with weights in the library or not."""
    pytest.importorskip("array_api_compat")
    xp = pytest.importorskip(name)
    X, Y = data_of("outputs")
    for weights in (WEIGHTS, xp.asarray(WEIGHTS)):
        weighted = learnt(xp.asarray(X), xp.asarray(Y), weights)
        copies = (xp.asarray(np.repeat(part, WEIGHTS, axis=0)) for part in (X, Y))
        assert_same(weighted, learnt(*copies))
        assert type(weighted.components_) is type(xp.asarray([0.0]))


@pytest.mark.parametrize(
    "weights, words",
    [
        (-1.0 * (np.arange(60) == 3), "sample_weight has negative values; weights must be >= 0"),
        (np.where(np.arange(60) == 3, np.nan, 1), "sample_weight contains NaN"),
        (np.where(np.arange(60) == 3, np.inf, 1), "sample_weight contains infinity"),
        (np.where(np.arange(60) == 3, 1e20, 1), "sample_weight has positive values from 1 to 1e"),
        (np.ones(59), r"sample_weight.shape == \(59,\), expected \(60,\)"),
        (np.ones((60, 2)), "Sample weights must be 1D array or scalar"),
        (np.zeros(60), "at least one non-zero|is 0 for all rows"),
        (["a"] * 60, "could not convert string to float"),
    ],
)
@methods
def test_wrong_weights(weights, words, method):
    """Whatever the targets are; the last fit stays."""
    for kind in ("outputs", "label"):
        X, y = data_of(kind)
        crbm = small().fit(X, y)
        before = values(crbm)
        with pytest.raises(ValueError, match=words):
            getattr(crbm, method)(X, y, sample_weight=weights)
        for one, other in zip(values(crbm), before, strict=True):
            assert_array_equal(one, other)


@methods
def test_wrong_targets_with_weights(method):
    """Rows of weight 0 are checked, too."""
    X, Y = data_of("outputs")
    wrong = Y.copy()
    wrong[WEIGHTS == 0] = 7
    for y, words in (
        (None, "requires y to be passed"),
        (Y[:50], r"inconsistent numbers of samples: \[60, 50\]"),
        (np.vstack([Y, Y]), r"inconsistent numbers of samples: \[60, 120\]"),
        (wrong, "must contain only 0 and 1"),
        (np.where(WEIGHTS == 0, np.nan, 1.0), "one label must be known"),
    ):
        with pytest.raises(ValueError, match=words):
            getattr(small(), method)(X, y, sample_weight=WEIGHTS)


@pytest.mark.skipif(
    not hasattr(ConditionalRBM, "set_callbacks"), reason="callbacks came with scikit-learn 1.9"
)
def test_callbacks_get_all_rows():
    ScoringMonitor = pytest.importorskip("sklearn.callback").ScoringMonitor

    X, Y = data_of("outputs")
    crbm = small().set_callbacks(ScoringMonitor(scoring="accuracy")).fit(X, Y, WEIGHTS)
    assert_same(crbm, small().fit(X, Y, WEIGHTS))
