"""The rows of a fit: distinct rows with weights, as values of the visible units."""

import hashlib
import warnings
from functools import cached_property
from itertools import pairwise
from math import fsum

import numpy as np
import scipy.sparse as sp

from .._ranks import ranks
from .._sklearn import _check_sample_weight
from ..arrays import (
    Columns,
    block_rows,
    cast,
    dense,
    dense_rows,
    from_numpy,
    has_missing,
    is_foreign,
    namespace,
    parameter_reference,
    row_blocks,
    sparse_rows,
    take_rows,
    to_numpy,
    value_range,
)
from ._blocks import RowBlocks
from ._check_data import check_held, check_range, check_squares, into_support
from ._frames import check_container

_HASHED_ROWS = 1000  # that are dense together
_SEED = 20160620  # of the order of the distinct rows, the same in all fits
_MAX_REPEATED = 10**8  # rows of an epoch by whole weights, whose index array takes 800 MB
_LEAST_TOTAL, _LARGEST_TOTAL = 1e-100, 1e100  # of weights, whose products do not overflow
_ROUNDING = 1e-12  # difference of the keys of equal rows, relative to the largest key
_NAN = 0.7390851332151607  # replaces NaN in keys


class DistinctRows:
    """The distinct rows of data, with weights.

    Equal rows are merged (:func:`distinct_rows`), and the order is random but the same in all fits.
    Positions count distinct rows.

    Attributes
    ----------
    index : ndarray of int of shape (n_distinct,)
        The rows of the arrays at the positions.
    weights : ndarray of shape (n_distinct,) or None
        Their weights, float64; None if all are 1.
    total : int
        Number of samples: the sum of the weights, rounded.
    """

    def __init__(self, arrays, weights=None):
        self._reference = arrays[0]
        index, weights = distinct_rows(arrays, weights)
        order = np.random.default_rng(_SEED).permutation(len(index))
        self.index, weights = index[order], weights[order]
        self.weights = None if (weights == 1).all() else weights
        self.total = max(1, round(weights.sum()))

    def __len__(self):
        return len(self.index)

    @property
    def counts(self):
        """The weights of all distinct rows, float64."""
        return self.weights_of(np.arange(len(self)))

    def weights_of(self, positions):
        """Return the weights of the rows at some positions, float64."""
        return np.ones(len(positions)) if self.weights is None else self.weights[positions]

    def places(self, positions):
        """Return the rows of the arrays at positions, in the library of the first of the arrays."""
        if not is_foreign(self._reference):
            return self.index[positions]
        return take_rows(self._index_on_device, positions)

    @cached_property
    def _index_on_device(self):
        return from_numpy(self.index, self._reference)

    def hashed(self, values, *others):
        """Return a hash of rows, weights and other arrays, by which a resumed fit checks its data.

        ``values`` returns a list of dense arrays, the rows at an array of positions.
        """
        digest = hashlib.blake2b(digest_size=16)

        def add(array):
            array = np.nan_to_num(to_numpy(array).astype(np.float64), nan=np.pi) + 0.0  # no -0
            digest.update(repr(array.shape).encode() + array.tobytes())

        for array in (self.counts, *others):
            add(array)
        for start in range(0, len(self), _HASHED_ROWS):
            for array in values(np.arange(start, min(start + _HASHED_ROWS, len(self)))):
                add(array)
        return digest.hexdigest()

    def epoch(self, positions, rng):
        """Return the positions of an epoch, each repeated according to the weight of its row."""
        if self.weights is None:
            return positions
        return rows_of_epoch(positions, self.weights[positions], rng)

    def batches(self, positions, rng, n_batches):
        """Return the mini-batches of an epoch, index arrays whose sizes differ by 1 at most.

        ``n_batches(n_rows)`` returns their number for the rows of the epoch.
        """
        rows = self.epoch(positions, rng)
        rows = rows[rng.order(len(rows))]
        # Equal sizes, since a last batch of few rows would be a noisy step of full length.
        n = n_batches(len(rows))
        size, n_larger = divmod(len(rows), n)
        ends = [size * batch + min(batch, n_larger) for batch in range(n + 1)]
        rows = from_numpy(rows, self._reference)  # a device receives those of an epoch at once
        return [rows[start:stop] for start, stop in pairwise(ends)]

    def drawn(self, n, rng):
        """Return ``n`` positions drawn with replacement, in proportion to the weights."""
        ends = np.cumsum(self.counts)
        noise = to_numpy(rng.uniform((n,))).astype(np.float64)
        return np.minimum(np.searchsorted(ends, noise * ends[-1], side="right"), len(self) - 1)

    def split(self, fraction, rng, positions=None):
        """Split positions at random into a training and a validation set.

        The validation set has about ``fraction`` of the weight. It is None, with a warning, if all
        rows are equal. ValueError is raised if a set would be empty although rows differ.
        """
        positions = np.arange(len(self)) if positions is None else positions
        if len(positions) == 1:
            warnings.warn("no validation set is held out, since all rows are equal", stacklevel=2)
            return positions, None
        order = positions[to_numpy(rng.permutation(len(positions)))]
        weights = self.weights_of(order)
        total, before = weights.sum(), np.cumsum(weights) - weights
        n = max(1, round(total))
        n_validation = int(np.sum(before < round(fraction * n) * (total / n)))
        if not 0 < n_validation < len(order):
            raise ValueError(
                f"validation_fraction={fraction} of {self.total} samples, of which {len(order)} "
                "differ, leaves an empty training or validation set"
            )
        return np.sort(order[n_validation:]), order[:n_validation]


