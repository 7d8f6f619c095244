"""Categorical units: groups of columns of which exactly one is 1."""

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import scipy.sparse as sp

from .._checks import check_count
from ..arrays import (
    block_rows,
    cast,
    cumulative_sum,
    dense_rows,
    from_numpy,
    is_foreign,
    like,
    log_sum_exp,
    namespace,
    row_blocks,
    working_dtype,
)
from ._base import Theta, Unit, digits

_BLOCK_ELEMENTS = 2**16  # that NumPy draws together, in the cache of a core
# Values of a site, on average, from which on sparse products take less time, or as much with few
# sites or hidden units.
_SPARSE = 24


@dataclass(frozen=True)
class Categorical(Unit):
    """Categorical variables (sites) in one-hot encoding: one column of each site is 1.

    A site of q columns has the distribution exp(field . x), with x one of the q unit vectors, so
    the fields of a site are defined up to a constant. Since its columns exclude each other, they
    have probabilities, but no independent variances and no precisions. ``log_partition`` has one
    value for each site, every other method one for each column.

    Parameters
    ----------
    sizes : int, tuple of int or None, default=None
        Number of values of all sites, or of each site; they must sum to the number of columns. None
        makes the whole layer one site.
    """

    sizes: int | tuple[int, ...] | None = None

    bounds = (0.0, 1.0)
    reach = 1.0
    is_discrete = True
    takes_precision = False
    has_variances = False
    alternative = "inference 'mean_field', in RBM also 'gibbs', in ConditionalRBM also 'bp'"

    def __post_init__(self):
        if self.sizes is None:
            return
        several = np.iterable(self.sizes)
        sizes = tuple(self.sizes) if several else (self.sizes,)
        check_count("the number of sites in sizes", len(sizes), 1)
        for q in sizes:
            check_count("sizes, the number of values of every site or of each,", q, 1)
        object.__setattr__(self, "sizes", tuple(map(int, sizes)) if several else int(self.sizes))

    def sites(self, n):
        """Return the number of values of each site of a layer of ``n`` columns, a tuple of int.

        Raises
        ------
        ValueError
            If ``n`` columns do not make up such sites.
        """
        if self.sizes is None:
            sites = (n,)
        elif np.iterable(self.sizes):
            sites = self.sizes
        else:
            sites = (self.sizes,) * (n // self.sizes)
        if n < 1 or sum(sites) != n:
            raise ValueError(
                f"{self} does not fit a layer of {n} columns: the sizes of its sites must sum to "
                "the number of columns"
            )
        return sites

    def groups(self, n):
        return np.split(np.arange(n), np.cumsum(self.sites(n))[:-1])

    def exclusive(self, n):
        return self.groups(n)

    def is_sparse(self, n):
        return n >= _SPARSE * len(self.sites(n))

    def supports(self, n):
        return [("site", q, place) for q in self.sites(n) for place in range(q)]

    def part(self, n, columns):
        kept = [len(site) for site in self.groups(n) if site[0] in columns]
        return replace(self, sizes=tuple(kept))

    def asks_for(self, fitted):
        return self == fitted

    def n_configurations(self, n):
        return math.prod(self.sites(n))

    def configurations(self, n, numbers):
        sites = np.array(self.sites(n))
        rows = np.zeros((len(numbers), n))
        chosen = np.cumsum(sites) - sites + digits(numbers, sites)
        np.put_along_axis(rows, chosen, 1.0, axis=1)
        return rows

    def check_values(self, X):
        if sp.issparse(X):
            if not self._has_values(X.tocsr()):
                raise ValueError(self._wrong_values)
            return
        size = block_rows(X.shape[1])
        for start in range(0, X.shape[0], size):
            index = np.arange(start, min(start + size, X.shape[0]))
            rows = dense_rows(X, from_numpy(index, X), working_dtype(X))
            xp, by_site = namespace(rows), self._by_site(rows, 0.0)
            right = (xp.sum(by_site, axis=-1) == 1) & (xp.max(by_site, axis=-1) == 1)
            right = right & (xp.min(by_site, axis=-1) >= 0)
            missing = xp.all(xp.isnan(self._by_site(rows, float("nan"))), axis=-1)
            if not bool(xp.all(right | missing)):
                raise ValueError(self._wrong_values)

    def _has_values(self, X):
        """Whether rows of a CSR matrix are such values, or missing."""
        sizes = np.array(self.sites(X.shape[1]))
        site = np.repeat(np.arange(len(sizes)), sizes)[X.indices]
        place = len(sizes) * np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)) + site
        is_one, is_missing = X.data == 1, X.data != X.data
        n = X.shape[0] * len(sizes)
        ones, missing = (np.bincount(place[which], minlength=n) for which in (is_one, is_missing))
        right = (ones == 1) & (missing == 0) | (ones == 0) & (missing == np.tile(sizes, X.shape[0]))
        return bool(right.all() and (is_one | is_missing | (X.data == 0)).all())

    @property
    def _wrong_values(self):
        return (
            f"X must have one 1 and otherwise 0, or NaN throughout, among the columns of each site "
            f"of {self}; encode categories by OneHotEncoder"
        )

    def log_partition(self, theta):
        """Return log of the sum over the values of each site, of shape (..., n_sites)."""
        return log_sum_exp(self._by_site(theta.field))

    def mean(self, theta):
        """Return the probability of each value."""
        field = self._by_site(theta.field)
        xp = namespace(field)
        # Weights over their sum: exp(field - log Z) would round log Z.
        weights = xp.exp(field - xp.max(field, axis=-1, keepdims=True))
        return self._by_column(weights / xp.sum(weights, axis=-1, keepdims=True), theta.field)

    def mode(self, theta):
        best = namespace(theta.field).argmax(self._by_site(theta.field), axis=-1)
        return self._one_hot(best, theta.field)

    def sample(self, theta, rng):
        return self._one_hot(self._drawn(theta.field, rng), theta.field)

    def sample_sparse(self, theta, rng):
        drawn, sizes = self._drawn(theta.field, rng), self.sites(theta.field.shape[-1])
        columns = (drawn + (np.cumsum(sizes) - max(sizes))).astype(np.int32)
        ends = np.arange(0, columns.size + 1, len(sizes), dtype=np.int32)
        ones = np.ones(columns.size, theta.field.dtype)
        return sp.csr_array((ones, columns.ravel(), ends), shape=theta.field.shape)

    def _drawn(self, field, rng):
        """Return the drawn value of each site, counted with what smaller sites begin with."""
        xp, shape = namespace(field), field.shape
        field = xp.reshape(field, (-1, shape[-1]))
        noise = rng.uniform((field.shape[0], len(self.sites(shape[-1]))))
        if is_foreign(field) or math.prod(field.shape) <= _BLOCK_ELEMENTS:
            drawn = self._quantiles(field, noise)
        else:
            size = max(1, _BLOCK_ELEMENTS // shape[-1])
            blocks = zip(row_blocks(field, size), row_blocks(noise, size), strict=True)
            drawn = np.concatenate([self._quantiles(*block) for block in blocks])
        return xp.reshape(drawn, (*shape[:-1], drawn.shape[-1]))

    def _quantiles(self, field, noise):
        """Return the values of the sites of rows at quantiles of their distributions."""
        weights = self._values_first(field)
        xp = namespace(weights)
        weights -= xp.max(weights, axis=0)
        edges = cumulative_sum(xp.exp(weights), axis=0)
        # So that a value without probability is never drawn.
        below = edges[:-1, ...] <= noise.T * edges[-1, ...]
        return xp.sum(cast(below, xp.int32), axis=0).T

    def initial_theta(self, columns):
        """Return the logarithms of the frequencies, with one more row that is uniform.

        That row keeps the field of a value that never occurs finite.
        """
        mean = columns.means
        n = columns.n_known
        sites = np.array(self.sites(columns.shape[1]))
        prior = from_numpy(1.0 / np.repeat(sites, sites), mean)
        return Theta(namespace(mean).log((n * mean + prior) / (n + 1)))

    def default_theta(self, n, reference):
        self.sites(n)  # raises if the sites do not fit
        return super().default_theta(n, reference)

    def _values_first(self, x):
        """Return rows as (n_values, n_sites, n_rows), where smaller sites begin with -inf.

        So sums over the few values of a site are sums of long vectors, which takes a third of the
        time.
        """
        xp, sites = namespace(x), self.sites(x.shape[1])
        columns, _ = _padding(sites)
        if len(set(sites)) > 1:
            more = xp.full((x.shape[0], 1), float("-inf"), **like(x))
            x = xp.concat([x, more], axis=1)
        shape = len(sites), max(sites)
        columns = from_numpy(columns.reshape(shape).T.ravel(), x)
        return xp.reshape(xp.take(x.T, columns, axis=0), (*shape[::-1], x.shape[0]))

    def _one_hot(self, index, reference):
        """Return columns like ``reference``, 1 at the value ``index`` of each site."""
        xp, sites = namespace(reference), self.sites(reference.shape[-1])
        width = max(sites)
        if not is_foreign(reference):
            rows, n = np.zeros(reference.shape, reference.dtype), reference.shape[-1]
            columns = np.reshape(index + (np.cumsum(sites) - width), (-1, len(sites)))
            rows.reshape(-1)[n * np.arange(len(columns))[:, None] + columns] = 1
            return rows
        values = xp.arange(width, **{**like(reference), "dtype": index.dtype})
        return self._by_column(cast(index[..., None] == values, reference.dtype), reference)

    def _by_site(self, x, fill=float("-inf")):
        """Return columns as (..., n_sites, n_values), where smaller sites begin with ``fill``.

        The last entry of a site is then one of its values, which ``sample`` relies on.
        """
        xp, sites = namespace(x), self.sites(x.shape[-1])
        if len(set(sites)) > 1:
            columns, _ = _padding(sites)
            more = xp.full((*x.shape[:-1], 1), fill, **like(x))
            x = xp.take(xp.concat([x, more], axis=-1), from_numpy(columns, x), axis=-1)
        return xp.reshape(x, (*x.shape[:-1], len(sites), max(sites)))

    def _by_column(self, values, reference):
        """Undo :meth:`_by_site`, for a layer with the columns of ``reference``."""
        xp, sites = namespace(values), self.sites(reference.shape[-1])
        x = xp.reshape(values, (*values.shape[:-2], len(sites) * max(sites)))
        if len(set(sites)) > 1:
            x = xp.take(x, from_numpy(_padding(sites)[1], x), axis=-1)
        return x


@cache
def _padding(sites):
    """Return which columns make up sites of equal size, and where the columns are then.

    The column after the last one is the one to fill with.
    """
    width = max(sites)
    real = np.arange(width) >= width - np.array(sites)[:, None]
    columns = np.full(real.shape, sum(sites))
    columns[real] = np.arange(sum(sites))
    return columns.ravel(), np.flatnonzero(real)
