"""Samples of a fitted machine by Markov chains."""

from ..arrays import make_rng, namespace, row_blocks
from ..inference import Gibbs, Tempering, resolve, sample
from ..machine import check_has_integral
from ._log_partition import kept_with_parameters

_MOST_ELEMENTS = 2**24  # of the visible values of all rungs that are sampled together


def chains_of(model, method, n_steps, rng):
    """Return a function of visible values where chains start, which returns those where they end.

    Parameters
    ----------
    model : DensityModel
    method : str or Tempering
        "gibbs", "tempering", or "auto": tempering if the model has a ladder.
    n_steps : int
    rng : Rng

    Returns
    -------
    callable
        Of an array of shape (n_chains, n_visible), which it does not change.

    Raises
    ------
    DivergenceError
        If the distribution has no integral.
    """
    check_has_integral(model.machine_)
    if n_steps == 0:
        return lambda rows: namespace(rows).asarray(rows, copy=True)
    machine, sampler = model.machine_, chosen_sampler(model, method, rng)

    def ends(rows):
        return sample(sampler, machine, sampler.state_at(machine, rows, rng), rng, n_steps).layers[
            0
        ]

    return lambda rows: by_blocks(ends, sampler, machine, rows)


def chosen_sampler(model, method, rng):
    """Return Gibbs sampling, or tempering along the ladder of a model or one that is built.

    Parameters
    ----------
    model : DensityModel
    method : str or Tempering
        As in :func:`chains_of`.
    rng : Rng

    Returns
    -------
    Sampler
    """
    ladder, names = getattr(model, "ladder_", None), {"gibbs": Gibbs(), "tempering": Tempering()}
    names["auto"] = names["gibbs" if ladder is None else "tempering"]
    sampler = resolve(method, Tempering, argument="method", own=names)
    if not sampler.has_rungs:
        return sampler
    if ladder is None and sampler.rungs is None:
        sampler = kept_with_parameters(model, "ladder", lambda: _built(model, sampler))
    return sampler.on(model.machine_, rng, ladder)


def by_blocks(function, sampler, machine, *rows):
    """Return ``function(*blocks)`` of blocks of rows, which all rungs of a sampler have.

    Without rungs, all rows are one block.
    """
    if not sampler.has_rungs:
        return function(*rows)
    size = max(1, _MOST_ELEMENTS // (len(sampler.machines(machine)) * machine.n_units[0]))
    blocks = zip(*(row_blocks(part, size) for part in rows), strict=True)
    return namespace(rows[0]).concat([function(*block) for block in blocks], axis=0)


def _built(model, sampler):
    """Return tempering along a ladder that is built, with the seed that log Z has."""
    machine = model.machine_
    rng = make_rng(model._evaluation_seed, machine.weights[0])
    base = model.density_.independent_units(model.density_.starts)
    return sampler.on(machine, rng, visible=base)
