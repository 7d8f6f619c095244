"""Sums over ranks that train a machine together, and the weights of their parts."""

import zlib

import numpy as np

from .._ranks import ranks
from ..arrays import to_numpy
from ..exceptions import DistributedError
from ..machine import Moments


class Shares:
    """What part of each batch of an epoch this rank has, and the sums over the ranks.

    All ranks have the same number of batches, of ``batch_size`` rows in all at most, which they cut
    from ``n_rows`` rows of their own that stand for ``weight`` rows. Raises ValueError on all
    ranks, if one has fewer rows than there are batches.
    """

    def __init__(self, n_rows, weight, batch_size):
        lengths, weights = np.array(ranks().gather((n_rows, weight))).T
        n = int(-(-lengths.sum() // batch_size))
        if lengths.min() < n:
            raise ValueError(
                f"rank {lengths.argmin()} has {int(lengths.min())} rows, fewer than the {n} "
                "batches of an epoch; distribute the rows evenly, or increase batch_size"
            )
        sizes = lengths // n + (np.arange(n)[:, None] < lengths % n)
        counts = sizes * (weights / lengths)
        self.parts = counts[:, ranks().rank] / counts.sum(axis=1)  # which sum to 1 over the ranks
        self.n_steps = 0

    def moments(self, machine, difference, data):
        """Return the difference of moments and the means of the data, of all ranks, by one sum."""
        part = float(self.parts[self.n_steps])
        self.n_steps += 1
        difference, data = difference.scaled(part).reduced(machine), data.scaled(part)
        means = (data.statistics(unit, l) for l, unit in enumerate(machine.units))
        thetas = [*(theta for _, theta in difference.sums), *means]
        leaves = [leaf for theta in thetas for leaf in theta if leaf is not None]
        summed = iter(ranks().sum([*(matrix for _, matrix in difference.matrices), *leaves]))
        matrices = tuple((l, next(summed)) for l, _ in difference.matrices)
        thetas = [theta.map(lambda leaf: next(summed)) for theta in thetas]
        n = len(machine.units)
        sums, means = tuple(enumerate(thetas[:n])), tuple(enumerate(thetas[n:]))
        return Moments((), matrices, sums), Moments((), (), means)


def machine_of_first(machine):
    """Return the machine of rank 0, as a machine that shares no memory with another.

    Raises ValueError on all ranks, if their machines have other units, or other numbers of them.
    """
    if ranks().size == 1:
        return machine
    found = ranks().gather(f"{machine.units}, {list(machine.n_units)} of each")
    for rank, units in enumerate(found):
        if units != found[0]:
            raise ValueError(f"rank {rank} has units {units}, but rank 0 has {found[0]}")
    return machine.with_leaves(ranks().from_first(machine.leaves)).copy()


def row_of_ranks(machine, row, numbers, n_rows):
    """Return a row of the history and other numbers as means over the ranks, by their rows.

    ``numbers`` are a monitored value, a float or None, and its standard error. Raises
    DistributedError on all ranks, if their machines differ in a bit, or if a rank has measured
    other quantities.
    """
    sums = [zlib.crc32(np.ascontiguousarray(to_numpy(leaf))) for leaf in machine.leaves]
    measured = list(row), numbers[0] is None
    found = ranks().gather((sums, measured, n_rows, [*row.values()], numbers))
    all_sums, all_measured, weights, values, numbers = zip(*found, strict=True)
    for rank in range(ranks().size):
        if all_sums[rank] != all_sums[0]:
            raise DistributedError(
                f"the parameters of rank {rank} differ from those of rank 0; use computers of the "
                "same kind, with the same versions of all libraries"
            )
        if all_measured[rank] != all_measured[0]:
            raise DistributedError(
                f"rank {rank} measured {all_measured[rank][0]}, but rank 0 {all_measured[0][0]}"
            )
    weights = np.array(weights) / np.sum(weights)

    def mean(values):  # which is exact where they are equal
        same = all(value == values[0] for value in values)
        return values[0] if same else float(np.dot(weights, values))

    row = dict(zip(row, map(mean, zip(*values, strict=True)), strict=True))
    values, errors = zip(*numbers, strict=True)
    value = None if values[0] is None else mean(values)
    return row, (value, float(np.hypot.reduce(weights * errors)))
