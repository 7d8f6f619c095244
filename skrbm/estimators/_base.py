"""What all machines with one hidden layer share: validation, the training loop, and the methods."""

import time
import warnings
from dataclasses import asdict, dataclass, is_dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import joblib
import numpy as np
import scipy.sparse as sp
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    DensityMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from .. import evaluation
from .._backend import (
    cast,
    dense_rows,
    from_numpy,
    is_foreign,
    like,
    namespace,
    one_blas_thread,
    to_numpy,
    working_dtype,
)
from .._callbacks import N_FRAMES, CallbackSupportMixin, with_callbacks
from .._machine import Machine, condition, conditional, free_energy
from .._optim import PENALTIES, SCHEDULES, SGD, train_step
from .._random import Rng, make_rng, seed_sequence
from ..exceptions import DataRangeWarning, DivergenceError
from ..inference import Gibbs, map_rows, sample
from ..units import Theta

_MONITORED_ROWS, _MONITORED_BITS = 256, 16
_GAP_ROWS = 1000


@dataclass
class _Training:
    """What a fit needs to go on: random stream, model phase and its state, velocity, epochs."""

    rng: Rng
    method: Any
    state: Any
    velocity: Any
    n_epochs: int = 0


class BaseRBM(
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    DensityMixin,
    CallbackSupportMixin,
    BaseEstimator,
):
    """Base of the restricted Boltzmann machines: it owns the loop, subclasses name the parts.

    A subclass gives ``_units()``, ``_method()`` (the model phase), ``_n_states()`` (rows of its
    state), ``_impute(machine, X, observed, ...)`` and ``_default_log_partition``.
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

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self):
        return self.components_.shape[0]

    @property
    def machine_(self):
        """The fitted parameters as a machine, which shares their memory."""
        check_is_fitted(self, "components_")
        thetas = (Theta(self.intercept_visible_), Theta(self.intercept_hidden_))
        return Machine(self._units(), thetas, (self.components_,))

    # ---------------------------------------------------------------- training

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Fit the machine to data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Values of the visible units, in [0, 1].
        y : Ignored

        Returns
        -------
        self : object

        Raises
        ------
        DivergenceError
            If parameters stop being finite. As after an interruption by Ctrl-C, the estimator
            then keeps the parameters of the last complete epoch.
        """
        X = self._validate(X, reset=not (self.warm_start and self._is_trained()))
        self._check_range(X, N_FRAMES)
        machine, training = self._resume(X) if self.warm_start else self._begin(X)
        train, validation = self._split(X, training.rng)
        with one_blas_thread():
            self._fit_epochs(machine, training, X, train, validation)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None):
        """Go once through some rows of data, in batches of ``batch_size``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Values of the visible units, in [0, 1].
        y : Ignored

        Returns
        -------
        self : object
        """
        first = not self._is_trained()
        X = self._validate(X, reset=first)
        if first:
            self._check_range(X)
        machine, training = self._resume(X)
        kept = machine.copy(), training.state
        try:
            with one_blas_thread():
                rows, rate = np.arange(X.shape[0]), self._rate(0.0)
                machine = self._fit_epoch(machine, training, X, rows, rate)
            kept = machine, training.state
            training.n_epochs += 1
        except BaseException:
            training.velocity = None  # it may belong to parameters that are given up
            raise
        finally:
            self._publish(*kept, training)
        return self

    def _is_trained(self):
        return hasattr(self, "_training")

    def _begin(self, X):
        """Return the first machine and training state for data X."""
        dtype = working_dtype(X)
        beside = namespace(X).zeros(
            (1, 1), **{**(like(X) if is_foreign(X) else {}), "dtype": dtype}
        )
        seed = seed_sequence(self.random_state)
        self._evaluation_seed, seed = seed.spawn(2)
        rng = make_rng(seed, beside)
        machine = self._initial_machine(X, rng)
        rows = rng.permutation(X.shape[0])[: self._n_states()]
        method = self._method()
        state = method.init(machine, rng, self._n_states(), self._rows(X, rows, dtype))
        self.history_ = {}
        return machine, _Training(rng, method, state, self._optimiser().init(machine))

    def _resume(self, X):
        """Return a copy of the machine to go on with, and its training state."""
        if not self._is_trained():
            return self._begin(X)
        if self.components_.shape[0] != self.n_components:
            raise ValueError(
                f"n_components={self.n_components}, but the machine to go on from has "
                f"{self.components_.shape[0]} hidden units; fit without warm_start, or set "
                f"n_components={self.components_.shape[0]}"
            )
        machine, training = self.machine_.copy(), self._training
        if training.velocity is None:
            training.velocity = self._optimiser().init(machine)
        else:  # written in place in training, and perhaps a memory map
            training.velocity = map_rows(_copied, training.velocity)
        method = self._method()
        if type(method) is not type(training.method):  # whose state is of another kind
            training.state = method.init(machine, training.rng, self._n_states(), self.starts_)
            training.method = method
        return machine, training

    def _initial_machine(self, X, rng):
        n_visible, n_hidden = X.shape[1], self.n_components
        if not isinstance(self.init, str):
            return self._machine_from_init(n_visible, rng)
        visible, hidden = self._units()
        W = 0.01 * rng.normal((n_hidden, n_visible))
        data = X if self.binarize is None else self._above(X)  # a byte for each entry
        thetas = (visible.initial_theta(data), hidden.default_theta(n_hidden, W))
        return Machine((visible, hidden), thetas, (W,))

    def _machine_from_init(self, n_visible, rng):
        beside = rng.normal((1, 1))
        parts = self.init if isinstance(self.init, tuple | list) else (self.init, None, None)
        if len(parts) != 3:
            raise ValueError(
                "init must be 'random', a fitted estimator or the three arrays (components, "
                f"intercept_hidden, intercept_visible), got {len(parts)} items"
            )
        machine = _machine_from(*parts, self._units(), beside)
        if machine.n_units != (n_visible, self.n_components):
            raise ValueError(
                f"init has {machine.n_units[0]} visible and {machine.n_units[1]} hidden units, but "
                f"X has {n_visible} features and n_components={self.n_components}"
            )
        return machine

    def _optimiser(self):
        return SGD(self.momentum, self.alpha, self.penalty)

    def _rate(self, progress):
        schedule = self.schedule if callable(self.schedule) else SCHEDULES[self.schedule]
        return float(self.learning_rate) * schedule(progress)

    def _split(self, X, rng):
        """Return the rows to train on and those to validate on, as index arrays."""
        n = X.shape[0]
        if not self.early_stopping:
            return np.arange(n), None
        n_validation = round(self.validation_fraction * n)
        if not 0 < n_validation < n:
            raise ValueError(
                f"validation_fraction={self.validation_fraction} of {n} samples leaves no row for "
                "one of the two parts; give more samples or set early_stopping=False"
            )
        order = to_numpy(rng.permutation(n))
        return np.sort(order[n_validation:]), order[:n_validation]

    def _fit_epochs(self, machine, training, X, train, validation):
        """The loop over epochs; whatever ends it, the last complete epoch is published."""
        context = self._init_callback_context(max_subtasks=self.n_iter)
        # ScoringMonitor passes over tasks without a y, which these estimators ignore.
        data = {"estimator": self, "X": X, "y": X}
        context.call_on_fit_task_begin(**data)
        monitor = _Monitor(self, X, train, validation, training.rng)
        kept = machine.copy(), training.state
        try:
            for epoch in range(self.n_iter):
                task = context.subcontext(task_name="epoch")
                task.call_on_fit_task_begin(**data)
                begin = time.perf_counter()
                rate = self._rate(epoch / self.n_iter)
                machine = self._fit_epoch(machine, training, X, train, rate)
                seconds = time.perf_counter() - begin
                kept = machine.copy(), training.state
                training.n_epochs += 1
                self._record(monitor, machine, training, rate, seconds)
                if task.call_on_fit_task_end(
                    **data, reconstruction_attributes=lambda kept=kept: self._attributes(*kept)
                ):
                    break
                if monitor.stop():
                    kept = monitor.kept
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
        dtype = machine.dtype
        if self.shuffle:
            rows = rows[to_numpy(rng.permutation(len(rows)))]
        # Batches of nearly one size: a last one of few rows would be a noisy step of full length.
        n_batches = -(-len(rows) // self.batch_size)
        for batch, part in enumerate(np.array_split(rows, n_batches)):
            V = self._rows(X, part, dtype)
            with np.errstate(over="ignore", invalid="ignore"):
                machine, training.velocity, training.state = train_step(
                    machine, training.velocity, training.state, V, rng, method, optimiser, rate
                )
                finite = machine.has_finite_thetas()
            if not finite:
                self._diverged("intercepts", training, batch, rate)
        with np.errstate(over="ignore", invalid="ignore"):
            finite = machine.is_finite()
        if not finite:
            self._diverged("components", training, batch, rate)
        return machine

    def _diverged(self, quantity, training, batch, rate):
        raise DivergenceError(
            f"{type(self).__name__}: the {quantity} were no longer finite after batch {batch + 1} "
            f"of epoch {training.n_epochs + 1}, at a learning rate of {rate:.3g}. Lower "
            "learning_rate or momentum, or scale X. The parameters of the last complete epoch are "
            "kept."
        )

    def _rows(self, X, rows, dtype):
        """Return some rows of X as a dense array of the machine's dtype."""
        return self._binarized(dense_rows(X, from_numpy(rows, X), dtype))

    def _binarized(self, X):
        if self.binarize is None:
            return X
        above = self._above(X)
        dtype = working_dtype(X)
        return above.astype(dtype) if sp.issparse(X) else cast(above, dtype)

    def _above(self, X):
        """Return which entries of X are above the threshold."""
        if sp.issparse(X) and self.binarize < 0:
            raise ValueError(
                f"binarize={self.binarize} would make the zeros of a sparse X ones; use a "
                "threshold >= 0 or a dense X"
            )
        return X > self.binarize

    def _record(self, monitor, machine, training, rate, seconds):
        row = {
            "epoch": training.n_epochs,
            "learning_rate": rate,
            "time": seconds,
            **monitor.measure(machine, training.state),
            **self._method().report(training.state),
        }
        for name, value in row.items():
            self.history_.setdefault(name, []).append(value)
        if self.verbose:
            values = ", ".join(f"{name} = {row[name]:.4g}" for name in list(row)[1:])
            print(f"[{type(self).__name__}] Iteration {training.n_epochs}, {values}")

    def _attributes(self, machine, state):
        """Return the fitted attributes of a machine and the state of its model phase."""
        return {
            "components_": machine.weights[0],
            "intercept_hidden_": machine.thetas[1].field,
            "intercept_visible_": machine.thetas[0].field,
            "starts_": self._method().visible(state),
        }

    def _publish(self, machine, state, training):
        for name, value in self._attributes(machine, state).items():
            setattr(self, name, value)
        training.state = state
        self._training = training
        self.n_iter_ = training.n_epochs

    # -------------------------------------------------------------- validation

    def _validate(self, X, *, reset=False, missing=False):
        """Return X checked, in its own dtype and array library."""
        if is_foreign(X):
            return self._validate_foreign(X, reset, missing)
        X = validate_data(
            self,
            X,
            accept_sparse=False if missing else "csr",
            dtype="numeric",
            reset=reset,
            ensure_all_finite="allow-nan" if missing else True,
        )
        if missing and np.isinf(X).any():
            raise ValueError("X contains infinity; only NaN marks a missing value")
        return X

    def _validate_foreign(self, X, reset, missing):
        xp = namespace(X)
        if X.ndim != 2 or 0 in X.shape:
            raise ValueError(
                f"X must have 2 dimensions, with rows and columns, got shape {tuple(X.shape)}"
            )
        if xp.isdtype(X.dtype, "complex floating"):
            raise ValueError("Complex data not supported")
        if xp.isdtype(X.dtype, "real floating"):
            wrong = xp.isinf(X) if missing else ~xp.isfinite(X)
            if bool(xp.any(wrong)):
                raise ValueError("X contains NaN or infinity")
        if reset:
            self.n_features_in_ = X.shape[1]
        elif X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        return X

    def _check_range(self, X, n_wrappers=0):
        low, high = self._units()[0].bounds
        if self.binarize is not None:
            return
        values = X.data if sp.issparse(X) else X
        if not values.shape[0]:
            return
        xp = namespace(values)
        if xp.isdtype(values.dtype, "bool"):
            return
        least, most = float(xp.min(values)), float(xp.max(values))
        if least < low or most > high:
            warnings.warn(
                f"X has values from {least:.4g} to {most:.4g}, outside [{low:g}, {high:g}], which "
                "binary units cannot represent. Scale it (MinMaxScaler), or set binarize to a "
                "threshold above which values count as 1.",
                DataRangeWarning,
                stacklevel=4 + n_wrappers,  # the caller of fit, beyond _fit_context
            )

    def _visible(self, X, **how):
        """Return (machine, X) for a public method: validated, binarized, in the machine's dtype."""
        machine = self.machine_
        X = self._binarized(self._validate(X, **how))
        return machine, X.astype(machine.dtype) if sp.issparse(X) else cast(X, machine.dtype)

    def _hidden(self, H):
        machine = self.machine_
        H = H if is_foreign(H) else check_array(H, dtype=machine.dtype)
        if H.shape[1] != machine.n_units[1]:
            raise ValueError(
                f"H has {H.shape[1]} columns, but the machine has {machine.n_units[1]} hidden units"
            )
        return machine, cast(H, machine.dtype)

    # ----------------------------------------------------------------- methods

    def transform(self, X):
        """Compute the expected hidden units E[h | v = X].

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        H : array of shape (n_samples, n_components)
        """
        machine, X = self._visible(X)
        return machine.units[1].mean(condition(machine, X))

    def inverse_transform(self, H):
        """Compute the expected visible units E[v | h = H].

        Parameters
        ----------
        H : array-like of shape (n_samples, n_components)
            Values of the hidden units, such as those from :meth:`transform`.

        Returns
        -------
        X : array of shape (n_samples, n_features)
        """
        machine, H = self._hidden(H)
        return machine.units[0].mean(conditional(machine, 0, (None, H)))

    def predict(self, X):
        """Return the most probable visible configuration given E[h | v = X].

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Dense, as the result is: for a large sparse X, predict blocks of its rows.

        Returns
        -------
        V : array of shape (n_samples, n_features)
        """
        if sp.issparse(X):
            raise TypeError(
                "predict does not take sparse X: its result, a dense array of the shape of X, "
                "may not fit into memory. Call predict(X[start:stop].toarray()) for blocks of rows."
            )
        machine, X = self._visible(X)
        hidden = machine.units[1].mean(condition(machine, X))
        return machine.units[0].mode(conditional(machine, 0, (None, hidden)))

    def free_energy(self, X):
        """Compute the free energy F(v) = -log sum_h exp(-E(v, h)).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        F : array of shape (n_samples,)
            In nats, float64; log p(v) = -F(v) - log Z.
        """
        return free_energy(*self._visible(X))

    def score_samples(self, X):
        """Compute the log-likelihood of each sample.

        It depends on the parameters and the sample alone: log Z is computed on first use,
        exactly if one layer has at most 20 units, otherwise by the estimator's own method, with a
        seed and starts that were drawn in ``fit``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        log_likelihood : array of shape (n_samples,)
            In nats, float64.
        """
        return -self.free_energy(X) - self.log_partition()

    def score(self, X, y=None):
        """Compute the mean log-likelihood of the samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : Ignored

        Returns
        -------
        score : float
            In nats per sample.
        """
        scores = self.score_samples(X)
        return float(namespace(scores).mean(scores))

    def log_partition(self, method="auto", return_std=False):
        """Compute or estimate the log-partition function.

        The value is kept with the parameters it belongs to.

        Parameters
        ----------
        method : str or object, default="auto"
            "exact" (one layer of at most 20 units), "ais", "tap", "tap3", "naive_mean_field", or
            an object such as ``AIS(n_chains=500)`` or ``TAP(order=3)``; see
            :func:`skrbm.evaluation.log_partition`. "auto" is "exact" where that is possible, and
            the estimator's own method elsewhere.
        return_std : bool, default=False
            Whether to return the standard error too.

        Returns
        -------
        log_z : float
            In nats.
        std : float
            Only if ``return_std``: 0 where exact, NaN where it is not known.
        """
        machine = self.machine_
        if isinstance(method, str) and method == "auto":
            exact = evaluation.can_enumerate(machine)
            method = "exact" if exact else self._default_log_partition()
        parts = (self.components_, self.intercept_hidden_, self.intercept_visible_, self.starts_)
        key = joblib.hash([to_numpy(part) for part in parts]), _method_key(method)
        known = self.__dict__.setdefault("_log_partitions", {})
        if key not in known:
            for stale in [old for old in known if old[0] != key[0]]:
                del known[stale]
            seed = self._evaluation_seed
            known[key] = evaluation.log_partition(
                self,
                method,
                random_state=np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key),
            )
        result = known[key]
        return (result.value, result.std) if return_std else result.value

    def sample(self, n_samples=1, *, n_steps=100, init=None, random_state=None):
        """Draw visible configurations by block Gibbs sampling, a chain for each.

        Parameters
        ----------
        n_samples : int, default=1
        n_steps : int, default=100
            Sweeps of each chain.
        init : array-like of shape (n_samples, n_features), default=None
            Where the chains start; default: random rows of ``starts_``, which were kept in fit.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        V : array of shape (n_samples, n_features)
        """
        machine = self.machine_
        _check_count("n_samples", n_samples, 1)
        _check_count("n_steps", n_steps, 0)
        rng = make_rng(random_state, machine.weights[0])
        if init is None:
            rows = rng.integers(self.starts_.shape[0], n_samples)
            init = namespace(rows).take(self.starts_, rows, axis=0)
        else:
            _, init = self._visible(init)
            if init.shape[0] != n_samples:
                raise ValueError(f"init has {init.shape[0]} rows, but n_samples={n_samples}")
            init = init.toarray() if sp.issparse(init) else init
        if n_steps == 0:
            return _copied(init)
        with one_blas_thread():
            chains = Gibbs().start(machine, init, rng)
            return sample(Gibbs(), machine, chains, rng, n_steps).layers[0]

    def gibbs(self, v, random_state=None):
        """Draw new visible values by one sweep of block Gibbs sampling.

        Parameters
        ----------
        v : {array-like, sparse matrix} of shape (n_samples, n_features)
            Values of the visible units to start from.
        random_state : int, RandomState instance or None, default=None
            With an int, the same noise in each call.

        Returns
        -------
        v_new : array of shape (n_samples, n_features)
        """
        machine, X = self._visible(v)
        rng = make_rng(random_state, machine.weights[0])
        hidden = machine.units[1].sample(condition(machine, X), rng)
        return machine.units[0].sample(conditional(machine, 0, (None, hidden)), rng)

    def _split_missing(self, X):
        """Return (machine, X filled with the visible means, which entries are observed)."""
        machine, X = self.machine_, self._validate(X, missing=True)
        xp = namespace(X)
        observed = X == X  # all but NaN, which a threshold would hide
        X = cast(self._binarized(X), machine.dtype)
        means = machine.units[0].mean(machine.thetas[0])
        return machine, xp.where(observed, X, xp.broadcast_to(means, X.shape)), observed

    @classmethod
    def from_parameters(cls, components, intercept_hidden=None, intercept_visible=None, **params):
        """Build a fitted machine from arrays.

        Parameters
        ----------
        components : array-like of shape (n_components, n_features), or fitted estimator
            Weights; or a machine of which all three arrays are taken, such as a fitted
            :class:`sklearn.neural_network.BernoulliRBM`.
        intercept_hidden : array-like of shape (n_components,), default=None
            Biases of the hidden units; default: zeros.
        intercept_visible : array-like of shape (n_features,), default=None
            Biases of the visible units; default: zeros.
        **params
            Parameters of the estimator other than ``n_components``.

        Returns
        -------
        estimator : object
            Fitted, with copies of the arrays.
        """
        rbm = cls(**params)
        machine = _machine_from(components, intercept_hidden, intercept_visible, rbm._units())
        rbm.n_components = machine.n_units[1]
        rbm._validate_params()
        seed = seed_sequence(rbm.random_state)
        rbm._evaluation_seed, seed = seed.spawn(2)
        rng = make_rng(seed, machine.weights[0])
        with one_blas_thread():
            chains = Gibbs().init(machine, rng, rbm._n_states(), machine.weights[0])
            rows = sample(Gibbs(), machine, chains, rng, 100).layers[0]
        method = rbm._method()
        state = method.init(machine, rng, rbm._n_states(), rows)
        rbm.n_features_in_ = machine.n_units[0]
        rbm.history_ = {}
        rbm._publish(machine, state, _Training(rng, method, state, None))
        rbm.starts_ = rows
        return rbm


