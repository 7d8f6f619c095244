"""Gaussian units with one precision matrix, against normal distributions and their mixtures.

A machine of such visible units and few hidden ones is a mixture of normal distributions, one for
each state of the hidden units.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from _libraries import OTHER_LIBRARIES
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import logsumexp

from skrbm import RBM
from skrbm.arrays import Columns, make_rng, to_numpy
from skrbm.exceptions import DivergenceError
from skrbm.inference import AIS, SMC, Gibbs, NaiveMeanField, Tempering, clamped, held
from skrbm.inputs import Coordinates
from skrbm.learning import NATURAL, SGD, StandardParameters
from skrbm.machine import (
    Block,
    Machine,
    Moments,
    conditional,
    data_moments,
    free_energy,
    has_integral,
    log_partition,
)
from skrbm.units import Bernoulli, Categorical, ColumnUnits, Gaussian, Spin, Theta

N, M = 4, 3
FULL = Gaussian(covariance="full")
HIDDEN = [Bernoulli, Spin, lambda: Categorical(M)]


def precision_matrix(n=N, seed=0):
    A = np.random.default_rng(seed).normal(size=(n, 2 * n))
    return A @ A.T / n


def machine_of(hidden=None, strength=0.7, dtype=np.float64, seed=0, n_hidden=M):
    generator = np.random.default_rng(seed)
    visible = Theta(generator.normal(size=N), joint=precision_matrix(seed=seed))
    W = strength * generator.normal(size=(n_hidden, N))
    units = (FULL, Bernoulli() if hidden is None else hidden)
    machine = Machine(units, (visible, Theta(generator.normal(size=n_hidden))), (W,))
    return machine.astype(dtype)


class Mixture:
    """The mixture of normal distributions that a machine is."""

    def __init__(self, machine):
        b, P = machine.thetas[0].field, machine.thetas[0].joint
        (W,), hidden = machine.weights, machine.units[1]
        n = hidden.n_configurations(len(W))
        self.h = hidden.configurations(len(W), np.arange(n))
        self.covariance = np.linalg.inv(P)
        fields = b + self.h @ W
        self.means = fields @ self.covariance
        logs = hidden.log_weight(machine.thetas[1], self.h) + 0.5 * (fields * self.means).sum(1)
        self.log_z = logsumexp(logs) + 0.5 * np.linalg.slogdet(2 * np.pi * self.covariance)[1]
        self.weights = np.exp(logs - logsumexp(logs))

    def log_density(self, x, columns=slice(None)):
        """Return log p of the values of some columns."""
        place = np.arange(self.means.shape[1])[columns]
        covariance = self.covariance[np.ix_(place, place)]
        logs = [
            np.log(w) + stats.multivariate_normal(mean[place], covariance).logpdf(x)
            for w, mean in zip(self.weights, self.means, strict=True)
        ]
        return logsumexp(logs, axis=0)


def rows(n=6, seed=1):
    return np.random.default_rng(seed).normal(size=(n, N))


def with_holes(X):
    """Rows of which some have several patterns of missing values, and one has all missing."""
    X = X.copy()
    for row, columns in enumerate([[0], [1, 3], [0], [0, 1, 2, 3], [1, 2, 3]]):
        X[row, columns] = np.nan
    return X


def rbm_of(machine, **params):
    (W,), (own, hidden) = machine.weights, machine.thetas
    return RBM.from_parameters(
        W,
        hidden.field,
        own.field,
        precision_visible=own.joint,
        visible=FULL,
        hidden=machine.units[1],
        **params,
    )


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_densities_are_those_of_the_mixture(hidden, dtype):
    machine = machine_of(hidden(), dtype=dtype)
    mixture, X = Mixture(machine.astype(np.float64)), rows()
    rtol = 1e-10 if dtype == np.float64 else 1e-5
    value = log_partition(machine)
    assert value.dtype == np.float64
    assert_allclose(value, mixture.log_z, rtol=rtol)
    rbm = rbm_of(machine)
    assert rbm.precision_visible_.shape == (N, N) and rbm.precision_visible_.dtype == dtype
    assert_allclose(rbm.score_samples(X.astype(dtype)), mixture.log_density(X), rtol=rtol)
    with_data = free_energy(machine, X.astype(dtype)) + mixture.log_z
    assert_allclose(with_data, -mixture.log_density(X), rtol=rtol, atol=1e-5)


@pytest.mark.parametrize("hidden", HIDDEN)
def test_rows_with_missing_values_have_the_densities_of_what_is_observed(hidden):
    machine = machine_of(hidden())
    mixture, X = Mixture(machine), with_holes(rows())
    expected = [
        mixture.log_density(x[x == x], np.flatnonzero(x == x)) if (x == x).any() else 0.0 for x in X
    ]
    assert_allclose(rbm_of(machine).score_samples(X), expected, rtol=1e-10, atol=1e-12)


def held_rows():
    machine, X = machine_of(), with_holes(rows())
    observed = X == X
    return machine, np.where(observed, X, 7.0), observed


def ill_conditioned(n=9, condition=1e6, seed=0):
    V = np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))[0]
    P = (V * np.geomspace(condition**-0.5, condition**0.5, n)) @ V.T
    return 0.5 * (P + P.T)


def normal_given(P, field, x, observed):
    """Return the mean, the covariance and the integral of the other columns, and own weight."""
    m, o = ~observed, observed
    C = np.linalg.inv(P[np.ix_(m, m)])
    given = field[m] - P[np.ix_(m, o)] @ x[o]
    integral = 0.5 * given @ C @ given + 0.5 * np.linalg.slogdet(2 * np.pi * C)[1]
    return C @ given, C, integral, field[o] @ x[o] - 0.5 * x[o] @ P[np.ix_(o, o)] @ x[o]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("numbers", [range(10), [0, 0], [9, 9], [1, 3, 3], [7, 8, 8, 9]])
def test_held_units_have_conditional_normal_distributions(dtype, numbers):
    """With no, few, most and all columns missing, in one row or more."""
    P, generator, n = (
        ill_conditioned().astype(dtype).astype(np.float64),
        np.random.default_rng(1),
        9,
    )
    missing = [np.isin(np.arange(n), generator.permutation(n)[:number]) for number in numbers]
    observed = ~np.repeat(missing, [1 + k % 3 for k in range(len(missing))], axis=0)
    L = np.linalg.cholesky(P)
    X = np.linalg.solve(L.T, generator.normal(size=(n, len(observed)))).T.astype(dtype)
    fields = (generator.normal(size=X.shape) @ L.T).astype(dtype)
    theta, unit = Theta(fields, joint=P.astype(dtype)), held(FULL, X, observed)
    mean, variance = unit.mean_variance(theta)
    (second,), log_z = unit.further(theta), unit.log_partition(theta)
    W, h = generator.normal(size=(2, n)) @ L.T, np.array([[0.0, 0.0], [1.0, 2.0], [-1.0, 1.0]])
    shared = Theta(fields[0], joint=P)
    found = unit.log_partitions(shared, W)(h)
    many = unit.log_partitions(shared, np.concatenate([W, np.eye(n)]))
    assert_allclose(many(np.concatenate([h, np.zeros((3, n))], axis=1)), found, rtol=1e-7)
    tolerance = {np.float64: 1e-8, np.float32: 1e-4}[dtype]
    for part in (mean, variance, second):
        assert part.dtype == dtype
    for i, (x, o) in enumerate(zip(X.astype(np.float64), observed, strict=True)):
        m = ~o
        expected, C, integral, weight = normal_given(P, fields[i], x, o)
        deviations = np.sqrt(np.diag(C))
        assert_allclose(mean[i, m] / deviations, expected / deviations, atol=tolerance)
        assert_allclose(variance[i, m], np.diag(C), rtol=tolerance)
        correlations = -2 * second[i][np.ix_(m, m)] / np.outer(deviations, deviations)
        assert_allclose(correlations, C / np.outer(deviations, deviations), atol=tolerance)
        assert_allclose(mean[i, o], x[o])
        assert not variance[i, o].any() and not second[i, o].any() and not second[i, :, o].any()
        assert_allclose(log_z[i].sum(), weight + integral, rtol=1e-6, atol=1e-6)
        for k, values in enumerate(h):
            integral = normal_given(P, fields[0] + values @ W, x, o)[2]
            assert_allclose(found[i, k], integral, rtol=1e-7, atol=1e-7)
    part = clamped(Machine((FULL, Bernoulli()), (shared, Theta(np.zeros(2))), (W,)), X, observed)
    rows = np.array([1, 0])
    assert_allclose(part.rows(rows).units[0].mean(theta.rows(rows)), mean[rows])


@pytest.mark.parametrize("known", [[], [2], [0, 1, 3]])
def test_draws_of_held_units_have_conditional_moments(known):
    """The z-values of at most 14 means and products: |z| > 6 has p < 1e-7."""
    P, x, n = precision_matrix(), np.array([0.5, -1.0, 2.0, 1.0]), 20_000
    observed, field = np.isin(np.arange(N), known), np.array([1.0, 0.0, -1.0, 2.0])
    unit = held(FULL, np.tile(x, (n, 1)), np.tile(observed, (n, 1)))
    X = unit.sample(Theta(np.tile(field, (n, 1)), joint=P), make_rng(0, P))
    assert_allclose(X[:, observed], np.tile(x[observed], (n, 1)))
    mean, C, *_ = normal_given(P, field, x, observed)
    apart = np.linalg.solve(np.linalg.cholesky(C), (X[:, ~observed] - mean).T).T
    z = apart.mean(axis=0) * n**0.5
    i, j = np.triu_indices(len(mean))
    products = apart[:, i] * apart[:, j] - (i == j)
    assert np.abs([*z, *(products.mean(axis=0) * n**0.5 / products.std(axis=0))]).max() < 6


def expected_moments(machine):
    """The moments of a machine, by all values of the hidden units."""
    mixture = Mixture(machine)
    theta = conditional(machine, 0, (None, mixture.h))
    means = (FULL.mean(theta), mixture.h)
    further = (FULL.further(theta), None)
    return Moments((Block(means, (None, None), mixture.weights, further=further),))


def log_likelihood(machine, X):
    return float(np.mean(-free_energy(machine, X)) - log_partition(machine))


def differences(machine, X, parameters, step=1e-6):
    """Central differences of the log-likelihood; entries of a matrix move in pairs."""
    arrays = [np.array(part) for part in parameters.of(machine)]
    found = []
    for k, part in enumerate(arrays):
        slopes = np.zeros_like(part)
        for index in np.ndindex(part.shape):
            values = []
            for sign in (1, -1):
                moved = [array.copy() for array in arrays]
                places = {index, index[::-1]} if k == 2 else {index}
                for place in places:
                    moved[k][place] += sign * step
                values.append(log_likelihood(made(machine, parameters, moved), X))
            slopes[index] = (values[0] - values[1]) / (2 * step * len(places))
        found.append(slopes)
    return found


def made(machine, parameters, arrays):
    if parameters is not NATURAL:
        return parameters.machine(machine, arrays)
    W, field, joint, hidden = arrays
    return replace(machine, weights=(W,), thetas=(Theta(field, joint=joint), Theta(hidden)))


@pytest.mark.parametrize("whitened", [False, True])
def test_gradients_are_those_of_the_likelihood(whitened):
    machine, X, parameters = machine_of(), rows(20), NATURAL
    if whitened:
        offset = np.array([1.0, -2.0, 0.5, 0.0])
        root = np.linalg.cholesky(precision_matrix(seed=5))
        parameters = StandardParameters(
            Coordinates(offset, np.ones(N)), np.zeros(N, bool), root=root, columns=np.arange(N)
        )
        same = parameters.machine(machine, parameters.of(machine))
        assert_allclose(same.thetas[0].joint, machine.thetas[0].joint)
        assert_allclose(same.thetas[0].field, machine.thetas[0].field)
        assert_allclose(same.weights[0], machine.weights[0])
        assert_allclose(parameters.means((offset, 0))[0], 0.0, atol=1e-14)
    gradient = parameters.gradient(machine, data_moments(machine, X) - expected_moments(machine))
    slopes = gradient.arrays(parameters.of(machine))
    for slope, expected in zip(slopes, differences(machine, X, parameters), strict=True):
        assert_allclose(slope, expected, rtol=1e-6, atol=1e-7)


def test_the_prior_of_a_precision_matrix_has_its_maximum_where_learning_starts():
    """Its slopes are differences of prior / 2 (log det Q - 0.4 tr Q), in whitened coordinates."""
    machine, X, prior = machine_of(), rows(20), 0.3
    options = {"root": np.linalg.cholesky(precision_matrix(seed=5)), "columns": np.arange(N)}
    coordinates = Coordinates(np.ones(N), np.ones(N))
    without = StandardParameters(coordinates, np.zeros(N, bool), **options)
    parameters = replace(without, prior=prior)

    def log_density(Q):
        return 0.5 * prior * (np.linalg.slogdet(Q)[1] - 0.4 * np.trace(Q))

    def added(machine):
        moments = data_moments(machine, X)
        found = [p.gradient(machine, moments).arrays(p.of(machine)) for p in (without, parameters)]
        assert all(np.array_equal(found[0][i], found[1][i]) for i in (0, 1, 3))
        return found[1][2] - found[0][2]

    Q = parameters.of(machine)[2]
    for step in (np.eye(N), np.ones((N, N))):
        change = (log_density(Q + 1e-5 * step) - log_density(Q - 1e-5 * step)) / 2e-5
        assert_allclose(np.sum(added(machine) * step), change, rtol=1e-7)
    assert_allclose(added(parameters.first(machine)), 0.0, atol=1e-14)


def test_a_step_far_up_or_down_keeps_the_matrix():
    machine = machine_of()
    parameters = StandardParameters(
        Coordinates(np.zeros(N), np.ones(N)),
        np.zeros(N, dtype=bool),
        root=np.eye(N),
        columns=np.arange(N),
    )
    W, field, joint, hidden = (np.array(part) for part in parameters.of(machine))
    moved = parameters.machine(machine, (W, field + 1, joint - 100 * np.eye(N), hidden))
    assert_allclose(moved.thetas[0].joint, machine.thetas[0].joint)
    assert_allclose(moved.thetas[0].field, machine.thetas[0].field + 1)
    for factor, expected in ((0.45, 1.0), (0.55, 0.55), (9.0, 9.0), (11.0, 1.0)):
        moved = parameters.machine(machine, (W, field, factor * joint, hidden))
        assert_allclose(moved.thetas[0].joint, expected * machine.thetas[0].joint)
    wrong = Theta(field, joint=joint - 100 * np.eye(N))
    assert FULL.is_improper(wrong).all()
    assert not has_integral(replace(machine, thetas=(wrong, machine.thetas[1])))
    assert not FULL.is_improper(FULL.project(wrong)).any()
    with pytest.raises(DivergenceError):
        FULL.log_partition(wrong)


def test_coupling_with_unbounded_hidden_units_needs_a_joint_distribution():
    P, W = precision_matrix(), np.zeros((1, N))
    W[0, :] = np.linalg.eigh(P)[1][:, 0]
    least = np.linalg.eigvalsh(P)[0]
    for factor, expected in ((0.99, True), (1.01, False)):
        thetas = (Theta(np.zeros(N), joint=P), Theta(np.zeros(1), np.ones(1)))
        weights = (factor * least**0.5 * W,)
        assert has_integral(Machine((FULL, Gaussian()), thetas, weights)) == expected


def test_samples_have_the_moments_of_the_mixture():
    """Each z-value is normal; |z| > 6 has p = 2e-9, and there are 14 of them: p < 1e-7."""
    machine, n = machine_of(), 20_000
    mixture = Mixture(machine)
    state = Gibbs().init(machine, make_rng(0, machine.weights[0]), n)
    for _ in range(20):
        state, _ = Gibbs().step(machine, state, make_rng(_, machine.weights[0]))
    X = state.layers[0]
    mean = mixture.weights @ mixture.means
    apart = mixture.means - mean
    covariance = mixture.covariance + (mixture.weights[:, None] * apart).T @ apart
    z = (X.mean(axis=0) - mean) / np.sqrt(np.diag(covariance) / n)
    products = [
        (X - mean)[:, i] * (X - mean)[:, j]
        for i, j in itertools.combinations_with_replacement(range(N), 2)
    ]
    expected = [covariance[i, j] for i, j in itertools.combinations_with_replacement(range(N), 2)]
    more = [(p.mean() - e) / (p.std() / n**0.5) for p, e in zip(products, expected, strict=True)]
    assert np.abs([*z, *more]).max() < 6


@pytest.mark.parametrize("method", [AIS(200, 100), SMC(), Tempering(5, n_sweeps=100)])
def test_estimates_of_log_z(method):
    """Within five standard errors of the estimate, by which a right one errs with p < 1e-5."""
    machine = machine_of()
    rbm, exact = rbm_of(machine), float(log_partition(machine))
    value, std = rbm.log_partition(method, return_std=True)
    assert abs(value - exact) < 5 * max(std, 0.01)


def test_base_of_annealing_covers_the_samples():
    machine = machine_of(strength=2.0)
    mixture, generator = Mixture(machine), np.random.default_rng(0)
    which = generator.choice(len(mixture.weights), 5000, p=mixture.weights)
    X = mixture.means[which] + generator.multivariate_normal(np.zeros(N), mixture.covariance, 5000)
    base = FULL.base_theta(machine.thetas[0], Columns(X))
    wide = np.linalg.inv(base.joint)
    assert_allclose(FULL.mean(base), X.mean(axis=0))
    assert (np.linalg.eigvalsh(wide - mixture.covariance) > -1e-9).all()
    assert_allclose(wide, np.cov(X.T, bias=True), atol=0.2 * np.abs(wide).max())


def test_denoising_is_that_of_a_joint_normal_distribution():
    machine, Y = machine_of(strength=0.0), rows()
    P, b = machine.thetas[0].joint, machine.thetas[0].field
    expected = np.linalg.solve(P + np.eye(N) / 0.5, (b + Y / 0.5).T).T
    found = rbm_of(machine, inference="naive_mean_field").denoise(Y, noise_variance=0.5)
    assert_allclose(found, expected, rtol=1e-10)
    sampled = rbm_of(machine).denoise(Y, noise_variance=0.5, n_steps=2000, random_state=0)
    assert_allclose(sampled, expected, atol=0.2)  # some ten standard errors


def correlated(n=300, seed=0):
    """Rows of two groups of a normal distribution, with other units of measure."""
    generator = np.random.default_rng(seed)
    A = generator.normal(size=(N, N))
    X = generator.normal(size=(n, N)) @ A + 2 * generator.integers(2, size=(n, 1)) * A[0]
    return X * np.array([1.0, 100.0, 0.01, 1.0]) + np.array([0.0, 5.0, 0.0, -3.0])


def test_initial_parameters_are_those_of_the_shrunk_covariance():
    from sklearn.covariance import LedoitWolf

    X = correlated(30)
    theta = FULL.initial_theta(Columns(X))
    mean, scale = X.mean(axis=0), X.std(axis=0)
    expected = LedoitWolf().fit((X - mean) / scale).covariance_ * np.outer(scale, scale)
    assert_allclose(np.linalg.inv(theta.joint), expected, rtol=1e-6)
    assert_allclose(FULL.mean(theta), mean)
    doubled = FULL.initial_theta(Columns(np.repeat(X, 2, axis=0)))
    weighted = FULL.initial_theta(Columns(X, np.full(30, 2.0)))
    assert_allclose(weighted.joint, doubled.joint)


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_initial_variances_are_those_of_the_observed_values(share):
    """Correlations of few pairs of rows are uncertain, and variances of columns less."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 3)) @ generator.normal(size=(3, 30)) * np.geomspace(1, 100, 30)
    X += generator.normal(size=X.shape)
    X[generator.random(X.shape) < share] = np.nan
    found = np.diag(np.linalg.inv(FULL.initial_theta(Columns(X, has_missing=True)).joint))
    assert_allclose(found, np.nanvar(X, axis=0))


