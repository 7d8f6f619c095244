"""All methods compared with the exact sums."""

import numpy as np

from .._checks import check_count
from ..arrays import cast, make_rng, to_numpy
from ..inference import AIS, FIXED_POINTS, Gibbs, sample
from ..machine import MAX_UNITS, conditional
from ._density import density_of
from ._exact import exact_log_partition, exact_marginals
from ._solutions import find_solutions


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
        if not method.applies_to(machine):
            continue
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
