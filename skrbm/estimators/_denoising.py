"""Posterior means of visible values that were observed through a noisy channel.

An observation multiplies the density of a unit by exp(field * x - precision * x**2 / 2). The
posterior of a machine is therefore a machine whose visible units are tilted, for each row.
"""

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np

from .._checks import check_count, check_number
from ..arrays import (
    cast,
    dense,
    from_numpy,
    has_missing,
    is_foreign,
    make_rng,
    namespace,
    row_blocks,
)
from ..evaluation._observed import hidden_bits, means_given_noisy_bits, most_units
from ..inference import by_rungs, mean_of_chains, solve
from ..inputs import check_held, check_rows
from ..units import Theta
from ._encoded import blocks_of, decoded
from ._posterior import N_STEPS, sampler_given

_N_SWEEPS, _DAMPING = 300, 0.7


@dataclass(frozen=True)
class BitFlips:
    """Each bit is flipped with the same probability (Sec. VII.4 of Tramel et al. 2018)."""

    amount: float

    def __post_init__(self):
        check_number("flip_probability", self.amount, at_least=0, at_most=0.5)

    def check(self, unit, Y):
        """Raise ValueError if ``Y`` cannot have come from such units through the channel."""
        if not unit.is_binary:
            raise ValueError(f"flip_probability is for binary visible units, and these are {unit}")
        xp = namespace(Y)
        if not xp.isdtype(Y.dtype, "bool") and not bool(xp.all((Y == 0) | (Y == 1))):
            raise ValueError("Y must be 0 or 1 in each entry if flip_probability is given")

    def evidence(self, unit, Y):
        """Return (field, precision): ln((1 - p) / p) (2 y - 1), Eq. 46 with its ratio upright."""
        return (math.log1p(-self.amount) - math.log(self.amount)) * (2 * Y - 1), None


@dataclass(frozen=True)
class Substitutions:
    """Each site is replaced, with a given probability, by any other of its values."""

    amount: float

    def __post_init__(self):
        check_number("substitution_probability", self.amount, at_least=0, below=1)

    def check(self, unit, Y):
        if not hasattr(unit, "sizes"):
            raise ValueError(f"substitution_probability is for categories, and units are {unit}")
        unit.check_values(Y)

    def evidence(self, unit, Y):
        """Return (field, precision): ln((1 - p) (q - 1) / p) y, with q the values of the site."""
        sizes = np.array(unit.sites(Y.shape[1]))
        others = np.repeat(np.maximum(sizes - 1, 1), sizes)
        factor = np.log(others) + math.log1p(-self.amount) - math.log(self.amount)
        return cast(from_numpy(factor, Y), Y.dtype) * Y, None


@dataclass(frozen=True)
class NormalNoise:
    """Normal noise of the same variance is added to each value."""

    amount: float

    def __post_init__(self):
        check_number("noise_variance", self.amount, at_least=0)

    def check(self, unit, Y):
        if unit.is_binary or unit.is_discrete or not (unit.takes_precision or unit.is_joint):
            raise ValueError(f"noise_variance is for real visible units, and these are {unit}")

    def evidence(self, unit, Y):
        """Return (field, precision): y / s and 1 / s."""
        xp, precision = namespace(Y), 1 / self.amount
        with np.errstate(over="ignore"):
            field = Y * precision
        if precision > float(xp.finfo(Y.dtype).max) or not bool(xp.all(xp.isfinite(field))):
            raise ValueError(f"noise_variance={self.amount} is too small for {Y.dtype}; give 0")
        return field, precision


def channel(flip_probability=None, noise_variance=None, substitution_probability=None):
    kinds = BitFlips, NormalNoise, Substitutions
    amounts = flip_probability, noise_variance, substitution_probability
    given = [kind(n) for kind, n in zip(kinds, amounts, strict=True) if n is not None]
    if len(given) != 1:
        raise ValueError(
            "pass exactly one of flip_probability (binary visible units), noise_variance (real "
            "units) and substitution_probability (categories)"
        )
    return given[0]


