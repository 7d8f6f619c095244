"""GaussianBernoulliRBM: what it has beyond the checks of all estimators.

Random tests have fixed seeds; the level at which a right program would fail is given with each.
"""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from _exact import Exact
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import expit, logsumexp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from skrbm import TAPRBM, GaussianBernoulliRBM, evaluation
from skrbm.estimators.gaussian_bernoulli._coordinates import MeanVariance, machine_of
from skrbm.evaluation import log_partition
from skrbm.inference import AIS, GibbsLangevin, Langevin
from skrbm.learning import CHAINS, SGD, Adam, Noise
from skrbm.learning._chains import noisy_base
from skrbm.machine import Block, Moments, data_moments
from skrbm.units import Theta

LEVEL = 1e-6
C = np.array([[1.0, -0.5], [0.3, 2.0], [-1.2, 0.4]])
B, MU, VARIANCES = np.array([0.2, -0.7, 0.1]), np.array([0.5, -1.0]), np.array([0.6, 1.7])


def known(**params):
    return GaussianBernoulliRBM.from_parameters(C, B, MU, VARIANCES, random_state=0, **params)


def hidden_rows():
    return ((np.arange(8)[:, None] >> np.arange(3)) & 1).astype(float)


def log_joint(V, C=C, b=B, mean=MU, variances=VARIANCES):
    """-E(v, h) of Eq. 1 for each row and each configuration."""
    H = hidden_rows()
    own = -0.5 * ((V - mean) ** 2 / variances).sum(axis=1)
    return own[:, None] + (V / variances) @ C.T @ H.T + H @ b


def log_z(C=C, b=B, mean=MU, variances=VARIANCES):
    """The closed form: a mixture of 8 normal laws."""
    H = hidden_rows()
    means = mean + H @ C
    exponent = H @ b + ((means**2 - mean**2) / (2 * variances)).sum(axis=1)
    return logsumexp(exponent) + 0.5 * np.log(2 * np.pi * variances).sum()


def log_density(V, *parameters):
    return logsumexp(log_joint(V, *parameters), axis=1) - log_z(*parameters)


def clusters(n=400, seed=0, dtype=np.float64):
    generator = np.random.default_rng(seed)
    signs = np.where(generator.random(n) < 0.5, 1.0, -1.0)[:, None]
    return (signs * [2.0, -1.0, 0.5] + 0.5 * generator.standard_normal((n, 3))).astype(dtype)


def small(**params):
    defaults = {"n_components": 4, "n_iter": 3, "n_steps": 5, "batch_size": 50, "random_state": 0}
    defaults["adjust_after"] = 0
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


@pytest.mark.parametrize("make", [sp.csr_array, sp.csc_array])
def test_scores_of_sparse_rows_are_those_of_dense_ones(make):
    """More rows than are made dense at a time."""
    V = np.random.default_rng(0).normal(size=(2500, 2)).round()
    assert_allclose(known().score_samples(make(V)), log_density(V), rtol=1e-10)


def test_functions_of_evaluation_have_the_same_energy_and_rows_of_the_data():
    """Means far from 0, where rows in other coordinates would show.

    Estimates lie within 6 standard errors: a probability of 2e-9 each, were they normal.
    """
    rbm = GaussianBernoulliRBM.from_parameters(C, B, [700.0, -900.0], VARIANCES, random_state=0)
    truth = log_z(mean=np.array([700.0, -900.0]))
    assert_allclose(evaluation.exact_log_partition(rbm), truth, rtol=1e-12)
    base = Theta(np.array([700.0, -900.0]) / 2, np.full(2, 0.5))  # of variance 2
    for more in ({"base": base}, {"starts": rbm.starts_}, {}):
        found = log_partition(rbm, AIS(400), random_state=0, **more)
        assert abs(found.value - truth) < 6 * found.std < 0.5
        found = evaluation.reverse_log_partition(rbm, random_state=0, **more)
        assert abs(found.value - truth) < 6 * found.std < 1
    visible, _ = evaluation.exact_marginals(rbm)
    assert_allclose(visible, rbm.sample(20_000, n_steps=50, random_state=0).mean(axis=0), atol=0.1)


def test_solutions_stand_for_the_log_partition_of_the_same_energy():
    """Minus a free energy is what log Z by the method is, and means are those of the data."""
    weak, mean = 0.1 * C, np.array([700.0, -900.0])
    hidden = B - (weak / VARIANCES) @ mean
    rbm = GaussianBernoulliRBM.from_parameters(weak, hidden, mean, VARIANCES, random_state=0)
    found = evaluation.solutions(rbm, "tap", starts=mean + np.eye(2))
    assert len(found) == 1
    assert found.log_partition() == pytest.approx(log_partition(rbm, "tap").value, rel=1e-9)
    assert found.log_partition() == pytest.approx(rbm.log_partition("exact"), abs=0.01)
    assert_allclose(found.visible_means[0], evaluation.exact_marginals(rbm)[0], atol=0.01)
    assert_allclose(found.starts, mean + np.eye(2))


