"""How good a machine is: log-partition functions, likelihoods, and methods held against each other.

Every function takes a fitted estimator or a :class:`~skrbm.machine.Machine`. A
:class:`~skrbm.ConditionalRBM` is none of these, as it has another machine, and another log Z, for
each row of features.
"""

from dataclasses import replace

import numpy as np
from sklearn.exceptions import NotFittedError

from ._checks import check_count
from ._solutions import Solutions, find_solutions, unique_solutions
from .arrays import (
    cast,
    is_finite,
    like,
    make_rng,
    namespace,
    one_blas_thread,
    row_blocks,
    softplus,
    to_numpy,
)
from .exceptions import DivergenceError
from .inference import AIS, FIXED_POINTS, FixedPoint, Gibbs, LogPartition, sample
from .inputs import check_rows, into_support
from .machine import (
    MAX_UNITS,
    Machine,
    _enumeration,
    above_visible,
    conditional,
    hidden_layers,
    in_double,
    input_field,
)
from .units import Theta

__all__ = [
    "AIS",
    "LogPartition",
    "Solutions",
    "compare",
    "exact_log_partition",
    "exact_marginals",
    "log_partition",
    "pseudo_log_likelihood",
    "reverse_log_partition",
    "solutions",
    "unique_solutions",
]

_BLOCK_ELEMENTS = 2**22  # of the largest temporary array in blockwise evaluation
_MAX_HIDDEN = 12  # units that are enumerated for each row and bit of a pseudo-likelihood


def _machine_of(model):
    if isinstance(model, Machine):
        return model
    if hasattr(model, "given"):
        raise TypeError(
            "a conditional machine has another distribution, and another log Z, for each row of "
            "features: use its score_samples(X, y) for log p(y | x), predict_proba(X) for "
            "marginals, or sample(X)"
        )
    try:
        precise = getattr(model, "_evaluated", None)
        return _machine_of((model if precise is None else precise()).machine_)
    except NotFittedError:
        raise
    except AttributeError as error:
        raise TypeError(
            f"model must be a fitted estimator of skrbm or a Machine, got {type(model).__name__}; "
            "from_parameters makes an estimator of arrays or of scikit-learn's BernoulliRBM"
        ) from error


def _centred(model):
    """Return the model in the coordinates in which its energy is defined, for log Z."""
    centred = getattr(model, "_centred", None)
    return model if centred is None else centred()


def _offset(model):
    """Return what the model's visible values lie off the coordinates of its machine."""
    return getattr(model, "_offset", None)


def _visible_rows(model, machine, name, X):
    """Return X as dense visible values, thresholded or clipped as the estimator does."""
    X = check_rows(name, X, machine.n_units[0], machine.weights[0])
    X = into_support(X, machine.units[0], getattr(model, "binarize", None))
    return X if _offset(model) is None else X - _offset(model)


def _given_base(model, machine, base):
    """Return parameters of independent visible units that are given, in the model's coordinates."""
    if base is None:
        return None
    own = machine.thetas[0]
    kinds = isinstance(base, Theta) and [part is None for part in base]
    if kinds != [part is None for part in own] or not all(
        getattr(part, "shape", None) == own.field.shape and is_finite(part)
        for part in base
        if part is not None
    ):
        names = [name for name, part in zip(Theta._fields, own, strict=True) if part is not None]
        raise ValueError(
            f"base must be a Theta of the visible units, with finite arrays {names} of shape "
            f"({machine.n_units[0]},), got {base!r}"
        )
    improper = machine.units[0].is_improper(base)
    if improper is not None and bool(namespace(improper).any(improper)):
        raise ValueError(f"base must have positive precisions for {machine.units[0]}, got {base!r}")
    if _offset(model) is None:
        return base
    return base._replace(field=base.field - base.precision * _offset(model))


def can_enumerate(model, max_units=MAX_UNITS):
    """Whether every other layer is small enough for log Z to be summed exactly."""
    return _enumeration.can_enumerate(_machine_of(model), max_units)


def _double(machine):
    return machine.astype(namespace(machine.weights[0]).float64)


