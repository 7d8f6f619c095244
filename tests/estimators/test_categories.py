"""Estimators of categorical visible units: what they refuse, and means given some of the sites."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from sklearn.preprocessing import OneHotEncoder

from skrbm import RBM, TAPRBM
from skrbm.machine import free_energy
from skrbm.units import Bernoulli, Binomial, Categorical, ColumnUnits, Gaussian

SITES = Categorical((3, 2))


@pytest.fixture(scope="module")
def X():
    values = np.random.default_rng(0).integers([3, 2], size=(80, 2))
    values[:40, 1] = values[:40, 0] > 0
    return OneHotEncoder(sparse_output=False).fit_transform(values)


@pytest.fixture(scope="module")
def rbm(X):
    return RBM(4, visible=SITES, n_iter=10, random_state=0).fit(X)


METHODS = ("score_samples", "score", "transform", "free_energy", "predict", "gibbs", "impute")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "row", [[0, 0, 0, 0, 0], [1, 1, 0, 0, 1], [0.5, 0.5, 0, 1, 0], [2, -1, 0, 1, 0]], ids=str
)
def test_rows_that_are_no_categories_are_refused(rbm, X, method, row):
    getattr(rbm, method)(X)
    with pytest.raises(ValueError, match=r"one 1 and otherwise 0.*OneHotEncoder"):
        getattr(rbm, method)(np.vstack([X[:3], row]))
    if method not in ("predict", "impute"):
        with pytest.raises(ValueError, match="one 1 and otherwise 0"):
            getattr(rbm, method)(sp.csr_array(np.vstack([X[:3], row])))


def test_first_rows_of_samples_are_categories(rbm, X):
    rows = rbm.sample(3, n_steps=2, init=X[:3], random_state=0)
    assert_array_equal(rows @ np.repeat(np.eye(2), [3, 2], axis=0), np.ones((3, 2)))
    with pytest.raises(ValueError, match="one 1 and otherwise 0"):
        rbm.sample(1, init=np.zeros((1, 5)))


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
    with pytest.raises(ValueError, match="mark a missing site by NaN in all of its columns"):
        rbm.impute(np.array([[0, 1, 0, *site]]))


@pytest.mark.parametrize("noise", [{"flip_probability": 0.1}, {"noise_variance": 0.1}], ids=str)
def test_categories_are_not_denoised(rbm, X, noise):
    with pytest.raises(ValueError, match="denoise is for binary and real visible units, and these"):
        rbm.denoise(X, **noise)


def test_what_is_refused_is_not_advised(X):
    for inference in ("tap", "adaptive_tap", "relaxed_bp", "bp", "langevin"):
        with pytest.raises(ValueError, match=r"needs .*; use inference 'mean_field', in RBM also"):
            RBM(4, visible=SITES, inference=inference).fit(X)
    with pytest.raises(ValueError, match="; use inference 'mean_field', in RBM also 'gibbs'"):
        TAPRBM(4, visible=SITES).fit(X)
    for Estimator in (RBM, TAPRBM):
        Estimator(4, visible=SITES, inference="mean_field", n_iter=1).fit(X)
    for name in ("categorical", "poisson"):
        with pytest.raises(ValueError, match=r"give Categorical\(sizes\) .*Poisson\(\) for counts"):
            RBM(visible=name).fit(X)


@pytest.mark.parametrize(
    "visible, others",
    [
        (Categorical((2, 4)), Categorical((4, 2))),
        (Categorical((2, 4)), Categorical(3)),
        (Categorical((3, 3)), Categorical(2)),
        (Categorical(3), Bernoulli()),
        (
            ColumnUnits([(Gaussian(), 2), (Binomial(2), 4)]),
            ColumnUnits([(Binomial(2), 2), (Gaussian(), 4)]),
        ),
        (
            ColumnUnits([(Gaussian(), 2), (Binomial(2), 4)]),
            ColumnUnits([(Gaussian(), 2), (Binomial(4), 4)]),
        ),
    ],
)
def test_parameters_of_columns_with_other_values_mean_nothing(visible, others):
    first = RBM.from_parameters(np.ones((2, 6)), visible=others, random_state=0)
    for same in (others, first.units_[0]):
        assert RBM.from_parameters(first, visible=same).units_[0] == first.units_[0]
    with pytest.raises(ValueError, match="parameters mean nothing to"):
        RBM.from_parameters(first, visible=visible)


def test_a_fit_does_not_start_at_a_machine_of_other_sites(rbm, X):
    turned = RBM(4, visible=Categorical((2, 3)), init=rbm)
    with pytest.raises(ValueError, match="parameters mean nothing to"):
        turned.fit(np.roll(X, 2, axis=1))
