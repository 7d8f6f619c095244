"""What the tests of estimators share: which there are, small ones, data, and independent sums."""

import inspect

import numpy as np
from scipy.special import expit, logsumexp
from sklearn.base import BaseEstimator, is_classifier

import skrbm
from skrbm.estimators._base import BaseRBM
from skrbm.units import Bernoulli


def _estimators(base):
    classes = [getattr(skrbm, name) for name in skrbm.__all__]
    return [c for c in classes if inspect.isclass(c) and issubclass(c, base)]


ESTIMATORS = _estimators(BaseEstimator)
RBMS = [c for c in _estimators(BaseRBM) if c is not skrbm.DeepTAPMachine]  # one hidden layer
BINARY = [RBM for RBM in RBMS if all(isinstance(unit, Bernoulli) for unit in RBM()._units())]


def default(Estimator):
    """The estimator that scikit-learn's checks try: with its defaults, but for sizes that cost."""
    sizes = {
        "DeepTAPMachine": {"n_components": (16, 8), "n_iter_pretrain": 5},
        "FrankWolfeRBM": {"max_components": 10, "n_chains": 200},
    }
    return Estimator(**sizes.get(Estimator.__name__, {}))


def small(Estimator, **params):
    """An estimator that fits in milliseconds, by a schedule that does not look ahead."""
    defaults = {"n_components": 5, "n_iter": 3, "batch_size": 10, "random_state": 0}
    if "schedule" in Estimator().get_params():
        defaults["schedule"] = "constant"
    return Estimator(**{**defaults, **params})


def binary_data(n=60, n_features=8, seed=0, dtype=np.float64, p=0.4):
    """Rows of independent bits, of which neighbours agree more often than not."""
    generator = np.random.default_rng(seed)
    X = generator.random((n, n_features)) < p
    copies = generator.random((n, n_features)) < 0.5
    X[:, 1:] = np.where(copies[:, 1:], X[:, :-1], X[:, 1:])
    return X.astype(dtype)


def all_rows(n):
    """Every configuration of ``n`` bits, in the order of the binary numbers."""
    return ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(np.float64)


def parameters(rbm):
    """Weights, hidden and visible biases as float64 copies."""
    names = ("components_", "intercept_hidden_", "intercept_visible_")
    return tuple(np.array(getattr(rbm, name), dtype=np.float64) for name in names)


def log_likelihoods(rbm, X):
    """log p(x) of a small binary machine, skrbm's or scikit-learn's, by sums over all rows."""
    W, c, b = parameters(rbm)

    def unnormalised(V):
        return V @ b + np.logaddexp(0, V @ W.T + c).sum(axis=1)

    return unnormalised(X) - logsumexp(unnormalised(all_rows(W.shape[1])))


def conditional_means(rbm, x):
    """E[v | the entries of x that are not NaN], by a sum over the configurations that agree."""
    V = all_rows(x.size)
    V = V[(np.isnan(x) | (V == x)).all(axis=1)]
    log_p = log_likelihoods(rbm, V)
    return np.exp(log_p - logsumexp(log_p)) @ V


def machine(
    Estimator, n_components=3, n_features=4, seed=0, strength=1.0, dtype=np.float64, **params
):
    """A fitted estimator with known random parameters."""
    generator = np.random.default_rng(seed)
    W = strength * generator.standard_normal((n_components, n_features))
    c, b = (0.5 * generator.standard_normal(n) for n in (n_components, n_features))
    params = {"random_state": 0, "batch_size": 10, **params}
    return Estimator.from_parameters(W.astype(dtype), c.astype(dtype), b.astype(dtype), **params)


def hidden_means(rbm, X):
    W, c, _ = parameters(rbm)
    return expit(X @ W.T + c)


def visible_means(rbm, H):
    W, _, b = parameters(rbm)
    return expit(H @ W + b)


PATTERNS = np.array([[1] * 6 + [0] * 6, [0] * 6 + [1] * 6, [1, 0] * 6, [1, 1, 0] * 4])
FLIP = 0.05


def noisy_patterns(n, seed=0):
    """Rows of 12 bits: one of four patterns, each bit of it flipped with probability 0.05."""
    generator = np.random.default_rng(seed)
    X = PATTERNS[generator.integers(len(PATTERNS), size=n)]
    return np.abs(X - (generator.random(X.shape) < FLIP))


def law_of_noisy_patterns():
    """All 4096 rows and their probabilities."""
    V = all_rows(12)
    distance = np.abs(V[:, None] - PATTERNS).sum(axis=2)
    return V, (FLIP**distance * (1 - FLIP) ** (12 - distance)).mean(axis=1)


def divergence_from_noisy_patterns(log_likelihood):
    """KL(law of the patterns || model) in nats, exactly; independent bits have 3.92."""
    V, p = law_of_noisy_patterns()
    return float(p @ (np.log(p) - log_likelihood(V)))


def independent_bits(V):
    """Log-likelihood of the best model of independent bits for the noisy patterns."""
    rows, p = law_of_noisy_patterns()
    mean = p @ rows
    return (V * np.log(mean) + (1 - V) * np.log(1 - mean)).sum(axis=1)


def tiny(Estimator, **params):
    """Any estimator of the package, one that fits in milliseconds."""
    sizes = {
        "DeepTAPMachine": {"n_components": (4, 3), "n_iter_pretrain": 1},
        "FrankWolfeRBM": {"max_components": 3, "n_chains": 20, "n_restarts": 2},
    }
    usual = {"n_components": 4, "n_iter": 2, "random_state": 0}
    known = Estimator().get_params()
    usual = {name: value for name, value in usual.items() if name in known}
    return Estimator(**{**usual, **sizes.get(Estimator.__name__, {}), **params})


def learn(estimator, X):
    """Fit to X; a classifier to two outputs."""
    n = X.shape[0]
    Y = np.stack([np.arange(n) % 2, np.arange(n) % 3 == 0], axis=1).astype(int)
    return estimator.fit(X, Y) if is_classifier(estimator) else estimator.fit(X)
