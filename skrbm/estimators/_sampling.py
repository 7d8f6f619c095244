"""Samples of a fitted machine by Markov chains."""

import math
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..arrays import dense, make_rng, namespace, row_blocks, take_rows, to_numpy
from ..inference import Gibbs, Tempering, draw_visible, own_bases, resolve, sample
from ..learning import CORRELATED, N_SWEEPS, remaining
from ..machine import check_has_integral, uncoupled
from ._log_partition import kept_with_parameters

_N_CHECKED = 100  # chains of each start that show whether chains mix
_MOST_WEIGHTS = 2**15  # of a machine for which a ladder is built if they do not
_MOST_ELEMENTS = 2**24  # of the visible values of all rungs that are sampled together


def chains_of(model, method, n_steps, rng):
    """Return a function of visible values where chains start, which returns those where they end.

    Parameters
    ----------
    model : DensityModel
    method : str or Tempering
        "gibbs", "tempering", or "auto": tempering if the model has a ladder, or if its chains do
        not mix and it is small.
    n_steps : int
    rng : Rng

    Returns
    -------
    callable
        Of an array of shape (n_chains, n_visible), which it does not change.

    Raises
    ------
    DivergenceError
        If the distribution cannot be normalized.
    """
    check_has_integral(model.machine_)
    if n_steps == 0:
        return lambda rows: namespace(rows).asarray(rows, copy=True)
    if method == "auto" and not hasattr(model, "ladder_"):
        method = _method_that_mixes(model)
    machine, sampler = model.machine_, chosen_sampler(model, method, rng)

    def ends(rows):
        chains = sampler.state_at(machine, rows, rng)
        return sample(sampler, machine, chains, rng, n_steps).layers[0]

    return lambda rows: by_blocks(ends, sampler, machine, rows)


def _method_that_mixes(model):
    """Return "gibbs", or "tempering" for a small machine whose chains do not mix.

    A larger machine gives a warning. Chains do not mix if they are still where they were after 50
    sweeps, along one of the main directions in which they differ. They start at ``starts_``, and in
    a small machine as many start at independent units, which may lead to other modes.
    """
    machine, sampler = model.machine_, Gibbs()
    is_small = math.prod(machine.n_units) <= _MOST_WEIGHTS
    if len(machine.units) > 2 or not machine.weights[0].shape[0]:
        return "gibbs"

    def correlation():
        rng = make_rng(model._evaluation_seed, machine.weights[0])
        index = np.resize(np.arange(model.starts_.shape[0]), _N_CHECKED)
        rows = [dense(take_rows(model.starts_, index))]
        if is_small:
            bases = (uncoupled(machine, theta) for theta in own_bases(machine))
            rows += [draw_visible(base, rng, _N_CHECKED) for base in bases]
        rows = namespace(rows[0]).concat(rows, axis=0)
        begin = sample(sampler, machine, sampler.state_at(machine, rows, rng), rng, N_SWEEPS)
        end = to_numpy(sample(sampler, machine, begin, rng, N_SWEEPS).layers[0])
        begin = to_numpy(begin.layers[0])
        return remaining(begin, end, begin)

    found = kept_with_parameters(model, "autocorrelation", correlation)
    if found <= CORRELATED:
        return "gibbs"
    if is_small:
        return "tempering"
    warnings.warn(
        f"chains do not mix (after {N_SWEEPS} sweeps their autocorrelation is {found:.2f}), so "
        "that the shares of modes in samples are those of starts_; give method='tempering', which "
        "takes longer",
        ConvergenceWarning,
        stacklevel=4,
    )
    return "gibbs"


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
