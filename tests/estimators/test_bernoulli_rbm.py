"""BernoulliRBM: a drop-in for scikit-learn's, right where that is wrong, and it learns.

Each test of the second part shows on scikit-learn's class what goes wrong there; should one of
its assertions about "theirs" fail, that defect has been mended there and the assertion can go.
"""

import inspect
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.neural_network as theirs
from _estimators import (
    all_rows,
    binary_data,
    conditional_means,
    divergence_from_noisy_patterns,
    independent_bits,
    log_likelihoods,
    machine,
    noisy_patterns,
    parameters,
    small,
)
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skrbm import BernoulliRBM
from skrbm.learning import MomentLearner

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


def test_same_features_from_the_same_parameters():
    X = binary_data()
    other = small(theirs.BernoulliRBM).fit(X)
    assert_allclose(BernoulliRBM.from_parameters(other).transform(X), other.transform(X))


def test_in_a_pipeline():
    """Accuracies over seeds are 0.87 to 0.89 for both classes; 0.8 is far below."""
    X, y = load_digits(return_X_y=True)
    X = X / 16
    rbm = BernoulliRBM(64, learning_rate=0.1, n_iter=20, random_state=0)
    pipeline = make_pipeline(rbm, LogisticRegression(C=10, max_iter=1000))
    assert pipeline.fit(X[:900], y[:900]).score(X[900:], y[900:]) > 0.8


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


def test_partial_fit_makes_batches_keeps_the_dtype_and_returns_self():
    """After 100 batches of 10 rows ours has learnt; theirs has made one step."""
    X = noisy_patterns(1000).astype(np.float32)
    params = {"n_components": 10, "batch_size": 10, "learning_rate": 0.1, "random_state": 0}
    rbm = BernoulliRBM(**params)
    assert rbm.partial_fit(X) is rbm
    assert rbm.components_.dtype == np.float32
    assert np.abs(rbm.components_).max() > 0.1

    other = theirs.BernoulliRBM(**params)
    returned = other.partial_fit(X[:10])
    assert returned is None or other.components_.dtype != np.float32, "theirs: None and float64"
    other.h_samples_ = np.zeros((1000, 10))  # or it fails on any number of rows but batch_size
    other.partial_fit(X)
    assert np.abs(other.components_).max() < 0.1, "theirs: one step, whatever the rows"


def test_rows_are_shuffled(monkeypatch):
    X = np.linspace(0, 1, 40)[:, None] * np.ones((1, 3))
    order, our_step, their_step = [], MomentLearner.step, theirs.BernoulliRBM._fit

    def step(self, training, index, rate):
        order.append(self.rows[index][:, 0])
        return our_step(self, training, index, rate)

    monkeypatch.setattr(MomentLearner, "step", step)
    small(BernoulliRBM).fit(X)
    epochs = {tuple(epoch) for epoch in np.concatenate(order).reshape(3, 40)}
    assert len(epochs) == 3 and tuple(X[:, 0]) not in epochs

    order.clear()
    monkeypatch.setattr(
        theirs.BernoulliRBM,
        "_fit",
        lambda self, V, rng: (order.append(V[:, 0].copy()), their_step(self, V, rng))[1],
    )
    small(theirs.BernoulliRBM).fit(X)
    epochs = {tuple(epoch) for epoch in np.concatenate(order).reshape(3, 40)}
    assert epochs == {tuple(X[:, 0])}, "theirs: the same order in each epoch"


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("k", [1, 3])
def test_number_of_gibbs_steps_is_free(k, persistent, monkeypatch):
    """The visible units are drawn k times for each batch, and once for the first chains."""
    from skrbm.units import Bernoulli

    widths, original = [], Bernoulli.sample

    def sample(self, theta, rng):
        widths.append(theta.field.shape[-1])
        return original(self, theta, rng)

    monkeypatch.setattr(Bernoulli, "sample", sample)
    params = {"n_gibbs_steps": k, "persistent": persistent, "n_iter": 2}
    small(BernoulliRBM, **params).fit(binary_data(n=30))
    assert widths.count(8) == 1 + 6 * k
    assert "n_gibbs_steps" not in theirs.BernoulliRBM().get_params(), "theirs: always 1"


def test_what_they_do_not_have():
    rbm = small(BernoulliRBM).fit(binary_data())
    other = small(theirs.BernoulliRBM).fit(binary_data())
    for name in ("score", "sample", "inverse_transform", "n_iter_", "predict", "history_"):
        assert hasattr(rbm, name)
        assert not hasattr(other, name), "theirs: none"


