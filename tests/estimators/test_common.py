"""What estimators of one hidden layer keep to: likelihoods, features, samples and parameters.

Random tests have fixed seeds; the level at which a right program would fail is given with each.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from _estimators import (
    BINARY,
    RBMS,
    all_rows,
    binary_data,
    hidden_means,
    log_likelihoods,
    machine,
    parameters,
    small,
    visible_means,
)
from _exact import Exact, free_energy, log_likelihood
from _fractional import row_numbers
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from skrbm import RBM, ConditionalRBM, DeepTAPMachine, GaussianBernoulliRBM
from skrbm.inference import AIS, TAP

every = pytest.mark.parametrize("RBM", RBMS)
binary = pytest.mark.parametrize("RBM", BINARY)
LEVEL = 1e-6


# -------------------------------------------------------------------- likelihoods


@binary
@pytest.mark.parametrize("dtype, rtol", [(np.float64, 1e-12), (np.float32, 1e-5)])
def test_likelihood_is_that_of_enumeration(RBM, dtype, rtol):
    rbm, X = machine(RBM, 3, 5, dtype=dtype), all_rows(5)
    # The oracle reads the same rounded parameters and sums them in float64.
    assert_allclose(rbm.score_samples(X), log_likelihood(rbm.machine_, X), rtol=rtol)
    assert_allclose(rbm.free_energy(X), free_energy(rbm.machine_, X), rtol=rtol)
    assert_allclose(rbm.log_partition(), Exact(rbm.machine_).log_z, rtol=rtol)
    assert_allclose(np.exp(rbm.score_samples(X)).sum(), 1, rtol=rtol)


@every
@pytest.mark.parametrize("n_features", [8, 24])
def test_scores_depend_on_their_row_alone(RBM, n_features):
    """With 24 features and hidden units no layer is summed exactly, which needs starts or seeds."""
    X = binary_data(n_features=n_features)
    rbm = small(RBM, n_components=n_features).fit(X)
    scores = rbm.score_samples(X)
    assert_array_equal(rbm.score_samples(X), scores)
    # A row alone may go through another BLAS routine, which sums in another order.
    assert_allclose(rbm.score_samples(X[7:8]), scores[7:8], rtol=1e-10)
    assert_allclose(rbm.score_samples(X[::-1]), scores[::-1], rtol=1e-10)
    fresh = small(RBM, n_components=n_features).fit(X)
    assert_allclose(fresh.score_samples(1 - X[:3]), rbm.score_samples(1 - X[:3]), rtol=1e-10)


def exact_log_z(rbm):
    """By enumeration, of the energy that the estimator documents."""
    value = Exact(rbm.machine_).log_z
    if hasattr(rbm, "variances_"):  # (v - mean)**2, where the machine has no mean**2
        value -= (rbm.intercept_visible_**2 / (2 * rbm.variances_)).sum()
    return value


@every
def test_log_partition_belongs_to_the_parameters(RBM, monkeypatch):
    from skrbm import evaluation

    calls, original = [], evaluation.log_partition

    def counted(*args, **kwargs):
        calls.append(args)
        return original(*args, **kwargs)

    monkeypatch.setattr(evaluation, "log_partition", counted)
    rbm = small(RBM, random_state=20261).fit(binary_data())
    assert not calls  # fit itself does not need it
    first = rbm.log_partition()
    assert rbm.log_partition() == first and len(calls) == 1
    rbm.log_partition("ais")
    rbm.score_samples(binary_data())
    assert len(calls) == 2
    rbm.components_ = rbm.components_ + 0.5
    assert rbm.log_partition() == pytest.approx(exact_log_z(rbm), rel=1e-10)
    rbm.intercept_hidden_[:] += 1  # in place
    assert rbm.log_partition() == pytest.approx(exact_log_z(rbm), rel=1e-10)
    rbm.partial_fit(binary_data())
    assert rbm.log_partition() == pytest.approx(exact_log_z(rbm), rel=1e-10)
    assert len(calls) == 5


@binary
def test_log_partition_methods(RBM):
    """AIS within 6 standard errors: a probability of 2e-9, were it normal."""
    rbm = machine(RBM, 4, 5)
    exact = Exact(rbm.machine_).log_z
    assert rbm.log_partition("exact", return_std=True) == (pytest.approx(exact), 0.0)
    assert rbm.log_partition(return_std=True) == (pytest.approx(exact), 0.0)
    value, std = rbm.log_partition("ais", return_std=True)
    assert 0 < std < 0.1
    assert abs(value - exact) < 6 * std
    value, std = rbm.log_partition(AIS(n_chains=500), return_std=True)
    assert abs(value - exact) < 6 * std < 0.2
    for method in ("tap", "tap3", "naive_mean_field", TAP(damping=0.5)):
        value, std = rbm.log_partition(method, return_std=True)
        assert np.isnan(std)
        assert abs(value - exact) < 0.5
    assert rbm.log_partition("tap") == pytest.approx(rbm.log_partition(TAP(damping=0.5)), abs=1e-4)


# ---------------------------------------------------------- transform and its kin


@binary
def test_transform_and_back_and_the_most_probable_values(RBM):
    rbm, X = machine(RBM, strength=2.0), all_rows(4)
    H, V = rbm.transform(X), rbm.predict(X)
    assert_allclose(H, hidden_means(rbm, X), rtol=1e-12)
    assert_allclose(rbm.inverse_transform(H), visible_means(rbm, H), rtol=1e-12)
    # v given h factorises: the mode is what is more probable than not.
    assert_array_equal(V, visible_means(rbm, H) > 0.5)
    assert 0 < V.mean() < 1


# ------------------------------------------------------------------------ sampling


@binary
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sample_has_the_law_of_the_machine(RBM, dtype):
    """Independent chains; 100 steps on weights of order 1 leave no trace of the start."""
    rbm = machine(RBM, dtype=dtype)
    V = rbm.sample(20_000, random_state=0)
    assert V.shape == (20_000, 4) and set(np.unique(V)) == {0, 1}
    counts = np.bincount(row_numbers(V), minlength=16)
    expected = np.exp(log_likelihoods(rbm, all_rows(4)))
    assert stats.chisquare(counts, counts.sum() * expected).pvalue > LEVEL


@binary
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gibbs_has_the_law_of_one_sweep(RBM, dtype):
    rbm = machine(RBM, 2, 3, dtype=dtype)
    x, n = np.array([1.0, 0.0, 1.0]), 20_000
    H, V = all_rows(2), all_rows(3)
    up = hidden_means(rbm, x)
    p_h = np.prod(np.where(H, up, 1 - up), axis=1)
    down = visible_means(rbm, H)[:, None, :]
    p_v = p_h @ np.prod(np.where(V[None], down, 1 - down), axis=2)
    counts = np.bincount(row_numbers(rbm.gibbs(np.tile(x, (n, 1)), random_state=0)), minlength=8)
    assert stats.chisquare(counts, n * p_v).pvalue > LEVEL


@every
def test_sample_starts_at_init(RBM):
    X = binary_data(n=20)
    rbm = small(RBM).fit(X)
    # Real units may be standardised, and come back.
    assert_allclose(rbm.sample(20, init=X, n_steps=0), X, rtol=0, atol=1e-15)
    assert_allclose(rbm.sample(20, init=sp.csr_array(X), n_steps=0), X, rtol=0, atol=1e-15)


# ---------------------------------------------------------------------- imputation


# ------------------------------------------------------- parameters from elsewhere


@binary
def test_from_parameters(RBM):
    W, c, b = np.arange(6.0).reshape(2, 3), np.array([1.0, 2]), np.array([3.0, 4, 5])
    rbm = RBM.from_parameters(W, c, b, random_state=0, batch_size=7)
    assert (rbm.n_components, rbm.n_features_in_, rbm.n_iter_, rbm.batch_size) == (2, 3, 0, 7)
    for given, kept in zip((W, c, b), parameters(rbm), strict=True):
        assert_array_equal(given, kept)
    W += 1
    assert rbm.components_[0, 0] == 0  # a copy
    X = all_rows(3)
    assert_allclose(rbm.score_samples(X), log_likelihoods(rbm, X), rtol=1e-12)
    assert rbm.sample(2).shape == (2, 3)
    rbm.partial_fit(X)
    assert rbm.n_iter_ == 1
    bare = RBM.from_parameters(W.T.tolist())  # of three rows, which are no three parameters
    assert_array_equal(bare.components_, W.T)
    assert not bare.intercept_hidden_.any() and not bare.intercept_visible_.any()
    assert RBM.from_parameters(W.astype(np.float32)).transform(X).dtype == np.float32


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((np.zeros(3),), "components"),
        ((np.full((2, 3), np.nan),), "components"),
        ((np.zeros((2, 3)), np.zeros(3)), "intercept_hidden"),
        ((np.zeros((2, 3)), None, np.zeros(2)), "intercept_visible"),
        ((RBM(),), "not fitted"),
    ],
)
def test_bad_parameters(arguments, message):
    with pytest.raises(ValueError, match=message):
        RBM.from_parameters(*arguments)


def test_parameters_are_those_of_one_hidden_layer_without_features():
    X = binary_data()
    deep = DeepTAPMachine((3, 2), n_iter_pretrain=1, n_iter=1).fit(X)
    given_features = ConditionalRBM(2, n_iter=1).fit(X, X.astype(int))  # biases depend on them
    for source in (deep, given_features):
        with pytest.raises(ValueError, match="not an RBM"):
            RBM.from_parameters(source)
        with pytest.raises(ValueError, match="not an RBM"):
            RBM(2, init=source).fit(X)


@every
def test_init(RBM):
    X = binary_data()
    first = small(RBM).fit(X)
    theirs = pytest.importorskip("sklearn.neural_network").BernoulliRBM(5, n_iter=1).fit(X)
    own = (first.components_, first.intercept_hidden_, first.intercept_visible_)
    starts = [(own, first), (list(own), first), (theirs, theirs)]
    # It has other parameters than fields and weights, and starts from fitted machines alone.
    starts = [(first, first)] + ([] if RBM is GaussianBernoulliRBM else starts)
    for init, source in starts:
        rbm = small(RBM, n_iter=0, init=init).fit(X)
        for one, other in zip(parameters(rbm), parameters(source), strict=True):
            # Real units may be standardised, and come back.
            assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    before = parameters(first)
    for init, _ in starts:
        small(RBM, init=init).fit(X)
    for one, other in zip(parameters(first), before, strict=True):
        assert_array_equal(one, other)


@pytest.mark.parametrize(
    "init",
    [
        (np.zeros((5, 7)), np.zeros(5), np.zeros(7)),
        (np.zeros((4, 8)), np.zeros(4), np.zeros(8)),
        (np.zeros((5, 8)), np.zeros(5)),
        "zeros",
        small(RBM),
    ],
    ids=["features", "hidden", "two", "text", "unfitted"],
)
def test_bad_init(init):
    with pytest.raises(ValueError, match=r"init|hidden|fitted"):
        small(RBM, init=init).fit(binary_data())