def exact_log_partition(model, max_units=MAX_UNITS):
    """Sum log Z over all configurations of the smaller binary layer.

    In a deep machine these are every other layer, even or odd; the layers between are independent
    given them.

    Parameters
    ----------
    model : estimator or Machine
    max_units : int, default=20
        Most units that are enumerated; the time doubles with each unit, the memory does not.

    Returns
    -------
    float
        log Z in nats.

    Raises
    ------
    ValueError
        If no layer is binary and has at most ``max_units`` units (in a deep machine: neither the
        even nor the odd layers).
    """
    machine = _double(_machine_of(_centred(model)))
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
    model = _centred(model)
    machine = _double(_machine_of(model))
    log_z = exact_log_partition(machine, max_units)
    means = [np.zeros(n) for n in machine.n_units]
    for layers, log_weights in _enumeration.configurations(machine):
        weights = np.exp(to_numpy(log_weights) - log_z)
        for l, values in enumerate(layers):
            if values is None:
                values = machine.units[l].mean(conditional(machine, l, layers))
            means[l] += weights @ to_numpy(values)
    if _offset(model) is not None:
        means[0] += to_numpy(_offset(model))
    return tuple(means)


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
    model, method = _centred(model), _resolve(method)
    if not isinstance(method, FixedPoint):
        raise ValueError(f"method must be a fixed point, one of {sorted(FIXED_POINTS)}, not AIS")
    machine, offset = _machine_of(model), _offset(model)
    rng = make_rng(random_state, machine.weights[0])
    found = find_solutions(machine, method, _starts(model, machine, starts, rng), unique_tol)
    if offset is None:
        return found
    means = (found.means[0] + offset, *found.means[1:])
    return replace(found, means=means, starts=found.starts + offset)


def _starts(model, machine, starts, rng, n=100):
    """Return visible rows to start at: those given, an estimator's, or short Gibbs chains."""
    if starts is not None:
        return _visible_rows(model, machine, "starts", starts)
    if hasattr(model, "starts_"):
        return cast(model.starts_, machine.dtype)
    chains = Gibbs().init(machine, rng, n, machine.weights[0])
    return sample(Gibbs(), machine, chains, rng, 100).layers[0]


def _base(machine, starts):
    """Return visible parameters of the independent units where annealing starts."""
    return machine.units[0].base_theta(machine.thetas[0], starts)


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
        "exact"; "ais" or an :class:`AIS`; "tap", "tap3", "adaptive_tap", "naive_mean_field",
        "relaxed_bp", "bethe" (of belief propagation, "bp") or a fixed-point object: minus the free
        energy, averaged over its unique solutions from ``starts`` (Eq. 39 of Tramel et al. 2018).
        "auto" is "exact" where a layer is small enough, else "ais".
    max_units : int, default=20
        Most units that "exact" and "auto" enumerate.
    starts : array of shape (n_starts, n_visible), default=None
        Where fixed points start; default: the estimator's ``starts_``, else the ends of 100 short
        Gibbs chains.
    base : Theta, default=None
        Visible parameters of the independent units where AIS starts; default: those of binary
        units fitted to ``starts`` where given, else to the estimator's; of Gaussian units the same,
        but with variances no smaller than the machine's own, as marginal variances cannot be; of
        others the machine's own.
    random_state : int, RandomState or SeedSequence, default=None

    Returns
    -------
    LogPartition
        ``value``, ``std`` and ``ess``.
    """
    model = _centred(model)
    machine = in_double(_machine_of(model))
    base = _given_base(model, machine, base)
    if isinstance(method, str) and method == "auto":
        method = "exact" if can_enumerate(machine, max_units) else "ais"
    if isinstance(method, str) and method == "exact":
        return LogPartition(exact_log_partition(machine, max_units))
    rng = make_rng(random_state, machine.weights[0])
    method = _resolve(method)
    if isinstance(method, AIS):
        if base is None and (starts is not None or hasattr(model, "starts_")):
            base = _base(machine, _starts(model, machine, starts, rng))
        return method.log_partition(machine, rng, base)
    starts = _starts(model, machine, starts, rng)
    with np.errstate(over="ignore", invalid="ignore"):  # the result says so below
        value = find_solutions(machine, method, starts).log_partition()
    if not np.isfinite(value):
        raise DivergenceError(
            f"log Z by {method} is {value}: the solutions grow without end, as they do if "
            "couplings between units without bounds are stronger than the units' precisions; use "
            "TruncatedGaussian(lower, upper) or smaller weights"
        )
    return LogPartition(value, float("nan"))


@one_blas_thread
def reverse_log_partition(
    model, starts=None, *, method=None, burn_in=1000, base=None, random_state=None
):
    """Estimate the log-partition function by annealing from samples of the machine.

    The samples are the ends of Gibbs chains. As far as these have the machine's law, log Z is
    overestimated on average, where AIS underestimates it: the two bracket a likelihood, unless
    both miss the same mode, as they often do where weights are strong (see :class:`AIS`).

    Parameters
    ----------
    model : estimator or Machine
    starts : array of shape (n_chains, n_visible), default=None
        Visible values where the chains start, such as rows of data; default: the estimator's
        ``starts_``, else draws without couplings.
    method : AIS, default=None
        Whose schedule and ``n_jobs`` are taken; default: ``AIS()``. A chain for each start.
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
    model = _centred(model)
    machine = in_double(_machine_of(model))
    base = _given_base(model, machine, base)
    method = AIS() if method is None else method
    if not isinstance(method, AIS):
        raise ValueError(f"method must be an AIS object, whose schedule is taken, got {method!r}")
    rng = make_rng(random_state, machine.weights[0])
    starts = _starts(model, machine, starts, rng)
    check_count("burn_in", burn_in, 0)
    base = _base(machine, starts) if base is None else base
    chains = sample(Gibbs(), machine, Gibbs().start(machine, starts, rng), rng, burn_in)
    return method.reverse_log_partition(machine, rng, chains.layers, base)


