"""Likelihoods of rows with missing values: sums over the missing visible units.

They are exact where the hidden or the missing visible units have few configurations, and estimated
by annealing or tempering with clamped observed units elsewhere.
"""

import math
import warnings
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from ..arrays import (
    CommonRng,
    cast,
    cumulative_sum,
    from_numpy,
    like,
    log_sum_exp,
    make_rng,
    namespace,
    seed_sequence,
    take_rows,
    to_numpy,
)
from ..exceptions import LikelihoodWarning
from ..inference import Gibbs, anneal, by_site, clamped, held, log_partitions_given, with_rows
from ..machine import MAX_UNITS, _enumeration, conditional, input_field
from ._deep import is_small

_DRAW = 12.0  # time of a draw of a unit for each of its neighbours, in terms of a sum
_PRODUCT = 0.25  # time of an element of a product with a precision matrix, in terms of such a draw
_ELEMENTS = 2**18  # of the largest temporary array of sums
_MAX_MISSING = 12  # binary units to enumerate in each row: more take longer than annealing
_CHAIN_ELEMENTS = 2**21  # of chains that are annealed or tempered together
_TEMPERED = 50, 200  # sweeps of all rungs of a ladder, until rows reach the error asked for


class Accuracy(NamedTuple):
    """Settings of annealing, with more and more temperatures until rows reach the error ``std``."""

    std: float = 0.1
    n_chains: int = 32
    n_temperatures: tuple = (50, 200, 800, 3200)


PRECISE = Accuracy()
QUICK = Accuracy(np.inf, 8, (50,))  # for monitoring after each epoch


def deep_sums(machine, X, observed):
    """Return log p(observed) + log Z, and the rows where it is a sum over few configurations."""
    xp, unit = namespace(X), machine.units[0]
    known = xp.where(observed, X, xp.zeros_like(X))
    total = unit.log_weight(machine.thetas[0], known)
    field = input_field(machine, 1, (known, None))
    patterns, index = np.unique(to_numpy(observed), axis=0, return_inverse=True)
    exact = np.zeros(X.shape[0], dtype=bool)
    for number, pattern in enumerate(patterns):
        rows = np.flatnonzero(index.ravel() == number)
        rest = given_observed(machine, take_rows(field, rows), pattern)
        if is_small(rest):
            summed = take_rows(total, rows) + _enumeration.log_partition(rest)
            total, exact[rows] = replaced(total, rows, summed), True
    return total, exact


def replaced(values, index, others):
    """Return a vector with other values at a NumPy index array."""
    return with_rows(values[:, None], index, others[:, None])[:, 0]


def most_units(machine, n_draws):
    """Return how many binary hidden units are summed in the time of some sweeps of one row."""
    n_visible, n_hidden = machine.n_units[:2]
    draw, state = n_visible * n_hidden, n_visible + n_hidden
    if machine.units[0].is_joint:  # a product with a matrix more, and a quadratic form instead
        draw, state = draw + _PRODUCT * n_visible**2, n_hidden * (n_hidden + 1) / 2
    return min(MAX_UNITS, math.log2(max(1.0, _DRAW * n_draws * draw / state)))


def exact_sums(machine, X, observed, max_units=MAX_UNITS, layer=None):
    """Sum over hidden and missing visible units exactly, in rows where that is cheap.

    ``max_units`` is the largest number of binary hidden units to enumerate for all rows together;
    missing units, if fewer, are enumerated row by row, 12 at most. ``layer`` is the one whose means
    are computed: None, 0 (missing visible units) or 1.

    Returns
    -------
    log_weights : array of shape (n_rows,), float64
        log p(observed) + log Z, 0 in other rows.
    means : array of shape (n_rows, n_units[layer]) or None
        Undefined at observed units, and in other rows.
    exact : ndarray of shape (n_rows,), bool
        Rows that were summed.
    """
    unit = machine.units[0]
    xp, known, own, field = _known_parts(machine, X, observed)
    together, single, exact = _summable(machine, observed, max_units)
    total, found = xp.zeros_like(own), xp.zeros_like(X if layer == 0 else field)
    sums = []
    if together.size:
        rows = [take_rows(part, together) for part in (own, field, known, observed)]
        log_weights, means = _summed(_by_hidden(machine, *rows, layer), layer)
        if layer == 0 and unit.is_joint:
            means = _joint_means(machine, *rows[2:], means)
        sums.append((together, (log_weights, means)))
    for i in single:
        sums.append(([i], _summed(_by_missing(machine, i, own, field, observed, layer), layer)))
    if sums:
        index = np.concatenate([rows for rows, _ in sums])
        total = replaced(total, index, xp.concat([log_weights for _, (log_weights, _) in sums]))
        if layer is not None:
            found = with_rows(found, index, xp.concat([means for _, (_, means) in sums], axis=0))
    return total, None if layer is None else found, exact


