"""Checkpoints: files from which a fit goes on as if it had never been interrupted."""

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
    """Callback that writes a fit to files, from which :func:`resume` goes on with it.

    A file is written when ``fit`` begins, after some of its epochs (units, of
    :class:`~skrbm.FrankWolfeRBM`), and when it has come to its end. It is there as a whole or not
    at all, even if the process is killed. The fit and its random numbers do not change.

    Parameters
    ----------
    folder : str or path-like
        Where the files are written; it is made if it is not there. Each fit needs its own. The file
        with the largest number is the newest. Where several processes learn one machine together,
        each has a folder of its own in it, such as ``rank-0``, and all of them need this callback.
    every : int, default=1
        Number of epochs from one file to the next.
    minutes : float, default=None
        Write a file after the first epoch that ends so many minutes after the last file was
        written, instead of every so many epochs.
    keep : int, default=3
        How many files are kept: the newest ones.

    Raises
    ------
    TypeError
        When the fit begins, if a file cannot hold the estimator (see :func:`save`), or if it is
        the machine inside of another one, such as RBMClassifier.

    Warns
    -----
    UserWarning
        If a file cannot be written, such as to a full disk. The fit goes on, and the older files
        stay.

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
        """What has to be the same on all ranks, which write their files together."""
        return f"{type(self).__name__}(every={self.every}, minutes={self.minutes})"

    def setup(self, estimator, context):
        """Make the folder, and remove what a process that was killed has left half written."""
        check_own(estimator, "Checkpoint")
        if type(estimator).__name__ not in skrbm().__all__:
            raise TypeError(
                "Checkpoint cannot go on with a machine that another estimator makes and fits, as "
                "RBMClassifier does; save the fitted estimator with skrbm.persistence.save"
            )
        folder = _of_rank(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob(f".{_ALL}.*"):
            path.unlink(missing_ok=True)

    def teardown(self, estimator, context):
        """Nothing needs to be undone."""

    def on_fit_task_begin(self, estimator, context, *, fitted_estimator=None):
        """Write a file when the fit begins."""
        if context.task_name == "fit":
            self._write(fitted_estimator)

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        """Write a file after an epoch if it is time, and at the end of the fit."""
        self._n_epochs += 1
        if context.task_name == "fit" or self._is_due():
            self._write(fitted_estimator)

    def _is_due(self):
        if self.minutes is None:
            return self._n_epochs >= self.every
        is_late = time.monotonic() - self._time >= 60 * self.minutes
        return ranks().first(is_late)  # the clock of one rank, so that files are of one epoch

    def _write(self, fitted):
        checkpoint = getattr(fitted, "_checkpoint", None)
        if checkpoint is None:  # the next file is that of the end
            return
        estimator, progress = checkpoint()
        folder = _of_rank(self.folder)
        newest = max((number for number, _ in _files(folder)), default=0)
        newest = max(ranks().gather(newest))  # a rank may have failed to write a file
        path = Path(folder, _NAME.format(newest + 1))
        try:
            write(path, estimator=estimator, progress=progress, n_ranks=ranks().size)
            for _, older in _files(folder)[: -self.keep]:
                older.unlink(missing_ok=True)
        except OSError as error:
            warnings.warn(
                f"the checkpoint {path} could not be written: {error}. The fit goes on without it; "
                "the older files stay. Make room, or set another folder.",
                stacklevel=2,
            )
        self._n_epochs, self._time = 0, time.monotonic()


def _of_rank(folder):
    """Return the folder of this rank, which is the one given if it learns alone."""
    return Path(folder, f"rank-{ranks().rank}") if ranks().size > 1 else Path(folder)


def _files(folder):
    """Return (number, path) of the checkpoints in a folder, the newest last."""
    found = ((path.stem.rpartition("-")[2], path) for path in Path(folder).glob(_ALL))
    return sorted((int(number), path) for number, path in found if number.isdecimal())


def resume(path, X, y=None, sample_weight=None, *, callbacks=()):
    """Go on with a fit that was interrupted; its result is that of the fit without interruption.

    Parameters
    ----------
    path : str or path-like
        A file of :class:`Checkpoint`, or its folder, of which the newest file that can be read is
        taken. Where several processes learn together, it is the folder, and all of them take the
        newest file that each of them has and can read. As many must go on as had begun.
    X : array-like of shape (n_samples, n_features)
        What ``fit`` was given; so are the next two. Rows of an array may be in any order, with
        labels and weights in the same one; data in blocks must come as they did.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
        Only of :class:`~skrbm.ConditionalRBM`.
    sample_weight : array-like of shape (n_samples,), default=None
    callbacks : sequence of callbacks, default=()
        For the rest of the fit, such as the same :class:`Checkpoint`. Those of the fit before are
        not kept.

    Returns
    -------
    estimator : object
        Fitted, with the same parameters as the one before. After the end of a fit it is what was
        fitted then.

    Raises
    ------
    FileNotFoundError
        If there is no file, as when the fit was interrupted before it began.
    ValueError
        If the data are not those of the fit, if another number of processes goes on than had begun,
        or if no file can be read.

    Warns
    -----
    UserWarning
        If the newest file cannot be read, and an older one is taken.
    """
    return to_go_on(path, callbacks).fit(X, y, sample_weight=sample_weight)


def to_go_on(path, callbacks=()):
    """Return an estimator whose next ``fit`` goes on with one that was interrupted.

    Parameters and errors are those of :func:`resume`.
    """
    if not isinstance(callbacks, list | tuple):
        raise TypeError(f"callbacks must be a list of callbacks, got {type(callbacks).__name__}")
    found = _newest_of_ranks(path) if ranks().size > 1 else _newest(path)
    estimator, progress, n_begun = found
    if progress is None:
        raise ValueError(
            f"{path} was written by save, not by Checkpoint, so that there is no fit to go on with;"
            " load it, set warm_start=True, and call fit"
        )
    if n_begun not in (None, ranks().size):  # None: of an earlier release
        raise ValueError(_of_other_ranks(path, f"{n_begun} processes"))
    estimator.set_callbacks(*callbacks)
    estimator._progress = progress
    return estimator


def _of_other_ranks(path, begun):
    """Return an error's words where other processes had begun a fit than go on."""
    return (
        f"the fit of the checkpoints in {path} was begun by {begun}, and {ranks().size} would go "
        "on; as many processes must go on as had begun, each with the rows that it had"
    )


