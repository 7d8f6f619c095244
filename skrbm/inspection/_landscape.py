"""Solutions of fixed-point equations, embedded into the plane."""

import math

import numpy as np
from sklearn.manifold import Isomap
from sklearn.utils.validation import column_or_1d

from .._checks import look_up
from ..arrays import to_numpy
from ._recorder import records_of, shown, title_of

_MIN_ROWS, _N_NEIGHBORS = 4, 10  # of an embedding


class LandscapeDisplay:
    """Solutions of a model, embedded in the plane by Isomap (Figs. 6 and 7 of Tramel et al. 2018).

    Parameters
    ----------
    epochs : list of int
    solutions : list of Solutions
        The solutions after each epoch.
    points : list of ndarray of shape (n_solutions, 2)
        The embedded solutions.
    start_points : list of ndarray of shape (n_starts, 2), default=None
        The embedded starts.
    y : array-like of shape (n_starts,), default=None
        Classes of the starts, which determine their colours; by default their solutions do.

    Attributes
    ----------
    figure_ : matplotlib Figure or SubFigure
    axes_ : ndarray of matplotlib Axes
        One for each epoch.
    """

    def __init__(self, epochs, solutions, points, start_points=None, y=None):
        self.epochs = epochs
        self.solutions = solutions
        self.points = points
        self.start_points = start_points
        self.y = y

    @classmethod
    def from_recorder(cls, recorder, y=None, *, fit_on="solutions", **plot_params):
        """Show the solutions after at most four epochs in one embedding.

        Parameters
        ----------
        recorder : SolutionsRecorder
            A recorder after a fit.
        y : array-like of shape (n_samples,), default=None
            Classes of the rows X of the recorder. Requires ``fit_on="starts"``.
        fit_on : {"solutions", "starts"}, default="solutions"
            Whether to fit the embedding to the means of all units at the solutions of the last
            epoch, colored by free energy (Fig. 6), or to the starts, among which the visible means
            of the solutions are then placed (Fig. 7).
        **plot_params
            Passed to :meth:`plot`.

        Returns
        -------
        LandscapeDisplay

        Raises
        ------
        ValueError
            If there are fewer than 4 points to embed.
        """
        epochs, solutions = map(shown, records_of(recorder))
        if not look_up("fit_on", fit_on, {"solutions": False, "starts": True}):
            if y is not None:
                raise ValueError("y needs fit_on='starts'")
            rows = [np.concatenate([*map(to_numpy, found.means)], axis=1) for found in solutions]
            return cls(epochs, solutions, _embedded(rows[-1], rows)).plot(**plot_params)
        starts = [to_numpy(found.starts) for found in solutions]
        if y is not None:
            y = column_or_1d(to_numpy(y))
            if len(y) != len(starts[-1]):
                raise ValueError(f"y has {len(y)} entries, but there are {len(starts[-1])} starts")
        means = [to_numpy(found.means[0]) for found in solutions]
        points = _embedded(starts[-1], means + starts)
        n = len(means)
        return cls(epochs, solutions, points[:n], points[n:], y).plot(**plot_params)

    def plot(self, *, figure=None):
        """Draw the epochs in the same coordinates.

        Solutions are colored by free energy. If starts are shown, these are colored instead, and
        solutions are black, with sizes given by the number of starts that lead to them.

        Parameters
        ----------
        figure : matplotlib Figure or SubFigure, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        self : LandscapeDisplay
        """
        import matplotlib.pyplot as plt

        n = len(self.epochs)
        n_columns = math.ceil(math.sqrt(n))
        n_rows = math.ceil(n / n_columns)
        if figure is None:
            figure = plt.figure(figsize=(4.0 * n_columns, 3.4 * n_rows), layout="constrained")
        axes = figure.subplots(n_rows, n_columns, squeeze=False, sharex=True, sharey=True).ravel()
        for unused in axes[n:]:
            unused.remove()
        for i, ax in enumerate(axes[:n]):
            ax.set(xticks=[], yticks=[])
            ax.set_title(title_of(self.epochs[i], self.solutions[i]), fontsize="medium")
            if self.start_points is None:
                style = {"c": self.solutions[i].free_energies, "s": 20, "linewidths": 0}
                dots = ax.scatter(*self.points[i].T, **style)
                if len(self.points[i]) > 1:
                    figure.colorbar(dots, ax=ax, label="free energy (nats)")
            else:
                self._draw_starts(ax, self.start_points[i], self.points[i], self.solutions[i])
        if self.y is not None:
            beside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "frameon": False}
            axes[n - 1].legend(markerscale=3, fontsize="small", **beside)
        self.figure_, self.axes_ = figure, axes[:n]
        return self

    def _draw_starts(self, ax, starts, points, found):
        style = {"s": 7, "alpha": 0.6, "linewidths": 0}
        if self.y is None:
            ax.scatter(*starts.T, c=found.labels % 20, cmap="tab20", vmin=0, vmax=19, **style)
        else:
            for label in np.unique(self.y):
                ax.scatter(*starts[self.y == label].T, label=str(label), **style)
        sizes = np.maximum(60 * np.sqrt(found.counts / max(1, found.counts.max())), 4)
        ax.scatter(*points.T, s=sizes, color="black", alpha=0.8, linewidths=0, zorder=3)


def _embedded(rows, parts):
    """Return parts in the plane where rows are embedded."""
    if len(rows) < _MIN_ROWS:
        raise ValueError(
            f"an embedding needs at least {_MIN_ROWS} rows, got {len(rows)}; pass more starts X, "
            "or fit_on='starts'"
        )
    embedding = Isomap(n_neighbors=min(_N_NEIGHBORS, len(rows) - 1), n_components=2).fit(rows)
    return [
        embedding.embedding_ if np.array_equal(part, rows) else embedding.transform(part)
        for part in parts
    ]