def test_scores_are_likelihoods_and_deterministic():
    X = all_rows(4)
    rbm = machine(BernoulliRBM)
    assert_array_equal(rbm.score_samples(X), rbm.score_samples(X))
    assert_allclose(rbm.score_samples(X), log_likelihoods(rbm, X), rtol=1e-12)
    assert_allclose(np.exp(rbm.score_samples(X)).sum(), 1, rtol=1e-12)

    # With a seed theirs flips the same bits in each call, of a row by its place among the others.
    other = theirs.BernoulliRBM(n_components=3).fit(X)
    other.components_, other.intercept_hidden_, other.intercept_visible_ = parameters(rbm)
    other.set_params(random_state=np.random.RandomState(0))  # a stream that moves on
    assert not np.array_equal(other.score_samples(X), other.score_samples(X)), "theirs: random"
    assert not np.isclose(np.exp(other.score_samples(X)).sum(), 1, rtol=0.1), "theirs: no law"


def test_gibbs_validates_and_keeps_the_fitted_state():
    X = binary_data()
    rbm, other = small(BernoulliRBM).fit(X), small(theirs.BernoulliRBM).fit(X)
    before, theirs_before = pickle.dumps(rbm), pickle.dumps(other)
    missing = np.full((2, 8), np.nan)
    with pytest.raises(ValueError, match="contains NaN"):
        rbm.gibbs(missing)
    with pytest.raises(ValueError, match="7 features"):
        rbm.gibbs(np.zeros((2, 7)))
    rbm.gibbs(X.tolist())
    assert pickle.dumps(rbm) == before

    assert other.gibbs(missing).shape == (2, 8), "theirs: takes NaN"
    assert pickle.dumps(other) != theirs_before, "theirs: keeps what it drew from"


def counts(n=300, n_columns=20_000, seed=0):
    """Sparse counts of words of Zipf's law in texts of five topics, about 300 words in each."""
    generator = np.random.default_rng(seed)
    rate = 1 / np.arange(1, n_columns + 1)
    topics = 300 * rate / rate.sum() * generator.gamma(0.3, 1 / 0.3, (5, n_columns))
    topic = generator.integers(5, size=n)
    rows = [sp.csr_array(generator.poisson(topics[t])[None].astype(float)) for t in topic]
    return sp.csr_array(sp.vstack(rows)), topic


def share_explained(H, topic):
    """Part of the variance of H that lies between the topics."""
    centres = np.array([H[topic == t].mean(axis=0) for t in range(5)])[topic]
    return centres.var(axis=0).sum() / max(H.var(axis=0).sum(), 1e-12)


def test_presence_of_many_words_does_not_saturate():
    X, topic = counts()
    params = {"n_components": 10, "n_iter": 3, "random_state": 0}
    H = BernoulliRBM(**params, binarize=0).fit(X).transform(X)
    assert H.std(axis=0).mean() > 0.1
    assert share_explained(H, topic) > 0.5

    H = theirs.BernoulliRBM(**params).fit(X.minimum(1)).transform(X.minimum(1))
    assert H.std(axis=0).mean() < 0.1, "theirs: the same features for every text"


@pytest.mark.filterwarnings("ignore::skrbm.exceptions.DataRangeWarning")
def test_counts_of_many_words_do_not_saturate():
    X, topic = counts()
    params = {"n_components": 10, "n_iter": 3, "random_state": 0}
    H = theirs.BernoulliRBM(**params).fit(X).transform(X)
    assert_array_equal(H, 1), "theirs: a matrix of ones"
    H = BernoulliRBM(**params).fit(X).transform(X)
    assert H.std(axis=0).mean() > 0.1
    assert share_explained(H, topic) > 0.5


# ------------------------------------------------------------------------ learning


@pytest.mark.parametrize(("n_features", "deviation"), [(8, 0.1), (256, 0.05)])
def test_first_weights_tell_hidden_units_apart(n_features, deviation):
    """The mean square of normal weights is outside these bounds with probability 1e-9."""
    X = binary_data(20, n_features)
    W = small(BernoulliRBM, n_components=500, n_iter=0).fit(X).components_
    low, high = stats.chi2(W.size).ppf([5e-10, 1 - 5e-10]) / W.size
    assert low < np.mean(W**2) / deviation**2 < high


