"""Averages over rows, and the rows that stand for a machine's distribution: chains, or all."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor
from scipy.special import logsumexp, softmax

from ...arrays import (
    cast,
    dense,
    dense_rows,
    from_numpy,
    log_sum_exp,
    matmul,
    namespace,
    softplus,
    to_numpy,
    working_dtype,
)
from ...inference import (
    Gibbs,
    anneal,
    by_effective_part,
    independent_log_partition,
    resampled,
    sample,
)
from ...machine import configurations, uncoupled
from ...units import Bernoulli, Theta
from ._likelihood import GrowthLikelihood
from ._mixture import machine_of

_BLOCK_ELEMENTS = 2**21  # of a block of dense rows, which stays in a cache for both products
_SPARSE_BELOW = 0.25  # density below which products with a sparse copy are faster
_WORTH_A_COPY = 2**20  # elements
_UNITS_AT_ONCE = 64  # bounds the temporary array of shape (n_rows, n_units)
_MIN_ESS = 0.5  # part of the samples that importance weights may not go below
_MIN_VARIANCE = 0.01  # of a visible unit, in steps of the biases
_RIDGE = 0.2  # in parts of the variances
_SWEEPS = 2  # at each temperature of an annealing


class WeightedRows:
    """Rows of visible values with probabilities, and their averages.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_rows, n_visible)
        Of any dtype.
    weights : ndarray of shape (n_rows,), default=None
        Probabilities of the rows, which sum to one; default: each 1 / n_rows.
    dtype : dtype, default=None
        Of products; default: float32 or float64, whichever X has or becomes.
    """

    def __init__(self, X, weights=None, dtype=None):
        self.n, self.dtype = X.shape[0], working_dtype(X) if dtype is None else dtype
        self.weights = np.full(self.n, 1 / self.n) if weights is None else weights
        if isinstance(X, np.ndarray) and X.size >= _WORTH_A_COPY:
            if np.count_nonzero(X) < _SPARSE_BELOW * X.size:
                X = sp.csr_array(X)
        self._X = X.astype(self.dtype, copy=False) if sp.issparse(X) else X

    def followed(self, atoms):
        """Return what growth follows of the rows."""
        return GrowthLikelihood(self, atoms)

    def dense(self, index):
        """Return the rows at an index array, as a dense ndarray."""
        return to_numpy(dense_rows(self._X, from_numpy(index, self._X), self.dtype))

    def mean(self, values):
        """Return the mean over the rows of values of shape (n_rows, ...), in float64."""
        return self.weights @ values

    def log_mean_exp(self, values):
        """Return log of the mean of exp(values) over the rows."""
        return float(logsumexp(values, b=self.weights))

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
            fields = _fields(block, atoms)
            value, xp = softplus(fields), namespace(fields)
            slope = weights * xp.exp(fields - value)  # the logistic function, by one exponential
            values += to_numpy(xp.sum(weights * value, axis=0, dtype=xp.float64))
            slopes[:, :-1] += to_numpy(matmul(block.T, slope)).T
            slopes[:, -1] += to_numpy(xp.sum(slope, axis=0, dtype=xp.float64))
        return values, slopes

    def softplus_means(self, atoms):
        """Return the mean of softplus(w'v) for each atom."""
        starts = range(0, len(atoms), _UNITS_AT_ONCE)
        parts = [self.mean(self.softplus(atoms[k : k + _UNITS_AT_ONCE])) for k in starts]
        return np.concatenate([np.zeros(0), *parts])

    def softplus(self, atoms):
        """Return softplus(w'v) of each row and atom, of shape (n_rows, n_atoms), in float64."""
        return self._of_blocks(lambda block: softplus(_fields(block, atoms)))

    def product(self, vector):
        """Return the inner product of each row with a vector, in float64."""
        return self._of_blocks(lambda block: _fields(block, np.append(vector, 0.0)[None]))[:, 0]

    def _of_blocks(self, function):
        parts = [to_numpy(function(block)) for block, _ in self._blocks(self.weights)]
        return np.concatenate(parts).astype(np.float64)

    def average(self, values=1.0):
        """Return the mean of values v, of shape (n_visible,); by default the column means."""
        blocks = self._blocks(self.weights * values)
        total = sum(to_numpy(matmul(block.T, part)) for block, part in blocks)
        return total[:, 0].astype(np.float64)

    def covariance(self):
        """Return the covariances of the columns, of shape (n_visible, n_visible), in float64."""
        total, means = 0.0, self.average()
        for block, weights in self._blocks(self.weights):
            rows = to_numpy(matmul(block.T, dense(block) * weights))
            total = total + rows.astype(np.float64)
        return total - np.outer(means, means)

    def _blocks(self, column):
        """Yield blocks of rows, each with its part of a column of numbers; sparse rows in one."""
        n, is_sparse = self.n, sp.issparse(self._X)
        size = n if is_sparse else max(64, _BLOCK_ELEMENTS // self._X.shape[1])
        for start in range(0, n, size):
            rows = slice(start, min(start + size, n))
            block = self._X if is_sparse else cast(self._X[rows, :], self.dtype)
            yield block, cast(from_numpy(column[rows, None], block), self.dtype)


def _fields(block, atoms):
    """Return w'v of each row of a block and each atom, in the block's library."""
    W = cast(atoms.T if sp.issparse(block) else from_numpy(atoms.T, block), block.dtype)
    fields = matmul(block, W[:-1, :])
    fields += W[-1, :]
    return fields


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

        By sequential Monte Carlo from independent units with biases ``bias``. Chains that only go
        on do not find a mode that a new unit makes elsewhere, even if nearly all probability is
        there.
        """
        machine = machine_of(mixture, self.visible)
        start = cast(from_numpy(bias, self.visible), self.visible.dtype)
        base, rng, n = uncoupled(machine, Theta(start)), self.rng, 2 * self.n_chains
        chains = Gibbs().init(base, rng, n, self.visible)
        betas = by_effective_part(n_sweeps=_SWEEPS)
        found = anneal(machine, base, betas, chains.layers, rng, resample=1.0)
        order = rng.permutation(n)  # both sets are then of all that was drawn
        self.visible = namespace(self.visible).take(found.layers[0], order, axis=0)
        rise = float(log_sum_exp(found.log_weights)) - np.log(n)
        return float(independent_log_partition(base) + rise)

    def samples(self, mixture):
        """Return both sets as they are."""
        n = self.n_chains
        return Samples(WeightedRows(self.visible[:n, :]), WeightedRows(self.visible[n:, :]))

    def sweep(self, mixture, n_sweeps=None):
        """Return both sets after more sweeps, by default as many as the sampler has."""
        machine = machine_of(mixture, self.visible)
        chains = self.sampler.start(machine, self.visible, self.rng)
        n_sweeps = self.sampler.n_steps if n_sweeps is None else n_sweeps
        self.visible = sample(self.sampler, machine, chains, self.rng, n_sweeps).layers[0]
        return self.samples(mixture)

    def resample(self, log_weights):
        """Resample both sets from the evaluation samples, by importance weights.

        So modes gain probability at once, without chains that cross from mode to mode. The
        training samples are given up, since the step was fitted to them. In the next sweep the two
        sets become different again.
        """
        evaluation = self.visible[self.n_chains :, :]
        xp = namespace(evaluation)
        weights = cast(from_numpy(log_weights, evaluation), xp.float64)
        both = [resampled(evaluation, weights, self.rng) for _ in range(2)]
        self.visible = xp.concat(both, axis=0)

    def completed(self, mixture, rows):
        """Return IncompleteRows with draws of what is missing, a :class:`WeightedRows`."""
        machine, n_steps = machine_of(mixture, self.visible), self.sampler.n_steps
        return WeightedRows(*rows.draws(machine, self.visible, self.rng, n_steps), rows.dtype)

    def observed_log_weight(self, mixture, rows):
        """Return the mean of log p(observed) + log Z of IncompleteRows, an estimate."""
        return rows.scores(machine_of(mixture, self.visible), self.visible)

    def draws(self, mixture, bias, n, rng):
        """Return ``n`` draws from a machine, at most one for each chain."""
        self.anneal(mixture, bias)
        return self.visible[:n, :]


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

    def samples(self, mixture):
        """Return the configurations with their probabilities, in place of both sets."""
        log_weights = self._log_weights(mixture)
        rows = WeightedRows(self.visible, np.exp(log_weights - log_sum_exp(log_weights)))
        return Samples(rows, rows)

    def sweep(self, mixture, n_sweeps=None):
        """Return the same: no sweep is needed."""
        return self.samples(mixture)

    def resample(self, log_weights):
        """Do nothing: probabilities follow the machine."""

    def completed(self, mixture, rows):
        """Return all configurations, each with its expected share of IncompleteRows."""
        log_weights, weights = self._log_weights(mixture), np.zeros(self.visible.shape[0])
        for weight, numbers in rows.configurations():
            weights[numbers] += weight * softmax(log_weights[numbers])
        return WeightedRows(self.visible, weights, rows.dtype)

    def observed_log_weight(self, mixture, rows):
        """Return the mean of log p(observed) + log Z of IncompleteRows."""
        log_weights = self._log_weights(mixture)
        return float(sum(w * logsumexp(log_weights[i]) for w, i in rows.configurations()))

    def draws(self, mixture, bias, n, rng):
        """Return ``n`` draws from a machine."""
        p = self.samples(mixture).training.weights
        index = from_numpy(rng.choice(p.size, n, p=p / p.sum()), self.visible)
        return namespace(self.visible).take(self.visible, index, axis=0)
