"""Sequence logos."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skrbm import RBM
from skrbm.sequences import LogoDisplay
from skrbm.units import Categorical

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def boxes(ax):
    """The boxes that the letters fill, by column: (low, high) from below to above."""
    found = {}
    for patch in ax.patches:
        box = patch.get_path().get_extents()
        found.setdefault(round((box.x0 + box.x1) / 2), []).append((box.y0, box.y1))
    return {x: sorted(parts) for x, parts in found.items()}


def test_letters_fill_their_heights_and_the_largest_is_outermost():
    heights = np.array([[0.5, 2.0, -1.0, -3.0], [0.0, 0.0, 1.5, 0.0]])
    (ax,) = LogoDisplay(heights, "ACGU").plot().axes_
    expected = {0: [(-4, -1), (-1, 0), (0, 0.5), (0.5, 2.5)], 1: [(0, 1.5)]}
    found = boxes(ax)
    assert found.keys() == expected.keys()
    for x, parts in expected.items():
        assert_allclose(found[x], parts, atol=1e-9)
    low, high = ax.get_ylim()
    assert low < -4 and high > 2.5 and ax.get_ylabel() == "weight"
    ax.figure.canvas.draw()


def test_weights_of_a_hidden_unit_are_in_zero_sum_gauge():
    W = np.random.default_rng(0).normal(size=(3, 8))
    rbm = RBM.from_parameters(W, visible=Categorical((4, 4)), random_state=0)
    display = LogoDisplay.from_estimator(rbm, 2, alphabet="ACGU")
    by_site = W[2].reshape(2, 4)
    assert_allclose(display.heights, by_site - by_site.mean(axis=1, keepdims=True))
    assert display.axes_[0].get_ylabel() == "weights of unit 2"
    with pytest.raises(ValueError, match="unit"):
        LogoDisplay.from_estimator(rbm, 3, alphabet="ACGU")
    with pytest.raises(ValueError, match="alphabet"):
        LogoDisplay.from_estimator(rbm, 0)


def test_information_of_a_profile():
    profile = np.array([[1, 0, 0, 0], [0.25] * 4, [0.5, 0.5, 0, 0]])
    display = LogoDisplay.from_profile(profile, alphabet="ACGU")
    assert_allclose(display.heights, [[2, 0, 0, 0], [0] * 4, [0.5, 0.5, 0, 0]], atol=1e-12)
    for wrong in ([0.5, 0.5], [[0.5, 0.4, 0, 0]], [[1.5, -0.5, 0, 0]]):
        with pytest.raises(ValueError, match="sum to 1"):
            LogoDisplay.from_profile(wrong, alphabet="ACGU")
