"""The contract of a unit: a one-dimensional exponential family in natural parameters."""

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Any, NamedTuple

import numpy as np

from .._checks import unwritten
from ..arrays import (
    Array,
    Columns,
    Index,
    Rng,
    cast,
    is_finite,
    is_sparse,
    like,
    matmul,
    namespace,
    nonzero,
    require,
    row_sums,
    squared,
    take_rows,
    weighted_sum,
)
from ..exceptions import DivergenceError

_REACH = 0.4  # least scale of a column, as a fraction of the distance to its rare values


class Theta(NamedTuple):
    """Natural parameters of a layer of units.

    They belong to the statistics (x, -x**2 / 2, 1[x != 0], abs(x), -x abs(x) / 2). ``None`` means
    that a statistic is absent, so that no arithmetic is spent on it. Each parameter is an array of
    shape (n_units,), or (n_rows, n_units) once the layer has been tilted by a field for each row.

    ``joint`` is a precision matrix, which belongs to the statistic -x x' / 2. It has shape (n, n),
    where n is the number of columns with a joint normal distribution, and is shared by all rows.
    """

    field: Array
    precision: Array | None = None
    spike: Array | None = None
    absolute: Array | None = None
    skew: Array | None = None
    joint: Array | None = None

    def map(self, function: Callable[..., Array], *others: "Theta") -> "Theta":
        """Apply ``function`` to each statistic that is present."""
        precision, spike, _, skew, joint = self[1:]
        if precision is None and spike is None and skew is None and joint is None:  # the usual case
            if not others:
                return Theta(function(self.field))
            return Theta(function(self.field, *[other.field for other in others]))
        return Theta(
            *[
                None if parts[0] is None else function(*parts)
                for parts in zip(self, *others, strict=True)
            ]
        )

    def map_columns(self, function: Callable[..., Array], *others: "Theta") -> "Theta":
        """Apply ``function`` to each statistic of columns; ``joint`` stays as it is."""
        if self.joint is None:
            return self.map(function, *others)
        others = tuple(other._replace(joint=None) for other in others)
        return self._replace(joint=None).map(function, *others)._replace(joint=self.joint)

    def rows(self, index: Index) -> "Theta":
        """Return the parameters of some rows, a slice or an array of integers.

        Those shared by all rows are kept as they are.
        """
        return self.map_columns(lambda part: part if part.ndim == 1 else take_rows(part, index))

    def is_like(self, other: Any) -> bool:
        """Whether another one, or a tuple, has the same statistics and shapes, and is finite."""
        if not np.iterable(other):
            return False
        own, others = (
            [None if part is None else getattr(part, "shape", ()) for part in parts]
            for parts in (self, other)
        )
        return own == others and all(is_finite(part) for part in other if part is not None)


def log_weight(theta: Theta, X: Array) -> Array:
    """Return sum_i of theta . statistics(X_i) for each row of X, in float64.

    X may be sparse, unless theta has a row for each row of X. ``theta.joint`` must be of all
    columns.
    """

    def products(X: Array, part: Array) -> Array:
        if part.ndim > 1:  # each row has its own
            return row_sums(X * part)
        return cast(matmul(X, part), namespace(part).float64)

    total = products(X, theta.field)
    if theta.precision is not None:
        total = total - 0.5 * products(squared(X), theta.precision)
    if theta.spike is not None:
        total = total + products(nonzero(X, theta.field.dtype), theta.spike)
    if theta.absolute is not None:
        total = total + products(abs(X), theta.absolute)
    if theta.skew is not None:
        total = total - 0.5 * products(abs(X) * X, theta.skew)
    if theta.joint is not None:
        product = matmul(X, theta.joint)
        if is_sparse(X):
            squares = np.asarray(X.multiply(product).sum(axis=1), dtype=np.float64).ravel()
        else:
            squares = row_sums(product * X)
        total = total - 0.5 * squares
    return total


def digits(numbers: Array, sizes: Sequence[int]) -> np.ndarray:
    """Return the digits of integers to the bases ``sizes``, the first digit the lowest.

    Returns
    -------
    ndarray of int, of shape (n_numbers, n_digits)
    """
    found = np.empty((len(sizes), len(numbers)), dtype=np.int64)
    for digit, size in zip(found, sizes, strict=True):  # NumPy divides fast by one number only
        rest = numbers // size
        digit[:] = numbers - size * rest
        numbers = rest
    return found.T


