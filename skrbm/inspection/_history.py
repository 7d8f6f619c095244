"""The course of a fit."""

from sklearn.utils.validation import check_is_fitted

from .._checks import look_up

_USUAL = (
    "pseudo_log_likelihood",
    "tap_log_likelihood",
    "validation_error",
    "converged",
    "updated",
    "time",
    "learning_rate",
)


class HistoryDisplay:
    """Curves of what was recorded after each pass over the data.

    Parameters
    ----------
    history : dict of list
        ``history_`` of an estimator.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : list of matplotlib Line2D
    """

    def __init__(self, history):
        self.history = history

    @classmethod
    def from_estimator(cls, estimator, **plot_params):
        """Show the history of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator with ``history_``
        **plot_params
            Passed to :meth:`plot`.

        Returns
        -------
        HistoryDisplay
        """
        check_is_fitted(estimator)
        if not hasattr(estimator, "history_"):
            advice = "; plot the columns of path_" if hasattr(estimator, "path_") else ""
            raise ValueError(f"{type(estimator).__name__} has no history_ of epochs{advice}")
        return cls(estimator.history_).plot(**plot_params)

    def plot(self, *, quantity=None, ax=None, **line_params):
        """Draw one quantity over the epochs.

        Parameters
        ----------
        quantity : str, default=None
            A key of ``history_``; default: the first that was recorded of the
            pseudo-log-likelihood, the TAP log-likelihood and, of :class:`~skrbm.ConditionalRBM`,
            ``validation_error``, ``converged`` and ``updated``; or else the time of each pass.
        ax : matplotlib Axes, default=None
            Where to draw; default: a new figure.
        **line_params
            Passed to ``Axes.plot``.

        Returns
        -------
        self : HistoryDisplay

        Raises
        ------
        ValueError
            If the quantity, or anything, was not recorded.
        """
        import matplotlib.pyplot as plt

        if not self.history.get("epoch"):
            raise ValueError("history has no epoch: the machine was not trained by fit")
        if quantity is None:
            quantity = next((name for name in _USUAL if name in self.history), None)
        values = look_up("quantity", quantity, self.history)
        if ax is None:
            _, ax = plt.subplots()
        self.lines_ = ax.plot(self.history["epoch"], values, **line_params)
        ax.set_xlabel("epoch")
        ax.set_ylabel(quantity.replace("_", " "))
        self.ax_, self.figure_ = ax, ax.figure
        return self
