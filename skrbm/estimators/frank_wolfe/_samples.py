"""Averages over the data, and over samples or all configurations of the model.

Given the observed values, the derivative of the log-likelihood with respect to the multiplicity of
a unit is the mean of its softplus over the rows, with missing values distributed as under the
machine, minus its mean under the machine. So growth learns from completed rows, whose missing
values are drawn before each step.
"""

import numpy as np
import scipy.sparse as sp

from ...arrays import (
    cast,
    dense,
    dense_rows,
    from_numpy,
    log_sum_exp,
    matmul,
    namespace,
    softplus,
    take_rows,
    to_numpy,
    working_dtype,
)
from ...evaluation import Density
from ...evaluation._observed import QUICK
from ...inference import (
    Gibbs,
    SmallSteps,
    anneal,
    completed,
    independent_log_partition,
    resampled,
    sample,
)
from ...inputs import split_missing
from ...machine import configurations, uncoupled
from ...units import Bernoulli, Theta
from ._mixture import machine_of

_BLOCK_ELEMENTS = 2**21  # elements of a block of dense rows, which fits into a cache
_BLOCK_ROWS = 4096  # rows with missing values that are completed together
_SPARSE_BELOW = 0.25  # density below which products with a sparse copy are faster
_WORTH_A_COPY = 2**20  # elements from which a sparse copy pays
_UNITS_AT_ONCE = 64  # limits the temporary array of shape (n_rows, n_units)
_MIN_ESS = 0.5  # smallest effective fraction of the samples under importance weights
_SWEEPS = 2  # at each temperature of annealing
_SPREAD = 0.33  # of log weights between temperatures, in nats: 90 % of the chains are effective
_EXACT_STEPS = 10  # sweeps that draw missing values if expectations are exact


