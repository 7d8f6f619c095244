"""Frequencies of letters at sites and at pairs of sites."""

import numpy as np
import scipy.sparse as sp

from .._checks import check_count, check_number
from ..inputs import check_weights
from ._alphabet import check_codes


def profile(codes, n_letters, sample_weight=None, *, pseudo_count=0.0):
    """Return the frequency of each letter at each site.

    Parameters
    ----------
    codes : array-like of int of shape (n_sequences, n_sites)
        -1 is missing and does not count.
    n_letters : int
    sample_weight : array-like of shape (n_sequences,), default=None
        Such as those of :func:`sequence_weights`.
    pseudo_count : float in [0, 1], default=0.0
        Fraction a of the uniform distribution in the mixture (1 - a) f + a / n_letters.

    Returns
    -------
    ndarray of shape (n_sites, n_letters), float64
        Rows sum to 1. A site without any letter has the uniform distribution.
    """
    X, weights = _one_hot(codes, n_letters, sample_weight)
    counts = (X.T @ weights).reshape(-1, n_letters)
    return _frequencies(counts, counts.sum(axis=1, keepdims=True), n_letters, pseudo_count)


def pair_statistics(codes, n_letters, sample_weight=None, *, pseudo_count=0.0):
    """Return the frequency of each pair of letters at each pair of sites.

    Parameters
    ----------
    codes : array-like of int of shape (n_sequences, n_sites)
        A pair counts if both letters are known.
    n_letters : int
    sample_weight : array-like of shape (n_sequences,), default=None
    pseudo_count : float in [0, 1], default=0.0
        Fraction of the uniform distribution over pairs, or at one site over letters.

    Returns
    -------
    ndarray of shape (n_sites, n_letters, n_sites, n_letters), float64
        Entry (i, a, j, b); at one site the frequencies of letters where a = b, and 0 elsewhere.
    """
    X, weights = _one_hot(codes, n_letters, sample_weight)
    n_sites = X.shape[1] // n_letters
    counts = (X.T @ (X * weights[:, None])).toarray().reshape(2 * (n_sites, n_letters))
    known = counts.sum(axis=(1, 3), keepdims=True)
    found = _frequencies(counts, known, n_letters**2, pseudo_count)
    sites = np.arange(n_sites)
    own = profile(codes, n_letters, weights, pseudo_count=pseudo_count)
    found[sites, :, sites, :] = own[:, :, None] * np.eye(n_letters)
    return found


def connected_correlations(codes, n_letters, sample_weight=None, *, pseudo_count=0.0):
    """Return the connected correlations of pairs of letters.

    Parameters
    ----------
    codes : array-like of int of shape (n_sequences, n_sites)
        -1 is missing and does not count.
    n_letters : int
    sample_weight : array-like of shape (n_sequences,), default=None
    pseudo_count : float in [0, 1], default=0.0
        As in :func:`pair_statistics`.

    Returns
    -------
    ndarray of shape (n_sites, n_letters, n_sites, n_letters), float64
        f_ij(a, b) - f_i(a) f_j(b).
    """
    own = profile(codes, n_letters, sample_weight, pseudo_count=pseudo_count)
    pairs = pair_statistics(codes, n_letters, sample_weight, pseudo_count=pseudo_count)
    return pairs - own[:, :, None, None] * own


def pair_correlation(codes, others, n_letters, sample_weight=None, other_weight=None):
    """Return the Pearson correlation of connected pair correlations of data and of samples.

    All pairs of letters at all pairs of different sites count. Sampling noise lowers it: compare
    with that of two halves of the data.

    Parameters
    ----------
    codes : array-like of int of shape (n_sequences, n_sites)
    others : array-like of int of shape (n_others, n_sites)
        Such as samples of a machine.
    n_letters : int
    sample_weight : array-like of shape (n_sequences,), default=None
        Weights of ``codes``.
    other_weight : array-like of shape (n_others,), default=None
        Weights of ``others``.

    Returns
    -------
    float
        NaN if the connected correlations of one of them are constant, or there is one site.
    """
    found = connected_correlations(codes, n_letters, sample_weight)
    other = connected_correlations(others, n_letters, other_weight)
    if found.shape != other.shape:
        raise ValueError(f"codes have {found.shape[0]} sites, but others {other.shape[0]}")
    i, j = np.triu_indices(found.shape[0], 1)
    x, y = (part[i, :, j, :].ravel() for part in (found, other))
    if not x.size:
        return float("nan")
    x, y = x - x.mean(), y - y.mean()
    size = np.sqrt((x @ x) * (y @ y))
    return float(x @ y / size) if size > 0 else float("nan")


def _one_hot(codes, n_letters, sample_weight):
    """Return sparse one-hot columns, all 0 at missing letters, and weights."""
    check_count("n_letters", n_letters, 2)
    codes = check_codes(codes, n_letters)
    weights = check_weights(sample_weight, codes)
    rows, sites = np.nonzero(codes >= 0)
    columns = sites * n_letters + codes[rows, sites]
    shape = len(codes), codes.shape[1] * n_letters
    X = sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
    return X, np.ones(len(codes)) if weights is None else weights


def _frequencies(counts, total, n, pseudo_count):
    """Return normalized counts, uniform if nothing was counted, with a pseudo-count."""
    check_number("pseudo_count", pseudo_count, at_least=0, at_most=1)
    found = np.where(total > 0, counts / np.where(total > 0, total, 1.0), 1.0 / n)
    return (1 - pseudo_count) * found + pseudo_count / n
