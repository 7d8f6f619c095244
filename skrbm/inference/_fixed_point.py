"""Fixed points: their contract, and the drivers that iterate them."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .._checks import check_count, check_number, look_up, unwritten
from ..arrays import cast, from_numpy, is_foreign, namespace, take_rows, to_numpy
from ._needs import InferenceMethod

_LOOK = 10  # sweeps on a device between two tests of convergence, which synchronize with the host
# Of solve_to_convergence: damping, max_iter.
_STAGES = ((0.0, 500), (0.5, 500), (0.5, 1500), (0.9, 500))


def map_rows(function, *states):
    """Apply ``function`` to each array of states with the same structure; None stays None."""
    first = states[0]
    if first is None:
        return None
    if isinstance(first, tuple):
        parts = [map_rows(function, *leaves) for leaves in zip(*states, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
    if isinstance(first, dict):
        return {key: map_rows(function, *(state[key] for state in states)) for key in first}
    return function(*states)


def choose(accepted, new, old):
    """Return a state with the rows of ``new`` where ``accepted`` and those of ``old`` elsewhere.

    Arrays without rows, such as parameters that all rows share, are those of ``new``.
    """
    xp = namespace(accepted)

    def pick(b, a):
        if b.shape[:1] != accepted.shape:
            return b
        return xp.where(xp.reshape(accepted, (-1, *[1] * (b.ndim - 1))), b, a)

    return map_rows(pick, new, old)


class Magnetizations(NamedTuple):
    """State of a fixed point: means and variances for each layer, rows first."""

    means: tuple
    variances: tuple


class Solution(NamedTuple):
    """Result of :func:`solve`, in arrays of the library of the state.

    Attributes
    ----------
    state : NamedTuple
        The last state, with the rows in the order of the start.
    n_iter : array of shape (n_rows,), int64
        Number of sweeps of each row.
    residual : array of shape (n_rows,), float64
        Distance from a solution, as measured by the method.
    converged : array of shape (n_rows,), bool
        Whether ``residual`` is at most ``tol``.
    """

    state: Any
    n_iter: Any
    residual: Any
    converged: Any


SOLUTION_STARTS = ("data", "chains", "tempered", "persistent", "random")
"""Where solutions are looked for in learning."""


@dataclass(frozen=True)
class FixedPoint(InferenceMethod):
    """Deterministic inference by a map whose fixed points give the marginals.

    Subclasses are frozen dataclasses of hyperparameters. The first axis of every array in a state
    is that of the rows.

    Parameters
    ----------
    max_iter : int, default=10
        Maximum number of sweeps per mini-batch in training, where more than ten cost time without
        improving the likelihood. :mod:`skrbm.evaluation` iterates to convergence.
    tol : float, default=1e-8
        A row has converged when the mean squared change of its means is at most this.
    damping : float in [0, 1), default=0.0
        Weight of the old state in each new state.
    start : {"data", "chains", "tempered", "persistent", "random"} or None, default=None
        Where the iterations start in training. "data": at the rows of the last batch (the choice of
        Tramel et al. 2018). "chains": at the states of persistent Gibbs chains. "tempered": at the
        states of chains that also exchange with samples of earlier models of the same training.
        "persistent": at the last solutions. "random": at draws of independent units. None lets the
        estimator choose.
    n_starts : int or None, default=None
        Number of solutions per mini-batch in training; None is ``batch_size`` of the estimator, or
        the number of rows if that is smaller.
    """

    max_iter: int = 10
    tol: float = 1e-8
    damping: float = 0.0
    start: str | None = field(default=None, kw_only=True)
    n_starts: int | None = field(default=None, kw_only=True)

    def __post_init__(self):
        check_count("n_starts", self.n_starts, 1, or_none=True)
        if self.start is not None:
            look_up("start", self.start, dict.fromkeys(SOLUTION_STARTS))
        check_count("max_iter", self.max_iter, 1)
        check_number("tol", self.tol, at_least=0)
        check_number("damping", self.damping, at_least=0, below=1)

    def check_marginals(self):
        """Raise ValueError if the method does not find marginals, for any visible values."""

    def state_at(self, machine, X):
        """Return the state that starts at visible values X."""
        raise unwritten(self, "state_at")

    def step(self, machine, state):
        """Return the state after one sweep over the layers."""
        raise unwritten(self, "step")

    def residual(self, old, new):
        """Return the distance of each row from a solution, array of shape (n_rows,), float64.

        It is the mean squared change of the means in a sweep from ``old`` to ``new``. A method can
        add other quantities that are 0 at a solution.
        """
        total, n_units = 0.0, 0
        for a, b in zip(old.means, new.means, strict=True):
            change, xp = b - a, namespace(a)
            total = total + cast(xp.vecdot(change, change), xp.float64)
            n_units += a.shape[1]
        return total / n_units

    def swept(self, machine, state, n_sweeps, tol, damping):
        """Return the state after some sweeps, which leave converged rows as they are.

        With it come the number of sweeps and the residual of each row, arrays of the library of
        the state in float64. The old state may be overwritten.
        """
        residual = n_iter = None
        for _ in range(n_sweeps):
            new = self.step(machine, state)
            if damping:
                new = map_rows(lambda b, a: damping * a + (1 - damping) * b, new, state)
            found = self.residual(state, new)
            if residual is None:  # no row has converged yet
                state, residual, n_iter = new, found, namespace(found).ones_like(found)
                continue
            moves = ~(residual <= tol)
            residual = namespace(found).where(moves, found, residual)
            state = choose(moves, new, state)
            n_iter = n_iter + cast(moves, n_iter.dtype)
        return state, n_iter, residual

    def log_partition(self, machine, state):
        """Return minus the free energy of each row of a state, in float64."""
        raise unwritten(self, "log_partition")

    def moments(self, machine, state):
        """Return the machine's expected sufficient statistics, averaged over the rows."""
        raise unwritten(self, "moments")


