"""Limited-memory BFGS for many starts of one function at once."""

import numpy as np

_MEMORY = 8
_ARMIJO, _CURVATURE = 1e-4, 0.9
_MOST_TRIALS = 25


def minimise(function, x, *, max_iter=100, tol=1e-5, ftol=1e-9):
    """Minimise a function from several starts, each by L-BFGS of its own.

    All starts are evaluated in one call, so that their matrix products are one, and leave it when
    they are done.

    Parameters
    ----------
    function : callable
        ``function(x) -> (values, gradients)`` for rows x of shape (n_rows, n), float64.
    x : ndarray of shape (n_starts, n)
    max_iter : int, default=100
        Most iterations of each start.
    tol : float, default=1e-5
        A start is done when no entry of its gradient is larger ...
    ftol : float, default=1e-9
        ... or its value falls by less than this part of itself (or of 1) in two steps.

    Returns
    -------
    x : ndarray of shape (n_starts, n)
    values : ndarray of shape (n_starts,)
    """
    best = np.array(x, dtype=np.float64)
    values, gradients = function(best)
    rows = np.arange(len(best))  # of those that are not done
    now = _State(best, values, gradients)
    values = values.copy()
    left = np.abs(gradients).max(axis=1) > tol
    for _ in range(max_iter):
        now, rows = now.take(left), rows[left]
        if not rows.size:
            break
        new, moved = _line_search(function, now, now.direction())
        fall = now.value - new.value
        now.remember(new)
        best[rows], values[rows] = now.x, now.value
        small = fall <= ftol * np.maximum(1, np.abs(now.value))
        left = (np.abs(now.gradient).max(axis=1) > tol) & moved & ~(small & now.was_small)
        now.was_small = small
    return best, values


class _Point:
    def __init__(self, x, value, gradient):
        self.x, self.value, self.gradient = x, value, gradient


class _State(_Point):
    """Where the starts are, and the last pairs of steps and changes of the gradient."""

    def __init__(self, x, value, gradient, pairs=()):
        super().__init__(x, value, gradient)
        self.pairs = list(pairs)  # of (step, change, 1 / (step . change)), the latter 0 if unfit
        self.was_small = np.zeros(len(x), dtype=bool)

    def take(self, left):
        if left.all():
            return self
        pairs = [tuple(part[left] for part in pair) for pair in self.pairs]
        state = _State(self.x[left], self.value[left], self.gradient[left], pairs)
        state.was_small = self.was_small[left]
        return state

    def direction(self):
        """Return minus the gradient times the approximate inverse Hessian: the two loops."""
        q, factors = self.gradient.copy(), []
        for step, change, rho in reversed(self.pairs):
            factor = rho * _dots(step, q)
            q -= factor[:, None] * change
            factors.append(factor)
        q *= self._scale()[:, None]
        for (step, change, rho), factor in zip(self.pairs, reversed(factors), strict=True):
            q += (factor - rho * _dots(change, q))[:, None] * step
        # Rounding may have spoilt it: then straight down.
        bad = ~(_dots(q, self.gradient) > 0)
        q[bad] = self.gradient[bad]
        return -q

    def _scale(self):
        """Size of the inverse Hessian, by the last fit pair; a step of length 1 before there is."""
        scale = 1 / np.maximum(1, np.linalg.norm(self.gradient, axis=1))
        for step, change, rho in self.pairs:
            scale = np.where(
                rho > 0, _dots(step, change) / _dots(change, change).clip(1e-300), scale
            )
        return scale

    def remember(self, new):
        step, change = new.x - self.x, new.gradient - self.gradient
        product = _dots(step, change)
        fit = product > 1e-10 * np.sqrt(_dots(step, step) * _dots(change, change))
        rho = np.where(fit, 1 / np.where(fit, product, 1), 0)
        self.pairs = [*self.pairs, (step, change, rho)][-_MEMORY:]
        self.x, self.value, self.gradient = new.x, new.value, new.gradient


def _line_search(function, now, direction):
    """Return the points at the weak Wolfe conditions, found by bisection, and which ones moved.

    Where the conditions cannot be met, to rounding, the best point seen is taken.
    """
    slope = _dots(now.gradient, direction)
    low, high = np.zeros_like(slope), np.full_like(slope, np.inf)
    length = np.ones_like(slope)
    best = _Point(now.x.copy(), now.value.copy(), now.gradient.copy())
    active = np.arange(slope.size)
    for _ in range(_MOST_TRIALS):
        x = now.x[active] + length[active, None] * direction[active]
        value, gradient = function(x)
        steep = ~(value <= now.value[active] + _ARMIJO * length[active] * slope[active])
        flat = _dots(gradient, direction[active]) < _CURVATURE * slope[active]
        better = value < best.value[active]
        which = active[better]
        best.x[which], best.value[which] = x[better], value[better]
        best.gradient[which] = gradient[better]
        high[active[steep]] = length[active[steep]]
        short = ~steep & flat
        low[active[short]] = length[active[short]]
        active = active[steep | short]
        if not active.size:
            break
        middle = 0.5 * (low[active] + high[active])
        length[active] = np.where(np.isinf(high[active]), 2 * length[active], middle)
    return best, best.value < now.value


def _dots(a, b):
    return np.einsum("ij,ij->i", a, b)
