"""Estimators given arrays of another library return arrays of that library."""

import pickle
import warnings

import numpy as np
import pytest
from _estimators import (
    BINARY,
    NUMERIC,
    SCORES,
    all_rows,
    answers,
    assert_same_state,
    binary_data,
    copied_state,
    learn,
    log_likelihoods,
    parameters,
    small,
    state,
    targets,
    with_holes,
    with_methods,
    with_parameters,
)
from _libraries import OTHER_LIBRARIES
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import is_classifier

from skrbm import TAPRBM, BernoulliRBM, DeepTAPMachine, FrankWolfeRBM
from skrbm.arrays import to_numpy
from skrbm.exceptions import DataRangeWarning
from skrbm.inference import TAP
from skrbm.learning import Adam

pytestmark = [
    pytest.mark.arrays,
    pytest.mark.filterwarnings("ignore:the machine has no hidden unit"),
]
WITH_MISSING = [E for E in NUMERIC if E().__sklearn_tags__().input_tags.allow_nan]
every = pytest.mark.parametrize("Estimator", NUMERIC)
binary = pytest.mark.parametrize("RBM", BINARY)


@pytest.fixture(params=OTHER_LIBRARIES)
def library(request):
    pytest.importorskip("array_api_compat")
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


def test_numbers_of_a_deep_machine_are_those_of_numpy(library):
    ours, X = small(DeepTAPMachine).fit(binary_data()), binary_data()
    lists = [[library.asarray(part) for part in a] for a in (ours.components_, ours.intercepts_)]
    theirs = DeepTAPMachine.from_parameters(*lists)
    for method in ("transform", "free_energy", "score_samples", "predict"):
        found = getattr(theirs, method)(library.asarray(X))
        assert_allclose(to_numpy(found), getattr(ours, method)(X), rtol=1e-9)


OPTIONS = [
    {"early_stopping": True},
    {"early_stopping": True},
    {"penalty": "l1", "alpha": 0.1},
    {"momentum": 0.9, "alpha": 0.01},
    {"optimizer": Adam(alpha=0.01, max_norm=0.1), "learning_rate": 0.01},
    {"binarize": 0.5},
]


@every
def test_training_options(Estimator, library):
    X, one = library.asarray(binary_data()), {"warm_start": True}
    if Estimator in with_parameters("n_iter"):
        one["n_iter"] = 1
    for params in OPTIONS:
        if params.get("early_stopping") == "score" and is_classifier(Estimator()):
            continue  # has one criterion
        if Estimator in with_parameters(*params):
            estimator = fitted(Estimator, X, library, **params, **one)
            again = estimator.fit(X, *([targets(60)] if is_classifier(estimator) else []))
            assert type(state(again)["components_0"]) is type(X), params
    if Estimator in with_parameters("init"):
        init = learn(small(Estimator), binary_data())
        sizes = {"max_components": 4} if Estimator in with_parameters("max_components") else {}
        estimator = fitted(Estimator, X, library, init=init, **sizes, **one)
        assert type(state(estimator)["components_0"]) is type(X)


