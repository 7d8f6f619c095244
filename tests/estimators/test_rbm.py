"""The sampler's own steps and start, and machines whose distribution loses its integral."""

import numpy as np
import pytest
from _estimators import binary_data
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

from skrbm import RBM, TAPRBM, BernoulliRBM, CategoricalRBM
from skrbm.exceptions import DivergenceError
from skrbm.inference import TAP, Gibbs
from skrbm.learning import SGD
from skrbm.units import Categorical, TruncatedGaussBernoulli, TruncatedGaussian

IRIS = StandardScaler().fit_transform(load_iris().data)
NO_INTEGRAL = r"(?s)cannot be normalized {}\D.*learning_rate.*truncated_gaussian"


@pytest.mark.parametrize("inference", ["gibbs", "mean_field"])
def test_gaussian_units_whose_couplings_grow_too_strong(inference):
    """The last machine with an integral is kept, whose distribution is normal.

    Its log Z is estimated with a deviation near 0.01: off by 0.2 with probability below 1e-9.
    """
    kinds = {"visible": "gaussian", "hidden": "gaussian", "inference": inference}
    optimizer = SGD(alpha=0.0, schedule="constant", centered=False, average=False)
    plain = {"learning_rate": 0.1, "optimizer": optimizer}
    rbm = RBM(3, n_iter=30, batch_size=20, random_state=0, **kinds, **plain)
    with pytest.raises(DivergenceError, match=NO_INTEGRAL.format(r"after epoch \d+")):
        rbm.fit(IRIS)
    assert 0 < rbm.n_iter_ < 30
    W, variances = rbm.components_, 1 / rbm.precision_hidden_
    covariance = np.linalg.inv(np.diag(rbm.precision_visible_) - (W.T * variances) @ W)
    mean = covariance @ (rbm.intercept_visible_ + W.T @ (variances * rbm.intercept_hidden_))
    expected = multivariate_normal(mean, covariance).logpdf(IRIS)
    assert_allclose(rbm.score_samples(IRIS), expected, rtol=0, atol=0.2)


@pytest.mark.parametrize("unit", [TruncatedGaussian(0, 1), TruncatedGaussBernoulli(0, 1)])
def test_columns_that_are_nearly_constant_do_not_spoil_the_others(unit):
    # In one row they are not zero: in units of their deviations that lies far out.
    rng = np.random.default_rng(0)
    X = 0.2 + 0.5 * rng.integers(0, 2, (500, 1)) + 0.1 * rng.standard_normal((500, 6))
    X[:, 4:] = 0
    X[0, 4:] = 0.06, 0.5
    X, likelihoods = X.clip(0, 1), []
    for n_iter in (0, 100):
        rbm = RBM(4, visible=unit, n_iter=n_iter, random_state=0).fit(X)
        likelihoods.append(-rbm.free_energy(X).mean() - rbm.log_partition("exact"))
    assert likelihoods[1] > likelihoods[0] + 1.5


# ------------------------------------------------------------------------- number of passes


@pytest.mark.parametrize(
    "Estimator, n_rows, params, n_passes",
    [
        (RBM, 30, {}, 334),  # of three batches
        (RBM, 1501, {}, 63),
        (RBM, 30, {"learning_rate": 0.1}, 40),
        (RBM, 30, {"n_iter": 7}, 7),
    ],
)
def test_few_rows_are_learnt_in_a_thousand_steps(Estimator, n_rows, params, n_passes):
    X = np.random.default_rng(0).integers(2, size=(n_rows, 4))
    assert Estimator(2, random_state=0, **params).fit(X).n_iter_ == n_passes


# ------------------------------------------------------------------------------- presets


PLAIN = SGD(alpha=0.0, schedule="constant", centered=False, average=False)


@pytest.mark.parametrize(
    "Preset, params, of_rbm",
    [
        (BernoulliRBM, {}, {"optimizer": PLAIN, "inference": Gibbs(start="persistent")}),
        (TAPRBM, {"inference": TAP(start="persistent"), "optimizer": PLAIN}, {"optimizer": PLAIN}),
        (TAPRBM, {"inference": TAP(start="data"), "optimizer": PLAIN}, {"optimizer": PLAIN}),
    ],
)
def test_presets_are_rbms_with_other_parameters(Preset, params, of_rbm):
    """To the last bit, from the same first parameters."""
    same = {"n_components": 5, "n_iter": 3, "batch_size": 10, "random_state": 0}
    same |= {"learning_rate": 0.1}
    init = 0.1 * np.random.default_rng(0).standard_normal((5, 8)), np.zeros(5), np.zeros(8)
    preset = Preset(**same, **params)
    rbm = RBM(**same, **{"inference": preset.inference, **of_rbm})
    for estimator in (preset, rbm):
        estimator.init = init
        estimator.fit(binary_data()).partial_fit(binary_data(seed=1))
    assert_array_equal(preset.components_, rbm.components_)
    assert_array_equal(preset.sample(5, random_state=0), rbm.sample(5, random_state=0))


def test_a_machine_of_categories_is_one_of_their_columns():
    values = np.random.default_rng(0).integers([3, 2], size=(60, 2))
    columns = np.hstack([np.eye(3)[values[:, 0]], np.eye(2)[values[:, 1]]])
    same = {"n_components": 4, "n_iter": 3, "random_state": 0, "inference": "pcd"}
    categorical = CategoricalRBM(**same).fit(values)
    rbm = RBM(visible=Categorical((3, 2)), **same).fit(columns.astype(np.float32))
    assert_allclose(categorical.score_samples(values), rbm.score_samples(columns), rtol=1e-4)
    options = {"substitution_probability": 0.2, "n_steps": 50, "random_state": 0}
    found = rbm.denoise(columns, **options)
    found = np.stack([part.argmax(axis=1) for part in (found[:, :3], found[:, 3:])], axis=1)
    assert_array_equal(found, categorical.denoise(values, **options))
