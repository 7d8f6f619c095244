"""Agreement of samples with data: connected moments and nearest neighbours."""

from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri, ndtr, stdtrit
from sklearn.neighbors import NearestNeighbors

from ..arrays import block_rows, row_blocks

N_STD = 4  # standard errors of a significant difference: a chance of 3e-5 for a normal one
_MAX_MOMENTS = 5000  # of each order
_N_COVARIANCE_ROWS = 300  # for the degrees of freedom of moments
_LEVEL = 1e-4  # probability of an error above its limit


class ComparedMoments(NamedTuple):
    """Connected moments of one order, of ``data`` and of ``samples``, and how they agree.

    They are means of (products of) deviations from the columns' means, or these means for order 1.
    Independent rows of the same distribution have a root mean squared ``error`` above ``limit``
    with a probability of 1e-4 (with Satterthwaite's degrees of freedom).
    """

    data: np.ndarray
    samples: np.ndarray
    correlation: float
    error: float
    limit: float


class Quality(NamedTuple):
    """Errors of the moments of samples after numbers of Gibbs ``sweeps`` from random starts.

    ``error`` is the root of the mean squared differences of first and second moments (about the
    means of the data), ``error_std`` its jackknife standard error, ``noise`` the error of as many
    rows of the data. It ``deteriorates`` if it falls and then rises, both significantly.
    """

    sweeps: np.ndarray
    error: np.ndarray
    error_std: np.ndarray
    noise: float
    deteriorates: bool


class Neighbours(NamedTuple):
    """Nearest-neighbour adversarial accuracy (Yale et al. 2020); 0.5 is the best value.

    ``truth`` is the fraction of rows of data whose nearest other row is closer than the nearest
    sample: below 0.5 samples copy the data, above they miss parts of it. ``synth`` is the same of
    samples, and ``std`` the standard error of each for independent rows.
    """

    truth: float
    synth: float
    std: float


def compared_moments(X, samples, order, generator):
    index, found = _index_sets(X.shape[1], order, generator), []
    for rows in (X, samples):
        centre = rows.mean(axis=0)
        mean, variance = _mean_variance(rows - centre, lambda block: _products(block, index))
        found.append((mean + centre if order == 1 else mean, variance.mean() / len(rows)))
    (data, data_noise), (model, model_noise) = found
    x, y = data - data.mean(), model - model.mean()
    with np.errstate(invalid="ignore", divide="ignore"):  # moments that are all equal
        correlation = float(x @ y / np.sqrt(x @ x * (y @ y)))
    error = float(np.sqrt(np.mean((data - model) ** 2)))
    # The squared error is nearly chi squared, with the degrees of freedom (tr C)**2 / tr(C**2) of
    # the covariance C of the products, whose traces are estimated from inner products of rows.
    some = X[generator.permutation(len(X))[:_N_COVARIANCE_ROWS]] - X.mean(axis=0)
    rows = _products(some, index)
    rows = rows - rows.mean(axis=0)
    inner, n, dof = rows @ rows.T, len(rows), 1.0
    own = np.diag(inner)
    others = (np.sum(inner**2) - own @ own) / max(n * (n - 1), 1)
    if others > 0:
        dof = max(own.mean() ** 2 / others, 1.0)
    limit = float(np.sqrt(data_noise + model_noise) * np.sqrt(chdtri(dof, _LEVEL) / dof))
    return ComparedMoments(data, model, correlation, error, limit)


def _index_sets(n, order, generator):
    """Return all sets of ``order`` columns, or random ones, of shape (n_sets, order)."""
    if comb(n, order) <= _MAX_MOMENTS:
        return np.array(list(combinations(range(n), order)), dtype=np.intp).reshape(-1, order)
    drawn = np.sort(generator.integers(n, size=(2 * _MAX_MOMENTS, order)), axis=1)
    drawn = np.unique(drawn[(np.diff(drawn, axis=1) > 0).all(axis=1)], axis=0)
    return generator.permutation(drawn)[:_MAX_MOMENTS]


def _products(rows, index):
    products = rows[:, index[:, 0]]
    for column in index.T[1:]:
        products = products * rows[:, column]
    return products


def _mean_variance(rows, function):
    """Return mean and variance over rows of a function of blocks of rows."""
    total = squares = 0.0
    for block in row_blocks(rows, block_rows(_MAX_MOMENTS)):
        values = function(block)
        total = total + values.sum(axis=0)
        squares = squares + (values**2).sum(axis=0)
    mean = total / len(rows)
    return mean, squares / len(rows) - mean**2


def neighbours(X, samples):
    """Return the :class:`Neighbours` of equally many rows of both; ties count half."""
    accuracies = []
    for own, other in ((X, samples), (samples, X)):
        nearest = NearestNeighbors(n_neighbors=1, algorithm="brute")
        within = nearest.fit(own).kneighbors()[0][:, 0]
        across = nearest.fit(other).kneighbors(own)[0][:, 0]
        accuracies.append(float(np.mean((across > within) + 0.5 * (across == within))))
    return Neighbours(*accuracies, 0.5 / np.sqrt(len(X)))


def quality_by_sweeps(X, states, generator):
    """Return the :class:`Quality` of samples ``states``, a dict by ascending numbers of sweeps."""
    centre, index = X.mean(axis=0), _index_sets(X.shape[1], 2, generator)

    def terms(rows):  # the sum of squares of whose means is the squared error
        products = _products(rows, index) / np.sqrt(len(index))
        return np.concatenate([rows / np.sqrt(X.shape[1]), products], axis=1)

    truth, variance = _mean_variance(X - centre, terms)
    errors, left_out = [], []  # of all chains, and of those without each one
    for rows in states.values():
        differences = terms(rows - centre) - truth
        n, total = len(rows), differences.sum(axis=0)
        errors.append(np.linalg.norm(total) / n)
        left_out.append(np.linalg.norm(total - differences, axis=1) / (n - 1))
    errors, left_out = np.array(errors), np.array(left_out)
    noise = float(np.sqrt(variance.sum() * (1 / n + 1 / len(X))))

    def jackknife(values):
        return np.sqrt((n - 1) * values.var(axis=-1))

    best, changes = int(np.argmin(errors)), []
    n_std = stdtrit(n - 1, ndtr(N_STD))  # standard errors of few chains are uncertain
    for end in (0, -1):
        std = jackknife(left_out[end] - left_out[best])
        changes.append(errors[end] - errors[best] > n_std * std)
    return Quality(np.array([*states]), errors, jackknife(left_out), noise, bool(all(changes)))
