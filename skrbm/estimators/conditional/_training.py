"""Training of conditional machines, on features and targets."""

from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils.validation import check_is_fitted

from ..._callbacks import with_callbacks
from ..._checks import check_count
from ..._epochs import Monitor, Progress, TrainedInEpochs, keeps_features
from ...arrays import (
    copied,
    dense_rows,
    from_numpy,
    make_rng,
    one_blas_thread,
    parameter_reference,
    to_numpy,
)
from ...exceptions import DivergenceError
from ...inference import FixedPoint
from ...inputs import check_data
from ...units import Bernoulli, Theta
from ._losses import make_decision, make_objective
from ._machine import PARAMETERS, ConditionalMachine, random_machine, with_parameters
from ._targets import check_targets, is_unknown, targets_of

_FIRST_SWEEPS, _MOST_SWEEPS = 7, 100


class _Rows(NamedTuple):
    """Features and targets of the rows that are learnt from."""

    X: Any
    V: Any  # targets as values of the visible units, NumPy or CSR, NaN where missing
    y: Any  # as they came


class TrainedOnTargets(TrainedInEpochs):
    """Estimators whose machine is conditioned on features, and learns binary outputs or a label.

    ``_targets`` are the :class:`Outputs` of the last fit.
    """

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    @keeps_features
    @one_blas_thread
    def fit(self, X, y):
        """Fit the machine to features and targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : {array-like, sparse matrix} of shape (n_samples, n_outputs) or (n_samples,)
            Binary outputs, of which NaN marks those that are not known: they are latent. Or one
            label, in one dimension.

        Returns
        -------
        self : object

        Raises
        ------
        DivergenceError
            If parameters stop being finite. As after an interruption by Ctrl-C, the estimator
            then keeps the parameters of the last complete epoch.
        """
        goes_on = self.warm_start and self._is_trained()
        data, targets = self._checked(X, y, goes_on)
        machine, training = self._start(data, targets, goes_on)
        self._fit_rows(machine, training, data, np.arange(data.X.shape[0]), goes_on)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    @keeps_features
    @one_blas_thread
    def partial_fit(self, X, y, classes=None):
        """Go once through some rows of data, in batches of ``batch_size``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : {array-like, sparse matrix} of shape (n_samples, n_outputs) or (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            All classes that the label will ever have. For one label, the first call must give
            them.

        Returns
        -------
        self : object
        """
        self._validate_params()  # which scikit-learn does in the first call alone
        goes_on = self._is_trained()
        data, targets = self._checked(X, y, goes_on, classes, partial=True)
        machine, training = self._start(data, targets, goes_on)
        rows = np.arange(data.X.shape[0])
        if not goes_on:
            machine = self._prepared(machine, training, data, rows)
        self._pass_once(machine, training, data, len(rows))
        return self

    def _checked(self, X, y, goes_on, classes=None, partial=False):
        """Return the rows to learn from and what their targets are."""
        X = check_data(self, X, reset=not goes_on)
        y = check_targets(y, X, empty=partial)  # an output may be known in rows to come
        if partial and not goes_on and classes is None and y.ndim == 1:
            raise ValueError(
                "the first call of partial_fit must name all classes of the label, in `classes`"
            )
        targets = self._targets if goes_on else targets_of(y, classes)
        if classes is not None and not np.array_equal(np.unique(classes), targets.classes):
            raise ValueError(f"classes={classes} are not those of this machine, {targets.classes}")
        return _Rows(X, targets.encode(y), y), targets

    def _start(self, data, targets, goes_on):
        """Return the machine and what a fit needs to go on."""
        if goes_on:
            machine, training = self.machine_.copy(), self._training
            if training.velocity is not None:  # written in place in training
                training.velocity = tuple(copied(part) for part in training.velocity)
            self._check_size(machine)
        else:
            place = parameter_reference(data.X)
            training = Progress(make_rng(self.random_state, place), self._sweeps_of(1))
            machine = self._first_machine(data, targets, training.rng, place)
        objective = self._objective(training.state, targets)
        objective.decide(machine.given_rows(data.X, np.arange(1)))  # or an error
        self._targets = targets
        if not goes_on:
            self.history_ = {}
        return machine, training

    def _fit_rows(self, machine, training, data, rows, goes_on=False):
        """Learn from the rows at an index array, less those that are set aside."""
        train, validation = self._split(len(rows), self._n_validation(len(rows)), training.rng)
        train = rows[train]
        validation = None if validation is None else rows[validation]
        if validation is not None and is_unknown(data.V[validation]):
            raise ValueError(
                f"no target of the {len(validation)} rows set aside is known, so that no error can "
                "be measured: raise validation_fraction, leave out rows of which nothing is known, "
                "or set early_stopping=False"
            )
        if not goes_on:
            machine = self._prepared(machine, training, data, train)
        self._fit_epochs(machine, training, data, train, validation)

    def _check_size(self, machine):
        if machine.components.shape[0] != self.n_components:
            raise ValueError(
                f"n_components={self.n_components}, but the machine to go on from has "
                f"{machine.components.shape[0]} hidden units; set that, or call fit without "
                "warm_start"
            )

    def _first_machine(self, data, targets, rng, place):
        """Return a machine with small weights, or what ``init`` is."""
        field, n_features = targets.initial_field(data.V), data.X.shape[1]
        machine = random_machine(targets.unit, self.n_components, n_features, field, rng, place)
        return machine if isinstance(self.init, str) else self._with_fitted(machine, self.init)

    def _prepared(self, machine, training, data, rows):
        """Return the machine that the first epoch begins with."""
        if self.init != "logistic":
            return machine
        params = self.get_params(deep=False) | {"n_components": 0, "init": "random"}
        first = type(self)(**params)  # no clone, which would take the callbacks along
        start = first._start(data, self._targets, goes_on=False)[0]
        try:
            first._fit_rows(start, Progress(training.rng, training.state), data, rows)
        except BaseException:
            if first._is_trained():  # up to an epoch, of which the machine begins
                self._publish(self._with_fitted(machine, first), training.state, training)
            raise
        return self._with_fitted(machine, first)

    def _with_fitted(self, machine, fitted):
        """Return the machine with the parameters of a fitted one, A and b if it has no W."""
        if not hasattr(fitted, "coef_visible_"):
            raise ValueError(
                "init must be 'random', 'logistic' or a fitted ConditionalRBM, and this "
                f"{type(fitted).__name__} is not fitted, or no such machine; meta-estimators such "
                "as GridSearchCV clone their parameters: wrap a fitted one in "
                "sklearn.frozen.FrozenEstimator"
            )
        coupled = fitted.components_.shape[0] > 0
        names = PARAMETERS if coupled else ("coef_visible", "intercept_visible")
        try:
            return with_parameters(machine, {name: getattr(fitted, f"{name}_") for name in names})
        except ValueError as error:
            raise ValueError(
                f"init does not fit X, y and n_components={self.n_components}: {error}"
            ) from error

    def _sweeps_of(self, epoch):
        """Return the most sweeps of inference in a pass, counted from 1."""
        if isinstance(self.inference, FixedPoint):
            if self.n_sweeps is not None:
                raise ValueError(
                    f"n_sweeps={self.n_sweeps!r} is of an inference that is given by name, and "
                    f"{self.inference} has its own: set its max_iter, and leave n_sweeps out"
                )
            return self.inference.max_iter
        if self.n_sweeps is None:
            return min(_FIRST_SWEEPS + epoch, _MOST_SWEEPS)
        n_sweeps = self.n_sweeps(epoch) if callable(self.n_sweeps) else self.n_sweeps
        check_count("n_sweeps", n_sweeps, 1)
        return n_sweeps

    def _objective(self, n_sweeps, targets=None):
        targets = self._targets if targets is None else targets
        return make_objective(self.objective, self.inference, n_sweeps, targets)

    def _decision(self, n_sweeps):
        """Return what predicts the targets."""
        objective = self._objective(n_sweeps)
        parts = objective, self.inference, n_sweeps, self._targets
        return make_decision(self.decision, *parts)

    def _learn(self, machine, training, data, rows, rate):
        """Learn from one batch; the parameters are written in place."""
        X = dense_rows(data.X, from_numpy(rows, data.X), machine.dtype)
        V, observed = self._targets.rows(data.V, rows, X)
        training.state = self._sweeps_of(training.n_epochs + 1)
        objective = self._objective(training.state)
        with self._inference(f"in epoch {training.n_epochs + 1}"):
            given = machine.given(X)
            data, model, report = objective.phases(given, V, observed, training.rng)
        training.velocity = machine.ascend(
            data - model, given, X, training.velocity, self._optimiser(), rate
        )
        return machine, report

    def _fit_epoch(self, machine, training, data, rows, rate):
        """Learn from the rows once, and predict one: what cannot predict is not published."""
        machine = super()._fit_epoch(machine, training, data, rows, rate)
        with self._inference(f"after epoch {training.n_epochs + 1}"):
            with np.errstate(over="ignore", invalid="ignore"):
                self._decision(training.state)(machine.given_rows(data.X, rows[:1]))
        return machine

    @contextmanager
    def _inference(self, where):
        """Say what to do where parameters are finite, but too large for inference."""
        try:
            yield
        except ValueError as error:
            raise DivergenceError(
                f"{type(self).__name__}: no inference {where}: {error}. Lower "
                "learning_rate or momentum, raise alpha, or scale X. The parameters of the last "
                "complete epoch are kept."
            ) from error

    def _monitor(self, data, train, validation, rng):
        return _ErrorMonitor(self, data, validation)

    def _callback_data(self, data):
        return {"X": data.X, "y": data.y}

    def _attributes(self, machine, state):
        named = zip(PARAMETERS, machine.values, strict=True)
        return {f"{name}_": part for name, part in named} | {
            "n_sweeps_": state,
            "classes_": self._targets.classes,
            "n_outputs_": self._targets.n_outputs,
        }

    @property
    def machine_(self):
        """The fitted parameters as a machine, which shares their memory."""
        check_is_fitted(self, "components_")
        units = self._targets.unit, Bernoulli()
        return ConditionalMachine(units, *(getattr(self, f"{name}_") for name in PARAMETERS))


