"""Array namespaces, and functions that differ between array libraries.

NumPy 2 is its own array namespace; other libraries (torch, JAX, CuPy) have that of
``array-api-compat``.
"""

import sys
from collections.abc import Sequence
from math import exp, isfinite
from typing import Any, TypeAlias

import array_api_compat
import numpy as np
import scipy.sparse as sp

Array: TypeAlias = Any
"""An array of NumPy, or of a library with the Python array API (torch, JAX, CuPy).

Libraries share no base class, so type checkers take any object. Shapes and dtypes are in the
docstrings.
"""

Index: TypeAlias = Any
"""A slice, or an array of integers."""

_NAMESPACES: dict[type, Any] = {}  # of arrays by their types
_NUMPY = np.ndarray, np.generic  # a tuple: a union would be built again in each call
_FEW = 2**16  # numbers to sum by a matrix product with a float64 copy
_SHORT = 8  # columns below which logarithms are as fast as products of halves


def is_foreign(X: Any) -> bool:
    """Whether X is an array of a library other than NumPy."""
    if type(X) is np.ndarray:  # the usual type is checked first
        return False
    return not isinstance(X, _NUMPY) and hasattr(X, "__dlpack__")


def is_sparse(X: Any) -> bool:
    """Whether X is a sparse matrix or array of SciPy."""
    return type(X) is not np.ndarray and sp.issparse(X)  # the usual type is checked first


def is_torch(x: Any) -> bool:
    """Whether x is a tensor of torch, without an import of it."""
    return type(x) is not np.ndarray and type(x).__module__.partition(".")[0] == "torch"


def torch_of(x: Any) -> Any:
    """Return torch if x is a tensor of it, else None."""
    return sys.modules["torch"] if is_torch(x) else None


def can_replay(x: Any) -> bool:
    """Whether operations on an array can be recorded: those of a torch tensor on a GPU."""
    return is_torch(x) and bool(x.is_cuda)


def namespace(x: Any) -> Any:
    """Return the array namespace of ``x``, NumPy by default."""
    if type(x) is np.ndarray or not is_foreign(x):  # the usual type is checked first
        return np
    if type(x) not in _NAMESPACES:  # a search takes microseconds, and a step asks dozens of times
        _NAMESPACES[type(x)] = array_api_compat.array_namespace(x)
    return _NAMESPACES[type(x)]


def like(x: Array) -> dict[str, Any]:
    """Return the arguments that create an array like ``x``: its dtype and device."""
    if not is_foreign(x):
        return {"dtype": x.dtype}
    return {"dtype": x.dtype, "device": array_api_compat.device(x)}


def is_on_device(x: Any) -> bool:
    """Whether an array is not in host memory, such as on a GPU."""
    if not is_foreign(x):
        return False
    # Not every library calls host memory "cpu" alone, nor takes that name.
    return "cpu" not in str(array_api_compat.device(x)).lower()


def to_numpy(x: Any) -> np.ndarray:
    """Return ``x`` as a NumPy array; the identity for NumPy arrays."""
    if is_on_device(x):
        x = array_api_compat.to_device(x, "cpu")
    return np.asarray(x)


def from_numpy(x: Array, reference: Array) -> Array:
    """Return the NumPy array ``x`` in the library and on the device of ``reference``."""
    if not is_foreign(reference):
        return x
    x = np.asarray(x, order="C")  # np.ascontiguousarray would give one number a dimension
    return namespace(reference).asarray(x, device=like(reference)["device"])


def as_like(x: Array, reference: Array) -> Array:
    """Return the dense array ``x`` in the library and on the device of ``reference``."""
    if is_foreign(x) and is_foreign(reference) and namespace(x) is namespace(reference):
        return namespace(reference).asarray(x, device=like(reference)["device"])
    return from_numpy(to_numpy(x), reference)


def cast(x: Array, dtype: Any) -> Array:
    """Return ``x`` with ``dtype``, itself where it has it already."""
    if type(x) is np.ndarray:  # NumPy compares dtypes faster than Python does
        return x.astype(dtype, copy=False)
    if x.dtype == dtype:
        return x
    return namespace(x).astype(x, dtype) if is_foreign(x) else x.astype(dtype)


