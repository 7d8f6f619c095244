"""ConditionalRBM: sample weights, which are how many rows each row stands for."""

import numpy as np
import pytest
from _conditional_rbm import data, holes_in, labels, small
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression

from skrbm.arrays import make_rng
from skrbm.estimators.conditional._learner import LabelledRows

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
