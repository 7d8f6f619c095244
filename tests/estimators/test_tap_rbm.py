"""TAPRBM: starts and solutions, the TAP log-likelihood, the step of learning, and that it learns.

The references here are transcriptions of the equations of Tramel et al. (2018) in plain NumPy,
row by row, which share no code with the package.
"""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from _estimators import (
    PAPER,
    all_rows,
    binary_data,
    divergence_from_noisy_patterns,
    independent_bits,
    kept_held_out,
    log_likelihoods,
    machine,
    noisy_patterns,
    parameters,
    small,
)
from _exact import Exact
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, gammaln, logsumexp, xlogy
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

from skrbm import TAPRBM, BernoulliRBM, evaluation
from skrbm.exceptions import LikelihoodWarning
from skrbm.inference import (
    FIXED_POINTS,
    TAP,
    BeliefPropagation,
    Clamped,
    Gibbs,
    NaiveMeanField,
)
from skrbm.inputs import Rows
from skrbm.learning import STARTS
from skrbm.units import Bernoulli, TruncatedGaussian

starts_by_name = pytest.mark.parametrize("starts", sorted(STARTS))


def tap_solution(W, c, b, v, n_sweeps=500, tol=0.0):
    """Alg. 1 for binary units, for one row: returns (a_v, a_h), at most ``n_sweeps`` sweeps.

    W is (n_hidden, n_visible). The sweep stops at a mean squared change of ``tol``, if above 0.
    """
    a_v, c_v, a_h = v.copy(), np.zeros_like(v), np.zeros(len(c))
    for _ in range(n_sweeps):
        before = np.concatenate([a_v, a_h])
        A_h = -(W**2) @ c_v
        a_h = expit(c + W @ a_v + A_h * a_h - A_h / 2)
        c_h = a_h - a_h**2
        A_v = -(W**2).T @ c_h
        a_v = expit(b + W.T @ a_h + A_v * a_v - A_v / 2)
        c_v = a_v - a_v**2
        if tol and np.mean((np.concatenate([a_v, a_h]) - before) ** 2) <= tol:
            break
    return a_v, a_h


def tap_free_energy(W, c, b, a_v, a_h):
    """The free energy of binary units as entropy, fields, pairs and the Onsager term."""
    entropy = -sum(np.sum(xlogy(a, a) + xlogy(1 - a, 1 - a)) for a in (a_v, a_h))
    pairs = a_h @ W @ a_v + 0.5 * (a_h - a_h**2) @ W**2 @ (a_v - a_v**2)
    return -(entropy + b @ a_v + c @ a_h + pairs)


def two_modes(**params):
    """A machine whose TAP equations have two solutions: its pattern and the opposite one."""
    pattern = np.array([1.0, 1, 1, -1, -1, -1])
    W = 4 * np.outer([1, -1], pattern)
    b = -0.5 * W.sum(axis=0) + 0.3 * pattern
    return TAPRBM.from_parameters(W, -0.5 * W.sum(axis=1), b, random_state=0, **params)


# ------------------------------------------------------------------ names and objects


@pytest.mark.wide
@starts_by_name
@pytest.mark.parametrize(
    "inference",
    [
        *sorted(FIXED_POINTS),
        TAP(order=2, max_iter=50, tol=1e-6, damping=0.5),
        TAP(order=3),
        NaiveMeanField(max_iter=20),
    ],
    ids=repr,
)
def test_every_inference_and_start(inference, starts):
    X = binary_data()
    rbm = small(TAPRBM, inference=inference, starts=starts).fit(X)
    assert all(np.isfinite(part).all() for part in parameters(rbm))
    assert np.isfinite(rbm.score(X)) and np.isfinite(rbm.tap_log_likelihood(X)).all()
    assert rbm.starts_.shape == (10, 8)
    rbm.partial_fit(X)
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.3, np.nan, X)
    assert np.isfinite(rbm.impute(holes)).all()


@pytest.mark.parametrize("starts, n_sweeps", [("data", 10), ("chains", 2), ("tempered", 2)])
@pytest.mark.parametrize("name, order", [("tap3", 3), ("tap", 2)])
def test_a_name_is_its_object(name, order, starts, n_sweeps):
    X, method = binary_data(), TAP(max_iter=n_sweeps, order=order)
    fits = (small(TAPRBM, starts=starts, inference=i).fit(X) for i in (name, method))
    by_name, by_object = fits
    assert_array_equal(by_name.components_, by_object.components_)
    assert_array_equal(by_name.tap_log_likelihood(X), by_object.tap_log_likelihood(X))


