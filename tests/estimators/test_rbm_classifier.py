"""RBMClassifier: probabilities, draws and learning of labels against enumeration."""

import itertools

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from _machines import slopes_of
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, log_softmax, logsumexp
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import StratifiedKFold, cross_val_score

from skrbm import RBM, RBMClassifier, TabularRBM
from skrbm.learning import SGD, LabelColumns, MachineGradient
from skrbm.machine import data_moments

BITS = np.array(list(itertools.product([0.0, 1.0], repeat=4)))
RNG = np.random.default_rng(0)
X = RNG.integers(0, 2, (120, 4)).astype(float)
LABELS = np.array(["a", "b", "c"])
y = LABELS[(X[:, 0] + X[:, 1]).astype(int)]
Y = np.stack([X[:, 0], X[:, 1] * X[:, 2]], axis=1).astype(int)
TARGETS = {"label": y, "several": Y}


def small(**params):
    own = {"n_iter": 3, "batch_size": 20, "random_state": 0, **params.pop("own", {})}
    return RBMClassifier(RBM(3, **own), **params)


def strong(kind, **params):
    """A fitted machine with random couplings that matter, and all values of its labels."""
    model, generator = small(**params).fit(X, TARGETS[kind]), np.random.default_rng(1)
    rbm = model.rbm_
    for name in ("components_", "intercept_hidden_", "intercept_visible_"):
        part = getattr(rbm, name)
        part[...] = 1.5 * generator.normal(size=part.shape)
    n = len(model.classes_)
    values = np.eye(n) if kind == "label" else BITS[:4, 2:]
    return model, values


def log_joint(model, values, rows=BITS):
    """log p(x, y) by a sum over all bits of the features, (n_rows, n_values)."""
    W, b, c = (
        getattr(model.rbm_, name)
        for name in ("components_", "intercept_visible_", "intercept_hidden_")
    )

    def weights(features):
        V = np.concatenate(
            [np.repeat(features, len(values), axis=0), np.tile(values, (len(features), 1))], axis=1
        )
        log = V @ b + np.logaddexp(0, V @ W.T + c).sum(axis=1)
        return log.reshape(len(features), len(values))

    return weights(rows) - logsumexp(weights(BITS))


def order_of(model, kind, values):
    """The public labels of rows of ``values``."""
    return LABELS if kind == "label" else values.astype(int)


kinds = pytest.mark.parametrize("kind", ["label", "several"])


@kinds
def test_probabilities_are_those_of_enumeration(kind):
    model, values = strong(kind)
    joint = log_joint(model, values)
    p = np.exp(log_softmax(joint, axis=1))
    expected = p if kind == "label" else p @ values
    assert_allclose(model.predict_proba(BITS), expected, rtol=1e-9)
    assert_allclose(model.predict_proba(sp.csr_array(BITS)), expected, rtol=1e-9)
    assert_allclose(model.predict_log_proba(BITS), np.log(expected), rtol=1e-7)
    labels = order_of(model, kind, values)
    assert_array_equal(model.predict(BITS), labels[joint.argmax(axis=1)])
    assert model.score(BITS, labels[joint.argmax(axis=1)]) == 1.0


@kinds
def test_likelihoods_are_those_of_enumeration(kind):
    model, values = strong(kind)
    joint, labels = log_joint(model, values), order_of(model, kind, values)
    assert_allclose(model.score_samples(BITS), logsumexp(joint, axis=1), rtol=1e-9)
    for k in range(len(values)):
        given = np.array([labels[k]] * len(BITS))
        assert_allclose(model.score_samples(BITS, given), joint[:, k], rtol=1e-9)
    assert_allclose(logsumexp(model.score_samples(BITS)), 0, atol=1e-9)


@kinds
def test_features_are_means_over_the_labels(kind):
    model, values = strong(kind)
    W, c = model.rbm_.components_, model.rbm_.intercept_hidden_
    p = np.exp(log_softmax(log_joint(model, values), axis=1))
    hidden = [expit(BITS @ W[:, :4].T + value @ W[:, 4:].T + c) for value in values]
    assert_allclose(model.transform(BITS), np.einsum("nk,knh->nh", p, hidden), rtol=1e-9)