@pytest.mark.parametrize("variance", [1.0, 1e-4])
@pytest.mark.parametrize("offset", [1e4, 1e6])
def test_marginals_far_from_zero(offset, variance):
    """The machine of the same law at zero, moved: hidden means are the same, visible ones moved."""
    scaled, variances = np.sqrt(variance) * C, variance * VARIANCES
    here = GaussianBernoulliRBM.from_parameters(scaled, B, None, variances)
    hidden = B - (scaled / variances) @ np.full(2, offset)
    there = GaussianBernoulliRBM.from_parameters(scaled, hidden, np.full(2, offset), variances)
    (visible, active), (moved, same) = map(evaluation.exact_marginals, (here, there))
    assert_allclose(same, active, rtol=1e-15 * offset / variance)
    assert_allclose(moved, visible + offset, rtol=1e-12)


@pytest.mark.law
def test_a_base_of_one_row_leaves_log_z_right():
    """One chain has no variance; within 6 standard errors: 2e-9, were it normal."""
    X = np.random.default_rng(0).normal(size=(200, 6))
    for rbm in (
        GaussianBernoulliRBM(8, batch_size=1, n_iter=2, random_state=0).fit(X),
        TAPRBM(8, visible="gaussian", n_starts=1, n_iter=2, random_state=0).fit(X),
    ):
        assert rbm.starts_.shape[0] == 1
        value, std = rbm.log_partition("ais", return_std=True)
        assert abs(value - rbm.log_partition("exact")) < 6 * std < 0.3


def test_annealed_chains_begin_as_wide_as_the_machine():
    """Noise of little width in a machine of variance 1: the base is no narrower than that."""
    machine = machine_of(np.zeros((2, 3)), np.zeros(2), np.zeros(3), np.ones(3))
    noise = Noise(np.full(3, 5.0), np.array([1e-3, 1.0, 2.0]))
    theta = noisy_base(machine, noise).thetas[0]
    assert_allclose(1 / theta.precision, [1, 1, 4])
    assert_allclose(theta.field / theta.precision, 5)


@pytest.mark.parametrize("offset", [1e6, 2e9])
@pytest.mark.parametrize("standardize", [False, True])
def test_densities_far_from_zero(offset, standardize):
    """The same machine moved: in float64, where squares of 2e9 are told apart by 512."""
    X = clusters()
    rbm = small(standardize=standardize).fit(X)
    C, b, mean, variances = parameters(rbm)
    there = GaussianBernoulliRBM.from_parameters(
        C, b - C @ (offset / variances), mean + offset, variances
    )
    assert_allclose(there.score_samples(X + offset), rbm.score_samples(X), atol=1e-14 * offset)


@pytest.mark.parametrize("n_features", [1, 2])
@pytest.mark.parametrize("standardize", [False, True])
def test_density_integrates_to_one(n_features, standardize):
    """By the trapezoid rule on a grid that covers ten standard deviations."""
    X = 40 + 5 * clusters()[:, :n_features]
    rbm = small(standardize=standardize).fit(X)
    reach = 10 * np.sqrt(rbm.variances_) + np.abs(rbm.components_).sum(axis=0)
    axes = [
        np.linspace(m - r, m + r, 801) for m, r in zip(rbm.intercept_visible_, reach, strict=True)
    ]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, n_features)
    density = np.exp(rbm.score_samples(grid)).reshape([801] * n_features)
    for axis in axes:
        density = np.trapezoid(density, axis, axis=0)
    assert_allclose(density, 1, rtol=1e-6)


def test_ais_agrees_with_the_exact_sum():
    """Within 6 standard errors: a probability of 2e-9, were it normal."""
    rbm = known()
    value, std = rbm.log_partition("ais", return_std=True)
    assert 0 < std < 0.1
    assert abs(value - rbm.log_partition("exact")) < 6 * std


@pytest.mark.parametrize("offset", [1e3, 1e5])
def test_densities_of_float32_far_from_zero(offset):
    """Terms of the free energy are 1e6 and 1e10 here, and cancel."""
    X = (clusters() + offset).astype(np.float32)
    rbm = small(n_iter=2).fit(X)
    double = GaussianBernoulliRBM.from_parameters(*(p.astype(float) for p in parameters(rbm)))
    assert rbm.components_.dtype == np.float32
    expected = double.score_samples(X.astype(float))
    assert_allclose(rbm.score_samples(X), expected, rtol=0, atol=1e-4 * offset / 1e5 + 1e-8)
    value, std = rbm.log_partition("ais", return_std=True)
    assert abs(value - rbm.log_partition("exact")) < 6 * std + 1e-4
    exact = log_partition(double, "exact").value
    assert abs(log_partition(rbm, "exact").value - exact) < 1e-4 * offset / 1e5 + 1e-8


