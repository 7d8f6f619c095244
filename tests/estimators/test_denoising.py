"""``denoise``: posteriors of small machines by enumeration, its limits, what it takes and keeps."""

import numpy as np
import pytest
import scipy.sparse as sp
from _estimators import RBMS, binary_data, log_likelihoods, machine, small
from _exact import Exact
from _fractional import all_rows
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import hadamard
from scipy.special import expit

from skrbm import TAPRBM, DeepTAPMachine
from skrbm.inference import TAP, NaiveMeanField

REAL = ["gaussian", "truncated_gaussian", "truncated_gauss_bernoulli"]


def posterior_means(rbm, Y, p):
    """E[v | noisy rows], by a sum over all configurations."""
    V = all_rows(Y.shape[1])
    likelihood = np.where(Y[:, None] == V, 1 - p, p).prod(axis=2)
    law = np.exp(log_likelihoods(rbm, V)) * likelihood
    return law @ V / law.sum(axis=1, keepdims=True)


def flipped(X, p, seed=0):
    return np.abs(X - (np.random.default_rng(seed).random(X.shape) < p))


def real_machine(kind, strength=0.3, **params):
    generator = np.random.default_rng(0)
    W, c, b = generator.standard_normal((3, 4)), np.zeros(3), generator.standard_normal(4)
    return TAPRBM.from_parameters(strength * W, c, b, visible=kind, random_state=0, **params)


