"""Binary RBM that grows unit by unit, for as long as the data support more units."""

import copy
import warnings
from numbers import Integral, Real
from typing import ClassVar, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..._checks import check_count
from ..._sklearn import HasMethods, Interval, StrOptions, _fit_context, with_callbacks
from ...arrays import (
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
from .._density import DensityModel
from .._layouts import OneLayer
from .._recipe import parts_of_init
from .._shared import shares_parameters
from .._training import keeps_features, prepare_fit
from ._growth import STOPS, Growth, GrowthMonitor
from ._mixture import Mixture, machine_of, mixture_of, rounded
from ._samples import Data, ExactModel, SampledModel

_STEPS, _CHAINS = 10, 1000  # of the sampler called "gibbs"
_TOL = 0.01  # nats of validation likelihood that count as an improvement
_WIDER = 1.0  # nats by which the free-energy gap may exceed its minimum
_SCORED, _HELD_OUT = 256, 1000  # most training and validation rows scored if values are missing
_COLUMNS = (
    *("n_components", "reason", "temperature", "slope", "duality_gap", "multiplicity"),
    *("score", "validation_score", "free_energy_gap", "time"),
)


@shares_parameters
class FrankWolfeRBM(DensityModel):
    """Restricted Boltzmann machine whose number of hidden units is learned.

    Units are inserted one by one, by the Frank-Wolfe algorithm on the convex problem of learning a
    distribution of hidden units (Alg. 1 of [1]_): log p(v) = Σ_j m_j softplus(w_j' v + c_j) + b' v
    - log Z, with W = ``components_``, c = ``intercept_hidden_``, b = ``intercept_visible_`` and
    multiplicities m = ``multiplicities_`` > 0, at most 1 with the default ``temperature``. If all
    multiplicities are 1, the model is an ordinary RBM.

    Read more in the :ref:`User Guide <frank_wolfe_rbm>`.

    Parameters
    ----------
    max_components : int, default=700
        Maximum number of hidden units, including those of ``init``.
    alpha : float, default=0.01
        Strength λ of the penalty λ/2 Σ m_j (||w_j||² + c_j²), which is used to find new units.
    step : {"joint", "line_search", "1/t"}, default="joint"
        What happens when a unit is inserted. "joint" multiplies the weights and the bias of the
        unit by the best multiplicity, so that it becomes one whole unit, and then trains all units
        by CD-10, with ``SGD()`` and its default penalty. The others leave the units unchanged and
        refit the visible biases, as in [1]_: "line_search" takes the best multiplicity in [0, 1],
        and "1/t" takes 1, which overshoots if ``alpha`` is small for the data.
    temperature : {"n_components", "learn"} or float, default="n_components"
        Sum of the multiplicities. "n_components" leaves it free. "learn" adds a line search over it
        after each insertion, with ``step="line_search"``. A number is an upper bound: inserting a
        unit then reduces the multiplicities of the others; not with ``step="joint"``.
    away_steps : bool, default=False
        Whether a unit may be shrunk or removed if that is steeper than inserting one; not with
        ``step="joint"``.
    inference : {"gibbs", "exact"} or Gibbs, default="gibbs"
        How expectations under the model are computed. "exact" sums over all configurations of at
        most 20 visible units. "gibbs" is ``Gibbs(n_steps=10, n_chains=1000)``, with as many
        additional chains from which the length of a step is estimated; use more chains for more
        visible units. The chains are annealed again from independent units after every step, or
        every fifth step if ``step`` is not "joint".
    tol : float, default=1e-3
        A unit is inserted only if the derivative of the penalized log-likelihood with respect to
        its multiplicity is at least this large, in nats. If ``temperature`` is a number, also the
        duality gap at which growth stops.
    early_stopping : bool, EarlyStopping or "free_energy_gap", default=True
        Whether to hold out validation rows, stop when steps no longer increase their mean
        log-likelihood, and keep the best model. True is ``EarlyStopping(5, tol=0.01)``.
        "free_energy_gap" is the criterion of [1]_, in which log Z cancels: a step is bad if the
        difference between the mean log-likelihoods of training and validation rows exceeds its
        minimum by 1 nat.
    init : "independent", fitted estimator or (components, intercept_hidden, \
            intercept_visible), default="independent"
        Initial model: independent visible units, or any binary RBM.
    {warm_start}
    verbose : int, default=0
        If not 0, print a line for each step, with the time left until ``max_components``.
    random_state : int, RandomState instance or None, default=None
        Determines the validation rows, the starts, the chains, and the seed with which
        ``score_samples`` estimates log Z.

    Attributes
    ----------
    components_ : array of shape (`n_components_`, n_features)
        Weights.
    intercept_hidden_ : array of shape (`n_components_`,)
        Biases of the hidden units.
    {intercept_visible_}
    multiplicities_ : ndarray of shape (`n_components_`,)
        Multiplicities of the hidden units, float64.
    n_components_ : int
        Number of hidden units.
    path_ : dict of list
        For each step ``n_components`` after it, ``reason`` ("inserted", "shrunk", "removed",
        "refused", or "no unit"), ``temperature`` (Σ m), ``slope`` (of the best unit found, in
        nats), ``duality_gap``, ``multiplicity`` (of the inserted or shrunk unit), ``score`` and
        ``validation_score`` (mean log-likelihoods), ``free_energy_gap``, and ``time`` (s).
    stop_reason_ : str
        Why growth stopped, such as "no unit" or "validation".
    n_iter_ : int
        Number of steps.
    {units_, visible_means_, starts_, n_features_in_, feature_names_in_}

    See Also
    --------
    RBM : Training with a given number of hidden units; accepts this estimator as ``init``.

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
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "max_components": [Interval(Integral, 1, None, closed="left")],
        "step": [StrOptions({"joint", "line_search", "1/t"})],
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
        step="joint",
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
        """Grow a model on data, and choose its size.

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
            If no hidden unit is worth inserting, as when all rows are equal or there is only one
            column.
        """
        progress, resumes = prepare_fit(self)
        path = self._training if resumes else None
        X = self._encode(X, path is None, missing=True)
        self._grow(X, sample_weight, path, int(self.max_components), self.early_stopping, progress)
        if not self.n_components_:
            reason = STOPS[self.stop_reason_]
            if any(self.path_["n_components"]):
                reason = "none of those inserted raised the validation score"
            warnings.warn(
                f"the model has no hidden units: {reason}; constant or independent columns need "
                f"none{self._advice(', otherwise ')}",
                stacklevel=5,  # beyond the wrappers of this method
            )
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def grow(self, X, n_units=1, sample_weight=None):
        """Insert more units into the fitted model, without early stopping.

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
                f"the model has {self.n_components_} units instead of {wanted}: "
                f"{STOPS[self.stop_reason_]}{self._advice('; ')}",
                stacklevel=3,  # beyond scikit-learn's wrapper
            )
        return self

    def _advice(self, before):
        """Return what to change, after ``before``; nothing if growth was ended from outside."""
        if self.stop_reason_ in ("no unit", "duality gap"):
            return f"{before}lower alpha or tol"
        if self.stop_reason_ in ("callback", "max_steps"):
            return ""
        return f"{before}raise alpha or use more chains"  # units fit noise, or overshoot

    @one_blas_thread
    def _grow(self, X, sample_weight, path, max_units, early_stopping, progress=None):
        """Grow from the end of a path, or from ``init`` if it is None."""
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
        evaluation, *seeds = seed_sequence(start["random_state"]).spawn(3)
        growth = self._growth(rows, path, early_stopping, like, seeds)
        if len(growth.mixture.units) > max_units:
            raise ValueError(f"init has more than max_components={max_units} hidden units")
        self._evaluation_seed = evaluation.state
        self.visible_means_ = cast(from_numpy(growth.data.means, like), like.dtype)
        if progress is None:
            growth.begin()
            path = Path([], [growth.mixture]) if path is None else path.until()
        else:
            growth.set_state(start["growth"])
            path = start["path"]
        training.rng, training.machine = growth.model.rng, growth.mixture

        stopping = EarlyStopping.of(early_stopping or True, 0, _TOL)
        margin = -_WIDER if early_stopping == "free_energy_gap" else stopping.tol
        criterion = early_stopping if growth.held_out is not None else False
        monitor = GrowthMonitor(criterion, growth, max_units, stopping.patience, margin)

        def record(row, adds=True, left=None, note=None):
            if note is not None:  # the reason in the last row says why growth ended
                return
            path.rows.append(row)
            path.machines.append(growth.mixture)
            if self.verbose:
                known = {k: v for k, v in row.items() if isinstance(v, float) and v == v}
                values = ", ".join(f"{name} = {value:.4g}" for name, value in known.items())
                n, seconds = row["n_components"], sum(path.columns()["time"]) / len(path.rows)
                at_most = f"at most {(max_units - n) * seconds:.0f} s left"
                print(f"[{type(self).__name__}] {row['reason']}: {n} units, {values}, {at_most}")

        def publish(kept, state, training=None, estimator=self):
            reason = trainer.ended if monitor.reason is None else monitor.reason
            model = copy.deepcopy(growth.model)  # growth may continue
            estimator._publish(path, kept, reason, model.draws(kept, growth.base))

        trainer = Trainer(
            growth,
            publish,
            lambda kept, state: _attributes(kept, growth.model.visible, path),
            record,
            n_iter=None if monitor.reason is None else 0,
            monitor=monitor,
            context=self._init_callback_context(max_subtasks=None),
            task="unit",
            data={"estimator": self, "X": given, "y": given},
            own=lambda: start | {"growth": growth.get_state(), "path": path},
            progress=progress,
        )
        trainer.run(training)

    def _growth(self, rows, path, early_stopping, like, seeds):
        """Return the :class:`Growth` from the end of a path, or from ``init`` if it is None."""
        generator, train, others = np.random.default_rng(seeds[1]), rows, None
        if early_stopping and rows.total > 1:
            stopping = EarlyStopping.of(early_stopping, 0, _TOL)
            train, others = _split(rows, stopping.validation_fraction, generator)
        if path is None:
            mixture = self._first_mixture(rows if rows.has_missing else train)
        else:
            mixture = mixture_of(self.machine_)
        if self.step == "joint":
            if self.temperature != "n_components" or self.away_steps:
                raise ValueError("temperature and away_steps need step='line_search' or '1/t'")
            mixture = rounded(mixture)  # other units cannot be trained
        if self.temperature == "learn" and self.step == "1/t":
            raise ValueError("temperature='learn' needs step='line_search'")
        if isinstance(self.temperature, Real) and mixture.counts.sum() > self.temperature + 1e-6:
            raise ValueError(f"the multiplicities already exceed temperature={self.temperature}")
        with np.errstate(over="ignore"):
            if not machine_of(mixture, like).is_finite():
                raise ValueError(f"the parameters of init overflow {like.dtype}, the dtype of X")
        means = to_numpy(rows.means).astype(np.float64)
        before = 0.5 if path is None else to_numpy(self.visible_means_)
        means = np.where(np.isnan(means), before, means)
        return Growth(
            Data(train, means, seeds[1], _SCORED),
            self._model(mixture.bias.size, like, make_rng(seeds[0], like)),
            mixture,
            generator,
            None if others is None else Data(others, means, seeds[1], _HELD_OUT),
            train,
            alpha=self.alpha,
            step=self.step,
            temperature=self.temperature,
            away_steps=self.away_steps,
            tol=self.tol,
        )

    def _first_mixture(self, rows):
        if isinstance(self.init, str):
            return Mixture((), np.zeros(0), to_numpy(rows.initial_theta.field).astype(np.float64))
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

    def _model(self, n_visible, like, rng):
        if self.inference != "exact":
            sampler = resolve(self.inference, Gibbs, n_steps=_STEPS, n_chains=_CHAINS)
            if sampler.start not in (None, "persistent") or sampler.burn_in is not None:
                raise ValueError(
                    f"inference must have persistent chains without burn_in, got {sampler}"
                )
            return SampledModel(sampler, sampler.n_chains or _CHAINS, like, rng)
        if n_visible > MAX_UNITS:
            raise ValueError(f"inference='exact' needs at most {MAX_UNITS} features")
        return ExactModel(n_visible, _CHAINS, like, rng)

    def _publish(self, path, kept, reason, chains):
        vars(self).update(_attributes(kept, chains, path))
        self.starts_, self.stop_reason_ = chains, reason
        self._training, self.path_ = path, path.columns()

    @one_blas_thread
    def truncate(self, n_components):
        """Return a smaller model from the path.

        Parameters
        ----------
        n_components : int
            Number of units. The last model of this size on the path is returned, which may be the
            initial model.

        Returns
        -------
        estimator : FrankWolfeRBM
            A fitted copy; this estimator is unchanged.
        """
        check_is_fitted(self, "path_")
        check_count("n_components", n_components, 0)
        sizes = [len(mixture.units) for mixture in self._training.machines]
        if n_components not in sizes:
            raise ValueError(
                f"no model on the path has {n_components} units; the sizes are {sorted(set(sizes))}"
            )
        n_steps = len(sizes) - 1 - sizes[::-1].index(n_components)
        other, kept = copy.copy(self), self._training.machines[n_steps]
        machine = machine_of(kept, self.starts_)
        chains = chain_ends(machine, make_rng(self._evaluation_seed, self.starts_), self.starts_)
        other._publish(self._training.until(n_steps), kept, "truncated", chains)
        return other

    def ordinary_machine(self):
        """Return a ``Machine`` with whole units, from which other estimators can start.

        A multiplicity m becomes floor(m) copies of the unit and one more whose weights and bias are
        multiplied by the remainder, Eq. (12) of Ping et al. (2016). No log-likelihood changes by
        more than log(2) times the sum of 1 - m % 1 over units whose m is not whole (Prop. 3.2).
        """
        return machine_of(rounded(mixture_of(self.machine_)), self.components_)


