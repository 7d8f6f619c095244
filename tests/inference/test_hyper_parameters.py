"""Hyper-parameters of methods, as scikit-learn's searches reach them."""

from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from skrbm import TAPRBM, GaussianBernoulliRBM
from skrbm.inference import METHODS, TAP, GibbsLangevin, Langevin, Tempering
from skrbm.learning import Adam

every = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


@every
def test_hyper_parameters_are_the_fields(method):
    params = method.get_params()
    assert params == {field.name: getattr(method, field.name) for field in fields(method)}
    assert type(method)(**params) == method


@every
def test_clones_are_equal_and_others_are_not(method):
    copy = clone(method)
    assert copy is not method
    assert copy == method and hash(copy) == hash(method) and repr(copy) == repr(method)
    params = method.get_params().items()
    name, value = next((name, value) for name, value in params if value is not None)
    copy.set_params(**{name: value / 2 if isinstance(value, float) else value + 1})
    assert copy != method
    assert copy == type(method)(**copy.get_params())
    with pytest.raises(FrozenInstanceError):
        setattr(copy, name, value)


@every
def test_unknown_names_raise_as_in_scikit_learn(method):
    copy = clone(method)
    with pytest.raises(ValueError, match=r"Invalid parameter 'wrong' for .*Valid parameters are"):
        copy.set_params(wrong=1)
    with pytest.raises(ValueError, match="Invalid parameter 'wrong' for"):
        clone(TAPRBM(inference=copy)).set_params(inference__wrong=1)
    assert copy == method


@pytest.mark.parametrize(
    ("method", "wrong"),
    [
        (TAP(), {"damping": 1.0}),
        (TAP(), {"order": 4}),
        (Langevin(), {"step_size": -1.0}),
        (GibbsLangevin(), {"n_inner_steps": 0}),
        (Tempering(), {"rungs": 1.5}),
        (Adam(), {"epsilon": 0}),
    ],
)
def test_bad_values_are_named_and_change_nothing(method, wrong):
    copy, (name, value) = clone(method), *wrong.items()
    with pytest.raises(ValueError, match=rf"{name} must be .*got {value!r}"):
        copy.set_params(**wrong)
    good = "max_iter" if isinstance(method, TAP) else "adjust_after"
    with pytest.raises(ValueError, match=name):
        copy.set_params(**{good: 7}, **wrong)
    assert copy == method


def test_values_that_are_valid_together_can_be_set_together():
    assert Langevin().set_params(adjust_after=2, target_acceptance=0.6).adjust_after == 2
    with pytest.raises(ValueError, match="target_acceptance"):
        Langevin(target_acceptance=0.6).set_params(adjust_after=None)


def test_the_order_of_tap_can_be_set():
    assert TAP().set_params(order=3).terms == TAP(order=3).terms


ESTIMATORS = [
    (TAPRBM(n_components=2, n_iter=1, random_state=0), TAP(), "damping", [0.0, 0.5]),
    (
        GaussianBernoulliRBM(
            n_components=2,
            n_iter=1,
            random_state=0,
            inference=GibbsLangevin(n_steps=2, burn_in=0, adjust_after=None),
        ),
        Langevin(),
        "step_size",
        [0.1, 0.5],
    ),
]


@pytest.mark.parametrize(("estimator", "method", "name", "values"), ESTIMATORS)
def test_grid_search(estimator, method, name, values):
    estimator = clone(estimator).set_params(inference=method)
    X = np.random.default_rng(0).integers(0, 2, (20, 3)).astype(float)
    before = repr(method)
    search = GridSearchCV(estimator, {f"inference__{name}": values}, cv=2, error_score="raise")
    search.fit(X)
    assert_array_equal(search.cv_results_[f"param_inference__{name}"].data.astype(float), values)
    # Each value was used: scores are those of estimators that are given it from the start.
    for value, score in zip(values, search.cv_results_["split0_test_score"], strict=True):
        own = clone(estimator).set_params(inference=type(method)(**{name: value}))
        assert own.fit(X[10:]).score(X[:10]) == score
    best = search.best_estimator_.inference
    assert getattr(best, name) == search.best_params_[f"inference__{name}"]
    # The user's own objects are as they were.
    assert estimator.inference is method and repr(method) == before
    assert f"{name}={getattr(best, name)!r}" in repr(search.best_estimator_)
