"""The model phase of rows with few entries, whose machines only have units for these."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..arrays import block_rows, matmul
from ..inputs import rows_of_entries
from ..machine import Moments, condition
from ..units import Theta
from ._length import StepLength
from ._model_phase import ModelPhase


class SeenState(NamedTuple):
    """Where the chains of the last batch ended, a CSR array of the shape of the batch.

    ``error`` is the root mean square of its entries less what draws of the hidden units predict.
    """

    rows: Any
    error: float = float("nan")


def fields_of_entries(machine, hidden, X):
    """Return the fields on the visible units that a CSR array X stores, given hidden values.

    Only the weights of these units are read.
    """
    W, places, rows = machine.weights[0].T, X.indices, rows_of_entries(X)
    size = block_rows(W.shape[1])
    found = np.empty(X.nnz, dtype=W.dtype)
    for start in range(0, X.nnz, size):
        part = slice(start, start + size)
        np.einsum("ij,ij->i", W[places[part]], hidden[rows[part]], out=found[part])
    return machine.thetas[0].field[places] + found


@dataclass(frozen=True)
class SeenPhase(ModelPhase):
    """Contrastive divergence in which a row only has units for its entries.

    Each row has its own machine, with shared parameters, as in Salakhutdinov, Mnih and Hinton
    (2007). Its visible units are Gaussian, with one precision, and its chain starts at the row and
    makes one sweep. Units without an entry are left out, so the cost of a batch is proportional to
    the number of its entries. The length of steps depends on ``n_seen``, the mean number of entries
    of a row.
    """

    n_seen: float

    def init(self, machine, rng, n, X):
        return SeenState(sp.csr_array((0, X.shape[1]), dtype=X.dtype))

    def phases(self, machine, state, X, rng):
        hidden, theta = machine.units[1], condition(machine, X)
        precision = machine.thetas[0].precision[X.indices]
        field = fields_of_entries(machine, hidden.sample(theta, rng), X)
        mean = field / precision
        drawn = mean + rng.normal(X.data.shape) / precision**0.5
        rows = sp.csr_array((drawn, X.indices, X.indptr), shape=X.shape)
        data = _moments(X, hidden.mean(theta))
        model = _moments(rows, hidden.mean(condition(machine, rows)))
        error = float(np.sqrt(np.mean((X.data - mean) ** 2))) if X.nnz else 0.0
        return SeenState(rows, error), data, model

    def report(self, state):
        return {"error": state.error}

    def visible(self, state):
        return state.rows

    def free_energy(self, machine, X):
        """Return free energies less what is linear in the number of entries.

        Rows with other entries have another log Z, and its change says nothing of a step.
        """
        machine, X = machine.astype(np.float64), X.astype(np.float64)
        theta, counts = machine.thetas[0], np.diff(X.indptr)
        own = (theta.field[X.indices] - 0.5 * theta.precision[X.indices] * X.data) * X.data
        log_weights = np.bincount(rows_of_entries(X), own, X.shape[0])
        free = -log_weights - machine.units[1].total_log_partition(condition(machine, X))
        apart = counts - counts.mean()
        return free - apart * (apart @ free / max(apart @ apart, 1.0))

    def step_length(self, machine):
        # Each step is measured: a few alike that are too long can take the precision far away.
        return replace(StepLength.of_chains(machine.units, max(1, round(self.n_seen))), every=1)


def _moments(X, hidden):
    """Return the moments of rows of entries, in which the precision is that of all entries."""
    n, N = X.shape
    squares = np.full(N, -0.5 * float(X.data @ X.data) / max(X.nnz, 1), dtype=X.dtype)
    visible = Theta(np.zeros_like(squares), squares)
    pair = matmul(X.T, hidden).T / n
    return Moments((), ((0, pair),), ((0, visible), (1, Theta(hidden.mean(axis=0)))))