@pytest.mark.parametrize("value", [0.5, 0.1])  # of which sums are exact, or off by rounding
@pytest.mark.parametrize("standardize", [False, True])
def test_constant_columns_have_the_scale_of_the_others(standardize, value):
    X = 1e-3 * clusters()
    X = np.column_stack([X, np.full(len(X), value)])
    rbm = small(n_iter=0, standardize=standardize).fit(X)
    assert rbm.variances_[-1] == pytest.approx(np.median(X[:, :-1].std(axis=0)) ** 2, rel=1e-6)


def test_transform_and_back():
    V = np.random.default_rng(1).normal(size=(20, 2))
    H = known().transform(V)
    assert_allclose(H, expit((V / VARIANCES) @ C.T + B), rtol=1e-12)
    assert_allclose(known().inverse_transform(H), MU + H @ C, rtol=1e-12)
    assert_allclose(known().predict(V), MU + H @ C, rtol=1e-12)


# ------------------------------------------------------------------------ learning


def exact_moments(machine):
    """The machine's own moments by enumeration, as one row and what its product lacks."""
    exact = Exact(machine)
    means = exact.mean(0)[None], exact.mean(1)[None]
    pair = exact.pair(0) - means[1].T @ means[0]
    return Moments((Block(means, (exact.variance(0)[None], None), 1.0),), ((0, pair),))


def slopes_of(machine, moments):
    """By C, mu, log sigma**2 and b."""
    return MeanVariance().gradient(machine, moments).arrays(())


def stepped(machine, moments, rate, optimizer=SGD(), state=None, min_variance=1e-6):  # noqa: B008
    """(C, mu, log sigma**2, b) after a step, the machine, and the state of the optimiser."""
    coordinates = MeanVariance(min_variance)
    values = coordinates.of(machine.copy())
    state = optimizer.update(values, coordinates.gradient(machine, moments), state, rate)
    moved = coordinates.machine(machine, values)
    precision = moved.thetas[0].precision
    mean = moved.thetas[0].field / precision
    found = moved.weights[0] / precision, mean, -np.log(precision), moved.thetas[1].field
    return found, moved, state


def test_gradient_is_that_of_the_log_likelihood():
    """Eqs. 14 to 17 against central differences of the exact mean log-likelihood."""
    V = np.random.default_rng(2).normal(size=(7, 2))
    machine = known().machine_
    slopes = slopes_of(machine, data_moments(machine, V) - exact_moments(machine))

    def likelihood(C, mean, log_variance, b):
        return log_density(V, C, b, mean, np.exp(log_variance)).mean()

    values = [C, MU, np.log(VARIANCES), B]
    for k, slope in enumerate(slopes):
        for index in np.ndindex(values[k].shape):
            ends = []
            for sign in (1, -1):
                moved = [value.copy() for value in values]
                moved[k][index] += sign * 1e-5
                ends.append(likelihood(*moved))
            assert_allclose(slope[index], (ends[0] - ends[1]) / 2e-5, rtol=1e-6, atol=1e-8)


def test_a_step_goes_along_the_gradient_and_no_further_than_the_clip():
    V = np.random.default_rng(3).normal(size=(7, 2))
    machine = known().machine_
    moments = data_moments(machine, V) - exact_moments(machine)
    slopes = slopes_of(machine, moments)
    norm = np.sqrt(sum((slope**2).sum() for slope in slopes))
    for most, factor in [(None, 1.0), (2 * norm, 1.0), (norm / 4, 0.25)]:
        found, _, _ = stepped(machine, moments, 0.1, SGD(max_norm=most))
        first = (C, MU, np.log(VARIANCES), B)
        for value, old, slope in zip(found, first, slopes, strict=True):
            assert_allclose(value, old + 0.1 * factor * slope, rtol=1e-10, atol=1e-12)


def test_momentum_and_penalty_act_on_the_components():
    machine = known().machine_
    V = np.random.default_rng(4).normal(size=(7, 2))
    moments = data_moments(machine, V) - exact_moments(machine)
    plain, optimiser = slopes_of(machine, moments), SGD(0.5, alpha=0.3)
    start = optimiser.init(MeanVariance().of(machine))
    assert all((part == 0).all() for part in start)
    velocity = tuple(np.ones_like(part) for part in start)
    *_, velocity = stepped(machine, moments, 0.1, optimiser, velocity)
    assert_allclose(velocity[0], 0.5 + 0.1 * (plain[0] - 0.3 * C), rtol=1e-10)
    assert_allclose(velocity[1], 0.5 + 0.1 * plain[1], rtol=1e-10)


