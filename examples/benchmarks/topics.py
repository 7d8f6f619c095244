"""Topics of documents: the replicated softmax beside latent Dirichlet allocation.

    python examples/benchmarks/topics.py mixture [--seeds 3] [--epochs 40] [--train 11314]
    python examples/benchmarks/topics.py correlated
    python examples/benchmarks/topics.py docstrings [--train 8000]

mixture: documents of the size of 20 newsgroups (11 314 for training, 2 000 words, lengths with a
logarithmic normal distribution) by latent Dirichlet allocation itself with 50 topics, of whose
words one in ten comes from the whole vocabulary instead. correlated: the same with topics whose
logarithmic shares are normal and correlated. docstrings: the docstrings of Python's library, NumPy,
SciPy and scikit-learn as they are installed, at least ten words each.

Both methods have 50 topics or hidden units. ReplicatedSoftmaxRBM has its default settings;
scikit-learn's LatentDirichletAllocation learns online, with batches of 128 and 1024 documents, and
goes through the documents until it has had at least as much processor time. Printed are mean and
standard deviation over seeds (of data and methods) of the perplexity per word of held-out
documents:

completion: half of the words of each document are given, drawn at random, and the others are
scored by the probability of one more word. That is the same for both methods.

whole: the likelihood of 200 whole documents, given their lengths, averaged over words, and over
documents. log Z of the machine is by ReplicatedSoftmaxRBM.log_partitions; log p(document) of the
topics by annealed importance sampling with 200 temperatures and 10 chains (Wallach et al. 2009).
"""

import argparse
import ast
import sys
import sysconfig
import time
import tracemalloc
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from _common import heading, progress, table
from scipy.special import logsumexp
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.feature_extraction.text import CountVectorizer
from threadpoolctl import threadpool_limits

from skrbm import ReplicatedSoftmaxRBM

N_TOPICS, N_WORDS, N_TEST, N_WHOLE = 50, 2000, 2000, 200


def generated(kind, n, generator):
    """Return counts of ``n`` documents, a sparse array."""
    base = 1 / (np.arange(N_WORDS) + 10.0)
    base /= base.sum()
    topics = generator.dirichlet(0.05 * N_WORDS * base + 1e-3, N_TOPICS)
    if kind == "mixture":
        shares = generator.dirichlet(np.full(N_TOPICS, 0.1), n)
    else:
        factors = 1.2 * generator.standard_normal((5, N_TOPICS))
        logits = generator.standard_normal((n, 5)) @ factors
        logits += 0.7 * generator.standard_normal((n, N_TOPICS))
        shares = np.exp(logits - logsumexp(logits, axis=1, keepdims=True))
    lengths = np.rint(np.exp(generator.normal(4.2, 0.9, n))).clip(3, 3000).astype(int)
    rows = []
    for length, share in zip(lengths, shares, strict=True):
        p = 0.9 * share @ topics + 0.1 * base
        rows.append(sp.csr_array(generator.multinomial(length, p / p.sum())[None]))
    return sp.vstack(rows, format="csr")


