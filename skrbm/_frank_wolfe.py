"""Machines that grow unit by unit: Frank-Wolfe over distributions of hidden units.

Alg. 1 of Ping, Liu and Ihler (2016). A machine is a measure on atoms (:mod:`skrbm._atoms`):
log p(v) = sum_i c_i softplus(w_i'v) + b'v - log Z with multiplicities c, of which the sum is the
temperature. Every step moves c along a line, c + step * (scale * c + weight * e_k), where atom k
is new or old: inserting a unit, shrinking one, changing the temperature.
"""

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ._atoms import (
    Rows,
    Subproblem,
    best_step,
    log_mean_exp,
)
from ._backend import cast, from_numpy, namespace, to_numpy
from ._machine import Machine
from .inference import sample
from .units import Bernoulli, Fractional, Theta

_LEAST_ESS = 0.5  # part of the samples that a part of a step leaves effective
_MOST_PARTS, _PART_STEPS = 50, 2
_LEAST_VARIANCE = 0.01  # of a visible unit, in steps of the biases
_RIDGE = 0.2  # in parts of the variances
_SMALLEST = 1e-9  # multiplicity of a unit that is kept
_SOLVER = {"max_iter": 100, "tol": 1e-4, "ftol": 1e-6}
_RUNGS, _RUNG = 6, 2.5  # penalties that are tried, each times the last one


class Mixture(NamedTuple):
    """Atoms of shape (n, n_visible + 1), their multiplicities, and the visible biases; float64."""

    atoms: Any
    counts: Any
    bias: Any

    def log_weight(self, rows):
        """Return log p(v) + log Z of each row."""
        return self.hidden(rows) + rows.product(self.bias)

    def hidden(self, rows):
        """Return sum_i c_i softplus(w_i'v) of each row."""
        return rows.softplus(self.atoms) @ self.counts


def machine_of(mixture, place):
    """Return a mixture as a machine beside the array ``place``, with binary units if all are whole.

    A unit that counts c > 1 times stays one unit.
    """
    xp = namespace(place)

    def put(array):
        return cast(from_numpy(np.ascontiguousarray(array), place), place.dtype)

    hidden = Bernoulli()
    if (mixture.counts != 1).any():
        hidden = Fractional(cast(from_numpy(mixture.counts, place), xp.float64))
    thetas = Theta(put(mixture.bias)), Theta(put(mixture.atoms[:, -1]))
    return Machine((Bernoulli(), hidden), thetas, (put(mixture.atoms[:, :-1]),))


def rounded(mixture, rounding):
    """Return a mixture of whole units: c > 1 as copies, and what is left of c by ``rounding``.

    "absorb" multiplies an atom by it, which is Eq. (12) of Ping et al.; "nearest" rounds c.
    """
    atoms, counts, bias = mixture
    whole = np.round(counts) if rounding == "nearest" else np.floor(counts)
    parts = np.zeros_like(counts) if rounding == "nearest" else counts - whole
    place = np.arange(counts.size)
    place = np.concatenate([np.repeat(place, whole.astype(int)), place[parts > 0]])
    factor = np.concatenate([np.ones(int(whole.sum())), parts[parts > 0]])
    order = np.argsort(place, kind="stable")  # the parts of a unit come after its copies
    atoms = factor[order, None] * atoms[place[order]]
    return Mixture(atoms, np.ones(len(atoms)), bias)


def mixture_of(machine):
    """Return a machine with binary visible and binary or fractional hidden units as a mixture."""
    W, bias = (to_numpy(part) for part in (machine.weights[0], machine.thetas[1].field))
    counts = getattr(machine.units[1], "multiplicities", None)
    counts = np.ones(len(W)) if counts is None else to_numpy(counts)
    visible = to_numpy(machine.thetas[0].field).astype(np.float64)
    return Mixture(np.column_stack([W, bias]).astype(np.float64), counts.astype(float), visible)


class SampledModel:
    """The model by persistent chains, which are carried from one machine to the next."""

    is_exact, least_ess = False, _LEAST_ESS

    def __init__(self, sampler, visible, rng):
        self.sampler, self.visible, self.rng = sampler, visible, rng

    def rows(self, mixture, n_sweeps=None):
        """Return rows after more sweeps, by default as many as the sampler has."""
        machine = machine_of(mixture, self.visible)
        chains = self.sampler.start(machine, self.visible, self.rng)
        n_sweeps = self.sampler.n_steps if n_sweeps is None else n_sweeps
        self.visible = sample(self.sampler, machine, chains, self.rng, n_sweeps).layers[0]
        return Rows(self.visible)

    def resample(self, log_weights, rng):
        """Take the chains to another law by importance weights (systematic resampling).

        Modes that a step has made heavier get their share at once, where sweeps alone would have
        to cross from mode to mode.
        """
        p = np.exp(log_weights - log_weights.max())
        places = (np.arange(p.size) + rng.random()) / p.size
        index = np.searchsorted(np.cumsum(p / p.sum()), places).clip(max=p.size - 1)
        take = namespace(self.visible).take
        self.visible = take(self.visible, from_numpy(index, self.visible), axis=0)

    def draws(self, mixture, n, rng, n_sweeps=50):
        """Return the chains after some sweeps with a machine."""
        self.rows(mixture, n_sweeps)
        return self.visible


