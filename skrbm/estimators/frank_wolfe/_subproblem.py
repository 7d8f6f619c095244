"""What unit to insert, or to shrink: the linear subproblem of Frank-Wolfe, and its candidates."""

import numpy as np
from scipy.optimize import minimize

from ._mixture import Direction

_SOLVER = {"maxiter": 100, "gtol": 1e-4, "ftol": 1e-6}
_N_BEST = 3  # solutions that compete
_RUNGS, _RUNG = 6, 2.5  # penalties that are tried, each so many times the last one
_RUNG_SOLVER = {"maxiter": 30, "gtol": 1e-3, "ftol": 1e-4}  # rough: samples decide on what it finds
_MIN_VARIANCE = 0.01  # of a visible unit, in random starts
_START_ROWS = 1000  # of the data, from which half of the starts are made


class Subproblem:
    """The linear subproblem, Eq. (9) of Ping, Liu and Ihler (2016): what atom to insert.

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
        """Return the atoms that the starts lead to, and their values, the best first."""
        if self.radius is None:
            atoms, values = _minimised(self, starts, options)
        else:
            atoms, values = self._solve_in_ball(starts, options)
        order = np.argsort(values)
        return atoms[order], values[order]

    def _solve_in_ball(self, starts, options):
        """Minimise over the projection onto the ball.

        A point outside does not see that the way inward may lead down. So what ended on the sphere
        starts again a little inside it.
        """
        points, values = self._projected(starts)[0], None
        for _ in range(2):
            points, values = _minimised(self._in_ball, 0.999 * points, options)
            points = self._projected(points)[0]
        return points, values

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
    """Return where L-BFGS ends from each start, and the values there.

    It is done where a gradient is small or a step gains little, not only where it is at a minimum.
    """

    def of_one(atom):
        values, gradients = function(atom[None])
        return values[0], gradients[0]

    solver = {"jac": True, "method": "L-BFGS-B", "options": options}
    found = [minimize(of_one, start, **solver) for start in starts]
    atoms = np.array([each.x for each in found]).reshape(starts.shape)
    return atoms, np.array([each.fun for each in found])


class Proposer:
    """Finds directions in which the penalised likelihood rises.

    Parameters
    ----------
    plan : Plan
    rng : numpy.random.Generator
    """

    def __init__(self, plan, rng):
        self.plan, self.rng = plan, rng

    def look_at(self, likelihood):
        """Propose for the data of a GrowthLikelihood from now on."""
        data, means = self.data, self.means = likelihood.rows, likelihood.means
        some = self.rng.permutation(data.n)[:_START_ROWS]
        if likelihood.by_weight:
            some = self.rng.choice(data.n, _START_ROWS, p=data.weights / data.weights.sum())
        self.rows = data.dense(np.sort(some))
        # Each softplus(w'v) is convex. So its mean under a distribution with the column means of
        # one row, or of one column, is at least its mean over the data, and no unit can be better.
        self.needs_no_unit = data.n == 1 or means.size == 1

    def propose(self, mixture, values, model, alpha, radius):
        """Return (directions, slope, duality gap); without directions no unit is worth inserting.

        ``slope`` is phi of the best atom found. The duality gap is the temperature times
        (phi(w) - E_q phi), where q is the distribution of the units, with the rest of its mass at
        the atom 0, which changes nothing. It is that of the problem with the penalty as it is now,
        and NaN where the ball has shrunk, which leaves units outside.

        Parameters
        ----------
        mixture : Mixture
        values : ndarray of shape (n_units,)
            Means of softplus(w'v) over the data for each unit.
        model : WeightedRows
            Samples of the machine.
        alpha, radius : float
            As they are now.
        """
        if self.needs_no_unit:
            return [], 0.0, 0.0
        atoms, found = Subproblem(self.data, model, alpha, radius).solve(self._starts(), **_SOLVER)
        slope = -float(found[0])
        slopes = values - model.softplus_means(mixture.atoms) - mixture.penalties(alpha)
        inside, total = float(mixture.counts @ slopes), self.plan.next_temperature(mixture)
        gap = total * max(slope, 0.0) - inside
        shown = gap if radius == self.plan.radius else float("nan")
        directions = []
        if self.plan.away_steps and mixture.counts.size:
            directions = self._away(mixture, values, slopes, slope, shown)
        if not directions and slope > self.plan.insert_tol:
            if self.plan.step == "line_search":
                atoms = self._ladder(model, alpha, radius, atoms, found)
            else:
                atoms = atoms[:1]
            directions = [self._insertion(mixture, values, atom) for atom in atoms]
        return directions, slope, shown

    def _ladder(self, model, alpha, radius, atoms, found):
        """Return the best atoms, and what they become under stronger and stronger penalties.

        The linear subproblem does not know how long the step will be. With a small penalty its
        solution is a huge atom, of which the line search takes next to nothing. The slope of
        smaller atoms is smaller, but the step can be longer.
        """
        best = atoms[:_N_BEST][found[:_N_BEST] < -self.plan.insert_tol]
        rungs = [best]
        for _ in range(_RUNGS):
            alpha *= _RUNG
            radius = None if radius is None else radius / np.sqrt(_RUNG)
            problem = Subproblem(self.data, model, alpha, radius)
            best, found = problem.solve(best, **_RUNG_SOLVER)
            best = best[found < -0.5 * self.plan.insert_tol]
            if not len(best):
                break
            rungs.append(best)
        return np.vstack(rungs)

    def _insertion(self, mixture, values, atom):
        values = np.append(values, self.data.softplus_means(atom[None]))
        change, total = np.append(np.zeros(mixture.counts.size), 1.0), self.plan.total
        if total is not None:  # the new unit takes its multiplicity from the others
            change = np.append(-mixture.counts, total)
        return Direction("inserted", mixture.with_atom(atom), values, change, unit=-1)

    def _away(self, mixture, values, slopes, slope, gap):
        """Return [the direction away from the worst unit] if that is steeper than inserting."""
        k, counts, total = int(np.argmin(slopes)), mixture.counts, self.plan.total
        rise, change, high = -slopes[k], -np.eye(counts.size)[k], counts[k]
        if total is not None:
            if counts[k] >= total:
                return []
            rise, slope = counts @ slopes - total * slopes[k], gap
            change, high = counts + total * change, counts[k] / (total - counts[k])
        if not rise > max(slope, self.plan.insert_tol):
            return []
        return [Direction("shrunk", mixture, values, change, k, high=high)]

    def _starts(self):
        """Return starts: random directions, and planes between rows of data and their mean."""
        n, mean = self.plan.n_restarts, self.means
        spread = np.sqrt(np.maximum(mean * (1 - mean), _MIN_VARIANCE).sum())
        starts = self.rng.standard_normal((n, mean.size)) * (2 / spread)
        bias = -starts @ mean + self.rng.standard_normal(n)
        rows = self.rows[self.rng.integers(len(self.rows), size=n // 2)]
        away = rows - mean
        squares = np.maximum(np.einsum("ij,ij->i", away, away), _MIN_VARIANCE)
        starts[: n // 2] = 4 * away / squares[:, None]
        bias[: n // 2] = -np.einsum("ij,ij->i", starts[: n // 2], rows + mean) / 2
        return np.column_stack([starts, bias])
