"""ConditionalRBM: what a fitted machine says, against sums over all configurations.

Random tests have fixed seeds; the probability that a right program fails is given with each.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from _conditional_machines import Sums, all_rows, leaves, path, random_machine
from _conditional_rbm import (
    EXACT,
    WORDS,
    assert_same,
    data,
    every,
    features,
    fitted,
    holes_in,
    labels,
    small,
)
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import logsumexp
from sklearn.model_selection import KFold, cross_val_score

from skrbm import ConditionalRBM
from skrbm.estimators.conditional._machine import PARAMETERS
from skrbm.inference import BeliefPropagation
from skrbm.units import Categorical

LEVEL = 1e-6  # of each of 9 comparisons, so that a right program fails with 9e-6

# -------------------------------------------------------------- what is predicted


@pytest.mark.parametrize("sizes", [(4, 3, 2), (3, 6, 2), (4, 0, 2)])
@pytest.mark.parametrize("dtype, rtol", [(np.float64, 1e-10), (np.float32, 1e-4)])
def test_score_samples_of_outputs(sizes, dtype, rtol):
    machine = random_machine(0, sizes, dtype=dtype)
    crbm, X, V = fitted(machine), features(machine), all_rows(sizes[0])
    scores = np.array([crbm.score_samples(np.tile(x, (len(V), 1)), V.astype(int)) for x in X])
    assert scores.dtype == np.float64
    assert_allclose(scores, [Sums(machine, x).log_p for x in X], rtol=rtol)
    assert_allclose(np.exp(scores).sum(axis=1), 1, rtol=rtol)
    sure = crbm.score_samples(X)
    assert_allclose(sure, crbm.score_samples(X, crbm.predict(X)), rtol=1e-12)
    assert_allclose(crbm.score_samples(sp.csr_array(X), sp.csr_array(crbm.predict(X))), sure, rtol)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_score_samples_of_a_label(n_classes):
    """Exact however many units there are: 40 hidden ones, which are independent given a class."""
    unit = Categorical() if n_classes > 2 else None
    machine = random_machine(1, (n_classes if n_classes > 2 else 1, 40, 2), unit=unit)
    crbm, X = fitted(machine, WORDS[:n_classes]), features(machine)
    W, A, B, b, c = machine.leaves
    V = np.eye(n_classes) if n_classes > 2 else all_rows(1)
    own = X @ A.T + b
    logits = own @ V.T + np.logaddexp(0, (X @ B.T + c)[:, None] + V @ W.T).sum(axis=2)
    expected = logits - logsumexp(logits, axis=1, keepdims=True)
    for k, word in enumerate(WORDS[:n_classes]):
        assert_allclose(crbm.score_samples(X, np.full(6, word)), expected[:, k], rtol=1e-10)
    assert_allclose(crbm.score_samples(X), expected.max(axis=1), rtol=1e-10)
    assert_allclose(crbm.predict_proba(X), np.exp(expected), rtol=1e-8)
    assert_array_equal(crbm.predict(X), WORDS[np.argmax(expected, axis=1)])
    decision = crbm.decision_function(X)
    if n_classes == 2:
        assert_allclose(decision, expected[:, 1] - expected[:, 0], rtol=1e-8)
    else:
        assert_allclose(decision, expected, rtol=1e-10)


@pytest.mark.parametrize("edges", [path, leaves])
def test_predictions_on_trees(edges):
    machine = random_machine(0, (4, 3, 2), edges)
    X = features(machine, n=20)
    sums = [Sums(machine, x) for x in X]
    means = np.array([s.mean() for s in sums])
    best = [np.array(rows) for rows in zip(*(s.best() for s in sums), strict=True)]
    for objective, decided in (
        ("likelihood", means > 0.5),
        ("margin", best[1]),
        ("marginal_margin", best[0] if edges is leaves else None),
    ):
        crbm = fitted(machine, objective=objective, inference=EXACT)
        assert_allclose(crbm.predict_proba(X), means, atol=1e-10)
        assert_allclose(crbm.transform(X), [s.hidden_mean() for s in sums], atol=1e-10)
        Y = crbm.predict(X)
        assert Y.dtype == int and Y.shape == (20, 4)
        assert_array_equal(Y, crbm.decision_function(X) > 0)
        if decided is not None:
            assert_array_equal(Y, decided)
    logits = fitted(machine, inference=EXACT).decision_function(X)
    assert_allclose(logits, np.log(means / (1 - means)), rtol=1e-8)


@every
@pytest.mark.parametrize("sizes", [(4, 3, 2), (3, 6, 2), (4, 0, 2)])
def test_joint_decisions_are_the_best_of_all(objective, inference, sizes):
    """On loopy machines, whatever the objective; and for more rows than a block has."""
    machine = random_machine(5, sizes)
    X = features(machine, n=20)
    crbm = fitted(machine, objective=objective, inference=inference, decision="joint")
    found, sums = crbm.decision_function(X), [Sums(machine, x) for x in X]
    for one, row in zip(sums, found, strict=True):
        for i in range(sizes[0]):
            best = [one.log_p[one.V[:, i] == value].max() for value in (1, 0)]
            assert_allclose(row[i], best[0] - best[1], rtol=1e-9, atol=1e-12)
    assert_array_equal(crbm.predict(X), [one.best()[0] for one in sums])
    assert_allclose(crbm.score_samples(X), [one.log_p.max() for one in sums])
    many = crbm.decision_function(np.tile(X, (60, 1)))  # a few configurations at a time
    assert_allclose(many, np.tile(found, (60, 1)), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_joint_decisions_given_some_outputs(dtype):
    """Log-weights count in float64, so that the fields that hold outputs cover nothing up."""
    machine = random_machine(6, (6, 4, 2), dtype=dtype)
    crbm, X = fitted(machine, decision="joint"), features(machine, n=30)
    holes = holes_in(np.random.default_rng(0).integers(0, 2, (30, 6)))
    expected = [Sums(machine, x, y).best()[0] for x, y in zip(X, holes, strict=True)]
    assert_array_equal(crbm.impute(X, holes), expected)


def test_joint_decisions_of_many_outputs():
    """Mixed-product, exact where each hidden unit has one neighbour; damped as its method is."""
    machine = random_machine(2, (15, 3, 2), leaves)
    X = features(machine, n=20)
    best = [Sums(machine, x).best()[0] for x in X]
    for inference in ("bp", "cd", "mean_field", EXACT):
        assert_array_equal(fitted(machine, inference=inference, decision="joint").predict(X), best)
    loopy, damped = random_machine(2, (15, 3, 2)), BeliefPropagation(3, damping=0.9)
    one = fitted(loopy, inference=damped, decision="joint").decision_function(X)
    other = fitted(loopy, inference=damped, objective="marginal_margin").decision_function(X)
    assert_array_equal(one, other)


@every
def test_predictions_of_several_blocks(objective, inference):
    """Rows are predicted alike, alone or together; deterministic though training was not."""
    X, Y = data(n=50)
    for y in (Y, labels(Y)) if inference != "tap" else (Y,):
        crbm = small(objective=objective, inference=inference).fit(X, y)
        for method in ("predict", "predict_proba", "decision_function", "transform"):
            call = getattr(crbm, method)
            whole = call(X)
            parts = np.concatenate([call(X[:7]), call(X[7:])])
            if whole.dtype.kind == "f":
                assert_allclose(parts, whole, rtol=1e-8, atol=1e-12)
            else:
                assert_array_equal(parts, whole)
    many = np.tile(X, (50, 1))  # more than a block
    assert_allclose(crbm.transform(many), np.tile(crbm.transform(X), (50, 1)), atol=1e-12)
    assert_allclose(crbm.score_samples(many), np.tile(crbm.score_samples(X), 50), atol=1e-10)


def test_score_asks_for_known_outputs_alone():
    X, Y = data()
    crbm, holes = small().fit(X, Y), holes_in(Y.astype(float))
    holes[:5], weights = np.nan, np.arange(60.0)
    right = [
        all(one == other for one, other in zip(*rows, strict=True) if other == other)
        for rows in zip(crbm.predict(X), holes, strict=True)
    ]
    known = ~np.isnan(holes).all(axis=1)
    assert 0 < np.sum(~known) and 0 < np.mean(right) < 1
    assert_allclose(crbm.score(X, holes), np.mean(np.array(right)[known]), rtol=1e-12)
    expected = np.average(np.array(right)[known], weights=weights[known])
    assert_allclose(crbm.score(X, holes, weights), expected, rtol=1e-12)
    scores = cross_val_score(small(), X, holes, cv=KFold(3), error_score="raise")
    assert scores.shape == (3,) and np.isfinite(scores).all()
    with pytest.raises(ValueError, match="y contains only NaN"):
        crbm.score(X, np.full(Y.shape, np.nan))


# ------------------------------------------------------------------------ sampling


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sample_has_the_distribution_of_the_outputs(dtype):
    """100 sweeps leave no trace of the start in a machine with couplings of order 1."""
    machine = random_machine(0, (3, 3, 2), strength=0.5, dtype=dtype)
    crbm, X, n = fitted(machine), features(machine, 2), 10_000
    Y = crbm.sample(X, n, random_state=0)
    assert Y.shape == (2, n, 3) and Y.dtype == int
    for x, drawn in zip(X, Y, strict=True):
        counts = np.bincount(drawn @ [4, 2, 1], minlength=8)  # in the order of all_rows
        assert stats.chisquare(counts, n * np.exp(Sums(machine, x).log_p)).pvalue > LEVEL


@pytest.mark.parametrize("n_classes", [2, 3])
def test_sample_has_the_distribution_of_the_label(n_classes):
    unit = Categorical() if n_classes > 2 else None
    machine = random_machine(1, (n_classes if n_classes > 2 else 1, 4, 2), unit=unit)
    crbm, X, n = fitted(machine, WORDS[:n_classes]), features(machine, 2), 10_000
    y = crbm.sample(X, n, random_state=0)
    assert y.shape == (2, n)
    for row, p in zip(y, crbm.predict_proba(X), strict=True):
        counts = [(row == word).sum() for word in WORDS[:n_classes]]
        assert stats.chisquare(counts, n * p).pvalue > LEVEL


# ---------------------------------------------------------------------- imputation


@pytest.mark.parametrize("objective", ["likelihood", "margin", "marginal_margin"])
def test_impute_is_the_prediction_given_what_is_known(objective):
    machine = random_machine(4, (4, 3, 2), leaves)
    crbm = fitted(machine, objective=objective, inference=EXACT)
    X, Y = features(machine, 20), np.random.default_rng(0).integers(0, 2, (20, 4)).astype(float)
    holes = holes_in(Y)
    filled = crbm.impute(X, holes)
    known = ~np.isnan(holes)
    assert filled.dtype == int
    assert_array_equal(filled[known], holes[known])
    for x, y, row in zip(X, holes, filled, strict=True):
        sums = Sums(machine, x, y)
        rules = {"likelihood": sums.mean() > 0.5, "margin": sums.best()[1]}
        assert_array_equal(row, rules.get(objective, sums.best()[0]))


# ------------------------------------------------------- parameters from elsewhere


def test_from_parameters():
    X, Y = data()
    for y, classes in ((Y, None), (labels(Y), WORDS), (labels(Y, 2), WORDS[:2])):
        crbm = small(objective="margin").fit(X, y)
        parts = {name: getattr(crbm, f"{name}_") for name in PARAMETERS}
        same = ConditionalRBM.from_parameters(
            **parts, classes=classes, objective="margin", n_iter=3, random_state=0
        )
        assert_same(same, crbm)
        assert same.n_components == 5 and same.n_features_in_ == 3 and same.n_iter_ == 0
        assert same.n_sweeps_ == crbm.n_sweeps_
        for method in ("predict", "predict_proba", "decision_function", "transform"):
            assert_array_equal(getattr(same, method)(X), getattr(crbm, method)(X))
        same.partial_fit(X, y)
        assert same.n_iter_ == 1
        assert_array_equal(crbm.components_, parts["components"])  # which were copied
    bare = ConditionalRBM.from_parameters(np.ones((2, 3)), coef_hidden=[[1.0], [2.0]])
    assert not bare.coef_visible_.any() and bare.predict([[0.5]]).shape == (1, 3)
    with pytest.raises(ValueError, match="batch_size"):
        ConditionalRBM.from_parameters(np.ones((2, 3)), np.ones((3, 1)), batch_size=0)
    with pytest.raises(ValueError, match="classes must be sorted"):
        ConditionalRBM.from_parameters(np.ones((2, 3)), np.ones((3, 1)), classes=["b", "a", "c"])
