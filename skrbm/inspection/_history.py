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
_LABELS = {"log_likelihood": "training", "score": "validation"}
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
    bands_ : list of matplotlib PolyCollection
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
        """Draw one quantity, or training and validation, over the epochs with measurements.

        The log-likelihood and the score have a band of two standard errors of log Z.

        Parameters
        ----------
        quantity : str, default=None
            A key of ``history_``; default: the log-likelihood, if it was measured in at least half
            of the epochs, with the score of the validation rows if there is one; else the first of
            ``tap_log_likelihood``, ``validation_error``, ``converged``, ``updated`` and ``time``
            that was recorded.
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
        chosen = self._default() if quantity is None else quantity
        look_up("quantity", chosen, self.history)
        names = [chosen]
        if quantity is None and chosen == "log_likelihood" and "score" in self.history:
            names.append("score")
        if ax is None:
            _, ax = plt.subplots()
        self.lines_, self.bands_ = [], []
        for name in names:
            label = {} if len(names) == 1 else {"label": _LABELS[name]}
            self._draw(name, ax, **(label | line_params))
        if len(names) > 1:
            ax.legend(frameon=False)
        ax.set_xlabel("epoch")
        ax.set_ylabel(chosen.replace("_", " "))
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw(self, quantity, ax, **line_params):
        values, epochs = np.array(self.history[quantity], float), np.array(self.history["epoch"])
        known = np.isfinite(values)
        marker = {} if known.all() else {"marker": "."}
        self.lines_ += ax.plot(epochs[known], values[known], **(marker | line_params))
        if quantity in _WITH_ERROR and _ERROR in self.history:
            half = 2 * np.array(self.history[_ERROR], float)[known]
            values, colour = values[known], self.lines_[-1].get_color()
            band = ax.fill_between(
                epochs[known], values - half, values + half, color=colour, alpha=0.2, linewidth=2
            )
            self.bands_.append(band)

    def _default(self):
        measured = np.isfinite(self.history.get("log_likelihood", []))
        if measured.size and measured.mean() >= 0.5:
            return "log_likelihood"
        return next((name for name in _DEFAULTS if name in self.history), None)
