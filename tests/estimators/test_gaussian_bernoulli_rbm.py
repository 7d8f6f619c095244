"""GaussianBernoulliRBM: what it has beyond the checks of all estimators.

Random tests have fixed seeds; the level at which a right program would fail is given with each.
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from _exact import Exact
from _fractional import all_rows
from _machines import slopes_of
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from skrbm import RBM, TAPRBM, GaussianBernoulliRBM
from skrbm.estimators._gaussian_bernoulli_rbm import MeanVariance
from skrbm.exceptions import DataRangeWarning
from skrbm.inference import Gibbs, GibbsLangevin, Langevin
from skrbm.machine import Block, Moments, data_moments
from skrbm.units import Gaussian

C = np.array([[1.0, -0.5], [0.3, 2.0], [-1.2, 0.4]])
B, MU, VARIANCES = np.array([0.2, -0.7, 0.1]), np.array([0.5, -1.0]), np.array([0.6, 1.7])


def known(**params):
    return GaussianBernoulliRBM.from_parameters(C, B, MU, VARIANCES, random_state=0, **params)


def log_joint(V, C=C, b=B, mean=MU, variances=VARIANCES):
    """-E(v, h) of Eq. 1 for each row and each configuration."""
    H = all_rows(3)
    own = -0.5 * ((V - mean) ** 2 / variances).sum(axis=1)
    return own[:, None] + (V / variances) @ C.T @ H.T + H @ b


def log_z(C=C, b=B, mean=MU, variances=VARIANCES):
    """The closed form: a mixture of 8 normal laws."""
    H = all_rows(3)
    means = mean + H @ C
    exponent = H @ b + ((means**2 - mean**2) / (2 * variances)).sum(axis=1)
    return logsumexp(exponent) + 0.5 * np.log(2 * np.pi * variances).sum()


def log_density(V, *parameters):
    return logsumexp(log_joint(V, *parameters), axis=1) - log_z(*parameters)


def clusters(n=400, seed=0, dtype=np.float64):
    generator = np.random.default_rng(seed)
    signs = np.where(generator.random(n) < 0.5, 1.0, -1.0)[:, None]
    return (signs * [2.0, -1.0, 0.5] + 0.5 * generator.standard_normal((n, 3))).astype(dtype)


METHODS = [GibbsLangevin(), Langevin(), Gibbs()]


def small(**params):
    defaults = {"n_components": 4, "n_iter": 3, "batch_size": 50, "random_state": 0}
    defaults["inference"] = GibbsLangevin(n_steps=5, burn_in=0)
    return GaussianBernoulliRBM(**{**defaults, **params})


def parameters(rbm):
    names = ("components_", "intercept_hidden_", "intercept_visible_", "variances_")
    return tuple(np.array(getattr(rbm, name)) for name in names)


# ------------------------------------------------------------------------- the law


def test_scores_are_those_of_the_mixture():
    V = np.random.default_rng(0).normal(size=(50, 2)) * 2
    assert_allclose(known().score_samples(V), log_density(V), rtol=1e-10)
    assert_allclose(known().log_partition(), log_z(), rtol=1e-12)
    assert_allclose(known().free_energy(V), -logsumexp(log_joint(V), axis=1), rtol=1e-10)


@pytest.mark.parametrize("offset", [1e6, 2e9])
def test_densities_far_from_zero(offset):
    """The same machine moved: in float64, where squares of 2e9 have a spacing of 512."""
    X = clusters()
    rbm = small().fit(X)
    C, b, mean, variances = parameters(rbm)
    there = GaussianBernoulliRBM.from_parameters(
        C, b - C @ (offset / variances), mean + offset, variances
    )
    assert_allclose(there.score_samples(X + offset), rbm.score_samples(X), atol=1e-14 * offset)


# ------------------------------------------------------------------------ learning


def exact_moments(machine):
    """The machine's own moments by enumeration, as one row and what its product lacks."""
    exact = Exact(machine)
    means = exact.mean(0)[None], exact.mean(1)[None]
    pair = exact.pair(0) - means[1].T @ means[0]
    return Moments((Block(means, (exact.variance(0)[None], None), 1.0),), ((0, pair),))


