"""Conditional machine: structured prediction of binary outputs, or of one label, from features."""

from numbers import Integral
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from ..._checks import check_count
from ..._epochs import Progress
from ...arrays import (
    cast,
    from_numpy,
    is_foreign,
    make_rng,
    namespace,
    one_blas_thread,
    take_rows,
    to_numpy,
)
from ...inference import FixedPoint, Gibbs
from ...inputs import check_data
from ...machine import free_energy
from ._losses import INFERENCE, OBJECTIVES, clamped, log_partitions
from ._machine import machine_of
from ._targets import check_targets, known_accuracy, targets_from
from ._training import TrainedOnTargets

_CHAINS = 1024  # drawn at a time


class ConditionalRBM(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, TrainedOnTargets
):
    """Conditional restricted Boltzmann machine: joint prediction of many binary outputs.

    Outputs v and hidden units h are binary and share couplings; features x move their biases:
    p(v, h | x) ∝ exp(h' W v + v' (A x + b) + h' (B x + c)), with W = ``components_``,
    A = ``coef_visible_``, B = ``coef_hidden_``, b = ``intercept_visible_`` and
    c = ``intercept_hidden_`` (Eq. 3 of [1]_). Targets are binary outputs in two dimensions, such
    as labels or the pixels of an image, or one label in one dimension, whose classes exclude each
    other. Scale X, such as by StandardScaler.

    Read more in the :ref:`User Guide <conditional_rbm>`.

    Parameters
    ----------
    n_components : int, default=256
        Number of binary hidden units; 0 is logistic regression.
    objective : {"likelihood", "perceptron", "margin", "marginal_margin"}, default="likelihood"
        What is learnt from: the log-likelihood of the targets (MLE); CD-PercLoss [2]_; the latent
        structured SVM [3]_ (LSSVM), which decides outputs and hidden units, or the marginal one
        [4]_ (MSSVM), which sums hidden units out, both with the Hamming loss, which for one label
        is 1 if it is wrong.
    inference : {"auto", "bp", "mean_field", "gibbs", "tap", "tap3", "adaptive_tap", \
            "relaxed_bp"} or object, default="auto"
        What approximates the sums of the objective: belief propagation, mean field, Gibbs
        sampling, or another fixed point, by name, or an object of :mod:`skrbm.inference` such as
        ``BeliefPropagation(damping=0.5)``. "gibbs" is CD-1, with chains that start at the targets;
        ``ContrastiveDivergence(10)`` is CD-10, and ``Gibbs(10)`` starts at a draw from the biases
        instead. "perceptron" takes "gibbs" alone (ten steps) and the margins "bp"; "auto" is what
        the objective takes, and "bp" for the likelihood.
    decision : {"marginals", "joint"} or None, default=None
        How ``predict`` decides: each output by its marginal probability, so that the fewest outputs
        are to be expected wrong, or all at the maximum of their joint probability, hidden units
        summed out, so that they are most likely right as a whole. The maximum is that of all
        values for up to 14 outputs, and what mixed-product belief propagation finds beyond. None is
        matched to the objective.
    learning_rate : float, default=0.05
        Step of the gradient ascent on the mean objective. Reasonable values lie between 5e-3 and
        0.5.
    batch_size : int, default=10
        Largest number of rows of a mini-batch; batches have nearly the same size.
    n_iter : int, default=50
        Passes over the data.
    n_sweeps : int, callable or None, default=None
        Most sweeps of an ``inference`` that is given by name, in each pass: a function of the
        number of the pass, from 1. None is 7 more than that number (Sec. 6 of [1]_), and at most
        100. Predictions use as many as the last pass. A fixed point that is given as an object has
        its own ``max_iter``, and this must be None; after a sampler it is of predictions alone.
    verbose : int, default=0
        Whether to print a line for each pass.
    random_state : int, RandomState instance or None, default=None
        Determines initial weights, the order of rows and the chains.
    momentum : float in [0, 1), default=0.0
        Part of the last step that is added to the next.
    alpha : float, default=0.0
        Strength of the penalty on W, A and B.
    penalty : {"l2", "l1"}, default="l2"
        alpha / 2 ||W||² or alpha ||W||₁.
    schedule : {"constant", "linear", "cosine", "exponential"} or callable, default="constant"
        Factor on the learning rate, by the fraction of ``n_iter`` that has passed: 1, down to 0
        in a line or a cosine, down to 1e-3; or a function of the fraction.
    init : {"random", "logistic"} or fitted ConditionalRBM, default="random"
        Where training starts. "random" draws W from N(0, 1 / max(1, n)), where n is the mean
        number of outputs that are 1 in a row, and B from N(0, 1 / n_features), and sets A to 0 and
        b to the log-odds of the targets. "logistic" first fits the machine
        without hidden units, with the same parameters otherwise, and starts at its A and b. Of a
        fitted machine all is taken, or A and b if it has no hidden units.
    shuffle : bool, default=True
        Whether to shuffle the rows in each pass.
    early_stopping : bool, default=False
        Whether to set rows aside, stop after ``n_iter_no_change`` passes in a row in which their
        error (the fraction of outputs that are wrong) was above the least so far less ``tol``,
        and keep the parameters with the least error.
    validation_fraction : float in (0, 1), default=0.1
        Part of the rows to set aside.
    n_iter_no_change : int, default=5
        Patience of early stopping, in passes.
    tol : float, default=0.0
        By how much the error must fall for early stopping to go on; at 0 it must not rise.
    warm_start : bool, default=False
        Whether ``fit`` goes on from the last solution.

    Attributes
    ----------
    components_ : array of shape (n_components, n_outputs)
        Couplings of hidden units and outputs.
    coef_visible_ : array of shape (n_outputs, n_features)
        What features add to the biases of the outputs.
    coef_hidden_ : array of shape (n_components, n_features)
        What features add to the biases of the hidden units.
    intercept_visible_ : array of shape (n_outputs,)
        Biases of the outputs.
    intercept_hidden_ : array of shape (n_components,)
        Biases of the hidden units.
    classes_ : ndarray of shape (n_classes,)
        Classes of a label, or the numbers of the outputs.
    n_outputs_ : int
        Number of outputs; of a label the number of classes, and 1 if they are two.
    n_sweeps_ : int
        Most sweeps of inference in the last pass, and in predictions. After sampling it is of
        predictions alone.
    n_iter_ : int
        Passes over the data so far.
    history_ : dict of list
        For each pass: ``epoch``, ``learning_rate``, ``time`` (s), with a fixed point ``converged``
        (the fraction of rows where it did), with the perceptron ``updated`` (the fraction of
        rows that were learnt from) and, with early stopping, ``validation_error``.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen in fit, if all are strings.

    See Also
    --------
    sklearn.multioutput.ClassifierChain : Predicts outputs one after the other.
    sklearn.neural_network.MLPClassifier : Predicts outputs independently given hidden features.

    References
    ----------
    .. [1] Ping, W. and Ihler, A. (2017). Belief propagation in conditional RBMs for structured
       prediction. AISTATS.
    .. [2] Mnih, V., Larochelle, H. and Hinton, G. E. (2011). Conditional restricted Boltzmann
       machines for structured output prediction. UAI.
    .. [3] Yu, C.-N. J. and Joachims, T. (2009). Learning structural SVMs with latent variables.
       ICML.
    .. [4] Ping, W., Liu, Q. and Ihler, A. (2014). Marginal structured SVM with hidden variables.
       ICML.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from sklearn.preprocessing import scale
    >>> from skrbm import ConditionalRBM
    >>> X, Y = make_multilabel_classification(random_state=0)
    >>> crbm = ConditionalRBM(n_components=8, n_iter=5, random_state=0).fit(scale(X), Y)
    >>> crbm.predict(scale(X)).shape
    (100, 5)
    """

    _parameter_constraints: ClassVar[dict] = {
        **TrainedOnTargets._parameter_constraints,
        "n_components": [Interval(Integral, 0, None, closed="left")],
        "objective": [StrOptions(set(OBJECTIVES))],
        "inference": [StrOptions({"auto", *INFERENCE}), FixedPoint, Gibbs],
        "decision": [StrOptions({"marginals", "joint"}), None],
        "n_sweeps": [Interval(Integral, 1, None, closed="left"), callable, None],
        "init": [StrOptions({"random", "logistic"}), HasMethods(["fit", "predict"])],
        "early_stopping": ["boolean"],
    }

    def __init__(
        self,
        n_components=256,
        *,
        objective="likelihood",
        inference="auto",
        decision=None,
        learning_rate=0.05,
        batch_size=10,
        n_iter=50,
        n_sweeps=None,
        verbose=0,
        random_state=None,
        momentum=0.0,
        alpha=0.0,
        penalty="l2",
        schedule="constant",
        init="random",
        shuffle=True,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=5,
        tol=0.0,
        warm_start=False,
    ):
        self.n_components = n_components
        self.objective = objective
        self.inference = inference
        self.decision = decision
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.n_sweeps = n_sweeps
        self.verbose = verbose
        self.random_state = random_state
        self.momentum = momentum
        self.alpha = alpha
        self.penalty = penalty
        self.schedule = schedule
        self.init = init
        self.shuffle = shuffle
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.warm_start = warm_start

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self):
        return self.components_.shape[0]

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

    def _marginals(self, n_sweeps):
        return self._objective(n_sweeps).marginals

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
        if y is None:
            y = self.predict(X)
        machine, X = self.machine_, check_data(self, X)
        V, parts = self._targets.encode(check_targets(y, X, missing=False)), []
        for rows, given in machine.blocks(X):
            values, _ = self._targets.rows(V, rows, given.thetas[0].field)
            log_z = log_partitions(given, self._targets)
            parts.append(-free_energy(given, values) - log_z)
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
        Y = check_targets(y, X, empty=True)
        if Y.ndim == 1 or sp.issparse(Y) or not np.isnan(Y).any():
            return super().score(X, y if is_foreign(y) else Y, sample_weight)
        return known_accuracy(self._targets.encode(Y), to_numpy(self.predict(X)), sample_weight)

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
            parts.append(self._targets.draw(given.rows(index), n_steps, rng))
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
        V = self._targets.encode(check_targets(y, X, empty=True))
        place = machine.components
        V, observed = self._targets.rows(V, np.arange(X.shape[0]), place)
        if observed is None:
            return cast(V, namespace(V).int64)
        logits, _ = self._inferred_given(machine, X, self._decision, V, observed)
        filled = self._targets.decode(logits)
        return namespace(V).where(observed, cast(V, filled.dtype), filled)

    @classmethod
    def from_parameters(
        cls,
        components,
        coef_visible=None,
        coef_hidden=None,
        intercept_visible=None,
        intercept_hidden=None,
        *,
        classes=None,
        **params,
    ):
        """Build a fitted machine from arrays.

        Parameters
        ----------
        components : array-like of shape (n_components, n_outputs)
        coef_visible : array-like of shape (n_outputs, n_features), default=None
            Default: zeros.
        coef_hidden : array-like of shape (n_components, n_features), default=None
            Default: zeros. One of the two coefficients must be given.
        intercept_visible : array-like of shape (n_outputs,), default=None
            Default: zeros.
        intercept_hidden : array-like of shape (n_components,), default=None
            Default: zeros.
        classes : array-like of shape (n_classes,), default=None
            If the target is one label: its classes, sorted, one for each output, or two of one
            output. The default for one output is (0, 1).
        **params
            Parameters of the estimator other than ``n_components``.

        Returns
        -------
        estimator : ConditionalRBM
            Fitted, with copies of the arrays.
        """
        machine = machine_of(
            components,
            coef_visible=coef_visible,
            coef_hidden=coef_hidden,
            intercept_visible=intercept_visible,
            intercept_hidden=intercept_hidden,
        )
        n_components, n_outputs = machine.components.shape
        targets = targets_from(classes, n_outputs)
        crbm = cls(n_components=n_components, **params)
        crbm._validate_params()
        training = Progress(make_rng(crbm.random_state, machine.components))
        training.state = crbm._sweeps_of(max(crbm.n_iter, 1))
        crbm._targets, crbm.history_ = targets, {}
        crbm.n_features_in_ = machine.coef_visible.shape[1]
        crbm._publish(machine, training.state, training)
        return crbm
