"""A callback that records the solutions of the mean-field equations during training."""

import numpy as np

from .._checks import check_count
from ._base import record_of


class SolutionsRecorder:
    """Callback that records solutions during ``fit``.

    The mean-field equations are solved from the same starts before training and after some of
    its epochs, which gives the course of the number of distinct solutions and of their free
    energies (Fig. 5 of Tramel et al. 2018). Neither the fit nor its random numbers change.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
        Visible values to start at, such as some rows of the data; default: the starts of the
        estimator at that moment.
    every : int, default=1
        Record each epoch whose number this divides, 0 (before training) included.
    epochs : iterable of int, default=None
        Record these epochs instead, 0 being the machine before training.
    unique_tol : float, default=1e-2
        As in :meth:`skrbm.TAPRBM.solutions`.
    keep_solutions : bool, default=False
        Whether records have the :class:`~skrbm.evaluation.Solutions` themselves, as the embedding
        of :class:`LandscapeDisplay` needs them.

    Attributes
    ----------
    records_ : list of dict
        A record for each epoch, with the keys ``epoch``; ``n_solutions``; ``n_unique``, a dict of
        the numbers at the tolerances 1e-1, 1e-2, 1e-3; ``n_starts``; ``n_unconverged``;
        ``free_energies``, an array in nats, the lowest first; ``free_energies_per_unit``, the
        same divided by the number of units of all layers; ``log_partition``, minus their mean;
        and, with ``keep_solutions``, ``solutions``. A fit that does not go on from another
        (``warm_start``) begins a new list. Copies of the estimator that are fitted in other
        processes do not write here.

    Examples
    --------
    >>> import numpy as np
    >>> from skrbm import TAPRBM
    >>> from skrbm.inspection import SolutionsRecorder
    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
    >>> recorder = SolutionsRecorder(X, every=5)
    >>> rbm = TAPRBM(n_components=2, n_iter=10, random_state=0).set_callbacks(recorder).fit(X)
    >>> [record["epoch"] for record in recorder.records_]
    [0, 5, 10]
    """

    def __init__(self, X=None, *, every=1, epochs=None, unique_tol=1e-2, keep_solutions=False):
        check_count("every", every, 1)
        self.X, self.every, self.epochs = X, every, _epochs(epochs)
        self.unique_tol, self.keep_solutions = unique_tol, keep_solutions
        self.records_ = []

    def setup(self, estimator, context):
        """Refuse estimators without solutions."""
        if not hasattr(estimator, "solutions"):
            raise TypeError(
                f"SolutionsRecorder needs an estimator that has solutions(X), such as TAPRBM, got "
                f"{type(estimator).__name__}"
            )

    def teardown(self, estimator, context):
        """Nothing needs to be undone."""

    def on_fit_task_begin(self, estimator, context, *, fitted_estimator=None):
        """Record the machine before training; a fit that begins anew clears the records."""
        if context.task_name == "fit" and fitted_estimator is not None:
            if not estimator.history_.get("epoch"):
                self.records_ = []
                self._record(0, fitted_estimator)

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        """Record the machine after an epoch."""
        if context.task_name == "epoch" and fitted_estimator is not None:
            self._record(estimator.history_["epoch"][-1], fitted_estimator)

    def _record(self, epoch, estimator):
        if epoch not in self.epochs if self.epochs is not None else epoch % self.every:
            return
        record = record_of(estimator, self.X, self.unique_tol, epoch)
        if not self.keep_solutions:
            del record["solutions"]
        self.records_.append(record)


def _epochs(epochs):
    if epochs is None:
        return None
    if not np.iterable(epochs):
        raise ValueError(
            f"epochs must be a list of integers, got {epochs!r}; for every k-th epoch use every=k"
        )
    epochs = list(epochs)
    for epoch in epochs:
        check_count("each of epochs", epoch, 0)
    return frozenset(epochs)
