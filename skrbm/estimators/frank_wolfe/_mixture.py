"""Mixtures of hidden units, and what stands for their law: chains, or all configurations."""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import brentq

from ...arrays import cast, from_numpy, namespace, softplus, to_numpy
from ...inference import Gibbs, resampled, sample
from ...machine import Machine, all_values
from ...units import Bernoulli, Fractional, Theta
from ._subproblem import Rows, effective_part, log_mean_exp

_LEAST_ESS = 0.5  # part of the samples that a part of a step leaves effective
_LEAST_VARIANCE = 0.01  # of a visible unit, in steps of the biases
_SMALLEST = 1e-9  # multiplicity of a unit that is there
_RIDGE = 0.2  # in parts of the variances
_SWEEPS = 4  # at each temperature of an annealing
_LEAST_RISE = 1e-3  # of the inverse temperature


class Mixture(NamedTuple):
    """Atoms of shape (n, n_visible + 1), their multiplicities, and the visible biases; float64."""

    atoms: Any
    counts: Any
    bias: Any

    def log_weight(self, rows):
        """Return log p(v) + log Z of each row."""
        return self.hidden(rows) + rows.product(self.bias)

    def hidden(self, rows):
        """Return sum_i c_i softplus(w_i'v) of each row."""
        return rows.softplus(self.atoms) @ self.counts


class Direction(NamedTuple):
    """A line in the multiplicities, c + step * (scale * c + weight * e_k), for steps up to most.

    ``atom`` is what is inserted; where it is None, ``index`` is k, or None for no such term.
    """

    kind: str
    scale: float = 0.0
    weight: float = 0.0
    atom: Any = None
    index: Any = None
    low: float = 0.0
    high: float = 1.0

    def change(self, base, rows):
        """Return the change of log p*(v) by a unit step from a mixture, at rows."""
        change = np.zeros(rows.n)
        if self.scale and base.counts.size:
            change = self.scale * base.hidden(rows)
        if self.atom is not None:
            change = change + self.weight * rows.softplus(self.atom[None])[:, 0]
        elif self.index is not None:
            atom = base.atoms[self.index : self.index + 1]
            change = change + self.weight * rows.softplus(atom)[:, 0]
        return change

    def counts(self, counts, step):
        """Return the multiplicities after a step, 0 for a unit that is gone."""
        counts = counts * (1 + step * self.scale)
        if self.atom is not None:
            counts = np.append(counts, step * self.weight)
        elif self.index is not None:
            counts[self.index] += step * self.weight
        return np.where(counts > _SMALLEST, counts, 0.0)


def machine_of(mixture, place):
    """Return a mixture as a machine beside the array ``place``, with binary units if all are whole.

    A unit that counts c > 1 times stays one unit; one that counts 0 times is left out.
    """
    xp, atoms, counts = namespace(place), mixture.atoms, mixture.counts
    if (counts == 0).any():
        atoms, counts = atoms[counts > 0], counts[counts > 0]

    def put(array):
        return cast(from_numpy(np.ascontiguousarray(array), place), place.dtype)

    hidden = Bernoulli()
    if (counts != 1).any():
        hidden = Fractional(cast(from_numpy(counts, place), xp.float64))
    thetas = Theta(put(mixture.bias)), Theta(put(atoms[:, -1]))
    return Machine((Bernoulli(), hidden), thetas, (put(atoms[:, :-1]),))


def rounded(mixture, rounding):
    """Return a mixture of whole units: c > 1 as copies, and what is left of c by ``rounding``.

    "absorb" multiplies an atom by it, which is Eq. (12) of Ping et al.; "nearest" rounds c.
    """
    atoms, counts, bias = mixture
    whole = np.round(counts) if rounding == "nearest" else np.floor(counts)
    parts = np.zeros_like(counts) if rounding == "nearest" else counts - whole
    place = np.arange(counts.size)
    place = np.concatenate([np.repeat(place, whole.astype(int)), place[parts > 0]])
    factor = np.concatenate([np.ones(int(whole.sum())), parts[parts > 0]])
    order = np.argsort(place, kind="stable")  # the parts of a unit come after its copies
    atoms = factor[order, None] * atoms[place[order]]
    return Mixture(atoms, np.ones(len(atoms)), bias)


def rounding_loss(mixture, whole, rows):
    """Return (bound, divergence) of a mixture that was rounded by "absorb", in nats.

    No log-likelihood changes by more than the bound (Prop. 3.2); the KL divergence of the rounded
    machine from the other is that over rows which stand for the other's law.
    """
    part = mixture.counts % 1
    change = whole.hidden(rows) - mixture.hidden(rows)
    divergence = log_mean_exp(change, rows.weights) - float(rows.mean(change))
    return float((1 - part)[part > 0].sum() * np.log(2)), divergence


def mixture_of(machine):
    """Return a machine with binary visible and binary or fractional hidden units as a mixture."""
    W, bias = (to_numpy(part) for part in (machine.weights[0], machine.thetas[1].field))
    counts = getattr(machine.units[1], "multiplicities", None)
    counts = np.ones(len(W)) if counts is None else to_numpy(counts)
    visible = to_numpy(machine.thetas[0].field).astype(np.float64)
    return Mixture(np.column_stack([W, bias]).astype(np.float64), counts.astype(float), visible)


