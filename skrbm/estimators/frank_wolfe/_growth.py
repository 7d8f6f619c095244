"""Machines that grow unit by unit: Frank-Wolfe over distributions of hidden units.

Alg. 1 of Ping, Liu and Ihler (2016). A machine is a measure on atoms (:mod:`._subproblem`):
log p(v) = sum_i c_i softplus(w_i'v) + b'v - log Z with multiplicities c, of which the sum is the
temperature. Every step moves c along a line, c + step * (scale * c + weight * e_k), where atom k
is new or old: inserting a unit, shrinking one, changing the temperature.
"""

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...arrays import log_odds
from ._mixture import Direction, Metric, Mixture
from ._subproblem import Subproblem, best_step, log_mean_exp

_MOST_PARTS, _PART_STEPS = 50, 2
_LEAST_VARIANCE = 0.01  # of a visible unit, in random starts
_ANNEAL_EVERY = 5  # steps: each new set of samples has another noise, which biases follow
_FARTHEST = 8.0  # log-odds of a unit that is always 0 or 1, where annealing begins
_SOLVER = {"max_iter": 100, "tol": 1e-4, "ftol": 1e-6}
_TIGHTER = 1.2  # factor of the penalty after a refusal, which noise alone may have caused
COLUMNS = (  # of a path: what a step tells
    *("n_components", "reason", "alpha", "radius", "temperature", "slope", "duality_gap"),
    *("multiplicity", "gain", "score", "validation_score", "free_energy_gap", "time"),
)
_RUNGS, _RUNG = 6, 2.5  # penalties that are tried, each times the last one
_RUNG_SOLVER = {"max_iter": 30, "tol": 1e-3, "ftol": 1e-4}  # rough: samples judge what it finds


class _Line(NamedTuple):
    """A direction, and what a step along it does."""

    direction: Direction
    changes: Any  # of log p*(v) by a unit step, at both sets of samples
    slope: float  # of the mean log-weight of the data by a step, penalty included
    value: Any  # mean softplus of a new atom over the data
    shift: Any  # of the biases against a unit step
    promise: float  # rise of the likelihood, if that were a parabola


def _promise(direction, slope, change, rows):
    """Return the rise of the penalised log-likelihood by the best step on a parabola."""
    mean = float(rows.mean(change))
    variance = max(float(rows.mean((change - mean) ** 2)), 1e-300)
    rise = slope - mean
    step = np.clip(rise / variance, direction.low, direction.high)
    return step * rise - 0.5 * step * step * variance


@dataclass(frozen=True)
class Plan:
    """How a machine grows: the hyper-parameters of :class:`Growth`.

    ``temperature`` is None where the number of units sets it, or the sum of the multiplicities.
    """

    radius: float | None = None
    line_search: bool = True
    temperature: float | None = None
    learns_temperature: bool = False
    away_steps: bool = False
    n_restarts: int = 8
    n_best: int = 3
    n_bias_steps: int = 10
    learning_rate: float = 0.5
    tol: float = 1e-3


