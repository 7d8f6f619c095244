"""Pictures of fitted machines, as scikit-learn's Display classes; they need matplotlib."""

import math

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._backend import to_numpy

__all__ = ["ComponentsDisplay", "HistoryDisplay"]


class ComponentsDisplay:
    """Receptive fields: the weights of hidden units as images, in a grid.

    Parameters
    ----------
    components : ndarray of shape (n_components, n_features)
        Weights.
    image_shape : tuple of int
        Height and width, with height * width = n_features.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : ndarray of matplotlib Axes
    """

    def __init__(self, components, image_shape):
        self.components = components
        self.image_shape = image_shape

    @classmethod
    def from_estimator(cls, estimator, *, image_shape=None, n_components=100, **plot_params):
        """Show the receptive fields of the units with the largest weights.

        Parameters
        ----------
        estimator : fitted estimator with ``components_``
        image_shape : tuple of int, default=None
            Height and width of the images; default: a square.
        n_components : int, default=100
            Number of units to show, by the norm of their weights.
        **plot_params
            Passed to :meth:`plot`.

        Returns
        -------
        ComponentsDisplay

        Raises
        ------
        ValueError
            If the features do not fill an image.
        """
        check_is_fitted(estimator, "components_")
        components = to_numpy(estimator.components_)
        n_features = components.shape[1]
        if image_shape is None:
            image_shape = (math.isqrt(n_features),) * 2
        if math.prod(image_shape) != n_features:
            raise ValueError(
                f"{n_features} features do not fill an image of shape {tuple(image_shape)}; "
                "give image_shape=(height, width)"
            )
        strongest = np.argsort(-np.linalg.norm(components, axis=1), kind="stable")
        return cls(components[strongest[:n_components]], image_shape).plot(**plot_params)

    def plot(self, *, n_columns=None, cmap="RdBu_r", figure=None):
        """Draw the images, all on one symmetric scale of colours.

        Parameters
        ----------
        n_columns : int, default=None
            Images in a row; default: as many as there are rows.
        cmap : str, default="RdBu_r"
            Diverging colour map.
        figure : matplotlib Figure or SubFigure, default=None
            Where to draw; default: a new figure.

        Returns
        -------
        self : ComponentsDisplay
        """
        import matplotlib.pyplot as plt

        n_images = len(self.components)
        n_columns = n_columns or math.ceil(math.sqrt(n_images))
        n_rows = math.ceil(n_images / n_columns)
        if figure is None:
            figure = plt.figure(figsize=(0.55 * n_columns, 0.55 * n_rows))
        axes = figure.subplots(
            n_rows, n_columns, squeeze=False, gridspec_kw={"wspace": 0.08, "hspace": 0.08}
        )
        limit = np.quantile(np.abs(self.components), 0.999)
        for axis in axes.flat:
            axis.set_axis_off()
        for axis, weights in zip(axes.flat, self.components, strict=False):
            image = weights.reshape(self.image_shape)
            axis.imshow(image, cmap=cmap, vmin=-limit, vmax=limit, interpolation="nearest")
        self.figure_, self.axes_ = figure, axes
        return self


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
        check_is_fitted(estimator, "history_")
        return cls(estimator.history_).plot(**plot_params)

    def plot(self, *, quantity="pseudo_log_likelihood", ax=None, **line_params):
        """Draw one quantity over the epochs.

        Parameters
        ----------
        quantity : str, default="pseudo_log_likelihood"
            A key of ``history_``.
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

        if quantity not in self.history:
            raise ValueError(f"quantity must be one of {sorted(self.history)}, got {quantity!r}")
        if ax is None:
            _, ax = plt.subplots()
        self.lines_ = ax.plot(self.history["epoch"], self.history[quantity], **line_params)
        ax.set_xlabel("epoch")
        ax.set_ylabel(quantity.replace("_", " "))
        self.ax_, self.figure_ = ax, ax.figure
        return self
