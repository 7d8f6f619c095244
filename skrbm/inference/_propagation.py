"""Belief propagation in many machines that share their weights and differ in their fields."""

from dataclasses import replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs

from ..arrays import (
    add_products,
    cast,
    from_numpy,
    is_foreign,
    like,
    matmul,
    n_threads,
    namespace,
    one_blas_thread,
    row_blocks,
    row_sums,
    share,
    sigmoid,
    to_numpy,
)
from ..machine import Machine
from ..units import Bernoulli, Theta
from ._belief_propagation import BeliefPropagation, Messages, belief_change, fields_of
from ._fixed_point import Magnetizations, solve, take_rows
from ._mean_field import TAP
from ._odds import BLOCK, PRODUCTS, Odds

_N_PARTS = 16  # in which pair beliefs are summed, whatever the number of threads
_LEAST = 2**15  # messages of a part: fewer, and time goes into calls
_SHARED = 2**20  # messages of a few instances at a time, with which threads gain
_MOST = 2**24  # of these, if instances are large
_ELEMENTS = 2**27  # of the messages of a block of instances, where all are in one array
_TAP, _NEXT_ORDER = TAP(max_iter=30, tol=1e-6), TAP(order=3)
_ONE_UNIT = 100  # part of the squared change of one unit that counts as that of all
_PAIR_ERROR = 576  # E[h v] is off by at most abs(W)**3 over this, expanded to W**2 at given means


class Propagated(NamedTuple):
    """What :func:`propagate` returns, a row for each instance.

    Attributes
    ----------
    visible : array of shape (n_instances, n_visible)
        Beliefs as log-odds: of the marginal, or of the maximum with the unit at 1 against 0.
    hidden : array of shape (n_instances, n_hidden)
    n_iter : ndarray of int of shape (n_instances,)
        Sweeps done; 0 where TAP and the third order of its expansion were enough.
    residual : ndarray of shape (n_instances,)
        In the last sweep: the mean squared change of the means, or the square of the largest
        change of a belief over 100 or the belief's size, if that is larger; float64. Without
        sweeps the largest of

        - the mean squared change of the means by the third order,
        - a hundredth of the squared change of any one mean,
        - the mean square over the pairs of any one unit of ``abs(W)**3 / 576``, a bound of what
          the expansion leaves out of E[h v].

    converged : ndarray of bool of shape (n_instances,)
    log_partition : array of shape (n_instances,), float64
        The Bethe log Z; see :meth:`BeliefPropagation.log_partition`. None if not asked for.
    pairs : array of shape (n_hidden, n_visible)
        Sum over the instances of E[h v]. None if not asked for.
    """

    visible: Any
    hidden: Any
    n_iter: Any
    residual: Any
    converged: Any
    log_partition: Any = None
    pairs: Any = None


