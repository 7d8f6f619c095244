"""Relaxed belief propagation: messages on the edges, each given by its mean and variance.

Tramel et al. (2018), App. B. The message from unit i to unit j is the mean a and the variance c of
i in the absence of j, that is, under the field and the precision

    B_{i->j} = sum_{l != j} W_il a_{l->i},    A_{i->j} = -sum_{l != j} W_il**2 c_{l->i}

of its other neighbours. The Bethe approximation of log Z at a fixed point (Eq. 65, where the sign
of the name is misprinted) is, with d_i the number of neighbours and the second sum over both
directions of each edge,

    Phi = sum_i (1 - d_i / 2) log Z_i + sum_{i->j} log Z_{i->j} / 2.

The messages are not a stationary point of Phi: a factor exp(W x y) of two units is summed over one
of them by its first two cumulants, and the choice of that unit matters to third order in W. With a
multiplier for each message, however,

    L = Phi(m) + sum_e lambda_e (G_e(m) - m_e)

is stationary where the messages obey their equations m = G(m). Its derivatives by the parameters
are those of log Z at the fixed points. The multipliers are messages too: by their equations

    lambda^a_{j->i} = W_ij u_{j->i},    lambda^c_{j->i} = W_ij**2 w_{j->i} / 2,

where u and w are the first and second moment of i, as derivatives of L by its field and precision,
without the part that its message to j contributes. The same sweep updates them.
"""

from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple

from ..arrays import namespace, row_sums
from ..machine import Block, Moments
from ._fixed_point import FixedPoint, map_rows
from ._needs import Needs

_BLOCK_ELEMENTS = 2**17  # edges times rows in a block, so that it fits into a cache
_LARGEST = 1e9  # bound of moments that grow without limit where messages do not converge
_GROWN = 1e-2 * _LARGEST  # those of messages that have grown so, also if they are damped
_FAR = 0.5  # maximum distance of a derivative of L from a unit's mean, in standard deviations
_MIN_PRECISION = 1e-3  # of a message of an unbounded unit, as a part of the unit's own


class RelaxedMessages(NamedTuple):
    """The messages of one direction, arrays of shape (n_rows, n_units[l + 1], n_units[l]).

    ``first`` and ``second`` are u and w, from the multipliers of mean and variance.
    """

    mean: Any
    variance: Any
    first: Any
    second: Any


class RelaxedState(NamedTuple):
    """Means and variances of each layer, and the messages of each weight matrix both ways."""

    means: tuple
    variances: tuple
    up: tuple
    down: tuple


class _Side(NamedTuple):
    """The neighbours of a layer on one side, seen from the layer."""

    W: Any
    received: RelaxedMessages
    sent: RelaxedMessages
    below: bool

    def gather(self, x):
        """Sum over the neighbours."""
        return namespace(x).sum(x, axis=-1 if self.below else -2)

    def to_edges(self, x):
        """Add the axis of the neighbours to an array of the units of the layer."""
        return x[..., :, None] if self.below else x[..., None, :]


def _sides(machine, l, state):
    """Yield the sides of layer ``l``: the layer below and the layer above."""
    W = machine.weights if machine.scale == 1 else [W * machine.scale for W in machine.weights]
    if l > 0:
        yield _Side(W[l - 1], state.up[l - 1], state.down[l - 1], True)
    if l < len(W):
        yield _Side(W[l], state.down[l], state.up[l], False)


def _conditionals(machine, l, sides):
    """Return the parameters of layer ``l``: with all neighbours, and without each of them."""
    unit, theta = machine.units[l], machine.thetas[l]
    fields = [side.W * side.received.mean for side in sides]
    precisions = [side.W * side.W * side.received.variance for side in sides]
    field = sum(side.gather(part) for side, part in zip(sides, fields, strict=True))
    precision = -sum(side.gather(part) for side, part in zip(sides, precisions, strict=True))
    cavities = []
    for side, b, a in zip(sides, fields, precisions, strict=True):
        field_without, precision_without = side.to_edges(field) - b, side.to_edges(precision) + a
        own = theta.map(side.to_edges)
        cavities.append(_tilted(unit, own, field_without, precision_without))
    return _tilted(unit, theta, field, precision), cavities