class WeightedRows:
    """Visible configurations with probabilities, by default 1 / n_rows, and averages over them."""

    def __init__(self, X, weights=None, dtype=None):
        self.n, self.dtype = X.shape[0], working_dtype(X) if dtype is None else dtype
        self.weights = np.full(self.n, 1 / self.n) if weights is None else weights
        if isinstance(X, np.ndarray) and X.size >= _WORTH_A_COPY:
            if np.count_nonzero(X) < _SPARSE_BELOW * X.size:
                X = sp.csr_array(X)
        self._X = X.astype(self.dtype, copy=False) if sp.issparse(X) else X

    def some(self, n, rng):
        """Return up to n rows as a dense ndarray, drawn with their weights as probabilities."""
        p = self.weights / self.weights.sum()
        index = np.sort(rng.choice(self.n, min(n, self.n), p=p))
        return to_numpy(dense_rows(self._X, from_numpy(index, self._X), self.dtype))

    def mean(self, values):
        return self.weights @ values

    def softplus_moments(self, atoms):
        """Return means of softplus(w'v), and of its derivative sigmoid(w'v) v, for each atom."""
        values, slopes = np.zeros(len(atoms)), np.zeros_like(atoms)
        for block, weights in self._blocks(self.weights):
            fields = _fields(block, atoms)
            value, xp = softplus(fields), namespace(fields)
            slope = weights * xp.exp(fields - value)  # the logistic function, with one exponential
            values += to_numpy(xp.sum(weights * value, axis=0, dtype=xp.float64))
            slopes[:, :-1] += to_numpy(matmul(block.T, slope)).T
            slopes[:, -1] += to_numpy(xp.sum(slope, axis=0, dtype=xp.float64))
        return values, slopes

    def softplus_means(self, atoms):
        starts = range(0, len(atoms), _UNITS_AT_ONCE)
        parts = [self.mean(self.softplus(atoms[k : k + _UNITS_AT_ONCE])) for k in starts]
        return np.concatenate([np.zeros(0), *parts])

    def softplus(self, atoms):
        """Return softplus(w'v) of each row and atom, of shape (n_rows, n_atoms), in float64."""
        return self._of_blocks(lambda block: softplus(_fields(block, atoms)))

    def product(self, vector):
        return self._of_blocks(lambda block: _fields(block, np.append(vector, 0.0)[None]))[:, 0]

    def _of_blocks(self, function):
        parts = [to_numpy(function(block)) for block, _ in self._blocks(self.weights)]
        return np.concatenate(parts).astype(np.float64)

    def average(self, values=1.0):
        """Return the mean of values * v, of shape (n_visible,); by default the column means."""
        blocks = self._blocks(self.weights * values)
        total = sum(to_numpy(matmul(block.T, part)) for block, part in blocks)
        return total[:, 0].astype(np.float64)

    def covariance(self):
        total, means = 0.0, self.average()
        for block, weights in self._blocks(self.weights):
            rows = to_numpy(matmul(block.T, dense(block) * weights))
            total = total + rows.astype(np.float64)
        return total - np.outer(means, means)

    def log_likelihood(self, mixture, log_z):
        hidden = self.softplus_means(mixture.atoms) @ mixture.counts
        return float(hidden + self.average() @ mixture.bias - log_z)

    def _blocks(self, column):
        """Yield blocks of rows, each with its part of a column; sparse rows are one block."""
        n, is_sparse = self.n, sp.issparse(self._X)
        size = n if is_sparse else max(64, _BLOCK_ELEMENTS // self._X.shape[1])
        for start in range(0, n, size):
            rows = slice(start, min(start + size, n))
            block = self._X if is_sparse else cast(self._X[rows, :], self.dtype)
            yield block, cast(from_numpy(column[rows, None], block), self.dtype)


def _fields(block, atoms):
    """Return w'v for each row of a block and each atom, in the block's library."""
    W = cast(atoms.T if sp.issparse(block) else from_numpy(atoms.T, block), block.dtype)
    fields = matmul(block, W[:-1, :])
    fields += W[-1, :]
    return fields


class Data:
    """The data on which a model grows, and their mean log-likelihood.

    ``rows`` are WeightedRows, with missing values as they were last drawn. ``means`` are those of
    observed values; for columns without any, those that were passed. The likelihood is estimated
    from at most ``n_scored`` rows, with the same random numbers after each step.
    """

    def __init__(self, rows, means, seed, n_scored):
        self.X, self.dtype, self.has_missing = rows.X, rows.dtype, rows.has_missing
        self.index, self.weights, self.seed = rows.index, rows.counts / rows.counts.sum(), seed
        if not self.has_missing:
            self.rows = WeightedRows(take_rows(self.X, self.index), self.weights, self.dtype)
            self.means = self.rows.average()
            return
        own = to_numpy(rows.means).astype(np.float64)
        self.rows, self.means = None, np.where(np.isnan(own), means, own)
        self.scored, self.scored_weights = self.index, self.weights
        if len(self.index) > n_scored:
            drawn = np.random.default_rng(seed).choice(self.index, n_scored, p=self.weights)
            self.scored, counts = np.unique(drawn, return_counts=True)
            self.scored_weights = counts / n_scored

    def complete(self, model, mixture):
        """Draw missing values from the present machine, if there are any.

        Each step thus raises a lower bound of the likelihood of the observed values (expectation
        maximization). Chains start at samples of the machine, so that rows with few observed values
        occupy its modes in the right proportions. A row is repeated if its weight is large or rows
        are few.
        """
        if not self.has_missing:
            return
        chains, rng = model.starts(mixture), model.rng
        machine, n_chains, parts = machine_of(mixture, chains), chains.shape[0], []
        incomplete = to_numpy(namespace(self.X).any(self.X != self.X, axis=1))[self.index]
        n = max(len(self.index), n_chains)
        repeats = np.rint(np.where(incomplete, n * self.weights, 1))
        repeats = np.clip(repeats.astype(np.int64), 1, n_chains)
        index = np.repeat(self.index, repeats)
        for start in range(0, len(index), _BLOCK_ROWS):
            rows = index[start : start + _BLOCK_ROWS]
            X = cast(take_rows(self.X, rows), chains.dtype)
            first = take_rows(chains, rng.integers(n_chains, len(rows)))
            X, observed = split_missing(X, first)
            if observed is not None:
                X = completed(machine, X, observed, rng, model.n_steps)
            parts.append(X)
        weights = np.repeat(self.weights / repeats, repeats)
        X = namespace(parts[0]).concat(parts, axis=0)
        self.rows = WeightedRows(X, weights, self.dtype)
        self.means = self.rows.average()

    def score(self, model, mixture, log_z):
        """Return the mean log-likelihood, or that of the observed values if some are missing."""
        if not self.has_missing:
            return self.rows.log_likelihood(mixture, log_z)
        density = Density(machine_of(mixture, model.visible), model.visible)
        X = cast(take_rows(self.X, self.scored), model.visible.dtype)
        values = density.free_energy(X, self.seed, QUICK)
        return -float(self.scored_weights @ to_numpy(values)) - log_z


class SampledModel:
    """The machine's distribution, represented by two sets of ``n_chains`` Markov chains.

    Units and biases are fitted to the first set and evaluated on the second, since fitting d biases
    to n samples overstates the gain on those samples by up to d / (2n) nats per refit.
    """

    is_exact, min_ess = False, _MIN_ESS

    def __init__(self, sampler, n_chains, like, rng):
        self.sampler, self.n_chains, self.visible, self.rng = sampler, n_chains, like, rng
        self.n_steps = sampler.n_steps

    def starts(self, mixture):
        return self.visible

    def anneal(self, mixture, bias):
        """Draw both sets again by annealing from independent units, and return log Z.

        Persistent chains would miss a mode that a new unit creates elsewhere.
        """
        machine = machine_of(mixture, self.visible)
        start = cast(from_numpy(bias, self.visible), self.visible.dtype)
        base, rng, n = uncoupled(machine, Theta(start)), self.rng, 2 * self.n_chains
        chains = Gibbs().init(base, rng, n)
        betas = SmallSteps(_SPREAD, n_sweeps=_SWEEPS)
        found = anneal(machine, base, betas, chains.layers, rng, resample=1.0)
        order = rng.permutation(n)  # resampled copies are side by side; spread them over both sets
        self.visible = namespace(self.visible).take(found.layers[0], order, axis=0)
        rise = float(log_sum_exp(found.log_weights)) - np.log(n)
        return float(independent_log_partition(base) + rise)

    def samples(self, mixture):
        n = self.n_chains
        return WeightedRows(self.visible[:n, :]), WeightedRows(self.visible[n:, :])

    def sweep(self, mixture, n_sweeps=None):
        """Return both sets after more sweeps, by default as many as the sampler makes."""
        machine = machine_of(mixture, self.visible)
        chains = self.sampler.state_at(machine, self.visible, self.rng)
        n_sweeps = self.n_steps if n_sweeps is None else n_sweeps
        self.visible = sample(self.sampler, machine, chains, self.rng, n_sweeps).layers[0]
        return self.samples(mixture)

    def resample(self, log_weights):
        """Resample both sets from the evaluation samples, by importance weights.

        In this way modes gain probability without chains that cross between them.
        """
        evaluation = self.visible[self.n_chains :, :]
        xp = namespace(evaluation)
        weights = cast(from_numpy(log_weights, evaluation), xp.float64)
        both = [resampled(evaluation, weights, self.rng) for _ in range(2)]
        self.visible = xp.concat(both, axis=0)

    def draws(self, mixture, bias):
        self.anneal(mixture, bias)
        return self.visible[: self.n_chains, :]


class ExactModel:
    """The machine's distribution over all configurations of the visible units."""

    is_exact, min_ess, n_steps = True, 0.0, _EXACT_STEPS

    def __init__(self, n_visible, n_draws, like, rng):
        rows = Bernoulli().configurations(n_visible, np.arange(2**n_visible))
        self.visible = cast(from_numpy(rows, like), like.dtype)
        self.n_draws, self.rng = n_draws, rng

    def _log_weights(self, mixture):
        blocks = configurations(machine_of(mixture, self.visible), layers=[0])
        return np.concatenate([to_numpy(log_weights) for _, log_weights in blocks])

    def anneal(self, mixture, bias):
        return float(log_sum_exp(self._log_weights(mixture)))

    def samples(self, mixture):
        """Return the configurations with their probabilities, in place of both sets."""
        log_weights = self._log_weights(mixture)
        rows = WeightedRows(self.visible, np.exp(log_weights - log_sum_exp(log_weights)))
        return rows, rows

    def sweep(self, mixture, n_sweeps=None):
        return self.samples(mixture)

    def resample(self, log_weights):
        """Do nothing: probabilities follow the machine."""

    def draws(self, mixture, bias):
        return self.starts(mixture)

    def starts(self, mixture):
        ends = np.cumsum(self.samples(mixture)[0].weights)
        index = np.searchsorted(ends, ends[-1] * to_numpy(self.rng.uniform((self.n_draws,))))
        return namespace(self.visible).take(self.visible, from_numpy(index, self.visible), axis=0)
