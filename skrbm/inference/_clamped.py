"""Inference with some of the visible units clamped at observed values.

A machine whose rows each have their own observed units is a machine with :class:`Held` units, which
fixed points, samplers, annealing and moments treat like any other.
"""

from dataclasses import replace

import numpy as np

from .._checks import check_count
from ..arrays import from_numpy, namespace, take_rows, to_numpy
from ..machine import condition, conditional
from ._fixed_point import choose
from ._gibbs import Gibbs, accept, odd_conditionals
from ._held import held
from ._sampler import last_visible, sample

_GIBBS = Gibbs()
_SWEEPS_OF_HIDDEN = 100  # of the hidden layers of a deep machine given a row


def clamped(machine, X, observed):
    """Return the machine with visible units held at X, row by row, where ``observed``."""
    return replace(machine, units=(held(machine.units[0], X, observed), *machine.units[1:]))


def rows_with_holes(observed):
    """Return index arrays of the rows that are fully observed, and of the others."""
    full = to_numpy(namespace(observed).all(observed, axis=1))
    return np.flatnonzero(full), np.flatnonzero(~full)


def with_rows(X, index, rows):
    """Return X with the rows at a NumPy index array replaced."""
    order = np.arange(X.shape[0])
    order[index] = X.shape[0] + np.arange(len(index))
    both = namespace(X).concat([X, rows], axis=0)
    return namespace(X).take(both, from_numpy(order, X), axis=0)


def completed(machine, X, observed, rng, n_steps, sampler=_GIBBS):
    """Return X with missing values drawn given the observed ones, by chains of a sampler.

    They start at X, or with a ladder at its samples.
    """
    _, holes = rows_with_holes(observed)
    if not len(holes) or not n_steps:
        return X
    start, observed = take_rows(X, holes), take_rows(observed, holes)
    held, sampler, state = chains_given(machine, start, observed, rng, sampler)
    if machine.samples_exactly and not sampler.has_rungs:
        return with_rows(X, holes, last_visible(sampler, held, state, rng, n_steps))
    return with_rows(X, holes, sample(sampler, held, state, rng, n_steps).layers[0])


def one_sweep(machine, rng, X):
    """Return the visible values of Gibbs chains one sweep after X.

    In a deep machine the hidden layers depend on each other given X, so that chains with X held
    draw them first.
    """
    state = _GIBBS.state_at(machine, X, rng)
    if len(machine.units) > 2:
        state = sample(_GIBBS, clamped(machine, X, X == X), state, rng, _SWEEPS_OF_HIDDEN)
    return sample(_GIBBS, machine, state, rng, 1).layers[0]


def clamped_mean(machine, X, observed, rng, n_steps, layer=0):
    """Return the means of a layer given the observed visible values, by Gibbs sampling.

    The machine has one hidden layer. Chains start at X, and the means are taken over the second
    half of ``n_steps`` sweeps. ``layer`` is 0 for the visible units and 1 for the hidden ones.
    """
    check_count("n_steps", n_steps, 1)
    exact, hidden = machine.samples_exactly, machine.units[1]
    machine = clamped(machine, X, observed)
    total, n_kept, old, above = 0.0, 0, X, condition(machine, X)
    for step in range(n_steps):
        theta = conditional(machine, 0, (None, hidden.sample(above, rng)))
        new = machine.units[0].sample(theta, rng)
        if not exact:
            thetas = [odd_conditionals(machine, (rows, None)) for rows in (old, new)]
            new = choose(accept(machine, *thetas, rng), new, old)
        old, above = new, condition(machine, new)
        if 2 * step < n_steps - 1:
            continue
        if layer == 1:
            mean = hidden.mean(above)
        else:  # the mean of a proposal is not a mean under the machine
            mean = machine.units[0].mean(theta) if exact else new
        total, n_kept = total + mean, n_kept + 1
    return total / n_kept if layer else namespace(X).where(observed, X, total / n_kept)


def tempered_mean(machine, X, observed, rng, n_steps, sampler, layer=0):
    """Return what :func:`clamped_mean` returns, but by tempering.

    These chains reach modes that chains of Gibbs sampling do not reach.
    """
    held, sampler, state = chains_given(machine, X, observed, rng, sampler)
    means = mean_of_chains(held, state, rng, n_steps, sampler, layer)
    return means if layer else namespace(X).where(observed, X, means)


def chains_given(machine, X, observed, rng, sampler):
    """Return the machine given the observed values of X, a sampler of it, and its chains."""
    held, sampler = clamped(machine, X, observed), sampler.given(X, observed)
    if sampler.has_samples:  # of all modes, while X may draw all chains to the same one
        X = held.units[0].with_known(sampler.rungs.last(X.shape[0], rng))
    return held, sampler, sampler.state_at(held, X, rng)


def mean_of_chains(machine, state, rng, n_steps, sampler, layer=0):
    """Return the means of a layer over the second half of ``n_steps`` sweeps of a sampler."""
    exact, total, n_kept = machine.samples_exactly, 0.0, 0

    def keep(step, state, info):
        nonlocal total, n_kept
        if 2 * (step - 1) < n_steps - 1:
            return
        mean = state.layers[0]
        if layer == 1:
            mean = machine.units[1].mean(condition(machine, mean))
        elif exact:  # else the hidden values are not draws from the machine
            mean = machine.units[0].mean(conditional(machine, 0, state.layers))
        total, n_kept = total + mean, n_kept + 1

    sample(sampler, machine, state, rng, n_steps, callback=keep)
    return total / n_kept
