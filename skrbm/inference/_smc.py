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
_FIRST = 4  # how many times as many temperatures as in the trial the first round has
_REVERSE = 8  # and how many times as many a reverse run has
_FINER = 8  # how many times as many temperatures the next round has at most
_RESAMPLED = 0.5  # effective part of a run below which its chains are drawn anew


@dataclass(frozen=True)
class SMC:
    """Annealing with resampling, which chooses its temperatures and goes on to an asked error.

    Chains go from independent units to the machine, one Gibbs sweep at each temperature. Chains of
    a run are drawn anew by their importance weights whenever less than half of them are effective.
    The estimate of Z is the mean of independent runs, each without bias, and its standard error
    comes from their spread.

    Temperatures are placed where a step leaves a part of 0.9 of the chains effective, with three
    more in each step. Of several kinds of independent units, those are taken whose runs have the
    largest mean log Z in a trial, since that is a lower bound. While the standard error is larger
    than asked, all is repeated with more temperatures at the same places.

    Parameters
    ----------
    n_runs : int, default=16
        Independent runs.
    n_chains : int, default=8
        Chains of each run.
    std : float, default=0.1
        Standard error of log Z that is asked for, in nats.
    max_sweeps : int, default=10_000
        Largest number of sweeps of all chains in all rounds. The trials of temperatures and the
        first round are made in any case.
    """

    n_runs: int = 16
    n_chains: int = 8
    std: float = 0.1
    max_sweeps: int = 10_000

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
        base, _, betas = max(trials, key=lambda trial: trial[1])
        left, finer = self.max_sweeps, _FIRST
        while True:
            schedule = _refined(betas, finer)
            result = mean_of_weights(self._runs(machine, base, schedule, rng, _RESAMPLED))
            left -= len(schedule) - 1
            most = left // (len(betas) - 1)
            if result.std <= self.std or most <= finer:
                return result
            wanted = finer * min(max(2, (result.std / self.std) ** 2), _FINER)
            finer = most if 2 * wanted > most else int(np.ceil(wanted))

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
        self._runs(machine, base, _by_effective_part(taken), rng, 1.0)
        order = np.resize(np.arange(samples[0].shape[0]), self.n_runs * self.n_chains)
        # The first samples are spread over the runs, which should differ as little as they can.
        order = np.ascontiguousarray(np.reshape(order, (self.n_chains, self.n_runs)).T).ravel()
        start = [take_rows(layer, order) for layer in samples]
        betas = _refined(taken, _REVERSE)[::-1]
        return mean_of_weights(-self._runs(machine, base, betas, rng, _RESAMPLED, start), sign=-1)

    def _trial(self, machine, visible, rng):
        """Return independent units, the mean log Z of runs from them, and temperatures."""
        base, taken = uncoupled(machine, visible), [0.0]
        self._runs(machine, base, _by_effective_part(taken), rng, 1.0)
        log_z = self._runs(machine, base, _refined(taken, _FIRST), rng, _RESAMPLED)
        return base, np.mean(log_z), taken

    def _runs(self, machine, base, betas, rng, resample, samples=None):
        """Return log Z by each of the runs, (n_runs,): forward, or in reverse from samples."""
        n, start = self.n_runs * self.n_chains, samples
        if samples is None:
            start = Gibbs().init(base, rng, n, machine.weights[0]).layers
        ends = anneal(
            machine, base, betas, start, rng, resample=resample, n_groups=self.n_runs
        ).log_weights
        runs = namespace(ends).reshape(ends, (self.n_runs, self.n_chains))
        sums = to_numpy(log_sum_exp(runs)) - np.log(self.n_chains)
        return independent_log_partition(base) + (sums if samples is None else -sums)


def _refined(betas, finer):
    """Return a schedule with ``finer`` times as many steps."""
    places = np.arange(len(betas))
    return np.interp(np.linspace(0, places[-1], finer * places[-1] + 1), places, betas)


def _by_effective_part(taken):
    """Return a function for :func:`anneal` that chooses temperatures, and adds them to a list."""

    def betas(gain):
        while taken[-1] < 1:
            taken.append(min(1.0, taken[-1] + _longest(gain, taken[-1])))
            yield taken[-1]

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
