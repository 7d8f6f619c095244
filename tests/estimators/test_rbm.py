"""RBM and GaussianBernoulliRBM take the steps and the start of the sampler that they are given."""

import numpy as np
import pytest
from _estimators import binary_data
from numpy.testing import assert_array_equal
from sklearn.base import clone

from skrbm import RBM, GaussianBernoulliRBM
from skrbm.inference import ContrastiveDivergence, Gibbs, GibbsLangevin

DATA = {RBM: binary_data(), GaussianBernoulliRBM: binary_data() - 0.5}
samplers = pytest.mark.parametrize("Estimator", DATA)


def weights(Estimator, **params):
    """What two epochs learn."""
    estimator = Estimator(4, n_iter=2, batch_size=10, random_state=0, **params)
    return estimator.fit(DATA[Estimator]).components_


@samplers
def test_steps_are_those_of_the_sampler(Estimator):
    """Unless the estimator is given its own."""
    expected = weights(Estimator, inference="gibbs", n_steps=5)
    assert_array_equal(weights(Estimator, inference=Gibbs(5)), expected)
    assert_array_equal(weights(Estimator, inference=Gibbs(2), n_steps=5), expected)
    assert not np.array_equal(weights(Estimator, inference=Gibbs(2)), expected)
    searched = clone(Estimator(inference=Gibbs())).set_params(inference__n_steps=5)
    assert_array_equal(weights(Estimator, inference=searched.inference), expected)


@pytest.mark.parametrize(
    "Estimator, inference, n_steps",
    [
        (RBM, "gibbs", 1),
        (GaussianBernoulliRBM, "gibbs", 20),
        (GaussianBernoulliRBM, "gibbs_langevin", 20),
        (GaussianBernoulliRBM, GibbsLangevin(), 20),
    ],
)
def test_steps_of_samplers_without_a_number(Estimator, inference, n_steps):
    expected = weights(Estimator, inference=inference, n_steps=n_steps)
    assert_array_equal(weights(Estimator, inference=inference), expected)
    if Estimator is GaussianBernoulliRBM:  # which samples by as many
        rbm = Estimator(4, inference=inference, n_iter=1, random_state=0).fit(DATA[Estimator])
        few = rbm.sample(3, random_state=0)
        assert_array_equal(few, rbm.sample(3, n_steps=n_steps, random_state=0))


def test_contrastive_divergence_starts_at_data():
    expected = weights(RBM, inference="gibbs", starts="data", n_steps=3)
    assert_array_equal(weights(RBM, inference=ContrastiveDivergence(3)), expected)
    assert_array_equal(weights(RBM, inference=ContrastiveDivergence(3), starts="data"), expected)


@pytest.mark.parametrize(
    "Estimator, starts", [(RBM, "persistent"), (GaussianBernoulliRBM, "noise")]
)
def test_contrastive_divergence_starts_nowhere_else(Estimator, starts):
    message = r"ContrastiveDivergence\(n_steps=1\) takes .* got starts='\w+'; set starts='data'"
    with pytest.raises(ValueError, match=message):
        weights(Estimator, inference=ContrastiveDivergence(), starts=starts)
    weights(Estimator, inference=ContrastiveDivergence(), starts="data")