def two_patterns(n_features=20, **params):
    """A machine of one unit that knows two rows, a pattern and its opposite, equally probable."""
    W = np.where(np.arange(n_features) < n_features // 2, 8.0, -8.0)[None]
    return TAPRBM.from_parameters(W, [0.0], -0.5 * W[0], random_state=0, **params)


# ------------------------------------------------------------------------- posteriors


@pytest.mark.parametrize("p", [0.01, 0.1, 0.3, 0.5])
def test_near_the_exact_posterior_at_weak_couplings(p):
    """TAP's error is of the third power of the weights, which are 0.3; naive's of the second."""
    rbm = machine(TAPRBM, 5, 6, strength=0.3, inference=TAP(tol=1e-14))
    naive = machine(TAPRBM, 5, 6, strength=0.3, inference=NaiveMeanField(tol=1e-14))
    Y = all_rows(6)
    truth = posterior_means(rbm, Y, p)
    error = np.abs(rbm.denoise(Y, flip_probability=p) - truth).max()
    assert error < 0.02
    assert error < 0.3 * np.abs(naive.denoise(Y, flip_probability=p) - truth).max() + 1e-4
    assert np.abs(Y - truth).max() > p  # there is something to gain


def test_posteriors_are_solved_to_the_tolerance():
    """One more sweep without damping, by formulas, moves them by no more."""
    tol, Y, p = 1e-4, all_rows(6), 0.4
    rbm = machine(TAPRBM, 5, 6, strength=2.0, inference=NaiveMeanField(tol=tol))
    W, c, b = rbm.components_, rbm.intercept_hidden_, rbm.intercept_visible_
    mean = rbm.denoise(Y, flip_probability=p)
    field = b + (2 * Y - 1) * np.log((1 - p) / p)
    change = expit(expit(mean @ W.T + c) @ W + field) - mean
    assert ((change**2).mean(axis=1) <= tol).all()


def test_posteriors_where_plain_sweeps_go_round_in_circles():
    """Orthogonal couplings so strong that sweeps of TAP without damping overshoot."""
    W, Y = 1.5 * hadamard(16), np.random.default_rng(0).integers(0, 2, (20, 16)).astype(float)
    found, finer = (
        TAPRBM.from_parameters(
            W, -W.sum(axis=1) / 2, -W.sum(axis=0) / 2, inference=method, random_state=0
        ).denoise(Y, flip_probability=0.45)
        for method in (TAP(tol=1e-10), TAP(tol=1e-24, damping=0.9, max_iter=5000))
    )
    assert_allclose(found, finer, atol=1e-4)


def test_flips_are_found_by_what_the_others_say():
    """One of 20 bits of a known row is wrong: the pointwise estimate cannot tell, denoise can."""
    rbm = two_patterns()
    X = np.array([[1.0] * 10 + [0.0] * 10])
    Y = np.repeat(X, 20, axis=0)
    Y[np.arange(20), np.arange(20)] = 1 - X[0]
    out = rbm.denoise(Y, flip_probability=0.1, prior_mean=np.full(20, 0.5))
    assert_array_equal(out > 0.5, np.repeat(X, 20, axis=0))


@pytest.mark.parametrize("kind", REAL)
def test_real_units_without_couplings_or_with_little_noise(kind):
    """Gaussian units: the conjugate posterior. Others: their own law times the normal density."""
    rbm = real_machine(kind, strength=0.0, inference=TAP(tol=1e-26))
    Y, s = np.array([[0.2, 0.5, 0.9, 0.1], [0.3, -0.4, 1.3, 0.0]]), 0.5
    mean, std = rbm.denoise(Y, noise_variance=s, return_std=True)
    field, precision = rbm.intercept_visible_ + Y / s, rbm.precision_visible_ + 1 / s
    low, high = rbm.units_[0].bounds
    if kind == "gaussian":
        assert_allclose(mean, field / precision, rtol=1e-10)
        assert_allclose(std, np.broadcast_to(precision**-0.5, Y.shape), rtol=1e-10)
        return
    edges = np.linspace(low, high, 200001)[:, None, None]
    x, dx = 0.5 * (edges[1:] + edges[:-1]), (high - low) / 200000
    density = np.exp(field * x - 0.5 * precision * x**2) * dx
    atom = 0.0
    if kind == "truncated_gauss_bernoulli":
        density, atom = density * np.exp(rbm.spike_visible_), 1.0
    total = density.sum(axis=0) + atom
    expected = (density * x).sum(axis=0) / total
    assert_allclose(mean, expected, rtol=1e-7)
    assert_allclose(std**2, (density * x**2).sum(axis=0) / total - expected**2, rtol=1e-6)


@pytest.mark.parametrize("kind", REAL)
def test_real_units_with_little_noise_are_what_was_seen(kind):
    """To the variance of the noise times the field of the prior, which is below 4 here."""
    rbm, s = real_machine(kind), 1e-6
    Y = np.random.default_rng(0).uniform(0.05, 0.95, (5, 4))
    mean, std = rbm.denoise(Y, noise_variance=s, return_std=True)
    assert_allclose(mean, Y, rtol=0, atol=8 * s)
    assert_allclose(std, np.sqrt(s), rtol=1e-3)


def test_gaussian_machine_against_its_exact_posterior():
    """Given the 8 hidden configurations the visible units are normal, so that sums are exact."""
    rbm, s = real_machine("gaussian", strength=0.15), 0.4
    Y = np.random.default_rng(1).standard_normal((6, 4))
    H, W = all_rows(3), rbm.components_
    precision = rbm.precision_visible_ + 1 / s
    field = (rbm.intercept_visible_ + Y / s)[:, None] + H @ W
    log_law = H @ rbm.intercept_hidden_ + (0.5 * field**2 / precision).sum(axis=2)
    law = np.exp(log_law - log_law.max(axis=1, keepdims=True))
    law /= law.sum(axis=1, keepdims=True)
    expected = (law[:, :, None] * field / precision).sum(axis=1)
    assert_allclose(rbm.denoise(Y, noise_variance=s), expected, rtol=0, atol=2e-3)


def test_deep_machines():
    """The same, with the law of the visible units from the sums over all layers."""
    generator = np.random.default_rng(0)
    weights = [0.3 * generator.standard_normal(shape) for shape in ((4, 6), (3, 4))]
    biases = [0.5 * generator.standard_normal(n) for n in (6, 4, 3)]
    deep = DeepTAPMachine.from_parameters(weights, biases, random_state=0, inference=TAP(tol=1e-14))
    V, law = Exact(deep.machine_).layer_law(0)
    Y, p = all_rows(6), 0.2
    law = law * np.where(Y[:, None] == V, 1 - p, p).prod(axis=2)
    truth = law @ V / law.sum(axis=1, keepdims=True)
    mean, std = deep.denoise(Y, flip_probability=p, return_std=True)
    assert_allclose(mean, truth, rtol=0, atol=0.02)
    assert_allclose(std**2, mean * (1 - mean), rtol=1e-6)
    assert np.abs(Y - truth).max() > p


# ----------------------------------------------------------------------------- limits


def test_without_noise_the_result_is_what_was_given():
    Y = binary_data()
    mean, std = machine(TAPRBM, 5, 8).denoise(Y, flip_probability=0, return_std=True)
    assert_array_equal(mean, Y)
    assert_array_equal(std, 0)
    assert not np.shares_memory(mean, Y)
    for kind in REAL:
        Y = 2 * np.random.default_rng(0).standard_normal((3, 4))  # also out of bounds
        mean, std = real_machine(kind).denoise(Y, noise_variance=0.0, return_std=True)
        assert_array_equal(mean, Y)
        assert_array_equal(std, 0)


def test_at_one_half_the_observation_says_nothing():
    """The result is the machine's own solution from the prior means, whatever Y is."""
    rbm = small(TAPRBM, n_iter=20).fit(binary_data())
    out = rbm.denoise(binary_data(seed=1), flip_probability=0.5)
    assert_allclose(out, np.broadcast_to(out[0], out.shape), rtol=1e-12)
    W, c, b = rbm.components_, rbm.intercept_hidden_, rbm.intercept_visible_
    a = rbm.visible_means_
    h, spread = np.zeros(5), np.zeros(8)
    for _ in range(2000):
        A = -(W**2) @ spread
        h = expit(c + W @ a + A * h - A / 2)
        A = -(W**2).T @ (h - h**2)
        a = expit(b + W.T @ h + A * a - A / 2)
        spread = a - a**2
    assert_allclose(out[0], a, rtol=0, atol=1e-3)  # tol of the sweeps is 1e-8 in the square


def test_prior_mean_is_where_the_search_starts():
    """With no information the machine of two patterns stays with the one it is started at."""
    rbm, Y = two_patterns(), np.zeros((1, 20))
    X = np.array([1.0] * 10 + [0.0] * 10)
    for mean in (0.9 * X + 0.05, X, (1 - X).tolist()):
        out = rbm.denoise(Y, flip_probability=0.5, prior_mean=mean)
        assert_array_equal(out[0] > 0.5, np.array(mean) > 0.5)


def test_default_prior_mean():
    """Means of the data after fit, sigmoid(b) without data."""
    X = binary_data()
    rbm = small(TAPRBM, n_iter=20, learning_rate=0.5).fit(X)
    Y = flipped(X, 0.3)
    default = rbm.denoise(Y, flip_probability=0.3)
    assert_array_equal(default, rbm.denoise(Y, flip_probability=0.3, prior_mean=rbm.visible_means_))
    bare = TAPRBM.from_parameters(rbm)
    assert not hasattr(bare, "visible_means_")
    own = expit(bare.intercept_visible_)
    assert_allclose(
        bare.denoise(Y, flip_probability=0.3),
        bare.denoise(Y, flip_probability=0.3, prior_mean=own),
        rtol=1e-12,
    )


# ----------------------------------------------------------------------- several starts


def test_solutions_of_several_starts_are_averaged():
    """With 0.5 as means the draws fall to either pattern: 200 of them leave each bit undecided.

    The first start is one of 200; a share outside of [0.3, 0.7] has odds of 1e-8 if each pattern
    is found with probability 1/2.
    """
    rbm, Y = two_patterns(), np.zeros((1, 20))
    settings = {"flip_probability": 0.5, "prior_mean": np.full(20, 0.5), "random_state": 0}
    mean, std = rbm.denoise(Y, n_starts=200, return_std=True, **settings)
    assert ((mean > 0.3) & (mean < 0.7)).all()
    assert_allclose(std**2, mean * (1 - mean), rtol=1e-6)  # of a bit, whatever the mixture


def test_same_seed_same_draws_and_one_start_needs_none():
    """The sum of 20 rows' ten draws each of one of two patterns differs between two seeds."""
    rbm, Y = two_patterns(), np.zeros((20, 20))
    given = {"flip_probability": 0.5, "prior_mean": np.full(20, 0.5)}
    assert_array_equal(rbm.denoise(Y, **given), rbm.denoise(Y, random_state=3, **given))
    many = [rbm.denoise(Y, n_starts=10, random_state=s, **given) for s in (0, 0, 1)]
    assert_array_equal(many[0], many[1])
    assert np.abs(many[0] - many[2]).max() > 0.05


def test_rows_do_not_depend_on_their_neighbours_nor_on_blocks(monkeypatch):
    rbm, Y = machine(TAPRBM, 5, 8), binary_data(20)
    together = rbm.denoise(Y, flip_probability=0.2)
    for row in range(3):
        alone = rbm.denoise(Y[row : row + 1], flip_probability=0.2)
        assert_allclose(alone[0], together[row], rtol=1e-12)
    monkeypatch.setattr("skrbm.estimators._posterior._BLOCK_ROWS", 7)
    assert_allclose(rbm.denoise(Y, flip_probability=0.2), together, rtol=1e-12)


# ------------------------------------------------------------------------ kinds of input


@pytest.mark.parametrize("inference", ["tap", "tap3", "naive_mean_field", TAP(max_iter=50)])
def test_input_of_every_kind(inference):
    rbm = machine(TAPRBM, 5, 8, inference=inference)
    Y, given = binary_data(20), {"flip_probability": 0.2, "return_std": True}
    before = Y.copy()
    mean, std = rbm.denoise(Y, **given)
    assert_array_equal(Y, before)
    assert_allclose(std**2, mean * (1 - mean), rtol=1e-6)
    for same in (sp.csr_array(Y), sp.coo_array(Y), Y.astype(bool), Y.astype(np.uint8), Y.tolist()):
        for a, b in zip((mean, std), rbm.denoise(same, **given), strict=True):
            assert_allclose(a, b, rtol=1e-12)
    single = machine(TAPRBM, 5, 8, dtype=np.float32, inference=inference)
    for a, b in zip((mean, std), single.denoise(Y, **given), strict=True):
        assert b.dtype == np.float32
        assert_allclose(a, b, rtol=0, atol=2e-3)  # tolerance of the sweeps in the square: 1e-8


def test_dataframes():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(binary_data(), columns=list("abcdefgh"))
    rbm = small(TAPRBM).fit(X)
    assert_array_equal(
        rbm.denoise(X, flip_probability=0.1),
        TAPRBM.from_parameters(rbm).denoise(
            X.to_numpy(), flip_probability=0.1, prior_mean=rbm.visible_means_
        ),
    )


def test_binarize_makes_bits_of_noisy_values():
    X = binary_data()
    rbm = small(TAPRBM, binarize=127).fit(255 * X)
    assert_allclose(rbm.visible_means_, X.mean(axis=0), rtol=1e-12)
    plain = TAPRBM.from_parameters(rbm)
    expected = plain.denoise(X, flip_probability=0.1, prior_mean=X.mean(axis=0))
    assert_allclose(rbm.denoise(200 * X, flip_probability=0.1), expected, rtol=1e-12)


# ------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    "given, message",
    [
        ({}, "give one of flip_probability .* and noise_variance"),
        ({"flip_probability": 0.1, "noise_variance": 0.1}, "give one of flip_probability"),
        ({"flip_probability": 0.6}, r"flip_probability must be .* >= 0 and <= 0.5, got 0.6"),
        ({"flip_probability": -0.1}, r"flip_probability must be .* >= 0 and <= 0.5, got -0.1"),
        ({"flip_probability": np.nan}, r"flip_probability must be .* got nan"),
        ({"flip_probability": "0.1"}, r"flip_probability must be .* got '0.1'"),
        ({"noise_variance": 0.1}, "noise_variance is for units that are not binary.*Bernoulli"),
        ({"flip_probability": 0.1, "n_starts": 0}, "n_starts must be an integer >= 1, got 0"),
        ({"flip_probability": 0.1, "n_starts": 1.5}, "n_starts must be an integer >= 1, got 1.5"),
        ({"flip_probability": 0.1, "prior_mean": np.zeros(7)}, "prior_mean has 7 columns"),
        ({"flip_probability": 0.1, "prior_mean": 0.5}, "prior_mean must have 1 dimension, got 0"),
        ({"flip_probability": 0.1, "prior_mean": np.full(8, 1.5)}, r"prior_mean must .* \[0, 1\]"),
        ({"flip_probability": 0.1, "prior_mean": np.full(8, np.nan)}, "prior_mean contains NaN"),
    ],
)
def test_arguments(given, message):
    with pytest.raises(ValueError, match=message):
        machine(TAPRBM, 5, 8).denoise(binary_data(), **given)


