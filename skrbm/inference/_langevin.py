"""Langevin and Gibbs-Langevin sampling of machines with Gaussian visible units.

Both move the visible values v, given a centre m and the precisions of the units, by

    v' = m + beta (v - m) + scale / sqrt(precision) * noise.

This is the result of K steps of Langevin dynamics in the energy sum precision (v - m)**2 / 2. The
centre m is the mean of v given a draw of the hidden units (Gibbs-Langevin), or given their
expectation, which makes the gradient that of the marginal energy (Langevin).
"""

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from .._checks import check_count, check_number, look_up
from .._schedules import SCHEDULES
from ..arrays import namespace, number, require, row_sums
from ..machine import condition, conditional, data_moments
from ._fixed_point import choose
from ._needs import Needs
from ._sampler import Sampler, metropolis

_LARGEST = 2.0  # step / variance from which on the dynamics diverge


_STEP_SCALES = {
    "variance": lambda precision: 1.0,
    "mean_variance": lambda precision: precision * namespace(precision).mean(1 / precision),
}
"""Step / variance for a step size of 1, one number or one for each visible unit."""

_LIMITS = {"variance": _LARGEST, "mean_variance": math.inf}  # of the step size, on all machines


def cosine(step, n_steps):
    """Return the factor on the step size at a step (Eq. 22): 1 at step 0, 0 at ``n_steps``."""
    return SCHEDULES["cosine"](step / n_steps)


@cache
def _cosines(n_steps):
    """Return these factors at all steps, which each move of the chains asks for."""
    return tuple(cosine(step, n_steps) for step in range(n_steps))


class Walk(NamedTuple):
    """State of a Langevin sampler."""

    layers: tuple
    given: Any  # parameters of the hidden layer given the visible values
    moments: tuple  # mean and variance of these, as ``Unit.moments`` returns them
    centre: Any  # where the drift points, (n_rows, n_visible)
    energy: Any = None  # marginal energy up to a constant, float64; None until a step needs it


