"""Contract of all estimators: errors name the argument, and its value where it helps."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from _estimators import (
    BINARY,
    METHODS,
    PATHS,
    answers,
    assert_same_state,
    binary_data,
    learn,
    read_only,
    small,
    targets,
    with_methods,
    with_parameters,
)
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_param_validation

from skrbm import RBM, DeepTAPMachine, FrankWolfeRBM
from skrbm.exceptions import DataRangeWarning
from skrbm.inference import Gibbs

every = pytest.mark.parametrize("Estimator", PATHS)
pytestmark = pytest.mark.filterwarnings("ignore:the model has no hidden unit")

WITH_NAN, WITH_INFINITY = binary_data(), binary_data()
WITH_NAN[3, 2], WITH_INFINITY[3, 2] = np.nan, np.inf
BAD_DATA = [
    (WITH_NAN, "NaN"),
    (WITH_INFINITY, "infinity"),
    (sp.csr_array(WITH_NAN), "NaN"),
    (np.zeros(5), "2D array"),
    (np.zeros((2, 3, 4)), "dim 3"),
    (np.zeros((0, 4)), "0 sample"),
    (np.zeros((4, 0)), "0 feature"),
    (np.array([["a", 1], ["c", 2]], dtype=object), "TabularRBM"),
    (np.zeros((3, 2), dtype=complex), "Complex"),
    (np.full((3, 2), "2020-01-01", "M8[s]"), "datetime64"),
    ("some text", "some text"),
    (np.ma.masked_array(binary_data(), binary_data() > 0), "mask"),
]


def takes_missing(estimator):
    return estimator.__sklearn_tags__().input_tags.allow_nan


@every
def test_bad_data(Estimator):
    estimator = small(Estimator)
    for X, message in BAD_DATA:
        if X is WITH_NAN and takes_missing(estimator):
            continue
        shape = X.shape if hasattr(X, "shape") else (2,)
        y = [targets(shape[0])] if is_classifier(estimator) else []
        for method in ("fit", "partial_fit"):
            if hasattr(estimator, method):
                with pytest.raises((ValueError, TypeError), match=message):
                    getattr(estimator, method)(X, *y)


@pytest.mark.parametrize("Estimator", with_parameters("init"))
def test_init_must_have_as_many_columns(Estimator):
    first = learn(small(Estimator), binary_data())
    for n_features in (7, 9):
        with pytest.raises(ValueError, match=r"init has 8|init does not match"):
            learn(small(Estimator, init=first), binary_data(n_features=n_features))


@every
def test_bad_data_of_a_fitted_estimator(Estimator):
    estimator = read_only(Estimator)
    names = METHODS.keys() - {"inverse_transform", "impute"}
    if not is_classifier(estimator):
        names -= {"sample"}
    for name in filter(lambda name: hasattr(estimator, name), sorted(names)):
        call = METHODS[name]
        if takes_missing(estimator) and name != "gibbs":
            call(estimator, WITH_NAN, np.asarray)
        else:
            with pytest.raises(ValueError, match="NaN"):
                call(estimator, WITH_NAN, np.asarray)
        for X, message in [
            (np.zeros((2, 7)), "7 features"),
            (WITH_INFINITY, "infinity"),
            (np.zeros(8), "2D array"),
            (np.zeros((0, 8)), "0 sample"),
        ]:
            with pytest.raises(ValueError, match=message):
                call(estimator, X, np.asarray)
    n = estimator.transform(binary_data()).shape[1]
    for H in (np.zeros((2, n + 1)), np.full((2, n), np.nan)):
        if hasattr(estimator, "inverse_transform"):
            with pytest.raises(ValueError, match=r"H has|NaN"):
                estimator.inverse_transform(H)


@pytest.mark.parametrize("Estimator", with_methods("partial_fit"))
def test_partial_fit_checks_features_and_parameters(Estimator):
    estimator = learn(small(Estimator), binary_data(), "partial_fit")
    with pytest.raises(ValueError, match="9 features"):
        learn(estimator, binary_data(n_features=9), "partial_fit")
    with pytest.raises(ValueError, match="batch_size"):
        learn(estimator.set_params(batch_size=0), binary_data(), "partial_fit")


@every
def test_unfitted(Estimator):
    fitted = read_only(Estimator)
    for name in answers(fitted, binary_data()):
        with pytest.raises(NotFittedError):
            METHODS[name](small(Estimator), binary_data(), np.asarray)
    if hasattr(fitted, "log_partition"):
        with pytest.raises(NotFittedError):
            small(Estimator).log_partition()
    y = [targets(60)] if is_classifier(fitted) else []
    with pytest.raises(NotFittedError):
        small(Estimator).score(binary_data(), *y)
    with pytest.raises(NotFittedError):
        small(Estimator).machine_  # noqa: B018


@every
def test_scikit_learns_check_of_parameters(Estimator, monkeypatch):
    """Each has a constraint, and values of no type or beyond its bounds are rejected."""
    known = Estimator().get_params()
    constraints = {n: c for n, c in Estimator._parameter_constraints.items() if n in known}
    monkeypatch.setattr(Estimator, "_parameter_constraints", constraints)
    check_param_validation(Estimator.__name__, small(Estimator))


@pytest.mark.parametrize("Estimator", with_parameters("optimizer"))
def test_schedules_must_return_factors(Estimator):
    for factor in (np.nan, -1, "fast"):
        with pytest.raises(ValueError, match="schedule"):
            learn(small(Estimator, schedule=lambda progress, f=factor: f), binary_data())


@pytest.mark.parametrize("Estimator", PATHS)
def test_integers_of_numpy_count_as_integers(Estimator):
    """Small and unsigned ones overflow, or become floats, in arithmetic with others."""

    def fitted(kind):
        sizes = {"n_components": 5, "n_iter": 2, "batch_size": 10, "max_components": 2}
        if Estimator is DeepTAPMachine:
            sizes["n_components"] = (kind(4), kind(3))
        params = small(Estimator).get_params(deep=False)
        known = {name: sizes[name] for name in params.keys() & sizes.keys()}
        params |= {k: v if isinstance(v, tuple) else kind(v) for k, v in known.items()}
        if Estimator in (RBM, FrankWolfeRBM):
            params["inference"] = Gibbs(kind(3), n_chains=kind(90))
        return learn(Estimator(**params), binary_data())

    expected = fitted(int)
    for kind in (np.uint8, np.uint64):
        assert_same_state(fitted(kind), expected)


binary = pytest.mark.parametrize("RBM", BINARY)


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
    for part in ("outside [0, 1]", "MinMaxScaler", "visible='gaussian'"):
        assert part in messages[0]
    if not sp.issparse(X):
        assert values in messages[0]


@binary
def test_new_data_out_of_range(RBM):
    """They are clipped, so that grey levels up to 255 would all be 1 after a fit to [0, 1]."""
    X = binary_data()
    rbm = small(RBM).fit(X)
    for method in ("transform", "score_samples"):
        (message,) = range_warnings(lambda method=method: getattr(rbm, method)(255 * X))
        assert "from 0 to 255" in message and "clips" in message
        assert not range_warnings(lambda method=method: getattr(rbm, method)(0.5 * X))
