"""Checks of the data that users pass."""

import math
import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_array, validate_data

from ..arrays import (
    Columns,
    as_like,
    cast,
    has_missing,
    is_finite,
    is_foreign,
    namespace,
    value_range,
    working_dtype,
)
from ..exceptions import DataRangeWarning
from ._blocks import CheckedBlocks, find_blocks
from ._frames import check_no_query, check_unmasked, column_of, is_frame


def check_data(estimator, X, *, reset=False, missing=False, sparse=True, blocks=False):
    """Return X checked against an estimator's features, in its own dtype.

    Parameters
    ----------
    estimator : estimator
    X : array-like, sparse matrix or data in blocks
    reset : bool, default=False
        Whether the features of X become those of the estimator. Without, X becomes an array of the
        library that holds the estimator's parameters.
    missing : bool, default=False
        Whether a dense X may have NaN.
    sparse : bool, default=True
        Whether X may be sparse.
    blocks : bool, default=False
        Whether data that are read in blocks are returned as :class:`CheckedBlocks`; without,
        arrays of them are read as a whole.
    """
    source = find_blocks(X)
    if source is not None and blocks:
        return _check_blocks(estimator, source, reset, missing)
    if source is not None and not hasattr(X, "__array__"):
        raise TypeError(f"{type(estimator).__name__} needs all rows in one array")
    X = _check_data(estimator, X, reset, missing, sparse)
    return X if reset else _like_parameters(X, estimator)


def _like_parameters(X, estimator):
    """Return X in the library of the parameters of a fitted estimator."""
    place = estimator.machine_.weights[0]
    if sp.issparse(X) and is_foreign(place):
        raise TypeError("a sparse X needs parameters in NumPy arrays")
    return X if sp.issparse(X) else as_like(X, place)


def _check_blocks(estimator, source, reset, missing):
    is_fit = reset

    def check(block):
        nonlocal reset
        block = _check_data(estimator, block, reset, missing, sparse=True)
        reset = False  # later blocks are checked against the features of the first
        return block if is_fit else _like_parameters(block, estimator)

    return CheckedBlocks(source, check)


def _check_data(estimator, X, reset, missing, sparse):
    if is_foreign(X):
        return _check_foreign_data(estimator, X, reset, missing)
    check_no_query(X)
    check_unmasked(X)
    options = {"accept_sparse": "csr" if sparse else False, "dtype": "numeric", "reset": reset}
    finite = False if missing else "allow-nan"
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # of sums of infinite float16
            found = validate_data(estimator, X, ensure_all_finite=finite, **options)
        if found.dtype.kind == "O":  # lists and frames with None
            found = _as_float64(found)
            _check_infinity(found)
    except (TypeError, ValueError) as error:
        names = labelled_columns(X)
        if names:
            raise ValueError(
                f"columns {names} of X are not numeric; use TabularRBM, which takes tables of "
                "numbers and categories, or encode them"
            ) from error
        raise
    X = found
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X must have real numbers, got dtype {X.dtype}")
    (_check_infinity if missing else check_complete)(X)
    return canonical(X) if sp.issparse(X) else X


def labelled_columns(X):
    """Return the names of the columns of a DataFrame that are not numbers, none of an array."""
    columns = enumerate(X.columns if is_frame(X) else ())
    return [name for j, name in columns if _is_not_numeric(column_of(X, j))]


def _as_float64(X):
    """Return an array of objects, which may be None, as numbers."""
    if any(isinstance(value, complex | np.complexfloating) for value in X.ravel()):
        raise ValueError("Complex data not supported")
    try:
        return X.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X must have real numbers: {error}") from error


def _is_not_numeric(column):
    kind = getattr(getattr(column, "dtype", None), "kind", "O")
    return kind in "Mm" or any(isinstance(value, str | bytes) for value in column)


def _check_foreign_data(estimator, X, reset, missing):
    xp = namespace(X)
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"X must be a non-empty 2D array, got shape {tuple(X.shape)}")
    if xp.isdtype(X.dtype, "complex floating"):
        raise ValueError("Complex data not supported")
    if xp.isdtype(X.dtype, "real floating"):
        wrong = xp.isinf(X) if missing else ~xp.isfinite(X)
        if bool(xp.any(wrong)):  # the only synchronization with a device
            if not missing:
                check_complete(X)
            raise ValueError("X contains infinity")
    if reset:
        estimator.n_features_in_ = X.shape[1]
    else:
        check_n_features(estimator, X)
    return X


def _check_infinity(X):
    """Raise ValueError if X has infinite values, or if a sparse X has NaN."""
    values = X.data if sp.issparse(X) else X
    with np.errstate(over="ignore", invalid="ignore"):
        if values.dtype.kind != "f" or is_finite(values):
            return
    if np.isinf(values).any():
        raise ValueError("X contains infinity")
    if sp.issparse(X) and np.isnan(values).any():
        raise ValueError(
            "a sparse X contains NaN; missing values need a dense X, as of X.toarray()"
        )


def check_complete(X, name="X"):
    """Raise ValueError if a dense or a sparse X has NaN."""
    if has_missing(X):
        raise ValueError(
            f"Input {name} contains NaN; impute missing values first, by sklearn.impute or by the "
            "impute method of an RBM"
        )


