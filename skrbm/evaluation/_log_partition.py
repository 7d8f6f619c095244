"""Log-partition functions: exact, by annealing, or by fixed points."""

from dataclasses import dataclass, replace
from math import hypot

from .._checks import check_count
from ..arrays import dense, make_rng, namespace, one_blas_thread, seed_sequence
from ..inference import (
    AIS,
    CORRELATED,
    FIXED_POINTS,
    LADDER_STEPS,
    N_CHECKED,
    SMC,
    FixedPoint,
    Gibbs,
    LogPartition,
    Tempering,
    chain_autocorrelation,
    ends_of,
    is_small,
    resolve,
    sample,
    some_rows,
)
from ..machine import MAX_UNITS, _enumeration, in_double
from ..units import Theta
from ._density import density_of, in_float64
from ._solutions import find_solutions

_ANNEALERS = {"ais": AIS(), "smc": SMC()}
_N_SAMPLES = 200  # fewest of a ladder: few starts would not have the right shares of modes


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
    model : estimator, Density or Machine
    method : str or object, default="auto"
        "exact"; "smc" or an :class:`SMC`; "ais" or an :class:`AIS`; "tempering" or a
        :class:`~skrbm.inference.Tempering`, which use Bennett's ratio along the ladder of the
        estimator, or along one built by annealing; "tap", "tap3", "adaptive_tap",
        "naive_mean_field", "relaxed_bp", "bethe" or a fixed-point object, which give minus the mean
        free energy of their distinct solutions from ``starts`` (Eq. 39 of Tramel et al. 2018).
        "auto" is "exact" if a layer is small enough, otherwise "tempering" if the estimator has a
        ladder, and "smc" if not.
    max_units : int, default=20
        Maximum number of binary units to enumerate in a layer (in a deep model, in every other
        layer). The time doubles with each unit.
    starts : array of shape (n_starts, n_visible), default=None
        Visible values at which fixed-point iterations start; by default ``starts_`` of the
        estimator, or the ends of 100 short Gibbs chains.
    base : Theta, default=None
        Parameters of the independent visible units at which annealing starts. By default binary
        and Gaussian units are fitted to ``starts`` (with variances at least those of the model),
        and others keep the parameters of the model. :class:`SMC` tries others too. Not used with a
        ladder, which has its own.
    random_state : int, RandomState or SeedSequence, default=None

    Returns
    -------
    LogPartition
        With ``value``, ``std``, ``ess`` and the 95 % confidence ``interval``.

    Raises
    ------
    ValueError
        If the method is "exact" and no layer is small enough.
    DivergenceError
        If the distribution cannot be normalized, or solutions of fixed points diverge.
    """
    runs_serve = isinstance(method, str) and method == "auto" and base is None and starts is None
    density, base = _in_double(model, base)
    machine, ladder = density.machine, density.ladder
    own = {"exact": None, "auto": SMC() if ladder is None else Tempering(), **_ANNEALERS}
    own["bethe"] = FIXED_POINTS["bp"]
    if _enumeration.can_enumerate(machine, max_units):
        own["auto"] = None
    method = resolve(method, FixedPoint, AIS, SMC, Tempering, argument="method", own=own)
    if method is None:
        _enumeration.check_enumerable(machine, max_units)
        return LogPartition(float(_enumeration.log_partition(in_float64(machine))))
    rng = make_rng(random_state, machine.weights[0])
    if isinstance(method, AIS | SMC | Tempering):
        if base is None and (starts is not None or density.starts is not None):
            base = density.independent_units(density.starting_rows(starts, rng))
        if runs_serve and density.runs is not None and isinstance(method, SMC):
            return method.refined(machine, rng, base, density.runs)
        if isinstance(method, Tempering):
            method = method.on(machine, rng, ladder, base)
        return method.log_partition(machine, rng, base)
    starts = density.starting_rows(starts, rng)
    return LogPartition(find_solutions(machine, method, starts).log_partition(), float("nan"))


@one_blas_thread
def reverse_log_partition(
    model, starts=None, *, method="ais", burn_in=1000, base=None, random_state=None
):
    """Estimate the log-partition function by annealing from samples of the model.

    The samples are the ends of Gibbs chains. If these have the distribution of the model, log Z is
    overestimated on average, whereas AIS underestimates it. The two bracket log Z, unless both miss
    the same mode (see :class:`AIS`).

    Parameters
    ----------
    model : estimator, Density or Machine
    starts : array of shape (n_chains, n_visible), default=None
        Visible values at which the chains start, such as rows of data. By default ``starts_`` of
        the estimator, or draws without couplings. Where ``sample`` of an estimator would use a
        ladder, samples of the ladder are used instead (as many, but at least 200): after a fit with
        ``start="tempered"``, and for at most 32,768 weights if chains do not mix.
    method : "ais", "smc", AIS or SMC, default="ais"
        :class:`AIS` uses one chain for each start; :class:`SMC` has its own number of chains, and
        repeats the starts.
    burn_in : int, default=1000
        Number of Gibbs sweeps before the annealing.
    base : Theta, default=None
        Parameters of the independent visible units at which the path ends; by default as in
        :func:`log_partition`.
    random_state : int, RandomState or SeedSequence, default=None

    Returns
    -------
    LogPartition
        With ``value``, ``std`` and ``ess``.
    """
    density, base = _in_double(model, base)
    machine = density.machine
    method = resolve(method, AIS, SMC, argument="method", own=_ANNEALERS)
    rng = make_rng(random_state, machine.weights[0])
    check_count("burn_in", burn_in, 0)
    rows = density.starting_rows(starts, rng)
    if starts is None:
        rows = _of_all_modes(density, rows, rng)
    base = density.independent_units(rows) if base is None else base
    chains = sample(Gibbs(), machine, Gibbs().state_at(machine, rows, rng), rng, burn_in)
    return method.reverse_log_partition(machine, rng, chains.layers, base)


def _of_all_modes(density, rows, rng):
    """Return rows where chains start, or if chains do not mix samples of a ladder, 200 or more."""
    machine, ladder = density.machine, density.ladder
    if ladder is None:
        few = dense(some_rows(rows, N_CHECKED))
        if not is_small(machine) or chain_autocorrelation(machine, few, rng) <= CORRELATED:
            return rows
    sampler = Tempering().on(machine, rng, ladder, density.independent_units(rows))
    rows = some_rows(rows, max(_N_SAMPLES, rows.shape[0]))
    return ends_of(sampler, machine, rng, rows, LADDER_STEPS, from_ladder=True)


def _in_double(model, base):
    """Return the density of a model in :func:`in_double`, and a user's base in its coordinates."""
    density = density_of(model)
    machine = in_double(density.machine)
    density, unit, own = replace(density, machine=machine), machine.units[0], machine.thetas[0]
    if base is None:
        return density, None
    if not own.is_like(base):
        names = [name for name, part in zip(Theta._fields, own, strict=True) if part is not None]
        raise ValueError(
            f"base must be a Theta of the visible units, with finite arrays {names} of shape "
            f"({machine.n_units[0]},), got {base!r}"
        )
    base = Theta(*base)
    improper = unit.is_improper(base)
    if improper is not None and bool(namespace(improper).any(improper)):
        raise ValueError(f"base must have positive precisions for {unit}, got {base!r}")
    if density.coordinates is not None:
        offset, divisor = density.coordinates
        field = (base.field - base.precision * offset) * divisor
        base = base._replace(field=field, precision=base.precision * divisor**2)
    return density, base


