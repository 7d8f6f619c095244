"""Receptive fields of the hidden units."""

import numpy as np
from sklearn.utils.validation import check_array, check_is_fitted

from .._checks import check_count, look_up
from ..arrays import to_numpy
from ._base import draw_images, shape_of_images

_SPREAD_POWER = 0.1


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
            Of a deep machine, the units of the first hidden layer are shown.
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Data for ``rank_by="activation"``.
        image_shape : tuple of int, default=None
            Height and width of the images; default: a square.
        n_components : int, default=100
            Maximum number of units.
        rank_by : {"norm", "spread", "activation"}, default="norm"
            The Euclidean norm of the weights of a unit; their l_0.1 norm
            ``(sum |w| ** 0.1) ** 10``, small for local fields; or the mean activation over X. The
            last two are those of Fig. 4 of Tramel et al. (2018).
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
                f"estimator has no components_: it is a {type(estimator).__name__}; of a Pipeline "
                "give the step, such as model[0], and of an RBMClassifier model.rbm_"
            )
        check_count("n_components", n_components, 1)
        components = estimator.components_
        components = to_numpy(components[0] if _is_deep(estimator) else components)
        if components.ndim > 2:  # of sites with several values, which are an image of both
            image_shape = components.shape[1:] if image_shape is None else image_shape
            components = components.reshape(len(components), -1)
        scores = look_up("rank_by", rank_by, _SCORES)(estimator, components, X)
        order = np.argsort(look_up("end", end, _SIGNS) * scores, kind="stable")
        shown = components[order[:n_components]]
        return cls.from_components(shown, image_shape=image_shape, **plot_params)

    @classmethod
    def from_components(cls, components, *, image_shape=None, **plot_params):
        """Show weights, or other rows of visible values.

        Parameters
        ----------
        components : array-like of shape (n_components, n_features)
            The images.
        image_shape : tuple of int, default=None
            Height and width of the images; default: a square.
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
        components = check_array(to_numpy(components))
        return cls(components, shape_of_images(components, image_shape)).plot(**plot_params)

    def plot(self, *, n_columns=None, cmap="RdBu_r", figure=None):
        """Draw the images on one symmetric colour scale.

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
        limit = np.quantile(np.abs(self.components), 0.999)
        options = {"cmap": cmap, "vmin": -limit, "vmax": limit}
        self.figure_, self.axes_ = draw_images(
            self.components, self.image_shape, n_columns, figure, 0.55, **options
        )
        return self


def _is_deep(estimator):
    return hasattr(estimator, "transform_layer")


def _norms(estimator, components, X):
    return np.linalg.norm(components, axis=1)


def _spreads(estimator, components, X):
    sums = np.sum(np.abs(components) ** _SPREAD_POWER, axis=1, dtype=np.float64)
    return sums ** (1 / _SPREAD_POWER)


def _activations(estimator, components, X):
    if X is None:
        raise ValueError("rank_by='activation' needs X")
    deep = _is_deep(estimator)
    hidden = estimator.transform_layer(X, 0) if deep else estimator.transform(X)
    return np.asarray(to_numpy(hidden), dtype=np.float64).mean(axis=0)


_SCORES = {"norm": _norms, "spread": _spreads, "activation": _activations}
_SIGNS = {"highest": -1, "lowest": 1}  # of what is sorted
