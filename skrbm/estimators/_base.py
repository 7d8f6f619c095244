"""Base class of the estimators that learn a density by moment matching."""

from dataclasses import replace
from itertools import pairwise
from math import ceil, inf
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from .._ranks import ranks
from .._sklearn import with_callbacks
from ..arrays import (
    Columns,
    as_like,
    cast,
    is_finite,
    make_rng,
    namespace,
    one_blas_thread,
    parameter_reference,
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
    rows_of,
    rows_with_weight,
)
from ..learning import (
    CHAINS,
    LEAST_KNOWN,
    NATURAL,
    EarlyStopping,
    FixedPointPhase,
    LikelihoodMonitor,
    MomentLearner,
    Training,
    check_integral,
    low_rank,
    machine_of_first,
    most_rows,
)
from ..machine import Machine, has_integral
from ._density import DensityModel
from ._encoded import takes_table
from ._log_partition import keep_runs
from ._recipe import (
    Recipe,
    check_layers,
    layer_sizes,
    machine_of_init,
    parameters_of_rows,
    spread,
    warn_of_constants,
)
from ._shared import optimizer_of, units_of
from ._training import (
    check_settings_of_ranks,
    for_callbacks,
    is_automatic,
    learns,
    prepare_fit,
    resumed_optimizer,
    seeds_of_fit,
    trainer_of,
)

_TOL = 0.01  # nats per row of validation that count as an improvement
_STEPS = 1000  # of a fit with n_iter="auto" at least
_LEAST_EPOCHS, _ENOUGH_STEPS = 40, 4000  # beyond which more epochs than these gain little
_STEPS_OF_JOINT = 3000  # the same where columns have a precision matrix, of many parameters
_MOST_ADOPTED = 1000  # chains of a machine of given parameters
_MOST_HALVED = 30  # times that first weights are halved for the distribution to be normalizable
_CHAINS = 100  # that a first partial_fit keeps, if batch_size is larger, however few its rows


