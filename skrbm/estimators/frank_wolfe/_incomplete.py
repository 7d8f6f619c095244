"""Rows of which visible units are missing: how a machine completes them, and their likelihood.

Given what is observed, the derivative of the log-likelihood by the multiplicity of a unit is its
mean softplus over the rows, in which missing values are distributed as the machine says, minus the
mean under the machine. So growth looks at completed rows, and before each step at new ones.
"""

import numpy as np

from ...arrays import cast, namespace, row_blocks, take_rows, to_numpy
from ...evaluation import Density
from ...evaluation._observed import QUICK
from ...inference import completed
from ...inputs import split_missing
from ._likelihood import IncompleteLikelihood

_BLOCK_ROWS = 4096  # that are drawn together


class IncompleteRows:
    """Rows with NaN for what is missing, and their probabilities.

    Parameters
    ----------
    X : array of shape (n_rows, n_visible)
        No two rows are equal.
    weights : ndarray of shape (n_rows,)
        Probabilities of the rows, which sum to one.
    dtype : dtype
        Of products.
    means : ndarray of shape (n_visible,)
        Of columns that are known in none of the rows.
    seed : SeedSequence
        Of estimates of likelihoods, which have the same random numbers after each step.
    n_scored : int
        Largest number of rows whose likelihood is followed.
    """

    def __init__(self, X, weights, dtype, means, seed, n_scored):
        self.X, self.weights, self.dtype, self.seed = X, weights, dtype, seed
        self._means = means
        self._scored, self._counts = np.arange(len(weights)), weights
        if len(weights) > n_scored:
            drawn = np.random.default_rng(seed).choice(len(weights), n_scored, p=weights)
            self._scored, counts = np.unique(drawn, return_counts=True)
            self._counts = counts / n_scored

    def followed(self, atoms):
        """Return what growth follows of the rows."""
        return IncompleteLikelihood(self)

    def average(self):
        """Return the means of what is observed of each column, float64."""
        known, total = (
            sum(
                weights @ to_numpy(function(rows)).astype(np.float64)
                for rows, weights in self._blocks()
            )
            for function in (lambda X: X == X, lambda X: split_missing(X)[0])
        )
        return np.where(known > 0, total / np.maximum(known, 1e-300), self._means)

    def _blocks(self):
        parts = np.array_split(self.weights, range(_BLOCK_ROWS, len(self.weights), _BLOCK_ROWS))
        return zip(row_blocks(self.X, _BLOCK_ROWS), parts, strict=True)

    def draws(self, machine, visible, rng, n_steps):
        """Return completed rows and their probabilities.

        Missing values are drawn given the others, by block Gibbs sampling that starts at rows of
        the machine, so that rows of which little is known have its modes by their weights. A row
        with holes is there more than once if it has much weight, or if rows are few.

        Parameters
        ----------
        machine : Machine
        visible : array of shape (n_chains, n_visible)
            Rows that are distributed as the machine's.
        rng : Rng
        n_steps : int
            Sweeps.
        """
        index, weights = self._copies(visible.shape[0])
        parts = []
        for start in range(0, len(index), _BLOCK_ROWS):
            rows = index[start : start + _BLOCK_ROWS]
            X = cast(take_rows(self.X, rows), visible.dtype)
            chains = take_rows(visible, rng.integers(visible.shape[0], len(rows)))
            X, observed = split_missing(X, chains)
            if observed is not None:
                X = completed(machine, X, observed, rng, n_steps)
            parts.append(X)
        return namespace(parts[0]).concat(parts, axis=0), weights

    def _copies(self, n_chains):
        """Return which rows are completed, some of them more than once, and the probabilities."""
        blocks = (to_numpy(namespace(X).any(X != X, axis=1)) for X, _ in self._blocks())
        has_holes, n = np.concatenate(list(blocks)), max(len(self.weights), n_chains)
        counts = np.where(has_holes, np.rint(n * self.weights), 1).astype(np.int64)
        counts = np.clip(counts, 1, n_chains)
        return np.repeat(np.arange(len(counts)), counts), np.repeat(self.weights / counts, counts)

    def scores(self, machine, starts):
        """Return log p(observed) + log Z of the rows that are followed, estimated; float64."""
        X = cast(take_rows(self.X, self._scored), machine.dtype)
        values = Density(machine, starts).free_energy_given(X, self.seed, QUICK)
        return -float(self._counts @ to_numpy(values))

    def configurations(self):
        """Yield the probability of each row, and the numbers of all rows that agree with it.

        The numbers are those of ``Bernoulli().configurations``.
        """
        for X, weights in self._blocks():
            X = to_numpy(X)
            if ((X != 0) & (X != 1) & (X == X)).any():
                raise ValueError(
                    "inference='exact' sums over what is missing in rows of 0 and 1, and X has "
                    "other values; set binarize, or inference='gibbs'"
                )
            powers = 2 ** np.arange(X.shape[1])
            for row, weight in zip(X, weights, strict=True):
                numbers = np.array([powers[row == 1].sum()])
                for power in powers[np.isnan(row)]:
                    numbers = np.concatenate([numbers, numbers + power])
                yield weight, numbers
