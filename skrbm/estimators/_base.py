"""The base of the estimators that learn a density by moment matching."""

from itertools import pairwise
from typing import ClassVar

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .. import evaluation
from .._sklearn import _fit_context
from ..arrays import Columns, cast, make_rng, namespace, one_blas_thread, seed_sequence, to_numpy
from ..evaluation import Density
from ..inference import chain_ends, draw_visible
from ..inputs import (
    THETA_ATTRIBUTES,
    machine_from,
    public_parts,
    reference_of,
    rows_of,
    rows_with_weight,
)
from ..learning import (
    MomentLearner,
    Trainer,
    Training,
    check_integral,
    machine_of_first,
    recorder,
)
from ..machine import Machine
from ._density import DensityModel
from ._encoded import takes_table
from ._parts import as_learnt, check_layers, machine_of_init, resume
from ._training import (
    DENSITY_CONSTRAINTS,
    check_settings_of_ranks,
    fit_rows,
    how_it_begins,
    is_automatic,
    joined_means,
    keeps_features,
    name_in_print,
    rate_of,
    seeds_of_fit,
)

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

    A subclass gives two methods:

    - ``_units()``: the kinds of the visible and the hidden units, as they were asked for;
    - ``_parts(rows=None)``: a :class:`Parts`, for the rows of a first fit, or to go on.

    These have defaults:

    - ``_layer_sizes()``: the numbers of units of the hidden layers;
    - ``_first_machine(rows, rng, parts)``: the machine where training starts;
    - ``_first_deviation(n_below)``: the standard deviation of its weights to ``n_below`` units;
    - ``_pretrain(training, rows, index)``: learning that comes before the first epoch;
    - ``_in_training(parts)``: the fitted machine in the coordinates of training;
    - ``_is_finite(machine, parts)``: whether a machine in training can be published;
    - ``_attributes(machine, state, parts)``: the fitted attributes;
    - ``_density(machine, state, parts)``: a machine in training as a density;
    - ``_given(components, intercept_hidden, intercept_visible)``: given parameters, as a machine
      has them;
    - ``_own_fixed_point()``: the equations that it learns by, None if it samples;
    - ``_data_to_learn(X, goes_on, weights)``: X of a fit, checked;
    - ``_adopted(machine, parts)``: itself, fitted as far as the parameters of a machine go.
    """

    _parameter_constraints: ClassVar[dict] = DENSITY_CONSTRAINTS
    _takes_missing = _fits_on_ranks = _reads_blocks = True
    _fewest_batches = 1  # of a pass by an automatic learning rate
    centered = average = sample_values = False

    def _units(self):
        raise NotImplementedError

    def _units_to_resume(self, machine):
        return self._units()

    def _parts(self, rows=None):
        raise NotImplementedError

    def _layer_sizes(self):
        return [self.n_components]

    def _pretrain(self, training, rows, index):
        """Change the machine of ``training`` by what comes before the first epoch."""

    def _in_training(self, parts):
        return self.machine_.copy()

    def _is_finite(self, machine, parts):
        return machine.is_finite()

    def _given(self, components, intercept_hidden, intercept_visible):
        return components, intercept_hidden, intercept_visible

    def _density(self, machine, state, parts):
        return Density(machine, parts.phase.visible(state))

    # ------------------------------------------------------------------------- training

    @_fit_context(prefer_skip_nested_validation=True)
    @keeps_features
    @one_blas_thread
    def fit(self, X, y=None, sample_weight=None):
        """Fit the machine to data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Values of the visible units. NaN in a dense X is a missing value
            (:ref:`missing_values`).
            Files, datasets and batches are read in blocks (:ref:`large_data`).
        y : Ignored
        sample_weight : array-like of shape (n_samples,), default=None
            How many rows each row stands for: a weight of 2 does exactly what the row twice does.
            Weights that are not whole numbers are met on average over the epochs.

        Returns
        -------
        self : object

        Raises
        ------
        DivergenceError
            If parameters stop being finite, or the distribution has no integral any more. As after
            an interruption by Ctrl-C, the estimator then keeps the parameters of the last complete
            epoch.
        """
        progress, goes_on = how_it_begins(self)
        given, X = X, self._data_to_learn(X, goes_on, sample_weight)
        if progress is not None:
            X = as_learnt(X, self.machine_)
        # scikit-learn's ScoringMonitor passes over tasks without a y, which is ignored here.
        shown = given if takes_table(self) else X
        fit_rows(self, X, shown, sample_weight, goes_on, progress)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    @keeps_features
    @one_blas_thread
    def partial_fit(self, X, y=None, sample_weight=None):
        """Go once through some rows of data, in batches of ``batch_size``.

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
        goes_on = hasattr(self, "_training")
        check_settings_of_ranks(self, goes_on)
        X = self._data_to_learn(X, goes_on, sample_weight)
        # More rows may come, but no more chains than that are kept for a large batch_size.
        rows, training = self._start(X, sample_weight, goes_on, fewest=_CHAINS)
        index = np.arange(len(rows))
        if not goes_on:
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
                    means = joined_means(known, means, rows.n_known, n)
                training.n_rows, training.visible_means = n, means
                self.visible_means_ = cast(means, self.machine_.dtype)
        return self

    def _trainer(
        self, rows, index, training, publish, n_iter=1, n_rows=None, batch_size=None, **options
    ):
        """Return the :class:`Trainer` of a fit."""
        parts, rate, length = training.parts, rate_of(self), None
        if is_automatic(self):
            length = parts.phase.step_length(training.machine)
        learner = MomentLearner(
            rows,
            parts.phase,
            parts.optimizer,
            index=index,
            batch_size=batch_size or self.batch_size,
            shuffle=self.shuffle,
            length=length,
            parameters=parts.parameters,
            centered=self.centered,
            average=self.average,
            sample_values=self.sample_values,
            n_rows=n_rows,
            is_finite=lambda machine: self._is_finite(machine, parts),
            labels=parts.labels,
        )
        return Trainer(
            learner,
            publish,
            lambda machine, state: self._attributes(machine, state, training.parts),
            recorder(self.history_, name_in_print(self)),
            n_iter=n_iter,
            rate=rate,
            **options,
        )

    def _data_to_learn(self, X, goes_on, weights):
        can = {"missing": self._takes_missing, "blocks": self._reads_blocks}
        return self._encode(X, not goes_on, **can, sample_weight=weights)

    def _start(self, X, sample_weight, goes_on, fewest=0, progress=None):
        """Return the rows and what a fit starts from, for data of ``fewest`` rows at least.

        It is None if ``progress`` is that of a fit that has come to its end.
        """
        weights, X = rows_with_weight(sample_weight, X)
        if progress is not None:
            machine, coordinates = self.machine_, self._training.parts.coordinates
            unit = machine.units[0]
            rows = rows_of(X, unit, machine.dtype, self.binarize, weights, coordinates)
            return rows, progress.begun(rows.fingerprint)
        return (self._resume if goes_on else self._begin)(X, weights, fewest)

    def _begin(self, X, weights, fewest):
        self._evaluation_seed, seed = seeds_of_fit(self.random_state)
        place, unit = reference_of(X), self._units()[0]
        rng = make_rng(seed, place)
        rows = rows_of(X, unit, place.dtype, self.binarize, weights, first=True)
        parts = self._parts(rows)
        rows.coordinates, n_rows = parts.coordinates, max(rows.total, fewest)
        machine = machine_of_first(self._first_machine(rows, rng, parts))
        with np.errstate(over="ignore", invalid="ignore"):
            finite = self._is_finite(machine, parts)
        if not finite:
            raise ValueError(f"the first parameters overflow {machine.dtype}; scale X")
        n = parts.rows_of_state(self.batch_size, n_rows, rows.part)
        state = parts.phase.init(machine, rng, n, rows.some(n, rng))
        self.history_ = {}
        velocity = parts.optimizer.init(parts.parameters.of(machine))
        return rows, Training(rng, machine, state, velocity, parts=parts)

    def _resume(self, X, weights, fewest):
        training, parts = self._training, self._parts()
        machine = self._in_training(parts)
        units = self._units_to_resume(machine)
        check_layers(machine, units, self._layer_sizes(), self.n_components)
        unit, coordinates = machine.units[0], parts.coordinates
        rows = rows_of(X, unit, machine.dtype, self.binarize, weights, coordinates)
        n_rows = max(rows.total, fewest)
        resume(training, parts, machine, self.starts_, self.batch_size, n_rows, rows.part)
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
        layers = zip(machine.units, machine.thetas, strict=True)
        values = (part for unit, theta in layers for part in public_parts(unit, theta))
        named = zip(THETA_ATTRIBUTES, values, strict=True)
        ladder = parts.phase.ladder(machine, state)
        return {
            "units_": machine.units,
            "components_": machine.weights[0],
            **{name: part for name, part in named if part is not None},
            "starts_": parts.phase.visible(state),
            **({} if ladder is None else {"ladder_": ladder}),
        }

    def _publish(self, machine, state, training):
        found = self._attributes(machine, state, training.parts)
        for name in {*THETA_ATTRIBUTES, "ladder_"} - found.keys():  # those of an earlier fit
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
        n = parts.rows_of_state(self.batch_size, _MOST_ADOPTED)
        rows = chain_ends(machine, rng, draw_visible(machine, rng, n))
        state = parts.phase.init(machine, rng, n, rows)
        self.n_features_in_, self.history_ = machine.n_units[0], {}
        self._publish(machine, state, Training(rng, phase_state=state, parts=parts))
        self.starts_ = rows
        return self

    @classmethod
    def from_parameters(cls, components, intercept_hidden=None, intercept_visible=None, **params):
        """Build a fitted machine from arrays.

        Parameters
        ----------
        components : array-like of shape (n_components, n_features), or fitted estimator
            Weights; or a machine of which all arrays are taken, such as a fitted
            :class:`sklearn.neural_network.BernoulliRBM`.
        intercept_hidden : array-like of shape (n_components,), default=None
            Biases of the hidden units; default: zeros.
        intercept_visible : array-like of shape (n_features,), default=None
            Biases of the visible units; default: zeros.
        **params
            Parameters of the estimator other than ``n_components``. Where its units have more
            parameters than a bias, also the arrays ``precision_visible``, ``spike_visible``,
            ``precision_hidden`` and ``spike_hidden``; default: those of units that know no
            data. Bounds that are not given are those of a fitted machine with the same kind of
            units, else [-1, 1] or, with a point mass, [0, 1].

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

        log p(v) ≈ -F(v) + mean of the free energies of the unique solutions found from ``starts``,
        by the estimator's own ``inference``, whatever the size of the layers. Solutions that no
        start leads to do not count: where the machine has grown modes away from the data the result
        is too large, at times by tens of nats. :meth:`score_samples` is the estimate to compare
        machines by.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        starts : array-like of shape (n_starts, n_features), default=None
            Visible values from which solutions are looked for; default: those kept from fit.

        Returns
        -------
        log_likelihood : array of shape (n_samples,)
            In nats, float64.
        """
        free_energy, method = self.free_energy(X), self._own_fixed_point()
        if starts is None:
            return -free_energy - self.log_partition(method)
        return -free_energy - evaluation.log_partition(self, method, starts=starts).value

    @available_if(_learns_by_fixed_points)
    def solutions(self, X=None, *, unique_tol=1e-2):
        """Find the distinct solutions of the mean-field equations: the modes of the machine.

        Each row is followed to convergence by the estimator's own ``inference``, in float64, and
        the ends that are one solution are brought together (Sec. VII.3 of Tramel et al. 2018).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Visible values to start at, such as rows of data; default: those kept from fit.
        unique_tol : float, default=1e-2
            Two solutions are one if no visible mean differs by this much or more, or if a chain of
            such pairs links them, so that their number does not depend on the order of the rows.

        Returns
        -------
        solutions : Solutions
            Means, variances and free energies, the lowest first; how many rows each attracts, and
            which; the numbers of solutions at other tolerances; estimates of log Z. See
            :class:`skrbm.evaluation.Solutions`.

        Warns
        -----
        ConvergenceWarning
            If no row converges. The states where they ended are then returned.
        """
        check_is_fitted(self)
        if X is not None and not takes_table(self):  # else evaluation does it
            X = self._encode(X)
        return evaluation.solutions(self, self._own_fixed_point(), X, unique_tol=unique_tol)
