"""Where growth starts: the rows, and the check of the first machine."""

from numbers import Real

import numpy as np

from ...arrays import take_rows, to_numpy
from ...inference import Gibbs
from ...inputs import machine_from
from ...machine import MAX_UNITS
from ...units import Bernoulli
from ._mixture import Mixture, machine_of, mixture_of
from ._samples import ExactModel, Rows, SampledModel


def check_start(params, mixture, like, max_units):
    """Refuse parameters, or a machine to begin with, that cannot grow."""
    if params.alpha <= 0 and params.radius is None:
        raise ValueError(
            "alpha=0 leaves the weights of a new unit without bound; set alpha > 0, or radius "
            "to the largest norm of a unit's weights"
        )
    if params.temperature == "learn" and params.step == "1/t":
        raise ValueError(
            "temperature='learn' scales units that a line search has found; whole units of "
            "step='1/t' have the temperature 'n_components', or share a number"
        )
    n, total = mixture.counts.size, mixture.counts.sum()
    if n > max_units:
        raise ValueError(
            f"init has {n} hidden units, more than max_components={max_units}; raise max_components"
        )
    if isinstance(params.temperature, Real) and total > params.temperature * (1 + 1e-6):
        raise ValueError(
            f"temperature={params.temperature} bounds the sum of the multiplicities, and that of "
            f"the machine to begin with is {total:.4g} already; set temperature to more, or to "
            "'n_components' or 'learn'"
        )
    with np.errstate(over="ignore"):
        if not machine_of(mixture, like).is_finite():
            raise ValueError(f"parameters of init overflow {like.dtype}, the dtype of X's")


def rows_of(X, distinct, positions):
    """Return rows with the probabilities that their weights make."""
    weights = None
    if distinct.weights is not None:
        weights = distinct.weights[positions] / distinct.weights[positions].sum()
    return Rows(take_rows(X, distinct.index[positions]), weights)


def first_mixture(init, X, distinct, train):
    """Return the machine to begin with: independent units, or ``init``."""
    if isinstance(init, str):
        rows, weights = take_rows(X, distinct.index[train]), distinct.weights_of(train)
        bias = to_numpy(Bernoulli().initial_theta(rows, weights).field).astype(np.float64)
        return Mixture(np.zeros((0, bias.size + 1)), np.zeros(0), bias)
    parts = init if isinstance(init, tuple | list) else (init, None, None)
    if len(parts) != 3:
        raise ValueError(
            "init must be 'independent', a fitted estimator or the three arrays (components, "
            f"intercept_hidden, intercept_visible), got {len(parts)} items"
        )
    if hasattr(parts[0], "multiplicities_"):
        machine = parts[0].machine_
    else:
        machine = machine_from(*parts, (Bernoulli(), Bernoulli()))
    if machine.n_units[0] != X.shape[1]:
        raise ValueError(
            f"init has {machine.n_units[0]} visible units, but X has {X.shape[1]} features"
        )
    return mixture_of(machine)


def model_of(params, n_visible, like, rng):
    """Return what stands for the distribution of the machines."""
    if params.inference != "exact":
        sampler = Gibbs(params.n_gibbs_steps) if params.inference == "gibbs" else params.inference
        return SampledModel(sampler, params.n_chains, like, rng)
    if n_visible > MAX_UNITS:
        raise ValueError(
            "inference='exact' sums over all configurations of at most "
            f"{MAX_UNITS} visible units, and X has {n_visible} features; use inference='gibbs'"
        )
    return ExactModel(n_visible, like)
