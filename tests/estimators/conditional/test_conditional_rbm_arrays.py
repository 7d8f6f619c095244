"""ConditionalRBM: arrays of all kinds, and scikit-learn's tools around it."""

import pickle
import warnings
from contextlib import nullcontext

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from _conditional_rbm import (
    OBJECTIVES,
    WORDS,
    assert_same,
    data,
    every,
    holes_in,
    labels,
    small,
    values,
)
from _libraries import OTHER_LIBRARIES
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skrbm import ConditionalRBM
from skrbm.arrays import to_numpy
from skrbm.estimators.conditional._machine import PARAMETERS
from skrbm.inference import BeliefPropagation, _propagation

deterministic = pytest.mark.parametrize(
    "objective, inference", [o for o in OBJECTIVES if o[1] not in ("cd", "gibbs")]
)
with_callbacks = pytest.mark.skipif(
    not hasattr(ConditionalRBM, "set_callbacks"), reason="callbacks came with scikit-learn 1.9"
)


@every
@pytest.mark.parametrize(
    "given, expected", [(np.float32, np.float32), (np.float64, np.float64), (np.int64, np.float64)]
)
def test_dtypes(objective, inference, given, expected):
    X, Y = data()
    X = np.round(3 * X).astype(given)
    crbm = small(objective=objective, inference=inference, momentum=0.5, alpha=0.1).fit(X, Y)
    results = [*values(crbm), crbm.predict_proba(X), crbm.decision_function(X), crbm.transform(X)]
    assert {result.dtype for result in results} == {np.dtype(expected)}
    assert crbm.score_samples(X).dtype == np.float64
    crbm.partial_fit(X.astype(np.float64), Y.astype(bool))
    assert crbm.components_.dtype == expected


@every
@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csc_array, sp.coo_array])
def test_sparse_is_dense(objective, inference, container):
    X, Y = data()
    X = np.where(np.abs(X) < 0.5, 0, X)
    params = {"objective": objective, "inference": inference, "early_stopping": True}
    dense = small(**params).fit(X, Y)
    sparse = small(**params).fit(container(X), container(Y))
    assert_same(sparse, dense)
    for method in ("predict", "predict_proba", "decision_function", "transform", "score_samples"):
        found = getattr(dense, method)(container(X))
        assert isinstance(found, np.ndarray)
        assert_allclose(found, getattr(dense, method)(X), rtol=1e-8, atol=1e-10)
    assert dense.score(container(X), container(Y)) == dense.score(X, Y)
    scores = dense.score_samples(X, container(Y))
    assert_allclose(scores, dense.score_samples(X, Y), rtol=1e-10)
    assert_array_equal(dense.sample(container(X), random_state=0), dense.sample(X, random_state=0))
    parts = (small(**params).partial_fit(container(X), container(Y)), small(**params))
    assert_same(parts[0], parts[1].partial_fit(X, Y))


@every
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_nothing_writes_into_data(objective, inference, make):
    X, Y = data()
    X, Y = make(X), make(Y)
    for x in (X, Y):
        for part in [x.data, x.indices, x.indptr] if sp.issparse(x) else [x]:
            part.setflags(write=False)
    before = X.copy(), Y.copy()
    crbm = small(objective=objective, inference=inference, momentum=0.5, alpha=0.1)
    crbm.fit(X, Y).partial_fit(X, Y)
    crbm.impute(X, Y)
    crbm.score_samples(X, Y)
    crbm.sample(X)
    crbm.predict(X)
    for x, old in zip((X, Y), before, strict=True):
        assert (x != old).sum() == 0


