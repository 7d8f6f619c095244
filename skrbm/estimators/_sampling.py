"""Samples of a fitted machine by Markov chains."""

import numpy as np

from ..arrays import make_rng, namespace, row_blocks
from ..inference import Gibbs, Tempering, resolve, sample
from ._log_partition import kept_with_parameters

_MOST_ELEMENTS = 2**24  # of the visible values of all rungs that are sampled together


def sampled(model, method, init, n_steps, rng):
    """Return the visible values of chains of a fitted machine.

    Parameters
    ----------
    model : DensityModel
    method : str or Tempering
        "gibbs", "tempering", or "auto": tempering if the model has a ladder.
    init : array of shape (n_chains, n_visible)
        Where the chains start.
    n_steps : int
    rng : Rng

    Returns
    -------
    array of shape (n_chains, n_visible)
    """
    machine, ladder = model.machine_, getattr(model, "ladder_", None)
    names = {"gibbs": Gibbs(), "tempering": Tempering()}
    names["auto"] = names["gibbs" if ladder is None else "tempering"]
    sampler = resolve(method, Tempering, argument="method", own=names)
    if not isinstance(sampler, Tempering):
        return sample(sampler, machine, sampler.start(machine, init, rng), rng, n_steps).layers[0]
    if ladder is None and sampler.rungs is None:
        sampler = kept_with_parameters(model, "ladder", lambda: _built(model, sampler))
    sampler = sampler.on(machine, rng, ladder)
    width = len(sampler.machines(machine)) * machine.n_units[0]
    parts = [
        sample(sampler, machine, sampler.start(machine, rows, rng), rng, n_steps).layers[0]
        for rows in row_blocks(init, max(1, _MOST_ELEMENTS // width))
    ]
    return namespace(init).concat(parts, axis=0)


def _built(model, sampler):
    """Return tempering along a ladder that is built, with the seed that log Z has."""
    machine, seed = model.machine_, model._evaluation_seed
    seed = np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key)
    base = model.density_.independent_units(model.density_.starts)
    return sampler.on(machine, make_rng(seed, machine.weights[0]), visible=base)
