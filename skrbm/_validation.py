"""Checks of what users give: data, numbers and parameters, with errors that say what to do."""

import warnings
from numbers import Integral

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_array, validate_data

from ._backend import beside, cast, is_foreign, namespace, working_dtype
from ._machine import Machine
from .exceptions import DataRangeWarning
from .units import Theta


def check_data(estimator, X, *, reset=False, missing=False):
    """Return X checked against an estimator's features, in its own dtype.

    ``missing`` allows NaN. With ``reset`` the features of X become those of the estimator;
    without, X becomes an array of the library that holds the estimator's parameters.
    """
    X = _check_data(estimator, X, reset, missing)
    if reset:
        return X
    if sp.issparse(X) and is_foreign(estimator.components_):
        raise TypeError("sparse X needs parameters in NumPy arrays; make X dense")
    return X if sp.issparse(X) else beside(X, estimator.components_)


def _check_data(estimator, X, reset, missing):
    if is_foreign(X):
        return _check_foreign_data(estimator, X, reset, missing)
    X = validate_data(
        estimator,
        X,
        accept_sparse=False if missing else "csr",
        dtype="numeric",
        reset=reset,
        ensure_all_finite="allow-nan" if missing else True,
    )
    if missing and np.isinf(X).any():
        raise ValueError("X contains infinity; only NaN marks a missing value")
    return X


def _check_foreign_data(estimator, X, reset, missing):
    xp = namespace(X)
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(
            f"X must have 2 dimensions, with rows and columns, got shape {tuple(X.shape)}"
        )
    if xp.isdtype(X.dtype, "complex floating"):
        raise ValueError("Complex data not supported")
    if xp.isdtype(X.dtype, "real floating"):
        wrong = xp.isinf(X) if missing else ~xp.isfinite(X)
        if bool(xp.any(wrong)):
            raise ValueError("X contains NaN or infinity")
    if reset:
        estimator.n_features_in_ = X.shape[1]
    elif X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input"
        )
    return X


def _outside(X, bounds):
    """Return the least and the largest value of X if they lie outside of the bounds, else None."""
    values = X.data if sp.issparse(X) else X
    xp = namespace(values)
    if not values.shape[0] or xp.isdtype(values.dtype, "bool"):
        return None
    least, most = float(xp.min(values)), float(xp.max(values))
    return None if least >= bounds[0] and most <= bounds[1] else (least, most)


def warn_outside(X, unit, binarize):
    """Warn of data that a unit cannot represent."""
    outside = None if binarize is not None else _outside(X, unit.bounds)
    if outside is not None:
        warnings.warn(
            f"X has values from {outside[0]:.4g} to {outside[1]:.4g}; those outside "
            f"[{unit.bounds[0]:g}, {unit.bounds[1]:g}], the range of its units, are clipped. Scale "
            "X (MinMaxScaler), or set binarize to a threshold above which values count as 1.",
            DataRangeWarning,
            stacklevel=2,
        )


def into_support(X, unit, binarize):
    """Return X with values that the unit can have: 0 or 1 by a threshold, or else clipped.

    NaN stays NaN, if there is no threshold. The result is X itself where nothing changes.
    """
    if is_foreign(X):  # not every library compares or clips bytes and booleans
        X = cast(X, working_dtype(X))
    if binarize is not None:
        if sp.issparse(X) and binarize < 0:
            raise ValueError(
                f"binarize={binarize} would make the zeros of a sparse X ones; use a threshold "
                ">= 0 or a dense X"
            )
        return X > binarize
    if _outside(X, unit.bounds) is None:
        return X
    if not sp.issparse(X):
        return namespace(X).clip(X, *unit.bounds)
    clipped = X.copy()
    clipped.data = np.clip(clipped.data, *unit.bounds)
    return clipped


def check_rows(name, X, n_columns, place):
    """Return X as finite dense rows of the width given, beside and in the dtype of ``place``."""
    if sp.issparse(X):
        X = X.toarray()
    if not is_foreign(X):
        X = check_array(X, dtype=(np.float64, np.float32), input_name=name)
    elif X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"{name} must have 2 dimensions, with rows, got shape {tuple(X.shape)}")
    if X.shape[1] != n_columns:
        raise ValueError(
            f"{name} has {X.shape[1]} columns, but the machine has {n_columns} such units"
        )
    X = cast(beside(X, place), place.dtype)
    if not bool(namespace(X).all(namespace(X).isfinite(X))):
        raise ValueError(f"{name} contains NaN or infinity")
    return X


def check_count(name, value, least):
    if not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")


def machine_from(components, intercept_hidden, intercept_visible, units, place=None):
    """Return the machine of a fitted estimator, or of three arrays."""
    if hasattr(components, "fit"):
        if not hasattr(components, "intercept_hidden_"):
            raise ValueError(
                f"{type(components).__name__} is not fitted, or no machine. Meta-estimators "
                "such as GridSearchCV clone their parameters; wrap a fitted one in "
                "sklearn.frozen.FrozenEstimator"
            )
        source = components
        components = source.components_
        intercept_hidden, intercept_visible = source.intercept_hidden_, source.intercept_visible_
    W = _parameter("components", components, 2, place)
    biases = [
        _parameter(name, np.zeros(n) if bias is None else bias, 1, W)
        for name, bias, n in [
            ("intercept_visible", intercept_visible, W.shape[1]),
            ("intercept_hidden", intercept_hidden, W.shape[0]),
        ]
    ]
    for name, bias, n in zip(("visible", "hidden"), biases, W.shape[::-1], strict=True):
        if bias.shape != (n,):
            raise ValueError(
                f"intercept_{name} has shape {tuple(bias.shape)}, but components {tuple(W.shape)} "
                f"needs ({n},)"
            )
    return Machine(units, tuple(Theta(bias) for bias in biases), (W,))


def _parameter(name, values, ndim, place):
    """Return a finite, contiguous copy of a parameter, beside the array ``place`` if given."""
    array = namespace(values).asarray(values, copy=True) if is_foreign(values) else None
    array = _real_array(name, values) if array is None else array
    dtype = working_dtype(array)
    if place is not None:
        array, dtype = beside(array, place), place.dtype
    array = cast(array, dtype)
    if array.ndim != ndim or 0 in array.shape:
        raise ValueError(f"{name} must be a non-empty array of {ndim} dimension(s)")
    if not bool(namespace(array).all(namespace(array).isfinite(array))):
        raise ValueError(f"{name} contains NaN or infinity")
    return array


def _real_array(name, values):
    try:
        array = np.array(values, order="C", copy=True)
        return array if array.dtype.kind in "biuf" else array.astype(np.float64, casting="safe")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of real numbers: {error}") from error
