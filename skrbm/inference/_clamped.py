"""Inference with some of the visible units held at observed values."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from .._checks import check_count
from ..arrays import cast, namespace
from ..machine import conditional
from ._fixed_point import FixedPoint
from ._gibbs import Gibbs, accept, odd_conditionals, samples_exactly
from ._sampler import choose


class ClampedState(NamedTuple):
    """State of the method inside, the observed values, and where they are observed (1 or 0)."""

    inner: Any
    values: Any
    observed: Any

    @property
    def means(self):
        """Means of each layer."""
        return self.inner.means

    @property
    def variances(self):
        """Variances of each layer."""
        return self.inner.variances


@dataclass(frozen=True)
class Clamped(FixedPoint):
    """Another fixed point, whose observed visible units are set to their values in each sweep."""

    method: FixedPoint

    @property
    def max_iter(self):
        return self.method.max_iter

    @property
    def tol(self):
        return self.method.tol

    @property
    def damping(self):
        return self.method.damping

    def check_marginals(self):
        raise ValueError(
            f"{self} needs to know which units are observed in each row; give the method inside "
            "it instead, and impute holds the observed units"
        )

    def start(self, machine, X, observed):
        """Return the state at visible values X, which stay where ``observed``."""
        return ClampedState(self.method.start(machine, X), X, cast(observed, X.dtype))

    def step(self, machine, state):
        inner = self.method.step(machine, state.inner)
        held = state.observed > 0.5
        return state._replace(inner=self.method.hold(machine, inner, state.values, held))

    def residual(self, old, new):
        return self.method.residual(old.inner, new.inner)


def clamped_mean(machine, X, observed, rng, n_steps):
    """Return E[x | observed values] of the visible units by Gibbs sampling.

    Parameters
    ----------
    machine : Machine
        With one hidden layer.
    X : array of shape (n_rows, n_visible)
        Where the chains start, one for each row. Values stay where ``observed``.
    observed : array of shape (n_rows, n_visible), bool
    rng : Rng
    n_steps : int
        Sweeps of each chain; the mean is over the second half.

    Returns
    -------
    array of shape (n_rows, n_visible)
    """
    check_count("n_steps", n_steps, 1)
    xp, visible, exact = namespace(X), machine.units[0], samples_exactly(machine)
    total, n_kept, sampler = xp.zeros_like(X), 0, Gibbs()
    state = sampler.start(machine, X, rng)
    for step in range(n_steps):
        theta = conditional(machine, 0, state.layers)
        new = xp.where(observed, X, visible.sample(theta, rng))
        mean = visible.mean(theta)
        if not exact:  # the mean of a proposal is not that of the machine
            old = state.layers[0]
            thetas = [odd_conditionals(machine, (rows, None)) for rows in (old, new)]
            mean = new = choose(accept(machine, *thetas, rng), new, old)
        if 2 * step >= n_steps - 1:
            total += mean
            n_kept += 1
        state = sampler.start(machine, new, rng)
    return xp.where(observed, X, total / n_kept)
