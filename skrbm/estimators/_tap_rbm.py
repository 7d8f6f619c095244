"""Restricted Boltzmann machine trained with fixed points of mean-field equations."""

from dataclasses import replace
from math import isfinite
from typing import ClassVar

from ..learning import NATURAL
from ._base import BaseRBM
from ._shared import FIXED_POINTS, shares_parameters

_SWEEPS_FROM_CHAINS = 2  # of methods that are named


@shares_parameters
class TAPRBM(BaseRBM):
    """Restricted Boltzmann machine trained by TAP or naive mean field.

    The moments of the model are estimated from solutions of the mean-field equations instead of
    samples (Alg. 2 of [1]_), so training and inference are deterministic given the starts. p(v, h)
    ∝ exp(h' W v + b' v + c' h), with W = ``components_``, b = ``intercept_visible_`` and c =
    ``intercept_hidden_``.

    Read more in the :ref:`User Guide <tap_rbm>`.

    Parameters
    ----------
    {n_components = 256, visible, hidden}
    inference : {"tap", "tap3", "adaptive_tap", "naive_mean_field", "relaxed_bp", "bp"} or \
            object, default="tap"
        Equations whose fixed points give the moments of the model: TAP of second or third order,
        naive mean field, or belief propagation for binary units; or an object such as
        ``TAP(max_iter=50, tol=1e-6, damping=0.5, start="data", n_starts=100)``. By default the
        iterations start at the states of persistent Gibbs chains; a name then stands for at most
        two sweeps per step of training, or ten if the hidden units have no bounds.
    {optimizer}
        Given by name, the optimizer has ``alpha=0.005`` and ``schedule="linear"``, and "sgd" also
        has ``momentum=0.5``.
    {learning_rate = 0.2}
        Units without bounds, and counts, need a smaller value, such as 0.01.
    {batch_size = 50, n_iter = 40, early_stopping, init, warm_start, verbose, random_state}

    Attributes
    ----------
    {components_, intercept_hidden_, intercept_visible_, precision_visible_, precision_hidden_}
    {units_, visible_means_, starts_, ladder_, n_iter_, history_}
        The quantities of the inference method are ``tap_log_likelihood`` (nats per sample, of at
        most 1000 rows without missing values, at the states where the sweeps of the last batch
        ended), ``n_unconverged`` (mean number of starts per batch that have not converged; with two
        sweeps, nearly all) and ``n_sweeps`` (mean number of sweeps).
    {n_features_in_, feature_names_in_}

    See Also
    --------
    BernoulliRBM : Training by sampling.

    Notes
    -----
    The paper (Table 1) trains on binary MNIST with n_components = 25, 50, 100 or 500, batch_size =
    100, learning_rate = 0.005, n_iter = 100, inference = ``TAP(max_iter=100, tol=1e-8,
    start="data", n_starts=100)`` and optimizer = ``SGD(momentum=0.5, alpha=0.001,
    schedule="constant", centered=False, average=False)``.

    References
    ----------
    .. [1] Tramel, E. W., Gabrié, M., Manoel, A., Caltagirone, F., & Krzakala, F. (2018).
       Deterministic and generalized framework for unsupervised learning with restricted Boltzmann
       machines. Physical Review X 8, 041006.

    Examples
    --------
    >>> import numpy as np
    >>> from skrbm import TAPRBM
    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
    >>> TAPRBM(n_components=2, random_state=0).fit(X).transform(X).shape
    (4, 2)
    """

    _parameter_constraints: ClassVar[dict] = {"inference": FIXED_POINTS}

    def __init__(
        self,
        n_components=256,
        *,
        visible="bernoulli",
        hidden="bernoulli",
        inference="tap",
        optimizer="sgd",
        learning_rate=0.2,
        batch_size=50,
        n_iter=40,
        early_stopping=False,
        init="random",
        warm_start=False,
        verbose=0,
        random_state=None,
    ):
        self.n_components = n_components
        self.visible = visible
        self.hidden = hidden
        self.inference = inference
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.early_stopping = early_stopping
        self.init = init
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    _optimizer_defaults: ClassVar[dict] = {"momentum": 0.5, "alpha": 0.005, "schedule": "linear"}

    def _recipe(self, rows=None):
        recipe = super()._recipe(rows, equations="chains", parameters=NATURAL)
        # Few sweeps solve the equations where chains have found the modes. Hidden units without
        # bounds need more: their means are soon far from those of the chains.
        bounds = self._units()[1].bounds
        if isinstance(self.inference, str) and isfinite(bounds[1] - bounds[0]):
            method = replace(recipe.phase.fixed_point, max_iter=_SWEEPS_FROM_CHAINS)
            recipe = replace(recipe, phase=replace(recipe.phase, fixed_point=method))
        return recipe
