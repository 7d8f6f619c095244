"""ConditionalRBM: arrays of all kinds, and scikit-learn's tools around it."""

import numpy as np
import pytest
import scipy.sparse as sp
from _conditional_rbm import (
    assert_same,
    data,
    every,
    holes_in,
    small,
    values,
)
from _libraries import OTHER_LIBRARIES
from numpy.testing import assert_allclose, assert_array_equal

from skrbm import ConditionalRBM
from skrbm.arrays import to_numpy
from skrbm.estimators.conditional._machine import PARAMETERS


@every
def test_sparse_is_dense(objective, inference):
    X, Y = data()
    X = np.where(np.abs(X) < 0.5, 0, X)
    params = {"objective": objective, "inference": inference, "early_stopping": True}
    dense = small(**params).fit(X, Y)
    sparse = small(**params).fit(sp.csc_array(X), sp.csc_array(Y))
    assert_same(sparse, dense)
    for method in ("predict", "predict_proba", "decision_function", "transform", "score_samples"):
        found = getattr(dense, method)(sp.csc_array(X))
        assert isinstance(found, np.ndarray)
        assert_allclose(found, getattr(dense, method)(X), rtol=1e-8, atol=1e-10)
    assert dense.score(sp.csc_array(X), sp.csc_array(Y)) == dense.score(X, Y)
    scores = dense.score_samples(X, sp.csc_array(Y))
    assert_allclose(scores, dense.score_samples(X, Y), rtol=1e-10)
    assert_array_equal(
        dense.sample(sp.csc_array(X), random_state=0), dense.sample(X, random_state=0)
    )
    parts = (small(**params).partial_fit(sp.csc_array(X), sp.csc_array(Y)), small(**params))
    assert_same(parts[0], parts[1].partial_fit(X, Y))


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
    params = {"objective": objective, "inference": inference, "learning_rate": 0.02}
    crbm = small(momentum=0.5, early_stopping=True, **params)
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
