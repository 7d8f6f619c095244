"""How samples agree with data: connected moments, neighbours, and both by sweeps."""

from itertools import combinations
from math import comb, nan
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri
from sklearn.neighbors import NearestNeighbors

from ..arrays import row_blocks

_MOST_MOMENTS = 5000  # of one order that are compared
_BLOCK_ROWS = 128
_SOME_ROWS = 300  # that tell how correlated moments are
_CHANCE = 1e-4  # of an error above its limit


class ComparedMoments(NamedTuple):
    """Connected moments of one order, of data and of samples.

    Attributes
    ----------
    data, samples : ndarray of shape (n_moments,)
        Means of (products of) deviations from the columns' means; means themselves for order 1.
    correlation : float
        Pearson correlation of the two.
    slope : float
        Of the line of least squares through the moments of samples over those of data.
    error : float
        Root of the mean squared difference.
    noise : float
        What ``error`` would be, for as many independent rows, if the distributions were equal.
    limit : float
        What ``error`` would then exceed with a probability of 1e-4 (by Satterthwaite's degrees of
        freedom, as moments are correlated).
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

    The error is the root of the mean squared difference of means to those of data, plus the mean
    squared difference of second moments about the means of the data.

    Attributes
    ----------
    sweeps : ndarray of int of shape (n_marks,)
    error, error_std : ndarray of shape (n_marks,)
        The error and its standard error (jackknife over chains).
    noise : float
        The error that as many rows of the data's own distribution would have.
    fall, fall_std, rise, rise_std : float
        How far the error falls from the start to its minimum, how far it rises from there to the
        end, and standard errors.
    n_chains : int
        Chains from random starts. Standard errors of few are uncertain themselves.
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
        Part of the rows of data whose nearest other row of data is closer than the nearest sample.
        Below 0.5 samples are copies of data, above 0.5 they miss parts of the data.
    synth : float
        The same of samples. Above 0.5 samples are closer to each other than to data.
    std : float
        Standard error of each, if rows are independent.
    """

    truth: float = nan
    synth: float = nan
    std: float = nan


def index_sets(n, order, generator):
    """Return sets of ``order`` columns out of ``n``, at random if there are very many.

    Returns
    -------
    ndarray of int of shape (n_sets, order)
    """
    if comb(n, order) <= _MOST_MOMENTS:
        return np.array(list(combinations(range(n), order)), dtype=np.intp).reshape(-1, order)
    drawn = np.sort(generator.integers(n, size=(2 * _MOST_MOMENTS, order)), axis=1)
    drawn = np.unique(drawn[(np.diff(drawn, axis=1) > 0).all(axis=1)], axis=0)
    return generator.permutation(drawn)[:_MOST_MOMENTS]


def compared_moments(X, samples, order, generator):
    """Return the connected moments of one order of both, as :class:`ComparedMoments`."""
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
    some = X[generator.permutation(len(X))[:_SOME_ROWS]] - X.mean(axis=0)
    n = _degrees_of_freedom(_products(some, index))
    limit = noise * np.sqrt(chdtri(n, _CHANCE) / n)
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
    """Return the adversarial accuracy of as many rows of both, as :class:`Neighbours`.

    A row that is as far from one set as from the other counts half.
    """
    accuracies = []
    for own, other in ((X, samples), (samples, X)):
        within, across = _nearest(own), _nearest(other, own)
        accuracies.append(float(np.mean((across > within) + 0.5 * (across == within))))
    return Neighbours(*accuracies, 0.5 / np.sqrt(len(X)))


def _nearest(rows, queries=None):
    """Return the distance of each query to the nearest row, or of each row to the nearest other."""
    return NearestNeighbors(n_neighbors=1, algorithm="brute").fit(rows).kneighbors(queries)[0][:, 0]


def quality_by_sweeps(X, states, generator):
    """Return how far moments of chains are from those of data, as :class:`Quality`.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
    states : dict of int to ndarray of shape (n_chains, n_columns)
        Values of the same chains by their number of sweeps, in rising order.
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