@pytest.mark.law
def test_inference_and_starts_matter():
    X = noisy_patterns(200)
    fits = [small(TAPRBM, n_iter=10, learning_rate=0.3, inference=i) for i in FIXED_POINTS]
    fits += [small(TAPRBM, n_iter=10, learning_rate=0.3, starts=s) for s in STARTS]
    weights = [rbm.fit(X).components_ for rbm in fits]
    same = [np.allclose(a, b) for i, a in enumerate(weights) for b in weights[:i]]
    assert sum(same) == 1  # the defaults stand in both lists


@pytest.mark.parametrize(
    "name, value",
    [
        ("inference", "gibbs"),
        ("inference", Gibbs()),
        ("inference", TAP),
        ("inference", None),
        ("starts", "mode"),
        ("starts", None),
        ("n_starts", 0),
        ("n_starts", 1.5),
        ("n_starts", "all"),
    ],
)
def test_wrong_names_and_objects(name, value):
    with pytest.raises(ValueError, match=f"The '{name}' parameter of TAPRBM must be .+ Got"):
        small(TAPRBM, **{name: value}).fit(binary_data())


@pytest.mark.parametrize(
    "params, message",
    [
        ({"order": 4}, r"order must be one of \[2, 3\]; or take NaiveMeanField.*, got 4"),
        ({"max_iter": 0}, "max_iter must be an integer >= 1, got 0"),
        ({"tol": -1}, "tol must be a finite number >= 0, got -1"),
        ({"tol": np.nan}, "tol must be a finite number >= 0, got nan"),
        ({"damping": 1}, "damping must be a finite number >= 0 and < 1, got 1"),
    ],
)
def test_wrong_parameters_of_objects(params, message):
    with pytest.raises(ValueError, match=message):
        TAP(**params)


@pytest.mark.parametrize(
    "method, message",
    [
        (BeliefPropagation(product="max"), "marginals and log Z need product='sum'"),
        (BeliefPropagation(product="mixed"), "marginals and log Z need product='sum'"),
        (Clamped(TAP()), "which units are observed"),
    ],
)
def test_methods_without_marginals(method, message):
    """Nothing is learnt by them, and no log Z given, of the most probable values."""
    rbm = small(TAPRBM).fit(binary_data())
    history = rbm.history_
    with pytest.raises(ValueError, match=message):
        rbm.set_params(inference=method).fit(binary_data())
    assert rbm.history_ is history
    for call in (evaluation.log_partition, evaluation.solutions):
        with pytest.raises(ValueError, match=message):
            call(rbm, method)


# ----------------------------------------------------------------- starts and solutions


@starts_by_name
@pytest.mark.parametrize("n_starts", [1, 7, 10, 25, 100])
def test_number_of_starts_is_free(starts, n_starts):
    """Fewer and more than rows in a batch (10), and more than rows of data (60)."""
    rbm = small(TAPRBM, n_starts=n_starts, starts=starts).fit(binary_data())
    assert rbm.starts_.shape == (n_starts, 8)
    assert all(0 <= n <= n_starts for n in rbm.history_["n_unconverged"])
    assert np.isfinite(rbm.components_).all()


def test_data_starts_are_the_last_rows():
    """Each as often as it is in X, in the order of the rows of the fit."""
    X = binary_data(n=25)
    rows = Rows(X, Bernoulli(), X.dtype)
    order = X[rows.index[np.repeat(np.arange(len(rows)), rows.counts.astype(int))]]
    rbm = small(TAPRBM, starts="data", batch_size=25, shuffle=False).fit(X)
    assert_array_equal(rbm.starts_, order)
    assert_array_equal(np.sort(rbm.starts_ @ 2 ** np.arange(8)), np.sort(X @ 2 ** np.arange(8)))
    rbm = small(TAPRBM, starts="data", batch_size=25, n_starts=8, shuffle=False).fit(X)
    assert_array_equal(rbm.starts_, order[:8])


def test_chain_starts_are_configurations_and_persistent_ones_are_means():
    X = binary_data()
    chains = small(TAPRBM, starts="chains").fit(X).starts_
    assert set(np.unique(chains)) <= {0, 1}
    means = small(TAPRBM, starts="persistent").fit(X).starts_
    assert ((means > 0) & (means < 1)).all()


