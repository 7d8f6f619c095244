"""Samples of a fitted machine, and inference given some of the visible values."""

import itertools
import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from .._checks import check_count
from ..arrays import (
    CommonRng,
    block_rows,
    cast,
    dense,
    make_rng,
    namespace,
    row_blocks,
    seed_sequence,
    take_rows,
)
from ..evaluation._observed import exact_draws, exact_sums, most_units
from ..inference import (
    CORRELATED,
    LADDER_STEPS,
    N_CHECKED,
    N_SWEEPS,
    Gibbs,
    Tempering,
    by_rungs,
    chain_autocorrelation,
    clamped,
    clamped_mean,
    completed,
    ends_of,
    is_small,
    resolve,
    rows_with_holes,
    solve,
    some_rows,
    tempered_mean,
    with_rows,
)
from ..inputs import check_held, into_support, split_missing
from ..learning import most_rows
from ..machine import check_has_integral, condition
from ._encoded import blocks_of, by_blocks, decoded, takes_table
from ._log_partition import kept_with_parameters

N_STEPS = 200  # of the chain of a row
_N_STEPS_OF_SAMPLE = 100  # of Gibbs sampling
_SUMMED_ELEMENTS = 2**17  # of rows whose hidden units are summed over together
_IMPUTE_SWEEPS, _IMPUTE_DAMPING = 1000, 0.2


# ------------------------------------------------------------------------------- samplers


def chains_of(model, method, n_steps, rng, is_free=False):
    """Return a function that runs chains from visible values and returns their last states.

    ``method`` and ``n_steps`` are those of ``sample``. With ``is_free`` chains may start at samples
    of a ladder instead.
    """
    machine = model.machine_
    check_has_integral(machine)
    if n_steps == 0:
        return lambda rows: namespace(rows).asarray(rows, copy=True)
    if method == "auto" and not hasattr(model, "ladder_"):
        method = _method_that_mixes(model)
    sampler = _sampler_of(model, method, rng)
    is_free = is_free and sampler.has_samples
    if n_steps is None:
        n_steps = LADDER_STEPS if is_free else _N_STEPS_OF_SAMPLE

    return lambda rows: ends_of(sampler, machine, rng, rows, n_steps, is_free)


def _method_that_mixes(model):
    """Return "gibbs", or "tempering" for a small machine whose chains do not mix."""
    machine = model.machine_
    if len(machine.units) > 2 or not machine.weights[0].shape[0]:
        return "gibbs"
    found = _autocorrelation(model)
    if found <= CORRELATED:
        return "gibbs"
    if is_small(machine):
        return "tempering"
    warnings.warn(
        f"chains do not mix (after {N_SWEEPS} sweeps their autocorrelation is {found:.2f}), so the "
        "proportions of modes in samples are those of starts_; use method='tempering'",
        ConvergenceWarning,
        stacklevel=4,
    )
    return "gibbs"


def _autocorrelation(model):
    """Return the autocorrelation of chains over 50 sweeps; they do not mix if it is high.

    It is the largest along the main directions in which they differ. In a small machine, chains
    also start at independent units, to find other modes.
    """
    machine = model.machine_

    def correlation():
        rng = make_rng(model._evaluation_seed, machine.weights[0])
        n = min(N_CHECKED, most_rows(machine.n_units[0]))
        return chain_autocorrelation(machine, dense(some_rows(model.starts_, n)), rng)

    return kept_with_parameters(model, "autocorrelation", correlation)


def sampler_given(model, method, rng):
    """Return the sampler of rows of which something is known.

    "auto" is tempering after a fit with a ladder, and in a small machine whose chains do not mix.
    In a larger one the check would take much longer than the chains of a few rows.
    """
    if method == "auto" and not hasattr(model, "ladder_") and is_small(model.machine_):
        method = "gibbs" if _autocorrelation(model) <= CORRELATED else "tempering"
    return _sampler_of(model, method, rng)


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
    """Return X with draws in place of NaN, given the observed values of each row.

    With "auto" they are exact where that takes no longer than ``n_steps`` sweeps of chains.
    """
    if init is not None:
        raise ValueError(
            "init and given cannot both be passed: with given, chains start at its rows"
        )
    if sp.issparse(X):
        raise TypeError(
            "given must be dense, since NaN marks the values to draw; use given.toarray()"
        )
    n_steps = _N_STEPS_OF_SAMPLE if n_steps is None else n_steps
    check_count("n_steps", n_steps, 1)
    machine, blocks = model.machine_, _split_missing(model, X)
    seed = seed_sequence(random_state)
    rng = make_rng(seed, machine.weights[0])
    sampler = cache(lambda: sampler_given(model, method, rng))

    def by_chains(X, observed):
        def draws(X, observed):
            return completed(machine, X, observed, rng, n_steps, sampler())

        return by_rungs(draws, sampler(), machine, X, observed)

    if method == "auto" and len(machine.units) == 2:
        double = machine.astype(namespace(machine.weights[0]).float64)
        most, own = most_units(double, n_steps), make_rng(seed.spawn(1)[0], double.weights[0])

        def of_holes(X, observed):
            drawn, exact = exact_draws(double, cast(X, double.dtype), observed, own, most)
            return _with_estimates(drawn, exact, X, observed, by_chains)

        drawn = (_by_holes(of_holes, *block) for block in blocks)
    else:
        drawn = itertools.starmap(by_chains, blocks)
    return decoded(model, drawn, X, drawn=True, completes=True)


