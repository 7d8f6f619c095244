"""Growth of a machine unit by unit: Frank-Wolfe over distributions of hidden units.

Alg. 1 of Ping, Liu and Ihler (2016). A machine is a measure on atoms (:mod:`._mixture`):
log p(v) = sum_i c_i softplus(w_i'v) + b'v - log Z with multiplicities c, whose sum is the
temperature. Every step moves c along a line: it inserts a unit, shrinks one, or changes the
temperature.
"""

import copy
from dataclasses import dataclass
from itertools import compress
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import brentq, minimize

from ...arrays import log_odds
from ...inference import effective_part
from ._mixture import Mixture

_SOLVER = {"maxiter": 100, "gtol": 1e-4, "ftol": 1e-6}
_RESTARTS = 8  # random starts of each subproblem
_START_ROWS = 1000  # rows of the data from which half of the starts are made
_MIN_VARIANCE = 0.01  # of a visible unit, in random starts and in steps of the biases
_N_BEST = 3  # solutions that compete
_RUNGS, _RUNG = 6, 2.5  # number of larger penalties that are tried, and the factor between them
_RUNG_SOLVER = {"maxiter": 30, "gtol": 1e-3, "ftol": 1e-4}  # rough: the line search decides
_SMALLEST = 1e-9  # multiplicity below which a unit is removed
_MAX_PARTS, _PART_STEPS = 50, 2  # parts of a step, and updates of the biases between them
_ANNEAL_EVERY = 5  # steps: each new set of samples has another noise, which biases follow
_FARTHEST = 8.0  # log-odds of a visible unit that is always 0 or 1, where annealing begins
_BIAS_STEPS = 10  # updates of the visible biases after each insertion, each after a sweep
_NEWTON = 0.5  # fraction of a Newton step that the first of these takes; it falls linearly
_RIDGE = 0.2  # of the covariance of the visible units, as a fraction of the variances
_TIGHTER = 1.2  # factor of the penalty after a refusal, which noise alone may have caused
_STATE = ("alpha", "radius", "mixture", "log_z", "n_steps", "n_insertions")


@dataclass(frozen=True)
class Plan:
    """How a machine grows: parameters of :class:`~skrbm.FrankWolfeRBM`, which documents them."""

    alpha: float = 0.01
    radius: float | None = None
    step: str = "line_search"
    temperature: float | str = "n_components"
    away_steps: bool = False
    tol: float = 1e-3

    @property
    def total(self):
        """Bound of the sum of the multiplicities, or None."""
        return None if isinstance(self.temperature, str) else float(self.temperature)

    def next_temperature(self, mixture):
        """Return the bound of the sum of the multiplicities in the next step."""
        return float(mixture.counts.sum()) + 1.0 if self.total is None else self.total


class Subproblem:
    """The linear subproblem, Eq. (9) of Ping, Liu and Ihler (2016): which atom to insert.

    The objective, to be minimised, is minus phi(w) = mean_data softplus(w'v) -
    mean_model softplus(w'v) - alpha / 2 ||w||², the derivative of the penalised mean
    log-likelihood by the multiplicity of the atom w. All atoms are evaluated in one product.

    Parameters
    ----------
    data, model : WeightedRows
    alpha : float
        Penalty.
    radius : float or None
        Largest norm of an atom.
    """

    def __init__(self, data, model, alpha, radius=None):
        self.data, self.model, self.alpha, self.radius = data, model, alpha, radius

    def __call__(self, atoms):
        """Return the values and the gradients of the objective at atoms."""
        value, slope = self.model.softplus_moments(atoms)
        data_value, data_slope = self.data.softplus_moments(atoms)
        penalty = 0.5 * np.sum(self.alpha * atoms * atoms, axis=1)
        return value - data_value + penalty, slope - data_slope + self.alpha * atoms

    def solve(self, starts, **options):
        """Return the local minima that the starts lead to, and their values, the best first.

        In a ball, the objective of the projection is minimised. Outside of it the gradient does not
        see a descent inwards, so solutions on the sphere restart a little inside it.
        """
        if self.radius is None:
            atoms, values = _minimised(self, starts, options)
        else:
            atoms = self._projected(starts)[0]
            for _ in range(2):
                atoms, values = _minimised(self._in_ball, 0.999 * atoms, options)
                atoms = self._projected(atoms)[0]
        order = np.argsort(values)
        return atoms[order], values[order]

    def _projected(self, points):
        norms = np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-300)
        return points * np.minimum(1, self.radius / norms), norms

    def _in_ball(self, points):
        atoms, norms = self._projected(points)
        values, gradients = self(atoms)
        unit = points / norms
        radial = np.einsum("ij,ij->i", gradients, unit)[:, None] * unit
        outer = (gradients - radial) * self.radius / norms
        return values, np.where(norms > self.radius, outer, gradients)


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # infinite slopes end a search
def _minimised(function, starts, options):
    """Return where L-BFGS ends from each start, and the values there."""

    def of_one(atom):
        values, gradients = function(atom[None])
        return values[0], gradients[0]

    solver = {"jac": True, "method": "L-BFGS-B", "options": options}
    found = [minimize(of_one, start, **solver) for start in starts]
    atoms = np.array([each.x for each in found]).reshape(starts.shape)
    return atoms, np.array([each.fun for each in found])


