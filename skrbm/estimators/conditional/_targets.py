"""What is predicted: binary outputs, or one label, as values of the visible units and back."""

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_array

from ...arrays import cast, from_numpy, is_foreign, namespace, to_numpy
from ...inference import Gibbs, propagate
from ...inputs import canonical
from ...machine import free_energy
from ...units import Bernoulli, Categorical, Theta
from ._label import propagate_classes


class Outputs:
    """Binary outputs, each a visible unit.

    ``propagate`` is belief propagation between such visible units and the hidden ones, and
    ``classes`` the public ``classes_``.
    """

    unit = Bernoulli()
    propagate = staticmethod(propagate)
    ndim = 2

    def __init__(self, classes):
        self.classes = classes

    @property
    def n_outputs(self):
        return len(self.classes)

    def encode(self, Y):
        """Return checked targets as rows of visible values, NaN where an output is missing."""
        if Y.ndim == 1:
            raise ValueError(
                f"y has one column only, in one dimension or two, but this machine has "
                f"{self.n_outputs} outputs"
            )
        if Y.shape[1] != self.n_outputs:
            raise ValueError(
                f"Y has shape {tuple(Y.shape)}, but this machine has {self.n_outputs} outputs"
            )
        return Y

    def rows(self, V, index, beside):
        """Return (rows of visible values, which are observed or None if all are).

        Both are dense and lie where ``beside`` does, the values in its dtype.
        """
        V = V[index]
        V = np.asarray(V.toarray() if sp.issparse(V) else V, np.float32)  # 0, 1 and NaN
        missing = np.isnan(V)
        observed = from_numpy(~missing, beside) if missing.any() else None
        V[missing] = 0
        return cast(from_numpy(V, beside), beside.dtype), observed

    def initial_field(self, V):
        """Return the field of independent units fitted to the observed values."""
        if sp.issparse(V):
            on, n = np.asarray(V.sum(axis=0), np.float64).ravel(), V.shape[0]
        else:
            on, n = np.nansum(V, axis=0, dtype=np.float64), V.shape[0]
            if V.dtype.kind == "f":
                n = n - np.isnan(V).sum(axis=0)
        return self._field((on + 0.5) / (n + 1))  # one more row of which half is on

    def _field(self, mean):
        return np.log(mean) - np.log1p(-mean)

    def loss_field(self, V):
        """Return fields that add the loss against V to a log-weight, up to a constant.

        The Hamming loss: the number of outputs that differ from V.
        """
        return 1 - 2 * V

    def wrong(self, V, values):
        """Return where values differ from V, an array of bool of shape (n_rows, n_outputs)."""
        return V != values

    def draw(self, given, n_steps, rng):
        """Return visible values drawn by Gibbs sampling, one for each row of fields."""
        return Gibbs(n_steps).search(given, rng)

    def logits(self, means):
        """Return fields at which the units have these means."""
        xp = namespace(means)
        tiny = xp.finfo(means.dtype).smallest_normal
        low = xp.log(xp.clip(1 - means, tiny, None))
        return xp.log(xp.clip(means, tiny, None)) - low

    def decode(self, logits):
        """Return the predicted targets, an integer array of 0 and 1."""
        return cast(logits > 0, namespace(logits).int64)

    def decision(self, logits):
        """Return logits in the shape that scikit-learn's classifiers give them."""
        return logits

    def probabilities(self, logits):
        """Return probabilities in the shape that scikit-learn's classifiers give them."""
        return self.unit.mean(Theta(logits))


class _Label(Outputs):
    """One label, by its index in ``classes``."""

    ndim = 1

    def encode(self, Y):
        if Y.ndim != 1:
            raise ValueError(
                f"y has shape {tuple(Y.shape)}, but this machine was fitted to one label, in one "
                "dimension"
            )
        index = np.minimum(np.searchsorted(self.classes, Y), len(self.classes) - 1)
        unknown = self.classes[index] != Y
        if unknown.any():
            raise ValueError(
                f"y contains labels that are not among the classes {self.classes}: "
                f"{np.unique(np.asarray(Y)[unknown])}"
            )
        return self._values(index)

    def _labels(self, index):
        labels = self.classes[to_numpy(index)]
        return from_numpy(labels, index) if labels.dtype.kind in "biuf" else labels


class BinaryLabel(_Label):
    """A label of two classes, as one unit that is 1 for the second."""

    n_outputs = 1

    def _values(self, index):
        return index[:, None].astype(np.uint8)

    def draw(self, given, n_steps, rng):
        """Return visible values drawn from their law, which two weights tell."""
        off = namespace(given.weights[0]).zeros_like(given.thetas[0].field)
        logits = free_energy(given, off) - free_energy(given, off + 1)
        return self.unit.sample(Theta(cast(logits, off.dtype)[:, None]), rng)

    def decode(self, logits):
        return self._labels(cast(logits[:, 0] > 0, namespace(logits).int64))

    def decision(self, logits):
        return logits[:, 0]

    def probabilities(self, logits):
        mean = super().probabilities(logits)
        return namespace(mean).concat([1 - mean, mean], axis=1)


