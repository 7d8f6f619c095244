"""Estimates of log Z by annealing: with independent chains, and with resampling."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from .._checks import check_count, check_number
from ..arrays import log_sum_exp, namespace, one_blas_thread, take_rows, to_numpy
from ..machine import uncoupled
from ._annealing import SmallSteps, anneal, own_bases, temperatures
from ._gibbs import Gibbs

_SALAKHUTDINOV = (
    np.linspace(0, 0.5, 500, endpoint=False),
    np.linspace(0.5, 0.9, 4000, endpoint=False),
    np.linspace(0.9, 1.0, 10_001),
)
_BLOCK = 100  # chains of AIS that are annealed together
_COARSER = 4  # steps of AIS for one of its trials
_HARD = 0.5  # effective part of the chains of AIS, below which other independent units run too
_SURE = 5.0  # standard errors by which their trials may be worse
_LARGEST = 3.0  # variance of the log weights of runs, above which it tells no more
# Of SMC.
_SPREAD = 0.2  # nats by which log weights spread in a step of a trial
_REVERSE = 5  # steps of a reverse run, relative to a trial
_LONGER = 16  # largest ratio of the lengths of successive rounds
_MARGIN = 1.2  # factor of the number of steps that the standard error seems to need
_RESAMPLED = 0.5  # effective part of a run below which its chains are resampled


class LogPartition(NamedTuple):
    """An estimate of log Z.

    Attributes
    ----------
    value : float
        log Z, in nats.
    std : float
        Standard error of ``value``; 0 if it is exact, NaN if it is unknown.
    ess : float
        Effective sample size of the ``n`` independent estimates of Z; NaN if there are none.
    n : int or None
        Number of independent estimates of Z, which are averaged: chains of :class:`AIS`, runs of
        :class:`SMC`, or chains of :class:`~skrbm.inference.Tempering`.
    acceptance : float
        With :class:`~skrbm.inference.Tempering`, the lowest acceptance rate of exchanges between
        two neighbours of the ladder; otherwise NaN. If it is below 0.1, the ladder has too few
        rungs.
    """

    value: float
    std: float = 0.0
    ess: float = float("nan")
    n: int | None = None
    acceptance: float = float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of log Z.

        Based on Student's t distribution with n - 1 degrees of freedom; NaN if ``std`` is NaN.
        """
        if self.std == 0:
            return self.value, self.value
        half = stdtrit((self.n or 1) - 1, 0.975) * self.std
        return float(self.value - half), float(self.value + half)


def mean_of_weights(log_weights, log_z0=0.0, sign=1, shares=None) -> LogPartition:
    """Return log Z = log_z0 + sign * log mean exp(log_weights).

    ``shares`` in the mean sum to 1, by default equal; its number is the effective one.
    """
    top = log_weights.max()
    weights = np.exp(log_weights - top)
    shares = np.full(weights.size, 1 / weights.size) if shares is None else shares
    mean, n = shares @ weights, 1 / (shares @ shares)
    std = float("nan")
    if weights.size > 1:
        std = np.sqrt(shares**2 @ (weights - mean) ** 2 * n / (n - 1)) / mean
    ess = mean**2 / (shares**2 @ weights**2)
    value = log_z0 + sign * (top + np.log(mean))
    return LogPartition(float(value), float(std), float(ess), round(n))


def of_runs(runs) -> LogPartition:
    """Return log Z by runs, an ndarray of log Z by each.

    The standard error is that of weights whose logarithms are normal: among few weights with a long
    tail, their own variance is mostly too small. What large weights add to log Z is half of the
    variance of the logarithms then. As few runs may have seen none, this is an error too.
    """
    value, variance = mean_of_weights(runs), min(float(np.var(runs, ddof=1)), _LARGEST)
    return value._replace(std=math.hypot(math.sqrt(math.expm1(variance) / runs.size), variance / 2))


def independent_log_partition(base) -> float:
    """Return log Z of independent units."""
    pairs = zip(base.units, base.thetas, strict=True)
    return sum(float(unit.total_log_partition(theta)) for unit, theta in pairs)


class _Annealing:
    """Estimates of log Z by chains between independent units and a machine."""

    @one_blas_thread
    def log_partition(self, machine, rng, visible=None) -> LogPartition:
        """Estimate log Z by chains from independent units to the machine.

        The estimate of Z is unbiased, so that of log Z is too small on average, especially if the
        chains miss modes of the machine.

        Parameters
        ----------
        machine : Machine
        rng : Rng
        visible : Theta, default=None
            Parameters of independent visible units to start from, in addition to the machine's own
            and, if units are bounded, their defaults.
        """
        bases = [uncoupled(machine, theta) for theta in own_bases(machine, visible)]
        return self._forward(machine, bases, rng)

    @one_blas_thread
    def reverse_log_partition(self, machine, rng, samples, visible=None) -> LogPartition:
        """Estimate log Z by chains from samples of the machine to independent units.

        With exact samples of the machine, the estimate of 1 / Z is unbiased, so that of log Z is
        too large on average. Together with :meth:`log_partition` it brackets log Z.

        Parameters
        ----------
        machine : Machine
        rng : Rng
        samples : sequence of arrays of shape (n_samples, n_units[l])
            Draws of all layers from the machine, such as the ends of Gibbs chains. :class:`AIS`
            has one chain from each; :class:`SMC` has its own number of chains, and repeats samples
            or uses the first ones.
        visible : Theta, default=None
            Parameters of the independent visible units at which the chains end; by default the
            machine's own.
        """
        return self._reverse(machine, uncoupled(machine, visible), rng, samples)


