"""Targets to visible units and back, and what is refused."""

import numpy as np
import pytest
import scipy.sparse as sp
from _conditional_rbm import assert_same, small
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, softmax

from skrbm.estimators._targets import check_targets, targets_of

Y = np.array([[0, 1, 1], [1, 0, 1], [0, 0, 0], [1, 1, 0]])
X = np.random.default_rng(0).standard_normal((4, 2))
HOLES = np.array([[0, np.nan, 1], [np.nan, np.nan, np.nan], [1, 1, 0], [0, 0, 0]])
WEIGHTS = np.array([2.0, 1.0, 3.0, 1.0])


def as_frame(Y):
    return pytest.importorskip("pandas").DataFrame(Y, columns=list("abc"))


@pytest.mark.parametrize(
    "make",
    [
        np.ndarray.tolist,
        lambda Y: Y.astype(bool),
        lambda Y: Y.astype(np.float32),
        lambda Y: Y.astype(object),
        sp.csr_array,
        sp.csc_matrix,
        sp.coo_array,
        lambda Y: sp.csr_array(Y.astype(bool)),
        as_frame,
    ],
)
def test_outputs(make):
    crbm = small().fit(X, make(Y))
    assert_same(crbm, small().fit(X, Y))
    assert crbm.n_outputs_ == 3
    assert_array_equal(crbm.classes_, [0, 1, 2])


@pytest.mark.parametrize("dtype", [object, "Int64"])
def test_missing_outputs_of_data_frames(dtype):
    frame = as_frame(Y).astype(dtype)
    frame.iloc[1, 2] = None
    expected = Y.astype(float)
    expected[1, 2] = np.nan
    assert_same(small().fit(X, frame), small().fit(X, expected))


@pytest.mark.parametrize(
    "labels, n_units",
    [
        ([5, -3, 5, 5], 1),
        ([True, False, True, True], 1),
        (["b", "a", "b", "b"], 1),
        ([1.0, 2.0, 1.0, 1.0], 1),
        ([7, 3, 5, 7], 3),
        (np.array(["x", "y", "z", "y"], dtype=object), 3),
    ],
)
def test_labels(labels, n_units):
    y = check_targets(labels, X, "ConditionalRBM")
    targets = targets_of(y, one_unit=True)
    V = targets.encode(y)
    assert_array_equal(targets.classes, np.unique(labels))
    assert V.shape == (4, n_units) and targets.n_outputs == n_units
    assert_array_equal(targets.decode(V - 0.5), labels)
    index = V[:, 0] if n_units == 1 else np.argmax(V, axis=1)
    assert_array_equal(targets.classes[index], labels)


@pytest.mark.parametrize("Y", [Y, HOLES], ids=["all", "holes"])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_first_biases_of_outputs(Y, weights):
    """The log-odds of the known ones, with half a row: each row counts by its weight."""
    w, known = np.ones(4) if weights is None else weights, ~np.isnan(Y)
    mean = (w @ np.nan_to_num(Y) + 0.5) / (w @ known + 1)
    crbm = small(n_iter=0).fit(X, Y, weights)
    assert_allclose(expit(crbm.intercept_visible_), mean, rtol=1e-12)


def test_first_biases_of_a_label():
    """As of half a row for each class."""
    crbm = small(n_iter=0).fit(X, ["a", "b", "a", "c"], WEIGHTS)
    assert_allclose(softmax(crbm.intercept_visible_), [5.5 / 8.5, 1.5 / 8.5, 1.5 / 8.5], rtol=1e-12)


@pytest.mark.parametrize(
    "y",
    [
        None,
        2 * Y - 1,
        sp.csr_array(2 * Y),
        0.5 * Y,
        Y[:3],
        sp.csr_array(Y[:3]),
        [0, 1, 1],
        sp.csr_array(np.where(Y == 1, np.nan, 0)),
        np.where(Y, np.inf, 0),
        Y[:, :0],
        Y[:, :, None],
        np.array(["no", "yes"])[Y],
        np.array([0.5, 1.25, 3.1, 2.2]),
        Y * 1j,
        ["a", None, "a", None],
        np.ma.masked_array(Y, Y > 0),
    ],
    ids=repr,
)
def test_bad_targets(y):
    with pytest.raises(ValueError, match=r"y|dim|label|samples"):
        small().fit(X, y)


def test_classes_that_are_named():
    crbm = small().partial_fit(X, [3, 1, 3, 1], classes=[5, 3, 1])
    assert_array_equal(crbm.classes_, [1, 3, 5])
    with pytest.raises(ValueError, match="classes"):
        crbm.partial_fit(X, [0, 2, 9, 3])
    with pytest.raises(ValueError, match="classes"):
        small().partial_fit(X, [3, 1, 3, 1], classes=[3, 5])