def imputed(model, X, method, n_steps, random_state):
    """Return X with NaN replaced by means given the observed values of the row, in blocks of rows.

    With "auto" the means come from the equations of the model, from exact sums if these are cheap,
    or from chains.
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
    by_chains = _means_by_chains(model, method, n_steps, seed_sequence(random_state))
    if not is_auto:
        return itertools.starmap(by_chains, blocks)

    def of_holes(X, observed):
        return _exact_means(machine, X, observed, 0, by_chains)

    return (_by_holes(of_holes, *block) for block in blocks)


def _means_by_chains(model, method, n_steps, seed, layer=0):
    """Return a function of rows and what is observed that returns means of a layer by chains.

    A row has the same chain whatever the other rows are.
    """
    machine = model.machine_
    sampler = cache(lambda: sampler_given(model, method, make_rng(seed, machine.weights[0])))

    def means(X, observed):
        rng = CommonRng(make_rng(seed, machine.weights[0]), X.shape[0])
        if sampler().has_rungs:
            return tempered_mean(machine, X, observed, rng, n_steps, sampler(), layer)
        return clamped_mean(machine, X, observed, rng, n_steps, layer)

    return lambda *rows: by_rungs(means, sampler(), machine, *rows)


def _by_holes(function, X, observed):
    """Return X with ``function(rows, observed)`` in rows with missing values, few at a time."""
    size, parts = block_rows(X.shape[1], _SUMMED_ELEMENTS), []
    for rows, seen in zip(row_blocks(X, size), row_blocks(observed, size), strict=True):
        _, holes = rows_with_holes(seen)
        if len(holes):
            own, known = take_rows(rows, holes), take_rows(seen, holes)
            found = cast(function(own, known), X.dtype)
            rows = with_rows(rows, holes, namespace(X).where(known, own, found))
        parts.append(rows)
    return namespace(X).concat(parts, axis=0)


def _exact_means(machine, X, observed, layer, estimate):
    """Return means of a layer given the observed values: exact sums, or where long estimates."""
    double = machine.astype(namespace(X).float64)
    most = most_units(double, N_STEPS)
    _, means, exact = exact_sums(double, cast(X, double.dtype), observed, most, layer)
    return _with_estimates(means, exact, X, observed, estimate)


def _with_estimates(found, exact, X, observed, estimate):
    """Return rows that were found exactly, with estimates in place of the others."""
    left = np.flatnonzero(~exact)
    if not left.size:
        return found
    estimates = estimate(take_rows(X, left), take_rows(observed, left))
    return with_rows(found, left, cast(estimates, found.dtype))


def hidden_means(model, X):
    """Return E[h | the observed values]: exactly, by the model's equations or by chains."""
    machine, method = model.machine_, model._own_fixed_point()
    filling, parts = machine.units[0].mean(machine.thetas[0]), []

    def solved(X, observed):
        solution = _clamped_solution(method, machine, X, observed, _IMPUTE_SWEEPS)
        return solution.state.means[1]

    estimate = solved
    if method is None:
        estimate = _means_by_chains(model, "auto", N_STEPS, model._evaluation_seed, layer=1)
    for rows in row_blocks(X):
        rows, observed = split_missing(dense(rows), filling)
        found = machine.units[1].mean(condition(machine, rows))
        if observed is not None:
            _, holes = rows_with_holes(observed)
            own = take_rows(rows, holes), take_rows(observed, holes)
            means = _exact_means(machine, *own, 1, estimate)
            found = with_rows(found, holes, cast(means, found.dtype))
        parts.append(found)
    return namespace(parts[0]).concat(parts, axis=0)


def _clamped_solution(method, machine, X, observed, n_steps):
    """Return the converged equations in float64, with the observed units held."""
    method = replace(method, damping=max(method.damping, _IMPUTE_DAMPING))
    method = replace(method, max_iter=n_steps, tol=min(method.tol, 1e-12))
    double = machine.astype(namespace(X).float64)
    X = cast(X, double.dtype)
    return solve(method, clamped(double, X, observed), method.state_at(double, X))