@pytest.mark.parametrize(
    "given, message",
    [
        ({"flip_probability": 0.1}, "flip_probability is for binary visible units.*Gauss"),
        ({"noise_variance": -1.0}, "noise_variance must be a finite number >= 0, got -1.0"),
        ({"noise_variance": np.inf}, "noise_variance must be a finite number >= 0, got inf"),
        ({"noise_variance": np.nan}, "noise_variance must be a finite number >= 0, got nan"),
        ({"noise_variance": 0.1, "prior_mean": np.zeros(4)}, "prior_mean is for flip_probability"),
    ],
)
@pytest.mark.parametrize("kind", REAL)
def test_arguments_for_real_units(kind, given, message):
    with pytest.raises(ValueError, match=message):
        real_machine(kind).denoise(np.zeros((2, 4)), **given)


@pytest.mark.parametrize("wrong", [0.5, 2.0, -1.0])
@pytest.mark.parametrize("p", [0.0, 0.1])
def test_bits_other_than_0_and_1(wrong, p):
    Y = binary_data()
    Y[3, 2] = wrong
    with pytest.raises(ValueError, match=r"Y must be 0 or 1 .* binarize"):
        machine(TAPRBM, 5, 8).denoise(Y, flip_probability=p)


def test_data():
    rbm, Y = machine(TAPRBM, 5, 8), binary_data()
    with pytest.raises(ValueError, match="7 features, but TAPRBM is expecting 8"):
        rbm.denoise(Y[:, :7], flip_probability=0.1)
    for wrong in (np.nan, np.inf):
        Y[0, 0] = wrong
        with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
            rbm.denoise(Y, flip_probability=0.1)
        with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
            rbm.denoise(Y, flip_probability=0.0)
    with pytest.raises(ValueError, match="not fitted"):
        TAPRBM().denoise(binary_data(), flip_probability=0.1)