class Label(_Label):
    """A label of several classes, as columns of which one is 1."""

    unit = Categorical()
    propagate = staticmethod(propagate_classes)

    def _values(self, index):
        return (index[:, None] == np.arange(self.n_outputs)).astype(np.uint8)

    def draw(self, given, n_steps, rng):
        """Return visible values drawn from their law, which is a sum over the values."""
        fields = (theta.field for theta in given.thetas)
        return self.unit.sample(Theta(self.propagate(given.weights[0], *fields).visible), rng)

    def loss_field(self, V):
        return 1 - V  # 0 or 1, as where two classes are one unit

    def wrong(self, V, values):
        return namespace(V).any(V != values, axis=1, keepdims=True)

    def _field(self, mean):
        return np.log(mean)

    def logits(self, means):
        xp = namespace(means)
        return xp.log(xp.clip(means, xp.finfo(means.dtype).smallest_normal, None))

    def decode(self, logits):
        return self._labels(namespace(logits).argmax(logits, axis=1))


def check_targets(Y, X, *, missing=True, empty=False):
    """Return the targets as a checked NumPy array, of labels or of outputs, or in CSR format.

    Outputs are in two dimensions, of 0 and 1, and NaN where one is missing, if that is allowed;
    ``empty`` allows an output that is missing everywhere.
    A column is taken for labels in one dimension, with scikit-learn's warning.
    """
    if Y is None:
        raise ValueError("ConditionalRBM requires y to be passed, but the target y is None")
    Y = _check_sparse(Y) if sp.issparse(Y) else _check_dense(Y)
    check_consistent_length(X, Y)
    if Y.ndim == 2 and Y.shape[1] > 1:
        _check_outputs(Y, missing, empty)
        return Y
    Y = column_or_1d(Y.toarray() if sp.issparse(Y) else Y, warn=True)
    try:
        check_classification_targets(Y)
    except TypeError as error:
        raise ValueError(f"labels must be all of one type, numbers or strings: {error}") from error
    return Y


def known_accuracy(Y, predicted, sample_weight=None):
    """Return the part of the rows all of whose known outputs are predicted, of rows with any."""
    known = ~np.isnan(Y)
    rows = known.any(axis=1)
    if not rows.any():
        raise ValueError("y is NaN alone: there is nothing to score predictions by")
    right = ((Y == predicted) | ~known).all(axis=1)
    weights = _check_sample_weight(sample_weight, Y)
    return float(np.average(right[rows], weights=weights[rows]))


def _check_dense(Y):
    if is_foreign(Y):
        Y = to_numpy(Y)
    elif not hasattr(Y, "iloc"):  # scikit-learn knows what is missing in a data frame
        Y = np.asarray(Y)
    is_table = Y.ndim == 2 and Y.shape[1] != 1
    if is_table and not Y.shape[1]:
        raise ValueError(f"Y has shape {tuple(Y.shape)}, without a column: nothing to predict")
    Y = check_array(
        Y,
        ensure_2d=False,
        dtype="numeric" if is_table else None,
        ensure_all_finite="allow-nan" if is_table or _has_nan(Y) else True,
        input_name="y",
    )
    if not is_table and _has_nan(Y):
        raise ValueError(
            "y contains NaN, and one label must be known: leave these rows out. What may be "
            "missing are binary outputs, Y in two dimensions with at least two columns"
        )
    return Y


def is_unknown(V):
    """Whether all of these encoded targets are missing."""
    return not sp.issparse(V) and V.dtype.kind == "f" and bool(np.isnan(V).all())


def _has_nan(Y):
    Y = np.asarray(Y)
    return Y.dtype.kind == "f" and bool(np.isnan(Y).any())


def _check_sparse(Y):
    Y = canonical(sp.csr_array(Y))  # entries of one place count together
    if _has_nan(Y.data):
        raise ValueError(
            "a sparse Y must not contain NaN: what it leaves out is 0. For missing outputs make Y "
            "dense and mark them with NaN"
        )
    if not Y.shape[1]:
        raise ValueError(f"Y has shape {Y.shape}, without a column: nothing to predict")
    return Y


def _check_outputs(Y, missing, empty):
    values = np.unique(Y.data if sp.issparse(Y) else Y)
    absent = values[np.isnan(values)] if values.dtype.kind == "f" else values[:0]
    values = values[: len(values) - len(absent)]
    if not np.isin(values, (0, 1)).all():
        remedy = ""
        if np.isin(values, (-1, 1)).all():
            remedy = "; it has -1 and 1: give (Y + 1) / 2"
        elif np.isin(values, np.arange(1000)).all():
            remedy = (
                "; for several labels of more than two classes each, make an indicator column of "
                "each class, or fit a machine to each label"
            )
        raise ValueError(
            f"Y in two dimensions must contain only 0 and 1, or NaN where an output is missing, "
            f"and it has the values {values[:5]}{'...' if len(values) > 5 else ''}{remedy}"
        )
    if len(absent) and not missing:
        raise ValueError("Y contains NaN; impute(X, Y) fills missing outputs")
    if len(absent) and not empty:
        unknown = np.flatnonzero(np.isnan(Y).all(axis=0))
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
