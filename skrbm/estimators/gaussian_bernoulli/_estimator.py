"""Machine with Gaussian visible and binary hidden units, trained by sampling from noise."""

import math
from numbers import Integral, Real
from typing import ClassVar

from sklearn.utils.validation import check_is_fitted

from ..._checks import check_count
from ..._sklearn import Interval, StrOptions
from ...arrays import cast, is_finite, like, namespace, one_blas_thread
from ...evaluation import Density
from ...inference import SAMPLERS, Sampler
from ...inputs import Coordinates
from ...learning import CHAINS, GRADIENTS
from ...units import Bernoulli, Gaussian
from .._base import BaseRBM
from .._choices import OPTIMIZER_CONSTRAINT
from .._posterior import drawn_given
from ._coordinates import (
    PARAMETERS,
    first_machine,
    given_parameters,
    machine_of,
    machine_of_init,
    mean_and_deviation,
    parameters_of,
)
from ._parts import parts_of
from ._steps import checked_steps, visible_at


class GaussianBernoulliRBM(BaseRBM):
    """Restricted Boltzmann machine with Gaussian visible and binary hidden units.

    p(v, h) ∝ exp(-Σ (v - b)² / (2σ²) + h' W (v / σ²) + c' h), with W = ``components_``, b =
    ``intercept_visible_``, σ² = ``variances_`` and c = ``intercept_hidden_``, so that given h the
    visible units are normal with means b + W' h and variances σ² (Eq. 1 of [1]_, whose b and μ are
    our c and b). The variances are learned. Chains of the model phase start at noise, by default,
    so that the machine generates from noise.

    Read more in the :ref:`User Guide <gaussian_bernoulli_rbm>`.

    Parameters
    ----------
    n_components : int, default=256
        Number of binary hidden units.
    inference : {"gibbs_langevin", "langevin", "gibbs"} or Sampler, default="gibbs_langevin"
        Sampler of the model phase: Langevin dynamics of v given h, alternating with draws of h
        (Alg. 2); Langevin dynamics on the marginal energy (Alg. 1); block Gibbs sampling (Alg. 5);
        or an object such as ``GibbsLangevin(step_size=0.2, adjust_after=None, n_inner_steps=5)``,
        whose steps are all adjusted by default. A sweep of Gibbs sampling is a step.
    n_steps : int or None, default=None
        Steps of the chains for each batch; None is that of a Gibbs object, such as 10 of
        ``Gibbs(10)``, and 20 of other samplers.
    step_size : float, default=0.5
        Langevin step, in units of each visible unit's variance; below 2, where the dynamics would
        diverge. Ignored, as ``adjust_after`` is, if ``inference`` is an object, which has its own.
        Gibbs sampling ignores both, and ``anneal_step_size``.
    adjust_after : int or None, default=None
        Step of a run from which on proposals are accepted or rejected, so that chains have the
        distribution of the machine: 0 for all, None for none. With many features acceptance needs
        small steps: see ``acceptance`` in ``history_``.
    anneal_step_size : bool, default=False
        Whether the step size falls over the epochs, as half a cosine.
    starts : {"noise", "annealed", "data", "persistent", "tempered"}, default="noise"
        Where the chains start for each batch: at normal noise with means and variances of the data
        (modified CD); at such noise that is annealed to the machine by ``n_steps``
        temperatures, with resampling; at the rows of the batch (CD), where they ended (PCD), or
        there after exchanges with samples of earlier machines ("tempered"; those are drawn by
        Gibbs sampling, without the bias of Langevin steps), which keeps ``ladder_``.
    burn_in : int, default=0
        Steps of each run that do not count; the moments are means over the others.
    gradient : {"marginal", "joint"}, default="marginal"
        Whether expected hidden units enter the moments (Alg. 4) or draws of them (Alg. 3).
    standardize : bool, default=True
        Whether to learn in coordinates in which each column of the data has mean 0 and standard
        deviation 1. Parameters and results are in the data's own units in either case. A
        column that is constant is centred and counted in the median deviation of the others, or in
        units of 1 where all are, as those of a single row. Coordinates and noise are those of the
        first data, also where ``partial_fit`` or ``warm_start`` go on with others: the first call
        of ``partial_fit`` should have many rows.
    min_variance : float, default=1e-6
        Floor under the variances, in the coordinates of learning.
    max_grad_norm : float or None, default=10.0
        Norm of the gradient above which it is scaled down.
    optimizer : {"sgd", "natural", "adam"} or object, default="sgd"
        Gradient ascent with ``momentum``, or Adam [2]_, which keeps hidden units that do little
        from dying out, and learns densities better. Or an object, with a penalty of its own.
    learning_rate : float or "auto", default=0.01
        Step of the gradient ascent on the mean log-likelihood. "auto" finds it in training;
        ``schedule`` is a factor on what is found.
    batch_size : int, default=100
        Largest number of rows of a mini-batch; batches have nearly the same size.
    n_iter : int, default=50
        Passes over the data.
    verbose : int, default=0
        Whether to print a line for each pass.
    random_state : int, RandomState instance or None, default=None
        Determines initial weights, the order of rows, the chains, and the seed with which
        ``score_samples`` estimates log Z.
    momentum : float in [0, 1), default=0.0
        Part of the last step that is added to the next. Adam ignores it.
    alpha : float, default=0.0
        Strength of the penalty on the components.
    penalty : {"l2", "l1", "l1b", "group_lasso"}, default="l2"
        alpha / 2 ||W||², alpha ||W||₁ or another one of :ref:`sparse_weights`; all but "l2" make
        exact zeros.
    schedule : {"constant", "linear", "cosine", "exponential"} or callable, default="cosine"
        Factor on the learning rate, by the fraction of ``n_iter`` that has passed: 1, down to 0
        in a line or a cosine, down to 1e-3; or a function of the fraction.
    init : "random", fitted estimator or (components, intercept_hidden, intercept_visible[, \
            variances]), default="random"
        Where training starts. "random" draws a row of the data for each hidden unit, along which
        its component points, with the hidden bias such that the unit is on with probability 1/2
        halfway from the mean to the row; variances are those of the data.
    weight_scale : float or None, default=None
        Standard deviation of the first components, in units of each column's; None is
        1 / sqrt(n_features + n_components).
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

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The paper's W': what a hidden unit adds to the visible means.
    intercept_hidden_ : array of shape (n_components,)
        Biases c of the hidden units.
    intercept_visible_ : array of shape (n_features,)
        Means b of the visible units without hidden ones.
    variances_ : array of shape (n_features,)
        Variances σ² of the visible units given the hidden ones.
    noise_mean_, noise_scale_ : array of shape (n_features,)
        Mean and standard deviation of the noise that :meth:`sample` starts at: those of the first
        training data.
    units_ : tuple of Unit
        Kinds of the visible and the hidden units.
    visible_means_ : array of shape (n_features,)
        Means of the training data; absent after ``from_parameters``.
    starts_ : array of shape (n_chains, n_features)
        Visible units of the chains of the last batch.
    ladder_ : Ladder
        Only of a fit with ``starts="tempered"``, as of :class:`RBM`, in the data's own units.
    step_size_ : float or None
        Step size of the last batch, None for a sampler without one. Where it tunes itself,
        :meth:`sample` takes it too.
    n_iter_ : int
        Passes over the data so far.
    history_ : dict of list
        For each pass: ``epoch``, ``learning_rate``, ``time`` (s), ``acceptance`` and ``step_size``
        of Langevin steps that are accepted or rejected and, as of :class:`RBM`, log-likelihoods
        and, with early stopping, ``score``.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen in fit, if all are strings.

    See Also
    --------
    TAPRBM : Deterministic training, with Gaussian or other real units as well.

    Notes
    -----
    The paper has on MNIST n_components = 4096, batch_size = 512, n_steps = 100, n_iter = 3000,
    starts = "noise", learning_rate = 0.01, schedule = "cosine", max_grad_norm = 10 and
    inference = ``GibbsLangevin(step_size=0.04, adjust_after=None, step_scale="mean_variance")``.

    References
    ----------
    .. [1] Liao, R., Kornblith, S., Ren, M., Fleet, D. J., & Hinton, G. (2022). Gaussian-Bernoulli
       RBMs without tears. arXiv:2210.10318.
    .. [2] Kingma, D. P., & Ba, J. (2015). Adam: a method for stochastic optimization. International
       Conference on Learning Representations. arXiv:1412.6980.

    Examples
    --------
    >>> import numpy as np
    >>> from skrbm import GaussianBernoulliRBM
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> rbm = GaussianBernoulliRBM(n_components=2, random_state=0).fit(X)
    >>> rbm.transform(X).shape, rbm.variances_.shape
    ((50, 2), (3,))
    """

    _parameter_constraints: ClassVar[dict] = {
        **{k: v for k, v in BaseRBM._parameter_constraints.items() if k != "binarize"},
        "inference": [StrOptions(set(SAMPLERS)), Sampler],
        "n_steps": [None, Interval(Integral, 1, None, closed="left")],
        "step_size": [Interval(Real, 0, 2, closed="neither")],
        "adjust_after": [None, Interval(Integral, 0, None, closed="left")],
        "anneal_step_size": ["boolean"],
        "starts": [StrOptions(set(CHAINS))],
        "burn_in": [Interval(Integral, 0, None, closed="left")],
        "gradient": [StrOptions(set(GRADIENTS))],
        "standardize": ["boolean"],
        "min_variance": [Interval(Real, 0, None, closed="neither")],
        "max_grad_norm": [None, Interval(Real, 0, None, closed="neither")],
        "optimizer": OPTIMIZER_CONSTRAINT,
        "weight_scale": [None, Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_components=256,
        *,
        inference="gibbs_langevin",
        n_steps=None,
        step_size=0.5,
        adjust_after=None,
        anneal_step_size=False,
        starts="noise",
        burn_in=0,
        gradient="marginal",
        standardize=True,
        min_variance=1e-6,
        max_grad_norm=10.0,
        optimizer="sgd",
        learning_rate=0.01,
        batch_size=100,
        n_iter=50,
        verbose=0,
        random_state=None,
        momentum=0.0,
        alpha=0.0,
        penalty="l2",
        schedule="cosine",
        init="random",
        weight_scale=None,
        shuffle=True,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=5,
        tol=1e-2,
        warm_start=False,
    ):
        self.n_components = n_components
        self.inference = inference
        self.n_steps = n_steps
        self.step_size = step_size
        self.adjust_after = adjust_after
        self.anneal_step_size = anneal_step_size
        self.starts = starts
        self.burn_in = burn_in
        self.gradient = gradient
        self.standardize = standardize
        self.min_variance = min_variance
        self.max_grad_norm = max_grad_norm
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.verbose = verbose
        self.random_state = random_state
        self.momentum = momentum
        self.alpha = alpha
        self.penalty = penalty
        self.schedule = schedule
        self.init = init
        self.weight_scale = weight_scale
        self.shuffle = shuffle
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.warm_start = warm_start

    # ------------------------------------------------------------------- the parts

    def _units(self):
        return Gaussian(), Bernoulli()

    def _parts(self, rows=None):
        if rows is None:
            return parts_of(self, (self.noise_mean_, self.noise_scale_))
        return parts_of(self, mean_and_deviation(rows, self.min_variance))

    def _first_machine(self, rows, rng, parts):
        n, scale = rows.X.shape[1], self.weight_scale
        if scale is None:
            scale = 1 / math.sqrt(n + self.n_components)
        (mean, deviation), coordinates = parts.noise, parts.coordinates
        some, _ = rows.batch(rows.drawn(self.n_components, rng))
        noise = rng.normal((self.n_components, n))
        machine = first_machine(
            some, noise, scale, coordinates.inward(mean), deviation / coordinates.divisor
        )
        if isinstance(self.init, str):
            return machine
        return machine_of_init(self.init, machine, coordinates)

    def _in_training(self, parts):
        return parts.coordinates.machine_inward(self.machine_).copy()

    def _is_finite(self, machine, parts):
        outward = parameters_of(parts.coordinates.machine_outward(machine))
        return machine.is_finite() and all(is_finite(part) for part in outward)

    def _attributes(self, machine, state, parts):
        ladder, coordinates = parts.phase.ladder(machine, state), parts.coordinates
        machine = coordinates.machine_outward(machine)
        return {
            "units_": machine.units,
            **dict(zip(PARAMETERS, parameters_of(machine), strict=True)),
            "noise_mean_": parts.noise[0],
            "noise_scale_": parts.noise[1],
            "starts_": coordinates.outward(parts.phase.visible(state)),
            "step_size_": state.step_size,
            **({} if ladder is None else {"ladder_": coordinates.ladder_outward(ladder)}),
        }

    def _density(self, machine, state, parts):
        return Density(machine, parts.phase.visible(state), parts.coordinates)

    # ------------------------------------------------------------------- the fitted machine

    @property
    def machine_(self):
        """The fitted parameters as a machine of the data's own units."""
        check_is_fitted(self, "components_")
        return machine_of(*(getattr(self, name) for name in PARAMETERS))

    @property
    def density_(self):
        """The fitted machine as a :class:`~skrbm.evaluation.Density`, in float64.

        Its coordinates are u = v - ``intercept_visible_``, in which the energy of its machine is
        that of Eq. 1. In others it has a constant, sum of mean**2 / (2 variance), and terms that
        are huge and cancel where means are large compared with deviations.
        """
        check_is_fitted(self, "components_")
        double = namespace(self.components_).float64
        parts = (cast(getattr(self, name), double) for name in (*PARAMETERS, "starts_"))
        C, c, mean, variances, starts = parts
        xp, ladder = namespace(mean), getattr(self, "ladder_", None)
        machine = machine_of(C, c + (C / variances) @ mean, xp.zeros_like(mean), variances)
        coordinates = Coordinates(mean, xp.ones_like(mean))
        if ladder is not None:
            ladder = coordinates.ladder_inward(ladder.astype(double))
        return Density(machine, starts - mean, coordinates, ladder=ladder)

    @classmethod
    def from_parameters(
        cls, components, intercept_hidden=None, intercept_visible=None, variances=None, **params
    ):
        """Build a fitted machine from arrays.

        Parameters
        ----------
        components : array-like of shape (n_components, n_features), or fitted estimator
            What each hidden unit adds to the visible means; or a fitted machine, of which all
            arrays are taken.
        intercept_hidden : array-like of shape (n_components,), default=None
            Biases of the hidden units; default: zeros.
        intercept_visible : array-like of shape (n_features,), default=None
            Means of the visible units without hidden ones; default: zeros.
        variances : array-like of shape (n_features,), default=None
            Variances of the visible units given the hidden ones, positive; default: ones.
        **params
            Parameters of the estimator other than ``n_components``.

        Returns
        -------
        estimator : object
            Fitted, with copies of the arrays. Samples start at draws of the visible units without
            hidden ones, or as those of the fitted machine.
        """
        rbm = cls(**params)
        parts = given_parameters((components, intercept_hidden, intercept_visible, variances))
        machine = machine_of(*parts)
        rbm.n_components = machine.n_units[1]
        rbm._validate_params()
        xp, source = namespace(parts[0]), components
        noise = parts[2], xp.sqrt(parts[3])
        if hasattr(source, "noise_mean_"):
            noise = source.noise_mean_, source.noise_scale_
        training = parts_of(rbm, tuple(xp.asarray(part, copy=True) for part in noise))
        rbm._adopted(training.coordinates.machine_inward(machine), training)
        rbm.starts_ = training.coordinates.outward(rbm.starts_)
        for name, part in zip(PARAMETERS, parts, strict=True):
            setattr(rbm, name, part)  # as given, not through other coordinates and back
        return rbm

    @one_blas_thread
    def sample(
        self,
        n_samples=1,
        *,
        n_steps=None,
        init=None,
        given=None,
        return_steps=None,
        random_state=None,
    ):
        """Draw visible configurations, by a chain for each.

        Chains go by the sampler of ``inference``, or by :class:`~skrbm.inference.Tempering` after a
        fit with ``starts="tempered"``, from random rows of ``starts_`` by default.

        Parameters
        ----------
        n_samples : int, default=1
        n_steps : int, default=None
            Steps of each chain; default: as in training.
        init : array-like of shape (n_samples, n_features), default=None
            Where the chains start; default: normal noise with the means ``noise_mean_`` and the
            standard deviations ``noise_scale_``, which with ``starts="annealed"`` is annealed
            to the machine by ``n_steps`` temperatures first.
        given : array-like of shape (n_given, n_features), default=None
            Observed values, with NaN for what is drawn given them, by block Gibbs sampling or along
            the ladder, a chain for each row; ``n_samples`` and ``return_steps`` do not count then.
            Files, datasets and batches are drawn block by block (:ref:`large_data`).
        return_steps : array-like of int, default=None
            Numbers of steps after which the visible values are returned too; 0 is the start, and
            the noise where it is annealed.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        V : array of shape (n_samples, n_features)
        states : array of shape (len(return_steps), n_samples, n_features)
            Only if ``return_steps`` is given: the visible values after these steps.
        """
        check_is_fitted(self, "components_")
        check_count("n_samples", n_samples, 1)
        parts = self._parts()
        n_steps = parts.phase.n_steps if n_steps is None else n_steps
        check_count("n_steps", n_steps, 0)
        if given is not None:
            options = {"n_steps": n_steps, "random_state": random_state}
            return drawn_given(self, given, init=init, **options)
        steps = [*checked_steps(return_steps, n_steps), n_steps]
        *states, last = visible_at(steps, self, parts, init, n_samples, random_state)
        if return_steps is None:
            return last
        xp = namespace(last)
        return last, xp.stack(states) if states else xp.zeros((0, *last.shape), **like(last))
