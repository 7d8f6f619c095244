"""Estimators given arrays of another library return arrays of that library."""

import pickle
import warnings

import numpy as np
import pytest
from _estimators import BINARY, RBMS, all_rows, binary_data, log_likelihoods, parameters, small
from numpy.testing import assert_allclose, assert_array_equal

from skrbm import TAPRBM, BernoulliRBM
from skrbm.arrays import to_numpy
from skrbm.exceptions import DataRangeWarning
from skrbm.inference import TAP

every = pytest.mark.parametrize("RBM", RBMS)
binary = pytest.mark.parametrize("RBM", BINARY)


@pytest.fixture(params=["array_api_strict", "torch"])
def library(request):
    pytest.importorskip("array_api_compat")
    return pytest.importorskip(request.param)


RESULTS = {
    "transform": lambda rbm, X: rbm.transform(X),
    "inverse_transform": lambda rbm, X: rbm.inverse_transform(rbm.transform(X)),
    "predict": lambda rbm, X: rbm.predict(X),
    "gibbs": lambda rbm, X: rbm.gibbs(X, random_state=0),
    "sample": lambda rbm, X: rbm.sample(3, n_steps=5, random_state=0),
    "sample from init": lambda rbm, X: rbm.sample(X.shape[0], init=X, n_steps=2, random_state=0),
    "impute": lambda rbm, X: rbm.impute(X),
}


@every
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arrays_stay_in_their_library(RBM, library, dtype):
    X = library.asarray(binary_data(), dtype=getattr(library, dtype))
    rbm = small(RBM, momentum=0.5, alpha=0.01).fit(X)
    results = {name: result(rbm, X) for name, result in RESULTS.items()}
    names = ("components_", "intercept_hidden_", "intercept_visible_", "starts_")
    for name in (*names, "visible_means_"):
        results[name] = getattr(rbm, name)
    for name, value in results.items():
        assert type(value) is type(X), name
        assert value.dtype == X.dtype, name
    for scores in (rbm.score_samples(X), rbm.free_energy(X)):
        assert type(scores) is type(X) and scores.dtype == library.float64
    assert type(rbm.score(X)) is float
    rbm.partial_fit(X)
    assert rbm.n_iter_ == 4


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


@every
def test_training_options(RBM, library):
    X = library.asarray(binary_data())
    for params in (
        {"early_stopping": "score"},
        {"early_stopping": True},
        {"penalty": "l1", "alpha": 0.1},
        {"warm_start": True, "momentum": 0.9},
        {"init": small(RBM).fit(binary_data())},
        {"binarize": 0.5},
    ):
        if not params.keys() <= RBM().get_params().keys():
            continue  # real units are not made binary
        rbm = small(RBM, **params).fit(X).fit(X)
        assert type(rbm.components_) is type(X), params


@every
def test_integers_and_booleans(RBM, library):
    for dtype in (library.uint8, library.int64, library.bool):
        X = library.asarray(binary_data().astype(np.int64))
        X = X.astype(dtype) if hasattr(X, "astype") else library.asarray(X, dtype=dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("error", DataRangeWarning)
            rbm = small(RBM).fit(X)
        assert np.isfinite(rbm.score(X))
        assert type(rbm.predict(X)) is type(X)


@every
def test_bad_input(RBM, library):
    X = binary_data()
    rbm = small(RBM).fit(library.asarray(X))
    with pytest.raises(ValueError, match=r"7 features.*8 features"):
        rbm.transform(library.asarray(X[:, :7]))
    with pytest.raises(ValueError, match="2 dimensions"):
        rbm.fit(library.asarray(X[0]))
    with pytest.raises(ValueError, match="NaN"):
        rbm.fit(library.asarray(np.full((3, 8), np.nan)))
    with pytest.raises(ValueError, match="infinity"):
        rbm.impute(library.asarray(np.full((3, 8), np.inf)))


@pytest.mark.parametrize("RBM", BINARY)
def test_range_warning(RBM, library):
    with pytest.warns(DataRangeWarning):
        small(RBM).fit(library.asarray(3 * binary_data()))


@every
def test_impute(RBM, library):
    X = binary_data(n=10)
    holes = X.copy()
    holes[0] = holes[1, 2] = np.nan
    rbm = small(RBM).fit(library.asarray(X))
    filled = to_numpy(rbm.impute(library.asarray(holes)))
    assert np.isfinite(filled).all()
    assert_array_equal(filled[~np.isnan(holes)], holes[~np.isnan(holes)])


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


@every
def test_pickle(RBM, library):
    X = library.asarray(binary_data())
    rbm = small(RBM).fit(X)
    copied = pickle.loads(pickle.dumps(rbm))
    one, other = (to_numpy(r.partial_fit(X).components_) for r in (rbm, copied))
    assert_array_equal(one, other)


@pytest.mark.parametrize(
    "method", ["transform", "score_samples", "predict", "partial_fit", "gibbs"]
)
def test_data_of_another_library_than_the_parameters(library, method):
    """Parameters decide: data come to their library."""
    X = binary_data()
    ours, theirs = small(BernoulliRBM).fit(X), small(BernoulliRBM).fit(library.asarray(X))
    kind = type(theirs.components_)
    for rbm, data, expected in ((ours, library.asarray(X), np.ndarray), (theirs, X, kind)):
        result = getattr(rbm, method)(data)
        result = result.components_ if method == "partial_fit" else result
        assert isinstance(result, expected)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64"])
def test_bytes_and_booleans_with_a_threshold_or_out_of_range(library, dtype):
    X = library.asarray((3 * binary_data()).astype(dtype))
    small(BernoulliRBM, binarize=0.5).fit(X).transform(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataRangeWarning)
        small(BernoulliRBM).fit(X).transform(X)
