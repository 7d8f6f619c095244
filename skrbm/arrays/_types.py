"""Types for annotations."""

from typing import Any, TypeAlias

Array: TypeAlias = Any
"""An array of NumPy, or of a library with the Python array API (torch, JAX, CuPy).

Libraries share no base class, so type checkers take any object. Shapes and dtypes are in the
docstrings.
"""

Index: TypeAlias = Any
"""A slice, or an array of integers."""
