"""Grids of images."""

import math

from .._checks import check_count


def shape_of_images(rows, image_shape=None):
    """Return the height and width of rows of pixels; ValueError if they do not fill an image."""
    n_features = rows.shape[1]
    image_shape = image_shape or (math.isqrt(n_features),) * 2
    if math.prod(image_shape) != n_features:
        raise ValueError(
            f"rows are shown as images, but {n_features} features do not fill an image of "
            f"shape {tuple(image_shape)}; pass image_shape=(height, width)"
        )
    return image_shape


def draw_images(images, image_shape, n_columns, figure, size, **options):
    """Draw rows of pixels as images in a grid; returns the figure and its axes.

    ``size`` is the width of an image in inches where the figure is new, and ``options`` are those
    of ``Axes.imshow``.
    """
    import matplotlib.pyplot as plt

    check_count("n_columns", n_columns, 1, or_none=True)
    n_columns = n_columns or math.ceil(math.sqrt(len(images)))
    n_rows = math.ceil(len(images) / n_columns)
    if figure is None:
        figure = plt.figure(figsize=(size * n_columns, size * n_rows))
    spaces = {"wspace": 0.08, "hspace": 0.08}
    axes = figure.subplots(n_rows, n_columns, squeeze=False, gridspec_kw=spaces)
    for axis in axes.flat:
        axis.set_axis_off()
    for axis, image in zip(axes.flat, images, strict=False):
        axis.imshow(image.reshape(image_shape), interpolation="nearest", **options)
    return figure, axes
