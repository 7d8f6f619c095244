"""The data of a fit: rows as the visible units of a machine take them."""

from functools import cached_property

import numpy as np
import scipy.sparse as sp

from .._ranks import ranks
from ..arrays import (
    Columns,
    cast,
    dense,
    dense_rows,
    has_missing,
    namespace,
    parameter_reference,
    row_blocks,
    take_columns,
    to_numpy,
    value_range,
)
from ..units import Theta, joined
from ._check_data import check_held, check_range, check_squares, into_support
from ._weights import DistinctRows


def ends_of_ranks(X):
    """Return :class:`~skrbm.arrays.Columns` with the range of the rows of all ranks.

    For one process they are those of X.

    Raises
    ------
    ValueError
        On all ranks, if their rows differ in width or dtype.
    """
    if ranks().size == 1:
        return Columns(X)
    found = ranks().gather((X.shape[1], str(parameter_reference(X).dtype), value_range(X)))
    for rank, (width, dtype, _) in enumerate(found):
        if (width, dtype) != found[0][:2]:
            raise ValueError(
                f"X has {width} features, to learn from in {dtype}, on rank {rank}, and "
                f"{found[0][0]}, in {found[0][1]}, on rank 0; all ranks need rows of the same kind"
            )
    least, most = zip(*(ends for _, _, ends in found), strict=True)
    return Columns(np.array([[min(least)], [max(most)]]))


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
        if check_range(Columns(X), unit, binarize):
            X = into_support(X, unit, binarize)
        check_held(X, dtype)
        unit.check_values(X)
        self.X, self.has_missing = X, ranks().any(has_missing(X))
        check_squares(self)
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

    @cached_property
    def columns(self):
        """The columns of all distinct rows, in the user's units, with their weights."""
        return Columns(self.X, self.counts, self.index, self._total_of_ranks)

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
        """Whether visible units of bits have values between 0 and 1."""
        X = self.X.data[:, None] if sp.issparse(self.X) else self.X
        xp = namespace(X)
        if not self.unit.has_bits or not xp.isdtype(X.dtype, "real floating"):
            return False
        between = (xp.any((rows > 0) & (rows < 1)) for rows in row_blocks(X, 1024))
        return any(bool(found) for found in between)

    @cached_property
    def initial_theta(self):
        """The parameters of independent units fitted to the rows, to what is known of them."""
        if not self.has_missing:
            return self.unit.initial_theta(self.columns)
        unit, n = self.unit, self.X.shape[1]
        together = unit.joint_columns(n)
        if not len(together):
            return joined([self._initial_theta(site) for site in unit.groups(n)])
        found = unit.part(n, together).initial_theta(self.columns.part(together))
        places = {column: k for k, column in enumerate(together.tolist())}
        sites = [
            Theta(found.field[places[site[0]] : places[site[0]] + 1])
            if site[0] in places
            else self._initial_theta(site)
            for site in unit.groups(n)
        ]
        return joined(sites)._replace(joint=found.joint)

    def _initial_theta(self, site):
        """Return the parameters of the columns of one site, fitted to the rows that have it."""
        columns = dense(take_columns(self.X, site))
        known = to_numpy(columns[:, 0] == columns[:, 0])[self.index]
        some = self.counts[known], self.index[known]
        unit = self.unit.part(self.X.shape[1], site)
        return unit.initial_theta(Columns(columns, *some, self._total_of_ranks))

    @cached_property
    def means(self):
        """The mean of the known values of each column, in float64, in the user's units.

        It is NaN where none is known.
        """
        if not self.has_missing:
            return self.columns.means
        return self._mean_of(lambda rows: rows)

    @property
    def moments(self):
        """Mean and variance of the known values of each column, in float64."""
        if not self.has_missing:
            return self.columns.means, self.columns.variances
        return self.means, self._mean_of(lambda rows: (rows - self.means) ** 2)

    @property
    def n_known(self):
        """How many rows have a value in each column: ``total``, or an array if some are missing."""
        return self.total * self._share if self.has_missing else self.total

    @cached_property
    def _share(self):
        """The part of the rows that have a value in each column, float64."""
        return self.columns.means_of(lambda x: cast(x == x, x.dtype))

    def _mean_of(self, function):
        """Return the means of a function of the rows where it is not NaN."""
        total = self.columns.means_of(lambda x: _without_nan(function(x), 0.0 * self._share))
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