def hidden_bits(machine):
    """Return log2 of the number of all hidden values, infinity if they are real numbers."""
    hidden = machine.units[1]
    if not hidden.is_discrete:
        return math.inf
    return math.log2(hidden.n_configurations(machine.n_units[1]))


def exact_draws(machine, X, observed, rng, max_units=MAX_UNITS):
    """Draw missing values exactly, in rows where :func:`exact_sums` is cheap.

    Returns
    -------
    drawn : array of shape (n_rows, n_visible)
        Undefined in other rows.
    exact : ndarray of shape (n_rows,), bool
        Rows whose missing values were drawn.
    """
    xp, known, own, field = _known_parts(machine, X, observed)
    together, single, exact = _summable(machine, observed, max_units)
    if together.size:
        rows = [take_rows(part, together) for part in (own, field, known, observed)]
        h = _drawn(_by_hidden(machine, *rows, 1), rng)
        rest = clamped(machine, *rows[2:])
        drawn = rest.units[0].sample(conditional(rest, 0, (None, h)), rng)
        X = with_rows(X, together, cast(drawn, X.dtype))
    if single.size:
        blocks = (_by_missing(machine, i, own, field, observed, 0) for i in single)
        drawn = xp.concat([_drawn(block, rng) for block in blocks], axis=0)
        seen = take_rows(observed, single)
        X = with_rows(X, single, xp.where(seen, take_rows(X, single), cast(drawn, X.dtype)))
    return X, exact


def _known_parts(machine, X, observed):
    """Return the namespace, X with zeros where missing, its log weights and its input fields."""
    xp = namespace(X)
    known = xp.where(observed, X, xp.zeros_like(X))
    log_weights = machine.units[0].log_weight(machine.thetas[0], known)
    return xp, known, log_weights, input_field(machine, 1, (known, None))


def _summable(machine, observed, max_units):
    """Return rows to sum over the hidden units, and others over the missing ones; and a mask."""
    n_missing, n_hidden = _n_missing(machine.units[0], observed), hidden_bits(machine)
    few = n_missing <= min(max_units, _MAX_MISSING)
    shared = (n_hidden <= max_units) & (~few | (n_hidden <= n_missing))
    return np.flatnonzero(shared), np.flatnonzero(few & ~shared), few | shared


def _n_missing(unit, observed):
    """Return log2 of the number of configurations of the missing units of each row."""
    missing, n = ~to_numpy(observed), observed.shape[1]
    if not unit.is_discrete:
        return np.where(missing.any(axis=1), np.inf, 0.0)
    total = np.zeros(missing.shape[0])
    for site in unit.groups(n):
        size = math.log2(unit.part(n, site).n_configurations(len(site)))
        total += size * missing[:, site[0]]
    return total


def _by_hidden(machine, own, field, known, observed, layer):
    """Yield log weights of all hidden values in each row, and the means of a layer given these."""
    xp, unit = namespace(own), machine.units[0]
    free = None if unit.is_joint else cast(~by_site(unit, observed), machine.dtype)
    if unit.is_joint:
        weights = input_field(machine, 0, (None, xp.eye(machine.n_units[1], **like(field))))
        integrals = held(unit, known, observed).log_partitions(machine.thetas[0], weights)
    for h, shared in _hidden_values(machine, own):
        if not unit.is_joint:
            local = unit.log_partition(conditional(machine, 0, (None, h)))
            total = field @ h.T + free @ xp.permute_dims(local, (1, 0))
        else:
            total = field @ h.T + integrals(h)
        values = unit.mean(conditional(machine, 0, (None, h))) if layer == 0 else h
        if layer == 0 and unit.is_joint:
            values = xp.concat([values, h], axis=1)  # for _joint_means
        yield total + shared[None, :] + own[:, None], values


