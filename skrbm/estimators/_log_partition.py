"""log Z of a fitted estimator, which is kept with its parameters, and doubts about it."""

import threading
import warnings
from dataclasses import asdict, is_dataclass, replace

import joblib
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .. import evaluation
from ..arrays import seed_sequence, to_numpy
from ..exceptions import DivergenceError, LikelihoodWarning
from ..inference import FIXED_POINTS, RARE_EXCHANGES, SMC
from ..machine import can_enumerate

_APART = 1.0  # nats between two estimates of log Z above which a score warns
_MISSING = 0.1  # nats of log Z by solutions below the exact one above which they warn
_SURE = 4  # standard errors by which a reverse estimate must differ besides
_BURN_IN = 30  # sweeps of the chains of a reverse estimate, and their number at most
_MOST_STARTS = 128

# Results outside of the models, which nothing that only reads them changes; the newest come last.
_KEPT, _MOST_KEPT, _LOCK = {}, 100, threading.Lock()


def kept_with_parameters(model, name, function):
    """Return ``function()``, which is kept for a model of these parameters and this seed."""
    machine = model.machine_
    thetas = (part for theta in machine.thetas for part in theta if part is not None)
    parts = (*machine.weights, model.starts_, *thetas)
    values = [*(to_numpy(part) for part in parts), machine.units, model._evaluation_seed]
    key = joblib.hash(values), type(model).__qualname__, name
    if key not in _KEPT:
        value = function()
        with _LOCK:
            _KEPT[key] = value
            while len(_KEPT) > _MOST_KEPT:
                del _KEPT[next(iter(_KEPT))]
        return value
    return _KEPT[key]


def _key_of(method):
    """Return what tells a method of evaluation from others; the text of arrays is shortened."""
    if not is_dataclass(method) or isinstance(method, type):
        return repr(method)
    return joblib.hash((type(method).__qualname__, asdict(method)))


def kept_log_partition(model, method):
    """Return a :class:`~skrbm.evaluation.LogPartition`, which is kept."""

    def estimate():
        seed = seed_sequence(model._evaluation_seed)
        return evaluation.log_partition(model, method, random_state=seed)

    return kept_with_parameters(model, _key_of(method), estimate)


def kept_reverse(model):
    """Return a quick estimate of log Z from above, a LogPartition, which is kept.

    It makes about half of the sweeps of the shortest forward estimate, which tries temperatures
    for several kinds of independent units.
    """

    def estimate():
        density, (seed,) = model.density_, seed_sequence(model._evaluation_seed).spawn(1)
        n = min(_MOST_STARTS, density.starts.shape[0])  # slices may not go beyond the end
        density = replace(density, starts=density.starts[:n, :])
        return evaluation.reverse_log_partition(
            density, method="smc", burn_in=_BURN_IN, random_state=seed
        )

    return kept_with_parameters(model, "reverse", estimate)


def _kept_solutions(model, method):
    """Return log Z by each solution that a model's starts lead to, which is kept.

    None if the method does not apply to its units.
    """

    def solve():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                return -evaluation.solutions(model, method).free_energies
        except (DivergenceError, ValueError):
            return None

    return kept_with_parameters(model, ("solved", _key_of(method)), solve)


def _shortcomings(estimate, std):
    """Return what an estimate of log Z itself shows against it, a list of phrases.

    ``std`` is the standard error that was asked for, None if none was.
    """
    found = []
    if std is not None and estimate.std > std:
        found.append(f"a standard error of {std} was asked for")
    if estimate.acceptance < RARE_EXCHANGES:
        found.append(
            f"two neighbouring rungs accept {estimate.acceptance:.1%} of their exchanges, and at "
            f"least {RARE_EXCHANGES:.0%} is good"
        )
    return found


def _warn_uncertain(estimate, doubts, stacklevel):
    if doubts:
        warnings.warn(
            f"log Z = {estimate.value:.2f} (standard error {estimate.std:.2g}) is uncertain: "
            f"{'; '.join(doubts)}. Compare log_partition(SMC(max_sweeps=100_000)) and "
            "skrbm.evaluation.bracket",
            LikelihoodWarning,
            stacklevel=stacklevel + 1,
        )


def checked_log_partition(model, method):
    """Return log Z as :func:`kept_log_partition`; warn if it is less certain than was asked for."""
    found, asked = kept_log_partition(model, method), None
    if isinstance(method, SMC) or method in ("auto", "smc"):
        asked = SMC().std if isinstance(method, str) else method.std
    _warn_uncertain(found, _shortcomings(found, asked), stacklevel=3)
    return found


def log_partition_of_scores(model):
    """Return log Z by "auto", and warn where something speaks against it, or it against TAP."""
    estimate = kept_log_partition(model, "auto")
    if estimate.std == 0:  # exact
        return estimate.value
    own = model._own_fixed_point()
    # A solution of naive mean field is a lower bound of log Z, whatever the weights.
    method = FIXED_POINTS["naive_mean_field"] if own is None else own
    solved, above = _kept_solutions(model, method), kept_reverse(model)
    doubts = _shortcomings(estimate, SMC().std)
    if solved is not None and max(solved) > estimate.value + _APART:
        doubts.append(f"one solution of {method} alone stands for {max(solved):.2f}")
    error = np.hypot(estimate.std, above.std)
    if above.value > estimate.value + _APART + _SURE * error:
        doubts.append(
            f"chains from starts_ back to independent units give {above.value:.2f} (standard error "
            f"{above.std:.2f})"
        )
    _warn_uncertain(estimate, doubts, stacklevel=4)
    if own is not None and solved is not None and estimate.value - solved.mean() > _APART:
        warnings.warn(
            f"log Z = {solved.mean():.2f} of the solutions of {method}, which tap_log_likelihood "
            f"takes, is too small: sampling gives {estimate.value:.2f} (standard error "
            f"{estimate.std:.2g})",
            LikelihoodWarning,
            stacklevel=4,
        )
    return estimate.value


def solved_log_partition(model, method):
    """Return log Z of the solutions of a fixed point; warn if it is too small by the exact one."""
    found = kept_log_partition(model, method).value
    if can_enumerate(model.machine_):
        missing = kept_log_partition(model, "exact").value - found
        if missing > _MISSING:
            warnings.warn(
                f"tap_log_likelihood is {missing:.2g} nats too large for each sample, as the "
                f"solutions give log Z = {found:.2f} and the exact one is {found + missing:.2f}",
                LikelihoodWarning,
                stacklevel=3,
            )
    return found
