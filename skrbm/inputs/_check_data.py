"""Checks of the data that users pass."""

import math
import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_array, validate_data

from .._checks import check_observed
from ..arrays import as_like, cast, has_missing, is_foreign, namespace, value_range, working_dtype
from ..exceptions import DataRangeWarning
from ._blocks import CheckedBlocks, check_one_array, find_blocks
from ._frames import check_container, check_table, column_of, is_frame

_ENCODES_TEXT_BY = "use TabularRBM, which takes tables of numbers and categories, or encode them"


def check_data(estimator, X, *, reset=False, missing=False, sparse=True, blocks=False):
    """Return X checked against an estimator's features, in its own dtype.

    With ``reset`` the features of X become those of the estimator; without, X becomes an array of
    the library that holds its parameters. A dense X may have NaN if they may be ``missing``. With
    ``blocks``, data that are read in blocks are returned as :class:`CheckedBlocks`; without,
    arrays of them are read as a whole.
    """
    source, is_fit = find_blocks(X), reset

    def check(X):
        nonlocal reset
        X = (_check_foreign if is_foreign(X) else _check)(estimator, X, reset, missing, sparse)
        reset = False  # later blocks are checked against the features of the first
        if is_fit:
            return X
        place = estimator.machine_.weights[0]
        if sp.issparse(X) and is_foreign(place):
            raise TypeError("a sparse X requires a model whose parameters are NumPy arrays")
        return X if sp.issparse(X) else as_like(X, place)

    if source is not None and blocks:
        return CheckedBlocks(source, check)
    check_one_array(estimator, X)
    return check(X)


def _check(estimator, X, reset, missing, sparse):
    check_table(X)
    options = {"accept_sparse": "csr" if sparse else False, "ensure_all_finite": "allow-nan"}
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # of sums of infinite float16
            found = validate_data(estimator, X, dtype="numeric", reset=reset, **options)
            if found.dtype.kind == "O":  # lists and frames with None
                found = check_array(found, dtype=np.float64, input_name="X", **options)
    except (TypeError, ValueError) as error:
        names = labelled_columns(X)
        if names:
            if np.asarray(X, dtype=object).ndim == 1:  # texts
                advice = getattr(estimator, "_encodes_text_by", _ENCODES_TEXT_BY)
                raise ValueError(f"values of X are not numeric; {advice}") from error
            raise ValueError(f"columns {names} of X are not numeric; {_ENCODES_TEXT_BY}") from error
        raise
    if found.dtype.kind not in "biuf":
        raise ValueError(f"X must have real numbers, got dtype {found.dtype}")
    if not missing or sp.issparse(found):
        check_complete(found)
    return canonical(found) if sp.issparse(found) else found


def _check_foreign(estimator, X, reset, missing, sparse):
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
    return validate_data(estimator, X, reset=reset, skip_check_array=True)


def labelled_columns(X):
    """Return the names or numbers of the columns of a table that are not numbers."""

    def is_numeric(column):
        kind = getattr(getattr(column, "dtype", None), "kind", "O")
        return kind not in "Mm" and not any(isinstance(value, str | bytes) for value in column)

    columns = ()
    if is_frame(X):
        columns = [(name, column_of(X, j)) for j, name in enumerate(X.columns)]
    elif isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and X.dtype.kind in "OSU"):
        columns = enumerate(np.array(X, dtype=object, ndmin=2).T)
    return [name for name, column in columns if not is_numeric(column)]


def check_complete(X, name="X"):
    """Raise ValueError if a dense or a sparse X has NaN."""
    if has_missing(X):
        raise ValueError(
            f"Input {name} contains NaN; impute missing values first, with sklearn.impute or, for "
            "dense arrays, the impute method of an RBM"
        )


def check_known(columns, unit):
    """Raise ValueError if a column of data, or a site of categories, has no value but NaN."""
    known = columns.are_known
    sites = unit.exclusive(len(known))
    if sites and sum(map(len, sites)) == len(known):
        name, unknown = "sites", [i for i, site in enumerate(sites) if not known[site].any()]
    else:
        name, unknown = "columns", np.flatnonzero(~known).tolist()
    check_observed(unknown, name)


