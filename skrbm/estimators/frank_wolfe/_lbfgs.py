"""Limited-memory BFGS for many starts of one function at once."""

import numpy as np

_MEMORY = 8
_ARMIJO, _CURVATURE = 1e-4, 0.9
_MOST_TRIALS = 25


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # infinite slopes end a search
def minimise(function, x, *, max_iter=100, tol=1e-5, ftol=1e-9):
    """Minimise a function from several starts, each by L-BFGS of its own.

    All starts are evaluated in one call, so that their matrix products are one: each is at a trial
    of its own line search, and leaves the others when it is done.

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
        ... or its value falls by less than this part of itself (or of 1) in two iterations.

    Returns
    -------
    x : ndarray of shape (n_starts, n)
    values : ndarray of shape (n_starts,)
    """
    found = np.array(x, dtype=np.float64)
    value, gradient = function(found)
    values = np.array(value)
    now = _Descents(np.arange(len(found)), found.copy(), value, gradient)
    now = now.take(max_iter > 0 and now.largest_slopes() > tol)
    while now.rows.size:
        now.look(*now.trial(function))
        found[now.rows], values[now.rows] = now.x, now.value
        left = (now.n_iter < max_iter) & (now.largest_slopes() > tol) & ~now.is_done(ftol)
        now = now.take(left)
    return found, values


class _Descents:
    """Where the starts are, each in a line search of its own; arrays have a row for each.

    A line search bisects for the weak Wolfe conditions. Where they cannot be met, to rounding, the
    best point seen is taken.
    """

    def __init__(self, rows, x, value, gradient):
        n, d = x.shape
        self.rows, self.x, self.value, self.gradient = rows, x, value, gradient
        self.steps, self.changes = np.zeros((n, _MEMORY, d)), np.zeros((n, _MEMORY, d))
        self.rho = np.zeros((n, _MEMORY))  # 1 / (step . change), or 0 of a pair that is unfit
        self.scale = 1 / np.maximum(1, np.linalg.norm(gradient, axis=1))  # of the inverse Hessian
        self.n_iter, self.n_trials = np.zeros(n, dtype=int), np.zeros(n, dtype=int)
        self.fall, self.last_fall = np.full(n, np.inf), np.full(n, np.inf)
        self.direction, self.slope = np.zeros((n, d)), np.zeros(n)
        self.length, self.low, self.high = np.zeros(n), np.zeros(n), np.zeros(n)
        self.best_x, self.best_value, self.best_gradient = x.copy(), value.copy(), gradient.copy()
        self._begin(np.arange(n))

    def take(self, left):
        if np.all(left):
            return self
        part = object.__new__(_Descents)
        part.__dict__ = {name: array[left] for name, array in vars(self).items()}
        return part

    def largest_slopes(self):
        return np.abs(self.gradient).max(axis=1)

    def is_done(self, ftol):
        """Return whether two iterations in a row have gained next to nothing."""
        least = ftol * np.maximum(1, np.abs(self.value))
        return (self.fall <= 0) | ((self.fall <= least) & (self.last_fall <= least))

    def trial(self, function):
        x = self.x + self.length[:, None] * self.direction
        return x, *function(x)

    def look(self, x, value, gradient):
        """Look at trials: narrow the brackets, or go there and begin another line search."""
        better = value < self.best_value
        self.best_x[better], self.best_value[better] = x[better], value[better]
        self.best_gradient[better] = gradient[better]
        steep = ~(value <= self.value + _ARMIJO * self.length * self.slope)
        short = ~steep & (_dots(gradient, self.direction) < _CURVATURE * self.slope)
        self.high[steep], self.low[short] = self.length[steep], self.length[short]
        bracketed = np.isfinite(self.high)
        middle = 0.5 * (self.low + np.where(bracketed, self.high, 0))
        self.length = np.where(bracketed, middle, 2 * self.length)
        self.n_trials += 1
        ended = np.flatnonzero(~(steep | short) | (self.n_trials >= _MOST_TRIALS))
        if ended.size:
            self._move(ended)
            self._begin(ended)

    def _move(self, k):
        """Go to the best points of line searches, and remember the steps."""
        step, change = self.best_x[k] - self.x[k], self.best_gradient[k] - self.gradient[k]
        product, square = _dots(step, change), _dots(change, change)
        fit = product > 1e-10 * np.sqrt(_dots(step, step) * square)
        for memory, new in ((self.steps, step), (self.changes, change)):
            memory[k, 1:] = memory[k, :-1]
            memory[k, 0] = new
        self.rho[k, 1:] = self.rho[k, :-1]
        self.rho[k, 0] = np.where(fit, 1 / np.where(fit, product, 1), 0)
        self.scale[k] = np.where(fit, product / np.where(fit, square, 1), self.scale[k])
        self.last_fall[k], self.fall[k] = self.fall[k], self.value[k] - self.best_value[k]
        self.x[k], self.value[k] = self.best_x[k], self.best_value[k]
        self.gradient[k] = self.best_gradient[k]
        self.n_iter[k] += 1

    def _begin(self, k):
        """Begin line searches."""
        direction = self._direction(k)
        self.direction[k], self.slope[k] = direction, _dots(self.gradient[k], direction)
        self.length[k], self.low[k], self.high[k], self.n_trials[k] = 1.0, 0.0, np.inf, 0

    def _direction(self, k):
        """Return minus the gradient times the approximate inverse Hessian: the two loops."""
        gradient, rho = self.gradient[k], self.rho[k]
        steps, changes, factors = self.steps[k], self.changes[k], []
        q = gradient.copy()
        for m in range(_MEMORY):
            factors.append(rho[:, m] * _dots(steps[:, m], q))
            q -= factors[m][:, None] * changes[:, m]
        q *= self.scale[k, None]
        for m in reversed(range(_MEMORY)):
            q += (factors[m] - rho[:, m] * _dots(changes[:, m], q))[:, None] * steps[:, m]
        # Rounding may have spoilt it: then straight down.
        bad = ~(_dots(q, gradient) > 0)
        q[bad] = gradient[bad]
        return -q


def _dots(a, b):
    return np.einsum("ij,ij->i", a, b)
