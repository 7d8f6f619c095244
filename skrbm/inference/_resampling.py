"""Resampling of weighted rows."""

from ..arrays import cast, cumulative_sum, like, namespace


def resampled(rows, log_weights, rng):
    """Return as many rows, drawn systematically with probabilities by their log-weights."""
    xp, n = namespace(rows), rows.shape[0]
    log_weights = xp.where(log_weights == log_weights, log_weights, -xp.inf)
    weights = xp.exp(log_weights - xp.max(log_weights))
    ends = cumulative_sum(weights)
    points = (xp.arange(n, **like(ends)) + cast(rng.uniform((1,)), ends.dtype)) * (ends[-1] / n)
    chosen = xp.clip(xp.searchsorted(ends, points, side="right"), 0, n - 1)
    return xp.take(rows, chosen, axis=0)
