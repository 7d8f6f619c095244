"""Frequencies of letters at sites and at pairs of sites."""

import numpy as np
import scipy.sparse as sp

from .._checks import check_count
from ..inputs import check_weights
from ._alphabet import check_codes


def profile(codes, n_letters, sample_weight=None):
    """Return the frequency of each letter at each site.

    Parameters
    ----------
    codes : array-like of int of shape (n_sequences, n_sites)
        Codes of the letters; -1 is missing and ignored.
    n_letters : int
    sample_weight : array-like of shape (n_sequences,), default=None
        Such as those of :func:`sequence_weights`.

    Returns
    -------
    ndarray of shape (n_sites, n_letters), float64
        Rows sum to 1. A site without any letter has the uniform distribution.
    """
    X, weights = _known_letters(codes, n_letters, sample_weight)
    return _frequencies((X.T @ weights).reshape(-1, n_letters), (1,))


def connected_correlations(codes, n_letters, sample_weight=None):
    """Return the connected correlations f_ij(a, b) - f_i(a) f_j(b) of pairs of letters.

    Parameters
    ----------
    codes : array-like of int of shape (n_sequences, n_sites)
        Codes of the letters; -1 is missing. Pairs with a missing letter are ignored.
    n_letters : int
    sample_weight : array-like of shape (n_sequences,), default=None
        Such as those of :func:`sequence_weights`.

    Returns
    -------
    ndarray of shape (n_sites, n_letters, n_sites, n_letters), float64
        Correlations with indices (i, a, j, b).
    """
    X, weights = _known_letters(codes, n_letters, sample_weight)
    shape = X.shape[1] // n_letters, n_letters
    pairs = _frequencies((X.T @ (X * weights[:, None])).toarray().reshape(2 * shape), (1, 3))
    own, sites = profile(codes, n_letters, sample_weight), np.arange(shape[0])
    pairs[sites, :, sites, :] = own[:, :, None] * np.eye(n_letters)
    return pairs - own[:, :, None, None] * own


def pair_correlation(codes, others, n_letters, sample_weight=None, other_weight=None):
    """Return the Pearson correlation between the connected correlations of data and samples.

    It is computed over all pairs of letters at all pairs of different sites. Since sampling noise
    lowers it, compare it with the value between two halves of the data.

    Parameters
    ----------
    codes : array-like of int of shape (n_sequences, n_sites)
    others : array-like of int of shape (n_others, n_sites)
        Other sequences, such as samples of a model.
    n_letters : int
    sample_weight : array-like of shape (n_sequences,), default=None
        Weights of ``codes``.
    other_weight : array-like of shape (n_others,), default=None
        Weights of ``others``.

    Returns
    -------
    float
        The correlation. NaN if the connected correlations of either are constant, or if there is
        only one site.
    """
    found = connected_correlations(codes, n_letters, sample_weight)
    other = connected_correlations(others, n_letters, other_weight)
    if found.shape != other.shape:
        raise ValueError(f"codes have {found.shape[0]} sites, but others {other.shape[0]}")
    i, j = np.triu_indices(found.shape[0], 1)
    if not i.size:
        return float("nan")
    x, y = (part[i, :, j, :] - part[i, :, j, :].mean() for part in (found, other))
    size = np.linalg.norm(x) * np.linalg.norm(y)
    return float((x * y).sum() / size) if size > 0 else float("nan")


def _known_letters(codes, n_letters, sample_weight):
    """Return sparse one-hot columns, all 0 at missing letters, and weights."""
    check_count("n_letters", n_letters, 2)
    codes = check_codes(codes, n_letters)
    weights = check_weights(sample_weight, codes)
    rows, sites = np.nonzero(codes >= 0)
    columns = sites * n_letters + codes[rows, sites]
    shape = len(codes), codes.shape[1] * n_letters
    X = sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
    return X, np.ones(len(codes)) if weights is None else weights


def _frequencies(counts, axes):
    """Return counts that sum to 1 over the axes of letters; they are equal if there were none."""
    total, n = counts.sum(axis=axes, keepdims=True), counts.shape[1] ** len(axes)
    return np.where(total > 0, counts / np.where(total > 0, total, 1.0), 1.0 / n)
