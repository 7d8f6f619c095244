"""Which array library the numbers live in, and the few operations that differ between them.

NumPy 2 is its own array namespace. Another library's arrays (torch, JAX, CuPy,
array-api-strict) are served through ``array-api-compat``, which is imported only
when such an array comes.
"""

from math import exp

import numpy as np
import scipy.sparse as sp
from scipy.linalg.blas import dgemm, dsyrk, dtrmm, sgemm, ssyrk, strmm
from scipy.linalg.lapack import dpotrf, dtrtri, spotrf, strtri
from sklearn.utils.sparsefuncs import mean_variance_axis

from ._threads import one_blas_thread as one_blas_thread
from ._threads import share, split

# OpenBLAS does a product of at most 10**6 multiplications without copying the factors into panels.
# For a few rows that copy takes most of the time, so their products are done in parts.
_NOT_PACKED, _FEW_ROWS, _LEAST_WIDTH = 8 * 10**5, 16, 16

_NUMPY = np.ndarray, np.generic  # a tuple: a union would be built anew in each of many calls
_GEMM = {np.dtype(np.float32): sgemm, np.dtype(np.float64): dgemm}
_TRIANGULAR = {
    np.dtype(np.float32): (ssyrk, spotrf, strtri, strmm),
    np.dtype(np.float64): (dsyrk, dpotrf, dtrtri, dtrmm),
}


def is_foreign(X):
    """Whether X is an array of a library other than NumPy."""
    return not isinstance(X, _NUMPY) and hasattr(X, "__dlpack__")


def namespace(x):
    """Return the array namespace of ``x``; NumPy for everything that is no foreign array."""
    if not is_foreign(x):
        return np
    try:
        import array_api_compat
    except ImportError as error:
        raise ImportError(
            f"an array of type {type(x).__module__}.{type(x).__name__} needs the optional package "
            "array-api-compat: pip install 'skrbm[array]', or pass NumPy arrays"
        ) from error
    return array_api_compat.array_namespace(x)


def like(x):
    """Return the creation arguments that put a new array beside ``x``: its dtype and device."""
    if not is_foreign(x):
        return {"dtype": x.dtype}
    import array_api_compat

    return {"dtype": x.dtype, "device": array_api_compat.device(x)}


def to_numpy(x):
    """Return ``x`` as a NumPy array; the identity for NumPy arrays."""
    if not is_foreign(x):
        return np.asarray(x)
    import array_api_compat

    # Not every library calls its device for NumPy's memory "cpu" alone, nor takes that name.
    if "cpu" not in str(array_api_compat.device(x)).lower():
        x = array_api_compat.to_device(x, "cpu")
    return np.asarray(x)


def from_numpy(x, beside):
    """Return the NumPy array ``x`` as an array of the library and device of ``beside``."""
    if not is_foreign(beside):
        return x
    return namespace(beside).asarray(np.ascontiguousarray(x), device=like(beside)["device"])


def beside(x, other):
    """Return the dense array ``x`` in the library and on the device of ``other``."""
    if not is_foreign(x) and not is_foreign(other):
        return x
    if is_foreign(x) and is_foreign(other) and namespace(x) is namespace(other):
        return namespace(other).asarray(x, device=like(other)["device"])
    return from_numpy(to_numpy(x), other)


def cast(x, dtype):
    """Return ``x`` with ``dtype``, itself where it has it already."""
    return x if x.dtype == dtype else namespace(x).astype(x, dtype)


def working_dtype(X):
    """Return the floating dtype that parameters learnt from ``X`` have.

    The promotion of X's dtype with float32: floating dtypes are kept, bytes and booleans
    become float32, wider integers float64; half precision and long double have no BLAS and
    become the nearest of the two.
    """
    if is_foreign(X):
        xp = namespace(X)
        if X.dtype in (xp.float32, xp.float64):
            return X.dtype
        return xp.float64 if X.dtype in (xp.int32, xp.int64) else xp.float32
    promoted = np.promote_types(X.dtype, np.float32)
    return promoted if promoted in _GEMM else np.dtype(np.float64)


def sigmoid(x):
    """Logistic function, through the vectorised tanh: five times the speed of ``expit``."""
    y = namespace(x).tanh(0.5 * x)
    y *= 0.5
    y += 0.5
    return y


def softplus(x):
    """log(1 + exp(x)) without overflow."""
    xp = namespace(x)
    y = xp.log1p(xp.exp(-xp.abs(x)))
    y += xp.maximum(x, xp.zeros_like(x))
    return y


def log_odds(x, limit):
    """Return log(x / (1 - x)), at most ``limit`` in size."""
    xp = namespace(x)
    dtype, x, tiny = x.dtype, cast(x, xp.float64), exp(-limit)
    odds = xp.log(xp.clip(x, tiny, None)) - xp.log(xp.clip(1 - x, tiny, None))
    return cast(odds, dtype)


