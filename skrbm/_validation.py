"""Checks of what users give: data, numbers and parameters, with errors that say what to do."""

import warnings
from collections.abc import Iterable
from numbers import Integral

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_array, validate_data

from ._backend import beside, cast, is_foreign, namespace, value_range, working_dtype
from ._machine import Machine
from .exceptions import DataRangeWarning
from .units import Theta

SIDES = ("visible", "hidden")


def _public(statistic):
    """Return the name that users know a natural parameter by."""
    return "intercept" if statistic == "field" else statistic


THETA_ATTRIBUTES = tuple(
    f"{_public(statistic)}_{side}_" for side in SIDES for statistic in Theta._fields
)


def check_data(estimator, X, *, reset=False, missing=False):
    """Return X checked against an estimator's features, in its own dtype.

    ``missing`` allows NaN. With ``reset`` the features of X become those of the estimator;
    without, X becomes an array of the library that holds the estimator's parameters.
    """
    X = _check_data(estimator, X, reset, missing)
    if reset:
        return X
    place = estimator.machine_.weights[0]
    if sp.issparse(X) and is_foreign(place):
        raise TypeError("sparse X needs parameters in NumPy arrays; make X dense")
    return X if sp.issparse(X) else beside(X, place)


def _check_data(estimator, X, reset, missing):
    if is_foreign(X):
        return _check_foreign_data(estimator, X, reset, missing)
    frame = X
    try:
        X = validate_data(
            estimator,
            X,
            accept_sparse=False if missing else "csr",
            dtype="numeric",
            reset=reset,
            ensure_all_finite="allow-nan" if missing else True,
        )
    except (TypeError, ValueError) as error:
        _check_columns(frame, error)
        raise
    if X.dtype.kind not in "biuf":
        _check_columns(frame)
        raise ValueError(f"X must have real numbers, got dtype {X.dtype}")
    if missing and np.isinf(X).any():
        raise ValueError("X contains infinity; only NaN marks a missing value")
    return canonical(X) if sp.issparse(X) else X


def _check_columns(X, cause=None):
    """Raise ValueError of columns of a data frame that do not hold numbers, if there are."""
    names = [name for name in getattr(X, "columns", ()) if _is_no_number(X[name])]
    if names:
        raise ValueError(
            f"columns {names} of X hold text, categories or dates, not numbers. Encode them, such "
            "as by OneHotEncoder in a ColumnTransformer, or leave them out"
        ) from cause


def _is_no_number(column):
    kind = getattr(getattr(column, "dtype", None), "kind", "O")
    return kind in "Mm" or any(isinstance(value, str | bytes) for value in column)


def canonical(X):
    """Return a sparse matrix with sorted indices and without duplicates, itself if it is so.

    SciPy would sum duplicates in place, in the caller's matrix, when it compares it with a number.
    """
    if X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
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
    if bounds == (-np.inf, np.inf):
        return None
    least, most = value_range(X)
    return None if least >= bounds[0] and most <= bounds[1] else (least, most)


def check_range(X, unit, binarize):
    """Warn of data to learn from that a unit cannot represent, or refuse them.

    Binary units clip what lies outside of [0, 1]; bounds of other units that the data exceed are
    a contradiction. Returns whether rows of X need :func:`into_support`.
    """
    if binarize is not None and unit.values is None:
        raise ValueError(
            f"binarize={binarize} makes data binary, and the visible units are {unit}; set "
            "binarize=None"
        )
    if binarize is not None:
        return True
    outside = _outside(X, unit.bounds)
    if outside is None:
        return False
    found = (
        f"X has values from {outside[0]:.4g} to {outside[1]:.4g}; those outside "
        f"[{unit.bounds[0]:g}, {unit.bounds[1]:g}], the range of its units,"
    )
    if not unit.clips:
        raise ValueError(
            f"{found} cannot be learnt. Scale or clip X, or give {type(unit).__name__} wider "
            "bounds; bounds that are not given are those of the first data seen."
        )
    warnings.warn(
        f"{found} are clipped. Scale X (MinMaxScaler), or set binarize to a threshold above which "
        "values count as 1.",
        DataRangeWarning,
        stacklevel=2,
    )
    return True


