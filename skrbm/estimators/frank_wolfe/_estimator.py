"""Binary machine that grows unit by unit, until the data say that it is enough."""

import copy
import warnings
from numbers import Integral, Real
from typing import ClassVar

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
)
from ...inference import Gibbs, chain_ends
from ...inputs import check_data, rows_of, rows_with_weight
from ...learning import Trainer, Training
from ...units import Bernoulli
from .._density import DensityModel
from .._training import DENSITY_CONSTRAINTS, how_it_begins, keeps_features
from ._mixture import machine_of, mixture_of, rounded
from ._path import STOPS, Path, attributes, described, monitor_of
from ._rounding import rounding_loss, whole_rbm, whole_units
from ._start import growth_of

_SHARED = (  # parameters with the constraints that they have in other estimators
    *("alpha", "learning_rate", "validation_fraction", "n_iter_no_change"),
    *("tol", "warm_start", "binarize", "verbose", "random_state"),
)


class FrankWolfeRBM(DensityModel):
    """Restricted Boltzmann machine whose number of hidden units is learned.

    Units are inserted one by one, by the Frank-Wolfe algorithm on the convex problem of learning a
    distribution of hidden units (Alg. 1 of [1]_):
    log p(v) = Σ_j m_j softplus(w_j' v + c_j) + b' v - log Z, with W = ``components_``,
    c = ``intercept_hidden_``, b = ``intercept_visible_`` and multiplicities m =
    ``multiplicities_`` > 0, at most 1 with the default ``temperature``. Where all of these are 1
    it is an ordinary machine.

    Read more in the :ref:`User Guide <frank_wolfe_rbm>`.

    Parameters
    ----------
    max_components : int, default=700
        Maximum number of hidden units, those of ``init`` included.
    alpha : float, default=0.01
        Strength λ of the penalty λ/2 Σ m_j (||w_j||² + c_j²). It must be positive unless ``radius``
        is given. A refused insertion raises it by a fifth, unless ``inference`` is "exact" and
        ``step`` "line_search".
    radius : float or None, default=None
        Largest norm of the weights and bias of a unit. With ``alpha=0`` a refused insertion lowers
        it by a sixth, unless the temperature is a number that the units have reached.
    step : {"line_search", "1/t"}, default="line_search"
        Multiplicity of a new unit: the best one in [0, 1]; or 1, as printed in [1]_, which is too
        long a step on small data.
    temperature : {"n_components", "learn"} or float, default="n_components"
        Sum of the multiplicities. "n_components" leaves it free; "learn" adds a line search over it
        after each insertion, which needs ``step="line_search"``; a number is an upper bound, and a
        new unit takes its multiplicity from the others. A first machine above the bound is refused.
    inference : {"gibbs", "exact"} or Gibbs, default="gibbs"
        Where the machine's expectations come from: chains, carried from one insertion to the next
        and after every fifth drawn again by annealing from independent units, or a sum over all
        configurations of at most 20 visible units.
    n_chains : int, default=1000
        Number of chains from which units are learned. There are as many others, from which the
        gain of a unit is estimated. The more visible units, the more chains are needed.
    n_gibbs_steps : int, default=10
        Sweeps of the chains before each use of their states.
    n_restarts : int, default=8
        Random starts of each subproblem.
    n_bias_steps : int, default=10
        Updates of the visible biases after each insertion, each after a sweep; 0 keeps the biases.
    learning_rate : float, default=0.5
        Part of a Newton step that the first of these updates takes; the next take less and less.
    away_steps : bool, default=False
        Whether a unit may be shrunk or removed where that is steeper than inserting one.
    init : "independent", fitted estimator or (components, intercept_hidden, \
            intercept_visible), default="independent"
        Where the growth starts: independent visible units, or any binary machine.
    early_stopping : bool or {"free_energy_gap", "score"}, default=True
        Whether to hold samples out, stop when they have gained nothing for ``n_iter_no_change``
        steps, and keep the best machine so far, the first one included. With "score", or True, a
        step must raise their mean log-likelihood by ``tol``, where log Z is followed from machine
        to machine. "free_energy_gap" is the criterion of [1]_, in which log Z cancels: the mean
        log-likelihood of the training rows less that of the held-out samples. A step is bad if this
        gap exceeds the smallest one by ``free_energy_gap_tol``. No sample is held out where X has
        each row 5 times on average, or more: equal rows stay together, and what is left would lack
        whole patterns of the data.
    validation_fraction : float in (0, 1), default=0.1
        Part of the rows to hold out.
    n_iter_no_change : int, default=10
        Bad steps, or refused insertions, in a row after which growth stops.
    insert_tol : float, default=1e-3
        Smallest gain for which a unit is inserted, in nats: both the slope of the penalised
        log-likelihood by the multiplicity of the unit, and the gain that the line search promises.
    tol : float, default=1e-3
        Smallest gain of the held-out samples that counts, in nats.
    gap_tol : float, default=1e-3
        Duality gap at which growth stops, in nats, if ``temperature`` is a number.
    free_energy_gap_tol : float, default=1.0
        How much the free-energy gap may widen, in nats.
    warm_start : bool, default=False
        Whether ``fit`` goes on from the last machine.
    binarize : float or None, default=None
        Threshold above which values of X count as 1, others as 0; None takes X as it is.
    verbose : int, default=0
        Whether to print a line for each step.
    random_state : int, RandomState instance or None, default=None
        Determines the held-out samples, the starts, the chains, and the seed with which
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
        "refused", or "no unit"), ``alpha`` and ``radius`` (in this step), ``temperature`` (Σ c),
        ``slope`` (of the best unit found, in nats), ``duality_gap`` (with this ``alpha``; NaN where
        the ball has shrunk), ``multiplicity`` (of the unit in question), ``gain`` (of the penalised
        log-likelihood), ``score`` and ``validation_score`` (estimated mean log-likelihoods),
        ``free_energy_gap``, and ``time`` (s).
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
    >>> X = np.repeat(np.random.default_rng(0).integers(2, size=(300, 8)), 2, axis=1)
    >>> FrankWolfeRBM(max_components=5, random_state=0).fit(X).n_components_ > 0
    True
    """

    _takes_missing = True
    _parameter_constraints: ClassVar[dict] = {
        **{name: DENSITY_CONSTRAINTS[name] for name in _SHARED},
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "max_components": [Interval(Integral, 1, None, closed="left")],
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
        "away_steps": ["boolean"],
        "init": [StrOptions({"independent"}), tuple, list, HasMethods(["fit", "transform"])],
        "insert_tol": [Interval(Real, 0, None, closed="left")],
        "early_stopping": ["boolean", StrOptions({"free_energy_gap", "score"})],
        "gap_tol": [Interval(Real, 0, None, closed="left")],
        "free_energy_gap_tol": [Interval(Real, 0, None, closed="left")],
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
        insert_tol=1e-3,
        tol=1e-3,
        gap_tol=1e-3,
        free_energy_gap_tol=1.0,
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
        self.insert_tol = insert_tol
        self.tol = tol
        self.gap_tol = gap_tol
        self.free_energy_gap_tol = free_energy_gap_tol
        self.warm_start = warm_start
        self.binarize = binarize
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
            Weights of the rows: a weight of 2 does exactly what the row twice does.

        Returns
        -------
        self : object

        Warns
        -----
        UserWarning
            If no hidden unit is worth inserting: the machine then has none. So it is wherever all
            rows are the same, or have one column, where the best machine has biases alone.
        """
        progress, goes_on = how_it_begins(self)
        path = self._training if goes_on else None
        X = check_data(self, X, reset=path is None, missing=True)
        self._grow(X, sample_weight, path, self.max_components, self.early_stopping, progress)
        if not self.n_components_:
            warnings.warn(
                f"the machine has no hidden unit: {STOPS[self.stop_reason_]}. Its visible units "
                "are independent. Set another alpha, a lower insert_tol, or give more data; "
                "constant or independent columns need no hidden unit.",
                stacklevel=5,  # beyond the wrappers of this method
            )
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def grow(self, X, n_units=1, sample_weight=None):
        """Insert more units into the fitted machine, without stopping early.

        The penalty begins again at ``alpha``, as in each ``fit``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data to learn them from; all rows are used.
        n_units : int, default=1
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        self : object

        Warns
        -----
        UserWarning
            If the path ends before there are ``n_units`` more.
        """
        check_is_fitted(self, "path_")
        check_count("n_units", n_units, 1)
        X, wanted = check_data(self, X, missing=True), self.n_components_ + n_units
        self._grow(X, sample_weight, self._training, wanted, early_stopping=False)
        if self.n_components_ < wanted:
            warnings.warn(
                f"the machine has {self.n_components_} units, {wanted - self.n_components_} less "
                f"than were asked for: {STOPS[self.stop_reason_]}. Lower alpha or insert_tol, or "
                "raise n_chains or n_iter_no_change.",
                stacklevel=3,  # beyond scikit-learn's wrapper
            )
        return self

    @one_blas_thread
    def _grow(self, X, sample_weight, path, max_units, early_stopping, progress=None):
        """Go on from the end of a path, or where there is none begin with ``init``."""
        given, like = X, parameter_reference(X) if path is None else self.components_
        weights, X = rows_with_weight(sample_weight, X)
        rows = rows_of(X, Bernoulli(), like.dtype, self.binarize, weights, first=path is None)
        start = {"rows": rows.fingerprint, "limits": (max_units, early_stopping)}
        start["random_state"], training = seed_sequence(self.random_state), Training(None)
        if progress is not None:
            training, start = progress.begun(start["rows"]), progress.own
            if training is None:
                return
        seeds = seed_sequence(start["random_state"]).spawn(3)
        mixture = None if path is None else mixture_of(self.machine_)
        growth = growth_of(self, rows, mixture, start, like, seeds[1:])
        self._evaluation_seed = seeds[0].state
        self.visible_means_ = cast(from_numpy(growth.data.means, like), like.dtype)
        path = self._begun(growth, path) if progress is None else start["path"]
        training.rng, training.machine = growth.proposer.rng, growth.mixture
        options = {"data": {"estimator": self, "X": given, "y": given}, "progress": progress}
        options["own"] = lambda: start | {"growth": growth.get_state(), "path": path}
        self._run(growth, path, monitor_of(self, growth, *start["limits"]), training, **options)

    def _begun(self, growth, path):
        """Begin a growth; returns a copy of the path that it goes on from, or a new one.

        If a first fit is interrupted here, the machine to begin with is published.
        """
        first = growth.mixture
        try:
            growth.begin()
        except KeyboardInterrupt:
            if not hasattr(self, "_training"):
                chains = growth.draws(first, self.n_chains)
                self._publish(Path([], [first]), first, "interrupted", chains)
            raise
        # The fitted machine stays as it is until the end.
        return Path([], [growth.mixture]) if path is None else path.until()

    def _run(self, growth, path, monitor, training, **options):
        """Take steps until the monitor says stop; whatever ends it, a machine is published."""

        def record(row):
            path.rows.append(row)
            path.machines.append(growth.mixture)
            if self.verbose:
                print(f"[{type(self).__name__}] {described(row)}")

        def publish(kept, state, training=None, estimator=self):
            reason = trainer.ended if monitor.reason is None else monitor.reason
            estimator._publish(path, kept, reason, growth.draws(kept, self.n_chains))

        trainer = Trainer(
            growth,
            publish,
            lambda kept, state: attributes(kept, growth.model.visible, path),
            record,
            n_iter=None if monitor.reason is None else 0,
            monitor=monitor,
            context=self._init_callback_context(max_subtasks=None),
            task="unit",
            **options,
        )
        trainer.run(training)

    def _publish(self, path, kept, reason, chains):
        for name, value in attributes(kept, chains, path).items():
            setattr(self, name, value)
        self.starts_, self.stop_reason_ = chains, reason
        self._training, self.path_ = path, path.columns()

    @one_blas_thread
    def truncate(self, n_components):
        """Return a smaller machine of the path.

        Parameters
        ----------
        n_components : int
            Number of units; the last machine of this size on ``path_`` is taken. The machine that
            the path begins with is on it.

        Returns
        -------
        estimator : FrankWolfeRBM
            Fitted; this one is left as it is.
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
        """Return the machine as a :class:`BernoulliRBM`, to be trained on or used.

        Parameters
        ----------
        rounding : {None, "absorb", "nearest"}, default=None
            What becomes of a unit whose multiplicity m is not whole: "absorb" multiplies the
            weights and bias of one unit by the fraction, Eq. (12) of Ping et al. (2016);
            "nearest" takes the nearest number of copies, which may be 0; None raises an error.
            A whole m becomes m copies.
        return_loss : bool, default=False
            Whether to return also what the rounding changed.
        **params
            Parameters of the :class:`BernoulliRBM` other than ``n_components``; ``random_state``
            and ``binarize`` are by default those of this machine.

        Returns
        -------
        rbm : BernoulliRBM
            Fitted.
        loss : RoundingLoss
            Only if ``return_loss``: a bound and an estimate of the change, in nats.
        """
        mixture = mixture_of(self.machine_)
        whole = whole_units(mixture, rounding)
        rbm = whole_rbm(self, whole, params)
        if not return_loss:
            return rbm
        return rbm, rounding_loss(mixture, whole, rounding, self.starts_)

    def ordinary_machine(self):
        """Return the machine with whole units, where other estimators start, as a ``Machine``.

        Rounding is that of ``to_bernoulli_rbm("absorb")``.
        """
        return machine_of(rounded(mixture_of(self.machine_)), self.components_)