@one_blas_thread
def propagate(
    W,
    visible_fields,
    hidden_fields,
    *,
    product="sum",
    max_iter=100,
    tol=1e-8,
    damping=0.0,
    start="fields",
    n_jobs=None,
    log_partition=False,
    pairs=False,
):
    """Propagate beliefs in many machines that share their weights.

    Each instance is p(v, h) ∝ exp(h' W v + b' v + c' h) with binary units and its own fields b
    and c. The solution of each is what :func:`solve` finds with :class:`BeliefPropagation`;
    NumPy's instances are done a few at a time in one array of messages for each thread, whatever
    their number.

    Parameters
    ----------
    W : array of shape (n_hidden, n_visible)
        float32 or float64; other numbers become float64. There may be no hidden units.
    visible_fields : array of shape (n_instances, n_visible) or (n_visible,)
    hidden_fields : array of shape (n_instances, n_hidden) or (n_hidden,)
        Fields in one dimension are shared by all instances.
    product : {"sum", "max", "mixed"}, default="sum"
        "sum" for marginals; "max" for the most probable configuration of all units; "mixed" for
        that of the visible units, the hidden ones summed over. A unit of it is on where its belief
        is above 0.
    max_iter : int, default=100
        Largest number of sweeps: messages to the hidden units, and back.
    tol : float, default=1e-8
        An instance has converged when its ``residual`` is at most this: when neither means nor
        beliefs change much in a sweep. The fixed point itself may be farther off where sweeps
        converge slowly. With 0 all ``max_iter`` sweeps are done, but where a sweep changes
        nothing at all.
    damping : float in [0, 1), default=0.0
        Part of the old messages that is kept in each sweep.
    start : {"fields", "tap"}, default="fields"
        "fields": without messages, at the beliefs b of the visible units. "tap": at a solution of
        TAP, for sum-product. In terms of means, belief propagation is a series in powers of each
        weight, of which TAP is what there is up to the second. Where the third order changes the
        means of an instance by no more than ``tol`` in mean square, weights are not large (see
        ``residual``), and ``log_partition`` is not asked for, what it gives is the result, without
        a message: matrix products alone, which cost a small part of a sweep. Other instances start
        at the messages that it says, so that one or two sweeps do what takes ten from the fields;
        those in which TAP does not converge start at their fields.
    n_jobs : int, default=None
        Threads over instances, -1 for all processors; default: as many as BLAS may use. The
        result does not depend on it.
    log_partition : bool, default=False
        Whether to compute the Bethe log Z of each instance.
    pairs : bool, default=False
        Whether to compute the sum over instances of the expectations of h v'.

    Returns
    -------
    Propagated

    Raises
    ------
    ValueError
        If shapes do not fit, there are no instances, a weight or field is not a finite real
        number, a weight exceeds 200 in size, 80 in float32, or the start does not fit the product.
    """
    method = checked_method(product, max_iter, tol, damping, start, n_jobs)
    machine = checked_instances(W, visible_fields, hidden_fields)
    if machine.weights[0].shape[0] == 0:
        return _uncoupled(machine, PRODUCTS[product].visible)
    method.check(machine)
    options = log_partition, pairs, n_jobs
    if start == "fields":
        return _propagate(method, machine, _at_fields(machine), *options)
    expansion = _Expansion(machine)
    solved = (expansion.residual <= tol) & (not log_partition)
    rows = np.flatnonzero(solved), np.flatnonzero(~solved)
    if not rows[0].size:
        return _propagate(method, machine, expansion.start, *options)
    parts = [expansion.found(rows[0], pairs)]
    if rows[1].size:
        some = machine.rows(from_numpy(rows[1], machine.weights[0]))
        parts.append(_propagate(method, some, expansion.start.rows(rows[1]), *options))
    return _joined(parts, rows) if len(parts) > 1 else parts[0]


def checked_method(product, max_iter, tol, damping, start, n_jobs):
    """Return the method that options ask for, or raise ValueError of one that makes no sense."""
    method = BeliefPropagation(max_iter, tol, damping, product)
    if start not in ("fields", "tap") or (start == "tap" and product != "sum"):
        raise ValueError(f"start must be 'fields', or 'tap' with product='sum', got {start!r}")
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or n_jobs == 0):
        raise ValueError(f"n_jobs must be None or an integer that is not 0, got {n_jobs!r}")
    return method


def checked_instances(W, *fields):
    """Return the machine of the weights whose fields have a row for each instance."""
    xp = namespace(W)
    W = _real("W", W, xp)
    if W.ndim != 2 or W.shape[1] == 0:
        raise ValueError(f"W must have 2 dimensions and visible units, got shape {tuple(W.shape)}")
    if W.dtype not in (xp.float32, xp.float64):
        W = cast(W, xp.float64)
    names, sizes = ("visible_fields", "hidden_fields"), (W.shape[1], W.shape[0])
    fields = [_real(name, field, xp) for name, field in zip(names, fields, strict=True)]
    fields = [xp.asarray(field, **{**like(W), "dtype": xp.float64}) for field in fields]
    for name, field, n in zip(names, fields, sizes, strict=True):
        if field.ndim not in (1, 2) or field.shape[-1] != n:
            raise ValueError(
                f"{name} must have shape (n_instances, {n}) or ({n},), got {tuple(field.shape)}"
            )
    n_rows = {field.shape[0] for field in fields if field.ndim == 2} or {1}
    if len(n_rows) > 1:
        raise ValueError(
            f"visible_fields and hidden_fields are of {fields[0].shape[0]} and "
            f"{fields[1].shape[0]} instances; they must be of as many"
        )
    if 0 in n_rows:
        raise ValueError("visible_fields or hidden_fields has no rows: there are no instances")
    n = n_rows.pop()
    thetas = (Theta(xp.broadcast_to(field, (n, field.shape[-1]))) for field in fields)
    with np.errstate(over="ignore"):  # the next lines say so
        machine = Machine((Bernoulli(), Bernoulli()), tuple(thetas), (W,))
    parts = W, *(theta.field for theta in machine.thetas)
    for name, part in zip(("W", *names), parts, strict=True):
        if not bool(xp.all(xp.isfinite(part))):
            raise ValueError(f"{name} contains NaN or infinity, or overflows {W.dtype}")
    return machine


