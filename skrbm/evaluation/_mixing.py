"""Autocorrelation times, R-hat and effective sample sizes of parallel chains.

All functions take one observable of shape (n_steps, n_chains) and pool the chains, so that chains
in different modes count as correlated.
"""

from typing import NamedTuple

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri
from scipy.stats import rankdata

_ROUNDING = 1e-20  # relative variance that counts as zero


class Mixing(NamedTuple):
    """How one observable mixes in parallel chains; see :class:`Diagnosis`."""

    time: float
    time_std: float
    r_hat: float
    ess: float
    autocorrelation: np.ndarray


def mixing(x):
    """Return the :class:`Mixing` of an observable of shape (n_steps, n_chains).

    All numbers are NaN, except for the autocorrelation at lag 0, if it is constant up to rounding.
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
    spectrum = rfft(x - x.mean(axis=0), next_fast_len(2 * n, real=True), axis=0)
    sums = irfft((spectrum * spectrum.conj()).real.mean(axis=1), next_fast_len(2 * n, real=True))
    within, total = _variances(x)
    with np.errstate(invalid="ignore"):  # NaN of a constant
        rho = 1 - (within - sums[:n] / n * (n / (n - 1))) / total
    rho[0] = 1.0
    return rho


def integrated_time(rho, n_draws):
    """Return the integrated autocorrelation time 1 + 2 sum_t rho_t, and the lag where it ends.

    It is the initial monotone sequence estimator of Geyer (1992), bounded below by
    1 / log10(n_draws), the precision of negative correlations.
    """
    if np.isnan(rho[-1]):
        return float("nan"), 0
    pairs = rho[: rho.size // 2 * 2].reshape(-1, 2).sum(axis=1)
    end = int(np.argmax(pairs <= 0)) if (pairs <= 0).any() else pairs.size
    time = 2 * np.minimum.accumulate(pairs[:end]).sum() - 1
    return float(max(time, 1 / np.log10(n_draws))), 2 * end


def r_hat(x):
    """Return the rank-normalized split R-hat (Eq. 4 and Sec. 4.2 of Vehtari et al. 2021).

    It is the larger of those of the values and of their distances from the median, which compare
    the means and the variances of chains.
    """
    halves, found = _halves(x), []
    for values in (halves, np.abs(halves - np.median(halves))):
        within, total = _variances(normal_scores(values))
        if within > _ROUNDING * total:
            found.append(float(np.sqrt(total / within)))
        else:  # chains that never move
            found.append(float("inf" if total > 0 else "nan"))
    return max(found)


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
