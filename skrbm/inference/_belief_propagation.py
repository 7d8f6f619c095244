"""Belief propagation on binary machines with one hidden layer (Ping and Ihler 2017)."""

from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from .._checks import look_up
from ..arrays import (
    cast,
    is_foreign,
    like,
    log_odds,
    matmul,
    namespace,
    share,
    sigmoid,
    split,
)
from ..machine import Block, Moments
from ._fixed_point import FixedPoint
from ._held import Held
from ._needs import Needs
from ._odds import BLOCK, LARGEST_WEIGHT, PRODUCTS, Odds

_FARTHEST = 16.0  # log-odds at which a start puts a unit that is 0 or 1
_HELD = 500.0  # log-odds of a unit that is clamped at 1
LARGE = 100.0  # log-odds; changes of a belief are relative to this, or to its size
_WORK = 8  # approximate operations per message in a sweep


class Messages(NamedTuple):
    """State of belief propagation.

    ``odds`` are the messages to the visible units, of shape (n_rows, n_hidden, n_visible), and
    ``beliefs`` the log-odds of the units of each layer.
    """

    means: tuple
    variances: tuple
    odds: Any
    beliefs: tuple


@dataclass(frozen=True)
class BeliefPropagation(FixedPoint):
    """Belief propagation between binary visible and hidden units.

    The method is exact if the nonzero weights form a tree. Otherwise it includes, to all orders,
    the terms that go back and forth along the same edge, which TAP includes to second order.

    Parameters
    ----------
    max_iter, tol, damping, start, n_starts : as in :class:`FixedPoint`
        ``tol`` also bounds the square of the largest change of a belief in log-odds, relative to
        100 or the size of the belief, since the means of saturated units do not change while
        messages pass through them.
    product : {"sum", "max", "mixed"}, default="sum"
        "sum" computes marginals, as needed in training; "max" finds the most probable configuration
        of all units; "mixed" finds that of the visible units, with the hidden units summed out.
    """

    needs = Needs(units=("is_binary",), one_hidden_layer=True)
    alternative = "'tap'"

    product: str = "sum"

    def __post_init__(self):
        super().__post_init__()
        look_up("product", self.product, PRODUCTS)

    def unmet(self, machine):
        sentence = super().unmet(machine)
        if sentence is not None:
            return sentence
        W = machine.weights[0]
        if 0 in W.shape:
            return (
                "belief propagation sends messages between visible and hidden units, and this "
                "machine has none of one kind; log_partition('exact') sums over the others"
            )
        dtype = "float64" if W.dtype == namespace(W).float64 else "float32"
        largest, limit = abs(machine.scale) * machine.largest[0], LARGEST_WEIGHT[dtype]
        if largest <= limit:  # not so if it is NaN
            return None
        return (
            f"belief propagation in {dtype} needs weights between -{limit} and {limit}, and the "
            f"largest is {largest:.4g} in size"
        )

    def check_marginals(self):
        if self.product != "sum":
            raise ValueError(
                f"{self} computes the most probable values; marginals and log Z need product='sum'"
            )

    def state_at(self, machine, X):
        """Return the state with visible means X and without messages."""
        xp, W = namespace(X), machine.weights[0]
        hidden = xp.zeros_like(X[:, :1]) * W[None, :, 0]
        odds = xp.ones((X.shape[0], *W.shape), **like(W))
        return Messages((X, hidden), (None, None), odds, (log_odds(X, _FARTHEST), hidden))

    def _odds(self, machine):
        W, largest = machine.weights[0], machine.largest[0]
        if machine.scale != 1:
            W, largest = machine.scale * W, abs(machine.scale) * largest
        return Odds(W, self.product, largest)

    def step(self, machine, state):
        """Send messages to the hidden units and back."""
        odds, R, visible = self.messages(machine, state)
        sweep = odds.sweep if is_foreign(R) else partial(_sweep_rows, odds)
        parts = sweep(R, visible, *fields_of(machine))
        R, visible, hidden = (cast(part, machine.dtype) for part in parts)
        visible = _certain(machine, visible)
        means = machine.units[0].with_known(sigmoid(visible)), sigmoid(hidden)
        return Messages(means, (None, None), R, (visible, hidden))

    def residual(self, old, new):
        """Return the mean squared change of the means, or that of beliefs, if larger."""
        changes = [super().residual(old, new)]
        for a, b in zip(old.beliefs, new.beliefs, strict=True):
            changes.append(cast(belief_change(a, b), namespace(b).float64))
        return reduce(namespace(changes[0]).maximum, changes)

    def messages(self, machine, state):
        """Return the odds, messages and visible beliefs of a state."""
        visible = _certain(machine, state.beliefs[0])
        odds, visible = self._odds(machine), cast(visible, namespace(visible).float64)
        return odds, cast(state.odds, odds.dtype), visible

    def log_partition(self, machine, state):
        """Return the Bethe approximation of log Z at each row of a state, in float64.

        In max-product it is the largest log-weight, and in mixed-product the logarithm of the
        weight of the decided visible values.
        """
        odds, R, visible = self.messages(machine, state)
        known = machine.units[0] if isinstance(machine.units[0], Held) else None
        return odds.log_partition(R, visible, *fields_of(machine), known)

    def moments(self, machine, state):
        """Return the expected statistics, averaged over the rows.

        Those of two units are the pair beliefs. As the Bethe log Z is stationary at a fixed point,
        the moments are its derivatives there.
        """
        odds, R, visible = self.messages(machine, state)
        hidden = state.beliefs[1]
        pairs = odds.pairs(R, visible, hidden, fields_of(machine)[1])
        product, weight = PRODUCTS[self.product], 1.0 / hidden.shape[0]
        beliefs = _certain(machine, state.beliefs[0])
        means = product.visible.mean(beliefs), product.hidden.mean(hidden)
        means = tuple(cast(mean, machine.dtype) for mean in means)
        rest = weight * (cast(pairs, machine.dtype) - matmul(means[1].T, means[0]))
        return Moments((Block(means, (None, None), weight),), ((0, rest),))


def _certain(machine, beliefs):
    """Return beliefs of the visible units, certain of those that are held at known values."""
    unit = machine.units[0]
    if not isinstance(unit, Held):
        return beliefs
    return namespace(beliefs).where(unit.observed, log_odds(unit.known, _HELD), beliefs)


def belief_change(old, new):
    """Return the square of the largest change of a belief in each row, relative to LARGE."""
    xp = namespace(new)
    size = xp.clip(xp.abs(new), LARGE, None)
    return xp.max(xp.abs(new - old) / size, axis=1) ** 2


def fields_of(machine):
    """Return the fields of both layers in float64."""
    return tuple(cast(theta.field, namespace(theta.field).float64) for theta in machine.thetas)


def _sweep_rows(odds, R, visible, b, c):
    """Sweep in copies of the messages, in as many rows at a time as stay in cache."""
    given, R = R, odds.empty(*R.shape)
    R[...], visible, hidden = given, visible.copy(), np.empty(R.shape[:2])
    b, c = (np.broadcast_to(field, (len(R), field.shape[-1])) for field in (b, c))
    size = max(1, BLOCK // (R.shape[1] * R.shape[2]))

    def sweep(part):
        scratch = odds.scratch(min(size, len(R)))
        for start in range(part.start, part.stop, size):
            rows = slice(start, min(start + size, part.stop))
            visible[rows], hidden[rows] = odds.sweep_in_place(
                R[rows], visible[rows], b[rows], c[rows], 0, scratch
            )

    share(sweep, split(len(R), _WORK * R.size))
    return R, visible, hidden