@pytest.fixture(scope="module")
def fitted():
    return RBM(3, visible=FULL, random_state=0, n_iter=60).fit(correlated())


def test_fit_beats_one_normal_distribution(fitted):
    X, T = correlated(), correlated(1000, seed=0)[300:]
    one = stats.multivariate_normal(X.mean(axis=0), np.cov(X.T)).logpdf(T).mean()
    assert fitted.score(T) > one - 0.1
    assert fitted.precision_visible_.shape == (N, N)
    assert_allclose(fitted.precision_visible_, fitted.precision_visible_.T)


def test_fit_with_missing_values():
    X, generator = correlated(), np.random.default_rng(0)
    holes = np.where(generator.random(X.shape) < 0.2, np.nan, X)
    rbm, complete = (
        RBM(3, visible=FULL, random_state=0, n_iter=20).fit(rows) for rows in (holes, X)
    )
    assert rbm.score(X) > complete.score(X) - 0.3
    assert np.isfinite(rbm.score_samples(holes)).all()
    columns = X.std(axis=0)
    error = ((rbm.impute(holes, random_state=0) - X) / columns)[np.isnan(holes)]
    assert np.sqrt(np.mean(error**2)) < 0.8  # by means of columns it is 1


def test_errors_are_one_sentence():
    X = rows(20)
    with pytest.raises(ValueError, match="visible units"):
        RBM(2, hidden=FULL).fit(np.eye(4))
    with pytest.raises(ValueError, match="needs penalty='l2'"):
        RBM(2, visible=FULL, optimizer=SGD(penalty="l1")).fit(X)
    with pytest.raises(ValueError, match="covariance must be one of"):
        Gaussian(covariance="tied")
    with pytest.raises(ValueError, match="symmetric"):
        RBM.from_parameters(np.zeros((2, 2)), visible=FULL, precision_visible=[[2, 1], [0, 2]])
    with pytest.raises(ValueError, match="positive"):
        RBM.from_parameters(np.zeros((2, 2)), visible=FULL, precision_visible=[[1, 2], [2, 1]])
    with pytest.raises(ValueError, match="at most one unit"):
        ColumnUnits([(FULL, 2), (FULL, 2)])


