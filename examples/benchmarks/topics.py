"""Topic models: the replicated softmax and latent Dirichlet allocation.

    python examples/benchmarks/topics.py correlated [--seeds 3] [--epochs 40] [--train 11314]
    python examples/benchmarks/topics.py docstrings
    python examples/benchmarks/topics.py sklearn --topics 20

correlated: documents of the size of 20 newsgroups (11 314 for training, 2000 words, log-normal
lengths), whose topics have log-shares that are normal and correlated; one word in ten comes from
the whole vocabulary. docstrings: the docstrings of Python's library, NumPy, SciPy and scikit-learn.
sklearn: those of scikit-learn alone, a quarter of them for the test.

Both models have 50 topics, or ``--topics``. ReplicatedSoftmaxRBM has default settings, and in
another row ``sparsity=1``; scikit-learn's LatentDirichletAllocation learns online with batches of
128 and 1024 documents, for at least the same processor time. Printed are three measures. Perplexity
is that of a random half of the words of each test document, given the others. Coherence is the
normalized pointwise mutual information of pairs among the ten words of a topic, by the documents in
which they occur, averaged over pairs and topics. Diversity is the share of these words that are
distinct (Dieng et al. 2020), since topics that repeat a few frequent words are coherent too.
"""

import argparse
import ast
import sysconfig
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from _common import heading, progress, table
from scipy.special import logsumexp
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.feature_extraction.text import CountVectorizer
from threadpoolctl import threadpool_limits

from skrbm import ReplicatedSoftmaxRBM

N_TOPICS, N_WORDS, N_TEST = 50, 2000, 2000
NONE = np.nan, np.nan


def correlated(n, rng):
    """Return counts of ``n`` documents with correlated topics, a sparse array."""
    base = 1 / (np.arange(N_WORDS) + 10.0)
    base /= base.sum()
    topics = rng.dirichlet(0.05 * N_WORDS * base + 1e-3, N_TOPICS)
    factors = 1.2 * rng.standard_normal((5, N_TOPICS))
    logits = rng.standard_normal((n, 5)) @ factors + 0.7 * rng.standard_normal((n, N_TOPICS))
    shares = np.exp(logits - logsumexp(logits, axis=1, keepdims=True))
    lengths = np.rint(np.exp(rng.normal(4.2, 0.9, n))).clip(3, 3000).astype(int)
    rows = []
    for length, share in zip(lengths, shares, strict=True):
        p = 0.9 * share @ topics + 0.1 * base
        rows.append(sp.csr_array(rng.multinomial(length, p / p.sum())[None]))
    return sp.vstack(rows, format="csr")


def docstrings(rng, packages=("numpy", "scipy", "sklearn"), with_library=True):
    """Return counts of the docstrings of installed packages, in a random order."""
    paths = sysconfig.get_paths()
    site, stdlib = Path(paths["purelib"]), Path(paths["stdlib"])
    files = set()
    if with_library:
        files = {file for file in stdlib.rglob("*.py") if site not in file.parents}
    for package in packages:
        files |= set((site / package).rglob("*.py"))
    texts, kinds = set(), (ast.FunctionDef, ast.ClassDef, ast.Module)
    for path in files:
        try:
            nodes = ast.walk(ast.parse(path.read_text(encoding="utf8")))
        except (SyntaxError, UnicodeDecodeError):
            continue
        texts |= {ast.get_docstring(node) or "" for node in nodes if isinstance(node, kinds)}
    counter = CountVectorizer(max_features=N_WORDS, min_df=10, stop_words="english")
    X = sp.csr_array(counter.fit_transform(sorted(texts)).astype(np.float64))
    X = X[np.flatnonzero(X.sum(axis=1) >= 10)]
    return X[rng.permutation(X.shape[0])]


def halves(X, rng):
    """Return the counts of two halves of the words of each document."""
    first = rng.binomial(X.data.astype(np.int64), 0.5).astype(np.float64)
    return [
        sp.csr_array((part, X.indices.copy(), X.indptr.copy()), X.shape)
        for part in (first, X.data - first)
    ]


def next_word_of_rbm(rbm, X):
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


