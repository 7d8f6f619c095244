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

_APART = 1.0  # nats between log Z by sampling and by other means, above which a score warns
_MISSING = 0.1  # nats of log Z by solutions below the exact one, above which they warn
_SURE = 4  # standard errors by which a reverse estimate must differ besides
_BURN_IN = 30  # sweeps of the chains of a reverse estimate, and their number at most
_MOST_STARTS = 128

# Results outside of the models, which nothing that only reads them changes; the newest come last.
_KEPT, _MOST_KEPT, _LOCK = {}, 100, threading.Lock()


def kept_log_partition(model, method):
    """Return a :class:`~skrbm.evaluation.LogPartition`, which is kept."""

    def estimate():
        seed = seed_sequence(model._evaluation_seed)
        return evaluation.log_partition(model, method, random_state=seed)

    return kept_with_parameters(model, _method_key(method), estimate)


def checked_log_partition(model, method):
    """Return log Z as :func:`kept_log_partition`; warn if it is less certain than was asked for."""
    found, asked = kept_log_partition(model, method), None
    if isinstance(method, SMC) or method in ("auto", "smc"):
        asked = SMC().std if isinstance(method, str) else method.std
    if asked is not None and found.std > asked:
        warnings.warn(
            f"the standard error of log Z is {found.std:.3g}, and {asked} was asked for; give "
            "method=SMC(max_sweeps=...) with more sweeps, or see skrbm.evaluation.bracket",
            LikelihoodWarning,
            stacklevel=3,
        )
    if found.acceptance < RARE_EXCHANGES:
        warnings.warn(
            f"log Z = {found.value:.2f} (standard error {found.std:.2g}) is uncertain: "
            f"{_lacks_rungs(found)}; give method=Tempering(ladder_of(estimator, random_state, "
            'acceptance=0.6)), Tempering with more rungs, or "smc", and compare '
            "skrbm.evaluation.bracket",
            LikelihoodWarning,
            stacklevel=3,
        )
    return found


def _lacks_rungs(estimate):
    """Return half a sentence about rungs that are far apart."""
    return (
        f"two neighbours on the ladder accept {estimate.acceptance:.1%} of their exchanges (at "
        f"least {RARE_EXCHANGES:.0%} is good), so that rungs are missing between them"
    )


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


def log_partition_of_scores(model):
    """Return log Z by "auto", and warn where something speaks against it, or it against TAP."""
    estimate = kept_log_partition(model, "auto")
    if estimate.std == 0:  # exact
        return estimate.value
    own = model._own_fixed_point()
    # A solution of naive mean field is a lower bound of log Z, whatever the weights.
    method = FIXED_POINTS["naive_mean_field"] if own is None else own
    name = "solved", _method_key(method)
    solved = kept_with_parameters(model, name, lambda: _solved(model, method))
    doubts = _doubts(model, estimate, method, solved)
    if doubts:
        low, high = estimate.interval
        warnings.warn(
            f"the score rests on log Z = {estimate.value:.2f} by sampling "
            f"(standard error {estimate.std:.3f}, 95 % interval {low:.2f} to {high:.2f}), "
            f"which is uncertain: {'; and '.join(doubts)}. Compare "
            "log_partition(SMC(max_sweeps=100_000)) and skrbm.evaluation.bracket: a log Z that "
            "is larger by some nats makes all scores worse by as much. Chains mix better after "
            "training with a smaller learning_rate or a larger alpha",
            LikelihoodWarning,
            stacklevel=4,
        )
    if own is not None and solved is not None and estimate.value - solved.mean() > _APART:
        warnings.warn(
            f"by tap_log_likelihood the same samples are {estimate.value - solved.mean():.2f} nats "
            f"better than by the score: it takes log Z = {solved.mean():.2f} of the solutions of "
            f"{method}, where sampling, which the score takes, gives {estimate.value:.2f} "
            f"(standard error {estimate.std:.2f}). The solutions miss modes of the machine, or its "
            "weights are too large for these equations. Trust the score; training with a larger "
            "alpha brings the two together",
            LikelihoodWarning,
            stacklevel=4,
        )
    return estimate.value


def solved_log_partition(model, method):
    """Return log Z of the solutions of a fixed point; warn if it is too small by the exact one."""
    found = checked_log_partition(model, method).value
    if evaluation.can_enumerate(model):
        missing = kept_log_partition(model, "exact").value - found
        if missing > _MISSING:
            warnings.warn(
                f"tap_log_likelihood is {missing:.2g} nats too large for each sample, as the "
                f"solutions give log Z = {found:.2f} and the exact one is {found + missing:.2f}; "
                "score_samples takes the exact one",
                LikelihoodWarning,
                stacklevel=3,
            )
    return found


def _doubts(model, estimate, method, solved):
    """Return what speaks against an estimate of log Z by sampling, a list of half sentences.

    Parameters
    ----------
    model : estimator
    estimate : LogPartition
    method : FixedPoint
    solved : ndarray of shape (n_solutions,) or None
        log Z by each solution of ``method``.
    """
    own, asked, doubts = model._own_fixed_point(), SMC().std, []
    if estimate.std > asked:
        doubts.append(f"the standard error of {asked} that was asked for was not reached")
    if estimate.acceptance < RARE_EXCHANGES:
        doubts.append(_lacks_rungs(estimate))
    if solved is not None and max(solved) > estimate.value + _APART:
        too_large = "" if own is None else ", or weights are too large for these equations"
        doubts.append(
            f"one solution of {method} alone stands for {max(solved):.2f}, so that the chains "
            f"have missed its mode{too_large}"
        )
    above = kept_reverse(model)
    if reverse_is_larger(estimate, above):
        doubts.append(
            f"chains from starts_ back to independent units give {above.value:.2f} (standard error "
            f"{above.std:.2f}), so that chains do not mix, or have missed a mode"
        )
    return doubts


def reverse_is_larger(estimate, above):
    """Whether a reverse estimate of log Z is larger by more than a nat and chance."""
    error = np.hypot(estimate.std, above.std)
    return bool(above.value > estimate.value + _APART + _SURE * error)


def _method_key(method):
    """Return what tells a method of evaluation from others; the text of arrays is shortened."""
    if not is_dataclass(method) or isinstance(method, type):
        return repr(method)
    return joblib.hash((type(method).__qualname__, asdict(method)))


def _solved(model, method):
    """Return log Z by each solution that a model's starts lead to.

    None if the method does not apply to its units.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return -evaluation.solutions(model, method).free_energies
    except (DivergenceError, ValueError):
        return None