def is_finite(x):
    """Whether no entry is infinite or NaN, by a sum, which needs no temporary array."""
    total = float(namespace(x).sum(x))
    return total - total == 0  # neither infinite nor NaN


def log_sum_exp(x):
    """Return log of the sum of exp(x) over the last axis."""
    xp = namespace(x)
    largest = xp.max(x, axis=-1, keepdims=True)
    return largest[..., 0] + xp.log(xp.sum(xp.exp(x - largest), axis=-1))


def cumulative_sum(x):
    """Sum up along the last axis; NumPy 2.0 has the function by its old name alone."""
    xp = namespace(x)
    return np.cumsum(x, axis=-1) if xp is np else xp.cumulative_sum(x, axis=-1)


def row_sums(x):
    """Sum each row in float64."""
    xp = namespace(x)
    return xp.sum(x, axis=-1, dtype=xp.float64)


def matmul(X, A):
    """X @ A for a dense or a sparse X; the result is dense.

    All large products go through here: sparse X stays sparse, and NumPy's products use the threads
    that :func:`one_blas_thread` leaves to us.
    """
    if sp.issparse(X):
        return np.asarray(X @ A)
    if is_foreign(X) or X.ndim != 2 or A.ndim != 2 or X.dtype != A.dtype:
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


def _fill_rows(rows, out, X, A):
    np.matmul(X[rows], A, out=out[rows])


def _fill_columns(columns, out, X, A):
    np.matmul(X, A[:, columns], out=out[:, columns])


def squared(X):
    """X * X elementwise, for a dense or a sparse X."""
    return X.multiply(X).tocsr() if sp.issparse(X) else X * X


def nonzero(X, dtype):
    """1 where a dense or a sparse X is not 0, and 0 elsewhere, with ``dtype``."""
    return (X != 0).astype(dtype) if sp.issparse(X) else cast(X != 0, dtype)


def dense_rows(X, index, dtype):
    """Return the rows of a dense or sparse X at an index array, as one dense array of ``dtype``."""
    rows = X[index].toarray() if sp.issparse(X) else namespace(X).take(X, index, axis=0)
    return cast(rows, dtype)


def take_rows(X, index):
    """Return rows of X at a NumPy index array, in X's own dtype, dense or sparse."""
    if is_foreign(X):
        return namespace(X).take(X, from_numpy(index, X), axis=0)
    return X[index]


def copied(x):
    """Return a copy of an array."""
    return namespace(x).asarray(x, copy=True)


def parameter_place(X):
    """Return an array beside which parameters learnt from X lie, in the dtype that they have."""
    beside = like(X) if is_foreign(X) else {}
    return namespace(X).zeros((1, 1), **{**beside, "dtype": working_dtype(X)})


def row_blocks(X, size):
    """Yield the rows of an array in blocks of at most ``size`` rows.

    Slices end at the last row at most: other libraries need not clip them as NumPy does.
    """
    n = X.shape[0]
    for start in range(0, n, size):
        yield X[start : min(start + size, n), :]


def value_range(X):
    """Return the least and the largest value of a dense or sparse X."""
    values = X.data if sp.issparse(X) else X
    if sp.issparse(X) and values.shape[0] < X.shape[0] * X.shape[1]:
        values = np.append(values, values.dtype.type(0))
    xp = namespace(values)
    if xp.isdtype(values.dtype, "bool"):  # not every library compares booleans
        values = cast(values, xp.uint8)
    return float(xp.min(values)), float(xp.max(values))


def column_means(X):
    """Return the mean of each column, in float64, of a dense or sparse X."""
    if sp.issparse(X):  # scipy's mean would sum in the dtype of X, whatever dtype is asked for
        blocks = (rows.astype(np.float64) for rows in row_blocks(X.tocsr(), 1024))
        return sum(np.asarray(rows.sum(axis=0)).ravel() for rows in blocks) / X.shape[0]
    xp = namespace(X)
    floating = xp.isdtype(X.dtype, "real floating")
    total = 0.0
    for rows in row_blocks(X, 256):  # few rows, so that sums in X's own dtype are accurate
        rows = rows if floating else cast(rows, xp.float32)  # not every library sums booleans
        total = total + cast(xp.sum(rows, axis=0), xp.float64)
    return total / X.shape[0]


def column_moments(X):
    """Return mean and variance of each column, in float64, of a dense or sparse X."""
    if sp.issparse(X):
        return mean_variance_axis(X.astype(np.float64).tocsr(), axis=0)
    xp, n = namespace(X), X.shape[0]

    def blocks():  # float64 copies of blocks, never of the whole
        return (cast(rows, xp.float64) for rows in row_blocks(X, 1024))

    mean = sum(xp.sum(rows, axis=0) for rows in blocks()) / n
    return mean, sum(xp.sum((rows - mean) ** 2, axis=0) for rows in blocks()) / n


