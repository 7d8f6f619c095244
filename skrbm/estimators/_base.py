"""The base of the estimators that learn a density by moment matching."""

from dataclasses import replace
from itertools import pairwise
from math import inf, isfinite
from typing import ClassVar

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .. import evaluation
from .._ranks import ranks
from .._sklearn import _fit_context
from ..arrays import (
    Columns,
    cast,
    is_finite,
    make_rng,
    namespace,
    one_blas_thread,
    seed_sequence,
    to_numpy,
)
from ..evaluation import Density
from ..inference import FixedPoint, Sampler, chain_ends, draw_visible, resolve
from ..inputs import (
    THETA_ATTRIBUTES,
    RowBlocks,
    check_scale_known,
    machine_from,
    reference_of,
    rows_of,
    rows_with_weight,
)
from ..learning import (
    NATURAL,
    ChainPhase,
    FixedPointPhase,
    MomentLearner,
    Trainer,
    Training,
    check_integral,
    machine_of_first,
    recorder,
)
from ..machine import Machine
from ..units import Gaussian
from ._choices import optimizer_of, units_of
from ._density import DensityModel
from ._encoded import takes_table
from ._log_partition import solved_log_partition
from ._parts import (
    Parts,
    check_layers,
    machine_of_init,
    match_machine,
    most_rows,
    parameters_of_rows,
    resume,
)
from ._training import (
    check_settings_of_ranks,
    fit_rows,
    is_automatic,
    keeps_features,
    merge_means,
    prepare_fit,
    rate_of,
    seeds_of_fit,
    verbose_name,
)

_JOINT_COLUMNS = 200  # most columns of "gaussian" units that have a precision matrix
_MOST_ADOPTED = 1000  # chains of a machine of given parameters
_CHAINS = 100  # that a first partial_fit keeps, if batch_size is larger, however few its rows


def _learns_by_fixed_points(estimator):
    if estimator._own_fixed_point() is None:
        raise AttributeError(
            f"{type(estimator).__name__} samples, and only estimators whose inference is a fixed "
            "point, such as TAP, have solutions"
        )
    return True


