"""ConditionalRBM: when it stops, and what it keeps then."""

import numpy as np
import pytest
from _conditional_machines import random_machine
from _conditional_rbm import (
    Batches,
    data,
    holes_in,
    labels,
    numbered,
    recorded,
    small,
)
from numpy.testing import assert_allclose, assert_array_equal

from skrbm.arrays import make_rng
from skrbm.estimators._targets import check_targets, targets_of
from skrbm.estimators.conditional._learner import (
    ConditionalLearner,
    ErrorMonitor,
    LabelledRows,
)
from skrbm.estimators.conditional._objectives import Found, decision_of, make_objective
from skrbm.learning import SGD, EarlyStopping, Trainer, Training


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


class Script:
    """Stands in for what decides: after each epoch a given fraction of the outputs V is wrong."""

    def __init__(self, V, errors):
        self.V, self.errors, self.weights = V, errors, []

    def __call__(self, n_sweeps):
        return self.decide

    def decide(self, given):
        n_wrong = round(self.errors[len(self.weights)] * self.V.size)
        self.weights.append(given.weights[0].copy())
        wrong = np.arange(self.V.size).reshape(self.V.shape) < n_wrong
        return Found(np.where(wrong, 1 - 2 * self.V, 2 * self.V - 1), None, None)


@pytest.mark.parametrize(
    "errors, tol, n_epochs, best",
    [
        # Bad is an error above the minimum: epochs 3, 4, 5 are, and the second is kept.
        ([0.5, 0.2, 0.3, 0.4, 0.3, 0.1], 0.0, 5, 2),
        # The last of several with the same error; equal ones do not stop.
        ([0.5, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2], 0.0, 7, 7),
        ([0.5, 0.2, 0.3, 0.2, 0.3, 0.3, 0.3], 0.0, 7, 4),
        # The epochs run out before it stops.
        ([0.5, 0.2, 0.4, 0.1, 0.3, 0.2, 0.1], 0.0, 7, 7),
        ([0.5, 0.2, 0.4, 0.1, 0.3, 0.1, 0.2], 0.0, 7, 6),
        # Less than tol is no progress, but the minimum error is kept.
        ([0.5, 0.45, 0.44, 0.43, 0.1], 0.1, 4, 4),
    ],
)
def test_early_stopping_keeps_the_best_parameters(errors, tol, n_epochs, best):
    """By the parts of a fit, with 25 rows of four outputs set aside."""
    X, Y = data()
    rows, validation, published, history = LabelledRows(X, Y), np.arange(25), [], []
    script = Script(Y[rows.index[validation]], errors)
    machine, optimizer = random_machine(0, (4, 5, 3)), SGD(0.5, alpha=0.0, average=False)
    learner = ConditionalLearner(
        lambda n: make_objective("likelihood", "bp", n),
        lambda n: decision_of(None, make_objective("likelihood", "bp", n)),
        lambda epoch: 7 + epoch,
        optimizer,
        rows=rows,
        index=np.arange(25, 60),
        batch_size=10,
    )
    training = Training(
        make_rng(0, X),
        machine=machine,
        phase_state=8,
        optimizer_state=optimizer.init(machine.leaves),
    )
    trainer = Trainer(
        learner,
        lambda *kept: published.append(kept),
        lambda *kept: {},
        lambda row, left: history.append(row),
        n_iter=7,
        rate=lambda progress: 0.1,
        monitor=ErrorMonitor(script, rows, validation, EarlyStopping(3, tol=tol)),
    )
    trainer.run(training)
    assert [row["validation_error"] for row in history] == errors[:n_epochs]
    assert training.n_epochs == len(script.weights) == n_epochs
    ((machine, n_sweeps),) = published
    assert_array_equal(machine.components, script.weights[best - 1])
    assert n_sweeps == 7 + best
    # Velocity of parameters that were given up is given up with them.
    assert (training.optimizer_state is None) == (best < n_epochs)
