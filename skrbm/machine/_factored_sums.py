"""log Z by sums over all pairs of a configuration of half a layer and one of the other half.

Given both halves, the units of the neighbouring layer are independent, and a few of them, whose
values are the vectors c, sum up to

    sum_c exp(own(c) + c . (field of the first half)) exp(c . (field of the second half)).

It is an inner product of a vector that the first half gives and one that the second half gives. So
a product of matrices sums these units for all pairs, and exponentials are needed for the halves
alone. Normal units sum up to the exponential of a square, whose cross term is such a product too.
One configuration after the other takes twenty times as long.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..arrays import (
    Array,
    from_numpy,
    inverse_factor,
    is_on_device,
    log_sum_exp,
    matmul,
    namespace,
    one_blas_thread,
    row_sums,
    share,
    split,
    to_numpy,
)
from ..units import Theta, Unit
from ._machine import Machine

_TOGETHER = 8  # most values of a factor of several sites, such as those of three bits
# Most values of a site for each of its columns. Large whole numbers have a formula of their own,
# which takes less time than a product for each value.
_MOST_VALUES = 8
_MOST_LAST = 2**10  # values of the last site, which the second half cannot do without
_TABLE = 2**22  # most elements of what the second half gives
_PAIRS, _ON_DEVICE = (128, 256), (2**11, 2**11)  # pairs that are summed together: 256 KiB, 32 MiB
# Largest logarithms, up and down, of an exponential and of a product of factors. That of the
# largest number is 709.
_LARGEST, _LARGEST_PRODUCT = 300.0, 690.0
_LOGARITHM = 30  # time of a logarithm, in multiplications


class _Half(NamedTuple):
    """What configurations of half of a layer add to the logarithms.

    Attributes
    ----------
    own : array of shape (n_configurations,)
    values : array of shape (n_values, n_configurations)
        For each value of each factor.
    normal : array of shape (n_configurations, n_normal) or None
        Fields on normal units.
    """

    own: Array
    values: Array
    normal: Array | None


class _Factor(NamedTuple):
    """A few sites of the neighbour: columns, all of their values, and what these have."""

    columns: np.ndarray
    values: np.ndarray
    own: np.ndarray


@dataclass(frozen=True, eq=False)
class FactoredSums:
    """A layer that is enumerated by halves, given a neighbour whose units are summed out.

    Parameters
    ----------
    unit, theta : Unit, Theta
        Of the layer that is enumerated.
    weights : ndarray of shape (n_units, n_values)
        What each of its units adds to the logarithm of each value of each factor.
    own : ndarray of shape (n_values,)
        What these values have themselves.
    factors : tuple of slice
        The values of each factor.
    normal : tuple of (Unit, Theta, ndarray of shape (n_units, n_normal)) or None
        Normal units of the neighbour, and their weights.
    reference : array
        Of the library, and the device, where sums are taken.
    constant : float, default=0.0
        What is added to log Z.
    """

    unit: Unit
    theta: Theta
    weights: np.ndarray
    own: np.ndarray
    factors: tuple[slice, ...]
    normal: tuple[Unit, Theta, np.ndarray] | None
    reference: Array
    constant: float = 0.0

    @property
    def n_products(self) -> float:
        """Time of the sums, in multiplications, a float."""
        # A logarithm takes as long as some 30 of them. There is one for about eight factors.
        each = self._n_columns + _LOGARITHM * (1 + len(self.factors) / 8)
        return float(self.unit.n_configurations(self.weights.shape[0])) * each

    @property
    def _n_columns(self) -> int:
        """How many numbers a configuration of the second half gives."""
        return len(self.own) + (0 if self.normal is None else self.normal[2].shape[1])

    @one_blas_thread
    def log_partition(self) -> Array:
        """Return log Z, an array of shape (), float64."""
        first, second = self._halves()
        n_first, n_second = (self._n_configurations(columns) for columns in (first, second))
        right = self._half(second, np.arange(n_second))
        own, reference = self.own[:, None], self.reference
        right = right._replace(values=right.values + from_numpy(own, reference))
        constant = self.constant
        if self.normal is not None:
            kind, theta, _ = self.normal
            precision = from_numpy(theta.precision, reference)
            right = right._replace(normal=right.normal / precision)
            constant += float(kind.total_log_partition(theta))
        n_rows, n_columns = _ON_DEVICE if is_on_device(self.reference) else _PAIRS
        rows, columns = _slices(n_first, n_rows), _slices(n_second, n_columns)
        bounds, xp = _bounds(right.values), namespace(right.own)
        right = right._replace(values=xp.exp(right.values))
        found: list[Any] = [None] * len(rows)
        left_over = deque(enumerate(rows))

        def add_up(_: slice) -> None:
            while left_over:
                try:
                    k, block = left_over.popleft()
                except IndexError:  # another thread has taken the last one
                    return
                left = self._half(first, np.arange(block.start, block.stop))
                ends = list(self._ends(_bounds(left.values), bounds))
                left = left._replace(values=xp.exp(left.values))
                parts = [self._block(left, right, part, ends) for part in columns]
                found[k] = log_sum_exp(xp.stack([log_sum_exp(part) for part in parts]))

        try:
            share(add_up, split(len(rows), float(n_first) * n_second * self._n_columns))
        finally:
            left_over.clear()  # so that after an interruption no thread goes on
        return log_sum_exp(xp.stack(found)) + constant

    def _halves(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns of the first and of the second half, whole sites."""
        n = self.weights.shape[0]
        sites = self.unit.groups(n)
        most = min(_TABLE / self._n_columns, self.unit.n_configurations(n) ** 0.5)
        n_last = 1
        while n_last + 1 < len(sites):
            if self._n_configurations(np.concatenate(sites[-n_last - 1 :])) > most:
                break
            n_last += 1
        return np.concatenate(sites[:-n_last]), np.concatenate(sites[-n_last:])

    def _n_configurations(self, columns: np.ndarray) -> int:
        return self.unit.part(self.weights.shape[0], columns).n_configurations(len(columns))

    def _half(self, columns: np.ndarray, numbers: np.ndarray) -> _Half:
        """Return what the configurations of some columns with these numbers add."""
        unit = self.unit.part(self.weights.shape[0], columns)
        x = unit.configurations(len(columns), numbers)
        own = unit.log_weight(self.theta.map(lambda part: part[columns]), x)
        values, normal = self.weights[columns].T @ x.T, None
        if self.normal is not None:
            _, theta, weights = self.normal
            normal, precision = x @ weights[columns], theta.precision
            own = own + row_sums((theta.field + normal / 2) * normal / precision)
        parts = (own, values, normal)
        return _Half(*(p if p is None else from_numpy(p, self.reference) for p in parts))

    def _ends(self, left: Any, right: Any) -> Iterator[bool]:
        """Tell for each factor whether a product must end with it, or it could leave the range.

        Parameters
        ----------
        left, right : tuples of two ndarray of shape (n_values,)
            The smallest and the largest logarithm of each value, in each half.
        """
        if not self.factors:
            return
        starts = [part.start for part in self.factors]
        low = np.maximum.reduceat(left[0] + right[0], starts)
        high = np.logaddexp.reduceat(left[1] + right[1], starts)
        lowest, highest = 0.0, 0.0
        for k in range(len(starts)):
            lowest, highest = lowest + low[k], highest + high[k]
            last = k + 1 == len(starts)
            ends = last or min(lowest + low[k + 1], -highest - high[k + 1]) < -_LARGEST_PRODUCT
            if ends:
                lowest, highest = 0.0, 0.0
            yield ends

    def _block(self, left: _Half, right: _Half, columns: slice, ends: list[bool]) -> Array:
        """Return the log weights of all pairs of rows of the left half and some of the right."""
        xp, product = namespace(left.own), None
        total = left.own[:, None] + right.own[None, columns]
        if left.normal is not None and right.normal is not None:
            total += matmul(left.normal, right.normal[columns, :].T)
        for part, is_last in zip(self.factors, ends, strict=True):
            factor = matmul(left.values[part, :].T, right.values[part, columns])
            if product is None:
                product = factor
            else:
                product *= factor
            if is_last:
                total += xp.log(product)
                product = None
        return xp.reshape(total, (-1,))


