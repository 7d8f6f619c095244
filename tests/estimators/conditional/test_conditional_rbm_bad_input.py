"""ConditionalRBM: fits that go wrong, data at the edge, and errors that say what to do."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from _conditional_rbm import Batches, assert_same, data, every, labels, small, told, values
from numpy.testing import assert_array_equal
from sklearn.exceptions import DataConversionWarning, NotFittedError

from skrbm import ConditionalRBM
from skrbm.exceptions import DivergenceError
from skrbm.inference import ContrastiveDivergence, Gibbs, _odds


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rate", [1e3, 1e30, 1e300])
def test_huge_learning_rates(objective, inference, dtype, rate):
    """A fit says that it diverged and keeps the last epoch, or it gives what can predict."""
    X, Y = data(dtype=dtype)
    crbm = small(objective=objective, inference=inference, warm_start=True).fit(X, Y)
    before, n_iter = values(crbm), crbm.n_iter_
    try:
        crbm.set_params(learning_rate=rate, n_iter=1).fit(X, Y)
    except DivergenceError as error:
        assert "Lower learning_rate" in str(error) and "last complete epoch" in str(error)
        assert crbm.n_iter_ == n_iter and crbm._training.optimizer_state is None
        for one, other in zip(values(crbm), before, strict=True):
            assert_array_equal(one, other)
    with np.errstate(over="ignore", invalid="ignore"):
        assert crbm.predict(X).shape == Y.shape
    assert all(np.isfinite(part).all() for part in values(crbm))


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_parameters_too_large_to_predict_with_are_a_divergence(method):
    """Though they are finite, and the last batch met no error."""
    X, Y = data()
    crbm = small(learning_rate=1e6, n_iter=1, batch_size=60)
    with pytest.raises(DivergenceError, match=r"after epoch 1.*weights"):
        getattr(crbm, method)(X, Y)
    assert np.abs(crbm.components_).max() < _odds.LARGEST_WEIGHT["float64"]
    assert crbm.n_iter_ == 0 and crbm.predict(X).shape == Y.shape


@pytest.mark.parametrize("target", ["outputs", "classes"])
@pytest.mark.parametrize("inference", ["bp", "mean_field", "cd"])
def test_features_whose_fields_overflow(inference, target):
    """They are finite, and not in the machine's float32 or after a product."""
    X, Y = data(dtype=np.float32)
    crbm = small(inference=inference).fit(X, Y if target == "outputs" else np.arange(len(X)) % 3)
    with np.errstate(over="ignore", invalid="ignore"):
        for method in ("predict", "predict_proba", "decision_function", "transform", "sample"):
            with pytest.raises(ValueError, match="fields is not finite in float32: scale X"):
                getattr(crbm, method)(1e39 * X.astype(np.float64))


@pytest.mark.parametrize("momentum", [0.0, 0.5])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_interruption_keeps_the_last_fit(method, momentum):
    """In the third batch after a fit of two epochs, of which each has six."""
    X, Y = data()
    batches = Batches(stop=15)
    crbm = small(n_iter=2, momentum=momentum, warm_start=True, inference=told(batches)).fit(X, Y)
    expected = values(crbm)
    with pytest.raises(KeyboardInterrupt):
        getattr(crbm, method)(X, Y)
    assert len(batches.seen) == 15
    assert crbm.n_iter_ == 2 and crbm._training.optimizer_state is None
    for one, other in zip(values(crbm), expected, strict=True):
        assert_array_equal(one, other)
    assert crbm.fit(X, Y).n_iter_ == 4


def test_interruption_keeps_the_last_complete_epoch():
    X, Y = data()
    expected = small(n_iter=2, inference=ContrastiveDivergence()).fit(X, Y)
    crbm = small(n_iter=9, inference=told(Batches(stop=15)))
    with pytest.raises(KeyboardInterrupt):
        crbm.fit(X, Y)
    assert crbm.n_iter_ == len(crbm.history_["epoch"]) == 2
    assert_same(crbm, expected)


def test_interruption_of_logistic_regression_keeps_what_it_learnt():
    """The machine then starts at its last complete epoch."""

    def schedule(progress):
        if progress == 2 / 9:
            raise KeyboardInterrupt
        return 1.0

    X, Y = data()
    expected = small(n_components=0, n_iter=2, shuffle=False).fit(X, Y)
    crbm = small(init="logistic", n_iter=9, shuffle=False, schedule=schedule)
    with pytest.raises(KeyboardInterrupt):
        crbm.fit(X, Y)
    assert crbm.n_iter_ == 0 and crbm.predict(X).shape == Y.shape
    assert_array_equal(crbm.coef_visible_, expected.coef_visible_)
    assert crbm.set_params(schedule="constant").fit(X, Y).n_iter_ == 9


