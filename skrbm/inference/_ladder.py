"""Ladders: machines from independent units to one of interest, with samples of each.

Neighbours on a ladder are so much alike that samples of one are often taken for samples of the
other. So chains that cannot leave a mode of the last machine can do so by way of the first. The
rungs are temperatures of one machine (parallel tempering; Geyer 1991, Hukushima and Nemoto 1996),
or machines that a training has passed through (parallel trajectory tempering; Bereux et al. 2025).
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from .._checks import check_count, check_number
from ..arrays import cast, from_numpy, last_rows, make_rng, namespace, take_rows, to_numpy
from ..machine import free_energy, in_double, interpolate, uncoupled
from ._ais import independent_log_partition, mean_of_weights
from ._annealing import anneal, own_bases, resampled
from ._clamped import clamped
from ._gibbs import Gibbs, samples_exactly
from ._sampler import choose, draw_visible, last_visible, metropolis

_N_SAMPLES = 200  # chains that are annealed
_SWEEPS = 10  # of annealing from one rung to the next
_AS_GOOD = 2.0  # nats between estimates of log Z of which neither is better
# Rate at which a sample is replaced, below which independent units do not reach it; part of such
# samples that does not count; proposals for each.
_RARE, _FEW, _PROPOSED = 0.01, 0.01, 500
_SMALLEST = 1e-3  # distance of two rungs in inverse temperature
_PRECISION = 0.05  # of this distance, relative to what is left


@dataclass(frozen=True, eq=False)
class Ladder:
    """Machines that lead from independent units to a machine, and samples of each.

    Parameters
    ----------
    machines : tuple of Machine
        With one hidden layer and the same units. The first has independent units (scale 0), and
        the last is the machine that the ladder is for. Weights may be shared.
    samples : tuple of arrays of shape (n_samples, n_visible)
        Visible values that have the distribution of each machine.
    """

    machines: tuple
    samples: tuple

    def __len__(self):
        return len(self.machines)

    def machines_to(self, machine):
        """Return the machines with another one as the last; a tuple."""
        return (*self.machines[:-1], machine)

    def astype(self, dtype):
        """Return the ladder in another dtype; machines that share their weights still do."""
        if self.machines[-1].dtype == dtype:
            return self
        weights = {id(W): cast(W, dtype) for machine in self.machines for W in machine.weights}
        machines = tuple(
            replace(machine, weights=tuple(weights[id(W)] for W in machine.weights))
            for machine in self.machines
        )
        return Ladder(machines, tuple(cast(rows, dtype) for rows in self.samples))

    def given(self, X, observed):
        """Return the ladder whose machines have visible units at known values in each row.

        Neighbours are more alike than without these, as less is left to draw.

        Parameters
        ----------
        X : array of shape (n_rows, n_visible)
            The values, and anything where they are not known.
        observed : array of shape (n_rows, n_visible), bool

        Returns
        -------
        Ladder
            With the same samples, which do not have these values.
        """
        machines = tuple(clamped(machine, X, observed) for machine in self.machines)
        return Ladder(machines, self.samples)

    def move(self, k, n, rng):
        """Sweep about ``n`` samples of a rung, after proposals of the rung below, in place.

        Parameters
        ----------
        k : int
            The rung, counted from 0.
        n : int
            Or some fewer, so that each sample is taken as often as others.
        rng : Rng
        """
        machine, samples = self.machines[k], self.samples[k]
        step = -(-samples.shape[0] // n)  # samples that were taken together are far apart
        some = slice(int(rng.integers(step, 1)[0]), samples.shape[0], step)
        rows = samples[some, :]
        if k > 0:
            rows, _ = renewed(machine, rows, self.machines[k - 1], self.samples[k - 1], rng)
        samples[some, :] = swept(machine, rows, rng)

    def extended(self, machine, samples, n_kept, acceptance):
        """Return the ladder with one more rung; rungs that it makes needless are left out.

        Parameters
        ----------
        machine : Machine
        samples : array of shape (n_samples, n_visible)
        n_kept : int
            Number of samples of the rungs below that are kept, as copies.
        acceptance : float
            A rung is left out if its neighbours exchange at least this often without it.
        """
        machines, copy = list(self.machines), namespace(samples).asarray
        rows = [copy(last_rows(part, n_kept), copy=True) for part in self.samples]
        while len(machines) > 1:
            n = min(n_kept, samples.shape[0])
            pair, ends = (machines[-2], machine), (last_rows(rows[-2], n), last_rows(samples, n))
            if ends[0].shape[0] != n or exchange_rate(pair, ends) < acceptance:
                break
            del machines[-1], rows[-1]
        return Ladder((*machines, machine), (*rows, samples))


def log_weights(machine, rows):
    """Return log p(v) + log Z of visible values, (n_rows,), float64."""
    machine = in_double(machine)
    return -free_energy(machine, cast(rows, machine.dtype))


def exchange_rate(machines, rows):
    """Return the mean probability with which rows of two machines are exchanged, a float.

    Parameters
    ----------
    machines : tuple of two Machine
    rows : tuple of two arrays of shape (n_rows, n_visible)
        Samples of each.
    """
    first, second = (
        to_numpy(log_weights(machines[1], x) - log_weights(machines[0], x)) for x in rows
    )
    with np.errstate(over="ignore", invalid="ignore"):
        rates = np.exp(np.minimum(first - second, 0.0))
    return float(np.mean(np.where(rates == rates, rates, 0.0)))


def swept(machine, rows, rng):
    """Return visible values after one sweep of block Gibbs sampling."""
    chains = Gibbs().start(machine, rows, rng)
    if samples_exactly(machine):
        return last_visible(Gibbs(), machine, chains, rng, 1)
    return Gibbs().step(machine, chains, rng)[0].layers[0]


def renewed(machine, rows, below, samples, rng):
    """Replace rows of a machine by random samples of another one, by the rule of Metropolis.

    With samples of the right distribution, that of the rows stays as it is. The samples stay too:
    rows that are not yet in equilibrium, as the machine is learning, do not change them.

    Parameters
    ----------
    machine : Machine
    rows : array of shape (n_rows, n_visible)
    below : Machine
    samples : array of shape (n_samples, n_visible)
        Of the machine ``below``.
    rng : Rng

    Returns
    -------
    rows : array of shape (n_rows, n_visible)
    rate : array of shape (n_rows,)
        Probability of acceptance of each.
    """
    xp, n = namespace(rows), rows.shape[0]
    proposed = xp.take(samples, rng.integers(samples.shape[0], n), axis=0)
    both = xp.concat([proposed, rows], axis=0)
    gains = log_weights(machine, both) - log_weights(below, both)
    accepted, rate = metropolis(gains[:n] - gains[n:], rng)
    return choose(accepted, proposed, rows), rate


def collected(machine, rows, ladder, rng, n_burn_in, n_blocks, spacing):
    """Return samples of a machine by Gibbs sweeps and proposals of samples of a ladder.

    Half of the proposals are of its last rung, the others of all rungs in turn.

    Parameters
    ----------
    machine : Machine
    rows : array of shape (n_chains, n_visible)
        Where the chains start.
    ladder : Ladder
    rng : Rng
    n_burn_in : int
        Sweeps before the first samples.
    n_blocks, spacing : int
        How often the chains are taken as samples, and the sweeps before each time.

    Returns
    -------
    array of shape (n_blocks * n_chains, n_visible)
    """
    blocks = []
    for step in range(1, n_burn_in + n_blocks * spacing + 1):
        k = -1 if step % 2 else step // 2 % len(ladder)
        rows, _ = renewed(machine, rows, ladder.machines[k], ladder.samples[k], rng)
        rows = swept(machine, rows, rng)
        if step > n_burn_in and (step - n_burn_in) % spacing == 0:
            blocks.append(rows)
    return namespace(rows).concat(blocks, axis=0)


def ladder_of(
    machine, rng, *, visible=None, n_samples=_N_SAMPLES, acceptance=0.4, max_rungs=100, n_sweeps=100
):
    """Build a ladder for a machine by annealing.

    Chains go from independent units to the machine by temperatures. Each rung is placed where
    exchanges with the rung below are accepted as often as asked, by the weights of the chains. Then
    all rungs are sampled together. Of several kinds of independent units, those with the most rungs
    are taken of which the estimate of log Z is at most two nats below the largest: few rungs may
    come from units that lie in one mode, and whose chains do not find another. A machine that is
    near independent units needs none between: these reach all samples that came from others.

    Parameters
    ----------
    machine : Machine or estimator
        With one hidden layer.
    rng : Rng, int, RandomState, SeedSequence or None
    visible : Theta, default=None
        Parameters of independent visible units to start from, in addition to the machine's own
        and, if units are bounded, those of units that know no data.
    n_samples : int, default=200
        Samples of each rung.
    acceptance : float, default=0.4
        Rate of exchanges between neighbours that is aimed at.
    max_rungs : int, default=100
        Largest number of rungs. If it is reached, the last rungs are farther apart.
    n_sweeps : int, default=100
        Sweeps of all rungs in the end.

    Returns
    -------
    Ladder
    """
    check_count("n_samples", n_samples, 2)
    check_number("acceptance", acceptance, above=0, below=1)
    check_count("max_rungs", max_rungs, 2)
    machine = getattr(machine, "machine_", machine)
    rng = rng if hasattr(rng, "signed") else make_rng(rng, machine.weights[0])
    bases = [*own_bases(machine), *([] if visible is None else [visible])]
    trials = [_climbed(machine, base, rng, n_samples, acceptance, max_rungs) for base in bases]
    machines, rows = _chosen(trials)
    for turn in range(n_sweeps):
        rows, _ = exchanged(machines, rows, turn, rng)
        rows = swept_all(machines, rows, rng)
    return Ladder(tuple(machines), tuple(rows))


def _climbed(machine, visible, rng, n_samples, acceptance, max_rungs):
    """Return machines from independent units on, rows of each, and an estimate of log Z."""
    base, beta = uncoupled(machine, visible), 0.0
    rows = draw_visible(base, rng, n_samples)
    machines, samples, log_z = [base], [rows], independent_log_partition(base)
    while beta < 1:
        last = len(machines) + 1 >= max_rungs
        now = 1.0 if last else _next_rung(machine, base, beta, rows, acceptance)
        betas = np.linspace(beta, now, _SWEEPS + 1)
        ends = anneal(machine, base, betas, (rows, None), rng, resample=0.5)
        log_z += mean_of_weights(to_numpy(ends.log_weights)).value
        rows, beta = resampled(ends.layers[0], ends.log_weights, rng), now
        machines.append(interpolate(base, machine, beta) if beta < 1 else machine)
        samples.append(rows)
    return machines, samples, log_z


def _next_rung(machine, base, beta, rows, acceptance):
    """Return the inverse temperature of the next rung."""
    own = to_numpy(log_weights(interpolate(base, machine, beta), rows))

    def excess(now):
        if now == beta:
            return 1.0 - acceptance
        there = machine if now == 1.0 else interpolate(base, machine, now)
        return predicted_rate(to_numpy(log_weights(there, rows)) - own) - acceptance

    if excess(1.0) >= 0:
        return 1.0
    found = brentq(excess, beta, 1.0, xtol=_SMALLEST, rtol=_PRECISION)
    return min(1.0, max(found, beta + _SMALLEST))


def predicted_rate(gains):
    """Return how often rows are exchanged with those of another machine, by their own weights.

    The mean of min(1, exp(g_i - g_j)) over all rows i and j, where row j counts by exp(g_j): that
    is sum_ij min(exp(g_i), exp(g_j)) / (n sum_j exp(g_j)).

    Parameters
    ----------
    gains : ndarray of shape (n_rows,)
        log weights by the other machine minus those by the own one.
    """
    weights = np.sort(np.exp(gains - gains.max()))
    n = weights.size
    return float((weights * (2 * n - 1 - 2 * np.arange(n))).sum() / (n * weights.sum()))


# ------------------------------------------------------------------------- all rungs together


class Turn(NamedTuple):
    """What one turn of exchanges of neighbours has shown.

    Attributes
    ----------
    pairs : range
        The lower rung of each pair.
    gains : list of pairs of arrays of shape (n_chains,)
        log weights of the upper machine minus those of the lower one, at the values of the lower
        rung and of the upper one, before the exchange.
    rates : list of arrays of shape (n_chains,)
        Probability of acceptance.
    accepted : list of arrays of shape (n_chains,), bool
    """

    pairs: Any
    gains: list
    rates: list
    accepted: list


def exchanged(machines, rows, turn, rng):
    """Exchange the values of neighbours by the rule of Metropolis.

    Each chain has its own replica of every rung, and exchanges stay within a chain, so that chains
    are independent of each other.

    Parameters
    ----------
    machines : sequence of Machine
    rows : tuple of arrays of shape (n_chains, n_visible)
        Visible values of each rung.
    turn : int
        Even and odd pairs of neighbours take turns.
    rng : Rng

    Returns
    -------
    rows : tuple of arrays
    Turn
    """
    pairs, rows = range(turn % 2, len(machines) - 1, 2), list(rows)
    if not pairs:
        return tuple(rows), Turn(pairs, [], [], [])
    index = [k for pair in pairs for k in (pair, pair + 1)]
    partners = [k for pair in pairs for k in (pair + 1, pair)]
    chosen = [rows[k] for k in index]
    own = _each(log_weights, [machines[k] for k in index], chosen)
    other = _each(log_weights, [machines[k] for k in partners], chosen)
    gains, rates, taken = [], [], []
    for i, k in enumerate(pairs):
        below, above = other[2 * i] - own[2 * i], own[2 * i + 1] - other[2 * i + 1]
        accepted, rate = metropolis(below - above, rng)
        rows[k], rows[k + 1] = choose(accepted, (rows[k + 1], rows[k]), (rows[k], rows[k + 1]))
        gains.append((below, above))
        rates.append(rate)
        taken.append(accepted)
    return tuple(rows), Turn(pairs, gains, rates, taken)


def swept_all(machines, rows, rng):
    """Return the visible values of all rungs after one sweep of block Gibbs sampling."""
    return tuple(_each(lambda machine, x: swept(machine, x, rng), machines, rows))


def _each(function, machines, rows):
    """Return ``function(machine, rows)`` of each rung; one call if all share their weights."""
    W = machines[0].weights[0]
    if any(machine.weights[0] is not W for machine in machines):
        return [function(machine, x) for machine, x in zip(machines, rows, strict=True)]
    n = rows[0].shape[0]
    out = function(_stacked(machines, n), namespace(W).concat(list(rows), axis=0))
    return [take_rows(out, slice(k * n, (k + 1) * n)) for k in range(len(machines))]


def _stacked(machines, n):
    """Return the machine whose rows are those of machines with the same weights, n of each."""
    first = machines[0]
    xp = namespace(first.weights[0])

    def rows(*parts):
        return xp.concat([xp.broadcast_to(part, (n, part.shape[-1])) for part in parts], axis=0)

    thetas = tuple(
        theta.map(rows, *(machine.thetas[l] for machine in machines[1:]))
        for l, theta in enumerate(first.thetas)
    )
    every = np.tile(np.arange(n), len(machines))
    units = tuple(unit.rows(every) for unit in first.units)
    scales = np.repeat([float(machine.scale) for machine in machines], n)
    return replace(first, units=units, thetas=thetas, scale=from_numpy(scales, first.weights[0]))


def _chosen(trials):
    """Return machines and samples of one of several ladders, tuples (machines, rows, log Z)."""
    for trial in trials:
        if len(trial[0]) == 2 and _reaches(trial, trials):
            return trial[:2]
    top = max(log_z for *_, log_z in trials)
    found = [trial for trial in trials if trial[2] >= top - _AS_GOOD] or trials
    return max(found, key=lambda trial: len(trial[0]))[:2]


def _reaches(trial, trials):
    """Whether proposals of independent units often replace nearly every sample of all trials."""
    (base, machine), (proposed, _), _ = trial
    samples = namespace(proposed).concat([rows[-1] for _, rows, _ in trials], axis=0)
    own, others = (
        to_numpy(log_weights(machine, x) - log_weights(base, x))
        for x in (last_rows(proposed, _PROPOSED), samples)
    )
    rates = np.exp(np.minimum(own - others[:, None], 0.0)).mean(axis=1)
    return bool((rates >= _RARE).mean() >= 1 - _FEW)