def computed(convert):
    """Results of all functions of these units, from arrays of one library."""
    machine, X, observed = held_rows()
    thetas = tuple(theta.map(convert) for theta in machine.thetas)
    machine = replace(machine, thetas=thetas, weights=(convert(machine.weights[0]),))
    X, own = convert(X), thetas[0]
    unit = held(FULL, X, convert(observed))
    whole = StandardParameters(
        Coordinates(convert(np.ones(N)), convert(np.full(N, 2.0))),
        convert(np.zeros(N, dtype=bool)),
        root=convert(np.linalg.cholesky(precision_matrix(seed=5))),
        columns=np.arange(N),
    )
    indefinite = own._replace(joint=own.joint - 3 * convert(np.eye(N)))
    state = NaiveMeanField().step(machine, NaiveMeanField().state_at(machine, X))
    return [
        log_partition(machine),
        free_energy(machine, X),
        unit.log_partition(own),
        *unit.mean_variance(own),
        *unit.further(own),
        unit.log_partitions(own, machine.weights[0])(convert(np.eye(M))),
        unit.sample(own, make_rng(0, X)) * convert(observed.astype(float)),
        FULL.initial_theta(Columns(X)).joint,
        FULL.base_theta(own, Columns(X)).joint,
        FULL.project(indefinite).joint,
        *whole.of(machine),
        *whole.first(machine).thetas[0][::5],
        state.means[0],
        data_moments(machine, X).statistics(FULL, 0).joint,
    ]