class Rows(DistinctRows):
    """The distinct rows of a fit, dense, as the visible units of a machine take them.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_samples, n_visible)
        Checked data. Values outside the support of the units are clipped, in a copy. NaN in a dense
        X is a missing value.
    unit : Unit
        Kind of the visible units.
    dtype : dtype
        Of the machine.
    weights : ndarray of shape (n_samples,), default=None
        Weights of the rows; None gives all the weight 1.
    coordinates : Coordinates or None, default=None
        Those of learning; None for the data's own.

    Attributes
    ----------
    columns : Columns
        Statistics of the rows of all ranks, in the user's units.
    part : float
        The fraction of all samples that is on this rank. ``total`` counts those of all ranks.
    """

    def __init__(self, X, unit, dtype, weights=None, coordinates=None):
        self.unit, self.dtype, self.coordinates = unit, dtype, coordinates
        if check_range(Columns(X), unit):
            X = into_support(X, unit)
        check_held(X, dtype)
        unit.check_values(X)
        super().__init__([X], weights)
        self.X, self.has_missing = X, ranks().any(has_missing(X))
        several, here = ranks().size > 1, self.total
        of_ranks = (lambda sums: ranks().sum([sums])[0]) if several else None
        self.columns = Columns(X, self.counts, self.index, of_ranks, self.has_missing)
        check_squares(self)
        if several:
            self.total = sum(ranks().gather(here))
            _ = self.n_known, self.means  # computed now, since all ranks take part
        self.part = here / self.total

    def __getitem__(self, positions):
        """Return the rows at an array of positions, dense, in the coordinates of learning.

        Positions may be in NumPy or in the library of X. Missing values are NaN.
        """
        rows = dense_rows(self.X, self.places(positions), self.dtype)
        return rows if self.coordinates is None else self.coordinates.inward(rows)

    @cached_property
    def fingerprint(self):
        """A hash of the rows and their weights."""
        return self.hashed(lambda positions: [self[positions]])

    def batch(self, positions):
        """Return (rows, observed) at an array of positions.

        ``observed`` is True where values are known, and missing ones are replaced by the means of
        their columns. It is None if no value is missing.
        """
        if self._is_sparse:
            return self._sparse(positions), None
        rows = self[positions]
        return split_missing(rows, self._filling) if self.has_missing else (rows, None)

    def columns_at(self, positions, dtype):
        """Return the :class:`~skrbm.arrays.Columns` of rows as batches have them, in ``dtype``.

        Rows that are sparse in training stay sparse.
        """
        if sp.issparse(self.X) and not self.has_missing and self.coordinates is None:
            return Columns(self._sparse(positions).astype(dtype))
        return Columns(cast(dense(self.batch(positions)[0]), dtype))

    @cached_property
    def _is_sparse(self):
        """Whether batches are sparse, since products then take less time."""
        X, unit = self.X, self.unit
        return sp.issparse(X) and not self.has_missing and unit.is_sparse(X.shape[1])

    def _sparse(self, positions):
        return sparse_rows(self.X, self.places(positions), self.dtype)

    @cached_property
    def has_fractions(self):
        """Whether binary visible units have values between 0 and 1."""
        return has_fractions(self.X, self.unit)

    @cached_property
    def initial_theta(self):
        """The parameters of independent units fitted to the known values."""
        return self.unit.initial_theta(self.columns)

    @property
    def means(self):
        """The mean of the known values of each column, float64, in the user's units."""
        return self.columns.means

    @property
    def moments(self):
        """Mean and variance of the known values of each column, float64, in the user's units."""
        return self.columns.means, self.columns.variances

    @property
    def n_known(self):
        """Number of known values of each column: ``total``, or an array if some are missing."""
        return self.total * self.columns.known_share if self.has_missing else self.total

    @cached_property
    def known_share(self):
        """Fraction of all values that are known."""
        return self._known_share_of(slice(None))

    @cached_property
    def known_share_of_joint(self):
        """Fraction of known values in columns with a precision matrix; 1.0 if there are none."""
        return self._known_share_of(self.unit.joint_columns(self.X.shape[1]))

    def _known_share_of(self, columns):
        shares = to_numpy(self.columns.known_share)[columns] if self.has_missing else np.ones(0)
        return float(shares.mean()) if shares.size else 1.0

    @property
    def n_informative(self):
        """Number of rows by which the automatic penalty is determined.

        That is the number of complete rows with as many pairs of known values in columns with a
        precision matrix, if values are missing independently.
        """
        return self.total * self.known_share_of_joint**2

    @cached_property
    def _filling(self):
        """Initial values of missing entries, in the coordinates of training."""
        middle = min(max(0.0, self.unit.bounds[0]), self.unit.bounds[1])
        means, xp = self.means, namespace(self.means)
        means = cast(xp.where(means == means, means, middle * xp.ones_like(means)), self.dtype)
        return means if self.coordinates is None else self.coordinates.inward(means)

    def some(self, n, rng):
        """Return at most ``n`` random rows as a :meth:`batch`, dense."""
        positions = self.epoch(np.arange(len(self)), rng)
        rows, observed = self.batch(positions[rng.order(len(positions))[:n]])
        return dense(rows), observed


