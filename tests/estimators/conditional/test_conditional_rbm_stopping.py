"""ConditionalRBM: when it stops, and what it keeps then."""

import numpy as np
import pytest
from _conditional_rbm import (
    Batches,
    data,
    holes_in,
    labels,
    numbered,
    recorded,
    small,
)
from numpy.testing import assert_allclose

from skrbm.estimators._targets import check_targets, targets_of
from skrbm.estimators.conditional._learner import (
    ErrorMonitor,
    LabelledRows,
)
from skrbm.estimators.conditional._objectives import decision_of, make_objective
from skrbm.learning import EarlyStopping


@pytest.mark.parametrize(
    "kind, decision, weighted",
    [("outputs", None, True), ("holes", None, False), ("label", "joint", True)],
)
def test_validation_error(kind, decision, weighted):
    """The fraction of known outputs that are wrong, or of labels, of rows that count by weight.

    They are more than a block of rows.
    """
    X, Y = data(n=1300)
    y = {"outputs": Y, "holes": holes_in(Y.astype(float)), "label": labels(Y)}[kind]
    crbm = small(n_iter=1, decision=decision).fit(X[:100], y[:100])
    weights = np.arange(1300) % 4 + 0.5 if weighted else None
    rows = LabelledRows(X, targets_of(y).encode(check_targets(y, X, "ConditionalRBM")), weights)
    validation = np.arange(100, 1300)
    monitor = ErrorMonitor(
        lambda n: decision_of(decision, make_objective("likelihood", "bp", n)),
        rows,
        validation,
        EarlyStopping(1, tol=0.0),
    )
    found = monitor.measure(crbm.machine_, crbm.n_sweeps_)
    aside = rows.index[validation]
    wrong, known = crbm.predict(X[aside]) != y[aside], y[aside] == y[aside]
    weights = np.ones(1300) if weights is None else weights
    counts = known * weights[aside].reshape(-1, *[1] * (known.ndim - 1))
    assert_allclose(found["validation_error"], np.sum(wrong * counts) / np.sum(counts), rtol=1e-12)
    assert monitor.value == -found["validation_error"] and 0 < found["validation_error"] < 1


def test_early_stopping_measures_rows_that_are_not_learnt():
    """And what is kept has the minimum error."""
    X, Y = numbered(100, 7)
    batches = Batches()
    params = {"n_iter": 4, "learning_rate": 0.5, "inference": recorded(batches)}
    crbm = small(early_stopping=EarlyStopping(validation_fraction=0.3), **params).fit(X, Y)
    aside = np.setdiff1d(np.arange(100), batches.rows())
    assert len(aside) == 30
    error = np.mean(crbm.predict(X[aside]) != Y[aside])
    assert_allclose(error, min(crbm.history_["validation_error"]), rtol=1e-12)
