"""Agreement of samples with data: connected moments and nearest neighbours."""

from itertools import combinations
from math import comb, nan
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri
from sklearn.neighbors import NearestNeighbors

from ..arrays import row_blocks

_MAX_MOMENTS = 5000  # of each order
_BLOCK_ROWS = 128
_N_COVARIANCE_ROWS = 300  # for the degrees of freedom of moments
_LEVEL = 1e-4  # probability of an error above its limit


class ComparedMoments(NamedTuple):
    """Connected moments of one order, of data and of samples.

    Attributes
    ----------
    data, samples : ndarray of shape (n_moments,)
        Means of (products of) deviations from the columns' means; means themselves for order 1.
    correlation, slope : float
        Pearson correlation, and slope of the regression of ``samples`` on ``data``.
    error : float
        Root mean squared difference.
    noise, limit : float
        Expectation of ``error`` for independent rows of the same distribution, and the value that
        it would exceed with a probability of 1e-4 (with Satterthwaite's degrees of freedom).
    """

    data: np.ndarray
    samples: np.ndarray
    correlation: float
    slope: float
    error: float
    noise: float
    limit: float


class Quality(NamedTuple):
    """Errors of the moments of samples after a number of Gibbs sweeps from random starts.

    Attributes
    ----------
    sweeps : ndarray of int of shape (n_marks,)
    error, error_std : ndarray of shape (n_marks,)
        Root of the mean squared differences of first and second moments (about the means of the
        data), and its jackknife standard error.
    noise : float
        Error of as many rows of the distribution of the data.
    fall, fall_std, rise, rise_std : float
        Change of the error from the start to its minimum and from there to the end.
    n_chains : int
    """

    sweeps: np.ndarray
    error: np.ndarray
    error_std: np.ndarray
    noise: float
    fall: float
    fall_std: float
    rise: float
    rise_std: float
    n_chains: int


class Neighbours(NamedTuple):
    """Nearest-neighbour adversarial accuracy (Yale et al. 2020); 0.5 is the best value.

    Attributes
    ----------
    truth : float
        Fraction of rows of data whose nearest other row is closer than the nearest sample. Below
        0.5 samples copy the data, above they miss parts of it.
    synth : float
        The same of samples. Above 0.5 they are closer to each other than to data.
    std : float
        Standard error of each for independent rows.
    """

    truth: float = nan
    synth: float = nan
    std: float = nan


def index_sets(n, order, generator):
    """Return all sets of ``order`` columns, or random ones, of shape (n_sets, order)."""
    if comb(n, order) <= _MAX_MOMENTS:
        return np.array(list(combinations(range(n), order)), dtype=np.intp).reshape(-1, order)
    drawn = np.sort(generator.integers(n, size=(2 * _MAX_MOMENTS, order)), axis=1)
    drawn = np.unique(drawn[(np.diff(drawn, axis=1) > 0).all(axis=1)], axis=0)
    return generator.permutation(drawn)[:_MAX_MOMENTS]


def compared_moments(X, samples, order, generator):
    """Return the :class:`ComparedMoments` of one order."""
    index, found = index_sets(X.shape[1], order, generator), []
    for rows in (X, samples):
        centre = rows.mean(axis=0)
        mean, variance = _mean_variance(rows - centre, lambda block: _products(block, index))
        found.append((mean + centre if order == 1 else mean, variance.mean() / len(rows)))
    (data, data_noise), (model, model_noise) = found
    x, y = data - data.mean(), model - model.mean()
    with np.errstate(invalid="ignore", divide="ignore"):  # moments that are all equal
        correlation, slope = x @ y / np.sqrt(x @ x * (y @ y)), x @ y / (x @ x)
    error = np.sqrt(np.mean((data - model) ** 2))
    noise = np.sqrt(data_noise + model_noise)
    some = X[generator.permutation(len(X))[:_N_COVARIANCE_ROWS]] - X.mean(axis=0)
    n = _degrees_of_freedom(_products(some, index))
    limit = noise * np.sqrt(chdtri(n, _LEVEL) / n)
    return ComparedMoments(data, model, *map(float, (correlation, slope, error, noise, limit)))


def _degrees_of_freedom(rows):
    """Return (tr C)**2 / tr(C**2) of the covariance C of rows, at least 1."""
    rows = rows - rows.mean(axis=0)
    products = rows @ rows.T
    own = np.diag(products)
    others = (np.sum(products**2) - own @ own) / max(len(rows) * (len(rows) - 1), 1)
    return max(own.mean() ** 2 / others, 1.0) if others > 0 else 1.0


def _mean_variance(rows, function):
    """Return mean and variance over rows of a function of blocks of rows."""
    total = squares = 0.0
    for block in row_blocks(rows, _BLOCK_ROWS):
        values = function(block)
        total = total + values.sum(axis=0)
        squares = squares + (values**2).sum(axis=0)
    mean = total / len(rows)
    return mean, squares / len(rows) - mean**2


def _products(rows, index):
    first, *others = index.T
    products = rows[:, first]
    for column in others:
        products = products * rows[:, column]
    return products


def neighbours(X, samples):
    """Return the :class:`Neighbours` of equally many rows of both; ties count half."""
    accuracies = []
    for own, other in ((X, samples), (samples, X)):
        within, across = _nearest(own), _nearest(other, own)
        accuracies.append(float(np.mean((across > within) + 0.5 * (across == within))))
    return Neighbours(*accuracies, 0.5 / np.sqrt(len(X)))


def _nearest(rows, queries=None):
    """Return the distance of each query to the nearest row, or of each row to the nearest other."""
    return NearestNeighbors(n_neighbors=1, algorithm="brute").fit(rows).kneighbors(queries)[0][:, 0]


def quality_by_sweeps(X, states, generator):
    """Return the :class:`Quality` of samples.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
    states : dict of int to ndarray of shape (n_chains, n_columns)
        Values of the chains by their number of sweeps, in increasing order.
    generator : numpy.random.Generator
    """
    centre, index = X.mean(axis=0), index_sets(X.shape[1], 2, generator)

    def terms(rows):  # the sum of squares of whose means is the squared error
        products = _products(rows, index) / np.sqrt(len(index))
        return np.concatenate([rows / np.sqrt(X.shape[1]), products], axis=1)

    truth, variance = _mean_variance(X - centre, terms)
    results = [_error(terms(rows - centre) - truth) for rows in states.values()]
    errors, left_out = (np.array(part) for part in zip(*results, strict=True))
    best, n = int(np.argmin(errors)), left_out.shape[1]
    changes = [
        float(part)
        for end in (0, -1)
        for part in (errors[end] - errors[best], _jackknife(left_out[end] - left_out[best]))
    ]
    noise = np.sqrt(variance.sum() * (1 / n + 1 / len(X)))
    return Quality(np.array([*states]), errors, _jackknife(left_out), float(noise), *changes, n)


def _error(differences):
    """Return the root of the sum of squares of the mean difference, and those without each row."""
    n, total = len(differences), differences.sum(axis=0)
    without = np.linalg.norm(total - differences, axis=1) / (n - 1)
    return np.linalg.norm(total) / n, without


def _jackknife(left_out):
    """Return the standard error of a statistic from its values without each chain, in columns."""
    n = left_out.shape[-1]
    return np.sqrt((n - 1) * left_out.var(axis=-1))