def test_starts_may_change_when_training_goes_on():
    X = binary_data()
    for first in STARTS:
        for second in STARTS:
            rbm = small(TAPRBM, starts=first, warm_start=True).fit(X)
            rbm.set_params(starts=second).fit(X)
            rbm.set_params(starts=first, n_starts=4).partial_fit(X)
            assert rbm.n_iter_ == 7
            assert np.isfinite(rbm.components_).all()


def test_history_of_solutions():
    rbm = small(TAPRBM, starts="data").fit(noisy_patterns(60))
    assert rbm.history_["n_unconverged"] == [0, 0, 0]
    assert all(1 < sweeps < 100 for sweeps in rbm.history_["n_sweeps"])


def test_unconverged_solutions_are_counted():
    """One sweep moves the means by more than 1e-4, so none of the 10 solutions converges."""
    rbm = small(TAPRBM, inference=TAP(max_iter=1, tol=1e-8), starts="random").fit(binary_data())
    assert rbm.history_["n_unconverged"] == [10, 10, 10]
    assert rbm.history_["n_sweeps"] == [1, 1, 1]
    rbm = small(TAPRBM, inference=TAP(max_iter=1, tol=1.0)).fit(binary_data())
    assert rbm.history_["n_unconverged"] == [0, 0, 0]


# -------------------------------------------------------------- the TAP log-likelihood


def test_tap_log_likelihood_is_equation_39():
    """Unique solutions count once each, however many starts lead to them."""
    rbm = two_modes()
    W, c, b = parameters(rbm)
    X = all_rows(6)
    starts = np.array([[1.0, 1, 1, 0, 0, 0]] * 5 + [[0.0, 0, 0, 1, 1, 1]])
    energies = [tap_free_energy(W, c, b, *tap_solution(W, c, b, v)) for v in starts[[0, -1]]]
    assert abs(energies[0] - energies[1]) > 0.01  # the two are told apart
    clamped = X @ b + np.logaddexp(0, X @ W.T + c).sum(axis=1)
    assert_allclose(rbm.tap_log_likelihood(X, starts), clamped + np.mean(energies), atol=1e-5)
    one = clamped + energies[0]
    assert_allclose(rbm.tap_log_likelihood(X, starts[:5]), one, atol=1e-5)
    assert_allclose(
        rbm.tap_log_likelihood(X[:3], starts.tolist())[2], clamped[2] + np.mean(energies), atol=1e-5
    )


def test_tap_log_likelihood_uses_the_starts_of_fit():
    X = noisy_patterns(100)
    rbm = small(TAPRBM, n_iter=30, learning_rate=0.2).fit(X)
    assert_allclose(rbm.tap_log_likelihood(X), rbm.tap_log_likelihood(X, rbm.starts_), rtol=1e-10)
    alone = rbm.tap_log_likelihood(X[4:5])
    assert_allclose(alone, rbm.tap_log_likelihood(X)[4:5], rtol=1e-10)
    assert_allclose(-rbm.free_energy(X) - rbm.log_partition("tap"), rbm.tap_log_likelihood(X))
    with pytest.raises(ValueError, match="starts has 7 columns"):
        rbm.tap_log_likelihood(X, np.zeros((2, 7)))


def test_score_of_a_large_machine_is_by_monte_carlo():
    """35 units in each layer are not summed; TAP's own estimate has its own name."""
    X = binary_data(n_features=35)
    rbm = small(TAPRBM, n_components=35).fit(X)
    log_z, std = rbm.log_partition(return_std=True)
    assert log_z == rbm.log_partition("smc") and std > 0
    assert_allclose(rbm.score_samples(X), -rbm.free_energy(X) - log_z, rtol=1e-12)
    tap = rbm.log_partition("tap")
    assert_allclose(rbm.tap_log_likelihood(X), -rbm.free_energy(X) - tap, rtol=1e-12)
    assert small(TAPRBM).fit(X).log_partition(return_std=True)[1] == 0


@pytest.mark.parametrize("n_features", [8, 35])
def test_early_stopping_scores_by_sums_or_annealing(n_features, monkeypatch):
    """Two log Z differ by less than 8 standard errors of one: 1e-8, were they normal."""
    X, held_out = binary_data(n=60, n_features=n_features), kept_held_out(monkeypatch)
    rbm = small(TAPRBM, n_components=35, early_stopping=True, tol=100.0).fit(X)
    _, std = rbm.log_partition(return_std=True)
    assert (std > 0) == (n_features == 35)
    assert abs(rbm.history_["score"][-1] - rbm.score(held_out[0])) <= 8 * std + 1e-9


