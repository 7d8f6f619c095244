"""Deep Boltzmann machine trained deterministically, by the fixed points of mean-field equations."""

import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import ClassVar

import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from ..arrays import cast, from_numpy, namespace, one_blas_thread, row_blocks
from ..exceptions import DataRangeWarning, DivergenceError
from ..inference import STARTS, DeepPhases, NaiveMeanField, given_visible, solve_to_convergence
from ..inputs import check_rows, layers_from
from ..machine import (
    Machine,
    condition,
    hidden_layers,
    input_field,
    log_partition,
    n_enumerated,
    turned_over,
)
from ..units import Theta, log_weight
from ._base import BaseMachine
from ._tap_rbm import TAPRBM, DeterministicMixin

_BLOCK_ROWS = 1000  # rows that are solved together
_MOST_PER_ROW = 2**18  # configurations times units that are summed for a row


class DeepTAPMachine(DeterministicMixin, BaseMachine):
    """Deep Boltzmann machine trained by TAP or naive mean field.

    Several hidden layers, each coupled to the next:
    p(v, h₁, …, h_L) ∝ exp(h₁' W₁ v + h₂' W₂ h₁ + … + b' v + Σ c_l' h_l), with W = ``components_``
    and the biases in ``intercepts_``. Training has two parts (Alg. 4 of [1]_). First the layers are
    trained one by one as :class:`TAPRBM`, each on samples of the hidden units of the one below.
    Then all are trained jointly; given the data, the hidden layers are no longer independent, so
    that both terms of the gradient are solutions of the mean-field equations.

    Read more in the :ref:`User Guide <deep_tap_machine>`.

    Parameters
    ----------
    n_components : int or array-like of int, default=(500, 100)
        Number of units of each hidden layer, from the visible one upwards.
    visible, hidden : {"bernoulli", "gaussian", "truncated_gaussian", \
            "truncated_gauss_bernoulli"} or Unit, default="bernoulli"
        Kind of the visible and of all hidden units, as in :class:`TAPRBM`.
    inference : {"tap", "tap3", "adaptive_tap", "naive_mean_field", "relaxed_bp"} or object, \
            default="tap"
        Equations whose fixed points are both phases: second or third order, or the first; or an
        object such as ``TAP(order=2, max_iter=50, tol=1e-6, damping=0.5)``.
    starts : {"data", "chains", "persistent", "random"}, default="data"
        Where the solutions of the model phase are looked for: at the last rows of data (the
        paper's choice), at the states of persistent Gibbs chains, at the last solutions, or at
        random.
    n_starts : int or None, default=None
        Number K of solutions for each batch; None is ``batch_size``, or the number of rows given to
        ``fit`` if there are fewer.
    n_iter_pretrain : int, default=20
        Passes over the data for each layer before the joint training.
    learning_rate : float, default=0.1
        Step of the gradient ascent on the mean log-likelihood, in both parts of the training.
    batch_size : int, default=20
        Largest number of rows of a mini-batch; batches have nearly the same size.
    n_iter : int, default=20
        Passes over the data in the joint training.
    verbose : int, default=0
        Whether to print a line for each pass.
    random_state : int, RandomState instance or None, default=None
        Determines initial weights, the order of rows, the samples that layers are pretrained on
        and the starts.
    momentum : float in [0, 1), default=0.5
        Part of the last step that is added to the next.
    alpha : float, default=0.001
        Strength of the penalty on the weights.
    penalty : {"l2", "l1"}, default="l2"
        alpha / 2 ||W||² or alpha ||W||₁.
    schedule : {"constant", "linear", "cosine", "exponential"} or callable, default="linear"
        Factor on the learning rate, by the fraction of ``n_iter_pretrain`` or ``n_iter`` that has
        passed: 1, down to 0 in a line or a cosine, down to 1e-3; or a function of the fraction.
    layer : int, default=-1
        Hidden layer that :meth:`transform` returns and :meth:`inverse_transform` takes, as an index
        into ``n_components``: 0 is the first, -1 the last.
    shuffle : bool, default=True
        Whether to shuffle the rows in each pass.
    early_stopping : bool or {"free_energy_gap", "score"}, default=False
        Whether to set rows aside, from the pretraining too, and stop the joint training after
        ``n_iter_no_change`` bad passes in a row, as in :class:`TAPRBM`.
    validation_fraction : float in (0, 1), default=0.1
        Part of the rows to set aside.
    n_iter_no_change : int, default=5
        Patience of early stopping, in passes.
    tol : float, default=1e-2
        Tolerance of early stopping, in nats per sample.
    warm_start : bool, default=False
        Whether ``fit`` goes on from the last solution, with joint training only.
    binarize : float or None, default=None
        Threshold above which values of X count as 1, others as 0; None takes X as it is.

    Attributes
    ----------
    components_ : list of arrays of shape (n_components[l], n_components[l - 1])
        Weights, upwards; those of the first layer have shape (n_components[0], n_features).
    intercepts_ : list of arrays
        Biases of each layer, of the visible one first.
    precisions_, spikes_ : list of arrays or None
        The other parameters of the units of each layer, None where they have none; see
        :class:`TAPRBM`.
    units_ : tuple of Unit
        Kind of the units of each layer, with the bounds that were taken from the data.
    visible_means_ : array of shape (n_features,)
        Means of the training data; absent after ``from_parameters``.
    starts_ : array of shape (n_starts, n_features)
        The last starts, from which :meth:`log_partition` and :meth:`sample` start too.
    n_iter_ : int
        Passes of joint training over the data so far.
    history_ : dict of list
        For each pass of the joint training: ``epoch``, ``learning_rate``, ``time`` (s),
        ``tap_log_likelihood`` (nats per sample, of 256 rows, at the last batch's solutions),
        ``n_unconverged`` and ``n_unconverged_data`` (solutions of the model and of the data phase
        of a batch, on average), ``n_sweeps`` (mean number of sweeps of the model phase) and, with
        early stopping, ``free_energy_gap`` and ``score``.
    pretraining_history_ : list of dict
        History of the pretraining of each layer, as in :class:`TAPRBM`.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen in fit, if all are strings.

    See Also
    --------
    TAPRBM : The machine with one hidden layer.

    Notes
    -----
    The paper (Fig. 11) trains two and three hidden layers on binary MNIST with
    n_iter_pretrain = 50, n_iter = 3000, learning_rate = 0.001 and schedule = "constant".

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
        **BaseMachine._parameter_constraints,
        **DeterministicMixin._constraints,
        "n_components": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "n_iter_pretrain": [Interval(Integral, 0, None, closed="left")],
        "layer": [Interval(Integral, None, None, closed="neither")],
    }

    def __init__(
        self,
        n_components=(500, 100),
        *,
        visible="bernoulli",
        hidden="bernoulli",
        inference="tap",
        starts="data",
        n_starts=None,
        n_iter_pretrain=20,
        learning_rate=0.1,
        batch_size=20,
        n_iter=20,
        verbose=0,
        random_state=None,
        momentum=0.5,
        alpha=0.001,
        penalty="l2",
        schedule="linear",
        layer=-1,
        shuffle=True,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=5,
        tol=1e-2,
        warm_start=False,
        binarize=None,
    ):
        self.n_components = n_components
        self.visible = visible
        self.hidden = hidden
        self.inference = inference
        self.starts = starts
        self.n_starts = n_starts
        self.n_iter_pretrain = n_iter_pretrain
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.verbose = verbose
        self.random_state = random_state
        self.momentum = momentum
        self.alpha = alpha
        self.penalty = penalty
        self.schedule = schedule
        self.layer = layer
        self.shuffle = shuffle
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.warm_start = warm_start
        self.binarize = binarize

    # ------------------------------------------------------------ the parts of the training

    def _layer_sizes(self):
        if isinstance(self.n_components, Integral):
            return [int(self.n_components)]
        ordered = isinstance(self.n_components, Sequence) or getattr(self.n_components, "ndim", 0)
        sizes = list(self.n_components) if ordered else []
        if not sizes or not all(isinstance(n, Integral) and n >= 1 for n in sizes):
            raise ValueError(
                "n_components must be integers >= 1 in order, one for each hidden layer, got "
                f"{self.n_components!r}"
            )
        return [int(n) for n in sizes]

    def _units(self):
        visible, hidden = super()._units()
        return (visible, *[hidden] * len(self._layer_sizes()))

    def _method(self):
        return DeepPhases(STARTS[self.starts](self._fixed_point()))

    def _initial_machine(self, X, rng):
        _layer_index(self.layer, len(self._layer_sizes()))
        return self._random_machine(X, rng)

    def _prepared(self, machine, rng, X, rows):
        """Train the layers one by one, each on samples of the one below (Alg. 4)."""
        if not self.n_iter_pretrain:
            self.pretraining_history_ = []
            return machine
        histories = []
        V = X if rows.size == X.shape[0] else _take_rows(X, rows)
        weights, thetas = [], []
        for l, binarize in enumerate([self.binarize] + [None] * (len(machine.weights) - 1)):
            rbm = self._layer_estimator(machine, l, binarize, rng)
            self._pretrain(rbm, V, l)
            fitted = rbm.machine_
            histories.append(rbm.history_)
            thetas += fitted.thetas if l == 0 else fitted.thetas[1:]
            weights.append(fitted.weights[0])
            if l + 1 < len(machine.weights):
                V = _hidden_samples(rbm, V, rng)
        self.pretraining_history_ = histories  # not before: an interruption leaves what there was
        return Machine(machine.units, tuple(thetas), tuple(weights))

    def _pretrain(self, rbm, V, l):
        try:
            with warnings.catch_warnings():
                # Of the range of X has been warned, and how the pretraining ends is not the end.
                for category in (DataRangeWarning, ConvergenceWarning):
                    warnings.simplefilter("ignore", category)
                rbm.fit(V)
        except DivergenceError as error:
            raise DivergenceError(
                f"{type(self).__name__}: the pretraining of hidden layer {l + 1} diverged in epoch "
                f"{rbm.n_iter_ + 1}, and nothing is kept of it. Lower learning_rate or momentum, "
                "or scale X."
            ) from error

    def _layer_estimator(self, machine, l, binarize, rng):
        """Return the estimator that pretrains the weights ``l``, below hidden layer ``l``."""
        shared = set(TAPRBM().get_params()) & set(self.get_params(deep=False))
        params = {name: getattr(self, name) for name in shared}
        params |= {
            "n_components": machine.n_units[l + 1],
            "visible": machine.units[l],
            "hidden": machine.units[l + 1],
            "n_iter": self.n_iter_pretrain,
            "random_state": int(rng.integers(2**31 - 1, 1)[0]),
            "early_stopping": False,
            "warm_start": False,
            "binarize": binarize,
        }
        return TAPRBM(**params)

    def _attributes(self, machine, state):
        fields, precisions, spikes = zip(*machine.thetas, strict=True)
        return {
            "units_": machine.units,
            "components_": list(machine.weights),
            "intercepts_": list(fields),
            "precisions_": list(precisions),
            "spikes_": list(spikes),
            "starts_": self._method().visible(state),
        }

    def _monitored(self, machine, state, bits):
        values = self._fixed_point().log_partition(machine, state.model.solution.state)
        log_z = float(namespace(values).mean(values))
        return {
            "tap_log_likelihood": lambda machine, rows: -self._free_energy(machine, rows) - log_z
        }

    # ------------------------------------------------------------- solutions given the data

    def _solve(self, machine, X):
        """Return (machine, method, state) of the layers above the first given its values X."""
        above, method, start = given_visible(machine, X, self._fixed_point())
        single = machine.dtype != namespace(machine.weights[0]).float64
        solution = solve_to_convergence(method, above, start, tol=method.tol if single else 1e-12)
        return above, method, solution.state

    def _free_energy(self, machine, X):
        above, method, state = self._solve(machine, X)
        return -log_weight(machine.thetas[0], X) - method.log_partition(above, state)

    @one_blas_thread
    def _log_weight(self, machine, X):
        """Return log p(v) + log Z: summed where the layers are small, else bounded from below."""
        own = log_weight(machine.thetas[0], X)
        hidden = hidden_layers(machine, input_field(machine, 1, (X, None)))
        others = sum(hidden.n_units)
        if not hidden.weights or 2.0 ** n_enumerated(hidden) * others <= _MOST_PER_ROW:
            return own + log_partition(hidden)
        above, _, state = self._solve(machine, X)
        mean_field = NaiveMeanField()  # whose free energy is a bound
        start = mean_field.start(above, state.means[0])
        state = solve_to_convergence(mean_field, above, start).state
        return own + mean_field.log_partition(above, state)

    def _by_blocks(self, function, machine, X, dtype):
        """Return function(machine, rows) of blocks of rows, computed in float64, as ``dtype``."""
        double = namespace(machine.weights[0]).float64
        machine = machine.astype(double)
        parts = [
            function(machine, rows.astype(double) if sp.issparse(rows) else cast(rows, double))
            for rows in row_blocks(X, _BLOCK_ROWS)
        ]
        return cast(namespace(parts[0]).concat(parts, axis=0), dtype)

    def _hidden_mean(self, l):
        """Return the function of (machine, rows) that gives the means of layer ``l``."""
        return lambda machine, X: self._solve(machine, X)[-1].means[l - 1]

    # -------------------------------------------------------------------- public methods

    @property
    def machine_(self):
        """The fitted parameters as a machine, which shares their memory."""
        check_is_fitted(self, "components_")
        parts = zip(self.intercepts_, self.precisions_, self.spikes_, strict=True)
        thetas = tuple(Theta(*theta) for theta in parts)
        return Machine(self.units_, thetas, tuple(self.components_))

    @property
    def _n_features_out(self):
        return self.components_[_layer_index(self.layer, len(self.components_)) - 1].shape[0]

    def transform(self, X):
        """Compute the expected units of the hidden layer ``layer`` given v = X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        H : array of shape (n_samples, n_components[layer])
        """
        return self.transform_layer(X, self.layer)

    def transform_layer(self, X, layer):
        """Compute the expected units of any hidden layer given v = X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        layer : int
            Index into ``n_components``: 0 is the first hidden layer, -1 the last.

        Returns
        -------
        H : array of shape (n_samples, n_components[layer])
        """
        machine, X = self._visible(X)
        l = _layer_index(layer, len(machine.weights))
        return self._by_blocks(self._hidden_mean(l), machine, X, machine.dtype)

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
        machine = self.machine_
        l = _layer_index(self.layer, len(machine.weights))
        H = check_rows("H", H, machine.n_units[l], machine.weights[0])
        return self._by_blocks(self._hidden_mean(l), turned_over(machine, l), H, machine.dtype)

    def _first_hidden(self, X):
        return self.transform_layer(X, 0)

    def free_energy(self, X):
        """Estimate the free energy F(v) = -log sum_h exp(-E(v, h)) by ``inference``.

        With one hidden layer it is exact.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        F : array of shape (n_samples,)
            In nats, float64; log p(v) = -F(v) - log Z.
        """
        machine, X = self._visible(X)
        double = namespace(machine.weights[0]).float64
        return self._by_blocks(self._free_energy, machine, X, double)

    def score_samples(self, X):
        """Compute the log-likelihood of each sample, or a lower bound of it.

        log Z is summed exactly if every other layer has at most 20 units in all, and else it is
        estimated by annealed importance sampling. Given a sample, the hidden layers are summed
        exactly if there is only one, or if every other one of them has at most about 10 units in
        all; elsewhere naive mean field bounds their part, so that the score does not flatter.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        log_likelihood : array of shape (n_samples,)
            In nats, float64.

        Warns
        -----
        LikelihoodWarning
            If fewer than a tenth of the annealed chains are effective, or log Z by ``inference``
            differs from that by annealing by more than a nat.
        """
        return super().score_samples(X)

    def _log_weights(self, X):
        machine, X = self._visible(X)
        return self._by_blocks(self._log_weight, machine, X, namespace(machine.weights[0]).float64)

    @classmethod
    def from_parameters(cls, components, intercepts=None, precisions=None, spikes=None, **params):
        """Build a fitted machine from arrays.

        Parameters
        ----------
        components : list of array-like of shape (n_components[l], n_components[l - 1])
            Weights, upwards; those of the first layer have shape (n_components[0], n_features).
        intercepts : list of array-like, default=None
            Biases of each layer, of the visible one first; default: zeros.
        precisions, spikes : list of array-like or None, default=None
            Other parameters of each layer, None where its units have none; default: those of units
            that know no data.
        **params
            Parameters of the estimator other than ``n_components``.

        Returns
        -------
        estimator : object
            Fitted, with copies of the arrays.
        """
        estimator = cls(**params)
        estimator._validate_params()
        visible, hidden = (unit.fitted() for unit in DeterministicMixin._units(estimator))
        machine = layers_from(components, (intercepts, precisions, spikes), visible, hidden)
        estimator.n_components = machine.n_units[1:]
        estimator.pretraining_history_ = []
        return estimator._adopted(machine)


def _layer_index(layer, n):
    """Return the number of a hidden layer in a machine, from 1, given as an index of ``n``."""
    if not isinstance(layer, Integral) or not -n <= layer < n:
        raise ValueError(
            f"layer must be an integer from {-n} to {n - 1}, the index of one of the {n} hidden "
            f"layers, got {layer!r}"
        )
    return int(layer) % n + 1


def _take_rows(X, rows):
    return X[rows] if sp.issparse(X) else namespace(X).take(X, from_numpy(rows, X), axis=0)


def _hidden_samples(rbm, X, rng):
    """Draw the hidden units of a fitted machine for each row of X."""
    machine = rbm.machine_
    parts = [
        machine.units[1].sample(condition(machine, rbm._visible(rows)[1]), rng)
        for rows in row_blocks(X, _BLOCK_ROWS)
    ]
    return namespace(parts[0]).concat(parts, axis=0)
