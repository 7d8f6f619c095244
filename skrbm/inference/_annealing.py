"""Annealing: chains that follow a path from one machine to another (Neal 2001)."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from ..arrays import cast, cumulative_sum, like, namespace, to_numpy
from ..machine import conditional, difference, input_field, interpolate
from ._fixed_point import choose, map_rows
from ._gibbs import accept

_COARSE = 0.5  # largest spread of the log weights of a step, in nats, to make fewer steps
_SMALLEST_STEP = 1e-4  # in inverse temperature
_MOST_STEPS = 1000  # adaptive ones; the second half become longer if more would be needed


class Annealed(NamedTuple):
    """Result of :func:`anneal`."""

    layers: tuple  # where chains end; only the even layers are draws at the last temperature
    log_weights: Any  # float64, equal within groups that were resampled at the last step


def anneal(
    machine,
    base,
    betas: Callable | Iterable[float],
    layers,
    rng,
    *,
    sampler=None,
    resample: float = 0.0,
    n_groups: int = 1,
) -> Annealed:
    """Carry chains along a path of machines and return their log importance weights.

    At each inverse temperature the weights are updated, and then the chains make one sweep. The
    odd layers (the hidden one, if there is one) are independent given the even ones and are summed
    out of the weights. The log of the mean weight estimates log Z of the last machine minus log Z
    of the first.

    Parameters
    ----------
    machine, base : Machine
        The machines at beta = 1 and beta = 0. They share the weights, and ``base`` has scale 0; or
        they have the same scale.
    betas : array of shape (n_temperatures,), or callable
        Inverse temperatures, rising or falling; the first is that of ``layers``. Or an adaptive
        schedule: ``betas(gain)`` returns an iterator over the temperatures after 0, and
        ``gain(beta)`` returns the increments of the log weights in a step to ``beta``.
    layers : sequence of arrays of shape (n_chains, n_units[l])
        Draws from the machine at the first temperature. The odd layers are not used.
    rng : Rng
    sampler : Sampler, default=None
        Moves the chains of a machine with one hidden layer. The default is block Gibbs sampling
        with any number of layers, which shares a product with the weights.
    resample : float in [0, 1], default=0.0
        Chains are resampled by their weights before a sweep if their effective fraction is smaller
        than this (sequential Monte Carlo). With 0 chains keep their weights; with 1 they are
        resampled before each sweep.
    n_groups : int, default=1
        Number of groups of equal size, of adjacent chains, within which chains are resampled.
    """
    machine, base = (each.of_rows(layers[0]) for each in (machine, base))
    path, layers, n_steps = _Path(machine, base), tuple(layers), None
    fields, last = path.fields(layers), path.at(0.0)
    if not callable(betas):
        n_steps, last = len(betas) - 1, path.at(betas[0])
    xp, W = namespace(machine.weights[0]), machine.weights[0]
    log_weights = xp.zeros(layers[0].shape[0], **{**like(W), "dtype": xp.float64})
    seen = None  # the last step that an adaptive schedule computed; mostly, it takes this step

    def step_to(beta):
        now = path.at(beta)
        return now, *path.reweighted(last, now, layers, fields)

    def gain(beta):
        nonlocal seen
        seen = step_to(beta)
        return seen[1]

    for step, beta in enumerate(betas(gain) if n_steps is None else betas[1:]):
        is_seen = seen is not None and seen[0][0] == beta
        (now, increments, thetas), seen = seen if is_seen else step_to(beta), None
        log_weights = log_weights + increments
        if resample:
            rows, log_weights = resampled_index(log_weights, rng, resample, n_groups)
            if rows is not None:  # parameters that all rows share stay as they are

                def take(leaf, rows=rows):
                    return leaf if leaf.ndim == 1 else xp.take(leaf, rows, axis=0)

                layers, fields, thetas = map_rows(take, (layers, fields, thetas))
        if sampler is None:
            layers, fields = path.sweep(now, layers, fields, thetas, rng)
        else:
            state = sampler.state_at(now[1], layers[0], rng)
            current = sampler if n_steps is None else sampler.at(step, n_steps)
            layers = current.step(now[1], state, rng)[0].layers
            fields = path.fields(layers)
        last = now
    return Annealed(layers, log_weights)


class _Path:
    """A path between two machines. A point on it is (beta, machine)."""

    def __init__(self, machine, base):
        n_layers = len(machine.units)
        self.machine, self.base = machine, base
        self.even, self.odd = range(0, n_layers, 2), range(1, n_layers, 2)
        self.exact = machine.samples_exactly
        self.slopes = [
            difference(own, first) for own, first in zip(machine.thetas, base.thetas, strict=True)
        ]
        shared = all(W is W0 for W, W0 in zip(machine.weights, base.weights, strict=True))
        self.unscaled = replace(machine, scale=1.0) if shared else None

    def at(self, beta):
        return float(beta), interpolate(self.base, self.machine, float(beta))

    def fields(self, layers):
        """Return what :meth:`conditionals` needs from the even layers, by odd layer.

        Machines that share their weights also share this product at all temperatures: it is the
        field at a scale of 1. Other machines have a pair of fields, one for each end of the path.
        """
        if self.unscaled is not None:
            return {l: input_field(self.unscaled, l, layers) for l in self.odd}
        ends = self.base, self.machine
        return {l: tuple(input_field(end, l, layers) for end in ends) for l in self.odd}

    def conditionals(self, at, fields):
        """Return the parameters of the odd layers given the even ones, by layer."""
        (beta, machine), thetas = at, {}
        for l in self.odd:
            if self.unscaled is not None:
                field = machine.scale * fields[l]
            else:
                first, last = fields[l]
                field = first + beta * (last - first)
            thetas[l] = machine.units[l].tilt(machine.thetas[l], field)
        return thetas

    def reweighted(self, last, now, layers, fields):
        """Return the increments of log weights in a step from one temperature to the next.

        Also returns the parameters of the odd layers at the new temperature.
        """
        units, thetas = self.machine.units, self.conditionals(now, fields)
        slopes = (units[l].dot(self.slopes[l], layers[l]) for l in self.even)
        increments = sum((now[0] - last[0]) * slope for slope in slopes)
        for l, theta in self.conditionals(last, fields).items():
            increments = increments + units[l].log_ratio(theta, thetas[l])
        return increments, thetas

    def sweep(self, now, layers, fields, thetas, rng):
        """Draw the odd layers from ``thetas``, then the even ones; return (layers, fields)."""
        _, machine = now
        new = list(layers)
        for l, theta in thetas.items():
            new[l] = machine.units[l].sample(theta, rng)
        for l in self.even:
            new[l] = machine.units[l].sample(conditional(machine, l, new), rng)
        new, new_fields = tuple(new), self.fields(new)
        if self.exact:
            return new, new_fields
        accepted = accept(machine, thetas, self.conditionals(now, new_fields), rng)
        # Nothing uses the odd layers after the sweep, so they need not be chosen.
        old = tuple(new[l] if l in self.odd else layer for l, layer in enumerate(layers))
        return choose(accepted, (new, new_fields), (old, fields))


def resampled(rows, log_weights, rng):
    """Return the same number of rows, resampled systematically by their log weights."""
    index, _ = resampled_index(log_weights, rng)
    return rows if index is None else namespace(rows).take(rows, index, axis=0)


def resampled_index(log_weights, rng, part=1.0, n_groups=1):
    """Resample rows systematically by log weights if the effective fraction is below ``part``.

    This is done within ``n_groups`` groups of adjacent rows, of equal size. Returns the index of
    the new rows, or None if no group is resampled, and the new log weights, which are equal within
    groups that were resampled. A NaN counts as -inf.
    """
    xp, n = namespace(log_weights), log_weights.shape[0] // n_groups
    old = xp.reshape(log_weights, (n_groups, n))
    top, means, parts, weights = _group_weights(xp.where(old == old, old, -xp.inf))
    drawn = parts < part
    if not bool(xp.any(drawn)):
        return None, log_weights
    # Groups are placed one after the other on a line, each with a length of 1.
    groups = xp.arange(n_groups, **like(weights))[:, None]
    ends = groups + cumulative_sum(weights) / (n * means)
    offsets = cast(rng.uniform((n_groups, 1)), ends.dtype)
    points = groups + (xp.arange(n, **like(ends)) + offsets) / n
    index = xp.searchsorted(xp.reshape(ends, (-1,)), xp.reshape(points, (-1,)), side="right")
    index = xp.reshape(index, (n_groups, n))
    first = cast(n * groups, index.dtype)
    index = xp.minimum(xp.maximum(index, first), first + (n - 1))
    own = first + cast(xp.arange(n, **like(ends)), index.dtype)
    index = xp.where(drawn, index, own)
    return xp.reshape(index, (-1,)), xp.reshape(xp.where(drawn, top + xp.log(means), old), (-1,))


def _group_weights(log_weights):
    """Return the largest log weight, mean weight and effective fraction of rows, and weights.

    Weights are relative to the largest. All results except the weights have shape (n_groups, 1).
    """
    xp = namespace(log_weights)
    top = xp.max(log_weights, axis=-1, keepdims=True)
    weights = xp.exp(log_weights - top)
    means = xp.mean(weights, axis=-1, keepdims=True)
    return top, means, means**2 / xp.mean(weights**2, axis=-1, keepdims=True), weights


def effective_part(log_weights) -> float:
    """Return the effective fraction (sum w)² / (n sum w²) of weights."""
    return float(_group_weights(log_weights[None, :])[2][0, 0])


class SmallSteps:
    """Adaptive temperatures for :func:`anneal`: log weights spread equally in each step.

    The spread is assumed to grow in proportion to the length of a step, so that it is mostly
    computed only once per step. If more than ``most`` steps would be needed, all become longer, up
    to a spread of 0.5; if even these would be too many, no step is made. There are at most 1000
    steps, of which the last 500 are as long as necessary.

    The spread is the standard deviation of log weights, or, if that is larger, the one that normal
    log weights with the same effective fraction would have. It is larger if few chains have found a
    mode: they hardly add to the standard deviation, but take over when chains are resampled.

    Parameters
    ----------
    spread : float
        Spread of log weights in a step, in nats.
    most : float, default=inf
        Largest number of steps.
    n_sweeps : int, default=1
        Sweeps after each step.

    Attributes
    ----------
    betas : list of float
        0, and the temperatures after it; the last is 1 at the end.
    n_measured : int
        Number of times that a spread was computed.
    """

    def __init__(self, spread, most=math.inf, n_sweeps=1):
        self.spread, self.most, self.n_sweeps = spread, most, n_sweeps
        self.betas, self.n_measured, self._whole = [0.0], 0, 0.0

    @property
    def n_steps(self):
        return len(self.betas) - 1

    @property
    def arrived(self):
        return self.betas[-1] == 1

    @property
    def needed(self):
        """A lower bound on the number of steps that are needed, as far as is known."""
        if self.n_steps == 0:
            return min(self._whole / _COARSE, _MOST_STEPS)
        return self.n_steps * (1 if self.arrived else 2)

    def __call__(self, gain):
        step = 1.0
        while not self.arrived:
            left, is_late = 1 - self.betas[-1], self.n_steps >= _MOST_STEPS // 2
            least = left / max(1, _MOST_STEPS - self.n_steps) if is_late else _SMALLEST_STEP
            step = max(step, least)
            spread = self._measured(gain, step)
            if self.n_steps == 0:
                self._whole = spread
                if self.needed > self.most:
                    return
                wanted = max(self.spread, min(_COARSE, spread / max(self.most, 1.0)))
            if self.n_steps >= self.most:
                return
            while spread > 1.5 * wanted and step > least:
                step = max(step * wanted / spread, least)
                spread = self._measured(gain, step)
            self.betas.append(1.0 if step >= left else self.betas[-1] + step)
            yield from [self.betas[-1]] * self.n_sweeps
            step *= min(2.0, wanted / max(spread, 0.1 * wanted))

    def _measured(self, gain, step):
        """Return the spread of the log weights in a step, infinite if it overflows."""
        self.n_measured += 1
        log_weights = to_numpy(gain(min(1.0, self.betas[-1] + step)))
        spread = float(np.std(log_weights))
        if spread != spread:
            return math.inf
        # The effective fraction is exp(-spread²) if log weights are normal.
        return max(spread, math.sqrt(max(0.0, -math.log(effective_part(log_weights)))))


def temperatures(name, given, least):
    """Return inverse temperatures from 0 to 1: ``given``, or evenly spaced if that is a number.

    ``least`` is the smallest number allowed; it gives 2 temperatures.
    """
    if isinstance(given, Integral) and given is not True and given >= least:
        return np.linspace(0, 1, given + 2 - least)
    try:
        betas = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        betas = np.zeros(0)
    if betas.ndim == 1 and betas.size > 1 and (np.diff(betas) > 0).all():
        if betas[0] == 0 and betas[-1] == 1:
            return betas
    raise ValueError(
        f"{name} must be an integer >= {least} or inverse temperatures that increase from 0 to 1, "
        f"got {given!r}"
    )


def own_bases(machine, visible=None):
    """Return a list of the parameters of visible units, Theta, from which annealing may start.

    The machine's own, the defaults of units without data if units are bounded, and ``visible``.
    """
    unit, own = machine.units[0], machine.thetas[0]
    bases = [own]
    if unit.tail_precision(own) is None:
        bases.append(unit.default_theta(machine.n_units[0], machine.weights[0]))
    return bases if visible is None else [*bases, visible]
