"""Samples of a fitted machine, and its visible and hidden values given some of the visible ones."""

import itertools
import math
import warnings
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from .._checks import check_count
from ..arrays import (
    CommonRng,
    cast,
    dense,
    make_rng,
    namespace,
    row_blocks,
    seed_sequence,
    take_rows,
    to_numpy,
)
from ..evaluation._observed import exact_sums, most_units
from ..inference import (
    Gibbs,
    Tempering,
    clamped,
    clamped_mean,
    completed,
    draw_visible,
    own_bases,
    resolve,
    rows_with_holes,
    sample,
    solve,
    tempered_mean,
    with_rows,
)
from ..inputs import check_held, into_support, split_missing
from ..learning import CORRELATED, N_SWEEPS, remaining
from ..machine import check_has_integral, condition, uncoupled
from ._encoded import blocks_of, by_blocks, decoded, takes_table
from ._log_partition import kept_with_parameters

N_STEPS = 200  # of the chain of a row
_N_CHECKED = 100  # chains of each start that show whether chains mix
_MOST_WEIGHTS = 2**15  # of a machine for which a ladder is built if they do not
_MOST_ELEMENTS = 2**24  # of the visible values of all rungs that are sampled together
_SUMMED_ELEMENTS = 2**17  # of rows whose hidden units are summed over together
_IMPUTE_SWEEPS, _IMPUTE_DAMPING = 1000, 0.2
_BLOCK_ROWS = 1024