@pytest.mark.parametrize("library", OTHER_LIBRARIES)
def test_other_libraries_compute_the_same(library):
    xp = pytest.importorskip(library)
    for found, expected in zip(computed(xp.asarray), computed(np.asarray), strict=True):
        assert type(found) is type(xp.asarray([0.0])) and found.dtype == xp.float64
        assert_allclose(to_numpy(found), expected, rtol=1e-9, atol=1e-12)


# ------------------------------------------------------------------------- columns of other kinds


def mixed_machine(seed=0, n_hidden=M):
    """Two bits, a category of three values, and three real columns, in another order."""
    unit = ColumnUnits([(Bernoulli(), [1, 2]), (FULL, [0, 3, 7]), (Categorical(3), [4, 5, 6])])
    generator = np.random.default_rng(seed)
    theta = Theta(generator.normal(size=8), joint=precision_matrix(3))
    W = 0.5 * generator.normal(size=(n_hidden, 8))
    return Machine((unit, Bernoulli()), (theta, Theta(generator.normal(size=n_hidden))), (W,))


REAL = [0, 3, 7]


def exact_log_z(machine, known=None):
    """log Z, or log p(known) + log Z where some columns are known and others NaN."""
    known = np.full(8, np.nan) if known is None else known
    h = np.array(list(itertools.product((0, 1), repeat=M)))
    bits = [(b, c, *np.eye(3)[k]) for b in (0, 1) for c in (0, 1) for k in range(3)]
    own, total = machine.thetas[0], []
    P = own.joint
    m = np.isnan(known[REAL])
    for state, bit in itertools.product(h, bits):
        x = np.zeros(8)
        x[[1, 2, 4, 5, 6]] = bit
        places = [1, 2, 4, 5, 6]
        if not (np.isnan(known[places]) | (known[places] == bit)).all():
            continue
        x[REAL] = np.nan_to_num(known[REAL])
        field = own.field + state @ machine.weights[0]
        v = x[REAL]
        given = field[REAL][m] - P[np.ix_(m, ~m)] @ v[~m]
        C = np.linalg.inv(P[np.ix_(m, m)])
        value = state @ machine.thetas[1].field + field @ x - 0.5 * v @ P @ v
        value += 0.5 * given @ C @ given + 0.5 * np.linalg.slogdet(2 * np.pi * C)[1]
        total.append(value)
    return logsumexp(total)


