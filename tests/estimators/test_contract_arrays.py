"""Contract of all estimators: containers and dtypes of data, pickles, clones and random states."""

import pickle
import warnings

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from _estimators import (
    DENSITIES,
    PATHS,
    SCORES,
    answers,
    assert_same_state,
    binary_data,
    copied_state,
    learn,
    read_only,
    small,
    state,
    with_parameters,
)
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError

from skrbm import RBM, FrankWolfeRBM, ReplicatedSoftmaxRBM

every = pytest.mark.parametrize("Estimator", PATHS)
pytestmark = pytest.mark.filterwarnings("ignore:the model has no hidden unit")
WHOLE_NUMBERS = ("predict", "sample", "impute")  # of a classifier


@every
@pytest.mark.parametrize(
    "given, expected", [(np.float32, np.float32), (np.uint8, np.float32), (np.int64, np.float64)]
)
def test_dtypes(Estimator, given, expected):
    X = binary_data(dtype=given)
    estimator = learn(small(Estimator), X)
    if hasattr(estimator, "partial_fit"):  # the dtype of parameters does not change
        learn(estimator, binary_data(dtype=np.float64), "partial_fit")
    results = {**state(estimator), **answers(estimator, X)}
    wanted = dict.fromkeys(results, expected)
    wanted |= dict.fromkeys(SCORES, np.float64) | {"multiplicities_0": np.float64}
    if is_classifier(estimator):
        wanted |= dict.fromkeys(WHOLE_NUMBERS, np.int64)
    wrong = {name: x.dtype for name, x in results.items() if x.dtype != wanted[name]}
    assert not wrong


