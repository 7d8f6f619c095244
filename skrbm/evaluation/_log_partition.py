"""Log-partition functions: exact, by annealing, or by fixed points; and exact marginals."""

from dataclasses import dataclass, replace
from math import hypot

import numpy as np

from .._checks import check_count
from ..arrays import from_numpy, make_rng, one_blas_thread, seed_sequence, to_numpy
from ..exceptions import DivergenceError
from ..inference import (
    AIS,
    FIXED_POINTS,
    SMC,
    FixedPoint,
    Gibbs,
    LogPartition,
    Tempering,
    resolve,
    sample,
)
from ..machine import MAX_UNITS, _enumeration, in_double
from ._density import density_of, in_float64
from ._solutions import find_solutions

_ANNEALERS = {"ais": AIS(), "smc": SMC()}


def can_enumerate(model, max_units=MAX_UNITS):
    """Whether ``log_partition(model)`` sums log Z exactly, as a layer is small.

    Parameters
    ----------
    model : estimator or Machine
    max_units : int, default=20
        Largest number of binary units to enumerate.

    Returns
    -------
    bool
    """
    return _enumeration.can_enumerate(density_of(model).machine, max_units)


def exact_log_partition(model, max_units=MAX_UNITS):
    """Sum log Z over all configurations of the smaller binary layer.

    In a deep machine every other layer is enumerated, even or odd.

    Parameters
    ----------
    model : estimator or Machine
    max_units : int, default=20
        Largest number of binary units to enumerate; the time doubles with each.

    Returns
    -------
    float
        log Z in nats.

    Raises
    ------
    ValueError
        If no layer has so few configurations (in a deep machine: neither the even nor the odd
        layers).
    """
    machine = in_float64(density_of(model).machine)
    _enumeration.check_enumerable(machine, max_units)
    return float(_enumeration.log_partition(machine))


def exact_marginals(model, max_units=MAX_UNITS):
    """Sum the mean of every unit over all configurations of the smaller binary layer.

    Parameters
    ----------
    model : estimator or Machine
    max_units : int, default=20
        Largest layer that is enumerated.

    Returns
    -------
    tuple of ndarray
        E[x_l] of each layer, of shape (n_units[l],).
    """
    density = density_of(model)
    machine = in_float64(density.machine)
    _enumeration.check_enumerable(machine, max_units)
    means = _enumeration.means(machine, range(len(machine.units)))
    means[0] = to_numpy(density.outward(from_numpy(means[0], machine.weights[0])))
    return tuple(means)


def log_partition(
    model,
    method="auto",
    *,
    max_units=MAX_UNITS,
    starts=None,
    base=None,
    random_state=None,
):
    """Compute or estimate the log-partition function.

    Parameters
    ----------
    model : estimator or Machine
    method : str or object, default="auto"
        "exact"; "smc" or an :class:`SMC`; "ais" or an :class:`AIS`; "tempering" or a
        :class:`~skrbm.inference.Tempering`: Bennett's ratio along the ladder of the estimator, else
        along one built by annealing; "tap", "tap3", "adaptive_tap",
        "naive_mean_field", "relaxed_bp", "bethe" or a fixed-point object: minus the mean free
        energy of its unique solutions from ``starts`` (Eq. 39 of Tramel et al. 2018).
        "auto" is "exact" if a layer is small enough, else "tempering" if the estimator has a
        ladder, else "smc".
    max_units : int, default=20
        Largest number of binary units to enumerate.
    starts : array of shape (n_starts, n_visible), default=None
        Initial values of fixed points; default: the estimator's ``starts_``, else the ends of 100
        short Gibbs chains.
    base : Theta, default=None
        Visible parameters of the independent units where annealing starts; default: binary and
        Gaussian units fitted to ``starts`` (variances at least the machine's own), others the
        machine's own. :class:`SMC` tries others too. A ladder has its own.
    random_state : int, RandomState or SeedSequence, default=None

    Returns
    -------
    LogPartition
        ``value``, ``std``, ``ess`` and the ``interval`` of 95 %.
    """
    density = density_of(model)
    machine = in_double(density.machine)
    density = replace(density, machine=machine)
    base = None if base is None else density.checked_base(base)
    ladder = density.ladder
    auto = SMC() if ladder is None else Tempering()
    method = method_of(method, None if can_enumerate(machine, max_units) else auto)
    if method is None:
        return LogPartition(exact_log_partition(machine, max_units))
    rng = make_rng(random_state, machine.weights[0])
    if isinstance(method, AIS | SMC | Tempering):
        if base is None and (starts is not None or density.starts is not None):
            base = density.independent_units(density.starting_rows(starts, rng))
        if isinstance(method, Tempering):
            method = method.on(machine, rng, ladder, base)
        return method.log_partition(machine, rng, base)
    starts = density.starting_rows(starts, rng)
    with np.errstate(over="ignore", invalid="ignore"):  # the result says so below
        value = find_solutions(machine, method, starts).log_partition()
    if not np.isfinite(value):
        raise DivergenceError(
            f"log Z by {method} is {value}: the solutions diverge; use "
            "TruncatedGaussian(lower, upper) or smaller weights"
        )
    return LogPartition(value, float("nan"))