def test_gradient_is_that_of_the_log_likelihood():
    """Eqs. 14 to 17 against central differences of the exact mean log-likelihood."""
    V = np.random.default_rng(2).normal(size=(7, 2))
    machine = known().machine_
    moments = data_moments(machine, V) - exact_moments(machine)
    slopes = MeanVariance().gradient(machine, moments).arrays(())

    def likelihood(C, mean, log_variance, b):
        return log_density(V, C, b, mean, np.exp(log_variance)).mean()

    values, own = [C, MU, np.log(VARIANCES), B], MeanVariance().of(machine)
    for value, part in zip(values, own, strict=True):
        assert_allclose(part, value, rtol=1e-12)
    again = MeanVariance().machine(machine, own)
    for part, leaf in zip(again.leaves, machine.leaves, strict=True):
        assert_allclose(part, leaf, rtol=1e-12)
    for slope, expected in zip(slopes, slopes_of(likelihood, values), strict=True):
        assert_allclose(slope, expected, rtol=1e-6, atol=1e-8)


# --------------------------------------------------------------------- coordinates


def test_a_fit_does_not_depend_on_units():
    X = clusters()
    one, other = small().fit(X), small().fit(1000 * X - 3)
    assert_allclose(1000 * one.components_, other.components_, rtol=1e-6, atol=1e-6)
    assert_allclose(one.transform(X), other.transform(1000 * X - 3), rtol=1e-6)
    assert_allclose(
        1000 * one.sample(5, random_state=0) - 3, other.sample(5, random_state=0), rtol=1e-6
    )


def test_columns_as_they_are():
    """One scale for all pixels stays; data that are standardized already are learned as before."""
    X = clusters() * [3.0, 1.0, 1.0]
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    one, other = small().fit(Z), small(standardize=False).fit(Z)
    for a, b in zip(parameters(one), parameters(other), strict=True):
        assert_allclose(a, b, rtol=1e-6, atol=1e-8)
    own = small(n_iter=0, standardize=False).fit(X)
    assert_array_equal(own.variances_, 1)  # in standardized coordinates those of the data
    params = {"standardize": False, "inference": own.inference}
    rbm = GaussianBernoulliRBM.from_parameters(own, **params)
    for name, value in (("noise_mean_", 0), ("noise_scale_", 1)):
        assert_array_equal(getattr(own, name), value)
        assert_array_equal(getattr(rbm, name), value)
        assert_array_equal(getattr(known(standardize=False), name), value)
    assert_array_equal(rbm.sample(3, random_state=0), own.sample(3, random_state=0))


# ------------------------------------------------------------------ what it is used for


@pytest.mark.parametrize("inference", METHODS, ids=lambda method: type(method).__name__)
def test_samples_of_annealed_chains_have_the_shares_of_the_machine(inference):
    """Modes ten deviations apart, one with four times the weight of the other.

    Resampling makes draws depend on each other: 0.07 is above six of the standard deviations of
    0.010 and 0.011 that 40 seeds had.
    """
    C, weight = np.array([[10.0, 0.0]]), 0.8
    b = np.array([-(C**2).sum() / 2 + np.log(weight / (1 - weight))])
    rbm = GaussianBernoulliRBM.from_parameters(C, b, inference=replace(inference, start="annealed"))
    rbm.noise_mean_, rbm.noise_scale_ = np.array([5.0, 0.0]), np.array([5.0, 1.0])
    V = rbm.sample(4000, n_steps=30, random_state=0)
    assert abs((V[:, 0] > 5).mean() - weight) < 0.07
    assert abs((rbm.sample(4000, n_steps=0, random_state=0)[:, 0] > 5).mean() - 0.5) < 0.05
    plain = rbm.set_params(inference__start="noise").sample(4000, n_steps=30, random_state=0)
    assert abs((plain[:, 0] > 5).mean() - 0.5) < 0.05
    rbm.set_params(inference__start="annealed")
    stays = rbm.sample(500, n_steps=30, init=np.zeros((500, 2)), random_state=0)
    assert (stays[:, 0] < 5).all()


