"""What every estimator keeps to: kinds of arrays go in, and what comes out of them.

An estimator is in each test whose methods and parameters it has.
"""

import pickle
import warnings

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from _estimators import (
    DENSITIES,
    NUMERIC,
    SCORES,
    answers,
    assert_same_state,
    binary_data,
    copied_state,
    learn,
    small,
    state,
    with_methods,
    with_parameters,
)
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError

from skrbm import FrankWolfeRBM

every = pytest.mark.parametrize("Estimator", NUMERIC)
streams = pytest.mark.parametrize("Estimator", with_methods("partial_fit", among=NUMERIC))
pytestmark = pytest.mark.filterwarnings("ignore:the machine has no hidden unit")
WHOLE_NUMBERS = ("predict", "sample", "impute")  # of a classifier


@every
@pytest.mark.parametrize(
    "given, expected",
    [
        (np.float32, np.float32),
        (np.float64, np.float64),
        (np.float16, np.float32),
        (np.uint8, np.float32),
        (bool, np.float32),
        (np.int64, np.float64),
    ],
)
def test_dtypes(Estimator, given, expected):
    X = binary_data(dtype=given)
    estimator = learn(small(Estimator), X)
    results = {**state(estimator), **answers(estimator, X)}
    if not is_classifier(estimator):
        results["sample without a step"] = estimator.sample(3, n_steps=0, random_state=0)
        results["sample from X"] = estimator.sample(len(X), init=X, n_steps=2, random_state=0)
    wanted = dict.fromkeys(results, expected)
    wanted |= dict.fromkeys(SCORES, np.float64) | {"multiplicities_0": np.float64}
    if is_classifier(estimator):
        wanted |= dict.fromkeys(WHOLE_NUMBERS, np.int64)
    wrong = {name: x.dtype for name, x in results.items() if x.dtype != wanted[name]}
    assert not wrong


@every
def test_dtype_of_parameters_survives_other_data(Estimator):
    estimator = learn(small(Estimator), binary_data(dtype=np.float32))
    if hasattr(estimator, "partial_fit"):
        learn(estimator, binary_data(seed=1), "partial_fit")
    found = {**state(estimator), "transform": estimator.transform(binary_data())}
    assert {x.dtype for name, x in found.items() if "multiplicities" not in name} == {
        np.dtype(np.float32)
    }


@every
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames(Estimator, library):
    frames = pytest.importorskip(library)

    def make(X):
        return frames.DataFrame({f"bit {i}": X[:, i] for i in range(X.shape[1])})

    X = binary_data()
    estimator = learn(small(Estimator), make(X))
    assert_array_equal(estimator.feature_names_in_, make(X).columns)
    expected = learn(small(Estimator), X)
    # Columns of a frame lie together in memory, and are summed in another order.
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


FORMATS = (sp.csr_array, sp.csr_matrix, sp.csc_matrix, sp.csc_array, sp.coo_matrix, sp.coo_array)
# The search for a unit to insert stops at a tolerance of its own. Where depends on rounding: over
# 24 fits in float64, weights from dense and sparse rows differed by 1e-13 to 6e-5.
SEARCHED = 1e-3
SPARSE = [(E, container, np.float64) for E in NUMERIC for container in FORMATS]
SPARSE += [
    (E, sp.csr_array, d)
    for E in with_parameters("n_iter", among=NUMERIC)
    for d in (np.float32, np.uint8)
]


@pytest.mark.parametrize("Estimator, container, dtype", SPARSE)
def test_sparse_is_dense(Estimator, container, dtype):
    X = binary_data(dtype=dtype)
    dense, sparse = learn(small(Estimator), X), learn(small(Estimator), container(X))
    # The same random numbers, and the same batches as dense arrays; the log-odds at the start
    # are a sum in another order.
    tolerance = 1e-10 if dtype == np.float64 else 1e-4
    tolerance = SEARCHED if Estimator is FrankWolfeRBM else tolerance
    assert_same_state(sparse, dense, rtol=tolerance, atol=tolerance)
    without = ["impute"] if is_classifier(dense) else ["impute", "predict"]
    expected = answers(dense, X, without=without)
    rtol = 1e-10 if dtype == np.float64 else 1e-5
    for name, found in answers(dense, X, container, without).items():
        # An energy near 0 is a sum of terms that are not.
        assert_allclose(found, expected[name], rtol=rtol, atol=rtol, err_msg=name)
        assert isinstance(found, np.ndarray), name
    for name in set(without) - {"impute"} if is_classifier(dense) else without:
        if not hasattr(dense, name):
            continue
        with pytest.raises(TypeError, match=r"[Ss]parse"):
            getattr(dense, name)(container(X))


@streams
def test_partial_fit_takes_sparse_data(Estimator):
    X = binary_data()
    sparse, dense = (
        learn(learn(small(Estimator), Z, "partial_fit"), Z, "partial_fit")
        for Z in (sp.csr_array(X), X)
    )
    assert_same_state(sparse, dense, rtol=1e-10, atol=1e-10)


