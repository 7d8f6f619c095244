"""log Z by sums over all pairs of configurations of two halves of a layer.

Given both halves, the sites of the neighbouring layer are independent, and a few of them, with the
values c, sum up to

    sum_c exp(own(c) + c . (field of the first half)) exp(c . (field of the second half)).

It is an inner product of a vector of the first half and one of the second half. So a product of
matrices sums these sites for all pairs, and exponentials are needed for the halves alone. Normal
units of the neighbouring layer sum up to the exponential of a quadratic form of the enumerated
values, whose cross term is such a product too. One configuration after the other takes twenty times
as long.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..arrays import (
    Array,
    from_numpy,
    is_on_device,
    log_sum_exp,
    matmul,
    namespace,
    one_blas_thread,
    share,
    split,
    to_numpy,
)
from ..units import Theta, Unit
from ._machine import Machine

_TOGETHER = 8  # most values of a factor of several sites, such as those of three bits
_MOST_VALUES = 8  # most values of a site for each of its columns
_MOST_LAST = 2**10  # most values of the last site, which the second half cannot do without
_TABLE = 2**22  # most elements of the exponentials of the second half
_PAIRS, _ON_DEVICE = (128, 256), (2**11, 2**11)  # pairs that are summed together: 256 KiB, 32 MiB
_LARGEST, _LARGEST_PRODUCT = 300.0, 690.0  # absolute logarithms of a factor and of a product
_LOGARITHM = 30  # time of a logarithm, in multiplications


class _Factors(NamedTuple):
    """Values of sites of the neighbour, a few of which together are a factor.

    Attributes
    ----------
    weights : ndarray of shape (n_units, n_values)
        What units of the enumerated layer add to the logarithm of each value.
    own : ndarray of shape (n_values,)
        The logarithms without them.
    parts : list of slice
        The values of each factor.
    largest : list of float
        A bound of the absolute logarithm of each factor.
    """

    weights: np.ndarray
    own: np.ndarray
    parts: list[slice]
    largest: list[float]


@dataclass(frozen=True, eq=False)
class FactoredSums:
    """A layer that is enumerated by halves, given a neighbour whose units are summed out.

    Parameters
    ----------
    unit, theta : Unit, Theta
        Of the layer that is enumerated; with the field of the normal units' means.
    factors : _Factors
        Of the discrete units of the neighbour.
    couplings : ndarray of shape (n_units, n_units) or None
        J of the quadratic form x' J x / 2 to which normal units sum up.
    constant : float
        Logarithm of their integral at x = 0.
    reference : array
        Of the library and device of the sums.
    """

    unit: Unit
    theta: Theta
    factors: _Factors
    couplings: np.ndarray | None
    constant: float
    reference: Array

    @property
    def n_products(self) -> float:
        """Time of the sums, in multiplications, a float."""
        # There is one logarithm for about eight factors.
        each = self._n_columns + _LOGARITHM * (1 + len(self.factors.parts) / 8)
        return float(self.unit.n_configurations(self._n_units)) * each

    @property
    def _n_units(self) -> int:
        return self.theta.field.shape[0]

    @property
    def _n_columns(self) -> int:
        """Length of the vectors of a configuration of one half."""
        return len(self.factors.own) + (0 if self.couplings is None else self._n_units)

    @one_blas_thread
    def log_partition(self) -> Array:
        """Return log Z, an array of shape (), float64."""
        first, second = self._halves()
        n_first, n_second = (self._part(c).n_configurations(len(c)) for c in (first, second))
        xp, right = namespace(self.reference), self._half(second, np.arange(n_second), first)
        n_rows, n_columns = _ON_DEVICE if is_on_device(self.reference) else _PAIRS
        rows, columns = _slices(n_first, n_rows), _slices(n_second, n_columns)
        found: list[Any] = [None] * len(rows)

        def add_up(part: slice) -> None:
            for k in range(len(rows))[part]:
                left = self._half(first, np.arange(rows[k].start, rows[k].stop))
                sums = [log_sum_exp(self._block(left, right, place)) for place in columns]
                found[k] = log_sum_exp(xp.stack(sums))

        share(add_up, split(len(rows), float(n_first) * n_second * self._n_columns))
        return log_sum_exp(xp.stack(found)) + self.constant

    def _part(self, columns: np.ndarray) -> Unit:
        return self.unit.part(self._n_units, columns)

    def _halves(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns of the first and of the second half, whole sites."""
        sites = self.unit.groups(self._n_units)
        n = self.unit.n_configurations(self._n_units)
        most, n_last = min(_TABLE / max(self._n_columns, 1), n**0.5), 1
        while n_last + 1 < len(sites):
            columns = np.concatenate(sites[-n_last - 1 :])
            if self._part(columns).n_configurations(len(columns)) > most:
                break
            n_last += 1
        return np.concatenate(sites[:-n_last]), np.concatenate(sites[-n_last:])

    def _half(
        self, columns: np.ndarray, numbers: np.ndarray, others: np.ndarray | None = None
    ) -> tuple[Array, Array, Array | None]:
        """Return what the configurations of some columns with these numbers contribute.

        ``others`` are the columns of the other half, given for the second one.

        Returns
        -------
        own : array of shape (n,)
            Logarithms.
        values : array of shape (n_values, n)
            Exponentials, for each value of each factor.
        cross : array of shape (n, n_first) or None
            Values of the first half, or fields on it.
        """
        unit, (weights, own_values, _, _) = self._part(columns), self.factors
        x = unit.configurations(len(columns), numbers)
        own = unit.log_weight(self.theta.map(lambda part: part[columns]), x)
        values, cross = weights[columns].T @ x.T, None
        if others is not None:
            values += own_values[:, None]
        if self.couplings is not None:
            J = self.couplings[columns]
            own = own + 0.5 * ((x @ J[:, columns]) * x).sum(axis=1)
            cross = from_numpy(x if others is None else x @ J[:, others], self.reference)
        own, values = (from_numpy(part, self.reference) for part in (own, values))
        return own, namespace(values).exp(values), cross

    def _block(self, left: Any, right: Any, columns: slice) -> Array:
        """Return the log-weights of all pairs of rows of the left half and some of the right."""
        (own, values, cross), (right_own, right_values, right_cross) = left, right
        total, product, size = own[:, None] + right_own[None, columns], None, 0.0
        xp = namespace(total)
        if cross is not None:
            total += matmul(cross, right_cross[columns, :].T)
        for part, largest in zip(self.factors.parts, self.factors.largest, strict=True):
            if product is not None and size + largest > _LARGEST_PRODUCT:
                total += xp.log(product)
                product, size = None, 0.0
            factor = matmul(values[part, :].T, right_values[part, columns])
            if product is None:
                product = factor
            else:
                product *= factor
            size += largest
        if product is not None:
            total += xp.log(product)
        return xp.reshape(total, (-1,))


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
    last = unit.groups(n_units)[-1]
    if len(last) == n_units or unit.part(n_units, last).n_configurations(len(last)) > _MOST_LAST:
        return None
    is_normal = other.gaussian_columns(n)
    is_normal[other.joint_columns(n)] = True
    sites = [site for site in other.groups(n) if not is_normal[site[0]]]
    if not all(other.part(n, site).is_discrete for site in sites):
        return None
    theta, neighbours = (
        machine.thetas[l].map(lambda part: to_numpy(part).astype(np.float64))
        for l in (layer, 1 - layer)
    )
    W = float(machine.scale) * to_numpy(machine.weights[0]).astype(np.float64)
    W = W if layer == 1 else W.T
    factors = _factors(unit, other, neighbours._replace(joint=None), W, sites)
    if factors is None:
        return None
    constant, couplings, columns = 0.0, None, np.flatnonzero(is_normal)
    if len(columns):
        normal, V = other.part(n, columns), W[:, columns]
        own = neighbours.map_columns(lambda part: part[columns])
        couplings = V @ normal.mean(own._replace(field=V)).T
        constant = float(normal.total_log_partition(own))
        theta = theta._replace(field=theta.field + V @ normal.mean(own))
    return FactoredSums(unit, theta, factors, couplings, constant, machine.weights[0])


