"""Special functions, which the array API standard does not have."""

from typing import Any

from scipy import special

from ._namespace import from_numpy, is_foreign, to_numpy
from ._types import Array


def erfcx(x: Array) -> Array:
    """Return exp(x**2) erfc(x)."""
    return _special("erfcx", x)


def gammaln(x: Array) -> Array:
    """Return the logarithm of the gamma function of x > 0."""
    return _special("gammaln", x)


def ndtri(p: Array) -> Array:
    """Return the quantiles of the standard normal distribution."""
    return _special("ndtri", p)


def _special(name: str, x: Array) -> Array:
    if not is_foreign(x):
        return getattr(special, name)(x)
    library: Any = _of_torch() if type(x).__module__.partition(".")[0] == "torch" else None
    if library is not None:
        return getattr(library, name)(x)
    return from_numpy(getattr(special, name)(to_numpy(x)), x)  # by way of the host


def _of_torch() -> Any:
    import torch

    return torch.special
