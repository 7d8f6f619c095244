"""Conditional RBM: structured prediction of binary outputs, or of one label, from features."""

import warnings
from numbers import Integral
from typing import ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from ..._checks import check_count
from ..._sklearn import (
    CallbackSupportMixin,
    HasMethods,
    Interval,
    StrOptions,
    with_callbacks,
)
from ...arrays import (
    Columns,
    cast,
    from_numpy,
    has_missing,
    make_rng,
    namespace,
    one_blas_thread,
    parameter_reference,
    take_rows,
    to_numpy,
)
from ...exceptions import DataRangeWarning
from ...inference import FixedPoint, Gibbs, method_names
from ...inputs import check_data, check_weights, rows_with_weight
from ...learning import EarlyStopping, StepLength, Training
from ...machine import free_energy
from ...units import Bernoulli
from .._recipe import check_layers
from .._shared import Estimator, optimizer_of, shares_parameters
from .._targets import check_known, check_targets, known_values, targets_from, targets_of
from .._training import (
    for_callbacks,
    is_automatic,
    learns,
    prepare_fit,
    resumed_optimizer,
    trainer_of,
)
from ._learner import ConditionalLearner, ErrorMonitor, LabelledRows
from ._machine import PARAMETERS, ConditionalMachine, machine_of, random_machine, with_parameters
from ._objectives import OBJECTIVES, clamped, decision_of, draw, log_partitions, make_objective

_DIVERGENCE, _CAP = 0.3, 2.0  # of a step: nats for each output, and length
_FIRST_SWEEPS, _MAX_SWEEPS = 7, 100
_CHAINS = 1024  # drawn at a time
_LARGE = 10.0  # root mean square of a feature above which little is learned from the others


