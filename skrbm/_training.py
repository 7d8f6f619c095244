"""Training of density models: one gradient for every method, and what is monitored."""

import warnings
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from . import evaluation
from ._callbacks import with_callbacks
from ._epochs import Monitor, Progress, TrainedInEpochs, keeps_features
from ._optim import train_step
from .arrays import (
    cast,
    column_means,
    copied,
    dense_rows,
    from_numpy,
    make_rng,
    namespace,
    one_blas_thread,
    parameter_reference,
    row_sums,
    seed_sequence,
    to_numpy,
)
from .inference import map_rows
from .inputs import (
    THETA_ATTRIBUTES,
    check_data,
    check_held,
    check_range,
    into_support,
    machine_from,
)
from .machine import Machine, precise_free_energy
from .units import log_weight

_MONITORED_ROWS, _MONITORED_BITS = 256, 16
_GAP_ROWS = 1000  # training rows whose free energy is held against the validation rows'
_BLOCK_ROWS = 64
_WORSE, _WORSE_PART = 1.0, 0.05  # nats, or part of them, below independent units that are too many
_CHAINS = 100  # that a first partial_fit keeps, if batch_size is larger, however few its rows


def theta_attributes(machine):
    """Return the parameters of the units of a machine with two layers, by attribute."""
    parts = (part for theta in machine.thetas for part in theta)
    named = zip(THETA_ATTRIBUTES, parts, strict=True)
    return {name: part for name, part in named if part is not None}


@dataclass
class Training(Progress):
    """What goes on in a fit to data, with the model phase and the means of the data."""

    method: Any = None
    optimiser: Any = None
    n_rows: int = 0
    visible_means: Any = None
    progress: float = 0.0  # fraction of the epochs of this fit that has passed

    def count(self, X):
        """Take the rows of X, as the visible units take them, into the means of the data."""
        n = self.n_rows + X.shape[0]
        means = column_means(X)
        if self.n_rows:
            means = self.visible_means + (means - self.visible_means) * (X.shape[0] / n)
        self.n_rows, self.visible_means = n, means


