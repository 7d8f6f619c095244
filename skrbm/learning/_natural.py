"""The natural gradient in the space of samples.

With N rows of samples of the model, weighted by p, their sufficient statistics T and the Fisher
information F = Cov_p[T], the direction (F + λ)⁻¹ g lies in the span of g and of the centered
statistics of the samples (Woodbury). It is therefore an ordinary gradient with different weights on
the rows of the model, which solve an N x N system.
"""

from itertools import chain, pairwise

from ..arrays import cast, dense, like, namespace, solve_positive
from ..machine import Moments
from ..machine._machine import is_per_row

_LEAST_VARIANCE = 1e-5  # of statistics on average; rows that are all equal have none


def natural_difference(machine, data, model, metric, parameters, damping):
    """Return moments whose gradient is the natural gradient: the same rows with other weights.

    The metric is that of the rows of ``metric``, which is ``data`` or ``model``, or of ``data`` if
    it is not of rows alone. ``damping`` is the multiple of the identity that is added to it, in
    units of its trace, or that of rows of data about the same means if it is larger, over the
    number of rows. A difference that is all of equations, as where each row of a batch has missing
    values, is returned as it is.
    """
    difference = data - model
    if all(block.pair is not None for block in difference.blocks):  # no rows to take a metric of
        return difference
    rows = _Rows(machine, difference, metric if _has_rows(metric) else data, parameters)
    return rows.weighed(*rows.natural(damping))


def natural_difference_given(given, X, data, model, damping):
    """Return moments whose gradient is the natural gradient of p(v | x), for features X.

    The metric is the covariance, over the rows of data, of the gradients of single rows: of the
    statistics of a row less those expected given its features. What equations add to the products
    of rows is not known by row, and counts in the gradient alone. ``damping`` is in units of the
    trace, or of the variance of the statistics of rows of data if it is larger, over the number of
    rows: the former vanishes faster than the gradient where all rows become certain given X.
    ``data`` and ``model`` have blocks with a row for each row of X.
    """
    xp, n, difference = namespace(X), X.shape[0], data - model
    features, rows = 1.0 + X @ X.T, [block._replace(pair=None) for block in difference.blocks]
    parts = [(block, n * _per_row(block)) for block in rows]

    def products(a, b):
        V, H = (a.means[l] @ b.means[l].T for l in (0, 1))
        return V * H + (V + H) * features

    K = sum(products(a, b) * left[:, None] * right for a, left in parts for b, right in parts)
    K, T = cast(K, xp.float64) / n, cast(products(data.blocks[0], data.blocks[0]), xp.float64)
    spread = (xp.sum(xp.linalg.diagonal(T)) - xp.sum(T) / n) / n
    shift = damping * xp.maximum(xp.sum(xp.linalg.diagonal(K)), spread) / n + 1e-30
    ones, matrices = xp.ones_like(K[:, 0]), ()
    slopes = K @ ones
    if given.weights[0].shape[0] and not _has_rows(difference):
        zeros = xp.zeros_like(given.weights[0])
        rest = difference.add_pair(given, 0, zeros, 1.0)
        rest = rest - Moments(tuple(rows)).add_pair(given, 0, xp.zeros_like(zeros), 1.0)
        for block, left in parts:
            along = left * xp.sum((block.means[1] @ rest) * block.means[0], axis=1)
            slopes = slopes + cast(along, K.dtype)
        matrices = ((0, rest * cast(1 / shift, rest.dtype)),)
    taken = solve_positive(K + shift * xp.eye(n, **like(K)), slopes)
    weights = cast((ones - taken) / shift, X.dtype)
    blocks = tuple(block._replace(weight=_per_row(block) * weights) for block in rows)
    return Moments(blocks, matrices)


def _has_rows(moments):
    """Whether the moments are those of rows alone, without terms of equations."""
    return not (moments.matrices or moments.sums) and all(b.pair is None for b in moments.blocks)