def working_dtype(X: Array) -> Any:
    """Return the floating dtype of parameters learned from ``X``.

    float32 and float64 are kept; bytes, booleans and half precision become float32, wider integers
    and long double float64.
    """
    if is_foreign(X):
        xp = namespace(X)
        if X.dtype in (xp.float32, xp.float64):
            return X.dtype
        return xp.float64 if X.dtype in (xp.int32, xp.int64) else xp.float32
    promoted = np.promote_types(X.dtype, np.float32)
    return promoted if promoted in (np.float32, np.float64) else np.dtype(np.float64)


def copied(x: Array) -> Array:
    """Return a copy of an array."""
    return namespace(x).asarray(x, copy=True)


def parameter_reference(X: Array) -> Array:
    """Return a reference array for parameters learned from X: their library, device and dtype."""
    return namespace(X).zeros((1, 1), **like(X) | {"dtype": working_dtype(X)})


def is_finite(x: Array) -> bool:
    """Whether no entry is infinite or NaN, by a sum, which needs no temporary array."""
    return bool(are_finite([x]))


def are_finite(parts: Sequence[Array]) -> Any:
    """Whether no entry of some arrays is infinite or NaN, by sums.

    A bool, or in another library than NumPy a 0-d array, without synchronization of the device.
    """
    if not parts or type(parts[0]) is np.ndarray:
        for part in parts:  # a generator would take as long as the sums of few numbers
            if not isfinite(np.add.reduce(part, axis=None)):
                return False
        return True
    xp = namespace(parts[0])
    return xp.isfinite(sum(xp.sum(part) for part in parts))


def sigmoid(x: Array) -> Array:
    """Logistic function, through the vectorised tanh: five times the speed of ``expit``."""
    if is_torch(x):
        return x.sigmoid()  # one operation of a GPU
    y = namespace(x).tanh(0.5 * x)
    y *= 0.5
    y += 0.5
    return y


def softplus(x: Array) -> Array:
    """log(1 + exp(x)) without overflow."""
    xp = namespace(x)
    y = xp.log1p(xp.exp(-xp.abs(x)))
    y += xp.maximum(x, xp.zeros((), **like(x)))
    return y


def softplus_sums(x: Array) -> Array:
    """Sum of softplus(x) over the last axis, in float64, with few logarithms."""
    xp = namespace(x)
    factors = xp.exp(-xp.abs(x))
    factors += 1
    zeros = xp.zeros(x.shape[-1:], **like(x))  # NumPy compares with these faster than with one
    return row_sums(xp.maximum(x, zeros)) + log_products(factors)


def log_products(x: Array) -> Array:
    """Sum of log(x) over the last axis, in float64, with one logarithm for up to 64 entries.

    Entries must be between 1/2 and 2, so that products of 64 neither overflow nor underflow.
    """
    for _ in range(6):
        half, odd = divmod(x.shape[-1], 2)
        if half < _SHORT or odd:
            break
        x = x[..., :half] * x[..., half:]
    return row_sums(namespace(x).log(x))


def log_odds(x: Array, limit: float) -> Array:
    """Return log(x / (1 - x)), at most ``limit`` in size."""
    xp = namespace(x)
    dtype, x, tiny = x.dtype, cast(x, xp.float64), exp(-limit)
    odds = xp.log(xp.clip(x, tiny, None)) - xp.log(xp.clip(1 - x, tiny, None))
    return cast(odds, dtype)


def log_sum_exp(x: Array) -> Array:
    """Return log of the sum of exp(x) over the last axis."""
    xp = namespace(x)
    largest = xp.max(x, axis=-1, keepdims=True)
    return largest[..., 0] + xp.log(xp.sum(xp.exp(x - largest), axis=-1))


def cumulative_sum(x: Array, axis: int = -1) -> Array:
    """Return cumulative sums along an axis, which may overwrite x where it is not the last one.

    ``np.cumsum`` is slow for a few long vectors.
    """
    xp = namespace(x)
    if xp is not np:
        return xp.cumulative_sum(x, axis=axis)
    if axis == -1:
        return np.cumsum(x, axis=-1)
    total = np.moveaxis(x, axis, 0)
    for k in range(1, len(total)):
        np.add(total[k - 1], total[k], out=total[k])
    return x


def row_sums(x: Array) -> Array:
    """Sum each row in float64."""
    xp = namespace(x)
    if xp is np and x.size <= _FEW:  # half of the time, but for a copy
        return x.astype(np.float64, copy=False) @ np.ones(x.shape[-1])
    return xp.sum(x, axis=-1, dtype=xp.float64)
