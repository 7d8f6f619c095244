"""Shared code of estimators that wrap a density estimator."""

from math import ceil

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from .._sklearn import _safe_indexing
from ..inputs import check_weights, columns_of, is_frame, missing_values
from ..learning import LEAST_KNOWN
from ._rbm import RBM
from ._tabular_rbm import TabularRBM

_N_STEPS, _FEWEST_PASSES = 500, 20  # of defaults; further steps hardly change what is imputed


def rows_to_fit(sample_weight, X, columns, missing):
    """Return checked weights, None if all are 1, and the rows of a table that have one."""
    weights = check_weights(sample_weight, X)
    if weights is None or weights.all():
        return weights, X, columns, missing
    rows = np.flatnonzero(weights)
    if not sp.issparse(X):
        columns, missing = [column[rows] for column in columns], missing[rows]
    return weights[rows], _safe_indexing(X, rows), columns, missing


def fit_density(wrapper, X, columns, random_state, publish, weights=None, **options):
    """Fit a copy of the estimator of a wrapper, or the default one, to a table, and publish it.

    The copy gets ``random_state`` unless it has its own. ``publish(estimator)`` is also called
    after an interruption, if an epoch was completed.
    """
    density = wrapper.estimator
    density = default_density(X, columns, **options) if density is None else clone(density)
    if density.get_params().get("random_state", 0) is None:
        density.set_params(random_state=random_state)
    if weights is not None and not has_fit_parameter(density, "sample_weight"):
        raise ValueError(f"sample_weight is not supported by estimator={density!r}")
    own = {} if weights is None else {"sample_weight": weights}
    try:
        density.fit(X, **own)
    except KeyboardInterrupt:
        if hasattr(density, "n_iter_"):
            publish(density)
        raise
    publish(density)


def default_density(X, columns, n_components=64, is_table=False):
    """Return a default estimator for the columns of X; binary if X is sparse."""
    n_batches = max(3, -(-X.shape[0] // 100))
    common = {"n_components": n_components, "n_iter": max(_FEWEST_PASSES, _N_STEPS // n_batches)}
    if sp.issparse(X):
        return RBM(**common)
    are_bits = [has_bits(column) for column in columns]
    if all(are_bits) and not is_table:
        known = np.mean([np.mean(column == column) for column in columns])
        return RBM(**common | {"n_iter": ceil(common["n_iter"] / max(known, LEAST_KNOWN))})
    is_table = is_table or is_frame(X) or any(c.dtype.kind not in "buif" for c in columns)
    if not (is_table or any(are_bits)) and all(_varies(column) for column in columns):
        return RBM(visible="gaussian", **common)
    return TabularRBM(covariance="full", **common)


def has_bits(X):
    """Whether the values of an array or sparse matrix are numbers, and all of them 0 or 1."""
    values = X.data if sp.issparse(X) else X
    return X.dtype.kind in "buif" and bool(np.isin(values[values == values], (0, 1)).all())


def _varies(column):
    """Whether a column of numbers has several values; TabularRBM keeps that of a constant one."""
    known = column[column == column]
    return bool((known != known[0]).any())


def observed_columns(wrapper, X, reset):
    """Return the columns of X, and which of its values are missing, of the shape of X."""
    columns = columns_of(wrapper, X, reset=reset)
    return columns, np.stack([missing_values(column) for column in columns], axis=1)


def as_table(X):
    """Return X as a table with columns: a DataFrame or an array."""
    if is_frame(X):
        return X
    found = np.asarray(X)
    if not hasattr(X, "dtype") and found.dtype.kind in "US":  # lists that mix text and numbers
        found = np.asarray(X, dtype=object)
    return found


def without_column(X, j):
    """Return a table in which the values of one column are missing."""
    if hasattr(X, "iloc"):
        found = X.copy()
        empty = np.full(len(X), None, dtype=object)
        is_number = found.dtypes.iloc[j].kind in "biuf"
        found.isetitem(j, np.full(len(X), np.nan) if is_number else empty)
        return found
    if is_frame(X):  # polars
        name = X.columns[j]
        return X.with_columns(X[name].clear(len(X)).alias(name))
    if X.dtype.kind in ("f", "O"):
        found = X.copy()
    else:
        found = X.astype(np.float64 if X.dtype.kind in "biu" else object)
    found[:, j] = np.nan if found.dtype.kind == "f" else None
    return found