class _Monitor:
    """What is measured after each epoch, and when to stop."""

    def __init__(self, rbm, X, train, validation, rng):
        self.rbm, self.X, self.validation = rbm, X, validation
        self.train = train[to_numpy(rng.permutation(len(train)))[:_GAP_ROWS]]
        self.bits = to_numpy(rng.permutation(X.shape[1]))[:_MONITORED_BITS]
        self.criterion = rbm.early_stopping
        if self.criterion is True:
            self.criterion = "free_energy_gap"
        self.best, self.n_bad, self.value, self.kept = -np.inf, 0, None, None

    def measure(self, machine, state):
        """Return numbers for the history."""
        rows = self.rbm._rows(self.X, self.train[:_MONITORED_ROWS], machine.dtype)
        pseudo = evaluation.pseudo_log_likelihood(machine, rows, self.bits)
        measured = {"pseudo_log_likelihood": float(np.mean(to_numpy(pseudo)))}
        if self.validation is not None:
            gap = self._mean_free_energy(machine, self.validation)
            measured["free_energy_gap"] = gap - self._mean_free_energy(machine, self.train)
            if self.criterion == "score":
                measured["score"] = -gap - self._log_partition(machine, state)
            sign = 1 if self.criterion == "score" else -1
            self.value = sign * measured[self.criterion]
        return measured

    def _mean_free_energy(self, machine, rows):
        blocks = [rows[i : i + _GAP_ROWS] for i in range(0, len(rows), _GAP_ROWS)]
        values = [
            to_numpy(free_energy(machine, self.rbm._rows(self.X, block, machine.dtype)))
            for block in blocks
        ]
        return float(np.mean(np.concatenate(values)))

    def _log_partition(self, machine, state):
        exact = evaluation.can_enumerate(machine)
        method = "exact" if exact else self.rbm._default_log_partition()
        starts = self.rbm._method().visible(state)
        seed = np.random.SeedSequence(self.rbm._evaluation_seed.generate_state(4).tolist())
        return evaluation.log_partition(machine, method, starts=starts, random_state=seed).value

    def stop(self):
        """Whether the monitored value has been bad for ``n_iter_no_change`` epochs.

        A score is bad unless it beats the best by ``tol``; a gap, which can only grow once
        learning has begun, is bad if it exceeds the smallest by more than ``tol``.
        """
        if self.value is None:
            return False
        margin = self.rbm.tol if self.criterion == "score" else -self.rbm.tol
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


