"""Receptive fields of the hidden units."""

import numpy as np
from sklearn.utils.validation import check_array, check_is_fitted

from .._checks import check_count, look_up
from ..arrays import to_numpy
from ._images import draw_images, shape_of_images

_SPREAD_POWER = 0.1


class ComponentsDisplay:
    """Receptive fields: the weights of hidden units as images, in a grid.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Weights, or other rows of visible values.
    image_shape : tuple of int, default=None
        Height and width, with height * width = n_features; by default a square.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : ndarray of matplotlib Axes

    Raises
    ------
    ValueError
        If the features do not fill an image.
    """

    def __init__(self, components, image_shape=None):
        self.components = check_array(to_numpy(components))
        self.image_shape = shape_of_images(self.components, image_shape)

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X=None,
        *,
        image_shape=None,
        n_components=100,
        rank_by="norm",
        end="highest",
        **plot_params,
    ):
        """Show the receptive fields of the highest or lowest ranked units.

        Parameters
        ----------
        estimator : fitted estimator with ``components_``
            For a deep model, the units of the first hidden layer are shown.
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Data for ``rank_by="activation"``.
        image_shape : tuple of int, default=None
            Height and width of the images; by default a square.
        n_components : int, default=100
            Maximum number of units.
        rank_by : {"norm", "spread", "activation"}, default="norm"
            Quantity by which units are ranked: the Euclidean norm of the weights of a unit; their
            l_0.1 norm ``(sum |w| ** 0.1) ** 10``, which is small for local fields; or the mean
            activation over X. The last two are used in Fig. 4 of Tramel et al. (2018).
        end : {"highest", "lowest"}, default="highest"
            End of the ranking to show.
        **plot_params
            Passed to :meth:`plot`.

        Returns
        -------
        ComponentsDisplay

        Raises
        ------
        ValueError
            If the features do not fill an image, or ``rank_by`` needs X.
        TypeError
            If the estimator has no ``components_``.
        """
        check_is_fitted(estimator)
        if not hasattr(estimator, "components_"):
            raise TypeError(
                f"estimator has no components_: it is a {type(estimator).__name__}; for a Pipeline "
                "pass the step, such as model[0], and for an RBMClassifier pass model.rbm_"
            )
        check_count("n_components", n_components, 1)
        look_up("rank_by", rank_by, {"norm": 0, "spread": 0, "activation": 0})
        sign = look_up("end", end, {"highest": -1, "lowest": 1})
        is_deep = hasattr(estimator, "transform_layer")
        components = to_numpy(estimator.components_[0] if is_deep else estimator.components_)
        if components.ndim > 2:  # of sites with several values, which are an image of both
            image_shape = components.shape[1:] if image_shape is None else image_shape
            components = components.reshape(len(components), -1)
        if rank_by == "norm":
            scores = np.linalg.norm(components, axis=1)
        elif rank_by == "spread":
            sums = np.sum(np.abs(components) ** _SPREAD_POWER, axis=1, dtype=np.float64)
            scores = sums ** (1 / _SPREAD_POWER)
        elif X is None:
            raise ValueError("rank_by='activation' needs X")
        else:
            hidden = estimator.transform_layer(X, 0) if is_deep else estimator.transform(X)
            scores = np.asarray(to_numpy(hidden), dtype=np.float64).mean(axis=0)
        first = np.argsort(sign * scores, kind="stable")[:n_components]
        return cls(components[first], image_shape).plot(**plot_params)

    def plot(self, *, n_columns=None, cmap="RdBu_r", figure=None):
        """Draw the images on one symmetric colour scale.

        Parameters
        ----------
        n_columns : int, default=None
            Number of images in a row; by default as many as there are rows.
        cmap : str, default="RdBu_r"
            Diverging colour map.
        figure : matplotlib Figure or SubFigure, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        self : ComponentsDisplay
        """
        limit = np.quantile(np.abs(self.components), 0.999)
        options = {"cmap": cmap, "vmin": -limit, "vmax": limit}
        self.figure_, self.axes_ = draw_images(
            self.components, self.image_shape, n_columns, figure, 0.55, **options
        )
        return self
