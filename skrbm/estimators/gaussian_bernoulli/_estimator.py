"""Machine with Gaussian visible and binary hidden units, trained by sampling from noise."""

import copy
import math
from dataclasses import replace
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..._checks import check_count
from ..._optim import RULES, SCHEDULES, MeanVarianceAscent
from ...arrays import (
    cast,
    dense_rows,
    is_finite,
    like,
    make_rng,
    namespace,
    one_blas_thread,
    row_blocks,
)
from ...inference import (
    CHAINS,
    GRADIENTS,
    Gibbs,
    GibbsLangevin,
    Langevin,
    Sampler,
    channel,
    clamped_mean,
    sample,
)
from ...machine import free_energy
from ...units import Bernoulli, Gaussian
from .._base import BaseRBM, GibbsImputation
from ._coordinates import (
    PARAMETERS,
    first_machine,
    frame_of,
    given_parameters,
    machine_of,
    mean_and_deviation,
    parameters_of,
)

_BLOCK_ROWS = 1024  # whose free energies are computed together
_SAMPLERS = {
    "gibbs": lambda step: Gibbs(),
    "langevin": lambda step: Langevin(**step),
    "gibbs_langevin": lambda step: GibbsLangevin(**step),
}


class GaussianBernoulliRBM(GibbsImputation, BaseRBM):
    """Restricted Boltzmann machine with Gaussian visible and binary hidden units.

    p(v, h) ∝ exp(-Σ (v - μ)² / (2σ²) + h' C (v / σ²) + b' h), with C = ``components_``,
    μ = ``intercept_visible_``, σ² = ``variances_`` and b = ``intercept_hidden_``, so that given h
    the visible units are normal with means μ + C' h and variances σ² (Eq. 1 of [1]_). The
    variances are learned. Chains of the model phase start at noise, by default, so that the machine
    generates from noise.

    Read more in the :ref:`User Guide <gaussian_bernoulli_rbm>`.

    Parameters
    ----------
    n_components : int, default=256
        Number of binary hidden units.
    inference : {"gibbs_langevin", "langevin", "gibbs"} or Sampler, default="gibbs_langevin"
        Sampler of the model phase: Langevin dynamics of v given h, alternating with draws of h
        (Alg. 2); Langevin dynamics on the marginal energy (Alg. 1); block Gibbs sampling (Alg. 5);
        or an object such as ``GibbsLangevin(step_size=0.2, adjust_after=None, n_inner_steps=5)``,
        whose steps are all adjusted by default. Of a Gibbs object, one sweep is a step.
    n_steps : int, default=20
        Steps of the chains for each batch.
    step_size : float, default=0.5
        Langevin step, in units of each visible unit's variance; below 2, where the dynamics would
        diverge. Not looked at by Gibbs sampling, or if ``inference`` is an object, which has its
        own; nor are ``adjust_after`` and, by Gibbs sampling, ``anneal_step_size``.
    adjust_after : int or None, default=None
        Step of a run from which on proposals are accepted or rejected, so that chains have the law
        of the machine: 0 for all, None for none. With many features acceptance needs small steps:
        see ``acceptance`` in ``history_``.
    anneal_step_size : bool, default=False
        Whether the step size falls over the epochs, as half a cosine.
    starts : {"noise", "annealed", "data", "persistent"}, default="noise"
        Where the chains start for each batch: at normal noise with means and variances of the data
        (modified CD); at such noise that comes to the law of the machine by ``n_steps``
        temperatures, with resampling; at the rows of the batch (CD), or where they ended (PCD).
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
    optimizer : {"sgd", "adam"}, default="sgd"
        Gradient ascent with ``momentum``, or Adam [2]_, by which each parameter has a step of its
        own, about ``learning_rate`` whatever the gradient. It keeps hidden units that do little
        from dying out, and learns densities better; see the user guide.
    learning_rate : float, default=0.01
        Step of the gradient ascent on the mean log-likelihood.
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
        Part of the last step that is added to the next. Not looked at by Adam.
    alpha : float, default=0.0
        Strength of the penalty on the components.
    penalty : {"l2", "l1"}, default="l2"
        alpha / 2 ||C||² or alpha ||C||₁.
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
    early_stopping : bool or {"free_energy_gap", "score"}, default=False
        Whether to set rows aside and stop after ``n_iter_no_change`` bad passes in a row; the
        parameters before these are kept. With "score", or True, a pass is bad unless the
        log-likelihood of the rows set aside beats the best by ``tol``. With "free_energy_gap" it is
        bad if their mean free energy exceeds that of training rows by ``tol`` and a standard error
        more than at best.
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
        Biases b of the hidden units.
    intercept_visible_ : array of shape (n_features,)
        Means μ of the visible units without hidden ones.
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
    step_size_ : float or None
        Step size of the last batch, None for a sampler without one. Where it tunes itself,
        :meth:`sample` takes it too.
    n_iter_ : int
        Passes over the data so far.
    history_ : dict of list
        For each pass: ``epoch``, ``learning_rate``, ``time`` (s), ``acceptance`` and ``step_size``
        of Langevin steps that are accepted or rejected and, with early stopping,
        ``free_energy_gap`` and ``score``.
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

    binarize = None  # of the data: nothing to do for real units

    _parameter_constraints: ClassVar[dict] = {
        **{k: v for k, v in BaseRBM._parameter_constraints.items() if k != "binarize"},
        "inference": [StrOptions(set(_SAMPLERS)), Sampler],
        "n_steps": [Interval(Integral, 1, None, closed="left")],
        "step_size": [Interval(Real, 0, 2, closed="neither")],
        "adjust_after": [None, Interval(Integral, 0, None, closed="left")],
        "anneal_step_size": ["boolean"],
        "starts": [StrOptions(set(CHAINS))],
        "burn_in": [Interval(Integral, 0, None, closed="left")],
        "gradient": [StrOptions(set(GRADIENTS))],
        "standardize": ["boolean"],
        "min_variance": [Interval(Real, 0, None, closed="neither")],
        "max_grad_norm": [None, Interval(Real, 0, None, closed="neither")],
        "optimizer": [StrOptions(set(RULES))],
        "weight_scale": [None, Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_components=256,
        *,
        inference="gibbs_langevin",
        n_steps=20,
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

    def _sampler(self):
        if not isinstance(self.inference, str):
            return self.inference
        if self.inference not in _SAMPLERS:
            names = sorted(_SAMPLERS)
            raise ValueError(f"inference must be one of {names}, got {self.inference!r}")
        step = {"step_size": self.step_size, "adjust_after": self.adjust_after}
        return _SAMPLERS[self.inference](step)

    def _method(self):
        frame = self._frame
        noise = {
            "mean": frame.inward(self._noise[0]),
            "scale": self._noise[1] / frame.divisor,
        }
        return CHAINS[self.starts](
            self._sampler(), self.n_steps, self.burn_in, self.gradient, **noise
        )

    def _method_at(self, progress):
        method = self._method()
        size = method.sampler.step_size
        if not self.anneal_step_size or size is None:
            return method
        if method.sampler.target_acceptance is not None:
            raise ValueError(
                "anneal_step_size=True and a sampler with target_acceptance both set the step "
                "size; leave one of them out"
            )
        size *= SCHEDULES["cosine"](progress)
        return replace(method, sampler=method.sampler.sized(size))

    def _n_states(self, n_rows):
        return min(self.batch_size, n_rows)

    def _optimiser(self):
        rule = RULES[self.optimizer](self.momentum)
        return MeanVarianceAscent(
            rule, self.alpha, self.penalty, self.max_grad_norm, self.min_variance
        )

    # ---------------------------------------------------------------- coordinates

    @property
    def machine_(self):
        """The fitted parameters as a machine of the data's own units."""
        check_is_fitted(self, "components_")
        return machine_of(*(getattr(self, name) for name in PARAMETERS))

    def _rows(self, X, rows, machine):
        return self._frame.inward(super()._rows(X, rows, machine))

    def _free_energy(self, machine, X):
        # Of the density in the data's own units, which is lower by the divisors.
        xp = namespace(X)
        shift = xp.sum(xp.log(cast(self._frame.divisor, xp.float64)))
        return free_energy(machine, X) + shift

    def _learn_in(self, noise):
        """Set the coordinates of learning, and the noise in those of the data."""
        self._noise, self._frame = noise, frame_of(*noise, self.standardize)

    def _random_machine(self, X, rng):
        beside = rng.normal((1, 1))
        self._in_support = True
        self._learn_in(mean_and_deviation(X, beside, self.min_variance))
        n, scale = X.shape[1], self.weight_scale
        if scale is None:
            scale = 1 / math.sqrt(n + self.n_components)
        (mean, deviation), frame = self._noise, self._frame
        chosen = rng.integers(X.shape[0], self.n_components)
        rows = frame.inward(dense_rows(X, chosen, beside.dtype))
        noise = rng.normal((self.n_components, n))
        return first_machine(rows, noise, scale, frame.inward(mean), deviation / frame.divisor)

    def _machine_from_init(self, machine):
        parts = self.init if isinstance(self.init, tuple | list) else (self.init, None, None)
        if len(parts) not in (3, 4):
            raise ValueError(
                "init must be 'random', a fitted estimator or the arrays (components, "
                "intercept_hidden, intercept_visible) and, if wanted, variances, got "
                f"{len(parts)} items"
            )
        sizes = getattr(parts[0], "components_", parts[0])
        sizes = tuple(getattr(sizes, "shape", None) or np.shape(sizes))
        if len(sizes) == 2 and sizes != tuple(machine.weights[0].shape):
            raise ValueError(
                f"init has {sizes[1]} visible and {sizes[0]} hidden units, but "
                f"X has {machine.n_units[0]} features and n_components={self.n_components}"
            )
        first = machine_of(*given_parameters(parts, self._frame.machine_outward(machine)))
        return self._frame.machine_inward(first)

    def _trained_machine(self):
        self._learn_in((self.noise_mean_, self.noise_scale_))
        return self._frame.machine_inward(self.machine_).copy()

    def _resume(self, X, n_rows):
        before, old = self._training.state, self._training.method
        machine, training = super()._resume(X, n_rows)
        method = training.method
        if not method.has_noise_of(old):  # chains and velocity are in other coordinates
            n = self._n_states(n_rows)
            training.state = method.init(machine, training.rng, n, self.starts_)
            training.velocity = training.optimiser.init(machine)
        # Chains may begin anew at each batch, but not what the step size of a sampler has come to.
        tuned = method.sampler == old.sampler and old.sampler.target_acceptance is not None
        size, n_runs = before.step_size, before.n_runs
        if not tuned:
            size, n_runs = method.sampler.step_size, 0
        training.state = training.state._replace(step_size=size, n_runs=n_runs)
        return machine, training

    def _is_finite(self, machine):
        outward = parameters_of(self._frame.machine_outward(machine))
        return machine.is_finite() and all(is_finite(part) for part in outward)

    def _attributes(self, machine, state):
        machine = self._frame.machine_outward(machine)
        return {
            "units_": machine.units,
            **dict(zip(PARAMETERS, parameters_of(machine), strict=True)),
            "noise_mean_": self._noise[0],
            "noise_scale_": self._noise[1],
            "starts_": self._frame.outward(self._method().visible(state)),
            "step_size_": state.step_size,
        }

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
        rbm._learn_in(tuple(xp.asarray(part, copy=True) for part in noise))
        rbm._adopted(rbm._frame.machine_inward(machine))
        rbm.starts_ = rbm._frame.outward(rbm.starts_)
        for name, part in zip(PARAMETERS, parts, strict=True):
            setattr(rbm, name, part)  # as given, not through other coordinates and back
        return rbm

    # -------------------------------------------------------------- what it is used for

    def _evaluated(self):
        check_is_fitted(self, "components_")
        double = copy.copy(self)
        for name in (*PARAMETERS, "starts_"):
            part = getattr(self, name)
            setattr(double, name, cast(part, namespace(part).float64))
        return double

    def _centred(self):
        """Return a copy in float64 and in coordinates u = v - ``_offset`` with visible means 0.

        There the energy of its machine is that of Eq. 1. In others it has a constant, sum of
        mean**2 / (2 variance), and terms that are huge and cancel where means are large beside
        deviations.
        """
        centred = self._evaluated()
        C, hidden, mean, variances = (getattr(centred, name) for name in PARAMETERS)
        centred.intercept_hidden_ = hidden + (C / variances) @ mean
        centred.intercept_visible_ = namespace(mean).zeros_like(mean)
        centred.starts_, centred._offset = centred.starts_ - mean, mean
        return centred

    def _free_energies(self, machine, X):
        centred, parts = self._centred(), []
        for rows in row_blocks(X, _BLOCK_ROWS):  # of which sparse ones become dense
            rows = rows.toarray() if sp.issparse(rows) else rows
            parts.append(free_energy(centred.machine_, rows - centred._offset))
        return namespace(parts[0]).concat(parts, axis=0)

    @one_blas_thread
    def sample(self, n_samples=1, *, n_steps=None, init=None, return_steps=None, random_state=None):
        """Draw visible configurations by the sampler of ``inference``, a chain for each.

        Parameters
        ----------
        n_samples : int, default=1
        n_steps : int, default=None
            Steps of each chain; default: as in training, the estimator's ``n_steps``.
        init : array-like of shape (n_samples, n_features), default=None
            Where the chains start; default: normal noise with the means ``noise_mean_`` and the
            standard deviations ``noise_scale_``, which with ``starts="annealed"`` comes to the law
            of the machine by ``n_steps`` temperatures first.
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
        n_steps = self.n_steps if n_steps is None else n_steps
        check_count("n_steps", n_steps, 0)
        wanted = np.asarray(() if return_steps is None else return_steps)
        if wanted.ndim != 1 or (wanted.size and wanted.dtype.kind not in "iu"):
            raise ValueError(f"return_steps must be a list of integers, got {return_steps!r}")
        wanted = [int(step) for step in wanted]
        if any(not 0 <= step <= n_steps for step in wanted):
            raise ValueError(f"return_steps must lie in [0, n_steps={n_steps}], got {wanted}")
        machine, method = self._trained_machine(), self._method()
        rng = make_rng(random_state, machine.weights[0])
        first = method.noise(machine, rng, n_samples)
        if init is not None:
            first = self._frame.inward(self._first_rows(init, n_samples))
        kept = {0: first}

        def keep(step, state, info):
            if step in wanted or step == n_steps:
                kept[step] = state.layers[0]

        if n_steps:
            sampler = method.current(machine, self.step_size_)
            sampler.check(machine)
            if init is None:
                method = replace(method, n_steps=n_steps, burn_in=0)
                chains = method.begun(machine, sampler, first, rng)
            else:
                chains = sampler.start(machine, first, rng)
            sample(sampler, machine, chains, rng, n_steps, callback=keep)
        last = self._frame.outward(kept[n_steps])
        if return_steps is None:
            return last
        xp = namespace(last)
        if not wanted:
            return last, xp.zeros((0, *last.shape), **like(last))
        return last, xp.stack([self._frame.outward(kept[step]) for step in wanted])

    def _first_rows(self, init, n_samples):
        _, init = self._visible(init)
        if init.shape[0] != n_samples:
            raise ValueError(f"init has {init.shape[0]} rows, but n_samples={n_samples}")
        return init.toarray() if sp.issparse(init) else init

    @one_blas_thread
    def denoise(self, Y, *, noise_variance, n_steps=200, random_state=None):
        """Compute the posterior means of values that were observed with normal noise.

        The machine is the prior; the observation adds a field and a precision to each visible unit.
        The posterior is sampled by Gibbs chains that start at Y.

        Parameters
        ----------
        Y : {array-like, sparse matrix} of shape (n_samples, n_features)
            Noisy values.
        noise_variance : float >= 0
            Variance of the normal noise that was added to each value. With 0 the result is Y.
        n_steps : int, default=200
            Sweeps of the chain of each row, of which the later half is averaged.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        X : array of shape (n_samples, n_features)
            Posterior means.
        """
        check_count("n_steps", n_steps, 1)
        noise = channel(noise_variance=noise_variance)
        machine, Y = self._visible(Y)
        xp = namespace(machine.weights[0])
        Y = xp.asarray(Y.toarray() if sp.issparse(Y) else Y, copy=True)
        if noise.is_clean:
            return Y
        rng = make_rng(random_state, machine.weights[0])
        free = xp.zeros_like(Y) > 0
        posterior = machine.tilted(0, *noise.evidence(Y))
        return clamped_mean(posterior, Y, free, rng, n_steps)
