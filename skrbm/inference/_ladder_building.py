"""Ladders that are built for a machine, by annealing from independent units."""

import numpy as np
from scipy.optimize import brentq

from .._checks import check_count, check_number
from ..arrays import last_rows, make_rng, namespace, to_numpy
from ..machine import Machine, check_has_integral, interpolate, uncoupled
from ._ais import LogPartition, independent_log_partition, mean_of_weights
from ._annealing import anneal, own_bases, resampled
from ._ladder import Ladder, exchanged, gains_of, swept_all
from ._sampler import draw_visible

_N_SAMPLES = 200
_MOST_CHAINS, _SPACING = 200, 5  # chains that are annealed; sweeps after which they are new samples
_SWEEPS = 10  # of annealing from one rung to the next
_AS_GOOD = 2.0  # nats between estimates of log Z of which neither is better, at most
_SURE = 3.0  # standard errors between these, at most
_CLOSE = 0.5  # part of the acceptance aimed at below which neighbours get a rung between them
_ROUNDS = 3  # in which they do, at most
# Rate at which a sample is replaced, below which independent units do not reach it; part of such
# samples that does not count; proposals for each.
_RARE, _FEW, _PROPOSED = 0.01, 0.01, 500
_SMALLEST = 1e-3  # distance of two rungs in inverse temperature
_PRECISION = 0.05  # of this distance, relative to what is left


def ladder_of(
    machine, rng, *, visible=None, n_samples=_N_SAMPLES, acceptance=0.4, max_rungs=100, n_sweeps=100
):
    """Build a ladder for a machine by annealing.

    Chains go from independent units to the machine by temperatures. Each rung is placed where
    exchanges with the rung below are accepted as often as asked, by the weights of the chains. Then
    all rungs are sampled together. Neighbours that exchange less than half as often as asked get a
    rung between them, and all are sampled again. Of several kinds of independent units, those with
    the most rungs are taken of which the estimate of log Z is below the largest by at most three
    standard errors and two nats: a smaller one has missed a mode, and few rungs may come from units
    that lie in one mode, and whose chains do not find another. A machine that is near independent
    units needs none between: these reach all samples that came from others.

    Parameters
    ----------
    machine : Machine or estimator
        With one hidden layer.
    rng : Rng, int, RandomState, SeedSequence or None
    visible : Theta, default=None
        Parameters of independent visible units to start from, in addition to the machine's own
        and, if units are bounded, those of units that know no data.
    n_samples : int, default=200
        Samples of each rung. More than 200 are 200 chains at several times.
    acceptance : float, default=0.4
        Rate of exchanges between neighbours that is aimed at.
    max_rungs : int, default=100
        Largest number of rungs. If it is reached, the last rungs are farther apart.
    n_sweeps : int, default=100
        Sweeps of all rungs in the end, and again after new rungs.

    Returns
    -------
    Ladder

    Raises
    ------
    TypeError
        If ``machine`` is neither a Machine nor has one as ``machine_``.
    ValueError
        If the machine has several hidden layers, or ``visible`` are not parameters of its units.
    DivergenceError
        If its distribution has no integral.
    """
    check_count("n_samples", n_samples, 2)
    check_number("acceptance", acceptance, above=0, below=1)
    check_count("max_rungs", max_rungs, 2)
    check_count("n_sweeps", n_sweeps, 0)
    machine = _checked(machine, visible)
    rng = rng if hasattr(rng, "signed") else make_rng(rng, machine.weights[0])
    bases = [*own_bases(machine), *([] if visible is None else [visible])]
    n = min(n_samples, _MOST_CHAINS)
    trials = [_climbed(machine, base, rng, n, acceptance, max_rungs) for base in bases]
    machines, rows = _chosen(trials)
    rows, rates = _mixed(machines, rows, n_sweeps, rng)
    for _ in range(_ROUNDS):
        apart = rates < _CLOSE * acceptance
        if not apart.any() or len(machines) >= max_rungs:
            break
        machines, rows = _with_rungs_between(machines, rows, apart, max_rungs)
        rows, rates = _mixed(machines, rows, n_sweeps, rng)
    return Ladder(tuple(machines), _over_time(machines, rows, n_samples, rng))


def _checked(machine, visible):
    """Return the machine of an estimator, or the one given, if it has a ladder."""
    found = getattr(machine, "machine_", machine)
    if not isinstance(found, Machine):
        raise TypeError(
            "ladder_of needs a fitted estimator or a Machine, got "
            f"{type(machine).__name__}. from_parameters makes an estimator of arrays or of "
            "scikit-learn's BernoulliRBM"
        )
    if len(found.units) != 2:
        raise ValueError(f"a ladder needs one hidden layer, got {len(found.units) - 1}")
    check_has_integral(found)
    if visible is not None and not found.thetas[0].is_like(visible):
        raise ValueError(
            f"visible must be a Theta of finite parameters of {found.n_units[0]} units "
            f"{found.units[0]}, got {visible!r}"
        )
    return found


