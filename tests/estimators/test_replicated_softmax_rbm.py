"""The replicated softmax: learning, likelihoods by length, samples, topics of documents.

Random tests use fixed seeds and a level of 1e-6 for each test.
"""

import tracemalloc
import warnings
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from _estimators import build
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, gammaln, logit, logsumexp
from sklearn.exceptions import ConvergenceWarning

from skrbm import ReplicatedSoftmaxRBM
from skrbm.evaluation import diagnose, log_partition
from skrbm.learning import CountParameters, MachineGradient
from skrbm.machine import Machine
from skrbm.units import Bernoulli, Multinomial, Theta


def topics(n=300, n_words=12, seed=0):
    """Documents of which each has words of the first half, of the second half, or of both."""
    generator = np.random.default_rng(seed)
    halves = np.kron(np.eye(2), np.ones(n_words // 2)) + 0.02
    shares = np.array([[1, 0], [0, 1], [0.5, 0.5]])[generator.integers(3, size=n)]
    p = shares @ halves
    lengths = generator.integers(1, 30, n)
    return np.array(
        [generator.multinomial(d, q / q.sum()) for d, q in zip(lengths, p, strict=True)]
    )


def all_counts(length, n_words):
    """All rows of counts with a sum."""
    return np.array([r for r in product(range(length + 1), repeat=n_words) if sum(r) == length])


def small(**params):
    sizes = {"n_components": 4, "n_iter": 30, "random_state": 0}
    return build(ReplicatedSoftmaxRBM, **{**sizes, **params})


@pytest.fixture(scope="module")
def fitted():
    return small().fit(topics())


def random_machine(seed=0, n_components=3, n_words=4):
    generator = np.random.default_rng(seed)
    W, c = (
        generator.standard_normal((n_components, n_words)),
        generator.standard_normal(n_components),
    )
    return ReplicatedSoftmaxRBM.from_parameters(
        W, 0.3 * c, generator.standard_normal(n_words), length=6, random_state=0
    )


# ---------------------------------------------------------------------------- parameters


def test_parameters_are_the_published_ones():
    rbm, X = random_machine(), np.array([[2.0, 0, 1, 0], [0, 0, 0, 0], [1, 3, 2, 7]])
    assert_allclose(rbm.components_.sum(axis=1), 0, atol=1e-12)
    D = X.sum(axis=1, keepdims=True)
    field = X @ rbm.components_.T + D * rbm.intercept_hidden_
    assert_allclose(rbm.transform(X), expit(field))
    energy = -X @ rbm.intercept_visible_ - np.logaddexp(0, field).sum(axis=1)
    assert_allclose(rbm.free_energy(X), energy)
    H = np.array([[1.0, 0, 1]])
    logits = H @ rbm.components_ + rbm.intercept_visible_
    assert_allclose(rbm.inverse_transform(H), np.exp(logits - logsumexp(logits)))
    again = ReplicatedSoftmaxRBM.from_parameters(rbm, random_state=0)
    assert_allclose(again.transform(X), rbm.transform(X))
    assert (again.starts_.sum(axis=1) == 100).all()


@pytest.mark.parametrize("length", [1, 2, 5])
def test_likelihoods_sum_to_one_for_each_length(length):
    rbm, X = random_machine(), all_counts(length, 4)
    orders = gammaln(length + 1) - gammaln(X + 1).sum(axis=1)
    assert_allclose(logsumexp(rbm.score_samples(X) + orders), 0, atol=1e-10)


def test_likelihood_beside_other_estimates_of_log_z(fitted):
    for length in (3, 17):
        found = log_partition(fitted.density(length), "ais", random_state=0)
        assert abs(found.value - fitted.log_partitions(length)) < 6 * found.std
    for call in (lambda: log_partition(fitted), lambda: diagnose(fitted, fitted.starts_)):
        with pytest.raises(ValueError, match=r"number of draws.*density\(length\)"):
            call()


def test_a_score_does_not_depend_on_other_rows():
    X = topics(100)
    rbm = small(n_components=14, n_iter=3).fit(X)  # too many hidden units for a sum over them
    some = rbm.score_samples(X[:5])
    assert_allclose(rbm.score_samples(np.vstack([X[:5], 40 * X[50:]]))[:5], some, rtol=1e-12)
    values, std = rbm.log_partitions([0, 1, 20], return_std=True)
    assert values[0] == pytest.approx(14 * np.log(2)) and (std[:2] < 1e-12).all() and std[2] > 0


def test_perplexity(fitted):
    X = np.vstack([topics(50, seed=1), np.zeros((2, 12))])
    scores, lengths = fitted.score_samples(X), X.sum(axis=1)
    assert_array_equal(scores[-2:], [0, 0])
    assert fitted.perplexity(X) == pytest.approx(np.exp(-scores.sum() / lengths.sum()))
    known = lengths > 0
    mean = (scores[known] / lengths[known]).mean()
    assert fitted.perplexity(X, average="documents") == pytest.approx(np.exp(-mean))
    for wrong, message in ((np.zeros((2, 12)), "no words"), (-X, "Negative values")):
        with pytest.raises(ValueError, match=message):
            fitted.perplexity(wrong)
    with pytest.raises(ValueError, match="average must be"):
        fitted.perplexity(X, average="topics")


# ------------------------------------------------------------------------------ learning


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"inference": "cd"},
        {"optimizer": "adam", "n_iter": 100},  # its automatic rates are smaller
        {"learning_rate": 0.2},
        {"learning_rate": 0.05, "centered": False, "average": False, "momentum": 0.5},
    ],
)
def test_topics_are_learnt(params):
    """New documents have far fewer words to choose from than without topics."""
    X, new = topics(600), topics(400, seed=1)
    p = (X.sum(axis=0) + 1) / (X.sum() + 12)
    alone = np.exp(-(new @ np.log(p)).sum() / new.sum())
    rbm = small(**params).fit(X)
    assert rbm.perplexity(new) < 0.85 * alone


