"""Annealing: chains that follow a path of machines from one machine to another (Neal 2001)."""

from dataclasses import replace
from typing import Any, NamedTuple

from ..arrays import cast, cumulative_sum, like, namespace
from ..machine import conditional, difference, input_field, interpolate, is_per_row
from ._fixed_point import map_rows
from ._gibbs import accept, samples_exactly
from ._sampler import choose


class Annealed(NamedTuple):
    """Result of :func:`anneal`.

    Attributes
    ----------
    layers : tuple of arrays of shape (n_chains, n_units[l])
        Where the chains end. Only the even layers are draws at the last temperature.
    log_weights : array of shape (n_chains,), float64
        Log importance weights. They are equal in groups that were drawn anew at the last step.
    parts : array of shape (n_chains, n_parts), float64
        What each part of the temperatures added to the log weights of a chain, or of those that it
        was drawn from; None unless ``n_parts`` was given.
    """

    layers: tuple
    log_weights: Any
    parts: Any = None


def anneal(machine, base, betas, layers, rng, *, sampler=None, resample=0.0, n_groups=1, n_parts=0):
    """Carry chains along a path of machines and return their log importance weights.

    At each inverse temperature the weights are updated, and then the chains make one sweep. The
    odd layers (the hidden one, if there is one) are independent given the even ones and are summed
    out of the weights. The log of the mean weight estimates log Z of the last machine minus log Z
    of the first.

    Parameters
    ----------
    machine, base : Machine
        The machines at beta = 1 and beta = 0. They share the weights, and ``base`` has scale 0.
    betas : array of shape (n_temperatures,), or callable
        Inverse temperatures, rising or falling, of which the first is that of ``layers``. Or a
        function that chooses them: ``betas(gain)`` returns an iterator over the temperatures after
        0, and ``gain(beta)`` returns what a step to ``beta`` would add to the log weights.
    layers : sequence of arrays of shape (n_chains, n_units[l])
        Draws from the machine at the first temperature. The odd layers are not used.
    rng : Rng
    sampler : Sampler, default=None
        What moves the chains of a machine with one hidden layer. The default is block Gibbs
        sampling of any number of layers, which shares a product with the weights.
    resample : float in [0, 1], default=0.0
        Chains are drawn anew by their weights before a sweep if a smaller part of them is effective
        (sequential Monte Carlo). Modes then have their share of the chains even if no chain moves
        between them. With 0 chains keep their weights; with 1 they are drawn before each sweep.
    n_groups : int, default=1
        Number of groups of equal size, one after the other, among which chains are drawn.
    n_parts : int, default=0
        Number of parts into which an array of temperatures is split, each with as many steps.

    Returns
    -------
    Annealed
    """
    if is_per_row(machine.scale):
        raise ValueError("annealing needs one scale for all rows; anneal one machine at a time")
    machine, base = (each.of_rows(layers[0]) for each in (machine, base))
    same = all(W is W0 for W, W0 in zip(machine.weights, base.weights, strict=True))
    path = (_Path if same else _PathOfWeights)(machine, base)
    layers, n_steps = tuple(layers), None
    fields, last = path.fields(layers), path.at(0.0)
    if not callable(betas):
        n_steps, last = len(betas) - 1, path.at(betas[0])
    log_weights = path.zeros(layers)
    parts = path.zeros(layers, n_parts) if n_parts else None

    def gain(beta):
        return path.add_gain(path.zeros(layers), last, path.at(beta), layers, fields)[0]

    for step, beta in enumerate(betas(gain) if n_steps is None else betas[1:]):
        now = path.at(beta)
        if n_parts:
            parts[:, step * n_parts // n_steps] -= log_weights
        log_weights, thetas = path.add_gain(log_weights, last, now, layers, fields)
        if n_parts:
            parts[:, step * n_parts // n_steps] += log_weights
        if resample:
            rows, log_weights = resampled_index(log_weights, rng, resample, n_groups)
            if rows is not None:
                layers, fields, thetas, parts = _take((layers, fields, thetas, parts), rows)
        if sampler is None:
            layers, fields = path.sweep(now, layers, fields, thetas, rng)
        else:
            layers = _moved(sampler, step, n_steps, now, layers, rng)
            fields = path.fields(layers)
        last = now
    return Annealed(layers, log_weights, parts)


class _Path:
    """The machines between two, and what is the same at all temperatures."""

    def __init__(self, machine, base):
        n_layers = len(machine.units)
        self.machine, self.base = machine, base
        self.even, self.odd = range(0, n_layers, 2), range(1, n_layers, 2)
        self.exact = samples_exactly(machine)
        self.slopes = [
            difference(own, first) for own, first in zip(machine.thetas, base.thetas, strict=True)
        ]
        self._unscaled = replace(machine, scale=1.0)

    def at(self, beta):
        """Return the machine at an inverse temperature, and the temperature."""
        return float(beta), interpolate(self.base, self.machine, float(beta))

    def zeros(self, layers, *shape):
        """Return zero log weights, one for each chain, or an array of them for each."""
        W = self.machine.weights[0]
        xp = namespace(W)
        return xp.zeros((layers[0].shape[0], *shape), **{**like(W), "dtype": xp.float64})

    def fields(self, layers):
        """Return the fields of the even layers on the odd ones for a scale of 1, by layer.

        They do not depend on the temperature, so that one product with the weights serves both
        machines of a step.
        """
        return {l: input_field(self._unscaled, l, layers) for l in self.odd}

    def field(self, at, fields, l):
        """Return the field on an odd layer at a temperature."""
        return at[1].scale * fields[l]

    def conditionals(self, at, fields):
        """Return the parameters of the odd layers at a temperature, by layer."""
        _, machine = at
        return {
            l: machine.units[l].tilt(machine.thetas[l], self.field(at, fields, l)) for l in self.odd
        }

    def add_gain(self, log_weights, last, now, layers, fields):
        """Add the log weights of a step between two temperatures, in place.

        Returns
        -------
        log_weights : array of shape (n_chains,)
        thetas : dict of Theta
            Parameters of the odd layers at the new temperature.
        """
        for l in self.even:
            slope = self.machine.units[l].dot(self.slopes[l], layers[l])
            log_weights += (now[0] - last[0]) * slope
        thetas = self.conditionals(now, fields)
        for l, theta in self.conditionals(last, fields).items():
            log_weights += self.machine.units[l].log_ratio(theta, thetas[l])
        return log_weights, thetas

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
        # Nothing uses the odd layers after the sweep, so they need no choice.
        old = tuple(new[l] if l in self.odd else layer for l, layer in enumerate(layers))
        return choose(accepted, (new, new_fields), (old, fields))


class _PathOfWeights(_Path):
    """The machines between two that have the same scale, and weights of their own."""

    def fields(self, layers):
        return {
            l: tuple(input_field(machine, l, layers) for machine in (self.base, self.machine))
            for l in self.odd
        }

    def field(self, at, fields, l):
        first, last = fields[l]
        return first + at[0] * (last - first)


def _moved(sampler, step, n_steps, now, layers, rng):
    """Return the layers after one step of a sampler, given the visible values."""
    _, machine = now
    start = sampler.start(machine, layers[0], rng)
    if n_steps is not None:
        sampler = sampler.at(step, n_steps)
    return sampler.step(machine, start, rng)[0].layers


def resampled(rows, log_weights, rng):
    """Return as many rows, drawn systematically with probabilities by their log weights."""
    index, _ = resampled_index(log_weights, rng)
    return rows if index is None else namespace(rows).take(rows, index, axis=0)


def resampled_index(log_weights, rng, part=1.0, n_groups=1):
    """Draw as many rows in each group, systematically by log weights; NaN counts as -inf.

    Parameters
    ----------
    log_weights : array of shape (n_rows,), float64
    rng : Rng
    part : float, default=1.0
        Groups are drawn of which a smaller part is effective.
    n_groups : int, default=1
        The groups have equal sizes and lie one after the other.

    Returns
    -------
    index : array of shape (n_rows,) or None
        The rows that are drawn; None if each row is drawn once.
    log_weights : array of shape (n_rows,)
        The new ones: in groups that were drawn, equal and with the same mean weight.
    """
    xp, n = namespace(log_weights), log_weights.shape[0] // n_groups
    old = xp.reshape(log_weights, (n_groups, n))
    top, means, parts, weights = _group_weights(xp.where(old == old, old, -xp.inf))
    drawn = parts < part
    if not bool(xp.any(drawn)):
        return None, log_weights
    # Groups take turns on one line, on which each has a length of 1.
    turns = xp.arange(n_groups, **like(weights))[:, None]
    ends = turns + cumulative_sum(weights) / (n * means)
    offsets = cast(rng.uniform((n_groups, 1)), ends.dtype)
    points = turns + (xp.arange(n, **like(ends)) + offsets) / n
    index = xp.searchsorted(xp.reshape(ends, (-1,)), xp.reshape(points, (-1,)), side="right")
    index = xp.reshape(index, (n_groups, n))
    first = cast(n * turns, index.dtype)
    index = xp.minimum(xp.maximum(index, first), first + (n - 1))
    own = first + cast(xp.arange(n, **like(ends)), index.dtype)
    index = xp.where(drawn, index, own)
    return xp.reshape(index, (-1,)), xp.reshape(xp.where(drawn, top + xp.log(means), old), (-1,))


def _group_weights(log_weights):
    """Return, of each row, the largest log weight, mean and effective part of weights, and these.

    Weights are relative to the largest, and all but they have shape (n_rows, 1).
    """
    xp = namespace(log_weights)
    top = xp.max(log_weights, axis=-1, keepdims=True)
    weights = xp.exp(log_weights - top)
    means = xp.mean(weights, axis=-1, keepdims=True)
    return top, means, means**2 / xp.mean(weights**2, axis=-1, keepdims=True), weights


def effective_part(log_weights):
    """Return the effective part (sum w)² / (n sum w²) of weights, a float."""
    return float(_group_weights(log_weights[None, :])[2][0, 0])


def own_bases(machine):
    """Return parameters of visible units from which annealing may start, a list of Theta.

    They are the machine's own and, if units are bounded, those of units that know no data.
    """
    unit, own = machine.units[0], machine.thetas[0]
    if unit.tail_precision(own) is not None:
        return [own]
    return [own, unit.default_theta(machine.n_units[0], machine.weights[0])]


def _take(states, index):
    """Return the rows of states at an index; arrays that all rows share stay as they are."""

    def rows(leaf):
        return leaf if leaf.ndim == 1 else namespace(leaf).take(leaf, index, axis=0)

    return map_rows(rows, states)
