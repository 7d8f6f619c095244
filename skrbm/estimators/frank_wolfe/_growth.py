"""Growth of a machine unit by unit: Frank-Wolfe over distributions of hidden units.

Alg. 1 of Ping, Liu and Ihler (2016). A machine is a measure on atoms (:mod:`._mixture`): log p(v) =
sum_i c_i softplus(w_i'v) + b'v - log Z with multiplicities c, whose sum is the temperature. A step
either inserts the best unit and then trains all units together, or it moves c along a line, which
inserts a unit, shrinks one, or changes the temperature, and then refits the visible biases.
"""

from itertools import compress
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import brentq, minimize
from scipy.special import logsumexp

from ...arrays import log_odds
from ...inference import Gibbs, effective_part
from ...learning import NATURAL, SGD, ChainPhase, MomentLearner, Monitor, Training
from ._mixture import Mixture, machine_of, mixture_of

_SOLVER = {"maxiter": 100, "gtol": 1e-4, "ftol": 1e-6}
_RESTARTS = 8  # random starts of each subproblem
_MIN_VARIANCE = 0.01  # of a visible unit, for random starts and for steps of the biases
_SMALLEST = 1e-9  # multiplicity below which a unit is removed
_MAX_PARTS, _PART_STEPS = 50, 2  # most parts of a step, and updates of the biases in between
_ANNEAL_EVERY = 5  # steps: each new set of samples has new noise, which the biases follow
_FARTHEST = 8.0  # log-odds, at the start of annealing, of a visible unit that is constant
_BIAS_STEPS = 10  # updates of the visible biases after an insertion, with a sweep before each
_NEWTON = 0.5  # fraction of a Newton step in the first of these updates; it falls linearly
_RIDGE = 0.2  # of the covariance of the visible units, as a fraction of the variances
_EPOCHS, _UPDATES, _BATCH = 3, 200, 100  # fewest after an insertion; rows of a batch
_PHASE = ChainPhase(Gibbs(10), "data")  # of these epochs: CD-10, as in Sec. 4 of the paper
_OPTIMIZER = SGD(schedule="linear")
_STATE = ("mixture", "log_z", "n_steps", "n_insertions", "rng")

STOPS = {
    "max_components": "max_components units",
    "no unit": "no unit found gains more than tol",
    "refused": "patience steps in a row did not raise the likelihood",
    "duality gap": "the duality gap fell below tol",
    "validation": "the validation score has not improved for patience steps",
    "max_steps": "the number of steps has reached its limit",
    "callback": "a callback stopped it",
}


class Subproblem(NamedTuple):
    """The linear subproblem, Eq. (9) of Ping, Liu and Ihler (2016): which atom to insert.

    The objective, to be minimized, is minus phi(w) = mean_data softplus(w'v) - mean_model
    softplus(w'v) - alpha / 2 ||w||². phi is the derivative of the penalized mean log-likelihood
    with respect to the multiplicity of the atom w.
    """

    data: object
    model: object
    alpha: float

    def __call__(self, atoms):
        value, slope = self.model.softplus_moments(atoms)
        data_value, data_slope = self.data.softplus_moments(atoms)
        penalty = 0.5 * np.sum(self.alpha * atoms * atoms, axis=1)
        return value - data_value + penalty, slope - data_slope + self.alpha * atoms

    @np.errstate(over="ignore", divide="ignore", invalid="ignore")  # infinite slopes end a search
    def solve(self, starts, **options):
        """Return the best of the minima to which L-BFGS leads from the starts, and its value."""

        def of_one(atom):
            values, gradients = self(atom[None])
            return values[0], gradients[0]

        solver = {"jac": True, "method": "L-BFGS-B", "options": options}
        found = [minimize(of_one, start, **solver) for start in starts]
        best = min(found, key=lambda each: each.fun)
        return best.x, float(best.fun)


class Line(NamedTuple):
    """A line in the multiplicities of ``base``: counts + step * change for low <= step <= high."""

    kind: str
    base: Mixture
    change: np.ndarray
    unit: int | None = None  # the one that is inserted or shrunk
    low: float = 0.0
    high: float = 1.0

    def log_weights(self, rows):
        """Return the change of log p(v) + log Z of rows in a unit step."""
        moved = self.change != 0
        return rows.softplus(self.base.atoms[moved]) @ self.change[moved]

    def at(self, step, bias):
        """Return the mixture after a step, with a multiplicity of 0 for a removed unit."""
        counts = self.base.counts + step * self.change
        return self.base._replace(counts=np.where(counts > _SMALLEST, counts, 0.0), bias=bias)


