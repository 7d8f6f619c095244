"""Classification with an RBM of features and labels."""

from dataclasses import replace
from numbers import Real
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._checks import check_count
from .._sklearn import Interval, _fit_context
from ..arrays import (
    Columns,
    cast,
    dense,
    from_numpy,
    has_missing,
    is_foreign,
    log_sum_exp,
    namespace,
    one_blas_thread,
    row_blocks,
    to_numpy,
    working_dtype,
)
from ..inputs import check_range, ends_of_ranks, into_support, labelled_columns, rows_with_weight
from ..learning import LabelColumns
from ..units import ColumnUnits
from ._categorical_rbm import CategoricalRBM
from ._encoded import decoded, encoded, takes_table
from ._rbm import RBM
from ._shared import Estimator, shares_parameters
from ._tabular_rbm import TabularRBM
from ._targets import check_known, check_targets, targets_of
from ._training import check_settings_of_ranks, keeps_features

_MAX_LABELS = 12  # binary ones, whose values are summed over


class LabelledRBM(RBM):
    """Machine whose last visible columns are labels, which RBMClassifier fits."""

    labels = encoder = None
    _shown_as = "RBMClassifier"

    def _encode(self, X, reset=False, *, sparse=True, **can):
        """Return rows that RBMClassifier has checked."""
        if reset:
            self.n_features_in_ = X.shape[1]
        return X if sparse else dense(X)

    @property
    def _log_volume(self):
        return None if self.encoder is None else self.encoder.log_volume

    def _recipe(self, rows=None):
        return replace(super()._recipe(rows), labels=self.labels)


