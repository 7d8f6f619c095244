"""Binary machine that grows unit by unit, until the data say that it is enough."""

import copy
import warnings
from numbers import Integral, Real
from types import SimpleNamespace
from typing import ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from .. import evaluation
from .._atoms import Rows, log_mean_exp
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
from .._callbacks import CallbackSupportMixin, with_callbacks
from .._frank_wolfe import (
    ExactModel,
    Growth,
    Mixture,
    Plan,
    SampledModel,
    machine_of,
    mixture_of,
    rounded,
)
from .._random import make_rng, seed_sequence
from .._validation import check_count, check_data, check_range, into_support, machine_from
from ..inference import AIS, Gibbs, sample
from ..units import Bernoulli
from ._base import GibbsImputation, OneHiddenLayer
from ._bernoulli_rbm import BernoulliRBM

_START_ROWS = 1000  # of the data, from which random starts are made
_BURN_IN = 100  # sweeps of the chains before the first unit is added to a machine that is given

_STOPS = {
    "max_components": "max_components units",
    "no unit": "no start of the subproblem found a unit worth more than tol",
    "refused": "n_iter_no_change insertions in a row promised no rise of the penalised likelihood",
    "duality gap": "the duality gap fell below tol",
    "validation": "the rows set aside have gained nothing by n_iter_no_change steps",
    "max_steps": "away-steps went on without end",
}


class RoundingLoss(NamedTuple):
    """What :meth:`FrankWolfeRBM.to_bernoulli_rbm` changes.

    Attributes
    ----------
    bound : float
        No log-likelihood changes by more than this, in nats (Prop. 3.2 of Ping et al. 2016); NaN
        for ``rounding="nearest"``, which has no such bound.
    divergence : float
        KL divergence of the rounded machine from the fitted one, in nats: exact with at most 20
        visible units, otherwise estimated from the chains in ``starts_``.
    """

    bound: float
    divergence: float


