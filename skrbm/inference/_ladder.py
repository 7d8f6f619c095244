"""Ladders: machines from independent units to one of interest, with samples of each.

Neighbours on a ladder are so much alike that samples of one are often taken for samples of the
other. So chains that cannot leave a mode of the last machine can do so by way of the first. The
rungs are temperatures of one machine (parallel tempering; Geyer 1991, Hukushima and Nemoto 1996),
or machines that a training has passed through (parallel trajectory tempering; Bereux et al. 2025).
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..arrays import cast, last_rows, like, namespace, take_rows, to_numpy
from ..machine import in_double, log_ratio
from ._clamped import clamped
from ._gibbs import Gibbs, samples_exactly
from ._sampler import choose, last_visible, metropolis


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

    def __repr__(self):
        n_visible, n_hidden = self.machines[-1].n_units
        return f"<Ladder of {len(self)} machines of {n_visible} x {n_hidden} units>"

    def check(self, machine):
        """Raise ValueError if a machine has not the number and the kind of units of the rungs."""
        own = self.machines[-1]
        for layer, unit, other, n, size in zip(
            ("visible", "hidden"),
            own.units,
            machine.units,
            own.n_units,
            machine.n_units,
            strict=True,
        ):
            if n != size or not unit.asks_for(other):
                raise ValueError(
                    f"the ladder has {n} {layer} units {unit}, and the machine {size} {other}; "
                    "give a ladder of a machine with the same units, such as "
                    "ladder_of(estimator, random_state) builds"
                )

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


def gains_of(below, machine, rows):
    """Return the log weight of each row by ``machine`` minus that by ``below``, float64."""
    below, machine = in_double(below), in_double(machine)
    return log_ratio(below, machine, cast(rows, machine.dtype))


def exchange_rate(machines, rows):
    """Return the mean probability with which rows of two machines are exchanged, a float.

    Parameters
    ----------
    machines : tuple of two Machine
    rows : tuple of two arrays of shape (n_rows, n_visible)
        Samples of each.
    """
    return mean_rate(*(to_numpy(gains_of(*machines, x)) for x in rows))


def mean_rate(below, above):
    """Return the mean probability of exchanges by gains of the lower and the upper rows, a float.

    Parameters
    ----------
    below, above : ndarray
        log weights of the upper machine minus those of the lower one.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        rates = np.exp(np.minimum(below - above, 0.0))
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
    found = gains_of(below, machine, both)
    accepted, rate = metropolis(found[:n] - found[n:], rng)
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
    both = [rows[k + i] for k in pairs for i in (0, 1)]
    lower, upper = ([machines[k + i] for k in pairs for _ in (0, 1)] for i in (0, 1))
    found = _each(gains_of, both, lower, upper)
    found, rates, taken = list(zip(found[::2], found[1::2], strict=True)), [], []
    for k, (below, above) in zip(pairs, found, strict=True):
        accepted, rate = metropolis(below - above, rng)
        rows[k], rows[k + 1] = choose(accepted, (rows[k + 1], rows[k]), (rows[k], rows[k + 1]))
        rates.append(rate)
        taken.append(accepted)
    return tuple(rows), Turn(pairs, found, rates, taken)


def swept_all(machines, rows, rng):
    """Return the visible values of all rungs after one sweep of block Gibbs sampling."""
    return tuple(_each(lambda machine, x: swept(machine, x, rng), rows, machines))


def _each(function, rows, *machines):
    """Return ``function(*machines, rows)`` for each rung; one call if all share their weights.

    Each of ``machines`` has one for each rung.
    """
    W = machines[0][0].weights[0]
    joint = machines[0][0].thetas[0].joint
    if any(
        machine.weights[0] is not W or machine.thetas[0].joint is not joint
        for kind in machines
        for machine in kind
    ):
        return [function(*of_rung) for of_rung in zip(*machines, rows, strict=True)]
    n = rows[0].shape[0]
    stacked = (_stacked(kind, n) for kind in machines)
    out = function(*stacked, namespace(W).concat(list(rows), axis=0))
    return [take_rows(out, slice(k * n, (k + 1) * n)) for k in range(len(rows))]


def _stacked(machines, n):
    """Return the machine whose rows are those of machines with the same weights, n of each."""
    first = machines[0]
    xp = namespace(first.weights[0])

    def rows(*parts):
        return xp.concat([xp.broadcast_to(part, (n, part.shape[-1])) for part in parts], axis=0)

    thetas = tuple(
        theta.map_columns(rows, *(machine.thetas[l] for machine in machines[1:]))
        for l, theta in enumerate(first.thetas)
    )
    every = np.tile(np.arange(n), len(machines))
    units = tuple(unit.rows(every) for unit in first.units)
    options = {**like(first.weights[0]), "dtype": xp.float64}
    scales = xp.concat([xp.full(n, float(machine.scale), **options) for machine in machines])
    return replace(first, units=units, thetas=thetas, scale=scales)