class Unit:
    """A kind of unit, given by its support.

    Inference only *tilts* a unit, by adding a field and a precision, and then asks it for the
    log-partition function, moments, the mode or a sample, which subclasses implement. A unit holds
    no parameters other than those of its support. Layers have ``n`` columns; arrays of parameters
    and values have one entry for each column, and may have a row for each row of data.

    Attributes
    ----------
    values : tuple of float or None
        The support of a single unit, if it is finite and units are independent.
    is_discrete : bool
        Whether a layer has a finite number of configurations, which makes enumeration possible.
    bounds : tuple of float
        The smallest and the largest value.
    clips : bool
        Whether data outside the bounds are clipped in training, with a warning. If not, they raise
        an error.
    has_precision : bool
        Whether the parameters include a precision.
    takes_precision : bool
        Whether ``tilt`` accepts a precision.
    has_variances : bool
        Whether each column has its own variance, computed by ``mean_variance``.
    has_further : bool
        Whether mean and variance do not determine all expected statistics, so that ``further``
        is needed.
    has_central_moments : bool
        Whether ``central_moments`` is implemented.
    has_cumulants : bool
        Whether the cumulants are functions of the mean, computed by ``cumulants``.
    is_gaussian : bool
        Whether the distribution is normal on the whole real line.
    is_joint : bool
        Whether columns are normal with a precision matrix, ``joint`` of :class:`Theta`.
    samples_exactly : bool
        Whether ``sample`` draws from the distribution of the unit. If not, a draw is a proposal,
        and ``log_correction`` is the logarithm of its weight.
    needs_bounds : bool
        Whether the units of neighbouring layers must have bounds.
    is_learnt : bool
        Whether estimators support such units.
    n_rows : int or None
        Number of rows with their own distributions; None if all rows share one.
    alternative : str
        What to use if a method does not support such units, for error messages.
    """

    values: tuple[float, ...] | None = None
    bounds = (-inf, inf)
    clips = False
    has_precision = False
    takes_precision = True
    has_variances = True
    has_further = False
    has_central_moments = False
    has_cumulants = False
    is_gaussian = False
    is_joint = False
    samples_exactly = True
    needs_bounds = False
    is_learnt = True
    n_rows: int | None = None
    alternative = ""

    # ---------------------------------------------------------------------------- the support

    @property
    def is_discrete(self) -> bool:
        """Whether a layer has a finite number of configurations."""
        return self.values is not None

    @property
    def is_binary(self) -> bool:
        """Whether the support is {0, 1}."""
        return self.values == (0.0, 1.0)

    @property
    def reach(self) -> float:
        """Distance between the two values of a column, infinite if it does not have two."""
        values = self.values
        return inf if values is None or len(values) != 2 else float(values[1] - values[0])

    @property
    def has_bits(self) -> bool:
        """Whether all columns have the values 0 and 1, so that values between are probabilities."""
        return self.reach == 1 and self.bounds == (0.0, 1.0)

    @property
    def is_standardised(self) -> bool:
        """Whether learning standardises columns."""
        return self.has_precision

    def n_configurations(self, n: int) -> int:
        """Return the number of configurations of a discrete layer."""
        return len(self.values or ()) ** n

    def configurations(self, n: int, numbers: Array) -> np.ndarray:
        """Return the configurations that have these numbers, float64 of shape (n_numbers, n).

        Numbers go from 0 to ``n_configurations(n) - 1``. The first column is the lowest digit.
        """
        values = self.values or ()
        return np.take(np.array(values), digits(numbers, [len(values)] * n))

    def groups(self, n: int) -> list[np.ndarray]:
        """Return the columns of each site, index arrays in order.

        A site is a set of dependent columns, for which ``log_partition`` has one entry.
        """
        return list(np.arange(n)[:, None])

    def exclusive(self, n: int) -> list[np.ndarray]:
        """Return the columns of each site in which exactly one column is 1, index arrays."""
        return []

    def is_sparse(self, n: int) -> bool:
        """Whether so few of ``n`` values are not 0 that sparse products take less time.

        Then NumPy learns from sparse rows, and draws chains by :meth:`sample_sparse`.
        """
        return False

    def supports(self, n: int) -> list:
        """Return a key of the support of each column, None where it is not finite.

        Parameters of columns are comparable only if their keys are equal. The key of a column of a
        site has the number of values of the site, and the place of the column.
        """
        return [self.values] * n

    def part(self, n: int, columns: np.ndarray) -> "Unit":
        """Return the unit of some columns, which are whole sites."""
        return self

    def rows(self, index: Index) -> "Unit":
        """Return the unit of some rows, itself if all share it."""
        return self

    def of_rows(self, X: Array, n: int | None = None) -> "Unit":
        """Return the unit of rows with the :meth:`totals` of rows X, itself if there are none.

        With ``n`` there are as many rows, at equally spaced quantiles of the totals.
        """
        return self

    def totals(self, X: Array) -> Array | None:
        """Return what sampling conserves in each row of X, (n_rows,) float64, None if nothing."""
        return None

    def with_known(self, X: Array) -> Array:
        """Return X with the values at which rows of the unit are held, if there are any."""
        return X

    def fitted(self, columns: Columns | None = None) -> "Unit":
        """Return the unit with missing bounds taken from data, if there are any."""
        return self

    def as_hidden(self) -> "Unit":
        """Return the unit with limits suitable for a hidden layer in training."""
        return self

    def asks_for(self, fitted: "Unit") -> bool:
        """Whether ``fitted`` is a unit of this kind that agrees with the bounds of this one."""
        return type(self) is type(fitted)

    def check_values(self, X: Array) -> None:
        """Raise ValueError if rows of X within the bounds are no values of such a layer.

        NaN marks missing values.
        """

    def columns_with(self, capability: str, n: int) -> np.ndarray:
        """Return which columns have a capability, the name of an attribute; an array of bool."""
        return np.full(n, getattr(self, capability))

    def spread(self, mean: Array, variance: Array) -> Array:
        """Return the scales by which columns are standardized, given their means and variances.

        These are the standard deviations, but at least 0.4 of the distance to rare values:
        variance / (mean - lower) above the mean, and variance / (upper - mean) below (Bhatia and
        Davis 2000). In a column that is nearly constant at a bound, other values are many
        standard deviations away, and steps in units of the deviation would be too long.
        """
        xp, found = namespace(mean), namespace(mean).sqrt(variance)
        lower, upper = self.bounds
        for distance in (mean - lower, upper - mean):
            is_inside = distance > 0
            reach = variance / xp.where(is_inside, distance, xp.ones_like(distance))
            reach = xp.clip(xp.where(is_inside, reach, 0 * reach), None, upper - lower)
            found = xp.maximum(found, _REACH * reach)
        return found

    # ----------------------------------------------------------------------- the distribution

    def tilt(self, theta: Theta, field: Array, precision: Array | None = None) -> Theta:
        """Multiply the density by exp(field * x - precision * x**2 / 2); returns a new Theta."""
        field = field + theta.field
        if precision is None:
            return Theta(field, *theta[1:])
        if not self.takes_precision:
            raise ValueError(f"{self} units take no precision; use {self.alternative}")
        own = namespace(field).zeros_like(field) if theta.precision is None else theta.precision
        return theta._replace(field=field, precision=own + precision)

    def log_partition(self, theta: Theta) -> Array:
        """Return log of the integral of exp(theta . statistics(x)) over the support, per site."""
        raise unwritten(self, "log_partition")

    def total_log_partition(self, theta: Theta) -> Array:
        """Return the sum of :meth:`log_partition` over the units of each row, in float64."""
        return row_sums(self.log_partition(theta))

    def log_ratio(self, theta0: Theta, theta1: Theta) -> Array:
        """Return the sum over units of log_partition(theta1) - log_partition(theta0), per row."""
        return self.total_log_partition(theta1) - self.total_log_partition(theta0)

    def mean(self, theta: Theta) -> Array:
        """Return the mean of x."""
        return self.mean_variance(theta)[0]

    def mean_variance(self, theta: Theta) -> tuple[Array, Array]:
        """Return mean and variance of x."""
        raise unwritten(self, "mean_variance")

    def moments(self, theta: Theta) -> tuple[Array, Array | None]:
        """Return (mean, variance), where the variance is None if no statistic needs it."""
        return self.mean_variance(theta) if self.has_precision else (self.mean(theta), None)

    def further(self, theta: Theta) -> tuple[Array, ...] | None:
        """Return the expected statistics that mean and variance do not determine, None if none.

        They are in the order of :class:`Theta`.
        """
        return None

    def central_moments(self, theta: Theta) -> tuple[Array, Array, Array, Array]:
        """Return mean, variance, and third and fourth central moments of x.

        Mean and variance change with field and precision by these.
        """
        raise unwritten(self, "central_moments")

    def cumulants(self, mean: Array) -> tuple[Array, Array, Array]:
        """Return the second cumulant, half the third, and the latter's derivative by the mean."""
        raise unwritten(self, "cumulants")

    def mode(self, theta: Theta) -> Array:
        """Return the most probable x."""
        raise unwritten(self, "mode")

    def sample(self, theta: Theta, rng: Rng) -> Array:
        """Draw x."""
        raise unwritten(self, "sample")

    def sample_sparse(self, theta: Theta, rng: Rng) -> Array:
        """Draw x of units that are sparse as a csr_array, by NumPy."""
        raise unwritten(self, "sample_sparse")

    def sample_rows(self, theta: Theta, mean: Array, rows: slice, rng: Rng) -> Array:
        """Draw x of some rows of parameters whose means are known, which may save work."""
        return self.sample(theta.rows(rows), rng)

    def log_correction(self, theta: Theta) -> Array:
        """Return log of the unit's partition function over that of the proposal of ``sample``."""
        raise unwritten(self, "log_correction")

    def tail_precision(self, theta: Theta) -> Array | None:
        """Return the smallest precision in the tails of the density, or None for a bounded support.

        It must be positive if the support is unbounded.
        """
        return None

    def is_improper(self, theta: Theta) -> Array | None:
        """Return where the density cannot be normalized, None for a bounded support."""
        precision = self.tail_precision(theta)
        return None if precision is None else precision <= 0

    def check_proper(self, theta: Theta) -> None:
        """Raise DivergenceError where the density cannot be normalized."""
        improper = self.is_improper(theta)
        if improper is not None:
            require(~namespace(improper).any(improper), self.divergence)

    def divergence(self) -> DivergenceError:
        """Return the error of parameters without an integral, such as the reaction of TAP makes."""
        return DivergenceError(
            f"the precision of {self} units is not positive, so that their density cannot be "
            "normalized: couplings are too strong for units without bounds; use units with bounds, "
            "such as TruncatedGaussian, a larger min_precision, inference='naive_mean_field' or a "
            "sampler, a lower learning_rate or a larger alpha, or scale X"
        )

    def project(self, theta: Theta) -> Theta:
        """Return the nearest parameters that have a log-partition function."""
        return theta

    # ------------------------------------------------------------------- values and statistics

    def log_base(self, x: Array) -> Array | None:
        """Return the logarithm of the base measure at values x of the support, elementwise.

        The density is multiplied by the base measure, whatever the parameters are. Its logarithm
        is 0 at x = 0. None stands for 0 everywhere.
        """
        return None

    def base_sums(self, X: Array) -> Array | None:
        """Return the sum of :meth:`log_base` over each row of a dense or sparse X, or None."""
        base = self.log_base(X.data if is_sparse(X) else X)
        if base is None or not is_sparse(X):
            return None if base is None else row_sums(base)
        filled = X.copy()
        filled.data = base.astype(np.float64)
        return np.asarray(filled.sum(axis=1)).ravel()

    def dot(self, theta: Theta, X: Array) -> Array:
        """Return the sum of theta . statistics(X_i) for each row of X, in float64."""
        return log_weight(theta, X)

    def log_weight(self, theta: Theta, X: Array) -> Array:
        """Return log of the weight of each row of a dense or sparse X, in float64.

        It is the sum of theta . statistics(X_i), with the base measure.
        """
        total, base = self.dot(theta, X), self.base_sums(X)
        return total if base is None else total + base

    def statistics(
        self,
        mean: Array,
        variance: Array | None = None,
        further: tuple[Array, ...] | None = None,
    ) -> Theta:
        """Return the expected statistics; ``variance=None`` is that of known values."""
        if not self.has_precision:
            return Theta(mean)
        second = mean * mean if variance is None else mean * mean + variance
        return Theta(mean, -0.5 * second)

    def total_statistics(
        self,
        weight: Any,
        mean: Array,
        variance: Array | None = None,
        further: tuple[Array, ...] | None = None,
    ) -> Theta:
        """Return the expected statistics summed over rows, by one weight or one for each row."""
        rows = self.statistics(mean, variance, further)
        return rows.map(partial(weighted_sum, weight))

    # -------------------------------------------------------------------------- parameters

    def initial_theta(self, columns: Columns) -> Theta:
        """Return the parameters of independent units fitted to the columns of data.

        ``columns`` has means, variances and the like, in float64.
        """
        raise unwritten(self, "initial_theta")

    def base_theta(self, theta: Theta, columns: Columns) -> Theta:
        """Return the parameters of independent units from which annealing to a machine starts.

        Parameters
        ----------
        theta : Theta
            The visible units' own in the machine.
        columns : Columns
            Of typical visible values of the machine, perhaps few.
        """
        return theta if self.has_precision else self.initial_theta(columns)

    def default_theta(self, n: int, reference: Array) -> Theta:
        """Return default parameters of ``n`` units, as arrays like ``reference``."""
        xp, kind = namespace(reference), like(reference)
        return Theta(xp.zeros(n, **kind), xp.ones(n, **kind) if self.has_precision else None)

    # ----------------------------------------------------------------- joint normal columns

    def without_joint(self) -> "Unit":
        """Return the unit whose columns have precisions of their own in place of a matrix."""
        return self

    def joint_columns(self, n: int) -> np.ndarray:
        """Return the columns that share the precision matrix ``joint``, an index array."""
        return np.arange(n if self.is_joint else 0)
