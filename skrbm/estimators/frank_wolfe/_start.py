"""Where growth starts: the rows, and the check of the first machine."""

from dataclasses import fields
from numbers import Real

import numpy as np

from ...arrays import Columns, make_rng, take_rows, to_numpy
from ...inference import Gibbs, resolve
from ...inputs import machine_from
from ...machine import MAX_UNITS
from ...units import Bernoulli
from .._parts import parts_of_init
from ._growth import Growth, Plan
from ._incomplete import IncompleteRows
from ._mixture import Mixture, machine_of, mixture_of
from ._samples import ExactModel, SampledModel, WeightedRows

_MANY_COPIES = 5  # of each row, on average
_SCORED, _HELD_OUT = 256, 1000  # most rows with missing values whose likelihood is followed


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


def split_rows(rows, fraction, rng):
    """Hold out about a fraction of the rows, or none.

    Equal rows stay together. Where they are many, the others would lack whole patterns of the data,
    and so many copies tell well enough how frequent each pattern is: none is held out.

    Returns
    -------
    train : ndarray of int
        Positions of the rows to learn from.
    held_out : ndarray of int or None
    """
    repeated = len(rows) == 1 or rows.total >= _MANY_COPIES * len(rows)
    if not fraction or repeated:
        return np.arange(len(rows)), None
    return rows.split(max(fraction, 1 / rows.total), rng)


def weighted(rows, positions, means, seed, n_scored):
    """Return the rows at some positions, with the probabilities that their weights make.

    The last three arguments are those of :class:`IncompleteRows`.
    """
    weights = rows.weights_of(positions)
    X, weights = take_rows(rows.X, rows.index[positions]), weights / weights.sum()
    if rows.has_missing:
        return IncompleteRows(X, weights, rows.dtype, means, seed, n_scored)
    return WeightedRows(X, weights, rows.dtype)


def column_means(rows, before):
    """Return the means of what is known of each column, ndarray; without it those ``before``."""
    means = to_numpy(rows.means).astype(np.float64)
    before = np.full(means.shape, 0.5) if before is None else to_numpy(before)
    return np.where(np.isnan(means), before, means)


def first_mixture(init, rows, train):
    """Return the machine to begin with: independent units, or ``init``."""
    if isinstance(init, str):
        theta = rows.initial_theta
        if not rows.has_missing:
            some = Columns(rows.X, rows.weights_of(train), rows.index[train])
            theta = rows.unit.initial_theta(some)
        bias = to_numpy(theta.field).astype(np.float64)
        return Mixture((), np.zeros(0), bias)
    parts = parts_of_init(init, "independent")
    if hasattr(parts[0], "multiplicities_"):
        machine = parts[0].machine_
    else:
        machine = machine_from(*parts, (Bernoulli(), Bernoulli()))
    if machine.n_units[0] != rows.X.shape[1]:
        raise ValueError(
            f"init has {machine.n_units[0]} visible units, but X has {rows.X.shape[1]} features"
        )
    return mixture_of(machine)


def model_of(params, n_visible, like, rng):
    """Return what stands for the distribution of the machines."""
    if params.inference != "exact":
        sampler = resolve(params.inference, Gibbs, n_steps=params.n_gibbs_steps)
        if sampler.own_start is not None:
            raise ValueError(
                f"inference={sampler} starts its chains at batches of data, and growth needs "
                f"chains that go on from unit to unit; use Gibbs({sampler.n_steps})"
            )
        return SampledModel(sampler, params.n_chains, like, rng)
    if n_visible > MAX_UNITS:
        raise ValueError(
            "inference='exact' sums over all configurations of at most "
            f"{MAX_UNITS} visible units, and X has {n_visible} features; use inference='gibbs'"
        )
    return ExactModel(n_visible, like)


def growth_of(params, rows, mixture, start, like, seeds):
    """Return a :class:`Growth`, before it begins or as it was.

    Parameters
    ----------
    params : FrankWolfeRBM
    rows : Rows
    mixture : Mixture or None
        The machine to go on from; None for ``init``.
    start : dict
        ``limits`` are the number of units at which to stop, and whether to stop early, or by what.
        ``growth`` is the state of a growth to go on with, if it has begun.
    like : array
        Whose library and dtype the chains have.
    seeds : sequence of SeedSequence
        Of the chains; of what is set aside, and of random starts.
    """
    max_units, early_stopping = start["limits"]
    generator = np.random.default_rng(seeds[1])
    fraction = params.validation_fraction if early_stopping else 0
    train, others = split_rows(rows, fraction, generator)
    before = None if mixture is None else getattr(params, "visible_means_", None)
    own = column_means(rows, before), seeds[1]
    data = weighted(rows, train, *own, _SCORED)
    held_out = None if others is None else weighted(rows, others, *own, _HELD_OUT)
    if mixture is None:
        mixture = first_mixture(params.init, rows, train)
    else:
        max_units = np.inf
    check_start(params, mixture, like, max_units)
    model = model_of(params, mixture.bias.size, like, make_rng(seeds[0], like))
    plan = Plan(**{field.name: getattr(params, field.name) for field in fields(Plan)})
    growth = Growth(plan, data, model, mixture, generator, held_out)
    if "growth" in start:
        growth.set_state(start["growth"])
    return growth
