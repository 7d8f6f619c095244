"""Sequential Monte Carlo estimates of log Z, to an asked standard error (Del Moral et al. 2006)."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from .._checks import check_count, check_number
from ..arrays import log_sum_exp, namespace, one_blas_thread, take_rows, to_numpy
from ..machine import uncoupled
from ._ais import independent_log_partition, mean_of_weights
from ._annealing import anneal, effective_part, own_bases
from ._gibbs import Gibbs

_EFFECTIVE = 0.9  # part of the chains that is effective after each step of a trial
_SEARCHED = 0.1  # relative precision of the step
_SMALLEST = 1e-4  # step of the inverse temperature
_TRIAL = 4  # how many times as many temperatures as were placed a trial has
_REVERSE = 8  # and how many times as many a reverse run has
_LONGER = 4, 16  # how many times as many temperatures the first round and others have at most
_MARGIN = 1.2  # and times as many as its standard error would need
_PARTS = 40  # of a path whose variances are compared
_LEAST = 0.1  # density of temperatures in a part, relative to the largest
_RESAMPLED = 0.5  # effective part of a run below which its chains are drawn anew


@dataclass(frozen=True)
class SMC:
    """Annealing with resampling, which chooses its temperatures and goes on to an asked error.

    Chains go from independent units to the machine, one Gibbs sweep at each temperature. Chains of
    a run are drawn anew by their importance weights whenever less than half of them are effective.
    The estimate of Z is the mean of independent runs, each without bias. Its standard error comes
    from their spread, and is no smaller than that of the round or trial before lets expect: few
    runs may be close to each other by chance.

    Temperatures of a trial are placed where a step leaves a part of 0.9 of the chains effective,
    with three more in each step. Of several kinds of independent units, those are taken whose runs
    have the largest mean log Z in a trial, since that is a lower bound. A round follows, and others
    with more temperatures while the standard error is larger than asked. Each has its temperatures
    closer where the log weights of the last one spread fast, because the steps there are large or
    the chains slow: the density of the steps goes with the root of the rate at which the variance
    grows, which makes the whole variance a minimum (Sivak and Crooks 2012).

    Parameters
    ----------
    n_runs : int, default=16
        Independent runs.
    n_chains : int, default=8
        Chains of each run.
    std : float, default=0.1
        Standard error of log Z that is asked for, in nats.
    max_sweeps : int, default=10000
        Largest number of sweeps of all chains in all rounds. The trials and a first round that is
        as long as a trial are made in any case.

    References
    ----------
    Del Moral, P., Doucet, A., & Jasra, A. (2006). Sequential Monte Carlo samplers. Journal of the
    Royal Statistical Society B 68.

    Sivak, D. A., & Crooks, G. E. (2012). Thermodynamic metrics and optimal paths. Physical Review
    Letters 108.
    """

    n_runs: int = 16
    n_chains: int = 8
    std: float = 0.1
    max_sweeps: int = 10_000

    has_rungs = False

    def __post_init__(self):
        check_count("n_runs", self.n_runs, 2)
        check_count("n_chains", self.n_chains, 1)
        check_number("std", self.std, above=0)
        check_count("max_sweeps", self.max_sweeps, 1)

    @one_blas_thread
    def log_partition(self, machine, rng, visible=None):
        """Estimate log Z.

        Parameters
        ----------
        machine : Machine
        rng : Rng
        visible : Theta, default=None
            Parameters of independent visible units to start from, in addition to the machine's own
            and, if units are bounded, those of units that know no data.

        Returns
        -------
        LogPartition
        """
        bases = [*own_bases(machine), *([] if visible is None else [visible])]
        trials = [self._trial(machine, base, rng) for base in bases]
        base, betas, (log_z, parts) = max(trials, key=lambda trial: np.mean(trial[2][0]))
        result, n, left = mean_of_weights(log_z), len(betas) - 1, self.max_sweeps
        n = max(n, min(self._wanted(n, result, _LONGER[0]), left))
        while True:
            # The variance of log Z falls with the number of steps.
            expected = np.std(log_z, ddof=1) * np.sqrt((len(betas) - 1) / n / self.n_runs)
            betas = _retimed(betas, parts, n)
            log_z, parts = self._runs(machine, base, betas, rng, _RESAMPLED)
            result, left = mean_of_weights(log_z), left - n
            result = result._replace(std=max(result.std, float(expected)))
            if result.std <= self.std or left <= n:
                return result
            wanted = self._wanted(n, result, _LONGER[1])
            n = left if 2 * wanted > left else wanted

    def _wanted(self, n, result, longer):
        """Return how many steps may reach the standard error, at most ``longer`` times as many."""
        ratio = _MARGIN * (result.std / self.std) ** 2
        return int(np.ceil(n * min(max(1, ratio), longer)))

    @one_blas_thread
    def reverse_log_partition(self, machine, rng, samples, visible=None):
        """Estimate log Z by chains from samples of the machine to independent units.

        With samples from the machine itself, the estimate of 1 / Z has no bias, and that of log Z
        is too large on average. There is one round, with eight times the temperatures of the trial.

        Parameters
        ----------
        machine : Machine
        rng : Rng
        samples : sequence of arrays of shape (n_samples, n_units[l])
            Draws of all layers from the machine. All chains start at one of them each; they are
            repeated, or the first are used, to have as many as there are chains.
        visible : Theta, default=None
            Parameters of the independent visible units where chains end; default: the machine's
            own.

        Returns
        -------
        LogPartition
        """
        base, taken = uncoupled(machine, visible), [0.0]
        self._runs(machine, base, by_effective_part(taken), rng, 1.0)
        order = np.resize(np.arange(samples[0].shape[0]), self.n_runs * self.n_chains)
        # The first samples are spread over the runs, which should differ as little as they can.
        order = np.ascontiguousarray(np.reshape(order, (self.n_chains, self.n_runs)).T).ravel()
        start = [take_rows(layer, order) for layer in samples]
        betas = _refined(taken, _REVERSE)[::-1]
        log_z, _ = self._runs(machine, base, betas, rng, _RESAMPLED, start)
        return mean_of_weights(-log_z, sign=-1)

    def _trial(self, machine, visible, rng):
        """Return independent units, temperatures, and what runs from these units give."""
        base, taken = uncoupled(machine, visible), [0.0]
        self._runs(machine, base, by_effective_part(taken), rng, 1.0)
        betas = _refined(taken, _TRIAL)
        return base, betas, self._runs(machine, base, betas, rng, _RESAMPLED)

    def _runs(self, machine, base, betas, rng, resample, samples=None):
        """Return log Z by each of the runs, forward or in reverse from samples.

        Returns
        -------
        log_z : ndarray of shape (n_runs,)
        parts : ndarray of shape (n_chains, n_parts) or None
            What parts of the path added to the log weights of chains; None if the temperatures are
            chosen on the way.
        """
        n, start = self.n_runs * self.n_chains, samples
        if samples is None:
            start = Gibbs().init(base, rng, n, machine.weights[0]).layers
        n_parts = 0 if callable(betas) else min(_PARTS, len(betas) - 1)
        options = {"resample": resample, "n_groups": self.n_runs, "n_parts": n_parts}
        _, ends, parts = anneal(machine, base, betas, start, rng, **options)
        runs = namespace(ends).reshape(ends, (self.n_runs, self.n_chains))
        sums = to_numpy(log_sum_exp(runs)) - np.log(self.n_chains)
        log_z = independent_log_partition(base) + (sums if samples is None else -sums)
        return log_z, None if parts is None else to_numpy(parts)


def _refined(betas, finer):
    """Return a schedule with ``finer`` times as many steps."""
    places = np.arange(len(betas))
    return np.interp(np.linspace(0, places[-1], finer * places[-1] + 1), places, betas)


def _retimed(betas, parts, n_steps):
    """Return inverse temperatures that lie closer where the log weights of chains spread faster.

    The variance that a part of a path adds is what it has in common with the whole, and at least
    its own; chance can make the former too small.

    Parameters
    ----------
    betas : array of shape (n_temperatures,)
        Those of the last path.
    parts : ndarray of shape (n_chains, n_parts)
        What parts of that path added to log weights.
    n_steps : int
        Of the new path.

    Returns
    -------
    ndarray of shape (n_steps + 1,)
    """
    n, n_parts = len(betas) - 1, parts.shape[1]
    lengths = np.bincount(np.arange(n) * n_parts // n)  # as anneal splits its steps
    with np.errstate(over="ignore", invalid="ignore"):
        parts = parts - parts.mean(axis=0)
        common = (parts * parts.sum(axis=1, keepdims=True)).mean(axis=0)
        variances = np.nan_to_num(np.maximum((parts**2).mean(axis=0), common))
    density = np.sqrt(variances / lengths)
    density = np.maximum(density, _LEAST * density.max()) + np.finfo(float).tiny
    edges, clock = (np.cumsum([0, *each]) for each in (lengths, density * lengths))
    steps = np.interp(np.linspace(0, clock[-1], n_steps + 1), clock, edges)
    return np.interp(steps, np.arange(n + 1), betas)


def by_effective_part(taken=None, n_sweeps=1):
    """Return a function for :func:`anneal` that chooses temperatures, of ``n_sweeps`` sweeps each.

    After a step to the next a part of about 0.9 of the chains is effective. Temperatures are added
    to the list ``taken``, if it is given, whose last one is that of the chains.
    """
    taken = [0.0] if taken is None else taken

    def betas(gain):
        while taken[-1] < 1:
            taken.append(min(1.0, taken[-1] + _longest(gain, taken[-1])))
            yield from [taken[-1]] * n_sweeps

    return betas


def _longest(gain, beta):
    """Return the largest step after which about 0.9 of the chains are effective."""

    def excess(step):
        part = effective_part(gain(beta + step)) if step else 1.0
        return part - _EFFECTIVE if part == part else -_EFFECTIVE  # weights may overflow

    whole = 1 - beta
    if excess(whole) >= 0:
        return whole
    return max(brentq(excess, 0.0, whole, xtol=_SMALLEST, rtol=_SEARCHED), _SMALLEST)
