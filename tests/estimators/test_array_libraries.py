"""Estimators given arrays of another library return arrays of that library."""

import pickle

import numpy as np
import pytest
from _estimators import (
    BINARY,
    PATHS,
    SCORES,
    all_rows,
    answers,
    assert_same_state,
    binary_data,
    learn,
    log_likelihoods,
    parameters,
    small,
    state,
    targets,
    with_holes,
    with_methods,
)
from _libraries import OTHER_LIBRARIES
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import is_classifier

from skrbm import FrankWolfeRBM
from skrbm.arrays import to_numpy

pytestmark = [
    pytest.mark.arrays,
    pytest.mark.filterwarnings("ignore:the model has no hidden unit"),
]
WITH_MISSING = [E for E in PATHS if E().__sklearn_tags__().input_tags.allow_nan]
every = pytest.mark.parametrize("Estimator", PATHS)
binary = pytest.mark.parametrize("RBM", BINARY)


@pytest.fixture(params=OTHER_LIBRARIES)
def library(request):
    return pytest.importorskip(request.param)


def fitted(Estimator, X, library, method="fit", **params):
    """Fit to rows and targets that are arrays of the library."""
    estimator, y = small(Estimator, **params), []
    if is_classifier(estimator):
        y = [library.asarray(targets(X.shape[0]))]
    return getattr(estimator, method)(X, *y)


@every
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arrays_stay_in_their_library(Estimator, library, dtype):
    rows, kind = binary_data(dtype=dtype), type(library.asarray([0.0]))
    estimator = fitted(Estimator, library.asarray(rows), library)
    results = {**state(estimator), **answers(estimator, rows, library.asarray)}
    if not is_classifier(estimator):
        init = library.asarray(rows)
        results["from init"] = estimator.sample(60, init=init, n_steps=2, random_state=0)
    counts = results.pop("multiplicities_0", None)  # belongs to a unit, not to the data
    assert counts is None or isinstance(counts, np.ndarray)
    wanted = dict.fromkeys(results, getattr(library, dtype))
    wanted |= dict.fromkeys(SCORES, library.float64)
    if is_classifier(estimator):
        wanted |= dict.fromkeys(("predict", "sample", "impute"), library.int64)
    for name, value in results.items():
        assert type(value) is kind, name
        assert value.dtype == wanted[name], name
    y = [library.asarray(targets(60))] if is_classifier(estimator) else []
    assert type(estimator.score(library.asarray(rows), *y)) is float
    if "impute" not in results:
        return
    holes = with_holes(targets(60) if is_classifier(estimator) else rows)
    filled = to_numpy(results["impute"])
    assert_array_equal(filled[~np.isnan(holes)], holes[~np.isnan(holes)])
    assert np.isfinite(filled).all()


@binary
def test_numbers_are_those_of_numpy(RBM, library):
    """From the same parameters; random numbers are other ones in each library."""
    rbm = small(RBM, n_components=3).fit(binary_data(n_features=4))
    X = all_rows(4)
    other = RBM.from_parameters(*(library.asarray(part) for part in parameters(rbm)))
    Z = library.asarray(X)
    for method in ("transform", "predict", "score_samples", "free_energy"):
        ours, theirs = getattr(rbm, method)(X), getattr(other, method)(Z)
        assert_allclose(to_numpy(theirs), ours, rtol=1e-12)
    assert_allclose(to_numpy(other.score_samples(Z)), log_likelihoods(rbm, X), rtol=1e-12)
    value, std = other.log_partition("ais", return_std=True)
    assert abs(value - rbm.log_partition("exact")) < 6 * std < 0.5


@pytest.mark.parametrize("Estimator", WITH_MISSING)
@pytest.mark.parametrize("n_units", [3, 25], ids=["over hidden", "over missing"])
def test_missing_values(Estimator, library, n_units):
    """Sums over the hidden units, or over missing ones where these are fewer."""
    rows = with_holes(binary_data(30, dtype=np.float32))
    X, kind = library.asarray(rows), type(library.asarray([0.0]))
    grows = Estimator is FrankWolfeRBM
    rbm = small(Estimator, **{"max_components" if grows else "n_components": n_units}).fit(X)
    (rbm.grow if grows else rbm.partial_fit)(X)
    results = {name: getattr(rbm, name)(X) for name in ("transform", "predict", "free_energy")}
    results["sample"] = rbm.sample(given=X, n_steps=2, random_state=0)
    assert np.isfinite(rbm.score(X))
    for name, value in results.items():
        assert type(value) is kind, name
        assert value.dtype == (library.float64 if name in SCORES else library.float32), name
        assert np.isfinite(to_numpy(value)).all(), name
    known = ~np.isnan(rows)
    assert_array_equal(to_numpy(results["sample"])[known], rows[known])


@pytest.mark.parametrize("Estimator", with_methods("partial_fit"))
def test_pickles_continue_as_the_original(Estimator, library):
    X = library.asarray(binary_data())
    estimator = fitted(Estimator, X, library)
    copied = pickle.loads(pickle.dumps(estimator))
    assert_same_state(learn(copied, X, "partial_fit"), learn(estimator, X, "partial_fit"))
