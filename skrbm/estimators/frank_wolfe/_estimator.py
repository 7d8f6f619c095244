"""Binary machine that grows unit by unit, as long as the data support more units."""

import copy
import warnings
from dataclasses import fields
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..._checks import check_count
from ..._sklearn import HasMethods, Interval, StrOptions, _fit_context, with_callbacks
from ...arrays import (
    Columns,
    cast,
    from_numpy,
    make_rng,
    one_blas_thread,
    parameter_reference,
    seed_sequence,
    take_rows,
    to_numpy,
)
from ...inference import Gibbs, chain_ends, resolve
from ...inputs import check_data, machine_from, rows_of, rows_with_weight
from ...learning import EarlyStopping, Trainer, Training
from ...machine import MAX_UNITS
from ...units import Bernoulli
from .._bernoulli_rbm import BernoulliRBM
from .._density import DensityModel
from .._recipe import parts_of_init
from .._shared import shares_parameters
from .._training import keeps_features, prepare_fit
from ._growth import Growth, Plan
from ._mixture import Mixture, machine_of, mixture_of, rounded, rounding_loss
from ._path import STOPS, GrowthMonitor, Path
from ._samples import Data, ExactModel, IncompleteData, SampledModel, WeightedRows

_STEPS, _CHAINS = 10, 1000  # of the sampler called "gibbs"
_PATIENCE, _GAIN = 10, 1e-3  # steps, and nats, of early_stopping=True
_WIDER = 1.0  # nats by which the free-energy gap may exceed the smallest one
_MANY_COPIES = 5  # of each row, on average, from which no row is held out
_SCORED, _HELD_OUT = 256, 1000  # most rows with missing values whose likelihood is estimated


