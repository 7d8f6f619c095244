"""Diagnosis of the chains of a machine, and of its samples against data."""

from dataclasses import dataclass, field

import numpy as np
from sklearn.utils.extmath import randomized_svd

from .._checks import check_count
from ..arrays import (
    cast,
    dense,
    from_numpy,
    make_rng,
    matmul,
    namespace,
    one_blas_thread,
    seed_sequence,
    take_rows,
    to_numpy,
)
from ..inference import (
    RARE_EXCHANGES,
    Exchanges,
    Gibbs,
    Sampler,
    Tempering,
    draw_visible,
    resolve,
    sample,
)
from ..machine import energy, free_energy
from ._agreement import N_STD, Neighbours, Quality, compared_moments, neighbours, quality_by_sweeps
from ._density import density_of
from ._mixing import mixing

_N_PROJECTIONS = 5
_N_MARKS = 12  # numbers of sweeps after which samples are compared with data
_N_KEPT = 10  # states of a chain that are samples at most
_MOST_ROWS = 10_000  # of data that are compared
_MAX_R_HAT = 1.1
_MIN_ESS = 100
_MIN_ROUND_TRIPS = 100


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """How well the chains of a model mix, and how well its samples agree with data.

    ``print`` shows a table and the failed checks.

    Attributes
    ----------
    observables : tuple of str
        The monitored quantities: the free energy (for a deep model, the energy) and projections of
        the visible units on the leading singular vectors of the weights.
    n_steps, n_chains : int
        Number of sweeps after the burn-in, and number of chains.
    time, time_std : ndarray of shape (n_observables,)
        Integrated autocorrelation time in sweeps, by the initial monotone sequence of Geyer
        (1992) over all chains, and its standard error by the formula of Madras and Sokal (1988).
    r_hat : ndarray of shape (n_observables,)
        Rank-normalized split R-hat (Vehtari et al. 2021). Like the others, NaN for constant
        quantities.
    ess : ndarray of shape (n_observables,)
        Effective sample size of all chains together (Vehtari et al. 2021).
    autocorrelation : ndarray of shape (n_steps, n_observables)
        Autocorrelation by lag, from 0.
    moments : tuple of ComparedMoments
        Connected moments of first, second and third order; empty without data. Each has ``data``,
        ``samples``, ``correlation``, ``error``, and ``limit``, above which an error is significant.
    neighbours : Neighbours or None
        Nearest-neighbour adversarial accuracies ``truth`` and ``synth`` and their ``std``.
    quality : Quality or None
        Errors of the moments by the number of ``sweeps`` from random starts: if they decrease and
        then increase, the model was trained out of equilibrium (Decelle, Furtlehner and Seoane
        2021).
    exchanges : Exchanges or None
        If the chains ran along a ladder, the ``acceptance`` of exchanges between neighbours, and
        the number of ``round_trips`` of each chain in all sweeps.
    """

    observables: tuple
    n_steps: int
    n_chains: int
    time: np.ndarray
    time_std: np.ndarray
    r_hat: np.ndarray
    ess: np.ndarray
    autocorrelation: np.ndarray = field(repr=False)
    moments: tuple = field(default=(), repr=False)
    neighbours: Neighbours | None = None
    quality: Quality | None = field(default=None, repr=False)
    exchanges: Exchanges | None = field(default=None, repr=False)

    @property
    def checks(self):
        """Results of the checks, a dict of bool; those that need data or a ladder may be absent.

        - ``mixed``: R-hat is at most 1.1 for all observables, and some are not constant.
        - ``long_enough``: the effective sample size is at least 100 for all observables.
        - ``ladder_connected``: all neighbours accept at least 10 % of their exchanges, and there
          were at least 100 round trips.
        - ``in_equilibrium``: moments do not become significantly worse after their best sweep.
        - ``no_copies``: rows of data are not significantly closer to samples than to other rows.
        - ``matches_data``: first and second moments, and neighbours, agree up to noise.
        """
        constant = bool(np.isnan(self.r_hat).all())
        found = {
            "mixed": not constant and bool(np.nanmax(self.r_hat) <= _MAX_R_HAT),
            "long_enough": bool(np.nanmin(self.ess, initial=np.inf) >= _MIN_ESS),
        }
        if self.exchanges is not None:
            rates, trips = self.exchanges.acceptance, self.exchanges.round_trips
            connected = np.nanmin(rates) >= RARE_EXCHANGES and trips.sum() >= _MIN_ROUND_TRIPS
            found["ladder_connected"] = bool(connected)
        if self.quality is not None:
            found["in_equilibrium"] = not self.quality.deteriorates
        if self.neighbours is not None:
            truth, synth, std = self.neighbours
            found["no_copies"] = bool(truth >= 0.5 - N_STD * std)
            near = max(truth, synth) <= 0.5 + N_STD * std
            found["matches_data"] = bool(near and all(m.error <= m.limit for m in self.moments[:2]))
        return found

    @property
    def failed(self):
        """The names of the failed checks, a list of str."""
        return [name for name, passed in self.checks.items() if not passed]

    def __str__(self):
        lines = [
            f"{self.n_chains} chains of {self.n_steps} sweeps",
            f"failed checks: {', '.join(self.failed) or 'none'}",
            f"{'':16s} {'time':>8s} {'std':>8s} {'R-hat':>7s} {'ESS':>8s}",
        ]
        numbers = self.time, self.time_std, self.r_hat, self.ess
        for name, *row in zip(self.observables, *numbers, strict=True):
            lines.append("{:16s} {:8.4g} {:8.3g} {:7.3f} {:8.0f}".format(name, *row))
        if self.exchanges is not None:
            rates, trips = self.exchanges.acceptance, self.exchanges.round_trips
            lines.append(
                f"ladder: {rates.size + 1} rungs, acceptance {np.nanmin(rates):.2f} to "
                f"{np.nanmax(rates):.2f}, {trips.sum()} round trips"
            )
        for order, m in enumerate(self.moments, 1):
            lines.append(f"moments of order {order}: error {m.error:.2g} (limit {m.limit:.2g})")
        if self.neighbours is not None:
            truth, synth, std = self.neighbours
            lines.append(f"adversarial accuracy: {truth:.2f}, {synth:.2f} ± {std:.2f}")
        return "\n".join(lines)