def canonical(X):
    """Return a sparse matrix without duplicates, which SciPy would sum in place in the user's X."""
    if X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X


def _exceeds(ends, bounds):
    """Whether values reach beyond bounds; False if there are none but NaN."""
    return ends[0] < bounds[0] or ends[1] > bounds[1]


def check_range(columns, unit):
    """Check whether a unit can represent training data.

    Binary units clip values outside [0, 1] with a warning; other units raise an error. Return
    whether rows of X need :func:`into_support`.
    """
    if unit.bounds == (-np.inf, np.inf):
        return False
    ends = columns.range
    exceeds = _exceeds(ends, unit.bounds)
    if exceeds:
        found = (
            f"X has values from {ends[0]:.4g} to {ends[1]:.4g}, outside "
            f"[{unit.bounds[0]:g}, {unit.bounds[1]:g}], the range of {type(unit).__name__} units"
        )
        if not unit.clips:
            raise ValueError(f"{found}; scale X or use other units")
        remedy = "the model clips them; scale X (MinMaxScaler), or use visible='gaussian'"
        warnings.warn(f"{found}, and {remedy}", DataRangeWarning, stacklevel=2)
    elif unit.values == (-1.0, 1.0) and tuple(ends) == (0, 1):
        found = "X has values from 0 to 1, but spins are -1 and 1"
        remedy = "use 2 * X - 1 or Bernoulli units"
        warnings.warn(f"{found}; {remedy}", DataRangeWarning, stacklevel=2)
    return exceeds


def into_support(X, unit, warn=False):
    """Return X with values clipped to the bounds of the unit; X itself if nothing changes."""
    if is_foreign(X):  # not every library compares or clips bytes and booleans
        X = cast(X, working_dtype(X))
    if unit.bounds == (-np.inf, np.inf) or not _exceeds(ends := value_range(X), unit.bounds):
        return X
    if warn:
        warnings.warn(
            f"X has values from {ends[0]:.4g} to {ends[1]:.4g}, which the model clips to "
            f"[{unit.bounds[0]:g}, {unit.bounds[1]:g}], the range of its units",
            DataRangeWarning,
            stacklevel=2,
        )
    if not sp.issparse(X):
        return namespace(X).clip(X, *unit.bounds)
    clipped = X.copy()
    clipped.data = np.clip(clipped.data, *unit.bounds)
    return clipped


def check_scale_known(rows):
    """Raise ValueError if real columns, whose scale is learned, have a single sample."""
    if rows.total == 1 and rows.unit.has_precision:
        raise ValueError("X has 1 sample, but at least 2 are needed for the scale of real columns")


def check_held(X, dtype):
    """Raise ValueError if a dense or sparse X has values that are infinite in ``dtype``."""
    if X.dtype == dtype or not namespace(X).isdtype(X.dtype, "real floating"):
        return
    least, most = value_range(X)
    largest = max(-least, most)  # -inf if all values are missing
    if largest > float(namespace(X).finfo(dtype).max):
        raise ValueError(
            f"X has values of up to {largest:.3g}, beyond the range of {dtype}; scale X, or use "
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


def check_rows(name, X, n_columns, place, side="visible"):
    """Return X as finite dense rows of the given width, in the library and dtype of ``place``."""
    check_container(X, name)
    if not is_foreign(X):
        X = check_array(
            X.toarray() if sp.issparse(X) else X,
            dtype=(np.float64, np.float32),
            input_name=name,
            ensure_min_features=min(n_columns, 1),  # a layer may have no unit
            ensure_all_finite="allow-nan",
        )
    elif X.ndim != 2 or X.shape[0] == 0 or (X.shape[1] == 0 and n_columns):
        raise ValueError(f"{name} must be a non-empty 2D array, got shape {tuple(X.shape)}")
    if X.shape[1] != n_columns:
        raise ValueError(
            f"{name} has {X.shape[1]} columns, but the model has {n_columns} {side} units"
        )
    check_complete(X, name)
    with np.errstate(over="ignore"):  # checked below
        X = cast(as_like(X, place), place.dtype)
    if not bool(namespace(X).all(namespace(X).isfinite(X))):
        raise ValueError(f"{name} contains infinity, or values beyond {place.dtype}")
    return X