def solve(method, machine, state, *, max_iter=None, tol=None, damping=None):
    """Iterate a fixed point until each row has converged.

    Converged rows are removed from the computation, at once on the CPU and every ten sweeps on a
    device, which is not synchronized in between.

    Parameters
    ----------
    method : FixedPoint
    machine : Machine
        If its units have parameters for each row, these are the rows of the state.
    state : NamedTuple
        Where to start; the first axis of every array is that of the rows.
    max_iter, tol, damping : optional
        Replace those of the method. A row has converged when its residual is at most ``tol``. The
        new state is ``damping`` times the old one plus (1 - damping) times the result of the map.

    Returns
    -------
    Solution
    """
    max_iter = method.max_iter if max_iter is None else max_iter
    tol = method.tol if tol is None else tol
    damping = method.damping if damping is None else damping
    return _gather(list(finished_rows(method, machine, state, max_iter, tol, damping)), tol)


def finished_rows(method, machine, state, max_iter, tol, damping):
    """Iterate a fixed point, and yield rows as they converge; the others come last.

    The arguments are those of :func:`solve`. Each item has the indices, the state, the numbers of
    sweeps and the residuals of some rows.
    """
    rows, n_iter = np.arange(state.means[0].shape[0]), 0
    look = _LOOK if is_foreign(state.means[0]) else 1
    while True:
        n_sweeps = min(look, max_iter - n_iter)
        state, taken, residual = method.swept(machine, state, n_sweeps, tol, damping)
        taken, n_iter = n_iter + taken, n_iter + n_sweeps
        if n_iter == max_iter:  # without synchronization
            yield rows, state, taken, residual
            return
        is_done = to_numpy(residual <= tol)
        done, left = is_done.nonzero()[0], (~is_done).nonzero()[0]
        if not left.size:
            yield rows, state, taken, residual
            return
        if done.size:
            yield rows[done], *_take((state, taken, residual), done)
            state, rows = _take(state, left), rows[left]
            machine = machine.rows(from_numpy(left, state.means[0]))


def solve_to_convergence(method, machine, state, *, tol=1e-12):
    """Iterate a fixed point to convergence, for evaluation.

    Rows that do not converge usually oscillate between two states; they are continued with more
    damping, which has the same fixed points. Damped rows whose log Z is not finite are abandoned.

    ``tol`` is the largest residual of a sweep without damping, unless the method's own is smaller.
    """
    tol, rows, n_iter, finished = min(tol, method.tol), np.arange(state.means[0].shape[0]), 0, []
    for damping, max_iter in _STAGES:
        damping = max(damping, method.damping)
        n_sweeps, change = max(max_iter, method.max_iter), tol * (1 - damping) ** 2
        state, n_more, residual, _ = solve(
            method, machine, state, max_iter=n_sweeps, tol=change, damping=damping
        )
        if damping:  # the variances can still move when the damped means no longer do
            new = method.step(machine, state)
            state, residual = new, method.residual(state, new)
        n_iter = n_iter + n_more
        is_done = residual <= tol
        if damping and not bool(namespace(is_done).all(is_done)):
            log_z = method.log_partition(machine, state)
            is_done = is_done | ~namespace(log_z).isfinite(log_z)
        is_done = to_numpy(is_done)
        done, left = is_done.nonzero()[0], (~is_done).nonzero()[0]
        finished.append((rows[done], *_take((state, n_iter, residual), done)))
        if not left.size:
            break
        machine = machine.rows(from_numpy(left, state.means[0]))
        rows, (state, n_iter, residual) = rows[left], _take((state, n_iter, residual), left)
    else:
        finished.append((rows, state, n_iter, residual))
    return _gather(finished, tol)


def _take(state, index):
    """Return the rows of a state at a NumPy index array."""
    return map_rows(lambda leaf: take_rows(leaf, index), state)


def _gather(finished, tol):
    """Return the Solution with the finished rows in their first order."""
    rows, *parts = zip(*finished, strict=True)
    order = np.argsort(np.concatenate(rows))

    def join(*leaves):
        return namespace(leaves[0]).concat(leaves, axis=0)

    whole = (map_rows(join, *part) if len(finished) > 1 else part[0] for part in parts)
    state, n_iter, residual = whole if len(finished) == 1 else _take(tuple(whole), order)
    return Solution(state, cast(n_iter, namespace(n_iter).int64), residual, residual <= tol)