def ends_of_ranks(X):
    """Return :class:`~skrbm.arrays.Columns` with the range of the rows of all ranks.

    ValueError is raised on all ranks if their rows differ in width or dtype.
    """
    if ranks().size == 1:
        return Columns(X)
    found = ranks().gather((X.shape[1], str(parameter_reference(X).dtype), value_range(X)))
    for rank, (width, dtype, _) in enumerate(found):
        if (width, dtype) != found[0][:2]:
            raise ValueError(
                f"X has {width} features ({dtype}) on rank {rank}, but {found[0][0]} "
                f"({found[0][1]}) on rank 0"
            )
    least, most = zip(*(ends for _, _, ends in found), strict=True)
    return Columns(np.array([[min(least)], [max(most)]]))


def has_fractions(X, unit):
    """Whether a dense or sparse X has values between 0 and 1 for binary units."""
    X = X.data[:, None] if sp.issparse(X) else X
    xp = namespace(X)
    if not unit.has_bits or not xp.isdtype(X.dtype, "real floating"):
        return False
    return any(bool(xp.any((rows > 0) & (rows < 1))) for rows in row_blocks(X))


def split_missing(X, filling=None):
    """Return (rows, observed): X with NaN replaced by ``filling`` or 0, and where X is not NaN.

    ``observed`` is None if X has no NaN.
    """
    if not has_missing(X):
        return X, None
    xp, observed = namespace(X), X == X
    filling = xp.zeros_like(X) if filling is None else xp.broadcast_to(filling, X.shape)
    return xp.where(observed, X, filling), observed


def check_weights(sample_weight, X):
    """Return the checked weights of the rows of X, float64, or None if all are 1."""
    if sample_weight is None:
        return None
    if isinstance(X, RowBlocks):
        raise ValueError("sample_weight is not supported for data that are read in blocks")
    check_container(sample_weight, "sample_weight")
    weights = _check_sample_weight(
        to_numpy(sample_weight) if hasattr(sample_weight, "__dlpack__") else sample_weight,
        np.empty((X.shape[0], 1)),
        dtype=np.float64,
    )
    if (weights < 0).any():
        raise ValueError("sample_weight has negative values")
    if not weights.any():
        raise ValueError("sample_weight is 0 for all rows")
    with np.errstate(over="ignore"):
        total = weights.sum()
    if not _LEAST_TOTAL <= total <= _LARGEST_TOTAL:
        raise ValueError(
            f"the sum of sample_weight must be from {_LEAST_TOTAL:g} to {_LARGEST_TOTAL:g}, got "
            f"{total:g}; scale the weights"
        )
    return None if (weights == 1).all() else weights


def rows_with_weight(sample_weight, *arrays):
    """Return (weights, *arrays) without the rows of weight 0, with checked and scaled weights.

    The ranks call it together, also those without weights.
    """
    weights = check_weights(sample_weight, arrays[0])
    if isinstance(arrays[0], RowBlocks):
        return None, *arrays
    if weights is not None and not weights.all():
        kept = np.flatnonzero(weights)
        weights, arrays = weights[kept], [take_rows(array, kept) for array in arrays]
    return scaled_weights(weights, arrays[0].shape[0]), *arrays