@shares_parameters
class RBMClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, Estimator):
    """Classifier based on the joint density of features and labels.

    The model is an RBM whose visible units are the features and the label (Larochelle and Bengio
    2008): one categorical unit for a single label, or a binary unit for each of several binary
    labels. The probabilities of labels given the features are exact, since the hidden units are
    summed out. Rows without a label contribute to the density, and features can be sampled given a
    label.

    Read more in the :ref:`User Guide <rbm_classifier>`.

    Parameters
    ----------
    estimator : RBM, TabularRBM, CategoricalRBM or None, default=None
        Defines the number of hidden units, the inference method, the learning rate and so on, and
        the units or the encoding of the features. None means ``TabularRBM()`` for tables with
        columns that are not numeric, and otherwise ``RBM()``, with ``visible="gaussian"`` if X has
        values outside [0, 1].
    unlabelled : object, default=None
        Value of y, such as -1, that marks rows without a label, in addition to NaN and None. Such
        rows are used to learn the density of the features.
    discriminative : float in [0, 1], default=0.0
        Weight λ of the classification in the objective, λ log p(y | x) + (1 - λ) log p(x, y). With
        0 the joint density is learned, with 1 a classifier only, for which samples and
        ``score_samples`` are meaningless; values in between are a compromise.
    random_state : int, RandomState instance or None, default=None
        If not None, used instead of the ``random_state`` of ``estimator``.

    Attributes
    ----------
    rbm_ : RBM
        The fitted RBM, whose last columns are the labels.
    classes_ : ndarray of shape (n_classes,)
        Values of a single label; 0, 1, ... for several binary labels.
    history_ : dict of list
        The history of ``rbm_`` (:class:`RBM`).
    {n_iter_, n_features_in_, feature_names_in_}

    See Also
    --------
    ConditionalRBM : Learns p(y | x) only, for one or many dependent labels.
    RBM : Density of features without labels, for use in front of another classifier.

    References
    ----------
    Larochelle, H., & Bengio, Y. (2008). Classification using discriminative restricted Boltzmann
    machines. ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from skrbm import RBM, RBMClassifier
    >>> X = np.repeat([[0, 0, 1, 1], [1, 1, 0, 0]], 50, axis=0)
    >>> y = np.repeat(["back", "front"], 50)
    >>> model = RBMClassifier(RBM(4, batch_size=10, random_state=0)).fit(X, y)
    >>> model.predict([[1, 1, 0, 0]])
    array(['front'], dtype='<U5')
    >>> X_new, _ = model.sample(100, y="back", random_state=0)
    >>> bool(np.mean((X_new == [0, 0, 1, 1]).all(axis=1)) > 0.5)
    True
    """

    _fits_on_ranks = True
    _parameter_constraints: ClassVar[dict] = {
        "estimator": [RBM, TabularRBM, CategoricalRBM, None],
        "unlabelled": [object],
        "discriminative": [Interval(Real, 0, 1, closed="both")],
    }

    def __init__(self, estimator=None, *, unlabelled=None, discriminative=0.0, random_state=None):
        self.estimator = estimator
        self.unlabelled = unlabelled
        self.discriminative = discriminative
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        tags.classifier_tags.multi_label = True
        return tags

    # ------------------------------------------------------------------------- training

    @_fit_context(prefer_skip_nested_validation=False)
    @keeps_features
    def fit(self, X, y, sample_weight=None):
        """Fit the model to features and labels.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
            Features. NaN is a missing value; it is only allowed if ``discriminative`` is 0.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Either one label of any type, or at most 12 binary labels, 0 or 1. NaN, None and
            ``unlabelled`` mark unknown labels, which are treated as latent variables.
        sample_weight : array-like of shape (n_samples,), default=None
            Number of rows that each row stands for.

        Returns
        -------
        self : object
        """
        resumes = hasattr(self, "rbm_") and self._given().warm_start
        return self._learn(RBM.fit, X, y, sample_weight, resumes)

    @_fit_context(prefer_skip_nested_validation=False)
    @keeps_features
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Train for one epoch on some rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As in :meth:`fit`.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            As in :meth:`fit`.
        classes : array-like of shape (n_classes,), default=None
            All classes that the label can have. Only used in the first call; by default those of y.
        sample_weight : array-like of shape (n_samples,), default=None
            As in :meth:`fit`. Fractional weights are scaled to a mean of 1 in each call.

        Returns
        -------
        self : object
        """
        return self._learn(RBM.partial_fit, X, y, sample_weight, hasattr(self, "rbm_"), classes)

    def _given(self):
        self._validate_params()
        if self.estimator is not None:
            return self.estimator
        return TabularRBM() if vars(self).get("_is_mixed") else RBM()

    def _new_encoder(self):
        return self._given()._new_encoder()

    def _encode(self, X, reset=False, sample_weight=None):
        """Return checked features, dense if they are those of a table."""
        options = {"missing": True, "sparse": not takes_table(self)}
        return encoded(self, X, reset, **options, sample_weight=sample_weight)

    def _checked(self, y, X):
        options = {"labels_missing": True, "unlabelled": self.unlabelled}
        return dense(check_targets(y, X, type(self).__name__, **options))

    def _learn(self, method, X, y, sample_weight, resumes, classes=None):
        """Call a method of a machine with rows of features and labels; returns self."""
        check_settings_of_ranks(self, resumes)
        if np.ndim(self.unlabelled):
            raise ValueError(f"unlabelled must be a scalar, such as -1, got {self.unlabelled!r}")
        if not resumes:
            self._is_mixed = bool(labelled_columns(X))
        X = self._encode(X, not resumes, sample_weight)
        weights, X, y = rows_with_weight(sample_weight, X, self._checked(y, X))
        given, has_table = self._given(), takes_table(self)
        given._validate_params()
        if has_table:
            unit = self._encoder.unit
        elif self.estimator is None and resumes:
            unit = self._feature_unit
        else:
            least, most = ends_of_ranks(X).range
            if self.estimator is None and not 0 <= least <= most <= 1:
                given = RBM(visible="gaussian")
            unit = given._units_for(X.shape[1])[0]
        if unit.clips and check_range(Columns(X), unit):
            X = into_support(X, unit)
        targets = self._targets if resumes else targets_of(y, classes, unlabelled=self.unlabelled)
        n_labels, label = targets.n_outputs, targets.unit
        if targets.ndim == 2 and n_labels > _MAX_LABELS:
            raise ValueError(f"y must have at most 12 labels, got {n_labels}; use ConditionalRBM")
        V = targets.encode(y)
        if not resumes:
            check_known(V)
        n, names, parts = X.shape[1], RBM().get_params(deep=False), [(unit, range(X.shape[1]))]
        if isinstance(unit, ColumnUnits):
            parts = list(zip(unit.units, unit.columns, strict=True))
        params = {k: v for k, v in given.get_params(deep=False).items() if k in names}
        params["visible"] = ColumnUnits([*parts, (label, range(n, n + n_labels))])
        if self.random_state is not None:
            params["random_state"] = self.random_state
        rbm = self.rbm_ if resumes else LabelledRBM()
        rbm.set_params(**params)
        vars(rbm).update({k: v for k, v in vars(given).items() if "_callback" in k})
        rbm.encoder = self._encoder if has_table else None
        values = label.configurations(n_labels, np.arange(label.n_configurations(n_labels)))
        rbm.labels = LabelColumns(values, float(self.discriminative))
        try:
            method(rbm, _joined(X, V), sample_weight=weights)
        finally:  # after an interruption the machine has the last complete epoch
            if hasattr(rbm, "components_"):
                self.rbm_, self._targets, self.classes_ = rbm, targets, targets.classes
        return self

    # ------------------------------------------------------------------------- the machine

    @property
    def machine_(self):
        """The fitted machine, whose last visible units are the labels."""
        check_is_fitted(self, "rbm_")
        return self.rbm_.machine_

    @property
    def history_(self):
        """The history of the machine."""
        check_is_fitted(self, "rbm_")
        return self.rbm_.history_

    @property
    def n_iter_(self):
        """Epochs so far."""
        check_is_fitted(self, "rbm_")
        return self.rbm_.n_iter_

    @property
    def _n_features_out(self):
        return self.machine_.n_units[1]

    @property
    def _n_encoded(self):
        return self.machine_.n_units[0] - len(self.classes_)

    @property
    def _feature_unit(self):
        return self.machine_.units[0].part(self.machine_.n_units[0], np.arange(self._n_encoded))

    def _features(self, X):
        """Return checked features as the machine's units take them, with labels that are 0."""
        check_is_fitted(self, "rbm_")
        X, unit = self._encode(X), self._feature_unit
        X = into_support(X, unit, warn=True)
        return _joined(X, np.zeros((X.shape[0], len(self.classes_)), np.uint8))

    def _with(self, rows, V):
        """Return rows with columns of labels, or with one row of them for all."""
        V = np.broadcast_to(V, (rows.shape[0], len(self.classes_)))
        return _joined(rows[:, : self._n_encoded], V)

    def _by_blocks(self, function, rows):
        machine = self.machine_
        parts = [
            function(machine, cast(block, machine.dtype) if not sp.issparse(block) else block)
            for block in row_blocks(rows)
        ]
        return namespace(parts[0]).concat(parts, axis=0)

    # ------------------------------------------------------------------------- predictions

    @one_blas_thread
    def _log_probabilities(self, rows):
        """Return log p(y | x) for all values of the labels, by sums over missing features."""
        if not has_missing(rows):
            return self._by_blocks(self.rbm_.labels.log_probabilities, rows)
        values = self.rbm_.labels.values.astype(np.float32)
        logs = [self.rbm_.score_samples(self._with(rows, value)) for value in values]
        joint = namespace(logs[0]).stack(logs, axis=1)
        return joint - log_sum_exp(joint)[:, None]

    def predict(self, X):
        """Predict the most probable label, or the most probable combination of several labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_labels)
        """
        best = to_numpy(self._log_probabilities(self._features(X))).argmax(axis=1)
        return self._targets.decode(self.rbm_.labels.values[best] - 0.5)

    def predict_proba(self, X):
        """Compute the probabilities p(y | x) of the classes.

        These are exact. For rows with NaN they are as accurate as :meth:`RBM.score_samples`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        P : array of shape (n_samples, n_classes) or (n_samples, n_labels)
            For several labels, the probability that each is 1.
        """
        log_p = self._log_probabilities(self._features(X))
        P = namespace(log_p).exp(log_p)
        if self._targets.ndim == 1:
            return P
        return P @ cast(from_numpy(self.rbm_.labels.values, P), P.dtype)

    def predict_log_proba(self, X):
        """Compute the logarithms of :meth:`predict_proba`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        log_p : array of shape (n_samples, n_classes) or (n_samples, n_labels)
        """
        check_is_fitted(self, "rbm_")
        if self._targets.ndim == 1:
            return self._log_probabilities(self._features(X))
        P = self.predict_proba(X)
        return namespace(P).log(P)

    def transform(self, X):
        """Compute the expected hidden units E[h | x], with the labels summed out.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        H : array of shape (n_samples, n_components)
        """
        rows = self._features(X)
        if has_missing(rows):
            return self.rbm_.transform(self._with(rows, np.float32(np.nan)))
        return self._by_blocks(self.rbm_.labels.hidden_means, rows)

    def score_samples(self, X, y=None):
        """Compute the log-likelihood of features, or of features and labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_labels), default=None
            Unknown labels are summed out; by default all are.

        Returns
        -------
        log_likelihood : array of shape (n_samples,)
            log p(x), or log p(x, y) if ``y`` is given, in nats, float64. log Z is estimated as in
            :meth:`RBM.score_samples`.
        """
        rows, values = self._features(X), self.rbm_.labels.values
        V = np.full((rows.shape[0], values.shape[1]), np.nan)
        if y is not None:
            V = self._targets.encode(self._checked(y, rows))
        if has_missing(rows):
            return self.rbm_.score_samples(self._with(rows, V))
        log_p = self._log_probabilities(rows)
        agrees = ((V[:, None, :] == values) | np.isnan(V)[:, None, :]).all(axis=2)
        xp = namespace(log_p)
        known = xp.where(from_numpy(agrees, log_p), log_p, xp.full_like(log_p, -np.inf))
        total = self.rbm_.score_samples(self._with(rows, values[0].astype(np.uint8)))
        return total - log_p[:, 0] + log_sum_exp(known)

    def sample(self, n_samples=1, y=None, *, n_steps=100, random_state=None):
        """Draw features and labels, or features given labels.

        Parameters
        ----------
        n_samples : int, default=1
            Number of draws, or of draws for each row of ``y`` if it is given.
        y : object or array-like of shape (n_labels_given,) or (n_given, n_labels), default=None
            A label, or several labels, for which to draw features.
        n_steps : int, default=100
            Number of Gibbs sweeps for each draw.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        X : array or DataFrame of shape (n_draws, n_features)
            A DataFrame after a fit to one.
        y : ndarray of shape (n_draws,) or (n_draws, n_labels)
        """
        check_is_fitted(self, "rbm_")
        check_count("n_samples", n_samples, 1)
        options = {"n_steps": n_steps, "random_state": random_state}
        if y is None:
            rows = self.rbm_.sample(n_samples, **options)
        else:
            y = np.atleast_2d(y) if self._targets.ndim == 2 else np.atleast_1d(y)
            if not y.size:
                raise ValueError("y must have at least one label, got none")
            V = self._targets.encode(self._checked(y, y))
            V = np.repeat(V.astype(np.float32), n_samples, axis=0)
            nothing = np.full((len(V), self._n_encoded), np.nan, np.float32)
            given = np.concatenate([nothing, V], axis=1)
            place = self.machine_.weights[0]
            given = from_numpy(given, place) if is_foreign(place) else given
            rows = self.rbm_.sample(given=given, **options)
        n = self._n_encoded
        return decoded(self, [rows[:, :n]]), self._targets.decode(to_numpy(rows[:, n:]) - 0.5)


def _joined(X, V):
    """Return features and columns of labels side by side, in the library of X."""
    if sp.issparse(X):
        return sp.hstack([X, sp.csr_array(V)], format="csr")
    if not is_foreign(X):
        return np.concatenate([X, V], axis=1)
    X = cast(X, working_dtype(X))
    return namespace(X).concat([X, cast(from_numpy(V, X), X.dtype)], axis=1)
