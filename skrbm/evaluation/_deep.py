"""Several hidden layers, which are dependent given the data and found by a fixed point."""

from functools import partial
from math import log2

import numpy as np
import scipy.sparse as sp

from ..arrays import cast, from_numpy, namespace, row_blocks, take_rows
from ..inference import (
    NaiveMeanField,
    clamped,
    given_visible,
    rows_with_holes,
    solve_to_convergence,
)
from ..inputs import split_missing
from ..machine import hidden_layers, input_field, log_partition, n_enumerated

_LOG2_WORK = 18  # log2 of configurations times units to sum over in a row


def hidden_means(density, X, l, machine=None):
    """Return the means of layer ``l`` of a machine, by default the density's, given layer 0."""

    def means(machine, X, observed=None):
        return _solved(density, machine, X, observed)[-1].means[l - len(machine.units)]

    return _by_blocks(density, means, X, machine)


def free_energy(density, X):
    """Return -log p(x) - log Z of rows, of what is observed of them, by the equations."""

    def of_rows(machine, X, observed=None):
        solved, method, state = _solved(density, machine, X, observed)
        found = -method.log_partition(solved, state)
        own = machine.units[0].log_weight(machine.thetas[0], X)
        return found if observed is not None else found - own

    return _by_blocks(density, of_rows, X)


def log_weight(density, X):
    """Return log p(x) + log Z of full rows: summed where layers are small, else a lower bound."""

    def of_rows(machine, X):
        own = machine.units[0].log_weight(machine.thetas[0], X)
        hidden = hidden_layers(machine, input_field(machine, 1, (X, None)))
        if not hidden.weights or is_small(hidden):
            return own + log_partition(hidden)
        above, _, state = _solved(density, machine, X)
        mean_field = NaiveMeanField()  # whose free energy is a bound
        start = mean_field.state_at(above, state.means[0])
        state = solve_to_convergence(mean_field, above, start).state
        return own + mean_field.log_partition(above, state)

    return _by_blocks(density, of_rows, X)


def is_small(machine):
    """Whether a machine is enumerated quickly."""
    return n_enumerated(machine) + log2(sum(machine.n_units)) <= _LOG2_WORK


def _solved(density, machine, X, observed=None):
    """Return (machine, method, state) of the layers above the first given its values X.

    If some values are not ``observed``, it is the whole machine, with the first layer.
    """
    method = density.method or NaiveMeanField()
    tol = 1e-12 if density.precise else method.tol
    if observed is None:
        machine, method, start = given_visible(machine, X, method)
    else:
        start, machine = method.state_at(machine, X), clamped(machine, X, observed)
    return machine, method, solve_to_convergence(method, machine, start, tol=tol).state


def _by_blocks(density, function, X, machine=None):
    """Return ``function(machine, rows)`` of blocks of rows, in float64 if ``density.precise``.

    Of rows with NaN it is ``function(machine, rows, observed)``.
    """
    machine = density.machine if machine is None else machine
    if density.precise:
        machine = machine.astype(namespace(machine.weights[0]).float64)
    parts = []
    for rows in row_blocks(X):
        rows = rows.astype(machine.dtype) if sp.issparse(rows) else cast(rows, machine.dtype)
        filling = machine.units[0].mean(machine.thetas[0])
        parts.append(full_and_others(partial(function, machine), rows, filling))
    return namespace(parts[0]).concat(parts, axis=0)


def full_and_others(function, X, filling=None, others=None):
    """Return ``function(rows)`` of rows without NaN and ``others(rows, observed)`` of the others.

    ``filling`` takes the place of NaN, by default 0, and ``function`` that of ``others``.
    """
    X, observed = split_missing(X, filling)
    if observed is None:
        return function(X)
    full, holes = rows_with_holes(observed)
    found = (others or function)(take_rows(X, holes), take_rows(observed, holes))
    if not len(full):
        return found
    xp, known = namespace(found), function(take_rows(X, full))
    order = from_numpy(np.argsort(np.concatenate([full, holes])), found)
    return xp.take(xp.concat([known, found], axis=0), order, axis=0)