def four_modes(n, strength):
    """A machine with two groups of n bits in each layer, nearly all on or nearly all off."""
    W = np.zeros((2 * n, 2 * n))
    W[:n, :n] = W[n:, n:] = strength / n
    bias = np.full(2 * n, -strength / 2)
    return TAPRBM.from_parameters(W, bias, bias, random_state=0)


def test_score_does_not_miss_modes_that_no_start_leads_to():
    """TAP solved from one of four modes misses log 4, which annealing finds.

    The sum over the numbers of bits that are on in either layer of a group is exact. In each start
    two bits of five are on, so that all lead to the mode where most are off.
    """
    n, strength = 20, 12.0
    rbm = four_modes(n, strength)
    k = np.arange(n + 1)
    log_binomial = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    group = (
        log_binomial[:, None]
        + log_binomial
        + strength * (np.outer(k, k) / n - 0.5 * np.add.outer(k, k))
    )
    exact = 2 * logsumexp(group)
    rbm.starts_ = np.array([np.roll([1.0, 1, 0, 0, 0] * 8, shift) for shift in range(5)])
    X = np.zeros((1, 2 * n))
    with pytest.warns(LikelihoodWarning, match=r"of TAP\(.*\), where .* Trust the score"):
        score = rbm.score(X)
    assert score == pytest.approx(-rbm.free_energy(X)[0] - exact, abs=0.3)
    flattering = rbm.tap_log_likelihood(X)[0] - score
    assert flattering > 1


def test_log_partition_by_fixed_points_belongs_to_the_starts():
    """All units off and all on are two solutions, of which the second is worth more."""
    field = np.full(4, -7.5)
    rbm = TAPRBM.from_parameters(np.full((4, 4), 4.0), field, field, random_state=0)
    rbm.starts_ = np.zeros((1, 4))
    off = rbm.log_partition("tap")
    rbm.starts_ = np.ones((1, 4))
    assert rbm.log_partition("tap") - off > 1


def test_log_partitions_agree_on_a_small_machine():
    """Weights of 0.3, where the expansion in their powers leaves little."""
    rbm = machine(TAPRBM, 5, 6, strength=0.3)
    exact = Exact(rbm.machine_).log_z
    assert rbm.log_partition("exact") == pytest.approx(exact, rel=1e-12)
    assert rbm.log_partition() == rbm.log_partition("exact")
    errors = [abs(rbm.log_partition(m) - exact) for m in ("naive_mean_field", "tap", "tap3")]
    assert errors[0] < 0.1 and errors[1] < 0.01 and errors[2] < 0.003
    assert errors[0] > 3 * max(errors[1:])
    value, std = rbm.log_partition("ais", return_std=True)
    assert abs(value - exact) < 6 * std < 0.1  # odds of 2e-9, were it normal


# -------------------------------------------------------------------- a step of learning


@pytest.mark.parametrize("momentum, alpha", [(0.0, 0.0), (0.5, 0.0), (0.5, 0.01)])
def test_steps_are_those_of_algorithm_2(momentum, alpha):
    """Three batches of the same rows, started at the data; 30 sweeps from the same starts."""
    X, rate, n_sweeps = binary_data(n=10), 0.3, 30
    generator = np.random.default_rng(0)
    W, c, b = 0.5 * generator.standard_normal((5, 8)), np.full(5, 0.1), np.full(8, -0.2)
    rbm = small(
        TAPRBM,
        init=(W, c, b),
        inference=TAP(max_iter=n_sweeps, tol=0.0),
        starts="data",
        learning_rate=rate,
        momentum=momentum,
        alpha=alpha,
        centered=False,
        average=False,
        n_iter=1,
        warm_start=True,
        shuffle=False,
    )
    velocity = [0.0, 0.0, 0.0]
    for _ in range(3):
        rbm.fit(X)
        gradient = [0.0, 0.0, 0.0]
        for v in X:
            h = expit(W @ v + c)
            a_v, a_h = tap_solution(W, c, b, v, n_sweeps)
            pair = np.outer(a_h, a_v) + W * np.outer(a_h - a_h**2, a_v - a_v**2)
            gradient[0] = gradient[0] + (np.outer(h, v) - pair) / len(X)
            gradient[1] = gradient[1] + (h - a_h) / len(X)
            gradient[2] = gradient[2] + (v - a_v) / len(X)
        gradient[0] = gradient[0] - alpha * W  # the penalty is on the weights only
        velocity = [momentum * u + rate * g for u, g in zip(velocity, gradient, strict=True)]
        W, c, b = (part + u for part, u in zip((W, c, b), velocity, strict=True))
        for one, other in zip(parameters(rbm), (W, c, b), strict=True):
            assert_allclose(one, other, rtol=0, atol=1e-10)