def _surely(estimate):
    """Return what log Z is at least, by two standard errors."""
    return estimate.value - 2 * estimate.std


def _exceed(runs, others):
    """Whether runs are higher than others by a standard error: the others miss modes then."""
    variance = sum(np.var(part, ddof=1) / part.size for part in (runs, others))
    return np.mean(runs) - np.mean(others) > np.sqrt(variance)


def _apart(one, other):
    """Return the squared difference of two estimates, less what their errors explain."""
    return max(0.0, (one.value - other.value) ** 2 - one.std**2 - other.std**2)


@dataclass(frozen=True)
class AIS(_Annealing):
    """Annealed importance sampling of log Z.

    In a trial run with a quarter of the steps, chains start from several kinds of independent
    units. Those with the largest log Z are used, since chains may miss modes but cannot find too
    many; if the effective sample size is less than half of the chains, so are all whose log Z is
    not significantly smaller. The standard error combines that of the weights with the part of the
    difference between these runs, or of the change of log Z since the trial, that their own errors
    do not explain. This is needed since chains that are annealed too fast agree with each other on
    a log Z that is too small, even if their effective sample size is large.

    Parameters
    ----------
    n_chains : int, default=100
        Number of independent chains, each of which gives one importance weight.
    schedule : int, {"salakhutdinov2008"} or array, default=1000
        Number of equal steps of the inverse temperature; "salakhutdinov2008" for the 14 500 steps
        of Salakhutdinov and Murray (2008); or the inverse temperatures themselves.

    References
    ----------
    Neal, R. M. (2001). Annealed importance sampling. Statistics and Computing 11.

    Salakhutdinov, R., & Murray, I. (2008). On the quantitative analysis of deep belief networks.
    ICML.
    """

    n_chains: int = 100
    schedule: Any = 1000

    def __post_init__(self):
        check_count("n_chains", self.n_chains, 1)
        self._betas()

    def _betas(self):
        if isinstance(self.schedule, str) and self.schedule == "salakhutdinov2008":
            return np.concatenate(_SALAKHUTDINOV)
        return temperatures("schedule", self.schedule, 1)

    def _forward(self, machine, bases, rng):
        betas = self._betas()
        few = np.append(betas[:-1:_COARSER], 1.0)
        trials = [(self._estimate(machine, base, few, rng), base) for base in bases]
        trials.sort(key=lambda pair: _surely(pair[0]), reverse=True)
        (best, base), *others = trials
        found = self._estimate(machine, base, betas, rng)
        runs = [(found, best)]
        if found.ess < _HARD * found.n:
            for trial, base in others:
                if best.value - trial.value < _SURE * np.hypot(best.std, trial.std):
                    runs.append((self._estimate(machine, base, betas, rng), trial))
        found, trial = max(runs, key=lambda pair: _surely(pair[0]))
        apart = max(_apart(found, other) for other in (trial, *(run for run, _ in runs)))
        return found._replace(std=float(np.sqrt(found.std**2 + apart)))

    def _reverse(self, machine, base, rng, samples):
        return self._estimate(machine, base, self._betas()[::-1], rng, samples)

    def _estimate(self, machine, base, betas, rng, samples=None):
        """Return log Z by blocks of chains, each with a random stream of its own."""
        n = self.n_chains if samples is None else samples[0].shape[0]
        starts, log_weights = range(0, n, _BLOCK), []
        for start, stream in zip(starts, rng.spawn(len(starts)), strict=True):
            rows = slice(start, min(start + _BLOCK, n))
            if samples is None:
                layers = Gibbs().init(base, stream, rows.stop - start).layers
            else:
                layers = [take_rows(layer, rows) for layer in samples]
            log_weights.append(to_numpy(anneal(machine, base, betas, layers, stream).log_weights))
        sign = 1 if samples is None else -1
        return mean_of_weights(np.concatenate(log_weights), independent_log_partition(base), sign)


