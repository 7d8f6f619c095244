"""What no machine can learn from: each error names the argument, its value and what is allowed."""

import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from _estimators import BINARY, RBMS, binary_data, parameters, small
from numpy.testing import assert_array_equal
from sklearn.preprocessing import MinMaxScaler

from skrbm.exceptions import DataRangeWarning

every = pytest.mark.parametrize("RBM", RBMS)
binary = pytest.mark.parametrize("RBM", BINARY)

WITH_NAN, WITH_INFINITY = binary_data(), binary_data()
WITH_NAN[3, 2], WITH_INFINITY[3, 2] = np.nan, np.inf


@every
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    "X, message",
    [
        (WITH_NAN, "contains NaN"),
        (WITH_INFINITY, "contains infinity"),
        (-WITH_INFINITY, "contains infinity"),
        (sp.csr_array(WITH_NAN), "contains NaN"),
        (np.zeros(5), "Expected 2D array, got 1D"),
        (np.zeros((2, 3, 4)), "dim 3"),
        (np.zeros((0, 4)), "0 sample"),
        (np.zeros((4, 0)), "0 feature"),
        ([["a", "b"], ["c", "d"]], "numeric|could not convert|dtype"),
        (np.array([["a", 1], ["c", 2]], dtype=object), "could not convert"),
        (np.zeros((3, 2), dtype=complex), "Complex"),
        ("some text", "Expected 2D array"),
        (None, "Expected 2D array"),
    ],
)
def test_data(RBM, method, X, message):
    with pytest.raises((ValueError, TypeError), match=message):
        getattr(small(RBM), method)(X)


@every
@pytest.mark.parametrize(
    "method", ["transform", "score_samples", "score", "free_energy", "predict"]
)
def test_data_of_a_fitted_machine(RBM, method):
    rbm = small(RBM).fit(binary_data())
    call = getattr(rbm, method)
    with pytest.raises(ValueError, match=r"7 features, but \w+ is expecting 8 features"):
        call(np.zeros((2, 7)))
    with pytest.raises(ValueError, match="contains NaN"):
        call(WITH_NAN)
    with pytest.raises(ValueError, match="Expected 2D array, got 1D"):
        call(np.zeros(8))
    with pytest.raises(ValueError, match="0 sample"):
        call(np.zeros((0, 8)))


@every
def test_partial_fit_refuses_another_width(RBM):
    rbm = small(RBM).partial_fit(binary_data())
    with pytest.raises(ValueError, match=r"9 features, but \w+ is expecting 8 features"):
        rbm.partial_fit(binary_data(n_features=9))


NOT_NUMBERS = ["1", None, np.nan, [1]]
WRONG = {
    "n_components": [0, -1, 1.5, *NOT_NUMBERS],
    "learning_rate": [0, -0.1, *NOT_NUMBERS],
    "batch_size": [0, -1, 1.5, *NOT_NUMBERS],
    "n_iter": [-1, 1.5, *NOT_NUMBERS],
    "verbose": [-1, "yes"],
    "random_state": [-1, "seed", 1.5],
    "momentum": [-0.1, 1.0, 2, *NOT_NUMBERS],
    "alpha": [-0.1, *NOT_NUMBERS],
    "penalty": ["l3", None, 2],
    "schedule": ["step", None, 2],
    "shuffle": ["yes", None],
    "early_stopping": ["accuracy", None],
    "validation_fraction": [0, 1, -0.5, 2, *NOT_NUMBERS],
    "n_iter_no_change": [0, 1.5, *NOT_NUMBERS],
    "tol": [-1, *NOT_NUMBERS],
    "warm_start": ["yes", None],
    "binarize": ["0.5", np.nan],
    "init": ["zeros", 1, None],
}


def wrong_values(RBM):
    known = RBM().get_params()
    return [(RBM, name, value) for name in WRONG if name in known for value in WRONG[name]]


@every
def test_every_shared_parameter_is_tried(RBM):
    base = set.intersection(*(set(R().get_params()) for R in RBMS))
    assert base <= set(WRONG)


