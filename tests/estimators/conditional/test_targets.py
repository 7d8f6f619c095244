"""Targets to visible units and back, and what is refused."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

from skrbm.estimators._targets import (
    Targets,
    check_known,
    check_targets,
    initial_field,
    known_values,
    targets_from,
    targets_of,
)
from skrbm.units import Bernoulli

Y = np.array([[0, 1, 1], [1, 0, 1], [0, 0, 0], [1, 1, 0]])
X = np.zeros((4, 2))
WORDS = np.array(["no", "yes"])


def checked(y, **kwargs):
    return check_targets(y, X, "ConditionalRBM", **kwargs)


# ------------------------------------------------------------- kinds of targets


@pytest.mark.parametrize(
    "make",
    [
        np.asarray,
        np.ndarray.tolist,
        lambda Y: Y.astype(bool),
        lambda Y: Y.astype(np.float32),
        lambda Y: Y.astype(np.uint8),
        lambda Y: Y.astype(object),
        sp.csr_array,
        sp.csc_matrix,
        sp.coo_array,
        lambda Y: sp.csr_array(Y.astype(bool)),
    ],
)
def test_outputs(make):
    y = checked(make(Y))
    targets = targets_of(y)
    assert targets.ndim == 2 and targets.n_outputs == 3
    assert_array_equal(targets.classes, [0, 1, 2])
    V, observed = known_values(targets.encode(y), np.array([2, 0]), np.zeros(1, np.float32))
    assert V.dtype == np.float32 and observed is None
    assert_array_equal(V, Y[[2, 0]])


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
    y = checked(labels)
    targets = targets_of(y, one_unit=True)
    V = targets.encode(y)
    assert_array_equal(targets.classes, np.unique(labels))
    assert V.shape == (4, n_units) and targets.n_outputs == n_units
    assert_array_equal(targets.decode(V - 0.5), labels)
    index = V[:, 0] if n_units == 1 else np.argmax(V, axis=1)
    assert_array_equal(targets.classes[index], labels)


def test_data_frames():
    pd = pytest.importorskip("pandas")
    assert_array_equal(checked(pd.DataFrame(Y, columns=list("abc"))), Y)
    missing = pd.DataFrame(Y).astype("Int64")
    missing.iloc[1, 2] = pd.NA
    expected = Y.astype(float)
    expected[1, 2] = np.nan
    assert_array_equal(checked(missing), expected)
    assert_array_equal(checked(pd.Series(["a", "b", "a", "b"])), ["a", "b", "a", "b"])
    assert_array_equal(checked(pd.Series([1, 2, 1, 2], dtype="category")), [1, 2, 1, 2])


def test_missing_outputs():
    holes = np.array([[0, np.nan, 1], [np.nan, np.nan, np.nan], [1, 1, 0], [0, 0, 0]])
    y = checked(holes)
    V, observed = known_values(y, np.arange(4), np.zeros(1))
    assert_array_equal(observed, ~np.isnan(holes))
    assert_array_equal(V, np.nan_to_num(holes))
    check_known(y)


# ---------------------------------------------------------- starts, probabilities


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, lambda Y: Y.astype(bool)])
@pytest.mark.parametrize("weights", [np.ones(4), np.array([2.0, 0.5, 3.0, 1.25])])
def test_initial_field_is_the_log_odds_with_half_a_row(make, weights):
    """Each row counts by its weight."""
    mean = (weights @ Y + 0.5) / (weights.sum() + 1)
    field = initial_field(Bernoulli(), make(Y), weights)
    assert_allclose(field, np.log(mean / (1 - mean)), rtol=1e-12)


def test_initial_field_knows_missing_outputs_and_constant_ones():
    holes = np.array([[0, np.nan], [1, np.nan], [1, 1.0]])
    for weights, mean in (
        (np.ones(3), np.array([2.5 / 4, 1.5 / 2])),
        (np.array([2.0, 1.0, 3.0]), np.array([4.5 / 7, 3.5 / 4])),
    ):
        field = initial_field(Bernoulli(), holes, weights)
        assert_allclose(field, np.log(mean / (1 - mean)), rtol=1e-12)
    constant = np.array([[0, 1]] * 9)
    assert np.isfinite(initial_field(Bernoulli(), constant, np.ones(9))).all()


def test_initial_field_of_a_label():
    targets = Targets(np.array(["a", "b", "c"]))
    V = targets.encode(np.array(["a", "b", "a", "a"]))
    for weights, counts in ((np.ones(4), [3.5, 1.5, 0.5]), (np.arange(4.0), [5.5, 1.5, 0.5])):
        field = initial_field(targets.unit, V, weights)
        assert_allclose(softmax(field), np.array(counts) / np.sum(counts), rtol=1e-12)


# ------------------------------------------------------------------------ refused


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
        np.array(WORDS)[Y],
        np.array([0.5, 1.25, 3.1, 2.2]),
        Y * 1j,
        ["a", None, "a", None],
        np.ma.masked_array(Y, Y > 0),
    ],
    ids=repr,
)
def test_bad_targets(y):
    with pytest.raises(ValueError, match=r"y|dim|label|samples"):
        checked(y)


def test_classes_that_are_named():
    y = np.array([3, 1])
    targets = targets_of(y, classes=[5, 3, 1])
    assert_array_equal(targets.classes, [1, 3, 5])
    assert_array_equal(targets.encode(y), [[0, 1, 0], [1, 0, 0]])
    with pytest.raises(ValueError, match="classes"):
        targets_of(y, classes=[3, 5])
    with pytest.raises(ValueError, match="classes"):
        targets.encode(np.array([0, 2, 9, 3]))


def test_targets_of_parameters():
    assert targets_from(None, 3).ndim == 2
    assert_array_equal(targets_from(None, 1).classes, [0, 1])
    assert targets_from(WORDS, 1).n_outputs == 1
    assert targets_from(["a", "b", "c"], 3).n_outputs == 3
    for classes, n in ((["a", "b"], 3), (["a", "b", "c"], 1), (["b", "a", "c"], 3), ([1, 1, 2], 3)):
        with pytest.raises(ValueError, match="classes must be"):
            targets_from(classes, n)