def _tilted(unit, theta, field, precision):
    """Tilt a unit; an unbounded one keeps a minimum precision (App. B.3)."""
    tilted = unit.tilt(theta, field, precision)
    if all(isfinite(bound) for bound in unit.bounds):
        return tilted
    minimum = _MIN_PRECISION * theta.precision
    return tilted._replace(precision=namespace(minimum).maximum(tilted.precision, minimum))


def _has_minimum(unit, theta, tilted):
    """Return the rows where :func:`_tilted` has given a unit its minimum precision."""
    xp = namespace(theta.field)
    if all(isfinite(bound) for bound in unit.bounds):
        return xp.zeros(tilted.field.shape[0], dtype=xp.bool, device=theta.field.device)
    is_least = tilted.precision <= _MIN_PRECISION * theta.precision
    return xp.any(xp.reshape(is_least, (is_least.shape[0], -1)), axis=1)


class _Responses(NamedTuple):
    """Moments of a layer and those it sends, and the moments of x in L, ``first`` and ``second``.

    ``parts`` are the parts of the latter that the messages to each neighbour contribute.
    """

    mean: Any
    variance: Any
    sent: tuple
    first: Any
    second: Any
    parts: tuple


def _respond(machine, l, sides):
    """Return the moments of layer ``l``, and of its messages, given those it receives."""
    theta, cavities = _conditionals(machine, l, sides)
    mean, variance = machine.units[l].mean_variance(theta)
    mean = _bounded(mean, _LARGEST)
    square = mean * mean + variance
    first, second, sent, parts = mean, square, [], []
    for side, cavity in zip(sides, cavities, strict=True):
        a, c, third, fourth = machine.units[l].central_moments(cavity)
        a = _bounded(a, _LARGEST)
        mean_force = side.W * side.sent.first
        variance_force = 0.5 * side.W * side.W * side.sent.second
        # Derivatives of a and c by the field are c and the third moment; those by -precision / 2
        # are the covariances of x**2 with x and with (x - a)**2.
        x_part = 0.5 * a + mean_force * c + variance_force * third
        square_part = 0.5 * (c + a * a) + mean_force * (third + 2 * a * c)
        square_part = square_part + variance_force * (fourth - c * c + 2 * a * third)
        first = first + side.gather(x_part - 0.5 * side.to_edges(mean))
        second = second + side.gather(square_part - 0.5 * side.to_edges(square))
        sent.append((a, c))
        parts.append((x_part, square_part))
    first, second = _bounded(first, _LARGEST), _bounded(second, _LARGEST**2)
    return _Responses(mean, variance, tuple(sent), first, second, tuple(parts))


def _multipliers(side, response, part):
    """Return u and w of the messages that a layer receives from one side."""
    first = side.to_edges(response.first) - part[0]
    second = side.to_edges(response.second) - part[1]
    return _bounded(first, _LARGEST), _bounded(second, _LARGEST**2)


def _bounded(x, bound):
    return namespace(x).clip(x, -bound, bound)


def _update(machine, l, state):
    """Return the state after layer ``l`` has sent its messages."""
    sides = tuple(_sides(machine, l, state))
    response = _respond(machine, l, sides)
    up, down = list(state.up), list(state.down)
    for side, sent, part in zip(sides, response.sent, response.parts, strict=True):
        first, second = _multipliers(side, response, part)
        answer = RelaxedMessages(*sent, side.sent.first, side.sent.second)
        received = side.received._replace(first=first, second=second)
        if side.below:
            up[l - 1], down[l - 1] = received, answer
        else:
            up[l], down[l] = answer, received
    means, variances = list(state.means), list(state.variances)
    means[l], variances[l] = response.mean, response.variance
    return RelaxedState(tuple(means), tuple(variances), tuple(up), tuple(down))