def test_what_is_returned_is_the_callers_own():
    X, Y = data()
    crbm = small().fit(X, Y)
    before, given = values(crbm), Y.astype(float)
    results = (crbm.predict(X), crbm.impute(X, given), crbm.decision_function(X), crbm.transform(X))
    for result in results:
        result += 7
    assert_array_equal(given, Y)
    for one, other in zip(values(crbm), before, strict=True):
        assert_array_equal(one, other)


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_memory_maps(momentum, tmp_path):
    X, Y = data()
    crbm, expected = (small(momentum=momentum).fit(X, Y) for _ in range(2))
    joblib.dump(crbm, tmp_path / "crbm")
    loaded = joblib.load(tmp_path / "crbm", mmap_mode="r")
    assert not loaded.components_.flags.writeable
    assert_array_equal(loaded.predict_proba(X), crbm.predict_proba(X))
    assert_same(loaded.partial_fit(X, Y), expected.partial_fit(X, Y))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames(library):
    frames = pytest.importorskip(library)
    X, Y = data()
    X_frame = frames.DataFrame({name: X[:, i] for i, name in enumerate("abc")})
    Y_frame = frames.DataFrame({name: Y[:, i] for i, name in enumerate("wxyz")})
    crbm, expected = small().fit(X_frame, Y_frame), small().fit(X, Y)
    assert_same(crbm, expected)
    assert list(crbm.feature_names_in_) == list("abc")
    assert_array_equal(crbm.predict(X_frame), expected.predict(X))
    assert_array_equal(crbm.impute(X_frame, Y_frame), Y)
    holes = holes_in(Y.astype(float))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as of feature names
        filled = crbm.impute(X_frame, frames.DataFrame(dict(zip("wxyz", holes.T, strict=True))))
    assert_array_equal(filled, expected.impute(X, holes))
    assert_allclose(crbm.score_samples(X_frame, Y_frame), expected.score_samples(X, Y))
    hidden = crbm.set_output(transform=library).transform(X_frame)
    names = [f"conditionalrbm{j}" for j in range(5)]
    assert isinstance(hidden, frames.DataFrame) and list(hidden.columns) == names
    assert list(crbm.get_feature_names_out()) == names
    words = small().fit(X_frame, frames.Series(labels(Y).tolist()))
    assert_array_equal(words.predict(X_frame), small().fit(X, labels(Y)).predict(X))


