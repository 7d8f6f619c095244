"""Labels as visible columns: of one label a site of categories, of several labels a bit each."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from .._ranks import ranks
from ..arrays import dense, is_foreign, to_numpy
from ..inputs import check_unmasked, joined_values, missing_values
from ..units import Bernoulli, Categorical, ColumnUnits
from ._encoded import takes_table
from ._rbm import RBM

_MOST_BITS = 12  # labels whose values are summed over


class LabelledRBM(RBM):
    """Machine whose last visible columns are labels; :class:`RBMClassifier` makes and fits it."""

    labels = None
    _may_restart = False  # labels tell modes apart, whether or not chains mix between them

    def _has_joint_columns(self, hidden):
        return False  # it is the hidden units that connect columns with labels

    def _encode(self, X, reset=False, *, sparse=True, **can):
        """Return rows that RBMClassifier has checked; in sparse ones labels may be NaN."""
        if reset:
            self.n_features_in_ = X.shape[1]
        return X if sparse else dense(X)

    def _parts(self, rows=None):
        return replace(super()._parts(rows), labels=self.labels)


@dataclass(frozen=True)
class Labels:
    """Map between labels and visible columns.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        Values of one label, sorted; or the numbers of several binary labels.
    several : bool
        Whether there are several binary labels.
    unlabelled : object
        What marks a row without a label, beside NaN and None.
    """

    classes: Any
    several: bool
    unlabelled: Any = None

    @classmethod
    def of(cls, y, unlabelled=None, classes=None):
        """Return the map for labels to learn from, as :func:`check_labels` returns them.

        The classes are those in the rows of all ranks.
        """
        if y.ndim == 2:
            if not 0 < y.shape[1] <= _MOST_BITS:
                raise ValueError(
                    f"y has {y.shape[1]} labels, and the machine sums over the values of at most "
                    f"{_MOST_BITS}; ConditionalRBM takes more"
                )
            return cls(np.arange(y.shape[1]), True)
        parts = ranks().gather(np.unique(_plain(y[~_unknown(y, unlabelled)])))
        found = joined_values([part for part in parts if len(part)] or parts, "y")
        classes = found if classes is None else np.unique(column_or_1d(classes))
        if not np.isin(found, classes).all():
            raise ValueError(f"y has labels {found[~np.isin(found, classes)]} not in classes")
        if len(classes) < 2:
            raise ValueError(
                f"y has one class only, {classes[0]}; a classifier needs rows of at least two"
                if len(classes)
                else "y has no label: of two classes at least some rows must be known"
            )
        return cls(classes, False, unlabelled)

    @property
    def unit(self):
        """The kind of visible unit of these columns."""
        return Bernoulli() if self.several else Categorical(len(self.classes))

    def unit_beside(self, unit, n):
        """Return the unit of n columns of features, whose unit is given, and of these columns."""
        parts = [(unit, range(n))]
        if isinstance(unit, ColumnUnits):
            parts = list(zip(unit.units, unit.columns, strict=True))
        return ColumnUnits([*parts, (self.unit, range(n, n + len(self.classes)))])

    @cached_property
    def values(self):
        """All values that the columns can have, one in a row."""
        n = len(self.classes)
        return self.unit.configurations(n, np.arange(self.unit.n_configurations(n)))

    def encode(self, y):
        """Return checked labels as columns: bytes, or float32 with NaN where one is not known."""
        if (y.ndim == 2) != self.several or (self.several and y.shape[1] != len(self.classes)):
            wanted = f"(n_samples, {len(self.classes)})" if self.several else "(n_samples,)"
            raise ValueError(f"y has shape {y.shape}, and the machine has labels of {wanted}")
        if self.several:
            return y if np.isnan(y).any() else y.astype(np.uint8)
        unknown = _unknown(y, self.unlabelled)
        known = _plain(y[~unknown])
        codes = np.minimum(np.searchsorted(self.classes, known), len(self.classes) - 1)
        wrong = self.classes[codes] != known
        if wrong.any():
            raise ValueError(
                f"y contains labels that are not among the classes {self.classes}: "
                f"{np.unique(known[wrong])}"
            )
        columns = np.full((len(y), len(self.classes)), np.nan, np.float32)
        columns[~unknown] = np.eye(len(self.classes), dtype=np.float32)[codes]
        return columns if unknown.any() else columns.astype(np.uint8)

    def decode(self, columns):
        """Return the labels of columns of 0 and 1."""
        columns = to_numpy(columns)
        return columns.astype(np.int64) if self.several else self.classes[columns.argmax(axis=1)]


def check_features(estimator):
    """Raise TypeError if an estimator takes features as a table, which it encodes itself."""
    if takes_table(estimator):
        raise TypeError(
            f"{type(estimator).__name__} encodes the columns of a table, and labels are columns "
            "beside numbers; encode X before (OneHotEncoder), and take an RBM, with "
            "visible=ColumnUnits(...) if its columns are of several kinds"
        )


def check_labels(y, unlabelled=None):
    """Return labels as a checked NumPy array: one label in 1-D, several binary ones in 2-D.

    Raises ValueError if labels are continuous, or several ones others than 0, 1 and NaN.
    """
    if np.ndim(unlabelled):
        raise ValueError(f"unlabelled must be one value, such as -1, got {unlabelled!r}")
    if y is None:
        raise ValueError("RBMClassifier requires y to be passed, but the target y is None")
    check_unmasked(y, "y")
    kind = str(getattr(y, "dtype", "")).lower()
    y = to_numpy(y) if is_foreign(y) else y.toarray() if hasattr(y, "toarray") else np.asarray(y)
    if y.ndim == 2 and y.shape[1] != 1:
        return _bits(y)
    y = column_or_1d(y, warn=True)
    if y.dtype.kind == "f" and "int" in kind:  # NaN made them floats
        y, known = y.astype(object), y == y
        y[known] = y[known].astype(np.int64)
    if y.dtype.kind == "f" and np.isinf(y).any():
        raise ValueError("Input y contains infinity; only NaN marks a row without a label")
    known = y[~_unknown(y, unlabelled)]
    if known.dtype.kind == "O" and len({isinstance(value, str) for value in known}) > 1:
        raise ValueError("labels must be all of one type, numbers or strings")
    check_classification_targets(_plain(known))
    return y


def _plain(values):
    """Return labels of the dtype object as strings or numbers."""
    return np.array(values.tolist()) if values.dtype.kind == "O" else values


def _bits(y):
    if y.dtype.kind == "O":
        y = np.where(missing_values(y.ravel(), "y").reshape(y.shape), np.nan, y)
    try:
        y = y.astype(np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError("y in two dimensions must have the numbers 0, 1 and NaN") from error
    if not (np.isnan(y) | (y == 0) | (y == 1)).all():
        raise ValueError(
            "y in two dimensions is of several binary labels: 0, 1, or NaN where one is not "
            "known. For one label with several classes give one column"
        )
    return y


def _unknown(y, unlabelled):
    """Return which rows have no label."""
    unknown = missing_values(y, "y")
    if not missing_values(np.array([unlabelled], dtype=object))[0]:  # which has no equal
        unknown[~unknown] = y[~unknown] == unlabelled
    return unknown