@dataclass(frozen=True)
class Bracket:
    """Two estimates of log Z: on average, the first is too small and the second too large.

    Attributes
    ----------
    forward : LogPartition
        Estimate by chains from independent units to the model.
    reverse : LogPartition
        Estimate by chains from samples of the model to independent units.
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
        Visible values at which the chains of the reverse estimate start, such as rows of data; see
        :func:`reverse_log_partition`.
    method : "smc", "ais" or object, default="smc"
        Method of both estimates.
    burn_in : int, default=1000
        Number of Gibbs sweeps from the starts before the reverse annealing.
    base : Theta, default=None
        Parameters of the independent visible units, as in :func:`log_partition`.
    random_state : int, RandomState or SeedSequence, default=None

    Returns
    -------
    Bracket
        With ``forward``, ``reverse``, ``gap``, ``std`` and ``agrees``.

    Notes
    -----
    If the reverse estimate is significantly larger, the forward chains missed modes: use more
    temperatures or chains, and report the larger log Z. If it is smaller, the reverse chains do not
    have the distribution of the model: use a longer ``burn_in`` or other starts. Even if the two
    agree, both may miss the same mode.
    """
    method = resolve(method, AIS, SMC, argument="method", own=_ANNEALERS)
    first, second = seed_sequence(random_state).spawn(2)
    above = reverse_log_partition(
        model, starts, method=method, burn_in=burn_in, base=base, random_state=second
    )
    return Bracket(log_partition(model, method, base=base, random_state=first), above)