def _real(name, part, xp):
    """Return an argument as an array, or raise ValueError if it is none of real numbers."""
    if sp.issparse(part):
        raise ValueError(f"{name} is sparse, and belief propagation is not: give {name}.toarray()")
    part = xp.asarray(part)
    if not xp.isdtype(part.dtype, ("bool", "integral", "real floating")):
        raise ValueError(f"{name} must be an array of real numbers, got dtype {part.dtype}")
    return part


def _uncoupled(machine, values):
    """Return the result without hidden units, and so without messages."""
    b, c = (theta.field for theta in machine.thetas)
    n, xp = b.shape[0], namespace(b)
    log_z = row_sums(values.total(cast(b, xp.float64)))
    return Propagated(
        b, c, np.zeros(n, int), np.zeros(n), np.ones(n, bool), log_z, machine.weights[0]
    )


class _Start(NamedTuple):
    """Where messages start: beliefs in log-odds, and means of which hidden units tell the visible.

    Units whose mean is 0 tell nothing yet. All in float64.
    """

    visible: Any
    hidden: Any
    means: Any

    def rows(self, index):
        xp, index = namespace(self.means), from_numpy(index, self.means)
        return _Start(*(xp.take(part, index, axis=0) for part in self))


def _at_fields(machine):
    visible, hidden = fields_of(machine)
    nothing = namespace(hidden).zeros_like(hidden)
    return _Start(visible, nothing, nothing)


def _changes(old, new):
    """Return the mean squared change of the means of each row, or that of a unit over 100.

    The latter, if it is larger: an average over all units hides what a few strong couplings do.
    """
    total = _TAP.residual(old, new)
    for a, b in zip(old.means, new.means, strict=True):
        largest = namespace(a).max((b - a) ** 2, axis=1)
        total = np.maximum(total, to_numpy(largest) / _ONE_UNIT)
    return total


def _pair_error(cubes):
    """Return the mean square of the bound of E[h v]'s error at the unit where it is largest."""
    xp, squares = namespace(cubes), cubes * cubes
    largest = max(float(xp.max(xp.mean(squares, axis=axis))) for axis in (0, 1))
    return largest / _PAIR_ERROR**2


