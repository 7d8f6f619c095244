"""Checks of the data that users give, with errors that say what to do."""

import warnings
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_array, validate_data

from .._ranks import ranks
from ..arrays import (
    ColumnSummary,
    RowView,
    as_like,
    cast,
    column_means,
    column_moments,
    dense_rows,
    from_numpy,
    has_missing,
    is_finite,
    is_foreign,
    namespace,
    parameter_reference,
    row_blocks,
    to_numpy,
    value_range,
    working_dtype,
)
from ..exceptions import DataRangeWarning
from ._blocks import CheckedBlocks, find_blocks
from ._weights import DistinctRows


def check_data(estimator, X, *, reset=False, missing=False, sparse=True, blocks=False):
    """Return X checked against an estimator's features, in its own dtype.

    ``missing`` allows NaN in a dense X, ``sparse`` a sparse one. With ``reset`` the features of X
    become those of the estimator; without, X becomes an array of the library that holds the
    estimator's parameters. ``blocks`` returns data that are read in blocks as
    :class:`CheckedBlocks`; without, arrays of them are read as a whole.
    """
    source = find_blocks(X)
    if source is not None and blocks:
        return _check_blocks(estimator, source, reset, missing)
    if source is not None and not hasattr(X, "__array__"):
        raise TypeError(
            f"{type(estimator).__name__} needs all rows in one array here, and X is read in blocks"
        )
    X = _check_data(estimator, X, reset, missing, sparse)
    if reset:
        return X
    place = estimator.machine_.weights[0]
    if sp.issparse(X) and is_foreign(place):
        raise TypeError("sparse X needs parameters in NumPy arrays; make X dense")
    return X if sp.issparse(X) else as_like(X, place)


def _check_data(estimator, X, reset, missing, sparse):
    if is_foreign(X):
        return _check_foreign_data(estimator, X, reset, missing)
    frame = X
    try:
        X = validate_data(
            estimator,
            X,
            accept_sparse="csr" if sparse else False,
            dtype="numeric",
            reset=reset,
            ensure_all_finite=not missing,
        )
    except (TypeError, ValueError) as error:
        _check_columns(frame, error)
        raise
    if X.dtype.kind not in "biuf":
        _check_columns(frame)
        raise ValueError(f"X must have real numbers, got dtype {X.dtype}")
    if missing:
        _check_infinity(X)
    return canonical(X) if sp.issparse(X) else X


def _check_blocks(estimator, source, reset, missing):
    """Return blocks of rows that are checked when they are read, a :class:`CheckedBlocks`."""
    place = None if reset else estimator.machine_.weights[0]

    def check(block):
        nonlocal reset
        block = _check_data(estimator, block, reset, missing, sparse=False)
        reset = False  # the first block has the features of all
        return block if place is None else as_like(block, place)

    return CheckedBlocks(source, check)


def _check_infinity(X):
    """Raise ValueError if X has infinite values, or if a sparse X has NaN."""
    values = X.data if sp.issparse(X) else X
    with np.errstate(over="ignore", invalid="ignore"):
        if values.dtype.kind != "f" or is_finite(values):
            return
    if np.isinf(values).any():
        raise ValueError("X contains infinity; only NaN marks a missing value")
    if sp.issparse(X) and np.isnan(values).any():
        raise ValueError("a sparse X contains NaN; for missing values make it dense: X.toarray()")


def check_known(X):
    """Raise ValueError if a column of X, or of a summary of it, has no value but NaN."""
    if isinstance(X, ColumnSummary):
        known = X.counts > 0
    elif has_missing(X):
        known = namespace(X).any(X == X, axis=0)
    else:
        return
    unknown = np.flatnonzero(~to_numpy(known))
    if unknown.size:
        raise ValueError(
            f"X has no observed value in columns {unknown[:10].tolist()}, which contain NaN alone; "
            "leave these columns out"
        )


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
    """Return the smallest and the largest value of X if one is out of bounds, else None."""
    if bounds == (-np.inf, np.inf):
        return None
    least, most = value_range(X)
    return None if least >= bounds[0] and most <= bounds[1] else (least, most)


