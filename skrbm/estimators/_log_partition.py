"""log Z of a fitted estimator, which is kept with its parameters."""

import threading
import warnings
from dataclasses import asdict, is_dataclass, replace

import joblib

from .. import evaluation
from ..arrays import seed_sequence, to_numpy
from ..exceptions import LikelihoodWarning
from ..inference import RARE_EXCHANGES, SMC
from ..machine import can_enumerate

_ROWS = 16  # whose log weights tell by how much other coordinates change log Z
_MISSING = 0.1  # nats of log Z by solutions below the exact one above which they warn

# Results outside of the models, which nothing that only reads them changes; the newest come last.
_KEPT, _MOST_KEPT, _LOCK = {}, 100, threading.Lock()


def kept_with_parameters(model, name, function):
    """Return ``function()``, which is kept for a model of these parameters and this seed."""
    key = _hash(model), type(model).__qualname__, name
    if key not in _KEPT:
        value = function()
        with _LOCK:
            _KEPT[key] = value
            while len(_KEPT) > _MOST_KEPT:
                del _KEPT[next(iter(_KEPT))]
        return value
    return _KEPT[key]


def _hash(model):
    """Return a hash of the parameters, the chains and the seed of a model."""
    machine = model.machine_
    thetas = (part for theta in machine.thetas for part in theta if part is not None)
    parts = (*machine.weights, model.starts_, *thetas)
    return joblib.hash([*map(to_numpy, parts), machine.units, model._evaluation_seed])


def keep_runs(model, density):
    """Keep log Z by the runs of a fit, with a hash, as users may change the parameters later."""
    moved = _log_weight(model.density_) - _log_weight(density)
    model._runs_of_fit = _hash(model), density.runs + moved


def _log_weight(density):
    """Return the mean log weight of the first rows where chains start."""
    rows = density.starts[: min(_ROWS, density.starts.shape[0]), :]
    return float(to_numpy(density.log_weight_of_full_rows(rows)).mean())


def _kept_log_partition(model, method):
    if is_dataclass(method) and not isinstance(method, type):  # its text shortens arrays
        name = joblib.hash((type(method).__qualname__, asdict(method)))
    else:
        name = repr(method)

    def estimate():
        seed = seed_sequence(model._evaluation_seed)
        found, runs = getattr(model, "_runs_of_fit", (None, None))
        density = replace(model.density_, runs=runs if found == _hash(model) else None)
        return evaluation.log_partition(density, method, random_state=seed)

    return kept_with_parameters(model, name, estimate)


def checked_log_partition(model, method, stacklevel=3):
    """Return log Z, a LogPartition that is kept; warn if it is less certain than was asked for."""
    found, doubts, asked = _kept_log_partition(model, method), [], None
    if isinstance(method, SMC) or method in ("auto", "smc"):
        asked = SMC().std if isinstance(method, str) else method.std
    if asked is not None and found.std > asked:
        doubts.append(f"the requested standard error of {asked} was not reached")
    if found.acceptance < RARE_EXCHANGES:
        doubts.append(
            f"two neighbouring rungs accept only {found.acceptance:.1%} of their exchanges, "
            f"instead of at least {RARE_EXCHANGES:.0%}"
        )
    if doubts:
        warnings.warn(
            f"log Z = {found.value:.2f} (standard error {found.std:.2g}) is uncertain: "
            f"{'; '.join(doubts)}. Compare with log_partition(SMC(max_sweeps=100_000)) or "
            "skrbm.evaluation.bracket",
            LikelihoodWarning,
            stacklevel=stacklevel,
        )
    return found


def solved_log_partition(model, method, starts=None):
    """Return log Z of the solutions of a fixed point; warn if it is too small by the exact one."""
    if starts is None:
        found = _kept_log_partition(model, method).value
    else:
        found = evaluation.log_partition(model, method, starts=starts).value
    if can_enumerate(model.machine_):
        missing = _kept_log_partition(model, "exact").value - found
        if missing > _MISSING:
            warnings.warn(
                f"tap_log_likelihood is {missing:.2g} nats too large for each sample, since the "
                f"solutions give log Z = {found:.2f}, but it is {found + missing:.2f}",
                LikelihoodWarning,
                stacklevel=3,
            )
    return found