def test_missing_features_are_summed_out():
    model, values = strong("label")
    rows = np.array([[np.nan, 1, 0, 1], [0, np.nan, np.nan, 1]])
    joint = log_joint(model, values)
    for row, p in zip(rows, model.predict_proba(rows), strict=True):
        agree = (np.isnan(row) | (row == BITS)).all(axis=1)
        expected = logsumexp(joint[agree], axis=0)
        assert_allclose(p, np.exp(expected - logsumexp(expected)), rtol=1e-7)


@kinds
def test_draws_given_a_label_have_its_distribution(kind):
    """20 000 chains of 30 sweeps: the error of a probability is below 5 / sqrt(80 000) = 0.018.

    Five standard errors; 16 of them are exceeded once in 10^5 seeds.
    """
    model, values = strong(kind)
    p = np.exp(log_joint(model, values)[:, 1])
    label = order_of(model, kind, values)[1]
    rows, drawn = model.sample(20_000, y=label, n_steps=30, random_state=0)
    assert (drawn == label).all() and drawn.shape == (20_000, *np.shape(label))
    found = np.bincount((rows @ [8, 4, 2, 1]).astype(int), minlength=16) / 20_000
    assert_allclose(found, p / p.sum(), atol=0.018)


def test_draws_of_features_and_labels():
    """As above; labels are drawn with the features."""
    model, values = strong("label")
    rows, drawn = model.sample(20_000, n_steps=50, random_state=0)
    found = np.zeros((16, 3))
    codes = (rows @ [8, 4, 2, 1]).astype(int), np.searchsorted(LABELS, drawn)
    np.add.at(found, codes, 1 / 20_000)
    assert_allclose(found, np.exp(log_joint(model, values)), atol=0.018)


@kinds
@pytest.mark.parametrize("part", [1.0, 0.3])
def test_discriminative_gradients(kind, part):
    """By finite differences of (1 - part) log p(x, y) + part log p(y | x), with sums for chains."""
    model, values = strong(kind)
    columns, machine = LabelColumns(values, part), model.rbm_.machine_
    rows = np.concatenate([BITS[[3, 6, 9]], values[[0, 1, 1]]], axis=1)
    every = np.concatenate([np.repeat(BITS, len(values), axis=0), np.tile(values, (16, 1))], axis=1)
    p = np.exp(log_joint(model, values)).ravel()
    mixed = columns.mixed(machine, data_moments(machine, every, p), rows)
    slopes = MachineGradient(machine, data_moments(machine, rows) - mixed)
    parameters = (*machine.weights, *(theta.field for theta in machine.thetas))
    found = slopes.arrays(parameters)

    def objective(*moved):
        for array, values_now in zip(parameters, moved, strict=True):
            array[...] = values_now  # of the machine itself
        joint = log_joint(model, values, rows[:, :4])
        own = joint[np.arange(3), [0, 1, 1]]
        return np.mean(own - part * logsumexp(joint, axis=1))

    before = [part.copy() for part in parameters]
    for slope, expected in zip(found, slopes_of(objective, before), strict=True):
        assert_allclose(slope, expected, rtol=1e-5, atol=1e-8)


@pytest.mark.law
def test_learning_by_labels_alone_finds_their_probabilities():
    """log p(y | x) of a label that features tell rises to near 0; p(x) does not matter."""
    own = {"n_iter": 60, "optimizer": SGD(alpha=1e-4), "learning_rate": 2.0}
    model = small(own=own, discriminative=1.0).fit(X, y)
    assert model.score(X, y) == 1.0
    log_p = model.predict_log_proba(X)[np.arange(120), np.searchsorted(LABELS, y)]
    assert log_p.mean() > -0.2
    joint = small(own={"n_iter": 60, "learning_rate": 0.5}).fit(X, y)
    assert joint.score_samples(X).mean() > model.score_samples(X).mean()