@shares_parameters
class FrankWolfeRBM(DensityModel):
    """Restricted Boltzmann machine whose number of hidden units is learned.

    Units are inserted one by one, by the Frank-Wolfe algorithm on the convex problem of learning a
    distribution of hidden units (Alg. 1 of [1]_):
    log p(v) = Σ_j m_j softplus(w_j' v + c_j) + b' v - log Z, with W = ``components_``,
    c = ``intercept_hidden_``, b = ``intercept_visible_`` and multiplicities m =
    ``multiplicities_`` > 0, at most 1 with the default ``temperature``. If all multiplicities are
    1 it is an ordinary RBM.

    Read more in the :ref:`User Guide <frank_wolfe_rbm>`.

    Parameters
    ----------
    max_components : int, default=700
        Maximum number of hidden units, including those of ``init``.
    alpha : float, default=0.01
        Strength λ of the penalty λ/2 Σ m_j (||w_j||² + c_j²), positive unless ``radius`` is given.
        A refused insertion raises it by a fifth, unless ``inference="exact"``.
    radius : float or None, default=None
        Largest norm of the weights and bias of a unit. With ``alpha=0`` a refused insertion lowers
        it by a sixth, unless the multiplicities have reached a ``temperature`` that is a number.
    step : {"line_search", "1/t"}, default="line_search"
        Multiplicity of a new unit: the best one in [0, 1]; or 1, as printed in [1]_, whatever that
        does to the likelihood. The latter is never refused, needs no line search, and overshoots
        where ``alpha`` is small for the data.
    temperature : {"n_components", "learn"} or float, default="n_components"
        Sum of the multiplicities. "n_components" leaves it free; "learn" adds a line search over it
        after each insertion, which needs ``step="line_search"``; a number is an upper bound, and a
        new unit takes its multiplicity from the others.
    away_steps : bool, default=False
        Whether a unit may be shrunk or removed where that is steeper than inserting one.
    inference : {"gibbs", "exact"} or Gibbs, default="gibbs"
        How expectations under the model are computed: by persistent chains, which are annealed
        again from independent units after every fifth step, or by a sum over all configurations of
        at most 20 visible units. "gibbs" is ``Gibbs(n_steps=10, n_chains=1000)``: sweeps before
        each use of the chains, and chains from which units are learned. There are as many others,
        from which the gain of a unit is estimated. More visible units need more chains.
    tol : float, default=1e-3
        Smallest gain for which a unit is inserted, in nats: both the derivative of the penalised
        log-likelihood by the multiplicity of the unit, and the gain that a line search predicts.
        Also the duality gap at which growth stops if ``temperature`` is a number.
    early_stopping : bool, EarlyStopping or "free_energy_gap", default=True
        Whether to hold out validation rows, to stop when steps no longer raise their mean
        log-likelihood, and to keep the best machine. True is
        ``EarlyStopping(patience=10, tol=0.001)``. "free_energy_gap" is the criterion of [1]_, in
        which log Z cancels: the mean log-likelihood of the training rows minus that of the
        validation rows; a step is bad if this gap exceeds the smallest one by a nat. No row is held
        out if rows of X are repeated 5 times or more on average: equal rows stay together, and the
        training rows would lack whole patterns of the data.
    init : "independent", fitted estimator or (components, intercept_hidden, \
            intercept_visible), default="independent"
        Initial model: independent visible units, or any binary RBM.
    {warm_start}
    verbose : int, default=0
        Whether to print a line for each step.
    random_state : int, RandomState instance or None, default=None
        Determines the validation rows, the starts of the subproblem, the chains, and the seed with
        which ``score_samples`` estimates log Z.

    Attributes
    ----------
    components_ : array of shape (`n_components_`, n_features)
        Weights.
    intercept_hidden_ : array of shape (`n_components_`,)
        Biases of the hidden units.
    intercept_visible_ : array of shape (n_features,)
        Biases of the visible units.
    multiplicities_ : ndarray of shape (`n_components_`,)
        Multiplicities of the hidden units, float64.
    n_components_ : int
        Number of hidden units.
    path_ : dict of list
        For each step: ``n_components`` after it, ``reason`` ("inserted", "shrunk", "removed",
        "refused", or "no unit"), ``alpha`` and ``radius`` (in this step), ``temperature`` (Σ m),
        ``slope`` (of the best unit found, in nats), ``duality_gap`` (with this ``alpha``; NaN after
        ``radius`` was lowered), ``multiplicity`` (of the inserted or shrunk unit), ``gain`` (of the
        penalised log-likelihood), ``score`` and ``validation_score`` (estimated mean
        log-likelihoods), ``free_energy_gap``, and ``time`` (s).
    stop_reason_ : str
        Why growth stopped.
    n_iter_ : int
        Number of steps.
    units_ : tuple of Unit
        The visible and the hidden units.
    visible_means_ : array of shape (n_features,)
        Means of the training data.
    starts_ : array of shape (n_chains, n_features)
        Visible units of the chains, where :meth:`sample` starts.
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    RBM : Training with a given number of hidden units; takes the fitted estimator as ``init``.

    References
    ----------
    .. [1] Ping, W., Liu, Q., & Ihler, A. (2016). Learning infinite RBMs with Frank-Wolfe.
       Advances in Neural Information Processing Systems 29.

    Examples
    --------
    >>> import numpy as np
    >>> from skrbm import FrankWolfeRBM
    >>> X = np.repeat(np.random.default_rng(0).integers(2, size=(300, 8)), 2, axis=1)
    >>> FrankWolfeRBM(max_components=5, random_state=0).fit(X).n_components_ > 0
    True
    """

    _takes_missing = True
    _parameter_constraints: ClassVar[dict] = {
        "alpha": [Interval(Real, 0, None, closed="left")],
        "max_components": [Interval(Integral, 1, None, closed="left")],
        "radius": [None, Interval(Real, 0, None, closed="neither")],
        "step": [StrOptions({"line_search", "1/t"})],
        "temperature": [
            StrOptions({"n_components", "learn"}),
            Interval(Real, 0, None, closed="neither"),
        ],
        "inference": [StrOptions({"gibbs", "exact"}), Gibbs],
        "away_steps": ["boolean"],
        "init": [StrOptions({"independent"}), tuple, list, HasMethods(["fit", "transform"])],
        "tol": [Interval(Real, 0, None, closed="left")],
        "early_stopping": ["boolean", StrOptions({"free_energy_gap"}), EarlyStopping],
    }

    def __init__(
        self,
        max_components=700,
        *,
        alpha=0.01,
        radius=None,
        step="line_search",
        temperature="n_components",
        away_steps=False,
        inference="gibbs",
        tol=1e-3,
        early_stopping=True,
        init="independent",
        warm_start=False,
        verbose=0,
        random_state=None,
    ):
        self.max_components = max_components
        self.alpha = alpha
        self.radius = radius
        self.step = step
        self.temperature = temperature
        self.away_steps = away_steps
        self.inference = inference
        self.tol = tol
        self.early_stopping = early_stopping
        self.init = init
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    @keeps_features
    def fit(self, X, y=None, sample_weight=None):
        """Grow a machine on data, and choose its size.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Values of the visible units. NaN is a missing value (:ref:`missing_values`).
        y : Ignored
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows: a weight of 2 is equivalent to repeating the row.

        Returns
        -------
        self : object

        Warns
        -----
        UserWarning
            If no hidden unit is worth inserting, such as where all rows are equal or there is one
            column only.
        """
        progress, resumes = prepare_fit(self)
        path = self._training if resumes else None
        X = self._encode(X, path is None, missing=True)
        self._grow(X, sample_weight, path, int(self.max_components), self.early_stopping, progress)
        if not self.n_components_:
            warnings.warn(
                f"the machine has no hidden unit: {STOPS[self.stop_reason_]}; constant or "
                "independent columns need none, otherwise lower alpha or tol",
                stacklevel=5,  # beyond the wrappers of this method
            )
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def grow(self, X, n_units=1, sample_weight=None):
        """Insert more units into the fitted machine, without early stopping.

        The penalty starts at ``alpha`` again, as in each ``fit``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data; all rows are used.
        n_units : int, default=1
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        self : object

        Warns
        -----
        UserWarning
            If growth stops before ``n_units`` are inserted.
        """
        check_is_fitted(self, "path_")
        check_count("n_units", n_units, 1)
        X, wanted = check_data(self, X, missing=True), self.n_components_ + int(n_units)
        self._grow(X, sample_weight, self._training, wanted, early_stopping=False)
        if self.n_components_ < wanted:
            warnings.warn(
                f"the machine has {self.n_components_} units instead of {wanted}: "
                f"{STOPS[self.stop_reason_]}; lower alpha or tol, or use more chains",
                stacklevel=3,  # beyond scikit-learn's wrapper
            )
        return self

    @one_blas_thread
    def _grow(self, X, sample_weight, path, max_units, early_stopping, progress=None):
        """Continue from the end of a path, or start at ``init`` if it is None."""
        given, like = X, parameter_reference(X) if path is None else self.components_
        weights, X = rows_with_weight(sample_weight, X)
        rows = rows_of(X, Bernoulli(), like.dtype, weights=weights, first=path is None)
        start = {"rows": rows.fingerprint, "limits": (max_units, early_stopping)}
        start["random_state"], training = seed_sequence(self.random_state), Training(None)
        if progress is not None:
            training, start = progress.begun(start["rows"]), progress.own
            if training is None:
                return
        max_units, early_stopping = start["limits"]
        seeds = seed_sequence(start["random_state"]).spawn(3)
        growth = self._new_growth(rows, path, max_units, early_stopping, like, seeds[1:])
        self._evaluation_seed = seeds[0].state
        self.visible_means_ = cast(from_numpy(growth.data.means, like), like.dtype)
        if progress is None:
            path = self._begin(growth, path)
        else:
            growth.set_state(start["growth"])
            path = start["path"]
        training.rng, training.machine = growth.rng, growth.mixture
        self._run(
            growth,
            path,
            self._monitor(growth, max_units, early_stopping),
            training,
            data={"estimator": self, "X": given, "y": given},
            own=lambda: start | {"growth": growth.get_state(), "path": path},
            progress=progress,
        )

    def _new_growth(self, rows, path, max_units, early_stopping, like, seeds):
        """Return the :class:`Growth` from the end of a path, or from ``init`` if it is None.

        ``seeds`` are those of the chains, and of validation rows and random starts.
        """
        generator = np.random.default_rng(seeds[1])
        train, others = np.arange(len(rows)), None
        # Equal rows stay together. If they are many, no row is held out: the training rows would
        # lack whole patterns of the data.
        if early_stopping and 1 < len(rows) and rows.total < _MANY_COPIES * len(rows):
            fraction = _stopping(early_stopping).validation_fraction
            train, others = rows.split(max(fraction, 1 / rows.total), generator)
        if path is None:
            mixture = self._first_mixture(rows, train)
            self._check_start(mixture, like, max_units)
        else:
            mixture = mixture_of(self.machine_)
            self._check_start(mixture, like, np.inf)
        means = to_numpy(rows.means).astype(np.float64)
        before = None if path is None else getattr(self, "visible_means_", None)
        means = np.where(np.isnan(means), 0.5 if before is None else to_numpy(before), means)

        def data_of(positions, n_scored):
            weights = rows.weights_of(positions)
            X, weights = take_rows(rows.X, rows.index[positions]), weights / weights.sum()
            if rows.has_missing:
                return IncompleteData(X, weights, rows.dtype, means, seeds[1], n_scored)
            return Data(X, weights, rows.dtype)

        return Growth(
            Plan(**{field.name: getattr(self, field.name) for field in fields(Plan)}),
            data_of(train, _SCORED),
            self._model(mixture.bias.size, like, make_rng(seeds[0], like)),
            mixture,
            generator,
            None if others is None else data_of(others, _HELD_OUT),
        )

    def _first_mixture(self, rows, train):
        """Return the machine of ``init``."""
        if isinstance(self.init, str):
            theta = rows.initial_theta
            if not rows.has_missing:
                columns = Columns(rows.X, rows.weights_of(train), rows.index[train])
                theta = rows.unit.initial_theta(columns)
            return Mixture((), np.zeros(0), to_numpy(theta.field).astype(np.float64))
        parts = parts_of_init(self.init, "independent")
        if hasattr(parts[0], "multiplicities_"):
            machine = parts[0].machine_
        else:
            machine = machine_from(*parts, (Bernoulli(), Bernoulli()))
        if machine.n_units[0] != rows.X.shape[1]:
            raise ValueError(
                f"init has {machine.n_units[0]} visible units, but X has {rows.X.shape[1]} features"
            )
        return mixture_of(machine)

    def _check_start(self, mixture, like, max_units):
        """Raise ValueError for parameters, or a first machine, that cannot grow."""
        if self.alpha <= 0 and self.radius is None:
            raise ValueError("alpha=0 needs a radius, as the weights have no bound otherwise")
        if self.temperature == "learn" and self.step == "1/t":
            raise ValueError("temperature='learn' needs step='line_search'")
        n, total = mixture.counts.size, mixture.counts.sum()
        if n > max_units:
            raise ValueError(f"init has {n} hidden units, more than max_components={max_units}")
        if isinstance(self.temperature, Real) and total > self.temperature * (1 + 1e-6):
            raise ValueError(
                f"temperature={self.temperature} bounds the sum of the multiplicities, which is "
                f"{total:.4g} already"
            )
        with np.errstate(over="ignore"):
            if not machine_of(mixture, like).is_finite():
                raise ValueError(f"parameters of init overflow {like.dtype}, the dtype of X")

    def _model(self, n_visible, like, rng):
        """Return what ``inference`` takes expectations with."""
        if self.inference != "exact":
            sampler = resolve(self.inference, Gibbs, n_steps=_STEPS, n_chains=_CHAINS)
            if sampler.start not in (None, "persistent") or sampler.burn_in is not None:
                raise ValueError(
                    f"growth needs persistent chains without burn_in, got inference={sampler}"
                )
            return SampledModel(sampler, sampler.n_chains or _CHAINS, like, rng)
        if n_visible > MAX_UNITS:
            raise ValueError(
                f"inference='exact' needs at most {MAX_UNITS} visible units, and X has "
                f"{n_visible} features"
            )
        return ExactModel(n_visible, like)

    def _monitor(self, growth, max_units, early_stopping):
        """Return the :class:`GrowthMonitor` of a growth that has begun."""
        stopping, criterion = _stopping(early_stopping), False
        margin = stopping.tol
        if early_stopping and growth.held_out is not None:
            criterion = True
            if early_stopping == "free_energy_gap":
                criterion, margin = early_stopping, -_WIDER
        gap_tol = -np.inf if growth.plan.total is None else self.tol
        limits = max_units, stopping.patience, margin, gap_tol
        monitor = GrowthMonitor(criterion, growth.scores(), *limits)
        monitor.kept = growth.mixture, None
        monitor.reason = monitor.limit(len(growth.mixture.units))
        return monitor

    def _begin(self, growth, path):
        """Begin a growth; returns a copy of the path that it continues, or a new one."""
        growth.begin()
        # The fitted machine stays as it is until the end.
        return Path([], [growth.mixture]) if path is None else path.until()

    def _run(self, growth, path, monitor, training, **options):
        """Take steps until the monitor says stop; whatever ends it, a machine is published."""

        def record(row, left=None):
            path.rows.append(row)
            path.machines.append(growth.mixture)
            if self.verbose:
                known = {k: v for k, v in row.items() if isinstance(v, float) and v == v}
                values = ", ".join(f"{name} = {value:.4g}" for name, value in known.items())
                size = f"{row['n_components']} units"
                print(f"[{type(self).__name__}] {row['reason']}: {size}, {values}")

        def publish(kept, state, training=None, estimator=self):
            reason = trainer.ended if monitor.reason is None else monitor.reason
            estimator._publish(path, kept, reason, growth.draws(kept))

        trainer = Trainer(
            growth,
            publish,
            lambda kept, state: _attributes(kept, growth.model.visible, path),
            record,
            n_iter=None if monitor.reason is None else 0,
            monitor=monitor,
            context=self._init_callback_context(max_subtasks=None),
            task="unit",
            **options,
        )
        trainer.run(training)

    def _publish(self, path, kept, reason, chains):
        for name, value in _attributes(kept, chains, path).items():
            setattr(self, name, value)
        self.starts_, self.stop_reason_ = chains, reason
        self._training, self.path_ = path, path.columns()

    @one_blas_thread
    def truncate(self, n_components):
        """Return a smaller machine of the path.

        Parameters
        ----------
        n_components : int
            Number of units; the last machine of this size on ``path_`` is taken, which may be the
            first machine.

        Returns
        -------
        estimator : FrankWolfeRBM
            Fitted copy; this estimator does not change.
        """
        check_is_fitted(self, "path_")
        check_count("n_components", n_components, 0)
        n_steps = self._training.steps_to(n_components)
        other, kept = copy.copy(self), self._training.machines[n_steps]
        machine = machine_of(kept, self.starts_)
        chains = chain_ends(machine, make_rng(self._evaluation_seed, self.starts_), self.starts_)
        other._publish(self._training.until(n_steps), kept, "truncated", chains)
        return other

    def to_bernoulli_rbm(self, rounding=None, *, return_loss=False, **params):
        """Return the machine as a fitted :class:`BernoulliRBM`.

        Parameters
        ----------
        rounding : {None, "absorb", "nearest"}, default=None
            How multiplicities become whole: a multiplicity m becomes floor(m) copies of the unit
            and, for the fraction that remains, "absorb" adds a unit whose weights and bias are
            multiplied by it, Eq. (12) of Ping et al. (2016); "nearest" rounds m; None raises an
            error.
        return_loss : bool, default=False
            Whether to return also how the rounding changes the distribution.
        **params
            Parameters of the :class:`BernoulliRBM` other than ``n_components``; ``random_state``
            is by default that of this machine.

        Returns
        -------
        rbm : BernoulliRBM
            Fitted.
        loss : RoundingLoss
            Only if ``return_loss``: a bound and an estimate of the change, in nats.
        """
        mixture = mixture_of(self.machine_)
        whole = rounded(mixture, rounding)
        if not whole.units:
            raise ValueError("the machine has no hidden unit, and a BernoulliRBM needs one")
        if "n_components" in params:
            raise ValueError(f"n_components cannot be set: it is {len(whole.units)}")
        machine = machine_of(whole, self.components_)
        params = {"random_state": self.random_state, **params}
        parts = machine.weights[0], machine.thetas[1].field, machine.thetas[0].field
        rbm = BernoulliRBM.from_parameters(*parts, **params)
        if hasattr(self, "feature_names_in_"):
            rbm.feature_names_in_ = self.feature_names_in_
        if not return_loss:
            return rbm
        rows = WeightedRows(self.starts_)
        if mixture.bias.size <= MAX_UNITS:
            rows = ExactModel(mixture.bias.size, self.starts_).samples(mixture).training
        return rbm, rounding_loss(mixture, whole, rounding, rows)

    def ordinary_machine(self):
        """Return the machine with whole units, where other estimators start, as a ``Machine``.

        Rounding is that of ``to_bernoulli_rbm("absorb")``.
        """
        return machine_of(rounded(mixture_of(self.machine_)), self.components_)


def _stopping(early_stopping):
    """Return the patience, tolerance and validation fraction of ``early_stopping``."""
    return EarlyStopping.of(early_stopping or True, patience=_PATIENCE, tol=_GAIN)


def _attributes(kept, like, path):
    """Return the fitted attributes of a machine of a path, in the library of ``like``."""
    machine = machine_of(kept, like)
    return {
        "units_": machine.units,
        "components_": machine.weights[0],
        "intercept_hidden_": machine.thetas[1].field,
        "intercept_visible_": machine.thetas[0].field,
        "multiplicities_": kept.counts.copy(),
        "n_components_": len(kept.units),
        "n_iter_": len(path.rows),
    }