class ExactModel:
    """The model by all configurations of the visible units, with their probabilities."""

    is_exact, least_ess = True, 0.0

    def __init__(self, n_visible, place):
        bits = ((np.arange(2**n_visible)[:, None] >> np.arange(n_visible)) & 1).astype(np.float64)
        self.visible = cast(from_numpy(bits, place), place.dtype)
        self._rows = Rows(self.visible)

    def rows(self, mixture, n_sweeps=None):
        log_p = mixture.log_weight(self._rows)
        p = np.exp(log_p - log_p.max())
        return Rows(self.visible, p / p.sum())

    def log_partition(self, mixture):
        """Return log Z."""
        log_p = mixture.log_weight(self._rows)
        return log_mean_exp(log_p) + np.log(self._rows.n)

    def resample(self, log_weights, rng):
        pass

    def draws(self, mixture, n, rng):
        """Return ``n`` draws from a machine."""
        p = self.rows(mixture).weights
        return namespace(self.visible).take(
            self.visible, from_numpy(rng.choice(p.size, n, p=p), self.visible), axis=0
        )


class Direction(NamedTuple):
    """A line in the multiplicities, c + step * (scale * c + weight * e_k), for steps up to most.

    ``atom`` is what is inserted; where it is None, ``index`` is k, or None for no such term.
    """

    kind: str
    scale: float = 0.0
    weight: float = 0.0
    atom: Any = None
    index: Any = None
    low: float = 0.0
    high: float = 1.0

    def change(self, base, rows):
        """Return the change of log p*(v) by a unit step from a mixture, at rows."""
        change = np.zeros(rows.n)
        if self.scale and base.counts.size:
            change = self.scale * base.hidden(rows)
        if self.atom is not None:
            change = change + self.weight * rows.softplus(self.atom[None])[:, 0]
        elif self.index is not None:
            atom = base.atoms[self.index : self.index + 1]
            change = change + self.weight * rows.softplus(atom)[:, 0]
        return change


