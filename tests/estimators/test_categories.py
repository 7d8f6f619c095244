"""Estimators of categorical visible units: what they refuse, and means given some of the sites."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import OneHotEncoder

from skrbm import RBM
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


@pytest.mark.parametrize("site", [[np.nan, 1], [np.nan, 0]])
def test_sites_are_not_missing_in_part(rbm, site):
    with pytest.raises(ValueError, match="or NaN throughout"):
        rbm.impute(np.array([[0, 1, 0, *site]]))