def add_products(out, terms, keep=1.0):
    """out = keep * out + sum of alpha * left.T @ right, in place where the library can.

    Returns ``out``. ``terms`` are tuples (left, right, alpha), one at least. For NumPy each is one
    BLAS call that accumulates into ``out``, if one thread is to do it. SciPy's wrapper writes into
    read-only arrays and works on a silent copy of an unsuitable ``out``, hence the checks.
    """
    if is_foreign(out):
        if keep != 1:
            out *= keep
        for left, right, alpha in terms:
            out += alpha * (left.T @ right)
        return out
    _check_accumulator(out, terms)
    parts = split(out.shape[0], sum(left.shape[0] for left, _, _ in terms) * out.size)
    share(_add_products if len(parts) > 1 else _accumulate, parts, out, terms, keep)
    return out


def _check_accumulator(out, terms):
    if not (out.flags.c_contiguous and out.flags.writeable and out.dtype in _GEMM):
        raise ValueError(
            "the accumulator must be a writeable C-contiguous float32 or float64 array"
        )
    for left, right, _ in terms:
        if left.dtype != out.dtype or right.dtype != out.dtype:
            raise ValueError(f"factors of {left.dtype} and {right.dtype} into {out.dtype}")
        if np.may_share_memory(out, left) or np.may_share_memory(out, right):
            raise ValueError("the accumulator shares memory with a factor")


def _accumulate(rows, out, terms, keep):
    gemm = _GEMM[out.dtype]
    for left, right, alpha in terms:
        gemm(alpha, right.T, left.T, beta=keep, c=out.T, trans_b=True, overwrite_c=True)
        keep = 1.0


def _add_products(rows, out, terms, keep):
    """Add to some rows of ``out``, by calls that let other threads run, as SciPy's do not."""
    if keep != 1:
        out[rows] *= keep
    for left, right, alpha in terms:
        out[rows] += (float(alpha) * left[:, rows]).T @ right


def complement_factors(K):
    """Factor I - K K', for a K with fewer rows than columns, and work out its inverse's parts.

    Parameters
    ----------
    K : array of shape (n, m)

    Returns
    -------
    diagonal : array of shape (n,)
        The diagonal of U, upper triangular with U' U = I - K K'.
    V : array of shape (n, n)
        The inverse of U, so that V V' is the inverse of I - K K'.
    Y : array of shape (n, m)
        V' K, so that I + Y' Y is the inverse of I - K' K.
    excess : array of shape (n,)
        The diagonal of V V' less 1, accurate for tiny rows of K too: a sum of squares.

    None if I - K K' is not positive definite.
    """
    if K.shape[0] == 0:
        none = namespace(K).zeros(0, **like(K))
        return none, none[:, None] @ none[None, :], K, none
    factors = _foreign_factors(K) if is_foreign(K) else _blas_factors(K)
    if factors is None:
        return None
    diagonal, V, Y, squares, above, beside = factors
    # 1 - diagonal**2, and with it the first term of V V' - 1, is the sum of what was taken from 1.
    return diagonal, V, Y, (squares + above) / diagonal**2 + beside


def _blas_factors(K):
    """Return the diagonal of U, V, Y and three sums of squares, by half of the full arithmetic.

    The sums are those of the rows of K, of the columns of U and of the rows of V, the latter two
    without their diagonals.
    """
    syrk, potrf, trtri, trmm = _TRIANGULAR[K.dtype]
    M = syrk(-1.0, K.T, trans=True)
    index = np.arange(K.shape[0])
    squares = -M[index, index]
    M[index, index] += 1
    U, info = potrf(M, overwrite_a=True, clean=False)  # syrk left zeros below the diagonal
    if info:
        return None
    diagonal = U[index, index]
    U[index, index] = 0
    above = np.einsum("ij,ij->j", U, U)
    U[index, index] = diagonal
    V, _ = trtri(U, overwrite_c=True)
    V[index, index] = 0
    beside = np.einsum("ij,ij->i", V, V)
    V[index, index] = 1 / diagonal
    return diagonal, V, trmm(1.0, V, K.T, side=True).T, squares, above, beside


def _foreign_factors(K):
    xp = namespace(K)
    squares, eye = xp.linalg.vecdot(K, K), xp.eye(K.shape[0], **like(K))
    try:
        L = xp.linalg.cholesky(eye - K @ K.T)
    except (np.linalg.LinAlgError, RuntimeError):  # torch's own error is the latter
        return None
    if not bool(xp.all(xp.isfinite(xp.linalg.diagonal(L)))):  # JAX raises no errors
        return None
    V = xp.linalg.solve(L.T, eye)
    above = xp.sum(xp.tril(L, k=-1) ** 2, axis=1)
    beside = xp.sum(xp.triu(V, k=1) ** 2, axis=1)
    return xp.linalg.diagonal(L), V, V.T @ K, squares, above, beside
