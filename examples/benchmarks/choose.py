"""Typical results and times: the table of "Choosing an estimator".

    python examples/benchmarks/choose.py [features] [density] ...

Each task has data of scikit-learn or generated data, the recommended estimator, and alternatives
from scikit-learn. Printed are the processor seconds of fit and use on one thread, and a score on
test rows. Each task has one split and one seed.
"""

import argparse
import time
import warnings
from functools import partial

import numpy as np
import scipy.sparse as sp
import tables
from _common import heading
from scipy.ndimage import shift
from scipy.stats import norm
from sklearn.datasets import load_digits, load_wine
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.neighbors import NearestNeighbors
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits
from topics import completion, halves, next_word_of_rbm, next_word_of_topics

from skrbm import (
    RBM,
    TAPRBM,
    CategoricalRBM,
    ConditionalRBM,
    DeepTAPMachine,
    FrankWolfeRBM,
    RBMClassifier,
    ReplicatedSoftmaxRBM,
)
from skrbm.learning import SGD


def grey_digits(copies=1):
    """Return digits on [0, 1], with copies shifted by a pixel, and test digits."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X / 16, y, random_state=0)
    moves = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0)][:copies]
    images = X.reshape(-1, 8, 8)
    X = np.concatenate([shift(images, (0, *move), order=0).reshape(-1, 64) for move in moves])
    return X, X_test, np.concatenate([y] * len(moves)), y_test


def binary_digits():
    """Return digits with pixels above 0.5."""
    return [(part > 0.5).astype(np.float64) for part in grey_digits()[:2]]


def accuracy(model, X, X_test, y, y_test):
    """Return the accuracy in percent."""
    return 100 * model.fit(X, y).score(X_test, y_test)


def score(model, X, X_test):
    """Return the mean test log-likelihood."""
    return model.fit(X).score(X_test)


def features():
    """Accuracy (%) of classifiers on learned features and on pixels."""
    for copies in (1, 5):
        data = grey_digits(copies)
        linear = LogisticRegression(C=10, max_iter=3000)
        for name, model in {
            "RBM(100) + logistic regression": make_pipeline(RBM(100, random_state=0), linear),
            "logistic regression": linear,
            "SVC": SVC(C=10),
        }.items():
            yield data[0], name, partial(accuracy, model, *data)


def labels():
    """Accuracy (%) of a generative model of images and labels."""
    data = grey_digits()
    yield data[0], "RBMClassifier()", partial(accuracy, RBMClassifier(random_state=0), *data)
    yield (
        data[0],
        "logistic regression",
        partial(accuracy, LogisticRegression(max_iter=3000), *data),
    )


class Prototypes:
    """Binary rows near one of many prototypes: each bit differs with probability 0.1."""

    def __init__(self, n_columns, n_prototypes=20):
        self.rng = np.random.default_rng(0)
        self.prototypes = self.rng.random((n_prototypes, n_columns)) < 0.5

    def draw(self, n):
        """Return n rows."""
        near = self.prototypes[self.rng.integers(len(self.prototypes), size=n)]
        return (near ^ (self.rng.random(near.shape) < 0.1)).astype(np.float64)

    def score(self, X):
        """Return the mean log-likelihood."""
        differ = np.abs(X[:, None] - self.prototypes).sum(axis=2)
        log_p = differ * np.log(0.1) + (X.shape[1] - differ) * np.log(0.9)
        return np.logaddexp.reduce(log_p, axis=1).mean() - np.log(len(self.prototypes))


def independent(X, X_test):
    """Return the mean test log-likelihood of independent columns."""
    p = (X.sum(axis=0) + 0.5) / (len(X) + 1)
    return (X_test * np.log(p) + (1 - X_test) * np.log(1 - p)).sum(axis=1).mean()


def density():
    """Log-likelihood (nats) of binary rows."""
    data = binary_digits()
    for name, model in {
        "RBM()": RBM(random_state=0),
        "FrankWolfeRBM()": FrankWolfeRBM(random_state=0),
        "DeepTAPMachine((64, 24))": DeepTAPMachine((64, 24), random_state=0),
    }.items():
        yield data[0], name, partial(score, model, *data)
    yield data[0], "independent columns", partial(independent, *data)
    truth = Prototypes(100)
    data = truth.draw(10_000), truth.draw(1000)
    yield data[0], "RBM()", partial(score, RBM(random_state=0), *data)
    yield data[0], "independent columns", partial(independent, *data)
    yield data[0], "truth", partial(truth.score, data[1])


def missing():
    """Wrong values (%) where a third of binary values is missing, in training too."""
    X, X_test = binary_digits()
    rng = np.random.default_rng(0)
    holes, holes_test = (
        np.where(rng.random(part.shape) < 1 / 3, np.nan, part) for part in (X, X_test)
    )
    lost = np.isnan(holes_test)

    def wrong(imputer):
        imputer.fit(holes)
        if isinstance(imputer, RBM):
            filled = imputer.impute(holes_test, random_state=0)
        else:
            filled = imputer.transform(holes_test)
        return 100 * ((filled > 0.5) != (X_test > 0.5))[lost].mean()

    for name, imputer in {
        "RBM()": RBM(random_state=0),
        "KNNImputer": KNNImputer(),
        "IterativeImputer": IterativeImputer(random_state=0),
        "most frequent value": SimpleImputer(strategy="most_frequent"),
    }.items():
        yield X, name, partial(wrong, imputer)


def noise():
    """Wrong bits (%) after one in ten has been flipped."""
    X, X_test = binary_digits()
    flips = np.random.default_rng(0).random(X_test.shape) < 0.1
    noisy = np.where(flips, 1 - X_test, X_test)

    def denoised():
        rbm = TAPRBM(64, n_iter=60, random_state=0).fit(X)
        return rbm.denoise(noisy, flip_probability=0.1, n_starts=10, random_state=0)

    for name, restored in {
        "TAPRBM(64, n_iter=60)": denoised,
        "nearest row": lambda: X[NearestNeighbors(n_neighbors=1).fit(X).kneighbors(noisy)[1][:, 0]],
        "noisy": lambda: noisy,
    }.items():
        yield X, name, lambda restored=restored: 100 * np.mean((restored() > 0.5) != X_test)


def outputs():
    """Rows (%) of which all seven outputs are right: the segments of a display."""
    digits = "1110111 0010010 1011101 1011011 0111010 1101011 1101111 1010010 1111111 1111011"
    segments = np.array([[int(on) for on in digit] for digit in digits.split()])
    X, y = load_digits(return_X_y=True)
    X = X / 16 + 0.5 * np.random.default_rng(0).standard_normal(X.shape)
    X, X_test, Y, Y_test = train_test_split(X, segments[y], test_size=600, random_state=0)
    linear = LogisticRegression(C=0.3, max_iter=1000)
    settings = {"learning_rate": 0.5, "n_iter": 20, "batch_size": 20}
    for name, model in {
        "ConditionalRBM(32)": ConditionalRBM(
            32,
            random_state=0,
            optimizer=SGD(alpha=1e-3, schedule="linear", average=False),
            **settings,
        ),
        "MultiOutputClassifier": MultiOutputClassifier(linear),
        "ClassifierChain": ClassifierChain(linear, random_state=0),
        "MLPClassifier": MLPClassifier(alpha=1, learning_rate_init=0.01, random_state=0),
    }.items():
        yield (
            X,
            name,
            lambda model=model: (
                100 * (model.fit(X, Y).predict(X_test) == Y_test).all(axis=1).mean()
            ),
        )


def real():
    """Log-density (nats) of standardized real columns."""
    X, X_test = train_test_split(load_wine().data, random_state=0)
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    grid = {"n_components": [1, 2, 3, 5, 10], "covariance_type": ["full", "diag"]}
    mixture = GridSearchCV(GaussianMixture(reg_covar=1e-3, random_state=0), grid, cv=3)
    rbm = RBM(64, visible="gaussian", n_iter=200, random_state=0)
    yield X, "RBM(64, visible='gaussian', n_iter=200)", partial(score, rbm, X, X_test)
    yield X, "GaussianMixture, searched", partial(score, mixture, X, X_test)
    yield X, "independent columns", lambda: norm.logpdf(X_test).sum(axis=1).mean()


def hairpins(n, rng):
    """Return RNA sequences whose sites i and 19 - i pair, with a loop of two kinds."""
    pairs = np.array([[0, 3], [3, 0], [1, 2], [2, 1]])
    stems = pairs[rng.integers(4, size=(n, 8))]
    loops = np.array([[2, 0, 0, 0], [3, 3, 1, 2]])[rng.integers(2, size=n)]
    codes = np.concatenate([stems[:, :, 0], loops, stems[:, ::-1, 1]], axis=1)
    other = rng.random(codes.shape) < 0.05
    return np.where(other, rng.integers(4, size=codes.shape), codes)


def categories():
    """Log-likelihood (nats) of sequences of 20 letters."""
    rng = np.random.default_rng(0)
    X_test, _, X = (hairpins(n, rng) for n in (1000, 1000, 5000))
    yield X, "CategoricalRBM(64)", partial(score, CategoricalRBM(64, random_state=0), X, X_test)
    p = ((X[:, :, None] == np.arange(4)).sum(axis=0) + 0.5) / (len(X) + 2)
    yield X, "independent", lambda: np.log(p[np.arange(20), X_test]).sum(axis=1).mean()


def mixed():
    """Errors of numbers (standard deviations) and categories of a table; a fifth is hidden."""
    frame = tables.TABLES["wine"]()
    holes, hidden = tables.with_holes(frame, 0)
    for name, imputer in {
        "TabularRBM()": tables.Imputer(random_state=0),
        "IterativeImputer": tables.Encoded(IterativeImputer(max_iter=20, random_state=0)),
        "KNNImputer": tables.Encoded(KNNImputer()),
    }.items():
        yield frame, name, lambda imputer=imputer: tables.errors(frame, imputer.fill(holes), hidden)


def documents():
    """Perplexity of half of the words of test documents given the others."""
    rng = np.random.default_rng(0)
    n_words, n_topics = 1000, 20
    topics = rng.dirichlet(np.full(n_words, 0.05), n_topics)
    factors = 1.2 * rng.standard_normal((5, n_topics))
    rows = []
    for length in rng.poisson(60, 4000):  # correlated topics
        logits = rng.standard_normal(5) @ factors + 0.7 * rng.standard_normal(n_topics)
        p = np.exp(logits) @ topics
        rows.append(sp.csr_array(rng.multinomial(length, p / p.sum())[None]))
    X = sp.csr_array(sp.vstack(rows), dtype=np.float64)
    X, X_test = X[:3000], X[3000:]
    A, B = halves(X_test, rng)
    lda = LatentDirichletAllocation(n_topics, learning_method="online", max_iter=20, random_state=0)
    rbm = ReplicatedSoftmaxRBM(n_topics, random_state=0)
    name = f"ReplicatedSoftmaxRBM({n_topics})"
    yield X, name, lambda: completion(next_word_of_rbm(rbm.fit(X), A), B)
    name = f"LatentDirichletAllocation({n_topics})"
    yield X, name, lambda: completion(next_word_of_topics(lda.fit(X), A), B)


TASKS = (
    features,
    labels,
    density,
    missing,
    noise,
    outputs,
    real,
    categories,
    mixed,
    documents,
)


def main():
    names = [task.__name__ for task in TASKS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", default=names, metavar="TASK", help=", ".join(names))
    args = parser.parse_args()
    heading(__file__, args)
    warnings.simplefilter("ignore")
    for task in TASKS:
        if task.__name__ not in args.tasks:
            continue
        print(f"{task.__name__}: {task.__doc__}")
        for X, name, run in task():
            begin = time.process_time()
            with threadpool_limits(1):
                found = ", ".join(f"{value:.4g}" for value in np.ravel(run()))
            seconds = time.process_time() - begin
            size = " x ".join(map(str, X.shape))
            print(f"{size:>12}  {name:42}{seconds:7.1f} s  {found}", flush=True)


if __name__ == "__main__":
    main()
