"""Energies and free energies of a machine, and the path from it to independent units."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from ..arrays import (
    Array,
    block_rows,
    cast,
    cholesky,
    is_sparse,
    matmul,
    namespace,
    row_sums,
    take_rows,
    to_numpy,
)
from ..exceptions import DivergenceError
from ..units import Theta, Unit
from ._machine import Layers, Machine, condition


def coupling(machine: Machine, matrices: Sequence[Array], layers: Layers, power: int = 1) -> Array:
    """Return scale**power * sum_l x_{l+1}' M_l x_l for each row, in float64.

    ``matrices`` M_l are the weights, or the same ``power`` of each of their entries.
    """
    pairs = zip(matrices, layers[:-1], layers[1:], strict=True)
    total = sum(row_sums(matmul(below, M.T) * above) for M, below, above in pairs)
    return total * machine.scale**power


def log_correction(machine: Machine, thetas: dict[int, Theta]) -> Array | None:
    """Return the log-weight that corrects sampling by proposals in each row, in float64.

    It is log p(v) minus that of the machine that block Gibbs sweeps leave invariant, up to a
    constant; None if ``sample`` of all units is exact. ``thetas`` are conditional parameters by
    layer.
    """
    total = None
    for l, theta in thetas.items():
        if not machine.units[l].samples_exactly:
            part = row_sums(machine.units[l].log_correction(theta))
            total = part if total is None else total + part
    return total


def energy(machine: Machine, layers: Layers) -> Array:
    """Return the energy of each row of complete configurations, in float64."""
    own = sum(
        unit.log_weight(theta, x)
        for unit, theta, x in zip(machine.units, machine.thetas, layers, strict=True)
    )
    return -own - coupling(machine, machine.weights, layers)


def free_energy(machine: Machine, X: Array) -> Array:
    """Return -log sum_h exp(-energy(x, h)) for each row, of a machine with one hidden layer."""
    hidden = machine.units[1].total_log_partition(condition(machine, X))
    return -machine.units[0].log_weight(machine.thetas[0], X) - hidden


def log_ratio(
    machine0: Machine, machine1: Machine, X: Array, given: tuple[Theta, Theta] | None = None
) -> Array:
    """Return the free energy of each row by ``machine0`` minus that by ``machine1``, in float64.

    It is log p1(x) / p0(x) + log Z1 / Z0. The machines have the same units, whose base measures
    cancel. Values are multiplied by the difference of the parameters, so that few digits are lost.
    ``given`` are the parameters of the hidden units given X by both, if they are known already.
    """
    given = (condition(machine0, X), condition(machine1, X)) if given is None else given
    hidden = machine1.units[1].log_ratio(*given)
    return machine1.units[0].dot(difference(machine1.thetas[0], machine0.thetas[0]), X) + hidden


def difference(theta: Theta, other: Theta) -> Theta:
    """Return the difference of parameters, without a matrix that both share."""
    found = theta.map(lambda a, b: a - b, other)
    return found._replace(joint=None) if theta.joint is other.joint else found


def in_double(machine: Machine) -> Machine:
    """Return the machine in float64 if its visible units are real, else the machine itself.

    For data far from zero, terms of the size mean**2 / variance cancel in the energy of real
    units, which float32 does not hold.
    """
    if machine.units[0].is_discrete:
        return machine
    return machine.astype(namespace(machine.thetas[0].field).float64)


def precise_free_energy(machine: Machine, X: Array) -> Array:
    """Return :func:`free_energy` in blocks of rows, in the dtype of :func:`in_double`.

    X may be dense or sparse, of any dtype.
    """
    machine, n = in_double(machine), X.shape[0]
    parts = []
    size = block_rows()
    for start in range(0, n, size):
        block = slice(start, min(start + size, n))
        rows = X if n <= size else take_rows(X, block)
        sparse = is_sparse(rows)
        rows = rows.astype(machine.dtype, copy=False) if sparse else cast(rows, machine.dtype)
        parts.append(free_energy(machine.rows(block), rows))
    return namespace(parts[0]).concat(parts, axis=0)


def interpolate(machine0: Machine, machine1: Machine, beta: float) -> Machine:
    """Return the machine at ``beta``, from 0 to 1, between two with the same units.

    They have the same weights, which the result shares, or the same scale; a scale of 0 means no
    couplings.
    """

    def between(theta0: Theta, theta1: Theta) -> Theta:
        if theta0.joint is theta1.joint:  # a matrix that both share stays as it is
            return theta0.map_columns(lambda a, b: a + beta * (b - a), theta1)
        return theta0.map(lambda a, b: a + beta * (b - a), theta1)

    thetas = tuple(map(between, machine0.thetas, machine1.thetas))
    weights = tuple(
        W1 if W0 is W1 else W0 + beta * (W1 - W0)
        for W0, W1 in zip(machine0.weights, machine1.weights, strict=True)
    )
    scale = (1 - beta) * machine0.scale + beta * machine1.scale
    return replace(machine1, thetas=thetas, weights=weights, scale=scale)


def uncoupled(machine: Machine, visible: Theta | None = None) -> Machine:
    """Return a machine of independent units, which shares the weights and has scale 0.

    Hidden units have default parameters. Visible units have those of ``visible``, or their own.
    """
    W = machine.weights[0]
    pairs = zip(machine.units, machine.n_units, strict=True)
    thetas = [unit.default_theta(n, W) for unit, n in pairs]
    thetas[0] = machine.thetas[0] if visible is None else visible
    return replace(machine, thetas=tuple(thetas), scale=0.0)


def has_integral(machine: Machine) -> bool:
    """Whether the distribution can be normalized, in spite of couplings between unbounded units.

    Gaussian layers are jointly normal, with the precision matrix [[P_v, -W'], [-W, P_h]] for two
    of them, which must be positive definite; for other units this suffices, with the least
    precision of their tails, which is infinite for bounded columns. Layer by layer, upwards, that
    is the Schur complement P_h - W P_v^-1 W'. Units that need bounded neighbours must have them.
    """
    pairs = [*pairwise(machine.units), *pairwise(machine.units[::-1])]
    if not all(np.isfinite(b.bounds).all() for a, b in pairs if a.needs_bounds):
        return False
    below: Any = None
    columns: Any = None
    for l, (unit, theta) in enumerate(zip(machine.units, machine.thetas, strict=True)):
        precision = unit.tail_precision(theta)
        if precision is None:
            below = None
            continue
        diagonal = to_numpy(precision).astype(np.float64)
        rows, matrix = diagonal != np.inf, None
        if theta.joint is not None:
            matrix, joint = np.diag(diagonal), unit.joint_columns(len(diagonal))
            matrix[np.ix_(joint, joint)] = to_numpy(theta.joint)
            matrix = matrix[np.ix_(rows, rows)]
        if below is not None:
            W = to_numpy(machine.weights[l - 1])[np.ix_(rows, columns)]
            W = machine.scale * W.astype(np.float64)
            scaled = W / below if below.ndim == 1 else np.linalg.solve(below, W.T).T
            with np.errstate(over="ignore", invalid="ignore"):
                matrix = (np.diag(diagonal[rows]) if matrix is None else matrix) - scaled @ W.T
        if matrix is not None and not np.isfinite(cholesky(matrix)).all():
            return False
        below, columns = diagonal[rows] if matrix is None else matrix, rows
    return True


def check_has_integral(machine: Machine) -> None:
    """Raise DivergenceError if the distribution of a machine cannot be normalized."""
    if not has_integral(machine):
        raise DivergenceError(
            "the distribution cannot be normalized, since couplings between unbounded units are "
            "too strong for their precisions; use smaller weights, or units with bounds such as "
            "'truncated_gaussian'"
        )


def may_lack_integral(units: Sequence[Unit]) -> bool:
    """Whether neighbouring layers have unbounded units, so that couplings have a limit."""
    unbounded = [not np.isfinite(unit.bounds).all() for unit in units]
    return any(a and b for a, b in pairwise(unbounded))
