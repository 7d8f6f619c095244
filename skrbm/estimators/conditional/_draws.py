"""Draws of outputs given features, by which the divergence of a step is measured."""

import numpy as np

from ...arrays import from_numpy, namespace, take_rows, to_numpy
from ...inference import chain_ends
from ...machine import free_energy
from ._decisions import draw
from ._machine import is_one_label

_DRAWS = 2  # for each row
_STEPS = 2  # of the chains that make them, from the targets


class Draws:
    """Outputs of a machine given the features of some rows, several for each row.

    Those of one label are drawn exactly, and others by chains that start at the targets.

    Parameters
    ----------
    machine : ConditionalMachine
    X : array of shape (n_rows, n_features)
    V : array of shape (n_rows, n_visible)
        The targets.
    observed : array of bool of shape (n_rows, n_visible) or None
        Where they are known.
    rng : Rng
    """

    def __init__(self, machine, X, V, observed, rng):
        given, n_rows = machine.given(X), X.shape[0]
        if observed is not None:
            V = namespace(V).where(observed, V, given.units[0].sample(given.thetas[0], rng))
        self._X, self._places = X, from_numpy(np.tile(np.arange(n_rows), _DRAWS), V)
        many = given.rows(self._places)
        if is_one_label(given) or given.n_units[0] == 1:
            drawn = draw(many, 0, rng)
        else:
            drawn = chain_ends(many, rng, take_rows(V, self._places), _STEPS)
        self._values = namespace(V).concat([drawn, V], axis=0)
        self._energies = self._energies_of(given)

    def _energies_of(self, given):
        """Return free energies, (n_draws + 1, n_rows), those of the targets in the last row."""
        drawn, n = given.rows(self._places), self._places.shape[0]
        parts = free_energy(drawn, self._values[:n, :]), free_energy(given, self._values[n:, :])
        return to_numpy(namespace(parts[0]).concat(parts, axis=0)).reshape(_DRAWS + 1, -1)

    def change(self, machine):
        """Return the changes of free energies from the machine to another, less those of their row.

        The targets count as draws too: they tell where all chains are in one state. The variance
        is that given the features, without a bias.

        Parameters
        ----------
        machine : ConditionalMachine
            The other one.

        Returns
        -------
        ndarray of float64
        """
        change = self._energies_of(machine.given(self._X)) - self._energies
        apart = change - change.mean(axis=0)
        return apart.ravel() * (len(change) / (len(change) - 1)) ** 0.5