def derivative(machine, known, j, step=1e-4):
    """That of log p(known) + log Z by the field of a column: its mean given what is known."""
    (own, hidden), unit = machine.thetas, np.eye(8)[j]
    thetas = [(own._replace(field=own.field + s * unit), hidden) for s in (-step, step)]
    low, high = (exact_log_z(replace(machine, thetas=pair), known) for pair in thetas)
    return (high - low) / (2 * step)


def mixed_rows(n=5):
    generator = np.random.default_rng(3)
    X = np.zeros((n, 8))
    X[:, REAL] = generator.normal(size=(n, 3))
    X[:, [1, 2]] = generator.integers(2, size=(n, 2))
    X[np.arange(n), generator.choice([4, 5, 6], n)] = 1.0
    return X


def test_densities_beside_columns_of_other_kinds():
    from skrbm.evaluation._observed import exact_sums

    machine, X = mixed_machine(), mixed_rows()
    assert_allclose(log_partition(machine), exact_log_z(machine))
    assert_allclose(free_energy(machine, X), [-exact_log_z(machine, x) for x in X])
    observed = np.ones(X.shape, dtype=bool)
    for row, columns in enumerate([[0, 1], [3, 7, 4, 5, 6], [2], [0, 3, 7], [7, 4, 5, 6]]):
        observed[row, columns] = False
    found, _, exact = exact_sums(machine, X, observed)
    expected = [
        exact_log_z(machine, np.where(o, x, np.nan)) for x, o in zip(X, observed, strict=True)
    ]
    assert exact.all()
    assert_allclose(found, expected)
    _, means, exact = exact_sums(machine, X, observed, layer=0)
    assert exact.all()
    for row, j in np.argwhere(~observed):
        known = np.where(observed[row], X[row], np.nan)
        assert_allclose(means[row, j], derivative(machine, known, j), rtol=1e-6)
    unit = held(machine.units[0], X, observed)
    values = unit.sample(
        machine.thetas[0].map_columns(lambda p: np.tile(p, (5, 1))), make_rng(0, X)
    )
    assert_allclose(values[observed], X[observed])
    assert_allclose(values[:, 4:7].sum(axis=1), 1)