def test_adam_moves_each_parameter_by_the_rate_at_first():
    """Whatever the size of its slope: in the first step the two running means cancel."""
    machine = known().machine_
    V = np.random.default_rng(4).normal(size=(7, 2))
    moments = data_moments(machine, V) - exact_moments(machine)
    slopes = slopes_of(machine, moments)
    state = Adam().init(MeanVariance().of(machine))
    found, _, state = stepped(machine, moments, 1e-3, Adam(), state)
    first = (C, MU, np.log(VARIANCES), B)
    for value, old, slope in zip(found, first, slopes, strict=True):
        step = value - old
        assert_allclose(step, 1e-3 * slope / (np.abs(slope) + 1e-8), rtol=1e-6, atol=1e-12)
    assert state.n_steps == 1


def test_variances_stay_above_their_floor():
    """A step that would go far below, where the gradient is negative."""
    machine = known().machine_
    moments = data_moments(machine, np.tile(MU, (5, 1))) - exact_moments(machine)
    falls = slopes_of(machine, moments)[2] < 0
    assert falls.any()
    _, moved, _ = stepped(machine, moments, 100, min_variance=1e-2)
    assert_allclose(1 / moved.thetas[0].precision[falls], 1e-2, rtol=1e-10)
    assert moved.is_finite()


@pytest.mark.law
@pytest.mark.parametrize("inference", ["gibbs_langevin", "langevin", "gibbs"])
@pytest.mark.parametrize(
    "starts, gradient",
    [*((starts, "marginal") for starts in CHAINS), ("noise", "joint")],
)
def test_training_raises_the_likelihood(inference, starts, gradient):
    """Two clusters: from the normal law of the same moments by far more than the noise."""
    X = clusters()
    rbm = small(inference=inference, starts=starts, gradient=gradient, n_steps=6, burn_in=3)
    before = rbm.set_params(n_iter=0, learning_rate=0.1).fit(X).score(X)
    assert rbm.set_params(n_iter=50).fit(X).score(X) > before + 0.3


def three_clusters(n=1000):
    """Normal laws at radius 3, 120 degrees apart, with deviation 0.5: an entropy of 2.55 nats."""
    generator = np.random.default_rng(0)
    angles = np.pi / 2 + 2 * np.pi / 3 * generator.integers(3, size=n)
    means = 3 * np.column_stack([np.cos(angles), np.sin(angles)])
    return means + 0.5 * generator.standard_normal((n, 2))


@pytest.mark.law
def test_learning_leaves_the_single_normal_law():
    """A mixture with the covariance of one normal law, of which the mean log-density is -4.41."""
    X = three_clusters()
    rbm = small(n_components=16, weight_scale=0.3, learning_rate=0.1, n_iter=100, batch_size=100)
    assert rbm.fit(X).score(X) > -3.6
    rbm.set_params(starts="annealed", batch_size=1000, n_iter=100, learning_rate=0.02)
    assert rbm.set_params(warm_start=True).fit(X).score(X) > -2.8
    V = rbm.sample(5000, n_steps=50, random_state=0)
    which = np.round(np.arctan2(V[:, 1], V[:, 0]) / (2 * np.pi / 3) - 0.75).astype(int) % 3
    assert (np.abs(np.bincount(which, minlength=3) / 5000 - 1 / 3) < 0.1).all()


@pytest.mark.parametrize("inference", ["gibbs_langevin", "langevin", "gibbs"])
def test_history(inference):
    history = small(inference=inference).fit(clusters()).history_
    expected = {"epoch", "learning_rate", "time", "log_likelihood", "log_likelihood_std"}
    if inference != "gibbs":
        expected |= {"acceptance", "step_size"}
        assert all(0 < rate <= 1 for rate in history["acceptance"])
    assert set(history) == expected
    unadjusted = small(inference=inference, adjust_after=None).fit(clusters())
    assert "acceptance" not in unadjusted.history_


def test_step_size_falls_over_the_epochs():
    sizes = small(anneal_step_size=True, n_iter=4).fit(clusters()).history_["step_size"]
    assert_allclose(sizes, [0.25 * (1 + np.cos(np.pi * k / 4)) for k in range(4)])
    small(anneal_step_size=True, inference="gibbs").fit(clusters())  # which has none


def test_step_size_tunes_itself_and_is_kept():
    sampler = GibbsLangevin(step_size=0.01, n_inner_steps=1, target_acceptance=0.9)
    rbm = small(inference=sampler, n_iter=20).fit(clusters())
    assert rbm.step_size_ > 0.05
    assert abs(np.mean(rbm.history_["acceptance"][-5:]) - 0.9) < 0.05
    before = rbm.step_size_
    rbm.partial_fit(clusters())
    assert abs(np.log(rbm.step_size_ / before)) < 0.3


