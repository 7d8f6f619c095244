"""Targets: their checks, and the map between them and the values of the visible units."""

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import accuracy_score
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array

from ...arrays import cast, dense_rows, from_numpy, has_missing, is_foreign, namespace, to_numpy
from ...inputs import canonical, check_unmasked, split_missing
from ...units import Bernoulli, Categorical, Theta


class Targets:
    """Map between targets and values of the visible units: contract.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        The public ``classes_``.

    Attributes
    ----------
    unit : Unit
        Kind of the visible units.
    n_outputs : int
        Number of visible units.
    ndim : int
        Number of dimensions of the targets.
    """

    unit = Bernoulli()
    ndim = 1

    def __init__(self, classes):
        self.classes = classes

    @property
    def n_outputs(self):
        return len(self.classes)

    def encode(self, Y):
        """Return checked targets as rows of visible values, NaN where an output is missing."""
        raise NotImplementedError

    def decode(self, logits):
        """Return the predicted targets, given log-odds or log-probabilities."""
        raise NotImplementedError

    def decision(self, logits):
        """Return logits in the shape that scikit-learn's classifiers give them."""
        return logits

    def probabilities(self, logits):
        """Return probabilities in the shape that scikit-learn's classifiers give them."""
        return self.unit.mean(Theta(logits))


class Outputs(Targets):
    """Binary outputs, each a visible unit; integers 0 and 1."""

    ndim = 2

    def encode(self, Y):
        if Y.ndim == 1 or Y.shape[1] != self.n_outputs:
            raise ValueError(
                f"Y has shape {tuple(Y.shape)}, but this machine has {self.n_outputs} outputs"
            )
        return Y

    def decode(self, logits):
        return cast(logits > 0, namespace(logits).int64)


class BinaryLabel(Targets):
    """A label of two classes, as one unit that is 1 for the second."""

    n_outputs = 1

    def encode(self, Y):
        return _class_index(self.classes, Y)[:, None].astype(np.uint8)

    def decode(self, logits):
        return _labels(self.classes, cast(logits[:, 0] > 0, namespace(logits).int64))

    def decision(self, logits):
        return logits[:, 0]

    def probabilities(self, logits):
        mean = super().probabilities(logits)
        return namespace(mean).concat([1 - mean, mean], axis=1)


class Label(Targets):
    """A label of several classes, as columns of which one is 1."""

    unit = Categorical()

    def encode(self, Y):
        index = _class_index(self.classes, Y)
        return (index[:, None] == np.arange(self.n_outputs)).astype(np.uint8)

    def decode(self, logits):
        return _labels(self.classes, namespace(logits).argmax(logits, axis=1))


def _class_index(classes, y):
    """Return the index of each label in the classes, or raise ValueError of labels of none."""
    if y.ndim != 1:
        raise ValueError(
            f"y has shape {tuple(y.shape)}, but this machine was fitted to one label, in one "
            "dimension"
        )
    index = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    unknown = classes[index] != y
    if unknown.any():
        raise ValueError(
            f"y contains labels that are not among the classes {classes}: "
            f"{np.unique(np.asarray(y)[unknown])}"
        )
    return index


def _labels(classes, index):
    """Return the labels at an index array, in its library if that can hold them."""
    labels = classes[to_numpy(index)]
    return from_numpy(labels, index) if labels.dtype.kind in "biuf" else labels


def known_values(V, index, reference):
    """Return (visible values of the rows at an index array, which are known or None if all are).

    Both are dense and in the library of the reference array, the values in its dtype. Missing
    values become 0.
    """
    V = from_numpy(dense_rows(V, index, np.float32), reference)  # 0, 1 and NaN
    return split_missing(cast(V, reference.dtype))


def initial_field(unit, V, weights):
    """Return the field of independent units fitted to the known values of rows with weights."""
    known = weights.sum()
    if has_missing(V):
        known, V = weights @ ~np.isnan(V), np.nan_to_num(V)
    on = np.asarray(V.T @ weights, np.float64)
    mean = (on + 0.5) / (known + 1)  # one more row of which half is on keeps fields finite
    return np.log(mean) if isinstance(unit, Categorical) else np.log(mean) - np.log1p(-mean)