def coherence(topics, X):
    """Return the mean over topics of the normalized mutual information of pairs of their words."""
    occurs = (X != 0).astype(np.float64)
    joint = (occurs.T @ occurs).toarray() / X.shape[0]
    p = np.diag(joint)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.log(joint / np.outer(p, p)) / -np.log(joint)
    values[joint == 0] = -1.0
    first, second = np.triu_indices(topics.shape[1], 1)
    return float(np.mean(values[topics[:, first], topics[:, second]]))


def diversity(topics):
    """Return which part of the words of all topics are distinct."""
    return len(np.unique(topics)) / topics.size


def completion(log_probabilities, B):
    """Return the perplexity of the words of B."""
    total = 0.0
    for i, log_p in enumerate(log_probabilities):
        part = slice(B.indptr[i], B.indptr[i + 1])
        total += B.data[part] @ log_p[B.indices[part]]
    return float(np.exp(-total / B.sum()))


def fit_topics(X, n_topics, seconds, batch_size, seed):
    """Return topics that had at least as much processor time, and the time."""
    lda = LatentDirichletAllocation(
        n_topics,
        learning_method="online",
        batch_size=batch_size,
        total_samples=X.shape[0],
        random_state=seed,
    )
    rng, start = np.random.default_rng(seed), time.process_time()
    while True:
        order = rng.permutation(X.shape[0])
        for i in range(0, X.shape[0], batch_size):
            lda.partial_fit(X[order[i : i + batch_size]])
        if time.process_time() - start >= seconds:
            return lda, time.process_time() - start


def measured(args, seed):
    """Yield rows of the table for one seed."""
    rng = np.random.default_rng(seed)
    if args.corpus == "docstrings":
        X = docstrings(rng)
    elif args.corpus == "sklearn":
        X = docstrings(rng, ("sklearn",), with_library=False)
    else:
        X = correlated(args.train + N_TEST, rng)
    n_test = min(N_TEST, X.shape[0] // 4)
    n = min(args.train, X.shape[0] - n_test)
    train, test = X[:n], X[n : n + n_test]
    A, B = halves(test, np.random.default_rng(seed))
    total = train.sum(axis=0) + 1 / N_WORDS
    yield "word frequencies", 0.0, completion([np.log(total / total.sum())] * n_test, B), *NONE
    for sparsity in (0.0, 1.0):
        begin = time.process_time()
        rbm = ReplicatedSoftmaxRBM(
            args.topics, sparsity=sparsity, n_iter=args.epochs, random_state=seed
        ).fit(train)
        seconds = time.process_time() - begin
        words = rbm.top_words(np.arange(X.shape[1]), 10)
        found = completion(next_word_of_rbm(rbm, A), B), coherence(words, X), diversity(words)
        name = f"ReplicatedSoftmaxRBM{', sparsity=1' * (sparsity > 0)}"
        yield name, seconds, *found
    for batch_size in (128, 1024):
        lda, spent = fit_topics(train, args.topics, seconds, batch_size, seed)
        words = np.argsort(-words_of(lda), axis=1)[:, :10]
        found = completion(next_word_of_topics(lda, A), B), coherence(words, X), diversity(words)
        yield f"LDA, {batch_size}", spent, *found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", choices=["correlated", "docstrings", "sklearn"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--topics", type=int, default=N_TOPICS)
    parser.add_argument("--train", type=int, default=11314)
    args = parser.parse_args()
    heading(__file__, args)
    found = {}
    with threadpool_limits(1):
        for seed in range(args.seeds):
            for name, *numbers in measured(args, seed):
                progress([seed, name, *numbers])
                found.setdefault(name, []).append(numbers)
    rows = []
    for name, numbers in found.items():
        mean, std = np.mean(numbers, axis=0), np.std(numbers, axis=0)
        digits = 1, 1, 3, 2
        numbers = zip(mean, std, digits, strict=True)
        rows.append([name, *(f"{m:.{d}f} ± {s:.{d}f}" for m, s, d in numbers)])
    table(["model", "processor time (s)", "perplexity", "coherence", "diversity"], rows)


if __name__ == "__main__":
    main()