def scaled_weights(weights, n_rows):
    """Return weights scaled to a mean of 1, that of all ranks, if some are not whole.

    Weights of None are all 1, and rows of weight 0 do not count. The ranks call it together.
    """
    if weights is None and ranks().size == 1:
        return None
    weights = np.ones(n_rows) if weights is None else weights
    # A sum without rounding, which does not depend on the order.
    found = np.count_nonzero(weights), fsum(weights), not are_whole(weights)
    n, total, has_fractions = ranks().sum([np.array(found, np.float64)])[0]
    if has_fractions:
        weights = weights * n / total  # in this order equal weights are exactly 1
    return None if (weights == 1).all() else weights


def distinct_rows(arrays, weights=None):
    """Merge rows that are equal in all arrays, NaN too, and sort them by a random projection.

    The order depends on the values of the rows and not on the order in which they are given, except
    for rows whose projections differ by rounding only, so that a fit with a row of weight 2 takes
    the same steps as one with this row twice. Rows of weight 0 are left out. Return an index of one
    of each set of equal rows, and the sums of their weights, float64.
    """
    weights = np.ones(arrays[0].shape[0]) if weights is None else weights
    arrays, rows = list(arrays), np.flatnonzero(weights)
    for k, X in enumerate(arrays):
        if sp.issparse(X) and has_missing(X):
            values = np.where(np.isnan(X.data), X.dtype.type(_NAN), X.data)
            arrays[k] = sp.csr_array((values, X.indices, X.indptr), shape=X.shape)
    keys = _keys(arrays)[rows]
    order = np.argsort(keys, kind="stable")
    rows, keys = rows[order], keys[order]
    near = 1 + np.flatnonzero(np.diff(keys) <= _ROUNDING * np.abs(keys).max())
    is_first = np.ones(len(rows), dtype=bool)
    is_first[near] = ~_are_equal(arrays, rows[near - 1], rows[near])
    first = np.flatnonzero(is_first)
    return rows[first], np.add.reduceat(weights[rows], first)


def _keys(arrays):
    """Return the projection of each row on a random direction, float64."""
    generator, total = np.random.default_rng(_SEED), 0.0
    for X in arrays:
        # The scale keeps sums of the largest floats, and their differences, from overflowing.
        direction, keys = generator.standard_normal(X.shape[1]), []
        direction /= 32 * len(arrays) * X.shape[1]
        for block in row_blocks(X, _block_rows(X)):
            block = cast(block, namespace(block).float64)
            if not sp.issparse(block) and has_missing(block):
                block = namespace(block).where(block == block, block, _NAN)
            keys.append(to_numpy(block @ from_numpy(direction, block)))
        total = total + np.concatenate(keys)
    return total


def _block_rows(X):
    columns = X.nnz // X.shape[0] + 1 if sp.issparse(X) else X.shape[1]
    return block_rows(columns)


def _are_equal(arrays, first, second):
    """Return whether the rows at two index arrays are equal."""
    equal = np.ones(len(first), dtype=bool)
    for X in arrays:
        size = _block_rows(X)
        for start in range(0, len(first), size):
            part = slice(start, start + size)
            a, b = take_rows(X, first[part]), take_rows(X, second[part])
            if sp.issparse(a):
                equal[part] &= np.diff((a != b).tocsr().indptr) == 0
            else:
                same = (a == b) | ((a != a) & (b != b))
                equal[part] &= to_numpy(namespace(a).all(same, axis=1))
    return equal


def are_whole(weights):
    """Whether all weights are whole numbers."""
    return bool((weights == np.rint(weights)).all())


def rows_of_epoch(index, weights, rng):
    """Return the rows of an epoch: each repeated according to its weight.

    Whole weights are numbers of repetitions, if they sum to at most 1e8. Of others, as many rows as
    they sum to are drawn by systematic resampling, or as many as there are if these are too many.
    """
    total = weights.sum()
    if are_whole(weights) and total <= _MAX_REPEATED:
        return np.repeat(index, weights.astype(np.int64))
    n, ends = max(1, round(total)) if total <= _MAX_REPEATED else len(index), np.cumsum(weights)
    points = (np.arange(n) + float(to_numpy(rng.uniform((1,)))[0])) * (ends[-1] / n)
    return index[np.minimum(np.searchsorted(ends, points, side="right"), len(index) - 1)]