@pytest.mark.parametrize("Estimator, library", [*((E, "pandas") for E in PATHS), (RBM, "polars")])
def test_data_frames(Estimator, library):
    frames = pytest.importorskip(library)

    def make(X):
        return frames.DataFrame({f"bit {i}": X[:, i] for i in range(X.shape[1])})

    X = binary_data()
    estimator, expected = learn(small(Estimator), make(X)), read_only(Estimator)
    assert_array_equal(estimator.feature_names_in_, make(X).columns)
    # Columns of a frame are contiguous in memory, which changes the order of sums.
    assert_same_state(estimator, expected, rtol=1e-10, atol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as that of missing feature names
        found = answers(estimator, X, make)
    for name, truth in answers(expected, X).items():
        assert_allclose(found[name], truth, rtol=1e-8, atol=1e-10, err_msg=name)
    names = estimator.get_feature_names_out()
    prefix = Estimator.__name__.lower()
    assert list(names) == [f"{prefix}{j}" for j in range(expected.transform(X).shape[1])]
    hidden = estimator.set_output(transform=library).transform(make(X))
    assert isinstance(hidden, frames.DataFrame) and list(hidden.columns) == list(names)
    with pytest.raises(ValueError, match="feature names"):
        estimator.predict(make(X)[list(make(X).columns)[::-1]])


@pytest.mark.parametrize("Estimator", DENSITIES)
def test_visible_values_are_frames_after_a_fit_to_a_frame(Estimator):
    """Those of a fit to an array are arrays; of values for given rows the index is theirs."""
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(binary_data(), columns=list("abcdefgh"))
    estimator = learn(small(Estimator), X)
    rows = X.iloc[3:7]
    made = [estimator.sample(4, random_state=0)]
    if Estimator is not ReplicatedSoftmaxRBM:
        holes = rows.assign(c=[np.nan, 0, np.nan, 1])
        noise = "flip_probability" if estimator.machine_.units[0].is_binary else "noise_variance"
        filled = estimator.impute(holes, random_state=0)
        made += [filled, estimator.denoise(rows, **{noise: 0.1}, random_state=0)]
        assert_allclose(filled.where(holes.notna()), holes)
        assert all(table.index.equals(rows.index) for table in made[1:])
    assert all(list(table.columns) == list(X.columns) for table in made)
    estimator = learn(small(Estimator), X.to_numpy())
    assert isinstance(estimator.sample(4, random_state=0), np.ndarray)


# The search for a unit to insert stops at a tolerance of its own, so that rounding matters: in
# 24 fits in float64, weights from dense and sparse rows differed by 1e-13 to 6e-5.
SEARCHED = 1e-3
FORMATS = (sp.csr_matrix, sp.csc_array, sp.coo_matrix)


@pytest.mark.parametrize(
    "Estimator, container",
    [*((E, sp.csr_array) for E in PATHS), *((RBM, container) for container in FORMATS)],
)
def test_sparse_is_dense(Estimator, container):
    X = binary_data()
    dense, sparse = read_only(Estimator), learn(small(Estimator), container(X))
    tolerance = SEARCHED if Estimator is FrankWolfeRBM else 1e-10
    assert_same_state(sparse, dense, rtol=tolerance, atol=tolerance)
    without = ["impute"] if is_classifier(dense) else ["impute", "predict"]
    expected = answers(dense, X, without=without)
    for name, found in answers(dense, X, container, without).items():
        # An energy near 0 is a sum of terms that are not.
        assert_allclose(found, expected[name], rtol=1e-10, atol=1e-10, err_msg=name)
        assert isinstance(found, np.ndarray), name
    if not is_classifier(dense):
        with pytest.raises(TypeError, match=r"[Ss]parse"):
            dense.predict(container(X))
    if hasattr(Estimator, "partial_fit"):
        one, other = (learn(small(Estimator), Z, "partial_fit") for Z in (X, container(X)))
        assert_same_state(one, other, rtol=tolerance, atol=tolerance)


def frozen(X):
    for part in [X.data, X.indices, X.indptr] if sp.issparse(X) else [X]:
        part.setflags(write=False)
    return X


@every
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_nothing_writes_into_data(Estimator, make):
    X = binary_data()
    given = frozen(make(X.copy()))
    before = given.copy()
    options = {name: 0.1 for name in ("momentum", "alpha") if hasattr(Estimator(), name)}
    estimator = learn(small(Estimator, **options), given)
    without = ["impute", "predict"] if make is sp.csr_array else []
    answers(estimator, X, lambda x: frozen(make(x.copy())), without)
    if not is_classifier(estimator):
        estimator.sample(len(X), init=given, n_steps=2)
    if hasattr(estimator, "partial_fit"):
        learn(estimator, given, "partial_fit")
    assert (given != before).sum() == 0


@every
def test_results_share_no_memory_with_data_or_estimator(Estimator):
    X = binary_data(n=10)
    given, estimator = X.copy(), read_only(Estimator)
    before = copied_state(estimator)
    results = list(answers(estimator, given).values())
    if not is_classifier(estimator):
        results += [estimator.sample(10, init=given, n_steps=0), estimator.sample(10, n_steps=0)]
        results += [estimator.impute(given)] if hasattr(estimator, "impute") else []
    for result in results:
        result += 7
    assert_array_equal(given, X)
    assert_same_state(estimator, before)


@every
def test_files_and_memory_maps_continue_as_the_original(Estimator, tmp_path):
    X = binary_data()
    params = {"momentum": 0.5} if Estimator in with_parameters("momentum") else {}
    joblib.dump(X, tmp_path / "X")
    mapped = joblib.load(tmp_path / "X", mmap_mode="r")
    estimator, expected = (
        learn(small(Estimator, warm_start=True, **params), Z) for Z in (mapped, X)
    )
    assert_same_state(estimator, expected)
    joblib.dump(estimator, tmp_path / "estimator")
    loaded = joblib.load(tmp_path / "estimator", mmap_mode="r")
    assert not any(part.flags.writeable for part in state(loaded).values())
    found = answers(loaded, X, lambda x: mapped if x is X else x)
    for name, truth in answers(expected, X).items():
        assert_array_equal(found[name], truth, err_msg=name)
    assert_same_state(learn(loaded, mapped), learn(expected, X))
    if hasattr(estimator, "partial_fit"):
        assert_same_state(learn(loaded, mapped, "partial_fit"), learn(expected, X, "partial_fit"))


@every
def test_clones_and_random_states(Estimator):
    X = binary_data()
    copied = clone(read_only(Estimator))
    with pytest.raises(NotFittedError):
        copied.transform(X)
    assert_same_state(learn(copied, X), read_only(Estimator))
    expected = answers(read_only(Estimator), X)
    for name, found in answers(copied, X).items():
        assert_array_equal(found, expected[name], err_msg=name)
    generator = np.random.RandomState(1)
    fits = [learn(small(Estimator, random_state=s), X) for s in (2, generator, generator)]
    found = {copied_state(fit)["components_0"].tobytes() for fit in (copied, *fits)}
    assert len(found) == 4


@pytest.mark.parametrize("Estimator", DENSITIES)
def test_sampling_does_not_change_the_estimator(Estimator):
    X = binary_data()
    estimator = learn(small(Estimator), X)
    before = pickle.dumps(estimator)
    answers(estimator, X, without=SCORES)  # which cache log Z
    estimator.sample(4)
    assert pickle.dumps(estimator) == before