# --------------------------------------------------------------------- coordinates


def test_standardising_changes_the_path_not_the_law():
    """At no epochs: the same law in whatever units, and scores that differ by the units."""
    X = clusters()
    rbm = small(n_iter=0).fit(X)
    scaled = small(n_iter=0).fit(100 + 7 * X)
    assert_allclose(scaled.variances_, 49 * rbm.variances_, rtol=1e-10)
    assert_allclose(scaled.components_, 7 * rbm.components_, rtol=1e-10)
    assert_allclose(scaled.intercept_visible_, 100 + 7 * rbm.intercept_visible_, rtol=1e-10)
    shift = 3 * np.log(7)
    assert_allclose(scaled.score_samples(100 + 7 * X), rbm.score_samples(X) - shift, rtol=1e-8)
    assert_allclose(scaled.transform(100 + 7 * X), rbm.transform(X), rtol=1e-8)


def test_a_fit_does_not_depend_on_units():
    X = clusters()
    one, other = small().fit(X), small().fit(1000 * X - 3)
    assert_allclose(1000 * one.components_, other.components_, rtol=1e-6, atol=1e-6)
    assert_allclose(one.transform(X), other.transform(1000 * X - 3), rtol=1e-6)
    assert_allclose(
        1000 * one.sample(5, random_state=0) - 3, other.sample(5, random_state=0), rtol=1e-6
    )


def test_columns_of_float32_with_large_means_vary():
    """At a mean of 4e6, where float32 has steps of 1/4."""
    X = np.column_stack([4e6 + clusters()[:, 0], clusters()[:, 1]])
    narrow, wide = (small().fit(X.astype(dtype)) for dtype in (np.float32, np.float64))
    assert_allclose(narrow.noise_scale_, X.std(axis=0), rtol=1e-2)
    assert abs(narrow.score(X.astype(np.float32)) - wide.score(X)) < 0.1


@pytest.mark.parametrize("dtype, factor", [(np.float32, 1e-18), (np.float64, 1e-160)])
def test_columns_whose_variances_underflow_are_refused(dtype, factor):
    with pytest.raises(ValueError, match=r"standard deviations below .* scale X"):
        small().fit((factor * clusters()).astype(dtype))


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_change_of_coordinates_leaves_no_state_in_the_old_ones(optimizer):
    X = 1000 + 50 * clusters()
    rbm = small(starts="persistent", optimizer=optimizer, momentum=0.9, n_iter=10)
    rbm.set_params(inference=GibbsLangevin(1e-4)).fit(X)  # chains that hardly move
    before = parameters(rbm)
    rbm.set_params(standardize=False, learning_rate=1e-9, n_steps=1, max_grad_norm=None)
    rbm.sample()  # which knows the new coordinates too
    rbm.partial_fit(X)
    for old, new in zip(before, parameters(rbm), strict=True):  # what velocity there was has gone
        assert_allclose(new, old, rtol=1e-3, atol=1e-3)
    assert (np.abs(rbm.starts_ - X.mean(axis=0)) < 8 * X.std(axis=0)).all()


def test_early_stopping_scores_are_those_of_the_data():
    X = clusters()
    rbm = small(early_stopping=True, n_iter=2, tol=0).fit(10 * X)
    assert abs(rbm.history_["score"][-1] - rbm.score(10 * X)) < 0.5  # rows set aside: 40 of 400


def test_init_gives_parameters_in_the_units_of_the_data():
    X = np.random.default_rng(0).normal(size=(30, 2)) * 10 + 5
    arrays = (C, B, MU, VARIANCES)
    for init in (arrays, known()):
        rbm = small(n_components=3, n_iter=0, init=init).fit(X)
        for one, other in zip(parameters(rbm), arrays, strict=True):
            assert_allclose(one, other, rtol=1e-10, atol=1e-12)
    rbm = small(n_components=3, n_iter=0, init=arrays[:3]).fit(X)
    assert_allclose(rbm.variances_, X.var(axis=0), rtol=1e-10)
    with pytest.raises(ValueError, match="init must be"):
        small(n_components=3, init=(C, B)).fit(X)


# ------------------------------------------------------------------ what it is used for


