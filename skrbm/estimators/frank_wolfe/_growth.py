"""Machines that grow unit by unit: Frank-Wolfe over distributions of hidden units.

Alg. 1 of Ping, Liu and Ihler (2016). A machine is a measure on atoms (:mod:`._mixture`):
log p(v) = sum_i c_i softplus(w_i'v) + b'v - log Z with multiplicities c, of which the sum is the
temperature. Every step moves c along a line: it inserts a unit, shrinks one, or changes the
temperature.
"""

import copy
from dataclasses import dataclass
from itertools import compress

import numpy as np
from scipy.linalg import cho_solve

from ...arrays import log_odds
from ._line_search import best_step, line_along
from ._mixture import Direction, Mixture
from ._samples import covariance_factor
from ._subproblem import Proposer

_MAX_PARTS, _PART_STEPS = 50, 2
_ANNEAL_EVERY = 5  # steps: each new set of samples has another noise, which biases follow
_FARTHEST = 8.0  # log-odds of a visible unit that is always 0 or 1, where annealing begins
_TIGHTER = 1.2  # factor of the penalty after a refusal, which noise alone may have caused
_CHANGING = ("alpha", "radius", "mixture", "log_z", "n_steps", "n_insertions")
COLUMNS = (  # of a path: what a step tells
    *("n_components", "reason", "alpha", "radius", "temperature", "slope", "duality_gap"),
    *("multiplicity", "gain", "score", "validation_score", "free_energy_gap", "time"),
)


@dataclass(frozen=True)
class Plan:
    """How a machine grows: parameters of :class:`~skrbm.FrankWolfeRBM`, which documents them."""

    alpha: float = 0.01
    radius: float | None = None
    step: str = "line_search"
    temperature: float | str = "n_components"
    away_steps: bool = False
    n_restarts: int = 8
    n_bias_steps: int = 10
    learning_rate: float = 0.5
    insert_tol: float = 1e-3

    @property
    def total(self):
        """Bound of the sum of the multiplicities, or None."""
        return None if isinstance(self.temperature, str) else float(self.temperature)

    def next_temperature(self, mixture):
        """Return the bound of the sum of the multiplicities in the next step."""
        return float(mixture.counts.sum()) + 1.0 if self.total is None else self.total


