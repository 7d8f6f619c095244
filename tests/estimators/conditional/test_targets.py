"""Targets to visible units and back, and what is refused."""

import numpy as np
import pytest
import scipy.sparse as sp
from _libraries import OTHER_LIBRARIES
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, softmax
from sklearn.exceptions import DataConversionWarning

from skrbm.arrays import to_numpy
from skrbm.estimators.conditional._targets import (
    BinaryLabel,
    Label,
    Outputs,
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
    return check_targets(y, X, **kwargs)


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
    assert type(targets) is Outputs and targets.n_outputs == 3
    assert_array_equal(targets.classes, [0, 1, 2])
    V, observed = known_values(targets.encode(y), np.array([2, 0]), np.zeros(1, np.float32))
    assert V.dtype == np.float32 and observed is None
    assert_array_equal(V, Y[[2, 0]])


@pytest.mark.parametrize(
    "labels, kind",
    [
        ([0, 1, 1, 0], BinaryLabel),
        ([5, -3, 5, 5], BinaryLabel),
        ([True, False, True, True], BinaryLabel),
        (["b", "a", "b", "b"], BinaryLabel),
        ([1.0, 2.0, 1.0, 1.0], BinaryLabel),
        ([7, 3, 5, 7], Label),
        (["x", "y", "z", "y"], Label),
        (np.array(["x", "y", "z", "y"], dtype=object), Label),
    ],
)
def test_labels(labels, kind):
    y = checked(labels)
    targets = targets_of(y)
    V = targets.encode(y)
    assert type(targets) is kind
    assert_array_equal(targets.classes, np.unique(labels))
    assert V.shape == (4, targets.n_outputs)
    assert_array_equal(targets.decode(V - 0.5), labels)
    for row, label in zip(V, labels, strict=True):
        if kind is Label:
            assert_array_equal(targets.classes[row == 1], [label])
        else:
            assert targets.classes[row[0]] == label


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_a_column_is_a_label(make):
    """With scikit-learn's warning, as its own classifiers give it."""
    with pytest.warns(DataConversionWarning, match="column-vector y was passed"):
        y = checked(make(Y[:, :1]))
    assert_array_equal(y, Y[:, 0])


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


def test_polars():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"a": [0.0, 1.0, None, 1.0], "b": [1.0, 0.0, 0.0, 1.0]})
    assert_array_equal(checked(frame), [[0, 1], [1, 0], [np.nan, 0], [1, 1]])
    assert_array_equal(checked(pl.Series(["a", "b", "a", "b"])), ["a", "b", "a", "b"])


@pytest.mark.parametrize("name", OTHER_LIBRARIES)
def test_array_libraries(name):
    pytest.importorskip("array_api_compat")
    xp = pytest.importorskip(name)
    y = checked(xp.asarray(Y.astype(np.float32)))
    assert_array_equal(y, Y)
    reference = xp.asarray([0.0], dtype=xp.float32)
    holes = np.where(Y == 1, np.nan, 0)
    V, observed = known_values(holes, np.array([3, 1]), reference)
    assert type(V) is type(observed) is type(reference) and V.dtype == xp.float32
    assert_array_equal(to_numpy(observed), Y[[3, 1]] == 0)
    assert_array_equal(to_numpy(V), np.zeros((2, 3)))


def test_missing_outputs():
    holes = np.array([[0, np.nan, 1], [np.nan, np.nan, np.nan], [1, 1, 0], [0, 0, 0]])
    y = checked(holes)
    V, observed = known_values(y, np.arange(4), np.zeros(1))
    assert_array_equal(observed, ~np.isnan(holes))
    assert_array_equal(V, np.nan_to_num(holes))
    check_known(y)


def test_outputs_that_are_missing_in_all_rows():
    column = checked(np.array([[np.nan, 1], [np.nan, 0], [np.nan, 1], [np.nan, 0]]))
    with pytest.raises(ValueError, match=r"columns \[0\] of Y are NaN alone: leave out"):
        check_known(column)
    for y in (Y, sp.csr_array(Y), Y[:, 0], ["a", "b", "a", "b"]):
        check_known(checked(y))


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
    targets = Label(np.array(["a", "b", "c"]))
    V = targets.encode(np.array(["a", "b", "a", "a"]))
    for weights, counts in ((np.ones(4), [3.5, 1.5, 0.5]), (np.arange(4.0), [5.5, 1.5, 0.5])):
        field = initial_field(targets.unit, V, weights)
        assert_allclose(softmax(field), np.array(counts) / np.sum(counts), rtol=1e-12)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, lambda Y: np.where(Y, 1.0, np.nan)])
def test_initial_field_takes_a_whole_weight_for_copies_of_a_row(make):
    weights = np.array([3, 1, 2, 5])
    field = initial_field(Bernoulli(), make(Y), weights.astype(float))
    copies = initial_field(Bernoulli(), make(np.repeat(Y, weights, axis=0)), np.ones(11))
    assert_array_equal(field, copies)