def docstrings(generator):
    """Return counts of the docstrings of installed packages, in a random order."""
    site = Path(sysconfig.get_paths()["purelib"])
    roots = [
        Path(sysconfig.get_paths()["stdlib"]),
        *(site / p for p in ("numpy", "scipy", "sklearn")),
    ]
    texts = set()
    for path in sorted(file for root in roots for file in root.rglob("*.py")):
        parts = path.parts
        if "site-packages" in parts[: len(roots[0].parts) + 1] and roots[0] in path.parents:
            if not any(root in path.parents for root in roots[1:]):
                continue
        try:
            tree = ast.parse(path.read_text(encoding="utf8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        kinds = (ast.FunctionDef, ast.ClassDef, ast.Module)
        texts |= {
            ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, kinds)
        }
    counter = CountVectorizer(max_features=N_WORDS, min_df=10, stop_words="english")
    X = sp.csr_array(counter.fit_transform(sorted(texts)).astype(np.float64))
    X = X[np.flatnonzero(X.sum(axis=1) >= 10)]
    return X[generator.permutation(X.shape[0])]


def halves(X, generator):
    """Return the counts of two halves of the words of each document."""
    first = generator.binomial(X.data.astype(np.int64), 0.5).astype(np.float64)
    return [
        sp.csr_array((part, X.indices.copy(), X.indptr.copy()), X.shape)
        for part in (first, X.data - first)
    ]


def next_word_of_machine(rbm, X):
    """Return log p(one more word | the words of each row of X), given a length of one more."""
    machine = rbm.machine_
    W, b = machine.weights[0], machine.thetas[0].field
    for field in X @ W.T:
        log_p = b + np.logaddexp(0, field[:, None] + W).sum(axis=0)
        yield log_p - logsumexp(log_p)


def next_word_of_topics(lda, X):
    """Return the same of topics, by the mean shares given the words."""
    yield from np.log(lda.transform(X) @ words_of(lda))


def words_of(lda):
    """Return the probabilities of words in each topic."""
    return lda.components_ / lda.components_.sum(axis=1, keepdims=True)


def completion(log_probabilities, B):
    """Return the perplexity of the words of B."""
    total = 0.0
    for i, log_p in enumerate(log_probabilities):
        part = slice(B.indptr[i], B.indptr[i + 1])
        total += B.data[part] @ log_p[B.indices[part]]
    return float(np.exp(-total / B.sum()))


def annealed_log_likelihood(lda, counts, words, generator, n_temperatures=200, n_chains=10):
    """Return log p(words) of one document by annealed importance sampling over the topics' words.

    At inverse temperature t, words have weights p(word | topic)^t.
    """
    alpha, phi = lda.doc_topic_prior_, np.maximum(words_of(lda)[:, words], 1e-300)
    theta = generator.dirichlet(np.full(len(phi), alpha), n_chains)
    powers = np.ones_like(phi)
    log_weights, betas = np.zeros(n_chains), np.linspace(0, 1, n_temperatures + 1) ** 2
    for beta in betas[1:]:
        new = phi**beta
        log_weights += np.log((theta @ new) / (theta @ powers)) @ counts
        powers = new
        shares = theta[:, None, :] * powers.T
        shares /= shares.sum(axis=2, keepdims=True)
        drawn = generator.multinomial(counts.astype(np.int64), shares).sum(axis=1)
        gammas = generator.standard_gamma(alpha + drawn) + 1e-300
        theta = gammas / gammas.sum(axis=1, keepdims=True)
    return logsumexp(log_weights) - np.log(n_chains)


def perplexities(scores, lengths):
    """Return perplexities per word, averaged over words and over documents."""
    return float(np.exp(-scores.sum() / lengths.sum())), float(np.exp(-(scores / lengths).mean()))


def fit_machine(X, epochs, seed):
    """Return the fitted machine and its processor time in seconds."""
    start = time.process_time()
    rbm = ReplicatedSoftmaxRBM(N_TOPICS, n_iter=epochs, random_state=seed).fit(X)
    return rbm, time.process_time() - start


def fit_topics(X, seconds, batch_size, seed):
    """Return topics that had at least as much processor time, and the time."""
    lda = LatentDirichletAllocation(
        N_TOPICS,
        learning_method="online",
        batch_size=batch_size,
        total_samples=X.shape[0],
        random_state=seed,
    )
    generator, start = np.random.default_rng(seed), time.process_time()
    while True:
        order = generator.permutation(X.shape[0])
        for i in range(0, X.shape[0], batch_size):
            lda.partial_fit(X[order[i : i + batch_size]])
        if time.process_time() - start >= seconds:
            return lda, time.process_time() - start


def measured(args, seed):
    """Yield rows of the table for one seed."""
    generator = np.random.default_rng(seed)
    if args.corpus == "docstrings":
        X = docstrings(generator)
    else:
        X = generated(args.corpus, args.train + N_TEST, generator)
    n = min(args.train, X.shape[0] - N_TEST)
    train, test = X[:n], X[n : n + N_TEST]
    lengths = test.sum(axis=1)
    total = train.sum(axis=0) + 1 / N_WORDS
    independent = test @ np.log(total / total.sum())
    A, B = halves(test, np.random.default_rng(seed))
    words = np.log(total / total.sum())
    some = slice(0, N_WHOLE)
    yield (
        "one topic",
        0.0,
        completion([words] * N_TEST, B),
        *perplexities(independent[some], lengths[some]),
    )
    rbm, seconds = fit_machine(train, args.epochs, seed)
    whole = perplexities(rbm.score_samples(test[some]), lengths[some])
    yield "machine", seconds, completion(next_word_of_machine(rbm, A), B), *whole
    for batch_size in (128, 1024):
        lda, spent = fit_topics(train, seconds, batch_size, seed)
        scores = np.array(
            [
                annealed_log_likelihood(lda, row.data, row.indices, generator)
                for row in (test[[i]].tocsr() for i in range(N_WHOLE))
            ]
        )
        whole = perplexities(scores, lengths[some])
        yield f"LDA, {batch_size}", spent, completion(next_word_of_topics(lda, A), B), *whole


def memory(args):
    """Print the largest memory of a fit to sparse counts, beside that of X."""
    X = generated("mixture", args.train, np.random.default_rng(0))
    sparse = (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / 2**20
    tracemalloc.start()
    ReplicatedSoftmaxRBM(N_TOPICS, n_iter=1, random_state=0).fit(X)
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    dense = X.shape[0] * X.shape[1] * 8 / 2**20
    print(f"X {X.shape}: {sparse:.0f} MiB sparse, {dense:.0f} MiB if dense; fit {peak:.0f} MiB")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus", choices=["mixture", "correlated", "docstrings", "memory"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--train", type=int, default=11314)
    args = parser.parse_args()
    heading(__file__, args)
    if args.corpus == "memory":
        memory(args)
        return
    found = {}
    with threadpool_limits(1):
        for seed in range(args.seeds):
            for name, *numbers in measured(args, seed):
                progress([seed, name, *numbers])
                found.setdefault(name, []).append(numbers)
    rows = []
    for name, numbers in found.items():
        mean, spread = np.mean(numbers, axis=0), np.std(numbers, axis=0)
        seconds, *others = [f"{m:.1f} ± {s:.1f}" for m, s in zip(mean, spread, strict=True)]
        rows.append([name, seconds, *others])
    names = ["method", "processor time (s)", "completion", "whole, by words", "by documents"]
    table(names, rows)


if __name__ == "__main__":
    sys.exit(main())
