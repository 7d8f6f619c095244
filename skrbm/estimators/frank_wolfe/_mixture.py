"""Machines as mixtures of hidden units, each with a multiplicity, and rounding to whole units.

An *atom* is the weights of a hidden unit followed by its bias, the weight of an additional visible
unit that is always 1: an array of shape (n_visible + 1,). Atoms are NumPy arrays of float64, since
they are few; arrays with one row per sample keep their own library and dtype.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...arrays import cast, from_numpy, namespace, to_numpy
from ...machine import Machine
from ...units import Bernoulli, Fractional, Theta


class Mixture(NamedTuple):
    """Atoms, their multiplicities, and the visible biases."""

    units: Sequence
    counts: np.ndarray
    bias: np.ndarray

    @property
    def atoms(self):
        return np.array(self.units, np.float64).reshape(len(self.units), self.bias.size + 1)

    def copy(self):
        """Return the mixture itself, whose arrays are never modified."""
        return self

    def penalties(self, alpha):
        atoms = self.atoms
        return 0.5 * alpha * np.einsum("ij,ij->i", atoms, atoms)


def machine_of(mixture, like):
    """Return the units with a positive multiplicity as a machine, with arrays like ``like``."""
    positive = mixture.counts > 0
    atoms, counts, xp = mixture.atoms[positive], mixture.counts[positive], namespace(like)

    def put(array):
        return cast(from_numpy(np.ascontiguousarray(array), like), like.dtype)

    hidden = Bernoulli()
    if (counts != 1).any():
        hidden = Fractional(cast(from_numpy(counts, like), xp.float64))
    thetas = Theta(put(mixture.bias)), Theta(put(atoms[:, -1]))
    return Machine((Bernoulli(), hidden), thetas, (put(atoms[:, :-1]),))


def mixture_of(machine):
    W, hidden, visible = (
        to_numpy(part).astype(np.float64)
        for part in (machine.weights[0], machine.thetas[1].field, machine.thetas[0].field)
    )
    counts = getattr(machine.units[1], "multiplicities", None)
    counts = np.ones(len(W)) if counts is None else to_numpy(counts).astype(np.float64)
    return Mixture(tuple(np.column_stack([W, hidden])), counts, visible)


def rounded(mixture):
    """Return a mixture with all multiplicities 1, by Eq. (12) of Ping et al. (2016)."""
    units, counts, bias = mixture
    whole = [
        factor * atom
        for atom, count in zip(units, counts, strict=True)
        for factor in [1.0] * int(count) + [count % 1] * int(count % 1 > 0)
    ]
    return Mixture(tuple(whole), np.ones(len(whole)), bias)
