"""Langevin and Gibbs-Langevin sampling of machines with Gaussian visible units.

Both move the visible values v, given a centre m and the units' precisions, by

    v' = m + beta (v - m) + spread / sqrt(precision) * noise,

which is what K steps of Langevin dynamics in the energy sum precision (v - m)**2 / 2 come to. They
differ in the centre: the mean of v given a draw of the hidden units (Gibbs-Langevin), or given
their expectation, so that the energy's slope is that of the marginal energy (Langevin).
"""

import math
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, NamedTuple

from .._checks import check_count
from .._schedules import SCHEDULES
from ..arrays import cast, like, namespace, row_sums
from ..machine import condition, conditional, data_moments
from ._base import Sampler, map_rows

STEP_SCALES = {
    "variance": lambda precision: 1.0,
    "mean_variance": lambda precision: precision * namespace(precision).mean(1 / precision),
}
"""Step divided by the unit's own variance, for a step size of 1, by the units' precisions."""

_LARGEST = 2.0  # of a step divided by the variance: from here on the dynamics diverge
_ROOM = 0.95  # part of it that tuning leaves


def cosine(step, n_steps):
    """Return the factor on a step size, counted from 0 (Eq. 22): 1, falling to 0 at ``n_steps``."""
    return SCHEDULES["cosine"](step / n_steps)


class Walk(NamedTuple):
    """State of a Langevin sampler: values of each layer, and what the next step needs of them.

    ``given`` are the parameters of the hidden layer given the visible values; ``centre`` is where
    the drift points, of shape (n_rows, n_visible); ``energy`` the marginal energy up to a constant,
    in float64, of shape (n_rows,), None until a step needs it.
    """

    layers: tuple
    given: Any
    centre: Any
    energy: Any = None


