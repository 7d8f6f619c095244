"""Visible values given some of them, or given noisy ones: posteriors of a machine."""

import itertools
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from .._checks import check_count
from ..arrays import (
    CommonRng,
    cast,
    dense,
    has_missing,
    is_foreign,
    make_rng,
    namespace,
    row_blocks,
    seed_sequence,
    take_rows,
)
from ..evaluation._observed import exact_sums, most_units
from ..inference import (
    clamped_mean,
    completed,
    rows_with_holes,
    solve_clamped,
    tempered_mean,
    with_rows,
)
from ..inputs import check_held, check_rows, into_support, split_missing
from ..machine import condition
from ._blocks import by_blocks as accepts_blocks
from ._encoded import blocks_of, decoded, takes_table
from ._noise_models import posterior_moments
from ._sampling import by_blocks, chosen_sampler

_BLOCK_ROWS, _N_SWEEPS, _DAMPING = 1024, 300, 0.7
_SUMMED_ELEMENTS = 2**17  # of rows whose hidden units are summed over together
_IMPUTE_SWEEPS, _IMPUTE_DAMPING = 1000, 0.2
N_STEPS = 200  # of the chain of a row


def imputed(model, X, method, equations, n_steps, random_state):
    """Return X with NaN replaced by means given the observed values of the row, in blocks of rows.

    Parameters
    ----------
    model : DensityModel
    X : array-like of shape (n_rows, n_visible)
    method : str or Tempering
        "auto": ``equations``, or where these are None exact sums in rows where these are cheap,
        and elsewhere as in :func:`chains_of`.
    equations : FixedPoint or None
    n_steps : int or None
    random_state : int, RandomState or None

    Returns
    -------
    iterator of arrays of shape (n_rows, n_visible)
    """
    is_auto = method == "auto"
    equations = equations if is_auto else None
    n_steps = (N_STEPS if equations is None else _IMPUTE_SWEEPS) if n_steps is None else n_steps
    check_count("n_steps", n_steps, 1)
    machine = model.machine_
    if equations is not None:

        def solved(X, observed):
            every = np.arange(X.shape[0])
            solution = _clamped_solution(equations, machine, X, observed, every, n_steps)
            return cast(solution.state.means[0], X.dtype)

        return itertools.starmap(solved, _split_missing(model, X))
    seed = seed_sequence(random_state)
    rng = make_rng(seed, machine.weights[0])
    sampler = chosen_sampler(model, method, rng)

    def means(X, observed):
        if not is_auto:
            return sampled(X, observed)
        size = max(1, _SUMMED_ELEMENTS // X.shape[1])
        blocks = zip(row_blocks(X, size), row_blocks(observed, size), strict=True)
        return namespace(X).concat([exact_or_sampled(*rows) for rows in blocks], axis=0)

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

    blocks = _split_missing(model, X)
    return (by_blocks(means, sampler, machine, *block) for block in blocks)


@accepts_blocks
def drawn_given(model, X, *, init, n_steps, random_state, method="auto"):
    """Return X with draws in place of NaN, given the observed values of each row."""
    if init is not None:
        raise ValueError("sample takes init or given, not both: given says where chains start")
    if sp.issparse(X):
        raise TypeError("given is sparse, and NaN marks what is drawn: make it dense, by toarray()")
    check_count("n_steps", n_steps, 1)
    machine, blocks = model.machine_, _split_missing(model, X)
    rng = make_rng(random_state, machine.weights[0])
    sampler = chosen_sampler(model, method, rng)

    def draws(X, observed):
        return completed(machine, X, observed, rng, n_steps, sampler)

    drawn = (by_blocks(draws, sampler, machine, *block) for block in blocks)
    return decoded(model, drawn, X, drawn=True, completes=True)


def hidden_means(model, X, method):
    """Return E[h | the observed values] of rows with NaN.

    Exactly where few units are to be summed over, and elsewhere by the equations of ``method`` or,
    where it is None, by Gibbs chains.

    Parameters
    ----------
    model : DensityModel
    X : array of shape (n_rows, n_visible)
        As the machine's units take it.
    method : FixedPoint or None
    """
    machine = model.machine_
    means = machine.units[0].mean(machine.thetas[0])
    blocks = row_blocks(X, _BLOCK_ROWS)
    parts = [_hidden_means(model, machine, dense(rows), means, method) for rows in blocks]
    return namespace(parts[0]).concat(parts, axis=0)


def _hidden_means(model, machine, X, visible_means, method):
    X, observed = split_missing(X, visible_means)
    found = machine.units[1].mean(condition(machine, X))
    if observed is None:
        return found
    _, holes = rows_with_holes(observed)
    X, observed = take_rows(X, holes), take_rows(observed, holes)
    double = machine.astype(namespace(X).float64)
    rows, most = cast(X, double.dtype), most_units(double, N_STEPS)
    _, means, exact = exact_sums(double, rows, observed, most, layer=1)
    left = np.flatnonzero(~exact)
    if left.size and method is not None:
        solved = _clamped_solution(method, machine, X, observed, left, _IMPUTE_SWEEPS)
        means = with_rows(means, left, solved.state.means[1])
    elif left.size:
        rng = CommonRng(make_rng(model._evaluation_seed, machine.weights[0]), len(left))
        rows = take_rows(X, left), take_rows(observed, left)
        sampled = clamped_mean(machine, *rows, rng, N_STEPS, layer=1)
        means = with_rows(means, left, cast(sampled, means.dtype))
    return with_rows(found, holes, cast(means, found.dtype))


def _clamped_solution(method, machine, X, observed, rows, n_steps):
    """Return the converged equations of some rows, in float64, with the observed units held."""
    method = replace(method, damping=max(method.damping, _IMPUTE_DAMPING))
    method = replace(method, max_iter=n_steps, tol=min(method.tol, 1e-12))
    double = machine.astype(namespace(X).float64)
    return solve_clamped(method, double, cast(X, double.dtype), observed, rows)


def _split_missing(model, X):
    """Return blocks of (X filled with the visible means, which entries are observed)."""
    machine, X = model.machine_, model._encode(X, missing=True, sparse=takes_table(model))
    machine.units[0].check_values(X)
    X = into_support(X, machine.units[0])
    means = machine.units[0].mean(machine.thetas[0])

    def split(rows):
        rows = dense(rows)
        xp, observed = namespace(rows), rows == rows
        check_held(xp.where(observed, rows, xp.zeros_like(rows)), machine.dtype)
        rows = cast(rows, machine.dtype)
        return xp.where(observed, rows, xp.broadcast_to(means, rows.shape)), observed

    return map(split, blocks_of(model, X))


def denoised(model, Y, noise, *, method, n_steps, return_std, random_state, **options):
    """Return the posterior means of visible values that came through a noisy channel.

    Parameters
    ----------
    model : DensityModel
    Y : {array-like, sparse matrix} of shape (n_samples, n_features)
    noise : BinarySymmetric or GaussianNoise
    method : FixedPoint or None
        Whose equations are solved; None samples by Gibbs chains.
    n_steps, return_std, random_state
        As in the public method ``denoise``.
    **options
        Its ``prior_mean`` and ``n_starts``.

    Returns
    -------
    table or array of shape (n_samples, n_features)
        As values of X; with ``return_std`` before the standard deviations, an array.
    """
    if n_steps is not None:
        check_count("n_steps", n_steps, 1)
    skewed = [name for name, kind in getattr(model, "kinds_", {}).items() if kind == "skewed"]
    if skewed:
        raise ValueError(
            f"denoise takes no skewed columns, whose units are not those of the noise, and "
            f"{skewed} are; set their kinds to 'real'"
        )
    machine, given, Y = model.machine_, Y, model._encode(Y, missing=True)
    if has_missing(Y):
        raise ValueError("Y contains NaN; denoise takes complete rows, impute fills others")
    rng = make_rng(random_state, machine.weights[0])

    def of_block(rows):
        rows = _noisy(model, machine, dense(rows), noise)
        if method is not None:
            mean, variance = _solved(model, machine, rows, noise, method, n_steps, rng, **options)
        else:
            steps = N_STEPS if n_steps is None else n_steps
            mean, variance = _sampled(machine, rows, noise, steps, rng)
        if not return_std:
            return mean, None
        if variance is None:
            raise ValueError(
                "return_std needs inference by a fixed point, such as 'tap'; by sampling only the "
                "standard deviations of binary units are known"
            )
        return mean, namespace(mean).sqrt(variance)

    blocks = map(of_block, blocks_of(model, Y))
    if not return_std:
        return decoded(model, (mean for mean, _ in blocks), given)
    means, deviations = zip(*blocks, strict=True)
    return decoded(model, means, given), namespace(deviations[0]).concat(deviations, axis=0)


def _noisy(model, machine, Y, noise):
    """Return a copy of dense rows Y, which can have come through the channel."""
    unit = machine.units[0]
    is_real = (unit.takes_precision or unit.is_joint) and not unit.is_discrete
    if not (unit.is_binary or is_real or noise.is_for_categories):
        raise ValueError(
            f"denoise is for binary and real visible units, and these are {unit}; make doubtful "
            "values missing, and fill them in by impute"
        )
    noise.check(unit, Y)
    check_held(Y, machine.dtype)
    return cast(namespace(Y).asarray(Y, copy=True), machine.dtype)


def _sampled(machine, Y, noise, n_steps, rng):
    """Return means and, of binary units, variances by Gibbs chains that start at Y."""
    if noise.is_clean:
        return Y, namespace(Y).zeros_like(Y)
    free = namespace(Y).zeros_like(Y) > 0
    posterior = machine.tilted(0, *noise.evidence(Y))
    mean = clamped_mean(posterior, Y, free, rng, n_steps)
    return mean, mean - mean * mean if machine.units[0].values == (0.0, 1.0) else None


def _solved(model, machine, Y, noise, method, n_steps, rng, prior_mean=None, n_starts=1):
    """Return means and variances by solutions of equations, block by block of rows."""
    check_count("n_starts", n_starts, 1)
    prior = noise.prior(machine, _prior_mean(model, machine, prior_mean, noise))
    if noise.is_clean:
        return Y, namespace(Y).zeros_like(Y)
    # At strong noise the plain sweeps often go round in circles; most damped ones do not, and
    # move less far each, which the tolerance takes into account.
    damping = max(method.damping, _DAMPING)
    tol = method.tol * ((1 - damping) / (1 - method.damping)) ** 2
    method = replace(method, damping=damping, tol=tol)
    n_sweeps = max(method.max_iter, _N_SWEEPS) if n_steps is None else n_steps
    unit, blocks = machine.units[0], []
    for rows in row_blocks(Y, _BLOCK_ROWS):
        evidence = noise.evidence(rows)
        independent = unit.tilt(prior, *evidence)
        draws = (unit.sample(independent, rng) for _ in range(n_starts - 1))
        starts = itertools.chain([unit.mean(independent)], draws)
        tilted = machine.tilted(0, *evidence)
        blocks.append(posterior_moments(method, tilted, starts, n_sweeps))
    return tuple(namespace(Y).concat(parts, axis=0) for parts in zip(*blocks, strict=True))


def _prior_mean(model, machine, given, noise):
    """Return the visible means of the pointwise estimate, of shape (n_features,)."""
    if given is None:
        kept = getattr(model, "visible_means_", None)
        return machine.units[0].mean(machine.thetas[0]) if kept is None else kept
    given = given if is_foreign(given) else np.asarray(given)
    if given.ndim != 1:
        raise ValueError(f"prior_mean must have 1 dimension, got {given.ndim}")
    row = given[None, :]
    mean = check_rows("prior_mean", row, machine.n_units[0], machine.weights[0])[0, :]
    noise.check_mean(mean)
    return mean
