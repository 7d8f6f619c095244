"""Energies and free energies of a machine, and machines between it and independent units."""

from dataclasses import replace

import scipy.sparse as sp

from ..arrays import cast, matmul, namespace, row_blocks, row_sums
from ..units import log_weight
from ._machine import condition

_BLOCK_ROWS = 1024  # whose free energies are computed together


def coupling(machine, matrices, layers, power=1):
    """Return sum_l x_{l+1}' M_l x_l for each row, in float64."""
    pairs = zip(matrices, layers[:-1], layers[1:], strict=True)
    total = sum(row_sums(matmul(below, M.T) * above) for M, below, above in pairs)
    return total * machine.scale**power


def log_correction(machine, thetas):
    """Return what sampling by proposals must make up for in each row, in float64.

    Where hidden units do not sample their own law, a block Gibbs sweep belongs to another machine.
    This is log p(v) of the machine minus that of the other one, up to a constant.

    Parameters
    ----------
    machine : Machine
    thetas : dict of Theta
        Conditional parameters of layers given their neighbours, by layer; those that sample their
        law add nothing.

    Returns
    -------
    array of shape (n_rows,), float64, or None if all units sample their law.
    """
    total = None
    for l, theta in thetas.items():
        if not machine.units[l].samples_exactly:
            part = row_sums(machine.units[l].log_correction(theta))
            total = part if total is None else total + part
    return total


def energy(machine, layers):
    """Return the energy of each row of complete configurations, in float64."""
    own = sum(log_weight(theta, x) for theta, x in zip(machine.thetas, layers, strict=True))
    return -own - coupling(machine, machine.weights, layers)


def free_energy(machine, X):
    """Return -log sum_h exp(-energy(x, h)) for each row, of a machine with one hidden layer."""
    hidden = machine.units[1].log_partition(condition(machine, X))
    return -log_weight(machine.thetas[0], X) - row_sums(hidden)


def in_double(machine):
    """Return a machine with real visible units in float64, others as they are.

    Where data lie far from zero, terms of the size mean**2 / variance cancel in their energy.
    """
    if machine.units[0].values is not None:
        return machine
    return machine.astype(namespace(machine.thetas[0].field).float64)


def precise_free_energy(machine, X):
    """Return :func:`free_energy` with real visible units in float64, in blocks of rows."""
    machine = in_double(machine)
    parts = []
    for rows in row_blocks(X, _BLOCK_ROWS):
        rows = rows.astype(machine.dtype) if sp.issparse(rows) else cast(rows, machine.dtype)
        parts.append(free_energy(machine, rows))
    return namespace(parts[0]).concat(parts, axis=0)


def interpolate(machine0, machine1, beta):
    """Return the machine at ``beta`` between two that differ in thetas and scale.

    The weights are those of ``machine1``, shared; ``machine0`` has scale 0 for no couplings.
    """
    thetas = tuple(
        t0.map(lambda a, b: a + beta * (b - a), t1)
        for t0, t1 in zip(machine0.thetas, machine1.thetas, strict=True)
    )
    scale = (1 - beta) * machine0.scale + beta * machine1.scale
    return replace(machine1, thetas=thetas, scale=scale)


def uncoupled(machine, visible=None):
    """Return the machine without couplings: hidden units at rest, visible units as given."""
    W = machine.weights[0]
    pairs = list(zip(machine.units, machine.n_units, strict=True))
    thetas = [unit.default_theta(n, W) for unit, n in pairs]
    thetas[0] = machine.thetas[0] if visible is None else visible
    return replace(machine, thetas=tuple(thetas), scale=0.0)