@dataclass(frozen=True)
class SMC(_Annealing):
    """Sequential Monte Carlo estimate of log Z, to a given standard error.

    Chains are annealed from independent units to the model, with one Gibbs sweep at each
    temperature. The chains of a run are resampled by their importance weights when their effective
    sample size falls below half of their number. The estimate of Z is the mean of independent,
    unbiased runs. Its standard error is computed from their spread, but is never smaller than the
    previous round predicts, since a few runs may agree by chance.

    Temperatures are adaptive. In a trial, log weights have a standard deviation of 0.2 nats in each
    step, or less if few of them are large. Runs start from several kinds of independent units, and
    the kind with the largest mean log Z in the trial is used, since this is a lower bound. Rounds
    follow until the standard error is reached, the first with a standard deviation of 0.1 nats.
    Only the last round counts: since the earlier ones decided whether it was run, pooling them
    would bias the result. The reverse estimate has a single round.

    Parameters
    ----------
    n_runs : int, default=16
        Number of independent runs.
    n_chains : int, default=8
        Number of chains in each run.
    std : float, default=0.1
        Standard error of log Z to reach, in nats.
    max_sweeps : int, default=10000
        Maximum number of sweeps of all chains in all rounds. The trials and a first round are made
        in any case.

    References
    ----------
    Del Moral, P., Doucet, A., & Jasra, A. (2006). Sequential Monte Carlo samplers. Journal of the
    Royal Statistical Society B 68.
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
    def refined(self, machine, rng, visible, runs) -> LogPartition:
        """Estimate log Z as :meth:`log_partition` does, where runs of other chains are known.

        They take the place of the trial from ``visible``, unless log Z by the other trial is higher
        by a standard error. If their own is small enough, they are the result. Otherwise they are
        pooled with each round, weighted as half the steps of the first, unless log Z by that is
        higher by a standard error.

        Parameters
        ----------
        machine : Machine
        rng : Rng
        visible : Theta
            Parameters of independent visible units like those where these chains came from.
        runs : ndarray of shape (n_runs,)
            log Z by each of the runs.
        """
        bases = [uncoupled(machine, theta) for theta in own_bases(machine, visible)]
        return self._forward(machine, bases, rng, runs)

    def _forward(self, machine, bases, rng, known=None):
        new = bases if known is None else bases[-2:-1]  # far from where the known runs came from
        trials = [(base, *self._adaptive(machine, base, rng, _SPREAD)) for base in new]
        base, steps, trial = max(trials, key=lambda found: np.mean(found[2]))
        if known is not None and not _exceed(trial, known):
            base, steps, trial, result = bases[-1], None, known, of_runs(known)
            if result.std <= self.std:
                return result
        betas, log_z = self._adaptive(machine, base, rng, _SPREAD / 2)
        n, others = len(betas) - 1, []
        if trial is known and not _exceed(log_z, known):
            others = [(n / 2, known)]  # whose chains have come a longer way
        # The variance of log Z falls with the number of steps.
        variance = np.var(trial, ddof=1) / trial.size * (n if steps is None else len(steps) - 1)
        left = self.max_sweeps - n
        while True:
            rounds = [*others, (n, log_z)]
            total = sum(steps for steps, _ in rounds)
            shares = np.concatenate([np.full(runs.size, steps) for steps, runs in rounds])
            runs = np.concatenate([runs for _, runs in rounds])
            result = mean_of_weights(runs, shares=shares / shares.sum())
            expected, variance = math.sqrt(variance / total), total * result.std**2
            result = result._replace(std=max(result.std, expected))
            if result.std <= self.std or left < n:
                return result
            wanted = max(1, _MARGIN * (result.std / self.std) ** 2)
            n = math.ceil(min(wanted * total - sum(steps for steps, _ in others), _LONGER * n))
            n = left if 2 * n > left else n  # a round after it could not be longer
            left -= n
            log_z = self._runs(machine, base, _stretched(betas, n), rng)

    def _reverse(self, machine, base, rng, samples):
        betas, _ = self._adaptive(machine, base, rng, _SPREAD)
        betas = _stretched(betas, _REVERSE * (len(betas) - 1))[::-1]
        order = np.resize(np.arange(samples[0].shape[0]), self.n_runs * self.n_chains)
        # The first samples are spread over the runs, which should differ as little as possible.
        order = np.ascontiguousarray(np.reshape(order, (self.n_chains, self.n_runs)).T).ravel()
        start = [take_rows(layer, order) for layer in samples]
        log_z = self._runs(machine, base, betas, rng, samples=start)
        return mean_of_weights(-log_z, sign=-1)

    def _adaptive(self, machine, base, rng, spread):
        """Return adaptive temperatures, and log Z by runs along them."""
        steps = SmallSteps(spread)
        log_z = self._runs(machine, base, steps, rng)
        return steps.betas, log_z

    def _runs(self, machine, base, betas, rng, resample=_RESAMPLED, samples=None):
        """Return log Z by each of the runs, forward or in reverse from samples, (n_runs,)."""
        n, start = self.n_runs * self.n_chains, samples
        if samples is None:
            start = Gibbs().init(base, rng, n).layers
        options = {"resample": resample, "n_groups": self.n_runs}
        _, ends = anneal(machine, base, betas, start, rng, **options)
        runs = namespace(ends).reshape(ends, (self.n_runs, self.n_chains))
        sums = to_numpy(log_sum_exp(runs)) - np.log(self.n_chains)
        return independent_log_partition(base) + (sums if samples is None else -sums)


def _stretched(betas, n_steps):
    """Return a schedule of as many steps with the same relative density of temperatures."""
    places = np.arange(len(betas))
    return np.interp(np.linspace(0, places[-1], n_steps + 1), places, betas)
