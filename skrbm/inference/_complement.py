"""Factors and inverses of I - K K' and I - K' K, for adaptive TAP."""

import numpy as np
from scipy.linalg.blas import dsyrk, dtrmm, ssyrk, strmm
from scipy.linalg.lapack import dpotrf, dtrtri, spotrf, strtri

from ..arrays import cholesky, is_foreign, like, namespace

_TRIANGULAR = {
    np.dtype(np.float32): (ssyrk, spotrf, strtri, strmm),
    np.dtype(np.float64): (dsyrk, dpotrf, dtrtri, dtrmm),
}


def complement_factors(K):
    """Factor I - K K' of matrices of shape (n_matrices, n, m); return parts of the inverse.

    Returns
    -------
    diagonal : array of shape (n_matrices, n)
        The diagonal of U, which is upper triangular with U' U = I - K K'.
    V : array of shape (n_matrices, n, n)
        The inverse of U, so that V V' is the inverse of I - K K'.
    Y : array of shape (n_matrices, n, m)
        V' K, so that I + Y' Y is the inverse of I - K' K.
    excess : array of shape (n_matrices, n)
        The diagonal of V V' minus 1. It is a sum of squares and so accurate for tiny K too.
    is_definite : array of shape (n_matrices,), bool
        Whether I - K K' is positive definite; the factors mean nothing if not.
    """
    if is_foreign(K):
        diagonal, V, Y, squares, above, right, is_definite = _library_factors(K)
    else:
        parts = zip(*map(_blas_factors, K), strict=True)
        diagonal, V, Y, squares, above, right, is_definite = (
            part[0][None] if len(K) == 1 else np.stack(part) for part in parts
        )
    # squares + above = 1 - diagonal**2, without the rounding error of that difference.
    return diagonal, V, Y, (squares + above) / diagonal**2 + right, is_definite


def _library_factors(K):
    """Return the diagonal of U, V, Y, sums of squares off the diagonal, and ``is_definite``.

    The sums are over the rows of K, the columns of U and the rows of V.
    """
    xp = namespace(K)
    squares, eye = xp.sum(K * K, axis=-1), xp.eye(K.shape[-2], **like(K))
    L = cholesky(eye - K @ K.mT)
    is_definite = xp.all(xp.isfinite(xp.linalg.diagonal(L)), axis=-1)
    L = xp.where(is_definite[:, None, None], L, eye)
    V = xp.linalg.solve(L.mT, xp.broadcast_to(eye, L.shape))  # CuPy does not broadcast it
    above, right = xp.sum(xp.tril(L, k=-1) ** 2, axis=-1), xp.sum(xp.triu(V, k=1) ** 2, axis=-1)
    return xp.linalg.diagonal(L), V, V.mT @ K, squares, above, right, is_definite


def _blas_factors(K):
    """Do the same for one matrix of NumPy.

    Routines for symmetric and triangular matrices halve the number of operations.
    """
    n, index = K.shape[0], np.arange(K.shape[0])
    if n == 0:
        none = K[:, 0]
        return none, K[:, :0], K, none, none, none, np.True_
    syrk, potrf, trtri, trmm = _TRIANGULAR[K.dtype]
    M = syrk(-1.0, K.T, trans=True)
    squares = -M[index, index]
    M[index, index] += 1
    U, info = potrf(M, overwrite_a=True, clean=False)  # syrk left zeros below the diagonal
    if info:
        ones = np.ones(n, K.dtype)
        return ones, np.eye(n, dtype=K.dtype), K, ones, ones, ones, np.False_
    diagonal = U[index, index]
    U[index, index] = 0
    above = np.einsum("ij,ij->j", U, U)
    U[index, index] = diagonal
    V, _ = trtri(U, overwrite_c=True)
    V[index, index] = 0
    right = np.einsum("ij,ij->i", V, V)
    V[index, index] = 1 / diagonal
    return diagonal, V, trmm(1.0, V, K.T, side=True).T, squares, above, right, np.True_
