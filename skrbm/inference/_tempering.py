"""Tempering: chains of all rungs of a ladder, and log Z along it."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logsumexp

from .._checks import check_count
from ..arrays import one_blas_thread, take_rows, to_numpy
from ..machine import interpolate, uncoupled
from ._annealing import own_bases, temperatures
from ._clamped import chains_given
from ._gibbs import Gibbs
from ._ladder import exchanged_and_swept, ladder_of, mean_rate
from ._log_partition import LogPartition, independent_log_partition
from ._needs import Needs
from ._sampler import Sampler, draw_visible

_N_CHAINS = 64  # of estimates of log Z
RARE_EXCHANGES = 0.1  # acceptance of neighbours below which a ladder lacks rungs


class Replicas(NamedTuple):
    """State of :class:`Tempering`."""

    layers: tuple  # values of the machine itself, the last rung
    below: tuple  # visible values of the rungs below
    turn: int = 0  # which neighbours exchange next


class Exchanges(NamedTuple):
    """How often the chains of a ladder exchange their values, and how far these go.

    Attributes
    ----------
    n_steps : int
    acceptance : ndarray of shape (n_rungs - 1,)
        Mean acceptance probability of the exchanges of each pair of neighbours; NaN where there
        were none.
    round_trips : ndarray of shape (n_chains,), int
        How often a state has reached the last rung after visiting the first one since its last
        time there. If the first rung has independent units, such states are independent of the
        earlier ones.
    """

    n_steps: int
    acceptance: np.ndarray
    round_trips: np.ndarray


@dataclass(frozen=True)
class Tempering(Sampler):
    """Parallel tempering: chains on all rungs of a ladder, whose neighbours exchange their states.

    In each step, an exchange of every other pair of neighbours is accepted or rejected by the
    Metropolis rule, with the hidden units summed out, and then each rung makes a sweep of block
    Gibbs sampling. Each chain has its own replica of every rung.

    Parameters
    ----------
    rungs : int, array of shape (n_rungs,), Ladder or None, default=None
        Number of equally spaced inverse temperatures, or the inverse temperatures themselves, which
        increase from 0 to 1 (parallel tempering); or a ladder, such as one built by
        :func:`ladder_of`, whose machines below the last serve as rungs. At inverse temperature 0
        units are independent; bounded visible units then have default parameters, others keep their
        parameters. None means the ladder of a fitted estimator, or one built by annealing; in
        training, where the model changes, it means 10 temperatures.
    n_sweeps : int, default=200
        Number of steps of each chain in :meth:`log_partition`, after a burn-in of a fifth as many.
    n_chains : int or None, default=None
        Number of chains in training, as in :class:`Sampler`, and of independent chains in
        :meth:`log_partition`, where None is 64.
    n_steps, start, burn_in : as in :class:`Sampler`

    References
    ----------
    Hukushima, K., & Nemoto, K. (1996). Exchange Monte Carlo method and application to spin glass
    simulations. Journal of the Physical Society of Japan 65.
    """

    needs = Needs(one_hidden_layer=True)
    has_rungs = True

    rungs: Any = None
    n_sweeps: int = 200

    def __post_init__(self):
        super().__post_init__()
        if self.start not in (None, "persistent"):
            raise ValueError(f"Tempering needs persistent chains, got start={self.start!r}")
        check_count("n_sweeps", self.n_sweeps, 2)
        if self._ladder is None:
            betas = self._betas()
            if np.ndim(self.rungs):
                object.__setattr__(self, "rungs", betas)  # which is hashable

    @property
    def has_samples(self):
        return hasattr(self.rungs, "samples")

    @property
    def _ladder(self):
        return self.rungs if self.has_samples else None

    def _betas(self):
        """Return the inverse temperatures of rungs that are no ladder, a tuple."""
        given = 10 if self.rungs is None else self.rungs
        return tuple(temperatures("rungs, unless a Ladder,", given, 2).tolist())

    def check(self, machine):
        super().check(machine)
        if self._ladder is not None:
            self._ladder.check(machine)

    def machines(self, machine) -> tuple:
        """Return the machines of all rungs, the last of which is the one given."""
        if self._ladder is not None:
            return (*self._ladder.machines[:-1], machine)
        base = uncoupled(machine, own_bases(machine)[-1])
        between = (interpolate(base, machine, beta) for beta in self._betas()[1:-1])
        return (base, *between, machine)

    def on(self, machine, rng, ladder=None, visible=None):
        """Return the sampler with rungs for a machine, where it has none of its own.

        They are those of a ladder, by default of one that :func:`ladder_of` builds.
        """
        self.check(machine)
        if self.rungs is not None:
            return self
        found = ladder_of(machine, rng, visible=visible) if ladder is None else ladder
        return replace(self, rungs=found.astype(machine.dtype))

    def given(self, X, observed):
        ladder = self._ladder  # without one, the machine has the observed values
        return self if ladder is None else replace(self, rungs=ladder.given(X, observed))

    def tilted(self, field, precision=None):
        ladder = self._ladder
        return self if ladder is None else replace(self, rungs=ladder.tilted(field, precision))

    def state_at(self, machine, X, rng, given=None):
        """Return chains at visible values X; rungs below are at samples of a ladder, or at X."""
        self.check(machine)
        ladder = self._ladder
        below = (X,) * (len(self._betas()) - 1) if ladder is None else ladder.below(machine, X, rng)
        return Replicas(Gibbs().state_at(machine, X, rng, given).layers, below)

    def step(self, machine, state, rng):
        state, exchanges = self.moved(machine, state, rng)
        if not exchanges:
            return state, {}
        return state, {"exchange": sum(pair.rate for pair in exchanges) / len(exchanges)}

    def moved(self, machine, state, rng):
        """Return the state after one step, and the exchanges of it."""
        machines, rows = self.machines(machine), (*state.below, state.layers[0])
        (*below, X), exchanges = exchanged_and_swept(machines, rows, state.turn, rng)
        layers = Gibbs().state_at(machine, X, rng).layers
        return Replicas(layers, tuple(below), (state.turn + 1) % 2), exchanges

    def resumed(self, machine, state):
        if hasattr(state, "below"):
            return state
        n_below = len(self.machines(machine)) - 1
        return Replicas(state.layers, (state.layers[0],) * n_below)

    def diagnose(self, machine, state, rng, n_steps, *, callback=None):
        """Run the chains and count what they exchange.

        Parameters
        ----------
        machine : Machine
        state : Replicas
        rng : Rng
        n_steps : int
        callback : callable, optional
            Called after each step as ``callback(step, state, info)``, with steps counted from 1.

        Returns
        -------
        state : Replicas
        Exchanges
        """
        check_count("n_steps", n_steps, 1)
        n_pairs, n = len(state.below), state.layers[0].shape[0]
        sums, counts, trips = np.zeros(n_pairs), np.zeros(n_pairs), np.zeros(n, dtype=int)
        fresh = np.zeros((n_pairs + 1, n), dtype=bool)  # values that were last at the first rung
        for step in range(1, n_steps + 1):
            state, exchanges = self.moved(machine, state, rng)
            fresh[0] = True
            for k, _, rate, accepted in exchanges:
                sums[k], counts[k] = sums[k] + float(to_numpy(rate).mean()), counts[k] + 1
                taken = to_numpy(accepted)
                fresh[k, taken], fresh[k + 1, taken] = fresh[k + 1, taken], fresh[k, taken]
            trips += fresh[-1]
            fresh[-1] = False
            if callback is not None:
                callback(step, state, {})
        with np.errstate(invalid="ignore"):
            return state, Exchanges(n_steps, sums / counts, trips)

    @one_blas_thread
    def log_partition(self, machine, rng, visible=None) -> LogPartition:
        """Estimate log Z along the rungs by Bennett's acceptance ratio.

        The standard error is that of the mean over independent chains, so it is valid for any
        autocorrelation of their steps; if neighbours hardly overlap, it is as large as the
        difference of one-sided estimates. It does not reveal a mode that no chain finds.

        Parameters
        ----------
        machine : Machine
        rng : Rng
        visible : Theta, default=None
            Parameters of independent visible units, used if a ladder has to be built.

        Returns
        -------
        LogPartition
            Its ``acceptance`` is the lowest acceptance rate of two neighbours.
        """
        if self.rungs is None:
            return self.on(machine, rng, visible=visible).log_partition(machine, rng)
        self.check(machine)
        machines = self.machines(machine)
        if machines[0].scale != 0:
            raise ValueError("log Z needs a ladder whose first machine has independent units")
        n = _N_CHAINS if self.n_chains is None else self.n_chains
        check_count("n_chains", n, 2)  # the error is that of independent chains
        ladder = self._ladder
        X = draw_visible(machine, rng, n) if ladder is None else ladder.last(n, rng)
        state = self.state_at(machine, X, rng)
        gains = self.gains(machine, state, rng, self.n_sweeps)
        return _along(independent_log_partition(machines[0]), gains)

    def gains(self, machine, state, rng, n_sweeps):
        """Return the gains below and above of all exchanges of each pair of neighbours.

        They are a list of pairs of ndarrays of shape (n_exchanges, n_chains), of ``n_sweeps`` steps
        after a burn-in of a fifth as many.
        """
        gains, n_burn_in = [([], []) for _ in state.below], -(-n_sweeps // 5)
        for step in range(n_burn_in + n_sweeps):
            state, exchanges = self.moved(machine, state, rng)
            if step >= n_burn_in:
                for exchange in exchanges:
                    for kept, gain in zip(gains[exchange.k], exchange.gains, strict=True):
                        kept.append(to_numpy(gain))
        return [(np.array(below), np.array(above)) for below, above in gains]


def log_partitions_given(machine, sampler, X, observed, rng, n_chains, n_sweeps):
    """Return log Z given the observed values of each row along a ladder, and standard errors.

    The ladder, of the sampler, has independent units at its first rung. Each row has its own
    ``n_chains`` chains. The results are ndarrays of shape (n_rows,).
    """
    every = np.repeat(np.arange(X.shape[0]), n_chains)
    X, observed = take_rows(X, every), take_rows(observed, every)
    held, sampler, state = chains_given(machine, X, observed, rng, sampler)
    first = sampler.machines(held)[0]
    parts = zip(first.units, first.thetas, strict=True)
    log_z = sum(to_numpy(unit.total_log_partition(theta)) for unit, theta in parts)
    log_z, gains = np.broadcast_to(log_z, len(every)), sampler.gains(held, state, rng, n_sweeps)

    def of_row(start):
        own = slice(start, start + n_chains)
        return _along(log_z[start], [(below[:, own], above[:, own]) for below, above in gains])

    found = [of_row(start) for start in range(0, len(every), n_chains)]
    return np.array([row.value for row in found]), np.array([row.std for row in found])


def _along(log_z0, gains):
    """Return log Z by the gains of each pair of neighbours, as a :class:`LogPartition`."""
    value, influence, excess, rates = log_z0, 0.0, 0.0, []
    for below, above in gains:  # (n_steps, n_chains)
        ratio, moved = bennett(below, above)
        value, influence = value + ratio, influence + moved
        # One-sided estimates, by the samples of one machine, are too small and too large on
        # average. Where the machines have little in common, the spread of chains says little of
        # the error of Bennett's ratio, which lies between the two.
        first, second = (logsumexp(part) - np.log(part.size) for part in (below, -above))
        excess += max(0.0, ((first + second) / 4) ** 2 - _variance(moved))
        rates.append(mean_rate(below, above))
    std = np.sqrt(_variance(influence) + excess)
    return LogPartition(float(value), float(std), n=influence.size, acceptance=min(rates))


def _variance(influence):
    """Return the variance of a sum of what independent chains add to it."""
    return (influence**2).sum() * influence.size / (influence.size - 1)


def bennett(below, above):
    """Return log Z1 - log Z0 of two machines by Bennett's ratio (J. Comput. Phys. 22, 1976).

    It is the number c at which sum sigmoid(g - c) over samples of the first machine is
    sum sigmoid(c - g) over as many samples of the second. The gains g are log weights of the second
    machine minus those of the first, at samples of the first one (``below``) and of the second,
    arrays of shape (n_steps, n_chains).

    Returns c and what each chain adds to it, to first order: if chains are independent, the sum of
    squares is its variance.
    """

    def excess(c):
        return expit(below - c).sum() - expit(c - above).sum()

    low, high = min(below.min(), above.min()), max(below.max(), above.max())
    ratio = brentq(excess, low - 1.0, high + 1.0, xtol=1e-10)
    first, second = expit(below - ratio), expit(ratio - above)
    slope = (first * (1 - first)).sum() + (second * (1 - second)).sum()
    return ratio, (first - second).sum(axis=0) / slope
