"""Solutions of fixed-point equations, embedded into the plane."""

import numpy as np
from sklearn.base import clone
from sklearn.manifold import Isomap
from sklearn.utils.validation import column_or_1d

from .._checks import look_up
from ..arrays import to_numpy
from ._base import final_record, grid_shape, records_of, spread

_MIN_ROWS, _N_NEIGHBORS = 4, 10  # of an embedding


class LandscapeDisplay:
    """Solutions of a machine, embedded into the plane (Figs. 6 and 7 of Tramel et al. 2018).

    Parameters
    ----------
    pictures : list of dict
        Of each picture the ``title``, the ``points`` of shape (n_solutions, 2), ``free_energies``
        and ``counts`` of solutions; to show starts, also ``start_points`` of shape (n_starts, 2)
        and the ``labels`` of their solutions, -1 for none.
    y : array-like of shape (n_starts,), default=None
        Classes of the starts, for their colours; default: their solutions.

    Attributes
    ----------
    figure_ : matplotlib Figure or SubFigure
    axes_ : ndarray of matplotlib Axes
        One for each picture.
    """

    def __init__(self, pictures, y=None):
        self.pictures = pictures
        self.y = y

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X=None,
        y=None,
        *,
        fit_on="solutions",
        embedding=None,
        unique_tol=1e-2,
        **plot_params,
    ):
        """Show the solutions of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator with ``solutions``
        X : array-like of shape (n_samples, n_features), default=None
            Initial values of the equations, such as rows of data; default: ``starts_``.
        y : array-like of shape (n_samples,), default=None
            Classes of the rows, for their colours. Only with ``fit_on="starts"``.
        fit_on : {"solutions", "starts"}, default="solutions"
            Fit the embedding on the means of all units at the solutions (Fig. 6), coloured by
            free energy; or on the rows X (Fig. 7), with the visible means of solutions among them.
        embedding : estimator, default=None
            With ``n_components=2``, such as those of :mod:`sklearn.manifold`; default: ``Isomap``.
            One without ``transform`` is fitted on all points.
        unique_tol : float, default=1e-2
            As in :meth:`skrbm.TAPRBM.solutions`.
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
        record = final_record(estimator, X, unique_tol)
        return cls._of([record], y, fit_on, embedding).plot(**plot_params)

    @classmethod
    def from_recorder(
        cls, recorder, y=None, *, n_epochs=4, fit_on="solutions", embedding=None, **plot_params
    ):
        """Show the solutions after several epochs in one embedding.

        Parameters
        ----------
        recorder : SolutionsRecorder
            After a fit, with ``keep_solutions=True``.
        y : array-like of shape (n_samples,), default=None
            Classes of the recorder's rows X. Only with ``fit_on="starts"``.
        n_epochs : int, default=4
            Maximum number of pictures, of evenly spaced records.
        fit_on : {"solutions", "starts"}, default="solutions"
            As in :meth:`from_estimator`, of the last epoch.
        embedding : estimator, default=None
            As in :meth:`from_estimator`.
        **plot_params
            Passed to :meth:`plot`.

        Returns
        -------
        LandscapeDisplay
        """
        records = spread(records_of(recorder), n_epochs)
        if "solutions" not in records[-1]:
            raise ValueError("the recorder must have keep_solutions=True")
        return cls._of(records, y, fit_on, embedding).plot(**plot_params)

    @classmethod
    def _of(cls, records, y, fit_on, embedding):
        found = [record["solutions"] for record in records]
        parts, y = look_up("fit_on", fit_on, _PARTS)(found, embedding, y)
        pictures = [
            {
                "title": f"epoch {record['epoch']}: {_number(len(solutions))}",
                "free_energies": solutions.free_energies,
                "counts": solutions.counts,
                **part,
            }
            for record, solutions, part in zip(records, found, parts, strict=True)
        ]
        return cls(pictures, y)

    def plot(self, *, cmap="viridis", lines=False, n_columns=None, figure=None):
        """Draw the pictures in the same coordinates.

        Solutions are coloured by free energy. With starts, which then have the colours, they are
        black and sized by the number of starts that lead to them.

        Parameters
        ----------
        cmap : str, default="viridis"
            Colour map of free energies.
        lines : bool, default=False
            Draw a line from each start to its solution.
        n_columns : int, default=None
            Pictures in a row; default: as many as there are rows.
        figure : matplotlib Figure or SubFigure, default=None
            Where to draw; default: a new figure.

        Returns
        -------
        self : LandscapeDisplay
        """
        import matplotlib.pyplot as plt

        n_rows, n_columns = grid_shape(len(self.pictures), n_columns)
        if figure is None:
            size = (4.0 * n_columns, 3.4 * n_rows)
            figure = plt.figure(figsize=size, layout="constrained")
        axes = figure.subplots(n_rows, n_columns, squeeze=False, sharex=True, sharey=True)
        for ax in axes.flat:
            ax.set(xticks=[], yticks=[])
        for ax in axes.flat[len(self.pictures) :]:
            ax.set_axis_off()
        axes = axes.ravel()[: len(self.pictures)]
        for ax, picture in zip(axes, self.pictures, strict=True):
            ax.set_title(picture["title"], fontsize="medium")
            if "start_points" in picture:
                _draw_starts(ax, picture, self.y, lines)
            else:
                _draw_free_energies(ax, picture, cmap)
        if self.y is not None:
            beside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "frameon": False}
            axes[-1].legend(markerscale=3, fontsize="small", **beside)
        self.figure_, self.axes_ = figure, axes
        return self


def _number(n):
    return f"{n} solution" if n == 1 else f"{n} solutions"


def _classes(y, n_starts):
    if y is None:
        return None
    y = column_or_1d(to_numpy(y))
    if len(y) != n_starts:
        raise ValueError(f"y has {len(y)} entries, but there are {n_starts} starts")
    return y


def _solution_parts(found, embedding, y):
    """Embed the means of all layers, fitted on the last solutions."""
    if y is not None:
        raise ValueError("y needs fit_on='starts'")
    rows = [np.concatenate([to_numpy(mean) for mean in one.means], axis=1) for one in found]
    last, others = _embedded(embedding, rows[-1], rows[:-1])
    return [{"points": points} for points in (*others, last)], None


def _start_parts(found, embedding, y):
    """Embed starts and visible means, fitted on the last starts, with their classes."""
    y = _classes(y, len(found[-1].labels))
    starts = [to_numpy(one.starts) for one in found]
    fresh = [i for i, rows in enumerate(starts) if not np.array_equal(rows, starts[-1])]
    means = [to_numpy(one.means[0]) for one in found]
    last, others = _embedded(embedding, starts[-1], means + [starts[i] for i in fresh])
    start_points = dict(zip(fresh, others[len(found) :], strict=True))
    parts = [
        {"points": points, "start_points": start_points.get(i, last), "labels": one.labels}
        for i, (points, one) in enumerate(zip(others, found, strict=False))
    ]
    return parts, y


_PARTS = {"solutions": _solution_parts, "starts": _start_parts}


def _embedded(embedding, rows, others):
    """Return an embedding fitted to rows, and a list of the embedded others."""
    if len(rows) < _MIN_ROWS:
        raise ValueError(
            f"an embedding needs at least {_MIN_ROWS} rows, got {len(rows)}; give more starts X, "
            "or fit_on='starts'"
        )
    if embedding is None:
        embedding = Isomap(n_neighbors=min(_N_NEIGHBORS, len(rows) - 1), n_components=2)
    embedding = clone(embedding)
    if hasattr(embedding, "transform"):
        first = embedding.fit_transform(rows)
        parts = [first, *(embedding.transform(other) for other in others)]
    else:
        ends = np.cumsum([len(rows), *(len(other) for other in others)])
        parts = np.split(embedding.fit_transform(np.concatenate([rows, *others])), ends[:-1])
    if parts[0].shape[1] != 2:
        raise ValueError(
            f"embedding must have 2 components, and {type(embedding).__name__} gave "
            f"{parts[0].shape[1]}"
        )
    return parts[0], parts[1:]


def _draw_free_energies(ax, picture, cmap):
    points = picture["points"]
    dots = ax.scatter(*points.T, c=picture["free_energies"], cmap=cmap, s=20, linewidths=0)
    if len(points) > 1:
        ax.figure.colorbar(dots, ax=ax, label="free energy (nats)")


def _draw_starts(ax, picture, y, lines):
    starts, labels, points = picture["start_points"], picture["labels"], picture["points"]
    style = {"s": 7, "alpha": 0.6, "linewidths": 0}
    if lines:
        ends = labels >= 0
        segments = np.stack([starts[ends], points[labels[ends]]])
        ax.plot(segments[..., 0], segments[..., 1], color="0.7", lw=0.3, zorder=0)
    if y is None:
        ax.scatter(*starts.T, c=labels % 20, cmap="tab20", vmin=0, vmax=19, **style)
    else:
        for label in np.unique(y):
            ax.scatter(*starts[y == label].T, label=str(label), **style)
    size = 60 * np.sqrt(picture["counts"] / max(1, picture["counts"].max()))
    ax.scatter(*points.T, s=np.maximum(size, 4), color="black", alpha=0.8, linewidths=0, zorder=3)