class TrainedByMoments(TrainedInEpochs):
    """Density models that learn by moment matching; subclasses name the parts.

    A subclass gives ``_units()`` (the kinds of units, as they were asked for), ``_method()`` (the
    model phase), ``_n_states(n_rows)`` (rows of its state) and
    ``machine_``; one with several hidden layers also ``_layer_sizes()``, ``_initial_machine``,
    ``_attributes``, ``_monitored`` and ``_free_energy``.
    """

    _parameter_constraints: ClassVar[dict] = {
        **TrainedInEpochs._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "init": [StrOptions({"random"}), tuple, list, HasMethods(["fit", "transform"])],
        "early_stopping": ["boolean", StrOptions({"free_energy_gap", "score"})],
        "binarize": [None, Interval(Real, None, None, closed="neither")],
    }

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    @keeps_features
    @one_blas_thread
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
        if not goes_on:
            machine = self._prepared(machine, training.rng, X, train)
        self._fit_epochs(machine, training, X, train, validation)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    @keeps_features
    @one_blas_thread
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
        self._validate_params()  # which scikit-learn does in the first call alone
        goes_on = self._is_trained()
        X = check_data(self, X, reset=not goes_on)
        # More rows may come, but no more chains than that are kept for a large batch_size.
        machine, training = self._start(X, goes_on, n_rows=max(X.shape[0], _CHAINS))
        rows = np.arange(X.shape[0])
        if not goes_on:
            machine = self._prepared(machine, training.rng, X, rows)
        self._pass_once(
            machine,
            training,
            X,
            X.shape[0],
            lambda: training.count(self._supported(X, machine.units[0])),
        )
        return self

    def _start(self, X, goes_on, n_rows):
        """Return machine and training state to fit X from, which will have ``n_rows`` in all."""
        return self._resume(X, n_rows) if goes_on else self._begin(X, n_rows)

    def _begin(self, X, n_rows):
        """Return the first machine and training state for data X."""
        seed = seed_sequence(self.random_state)
        self._evaluation_seed, seed = seed.spawn(2)
        rng = make_rng(seed, parameter_reference(X))
        machine = self._initial_machine(X, rng)
        with np.errstate(over="ignore", invalid="ignore"):
            finite = self._is_finite(machine)
        if not finite:
            raise ValueError(f"the first parameters overflow {machine.dtype}; scale X")
        n, method = self._n_states(n_rows), self._method()
        rows = rng.permutation(X.shape[0])[:n]
        state = method.init(machine, rng, n, self._rows(X, rows, machine))
        self.history_ = {}
        optimiser = self._optimiser()
        velocity = optimiser.init(machine)
        return machine, Training(rng, state, velocity, method=method, optimiser=optimiser)

    def _resume(self, X, n_rows):
        """Return a copy of the machine to go on with, and its training state."""
        machine, training = self._trained_machine(), self._training
        self._check_layers(machine)
        self._in_support = not check_range(X, machine.units[0], self.binarize)
        if self._in_support:
            check_held(X, machine.dtype)
        optimiser, before = self._optimiser(), training.optimiser
        if training.velocity is None or optimiser.kind != before.kind:
            training.velocity = optimiser.init(machine)
        else:  # written in place in training, and perhaps a memory map
            training.velocity = map_rows(copied, training.velocity)
        training.optimiser = optimiser
        method = self._method()
        least, most = self._n_states(n_rows), self._n_states(np.inf)
        kept = least <= self.starts_.shape[0] <= most and method.kind == training.method.kind
        if not kept:  # the state is of no more use
            training.state = method.init(machine, training.rng, least, self.starts_)
        training.method = method
        return machine, training

    def _trained_machine(self):
        """Return a copy of the fitted machine, as it is trained."""
        return self.machine_.copy()

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
            n_visible, n_hidden = first.n_units
            fits = n_visible == machine.n_units[0]
            advice = f"; set n_components={n_hidden}" if fits else ""
            raise ValueError(
                f"init has {n_visible} visible and {n_hidden} hidden units, but X has "
                f"{machine.n_units[0]} features and n_components={self.n_components}{advice}"
            )
        return first

    def _rows(self, X, rows, machine):
        """Return some rows of X as a dense array, as the machine's visible units take them."""
        dtype = machine.dtype if self._in_support else X.dtype  # which may hold larger values
        rows = dense_rows(X, from_numpy(rows, X), dtype)
        return cast(self._supported(rows, machine.units[0]), machine.dtype)

    def _supported(self, X, unit):
        """Return rows of the data that were checked, with values that the unit can have."""
        return X if self._in_support else into_support(X, unit, self.binarize)

    def _method_at(self, progress):
        """Return the model phase at a fraction of the epochs of a fit."""
        return self._method()

    def _learn(self, machine, training, X, rows, rate):
        """Learn from one batch; the machine is consumed."""
        V, method = self._rows(X, rows, machine), self._method_at(training.progress)
        machine, training.velocity, training.state = train_step(
            machine,
            training.velocity,
            training.state,
            V,
            training.rng,
            method,
            self._optimiser(),
            rate,
        )
        return machine, method.report(training.state)

    def _monitor(self, X, train, validation, rng):
        return LikelihoodMonitor(self, X, train, validation, rng)

    def _callback_data(self, X):
        # ScoringMonitor passes over tasks without a y, which these estimators ignore.
        return {"X": X, "y": X}

    def _monitored(self, machine, state, bits):
        """Return what the history records of rows of data: functions (machine, rows) by name."""

        def pseudo_likelihood(machine, rows):
            return evaluation.pseudo_log_likelihood(machine, rows, bits)

        return {"pseudo_log_likelihood": pseudo_likelihood} if machine.units[0].values else {}

    def _free_energy(self, machine, X):
        """Return the free energy of each row: -log p(x) - log Z."""
        return precise_free_energy(machine, X)

    def _log_weight(self, machine, X):
        """Return log p(x) + log Z of each row, or a lower bound of it."""
        return -self._free_energy(machine, X)

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
        if training.n_rows:
            self.visible_means_ = cast(training.visible_means, machine.dtype)
        super()._publish(machine, state, training)
        training.state = training.method.kept(state)  # messages may be larger than the weights