class _Line(NamedTuple):
    """A direction, and what a step along it does."""

    direction: Direction
    change: Any  # of log p*(v) by a unit step, at samples
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
    log_z : float
        Its log-partition function.
    rng : numpy.random.Generator
        Of the random starts.
    starts : ndarray of shape (n, n_visible)
        Rows of data from which half of the starts are made.
    """

    def __init__(self, plan, alpha, data, model, mixture, log_z, rng, starts):
        self.plan, self.alpha, self.data, self.radius = plan, alpha, data, plan.radius
        self.model, self.mixture, self.log_z, self.rng = model, mixture, log_z, rng
        self.starts, self.means = starts, _column_means(data)
        self.values = _softplus_means(data, mixture.atoms)
        self.held_out_with(None)
        self.pool, self.index = list(mixture.atoms), list(range(len(mixture.atoms)))
        self.n_steps = len(self.pool)  # the t of the steps 1/t
        self._refit(plan.n_bias_steps)
        self.rows = model.rows(self.mixture)

    def held_out_with(self, held_out):
        """Follow the log-likelihood of rows that are set aside, or of none."""
        self.held_out = held_out
        self.held_out_means = None if held_out is None else _column_means(held_out)
        self.held_out_values = _softplus_means(held_out, self.mixture.atoms)

    def tighten(self):
        """Raise the penalty, or where there is none lower the radius, after a refusal."""
        self.alpha *= 1.5
        if not self.alpha:
            self.radius /= 1.5

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
        (phi(w) - E_q phi), with the rest of the mass of q at the atom 0, which changes nothing.
        No direction is left where no unit is worth inserting.
        """
        problem = Subproblem(self.data, self.rows, self.alpha, self.radius)
        atoms, values = problem.solve(self._random_starts(), **_SOLVER)
        slope, slopes = -float(values[0]), self._slopes(self.rows)
        inside, total = float(self.mixture.counts @ slopes), self.temperature()
        gap = total * max(slope, 0.0) - inside
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
            best, values = problem.solve(best, **_SOLVER)
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
        plan = self.plan
        if plan.temperature is None and not (plan.learns_temperature and not plan.line_search):
            return Direction("inserted", 0.0, 1.0, atom)
        total = plan.temperature or max(1.0, float(self.mixture.counts.sum()))
        return Direction("inserted", -1.0, total, atom)

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
        old = self.mixture, self.log_z, self.rows, self.model.visible
        rows = self.model.rows(self.mixture)
        lines = self._lines(directions, self.rows, rows, [None] * len(directions), old[0])
        line = max(lines, key=lambda line: line.promise)
        if not line.promise > self.plan.tol and line.direction.kind == "inserted":
            return None
        done, noise = 0.0, 0.0
        for _ in range(_MOST_PARTS):
            step, is_end = self._part(line, done, rows)
            if step == 0 or not np.isfinite(step):
                break
            done += step
            self._move(line, done, step, old[0])
            noise += float(np.var(np.exp(step * line.change - (step * line.change).max()))) / rows.n
            self._log_z_by(step * line.change, rows)
            self.model.resample(step * line.change, self.rng)
            if is_end:
                break
            self._refit(_PART_STEPS)
            seen = self.model.rows(self.mixture, _PART_STEPS)
            rows = self.model.rows(self.mixture, _PART_STEPS)
            (line,) = self._lines([line.direction], seen, rows, [line.value], old[0])
        if done:
            self._refit(self.plan.n_bias_steps)
            self.rows = self.model.rows(self.mixture)
            if self.model.is_exact:
                self.log_z = self.model.log_partition(self.mixture)
        gain = self._gain(old[0], line.value, self.log_z - old[1]) if done else 0.0
        if not done or not gain > -2 * np.sqrt(noise):
            self.mixture, self.log_z, self.rows, self.model.visible = old
            return None
        return self._keep(line, done, gain)

    def _metric(self, rows):
        return _Metric(rows, self.means * (1 - self.means))

    def _lines(self, directions, seen, rows, values, base):
        """Return what there is to know about lines from a mixture.

        With a step goes a shift of the biases that keeps the means of the visible units as they
        are, to first order. Without it much of a step's effect is on the means, which the refit of
        the biases takes back, so that the best step would come out far too short. The shift is
        found from rows that were ``seen``, and judged from others: with as many visible units as
        samples it would seem to do wonders on its own.
        """
        metric = self._metric(seen) if self.plan.n_bias_steps else None
        pairs = zip(directions, values, strict=True)
        return [self._line(d, seen, rows, metric, value, base) for d, value in pairs]

    def _line(self, direction, seen, rows, metric, value, base):
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
        change, shift = direction.change(base, rows), np.zeros_like(self.means)
        if metric is not None:
            shift = metric.solve(seen.regression(direction.change(base, seen))[1])
            change = change - rows.product(shift)
            slope -= float(shift @ self.means)
        promise = _promise(direction, slope, change, rows)
        return _Line(direction, change, slope, value, shift, promise)

    def _part(self, line, done, rows):
        """Return the length of the next part of a step, and whether that is the last one."""
        direction, slope = line.direction, line.slope
        low, high = direction.low - done, direction.high - done
        if direction.kind == "inserted" and not self.plan.line_search:
            high = (1.0 if direction.scale == 0 else 1.0 / (self.n_steps + 1)) - done
            slope = np.inf  # as far as it goes
        least = self.model.least_ess
        step, is_bound = best_step(
            slope, line.change, rows.weights, low=min(low, 0.0), high=high, least_ess=least
        )
        return step, not is_bound

    def _move(self, line, done, step, base):
        """Take the mixture to where ``done`` is gone of the way from the old one."""
        direction, atoms = line.direction, base.atoms
        if direction.atom is not None:
            atoms = np.vstack([atoms, direction.atom])
        bias = self.mixture.bias - step * line.shift
        self.mixture = Mixture(atoms, self._counts(direction, done, base.counts), bias)

    def _log_z_by(self, change, rows):
        """Update log Z for log-weights that have changed, by importance weights."""
        self.log_z += log_mean_exp(change, rows.weights)

    def _counts(self, direction, step, counts):
        counts = counts * (1 + step * direction.scale)
        if direction.atom is not None:
            return np.append(counts, step * direction.weight)
        if direction.index is not None:
            counts[direction.index] += step * direction.weight
            if step == direction.high:  # to rounding
                counts[direction.index] = 0.0
        return counts

    def _refit(self, n_steps):
        """Match the means of the visible units, from fresh samples.

        Each step is found from one set of samples, and its length and log Z from the next.
        """
        if not self.plan.n_bias_steps:
            return
        metric = None
        for _ in range(n_steps):
            seen = self.model.rows(self.mixture, 1)
            metric = metric or self._metric(seen)
            step = self.plan.learning_rate * metric.solve(self.means - _column_means(seen))
            rows = self.model.rows(self.mixture, 1)
            change, slope, least = rows.product(step), self.means @ step, self.model.least_ess
            length, _ = best_step(slope, change, rows.weights, high=1.0, least_ess=least)
            self._log_z_by(length * change, rows)
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
        kept = counts > _SMALLEST
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
            self.rows = self.model.rows(self.mixture)  # another subproblem next time
        return {
            "n_components": len(self.index),
            "reason": reason,
            "alpha": self.alpha,
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


class _Metric:
    """Covariances of the visible units, with a ridge: how means answer to biases.

    Both the refit of the biases and the shift that goes with a step are Newton steps in it. The
    ridge, in parts of the variances of the samples or of the data, keeps them short where samples
    are few or units are stuck.
    """

    def __init__(self, rows, variance):
        covariance = rows.covariance()
        variance = np.maximum(np.maximum(np.diagonal(covariance), variance), _LEAST_VARIANCE)
        covariance[np.diag_indices_from(covariance)] += _RIDGE * variance
        self._factor = cho_factor(covariance, overwrite_a=True)

    def solve(self, vector):
        return cho_solve(self._factor, vector)