class BaseRBM(DensityModel):
    """Base class of the estimators that learn by moment matching.

    Subclasses define their signature, and may override ``_recipe`` and ``_units``.
    """

    _parameter_constraints: ClassVar[dict] = {}
    _optimizer_defaults: ClassVar[dict] = {}
    _takes_missing = _fits_on_ranks = _reads_blocks = True
    _fewest_batches = 1  # of an epoch, and
    _measures_epochs = True  # whether the likelihood is measured after each epoch
    _usual_epochs = _LEAST_EPOCHS  # with n_iter="auto"

    def _units(self):
        """Return the kinds of the visible and the hidden units."""
        return units_of(self)

    def _method(self):
        return resolve(self.inference, FixedPoint, Sampler)

    @property
    def _starts_at_rows(self):
        """Whether chains start at rows of data, since the initial machine is already trained."""
        return not (isinstance(self.init, str) and self.init == "random")

    def _own_fixed_point(self):
        method = self._method()
        return method if isinstance(method, FixedPoint) else None

    def _recipe(self, rows=None, *, start="persistent", equations="data", **options):
        """Return the :class:`Recipe`, for the rows of a first fit or to continue.

        ``start`` and ``equations`` are the default starts of chains and of fixed points.
        ``options`` are further fields; unless ``parameters`` is among them, these are standardized
        by the columns.
        """
        method, optimizer = self._method(), optimizer_of(self)
        if isinstance(method, FixedPoint):
            method.check_marginals()
            phase = FixedPointPhase(method, method.start or equations)
        else:
            if ranks().size > 1 or method.has_rungs:
                start = "persistent"
            phase = CHAINS[method.start or start](method, at_rows=self._starts_at_rows)
        if "parameters" not in options:
            own = self._training.recipe.parameters if hasattr(self, "_training") else NATURAL
            options["parameters"] = own if rows is None else parameters_of_rows(rows, optimizer)
        return Recipe(phase, optimizer, **options)

    # ------------------------------------------------------------------------- training

    @with_callbacks
    @learns
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
            Weights of the rows: in expectation, a weight of 2 is equivalent to repeating the row.
            Fractional weights are scaled to a mean of 1, and hold on average over the epochs.

        Returns
        -------
        self : object

        Raises
        ------
        DivergenceError
            If the parameters diverge, or the distribution cannot be normalized. The estimator
            keeps the parameters of the last complete epoch, as after Ctrl-C.

        Warns
        -----
        ConvergenceWarning
            If training diverges with an automatic step length; or if the chains did not mix, or the
            fitted model is worse than one with independent columns. The message names remedies.
        """
        progress, resumes = prepare_fit(self)
        given, X = X, self._data_to_learn(X, resumes, sample_weight)
        # scikit-learn's ScoringMonitor passes over tasks without a y, which is ignored here.
        shown = given if takes_table(self) else X
        if progress is not None and not isinstance(X, RowBlocks):
            X = X if sp.issparse(X) else as_like(X, self.machine_.weights[0])
            X = cast(X, self.machine_.dtype)  # as in the first fit
        weights, X = rows_with_weight(sample_weight, X)
        if progress is not None:
            rows = self._rows_to_resume(X, weights, self._training.recipe)
            training = progress.begun(rows.fingerprint)
            if training is None:
                return self
        else:
            rows, training = (self._resume if resumes else self._begin)(X, weights)
        batch_size, n_iter = self._sizes_of_fit(rows)
        callbacks = for_callbacks(self, shown, shown, rows, training, progress, n_iter)
        train, validation = np.arange(len(rows)), None
        stopping = EarlyStopping.of(getattr(self, "early_stopping", False), n_iter, _TOL)
        if stopping is not None:
            train, validation = rows.split(stopping.validation_fraction, training.rng)
        if not resumes:
            self._pretrain(training, rows, train)
            check_integral(training.machine, "before the first epoch")
        labels = training.recipe.labels
        monitor = LikelihoodMonitor(
            lambda machine, state: self._density(machine, state, training.recipe),
            training.recipe.phase,
            rows,
            train,
            validation,
            stopping=stopping,
            batch_size=batch_size,
            seed=seed_sequence(self._evaluation_seed),
            is_density=labels is None or labels.part < 0.5,
            has_rate=not is_automatic(self),
            settings=self.get_params(deep=False),
            every_epoch=ranks().any(self._measures_epochs),
            keep_runs=lambda density: keep_runs(self, density),
        )

        def publish(machine, state, training=training, estimator=self):
            means, before = rows.means, training.visible_means
            if before is not None:  # which stay where no value is known
                means = namespace(means).where(means == means, means, before)
            training.n_rows, training.visible_means = rows.n_known, means
            estimator._publish(machine, state, training)

        options = {"n_iter": n_iter, "monitor": monitor, **callbacks}
        self._learn(rows, train, training, publish, batch_size, **options)
        return self

    @learns
    def partial_fit(self, X, y=None, sample_weight=None):
        """Train for one epoch on some rows, in batches of ``batch_size``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As in :meth:`fit`.
        y : Ignored
        sample_weight : array-like of shape (n_samples,), default=None
            As in :meth:`fit`. Fractional weights are scaled to a mean of 1 in each call.

        Returns
        -------
        self : object
        """
        self._validate_params()  # which scikit-learn does in the first call alone
        resumes = hasattr(self, "_training")
        check_settings_of_ranks(self, resumes)
        X = self._data_to_learn(X, resumes, sample_weight)
        weights, X = rows_with_weight(sample_weight, X)
        # More rows may come, but no more chains than that are kept for a large batch_size.
        rows, training = (self._resume if resumes else self._begin)(X, weights, fewest=_CHAINS)
        index = np.arange(len(rows))
        if not resumes:
            self._pretrain(training, rows, index)
            check_integral(training.machine, "before the first epoch")
        n, epochs = training.n_rows + rows.n_known, training.n_epochs

        def publish(machine, state):
            means, known = rows.means, training.visible_means
            if training.n_epochs > epochs:  # the means are those of all rows learnt from
                if known is not None:
                    with np.errstate(invalid="ignore"):
                        step = (means - known) * (rows.n_known / n)
                    # It is NaN where no value came.
                    means = known + namespace(step).where(step == step, step, 0.0 * known)
                training.n_rows, training.visible_means = n, means
            self._publish(machine, state, training)

        most = float(to_numpy(n).max()) * rows.known_share_of_joint  # as there are fewer pairs
        self._learn(rows, index, training, publish, int(self.batch_size), n_rows=most)
        return self

    def _learn(self, rows, index, training, publish, batch_size, n_rows=None, **options):
        recipe, length = training.recipe, None
        if is_automatic(self):
            length = recipe.phase.step_length(training.machine)
            if self._own_fixed_point() is None:
                share = min(rows.known_share, rows.known_share_of_joint)
                length = length.of_known(share)
        learner = MomentLearner(
            rows,
            recipe.phase,
            recipe.optimizer,
            index=index,
            batch_size=min(batch_size, most_rows(rows.X.shape[1])),
            length=length,
            parameters=recipe.parameters,
            sample_values=recipe.sample_values,
            n_rows=rows.n_informative if n_rows is None else n_rows,
            is_finite=lambda machine: self._is_finite(machine, recipe),
            labels=recipe.labels,
        )

        def attributes(machine, state):
            return self._attributes(machine, state, recipe)

        trainer_of(self, learner, recipe.optimizer, publish, attributes, **options).run(training)

    def _sizes_of_fit(self, rows):
        """Return the maximum number of rows in a batch, and the number of epochs.

        With few rows there would be too few steps for an automatic step length with chains.
        """
        by_chains = is_automatic(self) and self._own_fixed_point() is None
        fewest, total = self._fewest_batches if by_chains else 1, int(rows.total)
        batch_size = min(int(self.batch_size), max(1, -(-total // fewest)))
        if not isinstance(self.n_iter, str):
            return batch_size, int(self.n_iter)
        if not by_chains:
            return batch_size, self._usual_epochs
        n_batches = max(1, -(-total // batch_size))
        enough = min(self._usual_epochs, _ENOUGH_STEPS // n_batches)
        n_epochs = max(_LEAST_EPOCHS, enough, ceil(_STEPS / n_batches))
        if rows.unit.is_joint:  # a precision matrix overfits few observed values in long fits
            of_joint = ceil(_STEPS_OF_JOINT * rows.known_share_of_joint / n_batches)
            return batch_size, max(n_epochs, of_joint)
        return batch_size, ceil(n_epochs / max(rows.known_share, LEAST_KNOWN))

    def _data_to_learn(self, X, resumes, sample_weight):
        options = {"missing": self._takes_missing, "blocks": self._reads_blocks}
        X = self._encode(X, not resumes, **options, sample_weight=sample_weight)
        self._in_blocks = isinstance(X, RowBlocks)
        if not self._in_blocks:
            self._units()[0].check_values(X)
        return X

    # ---------------------------------------------------------------- where a fit starts

    def _begin(self, X, weights, fewest=0):
        """Return rows and a new training, for data of ``fewest`` rows at least."""
        self._evaluation_seed, seed = seeds_of_fit(self.random_state)
        place = X.place if isinstance(X, RowBlocks) else parameter_reference(X)
        rng = make_rng(seed, place)
        rows = rows_of(X, self._units()[0], place.dtype, weights=weights, first=True)
        check_scale_known(rows)
        if not takes_table(self):  # which replaces such values
            n = rows.X.shape[1]
            warn_of_constants(rows, list(getattr(self, "feature_names_in_", range(n))))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            recipe = self._recipe(rows)
            rows.coordinates, n_rows = recipe.coordinates, max(rows.total, fewest)
            machine = machine_of_first(self._first_machine(rows, rng, recipe))
            finite = self._is_finite(machine, recipe)
        if not finite:
            raise ValueError(f"the initial parameters overflow {machine.dtype}; scale X")
        n = recipe.rows_of_state(int(self.batch_size), n_rows, machine.n_units[0], rows.part)
        state = recipe.phase.init(machine, rng, n, rows.some(n, rng)[0])
        self.history_ = {}
        velocity = recipe.optimizer.init(recipe.parameters.of(machine))
        return rows, Training(rng, machine, state, velocity, recipe=recipe)

    def _resume(self, X, weights, fewest=0):
        """Return rows and the training of an earlier fit, with the usable parts of its state."""
        training, recipe = self._training.continued(), self._recipe()
        machine, before, units = self.machine_, training.recipe, self._units()
        if getattr(self, "visible", None) == "gaussian":  # with or without a precision matrix
            units = machine.units[0], *units[1:]
        check_layers(machine, units, layer_sizes(self.n_components), self.n_components)
        if recipe.coordinates is not None:
            machine = recipe.coordinates.machine_inward(machine)
        machine, rows = machine.copy(), self._rows_to_resume(X, weights, recipe)
        training.recipe = recipe
        phase, n, width = recipe.phase, int(self.batch_size), machine.n_units[0]
        least = recipe.rows_of_state(n, max(rows.total, fewest), width, rows.part)
        most = recipe.rows_of_state(n, inf, width, rows.part)
        serves = phase.kind == before.phase.kind
        if ranks().any(not (serves and least <= self.starts_.shape[0] <= most)):
            training.phase_state = phase.init(machine, training.rng, least, self.starts_)
        training.optimizer_state = resumed_optimizer(
            training, before.optimizer, recipe.optimizer, recipe.parameters.of(machine)
        )
        training.resume_from(machine)
        training.n_restored, training.length_factor = 0, 1.0
        return rows, training

    def _rows_to_resume(self, X, weights, recipe):
        unit, dtype = self.machine_.units[0], self.machine_.dtype
        return rows_of(X, unit, dtype, weights=weights, coordinates=recipe.coordinates)

    def _first_machine(self, rows, rng, recipe):
        """Return the initial machine, whose visible units are fitted to the data."""
        units = (rows.unit, *(unit.fitted().as_hidden() for unit in self._units()[1:]))
        sizes = [rows.X.shape[1], *layer_sizes(self.n_components)]
        weights = [recipe.deviation * rng.normal((n, m)) for m, n in pairwise(sizes)]
        thetas = [unit.default_theta(n, weights[0]) for unit, n in zip(units, sizes, strict=True)]
        thetas[0] = rows.initial_theta.map(lambda part: namespace(part).asarray(part, copy=True))
        machine = Machine(units, tuple(thetas), tuple(weights))
        if not isinstance(self.init, str):
            return machine_of_init(self.init, machine, self.n_components)
        for _ in range(_MOST_HALVED):  # where rectified units have a small precision
            first = recipe.parameters.first(machine)
            if has_integral(first):
                break
            machine = replace(machine, weights=tuple(0.5 * W for W in machine.weights))
        are_binary = all(len(unit.values or ()) == 2 for unit in first.units)
        first_weights = spread if recipe.is_spread and are_binary else lambda machine: machine
        if self.init == "low_rank":
            if ranks().size > 1 or rows.has_missing:
                raise ValueError("init='low_rank' requires complete rows and a single process")
            seed = int(rng.integers(2**31, 1)[0])
            return low_rank(first, lambda n: rows.some(n, rng)[0], seed, first_weights)
        return first_weights(first)

    def _pretrain(self, training, rows, index):
        """Pretrain the machine of ``training``, before the first epoch."""

    # ------------------------------------------------------------- what a fit publishes

    def _is_finite(self, machine, recipe):
        if not machine.is_finite():
            return False
        if recipe.coordinates is None:
            return True
        outward = self._layout.attributes(recipe.coordinates.machine_outward(machine))
        return all(is_finite(part) for name, part in outward.items() if name != "units_")

    def _density(self, machine, state, recipe):
        """Return a machine in training as a density."""
        starts = recipe.phase.visible(state)
        return Density(machine, starts, recipe.coordinates, volume=self._log_volume)

    def _attributes(self, machine, state, recipe):
        coordinates, phase = recipe.coordinates, recipe.phase
        starts, ladder = phase.visible(state), None
        if self._method().start == "tempered":  # else averaged parameters may be far from it
            ladder = phase.ladder(machine, state)
        if coordinates is not None:
            machine, starts = coordinates.machine_outward(machine), coordinates.outward(starts)
            ladder = ladder and coordinates.ladder_outward(ladder)
        found = self._layout.attributes(machine) | {"starts_": starts}
        if recipe.noise is not None:
            found |= dict(zip(("noise_mean_", "noise_scale_"), recipe.noise, strict=True))
        return found if ladder is None else found | {"ladder_": ladder}

    def _publish(self, machine, state, training):
        found = self._attributes(machine, state, training.recipe)
        of_fits = {*THETA_ATTRIBUTES, "ladder_", "_runs_of_fit"}
        for name in of_fits - found.keys():  # those of an earlier fit
            self.__dict__.pop(name, None)
        vars(self).update(found)
        if training.visible_means is not None:
            self.visible_means_ = cast(training.visible_means, machine.dtype)
        phase = training.recipe.phase
        training.phase_state = phase.kept(state)  # messages may be larger than the weights
        self._training, self.n_iter_ = training, training.n_epochs

    # ------------------------------------------------------------ machines of given parameters

    @one_blas_thread
    def _adopted(self, machine, recipe):
        """Return self, with the fitted attributes that follow from the parameters of a machine."""
        machine, coordinates = recipe.parameters.fixed(machine), recipe.coordinates
        evaluation_seed, seed = seed_sequence(self.random_state).spawn(2)
        self._evaluation_seed = evaluation_seed.state
        rng = make_rng(seed, machine.weights[0])
        n = recipe.rows_of_state(int(self.batch_size), _MOST_ADOPTED, machine.n_units[0])
        rows = chain_ends(machine, rng, draw_visible(machine, rng, n))
        state = recipe.phase.init(machine, rng, n, rows)
        vars(self).setdefault("n_features_in_", machine.n_units[0])
        self.history_ = {}
        self._publish(machine, state, Training(rng, phase_state=state, recipe=recipe))
        self.starts_ = rows if coordinates is None else coordinates.outward(rows)
        return self

    def _given(self, *parts):
        """Return the arrays of ``from_parameters`` in the layout of a machine."""
        return parts

    @classmethod
    def from_parameters(cls, components, intercept_hidden=None, intercept_visible=None, **params):
        """Create a fitted estimator from arrays.

        Parameters
        ----------
        components : array-like of shape (n_components, n_features), or fitted estimator
            Weights, or a fitted estimator whose arrays are copied, such as a
            :class:`sklearn.neural_network.BernoulliRBM`. For a :class:`CategoricalRBM` they have
            the shape (n_components, n_sites, n_categories), with categories 0, 1, ... by default.
        intercept_hidden, intercept_visible : array-like, default=None
            Biases, of the shapes of the attributes; by default zeros.
        **params
            Parameters of the estimator other than ``n_components`` and, for units that have them,
            the arrays ``precision_visible``, ``spike_visible``, ``precision_hidden`` and
            ``spike_hidden``. Bounds default to those of a given estimator with the same kind of
            units, and otherwise to [-1, 1], or [0, 1] with a point mass.

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
            for unit, old in zip(units, kept, strict=False)  # machine_from checks the numbers
        )
        machine = machine_from(*given, units, **more)
        rbm.n_components = machine.n_units[1]
        rbm._validate_params()
        return rbm._adopted(machine, rbm._recipe())