def _method_key(method):
    """Return what tells a method of evaluation from others; the text of arrays is shortened."""
    if not is_dataclass(method):
        return repr(method)
    return joblib.hash((type(method).__qualname__, asdict(method)))


def _check_count(name, value, least):
    if not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")


def _machine_from(components, intercept_hidden, intercept_visible, units, beside=None):
    """Return the machine of a fitted estimator, or of three arrays."""
    if hasattr(components, "fit"):
        if not hasattr(components, "components_"):
            raise ValueError(
                f"{type(components).__name__} is not fitted. Meta-estimators such as GridSearchCV "
                "clone their parameters; wrap a fitted one in sklearn.frozen.FrozenEstimator"
            )
        source = components
        components = source.components_
        intercept_hidden, intercept_visible = source.intercept_hidden_, source.intercept_visible_
    W = _parameter("components", components, 2, beside)
    biases = [
        _parameter(name, namespace(W).zeros(n) if bias is None else bias, 1, W)
        for name, bias, n in [
            ("intercept_visible", intercept_visible, W.shape[1]),
            ("intercept_hidden", intercept_hidden, W.shape[0]),
        ]
    ]
    for name, bias, n in zip(("visible", "hidden"), biases, W.shape[::-1], strict=True):
        if bias.shape != (n,):
            raise ValueError(
                f"intercept_{name} has shape {tuple(bias.shape)}, but components {tuple(W.shape)} "
                f"needs ({n},)"
            )
    return Machine(units, tuple(Theta(bias) for bias in biases), (W,))


def _parameter(name, values, ndim, beside):
    """Return a finite, contiguous copy of a parameter, beside ``beside`` where that is given."""
    if is_foreign(values):
        xp = namespace(values)
        array = xp.asarray(values, copy=True)
        if beside is not None:
            array = cast(array, beside.dtype)
    else:
        array = _real_array(name, values)
        array = array.astype(to_numpy(beside).dtype if beside is not None else working_dtype(array))
        array = from_numpy(array, array if beside is None else beside)
    if array.ndim != ndim or 0 in array.shape:
        raise ValueError(f"{name} must be a non-empty array of {ndim} dimension(s)")
    if not bool(namespace(array).all(namespace(array).isfinite(array))):
        raise ValueError(f"{name} contains NaN or infinity")
    return array


def _real_array(name, values):
    try:
        array = np.array(values, order="C", copy=True)
        return array if array.dtype.kind in "biuf" else array.astype(np.float64, casting="safe")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of real numbers: {error}") from error
