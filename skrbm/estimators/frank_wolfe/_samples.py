"""Averages over rows, and the rows that stand for a machine's distribution: chains, or all."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor
from scipy.optimize import brentq

from ...arrays import (
    cast,
    dense_rows,
    from_numpy,
    log_sum_exp,
    matmul,
    namespace,
    softplus,
    to_numpy,
    working_dtype,
)
from ...inference import Gibbs, resampled, sample
from ...machine import configurations
from ...units import Bernoulli
from ._mixture import Mixture, machine_of

_BLOCK_ELEMENTS = 2**21  # of a block of dense rows, which stays in a cache for both products
_SPARSE_BELOW = 0.25  # density below which products with a sparse copy are faster
_WORTH_A_COPY = 2**20  # elements
_UNITS_AT_ONCE = 64  # bounds the temporary array of shape (n_rows, n_units)
_MIN_ESS = 0.5  # part of the samples that importance weights may not go below
_MIN_VARIANCE = 0.01  # of a visible unit, in steps of the biases
_RIDGE = 0.2  # in parts of the variances
_SWEEPS = 4  # at each temperature of an annealing
_MIN_RISE = 1e-3  # of the inverse temperature


class WeightedRows:
    """Rows of visible values with probabilities, and their averages.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_rows, n_visible)
        Of any dtype; products are in float32 or float64, whichever X has or becomes.
    weights : ndarray of shape (n_rows,), default=None
        Probabilities of the rows, which sum to one; default: each 1 / n_rows.
    """

    def __init__(self, X, weights=None):
        self.n, self.weights, self.dtype = X.shape[0], weights, working_dtype(X)
        self._scale = 1 / self.n if weights is None else 1.0
        if isinstance(X, np.ndarray) and X.size >= _WORTH_A_COPY:
            if np.count_nonzero(X) < _SPARSE_BELOW * X.size:
                X = sp.csr_array(X)
        self._X = X.astype(self.dtype, copy=False) if sp.issparse(X) else X

    def __getstate__(self):
        X = self._X.toarray() if sp.issparse(self._X) else self._X
        return {"X": X, "weights": self.weights}

    def __setstate__(self, state):
        self.__init__(**state)

    def need_no_unit(self):
        """Whether no unit can raise the likelihood: all rows are the same, or have one column.

        Each softplus(w'v) is convex. So its mean under a distribution with the column means of
        such rows is at least its mean over the rows.
        """
        if self._X.shape[1] == 1:
            return True
        if sp.issparse(self._X):
            return (self._X.max(axis=0) != self._X.min(axis=0)).nnz == 0
        return bool(namespace(self._X).all(self._X == self._X[:1, :]))

    def dense(self, index):
        """Return the rows at an index array, as a dense ndarray."""
        return to_numpy(dense_rows(self._X, from_numpy(index, self._X), self.dtype))

    def mean(self, values):
        """Return the mean over the rows of values of shape (n_rows, ...), in float64."""
        if self.weights is None:
            return values.mean(axis=0, dtype=np.float64)
        return self.weights @ values

    def log_mean_exp(self, values):
        """Return log of the mean of exp(values) over the rows."""
        largest = values.max()
        return float(largest + np.log(self.mean(np.exp(values - largest))))

    def effective_part(self, log_weights):
        """Return the part of the rows that importance weights leave effective, in (0, 1]."""
        square = 2 * self.log_mean_exp(log_weights)
        return float(np.exp(square - self.log_mean_exp(2 * log_weights)))

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
        values, slopes = np.zeros(len(atoms)), np.zeros_like(atoms)
        for block, weights in self._blocks(self.weights):
            value, slope = _softplus_and_slope(_fields(block, atoms))
            if weights is not None:
                value, slope = value * weights, slope * weights
            xp = namespace(slope)
            values += to_numpy(xp.sum(value, axis=0, dtype=xp.float64))
            slopes[:, :-1] += to_numpy(matmul(block.T, slope)).T
            slopes[:, -1] += to_numpy(xp.sum(slope, axis=0, dtype=xp.float64))
        return values * self._scale, slopes * self._scale

    def softplus_means(self, atoms):
        """Return the mean of softplus(w'v) for each atom."""
        starts = range(0, len(atoms), _UNITS_AT_ONCE)
        parts = [self.mean(self.softplus(atoms[k : k + _UNITS_AT_ONCE])) for k in starts]
        return np.concatenate([np.zeros(0), *parts])

    def softplus(self, atoms):
        """Return softplus(w'v) of each row and atom, of shape (n_rows, n_atoms), in float64."""
        return self.fields(atoms, softplus)

    def fields(self, atoms, function=lambda fields: fields):
        """Return a function of w'v of each row and atom, by default w'v itself, in float64."""
        parts = [to_numpy(function(_fields(block, atoms))) for block, _ in self._blocks()]
        return np.concatenate(parts).astype(np.float64)

    def product(self, vector):
        """Return the inner product of each row with a vector, in float64."""
        return self.fields(np.append(vector, 0.0)[None])[:, 0]

    def average(self, values=1.0):
        """Return the mean of values v, of shape (n_visible,); by default the column means."""
        weights = np.full(self.n, self._scale) * values
        if self.weights is not None:
            weights *= self.weights
        parts = (to_numpy(matmul(block.T, part)) for block, part in self._blocks(weights))
        return sum(parts, 0.0)[:, 0].astype(np.float64)

    def covariance(self):
        """Return the covariances of the columns, of shape (n_visible, n_visible), in float64."""
        total, means = 0.0, self.average()
        for block, weights in self._blocks(self.weights):
            dense = block.toarray() if sp.issparse(block) else block
            dense = dense if weights is None else dense * weights
            total = total + to_numpy(matmul(block.T, dense)).astype(np.float64)
        return self._scale * total - np.outer(means, means)

    def _blocks(self, column=None):
        """Yield blocks of rows, each with its part of a column of numbers, or None."""
        n, size = self.n, max(64, _BLOCK_ELEMENTS // self._X.shape[1])
        is_sparse = sp.issparse(self._X)
        for start in range(0, n, n if is_sparse else size):
            rows = slice(start, n if is_sparse else min(start + size, n))
            block = self._X if is_sparse else cast(self._X[rows, :], self.dtype)
            part = None if column is None else from_numpy(column[rows, None], block)
            yield block, None if part is None else cast(part, self.dtype)


def _fields(block, atoms):
    """Return w'v of each row of a block and each atom, in the block's library."""
    W = cast(atoms.T if sp.issparse(block) else from_numpy(atoms.T, block), block.dtype)
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


def covariance_factor(rows, variance):
    """Return a Cholesky factor of the covariances of rows with a ridge: how means answer to biases.

    Refits of the biases, and the shifts of the biases that go with a step, are Newton steps by it.
    The ridge, in parts of the variances of the rows or of ``variance``, keeps them short where
    samples are few or columns nearly constant.
    """
    covariance = rows.covariance()
    variance = np.maximum(np.maximum(np.diagonal(covariance), variance), _MIN_VARIANCE)
    covariance[np.diag_indices_from(covariance)] += _RIDGE * variance
    return cho_factor(covariance, overwrite_a=True)


class Samples(NamedTuple):
    """Two sets of samples of the machine: to learn from, and to evaluate what was learnt."""

    training: WeightedRows
    evaluation: WeightedRows


class SampledModel:
    """The machine's distribution by chains, in two sets.

    Units and biases are fitted to the training samples. What they change is estimated from the
    evaluation samples: fitting d biases to n samples overstates the gain on those samples by up to
    d / (2n) nats per refit.

    Parameters
    ----------
    sampler : Gibbs
    n_chains : int
        Of each set.
    like : array
        Whose library and dtype the chains have.
    rng : Rng
    """

    is_exact, min_ess = False, _MIN_ESS

    def __init__(self, sampler, n_chains, like, rng):
        self.sampler, self.n_chains, self.visible, self.rng = sampler, n_chains, like, rng

    def get_state(self):
        """Return what growth changes, a dict of attributes."""
        return {"visible": self.visible, "rng": self.rng}

    def anneal(self, mixture, bias):
        """Draw both sets anew, and return log Z.

        By sequential Monte Carlo from independent units with biases ``bias``: weights rise to
        those of the mixture, each time as far as importance weights reach. Chains that only go on
        do not find a mode that a new unit makes elsewhere, even if nearly all probability is there.
        """
        start = machine_of(Mixture((), np.zeros(0), bias), self.visible)
        self.visible = Gibbs().init(start, self.rng, 2 * self.n_chains, self.visible).layers[0]
        log_z = np.logaddexp(0, bias).sum() + np.log(2) * mixture.counts.sum()
        beta, shift = 0.0, mixture.bias - bias
        while beta < 1:
            rows = WeightedRows(self.visible)
            beta, log_weights = _raised(beta, mixture, shift, rows)
            log_z += rows.log_mean_exp(log_weights)
            drawn = self._resampled(self.visible, log_weights)
            order = self.rng.permutation(rows.n)  # both sets are then of all that was drawn
            self.visible = namespace(drawn).take(drawn, order, axis=0)
            partial = Mixture(beta * mixture.atoms, mixture.counts, bias + beta * shift)
            self.sweep(partial, _SWEEPS)
        return float(log_z)

    def sweep(self, mixture, n_sweeps=None):
        """Return both sets after more sweeps, by default as many as the sampler has."""
        machine = machine_of(mixture, self.visible)
        chains = self.sampler.start(machine, self.visible, self.rng)
        n_sweeps = self.sampler.n_steps if n_sweeps is None else n_sweeps
        self.visible = sample(self.sampler, machine, chains, self.rng, n_sweeps).layers[0]
        return Samples(
            WeightedRows(self.visible[: self.n_chains, :]),
            WeightedRows(self.visible[self.n_chains :, :]),
        )

    def resample(self, log_weights):
        """Resample both sets from the evaluation samples, by importance weights.

        So modes gain probability at once, without chains that cross from mode to mode. The
        training samples are given up, since the step was fitted to them. In the next sweep the two
        sets become different again.
        """
        evaluation = self.visible[self.n_chains :, :]
        both = [self._resampled(evaluation, log_weights) for _ in range(2)]
        self.visible = namespace(evaluation).concat(both, axis=0)

    def _resampled(self, rows, log_weights):
        weights = cast(from_numpy(log_weights, rows), namespace(rows).float64)
        return resampled(rows, weights, self.rng)

    def draws(self, mixture, bias, n, rng):
        """Return ``n`` draws from a machine, at most one for each chain."""
        self.anneal(mixture, bias)
        return self.visible[:n, :]


def _raised(beta, mixture, shift, rows):
    """Return an inverse temperature that importance weights of rows reach, and these."""
    fields, push = rows.fields(mixture.atoms), rows.product(shift)

    def log_weight(beta):
        return softplus(beta * fields) @ mixture.counts + beta * push

    def excess(to):
        return rows.effective_part(log_weight(to) - now) - _MIN_ESS

    now, to = log_weight(beta), 1.0
    if excess(to) < 0:
        to = min(to, max(brentq(excess, beta, to, xtol=1e-4), beta + _MIN_RISE))
    return to, log_weight(to) - now


class ExactModel:
    """The machine's distribution by all configurations of the visible units."""

    is_exact, min_ess = True, 0.0

    def __init__(self, n_visible, like):
        rows = Bernoulli().configurations(n_visible, np.arange(2**n_visible))
        self.visible = cast(from_numpy(rows, like), like.dtype)

    def get_state(self):
        """Return what growth changes, a dict of attributes: nothing."""
        return {}

    def _log_weights(self, mixture):
        blocks = configurations(machine_of(mixture, self.visible), layers=[0])
        return np.concatenate([to_numpy(log_weights) for _, log_weights in blocks])

    def anneal(self, mixture, bias):
        """Return log Z."""
        return float(log_sum_exp(self._log_weights(mixture)))

    def sweep(self, mixture, n_sweeps=None):
        """Return the configurations with their probabilities, in place of both sets."""
        log_weights = self._log_weights(mixture)
        rows = WeightedRows(self.visible, np.exp(log_weights - log_sum_exp(log_weights)))
        return Samples(rows, rows)

    def resample(self, log_weights):
        """Do nothing: probabilities follow the machine."""

    def draws(self, mixture, bias, n, rng):
        """Return ``n`` draws from a machine."""
        p = self.sweep(mixture).training.weights
        index = from_numpy(rng.choice(p.size, n, p=p / p.sum()), self.visible)
        return namespace(self.visible).take(self.visible, index, axis=0)
