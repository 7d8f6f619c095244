"""The sampler's own steps and start, and machines whose distribution loses its integral."""

import warnings

import numpy as np
import pytest
from _estimators import binary_data, log_likelihoods
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

from skrbm import RBM, CategoricalRBM, DeepTAPMachine, GaussianBernoulliRBM, TabularRBM
from skrbm.exceptions import DivergenceError
from skrbm.inference import ContrastiveDivergence, Gibbs, GibbsLangevin
from skrbm.units import TruncatedGaussBernoulli, TruncatedGaussian

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
    "Estimator, starts",
    [(RBM, "persistent"), (RBM, "random"), (GaussianBernoulliRBM, "noise")],
)
def test_contrastive_divergence_starts_nowhere_else(Estimator, starts):
    message = r"ContrastiveDivergence\(n_steps=1\) takes .* got starts='\w+'; set starts='data'"
    with pytest.raises(ValueError, match=message):
        weights(Estimator, inference=ContrastiveDivergence(), starts=starts)
    weights(Estimator, inference=ContrastiveDivergence(), starts="data")


IRIS = StandardScaler().fit_transform(load_iris().data)
NO_INTEGRAL = r"(?s)cannot be normalized {}\D.*learning_rate.*truncated_gaussian"


@pytest.mark.parametrize("inference", ["gibbs", "mean_field"])
def test_gaussian_units_whose_couplings_grow_too_strong(inference):
    """The last machine with an integral is kept, whose distribution is normal.

    Its log Z is estimated with a deviation near 0.01: off by 0.2 with probability below 1e-9.
    """
    kinds = {"visible": "gaussian", "hidden": "gaussian", "inference": inference}
    plain = {"learning_rate": 0.1, "schedule": "constant", "centered": False, "average": False}
    rbm = RBM(3, n_iter=30, batch_size=20, random_state=0, **kinds, **plain)
    with pytest.raises(DivergenceError, match=NO_INTEGRAL.format(r"after epoch \d+")):
        rbm.fit(IRIS)
    assert 0 < rbm.n_iter_ < 30
    W, variances = rbm.components_, 1 / rbm.precision_hidden_
    covariance = np.linalg.inv(np.diag(rbm.precision_visible_) - (W.T * variances) @ W)
    mean = covariance @ (rbm.intercept_visible_ + W.T @ (variances * rbm.intercept_hidden_))
    expected = multivariate_normal(mean, covariance).logpdf(IRIS)
    assert_allclose(rbm.score_samples(IRIS), expected, rtol=0, atol=0.2)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_first_machines_without_an_integral(method):
    params = {"visible": "gaussian", "hidden": "gaussian", "init": (np.ones((3, 4)), None, None)}
    with pytest.raises(DivergenceError, match=NO_INTEGRAL.format("before the first epoch")):
        getattr(RBM(3, **params), method)(IRIS)


def test_stacks_without_an_integral():
    """Each pair of layers has one."""
    kinds = {"visible": "gaussian", "hidden": "gaussian", "inference": "mean_field"}
    epochs = {"n_iter": 1, "n_iter_pretrain": 30, "learning_rate": 0.005}
    machine = DeepTAPMachine((3, 3), random_state=0, **kinds, **epochs)
    with pytest.raises(DivergenceError, match=NO_INTEGRAL.format("before the first epoch")):
        machine.fit(IRIS)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_automatic_penalty_is_for_all_rows_learnt_from(optimizer):
    X, weights = binary_data(n=40, n_features=4), np.arange(40) % 3

    def trained(**params):
        return RBM(3, n_iter=3, optimizer=optimizer, random_state=0, **params)

    rbm = trained().fit(X, sample_weight=weights)
    same = trained(alpha=1 / weights.sum()).fit(X, sample_weight=weights)
    assert_array_equal(rbm.components_, same.components_)
    assert (rbm.components_ != trained(alpha=0).fit(X).components_).any()
    rbm, same = trained(), trained()
    for k, n in enumerate((20, 20, 40)):
        rbm.partial_fit(X[:n])
        same.set_params(alpha=1 / (20, 40, 80)[k]).partial_fit(X[:n])
        assert_array_equal(rbm.components_, same.components_)


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


