"""Sums over all configurations of a machine.

Every other layer is enumerated, and the layers between are summed out one unit at a time, as they
are independent given their neighbours. Large sums over two layers use the faster formula of
:mod:`._factored_sums`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from .._checks import check_count
from ..arrays import Array, cast, from_numpy, log_sum_exp, namespace, to_numpy
from ._factored_sums import FactoredSums, factored_sums
from ._machine import Machine, conditional, is_per_row

MAX_UNITS = 20  # units that are always enumerated: 2**20 configurations
_MAX_FACTORED = 30  # the same where sums by halves are quick
# Multiplications of sums by halves: by default (0.5 s), and if exact sums are asked for (3 s).
_QUICK, _ASKED = 5e9, 3e10
_FEW = 2**12  # configurations that are summed in turn, without factors
# Elements of the largest temporary array, 256 KiB of float64: several stay in a cache, and their
# memory is used again, where that of larger ones is returned to the system after each block.
_BLOCK_ELEMENTS = 2**15
# Least number of configurations for which a block of rows has room: with fewer rows at a time the
# fields of the same configurations are computed more often.
_MANY = 2**7


def _n_configurations(machine: Machine, layers: Sequence[int]) -> int:
    return math.prod(machine.units[l].n_configurations(machine.n_units[l]) for l in layers)


def enumerable_layers(machine: Machine) -> Sequence[int] | None:
    """Return the layers that exact sums enumerate: the even or the odd ones.

    Those with fewer configurations, if all their layers are discrete; None if neither are.
    """
    halves = [range(parity, len(machine.units), 2) for parity in (0, 1)]
    finite = [half for half in halves if all(machine.units[l].is_discrete for l in half)]
    return min(finite, key=lambda half: _n_configurations(machine, half), default=None)


def _given_or_enumerable(machine: Machine, layers: Sequence[int] | None) -> Sequence[int]:
    layers = enumerable_layers(machine) if layers is None else layers
    if layers is None:
        raise ValueError(
            f"the layers {machine.units} cannot be enumerated, as neither the even nor the odd "
            "ones are all discrete; use method='smc'"
        )
    return layers


def n_enumerated(machine: Machine) -> float:
    """Return log2 of the number of configurations that exact sums enumerate.

    For layers of binary units it is their number. It is infinite if exact sums are impossible.
    """
    layers = enumerable_layers(machine)
    return math.inf if layers is None else math.log2(_n_configurations(machine, layers))


def is_normal(machine: Machine) -> bool:
    """Whether all units are normal, so that log Z is that of one normal distribution."""
    return machine.n_rows is None and all(
        unit.is_gaussian or len(unit.joint_columns(n)) == n
        for unit, n in zip(machine.units, machine.n_units, strict=True)
    )


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


def can_enumerate(machine: Machine, max_units: int | None = None, most: float = _QUICK) -> bool:
    """Whether log Z can be summed exactly over at most 2**max_units configurations.

    None stands for 20, or for sums by halves of at most ``most`` multiplications. Normal units need
    no sum.
    """
    if is_normal(machine):
        return True
    n = n_enumerated(machine)
    if max_units is not None:
        check_count("max_units", max_units, 0)
        return n <= max_units
    if n <= MAX_UNITS:
        return True
    sums = factored(machine) if n <= _MAX_FACTORED else None
    return sums is not None and sums.n_products <= most


def check_enumerable(machine: Machine, max_units: int | None = None) -> None:
    """Raise ValueError if exact sums would need more than ``max_units`` units.

    None stands for 20, or for as many as are summed in three seconds.
    """
    if not can_enumerate(machine, max_units, _ASKED):
        most = MAX_UNITS if max_units is None else max_units
        raise ValueError(
            "exact sums need a layer (in a deep machine, every other layer) with at most "
            f"max_units={most} binary units, and this machine has {machine.n_units} units; raise "
            "max_units or use method='smc'"
        )


def factored(machine: Machine, layers: Sequence[int] | None = None) -> FactoredSums | None:
    """Return the sums by halves of the layer that is enumerated, None if they do not apply."""
    layers = enumerable_layers(machine) if layers is None else layers
    return None if layers is None or len(layers) != 1 else factored_sums(machine, layers[0])


def configurations(
    machine: Machine, layers: Sequence[int] | None = None
) -> Iterator[tuple[tuple[Array | None, ...], Array]]:
    """Yield blocks of all values of some layers, with their log-weights.

    Parameters
    ----------
    machine : Machine
    layers : sequence of int, default=None
        Every other layer. Default: those of :func:`enumerable_layers`.

    Yields
    ------
    values : tuple
        An array of shape (n_configurations, n_units[l]) of each enumerated layer; None for the
        layers between.
    log_weights : array of shape (n_configurations,), float64
        Of shape (n_rows, n_configurations), if the machine has parameters for each row.
    """
    layers = _given_or_enumerable(machine, layers)
    n, n_rows = _n_configurations(machine, layers), machine.n_rows or 1
    size = max(1, _BLOCK_ELEMENTS // (n_rows * max(machine.n_units)))
    thetas = tuple(  # of rows against configurations
        theta.map_columns(lambda part: part[:, None, :] if part.ndim > 1 else part)
        for theta in machine.thetas
    )
    scale = machine.scale[:, None] if is_per_row(machine.scale) else machine.scale
    machine = replace(machine, thetas=thetas, scale=scale)
    for start in range(0, n, size):
        values = _block(machine, layers, start, min(start + size, n))
        total = 0.0
        for l, known in enumerate(values):
            if known is not None:
                total = total + machine.units[l].log_weight(machine.thetas[l], known)
            else:
                theta = conditional(machine, l, values)
                total = total + machine.units[l].total_log_partition(theta)
        yield values, total


def _block(
    machine: Machine, layers: Sequence[int], start: int, stop: int
) -> tuple[Array | None, ...]:
    """Return the values of configurations by their numbers; None for the layers between."""
    reference, values, numbers = machine.thetas[0].field, {}, np.arange(start, stop)
    for l in layers:
        unit, n = machine.units[l], machine.n_units[l]
        n_values = unit.n_configurations(n)
        rows = from_numpy(unit.configurations(n, numbers % n_values), reference)
        values[l], numbers = cast(rows, machine.dtype), numbers // n_values
    return tuple(values.get(l) for l in range(len(machine.units)))


def blocks_of_rows(machine: Machine, layers: Sequence[int] | None = None) -> Iterator[Machine]:
    """Yield machines of blocks of rows, of a machine with parameters for each row."""
    layers = _given_or_enumerable(machine, layers)
    n_rows, n_values = machine.n_rows or 1, min(_n_configurations(machine, layers), _MANY)
    size = max(1, _BLOCK_ELEMENTS // (n_values * max(machine.n_units)))
    for start in range(0, n_rows, size):
        yield machine.rows(slice(start, min(start + size, n_rows)))


def log_partition(machine: Machine, layers: Sequence[int] | None = None) -> Array:
    """Sum log Z, of each row if the machine has parameters for each row.

    Returns
    -------
    array of shape () or (n_rows,), float64
    """
    if not machine.weights:
        return machine.units[0].total_log_partition(machine.thetas[0])
    if is_normal(machine):
        P, mean = _normal(machine)
        size, half = len(P) * math.log(2 * math.pi), np.linalg.slogdet(P)[1]
        return from_numpy(np.asarray(0.5 * (mean @ P @ mean + size - half)), machine.weights[0])
    if machine.n_rows is None:
        layers = _given_or_enumerable(machine, layers)
        sums = factored(machine, layers) if _n_configurations(machine, layers) > _FEW else None
        return _log_partition(machine, layers) if sums is None else sums.log_partition()
    parts = [_log_partition(rows, layers) for rows in blocks_of_rows(machine, layers)]
    return namespace(parts[0]).concat(parts, axis=0)


def means(machine: Machine, wanted: Sequence[int]) -> list[np.ndarray]:
    """Sum the means of all units of some layers over all configurations.

    Returns
    -------
    list of ndarray of shape (n_units[l],)
    """
    if is_normal(machine):
        mean = np.split(_normal(machine)[1], np.cumsum(machine.n_units)[:-1])
        return [mean[l] for l in wanted]
    sums, total, largest = [np.zeros(machine.n_units[l]) for l in wanted], 0.0, -math.inf
    for layers, log_weights in configurations(machine):
        logs = to_numpy(log_weights)
        before, largest = largest, max(largest, float(logs.max()))
        weights, factor = np.exp(logs - largest), math.exp(before - largest)
        total = factor * total + weights.sum()
        for i, l in enumerate(wanted):
            values = layers[l]
            if values is None:
                values = machine.units[l].mean(conditional(machine, l, layers))
            sums[i] = factor * sums[i] + weights @ to_numpy(values)
    return [part / total for part in sums]


def _log_partition(machine: Machine, layers: Sequence[int] | None) -> Array:
    total = None
    for _, log_weights in configurations(machine, layers):
        part = log_sum_exp(log_weights)
        total = part if total is None else namespace(part).logaddexp(total, part)
    return total