class Direction(NamedTuple):
    """A line in the multiplicities of ``base``: counts + step * change for low <= step <= high.

    ``kind`` names it, ``values`` are the means of softplus(w'v) over the data for each atom, and
    ``unit`` is the one that is inserted or shrunk.
    """

    kind: str
    base: Mixture
    values: np.ndarray
    change: np.ndarray
    unit: int | None = None
    low: float = 0.0
    high: float = 1.0

    def log_weights(self, rows):
        """Return the change of log p(v) + log Z by a unit step, at rows."""
        moved = self.change != 0
        return rows.softplus(self.base.atoms[moved]) @ self.change[moved]

    def counts(self, step):
        """Return the multiplicities after a step, 0 for a removed unit."""
        counts = self.base.counts + step * self.change
        return np.where(counts > _SMALLEST, counts, 0.0)


class Line(NamedTuple):
    """Effects of a unit step along a direction."""

    direction: Direction
    slope: float  # change of the mean log-weight of the data, penalty included
    change: np.ndarray  # of the log-weights of the evaluation samples
    shift: np.ndarray  # subtracted from the biases
    promise: float  # largest gain of the penalised log-likelihood, to second order


def best_step(slope, change, rows, *, low=0.0, high=1.0, min_ess=0.0):
    """Return the step in [low, high] that maximises the penalised mean log-likelihood.

    Along a line it changes by step * slope - log E_model[exp(step * change)], which is concave.
    The expectation is over rows that represent the model: exact if they are all configurations
    with their probabilities, otherwise by importance weights.

    Parameters
    ----------
    slope : float
    change : ndarray of shape (n_rows,)
    rows : WeightedRows
    low, high : float
        ``low <= 0 <= high``.
    min_ess : float in [0, 1)
        Smallest effective fraction of the rows, all of one probability, under the importance
        weights; bounds the step.

    Returns
    -------
    step : float
    is_cut : bool
        Whether the step would be longer without ``min_ess``.
    """

    def derivative(step):
        p = np.exp(step * change - (step * change).max())
        return slope - rows.mean(p * change) / rows.mean(p)

    def excess(step):
        return effective_part(step * change) - min_ess

    ends = low, high
    if min_ess and excess(low) < 0:
        low = brentq(excess, 0, low, xtol=1e-6 * abs(low))
    if min_ess and excess(high) < 0:
        high = brentq(excess, 0, high, xtol=1e-6 * high)
    if derivative(high) >= 0:
        return float(high), high < ends[1]
    if derivative(low) <= 0:
        return float(low), low > ends[0]
    return float(brentq(derivative, low, high, xtol=1e-12, rtol=1e-10)), False


