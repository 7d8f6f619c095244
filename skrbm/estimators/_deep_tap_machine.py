"""Deep Boltzmann machine trained deterministically, by the fixed points of mean-field equations."""

import warnings
from dataclasses import replace
from numbers import Integral
from typing import ClassVar

import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from .._sklearn import Interval
from ..arrays import cast, has_missing, namespace, row_blocks, take_rows, working_dtype
from ..evaluation import Density
from ..evaluation._deep import hidden_means
from ..exceptions import DataRangeWarning, DivergenceError
from ..inference import completed
from ..inputs import LAYER_ATTRIBUTES, check_rows, layers_from
from ..learning import DeepPhase
from ..machine import Machine, condition, turned_over
from ._base import BaseRBM
from ._encoded import by_blocks, visible_rows
from ._layouts import Layers
from ._recipe import Recipe, layer_sizes
from ._shared import FIXED_POINTS, optimizer_of, shares_parameters, units_of
from ._tap_rbm import TAPRBM

_COMPLETION = 5  # sweeps that draw what is missing


@shares_parameters
class DeepTAPMachine(BaseRBM):
    """Deep Boltzmann machine trained by TAP or naive mean field.

    The model has several hidden layers, each coupled to the next:
    p(v, h₁, …, h_L) ∝ exp(h₁' W₁ v + h₂' W₂ h₁ + … + b' v + Σ c_l' h_l), with W = ``components_``
    and the biases in ``intercepts_``.
    First the layers are trained one by one, each as a :class:`TAPRBM` on samples of the layer below
    (Alg. 4 of [1]_). Then all are trained jointly, with both terms of the gradient computed from
    solutions of the mean-field equations.

    Read more in the :ref:`User Guide <deep_tap_machine>`.

    Parameters
    ----------
    n_components : int or array-like of int, default=(500, 100)
        Number of units of each hidden layer, from the visible one upwards.
    {visible, hidden}
    inference : {"tap", "tap3", "adaptive_tap", "naive_mean_field", "relaxed_bp"} or object, \
            default="tap"
        Equations whose fixed points give both terms of the gradient: TAP of second or third order,
        or naive mean field; or an object such as ``TAP(max_iter=50, tol=1e-6, damping=0.5,
        start="chains")``. By default the iterations of the model phase start at the rows of the
        last batch.
    layer : int, default=-1
        Index of the hidden layer that :meth:`transform` returns and :meth:`inverse_transform`
        takes: 0 is the first, -1 the last.
    n_iter_pretrain : int, default=20
        Number of epochs for which each layer is pretrained.
    {optimizer}
        Given by name, the optimizer has ``alpha=0.001`` and ``schedule="linear"``, and "sgd" also
        has ``momentum=0.5``. Gradients are not centered, and parameters are not averaged.
    {learning_rate = 0.1}
        Used both in pretraining and in joint training.
    {batch_size = 20}
    n_iter : int, default=20
        Number of epochs of joint training.
    {early_stopping}
    warm_start : bool, default=False
        Whether ``fit`` continues from the last solution, with joint training only.
    {verbose, random_state}

    Attributes
    ----------
    components_ : list of arrays of shape (n_components[l], n_components[l - 1])
        Weights, from the visible layer upwards; those of the first layer have shape
        (n_components[0], n_features).
    intercepts_ : list of arrays
        Biases of each layer, the visible one first.
    precisions_, spikes_, absolutes_, skews_ : list of arrays or None
        Other parameters of the units of each layer; None for units without them.
    units_ : tuple of Unit
        The units of each layer, including bounds taken from the data.
    {visible_means_, starts_}
    n_iter_ : int
        Number of epochs of joint training.
    history_ : dict of list
        History of the joint training, as in :class:`TAPRBM`, with ``n_unconverged_data``, the mean
        number of solutions per batch that did not converge in the data phase.
    pretraining_history_ : list of dict
        History of the pretraining of each layer, as in :class:`TAPRBM`.
    {n_features_in_, feature_names_in_}

    See Also
    --------
    TAPRBM : The model with one hidden layer.

    Notes
    -----
    The paper (Fig. 11) trains two and three hidden layers on binary MNIST with
    n_iter_pretrain = 50, n_iter = 3000, learning_rate = 0.001 and
    optimizer = ``SGD(momentum=0.5, alpha=0.001, schedule="constant")``.

    References
    ----------
    .. [1] Tramel, E. W., Gabrié, M., Manoel, A., Caltagirone, F., & Krzakala, F. (2018).
       Deterministic and generalized framework for unsupervised learning with restricted Boltzmann
       machines. Physical Review X 8, 041006. Appendix E.

    Examples
    --------
    >>> import numpy as np
    >>> from skrbm import DeepTAPMachine
    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
    >>> machine = DeepTAPMachine(n_components=(3, 2), random_state=0).fit(X)
    >>> machine.transform(X).shape, machine.transform_layer(X, 0).shape
    ((4, 2), (4, 3))
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "inference": FIXED_POINTS,
        "n_iter_pretrain": [Interval(Integral, 0, None, closed="left")],
        "layer": [Interval(Integral, None, None, closed="neither")],
    }
    _reads_blocks = False
    _layout = Layers()
    _optimizer_defaults: ClassVar[dict] = {"momentum": 0.5, "alpha": 0.001, "schedule": "linear"}

    def __init__(
        self,
        n_components=(500, 100),
        *,
        visible="bernoulli",
        hidden="bernoulli",
        inference="tap",
        layer=-1,
        n_iter_pretrain=20,
        optimizer="sgd",
        learning_rate=0.1,
        batch_size=20,
        n_iter=20,
        early_stopping=False,
        warm_start=False,
        verbose=0,
        random_state=None,
    ):
        self.n_components = n_components
        self.visible = visible
        self.hidden = hidden
        self.inference = inference
        self.layer = layer
        self.n_iter_pretrain = n_iter_pretrain
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.early_stopping = early_stopping
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    # ------------------------------------------------------------ the parts of the training

    init = "random"

    def _units(self):
        visible, hidden = units_of(self)
        if visible.is_joint:
            raise ValueError(f"DeepTAPMachine does not support visible units {visible}; use RBM")
        return (visible, *[hidden] * len(layer_sizes(self.n_components)))

    def _recipe(self, rows=None):
        _layer_index(self.layer, len(layer_sizes(self.n_components)))
        method = self._method()
        method.check_marginals()
        # All layers learn together, and only machines with one hidden layer can be centred.
        optimizer = replace(optimizer_of(self), centered=False, average=False)
        return Recipe(DeepPhase(method, method.start or "data"), optimizer)

    def _density(self, machine, state, recipe):
        starts = recipe.phase.visible(state)
        precise = machine.dtype == namespace(starts).float64
        return Density(machine, starts, method=self._method(), precise=precise)

    def _pretrain(self, training, rows, index):
        """Train each layer on samples of the one below (Alg. 4 of Tramel et al. 2018)."""
        histories = []
        try:
            if self.n_iter_pretrain:
                self._train_layers(training, rows, index, histories)
        except KeyboardInterrupt:
            if not hasattr(self, "_training"):  # a later fit leaves what there was
                self.pretraining_history_ = histories
                training.n_rows, training.visible_means = rows.n_known, rows.means
                machine, training.machine = training.machine, None
                self._publish(machine, training.phase_state, training)
            raise
        self.pretraining_history_ = histories

    def _train_layers(self, training, rows, index, histories):
        """Put the parameters of each trained layer into ``training``; adds to ``histories``."""
        machine, rng = training.machine, training.rng
        thetas, weights = list(machine.thetas), list(machine.weights)
        # In the order of the fit, as each row has its own samples of the layers above.
        V = take_rows(rows.X, rows.index[rows.epoch(index, rng)])
        if working_dtype(V) != rows.dtype:  # thresholds and clipping change the dtype
            V = V.astype(rows.dtype) if sp.issparse(V) else cast(V, rows.dtype)
        if has_missing(V):  # columns may be known in validation rows only
            xp = namespace(V)
            means = xp.broadcast_to(cast(rows.means, V.dtype), V.shape)
            V = xp.where(xp.any(V == V, axis=0), V, means)
        method = self._method()
        for l in range(len(weights)):
            rbm = TAPRBM(
                machine.n_units[l + 1],
                visible=machine.units[l],
                hidden=machine.units[l + 1],
                inference=replace(method, start=method.start or "data"),
                optimizer=training.recipe.optimizer,
                learning_rate=self.learning_rate,
                batch_size=int(self.batch_size),
                n_iter=int(self.n_iter_pretrain),
                verbose=self.verbose,
                random_state=int(rng.integers(2**31 - 1, 1)[0]),
            )
            rbm._shown_as = f"{type(self).__name__}, layer {l + 1}"
            try:
                with warnings.catch_warnings():  # of the range of X, and that this is not the end
                    for category in (DataRangeWarning, ConvergenceWarning):
                        warnings.simplefilter("ignore", category)
                    rbm.fit(V)
            except DivergenceError as error:
                raise DivergenceError(
                    f"the pretraining of hidden layer {l + 1} diverged in epoch "
                    f"{getattr(rbm, 'n_iter_', 0) + 1}; lower learning_rate or momentum, or scale X"
                ) from error
            finally:
                if hasattr(rbm, "components_"):  # it may have ended before there were any
                    fitted = rbm.machine_
                    thetas[l + 1], weights[l] = fitted.thetas[1], fitted.weights[0]
                    thetas[0] = thetas[0] if l else fitted.thetas[0]
                    histories.append(rbm.history_)
                    training.machine = Machine(machine.units, tuple(thetas), tuple(weights))
            if l + 1 < len(weights):
                V = _hidden_samples(rbm, V, rng)

    # -------------------------------------------------------------------- public methods

    @property
    def density_(self):
        """The fitted model as a :class:`~skrbm.evaluation.Density`."""
        return Density(self.machine_, self.starts_, method=self._method())

    @property
    def _n_features_out(self):
        return self.components_[_layer_index(self.layer, len(self.components_)) - 1].shape[0]

    def transform(self, X):
        """Compute the expected units of the hidden layer ``layer`` given v = X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            NaN is a missing value, whose unit is free in the equations (:ref:`missing_values`).

        Returns
        -------
        H : array of shape (n_samples, n_components[layer])
        """
        return self.transform_layer(X, self.layer)

    @by_blocks
    def transform_layer(self, X, layer):
        """Compute the expected units of any hidden layer given v = X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As in :meth:`transform`.
        layer : int
            Index into ``n_components``: 0 is the first hidden layer, -1 the last.

        Returns
        -------
        H : array of shape (n_samples, n_components[layer])
        """
        X, density = visible_rows(self, X, missing=True), self.density_
        l = _layer_index(layer, len(density.machine.weights))
        return cast(hidden_means(density, X, l), density.machine.dtype)

    def inverse_transform(self, H):
        """Compute the expected visible units given values of the hidden layer ``layer``.

        Parameters
        ----------
        H : array-like of shape (n_samples, n_components[layer])
            Values of the hidden units, such as those from :meth:`transform`.

        Returns
        -------
        X : array of shape (n_samples, n_features)
        """
        density, machine = self.density_, self.machine_
        l = _layer_index(self.layer, len(machine.weights))
        H = check_rows("H", H, machine.n_units[l], machine.weights[0], "hidden")
        return cast(hidden_means(density, H, l, turned_over(machine, l)), machine.dtype)

    def _first_hidden(self, X):
        return self.transform_layer(X, 0)

    @classmethod
    def from_parameters(cls, components, intercepts=None, **params):
        """Create a fitted estimator from arrays.

        Parameters
        ----------
        components : list of array-like of shape (n_components[l], n_components[l - 1])
            Weights, from the visible layer upwards; those of the first layer have shape
            (n_components[0], n_features).
        intercepts : list of array-like, default=None
            Biases of each layer, the visible one first; by default zeros.
        **params
            Parameters of the estimator other than ``n_components``, and other parameters of the
            units, such as ``precisions``; by default those of units that were not fitted to data.

        Returns
        -------
        estimator : object
            Fitted, with copies of the arrays.
        """
        others = [params.pop(name.rstrip("_"), None) for name in LAYER_ATTRIBUTES[1:]]
        estimator = cls(**params)
        estimator._validate_params()
        units = (unit.fitted() for unit in units_of(estimator))
        machine = layers_from(components, (intercepts, *others), *units)
        estimator.n_components = machine.n_units[1:]
        estimator.pretraining_history_ = []
        return estimator._adopted(machine, estimator._recipe())


def _layer_index(layer, n):
    """Return the number of a hidden layer in a machine, from 1, given as an index of ``n``."""
    if not isinstance(layer, Integral) or not -n <= layer < n:
        raise ValueError(f"layer must be an integer from {-n} to {n - 1}, got {layer!r}")
    return int(layer) % n + 1


def _hidden_samples(rbm, X, rng):
    """Draw the hidden units of a fitted machine for each row of X, with what is missing drawn."""
    machine, parts = rbm.machine_, []
    for rows in row_blocks(X):
        if has_missing(rows):
            rows = completed(machine, rbm.impute(rows), rows == rows, rng, _COMPLETION)
        parts.append(machine.units[1].sample(condition(machine, visible_rows(rbm, rows)), rng))
    return namespace(rbm.components_).concat(parts, axis=0)