def test_rows_without_a_label_are_learnt_from():
    """However they are marked; and not as rows of a class of their own."""
    known = np.arange(120) % 3 == 0
    codes = np.searchsorted(LABELS, y)
    marked = [
        (np.where(known, codes, -1), {"unlabelled": -1}),
        (np.where(known, codes, np.nan), {}),
        (np.array([v if k else None for v, k in zip(codes, known, strict=True)], object), {}),
    ]
    fits = [small(**params).fit(X, labels) for labels, params in marked]
    for model in fits:
        assert_array_equal(model.classes_, [0, 1, 2])
        assert_array_equal(model.rbm_.components_, fits[0].rbm_.components_)
    sparse = small(unlabelled=-1).fit(sp.csr_array(X), marked[0][0])
    assert_allclose(sparse.rbm_.components_, fits[0].rbm_.components_, rtol=1e-6, atol=1e-9)
    fewer = small().fit(X[known], codes[known])
    assert not np.array_equal(fewer.rbm_.components_, fits[0].rbm_.components_)
    both = small(unlabelled=-1, discriminative=0.5).fit(X, marked[0][0])
    assert np.isfinite(both.predict_proba(X)).all()


def test_columns_of_a_table_are_those_of_rows_with_weight():
    generator = np.random.default_rng(0)
    X = np.column_stack([generator.normal(size=40), generator.integers(2, size=40)])
    y, others = (X[:, 0] > 0).astype(int), [[1e6, 7.0]] * 5
    model = RBMClassifier(TabularRBM(3, n_iter=2), random_state=0)
    expected = model.fit(X, y).predict_proba(X)
    weights = np.repeat([0.0, 1.0], [5, 40])
    model.fit(np.concatenate([others, X]), np.append(np.ones(5, int), y), sample_weight=weights)
    assert_array_equal(model.predict_proba(X), expected)


@pytest.mark.law
def test_steps_of_few_raw_rows_do_not_run_away():
    """With means that diverge the accuracy is 0.62."""
    X, y = load_breast_cancer(return_X_y=True)
    train = np.random.default_rng(1).random(len(X)) < 0.15
    model = RBMClassifier(random_state=0).fit(X[train], y[train])
    assert model.score(X[~train], y[~train]) > 0.9


@pytest.mark.parametrize(
    "estimator", [TabularRBM(4, n_iter=20), pytest.param(None, marks=pytest.mark.law)]
)
def test_mixed_tables(estimator):
    """Text tells the label, so that at most 2 of 200 rows, of which 4 are doubtful, are wrong."""
    rng = np.random.default_rng(0)
    y = rng.random(200) < 0.5
    town = np.where(rng.random(200) < 0.01, "Rome", np.where(y, "Oslo", "Lima"))
    X = pd.DataFrame({"town": town, "age": rng.normal(30, 5, 200)})
    model = RBMClassifier(estimator, random_state=0).fit(X, y)
    assert model.score(X, y) >= 0.99
    assert model.predict(X.assign(age=None).head(3)).shape == (3,)
    drawn, labels = model.sample(50, y=True, random_state=0)
    assert list(drawn) == list(X) and set(drawn["town"]) <= set(town) and labels.all()
    as_array = RBMClassifier(estimator, random_state=0).fit(X.to_numpy(dtype=object), y)
    assert_array_equal(as_array.predict(X.to_numpy(dtype=object)), model.predict(X))


@pytest.mark.parametrize(
    "target",
    [
        None,
        np.zeros(120),
        np.full(120, np.nan),
        np.linspace(0, 1, 120),
        np.zeros((120, 13)),
        np.zeros(3),
        np.array(["a", 1] * 60, object),
    ],
    ids=["None", "one class", "NaN", "continuous", "13 labels", "3 rows", "mixed"],
)
def test_bad_labels(target):
    with pytest.raises(ValueError, match=r"y|label|samples"):
        small().fit(X, target)


@pytest.mark.law
def test_classes_of_few_real_columns_by_default():
    """With independent precisions 256 hidden units ran away in a third of the fits."""
    X, y = load_iris(return_X_y=True)
    for seed in range(4):
        folds = StratifiedKFold(3, shuffle=True, random_state=seed)
        scores = cross_val_score(RBMClassifier(random_state=seed), X, y, cv=folds)
        assert scores.min() > 0.85
