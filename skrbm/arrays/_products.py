"""Products of matrices, which take most of the time in training."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from scipy.linalg.blas import dgemm, sgemm

from ._namespace import Array, is_foreign, is_sparse, is_torch
from ._threads import share, split

Terms: TypeAlias = Sequence[tuple[Array, Array, float]]

# OpenBLAS does a product of at most 10**6 multiplications without copying the factors into panels.
# For a few rows that copy takes most of the time, so their products are done in parts.
_NOT_PACKED, _FEW_ROWS, _LEAST_WIDTH = 8 * 10**5, 20, 16
_SPARSE_BLOCK = 2**17  # numbers of a sparse product that is added; many need new pages each time

_GEMM = {np.dtype(np.float32): sgemm, np.dtype(np.float64): dgemm}


# BLAS reads a little beyond short rows, and may flag what it finds there, though no result has it.
@np.errstate(invalid="ignore")
def matmul(X: Array, A: Array) -> Array:
    """X @ A for a dense or a sparse X; the result is dense.

    All large products go through here: sparse X stays sparse, and NumPy's products use the threads
    that :func:`one_blas_thread` leaves to us.
    """
    if type(X) is np.ndarray:  # the usual type is checked first
        if X.shape[0] * A.size <= _NOT_PACKED:
            return X.dot(A)  # in less time than X @ A takes
    elif is_sparse(X):
        return np.asarray(X @ A)
    elif is_foreign(X):
        return X @ A
    if X.ndim != 2 or A.ndim != 2 or X.dtype != A.dtype:
        return X @ A
    n_rows, n_columns, work = X.shape[0], A.shape[1], X.shape[0] * A.size
    parts = split(max(n_rows, n_columns), work)
    if len(parts) > 1:
        out = np.empty((n_rows, n_columns), X.dtype)
        share(_fill_rows if n_rows > n_columns else _fill_columns, parts, out, X, A)
        return out
    n_parts = -(-work // _NOT_PACKED)
    if 1 < n_rows <= _FEW_ROWS and 1 < n_parts <= n_columns // _LEAST_WIDTH:
        out, width = np.empty((n_rows, n_columns), X.dtype), -(-n_columns // n_parts)
        for start in range(0, n_columns, width):
            _fill_columns(slice(start, start + width), out, X, A)
        return out
    return X @ A


def _fill_rows(rows: slice, out: Array, X: Array, A: Array) -> None:
    np.matmul(X[rows], A, out=out[rows])


def _fill_columns(columns: slice, out: Array, X: Array, A: Array) -> None:
    np.matmul(X, A[:, columns], out=out[:, columns])


def add_products(out: Array, terms: Terms, keep: float = 1.0) -> Array:
    """out = keep * out + sum of alpha * left.T @ right, in place where the library can.

    Returns ``out``. ``terms`` are tuples (left, right, alpha), of which ``right`` may be sparse.
    For NumPy each dense one is one BLAS call that accumulates into ``out``, if one thread is to do
    it. SciPy's wrapper writes into read-only arrays and works on a silent copy of an unsuitable
    ``out``, hence the checks.
    """
    if not terms or is_foreign(out):
        return _add_foreign(out, terms, keep)
    dtype, n_rows, sparse = out.dtype, 0, False
    if not (out.flags.carray and dtype in _GEMM):
        raise ValueError(
            "the accumulator must be a writeable C-contiguous float32 or float64 array"
        )
    for left, right, _ in terms:
        if not left.dtype == dtype == right.dtype:
            raise ValueError(f"factors of {left.dtype} and {right.dtype} into {dtype}")
        n_rows, values = n_rows + left.shape[0], right
        if is_sparse(right):
            sparse, values = True, right.data
        if np.may_share_memory(out, left) or np.may_share_memory(out, values):
            raise ValueError("the accumulator shares memory with a factor")
    if sparse:
        size = max(1, _SPARSE_BLOCK // out.shape[1])
        for start in range(0, out.shape[0], size):
            _add_rows(slice(start, start + size), out, terms, keep)
        return out
    parts = split(out.shape[0], n_rows * out.size)
    if len(parts) > 1:
        share(_add_rows, parts, out, terms, keep)
        return out
    gemm = _GEMM[dtype]
    for left, right, alpha in terms:
        gemm(alpha, right.T, left.T, beta=keep, c=out.T, trans_b=True, overwrite_c=True)
        keep = 1.0
    return out


def _add_foreign(out: Array, terms: Terms, keep: Any) -> Array:
    """Do the same in another library than NumPy; ``keep`` and ``alpha`` may be on a device."""
    if is_foreign(keep) or keep != 1:
        out *= keep
    for left, right, alpha in terms:
        if is_torch(out) and not is_foreign(alpha):
            out.addmm_(left.T, right, alpha=alpha)  # one operation of a GPU
        else:
            out += alpha * (left.T @ right)
    return out


def _add_rows(rows: slice, out: Array, terms: Terms, keep: float) -> None:
    """Add to some rows of ``out``, by calls that let other threads run, as SciPy's BLAS does not.

    Products that are dense are temporary.
    """
    if keep != 1:
        out[rows] = keep * out[rows] if keep else 0
    for left, right, alpha in terms:
        out[rows] += (float(alpha) * left[:, rows]).T @ right
