"""Estimators of categorical visible units: what they refuse, and means given some of the sites."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from sklearn.preprocessing import OneHotEncoder

from skrbm import RBM
from skrbm.machine import free_energy
from skrbm.units import Categorical

SITES = Categorical((3, 2))


@pytest.fixture(scope="module")
def X():
    values = np.random.default_rng(0).integers([3, 2], size=(80, 2))
    values[:40, 1] = values[:40, 0] > 0
    return OneHotEncoder(sparse_output=False).fit_transform(values)


@pytest.fixture(scope="module")
def rbm(X):
    return RBM(4, visible=SITES, n_iter=10, random_state=0).fit(X)


METHODS = ("score_samples", "transform", "gibbs", "impute")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("row", [[0, 0, 0, 0, 0], [0.5, 0.5, 0, 1, 0]], ids=str)
def test_rows_must_be_categories(rbm, X, method, row):
    getattr(rbm, method)(X)
    with pytest.raises(ValueError, match=r"one 1 and otherwise 0.*OneHotEncoder"):
        getattr(rbm, method)(np.vstack([X[:3], row]))
    if method not in ("predict", "impute"):
        with pytest.raises(ValueError, match="one 1 and otherwise 0"):
            getattr(rbm, method)(sp.csr_array(np.vstack([X[:3], row])))


@pytest.mark.law
def test_a_missing_site_has_its_conditional_probabilities(rbm):
    """Against the sum over the values of the site; a chain of 20 000 steps of one row.

    Half of them count. If one in four of these is independent of those before, a mean has a
    standard error of at most 0.01, and one is off by 0.05 with a probability below 1e-6.
    """
    row = np.array([np.nan, np.nan, np.nan, 0, 1])
    V = np.hstack([np.eye(3), np.tile([0.0, 1.0], (3, 1))])
    log_p = -free_energy(rbm.machine_, V)
    expected = np.exp(log_p - logsumexp(log_p)) @ V
    found = rbm.impute(row[None], n_steps=20_000, random_state=0)[0]
    assert_allclose(found, expected, rtol=0, atol=0.05)
    assert_array_equal(found[3:], [0, 1])


@pytest.mark.parametrize("site", [[np.nan, 1], [np.nan, 0]])
def test_sites_are_not_missing_in_part(rbm, site):
    with pytest.raises(ValueError, match="or NaN throughout"):
        rbm.impute(np.array([[0, 1, 0, *site]]))
