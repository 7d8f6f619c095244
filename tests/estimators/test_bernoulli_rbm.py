"""BernoulliRBM: a drop-in for scikit-learn's, right where that is wrong, and it learns.

Each test of the second part shows on scikit-learn's class what goes wrong there; should one of
its assertions about "theirs" fail, that defect has been mended there and the assertion can go.
"""

import inspect

import numpy as np
import pytest
import sklearn.neural_network as theirs
from _estimators import (
    binary_data,
    divergence_from_noisy_patterns,
    independent_bits,
    log_likelihoods,
    noisy_patterns,
    small,
)
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from skrbm import RBM, BernoulliRBM
from skrbm.inference import Gibbs
from skrbm.learning import SGD

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


# ------------------------------------------- what is wrong there and is right here


def test_a_short_last_batch_does_no_harm():
    """Exact log-likelihoods; over seeds, those of ours vary by 0.06 nats around -5.9."""
    uniform = -12 * np.log(2)
    params = {"n_components": 10, "batch_size": 100, "n_iter": 30, "random_state": 0}

    def fitted(Class, n):
        X = noisy_patterns(n)
        return log_likelihoods(Class(**params).fit(X), X).mean()

    even, odd = fitted(BernoulliRBM, 1000), fitted(BernoulliRBM, 1001)
    assert abs(odd - even) < 0.3
    assert odd > uniform + 1.5
    assert fitted(theirs.BernoulliRBM, 1000) > uniform + 1.5
    assert fitted(theirs.BernoulliRBM, 1001) < uniform, "theirs: 1 data row against 100 chains"


# ------------------------------------------------------------------------ learning


@pytest.mark.parametrize(("n_features", "deviation"), [(8, 0.1), (256, 0.05)])
def test_deviation_of_the_first_weights(n_features, deviation):
    """The mean square of normal weights is outside these bounds with probability 1e-9."""
    X = binary_data(20, n_features)
    W = small(BernoulliRBM, n_components=500, n_iter=0).fit(X).components_
    low, high = stats.chi2(W.size).ppf([5e-10, 1 - 5e-10]) / W.size
    assert low < np.mean(W**2) / deviation**2 < high


@pytest.mark.law
@pytest.mark.parametrize(
    "inference, momentum, bound",
    [
        (Gibbs(start="persistent"), 0.0, 0.45),
        (Gibbs(start="data"), 0.0, 0.6),
        (Gibbs(5, start="data"), 0.0, 0.45),
        (Gibbs(start="persistent"), 0.5, 0.45),
    ],
)
def test_learns_a_known_law(inference, momentum, bound):
    """Exact divergences in nats: bounds are about twice what several seeds reach."""
    X = noisy_patterns(2000)
    rate = 0.2 * (1 - momentum)
    optimizer = SGD(momentum, alpha=0.0, schedule="linear", centered=False, average=False)
    rbm = RBM(8, inference=inference, optimizer=optimizer, learning_rate=rate, n_iter=40)
    rbm.set_params(batch_size=50, init="random", random_state=0).fit(X)
    assert divergence_from_noisy_patterns(rbm.score_samples) < bound
    assert divergence_from_noisy_patterns(independent_bits) > 3.9
