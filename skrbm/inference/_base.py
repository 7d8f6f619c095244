"""The contracts of inference: fixed points, samplers, and the drivers that run them."""

from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from .._checks import check_count
from ..arrays import cast, from_numpy, namespace, to_numpy
from ..machine import condition, data_moments

_STAGES = ((0.0, 500), (0.5, 2000), (0.9, 500))  # dampings of evaluation, and sweeps at most


def map_rows(function, *states):
    """Apply ``function`` to each array leaf of states of one structure; None stays None."""
    first = states[0]
    if first is None:
        return None
    if isinstance(first, tuple):
        parts = [map_rows(function, *leaves) for leaves in zip(*states, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
    return function(*states)


class Magnetizations(NamedTuple):
    """State of a fixed point: means and variances for each layer, rows first."""

    means: tuple
    variances: tuple


class Chains(NamedTuple):
    """State of a sampler: the values of each layer, a chain in each row."""

    layers: tuple


class Solution(NamedTuple):
    """What :func:`solve` returns.

    ``n_iter``, ``residual`` (float64) and ``converged`` are given for each row.
    """

    state: Any
    n_iter: Any
    residual: Any
    converged: Any


class Method:
    """How the machine's own moments are found, in learning: the model phase.

    ``init`` makes the first state, and ``phases`` turns a batch of data and a state into the next
    state and the two sets of moments whose difference is the gradient.
    """

    @property
    def kind(self):
        """What the structure of the state depends on: a method goes on from one of its kind."""
        return (type(self),)

    def init(self, machine, rng, n, X):
        """Return the first state, with ``n`` rows; X holds rows of data to start from."""
        raise NotImplementedError

    def phases(self, machine, state, X, rng):
        """Return (state, data moments, model moments) for the batch X."""
        data = data_moments(machine, X)
        state = self.advance(machine, state, X, rng)
        return state, data, self.moments(machine, state)

    def advance(self, machine, state, X, rng):
        """Return the next state."""
        raise NotImplementedError

    def moments(self, machine, state):
        """Return the machine's expected sufficient statistics at a state."""
        raise NotImplementedError

    def visible(self, state):
        """Return the visible values of a state, of shape (n_rows, n_visible)."""
        raise NotImplementedError

    def kept(self, state):
        """Return what a fit goes on from later: the state without what can be made anew."""
        return state

    def report(self, state):
        """Return numbers about the state for the history of a fit, a dict of floats."""
        return {}


class FixedPoint:
    """Deterministic inference: a map whose fixed points are the marginals.

    Subclasses are frozen dataclasses of hyper-parameters with at least ``max_iter``, ``tol`` and
    ``damping``; every array leaf of a state has rows first.
    """

    def check(self, machine):
        """Raise ValueError if the method does not apply to the machine."""

    def check_marginals(self):
        """Raise ValueError if what it finds, from any visible values, is not marginals."""

    def start(self, machine, X):
        """Return the state that starts at visible values X."""
        raise NotImplementedError

    def step(self, machine, state):
        """Return the state after one sweep over the layers."""
        raise NotImplementedError

    def hold(self, machine, state, values, held):
        """Return the state with visible units at known values where ``held``, without variance.

        A method whose state has more than means and variances puts those parts right as well.
        """
        xp = namespace(values)
        mean, variance = state.means[0], state.variances[0]
        if variance is not None:
            variance = xp.where(held, xp.zeros_like(variance), variance)
        return state._replace(
            means=(xp.where(held, values, mean), *state.means[1:]),
            variances=(variance, *state.variances[1:]),
        )

    def residual(self, old, new):
        """Return how far from a solution each row is, after a sweep: float64, of NumPy.

        The mean squared change of the means; a method adds whatever else a solution must not have.
        """
        return _squared_change(old, new)

    def log_partition(self, machine, state):
        """Return minus the free energy at each row of a state, in float64."""
        raise NotImplementedError

    def moments(self, machine, state):
        """Return the machine's expected sufficient statistics, averaged over the rows."""
        raise NotImplementedError


def check_iteration(method):
    """Raise ValueError unless a fixed point's ``max_iter``, ``tol`` and ``damping`` make sense."""
    check_count("max_iter", method.max_iter, 1)
    if not isinstance(method.tol, Real) or not method.tol >= 0:
        raise ValueError(f"tol must be a number >= 0, got {method.tol!r}")
    if not isinstance(method.damping, Real) or not 0 <= method.damping < 1:
        raise ValueError(f"damping must be a number in [0, 1), got {method.damping!r}")


def check_precision(machine):
    """Raise ValueError if a unit takes no precision, for methods that tilt units by one."""
    if not all(unit.takes_precision for unit in machine.units):
        raise ValueError(
            "this method needs units that take a precision, and units that count in part do not; "
            "use AIS ('ais') or the exact sums, or to_bernoulli_rbm(rounding='absorb') first"
        )


class Sampler(Method):
    """Inference by a Markov chain for each row.

    Subclasses give ``step(machine, state, rng) -> (state, info)``. Those that have a step size give
    it as ``step_size``, and ``sized`` and ``tuned`` change it.
    """

    n_steps = 1
    step_size = None
    target_acceptance = None

    def check(self, machine):
        """Raise ValueError if the sampler does not apply to the machine."""

    def at(self, step, n_steps):
        """Return the sampler that makes a step of a run, counted from 0, of ``n_steps``."""
        return self

    def sized(self, step_size):
        """Return the sampler with another step size."""
        return self

    def tuned(self, acceptance, gain):
        """Return the sampler with a step size nearer to the target of its rate of acceptance."""
        return self

    def start(self, machine, X, rng):
        """Return chains whose visible values are X."""
        raise NotImplementedError

    def resumed(self, machine, state):
        """Return a state whose chains go on in a machine that has changed since."""
        return state

    def ends_with_hidden_draw(self, machine):
        """Whether a step ends with a draw of the hidden units from their exact conditional.

        Learning then leaves out the last draw, and shares the conditional's product.
        """
        return False

    def hidden_theta(self, machine, state):
        """Return the parameters of the first hidden layer given a state's visible values."""
        return condition(machine, state.layers[0])

    def step(self, machine, state, rng):
        """Return the state after one sweep over the layers, and numbers about it.

        The numbers are arrays with an entry for each row, by name.
        """
        raise NotImplementedError

    def advance(self, machine, state, X, rng):
        return sample(self, machine, state, rng, self.n_steps)


def sample(method, machine, state, rng, n_steps, *, callback=None):
    """Run ``n_steps`` sweeps of a sampler.

    ``callback``, if given, is called as ``callback(step, state, info)`` after each, with steps
    counted from 1.
    """
    for step in range(n_steps):
        state, info = method.at(step, n_steps).step(machine, state, rng)
        if callback is not None:
            callback(step + 1, state, info)
    return state


def solve(method, machine, state, *, max_iter=None, tol=None, damping=None, callback=None):
    """Iterate a fixed point until each row has converged.

    Rows that have converged leave the active set at once, so that the slowest row costs one row.

    Parameters
    ----------
    method : FixedPoint
    machine : Machine
        If its units have parameters for each row, they are those of the rows of the state.
    state : NamedTuple
        Where to start; every array leaf has rows first.
    max_iter, tol, damping : optional
        In place of the method's own. A row has converged when its residual, the mean squared
        change of its means in one sweep and what the method adds, is at most ``tol``; the new
        state is ``damping`` times the old plus (1 - damping) times what the map gives.
    callback : callable, optional
        Called as ``callback(iteration, state, rows)`` with the active rows after each sweep.

    Returns
    -------
    Solution
    """
    max_iter = method.max_iter if max_iter is None else max_iter
    tol = method.tol if tol is None else tol
    damping = method.damping if damping is None else damping
    rows = np.arange(state.means[0].shape[0])
    finished = []
    residual = np.full(rows.size, np.inf)
    for iteration in range(1, max_iter + 1):
        new = method.step(machine, state)
        if damping:
            new = map_rows(lambda b, a: damping * a + (1 - damping) * b, new, state)
        residual = method.residual(state, new)
        state = new
        if callback is not None:
            callback(iteration, state, rows)
        done = residual <= tol
        if done.any() and iteration < max_iter:
            index = from_numpy(np.flatnonzero(~done), state.means[0])
            state, rows, residual = _compact(finished, state, rows, residual, done, iteration)
            if not rows.size:
                break
            machine = machine.rows(index)
    if rows.size:
        finished.append((state, rows, np.full(rows.size, max_iter), residual))
    return _gather(finished, tol)


def settle(method, machine, state, *, tol=1e-12):
    """Iterate a fixed point to convergence, for evaluation.

    Sweeps are those of the method at first. What is left after them mostly jumps back and forth
    between two states, and goes on with more damping, which moves no fixed point.

    Parameters
    ----------
    method : FixedPoint
    machine : Machine
    state : NamedTuple
        Where to start; every array leaf has rows first.
    tol : float, default=1e-12
        Largest mean squared change of the means in a sweep without damping, if the method's own
        is not smaller.

    Returns
    -------
    Solution
        ``residual`` is that of a sweep without damping, at the state before the last sweep.
    """
    tol, rows, n_iter, finished = min(tol, method.tol), np.arange(state.means[0].shape[0]), 0, []
    for damping, max_iter in _STAGES:
        damping = max(damping, method.damping)
        most, change = max(max_iter, method.max_iter), tol * (1 - damping) ** 2
        state, n_more, residual, converged = solve(
            method, machine, state, max_iter=most, tol=change, damping=damping
        )
        if damping:  # variances lag behind the means, whose change alone is looked at
            new = method.step(machine, state)
            state, residual = new, method.residual(state, new)
            converged = residual <= tol
        n_iter = n_iter + n_more
        done, left = np.flatnonzero(converged), np.flatnonzero(~converged)
        finished.append((take_rows(state, done), rows[done], n_iter[done], residual[done]))
        if not left.size:
            break
        machine = machine.rows(from_numpy(left, state.means[0]))
        state, rows, n_iter = take_rows(state, left), rows[left], n_iter[left]
    else:
        finished.append((state, rows, n_iter, residual[left]))
    return _gather(finished, tol)


def take_rows(state, index):
    """Return the rows of a state at a NumPy index array."""
    index = from_numpy(index, state.means[0])
    return map_rows(lambda leaf: namespace(leaf).take(leaf, index, axis=0), state)


def _squared_change(old, new):
    """Mean squared change of the means of each row, a float64 NumPy array."""
    total, n_units = 0.0, 0
    for a, b in zip(old.means, new.means, strict=True):
        change, xp = b - a, namespace(a)
        total = total + cast(xp.vecdot(change, change), xp.float64)
        n_units += a.shape[1]
    return to_numpy(total) / n_units


def _compact(finished, state, rows, residual, done, iteration):
    """Move the rows that are done to ``finished``; return what is left."""
    done, left = np.flatnonzero(done), np.flatnonzero(~done)
    n_iter = np.full(done.size, iteration)
    finished.append((take_rows(state, done), rows[done], n_iter, residual[done]))
    return take_rows(state, left), rows[left], residual[left]


def _gather(finished, tol):
    """Put the pieces back into the order of the rows."""
    states, rows, n_iter, residual = zip(*finished, strict=True)
    order = np.argsort(np.concatenate(rows))
    index = from_numpy(order, states[0].means[0])

    def join(*leaves):
        xp = namespace(leaves[0])
        return xp.take(xp.concat(leaves, axis=0), index, axis=0)

    state = map_rows(join, *states) if len(finished) > 1 else finished[0][0]
    residual = np.concatenate(residual)[order]
    return Solution(state, np.concatenate(n_iter)[order], residual, residual <= tol)