class Growth:
    """A machine that grows: the loop of Alg. 1, a step at a time.

    Parameters
    ----------
    plan : Plan
    alpha : float
        Penalty alpha / 2 sum_i c_i ||w_i||²; raised where insertions are refused.
    data : Rows
    model : SampledModel or ExactModel
    mixture : Mixture
        Where to begin.
    rng : numpy.random.Generator
        Of the random starts.
    starts : ndarray of shape (n, n_visible)
        Rows of data from which half of the starts are made.
    pool : sequence of ndarray
        Atoms of machines before, which snapshots number too.
    """

    def __init__(self, plan, alpha, data, model, mixture, rng, starts, pool=()):
        self.plan, self.alpha, self.data, self.radius = plan, alpha, data, plan.radius
        self.model, self.mixture, self.rng = model, mixture, rng
        self.starts, self.means = starts, _column_means(data)
        self.base = log_odds(self.means, _FARTHEST)  # of independent units
        self.values = _softplus_means(data, mixture.atoms)
        self.needs_no_atom, self.n_calls = data.needs_no_atom(), 0
        self.held_out_with(None)
        self.pool = [*pool, *mixture.atoms]
        self.index = list(range(len(pool), len(self.pool)))
        self.n_steps = len(self.index)  # the t of the steps 1/t
        self._anneal()
        self._refit(plan.n_bias_steps)
        self.rows, self.judges = model.rows(self.mixture)  # to learn from, to judge by

    def held_out_with(self, held_out):
        """Follow the log-likelihood of rows that are set aside, or of none."""
        self.held_out = held_out
        self.held_out_means = None if held_out is None else _column_means(held_out)
        self.held_out_values = _softplus_means(held_out, self.mixture.atoms)

    def draws(self, mixture, n):
        """Return ``n`` draws from a machine of the path."""
        return self.model.draws(mixture, self.base, n, self.rng)

    def _anneal(self):
        """Draw the samples anew, and with them log Z."""
        self.log_z = self.model.anneal(self.mixture, self.base)

    def tighten(self):
        """Raise the penalty, or where there is none lower the radius, after a refusal.

        The radius stays where a new unit takes its multiplicity from others: outside of a smaller
        ball, these would count as better than any that is left, and nothing would be inserted.
        Where the model is exact no noise refuses the best step on a line, and the penalty stays as
        it was given.
        """
        if self.model.is_exact and self.plan.line_search:
            return
        self.alpha *= _TIGHTER
        is_full = self.mixture.counts.sum() >= self.temperature() * (1 - 1e-6)
        if not self.alpha and not is_full:
            self.radius /= _TIGHTER

    # ------------------------------------------------------------ what there is

    def snapshot(self):
        """Return the machine by indices into the pool of atoms: (index, counts, bias)."""
        return np.array(self.index, dtype=int), self.mixture.counts, self.mixture.bias

    def score(self, held_out=False):
        """Return the estimated mean log-likelihood of the data, or of the rows held out."""
        means = self.held_out_means if held_out else self.means
        values = self.held_out_values if held_out else self.values
        if means is None:
            return float("nan")
        return float(means @ self.mixture.bias + values @ self.mixture.counts - self.log_z)

    def temperature(self):
        """Return the temperature, which bounds the sum of the multiplicities in the next step."""
        if self.plan.temperature is not None:
            return self.plan.temperature
        return float(self.mixture.counts.sum()) + 1.0

    # ------------------------------------------------------------- where to go

    def propose(self):
        """Return (directions, slope, gap) of the next step; :meth:`advance` takes the best.

        ``slope`` is phi of the best atom found, ``gap`` the duality gap: the temperature times
        (phi(w) - E_q phi), with the rest of the mass of q at the atom 0, which changes nothing. It
        is that of the problem with the penalty as it is now, and NaN where the ball has shrunk,
        which leaves units outside.
        No direction is left where no unit is worth inserting.
        """
        if self.needs_no_atom:
            return [], 0.0, 0.0
        problem = Subproblem(self.data, self.rows, self.alpha, self.radius)
        atoms, values = problem.solve(self._random_starts(), **_SOLVER)
        slope, slopes = -float(values[0]), self._slopes(self.rows)
        inside, total = float(self.mixture.counts @ slopes), self.temperature()
        gap = total * max(slope, 0.0) - inside
        if self.radius != self.plan.radius:
            gap = float("nan")
        away = self._away(slopes, slope, gap, inside) if self.plan.away_steps else None
        if away is not None:
            return [away], slope, gap
        if slope <= self.plan.tol:
            return [], slope, gap
        if self.plan.line_search:
            atoms = self._ladder(atoms, values)
        else:
            atoms = atoms[:1]
        return [self._insertion(atom) for atom in atoms], slope, gap

    def _ladder(self, atoms, values):
        """Return the best atoms found, and what they become under tighter constraints.

        A linear subproblem knows no length of the step, so that with a small penalty its solution
        is a huge atom, of which the line search takes next to nothing. Smaller atoms are less
        steep, but reach further.
        """
        best = atoms[: self.plan.n_best][values[: self.plan.n_best] < -self.plan.tol]
        found, alpha, radius = [best], self.alpha, self.radius
        for _ in range(_RUNGS):
            alpha *= _RUNG
            radius = None if radius is None else radius / np.sqrt(_RUNG)
            problem = Subproblem(self.data, self.rows, alpha, radius)
            best, values = problem.solve(best, **_RUNG_SOLVER)
            best = best[values < -0.5 * self.plan.tol]
            if not len(best):
                break
            found.append(best)
        return np.vstack(found)

    def _slopes(self, rows):
        """Return phi of each unit there is."""
        expected = rows.mean(rows.softplus(self.mixture.atoms))
        return self.values - expected - self.alpha * _half_squares(self.mixture.atoms)

    def _insertion(self, atom):
        if self.plan.temperature is None:
            return Direction("inserted", 0.0, 1.0, atom)
        return Direction("inserted", -1.0, self.plan.temperature, atom)

    def _away(self, slopes, slope, gap, inside):
        """Return the direction away from the worst unit, if that is steeper than inserting."""
        counts = self.mixture.counts
        if not counts.size:
            return None
        k = int(np.argmin(slopes))
        if self.plan.temperature is None:
            steeper = -slopes[k] > max(slope, self.plan.tol)
            return Direction("shrunk", 0.0, -1.0, None, k, high=counts[k]) if steeper else None
        total = self.plan.temperature
        if not inside - total * slopes[k] > max(gap, self.plan.tol) or counts[k] >= total:
            return None
        most = counts[k] / (total - counts[k])
        return Direction("shrunk", 1.0, -total, None, k, high=most)

    def _random_starts(self):
        """Return starts: random directions, and planes between rows of data and their mean."""
        n, mean = self.plan.n_restarts, self.means
        spread = np.sqrt(np.maximum(mean * (1 - mean), _LEAST_VARIANCE).sum())
        starts = self.rng.standard_normal((n, mean.size)) * (2 / spread)
        bias = -starts @ mean + self.rng.standard_normal(n)
        rows = self.starts[self.rng.integers(len(self.starts), size=n // 2)]
        away = rows - mean
        squares = np.maximum(np.einsum("ij,ij->i", away, away), _LEAST_VARIANCE)
        starts[: n // 2] = 4 * away / squares[:, None]
        bias[: n // 2] = -np.einsum("ij,ij->i", starts[: n // 2], rows + mean) / 2
        return np.column_stack([starts, bias])

    # -------------------------------------------------------------- how far to go

    def advance(self, directions):
        """Move along the best of some directions; returns numbers about the step, or None.

        The way is gone in parts, each no longer than importance weights of the samples reach, which
        then follow to the new law. None if the step is refused: it promises too little on samples
        that the subproblem has not seen, or with steps 1/t the penalised log-likelihood falls.
        """
        base, before = self.mixture, self._state()
        lines = self._lines(directions, [None] * len(directions), base)
        line = max(lines, key=lambda line: line.promise)
        # The judges that chose it would flatter it: the best of many on the same samples.
        self.rows, self.judges = self.model.rows(self.mixture)
        (line,) = self._lines([line.direction], [line.value], base)
        if not line.promise > self.plan.tol and line.direction.kind == "inserted":
            return None
        done, noise = 0.0, 0.0
        for _ in range(_MOST_PARTS):
            step, is_end = self._part(line, done)
            if step == 0 or not np.isfinite(step):
                break
            done += step
            self._move(line, done, step, base)
            noise += self._follow(line, step)
            if is_end:
                break
            self._refit(_PART_STEPS)
            self.rows, self.judges = self.model.rows(self.mixture, _PART_STEPS)
            (line,) = self._lines([line.direction], [line.value], base)
        if done:
            self._refit(self.plan.n_bias_steps)
            self.rows, self.judges = self.model.rows(self.mixture, _PART_STEPS)
            if self.model.is_exact:
                self.log_z = self.model.log_partition(self.mixture)
        gain = self._gain(base, line.value, self.log_z - before[1]) if done else 0.0
        if not done or not gain > -2 * np.sqrt(noise):
            self._restore(before)
            return None
        return self._keep(line, done, gain)

    def _state(self):
        return self.mixture, self.log_z, self.rows, self.judges, self.model.visible

    def _restore(self, state):
        self.mixture, self.log_z, self.rows, self.judges, self.model.visible = state

    def _metric(self, rows):
        return Metric(rows, self.means * (1 - self.means))

    def _lines(self, directions, values, base):
        """Return what there is to know about lines from a mixture.

        With a step goes a shift of the biases that keeps the means of the visible units as they
        are, to first order. Without it much of a step's effect is on the means, which the refit of
        the biases takes back, so that the best step would come out far too short.
        """
        metric = self._metric(self.rows) if self.plan.n_bias_steps else None
        pairs = zip(directions, values, strict=True)
        return [self._line(direction, metric, value, base) for direction, value in pairs]

    def _line(self, direction, metric, value, base):
        slope, penalties = 0.0, self.alpha * _half_squares(base.atoms)
        if direction.scale and base.counts.size:
            slope = direction.scale * float(base.counts @ (self.values - penalties))
        if direction.atom is not None:
            atom = direction.atom[None]
            value = float(_softplus_means(self.data, atom)[0]) if value is None else value
            slope += direction.weight * (value - self.alpha * float(_half_squares(atom)[0]))
        elif direction.index is not None:
            k = direction.index
            slope += direction.weight * float(self.values[k] - penalties[k])
        sets = self.rows, self.judges
        changes, shift = [direction.change(base, rows) for rows in sets], np.zeros_like(self.means)
        if metric is not None:
            shift = metric.solve(self.rows.regression(changes[0])[1])
            changes = [c - rows.product(shift) for c, rows in zip(changes, sets, strict=True)]
            slope -= float(shift @ self.means)
        promise = _promise(direction, slope, changes[1], self.judges)
        return _Line(direction, changes, slope, value, shift, promise)

    def _part(self, line, done):
        """Return the length of the next part of a step, and whether that is the last one."""
        direction, slope = line.direction, line.slope
        low, high = direction.low - done, direction.high - done
        if direction.kind == "inserted" and not self.plan.line_search:
            high = (1.0 if direction.scale == 0 else 1.0 / (self.n_steps + 1)) - done
            slope = np.inf  # as far as it goes
        least = self.model.least_ess
        weights, change = self.judges.weights, line.changes[1]
        step, is_bound = best_step(
            slope, change, weights, low=min(low, 0.0), high=high, least_ess=least
        )
        return step, not is_bound

    def _move(self, line, done, step, base):
        """Take the mixture to where ``done`` is gone of the way from the old one."""
        direction, atoms = line.direction, base.atoms
        if direction.atom is not None:
            atoms = np.vstack([atoms, direction.atom])
        bias = self.mixture.bias - step * line.shift
        self.mixture = Mixture(atoms, direction.counts(base.counts, done), bias)

    def _follow(self, line, step):
        """Take log Z and the samples to where a step led; returns the variance of that log Z."""
        changes = [step * change for change in line.changes]
        self.log_z += log_mean_exp(changes[1], self.judges.weights)
        self.model.resample(changes[1])
        return float(np.var(np.exp(changes[1] - changes[1].max()))) / self.judges.n

    def _refit(self, n_steps):
        """Match the means of the visible units, from fresh samples, by steps that become shorter.

        The judges have no say in a step: they would like what their own noise favours.
        """
        if not self.plan.n_bias_steps:
            return
        metric, least = None, self.model.least_ess
        for k in range(n_steps):
            rows, judges = self.model.rows(self.mixture, 1)
            metric = metric or self._metric(rows)
            rate = self.plan.learning_rate * (1 - k / n_steps)
            step = rate * metric.solve(self.means - _column_means(rows))
            length, _ = best_step(
                self.means @ step, rows.product(step), rows.weights, least_ess=least
            )
            change = length * judges.product(step)
            self.log_z += log_mean_exp(change, judges.weights)
            self.model.resample(change)
            self.mixture = self.mixture._replace(bias=self.mixture.bias + length * step)

    def _gain(self, old, value, rise):
        """Return by how much the penalised mean log-likelihood of the data has risen."""
        values = self.values if value is None else np.append(self.values, value)
        own = values - self.alpha * _half_squares(self.mixture.atoms)
        hidden = self.mixture.counts @ own - old.counts @ own[: len(old.counts)]
        return hidden + self.means @ (self.mixture.bias - old.bias) - rise

    def _keep(self, line, done, gain):
        """Take a new atom into the pool, drop units that count no more; returns the record."""
        direction = line.direction
        if direction.atom is not None:
            self.index.append(len(self.pool))
            self.pool.append(direction.atom)
            self.values = np.append(self.values, line.value)
            held_out = _softplus_means(self.held_out, direction.atom[None])
            self.held_out_values = np.append(self.held_out_values, held_out)
            self.n_steps += 1
        atoms, counts, bias = self.mixture
        found = {"step": float(done), "gain": float(gain)}
        if direction.atom is not None or direction.index is not None:
            k = -1 if direction.atom is not None else direction.index
            found["multiplicity"] = float(counts[k])
        kept = counts > 0
        if not kept.all():
            self.mixture = Mixture(atoms[kept], counts[kept], bias)
            self.index = [i for i, keep in zip(self.index, kept, strict=True) if keep]
            self.values = self.values[kept]
            if self.held_out is not None:
                self.held_out_values = self.held_out_values[kept]
        return found

    def step(self):
        """Insert a unit, or shrink one; returns a row of the path.

        ``reason`` is what happened: "inserted", "shrunk", "removed", "refused", or "no unit".
        """
        begin = time.perf_counter()
        if self.n_calls and self.n_calls % _ANNEAL_EVERY == 0:
            self._anneal()
            self.rows, self.judges = self.model.rows(self.mixture)
        self.n_calls += 1
        directions, slope, gap = self.propose()
        found, reason, n_units = {}, "no unit", len(self.index)
        if directions:
            found, reason = self.advance(directions), directions[0].kind
            if found is None:
                found, reason = {}, "refused"
            elif len(self.index) < n_units:
                reason = "removed"
        if self.plan.learns_temperature and found and self.index:
            self.advance([Direction("temperature", 1.0, low=-0.5, high=1.0)])
        if reason == "refused":
            self.rows, self.judges = self.model.rows(self.mixture)  # another subproblem next time
        return {
            "n_components": len(self.index),
            "reason": reason,
            "alpha": self.alpha,
            "radius": float("nan") if self.radius is None else self.radius,
            "temperature": float(self.mixture.counts.sum()),
            "slope": slope,
            "duality_gap": float(gap),
            "multiplicity": found.get("multiplicity", float("nan")),
            "gain": found.get("gain", float("nan")),
            "score": self.score(),
            "validation_score": self.score(held_out=True),
            "free_energy_gap": self.score() - self.score(held_out=True),
            "time": time.perf_counter() - begin,
        }


def _half_squares(atoms):
    return 0.5 * np.einsum("ij,ij->i", atoms, atoms)


def _softplus_means(rows, atoms):
    """Return the mean of softplus(w'v) over rows for each atom; nothing where there are no rows."""
    if rows is None or not len(atoms):
        return np.zeros(0 if rows is None else len(atoms))
    return np.concatenate([rows.softplus_moments(part)[0] for part in _parts(atoms)])


def _parts(atoms, size=64):
    return [atoms[start : start + size] for start in range(0, len(atoms), size)]


def _column_means(rows):
    return rows.regression(np.zeros(rows.n))[0]
