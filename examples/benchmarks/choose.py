"""What each estimator gives, and in what time: the rows of the page "Choose your machine".

    taskset -c 1 python examples/benchmarks/choose.py [features] [density] ...

For each aim: data that scikit-learn has or that are generated here, in one or two sizes; the
estimator that the page recommends, with the settings that it names; and what one would do without
it, the strongest method of scikit-learn that we know for the aim among them. Printed are processor
seconds of fit and use on one thread, and a measure on held-out rows; which way is better is in the
name of the measure. One split and one seed each.
"""

import argparse
import time
import warnings

import numpy as np
import scipy.sparse as sp
import sequences
import tables
from _common import data_folder, heading
from scipy.ndimage import shift
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.neighbors import KernelDensity, NearestNeighbors
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits
from topics import completion, halves, next_word_of_machine, next_word_of_topics

from skrbm import (
    RBM,
    TAPRBM,
    BernoulliRBM,
    CategoricalRBM,
    ConditionalRBM,
    DeepTAPMachine,
    FrankWolfeRBM,
    GaussianBernoulliRBM,
    RBMClassifier,
    ReplicatedSoftmaxRBM,
)


def grey_digits(copies=1):
    """Digits on [0, 1], with copies shifted by a pixel, in rows to learn from and others."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X / 16, y, random_state=0)
    moves = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0)][:copies]
    images = X.reshape(-1, 8, 8)
    X = np.concatenate([shift(images, (0, *move), order=0).reshape(-1, 64) for move in moves])
    return X, X_test, np.concatenate([y] * len(moves)), y_test


def binary_digits():
    X, X_test, _, _ = grey_digits()
    return [(part > 0.5).astype(np.float64) for part in (X, X_test)]


def features():
    """Accuracy of classifiers on learned features and on the columns themselves."""
    for copies in (1, 5):
        X, X_test, y, y_test = grey_digits(copies)
        linear = LogisticRegression(C=10, max_iter=3000)
        for name, model in {
            "RBM() + logistic regression": make_pipeline(RBM(random_state=0), linear),
            "RBM(100) + logistic regression": make_pipeline(RBM(100, random_state=0), linear),
            "logistic regression": linear,
            "HistGradientBoostingClassifier": HistGradientBoostingClassifier(random_state=0),
            "SVC": SVC(C=10),
        }.items():
            if copies > 1 and name.startswith("Hist"):  # takes minutes
                continue
            yield (
                X,
                name,
                "accuracy, %",
                lambda model=model, d=(X, y, X_test, y_test): 100 * model.fit(*d[:2]).score(*d[2:]),
            )


def labels():
    """Accuracy of a density with a label."""
    X, X_test, y, y_test = grey_digits()
    for name, model in {
        "RBMClassifier()": RBMClassifier(random_state=0),
        "RBMClassifier(discriminative=0.9)": RBMClassifier(discriminative=0.9, random_state=0),
        "logistic regression": LogisticRegression(max_iter=3000),
    }.items():
        yield (
            X,
            name,
            "accuracy, %",
            lambda model=model: 100 * model.fit(X, y).score(X_test, y_test),
        )


class Prototypes:
    """Binary rows near to one of many prototypes: each bit differs with probability 0.1."""

    def __init__(self, n_columns, n_prototypes=20):
        self.generator = np.random.default_rng(0)
        self.prototypes = self.generator.random((n_prototypes, n_columns)) < 0.5

    def draw(self, n):
        near = self.prototypes[self.generator.integers(len(self.prototypes), size=n)]
        return (near ^ (self.generator.random(near.shape) < 0.1)).astype(np.float64)

    def score(self, X):
        differ = np.abs(X[:, None] - self.prototypes).sum(axis=2)
        log_p = differ * np.log(0.1) + (X.shape[1] - differ) * np.log(0.9)
        return np.logaddexp.reduce(log_p, axis=1).mean() - np.log(len(self.prototypes))


def independent(X, X_test):
    p = (X.sum(axis=0) + 0.5) / (len(X) + 1)
    return (X_test * np.log(p) + (1 - X_test) * np.log(1 - p)).sum(axis=1).mean()


def density():
    """Log-likelihood of held-out binary rows."""
    truth = Prototypes(100)
    for X, X_test in (binary_digits(), (truth.draw(10_000), truth.draw(1000))):
        for name, rbm in {
            "RBM()": RBM(random_state=0),
            "BernoulliRBM(centered=True, average=True)": BernoulliRBM(
                centered=True, average=True, random_state=0
            ),
            "TAPRBM(64)": TAPRBM(64, random_state=0),
            "FrankWolfeRBM(100, alpha=0.003)": FrankWolfeRBM(100, alpha=0.003, random_state=0),
        }.items():
            if len(X) > 5000 and not name.startswith(("RBM", "Bernoulli")):
                continue
            yield X, name, "nats", lambda rbm=rbm, X=X, X_test=X_test: rbm.fit(X).score(X_test)
        yield X, "independent columns", "nats", lambda X=X, X_test=X_test: independent(X, X_test)
    yield X, "the truth", "nats", lambda: truth.score(X_test)
    others = [RBM(random_state=seed) for seed in (1, 2, 3)]
    yield X, "RBM(), seeds 1 to 3", "nats", lambda: [rbm.fit(X).score(X_test) for rbm in others]


def deep():
    """Log-likelihood of held-out binary rows by machines of two hidden layers, and of one."""
    X, X_test = binary_digits()
    for name, rbm in {
        "DeepTAPMachine((64, 24))": DeepTAPMachine((64, 24), random_state=0),
        "DeepTAPMachine((64, 24), n_iter_pretrain=40, n_iter=40)": DeepTAPMachine(
            (64, 24), n_iter_pretrain=40, n_iter=40, random_state=0
        ),
        "RBM(64)": RBM(64, random_state=0),
        "RBM(88)": RBM(88, random_state=0),
    }.items():
        yield X, name, "nats", lambda rbm=rbm: rbm.fit(X).score(X_test)


def missing():
    """Wrong values where a third of binary values is missing, in learning too."""
    X, X_test = binary_digits()
    generator = np.random.default_rng(0)
    holes, holes_test = (
        np.where(generator.random(part.shape) < 1 / 3, np.nan, part) for part in (X, X_test)
    )
    lost = np.isnan(holes_test)

    def wrong(imputer):
        filled = imputer.fit(holes)
        filled = getattr(filled, "impute", None) or filled.transform
        return 100 * ((filled(holes_test) > 0.5) != (X_test > 0.5))[lost].mean()

    for name, imputer in {
        "RBM()": RBM(random_state=0),
        "KNNImputer": KNNImputer(),
        "IterativeImputer": IterativeImputer(random_state=0),
        "most frequent value": SimpleImputer(strategy="most_frequent"),
    }.items():
        yield X, name, "wrong, %", lambda imputer=imputer: wrong(imputer)


def noise():
    """Wrong bits after one in ten has been flipped."""
    X, X_test = binary_digits()
    flips = np.random.default_rng(0).random(X_test.shape) < 0.1
    noisy = np.where(flips, 1 - X_test, X_test)

    def machine():
        rbm = TAPRBM(64, n_iter=60, random_state=0).fit(X)
        return rbm.denoise(noisy, flip_probability=0.1, n_starts=10, random_state=0)

    for name, found in {
        "TAPRBM(64, n_iter=60)": machine,
        "nearest row": lambda: X[NearestNeighbors(n_neighbors=1).fit(X).kneighbors(noisy)[1][:, 0]],
        "as it is": lambda: noisy,
    }.items():
        yield X, name, "wrong, %", lambda found=found: 100 * np.mean((found() > 0.5) != X_test)


def outputs():
    """Rows of which all seven outputs are right: the segments of a display, from noisy images."""
    digits = "1110111 0010010 1011101 1011011 0111010 1101011 1101111 1010010 1111111 1111011"
    segments = np.array([[int(on) for on in digit] for digit in digits.split()])
    X, y = load_digits(return_X_y=True)
    X = X / 16 + 0.5 * np.random.default_rng(0).standard_normal(X.shape)
    X, X_test, Y, Y_test = train_test_split(X, segments[y], test_size=600, random_state=0)
    linear = LogisticRegression(C=0.3, max_iter=1000)
    settings = {"learning_rate": 0.5, "alpha": 1e-3, "n_iter": 20, "batch_size": 20}
    for name, model in {
        "ConditionalRBM(32, ...)": ConditionalRBM(
            32, schedule="linear", random_state=0, **settings
        ),
        "MultiOutputClassifier": MultiOutputClassifier(linear),
        "ClassifierChain": ClassifierChain(linear, random_state=0),
        "MLPClassifier": MLPClassifier(alpha=1, learning_rate_init=0.01, random_state=0),
    }.items():
        yield (
            X,
            name,
            "all right, %",
            lambda model=model: (
                100 * (model.fit(X, Y).predict(X_test) == Y_test).all(axis=1).mean()
            ),
        )


def real():
    """Log-density of held-out rows of real columns, each with deviation 1 in training."""
    for rows in (load_wine().data, load_breast_cancer().data):
        X, X_test = train_test_split(rows, random_state=0)
        scaler = StandardScaler().fit(X)
        X, X_test = scaler.transform(X), scaler.transform(X_test)
        sizes = {"n_components": [1, 2, 3, 5, 10], "covariance_type": ["full", "diag"]}
        widths = {"bandwidth": [0.1, 0.2, 0.4, 0.6, 0.8, 1]}
        machines = {
            "RBM(64, visible='gaussian', n_iter=200)": RBM(
                64, visible="gaussian", n_iter=200, random_state=0
            ),
            "GaussianBernoulliRBM(64)": GaussianBernoulliRBM(64, random_state=0),
            "GaussianMixture, searched": GridSearchCV(
                GaussianMixture(reg_covar=1e-3, random_state=0), sizes, cv=3
            ),
            "KernelDensity, searched": GridSearchCV(KernelDensity(), widths, cv=3),
        }
        for name, model in machines.items():
            per_row = len(X_test) if "Kernel" in name else 1  # its score is the sum over rows
            yield (
                X,
                name,
                "nats",
                lambda model=model, X=X, Z=X_test, n=per_row: model.fit(X).score(Z) / n,
            )
        yield (
            X,
            "independent normal columns",
            "nats",
            lambda Z=X_test: norm.logpdf(Z).sum(axis=1).mean(),
        )


def hairpins(n, generator):
    """Sequences of RNA whose sites i and 19 - i pair, with a loop of two kinds between."""
    pairs = np.array([[0, 3], [3, 0], [1, 2], [2, 1]])
    stems = pairs[generator.integers(4, size=(n, 8))]
    loops = np.array([[2, 0, 0, 0], [3, 3, 1, 2]])[generator.integers(2, size=n)]
    codes = np.concatenate([stems[:, :, 0], loops, stems[:, ::-1, 1]], axis=1)
    other = generator.random(codes.shape) < 0.05
    return np.where(other, generator.integers(4, size=codes.shape), codes)


def categories():
    """Log-likelihood of held-out sequences of 20 letters."""
    generator = np.random.default_rng(0)
    X_test = hairpins(1000, generator)
    for n in (1000, 5000):
        X = hairpins(n, generator)
        for name, rbm in {
            "CategoricalRBM(64)": CategoricalRBM(64, random_state=0),
            "CategoricalRBM(64, hidden='double_relu')": CategoricalRBM(
                64, hidden="double_relu", random_state=0
            ),
        }.items():
            if n > 1000 and "relu" in name:  # takes minutes
                continue
            yield X, name, "nats", lambda rbm=rbm, X=X: rbm.fit(X).score(X_test)
        p = ((X[:, :, None] == np.arange(4)).sum(axis=0) + 0.5) / (n + 2)
        yield (
            X,
            "independent letters",
            "nats",
            lambda p=p: np.log(p[np.arange(20), X_test]).sum(axis=1).mean(),
        )


def alignment():
    """Log-likelihood of held-out clusters of aligned RNA, weighted (RF00379 in SKRBM_DATA)."""
    if data_folder() is None:
        print("left out: SKRBM_DATA is not set")
        return
    ((X, weights), (X_test, test_weights)), q = sequences.parts_of("rf00379", None, "clusters")
    settings = {"categories": [range(q)] * X.shape[1], "random_state": 0}

    def score(rbm):
        return rbm.fit(X, sample_weight=weights).score(X_test, sample_weight=test_weights)

    for name, rbm in {
        "CategoricalRBM(100)": CategoricalRBM(100, **settings),
        "the same, double_relu, l1b, 100 passes": CategoricalRBM(
            100, hidden="double_relu", **sequences.SETS["rf00379"][-1], **settings
        ),
    }.items():
        yield X, name, "nats", lambda rbm=rbm: score(rbm)
    counts = np.einsum("n,nsq->sq", weights, X[:, :, None] == np.arange(q)) + 0.5
    log_p = np.log(counts / counts.sum(axis=1, keepdims=True))[np.arange(X.shape[1]), X_test]
    alone = np.average(log_p.sum(axis=1), weights=test_weights)
    yield X, "independent sites", "nats", lambda: alone


def mixed():
    """Error of hidden values of tables with columns of several kinds; a fifth is hidden."""
    for frame in (tables.TABLES["wine"](), tables.generated()):
        holes, hidden = tables.with_holes(frame, 0)
        for name, imputer in {
            "TabularRBM()": tables.Machine(random_state=0),
            "IterativeImputer": tables.Encoded(IterativeImputer(max_iter=20, random_state=0)),
            "KNNImputer": tables.Encoded(KNNImputer()),
            "mean": tables.Encoded(SimpleImputer()),
        }.items():
            yield (
                frame,
                name,
                "error of numbers, of categories",
                lambda f=frame, imputer=imputer, holes=holes, hidden=hidden: tables.errors(
                    f, imputer.fill(holes), hidden
                ),
            )


def synthetic():
    """Accuracy of gradient boosting that learns from drawn rows, or from the real ones."""
    for frame in (tables.TABLES["breast cancer"](), tables.generated()):
        found = []

        def run(frame=frame, found=found):
            found += tables.efficacy(frame, 0, {"random_state": 0})
            return 100 * found[1]

        yield frame, "TabularRBM().sample", "accuracy, %", run
        yield frame, "the real rows", "accuracy, %", lambda found=found: 100 * found[0]


def documents():
    """Perplexity of half of the words of held-out documents, given the others: less is better."""
    generator = np.random.default_rng(0)
    n_words, n_topics = 1000, 20
    topics = generator.dirichlet(np.full(n_words, 0.05), n_topics)
    factors = 1.2 * generator.standard_normal((5, n_topics))
    rows = []
    for length in generator.poisson(60, 4000):  # topics that are correlated
        logits = generator.standard_normal(5) @ factors + 0.7 * generator.standard_normal(n_topics)
        p = np.exp(logits) @ topics
        rows.append(sp.csr_array(generator.multinomial(length, p / p.sum())[None]))
    X = sp.csr_array(sp.vstack(rows), dtype=np.float64)
    X, X_test = X[:3000], X[3000:]
    A, B = halves(X_test, generator)
    lda = LatentDirichletAllocation(n_topics, learning_method="online", max_iter=20, random_state=0)
    rbm = ReplicatedSoftmaxRBM(n_topics, random_state=0)
    measure = "perplexity"
    yield (
        X,
        "ReplicatedSoftmaxRBM(20)",
        measure,
        lambda: completion(next_word_of_machine(rbm.fit(X), A), B),
    )
    yield (
        X,
        "LatentDirichletAllocation(20)",
        measure,
        lambda: completion(next_word_of_topics(lda.fit(X), A), B),
    )
    p = np.asarray(X.sum(axis=0) + 0.1).ravel()
    yield (
        X,
        "frequencies",
        measure,
        lambda: completion((np.log(p / p.sum()) for _ in range(B.shape[0])), B),
    )


def classes():
    """Accuracy of a label of a table of real columns: no work for these machines."""
    X, y = load_breast_cancer(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, random_state=0)
    for name, model in {
        "scaled logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
        "HistGradientBoostingClassifier": HistGradientBoostingClassifier(random_state=0),
        "GaussianBernoulliRBM(64) + logistic regression": make_pipeline(
            GaussianBernoulliRBM(64, random_state=0), LogisticRegression(max_iter=1000)
        ),
    }.items():
        yield (
            X,
            name,
            "accuracy, %",
            lambda model=model: 100 * model.fit(X, y).score(X_test, y_test),
        )


AIMS = (
    features,
    labels,
    density,
    deep,
    missing,
    noise,
    outputs,
    real,
    categories,
    alignment,
    mixed,
    synthetic,
    documents,
    classes,
)


def main():
    names = [aim.__name__ for aim in AIMS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("aims", nargs="*", default=names, metavar="AIM", help=", ".join(names))
    args = parser.parse_args()
    heading(__file__, args)
    warnings.simplefilter("ignore")
    for aim in AIMS:
        if aim.__name__ not in args.aims:
            continue
        print(f"{aim.__name__}: {aim.__doc__.splitlines()[0]}")
        for X, name, measure, run in aim():
            begin = time.process_time()
            with threadpool_limits(1):
                found = run()
            found = ", ".join(f"{value:.4g}" for value in np.ravel(found))
            size = " x ".join(map(str, X.shape))
            seconds = time.process_time() - begin
            print(f"{size:>12}  {name:47}{seconds:7.1f} s  {found} ({measure})", flush=True)


if __name__ == "__main__":
    main()
