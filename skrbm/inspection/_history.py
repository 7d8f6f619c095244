"""Learning curves."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._checks import look_up

_DEFAULTS = (
    "tap_log_likelihood",
    "validation_error",
    "converged",
    "updated",
    "time",
    "learning_rate",
)
_ERROR, _WITH_ERROR = "log_likelihood_std", ("log_likelihood", "score")


class HistoryDisplay:
    """Learning curves of a fit.

    Parameters
    ----------
    history : dict of list
        ``history_`` of an estimator.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : list of matplotlib Line2D
    band_ : matplotlib PolyCollection or None
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
        return cls.from_history(estimator.history_, **plot_params)

    @classmethod
    def from_history(cls, history, **plot_params):
        """Show a history, such as one of several fits.

        Parameters
        ----------
        history : dict of list
            ``history_`` of an estimator.
        **plot_params
            Passed to :meth:`plot`.

        Returns
        -------
        HistoryDisplay
        """
        return cls(history).plot(**plot_params)

    def plot(self, *, quantity=None, ax=None, **line_params):
        """Draw one quantity over the epochs in which it was measured.

        The log-likelihood and the score have a band of two standard errors of log Z.

        Parameters
        ----------
        quantity : str, default=None
            A key of ``history_``; default: the log-likelihood, if it was measured in at least half
            of the epochs, else the first of ``tap_log_likelihood``, ``validation_error``,
            ``converged``, ``updated`` and ``time`` that was recorded.
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
            If the quantity was not recorded.
        """
        import matplotlib.pyplot as plt

        if not self.history.get("epoch"):
            raise ValueError("history has no epochs, as the machine was not trained by fit")
        if quantity is None:
            quantity = self._default()
        values = look_up("quantity", quantity, self.history)
        if ax is None:
            _, ax = plt.subplots()
        values, epochs = np.array(values, float), np.array(self.history["epoch"])
        known = np.isfinite(values)
        marker = {} if known.all() else {"marker": "."}
        self.lines_ = ax.plot(epochs[known], values[known], **(marker | line_params))
        self.band_ = None
        if quantity in _WITH_ERROR and _ERROR in self.history:
            half = 2 * np.array(self.history[_ERROR], float)[known]
            values, colour = values[known], self.lines_[0].get_color()
            self.band_ = ax.fill_between(
                epochs[known], values - half, values + half, color=colour, alpha=0.2, linewidth=2
            )
        ax.set_xlabel("epoch")
        ax.set_ylabel(quantity.replace("_", " "))
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _default(self):
        measured = np.isfinite(self.history.get("log_likelihood", []))
        if measured.size and measured.mean() >= 0.5:
            return "log_likelihood"
        return next((name for name in _DEFAULTS if name in self.history), None)
