"""Binary machine that grows unit by unit, until the data say that it is enough."""

from numbers import Integral, Real
from types import SimpleNamespace
from typing import ClassVar, NamedTuple

from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from ...inference import Gibbs
from ...machine import MAX_UNITS
from .._bernoulli_rbm import BernoulliRBM
from .._density import DensityModel
from ._mixture import ExactModel, machine_of, mixture_of, rounded, rounding_loss
from ._path import TrainedByGrowth
from ._subproblem import Rows


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


class FrankWolfeRBM(TrainedByGrowth, DensityModel):
    """Restricted Boltzmann machine whose number of hidden units is learned.

    Units are inserted one by one, by the Frank-Wolfe algorithm on the convex problem of learning a
    distribution of hidden units (Alg. 1 of [1]_):
    log p(v) = Σ_j c_j softplus(w_j' v + d_j) + b' v - log Z, with w = ``components_``,
    d = ``intercept_hidden_``, b = ``intercept_visible_`` and multiplicities c =
    ``multiplicities_`` > 0, at most 1 with the default ``temperature``. Where all of these are 1
    it is an ordinary machine.

    Read more in the :ref:`User Guide <frank_wolfe_rbm>`.

    Parameters
    ----------
    max_components : int, default=700
        Most hidden units, those of ``init`` included.
    alpha : float, default=0.01
        Strength λ of the penalty λ/2 Σ c_j (||w_j||² + d_j²). It must be positive unless ``radius``
        is given. Raised by a fifth where an insertion is refused, unless ``inference`` is "exact"
        and ``step`` "line_search": then nothing is refused that promises more than ``tol``.
    radius : float or None, default=None
        Largest norm of the weights and bias of a unit. With ``alpha=0`` lowered by a sixth where
        ``alpha`` would be raised, unless the temperature is a number that the units have reached.
    step : {"line_search", "1/t"}, default="line_search"
        Multiplicity of a new unit: the best one in [0, 1], or 1 (as printed in [1]_, which
        overshoots on small data).
    temperature : {"n_components", "learn"} or float, default="n_components"
        Σ c_j: as the units make it; or changed by a line search after each insertion, which needs
        ``step="line_search"``; or a bound, where a new unit takes from the others what it gets. A
        machine to begin with whose Σ c_j is above the bound is refused.
    inference : {"gibbs", "exact"} or Gibbs, default="gibbs"
        Where the machine's expectations come from: chains, carried from one insertion to the next
        and after every fifth drawn anew by annealing from independent units, or a sum over all
        configurations of at most 20 visible units.
    n_chains : int, default=1000
        Number of chains from which units are learned; as many others judge them. The more visible
        units, the more chains it takes.
    n_gibbs_steps : int, default=10
        Sweeps of the chains before each use of their states.
    n_restarts : int, default=8
        Random starts of each subproblem, which are solved in one matrix product.
    n_bias_steps : int, default=10
        Updates of the visible biases after each insertion, each after a sweep; 0 keeps the biases.
    learning_rate : float, default=0.5
        Part of a Newton step that the first of these takes; the next take less and less.
    away_steps : bool, default=False
        Whether a unit may be shrunk or removed where that is steeper than inserting one.
    init : "independent", fitted estimator or (components, intercept_hidden, \
            intercept_visible), default="independent"
        Where the growth starts: independent visible units, or any binary machine.
    early_stopping : bool or {"free_energy_gap", "score"}, default=True
        Whether to set rows aside, stop when they have gained nothing for ``n_iter_no_change``
        steps, and keep the best machine before, that of the beginning included. With "score", or
        True, what counts is their log-likelihood, with log Z followed from machine to machine. With
        "free_energy_gap" it is how far their mean log-likelihood lies below that of the training
        rows, in which log Z cancels, the criterion of [1]_: a step is bad if the gap exceeds the
        smallest one by ``gap_tol``.
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
        if "n_components" in params:
            raise ValueError(
                f"n_components is no choice: the machine has {len(whole.atoms)} whole units; use "
                "truncate for a smaller one"
            )
        machine = machine_of(whole, self.components_)
        params = {"random_state": self.random_state, "binarize": self.binarize, **params}
        parts = (machine.weights[0], machine.thetas[1].field, machine.thetas[0].field)
        rbm = BernoulliRBM.from_parameters(*parts, **params)
        if hasattr(self, "feature_names_in_"):
            rbm.feature_names_in_ = self.feature_names_in_
        return (rbm, self._rounding_loss(mixture, whole, rounding)) if return_loss else rbm

    def _rounding_loss(self, mixture, whole, rounding):
        if mixture.bias.size <= MAX_UNITS:
            rows = ExactModel(mixture.bias.size, self.components_).rows(mixture)[0]
        else:
            rows = Rows(self.starts_)
        bound, divergence = rounding_loss(mixture, whole, rows)
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