@one_blas_thread
def diagnose(model, X=None, *, method="auto", n_chains=100, n_steps=1000, random_state=None):
    """Diagnose how well the chains of a model mix, and how well its samples agree with data.

    Half of the chains start at rows of X (or of ``starts_`` of the model), the others at draws of
    the visible units without couplings. The first half of the sweeps is discarded.

    Parameters
    ----------
    model : estimator, Density or Machine
    X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
        Data to compare samples with, preferably held out; at most 10 000 random rows are used.
        Values between 0 and 1 of binary units are probabilities from which bits are drawn. Leave
        out rows with missing values, since rows imputed by the model agree with it by construction.
    method : {"auto", "gibbs", "tempering"} or Sampler, default="auto"
        Block Gibbs sampling, or tempering along the ladder of the estimator or one built by
        annealing. "auto" is "tempering" if the estimator has a ladder, and otherwise "gibbs".
    n_chains : int, default=100
        Number of chains, at least 4.
    n_steps : int, default=1000
        Number of sweeps of each chain, at least 8.
    random_state : int, RandomState or SeedSequence, default=None

    Returns
    -------
    Diagnosis
        With ``checks``, the names of those that ``failed``, and the numbers behind them.

    Raises
    ------
    ValueError
        If X has fewer than two rows, or NaN.

    Notes
    -----
    Chains that agree may all miss the same mode; :func:`bracket` is another test for this.
    """
    check_count("n_chains", n_chains, 4)
    check_count("n_steps", n_steps, 8)
    seeds, density = seed_sequence(random_state).spawn(2), density_of(model)
    generator, machine = np.random.default_rng(seeds[0]), density.machine
    if X is not None:
        X = density.visible(X)
        if X.shape[0] < 2:
            raise ValueError("X must have at least two rows")
        if X.shape[0] > _MOST_ROWS:
            X = take_rows(X, generator.permutation(X.shape[0])[:_MOST_ROWS])
        X = dense(X)
        if machine.units[0].is_binary:
            rows = to_numpy(X)
            if not ((rows == 0) | (rows == 1)).all():
                X = from_numpy((generator.random(rows.shape) < rows).astype(rows.dtype), X)
    rng = make_rng(seeds[1], machine.weights[0])
    own = {"auto": Gibbs() if density.ladder is None else Tempering()}
    sampler = resolve(method, Sampler, argument="method", own=own)
    sampler.check(machine)
    if sampler.has_rungs:
        base = None if density.starts is None else density.independent_units(density.starts)
        sampler = sampler.on(machine, rng, density.ladder, base)

    starts, rest, n_random = density.starts if X is None else X, X, n_chains
    if starts is not None:
        order, n_random = generator.permutation(starts.shape[0]), n_chains // 2
        n_rows = n_chains - n_random
        if X is not None and X.shape[0] >= 2 * n_rows:  # rows that no chain starts at
            rest = take_rows(X, order[n_rows:])
        starts = take_rows(starts, np.resize(order, n_rows))
    first = draw_visible(machine, rng, n_random)
    if starts is not None:
        first = namespace(first).concat([first, cast(starts, first.dtype)], axis=0)
    marks = [0, *np.unique(np.geomspace(1, n_steps, _N_MARKS).round().astype(int)).tolist()]
    kept = np.unique(np.linspace(n_steps // 2, n_steps, _N_KEPT + 1).round().astype(int))[1:]
    names, values, states, exchanges = _chains(
        machine, sampler, first, n_steps, rng, {*marks, *kept.tolist()}
    )
    found = [mixing(values[:, :, k]) for k in range(values.shape[2])]
    time, time_std, r_hat, ess, rho = (np.array(part) for part in zip(*found, strict=True))
    parts = {"exchanges": exchanges}
    if X is not None:
        X, rest = (to_numpy(rows).astype(np.float64) for rows in (X, rest))
        taken = []  # steps whose states are at least two autocorrelation times apart
        for step in sorted((step for step in states if 2 * step > n_steps), reverse=True):
            if not taken or taken[-1] - step >= 2 * np.nanmax(time, initial=1.0):
                taken.append(step)
        samples = np.concatenate([states[step] for step in taken])
        orders = range(1, min(3, X.shape[1]) + 1)
        parts["moments"] = tuple(compared_moments(X, samples, o, generator) for o in orders)
        n = min(len(rest), len(samples))
        some = (rows[generator.permutation(len(rows))[:n]] for rows in (rest, samples))
        parts["neighbours"] = neighbours(*some)
        if X.shape[1] > 1:
            by_sweeps = {step: states[step][:n_random] for step in marks}
            parts["quality"] = quality_by_sweeps(X, by_sweeps, generator)
    return Diagnosis(tuple(names), *values.shape[:2], time, time_std, r_hat, ess, rho.T, **parts)


def _chains(machine, sampler, first, n_steps, rng, wanted):
    """Return names and values of observables, states of the ``wanted`` steps, and exchanges.

    Values have the shape (n_kept, n_chains, n_observables), for the later half of the sweeps.
    """
    W, deep = machine.weights[0], len(machine.units) > 2
    n = min(_N_PROJECTIONS, *W.shape)
    matrix = to_numpy(W).astype(np.float64)
    vectors = randomized_svd(matrix, n, power_iteration_normalizer="QR", random_state=0)[2]
    vectors = cast(from_numpy(np.ascontiguousarray(vectors.T), W), W.dtype)
    names = ["energy" if deep else "free energy", *(f"projection {k + 1}" for k in range(n))]
    skipped, states = n_steps // 2, {0: to_numpy(first).astype(np.float64)}
    values = np.empty((n_steps - skipped, first.shape[0], len(names)))

    def callback(step, state, info):
        layers = state.layers
        if step > skipped:
            level = energy(machine, layers) if deep else free_energy(machine, layers[0])
            values[step - skipped - 1, :, 0] = to_numpy(level)
            values[step - skipped - 1, :, 1:] = to_numpy(matmul(layers[0], vectors))
        if step in wanted:
            states[step] = to_numpy(layers[0]).astype(np.float64)

    start, exchanges = sampler.state_at(machine, first, rng), None
    if sampler.has_rungs:
        _, exchanges = sampler.diagnose(machine, start, rng, n_steps, callback=callback)
    else:
        sample(sampler, machine, start, rng, n_steps, callback=callback)
    return names, values, states, exchanges
