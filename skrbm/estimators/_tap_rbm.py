"""Machine trained by the fixed points of mean-field equations."""

from dataclasses import replace
from math import isfinite
from typing import ClassVar

from ..inputs import check_scale_known
from ..learning import FixedPointPhase
from ._base import BaseRBM
from ._choices import (
    FIXED_POINT_CONSTRAINTS,
    OPTIMIZER_CONSTRAINT,
    UNIT_CONSTRAINTS,
    fixed_point_of,
    optimizer_of,
    unit_of,
    units_of,
)
from ._parts import Parts

_SWEEPS_FROM_CHAINS = 2  # of methods that are given by name


class TAPRBM(BaseRBM):
    """Restricted Boltzmann machine trained by TAP or naive mean field.

    The model's moments come from K solutions of the mean-field equations instead of samples
    (Alg. 2 of [1]_), so that training and inference are deterministic given the starts.
    p(v, h) ∝ exp(h' W v + b' v + c' h), with W = ``components_``, b = ``intercept_visible_`` and
    c = ``intercept_hidden_``.

    Read more in the :ref:`User Guide <tap_rbm>`.

    Parameters
    ----------
    n_components : int, default=256
        Number of hidden units.
    visible : {"bernoulli", "spin", "gaussian", "relu", "double_relu", \
            "truncated_gaussian", "truncated_gauss_bernoulli"} or Unit, default="bernoulli"
        Kind of the visible units: 0 or 1; -1 or 1; real; real from 0 on; real,
        with parameters of their own on each side of 0; on an interval; on one with a point mass
        at 0 (:ref:`units`). Or an object such as ``TruncatedGaussian(-3, 3)``; bounds that are
        not given are those of the data for visible units, and [-1, 1], with a point mass [0, 1],
        for hidden ones. ``Categorical(sizes)`` is for categories, by "naive_mean_field".
    hidden : str or Unit, default="bernoulli"
        Kind of the hidden units: a name or an object as ``visible`` takes.
    inference : {"tap", "tap3", "adaptive_tap", "naive_mean_field", "relaxed_bp", "bp"} or \
            object, default="tap"
        Equations whose fixed points are the model phase: second or third order, or the first;
        belief propagation between binary units; or an object such as
        ``TAP(order=2, max_iter=50, tol=1e-6, damping=0.5)``. In training a name stands for at most
        2 sweeps with ``starts`` "chains" or "tempered", which are in the modes already, and for 10
        with other starts or where hidden units have no bounds.
    starts : {"data", "chains", "tempered", "persistent", "random"}, default="chains"
        Where the solutions are looked for. "data": the last rows of data (the paper's choice).
        "chains": states of persistent Gibbs chains. "tempered": states of chains that also exchange
        with samples of earlier machines of the training, so that all modes have solutions; the fit
        then has ``ladder_``. "persistent": the last solutions. "random": draws of independent
        units. All but "data" and "persistent" draw random numbers, for the starts alone.
    n_starts : int or None, default=None
        Number K of solutions for each batch; None is ``batch_size``, or the number of rows given to
        ``fit`` if there are fewer.
    learning_rate : float or "auto", default=0.2
        Step of the gradient ascent on the mean log-likelihood. Units without bounds, and counts,
        need a smaller one, such as 0.01. "auto" finds it in training, best with ``centered=True``
        and a falling ``schedule``, which is a factor on what is found.
    batch_size : int, default=50
        Largest number of rows of a mini-batch; batches have nearly the same size.
    n_iter : int, default=40
        Passes over the data.
    verbose : int, default=0
        Whether to print a line for each pass.
    random_state : int, RandomState instance or None, default=None
        Determines initial weights, the order of rows and the starts.
    optimizer : {"sgd", "natural", "adam"} or object, default="sgd"
        Gradient ascent with ``momentum``, or Adam, by which each parameter has a step of its own,
        about as long as ``learning_rate``; or an object such as ``Adam(decay=0.5)``, which has its
        own ``alpha``, ``penalty`` and ``max_norm``.
    momentum : float in [0, 1), default=0.5
        Part of the last step that is added to the next. Adam ignores it.
    alpha : float, default=0.005
        Strength of the penalty on the weights. Penalties that make zeros need less, such as 0.001.
    penalty : {"l2", "l1", "l1b", "group_lasso"}, default="l2"
        alpha / 2 ||W||², alpha ||W||₁ or another one of :ref:`sparse_weights`; all but "l2" make
        exact zeros.
    centered : bool, default=True
        Whether the gradient is that of the couplings between deviations of the units from their
        means. Learning is then faster, and depends less on the learning rate.
    average : bool, default=True
        Whether the fitted parameters are means over the steps, in which late ones weigh more. They
        have less noise than those of the last step, where ``fit`` and ``partial_fit`` go on.
    schedule : {"constant", "linear", "cosine", "exponential"} or callable, default="linear"
        Factor on the learning rate, by the fraction of ``n_iter`` that has passed: 1, down to 0
        in a line or a cosine, down to 1e-3; or a function of the fraction.
    init : "random", fitted estimator or (components, intercept_hidden, intercept_visible), \
            default="random"
        Where training starts. "random" draws weights from N(0, 0.01²) and sets visible biases to
        the log-odds of the data.
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
        point mass of 1 at 0.
    absolute_visible_, skew_visible_ : array of shape (n_features,)
        Only of :class:`~skrbm.units.DoubleReLU` units, which have both sides of 0 apart.
    precision_hidden_, spike_hidden_ : array of shape (n_components,)
        The same of the hidden units, and ``absolute_hidden_``, ``skew_hidden_``.
    units_ : tuple of Unit
        Kinds of the visible and the hidden units, with the bounds that were taken from the data.
    visible_means_ : array of shape (n_features,)
        Means of the training data; absent after ``from_parameters``.
    starts_ : array of shape (n_starts, n_features)
        The last starts, from which :meth:`log_partition` and :meth:`sample` start too.
    ladder_ : Ladder
        Only of a fit with ``starts="tempered"``, as of :class:`RBM`.
    n_iter_ : int
        Passes over the data so far.
    history_ : dict of list
        For each pass: ``epoch``, ``learning_rate``, ``time`` (s), ``tap_log_likelihood`` (nats per
        sample, of at most 1000 rows, at the states where the last batch's sweeps ended),
        ``n_unconverged`` (mean number of starts of a batch that had not converged when sweeps
        ended, nearly all with the default two sweeps), ``n_sweeps`` (mean number of sweeps) and, as
        of :class:`RBM`, what tells of tempered chains, ``log_likelihood`` and
        ``log_likelihood_std`` and, with early stopping, ``score``.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen in fit, if all are strings.

    See Also
    --------
    BernoulliRBM : Training by sampling.

    Notes
    -----
    The paper (Table 1) trains on binary MNIST with n_components 25, 50, 100 or 500,
    batch_size = n_starts = 100, learning_rate = 0.005, schedule = "constant", momentum = 0.5,
    alpha = 0.001, inference = ``TAP(max_iter=100, tol=1e-8)``, starts = "data", n_iter = 100,
    centered = False and average = False.

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

    _parameter_constraints: ClassVar[dict] = {
        **BaseRBM._parameter_constraints,
        "centered": ["boolean"],
        "average": ["boolean"],
        **UNIT_CONSTRAINTS,
        **FIXED_POINT_CONSTRAINTS,
        "optimizer": OPTIMIZER_CONSTRAINT,
    }

    def __init__(
        self,
        n_components=256,
        *,
        visible="bernoulli",
        hidden="bernoulli",
        inference="tap",
        starts="chains",
        n_starts=None,
        learning_rate=0.2,
        batch_size=50,
        n_iter=40,
        verbose=0,
        random_state=None,
        optimizer="sgd",
        momentum=0.5,
        alpha=0.005,
        penalty="l2",
        centered=True,
        average=True,
        schedule="linear",
        init="random",
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
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.verbose = verbose
        self.random_state = random_state
        self.optimizer = optimizer
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

    def _units(self):
        return units_of(self)

    def _own_fixed_point(self):
        return fixed_point_of(self)

    def _equations(self):
        """Return the equations, which few sweeps solve where chains have found the modes.

        Hidden units without bounds need more: their means are soon far from those of the chains.
        """
        method, hidden = fixed_point_of(self), unit_of(self, "hidden")
        is_bounded = isfinite(hidden.bounds[1] - hidden.bounds[0])
        if isinstance(self.inference, str) and self.starts in ("chains", "tempered") and is_bounded:
            return replace(method, max_iter=_SWEEPS_FROM_CHAINS)
        return method

    def _parts(self, rows=None):
        check_scale_known(rows)
        return Parts(
            FixedPointPhase(self._equations(), self.starts),
            optimizer_of(self),
            self.n_starts,
        )