def best_step(slope, change, rows, *, low=0.0, high=1.0, min_ess=0.0):
    """Return the step in [low, high] that maximizes the log-likelihood, and whether it is cut.

    Along a line the log-likelihood changes by step * slope - log E_model[exp(step * change)], which
    is concave. A step is cut where the effective fraction of importance weights falls below
    ``min_ess``.
    """

    possible = rows.weights > 0  # exact probabilities can underflow where the change is largest
    known, weights = change[possible], rows.weights[possible]

    def derivative(step):
        p = weights * np.exp(step * known - (step * known).max())
        return slope - (p @ known) / p.sum()

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
    """A growing machine: the learner of a :class:`~skrbm.learning.Trainer`, by steps of Alg. 1.

    ``data`` and ``held_out`` are :class:`Data`, ``rows`` are the Rows on which all units are
    trained, and ``model`` is a SampledModel or an ExactModel.
    """

    def __init__(
        self,
        data,
        model,
        mixture,
        rng,
        held_out=None,
        rows=None,
        *,
        alpha=0.01,
        step="line_search",
        temperature="n_components",
        away_steps=False,
        tol=1e-3,
    ):
        self.data, self.model, self.mixture, self.rng = data, model, mixture, rng
        self.held_out, self.rows, self.alpha, self.step_rule = held_out, rows, alpha, step
        self.temperature, self.away_steps, self.tol = temperature, away_steps, tol
        self.total = None if isinstance(temperature, str) else float(temperature)
        self.base = log_odds(data.means, _FARTHEST)  # biases of independent units
        self.n_steps, self.n_insertions = 0, len(mixture.counts)
        self.log_z = self.samples = None

    def get_state(self):
        own = {name: getattr(self, name) for name in _STATE}
        return own | {"visible": self.model.visible, "model_rng": self.model.rng}

    def set_state(self, state):
        for name in _STATE:
            setattr(self, name, state[name])
        self.model.visible, self.model.rng = state["visible"], state["model_rng"]
        self.samples = self.model.samples(self.mixture)

    def begin(self):
        """Draw samples from the first machine, and match its visible means to those of the data."""
        self.log_z = self.model.anneal(self.mixture, self.base)
        self.data.complete(self.model, self.mixture)
        self._refit(_BIAS_STEPS)
        self.samples = self.model.sweep(self.mixture)

    def scores(self):
        now, held_out = (self.model, self.mixture, self.log_z), float("nan")
        score = self.data.score(*now)
        if self.held_out is not None:
            held_out = self.held_out.score(*now)
        return {"score": score, "validation_score": held_out, "free_energy_gap": score - held_out}

    def epoch(self, training, progress, rate):
        row = self.step()
        training.machine, training.phase_state = self.mixture, row
        return row

    def step(self):
        """Insert a unit, or shrink one; returns a row of the path."""
        if self.n_steps and self.n_steps % _ANNEAL_EVERY == 0 and self.step_rule != "joint":
            self.log_z = self.model.anneal(self.mixture, self.base)
            self.samples = self.model.sweep(self.mixture)
        self.data.complete(self.model, self.mixture)
        self.n_steps += 1
        line, slope, gap = self.propose()
        row, n_units = {"reason": "no unit", "multiplicity": float("nan")}, len(self.mixture.counts)
        if line is not None:
            row["reason"] = line.kind
            if self.step_rule == "joint":
                row["multiplicity"] = 1.0
                self._insert(line)
            elif self.search(line):
                if line.unit is not None:
                    row["multiplicity"] = float(self.mixture.counts[line.unit])
                units, counts, bias = self.mixture
                kept = tuple(compress(units, counts > 0))
                self.mixture = Mixture(kept, counts[counts > 0], bias)
                if len(self.mixture.counts) < n_units:
                    row["reason"] = "removed"
                if self.temperature == "learn" and self.mixture.counts.size:
                    counts = self.mixture.counts
                    self.search(Line("temperature", self.mixture, counts, low=-0.5))
            else:
                row["reason"] = "refused"
        return row | {
            "n_components": len(self.mixture.counts),
            "temperature": float(self.mixture.counts.sum()),
            "slope": slope,
            "duality_gap": float(gap),
            **self.scores(),
        }

    # -------------------------------------------------------------------- candidate steps

    def propose(self):
        """Return (line or None, slope, duality gap).

        ``slope`` is phi of the best atom w that was found. The duality gap is the temperature times
        (phi(w) - E_q phi), where q is the distribution of the units; without units E_q phi is 0.
        """
        (units, counts, bias), rows, samples = self.mixture, self.data.rows, self.samples[0]
        if rows.n == 1 or bias.size == 1:
            # No unit helps: softplus(w'v) is convex, so if the data are one row or one column, its
            # mean under any distribution with their column means is at least its mean over them.
            return None, 0.0, 0.0
        atom, found = Subproblem(rows, samples, self.alpha).solve(self._starts(), **_SOLVER)
        slope, total = -found, self.total
        atoms = self.mixture.atoms
        slopes = rows.softplus_means(atoms) - samples.softplus_means(atoms)
        slopes -= self.mixture.penalties(self.alpha)
        inside = float(counts @ slopes)
        gap = (counts.sum() + 1.0 if total is None else total) * max(slope, 0.0) - inside
        if self.away_steps and counts.size:
            k = int(np.argmin(slopes))
            rise, above, change, high = -slopes[k], slope, -np.eye(counts.size)[k], counts[k]
            if total is not None and counts[k] < total:
                rise, above = inside - total * slopes[k], gap
                change, high = counts + total * change, counts[k] / (total - counts[k])
            if rise > max(above, self.tol) and (total is None or counts[k] < total):
                return Line("shrunk", self.mixture, change, k, high=high), slope, gap
        if slope <= self.tol:
            return None, slope, gap
        base = Mixture((*units, atom), np.append(counts, 0.0), bias)
        change = np.append(np.zeros(counts.size), 1.0)
        if total is not None:  # the new unit takes its multiplicity from the others
            change = np.append(-counts, total)
        return Line("inserted", base, change, unit=-1), slope, gap

    def _starts(self):
        n, mean = _RESTARTS, self.data.means
        spread = np.sqrt(np.maximum(mean * (1 - mean), _MIN_VARIANCE).sum())
        starts = self.rng.standard_normal((n, mean.size)) * (2 / spread)
        bias = -starts @ mean + self.rng.standard_normal(n)
        rows = self.data.rows.some(n // 2, self.rng)
        away = rows - mean
        squares = np.maximum(np.einsum("ij,ij->i", away, away), _MIN_VARIANCE)
        starts[: len(rows)] = 4 * away / squares[:, None]
        bias[: len(rows)] = -np.einsum("ij,ij->i", starts[: len(rows)], rows + mean) / 2
        return np.column_stack([starts, bias])

    # ----------------------------------------------------------------- all units together

    def _insert(self, line):
        """Insert a whole unit, and train all units for some epochs of contrastive divergence."""
        machine = machine_of(self._scaled(line), self.model.visible)
        rng, rows = self.model.rng, self.rows
        state = _PHASE.init(machine, rng, _BATCH, rows.some(_BATCH, rng)[0])
        training = Training(rng, machine.copy(), state, _OPTIMIZER.init(NATURAL.of(machine)))
        length = _PHASE.step_length(machine).of_known(rows.known_share)
        options = {"index": np.arange(len(rows)), "batch_size": _BATCH, "length": length}
        learner = MomentLearner(rows, _PHASE, _OPTIMIZER, **options)
        n_epochs = max(_EPOCHS, -(-_UPDATES // -(-rows.total // _BATCH)))
        for epoch in range(n_epochs):
            learner.epoch(training, epoch / n_epochs, 1 - epoch / n_epochs)
        self.mixture = mixture_of(training.published())
        self.log_z = self.model.anneal(self.mixture, self.base)
        self.samples = self.model.samples(self.mixture)

    def _scaled(self, line):
        """Return the mixture with a whole unit, scaled by its best multiplicity (Eq. 12).

        The smaller alpha is, the larger are the weights of the unit with the steepest derivative.
        As a whole unit, it would give most of the probability to modes that are far from the data,
        which contrastive divergence does not see.
        """
        samples, penalties = self.samples[0], line.base.penalties(self.alpha)
        worth = self.data.rows.softplus_means(line.base.atoms) - penalties
        options = {"low": line.low, "high": line.high, "min_ess": self.model.min_ess}
        step, _ = best_step(line.change @ worth, line.log_weights(samples), samples, **options)
        *units, atom = line.base.units
        counts = np.append(line.base.counts[:-1], 1.0)
        return Mixture((*units, (step if step > 0 else 1.0) * atom), counts, self.mixture.bias)

    # ------------------------------------------------------------------------ along a line

    def search(self, line):
        """Move along a line, by steps that importance weights allow; return whether it moved."""
        is_whole, high, done = self.step_rule == "1/t" and line.kind == "inserted", line.high, 0.0
        if is_whole:
            high = 1.0 if self.total is None else 1.0 / (self.n_insertions + 1)
        min_ess = self.model.min_ess
        self.samples = self.model.sweep(self.mixture)  # new ones, since the old ones chose the line
        for part in range(_MAX_PARTS):
            if is_whole and part == _MAX_PARTS - 1:
                min_ess = 0.0  # the rest at once
            slope, change, shift = self._effects(line)
            bounds = {"low": min(line.low - done, 0.0), "high": high - done}
            slope, rows = np.inf if is_whole else slope, self.samples[1]
            step, is_cut = best_step(slope, change, rows, **bounds, min_ess=min_ess)
            if step == 0 or not np.isfinite(step):
                break
            done += step
            self.mixture = line.at(done, self.mixture.bias - step * shift)
            self._follow(step * change, rows)
            if not is_cut:
                break
            self._refit(_PART_STEPS)
            self.samples = self.model.sweep(self.mixture, _PART_STEPS)
        if not done:
            return False
        self.n_insertions += line.kind == "inserted"
        self._refit(_BIAS_STEPS)
        self.samples = self.model.sweep(self.mixture, _PART_STEPS)
        if self.model.is_exact:
            self.log_z = self.model.anneal(self.mixture, self.base)
        return True

    def _effects(self, line):
        """Return the effects of a unit step along a line.

        These are the change of the mean log-weight of the data, including the penalty; that of the
        log-weights of the evaluation samples; and what is subtracted from the biases so that the
        visible means stay constant to first order.
        """
        training, evaluation = self.samples
        atoms, change = line.base.atoms, line.log_weights(training)
        factor = self._factor(training)
        shift = cho_solve(factor, training.average(change - training.mean(change)))
        worth = self.data.rows.softplus_means(atoms) - line.base.penalties(self.alpha)
        slope = float(line.change @ worth) - float(shift @ self.data.means)
        return slope, line.log_weights(evaluation) - evaluation.product(shift), shift

    def _factor(self, rows):
        """Return a Cholesky factor of the covariance of rows plus a ridge, for Newton steps."""
        covariance, variance = rows.covariance(), self.data.means * (1 - self.data.means)
        variance = np.maximum(np.maximum(np.diagonal(covariance), variance), _MIN_VARIANCE)
        covariance[np.diag_indices_from(covariance)] += _RIDGE * variance
        return cho_factor(covariance, overwrite_a=True)

    def _follow(self, change, evaluation):
        """Update log Z and the samples after a change of log-weights."""
        self.log_z += float(logsumexp(change, b=evaluation.weights))
        self.model.resample(change)

    def _refit(self, n_steps):
        """Match the visible means by ever shorter steps, each on new samples (Eq. 10)."""
        factor, means = None, self.data.means
        for k in range(n_steps):
            training, evaluation = self.model.sweep(self.mixture, 1)
            factor = factor or self._factor(training)
            step = _NEWTON * (1 - k / n_steps) * cho_solve(factor, means - training.average())
            change, ess = training.product(step), self.model.min_ess
            length, _ = best_step(means @ step, change, training, min_ess=ess)
            self._follow(length * evaluation.product(step), evaluation)
            self.mixture = self.mixture._replace(bias=self.mixture.bias + length * step)


class GrowthMonitor(Monitor):
    """Decides when growth stops, and which machine is kept.

    ``criterion`` is True for the validation score, "free_energy_gap", or False to keep every
    machine.
    """

    def __init__(self, criterion, growth, max_units, patience, margin):
        super().__init__(patience)
        self.criterion, self.max_units, self.margin = criterion, max_units, margin
        self.gap_tol = -np.inf if growth.total is None else growth.tol
        self.n_steps = self.n_refused = 0
        self.best, self.kept = self._value(growth.scores()), (growth.mixture, None)
        self.reason = self.limit(len(growth.mixture.units))

    def get_state(self):
        return super().get_state() | {"n_steps": self.n_steps, "n_refused": self.n_refused}

    def _value(self, row):
        if not self.criterion:
            return float("inf")  # each machine is as good as the previous ones
        by_gap = self.criterion == "free_energy_gap"
        return -row["free_energy_gap"] if by_gap else row["validation_score"]

    def limit(self, n_units):
        if n_units >= self.max_units:
            return "max_components"
        return "max_steps" if self.n_steps >= 4 * self.max_units + 100 else None

    def measure(self, machine, state):
        self.row, self.n_steps = state, self.n_steps + 1
        is_refused = state["reason"] == "refused"
        self.n_refused = self.n_refused + 1 if is_refused else 0
        self.value = None if is_refused else self._value(state)
        return {}

    def stop(self):
        ends = {
            "no unit": self.row["reason"] == "no unit",
            "duality gap": self.row["duality_gap"] <= self.gap_tol,
            "refused": self.n_refused >= self.patience,
            "validation": super().stop(),
        }
        reached = [reason for reason, holds in ends.items() if holds]
        self.reason = reached[0] if reached else self.limit(self.row["n_components"])
        return self.reason is not None

    def chosen(self, last, ended):
        """Return the last machine that was better than all before it, however growth ends."""
        return self.kept