class Growth:
    """A machine that grows: the loop of Alg. 1, a step at a time, after :meth:`begin`.

    Parameters
    ----------
    plan : Plan
    data : WeightedRows or IncompleteRows
    model : SampledModel or ExactModel
    mixture : Mixture
        Where to begin.
    rng : numpy.random.Generator
        Of the random starts.
    held_out : WeightedRows or IncompleteRows, default=None
        Held-out samples, whose log-likelihood is followed too.
    """

    def __init__(self, plan, data, model, mixture, rng, held_out=None):
        self.plan, self.model, self.mixture = plan, model, mixture
        self.alpha, self.radius = plan.alpha, plan.radius
        self.data = data.followed(mixture.atoms)
        self.held_out = held_out and held_out.followed(mixture.atoms)
        self.base = log_odds(self.data.means, _FARTHEST)  # biases of independent units
        self.proposer = Proposer(plan, rng)
        if self.data.rows is not None:
            self.proposer.look_at(self.data)
        self.n_steps, self.n_insertions = 0, len(mixture.units)
        self.log_z = self.samples = None

    def get_state(self):
        """Return what steps have changed, a dict; that of the model is a part of it."""
        state = {name: getattr(self, name) for name in _CHANGING}
        return state | {
            "values": [rows and rows.values for rows in (self.data, self.held_out)],
            "rng": self.proposer.rng,
            "model": self.model.get_state(),
        }

    def set_state(self, state):
        """Go on as the growth that had this state, on the same data."""
        for name in _CHANGING:
            setattr(self, name, state[name])
        vars(self.model).update(state["model"])
        self.proposer.rng, self.samples = state["rng"], self.model.samples(self.mixture)
        for rows, values in zip((self.data, self.held_out), state["values"], strict=True):
            if rows is not None:
                rows.values = values

    def begin(self):
        """Draw samples of the machine to begin with, and match its visible means to the data's."""
        self.log_z = self.model.anneal(self.mixture, self.base)
        self._complete()
        self._refit(self.plan.n_bias_steps)
        self.samples = self.model.sweep(self.mixture)

    def _complete(self):
        """Complete rows with missing values, given what is observed, as the machine is now.

        With these rows each step raises a lower bound of the likelihood of what is observed, which
        has its value and its slope before the step (expectation-maximisation).
        """
        if self.data.complete(self.model, self.mixture):
            self.proposer.look_at(self.data)

    def epoch(self, training, progress, rate):
        """Take one step, as an epoch of a :class:`~skrbm.learning.Training`."""
        row = self.step()
        training.machine, training.phase_state = self.mixture, row
        return row

    def step(self):
        """Insert a unit, or shrink one; returns a row of the path.

        ``reason`` is what happened: "inserted", "shrunk", "removed", "refused", or "no unit".
        """
        if self.n_steps and self.n_steps % _ANNEAL_EVERY == 0:
            self.log_z = self.model.anneal(self.mixture, self.base)
            self.samples = self.model.sweep(self.mixture)
        self._complete()
        self.n_steps += 1
        directions, slope, gap = self.propose()
        row = {"alpha": self.alpha, "radius": float("nan") if self.radius is None else self.radius}
        row["reason"], row["multiplicity"], row["gain"] = self._take(directions)
        return row | {
            "n_components": len(self.mixture.units),
            "temperature": float(self.mixture.counts.sum()),
            "slope": slope,
            "duality_gap": float(gap),
            **self.scores(),
        }

    def _take(self, directions):
        """Take the best of some steps; returns what happened, the unit's multiplicity, the gain."""
        n_units, nothing = len(self.mixture.units), (float("nan"), float("nan"))
        if not directions:
            return "no unit", *nothing
        reason, numbers = directions[0].kind, self.advance(directions)
        if numbers is None:
            self.samples = self.model.sweep(self.mixture)  # another subproblem next time
            self._tighten()
            return "refused", *nothing
        if len(self.mixture.units) < n_units:
            reason = "removed"
        if self.plan.temperature == "learn" and self.mixture.counts.size:
            line = self.mixture, self.data.values, self.mixture.counts
            self.advance([Direction("temperature", *line, low=-0.5)])
        return reason, *numbers

    def scores(self):
        """Return the estimated mean log-likelihoods of the data and of the held-out samples."""
        now, held_out = (self.model, self.mixture, self.log_z), float("nan")
        score = self.data.score(*now)
        if self.held_out is not None:
            held_out = self.held_out.score(*now)
        return {"score": score, "validation_score": held_out, "free_energy_gap": score - held_out}

    def propose(self):
        """Return (directions, slope, duality gap) for the next step."""
        now = self.mixture, self.data.values, self.samples.training, self.alpha, self.radius
        return self.proposer.propose(*now)

    def draws(self, mixture, n):
        """Return ``n`` draws from a machine of the path; growth itself goes on undisturbed."""
        model, rng = copy.deepcopy((self.model, self.proposer.rng))
        return model.draws(mixture, self.base, n, rng)

    def _tighten(self):
        """Raise the penalty, or where there is none lower the radius, after a refusal.

        The radius stays where a new unit takes its multiplicity from others: outside of a smaller
        ball, these would count as better than any that is left, and nothing would be inserted.
        Where the model is exact no noise refuses the best step on a line, and the penalty stays as
        it was given.
        """
        if self.model.is_exact and self.plan.step == "line_search":
            return
        self.alpha *= _TIGHTER
        is_full = self.mixture.counts.sum() >= self.plan.next_temperature(self.mixture) * (1 - 1e-6)
        if not self.alpha and not is_full:
            self.radius /= _TIGHTER

    def advance(self, directions):
        """Move along the best of some directions; returns (multiplicity, gain), or None.

        The step is taken in parts, each no longer than importance weights of the samples reach,
        which then follow to the new distribution. None if the step is refused: it promises too
        little on samples that the subproblem has not seen, or with steps 1/t the penalised
        log-likelihood falls.
        """
        before = self.mixture, self.log_z, self.samples, self.model.visible
        direction = max(self._lines(directions), key=lambda line: line.promise).direction
        # Estimate it anew on fresh samples: the largest of many promises is biased upwards.
        self.samples = self.model.sweep(self.mixture)
        (line,) = self._lines([direction])
        if not line.promise > self.plan.insert_tol and direction.kind == "inserted":
            return None
        done, noise = self._move(line)
        if done:
            self._refit(self.plan.n_bias_steps)
            self.samples = self.model.sweep(self.mixture, _PART_STEPS)
            if self.model.is_exact:
                self.log_z = self.model.anneal(self.mixture, self.base)
            gain = self._gain(direction, before[0], self.log_z - before[1])
        if not done or not gain > -2 * np.sqrt(noise):
            self.mixture, self.log_z, self.samples, self.model.visible = before
            return None
        return self._accept(direction), float(gain)

    def _factor(self, rows):
        return covariance_factor(rows, self.data.means * (1 - self.data.means))

    def _lines(self, directions):
        factor = self._factor(self.samples.training) if self.plan.n_bias_steps else None
        shared = self.alpha, self.data.means, self.samples, factor
        return [line_along(direction, *shared) for direction in directions]

    def _move(self, line):
        """Move along a line; returns the step and the variance of log Z."""
        direction, done, noise, whole = line.direction, 0.0, 0.0, None
        if direction.kind == "inserted" and self.plan.step == "1/t":
            whole = 1.0 if self.plan.total is None else 1.0 / (self.n_insertions + 1)
        for _ in range(_MAX_PARTS):
            step, is_end = line.part(done, whole, self.samples, self.model.min_ess)
            if step == 0 or not np.isfinite(step):
                break
            done += step
            bias = self.mixture.bias - step * line.shift
            self.mixture = Mixture(direction.base.units, direction.counts(done), bias)
            noise += self._follow(step * line.changes[1], self.samples.evaluation)
            if is_end:
                break
            self._refit(_PART_STEPS)
            self.samples = self.model.sweep(self.mixture, _PART_STEPS)
            (line,) = self._lines([direction])
        return done, noise

    def _follow(self, change, evaluation):
        """Take log Z and the samples to new log-weights; returns the variance of that log Z."""
        self.log_z += evaluation.log_mean_exp(change)
        self.model.resample(change)
        return float(np.var(np.exp(change - change.max()))) / evaluation.n

    def _refit(self, n_steps):
        """Match the means of the visible units, from fresh samples, by steps that become shorter.

        Only the training samples choose the step. The evaluation samples only update log Z and the
        resampling weights.
        """
        factor = None
        for k in range(n_steps if self.plan.n_bias_steps else 0):
            training, evaluation = self.model.sweep(self.mixture, 1)
            factor = factor or self._factor(training)
            rate, means = self.plan.learning_rate * (1 - k / n_steps), self.data.means
            step = rate * cho_solve(factor, means - training.average())
            change, ess = training.product(step), self.model.min_ess
            length, _ = best_step(means @ step, change, training, min_ess=ess)
            self._follow(length * evaluation.product(step), evaluation)
            self.mixture = self.mixture._replace(bias=self.mixture.bias + length * step)

    def _gain(self, direction, old, rise):
        """Return by how much the penalised mean log-likelihood of the data has risen."""
        worth = direction.values - self.mixture.penalties(self.alpha)
        hidden = self.mixture.counts @ worth - direction.base.counts @ worth
        return hidden + self.data.means @ (self.mixture.bias - old.bias) - rise

    def _accept(self, direction):
        """Keep a step, without units that count no more; returns the multiplicity of its unit."""
        units, counts, bias = self.mixture
        kept, is_new = counts > 0, direction.kind == "inserted"
        self.n_insertions += is_new
        self.data.values = direction.values[kept]
        if self.held_out is not None:
            self.held_out.follow(units[-1:] if is_new else (), kept)
        self.mixture = Mixture(tuple(compress(units, kept)), counts[kept], bias)
        return float("nan") if direction.unit is None else float(counts[direction.unit])
