"""What every estimator keeps to: its errors name the argument, its value and what is allowed.

An estimator is in each test whose methods and parameters it has.
"""

import re

import numpy as np
import pytest
import scipy.sparse as sp
from _estimators import (
    METHODS,
    NUMERIC,
    RBMS,
    answers,
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

every = pytest.mark.parametrize("Estimator", NUMERIC)
streams = pytest.mark.parametrize("Estimator", with_methods("partial_fit"))
pytestmark = pytest.mark.filterwarnings("ignore:the machine has no hidden unit")

WITH_NAN, WITH_INFINITY = binary_data(), binary_data()
WITH_NAN[3, 2], WITH_INFINITY[3, 2] = np.nan, np.inf
BAD_DATA = [
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
    ("some text", "path 'some text', and only .npy files"),
    (None, "Expected 2D array"),
    (np.ma.masked_array(binary_data(), binary_data() > 0), "masks are not read; give NaN"),
]


def takes_missing(estimator):
    return estimator.__sklearn_tags__().input_tags.allow_nan


@every
@pytest.mark.parametrize("X, message", BAD_DATA)
def test_data(Estimator, X, message):
    estimator = small(Estimator)
    if X is WITH_NAN and takes_missing(estimator):
        learn(estimator, X)
        return
    shape = X.shape if hasattr(X, "shape") else (2,)
    y = [targets(shape[0])] if is_classifier(estimator) else []
    for method in ("fit", "partial_fit"):
        if hasattr(estimator, method):
            with pytest.raises((ValueError, TypeError), match=message):
                getattr(estimator, method)(X, *y)


@every
def test_data_of_a_fitted_machine(Estimator):
    estimator = read_only(Estimator)
    names = METHODS.keys() - {"inverse_transform", "impute"}
    if not is_classifier(estimator):
        names -= {"sample"}
    calls = [name for name in sorted(names) if hasattr(estimator, name)]
    assert "transform" in calls and "predict" in calls
    for name in calls:
        call = METHODS[name]
        if takes_missing(estimator) and name != "gibbs":
            call(estimator, WITH_NAN, np.asarray)
        else:
            with pytest.raises(ValueError, match="contains NaN"):
                call(estimator, WITH_NAN, np.asarray)
        for X, message in [
            (np.zeros((2, 7)), r"7 features, but \w+ is expecting 8 features"),
            (WITH_INFINITY, "contains infinity"),
            (np.zeros(8), "Expected 2D array, got 1D"),
            (np.zeros((0, 8)), "0 sample"),
        ]:
            with pytest.raises(ValueError, match=message):
                call(estimator, X, np.asarray)


@streams
def test_partial_fit_refuses_another_width(Estimator):
    estimator = learn(small(Estimator), binary_data(), "partial_fit")
    with pytest.raises(ValueError, match=r"9 features, but \w+ is expecting 8 features"):
        learn(estimator, binary_data(n_features=9), "partial_fit")


@every
def test_unfitted(Estimator):
    fitted = read_only(Estimator)
    for name in answers(fitted, binary_data()):
        with pytest.raises(NotFittedError):
            METHODS[name](small(Estimator), binary_data(), np.asarray)
    if hasattr(Estimator, "inverse_transform"):
        with pytest.raises(NotFittedError):
            small(Estimator).inverse_transform(np.zeros((1, 5)))
    if hasattr(Estimator, "log_partition"):
        with pytest.raises(NotFittedError):
            small(Estimator).log_partition()
    y = [targets(60)] if is_classifier(fitted) else []
    with pytest.raises(NotFittedError):
        small(Estimator).score(binary_data(), *y)
    with pytest.raises(NotFittedError):
        small(Estimator).machine_  # noqa: B018


@pytest.mark.parametrize("Estimator", with_methods("inverse_transform"))
def test_hidden_values_are_checked(Estimator):
    estimator = read_only(Estimator)
    n = estimator.transform(binary_data()).shape[1]
    message = f"H has {n + 1} columns, but the machine has {n} such units"
    with pytest.raises(ValueError, match=message):
        estimator.inverse_transform(np.zeros((2, n + 1)))
    with pytest.raises(ValueError, match="NaN"):
        estimator.inverse_transform(np.full((2, n), np.nan))


@pytest.mark.parametrize("Estimator", with_methods("log_partition"))
@pytest.mark.parametrize("method", ["mcmc", 3, None, object()], ids=["text", "3", "None", "object"])
def test_log_partition_method(Estimator, method):
    estimator = read_only(Estimator)
    with pytest.raises((ValueError, TypeError), match=r"method must be .*'ais'.*'exact'.*got"):
        estimator.log_partition(method)


# ------------------------------------------------------------------ constructor parameters

NOT_NUMBERS = ["1", None, np.nan, [1], True]
WRONG = {
    "n_components": [-1, 1.5, *NOT_NUMBERS[:3], True],
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
    "optimizer": ["lbfgs", 1, None],
}


def test_every_shared_parameter_is_tried():
    shared = set.intersection(*(set(E().get_params()) for E in with_methods("partial_fit")))
    assert shared <= set(WRONG)


@every
def test_scikit_learns_check_of_parameters(Estimator, monkeypatch):
    """Each has a constraint, and refuses a value of no type and numbers beyond its bounds."""
    known = Estimator().get_params()
    constraints = {n: c for n, c in Estimator._parameter_constraints.items() if n in known}
    monkeypatch.setattr(Estimator, "_parameter_constraints", constraints)
    check_param_validation(Estimator.__name__, small(Estimator))


@every
def test_hyper_parameters(Estimator):
    """scikit-learn's own wording: the '...' parameter of ... must be ... Got ... instead."""
    wrong = dict(WRONG)
    if Estimator in RBMS:  # others take no hidden unit, or a list of layers
        wrong["n_components"] = [*WRONG["n_components"], 0, [1]]
    for name in Estimator().get_params().keys() & wrong.keys():
        for value in wrong[name]:
            got = re.escape(repr(value))
            message = rf"The '{name}' parameter of {Estimator.__name__} must be .+ Got {got}"
            estimator = small(Estimator, **{name: value})
            for method in ("fit", "partial_fit"):
                if hasattr(estimator, method):
                    with pytest.raises(ValueError, match=message):
                        learn(estimator, binary_data(), method)


@pytest.mark.parametrize("Estimator", with_parameters("schedule"))
@pytest.mark.parametrize("factor", [np.nan, -1, 1j, None, "fast"])
def test_schedules_must_return_factors(Estimator, factor):
    estimator = small(Estimator, schedule=lambda progress: factor)
    with pytest.raises(ValueError, match=r"schedule returns .* must be a finite number >= 0"):
        learn(estimator, binary_data())