def denoised(model, Y, noise, *, prior_mean, n_starts, n_steps, return_std, random_state):
    """Return what :meth:`DensityModel.denoise` does, for values that came through ``noise``."""
    check_count("n_starts", n_starts, 1)
    check_count("n_steps", n_steps, 1, or_none=True)
    skewed = [name for name, kind in getattr(model, "kinds_", {}).items() if kind == "skewed"]
    if skewed:
        raise ValueError(f"denoise takes no skewed columns, and {skewed} are; make them 'real'")
    machine, method, given = model.machine_, model._own_fixed_point(), Y
    unit, Y = machine.units[0], model._encode(Y, missing=True)
    if has_missing(Y):
        raise ValueError("Y contains NaN; denoise takes complete rows, impute fills others")
    rng = make_rng(random_state, machine.weights[0])
    prior = _prior(model, machine, prior_mean, noise)
    is_bits = unit.values == (0.0, 1.0)
    if return_std and method is None and not is_bits:
        raise ValueError("return_std needs inference by a fixed point, or binary units")

    def of_block(Y):
        Y = dense(Y)
        noise.check(unit, Y)
        check_held(Y, machine.dtype)
        Y = cast(namespace(Y).asarray(Y, copy=True), machine.dtype)
        if noise.amount == 0:
            return Y, namespace(Y).zeros_like(Y)
        if method is None:
            mean = _sampled(model, Y, noise, n_steps or N_STEPS, rng)
            return mean, mean - mean * mean
        blocks = [
            _solved(machine, prior, noise.evidence(unit, rows), method, n_steps, n_starts, rng)
            for rows in row_blocks(Y)
        ]
        return tuple(namespace(Y).concat(parts, axis=0) for parts in zip(*blocks, strict=True))

    blocks = map(of_block, blocks_of(model, Y))
    if not return_std:
        return decoded(model, (mean for mean, _ in blocks), given)
    means, variances = zip(*blocks, strict=True)
    xp = namespace(means[0])
    return decoded(model, means, given), xp.sqrt(xp.concat(variances, axis=0))


def _prior(model, machine, mean, noise):
    """Return the parameters of the independent visible units of the pointwise estimate."""
    theta = machine.thetas[0]
    if not isinstance(noise, BitFlips):
        if mean is not None:
            raise ValueError("prior_mean is for flip_probability")
        return theta
    if mean is None:
        kept = getattr(model, "visible_means_", None)
        mean = machine.units[0].mean(theta) if kept is None else kept
    else:
        mean = mean if is_foreign(mean) else np.asarray(mean)
        if mean.ndim != 1:
            raise ValueError(f"prior_mean must have 1 dimension, got {mean.ndim}")
        place = machine.weights[0]
        mean = check_rows("prior_mean", mean[None, :], machine.n_units[0], place)[0, :]
        least, most = float(namespace(mean).min(mean)), float(namespace(mean).max(mean))
        if not 0 <= least <= most <= 1:
            raise ValueError(f"prior_mean must lie in [0, 1], got values from {least} to {most}")
    xp = namespace(mean)
    with np.errstate(divide="ignore"):  # a unit that is always off stays off
        return Theta(xp.log(mean) - xp.log1p(-mean))


def _sampled(model, Y, noise, n_steps, rng):
    """Return posterior means by chains that start at Y, or of bits by sums over few hidden values.

    These need two products with all hidden values, where other sums need one.
    """
    machine = model.machine_
    if isinstance(noise, BitFlips):
        double = machine.astype(namespace(Y).float64)
        if hidden_bits(double) <= most_units(double, n_steps) - 1:
            field = noise.evidence(machine.units[0], 1.0)[0]
            return cast(means_given_noisy_bits(double, cast(Y, double.dtype), field), Y.dtype)
    sampler = sampler_given(model, "auto", rng)

    def means(rows):
        evidence = noise.evidence(machine.units[0], rows)
        posterior, own = machine.tilted(0, *evidence), sampler.tilted(*evidence)
        return mean_of_chains(posterior, own.state_at(posterior, rows, rng), rng, n_steps, own)

    return by_rungs(means, sampler, machine, Y)


def _solved(machine, prior, evidence, method, n_steps, n_starts, rng):
    # At strong noise the plain sweeps often go round in circles; most damped ones do not, and
    # move less far each, which the tolerance takes into account.
    damping = max(method.damping, _DAMPING)
    tol = method.tol * ((1 - damping) / (1 - method.damping)) ** 2
    method = replace(method, damping=damping, tol=tol)
    n_sweeps = max(method.max_iter, _N_SWEEPS) if n_steps is None else n_steps
    unit = machine.units[0]
    independent = unit.tilt(prior, *evidence)
    draws = (unit.sample(independent, rng) for _ in range(n_starts - 1))
    starts = itertools.chain([unit.mean(independent)], draws)
    return posterior_moments(method, machine.tilted(0, *evidence), starts, n_sweeps)


def posterior_moments(method, machine, starts, max_iter):
    """Return means and variances of the visible units, of the mixture of solutions from starts.

    ``machine`` has a distribution for each row, and each start has visible values for each.
    """
    unit, n, first, second = machine.units[0], 0, 0.0, 0.0
    for start in starts:
        state = solve(method, machine, method.state_at(machine, start), max_iter=max_iter).state
        mean, variance = state.means[0], state.variances[0]
        if not unit.has_variances:
            variance = mean - mean * mean
        elif len(unit.values or ()) == 2:  # some methods do not store it; noise keeps it that
            variance = unit.cumulants(mean)[0]  # of the mean, for two values but no more
        n, first, second = n + 1, first + mean, second + (variance + mean * mean)
    if n == 1:
        return mean, variance
    mean = first / n
    xp = namespace(mean)
    return mean, xp.maximum(second / n - mean * mean, xp.zeros_like(mean))
