"""Solutions of fixed-point equations, and all methods compared with the exact sums."""

from dataclasses import replace

import numpy as np

from .._checks import check_count
from ..arrays import cast, make_rng, to_numpy
from ..inference import AIS, FIXED_POINTS, FixedPoint, Gibbs, sample
from ..machine import MAX_UNITS, conditional
from ._density import density_of
from ._exact import exact_log_partition, exact_marginals
from ._log_partition import method_of
from ._unique import find_solutions


def solutions(model, method="tap", starts=None, *, unique_tol=1e-2, random_state=None):
    """Find the distinct solutions of the fixed-point equations that starts lead to.

    Every start is followed to a mean squared change of 1e-12, in float64: by sweeps of the method,
    and if 500 of these do not do, as where they jump back and forth between two states, by sweeps
    with more damping. ``unique_tol`` then says which ends are one solution.

    Parameters
    ----------
    model : estimator or Machine
    method : str or object, default="tap"
        "tap", "tap3", "adaptive_tap", "naive_mean_field", "relaxed_bp" or a fixed-point
        object.
    starts : array-like of shape (n_starts, n_visible), default=None
        Visible values to start at; default: the estimator's ``starts_``, else the ends of 100
        short Gibbs chains.
    unique_tol : float, default=1e-2
        Two solutions are one if no visible mean differs by this much or more, or if a chain of
        such pairs links them, so that their number does not depend on the order of the starts.
    random_state : int, RandomState or SeedSequence, default=None
        Of the Gibbs chains.

    Returns
    -------
    Solutions

    Warns
    -----
    ConvergenceWarning
        If no start converges. The states where they ended are then returned.
    """
    density, method = density_of(model), method_of(method)
    if not isinstance(method, FixedPoint):
        raise ValueError(f"method must be a fixed point, one of {sorted(FIXED_POINTS)}, not AIS")
    rng = make_rng(random_state, density.machine.weights[0])
    starts = density.starting_rows(starts, rng)
    found = find_solutions(density.machine, method, starts, unique_tol)
    means = (density.outward(found.means[0]), *found.means[1:])
    return replace(found, means=means, starts=density.outward(found.starts))


def compare(model, *, starts=None, n_steps=1000, max_units=MAX_UNITS, random_state=None):
    """Hold every method that applies to a machine against the exact sums.

    Parameters
    ----------
    model : estimator or Machine
        With a binary layer of at most ``max_units`` units.
    starts : array of shape (n_starts, n_visible), default=None
        Where fixed points start; default as in :func:`log_partition`.
    n_steps : int, default=1000
        Gibbs sweeps from the starts, of which the later half gives the sampled marginals, and the
        end the samples for reverse AIS.
    max_units : int, default=20
    random_state : int, RandomState or SeedSequence, default=None

    Returns
    -------
    list of dict
        A row for each method, ready for ``pandas.DataFrame``: ``method``, ``log_partition``,
        ``std``, ``ess`` (effective sample size, of AIS and reverse AIS), ``error`` (of log Z),
        ``visible_error`` and ``hidden_error`` (largest error of a marginal), ``n_solutions``.
    """
    density = density_of(model)
    machine = density.machine
    check_count("n_steps", n_steps, 1)
    truth, marginals = exact_log_partition(machine, max_units), exact_marginals(machine, max_units)
    rng = make_rng(random_state, machine.weights[0])
    starts = density.starting_rows(starts, rng)

    def row(name, value=None, std=None, means=None, n_solutions=None, ess=None):
        visible, *hidden = [
            float(np.abs(mean - exact).max(initial=0.0))
            for mean, exact in zip(means or marginals, marginals, strict=True)
        ]
        return {
            "method": name,
            "log_partition": value,
            "std": std,
            "ess": ess,
            "error": None if value is None else value - truth,
            "visible_error": None if means is None else visible,
            "hidden_error": None if means is None else max(hidden),
            "n_solutions": n_solutions,
        }

    rows = [row("exact", truth, 0.0, marginals)]
    base = density.independent_units(starts)
    sampled, chains = _gibbs_marginals(machine, starts, rng, n_steps)
    forward = AIS().log_partition(machine, rng, base)
    backward = AIS().reverse_log_partition(machine, rng, chains.layers, base)
    for name, estimate in (("ais", forward), ("reverse_ais", backward)):
        rows.append(row(name, estimate.value, estimate.std, ess=estimate.ess))
    rows.append(row("gibbs", means=sampled))
    for name, method in FIXED_POINTS.items():
        try:
            method.check(machine)
        except ValueError:
            continue  # the method does not apply to these units
        found = find_solutions(machine, method, starts)
        means = [to_numpy(mean).astype(np.float64).mean(axis=0) for mean in found.means]
        rows.append(row(name, found.log_partition(), None, means, len(found)))
    return rows


def _gibbs_marginals(machine, starts, rng, n_steps):
    """Return the means over the later half of Gibbs chains, and their ends."""
    state = Gibbs().start(machine, cast(starts, machine.dtype), rng)
    totals, n_kept = [0.0] * len(machine.units), 0
    for step in range(n_steps):
        state = sample(Gibbs(), machine, state, rng, 1)
        if 2 * step >= n_steps - 1:
            for l, unit in enumerate(machine.units):
                mean = unit.mean(conditional(machine, l, state.layers))
                totals[l] = totals[l] + to_numpy(mean).astype(np.float64).mean(axis=0)
            n_kept += 1
    return [total / n_kept for total in totals], state
