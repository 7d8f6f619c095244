"""How good a machine is: log-partition functions, likelihoods, and methods held against each other.

Every function takes a fitted estimator or a :class:`~skrbm._machine.Machine`. A
:class:`~skrbm.ConditionalRBM` is none of these, as it has another machine, and another log Z, for
each row of features.
"""

import numpy as np
from sklearn.exceptions import NotFittedError

from ._backend import (
    cast,
    from_numpy,
    like,
    namespace,
    one_blas_thread,
    row_blocks,
    row_sums,
    softplus,
    to_numpy,
)
from ._conditional import ConditionalMachine
from ._machine import Machine, condition, conditional
from ._random import make_rng
from ._solutions import Solutions, find_solutions, unique_solutions
from ._validation import check_count, check_rows, into_support
from .exceptions import DivergenceError
from .inference import AIS, FIXED_POINTS, FixedPoint, Gibbs, LogPartition, sample
from .units import log_weight

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

MAX_EXACT_UNITS = 20
_BLOCK_ELEMENTS = 2**22  # of the largest temporary array in blockwise evaluation


def _machine_of(model):
    if isinstance(model, Machine):
        return model
    if isinstance(model, ConditionalMachine):
        raise TypeError(
            "a conditional machine has another law, and another log Z, for each row of features: "
            "use its score_samples(X, y) for log p(y | x), predict_proba(X) for marginals, or "
            "sample(X)"
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


def _visible_rows(model, machine, name, X):
    """Return X as dense visible values, thresholded or clipped as the estimator does."""
    X = check_rows(name, X, machine.n_units[0], machine.weights[0])
    X = into_support(X, machine.units[0], getattr(model, "binarize", None))
    return X - model._offset if hasattr(model, "_offset") else X


def _given_base(model, base):
    """Return parameters of independent visible units that are given, in the model's coordinates."""
    if base is None or not hasattr(model, "_offset"):
        return base
    return base._replace(field=base.field - base.precision * model._offset)


def _enumerable_layers(machine):
    """Return every other layer, even or odd, where their support is finite: the fewer units.

    The layers between them are independent given these, so they are summed out. None, if there
    are none of finite support.
    """
    halves = [range(parity, len(machine.units), 2) for parity in (0, 1)]
    finite = [half for half in halves if all(machine.units[l].values is not None for l in half)]
    return min(finite, key=lambda half: _total_units(machine, half), default=None)


def _total_units(machine, layers):
    return sum(machine.n_units[l] for l in layers)


def can_enumerate(model, max_units=MAX_EXACT_UNITS):
    """Whether every other layer is small enough for log Z to be summed exactly."""
    machine = _machine_of(model)
    layers = _enumerable_layers(machine)
    return layers is not None and _total_units(machine, layers) <= max_units


def _configurations(machine, max_units):
    """Yield blocks of all configurations of every other layer with their log-weights, in float64.

    A configuration is a tuple of the layers' values, None for the layers between, which are
    summed out.
    """
    if not can_enumerate(machine, max_units):
        raise ValueError(
            f"exact sums need a layer (in a deep machine, every other layer) with at most "
            f"max_units={max_units} binary units, and this machine has {machine.n_units} units; "
            "raise max_units or use method='ais'"
        )
    layers = _enumerable_layers(machine)
    n = _total_units(machine, layers)
    block = max(1, min(2**n, _BLOCK_ELEMENTS // max(machine.n_units)))
    for start in range(0, 2**n, block):
        values = _configuration_values(machine, layers, start, min(start + block, 2**n))
        log_weights = 0.0
        for l in range(len(values)):
            if values[l] is not None:
                log_weights = log_weights + log_weight(machine.thetas[l], values[l])
            else:
                theta = conditional(machine, l, values)
                log_weights = log_weights + row_sums(machine.units[l].log_partition(theta))
        yield values, to_numpy(log_weights)


def _configuration_values(machine, layers, start, stop):
    """Return the configurations of the layers with the numbers from ``start`` to ``stop``."""
    W, values = machine.weights[0], [None] * len(machine.units)
    index = np.arange(start, stop)
    for l in layers:
        low, high = machine.units[l].values
        n = machine.n_units[l]
        bits = (index[:, None] >> np.arange(n)) & 1
        values[l] = cast(from_numpy(np.where(bits, high, low), W), W.dtype)
        index = index >> n
    return tuple(values)


def _double(machine):
    return machine.astype(namespace(machine.weights[0]).float64)


def exact_log_partition(model, max_units=MAX_EXACT_UNITS):
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
    blocks = _configurations(machine, max_units)
    return float(np.logaddexp.reduce([np.logaddexp.reduce(lw) for _, lw in blocks]))


def exact_marginals(model, max_units=MAX_EXACT_UNITS):
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
    machine = _double(_machine_of(model))
    log_z = exact_log_partition(machine, max_units)
    means = [np.zeros(n) for n in machine.n_units]
    for layers, log_weights in _configurations(machine, max_units):
        weights = np.exp(log_weights - log_z)
        for l, values in enumerate(layers):
            if values is None:
                values = machine.units[l].mean(conditional(machine, l, layers))
            means[l] += weights @ to_numpy(values)
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
    machine, method = _machine_of(model), _resolve(method)
    if not isinstance(method, FixedPoint):
        raise ValueError(f"method must be a fixed point, one of {sorted(FIXED_POINTS)}, not AIS")
    rng = make_rng(random_state, machine.weights[0])
    return find_solutions(machine, method, _starts(model, machine, starts, rng), unique_tol)


def _starts(model, machine, starts, rng, n=100):
    """Return visible rows to start at: those given, an estimator's, or short Gibbs chains."""
    if starts is not None:
        return _visible_rows(model, machine, "starts", starts)
    if hasattr(model, "starts_"):
        return model.starts_
    chains = Gibbs().init(machine, rng, n, machine.weights[0])
    return sample(Gibbs(), machine, chains, rng, 100).layers[0]


def log_partition(
    model,
    method="auto",
    *,
    max_units=MAX_EXACT_UNITS,
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
        Visible parameters of the independent units where AIS starts; default: those fitted to
        ``starts`` where given, else to the estimator's, else the machine's own.
    random_state : int, RandomState or SeedSequence, default=None

    Returns
    -------
    LogPartition
        ``value``, ``std`` and ``ess``.
    """
    model = _centred(model)
    machine, base = _machine_of(model), _given_base(model, base)
    if isinstance(method, str) and method == "auto":
        method = "exact" if can_enumerate(machine, max_units) else "ais"
    if isinstance(method, str) and method == "exact":
        return LogPartition(exact_log_partition(machine, max_units))
    rng = make_rng(random_state, machine.weights[0])
    method = _resolve(method)
    if isinstance(method, AIS):
        if base is None and (starts is not None or hasattr(model, "starts_")):
            base = machine.units[0].initial_theta(_starts(model, machine, starts, rng))
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
    overestimated on average, where AIS underestimates it: the two bracket a likelihood.

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
        Visible parameters of the independent units where the path ends; default: those fitted to
        the starts.
    random_state : int, RandomState or SeedSequence, default=None

    Returns
    -------
    LogPartition
        ``value``, ``std`` and ``ess``.
    """
    model = _centred(model)
    machine, base = _machine_of(model), _given_base(model, base)
    rng = make_rng(random_state, machine.weights[0])
    starts = _starts(model, machine, starts, rng)
    check_count("burn_in", burn_in, 0)
    base = machine.units[0].initial_theta(starts) if base is None else base
    chains = sample(Gibbs(), machine, Gibbs().start(machine, starts, rng), rng, burn_in)
    return (method or AIS()).reverse_log_partition(machine, rng, chains.layers, base)


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
    X = _visible_rows(model, machine, "X", X)
    bits = _checked_bits(bits, X.shape[1])
    block = max(1, _BLOCK_ELEMENTS // max(machine.n_units))
    parts = [_pseudo_log_likelihood(machine, rows, bits) for rows in row_blocks(X, block)]
    return namespace(X).concat(parts)


def _checked_bits(bits, n_visible):
    if bits is None:
        return range(n_visible)
    bits = [int(bit) for bit in bits]
    if not bits or min(bits) < 0 or max(bits) >= n_visible:
        raise ValueError(f"bits must be indices of the {n_visible} visible units, got {bits}")
    return bits


def _pseudo_log_likelihood(machine, X, bits):
    W, unit = machine.weights[0], machine.units[1]
    field, bias = condition(machine, X), machine.thetas[0].field
    n_visible = X.shape[1]
    xp = namespace(X)
    total = xp.zeros(X.shape[0], **{**like(X), "dtype": xp.float64})
    here = row_sums(unit.log_partition(field))
    for bit in bits:
        flip = 1 - 2 * X[:, bit]
        flipped = unit.tilt(field, machine.scale * flip[:, None] * W[None, :, bit])
        there = row_sums(unit.log_partition(flipped))
        gain = there - here + cast(flip * bias[bit], xp.float64)
        total -= softplus(gain)
    return total * (n_visible / len(bits))


def compare(model, *, starts=None, n_steps=1000, max_units=MAX_EXACT_UNITS, random_state=None):
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
            float(np.abs(mean - exact).max())
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
    base = machine.units[0].initial_theta(starts)
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