class FrankWolfeRBM(GibbsImputation, OneHiddenLayer, CallbackSupportMixin, BaseEstimator):
    """Restricted Boltzmann machine whose number of hidden units is learned.

    Units are inserted one by one, by the Frank-Wolfe algorithm on the convex problem of learning a
    distribution of hidden units (Alg. 1 of [1]_):
    log p(v) = Σ_j c_j softplus(w_j' v + d_j) + b' v - log Z, with w = ``components_``,
    d = ``intercept_hidden_``, b = ``intercept_visible_`` and multiplicities c =
    ``multiplicities_`` in (0, 1]. Where all of these are 1 it is an ordinary machine.

    Read more in the :ref:`User Guide <frank_wolfe_rbm>`.

    Parameters
    ----------
    max_components : int, default=700
        Most hidden units.
    alpha : float, default=0.01
        Strength λ of the penalty λ/2 Σ c_j (||w_j||² + d_j²). It must be positive unless ``radius``
        is given. Raised by half where an insertion is refused.
    radius : float or None, default=None
        Largest norm of the weights and bias of a unit.
    step : {"line_search", "1/t"}, default="line_search"
        Multiplicity of a new unit: the best one in [0, 1], or 1 (as printed in [1]_, which
        overshoots on small data).
    temperature : {"n_components", "learn"} or float, default="n_components"
        Σ c_j: as the units make it; or changed by a line search after each insertion; or a bound,
        where a new unit takes from the others what it gets.
    inference : {"gibbs", "exact"} or Gibbs, default="gibbs"
        Where the machine's expectations come from: persistent chains, carried from one insertion to
        the next, or a sum over all configurations of at most 20 visible units.
    n_chains : int, default=1000
        Number of Gibbs chains.
    n_gibbs_steps : int, default=10
        Sweeps of the chains before each use of their states.
    n_restarts : int, default=8
        Random starts of each subproblem, which are solved in one matrix product.
    n_bias_steps : int, default=10
        Updates of the visible biases after each insertion, each after a sweep; 0 keeps the biases.
    learning_rate : float, default=0.5
        Part of a Newton step that each of these takes.
    away_steps : bool, default=False
        Whether a unit may be shrunk or removed where that is steeper than inserting one.
    init : "independent", fitted estimator or (components, intercept_hidden, \
            intercept_visible), default="independent"
        Where the growth starts: independent visible units, or any binary machine.
    early_stopping : bool or {"free_energy_gap", "score"}, default=True
        Whether to set rows aside, stop when they have gained nothing for ``n_iter_no_change``
        steps, and keep the best machine before. With "score", or True, what counts is their
        log-likelihood, with log Z followed from machine to machine. With "free_energy_gap" it is
        how far their mean log-likelihood lies below that of the training rows, in which log Z
        cancels, the criterion of [1]_: a step is bad if the gap exceeds the smallest one by
        ``gap_tol``.
    validation_fraction : float in (0, 1), default=0.1
        Part of the rows to set aside.
    n_iter_no_change : int, default=10
        Bad steps, or refused insertions, in a row after which the path stops.
    tol : float, default=1e-3
        Least slope of the penalised log-likelihood, in nats for a unit of multiplicity 1, and
        least promise of a rise, for which a unit is inserted; the rise by which a step must beat
        the best score; and with a temperature given the duality gap at which to stop.
    gap_tol : float, default=1.0
        Widening of the free-energy gap that is acceptable, in nats.
    warm_start : bool, default=False
        Whether ``fit`` goes on from the last machine.
    binarize : float or None, default=None
        Threshold above which values of X count as 1, others as 0; None takes X as it is.
    verbose : int, default=0
        Whether to print a line for each step.
    random_state : int, RandomState instance or None, default=None
        Determines the rows set aside, the starts, the chains, and the seed with which
        ``score_samples`` estimates log Z.

    Attributes
    ----------
    components_ : array of shape (`n_components_`, n_features)
        Weights.
    intercept_hidden_ : array of shape (`n_components_`,)
        Biases of the hidden units.
    intercept_visible_ : array of shape (n_features,)
        Biases of the visible units.
    multiplicities_ : ndarray of shape (`n_components_`,)
        How often each unit counts, float64.
    n_components_ : int
        Number of hidden units that was chosen.
    path_ : dict of list
        For each step: ``n_components`` after it, ``reason`` ("inserted", "shrunk", "removed",
        "refused", or "no unit"), ``alpha``, ``temperature`` (Σ c), ``slope`` (of the best unit
        found, in nats), ``duality_gap``, ``multiplicity`` (of the unit in question), ``gain`` (of
        the penalised log-likelihood), ``score`` and ``validation_score`` (estimated mean
        log-likelihoods), ``free_energy_gap``, and ``time`` (s).
    stop_reason_ : str
        Why the path ended.
    n_iter_ : int
        Number of steps.
    units_ : tuple of Unit
        Kinds of the visible and the hidden units.
    visible_means_ : array of shape (n_features,)
        Means of the training data.
    starts_ : array of shape (n_chains, n_features)
        Visible units of the chains, where :meth:`sample` starts.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen in fit, if all are strings.

    See Also
    --------
    BernoulliRBM : Training of a machine of given size; takes a fitted machine as ``init``.

    References
    ----------
    .. [1] Ping, W., Liu, Q., & Ihler, A. (2016). Learning infinite RBMs with Frank-Wolfe.
       Advances in Neural Information Processing Systems 29.

    Examples
    --------
    >>> import numpy as np
    >>> from skrbm import FrankWolfeRBM
    >>> X = np.repeat([[0, 0, 0, 0], [1, 1, 1, 1]], 50, axis=0)
    >>> FrankWolfeRBM(random_state=0).fit(X).n_components_ > 0
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "max_components": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "radius": [None, Interval(Real, 0, None, closed="neither")],
        "step": [StrOptions({"line_search", "1/t"})],
        "temperature": [
            StrOptions({"n_components", "learn"}),
            Interval(Real, 0, None, closed="neither"),
        ],
        "inference": [StrOptions({"gibbs", "exact"}), Gibbs],
        "n_chains": [Interval(Integral, 2, None, closed="left")],
        "n_gibbs_steps": [Interval(Integral, 1, None, closed="left")],
        "n_restarts": [Interval(Integral, 1, None, closed="left")],
        "n_bias_steps": [Interval(Integral, 0, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "away_steps": ["boolean"],
        "init": [StrOptions({"independent"}), tuple, list, HasMethods(["fit", "transform"])],
        "early_stopping": ["boolean", StrOptions({"free_energy_gap", "score"})],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "gap_tol": [Interval(Real, 0, None, closed="left")],
        "warm_start": ["boolean"],
        "binarize": [None, Interval(Real, None, None, closed="neither")],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        max_components=700,
        *,
        alpha=0.01,
        radius=None,
        step="line_search",
        temperature="n_components",
        inference="gibbs",
        n_chains=1000,
        n_gibbs_steps=10,
        n_restarts=8,
        n_bias_steps=10,
        learning_rate=0.5,
        away_steps=False,
        init="independent",
        early_stopping=True,
        validation_fraction=0.1,
        n_iter_no_change=10,
        tol=1e-3,
        gap_tol=1.0,
        warm_start=False,
        binarize=None,
        verbose=0,
        random_state=None,
    ):
        self.max_components = max_components
        self.alpha = alpha
        self.radius = radius
        self.step = step
        self.temperature = temperature
        self.inference = inference
        self.n_chains = n_chains
        self.n_gibbs_steps = n_gibbs_steps
        self.n_restarts = n_restarts
        self.n_bias_steps = n_bias_steps
        self.learning_rate = learning_rate
        self.away_steps = away_steps
        self.init = init
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.gap_tol = gap_tol
        self.warm_start = warm_start
        self.binarize = binarize
        self.verbose = verbose
        self.random_state = random_state

    # ------------------------------------------------------------------ learning

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Grow a machine on data, and choose its size.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Values of the visible units.
        y : Ignored

        Returns
        -------
        self : object

        Warns
        -----
        UserWarning
            If no hidden unit is worth inserting: the machine then has none.
        """
        goes_on = self.warm_start and hasattr(self, "path_")
        X = check_data(self, X, reset=not goes_on)
        self._check_penalty()
        n_validation = self._n_validation(X.shape[0])
        if not goes_on:
            self.path_, self._path, self._pool = {}, [], []
        self._grow(X, goes_on, n_validation, self.max_components, self.early_stopping)
        if not self.n_components_:
            warnings.warn(
                f"the machine has no hidden unit: {_STOPS[self.stop_reason_]}. Its visible units "
                "are independent. Lower alpha or tol, or give more data; constant or independent "
                "columns need no hidden unit.",
                stacklevel=2,
            )
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def grow(self, X, n_units=1):
        """Insert more units into the fitted machine, without stopping early.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data to learn them from; all rows are used.
        n_units : int, default=1

        Returns
        -------
        self : object
        """
        check_is_fitted(self, "path_")
        check_count("n_units", n_units, 1)
        X = check_data(self, X)
        self._check_penalty()
        self._grow(X, True, 0, self.n_components_ + n_units, False)
        return self

    def _check_penalty(self):
        if self.alpha <= 0 and self.radius is None:
            raise ValueError(
                "alpha=0 leaves the weights of a new unit without bound; set alpha > 0, or radius "
                "to the largest norm of a unit's weights"
            )

    def _n_validation(self, n):
        if not self.early_stopping:
            return 0
        n_validation = max(1, round(self.validation_fraction * n))
        if n_validation >= n:
            raise ValueError(
                f"validation_fraction={self.validation_fraction} of {n} samples leaves no row for "
                "one of the two parts; give more samples or set early_stopping=False"
            )
        return n_validation

    def _grow(self, X, goes_on, n_validation, most, early_stopping):
        """Insert units until there are ``most``, or a criterion says that it is enough."""
        unit = Bernoulli()
        outside = check_range(X, unit, self.binarize)
        X = into_support(X, unit, self.binarize) if outside else X
        dtype = self.components_.dtype if goes_on else working_dtype(X)
        place = self.components_ if goes_on else _place(X, dtype)
        seed = seed_sequence(self.random_state)
        self._evaluation_seed, seed, starts = seed.spawn(3)
        rng, generator = make_rng(seed, place), np.random.default_rng(starts)
        order = generator.permutation(X.shape[0])
        train, held_out = np.sort(order[n_validation:]), order[:n_validation]
        data = _take(X, train)
        with one_blas_thread():
            growth = self._begin(data, X, train, place, rng, generator, goes_on)
            growth.held_out_with(Rows(_take(X, held_out)) if n_validation else None)
            self.visible_means_ = from_numpy(growth.means, place)
            self.visible_means_ = cast(self.visible_means_, dtype)
            monitor = _Monitor(self, early_stopping)
            self._run(growth, monitor, most, X)

    def _begin(self, data, X, train, place, rng, generator, goes_on):
        """Return the growth at its first machine."""
        mixture = self._first_mixture(data, place, goes_on)
        if self.inference == "exact":
            if mixture.bias.size > evaluation.MAX_EXACT_UNITS:
                raise ValueError(
                    f"inference='exact' sums over all configurations of at most "
                    f"{evaluation.MAX_EXACT_UNITS} visible units, and X has {mixture.bias.size} "
                    "features; use inference='gibbs'"
                )
            model = ExactModel(mixture.bias.size, place)
            log_z = model.log_partition(mixture)
        else:
            sampler = Gibbs(self.n_gibbs_steps) if self.inference == "gibbs" else self.inference
            model = SampledModel(sampler, self._first_rows(mixture, place, rng, goes_on), rng)
            log_z = self._first_log_partition(mixture, place)
        rows = generator.permutation(train)[:_START_ROWS]
        starts = to_numpy(dense_rows(X, from_numpy(np.sort(rows), X), place.dtype))
        alpha = self._alpha if goes_on and self.alpha == self._alpha_given else self.alpha
        self._alpha_given = self.alpha
        growth = Growth(
            self._plan(), float(alpha), Rows(data), model, mixture, log_z, generator, starts
        )
        growth.index = list(range(len(self._pool), len(self._pool) + len(mixture.atoms)))
        growth.pool = self._pool = [*self._pool, *mixture.atoms]
        return growth

    def _plan(self):
        given = isinstance(self.temperature, Real)
        return Plan(
            radius=self.radius,
            line_search=self.step == "line_search",
            temperature=float(self.temperature) if given else None,
            learns_temperature=self.temperature == "learn",
            away_steps=self.away_steps,
            n_restarts=self.n_restarts,
            n_bias_steps=self.n_bias_steps,
            learning_rate=float(self.learning_rate),
            tol=float(self.tol),
        )

    def _first_mixture(self, data, place, goes_on):
        if goes_on:
            return mixture_of(self.machine_)
        n_features = data.shape[1]
        if isinstance(self.init, str):
            bias = to_numpy(Bernoulli().initial_theta(data).field).astype(np.float64)
            return Mixture(np.zeros((0, n_features + 1)), np.zeros(0), bias)
        parts = self.init if isinstance(self.init, tuple | list) else (self.init, None, None)
        if len(parts) != 3:
            raise ValueError(
                "init must be 'independent', a fitted estimator or the three arrays (components, "
                f"intercept_hidden, intercept_visible), got {len(parts)} items"
            )
        if hasattr(parts[0], "multiplicities_"):
            machine = parts[0].machine_
        else:
            machine = machine_from(*parts, (Bernoulli(), Bernoulli()))
        if machine.n_units[0] != n_features:
            raise ValueError(
                f"init has {machine.n_units[0]} visible units, but X has {n_features} features"
            )
        return mixture_of(machine)

    def _first_rows(self, mixture, place, rng, goes_on):
        """Return visible values of the chains: draws from the machine, as good as they come."""
        machine = machine_of(mixture, place)
        if goes_on and self.starts_.shape[0] == self.n_chains:
            return self.starts_
        chains = Gibbs().init(machine, rng, self.n_chains, place)
        n_sweeps = _BURN_IN if len(mixture.atoms) else 0
        return sample(Gibbs(), machine, chains, rng, n_sweeps).layers[0]

    def _first_log_partition(self, mixture, place):
        machine = machine_of(mixture, place)
        if not len(mixture.atoms):
            return float(np.logaddexp(0, mixture.bias).sum())
        seed = np.random.SeedSequence(self._evaluation_seed.generate_state(4).tolist())
        return evaluation.log_partition(machine, random_state=seed).value

    def _run(self, growth, monitor, most, X):
        """Take steps until one of the criteria is met; whatever ends it, a machine is published."""
        context = self._init_callback_context(max_subtasks=None)
        data = {"estimator": self, "X": X, "y": X}
        kept = growth.snapshot()

        def attributes():
            return self._attributes(growth, kept)

        context.call_on_fit_task_begin(**data, reconstruction_attributes=attributes)
        self.stop_reason_ = "max_components"
        n_steps = 0
        try:
            while len(growth.index) < most:
                task = context.subcontext(task_name="unit")
                task.call_on_fit_task_begin(**data)
                row = growth.step()
                n_steps += 1
                self._record(growth, row)
                stop = monitor.stop(row, growth)
                if monitor.improved:
                    kept = growth.snapshot()
                if task.call_on_fit_task_end(**data, reconstruction_attributes=attributes):
                    break
                if stop or n_steps >= 4 * most + 100:
                    self.stop_reason_ = stop or "max_steps"
                    break
        finally:
            self._publish(growth, kept)
        context.call_on_fit_task_end(**data, reconstruction_attributes=dict)

    def _record(self, growth, row):
        for name, value in row.items():
            self.path_.setdefault(name, []).append(value)
        self._path.append(growth.snapshot())
        if self.verbose:
            shown = {k: v for k, v in row.items() if isinstance(v, float) and v == v}
            values = ", ".join(f"{name} = {value:.4g}" for name, value in shown.items())
            print(f"[{type(self).__name__}] {row['reason']}: {row['n_components']} units, {values}")

    def _attributes(self, growth, kept):
        """Return the fitted attributes of a machine on the path."""
        index, counts, _ = kept
        mixture = _mixture(growth.pool, kept)
        machine = machine_of(mixture, growth.model.visible)
        return {
            "units_": machine.units,
            "components_": machine.weights[0],
            "intercept_hidden_": machine.thetas[1].field,
            "intercept_visible_": machine.thetas[0].field,
            "multiplicities_": counts.copy(),
            "n_components_": len(index),
            "n_iter_": len(self._path),
        }

    def _publish(self, growth, kept):
        self._pool, self._alpha = growth.pool, growth.alpha
        for name, value in self._attributes(growth, kept).items():
            setattr(self, name, value)
        mixture = _mixture(growth.pool, kept)
        self.starts_ = growth.model.draws(mixture, self.n_chains, growth.rng)

    def truncate(self, n_components):
        """Return a smaller machine of the path.

        Parameters
        ----------
        n_components : int
            Number of units; the last machine of this size on ``path_`` is taken.

        Returns
        -------
        estimator : FrankWolfeRBM
            Fitted; this one is left as it is.
        """
        check_is_fitted(self, "path_")
        check_count("n_components", n_components, 1)
        steps = [k for k, kept in enumerate(self._path) if len(kept[0]) == n_components]
        if not steps:
            sizes = sorted({len(kept[0]) for kept in self._path})
            raise ValueError(
                f"no machine on the path has {n_components} units; its sizes are {sizes}"
            )
        other = copy.copy(self)
        for name in ("_log_partitions",):
            other.__dict__.pop(name, None)
        machine = machine_of(_mixture(self._pool, self._path[steps[-1]]), self.starts_)
        other.path_ = {name: values[: steps[-1] + 1] for name, values in self.path_.items()}
        other._path, other.stop_reason_ = self._path[: steps[-1] + 1], "truncated"
        other.units_, other.components_ = machine.units, machine.weights[0]
        other.intercept_hidden_ = machine.thetas[1].field
        other.intercept_visible_ = machine.thetas[0].field
        other.multiplicities_ = self._path[steps[-1]][1].copy()
        other.n_components_, other.n_iter_ = n_components, steps[-1] + 1
        rng = make_rng(self._evaluation_seed, machine.weights[0])
        with one_blas_thread():
            chains = Gibbs().start(machine, self.starts_, rng)
            other.starts_ = sample(Gibbs(), machine, chains, rng, _BURN_IN).layers[0]
        return other

    # ------------------------------------------------------------------ ordinary machines

    def to_bernoulli_rbm(self, rounding=None, *, return_loss=False, **params):
        """Return the machine as a :class:`BernoulliRBM`, to be trained on or used.

        Parameters
        ----------
        rounding : {None, "absorb", "nearest"}, default=None
            What becomes of a unit that counts c times, for c not whole: "absorb" multiplies the
            weights and bias of one unit by the fraction, as Eq. (12) of Ping et al. (2016) does;
            "nearest" takes the nearest number of copies, which may be 0. None refuses. Whole c
            become c copies.
        return_loss : bool, default=False
            Whether to return what the rounding changed too.
        **params
            Parameters of the :class:`BernoulliRBM`.

        Returns
        -------
        rbm : BernoulliRBM
            Fitted.
        loss : RoundingLoss
            Only if ``return_loss``: a bound and an estimate of the change, in nats.
        """
        mixture = mixture_of(self.machine_)
        if rounding not in (None, "absorb", "nearest"):
            raise ValueError(f"rounding must be None, 'absorb' or 'nearest', got {rounding!r}")
        n_parts = int((mixture.counts % 1 != 0).sum())
        if rounding is None and n_parts:
            raise ValueError(
                f"{n_parts} of {self.n_components_} units have multiplicities that are not whole, "
                "which a BernoulliRBM cannot have; set rounding='absorb' (scales the weights) or "
                "'nearest', or fit with step='1/t'"
            )
        whole = rounded(mixture, rounding or "absorb")
        if not len(whole.atoms):
            raise ValueError("the machine has no hidden unit left, and a BernoulliRBM needs one")
        machine = machine_of(whole, self.components_)
        params = {"random_state": self.random_state, **params}
        parts = (machine.weights[0], machine.thetas[1].field, machine.thetas[0].field)
        rbm = BernoulliRBM.from_parameters(*parts, **params)
        return (rbm, self._rounding_loss(mixture, whole, rounding)) if return_loss else rbm

    def _rounding_loss(self, mixture, whole, rounding):
        if mixture.bias.size <= evaluation.MAX_EXACT_UNITS:
            rows = ExactModel(mixture.bias.size, self.components_).rows(mixture)
        else:
            rows = Rows(self.starts_)
        change = whole.hidden(rows) - mixture.hidden(rows)
        part = mixture.counts % 1
        bound = float((1 - part)[part > 0].sum() * np.log(2))
        divergence = log_mean_exp(change, rows.weights) - float(rows.mean(change))
        return RoundingLoss(float("nan") if rounding == "nearest" else bound, divergence)

    @property
    def _whole(self):
        """The ordinary machine that training by other estimators starts at, as attributes."""
        machine = machine_of(rounded(mixture_of(self.machine_), "absorb"), self.components_)
        return SimpleNamespace(
            components_=machine.weights[0],
            intercept_hidden_=machine.thetas[1].field,
            intercept_visible_=machine.thetas[0].field,
        )

    def _default_log_partition(self):
        return AIS()