def warn_clipped(X, unit):
    """Warn of new data outside of the bounds of units that do not clip as a matter of course."""
    outside = None if unit.clips else _outside(X, unit.bounds)
    if outside is not None:
        warnings.warn(
            f"X has values from {outside[0]:.4g} to {outside[1]:.4g}; those outside "
            f"[{unit.bounds[0]:g}, {unit.bounds[1]:g}], the range of the units in training, are "
            "clipped",
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


def check_held(X, dtype):
    """Raise ValueError if a dense or sparse X has values that are infinite in ``dtype``."""
    if X.dtype == dtype or not namespace(X).isdtype(X.dtype, "real floating"):
        return
    largest = max(abs(value) for value in value_range(X))
    if largest > float(namespace(X).finfo(dtype).max):
        raise ValueError(
            f"X has values of up to {largest:.3g}, beyond the range of {dtype}, the dtype of the "
            "machine. Scale X, or fit to float64 data."
        )


def check_rows(name, X, n_columns, place):
    """Return X as finite dense rows of the width given, beside and in the dtype of ``place``."""
    if sp.issparse(X):
        X = X.toarray()
    if not is_foreign(X):
        least = min(n_columns, 1)  # a layer may have no unit
        X = check_array(
            X, dtype=(np.float64, np.float32), input_name=name, ensure_min_features=least
        )
    elif X.ndim != 2 or X.shape[0] == 0 or (X.shape[1] == 0 and n_columns):
        raise ValueError(f"{name} must have 2 dimensions, with rows, got shape {tuple(X.shape)}")
    if X.shape[1] != n_columns:
        raise ValueError(
            f"{name} has {X.shape[1]} columns, but the machine has {n_columns} such units"
        )
    with np.errstate(over="ignore"):  # the next lines say so
        X = cast(beside(X, place), place.dtype)
    if not bool(namespace(X).all(namespace(X).isfinite(X))):
        raise ValueError(f"{name} contains NaN or infinity, or values beyond {place.dtype}")
    return X


def check_count(name, value, least):
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")


def machine_from(
    components, intercept_hidden, intercept_visible, units, defaults=None, **statistics
):
    """Return the machine of a fitted estimator, or of arrays.

    ``statistics`` are arrays ``precision_visible`` and the like. Those that are not given are the
    ones of the machine ``defaults``, beside which the parameters then lie, or of units that know
    no data.
    """
    given = {"intercept_hidden": intercept_hidden, "intercept_visible": intercept_visible}
    given |= statistics
    if hasattr(components, "fit"):
        _check_source(components, units)
        source = getattr(components, "_whole", components)  # whole units of a machine with parts
        components = source.components_
        given = {name.rstrip("_"): getattr(source, name, None) for name in THETA_ATTRIBUTES}
    place = None if defaults is None else defaults.weights[0]
    W = parameter("components", components, 2, place)
    thetas = tuple(
        _theta(
            f"_{side}",
            unit,
            n,
            [given.get(name.rstrip("_")) for name in THETA_ATTRIBUTES if side in name],
            unit.default_theta(n, W) if defaults is None else defaults.thetas[l],
            W,
        )
        for l, (side, unit, n) in enumerate(zip(SIDES, units, W.shape[::-1], strict=True))
    )
    return Machine(units, thetas, (W,))


def _check_source(estimator, units):
    """Refuse an estimator that is no fitted machine, or whose units have other values."""
    name = type(estimator).__name__
    if not hasattr(estimator, "intercept_hidden_"):
        if hasattr(estimator, "n_features_in_"):
            raise ValueError(
                f"{name} is fitted, but no machine with components_, intercept_hidden_ and "
                "intercept_visible_; give such a machine, or these arrays"
            )
        raise ValueError(
            f"{name} is not fitted, or no machine. Meta-estimators such as GridSearchCV clone "
            "their parameters; wrap a fitted one in sklearn.frozen.FrozenEstimator"
        )
    if estimator.components_.shape[0] == 0:
        raise ValueError(f"{name} has no hidden unit to start from; start at random")
    # Copies of one unit have its values, whatever their sum.
    found = () if hasattr(estimator, "_whole") else getattr(estimator, "units_", ())
    for unit, other in zip(units, found, strict=False):
        if unit.values is not None and unit.values != other.values:
            raise ValueError(
                f"{name} has units {other}, whose parameters mean nothing to {unit} units; give "
                "a machine with the same kinds of units, or arrays"
            )


def _theta(where, unit, n, values, default, W):
    """Return the parameters of one layer: the biases that are given or 0, the rest as default."""
    parts = []
    for statistic, value, usual in zip(Theta._fields, values, default, strict=True):
        name = f"{_public(statistic)}{where}"
        if usual is None and value is not None:
            raise ValueError(f"{name} is given, but {unit} has no such parameter")
        if value is None and statistic == "field":
            value = np.zeros(n)
        parts.append(usual if value is None else parameter(name, value, 1, W))
        if parts[-1] is not None and parts[-1].shape[0] != n:
            raise ValueError(
                f"{name} has shape {tuple(parts[-1].shape)}, but components {tuple(W.shape)} "
                f"needs ({n},)"
            )
    theta = Theta(*parts)
    improper = unit.is_improper(theta)
    if improper is not None and bool(namespace(improper).any(improper)):
        raise ValueError(
            f"precision{where} must be positive for {unit}, whose law has no integral otherwise; "
            "units with bounds, such as TruncatedGaussian(lower, upper), take any"
        )
    return theta


def layers_from(components, parts, visible, hidden):
    """Return the machine of lists of arrays: weights and, for each statistic, those of each layer.

    ``parts`` are lists as long as there are layers, of arrays or None, or None.
    """
    if hasattr(components, "fit") or not isinstance(components, Iterable):
        raise ValueError(
            "components must be a list of arrays, the weights of each hidden layer upwards, got "
            f"{type(components).__name__}; of a machine with one hidden layer give "
            "[components_] and [intercept_visible_, intercept_hidden_]"
        )
    components = list(components)
    if not components:
        raise ValueError("components must be the weights of at least one hidden layer, got none")
    units, weights = (visible, *[hidden] * len(components)), []
    for l, W in enumerate(components):
        weights.append(parameter(f"components[{l}]", W, 2, weights[0] if l else None))
        if l and weights[l].shape[1] != weights[l - 1].shape[0]:
            raise ValueError(
                f"components[{l}] has shape {tuple(weights[l].shape)}, but the layer below has "
                f"{weights[l - 1].shape[0]} units"
            )
    lists = []
    for statistic, values in zip(Theta._fields, parts, strict=True):
        lists.append([None] * len(units) if values is None else list(values))
        if len(lists[-1]) != len(units):
            raise ValueError(
                f"{_public(statistic)}s must be {len(units)} arrays, one for each layer, visible "
                f"first, got {len(lists[-1])}"
            )
    sizes = [weights[0].shape[1], *(W.shape[0] for W in weights)]
    layers = enumerate(zip(units, sizes, *lists, strict=True))
    thetas = tuple(
        _theta(f"s[{l}]", unit, n, values, unit.default_theta(n, weights[0]), weights[0])
        for l, (unit, n, *values) in layers
    )
    return Machine(units, thetas, tuple(weights))


def parameter(name, values, ndim, place=None, *, empty=False):
    """Return a finite, contiguous copy of a parameter, beside the array ``place`` if given.

    ``empty`` allows for no units.
    """
    array = namespace(values).asarray(values, copy=True) if is_foreign(values) else None
    array = _real_array(name, values) if array is None else array
    dtype = working_dtype(array)
    if place is not None:
        array, dtype = beside(array, place), place.dtype
    array = cast(array, dtype)
    if array.ndim != ndim or (0 in array.shape and not empty):
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