# ------------------------------------------------------------------------------- samplers


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
    """
    machine = model.machine_
    check_has_integral(machine)
    if n_steps == 0:
        return lambda rows: namespace(rows).asarray(rows, copy=True)
    if method == "auto" and not hasattr(model, "ladder_"):
        method = _method_that_mixes(model)
    sampler = _sampler_of(model, method, rng)

    def ends(rows):
        chains = sampler.state_at(machine, rows, rng)
        return sample(sampler, machine, chains, rng, n_steps).layers[0]

    return lambda rows: _by_rungs(ends, sampler, machine, rows)


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
        "that the shares of modes in samples are those of starts_; give method='tempering'",
        ConvergenceWarning,
        stacklevel=4,
    )
    return "gibbs"


def _sampler_of(model, method, rng):
    """Return Gibbs sampling, or tempering along the ladder of a model or one that is built."""
    ladder, names = getattr(model, "ladder_", None), {"gibbs": Gibbs(), "tempering": Tempering()}
    names["auto"] = names["gibbs" if ladder is None else "tempering"]
    sampler = resolve(method, Tempering, argument="method", own=names)
    if not sampler.has_rungs:
        return sampler
    machine = model.machine_

    def build():  # with the seed that log Z has
        rng = make_rng(model._evaluation_seed, machine.weights[0])
        base = model.density_.independent_units(model.density_.starts)
        return sampler.on(machine, rng, visible=base)

    if ladder is None and sampler.rungs is None:
        sampler = kept_with_parameters(model, "ladder", build)
    return sampler.on(machine, rng, ladder)


def _by_rungs(function, sampler, machine, *rows):
    """Return ``function(*blocks)`` of blocks of rows, which all rungs of a sampler have.

    Without rungs, all rows are one block.
    """
    if not sampler.has_rungs:
        return function(*rows)
    size = max(1, _MOST_ELEMENTS // (len(sampler.machines(machine)) * machine.n_units[0]))
    blocks = zip(*(row_blocks(part, size) for part in rows), strict=True)
    return namespace(rows[0]).concat([function(*block) for block in blocks], axis=0)


# --------------------------------------------------------- given some of the visible values


def _split_missing(model, X):
    """Return blocks of (X filled with the visible means, which entries are observed)."""
    machine, X = model.machine_, model._encode(X, missing=True, sparse=takes_table(model))
    unit = machine.units[0]
    unit.check_values(X)
    X, means = into_support(X, unit), unit.mean(machine.thetas[0])

    def split(rows):
        rows = dense(rows)
        xp, observed = namespace(rows), rows == rows
        check_held(xp.where(observed, rows, xp.zeros_like(rows)), machine.dtype)
        rows = cast(rows, machine.dtype)
        return xp.where(observed, rows, xp.broadcast_to(means, rows.shape)), observed

    return map(split, blocks_of(model, X))


@by_blocks
def drawn_given(model, X, *, init, n_steps, random_state, method="auto"):
    """Return X with draws in place of NaN, given the observed values of each row."""
    if init is not None:
        raise ValueError("sample takes init or given, not both: given says where chains start")
    if sp.issparse(X):
        raise TypeError("given is sparse, and NaN marks what is drawn: make it dense, by toarray()")
    check_count("n_steps", n_steps, 1)
    machine, blocks = model.machine_, _split_missing(model, X)
    rng = make_rng(random_state, machine.weights[0])
    sampler = _sampler_of(model, method, rng)

    def draws(X, observed):
        return completed(machine, X, observed, rng, n_steps, sampler)

    drawn = (_by_rungs(draws, sampler, machine, *block) for block in blocks)
    return decoded(model, drawn, X, drawn=True, completes=True)


def imputed(model, X, method, n_steps, random_state):
    """Return X with NaN replaced by means given the observed values of the row, in blocks of rows.

    Parameters
    ----------
    model : DensityModel
    X : array-like of shape (n_rows, n_visible)
    method : str or Tempering
        "auto": by the equations of the model, or where it has none by exact sums in rows where
        these are cheap, and elsewhere as in :func:`chains_of`.
    n_steps : int or None
    random_state : int, RandomState or None

    Returns
    -------
    iterator of arrays of shape (n_rows, n_visible)
    """
    is_auto, machine = method == "auto", model.machine_
    equations = model._own_fixed_point() if is_auto else None
    n_steps = (N_STEPS if equations is None else _IMPUTE_SWEEPS) if n_steps is None else n_steps
    check_count("n_steps", n_steps, 1)
    blocks = _split_missing(model, X)
    if equations is not None:

        def solved(X, observed):
            solution = _clamped_solution(equations, machine, X, observed, n_steps)
            return cast(solution.state.means[0], X.dtype)

        return itertools.starmap(solved, blocks)
    seed = seed_sequence(random_state)
    rng = make_rng(seed, machine.weights[0])
    sampler = _sampler_of(model, method, rng)

    def sampled(X, observed):
        if sampler.has_rungs:
            return tempered_mean(machine, X, observed, rng, n_steps, sampler)
        # a row has the same chain whatever the other rows are
        own = CommonRng(make_rng(seed, machine.weights[0]), X.shape[0])
        return clamped_mean(machine, X, observed, own, n_steps)

    def exact_or_sampled(X, observed):
        _, holes = rows_with_holes(observed)
        if not len(holes):
            return X
        rows, seen = take_rows(X, holes), take_rows(observed, holes)
        double = machine.astype(namespace(X).float64)
        most = most_units(double, N_STEPS)
        _, found, exact = exact_sums(double, cast(rows, double.dtype), seen, most, layer=0)
        found = namespace(X).where(seen, rows, cast(found, X.dtype))
        left = np.flatnonzero(~exact)
        if left.size:
            drawn = sampled(take_rows(rows, left), take_rows(seen, left))
            found = with_rows(found, left, cast(drawn, X.dtype))
        return with_rows(X, holes, found)

    def means(X, observed):
        if not is_auto:
            return sampled(X, observed)
        size = max(1, _SUMMED_ELEMENTS // X.shape[1])
        parts = zip(row_blocks(X, size), row_blocks(observed, size), strict=True)
        return namespace(X).concat([exact_or_sampled(*rows) for rows in parts], axis=0)

    return (_by_rungs(means, sampler, machine, *block) for block in blocks)


def hidden_means(model, X):
    """Return E[h | the observed values] of rows with NaN, X as the machine's units take it.

    Exactly where few units are to be summed over, and elsewhere by the equations of the model or,
    where it has none, by Gibbs chains.
    """
    machine = model.machine_
    means = machine.units[0].mean(machine.thetas[0])
    blocks = row_blocks(X, _BLOCK_ROWS)
    parts = [_hidden_means(model, machine, dense(rows), means) for rows in blocks]
    return namespace(parts[0]).concat(parts, axis=0)


def _hidden_means(model, machine, X, visible_means):
    X, observed = split_missing(X, visible_means)
    found = machine.units[1].mean(condition(machine, X))
    if observed is None:
        return found
    _, holes = rows_with_holes(observed)
    X, observed = take_rows(X, holes), take_rows(observed, holes)
    double, method = machine.astype(namespace(X).float64), model._own_fixed_point()
    rows, most = cast(X, double.dtype), most_units(double, N_STEPS)
    _, means, exact = exact_sums(double, rows, observed, most, layer=1)
    left = np.flatnonzero(~exact)
    if left.size and method is not None:
        rows = take_rows(X, left), take_rows(observed, left)
        solved = _clamped_solution(method, machine, *rows, _IMPUTE_SWEEPS)
        means = with_rows(means, left, solved.state.means[1])
    elif left.size:
        rng = CommonRng(make_rng(model._evaluation_seed, machine.weights[0]), len(left))
        rows = take_rows(X, left), take_rows(observed, left)
        sampled = clamped_mean(machine, *rows, rng, N_STEPS, layer=1)
        means = with_rows(means, left, cast(sampled, means.dtype))
    return with_rows(found, holes, cast(means, found.dtype))


def _clamped_solution(method, machine, X, observed, n_steps):
    """Return the converged equations in float64, with the observed units held."""
    method = replace(method, damping=max(method.damping, _IMPUTE_DAMPING))
    method = replace(method, max_iter=n_steps, tol=min(method.tol, 1e-12))
    double = machine.astype(namespace(X).float64)
    X = cast(X, double.dtype)
    return solve(method, clamped(double, X, observed), method.state_at(double, X))
