"""Where growth starts: the rows, and the check of the first machine."""

from dataclasses import fields
from numbers import Real

import numpy as np
import scipy.sparse as sp

from ...arrays import cast, dense_rows, from_numpy, make_rng, take_rows, to_numpy, working_dtype
from ...inference import Gibbs, resolve
from ...inputs import DistinctRows, check_range, into_support, machine_from, rows_with_weight
from ...machine import MAX_UNITS
from ...units import Bernoulli
from .._parts import parts_of_init
from ._growth import Growth, Plan
from ._mixture import Mixture, machine_of, mixture_of
from ._samples import ExactModel, SampledModel, WeightedRows

_MANY_COPIES = 5  # of each row, on average


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


def checked_rows(X, sample_weight, binarize, dtype):
    """Return binary rows without those of weight 0, and the distinct ones among them."""
    unit, given = Bernoulli(), working_dtype(X)
    weights, X = rows_with_weight(sample_weight, X)
    if check_range(X, unit, binarize):
        X = into_support(X, unit, binarize)
    if working_dtype(X) != given:  # thresholds leave booleans
        X = X.astype(dtype) if sp.issparse(X) else cast(X, dtype)
    return X, DistinctRows([X], weights)


def fingerprint(X, distinct):
    """Return a text that differs, but for chance, if rows or their weights differ."""

    def values(positions):
        index = from_numpy(distinct.index[positions], X)
        return [dense_rows(X, index, working_dtype(X))]

    return distinct.told_by(values)


def split_rows(X, distinct, fraction, rng):
    """Hold out about a fraction of the rows, or none.

    Equal rows stay together. Where they are many, the others would lack whole patterns of the data,
    and so many copies tell well enough how frequent each pattern is: none is held out.

    Returns
    -------
    train : ndarray of int
        Positions of the rows to learn from.
    data : WeightedRows
        These rows.
    held_out : WeightedRows or None
    """
    repeated = len(distinct) == 1 or distinct.total >= _MANY_COPIES * len(distinct)
    if not fraction or repeated:
        train = np.arange(len(distinct))
        return train, _rows_of(X, distinct, train), None
    train, held_out = distinct.split(max(fraction, 1 / distinct.total), rng)
    return train, _rows_of(X, distinct, train), _rows_of(X, distinct, held_out)


def _rows_of(X, distinct, positions):
    """Return rows with the probabilities that their weights make."""
    weights = None
    if distinct.weights is not None:
        weights = distinct.weights[positions] / distinct.weights[positions].sum()
    return WeightedRows(take_rows(X, distinct.index[positions]), weights)


def first_mixture(init, X, distinct, train):
    """Return the machine to begin with: independent units, or ``init``."""
    if isinstance(init, str):
        rows, weights = take_rows(X, distinct.index[train]), distinct.weights_of(train)
        bias = to_numpy(Bernoulli().initial_theta(rows, weights).field).astype(np.float64)
        return Mixture((), np.zeros(0), bias)
    parts = parts_of_init(init, "independent")
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


def growth_of(params, X, distinct, mixture, start, like, seeds):
    """Return a :class:`Growth`, before it begins or as it was.

    Parameters
    ----------
    params : FrankWolfeRBM
    X, distinct
        What :func:`checked_rows` returns.
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
    train, data, held_out = split_rows(X, distinct, fraction, generator)
    if mixture is not None:
        max_units = np.inf
    else:
        mixture = first_mixture(params.init, X, distinct, train)
    check_start(params, mixture, like, max_units)
    model = model_of(params, mixture.bias.size, like, make_rng(seeds[0], like))
    plan = Plan(**{field.name: getattr(params, field.name) for field in fields(Plan)})
    growth = Growth(plan, data, model, mixture, generator, held_out)
    if "growth" in start:
        growth.set_state(start["growth"])
    return growth
