"""ConditionalRBM: how it learns, and where it starts."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from _conditional_rbm import (
    OBJECTIVES,
    Batches,
    assert_same,
    data,
    every,
    holes_in,
    labels,
    numbered,
    recorded,
    small,
    values,
)
from _libraries import OTHER_LIBRARIES
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from skrbm import ConditionalRBM
from skrbm.arrays import make_rng, to_numpy
from skrbm.estimators.conditional._learner import ErrorMonitor, LabelledRows, energy_change
from skrbm.estimators.conditional._machine import PARAMETERS
from skrbm.exceptions import DataRangeWarning
from skrbm.inference import TAP, BeliefPropagation, NaiveMeanField
from skrbm.learning import EarlyStopping
from skrbm.machine import free_energy


@pytest.mark.parametrize("kind", ["outputs", "binary", "label"])
def test_weighted_logistic_regression(kind):
    """Without hidden units, at the optimum, with the same penalty: alpha = 1 / (C n)."""
    (X, Y), weights = data(), np.random.default_rng(5).integers(0, 4, 60)
    y, n = {"outputs": Y, "binary": labels(Y, 2), "label": labels(Y)}[kind], weights.sum()
    params = {"learning_rate": 0.5, "momentum": 0.9, "n_iter": 600, "alpha": 1 / n}
    crbm = small(n_components=0, batch_size=n, **params).fit(X, y, weights)
    columns = y.T if kind == "outputs" else [y]
    model = LogisticRegression(C=1.0, tol=1e-12, max_iter=10_000)
    coefs = [model.fit(X, column, weights).coef_ for column in columns]
    assert_allclose(crbm.coef_visible_, np.concatenate(coefs), atol=1e-4)


@every
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_warm_start_continues(objective, inference, momentum):
    """Fits of one and of two epochs equal one of three: random stream, velocity, and sweeps."""
    X, Y = data()
    params = {"objective": objective, "inference": inference, "momentum": momentum}
    one = small(n_iter=3, **params).fit(X, Y)
    other = small(n_iter=1, warm_start=True, **params).fit(X, Y).set_params(n_iter=2).fit(X, Y)
    assert_same(one, other)
    assert one.n_iter_ == other.n_iter_ == 3 and one.n_sweeps_ == other.n_sweeps_ == 10
    assert other.history_["epoch"] == [1, 2, 3]
    cold = small(n_iter=2, **params).fit(X, Y).set_params(n_iter=3).fit(X, Y)
    assert_same(one, cold)


OBJECTS = {"bp": BeliefPropagation, "mean_field": NaiveMeanField, "tap": TAP}


@pytest.mark.parametrize("objective, inference", [o for o in OBJECTIVES if o[1] in OBJECTS])
def test_sweeps_by_epoch(objective, inference):
    """They are 7 more than the number of the epoch; predictions have those of the last.

    A fixed point by name does what an object with so many sweeps does, from epoch to epoch.
    """
    X, Y = data(n=10)
    params = {"objective": objective, "inference": inference, "warm_start": True}
    crbm, step = small(n_iter=4, **params).fit(X, Y), small(n_iter=1, **params)
    assert crbm.n_sweeps_ == 11
    for n in (8, 9, 10, 11):
        step.set_params(inference=OBJECTS[inference](max_iter=n, tol=1e-6)).fit(X, Y)
    assert_same(crbm, step)


# ---------------------------------------------------------------------------- init


def test_fitted_init():
    X, Y = data()
    first = small().fit(X, Y)
    before = values(first)
    again = small(init=first, n_iter=0).fit(X, Y)
    assert_same(again, first)
    small(init=first, learning_rate=0.5).fit(X, Y)
    for one, other in zip(values(first), before, strict=True):
        assert_array_equal(one, other)
    logistic = small(n_components=0).fit(X, Y)
    crbm = small(init=logistic, n_iter=0).fit(X.astype(np.float32), Y)
    assert crbm.components_.dtype == np.float32 and crbm.components_.any()
    assert_allclose(crbm.coef_visible_, logistic.coef_visible_, rtol=1e-6)


def test_early_stopping_measures_rows_that_are_not_learnt():
    """And errors of these rows are recorded, also that of the epoch that is kept."""
    X, Y = numbered(100, 7)
    batches = Batches()
    params = {"n_iter": 4, "learning_rate": 0.5, "inference": recorded(batches)}
    crbm = small(early_stopping=EarlyStopping(validation_fraction=0.3), **params).fit(X, Y)
    aside = np.setdiff1d(np.arange(100), batches.rows())
    assert len(aside) == 30
    error = np.mean(crbm.predict(X[aside]) != Y[aside])
    assert np.isclose(error, crbm.history_["validation_error"], rtol=1e-12).any()


def test_changes_of_free_energies_have_their_variance_given_the_features():
    """Over draws of one output, of which targets are some."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((4000, 3))
    crbm, other = (
        ConditionalRBM.from_parameters(*(generator.standard_normal(n) for n in shapes))
        for shapes in 2 * [[(2, 1), (1, 3), (2, 3), 1, 2]]
    )
    energies = [
        np.column_stack([free_energy(m.given(X), np.full((4000, 1), v)) for v in (0.0, 1.0)])
        for m in (crbm.machine_, other.machine_)
    ]
    p = expit(energies[0][:, 0] - energies[0][:, 1])
    V = 1.0 * (generator.random((4000, 1)) < p[:, None])
    found = energy_change(crbm.machine_, X, V, None, make_rng(0, X))(other.machine_)
    change = np.diff(energies[1] - energies[0], axis=1)[:, 0]
    assert np.mean(found**2) == pytest.approx(np.mean(p * (1 - p) * change**2), rel=0.1)


