"""The training loop: epochs over batches, one gradient for every method, and what is monitored."""

import time
from dataclasses import dataclass, field
from functools import wraps
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from . import evaluation
from ._backend import (
    cast,
    column_means,
    dense_rows,
    from_numpy,
    is_foreign,
    like,
    namespace,
    one_blas_thread,
    to_numpy,
    working_dtype,
)
from ._callbacks import CallbackSupportMixin, with_callbacks
from ._machine import Machine, free_energy
from ._optim import PENALTIES, SCHEDULES, SGD, train_step
from ._random import Rng, make_rng, seed_sequence
from ._validation import (
    THETA_ATTRIBUTES,
    check_data,
    check_range,
    into_support,
    machine_from,
)
from .exceptions import DivergenceError
from .inference import map_rows

_MONITORED_ROWS, _MONITORED_BITS = 256, 16
_GAP_ROWS = 1000  # training rows whose free energy is held against the validation rows'
_BLOCK_ROWS = 64


def theta_attributes(machine):
    """Return the parameters of the units of a machine with two layers, by attribute."""
    parts = (part for theta in machine.thetas for part in theta)
    named = zip(THETA_ATTRIBUTES, parts, strict=True)
    return {name: part for name, part in named if part is not None}


@dataclass
class Training:
    """What a fit needs to go on: random stream, model phase and its state, velocity, epochs."""

    rng: Rng
    method: Any
    state: Any
    velocity: Any
    n_epochs: int = 0
    report: dict = field(default_factory=dict)
    n_rows: int = 0
    visible_means: Any = None

    def count(self, X):
        """Take the rows of X, as the visible units take them, into the means of the data."""
        n = self.n_rows + X.shape[0]
        means = column_means(X)
        if self.n_rows:
            means = self.visible_means + (means - self.visible_means) * (X.shape[0] / n)
        self.n_rows, self.visible_means = n, means


def _keeps_features(method):
    """Put the number and names of features back if a fit ends before anything is published."""

    @wraps(method)
    def wrapper(self, *args, **kwargs):
        names = ("n_features_in_", "feature_names_in_")
        before = {name: vars(self)[name] for name in names if name in vars(self)}
        training = vars(self).get("_training")
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            if training is not None and vars(self).get("_training") is training:
                for name in names:
                    vars(self).pop(name, None)
                vars(self).update(before)
            raise

    return wrapper


