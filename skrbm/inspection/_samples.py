"""Samples and completions as images."""

import numpy as np
from sklearn.utils.validation import check_array, check_is_fitted

from .._checks import check_count
from ..arrays import to_numpy
from ._images import draw_images, shape_of_images


class SamplesDisplay:
    """Samples of a model as images, or images with missing pixels next to their completions.

    Parameters
    ----------
    images : ndarray of shape (n_images, n_features)
        NaN is drawn in a separate color.
    image_shape : tuple of int
        Height and width, with height * width = n_features.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : ndarray of matplotlib Axes
    """

    def __init__(self, images, image_shape):
        self.images = images
        self.image_shape = image_shape

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X=None,
        *,
        n_samples=None,
        n_steps=100,
        image_shape=None,
        random_state=None,
        **plot_params,
    ):
        """Show samples, or draws of the missing values of X.

        Parameters
        ----------
        estimator : fitted density estimator
        X : array-like of shape (n_images, n_features), default=None
            Images with NaN for missing pixels. Each row of the grid shows an image, its conditional
            mean, if the estimator has ``impute``, and draws.
        n_samples : int, default=None
            Number of samples, by default 64; if X is given, number of draws for each image, by
            default 3.
        n_steps : int, default=100
            Number of sweeps of each chain.
        image_shape : tuple of int, default=None
            Height and width of the images; by default a square.
        random_state : int, RandomState instance or None, default=None
        **plot_params
            Passed to :meth:`plot`.

        Returns
        -------
        SamplesDisplay

        Raises
        ------
        ValueError
            If the features do not fill an image.
        TypeError
            If samples of the estimator are not rows of features alone.
        """
        check_is_fitted(estimator)
        if not hasattr(type(estimator), "density_"):
            raise TypeError(
                "estimator must be a density estimator, such as RBM, got "
                f"{type(estimator).__name__}; for a Pipeline pass the step, such as model[0]"
            )
        n_samples = (64 if X is None else 3) if n_samples is None else n_samples
        check_count("n_samples", n_samples, 1)
        options = {"n_steps": n_steps, "random_state": random_state}
        if X is None:
            images = to_numpy(estimator.sample(n_samples, **options))
            return cls(images, shape_of_images(images, image_shape)).plot(**plot_params)
        X = check_array(to_numpy(X), ensure_all_finite="allow-nan", dtype=np.float64)
        columns = [X]
        if hasattr(estimator, "impute"):
            columns.append(estimator.impute(X, random_state=random_state))
        draws = estimator.sample(given=np.repeat(X, n_samples, axis=0), **options)
        draws = to_numpy(draws).reshape(len(X), n_samples, -1)
        columns += list(np.moveaxis(draws, 1, 0))
        images = np.stack([to_numpy(column) for column in columns], axis=1)
        options = {"n_columns": len(columns), **plot_params}
        images = images.reshape(-1, X.shape[1])
        return cls(images, shape_of_images(images, image_shape)).plot(**options)

    def plot(self, *, n_columns=None, cmap="gray", figure=None):
        """Draw the images on one scale.

        Parameters
        ----------
        n_columns : int, default=None
            Number of images in a row; by default as many as there are rows, or for completions as
            many as belong to one image.
        cmap : str, default="gray"
            Color map; missing pixels are drawn in light blue.
        figure : matplotlib Figure or SubFigure, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        self : SamplesDisplay
        """
        import matplotlib

        colours = matplotlib.colormaps[cmap].with_extremes(bad="lightsteelblue")
        limits = {"vmin": np.nanmin(self.images), "vmax": np.nanmax(self.images)}
        self.figure_, self.axes_ = draw_images(
            self.images, self.image_shape, n_columns, figure, 0.7, cmap=colours, **limits
        )
        return self
