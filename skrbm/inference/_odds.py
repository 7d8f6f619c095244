"""Messages of belief propagation as odds, whose updates need no transcendental functions.

A message is R = message(1) / message(0). One array holds the messages of both directions, and is
updated in place. With s = exp(-belief) of the sender, in log-odds, t = s R are the odds against the
sender's 1 when the receiver's own message R is taken out, and with E = exp(W) Eqs. (8) and (10) of
Ping and Ihler (2017) become

    R <- (t + E) / (t + 1),

all of whose terms are positive, so that nothing cancels. In max-product + is the maximum. Beliefs
are sums of log R; many messages are multiplied before each logarithm is taken, which is possible
because no abs(log R) exceeds the largest abs(W).
"""

from typing import NamedTuple

import numpy as np

from ..arrays import cast, is_foreign, namespace, sigmoid, softplus


class Limits(NamedTuple):
    """Logarithms of the largest numbers in a dtype."""

    weight: float  # exp(2 weight - belief) is below rounding for larger weights
    belief: float  # exp(belief + weight) is finite
    product: float  # of messages, before a logarithm is taken


LIMITS = {"float32": Limits(20.0, 60.0, 80.0), "float64": Limits(200.0, 500.0, 600.0)}

LARGEST_WEIGHT = {"float32": 80, "float64": 200}  # for which messages fit into the dtype
_MOST_FACTORS, _LEAST_COLUMNS = 8, 64  # in products along rows, and columns that remain
BLOCK = 2**18  # messages of an instance that are processed at a time, to stay in cache


class Sum:
    """Messages that sum over the sender's values; kernels know the rule by its number ``way``."""

    combine, way = "add", 0

    def __call__(self, R, E, s):
        """Return the messages in the other direction, in reply to R."""
        xp, t = namespace(R), R * s
        combine = getattr(xp, self.combine)
        return combine(t, E) / combine(t, xp.ones_like(t))

    def into(self, R, E, s, scratch):
        """Overwrite R with the replies to it, in NumPy."""
        combine = getattr(np, self.combine)
        R *= s
        combine(R, 1, out=scratch)
        combine(R, E, out=R)
        R /= scratch

    def total(self, belief):
        """Return the log of the combination of 1 and e^belief."""
        return softplus(belief)

    def mean(self, belief):
        return sigmoid(belief)


class Max(Sum):
    """Messages that take the best of the sender's values."""

    combine, way = "maximum", 1

    def total(self, belief):
        return namespace(belief).maximum(belief, namespace(belief).zeros_like(belief))

    def mean(self, belief):
        return cast(belief > 0, belief.dtype)


class Decided(Max):
    """Messages that take the most probable value x of the sender: R = e^(W x) (Eq. 15)."""

    way = 2

    def __call__(self, R, E, s):
        return namespace(R).where(s < 1, E, namespace(R).ones_like(R))

    def into(self, R, E, s, scratch):
        R[...] = np.where(s < 1, E, R.dtype.type(1))


class Product(NamedTuple):
    """The rules for messages of the visible and of the hidden units."""

    visible: Sum
    hidden: Sum


PRODUCTS = {
    "sum": Product(Sum(), Sum()),
    "max": Product(Max(), Max()),
    "mixed": Product(Decided(), Sum()),
}
"""For marginals, for the joint maximum, and for the maximum over visible units alone."""


