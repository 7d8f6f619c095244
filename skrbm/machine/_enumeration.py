"""Sums over all configurations of a machine.

Every other layer is enumerated, and the layers between are summed out one unit at a time, as they
are independent given their neighbours.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from .._checks import check_count
from ..arrays import Array, cast, from_numpy, log_sum_exp, namespace, to_numpy
from ..units import Gaussian, Theta, Unit
from ._machine import Machine, conditional

MAX_UNITS = 20  # units that are always enumerated: 2**20 configurations
# Sums by halves: more configurations than are summed one by one, pairs of halves that are summed
# together, most values of a neighbour for each of its columns, largest logarithm of a product.
_FEW, _PAIRS, _FEW_VALUES, _LARGEST = 2**12, 2**7, 8, 650.0
_OF_HALVES = 2**23  # fields of all values of a half that are in memory at once, about
# Elements of the largest temporary array, 256 KiB of float64: several stay in a cache, and their
# memory is used again, where that of larger ones is returned to the system after each block.
_BLOCK_ELEMENTS = 2**15
# Least number of configurations for which a block of rows has room: with fewer rows at a time the
# fields of the same configurations are computed more often.
_MANY = 2**7


def _n_configurations(machine: Machine, layers: Sequence[int]) -> int:
    return math.prod(machine.units[l].n_configurations(machine.n_units[l]) for l in layers)


def enumerable_layers(machine: Machine) -> Sequence[int] | None:
    """Return the even or the odd layers, of which all are discrete and that have fewer values."""
    halves = [range(parity, len(machine.units), 2) for parity in (0, 1)]
    finite = [half for half in halves if all(machine.units[l].is_discrete for l in half)]
    return min(finite, key=lambda half: _n_configurations(machine, half), default=None)


def _given_or_enumerable(machine: Machine, layers: Sequence[int] | None) -> Sequence[int]:
    layers = enumerable_layers(machine) if layers is None else layers
    if layers is None:
        raise ValueError(f"layers of {machine.units} cannot be enumerated; use method='smc'")
    return layers


def n_enumerated(machine: Machine) -> float:
    """Return log2 of the number of configurations to enumerate, infinity if that is impossible."""
    layers = enumerable_layers(machine)
    return math.inf if layers is None else math.log2(_n_configurations(machine, layers))


def _has_normal(machine: Machine, l: int) -> bool:
    unit, n = machine.units[l], machine.n_units[l]
    return unit.is_gaussian or len(unit.joint_columns(n)) == n


def is_normal(machine: Machine) -> bool:
    """Whether all units are normal, so that log Z is that of one normal distribution."""
    layers = range(len(machine.units))
    return machine.n_rows is None and all(_has_normal(machine, l) for l in layers)


def _normal(machine: Machine) -> tuple[np.ndarray, np.ndarray]:
    """Return the precision matrix of all units and the means of a machine of normal units."""
    ends = np.cumsum([0, *machine.n_units])
    P, field = np.zeros((ends[-1], ends[-1])), np.zeros(ends[-1])
    for l, theta in enumerate(machine.thetas):
        rows = slice(ends[l], ends[l + 1])
        own = theta.precision if theta.joint is None else theta.joint
        P[rows, rows] = np.diag(to_numpy(own)) if theta.joint is None else to_numpy(own)
        field[rows] = to_numpy(theta.field)
        if l:
            below = slice(ends[l - 1], ends[l])
            P[rows, below] = -machine.scale * to_numpy(machine.weights[l - 1])
            P[below, rows] = P[rows, below].T
    return P, np.linalg.solve(P, field)


def can_enumerate(machine: Machine, max_units: int = MAX_UNITS) -> bool:
    """Whether log Z can be summed exactly over at most 2**max_units configurations."""
    check_count("max_units", max_units, 0)
    return is_normal(machine) or n_enumerated(machine) <= max_units


def check_enumerable(machine: Machine, max_units: int = MAX_UNITS) -> None:
    """Raise ValueError if exact sums would need more than ``max_units`` units."""
    if not can_enumerate(machine, max_units):
        raise ValueError(
            "exact sums need a layer (in a deep model, every other layer) with at most "
            f"max_units={max_units} binary units, but the layers have {machine.n_units} units; "
            "raise max_units or use method='smc'"
        )


def configurations(
    machine: Machine, layers: Sequence[int] | None = None
) -> Iterator[tuple[tuple[Array | None, ...], Array]]:
    """Yield blocks of all values of every other layer, with their log-weights in float64.

    Values are a tuple with an array of shape (n_configurations, n_units[l]) for each of the
    ``layers``, by default those of :func:`enumerable_layers`, and None for the layers between.
    Log-weights have a row for each row of the parameters, if these have rows.
    """
    layers = _given_or_enumerable(machine, layers)
    n, n_rows = _n_configurations(machine, layers), machine.n_rows or 1
    size = max(1, _BLOCK_ELEMENTS // (n_rows * max(machine.n_units)))
    thetas = tuple(  # of rows against configurations
        theta.map_columns(lambda part: part[:, None, :] if part.ndim > 1 else part)
        for theta in machine.thetas
    )
    machine = replace(machine, thetas=thetas)
    values: list[Array | None]
    for start in range(0, n, size):
        numbers, values = np.arange(start, min(start + size, n)), [None] * len(thetas)
        for l in layers:
            unit, n_units = machine.units[l], machine.n_units[l]
            n_values = unit.n_configurations(n_units)
            rows = from_numpy(unit.configurations(n_units, numbers % n_values), thetas[l].field)
            values[l], numbers = cast(rows, machine.dtype), numbers // n_values
        total = 0.0
        for l, (unit, known) in enumerate(zip(machine.units, values, strict=True)):
            if known is not None:
                total = total + unit.log_weight(thetas[l], known)
            else:
                total = total + unit.total_log_partition(conditional(machine, l, values))
        yield tuple(values), total


def blocks_of_rows(machine: Machine, layers: Sequence[int] | None = None) -> Iterator[Machine]:
    """Yield machines of blocks of rows, of a machine with parameters for each row."""
    layers = _given_or_enumerable(machine, layers)
    n_rows, n_values = machine.n_rows or 1, min(_n_configurations(machine, layers), _MANY)
    size = max(1, _BLOCK_ELEMENTS // (n_values * max(machine.n_units)))
    for start in range(0, n_rows, size):
        yield machine.rows(slice(start, min(start + size, n_rows)))


def log_partition(machine: Machine, layers: Sequence[int] | None = None) -> Array:
    """Sum log Z in float64, of each row if the machine has parameters for each row."""
    if not machine.weights:
        return machine.units[0].total_log_partition(machine.thetas[0])
    if is_normal(machine):
        P, mean = _normal(machine)
        size, half = len(P) * math.log(2 * math.pi), np.linalg.slogdet(P)[1]
        return from_numpy(np.asarray(0.5 * (mean @ P @ mean + size - half)), machine.weights[0])
    if machine.n_rows is None:
        layers = _given_or_enumerable(machine, layers)
        if len(machine.units) > 2 or _n_configurations(machine, layers) <= _FEW:
            return _log_partition(machine, layers)
        n_visible, n_hidden = machine.n_units
        if tuple(layers) == (1,) and n_visible > n_hidden and _has_normal(machine, 0):
            small, constant = _projected(machine)
            return constant + _log_partition(small, layers)
        total = _by_halves(machine, layers[0])
        return _log_partition(machine, layers) if total is None else total
    parts = [_log_partition(rows, layers) for rows in blocks_of_rows(machine, layers)]
    return namespace(parts[0]).concat(parts, axis=0)


def _projected(machine: Machine) -> tuple[Machine, float]:
    """Return a machine with as many normal visible units as hidden ones, and a part of log Z.

    Summed over the visible units, h has the log-weight c'h + s h'W P^-1 b + s² h'W P^-1 W'h / 2
    and a constant, with the precisions P. Visible units of precision 1 with the weights
    (s² W P^-1 W')^1/2 leave the same.
    """
    (theta, hidden), (W,) = machine.thetas, map(to_numpy, machine.weights)
    field = to_numpy(theta.field)
    if theta.joint is None:
        solved = (np.stack([*W, field]) / to_numpy(theta.precision)).T
    else:
        solved = np.linalg.solve(to_numpy(theta.joint), np.stack([*W, field]).T)
    s, n, place = machine.scale, machine.n_units[1], machine.weights[0]
    values, V = np.linalg.eigh(s * s * (W @ solved[:, :-1]))
    root = V * np.sqrt(np.maximum(values, 0.0))
    own = Theta(from_numpy(np.zeros(n), place), precision=from_numpy(np.ones(n), place))
    shifted = hidden._replace(field=hidden.field + from_numpy(s * (W @ solved[:, -1]), place))
    units = Gaussian(), machine.units[1]
    small = replace(
        machine, units=units, thetas=(own, shifted), weights=(from_numpy(root, place),), scale=1.0
    )
    whole = float(to_numpy(machine.units[0].total_log_partition(theta)))
    return small, whole - 0.5 * n * math.log(2 * math.pi)


def _log_partition(machine: Machine, layers: Sequence[int] | None) -> Array:
    total = None
    for _, log_weights in configurations(machine, layers):
        part = log_sum_exp(log_weights)
        total = part if total is None else namespace(part).logaddexp(total, part)
    return total


def _by_halves(machine: Machine, layer: int) -> Array | None:
    """Sum log Z over a layer whose neighbours have few values; None if exponentials overflow.

    With the configurations h = (h', h'') of the layer, a site of its neighbours with the values c
    sums up to sum_c exp(own(c) + c . field(h')) exp(c . field(h'')), an inner product. So there are
    exponentials of the halves alone, and a product of matrices for each site.
    """
    unit, other = machine.units[layer], machine.units[1 - layer]
    n, m = machine.n_units[layer], machine.n_units[1 - layer]
    sites = unit.groups(n)
    middle = len(sites) // 2
    parts = [(other.part(m, site), site) for site in other.groups(m)]
    few = [p.is_discrete and p.n_configurations(len(c)) <= _FEW_VALUES * len(c) for p, c in parts]
    if middle == 0 or not all(few):
        return None
    theta, neighbours = (
        machine.thetas[l].map(lambda part: to_numpy(part).astype(np.float64))
        for l in (layer, 1 - layer)
    )
    W = machine.scale * to_numpy(machine.weights[0]).astype(np.float64)
    W = W if layer else W.T

    def all_values(part: Unit, columns: np.ndarray, of: Theta) -> tuple[np.ndarray, np.ndarray]:
        numbers = np.arange(part.n_configurations(len(columns)))
        x = part.configurations(len(columns), numbers)
        return x, part.log_weight(of.map(lambda values: values[columns]), x)

    def half(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return all values of half of the layer, and their log-weights."""
        return all_values(unit.part(n, columns), columns, theta)

    columns = np.concatenate(sites[:middle]), np.concatenate(sites[middle:])
    (x, first), (y, last) = map(half, columns)
    n_sites, log_z = max(1, _OF_HALVES // (len(last) * _FEW_VALUES)), -math.inf
    for a in range(0, len(first), _PAIRS):
        totals = first[a : a + _PAIRS, None] + last
        for start in range(0, len(parts), n_sites):
            block = parts[start : start + n_sites]
            found = [all_values(part, own, neighbours) for part, own in block]
            pairs = zip(block, found, strict=True)
            fields = np.concatenate([W[:, own] @ z.T for (_, own), (z, _) in pairs], axis=1)
            left, right = x[a : a + _PAIRS] @ fields[columns[0]], y @ fields[columns[1]]
            left += np.concatenate([own for _, own in found])
            ends = np.cumsum([0, *(len(own) for _, own in found)])
            sizes = np.abs(left).max(axis=0) + np.abs(right).max(axis=0)
            largest = np.maximum.reduceat(sizes, ends[:-1]) + math.log(max(np.diff(ends)))
            if not (largest <= _LARGEST).all():  # or it is NaN
                return None
            left, right = np.exp(left), np.ascontiguousarray(np.exp(right).T)
            _add_products(totals, left, right, ends, largest)
        log_z = np.logaddexp(log_z, log_sum_exp(totals.reshape(-1)))
    return from_numpy(np.asarray(log_z), machine.weights[0])


def _add_products(
    totals: np.ndarray, left: np.ndarray, right: np.ndarray, ends: np.ndarray, largest: np.ndarray
) -> None:
    """Add to ``totals`` the logarithms of the inner products of each site, in place."""
    for b in range(0, totals.shape[1], _PAIRS):
        columns, product, size = slice(b, b + _PAIRS), 1.0, 0.0
        for start, stop, more in zip(ends[:-1], ends[1:], largest, strict=True):
            if size + more > _LARGEST:
                totals[:, columns] += np.log(product)
                product, size = 1.0, 0.0
            product = (left[:, start:stop] @ right[start:stop, columns]) * product
            size += more
        totals[:, columns] += np.log(product)