class _Rows:
    """Rows of a gradient, and those among them whose statistics are the metric.

    ``signed`` are moments of the data minus those of the model, and ``metric`` has some of their
    rows with weights that sum to 1.
    """

    def __init__(self, machine, signed, metric, parameters):
        self.machine = machine
        xp = namespace(machine.weights[0])
        places = {id(block.means): block for block in metric.blocks}
        self.blocks = [block for block in signed.blocks if block.pair is None]
        others = [block for block in signed.blocks if block.pair is not None]
        weights = [_per_row(block) for block in self.blocks]
        parts = [
            _per_row(places[id(b.means)]) if id(b.means) in places else xp.zeros_like(w)
            for b, w in zip(self.blocks, weights, strict=True)
        ]
        self.signs, p = xp.concat(weights), xp.concat(parts)
        self.p = p / xp.sum(p)
        layers = range(len(machine.units))
        means = [xp.concat([dense(block.means[l]) for block in self.blocks]) for l in layers]
        self.means, self.offsets = means, [self.p @ mean for mean in means]
        self.parameters, self.scaled = parameters, parameters.scaled
        self.centred = [self.scaled(l, means[l] - self.offsets[l]) for l in layers]
        self.further = [self._further(l) for l in layers]
        others.append(self.blocks[0]._replace(weight=0 * weights[0]))  # for sums that are missing
        rest = Moments(tuple(others), signed.matrices, signed.sums)
        self.rest = None if _has_rows(signed) else rest

    def _further(self, l):
        """Return centred row statistics of a layer besides the values, and their means."""
        unit, theta, found = self.machine.units[l], self.machine.thetas[l], []
        kept = [i for i, part in enumerate(theta[:5]) if i > 0 and part is not None]
        if not kept:
            return []
        xp = namespace(theta.field)
        for block in self.blocks:
            further = None if block.further is None else block.further[l]
            own = block.means[l], block.variances[l], further
            rows = unit.without_joint().statistics(*own)
            found.append(self.parameters.scaled_statistics(l, rows))
        parts = [xp.concat([rows[i] for rows in found]) for i in kept]
        return [(i, x - self.p @ x, self.p @ x) for i, x in zip(kept, parts, strict=True)]

    def gram(self):
        """Return inner products of the statistics of all rows.

        Those of the left side are centred over the metric's rows, and then those of both sides.
        """
        products = [centred @ centred.T for centred in self.centred]
        total = sum(products) + sum(below * above for below, above in pairwise(products))
        for _, part, _ in chain(*self.further):
            total = total + part @ part.T
        for l, unit in enumerate(self.machine.units):
            if unit.is_joint:  # products of pairs of columns
                rows = self.parameters.joint_rows(unit, self.means[l])
                total = total + 0.25 * (rows @ rows.T) ** 2
        total = cast(total, namespace(total).float64)
        p = cast(self.p, total.dtype)
        mean = p @ total
        left = total - mean
        return left, left - mean[:, None] + p @ mean

    def natural(self, damping):
        """Return the weights of the rows in the natural gradient, and the factor of all else."""
        xp, (left, K) = namespace(self.p), self.gram()
        p, w = cast(self.p, K.dtype), cast(self.signs, K.dtype)
        slopes = left @ w  # where all weights are not 0 together, the mean statistics count
        if self.rest is not None:
            slopes = slopes + self._along_rest(p)
        root, squares = xp.sqrt(p), xp.linalg.diagonal(K)
        K = root[:, None] * K * root
        n = xp.sum(cast(p > 0, K.dtype))
        trace = xp.sum(xp.linalg.diagonal(K))
        sizes = [rows.shape[1] for rows in self.means]
        n_statistics = sum(sizes) + sum(a * b for a, b in pairwise(sizes))
        spread = xp.maximum(trace, xp.sum(xp.maximum(w, 0 * w) * squares))
        spread = xp.maximum(spread, 0 * trace + _LEAST_VARIANCE * n_statistics)
        shift = damping * spread / n
        K = K + shift * xp.eye(K.shape[0], **like(K))
        taken = root * solve_positive(K, root * slopes)
        factor = 1 / shift
        return cast((w - taken + p * xp.sum(taken)) * factor, self.p.dtype), factor

    def _along_rest(self, p):
        """Return the inner products of centred row statistics with moments that are not of rows."""
        reduced, xp = self.rest.reduced(self.machine), namespace(self.p)
        matrices, sums = dict(reduced.matrices), dict(reduced.sums)
        total, along = -xp.sum(self.signs), 0.0  # all weights together are 0
        centred = [sums[l].field - total * offset for l, offset in enumerate(self.offsets)]
        for l, rows in enumerate(self.centred):
            along = along + rows @ self.scaled(l, centred[l][None, :])[0, :]
            sums_of_rows = self.parameters.scaled_statistics(l, sums[l])
            for i, part, mean in self.further[l]:
                along = along + part @ (sums_of_rows[i] - total * mean)
        for l in range(len(self.centred) - 1):
            below, above = self.offsets[l], self.offsets[l + 1][:, None]
            M = matrices[l] - above * centred[l] - centred[l + 1][:, None] * below
            M = M - total * above * below
            M = self.scaled(l + 1, self.scaled(l, M).T).T
            along = along + xp.sum((self.centred[l + 1] @ M) * self.centred[l], axis=1)
        along = cast(along, xp.float64)
        return along - p @ along

    def weighed(self, weights, factor):
        """Return the moments with other weights of their rows, the rest times a factor."""
        blocks, start = [], 0
        for block in self.blocks:
            n = block.means[0].shape[0]
            blocks.append(block._replace(weight=weights[start : start + n]))
            start += n
        found = Moments(tuple(blocks))
        if self.rest is None:
            return found
        factor = cast(factor, self.p.dtype)
        return found + self.rest.reduced(self.machine).scaled(factor)


def _per_row(block):
    """Return the weights of the rows of a block, one for each."""
    if is_per_row(block.weight):
        return block.weight
    H = block.means[1]  # visible rows may be sparse
    return namespace(H).zeros((H.shape[0],), **like(H)) + block.weight
