"""Targets: their checks, and the map between them and the values of visible units."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from .._ranks import ranks
from ..arrays import (
    cast,
    dense,
    dense_rows,
    from_numpy,
    has_missing,
    is_foreign,
    namespace,
    to_numpy,
)
from ..inputs import canonical, check_container, joined_values, missing_values, split_missing
from ..units import Bernoulli, Categorical, Theta


@dataclass(frozen=True)
class Targets:
    """Map between targets and values of visible units.

    Two-dimensional targets are binary outputs, one for each unit. A one-dimensional target is a
    label, which is one-hot encoded.
    """

    classes: Any
    ndim: int = 1
    one_unit: bool = False  # whether the two classes of a label are one unit
    unlabelled: Any = None  # marks a missing label, besides NaN and None

    @property
    def unit(self):
        n = len(self.classes)
        return Bernoulli() if self.one_unit or self.ndim == 2 else Categorical(n)

    @property
    def n_outputs(self):
        return 1 if self.one_unit else len(self.classes)

    def encode(self, y):
        """Return checked targets as rows of visible values, NaN where one is missing."""
        if self.ndim == 2:
            if y.ndim == 1 or y.shape[1] != self.n_outputs:
                raise ValueError(
                    f"y has shape {tuple(y.shape)}, but the model has {self.n_outputs} outputs"
                )
            return y
        if y.ndim != 1:
            raise ValueError(
                f"y has shape {tuple(y.shape)}, but the model was fitted to a single label"
            )
        known, last = ~_is_missing(y, self.unlabelled), len(self.classes) - 1
        labels, index = _plain(y[known]), np.full(len(y), -1)
        index[known] = np.minimum(np.searchsorted(self.classes, labels), last)
        others = self.classes[index[known]] != labels
        if others.any():
            raise ValueError(f"y has labels {np.unique(labels[others])} that are not in classes")
        V = (index[:, None] == np.arange(last + 1)[-self.n_outputs :]).astype(np.uint8)
        return V if known.all() else np.where(known[:, None], V, np.float32(np.nan))

    def decode(self, logits):
        """Return the predicted targets, given log-odds or log-probabilities."""
        xp = namespace(logits)
        if self.ndim == 2:
            return cast(logits > 0, xp.int64)
        index = cast(logits[:, 0] > 0, xp.int64) if self.one_unit else xp.argmax(logits, axis=1)
        labels = self.classes[to_numpy(index)]  # in the library of the logits if it can hold them
        return from_numpy(labels, index) if labels.dtype.kind in "biuf" else labels

    def decision(self, logits):
        return logits[:, 0] if self.one_unit else logits

    def probabilities(self, logits):
        mean = self.unit.mean(Theta(logits))
        return namespace(mean).concat([1 - mean, mean], axis=1) if self.one_unit else mean


def _plain(values):
    """Return labels of the dtype object as strings or numbers."""
    return np.array(values.tolist()) if values.dtype.kind == "O" else values


def _is_missing(y, unlabelled):
    missing = missing_values(y, "y")
    if not missing_values(np.array([unlabelled], dtype=object))[0]:  # which equals nothing
        missing[~missing] = y[~missing] == unlabelled
    return missing


def check_targets(y, X, owner, *, labels_missing=False, unlabelled=None):
    """Return targets as a checked NumPy array, or sparse outputs in CSR format.

    Targets are either two-dimensional binary outputs, returned as float32 if dense and some are
    missing, and otherwise as uint8; or one label per row, which may be a column. ``owner`` is the
    name of the estimator.
    """
    if y is None:
        raise ValueError(f"{owner} requires y to be passed, but the target y is None")
    check_container(y, "y")
    dtype = str(getattr(y, "dtype", "")).lower()
    if sp.issparse(y):
        y = canonical(sp.csr_array(y))  # entries of one place are summed
    else:
        y = to_numpy(y) if is_foreign(y) else np.asarray(y)
    check_consistent_length(X, y)
    if y.ndim == 2 and y.shape[1] != 1:
        return _check_outputs(y)
    y = column_or_1d(dense(y), warn=True)
    if y.dtype.kind == "f" and "int" in dtype:  # NaN made them floats
        y, known = y.astype(object), y == y
        y[known] = y[known].astype(np.int64)
    missing = _is_missing(y, unlabelled)
    if missing.any() and not labels_missing:
        raise ValueError("y contains NaN, but the label of each row must be known")
    known = y[~missing]
    if known.dtype.kind == "O" and len({isinstance(value, str) for value in known}) > 1:
        raise ValueError("labels must all be of the same type, numbers or strings")
    check_classification_targets(_plain(known))
    return y


def _check_outputs(y):
    if not y.shape[1]:
        raise ValueError(f"y has 0 feature(s) (shape={y.shape}) while a minimum of 1 is required")
    if y.dtype.kind == "O":
        y = np.where(missing_values(y.ravel(), "y").reshape(y.shape), np.nan, y)
        try:
            y = y.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError("a two-dimensional y must be numeric") from error
    if y.dtype.kind not in "biuf":
        raise ValueError(f"a two-dimensional y must be numeric, got dtype {y.dtype}")
    values, incomplete = y.data if sp.issparse(y) else y, has_missing(y)
    if not ((values == 0) | (values == 1) | (values != values)).all():
        found = np.unique(values[values == values])[:5]
        raise ValueError(f"a two-dimensional y must contain only 0, 1 and NaN, got {found}")
    if sp.issparse(y) and incomplete:
        raise ValueError("a sparse y must not contain NaN; pass a dense y")
    return y if sp.issparse(y) else y.astype(np.float32 if incomplete else np.uint8)


def targets_of(y, classes=None, *, unlabelled=None, one_unit=False):
    """Return the :class:`Targets` that checked targets of the rows of all ranks are."""
    if y.ndim == 2:
        return Targets(np.arange(y.shape[1]), ndim=2)
    parts = ranks().gather(np.unique(_plain(y[~_is_missing(y, unlabelled)])))
    found = joined_values([part for part in parts if len(part)] or parts, "y")
    classes = found if classes is None else np.unique(_plain(column_or_1d(classes)))
    others = found[~np.isin(found, classes)]
    if others.size:
        raise ValueError(f"y has labels {others} that are not in classes")
    if len(classes) < 2:
        raise ValueError(f"y has {len(classes)} class(es), and a classifier needs at least two")
    return Targets(classes, one_unit=one_unit and len(classes) == 2, unlabelled=unlabelled)


def targets_from(classes, n_outputs):
    """Return the :class:`Targets` of a machine with so many visible units.

    ``classes`` of None are outputs, but one unit alone is a label.
    """
    if classes is None and n_outputs > 1:
        return Targets(np.arange(n_outputs), ndim=2)
    classes = column_or_1d((0, 1) if classes is None else classes)
    if not np.array_equal(classes, np.unique(classes)):
        raise ValueError(f"classes must be sorted and distinct, got {classes}")
    if len(classes) != max(n_outputs, 2):
        raise ValueError(f"classes must have {max(n_outputs, 2)} entries, got {len(classes)}")
    return Targets(classes, one_unit=n_outputs == 1)


def check_known(V):
    """Raise ValueError if an output of encoded targets is missing in all rows."""
    unknown = np.flatnonzero(np.isnan(V).all(axis=0)) if has_missing(V) else np.empty(0)
    if unknown.size:
        raise ValueError(f"y has no known values of outputs {unknown}")


def known_values(V, index, reference):
    """Return (visible values of rows, 0 where missing, and which are known or None if all are)."""
    V = from_numpy(dense_rows(V, index, np.float32), reference)  # 0, 1 and NaN
    return split_missing(cast(V, reference.dtype))
