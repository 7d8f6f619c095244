"""A callback that records the solutions of the mean-field equations during training."""

from .._checks import check_count

_MOST_SHOWN = 4  # epochs of which a display shows solutions


class SolutionsRecorder:
    """Callback that records the solutions of mean-field equations during ``fit``.

    The equations are solved from the same starts before training and after its epochs (Fig. 5 of
    Tramel et al. 2018). The result of the fit is unaffected.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
        Visible values at which the iterations start, such as rows of data; by default ``starts_``
        of the estimator.
    every : int, default=1
        Number of epochs between records; the first is epoch 0, before training.
    epochs : iterable of int, default=None
        Record these epochs instead.

    Attributes
    ----------
    epochs_ : list of int
        The recorded epochs. A fit without ``warm_start`` clears the records.
    solutions_ : list of Solutions
        The :class:`~skrbm.evaluation.Solutions` of each recorded epoch.

    Examples
    --------
    >>> import numpy as np
    >>> from skrbm import TAPRBM
    >>> from skrbm.inspection import SolutionsRecorder
    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
    >>> recorder = SolutionsRecorder(X, every=5)
    >>> rbm = TAPRBM(n_components=2, n_iter=10, random_state=0).set_callbacks(recorder).fit(X)
    >>> recorder.epochs_
    [0, 5, 10]
    """

    def __init__(self, X=None, *, every=1, epochs=None):
        check_count("every", every, 1)
        self.X, self.every = X, every
        self.epochs = None if epochs is None else frozenset(epochs)
        self.epochs_, self.solutions_ = [], []

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
        is_first = context.task_name == "fit" and not estimator.history_.get("epoch")
        if is_first and fitted_estimator is not None:
            self.epochs_, self.solutions_ = [], []
            self._record(0, fitted_estimator)

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        """Record the machine after an epoch."""
        if context.task_name == "epoch" and fitted_estimator is not None:
            self._record(estimator.history_["epoch"][-1], fitted_estimator)

    def _record(self, epoch, estimator):
        if epoch % self.every == 0 if self.epochs is None else epoch in self.epochs:
            self.epochs_.append(epoch)
            self.solutions_.append(estimator.solutions(self.X))


def records_of(recorder):
    """Return the epochs and the solutions of a recorder, of which there must be some."""
    if not recorder.epochs_:
        raise ValueError(
            "the recorder has no records; pass it to set_callbacks of an estimator and call fit"
        )
    return recorder.epochs_, recorder.solutions_


def shown(items):
    """Return at most four items, evenly spaced from the first to the last."""
    n = min(_MOST_SHOWN, len(items))
    return [items[round(i * (len(items) - 1) / max(n - 1, 1))] for i in range(n)]


def title_of(epoch, solutions):
    """Return the title of a picture of solutions."""
    return f"epoch {epoch}: {len(solutions)} solution{'s' * (len(solutions) != 1)}"
