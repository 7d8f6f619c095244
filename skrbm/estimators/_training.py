"""What estimators share that train: their common parameters, and what a fit keeps."""

import copy
from functools import wraps
from numbers import Real

import numpy as np

from .._ranks import ranks
from .._schedules import scheduled
from .._sklearn import with_callbacks
from ..arrays import namespace, seed_sequence
from ..learning import EarlyStopping, LikelihoodMonitor, check_integral

_TOL = 0.01  # nats per row of validation that count as an improvement
_LEAST_ROWS = 100  # of a fit that restarts with weighted chains if others do not mix
_STEPS = 1000  # of a fit with n_iter="auto" at least
_STEPS_OF_JOINT = 3000  # the same where columns have a precision matrix, of many parameters

_SET_BEFORE = (
    "n_features_in_",
    "feature_names_in_",
    "history_",
    "_targets",
    "_encoder",
    "_frame",
    "_evaluation_seed",
    "visible_means_",
    "pretraining_history_",
)


def keeps_features(method):
    """Put back what a fit sets at its start if it ends before anything is published.

    These are the number and names of features, the history, what the targets are, the means of the
    columns and the seed of log Z.
    """

    @wraps(method)
    def wrapper(self, *args, **kwargs):
        if ranks().size > 1 and not getattr(self, "_fits_on_ranks", False):
            raise ValueError(
                f"{type(self).__name__} learns in one process only; fit it outside of "
                "skrbm.distributed.use"
            )
        before = {name: vars(self)[name] for name in _SET_BEFORE if name in vars(self)}
        published = _published(self)
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            if _published(self) is published:
                for name in _SET_BEFORE:
                    vars(self).pop(name, None)
                vars(self).update(before)
            raise

    return wrapper


def _published(estimator):
    """Return what a fit sets when it publishes something, None before."""
    return vars(estimator).get("_training", vars(estimator).get("rbm_"))


def rate_of(estimator, optimizer):
    """Return the learning rate of an estimator, as a function of the fraction of its epochs.

    With ``learning_rate="auto"`` it is the factor on what is found in training.
    """
    first = 1.0 if is_automatic(estimator) else float(estimator.learning_rate)
    return lambda progress: first * scheduled(optimizer.schedule, progress)


