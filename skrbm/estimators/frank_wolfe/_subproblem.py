"""What one more hidden unit is worth: the linear subproblem of Frank-Wolfe, and its line search.

An *atom* is the weights of a hidden unit and its bias, which is the weight of a visible unit that
is always 1: an array of shape (n_visible + 1,), the bias last. Atoms are NumPy arrays of float64,
since they are few; what has a row for each sample stays in its own library and dtype.
"""

import numpy as np
import scipy.sparse as sp
from scipy.optimize import brentq

from ...arrays import cast, from_numpy, matmul, namespace, row_blocks, to_numpy, working_dtype
from ._lbfgs import minimise

_BLOCK_ELEMENTS = 2**21  # of a block of dense rows, which stays in a cache for both products
_SPARSE_BELOW = 0.25  # density at which products with a sparse copy are faster
_WORTH_A_COPY = 2**20  # elements


class Rows:
    """Rows of visible values that stand for a law, as products with atoms need them.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_rows, n_visible)
        Of any dtype; products are in float32 or float64, whichever X has or becomes.
    weights : ndarray of shape (n_rows,), default=None
        Probabilities of the rows, which sum to one; default: each 1 / n_rows.
    """

    def __init__(self, X, weights=None):
        self.n, self.weights, self.dtype = X.shape[0], weights, working_dtype(X)
        if isinstance(X, np.ndarray) and X.size >= _WORTH_A_COPY:
            if np.count_nonzero(X) < _SPARSE_BELOW * X.size:
                X = sp.csr_array(X)
        self._X = X.astype(self.dtype, copy=False) if sp.issparse(X) else X

    def needs_no_atom(self):
        """Whether no atom can raise the likelihood: all rows are the same, or have one column.

        A law that has the means of such rows gives each softplus(w'v), which is convex, at least
        the mean that they give it.
        """
        if self._X.shape[1] == 1:
            return True
        if sp.issparse(self._X):
            return (self._X.max(axis=0) != self._X.min(axis=0)).nnz == 0
        return bool(namespace(self._X).all(self._X == self._X[:1, :]))

    def softplus_moments(self, atoms):
        """Return means of softplus(w'v) and of its derivative by w, for each atom.

        Parameters
        ----------
        atoms : ndarray of shape (n_atoms, n_visible + 1)

        Returns
        -------
        values : ndarray of shape (n_atoms,)
        slopes : ndarray of shape (n_atoms, n_visible + 1)
            Means of sigmoid(w'v) v.
        """
        values, slopes, start = np.zeros(len(atoms)), np.zeros_like(atoms), 0
        for block in self._blocks():
            value, slope = _softplus_and_slope(self._fields(block, atoms))
            if self.weights is not None:
                place = self.weights[start : start + block.shape[0], None]
                place = cast(from_numpy(place, slope), self.dtype)
                value, slope = value * place, slope * place
            sums = namespace(slope).sum
            values += to_numpy(sums(value, axis=0, dtype=namespace(slope).float64))
            slopes[:, :-1] += to_numpy(matmul(block.T, slope)).T
            slopes[:, -1] += to_numpy(sums(slope, axis=0, dtype=namespace(slope).float64))
            start += block.shape[0]
        scale = 1 / self.n if self.weights is None else 1.0
        return values * scale, slopes * scale

    def softplus(self, atoms):
        """Return softplus(w'v) of each row and atom, ndarray of shape (n_rows, n_atoms)."""
        if not len(atoms):
            return np.zeros((self.n, 0))
        parts = [
            to_numpy(_softplus_and_slope(self._fields(block, atoms))[0]) for block in self._blocks()
        ]
        return np.concatenate(parts).astype(np.float64)

    def mean(self, values):
        """Return the mean over the rows of values of shape (n_rows, ...), in float64."""
        if self.weights is None:
            return values.mean(axis=0, dtype=np.float64)
        return self.weights @ values

    def fields(self, atoms):
        """Return w'v of each row and atom, of shape (n_rows, n_atoms), in float64."""
        if not len(atoms):
            return np.zeros((self.n, 0))
        parts = [to_numpy(self._fields(block, atoms)) for block in self._blocks()]
        return np.concatenate(parts).astype(np.float64)

    def product(self, vector):
        """Return the inner product of each row with a vector, in float64."""
        return self.fields(np.append(vector, 0.0)[None])[:, 0]

    def regression(self, values):
        """Return the means of the columns and cov(values, v_i), each of shape (n_visible,)."""
        weights = np.full(self.n, 1 / self.n) if self.weights is None else self.weights
        columns = np.stack([weights, weights * (values - weights @ values)], axis=1)
        sums, start = 0.0, 0
        for block in self._blocks():
            part = columns[start : start + block.shape[0]]
            sums = sums + to_numpy(matmul(block.T, cast(from_numpy(part, block), self.dtype)))
            start += block.shape[0]
        return sums.T.astype(np.float64)

    def covariance(self):
        """Return the covariances of the columns, of shape (n_visible, n_visible), in float64."""
        total, mean, start = 0.0, 0.0, 0
        for block in self._blocks():
            weighted = block.T
            if self.weights is not None:
                part = cast(
                    from_numpy(self.weights[start : start + block.shape[0]], block), self.dtype
                )
                weighted = weighted.multiply(part) if sp.issparse(block) else weighted * part
            product = matmul(weighted, block.toarray() if sp.issparse(block) else block)
            total = total + to_numpy(product).astype(np.float64)
            sums = (
                weighted.sum(axis=1)
                if sp.issparse(block)
                else namespace(block).sum(weighted, axis=1)
            )
            mean = mean + np.asarray(to_numpy(sums), dtype=np.float64).ravel()
            start += block.shape[0]
        scale = 1 / self.n if self.weights is None else 1.0
        return scale * total - np.outer(scale * mean, scale * mean)

    def _blocks(self):
        if sp.issparse(self._X):
            return [self._X]
        size = max(64, _BLOCK_ELEMENTS // self._X.shape[1])
        return (cast(rows, self.dtype) for rows in row_blocks(self._X, size))

    def _fields(self, block, atoms):
        """Return w'v of each row of a block and each atom, beside the block."""
        W = atoms.T if sp.issparse(block) else from_numpy(atoms.T, block)
        W = cast(W, self.dtype)
        fields = matmul(block, W[:-1, :])
        fields += W[-1, :]
        return fields


def _softplus_and_slope(fields):
    xp = namespace(fields)
    small = xp.exp(-xp.abs(fields))
    value = xp.log1p(small)
    value += xp.maximum(fields, xp.zeros_like(fields))
    slope = 1 / (1 + small)
    return value, xp.where(fields >= 0, slope, 1 - slope)


class Subproblem:
    """The linear subproblem, Eq. (9) of Ping, Liu and Ihler (2016): what atom to insert.

    The objective, to be minimised, is minus phi(w) = mean_data softplus(w'v) -
    mean_model softplus(w'v) - alpha / 2 ||w||², the derivative of the penalised mean
    log-likelihood by the multiplicity of the atom w. All atoms are evaluated in one product.

    Parameters
    ----------
    data, model : Rows
    alpha : float
        Penalty.
    radius : float or None
        Largest norm of an atom.
    """

    def __init__(self, data, model, alpha, radius=None):
        self.data, self.model, self.alpha, self.radius = data, model, alpha, radius

    def __call__(self, atoms):
        """Return the values and the gradients of the objective at atoms."""
        value, slope = self.model.softplus_moments(atoms)
        data_value, data_slope = self.data.softplus_moments(atoms)
        penalty = 0.5 * np.sum(self.alpha * atoms * atoms, axis=1)
        return value - data_value + penalty, slope - data_slope + self.alpha * atoms

    def solve(self, starts, **options):
        """Return the atoms that the starts lead to, and their values, the best first."""
        if self.radius is None:
            atoms, values = minimise(self, starts, **options)
        else:
            atoms, values = self._solve_in_ball(starts, **options)
        order = np.argsort(values)
        return atoms[order], values[order]

    def _solve_in_ball(self, starts, **options):
        """Minimise over the projection into the ball, which is onto and keeps the interior.

        Outside, the composition does not see that the way inward may lead down. So what ended on
        the sphere starts again a little below it.
        """
        points, values = self._projected(starts, 1.0), None
        for _ in range(2):
            points, values = minimise(self._in_ball, 0.999 * points, **options)
            points = self._projected(points, 1.0)
        return points, values

    def _projected(self, points, most):
        norms = np.linalg.norm(points, axis=1, keepdims=True)
        return points * np.minimum(1, most * self.radius / np.maximum(norms, 1e-300))

    def _in_ball(self, points):
        atoms = self._projected(points, 1.0)
        values, gradients = self(atoms)
        norms = np.linalg.norm(points, axis=1, keepdims=True)
        outside = norms > self.radius
        unit = points / np.maximum(norms, 1e-300)
        radial = np.einsum("ij,ij->i", gradients, unit)[:, None] * unit
        scaled = (gradients - radial) * self.radius / np.maximum(norms, 1e-300)
        return values, np.where(outside, scaled, gradients)


def log_mean_exp(values, weights=None):
    """Return log of the mean of exp(values) over rows, weighted if wanted."""
    top = values.max()
    e = np.exp(values - top)
    return float(top + np.log(e.mean() if weights is None else weights @ e))


def effective_part(log_weights, weights=None):
    """Return the part of the rows that importance weights leave effective, in (0, 1]."""
    double = log_mean_exp(2 * log_weights, weights)
    return float(np.exp(2 * log_mean_exp(log_weights, weights) - double))


def gain_of_step(step, slope, change, weights=None):
    """Return by how much a step raises the penalised mean log-likelihood.

    The model's log-weights change by step * change(v), and the mean over the data, penalty
    included, by step * slope; log Z changes by log E_model exp(step * change), over the rows that
    stand for the model: exact if these are all configurations with their probabilities, and else
    by importance weights.
    """
    return step * slope - log_mean_exp(step * change, weights)


def best_step(slope, change, weights=None, *, low=0.0, high=1.0, least_ess=0.0):
    """Return the step in [low, high] that raises :func:`gain_of_step` most, a concave function.

    Parameters
    ----------
    slope : float
    change : ndarray of shape (n_rows,)
    weights : ndarray of shape (n_rows,), default=None
        Probabilities of the rows; default: each 1 / n_rows.
    low, high : float
        ``low <= 0 <= high``.
    least_ess : float in [0, 1)
        Least effective part of the rows that importance weights leave; bounds the step.

    Returns
    -------
    step : float
    is_bound : bool
        Whether ``least_ess`` alone keeps it from being longer.
    """

    def derivative(step):
        p = np.exp(step * change - (step * change).max())
        p = p if weights is None else p * weights
        return slope - (p @ change) / p.sum()

    def ess(step):
        return effective_part(step * change, weights) - least_ess

    least, most = low, high
    if least_ess and ess(low) < 0:
        least = brentq(ess, 0, low, xtol=1e-6 * abs(low))
    if least_ess and ess(high) < 0:
        most = brentq(ess, 0, high, xtol=1e-6 * high)
    if derivative(most) >= 0:
        return float(most), most < high
    if derivative(least) <= 0:
        return float(least), least > low
    return float(brentq(derivative, least, most, xtol=1e-12, rtol=1e-10)), False