def test_naive_mean_field_step_has_no_onsager_term():
    X, W = binary_data(n=10), 0.5 * np.random.default_rng(0).standard_normal((5, 8))
    params = PAPER | {"momentum": 0.0, "alpha": 0.0, "learning_rate": 1.0, "n_iter": 1}
    del params["inference"]
    inference = NaiveMeanField(max_iter=50, tol=0.0)
    rbm = small(TAPRBM, init=(W, np.zeros(5), np.zeros(8)), inference=inference, **params).fit(X)
    expected = W.copy()
    for v in X:
        a_v = v
        for _ in range(50):
            a_h = expit(W @ a_v)
            a_v = expit(W.T @ a_h)
        expected += (np.outer(expit(W @ v), v) - np.outer(a_h, a_v)) / len(X)
    assert_allclose(rbm.components_, expected, rtol=0, atol=1e-10)


def test_rows_that_converge_early_stop_early():
    """The step with a tolerance is that of rows solved one by one, each to its own end."""
    X, tol = binary_data(n=10), 1e-4
    generator = np.random.default_rng(1)
    W, c, b = generator.standard_normal((5, 8)), np.zeros(5), np.zeros(8)
    params = PAPER | {"momentum": 0.0, "alpha": 0.0, "learning_rate": 1.0, "n_iter": 1}
    params |= {"init": (W, c, b), "inference": TAP(tol=tol, max_iter=100)}
    rbm = small(TAPRBM, **params).fit(X)
    solutions = [tap_solution(W, c, b, v, 100, tol) for v in X]
    expected = X.mean(axis=0) - np.mean([a_v for a_v, _ in solutions], axis=0)
    assert_allclose(rbm.intercept_visible_, expected, rtol=0, atol=1e-10)


# -------------------------------------------------------------------------- learning


@pytest.mark.law
@pytest.mark.parametrize(
    "params, bound",
    [
        ({}, 0.5),
        ({"starts": "data"}, 0.5),
        ({"inference": "tap3"}, 0.5),
        ({"inference": "naive_mean_field"}, 1.5),
    ],
)
def test_learns_a_known_law(params, bound):
    """Exact divergences in nats; bounds are about twice what several seeds reach."""
    X = noisy_patterns(1000)
    settings = {"learning_rate": 0.2, "schedule": "linear", "n_iter": 30, "batch_size": 50}
    rbm = TAPRBM(n_components=8, random_state=0, n_starts=20, **settings, **params).fit(X)
    assert divergence_from_noisy_patterns(rbm.score_samples) < bound
    assert divergence_from_noisy_patterns(independent_bits) > 3.9


@pytest.mark.law
def test_learns_as_well_as_sampling():
    """With its defaults, and epochs to match, within 0.3 nats of persistent chains."""
    X = noisy_patterns(1000)
    params = {"n_components": 8, "n_iter": 30, "batch_size": 50, "random_state": 0}
    tap = TAPRBM(learning_rate=0.2, schedule="linear", **params).fit(X)
    sampled = BernoulliRBM(learning_rate=0.2, schedule="linear", **params).fit(X)
    assert log_likelihoods(tap, X).mean() > log_likelihoods(sampled, X).mean() - 0.3


def test_impute_is_deterministic_and_finds_the_pattern():
    rbm = two_modes()
    x = np.array([[1.0, 1, np.nan, np.nan, 0, np.nan], [0, 0, np.nan, np.nan, 1, np.nan]])
    filled = rbm.impute(x)
    assert_array_equal(filled, rbm.impute(x))
    assert_array_equal(filled > 0.5, [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]])


# -------------------------------------------------------------------------- solutions


def test_solutions_are_the_two_modes():
    rbm = two_modes()
    W, c, b = parameters(rbm)
    starts = np.array([[1.0, 1, 1, 0, 0, 0]] * 5 + [[0.0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 0]])
    found = rbm.solutions(starts)
    expected = [tap_solution(W, c, b, v) for v in starts[[0, -2]]]
    assert_array_equal(found.labels, [0] * 5 + [1, 1])  # the pattern has the lower free energy
    assert_array_equal(found.counts, [5, 2])
    for mean, references in zip(found.means, zip(*expected, strict=True), strict=True):
        assert_allclose(mean, references, atol=1e-5)
    energies = [tap_free_energy(W, c, b, *solution) for solution in expected]
    assert_allclose(found.free_energies, energies, atol=1e-8)
    log_z = rbm.tap_log_likelihood(starts[:1], starts) + rbm.free_energy(starts[:1])
    assert found.log_partition() == pytest.approx(-float(log_z[0]), rel=1e-9)