def test_first_biases_are_those_of_independent_units():
    X = binary_data()
    rbm = small(BernoulliRBM, n_iter=0).fit(X)
    means = (X.sum(axis=0) + 0.5) / (len(X) + 1)
    assert_allclose(rbm.intercept_visible_, np.log(means / (1 - means)), rtol=1e-5)
    assert_array_equal(rbm.intercept_hidden_, 0)


@pytest.mark.law
@pytest.mark.parametrize(
    "params, bound",
    [
        ({"persistent": True}, 0.45),
        ({"persistent": False}, 0.6),
        ({"persistent": False, "n_gibbs_steps": 5}, 0.45),
        ({"persistent": True, "momentum": 0.5, "learning_rate": 0.1}, 0.45),
    ],
)
def test_learns_a_known_law(params, bound):
    """Exact divergences in nats: bounds are about twice what several seeds reach."""
    X = noisy_patterns(2000)
    params = {"learning_rate": 0.2, "schedule": "linear", "n_iter": 40, "batch_size": 50, **params}
    rbm = BernoulliRBM(n_components=8, random_state=0, **params).fit(X)
    assert divergence_from_noisy_patterns(rbm.score_samples) < bound
    assert divergence_from_noisy_patterns(independent_bits) > 3.9


def test_contrastive_divergence_starts_at_the_data():
    """With couplings of 0 and k = 1, hidden units know their data: W moves by data covariances."""
    X = noisy_patterns(400)
    persistent, reset = (
        BernoulliRBM(4, n_iter=3, batch_size=20, persistent=p, random_state=0).fit(X)
        for p in (True, False)
    )
    assert persistent.starts_.shape == reset.starts_.shape == (20, 12)
    assert not np.array_equal(persistent.components_, reset.components_)


@pytest.mark.parametrize(
    "momentum, alpha, penalty", [(0.8, 0.0, "l2"), (0, 0.1, "l2"), (0, 0.1, "l1")]
)
def test_momentum_and_penalties(momentum, alpha, penalty):
    """Units held on by biases of 100 make three steps that can be written down."""
    X, rate = binary_data(n=10), 0.3
    W = 0.1 * np.random.default_rng(0).standard_normal((5, 8))
    params = {"momentum": momentum, "alpha": alpha, "penalty": penalty, "learning_rate": rate}
    rbm = BernoulliRBM.from_parameters(
        W, np.full(5, 100.0), np.full(8, 100.0), batch_size=10, random_state=0, **params
    )
    gradient = np.tile(X.mean(axis=0) - 1, (5, 1))
    velocity, bias, bias_velocity = 0.0, 100.0, 0.0
    for _ in range(3):
        rbm.partial_fit(X)
        slope = W if penalty == "l2" else 0.0
        velocity = momentum * velocity + rate * (gradient - alpha * slope)
        W = W + velocity
        if penalty == "l1":
            W = np.sign(W) * np.maximum(np.abs(W) - rate * alpha, 0)
        bias_velocity = momentum * bias_velocity + rate * gradient[0]
        bias = bias + bias_velocity
        assert_allclose(rbm.components_, W, rtol=1e-10)
        assert_allclose(rbm.intercept_visible_, bias, rtol=1e-10)


def test_penalties_shrink_weights():
    """The penalties used are so strong that the norms differ by factors, not by noise."""
    X = noisy_patterns(500)

    def weights(**params):
        params = {"learning_rate": 0.1, "n_iter": 20, "random_state": 0, **params}
        return np.abs(BernoulliRBM(n_components=8, **params).fit(X).components_)

    free, l2, l1 = weights(), weights(alpha=0.03), weights(alpha=0.04, penalty="l1")
    assert np.linalg.norm(l2) < 0.7 * np.linalg.norm(free)
    assert np.linalg.norm(l1) < 0.7 * np.linalg.norm(free)
    assert np.mean(l1 == 0) > 0.1 and (l2 != 0).all()


def test_impute_averages_over_hidden_units():
    """Two patterns that differ in all bits: one observed bit tells the others.

    Over 200 rows the standard error is 0.006; 0.05 is 8 of them.
    """
    rbm = BernoulliRBM.from_parameters([[6.0, 6, -6, -6]], [0.0], [-3.0, -3, 3, 3])
    for bit in (0.0, 1.0):
        x = np.array([bit, np.nan, np.nan, np.nan])
        filled = rbm.impute(np.tile(x, (200, 1)), random_state=0)
        assert_allclose(filled.mean(axis=0), conditional_means(rbm, x), atol=0.05)
    with pytest.raises(ValueError, match="n_steps must be an integer >= 1, got 0"):
        rbm.impute([[1, 0, np.nan, 1]], n_steps=0)