def test_gradients_beside_columns_of_other_kinds():
    """The statistics are those of the parts, in the columns of the parts."""
    machine, X = mixed_machine(), mixed_rows(40)
    unit, weights = machine.units[0], np.full(40, 1 / 40)
    found = unit.total_statistics(weights, X)
    assert_allclose(found.field, X.mean(axis=0))
    assert_allclose(found.joint, -0.5 * X[:, REAL].T @ X[:, REAL] / 40)
    moments = data_moments(machine, X) - data_moments(machine, X[:7])
    offset, scale = np.zeros(8), np.ones(8)
    offset[REAL], scale[1] = [1.0, -2.0, 0.5], 2.0
    parameters = StandardParameters(
        Coordinates(offset, scale),
        np.zeros(8, dtype=bool),
        root=np.linalg.cholesky(precision_matrix(3, seed=4)),
        columns=np.array(REAL),
    )
    same = parameters.machine(machine, parameters.of(machine))
    for mine, theirs in zip(same.thetas[0], machine.thetas[0], strict=True):
        assert (mine is None) == (theirs is None)
        assert mine is None or np.allclose(mine, theirs)
    slopes = parameters.gradient(machine, moments).arrays(parameters.of(machine))

    def contrast(arrays):
        moved = parameters.machine(machine, arrays)
        return float(free_energy(moved, X[:7]).mean() - free_energy(moved, X).mean())

    arrays, step, generator = parameters.of(machine), 1e-6, np.random.default_rng(0)
    direction = [generator.normal(size=part.shape) for part in arrays]
    direction[2] = direction[2] + direction[2].T
    up, down = (
        contrast([a + sign * step * d for a, d in zip(arrays, direction, strict=True)])
        for sign in (1, -1)
    )
    expected = sum((s * d).sum() for s, d in zip(slopes, direction, strict=True))
    assert_allclose((up - down) / (2 * step), expected, rtol=1e-6)


@pytest.mark.parametrize("missing", [False, True])
def test_variances_that_underflow_are_refused(missing):
    X = 1e-200 * np.random.default_rng(0).normal(size=(20, 3))
    X[:5, 1] = np.nan if missing else X[:5, 1]
    with pytest.raises(ValueError, match="variances of X are too small for float64; scale X"):
        RBM(2, visible=FULL, n_iter=1).fit(X)
