"""Distinct solutions of the fixed-point equations of a machine, and trees of them in training."""

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._checks import check_number, look_up
from ..arrays import (
    block_rows,
    cast,
    from_numpy,
    make_rng,
    namespace,
    one_blas_thread,
    row_blocks,
    to_numpy,
)
from ..exceptions import DivergenceError
from ..inference import FixedPoint, map_rows, resolve, solve_to_convergence
from ._density import density_of, in_float64

_TOLERANCES = 1e-1, 1e-2, 1e-3
_PROBES = 8  # columns to compare before all of them


@dataclass(frozen=True)
class Solutions:
    """Distinct solutions of fixed-point equations, the lowest free energy first.

    Attributes
    ----------
    means : tuple of arrays of shape (n_solutions, n_units[l])
        Means of the units of each layer, the visible one first.
    free_energies : ndarray of shape (n_solutions,)
        Free energies in nats, float64; each is minus an estimate of log Z.
    counts : ndarray of int of shape (n_solutions,)
        Number of starts that lead to each solution.
    starts : array of shape (n_starts, n_visible)
        Initial visible values.
    labels : ndarray of int of shape (n_starts,)
        Solution to which each start leads; -1 for those that did not converge.
    n_unconverged : int
    unique_tol : float
        Solutions whose visible means all differ by less than this are merged.
    n_unique : dict of float to int
        Number of distinct solutions at the tolerances 1e-1, 1e-2, 1e-3 and ``unique_tol``.
    """

    means: tuple
    free_energies: np.ndarray
    counts: np.ndarray
    starts: Any
    labels: np.ndarray
    n_unconverged: int
    unique_tol: float
    n_unique: dict

    def __len__(self):
        return len(self.free_energies)

    def __repr__(self):
        return (
            f"{type(self).__name__}({len(self)} from {len(self.labels)} starts, "
            f"{self.n_unconverged} unconverged, unique_tol={self.unique_tol:g})"
        )

    @property
    def visible_means(self):
        """Means of the visible units, of shape (n_solutions, n_visible)."""
        return self.means[0]

    @property
    def hidden_means(self):
        """Means of the (first) hidden units, of shape (n_solutions, n_hidden)."""
        return self.means[1]

    def log_partition(self, weights="uniform"):
        """Return the average estimate of log Z.

        Parameters
        ----------
        weights : {"uniform", "boltzmann"}, default="uniform"
            Equal weights (Eq. 39 of Tramel et al. 2018), or proportional to exp(-free energy)
            (Sec. V of the same).

        Returns
        -------
        float
            In nats.

        Notes
        -----
        If the solutions are separate modes, ``scipy.special.logsumexp(-solutions.free_energies)``
        is a better estimate of log Z.
        """
        F = self.free_energies
        relative = {"uniform": np.ones_like(F), "boltzmann": np.exp(F.min() - F)}
        return -float(np.average(F, weights=look_up("weights", weights, relative)))


@one_blas_thread
def find_solutions(machine, method, starts, unique_tol=1e-2):
    """Return :func:`solutions` from visible values in the machine's coordinates.

    Of equal solutions the one with the smallest last change is returned. Raises DivergenceError if
    no start converges to a finite free energy, and some diverge.
    """
    check_number("unique_tol", unique_tol, above=0)
    method.check_marginals()
    method.check(machine)
    # States are not kept, as those of belief propagation are large.
    double, sizes, pieces = in_float64(machine), [], []
    first = method.state_at(double, cast(starts[:1, :], double.dtype))
    map_rows(lambda leaf: sizes.append(math.prod(leaf.shape)), first)
    for rows in row_blocks(starts, block_rows(max(sizes))):
        start = method.state_at(double, cast(rows, double.dtype))
        with np.errstate(over="ignore", invalid="ignore"):  # an error tells of it below
            state, _, residual, converged = solve_to_convergence(method, double, start)
            numbers = residual, converged, -method.log_partition(double, state)
        pieces.append((state.means, *map(to_numpy, numbers)))
    means, *rest = zip(*pieces, strict=True)
    means = [namespace(parts[0]).concat(parts, axis=0) for parts in zip(*means, strict=True)]
    residual, converged, free_energies = (np.concatenate(parts) for parts in rest)
    is_finite = np.isfinite(free_energies)
    converged &= is_finite
    if not (converged.any() or is_finite.all()):
        raise DivergenceError(
            f"log Z by {method} is not finite: the solutions diverge; use "
            "TruncatedGaussian(lower, upper) or smaller weights"
        )
    if not converged.any():
        warnings.warn(
            f"none of the {converged.size} starts converged, so their last states are returned; "
            "use more damping in the method or a stronger penalty in fit",
            ConvergenceWarning,
            stacklevel=4,  # beyond the functions here and their wrapper
        )
    rows = np.flatnonzero(converged | ~converged.any())
    visible, tol = to_numpy(means[0])[rows], float(unique_tol)
    groups = {t: solution_groups(visible, t) for t in sorted({*_TOLERANCES, tol}, reverse=True)}
    # The first row of each group, after sorting: that with the smallest residual.
    order = np.lexsort((residual[rows], groups[tol]))
    best = order[np.unique(groups[tol][order], return_index=True)[1]]
    lowest_first = np.argsort(free_energies[rows[best]], kind="stable")
    labels = np.full(converged.size, -1)
    labels[rows] = np.argsort(lowest_first)[groups[tol]]
    best = rows[best[lowest_first]]
    index = from_numpy(best, starts)
    means = [cast(namespace(part).take(part, index, axis=0), machine.dtype) for part in means]
    return Solutions(
        tuple(means),
        free_energies[best],
        np.bincount(labels[rows], minlength=best.size),
        starts,
        labels,
        int(np.sum(~converged)),
        tol,
        {t: int(group.max()) + 1 for t, group in groups.items()},
    )