@pytest.mark.parametrize(
    "change, message",
    [
        ({"objective": "margin", "inference": "gibbs"}, "does not work with inference"),
        ({"inference": Gibbs}, "'inference' parameter"),
        ({"n_sweeps": lambda epoch: 0}, "n_sweeps must be an integer >= 1, got 0"),
    ],
)
def test_a_fit_that_cannot_begin_leaves_the_last_one(change, message):
    """Though it would have had other features, and outputs in place of a label."""
    X, Y = data()
    crbm = small().fit(X, labels(Y))
    history, before, old = crbm.history_, crbm.predict(X), crbm.get_params()
    with pytest.raises(ValueError, match=message):
        crbm.set_params(**change).fit(X[:, :2], Y)
    crbm.set_params(**old)
    assert crbm.history_ is history
    assert_array_equal(crbm.predict(X), before)
    assert crbm.partial_fit(X, labels(Y)).n_iter_ == 4


@every
def test_unscaled_features(objective, inference):
    X, Y = data()
    crbm = small(objective=objective, inference=inference).fit(1e6 * X, Y)
    assert all(np.isfinite(part).all() for part in values(crbm))
    assert np.isfinite(crbm.predict_proba(1e6 * X)).all()
    assert np.isfinite(crbm.score_samples(1e6 * X, Y)).all()


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


def repeated(Y):
    """All ones of Y in CSR format, and that of the first row once more."""
    Y = sp.csr_array(np.where(np.arange(Y.size).reshape(Y.shape) == 0, 1.0, Y))
    indices, data = np.insert(Y.indices, 0, 0), np.insert(Y.data, 0, 1)
    return sp.csr_array((data, indices, Y.indptr + (np.arange(len(Y.indptr)) > 0)), Y.shape)


BAD = [
    (lambda X, Y: (X, 2 * Y - 1), r"-1 and 1: give \(Y \+ 1\) / 2"),
    (lambda X, Y: (X, 2 * Y), r"must contain only 0 and 1"),
    (lambda X, Y: (X, Y[:-1]), r"inconsistent numbers of samples"),
    (lambda X, Y: (np.where(X > 1, np.nan, X), Y), "contains NaN"),
    (lambda X, Y: (sp.csr_array(np.where(X > 1, np.nan, X)), Y), "contains NaN"),
    (lambda X, Y: (np.where(X > 1, np.inf, X), Y), "contains infinity"),
    (lambda X, Y: (X[:, :0], Y), r"0 feature\(s\)"),
    (lambda X, Y: (X[:0], Y[:0]), r"0 sample\(s\)"),
    (lambda X, Y: (X[:, 0], Y), "Expected 2D array, got 1D"),
    (lambda X, Y: (X, sp.csr_array(np.where(Y == 1, np.nan, 0))), "sparse Y must not contain NaN"),
    (lambda X, Y: (X, repeated(Y)), r"must contain only 0 and 1.*\[1\. 2\.\]"),
    (lambda X, Y: (X, np.where(Y[:, :1], np.nan, 1)), "one label must be known"),
    (lambda X, Y: (X, None), "requires y to be passed"),
    (lambda X, Y: (X, X[:, 0]), "Unknown label type"),
]


@pytest.mark.parametrize("make, words", BAD)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_bad_data(make, words, method):
    X, Y = make(*data())
    with pytest.raises(ValueError, match=words):
        getattr(small(), method)(X, Y)


def test_targets_of_which_nothing_can_be_learnt():
    """By partial_fit it may be, of rows to come, and of a label it needs all classes."""
    X, Y = data()
    with pytest.raises(ValueError, match=r"columns \[1\] of Y are NaN alone"):
        small().fit(X, np.where(np.arange(4) == 1, np.nan, Y))
    with pytest.raises(ValueError, match=r"one class only, 1\.0"):
        small().fit(X, np.ones(60))
    with pytest.raises(ValueError, match="one class only, ant"):
        small().partial_fit(X, np.full(60, "ant"), classes=["ant"])
    with pytest.raises(ValueError, match="name all classes of the label, in `classes`"):
        small().partial_fit(X, np.ones(60))
    with pytest.raises(ValueError, match=r"labels \['cat'\] that are not in classes"):
        small().partial_fit(X, labels(Y), classes=["ant", "bee"])


@pytest.mark.parametrize("name", ["objective", "inference", "decision"])
def test_names_that_are_set_after_fit(name):
    X, Y = data()
    crbm = small().fit(X, Y).set_params(**{name: "nonsense"})
    with pytest.raises(ValueError, match=f"{name} must be one of .*'.*got 'nonsense'"):
        crbm.predict(X)


