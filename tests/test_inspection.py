"""The displays draw what they are given."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.neural_network import BernoulliRBM as ScikitLearnRBM

from skrbm import BernoulliRBM
from skrbm.inspection import ComponentsDisplay, HistoryDisplay

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def rbm():
    X = (np.random.default_rng(0).random((50, 12)) < 0.5).astype(float)
    return BernoulliRBM(n_components=7, n_iter=4, random_state=0).fit(X)


def images(display):
    return [axis.images[0] for axis in display.axes_.flat if axis.images]


def test_components(rbm):
    display = ComponentsDisplay.from_estimator(rbm, image_shape=(3, 4))
    assert display.axes_.shape == (3, 3)
    assert len(images(display)) == 7
    assert display.figure_ is display.axes_[0, 0].figure
    strongest = np.argsort(-np.linalg.norm(rbm.components_, axis=1))
    for image, j in zip(images(display), strongest, strict=True):
        assert_array_equal(image.get_array(), rbm.components_[j].reshape(3, 4))
    limits = {image.get_clim() for image in images(display)}
    assert len(limits) == 1
    ((low, high),) = limits
    assert low == -high and 0 < high <= np.abs(rbm.components_).max()
    assert not any(axis.axison for axis in display.axes_.flat)
    display.figure_.canvas.draw()


def test_some_components(rbm):
    display = ComponentsDisplay.from_estimator(
        rbm, image_shape=(4, 3), n_components=4, n_columns=4, cmap="gray"
    )
    assert display.axes_.shape == (1, 4)
    norms = [np.linalg.norm(image.get_array()) for image in images(display)]
    assert_allclose(norms, np.sort(np.linalg.norm(rbm.components_, axis=1))[::-1][:4])
    assert images(display)[0].get_cmap().name == "gray"


def test_components_in_a_given_figure(rbm):
    figure = plt.figure()
    left, right = figure.subfigures(1, 2)
    display = ComponentsDisplay.from_estimator(rbm, image_shape=(3, 4), figure=left)
    assert display.figure_ is left
    assert len(left.axes) == 9 and not right.axes


def test_square_images_and_other_estimators():
    X = np.eye(9)
    for Estimator in (BernoulliRBM, ScikitLearnRBM):
        rbm = Estimator(n_components=2, n_iter=1, random_state=0).fit(X)
        display = ComponentsDisplay.from_estimator(rbm)
        assert images(display)[0].get_array().shape == (3, 3)
        assert len(images(display)) == 2


@pytest.mark.parametrize("image_shape", [None, (3, 3), (12,) * 2, (2, 2, 2)])
def test_features_that_fill_no_image(rbm, image_shape):
    with pytest.raises(ValueError, match=r"12 features do not fill .* image_shape=\(height, width"):
        ComponentsDisplay.from_estimator(rbm, image_shape=image_shape)


def test_history(rbm):
    display = HistoryDisplay.from_estimator(rbm, color="red")
    (line,) = display.lines_
    assert_array_equal(line.get_xdata(), [1, 2, 3, 4])
    assert_array_equal(line.get_ydata(), rbm.history_["pseudo_log_likelihood"])
    assert line.get_color() == "red"
    assert display.ax_.get_xlabel() == "epoch"
    assert display.ax_.get_ylabel() == "pseudo log likelihood"
    display.figure_.canvas.draw()


def test_history_of_another_quantity_in_given_axes(rbm):
    _, ax = plt.subplots()
    display = HistoryDisplay.from_estimator(rbm, quantity="time", ax=ax)
    assert display.ax_ is ax and len(ax.lines) == 1
    assert_array_equal(ax.lines[0].get_ydata(), rbm.history_["time"])
    display.plot(quantity="learning_rate", ax=ax)
    assert len(ax.lines) == 2


def test_history_that_was_not_recorded(rbm):
    with pytest.raises(ValueError, match=r"quantity must be one of \[.*'time'\], got 'accuracy'"):
        HistoryDisplay.from_estimator(rbm, quantity="accuracy")


@pytest.mark.parametrize("Display", [ComponentsDisplay, HistoryDisplay])
def test_unfitted(Display):
    with pytest.raises(NotFittedError):
        Display.from_estimator(BernoulliRBM())