@pytest.mark.arrays
@pytest.mark.parametrize("name", OTHER_LIBRARIES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@every
def test_arrays_stay_in_their_library(name, dtype, objective, inference):
    pytest.importorskip("array_api_compat")
    xp = pytest.importorskip(name)
    X, Y = data(n=30)
    Z, T = xp.asarray(X.astype(dtype)), xp.asarray(Y)
    holes = xp.asarray(holes_in(Y.astype(dtype)))
    crbm = small(objective=objective, inference=inference, momentum=0.5, early_stopping=True)
    crbm.fit(Z, T).partial_fit(Z, holes)
    kind = type(Z)
    for part in PARAMETERS:
        value = getattr(crbm, f"{part}_")
        assert type(value) is kind and value.dtype == Z.dtype
    for value in (crbm.predict_proba(Z), crbm.decision_function(Z), crbm.transform(Z)):
        assert type(value) is kind and value.dtype == Z.dtype
    scores = crbm.score_samples(Z, T)
    assert type(scores) is kind and scores.dtype == xp.float64
    for value in (crbm.predict(Z), crbm.impute(Z, holes), crbm.sample(Z, 2, random_state=0)):
        assert type(value) is kind and value.dtype == xp.int64
    same = ConditionalRBM.from_parameters(
        **dict(zip(PARAMETERS, values(crbm), strict=True)),
        objective=objective,
        inference=inference,
    )
    same.n_sweeps_ = crbm.n_sweeps_
    rtol = 1e-8 if dtype == "float64" else 2e-3
    X = X.astype(dtype)
    for method in ("predict_proba", "decision_function", "transform", "score_samples"):
        found, expected = getattr(crbm, method)(Z), getattr(same, method)(X)
        assert_allclose(to_numpy(found), expected, rtol=rtol, atol=rtol)
    for decision in (None, "joint"):
        crbm.decision = same.decision = decision
        assert_array_equal(to_numpy(crbm.predict(Z)), same.predict(X))
        assert_array_equal(to_numpy(crbm.impute(Z, holes)), same.impute(X, to_numpy(holes)))


@pytest.mark.arrays
@pytest.mark.parametrize("name", OTHER_LIBRARIES)
def test_labels_of_array_libraries(name):
    pytest.importorskip("array_api_compat")
    xp = pytest.importorskip(name)
    X, Y = data(n=30)
    for y in (np.minimum(Y.sum(axis=1), 2), Y[:, 0]):
        crbm = small().fit(xp.asarray(X), xp.asarray(y))
        assert_array_equal(to_numpy(crbm.classes_), np.unique(y))
        found = crbm.predict(xp.asarray(X))
        assert type(found) is type(xp.asarray([0]))
        assert crbm.sample(xp.asarray(X), 2).shape == (30, 2)
        assert crbm.score_samples(xp.asarray(X), xp.asarray(y)).shape == (30,)
    words = small().fit(xp.asarray(X), labels(Y))  # which no array of that library can hold
    assert set(words.predict(xp.asarray(X))) <= set(WORDS)
    init = small(init="logistic").fit(xp.asarray(X), labels(Y))
    assert type(init.components_) is type(xp.asarray([0]))


@pytest.mark.arrays
def test_data_of_another_library_than_the_parameters():
    pytest.importorskip("array_api_compat")
    torch = pytest.importorskip("torch")
    X, Y = data()
    ours, theirs = small().fit(X, Y), small().fit(torch.asarray(X), torch.asarray(Y))
    assert isinstance(ours.predict(torch.asarray(X)), np.ndarray)
    assert isinstance(theirs.predict(X), torch.Tensor)
    assert accuracy_score(Y, theirs.predict(X)) == theirs.score(X, Y)
    with pytest.raises(TypeError, match="sparse X needs parameters in NumPy arrays"):
        theirs.predict(sp.csr_array(X))


# --------------------------------------------------------- scikit-learn's own tools


@every
def test_random_state(objective, inference):
    X, Y = data()
    params = {"objective": objective, "inference": inference}
    one, same, other = (small(random_state=seed, **params).fit(X, Y) for seed in (1, 1, 2))
    assert_same(one, same)
    assert not np.allclose(one.components_, other.components_)
    state = np.random.RandomState(1)
    assert not np.allclose(
        *(small(random_state=state, **params).fit(X, Y).components_ for _ in range(2))
    )


@deterministic
def test_results_do_not_depend_on_threads(objective, inference, monkeypatch):
    X, Y = data(n=40)
    found = []
    for n in (1, 3):
        monkeypatch.setattr(_propagation, "n_threads", lambda n=n: n)
        crbm = small(objective=objective, inference=inference).fit(X, Y)
        found.append([*values(crbm), crbm.predict_proba(X), crbm.score_samples(X, Y)])
    for one, other in zip(*found, strict=True):
        assert_array_equal(one, other)


def test_pickle_goes_on_as_the_original():
    X, Y = data()
    for y in (Y, labels(Y)):
        crbm = small(momentum=0.5, inference="cd").fit(X, y)
        copied = pickle.loads(pickle.dumps(crbm))
        assert_array_equal(copied.predict(X), crbm.predict(X))
        assert_same(copied.partial_fit(X, y), crbm.partial_fit(X, y))


def test_clone_fits_alike():
    X, Y = data()
    crbm = small(inference=BeliefPropagation(damping=0.2)).fit(X, Y)
    copied = clone(crbm)
    with pytest.raises(NotFittedError):
        copied.predict(X)
    assert_same(copied.fit(X, Y), crbm)


def test_pipelines_and_searches():
    """As the classifier at the end, and as features for another one."""
    X, Y = data(n=90)
    pipeline = make_pipeline(StandardScaler(), small())
    search = GridSearchCV(pipeline, {"conditionalrbm__learning_rate": [0.01, 0.1]}, cv=3).fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.predict(X).shape == Y.shape and search.predict_proba(X).shape == Y.shape
    pipeline = make_pipeline(small(), LogisticRegression()).fit(X, labels(Y))
    assert pipeline[-1].n_features_in_ == 5 and 0 < pipeline.score(X, labels(Y)) <= 1
    fits = small()
    assert_array_equal(fits.fit_transform(X, Y), fits.transform(X))


# ----------------------------------------------------------------------- callbacks


class Recorder:
    """A callback that keeps copies of the weights and predictions, and stops after some epochs."""

    def __init__(self, X, stop_after=None):
        self.X, self.stop_after, self.seen, self.n_setups = X, stop_after, [], 0

    def setup(self, estimator, context):
        self.n_setups += 1

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if context.task_name != "epoch":
            return False
        proba = fitted_estimator.predict_proba(self.X)
        self.seen.append((fitted_estimator.components_.copy(), proba))
        return len(self.seen) == self.stop_after


@with_callbacks
@pytest.mark.parametrize("init", ["random", "logistic"])
def test_callbacks_see_each_epoch(init):
    """Once, where another fit comes first."""
    X, Y = data()
    recorder = Recorder(X, stop_after=2)
    crbm = small(n_iter=5, init=init).set_callbacks(recorder).fit(X, Y)
    assert crbm.n_iter_ == len(recorder.seen) == 2 and recorder.n_setups == 1
    assert_array_equal(recorder.seen[-1][0], crbm.components_)
    assert_array_equal(recorder.seen[-1][1], crbm.predict_proba(X))
    assert not np.array_equal(recorder.seen[0][0], crbm.components_)


@with_callbacks
def test_scikit_learns_own_callbacks(capsys):
    callback = pytest.importorskip("sklearn.callback")
    ProgressBar, ScoringMonitor = callback.ProgressBar, callback.ScoringMonitor

    X, Y = data()
    for y in (Y, labels(Y)):
        monitor = ScoringMonitor(scoring="accuracy")
        crbm = small().set_callbacks(monitor).fit(X, y)
        assert_same(crbm, small().fit(X, y))
    with nullcontext() if _has("rich") else pytest.raises(ImportError):
        small().set_callbacks(ProgressBar()).fit(X, Y)
        assert "ConditionalRBM" in capsys.readouterr().out


def _has(name):
    try:
        __import__(name)
    except ImportError:
        return False
    return True