@pytest.mark.parametrize("RBM, name, value", [case for RBM in RBMS for case in wrong_values(RBM)])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_hyper_parameters(RBM, method, name, value):
    """scikit-learn's own wording: the '...' parameter of ... must be ... Got ... instead."""
    message = rf"The '{name}' parameter of {RBM.__name__} must be .+ Got {re.escape(repr(value))}"
    with pytest.raises(ValueError, match=message):
        getattr(small(RBM, **{name: value}), method)(binary_data())


@every
@pytest.mark.parametrize("method", ["mcmc", 3, None, object()])
def test_log_partition_method(RBM, method):
    rbm = small(RBM).fit(binary_data())
    with pytest.raises((ValueError, TypeError), match=r"method must be .*'exact'.*'ais'.*got"):
        rbm.log_partition(method)


# --------------------------------------------------------------- the range of data


def range_warnings(function):
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        function()
    return [str(w.message) for w in record if issubclass(w.category, DataRangeWarning)]


@binary
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("scale, values", [(255, "0 to 255"), (-0.5, "-0.5 to "), (1.01, "1.01")])
def test_range_warning(RBM, make, scale, values):
    X = make(scale * binary_data())
    messages = range_warnings(lambda: small(RBM).fit(X))
    assert len(messages) == 1
    for part in ("outside [0, 1]", "MinMaxScaler", "binarize"):
        assert part in messages[0]
    if not sp.issparse(X):
        assert values in messages[0]


@binary
def test_one_range_warning_for_each_fit(RBM):
    X, rbm = 3 * binary_data(), small(RBM)
    assert len(range_warnings(lambda: rbm.fit(X).fit(X))) == 2
    assert len(range_warnings(lambda: small(RBM).partial_fit(X).partial_fit(X))) == 2
    assert len(range_warnings(lambda: rbm.transform(X))) == 0


@binary
def test_no_range_warning(RBM):
    X = binary_data()
    for data in (X, 0.5 * X, X.astype(bool), sp.csr_array(X), sp.csr_array(X.shape)):
        assert not range_warnings(lambda data=data: small(RBM).fit(data))
    for make in (np.asarray, sp.csr_array):
        rbm = small(RBM, binarize=100)
        assert not range_warnings(lambda make=make, rbm=rbm: rbm.fit(make(255 * X)))
    assert not range_warnings(lambda: small(RBM).fit(MinMaxScaler().fit_transform(255 * X)))


@binary
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, sp.csc_matrix])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_binarize(RBM, make, dtype):
    generator = np.random.default_rng(0)
    X = generator.integers(0, 256, (60, 8)) * (generator.random((60, 8)) < 0.7)
    bits, X = (X > 100).astype(dtype), make(X.astype(dtype))
    rbm, expected = small(RBM, binarize=100).fit(X), small(RBM).fit(make(bits))
    for one, other in zip(parameters(rbm), parameters(expected), strict=True):
        assert_array_equal(one, other)
    for method in ("transform", "score_samples", "free_energy"):
        assert_array_equal(getattr(rbm, method)(X), getattr(expected, method)(make(bits)))


@binary
def test_binarize_keeps_no_value_at_the_threshold(RBM):
    X = np.array([[0.0, 0.5, 0.51, 1.0]] * 3)
    rbm = small(RBM, binarize=0.5).fit(X)
    assert_array_equal(rbm.sample(3, init=X, n_steps=0), [[0, 0, 1, 1]] * 3)


@binary
def test_binarize_below_zero(RBM):
    X = binary_data() - 1
    assert not range_warnings(lambda: small(RBM, binarize=-0.5).fit(X))
    with pytest.raises(ValueError, match=r"binarize=-0\.5 .* sparse .* threshold >= 0 or a dense"):
        small(RBM, binarize=-0.5).fit(sp.csr_array(X))


@every
@pytest.mark.parametrize("factor", [np.nan, -1, 1j, None, "fast"])
def test_schedules_must_return_factors(RBM, factor):
    rbm = small(RBM, schedule=lambda progress: factor)
    with pytest.raises(ValueError, match="schedule must return a factor >= 0"):
        rbm.fit(binary_data())