def _mixed(machines, rows, n_sweeps, rng):
    """Return samples of all rungs after sweeps, and how often neighbours then exchange.

    The rates are means over the later half of the sweeps: an ndarray of shape (n_rungs - 1,), NaN
    where there were no exchanges.
    """
    sums, counts = np.zeros((2, len(machines) - 1))
    for turn in range(n_sweeps):
        rows, found = exchanged(machines, rows, turn, rng)
        rows = swept_all(machines, rows, rng)
        if 2 * turn >= n_sweeps:
            for k, rate in zip(found.pairs, found.rates, strict=True):
                sums[k], counts[k] = sums[k] + float(to_numpy(rate).mean()), counts[k] + 1
    with np.errstate(invalid="ignore"):
        return rows, sums / counts


def _over_time(machines, rows, n_samples, rng):
    """Return samples of all rungs, a tuple: the chains now, and after some sweeps, and so on."""
    blocks = [rows]
    for _ in range((n_samples - 1) // rows[0].shape[0]):
        rows, _ = _mixed(machines, rows, _SPACING, rng)
        blocks.append(rows)
    concat = namespace(rows[0]).concat
    return tuple(last_rows(concat(own, axis=0), n_samples) for own in zip(*blocks, strict=True))


def _with_rungs_between(machines, rows, apart, max_rungs):
    """Return machines and samples with a rung in the middle of neighbours that are apart.

    Its samples are those of the lower neighbour at first.
    """
    new, samples, n_free = [machines[0]], [rows[0]], max_rungs - len(machines)
    for k, is_apart in enumerate(apart):
        if is_apart and n_free > 0:
            new.append(interpolate(machines[k], machines[k + 1], 0.5))
            samples.append(rows[k])
            n_free -= 1
        new.append(machines[k + 1])
        samples.append(rows[k + 1])
    return new, samples


def _climbed(machine, visible, rng, n_samples, acceptance, max_rungs):
    """Return machines from independent units on, rows of each, and log Z, a LogPartition."""
    base, beta = uncoupled(machine, visible), 0.0
    rows = draw_visible(base, rng, n_samples)
    machines, samples, log_z, variance = [base], [rows], independent_log_partition(base), 0.0
    while beta < 1:
        last = len(machines) + 1 >= max_rungs
        now = 1.0 if last else _next_rung(machine, base, beta, rows, acceptance)
        betas = np.linspace(beta, now, _SWEEPS + 1)
        ends = anneal(machine, base, betas, (rows, None), rng, resample=0.5)
        gain = mean_of_weights(to_numpy(ends.log_weights))
        log_z, variance = log_z + gain.value, variance + gain.std**2
        rows, beta = resampled(ends.layers[0], ends.log_weights, rng), now
        machines.append(interpolate(base, machine, beta) if beta < 1 else machine)
        samples.append(rows)
    return machines, samples, LogPartition(log_z, float(np.sqrt(variance)))


def _next_rung(machine, base, beta, rows, acceptance):
    """Return the inverse temperature of the next rung."""
    here = interpolate(base, machine, beta)

    def excess(now):
        if now == beta:
            return 1.0 - acceptance
        there = machine if now == 1.0 else interpolate(base, machine, now)
        return predicted_rate(to_numpy(gains_of(here, there, rows))) - acceptance

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


def _chosen(trials):
    """Return machines and samples of one of several ladders, tuples (machines, rows, log Z)."""
    for trial in trials:
        if len(trial[0]) == 2 and _reaches(trial, trials):
            return trial[:2]
    top = max((log_z for *_, log_z in trials), key=lambda log_z: log_z.value)
    found = [trial for trial in trials if _is_as_good(trial[2], top)] or trials
    return max(found, key=lambda trial: (len(trial[0]), trial[2].value))[:2]


def _is_as_good(log_z, top):
    """Whether an estimate of log Z is below another one by chance or little."""
    return log_z.value >= top.value - min(_SURE * np.hypot(log_z.std, top.std), _AS_GOOD)


def _reaches(trial, trials):
    """Whether proposals of independent units often replace nearly every sample of all trials."""
    (base, machine), (proposed, _), _ = trial
    samples = namespace(proposed).concat([rows[-1] for _, rows, _ in trials], axis=0)
    own, others = (
        to_numpy(gains_of(base, machine, x)) for x in (last_rows(proposed, _PROPOSED), samples)
    )
    rates = np.exp(np.minimum(own - others[:, None], 0.0)).mean(axis=1)
    return bool((rates >= _RARE).mean() >= 1 - _FEW)