class _Expansion:
    """Belief propagation by an expansion in powers of the weights: TAP, and one order more.

    What two units make of each other is, in terms of their means, a series in powers of their
    weight, which TAP ends after the second. Where the third order changes little, all that follow
    change less.

    ``state`` is that after the third order, ``residual`` the larger of what it changes and of a
    bound of the error of the pairs. ``start`` is there, or at the fields where TAP has not
    converged.
    """

    def __init__(self, machine):
        xp, units = namespace(machine.weights[0]), machine.units
        first = solve(_TAP, machine, _TAP.start(machine, sigmoid(machine.thetas[0].field)))
        self.machine, state, fields = machine, first.state, [None, None]
        for l in (1, 0):
            fields[l] = _NEXT_ORDER.theta(machine, l, state)
            mean, variance = units[l].mean_variance(fields[l])
            means, variances = list(state.means), list(state.variances)
            means[l], variances[l] = mean, variance
            state = Magnetizations(tuple(means), tuple(variances))
        self.state, self.fields = state, tuple(theta.field for theta in fields)
        self.residual = np.maximum(_changes(first.state, state), _pair_error(machine.cubes[0]))
        converged = from_numpy(first.converged[:, None], machine.weights[0])
        parts = zip((*self.fields, state.means[1]), _at_fields(machine), strict=True)
        self.start = _Start(*(xp.where(converged, cast(a, b.dtype), b) for a, b in parts))

    def found(self, rows, pairs):
        """Return what :func:`propagate` does for some rows, of which this is the solution."""
        index = from_numpy(rows, self.state.means[0])
        beliefs = (namespace(field).take(field, index, axis=0) for field in self.fields)
        n_iter, converged = np.zeros(len(rows), int), np.ones(len(rows), bool)
        joint = self._pairs(take_rows(self.state, rows).means) if pairs else None
        return Propagated(*beliefs, n_iter, self.residual[rows], converged, None, joint)

    def _pairs(self, means):
        """Return the sum over rows of E[h v] = E[h] E[v] + W c c' + 2 W**2 s s'.

        Of the cumulants c and 2 s of h and of v.
        """
        cumulants = (u.cumulants(a) for u, a in zip(self.machine.units, means, strict=True))
        (c_v, s_v, _), (c_h, s_h, _) = cumulants
        W, total = self.machine.weights[0], matmul(2 * s_h.T, s_v)
        total *= W
        total += matmul(c_h.T, c_v)
        total *= W
        return add_products(total, [(means[1], means[0], 1.0)])


def _joined(parts, rows):
    """Return the results of some rows and of others as one."""
    order = np.argsort(np.concatenate(rows))
    xp, index = namespace(parts[0].visible), from_numpy(order, parts[0].visible)
    visible, hidden, *rest, _, pairs = zip(*parts, strict=True)
    return Propagated(
        *(xp.take(xp.concat(part, axis=0), index, axis=0) for part in (visible, hidden)),
        *(np.concatenate(part)[order] for part in rest),
        None,
        None if pairs[0] is None else sum(pairs[1:], start=pairs[0]),
    )


def _propagate(method, machine, start, log_partition, pairs, n_jobs):
    if is_foreign(machine.weights[0]):
        return _propagate_arrays(method, machine, start, log_partition, pairs)
    instances = _Instances(method, machine, start, log_partition, pairs)
    instances.run(n_threads() if n_jobs is None else effective_n_jobs(n_jobs))
    return instances.result()


