"""Small random machines of every kind of unit, for the tests."""

import itertools
from dataclasses import replace

import numpy as np
from _exact import kinds

from skrbm.machine import Machine
from skrbm.units import UNITS, Bernoulli, Theta, joined


def random_theta(unit, n, generator, dtype=np.float64, spread=1.0):
    """Random valid parameters: those a unit starts with, moved in every statistic it has."""
    if hasattr(unit, "parts"):
        found = [(kind, columns) for kind, columns in kinds(unit, n) if len(columns)]
        parts = [random_theta(kind, len(own), generator, dtype, spread) for kind, own in found]
        order = np.argsort(np.concatenate([columns for _, columns in found]))
        return joined(parts).map(lambda part: part[order])
    theta = unit.default_theta(n, np.zeros(1, dtype=np.float64))
    field = theta.field + spread * generator.standard_normal(n)
    theta = theta._replace(field=field)
    if theta.precision is not None:
        theta = theta._replace(precision=theta.precision * np.exp(generator.uniform(-0.5, 0.5, n)))
    if theta.spike is not None:
        theta = theta._replace(spike=theta.spike + generator.standard_normal(n))
    if theta.skew is not None:
        absolute = theta.absolute + 0.5 * generator.standard_normal(n)
        skew = generator.uniform(-0.3, 0.3, n) * theta.precision
        theta = theta._replace(absolute=absolute, skew=skew)
    return theta.map(lambda part: part.astype(dtype))


def further_statistics(theta):
    """The names of the parameters whose statistics mean and variance do not tell."""
    return [name for name in theta._fields[2:] if getattr(theta, name) is not None]


def random_machine(kinds, sizes, seed, strength=0.5, spread=1.0, dtype=np.float64, scale=1.0):
    """A machine with normal weights of standard deviation ``strength``."""
    generator = np.random.default_rng(seed)
    units = tuple(UNITS[kind]() for kind in kinds)
    thetas = tuple(
        random_theta(unit, n, generator, dtype, spread)
        for unit, n in zip(units, sizes, strict=True)
    )
    weights = tuple(
        (strength * generator.standard_normal((above, below))).astype(dtype)
        for below, above in itertools.pairwise(sizes)
    )
    return Machine(units, thetas, weights, scale)


def two_modes(n_visible=8, n_hidden=4, strength=3.0):
    """A machine of two modes, all units 0 or all 1, which Gibbs sampling hardly moves between.

    So it is for a strength of 3.
    """
    W = np.full((n_hidden, n_visible), strength)
    thetas = (Theta(-W.sum(axis=0) / 2), Theta(-W.sum(axis=1) / 2))
    return Machine((Bernoulli(), Bernoulli()), thetas, (W,))


def with_strength(machine, factor):
    """The machine with its weights multiplied."""
    return replace(machine, weights=tuple(factor * W for W in machine.weights))


def enumerable_pairs():
    """Pairs of visible and hidden kinds that the oracle can sum: one of them has few values.

    Each kind is visible and is hidden, with binary units.
    """
    others = [("bernoulli", kind) for kind in UNITS if kind != "bernoulli"]
    return [("bernoulli", "bernoulli"), *others, *(pair[::-1] for pair in others)]


def parameters(machine):
    """Yield (name, array, function that returns the machine with another array) of each."""
    for l, theta in enumerate(machine.thetas):
        for name in theta._fields:
            if getattr(theta, name) is not None:
                yield f"{name} of layer {l}", getattr(theta, name), _theta_setter(machine, l, name)
    for l, W in enumerate(machine.weights):
        yield f"weights {l}", W, _weights_setter(machine, l)


def _theta_setter(machine, l, name):
    def put(values):
        thetas = list(machine.thetas)
        thetas[l] = thetas[l]._replace(**{name: values})
        return replace(machine, thetas=tuple(thetas))

    return put


def _weights_setter(machine, l):
    def put(values):
        return replace(machine, weights=(*machine.weights[:l], values, *machine.weights[l + 1 :]))

    return put


def differences(function, values, put, step=1e-5):
    """Central differences of ``function(machine)`` by each entry of one parameter array."""
    return slopes_of(lambda moved: function(put(moved)), [values], step)[0]


def slopes_of(function, arrays, step=1e-5):
    """Central differences of ``function(*arrays)`` by each entry of each of some arrays."""
    found = [np.zeros_like(array) for array in arrays]
    for k, slopes in enumerate(found):
        for index in np.ndindex(slopes.shape):
            ends = []
            for sign in (1, -1):
                moved = [array.copy() for array in arrays]
                moved[k][index] += sign * step
                ends.append(function(*moved))
            slopes[index] = (ends[0] - ends[1]) / (2 * step)
    return found


def gradient(machine, moments):
    """Expected statistics, in the order and shapes of :func:`parameters`."""
    parts = []
    for l, unit in enumerate(machine.units):
        theta = moments.statistics(unit, l)
        parts += [part for part in theta if part is not None]
    for l, W in enumerate(machine.weights):
        parts.append(machine.scale * moments.add_pair(machine, l, np.zeros_like(W), 1.0))
    return parts


def bits(n_rows=200, seed=0):
    """Rows of two patterns and their opposites, with few bits flipped."""
    generator = np.random.default_rng(seed)
    patterns = generator.integers(0, 2, (2, 8))
    patterns = np.concatenate([patterns, 1 - patterns])
    X = patterns[generator.integers(0, 4, n_rows)]
    return np.abs(X - (generator.random(X.shape) < 0.02)).astype(float)
