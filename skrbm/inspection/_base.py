"""Records of solutions and grids of images."""

import math

from .._checks import check_count


def record_of(estimator, X, unique_tol, epoch):
    """Return a record of the solutions of an estimator after an epoch."""
    found = estimator.solutions(X, unique_tol=unique_tol)
    return {
        "epoch": epoch,
        "n_solutions": len(found),
        "n_unique": dict(found.n_unique),
        "n_starts": len(found.labels),
        "n_unconverged": found.n_unconverged,
        "free_energies": found.free_energies,
        "free_energies_per_unit": found.free_energies / sum(found.n_units),
        "log_partition": found.log_partition(),
        "solutions": found,
    }


def final_record(estimator, X, unique_tol):
    """Return the record of a fitted estimator."""
    if not hasattr(estimator, "solutions"):
        raise TypeError(
            "the display needs an estimator with solutions(X), such as TAPRBM, got "
            f"{type(estimator).__name__}"
        )
    return record_of(estimator, X, unique_tol, getattr(estimator, "n_iter_", 0))


def records_of(recorder):
    """Return the records of a recorder, of which there must be some."""
    if not recorder.records_:
        raise ValueError(
            "the recorder has no records; give it to set_callbacks of an estimator and call fit"
        )
    return recorder.records_


def spread(items, n):
    """Return at most ``n`` evenly spaced items, including the first and the last."""
    n = min(n, len(items))
    if n == 1:
        return [items[-1]]
    return [items[round(i * (len(items) - 1) / (n - 1))] for i in range(n)]


def grid_shape(n_images, n_columns):
    """Return numbers of rows and columns of a grid; a square if ``n_columns`` is None."""
    if n_columns is None:
        n_columns = math.ceil(math.sqrt(n_images))
    check_count("n_columns", n_columns, 1)
    return math.ceil(n_images / n_columns), n_columns


def shape_of_images(rows, image_shape=None):
    """Return the height and width of rows of pixels; ValueError if they do not fill an image."""
    n_features = rows.shape[1]
    if image_shape is None:
        image_shape = (math.isqrt(n_features),) * 2
    if math.prod(image_shape) != n_features:
        raise ValueError(
            f"{n_features} features do not fill an image of shape {tuple(image_shape)}; "
            "give image_shape=(height, width)"
        )
    return image_shape


def draw_images(images, image_shape, n_columns, figure, size, **options):
    """Draw rows of pixels as images in a grid; returns the figure and its axes.

    ``size`` is the width of an image in inches where the figure is new, and ``options`` are those
    of ``Axes.imshow``.
    """
    import matplotlib.pyplot as plt

    n_rows, n_columns = grid_shape(len(images), n_columns)
    if figure is None:
        figure = plt.figure(figsize=(size * n_columns, size * n_rows))
    spaces = {"wspace": 0.08, "hspace": 0.08}
    axes = figure.subplots(n_rows, n_columns, squeeze=False, gridspec_kw=spaces)
    for axis in axes.flat:
        axis.set_axis_off()
    for axis, image in zip(axes.flat, images, strict=False):
        axis.imshow(image.reshape(image_shape), interpolation="nearest", **options)
    return figure, axes