def _resolve(method):
    """Return the object behind the name of an approximate method."""
    methods = {"ais": AIS(), "bethe": FIXED_POINTS["bp"], **FIXED_POINTS}
    if isinstance(method, AIS | FixedPoint):
        return method
    if not isinstance(method, str) or method not in methods:
        raise ValueError(
            f"method must be 'auto', 'exact', one of {sorted(methods)}, or an AIS or fixed-point "
            f"object, got {method!r}"
        )
    return methods[method]


def pseudo_log_likelihood(model, X, bits=None):
    """Return sum_i log p(x_i | all other x) for each row, exactly.

    Parameters
    ----------
    model : estimator or Machine
        With binary visible units.
    X : array of shape (n_samples, n_visible)
        Values of the visible units, 0 or 1.
    bits : array of int, default=None
        Only these bits are summed, and the sum is scaled up to all of them.

    Returns
    -------
    array of shape (n_samples,), float64
        Pseudo-log-likelihood in nats.
    """
    machine = _machine_of(model)
    if machine.units[0].values != (0.0, 1.0):
        raise ValueError(
            f"the pseudo-likelihood needs binary visible units, not {machine.units[0]}"
        )
    hidden = _enumeration.n_enumerated(above_visible(machine))
    if hidden > _MAX_HIDDEN:
        raise ValueError(
            "the pseudo-likelihood sums over every other hidden layer, at most "
            f"{_MAX_HIDDEN} units, and this machine has hidden layers of {machine.n_units[1:]}; "
            "estimate the likelihood by log_partition('ais')"
        )
    X = _visible_rows(model, machine, "X", X)
    bits = _checked_bits(bits, X.shape[1])
    block = max(1, _BLOCK_ELEMENTS // max(machine.n_units))
    parts = [_pseudo_log_likelihood(machine, rows, bits) for rows in row_blocks(X, block)]
    return namespace(X).concat(parts)


def _checked_bits(bits, n_visible):
    if bits is None:
        return range(n_visible)
    numbers = to_numpy(bits)
    known = numbers.ndim == 1 and numbers.size and numbers.dtype.kind in "iu"
    if not known or numbers.min() < 0 or numbers.max() >= n_visible:
        raise ValueError(f"bits must be indices of the {n_visible} visible units, got {bits!r}")
    return numbers.tolist()


def _pseudo_log_likelihood(machine, X, bits):
    W, bias, n_visible = machine.weights[0], machine.thetas[0].field, X.shape[1]
    field, xp = input_field(machine, 1, (X, None)), namespace(X)
    total = xp.zeros(X.shape[0], **{**like(X), "dtype": xp.float64})
    here = _hidden_log_partition(machine, field)
    for bit in bits:
        flip = 1 - 2 * X[:, bit]
        flipped = field + machine.scale * flip[:, None] * W[None, :, bit]
        gain = _hidden_log_partition(machine, flipped) - here
        total -= softplus(gain + cast(flip * bias[bit], xp.float64))
    return total * (n_visible / len(bits))


def _hidden_log_partition(machine, field):
    """Sum log Z of the hidden layers in fields on the first, one for each row."""
    return _enumeration.log_partition(hidden_layers(machine, field))


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
    model = _centred(model)
    machine = _machine_of(model)
    check_count("n_steps", n_steps, 1)
    truth, marginals = exact_log_partition(machine, max_units), exact_marginals(machine, max_units)
    rng = make_rng(random_state, machine.weights[0])
    starts = _starts(model, machine, starts, rng)

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
    base = _base(machine, starts)
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
