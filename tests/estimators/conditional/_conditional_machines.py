"""Small conditional machines, and sums over all their configurations: the truth of their tests.

The sums read a machine as a container of five arrays, and call nothing of skrbm.
"""

import itertools
from dataclasses import replace

import numpy as np
from _machines import slopes_of
from scipy.special import logsumexp

from skrbm.estimators.conditional._machine import PARAMETERS, ConditionalMachine
from skrbm.units import Bernoulli, Categorical


def all_rows(n):
    """Every configuration of ``n`` bits."""
    return np.array(list(itertools.product((0.0, 1.0), repeat=n))).reshape(2**n, n)


def path(n_hidden, n_visible):
    """Where couplings are that make a tree: a path through all units, visible ones first."""
    edges = np.zeros((n_hidden, n_visible), bool)
    for j in range(n_hidden):
        edges[j, j % n_visible] = edges[j, (j + 1) % n_visible] = True
    assert n_hidden < n_visible, "a circle otherwise"
    return edges


def leaves(n_hidden, n_visible):
    """Where couplings are that give each hidden unit one neighbour."""
    return np.arange(n_hidden)[:, None] % n_visible == np.arange(n_visible)


def corner(n_hidden, n_visible):
    """Where couplings are that join the first six units of both layers, with many circles."""
    return (np.arange(n_hidden)[:, None] < 6) & (np.arange(n_visible) < 6)


def everywhere(n_hidden, n_visible):
    return np.ones((n_hidden, n_visible), bool)


def random_machine(
    seed=0, sizes=(4, 3, 2), edges=everywhere, unit=None, strength=1.0, dtype=np.float64
):
    """A machine of so many outputs, hidden units and features, with normal parameters."""
    generator, (n, m, k) = np.random.default_rng(seed), sizes
    parts = {
        "components": 2 * strength * generator.standard_normal((m, n)) * edges(m, n),
        "coef_visible": generator.standard_normal((n, k)),
        "coef_hidden": generator.standard_normal((m, k)),
        "intercept_visible": generator.standard_normal(n),
        "intercept_hidden": generator.standard_normal(m),
    }
    units = (Bernoulli() if unit is None else unit, Bernoulli())
    return ConditionalMachine(units, **{name: part.astype(dtype) for name, part in parts.items()})


class Sums:
    """All configurations of the outputs and hidden units given one row of features.

    ``log_weights`` has a row for each of ``V`` and a column for each of ``H``. With ``y`` the
    outputs that are not NaN are held.
    """

    def __init__(self, machine, x, y=None):
        W, A, B, b, c = (np.asarray(part, np.float64) for part in machine.leaves)
        self.V = np.eye(len(b)) if isinstance(machine.units[0], Categorical) else all_rows(len(b))
        if y is not None:
            self.V = self.V[((self.V == y) | np.isnan(y)).all(axis=1)]
        self.H = all_rows(len(c))
        own = (self.V @ (A @ x + b))[:, None] + self.H @ (B @ x + c)
        self.log_weights = own + self.V @ W.T @ self.H.T
        self.log_z = logsumexp(self.log_weights)
        self.p = np.exp(self.log_weights - self.log_z)

    @property
    def log_p(self):
        """Log-probability of each row of V."""
        return logsumexp(self.log_weights, axis=1) - self.log_z

    def mean(self):
        """E[v]."""
        return self.p.sum(axis=1) @ self.V

    def hidden_mean(self):
        """E[h]."""
        return self.p.sum(axis=0) @ self.H

    def best(self):
        """The most probable v, and that of the most probable (v, h)."""
        joint = self.log_weights.max(axis=1)
        return self.V[np.argmax(self.log_p)], self.V[np.argmax(joint)]

    def chain(self):
        """Transition probabilities of a sweep of block Gibbs sampling between the rows of V, and
        E[h | v] of each."""
        up = self.p / self.p.sum(axis=1, keepdims=True)
        down = (self.p / self.p.sum(axis=0)).T
        return up @ down, up @ self.H


def hamming(V, y):
    """The number of outputs that differ from y, of those that are known."""
    return ((V != y) & ~np.isnan(y)).sum(axis=1)


def log_likelihood(machine, X, Y):
    """Mean log p(known outputs | x)."""
    rows = zip(X, Y, strict=True)
    return np.mean([Sums(machine, x, y).log_z - Sums(machine, x).log_z for x, y in rows])


def perceptron(machine, X, Y):
    """Mean free energy by which the best outputs are below the label's, negative."""
    total = 0.0
    for x, y in zip(X, Y, strict=True):
        sums = Sums(machine, x)
        weights = logsumexp(sums.log_weights, axis=1)
        total += weights[(sums.V == y).all(axis=1)][0] - weights.max()
    return total / len(X)


def margin(machine, X, Y, loss=hamming):
    """Mean largest log-weight at the known outputs, less the largest one with the loss added."""
    total = 0.0
    for x, y in zip(X, Y, strict=True):
        held, free = Sums(machine, x, y), Sums(machine, x)
        total += held.log_weights.max()
        total -= (free.log_weights + loss(free.V, y)[:, None]).max()
    return total / len(X)


def marginal_margin(machine, X, Y, loss=hamming):
    """The same with hidden units summed out."""
    total = 0.0
    for x, y in zip(X, Y, strict=True):
        held, free = Sums(machine, x, y), Sums(machine, x)
        total += logsumexp(held.log_weights, axis=1).max()
        total -= (logsumexp(free.log_weights, axis=1) + loss(free.V, y)).max()
    return total / len(X)


def differences(function, machine, step=1e-5):
    """Central differences of a function of the machine by all parameters, by name."""

    def moved(*arrays):
        return function(replace(machine, **dict(zip(PARAMETERS, arrays, strict=True))))

    arrays = [getattr(machine, name) for name in PARAMETERS]
    return dict(zip(PARAMETERS, slopes_of(moved, arrays, step), strict=True))
