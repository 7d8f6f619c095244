"""Machines as mixtures of hidden units: their weights and how often each counts.

An *atom* is the weights of a hidden unit and its bias, which is the weight of a further visible
unit that is always 1: an array of shape (n_visible + 1,), the bias last. Atoms are NumPy arrays of
float64, since they are few; what has a row for each sample keeps its own library and dtype.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...arrays import cast, from_numpy, namespace, to_numpy
from ...machine import Machine
from ...units import Bernoulli, Fractional, Theta

_SMALLEST = 1e-9  # multiplicity of a unit that is there


class Mixture(NamedTuple):
    """Units, each an atom, their multiplicities, and the visible biases.

    Machines of a growth share the arrays of the units that they share.
    """

    units: Sequence
    counts: np.ndarray
    bias: np.ndarray

    @property
    def atoms(self):
        """The units in one array of shape (n, n_visible + 1)."""
        return np.array(self.units, np.float64).reshape(len(self.units), self.bias.size + 1)

    def copy(self):
        """Return the mixture itself, which nothing writes to."""
        return self

    def hidden(self, rows):
        """Return sum_i c_i softplus(w_i'v) of each row."""
        return rows.softplus(self.atoms) @ self.counts

    def with_atom(self, atom):
        """Return the mixture with one more atom, which counts 0 times."""
        return Mixture((*self.units, atom.copy()), np.append(self.counts, 0.0), self.bias)

    def penalties(self, alpha):
        """Return alpha / 2 ||w_i||² of each atom."""
        atoms = self.atoms
        return 0.5 * alpha * np.einsum("ij,ij->i", atoms, atoms)


class Direction(NamedTuple):
    """A line in the multiplicities of ``base``: counts + step * change for low <= step <= high.

    ``kind`` names it, ``values`` are the means of softplus(w'v) over the data for each atom,
    ``unit`` is the one that is inserted or shrunk.
    """

    kind: str
    base: Mixture
    values: np.ndarray
    change: np.ndarray
    unit: int | None = None
    low: float = 0.0
    high: float = 1.0

    def log_weights(self, rows):
        """Return the change of log p(v) + log Z by a unit step, at rows."""
        moved = self.change != 0
        return rows.softplus(self.base.atoms[moved]) @ self.change[moved]

    def counts(self, step):
        """Return the multiplicities after a step, 0 for a unit that is gone."""
        counts = self.base.counts + step * self.change
        return np.where(counts > _SMALLEST, counts, 0.0)


def machine_of(mixture, like):
    """Return a mixture as a machine in the library and dtype of the array ``like``.

    Its hidden units are binary if all multiplicities are 1. A unit that counts c > 1 times stays
    one unit; one that counts 0 times is left out.
    """
    there = mixture.counts > 0
    atoms, counts, xp = mixture.atoms[there], mixture.counts[there], namespace(like)

    def put(array):
        return cast(from_numpy(np.ascontiguousarray(array), like), like.dtype)

    hidden = Bernoulli()
    if (counts != 1).any():
        hidden = Fractional(cast(from_numpy(counts, like), xp.float64))
    thetas = Theta(put(mixture.bias)), Theta(put(atoms[:, -1]))
    return Machine((Bernoulli(), hidden), thetas, (put(atoms[:, :-1]),))


def mixture_of(machine):
    """Return a machine with binary visible and binary or fractional hidden units as a mixture."""
    W, hidden, visible = (
        to_numpy(part).astype(np.float64)
        for part in (machine.weights[0], machine.thetas[1].field, machine.thetas[0].field)
    )
    counts = getattr(machine.units[1], "multiplicities", None)
    counts = np.ones(len(W)) if counts is None else to_numpy(counts).astype(np.float64)
    return Mixture(tuple(np.column_stack([W, hidden])), counts, visible)


def rounded(mixture, rounding="absorb"):
    """Return a mixture whose units all count once: c copies, and by ``rounding`` what is left of c.

    "absorb" multiplies an atom by it, which is Eq. (12) of Ping et al.; "nearest" rounds c.
    """
    units, counts, bias = mixture
    copies = np.round(counts) if rounding == "nearest" else np.floor(counts)
    parts = np.zeros_like(counts) if rounding == "nearest" else counts - copies
    whole = [
        factor * atom
        for atom, n, part in zip(units, copies, parts, strict=True)
        for factor in [1.0] * int(n) + [part] * int(part > 0)
    ]
    return Mixture(tuple(whole), np.ones(len(whole)), bias)