def test_steps_do_not_overshoot_with_few_words():
    """No epoch makes the model worse than independent words."""
    X = topics(500, n_words=8)
    alone = np.mean(X @ np.log(X.sum(axis=0) / X.sum()))
    rbm = small()
    assert min(rbm.partial_fit(X).score(X) - alone for _ in range(15)) > -0.5


@pytest.mark.parametrize("n_components", [4, 14])  # by an exact log Z, and by an estimate
def test_a_fit_that_is_worse_than_independent_words_warns(n_components):
    """Far from the bound of the warning, 0.1 nats worse, in both cases.

    Over 50 seeds of the fit, 20 epochs gain 3.3 nats with 4 hidden units and 3.5 with 14, with
    standard deviations of 0.06. The logarithms of the losses by large steps, of 200 and 450 nats,
    have standard deviations of 0.35. No seed, of 50 with these rows and 65 with others, differed.
    """
    X = topics(300)
    with pytest.warns(ConvergenceWarning, match="lower learning_rate"):
        small(n_components=n_components, learning_rate=5.0, n_iter=5).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        small(n_components=n_components, n_iter=20).fit(X)


@pytest.mark.parametrize("n_components", [4, 14])  # by an exact log Z, and by an estimate
def test_history_ends_with_the_likelihood(n_components, capsys):
    X = topics(200)
    rbm = small(n_components=n_components, n_iter=5, verbose=1).fit(X)
    # The estimates differ by 0.014 nats (standard deviation over 15 seeds): 0.1 is 7 of them.
    tolerance = {"rtol": 1e-9} if n_components == 4 else {"atol": 0.1}
    assert_allclose(rbm.history_["log_likelihood"][-1], rbm.score(X), **tolerance)
    assert "log likelihood" in capsys.readouterr().out


@pytest.mark.parametrize("sparsity", [0.0, 2.0])
def test_centred_gradient_is_the_chain_rule(sparsity):
    """By finite differences of any linear function of weights and visible fields.

    Biases move the logits of means, whose cross-entropy with 0.1 is what makes units sparse.
    """
    generator, h = np.random.default_rng(0), 1e-6
    W, G = generator.standard_normal((2, 3, 4))
    b, g = generator.standard_normal((2, 4))
    machine = Machine((Multinomial(), Bernoulli()), (Theta(b), Theta(np.zeros(3))), (W,))
    counts, hidden = np.array([3.0, 1, 2, 4]), np.array([0.2, 0.5, 0.9])
    p, total = counts / counts.sum(), counts.sum()

    class Given(MachineGradient):
        def __init__(self):
            self.n_penalised = 1

        def arrays(self, parameters):
            return G, g

    centered = CountParameters(sparsity).centered(Given(), machine, (counts, hidden))
    dW = centered.arrays(None)[0]

    def moved(U, c, f):
        """Weights and fields of couplings U, biases c and fields f about the means."""
        return U + (c / total - U @ p)[:, None], f - hidden @ U

    U = W - W @ np.ones(4)[:, None] / 4
    c, f = np.zeros(3), generator.standard_normal(4)

    def value(U, c, f):
        weights, fields = moved(U, c, f)
        m = expit(logit(hidden) + c)
        entropy = -(0.1 * np.log(m) + 0.9 * np.log(1 - m)).sum()
        return (G * weights).sum() + g @ fields - sparsity * entropy

    slope_U = np.array(
        [
            [(value(U + h * e, c, f) - value(U - h * e, c, f)) / (2 * h) for e in row]
            for row in np.eye(12).reshape(3, 4, 3, 4)
        ]
    )
    slope_c = np.array(
        [(value(U, c + h * e, f) - value(U, c - h * e, f)) / (2 * h) for e in np.eye(3)]
    )
    expected = moved(U + slope_U, c + slope_c, f + g)
    before = moved(U, c, f)
    assert_allclose(dW, expected[0] - before[0], atol=1e-6)
    # Fields follow the weights, but for what is the same for all words.
    old, parameters = centered.mean_fields((W, b)), (W.copy(), b.copy())
    for part, step in zip(parameters, centered.arrays(None), strict=True):
        part += 0.1 * step
    centered.follow(parameters, old)
    assert np.ptp(parameters[1] - b - 0.1 * (expected[1] - before[1])) < 1e-6