@pytest.mark.parametrize("inference", ["tap", "naive_mean_field", TAP(order=3, damping=0.5)])
def test_solutions_are_those_of_the_inference(inference):
    X = noisy_patterns(60)
    rbm = small(TAPRBM, n_iter=10, learning_rate=0.3, inference=inference).fit(X)
    found = rbm.solutions()
    assert len(found.labels) == len(rbm.starts_)
    assert found.log_partition() == pytest.approx(rbm.log_partition(rbm.inference), rel=1e-9)


def test_solutions_of_any_container():
    X = noisy_patterns(40)
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    rbm = small(TAPRBM, n_iter=10, learning_rate=0.3).fit(frame)
    expected = rbm.solutions(frame)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        found = rbm.solutions(X)
    assert_array_equal(found.visible_means, expected.visible_means)
    with pytest.raises(ValueError, match="feature names should match"):
        rbm.solutions(frame[frame.columns[::-1]])
    rbm.fit(X)
    expected = rbm.solutions(X)
    for rows in (sp.csr_array(X), X.astype(np.float32), X.astype(bool), X.tolist()):
        assert_allclose(rbm.solutions(rows).visible_means, expected.visible_means, atol=1e-9)


def test_solutions_from_thresholded_starts():
    X = noisy_patterns(40)
    rbm = small(TAPRBM, n_iter=10, learning_rate=0.3, binarize=100).fit(255 * X)
    expected = small(TAPRBM, n_iter=10, learning_rate=0.3).fit(X).solutions(X)
    assert_array_equal(rbm.solutions(255 * X).labels, expected.labels)


@pytest.mark.parametrize(
    "X, tol, message",
    [
        (np.full((2, 8), np.nan), 1e-2, "NaN"),
        (np.zeros((2, 7)), 1e-2, "X has 7 features"),
        (np.zeros(8), 1e-2, "Expected 2D array"),
        (None, 0, "unique_tol must be a finite number > 0, got 0"),
        (None, -1.0, "unique_tol must be a finite number > 0, got -1.0"),
    ],
)
def test_solutions_check_their_input(X, tol, message):
    rbm = small(TAPRBM).fit(binary_data())
    with pytest.raises(ValueError, match=message):
        rbm.solutions(X, unique_tol=tol)


def test_solutions_of_a_machine_that_is_not_fitted():
    with pytest.raises(NotFittedError):
        TAPRBM().solutions(np.eye(3))


def test_solutions_of_real_units():
    X = np.random.default_rng(0).normal(0, 0.3, (60, 5)).clip(-1, 1)
    rbm = TAPRBM(3, visible=TruncatedGaussian(-1, 1), n_iter=2, random_state=0).fit(X)
    found = rbm.solutions(X)
    assert found.n_unconverged == 0
    assert (np.abs(found.visible_means) < 1).all()
    unit = rbm.units_[0]
    alone = unit.mean_variance(unit.tilt(rbm.machine_.thetas[0], 0.0))
    # The couplings are still weak: one solution, near the visible units on their own.
    assert len(found) == 1
    assert_allclose(found.visible_means[0], alone[0], atol=0.1)
    assert_allclose(found.visible_variances[0], alone[1], atol=0.1)


def test_adaptive_tap_learns_digits_and_imputes():
    """A short fit raises the exact likelihood by half a nat, and nothing is NaN."""
    X = (load_digits().data[:200] > 7).astype(np.float32)
    params = {"n_components": 8, "batch_size": 20, "n_starts": 4, "random_state": 0}
    before = TAPRBM(inference="adaptive_tap", n_iter=0, **params).fit(X)
    after = TAPRBM(inference="adaptive_tap", n_iter=12, learning_rate=0.6, **params).fit(X)
    assert after.score(X) > before.score(X) + 0.5
    assert np.isfinite(after.components_).all() and after.components_.dtype == np.float32
    missing = X[:2].copy()
    missing[:, :20] = np.nan
    filled = after.impute(missing)
    assert np.isfinite(filled).all()
    assert_array_equal(filled[:, 20:], X[:2, 20:])