class TrainedByMoments(CallbackSupportMixin, BaseEstimator):
    """Estimators that learn by moment matching: it owns the loop, subclasses name the parts.

    A subclass gives ``_units()`` (the kinds of units, as they were asked for), ``_method()`` (the
    model phase), ``_n_states(n_rows)`` (rows of its state), ``_default_log_partition()`` and
    ``machine_``; one with several hidden layers also ``_layer_sizes()``, ``_initial_machine``,
    ``_attributes``, ``_monitored`` and ``_free_energy``.
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "n_iter": [Interval(Integral, 0, None, closed="left")],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
        "momentum": [Interval(Real, 0, 1, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "penalty": [StrOptions(set(PENALTIES))],
        "schedule": [StrOptions(set(SCHEDULES)), callable],
        "init": [StrOptions({"random"}), tuple, list, HasMethods(["fit", "transform"])],
        "shuffle": ["boolean"],
        "early_stopping": ["boolean", StrOptions({"free_energy_gap", "score"})],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "warm_start": ["boolean"],
        "binarize": [None, Interval(Real, None, None, closed="neither")],
    }

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    @_keeps_features
    def fit(self, X, y=None):
        """Fit the machine to data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Values of the visible units.
        y : Ignored

        Returns
        -------
        self : object

        Raises
        ------
        DivergenceError
            If parameters stop being finite, or the law of a unit has no more integral. As after
            an interruption by Ctrl-C, the estimator then keeps the parameters of the last
            complete epoch.
        """
        goes_on = self.warm_start and self._is_trained()
        X = check_data(self, X, reset=not goes_on)
        n_validation = self._n_validation(X.shape[0])
        machine, training = self._start(X, goes_on, n_rows=X.shape[0])
        training.n_rows = 0  # the means are those of the data of this fit
        training.count(self._supported(X, machine.units[0]))
        train, validation = self._split(X.shape[0], n_validation, training.rng)
        with one_blas_thread():
            if not goes_on:
                machine = self._prepared(machine, training.rng, X, train)
            self._fit_epochs(machine, training, X, train, validation)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    @_keeps_features
    def partial_fit(self, X, y=None):
        """Go once through some rows of data, in batches of ``batch_size``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Values of the visible units.
        y : Ignored

        Returns
        -------
        self : object
        """
        goes_on = self._is_trained()
        X = check_data(self, X, reset=not goes_on)
        machine, training = self._start(X, goes_on, n_rows=np.inf)  # more may come
        rows = np.arange(X.shape[0])
        if not goes_on:
            with one_blas_thread():
                machine = self._prepared(machine, training.rng, X, rows)
        kept = machine.copy(), training.state
        try:
            with one_blas_thread():
                rate = self._rate(0.0)
                machine = self._fit_epoch(machine, training, X, rows, rate)
            kept = machine, training.state
            training.n_epochs += 1
            training.count(self._supported(X, machine.units[0]))
            self._record({"epoch": training.n_epochs, "learning_rate": rate, **training.report})
        except BaseException:
            training.velocity = None  # it may belong to parameters that are given up
            raise
        finally:
            self._publish(*kept, training)
        return self

    def _is_trained(self):
        return hasattr(self, "_training")

    def _start(self, X, goes_on, n_rows):
        """Return machine and training state to fit X from, which will have ``n_rows`` in all."""
        return self._resume(X, n_rows) if goes_on else self._begin(X, n_rows)

    def _begin(self, X, n_rows):
        """Return the first machine and training state for data X."""
        dtype = working_dtype(X)
        beside = namespace(X).zeros(
            (1, 1), **{**(like(X) if is_foreign(X) else {}), "dtype": dtype}
        )
        seed = seed_sequence(self.random_state)
        self._evaluation_seed, seed = seed.spawn(2)
        rng = make_rng(seed, beside)
        machine = self._initial_machine(X, rng)
        n, method = self._n_states(n_rows), self._method()
        rows = rng.permutation(X.shape[0])[:n]
        state = method.init(machine, rng, n, self._rows(X, rows, machine))
        self.history_ = {}
        return machine, Training(rng, method, state, self._optimiser().init(machine))

    def _resume(self, X, n_rows):
        """Return a copy of the machine to go on with, and its training state."""
        machine, training = self.machine_.copy(), self._training
        self._check_layers(machine)
        self._in_support = not check_range(X, machine.units[0], self.binarize)
        if training.velocity is None:
            training.velocity = self._optimiser().init(machine)
        else:  # written in place in training, and perhaps a memory map
            training.velocity = map_rows(_copied, training.velocity)
        method = self._method()
        least, most = self._n_states(n_rows), self._n_states(np.inf)
        kept = least <= self.starts_.shape[0] <= most and method.kind == training.method.kind
        if not kept:  # the state is of no more use
            training.state = method.init(machine, training.rng, least, self.starts_)
            training.method = method
        return machine, training

    def _check_layers(self, machine):
        """Refuse to go on with other sizes or units; bounds that are not given stay as they are."""
        _, *sizes = machine.n_units
        if sizes != self._layer_sizes():
            single = isinstance(self.n_components, Integral) and len(sizes) == 1
            before = sizes[0] if single else tuple(sizes)
            raise ValueError(
                f"n_components={self.n_components}, but the machine to go on from has "
                f"{before} hidden units; fit without warm_start, or set n_components={before}"
            )
        for now, before in zip(self._units(), machine.units, strict=True):
            if not now.asks_for(before):
                raise ValueError(
                    f"{now} was asked for, but the machine to go on from has {before}; fit "
                    "without warm_start, or ask for the same kind of units with the same bounds"
                )

    def _layer_sizes(self):
        """Return the number of units of each hidden layer, a list."""
        return [self.n_components]

    def _random_machine(self, X, rng):
        """Return a machine with small weights whose visible units fit the data."""
        visible, *hidden = self._units()
        units = (visible.fitted(X), *(unit.fitted() for unit in hidden))
        self._in_support = not check_range(X, units[0], self.binarize)
        sizes = [X.shape[1], *self._layer_sizes()]
        weights = [0.01 * rng.normal((above, below)) for below, above in pairwise(sizes)]
        thetas = [unit.default_theta(n, weights[0]) for unit, n in zip(units, sizes, strict=True)]
        thetas[0] = units[0].initial_theta(self._supported(X, units[0]))
        return Machine(units, tuple(thetas), tuple(weights))

    def _initial_machine(self, X, rng):
        """Return the machine where training starts; a statistic that init lacks is the data's."""
        machine = self._random_machine(X, rng)
        return machine if isinstance(self.init, str) else self._machine_from_init(machine)

    def _prepared(self, machine, rng, X, rows):
        """Return the machine that the first epoch begins with, where learning comes before it."""
        return machine

    def _machine_from_init(self, machine):
        parts = self.init if isinstance(self.init, tuple | list) else (self.init, None, None)
        if len(parts) != 3:
            raise ValueError(
                "init must be 'random', a fitted estimator or the three arrays (components, "
                f"intercept_hidden, intercept_visible), got {len(parts)} items"
            )
        first = machine_from(*parts, machine.units, machine)
        if first.n_units != machine.n_units:
            raise ValueError(
                f"init has {first.n_units[0]} visible and {first.n_units[1]} hidden units, but "
                f"X has {machine.n_units[0]} features and n_components={self.n_components}"
            )
        return first

    def _optimiser(self):
        return SGD(self.momentum, self.alpha, self.penalty)

    def _rate(self, progress):
        schedule = self.schedule if callable(self.schedule) else SCHEDULES[self.schedule]
        factor = schedule(progress)
        if not isinstance(factor, Real) or not factor >= 0:
            raise ValueError(
                f"schedule must return a factor >= 0 for the learning rate, got {factor!r} "
                f"at {progress:.3g} of n_iter"
            )
        return float(self.learning_rate) * float(factor)

    def _n_validation(self, n):
        """Return how many of ``n`` rows are set aside for early stopping."""
        if not self.early_stopping:
            return 0
        n_validation = round(self.validation_fraction * n)
        if not 0 < n_validation < n:
            raise ValueError(
                f"validation_fraction={self.validation_fraction} of {n} samples leaves no row for "
                "one of the two parts; give more samples or set early_stopping=False"
            )
        return n_validation

    def _split(self, n, n_validation, rng):
        """Return the rows to train on and those to validate on, as index arrays."""
        if not n_validation:
            return np.arange(n), None
        order = to_numpy(rng.permutation(n))
        return np.sort(order[n_validation:]), order[:n_validation]

    def _fit_epochs(self, machine, training, X, train, validation):
        """The loop over epochs; whatever ends it, the last complete epoch is published."""
        context = self._init_callback_context(max_subtasks=self.n_iter)
        # ScoringMonitor passes over tasks without a y, which these estimators ignore.
        data = {"estimator": self, "X": X, "y": X}
        kept = machine.copy(), training.state
        context.call_on_fit_task_begin(
            **data, reconstruction_attributes=lambda kept=kept: self._attributes(*kept)
        )
        monitor = Monitor(self, X, train, validation, training.rng)
        try:
            for epoch in range(self.n_iter):
                task = context.subcontext(task_name="epoch")
                task.call_on_fit_task_begin(**data)
                begin = time.perf_counter()
                rate = self._rate(epoch / self.n_iter)
                machine = self._fit_epoch(machine, training, X, train, rate)
                seconds = time.perf_counter() - begin
                row = {"learning_rate": rate, "time": seconds, **training.report}
                row |= monitor.measure(machine, training.state)
                kept = machine.copy(), training.state
                training.n_epochs += 1
                self._record({"epoch": training.n_epochs, **row})
                if task.call_on_fit_task_end(
                    **data, reconstruction_attributes=lambda kept=kept: self._attributes(*kept)
                ):
                    break
                if monitor.stop():
                    kept = monitor.kept
                    training.velocity = None  # it belongs to the parameters that are given up
                    break
                monitor.keep(*kept)
        except BaseException:
            training.velocity = None  # it may belong to parameters that are given up
            raise
        finally:
            self._publish(*kept, training)
        context.call_on_fit_task_end(**data, reconstruction_attributes=dict)

    def _fit_epoch(self, machine, training, X, rows, rate):
        """Learn from the rows once; the machine is consumed."""
        method, optimiser, rng = self._method(), self._optimiser(), training.rng
        if self.shuffle:
            rows = rows[to_numpy(rng.permutation(len(rows)))]
        # Batches of nearly one size: a last one of few rows would be a noisy step of full length.
        n_batches, reports = -(-len(rows) // self.batch_size), []
        for batch, part in enumerate(np.array_split(rows, n_batches)):
            V = self._rows(X, part, machine)
            with np.errstate(over="ignore", invalid="ignore"):
                machine, training.velocity, training.state = train_step(
                    machine, training.velocity, training.state, V, rng, method, optimiser, rate
                )
                finite = machine.has_finite_thetas()
            if not finite:
                self._diverged("intercepts", training, batch, rate)
            reports.append(method.report(training.state))
        with np.errstate(over="ignore", invalid="ignore"):
            finite = machine.is_finite()
        if not finite:
            self._diverged("components", training, batch, rate)
        training.report = {name: float(np.mean([r[name] for r in reports])) for name in reports[0]}
        return machine

    def _diverged(self, quantity, training, batch, rate):
        raise DivergenceError(
            f"{type(self).__name__}: the {quantity} were no longer finite after batch {batch + 1} "
            f"of epoch {training.n_epochs + 1}, at a learning rate of {rate:.3g}. Lower "
            "learning_rate or momentum, or scale X. The parameters of the last complete epoch are "
            "kept."
        )

    def _rows(self, X, rows, machine):
        """Return some rows of X as a dense array, as the machine's visible units take them."""
        rows = dense_rows(X, from_numpy(rows, X), machine.dtype)
        return cast(self._supported(rows, machine.units[0]), machine.dtype)

    def _supported(self, X, unit):
        """Return rows of the data that were checked, with values that the unit can have."""
        return X if self._in_support else into_support(X, unit, self.binarize)

    def _monitored(self, machine, state, bits):
        """Return what the history records of rows of data: functions (machine, rows) by name."""

        def pseudo_likelihood(machine, rows):
            return evaluation.pseudo_log_likelihood(machine, rows, bits)

        return {"pseudo_log_likelihood": pseudo_likelihood} if machine.units[0].values else {}

    def _free_energy(self, machine, X):
        """Return the free energy of each row: -log p(x) - log Z."""
        return free_energy(machine, X)

    def _record(self, row):
        """Add a row to the history; NaN stands where a quantity was not measured."""
        n_rows = len(self.history_.get("epoch", ()))
        for name in self.history_.keys() | row.keys():
            column = self.history_.setdefault(name, [float("nan")] * n_rows)
            column.append(row.get(name, float("nan")))
        if self.verbose:
            values = ", ".join(f"{name} = {row[name]:.4g}" for name in list(row)[1:])
            print(f"[{type(self).__name__}] Iteration {row['epoch']}, {values}")

    def _attributes(self, machine, state):
        """Return the fitted attributes of a machine and the state of its model phase."""
        return {
            "units_": machine.units,
            "components_": machine.weights[0],
            **theta_attributes(machine),
            "starts_": self._method().visible(state),
        }

    def _publish(self, machine, state, training):
        for name in THETA_ATTRIBUTES:  # those of other units, from an earlier fit
            self.__dict__.pop(name, None)
        for name, value in self._attributes(machine, state).items():
            setattr(self, name, value)
        if training.n_rows:
            self.visible_means_ = cast(training.visible_means, machine.dtype)
        training.state = state
        self._training = training
        self.n_iter_ = training.n_epochs


class Monitor:
    """What is measured after each epoch, and when to stop."""

    def __init__(self, rbm, X, train, validation, rng):
        self.rbm, self.X, self.validation = rbm, X, validation
        self.train = train[to_numpy(rng.permutation(len(train)))[:_GAP_ROWS]]
        self.bits = to_numpy(rng.permutation(X.shape[1]))[:_MONITORED_BITS]
        self.criterion = rbm.early_stopping
        if self.criterion is True:
            self.criterion = "score"
        self.best, self.n_bad, self.value, self.kept = -np.inf, 0, None, None
        self.noise = 0.0  # standard error of the gap

    def measure(self, machine, state):
        """Return numbers for the history."""
        shown = self.train[:_MONITORED_ROWS]
        measured = {
            name: float(self._values(function, machine, shown).mean())
            for name, function in self.rbm._monitored(machine, state, self.bits).items()
        }
        if self.validation is not None:
            held_out = self._values(self.rbm._free_energy, machine, self.validation)
            trained = self._values(self.rbm._free_energy, machine, self.train)
            gap = float(held_out.mean() - trained.mean())
            self.noise = np.hypot(*(F.std() / np.sqrt(F.size) for F in (held_out, trained)))
            self.value, measured["free_energy_gap"] = -gap, gap
            if self.criterion == "score":
                measured["score"] = -held_out.mean() - self._log_partition(machine, state)
                self.value = measured["score"]
        return measured

    def _values(self, function, machine, rows):
        """Values of a function of (machine, rows of X), which are made dense block by block."""
        size = max(self.rbm.batch_size, _BLOCK_ROWS)
        blocks = np.array_split(rows, -(-len(rows) // size))
        parts = [function(machine, self.rbm._rows(self.X, b, machine)) for b in blocks]
        return np.concatenate([to_numpy(part) for part in parts])

    def _log_partition(self, machine, state):
        exact = evaluation.can_enumerate(machine)
        method = "exact" if exact else self.rbm._default_log_partition()
        starts = self.rbm._method().visible(state)
        seed = np.random.SeedSequence(self.rbm._evaluation_seed.generate_state(4).tolist())
        return evaluation.log_partition(machine, method, starts=starts, random_state=seed).value

    def stop(self):
        """Whether the monitored value has been bad for ``n_iter_no_change`` epochs.

        A score is bad unless it beats the best by ``tol``; a gap, which can only grow once
        learning has begun, is bad if it exceeds the smallest by more than ``tol`` and its own
        standard error.
        """
        if self.value is None:
            return False
        margin = self.rbm.tol if self.criterion == "score" else -self.rbm.tol - self.noise
        bad = self.value < self.best + margin
        self.n_bad = self.n_bad + 1 if bad else 0
        self.best = max(self.best, self.value)
        return self.n_bad >= self.rbm.n_iter_no_change

    def keep(self, machine, state):
        """Remember the parameters of the last epoch that was not bad."""
        if self.value is not None and self.n_bad == 0:
            self.kept = machine, state


def _copied(array):
    return namespace(array).asarray(array, copy=True)
