"""Frequencies of letters at sites and at pairs of sites."""

import numpy as np

from .._checks import check_count, check_number
from ..inputs import check_weights
from ._alphabet import check_codes

_BLOCK_ROWS = 2048


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
        Part of the uniform distribution that is mixed in: (1 - a) f + a / n_letters.

    Returns
    -------
    ndarray of shape (n_sites, n_letters), float64
        Rows sum to 1. A site without any letter has the uniform distribution.
    """
    codes, weights = _checked(codes, n_letters, sample_weight)
    check_number("pseudo_count", pseudo_count, at_least=0, at_most=1)
    counts = np.stack([_counts(site, weights, n_letters) for site in codes.T])
    return _mixed(_frequencies(counts, counts.sum(axis=1, keepdims=True)), pseudo_count, n_letters)


def pair_statistics(codes, n_letters, sample_weight=None, *, pseudo_count=0.0):
    """Return the frequency of each pair of letters at each pair of sites.

    Parameters
    ----------
    codes : array-like of int of shape (n_sequences, n_sites)
        A pair counts where both letters are known.
    n_letters : int
    sample_weight : array-like of shape (n_sequences,), default=None
    pseudo_count : float in [0, 1], default=0.0
        Part of the uniform distribution over pairs that is mixed in, at one site that over letters.

    Returns
    -------
    ndarray of shape (n_sites, n_letters, n_sites, n_letters), float64
        Entry (i, a, j, b); at one site the frequencies of letters where a = b, and 0 elsewhere.
    """
    codes, weights = _checked(codes, n_letters, sample_weight)
    check_number("pseudo_count", pseudo_count, at_least=0, at_most=1)
    n_sites, n = codes.shape[1], codes.shape[1] * n_letters
    counts, known = np.zeros((n, n)), np.zeros((n_sites, n_sites))
    for start in range(0, len(codes), _BLOCK_ROWS):
        block, w = codes[start : start + _BLOCK_ROWS], weights[start : start + _BLOCK_ROWS, None]
        X = (block[:, :, None] == np.arange(n_letters)).reshape(len(block), n).astype(np.float64)
        is_known = (block >= 0).astype(np.float64)
        counts += X.T @ (w * X)
        known += is_known.T @ (w * is_known)
    counts = counts.reshape(n_sites, n_letters, n_sites, n_letters)
    found = _frequencies(counts, known[:, None, :, None], n_letters**2)
    found = _mixed(found, pseudo_count, n_letters**2)
    sites = np.arange(n_sites)
    own = profile(codes, n_letters, weights, pseudo_count=pseudo_count)
    found[sites, :, sites, :] = own[:, :, None] * np.eye(n_letters)
    return found


def connected_correlations(codes, n_letters, sample_weight=None, *, pseudo_count=0.0):
    """Return how far the frequencies of pairs are from those of independent sites.

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
    more = {"sample_weight": sample_weight, "pseudo_count": pseudo_count}
    own = profile(codes, n_letters, **more)
    return pair_statistics(codes, n_letters, **more) - own[:, :, None, None] * own


def pair_correlation(codes, others, n_letters, sample_weight=None, other_weight=None):
    """Return the Pearson correlation of connected pair correlations of data and of samples.

    All pairs of letters at all pairs of different sites count. The noise of few sequences makes it
    smaller: compare with that of two halves of the data.

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
        NaN if all connected correlations of one of them are equal, or there is one site alone.
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


def _checked(codes, n_letters, sample_weight):
    check_count("n_letters", n_letters, 2)
    codes = check_codes(codes, n_letters)
    weights = check_weights(sample_weight, codes)
    return codes, np.ones(len(codes)) if weights is None else weights


def _counts(site, weights, n_letters):
    """Return the weight of each letter at one site."""
    return np.bincount(site[site >= 0], weights[site >= 0], minlength=n_letters)


def _frequencies(counts, total, n=None):
    """Return counts over their sum, and the uniform distribution where nothing was counted."""
    n = counts.shape[-1] if n is None else n
    return np.where(total > 0, counts / np.where(total > 0, total, 1.0), 1.0 / n)


def _mixed(frequencies, part, n):
    return (1 - part) * frequencies + part / n