class _ErrorMonitor(Monitor):
    """Measures the fraction of outputs, or of labels, that are predicted wrongly."""

    keeps_best = True

    def __init__(self, crbm, data, validation):
        super().__init__(crbm.n_iter_no_change)
        self.crbm, self.data, self.validation = crbm, data, validation
        self.margin = crbm.tol

    def measure(self, machine, state):
        """Return the error of the rows set aside, if there are any."""
        if self.validation is None:
            return {}
        error = self._error(machine, state, self.validation)
        self.value = -error
        return {"validation_error": error}

    def _error(self, machine, state, rows):
        """Return which part of the known targets of some rows is predicted wrongly."""
        targets, decide = self.crbm._targets, self.crbm._decision(state)
        n_wrong, n = 0, 0
        with np.errstate(over="ignore", invalid="ignore"):
            for part, given in machine.blocks(self.data.X, rows=rows):
                with self.crbm._inference("with the parameters of the last epoch"):
                    found = decide(given)
                V, observed = targets.rows(self.data.V, part, given.thetas[0].field)
                wrong = to_numpy(targets.wrong(V, given.units[0].mode(Theta(found.logits))))
                seen = np.ones_like(wrong) if observed is None else to_numpy(observed)
                n_wrong, n = n_wrong + np.sum(wrong & seen), n + np.sum(seen)
        return float(n_wrong / max(n, 1))

    def keep(self, machine, state):
        """Remember the parameters with the least error, the last of several."""
        if self.value is not None and self.value >= self.best:
            self.kept = machine, state