class Path(NamedTuple):
    """The steps of growth, with the first machine and that after each step."""

    rows: list
    machines: list

    def until(self, n_steps=None):
        """Return a copy of the path up to a number of steps, by default all."""
        n_steps = len(self.rows) if n_steps is None else n_steps
        return Path(self.rows[:n_steps], self.machines[: n_steps + 1])

    def columns(self):
        return {name: [row[name] for row in self.rows] for name in _COLUMNS}


def _split(rows, fraction, generator):
    """Return training and validation rows, drawn at random; copies of a row may be in both."""
    counts, n = rows.counts, max(1, round(fraction * rows.total))
    if (counts == np.rint(counts)).all():
        held_out = generator.multivariate_hypergeometric(counts.astype(np.int64), n)
    else:
        held_out = np.zeros(len(rows))
        chosen = generator.permutation(len(rows))[:n]
        held_out[chosen] = counts[chosen]
    if n >= rows.total:
        raise ValueError("early_stopping leaves no rows for training")
    parts = []
    for weights in (counts - held_out, held_out):
        some = np.flatnonzero(weights)
        X = take_rows(rows.X, rows.index[some])
        parts.append(rows_of(X, rows.unit, rows.dtype, weights=weights[some].astype(np.float64)))
    return parts


def _attributes(kept, like, path):
    """Return the fitted attributes for a machine of a path, in the library of ``like``."""
    return OneLayer().attributes(machine_of(kept, like)) | {
        "multiplicities_": kept.counts.copy(),
        "n_components_": len(kept.units),
        "n_iter_": len(path.rows),
    }
