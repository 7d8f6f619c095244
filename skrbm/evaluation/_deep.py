"""Densities of machines with several hidden layers, which are dependent given the data."""

from dataclasses import dataclass
from math import log2

import numpy as np
import scipy.sparse as sp

from ..arrays import cast, from_numpy, has_missing, namespace, row_blocks, take_rows, to_numpy
from ..inference import (
    FixedPoint,
    NaiveMeanField,
    clamped,
    given_visible,
    rows_with_holes,
    solve_to_convergence,
)
from ..inputs import split_missing
from ..machine import hidden_layers, input_field
from ..machine._enumeration import log_partition, n_enumerated
from ._density import Density, in_float64
from ._observed import PRECISE, given_observed, replaced

_BLOCK_ROWS = 1000
_LOG2_WORK = 18  # log2 of configurations times units to sum over in a row


@dataclass(frozen=True)
class DeepDensity(Density):
    """A deep machine as a model of data; its hidden layers are found by a fixed point.

    Parameters
    ----------
    machine : Machine
    starts : array of shape (n_starts, n_visible), default=None
    coordinates : Coordinates, default=None
        All three as in :class:`Density`.
    method : FixedPoint
        Of the hidden layers given the data.
    precise : bool, default=True
        Solve to a mean squared change of 1e-12, in float64; otherwise to the method's tolerance.
    """

    method: FixedPoint = None
    precise: bool = True

    def solve(self, machine, X, observed=None):
        """Return (machine, method, state) of the layers above the first given its values X.

        If some values are not ``observed``, it is the whole machine, with the first layer.
        """
        if observed is None:
            machine, method, start = given_visible(machine, X, self.method)
        else:
            method, start = self.method, self.method.state_at(machine, X)
            machine = clamped(machine, X, observed)
        tol = 1e-12 if self.precise else method.tol
        return machine, method, solve_to_convergence(method, machine, start, tol=tol).state

    def hidden_means(self, X, l, machine=None):
        """Return the means of layer ``l`` given those of layer 0."""
        return self.by_blocks(
            lambda machine, *rows: self.solve(machine, *rows)[-1].means[l - len(machine.units)],
            X,
            machine,
        )

    def free_energy(self, X):
        return self.by_blocks(self._free_energy, X)

    def free_energy_given(self, X, seed, accuracy=PRECISE):
        if len(self.machine.weights) == 1:  # no fixed point is needed
            return super().free_energy_given(X, seed, accuracy)
        return self.by_blocks(self._free_energy, X)

    def _free_energy(self, machine, X, observed=None):
        solved, method, state = self.solve(machine, X, observed)
        found = -method.log_partition(solved, state)
        return found if observed is not None else found - self._own(machine, X)

    def log_weight(self, X):
        """Return log p(x) + log Z: summed where the layers are small, else bounded from below."""
        return self.by_blocks(self._log_weight, X)

    def _own(self, machine, X):
        return machine.units[0].log_weight(machine.thetas[0], X)

    def _log_weight(self, machine, X):
        own = self._own(machine, X)
        hidden = hidden_layers(machine, input_field(machine, 1, (X, None)))
        if not hidden.weights or _is_small(hidden):
            return own + log_partition(hidden)
        above, _, state = self.solve(machine, X)
        mean_field = NaiveMeanField()  # whose free energy is a bound
        start = mean_field.state_at(above, state.means[0])
        return own + mean_field.log_partition(
            above, solve_to_convergence(mean_field, above, start).state
        )

    def observed_sums(self, machine, X, observed, max_units):
        """Return ``exact_sums``; rows with equal missing units are summed together."""
        xp, unit = namespace(X), machine.units[0]
        known = xp.where(observed, X, xp.zeros_like(X))
        total = unit.log_weight(machine.thetas[0], known)
        field = input_field(machine, 1, (known, None))
        patterns, index = np.unique(to_numpy(observed), axis=0, return_inverse=True)
        exact = np.zeros(X.shape[0], dtype=bool)
        for number, pattern in enumerate(patterns):
            rows = np.flatnonzero(index.ravel() == number)
            rest = given_observed(machine, take_rows(field, rows), pattern)
            if _is_small(rest):
                total = replaced(total, rows, take_rows(total, rows) + log_partition(rest))
                exact[rows] = True
        return total, None, exact

    def by_blocks(self, function, X, machine=None):
        """Return ``function(machine, rows)`` of blocks of rows, in float64 if ``precise``.

        Of rows with NaN it is ``function(machine, rows, observed)``.
        """
        machine = self.machine if machine is None else machine
        if self.precise:
            machine = in_float64(machine)
        dtype, parts = machine.dtype, []
        for rows in row_blocks(X, _BLOCK_ROWS):
            rows = rows.astype(dtype) if sp.issparse(rows) else cast(rows, dtype)
            of_rows = _with_missing if has_missing(rows) else _complete
            parts.append(of_rows(function, machine, rows))
        return namespace(parts[0]).concat(parts, axis=0)


def _complete(function, machine, X):
    return function(machine, X)


def _with_missing(function, machine, X):
    """Return ``function`` of the rows of X, those with NaN apart, in their order."""
    X, observed = split_missing(X, machine.units[0].mean(machine.thetas[0]))
    full, holes = rows_with_holes(observed)
    parts = [function(machine, take_rows(X, holes), take_rows(observed, holes))]
    if len(full):
        parts.insert(0, function(machine, take_rows(X, full)))
    order = from_numpy(np.argsort(np.concatenate([full, holes])), X)
    return namespace(X).take(namespace(X).concat(parts, axis=0), order, axis=0)


def _is_small(machine):
    """Whether a machine is enumerated quickly."""
    return n_enumerated(machine) + log2(sum(machine.n_units)) <= _LOG2_WORK