class LikelihoodMonitor(Monitor):
    """Measures the likelihood of rows set aside, or how it falls behind that of training rows.

    A score is bad unless it beats the best by ``tol``; a gap, which can only grow once learning
    has begun, is bad if it exceeds the smallest by more than ``tol`` and its own standard error.
    """

    def __init__(self, rbm, X, train, validation, rng):
        super().__init__(rbm.n_iter_no_change)
        self.rbm, self.X, self.validation = rbm, X, validation
        self.train = train[to_numpy(rng.permutation(len(train)))[:_GAP_ROWS]]
        self.bits = to_numpy(rng.permutation(X.shape[1]))[:_MONITORED_BITS]
        self.criterion = rbm.early_stopping
        if self.criterion is True:
            self.criterion = "score"
        self.noise = 0.0  # standard error of the gap
        self.independent = self.reached = None  # log-likelihoods of training rows

    @property
    def margin(self):
        return self.rbm.tol if self.criterion == "score" else -self.rbm.tol - self.noise

    def measure(self, machine, state):
        """Return numbers for the history."""
        shown = self.train[:_MONITORED_ROWS]
        measured = {
            name: float(self._values(function, machine, shown).mean())
            for name, function in self.rbm._monitored(machine, state, self.bits).items()
        }
        for name, value in measured.items():
            if self.independent is None:
                self.independent = self._independent(machine, name == "pseudo_log_likelihood")
            # The best pass counts where it is published.
            best = value if self.reached is None or self.validation is None else self.reached[1]
            self.reached = name, max(value, best)
        if self.validation is not None:
            held_out = self._values(self.rbm._free_energy, machine, self.validation)
            trained = self._values(self.rbm._free_energy, machine, self.train)
            gap = float(held_out.mean() - trained.mean())
            self.noise = np.hypot(*(F.std() / np.sqrt(F.size) for F in (held_out, trained)))
            self.value, measured["free_energy_gap"] = -gap, gap
            if self.criterion == "score":
                log_weights = self._values(self.rbm._log_weight, machine, self.validation)
                log_z = self._log_partition(machine, state)
                self.value = measured["score"] = float(log_weights.mean() - log_z)
        return measured

    def _independent(self, machine, is_pseudo):
        """Return the log-likelihood of the rows shown by the best machine without couplings.

        Its units are fitted to all rows. Where it stands beside a pseudo-likelihood it is that of
        the same bits, scaled up.
        """
        unit, n = machine.units[0], self.X.shape[1]
        theta = unit.initial_theta(self.rbm._supported(self.X, unit))
        theta = theta.map(lambda part: cast(part, machine.dtype))
        columns = from_numpy(self.bits if is_pseudo else np.arange(n), theta.field)
        theta = theta.map(lambda part: namespace(part).take(part, columns, axis=0))

        def function(machine, rows):
            rows = namespace(rows).take(rows, columns, axis=1)
            return log_weight(theta, rows) - row_sums(unit.log_partition(theta))

        values = self._values(function, machine, self.train[:_MONITORED_ROWS])
        return float(values.mean()) * (n / columns.shape[0])

    def conclude(self):
        """Warn where learning has ended far below what needs no learning at all."""
        if self.reached is None:
            return
        (name, value), alone = self.reached, self.independent
        if value >= alone - max(_WORSE, _WORSE_PART * abs(alone)):  # never if it is NaN
            return
        warnings.warn(
            f"{type(self.rbm).__name__}: the {name.replace('_', '-')} of training rows is "
            f"{value:.4g} after the last pass, and that of independent units {alone:.4g}: learning "
            f"has diverged. Lower learning_rate={self.rbm.learning_rate}, and scale X if its "
            "columns differ in scale.",
            ConvergenceWarning,
            stacklevel=2,
        )

    def _values(self, function, machine, rows):
        """Values of a function of (machine, rows of X), which are made dense block by block."""
        size = max(self.rbm.batch_size, _BLOCK_ROWS)
        blocks = np.array_split(rows, -(-len(rows) // size))
        parts = [function(machine, self.rbm._rows(self.X, b, machine)) for b in blocks]
        return np.concatenate([to_numpy(part) for part in parts])

    def _log_partition(self, machine, state):
        starts = self.rbm._method().visible(state)
        seed = np.random.SeedSequence(self.rbm._evaluation_seed.generate_state(4).tolist())
        return evaluation.log_partition(machine, starts=starts, random_state=seed).value