@shares_parameters
class ConditionalRBM(
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClassifierMixin,
    CallbackSupportMixin,
    Estimator,
):
    """Conditional restricted Boltzmann machine for the joint prediction of many binary outputs.

    Outputs v and hidden units h are binary and coupled, and their biases depend on the features x:
    p(v, h | x) ∝ exp(h' W v + v' (A x + b) + h' (B x + c)), with W = ``components_``, A =
    ``coef_visible_``, B = ``coef_hidden_``, b = ``intercept_visible_`` and c =
    ``intercept_hidden_`` (Eq. 3 of [1]_). A two-dimensional target has binary outputs, such as
    labels or the pixels of an image; a one-dimensional target is a single label with mutually
    exclusive classes. Scale X first, for example with StandardScaler.

    Read more in the :ref:`User Guide <conditional_rbm>`.

    Parameters
    ----------
    n_components : int, default=256
        Number of binary hidden units; with 0 the model is logistic regression.
    objective : {"likelihood", "perceptron", "margin", "marginal_margin"}, default="likelihood"
        "likelihood" maximizes log p(y | x). "perceptron" is CD-PercLoss [2]_. "margin" is the
        latent structured SVM [3]_, which maximizes over outputs and hidden units, and
        "marginal_margin" the marginal structured SVM [4]_, which maximizes over outputs with the
        hidden units summed out. Both margins use the Hamming loss; for a single label this is 1 if
        the label is wrong.
    inference : {"auto", "bp", "mean_field", "cd", "gibbs", "tap", "tap3", "adaptive_tap", \
            "relaxed_bp"} or object, default="auto"
        How the expectations in the objective are computed: by belief propagation, mean field, Gibbs
        sampling or another fixed point, given by name or as an object of :mod:`skrbm.inference`,
        such as ``BeliefPropagation(damping=0.5, max_iter=50)``. "auto" is "gibbs" for
        ``objective="perceptron"``, and "bp" for the others.

        A fixed point given by name makes at most n + 7 sweeps in epoch n, but not more than 100
        (Sec. 6 of [1]_); predictions use the number of the last epoch. "cd" is CD-1, and
        ``Gibbs(10, start="data")`` is CD-10; the chains of ``Gibbs(10)`` start at draws from the
        biases. "perceptron" requires Gibbs sampling, with ten steps for "gibbs" and one for "cd",
        both from draws from the biases. The margins require "bp".
    decision : {"marginals", "joint"} or None, default=None
        How ``predict`` decides. "marginals" decides each output by its marginal probability, which
        minimizes the expected number of wrong outputs. "joint" maximizes the joint probability of
        all outputs, with the hidden units summed out: exactly for at most 14 outputs, by trying all
        their values, and otherwise approximately, by mixed-product belief propagation. None is the
        decision for which the objective trains (:meth:`predict`).
    {optimizer}
        Given by name, the optimizer has ``alpha=0.0`` and ``schedule="linear"``. The penalty
        applies to W, A and B. Gradients are not centered.
    {learning_rate = "auto"}
        Reasonable fixed values lie between 5e-3 and 0.5.
    {batch_size = 100, n_iter = 50}
    early_stopping : bool or EarlyStopping, default=True
        As in :class:`RBM`, but by the fraction of wrong outputs in the validation rows.
    init : "random" or fitted ConditionalRBM, default="random"
        Initial parameters. "random" draws W from N(0, 1 / max(1, n)), where n is the mean number of
        outputs per row that are 1, and B from N(0, 1 / n_features), with A = 0 and b equal to the
        log-odds of the targets. The parameters of a fitted estimator are copied; if it has no
        hidden units (logistic regression), only A and b are.
    {warm_start, verbose}
    random_state : int, RandomState instance or None, default=None
        Determines the initial weights, the order of the rows and the chains.

    Attributes
    ----------
    components_ : array of shape (n_components, n_outputs)
        Couplings of hidden units and outputs.
    coef_visible_ : array of shape (n_outputs, n_features)
        Coefficients of the features in the biases of the outputs.
    coef_hidden_ : array of shape (n_components, n_features)
        Coefficients of the features in the biases of the hidden units.
    intercept_visible_ : array of shape (n_outputs,)
        Biases of the outputs.
    {intercept_hidden_}
    classes_ : ndarray of shape (n_classes,)
        Classes of a single label; 0, 1, ... for binary outputs.
    n_outputs_ : int
        Number of binary outputs. For a single label, the number of classes, or 1 if there are two.
    n_sweeps_ : int
        Maximum number of sweeps of inference in the last epoch, and in predictions.
    {n_iter_}
    history_ : dict of list
        For each epoch ``epoch``, ``learning_rate``, ``time`` (s); with a fixed point ``converged``,
        and with the perceptron ``updated`` (fractions of rows); with early stopping
        ``validation_error``.
    {n_features_in_, feature_names_in_}

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
        "n_components": [Interval(Integral, 0, None, closed="left")],
        "objective": [StrOptions(set(OBJECTIVES))],
        "inference": [StrOptions({"auto", *method_names(FixedPoint, Gibbs)}), FixedPoint, Gibbs],
        "decision": [StrOptions({"marginals", "joint"}), None],
        "init": [StrOptions({"random"}), HasMethods(["fit", "predict"])],
    }

    _optimizer_defaults: ClassVar[dict] = {"alpha": 0.0, "schedule": "linear"}

    def __init__(
        self,
        n_components=256,
        *,
        objective="likelihood",
        inference="auto",
        decision=None,
        optimizer="sgd",
        learning_rate="auto",
        batch_size=100,
        n_iter=50,
        early_stopping=True,
        init="random",
        warm_start=False,
        verbose=0,
        random_state=None,
    ):
        self.n_components = n_components
        self.objective = objective
        self.inference = inference
        self.decision = decision
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.early_stopping = early_stopping
        self.init = init
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # ------------------------------------------------------------------------- training

    @with_callbacks
    @learns
    def fit(self, X, y, sample_weight=None):
        """Fit the model to features and targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : {array-like, sparse matrix} of shape (n_samples, n_outputs) or (n_samples,)
            Binary outputs, or one label. Outputs that are NaN are unknown, and treated as latent
            variables.
        sample_weight : array-like of shape (n_samples,), default=None
            Number of rows that each row stands for. Fractional weights are scaled to a mean of 1,
            and hold on average over the epochs.

        Returns
        -------
        self : object

        Raises
        ------
        DivergenceError
            If the parameters diverge. As after Ctrl-C, those of the last complete epoch are kept.

        Warns
        -----
        DataRangeWarning
            If features are not scaled.
        """
        progress, resumes = prepare_fit(self)
        rows = self._rows(X, y, sample_weight, resumes)
        check_known(rows.V)
        if progress is not None:
            training = progress.begun(rows.fingerprint)
            if training is None:  # the fit has come to its end
                return self
        else:
            training = self._start(rows, resumes)
        callbacks = for_callbacks(self, X, y, rows, training, progress, int(self.n_iter))
        index, validation = np.arange(len(rows)), None
        stopping = EarlyStopping.of(self.early_stopping, int(self.n_iter), 0.0)
        if stopping is not None:
            index, validation = rows.split(stopping.validation_fraction, training.rng, index)
            if rows.has_missing and np.isnan(rows.V[rows.index[validation]]).all():
                raise ValueError("early_stopping requires a known target in the validation rows")
        monitor = ErrorMonitor(self._decision, rows, validation, stopping)
        options = {"n_iter": int(self.n_iter), "monitor": monitor, **callbacks}
        self._train(training, rows, index, rows.total, **options)
        return self

    @learns
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Train for one epoch on some rows, in batches of ``batch_size``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : {array-like, sparse matrix} of shape (n_samples, n_outputs) or (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            All classes that a single label can have; required in the first call.
        sample_weight : array-like of shape (n_samples,), default=None
            As in :meth:`fit`. Fractional weights are scaled to a mean of 1 in each call.

        Returns
        -------
        self : object
        """
        self._validate_params()  # which scikit-learn does in the first call alone
        resumes = hasattr(self, "_training")
        rows = self._rows(X, y, sample_weight, resumes, classes, partial=True)
        training = self._start(rows, resumes)
        self._train(training, rows, np.arange(len(rows)), training.n_rows + rows.total)
        return self

    def _rows(self, X, y, sample_weight, resumes, classes=None, partial=False):
        """Return the checked rows to learn from, and set the kind of their targets."""
        X = check_data(self, X, reset=not resumes)
        y = check_targets(y, X, type(self).__name__)
        weights, X, y = rows_with_weight(sample_weight, X, y)
        if not resumes:
            if partial and classes is None and y.ndim == 1:
                raise ValueError("classes must be passed on the first call to partial_fit")
            self._targets = targets_of(y, classes, one_unit=True)
        elif classes is not None and not np.array_equal(np.unique(classes), self._targets.classes):
            raise ValueError(
                f"classes={classes} differ from those of the first call, {self._targets.classes}"
            )
        return LabelledRows(X, self._targets.encode(y), weights)

    def _start(self, rows, resumes):
        if resumes:
            training = self._training.continued()
            training.resume_from(self.machine_.copy())
            machine = training.machine
            check_layers(machine, machine.units, [int(self.n_components)], self.n_components)
        else:
            _warn_of_scale(Columns(rows.X))
            reference, unit = parameter_reference(rows.X), self._targets.unit
            rng = make_rng(self.random_state, reference)
            training = Training(rng, phase_state=self._sweeps(1))
            sizes, field = (int(self.n_components), rows.X.shape[1]), rows.initial_field(unit)
            machine = random_machine(unit, *sizes, field, rng, reference)
            if not isinstance(self.init, str):
                machine = self._with_init(machine)
            self.history_ = {}
        optimizer = optimizer_of(self)
        training.optimizer_state = resumed_optimizer(
            training, training.recipe, optimizer, machine.leaves
        )
        training.machine, training.recipe = machine, optimizer
        ((_, given),) = machine.blocks(rows.X, rows=np.arange(1))
        self._objective(training.phase_state).decide(given)  # raises if it cannot
        return training

    def _with_init(self, machine):
        first = self.init
        if not hasattr(first, "coef_visible_"):
            raise ValueError(
                f"init must be a fitted ConditionalRBM, got {first!r}; in a meta-estimator such as "
                "GridSearchCV, wrap it in sklearn.frozen.FrozenEstimator"
            )
        coupled = first.components_.shape[0] > 0
        names = PARAMETERS if coupled else ("coef_visible", "intercept_visible")
        try:
            return with_parameters(machine, {name: getattr(first, f"{name}_") for name in names})
        except ValueError as error:
            raise ValueError(f"init does not match X, y or n_components: {error}") from error

    def _train(self, training, rows, index, n_rows, **options):
        """Learn from rows at some positions, with the automatic penalty for ``n_rows``."""
        optimizer = training.recipe.for_data(n_rows, sum(training.machine.coef_visible.shape))
        epochs, length = training.n_epochs, None
        if is_automatic(self):
            rule = StepLength(_DIVERGENCE * training.machine.n_units[0], _CAP)
            length = optimizer.step_length(rule, rows.X.shape[1])
        learner = ConditionalLearner(
            self._objective,
            self._decision,
            self._sweeps,
            optimizer,
            rows=rows,
            length=length,
            index=index,
            batch_size=int(self.batch_size),
        )

        def publish(machine, n_sweeps, training=training, estimator=self):
            if training.n_epochs > epochs:
                training.n_rows = n_rows
            estimator._publish(machine, n_sweeps, training)

        trainer_of(self, learner, optimizer, publish, self._attributes, **options).run(training)

    def _publish(self, machine, n_sweeps, training):
        vars(self).update(self._attributes(machine, n_sweeps))
        training.phase_state = n_sweeps
        training.end()
        self._training, self.n_iter_ = training, training.n_epochs

    def _attributes(self, machine, n_sweeps):
        named = zip(PARAMETERS, machine.leaves, strict=True)
        return {f"{name}_": part for name, part in named} | {
            "n_sweeps_": n_sweeps,
            "classes_": self._targets.classes,
            "n_outputs_": self._targets.n_outputs,
        }

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
        """Create a fitted estimator from arrays.

        Parameters
        ----------
        components : array-like of shape (n_components, n_outputs)
        coef_visible, coef_hidden, intercept_visible, intercept_hidden : array-like, default=None
            As the attributes; by default zeros, but one of the coefficients must be given.
        classes : array-like of shape (n_classes,), default=None
            If the target is a single label, its sorted classes: one for each output, or two if
            there is one output, by default (0, 1).
        **params
            Parameters of the estimator other than ``n_components``.

        Returns
        -------
        estimator : ConditionalRBM
            Fitted, with copies of the arrays.
        """
        arrays = components, coef_visible, coef_hidden, intercept_visible, intercept_hidden
        machine = machine_of(**dict(zip(PARAMETERS, arrays, strict=True)))
        n_components, n_outputs = machine.components.shape
        targets = targets_from(classes, n_outputs)
        crbm = cls(n_components=n_components, **params)
        crbm._validate_params()
        n_sweeps = crbm._sweeps(max(crbm.n_iter, 1))
        crbm._targets, crbm.history_ = targets, {}
        crbm.n_features_in_ = machine.coef_visible.shape[1]
        rng = make_rng(crbm.random_state, machine.components)
        crbm._publish(machine, n_sweeps, Training(rng, phase_state=n_sweeps))
        return crbm

    # ----------------------------------------------------------------------- predictions

    @property
    def _n_features_out(self):
        return self.components_.shape[0]

    @property
    def machine_(self):
        """The fitted parameters as a :class:`~skrbm.machine.Machine`, without copies."""
        check_is_fitted(self, "components_")
        units = self._targets.unit, Bernoulli()
        return ConditionalMachine(units, *(getattr(self, f"{name}_") for name in PARAMETERS))

    def _sweeps(self, epoch):
        """Return the largest number of sweeps of inference in an epoch, counted from 1."""
        if isinstance(self.inference, FixedPoint):
            return self.inference.max_iter
        return min(_FIRST_SWEEPS + epoch, _MAX_SWEEPS)

    def _objective(self, n_sweeps):
        return make_objective(self.objective, self.inference, n_sweeps)

    def _decision(self, n_sweeps):
        """Return the inference of predictions, given the largest number of sweeps."""
        return decision_of(self.decision, self._objective(n_sweeps))

    @one_blas_thread
    def _infer(self, X, decision, V=None, observed=None):
        """Return (logits of the outputs, means of hidden units), as ``decision`` says.

        Outputs are held at V where ``observed``.
        """
        machine, X = self.machine_, check_data(self, X)
        decide, parts = decision_of(decision, self._objective(self.n_sweeps_)), []
        for rows, given in machine.blocks(X):
            if observed is not None:
                given = clamped(given, take_rows(V, rows), take_rows(observed, rows))
            parts.append(decide(given))
        xp = namespace(parts[0].logits)
        return tuple(xp.concat([part[i] for part in parts], axis=0) for i in (0, 1))

    def predict(self, X):
        """Predict the targets, as determined by ``decision``.

        By default the decision is the one for which the objective trains: each output by its
        marginal probability ("likelihood", "perceptron"), the joint maximum over all outputs and
        hidden units ("margin"), or the joint maximum over the outputs ("marginal_margin"). If the
        model was trained by sampling, inference is by mean field.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        y : array of shape (n_samples, n_outputs) or (n_samples,)
        """
        logits, _ = self._infer(X, self.decision)
        return self._targets.decode(logits)

    def decision_function(self, X):
        """Compute the values on which the decisions of :meth:`predict` are based.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        logits : array of shape (n_samples, n_outputs), or (n_samples,) for a label of two classes
            Log-odds of each output, or log-probabilities of each class. With a margin or a joint
            decision, the largest log-weight with the output at 1 minus that with the output at 0;
            for several classes with a margin, the largest log-weight with each class, normalized.
        """
        logits, _ = self._infer(X, self.decision)
        return self._targets.decision(logits)

    def predict_proba(self, X):
        """Compute marginal probabilities of the outputs, or of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        P : array of shape (n_samples, n_outputs) or (n_samples, n_classes)
            p(y_i = 1 | x) for each output, as approximated by ``inference``, or by sum-product
            belief propagation if the objective is a margin. For a single label, p(y | x) for each
            class.
        """
        logits, _ = self._infer(X, "marginals")
        return self._targets.probabilities(logits)

    def transform(self, X):
        """Compute the expected hidden units E[h | x], as features for another estimator.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        H : array of shape (n_samples, n_components)
            Values between 0 and 1.
        """
        _, hidden = self._infer(X, "marginals")
        return hidden

    @one_blas_thread
    def score_samples(self, X, y=None):
        """Compute the log-probability of targets given features.

        log Z is exact for a single label, and if there are at most 12 outputs or at most 12 hidden
        units. Otherwise it is the Bethe approximation, which is not a bound: the result may exceed
        0.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : {array-like, sparse matrix} of shape (n_samples, n_outputs) or (n_samples,), \
                default=None
            By default the prediction of the model.

        Returns
        -------
        log_probability : array of shape (n_samples,)
            log p(y | x) in nats, float64.

        Warns
        -----
        ConvergenceWarning
            If belief propagation does not converge in some rows.
        """
        y = self.predict(X) if y is None else y
        machine, X = self.machine_, check_data(self, X)
        V, parts = self._targets.encode(check_targets(y, X, type(self).__name__)), []
        if has_missing(V):
            raise ValueError("y contains NaN; impute(X, y) fills missing outputs")
        for rows, given in machine.blocks(X):
            values, _ = known_values(V, rows, given.thetas[0].field)
            parts.append(-free_energy(given, values) - log_partitions(given))
        return namespace(parts[0]).concat(parts, axis=0)

    def score(self, X, y, sample_weight=None):
        """Compute the subset accuracy: the fraction of rows with all outputs predicted correctly.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : {array-like, sparse matrix} of shape (n_samples, n_outputs) or (n_samples,)
            Outputs that are NaN are ignored, as are rows without any known output.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
            Fraction of rows predicted correctly.
        """
        check_is_fitted(self, "components_")
        y = check_targets(y, X, type(self).__name__)
        weights, predicted = check_weights(sample_weight, y), to_numpy(self.predict(X))
        if not has_missing(y):
            return float(accuracy_score(y, predicted, sample_weight=weights))
        known = ~np.isnan(self._targets.encode(y))
        rows = known.any(axis=1)
        if not rows.any():
            raise ValueError("y contains only NaN, so no prediction can be scored")
        right = ((y == predicted) | ~known).all(axis=1)
        return float(np.average(right[rows], weights=None if weights is None else weights[rows]))

    @one_blas_thread
    def sample(self, X, n_samples=1, *, n_steps=100, random_state=None):
        """Draw targets given features, by Gibbs sampling or, for a single label, from p(y | x).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
        n_samples : int, default=1
            Number of draws for each row of X.
        n_steps : int, default=100
            Number of Gibbs sweeps for each draw, starting at a draw from the biases of the outputs.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        Y : array of shape (n_samples_X, n_samples, n_outputs) or (n_samples_X, n_samples)
        """
        check_count("n_samples", n_samples, 1)
        check_count("n_steps", n_steps, 1)
        machine, X = self.machine_, check_data(self, X)
        W, parts = machine.components, []
        rng = make_rng(random_state, W)
        for rows, given in machine.blocks(X, max(1, _CHAINS // n_samples)):
            index = from_numpy(np.repeat(np.arange(len(rows)), n_samples), W)
            parts.append(draw(given.rows(index), n_steps, rng))
        drawn = self._targets.decode(namespace(parts[0]).concat(parts, axis=0) - 0.5)
        shape = X.shape[0], n_samples, *drawn.shape[1:]
        return namespace(drawn).reshape(drawn, shape)

    def impute(self, X, y):
        """Replace missing outputs by predictions given the features and the other outputs.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_outputs)
            Missing values are NaN.

        Returns
        -------
        Y : array of shape (n_samples, n_outputs)
            The given outputs as integers, with predictions as in :meth:`predict` elsewhere.
        """
        machine, given, X = self.machine_, X, check_data(self, X)
        if self._targets.ndim == 1:
            raise ValueError("impute requires binary outputs, not a single label")
        V = self._targets.encode(check_targets(y, X, type(self).__name__))
        V, observed = known_values(V, np.arange(X.shape[0]), machine.components)
        if observed is None:
            return cast(V, namespace(V).int64)
        logits, _ = self._infer(given, self.decision, V, observed)
        filled = self._targets.decode(logits)
        return namespace(V).where(observed, cast(V, filled.dtype), filled)


def _warn_of_scale(columns):
    """Warn if a feature is so large that the steps it allows are too short for the others."""
    with np.errstate(over="ignore"):
        squares = columns.variances + columns.means**2
    largest = float(namespace(squares).max(squares)) ** 0.5
    if largest > _LARGE:
        warnings.warn(
            f"a column of X has a root mean square of {largest:.3g}; scale X, for example with "
            "StandardScaler",
            DataRangeWarning,
            stacklevel=8,  # beyond the wrappers of fit
        )