def _newest_of_ranks(folder):
    """Return the estimator and the progress in the newest file that all ranks have and can read.

    Newer files, which some of the ranks had written, are removed: the fit goes on before them.
    """
    files = dict(_files(_of_rank(folder)))
    of_ranks = ranks().gather([*files])
    common = set.intersection(*map(set, of_ranks))
    if not common:
        have = [f"rank-{rank}" for rank, numbers in enumerate(of_ranks) if numbers]
        if have:
            raise ValueError(_of_other_ranks(folder, f"the processes of {', '.join(have)}"))
        if any(ranks().gather(bool(_files(folder)))):
            raise ValueError(_of_other_ranks(folder, "one process"))
        raise FileNotFoundError(f"there is no checkpoint in {folder} that all ranks have")
    errors = []
    for number in sorted(common, reverse=True):
        values, error = None, None
        try:
            values = _read(files[number])
        except ValueError as unreadable:
            error = str(unreadable)
        found = [told for told in ranks().gather(error) if told]
        if not found:
            break
        errors += found
    else:
        raise ValueError(errors[0])
    if errors:
        warnings.warn(f"{errors[0]}. {files[number]} is taken instead", stacklevel=4)
    for other, path in files.items():
        if other > number:
            path.unlink()
    return values


def _read(path):
    """Return the estimator, the progress and the number of ranks in a file."""
    estimator, progress, n_ranks = read(path, "estimator", "progress", "n_ranks")
    if not isinstance(estimator, BaseEstimator) or not isinstance(progress, Progress | None):
        raise ValueError(f"{path} has no estimator, or no progress of a fit")
    return estimator, progress, n_ranks


def _newest(path):
    """Return the estimator and the progress in a file, or in the newest file of a folder."""
    paths = [path]
    if os.path.isdir(path):
        paths = [found for _, found in reversed(_files(path))]
    if not paths:
        have = sorted({found.parent.name for found in Path(path).glob(f"rank-*/{_ALL}")})
        if have:
            raise ValueError(_of_other_ranks(path, f"the processes of {', '.join(have)}"))
        raise FileNotFoundError(f"there is no checkpoint in {path}")
    errors = []
    for found in paths:
        try:
            values = _read(found)
        except ValueError as error:
            errors.append(error)
            continue
        if errors:
            warnings.warn(f"{errors[0]}. {found} is taken instead", stacklevel=4)
        return values
    raise errors[0]
