"""RBM with Gaussian visible and binary hidden units, trained with chains from noise.

The parameters are those of Eq. 1 of Liao et al. (2022).
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._checks import check_count
from .._sklearn import HasMethods, StrOptions
from ..arrays import (
    cast,
    dense,
    is_finite,
    like,
    make_rng,
    namespace,
    one_blas_thread,
    parameter_reference,
    take_rows,
)
from ..evaluation import Density
from ..inference import SAMPLERS, Sampler, Tempering, resolve, sample
from ..inputs import Coordinates, filled, machine_from, varies
from ..learning import CHAINS, GRADIENTS, ArrayGradient, NaturalParameters, Noise
from ..machine import Machine
from ..units import Bernoulli, Gaussian, Theta
from ._base import BaseRBM
from ._encoded import decoded, rows_to_start
from ._posterior import drawn_given
from ._recipe import Recipe, machine_of_init
from ._shared import optimizer_of, shares_parameters

_N_STEPS = 20  # of a sampler given by its name
_SOME = 1000  # rows from which the first means of hidden units are estimated
_MAX_LOG_VARIANCE = 80.0  # largest log-variance, within the range of float32
_NOISE = 0.3  # noise in the first components, as a fraction of the columns' deviations
PARAMETERS = ("components_", "intercept_hidden_", "intercept_visible_", "variances_")


def machine_of(components, intercept_hidden, intercept_visible, variances):
    precision = 1 / variances
    thetas = Theta(intercept_visible * precision, precision), Theta(intercept_hidden)
    return Machine((Gaussian(), Bernoulli()), thetas, (components * precision,))


def parameters_of(machine):
    own, hidden = machine.thetas
    components = machine.weights[0] / own.precision
    return components, hidden.field, own.field / own.precision, 1 / own.precision


class MeansAndVariances:
    """The parameters of Eq. 1 as attributes, as :class:`OneLayer` has those of others."""

    def attributes(self, machine):
        named = zip(PARAMETERS, parameters_of(machine), strict=True)
        return {"units_": machine.units, **dict(named)}

    def machine(self, estimator):
        return machine_of(*(getattr(estimator, name) for name in PARAMETERS))


def parameters_from(components, intercept_hidden=None, intercept_visible=None, variances=None):
    """Return checked parameters of Eq. 1, of arrays or of a fitted estimator."""
    units = Gaussian(), Bernoulli()
    if hasattr(components, "fit") and not hasattr(components, "variances_"):
        if np.ndim(getattr(components, "precision_visible_", None)) == 2:
            raise ValueError("an RBM with covariance='full' has no variances to start from")
        return parameters_of(machine_from(components, None, None, units))
    parts = components, intercept_hidden, intercept_visible, variances
    if hasattr(components, "fit"):
        parts = [getattr(components, name) for name in PARAMETERS]
    given = {} if parts[3] is None else {"precision_visible": parts[3]}
    try:
        found = machine_from(*parts[:3], units, **given)
    except ValueError as error:
        raise ValueError(str(error).replace("precision_visible", "variances")) from error
    visible, hidden = found.thetas
    parts = found.weights[0], hidden.field, visible.field, visible.precision
    with np.errstate(over="ignore"):
        if not is_finite(1 / parts[3]) or not machine_of(*parts).is_finite():
            raise ValueError(f"variances are too small for {found.dtype}; scale the data")
    return parts


@dataclass(frozen=True)
class MeanVariance(NaturalParameters):
    """Learning of the means and log-variances of Gaussian visible units.

    The gradients (Eqs. 14-17 of Liao et al. 2022) follow from the moments by the chain rule. The
    penalty is on C.
    """

    is_natural = False

    min_variance: float = 1e-6  # lower bound

    def precisions(self, machine):
        return []

    def of(self, machine):
        """Return C, mu, log sigma**2 and the parameters of the hidden units."""
        theta = machine.thetas[0]
        mean, log = theta.field / theta.precision, namespace(theta.field).log
        hidden = (part for part in machine.thetas[1] if part is not None)
        return machine.weights[0] / theta.precision, mean, -log(theta.precision), *hidden

    def gradient(self, machine, moments):
        (W,), precision = machine.weights, machine.thetas[0].precision
        visible, hidden = (moments.statistics(unit, l) for l, unit in enumerate(machine.units))
        xp = namespace(W)
        pair = moments.add_pair(machine, 0, xp.zeros_like(W), 1.0)
        spread = (machine.thetas[0].field * visible.field + precision * visible.precision) * -1.0
        spread = spread - xp.sum(W * pair, axis=0)
        hidden = (part for part in hidden if part is not None)
        return ArrayGradient((pair * precision, visible.field * precision, spread, *hidden), 1)

    def machine(self, machine, parameters):
        components, mean, log_variance, *hidden = parameters
        xp = namespace(components)
        precision = xp.exp(-xp.clip(log_variance, math.log(self.min_variance), _MAX_LOG_VARIANCE))
        hidden = iter(hidden)
        theta = machine.thetas[1].map(lambda part: next(hidden))
        own = machine.thetas[0]._replace(field=mean * precision, precision=precision)
        thetas = (own, machine.units[1].project(theta))
        return replace(machine, thetas=thetas, weights=(components * precision,))

    def fixed(self, machine):
        return machine


@shares_parameters
class GaussianBernoulliRBM(BaseRBM):
    """Restricted Boltzmann machine with Gaussian visible and binary hidden units.

    p(v, h) ∝ exp(-Σ (v - b)² / (2σ²) + h' W (v / σ²) + c' h), with W = ``components_``, b =
    ``intercept_visible_``, σ² = ``variances_`` and c = ``intercept_hidden_``: given h the visible
    units are normal with means b + W' h and variances σ², which are learned (Eq. 1 of [1]_, whose b
    and μ are our c and b). By default the chains of the model phase start from noise, so the
    trained model generates samples from noise in the same way. Parameters and results are in the
    units of the data.

    Read more in the :ref:`User Guide <gaussian_bernoulli_rbm>`.

    Parameters
    ----------
    {n_components = 256}
    inference : {"gibbs_langevin", "langevin", "gibbs"} or Sampler, default="gibbs_langevin"
        Sampler of the model phase: Langevin dynamics of v given h, alternating with draws of h
        (Alg. 2); Langevin dynamics on the marginal energy (Alg. 1); block Gibbs sampling (Alg. 5).
        A name stands for ``n_steps=20``, ``burn_in=0`` and ``adjust_after=None``. Pass an object to
        set these and others, such as ``GibbsLangevin(step_size=0.2, n_steps=100,
        start="persistent")``. By default chains start from normal noise with the means and
        variances of the data (modified CD). Chains with ``start="tempered"`` use Gibbs sampling.
    gradient : {"marginal", "joint"}, default="marginal"
        Whether the moments are computed with the expected hidden units (Alg. 4) or with draws of
        them (Alg. 3).
    standardize : bool, default=True
        Whether to standardize the columns during training, with the means and standard deviations
        of the first data, so that the first call of ``partial_fit`` should have many rows. If
        False, columns are used as they are, as in the code of [1]_, and chains start from standard
        normal noise. Parameters and results are in the units of the data either way.
    {optimizer}
        Adam [2]_ keeps weak hidden units alive, and reaches higher likelihoods. Given by name, the
        optimizer has ``alpha=0.0``, ``schedule="cosine"`` and ``max_grad_norm=10.0``. Gradients are
        not centered, and parameters are not averaged.
    {learning_rate = 0.01, batch_size = 100, n_iter = 50, early_stopping}
    init : {"random", "normal"} or fitted estimator, default="random"
        Initial parameters. "random" draws a row of the data for each hidden unit: the weights of
        the unit point from the mean to that row, and the unit is on with probability 1/2 halfway
        between them. Variances are those of the data. "normal" draws the weights from N(0, 1 /
        (n_features + n_components)), with means of 0 and variances of 1 in the coordinates of
        training, as in the code of [1]_.
    {warm_start, verbose, random_state}

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Change of the visible means by each hidden unit (W' in the paper).
    {intercept_hidden_}
    intercept_visible_ : array of shape (n_features,)
        Means b of the visible units if all hidden units are off.
    variances_ : array of shape (n_features,)
        Variances σ² of the visible units given the hidden units.
    noise_mean_, noise_scale_ : array of shape (n_features,)
        Mean and standard deviation of the noise from which :meth:`sample` starts.
    {units_, visible_means_, starts_, ladder_, n_iter_, history_, n_features_in_, feature_names_in_}

    See Also
    --------
    TAPRBM : Deterministic training, also with Gaussian or other real units.

    Notes
    -----
    The settings of the paper on MNIST are ``n_components=4096``, ``batch_size=512``,
    ``n_iter=3000``, ``gradient="joint"``, ``init="normal"``, the default optimizer and learning
    rate, and inference by ``GibbsLangevin(step_size=0.04, n_steps=100, burn_in=0,
    adjust_after=None, step_scale="mean_variance")``. The code of [1]_ also has
    ``temperature=512`` in this sampler and ``standardize=False``, with all pixels scaled by one
    mean and one standard deviation.

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
        "inference": [StrOptions(set(SAMPLERS)), Sampler],
        "gradient": [StrOptions(set(GRADIENTS))],
        "standardize": ["boolean"],
        "init": [StrOptions({"random", "normal"}), HasMethods(["fit", "transform"])],
    }

    def __init__(
        self,
        n_components=256,
        *,
        inference="gibbs_langevin",
        gradient="marginal",
        standardize=True,
        optimizer="sgd",
        learning_rate=0.01,
        batch_size=100,
        n_iter=50,
        early_stopping=False,
        init="random",
        warm_start=False,
        verbose=0,
        random_state=None,
    ):
        self.n_components = n_components
        self.inference = inference
        self.gradient = gradient
        self.standardize = standardize
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.early_stopping = early_stopping
        self.init = init
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    # ------------------------------------------------------------------- the parts

    _optimizer_defaults: ClassVar = {"alpha": 0.0, "schedule": "cosine", "max_grad_norm": 10.0}
    _layout = MeansAndVariances()

    def _units(self):
        return Gaussian(), Bernoulli()

    def _recipe(self, rows=None):
        if rows is None:
            return self._recipe_of_noise(self.noise_mean_, self.noise_scale_)
        like, (mean, variance) = parameter_reference(rows.X), rows.moments
        xp, deviation = namespace(like), namespace(like).sqrt(variance)
        kept = varies(mean, deviation, like.dtype)
        deviation = xp.where(kept, deviation, 0.0 * deviation)
        if not self.standardize:
            mean, deviation = xp.zeros_like(mean), xp.ones_like(mean)
        return self._recipe_of_noise(cast(mean, like.dtype), cast(deviation, like.dtype))

    def _recipe_of_noise(self, mean, scale):
        coordinates, parameters = Coordinates.standard(mean, scale), MeanVariance()
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            if not is_finite(1 / (parameters.min_variance * coordinates.divisor**2)):
                raise ValueError(f"the variances of X overflow or underflow {mean.dtype}; scale X")
        usual = {"n_steps": _N_STEPS, "burn_in": 0, "adjust_after": None}
        sampler = resolve(self.inference, Sampler, **usual)
        start = "persistent" if sampler.has_rungs else sampler.start or "noise"
        noise = Noise(coordinates.inward(mean), scale / coordinates.divisor)
        phase = CHAINS[start](sampler, self.gradient, noise)
        return Recipe(phase, optimizer_of(self), parameters, coordinates, noise=(mean, scale))

    def _first_machine(self, rows, rng, recipe):
        n_hidden, n = int(self.n_components), rows.X.shape[1]
        if isinstance(self.init, str) and self.init == "normal":
            components = rng.normal((n_hidden, n)) / math.sqrt(n + n_hidden)
            zeros = 0 * components[0, :]
            return machine_of(components, 0 * components[:, 0], zeros, 1 + zeros)
        # Components are differences of rows and the mean, plus some noise that separates units with
        # the same row. Each hidden unit is on with probability 1/2 halfway from the mean to its
        # row: with all thresholds at the mean, the first density would be symmetric about it, a
        # saddle that training takes long to leave. The means of the machine are near those of data.
        mean, deviation = recipe.phase.noise
        some, _ = rows.batch(rows.drawn(n_hidden, rng))
        noise, xp = rng.normal((n_hidden, n)), namespace(some)
        variance = filled(deviation, mean) ** 2
        components = 1 / math.sqrt(n + n_hidden) * (some - mean + _NOISE * deviation * noise)
        weights = components / variance
        hidden = Theta(-0.5 * xp.sum(weights * (some + mean), axis=1))
        some = some[: min(_SOME, n_hidden), :]
        active = xp.mean(Bernoulli().mean(Theta(some @ weights.T + hidden.field)), axis=0)
        own = Theta((mean - active @ components) / variance, 1 / variance)
        machine = Machine((Gaussian(), Bernoulli()), (own, hidden), (weights,))
        if isinstance(self.init, str):
            return machine
        machine = recipe.coordinates.machine_outward(machine)
        machine = machine_of_init(self.init, machine, self.n_components)
        return recipe.coordinates.machine_inward(machine)

    # ------------------------------------------------------------------- the fitted machine

    @property
    def density_(self):
        """The fitted model as a :class:`~skrbm.evaluation.Density`, in float64.

        The coordinates are u = v - ``intercept_visible_``, in which the energy is that of Eq. 1.
        Other coordinates would have huge terms that cancel if means are large compared with
        standard deviations.
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
        """Create a fitted estimator from arrays.

        Parameters
        ----------
        components : array-like of shape (n_components, n_features), or fitted estimator
            Change of the visible means by each hidden unit, or a fitted estimator.
        intercept_hidden, intercept_visible, variances : array-like, default=None
            As the attributes; by default zeros, and ones for the variances, which must be positive.
        **params
            Parameters of the estimator other than ``n_components``.

        Returns
        -------
        estimator : object
            Fitted, with copies of the arrays. The noise is that of the fitted estimator; for arrays
            it has the means and variances of the visible units with all hidden units off, or is
            standard normal if ``standardize=False``.
        """
        rbm = cls(**params)
        parts = parameters_from(components, intercept_hidden, intercept_visible, variances)
        machine = machine_of(*parts)
        rbm.n_components = machine.n_units[1]
        rbm._validate_params()
        xp, source = namespace(parts[0]), components
        noise = parts[2], xp.sqrt(parts[3])
        if not rbm.standardize:
            noise = xp.zeros_like(noise[0]), xp.ones_like(noise[1])
        elif hasattr(source, "noise_mean_"):
            noise = source.noise_mean_, source.noise_scale_
        recipe = rbm._recipe_of_noise(*(xp.asarray(part, copy=True) for part in noise))
        rbm._adopted(recipe.coordinates.machine_inward(machine), recipe)
        for name, part in zip(PARAMETERS, parts, strict=True):
            setattr(rbm, name, part)  # exactly, without rounding by coordinates
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
        """Draw samples of the visible units, each from its own chain.

        Chains use the sampler of ``inference``, or :class:`~skrbm.inference.Tempering` after a fit
        with ``start="tempered"``, which by default starts from random rows of ``starts_``.

        Parameters
        ----------
        n_samples : int, default=1
        n_steps : int, default=None
            Steps of each chain; by default as in training, or 100 sweeps with ``given``.
        init : array-like of shape (n_samples, n_features), default=None
            Where the chains start; by default at normal noise with mean ``noise_mean_`` and
            standard deviation ``noise_scale_``, which after a fit with ``start="annealed"`` is
            first annealed over ``n_steps`` temperatures.
        given : array-like of shape (n_given, n_features), default=None
            Observed values, and NaN for those to be drawn, as by ``method="auto"`` of
            :meth:`RBM.sample`; ``n_samples`` and ``return_steps`` are ignored. Files, datasets and
            batches are processed in blocks (:ref:`large_data`).
        return_steps : array-like of int, default=None
            Steps after which the visible values are also returned; 0 is before any annealing.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        V : array of shape (n_samples, n_features)
        states : array of shape (len(return_steps), n_samples, n_features)
            Only if ``return_steps`` is given: the visible values after these steps.
        """
        check_is_fitted(self, "components_")
        check_count("n_samples", n_samples, 1)
        if given is not None:
            options = {"n_steps": n_steps, "random_state": random_state}
            return drawn_given(self, given, init=init, **options)
        recipe = self._recipe()
        n_steps = recipe.phase.sampler.n_steps if n_steps is None else n_steps
        check_count("n_steps", n_steps, 0)
        wanted = np.asarray(() if return_steps is None else return_steps)
        is_list = wanted.ndim == 1 and (wanted.dtype.kind in "iu" or not wanted.size)
        steps = [*map(int, wanted), n_steps] if is_list else [-1]
        if not 0 <= min(steps) <= max(steps) <= n_steps:
            raise ValueError(
                f"return_steps must be integers in [0, n_steps={n_steps}], got {return_steps!r}"
            )
        coordinates, phase = recipe.coordinates, recipe.phase
        machine = coordinates.machine_inward(self.machine_).copy()
        rng, sampler, rows = make_rng(random_state, machine.weights[0]), phase.sampler, None
        ladder = getattr(self, "ladder_", None)
        if init is not None:
            rows = coordinates.inward(dense(rows_to_start(self, init, n_samples)))
        elif ladder is not None:
            index = rng.integers(self.starts_.shape[0], n_samples)
            rows = coordinates.inward(take_rows(self.starts_, index))
        noise = phase.noise_rows(machine, rng, n_samples)
        kept = {0: noise if rows is None else rows}

        def keep(step, state, info):
            if step in steps:
                kept[step] = state.layers[0]

        if n_steps:
            if ladder is not None:
                sampler = Tempering().on(machine, rng, coordinates.ladder_inward(ladder))
            sampler.check(machine)
            if rows is None:
                chains = phase.chains_at(machine, sampler, noise, n_steps, rng)
            else:
                chains = sampler.state_at(machine, rows, rng)
            sample(sampler, machine, chains, rng, n_steps, callback=keep)
        *states, last = [coordinates.outward(kept[step]) for step in steps]
        found = decoded(self, [last])
        if return_steps is None:
            return found
        xp = namespace(last)
        return found, xp.stack(states) if states else xp.zeros((0, *last.shape), **like(last))
