"""Diagnosis of the chains of a machine, and of its samples against data."""

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtr, stdtrit
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
    row_blocks,
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
from ._agreement import Neighbours, Quality, compared_moments, neighbours, quality_by_sweeps
from ._density import density_of
from ._mixing import mixing

_N_PROJECTIONS = 5
_N_MARKS = 12  # numbers of sweeps after which samples are compared with data
_N_KEPT = 10  # states of a chain that are samples at most
_MOST_ROWS = 10_000  # of data that are compared
_N_LINES = 8  # printed observables, those with the largest R-hat
_MAX_R_HAT = 1.1
_MIN_ESS = 100
_MIN_ROUND_TRIPS = 100
_N_STD = 4  # standard errors of a significant difference: a chance of 3e-5 for a normal one


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """How the chains of a machine mix, and how its samples agree with data.

    ``print`` shows a table. Checks are None where the data or the ladder that they need are
    missing.

    Attributes
    ----------
    observables : tuple of str
        The measured quantities: the free energy (of a deep machine the energy) and projections of
        the visible units on the leading singular vectors of the weights; without a machine, each
        feature.
    n_steps, n_chains : int
        Sweeps that count, and chains.
    time, time_std : ndarray of shape (n_observables,)
        Integrated autocorrelation time in sweeps, by the initial monotone sequence of Geyer
        (1992) over all chains, and its standard error by the formula of Madras and Sokal (1988).
    r_hat : ndarray of shape (n_observables,)
        Rank-normalised split R-hat (Vehtari et al. 2021). NaN, as the others, for constants.
    ess : ndarray of shape (n_observables,)
        Effective sample size of all chains (the same).
    autocorrelation : ndarray of shape (n_steps, n_observables)
        By lag, from 0.
    moments : tuple of ComparedMoments
        Connected moments of first, second and third order, empty without data. Each has ``data``,
        ``samples``, ``correlation``, ``slope``, ``error``, and the ``noise`` and ``limit`` of it.
    neighbours : Neighbours
        Nearest-neighbour adversarial accuracies ``truth`` and ``synth`` and their ``std``; NaN
        without data.
    quality : Quality or None
        Errors of moments by the number of ``sweeps`` from random starts: if they fall and then
        rise, the machine was trained out of equilibrium (Decelle, Furtlehner and Seoane 2021).
    exchanges : Exchanges or None
        ``acceptance`` of the neighbours of a ladder, and ``round_trips`` of each chain in all its
        sweeps, if chains were run along one.
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
    neighbours: Neighbours = field(default_factory=Neighbours)
    quality: Quality | None = field(default=None, repr=False)
    exchanges: Exchanges | None = field(default=None, repr=False)

    @property
    def mixed(self):
        """Whether R-hat is at most 1.1 for all observables, and some are not constant."""
        return not np.isnan(self.r_hat).all() and bool(np.nanmax(self.r_hat) <= _MAX_R_HAT)

    @property
    def long_enough(self):
        """Whether the effective sample size is at least 100 for all observables."""
        return bool(np.nanmin(self.ess, initial=np.inf) >= _MIN_ESS)

    @property
    def ladder_connected(self):
        """Whether all rungs accept 10 % of exchanges or more, and 100 round trips were made."""
        if self.exchanges is None:
            return None
        rates, trips = self.exchanges.acceptance, self.exchanges.round_trips
        return bool(np.nanmin(rates) >= RARE_EXCHANGES and trips.sum() >= _MIN_ROUND_TRIPS)

    @property
    def in_equilibrium(self):
        """False if moments of samples become significantly worse after their best sweep."""
        q = self.quality
        if q is None:
            return None
        n_std = stdtrit(q.n_chains - 1, ndtr(_N_STD))  # standard errors of few chains are uncertain
        return not (q.fall > n_std * q.fall_std and q.rise > n_std * q.rise_std)

    @property
    def copies_data(self):
        """Whether rows of data are significantly closer to samples than to other rows."""
        if not self.moments:
            return None
        truth, _, std = self.neighbours
        return bool(truth < 0.5 - _N_STD * std)

    @property
    def matches_data(self):
        """Whether first and second moments, and neighbours, agree up to noise."""
        if not self.moments:
            return None
        truth, synth, std = self.neighbours
        far = max(truth, synth) > 0.5 + _N_STD * std
        return not far and all(m.error <= m.limit for m in self.moments[:2])

    @property
    def summary(self):
        """The failed checks, in one line."""
        failed = {
            "trained out of equilibrium": self.in_equilibrium is False,
            "the ladder is not connected": self.ladder_connected is False,
            "chains do not mix": not self.mixed,
            "chains are too short": not self.long_enough,
            "samples copy the data": self.copies_data,
            "samples differ from the data": self.matches_data is False,
        }
        return "; ".join(text for text, is_failed in failed.items() if is_failed) or "no problem"

    def __str__(self):
        lines = [f"{self.n_chains} chains of {self.n_steps} sweeps: {self.summary}"]
        lines.append(f"{'':16s} {'time':>8s} {'std':>8s} {'R-hat':>7s} {'ESS':>8s}")
        worst = np.sort(np.argsort(-np.nan_to_num(self.r_hat), kind="stable")[:_N_LINES])
        lines += [
            f"{self.observables[k]:16s} {self.time[k]:8.4g} {self.time_std[k]:8.3g} "
            f"{self.r_hat[k]:7.3f} {self.ess[k]:8.0f}"
            for k in worst
        ]
        if self.exchanges is not None:
            rates, trips = self.exchanges.acceptance, self.exchanges.round_trips
            lines.append(
                f"ladder: {rates.size + 1} rungs, acceptance {np.nanmin(rates):.2f} to "
                f"{np.nanmax(rates):.2f}, {trips.sum()} round trips"
            )
        lines += [
            f"moments of order {order}: error {m.error:.2g} (limit {m.limit:.2g})"
            for order, m in enumerate(self.moments, 1)
        ]
        if self.moments:
            truth, synth, std = self.neighbours
            lines.append(f"adversarial accuracy: {truth:.2f}, {synth:.2f} ± {std:.2f}")
        return "\n".join(lines)


@one_blas_thread
def diagnose(
    model=None,
    X=None,
    *,
    chains=None,
    method="auto",
    n_chains=100,
    n_steps=1000,
    random_state=None,
):
    """Diagnose how well the chains of a machine mix, and how its samples agree with data.

    Half of the chains start at rows of X (or of the model's ``starts_``), the others at draws of
    the visible units without couplings. The later half of the sweeps counts.

    Parameters
    ----------
    model : estimator, Density or Machine, default=None
        Needed unless chains are given.
    X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
        Data to compare samples with, preferably held out; at most 10 000 random rows are used.
        Values of binary units between 0 and 1 are probabilities, by which bits are drawn. Leave
        out rows with missing values: rows imputed by the machine agree with it by construction.
    chains : array-like of shape (n_steps, n_chains, n_features), default=None
        Chains to diagnose, in the coordinates of the data, instead of running some. All steps
        count. With a model its observables are measured; without, each feature is one, and a
        single observable may have the shape (n_steps, n_chains).
    method : {"auto", "gibbs", "tempering"} or Sampler, default="auto"
        Block Gibbs sampling, or tempering along the ladder of the estimator, else along one built
        by annealing. "auto" is "tempering" if the estimator has a ladder.
    n_chains : int, default=100
        Number of chains that are run, at least 4.
    n_steps : int, default=1000
        Sweeps of each chain that is run, at least 8.
    random_state : int, RandomState or SeedSequence, default=None

    Returns
    -------
    Diagnosis
        Its checks ``mixed``, ``long_enough``, ``in_equilibrium``, ``matches_data``,
        ``copies_data`` and ``ladder_connected``, and the numbers behind them.

    Raises
    ------
    ValueError
        If neither model nor chains are given, shapes do not fit, or X has NaN.

    Notes
    -----
    Chains that agree may all miss the same mode; :func:`bracket` is another test of that.
    """
    seeds = seed_sequence(random_state).spawn(2)
    generator = np.random.default_rng(seeds[0])
    if model is None and chains is None:
        raise ValueError("model or chains must be given")
    density = None if model is None else density_of(model)
    if X is not None:
        X = _checked_data(density, X, chains)
        if X.shape[0] < 2:
            raise ValueError("X must have at least two rows")
        if X.shape[0] > _MOST_ROWS:
            X = take_rows(X, generator.permutation(X.shape[0])[:_MOST_ROWS])
        if density is not None and density.machine.units[0].is_binary:
            X = _as_bits(X, generator)
    if chains is not None:
        names, values, kept = _given(density, chains)
        return _diagnosis(names, values, kept, X, X, generator)
    check_count("n_chains", n_chains, 4)
    check_count("n_steps", n_steps, 8)
    rng = make_rng(seeds[1], density.machine.weights[0])
    sampler = _sampler(density, method, rng)
    return _run(density, sampler, X, n_chains, n_steps, rng, generator)


def _sampler(density, method, rng):
    """Return the sampler behind a name, with rungs if it is tempering."""
    own = {"auto": Gibbs() if density.ladder is None else Tempering()}
    sampler = resolve(method, Sampler, argument="method", own=own)
    sampler.check(density.machine)
    if not sampler.has_rungs:
        return sampler
    base = None if density.starts is None else density.independent_units(density.starts)
    return sampler.on(density.machine, rng, density.ladder, base)


def _checked_data(density, X, chains):
    """Return X as visible values of the machine, or as it is if there is none."""
    if density is not None:
        return density.visible(X)
    X = np.asarray(to_numpy(X), dtype=np.float64)
    shape = np.shape(chains)
    if X.ndim != 2 or len(shape) != 3 or X.shape[1] != shape[2]:
        raise ValueError(
            f"X has shape {X.shape} and chains {shape}; X must be (n_samples, n_features) and "
            "chains (n_steps, n_chains, n_features)"
        )
    return X


def _as_bits(X, generator):
    """Return rows of probabilities as bits drawn by them, which are what samples are like."""
    stored = X.data if sp.issparse(X) else to_numpy(X)
    if ((stored == 0) | (stored == 1)).all():
        return X
    X = dense(X)
    rows = to_numpy(X)
    return from_numpy((generator.random(rows.shape) < rows).astype(rows.dtype), X)


def _run(density, sampler, X, n_chains, n_steps, rng, generator):
    """Run chains and return their diagnosis."""
    machine = density.machine
    starts = density.starts if X is None else X
    rest, n_random = X, n_chains
    if starts is not None:
        order, n_random = generator.permutation(starts.shape[0]), n_chains // 2
        n_rows = n_chains - n_random
        if X is not None and X.shape[0] >= 2 * n_rows:  # rows that no chain starts at
            rest = take_rows(X, order[n_rows:])
        starts = take_rows(starts, np.resize(order, n_rows))
    first = draw_visible(machine, rng, n_random)
    if starts is not None:
        first = namespace(first).concat([first, cast(starts, first.dtype)], axis=0)
    (names, values), states, exchanges = _chains(machine, sampler, first, n_steps, rng)
    later = {step: rows for step, rows in states.items() if 2 * step > n_steps}
    marks = None if X is None else {step: states[step][:n_random] for step in _marks(n_steps)}
    return _diagnosis(names, values, later, X, rest, generator, marks, exchanges)


def _chains(machine, sampler, first, n_steps, rng):
    """Return observables of the later half of chains, states by step, and exchanges."""
    names, observe = _observables(machine)
    n_kept, states = n_steps - n_steps // 2, {0: to_numpy(first).astype(np.float64)}
    values = np.empty((n_kept, first.shape[0], len(names)))
    wanted = {*_marks(n_steps), *_spread(n_steps - n_kept, n_steps)}

    def callback(step, state, info):
        if step > n_steps - n_kept:
            values[step - n_steps + n_kept - 1] = observe(state.layers)
        if step in wanted:
            states[step] = to_numpy(state.layers[0]).astype(np.float64)

    start, exchanges = sampler.state_at(machine, first, rng), None
    if sampler.has_rungs:
        _, exchanges = sampler.diagnose(machine, start, rng, n_steps, callback=callback)
    else:
        sample(sampler, machine, start, rng, n_steps, callback=callback)
    return (names, values), states, exchanges


def _observables(machine):
    """Return the names of observables, and a function of layers that measures them."""
    W, deep = machine.weights[0], len(machine.units) > 2
    n = min(_N_PROJECTIONS, *W.shape)
    matrix = to_numpy(W).astype(np.float64)
    vectors = randomized_svd(matrix, n, power_iteration_normalizer="QR", random_state=0)[2]
    vectors = cast(from_numpy(np.ascontiguousarray(vectors.T), W), W.dtype)

    def observe(layers):
        projections = to_numpy(matmul(layers[0], vectors))
        if deep and layers[1] is None:
            return projections
        level = energy(machine, layers) if deep else free_energy(machine, layers[0])
        return np.column_stack([to_numpy(level), projections])

    names = ["energy" if deep else "free energy", *(f"projection {k + 1}" for k in range(n))]
    return names, observe


def _given(density, chains):
    """Return names and values of observables of a user's chains, and states by step."""
    chains = to_numpy(chains).astype(np.float64)
    is_whole = chains.ndim in (2, 3) and chains.size > 0 and np.isfinite(chains).all()
    if not is_whole or chains.shape[0] < 4:
        raise ValueError(
            "chains must be finite, of shape (n_steps, n_chains, n_features) or (n_steps, "
            f"n_chains), with at least 4 steps and a chain, got shape {chains.shape}"
        )
    if density is None:
        names = [f"feature {k}" for k in range(chains.shape[2])] if chains.ndim == 3 else ["chains"]
        values, visible = chains.reshape(*chains.shape[:2], -1), chains
    else:
        names, values, visible = _measured(density, chains)
    if chains.ndim == 2:
        return names, values, {}
    steps = _spread(0, len(chains))
    return names, values, {step: visible[step - 1] for step in steps}


def _measured(density, chains):
    """Return names and values of a machine's observables, and chains in its coordinates."""
    if chains.ndim != 3:
        raise ValueError(
            "with a model, chains must have the shape (n_steps, n_chains, n_features), got "
            f"{chains.shape}"
        )
    machine, shape = density.machine, chains.shape
    visible = density.visible(chains.reshape(-1, shape[2]), "chains")
    names, observe = _observables(machine)
    unknown = (None,) * len(machine.weights)
    values = np.array([observe((rows, *unknown)) for rows in row_blocks(visible, shape[1])])
    return names[-values.shape[2] :], values, to_numpy(visible).astype(np.float64).reshape(shape)


def _diagnosis(names, values, states, X, rest, generator, marks=None, exchanges=None):
    """Return the :class:`Diagnosis` of observables, and of states by step if there are data X."""
    found = [mixing(values[:, :, k]) for k in range(values.shape[2])]
    time, time_std, r_hat, ess, rho = (np.array(part) for part in zip(*found, strict=True))
    parts = {"exchanges": exchanges}
    if X is not None:
        X, rest = (to_numpy(rows).astype(np.float64) for rows in (X, rest))
        samples = _thinned(states, 2 * np.nanmax(time, initial=1.0))
        orders = range(1, min(3, X.shape[1]) + 1)
        parts["moments"] = tuple(compared_moments(X, samples, o, generator) for o in orders)
        n = min(len(rest), len(samples))
        if n > 1:
            some = (rows[generator.permutation(len(rows))[:n]] for rows in (rest, samples))
            parts["neighbours"] = neighbours(*some)
        if marks is not None and X.shape[1] > 1:
            parts["quality"] = quality_by_sweeps(X, marks, generator)
    return Diagnosis(tuple(names), *values.shape[:2], time, time_std, r_hat, ess, rho.T, **parts)


def _marks(n_steps):
    """Return rising numbers of sweeps, 0 and then from 1 to ``n_steps`` by equal factors."""
    return [0, *np.unique(np.geomspace(1, n_steps, _N_MARKS).round().astype(int)).tolist()]


def _spread(first, last):
    """Return some steps after ``first``, evenly up to ``last``."""
    steps = np.unique(np.linspace(first, last, _N_KEPT + 1).round().astype(int))
    return steps[steps > first].tolist()


def _thinned(states, distance):
    """Return states that are at least a number of steps apart, from the last one backwards."""
    taken = []
    for step in sorted(states, reverse=True):
        if not taken or taken[-1] - step >= distance:
            taken.append(step)
    return np.concatenate([states[step] for step in taken])