@dataclass(frozen=True)
class Langevin(Sampler):
    """Langevin dynamics on the marginal energy (Alg. 1 of Liao et al. 2022).

    Over a run the step falls as half a cosine.

    Parameters
    ----------
    step_size : float, default=0.5
        Step at the start of a run, in the unit that ``step_scale`` names; below 2.
    adjust_after : int or None, default=0
        Step of a run from which on proposals are accepted or rejected (Eq. 7), so that the law of
        the machine is left as it is: 0 for all steps, None for none.
    step_scale : {"variance", "mean_variance"}, default="variance"
        Whether steps are in units of each visible unit's own variance, or of their mean, as
        printed. The latter is unstable if variances differ, and is then refused.
    target_acceptance : float or None, default=None
        Rate of acceptance that the step size is tuned to, between runs, if given.

    References
    ----------
    Liao, R., Kornblith, S., Ren, M., Fleet, D. J., & Hinton, G. (2022). Gaussian-Bernoulli RBMs
    without tears. arXiv:2210.10318.
    """

    step_size: float = 0.5
    adjust_after: int | None = 0
    step_scale: str = "variance"
    target_acceptance: float | None = None

    def __post_init__(self):
        size, after, target = self.step_size, self.adjust_after, self.target_acceptance
        if isinstance(size, bool) or not isinstance(size, Real) or not 0 < size < math.inf:
            raise ValueError(f"step_size must be a finite number > 0, got {size!r}")
        if self.step_scale not in STEP_SCALES:
            raise ValueError(
                f"step_scale must be one of {sorted(STEP_SCALES)}, got {self.step_scale!r}"
            )
        if self.step_scale == "variance" and size >= _LARGEST:
            raise ValueError(
                f"step_size must be below {_LARGEST:g}, from where on the dynamics diverge, "
                f"got {size!r}"
            )
        if after is not None:
            check_count("adjust_after, unless None,", after, 0)
        if target is not None and (not isinstance(target, Real) or not 0 < target < 1):
            raise ValueError(
                f"target_acceptance must be None or a number in (0, 1), got {target!r}"
            )
        if target is not None and after is None:
            raise ValueError(
                "target_acceptance tunes the step size to a rate that only adjusted steps have; "
                "set adjust_after to a number of steps, such as 0"
            )

    def check(self, machine):
        visible = machine.units[0]
        if len(machine.units) != 2 or visible.bounds != (-math.inf, math.inf):
            raise ValueError(
                f"{type(self).__name__} needs one hidden layer and visible units on the whole real "
                f"line, and this machine has the units {machine.units}; use Gibbs"
            )

    # ------------------------------------------------------------------ step sizes

    def at(self, step, n_steps):
        return self._after(step, self.step_size * cosine(step, n_steps))

    def _after(self, step, step_size):
        after = self.adjust_after if self.adjust_after is None else max(self.adjust_after - step, 0)
        return replace(self, step_size=step_size, adjust_after=after)

    def tuned(self, acceptance, gain):
        """Return the sampler with a step size nearer to the target of its rate of acceptance.

        log step_size moves by ``gain`` times what the rate has beyond the target (Robbins and
        Monro); it stays below the stable limit. Without a target, or a rate, nothing changes.
        """
        if self.target_acceptance is None or not acceptance >= 0:
            return self
        size = self.step_size * math.exp(gain * (acceptance - self.target_acceptance))
        if self.step_scale == "variance":
            size = min(size, _ROOM * _LARGEST)
        return replace(self, step_size=size)

    def stable(self, machine):
        """Return the sampler with its step size, or a smaller one that does not diverge there."""
        most = self._largest(self._relative(machine))
        return self if most < _LARGEST else self.sized(self.step_size * _ROOM * _LARGEST / most)

    def sized(self, step_size):
        """Return the sampler with another step size."""
        return replace(self, step_size=step_size)

    def relative_step(self, machine):
        """Return step / variance, a number or one for each visible unit.

        Raises
        ------
        ValueError
            If it is 2 or more for some unit, where the dynamics diverge.
        """
        step = self._relative(machine)
        most = self._largest(step)
        if not most < _LARGEST:
            raise ValueError(
                f"a step of {most:.3g} times a unit's variance diverges (it must be below "
                f"{_LARGEST:g}): the variances of the visible units are too different for "
                f"step_scale={self.step_scale!r} with step_size={self.step_size:.3g}. Use "
                "step_scale='variance' or a smaller step_size"
            )
        return step

    def _relative(self, machine):
        return self.step_size * STEP_SCALES[self.step_scale](machine.thetas[0].precision)

    @staticmethod
    def _largest(step):
        return step if isinstance(step, Real) else float(namespace(step).max(step))

    def _factors(self):
        """Return the factors on the step of the inner steps that are taken at once."""
        return (1.0,)

    def coefficients(self, machine):
        """Return (beta, spread): v' = m + beta (v - m) + spread * sigma * noise (Eq. 11).

        Each is a number, or has one for each visible unit.
        """
        step = self.relative_step(machine)
        beta, variance = 1.0, 0.0
        for factor in self._factors():
            part = factor * step
            beta, variance = beta * (1 - part), variance * (1 - part) ** 2 + 2 * part
        root = math.sqrt if isinstance(variance, Real) else namespace(variance).sqrt
        return beta, root(variance)

    # ---------------------------------------------------------------------- chains

    def init(self, machine, rng, n, X):
        """Return ``n`` chains at draws from the visible units without couplings."""
        column = namespace(X).zeros((n, 1), **like(machine.weights[0]))
        theta = machine.thetas[0].map(lambda part: part + column)
        return self.start(machine, machine.units[0].sample(theta, rng), rng)

    def start(self, machine, X, rng):
        self.check(machine)
        self.relative_step(machine)  # which refuses a step that diverges
        given = condition(machine, X)
        hidden, centre = self._centre(machine, given, rng)
        return Walk((X, hidden), given, centre)

    def resumed(self, machine, state):
        X, hidden = state.layers
        given = condition(machine, X)
        return Walk(state.layers, given, self._pointed(machine, given, hidden))

    def hidden_theta(self, machine, state):
        return state.given

    def moments(self, machine, state):
        return data_moments(machine, state.layers[0])

    def visible(self, state):
        return state.layers[0]

    def _centre(self, machine, given, rng):
        """Return a draw of the hidden units, and where the drift of the visible ones points."""
        hidden = machine.units[1].sample(given, rng)
        return hidden, self._pointed(machine, given, hidden)

    def _pointed(self, machine, given, hidden):
        expected = machine.units[1].mean(given)
        return machine.units[0].mean(conditional(machine, 0, (None, expected)))

    def propose(self, machine, state, rng):
        """Return the state that is proposed."""
        beta, spread = self.coefficients(machine)
        X, m = state.layers[0], state.centre
        xp = namespace(X)
        moved = rng.normal(tuple(X.shape))
        moved *= spread / xp.sqrt(machine.thetas[0].precision)
        moved += m
        moved += beta * (X - m)
        given = condition(machine, moved)
        hidden, centre = self._centre(machine, given, rng)
        return Walk((moved, hidden), given, centre)

    def log_ratio(self, machine, old, new):
        """Return the log of the ratio in the acceptance of a proposal (Eqs. 7, 12), per row.

        p(v, h) q(h' | v') with q = p(h' | v') leaves of the joint law the marginal one of v:
        p(v') q(v | v', h') / (p(v) q(v' | v, h)). Both states need their ``energy``.
        """
        beta, spread = self.coefficients(machine)
        precision = machine.thetas[0].precision

        def distance(a, b):
            """Of the way from a to b from the mean of the proposals at a."""
            rest = b.layers[0] - a.centre
            rest -= beta * (a.layers[0] - a.centre)
            rest /= spread
            return 0.5 * row_sums(precision * rest * rest)

        return old.energy - new.energy + distance(old, new) - distance(new, old)

    def with_energy(self, machine, state):
        """Return the state with its marginal energy, less a constant."""
        if state.energy is not None:
            return state
        theta, X = machine.thetas[0], state.layers[0]
        rest = X - theta.field / theta.precision
        hidden = row_sums(machine.units[1].log_partition(state.given))
        return state._replace(energy=0.5 * row_sums(theta.precision * rest * rest) - hidden)

    def step(self, machine, state, rng):
        """Move the visible units, draw the hidden ones, and accept or reject both together."""
        new = self.propose(machine, state, rng)
        if self.adjust_after != 0:
            return new, {}
        old, new = self.with_energy(machine, state), self.with_energy(machine, new)
        log_ratio = self.log_ratio(machine, old, new)
        xp = namespace(log_ratio)
        draws = cast(rng.uniform(tuple(log_ratio.shape)), log_ratio.dtype)
        accepted = draws < xp.exp(xp.clip(log_ratio, None, 0.0))  # never where it is NaN
        rate = xp.where(log_ratio == log_ratio, xp.exp(xp.clip(log_ratio, None, 0.0)), 0.0)

        def chosen(b, a):
            return xp.where(accepted if b.ndim == 1 else accepted[:, None], b, a)

        return map_rows(chosen, new, old), {"acceptance": rate}


@dataclass(frozen=True)
class GibbsLangevin(Langevin):
    """Alternate Langevin dynamics of v given h with draws of h given v (Alg. 2 of Liao et al.).

    The K inner steps, whose step falls as half a cosine, are linear in v, so that they come to one
    draw from a normal law (Eq. 11), which is what is done.

    Parameters
    ----------
    step_size, adjust_after, step_scale, target_acceptance
        As in :class:`Langevin`, with the acceptance of Eq. 12.
    n_inner_steps : int, default=10
        Number K of Langevin steps given h.
    """

    n_inner_steps: int = 10

    def __post_init__(self):
        super().__post_init__()
        check_count("n_inner_steps", self.n_inner_steps, 1)

    def at(self, step, n_steps):
        return self._after(step, self.step_size)

    def _factors(self):
        return tuple(cosine(k, self.n_inner_steps) for k in range(self.n_inner_steps))

    def _pointed(self, machine, given, hidden):
        return machine.units[0].mean(conditional(machine, 0, (None, hidden)))
