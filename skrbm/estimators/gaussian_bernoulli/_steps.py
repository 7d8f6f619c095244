"""Samples of a fitted machine, and the states of its chains on the way."""

from dataclasses import replace

import numpy as np

from ...arrays import dense, make_rng, take_rows
from ...inference import Tempering, sample
from .._encoded import rows_to_start


def checked_steps(return_steps, n_steps):
    """Return the numbers of steps as a list of int."""
    wanted = np.asarray(() if return_steps is None else return_steps)
    if wanted.ndim != 1 or (wanted.size and wanted.dtype.kind not in "iu"):
        raise ValueError(f"return_steps must be a list of integers, got {return_steps!r}")
    wanted = [int(step) for step in wanted]
    if any(not 0 <= step <= n_steps for step in wanted):
        raise ValueError(f"return_steps must lie in [0, n_steps={n_steps}], got {wanted}")
    return wanted


def visible_at(steps, model, parts, init, n_samples, random_state):
    """Return the visible values of chains after some steps, a list of arrays.

    Parameters
    ----------
    steps : list of int
        The last is the length of the run.
    model : GaussianBernoulliRBM
        By whose sampler the chains go, or along whose ladder.
    parts : NoisyParts
    init : array-like of shape (n_samples, n_visible) or None
        Where the chains start; None: at random rows of ``starts_`` of a model with a ladder, else
        as those of the model phase.
    n_samples : int
    random_state : int, RandomState or None
    """
    machine, coordinates = model._in_training(parts), parts.coordinates
    rng = make_rng(random_state, machine.weights[0])
    first = _first_rows(model, init, n_samples, rng)
    first = None if first is None else coordinates.inward(first)
    noise = parts.phase.noise_rows(machine, rng, n_samples)
    kept, n_steps = {0: noise if first is None else first}, steps[-1]

    def keep(step, state, info):
        if step in steps:
            kept[step] = state.layers[0]

    if n_steps:
        sampler = _sampler(model, parts, machine, rng)
        sampler.check(machine)
        if first is None:
            phase = replace(parts.phase, n_steps=n_steps, burn_in=0)
            chains = phase.started(machine, sampler, noise, rng)
        else:
            chains = sampler.start(machine, first, rng)
        sample(sampler, machine, chains, rng, n_steps, callback=keep)
    return [coordinates.outward(kept[step]) for step in steps]


def _first_rows(model, init, n_samples, rng):
    """Return rows to start at in the data's own units, None for those of the model phase."""
    if init is not None:
        return dense(rows_to_start(model, init, n_samples))
    if not hasattr(model, "ladder_"):
        return None
    return take_rows(model.starts_, rng.integers(model.starts_.shape[0], n_samples))


def _sampler(model, parts, machine, rng):
    """Return the sampler of ``inference``, or tempering along the ladder of a model."""
    if not hasattr(model, "ladder_"):
        return parts.phase.current(machine, model.step_size_)
    return Tempering().on(machine, rng, parts.coordinates.ladder_inward(model.ladder_))