@every
def test_integers_and_booleans(Estimator, library):
    for dtype in (library.uint8, library.int64, library.bool):
        X = library.asarray(binary_data().astype(np.int64))
        X = X.astype(dtype) if hasattr(X, "astype") else library.asarray(X, dtype=dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("error", DataRangeWarning)
            estimator = fitted(Estimator, X, library)
        assert all(np.isfinite(part).all() for part in copied_state(estimator).values())
        assert type(estimator.predict(X)) is type(X)


@pytest.mark.parametrize("Estimator", WITH_MISSING)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_units", [3, 25], ids=["over hidden", "over missing"])
def test_missing_values(Estimator, library, dtype, n_units):
    """Sums over the hidden units, or over missing ones where these are fewer."""
    rows = with_holes(binary_data(30, dtype=dtype))
    X, kind = library.asarray(rows), type(library.asarray([0.0]))
    grows = Estimator is FrankWolfeRBM
    rbm = small(Estimator, **{"max_components" if grows else "n_components": n_units}).fit(X)
    (rbm.grow if grows else rbm.partial_fit)(X)
    results = {name: getattr(rbm, name)(X) for name in ("transform", "predict", "free_energy")}
    results["sample"] = rbm.sample(given=X, n_steps=2, random_state=0)
    assert np.isfinite(rbm.score(X))
    for name, value in results.items():
        assert type(value) is kind, name
        assert value.dtype == (library.float64 if name in SCORES else getattr(library, dtype)), name
        assert np.isfinite(to_numpy(value)).all(), name
    known = ~np.isnan(rows)
    assert_array_equal(to_numpy(results["sample"])[known], rows[known])


def test_rows_with_holes_are_annealed_and_drawn(library):
    """Where neither the 25 hidden units nor 22 missing ones can be enumerated."""
    rows = np.zeros((2, 24), np.float32)
    rows[0, 2:] = np.nan
    X = library.asarray(rows)
    rbm = small(BernoulliRBM, n_components=25, n_iter=1).fit(
        library.asarray(np.eye(24, dtype="f4"))
    )
    free, means = to_numpy(rbm.free_energy(X)), to_numpy(rbm.transform(X))
    assert free.dtype == np.float64 and means.dtype == np.float32
    assert np.isfinite(free).all() and ((means > 0) & (means < 1)).all()
    # Without couplings, which are small after one epoch, units are independent.
    b, c = (to_numpy(part) for part in (rbm.intercept_visible_, rbm.intercept_hidden_))
    expected = -np.log1p(np.exp(b[2:])).sum() - np.log1p(np.exp(c)).sum()
    assert abs(free[0] - expected) < 1


@every
def test_bad_input(Estimator, library):
    X = binary_data()
    estimator = fitted(Estimator, library.asarray(X), library)
    with pytest.raises(ValueError, match=r"7 features.*8 features"):
        estimator.transform(library.asarray(X[:, :7]))
    with pytest.raises(ValueError, match="2 dimensions"):
        learn(estimator, library.asarray(X[0]))
    with pytest.raises(ValueError, match="NaN"):
        learn(estimator, library.asarray(np.full((3, 8), np.nan)))
    with pytest.raises(ValueError, match="infinity"):
        learn(estimator, library.asarray(np.full((3, 8), np.inf)))
    if not is_classifier(estimator) and hasattr(estimator, "impute"):
        with pytest.raises(ValueError, match="infinity"):
            estimator.impute(library.asarray(np.full((3, 8), np.inf)))


@pytest.mark.parametrize("Estimator", with_parameters("binarize"))
def test_range_warning(Estimator, library):
    with pytest.warns(DataRangeWarning):
        small(Estimator).fit(library.asarray(3 * binary_data()))


@pytest.mark.parametrize("n_starts", [1, 3])
def test_denoise(library, n_starts):
    """Rows converge one by one; the first start needs no random numbers, which differ."""
    X = binary_data(n=10)
    rbm = small(TAPRBM, inference=TAP(tol=1e-16)).fit(library.asarray(X))
    own = TAPRBM.from_parameters(*parameters(rbm), inference=TAP(tol=1e-16))
    given = {"flip_probability": 0.2, "return_std": True, "n_starts": n_starts}
    expected = own.denoise(X, prior_mean=X.mean(axis=0), random_state=0, **given)
    for prior in (None, library.asarray(X.mean(axis=0))):
        found = rbm.denoise(library.asarray(X), prior_mean=prior, random_state=0, **given)
        for one, other in zip(found, expected, strict=True):
            assert type(one) is type(library.asarray(X))
            assert_allclose(to_numpy(one), other, rtol=0, atol=1e-7)
    for wrong in (np.nan, 0.5):
        with pytest.raises(ValueError, match=r"NaN|Y must be 0 or 1"):
            rbm.denoise(library.asarray(np.full((1, 8), wrong)), **given)


@pytest.mark.parametrize("Estimator", with_methods("partial_fit"))
def test_pickle_goes_on_as_the_original(Estimator, library):
    X = library.asarray(binary_data())
    estimator = fitted(Estimator, X, library)
    copied = pickle.loads(pickle.dumps(estimator))
    assert_same_state(learn(copied, X, "partial_fit"), learn(estimator, X, "partial_fit"))


@pytest.mark.parametrize("Estimator", with_methods("partial_fit", among=NUMERIC))
def test_data_of_another_library_than_the_parameters(Estimator, library):
    """Parameters decide: data come to their library."""
    X = binary_data()
    Z = library.asarray(X)
    for estimator, given in (
        (learn(small(Estimator), X), library.asarray),
        (fitted(Estimator, Z, library), np.asarray),
    ):
        kind = type(state(estimator)["components_0"])
        for name, found in answers(estimator, X, given).items():
            assert type(found) is kind, name
        learn(estimator, given(X), "partial_fit")
        assert type(state(estimator)["components_0"]) is kind


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64"])
def test_bytes_and_booleans_with_a_threshold_or_out_of_range(library, dtype):
    X = library.asarray((3 * binary_data()).astype(dtype))
    small(BernoulliRBM, binarize=0.5).fit(X).transform(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataRangeWarning)
        small(BernoulliRBM).fit(X).transform(X)