def check_known(columns, unit=None):
    """Raise ValueError if a column of data, or a site of categories, has no value but NaN."""
    known = columns.are_known
    sites = [] if unit is None else unit.exclusive(len(known))
    if sites and sum(map(len, sites)) == len(known):
        name, unknown = "sites", [i for i, site in enumerate(sites) if not known[site].any()]
    else:
        name, unknown = "columns", np.flatnonzero(~known).tolist()
    if unknown:
        which = (
            f"{unknown}" if len(unknown) <= 10 else f"{unknown[:10]} and {len(unknown) - 10} more"
        )
        raise ValueError(f"X has no observed value in {name} {which}, but only NaN")


def canonical(X):
    """Return a sparse matrix with sorted indices and without duplicates.

    Otherwise SciPy sums duplicates in place, in the caller's matrix, in some operations.
    """
    if X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X


def check_n_features(estimator, X):
    """Raise ValueError unless X has as many columns as the training data of the estimator."""
    if X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input"
        )


def _outside(columns, bounds):
    """Return the range of columns if it exceeds the bounds, else None."""
    if bounds == (-np.inf, np.inf):
        return None
    least, most = columns.range
    return None if least >= bounds[0] and most <= bounds[1] else (least, most)


def check_range(columns, unit):
    """Check whether a unit can represent training data.

    Binary units clip values outside of [0, 1] with a warning; other bounds are never exceeded.
    Return whether rows of X need :func:`into_support`.
    """
    outside = _outside(columns, unit.bounds)
    if outside is None:
        if unit.values == (-1.0, 1.0) and tuple(columns.range) == (0, 1):
            warnings.warn(
                "X has values from 0 to 1, but spins are -1 and 1; use 2 * X - 1 or Bernoulli "
                "units",
                DataRangeWarning,
                stacklevel=2,
            )
        return False
    found = (
        f"X has values from {outside[0]:.4g} to {outside[1]:.4g}, outside "
        f"[{unit.bounds[0]:g}, {unit.bounds[1]:g}], the range of {type(unit).__name__} units"
    )
    if not unit.clips:
        raise ValueError(f"{found}; scale X or use other units")
    warnings.warn(
        f"{found}, which are clipped; scale X (MinMaxScaler), or use visible='gaussian'",
        DataRangeWarning,
        stacklevel=2,
    )
    return True


def warn_clipped(X, unit):
    """Warn that new data are clipped."""
    outside = _outside(Columns(X), unit.bounds)
    if outside is not None:
        warnings.warn(
            f"X has values from {outside[0]:.4g} to {outside[1]:.4g}, which are clipped to "
            f"[{unit.bounds[0]:g}, {unit.bounds[1]:g}], the range of its units",
            DataRangeWarning,
            stacklevel=2,
        )


def into_support(X, unit):
    """Return X with values clipped to the bounds of the unit; X itself if nothing changes."""
    if is_foreign(X):  # not every library compares or clips bytes and booleans
        X = cast(X, working_dtype(X))
    if _outside(Columns(X), unit.bounds) is None:
        return X
    if not sp.issparse(X):
        return namespace(X).clip(X, *unit.bounds)
    clipped = X.copy()
    clipped.data = np.clip(clipped.data, *unit.bounds)
    return clipped


def check_scale_known(rows):
    """Raise ValueError if real columns, whose scale is learnt, have one sample only."""
    if rows is None or rows.total > 1:
        return
    if rows.unit.has_precision:
        raise ValueError("X has 1 sample, and the scale of real columns needs more")


def check_held(X, dtype):
    """Raise ValueError if a dense or sparse X has values that are infinite in ``dtype``."""
    if X.dtype == dtype or not namespace(X).isdtype(X.dtype, "real floating"):
        return
    largest = max(abs(value) for value in value_range(X))
    if largest > float(namespace(X).finfo(dtype).max):
        raise ValueError(
            f"X has values of up to {largest:.3g}, beyond the range of {dtype}; scale X, or fit to "
            "float64 data"
        )


def check_squares(rows):
    """Raise ValueError if squares of values of units without bounds overflow."""
    if np.isfinite(rows.unit.bounds).all():
        return
    (least, most), largest = rows.columns.range, namespace(rows.X).finfo(rows.dtype).max
    size = max(-least, most)  # -inf if nothing is known
    if size >= math.sqrt(float(largest)):
        raise ValueError(
            f"X has values up to {size:.3g}, whose squares overflow {rows.dtype}; scale X"
        )


def check_rows(name, X, n_columns, place):
    """Return X as finite dense rows of the given width, in the library and dtype of ``place``."""
    if sp.issparse(X):
        X = X.toarray()
    if not is_foreign(X) and np.iscomplexobj(X):
        raise ValueError(f"{name} has complex numbers")
    if not is_foreign(X):
        X = check_array(
            X,
            dtype=(np.float64, np.float32),
            input_name=name,
            ensure_min_features=min(n_columns, 1),  # a layer may have no unit
            ensure_all_finite="allow-nan",
        )
    elif X.ndim != 2 or X.shape[0] == 0 or (X.shape[1] == 0 and n_columns):
        raise ValueError(f"{name} must be a non-empty 2D array, got shape {tuple(X.shape)}")
    if X.shape[1] != n_columns:
        raise ValueError(f"{name} has {X.shape[1]} columns, but the machine has {n_columns} units")
    check_complete(X, name)
    with np.errstate(over="ignore"):  # checked below
        X = cast(as_like(X, place), place.dtype)
    if not bool(namespace(X).all(namespace(X).isfinite(X))):
        raise ValueError(f"{name} contains infinity, or values beyond {place.dtype}")
    return X
