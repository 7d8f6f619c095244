"""Weights and clusters of similar sequences."""

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from .._checks import check_number
from ._alphabet import check_codes

_BLOCK = 2**21  # pairs that are compared together, whose counts fit into the cache


def sequence_weights(codes, max_distance=0.2):
    """Return weights that correct for groups of similar sequences.

    The weight of a sequence is 1 over the number of sequences within a distance of it, including
    itself. The distance is the fraction of sites at which two sequences differ; sites missing in
    either are ignored. The sum of the weights is the effective number of sequences.

    Parameters
    ----------
    codes : array-like of int of shape (n_sequences, n_sites)
        Codes of the letters; -1 is missing. Gaps count as letters.
    max_distance : float in [0, 1), default=0.2
        Maximum distance of a neighbour: 0.2 for a sequence identity of at least 80 %.

    Returns
    -------
    ndarray of shape (n_sequences,)
        Weights, which can be passed to ``fit`` as ``sample_weight``.
    """
    codes = check_codes(codes)
    counts = np.ones(len(codes))
    for earlier, later in _neighbours(codes, max_distance):
        counts += np.bincount(earlier, minlength=len(counts))
        counts += np.bincount(later, minlength=len(counts))
    return 1.0 / counts


def sequence_clusters(codes, max_distance=0.2):
    """Return single-linkage clusters of sequences.

    Used as groups in scikit-learn's ``GroupKFold`` and ``GroupShuffleSplit``, they keep close
    relatives of the test sequences out of the training set.

    Parameters
    ----------
    codes : array-like of int of shape (n_sequences, n_sites)
    max_distance : float in [0, 1), default=0.2
        Maximum distance of neighbours, as in :func:`sequence_weights`.

    Returns
    -------
    ndarray of int of shape (n_sequences,)
        The cluster of each sequence, counted from 0.
    """
    codes = check_codes(codes)
    clusters = np.arange(len(codes))
    for earlier, later in _neighbours(codes, max_distance):
        n = clusters.max() + 1
        linked = np.ones(len(earlier), dtype=bool), (clusters[earlier], clusters[later])
        clusters = connected_components(sp.coo_array(linked, shape=(n, n)))[1][clusters]
    return clusters


def _neighbours(codes, max_distance):
    """Yield the pairs of neighbours in blocks, as index arrays of the first and the second."""
    check_number("max_distance", max_distance, at_least=0, below=1)
    n, n_sites = codes.shape
    small = codes.astype(np.int8 if codes.max() < 128 else np.int64)  # bytes are compared fastest
    sites = np.ascontiguousarray(small.T)
    known = (codes >= 0).astype(np.float32)
    n_known = known.sum(axis=1)
    for start in range(0, n, max(1, _BLOCK // n)):  # rows, each against itself and later ones
        rows = slice(start, start + max(1, _BLOCK // n))
        shape = len(codes[rows]), n - start
        different = np.zeros(shape, dtype=np.uint8 if n_sites < 256 else np.int32)
        differs = np.empty(shape, dtype=bool)
        for site in sites:
            np.not_equal(site[rows, None], site[start:], out=differs)
            different += differs.view(np.uint8)
        if n_known.min() == n_sites:
            near = different <= int(_limit(max_distance, n_sites))  # an int keeps the counts bytes
        else:  # sites where one is missing were counted, and are not sites of the pair
            common = known[rows] @ known[start:].T
            one_missing = n_known[rows, None] + n_known[start:] - 2 * common
            near = (different - one_missing <= _limit(max_distance, common)) & (common > 0)
        earlier, later = np.nonzero(np.triu(near, 1))
        yield earlier + start, later + start


def _limit(max_distance, n_sites):
    """Return the largest number of different sites, robust to rounding."""
    return np.floor(max_distance * n_sites + 1e-9)
