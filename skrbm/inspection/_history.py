"""Learning curves."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._checks import look_up

_DEFAULTS = "score", "tap_log_likelihood", "validation_error", "converged", "updated", "time"
_LABELS = {"log_likelihood": "training", "score": "validation"}


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
        return cls(estimator.history_).plot(**plot_params)

    def plot(self, *, quantity=None, ax=None, **line_params):
        """Draw one quantity, or training and validation, over the epochs with measurements.

        The log-likelihood and the score have a band of two standard errors of log Z.

        Parameters
        ----------
        quantity : str, default=None
            A key of ``history_``. By default the log-likelihood if it was measured in at least half
            of the epochs, together with the score of the validation rows if there is one; otherwise
            the first of ``score``, ``tap_log_likelihood``, ``validation_error``, ``converged``,
            ``updated`` and ``time`` that was recorded.
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure.
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
            raise ValueError("history has no epochs, since the estimator was not trained by fit")
        names = [quantity]
        if quantity is None:
            measured = np.isfinite(self.history.get("log_likelihood", [np.nan]))
            names = [name for name in _LABELS if name in self.history]
            if measured.mean() < 0.5:
                names = [next((name for name in _DEFAULTS if name in self.history), None)]
        look_up("quantity", names[0], self.history)
        if ax is None:
            _, ax = plt.subplots()
        self.lines_, self.bands_ = [], []
        for name in names:
            label = {} if len(names) == 1 else {"label": _LABELS[name]}
            self._draw(name, ax, **(label | line_params))
        if len(names) > 1:
            ax.legend(frameon=False)
        ax.set(xlabel="epoch", ylabel=names[0].replace("_", " "))
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw(self, quantity, ax, **line_params):
        values, epochs = np.array(self.history[quantity], float), np.array(self.history["epoch"])
        known = np.isfinite(values)
        marker = {} if known.all() else {"marker": "."}
        self.lines_ += ax.plot(epochs[known], values[known], **(marker | line_params))
        if quantity in _LABELS and "log_likelihood_std" in self.history:
            half = 2 * np.array(self.history["log_likelihood_std"], float)[known]
            ends = epochs[known], values[known] - half, values[known] + half
            colour = self.lines_[-1].get_color()
            self.bands_.append(ax.fill_between(*ends, color=colour, alpha=0.2, linewidth=2))