def check_range(X, unit, binarize):
    """Warn of data to learn from that a unit cannot represent, or refuse them.

    Binary units clip what lies outside of [0, 1]; bounds of other units that the data exceed are
    a contradiction. Returns whether rows of X need :func:`into_support`.
    """
    if binarize is not None and not unit.is_binary:
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
    """Warn that new data are clipped by units that refuse such values in training."""
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

    NaN stays NaN. The result is X itself where nothing changes.
    """
    if is_foreign(X):  # not every library compares or clips bytes and booleans
        X = cast(X, working_dtype(X))
    if binarize is not None and has_missing(X):
        above = cast(X > binarize, X.dtype)
        return namespace(X).where(X == X, above, X)
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
    """Return X as finite dense rows of the given width, in the library and dtype of ``place``."""
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
        X = cast(as_like(X, place), place.dtype)
    if not bool(namespace(X).all(namespace(X).isfinite(X))):
        raise ValueError(f"{name} contains NaN or infinity, or values beyond {place.dtype}")
    return X


def ends_of_ranks(X):
    """Return an array with the smallest and the largest value of the rows of all ranks.

    For one process it is X itself.

    Raises
    ------
    ValueError
        On all ranks, if their rows differ in width or dtype.
    """
    if ranks().size == 1:
        return X
    found = ranks().gather((X.shape[1], str(parameter_reference(X).dtype), value_range(X)))
    for rank, (width, dtype, _) in enumerate(found):
        if (width, dtype) != found[0][:2]:
            raise ValueError(
                f"X has {width} features of {dtype} on rank {rank}, and {found[0][0]} features of "
                f"{found[0][1]} on rank 0; all ranks need rows of the same kind"
            )
    least, most = zip(*(ends for _, _, ends in found), strict=True)
    return np.array([[min(least)], [max(most)]])


class Rows(DistinctRows):
    """The data of a fit: its distinct rows, dense, as the visible units of a machine take them.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_samples, n_visible)
        Checked data. Values that the units cannot have are clipped, or thresholded, in a copy. NaN
        in a dense X marks what is missing.
    unit : Unit
        Kind of the visible units.
    dtype : dtype
        Of the machine.
    binarize : float or None, default=None
        Threshold above which values count as 1.
    weights : ndarray of shape (n_samples,), default=None
        Weights of the rows; None gives all the weight 1.
    coordinates : Coordinates or None, default=None
        Those of learning; None for the data's own.

    Attributes
    ----------
    part : float
        The part of all rows that this rank has. ``total``, ``n_known`` and the means, moments and
        parameters of the columns are those of all ranks.
    """

    def __init__(self, X, unit, dtype, binarize=None, weights=None, coordinates=None):
        self.unit, self.dtype, self.coordinates = unit, dtype, coordinates
        if check_range(X, unit, binarize):
            X = into_support(X, unit, binarize)
        check_held(X, dtype)
        unit.check_values(X)
        self.X, self.has_missing = X, ranks().any(has_missing(X))
        super().__init__([X], weights)
        here, self._total_of_ranks = self.total, None
        if ranks().size > 1:
            self.total = sum(ranks().gather(here))
            self._total_of_ranks = lambda sums: ranks().sum([sums])[0]
            _ = self.n_known, self.means  # now, while all ranks are there
        self.part = here / self.total

    def __getitem__(self, positions):
        """Return the rows at an array of positions, dense, in the coordinates of learning.

        Positions may be in NumPy or in the library of X. What is missing is NaN.
        """
        rows = dense_rows(self.X, self.places(positions), self.dtype)
        return rows if self.coordinates is None else self.coordinates.inward(rows)

    @cached_property
    def fingerprint(self):
        """A text that differs, but for chance, if rows or their weights differ."""
        return self.told_by(lambda positions: [self[positions]])

    @property
    def range(self):
        """The smallest and the largest value, in the user's units."""
        return value_range(self.X)

    @property
    def values(self):
        """All distinct rows in the user's units, a :class:`~skrbm.arrays.RowView`."""
        return RowView(self.X, self.index, self._total_of_ranks)

    @property
    def counts(self):
        """The weights of all distinct rows, float64."""
        return np.ones(len(self)) if self.weights is None else self.weights

    def batch(self, positions):
        """Return (rows, observed) at an array of positions.

        ``observed`` is True where values are known, and missing ones are the means of their
        columns. It is None where no value is missing.
        """
        rows = self[positions]
        return split_missing(rows, self._filling) if self.has_missing else (rows, None)

    @cached_property
    def has_fractions(self):
        """Whether visible units that are binary have values between 0 and 1."""
        X = self.X.data[:, None] if sp.issparse(self.X) else self.X
        xp = namespace(X)
        if not self.unit.is_binary or not xp.isdtype(X.dtype, "real floating"):
            return False
        between = (xp.any((rows > 0) & (rows < 1)) for rows in row_blocks(X, 1024))
        return any(bool(found) for found in between)

    @cached_property
    def initial_theta(self):
        """The parameters of independent units fitted to the rows, to what is known of them."""
        if not self.has_missing:
            return self.unit.initial_theta(self.values, self.counts)
        parts = [self._initial_theta(site) for site in self.unit.groups(self.X.shape[1])]
        return parts[0].map(lambda *found: namespace(self.X).concat(found), *parts[1:])

    def _initial_theta(self, site):
        """Return the parameters of the columns of one site, fitted to the rows that have it."""
        columns = namespace(self.X).take(self.X, from_numpy(site, self.X), axis=1)
        known = to_numpy(columns[:, 0] == columns[:, 0])[self.index]
        unit = self.unit.part(self.X.shape[1], site)
        view = RowView(columns, self.index[known], self._total_of_ranks)
        return unit.initial_theta(view, self.counts[known])

    @cached_property
    def means(self):
        """The mean of the known values of each column, in float64, in the user's units.

        It is NaN where none is known.
        """
        if not self.has_missing:
            return column_means(self.values, self.counts)
        return self._mean_of(lambda rows: rows)

    @property
    def moments(self):
        """Mean and variance of the known values of each column, in float64."""
        if not self.has_missing:
            return column_moments(self.values, self.counts)
        return self.means, self._mean_of(lambda rows: (rows - self.means) ** 2)

    @property
    def n_known(self):
        """How many rows have a value in each column: ``total``, or an array if some are missing."""
        return self.total * self._share if self.has_missing else self.total

    @cached_property
    def _share(self):
        """The part of the rows that have a value in each column, float64."""
        return column_means(self.values, self.counts, lambda x: cast(x == x, x.dtype))

    def _mean_of(self, function):
        """Return the means of a function of the rows where it is not NaN."""
        total = column_means(
            self.values, self.counts, lambda x: _without_nan(function(x), 0.0 * self._share)
        )
        with np.errstate(invalid="ignore"):
            return total / self._share

    @cached_property
    def _filling(self):
        """What stands for missing values at first, in the coordinates of learning."""
        middle = min(max(0.0, self.unit.bounds[0]), self.unit.bounds[1])
        means = _without_nan(self.means, middle * namespace(self.X).ones_like(self.means))
        means = cast(means, self.dtype)
        return means if self.coordinates is None else self.coordinates.inward(means)

    def some(self, n, rng):
        """Return at most ``n`` rows, at random; missing values are the means of their columns."""
        positions = self.epoch(np.arange(len(self)), rng)
        return self.batch(positions[rng.order(len(positions))[:n]])[0]


def split_missing(X, filling=None):
    """Return (rows, observed): X with ``filling`` for NaN, or zeros, and True where it has none.

    ``observed`` is None where X has no NaN.
    """
    if not has_missing(X):
        return X, None
    xp, observed = namespace(X), X == X
    filling = xp.zeros_like(X) if filling is None else xp.broadcast_to(filling, X.shape)
    return xp.where(observed, X, filling), observed


def _without_nan(X, filling):
    return namespace(X).where(X == X, X, filling)