class Growth:
    """A growing machine: the loop of Alg. 1, step by step, after :meth:`begin`.

    Parameters
    ----------
    plan : Plan
    data : Data
    model : SampledModel or ExactModel
    mixture : Mixture
        Machine to begin with.
    rng : numpy.random.Generator
        Of the random starts.
    held_out : Data, default=None
        Validation rows, whose log-likelihood is followed too.
    """

    def __init__(self, plan, data, model, mixture, rng, held_out=None):
        self.plan, self.model, self.mixture, self.rng = plan, model, mixture, rng
        self.alpha, self.radius = plan.alpha, plan.radius
        self.data, self.held_out = data, held_out
        for rows in (data, held_out):
            if rows is not None:
                rows.begin(mixture.atoms)
        self.base = log_odds(data.means, _FARTHEST)  # biases of independent units
        self.start_rows = None if data.rows is None else data.some(_START_ROWS, rng)
        self.n_steps, self.n_insertions = 0, len(mixture.units)
        self.log_z = self.samples = None

    def get_state(self):
        """Return the state that steps change, a dict."""
        state = {name: getattr(self, name) for name in _STATE}
        return state | {
            "values": [rows and rows.values for rows in (self.data, self.held_out)],
            "rng": self.rng,
            "model": self.model.get_state(),
        }

    def set_state(self, state):
        """Restore the state of a growth on the same data."""
        for name in _STATE:
            setattr(self, name, state[name])
        vars(self.model).update(state["model"])
        self.rng, self.samples = state["rng"], self.model.samples(self.mixture)
        for rows, values in zip((self.data, self.held_out), state["values"], strict=True):
            if rows is not None:
                rows.values = values

    def begin(self):
        """Draw samples of the first machine, and match its visible means to those of the data."""
        self.log_z = self.model.anneal(self.mixture, self.base)
        self._complete()
        self._refit(_BIAS_STEPS)
        self.samples = self.model.sweep(self.mixture)

    def _complete(self):
        """Draw missing values from the present machine.

        With completed rows each step raises a lower bound of the likelihood of the observed values,
        which has its value and its slope before the step (expectation-maximisation).
        """
        if self.data.complete(self.model, self.mixture):
            self.start_rows = self.data.some(_START_ROWS, self.rng)

    def draws(self, mixture):
        """Return draws from a machine of the path, without changing the growth."""
        model, rng = copy.deepcopy((self.model, self.rng))
        return model.draws(mixture, self.base, rng)

    def epoch(self, training, progress, rate):
        """Take one step, as an epoch of a :class:`~skrbm.learning.Training`."""
        row = self.step()
        training.machine, training.phase_state = self.mixture, row
        return row

    def step(self):
        """Insert a unit, or shrink one; returns a row of the path.

        Its ``reason`` is "inserted", "shrunk", "removed", "refused", or "no unit".
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
        """Take the best of some steps; returns the reason, the unit's multiplicity, the gain."""
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
        """Return the estimated mean log-likelihoods of the data and of the validation rows."""
        now, held_out = (self.model, self.mixture, self.log_z), float("nan")
        score = self.data.score(*now)
        if self.held_out is not None:
            held_out = self.held_out.score(*now)
        return {"score": score, "validation_score": held_out, "free_energy_gap": score - held_out}

    def _tighten(self):
        """Raise the penalty after a refusal, or lower the radius if there is no penalty.

        The radius stays where a new unit takes its multiplicity from others: outside of a smaller
        ball, these would count as better than any inside it, and nothing would be inserted. Where
        the model is exact no noise refuses the best step on a line, and the penalty stays too.
        """
        if self.model.is_exact:
            return
        self.alpha *= _TIGHTER
        is_full = self.mixture.counts.sum() >= self.plan.next_temperature(self.mixture) * (1 - 1e-6)
        if not self.alpha and not is_full:
            self.radius /= _TIGHTER

    # ------------------------------------------------------------------ candidate steps

    def propose(self):
        """Return (directions, slope, duality gap); without directions no unit is worth inserting.

        ``slope`` is phi of the best atom found. The duality gap is the temperature times
        (phi(w) - E_q phi), where q is the distribution of the units, with the rest of its mass at
        the atom 0, which changes nothing. It is that of the problem with the current penalty, and
        NaN if the ball has shrunk, which leaves units outside.
        """
        rows, mixture, model = self.data.rows, self.mixture, self.samples.training
        if rows.n == 1 or self.data.means.size == 1:
            # Each softplus(w'v) is convex. So its mean under a distribution with the column means
            # of one row, or of one column, is at least its mean over the data.
            return [], 0.0, 0.0
        atoms, found = self._subproblem(self.alpha, self.radius).solve(self._starts(), **_SOLVER)
        slope = -float(found[0])
        slopes = self.data.values - model.softplus_means(mixture.atoms)
        slopes -= mixture.penalties(self.alpha)
        inside, total = float(mixture.counts @ slopes), self.plan.next_temperature(mixture)
        gap = total * max(slope, 0.0) - inside if self.radius == self.plan.radius else float("nan")
        directions = []
        if self.plan.away_steps and mixture.counts.size:
            directions = self._away(slopes, slope, gap)
        if not directions and slope > self.plan.tol:
            atoms = self._ladder(atoms, found) if self.plan.step == "line_search" else atoms[:1]
            directions = [self._insertion(atom) for atom in atoms]
        return directions, slope, gap

    def _subproblem(self, alpha, radius):
        return Subproblem(self.data.rows, self.samples.training, alpha, radius)

    def _starts(self):
        """Return starts: random directions, and planes between rows of data and their mean."""
        n, mean = _RESTARTS, self.data.means
        spread = np.sqrt(np.maximum(mean * (1 - mean), _MIN_VARIANCE).sum())
        starts = self.rng.standard_normal((n, mean.size)) * (2 / spread)
        bias = -starts @ mean + self.rng.standard_normal(n)
        rows = self.start_rows[self.rng.integers(len(self.start_rows), size=n // 2)]
        away = rows - mean
        squares = np.maximum(np.einsum("ij,ij->i", away, away), _MIN_VARIANCE)
        starts[: n // 2] = 4 * away / squares[:, None]
        bias[: n // 2] = -np.einsum("ij,ij->i", starts[: n // 2], rows + mean) / 2
        return np.column_stack([starts, bias])

    def _ladder(self, atoms, found):
        """Return the best atoms, and the solutions that they lead to under larger penalties.

        The linear subproblem ignores the length of the step. With a small penalty its solution is a
        huge atom, of which the line search takes next to nothing. Smaller atoms have smaller
        slopes, but longer steps.
        """
        alpha, radius = self.alpha, self.radius
        best = atoms[:_N_BEST][found[:_N_BEST] < -self.plan.tol]
        rungs = [best]
        for _ in range(_RUNGS):
            alpha *= _RUNG
            radius = None if radius is None else radius / np.sqrt(_RUNG)
            best, found = self._subproblem(alpha, radius).solve(best, **_RUNG_SOLVER)
            best = best[found < -0.5 * self.plan.tol]
            if not len(best):
                break
            rungs.append(best)
        return np.vstack(rungs)

    def _insertion(self, atom):
        units, counts, bias = self.mixture
        base = Mixture((*units, atom.copy()), np.append(counts, 0.0), bias)
        values = np.append(self.data.values, self.data.rows.softplus_means(atom[None]))
        change, total = np.append(np.zeros(counts.size), 1.0), self.plan.total
        if total is not None:  # the new unit takes its multiplicity from the others
            change = np.append(-counts, total)
        return Direction("inserted", base, values, change, unit=-1)

    def _away(self, slopes, slope, gap):
        """Return [the direction away from the worst unit] if that is steeper than inserting."""
        counts, total = self.mixture.counts, self.plan.total
        k = int(np.argmin(slopes))
        rise, change, high = -slopes[k], -np.eye(counts.size)[k], counts[k]
        if total is not None:
            if counts[k] >= total:
                return []
            rise, slope = counts @ slopes - total * slopes[k], gap
            change, high = counts + total * change, counts[k] / (total - counts[k])
        if not rise > max(slope, self.plan.tol):
            return []
        return [Direction("shrunk", self.mixture, self.data.values, change, k, high=high)]

    # ----------------------------------------------------------------------- the step

    def advance(self, directions):
        """Move along the best of some directions; returns (multiplicity, gain), or None.

        The step is taken in parts, each no longer than importance weights of the samples reach,
        which then follow to the new distribution. None if the step is refused: it promises too
        little on new samples, or the penalised log-likelihood falls. Steps 1/t are never refused.
        """
        before = self.mixture, self.log_z, self.samples, self.model.visible
        direction = max(self._lines(directions), key=lambda line: line.promise).direction
        # Estimate it on new samples: the largest of many promises is biased upwards.
        self.samples = self.model.sweep(self.mixture)
        (line,) = self._lines([direction])
        is_whole = self.plan.step == "1/t"
        if not (is_whole or line.promise > self.plan.tol) and direction.kind == "inserted":
            return None
        done, noise = self._move(line)
        if done:
            self._refit(_BIAS_STEPS)
            self.samples = self.model.sweep(self.mixture, _PART_STEPS)
            if self.model.is_exact:
                self.log_z = self.model.anneal(self.mixture, self.base)
            gain = self._gain(direction, before[0], self.log_z - before[1])
        if not done or not (is_whole or gain > -2 * np.sqrt(noise)):
            self.mixture, self.log_z, self.samples, self.model.visible = before
            return None
        return self._accept(direction), float(gain)

    def _factor(self, rows):
        """Return a Cholesky factor of the covariances of rows with a ridge, for Newton steps.

        The ridge, a fraction of the variances of the rows or the data, keeps steps of the biases
        short where samples are few or columns nearly constant.
        """
        covariance, variance = rows.covariance(), self.data.means * (1 - self.data.means)
        variance = np.maximum(np.maximum(np.diagonal(covariance), variance), _MIN_VARIANCE)
        covariance[np.diag_indices_from(covariance)] += _RIDGE * variance
        return cho_factor(covariance, overwrite_a=True)

    def _lines(self, directions):
        """Return a :class:`Line` for each direction.

        Each step also shifts the biases so that the visible means stay constant to first order.
        Otherwise the later refit of the biases would undo much of the gain, and the line search
        would make the step too short.
        """
        (training, evaluation), lines = self.samples, []
        factor = self._factor(training)
        for direction in directions:
            worth = direction.values - direction.base.penalties(self.alpha)
            slope, change = float(direction.change @ worth), direction.log_weights(training)
            shift = cho_solve(factor, training.average(change - training.mean(change)))
            slope -= float(shift @ self.data.means)
            change = direction.log_weights(evaluation) - evaluation.product(shift)
            mean = float(evaluation.mean(change))
            variance = max(float(evaluation.mean((change - mean) ** 2)), 1e-300)
            rise = slope - mean
            step = np.clip(rise / variance, direction.low, direction.high)
            promise = step * rise - 0.5 * step * step * variance
            lines.append(Line(direction, slope, change, shift, promise))
        return lines

    def _move(self, line):
        """Move along a line; returns the step and the variance of log Z."""
        direction, done, noise = line.direction, 0.0, 0.0
        high, is_whole = direction.high, direction.kind == "inserted" and self.plan.step == "1/t"
        if is_whole:
            high = 1.0 if self.plan.total is None else 1.0 / (self.n_insertions + 1)
        for _ in range(_MAX_PARTS):
            slope = np.inf if is_whole else line.slope  # a whole step ignores the likelihood
            bounds = {"low": min(direction.low - done, 0.0), "high": high - done}
            rows, min_ess = self.samples.evaluation, self.model.min_ess
            step, is_cut = best_step(slope, line.change, rows, **bounds, min_ess=min_ess)
            if step == 0 or not np.isfinite(step):
                break
            done += step
            bias = self.mixture.bias - step * line.shift
            self.mixture = Mixture(direction.base.units, direction.counts(done), bias)
            noise += self._follow(step * line.change, rows)
            if not is_cut:
                break
            self._refit(_PART_STEPS)
            self.samples = self.model.sweep(self.mixture, _PART_STEPS)
            (line,) = self._lines([direction])
        return done, noise

    def _follow(self, change, evaluation):
        """Move log Z and the samples to new log-weights; returns the variance of that log Z."""
        self.log_z += evaluation.log_mean_exp(change)
        self.model.resample(change)
        return float(np.var(np.exp(change - change.max()))) / evaluation.n

    def _refit(self, n_steps):
        """Match the means of the visible units, by ever shorter steps on new samples.

        Only the training samples choose the step. The evaluation samples only update log Z and the
        resampling weights.
        """
        factor, means = None, self.data.means
        for k in range(n_steps):
            training, evaluation = self.model.sweep(self.mixture, 1)
            factor = factor or self._factor(training)
            rate = _NEWTON * (1 - k / n_steps)
            step = rate * cho_solve(factor, means - training.average())
            change, ess = training.product(step), self.model.min_ess
            length, _ = best_step(means @ step, change, training, min_ess=ess)
            self._follow(length * evaluation.product(step), evaluation)
            self.mixture = self.mixture._replace(bias=self.mixture.bias + length * step)

    def _gain(self, direction, old, rise):
        """Return the rise of the penalised mean log-likelihood of the data."""
        worth = direction.values - self.mixture.penalties(self.alpha)
        hidden = self.mixture.counts @ worth - direction.base.counts @ worth
        return hidden + self.data.means @ (self.mixture.bias - old.bias) - rise

    def _accept(self, direction):
        """Keep a step, without units of multiplicity 0; returns the multiplicity of its unit."""
        units, counts, bias = self.mixture
        kept, is_new = counts > 0, direction.kind == "inserted"
        self.n_insertions += is_new
        self.data.values = direction.values[kept]
        if self.held_out is not None:
            self.held_out.update(units[-1:] if is_new else (), kept)
        self.mixture = Mixture(tuple(compress(units, kept)), counts[kept], bias)
        return float("nan") if direction.unit is None else float(counts[direction.unit])
