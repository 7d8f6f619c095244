"""Samples of a fitted machine, and the states of its chains on the way."""

from dataclasses import replace

import numpy as np

from ...inference import sample


def checked_steps(return_steps, n_steps):
    """Return the numbers of steps as a list of int."""
    wanted = np.asarray(() if return_steps is None else return_steps)
    if wanted.ndim != 1 or (wanted.size and wanted.dtype.kind not in "iu"):
        raise ValueError(f"return_steps must be a list of integers, got {return_steps!r}")
    wanted = [int(step) for step in wanted]
    if any(not 0 <= step <= n_steps for step in wanted):
        raise ValueError(f"return_steps must lie in [0, n_steps={n_steps}], got {wanted}")
    return wanted


def visible_at(steps, machine, phase, step_size, first, n_samples, rng):
    """Return the visible values of chains after some steps, a list of arrays.

    Parameters
    ----------
    steps : list of int
        The last is the length of the run.
    machine : Machine
    phase : ChainPhase
        Whose sampler and starts are taken.
    step_size : float or None
        What the sampler has come to in learning.
    first : array of shape (n_samples, n_visible) or None
        Where the chains start; None: as those of the phase.
    n_samples : int
    rng : Rng
    """
    noise = phase.noise_rows(machine, rng, n_samples)
    kept, n_steps = {0: noise if first is None else first}, steps[-1]

    def keep(step, state, info):
        if step in steps:
            kept[step] = state.layers[0]

    if n_steps:
        sampler = phase.current(machine, step_size)
        sampler.check(machine)
        if first is None:
            phase = replace(phase, n_steps=n_steps, burn_in=0)
            chains = phase.started(machine, sampler, noise, rng)
        else:
            chains = sampler.start(machine, first, rng)
        sample(sampler, machine, chains, rng, n_steps, callback=keep)
    return [kept[step] for step in steps]
