"""Conditional machine: structured prediction of binary outputs, or of one label, from features."""

from numbers import Integral
from typing import ClassVar

import numpy as np

from ..._sklearn import HasMethods, Interval, StrOptions, _fit_context, with_callbacks
from ...arrays import copied, make_rng, one_blas_thread, parameter_reference
from ...inference import FixedPoint, Gibbs, map_rows, method_names
from ...inputs import check_data, rows_with_weight
from ...learning import StepLength, Trainer, Training, recorder
from .._choices import OPTIMIZER_CONSTRAINT, optimizer_of
from .._parts import check_layers
from .._training import (
    TRAINING_CONSTRAINTS,
    for_callbacks,
    how_it_begins,
    is_automatic,
    keeps_features,
    rate_of,
)
from ._learner import ConditionalLearner, ErrorMonitor, LabelledRows
from ._losses import OBJECTIVES
from ._machine import PARAMETERS, machine_of, random_machine, with_fitted
from ._predictions import Predictions
from ._targets import check_known, check_targets, is_unknown, targets_from, targets_of

_DIVERGENCE, _CAP = 0.3, 2.0  # of a step: nats for each output, and length


class ConditionalRBM(Predictions):
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
    inference : {"auto", "bp", "mean_field", "cd", "gibbs", "tap", "tap3", "adaptive_tap", \
            "relaxed_bp"} or object, default="auto"
        What approximates the sums of the objective: belief propagation, mean field, Gibbs
        sampling, or another fixed point, by name, or an object of :mod:`skrbm.inference` such as
        ``BeliefPropagation(damping=0.5)``. "cd" is CD-1, with chains that start at the targets;
        ``ContrastiveDivergence(10)`` is CD-10, and ``Gibbs(10)`` starts at a draw from the biases
        instead. "naive_mean_field" is another name of "mean_field". "perceptron" takes only
        Gibbs sampling, of which "gibbs" makes ten steps and "cd" one, both from the biases, and the
        margins only "bp"; "auto" is "gibbs" for the perceptron and "bp" for the others.
    decision : {"marginals", "joint"} or None, default=None
        How ``predict`` decides: each output by its marginal probability, so that the fewest outputs
        are to be expected wrong, or all at the maximum of their joint probability, hidden units
        summed out, so that they are most likely right as a whole. Up to 14 outputs all values are
        tried; beyond that mixed-product belief propagation looks for the maximum. None is matched
        to the objective.
    learning_rate : float or "auto", default="auto"
        Step of the gradient ascent on the mean objective. "auto" finds it in training, by the
        divergence of a step (:ref:`automatic_rates`), and averages the parameters over the steps.
        Reasonable numbers lie between 5e-3 and 0.5.
    batch_size : int, default=100
        Largest number of rows of a mini-batch; batches have nearly the same size.
    n_iter : int, default=50
        Passes over the data.
    n_sweeps : int, callable or None, default=None
        Largest number of sweeps of an ``inference`` that is given by name, or a function that
        returns it for each pass, counted from 1. None is that count and 7, at most 100 (Sec. 6 of
        [1]_). Predictions use that of the last pass. Must be None if ``inference`` is a fixed-point
        object, which has its own ``max_iter``. With a sampler it only limits prediction.
    verbose : int, default=0
        Whether to print a line for each pass.
    random_state : int, RandomState instance or None, default=None
        Determines initial weights, the order of rows and the chains.
    optimizer : {"sgd", "adam"} or object, default="sgd"
        Gradient ascent with ``momentum``, or Adam, by which each parameter has a step of its own,
        about as long as ``learning_rate``; or an object such as ``Adam(decay=0.5)``, which has its
        own ``alpha``, ``penalty`` and ``max_norm``.
    momentum : float in [0, 1), default=0.0
        Part of the last step that is added to the next. Adam ignores it.
    alpha : float, default=0.0
        Strength of the penalty on W, A and B.
    penalty : {"l2", "l1", "l1b", "group_lasso"}, default="l2"
        alpha / 2 ||W||², alpha ||W||₁ or another one of :ref:`sparse_weights`; all but "l2" make
        exact zeros.
    schedule : {"constant", "linear", "cosine", "exponential"} or callable, default="linear"
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
    early_stopping : bool, default=True
        Whether to hold out validation rows, stop after ``n_iter_no_change`` epochs in a row in
        which their error (the fraction of outputs that are wrong) was above the smallest so far
        less ``tol``, and keep the parameters with the smallest error.
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
        Largest number of sweeps of inference in the last pass, and in predictions; with a sampler
        in predictions alone.
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
        **TRAINING_CONSTRAINTS,
        "n_components": [Interval(Integral, 0, None, closed="left")],
        "objective": [StrOptions(set(OBJECTIVES))],
        "inference": [StrOptions({"auto", *method_names(FixedPoint, Gibbs)}), FixedPoint, Gibbs],
        "decision": [StrOptions({"marginals", "joint"}), None],
        "n_sweeps": [Interval(Integral, 1, None, closed="left"), callable, None],
        "optimizer": OPTIMIZER_CONSTRAINT,
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
        learning_rate="auto",
        batch_size=100,
        n_iter=50,
        n_sweeps=None,
        verbose=0,
        random_state=None,
        optimizer="sgd",
        momentum=0.0,
        alpha=0.0,
        penalty="l2",
        schedule="linear",
        init="random",
        shuffle=True,
        early_stopping=True,
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
        self.optimizer = optimizer
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

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    @keeps_features
    @one_blas_thread
    def fit(self, X, y, sample_weight=None):
        """Fit the machine to features and targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : {array-like, sparse matrix} of shape (n_samples, n_outputs) or (n_samples,)
            Binary outputs, NaN where one is not known and so latent; or one label.
        sample_weight : array-like of shape (n_samples,), default=None
            How many rows each row stands for: a weight of 2 does exactly what the row twice does.
            Weights that are not whole numbers are met on average over the epochs.

        Returns
        -------
        self : object

        Raises
        ------
        DivergenceError
            If parameters stop being finite. As after Ctrl-C, those of the last complete epoch stay.
        """
        progress, goes_on = how_it_begins(self)
        rows, targets = self._checked(X, y, sample_weight, goes_on)
        training = self._start(rows, targets, goes_on, progress)
        if training is None:
            return self
        callbacks = for_callbacks(self, X, y, rows, training, progress, self.n_iter)
        self._fit_rows(training, rows, np.arange(len(rows)), goes_on, **callbacks)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    @keeps_features
    @one_blas_thread
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Go once through some rows of data, in batches of ``batch_size``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : {array-like, sparse matrix} of shape (n_samples, n_outputs) or (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            All classes that the label will ever have. For one label, the first call must give
            them.
        sample_weight : array-like of shape (n_samples,), default=None
            As in :meth:`fit`.

        Returns
        -------
        self : object
        """
        self._validate_params()  # which scikit-learn does in the first call alone
        goes_on = hasattr(self, "_training")
        rows, targets = self._checked(X, y, sample_weight, goes_on, classes, partial=True)
        training = self._start(rows, targets, goes_on)
        n_rows = training.n_rows + rows.total
        self._train(training, rows, np.arange(len(rows)), goes_on, n_rows, n_iter=1)
        return self

    def _checked(self, X, y, sample_weight, goes_on, classes=None, partial=False):
        """Return the rows to learn from and the kind of their targets."""
        X = check_data(self, X, reset=not goes_on)
        weights, X, y = rows_with_weight(sample_weight, X, check_targets(y, X))
        if not partial:  # an output may be known in rows to come
            check_known(y)
        if partial and not goes_on and classes is None and y.ndim == 1:
            raise ValueError(
                "the first call of partial_fit must name all classes of the label, in `classes`"
            )
        targets = self._targets if goes_on else targets_of(y, classes)
        if classes is not None and not np.array_equal(np.unique(classes), targets.classes):
            raise ValueError(f"classes={classes} are not those of this machine, {targets.classes}")
        return LabelledRows(X, targets.encode(y), weights), targets

    def _start(self, rows, targets, goes_on, progress=None):
        """Return what a fit starts from; methods are made and checked here."""
        if progress is not None:
            return progress.begun(rows.fingerprint)
        if goes_on:
            training = self._training
            training.resume_from(self.machine_.copy())
            machine = training.machine
            training.optimizer_state = map_rows(copied, training.optimizer_state)  # is written
            check_layers(machine, machine.units, [self.n_components], self.n_components)
        else:
            reference = parameter_reference(rows.X)
            rng = make_rng(self.random_state, reference)
            training = Training(rng, phase_state=self._sweeps(1))
            sizes, field = (self.n_components, rows.X.shape[1]), rows.initial_field(targets.unit)
            machine = random_machine(targets.unit, *sizes, field, rng, reference)
            if not isinstance(self.init, str):
                machine = with_fitted(machine, self.init)
        optimizer = optimizer_of(self)
        if training.optimizer_state is None or training.parts.kind != optimizer.kind:
            training.optimizer_state = optimizer.init(machine.values)
        decide = self._objective(training.phase_state).decide
        decide.check(machine.given_rows(rows.X, np.arange(1)))
        training.machine, training.parts, self._targets = machine, optimizer, targets
        if not goes_on:
            self.history_ = {}
        return training

    def _fit_rows(self, training, rows, index, goes_on=False, **callbacks):
        """Learn from the rows at some positions, less those that are set aside."""
        validation = None
        if self.early_stopping:
            index, validation = rows.split(self.validation_fraction, training.rng, index)
            if validation is not None and is_unknown(rows.V[rows.index[validation]]):
                raise ValueError(
                    f"no target of the {len(validation)} rows set aside is known, so that no error "
                    "can be measured: raise validation_fraction, leave out rows of which nothing "
                    "is known, or set early_stopping=False"
                )
        monitor = ErrorMonitor(self._decision, rows, validation, self.n_iter_no_change, self.tol)
        parts = {"n_iter": self.n_iter, "monitor": monitor, **callbacks}
        self._train(training, rows, index, goes_on, rows.total, **parts)

    def _prepared(self, training, rows, index):
        """Return the machine that the first epoch begins with."""
        if self.init != "logistic":
            return training.machine
        params = self.get_params(deep=False) | {"n_components": 0, "init": "random"}
        first = type(self)(**params)  # no clone, which would take the callbacks along
        logistic = first._start(rows, self._targets, goes_on=False)
        logistic.rng, machine = training.rng, training.machine
        try:
            first._fit_rows(logistic, rows, index)
        except BaseException:
            if hasattr(first, "_training"):  # the machine begins at its last complete epoch
                self._publish(with_fitted(machine, first), training.phase_state, training)
            raise
        return with_fitted(machine, first)

    def _train(self, training, rows, index, goes_on, n_rows, **parts):
        """Learn from rows at some positions, with the automatic penalty for ``n_rows``."""
        if not goes_on:
            training.machine = self._prepared(training, rows, index)
        optimizer = training.parts.for_data(n_rows, sum(training.machine.coef_visible.shape))
        epochs = training.n_epochs
        batches = {"index": index, "batch_size": self.batch_size, "shuffle": self.shuffle}
        length = None
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
            average=is_automatic(self),
            **batches,
        )

        def publish(machine, n_sweeps, training=training, estimator=self):
            if training.n_epochs > epochs:
                training.n_rows = n_rows
            estimator._publish(machine, n_sweeps, training)

        Trainer(
            learner,
            publish,
            self._attributes,
            recorder(self.history_, type(self).__name__ if self.verbose else None),
            rate=rate_of(self),
            **parts,
        ).run(training)

    def _publish(self, machine, n_sweeps, training):
        vars(self).update(self._attributes(machine, n_sweeps))
        training.phase_state = n_sweeps
        training.end()
        self._training, self.n_iter_ = training, training.n_epochs

    def _attributes(self, machine, n_sweeps):
        named = zip(PARAMETERS, machine.values, strict=True)
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
