"""Ladders: machines from independent units to one of interest, with samples of each.

Neighbours on a ladder are so similar that samples of one are often accepted as samples of the
other. Chains that cannot leave a mode of the last machine can therefore do so by way of the first.
The rungs are temperatures of one machine (parallel tempering; Geyer 1991, Hukushima and Nemoto
1996), or earlier states of a machine in training (parallel trajectory tempering; Bereux et al.
2025).
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from .._checks import check_count
from ..arrays import cast, last_rows, make_rng, namespace, to_numpy
from ..machine import (
    Machine,
    check_has_integral,
    condition,
    in_double,
    input_field,
    interpolate,
    log_ratio,
    uncoupled,
)
from ._annealing import anneal, own_bases, resampled
from ._clamped import clamped
from ._fixed_point import choose
from ._gibbs import Gibbs
from ._sampler import autocorrelation_between, draw_visible, last_visible, metropolis

# Building a ladder.
_MOST_CHAINS, _MOST_RUNGS = 200, 100  # largest numbers of annealed chains and of rungs
_ACCEPTANCE = 0.4  # target rate of exchanges between neighbours
_SPACING = 5  # sweeps between two samples of a chain
_SWEEPS = 10  # sweeps of annealing from one rung to the next
_SMALLEST = 1e-3  # distance between two rungs in inverse temperature
_PRECISION = 0.05  # relative precision of this distance
_CLOSE = 0.5  # acceptance, relative to the target, below which a rung is inserted
_ROUNDS = 3  # most rounds of insertions


@dataclass(frozen=True, eq=False)
class Ladder:
    """Sequence of machines from independent units to a given machine, with samples of each.

    Parameters
    ----------
    machines : tuple of Machine
        Machines with one hidden layer and the same units. The first has independent units (scale
        0), and the last is the machine for which the ladder was built. Weights may be shared.
    samples : tuple of arrays of shape (n_samples, n_visible)
        Visible values drawn from each machine.
    """

    machines: tuple
    samples: tuple

    def __len__(self):
        return len(self.machines)

    def __repr__(self):
        n_visible, n_hidden = self.machines[-1].n_units
        return f"<Ladder of {len(self)} machines of {n_visible} x {n_hidden} units>"

    def check(self, machine):
        """Raise ValueError unless a machine has the same units as the rungs."""
        own = self.machines[-1]
        layers = ("visible", "hidden"), own.units, machine.units, own.n_units, machine.n_units
        for layer, unit, other, n, size in zip(*layers, strict=True):
            if n != size or not unit.asks_for(other):
                raise ValueError(
                    f"the ladder has {n} {layer} units {unit}, but the model has {size} {other}; "
                    "build a ladder for this model with ladder_of(estimator, random_state)"
                )

    def below(self, machine, X, rng):
        """Return random samples as visible values for all rungs but the last, a tuple."""
        rows = (_some(rows, X.shape[0], rng) for rows in self.samples[:-1])
        return tuple(machine.units[0].with_known(part) for part in rows)

    def last(self, n, rng):
        """Return ``n`` random samples of the last rung, without repeats if there are enough."""
        return _some(self.samples[-1], n, rng)

    def astype(self, dtype):
        """Return the ladder in another dtype; shared weights stay shared."""
        if self.machines[-1].dtype == dtype:
            return self
        weights = {id(W): cast(W, dtype) for machine in self.machines for W in machine.weights}
        machines = tuple(
            replace(machine, weights=tuple(weights[id(W)] for W in machine.weights))
            for machine in self.machines
        )
        return Ladder(machines, tuple(cast(rows, dtype) for rows in self.samples))

    def given(self, X, observed):
        """Return the ladder with the visible units of all machines held at X where ``observed``.

        Both have shape (n_rows, n_visible). The samples are still those of the free machines.
        """
        return replace(self, machines=tuple(clamped(m, X, observed) for m in self.machines))

    def tilted(self, field, precision=None):
        """Return the ladder with the visible units of all machines tilted, each row by its own.

        The samples are still those of the free machines.
        """
        return replace(self, machines=tuple(m.tilted(0, field, precision) for m in self.machines))

    def move(self, k, n, rng):
        """Sweep about ``n`` samples of rung ``k`` in place, after proposals from the rung below.

        Fewer are swept if this makes it possible to take each sample equally often.
        """
        machine, samples = self.machines[k], self.samples[k]
        step = -(-samples.shape[0] // n)  # samples taken at the same time are far apart
        some = slice(int(rng.integers(step, 1)[0]), samples.shape[0], step)
        rows = samples[some, :]
        if k > 0:
            rows, _ = renewed(machine, rows, self.machines[k - 1], self.samples[k - 1], rng)
        samples[some, :] = _swept(machine, rows, rng)

    def extended(self, machine, samples, n_kept, acceptance):
        """Return the ladder with a machine and its samples as one more rung.

        From each rung below, ``n_kept`` samples are copied. Rungs are left out if their neighbours
        exchange at a rate of at least ``acceptance`` without them.
        """
        machines, copy = list(self.machines), namespace(samples).asarray
        rows = [copy(last_rows(part, n_kept), copy=True) for part in self.samples]
        while len(machines) > 1:
            n = min(n_kept, samples.shape[0])
            ends = last_rows(rows[-2], n), last_rows(samples, n)
            if ends[0].shape[0] != n or exchange_rate((machines[-2], machine), ends) < acceptance:
                break
            del machines[-1], rows[-1]
        return Ladder((*machines, machine), (*rows, samples))


def _some(rows, n, rng):
    """Return ``n`` random rows, without repeats if there are enough."""
    return namespace(rows).take(rows, rng.choice(rows.shape[0], n), axis=0)


def gains_of(below, machine, rows):
    """Return the log weight of each row under ``machine`` minus that under ``below``, float64."""
    below, machine = in_double(below), in_double(machine)
    return log_ratio(below, machine, cast(rows, machine.dtype))


def exchange_rate(machines, rows) -> float:
    """Return the mean probability with which rows of two machines are exchanged.

    ``rows`` are samples of each of the two ``machines``.
    """
    return mean_rate(*(to_numpy(gains_of(*machines, x)) for x in rows))


def mean_rate(below, above) -> float:
    """Return the mean probability of exchanges, given the gains of rows of two machines."""
    with np.errstate(over="ignore", invalid="ignore"):
        rates = np.exp(np.minimum(below - above, 0.0))
    return float(np.mean(np.where(rates == rates, rates, 0.0)))


def _swept(machine, rows, rng, given=None):
    """Return visible values after one sweep of block Gibbs sampling.

    ``given`` are the parameters of the hidden units given the rows, if already known.
    """
    if machine.scale == 0:  # the visible units are independent
        return draw_visible(machine.of_rows(rows), rng, rows.shape[0])
    chains = Gibbs().state_at(machine, rows, rng, given)
    if machine.samples_exactly:
        return last_visible(Gibbs(), machine, chains, rng, 1)
    return Gibbs().step(machine, chains, rng)[0].layers[0]


def renewed(machine, rows, below, samples, rng):
    """Replace rows of a machine by random ``samples`` of another, by the Metropolis rule.

    This leaves the distribution of the rows invariant. The samples are not changed, so that rows
    which lag behind a machine that is learning do not spoil them. Returns the rows and the
    probability of acceptance of each.
    """
    xp, n = namespace(rows), rows.shape[0]
    proposed = xp.take(samples, rng.integers(samples.shape[0], n), axis=0)
    gains = gains_of(below, machine, xp.concat([proposed, rows], axis=0))
    accepted, rate = metropolis(gains[:n] - gains[n:], rng)
    return choose(accepted, proposed, rows), rate


def collected(machine, rows, ladder, rng, n_burn_in, n_blocks, spacing):
    """Return samples of a machine, by Gibbs sweeps and proposals from the samples of a ladder.

    Half of the proposals come from its last rung, the others from all rungs in turn. Chains start
    at ``rows``. After ``n_burn_in`` sweeps each chain gives ``n_blocks`` samples, ``spacing``
    sweeps apart: an array of shape (n_blocks * n_chains, n_visible).
    """
    blocks = []
    for step in range(1, n_burn_in + n_blocks * spacing + 1):
        k = -1 if step % 2 else step // 2 % len(ladder)
        rows, _ = renewed(machine, rows, ladder.machines[k], ladder.samples[k], rng)
        rows = _swept(machine, rows, rng)
        if step > n_burn_in and (step - n_burn_in) % spacing == 0:
            blocks.append(rows)
    return namespace(rows).concat(blocks, axis=0)


class Exchange(NamedTuple):
    """An exchange of the rungs ``k`` and ``k + 1``, in each chain.

    ``gains`` are log weights under the upper machine minus those under the lower one, at the values
    of the lower and of the upper rung before the exchange; ``rate`` is the probability of
    acceptance.
    """

    k: int
    gains: tuple
    rate: Any
    accepted: Any


def exchanged_and_swept(machines, rows, turn, rng):
    """Exchange the even or the odd pairs of neighbours by the Metropolis rule; sweep all rungs.

    ``rows`` holds one array for each rung. A chain is the same row of all arrays, and is
    independent of the other chains. Returns the rows and a list of :class:`Exchange`.
    """
    rows, thetas, exchanges = list(rows), {}, []
    doubles = _rungs_in_double(machines)
    given = _hidden_given(doubles, [cast(x, doubles[0].dtype) for x in rows])
    for k in range(turn % 2, len(machines) - 1, 2):
        both, pair = (rows[k], rows[k + 1]), doubles[k : k + 2]
        (a, b), (c, d) = ([given(j, i) for j in (k, k + 1)] for i in (k, k + 1))
        below = log_ratio(*pair, cast(both[0], pair[0].dtype), (a, b))
        above = log_ratio(*pair, cast(both[1], pair[0].dtype), (c, d))
        accepted, rate = metropolis(below - above, rng)
        rows[k], rows[k + 1] = choose(accepted, both[::-1], both)
        thetas[k], thetas[k + 1] = choose(accepted, (c, b), (a, d))
        exchanges.append(Exchange(k, (below, above), rate, accepted))
    for k, machine in enumerate(machines):
        theta = given(k, k) if k not in thetas else thetas[k]
        theta = theta.map(lambda part, dtype=machine.dtype: cast(part, dtype))
        rows[k] = _swept(machine, rows[k], rng, theta)
    return tuple(rows), exchanges


def _rungs_in_double(machines):
    """Return each machine as :func:`in_double` does; shared weights stay shared."""
    if machines[0].units[0].is_discrete:
        return machines
    double = namespace(machines[0].weights[0]).float64
    weights = {id(machine.weights[0]): machine.weights[0] for machine in machines}
    weights = {key: cast(W, double) for key, W in weights.items()}
    return [replace(machine, weights=(weights[id(machine.weights[0])],)) for machine in machines]


def _hidden_given(machines, rows):
    """Return a function of j and k: the parameters of the hidden units of machine j given rows k.

    If the machines are temperatures of one machine, they share the products with the weights.
    """
    W = machines[0].weights[0]
    if any(machine.weights[0] is not W for machine in machines):
        return lambda j, k: condition(machines[j], rows[k])
    unscaled = replace(machines[0], scale=1.0)
    fields = [input_field(unscaled, 1, (x, None)) for x in rows]
    return lambda j, k: (
        machines[j].units[1].tilt(machines[j].thetas[1], machines[j].scale * fields[k])
    )


def ladder_of(machine, rng, *, visible=None, n_samples=200, n_sweeps=100) -> Ladder:
    """Build a ladder for a machine by annealing.

    Chains are annealed from independent units to the machine. Each rung is placed such that 40 % of
    the exchanges with the rung below should be accepted, and then all rungs are sampled together.
    Where the acceptance is less than half of that, a rung is inserted, and all are sampled again.
    If more than 100 rungs are needed, the last ones are placed farther apart. If annealing starts
    from several kinds of independent units, the last rung of each ladder starts at samples of all
    ladders, and the ladder whose chains mix best is returned, since some modes cannot be reached
    from some starts.

    Parameters
    ----------
    machine : Machine or estimator
        A machine with one hidden layer.
    rng : Rng, int, RandomState, SeedSequence or None
    visible : Theta, default=None
        Parameters of independent visible units to start from, in addition to the machine's own
        and, if units are bounded, their defaults.
    n_samples : int, default=200
        Number of samples of each rung. If more than 200, they are states of 200 chains at several
        times.
    n_sweeps : int, default=100
        Number of final sweeps of all rungs, which are repeated after rungs are inserted.

    Raises
    ------
    TypeError
        If ``machine`` is neither a Machine nor an estimator with the attribute ``machine_``.
    ValueError
        If the machine has several hidden layers, or ``visible`` does not match its units.
    DivergenceError
        If the distribution of the machine cannot be normalized.
    """
    check_count("n_samples", n_samples, 2)
    check_count("n_sweeps", n_sweeps, 0)
    found = getattr(machine, "machine_", machine)
    if not isinstance(found, Machine):
        kind = type(machine).__name__
        raise TypeError(f"ladder_of needs a fitted estimator or a Machine, got {kind}")
    machine = found
    if len(machine.units) != 2:
        raise ValueError(f"a ladder needs one hidden layer, got {len(machine.units) - 1}")
    check_has_integral(machine)
    if visible is not None and not machine.thetas[0].is_like(visible):
        raise ValueError(
            f"visible must be a Theta of finite parameters of {machine.n_units[0]} units "
            f"{machine.units[0]}, got {visible!r}"
        )
    rng = rng if hasattr(rng, "bits") else make_rng(rng, machine.weights[0])
    n, bases = min(n_samples, _MOST_CHAINS), own_bases(machine, visible)
    trials = [_climbed(machine, base, rng, n) for base in bases]
    machines, rows, rates = _best_mixed(trials, n_sweeps, rng)
    for _ in range(_ROUNDS):
        apart = rates < _CLOSE * _ACCEPTANCE
        if not apart.any() or len(machines) >= _MOST_RUNGS:
            break
        for k in np.flatnonzero(apart)[: _MOST_RUNGS - len(machines)][::-1].tolist():
            machines.insert(k + 1, interpolate(machines[k], machines[k + 1], 0.5))
            rows = (*rows[: k + 1], rows[k], *rows[k + 1 :])
        rows, rates = _mixed(machines, rows, n_sweeps, rng)
    blocks = [rows]
    for _ in range((n_samples - 1) // n):
        rows, _ = _mixed(machines, rows, _SPACING, rng)
        blocks.append(rows)
    concat = namespace(rows[0]).concat
    samples = (last_rows(concat(own, axis=0), n_samples) for own in zip(*blocks, strict=True))
    return Ladder(tuple(machines), tuple(samples))


def _climbed(machine, visible, rng, n_samples):
    """Return machines from independent units up to the given one, and samples of each."""
    base, beta = uncoupled(machine, visible), 0.0
    rows = draw_visible(base, rng, n_samples)
    machines, samples = [base], [rows]

    def excess(now):
        if now == beta:
            return 1.0 - _ACCEPTANCE
        there = machine if now == 1.0 else interpolate(base, machine, now)
        return predicted_rate(to_numpy(gains_of(machines[-1], there, rows))) - _ACCEPTANCE

    while beta < 1:
        now = 1.0
        if len(machines) + 1 < _MOST_RUNGS and excess(1.0) < 0:
            found = brentq(excess, beta, 1.0, xtol=_SMALLEST, rtol=_PRECISION)
            now = min(1.0, max(found, beta + _SMALLEST))
        betas = np.linspace(beta, now, _SWEEPS + 1)
        ends = anneal(machine, base, betas, (rows, None), rng, resample=0.5)
        rows, beta = resampled(ends.layers[0], ends.log_weights, rng), now
        machines.append(interpolate(base, machine, beta) if beta < 1 else machine)
        samples.append(rows)
    return machines, tuple(samples)


def predicted_rate(gains) -> float:
    """Return the rate at which rows would be exchanged with samples of another machine.

    The rows, weighted by the exponentials of their ``gains``, stand in for these samples. The
    result is sum_ij min(exp(g_i), exp(g_j)) / (n sum_j exp(g_j)).
    """
    weights = np.sort(np.exp(gains - gains.max()))
    n = weights.size
    return float((weights * (2 * n - 1 - 2 * np.arange(n))).sum() / (n * weights.sum()))


def _mixed(machines, rows, n_sweeps, rng):
    """Return samples of all rungs after sweeps, and the rates at which neighbours exchange.

    The rates are means over the second half of the sweeps, as an ndarray of shape (n_rungs - 1,),
    with NaN where there were no exchanges.
    """
    sums, counts = np.zeros((2, len(machines) - 1))
    for turn in range(n_sweeps):
        rows, exchanges = exchanged_and_swept(machines, rows, turn, rng)
        if 2 * turn >= n_sweeps:
            for exchange in exchanges:
                sums[exchange.k] += float(to_numpy(exchange.rate).mean())
                counts[exchange.k] += 1
    with np.errstate(invalid="ignore"):
        return rows, sums / counts


def _best_mixed(trials, n_sweeps, rng):
    """Return machines, samples and exchange rates of the ladder whose chains mix best.

    All ladders start at samples of all trials. After ``n_sweeps``, the chains of the returned one
    depend least on where they started.
    """
    xp, n = namespace(trials[0][1][-1]), trials[0][1][-1].shape[0]
    starts = xp.concat([rows[-1] for _, rows in trials], axis=0)
    starts = xp.take(starts, rng.permutation(starts.shape[0])[:n], axis=0)
    begin, found = to_numpy(starts), []
    for machines, rows in trials:
        rows, rates = _mixed(machines, (*rows[:-1], starts), n_sweeps, rng)
        rho = autocorrelation_between(begin, to_numpy(rows[-1]))
        found.append((rho, machines, rows, rates))
    return min(found, key=lambda trial: trial[0])[1:]