def decorrelated(machine: Machine) -> tuple[Machine, float]:
    """Return a machine whose real columns are independent given its hidden units.

    Columns x with a precision matrix are R' u, where R' R is its inverse, and u has unit variances.

    Returns
    -------
    machine : Machine
        In float64.
    log_volume : float
        log |dx / du|, which log Z is larger by than that of the machine.
    """
    xp, n = namespace(machine.weights[0]), machine.n_units[0]
    machine = machine.astype(xp.float64)
    (unit, *units), (own, *thetas), (W, *weights) = machine.units, machine.thetas, machine.weights
    columns = unit.joint_columns(n)
    R = to_numpy(inverse_factor(own.joint))
    root, precision = np.eye(n), np.zeros(n)
    root[np.ix_(columns, columns)] = R
    if own.precision is not None:
        precision = to_numpy(own.precision).copy()
    precision[columns] = 1.0
    root, precision = from_numpy(root, W), from_numpy(precision, W)
    own = own._replace(field=root @ own.field, precision=precision, joint=None)
    machine = replace(
        machine,
        units=(unit.without_joint(), *units),
        thetas=(own, *thetas),
        weights=(W @ root.T, *weights),
    )
    return machine, float(np.log(np.diag(R)).sum())


def factored_sums(machine: Machine, layer: int) -> FactoredSums | None:
    """Return the sums over the values of a discrete layer of a machine, given its neighbour.

    None if another formula is needed: for deep machines, parameters of each row, a layer of one
    site or with many values in one, neighbours that are neither normal nor have few values, and
    weights so large that exponentials would overflow.
    """
    if len(machine.units) != 2 or machine.n_rows is not None:
        return None
    unit, other = machine.units[layer], machine.units[1 - layer]
    n_units, n = machine.n_units[layer], machine.n_units[1 - layer]
    sites = other.groups(n)
    parts = [other.part(n, site) for site in sites]
    if not all(part.is_discrete or part.is_gaussian for part in parts):
        return None
    last = unit.groups(n_units)[-1]
    if len(last) == n_units or unit.part(n_units, last).n_configurations(len(last)) > _MOST_LAST:
        return None
    theta, neighbours = (
        machine.thetas[l].map(lambda part: to_numpy(part).astype(np.float64))
        for l in (layer, 1 - layer)
    )
    W = float(machine.scale) * to_numpy(machine.weights[0]).astype(np.float64)
    W = W if layer == 1 else W.T
    discrete = [site for site, part in zip(sites, parts, strict=True) if part.is_discrete]
    factors = _factors(other, neighbours, n, discrete, _reach(unit, W))
    if factors is None:
        return None
    weights = [W[:, factor.columns] @ factor.values.T for factor in factors]
    own = [factor.own for factor in factors]
    ends = np.cumsum([len(part) for part in own])
    normal = None
    if len(discrete) < len(sites):
        columns = np.setdiff1d(np.arange(n), np.concatenate([[], *discrete]))
        of_them = neighbours.map(lambda part: part[columns])
        normal = other.part(n, columns), of_them, W[:, columns]
    return FactoredSums(
        unit,
        theta,
        np.concatenate([np.empty((n_units, 0)), *weights], axis=1),
        np.concatenate([[], *own]),
        tuple(slice(int(end) - len(part), int(end)) for end, part in zip(ends, own, strict=True)),
        normal,
        machine.weights[0],
    )


