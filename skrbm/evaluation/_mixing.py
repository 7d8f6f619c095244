"""How well chains mix: autocorrelation times, R-hat and effective sample sizes.

All functions take one observable of parallel chains, an array of shape (n_steps, n_chains), and
use all chains together, so that chains in different modes count as correlated.
"""

from typing import NamedTuple

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri
from scipy.stats import rankdata

_ROUNDING = 1e-20  # part of a variance that is none


class Mixing(NamedTuple):
    """How one observable mixes in parallel chains.

    Attributes
    ----------
    time : float
        Integrated autocorrelation time, in steps; 1 for independent draws.
    time_std : float
        Its standard error.
    r_hat : float
        Rank-normalised split R-hat; 1 for chains with one distribution.
    ess : float
        Effective sample size of all chains together, of the ranks of the observable.
    autocorrelation : ndarray of shape (n_steps,)
        By lag, from 0.
    """

    time: float
    time_std: float
    r_hat: float
    ess: float
    autocorrelation: np.ndarray


def mixing(x):
    """Return how an observable of shape (n_steps, n_chains) mixes, as :class:`Mixing`.

    All numbers but the autocorrelation at lag 0 are NaN if it has one value only, but for rounding.
    """
    if x.var() <= _ROUNDING * np.mean(x * x):
        x = np.zeros_like(x)
    rho = autocorrelation(x)
    time, window = integrated_time(rho, x.size)
    time_std = time * np.sqrt(2 * (2 * window + 1) / x.size)
    ranks = normal_scores(_halves(x))
    ess = x.size / integrated_time(autocorrelation(ranks), x.size)[0]
    return Mixing(time, time_std, r_hat(x), ess, rho)


def autocorrelation(x):
    """Return the autocorrelation by lag, of deviations from the mean of all chains.

    It is 1 - (W - gamma_t) / V with the mean variance W of a chain, the mean autocovariance gamma_t
    at lag t, and V = (1 - 1/n) W + B, where B is the variance of the means of the chains (Eq. 10 of
    Vehtari et al. 2021).
    """
    n = x.shape[0]
    centred = x - x.mean(axis=0)
    spectrum = rfft(centred, next_fast_len(2 * n, real=True), axis=0)
    sums = irfft((spectrum * spectrum.conj()).real.mean(axis=1), next_fast_len(2 * n, real=True))
    gamma = sums[:n] / n
    within, total = _variances(x)
    with np.errstate(invalid="ignore"):  # NaN of a constant
        rho = 1 - (within - gamma * (n / (n - 1))) / total
    rho[0] = 1.0
    return rho


def integrated_time(rho, n_draws):
    """Return the integrated autocorrelation time 1 + 2 sum_t rho_t, and the lag where it ends.

    The sum ends where that of an even lag and the next is no longer positive, and these sums are
    made to decrease (the initial monotone sequence of Geyer 1992). The time is at least
    1 / log10(n_draws), as negative correlations are not known better.
    """
    if np.isnan(rho[-1]):
        return float("nan"), 0
    pairs = rho[: rho.size // 2 * 2].reshape(-1, 2).sum(axis=1)
    end = int(np.argmax(pairs <= 0)) if (pairs <= 0).any() else pairs.size
    time = 2 * np.minimum.accumulate(pairs[:end]).sum() - 1
    return float(max(time, 1 / np.log10(n_draws))), 2 * end


def r_hat(x):
    """Return the rank-normalised split R-hat (Eq. 4 and Sec. 4.2 of Vehtari et al. 2021).

    It is the larger of two: of the values, which shows chains of different means, and of their
    distances from the median, which shows chains of different variances.
    """
    halves = _halves(x)
    return max(_plain_r_hat(halves), _plain_r_hat(np.abs(halves - np.median(halves))))


def _plain_r_hat(x):
    within, total = _variances(normal_scores(x))
    if within <= _ROUNDING * total:  # chains that never move
        return float("inf" if total > 0 else "nan")
    return float(np.sqrt(total / within))


def _variances(x):
    """Return the mean variance W within chains, and (1 - 1/n) W + B."""
    n = x.shape[0]
    within = x.var(axis=0, ddof=1).mean()
    between = x.mean(axis=0).var(ddof=1) if x.shape[1] > 1 else 0.0
    return within, (1 - 1 / n) * within + between


def normal_scores(x):
    """Return the normal quantiles of the ranks of all entries (Eq. 14 of Vehtari et al. 2021)."""
    ranks = rankdata(x).reshape(x.shape)
    return ndtri((ranks - 0.375) / (x.size + 0.25))


def _halves(x):
    """Return the first and the second half of each chain, side by side."""
    n = x.shape[0] // 2
    return np.concatenate([x[:n], x[-n:]], axis=1)
