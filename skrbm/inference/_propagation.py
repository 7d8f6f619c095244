"""Belief propagation in many machines that share their weights and differ in their fields.

NumPy's machines are solved a few at a time, by sweeps in place in messages that stay in cache.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .._checks import look_up
from ..arrays import (
    add_products,
    cast,
    from_numpy,
    is_foreign,
    is_torch,
    like,
    log_odds,
    matmul,
    n_threads,
    namespace,
    numbers,
    one_blas_thread,
    row_sums,
    share,
    sigmoid,
    take_rows,
    to_numpy,
)
from ..machine import Machine
from ..units import Bernoulli, Categorical, Theta
from ._belief_propagation import BeliefPropagation, Messages, belief_change, fields_of
from ._fixed_point import FixedPoint, Magnetizations, finished_rows, map_rows, solve
from ._mean_field import TAP
from ._odds import BLOCK, PRODUCTS, Odds

# The work of NumPy is cut by numbers of messages, as measured on two cores with caches of 1 MB.
_N_PARTS = 16  # sums of pair beliefs, whatever the number of threads: rounding stays the same
_MIN_PART = 2**17  # of a part: with fewer, time goes into calls
_SHARED = 2**20  # together where several threads run: they gain by longer operations
_MAX_TOGETHER = 2**24  # together where one machine has more than a block
_ELEMENTS = 2**27  # together in other libraries, which solve all rows in one array
_TAP, _NEXT_ORDER = TAP(max_iter=30, tol=1e-6), TAP(order=3)
_ONE_UNIT = 100  # the squared change of one unit over this counts as that of all units
_PAIR_ERROR = 576  # the expansion of E[h v] is off by at most abs(W)**3 over this


_CLASS_ELEMENTS = 2**20  # of the largest temporary array in sums over classes
_FARTHEST_CLASS = 500.0  # log-odds of a hidden unit that is 1 for all classes


class Propagated(NamedTuple):
    """Solution of belief propagation, a row for each instance.

    Attributes
    ----------
    visible : array of shape (n_instances, n_visible)
        Beliefs as log-odds: of the marginals, or of the maxima with the unit at 1 and at 0.
    hidden : array of shape (n_instances, n_hidden)
    n_iter : ndarray of int of shape (n_instances,)
        Number of sweeps; 0 where TAP and the third order of its expansion were sufficient.
    residual : ndarray of shape (n_instances,)
        float64. The larger of the mean squared change of the means in the last sweep, and the
        square of the largest change of a belief, relative to 100 or the size of the belief,
        whichever is larger. Without sweeps, the largest of the mean squared change of the means by
        the third order, a hundredth of the largest squared change of a single mean, and the mean
        square over the pairs of any one unit of ``abs(W)**3 / 576``, a bound on the error of E[h
        v].
    converged : ndarray of bool of shape (n_instances,)
    log_partition : array of shape (n_instances,), float64
        The Bethe log Z; see :meth:`BeliefPropagation.log_partition`. None if it was not requested.
    pairs : array of shape (n_hidden, n_visible)
        Sum over the instances of E[h v]. None if it was not requested.
    """

    visible: Any
    hidden: Any
    n_iter: Any
    residual: Any
    converged: Any
    log_partition: Any = None
    pairs: Any = None


def joined(parts, rows=None):
    """Join the results of blocks of rows at the indices ``rows``, by default consecutive."""
    if len(parts) == 1:
        return parts[0]
    order = None if rows is None else np.argsort(np.concatenate(rows))

    def join(leaves):
        if leaves[0] is None:
            return None
        xp = namespace(leaves[0])
        whole = xp.concat(leaves, axis=0)
        return whole if order is None else xp.take(whole, from_numpy(order, whole), axis=0)

    *leaves, pairs = zip(*parts, strict=True)
    total = None if pairs[0] is None else sum(pairs[1:], start=pairs[0])
    return Propagated(*map(join, leaves), total)


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
    log_partition=False,
    pairs=False,
):
    """Propagate beliefs in many machines that share their weights.

    Each instance is p(v, h) ∝ exp(h' W v + b' v + c' h) with binary units and its own fields b and
    c. The solutions are those of :func:`solve` with :class:`BeliefPropagation`.

    Parameters
    ----------
    W : array of shape (n_hidden, n_visible)
        Weights, float32 or float64; other numbers are converted to float64. There may be no hidden
        units.
    visible_fields : array of shape (n_instances, n_visible) or (n_visible,)
    hidden_fields : array of shape (n_instances, n_hidden) or (n_hidden,)
        Fields in one dimension are shared by all instances.
    product : {"sum", "max", "mixed"}, default="sum"
        "sum" computes marginals; "max" finds the most probable configuration of all units; "mixed"
        finds that of the visible units, with the hidden units summed out. In these configurations,
        units are on if their beliefs are above 0.
    max_iter : int, default=100
        Maximum number of sweeps, each of which sends messages to the hidden units and back.
    tol : float, default=1e-8
        An instance has converged when its ``residual`` is at most this, so that neither means nor
        beliefs change much in a sweep. If sweeps converge slowly, the fixed point itself may be
        farther away. With 0, all ``max_iter`` sweeps are made, unless a sweep changes nothing.
    damping : float in [0, 1), default=0.0
        Weight of the old messages in each sweep.
    start : {"fields", "tap"}, default="fields"
        "fields" starts without messages, at the beliefs b of the visible units. "tap", for
        sum-product, starts at a solution of TAP, which is belief propagation to second order in the
        weights. If the third order changes the means by at most ``tol`` in mean square, the weights
        are not large (see ``residual``) and ``log_partition`` is False, that solution is returned,
        at a fraction of the cost of a sweep. Other instances start at the messages of TAP, or at
        their fields if TAP does not converge.
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
        If shapes do not match, there are no instances, a weight or field is not a finite real
        number, a weight exceeds 200 (80 in float32) in absolute value, or ``start`` does not
        support ``product``.
    """
    method = BeliefPropagation(max_iter, tol, damping, product)
    from_tap = {"fields": False, "tap": True} if product == "sum" else {"fields": False}
    from_tap = look_up("start", start, from_tap, ", or 'tap' with product='sum'")
    machine = _checked_machine(W, visible_fields, hidden_fields)
    wanted = {"log_partition": log_partition, "pairs": pairs}
    return propagate_rows(method, machine, from_tap=from_tap, **wanted)


def propagate_rows(method, machine, *, from_tap=False, log_partition=False, pairs=False):
    """Propagate beliefs as :func:`propagate` does, in a binary machine with fields for each row.

    With ``from_tap`` it starts at TAP. Parameters must be finite; there may be no hidden units.
    """
    if machine.n_units[1] == 0:  # visible units are independent
        b, c = (theta.field for theta in machine.thetas)
        n, total = b.shape[0], PRODUCTS[method.product].visible.total
        log_z = row_sums(total(cast(b, namespace(b).float64)))
        exact = np.zeros(n, int), np.zeros(n), np.ones(n, bool)
        return Propagated(b, c, *exact, log_z, machine.weights[0])
    method.check(machine)
    wanted = log_partition, pairs
    if not from_tap:
        return _propagate(method, machine, None, *wanted)
    state, beliefs, residual, start = _expand(machine)
    is_solved = (residual <= method.tol) & (not log_partition)
    done, left = is_solved.nonzero()[0], (~is_solved).nonzero()[0]
    if not done.size:
        return _propagate(method, machine, start, *wanted)
    joint = _expanded_pairs(machine, _at(state.means, done)) if pairs else None
    n_iter, converged = np.zeros(len(done), int), np.ones(len(done), bool)
    parts = [Propagated(*_at(beliefs, done), n_iter, residual[done], converged, None, joint)]
    if not left.size:
        return parts[0]
    some = machine.rows(from_numpy(left, machine.weights[0]))
    parts.append(_propagate(method, some, _at(start, left), *wanted))
    return joined(parts, (done, left))


def _checked_machine(W, *fields):
    """Return the machine of the weights whose fields have a row for each instance."""
    names, arrays, xp = ("W", "visible_fields", "hidden_fields"), [], namespace(W)
    for name, part in zip(names, (W, *fields), strict=True):
        if sp.issparse(part):
            raise ValueError(f"{name} must be dense, got a sparse array; give {name}.toarray()")
        part = xp.asarray(part)
        if not xp.isdtype(part.dtype, ("bool", "integral", "real floating")):
            raise ValueError(f"{name} must be an array of real numbers, got dtype {part.dtype}")
        arrays.append(part)
    W, *fields = arrays
    if W.ndim != 2 or W.shape[1] == 0:
        raise ValueError(f"W must have 2 dimensions and visible units, got shape {tuple(W.shape)}")
    if W.dtype not in (xp.float32, xp.float64):
        W = cast(W, xp.float64)
    with np.errstate(over="ignore"):  # checked below
        fields = [xp.asarray(field, **like(W)) for field in fields]
    for name, field, n in zip(names[1:], fields, W.shape[::-1], strict=True):
        if field.ndim not in (1, 2) or field.shape[-1] != n:
            raise ValueError(
                f"{name} must have shape (n_instances, {n}) or ({n},), got {tuple(field.shape)}"
            )
    n_rows = {field.shape[0] for field in fields if field.ndim == 2} or {1}
    if len(n_rows) > 1 or n_rows == {0}:
        raise ValueError(
            "visible_fields and hidden_fields must have the same number of instances, at least 1, "
            f"got shapes {tuple(fields[0].shape)} and {tuple(fields[1].shape)}"
        )
    (n,) = n_rows
    thetas = (Theta(xp.broadcast_to(field, (n, field.shape[-1]))) for field in fields)
    machine = Machine((Bernoulli(), Bernoulli()), tuple(thetas), (W,))
    sizes = numbers(0.0 if 0 in part.shape else xp.max(xp.abs(part)) for part in fields)
    for name, largest in zip(names, (*machine.largest, *sizes), strict=True):
        if not np.isfinite(largest):
            raise ValueError(f"{name} contains NaN or infinity, or overflows {W.dtype}")
    return machine


class _Fields(NamedTuple):
    """The fields of each row in float64, cast once: the part of a machine that sweeps need."""

    visible: Any
    hidden: Any

    def rows(self, index):
        return _at(self, index)

    def start(self):
        """Return beliefs of both layers and hidden means where messages start: without messages."""
        zero = namespace(self.hidden).zeros_like(self.hidden)
        return self.visible, zero, zero


def _at(state, index):
    """Return the rows at an index array in increasing order; the state itself if it is all."""
    return map_rows(lambda x: x if index.shape[0] == x.shape[0] else take_rows(x, index), state)


def _expand(machine):
    """Solve by an expansion in powers of the weights: TAP, and one order more.

    In terms of their means, what two units send each other is a series in powers of their weight,
    which TAP ends after the second. If the third order changes little, all later ones change less.

    Returns the state after the third order, the beliefs, the largest of the three numbers of
    :class:`Propagated` (the mean over all units hides what a few large weights do), and where
    messages start: there, or at the fields where TAP has not converged.
    """
    xp, units = namespace(machine.weights[0]), machine.units
    first = solve(_TAP, machine, _TAP.state_at(machine, sigmoid(machine.thetas[0].field)))
    state, fields = first.state, [None, None]
    for l in (1, 0):
        fields[l] = _NEXT_ORDER.theta(machine, l, state)
        means, variances = list(state.means), list(state.variances)
        means[l], variances[l] = units[l].mean_variance(fields[l])
        state = Magnetizations(tuple(means), tuple(variances))
    beliefs = tuple(theta.field for theta in fields)
    residual = _TAP.residual(first.state, state)
    for a, b in zip(first.state.means, state.means, strict=True):
        residual = xp.maximum(residual, xp.max((b - a) ** 2, axis=1) / _ONE_UNIT)
    squares = machine.cubes[0] * machine.cubes[0]
    for axis in (0, 1):
        pairs = cast(xp.max(xp.mean(squares, axis=axis)), xp.float64)
        residual = xp.maximum(residual, pairs / _PAIR_ERROR**2)
    parts = zip((*beliefs, state.means[1]), _Fields(*fields_of(machine)).start(), strict=True)
    converged = first.converged[:, None]
    start = tuple(xp.where(converged, cast(a, b.dtype), b) for a, b in parts)
    return state, beliefs, to_numpy(residual), start


def _expanded_pairs(machine, means):
    """Return the sum over rows of E[h v] = E[h] E[v] + W c c' + 2 W**2 s s'.

    c and 2 s are the second and third cumulants of h and of v.
    """
    cumulants = (unit.cumulants(a) for unit, a in zip(machine.units, means, strict=True))
    (c_v, s_v, _), (c_h, s_h, _) = cumulants
    W, total = machine.weights[0], matmul(2 * s_h.T, s_v)
    total *= W
    total += matmul(c_h.T, c_v)
    total *= W
    return add_products(total, [(means[1], means[0], 1.0)])


def kernels_for(odds):
    """Return the module that sweeps by kernels of a GPU, None where there is none."""
    if not (is_torch(odds.E) and odds.E.is_cuda):
        return None
    try:
        from . import _odds_triton
    except ImportError:
        return None
    return _odds_triton if _odds_triton.can_sweep(odds) else None


def _propagate(method, machine, start, log_partition, pairs):
    """Return the result of sweeps from a start, by default the fields."""
    odds = Odds(machine.weights[0], method.product, machine.largest[0])
    fields = _Fields(*fields_of(machine))
    start, n = fields.start() if start is None else start, fields.hidden.shape[0]
    size = odds.E.shape[0] * odds.E.shape[1]
    if is_foreign(odds.E):  # all rows in one array, as far as memory allows
        n_parts = n_jobs = 1
        together = _ELEMENTS // size
    else:
        n_parts = min(_N_PARTS, n, -(-n * size // _MIN_PART))
        n_jobs = n_threads()
        # One thread works best on what its cache holds, and several on longer operations.
        block = (_SHARED if n_jobs > 1 else BLOCK) // min(size, BLOCK)
        together = min(block, _MAX_TOGETHER // size)
    parts, found = [np.arange(i, n, n_parts) for i in range(n_parts)], [None] * n_parts

    def run(numbers):
        sweeps = _Sweeps(method, odds, machine.dtype, max(1, min(len(parts[0]), together)))
        for i in numbers:
            found[i] = sweeps.solved(fields, start, parts[i], log_partition, pairs)

    share(run, [range(i, n_parts, n_jobs) for i in range(min(n_jobs, n_parts))])
    result = joined(found, parts)
    return result._replace(pairs=cast(result.pairs, machine.dtype)) if pairs else result


class _Sweeps(FixedPoint):
    """Sweeps over the messages of a few rows, for one thread; in place with NumPy and by kernels.

    A state has both layers in one array: ``means`` and ``beliefs`` are tuples of one. In place the
    messages of the old state are lost. So a step damps itself, and the driver must not.
    """

    def __init__(self, method, odds, dtype, n_rows):
        self.method, self.odds, self.dtype, self.n_rows = method, odds, dtype, n_rows
        self.xp, self.is_foreign = namespace(odds.E), is_foreign(odds.E)
        self.kernels = kernels_for(odds)
        if not self.is_foreign:
            self.buffer = odds.empty(n_rows, *odds.E.shape)
            self.scratch = odds.scratch(n_rows)

    def solved(self, fields, start, rows, log_partition, pairs):
        """Return the result for the rows at an index array, a few at a time."""
        found, order, tol = [], [], self.method.tol
        for i in range(0, len(rows), self.n_rows):
            some = rows[i : i + self.n_rows]
            block = fields.rows(some)
            first = self.state_at(block, _at(start, some))
            finished = finished_rows(self, block, first, self.method.max_iter, tol, damping=0)
            for index, state, n_iter, residual in finished:
                part = block.rows(index)
                log_z, joint = self._sums(part, state, log_partition, pairs)
                if pairs and found:  # many are summed in float64
                    joint = cast(joint, self.xp.float64)
                beliefs = cast(state.beliefs[0], self.dtype)
                n, n_iter = part.visible.shape[1], to_numpy(n_iter).astype(np.int64)
                residual = to_numpy(residual)
                numbers = n_iter, residual, residual <= tol
                found.append(Propagated(beliefs[:, :n], beliefs[:, n:], *numbers, log_z, joint))
                order.append(some[index])
        return joined(found, order)

    def state_at(self, fields, first):
        if self.kernels is not None:
            return self.kernels.started(*first)
        visible, hidden, means = first
        out = None if self.is_foreign else self.buffer[: len(means)]
        R, concat = self.odds.of_means(means, out=out), self.xp.concat
        means = concat([sigmoid(visible), means], axis=1)
        return Messages((means,), (None,), R, (concat([visible, hidden], axis=1),))

    def step(self, fields, state):
        (b, c), (old,), keep = fields, state.beliefs, self.method.damping
        visible, R = old[:, : b.shape[1]], state.odds
        if not self.is_foreign:
            new = self.odds.sweep_in_place(R, visible, b, c, keep, self.scratch)
        else:
            sent, *new = self.odds.sweep(R, visible, b, c)
            R = keep * R + (1 - keep) * sent if keep else sent
        new = self.xp.concat([*new], axis=1)
        means = sigmoid(new)
        if keep:
            means = keep * state.means[0] + (1 - keep) * means
            new = keep * old + (1 - keep) * new
        return Messages((means,), (None,), R, (new,))

    def swept(self, fields, state, n_sweeps, tol, damping):
        if self.kernels is None:
            return super().swept(fields, state, n_sweeps, tol, damping)
        options = n_sweeps, float(tol), float(self.method.damping)
        return self.kernels.swept(self.odds, state, *fields, *options)

    def residual(self, old, new):
        change = new.means[0] - old.means[0]
        moved = belief_change(old.beliefs[0], new.beliefs[0])
        return self.xp.maximum(self.xp.mean(change * change, axis=1), moved)

    def _sums(self, fields, state, log_partition, pairs):
        """Return log Z of each row and the sum of E[h v], each None if not wanted."""
        (b, c), (beliefs,), R = fields, state.beliefs, state.odds
        visible, hidden = beliefs[:, : b.shape[1]], beliefs[:, b.shape[1] :]
        log_z = self.odds.log_partition(R, visible, b, c) if log_partition else None
        if not pairs:
            return log_z, None
        if self.kernels is None or self.method.product != "sum":
            return log_z, self.odds.pairs(R, visible, hidden, c)
        return log_z, self.kernels.pairs(self.odds, R, beliefs)


def sum_classes(method, machine, *, log_partition=False, pairs=False):
    """Sum, or maximise, over the classes of one label and the hidden units, exactly.

    Each row is p(k, h) ∝ exp(h' W[:, k] + b[k] + c' h). Given the class k the binary hidden units
    are independent: the graph is a star, and no iteration is needed. Only ``product`` of the method
    is used. ``visible`` of the result is the logarithm of the probability of each class ("sum" and
    "mixed"), or of the largest weight with that class ("max").
    """
    n, W = machine.thetas[0].field.shape[0], machine.weights[0]
    xp, values, label = namespace(W), PRODUCTS[method.product].hidden, Categorical()
    size, found = max(1, _CLASS_ELEMENTS // max(1, W.shape[0] * W.shape[1])), []
    for start in range(0, n, size):
        rows = machine.rows(slice(start, min(start + size, n)))
        b, c = (theta.field for theta in rows.thetas)
        fields = c[:, None, :] + W.T[None, :, :]  # of the hidden units given each class
        weights = cast(b, xp.float64) + row_sums(values.total(fields))
        log_z = label.log_partition(Theta(weights))[:, 0]
        logits = cast(weights - log_z[:, None], W.dtype)
        if method.product == "sum":
            means, class_means = values.mean(fields), label.mean(Theta(logits))
            joint = class_means[:, :, None] * means
            hidden = log_odds(xp.sum(joint, axis=1), _FARTHEST_CLASS)
            joint = xp.sum(joint, axis=0).T
        else:
            best = label.mode(Theta(logits))
            hidden = c + best @ W.T
            joint, log_z = values.mean(hidden).T @ best, xp.max(weights, axis=1)
        exact = np.ones(b.shape[0], int), np.zeros(b.shape[0]), np.ones(b.shape[0], bool)
        log_z, joint = log_z if log_partition else None, joint if pairs else None
        found.append(Propagated(logits, hidden, *exact, log_z, joint))
    return joined(found)