@pytest.mark.law
@pytest.mark.parametrize("inference", ["gibbs_langevin", "langevin", "gibbs"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_samples_have_the_law_of_the_machine(inference, dtype):
    """150 adjusted steps leave no trace of the noise where modes are as near as here."""
    arrays = (part.astype(dtype) for part in (C, B, MU, VARIANCES))
    rbm = GaussianBernoulliRBM.from_parameters(
        *arrays, inference=inference, step_size=1.0, adjust_after=0
    )
    V = rbm.sample(20_000, n_steps=150, random_state=0)
    assert V.dtype == dtype
    H = hidden_rows()
    weights = np.exp(H @ B + (((MU + H @ C) ** 2 - MU**2) / (2 * VARIANCES)).sum(axis=1))
    weights /= weights.sum()
    for i in range(2):
        z = (V[:, i, None] - (MU + H @ C)[:, i]) / np.sqrt(VARIANCES[i])
        assert stats.kstest(stats.norm.cdf(z) @ weights, "uniform").pvalue > LEVEL / 2


def test_sample_begins_at_noise_and_shows_its_steps():
    X = 50 + 3 * clusters()
    X[:, 2] = 7.0
    rbm = small().fit(X)
    noise = rbm.sample(20_000, n_steps=0, random_state=0)
    for i in (0, 1):
        z = (noise[:, i] - X[:, i].mean()) / X[:, i].std()
        assert stats.kstest(z, "norm").pvalue > LEVEL / 2
    assert_allclose(noise[:, 2], 7.0)
    last, states = rbm.sample(6, n_steps=10, return_steps=[0, 3, 10], random_state=1)
    assert states.shape == (3, 6, 3)
    assert_array_equal(states[2], last)
    assert_array_equal(states[0], rbm.sample(6, n_steps=0, random_state=1))
    assert not np.array_equal(states[0], states[1])
    assert rbm.sample(2, random_state=0).shape == (2, 3)  # as many steps as in training
    with pytest.raises(ValueError, match=r"return_steps must lie in \[0, n_steps=10\], got \[11\]"):
        rbm.sample(2, n_steps=10, return_steps=[11])
    for steps in (5, True, [1.7]):
        with pytest.raises(ValueError, match="return_steps must be a list of integers"):
            rbm.sample(2, return_steps=steps)
    assert rbm.sample(2, return_steps=[])[1].shape == (0, 2, 3)
    with pytest.raises(NotFittedError):
        small().sample()


@pytest.mark.parametrize("inference", ["gibbs_langevin", "langevin", "gibbs"])
def test_samples_of_annealed_chains_have_the_shares_of_the_machine(inference):
    """Modes ten deviations apart, one with four times the weight of the other.

    Resampling makes draws depend on each other: 0.07 is above six of the standard deviations of
    0.010 and 0.011 that 40 seeds had.
    """
    C, weight = np.array([[10.0, 0.0]]), 0.8
    b = np.array([-(C**2).sum() / 2 + np.log(weight / (1 - weight))])
    rbm = GaussianBernoulliRBM.from_parameters(
        C, b, inference=inference, starts="annealed", adjust_after=0
    )
    rbm.noise_mean_, rbm.noise_scale_ = np.array([5.0, 0.0]), np.array([5.0, 1.0])
    V = rbm.sample(4000, n_steps=30, random_state=0)
    assert abs((V[:, 0] > 5).mean() - weight) < 0.07
    assert abs((rbm.sample(4000, n_steps=0, random_state=0)[:, 0] > 5).mean() - 0.5) < 0.05
    plain = rbm.set_params(starts="noise").sample(4000, n_steps=30, random_state=0)
    assert abs((plain[:, 0] > 5).mean() - 0.5) < 0.05
    rbm.set_params(starts="annealed")
    stays = rbm.sample(500, n_steps=30, init=np.zeros((500, 2)), random_state=0)
    assert (stays[:, 0] < 5).all()


@pytest.mark.law
def test_annealed_samples_drawn_in_pairs_have_the_shares_of_the_machine():
    """Of 600 rows; 0.09 is five of their standard deviations of 0.018: a probability of 6e-7."""
    rbm = GaussianBernoulliRBM.from_parameters(
        [[12.0, 0.0]], [np.log(3)], [-6.0, 0.0], starts="annealed", adjust_after=0, n_steps=5
    )
    rbm.noise_mean_, rbm.noise_scale_ = np.zeros(2), np.array([6.0, 1.0])
    right = [rbm.sample(2, random_state=seed)[:, 0] > 0 for seed in range(300)]
    assert abs(np.mean(right) - 0.75) < 0.09


def test_sample_anneals_by_as_many_temperatures_as_it_then_takes_steps():
    taken = []

    class Counted(GibbsLangevin):
        def step(self, machine, state, rng):
            taken.append(machine.scale)
            return super().step(machine, state, rng)

    rbm = GaussianBernoulliRBM.from_parameters(
        C, B, MU, VARIANCES, inference=Counted(), starts="annealed"
    )
    rbm.sample(3, n_steps=4, random_state=0)
    assert_allclose(taken, [0.25, 0.5, 0.75, 1, 1, 1, 1, 1])


def conditional_mean(observed):
    """E[v_2 | v_1] by the mixture."""
    H = hidden_rows()
    means = MU + H @ C
    weights = np.exp(H @ B + ((means**2 - MU**2) / (2 * VARIANCES)).sum(axis=1))
    weights *= stats.norm.pdf(observed, means[:, 0], np.sqrt(VARIANCES[0]))
    return weights @ means[:, 1] / weights.sum()


def test_impute_gives_conditional_means():
    """Averages over 400 chains of 300 sweeps; 0.05 is far above their standard error of 0.006."""
    for observed in (-1.0, 1.5):
        X = np.tile([observed, np.nan], (400, 1))
        filled = known().impute(X, n_steps=300, random_state=0)
        assert_array_equal(filled[:, 0], observed)
        assert abs(filled[:, 1].mean() - conditional_mean(observed)) < 0.05


def test_denoise_gives_posterior_means():
    """Against a sum over a fine grid; chains as for impute."""
    y, s = np.array([1.0, 0.5]), 0.8
    axis = np.linspace(-12, 12, 601)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    log_w = log_density(grid) - ((grid - y) ** 2).sum(axis=1) / (2 * s)
    weights = np.exp(log_w - logsumexp(log_w))
    Y = np.tile(y, (400, 1))
    found = known().denoise(Y, noise_variance=s, n_steps=300, random_state=0)
    assert_allclose(found.mean(axis=0), weights @ grid, atol=0.05)
    assert_array_equal(known().denoise(Y, noise_variance=0), Y)
    with pytest.raises(ValueError, match="noise_variance must be a finite number >= 0"):
        known().denoise(Y, noise_variance=-1)
    with pytest.raises(ValueError, match=r"noise_variance=1e-310 is too small .* in float64"):
        known().denoise(Y, noise_variance=1e-310)


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
    again = GaussianBernoulliRBM.from_parameters(fitted, n_steps=5, adjust_after=0)
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


# ------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    "variances, message",
    [
        (np.array([1.0, 0.0]), "variances must be positive"),
        (np.array([1.0, -1.0]), "variances must be positive"),
        (np.array([1.0, np.nan]), "variances contains NaN"),
        (np.ones(3), r"variances has shape \(3,\)"),
        (np.array([1.0, 1e-320]), "variances are too small"),
    ],
)
def test_wrong_variances(variances, message):
    with pytest.raises(ValueError, match=message):
        GaussianBernoulliRBM.from_parameters(C, B, MU, variances)


def test_parameters_whose_quotients_overflow():
    components, variances = np.full((3, 5), 10, "f4"), np.full(5, 1e-38)
    with pytest.raises(ValueError, match="components and intercepts too large compared with them"):
        GaussianBernoulliRBM.from_parameters(components, variances=variances)


def test_two_ways_to_set_the_step_size():
    X, tuned = clusters(), GibbsLangevin(target_acceptance=0.6)
    with pytest.raises(ValueError, match="both set the step size"):
        small(anneal_step_size=True, inference=tuned).fit(X)
    with pytest.raises(ValueError, match="target_acceptance"):
        GibbsLangevin(target_acceptance=0.6, adjust_after=None)
    rbm = small(inference="gibbs").fit(X).set_params(inference=tuned)
    assert np.isfinite(rbm.sample(2)).all()


def test_a_pass_after_an_annealed_fit_has_the_first_step_size():
    rbm = small(n_iter=20, anneal_step_size=True).fit(clusters())
    first, last = rbm.history_["step_size"][0], rbm.history_["step_size"][-1]
    rbm.partial_fit(clusters())
    assert last < 0.1 * first and rbm.history_["step_size"][-1] == first


@pytest.mark.parametrize(
    "name, values",
    [
        ("inference", ["mcmc", 3, None]),
        ("n_steps", [0, -1, 1.5]),
        ("step_size", [0, -1, 2]),
        ("adjust_after", [-1, 0.5]),
        ("starts", ["random", None]),
        ("burn_in", [-1]),
        ("gradient", ["sum"]),
        ("min_variance", [0, -1]),
        ("max_grad_norm", [0, -1]),
        ("weight_scale", [-1]),
    ],
)
def test_wrong_parameters(name, values):
    for value in values:
        with pytest.raises(ValueError, match=f"The '{name}' parameter of GaussianBernoulliRBM"):
            small(**{name: value}).fit(clusters())


def test_wrong_combinations():
    with pytest.raises(ValueError, match="burn_in=5 leaves none of n_steps=5"):
        small(burn_in=5).fit(clusters())
    with pytest.raises(ValueError, match=r"3 features"):
        small().fit(clusters()).sample(2, init=np.zeros((2, 4)))


def test_a_step_that_would_diverge_is_refused():
    sampler = Langevin(step_size=0.5, step_scale="mean_variance")
    X = clusters() * [1.0, 100.0, 10.0]
    rbm = small(inference=sampler, standardize=False)
    with pytest.raises(ValueError, match="diverges"):
        rbm.fit(X)
    small(inference=sampler).fit(X)  # standardised, variances are alike


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_whose_squares_overflow(dtype):
    X = clusters(dtype=dtype)
    X[0, 0] = np.sqrt(np.finfo(dtype).max) * 2
    with pytest.raises(ValueError, match="whose squares overflow"):
        small().fit(X)


# ---------------------------------------------------------------------- robustness


def digits(dtype=np.float32):
    return load_digits().data[:300].astype(dtype) * 15.9


def with_outlier(X):
    X = X.copy()
    X[17] = 1e6
    return X


DATA = {
    "raw pixels": lambda: digits(),  # of which some are constant
    "bytes": lambda: digits(np.uint8),
    "standardised": lambda: (digits() - digits().mean(0)) / (digits().std(0) + 1e-6),
    "constant column": lambda: np.column_stack([clusters(), np.full(400, 1e3)]),
    "nearly constant": lambda: np.column_stack([clusters(), 1e3 + 1e-12 * np.arange(400)]),
    "outlier": lambda: with_outlier(digits()),
    "unequal variances": lambda: clusters() * [1e-8, 1.0, 1e8],
    "one row": lambda: clusters(1),
    "equal rows": lambda: np.ones((20, 3)),
    "sparse": lambda: sp.csr_array(digits()),
}


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("rate", [1e-3, 1e-2, 3e-2])
def test_no_fit_ends_in_nan(data, standardize, rate):
    """It trains, with finite parameters and scores, or stops with an error that says what to do."""
    X = DATA[data]()
    rbm = small(learning_rate=rate, standardize=standardize, n_components=16, n_iter=4)
    rbm.set_params(adjust_after=None if rate < 3e-2 else 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)  # of so few epochs
        rbm.fit(X)
        scores = rbm.free_energy(X)
        drawn = rbm.sample(10, random_state=0)
    assert all(np.isfinite(part).all() for part in (*parameters(rbm), scores, drawn))
    assert (rbm.variances_ > 0).all()


@pytest.mark.parametrize("starts", ["noise", "annealed", "persistent", "data"])
@pytest.mark.parametrize("inference", ["gibbs", "langevin", "gibbs_langevin"])
def test_no_fit_by_adam_ends_in_nan(starts, inference):
    rbm = small(optimizer="adam", starts=starts, inference=inference, learning_rate=3e-2, n_iter=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rbm.fit(with_outlier(digits()))
        drawn = rbm.sample(10, random_state=0)
    assert all(np.isfinite(part).all() for part in (*parameters(rbm), drawn))
    assert (rbm.variances_ > 0).all()


@pytest.mark.parametrize("target", [0.05, 0.5])
def test_a_step_of_the_mean_variance_that_tunes_itself_stays_stable(target):
    """Variances move between runs, by which the same step comes to be another one."""
    sampler = GibbsLangevin(0.5, step_scale="mean_variance", target_acceptance=target)
    rbm = small(inference=sampler, n_iter=40).fit(clusters())
    machine = rbm._training.parts.coordinates.machine_inward(rbm.machine_)
    sampler = sampler.sized(rbm.step_size_).stable(machine)
    assert np.max(sampler.relative_step(machine)) < 2


def test_another_sampler_begins_at_its_own_step_size():
    X = clusters()
    rbm = small(inference=GibbsLangevin(0.3, target_acceptance=0.9)).fit(X)
    tuned = rbm.step_size_
    rbm.partial_fit(X)
    assert 0.5 < rbm.step_size_ / tuned < 2
    for sampler in (GibbsLangevin(1e-6, target_acceptance=0.9), Langevin(1e-6)):
        rbm.set_params(inference=sampler).partial_fit(X)
        assert rbm.step_size_ < 1e-4


@pytest.mark.parametrize(
    "params",
    [
        {"learning_rate": -0.5},
        {"optimizer": "foo"},
        {"batch_size": 0},
        {"starts": "foo"},
    ],
)
def test_partial_fit_checks_parameters_that_were_set_after_the_first_call(params):
    rbm = small().fit(clusters())
    with pytest.raises(ValueError, match=next(iter(params))):
        rbm.set_params(**params).partial_fit(clusters())
    with pytest.raises(ValueError, match="inference must be one of"):
        small().fit(clusters()).set_params(inference="foo").sample()


def test_clone_and_text():
    rbm = small(inference=GibbsLangevin(step_size=0.2))
    assert clone(rbm).inference == rbm.inference
    assert "GibbsLangevin(step_size=0.2" in repr(rbm)