def _propagate_arrays(method, machine, start, log_partition, pairs):
    """Propagate in blocks of instances, all of a block in one array of messages."""
    W, found = machine.weights[0], []
    xp, size = namespace(W), max(1, _ELEMENTS // (W.shape[0] * W.shape[1]))
    rows = (row_blocks(part, size) for part in (*(theta.field for theta in machine.thetas), *start))
    for *fields, visible, hidden, told in zip(*rows, strict=True):
        block = replace(machine, thetas=tuple(Theta(field) for field in fields))
        first = _Start(visible, hidden, told)
        means, odds = (sigmoid(first.visible), first.means), Odds(W, method.product)
        messages = Messages(means, (None, None), odds.of_means(first.means), first[:2])
        state, *rest = solve(method, block, messages)
        odds, R, visible = method.messages(block, state)
        b, c = fields_of(block)
        log_z = odds.log_partition(R, visible, b, c) if log_partition else None
        joint = odds.pairs(R, visible, state.beliefs[1], c) if pairs else None
        found.append((*state.beliefs, *rest, log_z, joint))
    visible, hidden, n_iter, residual, converged, log_z, joint = zip(*found, strict=True)
    return Propagated(
        xp.concat(visible, axis=0),
        xp.concat(hidden, axis=0),
        *(np.concatenate(part) for part in (n_iter, residual, converged)),
        xp.concat(log_z, axis=0) if log_partition else None,
        sum(joint[1:], start=joint[0]) if pairs else None,
    )


class _Instances:
    """Instances in NumPy, a few at a time run to their ends in one array for each thread."""

    def __init__(self, method, machine, start, log_partition, pairs):
        self.method, self.dtype = method, machine.dtype
        fields = self.fields = fields_of(machine)
        self.start = start
        self.odds = Odds(machine.weights[0], method.product)
        n = len(fields[0])
        n_parts = min(_N_PARTS, n, -(-n * machine.weights[0].size // _LEAST))
        self.parts = [range(i, n, n_parts) for i in range(n_parts)]
        self.beliefs = tuple(np.empty(field.shape, self.dtype) for field in fields)
        self.n_iter, self.residual = np.zeros(n, int), np.full(n, np.inf)
        self.log_partition = np.empty(n) if log_partition else None
        # A sum for each part, so that rounding does not depend on the number of threads.
        self.pairs = [None] * n_parts if pairs else None

    def run(self, n_jobs):
        """Do all parts in so many threads."""
        numbers, (m, n) = range(len(self.parts)), self.odds.E.shape
        # One thread works best on what its cache holds, and several on longer operations.
        block = min(m * n, BLOCK)
        together = min((_SHARED if n_jobs > 1 else BLOCK) // block, _MOST // (m * n))
        self.size = max(1, min(len(self.parts[0]), together))
        share(self._run, [numbers[i::n_jobs] for i in range(min(n_jobs, len(numbers)))])

    def _run(self, numbers):
        shape, size = self.odds.E.shape, self.size
        R, scratch = np.empty((size, *shape), self.odds.dtype), self.odds.scratch(size)
        for number in numbers:
            part = np.array(self.parts[number])
            for first in range(0, len(part), size):
                self._solve(part[first : first + size], number, R, scratch)

    def _solve(self, rows, number, R, scratch):
        """Solve the instances ``rows``; those that have converged leave."""
        (b, c), damping = (field[rows] for field in self.fields), self.method.damping
        first = _Start(*(part[rows] for part in self.start))
        n, R = b.shape[1], R[: len(rows)]
        self.odds.of_means(first.means, out=R)
        beliefs = np.concatenate(first[:2], axis=1)
        means = np.concatenate([sigmoid(first.visible), first.means], axis=1)
        for iteration in range(1, self.method.max_iter + 1):
            new = self.odds.sweep_in_place(R, beliefs[:, :n], b, c, damping, scratch)
            new = np.concatenate(new, axis=1)
            change = (1 - damping) * (sigmoid(new) - means)
            old, beliefs = beliefs, damping * beliefs + (1 - damping) * new
            means += change
            residual = np.maximum((change * change).mean(axis=1), belief_change(old, beliefs))
            self.n_iter[rows], self.residual[rows] = iteration, residual
            done = self.residual[rows] <= self.method.tol
            if iteration == self.method.max_iter:
                done[:] = True
            if done.all():
                self._finish(rows, number, R, beliefs, b, c)
                return
            if done.any():
                self._finish(rows[done], number, R[done], beliefs[done], b[done], c[done])
                left = ~done
                rows, b, c, beliefs, means = (x[left] for x in (rows, b, c, beliefs, means))
                R[: len(rows)] = R[left]
                R = R[: len(rows)]

    def _finish(self, rows, number, R, beliefs, b, c):
        visible, hidden = np.split(beliefs, [b.shape[1]], axis=1)
        self.beliefs[0][rows], self.beliefs[1][rows] = visible, hidden
        if self.log_partition is not None:
            self.log_partition[rows] = self.odds.log_partition(R, visible, b, c)
        if self.pairs is not None:
            more = self.odds.pairs(R, visible, hidden, c)
            # Many are summed in float64; what is one alone, in a small batch, stays as it is.
            before = self.pairs[number]
            self.pairs[number] = more if before is None else np.add(before, more, dtype=np.float64)

    def result(self):
        converged = self.residual <= self.method.tol
        pairs = None if self.pairs is None else sum(self.pairs).astype(self.dtype)
        return Propagated(
            *self.beliefs, self.n_iter, self.residual, converged, self.log_partition, pairs
        )