class Odds:
    """The weights of a machine as odds, and the arithmetic of their messages.

    Messages have shape (..., n_hidden, n_visible). Beliefs are in log-odds and float64, with shape
    (..., n_units), and fields have shape (n_units,) or (..., n_units). ``largest`` is the largest
    absolute weight, which must not exceed LARGEST_WEIGHT.
    """

    def __init__(self, W, product, largest):
        xp = namespace(W)
        limits = LIMITS["float64" if W.dtype == xp.float64 else "float32"]
        if largest > limits.weight:  # float64 holds them, up to the bound of the whole method
            W, limits = cast(W, xp.float64), LIMITS["float64"]
        self.product, self.limit, self.dtype = PRODUCTS[product], limits.belief, W.dtype
        self._is_tall = W.shape[0] > W.shape[1]
        self.E = xp.exp(W) if is_foreign(W) else np.exp(W, out=self.empty(*W.shape))
        self._n_factors = int(limits.product / min(max(largest, 1e-3), limits.product))

    def empty(self, *shape):
        """Return a NumPy array for messages, contiguous along the larger layer."""
        if not self._is_tall:
            return np.empty(shape, self.dtype)
        *others, m, n = shape
        return np.empty((*others, n, m), self.dtype).swapaxes(-1, -2)

    def against(self, belief):
        """Return exp(-belief), the odds against 1, clipped to the range of the dtype."""
        xp = namespace(belief)
        return cast(xp.exp(-xp.clip(belief, -self.limit, self.limit)), self.dtype)

    def of_means(self, hidden, out=None):
        """Return the messages of hidden units with these means, the same to all visible units.

        A mean of 0 gives the neutral message 1. ``out`` works only with NumPy.
        """
        m = cast(hidden, self.dtype)[..., None]
        if out is None:
            return (1 - m) + m * self.E
        if not m.any():
            out.fill(1)
            return out
        for rows in self.blocks():
            np.multiply(m[:, rows], self.E[rows], out=out[:, rows])
            out[:, rows] += 1 - m[:, rows]
        return out

    def blocks(self):
        """Return slices of hidden units whose messages are processed at a time."""
        m, n = self.E.shape
        size = max(1, BLOCK // n)
        return [slice(i, min(i + size, m)) for i in range(0, m, size)]

    def sum_logs_of_rows(self, R):
        """Return the sum over the last axis of log R, in float64."""
        return self._sum_logs(R, -1)

    def sum_logs_of_columns(self, R):
        """Return the sum over the last axis but one of log R, in float64."""
        return self._sum_logs(R, -2)

    def _sum_logs(self, R, axis):
        """Return the sum over one of the last two axes of log R, in float64.

        Messages that lie side by side in memory are multiplied by slices, since reductions along
        them are slow.
        """
        xp, n, k = namespace(R), R.shape[axis], self._n_factors
        if is_foreign(R) or k < 2:
            return xp.sum(xp.log(R), axis=axis, dtype=xp.float64)
        if R.strides[axis] != R.itemsize:
            R = np.moveaxis(R, axis, 0)
            products = (np.multiply.reduce(R[i : i + k]) for i in range(0, n, k))
            return sum(np.log(product).astype(np.float64) for product in products)
        R, k = np.moveaxis(R, axis, -1), min(k - 1, _MOST_FACTORS, n // _LEAST_COLUMNS)
        if k < 2:
            return np.sum(np.log(R), axis=-1, dtype=np.float64)
        q = n // k
        products = R[..., :q] * R[..., q : 2 * q]
        for start in range(2 * q, n, q):
            part = R[..., start : start + q]
            products[..., : part.shape[-1]] *= part
        logs = np.log(products, out=products) @ np.ones(q, R.dtype)
        return logs.astype(np.float64)

    def sweep(self, R, visible, b, c):
        """Return messages sent to the hidden units and back, with visible and hidden beliefs."""
        P = self.product.visible(R, self.E, self.against(visible)[..., None, :])
        hidden = c + self.sum_logs_of_rows(P)
        Q = self.product.hidden(P, self.E, self.against(hidden)[..., None])
        return Q, b + self.sum_logs_of_columns(Q), hidden

    def sweep_in_place(self, R, visible, b, c, damping, scratch):
        """Do the same in NumPy, in blocks of hidden units, overwriting R.

        ``scratch`` is that for at least as many instances. Returns the new beliefs.
        """
        s, hidden, total = self.against(visible)[:, None, :], np.empty(c.shape), b.copy()
        for rows in self.blocks():
            E, new = self.E[rows], R[:, rows]
            work, spare = scratch[:, : len(R), : len(E)]
            if damping:
                new = spare
                new[...] = R[:, rows]
            self.product.visible.into(new, E, s, work)
            hidden[:, rows] = self.sum_logs_of_rows(new) + c[:, rows]
            self.product.hidden.into(new, E, self.against(hidden[:, rows])[..., None], work)
            total += self.sum_logs_of_columns(new)
            if damping:
                new *= 1 - damping
                R[:, rows] *= damping
                R[:, rows] += new
        return total, hidden

    def scratch(self, n):
        """Return the arrays that :meth:`sweep_in_place` works on, for ``n`` instances."""
        n_rows = max(rows.stop - rows.start for rows in self.blocks())
        return self.empty(2, n, n_rows, self.E.shape[1])

    def log_partition(self, R, visible, b, c, held=None):
        """Return the Bethe approximation of log Z, of shape (n,), in float64.

        At a fixed point of sum-product this is the sum of the units' log Z minus the sum over pairs
        of log(1 + (e^W - 1) p q), where p and q are the means of both units without each other. In
        max-product it is the largest log-weight, and in mixed-product the log-weight of the decided
        visible values. Visible units that are ``held`` contribute the log-weight of their known
        values.
        """
        xp, (to_hidden, to_visible) = namespace(R), self.product
        s, hidden = self.against(visible)[:, None, :], self.hidden(R, visible, c)
        columns, total = 0.0, 0.0
        for rows in self.blocks():
            Q = R[:, rows, :]
            total = total - xp.sum(self.sum_logs_of_rows(to_hidden(Q, Q, s)), axis=-1)
            columns = columns + self.sum_logs_of_columns(Q)
        own = to_hidden.total(b + columns)
        if held is not None:
            own = xp.where(held.observed, cast(held.known, own.dtype) * (b + columns), own)
        total = total + xp.sum(own, axis=-1)
        return total + xp.sum(to_visible.total(hidden), axis=-1)

    def hidden(self, R, visible, c):
        """Return the beliefs of the hidden units that belong to messages R to the visible ones."""
        to_hidden, s = self.product.visible, self.against(visible)[:, None, :]
        parts = [
            c[..., rows] + self.sum_logs_of_rows(to_hidden(R[:, rows, :], self.E[rows, :], s))
            for rows in self.blocks()
        ]
        return namespace(R).concat(parts, axis=-1)

    def pairs(self, R, visible, hidden, c):
        """Return the sum over instances of E[h v], from messages to the visible units and beliefs.

        The sum has shape (n_hidden, n_visible). In sum-product, E[h v] is E[h] times E[v | h = 1] =
        E / (s R + E), as the message of the visible unit to the hidden one cancels. In max- and
        mixed-product it is the product of the decided values, where hidden units respond to the
        present visible values.
        """
        to_hidden, mean = self.product.visible, self.product.hidden.mean
        if isinstance(to_hidden, Max):
            means = mean(self.hidden(R, visible, c))
            return cast(means.T @ to_hidden.mean(visible), R.dtype)
        means, s, joint = cast(mean(hidden), R.dtype), self.against(visible)[:, None, :], []
        for rows in self.blocks():
            t, E = R[:, rows, :] * s, self.E[rows, :]
            t += E
            t = means[:, rows, None] / t
            joint.append(E * (t[0, ...] if t.shape[0] == 1 else namespace(R).sum(t, axis=0)))
        return namespace(R).concat(joint, axis=0)