def test_shapes_are_those_of_scikit_learn():
    logits = np.array([[1.0, -2.0, 0.5], [-1.0, 0.0, 3.0]])
    outputs = Outputs(np.arange(3))
    assert_array_equal(outputs.decode(logits), [[1, 0, 1], [0, 0, 1]])
    assert_allclose(outputs.probabilities(logits), expit(logits))
    assert_array_equal(outputs.decision(logits), logits)
    label = Label(np.array(["a", "b", "c"]))
    assert_array_equal(label.decode(logits), ["a", "c"])
    assert_allclose(label.probabilities(logits), softmax(logits, axis=1))
    binary = BinaryLabel(WORDS)
    assert_array_equal(binary.decode(logits[:, :1]), ["yes", "no"])
    assert_array_equal(binary.decision(logits[:, :1]), [1.0, -1.0])
    assert_allclose(binary.probabilities(logits[:, :1])[:, 1], expit([1.0, -1.0]))
    assert_allclose(binary.probabilities(logits[:, :1]).sum(axis=1), 1)


# ------------------------------------------------------------------------ refused


ONE = np.array([[0.0], [1], [np.nan], [1]])


@pytest.mark.parametrize(
    "y, words",
    [
        (None, "requires y to be passed"),
        (2 * Y - 1, r"only 0 and 1.*-1 and 1: give \(Y \+ 1\) / 2"),
        (np.where(Y, 1, np.where(Y == 0, -1, 0)), r"give \(Y \+ 1\) / 2"),
        (sp.csr_array(2 * Y - 1), r"give \(Y \+ 1\) / 2"),
        (2 * Y, r"values \[0 2\].*indicator column of each class"),
        (0.5 * Y, r"only 0 and 1, or NaN.*values \[0\.  0\.5\]"),
        (np.arange(12).reshape(4, 3), r"values \[0 1 2 3 4\]\.\.\."),
        (Y[:3], r"inconsistent numbers of samples: \[4, 3\]"),
        (sp.csr_array(Y[:3]), r"inconsistent numbers of samples: \[4, 3\]"),
        ([0, 1, 1], r"inconsistent numbers of samples: \[4, 3\]"),
        (sp.csr_array(np.where(Y == 1, np.nan, 0)), "sparse Y must not contain NaN.*dense"),
        (np.where(Y, np.inf, 0), "infinity"),
        (Y[:, :0], r"0 feature\(s\) \(shape=\(4, 0\)\)"),
        (sp.csr_array(Y[:, :0]), r"0 feature\(s\) \(shape=\(4, 0\)\)"),
        (ONE, "one label must be known.*Leave these rows out.*at least two columns"),
        (ONE[:, 0], "one label must be known"),
        (Y[:, :, None], "dim 3"),
        (np.array(WORDS)[Y], "numeric"),
        (np.array([0.5, 1.25, 3.1, 2.2]), "Unknown label type"),
        (Y * 1j, "Complex"),
        (["a", None, "a", None], "labels must be all of one type"),
        (np.ma.masked_array(Y, Y > 0), "Y has masked values"),
    ],
)
def test_bad_targets(y, words):
    with pytest.raises(ValueError, match=words):
        checked(y)


def test_nan_is_refused_where_nothing_may_be_missing():
    with pytest.raises(ValueError, match=r"Y contains NaN; impute\(X, Y\) fills missing outputs"):
        checked(np.where(Y == 1, np.nan, Y), missing=False)


@pytest.mark.parametrize("labels", [np.ones(4), ["a"] * 4])
def test_one_class(labels):
    with pytest.raises(ValueError, match=rf"one class only, {labels[0]}; .* at least two"):
        targets_of(checked(labels))


def test_classes_that_are_named():
    y = np.array([3, 1])
    targets = targets_of(y, classes=[5, 3, 1])
    assert_array_equal(targets.classes, [1, 3, 5])
    assert_array_equal(targets.encode(y), [[0, 1, 0], [1, 0, 0]])
    with pytest.raises(ValueError, match=r"labels \[1\] that are not in classes"):
        targets_of(y, classes=[3, 5])
    with pytest.raises(ValueError, match=r"not among the classes \[1 3 5\]: \[0 2 9\]"):
        targets.encode(np.array([0, 2, 9, 3]))


def test_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match=r"shape \(4, 3\), but this machine has 2 outputs"):
        Outputs(np.arange(2)).encode(Y)
    with pytest.raises(ValueError, match=r"shape \(4,\), but this machine has 3 outputs"):
        Outputs(np.arange(3)).encode(Y[:, 0])
    with pytest.raises(ValueError, match="was fitted to one label, in one dimension"):
        Label(np.arange(3)).encode(Y)


def test_targets_of_parameters():
    assert type(targets_from(None, 3)) is Outputs
    assert_array_equal(targets_from(None, 1).classes, [0, 1])
    assert type(targets_from(WORDS, 1)) is BinaryLabel
    assert type(targets_from(["a", "b", "c"], 3)) is Label
    for classes, n in ((["a", "b"], 3), (["a", "b", "c"], 1), ([1], 1)):
        with pytest.raises(ValueError, match="classes must be as many as outputs, or two of one"):
            targets_from(classes, n)
    for classes in (["b", "a", "c"], [1, 1, 2]):
        with pytest.raises(ValueError, match="classes must be sorted and distinct"):
            targets_from(classes, 3)
