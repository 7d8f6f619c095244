"""The restricted Boltzmann machine of any units, inference, starts and optimiser."""

from dataclasses import replace
from math import inf, isfinite
from numbers import Integral, Real
from typing import ClassVar

from .._ranks import ranks
from .._sklearn import Interval, StrOptions
from ..arrays import cast, from_numpy, inverse_factor
from ..inference import FixedPoint, Sampler, method_names, resolve
from ..inputs import Coordinates, RowBlocks, check_scale_known, varies, warn_far
from ..learning import (
    CHAINS,
    NATURAL,
    STARTS,
    ChainPhase,
    FixedPointPhase,
    StandardParameters,
    WhitenedParameters,
)
from ..units import Gaussian
from ._base import BaseRBM
from ._choices import OPTIMIZER_CONSTRAINT, UNIT_CONSTRAINTS, optimizer_of, units_of
from ._parts import Parts, spread
from ._training import is_automatic

_JOINT_COLUMNS = 200  # most columns of "gaussian" units that have a precision matrix


class RBM(BaseRBM):
    """Restricted Boltzmann machine of any kinds of units, trained by any inference.

    The gradient of the log-likelihood is the moments of the data minus those of the machine. Units,
    ``inference`` (how the machine's moments are found), ``starts`` (where chains or solutions
    start) and ``optimizer`` (how gradients become steps) are chosen independently of each other;
    what cannot go together is an error that says what is lacking.
    p(v, h) ∝ exp(h' W v + b' v + c' h) with respect to the units without couplings, with
    W = ``components_``, b = ``intercept_visible_`` and c = ``intercept_hidden_``.

    :class:`BernoulliRBM`, :class:`TAPRBM` and :class:`GaussianBernoulliRBM` are the same with the
    defaults and names of their fields; first weights of :class:`BernoulliRBM` are larger.

    Read more in the :ref:`User Guide <rbm>`.

    Parameters
    ----------
    n_components : int, default=256
        Number of hidden units.
    visible : {"bernoulli", "spin", "gaussian", "relu", "double_relu", \
            "truncated_gaussian", "truncated_gauss_bernoulli", "binomial"} or Unit, \
            default="bernoulli"
        Kind of the visible units: 0 or 1; -1 or 1; real; real from 0 on; real,
        with parameters of their own on each side of 0; on an interval; on one with a point mass
        at 0; 0 to n (:ref:`units`). Or an object such as ``TruncatedGaussian(-3, 3)`` or
        ``Binomial(5)``; bounds that are not given are those of the data for visible units, and
        [-1, 1], with a point mass [0, 1], for hidden ones. By block Gibbs sampling of hidden units
        with bounds, and for at most 200 columns, "gaussian" is ``Gaussian(covariance="full")``:
        the columns share a precision matrix. ``Gaussian()`` has one precision for each column.
        ``Categorical(sizes)`` is for categories, and ``Poisson()`` for counts without a bound, by
        "gibbs" or "naive_mean_field".
    hidden : str or Unit, default="bernoulli"
        Kind of the hidden units: a name or an object as ``visible`` takes.
    inference : {"gibbs", "cd", "langevin", "gibbs_langevin", "tempering", "tap", "tap3", \
            "adaptive_tap", "naive_mean_field", "mean_field", "relaxed_bp", "bp"} or object, \
            default="gibbs"
        How the machine's moments are found: by Markov chains (block Gibbs sampling, of which "cd"
        starts at the data; Langevin dynamics of real visible units; chains of ten temperatures that
        exchange) or by fixed points (TAP of second or third order, or adaptive; naive mean field;
        relaxed belief propagation; belief propagation between binary units). Or an object such as
        ``GibbsLangevin(step_size=0.2)`` or ``TAP(damping=0.5)``; a search over
        ``inference__damping`` needs an object.
    starts : {"persistent", "data", "noise", "annealed", "tempered", "weighted", "random", \
            "chains"} or None, default=None
        Where chains start for each batch: where they ended ("persistent"), at the rows of the batch
        ("data", the one start of "cd"), at draws of independent units ("noise"), at such draws
        annealed to the machine by ``n_steps`` temperatures ("annealed"), where they ended, after
        exchanges with samples of earlier machines of the training ("tempered"), which keeps
        ``ladder_``, or where they ended, with importance weights that follow the machine
        ("weighted"). None is "persistent"; with an automatic learning rate it is checked once,
        after a fifth of the epochs, whether the chains mix, and if they do not, learning restarts
        with weighted chains for the rest of the epochs.

        Where solutions are looked for: at the last rows of data ("data", the default of fixed
        points), at the last solutions ("persistent"), at draws of independent units ("random"), or
        at the states of Gibbs chains that are persistent ("chains") or exchange as above
        ("tempered").

        Where solutions are looked for: at the last rows of data ("data", the default of fixed
        points), at the last solutions ("persistent"), at draws of independent units ("random"), or
        at the states of Gibbs chains that are persistent ("chains") or exchange as above
        ("tempered").
    n_states : int or None, default=None
        Number of chains or of solutions for each batch; None is ``batch_size``, or the number of
        rows given to ``fit`` if there are fewer, and 400 for weighted chains. Chains that start at
        data are as many as the rows of the batch.
    n_steps : int or None, default=None
        Steps of the chains for each batch; None is that of the sampler, such as 10 of
        ``Gibbs(10)``, and 1 of a sampler given by name. Fixed points ignore it.
    burn_in : int or None, default=None
        Steps of each run of the chains that do not count. The moments are means over the others;
        None counts the last step alone.
    optimizer : {"sgd", "natural", "adam"} or object, default="sgd"
        Gradient ascent with ``momentum``; natural gradient ascent, whose metric is the covariance
        of the statistics over the chains, which costs more and needs a few hundred chains; or
        Adam, by which each parameter has a step of its own. Or an object such as
        ``NaturalGradient(damping=0.1)`` or ``Adam(decay=0.5)``, which has its own ``alpha``,
        ``penalty`` and ``max_norm``.
    max_grad_norm : float or None, default=None
        Norm of the gradient above which it is scaled down.
    learning_rate : float or "auto", default="auto"
        Step of the gradient ascent on the mean log-likelihood. "auto" finds it in training: a step
        has at most a given length, and a given Kullback-Leibler divergence between the machines
        before and after it (see :class:`skrbm.learning.StepLength`). ``schedule`` is a factor on
        it.
    batch_size : int, default=100
        Largest number of rows of a mini-batch; batches have nearly the same size. With an
        automatic rate and chains that sample, a pass has three batches at least.
    n_iter : int or "auto", default="auto"
        Passes over the data. "auto": 40, or more with few rows: with an automatic rate and chains
        that sample, as many as make 1000 steps, or 3000 where columns share a precision matrix.
    verbose : int, default=0
        Whether to print a line for each pass.
    random_state : int, RandomState instance or None, default=None
        Determines initial weights, the order of rows, chains and starts.
    momentum : float in [0, 1), default=0.0
        Part of the last step that is added to the next. Adam ignores it.
    alpha : float or "auto", default="auto"
        Strength of the penalty on the weights. "auto": max(1, number of columns / 50) over the
        number of rows, as by a normal prior distribution of each weight, and up to 4 times as much
        with fewer than 4.5 rows for each column (see :class:`~skrbm.learning.SGD`). So few rows,
        and many columns, make small weights.
    penalty : {"l2", "l1", "l1b", "group_lasso"}, default="l2"
        alpha / 2 ||W||², alpha ||W||₁ or another one of :ref:`sparse_weights`; all but "l2" make
        exact zeros.
    centered : bool, default=True
        Whether the gradient is that of the couplings between deviations of the units from their
        means. Learning is then faster, and depends less on the learning rate.
    average : bool, default=True
        Whether the fitted parameters are means over the steps, in which late ones weigh more. They
        have less noise than those of the last step, where ``fit`` and ``partial_fit`` go on.
    schedule : {"constant", "linear", "polynomial", "cosine", "exponential"} or callable, \
            default="polynomial"
        Factor on the learning rate, by the fraction t of ``n_iter`` that has passed: 1, down to 0
        as 1 - t, (1 - t)^1.5 or a cosine, or down to 1e-3; or a function of t.
    init : "random", fitted estimator or (components, intercept_hidden, intercept_visible), \
            default="random"
        Where training starts. "random" sets visible biases to the log-odds of the data and draws
        weights from N(0, 0.01²). Those of binary units are larger: fields of hidden units have a
        standard deviation of 0.75 about their mean, which is 0, or less where there are few
        columns for many hidden units; and so many features of the data are found.
    shuffle : bool, default=True
        Whether to shuffle the rows in each pass.
    early_stopping : bool, default=False
        Whether to hold out validation rows and stop after ``n_iter_no_change`` epochs in a row
        whose log-likelihood of these rows does not exceed the best by ``tol``. The parameters of
        the best epoch are kept. Epochs in which it is not measured do not count.
    validation_fraction : float in (0, 1), default=0.1
        Part of the rows to set aside.
    n_iter_no_change : int, default=5
        Patience of early stopping, in passes.
    tol : float, default=1e-2
        Tolerance of early stopping, in nats per sample.
    warm_start : bool, default=False
        Whether ``fit`` goes on from the last solution.
    binarize : float or None, default=None
        Threshold above which values of X count as 1, others as 0; None takes X as it is.
    sample_values : bool, default=True
        Whether values of binary units between 0 and 1, such as grey levels, are learnt as
        probabilities: each batch takes new draws of them (stochastic binarisation). If not, they
        are learnt as if they were the units' values, as scikit-learn does.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Weights.
    intercept_hidden_ : array of shape (n_components,)
        Biases of the hidden units.
    intercept_visible_ : array of shape (n_features,)
        Biases of the visible units.
    precision_visible_, spike_visible_ : array of shape (n_features,)
        Only of units that have them: the density of an independent visible unit is
        exp(bias x - precision x² / 2) on its support, with exp(spike) times its mass against a
        point mass of 1 at 0. With ``Gaussian(covariance="full")`` the precision is a matrix P of
        shape (n_features, n_features), and the density is exp(bias' x - x' P x / 2).
    absolute_visible_, skew_visible_ : array of shape (n_features,)
        Only of :class:`~skrbm.units.DoubleReLU` units, which have both sides of 0 apart.
    precision_hidden_, spike_hidden_ : array of shape (n_components,)
        The same of the hidden units, and ``absolute_hidden_``, ``skew_hidden_``.
    units_ : tuple of Unit
        Kinds of the visible and the hidden units, with the bounds that were taken from the data.
    visible_means_ : array of shape (n_features,)
        Means of the training data; absent after ``from_parameters``.
    starts_ : array of shape (n_states, n_features)
        Visible values of the chains of the last batch, or where its solutions were looked for;
        :meth:`log_partition` and :meth:`sample` start there too.
    ladder_ : Ladder
        Only of a fit by tempered chains: machines from independent units to the fitted one,
        with samples of each (see :class:`skrbm.inference.Ladder`), along which :meth:`sample` and
        :meth:`log_partition` go. Each has the size of the parameters and of ``n_states`` rows.
    n_iter_ : int
        Passes over the data so far.
    history_ : dict of list
        For each epoch: ``epoch``, ``learning_rate``, ``time`` (s), ``log_likelihood`` (nats per
        sample, of at most 1000 training rows) and ``log_likelihood_std``, the standard error of
        log Z, NaN in epochs in which it is not measured, as its cost is limited to a tenth of that
        of learning (see :ref:`likelihood_in_training`), and with early stopping ``score``, the
        log-likelihood of the validation rows. If ``inference`` is a fixed point
        ``tap_log_likelihood`` (at the last batch's solutions), ``n_unconverged`` (solutions of a
        batch, on average) and ``n_sweeps`` (mean number of sweeps); of Langevin steps that are
        accepted or rejected ``acceptance`` and ``step_size``; of tempered chains ``exchange``
        (mean acceptance) and ``n_rungs``.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen in fit, if all are strings.

    See Also
    --------
    BernoulliRBM : Binary units by (persistent) contrastive divergence.
    TAPRBM : Any units by fixed points.
    GaussianBernoulliRBM : Gaussian visible units by Langevin chains, in standardised coordinates.

    Examples
    --------
    >>> import numpy as np
    >>> from skrbm import RBM
    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
    >>> rbm = RBM(n_components=2, hidden="gaussian", optimizer="adam", random_state=0)
    >>> rbm.fit(X).transform(X).shape
    (4, 2)
    """

    _fewest_batches, _fewest_passes = 3, 40
    _default_start, _may_restart = "persistent", True

    _parameter_constraints: ClassVar[dict] = {
        **BaseRBM._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "n_iter": [Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],
        "centered": ["boolean"],
        "average": ["boolean"],
        "sample_values": ["boolean"],
        **UNIT_CONSTRAINTS,
        "inference": [StrOptions(set(method_names(FixedPoint, Sampler))), FixedPoint, Sampler],
        "starts": [StrOptions({*STARTS, *CHAINS}), None],
        "n_states": [None, Interval(Integral, 1, None, closed="left")],
        "n_steps": [None, Interval(Integral, 1, None, closed="left")],
        "burn_in": [None, Interval(Integral, 0, None, closed="left")],
        "optimizer": OPTIMIZER_CONSTRAINT,
        "max_grad_norm": [None, Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        n_components=256,
        *,
        visible="bernoulli",
        hidden="bernoulli",
        inference="gibbs",
        starts=None,
        n_states=None,
        n_steps=None,
        burn_in=None,
        optimizer="sgd",
        max_grad_norm=None,
        learning_rate="auto",
        batch_size=100,
        n_iter="auto",
        verbose=0,
        random_state=None,
        momentum=0.0,
        alpha="auto",
        penalty="l2",
        centered=True,
        average=True,
        schedule="polynomial",
        init="random",
        shuffle=True,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=5,
        tol=1e-2,
        warm_start=False,
        binarize=None,
        sample_values=True,
    ):
        self.n_components = n_components
        self.visible = visible
        self.hidden = hidden
        self.inference = inference
        self.starts = starts
        self.n_states = n_states
        self.n_steps = n_steps
        self.burn_in = burn_in
        self.optimizer = optimizer
        self.max_grad_norm = max_grad_norm
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.verbose = verbose
        self.random_state = random_state
        self.momentum = momentum
        self.alpha = alpha
        self.penalty = penalty
        self.centered = centered
        self.average = average
        self.schedule = schedule
        self.init = init
        self.shuffle = shuffle
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.warm_start = warm_start
        self.binarize = binarize
        self.sample_values = sample_values

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
        penalties = {self.penalty, getattr(self.optimizer, "penalty", "l2")}
        return (
            n <= _JOINT_COLUMNS
            and not vars(self).get("_in_blocks", False)
            and ranks().size == 1
            and isinstance(method, Sampler)
            and method.step_size is None
            and isfinite(hidden.bounds[1] - hidden.bounds[0])
            and penalties == {"l2"}
        )

    def _data_to_learn(self, X, goes_on, weights):
        X = super()._data_to_learn(X, goes_on, weights)
        self._in_blocks = isinstance(X, RowBlocks)
        return X

    def _units_to_resume(self, machine):
        own, hidden = self._units()
        is_named = getattr(self, "visible", None) == "gaussian"
        return (machine.units[0] if is_named else own), hidden

    def _first_machine(self, rows, rng, parts):
        machine = super()._first_machine(rows, rng, parts)
        are_binary = all(len(unit.values or ()) == 2 for unit in machine.units)
        return spread(machine) if are_binary and isinstance(self.init, str) else machine

    def _method(self):
        """Return the object behind ``inference``."""
        return resolve(self.inference, FixedPoint, Sampler)

    def _own_fixed_point(self):
        method = self._method()
        return method if isinstance(method, FixedPoint) else None

    def _parts(self, rows=None):
        check_scale_known(rows)
        method = self._method()
        if isinstance(method, FixedPoint):
            method.check_marginals()
            phase = FixedPointPhase(method, self._chosen_start("data", STARTS))
        else:
            usual = self._default_start if ranks().size == 1 else "persistent"
            default = method.own_start or usual
            # The phase says of a sampler with one start which that is, whatever is asked for.
            known = CHAINS if method.own_start is None else {self.starts}
            start = self._chosen_start(default, known)
            n_steps = method.n_steps if self.n_steps is None else self.n_steps
            phase = ChainPhase(method, start, n_steps, self.burn_in)
        n_states = phase.usual_states if self.n_states is None else self.n_states
        fallback = None
        may_restart = self.starts is None and is_automatic(self) and self._may_restart
        has_bits = self._units()[0].reach < inf  # others learn little by the steps of weights
        if may_restart and has_bits and phase.may_not_mix and ranks().size == 1:
            fallback = replace(phase, start="weighted")
        return Parts(phase, optimizer_of(self), n_states, self._parameters(rows), fallback=fallback)

    def _parameters(self, rows):
        """Return what is learnt: numbers are standardised, by the rows of a first fit."""
        if rows is None:
            return self._training.parts.parameters if hasattr(self, "_training") else NATURAL
        columns, has_precision = rows.unit.standardised(rows.X.shape[1])
        if not columns.any():
            return NATURAL
        mean, spread = rows.moments[0], rows.unit.spread(*rows.moments)
        mean, spread = cast(mean, rows.dtype), cast(spread, rows.dtype)
        unit, n_visible = rows.unit, rows.X.shape[1]
        if unit.is_joint and self.penalty != "l2":
            raise ValueError(
                f"penalty={self.penalty!r} makes zeros of weights to columns, and learning with "
                f"covariance='full' has weights to combinations of them; use penalty='l2'"
            )
        coordinates = Coordinates.standard(mean, spread, columns)
        encoder = vars(self).get("_encoder")  # of a table, whose columns it puts in order
        names = None if encoder is None else encoder.names
        warn_far(*coordinates, None if unit.is_joint else rows.initial_theta.precision, names)
        if not unit.is_joint:
            own = from_numpy(rows.unit.gaussian_columns(n_visible), mean)
            is_constant = own & ~varies(mean, spread, mean.dtype)
            return StandardParameters(coordinates, from_numpy(has_precision, mean), is_constant)
        has_precision[unit.joint_columns(n_visible)] = False
        has_precision = from_numpy(has_precision, mean)
        joint = cast(rows.initial_theta.joint, rows.dtype)
        root = inverse_factor(joint).T  # of the covariance of the columns
        return WhitenedParameters(coordinates, root, unit.joint_columns(n_visible), has_precision)

    def _chosen_start(self, default, known):
        """Return where chains or solutions start; ValueError if ``inference`` has no such start."""
        if self.starts is None:
            return default
        if self.starts not in known:
            raise ValueError(
                f"inference={self.inference!r} takes no starts={self.starts!r}; choose one of "
                f"{sorted(known)}"
            )
        return self.starts