def _hidden_values(machine, rows):
    """Yield blocks of all hidden values and their log weights, for sums over them in each row."""
    hidden, n_hidden = machine.units[1], machine.n_units[1]
    n, size = hidden.n_configurations(n_hidden), max(rows.shape[0], *machine.n_units)
    for start in range(0, n, max(1, _ELEMENTS // size)):
        numbers = np.arange(start, min(start + max(1, _ELEMENTS // size), n))
        h = from_numpy(hidden.configurations(n_hidden, numbers), rows)
        yield h, hidden.log_weight(machine.thetas[1], h)


def means_given_noisy_bits(machine, Y, field):
    """Return means of binary visible units given noisy ones, by sums over all hidden values.

    The posterior of each unit has the ``field`` where its noisy value is 1, else minus that.
    """
    xp, unit, n = namespace(Y), machine.units[0], Y.shape[1]

    def blocks():
        for h, shared in _hidden_values(machine, Y):
            thetas = [conditional(machine.tilted(0, y), 0, (None, h)) for y in (field, -field)]
            on, off = (unit.log_partition(theta) for theta in thetas)
            total = Y @ (on - off).T + xp.sum(off, axis=1) + shared
            yield total, xp.concat([unit.mean(theta) for theta in thetas], axis=1)

    _, means = _summed(blocks(), 0)
    return xp.where(Y > 0, means[:, :n], means[:, n:])


def _joint_means(machine, known, observed, means):
    """Return ``means`` of the visible units with those of the columns with a precision matrix.

    Given h, these columns depend on the observed ones, so that sums of their means given h alone
    are of no use. But their means given both are linear in h, whose means follow the others in
    ``means``.
    """
    xp, n = namespace(known), machine.n_units[0]
    rest = clamped(machine, known, observed)
    joint = rest.units[0].mean(conditional(rest, 0, (None, means[:, n:])))
    is_joint = np.isin(np.arange(n), machine.units[0].joint_columns(n))
    return xp.where(from_numpy(is_joint, known), joint, means[:, :n])


def _by_missing(machine, row, own, field, observed, layer):
    """Yield log weights of all missing values of one row, and the means of a layer given these."""
    seen = to_numpy(observed[row, :])
    small = given_observed(machine, field[row, :], seen)
    places = from_numpy(np.eye(len(seen))[~seen], own)
    for layers, log_weights in _enumeration.configurations(small, [0]):
        if layer == 0:
            values = layers[0] @ places
        else:
            values = machine.units[1].mean(conditional(small, 1, layers))
        yield (own[row] + log_weights)[None, :], values


def given_observed(machine, field, observed):
    """Return the machine of the missing visible units, given the ``field`` of the observed ones."""
    (unit, hidden, *above), (visible, theta, *thetas) = machine.units, machine.thetas
    missing = np.flatnonzero(~observed)
    columns, xp = from_numpy(missing, field), namespace(field)
    own = visible.map(lambda part: xp.take(part, columns, axis=0))
    return replace(
        machine,
        units=(unit.part(len(observed), missing), hidden, *above),
        thetas=(own, hidden.tilt(theta, field), *thetas),
        weights=(xp.take(machine.weights[0], columns, axis=1), *machine.weights[1:]),
    )


def _summed(blocks, layer):
    """Return the logarithms of sums of weights, and weighted means unless ``layer`` is None."""
    total = means = None
    for log_weights, values in blocks:
        xp, part, old = namespace(log_weights), log_sum_exp(log_weights), total
        total = part if old is None else xp.logaddexp(old, part)
        if layer is not None:
            more = xp.exp(log_weights - total[:, None]) @ values
            means = more if old is None else xp.exp(old - total)[:, None] * means + more
    return total, means


def _drawn(blocks, rng):
    """Return one of all values for each row, drawn by its weight.

    From each block one value is drawn, which replaces that of the blocks before with the
    probability of its block among all so far.
    """
    total = drawn = None
    for log_weights, values in blocks:
        xp = namespace(log_weights)
        largest = xp.max(log_weights, axis=1)
        edges = cumulative_sum(xp.exp(log_weights - largest[:, None]))
        part = largest + xp.log(edges[:, -1])
        u = cast(rng.uniform((2, part.shape[0])), part.dtype)
        passed = edges[:, :-1] <= (u[0, :] * edges[:, -1])[:, None]
        new = take_rows(values, xp.sum(cast(passed, xp.int64), axis=1))
        total = part if total is None else xp.logaddexp(total, part)
        replaces = (u[1, :] < xp.exp(part - total))[:, None]
        drawn = new if drawn is None else xp.where(replaces, new, drawn)
    return drawn


def annealed(machine, base, X, observed, seed, accuracy):
    """Return log p(observed) + log Z of each row by annealed importance sampling."""
    estimate, width = partial(_chains, machine, base), max(machine.n_units)
    return _in_rounds(estimate, accuracy.n_temperatures, X, observed, seed, accuracy, width)


def tempered(machine, sampler, X, observed, seed, accuracy):
    """Return log p(observed) + log Z of each row along the ladder of a sampler.

    It also sees modes that all annealed chains of a row miss, whose errors then look small.
    """
    sampler = replace(sampler, rungs=sampler.rungs.astype(machine.dtype))
    estimate = partial(log_partitions_given, machine, sampler)
    width = len(sampler.rungs) * max(machine.n_units)
    return _in_rounds(estimate, _TEMPERED, X, observed, seed, accuracy, width)


def _in_rounds(estimate, lengths, X, observed, seed, accuracy, width):
    """Return estimates of rows by longer and longer chains, until the error is small enough.

    ``width`` is the number of elements of a chain.
    """
    size = max(1, _CHAIN_ELEMENTS // (accuracy.n_chains * width))
    values, errors = np.empty(X.shape[0]), np.full(X.shape[0], np.inf)
    rows, seed = np.arange(X.shape[0]), seed_sequence(seed)
    for round_, length in enumerate(lengths):
        own_seed = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, round_))
        for part in np.array_split(rows, -(-len(rows) // size)):
            rng = CommonRng(make_rng(own_seed, X), len(part))
            some = take_rows(X, part), take_rows(observed, part)
            values[part], errors[part] = estimate(*some, rng, accuracy.n_chains, length)
        rows = rows[errors[rows] > accuracy.std]
        if not rows.size:
            return from_numpy(values, X)
    warnings.warn(
        f"the log-likelihoods of {rows.size} rows with missing values have standard errors of up "
        f"to {errors.max():.2g} nats, more than {accuracy.std:g}",
        LikelihoodWarning,
        stacklevel=3,
    )
    return from_numpy(values, X)


def _chains(machine, base, X, observed, rng, n_chains, n_temperatures):
    """Return log weights of rows and standard errors, by annealing the couplings from 0."""
    every = np.repeat(np.arange(X.shape[0]), n_chains)
    X, observed = take_rows(X, every), take_rows(observed, every)
    target = clamped(machine, X, observed)
    # A start far from where the chains end, as of columns far from 0, would need more temperatures.
    means = target.units[0].mean(base)
    hidden = machine.units[1].tilt(machine.thetas[1], input_field(machine, 1, (means, None)))
    first = replace(target, thetas=(base, hidden, *machine.thetas[2:]), scale=0.0)
    start = Gibbs().init(first, rng, len(every)).layers
    betas = np.linspace(0, 1, n_temperatures + 1)
    log_weights = anneal(target, first, betas, start, rng).log_weights
    for unit, theta in zip(first.units, first.thetas, strict=True):
        log_weights = log_weights + unit.total_log_partition(theta)
    total = to_numpy(log_weights).reshape(-1, n_chains)
    top = total.max(axis=1, keepdims=True)
    weights = np.exp(total - top)
    mean = weights.mean(axis=1)
    return top[:, 0] + np.log(mean), weights.std(axis=1, ddof=1) / np.sqrt(n_chains) / mean
