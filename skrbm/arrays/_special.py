"""Functions that the array API standard does not have, or not as they are needed."""

from collections.abc import Callable

import numpy as np
from scipy import linalg, special

from ._namespace import Array, from_numpy, is_foreign, namespace, to_numpy, torch_of


def _special(name: str, doc: str) -> Callable[[Array], Array]:
    """Return a function of SciPy for arrays of every library."""

    def function(x: Array) -> Array:
        if not is_foreign(x):
            return getattr(special, name)(x)
        torch = torch_of(x)
        if torch is not None:
            return getattr(torch.special, name)(x)
        return from_numpy(getattr(special, name)(to_numpy(x)), x)  # by way of the host

    function.__name__, function.__doc__ = name, doc
    return function


erfcx = _special("erfcx", "Return exp(x**2) erfc(x).")
gammaln = _special("gammaln", "Return the logarithm of the gamma function of x > 0.")
ndtri = _special("ndtri", "Return the quantiles of the standard normal distribution.")


def cholesky(M: Array) -> Array:
    """Return lower factors of matrices, the last two axes of M; one that has none is all NaN."""
    xp, torch = namespace(M), torch_of(M)
    if torch is not None:  # whose own function waits for the device, and raises an error
        L, info = torch.linalg.cholesky_ex(M)
        return torch.where((info == 0)[..., None, None], L, torch.nan)
    try:
        return xp.linalg.cholesky(M)  # JAX raises no error
    except np.linalg.LinAlgError:
        if M.ndim == 2:
            return xp.full_like(M, xp.nan)
        return xp.stack([cholesky(M[i, ...]) for i in range(M.shape[0])])


def inverse_factor(M: Array) -> Array:
    """Return lower triangular R with R' R = M^-1; one of a matrix that has none is all NaN.

    M is one matrix, or has matrices in its last two of three axes.
    """
    L, xp, torch = cholesky(M), namespace(M), torch_of(M)
    if torch is not None:
        one = torch.eye(M.shape[-1], dtype=M.dtype, device=M.device)
        return torch.linalg.solve_triangular(L, one.expand_as(L), upper=False)
    if xp is not np:
        return xp.linalg.inv(L)
    invert = linalg.lapack.strtri if M.dtype == np.float32 else linalg.lapack.dtrtri
    if M.ndim == 2:  # np.linalg.inv takes longer
        return invert(L.T, lower=False)[0].T  # LAPACK has columns one after the other
    return np.stack([invert(factor.T, lower=False)[0].T for factor in L])


def solve_positive(M: Array, b: Array) -> Array:
    """Return the solution x of M x = b for one positive definite matrix M and a vector b.

    It is all NaN if M is not positive definite.
    """
    L, torch = cholesky(M), torch_of(M)
    if torch is not None:
        return torch.cholesky_solve(b[:, None], L)[:, 0]
    if is_foreign(M):
        return namespace(M).linalg.solve(M, b[:, None])[:, 0]
    return linalg.cho_solve((L, True), b, check_finite=False)


def main_directions(X: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first right singular vectors of X, as columns, and their singular values.

    At most ``n``, and those of values above 1e-6 of the largest. They come from the product of X
    with itself that is smaller, in a tenth of the time of all singular vectors.
    """
    X = X.astype(np.float64)
    is_wide = X.shape[0] < X.shape[1]
    squares, vectors = np.linalg.eigh(X @ X.T if is_wide else X.T @ X)
    sizes = np.sqrt(np.maximum(squares[::-1][:n], 0.0))
    kept = sizes > 1e-6 * sizes[0]
    sizes, vectors = sizes[kept], vectors[:, ::-1][:, :n][:, kept]
    return (X.T @ vectors / sizes if is_wide else vectors), sizes