@dataclass(frozen=True)
class Langevin(Sampler):
    """Langevin dynamics on the marginal energy (Alg. 1 of Liao et al. 2022).

    During a run the step size decreases along half a cosine.

    Parameters
    ----------
    step_size : float, default=0.5
        Step size at the start of a run, below 2, in the units given by ``step_scale``.
    adjust_after : int or None, default=0
        Step of a run from which on proposals are accepted or rejected (Eq. 7), which leaves the
        distribution of the model invariant; 0 adjusts all steps, None none.
    step_scale : {"variance", "mean_variance"}, default="variance"
        Whether step sizes are in units of each visible unit's own variance, or of the mean
        variance, as in the paper. The latter is unstable, and raises an error, if the variances
        differ too much.
    temperature : float, default=1.0
        Factor on the variance of the noise. At temperatures other than 1 the chains do not have the
        distribution of the model, and ``adjust_after`` must be None. The code released by the
        authors divides energies by the batch size, which amounts to a temperature of that size (512
        on MNIST).
    n_steps, n_chains, start, burn_in : as in :class:`Sampler`

    References
    ----------
    Liao, R., Kornblith, S., Ren, M., Fleet, D. J., & Hinton, G. (2022). Gaussian-Bernoulli RBMs
    without tears. arXiv:2210.10318.
    """

    needs = Needs(visible=("is_gaussian",), one_hidden_layer=True)
    alternative = "Gibbs"

    step_size: float = 0.5
    adjust_after: int | None = 0
    step_scale: str = "variance"
    temperature: float = 1.0

    def __post_init__(self):
        super().__post_init__()
        limit = look_up("step_scale", self.step_scale, _LIMITS)
        check_number("step_size", self.step_size, above=0, below=limit)
        check_count("adjust_after", self.adjust_after, 0, or_none=True)
        check_number("temperature", self.temperature, above=0)
        if self.temperature != 1 and self.adjust_after is not None:
            raise ValueError(
                f"temperature={self.temperature!r} needs adjust_after=None, since steps are "
                "accepted or rejected at a temperature of 1"
            )

    def at(self, step, n_steps):
        size = self.step_size * cosine(step, n_steps)
        return replace(self, step_size=size, adjust_after=self._steps_left(step))

    def _steps_left(self, step):
        """Return the number of steps without acceptance that follow ``step``, None for all."""
        return self.adjust_after and max(self.adjust_after - step, 0)

    def _relative_step(self, machine):
        """Return step / variance, one number or one for each visible unit."""
        return self.step_size * _STEP_SCALES[self.step_scale](machine.thetas[0].precision)

    def _check_step(self, machine):
        """Raise ValueError if steps diverge; none of a run is longer than the first."""
        step = self._relative_step(machine)
        largest = step if isinstance(step, float) else number(namespace(step).max(step))

        def diverges():
            return ValueError(
                f"a step of {float(largest):.3g} times a unit's variance diverges, where the limit "
                f"is {_LARGEST:g}; use step_scale='variance' or a step_size smaller than "
                f"{self.step_size:.3g}"
            )

        require(largest < _LARGEST, diverges)

    @property
    def _factors(self):
        """The factors on the step size of the inner steps."""
        return (1.0,)

    def coefficients(self, machine):
        """Return (beta, scale) in v' = m + beta (v - m) + scale * sigma * noise (Eq. 11).

        Each is one number, or an array with one for each visible unit.
        """
        step = self._relative_step(machine)
        beta, variance = 1.0, 0.0
        for factor in self._factors:
            part = factor * step
            beta, variance = beta * (1 - part), variance * (1 - part) ** 2 + 2 * part
        return beta, (variance * self.temperature) ** 0.5

    def state_at(self, machine, X, rng, given=None):
        """Return chains at visible values X; raises ValueError if the step size diverges."""
        self.check(machine)
        self._check_step(machine)
        return self._walk(machine, X, rng=rng, given=given)

    def resumed(self, machine, state):
        self._check_step(machine)
        return self._walk(machine, *state.layers)

    def _walk(self, machine, X, hidden=None, rng=None, given=None):
        """Return the state at visible values X, with hidden values that are drawn unless known."""
        given, unit = condition(machine, X) if given is None else given, machine.units[1]
        moments = unit.moments(given)
        if hidden is None:
            hidden = unit.sample_rows(given, moments[0], slice(None), rng)
        toward = machine.units[0].mean(
            conditional(machine, 0, (None, self._hidden_of_drift(moments[0], hidden)))
        )
        return Walk((X, hidden), given, moments, toward)

    def _hidden_of_drift(self, mean, drawn):
        """Return the hidden values given which the drift points to the mean of the visible ones."""
        return mean

    def moments(self, machine, state):
        return data_moments(machine, state.layers[0], given=state.given, moments=state.moments)

    def propose(self, machine, state, rng):
        """Return the proposed state."""
        beta, scale = self.coefficients(machine)
        X, m = state.layers[0], state.centre
        moved = rng.normal(tuple(X.shape))
        moved *= scale * machine.thetas[0].precision ** -0.5
        moved += m
        moved += beta * (X - m)
        return self._walk(machine, moved, rng=rng)

    def log_ratio(self, machine, old, new):
        """Return the log acceptance ratio of each row (Eqs. 7, 12).

        The hidden units are drawn from p(h' | v'), so that only marginals of v are left in it:
        p(v') q(v | v', h') / (p(v) q(v' | v, h)). Both states need their ``energy``.
        """
        beta, scale = self.coefficients(machine)
        precision = machine.thetas[0].precision

        def distance(a, b):
            """Return -log q(b | a) up to a constant."""
            rest = b.layers[0] - a.centre
            rest -= beta * (a.layers[0] - a.centre)
            rest /= scale
            return 0.5 * row_sums(precision * rest * rest)

        return old.energy - new.energy + distance(old, new) - distance(new, old)

    def with_energy(self, machine, state):
        """Return the state with its marginal energy up to a constant."""
        if state.energy is not None:
            return state
        theta, X = machine.thetas[0], state.layers[0]
        rest = X - theta.field / theta.precision
        hidden = machine.units[1].total_log_partition(state.given)
        return state._replace(energy=0.5 * row_sums(theta.precision * rest * rest) - hidden)

    def step(self, machine, state, rng):
        """Move the visible units, draw the hidden ones, and accept or reject both together."""
        new = self.propose(machine, state, rng)
        if self.adjust_after != 0:
            return new, {}
        old, new = self.with_energy(machine, state), self.with_energy(machine, new)
        accepted, rate = metropolis(self.log_ratio(machine, old, new), rng)
        return choose(accepted, new, old), {"acceptance": rate}


@dataclass(frozen=True)
class GibbsLangevin(Langevin):
    """Alternate Langevin dynamics of v given h with draws of h given v (Alg. 2 of Liao et al.).

    The step size of the K inner steps decreases along half a cosine. Since each step is linear in
    v, all K together are a single draw from a normal distribution (Eq. 11).

    Parameters
    ----------
    step_size, adjust_after, step_scale, temperature : as in :class:`Langevin`
        Proposals are accepted by Eq. 12.
    n_steps, n_chains, start, burn_in : as in :class:`Sampler`
    n_inner_steps : int, default=10
        Number K of Langevin steps given h.
    """

    n_inner_steps: int = 10

    def __post_init__(self):
        super().__post_init__()
        check_count("n_inner_steps", self.n_inner_steps, 1)

    def at(self, step, n_steps):
        return replace(self, adjust_after=self._steps_left(step)) if self.adjust_after else self

    @property
    def _factors(self):
        return _cosines(self.n_inner_steps)

    def _hidden_of_drift(self, mean, drawn):
        return drawn
