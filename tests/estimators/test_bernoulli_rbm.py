"""BernoulliRBM: a drop-in for scikit-learn's, and it learns."""

import inspect

import numpy as np
import pytest
import sklearn.neural_network as theirs
from _estimators import (
    binary_data,
    small,
)
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from skrbm import BernoulliRBM

# ------------------------------------------------------------------------ drop-in


def test_constructor_has_the_same_names_and_defaults():
    ours = inspect.signature(BernoulliRBM).parameters
    for name, parameter in inspect.signature(theirs.BernoulliRBM).parameters.items():
        assert ours[name].default == parameter.default
        assert ours[name].kind == parameter.kind
    assert list(ours)[: len(theirs.BernoulliRBM().get_params())][0] == "n_components"


def test_has_all_methods_and_attributes():
    X = binary_data()
    one, other = (small(Class).fit(X) for Class in (BernoulliRBM, theirs.BernoulliRBM))
    methods = {name for name in dir(other) if not name.startswith("_")}
    assert methods <= set(dir(one)) | {"random_state_", "random_state"}
    for name in ("components_", "intercept_hidden_", "intercept_visible_", "h_samples_"):
        assert getattr(one, name).shape == getattr(other, name).shape
    assert one.h_samples_.shape == (10, 5)
    assert set(np.unique(one.h_samples_)) <= {0, 1}
    for name in ("transform", "score_samples", "gibbs"):
        assert getattr(one, name)(X).shape == getattr(other, name)(X).shape
    assert_array_equal(one.get_feature_names_out(), other.get_feature_names_out())


@pytest.mark.parametrize("Class", [BernoulliRBM, theirs.BernoulliRBM])
def test_learning_rate_has_the_same_meaning(Class):
    """Biases of 100 hold every unit of the machine on, so that a step is no longer random."""
    X = binary_data(n=10)
    rbm = small(Class, learning_rate=0.3)
    rbm.partial_fit(X)
    rbm.components_ = np.zeros((5, 8))
    rbm.intercept_hidden_, rbm.intercept_visible_ = np.full(5, 100.0), np.full(8, 100.0)
    rbm.h_samples_ = np.ones((10, 5))
    rbm.partial_fit(X)
    step = 0.3 * (X.mean(axis=0) - 1)
    assert_allclose(rbm.intercept_visible_, 100 + step, rtol=1e-12)
    assert_allclose(rbm.components_, np.tile(step, (5, 1)), rtol=1e-12)
    assert_allclose(rbm.intercept_hidden_, 100, rtol=1e-12)


# ------------------------------------------------------------------------ learning


def test_likelihoods_are_measured_at_the_end_and_with_verbose_in_each_epoch(capsys):
    X = (np.random.default_rng(0).random((50, 12)) < 0.3).astype(float)
    rbm = BernoulliRBM(16, n_iter=3, random_state=0).fit(X)
    assert_array_equal(np.isnan(rbm.history_["log_likelihood"]), [True, True, False])
    rbm.set_params(verbose=1).fit(X)
    assert_allclose(rbm.history_["log_likelihood"][-1], rbm.score(X), rtol=1e-6)
    assert np.isfinite(rbm.history_["log_likelihood"]).all() and capsys.readouterr().out


def test_warns_below_independent_columns():
    """The defaults of scikit-learn's class are too long for these columns, which are clusters."""
    centres = np.random.default_rng(0).random((2, 30)) < 0.5
    X = (centres[np.arange(1000) % 2] ^ (np.random.default_rng(1).random((1000, 30)) < 0.02)) * 1.0
    with pytest.warns(ConvergenceWarning, match="below that of independent columns"):
        BernoulliRBM(random_state=0).fit(X)