@pytest.mark.parametrize("unit", ["gaussian", "relu", "double_relu"])
@pytest.mark.parametrize("value", [0.0, 1e-6, 0.1])
def test_columns_of_one_value_have_a_sensible_density_there(unit, value):
    """Sums of many rows are off by some roundings: 0.1 is not a deviation in units of these."""
    X = np.abs(np.random.default_rng(0).normal(size=(500, 3)))
    X[:, 2] = value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rbm = RBM(4, visible=unit, n_iter=2, random_state=0).fit(X)
    alone = RBM(4, visible=unit, n_iter=2, random_state=0).fit(X[:, :2])
    scores = rbm.score_samples(X)
    assert (scores > alone.score_samples(X[:, :2]) - 5).all()
    far = rbm.score_samples(X + np.eye(3)[2])
    if unit == "relu":  # its scale is that of the value
        assert (far < scores - 100).all()
    else:  # and here that of the other columns
        assert (far < scores).all() and (far > scores - 5).all()


def test_columns_in_a_narrow_part_of_their_support_are_learnt():
    """Given its group a column deviates by 0.005, and by 0.011 without: six are worth 4 nats."""
    rng = np.random.default_rng(0)
    X = 0.4 + 0.02 * rng.integers(0, 2, (500, 1)) + 0.005 * rng.standard_normal((500, 6))
    likelihoods = []
    for n_iter in (0, 30):
        rbm = RBM(8, visible=TruncatedGaussian(0, 1), n_iter=n_iter, random_state=0).fit(X)
        likelihoods.append(-rbm.free_energy(X).mean() - rbm.log_partition("exact"))
    assert likelihoods[1] > likelihoods[0] + 2.5


def test_a_short_fit_has_its_log_likelihood_in_each_epoch():
    """A sum of 64 terms costs little, however few the rows are."""
    X = binary_data(200)
    rbm = RBM(6, n_iter=3, random_state=0).fit(X)
    history = rbm.history_
    assert history["epoch"] == [1, 2, 3]
    assert history["log_likelihood"][-1] == pytest.approx(log_likelihoods(rbm, X).mean())
    assert np.isfinite(history["log_likelihood"]).all()
    assert_array_equal(history["log_likelihood_std"], [0, 0, 0])


# ------------------------------------------------------------------------- number of passes


@pytest.mark.parametrize(
    "Estimator, n_rows, params, n_passes",
    [
        (RBM, 30, {}, 334),  # of three batches
        (RBM, 1500, {}, 67),
        (RBM, 1501, {}, 63),
        (RBM, 4000, {}, 40),
        (RBM, 200, {"batch_size": 20}, 100),
        (RBM, 30, {"learning_rate": 0.1}, 40),
        (RBM, 30, {"inference": "tap"}, 40),
        (RBM, 30, {"n_iter": 7}, 7),
        (TabularRBM, 30, {}, 334),
        (TabularRBM, 2000, {}, 100),
        (CategoricalRBM, 30, {}, 334),
    ],
)
def test_few_rows_are_learnt_in_a_thousand_steps(Estimator, n_rows, params, n_passes):
    X = np.random.default_rng(0).integers(2, size=(n_rows, 4))
    assert Estimator(2, random_state=0, **params).fit(X).n_iter_ == n_passes


def test_weights_count_as_rows_in_the_number_of_passes():
    X = np.random.default_rng(0).integers(2, size=(30, 4))
    assert RBM(2, random_state=0).fit(X, sample_weight=np.full(30, 50)).n_iter_ == 67


def test_the_schedule_of_automatic_passes_ends_at_zero():
    """A fit that goes on after its last epoch would not move any more."""
    X, seen = np.random.default_rng(0).integers(2, size=(60, 4)), []

    def linear(progress):
        seen.append(progress)
        return 1 - progress

    RBM(2, schedule=linear, random_state=0).fit(X)
    assert max(seen) == pytest.approx(333 / 334) and min(seen) == 0