# -------------------------------------------------------------------- means of the data


@pytest.mark.parametrize("RBM", RBMS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_means_of_the_data_are_kept(RBM, dtype):
    """Of all rows that partial_fit saw, and of the last fit alone."""
    X = binary_data(dtype=dtype)
    rbm = small(RBM).fit(X)
    assert rbm.visible_means_.dtype == dtype
    assert_allclose(rbm.visible_means_, X.mean(axis=0), rtol=1e-6)
    for format in (sp.csr_array, sp.csc_array):
        assert_allclose(small(RBM).fit(format(X)).visible_means_, X.mean(axis=0), rtol=1e-6)
    rbm.partial_fit(X[:7])
    assert_allclose(rbm.visible_means_, np.concatenate([X, X[:7]]).mean(axis=0), rtol=1e-6)
    for warm in (False, True):
        rbm.set_params(warm_start=warm).fit(X[:50])
        assert_allclose(rbm.visible_means_, X[:50].mean(axis=0), rtol=1e-6)
    stream = small(RBM)
    for rows in (X[:5], X[5:35], X[35:36], X[36:]):
        stream.partial_fit(rows)
    assert_allclose(stream.visible_means_, X.mean(axis=0), rtol=1e-6)
    weighted = small(RBM).fit(X[:20], sample_weight=np.full(20, 3)).partial_fit(X[20:])
    learnt = np.concatenate([X[:20], X[:20], X])
    assert_allclose(weighted.visible_means_, learnt.mean(axis=0), rtol=1e-6)
    later = RBM.from_parameters(rbm, batch_size=10).partial_fit(X[:9])
    assert_allclose(later.visible_means_, X[:9].mean(axis=0), rtol=1e-6)


@pytest.mark.parametrize("RBM", RBMS)
def test_rows_of_an_epoch_that_did_not_end_are_not_in_the_means(RBM):
    def interrupted(progress):
        raise KeyboardInterrupt

    X = binary_data()
    rbm = small(RBM).partial_fit(X[:20]).set_params(schedule=interrupted)
    with pytest.raises(KeyboardInterrupt):
        rbm.partial_fit(X[20:50])
    assert_allclose(rbm.visible_means_, X[:20].mean(axis=0), rtol=1e-12)
    rbm.set_params(schedule="constant").partial_fit(X[50:])
    learnt = np.concatenate([X[:20], X[50:]])
    assert_allclose(rbm.visible_means_, learnt.mean(axis=0), rtol=1e-12)


def test_missing_values_are_for_impute():
    rbm = TAPRBM.from_parameters(np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"Y contains NaN.*impute fills"):
        rbm.denoise(np.array([[0, 1, np.nan]]), flip_probability=0.1)