class _Monitor:
    """When to stop, and which machine was the best."""

    def __init__(self, rbm, criterion):
        self.rbm, self.criterion = rbm, "score" if criterion is True else criterion
        self.best, self.n_bad, self.n_refused, self.improved = None, 0, 0, False

    def stop(self, row, growth):
        """Look at a step; returns why to stop, or None."""
        rbm = self.rbm
        self.improved = not self.criterion and row["reason"] != "refused"
        if row["reason"] == "no unit":
            return row["reason"]
        if row["reason"] == "refused":
            self.n_refused += 1
            growth.tighten()
            return "refused" if self.n_refused >= rbm.n_iter_no_change else None
        self.n_refused = 0
        if growth.plan.temperature is not None and row["duality_gap"] <= rbm.tol:
            return "duality gap"
        return self._validate(row) if self.criterion else None

    def _validate(self, row):
        if self.criterion == "score":
            value, margin = row["validation_score"], self.rbm.tol
        else:
            value, margin = -row["free_energy_gap"], -self.rbm.gap_tol
        first = self.best is None
        bad = not first and not value >= self.best + margin
        self.n_bad = self.n_bad + 1 if bad else 0
        self.improved = not bad
        self.best = value if first else max(self.best, value)
        return "validation" if self.n_bad >= self.rbm.n_iter_no_change else None


def _place(X, dtype):
    """Return an array beside which parameters learnt from X lie."""
    place = like(X) if is_foreign(X) else {}
    return namespace(X).zeros((1, 1), **{**place, "dtype": dtype})


def _take(X, rows):
    """Return rows of X, in X's own dtype, dense or sparse."""
    if is_foreign(X):
        return namespace(X).take(X, from_numpy(rows, X), axis=0)
    return X[rows]


def _mixture(pool, kept):
    index, counts, bias = kept
    atoms = np.array([pool[i] for i in index]).reshape(len(index), bias.size + 1)
    return Mixture(atoms, counts, bias)