def _blocks(machine, state):
    """Yield machine and state in blocks of rows; a machine may have a field for each row."""
    n_edges = max(1, *(W.shape[0] * W.shape[1] for W in machine.weights))
    n, size = state.means[0].shape[0], max(1, _BLOCK_ELEMENTS // n_edges)
    for start in range(0, n, size):
        stop = min(start + size, n)

        def rows(leaf, start=start, stop=stop):
            return leaf[start:stop, ...] if leaf.ndim > 1 else leaf

        yield machine.rows(slice(start, stop)), map_rows(rows, state)


def _joined(blocks):
    """Join the results of blocks of rows."""
    return map_rows(lambda *leaves: namespace(leaves[0]).concat(leaves, axis=0), *blocks)


@dataclass(frozen=True)
class RelaxedBP(FixedPoint):
    """Relaxed belief propagation, whose messages are given by their mean and variance.

    The means and log Z are exact up to the second power of the weights, as in TAP. Messages of
    Gaussian units are exact; those of other units are not, even on a tree. For independent weights
    the error of log Z is several times smaller than that of TAP. Since factors exp(W x y) are
    expanded about x = 0, exchanging the values 0 and 1 of binary units changes the results from the
    third power of the weights on, unlike in TAP.

    The moments used in training are the derivatives of the Bethe log Z at a solution, which differ
    from the means of the units from the third power of the weights on. Rows in which the expansion
    fails or the messages have not converged (a derivative is at least half a standard deviation
    from the mean of its unit) get the moments of TAP.

    A sweep takes hundreds of times as long as one of TAP, and a state has eight numbers for each
    weight and start, so the method is for small models and for comparisons.

    Parameters
    ----------
    max_iter, tol, damping, start, n_starts : as in :class:`FixedPoint`
    """

    needs = Needs(units=("takes_precision", "has_central_moments"))
    alternative = "TAP"

    def state_at(self, machine, X):
        """Return the state with visible means X and everything else at zero."""
        xp = namespace(X)
        means = (X, *(xp.zeros_like(X[:, :1]) * W[None, :, 0] for W in machine.weights))
        silent = [xp.zeros_like(X[:, :1, None]) * W[None, :, :] for W in machine.weights]
        zeros = tuple(RelaxedMessages(*[none] * 4) for none in silent)
        up = (zeros[0]._replace(mean=silent[0] + X[:, None, :]), *zeros[1:])
        return RelaxedState(means, tuple(xp.zeros_like(mean) for mean in means), up, zeros)

    def step(self, machine, state):
        """Update the odd layers (hidden), then the even ones (visible)."""
        n = len(machine.units)
        order = (*range(1, n, 2), *range(0, n, 2))

        def sweep(machine, state):
            for l in order:
                state = _update(machine, l, state)
            return state

        return _joined(sweep(*block) for block in _blocks(machine, state))

    def log_partition(self, machine, state):
        """Return L of each row, which is the Bethe log Z where the messages have converged.

        It is NaN where a unit has the minimum precision, or multipliers grow without limit, so that
        the messages are no solution.
        """
        return _joined(_lagrangian(*block) for block in _blocks(machine, state))

    def moments(self, machine, state):
        """Return the derivatives of the Bethe log Z, averaged over the rows."""
        n = state.means[0].shape[0]
        parts = [_derivatives(*block) for block in _blocks(machine, state)]
        statistics = _joined(layers for layers, _ in parts)
        means, variances, further = zip(*statistics, strict=True)
        block = Block(means, variances, 1.0 / n, None, further)
        sums = zip(*(covariances for _, covariances in parts), strict=True)
        return Moments((block,), tuple((l, sum(rows) / n) for l, rows in enumerate(sums)))


def _lagrangian(machine, state):
    """Return L of each row, in float64; NaN where the messages are no solution."""
    total, fails = 0.0, _diverging_rows(state)
    for l, unit in enumerate(machine.units):
        sides = tuple(_sides(machine, l, state))
        theta, cavities = _conditionals(machine, l, sides)
        local = unit.log_partition(theta)
        bethe, fails = local, _has_minimum(unit, machine.thetas[l], theta) | fails
        for side, cavity in zip(sides, cavities, strict=True):
            own = machine.thetas[l].map(side.to_edges)
            fails = _has_minimum(unit, own, cavity) | fails
            a, c = unit.mean_variance(cavity)
            edge = 0.5 * (unit.log_partition(cavity) - side.to_edges(local))
            edge = edge + side.W * side.sent.first * (a - side.sent.mean)
            edge = edge + 0.5 * side.W * side.W * side.sent.second * (c - side.sent.variance)
            bethe = bethe + side.gather(edge)
        total = total + row_sums(bethe)
    return namespace(total).where(fails, float("nan"), total)


def _diverging_rows(state):
    """Return the rows where messages or their multipliers grow without limit."""
    found, xp = False, namespace(state.means[0])
    for message in (*state.up, *state.down):
        for part in (message.mean, message.first):
            found = xp.any(abs(part) > _GROWN, axis=(-2, -1)) | found
    return found


def _derivatives(machine, state):
    """Return (mean, variance, further) of each layer by derivatives of L, and for each W the sum
    over rows of dL/dW minus the product of the means.

    Rows where a derivative is far from its unit's mean get the moments of TAP.
    """
    layers, pairs, in_range = [], [0.0] * len(machine.weights), True
    xp = namespace(state.means[0])
    for l in range(len(machine.units)):
        sides = tuple(_sides(machine, l, state))
        response = _respond(machine, l, sides)
        layers.append((response, *_occupied(machine, l, sides)))
        for side, part in zip(sides, response.parts, strict=True):
            first, second = _multipliers(side, response, part)
            pair = first * side.received.mean + side.W * second * side.received.variance
            pairs[l - side.below] = pairs[l - side.below] + pair
        square = response.first**2
        rounding = float(xp.finfo(square.dtype).eps) * (1 + square)
        apart = (response.first - response.mean) ** 2
        near = apart <= _FAR**2 * response.variance + rounding
        in_range = xp.all(near & (response.second - square >= -rounding), axis=1) & in_range
    rows, statistics, covariances = in_range[:, None], [], []
    for response, occupied, belief in layers:
        mean = xp.where(rows, response.first, response.mean)
        variance = xp.where(rows, response.second - response.first**2, response.variance)
        further = None if occupied is None else (xp.where(rows, occupied, belief),)
        statistics.append((mean, variance, further))
    for l, (W, pair) in enumerate(zip(machine.weights, pairs, strict=True)):
        means = statistics[l + 1][0][:, :, None] * statistics[l][0][:, None, :]
        variances = layers[l + 1][0].variance[:, :, None] * layers[l][0].variance[:, None, :]
        rest = xp.where(rows[:, :, None], pair - means, machine.scale * W * variances)
        covariances.append(xp.sum(rest, axis=0))
    return tuple(statistics), tuple(covariances)


def _occupied(machine, l, sides):
    """Return the derivative of L by the spike parameter and the unit's own P[x != 0].

    None for units without an atom.
    """
    if machine.thetas[l].spike is None:
        return None, None
    unit = machine.units[l]
    theta, cavities = _conditionals(machine, l, sides)
    (local,) = unit.further(theta)
    total = local
    for side, cavity in zip(sides, cavities, strict=True):
        (share,), (a, c) = unit.further(cavity), unit.mean_variance(cavity)
        change = side.W * side.sent.first * a
        change = change + 0.5 * side.W * side.W * side.sent.second * (c - a * a)
        total = total + side.gather(0.5 * (share - side.to_edges(local)) + (1 - share) * change)
    return total, local