@one_blas_thread
def reverse_log_partition(
    model, starts=None, *, method="ais", burn_in=1000, base=None, random_state=None
):
    """Estimate the log-partition function by annealing from samples of the machine.

    The samples are the ends of Gibbs chains. If these have the machine's distribution, log Z is
    overestimated on average, where AIS underestimates it: the two bracket it, unless both miss the
    same mode (see :class:`AIS`).

    Parameters
    ----------
    model : estimator or Machine
    starts : array of shape (n_chains, n_visible), default=None
        Visible values where the chains start, such as rows of data; default: the estimator's
        ``starts_``, else draws without couplings.
    method : "ais", "smc", AIS or SMC, default="ais"
        :class:`AIS` has one chain for each start; :class:`SMC` has its own number of chains, and
        repeats starts.
    burn_in : int, default=1000
        Gibbs sweeps before the annealing.
    base : Theta, default=None
        Visible parameters of the independent units where the path ends; default as in
        :func:`log_partition`.
    random_state : int, RandomState or SeedSequence, default=None

    Returns
    -------
    LogPartition
        ``value``, ``std`` and ``ess``.
    """
    density = density_of(model)
    machine = in_double(density.machine)
    density = replace(density, machine=machine)
    base = None if base is None else density.checked_base(base)
    method = resolve(method, AIS, SMC, argument="method", own=_ANNEALERS)
    rng = make_rng(random_state, machine.weights[0])
    starts = density.starting_rows(starts, rng)
    check_count("burn_in", burn_in, 0)
    base = density.independent_units(starts) if base is None else base
    chains = sample(Gibbs(), machine, Gibbs().state_at(machine, starts, rng), rng, burn_in)
    return method.reverse_log_partition(machine, rng, chains.layers, base)


@dataclass(frozen=True)
class Bracket:
    """Two estimates of log Z, of which the first is too small and the second too large on average.

    Attributes
    ----------
    forward : LogPartition
        By chains from independent units to the machine.
    reverse : LogPartition
        By chains from samples of the machine to independent units.
    """

    forward: LogPartition
    reverse: LogPartition

    @property
    def gap(self):
        """The reverse estimate minus the forward one, in nats."""
        return self.reverse.value - self.forward.value

    @property
    def std(self):
        """Standard error of the gap."""
        return hypot(self.forward.std, self.reverse.std)

    @property
    def agrees(self):
        """Whether the estimates differ by at most three standard errors."""
        return abs(self.gap) <= 3 * self.std

    def __str__(self):
        below, above = (f"{e.value:.2f} ± {e.std:.2f}" for e in (self.forward, self.reverse))
        return f"log Z {below} (forward), {above} (reverse)"


def bracket(model, starts=None, *, method="smc", burn_in=1000, base=None, random_state=None):
    """Estimate log Z from below and from above.

    Parameters
    ----------
    model : estimator, Density or Machine
    starts : array of shape (n_starts, n_visible), default=None
        Visible values where the chains of the reverse estimate start, such as rows of data; as in
        :func:`reverse_log_partition`.
    method : "smc", "ais" or object, default="smc"
        Of both estimates.
    burn_in : int, default=1000
        Gibbs sweeps from the starts before the reverse annealing.
    base : Theta, default=None
        Visible parameters of independent units, as in :func:`log_partition`.
    random_state : int, RandomState or SeedSequence, default=None

    Returns
    -------
    Bracket
        ``forward``, ``reverse``, ``gap``, ``std`` and ``agrees``.

    Notes
    -----
    If the reverse estimate is larger, forward chains missed modes: use more temperatures or chains,
    and quote the larger log Z. If it is smaller, its chains do not have the distribution of the
    machine: use a longer ``burn_in`` or other starts. If the two agree, both may still miss the
    same mode.
    """
    density = density_of(model)
    method = resolve(method, AIS, SMC, argument="method", own=_ANNEALERS)
    first, second = seed_sequence(random_state).spawn(2)
    above = reverse_log_partition(
        density, starts, method=method, burn_in=burn_in, base=base, random_state=second
    )
    below = log_partition(density, method, base=base, random_state=first)
    return Bracket(below, above)


def method_of(method, auto):
    """Return the method of a name, ``auto`` for "auto" and None for "exact"."""
    own = {"auto": auto, "exact": None, **_ANNEALERS}
    own["bethe"] = FIXED_POINTS["bp"]
    return resolve(method, FixedPoint, AIS, SMC, Tempering, argument="method", own=own)