def _reach(unit: Unit, W: np.ndarray) -> np.ndarray:
    """Return how large the field of a layer on each neighbour can be, (n_neighbours,)."""
    total, n = np.zeros(W.shape[1]), len(W)
    for site in unit.groups(n):
        total += np.abs(W[site]).max(axis=0) * np.abs(unit.part(n, site).bounds).max()
    return total


def _factors(
    unit: Unit, theta: Theta, n: int, sites: list[np.ndarray], reach: np.ndarray
) -> list[_Factor] | None:
    """Return the factors of some sites, each of a few of them.

    None if a site has too many values, or one whose exponential could overflow.
    """
    groups: list[list[np.ndarray]] = []
    n_values, largest = _TOGETHER + 1, 0.0  # of the last group, of which there is none yet
    for site in sites:
        if unit.part(n, site).n_configurations(len(site)) > _MOST_VALUES * len(site):
            return None
        factor = _factor(unit, theta, n, site)
        more = float((np.abs(factor.own) + np.abs(factor.values) @ reach[site]).max())
        if not more <= _LARGEST:  # or it is NaN
            return None
        if n_values * len(factor.own) <= _TOGETHER and largest + more <= _LARGEST:
            groups[-1].append(site)
            n_values, largest = n_values * len(factor.own), largest + more
        else:
            groups.append([site])
            n_values, largest = len(factor.own), more
    return [_factor(unit, theta, n, np.sort(np.concatenate(group))) for group in groups]


def _factor(unit: Unit, theta: Theta, n: int, columns: np.ndarray) -> _Factor:
    part = unit.part(n, columns)
    values = part.configurations(len(columns), np.arange(part.n_configurations(len(columns))))
    return _Factor(columns, values, part.log_weight(theta.map(lambda x: x[columns]), values))


def _bounds(values: Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and the largest logarithm of each value, (n_values,) each."""
    xp = namespace(values)
    return to_numpy(xp.min(values, axis=1)), to_numpy(xp.max(values, axis=1))


def _slices(n: int, size: int) -> list[slice]:
    return [slice(k, min(k + size, n)) for k in range(0, n, size)]
