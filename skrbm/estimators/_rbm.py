"""Restricted Boltzmann machine with any units, inference method and optimizer."""

from math import inf, isfinite
from typing import ClassVar

import numpy as np

from .._ranks import ranks
from ..inference import Sampler
from ..units import Gaussian
from ._base import BaseRBM
from ._shared import N_ITER_OR_AUTO, optimizer_of, shares_parameters, units_of

_JOINT_COLUMNS = 200  # most columns of "gaussian" units that have a precision matrix


@shares_parameters
class RBM(BaseRBM):
    """Restricted Boltzmann machine for binary, real, categorical or count data.

    An RBM models the density of the rows of X by means of hidden units, whose means serve as
    features: p(v, h) ∝ exp(h' W v + b' v + c' h) relative to independent units, with W =
    ``components_``, b = ``intercept_visible_`` and c = ``intercept_hidden_``. It is trained by
    maximum likelihood, by default with persistent Gibbs chains and an automatic step length.

    Read more in the :ref:`User Guide <rbm>`.

    Parameters
    ----------
    {n_components = 256, visible}
        "gaussian" means ``Gaussian(covariance="full")``, whose columns share a precision matrix, if
        X is an array of at most 200 columns, inference is by block Gibbs sampling in a single
        process, the hidden units have bounds, and the penalty is "l2". ``Gaussian()`` has one
        precision for each column.
    n_iter : int or "auto", default="auto"
        Number of epochs. "auto" is 40. With chains and an automatic step length it is at least the
        number of epochs that make 1000 steps, and is divided by the fraction of observed values (by
        at least 0.2). If columns share a precision matrix, it is not divided, but makes at least
        3000 steps times that fraction.
    {early_stopping, random_state}

    Attributes
    ----------
    {components_, intercept_hidden_, intercept_visible_, precision_visible_, precision_hidden_}
    {units_, visible_means_, starts_, ladder_, n_iter_, history_, n_features_in_, feature_names_in_}

    Other Parameters
    ----------------
    {hidden}
    inference : {"gibbs", "pcd", "cd", "langevin", "gibbs_langevin", "tempering", "tap", "tap3", \
            "adaptive_tap", "naive_mean_field", "mean_field", "relaxed_bp", "bp"} or object, \
            default="gibbs"
        How the moments of the model are estimated: by Markov chains (block Gibbs sampling with
        persistent chains or contrastive divergence, Langevin dynamics, parallel tempering) or by
        fixed points (TAP, naive mean field, belief propagation). Objects of :mod:`skrbm.inference`
        set steps, chains and starts, such as ``Gibbs(n_steps=5, n_chains=200, start="weighted")``
        or ``TAP(max_iter=50)``.

        By default chains of visible bits, spins and categories are balanced: where they do not mix,
        they are resampled so that the modes get the right probabilities. Those of other units are
        persistent. Fixed-point iterations start at the data.
    {optimizer, learning_rate = "auto"}
    batch_size : int, default=100
        Maximum number of rows in a mini-batch. With chains and an automatic step length, an epoch
        has at least three batches.
    {init}
        "random" draws the weights from N(0, 0.01²); between binary units they are scaled such that
        the inputs to the hidden units have a standard deviation of up to 0.75.
    {warm_start, verbose}

    See Also
    --------
    TabularRBM : DataFrames with columns of several kinds.
    BernoulliRBM : Replacement for scikit-learn's class of the same name.
    TAPRBM : The same model with defaults for training by fixed points.
    GaussianBernoulliRBM : Generation of real-valued data from noise.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skrbm import RBM
    >>> X = load_digits().data / 16
    >>> rbm = RBM(n_components=32, random_state=0).fit(X[:1000])
    >>> rbm.transform(X).shape  # features
    (1797, 32)
    >>> rbm.score_samples(X).shape  # log-likelihoods
    (1797,)
    >>> rbm.sample(5, random_state=0).shape
    (5, 64)
    """

    _fewest_batches = 3
    _parameter_constraints: ClassVar[dict] = {"n_iter": N_ITER_OR_AUTO}

    def __init__(
        self,
        n_components=256,
        *,
        visible="bernoulli",
        n_iter="auto",
        early_stopping=False,
        random_state=None,
        hidden="bernoulli",
        inference="gibbs",
        optimizer="sgd",
        learning_rate="auto",
        batch_size=100,
        init="random",
        warm_start=False,
        verbose=0,
    ):
        self.n_components = n_components
        self.visible = visible
        self.n_iter = n_iter
        self.early_stopping = early_stopping
        self.random_state = random_state
        self.hidden = hidden
        self.inference = inference
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.init = init
        self.warm_start = warm_start
        self.verbose = verbose

    def _units(self):
        return self._units_for(vars(self).get("n_features_in_", inf))

    def _units_for(self, n_columns):
        visible, hidden = units_of(self)
        # Columns of "gaussian" units share a precision matrix, which gains much where they are
        # correlated, and costs the cube of their number in a step. Chains of Langevin steps and
        # equations have none, and neither do weights with zeros.
        method = self._method()
        is_joint = (
            self.visible == "gaussian"
            and n_columns <= _JOINT_COLUMNS
            and not vars(self).get("_in_blocks", False)
            and ranks().size == 1
            and isinstance(method, Sampler)
            and method.step_size is None
            and isfinite(hidden.bounds[1] - hidden.bounds[0])
            and getattr(optimizer_of(self), "penalty", "l2") == "l2"
        )
        return (Gaussian(covariance="full") if is_joint else visible), hidden

    def _given(self, components, intercept_hidden, intercept_visible):
        has_matrix = np.ndim(getattr(components, "precision_visible_", None)) == 2
        if self.visible == "gaussian" and has_matrix:
            self.visible = Gaussian(covariance="full")
        return components, intercept_hidden, intercept_visible

    def _recipe(self, rows=None):
        # Persistent chains of numbers learn as well as balanced ones, in less time.
        start = "balanced" if self._units()[0].reach < inf else "persistent"
        return super()._recipe(rows, start=start, is_spread=True, sample_values=True)
