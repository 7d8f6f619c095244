"""Shared by all estimators that are trained: checks before a fit, callbacks, running epochs."""

import copy
from functools import wraps
from numbers import Real

from .._ranks import ranks
from .._schedules import scheduled
from .._sklearn import _fit_context, is_of_scikit_learn
from ..arrays import copied, one_blas_thread, seed_sequence
from ..inference import map_rows
from ..learning import Trainer, recorder


def keeps_features(method):
    """Restore all attributes if a fit ends before anything is published.

    A note added to an interruption says in which state it leaves the outermost estimator.
    """

    @wraps(method)
    def wrapper(self, *args, **kwargs):
        if ranks().size > 1 and not getattr(self, "_fits_on_ranks", False):
            raise ValueError(f"{type(self).__name__} does not support training on several ranks")

        def published():
            names = ("components_", "rbm_", "estimator_")
            return next((vars(self)[name] for name in names if name in vars(self)), None)

        def own():
            return {k: v for k, v in vars(self).items() if not is_of_scikit_learn(k)}

        before, first = own(), published()
        before.pop("_progress", None)  # which serves once
        try:
            return method(self, *args, **kwargs)
        except BaseException as error:
            is_new = published() is not first
            if not is_new:
                for name in own():
                    vars(self).pop(name)
                vars(self).update(before)
            if isinstance(error, KeyboardInterrupt):
                inner, note = vars(error).get("_of_fit"), _of_interruption(self, is_new)
                others = [text for text in getattr(error, "__notes__", []) if text != inner]
                error.__notes__, error._of_fit = [*others, note], note
            raise

    return wrapper


def learns(method):
    """Make a method check parameters, restore attributes if it fails, and use one BLAS thread."""
    checked = _fit_context(prefer_skip_nested_validation=True)
    return checked(keeps_features(one_blas_thread(method)))


def is_automatic(estimator):
    return isinstance(estimator.learning_rate, str)


def _of_interruption(estimator, is_new):
    """Return a sentence on the state after an interrupted fit, and on how to continue it."""
    name = type(estimator).__name__
    if not is_new:
        return f"{name} is as it was before the call."
    ways = ["fit with warm_start=True"] * ("warm_start" in estimator.get_params(deep=False))
    ways += ["partial_fit"] * hasattr(estimator, "partial_fit")
    owner = "estimator_." * ("estimator_" in vars(estimator))
    n_iter = getattr(vars(estimator).get("estimator_", estimator), "n_iter_", None)
    found = f"{name} has the parameters of its last complete epoch ({owner}n_iter_={n_iter}) and is"
    if not ways:
        return f"{found} ready for use."
    return (
        f"{found} ready for use, unless it is a copy that a search fits; to continue, call "
        f"{' or '.join(ways)}."
    )


def trainer_of(estimator, learner, optimizer, publish, attributes, **options):
    """Return the :class:`Trainer` of a fit, with the history and the rate of an estimator."""
    prints = estimator.verbose and ranks().rank == 0
    name = getattr(estimator, "_shown_as", type(estimator).__name__)
    record = recorder(estimator.history_, name if prints else None)
    first = 1.0 if is_automatic(estimator) else float(estimator.learning_rate)

    def rate(progress):
        return first * scheduled(optimizer.schedule, progress)

    return Trainer(learner, publish, attributes, record, rate=rate, **options)


def seeds_of_fit(random_state):
    """Return the seed of evaluations, plain values that all ranks have, and that of learning."""
    evaluation, seed = ranks().first(seed_sequence(random_state)).spawn(2)
    own = seed if ranks().size == 1 else seed.spawn(ranks().size)[ranks().rank]
    return evaluation.state, own


def resumed_optimizer(training, before, optimizer, parameters):
    """Return the state of an optimizer: that of training with ``before``, if it still serves."""
    if training.optimizer_state is None or optimizer.kind != before.kind:
        return optimizer.init(parameters)
    return map_rows(copied, training.optimizer_state)  # is written, and may be a memory map


def check_settings_of_ranks(estimator, resumes, progress=None):
    """Raise ValueError on all ranks, unless these begin the same fit.

    Functions and arrays are not compared, and neither are seeds, which are those of rank 0.
    """
    if ranks().size == 1:
        return
    begin = f"a machine of {list(estimator.machine_.n_units)} units" if resumes else "nothing"
    callbacks = vars(estimator).get("_skl_callbacks", [])
    settings = {
        "the class": type(estimator).__name__,
        "the start of the fit": begin if progress is None else "an interrupted fit",
        "callbacks": [each._on_all_ranks for each in callbacks if hasattr(each, "_on_all_ranks")],
    }
    for name, value in estimator.get_params().items():
        if name.rpartition("__")[2] not in ("random_state", "verbose"):
            is_plain = isinstance(value, Real | str | None | list | tuple)
            settings[name] = value if is_plain else f"of class {type(value).__name__}"
    first, *others = ranks().gather(settings)
    for rank, other in enumerate(others, 1):
        for name in {**first, **other}:
            values = [repr(found.get(name, "not there")) for found in (other, first)]
            if values[0] != values[1]:
                raise ValueError(f"{name} is {values[0]} on rank {rank} and {values[1]} on rank 0")


def prepare_fit(estimator):
    """Return the progress of an interrupted fit or None, and whether ``fit`` resumes training."""
    progress = vars(estimator).pop("_progress", None)
    resumes = progress is not None or (estimator.warm_start and hasattr(estimator, "_training"))
    check_settings_of_ranks(estimator, resumes, progress)
    return progress, resumes


def for_callbacks(estimator, X, y, rows, training, progress, n_iter):
    """Return options of :class:`Trainer` for callbacks, before the fit draws a number."""
    first = copy.deepcopy(training.rng)
    return {
        "context": estimator._init_callback_context(max_subtasks=n_iter),
        "data": {"estimator": estimator, "X": X, "y": y},
        "own": lambda: {"rows": rows.fingerprint, "random_state": first},
        "progress": progress,
    }