def test_from_parameters():
    rbm = known()
    for given, kept in zip((C, B, MU, VARIANCES), parameters(rbm), strict=True):
        assert_array_equal(given, kept)
    copied = GaussianBernoulliRBM.from_parameters(rbm)
    for given, kept in zip((C, B, MU, VARIANCES), parameters(copied), strict=True):
        assert_array_equal(given, kept)
    assert (rbm.n_components, rbm.n_features_in_, rbm.n_iter_) == (3, 2, 0)
    bare = GaussianBernoulliRBM.from_parameters(C)
    assert_array_equal(bare.variances_, 1)
    assert not bare.intercept_visible_.any()
    fitted = small().fit(clusters())
    again = GaussianBernoulliRBM.from_parameters(
        fitted, inference=GibbsLangevin(n_steps=5, burn_in=0)
    )
    assert_array_equal(
        again.sample(3, random_state=0), fitted.sample(3, random_state=0)
    )  # from the same noise
    rbm.partial_fit(np.random.default_rng(0).normal(size=(20, 2)))
    assert rbm.n_iter_ == 1


def test_a_machine_of_another_estimator_keeps_its_law():
    """TAPRBM has fields and precisions where this one has means and variances."""
    units = {"visible": "gaussian", "hidden": "bernoulli"}
    other = TAPRBM.from_parameters(
        C / VARIANCES, B, MU / VARIANCES, precision_visible=1 / VARIANCES, **units
    )
    X = np.random.default_rng(0).normal(size=(9, 2))
    taken = GaussianBernoulliRBM.from_parameters(other)
    for one, expected in zip(parameters(taken), (C, B, MU, VARIANCES), strict=True):
        assert_allclose(one, expected, rtol=1e-12)
    assert_allclose(taken.score_samples(X), other.score_samples(X), rtol=1e-10)
    started = small(n_components=3, n_iter=0, init=other).fit(X)
    assert_allclose(started.score_samples(X), other.score_samples(X), rtol=1e-8)
    back = RBM.from_parameters(taken, visible=Gaussian())
    assert_allclose(back.score_samples(X), other.score_samples(X), rtol=1e-10)


# ------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    "variances, message",
    [
        (np.array([1.0, 0.0]), "variances must be positive"),
        (np.ones(3), r"variances must have shape"),
        (np.array([1.0, 1e-320]), "variances are too small"),
    ],
)
def test_wrong_variances(variances, message):
    with pytest.raises(ValueError, match=message):
        GaussianBernoulliRBM.from_parameters(C, B, MU, variances)


# ---------------------------------------------------------------------- robustness


def digits(dtype=np.float32):
    return load_digits().data[:300].astype(dtype) * 15.9


def with_outlier(X):
    X[17] = 1e6
    return X


DATA = {
    "bytes": lambda: digits(np.uint8),  # of which some columns are constant
    "nearly constant": lambda: np.column_stack([clusters(), 1e3 + 1e-12 * np.arange(400)]),
    "outlier": lambda: with_outlier(digits()),
    "unequal variances": lambda: clusters() * [1e-8, 1.0, 1e8],
    "equal rows": lambda: np.ones((20, 3)),
}


@pytest.mark.parametrize("data", DATA)
def test_no_fit_ends_in_nan(data):
    X = DATA[data]()
    rbm = small(learning_rate=3e-2, n_components=16, n_iter=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for known in (ConvergenceWarning, DataRangeWarning):  # of so few epochs, of constants
            warnings.simplefilter("ignore", known)
        rbm.fit(X)
        scores = rbm.free_energy(X)
        drawn = rbm.sample(10, random_state=0)
    assert all(np.isfinite(part).all() for part in (*parameters(rbm), scores, drawn))
    assert (rbm.variances_ > 0).all()


def test_starts_at_normal_components():
    """As the released code: N(0, 1 / (n_features + n_components)), unit variances, no biases."""
    X = np.random.default_rng(0).normal(5.0, 3.0, (50, 100))
    options = {"init": "normal", "n_iter": 0, "random_state": 0}
    rbm = GaussianBernoulliRBM(300, standardize=False, **options).fit(X)
    assert_allclose(rbm.components_.std(), 1 / 20, rtol=0.02)  # 5 standard errors are 0.014
    assert_array_equal(rbm.variances_, 1.0)
    for biases in (rbm.intercept_hidden_, rbm.intercept_visible_):
        assert_array_equal(biases, 0.0)
    standard = GaussianBernoulliRBM(300, **options).fit(X)
    assert_allclose(standard.intercept_visible_, X.mean(axis=0))
    assert_allclose(standard.variances_, X.var(axis=0))