@pytest.mark.parametrize("scale", [1.0, 0.01])
def test_the_error_is_a_fraction_also_of_less_than_one_row(scale):
    X, Y = data(n=20)
    crbm, weights = small().fit(X, Y), np.random.default_rng(0).random(20)
    rows = LabelledRows(X, 1.0 * Y, scale * weights)
    monitor = ErrorMonitor(crbm._decision, rows, np.arange(20), None)
    expected = np.average((crbm.predict(X) != Y).mean(axis=1), weights=weights)
    found = monitor.measure(crbm.machine_, crbm.n_sweeps_)["validation_error"]
    assert found == pytest.approx(expected) and expected > 0


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_features_that_are_not_scaled_warn(convert):
    X, Y = data(n=30)
    with pytest.warns(DataRangeWarning, match="root mean square of 3e"):
        small(n_iter=1).fit(convert(X * [1, 1, 3e3] / np.sqrt((X**2).mean(axis=0))), Y)


@every
@pytest.mark.parametrize("n_components", [0, 3])
def test_degenerate_data(objective, inference, n_components):
    """One row, constant outputs, rows of which nothing is known."""
    X, Y = data(n=12)
    make = partial(small, objective=objective, inference=inference, n_components=n_components)
    assert np.isfinite(make().fit(X[:1], Y[:1]).predict_proba(X)).all()
    constant = np.tile([0, 1, 0, 1], (12, 1))
    assert_array_equal(make().fit(X, constant).predict(X), constant)
    unknown = np.where(np.arange(12)[:, None] < 6, np.nan, Y)
    assert np.isfinite(make().fit(X, unknown).predict_proba(X)).all()
    H = make().fit(X, Y).transform(X)
    assert H.shape == (12, n_components) and np.isfinite(H).all()
    zero = make().fit(np.zeros((12, 3)), Y)
    assert np.isfinite(zero.score_samples(X, Y)).all()


@pytest.mark.arrays
@pytest.mark.parametrize("name", OTHER_LIBRARIES)
@every
def test_other_libraries_learn_and_say_the_same(name, objective, inference):
    """As NumPy does with the parameters that are learnt there."""
    xp = pytest.importorskip(name)
    X, Y = data(n=30)
    Z, holes = xp.asarray(X), xp.asarray(holes_in(Y.astype(float)))
    params = {"objective": objective, "inference": inference}
    crbm = small(momentum=0.5, early_stopping=True, learning_rate=0.02, **params)
    crbm.fit(Z, xp.asarray(Y)).partial_fit(Z, holes)
    parts = dict(zip(PARAMETERS, values(crbm), strict=True))
    same = ConditionalRBM.from_parameters(**parts, **params)
    same.n_sweeps_ = crbm.n_sweeps_
    for method in ("predict_proba", "decision_function", "transform", "score_samples"):
        found = getattr(crbm, method)(Z)
        assert type(found) is type(Z)
        assert_allclose(to_numpy(found), getattr(same, method)(X), rtol=1e-8, atol=1e-8)
    for decision in (None, "joint"):
        crbm.decision = same.decision = decision
        assert_array_equal(to_numpy(crbm.predict(Z)), same.predict(X))
        assert_array_equal(to_numpy(crbm.impute(Z, holes)), same.impute(X, to_numpy(holes)))