def read_only(X):
    for part in [X.data, X.indices, X.indptr] if sp.issparse(X) else [X]:
        part.setflags(write=False)
    return X


@pytest.mark.parametrize(
    "Estimator, options",
    [(E, {}) for E in NUMERIC] + [(E, {"binarize": 0.5}) for E in with_parameters("binarize")],
)
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_nothing_writes_into_data(Estimator, make, options):
    X = binary_data()
    given = make(X.copy())
    before = given.copy()
    read_only(given)
    options = {**options, **{n: 0.1 for n in ("momentum", "alpha") if hasattr(Estimator(), n)}}
    estimator = learn(small(Estimator, **options), given)
    without = ["impute", "predict"] if make is sp.csr_array else []
    answers(estimator, X, lambda x: read_only(make(x.copy())), without)
    if not is_classifier(estimator):
        estimator.sample(len(X), init=given, n_steps=2)
    if hasattr(estimator, "partial_fit"):
        learn(estimator, given, "partial_fit")
    assert (given != before).sum() == 0


@every
def test_what_is_returned_is_the_callers_own(Estimator):
    X = binary_data(n=10)
    given, estimator = X.copy(), learn(small(Estimator), X)
    before = copied_state(estimator)
    results = list(answers(estimator, given).values())
    if not is_classifier(estimator):
        results += [estimator.sample(10, init=given, n_steps=0), estimator.sample(10, n_steps=0)]
        results += [estimator.impute(given)] if hasattr(estimator, "impute") else []
    for result in results:
        result += 7
    assert_array_equal(given, X)
    assert_same_state(estimator, before)


@pytest.mark.parametrize(
    "Estimator, params",
    [(E, {}) for E in NUMERIC] + [(E, {"momentum": 0.5}) for E in with_parameters("momentum")],
)
def test_memory_maps(Estimator, tmp_path, params):
    X = binary_data()
    joblib.dump(X, tmp_path / "X")
    mapped = joblib.load(tmp_path / "X", mmap_mode="r")
    estimator = learn(small(Estimator, **params), mapped)
    expected = learn(small(Estimator, **params), X)
    assert_same_state(estimator, expected)
    before = copied_state(expected)

    joblib.dump(estimator, tmp_path / "estimator")
    loaded = joblib.load(tmp_path / "estimator", mmap_mode="r")
    assert not any(part.flags.writeable for part in state(loaded).values())
    found = answers(loaded, X, lambda x: mapped if x is X else x)
    for name, truth in answers(expected, X).items():
        assert_array_equal(found[name], truth, err_msg=name)
    if hasattr(estimator, "partial_fit"):
        assert_same_state(learn(loaded, mapped, "partial_fit"), learn(expected, X, "partial_fit"))
    assert_same_state(joblib.load(tmp_path / "estimator"), before)


@every
def test_pickle_goes_on_as_the_original(Estimator):
    X = binary_data()
    params = {"momentum": 0.5} if Estimator in with_parameters("momentum") else {}
    estimator = learn(small(Estimator, warm_start=True, **params), X)
    copied = pickle.loads(pickle.dumps(estimator))
    expected = answers(estimator, X)
    for name, found in answers(copied, X).items():
        assert_array_equal(found, expected[name], err_msg=name)
    assert_same_state(learn(copied, X), learn(estimator, X))
    if hasattr(Estimator, "partial_fit"):
        assert_same_state(learn(copied, X, "partial_fit"), learn(estimator, X, "partial_fit"))


@every
def test_clone_is_unfitted_and_fits_alike(Estimator):
    X = binary_data()
    estimator = learn(small(Estimator), X)
    copied = clone(estimator)
    with pytest.raises(NotFittedError):
        copied.transform(X)
    assert_same_state(learn(copied, X), estimator)


@every
def test_random_state(Estimator):
    X = binary_data()
    one, same, other = (learn(small(Estimator, random_state=seed), X) for seed in (1, 1, 2))
    assert_same_state(one, same)
    ours, theirs = copied_state(one)["components_0"], copied_state(other)["components_0"]
    assert ours.shape != theirs.shape or not np.allclose(ours, theirs)
    expected = answers(one, X)
    for name, found in answers(same, X).items():
        assert_array_equal(found, expected[name], err_msg=name)
    state = np.random.RandomState(1)
    first, second = (learn(small(Estimator, random_state=state), X) for _ in range(2))
    ours, theirs = copied_state(first)["components_0"], copied_state(second)["components_0"]
    assert ours.shape != theirs.shape or not np.allclose(ours, theirs)


@pytest.mark.parametrize("Estimator", DENSITIES)
def test_sampling_leaves_the_fitted_state_alone(Estimator):
    X = binary_data()
    estimator = learn(small(Estimator), X)
    before = pickle.dumps(estimator)
    answers(estimator, X, without=SCORES)  # which keep log Z, once it is known
    estimator.sample(4)
    if hasattr(estimator, "gibbs"):
        estimator.gibbs(X)
    assert pickle.dumps(estimator) == before
