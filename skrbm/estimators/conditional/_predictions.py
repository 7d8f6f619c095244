"""What a fitted conditional machine tells: predictions, probabilities, draws and completions."""

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from ..._checks import check_count
from ..._sklearn import DOC_LINK, CallbackSupportMixin
from ...arrays import cast, from_numpy, make_rng, namespace, one_blas_thread, take_rows, to_numpy
from ...inference import FixedPoint
from ...inputs import check_data, check_weights
from ...machine import free_energy
from ...units import Bernoulli
from .._choices import set_params
from ._decisions import clamped, decision_of, draw, log_partitions
from ._losses import make_objective
from ._machine import PARAMETERS, ConditionalMachine
from ._targets import accuracy, check_targets, known_values

_CHAINS = 1024  # drawn at a time
_FIRST_SWEEPS, _MAX_SWEEPS = 7, 100


class Predictions(
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClassifierMixin,
    CallbackSupportMixin,
    BaseEstimator,
):
    """Public methods of a fitted conditional machine.

    They read the parameters of the estimator, ``n_sweeps_`` and ``_targets``, the
    :class:`~skrbm.estimators.conditional._targets.Targets` of the last fit.
    """

    _doc_link_module, _doc_link_template = DOC_LINK
    set_params = set_params

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self):
        return self.components_.shape[0]

    @property
    def machine_(self):
        """The fitted parameters as a machine, which shares their memory."""
        check_is_fitted(self, "components_")
        units = self._targets.unit, Bernoulli()
        return ConditionalMachine(units, *(getattr(self, f"{name}_") for name in PARAMETERS))

    def _sweeps(self, epoch):
        """Return the largest number of sweeps of inference in an epoch, counted from 1."""
        n_sweeps = self.n_sweeps
        if isinstance(self.inference, FixedPoint):
            if n_sweeps is not None:
                raise ValueError(
                    f"n_sweeps={n_sweeps!r} is of an inference that is given by name, and "
                    f"{self.inference} has its own: set its max_iter, and leave n_sweeps out"
                )
            return self.inference.max_iter
        if n_sweeps is None:
            return min(_FIRST_SWEEPS + epoch, _MAX_SWEEPS)
        n_sweeps = n_sweeps(epoch) if callable(n_sweeps) else n_sweeps
        check_count("n_sweeps", n_sweeps, 1)
        return n_sweeps

    def _objective(self, n_sweeps):
        """Return what is learnt from, given the largest number of sweeps."""
        return make_objective(self.objective, self.inference, n_sweeps)

    def _decision(self, n_sweeps):
        """Return what decides the outputs, given the largest number of sweeps."""
        return decision_of(self.decision, self._objective(n_sweeps))

    def _marginals(self, n_sweeps):
        """Return what finds the marginals, given the largest number of sweeps."""
        return self._objective(n_sweeps).marginals

    def _inferred(self, X, rule):
        """Return (logits of the outputs, means of hidden units) by a rule."""
        return self._inferred_given(self.machine_, check_data(self, X), rule)

    @one_blas_thread
    def _inferred_given(self, machine, X, rule, V=None, observed=None):
        """Return the same of checked X, with outputs held at V where ``observed``."""
        infer, parts = rule(self.n_sweeps_), []
        for rows, given in machine.blocks(X):
            if observed is not None:
                given = clamped(given, take_rows(V, rows), take_rows(observed, rows))
            parts.append(infer(given))
        xp = namespace(parts[0].logits)
        return tuple(xp.concat([part[i] for part in parts], axis=0) for i in (0, 1))

    def predict(self, X):
        """Predict the targets as ``decision`` says, or in the way that the objective trains for.

        The latter is each output by its marginal probability ("likelihood", "perceptron"), all
        outputs and hidden units at their joint maximum ("margin"), or all outputs at theirs, hidden
        units summed out ("marginal_margin"). Inference is that of the training; where this samples,
        the marginals are those of mean field.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        y : array of shape (n_samples, n_outputs) or (n_samples,)
        """
        logits, _ = self._inferred(X, self._decision)
        return self._targets.decode(logits)

    def decision_function(self, X):
        """Compute what :meth:`predict` decides by.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        logits : array of shape (n_samples, n_outputs), or (n_samples,) for a label of two classes
            Log-odds of each output, or log-probabilities of each class. With a margin or a joint
            decision, the log-weight at the best with the output at 1, less that with it at 0; with
            a margin and several classes, the largest log-weight with each, less the logarithm of
            the sum of these weights.
        """
        logits, _ = self._inferred(X, self._decision)
        return self._targets.decision(logits)

    def predict_proba(self, X):
        """Compute marginal probabilities of the outputs, or of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        P : array of shape (n_samples, n_outputs) or (n_samples, n_classes)
            p(y_i = 1 | x) of each output, approximate as the inference is. With a margin, which
            is not trained for them, they are those of sum-product belief propagation.
        """
        logits, _ = self._inferred(X, self._marginals)
        return self._targets.probabilities(logits)

    def transform(self, X):
        """Compute the expected hidden units E[h | x], as features for another estimator.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        H : array of shape (n_samples, n_components)
            Numbers between 0 and 1.
        """
        _, hidden = self._inferred(X, self._marginals)
        return hidden

    @one_blas_thread
    def score_samples(self, X, y=None):
        """Compute the log-probability of targets given features.

        log Z is exact for one label, and where outputs or hidden units are at most 12; elsewhere
        it is the Bethe approximation, which is no bound: the result may exceed 0. A
        ConvergenceWarning says where belief propagation did not find it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : {array-like, sparse matrix} of shape (n_samples, n_outputs) or (n_samples,), \
                default=None
            Default: the machine's own prediction, whose probability says how sure it is.

        Returns
        -------
        log_probability : array of shape (n_samples,)
            log p(y | x) in nats, float64.
        """
        y = self.predict(X) if y is None else y
        machine, X = self.machine_, check_data(self, X)
        V, parts = self._targets.encode(check_targets(y, X, missing=False)), []
        for rows, given in machine.blocks(X):
            values, _ = known_values(V, rows, given.thetas[0].field)
            parts.append(-free_energy(given, values) - log_partitions(given))
        return namespace(parts[0]).concat(parts, axis=0)

    def score(self, X, y, sample_weight=None):
        """Compute the accuracy of :meth:`predict`: all outputs of a row must be right.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : {array-like, sparse matrix} of shape (n_samples, n_outputs) or (n_samples,)
            Of outputs that are NaN nothing is asked, and rows without another do not count.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
            Part of the rows that are right.
        """
        Y = check_targets(y, X)
        sample_weight = check_weights(sample_weight, Y)
        decided = to_numpy(self.predict(X))  # which says so if nothing is fitted
        return accuracy(self._targets, Y, decided, sample_weight)

    @one_blas_thread
    def sample(self, X, n_samples=1, *, n_steps=100, random_state=None):
        """Draw targets given features: by Gibbs sampling, or for one label from its probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
        n_samples : int, default=1
            Draws for each row of X.
        n_steps : int, default=100
            Sweeps of the chain of each draw, which starts at a draw without hidden units.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        Y : array of shape (n_samples_X, n_samples, n_outputs) or (n_samples_X, n_samples)
        """
        check_count("n_samples", n_samples, 1)
        check_count("n_steps", n_steps, 1)
        machine, X = self.machine_, check_data(self, X)
        rng, parts = make_rng(random_state, machine.components), []
        for rows, given in machine.blocks(X, max(1, _CHAINS // n_samples)):
            index = from_numpy(np.repeat(np.arange(len(rows)), n_samples), machine.components)
            parts.append(draw(given.rows(index), n_steps, rng))
        drawn = self._targets.decode(namespace(parts[0]).concat(parts, axis=0) - 0.5)
        shape = X.shape[0], n_samples, *drawn.shape[1:]
        return namespace(drawn).reshape(drawn, shape)

    def impute(self, X, y):
        """Fill missing outputs with their prediction given the features and the other outputs.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_outputs)
            NaN marks what is missing.

        Returns
        -------
        Y : array of shape (n_samples, n_outputs)
            Integers: what was given, and predictions as of :meth:`predict` elsewhere.
        """
        machine, X = self.machine_, check_data(self, X)
        if self._targets.ndim == 1:
            raise ValueError(
                "impute fills missing outputs, and this machine was fitted to one label, of which "
                "nothing is known where it is missing: use predict"
            )
        V = self._targets.encode(check_targets(y, X))
        V, observed = known_values(V, np.arange(X.shape[0]), machine.components)
        if observed is None:
            return cast(V, namespace(V).int64)
        logits, _ = self._inferred_given(machine, X, self._decision, V, observed)
        filled = self._targets.decode(logits)
        return namespace(V).where(observed, cast(V, filled.dtype), filled)