@pytest.mark.law
def test_sparse_counts_are_never_dense_as_a_whole():
    X = sp.random_array((4000, 3000), density=0.002, format="csr", rng=np.random.default_rng(0))
    X.data = np.ceil(9 * X.data)
    tracemalloc.start()
    rbm = ReplicatedSoftmaxRBM(5, n_iter=1, batch_size=50, random_state=0).fit(X)
    rbm.perplexity(X)
    rbm.transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.4 * 8 * 4000 * 3000


# ------------------------------------------------------------------------------- samples


def test_samples_have_the_lengths_and_the_distribution():
    rbm, n = random_machine(), 4000
    found = rbm.sample(n, lengths=3, n_steps=40, random_state=0)
    X = all_counts(3, 4)
    p = np.exp(rbm.score_samples(X) + gammaln(4) - gammaln(X + 1).sum(axis=1))
    mean, variance = p @ X, p @ X**2 - (p @ X) ** 2
    assert (found.sum(axis=1) == 3).all()
    assert (np.abs(found.mean(axis=0) - mean) < 5.2 * np.sqrt(variance / n)).all()


def test_top_words_are_those_that_a_unit_makes_more_probable():
    """By the joint probabilities of all documents of two words and of hidden units."""
    rbm, words = random_machine(n_words=6), np.array([f"word{i}" for i in range(6)])
    X, H = all_counts(2, 6), np.vstack([np.zeros(3), np.eye(3)])
    W, c, b = rbm.components_, rbm.intercept_hidden_, rbm.intercept_visible_
    joint = np.exp((X @ W.T + 2 * c) @ H.T + (X @ b - gammaln(X + 1).sum(axis=1))[:, None])
    off, *on = (joint / joint.sum(axis=0)).T @ X / 2
    order = np.argsort(off - on, axis=1)[:, :3]
    assert_array_equal(rbm.top_words(words, 3), words[order])
    places = {word: i for i, word in reversed([*enumerate(words)])}
    assert_array_equal(rbm.top_words(places, 3), words[order])
    with pytest.raises(ValueError, match="vocabulary"):
        rbm.top_words(words[:5])


def test_sparse_units_are_the_topics_of_documents():
    """Words of the unit that is nearest to a topic, of five topics with 8 words of their own.

    In 25 seeds 0.99 of them belong to the topic, with a standard deviation of 0.02; without
    sparsity 0.89 and 0.08.
    """
    generator, n_topics = np.random.default_rng(0), 5
    words = np.repeat(np.arange(n_topics), 8)
    shares = generator.dirichlet(np.full(n_topics, 0.2), 400)
    p = 0.9 * shares[:, words] / 8 + 0.1 / len(words)
    X = np.array([generator.multinomial(40, row) for row in p])
    rbm = small(n_components=8, sparsity=1.0, n_iter=60).fit(X)
    found = rbm.top_words(words, 8)[:, :, None] == np.arange(n_topics)
    assert found.mean(axis=1).max(axis=0).mean() > 0.87
    assert rbm.transform(X).mean() < 0.3


def test_large_vocabularies():
    """Chains of documents of different lengths start in blocks of rows above 2**21 counts."""
    generator, shape = np.random.default_rng(0), (100, 30_000)
    places = tuple(generator.integers(n, size=5000) for n in shape)
    X = sp.csr_matrix((np.ones(5000), places), shape=shape)
    rbm = ReplicatedSoftmaxRBM(2, n_iter=1, random_state=0).fit(X)
    assert np.isfinite(rbm.components_).all()