def test_a_column_of_outputs_is_a_label():
    X, Y = data()
    with pytest.warns(DataConversionWarning):
        crbm = small().fit(X, Y[:, :1])
    assert crbm.predict(X).shape == (60,) and crbm.predict_proba(X).shape == (60, 2)


def test_targets_of_other_calls():
    X, Y = data()
    crbm, label = small(warm_start=True).fit(X, Y), small(warm_start=True).fit(X, labels(Y))
    for method in ("fit", "partial_fit", "score_samples"):
        with pytest.raises(ValueError, match=r"Y has shape \(60, 3\).* 4 outputs"):
            getattr(crbm, method)(X, Y[:, :3])
        with pytest.raises(ValueError, match=r"y has shape \(60, 4\).*one label"):
            getattr(label, method)(X, Y)
        with pytest.raises(ValueError, match=r"not among the classes.*\['dog'\]"):
            getattr(label, method)(X, np.where(labels(Y) == "ant", "dog", "bee"))
    with pytest.raises(ValueError, match=r"classes=\['ant', 'bee'\] are not those of this machine"):
        label.partial_fit(X, labels(Y), classes=["ant", "bee"])
    with pytest.raises(ValueError, match=r"n_components=7, but .* 5 hidden units"):
        crbm.set_params(n_components=7).fit(X, Y)


def test_misuse_of_a_fitted_machine():
    X, Y = data()
    crbm, label = small().fit(X, Y), small().fit(X, labels(Y))
    for method in ("predict", "predict_proba", "decision_function", "transform", "score_samples"):
        with pytest.raises(ValueError, match="2 features, but ConditionalRBM is expecting 3"):
            getattr(crbm, method)(X[:, :2])
        with pytest.raises(ValueError, match=r"0 sample\(s\)"):
            getattr(crbm, method)(X[:0])
    with pytest.raises(ValueError, match="2 features"):
        crbm.sample(X[:, :2])
    with pytest.raises(ValueError, match=r"Y contains NaN; impute"):
        crbm.score_samples(X, np.where(Y == 1, np.nan, Y))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        crbm.score_samples(X, Y[:5])
    with pytest.raises(ValueError, match=r"-1 and 1: give \(Y \+ 1\) / 2"):
        crbm.score_samples(X, 2 * Y - 1)
    for y in (labels(Y), np.full(60, np.nan), np.eye(3)[np.minimum(Y.sum(axis=1), 2)]):
        with pytest.raises(ValueError, match=r"fitted to one label.*use predict"):
            label.impute(X, y)
    with pytest.raises(ValueError, match=r"shape \(60,\), .* 4 outputs"):
        crbm.impute(X, Y[:, 0])
    for n in (0, 1.5, "2", None, True):
        with pytest.raises(ValueError, match="n_samples must be an integer >= 1"):
            crbm.sample(X, n)
        with pytest.raises(ValueError, match="n_steps must be an integer >= 1"):
            crbm.sample(X, n_steps=n)


@pytest.mark.parametrize(
    "call",
    [
        lambda crbm, X, Y: crbm.predict(X),
        lambda crbm, X, Y: crbm.predict_proba(X),
        lambda crbm, X, Y: crbm.decision_function(X),
        lambda crbm, X, Y: crbm.transform(X),
        lambda crbm, X, Y: crbm.score_samples(X, Y),
        lambda crbm, X, Y: crbm.sample(X),
        lambda crbm, X, Y: crbm.impute(X, Y),
        lambda crbm, X, Y: crbm.machine_,
        lambda crbm, X, Y: crbm.get_feature_names_out(),
    ],
)
def test_unfitted(call):
    with pytest.raises(NotFittedError):
        call(ConditionalRBM(), *data())


@pytest.mark.parametrize(
    "name, value",
    [
        ("n_components", -1),
        ("n_components", 2.5),
        ("objective", "hinge"),
        ("inference", "cd1"),
        ("inference", Gibbs),
        ("decision", "mode"),
        ("n_sweeps", 0),
        ("n_sweeps", 1.5),
        ("early_stopping", "score"),
        ("learning_rate", 0),
        ("batch_size", 0),
        ("warm_start", "yes"),
    ],
)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_hyper_parameters(name, value, method):
    with pytest.raises(ValueError, match=f"The '{name}' parameter of ConditionalRBM must be"):
        getattr(small(**{name: value}), method)(*data())


@pytest.mark.parametrize("params", [{"learning_rate": -1.0}, {"batch_size": 0}, {"alpha": -1}])
def test_partial_fit_checks_parameters_that_were_set_after_the_first_call(params):
    crbm, (X, Y) = small(), data()
    crbm.fit(X, Y).set_params(**params)
    with pytest.raises(ValueError, match=next(iter(params))):
        crbm.partial_fit(X, Y)