def batch_size_of(estimator, rows):
    """Return the largest number of rows of a batch: ``batch_size``, or a third of few rows.

    An automatic rate is found step by step, and few rows would make too few of them. Where
    equations are solved a batch of all rows has a meaning of its own: a fit without chance.
    """
    fewest = estimator._fewest_batches if _is_found_by_chains(estimator) else 1
    return min(int(estimator.batch_size), max(1, -(-int(rows.total) // fewest)))


def n_iter_of(estimator, rows, batch_size):
    """Return the number of passes: ``n_iter``, or with "auto" as many as make 1000 steps at least.

    As :func:`batch_size_of`, that holds for automatic rates and chains.
    """
    if not isinstance(estimator.n_iter, str):
        return int(estimator.n_iter)
    fewest = estimator._fewest_passes
    if not _is_found_by_chains(estimator):
        return fewest
    steps = _STEPS_OF_JOINT if rows.unit.is_joint else _STEPS
    return max(fewest, -(-steps // max(1, -(-int(rows.total) // batch_size))))


def _is_found_by_chains(estimator):
    """Whether the learning rate is found in training, from chains."""
    return is_automatic(estimator) and estimator._own_fixed_point() is None


def is_automatic(estimator):
    """Whether an estimator finds its learning rate in training."""
    return isinstance(estimator.learning_rate, str)


def verbose_name(estimator):
    """Return the name under which rows of the history are printed, None for no print."""
    return type(estimator).__name__ if estimator.verbose and ranks().rank == 0 else None


def seeds_of_fit(random_state):
    """Return the seed of evaluations, the same on all ranks, and that of batches and chains.

    The former is made of plain values, which copies and files keep.
    """
    evaluation, seed = ranks().first(seed_sequence(random_state)).spawn(2)
    own = seed if ranks().size == 1 else seed.spawn(ranks().size)[ranks().rank]
    return evaluation.state, own


@with_callbacks
def fit_rows(estimator, X, shown, sample_weight, resumes, progress):
    """Fit to checked data, unless ``progress`` has come to its end.

    Callbacks take it for a fit of its own.

    Parameters
    ----------
    estimator : BaseRBM
    X : array or RowBlocks
    shown : object
        The data as callbacks see them.
    sample_weight : array of shape (n_samples,) or None
    resumes : bool
        Whether the fit starts where the last one has ended.
    progress : Progress or None
        Of a fit that was interrupted.
    """
    rows, training = estimator._start(X, sample_weight, resumes, progress=progress)
    if training is None:
        return
    batch_size = batch_size_of(estimator, rows)
    n_iter = n_iter_of(estimator, rows, batch_size)
    callbacks = for_callbacks(estimator, shown, shown, rows, training, progress, n_iter)
    train, validation = np.arange(len(rows)), None
    stopping = EarlyStopping.of(getattr(estimator, "early_stopping", False), tol=_TOL)
    if stopping is not None:
        train, validation = rows.split(stopping.validation_fraction, training.rng)
    if not resumes:
        estimator._pretrain(training, rows, train)
        check_integral(training.machine, "before the first epoch")
        if training.parts.fallback is not None and rows.total >= _LEAST_ROWS:
            training.first = training.machine.copy()
    monitor = likelihood_monitor(estimator, training, rows, train, validation, stopping)

    def publish(machine, state, training=training, estimator=estimator):
        training.n_rows = rows.n_known
        training.visible_means = _means_of_fit(rows.means, training.visible_means)
        estimator._publish(machine, state, training)

    options = {"batch_size": batch_size, "monitor": monitor, **callbacks}
    estimator._trainer(rows, train, training, publish, n_iter, **options).run(training)


def _means_of_fit(means, before):
    """Return the means of columns, those from before where no value is known."""
    return means if before is None else namespace(means).where(means == means, means, before)


def merge_means(known, means, n, total):
    """Return the means of columns of which ``n`` rows of ``total`` have other means than before."""
    with np.errstate(invalid="ignore"):
        step = (means - known) * (n / total)
    return known + namespace(step).where(step == step, step, 0.0 * known)  # NaN: no value came


def check_settings_of_ranks(estimator, resumes, progress=None):
    """Raise ValueError on all ranks, unless these begin the same fit.

    Functions and arrays are not compared, and neither are seeds, which are those of rank 0.
    """
    if ranks().size == 1:
        return
    first, *others = ranks().gather(_settings(estimator, resumes, progress))
    for rank, other in enumerate(others, 1):
        for name in {**first, **other}:
            values = [found.get(name, "not there") for found in (other, first)]
            if values[0] != values[1]:
                raise ValueError(
                    f"{name} is {values[0]!r} on rank {rank} and {values[1]!r} on rank 0; all "
                    "ranks need the same"
                )


def _settings(estimator, resumes, progress):
    """Return what has to be the same on all ranks, by its name."""
    begin = f"a machine of {list(estimator.machine_.n_units)} units" if resumes else "nothing"
    given = vars(estimator).get("_skl_callbacks", [])
    callbacks = [getattr(found, "_on_all_ranks", None) for found in given]
    params = estimator.get_params()
    own = {"random_state", "verbose"}
    return {
        "the class": type(estimator).__name__,
        "the start of the fit": begin if progress is None else "an interrupted fit",
        "callbacks": [found for found in callbacks if found is not None],
        **{k: _plain(v) for k, v in params.items() if k.rpartition("__")[2] not in own},
    }


def _plain(value):
    """Return a value as far as it is of numbers and names, and else its class."""
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, Real) and value != value:
        return "nan"
    return value if isinstance(value, Real | str | None) else f"of class {type(value).__name__}"


def prepare_fit(estimator):
    """Return how ``fit`` starts: (progress, whether it resumes training).

    ``progress`` is that of an interrupted fit, which :func:`skrbm.persistence.resume` has set;
    else None.

    Raises ValueError on all ranks, if they do not begin the same.
    """
    progress = vars(estimator).pop("_progress", None)
    resumes = progress is not None or (estimator.warm_start and hasattr(estimator, "_training"))
    check_settings_of_ranks(estimator, resumes, progress)
    return progress, resumes


def for_callbacks(estimator, X, y, rows, training, progress, n_iter):
    """Return what callbacks of a fit need, options of :class:`Trainer`.

    To be called before the fit draws a number.

    Parameters
    ----------
    estimator : estimator
    X, y : arrays
        The data as callbacks see them.
    rows : DistinctRows
        With a ``fingerprint``.
    training : Training
    progress : Progress or None
        Of an interrupted fit.
    n_iter : int
        Number of epochs.
    """
    first = copy.deepcopy(training.rng)
    return {
        "context": estimator._init_callback_context(max_subtasks=n_iter),
        "data": {"estimator": estimator, "X": X, "y": y},
        "own": lambda: {"rows": rows.fingerprint, "random_state": first},
        "progress": progress,
    }


def likelihood_monitor(estimator, training, rows, train, validation, stopping):
    """Return the :class:`LikelihoodMonitor` of the fit of an estimator."""
    parts = training.parts
    return LikelihoodMonitor(
        lambda machine, state: estimator._density(machine, state, training.parts),
        lambda: training.parts.phase,
        rows,
        train,
        validation,
        stopping=stopping,
        batch_size=batch_size_of(estimator, rows),
        seed=seed_sequence(estimator._evaluation_seed),
        is_density=parts.labels is None or parts.labels.part < 0.5,
        has_rate=not is_automatic(estimator),
    )