class SampledModel:
    """The model by chains that are drawn anew from time to time, and carried along in between.

    There are two sets. All parameters are found from the first; what they do to log Z is judged
    from the second, which has another noise. To the samples that d biases were fitted to, n in
    number, they seem to be worth up to d / 2n nats, each time anew.

    Parameters
    ----------
    sampler : Gibbs
    n_chains : int
        Of each set.
    place : array
        Beside which chains lie, in its dtype.
    rng : Rng
    """

    is_exact, least_ess = False, _LEAST_ESS

    def __init__(self, sampler, n_chains, place, rng):
        self.sampler, self.n_chains, self.visible, self.rng = sampler, n_chains, place, rng

    def anneal(self, mixture, base):
        """Draw both sets anew; returns log Z.

        By sequential Monte Carlo from independent units with the fields ``base``: weights rise to
        those of the mixture, each time as far as importance weights reach. Chains that are only
        carried along never see a mode that new units make elsewhere, and it may hold nearly all
        of the law.
        """
        start = machine_of(Mixture(mixture.atoms[:0], mixture.counts[:0], base), self.visible)
        self.visible = Gibbs().init(start, self.rng, 2 * self.n_chains, self.visible).layers[0]
        log_z = np.logaddexp(0, base).sum() + np.log(2) * mixture.counts.sum()
        beta, shift = 0.0, mixture.bias - base
        while beta < 1:
            beta, log_weights = _raised(beta, mixture, shift, Rows(self.visible))
            log_z += log_mean_exp(log_weights)
            drawn = resampled(self.visible, self._beside(log_weights), self.rng)
            order = self.rng.permutation(len(log_weights))  # both sets are of all that was drawn
            self.visible = namespace(drawn).take(drawn, order, axis=0)
            bias = base + beta * shift
            self.rows(Mixture(beta * mixture.atoms, mixture.counts, bias), _SWEEPS)
        return float(log_z)

    def rows(self, mixture, n_sweeps=None):
        """Return both sets after more sweeps, by default as many as the sampler has: Rows."""
        machine = machine_of(mixture, self.visible)
        chains = self.sampler.start(machine, self.visible, self.rng)
        n_sweeps = self.sampler.n_steps if n_sweeps is None else n_sweeps
        self.visible = sample(self.sampler, machine, chains, self.rng, n_sweeps).layers[0]
        return Rows(self.visible[: self.n_chains, :]), Rows(self.visible[self.n_chains :, :])

    def resample(self, log_weights):
        """Take both sets to another law by importance weights of the judges.

        Modes that a step has made heavier get their share at once, where sweeps alone would have
        to cross from mode to mode. The samples that a step was found from would make too much of
        it, and biases fitted to these would be those of a law that has other shares: they are left
        behind, and what takes their place becomes other than the judges in the next sweep.
        """
        judges, log_weights = self.visible[self.n_chains :, :], self._beside(log_weights)
        both = [resampled(judges, log_weights, self.rng) for _ in range(2)]
        self.visible = namespace(judges).concat(both, axis=0)

    def _beside(self, log_weights):
        return cast(from_numpy(log_weights, self.visible), namespace(self.visible).float64)

    def draws(self, mixture, base, n, rng):
        """Return ``n`` draws from a machine, at most one for each chain."""
        self.anneal(mixture, base)
        return self.visible[:n, :]


def _raised(beta, mixture, shift, rows):
    """Return an inverse temperature up to which importance weights of rows reach, and these."""
    fields, push = rows.fields(mixture.atoms), rows.product(shift)

    def log_weight(beta):
        return softplus(beta * fields) @ mixture.counts + beta * push

    def beyond(to):
        return effective_part(log_weight(to) - now) - _LEAST_ESS

    now, to = log_weight(beta), 1.0
    if beyond(to) < 0:
        to = min(to, max(brentq(beyond, beta, to, xtol=1e-4), beta + _LEAST_RISE))
    return to, log_weight(to) - now


class ExactModel:
    """The model by all configurations of the visible units, with their probabilities."""

    is_exact, least_ess = True, 0.0

    def __init__(self, n_visible, place):
        self.visible = cast(from_numpy(all_values(n_visible), place), place.dtype)
        self._rows = Rows(self.visible)

    def rows(self, mixture, n_sweeps=None):
        """Return the configurations with their probabilities, in the place of both sets."""
        log_p = mixture.log_weight(self._rows)
        p = np.exp(log_p - log_p.max())
        rows = Rows(self.visible, p / p.sum())
        return rows, rows

    def anneal(self, mixture, base):
        """Return log Z."""
        return self.log_partition(mixture)

    def log_partition(self, mixture):
        """Return log Z."""
        log_p = mixture.log_weight(self._rows)
        return log_mean_exp(log_p) + np.log(self._rows.n)

    def resample(self, log_weights):
        pass

    def draws(self, mixture, base, n, rng):
        """Return ``n`` draws from a machine."""
        p = self.rows(mixture)[0].weights
        index = from_numpy(rng.choice(p.size, n, p=p), self.visible)
        return namespace(self.visible).take(self.visible, index, axis=0)


class Metric:
    """Covariances of the visible units, with a ridge: how means answer to biases.

    Both the refit of the biases and the shift that goes with a step are Newton steps in it. The
    ridge, in parts of the variances of the samples or of the data, keeps them short where samples
    are few or units are stuck.
    """

    def __init__(self, rows, variance):
        covariance = rows.covariance()
        variance = np.maximum(np.maximum(np.diagonal(covariance), variance), _LEAST_VARIANCE)
        covariance[np.diag_indices_from(covariance)] += _RIDGE * variance
        self._factor = cho_factor(covariance, overwrite_a=True)

    def solve(self, vector):
        return cho_solve(self._factor, vector)
