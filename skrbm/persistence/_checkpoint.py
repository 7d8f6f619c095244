"""Checkpoints: files from which an interrupted fit is resumed with the same result."""

import os
import time
import warnings
from pathlib import Path

from sklearn.base import BaseEstimator

from .._checks import check_count, check_number
from .._ranks import ranks
from ..learning import Progress
from ._files import check_own, read, skrbm, write

_NAME = "checkpoint-{:06d}.npz"
_ALL = "checkpoint-*.npz"


class Checkpoint:
    """Callback that writes the state of a fit to files, from which :func:`resume` continues.

    A file is written when ``fit`` starts, after some of its epochs (or units, for
    :class:`~skrbm.FrankWolfeRBM`), and when it ends. Files are written atomically: they are
    complete or missing, even if the process is killed. The result of the fit is unaffected.

    Parameters
    ----------
    folder : str or path-like
        Where the files are written; created if missing. Each fit needs its own folder. The file
        with the largest number is the newest. If several processes train a model together, all of
        them need this callback, and each writes to a subfolder, such as ``rank-0``.
    every : int, default=1
        Number of epochs between files.
    minutes : float, default=None
        If given, a file is written after the first epoch that ends at least this many minutes after
        the last file, and ``every`` is ignored.
    keep : int, default=3
        Number of files to keep; older ones are deleted.

    Raises
    ------
    TypeError
        Raised when the fit starts, if the estimator cannot be saved (see :func:`save`) or is part
        of another one, such as RBMClassifier.

    Warns
    -----
    UserWarning
        If a file cannot be written, for example because the disk is full. The fit continues.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from skrbm import RBM
    >>> from skrbm.persistence import Checkpoint, resume
    >>> X = (np.random.default_rng(0).random((200, 6)) < 0.4).astype(float)
    >>> folder = tempfile.mkdtemp()
    >>> rbm = RBM(4, n_iter=5, random_state=0).set_callbacks(Checkpoint(folder)).fit(X)
    >>> bool((resume(folder, X).components_ == rbm.components_).all())
    True
    """

    def __init__(self, folder, *, every=1, minutes=None, keep=3):
        check_count("every", every, 1)
        check_number("minutes", minutes, above=0, or_none=True)
        check_count("keep", keep, 1)
        self.folder, self.every, self.minutes, self.keep = os.fspath(folder), every, minutes, keep
        self._n_epochs, self._time = 0, 0.0  # since the last file, and when it was written

    @property
    def _on_all_ranks(self):
        """A description that has to be the same on all ranks, which write together."""
        return f"{type(self).__name__}(every={self.every}, minutes={self.minutes})"

    def setup(self, estimator, context):
        """Create the folder, and remove incomplete files of a process that was killed."""
        check_own(estimator, "Checkpoint")
        if type(estimator).__name__ not in skrbm().__all__:
            raise TypeError("Checkpoint does not support an estimator that is part of another one")
        folder = _folder_of_rank(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob(f".{_ALL}.*"):
            path.unlink(missing_ok=True)

    def teardown(self, estimator, context):
        """Do nothing."""

    def on_fit_task_begin(self, estimator, context, *, fitted_estimator=None):
        """Write a file when the fit starts."""
        if context.task_name == "fit":
            self._write(fitted_estimator)

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        """Write a file after an epoch if it is due, and at the end of the fit."""
        self._n_epochs += 1
        if context.task_name == "fit" or self._is_due():
            self._write(fitted_estimator)

    def _is_due(self):
        if self.minutes is None:
            return self._n_epochs >= self.every
        is_late = time.monotonic() - self._time >= 60 * self.minutes
        return ranks().first(is_late)  # so that all ranks write after the same epoch

    def _write(self, fitted):
        checkpoint = getattr(fitted, "_checkpoint", None)
        if checkpoint is None:
            return
        estimator, progress = checkpoint()
        folder = _folder_of_rank(self.folder)
        newest = max((number for number, _ in _files(folder)), default=0)
        newest = max(ranks().gather(newest))  # a rank may have failed to write a file
        path = Path(folder, _NAME.format(newest + 1))
        try:
            write(path, estimator=estimator, progress=progress, n_ranks=ranks().size)
            for _, older in _files(folder)[: -self.keep]:
                older.unlink(missing_ok=True)
        except OSError as error:
            warnings.warn(f"the checkpoint {path} could not be written: {error}", stacklevel=2)
        self._n_epochs, self._time = 0, time.monotonic()


def _folder_of_rank(folder):
    return Path(folder, f"rank-{ranks().rank}") if ranks().size > 1 else Path(folder)


def _files(folder):
    """Return (number, path) of the checkpoints in a folder, the newest last."""
    found = ((path.stem.rpartition("-")[2], path) for path in Path(folder).glob(_ALL))
    return sorted((int(number), path) for number, path in found if number.isdecimal())


def resume(path, X, y=None, sample_weight=None, *, callbacks=()):
    """Continue an interrupted fit, with the same result as without the interruption.

    Parameters
    ----------
    path : str or path-like
        A file written by :class:`Checkpoint`, or the folder, whose newest readable file is then
        used. If several processes train together, pass the folder; their number must be the same as
        before.
    X : array-like of shape (n_samples, n_features)
        The data of the interrupted fit; likewise ``y`` and ``sample_weight``.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
        Only for :class:`~skrbm.ConditionalRBM`.
    sample_weight : array-like of shape (n_samples,), default=None
    callbacks : sequence of callbacks, default=()
        Callbacks for the rest of the fit, such as the same :class:`Checkpoint`.

    Returns
    -------
    estimator : object
        Fitted, with the same parameters as before. If the fit was already complete, it is returned
        unchanged.

    Raises
    ------
    FileNotFoundError
        If there is no file, for example because the fit was interrupted before it started.
    ValueError
        If the data are not those of the interrupted fit, if the number of processes differs, or if
        no file can be read.

    Warns
    -----
    UserWarning
        If the newest file cannot be read and an older one is used.
    """
    return estimator_to_resume(path, callbacks).fit(X, y, sample_weight=sample_weight)


def estimator_to_resume(path, callbacks=()):
    """Return an estimator whose next ``fit`` continues an interrupted one.

    Parameters and errors are those of :func:`resume`.
    """
    if not isinstance(callbacks, list | tuple):
        raise TypeError(f"callbacks must be a list of callbacks, got {type(callbacks).__name__}")
    differs = ValueError(f"the checkpoints in {path} are not those of {ranks().size} process(es)")
    files = {0: path}
    if ranks().size > 1 or os.path.isdir(path):
        files = dict(_files(_folder_of_rank(path)))
    common = set.intersection(*map(set, ranks().gather([*files])))
    if not common:
        found = [*Path(path).glob(_ALL), *Path(path).glob(f"rank-*/{_ALL}")]
        if any(ranks().gather(bool(found))):
            raise differs
        raise FileNotFoundError(f"there is no checkpoint in {path}")
    errors = []
    for number in sorted(common, reverse=True):  # the newest that all ranks can read
        error = None
        try:
            estimator, progress, n_ranks = read(files[number], "estimator", "progress", "n_ranks")
            if not isinstance(estimator, BaseEstimator) or not isinstance(progress, Progress):
                error = f"{path} was not written by Checkpoint"
        except ValueError as unreadable:
            error = str(unreadable)
        found = [message for message in ranks().gather(error) if message]
        if not found:
            break
        errors += found
    else:
        raise ValueError(errors[0])
    if errors:
        warnings.warn(f"{errors[0]}; {files[number]} is used instead", stacklevel=3)
    if n_ranks != ranks().size:
        raise differs
    estimator.set_callbacks(*callbacks)
    estimator._progress = progress
    return estimator