def solution_groups(means, tol):
    """Return the group of each row by single linkage, numbered by their first rows.

    Rows closer than ``tol`` in all columns are linked, so that groups do not depend on their order.
    """
    # Different rows differ in the columns that vary most, which are compared first.
    means = means[:, np.argsort(-means.var(axis=0), kind="stable")]
    groups, free, n_groups = np.full(len(means), -1), np.arange(len(means)), 0
    while free.size:
        reached = [free[0]]
        groups[reached] = n_groups
        while reached:
            row, free = means[reached.pop()], free[groups[free] < 0]
            near = free
            for columns in (slice(_PROBES), slice(_PROBES, None)):
                change = np.abs(means[near, columns] - row[columns])
                near = near[(change < tol).all(axis=1)]
            groups[near] = n_groups
            reached.extend(near)
        n_groups += 1
    return groups


def solutions(model, method="auto", starts=None, *, unique_tol=1e-2, random_state=None):
    """Find the distinct solutions of the fixed-point equations from several starts.

    The equations are solved in float64 to a mean squared change of 1e-12, with more damping if 500
    sweeps of the method do not converge.

    Parameters
    ----------
    model : estimator or Machine
    method : str or object, default="auto"
        "tap", "tap3", "adaptive_tap", "naive_mean_field", "relaxed_bp" or a fixed-point object.
        "auto" is the method with which the estimator was trained, or "tap" if that was a sampler.
    starts : array-like of shape (n_starts, n_visible), default=None
        Visible values at which the iterations start; by default ``starts_`` of the estimator, or
        the ends of 100 short Gibbs chains.
    unique_tol : float, default=1e-2
        Two solutions are merged if all their visible means differ by less than this, or if they are
        linked by a chain of such pairs.
    random_state : int, RandomState or SeedSequence, default=None
        Determines the Gibbs chains.

    Returns
    -------
    Solutions

    Raises
    ------
    DivergenceError
        If no start converges, and log Z of some is not finite.

    Warns
    -----
    ConvergenceWarning
        If no start converges; the last states are then returned.
    """
    density = density_of(model)
    own = {"auto": resolve("tap", FixedPoint) if density.method is None else density.method}
    method = resolve(method, FixedPoint, argument="method", own=own)
    rng = make_rng(random_state, density.machine.weights[0])
    starts = density.starting_rows(starts, rng)
    found = find_solutions(density.machine, method, starts, unique_tol)
    means = (density.outward(found.means[0]), *found.means[1:])
    return replace(found, means=means, starts=density.outward(found.starts))


@dataclass(frozen=True)
class SolutionTree:
    """A hierarchical clustering of rows by solutions of fixed-point equations.

    Attributes
    ----------
    levels : tuple of Solutions
        Solutions of each model, from the first to the last epoch.
    labels : ndarray of int of shape (n_levels, n_samples)
        The solution of each level to which a row belongs, -1 for rows whose iterations did not
        converge at it or at a later level. Rows that share a solution share those of all earlier
        levels.
    """

    levels: tuple
    labels: np.ndarray

    def __repr__(self):
        return f"{type(self).__name__}({' -> '.join(str(len(level)) for level in self.levels)})"


def solution_tree(models, X, method="auto", *, unique_tol=1e-2):
    """Cluster rows by the solutions that they reach, and these by solutions of earlier models.

    The equations of the last model are iterated from the rows, those of the model before it from
    the solutions found, and so on. Since there are fewer solutions early in training, branches
    merge until one is left.

    Parameters
    ----------
    models : sequence of estimators or Machines
        Models with the same units at several epochs of one training, the first epoch first.
    X : array-like of shape (n_samples, n_features)
        Rows, without missing values.
    method : str or object, default="auto"
        As in :func:`solutions`.
    unique_tol : float, default=1e-2
        As in :func:`solutions`.

    Returns
    -------
    SolutionTree

    References
    ----------
    Decelle, A., Rosset, L., & Seoane, B. (2023). Unsupervised hierarchical clustering using the
    learning dynamics of restricted Boltzmann machines. Physical Review E 108.

    Examples
    --------
    >>> import copy
    >>> import numpy as np
    >>> from skrbm import TAPRBM
    >>> from skrbm.evaluation import solution_tree
    >>> X = np.repeat([[0, 0, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0], [1, 1, 1, 1]], 25, axis=0)
    >>> rbm, models = TAPRBM(n_components=4, n_iter=20, warm_start=True, random_state=0), []
    >>> for _ in range(10):
    ...     models.append(copy.deepcopy(rbm.fit(X)))
    >>> tree = solution_tree(models, X)
    >>> tree.labels.shape
    (10, 100)
    """
    if not isinstance(models, Iterable):
        raise ValueError(f"models must be a sequence of models, got {type(models).__name__}")
    models = list(models)
    if not models:
        raise ValueError("models must contain at least one model")
    densities = [density_of(model) for model in models]
    sizes = {density.machine.n_units[0] for density in densities}
    if len(sizes) > 1:
        raise ValueError(f"models must have the same visible units, got {sorted(sizes)} of them")
    densities[-1].visible(X, "X")  # an error of it names X
    levels, labels, starts = [], [], X
    for model in reversed(models):
        found = solutions(model, method, starts, unique_tol=unique_tol)
        own = found.labels
        if labels:
            own = np.where(labels[-1] < 0, -1, found.labels[labels[-1]])
        levels.append(found)
        labels.append(own)
        starts = found.visible_means
    return SolutionTree(tuple(levels[::-1]), np.stack(labels[::-1]))