def _factors(
    unit: Unit, other: Unit, theta: Theta, W: np.ndarray, sites: list[np.ndarray]
) -> _Factors | None:
    """Return the factors of some sites of ``other``.

    None if a site has too many values, or one whose exponential could overflow.
    """
    n_units, n = W.shape
    reach = np.zeros(n)  # largest field of the enumerated layer on each neighbour
    for site in unit.groups(n_units):
        bound = np.abs(unit.part(n_units, site).bounds).max()
        reach += np.abs(W[site]).max(axis=0) * bound

    def values_of(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return all values of some columns, and their logarithms."""
        part = other.part(n, columns)
        values = part.configurations(len(columns), np.arange(part.n_configurations(len(columns))))
        return values, part.log_weight(theta.map(lambda x: x[columns]), values)

    groups: list[list[np.ndarray]] = []
    largest: list[float] = []
    n_values = _TOGETHER + 1  # of the last group
    for site in sites:
        if other.part(n, site).n_configurations(len(site)) > _MOST_VALUES * len(site):
            return None
        values, own = values_of(site)
        size = (np.abs(own) + np.abs(values) @ reach[site]).max() + np.log(len(own))
        if not size <= _LARGEST:  # or it is NaN
            return None
        if n_values * len(own) <= _TOGETHER and largest[-1] + size <= _LARGEST:
            groups[-1].append(site)
            n_values, largest[-1] = n_values * len(own), largest[-1] + size
        else:
            groups.append([site])
            n_values, largest = len(own), [*largest, size]
    columns = [np.sort(np.concatenate(group)) for group in groups]
    found = [values_of(group) for group in columns]
    weights = [W[:, group] @ values.T for group, (values, _) in zip(columns, found, strict=True)]
    ends = np.cumsum([0, *(len(own) for _, own in found)]).tolist()
    return _Factors(
        np.concatenate([np.empty((n_units, 0)), *weights], axis=1),
        np.concatenate([[], *(own for _, own in found)]),
        [slice(*pair) for pair in pairwise(ends)],
        largest,
    )


def _slices(n: int, size: int) -> list[slice]:
    return [slice(k, min(k + size, n)) for k in range(0, n, size)]
