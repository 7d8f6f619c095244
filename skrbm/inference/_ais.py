"""Annealed importance sampling of the log-partition function (Neal 2001; Salakhutdinov 2008)."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from .._backend import like, namespace, one_blas_thread, row_blocks, row_sums, to_numpy
from .._machine import interpolate, uncoupled
from ..units import log_weight
from ._gibbs import Gibbs

_BLOCK = 100  # chains in one matrix product, and in one job

SCHEDULES = {
    "salakhutdinov2008": lambda: np.concatenate(
        [
            np.linspace(0, 0.5, 500, endpoint=False),
            np.linspace(0.5, 0.9, 4000, endpoint=False),
            np.linspace(0.9, 1.0, 10001),
        ]
    )
}
"""Inverse temperatures by name: here 500 steps to 0.5, 4 000 to 0.9 and 10 000 to 1."""


class LogPartition(NamedTuple):
    """An estimate of log Z.

    Attributes
    ----------
    value : float
        log Z, in nats.
    std : float
        Standard error of ``value``; 0 where it is exact, NaN where it is not known.
    ess : float
        Effective number of independent chains behind ``value``; NaN where there are none.
    """

    value: float
    std: float = 0.0
    ess: float = float("nan")


def inverse_temperatures(schedule):
    """Return the increasing inverse temperatures, from 0 to 1, that a schedule names."""
    if isinstance(schedule, str):
        if schedule not in SCHEDULES:
            raise ValueError(f"schedule must be one of {sorted(SCHEDULES)}, got {schedule!r}")
        return SCHEDULES[schedule]()
    if isinstance(schedule, Integral):
        if schedule < 1:
            raise ValueError(f"the number of temperature steps must be >= 1, got {schedule!r}")
        return np.linspace(0, 1, int(schedule) + 1)
    betas = np.asarray(schedule, dtype=np.float64)
    increases = betas.ndim == 1 and betas.size > 1 and np.all(np.diff(betas) > 0)
    if not increases or betas[0] != 0 or betas[-1] != 1:
        raise ValueError("schedule must be inverse temperatures that increase from 0 to 1")
    return betas


def anneal(machine, base, betas, visible, rng):
    """Carry chains along a path of machines and return their log importance weights.

    The path leads from ``base`` (beta = 0) to ``machine`` (beta = 1) in the order of ``betas``,
    which may fall as well as rise; hidden units are summed out of the weights.

    Parameters
    ----------
    machine, base : Machine
        Two machines with one hidden layer and the same weights; ``base`` has no couplings.
    betas : ndarray of shape (n_temperatures,)
    visible : array of shape (n_chains, n_visible)
        Draws from the machine at ``betas[0]``.
    rng : Rng

    Returns
    -------
    array of shape (n_chains,), float64
    """
    W = machine.weights[0]
    up, down = W.T, W
    unit_v, unit_h = machine.units
    slope = machine.thetas[0].map(lambda a, b: a - b, base.thetas[0])
    product = visible @ up
    log_weights = namespace(W).zeros(visible.shape[0], **{**like(W), "dtype": namespace(W).float64})
    last = interpolate(base, machine, float(betas[0]))
    for step, beta in zip(np.diff(betas), betas[1:], strict=True):
        now = interpolate(base, machine, float(beta))
        before = unit_h.tilt(last.thetas[1], last.scale * product)
        hidden = unit_h.tilt(now.thetas[1], now.scale * product)
        log_weights += float(step) * log_weight(slope, visible)
        log_weights += unit_h.log_ratio(before, hidden)
        field = unit_h.sample(hidden, rng) @ down
        field *= now.scale
        visible = unit_v.sample(unit_v.tilt(now.thetas[0], field), rng)
        product = visible @ up
        last = now
    return log_weights


@dataclass(frozen=True)
class AIS:
    """Annealed importance sampling of log Z, for machines with one hidden layer.

    Parameters
    ----------
    n_chains : int, default=100
        Independent chains; each gives one importance weight.
    schedule : int, {"salakhutdinov2008"} or array, default=1000
        Number of equal steps of the inverse temperature, the 14 500 steps of Salakhutdinov and
        Murray (2008), or the inverse temperatures themselves.
    n_jobs : int, default=None
        Blocks of 100 chains that run at once, in threads. The results do not depend on it.
    """

    n_chains: int = 100
    schedule: Any = 1000
    n_jobs: int | None = None

    def __post_init__(self):
        if not isinstance(self.n_chains, Integral) or self.n_chains < 1:
            raise ValueError(f"n_chains must be an integer >= 1, got {self.n_chains!r}")
        inverse_temperatures(self.schedule)

    def log_partition(self, machine, rng, visible=None):
        """Estimate log Z by chains from independent units to the machine.

        On average Z is neither over- nor underestimated; log Z is underestimated, and more so
        for a machine whose modes the chains miss.

        Parameters
        ----------
        machine : Machine
        rng : Rng
        visible : Theta, default=None
            Visible parameters of the independent units to start from, such as the data's;
            default: the machine's own.

        Returns
        -------
        LogPartition
        """
        base = uncoupled(machine, visible)
        betas = inverse_temperatures(self.schedule)

        def run(n, rng):
            start = Gibbs().init(base, rng, n, machine.weights[0]).layers[0]
            return anneal(machine, base, betas, start, rng)

        log_weights = self._run(run, [(n,) for n in self._blocks()], rng)
        return _estimate(log_weights, _independent_log_partition(base), sign=1)

    def reverse_log_partition(self, machine, rng, samples, visible=None):
        """Estimate log Z by chains from samples of the machine to independent units.

        On average log Z is overestimated, given samples from the machine itself; together with
        :meth:`log_partition` it brackets log Z.

        Parameters
        ----------
        machine : Machine
        rng : Rng
        samples : array of shape (n_chains, n_visible)
            Draws from the machine, such as the ends of long Gibbs chains; a weight for each.
        visible : Theta, default=None
            As in :meth:`log_partition`.

        Returns
        -------
        LogPartition
        """
        base = uncoupled(machine, visible)
        betas = inverse_temperatures(self.schedule)[::-1]

        def run(start, rng):
            return anneal(machine, base, betas, start, rng)

        starts = [(rows,) for rows in row_blocks(samples, _BLOCK)]
        log_weights = self._run(run, starts, rng)
        return _estimate(log_weights, _independent_log_partition(base), sign=-1)

    def _blocks(self):
        full, rest = divmod(self.n_chains, _BLOCK)
        return [_BLOCK] * full + [rest] * bool(rest)

    def _run(self, run, arguments, rng):
        jobs = zip(arguments, rng.spawn(len(arguments)), strict=True)
        with one_blas_thread():
            parts = Parallel(n_jobs=self.n_jobs, prefer="threads")(
                delayed(run)(*args, stream) for args, stream in jobs
            )
        return np.concatenate([to_numpy(part) for part in parts])


def _independent_log_partition(base):
    """log Z of a machine without couplings."""
    pairs = zip(base.units, base.thetas, strict=True)
    return sum(float(row_sums(unit.log_partition(theta))) for unit, theta in pairs)


def _estimate(log_weights, log_z0, sign):
    """Return log Z = log Z0 + sign * log mean exp(log_weights), its standard error and the ESS."""
    top = log_weights.max()
    weights = np.exp(log_weights - top)
    mean, n = weights.mean(), weights.size
    std = weights.std(ddof=1) / np.sqrt(n) / mean if n > 1 else float("nan")
    ess = weights.sum() ** 2 / (weights**2).sum()
    return LogPartition(float(log_z0 + sign * (top + np.log(mean))), float(std), float(ess))