def check_targets(Y, X, *, missing=True):
    """Return the targets as a checked NumPy array, of labels or of outputs, or in CSR format.

    Outputs are in two dimensions, of 0 and 1, and NaN where one is missing, if that is allowed.
    A column is taken for labels in one dimension, with scikit-learn's warning.
    """
    if Y is None:
        raise ValueError("ConditionalRBM requires y to be passed, but the target y is None")
    check_unmasked(Y, "Y")
    if is_foreign(Y):
        Y = to_numpy(Y)
    elif not sp.issparse(Y) and not hasattr(Y, "iloc"):  # check_array reads data frames better
        Y = np.asarray(Y)
    is_table = Y.ndim == 2 and Y.shape[1] != 1
    options = {"dtype": "numeric" if is_table else None, "ensure_all_finite": "allow-nan"}
    Y = check_array(Y, accept_sparse="csr", ensure_2d=False, input_name="y", **options)
    if sp.issparse(Y):
        Y = canonical(sp.csr_array(Y))  # entries of one place count together
    if has_missing(Y) and (sp.issparse(Y) or not is_table):
        raise ValueError(
            "y contains NaN: one label must be known, and a sparse Y must not contain NaN. Leave "
            "these rows out; NaN marks missing outputs in a dense Y with at least two columns"
        )
    check_consistent_length(X, Y)
    if is_table:
        _check_outputs(Y.data if sp.issparse(Y) else Y, missing)
        return Y
    Y = column_or_1d(Y.toarray() if sp.issparse(Y) else Y, warn=True)
    try:
        check_classification_targets(Y)
    except TypeError as error:
        raise ValueError(f"labels must be all of one type, numbers or strings: {error}") from error
    return Y


def accuracy(targets, Y, predicted, sample_weight=None):
    """Return the part of the rows all of whose known outputs are predicted, of rows with any.

    ``Y`` are checked targets in NumPy, as ``predicted`` are, and ``targets`` those of the machine.
    """
    if not has_missing(Y):
        return float(accuracy_score(Y, predicted, sample_weight=sample_weight))
    known = ~np.isnan(targets.encode(Y))
    rows = known.any(axis=1)
    if not rows.any():
        raise ValueError("y is NaN alone: there is nothing to score predictions by")
    right = ((Y == predicted) | ~known).all(axis=1)
    weights = None if sample_weight is None else sample_weight[rows]
    return float(np.average(right[rows], weights=weights))


def is_unknown(V):
    """Whether all of these encoded targets are missing."""
    return has_missing(V) and bool(np.isnan(V).all())


def _check_outputs(data, missing):
    """Raise ValueError unless outputs are 0, 1 or NaN, and NaN only if that is allowed."""
    known = data[data == data]  # NaN is not equal to itself
    if not np.isin(known, (0, 1)).all():
        values = np.unique(known)
        raise ValueError(
            "Y in two dimensions must contain only 0 and 1, or NaN where an output is missing, and "
            f"it has the values {values[:5]}{'...' if len(values) > 5 else ''}. If they are "
            "-1 and 1: give (Y + 1) / 2. For several labels of more than two classes each, make an "
            "indicator column of each class, or fit a machine to each label"
        )
    if not missing and known.size < data.size:
        raise ValueError("Y contains NaN; impute(X, Y) fills missing outputs")


def check_known(Y):
    """Raise ValueError if an output of checked targets is missing in all rows."""
    unknown = np.flatnonzero(np.isnan(Y).all(axis=0)) if has_missing(Y) else np.empty(0)
    if unknown.size:
        raise ValueError(
            f"columns {unknown} of Y are NaN alone: leave out what nothing can be learnt of"
        )


def targets_of(Y, classes=None):
    """Return the :class:`Outputs` that checked targets are, of given classes if it is a label."""
    if Y.ndim == 2:
        return Outputs(np.arange(Y.shape[1]))
    found = np.unique(Y)
    classes = found if classes is None else np.unique(column_or_1d(classes))
    if not np.isin(found, classes).all():
        raise ValueError(f"y has labels {found[~np.isin(found, classes)]} that are not in classes")
    if len(classes) < 2:
        raise ValueError(
            f"y has one class only, {classes[0]}; a classifier needs samples of at least two"
        )
    return (BinaryLabel if len(classes) == 2 else Label)(classes)


def targets_from(classes, n_outputs):
    """Return the :class:`Outputs` of a machine with so many visible units.

    ``classes`` are those of a label, one for each unit or two of one unit; None is for outputs. One
    unit alone is a label, as a column of targets is one.
    """
    if classes is None and n_outputs > 1:
        return Outputs(np.arange(n_outputs))
    classes = column_or_1d((0, 1) if classes is None else classes)
    if not np.array_equal(classes, np.unique(classes)):
        raise ValueError(
            f"classes must be sorted and distinct, as those of a fit are, got {classes}; "
            "sort the rows or columns of the arrays that belong to outputs with them"
        )
    if len(classes) != max(n_outputs, 2):
        raise ValueError(
            f"classes must be as many as outputs, or two of one output, got {len(classes)} and "
            f"{n_outputs} output(s)"
        )
    return (BinaryLabel if n_outputs == 1 else Label)(classes)
