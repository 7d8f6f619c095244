"""A callback that records the solutions of the mean-field equations during training."""

import numpy as np

from .._checks import check_count
from ._base import record_of


class SolutionsRecorder:
    """Callback that records the solutions of mean-field equations during ``fit``.

    The equations are solved from the same starts before training and after epochs (Fig. 5 of
    Tramel et al. 2018). Neither the fit nor its random numbers change.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
        Initial visible values, such as rows of data; default: the estimator's ``starts_``.
    every : int, default=1
        Interval between records, from epoch 0, before training.
    epochs : iterable of int, default=None
        Record these epochs instead.
    unique_tol : float, default=1e-2
        As in :meth:`skrbm.TAPRBM.solutions`.
    keep_solutions : bool, default=False
        Keep the :class:`~skrbm.evaluation.Solutions`, as :class:`LandscapeDisplay` needs them.

    Attributes
    ----------
    records_ : list of dict
        Keys of each: ``epoch``, ``n_solutions``, ``n_unique`` (by tolerance), ``n_starts``,
        ``n_unconverged``, ``free_energies`` (in nats, ascending), ``free_energies_per_unit``
        (divided by the number of all units), ``log_partition`` (minus their mean) and, with
        ``keep_solutions``, ``solutions``. A fit without ``warm_start`` clears the list.

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
        """Check that the estimator has solutions."""
        if not hasattr(estimator, "solutions"):
            raise TypeError(
                "SolutionsRecorder needs an estimator with solutions(X), such as TAPRBM, got "
                f"{type(estimator).__name__}"
            )

    def teardown(self, estimator, context):
        """Do nothing."""

    def on_fit_task_begin(self, estimator, context, *, fitted_estimator=None):
        """Record the machine before training."""
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
        raise ValueError(f"epochs must be a list of integers, got {epochs!r}")
    epochs = list(epochs)
    for epoch in epochs:
        check_count("each of epochs", epoch, 0)
    return frozenset(epochs)
