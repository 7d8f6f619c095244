"""Densities of machines with several hidden layers, which depend on each other given the data."""

from dataclasses import dataclass
from math import log2

import scipy.sparse as sp

from ..arrays import cast, namespace, row_blocks
from ..inference import FixedPoint, NaiveMeanField, given_visible, solve_to_convergence
from ..machine import hidden_layers, input_field
from ..machine._enumeration import log_partition, n_enumerated
from ._density import Density, in_float64

_BLOCK_ROWS = 1000  # rows that are solved together
_LOG2_WORK = 18  # binary logarithm of configurations times units that are summed for a row


@dataclass(frozen=True)
class DeepDensity(Density):
    """A deep machine as a model of data; what depends on hidden layers is found by a fixed point.

    Parameters
    ----------
    machine : Machine
    starts : array of shape (n_starts, n_visible), default=None
    coordinates : Coordinates, default=None
    binarize : float or None, default=None
        All four as in :class:`Density`.
    method : FixedPoint
        Whose solutions given the data are the hidden layers.
    precise : bool, default=True
        Whether solutions are followed to a mean squared change of 1e-12, in float64; otherwise to
        the tolerance of the method.
    """

    method: FixedPoint = None
    precise: bool = True

    def solve(self, machine, X):
        """Return (machine, method, state) of the layers above the first given its values X."""
        above, method, start = given_visible(machine, X, self.method)
        tol = 1e-12 if self.precise else method.tol
        return above, method, solve_to_convergence(method, above, start, tol=tol).state

    def hidden_means(self, X, l, machine=None):
        """Return the means of layer ``l`` of the machine, or another, given those of layer 0."""
        return self.by_blocks(
            lambda machine, rows: self.solve(machine, rows)[-1].means[l - 1], X, machine
        )

    def free_energy(self, X):
        return self.by_blocks(self._free_energy, X)

    def _free_energy(self, machine, X):
        above, method, state = self.solve(machine, X)
        return -machine.units[0].log_weight(machine.thetas[0], X) - method.log_partition(
            above, state
        )

    def log_weight(self, X):
        """Return log p(x) + log Z: summed where the layers are small, else bounded from below."""
        return self.by_blocks(self._log_weight, X)

    def _log_weight(self, machine, X):
        own = machine.units[0].log_weight(machine.thetas[0], X)
        hidden = hidden_layers(machine, input_field(machine, 1, (X, None)))
        log2_work = n_enumerated(hidden) + log2(sum(hidden.n_units))
        if not hidden.weights or log2_work <= _LOG2_WORK:
            return own + log_partition(hidden)
        above, _, state = self.solve(machine, X)
        mean_field = NaiveMeanField()  # whose free energy is a bound
        start = mean_field.start(above, state.means[0])
        return own + mean_field.log_partition(
            above, solve_to_convergence(mean_field, above, start).state
        )

    def by_blocks(self, function, X, machine=None):
        """Return ``function(machine, rows)`` of blocks of rows, in float64 if ``precise``."""
        machine = self.machine if machine is None else machine
        if self.precise:
            machine = in_float64(machine)
        dtype, parts = machine.dtype, []
        for rows in row_blocks(X, _BLOCK_ROWS):
            rows = rows.astype(dtype) if sp.issparse(rows) else cast(rows, dtype)
            parts.append(function(machine, rows))
        return namespace(parts[0]).concat(parts, axis=0)