class BaseRBM(DensityModel):
    """Base of the estimators that learn by moment matching.

    The parts of training are made of the parameters ``visible``, ``hidden``, ``inference`` and
    ``optimizer``. A subclass may replace

    - ``_units()``: the kinds of the visible and the hidden units, as they were asked for;
    - ``_parts(rows=None)``: the :class:`Parts`, for the rows of a first fit, or to continue;
    - ``_layer_sizes()``: the numbers of units of the hidden layers;
    - ``_first_machine(rows, rng, parts)``: the machine where training starts;
    - ``_pretrain(training, rows, index)``: learning that comes before the first epoch;
    - ``_density(machine, state, parts)``: a machine in training as a density;
    - ``_more_attributes(state, parts)``: fitted attributes besides the parameters, a dict;
    - ``_given(components, intercept_hidden, intercept_visible)``: arrays of ``from_parameters`` as
      a machine has them;
    - ``_adopted(machine, parts)``: itself, fitted as far as the parameters of a machine go.
    """

    _parameter_constraints: ClassVar[dict] = {}
    _takes_missing = _fits_on_ranks = _reads_blocks = True
    _fewest_batches = 1  # of an epoch with an automatic learning rate
    sample_values = False  # whether values of bits between 0 and 1 are probabilities
    _fewest_passes = 40
    _default_start, _default_solutions = "persistent", "data"
    _may_restart = False  # with weighted chains, if others do not mix
    _optimizer_defaults: ClassVar[dict] = {}

    def _units(self):
        visible, hidden = units_of(self)
        if self.visible == "gaussian" and self._has_joint_columns(hidden):
            visible = Gaussian(covariance="full")
        return visible, hidden

    def _has_joint_columns(self, hidden):
        """Whether the columns of "gaussian" units share a precision matrix.

        It gains much where columns are correlated, and costs the cube of their number in a step.
        Chains of Langevin steps and equations have none, and neither do weights with zeros.
        """
        method, n = self._method(), vars(self).get("n_features_in_", inf)
        return (
            n <= _JOINT_COLUMNS
            and not vars(self).get("_in_blocks", False)
            and ranks().size == 1
            and isinstance(method, Sampler)
            and method.step_size is None
            and isfinite(hidden.bounds[1] - hidden.bounds[0])
            and getattr(optimizer_of(self), "penalty", "l2") == "l2"
        )

    def _units_to_resume(self, machine):
        own, *hidden = self._units()
        is_named = getattr(self, "visible", None) == "gaussian"
        return (machine.units[0] if is_named else own), *hidden

    def _method(self):
        """Return the object behind ``inference``, for users' calls."""
        return resolve(self.inference, FixedPoint, Sampler)

    def _equations(self):
        """Return the fixed point behind ``inference``, for training."""
        return self._method()

    def _own_fixed_point(self):
        method = self._method()
        return method if isinstance(method, FixedPoint) else None

    def _parts(self, rows=None):
        check_scale_known(rows)
        method, optimizer, fallback = self._method(), optimizer_of(self), None
        if isinstance(method, FixedPoint):
            method.check_marginals()
            phase = FixedPointPhase(self._equations(), method.start or self._default_solutions)
        else:
            is_single = ranks().size == 1
            default = self._default_start if is_single and not method.has_rungs else "persistent"
            phase = ChainPhase(method, method.start or default)
            may_restart = method.start is None and is_automatic(self) and self._may_restart
            has_bits = self._units()[0].reach < inf  # others learn little by the steps of weights
            if may_restart and has_bits and phase.may_not_mix and is_single:
                fallback = replace(phase, start="weighted")
        return Parts(phase, optimizer, self._parameters(rows, optimizer), fallback=fallback)

    def _parameters(self, rows, optimizer):
        """Return what is learnt, by the rows of a first fit."""
        if rows is None:
            return self._training.parts.parameters if hasattr(self, "_training") else NATURAL
        return parameters_of_rows(rows, optimizer)

    def _layer_sizes(self):
        return [int(self.n_components)]

    def _pretrain(self, training, rows, index):
        """Change the machine of ``training`` by what comes before the first epoch."""

    def _in_training(self, parts):
        machine, coordinates = self.machine_, parts.coordinates
        return machine.copy() if coordinates is None else coordinates.machine_inward(machine).copy()

    def _is_finite(self, machine, parts):
        if not machine.is_finite():
            return False
        if parts.coordinates is None:
            return True
        outward = self._layout.attributes(parts.coordinates.machine_outward(machine))
        return all(is_finite(part) for name, part in outward.items() if name != "units_")

    def _given(self, components, intercept_hidden, intercept_visible):
        return components, intercept_hidden, intercept_visible

    def _density(self, machine, state, parts):
        starts, volume = parts.phase.visible(state), self._log_volume
        return Density(machine, starts, parts.coordinates, volume=volume)

    # ------------------------------------------------------------------------- training

    @_fit_context(prefer_skip_nested_validation=True)
    @keeps_features
    @one_blas_thread
    def fit(self, X, y=None, sample_weight=None):
        """Fit the model to data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Values of the visible units. NaN in a dense X is a missing value
            (:ref:`missing_values`). Files, datasets and batches are read in blocks
            (:ref:`large_data`).
        y : Ignored
        sample_weight : array-like of shape (n_samples,), default=None
            A row of weight 2 has the same expected gradient as two equal rows. Fractional weights
            are scaled to a mean of 1, and hold on average over the epochs.

        Returns
        -------
        self : object

        Raises
        ------
        DivergenceError
            If parameters are not finite, or the distribution cannot be normalized. The estimator
            keeps the parameters of the last complete epoch, as after Ctrl-C.
        """
        progress, resumes = prepare_fit(self)
        given, X = X, self._data_to_learn(X, resumes, sample_weight)
        if progress is not None:
            X = match_machine(X, self.machine_)
        # scikit-learn's ScoringMonitor passes over tasks without a y, which is ignored here.
        shown = given if takes_table(self) else X
        fit_rows(self, X, shown, sample_weight, resumes, progress)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    @keeps_features
    @one_blas_thread
    def partial_fit(self, X, y=None, sample_weight=None):
        """Train for one epoch on some rows, in batches of ``batch_size``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As in :meth:`fit`.
        y : Ignored
        sample_weight : array-like of shape (n_samples,), default=None
            As in :meth:`fit`.

        Returns
        -------
        self : object
        """
        self._validate_params()  # which scikit-learn does in the first call alone
        resumes = hasattr(self, "_training")
        check_settings_of_ranks(self, resumes)
        X = self._data_to_learn(X, resumes, sample_weight)
        # More rows may come, but no more chains than that are kept for a large batch_size.
        rows, training = self._start(X, sample_weight, resumes, fewest=_CHAINS)
        index = np.arange(len(rows))
        if not resumes:
            self._pretrain(training, rows, index)
            check_integral(training.machine, "before the first epoch")

        def publish(machine, state):
            self._publish(machine, state, training)

        n, epochs = training.n_rows + rows.n_known, training.n_epochs
        most = float(to_numpy(n).max())
        try:
            self._trainer(rows, index, training, publish, n_rows=most).run(training)
        finally:
            if training.n_epochs > epochs:  # the means are those of all rows learnt from
                means, known = rows.means, training.visible_means
                if known is not None:
                    means = merge_means(known, means, rows.n_known, n)
                training.n_rows, training.visible_means = n, means
                self.visible_means_ = cast(means, self.machine_.dtype)
        return self

    def _trainer(
        self, rows, index, training, publish, n_iter=1, n_rows=None, batch_size=None, **options
    ):
        """Return the :class:`Trainer` of a fit."""
        parts, length = training.parts, None
        if is_automatic(self):
            length = parts.phase.step_length(training.machine)
        learner = MomentLearner(
            rows,
            parts.phase,
            parts.optimizer,
            index=index,
            batch_size=min(batch_size or int(self.batch_size), most_rows(rows.X.shape[1])),
            length=length,
            parameters=parts.parameters,
            sample_values=self.sample_values,
            n_rows=n_rows,
            is_finite=lambda machine: self._is_finite(machine, parts),
            labels=parts.labels,
        )
        return Trainer(
            learner,
            publish,
            lambda machine, state: self._attributes(machine, state, training.parts),
            recorder(self.history_, verbose_name(self)),
            n_iter=n_iter,
            rate=rate_of(self, parts.optimizer),
            **options,
        )

    def _data_to_learn(self, X, resumes, weights):
        can = {"missing": self._takes_missing, "blocks": self._reads_blocks}
        X = self._encode(X, not resumes, **can, sample_weight=weights)
        self._in_blocks = isinstance(X, RowBlocks)
        if not self._in_blocks:
            self._units()[0].check_values(X)
        return X

    def _start(self, X, sample_weight, resumes, fewest=0, progress=None):
        """Return the rows and what a fit starts from, for data of ``fewest`` rows at least.

        It is None if ``progress`` is that of a fit that has come to its end.
        """
        weights, X = rows_with_weight(sample_weight, X)
        if progress is not None:
            machine, coordinates = self.machine_, self._training.parts.coordinates
            unit = machine.units[0]
            rows = rows_of(X, unit, machine.dtype, weights=weights, coordinates=coordinates)
            return rows, progress.begun(rows.fingerprint)
        return (self._resume if resumes else self._begin)(X, weights, fewest)

    def _begin(self, X, weights, fewest):
        self._evaluation_seed, seed = seeds_of_fit(self.random_state)
        place, unit = reference_of(X), self._units()[0]
        rng = make_rng(seed, place)
        rows = rows_of(X, unit, place.dtype, weights=weights, first=True)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            parts = self._parts(rows)
            rows.coordinates, n_rows = parts.coordinates, max(rows.total, fewest)
            machine = machine_of_first(self._first_machine(rows, rng, parts))
            finite = self._is_finite(machine, parts)
        if not finite:
            raise ValueError(f"the first parameters overflow {machine.dtype}; scale X")
        n = parts.rows_of_state(int(self.batch_size), n_rows, machine.n_units[0], rows.part)
        state = parts.phase.init(machine, rng, n, rows.some(n, rng))
        self.history_ = {}
        velocity = parts.optimizer.init(parts.parameters.of(machine))
        return rows, Training(rng, machine, state, velocity, parts=parts)

    def _resume(self, X, weights, fewest):
        training, parts = self._training.continued(), self._parts()
        machine = self._in_training(parts)
        units = self._units_to_resume(machine)
        check_layers(machine, units, self._layer_sizes(), self.n_components)
        unit, coordinates = machine.units[0], parts.coordinates
        rows = rows_of(X, unit, machine.dtype, weights=weights, coordinates=coordinates)
        n_rows = max(rows.total, fewest)
        resume(training, parts, machine, self.starts_, int(self.batch_size), n_rows, rows.part)
        return rows, training

    def _first_machine(self, rows, rng, parts):
        machine = self._random_machine(rows, rng)
        if isinstance(self.init, str):
            return parts.parameters.first(machine)
        return machine_of_init(self.init, machine, self.n_components)

    def _first_deviation(self, n_below):
        return 0.01

    def _random_machine(self, rows, rng):
        """Return a machine with small weights whose visible units fit the data."""
        units = (rows.unit, *(unit.fitted().as_hidden() for unit in self._units()[1:]))
        sizes = [rows.X.shape[1], *self._layer_sizes()]
        weights = [self._first_deviation(m) * rng.normal((n, m)) for m, n in pairwise(sizes)]
        thetas = [unit.default_theta(n, weights[0]) for unit, n in zip(units, sizes, strict=True)]
        thetas[0] = rows.initial_theta.map(lambda part: namespace(part).asarray(part, copy=True))
        return Machine(units, tuple(thetas), tuple(weights))

    def _attributes(self, machine, state, parts):
        coordinates, phase = parts.coordinates, parts.phase
        starts, ladder = phase.visible(state), phase.ladder(machine, state)
        if coordinates is not None:
            machine, starts = coordinates.machine_outward(machine), coordinates.outward(starts)
            ladder = ladder and coordinates.ladder_outward(ladder)
        found = self._layout.attributes(machine) | {"starts_": starts}
        found |= self._more_attributes(state, parts)
        return found if ladder is None else found | {"ladder_": ladder}

    def _more_attributes(self, state, parts):
        return {}

    def _publish(self, machine, state, training):
        found = self._attributes(machine, state, training.parts)
        for name in {*self._layout.optional, "ladder_"} - found.keys():  # those of an earlier fit
            self.__dict__.pop(name, None)
        vars(self).update(found)
        if training.visible_means is not None:
            self.visible_means_ = cast(training.visible_means, machine.dtype)
        phase = training.parts.phase
        training.phase_state = phase.kept(state)  # messages may be larger than the weights
        self._training, self.n_iter_ = training, training.n_epochs

    # ------------------------------------------------------------ machines of given parameters

    @one_blas_thread
    def _adopted(self, machine, parts):
        """Return self, fitted as far as the parameters of a machine go."""
        evaluation_seed, seed = seed_sequence(self.random_state).spawn(2)
        self._evaluation_seed = evaluation_seed.state
        rng = make_rng(seed, machine.weights[0])
        n = parts.rows_of_state(int(self.batch_size), _MOST_ADOPTED, machine.n_units[0])
        rows = chain_ends(machine, rng, draw_visible(machine, rng, n))
        state = parts.phase.init(machine, rng, n, rows)
        self.n_features_in_, self.history_ = machine.n_units[0], {}
        self._publish(machine, state, Training(rng, phase_state=state, parts=parts))
        self.starts_ = rows
        return self

    @classmethod
    def from_parameters(cls, components, intercept_hidden=None, intercept_visible=None, **params):
        """Create a fitted estimator from arrays.

        Parameters
        ----------
        components : array-like of shape (n_components, n_features), or fitted estimator
            Weights; or a fitted estimator whose arrays are copied, such as a
            :class:`sklearn.neural_network.BernoulliRBM`.
        intercept_hidden : array-like of shape (n_components,), default=None
            Biases of the hidden units; default: zeros.
        intercept_visible : array-like of shape (n_features,), default=None
            Biases of the visible units; default: zeros.
        **params
            Parameters of the estimator other than ``n_components``; and, of units that have them,
            the arrays ``precision_visible``, ``spike_visible``, ``precision_hidden`` and
            ``spike_hidden``. Bounds are by default those of the fitted estimator if it has the same
            kind of units, otherwise [-1, 1] or, with a point mass, [0, 1].

        Returns
        -------
        estimator : object
            Fitted, with copies of the arrays.
        """
        names = [name.rstrip("_") for name in THETA_ATTRIBUTES if name.rstrip("_") in params]
        more = {name: params.pop(name) for name in names}
        rbm = cls(**params)
        given = rbm._given(components, intercept_hidden, intercept_visible)
        units = rbm._units()
        kept = getattr(components, "units_", units)  # bounds that were taken from data
        units = tuple(
            unit.fitted(Columns(np.array([old.bounds])) if type(old) is type(unit) else None)
            for unit, old in zip(units, kept, strict=True)
        )
        machine = machine_from(*given, units, **more)
        rbm.n_components = machine.n_units[1]
        rbm._validate_params()
        return rbm._adopted(machine, rbm._parts())

    # ------------------------------------------------------------- solutions and posteriors

    @available_if(_learns_by_fixed_points)
    def tap_log_likelihood(self, X, starts=None):
        """Compute the TAP log-likelihood of each sample (Eq. 39 of Tramel et al. 2018).

        log p(v) ≈ -F(v) + mean of the free energies of the distinct solutions of ``inference``
        that are reached from ``starts``. Other solutions do not count: if the model has modes away
        from the data, the result is too large, sometimes by tens of nats. Use
        :meth:`score_samples` to compare models.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        starts : array-like of shape (n_starts, n_features), default=None
            Visible values at which iterations start; default: those kept from ``fit``.

        Returns
        -------
        log_likelihood : array of shape (n_samples,)
            In nats, float64.

        Warns
        -----
        LikelihoodWarning
            If it is more than 0.1 nats too large, where a layer is small enough for an exact log Z.
        """
        free_energy, method = self.free_energy(X), self._own_fixed_point()
        if starts is None:
            return -free_energy - solved_log_partition(self, method)
        return -free_energy - evaluation.log_partition(self, method, starts=starts).value

    @available_if(_learns_by_fixed_points)
    def solutions(self, X=None, *, unique_tol=1e-2):
        """Find the distinct solutions of the mean-field equations, the modes of the model.

        The equations of ``inference`` are iterated to convergence from each row, in float64, and
        equal solutions are merged (Sec. VII.3 of Tramel et al. 2018).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Visible values at which iterations start, such as rows of data; default: those kept
            from ``fit``.
        unique_tol : float, default=1e-2
            Solutions are merged if all visible means differ by less, or if a chain of such pairs
            links them.

        Returns
        -------
        solutions : Solutions
            Means, variances and free energies, sorted by free energy; how many rows each attracts,
            and which (:class:`skrbm.evaluation.Solutions`).

        Warns
        -----
        ConvergenceWarning
            If no row converges. The last states are then returned.
        """
        check_is_fitted(self)
        if X is not None and not takes_table(self):  # else evaluation does it
            X = self._encode(X)
        return evaluation.solutions(self, self._own_fixed_point(), X, unique_tol=unique_tol)
